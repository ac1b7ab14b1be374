//! Reads sacct: how runs of our tasks ended, also of those that slurmctld has forgotten.
//!
//! It is some seconds late, and single pending tasks that were cancelled leave no record.

use std::collections::HashMap;

use super::{HistoryRow, JobId, SlurmError, State, expand_tasks, seconds};

/// Between the fields; no sane job name holds it.
const SEPARATOR: char = '\u{1f}';

/// How sacct is asked: all legs (`-D`), no steps (`-X`).
///
/// The name is not last, so that a newline in it cannot be taken for the end of a record.
pub const FORMAT: [&str; 6] = [
    "--duplicates",
    "--allocations",
    "--noheader",
    "--parsable2",
    "--delimiter=\u{1f}",
    "--format=JobID,JobName,State,ExitCode,Start,End,NodeList",
];

/// Parses the answer to [`FORMAT`]; the legs of each task are numbered by their start.
///
/// # Errors
/// `SlurmError::Unreadable`, with the record, if a single one is not readable.
pub fn parse(stdout: &str) -> Result<Vec<HistoryRow>, SlurmError> {
    let mut rows = Vec::new();
    let mut rest = stdout;
    while !rest.is_empty() {
        let (row, after) = parse_row(rest).ok_or_else(|| SlurmError::Unreadable {
            program: "sacct",
            row: rest.lines().next().unwrap_or_default().replace(SEPARATOR, "|"),
        })?;
        rows.push(row);
        rest = after;
    }
    number_legs(&mut rows);
    Ok(rows)
}

fn parse_row(text: &str) -> Option<(HistoryRow, &str)> {
    let mut fields = text.splitn(7, SEPARATOR);
    let id = fields.next()?;
    let (job, list) = id.split_once('_').unwrap_or((id, ""));
    let job = JobId::parse(job)?;
    let (task, tasks) = match list.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        Some(list) => (None, expand_tasks(list)?.0),
        None if list.is_empty() => (None, Vec::new()),
        None => {
            let task = list.parse().ok()?;
            (Some(task), vec![task])
        }
    };
    let name = fields.next()?.to_owned();
    let state = fields.next().filter(|state| !state.is_empty()).map(State::parse)?;
    let (code, signal) = fields.next()?.split_once(':')?;
    let exit = (code.parse().ok()?, signal.parse().ok()?);
    let start = seconds(fields.next()?)?;
    let end = seconds(fields.next()?)?;
    let (node, after) = fields.next()?.split_once('\n')?;
    let node = Some(node).filter(|node| !node.is_empty() && *node != "None assigned");
    let whole_array = tasks.is_empty();
    let node = node.map(str::to_owned);
    let leg = 0;
    let row =
        HistoryRow { job, task, tasks, whole_array, state, exit, name, leg, start, end, node };
    Some((row, after))
}

/// sacct sorts by its own record numbers; we do not rely on it.
fn number_legs(rows: &mut [HistoryRow]) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&i| rows[i].start.unwrap_or(u64::MAX));
    let mut seen: HashMap<(JobId, Option<u32>), u32> = HashMap::new();
    for i in order {
        // What was left of an array is no leg of any one task.
        if rows[i].task.is_none() && !rows[i].whole_array {
            continue;
        }
        let next = seen.entry((rows[i].job.clone(), rows[i].task)).or_default();
        rows[i].leg = *next;
        *next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From slurm-wlm 22.05.8; the separator is written as `^`.
    const CAPTURED: &str = "\
        3^sig|x^FAILED^0:11^1796022692^1796022692^n1\n\
        8^nl\nx|y^PENDING^0:0^Unknown^Unknown^None assigned\n\
        2_0^fail3^FAILED^3:0^1796022692^1796022692^n1\n\
        4_0^run^RUNNING^0:0^1796022692^Unknown^n1\n\
        4_[2-9%2]^run^PENDING^0:0^Unknown^Unknown^None assigned\n\
        9_5^requeue^REQUEUED^0:0^1796022692^1796022695^n1\n\
        10_6^nodefail^NODE_FAIL^0:0^1796022692^1796022695^n4\n\
        12_0^cancel^CANCELLED by 0^0:0^1796022692^1796022695^n1\n\
        12_[1-3%1]^cancel^CANCELLED by 0^0:0^1796022695^1796022695^None assigned\n\
        9_5^requeue^RUNNING^0:0^1796022701^Unknown^n1\n";

    fn read(text: &str) -> Vec<HistoryRow> {
        parse(&text.replace('^', "\u{1f}")).unwrap()
    }

    fn of(job: &str) -> Vec<HistoryRow> {
        read(CAPTURED).into_iter().filter(|row| row.job.as_str() == job).collect()
    }

    #[test]
    fn every_captured_record_is_read() {
        assert_eq!(read(CAPTURED).len(), 10);
    }

    #[test]
    fn exit_code_and_signal_are_told_apart() {
        assert_eq!((of("2")[0].exit, of("2")[0].task), ((3, 0), Some(0)));
        assert_eq!((of("3")[0].exit, of("3")[0].task), ((0, 11), None));
    }

    #[test]
    fn a_newline_in_a_name_does_not_end_the_record() {
        assert_eq!(of("8")[0].name, "nl\nx|y");
        assert!(of("8")[0].whole_array);
    }

    #[test]
    fn the_legs_of_a_requeued_task_are_numbered_by_their_start() {
        let legs: Vec<_> = of("9").into_iter().map(|row| (row.leg, row.state)).collect();
        assert_eq!(legs, [(0, State::Requeued), (1, State::Running)]);
        let later_first = "9_5^r^COMPLETED^0:0^20^30^n1\n9_5^r^PREEMPTED^0:0^1^9^n1\n";
        let legs: Vec<_> = read(later_first).into_iter().map(|row| row.leg).collect();
        assert_eq!(legs, [1, 0]);
    }

    #[test]
    fn the_cancelled_rest_of_an_array_names_its_tasks() {
        let rest = of("12").remove(1);
        assert_eq!((rest.task, rest.tasks), (None, vec![1, 2, 3]));
        assert_eq!(rest.state, State::Cancelled { by: Some(0) });
        assert_eq!((rest.whole_array, rest.node), (false, None));
    }

    #[test]
    fn the_cancelled_rest_of_an_array_may_name_the_job_alone() {
        // Written after Slurm's documentation: the list of tasks is lost in some old records.
        let row =
            read("7^lr^CANCELLED by 1000^0:0^1796022695^1796022695^None assigned\n").remove(0);
        assert!(row.whole_array && row.tasks.is_empty());
    }

    #[test]
    fn a_time_out_is_final() {
        // Written after Slurm's documentation: a real one takes a minute.
        let row = read("7_1^lr^TIMEOUT^0:0^1796022695^1796022755^n1\n").remove(0);
        assert_eq!((row.state, row.end), (State::Timeout, Some(1796022755)));
    }

    #[test]
    fn a_cut_or_foreign_answer_is_unreadable() {
        for bad in ["7_1^lr^TIMEOUT^0:0^1^2^n1", "hello\n", "7_[1-^n^PENDING^0:0^1^2^n\n", "\n"] {
            let text = format!("{CAPTURED}{bad}").replace('^', "\u{1f}");
            assert!(matches!(parse(&text), Err(SlurmError::Unreadable { .. })), "{bad}");
        }
    }
}
