//! What people and programs see of a sweep: from the logs to text and JSON. Pure.

mod excerpt;

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use crate::job::metrics::better;
use crate::log::slot::{Outcome, Phase, Record, Slot};
use crate::log::sweep::Sweep;
use crate::search::Config;
use crate::sweep::{Goal, SweepSpec};

pub use excerpt::Source;

/// How far a sweep is. Its JSON form is `status --json`'s.
#[derive(Clone, Debug, Serialize)]
pub struct SweepView {
    /// The sweep's name.
    pub name: String,
    /// `running`, `paused`, `ending`, `finished` or `cancelled`.
    pub state: &'static str,
    /// Why it is paused or was cancelled.
    pub why: Option<String>,
    /// Which controller hands out its runs.
    pub controller: &'static str,
    /// Its folder.
    pub path: String,
    /// Runs in all.
    pub budget: u32,
    /// Runs that finished.
    pub finished: u32,
    /// Slots that a task holds.
    pub running: u32,
    /// Slots that wait for a task.
    pub pending: u32,
    /// Runs that count and did not finish.
    pub failed: u32,
    /// Slots that have had all their attempts.
    pub given_up: u32,
    /// The best run by the sweep's metric.
    pub best: Option<Best>,
    /// One for each slot that has been started.
    pub runs: Vec<RunView>,
    /// What SLURM says of the tasks that wait; none if it was not asked.
    pub queue: Option<QueueView>,
    /// How long it will take, by the runs that finished and those that run side by side now.
    pub seconds_left: Option<u64>,
}

/// What SLURM says of a sweep's tasks that wait.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueView {
    /// Whether it answered.
    pub answered: bool,
    /// How old the answer is.
    pub age_seconds: u64,
    /// Why tasks wait, most of them first.
    pub waits: Vec<Wait>,
}

/// Tasks that wait for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wait {
    /// In SLURM's word.
    pub reason: String,
    /// How many tasks.
    pub tasks: usize,
    /// Whether they will not start by themselves.
    pub hopeless: bool,
}

/// The best run.
#[derive(Clone, Debug, Serialize)]
pub struct Best {
    /// Its id.
    pub run: String,
    /// Its slot.
    pub slot: u32,
    /// The metric's name.
    pub metric: String,
    /// The metric's last value.
    pub value: f64,
    /// Its hyperparameters.
    pub config: Config,
}

/// One slot's run.
#[derive(Clone, Debug, Serialize)]
pub struct RunView {
    /// Its slot.
    pub slot: u32,
    /// Its id.
    pub run: Option<String>,
    /// `running`, `finished`, `failed`, `timeout`, …, or `waiting` for another attempt.
    pub state: String,
    /// The current attempt, from 0.
    pub attempt: u32,
    /// SLURM's array job id and task of the last attempt.
    pub job: Option<String>,
    /// The program's exit code.
    pub exit: Option<i32>,
    /// How long it ran, in seconds.
    pub seconds: Option<f64>,
    /// The machine.
    pub host: Option<String>,
    /// Its hyperparameters.
    pub config: Config,
    /// The last value of each metric.
    pub summary: indexmap::IndexMap<String, Value>,
    /// Why the last attempt came to nothing.
    pub last_loss: Option<String>,
    /// Results beyond the one that counts.
    pub surplus: usize,
}

/// What a view is made from.
pub struct Facts<'a> {
    /// The sweep's name.
    pub name: &'a str,
    /// Its folder.
    pub path: String,
    /// The sweep.
    pub spec: &'a SweepSpec,
    /// A slot's hyperparameters.
    pub config: &'a dyn Fn(u32) -> Config,
    /// The sweep log.
    pub sweep: &'a Sweep,
    /// Runs in all.
    pub budget: u32,
    /// Tries before a slot is given up.
    pub max_attempts: u32,
}

