//! Decides what to do next: pure, from what the logs say and what the scheduler showed.
//!
//! Whatever is decided here is carried out by creating a numbered log entry, or is harmless when it is
//! wrong (a cancelled task of a void array runs nothing). So two planners, or one with old facts, may waste
//! work but cannot break the budget. Rules and section numbers: docs/design/claims.md.

mod judge;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::log::Fence;
use crate::log::slot::{self, Phase, Slot};
use crate::log::sweep::{self, Pair, Sweep};
use crate::scheduler::{self, HistoryRow, JobId, Row};

/// What the user asked of the sweep as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Tries at a slot that may come to nothing before it is given up.
    pub max_attempts: u32,
    /// Programs that may start before one has lived for a minute; 0 switches the warm-up off.
    pub warmup: u32,
    /// Tasks in the queue or running at a time; none: as many as there are slots.
    pub jobs: Option<u32>,
    /// Tasks running at a time; none: no limit.
    pub parallel: Option<u32>,
    /// Runs that each agent does, one after the other.
    pub runs_per_job: u32,
    /// Agents of one task, side by side.
    #[serde(default = "one")]
    pub agents: u32,
    /// Tasks of one array, at most (SLURM's MaxArraySize).
    pub max_array_size: u32,
    /// The user's part of the job names.
    pub job_name: String,
    /// Spans of the watcher's clock.
    pub spans: Spans,
}

fn one() -> u32 {
    1
}

impl Policy {
    /// Slots that one task carries.
    #[must_use]
    pub fn slots_per_task(&self) -> u32 {
        self.runs_per_job.max(1).saturating_mul(self.agents.max(1))
    }
}

/// How long absence must last before it means something, in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spans {
    /// From an sbatch that may still be running to the void of its array.
    pub void: u64,
    /// Between two looks without a trace of a task that has not claimed.
    pub gone: u64,
    /// Between two looks without a trace of a holder.
    pub dead: u64,
    /// That a holder's beat must have stood still for.
    pub beat: u64,
}

impl Default for Spans {
    /// 180 s = sbatch's own limit of 150 s and 30 s more; sacct lags by seconds, a beat comes every 120 s.
    fn default() -> Self {
        Self { void: 180, gone: 60, dead: 120, beat: 900 }
    }
}

/// What the logs say.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Runs in all.
    pub budget: u32,
    /// The sweep log.
    pub sweep: Sweep,
    /// The slot logs, one for each slot of the budget.
    pub slots: Vec<Slot>,
    /// The fences of the arrays that have one.
    pub fences: BTreeMap<u32, Fence>,
    /// The last beat seen of (array, task, leg).
    pub beats: BTreeMap<(u32, u32, u32), String>,
}

/// What the scheduler showed: the history was asked before the queue.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The queue; none if the look failed.
    pub queue: Option<Vec<Row>>,
    /// The accounting's rows; none if it was not asked or did not answer.
    pub history: Option<Vec<HistoryRow>>,
    /// Whether the cluster keeps accounts at all.
    pub accounting: bool,
    /// The user id whose cancelling is ours.
    pub uid: u32,
}

/// What earlier looks of watchers on this machine did not see, by the machine's clock in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sightings {
    /// From when an array without a job may be called void if it is not seen.
    pub void_from: BTreeMap<u32, u64>,
    /// Since when an attempt's task has been without a trace: "slot.attempt".
    pub gone: BTreeMap<String, u64>,
    /// Since when a holder has been without a trace: by claim.
    pub missing: BTreeMap<String, u64>,
    /// A holder's beat and since when it has stood there: by claim.
    pub beats: BTreeMap<String, (String, u64)>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Append the array to the sweep log and submit it.
    Open(sweep::Array),
    /// The array's job was found: make its fence.
    Adopt(u32, JobId),
    /// The array has no job and will have none.
    Void(u32, String),
    /// Append to a slot's log, if it still is as it was when this was decided.
    Slot(u32, slot::Entry),
    /// Append to the sweep log.
    Sweep(sweep::Entry),
    /// Cancel these tasks (`JOB_TASK` or `JOB`); pending ones only, if so.
    Scancel {
        /// SLURM's names of them.
        targets: Vec<String>,
        /// Leave what runs.
        pending_only: bool,
    },
    /// Hold what is pending of a job.
    Hold(JobId),
    /// Let it go again.
    Release(JobId),
    /// Tasks of the job that may run at a time, 0 for no limit.
    Throttle(JobId, u32),
}

