//! Follows traces of real sweeps: each order of events that a real SLURM made must be one that the sim can make.
//!
//! A trace (`tests/support/traces.rs` writes it) has the entries of all logs in their order, what each watcher saw and
//! read, and what sbatch answered. What slurmctld and the nodes did between, nobody wrote down: it is guessed, and
//! may be anything that the sim can do and that the watchers' looks show. A task's next entry must be the one that its
//! process in the sim writes next; a watcher's must be the next one of what the real `plan()` makes of its look.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::watcher::{Sbatch, Watcher};
use super::*;
use crate::plan::{Action, Sightings};
use crate::scheduler::expand_tasks;

/// Seconds that a task may go by what it read of the sweep log: the entry that it decides on is written much sooner.
const A_MOMENT: u64 = 5;

#[derive(Deserialize)]
struct Header {
    slurm: String,
    budget: u32,
    policy: Policy,
}

/// A line of a trace, after the first.
#[derive(Deserialize)]
struct Line {
    at: u64,
    by: String,
    /// An entry, and of which log.
    log: Option<String>,
    entry: Option<Value>,
    /// A plan, and what it was made from; a line with nothing of all this is the start of its look.
    plans: Option<Seen>,
    /// The array that sbatch was called for, what it said, and the job.
    sbatch: Option<u32>,
    answer: Option<String>,
    job: Option<String>,
}

/// All that a plan was made from.
#[derive(Clone, Deserialize)]
struct Seen {
    now: u64,
    queue: Option<Vec<QueueRow>>,
    history: Option<Vec<AccountRow>>,
    accounting: bool,
    uid: u32,
    read: Read,
    beats: Vec<(u32, u32, u32, String)>,
    /// The sweep's, if that is not in force as it was submitted.
    policy: Option<Policy>,
    /// What it knew of earlier looks, if not from its own last plan.
    before: Option<Sightings>,
}

/// How far each log was read, and which fences.
#[derive(Clone, Deserialize)]
struct Read {
    log: usize,
    slots: Vec<usize>,
    fences: Vec<u32>,
}

#[derive(Clone, Deserialize)]
struct QueueRow {
    job: String,
    tasks: String,
    state: String,
    reason: String,
    name: String,
    throttle: Option<u32>,
    restarts: u32,
}

#[derive(Clone, Deserialize)]
struct AccountRow {
    job: String,
    tasks: String,
    whole: bool,
    state: String,
    exit: (i32, i32),
    name: String,
    leg: u32,
}

/// An entry of any log.
#[derive(Clone, Debug)]
enum Entry {
    Sweep(sweep::Entry),
    Slot(u32, slot::Entry),
    Fence(u32, Fence),
}

impl Entry {
    fn read(log: &str, entry: &Value) -> Result<Self, String> {
        let strange = |error: serde_json::Error| format!("{entry}: {error}");
        let number = |text: &str| text.parse().map_err(|_| format!("no log: {log}"));
        match log.split_once(' ') {
            None => Ok(Self::Sweep(Deserialize::deserialize(entry).map_err(strange)?)),
            Some(("slot", slot)) => {
                Ok(Self::Slot(number(slot)?, Deserialize::deserialize(entry).map_err(strange)?))
            }
            Some((_, array)) => {
                Ok(Self::Fence(number(array)?, Deserialize::deserialize(entry).map_err(strange)?))
            }
        }
    }

    /// What must be the same in the sim and in reality: not words, times and hosts.
    fn gist(&self) -> String {
        match self {
            Self::Sweep(sweep::Entry::Array(array)) => {
                let sweep::Array { tasks, throttle, throttle_warm, .. } = array;
                format!("array {tasks:?}, {throttle} at a time, {throttle_warm} once warm")
            }
            Self::Sweep(sweep::Entry::Pause { breaker, .. }) => format!("pause, breaker {breaker}"),
            Self::Sweep(sweep::Entry::Cancel { kill, .. }) => format!("cancel, kill {kill}"),
            Self::Sweep(entry) => format!("{entry:?}"),
            Self::Fence(array, Fence::Void(_)) => format!("array {array} is void"),
            Self::Fence(array, Fence::Job(job)) => format!("array {array} is job {job}"),
            Self::Slot(slot, entry) => format!("slot {slot}: {}", slot_gist(entry)),
        }
    }
}