impl SweepView {
    /// Adds up the slots.
    pub fn new<'s>(facts: &Facts, slots: impl Iterator<Item = &'s Slot>) -> Self {
        let sweep = facts.sweep;
        let (state, why) = match (&sweep.cancelled, &sweep.paused, sweep.closed) {
            (Some((why, _)), _, true) => ("cancelled", Some(why.clone())),
            (Some((why, _)), _, false) => ("ending", Some(why.clone())),
            (_, _, true) => ("finished", None),
            (_, Some((why, _)), _) => ("paused", Some(why.clone())),
            _ => ("running", None),
        };
        let mut view = Self {
            name: facts.name.to_owned(),
            state,
            why,
            controller: "embedded",
            path: facts.path.clone(),
            budget: facts.budget,
            finished: 0,
            running: 0,
            pending: 0,
            failed: 0,
            given_up: 0,
            best: None,
            runs: Vec::new(),
            queue: None,
            seconds_left: None,
        };
        let mut took = Vec::new();
        for (number, slot) in slots.enumerate() {
            view.count(facts, number as u32, slot);
            if let Phase::Ended(Record { outcome: Outcome::Finished, seconds, .. }) = &slot.phase {
                took.extend(*seconds);
            }
        }
        view.seconds_left = view.seconds_left(took);
        view
    }

    /// The median of the finished runs for each that is left, so many at a time as run now.
    fn seconds_left(&self, mut took: Vec<f64>) -> Option<u64> {
        let left = self.running + self.pending;
        if took.is_empty() || self.running == 0 || self.state != "running" {
            return None;
        }
        let middle = took.len() / 2;
        let (_, median, _) = took.select_nth_unstable_by(middle, f64::total_cmp);
        Some((*median * f64::from(left) / f64::from(self.running)).ceil() as u64)
    }

    fn count(&mut self, facts: &Facts, number: u32, slot: &Slot) {
        let mut record = None;
        let state = match &slot.phase {
            Phase::Open if slot.given_up(facts.max_attempts) => {
                self.given_up += 1;
                "given-up".to_owned()
            }
            Phase::Open => {
                self.pending += u32::from(!facts.sweep.closed);
                "waiting".to_owned()
            }
            Phase::Held(_) => {
                self.running += 1;
                "running".to_owned()
            }
            Phase::Closed(_) => "closed".to_owned(),
            Phase::Ended(ended) => {
                record = Some(ended);
                match ended.outcome {
                    Outcome::Finished => self.finished += 1,
                    _ => self.failed += 1,
                }
                outcome_word(ended.outcome)
            }
        };
        // Nobody has touched it yet, or its tasks ended before they got there.
        let last = slot.last.as_ref();
        if last.is_none() && state != "given-up" {
            return;
        }
        let config = (facts.config)(number);
        if let (Some(record), Some(metric)) = (record, &facts.spec.metric)
            && record.outcome == Outcome::Finished
            && let Some(value) = record.summary.get(&metric.name).and_then(Value::as_f64)
        {
            let minimize = metric.goal == Goal::Minimize;
            let is_better = self.best.as_ref().is_none_or(|best| {
                better(minimize, Some(value), Some(best.value)) == std::cmp::Ordering::Less
            });
            if is_better {
                self.best = Some(Best {
                    run: record.run.clone(),
                    slot: number,
                    metric: metric.name.clone(),
                    value,
                    config: config.clone(),
                });
            }
        }
        self.runs.push(RunView {
            slot: number,
            run: slot.run.clone(),
            state,
            attempt: slot.attempt,
            job: last.map(|last| format!("{}_{}", last.job, last.task)),
            exit: record.and_then(|record| record.exit),
            seconds: record.and_then(|record| record.seconds),
            host: record.map(|record| record.host.clone()).filter(|host| !host.is_empty()),
            config,
            summary: record.map(|record| record.summary.clone()).unwrap_or_default(),
            last_loss: slot.last_loss.clone(),
            surplus: slot.surplus.len(),
        });
    }

    /// Whether every run of the budget finished.
    pub fn all_finished(&self) -> bool {
        self.finished == self.budget
    }

    /// One line: how far it is, and how long it will take.
    pub fn line(&self) -> String {
        self.line_of(self.left())
    }

    /// The same without the time, which changes all the while.
    pub fn progress(&self) -> String {
        self.line_of(None)
    }

    fn line_of(&self, left: Option<String>) -> String {
        let finished = format!("{} of {} runs finished", self.finished, self.budget);
        let counts: Vec<String> = [finished].into_iter().chain(self.counts()).collect();
        let parts =
            [Some(counts.join(", ")), left.map(|left| format!("about {left}")), self.best()];
        format!("{}: {}", self.name, parts.into_iter().flatten().collect::<Vec<_>>().join("; "))
    }

    /// What stands beside a bar that shows how many runs have ended: what matters least is left out if it does
    /// not fit into so many columns.
    pub fn beside_bar(&self, columns: usize) -> String {
        let text = |pending: bool, best: bool| {
            let counts = self.counts().filter(|count| pending || !count.ends_with("pending"));
            let counts = counts.collect::<Vec<_>>().join(", ");
            let counts = Some(counts).filter(|counts| !counts.is_empty());
            let parts = [counts, self.left(), self.best().filter(|_| best)];
            parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
        };
        let texts = [text(true, true), text(false, true), text(false, false)];
        let fits = texts.iter().find(|text| text.chars().count() <= columns);
        fits.unwrap_or(&texts[2]).chars().take(columns).collect()
    }

    fn left(&self) -> Option<String> {
        self.seconds_left.map(|seconds| format!("{} left", span(seconds)))
    }

    fn counts(&self) -> impl Iterator<Item = String> {
        let counts = [
            (self.running, "running"),
            (self.pending, "pending"),
            (self.failed, "failed"),
            (self.given_up, "given up"),
        ];
        counts
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
    }

    fn best(&self) -> Option<String> {
        self.best.as_ref().map(|best| format!("best {} {}", best.metric, short(best.value)))
    }

    /// The whole view as text.
    pub fn text(&self) -> String {
        let mut text = self.line();
        let _ = write!(text, "\n  state  {}", self.state);
        if let Some(why) = &self.why {
            let _ = write!(text, ": {why}");
        }
        let _ = write!(text, "\n  folder {}", self.path);
        if let Some(queue) = self.queue.as_ref().filter(|queue| !queue.waits.is_empty()) {
            let _ = write!(text, "\n  queue  {}", queue.text());
        }
        if let Some(best) = &self.best {
            let _ = write!(text, "\n{}", best.text());
        }
        for run in &self.runs {
            let bad = !matches!(run.state.as_str(), "finished" | "running" | "waiting");
            if bad || run.surplus > 0 {
                let exit = run.exit.map(|exit| format!(", exit code {exit}")).unwrap_or_default();
                let job = run.job.as_deref().unwrap_or("-");
                let _ = write!(text, "\n  slot {} {}{exit} (job {job})", run.slot, run.state);
            }
        }
        text
    }
}

