//! Histories that break the promise if a rule is dropped: each is why its rule is there.

use super::watcher::{Sbatch, Watcher};
use super::*;
use crate::plan::{Action, Sightings, plan};

fn one_slot() -> Sim {
    Sim::new(policy(), 1)
}

fn who(array: u32, leg: u32, claim: &str) -> Claimant {
    Claimant { array, job: format!("{array}"), task: 0, leg, claim: claim.to_owned() }
}

impl Sim {
    /// Starts a task and brings its process to its program.
    fn program(&mut self, job: usize, task: u32) -> usize {
        assert!(self.start(job, task));
        let process = self.processes.len() - 1;
        self.step_until(process, &Stage::Program);
        process
    }

    fn step_until(&mut self, process: usize, stage: &Stage) {
        for _ in 0..9 {
            if self.processes[process].stage == *stage {
                return;
            }
            self.step(process);
            self.check();
        }
        panic!("{:?} is not {stage:?}", self.processes[process].stage);
    }

    /// The program ends by itself, and its task writes that down.
    fn finish(&mut self, process: usize) {
        self.processes[process].stage = Stage::Over(0, true);
        self.step(process);
        self.check();
    }

    /// The task goes on until it has left.
    fn leave(&mut self, process: usize) {
        let left = self.processes.len() - 1;
        for _ in 0..9 {
            if self.processes.len() == left {
                return;
            }
            assert_ne!(self.processes[process].stage, Stage::Program, "it starts a program");
            self.step(process);
            self.check();
        }
        panic!("{:?} does not leave", self.processes[process].stage);
    }

    fn runs(&self, slot: u32) -> usize {
        let entries = self.slots[slot as usize].entries.iter();
        entries.filter(|entry| matches!(entry, slot::Entry::Run { .. })).count()
    }

    fn ended(&self, slot: u32) -> bool {
        matches!(self.slot(slot).phase, Phase::Ended(_))
    }

    fn plan_for(&self, snapshot: &Snapshot, before: &Sightings) -> super::super::Plan {
        plan(&self.policy, &self.ledger(), snapshot, before, self.now)
    }
}

fn entries_of(actions: &[Action]) -> Vec<&slot::Entry> {
    let mut entries = Vec::new();
    for action in actions {
        if let Action::Slot(_, entry) = action {
            entries.push(entry);
        }
    }
    entries
}

#[test]
fn c01_of_two_arrays_that_carry_the_same_attempt_one_claims() {
    let mut sim = one_slot();
    sim.append(0, slot::Entry::Revoke { attempt: 0, why: String::new(), unstarted: true });
    assert_eq!(sim.slot(0).claim_rule(1, &who(1, 0, "a"), 3), ClaimRule::Claim);
    sim.append(0, slot::Entry::Claim { attempt: 1, who: who(1, 0, "a"), run: None });
    assert!(matches!(sim.slot(0).claim_rule(1, &who(2, 0, "b"), 3), ClaimRule::Leave(_)));
}

#[test]
fn c04_lost_is_not_appended_over_a_record_that_the_watcher_did_not_see() {
    let mut sim = one_slot();
    sim.tick(0);
    let process = sim.program(0, 0);
    sim.interrupt(process, State::NodeFail, false, false);
    sim.look_and_plan(0);
    assert!(matches!(entries_of(&sim.watchers[0].last)[..], [slot::Entry::Lost { .. }]));
    sim.finish(process);
    sim.carry_out(0);
    assert!(sim.ended(0));
}

#[test]
fn c05_of_two_legs_that_both_finish_one_counts_and_both_are_kept() {
    let mut sim = one_slot();
    sim.tick(0);
    let cut_off = sim.program(0, 0);
    sim.interrupt(cut_off, State::NodeFail, true, false);
    let second = sim.program(0, 0);
    sim.finish(second);
    sim.finish(cut_off);
    assert_eq!((sim.ended(0), sim.slot(0).surplus.len()), (true, 1));
}

#[test]
fn c06_a_leg_that_comes_after_the_record_runs_nothing() {
    let mut sim = one_slot();
    sim.tick(0);
    let process = sim.program(0, 0);
    sim.finish(process);
    sim.interrupt(process, State::Requeued, true, true);
    sim.start(0, 0);
    sim.leave(0);
    assert_eq!(sim.runs(0), 1);
}