fn slot_gist(entry: &slot::Entry) -> String {
    use slot::Entry::{Claim, Close, Late, Lost, Note, Record, Release, Revoke, Run};
    match entry {
        Claim { attempt, who, run } => format!("claim of {attempt} by {who:?}, {run:?}"),
        Run { .. } => "run".to_owned(),
        Note { .. } => "note".to_owned(),
        Record(end) => {
            let by = if end.seen_by.is_some() { "watcher" } else { "task" };
            format!("record of a {by}: {:?}, counts {}", end.outcome, end.counts)
        }
        Late(end) => format!("late: {:?}", end.outcome),
        Release { early, .. } => format!("release, early {early}"),
        Lost { leg, .. } => format!("leg {leg} is lost"),
        Revoke { attempt, unstarted, .. } => format!("revoke of {attempt}, unstarted {unstarted}"),
        Close { .. } => "close".to_owned(),
    }
}

impl Seen {
    /// How many tasks have ended, and how many have started.
    fn progress(&self) -> (usize, usize) {
        let count = |wanted: &dyn Fn(State) -> bool| {
            let rows = self.queue.iter().flatten();
            let rows = rows.filter(|row| wanted(State::parse(&row.state)));
            rows.map(|row| tasks_of(&row.tasks).len()).sum()
        };
        (count(&|state| !state.is_alive()), count(&|state| !state.is_pending()))
    }

    fn snapshot(&self) -> Snapshot {
        let queue = self.queue.as_ref().map(|rows| rows.iter().map(QueueRow::row).collect());
        let history = self.history.as_ref().map(|rows| rows.iter().map(AccountRow::row).collect());
        Snapshot { queue, history, accounting: self.accounting, uid: self.uid }
    }
}

fn tasks_of(text: &str) -> Vec<u32> {
    expand_tasks(text).map(|(tasks, _)| tasks).unwrap_or_default()
}

impl QueueRow {
    fn row(&self) -> Row {
        Row {
            job: JobId::from(self.job.as_str()),
            tasks: tasks_of(&self.tasks),
            state: State::parse(&self.state),
            reason: self.reason.clone(),
            name: self.name.clone(),
            throttle: self.throttle,
            restarts: self.restarts,
            start: None,
            node: None,
        }
    }
}

impl AccountRow {
    fn row(&self) -> HistoryRow {
        HistoryRow {
            job: JobId::from(self.job.as_str()),
            task: None,
            tasks: tasks_of(&self.tasks),
            whole_array: self.whole,
            state: State::parse(&self.state),
            exit: self.exit,
            name: self.name.clone(),
            leg: self.leg,
            start: None,
            end: None,
            node: None,
        }
    }
}

impl<F: Fold> Book<F> {
    fn at(&self, length: usize, what: &str) -> Result<F, String> {
        let entries = self.entries.get(..length);
        let entries = entries.ok_or_else(|| format!("{what} was read before it was written"))?;
        let mut state = F::default();
        for (number, entry) in entries.iter().enumerate() {
            state.apply(number as u32, entry, 0)?;
        }
        Ok(state)
    }
}

/// Whose task a process is: array, job, task, leg.
type Who = (u32, String, u32, u32);

struct Replay {
    sim: Sim,
    watchers: BTreeMap<String, usize>,
    /// Of processes that claim anything.
    tasks: BTreeMap<String, Who>,
    /// Looks under way: slurmctld answers at some moment of each, and nothing of it is left then.
    looks: BTreeMap<String, Option<Seen>>,
    /// When the sweep was last stopped, and when it became warm.
    stopped_at: u64,
    warm_at: u64,
}

/// Follows a trace; an error says which line the sim cannot make, and why.
pub(super) fn follow(text: &str) -> Result<(), String> {
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next().unwrap_or_default())
        .map_err(|error| error.to_string())?;
    if header.slurm.is_empty() {
        return Err("it does not say which Slurm made it".to_owned());
    }
    let lines =
        lines.map(|line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}")));
    let lines: Vec<Line> = lines.collect::<Result<_, String>>()?;
    let mut replay = Replay::new(header, &lines);
    for (number, line) in lines.iter().enumerate() {
        let rest = &lines[number + 1..];
        // The sim's own assertions too: what they refuse is no order that it can make.
        let done = catch_unwind(AssertUnwindSafe(|| {
            replay.line(line, rest)?;
            replay.sim.check();
            Ok(())
        }));
        let done = done.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text
                .or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_default())
        });
        done.map_err(|why: String| format!("line {}: {why}", number + 2))?;
    }
    Ok(())
}