impl Best {
    /// The run, its metric and its hyperparameters.
    pub fn text(&self) -> String {
        let config: Vec<String> = self
            .config
            .iter()
            .map(|(name, value)| format!("{name}={}", crate::sweep::python_text(value)))
            .collect();
        format!(
            "  best   run {} (slot {}): {} {}\n         {}",
            self.run,
            self.slot,
            self.metric,
            short(self.value),
            config.join(" ")
        )
    }
}

/// Why tasks wait, in SLURM's words, most of them first; and whether some will never start by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Waits {
    /// One for each reason.
    pub reasons: Vec<Wait>,
}

impl QueueView {
    /// One line.
    pub fn text(&self) -> String {
        let waits = Waits { reasons: self.waits.clone() }.text();
        // A look of this moment needs no date.
        match self.age_seconds {
            0..5 => waits,
            age => format!("{waits}, as of {age} s ago"),
        }
    }
}

/// Reasons that do not pass by themselves (seen with slurm-wlm 22.05.8; squeue(1), "JOB REASON CODES").
const HOPELESS: [&str; 8] = [
    "DependencyNeverSatisfied",
    "JobHeldUser",
    "JobHeldAdmin",
    "launch failed requeued held",
    "job requeued in held state",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "PartitionDown",
];

impl Waits {
    /// Adds up the rows of the queue.
    pub fn new(rows: &[crate::scheduler::Row]) -> Self {
        let pending = rows.iter().filter(|row| row.state.is_pending());
        Self::of(pending.map(|row| (row.reason.as_str(), row.tasks.len())))
    }