/// What to do, and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In this order.
    pub actions: Vec<Action>,
    /// For people: what was seen that matters.
    pub reasons: Vec<String>,
    /// To be given to the next plan.
    pub sightings: Sightings,
}

/// Where a task that carries an open attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    /// Nobody carries it.
    None,
    /// Its array has no fence yet.
    Unresolved,
    /// The queue shows the task alive.
    Alive,
    /// The queue or the accounting show the task's end.
    Ended,
    /// The task is nowhere.
    Nowhere,
    /// The look failed.
    Unknown,
}

/// The facts by array and task, made once a plan.
struct Seen<'a> {
    policy: &'a Policy,
    ledger: &'a Ledger,
    snapshot: &'a Snapshot,
    before: &'a Sightings,
    now: u64,
    /// For each pair the array and task that carry it, the newest array last.
    carriers: BTreeMap<Pair, Vec<(u32, u32)>>,
    /// Rows of the queue by array job and task.
    alive: BTreeSet<(&'a str, u32)>,
    pending: BTreeSet<(&'a str, u32)>,
    ended: BTreeMap<(&'a str, u32), &'a Row>,
}

impl<'a> Seen<'a> {
    fn new(
        policy: &'a Policy,
        ledger: &'a Ledger,
        snapshot: &'a Snapshot,
        before: &'a Sightings,
        now: u64,
    ) -> Self {
        let mut carriers: BTreeMap<Pair, Vec<(u32, u32)>> = BTreeMap::new();
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for (number, array) in &ledger.sweep.arrays {
            match ledger.fences.get(number) {
                Some(Fence::Void(_)) => continue,
                Some(Fence::Job(job)) => drop(names.insert(&array.name, job)),
                None => {}
            }
            for (task, pairs) in array.tasks.iter().enumerate() {
                for pair in pairs {
                    carriers.entry(*pair).or_default().push((*number, task as u32));
                }
            }
        }
        let (mut alive, mut pending, mut ended) = Default::default();
        fold_queue(snapshot, &names, &mut alive, &mut pending, &mut ended);
        Self { policy, ledger, snapshot, before, now, carriers, alive, pending, ended }
    }

    /// Rows of the accounting for a task of ours, by leg: id and name agree.
    fn history(&self, array: u32, task: u32) -> Vec<&'a HistoryRow> {
        let name = self.ledger.sweep.array(array).map(|array| array.name.as_str());
        let job = self.job(array);
        let rows = self.snapshot.history.iter().flatten();
        let ours = rows.filter(|row| Some(row.job.as_str()) == job && Some(&*row.name) == name);
        let ours: Vec<_> =
            ours.filter(|row| row.whole_array || row.tasks.contains(&task)).collect();
        let mut own: Vec<_> = ours.iter().copied().filter(|row| !row.whole_array).collect();
        own.sort_by_key(|row| row.leg);
        // What was left of the array is about those only that have no row of their own.
        if own.is_empty() { ours } else { own }
    }

    fn job(&self, array: u32) -> Option<&'a str> {
        match self.ledger.fences.get(&array) {
            Some(Fence::Job(job)) => Some(job),
            _ => None,
        }
    }

    fn carrier(&self, pair: Pair) -> Carrier {
        let carried = self.carriers.get(&pair).map(Vec::as_slice).unwrap_or_default();
        let mut worst = Carrier::None;
        for (array, task) in carried {
            worst = match self.task(*array, *task) {
                found @ (Carrier::Unresolved | Carrier::Alive | Carrier::Unknown) => return found,
                found => found,
            };
        }
        worst
    }

    fn task(&self, array: u32, task: u32) -> Carrier {
        let Some(job) = self.job(array) else { return Carrier::Unresolved };
        if self.snapshot.queue.is_none() {
            return Carrier::Unknown;
        }
        if self.alive.contains(&(job, task)) {
            return Carrier::Alive;
        }
        if self.ended.contains_key(&(job, task)) {
            return Carrier::Ended;
        }
        match self.history(array, task).last() {
            Some(row) if !row.state.is_alive() => Carrier::Ended,
            _ if self.snapshot.accounting && self.snapshot.history.is_none() => Carrier::Unknown,
            _ => Carrier::Nowhere,
        }
    }
}

