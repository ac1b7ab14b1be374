//! Random histories, and the counterexamples that named the rules.

use proptest::prelude::*;

use super::watcher::{Sbatch, Watcher};
use super::*;

/// One thing that happens, and two numbers that choose where and how.
type Event = (u8, u16, u16);

fn pick<T: Copy>(from: &[T], by: u16) -> Option<T> {
    (!from.is_empty()).then(|| from[by as usize % from.len()])
}

impl Sim {
    fn places(&self, wanted: impl Fn(&Place) -> bool) -> Vec<(usize, u32)> {
        let jobs = self.jobs.iter().enumerate().filter(|(_, job)| !job.wiped);
        jobs.flat_map(|(number, job)| {
            let tasks = job.tasks.iter().enumerate().filter(|(_, task)| wanted(&task.place));
            tasks.map(move |(task, _)| (number, task as u32)).collect::<Vec<_>>()
        })
        .collect()
    }

    fn programs(&self) -> Vec<usize> {
        let all = self.processes.iter().enumerate();
        all.filter(|(_, process)| process.stage == Stage::Program).map(|(n, _)| n).collect()
    }

    fn all_processes(&self) -> Vec<usize> {
        (0..self.processes.len()).collect()
    }

    fn happen(&mut self, (kind, a, b): Event) {
        match kind {
            0..=2 => {
                let index = a as usize % self.watchers.len();
                self.tick(index);
            }
            3..=9 => {
                let sbatch = match b % 20 {
                    0 => Sbatch::Refused,
                    5 => Sbatch::NotSent,
                    1 => Sbatch::LostTaken,
                    2 | 4 => Sbatch::LostLate,
                    3 => Sbatch::LostNever,
                    _ => Sbatch::Accepted,
                };
                let index = a as usize % self.watchers.len();
                self.watch(index, sbatch, b % 17 == 16);
            }
            10..=12 => {
                let pending = self.places(|place| *place == Place::Pending);
                if let Some((job, task)) = pick(&pending, a) {
                    self.start(job, task);
                }
            }
            13..=20 => {
                if let Some(process) = pick(&self.all_processes(), a) {
                    self.step(process);
                }
            }
            21..=23 => {
                if let Some(process) = pick(&self.programs(), a) {
                    let lived = b & 4 > 0;
                    self.processes[process].stage = Stage::Over(i32::from(b % 4 == 0), lived);
                }
            }
            24 => {
                let state =
                    pick(&[State::Preempted, State::NodeFail, State::Requeued].each_ref(), b);
                if let (Some(process), Some(state)) = (pick(&self.all_processes(), a), state) {
                    // Bits: requeued or not, killed or living on cut off.
                    self.interrupt(process, state.clone(), b & 8 > 0, b & 16 > 0);
                }
            }
            25 => {
                if let Some(process) = pick(&self.all_processes(), a) {
                    match b % 4 {
                        0 => self.interrupt(process, State::Timeout, false, true),
                        1 => self.interrupt(process, State::OutOfMemory, false, true),
                        2 => self.processes[process].signalled = true,
                        _ => {
                            let by = State::Cancelled { by: Some(7) };
                            self.interrupt(process, by, false, b & 4 > 0);
                        }
                    }
                }
            }
            26 => self.advance([1, 31, 61, 130, 1000][b as usize % 5]),
            27 => match b % 6 {
                0 | 1 => {
                    let index = a as usize % self.watchers.len();
                    self.watchers[index] = Watcher::default();
                }
                2 => {
                    if self.watchers.len() < 3 {
                        self.watchers.push(Watcher::default());
                        self.loose = true;
                    }
                }
                3 => self.lag = [0, 4, 300][a as usize % 3],
                _ => self.advance(60),
            },
            28 => {
                let pending = self.places(|place| *place == Place::Pending);
                if let Some((job, task)) = pick(&pending, a) {
                    match b % 4 {
                        0 => self.cancel_rest(job),
                        1 => self.cancel_without_trace(job, task),
                        _ => self.cancel_pending(job, task, 7),
                    }
                }
            }
            29 => match b % 5 {
                0 => self.wipe(a),
                2 => {
                    let ended = self.places(|place| matches!(place, Place::Ended(..)));
                    // After the end nobody is there to tidy up what a person brings back.
                    if let (Some((job, task)), false) = (pick(&ended, a), self.sweep.state.closed) {
                        let task = &mut self.jobs[job].tasks[task as usize];
                        (task.place, task.leg) = (Place::Pending, task.leg + 1);
                        self.loose = true;
                    }
                }
                _ => self.advance(MIN_JOB_AGE),
            },
            30 => match b % 40 {
                0 => self.append_sweep(sweep::Entry::Cancel {
                    why: "enough".to_owned(),
                    kill: a % 2 == 0,
                }),
                1 | 2 => self.append_sweep(sweep::Entry::Pause {
                    why: "by hand".to_owned(),
                    breaker: false,
                }),
                _ => self.resume(),
            },
            31 => {
                if let Some(number) = self.on_the_way.pop() {
                    self.take_job(number);
                }
            }
            32 => self.twin(a),
            33 => {
                // Requeued, or ended, while its process lives on.
                if let Some(process) = pick(&self.all_processes(), a) {
                    self.interrupt(process, State::NodeFail, b % 2 == 0, false);
                }
            }
            34 => {
                let live = self.programs();
                let cut_off: Vec<usize> =
                    live.into_iter().filter(|process| self.processes[*process].cut_off).collect();
                if let Some(process) = pick(&cut_off, a) {
                    self.processes[process].stage = Stage::Over(i32::from(b % 3 == 0), true);
                    self.step(process);
                }
            }
            35 => {
                let all = self.processes.iter().enumerate();
                let ready = all.filter(|(_, process)| process.stage == Stage::Run);
                let ready: Vec<usize> = ready.map(|(number, _)| number).collect();
                if let Some(process) = pick(&ready, a) {
                    self.processes[process].stage = Stage::NoProgram;
                }
            }
            36 => {
                // It reads the sweep log now, and acts on that later.
                if let Some(process) = pick(&self.all_processes(), a) {
                    let sweep = &self.sweep.state;
                    self.processes[process].read = Some((sweep.stopped(), sweep.warm));
                }
            }
            _ => {
                if let Some(process) = pick(&self.all_processes(), a)
                    && !self.processes[process].cut_off
                {
                    // The process dies of itself: SLURM sees a batch script ended by a signal.
                    self.interrupt(process, State::Failed, false, true);
                }
            }
        }
    }

