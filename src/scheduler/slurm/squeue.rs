//! Reads squeue: what slurmctld still remembers of our jobs.
//!
//! slurmctld forgets a task `MinJobAge` seconds after its end. A task missing here is therefore a
//! question for sacct, never an answer.

use super::{JobId, Row, SlurmError, State, expand_tasks, seconds};

/// One row per started task, and one for all tasks of an array that still wait together.
///
/// A colon without a width keeps a field uncut. The job name comes last and ends in U+001E, as it
/// alone may hold the separator, and even newlines.
pub const FORMAT: &str = "--Format=ArrayJobID:|,ArrayTaskID:|,State:|,StartTime:|,RestartCnt:|,\
                          NodeList:|,Reason:|,Name:\u{1e}";

/// An answer of squeue.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// The rows that are readable.
    pub rows: Vec<Row>,
    unreadable: Vec<Stranger>,
}

/// A row that is not readable, but for whose it is.
#[derive(Clone, Debug)]
struct Stranger {
    job: JobId,
    name: String,
    text: String,
}

impl Queue {
    /// The rows, if all of them are readable.
    #[must_use]
    pub fn whole(&self) -> Option<&[Row]> {
        self.unreadable.is_empty().then_some(&self.rows)
    }

    /// The rows, if none that is not readable could be of these jobs or have one of these names.
    ///
    /// Such a row fails the whole look: dropping it would read as "that task is gone".
    ///
    /// # Errors
    /// `SlurmError::Unreadable`, with the row.
    pub fn rows_for<'a>(
        self,
        jobs: impl Iterator<Item = &'a str> + Clone,
        names: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<Vec<Row>, SlurmError> {
        let ours = |row: &Stranger| {
            jobs.clone().any(|job| job == row.job.as_str())
                || names.clone().any(|name| name == row.name || row.text.contains(name))
        };
        match self.unreadable.iter().find(|row| ours(row)) {
            Some(row) => Err(unreadable(&row.text)),
            None => Ok(self.rows),
        }
    }
}

fn unreadable(row: &str) -> SlurmError {
    SlurmError::Unreadable { program: "squeue", row: row.trim().to_owned() }
}

/// Parses `squeue --noheader` in [`FORMAT`]; times are in seconds since the epoch.
///
/// A row that does not even say whose it is, or an answer that was cut, fails the whole look.
///
/// # Errors
/// `SlurmError::Unreadable`, with the row.
pub fn parse(stdout: &str) -> Result<Queue, SlurmError> {
    let mut queue = Queue::default();
    let mut rest = stdout;
    // Each row ends in the mark and a newline.
    while let Some((row, after)) = rest.split_once("\u{1e}\n") {
        match parse_row(row) {
            Some(row) => queue.rows.push(row),
            None => queue.unreadable.push(stranger(row).ok_or_else(|| unreadable(row))?),
        }
        rest = after;
    }
    // A row without its mark is an answer that was cut.
    if rest.trim().is_empty() { Ok(queue) } else { Err(unreadable(rest)) }
}

fn stranger(row: &str) -> Option<Stranger> {
    let fields: Vec<&str> = row.splitn(8, '|').collect();
    let [job, .., name] = fields.as_slice() else { return None };
    let name = Some(*name).filter(|name| fields.len() == 8 && !name.is_empty())?;
    Some(Stranger { job: JobId::parse(job)?, name: name.to_owned(), text: row.to_owned() })
}