#[test]
fn c07_of_lost_and_a_later_leg_the_first_in_the_log_wins() {
    for leg_first in [true, false] {
        let mut sim = one_slot();
        sim.tick(0);
        let process = sim.program(0, 0);
        sim.interrupt(process, State::Preempted, true, true);
        // squeue misses the job.
        let snapshot = Snapshot { queue: Some(Vec::new()), ..sim.snapshot() };
        let mut watcher = Watcher::default();
        watcher.take_plan(&sim, &sim.ledger(), &snapshot);
        assert!(matches!(entries_of(&watcher.last)[..], [slot::Entry::Lost { .. }]));
        sim.watchers[0] = watcher;
        if leg_first {
            sim.program(0, 0);
            sim.carry_out(0);
            assert_eq!(sim.slot(0).holder().map(|holder| holder.who.leg), Some(1));
        } else {
            sim.carry_out(0);
            sim.start(0, 0);
            sim.leave(0);
            assert_eq!((sim.slot(0).attempt, sim.runs(0)), (1, 1));
        }
    }
}

#[test]
fn c08_after_a_signal_there_is_a_note_and_the_next_leg_goes_on() {
    let mut sim = one_slot();
    sim.tick(0);
    let process = sim.program(0, 0);
    sim.processes[process].signalled = true;
    sim.step(process);
    assert!(sim.slot(0).holder().is_some_and(|holder| holder.note.is_some()));
    sim.interrupt(process, State::Preempted, true, true);
    let second = sim.program(0, 0);
    sim.finish(second);
    assert!(sim.ended(0));
}

#[test]
fn c09_a_job_that_comes_after_the_void_of_its_array_runs_nothing() {
    let mut sim = one_slot();
    while sim.sweep.entries.is_empty() {
        sim.watch(0, Sbatch::LostLate, false);
    }
    while !sim.watchers[0].rests() {
        sim.watch(0, Sbatch::LostLate, false);
    }
    sim.advance(200);
    sim.tick(0);
    assert!(matches!(sim.fences.get(&0), Some(Fence::Void(_))));
    sim.tick(0);
    let carried: Vec<_> = sim.sweep.state.arrays.iter().map(|(_, a)| a.tasks.clone()).collect();
    assert_eq!(carried, [vec![vec![Pair(0, 0)]], vec![vec![Pair(0, 0)]]]);
    let late = sim.on_the_way.pop().unwrap();
    sim.take_job(late);
    sim.start(1, 0);
    sim.leave(0);
    assert_eq!(sim.runs(0), 0);
    sim.program(0, 0);
}

#[test]
fn c10_an_id_that_lives_again_as_somebody_elses_job_is_not_ours() {
    let mut sim = one_slot();
    sim.tick(0);
    let process = sim.program(0, 0);
    sim.processes.remove(process);
    let mut other = sim.jobs[0].clone();
    other.name = "somebody-else".to_owned();
    sim.jobs[0].wiped = true;
    sim.foreign.push(other);
    for _ in 0..40 {
        sim.now += 60;
        sim.tick(0);
    }
    assert_eq!(sim.slot(0).taken, 1);
}

#[test]
fn c12_a_task_that_completes_is_alive_whatever_accounting_says() {
    let mut sim = one_slot();
    sim.tick(0);
    sim.program(0, 0);
    sim.end_task(0, 0, State::Cancelled { by: Some(7) }, 0, false);
    let row = sim.row(&sim.jobs[0], vec![0], State::Completing);
    let snapshot = Snapshot { queue: Some(vec![row]), ..sim.snapshot() };
    assert!(entries_of(&sim.plan_for(&snapshot, &Sightings::default()).actions).is_empty());
}

#[test]
fn without_a_look_at_the_queue_accounting_proves_nothing() {
    let mut sim = one_slot();
    sim.tick(0);
    sim.program(0, 0);
    sim.end_task(0, 0, State::NodeFail, 0, true);
    let failed = Snapshot { queue: None, ..sim.snapshot() };
    assert!(sim.plan_for(&failed, &Sightings::default()).actions.is_empty());
}

#[test]
fn c13_without_a_row_only_a_beat_that_stands_still_proves_death() {
    let mut sim = one_slot();
    sim.tick(0);
    sim.program(0, 0);
    let nothing = Snapshot { queue: Some(Vec::new()), ..Snapshot::default() };
    let mut before = Sightings::default();
    for _ in 0..40 {
        sim.advance(130);
        let plan = sim.plan_for(&nothing, &before);
        assert!(entries_of(&plan.actions).is_empty(), "it beats");
        before = plan.sightings;
    }
    sim.now += 1000;
    let plan = sim.plan_for(&nothing, &before);
    assert!(matches!(entries_of(&plan.actions)[..], [slot::Entry::Lost { .. }]));
}

#[test]
fn c14_after_a_cancel_between_sbatch_and_start_no_program_starts() {
    for watched in [true, false] {
        let mut sim = one_slot();
        sim.tick(0);
        sim.start(0, 0);
        sim.append_sweep(sweep::Entry::Cancel { why: String::new(), kill: false });
        if watched {
            sim.tick(0);
            // Taken from its task, and nobody's: a later `resume` finds it open.
            assert_eq!((sim.slot(0).attempt, sim.slot(0).phase == Phase::Open), (1, true));
        }
        sim.leave(0);
        assert_eq!(sim.runs(0), 0);
    }
}