    /// The same leg is launched a second time.
    fn twin(&mut self, by: u16) {
        let Some(process) = pick(&self.all_processes(), by) else { return };
        let mut twin = self.processes[process].clone();
        let array = self.sweep.state.array(twin.array).expect("it was submitted");
        twin.pairs = array.tasks[twin.task as usize].iter().rev().copied().collect();
        (twin.stage, twin.cut_off) = (Stage::Fence, true);
        self.processes.push(twin);
    }

    pub(super) fn resume(&mut self) {
        if self.sweep.state.stopped() {
            self.append_sweep(sweep::Entry::Budget { budget: self.budget });
        }
    }

    /// Somebody cancels a job by hand while some of its tasks wait: one row of accounting for all of them.
    fn cancel_rest(&mut self, job: usize) {
        let state = State::Cancelled { by: Some(7) };
        let mut row = history_row(&self.jobs[job], 0, 0, state.clone(), 0);
        (row.task, row.tasks, row.whole_array) = (None, Vec::new(), true);
        let from = self.history.last().map_or(0, |(from, _)| *from).max(self.now + self.lag);
        self.history.push((from, row));
        for task in &mut self.jobs[job].tasks {
            if task.place == Place::Pending {
                task.place = Place::Ended(state.clone(), self.now);
            }
        }
    }

    /// slurmctld forgets a job that runs; its processes go on, its id becomes somebody else's.
    fn wipe(&mut self, a: u16) {
        let live: Vec<usize> = (0..self.jobs.len()).filter(|n| !self.jobs[*n].wiped).collect();
        let Some(job) = pick(&live, a) else { return };
        self.loose = true;
        let id = self.jobs[job].id.clone();
        self.jobs[job].wiped = true;
        for process in self.processes.iter_mut().filter(|process| process.job == id) {
            process.cut_off = true;
        }
        let mut other = self.jobs[job].clone();
        (other.wiped, other.name) = (false, "somebody-else".to_owned());
        for task in &mut other.tasks {
            task.place = Place::Running;
        }
        self.foreign.push(other);
    }

