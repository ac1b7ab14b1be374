//! What a batch system knows of our jobs, in types that name no program.

pub mod slurm;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The highest number of tasks in one list; SLURM's own bound on MaxArraySize is 4,000,001.
const MAX_TASKS: usize = 4_000_001;

/// A local task's reason: it was pending when the watcher that would have started it ended.
pub const STARTER_GONE: &str = "StarterGone";

/// The id of a job, or of an array job as a whole (`1234`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(String);

impl JobId {
    /// Takes an id as SLURM prints it: digits, and `+` in parts of heterogeneous jobs.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_digit() || c == '+');
        valid.then(|| Self(text.to_owned()))
    }

    /// The id as SLURM prints it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// How SLURM names one array task of this array job.
    #[must_use]
    pub fn task(&self, index: u32) -> String {
        format!("{}_{index}", self.0)
    }
}

impl From<&str> for JobId {
    /// Takes an id that was written down by us; of an array on this machine it is no number.
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The state of a job or array task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Waits for resources, its start time, a dependency, or a release.
    Pending,
    /// Runs, or its nodes are being made ready.
    Running,
    /// Has ended, while its nodes are cleaned up; how it ended is not shown yet.
    Completing,
    /// Was stopped, and keeps its place.
    Suspended,
    /// Was sent back to the queue. In accounting: an earlier run of a task that went on.
    Requeued,
    /// Ended with exit code 0.
    Completed,
    /// Ended with another exit code or by a signal.
    Failed,
    /// Ran into its time limit.
    Timeout,
    /// Ran into its deadline.
    Deadline,
    /// Used more memory than it had asked for.
    OutOfMemory,
    /// Its node failed.
    NodeFail,
    /// Its node did not come up.
    BootFail,
    /// Gave way to a job of more weight.
    Preempted,
    /// Was cancelled.
    Cancelled {
        /// The user who did it, where SLURM tells.
        by: Option<u32>,
    },
    /// A word that this version does not know.
    Unknown(String),
}

impl State {
    /// Reads a state in SLURM's long form; accounting adds who cancelled (`CANCELLED by 1000`).
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match word.trim_end_matches('+') {
            "PENDING" => Self::Pending,
            "RUNNING" | "CONFIGURING" | "RESIZING" | "SIGNALING" => Self::Running,
            "COMPLETING" | "STAGE_OUT" => Self::Completing,
            "SUSPENDED" | "STOPPED" => Self::Suspended,
            "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" => Self::Requeued,
            "COMPLETED" => Self::Completed,
            "FAILED" => Self::Failed,
            "TIMEOUT" => Self::Timeout,
            "DEADLINE" => Self::Deadline,
            "OUT_OF_MEMORY" => Self::OutOfMemory,
            "NODE_FAIL" => Self::NodeFail,
            "BOOT_FAIL" => Self::BootFail,
            "PREEMPTED" => Self::Preempted,
            "CANCELLED" => Self::Cancelled {
                by: rest.strip_prefix("by ").and_then(|uid| uid.trim().parse().ok()),
            },
            _ => Self::Unknown(text.to_owned()),
        }
    }

    /// Whether it waits for its start, the first or another one.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self, Self::Pending | Self::Requeued)
    }

    /// Whether the job may still run or start; true of a state that we do not know.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match self {
            Self::Pending
            | Self::Running
            | Self::Completing
            | Self::Suspended
            | Self::Requeued
            | Self::Unknown(_) => true,
            Self::Completed
            | Self::Failed
            | Self::Timeout
            | Self::Deadline
            | Self::OutOfMemory
            | Self::NodeFail
            | Self::BootFail
            | Self::Preempted
            | Self::Cancelled { .. } => false,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Completing => "COMPLETING",
            Self::Suspended => "SUSPENDED",
            Self::Requeued => "REQUEUED",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Timeout => "TIMEOUT",
            Self::Deadline => "DEADLINE",
            Self::OutOfMemory => "OUT_OF_MEMORY",
            Self::NodeFail => "NODE_FAIL",
            Self::BootFail => "BOOT_FAIL",
            Self::Preempted => "PREEMPTED",
            Self::Cancelled { by: Some(uid) } => return write!(f, "CANCELLED by {uid}"),
            Self::Cancelled { by: None } => "CANCELLED",
            Self::Unknown(text) => text,
        })
    }
}

