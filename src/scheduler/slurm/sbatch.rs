//! Reads sbatch: whether the job exists, does not exist, or may exist.

use super::{JobId, SubmitRefusal, Submitted};
use crate::process::{Output, RunError};

/// How sbatch introduces slurmctld's answer; the second with `--test-only`.
const FAILED: [&str; 2] = ["Batch job submission failed: ", "allocation failure: "];

/// SLURM was not reached, so it cannot have the job.
const NOT_SENT: [&str; 5] = [
    "Unable to contact slurm controller (connect failure)",
    "auth_g_create: ", // no munge here; without this line slurmctld may be the one that complains
    "Could not establish a configuration source",
    "Unable to establish configuration source",
    "can't be reached now, or it is an invalid entry for --cluster",
];

/// The request may have arrived, while its answer did not.
const NO_ANSWER: [&str; 16] = [
    "timed out",
    "Zero Bytes",
    "Unexpected message",
    "Message",
    "Insane message length",
    "Header lengths",
    "Protocol",
    "protocol",
    "communication",
    "(send failure)",
    "(receive failure)",
    "(shutdown failure)",
    "Connection re",
    "Broken pipe",
    "Transport endpoint",
    "standby",
];

/// SLURM's words for a refusal, and what they mean. Only what slurmctld itself says is looked at.
const REFUSALS: [(&str, SubmitRefusal); 17] = [
    ("Invalid job array specification", SubmitRefusal::ArraySize),
    ("Job violates accounting/QOS policy", SubmitRefusal::Limit),
    ("Resource temporarily unavailable", SubmitRefusal::Limit),
    ("MaxJobCount limit reached", SubmitRefusal::Limit),
    ("Requested time limit is invalid", SubmitRefusal::Limit),
    ("Requested partition configuration not available", SubmitRefusal::Limit),
    ("Job size specification needs", SubmitRefusal::Limit),
    ("Invalid account", SubmitRefusal::Account),
    ("Invalid partition name", SubmitRefusal::Partition),
    ("No partition specified", SubmitRefusal::Partition),
    ("User's group not permitted to use this partition", SubmitRefusal::Partition),
    ("partition not available", SubmitRefusal::Partition),
    ("Invalid qos specification", SubmitRefusal::Qos),
    ("Requested node configuration is not available", SubmitRefusal::Node),
    ("Invalid node name specified", SubmitRefusal::Node),
    ("Node count specification invalid", SubmitRefusal::Node),
    ("Invalid feature specification", SubmitRefusal::Node),
];

/// Judges what came of `sbatch --parsable`.
#[must_use]
pub fn judge(answer: Result<Output, RunError>) -> Submitted {
    let output = match answer {
        Ok(output) => output,
        Err(error) if error.never_started() => {
            return Submitted::NotSent { text: error.to_string() };
        }
        Err(error) => return Submitted::NoAnswer { text: error.to_string() },
    };
    // An id proves the job, whatever sbatch said or did later.
    if let Some(job) = output.stdout.lines().rev().find_map(job_id) {
        return Submitted::Accepted(job);
    }
    let text = words(&output.stderr);
    match (output.status, output.signal) {
        (Some(0), _) => Submitted::NoAnswer { text: format!("sbatch printed no job id: {text}") },
        (Some(_), _) => judge_failure(text),
        (None, signal) => Submitted::NoAnswer {
            text: format!("signal {} ended sbatch: {text}", signal.unwrap_or_default()),
        },
    }
}

/// `28`, or `28;CLUSTER` with `--clusters`.
fn job_id(line: &str) -> Option<JobId> {
    JobId::parse(line.trim().split(';').next()?)
}

pub(super) fn judge_failure(text: String) -> Submitted {
    let says = |patterns: &[&str]| patterns.iter().any(|pattern| text.contains(pattern));
    if says(&NOT_SENT) {
        return Submitted::NotSent { text };
    }
    let said = text.lines().find_map(|line| {
        FAILED.iter().find_map(|intro| line.split_once(intro).map(|(_, said)| said))
    });
    let Some(said) = said else {
        // sbatch's own checks come before anything is sent, and all it says later has the intro;
        // except when it complains of the connection.
        return if says(&NO_ANSWER) {
            Submitted::NoAnswer { text }
        } else {
            Submitted::Refused { kind: SubmitRefusal::Other, text }
        };
    };
    if let Some((_, kind)) = REFUSALS.iter().find(|(pattern, _)| said.contains(pattern)) {
        return Submitted::Refused { kind: *kind, text };
    }
    if NO_ANSWER.iter().any(|pattern| said.contains(pattern)) {
        return Submitted::NoAnswer { text };
    }
    Submitted::Refused { kind: SubmitRefusal::Other, text }
}

/// What sbatch said, without its name in front of each line.
pub(super) fn words(stderr: &str) -> String {
    let line = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("sbatch: ").unwrap_or(line);
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    };
    stderr.lines().map(line).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Whether these options hold an empty list of tasks, of which SLURM makes a plain job.