type Tasks<'a> = BTreeSet<(&'a str, u32)>;

fn fold_queue<'a>(
    snapshot: &'a Snapshot,
    names: &BTreeMap<&str, &'a str>,
    alive: &mut Tasks<'a>,
    pending: &mut Tasks<'a>,
    ended: &mut BTreeMap<(&'a str, u32), &'a Row>,
) {
    for row in snapshot.queue.iter().flatten() {
        // Ids begin again when slurmctld's state is wiped: only id and name together are ours.
        let Some(job) = names.get(row.name.as_str()) else { continue };
        if *job != row.job.as_str() {
            continue;
        }
        for task in &row.tasks {
            if row.state.is_alive() {
                alive.insert((job, *task));
                if row.state.is_pending() {
                    pending.insert((job, *task));
                }
            } else {
                ended.insert((job, *task), row);
            }
        }
    }
    for task in alive.iter() {
        ended.remove(task);
    }
}

/// Plans the next step.
///
/// Total: any ledger and any snapshot give a plan. `now` is the watcher's own clock in seconds.
#[must_use]
pub fn plan(
    policy: &Policy,
    ledger: &Ledger,
    snapshot: &Snapshot,
    before: &Sightings,
    now: u64,
) -> Plan {
    let mut plan = Plan { sightings: before.clone(), ..Plan::default() };
    if ledger.sweep.closed {
        return plan;
    }
    let seen = Seen::new(policy, ledger, snapshot, before, now);
    resolve_arrays(&seen, &mut plan);
    forget_what_came_back(&seen, &mut plan);
    let vanished = take_back_attempts(&seen, &mut plan);
    judge::held(&seen, &mut plan);
    let tripped = !ledger.sweep.stopped() && breaker(&seen, vanished, &mut plan);
    if ledger.sweep.cancelled.is_some() {
        wind_up(&seen, &mut plan);
    } else if ledger.sweep.paused.is_some() || tripped {
        hold_pending(&seen, &mut plan);
    } else {
        let_go(&seen, &mut plan);
        open_arrays(&seen, &mut plan);
        raise_throttles(&seen, &mut plan);
    }
    cancel_idle_tasks(&seen, &mut plan);
    if plan.actions.is_empty() && finished(&seen) {
        plan.actions.push(Action::Sweep(sweep::Entry::Closed));
    }
    plan
}

