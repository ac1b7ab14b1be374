//! SLURM by its command-line programs.

pub mod sacct;
pub mod sbatch;
pub mod scontrol;
pub mod sinfo;
pub mod squeue;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{
    HistoryRow, JobId, Limits, Row, State, SubmitRefusal, Submitted, expand_tasks, task_ranges,
};
use crate::launch::request::Partition;
use crate::process::{self, Env, Output, RunError};
use crate::settings::init::{Account, Nodes};

/// sbatch itself tries for 120 s while the cluster holds MaxJobCount jobs.
const SUBMIT_LIMIT: Duration = Duration::from_secs(150);

/// Two tries of squeue take twice MessageTimeout, which busy sites raise to a minute.
const LIMIT: Duration = Duration::from_secs(130);

/// Jobs or names in one sacct.
const BATCH: usize = 200;

/// Why SLURM could not be asked, or did not do as it was told.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// A program of SLURM's is missing.
    #[error("`{program}` is not in PATH")]
    Missing {
        /// Which one.
        program: String,
    },
    /// Something other than the name of one cluster.
    #[error("`{cluster}` is not the name of one cluster")]
    Cluster {
        /// As it was given.
        cluster: String,
    },
    /// A job's name that sacct cannot be asked for.
    #[error("sacct cannot look for a job named `{name}`")]
    Name {
        /// As it was given.
        name: String,
    },
    /// A target that is neither a job nor an array task.
    #[error("`{target}` is neither a job nor an array task")]
    Target {
        /// As it was given.
        target: String,
    },
    /// The program gave no output to look at.
    #[error(transparent)]
    Run(#[from] RunError),
    /// slurmctld or slurmdbd did not answer.
    #[error("{program} cannot reach SLURM: {text}")]
    Unreachable {
        /// Which program.
        program: &'static str,
        /// SLURM's own words.
        text: String,
    },
    /// The cluster keeps no record of ended jobs.
    #[error("this cluster has no accounting")]
    NoAccounting,
    /// The program failed.
    #[error("{program} failed: {text}")]
    Failed {
        /// Which program.
        program: &'static str,
        /// SLURM's own words.
        text: String,
    },
    /// The program answered in a way that this version does not understand.
    #[error("cannot read this line of {program}: `{row}`")]
    Unreadable {
        /// Which program.
        program: &'static str,
        /// The first line that is not readable.
        row: String,
    },
}

impl SlurmError {
    /// The next step, if we know it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing { .. } => Some(
                "run this on a login node of the cluster, after `module load slurm` if it has one",
            ),
            Self::Cluster { .. } => Some("list the clusters with `sacctmgr list clusters`"),
            Self::Target { .. } => Some("write `1234` for a job, `1234_7` for an array task"),
            Self::Unreachable { .. } => Some("see whether `scontrol ping` finds slurmctld up"),
            Self::Name { .. }
            | Self::Run(_)
            | Self::NoAccounting
            | Self::Failed { .. }
            | Self::Unreadable { .. } => None,
        }
    }
}

/// One SLURM cluster, as the calling user sees it.
#[derive(Clone, Debug)]
pub struct Slurm {
    cluster: Option<String>,
    user_id: u32,
    started: Arc<AtomicU32>,
}

impl Slurm {
    /// Finds SLURM's programs; sacct may be missing where there is no accounting.
    ///
    /// `clusters` is what `--clusters` shall be in every call: the name of one cluster.
    ///
    /// # Errors
    /// If a program is missing, or `clusters` names more than one cluster.
    pub async fn new(clusters: Option<String>) -> Result<Self, SlurmError> {
        if let Some(cluster) = &clusters {
            let valid = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
            if cluster.is_empty() || cluster == "all" || !cluster.chars().all(valid) {
                return Err(SlurmError::Cluster { cluster: cluster.clone() });
            }
        }
        for program in ["sbatch", "squeue", "scontrol", "scancel"] {
            process::find(program)
                .map_err(|_| SlurmError::Missing { program: program.to_owned() })?;
        }
        Ok(Self {
            cluster: clusters,
            user_id: rustix::process::getuid().as_raw(),
            started: Arc::default(),
        })
    }

