//! The loop: look, plan, act, sleep. It may be stopped or killed anywhere: all state is in the logs.

pub mod environment;
mod journal;
mod local;
mod lock;
pub mod look;
mod room;
pub mod state;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::launch::logs::LogName;
use crate::launch::{self, ScriptContext};
use crate::log::slot::Slot;
use crate::log::sweep::{self, Pair, Sweep};
use crate::log::{self, Fence, Log, LogError};
use crate::plan::{self, Action, Ledger, Sightings, Snapshot};
use crate::say::err;
use crate::scheduler::slurm::{Slurm, SlurmError};
use crate::scheduler::{Limits, Row, SubmitRefusal, Submitted, limit_name};
use crate::settings::{Floors, SettingsError};
use local::Local;
pub use lock::{Holder, Lock, Turn};
use room::Room;
use state::{Around, OpenSweep, RunsOn, StateError, SweepFile};

/// How long the watcher tries to write to a file system that gives no clear answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why the loop ended before the sweep did.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The sweep's folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// A log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// What the site demands cannot be read.
    #[error(transparent)]
    Site(#[from] SettingsError),
    /// SLURM cannot be used at all.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// sbatch said no, for good.
    #[error("SLURM refuses the array: {text}")]
    Refused {
        /// What kind of no.
        kind: SubmitRefusal,
        /// sbatch's words.
        text: String,
    },
    /// The script cannot be made.
    #[error(transparent)]
    Render(#[from] launch::RenderError),
    /// A file cannot be written.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

enum Cluster {
    Slurm(Slurm),
    Local(Local),
}

/// What a tick came to.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    /// For people: what was seen and done.
    pub said: Vec<String>,
    /// Whether anything was done.
    pub acted: bool,
    /// Whether a limit of SLURM's was felt for, and the next tick comes closer to it.
    pub closing_in: bool,
    /// The queue's rows of this sweep; none if the look failed.
    pub rows: Option<Vec<Row>>,
}

/// A sweep under way.
pub struct Driver {
    /// The sweep.
    pub sweep: OpenSweep,
    cluster: Cluster,
    accounting: bool,
    sightings: Sightings,
    journal: journal::Journal,
    /// What a limit on submitted jobs leaves room for.
    room: Room,
    /// The limit that was last said to be reached.
    limit_said: Option<String>,
    /// Tasks of ours that were queued or running at the last look, and that were submitted since.
    queued: u32,
    /// No array before this moment of the watcher's clock.
    not_before: u64,
    /// Nor before this one, unless tasks of ours have ended: the room was full.
    full_until: u64,
    /// Whether the last queue look had all that is held and carried.
    ask_history: bool,
    /// How long it was to the last look.
    last_pause: std::cell::Cell<Duration>,
    /// What the site demands of watchers.
    floors: Floors,
    /// SLURM's programs that the last tick started.
    programs: u32,
}

impl Driver {
    /// Opens the scheduler that the sweep runs on.
    pub async fn new(sweep: OpenSweep) -> Result<Self, DriveError> {
        let slurm = match &sweep.file.runs_on {
            RunsOn::Local(_) => None,
            RunsOn::Slurm(name) => {
                let slurm = Slurm::new(name.clone()).await?;
                let limits = slurm.limits().await?;
                Some((slurm, limits))
            }
        };
        Ok(Self::with(sweep, slurm, Floors::of_this_machine()?))
    }

    /// The same where SLURM has been opened and asked already; none: this machine.
    pub fn with(sweep: OpenSweep, slurm: Option<(Slurm, Limits)>, floors: Floors) -> Self {
        let parallel = match &sweep.file.runs_on {
            RunsOn::Local(parallel) => *parallel,
            RunsOn::Slurm(_) => 1,
        };
        let (cluster, accounting) = match slurm {
            Some((slurm, limits)) => (Cluster::Slurm(slurm), limits.accounting),
            None => (Cluster::Local(Local::new(parallel, &sweep.dir)), false),
        };
        let mut journal = journal::Journal::new(&sweep.dir, &sweep.file.nonce);
        let sightings = journal.last_sightings();
        Self {
            sweep,
            cluster,
            accounting,
            sightings,
            journal,
            room: Room::default(),
            limit_said: None,
            queued: 0,
            not_before: 0,
            full_until: 0,
            ask_history: true,
            last_pause: Default::default(),
            floors,
            programs: 0,
        }
    }

    /// A hand on the lock of the sweep, for who is going to watch.
    pub fn lock(&self) -> Lock {
        let gone = Duration::from_secs(self.sweep.file.policy.spans.gone);
        let local = matches!(self.cluster, Cluster::Local(_));
        let beat = match local {
            _ if are_short(gone) => Duration::from_secs(1),
            true => Duration::from_secs(5),
            // Three of them are more than an NFS client may go on showing an old folder.
            false => Duration::from_secs(30),
        };
        Lock::new(&self.sweep.dir, beat, local)
    }

    /// Goes on where another watcher left off: what its looks did not see counts on.
    pub fn take_over(&mut self) {
        self.sightings = self.journal.last_sightings();
        self.ask_history = true;
    }

    /// Looks, plans and acts once.
    pub async fn tick(&mut self) -> Result<Tick, DriveError> {
        let before = self.programs_started();
        let tick = self.look_plan_act().await;
        self.programs = self.programs_started().saturating_sub(before);
        tick
    }

    fn programs_started(&self) -> u32 {
        match &self.cluster {
            Cluster::Slurm(slurm) => slurm.programs_started(),
            Cluster::Local(_) => 0,
        }
    }

    async fn look_plan_act(&mut self) -> Result<Tick, DriveError> {
        #[cfg(feature = "abort-hook")]
        crate::trace::looks(&self.sweep.dir);
        let snapshot = self.look().await;
        self.sweep.refresh()?;
        let ledger = self.sweep.ledger();
        let mut policy = self.sweep.file.policy.clone();
        let rows = self.own_rows(&snapshot);
        let alive = rows.iter().flatten().filter(|row| row.state.is_alive());
        self.queued = alive.map(|row| row.tasks.len()).sum::<usize>() as u32;
        let fits = self.room.fits(self.queued);
        let full = self.room.is_full(self.queued) && log::now() < self.full_until;
        policy.max_array_size = policy.max_array_size.min(fits.unwrap_or(u32::MAX));
        if matches!(self.cluster, Cluster::Slurm(_)) {
            // The site may have lowered it since this sweep was submitted.
            policy.jobs = self.floors.tasks(policy.jobs);
        }
        let now = log::now();
        let plan = plan::plan(&policy, &ledger, &snapshot, &self.sightings, now);
        #[cfg(feature = "abort-hook")]
        {
            let before = (&self.sightings, now);
            crate::trace::plans(&mut self.sweep, &policy, &ledger, &snapshot, before, &plan);
        }
        self.ask_history = needs_history(&ledger, &snapshot);
        let mut tick = Tick { said: plan.reasons, rows, ..Tick::default() };
        self.sightings = plan.sightings;
        let mut opened = false;
        for action in plan.actions {
            // Below a limit that is felt for, one array at a time tells enough.
            let opens = matches!(action, Action::Open(_));
            if opens && (full || (opened && self.room.is_felt())) {
                continue;
            }
            opened |= opens;
            let entries = self.sweep.log.next;
            let said = self.act(action, &ledger).await?;
            // A refusal that is nothing new to people is an act all the same: the next, smaller try follows at once.
            let appended = opens && self.sweep.log.next > entries;
            tick.acted |= !said.is_empty() || appended;
            tick.closing_in |= appended && self.room.is_felt() && log::now() >= self.not_before;
            tick.said.extend(said);
        }
        self.journal.write(&tick.said, &self.sightings, self.sweep.take_fresh());
        Ok(tick)
    }

    /// Accounting first, then the queue: what ended in between is seen as alive or not at all.
    async fn look(&mut self) -> Snapshot {
        let uid = rustix::process::getuid().as_raw();
        match &self.cluster {
            Cluster::Local(local) => {
                let queue = Some(local.queue(&self.sweep.jobs()));
                Snapshot { queue, history: None, accounting: false, uid }
            }
            // No array yet: nothing of ours can be there.
            Cluster::Slurm(_) if self.sweep.log.state.arrays.is_empty() => Snapshot {
                queue: Some(Vec::new()),
                history: Some(Vec::new()),
                accounting: self.accounting,
                uid,
            },
            Cluster::Slurm(slurm) => {
                let mut history = None;
                if self.accounting && self.ask_history {
                    let names: Vec<String> = self
                        .sweep
                        .log
                        .state
                        .arrays
                        .iter()
                        .map(|(_, array)| array.name.clone())
                        .collect();
                    // A day more: clocks of two machines may differ, and only names of ours are asked for.
                    let since = self.sweep.file.created.saturating_sub(86_400);
                    let since = std::time::UNIX_EPOCH + Duration::from_secs(since);
                    history = slurm.history(&names, since).await.ok();
                }
                let jobs = self.sweep.jobs();
                let arrays = &self.sweep.log.state.arrays;
                let rows = slurm.queue().await.and_then(|queue| {
                    if let Some(rows) = queue.whole() {
                        let every = self.last_pause.get();
                        look::keep(self.sweep.state_dir(), self.sweep.cluster(), rows, every);
                    }
                    queue.rows_for(
                        jobs.iter().map(|(_, job, ..)| job.as_str()),
                        arrays.iter().map(|(_, array)| array.name.as_str()),
                    )
                });
                let queue = match rows {
                    Ok(rows) => Some(rows),
                    Err(error) => {
                        err!("sweepctl: {error}; looking again later");
                        None
                    }
                };
                Snapshot { queue, history, accounting: self.accounting, uid }
            }
        }
    }

    fn own_rows(&self, snapshot: &Snapshot) -> Option<Vec<Row>> {
        let jobs = self.sweep.jobs();
        snapshot.queue.as_ref().map(|rows| {
            let own = |row: &&Row| {
                jobs.iter().any(|(_, job, name, _)| *job == row.job.as_str() && *name == row.name)
            };
            rows.iter().filter(own).cloned().collect()
        })
    }

    /// Does one thing; answers what was done, for people.
    ///
    /// `ledger` is what was planned on: where a log has moved on since, nothing is appended, and the next plan
    /// judges anew.
    async fn act(&mut self, action: Action, ledger: &Ledger) -> Result<Vec<String>, DriveError> {
        let one = |text: String| Ok(vec![text]);
        match action {
            Action::Open(array) => self.open(array).await,
            Action::Adopt(number, job) => {
                let fence = self.fence(number, Fence::Job(job.to_string()))?;
                if fence != Fence::Job(job.to_string()) {
                    self.cancel(&[job.to_string()], false).await;
                }
                one(format!("array {number} is job {job}"))
            }
            Action::Void(number, why) => {
                self.fence(number, Fence::Void(why.clone()))?;
                one(format!("array {number} is void: {why}"))
            }
            Action::Slot(slot, entry) => {
                let dir = self.sweep.dir.clone();
                let Some(view) = self.sweep.slot_view(slot) else { return Ok(Vec::new()) };
                let Some(judged) = ledger.slots.get(slot as usize) else { return Ok(Vec::new()) };
                let log = Log::of_slot(&dir, slot);
                let done = log
                    .append(view, PATIENCE, |now: &Slot| (now == judged).then(|| entry.clone()))?;
                Ok(if done { vec![format!("slot {slot}: {}", words(&entry))] } else { Vec::new() })
            }
            Action::Sweep(entry) => {
                let log = Log::of_sweep(&self.sweep.dir);
                let done = log.append(&mut self.sweep.log, PATIENCE, |now: &Sweep| {
                    (*now == ledger.sweep).then(|| entry.clone())
                })?;
                Ok(match (&entry, done) {
                    (_, false) => Vec::new(),
                    (sweep::Entry::Pause { why, .. }, _) => vec![format!("paused: {why}")],
                    (sweep::Entry::Closed, _) => vec!["the sweep has ended".to_owned()],
                    (entry, _) => vec![format!("{entry:?}")],
                })
            }
            Action::Scancel { targets, pending_only } => {
                self.cancel(&targets, pending_only).await;
                one(format!("cancelled {} tasks", targets.len()))
            }
            Action::Hold(job) => {
                match &self.cluster {
                    Cluster::Local(local) => local.hold(&job, true),
                    Cluster::Slurm(slurm) => warn(slurm.hold(&job).await),
                }
                one(format!("holds what is pending of job {job}"))
            }
            Action::Release(job) => {
                match &self.cluster {
                    Cluster::Local(local) => local.hold(&job, false),
                    Cluster::Slurm(slurm) => warn(slurm.release(&job).await),
                }
                one(format!("lets job {job} go on"))
            }
            Action::Throttle(job, limit) => {
                if let Cluster::Slurm(slurm) = &self.cluster {
                    warn(slurm.throttle(&job, limit).await);
                }
                one(match limit {
                    0 => format!("job {job}: no limit on running tasks any more"),
                    _ => format!("job {job}: {limit} tasks at a time"),
                })
            }
        }
    }

    async fn cancel(&self, targets: &[String], pending_only: bool) {
        match &self.cluster {
            Cluster::Local(local) => local.cancel(targets, pending_only),
            Cluster::Slurm(slurm) => warn(slurm.cancel(targets, pending_only).await),
        }
    }

    fn fence(&mut self, array: u32, fence: Fence) -> Result<Fence, DriveError> {
        let now = log::set_fence(&self.sweep.dir, array, fence, PATIENCE)?;
        self.sweep.note_fence(array, now.clone());
        Ok(now)
    }

    /// §5: append the array to the sweep log, write its script, submit it, make its fence.
    async fn open(&mut self, array: sweep::Array) -> Result<Vec<String>, DriveError> {
        if log::now() < self.not_before {
            return Ok(Vec::new());
        }
        let Some((number, array)) = self.append_array(array)? else { return Ok(Vec::new()) };
        let script = self.write_script(number, &array)?;
        Log::of_sweep(&self.sweep.dir).read_on(&mut self.sweep.log)?;
        let fenced = log::read_fence(&self.sweep.dir, number)?.is_some();
        if fenced || self.sweep.log.state.stopped() {
            return Ok(vec![format!("array {number} was voided before it was submitted")]);
        }
        let env = environment::of_sweep(&self.sweep.dir)
            .map_err(|source| DriveError::Io { what: "the saved environment".into(), source })?;
        let folder = self.sweep.file.folder.clone();
        let tasks = array.tasks.len();
        let submitted = match &self.cluster {
            Cluster::Local(local) => {
                Submitted::Accepted(local.submit(number, &array.name, tasks, &script, env, &folder))
            }
            Cluster::Slurm(slurm) => {
                let limit = match array.throttle {
                    0 => String::new(),
                    limit => format!("%{limit}"),
                };
                let mut chdir = std::ffi::OsString::from("--chdir=");
                chdir.push(&folder);
                let args = [format!("--array=0-{}{limit}", tasks - 1).into(), chdir];
                slurm.submit(&args, &script, env, &folder).await
            }
        };
        self.submitted(number, tasks, submitted).await
    }

    async fn submitted(
        &mut self,
        number: u32,
        tasks: usize,
        submitted: Submitted,
    ) -> Result<Vec<String>, DriveError> {
        let later = |seconds: u64| log::now() + seconds;
        #[cfg(feature = "abort-hook")]
        crate::trace::answer(&self.sweep.dir, number, &submitted);
        match submitted {
            Submitted::Accepted(job) => {
                let fence = self.fence(number, Fence::Job(job.to_string()))?;
                if fence != Fence::Job(job.to_string()) {
                    self.cancel(&[job.to_string()], false).await;
                    return Ok(vec![format!("job {job} came too late and was cancelled")]);
                }
                let full = self.room.taken(tasks as u32, self.queued);
                self.wait_for_room(full);
                self.queued += tasks as u32;
                let s = if tasks == 1 { "" } else { "s" };
                Ok(vec![format!("job {job}: array {number} with {tasks} task{s}")])
            }
            Submitted::Refused { kind: SubmitRefusal::Limit, text } => {
                self.fence(number, Fence::Void(text.clone()))?;
                let full = self.room.refused(tasks as u32, self.queued);
                self.wait_for_room(full);
                let limit = limit_name(&text);
                if self.limit_said.as_ref() == Some(&limit) {
                    return Ok(Vec::new());
                }
                self.limit_said = Some(limit.clone());
                Ok(vec![format!(
                    "SLURM takes no {tasks} tasks of yours at once ({limit}): queueing what it takes, and more when others have ended"
                )])
            }
            Submitted::Refused { kind, text } => {
                self.fence(number, Fence::Void(text.clone()))?;
                Err(DriveError::Refused { kind, text })
            }
            Submitted::NotSent { text } => {
                self.fence(number, Fence::Void(text.clone()))?;
                self.not_before = later(15);
                Ok(vec![format!("slurmctld cannot be reached ({text}); trying again")])
            }
            Submitted::NoAnswer { text } => {
                // Our sbatch is gone, so what it sent has arrived or never will, but for a slow slurmctld.
                self.sightings.void_from.insert(number, later(30));
                self.not_before = later(15);
                Ok(vec![format!(
                    "sbatch gave no answer ({text}); SLURM may have the job all the same, looking for it"
                )])
            }
        }
    }

    fn wait_for_room(&mut self, full: bool) {
        if full {
            // A minute, but in tests.
            let wait = self.sweep.file.policy.spans.gone;
            self.not_before = log::now() + wait;
            self.full_until = log::now() + wait * room::LONGER;
        }
    }

    /// Appends the array unless somebody else's array carries one of its pairs by now.
    fn append_array(
        &mut self,
        array: sweep::Array,
    ) -> Result<Option<(u32, sweep::Array)>, DriveError> {
        let file = &self.sweep.file;
        let token = log::base36(u128::from(log::stable_hash(&[&file.nonce, &log::nonce()])), 10);
        let array = sweep::Array { name: format!("{}-{token}", file.policy.job_name), ..array };
        let wanted: std::collections::BTreeSet<Pair> =
            array.tasks.iter().flatten().copied().collect();
        let fences = self.sweep.fences().clone();
        let known = self.sweep.log.state.arrays.len();
        let done = Log::of_sweep(&self.sweep.dir).append(
            &mut self.sweep.log,
            PATIENCE,
            |sweep: &Sweep| {
                let carried = sweep.arrays.iter().any(|(number, other)| {
                    !matches!(fences.get(number), Some(Fence::Void(_)))
                        && other.tasks.iter().flatten().any(|pair| wanted.contains(pair))
                });
                // Another watcher's array was not counted when this one was planned: --jobs and --parallel may be full.
                let planned = sweep.arrays.len() == known;
                (planned && !carried && !sweep.stopped())
                    .then(|| sweep::Entry::Array(array.clone()))
            },
        )?;
        Ok(done.then(|| (self.sweep.log.next - 1, array)))
    }

    fn write_script(&self, number: u32, array: &sweep::Array) -> Result<PathBuf, DriveError> {
        let dir = self.sweep.dir.join("arrays").join(number.to_string());
        let io =
            |source| DriveError::Io { what: format!("cannot write {}", dir.display()), source };
        // The array's fence will be there too.
        log::create_folder(&dir).map_err(io)?;
        for sub in ["logs", "beats"] {
            std::fs::create_dir_all(dir.join(sub)).map_err(io)?;
        }
        for name in [logs(&self.sweep.file, |a| &a.output), logs(&self.sweep.file, |a| &a.error)] {
            if let Some(folder) = name.map(|name| name.folder_from(&self.sweep.file.folder)) {
                std::fs::create_dir_all(&folder).map_err(|source| DriveError::Io {
                    what: format!("cannot make the folder of logs {}", folder.display()),
                    source,
                })?;
            }
        }
        let script = dir.join("script.sbatch");
        let text = render_script(&self.sweep.dir, &self.sweep.file, number, array)?;
        // sbatch reads it now, and an array is never submitted twice.
        state::replace_whole(&script, text.as_bytes()).map_err(io)?;
        Ok(script)
    }

    /// How many slots wait for an array.
    pub fn left_to_queue(&mut self) -> Result<usize, DriveError> {
        self.sweep.refresh()?;
        let fences = self.sweep.fences();
        let arrays = &self.sweep.log.state.arrays;
        let live = arrays.iter().filter(|(n, _)| !matches!(fences.get(n), Some(Fence::Void(_))));
        let carried: std::collections::BTreeSet<Pair> =
            live.flat_map(|(_, array)| array.tasks.iter().flatten().copied()).collect();
        let slots = self.sweep.slots().enumerate();
        let open = slots.filter(|(number, slot)| {
            slot.phase == log::slot::Phase::Open
                && !carried.contains(&Pair(*number as u32, slot.attempt))
        });
        Ok(open.count())
    }

    /// Seconds until the next look is worth its cost, by how fast things change.
    pub fn pause_after(&self, quiet_ticks: u32) -> Duration {
        let pause = self.pause(quiet_ticks).max(self.least_pause());
        self.last_pause.set(pause);
        pause
    }

    /// How long the site wants a watcher to rest, whatever there is to do.
    pub fn least_pause(&self) -> Duration {
        match &self.cluster {
            Cluster::Slurm(_) => self.floors.least_pause(self.programs),
            Cluster::Local(_) => Duration::ZERO,
        }
    }

    /// Rests until the site allows another look after the last one of anybody on this machine.
    pub async fn rest_since_last_look(&self) {
        // One look is one program.
        let least = self.floors.least_pause(1);
        let since = look::since_last(self.sweep.state_dir(), self.sweep.cluster());
        if let Some(rest) = since.and_then(|since| least.checked_sub(since)) {
            err!("this site allows the next look in {} s", rest.as_secs());
            self.rest(rest).await;
        }
    }

    fn pause(&self, quiet_ticks: u32) -> Duration {
        let gone = Duration::from_secs(self.sweep.file.policy.spans.gone);
        if are_short(gone) {
            return gone;
        }
        match (&self.cluster, quiet_ticks) {
            (Cluster::Local(_), _) => Duration::from_secs(1),
            (_, 0..=2) if !self.sweep.log.state.warm => Duration::from_secs(5),
            (_, quiet) => {
                Duration::from_secs(15).saturating_mul(1 + quiet / 4).min(Duration::from_secs(120))
            }
        }
    }

    /// Sleeps until the next look; a local scheduler starts and reaps tasks meanwhile.
    pub async fn rest(&self, span: Duration) {
        let Cluster::Local(local) = &self.cluster else { return tokio::time::sleep(span).await };
        let until = tokio::time::Instant::now() + span;
        while tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
            if local.pump() {
                return;
            }
        }
    }

    /// Ends what a local scheduler runs; jobs of SLURM go on.
    pub async fn let_go(&self) {
        if let Cluster::Local(local) = &self.cluster {
            local.end_all(Duration::from_secs(50)).await;
        }
    }

    /// Opens again what this process ran and has ended: its tasks are dead, and who interrupts a watcher takes no
    /// attempt from them.
    pub fn give_back(&mut self) -> Result<(), DriveError> {
        let Cluster::Local(local) = &self.cluster else { return Ok(()) };
        self.sweep.refresh()?;
        let dir = self.sweep.dir.clone();
        for slot in 0..self.sweep.budget() {
            let Some(view) = self.sweep.slot_view(slot) else { continue };
            let Some(holder) = view.state.holder().filter(|holder| local.has(&holder.who.job))
            else {
                continue;
            };
            let claim = holder.who.claim.clone();
            let lost = log::slot::Entry::Lost {
                why: "its watcher was interrupted".to_owned(),
                leg: holder.who.leg,
                run: None,
                interrupted: true,
            };
            Log::of_slot(&dir, slot)
                .append(view, PATIENCE, |now: &Slot| now.held_by(&claim).then(|| lost.clone()))?;
        }
        Ok(())
    }

    /// Opens again what is proved to be dead, and does nothing else; answers what was done, for people.
    ///
    /// Only what this look shows counts, never what earlier ones did not see: somebody may be watching elsewhere.
    pub async fn take_back(&mut self) -> Result<Vec<String>, DriveError> {
        let snapshot = self.look().await;
        self.sweep.refresh()?;
        let ledger = self.sweep.ledger();
        let policy = &self.sweep.file.policy;
        let plan = plan::plan(policy, &ledger, &snapshot, &Sightings::default(), log::now());
        let mut said = Vec::new();
        for action in plan.actions {
            if matches!(action, Action::Slot(..)) {
                said.extend(self.act(action, &ledger).await?);
            }
        }
        Ok(said)
    }

    /// Kills what a local scheduler runs, without asking it to end.
    pub async fn kill(&self) {
        if let Cluster::Local(local) = &self.cluster {
            local.end_all(Duration::ZERO).await;
        }
    }
}