/// Of the embedded controller a run is only ever asked with a claim in hand: its configuration is the slot's.
#[test]
fn c15_a_task_whose_attempt_was_revoked_before_its_claim_asks_for_no_run() {
    let mut sim = one_slot();
    sim.tick(0);
    sim.start(0, 0);
    sim.step_until(0, &Stage::Claim);
    let why = "no look shows the task".to_owned();
    sim.append(0, slot::Entry::Revoke { attempt: 0, why, unstarted: true });
    sim.leave(0);
    assert_eq!(sim.runs(0), 0);
    assert_eq!(sim.slot(0).attempt, 1, "the next attempt is free");
    sim.tick(0);
    sim.start(1, 0);
    sim.step_until(0, &Stage::Program);
    assert_eq!(sim.runs(0), 1);
}

#[test]
fn c16_who_was_given_up_on_between_claim_and_run_starts_nothing() {
    let mut sim = one_slot();
    sim.tick(0);
    sim.start(0, 0);
    sim.step_until(0, &Stage::Run);
    sim.interrupt(0, State::NodeFail, false, false);
    sim.tick(0);
    assert_eq!(sim.slot(0).attempt, 1);
    // The next attempt has been claimed, but does not run yet either.
    sim.tick(0);
    sim.start(1, 0);
    sim.step_until(1, &Stage::Run);
    sim.leave(0);
    assert_eq!(sim.runs(0), 0);
    sim.step_until(0, &Stage::Program);
}

#[test]
fn c18_a_sweep_is_not_closed_while_an_array_is_unresolved_or_a_task_waits() {
    let mut sim = one_slot();
    while sim.sweep.entries.is_empty() {
        sim.watch(0, Sbatch::LostLate, false);
    }
    sim.watch(0, Sbatch::LostLate, false);
    sim.append(0, slot::Entry::Close { why: String::new() });
    let empty = Snapshot { queue: Some(Vec::new()), ..sim.snapshot() };
    let closes = |sim: &Sim, snapshot: &Snapshot| {
        let actions = sim.plan_for(snapshot, &Sightings::default()).actions;
        actions.contains(&Action::Sweep(sweep::Entry::Closed))
    };
    assert!(!closes(&sim, &empty), "nobody knows yet whether there is a job");
    let job = sim.take_job(0);
    sim.set_fence(0, Fence::Job(job));
    assert!(!closes(&sim, &sim.snapshot()), "a task waits");
    assert!(closes(&sim, &empty));
}

#[test]
fn c19_a_result_that_comes_after_lost_counts_while_nothing_else_runs() {
    let mut sim = one_slot();
    sim.tick(0);
    let cut_off = sim.program(0, 0);
    sim.interrupt(cut_off, State::NodeFail, false, false);
    sim.tick(0);
    assert_eq!(sim.slot(0).attempt, 1);
    sim.tick(0);
    sim.finish(cut_off);
    assert!(sim.ended(0));
    sim.start(1, 0);
    sim.leave(1);
    assert_eq!(sim.runs(0), 1);
}

#[test]
fn c20_a_result_that_comes_while_the_next_attempt_runs_is_kept_beside_the_one_that_counts() {
    let mut sim = one_slot();
    sim.tick(0);
    let cut_off = sim.program(0, 0);
    sim.interrupt(cut_off, State::NodeFail, false, false);
    sim.tick(0);
    sim.tick(0);
    let second = sim.program(1, 0);
    sim.finish(cut_off);
    assert!(!sim.ended(0));
    sim.finish(second);
    assert_eq!((sim.ended(0), sim.slot(0).surplus.len()), (true, 1));
}

#[test]
fn c21_a_look_that_misses_a_waiting_task_takes_nothing_and_unstarted_tries_have_their_own_limit() {
    let mut sim = one_slot();
    sim.tick(0);
    let nothing = Snapshot { queue: Some(Vec::new()), ..sim.snapshot() };
    let mut before = Sightings::default();
    for look in 0..6 {
        sim.now += 61;
        let seen = if look % 2 == 0 { nothing.clone() } else { sim.snapshot() };
        let plan = sim.plan_for(&seen, &before);
        assert!(entries_of(&plan.actions).is_empty(), "no absence lasted for two looks");
        before = plan.sightings;
    }
    let revoke = |attempt| slot::Entry::Revoke { attempt, why: String::new(), unstarted: true };
    sim.append(0, revoke(0));
    sim.append(0, revoke(1));
    assert_eq!((sim.slot(0).taken, sim.slot(0).given_up(2)), (0, false));
    sim.append(0, revoke(2));
    assert!(sim.slot(0).given_up(2));
}