impl Replay {
    fn new(header: Header, lines: &[Line]) -> Self {
        let mut sim = Sim::new(header.policy, header.budget);
        sim.watchers.clear();
        // When tasks start and end is known by looks alone, so limits cannot be held against it.
        (sim.follows, sim.loose, sim.now) = (true, true, 0);
        let mut tasks = BTreeMap::new();
        for line in lines {
            if let (Some(log), Some(entry)) = (&line.log, &line.entry)
                && let Ok(Entry::Slot(_, slot::Entry::Claim { who, .. })) = Entry::read(log, entry)
            {
                tasks.entry(line.by.clone()).or_insert((who.array, who.job, who.task, who.leg));
            }
        }
        let (watchers, looks) = (BTreeMap::new(), BTreeMap::new());
        Self { sim, watchers, tasks, looks, stopped_at: 0, warm_at: 0 }
    }

    fn line(&mut self, line: &Line, rest: &[Line]) -> Result<(), String> {
        self.sim.now = self.sim.now.max(line.at);
        self.try_looks();
        if let (Some(log), Some(entry)) = (&line.log, &line.entry) {
            return self.entry(&line.by, Entry::read(log, entry)?);
        }
        if let Some(seen) = &line.plans {
            return self.plans(&line.by, seen);
        }
        if let (Some(array), Some(answer)) = (line.sbatch, &line.answer) {
            return self.answer(&line.by, array, answer, &line.job);
        }
        let mut later = rest.iter().filter(|later| later.by == line.by);
        if let Some(seen) = later.find_map(|later| later.plans.clone()) {
            self.looks.insert(line.by.clone(), Some(seen));
            self.try_looks();
        }
        Ok(())
    }

    // ---- looks ----

    /// Lets slurmctld answer where what it shows can be so by now.
    fn try_looks(&mut self) {
        let mut looks = std::mem::take(&mut self.looks);
        // Of two that can be, that one came first which shows fewer ends, or fewer starts.
        let mut waiting: Vec<&mut Option<Seen>> = looks.values_mut().collect();
        waiting.sort_by_key(|seen| seen.as_ref().map(Seen::progress));
        for seen in waiting {
            *seen = seen.take().filter(|seen| self.show(seen).is_err());
        }
        self.looks = looks;
    }

    /// Brings the cluster to where it shows this, if it can get there from where it is.
    fn show(&mut self, seen: &Seen) -> Result<(), String> {
        let before = self.sim.clone();
        let done = self.show_queue(seen);
        if done.is_err() {
            self.sim = before;
        }
        done
    }

    fn show_queue(&mut self, seen: &Seen) -> Result<(), String> {
        let Some(rows) = &seen.queue else { return Ok(()) };
        for row in rows {
            self.job(&row.job, &row.name)?;
        }
        for job in 0..self.sim.jobs.len() {
            let mut shown = BTreeMap::new();
            for row in rows.iter().filter(|row| row.job == self.sim.jobs[job].id) {
                let state = State::parse(&row.state);
                shown.extend(
                    tasks_of(&row.tasks)
                        .into_iter()
                        .map(|task| (task, (state.clone(), row.restarts))),
                );
            }
            for task in 0..self.sim.jobs[job].tasks.len() as u32 {
                let name = format!("job {}_{task}", self.sim.jobs[job].id);
                self.show_task(job, task, shown.get(&task))
                    .map_err(|why| format!("{name} is shown {:?}: {why}", shown.get(&task)))?;
            }
        }
        for row in seen.history.iter().flatten().filter(|row| !State::parse(&row.state).is_alive())
        {
            self.show_end(seen, row)?;
        }
        Ok(())
    }