    /// How many of SLURM's programs were started so far: each makes at least one call to slurmctld or slurmdbd.
    #[must_use]
    pub fn programs_started(&self) -> u32 {
        self.started.load(Ordering::Relaxed)
    }

    /// Asks for the cluster's limits.
    ///
    /// # Errors
    /// If slurmctld does not answer, or not with its limits.
    pub async fn limits(&self) -> Result<Limits, SlurmError> {
        let output = self.ask("scontrol", &["show".to_owned(), "config".to_owned()]).await?;
        scontrol::parse_limits(&output.stdout).ok_or_else(|| SlurmError::Unreadable {
            program: "scontrol",
            row: output.stdout.lines().next().unwrap_or_default().to_owned(),
        })
    }

    /// Asks for the partitions' time limits.
    ///
    /// # Errors
    /// If slurmctld does not answer.
    pub async fn partitions(&self) -> Result<Vec<Partition>, SlurmError> {
        let args = ["show", "partition", "--oneliner"].map(str::to_owned);
        Ok(scontrol::parse_partitions(&self.ask("scontrol", &args).await?.stdout))
    }

    /// Asks for the kinds of nodes of each partition that is up.
    ///
    /// # Errors
    /// If slurmctld does not answer, or sinfo is missing.
    pub async fn nodes_by_partition(&self) -> Result<BTreeMap<String, Vec<Nodes>>, SlurmError> {
        let args = ["--noheader".to_owned(), sinfo::FORMAT.to_owned()];
        Ok(sinfo::parse_nodes(&self.ask("sinfo", &args).await?.stdout))
    }

    /// Asks for the calling user's accounts on the cluster of this name.
    ///
    /// # Errors
    /// If slurmdbd does not answer, or sacctmgr is missing.
    pub async fn accounts(&self, cluster: &str) -> Result<Vec<Account>, SlurmError> {
        let id = process::run("id", &["--user", "--name"], LIMIT, Env::Pinned).await?;
        let user = id.stdout.trim().to_owned();
        let args =
            ["--noheader", "--parsable2", "show", "user", &user, "withassoc", sinfo::ACCOUNTS];
        self.started.fetch_add(1, Ordering::Relaxed);
        // It speaks to slurmdbd, which serves all clusters: it takes no `--clusters`.
        let output = process::run("sacctmgr", &args, LIMIT, Env::Pinned).await?;
        match output.success() {
            true => Ok(sinfo::parse_accounts(&output.stdout, cluster)),
            false => Err(failure("sacctmgr", &output)),
        }
    }

    /// Submits a script with exactly this environment, which becomes the job's.
    pub async fn submit(
        &self,
        args: &[OsString],
        script: &Path,
        env: Vec<(OsString, OsString)>,
        cwd: &Path,
    ) -> Submitted {
        if sbatch::has_empty_array(args) {
            let text = "an empty list of array tasks would become a plain job".to_owned();
            return Submitted::Refused { kind: SubmitRefusal::ArraySize, text };
        }
        sbatch::judge(self.sbatch("--parsable", args, script, env, cwd).await)
    }

    /// Asks when the job would start, without submitting it; SLURM answers in a sentence.
    ///
    /// # Errors
    /// What would come of the submission, or why SLURM does not say.
    pub async fn test_only(
        &self,
        args: &[OsString],
        script: &Path,
        env: Vec<(OsString, OsString)>,
        cwd: &Path,
    ) -> Result<String, Submitted> {
        match self.sbatch("--test-only", args, script, env, cwd).await {
            Ok(output) if output.success() => Ok(sbatch::words(&output.stderr)),
            answer => Err(sbatch::judge(answer)),
        }
    }

    async fn sbatch(
        &self,
        mode: &str,
        args: &[OsString],
        script: &Path,
        env: Vec<(OsString, OsString)>,
        cwd: &Path,
    ) -> Result<Output, RunError> {
        let mut all: Vec<OsString> = self.cluster_option().map(Into::into).into_iter().collect();
        all.push(mode.into());
        all.extend_from_slice(args);
        all.push(script.into());
        self.started.fetch_add(1, Ordering::Relaxed);
        process::run_in("sbatch", &all, SUBMIT_LIMIT, Env::Exactly(env), Some(cwd)).await
    }