/// One line of the queue: a started task, a plain job, or all tasks of an array that wait alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The array job, or the plain job.
    pub job: JobId,
    /// The tasks that this row is about, in ascending order; empty for a plain job, and where
    /// SLURM does not name them: the cancelled rest of an array may be such a row.
    pub tasks: Vec<u32>,
    /// Their state.
    pub state: State,
    /// Why they wait or how they ended, in SLURM's words; `None` is a word of SLURM's too.
    pub reason: String,
    /// The job's name.
    pub name: String,
    /// How many tasks of the array may run at once, as far as the row says it (pending rows do).
    pub throttle: Option<u32>,
    /// How often the task was started anew. Sure of started tasks only: SLURM puts a requeued task
    /// that waits into one row with those that never started, and shows one number and no throttle.
    pub restarts: u32,
    /// When it started or, by SLURM's guess, will start; seconds since the epoch.
    pub start: Option<u64>,
    /// The node, or the nodes in SLURM's notation (`n[1-2]`).
    pub node: Option<String>,
}

/// One record of accounting: one run ("leg") of a task, or what was left of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRow {
    /// The array job, or the plain job.
    pub job: JobId,
    /// The task, if the record is about a single one that is named as such (`7_3`).
    pub task: Option<u32>,
    /// All tasks the record is about, ascending; empty if it names none (`whole_array`).
    pub tasks: Vec<u32>,
    /// The record names the job alone (`7`): a plain job, or all that was left of an array.
    pub whole_array: bool,
    /// How this leg ended, or where it is. `Requeued` is an ended leg here.
    pub state: State,
    /// Exit code and signal; a Slurm before 25.11 shows exit code 137 as signal 9.
    pub exit: (i32, i32),
    /// The job's name.
    pub name: String,
    /// The place of this leg among those of the same task: 0, 1, …
    pub leg: u32,
    /// When the leg started; seconds since the epoch.
    pub start: Option<u64>,
    /// When it ended; seconds since the epoch.
    pub end: Option<u64>,
    /// The node, or the nodes in SLURM's notation.
    pub node: Option<String>,
}

/// What a cluster allows and keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Task indices stay below this.
    pub max_array_size: u32,
    /// How many tasks one array may have; at most `max_array_size`.
    pub max_array_tasks: u32,
    /// How long an ended job stays in the queue's answer.
    pub min_job_age: Duration,
    /// Whether ended jobs are kept in a database.
    pub accounting: bool,
    /// SLURM's version.
    pub version: String,
    /// The cluster's name.
    pub cluster: String,
}

/// What a submission was refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitRefusal {
    /// Too many jobs or too large ones, for the user, the account, the QOS or the cluster.
    Limit,
    /// No such account, or not this user's, or not for this partition.
    Account,
    /// No such partition, or not for this user.
    Partition,
    /// No such QOS, or not this user's.
    Qos,
    /// No node has what the job asks for.
    Node,
    /// More tasks, or higher indices, than the cluster allows.
    ArraySize,
    /// Anything else; the text says what.
    Other,
}

/// What came of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submitted {
    /// The job exists.
    Accepted(JobId),
    /// The job does not exist, and the same submission would be refused again.
    Refused {
        /// What for.
        kind: SubmitRefusal,
        /// SLURM's own words.
        text: String,
    },
    /// The job may exist: look for it by name before trying again.
    NoAnswer {
        /// What is known of it.
        text: String,
    },
    /// The job does not exist: SLURM was not reached.
    NotSent {
        /// Why.
        text: String,
    },
}

/// The limit that a refusal names, or else all its words in one line.
#[must_use]
pub fn limit_name(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    // AssocGrpSubmitJobsLimit, QOSMaxSubmitJobPerUserLimit: a word alone, in a line of its own.
    let is_name = |line: &&&str| line.ends_with("Limit") && !line.contains(' ');
    lines.iter().find(is_name).map_or_else(|| lines.join("; "), |name| (*name).to_owned())
}