    fn show_task(
        &mut self,
        job: usize,
        task: u32,
        shown: Option<&(State, u32)>,
    ) -> Result<(), String> {
        let place = self.sim.jobs[job].tasks[task as usize].place.clone();
        match (place, shown) {
            // Cancelled while it waited, which leaves no trace; or ended, and forgotten since.
            (Place::Pending, None) => self.sim.cancel_without_trace(job, task),
            (Place::Running, None) => {
                self.end(job, task, &State::Failed)?;
                self.forget(job, task);
            }
            (Place::Ended(..), None) => self.forget(job, task),
            (place, Some((state, restarts))) if state.is_alive() => {
                if !state.is_pending() {
                    while self.sim.jobs[job].tasks[task as usize].leg < *restarts {
                        self.requeue(job, task)?;
                    }
                    let it = &self.sim.jobs[job].tasks[task as usize];
                    return match it.place {
                        Place::Ended(..) => Err("it had ended".to_owned()),
                        Place::Running if it.leg > *restarts => {
                            Err(format!("it is at leg {}", it.leg))
                        }
                        Place::Running => Ok(()),
                        Place::Pending => self.start(job, task),
                    };
                }
                if place != Place::Pending {
                    self.requeue(job, task)?;
                }
            }
            (Place::Ended(was, _), Some((state, _))) => {
                if std::mem::discriminant(&was) != std::mem::discriminant(state) {
                    return Err(format!("it ended as {was:?}"));
                }
            }
            (Place::Pending, Some((state @ State::Cancelled { .. }, _))) => {
                self.sim.end_task(job, task, state.clone(), 0, false);
            }
            (Place::Pending, Some((state, _))) => {
                self.start(job, task)?;
                self.end(job, task, state)?;
            }
            (Place::Running, Some((state, _))) => self.end(job, task, state)?,
        }
        Ok(())
    }

    /// Whether accounting can know by now that this leg has ended.
    fn show_end(&self, seen: &Seen, row: &AccountRow) -> Result<(), String> {
        let Some(job) = self.sim.jobs.iter().find(|job| job.id == row.job) else {
            return Err(format!("accounting has a job {} that slurmctld does not know", row.job));
        };
        for task in tasks_of(&row.tasks) {
            // Accounting has the end of what the queue shows as completing.
            let completes = seen.queue.iter().flatten().any(|shown| {
                shown.job == row.job
                    && State::parse(&shown.state) == State::Completing
                    && tasks_of(&shown.tasks).contains(&task)
            });
            let it = job.tasks.get(task as usize).ok_or("accounting has a task too many")?;
            let over = row.leg < it.leg || matches!(it.place, Place::Ended(..));
            if !over && !completes {
                return Err(format!(
                    "accounting has job {}_{task}, leg {} as {}",
                    row.job, row.leg, row.state
                ));
            }
        }
        Ok(())
    }

    /// The number of a job in the sim; slurmctld takes it now if it may.
    fn job(&mut self, id: &str, name: &str) -> Result<usize, String> {
        if let Some(found) = self.sim.jobs.iter().position(|job| job.id == id) {
            let it = &self.sim.jobs[found];
            return if it.name == name {
                Ok(found)
            } else {
                Err(format!("job {id} is {}, not {name}", it.name))
            };
        }
        let arrays = self.sim.sweep.state.arrays.iter();
        let number =
            arrays.filter(|(_, array)| array.name == name).map(|(number, _)| *number).next();
        let number = number.ok_or_else(|| format!("nobody has written down an array `{name}`"))?;
        self.sim.name = Some(id.to_owned());
        if let Some(place) = self.sim.on_the_way.iter().position(|array| *array == number) {
            self.sim.on_the_way.remove(place);
            self.sim.take_job(number);
        } else {
            let mut all = self.sim.watchers.iter();
            let watcher = all.position(|watcher| watcher.submits() == Some(number));
            let watcher = watcher
                .ok_or_else(|| format!("nobody has submitted array {number} as job {id}"))?;
            self.sim.watch(watcher, Sbatch::Accepted, false);
        }
        self.sim.name = None;
        let job = self.sim.jobs.iter().position(|job| job.id == id);
        job.ok_or_else(|| format!("array {number} was not to be submitted any more"))
    }

    // ---- what slurmctld and the nodes did unseen ----

    /// It may have started before a hold or a throttle of ours came: when is not known.
    fn start(&mut self, job: usize, task: u32) -> Result<(), String> {
        let place = &mut self.sim.jobs[job].tasks[task as usize].place;
        if *place != Place::Pending {
            return Err(format!("it cannot start: {place:?}"));
        }
        *place = Place::Running;
        self.sim.launch(job, task, false);
        Ok(())
    }

    fn process_of(&self, job: usize, task: u32) -> Option<usize> {
        let job = &self.sim.jobs[job];
        let leg = job.tasks[task as usize].leg;
        self.sim.processes.iter().position(|process| {
            (process.job.as_str(), process.task, process.leg) == (&job.id, task, leg)
                && !process.cut_off
        })
    }