/// §5.5: arrays whose sbatch gave no answer are found by name, or void.
fn resolve_arrays(seen: &Seen, plan: &mut Plan) {
    plan.sightings.void_from.retain(|number, _| !seen.ledger.fences.contains_key(number));
    for (number, array) in &seen.ledger.sweep.arrays {
        if seen.ledger.fences.contains_key(number) {
            continue;
        }
        let rows = seen.snapshot.queue.iter().flatten().filter(|row| row.name == array.name);
        let old = seen.snapshot.history.iter().flatten().filter(|row| row.name == array.name);
        let found = rows.map(|row| &row.job).chain(old.map(|row| &row.job)).min();
        if let Some(job) = found {
            plan.reasons.push(format!("array {number} is job {job}: found by its name"));
            plan.actions.push(Action::Adopt(*number, job.clone()));
            continue;
        }
        let complete = seen.snapshot.queue.is_some()
            && (seen.snapshot.history.is_some() || !seen.snapshot.accounting);
        let from =
            *plan.sightings.void_from.entry(*number).or_insert(seen.now + seen.policy.spans.void);
        if seen.ledger.sweep.cancelled.is_some() {
            plan.actions.push(Action::Void(*number, "the sweep was cancelled".to_owned()));
        } else if complete && seen.now >= from {
            let why = "no job of its name is known to SLURM".to_owned();
            plan.actions.push(Action::Void(*number, why));
        } else {
            plan.reasons.push(format!("array {number}: it is not known yet whether SLURM took it"));
        }
    }
}

/// Absence counts only as long as it lasts.
fn forget_what_came_back(seen: &Seen, plan: &mut Plan) {
    let claims: BTreeSet<&str> = seen
        .ledger
        .slots
        .iter()
        .filter_map(|slot| slot.holder().map(|holder| holder.who.claim.as_str()))
        .collect();
    plan.sightings.missing.retain(|claim, _| claims.contains(claim.as_str()));
    plan.sightings.beats.retain(|claim, _| claims.contains(claim.as_str()));
    plan.sightings.gone.retain(|key, _| {
        let pair = key.split_once('.').and_then(|(s, a)| Some((s.parse().ok()?, a.parse().ok()?)));
        let Some((slot, attempt)) = pair else { return false };
        let open = seen
            .ledger
            .slots
            .get(slot as usize)
            .is_some_and(|s| s.phase == Phase::Open && s.attempt == attempt);
        open && !matches!(seen.carrier(Pair(slot, attempt)), Carrier::Alive)
    });
}

/// §5.6: attempts whose task is gone without having claimed. Answers those that just ended unclaimed.
fn take_back_attempts(seen: &Seen, plan: &mut Plan) -> Vec<Pair> {
    let mut vanished = Vec::new();
    for (number, slot) in seen.ledger.slots.iter().enumerate() {
        let pair = Pair(number as u32, slot.attempt);
        if slot.phase != Phase::Open {
            continue;
        }
        let carrier = seen.carrier(pair);
        if !matches!(carrier, Carrier::Ended | Carrier::Nowhere) {
            continue;
        }
        // That a watcher was ended says nothing against its tasks.
        let mut carriers = seen.carriers.get(&pair).into_iter().flatten();
        let starter_gone = carriers.any(|carrier| seen.starter_gone(carrier));
        if carrier == Carrier::Ended && !starter_gone && !seen.cancelled_unstarted(pair) {
            vanished.push(pair);
        }
        let key = format!("{}.{}", pair.0, pair.1);
        let since = *plan.sightings.gone.entry(key).or_insert(seen.now);
        // Who would start it is gone, and that is proved: no absence that has to last.
        if starter_gone || seen.now >= since + seen.policy.spans.gone {
            plan.actions.push(Action::Slot(
                pair.0,
                slot::Entry::Revoke {
                    attempt: pair.1,
                    why: "its task ended or vanished without having started".to_owned(),
                    unstarted: !starter_gone,
                },
            ));
        }
    }
    vanished
}

impl Seen<'_> {
    /// Whether the task of this pair was cancelled by somebody while it was pending.
    fn cancelled_unstarted(&self, pair: Pair) -> bool {
        use crate::scheduler::State;
        self.carriers.get(&pair).into_iter().flatten().any(|(array, task)| {
            let job = self.job(*array).unwrap_or_default();
            let queue = self.ended.get(&(job, *task)).map(|row| &row.state);
            let history = self.history(*array, *task).last().map(|row| &row.state);
            queue.into_iter().chain(history).any(|state| matches!(state, State::Cancelled { .. }))
        })
    }

    /// Starts before the sweep was warm that are over or under way: (failed early, still alive).
    fn trials(&self) -> (u32, u32) {
        count_trials(&self.ledger.sweep, |slot| self.ledger.slots.get(slot as usize).cloned())
    }
}

