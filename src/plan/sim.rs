//! A cluster, tasks and watchers in memory: random faults must not break what docs/design/claims.md §1 promises.
//!
//! The folds, the rules and `plan()` are the real ones. Tasks go step by step as in `src/job/task.rs`, watchers
//! as in `src/drive/mod.rs`, and anything may happen between two steps.

mod altered;
mod cases;
mod counterexamples;
mod killed;
mod replay;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};

use super::{Ledger, Policy, Snapshot, Spans, count_trials};
use crate::log::slot::{self, ClaimRule, Claimant, Outcome, Phase, Record, Slot};
use crate::log::sweep::{self, Pair, Sweep};
use crate::log::{Fence, Fold};
use crate::scheduler::{HistoryRow, JobId, Row, State};
use watcher::Watcher;

const UID: u32 = 1000;
/// How long slurmctld shows what has ended.
const MIN_JOB_AGE: u64 = 300;

/// A log in memory: what was appended, and what it adds up to.
#[derive(Clone)]
struct Book<F: Fold> {
    entries: Vec<F::Entry>,
    state: F,
}

impl<F: Fold> Default for Book<F> {
    fn default() -> Self {
        Self { entries: Vec::new(), state: F::default() }
    }
}

impl<F: Fold> Book<F> {
    /// Entries are judged on the newest state, so creating the next number always succeeds.
    fn append(&mut self, entry: F::Entry, at: u64)
    where
        F::Entry: std::fmt::Debug,
    {
        self.state.apply(self.entries.len() as u32, &entry, at).expect("every entry applies");
        self.entries.push(entry);
    }
}

/// Where slurmctld has a task.
#[derive(Clone, Debug, PartialEq)]
enum Place {
    Pending,
    Running,
    Ended(State, u64),
}

#[derive(Clone)]
struct JobTask {
    place: Place,
    leg: u32,
}

/// An array job as slurmctld has it.
#[derive(Clone)]
struct Job {
    id: String,
    name: String,
    array: u32,
    throttle: u32,
    held: bool,
    /// slurmctld's state was wiped: no row of it any more.
    wiped: bool,
    tasks: Vec<JobTask>,
}

impl Job {
    fn alive(&self) -> usize {
        self.tasks.iter().filter(|task| !matches!(task.place, Place::Ended(..))).count()
    }
}

/// Where a process is.
#[derive(Clone, Debug, PartialEq)]
enum Stage {
    Fence,
    Claim,
    Trial,
    Run,
    Program,
    /// The program cannot be started.
    NoProgram,
    /// The program ended by itself, with this code and after a long life or not; nothing is written yet.
    Over(i32, bool),
    /// A start has come to nothing early: were that all? Then on with the next pair, or out.
    Trip(i32, bool),
    Exited(i32),
}

/// A task's process on a node.
#[derive(Clone)]
struct Process {
    array: u32,
    job: String,
    task: u32,
    leg: u32,
    pairs: Vec<Pair>,
    stage: Stage,
    /// What it read of the sweep log a moment ago, stopped and warm, and goes by; none: it reads when it acts.
    read: Option<(bool, bool)>,
    claim: String,
    signalled: bool,
    /// slurmctld knows nothing of it any more: its end changes no row.
    cut_off: bool,
    worst: i32,
    since: u64,
    /// Who it is in a trace.
    by: String,
}

#[derive(Clone)]
struct Sim {
    policy: Policy,
    budget: u32,
    now: u64,
    sweep: Book<Sweep>,
    slots: Vec<Book<Slot>>,
    fences: BTreeMap<u32, Fence>,
    beats: BTreeMap<(u32, u32, u32), String>,
    jobs: Vec<Job>,
    /// Jobs of others that have ids of ours.
    foreign: Vec<Job>,
    /// Accounting: rows and from when on sacct shows them.
    history: Vec<(u64, HistoryRow)>,
    /// From now on, sacct shows rows so much later.
    lag: u64,
    processes: Vec<Process>,
    watchers: Vec<Watcher>,
    /// Submissions that slurmctld may still take.
    on_the_way: Vec<u32>,
    /// Slot, id and writer's claim of each result that was written.
    written: Vec<(u32, String, String)>,
    /// The jobs whose programs ran, by array.
    started: BTreeMap<u32, BTreeSet<String>>,
    /// Slot and claim of each program that was started.
    starts: Vec<(u32, String)>,
    /// Something happened after which no planner can keep `--jobs` and `--parallel` exactly.
    loose: bool,
    counter: u32,
    /// A trace is followed: what slurmctld does, and when, its looks say, and not our calls.
    follows: bool,
    /// The next name that is made up, where a trace knows it.
    name: Option<String>,
}