/// The script of an array.
pub fn render_script(
    dir: &Path,
    file: &SweepFile,
    number: u32,
    array: &sweep::Array,
) -> Result<String, launch::RenderError> {
    launch::render(&script_context(dir, file, number, array), file.template.as_deref())
}

/// Tests shorten the spans, and wait for several looks in each.
fn are_short(span: Duration) -> bool {
    cfg!(feature = "abort-hook") && span < Duration::from_secs(5)
}

/// A log's name of the user's own. One that cannot be read was refused by `submit`.
pub fn logs(file: &SweepFile, which: impl Fn(&Around) -> &Option<String>) -> Option<LogName> {
    let user = std::env::var("USER").unwrap_or_default();
    LogName::read(which(&file.around).as_ref()?, &file.policy.job_name, &user).ok()
}

/// What the script of an array is made of.
fn script_context(
    dir: &Path,
    file: &SweepFile,
    number: u32,
    array: &sweep::Array,
) -> ScriptContext {
    // Relative to the job's folder where it can be, as it is shorter. SLURM would put that folder in front and
    // replace a `%j` in it too, so then it is not.
    let replaced = file.folder.to_string_lossy().contains('%');
    let output = match dir.strip_prefix(&file.folder) {
        Ok(inside) if !replaced => inside,
        _ => dir,
    };
    let output = output.join("arrays").join(number.to_string()).join("logs");
    let output = output.to_string_lossy().replace('%', "%%");
    let state_dir = state::state_dir_of(dir);
    ScriptContext {
        job_name: array.name.clone(),
        output: logs(file, |around| &around.output)
            .map_or_else(|| format!("{output}/%a.log"), |name| name.pattern),
        error: logs(file, |around| &around.error).map(|name| name.pattern),
        requeue: file.requeue,
        options: file.options.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sweep: file.name.clone(),
        array: number,
        sweep_dir: dir.to_string_lossy().into_owned(),
        bin_dir: state_dir
            .join("bin")
            .join(env!("CARGO_PKG_VERSION"))
            .to_string_lossy()
            .into_owned(),
        count: file.policy.runs_per_job,
        agents: file.around.agents.map(|agents| agents.to_string()).unwrap_or_default(),
        shell: file.around.shell.clone(),
        set_up: file.around.set_up.clone(),
        teardown: file.around.teardown.clone(),
    }
}

