//! How many tasks an array is counted for: what `--jobs` and `--parallel` hold on to.

use super::*;
use crate::log::Fold;
use crate::log::slot::{Claimant, Entry};
use crate::scheduler::State;

fn policy() -> Policy {
    Policy {
        max_attempts: 3,
        warmup: 0,
        jobs: None,
        parallel: Some(8),
        runs_per_job: 1,
        agents: 1,
        max_array_size: 1000,
        job_name: "lr".to_owned(),
        spans: Spans::default(),
    }
}

/// A sweep of one array, number 0, named `lr-a`, with a task for each of six slots.
fn ledger(fence: Option<Fence>) -> Ledger {
    let mut sweep = Sweep::default();
    let array = sweep::Array {
        name: "lr-a".to_owned(),
        tasks: (0..6).map(|slot| vec![Pair(slot, 0)]).collect(),
        throttle: 2,
        throttle_warm: 4,
    };
    sweep.apply(0, &sweep::Entry::Array(array), 0).expect("it is the first entry");
    let fences = fence.into_iter().map(|fence| (0, fence)).collect();
    let slots = vec![Slot::default(); 6];
    Ledger { budget: 6, sweep, slots, fences, ..Ledger::default() }
}

fn job() -> Option<Fence> {
    Some(Fence::Job("7".to_owned()))
}

fn row(tasks: &[u32], state: State, throttle: Option<u32>) -> Row {
    Row {
        job: JobId::from("7"),
        tasks: tasks.to_vec(),
        state,
        reason: String::new(),
        name: "lr-a".to_owned(),
        throttle,
        restarts: 0,
        start: None,
        node: None,
    }
}

/// What is asked of the facts that this ledger and this queue make.
fn seen<T>(ledger: &Ledger, queue: Vec<Row>, ask: impl FnOnce(&Seen) -> T) -> T {
    let snapshot = Snapshot { queue: Some(queue), ..Snapshot::default() };
    ask(&Seen::new(&policy(), ledger, &snapshot, &Sightings::default(), 0))
}

fn cold_and_warm(ledger: &Ledger, queue: Vec<Row>) -> [Option<u32>; 2] {
    seen(ledger, queue, |seen| [false, true].map(|warm| seen.throttles(warm).get(&0).copied()))
}

fn claim(ledger: &mut Ledger, slot: u32) {
    let who =
        Claimant { array: 0, job: "7".to_owned(), task: slot, leg: 0, claim: slot.to_string() };
    let entry = Entry::Claim { attempt: 0, who, run: None };
    ledger.slots[slot as usize].apply(0, &entry, 0).expect("the slot is open");
}

fn is_unseen(ledger: &Ledger, queue: Vec<Row>) -> bool {
    let array = ledger.sweep.array(0).expect("the array");
    seen(ledger, queue, |seen| seen.is_unseen(0, array))
}

#[test]
fn an_array_counts_for_its_throttle_while_nobody_knows_its_job() {
    assert_eq!(cold_and_warm(&ledger(None), vec![]), [Some(2), Some(4)]);
}

#[test]
fn an_array_that_is_void_counts_for_nothing() {
    let ledger = ledger(Some(Fence::Void("refused".to_owned())));
    assert_eq!(cold_and_warm(&ledger, vec![row(&[0], State::Pending, None)]), [None, None]);
}

#[test]
fn an_array_that_was_submitted_after_our_look_counts_for_its_throttle() {
    assert_eq!(cold_and_warm(&ledger(job()), vec![]), [Some(2), Some(4)]);
    assert_eq!(seen(&ledger(job()), vec![], |seen| seen.queued_tasks()), 6);
}

#[test]
fn an_array_whose_tasks_are_over_counts_for_nothing() {
    let ended = vec![row(&[0, 1, 2, 3, 4, 5], State::Completed, None)];
    assert_eq!(cold_and_warm(&ledger(job()), ended), [None, None]);
}

#[test]
fn what_is_left_of_an_array_needs_no_more_than_its_number() {
    let queue = vec![row(&[4, 5], State::Pending, Some(4)), row(&[3], State::Running, None)];
    assert_eq!(cold_and_warm(&ledger(job()), queue), [Some(3), Some(3)]);
}

#[test]
fn a_throttle_that_was_raised_counts_as_slurm_shows_it() {
    let queue = vec![row(&[0, 1, 2, 3, 4, 5], State::Pending, Some(5))];
    assert_eq!(cold_and_warm(&ledger(job()), queue), [Some(5), Some(5)]);
}

#[test]
fn a_throttle_that_was_lowered_still_counts_for_what_the_array_was_given() {
    let queue = vec![row(&[0, 1, 2, 3, 4, 5], State::Pending, Some(1))];
    assert_eq!(cold_and_warm(&ledger(job()), queue), [Some(2), Some(4)]);
}