/// Starts since the last reopening of the sweep: how many ended early, how many are still under way.
///
/// A start that a machine or a person ended is neither: its place is free again.
pub fn count_trials(sweep: &Sweep, slot: impl Fn(u32) -> Option<Slot>) -> (u32, u32) {
    let (mut spent, mut live) = (0, 0);
    for trial in &sweep.trials {
        let Some(state) = slot(trial.pair.0) else { continue };
        if state.early.contains(&trial.pair.1) {
            spent += 1;
        } else if state.held_by(&trial.claim) {
            live += 1;
        }
    }
    (spent, live)
}

/// §7a: stops the sweep when its first tasks all come to nothing. Answers whether it did.
fn breaker(seen: &Seen, vanished: Vec<Pair>, plan: &mut Plan) -> bool {
    let sweep = &seen.ledger.sweep;
    if let Some((array, gone, of)) = seen.emptied_array(plan) {
        let why = format!(
            "{gone} of {of} tasks of array {array} vanished unstarted: somebody cancels them by hand; \
             `sweepctl resume` goes on"
        );
        plan.reasons.push(why.clone());
        plan.actions.push(Action::Sweep(sweep::Entry::Pause { why, breaker: true }));
        return true;
    }
    if sweep.warm || seen.policy.warmup == 0 {
        return false;
    }
    let (spent, live) = seen.trials();
    let bad = spent + vanished.len() as u32;
    if live > 0 || bad < seen.policy.warmup.min(seen.ledger.budget) {
        return false;
    }
    let why = if spent == 0 {
        format!("the first {bad} tasks ended without having started a run")
    } else {
        format!("the first {bad} tasks failed within a minute")
    };
    plan.reasons.push(why.clone());
    plan.actions.push(Action::Sweep(sweep::Entry::Pause { why, breaker: true }));
    // One entry for a slot: a second one would take the next attempt, which nobody has judged.
    plan.actions.retain(|action| {
        !matches!(action, Action::Slot(slot, _) if vanished.iter().any(|pair| pair.0 == *slot))
    });
    for pair in vanished {
        plan.actions.push(Action::Slot(
            pair.0,
            slot::Entry::Revoke {
                attempt: pair.1,
                why: "the breaker gives it back".to_owned(),
                unstarted: false,
            },
        ));
    }
    true
}

impl Seen<'_> {
    /// An array of which more than a tenth, and at least five tasks, are to be revoked now.
    fn emptied_array(&self, plan: &Plan) -> Option<(u32, usize, usize)> {
        let mut gone: BTreeMap<u32, usize> = BTreeMap::new();
        for action in &plan.actions {
            if let Action::Slot(slot, slot::Entry::Revoke { attempt, .. }) = action {
                let carriers = self.carriers.get(&Pair(*slot, *attempt)).into_iter().flatten();
                for (array, _) in carriers.filter(|carrier| !self.starter_gone(carrier)) {
                    *gone.entry(*array).or_default() += 1;
                }
            }
        }
        gone.into_iter().find_map(|(array, gone)| {
            let of = self.ledger.sweep.array(array)?.tasks.len();
            (gone >= 5 && gone * 10 > of).then_some((array, gone, of))
        })
    }

    /// Whether nobody cancelled the task: a local watcher ended before it could start it.
    fn starter_gone(&self, (array, task): &(u32, u32)) -> bool {
        let job = self.job(*array).unwrap_or_default();
        self.ended.get(&(job, *task)).is_some_and(|row| row.reason == scheduler::STARTER_GONE)
    }

    /// The jobs of ours that have pending tasks, with the array's number.
    fn pending_jobs(&self) -> BTreeMap<u32, JobId> {
        let with_pending: BTreeSet<&str> = self.pending.iter().map(|(job, _)| *job).collect();
        self.ledger
            .fences
            .iter()
            .filter_map(|(number, fence)| match fence {
                Fence::Job(job) if with_pending.contains(job.as_str()) => {
                    Some((*number, JobId::from(job.as_str())))
                }
                _ => None,
            })
            .collect()
    }

    fn is_held(&self, job: &JobId) -> bool {
        self.snapshot.queue.iter().flatten().any(|row| {
            row.job == *job && row.state.is_pending() && row.reason.starts_with("JobHeld")
        })
    }
}