    /// Adds up reasons and numbers of tasks.
    pub fn of<'a>(pending: impl Iterator<Item = (&'a str, usize)>) -> Self {
        let mut reasons: Vec<Wait> = Vec::new();
        // `None` is what SLURM says before it has looked at the task.
        for (reason, tasks) in pending.filter(|(reason, _)| *reason != "None") {
            match reasons.iter_mut().find(|wait| wait.reason == reason) {
                Some(wait) => wait.tasks += tasks,
                None => {
                    let hopeless = HOPELESS.iter().any(|word| reason.contains(word));
                    reasons.push(Wait { reason: reason.to_owned(), tasks, hopeless });
                }
            }
        }
        reasons.sort_by(|a, b| b.tasks.cmp(&a.tasks).then_with(|| a.reason.cmp(&b.reason)));
        Self { reasons }
    }

    /// Whether the same reasons are at work, whatever the numbers.
    pub fn like(&self, other: &Self) -> bool {
        let words = |waits: &Self| {
            let mut words: Vec<String> =
                waits.reasons.iter().map(|wait| wait.reason.clone()).collect();
            words.sort();
            words
        };
        words(self) == words(other)
    }

    /// One line.
    pub fn text(&self) -> String {
        let part = |wait: &Wait| {
            let verdict = match (wait.hopeless, wait.tasks) {
                (false, _) => "",
                (true, 1) => ", will not start by itself",
                (true, _) => ", will not start by themselves",
            };
            format!("{} pending ({}{verdict})", wait.tasks, wait.reason)
        };
        self.reasons.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

fn outcome_word(outcome: Outcome) -> String {
    serde_json::to_value(outcome)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// A span as people say it: nobody can tell it more exactly.
fn span(seconds: u64) -> String {
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5400 => format!("{} min", seconds.div_ceil(60)),
        5400..172_800 => format!("{} h", seconds.div_ceil(3600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

fn short(value: f64) -> String {
    let text = format!("{value:.6}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "0" | "-0" if value != 0.0 => format!("{value:e}"),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::{JobId, Row, State};

    #[test]
    fn r79_reasons_are_grouped_and_hopeless_ones_are_named() {
        let row = |tasks: &[u32], reason: &str| Row {
            job: JobId::from("7"),
            tasks: tasks.to_vec(),
            state: State::Pending,
            reason: reason.to_owned(),
            name: "x".to_owned(),
            throttle: None,
            restarts: 0,
            start: None,
            node: None,
        };
        let waits = Waits::new(&[
            row(&[0, 1], "Priority"),
            row(&[2, 3, 4, 5, 6], "QOSMaxJobsPerUserLimit"),
            row(&[7], "Priority"),
            row(&[9], "None"),
            row(&[8], "PartitionTimeLimit"),
        ]);
        assert_eq!(
            waits.text(),
            "5 pending (QOSMaxJobsPerUserLimit), 3 pending (Priority), \
             1 pending (PartitionTimeLimit, will not start by itself)"
        );
    }

    fn view() -> SweepView {
        SweepView {
            name: "lr".into(),
            state: "running",
            why: None,
            controller: "embedded",
            path: String::new(),
            budget: 1000,
            finished: 600,
            running: 32,
            pending: 356,
            failed: 12,
            given_up: 0,
            best: Some(Best {
                run: "abcd0001".into(),
                slot: 1,
                metric: "val_loss".into(),
                value: 0.123_456_7,
                config: Config::default(),
            }),
            runs: Vec::new(),
            queue: None,
            seconds_left: None,
        }
    }

    #[test]
    fn the_text_names_what_waits_and_how_old_that_is() {
        let waits = Waits::of([("JobHeldAdmin", 3), ("None", 9)].into_iter()).reasons;
        let mut view = view();
        view.queue = Some(QueueView { answered: true, age_seconds: 0, waits });
        let line = "  queue  3 pending (JobHeldAdmin, will not start by themselves)";
        assert_eq!(view.text().lines().find(|text| text.contains("queue")), Some(line));
        view.queue.as_mut().unwrap().age_seconds = 40;
        let line = format!("{line}, as of 40 s ago");
        assert_eq!(view.text().lines().find(|text| text.contains("queue")), Some(&*line));
        view.queue = Some(QueueView::default());
        assert!(!view.text().contains("queue"));
    }

    #[test]
    fn a_line_says_how_far_it_is() {
        assert_eq!(
            view().line(),
            "lr: 600 of 1000 runs finished, 32 running, 356 pending, 12 failed; best val_loss 0.123457"
        );
    }

    #[test]
    fn beside_the_bar_what_matters_most_fits_into_80_columns() {
        let text = |view: &SweepView, columns| view.beside_bar(columns);
        let mut view = view();
        assert_eq!(text(&view, 80), "32 running, 356 pending, 12 failed; best val_loss 0.123457");
        view.seconds_left = Some(7000);
        let beside = 80 - "██████████ 612/1000: ".chars().count();
        assert_eq!(text(&view, beside), "32 running, 12 failed; 2 h left; best val_loss 0.123457");
        assert_eq!(text(&view, 40), "32 running, 12 failed; 2 h left");
        assert_eq!(text(&view, 7), "32 runn");
        let only_best = SweepView { running: 0, pending: 0, failed: 0, seconds_left: None, ..view };
        assert_eq!(text(&only_best, 80), "best val_loss 0.123457");
    }

    #[test]
    fn the_time_left_is_the_median_for_each_run_left_by_those_side_by_side() {
        let view = view();
        assert_eq!(view.seconds_left(Vec::new()), None, "nothing has finished");
        // 388 runs are left, 32 at a time.
        assert_eq!(view.seconds_left(vec![1.0, 64.0, 9999.0]), Some(776));
        assert_eq!(SweepView { running: 0, ..view.clone() }.seconds_left(vec![1.0]), None);
        assert_eq!(SweepView { state: "paused", ..view }.seconds_left(vec![1.0]), None);
    }

    #[test]
    fn the_time_left_comes_from_the_runs_that_finished() {
        let spec =
            crate::sweep::read(b"program: x\nmethod: grid\nparameters: {a: {value: 1}}\n", "");
        let spec = spec.unwrap().spec;
        let facts = Facts {
            name: "s",
            path: String::new(),
            spec: &spec,
            config: &|_| Config::default(),
            sweep: &Sweep::default(),
            budget: 4,
            max_attempts: 3,
        };
        let who = crate::log::slot::Claimant {
            array: 0,
            job: "7".to_owned(),
            task: 0,
            leg: 0,
            claim: "c".to_owned(),
        };
        let held = crate::log::slot::Holder { who, running: true, note: None, since: 0 };
        let record = |outcome, seconds| Record {
            counts: true,
            outcome,
            run: "r".to_owned(),
            exit: None,
            signal: None,
            seconds,
            host: String::new(),
            summary: Default::default(),
            seen_by: None,
        };
        let slot = |phase| Slot { phase, ..Slot::default() };
        let mut slots = [
            slot(Phase::Ended(record(Outcome::Failed, Some(1.0)))),
            slot(Phase::Held(held)),
            slot(Phase::Open),
            slot(Phase::Open),
        ];
        assert_eq!(SweepView::new(&facts, slots.iter()).seconds_left, None);
        slots[2] = slot(Phase::Ended(record(Outcome::Finished, Some(30.5))));
        let view = SweepView::new(&facts, slots.iter());
        assert_eq!(view.seconds_left, Some(61));
        let expected = "s: 1 of 4 runs finished, 1 running, 1 pending, 1 failed";
        assert_eq!(view.progress(), expected);
        assert_eq!(view.line(), format!("{expected}; about 61 s left"));
    }

    #[test]
    fn spans_are_told_as_people_say_them() {
        let told: Vec<String> = [0, 89, 90, 5399, 5400, 172_799, 172_800].map(span).to_vec();
        assert_eq!(told, ["0 s", "89 s", "2 min", "90 min", "2 h", "48 h", "2 days"]);
    }
}