    /// Looks at all jobs of the calling user that slurmctld remembers, in one squeue.
    ///
    /// # Errors
    /// If slurmctld does not answer, or not in rows: a failed look is no empty queue.
    pub async fn queue(&self) -> Result<squeue::Queue, SlurmError> {
        let args = [
            "--noheader".to_owned(),
            "--states=all".to_owned(),
            format!("--user={}", self.user_id),
            squeue::FORMAT.to_owned(),
        ];
        squeue::parse(&self.ask("squeue", &args).await?.stdout)
    }

    /// Asks accounting for all legs of the calling user's jobs with these names since a moment, which
    /// has to be before the first of them was submitted: legs are counted from there.
    ///
    /// # Errors
    /// `NoAccounting` where there is none; else as [`Slurm::queue`], and if a name has a comma.
    pub async fn history(
        &self,
        names: &[String],
        since: SystemTime,
    ) -> Result<Vec<HistoryRow>, SlurmError> {
        if let Some(name) = names.iter().find(|name| name.is_empty() || name.contains(',')) {
            return Err(SlurmError::Name { name: name.clone() });
        }
        self.sacct(names, since).await
    }

    async fn sacct(
        &self,
        names: &[String],
        since: SystemTime,
    ) -> Result<Vec<HistoryRow>, SlurmError> {
        // Relative, as it is understood everywhere and by every time zone alike.
        let ago = SystemTime::now().duration_since(since).unwrap_or_default().as_secs();
        let ago = ago.min(now()).saturating_add(60);
        let mut stdout = String::new();
        for batch in names.chunks(BATCH) {
            let mut args: Vec<String> = sacct::FORMAT.map(str::to_owned).to_vec();
            args.push(format!("--starttime=now-{ago}seconds"));
            args.push(format!("--user={}", self.user_id));
            args.push(format!("--name={}", batch.join(",")));
            stdout.push_str(&self.ask("sacct", &args).await?.stdout);
        }
        sacct::parse(&stdout)
    }

    /// Cancels jobs (`1234`) and array tasks (`1234_7`); those that have ended are no error.
    ///
    /// With `pending_only` those that run go on. Tasks are then looked up first, and one that
    /// starts in the moment between the look and scancel is cancelled: 22.05.8 makes
    /// `scancel --state=PENDING 1234_7` cancel *every* waiting task of 1234.
    ///
    /// # Errors
    /// If SLURM does not answer or refuses. Other targets may have been cancelled by then.
    pub async fn cancel(&self, targets: &[String], pending_only: bool) -> Result<(), SlurmError> {
        let (jobs, mut tasks) = parse_targets(targets)?;
        if pending_only && !tasks.is_empty() {
            tasks = only_pending(&tasks, &self.queue().await?.rows);
        }
        let jobs: Vec<JobId> = jobs.into_iter().collect();
        let tasks: Vec<(JobId, Vec<u32>)> =
            tasks.into_iter().map(|(job, tasks)| (job, tasks.into_iter().collect())).collect();
        for batch in scontrol::batches(&[], &tasks) {
            self.change("scancel", batch).await?;
        }
        for mut batch in scontrol::batches(&jobs, &[]) {
            if pending_only {
                batch.insert(0, "--state=PENDING".to_owned());
            }
            self.change("scancel", batch).await?;
        }
        Ok(())
    }

    /// Keeps the waiting tasks of an array from starting.
    ///
    /// # Errors
    /// If SLURM does not answer, refuses, or has forgotten the job.
    pub async fn hold(&self, job: &JobId) -> Result<(), SlurmError> {
        // `hold` by an operator makes an administrator's hold, which `release` of ours leaves alone.
        self.change("scontrol", vec!["uhold".to_owned(), job.to_string()]).await
    }

