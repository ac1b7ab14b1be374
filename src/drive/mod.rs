//! The loop: look, plan, act, sleep. It may be stopped or killed anywhere: all state is in the logs.

pub mod environment;
mod journal;
mod local;
pub mod state;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::launch::{self, ScriptContext};
use crate::log::slot::Slot;
use crate::log::sweep::{self, Pair, Sweep};
use crate::log::{self, Fence, Log, LogError};
use crate::plan::{self, Action, Ledger, Sightings, Snapshot};
use crate::say::err;
use crate::scheduler::slurm::{Slurm, SlurmError};
use crate::scheduler::{Limits, Row, SubmitRefusal, Submitted};
use local::Local;
use state::{OpenSweep, RunsOn, StateError, SweepFile};

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
    /// Tasks of the next array at most, after SLURM refused a larger one for a limit on submitted jobs.
    fits: Option<u32>,
    /// No array before this moment of the watcher's clock.
    not_before: u64,
    /// Whether the last queue look had all that is held and carried.
    ask_history: bool,
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
        Ok(Self::with(sweep, slurm))
    }

    /// The same where SLURM has been opened and asked already; none: this machine.
    pub fn with(sweep: OpenSweep, slurm: Option<(Slurm, Limits)>) -> Self {
        let parallel = match &sweep.file.runs_on {
            RunsOn::Local(parallel) => *parallel,
            RunsOn::Slurm(_) => 1,
        };
        let (cluster, accounting) = match slurm {
            Some((slurm, limits)) => (Cluster::Slurm(slurm), limits.accounting),
            None => (Cluster::Local(Local::new(parallel, &sweep.dir)), false),
        };
        let mut journal = journal::Journal::new(&sweep.dir);
        let sightings = journal.last_sightings();
        Self {
            sweep,
            cluster,
            accounting,
            sightings,
            journal,
            fits: None,
            not_before: 0,
            ask_history: true,
        }
    }

    /// Looks, plans and acts once.
    pub async fn tick(&mut self) -> Result<Tick, DriveError> {
        #[cfg(feature = "abort-hook")]
        crate::trace::looks(&self.sweep.dir);
        let snapshot = self.look().await;
        self.sweep.refresh()?;
        let ledger = self.sweep.ledger();
        let mut policy = self.sweep.file.policy.clone();
        policy.max_array_size = policy.max_array_size.min(self.fits.unwrap_or(u32::MAX));
        let now = log::now();
        let plan = plan::plan(&policy, &ledger, &snapshot, &self.sightings, now);
        #[cfg(feature = "abort-hook")]
        {
            let before = (&self.sightings, now);
            crate::trace::plans(&mut self.sweep, &policy, &ledger, &snapshot, before, &plan);
        }
        self.ask_history = needs_history(&ledger, &snapshot);
        let mut tick = Tick { said: plan.reasons, acted: false, rows: self.own_rows(&snapshot) };
        self.sightings = plan.sightings;
        let mut opened = false;
        for action in plan.actions {
            // Below a limit that is felt for, one array at a time tells enough.
            let opens = matches!(action, Action::Open(_));
            if opens && opened && self.fits.is_some() {
                continue;
            }
            opened |= opens;
            let said = self.act(action, &ledger).await?;
            tick.acted |= !said.is_empty();
            tick.said.extend(said);
        }
        self.journal.write(&tick.said, &self.sightings);
        Ok(tick)
    }

    /// Accounting first, then the queue: what ended in between is seen as alive or not at all.
    async fn look(&mut self) -> Snapshot {
        let uid = rustix::process::getuid().as_raw();
        match &self.cluster {
            Cluster::Local(local) => {
                let queue = Some(local.queue(&self.jobs()));
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
                let queue = match slurm.queue().await {
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

    /// Array number, job, name and size of each array that has a job.
    fn jobs(&self) -> Vec<(u32, String, String, usize)> {
        let arrays = self.sweep.log.state.arrays.iter();
        arrays
            .filter_map(|(number, array)| match self.sweep.fences().get(number) {
                Some(Fence::Job(job)) => {
                    Some((*number, job.clone(), array.name.clone(), array.tasks.len()))
                }
                _ => None,
            })
            .collect()
    }

    fn own_rows(&self, snapshot: &Snapshot) -> Option<Vec<Row>> {
        let jobs = self.jobs();
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
                self.fits = self.fits.map(|fits| fits.saturating_mul(2));
                Ok(vec![format!("job {job}: array {number} with {tasks} tasks")])
            }
            Submitted::Refused { kind: SubmitRefusal::Limit, text } => {
                self.fence(number, Fence::Void(text.clone()))?;
                let next = (tasks as u32 / 2).max(1);
                // A minute, but in tests.
                let wait = later(self.sweep.file.policy.spans.gone);
                self.not_before = if tasks == 1 { wait } else { 0 };
                self.fits = Some(next);
                Ok(vec![format!(
                    "SLURM takes no {tasks} tasks now, a limit is reached ({text}); trying {next}"
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
        for sub in ["logs", "beats"] {
            std::fs::create_dir_all(dir.join(sub)).map_err(io)?;
        }
        let script = dir.join("script.sbatch");
        let text =
            launch::render(&script_context(&self.sweep.dir, &self.sweep.file, number, array))?;
        state::write_whole(&script, text.as_bytes()).map_err(io)?;
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
        let gone = Duration::from_secs(self.sweep.file.policy.spans.gone);
        // Tests shorten the spans, and wait for several looks in each.
        if cfg!(feature = "abort-hook") && gone < Duration::from_secs(5) {
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

    /// Kills what a local scheduler runs, without asking it to end.
    pub async fn kill(&self) {
        if let Cluster::Local(local) = &self.cluster {
            local.end_all(Duration::ZERO).await;
        }
    }
}

/// What the script of an array is made of.
pub fn script_context(
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
    let state_dir = dir.parent().and_then(Path::parent).unwrap_or(dir);
    ScriptContext {
        job_name: array.name.clone(),
        output: format!("{output}/%a.log"),
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