fn parse_row(row: &str) -> Option<Row> {
    let mut fields = row.splitn(8, '|');
    let job = JobId::parse(fields.next()?)?;
    let (tasks, throttle) = match fields.next()? {
        "N/A" => (Vec::new(), None),
        list => expand_tasks(list)?,
    };
    let state = fields.next().filter(|state| !state.is_empty()).map(State::parse)?;
    let start = seconds(fields.next()?)?;
    let restarts = fields.next()?.parse().ok()?;
    let node = Some(fields.next()?).filter(|node| !node.is_empty()).map(str::to_owned);
    let reason = fields.next()?.to_owned();
    // A mark in a name would hide that two rows are one.
    let name = fields.next().filter(|name| !name.contains('\u{1e}'))?.to_owned();
    Some(Row { job, tasks, state, reason, name, throttle, restarts, start, node })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From slurm-wlm 22.05.8, with accounting; without accounting the rows look alike.
    const CAPTURED: &str = "\
        12|1-3%1|CANCELLED|1796022695|0||JobArrayTaskLimit|cancel\u{1e}\n\
        12|0|CANCELLED|1796022692|0|n1|None|cancel\u{1e}\n\
        1|0|COMPLETED|1796022692|0|n1|None|arrok\u{1e}\n\
        7|N/A|COMPLETED|1796022692|0|n1|None|empty\u{1e}\n\
        2|0|FAILED|1796022692|0|n1|NonZeroExitCode|fail3\u{1e}\n\
        3|N/A|FAILED|1796022692|0|n1|JobLaunchFailure|sig|x\u{1e}\n\
        10|6|NODE_FAIL|1796022692|0|n4|NodeDown|nodefail\u{1e}\n\
        4|2-9%2|PENDING|N/A|0||JobArrayTaskLimit|run\u{1e}\n\
        9|5|PENDING|1796022701|1||BeginTime|requeue\u{1e}\n\
        8|N/A|PENDING|N/A|0||JobHeldUser|nl\nx|y\u{1e}\n\
        6|1,4,7,10,13,16,19,22,25,28,31,34,37,40,77%5|PENDING|N/A|0||JobHeldUser|held\u{1e}\n\
        4|0|RUNNING|1796022692|0|n1|None|run\u{1e}\n";

    fn row(job: &str, task: Option<u32>) -> Row {
        let rows = parse(CAPTURED).unwrap().rows;
        let same = |row: &&Row| row.job.as_str() == job && row.tasks.first().copied() == task;
        rows.iter().find(same).unwrap().clone()
    }

    #[test]
    fn every_captured_row_is_read() {
        assert_eq!(parse(CAPTURED).unwrap().rows.len(), 12);
    }

    #[test]
    fn waiting_tasks_of_an_array_are_one_row() {
        let waiting = row("4", Some(2));
        assert_eq!(waiting.tasks, (2..=9).collect::<Vec<_>>());
        assert_eq!((waiting.throttle, waiting.start, waiting.node), (Some(2), None, None));
        assert_eq!(waiting.reason, "JobArrayTaskLimit");
    }

    #[test]
    fn a_started_task_has_a_row_of_its_own() {
        let started = row("4", Some(0));
        assert_eq!((started.tasks, started.state), (vec![0], State::Running));
        assert_eq!((started.start, started.node), (Some(1796022692), Some("n1".to_owned())));
        assert_eq!(started.throttle, None);
    }

    #[test]
    fn a_held_array_lists_every_task() {
        let held = row("6", Some(1));
        assert_eq!((held.tasks.len(), held.tasks[14], held.throttle), (15, 77, Some(5)));
        assert_eq!(held.reason, "JobHeldUser");
    }

    #[test]
    fn a_requeued_task_tells_how_often() {
        assert_eq!(row("9", Some(5)).restarts, 1);
    }

    #[test]
    fn a_requeued_task_may_share_a_row_with_those_that_never_started() {
        // From slurm-wlm 22.05.8: `-r` shows one restart of task 0, and the throttle is 2.
        let row =
            parse("67|0,3-5|PENDING|N/A|0||JobArrayTaskLimit|a\u{1e}\n").unwrap().rows.remove(0);
        assert_eq!((row.tasks, row.restarts, row.throttle), (vec![0, 3, 4, 5], 0, None));
    }

    #[test]
    fn a_plain_job_has_no_tasks() {
        assert!(row("7", None).tasks.is_empty());
    }

    #[test]
    fn the_cancelled_rest_of_an_array_may_name_no_tasks() {
        // From slurm-wlm 22.05.8, after `scancel --state=PENDING 34` with tasks 1 to 9 waiting.
        let rest = "34|N/A|CANCELLED|1796022869|0||JobArrayTaskLimit|pend\u{1e}\n";
        let rest = parse(rest).unwrap().rows.remove(0);
        assert!(rest.tasks.is_empty() && !rest.state.is_alive());
    }

    #[test]
    fn a_name_may_hold_separators_and_newlines() {
        assert_eq!(row("3", None).name, "sig|x");
        assert_eq!(row("8", None).name, "nl\nx|y");
    }

    #[test]
    fn a_row_that_does_not_say_whose_it_is_fails_the_whole_look() {
        for bad in [
            "4|1|RUNNING|1796022692|0|n1|None|no end",
            "slurm_load_jobs error: something\n",
            "|||||||\u{1e}\n", // as 22.05.8 prints every field that it does not know
            "4||||||None|\u{1e}\n",
            "4|1|RUNNING|1796022692|0|n1|None|a\u{1e}\nb\u{1e}\n",
        ] {
            let text = format!("{CAPTURED}{bad}");
            assert!(matches!(parse(&text), Err(SlurmError::Unreadable { .. })), "{bad}");
        }
    }

    #[test]
    fn an_unreadable_row_fails_the_look_of_those_only_whose_it_could_be() {
        for bad in [
            "4|1,3,...|PENDING|N/A|0||None|run-token\u{1e}\n", // SLURM_BITSTR_LEN was not honoured
            "4|1|RUNNING|1796022692|0|n1|None|a\u{1e}run-token\u{1e}\n",
        ] {
            let text = format!("{CAPTURED}{bad}");
            let look = |job: &'static str, name: &'static str| {
                parse(&text).unwrap().rows_for([job].into_iter(), [name].into_iter())
            };
            assert_eq!(look("3", "another").unwrap().len(), 12);
            for (job, name) in [("4", "another"), ("3", "run-token"), ("3", "token")] {
                let look = look(job, name);
                assert!(matches!(look, Err(SlurmError::Unreadable { .. })), "{job} {name}");
            }
            assert!(parse(&text).unwrap().whole().is_none());
        }
    }

    #[test]
    fn an_empty_queue_is_an_answer() {
        assert!(parse("").unwrap().rows.is_empty());
    }
}