fn warn(result: Result<(), SlurmError>) {
    if let Err(error) = result {
        err!("sweepctl: {error}");
    }
}

fn words(entry: &log::slot::Entry) -> String {
    use log::slot::Entry;
    match entry {
        Entry::Record(record) => format!(
            "{:?}, as {} says",
            record.outcome,
            record.seen_by.as_deref().unwrap_or("the job")
        ),
        Entry::Lost { why, .. } => format!("open again, its task is dead ({why})"),
        Entry::Revoke { why, .. } => format!("open again: {why}"),
        Entry::Close { why } => format!("closed: {why}"),
        other => format!("{other:?}"),
    }
}

/// Whether a holder, or an attempt that waits, is not seen alive: only accounting can say more.
fn needs_history(ledger: &plan::Ledger, snapshot: &Snapshot) -> bool {
    let Some(rows) = &snapshot.queue else { return true };
    let alive: std::collections::BTreeSet<(&str, u32)> = rows
        .iter()
        .filter(|row| row.state.is_alive())
        .flat_map(|row| row.tasks.iter().map(|task| (row.job.as_str(), *task)))
        .collect();
    let unresolved =
        ledger.sweep.arrays.iter().any(|(number, _)| !ledger.fences.contains_key(number));
    let lost_holder = ledger
        .slots
        .iter()
        .filter_map(Slot::holder)
        .any(|holder| !alive.contains(&(holder.who.job.as_str(), holder.who.task)));
    let open: std::collections::BTreeSet<Pair> = ledger
        .slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.phase == log::slot::Phase::Open)
        .map(|(number, slot)| Pair(number as u32, slot.attempt))
        .collect();
    let gone = ledger.sweep.arrays.iter().any(|(number, array)| {
        let Some(Fence::Job(job)) = ledger.fences.get(number) else { return false };
        array.tasks.iter().enumerate().any(|(task, pairs)| {
            pairs.iter().any(|pair| open.contains(pair))
                && !alive.contains(&(job.as_str(), task as u32))
        })
    });
    unresolved || lost_holder || gone
}
