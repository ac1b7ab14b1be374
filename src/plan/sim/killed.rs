//! A task's wrapper is killed after each of its steps in turn, as `SWEEPCTL_ABORT_TASK` does it on a real SLURM.

use super::watcher::Sbatch;
use super::*;

/// What happens to the task of slot 0.
#[derive(Clone, Copy)]
struct Kill {
    /// After so many files that its wrapper creates.
    after: usize,
    /// SLURM starts it again.
    requeue: bool,
    /// What becomes of the sbatches: where their answer is lost, tasks make the arrays' fences.
    sbatch: Sbatch,
    /// At every attempt, not at the first start of the first one alone.
    every: bool,
}

impl Sim {
    fn files(&self) -> usize {
        let slots: usize = self.slots.iter().map(|book| book.entries.len()).sum();
        self.sweep.entries.len() + slots + self.fences.len()
    }

    fn finished(&self, slot: u32) -> bool {
        matches!(&self.slot(slot).phase, Phase::Ended(end) if end.outcome == Outcome::Finished)
    }

    /// Brings the sweep to its end; answers how often the wrapper was killed.
    fn run_with(&mut self, kill: Kill) -> u32 {
        let (mut kills, mut files) = (0, BTreeMap::<(u32, u32, u32), usize>::new());
        for _ in 0..100 {
            self.advance(30);
            loop {
                self.watch(0, kill.sbatch, false);
                if self.watchers[0].rests() {
                    break;
                }
            }
            self.check();
            if self.sweep.state.closed && self.processes.is_empty() {
                return kills;
            }
            if self.sweep.state.paused.is_some() {
                self.resume();
            }
            self.start_all();
            for index in (0..self.processes.len()).rev() {
                let process = &self.processes[index];
                let key = (process.array, process.task, process.leg);
                let array = self.sweep.state.array(process.array).expect("it was submitted");
                let Pair(slot, attempt) = array.tasks[process.task as usize][0];
                let meant = slot == 0 && (kill.every || (attempt, process.leg) == (0, 0));
                let before = self.files();
                self.step(index);
                let made = files.entry(key).or_default();
                let earlier = *made;
                *made += self.files() - before;
                if meant && earlier < kill.after && *made >= kill.after {
                    let state = if kill.requeue { State::Requeued } else { State::Failed };
                    self.interrupt(index, state, kill.requeue, true);
                    kills += 1;
                }
                self.check();
            }
        }
        panic!("it does not end: {:?}, {:?}", self.sweep.state, self.slots[0].state);
    }
}

/// Every choice that changes which files a wrapper creates.
fn policies() -> Vec<Policy> {
    let mut all = Vec::new();
    for warmup in [0, 4] {
        for runs_per_job in [1, 3] {
            all.push(Policy { warmup, runs_per_job, ..policy() });
        }
    }
    all
}

#[test]
fn a_wrapper_killed_after_any_step_costs_no_run() {
    let answers = [Sbatch::Accepted, Sbatch::LostTaken];
    for (policy, sbatch) in policies().iter().flat_map(|p| answers.map(|answer| (p, answer))) {
        for requeue in [false, true] {
            let last = (1..).find(|after| {
                let mut sim = Sim::new(policy.clone(), 4);
                let kills = sim.run_with(Kill { after: *after, requeue, sbatch, every: false });
                sim.check_end();
                assert!((0..4).all(|slot| sim.finished(slot)), "{after}: {:?}", sim.slot(0));
                assert!(kills <= 1);
                kills == 0
            });
            assert!(last > Some(3), "killed up to {last:?} only");
        }
    }
}

#[test]
fn a_slot_whose_wrapper_is_killed_at_every_attempt_is_given_up_and_the_others_run() {
    for policy in policies().into_iter().filter(|policy| policy.runs_per_job == 1) {
        // Before its record, that is: after the claim, the trial if there is one, and the run.
        for after in 1..=2 {
            let mut sim = Sim::new(policy.clone(), 4);
            let sbatch = Sbatch::Accepted;
            let kills = sim.run_with(Kill { after, requeue: false, sbatch, every: true });
            sim.check_end();
            assert!(sim.slot(0).given_up(policy.max_attempts), "{:?}", sim.slot(0));
            assert_eq!(kills, policy.max_attempts);
            assert!((1..4).all(|slot| sim.finished(slot)));
        }
    }
}