    /// A leg ends and the task waits again; whether its process lives on is not known, so it may.
    fn requeue(&mut self, job: usize, task: u32) -> Result<(), String> {
        if self.sim.jobs[job].tasks[task as usize].place == Place::Pending {
            self.start(job, task)?;
        }
        match self.process_of(job, task) {
            Some(process) => self.sim.interrupt(process, State::Requeued, true, false),
            // A person brought back what had ended.
            None => {
                let task = &mut self.sim.jobs[job].tasks[task as usize];
                (task.place, task.leg) = (Place::Pending, task.leg + 1);
            }
        }
        Ok(())
    }

    /// A running task ends as slurmctld shows it.
    fn end(&mut self, job: usize, task: u32, state: &State) -> Result<(), String> {
        if matches!(state, State::Completed | State::Failed) {
            let before = self.sim.clone();
            match self.leave(job, task, *state == State::Completed) {
                Err(why) if *state == State::Completed => return Err(why),
                Err(_) => self.sim = before,
                Ok(()) => return Ok(()),
            }
        }
        let process = self.process_of(job, task).ok_or("it has no process")?;
        self.sim.interrupt(process, state.clone(), false, false);
        Ok(())
    }

    /// Its process goes on to its exit, for which it must have nothing left to write.
    fn leave(&mut self, job: usize, task: u32, well: bool) -> Result<(), String> {
        for _ in 0..200 {
            let Some(process) = self.process_of(job, task) else { return Ok(()) };
            let stage = self.sim.processes[process].stage.clone();
            if let Stage::Exited(code) = stage
                && (code == 0) != well
            {
                return Err(format!("it exits with {code}"));
            }
            let (before, pairs) = (self.lengths(), self.sim.processes[process].pairs.len());
            self.sim.step(process);
            if let Some(entry) = self.news(&before) {
                return Err(format!("it would first write: {}", entry.gist()));
            }
            let stays = self
                .sim
                .processes
                .get(process)
                .is_some_and(|now| now.stage == stage && now.pairs.len() == pairs);
            if stays {
                return Err(format!("it is at {stage:?}"));
            }
        }
        Err("it does not exit".to_owned())
    }

    fn forget(&mut self, job: usize, task: u32) {
        if let Place::Ended(_, at) = &mut self.sim.jobs[job].tasks[task as usize].place {
            *at = 0;
        }
    }

    // ---- entries ----

    fn lengths(&self) -> (usize, Vec<usize>, BTreeMap<u32, Fence>) {
        let slots = self.sim.slots.iter().map(|book| book.entries.len()).collect();
        (self.sim.sweep.entries.len(), slots, self.sim.fences.clone())
    }

    /// The entry that was not there before.
    fn news(&self, before: &(usize, Vec<usize>, BTreeMap<u32, Fence>)) -> Option<Entry> {
        if let Some(entry) = self.sim.sweep.entries.get(before.0) {
            return Some(Entry::Sweep(entry.clone()));
        }
        for (slot, (book, length)) in self.sim.slots.iter().zip(&before.1).enumerate() {
            if let Some(entry) = book.entries.get(*length) {
                return Some(Entry::Slot(slot as u32, entry.clone()));
            }
        }
        let mut fences = self.sim.fences.iter().filter(|(array, _)| !before.2.contains_key(array));
        fences.next().map(|(array, fence)| Entry::Fence(*array, fence.clone()))
    }

    fn entry(&mut self, by: &str, entry: Entry) -> Result<(), String> {
        match &entry {
            Entry::Sweep(command @ sweep::Entry::Pause { breaker: false, .. })
            | Entry::Sweep(command @ (sweep::Entry::Cancel { .. } | sweep::Entry::Budget { .. })) =>
            {
                self.command(command)?;
            }
            _ => match self.watchers.get(by).copied() {
                Some(watcher) => self.watcher_entry(watcher, &entry)?,
                None => self.task_entry(by, &entry)?,
            },
        }
        match entry {
            Entry::Sweep(sweep::Entry::Warm { .. }) => self.warm_at = self.sim.now,
            Entry::Sweep(sweep::Entry::Pause { .. } | sweep::Entry::Cancel { .. }) => {
                self.stopped_at = self.sim.now;
            }
            _ => {}
        }
        Ok(())
    }

    /// What people say may come at any moment at which the command takes it.
    fn command(&mut self, entry: &sweep::Entry) -> Result<(), String> {
        let stopped = self.sim.sweep.state.stopped();
        match entry {
            sweep::Entry::Pause { .. } if stopped => return Err("it is stopped already".to_owned()),
            sweep::Entry::Budget { .. } if !stopped => return Err("it is not stopped".to_owned()),
            _ => self.sim.append_sweep(entry.clone()),
        }
        Ok(())
    }