fn hold_pending(seen: &Seen, plan: &mut Plan) {
    for job in seen.pending_jobs().into_values() {
        if !seen.is_held(&job) {
            plan.actions.push(Action::Hold(job));
        }
    }
}

/// Lets go what a pause of ours held; what an admin holds stays (`JobHeldAdmin`).
fn let_go(seen: &Seen, plan: &mut Plan) {
    let reopened = seen.ledger.sweep.reopened_at;
    for (number, job) in seen.pending_jobs() {
        let held_by_user = seen.snapshot.queue.iter().flatten().any(|row| {
            row.job == job && row.state.is_pending() && row.reason.starts_with("JobHeldUser")
        });
        if held_by_user && reopened.is_some_and(|reopened| number < reopened) {
            plan.actions.push(Action::Release(job));
        }
    }
}

/// §8: takes back what is open and carried, so that a `resume` finds it; cancels what runs if that was asked for.
fn wind_up(seen: &Seen, plan: &mut Plan) {
    let Some((why, kill)) = &seen.ledger.sweep.cancelled else { return };
    for (number, slot) in seen.ledger.slots.iter().enumerate() {
        let pair = Pair(number as u32, slot.attempt);
        if slot.phase == Phase::Open && seen.carriers.contains_key(&pair) {
            let already =
                |action: &Action| matches!(action, Action::Slot(slot, _) if *slot == pair.0);
            if !plan.actions.iter().any(already) {
                let why = format!("cancelled: {why}");
                let entry = slot::Entry::Revoke { attempt: pair.1, why, unstarted: false };
                plan.actions.push(Action::Slot(pair.0, entry));
            }
        }
    }
    if *kill {
        let targets: Vec<String> = seen
            .alive
            .difference(&seen.pending)
            .map(|(job, task)| format!("{job}_{task}"))
            .collect();
        if !targets.is_empty() {
            plan.actions.push(Action::Scancel { targets, pending_only: false });
        }
    }
}