    /// Lets the tasks of a held array start again.
    ///
    /// # Errors
    /// As [`Slurm::hold`].
    pub async fn release(&self, job: &JobId) -> Result<(), SlurmError> {
        self.change("scontrol", vec!["release".to_owned(), job.to_string()]).await
    }

    /// Sets how many tasks of an array may run at once; 0 takes the limit away.
    ///
    /// # Errors
    /// As [`Slurm::hold`].
    pub async fn throttle(&self, job: &JobId, tasks: u32) -> Result<(), SlurmError> {
        let args =
            ["update".to_owned(), format!("jobid={job}"), format!("arraytaskthrottle={tasks}")];
        self.change("scontrol", args.to_vec()).await
    }

    fn cluster_option(&self) -> Option<String> {
        self.cluster.as_ref().map(|cluster| format!("--clusters={cluster}"))
    }

    async fn run(&self, program: &'static str, args: &[String]) -> Result<Output, SlurmError> {
        let mut all: Vec<String> = self.cluster_option().into_iter().collect();
        all.extend_from_slice(args);
        self.started.fetch_add(1, Ordering::Relaxed);
        process::run(program, &all, LIMIT, Env::Pinned).await.map_err(|error| match error {
            RunError::NotFound { program } => SlurmError::Missing { program },
            error => SlurmError::Run(error),
        })
    }

    async fn ask(&self, program: &'static str, args: &[String]) -> Result<Output, SlurmError> {
        let output = self.run(program, args).await?;
        if output.success() && !is_failure_in_disguise(&output) {
            return Ok(output);
        }
        Err(failure(program, &output))
    }

    async fn change(&self, program: &'static str, args: Vec<String>) -> Result<(), SlurmError> {
        let output = self.run(program, &args).await?;
        // scontrol also writes some of its complaints to stdout.
        let said = format!("{}\n{}", output.stderr, output.stdout);
        if output.success() || (output.status.is_some() && scontrol::is_done_all_the_same(&said)) {
            return Ok(());
        }
        Err(failure(program, &output))
    }
}

/// squeue exits 0 after `Invalid user` and `Invalid job format specification`.
fn is_failure_in_disguise(output: &Output) -> bool {
    let mut errors = output.stderr.lines().filter(|line| line.contains("error: "));
    errors.any(|line| output.stdout.trim().is_empty() || line.contains("error: Invalid "))
}

/// What to make of a program that failed.
fn failure(program: &'static str, output: &Output) -> SlurmError {
    let said = [&output.stderr, &output.stdout].into_iter().find(|text| !text.trim().is_empty());
    let text = said.map_or_else(
        || match output.signal {
            Some(signal) => format!("signal {signal} ended it"),
            None => format!("exit code {}", output.status.unwrap_or_default()),
        },
        |text| text.trim().to_owned(),
    );
    // Seen with 22.05.8: slurmctld down, hung, munged down, slurmdbd down.
    let unreachable = [
        "Unable to contact slurm controller",
        "Socket timed out",
        "Unexpected message received",
        "authentication error",
        "Zero Bytes were transmitted",
        "Problem talking to the database",
        "Connection refused",
        "can't be reached now",
    ];
    if text.contains("accounting storage is disabled") {
        SlurmError::NoAccounting
    } else if unreachable.iter().any(|pattern| text.contains(pattern)) {
        SlurmError::Unreachable { program, text }
    } else {
        SlurmError::Failed { program, text }
    }
}

type Tasks = BTreeMap<JobId, BTreeSet<u32>>;

/// Sorts targets into whole jobs and array tasks; tasks of a job that goes as a whole are left out.
fn parse_targets(targets: &[String]) -> Result<(BTreeSet<JobId>, Tasks), SlurmError> {
    let (mut jobs, mut tasks) = (BTreeSet::new(), Tasks::new());
    for target in targets {
        let parsed = match target.split_once('_') {
            Some((job, task)) => JobId::parse(job).zip(task.parse().ok().map(Some)),
            None => JobId::parse(target).map(|job| (job, None)),
        };
        match parsed {
            Some((job, Some(task))) => {
                tasks.entry(job).or_default().insert(task);
            }
            Some((job, None)) => {
                jobs.insert(job);
            }
            None => return Err(SlurmError::Target { target: target.clone() }),
        }
    }
    tasks.retain(|job, _| !jobs.contains(job));
    Ok((jobs, tasks))
}