    /// No faults from here on: everything starts, runs and ends, and watchers look.
    fn fair(&mut self) {
        self.lag = 0;
        for number in std::mem::take(&mut self.on_the_way) {
            self.take_job(number);
        }
        for watcher in &mut self.watchers {
            watcher.finish_with_rest();
        }
        for _ in 0..400 {
            self.fair_round();
            let left = self.jobs.iter().filter(|job| !job.wiped).map(Job::alive).sum::<usize>();
            if self.sweep.state.closed && left == 0 && self.processes.is_empty() {
                return self.check_end();
            }
        }
        panic!(
            "it does not end: closed {}, paused {:?}, cancelled {:?}, {} processes, slots {:?}, last plan {:?}",
            self.sweep.state.closed,
            self.sweep.state.paused,
            self.sweep.state.cancelled,
            self.processes.len(),
            self.slots.iter().map(|book| &book.state.phase).collect::<Vec<_>>(),
            self.watchers[0].last,
        );
    }

    fn fair_round(&mut self) {
        self.advance(30);
        if self.sweep.state.paused.is_some() && self.sweep.state.cancelled.is_none() {
            self.resume();
        }
        for watcher in 0..self.watchers.len() {
            self.tick(watcher);
            self.check();
        }
        self.start_all();
        for process in (0..self.processes.len()).rev() {
            self.step(process);
            self.check();
        }
    }

    /// All that waits starts, and every program ends well.
    pub(super) fn start_all(&mut self) {
        for (job, task) in self.places(|place| *place == Place::Pending) {
            self.start(job, task);
        }
        for process in self.programs() {
            self.processes[process].stage = Stage::Over(0, true);
        }
    }

    pub(super) fn check_end(&self) {
        for (number, book) in self.slots.iter().enumerate() {
            let over = book.state.over(self.policy.max_attempts);
            let stopped = self.sweep.state.cancelled.is_some() && book.state.phase == Phase::Open;
            assert!(over || stopped, "slot {number} is over: {:?}", book.state.phase);
        }
        assert!(self.sweep.state.arrays.iter().all(|(n, _)| self.fences.contains_key(n)));
    }

    fn entries(&self) -> (usize, usize) {
        (self.sweep.entries.len(), self.slots.iter().map(|book| book.entries.len()).sum())
    }

    /// Two watchers plan on the same facts and both carry it out: the second appends nothing.
    fn check_idempotence(&mut self) {
        let facts = (self.ledger(), self.snapshot());
        let mut first = Watcher::default();
        first.sightings = self.watchers[0].sightings.clone();
        first.take_plan(self, &facts.0, &facts.1);
        let (one, two) = (self.watchers.len(), self.watchers.len() + 1);
        self.watchers.extend([first.clone(), first]);
        self.carry_out(one);
        let before = self.entries();
        self.carry_out(two);
        assert_eq!(
            self.entries(),
            before,
            "the second adds nothing: {:?}",
            self.watchers[two].last
        );
        self.watchers.truncate(one);
        self.check();
    }
}

fn policies() -> impl Strategy<Value = (Policy, u32)> {
    let limit = prop_oneof![Just(None), (1u32..5).prop_map(Some)];
    let size = prop_oneof![Just(1000u32), 1u32..4];
    (
        prop_oneof![Just(0u32), Just(4)],
        prop_oneof![Just(1u32), Just(3)],
        limit.clone(),
        limit,
        size,
        1u32..8,
    )
        .prop_map(|(warmup, runs_per_job, jobs, parallel, max_array_size, budget)| {
            let policy =
                Policy { warmup, runs_per_job, jobs, parallel, max_array_size, ..policy() };
            (policy, budget)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_budget_is_exact_whatever_happens_and_every_sweep_ends(
        (policy, budget) in policies(),
        events in prop::collection::vec((0u8..38, any::<u16>(), any::<u16>()), 0..400),
    ) {
        let mut sim = Sim::new(policy, budget);
        for event in events {
            sim.happen(event);
            sim.check();
        }
        sim.check_idempotence();
        sim.fair();
    }
}
