//! Reads scontrol and scancel: the cluster's limits, and whether a change was made.

use std::time::Duration;

use super::{JobId, Limits, task_ranges};
use crate::launch::request::{Partition, time};

/// Targets of one scancel; a site may slow down a client that asks for more at once.
const BATCH: usize = 200;

/// Ranges in one target, which keeps it short of the system's limit on one argument.
const RANGES: usize = 500;

/// Parses `scontrol show config`; nothing if it lacks a limit.
#[must_use]
pub fn parse_limits(stdout: &str) -> Option<Limits> {
    let value = |name: &str| {
        let mut lines = stdout.lines().filter_map(|line| line.split_once('='));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
    };
    let max_array_size = value("MaxArraySize")?.parse().ok()?;
    let max_array_tasks = value("SchedulerParameters")
        .and_then(|all| all.split(',').find_map(|one| one.trim().strip_prefix("max_array_tasks=")))
        .and_then(|tasks| tasks.parse().ok())
        .map_or(max_array_size, |tasks: u32| tasks.min(max_array_size));
    let seconds = value("MinJobAge")?.split(' ').next()?.parse().ok()?;
    let storage = value("AccountingStorageType").unwrap_or_default();
    Some(Limits {
        max_array_size,
        max_array_tasks,
        min_job_age: Duration::from_secs(seconds),
        accounting: !matches!(storage, "" | "(null)" | "accounting_storage/none"),
        version: value("SLURM_VERSION")?.to_owned(),
        cluster: value("ClusterName").unwrap_or_default().to_owned(),
    })
}