#[test]
fn more_tasks_that_run_than_the_throttle_allows_count_all() {
    let queue =
        vec![row(&[5], State::Pending, Some(2)), row(&[0, 1, 2, 3, 4], State::Running, None)];
    assert_eq!(cold_and_warm(&ledger(job()), queue), [Some(5), Some(5)]);
}

#[test]
fn without_a_throttle_in_sight_all_that_is_alive_may_run() {
    // SLURM shows none where a single task waits, and none where nothing waits.
    let queue = vec![row(&[5], State::Pending, None), row(&[2, 3, 4], State::Running, None)];
    assert_eq!(cold_and_warm(&ledger(job()), queue), [Some(4), Some(4)]);
}

#[test]
fn an_array_without_limit_counts_all_that_is_alive() {
    let mut ledger = ledger(job());
    ledger.sweep.arrays[0].1.throttle_warm = 0;
    let queue = vec![row(&[0, 1, 2, 3, 4, 5], State::Pending, Some(3))];
    assert_eq!(cold_and_warm(&ledger, queue), [Some(3), Some(6)]);
}

#[test]
fn rows_of_somebody_elses_job_with_our_id_say_nothing() {
    let mut theirs = row(&[0, 1, 2, 3, 4, 5], State::Pending, Some(6));
    theirs.name = "other".to_owned();
    let queue = vec![theirs, row(&[0, 1, 2], State::Pending, Some(2))];
    assert_eq!(cold_and_warm(&ledger(job()), queue), [Some(2), Some(3)]);
}

#[test]
fn an_array_without_a_row_may_be_newer_than_the_look() {
    assert!(is_unseen(&ledger(job()), vec![]));
    let mut theirs = row(&[0], State::Pending, None);
    theirs.job = JobId::from("8");
    assert!(is_unseen(&ledger(job()), vec![theirs]));
}

#[test]
fn an_array_with_any_row_was_looked_at() {
    for state in [State::Pending, State::Running, State::Completed] {
        assert!(!is_unseen(&ledger(job()), vec![row(&[3], state, None)]));
    }
}

#[test]
fn an_array_without_a_job_is_no_matter_of_the_look() {
    assert!(!is_unseen(&ledger(None), vec![]));
    assert!(!is_unseen(&ledger(Some(Fence::Void(String::new()))), vec![]));
}

#[test]
fn an_array_none_of_whose_attempts_waits_is_over_and_not_new() {
    let mut ledger = ledger(job());
    (0..5).for_each(|slot| claim(&mut ledger, slot));
    assert!(is_unseen(&ledger, vec![]), "one still waits");
    claim(&mut ledger, 5);
    assert!(!is_unseen(&ledger, vec![]));
    // The next attempt is another array's.
    let revoke = Entry::Revoke { attempt: 0, why: String::new(), unstarted: true };
    ledger.slots[0] = Slot::default();
    ledger.slots[0].apply(0, &revoke, 0).expect("the slot is open");
    assert!(!is_unseen(&ledger, vec![]));
}

/// What the planner appends for a run whose task ended so, in a sweep with that many agents a task.
fn verdict(agents: u32, state: State, exit: (i32, i32)) -> Entry {
    let mut ledger = ledger(job());
    claim(&mut ledger, 0);
    let run = Entry::Run { run: "r".to_owned() };
    ledger.slots[0].apply(1, &run, 0).expect("it is held");
    let row = HistoryRow {
        job: JobId::from("7"),
        task: Some(0),
        tasks: vec![0],
        whole_array: false,
        state,
        exit,
        name: "lr-a".to_owned(),
        leg: 0,
        start: None,
        end: None,
        node: None,
    };
    let snapshot = Snapshot {
        queue: Some(Vec::new()),
        history: Some(vec![row]),
        accounting: true,
        ..Snapshot::default()
    };
    let policy = Policy { agents, ..policy() };
    let plan = plan(&policy, &ledger, &snapshot, &Sightings::default(), 0);
    let entry = plan.actions.into_iter().find_map(|action| match action {
        Action::Slot(0, entry) => Some(entry),
        _ => None,
    });
    entry.expect("a verdict")
}

#[test]
fn the_exit_code_of_several_agents_is_no_verdict_on_one_of_them() {
    let is_record = |entry: &Entry| matches!(entry, Entry::Record(_));
    let ends = [
        (State::Completed, (0, 0), true),
        (State::Failed, (3, 0), true),
        (State::OutOfMemory, (0, 125), true),
        (State::Timeout, (0, 0), true),
        (State::NodeFail, (0, 0), false),
    ];
    for (state, exit, alone) in ends {
        let several = matches!(state, State::Timeout);
        assert_eq!(is_record(&verdict(1, state.clone(), exit)), alone, "{state}");
        assert_eq!(is_record(&verdict(4, state.clone(), exit)), several, "{state}");
    }
}
