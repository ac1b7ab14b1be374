//! A watcher, one step at a time: history, queue, logs, plan, then each action.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Sim, UID};
use crate::log::sweep::{self, Pair};
use crate::log::{Fence, slot};
use crate::plan::{Action, Ledger, Policy, Sightings, Snapshot, plan};
use crate::scheduler::HistoryRow;

/// What becomes of a call of sbatch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sbatch {
    Accepted,
    Refused,
    /// slurmctld was not reached.
    NotSent,
    /// No answer; the job exists.
    LostTaken,
    /// No answer; the job will exist.
    LostLate,
    /// No answer; there will be no job.
    LostNever,
}

#[derive(Clone, Default)]
enum Doing {
    #[default]
    Rest,
    Queue(Option<Vec<HistoryRow>>),
    Plan(Snapshot),
    Act(VecDeque<Action>),
    /// The array is in the log; sbatch is not called yet.
    Submit(VecDeque<Action>, u32),
    /// sbatch has answered; the fence is not made yet.
    Answer(VecDeque<Action>, u32, Fence),
}

/// A watcher process and what it has read.
#[derive(Clone, Default)]
pub(super) struct Watcher {
    pub(super) sightings: Sightings,
    doing: Doing,
    /// The next numbers of the slot logs and of the sweep log.
    slots: Vec<usize>,
    sweep: usize,
    fences: BTreeMap<u32, Fence>,
    fits: Option<u32>,
    not_before: u64,
    /// What it planned last.
    pub(super) last: Vec<Action>,
}

impl Watcher {
    pub(super) fn rests(&self) -> bool {
        matches!(self.doing, Doing::Rest)
    }

    /// Drops what it was about to do, as who was killed does, but knows what it knew.
    pub(super) fn finish_with_rest(&mut self) {
        self.doing = Doing::Rest;
        (self.fits, self.not_before) = (None, 0);
    }

    /// Takes a plan that was made from these facts: all that there is.
    pub(super) fn take_plan(&mut self, sim: &Sim, ledger: &Ledger, snapshot: &Snapshot) {
        let mut policy = sim.policy.clone();
        policy.max_array_size = policy.max_array_size.min(self.fits.unwrap_or(u32::MAX));
        let slots: Vec<usize> = sim.slots.iter().map(|book| book.entries.len()).collect();
        self.follow(&policy, ledger, snapshot, (sim.sweep.entries.len(), &slots), sim.now);
    }

    /// Takes a plan that was made from logs read this far.
    pub(super) fn follow(
        &mut self,
        policy: &Policy,
        ledger: &Ledger,
        snapshot: &Snapshot,
        (sweep, slots): (usize, &[usize]),
        now: u64,
    ) {
        (self.sweep, self.slots) = (sweep, slots.to_vec());
        self.fences = ledger.fences.clone();
        let plan = plan(policy, ledger, snapshot, &self.sightings, now);
        let mut decided = BTreeSet::new();
        for action in &plan.actions {
            if let Action::Slot(slot, _) = action {
                assert!(decided.insert(*slot), "two entries for slot {slot}: {:?}", plan.actions);
            }
        }
        self.sightings = plan.sightings;
        self.last = plan.actions.clone();
        self.doing = Doing::Act(plan.actions.into());
    }

    /// What it is to do next.
    pub(super) fn next(&self) -> Option<&Action> {
        match &self.doing {
            Doing::Act(actions) => actions.front(),
            _ => None,
        }
    }

    /// Leaves out what it is to do next.
    pub(super) fn skip(&mut self) -> Option<Action> {
        match &mut self.doing {
            Doing::Act(actions) => actions.pop_front(),
            _ => None,
        }
    }

    /// The array that it is about to submit.
    pub(super) fn submits(&self) -> Option<u32> {
        match self.doing {
            Doing::Submit(_, number) => Some(number),
            _ => None,
        }
    }

    /// The job that sbatch has given it for the array.
    pub(super) fn answered(&self, array: u32) -> Option<String> {
        match &self.doing {
            Doing::Answer(_, number, Fence::Job(job)) if *number == array => Some(job.clone()),
            _ => None,
        }
    }

    /// slurmctld has the job, but the watcher was not told.
    pub(super) fn lose_answer(&mut self, array: u32, now: u64) {
        if let Doing::Answer(actions, ..) = std::mem::take(&mut self.doing) {
            self.doing = Doing::Act(actions);
        }
        self.sightings.void_from.insert(array, now + 30);
    }
}

impl Sim {
    /// One step of a watcher. `fault`: the look that this step makes fails.
    pub(super) fn watch(&mut self, index: usize, sbatch: Sbatch, fault: bool) {
        let mut me = std::mem::take(&mut self.watchers[index]);
        me.doing = match std::mem::take(&mut me.doing) {
            Doing::Rest => Doing::Queue((!fault).then(|| self.sacct())),
            Doing::Queue(history) => {
                let queue = (!fault).then(|| self.squeue());
                Doing::Plan(Snapshot { queue, history, accounting: true, uid: UID })
            }
            Doing::Plan(snapshot) => {
                me.take_plan(self, &self.ledger(), &snapshot);
                std::mem::take(&mut me.doing)
            }
            Doing::Act(mut actions) => match actions.pop_front() {
                None => Doing::Rest,
                Some(action) => self.act(&mut me, action, actions),
            },
            Doing::Submit(actions, number) => {
                me.sweep = self.sweep.entries.len();
                if self.fences.contains_key(&number) || self.sweep.state.stopped() {
                    Doing::Act(actions)
                } else {
                    self.submit(&mut me, actions, number, sbatch)
                }
            }
            Doing::Answer(actions, number, fence) => {
                self.fence(&mut me, number, fence);
                Doing::Act(actions)
            }
        };
        self.watchers[index] = me;
    }