/// §5.1: arrays for open slots that nobody carries, as many as the limits allow.
fn open_arrays(seen: &Seen, plan: &mut Plan) {
    if seen.snapshot.queue.is_none() {
        return;
    }
    let policy = seen.policy;
    let free: Vec<Pair> = seen
        .ledger
        .slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| slot.phase == Phase::Open && !slot.given_up(policy.max_attempts))
        .map(|(number, slot)| Pair(number as u32, slot.attempt))
        .filter(|pair| seen.carrier(*pair) == Carrier::None)
        .collect();
    if free.is_empty() {
        return;
    }
    let queued = seen.queued_tasks();
    let room = policy.jobs.map_or(u32::MAX, |jobs| jobs.saturating_sub(queued)) as usize;
    // Topping up one task at a time would be a loop of sbatch: wait until a quarter of the room is free.
    let quarter = policy.jobs.map_or(1, |jobs| jobs.div_ceil(4)) as usize;
    let mut tasks: Vec<Vec<Pair>> =
        free.chunks(policy.slots_per_task() as usize).map(<[Pair]>::to_vec).collect();
    if room == 0 || (room < quarter && tasks.len() > room && !seen.pending.is_empty()) {
        return;
    }
    tasks.truncate(room);
    let size = policy.max_array_size.max(1) as usize;
    let wanted = tasks.len().div_ceil(size) as u32;
    let spare = |limit: Option<u32>, warm: bool| {
        limit.map(|limit| limit.saturating_sub(seen.throttles(warm).values().sum()))
    };
    let warm_spare = spare(policy.parallel, true);
    let count = warm_spare.map_or(wanted, |spare| wanted.min(spare));
    let trial = policy.warmup > 0 && !seen.ledger.sweep.warm;
    let start_limit = if trial {
        Some(policy.parallel.unwrap_or(u32::MAX).min(policy.warmup))
    } else {
        policy.parallel
    };
    for (index, chunk) in tasks.chunks(size).take(count as usize).enumerate() {
        let share = |spare: Option<u32>| spare.map_or(0, |s| split(s, count, index as u32).max(1));
        let throttle_warm = share(warm_spare);
        let throttle = share(spare(start_limit, false));
        let throttle = if throttle_warm > 0 { throttle.min(throttle_warm) } else { throttle };
        plan.actions.push(Action::Open(sweep::Array {
            name: String::new(),
            tasks: chunk.to_vec(),
            throttle,
            throttle_warm,
        }));
    }
}

/// The `index`-th of `parts` nearly equal parts of `whole`, the larger ones first.
fn split(whole: u32, parts: u32, index: u32) -> u32 {
    whole / parts + u32::from(index < whole % parts)
}

impl Seen<'_> {
    /// Tasks of the sweep that are, or may be, in the queue or running.
    fn queued_tasks(&self) -> u32 {
        let unresolved = self
            .ledger
            .sweep
            .arrays
            .iter()
            .filter(|(number, array)| {
                !self.ledger.fences.contains_key(number) || self.is_unseen(*number, array)
            })
            .map(|(_, array)| array.tasks.len());
        (unresolved.sum::<usize>() + self.alive.len()) as u32
    }

    /// Whether another watcher may have submitted the array after our look at the queue.
    fn is_unseen(&self, number: u32, array: &sweep::Array) -> bool {
        let Some(job) = self.job(number) else { return false };
        let waits = |pair: &Pair| {
            let slot = self.ledger.slots.get(pair.0 as usize);
            slot.is_some_and(|slot| slot.phase == Phase::Open && slot.attempt == pair.1)
        };
        self.snapshot.queue.iter().flatten().all(|row| row.job.as_str() != job)
            && array.tasks.iter().flatten().any(waits)
    }

    /// How many tasks each live array may run at a time: its throttle, or what is left of it if less.
    ///
    /// SLURM shows no throttle once a single task waits, and the array may have been given more than its own.
    fn throttles(&self, warm: bool) -> BTreeMap<u32, u32> {
        let mut all = BTreeMap::new();
        for (number, array) in &self.ledger.sweep.arrays {
            let own = if warm { array.throttle_warm } else { array.throttle };
            let (alive, limit) = match self.ledger.fences.get(number) {
                Some(Fence::Void(_)) => continue,
                None => (array.tasks.len() as u32, own),
                Some(Fence::Job(_)) if self.is_unseen(*number, array) => {
                    (array.tasks.len() as u32, own)
                }
                Some(Fence::Job(job)) => {
                    let all = (job.as_str(), 0)..=(job.as_str(), u32::MAX);
                    let alive = self.alive.range(all.clone()).count() as u32;
                    let running = alive - self.pending.range(all).count() as u32;
                    let rows = self.snapshot.queue.iter().flatten();
                    let shown = rows
                        .filter(|row| row.job.as_str() == job && row.name == array.name)
                        .find_map(|row| row.throttle);
                    // Only what waits shows a throttle: it may have been raised beyond the array's own.
                    let limit = shown.filter(|_| own > 0).map_or(0, |s| s.max(own).max(running));
                    (alive, limit)
                }
            };
            let limit = if limit == 0 { alive } else { limit.min(alive) };
            if alive > 0 {
                all.insert(*number, limit);
            }
        }
        all
    }
}