pub(super) fn has_empty_array(args: &[std::ffi::OsString]) -> bool {
    args.iter().enumerate().any(|(i, arg)| {
        let empty_next = args.get(i + 1).is_none_or(|next| next.is_empty());
        arg == "--array=" || ((arg == "--array" || arg == "-a") && empty_next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(status: i32, stderr: &str) -> Submitted {
        let stderr = stderr.to_owned();
        judge(Ok(Output { status: Some(status), stderr, ..Output::default() }))
    }

    fn kind(stderr: &str) -> Option<SubmitRefusal> {
        match failed(1, stderr) {
            Submitted::Refused { kind, .. } => Some(kind),
            _ => None,
        }
    }

    #[test]
    fn an_accepted_job_has_an_id() {
        for stdout in ["28\n", "28;testbed\n", "Welcome!\n28\n"] {
            let output = Output { status: Some(0), stdout: stdout.into(), ..Output::default() };
            assert_eq!(judge(Ok(output)), Submitted::Accepted(JobId::parse("28").unwrap()));
        }
    }

    // All texts below are from slurm-wlm 22.05.8 unless another version stands there.
    #[test]
    fn refusals_are_told_apart() {
        use SubmitRefusal::{Account, ArraySize, Limit, Node, Other, Partition, Qos};
        for (expected, stderr) in [
            (
                ArraySize,
                "sbatch: error: Batch job submission failed: Invalid job array specification\n",
            ),
            (
                Partition,
                "sbatch: error: invalid partition specified: nope\n\
                 sbatch: error: Batch job submission failed: Invalid partition name specified\n",
            ),
            (
                Account,
                "sbatch: error: Batch job submission failed: \
                 Invalid account or account/partition combination specified\n",
            ),
            (Qos, "sbatch: error: Batch job submission failed: Invalid qos specification\n"),
            (
                Limit,
                "sbatch: error: QOSMaxSubmitJobPerUserLimit\n\
                 sbatch: error: Batch job submission failed: Job violates accounting/QOS policy \
                 (job submit limit, user's size and/or time limits)\n",
            ),
            (
                Limit,
                "sbatch: error: Batch job submission failed: Resource temporarily unavailable\n",
            ),
            (Limit, "sbatch: error: Batch job submission failed: MaxJobCount limit reached\n"), // 26.05
            (
                Node,
                "sbatch: error: Batch job submission failed: \
                 Requested node configuration is not available\n",
            ),
            // With --test-only.
            (Node, "allocation failure: Requested node configuration is not available\n"),
            (Other, "sbatch: error: Unable to open file /nope.sh\n"),
            // A site's own job_submit plugin, after Slurm's documentation.
            (
                Other,
                "sbatch: error: please ask for GPUs\n\
                 sbatch: error: Batch job submission failed: Unspecified error\n",
            ),
        ] {
            assert_eq!(kind(stderr), Some(expected), "{stderr}");
        }
    }

    #[test]
    fn a_bad_option_is_refused_in_slurms_words() {
        let answer = failed(255, "sbatch: error: Invalid --time specification\n");
        let text = "Invalid --time specification".to_owned();
        assert_eq!(answer, Submitted::Refused { kind: SubmitRefusal::Other, text });
        let answer = failed(
            255,
            "sbatch: unrecognized option '--bogus'\nTry \"sbatch --help\" for more information\n",
        );
        assert!(matches!(answer, Submitted::Refused { kind: SubmitRefusal::Other, .. }));
    }

    #[test]
    fn after_a_hung_slurmctld_the_job_may_exist() {
        for text in [
            "Socket timed out on send/recv operation",
            "Unexpected message received",
            "Zero Bytes were transmitted or received",
            "Unable to contact slurm controller (receive failure)",
            // Without a line from auth_g_create it may be the answer that was not authentic.
            "Protocol authentication error",
        ] {
            let answer =
                failed(1, &format!("sbatch: error: Batch job submission failed: {text}\n"));
            assert!(matches!(answer, Submitted::NoAnswer { .. }), "{text}");
        }
    }

    #[test]
    fn an_sbatch_that_was_cut_off_may_have_submitted() {
        let limit = std::time::Duration::from_secs(150);
        let timed_out = RunError::TimedOut { program: "sbatch".to_owned(), limit };
        assert!(matches!(judge(Err(timed_out)), Submitted::NoAnswer { .. }));
        let killed = Output { signal: Some(9), ..Output::default() };
        assert!(matches!(judge(Ok(killed)), Submitted::NoAnswer { .. }));
        assert!(matches!(failed(0, ""), Submitted::NoAnswer { .. }));
    }

    #[test]
    fn without_a_connection_the_job_cannot_exist() {
        for stderr in [
            "sbatch: error: Batch job submission failed: \
             Unable to contact slurm controller (connect failure)\n",
            "sbatch: error: If munged is up, restart with --num-threads=10\n\
             sbatch: error: Munge encode failed: Failed to access \"/run/munge.socket\": \
             No such file or directory (Did you start munged?)\n\
             sbatch: error: slurm_send_node_msg: auth_g_create: REQUEST_SUBMIT_BATCH_JOB has \
             authentication error\n\
             sbatch: error: Batch job submission failed: Protocol authentication error\n",
            "sbatch: error: No cluster 'foo' known by database.\n\
             sbatch: error: 'foo' can't be reached now, or it is an invalid entry for --cluster.  \
             Use 'sacctmgr list clusters' to see available clusters.\n",
        ] {
            assert!(matches!(failed(1, stderr), Submitted::NotSent { .. }), "{stderr}");
        }
        let missing = RunError::NotFound { program: "sbatch".to_owned() };
        assert!(matches!(judge(Err(missing)), Submitted::NotSent { .. }));
    }

    #[test]
    fn an_empty_array_is_noticed() {
        let has = |args: &[&str]| has_empty_array(&args.iter().map(Into::into).collect::<Vec<_>>());
        assert!(has(&["--array="]) && has(&["-a", ""]) && has(&["--array"]));
        assert!(!has(&["--array=0-3"]) && !has(&["-a", "1"]) && !has(&[]));
    }
}