/// Parses `scontrol show partition --oneliner`. A line that lacks a limit is left out: nothing can be said of it.
#[must_use]
pub fn parse_partitions(stdout: &str) -> Vec<Partition> {
    let read = |line: &str| {
        let value = |name: &str| {
            let mut fields = line.split_whitespace().filter_map(|field| field.split_once('='));
            fields.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let max_time = time(value("MaxTime")?)?;
        Some(Partition {
            name: value("PartitionName")?.to_owned(),
            is_default: value("Default")? == "YES",
            max_time,
            // `NONE`: the longest that is allowed.
            default_time: value("DefaultTime").and_then(time).unwrap_or(max_time),
        })
    };
    stdout.lines().filter_map(read).collect()
}

/// Whether all that went wrong is that there was nothing left to change.
///
/// scontrol exits 1 if a single task of an array has ended, though it changed all others; scancel
/// does so with a state filter.
#[must_use]
pub fn is_done_all_the_same(stderr: &str) -> bool {
    let benign = |line: &str| {
        let task = line.starts_with(|c: char| c.is_ascii_digit()) || line.starts_with("(null): ");
        (task && (line.ends_with(": No error") || line.ends_with(": Job has already finished")))
            || (line.starts_with("scancel: error: Kill job error on job id ")
                && (line.ends_with(": Invalid job id specified")
                    || line.ends_with(": Job/step already completing or completed")))
    };
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(benign)
}

/// The arguments of as many scancels as it takes: `123_[1-5,9]`, `7_3`, `12`.
#[must_use]
pub fn batches(jobs: &[JobId], tasks: &[(JobId, Vec<u32>)]) -> Vec<Vec<String>> {
    let mut targets: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    for (job, tasks) in tasks {
        for ranges in task_ranges(tasks).chunks(RANGES) {
            targets.push(match ranges {
                [one] if !one.contains('-') => format!("{job}_{one}"),
                _ => format!("{job}_[{}]", ranges.join(",")),
            });
        }
    }
    targets.chunks(BATCH).map(<[String]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::request::TimeLimit;

    /// From slurm-wlm 22.05.8.
    const CONFIG: &str = "\
Configuration data as of 1796022697
AccountingStorageBackupHost = (null)
AccountingStorageType   = accounting_storage/slurmdbd
ClusterName             = testbed
MaxArraySize            = 1001
MessageTimeout          = 10 sec
MinJobAge               = 300 sec
SchedulerParameters     = batch_sched_delay=0,sched_interval=2,bf_continue
SLURM_VERSION           = 22.05.8
";

    #[test]
    fn limits_are_read() {
        let limits = parse_limits(CONFIG).unwrap();
        assert_eq!((limits.max_array_size, limits.max_array_tasks), (1001, 1001));
        assert_eq!(limits.min_job_age, Duration::from_secs(300));
        assert_eq!((&*limits.version, &*limits.cluster), ("22.05.8", "testbed"));
        assert!(limits.accounting);
    }

    #[test]
    fn a_cluster_without_accounting_says_so() {
        // 22.05.8 says `none`; `(null)` is how Slurm prints an option that is not set.
        for none in ["accounting_storage/none", "(null)"] {
            let config = CONFIG.replace("accounting_storage/slurmdbd", none);
            assert!(!parse_limits(&config).unwrap().accounting);
        }
    }

    #[test]
    fn a_lower_limit_on_tasks_counts() {
        let config = CONFIG.replace("bf_continue", "max_array_tasks=50,bf_continue");
        let limits = parse_limits(&config).unwrap();
        assert_eq!((limits.max_array_size, limits.max_array_tasks), (1001, 50));
    }

    #[test]
    fn limits_are_not_guessed() {
        assert_eq!(parse_limits(""), None);
        assert_eq!(parse_limits(&CONFIG.replace("MaxArraySize ", "Max ")), None);
    }

    #[test]
    fn time_limits_of_partitions_are_read() {
        // slurm-wlm 22.05.8, shortened; the last line has what the manual names besides.
        let text = "\
PartitionName=main AllowGroups=ALL Default=YES QoS=N/A DefaultTime=01:00:00 MaxTime=1-00:00:00 MinNodes=0 State=UP
PartitionName=short AllowGroups=ALL Default=NO QoS=N/A DefaultTime=NONE MaxTime=00:02:00 State=UP
PartitionName=long Default=NO DefaultTime=NONE MaxTime=UNLIMITED
PartitionName=odd Default=NO
";
        let partitions = parse_partitions(text);
        let minutes = |n: u64| TimeLimit::Limited(Duration::from_secs(n * 60));
        let read: Vec<_> = partitions
            .iter()
            .map(|p| (&*p.name, p.is_default, p.max_time, p.default_time))
            .collect();
        assert_eq!(
            read,
            [
                ("main", true, minutes(1440), minutes(60)),
                ("short", false, minutes(2), minutes(2)),
                ("long", false, TimeLimit::Unlimited, TimeLimit::Unlimited),
            ]
        );
    }

    #[test]
    fn a_change_to_an_array_with_ended_tasks_is_a_change() {
        // All from slurm-wlm 22.05.8: hold, the same with nothing left, and scancel --state.
        assert!(is_done_all_the_same("35_0: Job has already finished\n35_1-9: No error\n"));
        assert!(is_done_all_the_same("30_0: Job has already finished\n(null): No error\n"));
        assert!(is_done_all_the_same(
            "scancel: error: Kill job error on job id 30: Invalid job id specified\n"
        ));
    }

    #[test]
    fn a_change_that_was_not_made_is_an_error() {
        for stderr in [
            "",
            "Invalid job id specified for job 99999\n",
            "slurm_suspend error: Invalid job id specified\n",
            "scancel: error: Kill job error on job id 35: Access/permission denied\n",
            "35_0: Job has already finished\n35_1: Access/permission denied\n",
            "Unexpected message received for job 1\n",
        ] {
            assert!(!is_done_all_the_same(stderr), "{stderr}");
        }
    }

    #[test]
    fn targets_are_short_and_in_batches() {
        let job = |id: &str| JobId::parse(id).unwrap();
        let tasks = [(job("123"), vec![9, 1, 2, 3, 4, 5]), (job("7"), vec![3])];
        assert_eq!(batches(&[job("12")], &tasks), [["12", "123_[1-5,9]", "7_3"]]);
        let jobs: Vec<_> = (1..=450).map(|id| job(&id.to_string())).collect();
        let sizes: Vec<_> = batches(&jobs, &[]).iter().map(Vec::len).collect();
        assert_eq!(sizes, [200, 200, 50]);
        let sparse: Vec<u32> = (0..2000).step_by(2).collect();
        assert_eq!(batches(&[], &[(job("1"), sparse)])[0].len(), 2);
        assert!(batches(&[], &[]).is_empty());
    }
}