    fn submit(
        &mut self,
        me: &mut Watcher,
        actions: VecDeque<Action>,
        number: u32,
        sbatch: Sbatch,
    ) -> Doing {
        match sbatch {
            Sbatch::Accepted => {
                let job = self.take_job(number);
                return Doing::Answer(actions, number, Fence::Job(job));
            }
            Sbatch::Refused => {
                let tasks = self.sweep.state.array(number).map_or(1, |array| array.tasks.len());
                me.fits = Some((tasks as u32 / 2).max(1));
                let wait = self.now + self.policy.spans.gone;
                me.not_before = if tasks == 1 { wait } else { 0 };
                return Doing::Answer(actions, number, Fence::Void("refused".to_owned()));
            }
            Sbatch::NotSent => {
                me.not_before = self.now + 15;
                return Doing::Answer(actions, number, Fence::Void("not reached".to_owned()));
            }
            Sbatch::LostTaken => drop(self.take_job(number)),
            Sbatch::LostLate => self.on_the_way.push(number),
            Sbatch::LostNever => {}
        }
        me.sightings.void_from.insert(number, self.now + 30);
        me.not_before = self.now + 15;
        Doing::Act(actions)
    }

    fn fence(&mut self, me: &mut Watcher, number: u32, fence: Fence) {
        let there = self.set_fence(number, fence.clone());
        if let Fence::Job(job) = &fence
            && there != fence
        {
            self.scancel(std::slice::from_ref(job), false);
        }
        me.fences.insert(number, there);
    }

    fn act(&mut self, me: &mut Watcher, action: Action, rest: VecDeque<Action>) -> Doing {
        match action {
            Action::Open(array) => {
                if self.now >= me.not_before
                    && let Some(number) = self.append_array(me, array)
                {
                    return Doing::Submit(rest, number);
                }
            }
            Action::Adopt(number, job) => self.fence(me, number, Fence::Job(job.to_string())),
            Action::Void(number, why) => self.fence(me, number, Fence::Void(why)),
            Action::Slot(slot, entry) => self.act_on_slot(me, slot, entry),
            Action::Sweep(entry) => {
                let length = self.sweep.entries.len();
                if me.sweep == length {
                    self.append_sweep(entry);
                    me.sweep += 1;
                } else {
                    me.sweep = length;
                }
            }
            Action::Scancel { targets, pending_only } => self.scancel(&targets, pending_only),
            Action::Hold(job) => self.with_job(job.as_str(), |job| job.held = true),
            Action::Release(job) => self.with_job(job.as_str(), |job| job.held = false),
            Action::Throttle(job, limit) => self.with_job(job.as_str(), |job| job.throttle = limit),
        }
        Doing::Act(rest)
    }

    fn act_on_slot(&mut self, me: &mut Watcher, slot: u32, entry: slot::Entry) {
        let length = self.slots[slot as usize].entries.len();
        if me.slots[slot as usize] == length {
            self.append(slot, entry);
            me.slots[slot as usize] += 1;
        } else {
            me.slots[slot as usize] = length;
        }
    }

    fn with_job(&mut self, id: &str, change: impl FnOnce(&mut super::Job)) {
        if !self.follows
            && let Some(job) = self.job(id)
        {
            change(job);
        }
    }

    /// As the driver does it: unless an array carries one of the pairs by now.
    fn append_array(&mut self, me: &mut Watcher, array: sweep::Array) -> Option<u32> {
        me.sweep = self.sweep.entries.len();
        let wanted: BTreeSet<Pair> = array.tasks.iter().flatten().copied().collect();
        let carried = self.sweep.state.arrays.iter().any(|(number, other)| {
            !matches!(me.fences.get(number), Some(Fence::Void(_)))
                && other.tasks.iter().flatten().any(|pair| wanted.contains(pair))
        });
        if carried || self.sweep.state.stopped() {
            return None;
        }
        let name = self.fresh("sim-");
        self.append_sweep(sweep::Entry::Array(sweep::Array { name, ..array }));
        me.sweep += 1;
        Some(self.sweep.entries.len() as u32 - 1)
    }

    /// A whole look and all that follows from it, without a fault.
    pub(super) fn tick(&mut self, index: usize) {
        loop {
            self.watch(index, Sbatch::Accepted, false);
            if self.watchers[index].rests() {
                return;
            }
        }
    }

    /// Looks, and plans, but does nothing yet.
    pub(super) fn look_and_plan(&mut self, index: usize) {
        while !matches!(self.watchers[index].doing, Doing::Act(_)) {
            self.watch(index, Sbatch::Accepted, false);
        }
    }

    /// Carries out what is planned.
    pub(super) fn carry_out(&mut self, index: usize) {
        while !self.watchers[index].rests() {
            self.watch(index, Sbatch::Accepted, false);
        }
    }
}
