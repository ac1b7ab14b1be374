//! Traces that somebody altered: orders that no SLURM makes are refused, each for its reason.

use serde_json::Value;

use super::replay::follow;

/// A trace as a person may alter it.
struct Altered {
    header: String,
    lines: Vec<Value>,
    /// The log of the slot whose task was killed, and one of another slot.
    lost: String,
    other: &'static str,
}

impl Altered {
    /// One in which a task is killed, is lost, and is run again.
    fn killed() -> Self {
        let name = "a_killed_task_takes_its_program_along_and_is_run_again-1";
        let path = format!("{}/tests/traces/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("a committed trace");
        let (header, lines) = text.split_once('\n').expect("a header");
        let lines = lines.lines().map(|line| serde_json::from_str(line).expect("JSON"));
        let lines: Vec<Value> = lines.collect();
        let lost = lines.iter().find(|line| line["entry"]["kind"] == "lost").expect("a loss");
        let lost = lost["log"].as_str().expect("a log").to_owned();
        let other = if lost == "slot 1" { "slot 2" } else { "slot 1" };
        Self { header: header.to_owned(), lines, lost, other }
    }

    /// Where the first entry of this log and kind is.
    fn place(&self, log: &str, kind: &str) -> usize {
        let is = |line: &Value| line["log"] == log && line["entry"]["kind"] == kind;
        self.lines.iter().position(is).expect("the trace has one")
    }

    /// Lets all looks show another state.
    fn show(&mut self, was: &str, now: &str) {
        for plan in self.lines.iter_mut().filter_map(|line| line.get_mut("plans")) {
            for row in plan["queue"].as_array_mut().into_iter().flatten() {
                if row["state"] == was {
                    row["state"] = now.into();
                }
            }
        }
    }

    /// `why` says OTHER and LOST for the slots.
    fn refused(&self, why: &str) {
        let why = &why.replace("OTHER", self.other).replace("LOST", &self.lost);
        let lines: Vec<String> = self.lines.iter().map(Value::to_string).collect();
        let answer = follow(&format!("{}\n{}\n", self.header, lines.join("\n")));
        let Err(answer) = answer else { panic!("followed, although: {why}") };
        assert!(answer.contains(why), "{answer}, not: {why}");
    }
}

#[test]
fn a_trace_that_nobody_altered_is_followed() {
    let trace = Altered::killed();
    let lines: Vec<String> = trace.lines.iter().map(Value::to_string).collect();
    assert_eq!(follow(&format!("{}\n{}\n", trace.header, lines.join("\n"))), Ok(()));
}

#[test]
fn a_run_without_a_claim_is_refused() {
    let mut trace = Altered::killed();
    trace.lines.remove(trace.place(trace.other, "claim"));
    trace.refused("nobody is there to write");
    let mut trace = Altered::killed();
    let (claim, run) = (trace.place(trace.other, "claim"), trace.place(trace.other, "run"));
    trace.lines.swap(claim, run);
    trace.refused("`OTHER: run` is there, the sim's task writes `OTHER: claim");
}

#[test]
fn a_claim_by_a_task_that_does_not_carry_the_slot_is_refused() {
    for (field, value, why) in [
        ("job", "9".into(), "nobody has submitted array 0 as job 9"),
        ("task", 3.into(), "the sim's task writes `slot 3: claim"),
        ("task", 9.into(), "has no task 9"),
        ("attempt", 1.into(), "the sim's task writes `OTHER: claim of 0"),
        ("array", 5.into(), "there is no array 5"),
    ] {
        let mut trace = Altered::killed();
        let claim = trace.place(trace.other, "claim");
        trace.lines[claim]["entry"][field] = value;
        trace.refused(why);
    }
}

#[test]
fn a_second_claim_of_a_slot_that_is_held_is_refused() {
    let mut trace = Altered::killed();
    let mut twin = trace.lines[trace.place(trace.other, "claim")].clone();
    (twin["by"], twin["entry"]["claim"]) = ("p99".into(), "another".into());
    trace.lines.insert(trace.place(trace.other, "run"), twin);
    trace.refused("cannot be there");
}

#[test]
fn a_program_that_starts_before_the_sweep_is_warm_without_a_trial_is_refused() {
    let mut trace = Altered::killed();
    trace.lines.remove(trace.place("sweep", "trial"));
    trace.refused("the sim's task writes `Trial");
}

#[test]
fn a_second_record_that_counts_is_refused() {
    let mut trace = Altered::killed();
    let record = trace.place(trace.other, "record");
    trace.lines.insert(record, trace.lines[record].clone());
    trace.refused("OTHER: record of a task: Finished, counts true` is there, the sim's task exits");
    let mut trace = Altered::killed();
    let mut another = trace.lines[record].clone();
    another["by"] = "p1".into();
    trace.lines.insert(record + 1, another);
    trace.refused("no watcher would write `OTHER: record");
}

#[test]
fn a_record_whose_outcome_the_task_cannot_give_is_refused() {
    let mut trace = Altered::killed();
    let record = trace.place(trace.other, "record");
    trace.lines[record]["entry"]["outcome"] = "timeout".into();
    trace.refused("record of a task: Timeout");
    let mut trace = Altered::killed();
    trace.lines[record]["entry"]["counts"] = false.into();
    trace.refused("the sim's task writes `OTHER: record of a task: Finished, counts true");
}

#[test]
fn a_loss_of_a_task_that_the_look_shows_alive_is_refused() {
    let mut trace = Altered::killed();
    let mut lost = trace.lines[trace.place(&trace.lost, "lost")].clone();
    lost["log"] = trace.other.into();
    trace.lines.insert(trace.place(&trace.lost, "lost"), lost);
    trace.refused("OTHER: leg 0 is lost` is there, the sim's watcher writes `LOST: leg 0 is lost");
    // The same, where the looks are altered.
    let mut trace = Altered::killed();
    trace.show("FAILED", "RUNNING");
    trace.refused("no watcher would write `LOST: leg 0 is lost`");
}

#[test]
fn a_loss_that_the_look_proves_and_nobody_writes_is_refused() {
    let mut trace = Altered::killed();
    trace.lines.remove(trace.place(&trace.lost, "lost"));
    trace.refused("before it looks again, the sim's watcher writes `LOST: leg 0 is lost`");
}

#[test]
fn a_look_that_shows_as_done_what_still_runs_is_refused() {
    let mut trace = Altered::killed();
    trace.show("RUNNING", "COMPLETED");
    trace.refused("is shown Some((Completed, 0)): it is at Program");
}

#[test]
fn a_plan_without_a_look_is_refused() {
    let mut trace = Altered::killed();
    trace.lines.remove(0);
    trace.refused("it plans without a look");
}

#[test]
fn an_array_that_is_not_planned_or_has_two_jobs_is_refused() {
    let mut trace = Altered::killed();
    let array = trace.place("sweep", "array");
    let mut again = trace.lines[array].clone();
    again["entry"]["name"] = "sweep-again".into();
    trace.lines.insert(array + 3, again);
    trace.refused("no watcher would write `array");
    let mut trace = Altered::killed();
    trace.lines[array + 2]["entry"]["job"] = "9".into();
    trace.refused("array 0 is job 9` is there, the sim's watcher writes `array 0 is job 2");
}

#[test]
fn an_end_before_the_end_is_refused() {
    let mut trace = Altered::killed();
    let closed = trace.lines.remove(trace.place("sweep", "closed"));
    trace.lines.insert(trace.place(&trace.lost, "lost"), closed);
    trace.refused("`Closed` is there");
}