fn only_pending(tasks: &Tasks, queue: &[Row]) -> Tasks {
    let mut pending = Tasks::new();
    for row in queue.iter().filter(|row| matches!(row.state, State::Pending | State::Requeued)) {
        let Some(wanted) = tasks.get(&row.job) else { continue };
        let found: Vec<u32> = row.tasks.iter().copied().filter(|t| wanted.contains(t)).collect();
        if !found.is_empty() {
            pending.entry(row.job.clone()).or_default().extend(found);
        }
    }
    pending
}

/// Reads a time: nothing if there is none yet, and no answer if it is not in epoch seconds.
fn seconds(text: &str) -> Option<Option<u64>> {
    match text {
        "N/A" | "Unknown" | "None" | "" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(stderr: &str) -> SlurmError {
        let output = Output { status: Some(1), stderr: stderr.to_owned(), ..Output::default() };
        failure("squeue", &output)
    }

    // All texts are from slurm-wlm 22.05.8.
    #[test]
    fn a_frozen_or_absent_slurmctld_is_an_error() {
        for stderr in [
            "slurm_load_jobs error: Socket timed out on send/recv operation\n",
            "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
            "slurm_load_jobs error: Protocol authentication error\n",
            "scancel: error: Kill job error on job id 1: Socket timed out on send/recv operation\n",
            "Unexpected message received for job 1\n",
            "sacct: error: Sending PersistInit msg: Connection refused\n\
             sacct: error: Problem talking to the database: Connection refused\n",
        ] {
            assert!(matches!(failed(stderr), SlurmError::Unreachable { .. }), "{stderr}");
        }
    }

    #[test]
    fn a_cluster_without_accounting_is_told_apart() {
        let error = failed("Slurm accounting storage is disabled\n");
        assert!(matches!(error, SlurmError::NoAccounting));
    }

    #[test]
    fn squeue_fails_even_where_it_exits_0() {
        let said = |stdout: &str, stderr: &str| {
            let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
            is_failure_in_disguise(&Output { status: Some(0), signal: None, stdout, stderr })
        };
        assert!(said("", "squeue: error: Invalid user: 12345\n"));
        assert!(said("|\n|\n", "squeue: error: Invalid job format specification: Bogus\n"));
        assert!(!said("", "") && !said("", "a site's greeting\n"));
    }

    fn strings(targets: &[&str]) -> Vec<String> {
        targets.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_jobs_and_tasks_are_targets() {
        for bad in ["", "7_", "_7", "7_[1-2]", "--all", "7_a"] {
            let result = parse_targets(&strings(&[bad]));
            assert!(matches!(result, Err(SlurmError::Target { .. })), "{bad}");
        }
    }

    #[test]
    fn a_whole_job_takes_its_tasks_with_it() {
        let (jobs, tasks) = parse_targets(&strings(&["7_1", "8_2", "7"])).unwrap();
        assert_eq!((jobs.len(), tasks.len()), (1, 1));
    }

    #[test]
    fn of_the_wanted_tasks_only_those_that_wait_are_taken() {
        let (_, tasks) = parse_targets(&strings(&["4_0", "4_2", "4_3", "9_1"])).unwrap();
        let queue = squeue::parse(
            "4|2,5%1|PENDING|N/A|0||JobArrayTaskLimit|run\u{1e}\n\
             4|0|RUNNING|1796022692|0|n1|None|run\u{1e}\n",
        );
        let pending = only_pending(&tasks, &queue.unwrap().rows);
        assert_eq!(pending.len(), 1);
        assert_eq!(pending[&JobId::parse("4").unwrap()], BTreeSet::from([2]));
    }

    #[test]
    fn local_times_are_not_taken_for_seconds() {
        assert_eq!(seconds("1796022692"), Some(Some(1796022692)));
        assert_eq!(seconds("Unknown"), Some(None));
        assert_eq!(seconds("2026-11-30T07:00:00"), None);
    }
}