/// Reads a list of tasks as SLURM prints it: `2-9%2`, `1,4,7%5`, `0-20:5`.
///
/// Gives the indices in ascending order and the throttle. A list that was cut is not readable.
#[must_use]
pub fn expand_tasks(text: &str) -> Option<(Vec<u32>, Option<u32>)> {
    let (list, throttle) = match text.split_once('%') {
        Some((list, throttle)) => (list, Some(throttle.parse().ok()?)),
        None => (text, None),
    };
    let mut tasks = Vec::new();
    for part in list.split(',') {
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, step.parse::<usize>().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (index(first)?, index(last)?);
        if first > last || (last - first) as usize / step >= MAX_TASKS - tasks.len() {
            return None;
        }
        tasks.extend((first..=last).step_by(step));
    }
    tasks.sort_unstable();
    tasks.dedup();
    Some((tasks, throttle.filter(|throttle| *throttle > 0)))
}

fn index(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

/// The ranges of a list of tasks, each in SLURM's notation: `1-5`, `9`.
#[must_use]
pub fn task_ranges(tasks: &[u32]) -> Vec<String> {
    let mut sorted = tasks.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
        .chunk_by(|a, b| a.checked_add(1) == Some(*b))
        .filter_map(|run| match run {
            [] => None,
            [one] => Some(one.to_string()),
            [first, .., last] => Some(format!("{first}-{last}")),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_lists_are_read_as_slurm_prints_them() {
        // All from slurm-wlm 22.05.8 but the step, which `scontrol` accepts.
        assert_eq!(expand_tasks("3"), Some((vec![3], None)));
        assert_eq!(expand_tasks("2-5%2"), Some((vec![2, 3, 4, 5], Some(2))));
        assert_eq!(expand_tasks("4,7-9%1"), Some((vec![4, 7, 8, 9], Some(1))));
        assert_eq!(expand_tasks("0-20:5%3"), Some((vec![0, 5, 10, 15, 20], Some(3))));
    }

    #[test]
    fn a_list_that_was_cut_or_is_absurd_is_not_readable() {
        for text in ["1,3,...", "1-", "", "5-2", "x", "1-4%", "1-9:0", "0-4294967295", "+1"] {
            assert_eq!(expand_tasks(text), None, "{text}");
        }
        assert_eq!(expand_tasks("0-4000000,5-9"), None);
    }

    #[test]
    fn ranges_are_as_short_as_can_be() {
        assert_eq!(task_ranges(&[9, 1, 2, 3, 4, 5, 5]).join(","), "1-5,9");
        assert_eq!(task_ranges(&[u32::MAX, 0]).join(","), "0,4294967295");
        assert!(task_ranges(&[]).is_empty());
    }

    #[test]
    fn a_cancelled_state_tells_by_whom() {
        assert_eq!(State::parse("CANCELLED by 1000"), State::Cancelled { by: Some(1000) });
        assert_eq!(State::parse("CANCELLED"), State::Cancelled { by: None });
        assert!(!State::parse("CANCELLED by 0").is_alive());
    }

    #[test]
    fn a_state_this_version_does_not_know_counts_as_alive() {
        assert!(State::parse("STAGE_SIDEWAYS").is_alive());
        assert!(State::parse("REQUEUE_HOLD").is_alive());
        assert!(!State::parse("NODE_FAIL").is_alive());
    }

    #[test]
    fn the_limit_of_a_refusal_is_named() {
        // From slurm-wlm 22.05.8, as `sbatch::words` leaves them.
        let violates = "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's \
                        size and/or time limits)";
        let text = format!("AssocMaxSubmitJobLimit\n{violates}");
        assert_eq!(limit_name(&text), "AssocMaxSubmitJobLimit");
        let text = "Batch job submission failed: Resource temporarily unavailable";
        assert_eq!(limit_name(text), text);
        assert_eq!(
            limit_name(&format!("please wait\n{violates}")),
            format!("please wait; {violates}")
        );
    }

    #[test]
    fn job_ids_are_numbers() {
        assert_eq!(JobId::parse("12").map(|job| job.task(3)), Some("12_3".to_owned()));
        assert!(JobId::parse("12+1").is_some());
        for text in ["", "12_3", "a", "+1", "1 2", "-1"] {
            assert_eq!(JobId::parse(text), None, "{text}");
        }
    }
}