    fn watcher_entry(&mut self, watcher: usize, wanted: &Entry) -> Result<(), String> {
        let mut passed = Vec::new();
        loop {
            let it = &mut self.sim.watchers[watcher];
            if it.rests() {
                return Err(format!(
                    "no watcher would write `{}` now; its plan: {:?}",
                    wanted.gist(),
                    it.last
                ));
            }
            let opens = matches!(wanted, Entry::Sweep(sweep::Entry::Array(_)));
            if let Some(Action::Open(_)) = it.next()
                && !opens
            {
                // Opening fewer arrays than planned is a watcher's own affair.
                passed.push(it.skip());
                continue;
            }
            if let Some(number) = it.submits()
                && !self.sim.fences.contains_key(&number)
                && !self.sim.sweep.state.stopped()
            {
                return Err(format!("it would first call sbatch for array {number}"));
            }
            if let Entry::Sweep(sweep::Entry::Array(array)) = wanted {
                self.sim.name = Some(array.name.clone());
            }
            let before = self.lengths();
            self.sim.watch(watcher, Sbatch::Accepted, false);
            self.sim.name = None;
            match self.news(&before) {
                Some(made) if made.gist() == wanted.gist() => return Ok(()),
                Some(made) => {
                    return Err(format!(
                        "`{}` is there, the sim's watcher writes `{}`",
                        wanted.gist(),
                        made.gist()
                    ));
                }
                None => {}
            }
        }
    }

    fn task_entry(&mut self, by: &str, wanted: &Entry) -> Result<(), String> {
        let mut process = self.process(by, wanted)?;
        self.prepare(process, wanted)?;
        for _ in 0..200 {
            let it = &self.sim.processes[process];
            let (stage, pairs) = (it.stage.clone(), it.pairs.len());
            if let Stage::Exited(code) = stage {
                return Err(format!(
                    "`{}` is there, the sim's task exits with {code}",
                    wanted.gist()
                ));
            }
            if let Entry::Slot(_, slot::Entry::Claim { who, .. }) = wanted {
                self.sim.name = Some(who.claim.clone());
            }
            let before = self.lengths();
            self.sim.step(process);
            self.sim.name = None;
            match self.news(&before) {
                Some(made) if made.gist() == wanted.gist() => {
                    process = self.find(by).ok_or("it is gone")?;
                    self.hurry(process);
                    return Ok(());
                }
                Some(made) => {
                    return Err(format!(
                        "`{}` is there, the sim's task writes `{}`",
                        wanted.gist(),
                        made.gist()
                    ));
                }
                None => {}
            }
            let it = &self.sim.processes[process];
            if it.stage == stage && it.pairs.len() == pairs {
                return Err(format!(
                    "`{}` is there, the sim's task writes nothing at {stage:?}",
                    wanted.gist()
                ));
            }
        }
        Err("it does not come to it".to_owned())
    }