fn policy() -> Policy {
    Policy {
        max_attempts: 3,
        warmup: 0,
        jobs: None,
        parallel: None,
        runs_per_job: 1,
        agents: 1,
        max_array_size: 1000,
        job_name: "sim".to_owned(),
        spans: Spans::default(),
    }
}

impl Sim {
    fn new(policy: Policy, budget: u32) -> Self {
        Self {
            policy,
            budget,
            now: 1_000_000,
            sweep: Book::default(),
            slots: vec![Book::default(); budget as usize],
            fences: BTreeMap::new(),
            beats: BTreeMap::new(),
            jobs: Vec::new(),
            foreign: Vec::new(),
            history: Vec::new(),
            lag: 0,
            processes: Vec::new(),
            watchers: vec![Watcher::default()],
            on_the_way: Vec::new(),
            written: Vec::new(),
            started: BTreeMap::new(),
            starts: Vec::new(),
            loose: false,
            counter: 0,
            follows: false,
            name: None,
        }
    }

    fn fresh(&mut self, what: &str) -> String {
        if let Some(name) = self.name.take() {
            return name;
        }
        self.counter += 1;
        format!("{what}{}", self.counter)
    }

    fn append(&mut self, slot: u32, entry: slot::Entry) {
        let book = &mut self.slots[slot as usize];
        match &entry {
            slot::Entry::Revoke { attempt, .. } => {
                assert_eq!(*attempt, book.state.attempt, "a revoke takes the attempt it names")
            }
            slot::Entry::Lost { leg, .. } => {
                assert_eq!(Some(*leg), book.state.holder().map(|holder| holder.who.leg))
            }
            _ => {}
        }
        book.append(entry, self.now);
    }

    fn append_sweep(&mut self, entry: sweep::Entry) {
        self.sweep.append(entry, self.now);
    }

    fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize].state
    }

    fn set_fence(&mut self, array: u32, fence: Fence) -> Fence {
        self.fences.entry(array).or_insert(fence).clone()
    }

    fn ledger(&self) -> Ledger {
        Ledger {
            budget: self.budget,
            sweep: self.sweep.state.clone(),
            slots: self.slots.iter().map(|book| book.state.clone()).collect(),
            fences: self.fences.clone(),
            beats: self.beats.clone(),
        }
    }

    /// Time passes; who reaches the file system beats.
    fn advance(&mut self, seconds: u64) {
        self.now += seconds;
        for process in self.processes.iter().filter(|process| !process.cut_off) {
            let key = (process.array, process.task, process.leg);
            self.beats.insert(key, (self.now / 120).to_string());
        }
    }

    // ---- slurmctld and slurmdbd ----

    fn take_job(&mut self, number: u32) -> String {
        let array = self.sweep.state.array(number).expect("submitted after its entry").clone();
        let id = self.fresh("");
        let limit = self.policy.max_array_size as usize;
        assert!(array.tasks.len() <= limit, "MaxArraySize is {limit}");
        let task = JobTask { place: Place::Pending, leg: 0 };
        self.jobs.push(Job {
            id: id.clone(),
            name: array.name.clone(),
            array: number,
            throttle: array.throttle,
            held: false,
            wiped: false,
            tasks: vec![task; array.tasks.len()],
        });
        id
    }

    fn row(&self, job: &Job, tasks: Vec<u32>, state: State) -> Row {
        let pending = state.is_pending();
        let reason = if pending && job.held { "JobHeldUser" } else { "None" };
        Row {
            job: JobId::from(job.id.as_str()),
            tasks,
            state,
            reason: reason.to_owned(),
            name: job.name.clone(),
            throttle: (pending && job.throttle > 0).then_some(job.throttle),
            restarts: 0,
            start: None,
            node: None,
        }
    }

    fn squeue(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for job in self.jobs.iter().filter(|job| !job.wiped).chain(&self.foreign) {
            let mut pending = Vec::new();
            for (index, task) in job.tasks.iter().enumerate() {
                match &task.place {
                    Place::Pending => pending.push(index as u32),
                    Place::Running => rows.push(self.row(job, vec![index as u32], State::Running)),
                    Place::Ended(state, at) if self.now < at + MIN_JOB_AGE => {
                        rows.push(self.row(job, vec![index as u32], state.clone()))
                    }
                    Place::Ended(..) => {}
                }
            }
            if !pending.is_empty() {
                rows.push(self.row(job, pending, State::Pending));
            }
        }
        rows
    }

    fn sacct(&self) -> Vec<HistoryRow> {
        let seen = self.history.iter().filter(|(from, _)| *from <= self.now);
        let mut rows: Vec<HistoryRow> = seen.map(|(_, row)| row.clone()).collect();
        // slurmdbd gets what happened in its order: nothing new shows before what is old.
        let late = rows.len() < self.history.len() || self.lag > 0;
        for job in &self.jobs {
            for (index, task) in job.tasks.iter().enumerate() {
                if task.place == Place::Running && !late {
                    rows.push(history_row(job, index as u32, task.leg, State::Running, 0));
                }
            }
        }
        rows
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            history: Some(self.sacct()),
            queue: Some(self.squeue()),
            accounting: true,
            uid: UID,
        }
    }

    fn job(&mut self, id: &str) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id && !job.wiped)
    }

    fn account(&mut self, job: usize, task: u32, state: State, code: i32) {
        let job = &self.jobs[job];
        let leg = job.tasks[task as usize].leg;
        let row = history_row(job, task, leg, state, code);
        let from = self.history.last().map_or(0, |(from, _)| *from).max(self.now + self.lag);
        self.history.push((from, row));
    }

    /// Starts a pending task, if its job's throttle lets it.
    fn start(&mut self, job: usize, task: u32) -> bool {
        let it = &self.jobs[job];
        let running = it.tasks.iter().filter(|task| task.place == Place::Running).count();
        let full = it.throttle > 0 && running >= it.throttle as usize;
        if it.held || it.wiped || full || it.tasks[task as usize].place != Place::Pending {
            return false;
        }
        self.jobs[job].tasks[task as usize].place = Place::Running;
        self.launch(job, task, false);
        true
    }

    fn launch(&mut self, job: usize, task: u32, cut_off: bool) {
        let it = &self.jobs[job];
        let array = self.sweep.state.array(it.array).expect("it was submitted");
        self.processes.push(Process {
            array: it.array,
            job: it.id.clone(),
            task,
            leg: it.tasks[task as usize].leg,
            pairs: array.tasks[task as usize].iter().rev().copied().collect(),
            stage: Stage::Fence,
            read: None,
            claim: String::new(),
            signalled: false,
            cut_off,
            worst: 0,
            since: self.now,
            by: String::new(),
        });
    }

    /// slurmctld takes a running task for ended.
    fn end_task(&mut self, job: usize, task: u32, state: State, code: i32, requeue: bool) {
        self.account(job, task, state.clone(), code);
        let task = &mut self.jobs[job].tasks[task as usize];
        if requeue {
            (task.place, task.leg) = (Place::Pending, task.leg + 1);
        } else {
            task.place = Place::Ended(state, self.now);
        }
    }

    fn cancel_pending(&mut self, job: usize, task: u32, by: u32) {
        if self.jobs[job].tasks[task as usize].place == Place::Pending {
            self.end_task(job, task, State::Cancelled { by: Some(by) }, 0, false);
        }
    }

    /// A single pending task that is cancelled leaves no row anywhere.
    fn cancel_without_trace(&mut self, job: usize, task: u32) {
        let task = &mut self.jobs[job].tasks[task as usize];
        if task.place == Place::Pending {
            task.place = Place::Ended(State::Cancelled { by: None }, 0);
        }
    }

    fn scancel(&mut self, targets: &[String], pending_only: bool) {
        if self.follows {
            return;
        }
        for target in targets {
            let (id, task) = target.split_once('_').unwrap_or((target, ""));
            let wanted: Option<u32> = task.parse().ok();
            for job in 0..self.jobs.len() {
                if self.jobs[job].id != id || self.jobs[job].wiped {
                    continue;
                }
                for task in 0..self.jobs[job].tasks.len() as u32 {
                    if wanted.is_some_and(|wanted| wanted != task) {
                        continue;
                    }
                    self.cancel_pending(job, task, UID);
                    if !pending_only && self.jobs[job].tasks[task as usize].place == Place::Running
                    {
                        self.end_task(job, task, State::Cancelled { by: Some(UID) }, 0, false);
                        let id = self.jobs[job].id.clone();
                        self.processes
                            .retain(|p| p.cut_off || (p.job.as_str(), p.task) != (&id, task));
                    }
                }
            }
        }
    }

    /// slurmctld and node part: requeued or not, killed or living on, with a note or without.
    fn interrupt(&mut self, process: usize, state: State, requeue: bool, killed: bool) {
        let (id, task) = (self.processes[process].job.clone(), self.processes[process].task);
        if self.processes[process].cut_off {
            return;
        }
        if let Some(job) = self.jobs.iter().position(|job| job.id == id && !job.wiped) {
            self.end_task(job, task, state, 0, requeue);
        }
        if killed {
            self.processes.remove(process);
        } else {
            self.processes[process].cut_off = true;
        }
    }

    // ---- a task's process ----

    fn step(&mut self, index: usize) {
        let mut process = self.processes[index].clone();
        let pair = process.pairs.last().copied();
        match (process.stage.clone(), pair) {
            (Stage::Fence, _) => {
                let mine = Fence::Job(process.job.clone());
                let fence = self.set_fence(process.array, mine.clone());
                process.stage = if fence == mine { Stage::Claim } else { Stage::Exited(0) };
            }
            (Stage::Claim, None) => process.stage = Stage::Exited(process.worst),
            (Stage::Claim, Some(_)) if process.signalled => process.stage = Stage::Exited(0),
            (Stage::Claim, Some(pair)) => self.claim(&mut process, pair),
            (Stage::Trial, Some(pair)) => self.trial(&mut process, pair),
            (Stage::Run, Some(pair)) => {
                let slot = self.slot(pair.0);
                if slot.held_by(&process.claim) && slot.holder().is_some_and(|h| !h.running) {
                    self.append(pair.0, slot::Entry::Run { run: format!("run{}", pair.0) });
                    self.started.entry(process.array).or_default().insert(process.job.clone());
                    self.starts.push((pair.0, process.claim.clone()));
                    (process.stage, process.since) = (Stage::Program, self.now);
                } else {
                    self.next_pair(&mut process, 0);
                }
            }
            (Stage::Program, Some(pair)) => {
                if process.signalled {
                    if self.slot(pair.0).held_by(&process.claim) {
                        self.append(pair.0, slot::Entry::Note { signal: 15, exit: None });
                    }
                    process.stage = Stage::Exited(128 + 15);
                } else if !self.slot(pair.0).held_by(&process.claim) && !process.cut_off {
                    // The beat finds that the log has moved on: the program is ended, it gives no verdict.
                    process.stage = Stage::Exited(75);
                } else if self.now >= process.since + 60 && !self.sweep.state.warm {
                    self.warm(&process, pair.0);
                }
            }
            (Stage::NoProgram, Some(pair)) => {
                let early = !self.read(&mut process).1 && self.policy.warmup > 0;
                self.release(&process, pair.0, early);
                process.stage = Stage::Trip(1, true);
            }
            (Stage::Over(code, lived), Some(pair)) => {
                let cold = !self.read(&mut process).1 && self.policy.warmup > 0;
                if code == 0 && cold && !self.sweep.state.warm {
                    self.warm(&process, pair.0);
                } else {
                    self.record(&mut process, pair, code, cold && !lived);
                }
            }
            (Stage::Trip(code, out), Some(_)) => {
                self.trip(&process.job);
                self.next_pair(&mut process, code);
                if out {
                    process.stage = Stage::Exited(code);
                }
            }
            (Stage::Exited(code), _) => {
                self.processes.remove(index);
                let job = self.jobs.iter().position(|job| job.id == process.job && !job.wiped);
                if let (Some(job), false) = (job, process.cut_off) {
                    let state = if code == 0 { State::Completed } else { State::Failed };
                    self.end_task(job, process.task, state, code, false);
                }
                return;
            }
            (stage, None) => panic!("{stage:?} without a pair"),
        }
        self.beats.insert((process.array, process.task, process.leg), (self.now / 120).to_string());
        self.processes[index] = process;
    }

    fn next_pair(&self, process: &mut Process, code: i32) {
        process.pairs.pop();
        process.worst = if process.worst == 0 { code } else { process.worst };
        process.stage = Stage::Claim;
    }

    /// The sweep log as the process knows it: stopped, warm.
    fn read(&self, process: &mut Process) -> (bool, bool) {
        let now = (self.sweep.state.stopped(), self.sweep.state.warm);
        process.read.take().unwrap_or(now)
    }

    fn claim(&mut self, process: &mut Process, pair: Pair) {
        let (stopped, _) = self.read(process);
        process.claim = self.fresh("claim");
        let who = Claimant {
            array: process.array,
            job: process.job.clone(),
            task: process.task,
            leg: process.leg,
            claim: process.claim.clone(),
        };
        let slot = self.slot(pair.0);
        let held = slot.holder().is_some();
        match slot.claim_rule(pair.1, &who, self.policy.max_attempts) {
            ClaimRule::Leave(_) => self.next_pair(process, 0),
            ClaimRule::Twin => process.stage = Stage::Exited(75),
            ClaimRule::Claim if stopped => {
                if !held {
                    let why = "stopped".to_owned();
                    let revoke = slot::Entry::Revoke { attempt: pair.1, why, unstarted: false };
                    self.append(pair.0, revoke);
                }
                process.stage = Stage::Exited(0);
            }
            ClaimRule::Claim => {
                self.append(pair.0, slot::Entry::Claim { attempt: pair.1, who, run: None });
                process.stage = Stage::Trial;
            }
        }
    }

    fn trials(&self) -> (u32, u32) {
        count_trials(&self.sweep.state, |slot| Some(self.slot(slot).clone()))
    }

    fn trial(&mut self, process: &mut Process, pair: Pair) {
        let sweep = &self.sweep.state;
        let mine = sweep.trials.iter().any(|trial| trial.claim == process.claim);
        if sweep.stopped() || process.signalled {
            // A signal is the machine's doing, and no matter of the breaker.
            let early = !process.signalled;
            self.release(process, pair.0, early);
            process.stage = Stage::Exited(0);
        } else if sweep.warm || self.policy.warmup == 0 || mine {
            process.stage = Stage::Run;
        } else {
            let (spent, live) = self.trials();
            if spent + live < self.policy.warmup {
                let claim = process.claim.clone();
                self.append_sweep(sweep::Entry::Trial { pair, claim });
            } else if live == 0 {
                self.pause();
            }
        }
    }

    fn release(&mut self, process: &Process, slot: u32, early: bool) {
        let it = self.slot(slot);
        if it.held_by(&process.claim) && it.holder().is_some_and(|holder| !holder.running) {
            let why = "stopped before its run".to_owned();
            self.append(slot, slot::Entry::Release { why, early });
        }
    }

    fn is_cold(&self) -> bool {
        !self.sweep.state.warm && self.policy.warmup > 0
    }

    /// Stops the sweep if the first starts are all spent.
    fn trip(&mut self, job: &str) {
        if self.is_cold() && !self.sweep.state.stopped() {
            let (spent, live) = self.trials();
            if live == 0 && spent >= self.policy.warmup.min(self.budget) {
                self.pause();
                if let Some(job) = self.job(job) {
                    job.held = true;
                }
            }
        }
    }

    fn pause(&mut self) {
        self.append_sweep(sweep::Entry::Pause { why: "breaker".to_owned(), breaker: true });
    }

    fn warm(&mut self, process: &Process, slot: u32) {
        if !self.sweep.state.warm {
            self.append_sweep(sweep::Entry::Warm { slot });
        }
        let width = self.sweep.state.array(process.array).map(|array| array.throttle_warm);
        if let (Some(job), Some(width)) = (self.job(&process.job), width) {
            job.throttle = width;
        }
    }

    fn record(&mut self, process: &mut Process, pair: Pair, code: i32, fast: bool) {
        let outcome = match code {
            0 => Outcome::Finished,
            _ if fast => Outcome::FailedFast,
            _ => Outcome::Failed,
        };
        let id = self.fresh("result");
        let record = Record {
            counts: outcome != Outcome::FailedFast,
            outcome,
            run: format!("run{}", pair.0),
            exit: Some(code),
            signal: None,
            seconds: None,
            host: id.clone(),
            summary: Default::default(),
            seen_by: None,
        };
        let entry = self.slot(pair.0).end_entry(&process.claim, record);
        self.append(pair.0, entry);
        self.written.push((pair.0, id, process.claim.clone()));
        if outcome == Outcome::FailedFast {
            process.stage = Stage::Trip(code, false);
        } else {
            self.next_pair(process, code);
        }
    }

    // ---- what must hold after every event ----

    fn check(&self) {
        let mut counted = 0;
        let mut live = 0;
        for (number, book) in self.slots.iter().enumerate() {
            let records = book
                .entries
                .iter()
                .filter(|entry| matches!(entry, slot::Entry::Record(record) if record.counts));
            assert!(records.count() <= 1, "slot {number} has one record that counts");
            counted += u32::from(matches!(book.state.phase, Phase::Ended(_)));
            let holders = self.processes.iter().filter(|process| {
                matches!(process.stage, Stage::Program | Stage::Over(..))
                    && process.pairs.last().is_some_and(|pair| pair.0 as usize == number)
                    && book.state.held_by(&process.claim)
            });
            let holders = holders.count() as u32;
            assert!(holders <= 1, "slot {number} has one holder");
            live += holders;
        }
        assert!(counted + live <= self.budget, "{counted} count and {live} run");
        for (slot, id, _) in &self.written {
            let state = self.slot(*slot);
            let counts = matches!(&state.phase, Phase::Ended(record) if record.host == *id);
            let kept = state.surplus.iter().chain(&state.fast).any(|record| record.host == *id);
            assert!(counts || kept, "{id} of slot {slot} is kept: {state:?}");
        }
        for (array, jobs) in &self.started {
            let fence = self.fences.get(array);
            let its = |job: &String| fence == Some(&Fence::Job(job.clone()));
            assert!(jobs.iter().all(its), "array {array} is {fence:?}'s, not {jobs:?}'s");
        }
        self.check_claims();
        if !self.loose {
            self.check_limits();
        }
    }

    /// Who starts a program or ends a slot has the last claim before that.
    fn check_claims(&self) {
        for (number, book) in self.slots.iter().enumerate() {
            let (mut holder, mut starts) = ("", Vec::new());
            for entry in &book.entries {
                match entry {
                    slot::Entry::Claim { who, .. } => holder = &who.claim,
                    slot::Entry::Run { .. } => starts.push(holder),
                    slot::Entry::Record(record) => {
                        let mut by = self.written.iter().filter(|(_, id, _)| *id == record.host);
                        assert!(by.all(|(_, _, claim)| claim == holder), "{record:?} by {holder}");
                    }
                    _ => {}
                }
            }
            let started = self.starts.iter().filter(|(slot, _)| *slot as usize == number);
            let started: Vec<&str> = started.map(|(_, claim)| claim.as_str()).collect();
            assert_eq!(starts, started, "slot {number}: a program starts for the holder alone");
        }
    }

    fn check_limits(&self) {
        let (mut queued, mut width) = (0, 0);
        for (number, array) in &self.sweep.state.arrays {
            let tasks = match self.fences.get(number) {
                Some(Fence::Void(_)) => continue,
                None => array.tasks.len(),
                Some(Fence::Job(id)) => {
                    self.jobs.iter().filter(|j| j.id == *id && !j.wiped).map(Job::alive).sum()
                }
            };
            let job = self.jobs.iter().find(|job| job.array == *number);
            let throttle = job.map_or(array.throttle, |job| job.throttle) as usize;
            queued += tasks;
            width += if throttle == 0 { tasks } else { throttle.min(tasks) };
        }
        if let Some(jobs) = self.policy.jobs {
            assert!(queued <= jobs as usize, "{queued} tasks are queued, {jobs} may be");
        }
        if let Some(parallel) = self.policy.parallel {
            assert!(width <= parallel as usize, "{width} tasks may run, {parallel} should");
        }
    }
}

fn history_row(job: &Job, task: u32, leg: u32, state: State, code: i32) -> HistoryRow {
    HistoryRow {
        job: JobId::from(job.id.as_str()),
        task: Some(task),
        tasks: vec![task],
        whole_array: false,
        state,
        exit: (code, 0),
        name: job.name.clone(),
        leg,
        start: None,
        end: None,
        node: None,
    }
}