#[test]
fn c22_a_watcher_that_wakes_after_the_end_starts_nothing() {
    let mut sim = one_slot();
    while sim.sweep.entries.is_empty() {
        sim.watch(0, Sbatch::Accepted, false);
    }
    // The one that sleeps has not called sbatch yet; another one goes on.
    sim.watchers.push(Watcher::default());
    sim.tick(1);
    sim.advance(200);
    sim.tick(1);
    sim.tick(1);
    let process = sim.program(0, 0);
    sim.finish(process);
    sim.leave(process);
    sim.tick(1);
    assert!(sim.sweep.state.closed);
    sim.carry_out(0);
    assert_eq!(sim.jobs.len(), 1);
    // Had it been within sbatch already, its tasks would find the void.
    sim.take_job(0);
    sim.start(1, 0);
    sim.leave(0);
    assert_eq!(sim.runs(0), 1);
}

#[test]
fn c23_a_leg_that_is_launched_twice_runs_once_and_its_75_is_no_verdict() {
    let mut sim = one_slot();
    sim.tick(0);
    sim.program(0, 0);
    sim.launch(0, 0, false);
    sim.step_until(1, &Stage::Exited(75));
    sim.step(1);
    assert_eq!(sim.runs(0), 1);
    sim.look_and_plan(0);
    assert!(matches!(entries_of(&sim.watchers[0].last)[..], [slot::Entry::Lost { .. }]));
}

#[test]
fn a_pair_that_the_breaker_gives_back_is_given_back_once() {
    let mut sim = Sim::new(Policy { warmup: 4, ..policy() }, 1);
    sim.tick(0);
    sim.end_task(0, 0, State::NodeFail, 0, false);
    let before = Sightings { gone: [("0.0".to_owned(), 0)].into(), ..Sightings::default() };
    let plan = sim.plan_for(&sim.snapshot(), &before);
    assert!(
        matches!(entries_of(&plan.actions)[..], [slot::Entry::Revoke { unstarted: false, .. }]),
        "{:?}",
        plan.actions
    );
}

#[test]
fn tasks_that_run_count_in_full_when_nothing_shows_a_raised_throttle() {
    let limits = Policy { parallel: Some(3), max_array_size: 2, ..policy() };
    let mut sim = Sim::new(limits, 6);
    sim.tick(0);
    assert_eq!(sim.jobs.iter().map(|job| job.throttle).collect::<Vec<_>>(), [1, 1, 1]);
    for task in 0..2 {
        sim.end_task(0, task, State::NodeFail, 0, false);
    }
    // What the first array left went to the second one, of which all tasks run now.
    sim.jobs[1].throttle = 2;
    assert!(sim.start(1, 0) && sim.start(1, 1));
    let actions = sim.plan_for(&sim.snapshot(), &Sightings::default()).actions;
    assert!(!actions.iter().any(|action| matches!(action, Action::Throttle(..))), "{actions:?}");
}

#[test]
fn the_row_of_an_arrays_cancelled_rest_is_no_verdict_on_a_task_with_a_row_of_its_own() {
    let mut sim = Sim::new(policy(), 2);
    sim.tick(0);
    sim.program(0, 0);
    let mut rest = history_row(&sim.jobs[0], 0, 0, State::Cancelled { by: Some(7) }, 0);
    (rest.task, rest.tasks, rest.whole_array) = (None, Vec::new(), true);
    let own = history_row(&sim.jobs[0], 0, 0, State::Running, 0);
    // squeue misses the task.
    let snapshot =
        Snapshot { queue: Some(Vec::new()), history: Some(vec![own, rest]), ..sim.snapshot() };
    assert!(entries_of(&sim.plan_for(&snapshot, &Sightings::default()).actions).is_empty());
}

#[test]
fn the_newest_leg_counts_in_whatever_order_accounting_prints() {
    let mut sim = one_slot();
    sim.tick(0);
    let process = sim.program(0, 0);
    sim.interrupt(process, State::Preempted, true, true);
    // The second leg has not claimed yet, and squeue misses it.
    sim.start(0, 0);
    let rows = [(1, State::Running), (0, State::Preempted)];
    let rows = rows.map(|(leg, state)| history_row(&sim.jobs[0], 0, leg, state, 0));
    let snapshot =
        Snapshot { queue: Some(Vec::new()), history: Some(rows.to_vec()), ..sim.snapshot() };
    let (mut before, mut now) = (Sightings::default(), sim.now);
    for _ in 0..2 {
        now += 60;
        let plan = plan(&sim.policy, &sim.ledger(), &snapshot, &before, now);
        assert!(entries_of(&plan.actions).is_empty(), "{:?}", plan.actions);
        before = plan.sightings;
    }
}