/// Gives what ended arrays leave of `--parallel` to those that have tasks pending, once the sweep is warm.
fn raise_throttles(seen: &Seen, plan: &mut Plan) {
    if !seen.ledger.sweep.warm && seen.policy.warmup > 0 {
        return;
    }
    let throttles = seen.throttles(true);
    let mut spare =
        seen.policy.parallel.map(|limit| limit.saturating_sub(throttles.values().sum()));
    for action in &plan.actions {
        if let (Action::Open(array), Some(spare)) = (action, spare.as_mut()) {
            *spare = spare.saturating_sub(array.throttle_warm);
        }
    }
    for (number, job) in seen.pending_jobs() {
        let shown = seen
            .snapshot
            .queue
            .iter()
            .flatten()
            .filter(|row| row.job == job && row.state.is_pending())
            .find_map(|row| row.throttle);
        // Nothing shown: no limit is in force.
        let (Some(shown), Some(array)) = (shown, seen.ledger.sweep.array(number)) else { continue };
        let wanted = match spare.as_mut() {
            None => 0,
            Some(spare) => {
                let floor = shown.max(array.throttle_warm);
                floor + std::mem::take(spare)
            }
        };
        if wanted != shown {
            plan.actions.push(Action::Throttle(job, wanted));
        }
    }
}

/// §5.7: pending tasks that would find nothing to do.
fn cancel_idle_tasks(seen: &Seen, plan: &mut Plan) {
    let mut targets = Vec::new();
    for (number, array) in &seen.ledger.sweep.arrays {
        let fence = seen.ledger.fences.get(number);
        let rows = seen.snapshot.queue.iter().flatten();
        let rows = rows.filter(|row| row.name == array.name && row.state.is_pending());
        for row in rows {
            match fence {
                Some(Fence::Job(job)) if row.job.as_str() == job => {
                    let idle = |task: &u32| {
                        array.tasks.get(*task as usize).is_none_or(|pairs| {
                            pairs.iter().all(|pair| {
                                seen.ledger.slots.get(pair.0 as usize).is_none_or(|slot| {
                                    slot.attempt != pair.1
                                        || matches!(slot.phase, Phase::Ended(_) | Phase::Closed(_))
                                })
                            })
                        })
                    };
                    let idle = row.tasks.iter().filter(|task| idle(task));
                    targets.extend(idle.map(|task| format!("{}_{task}", row.job)));
                }
                Some(_) => targets.push(row.job.to_string()),
                None => {}
            }
        }
    }
    targets.sort();
    targets.dedup();
    if !targets.is_empty() {
        plan.actions.push(Action::Scancel { targets, pending_only: true });
    }
}

/// §8: nothing is left to be done or to be seen.
fn finished(seen: &Seen) -> bool {
    let ledger = seen.ledger;
    let cancelled = ledger.sweep.cancelled.is_some();
    let slots_done = ledger.slots.iter().enumerate().all(|(number, slot)| {
        let uncarried = || {
            !seen.carriers.contains_key(&Pair(number as u32, slot.attempt))
                && slot.phase == Phase::Open
        };
        slot.over(seen.policy.max_attempts) || (cancelled && uncarried())
    });
    let resolved = ledger.sweep.arrays.iter().all(|(number, _)| ledger.fences.contains_key(number));
    let names: BTreeSet<&str> =
        ledger.sweep.arrays.iter().map(|(_, array)| array.name.as_str()).collect();
    let queue_empty = seen.snapshot.queue.as_ref().is_some_and(|rows| {
        rows.iter().all(|row| !row.state.is_alive() || !names.contains(row.name.as_str()))
    });
    slots_done && resolved && queue_empty
}