    /// Chooses what the world did to the process or its program, so that it may write this.
    fn prepare(&mut self, process: usize, wanted: &Entry) -> Result<(), String> {
        let (now, stopped, warm) = (self.sim.now, self.stopped_at, self.warm_at);
        let (is_stopped, is_warm) = (self.sim.sweep.state.stopped(), self.sim.sweep.state.warm);
        let it = &mut self.sim.processes[process];
        let program = it.stage == Stage::Program;
        match wanted {
            Entry::Slot(_, slot::Entry::Claim { .. })
                if is_stopped && now <= stopped + A_MOMENT =>
            {
                it.read = Some((false, is_warm));
            }
            Entry::Slot(_, slot::Entry::Record(end) | slot::Entry::Late(end)) if program => {
                let fast = end.outcome == Outcome::FailedFast;
                if fast && now <= warm + A_MOMENT {
                    it.read = Some((is_stopped, false));
                }
                let code = if end.outcome == Outcome::Finished { 0 } else { end.exit.unwrap_or(1) };
                it.stage = Stage::Over(code, !fast);
            }
            Entry::Sweep(sweep::Entry::Warm { .. }) if program && now < it.since + 60 => {
                it.stage = Stage::Over(0, true);
            }
            Entry::Slot(_, slot::Entry::Note { .. }) => it.signalled = true,
            // Stopped, signalled, or its program is not there.
            Entry::Slot(_, slot::Entry::Release { early, .. })
                if matches!(it.stage, Stage::Trial | Stage::Run) =>
            {
                if is_stopped && *early {
                    it.stage = Stage::Trial;
                } else if !early && !is_warm {
                    (it.stage, it.signalled) = (Stage::Trial, true);
                } else {
                    it.stage = Stage::NoProgram;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What it has read lets it start: it is past that, whatever is written meanwhile.
    fn hurry(&mut self, process: usize) {
        let it = &self.sim.processes[process];
        let sweep = &self.sim.sweep.state;
        let mine = sweep.trials.iter().any(|trial| trial.claim == it.claim);
        let free = sweep.warm || self.sim.policy.warmup == 0 || mine;
        if it.stage == Stage::Trial && free && !sweep.stopped() {
            self.sim.processes[process].stage = Stage::Run;
        }
    }

    fn find(&self, by: &str) -> Option<usize> {
        self.sim.processes.iter().position(|process| process.by == by)
    }

    /// The process in the sim that writes this: a task starts now if it may.
    fn process(&mut self, by: &str, wanted: &Entry) -> Result<usize, String> {
        if let Some(found) = self.find(by) {
            return Ok(found);
        }
        let known = self.tasks.get(by).cloned().or_else(|| self.guess(wanted));
        let (array, id, task, leg) =
            known.ok_or_else(|| format!("nobody is there to write `{}`", wanted.gist()))?;
        let name = self.sim.sweep.state.array(array).map(|array| array.name.clone());
        let name = name.ok_or_else(|| format!("there is no array {array}"))?;
        let job = self.job(&id, &name)?;
        if self.sim.jobs[job].tasks.len() <= task as usize {
            return Err(format!("job {id} has no task {task}"));
        }
        let unnamed = |sim: &Sim| {
            sim.processes.iter().position(|process| {
                (process.job.as_str(), process.task, process.leg) == (&id, task, leg)
                    && process.by.is_empty()
            })
        };
        while unnamed(&self.sim).is_none() {
            let it = &self.sim.jobs[job].tasks[task as usize];
            match it.place {
                _ if it.leg < leg => self.requeue(job, task)?,
                Place::Pending if it.leg == leg => self.start(job, task)?,
                _ => {
                    return Err(format!(
                        "job {id}_{task}, leg {leg}, cannot be there: {:?}",
                        it.place
                    ));
                }
            }
        }
        let process = unnamed(&self.sim).ok_or("it is gone")?;
        self.sim.processes[process].by = by.to_owned();
        Ok(process)
    }

    /// Which task writes this, of one that never claims anything.
    fn guess(&self, wanted: &Entry) -> Option<Who> {
        let (array, job, task) = match wanted {
            Entry::Fence(array, Fence::Job(job)) => {
                // One that lives on knows its name; of those that do not, any will do.
                let claims = |task: u32| {
                    let mut known = self.tasks.values();
                    known.any(|who| (&who.1, who.2, who.3) == (job, task, 0))
                };
                let tasks = self.sim.sweep.state.array(*array)?.tasks.len() as u32;
                (*array, job.clone(), (0..tasks).find(|task| !claims(*task)).unwrap_or(0))
            }
            Entry::Slot(slot, slot::Entry::Revoke { attempt, .. }) => {
                let mut arrays = self.sim.sweep.state.arrays.iter().rev();
                arrays.find_map(|(number, array)| {
                    let Some(Fence::Job(job)) = self.sim.fences.get(number) else { return None };
                    let has = |pairs: &Vec<Pair>| pairs.contains(&Pair(*slot, *attempt));
                    Some((*number, job.clone(), array.tasks.iter().position(has)? as u32))
                })?
            }
            _ => return None,
        };
        let it = self.sim.jobs.iter().find(|known| known.id == job);
        let leg = it.map_or(0, |it| it.tasks[task as usize].leg);
        Some((array, job, task, leg))
    }

    // ---- watchers ----

    fn plans(&mut self, by: &str, seen: &Seen) -> Result<(), String> {
        if self.looks.remove(by).ok_or("it plans without a look")?.is_some() {
            self.show(seen)?;
        }
        let watcher = *self.watchers.entry(by.to_owned()).or_insert_with(|| {
            self.sim.watchers.push(Watcher::default());
            self.sim.watchers.len() - 1
        });
        self.go_to_rest(watcher)?;
        let read = &seen.read;
        let mut ledger = Ledger {
            budget: self.sim.budget,
            sweep: self.sim.sweep.at(read.log, "the sweep log")?,
            ..Ledger::default()
        };
        for (book, length) in self.sim.slots.iter().zip(&read.slots) {
            ledger.slots.push(book.at(*length, "a slot log")?);
        }
        for array in &read.fences {
            let fence = self.sim.fences.get(array).ok_or("a fence was read before it was made")?;
            ledger.fences.insert(*array, fence.clone());
        }
        for (array, task, leg, beat) in &seen.beats {
            ledger.beats.insert((*array, *task, *leg), beat.clone());
        }
        let mut me = std::mem::take(&mut self.sim.watchers[watcher]);
        me.sightings = seen.before.clone().unwrap_or(me.sightings);
        let policy = seen.policy.clone().unwrap_or(self.sim.policy.clone());
        me.follow(&policy, &ledger, &seen.snapshot(), (read.log, &read.slots), seen.now);
        self.sim.watchers[watcher] = me;
        Ok(())
    }

    /// It is through with its last plan: all of it that is not written by now must be void.
    fn go_to_rest(&mut self, watcher: usize) -> Result<(), String> {
        while !self.sim.watchers[watcher].rests() {
            let it = &mut self.sim.watchers[watcher];
            if let Some(Action::Open(_)) = it.next() {
                drop(it.skip());
                continue;
            }
            if let Some(number) = it.submits()
                && !self.sim.fences.contains_key(&number)
                && !self.sim.sweep.state.stopped()
            {
                return Err(format!("its sbatch for array {number} never ended"));
            }
            let before = self.lengths();
            self.sim.watch(watcher, Sbatch::Accepted, false);
            if let Some(made) = self.news(&before) {
                return Err(format!(
                    "before it looks again, the sim's watcher writes `{}`",
                    made.gist()
                ));
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        by: &str,
        array: u32,
        answer: &str,
        job: &Option<String>,
    ) -> Result<(), String> {
        let watcher = self.watchers.get(by).copied().ok_or("sbatch was called by nobody")?;
        if self.sim.watchers[watcher].submits() == Some(array) {
            let sbatch = match answer {
                "accepted" => Sbatch::Accepted,
                "limit" | "refused" => Sbatch::Refused,
                "not-sent" => Sbatch::NotSent,
                _ => Sbatch::LostLate,
            };
            self.sim.name.clone_from(job);
            self.sim.watch(watcher, sbatch, false);
            self.sim.name = None;
            return Ok(());
        }
        // Its tasks, or somebody's look, were faster than the answer.
        let now = self.sim.now;
        match (self.sim.watchers[watcher].answered(array), answer) {
            (Some(taken), "accepted") if Some(&taken) == job.as_ref() => Ok(()),
            (Some(_), "none") => {
                self.sim.watchers[watcher].lose_answer(array, now);
                Ok(())
            }
            (taken, _) => {
                Err(format!("sbatch says `{answer}` {job:?}; array {array} is {taken:?}"))
            }
        }
    }
}

fn traces_in(folder: &Path) -> Vec<(PathBuf, String)> {
    let files = std::fs::read_dir(folder)
        .expect("a folder of traces")
        .map(|file| file.expect("a file").path());
    let mut files: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    let read = |path: PathBuf| (path.clone(), std::fs::read_to_string(path).expect("a trace"));
    files.into_iter().map(read).collect()
}

fn committed() -> Vec<(PathBuf, String)> {
    traces_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces"))
}

#[test]
fn replays_every_order_of_events_that_a_real_slurm_made() {
    let mut traces = committed();
    // Those of a run of tests/slurm.rs just before this one.
    if let Some(folder) = std::env::var_os("SWEEPCTL_TRACES").filter(|folder| !folder.is_empty()) {
        let fresh = traces_in(Path::new(&folder));
        assert!(!fresh.is_empty(), "{} holds no trace", folder.display());
        traces.extend(fresh);
    }
    let follow = |(path, text): &(PathBuf, String)| {
        follow(text).err().map(|why| format!("{}, {why}", path.display()))
    };
    let refused: Vec<String> = traces.iter().filter_map(follow).collect();
    assert!(
        refused.is_empty(),
        "{} of {} traces:\n{}",
        refused.len(),
        traces.len(),
        refused.join("\n")
    );
}
