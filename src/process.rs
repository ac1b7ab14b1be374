//! The one place that starts programs of others: pinned environment, time limit, stderr kept.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// More output than this is an error: it would be read into memory, and no honest answer is as long.
pub const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// Variables of SLURM's that say where the cluster is and who we are; all others of its are removed.
const SLURM_KEPT: [&str; 3] = ["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"];

/// Prefixes of variables by which users filter or reshape the answers of their own calls, and by
/// which a job around us tells of itself. They would hide rows from ours.
const REMOVED: [&str; 7] =
    ["SLURM_", "SQUEUE_", "SACCT_", "SCONTROL_", "SINFO_", "SCANCEL_", "SBATCH_"];

/// Why a program gave no output to look at.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// `PATH` has no such program.
    #[error("`{program}` is not in PATH")]
    NotFound {
        /// As it was asked for.
        program: String,
    },
    /// The program ran for too long and was killed. What it had begun may be done all the same.
    #[error("`{program}` gave no answer within {} s", .limit.as_secs())]
    TimedOut {
        /// As it was asked for.
        program: String,
        /// How long it was given.
        limit: Duration,
    },
    /// The program could not be started, or its output could not be read.
    #[error("cannot {} `{program}`: {source}", if *.started { "read the output of" } else { "start" })]
    Io {
        /// As it was asked for.
        program: String,
        /// Whether it had been started, and so may have done its work.
        started: bool,
        /// What the system says.
        source: std::io::Error,
    },
}

impl RunError {
    /// Whether the program surely never ran.
    #[must_use]
    pub fn never_started(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::Io { started: false, .. })
    }
}

/// What a program that ended has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Its exit code, unless a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its stdout; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Its stderr; bytes that are not UTF-8 are replaced.
    pub stderr: String,
}

impl Output {
    /// Whether it ended with exit code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.status == Some(0)
    }
}

/// The environment of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Env {
    /// Ours, without what would reshape the output: English, epoch seconds, uncut task lists.
    Pinned,
    /// These variables and no others: sbatch's environment becomes the job's.
    Exactly(Vec<(OsString, OsString)>),
}

/// Finds a program as `run` would.
///
/// # Errors
/// `RunError::NotFound`, if `PATH` does not have it.
pub fn find(program: &str) -> Result<PathBuf, RunError> {
    which::which(program).map_err(|_| RunError::NotFound { program: program.to_owned() })
}

/// Runs a program to its end; its exit code is for the caller to judge.
///
/// # Errors
/// If it is not there, cannot be started, takes longer than `limit`, or prints more than
/// [`MAX_OUTPUT_BYTES`].
pub async fn run(
    program: &str,
    args: &[impl AsRef<OsStr>],
    limit: Duration,
    env: Env,
) -> Result<Output, RunError> {
    run_in(program, args, limit, env, None).await
}

/// As [`run`], in a folder of the caller's choice.
///
/// # Errors
/// As [`run`].
pub async fn run_in(
    program: &str,
    args: &[impl AsRef<OsStr>],
    limit: Duration,
    env: Env,
    cwd: Option<&Path>,
) -> Result<Output, RunError> {
    let mut command = Command::new(find(program)?);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C goes to the terminal's whole process group, and must not cut off an sbatch.
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    match env {
        Env::Exactly(variables) => {
            command.env_clear().envs(variables);
        }
        Env::Pinned => pin(&mut command),
    }
    let error =
        |started| move |source| RunError::Io { program: program.to_owned(), started, source };
    let child = command.spawn().map_err(error(false))?;
    let answer = tokio::time::timeout(limit, collect(child)).await;
    crate::abort::step();
    match answer {
        Ok(output) => output.map_err(error(true)),
        Err(_) => Err(RunError::TimedOut { program: program.to_owned(), limit }),
    }
}

fn pin(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if is_removed(&name) {
            command.env_remove(name);
        }
    }
    command
        .env("LC_ALL", "C")
        // Epoch seconds: SLURM's local times are ambiguous for one hour every autumn.
        .env("SLURM_TIME_FORMAT", "%s")
        // Else lists of pending tasks are cut at 64 characters.
        .env("SLURM_BITSTR_LEN", "0");
}

fn is_removed(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    REMOVED.iter().any(|prefix| name.starts_with(prefix)) && !SLURM_KEPT.contains(&&*name)
}

async fn collect(mut child: Child) -> std::io::Result<Output> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (stdout, stderr) = tokio::try_join!(read(stdout), read(stderr))?;
    let status = child.wait().await?;
    Ok(Output { status: status.code(), signal: signal_of(status), stdout, stderr })
}

fn signal_of(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

async fn read(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT_BYTES + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(std::io::Error::other("it is longer than 64 MiB"));
    }
    // Without a copy in the usual case: the queue of a big sweep is long.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn sh(script: &str, limit: Duration, env: Env) -> Result<Output, RunError> {
        block_on(run("sh", &["-c", script], limit, env))
    }

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn code_stdout_and_stderr_are_kept() {
        let output = sh("echo out; echo err >&2; exit 3", SOON, Env::Pinned).unwrap();
        assert_eq!((output.status, output.signal), (Some(3), None));
        assert_eq!((&*output.stdout, &*output.stderr), ("out\n", "err\n"));
    }

    #[test]
    fn a_signal_is_told_apart_from_a_code() {
        let output = sh("kill -9 $$", SOON, Env::Pinned).unwrap();
        assert_eq!((output.status, output.signal), (None, Some(9)));
    }

    #[test]
    fn a_program_that_hangs_is_given_up() {
        let error = sh("sleep 60", Duration::from_millis(100), Env::Pinned).unwrap_err();
        assert!(matches!(error, RunError::TimedOut { .. }));
        assert!(!error.never_started());
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = block_on(run("no-such-sbatch", &["x"], SOON, Env::Pinned)).unwrap_err();
        assert_eq!(error.to_string(), "`no-such-sbatch` is not in PATH");
        assert!(error.never_started());
    }

    #[test]
    fn a_missing_folder_means_that_nothing_was_started() {
        let cwd = Some(Path::new("/no/such/folder"));
        let error = block_on(run_in("sh", &["-c", ":"], SOON, Env::Pinned, cwd)).unwrap_err();
        assert!(error.never_started());
    }

    #[test]
    fn an_exact_environment_holds_nothing_of_ours() {
        let env = Env::Exactly(vec![("ONLY".into(), "this".into())]);
        let output = block_on(run("env", &[] as &[&str], SOON, env)).unwrap();
        assert_eq!(output.stdout, "ONLY=this\n");
    }

    #[test]
    fn a_pinned_environment_speaks_english_in_epoch_seconds() {
        let output = sh("echo $LC_ALL $SLURM_TIME_FORMAT $SLURM_BITSTR_LEN", SOON, Env::Pinned);
        assert_eq!(output.unwrap().stdout, "C %s 0\n");
    }

    #[test]
    fn filters_are_removed_and_the_way_to_the_cluster_is_kept() {
        for name in ["SQUEUE_STATES", "SACCT_FORMAT", "SLURM_CLUSTERS", "SLURM_JOB_ID"] {
            assert!(is_removed(OsStr::new(name)), "{name}");
        }
        for name in ["SLURM_CONF", "PATH", "SLURMX"] {
            assert!(!is_removed(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn output_without_end_is_an_error() {
        let error = sh("exec cat /dev/zero", SOON, Env::Pinned).unwrap_err();
        assert!(matches!(error, RunError::Io { started: true, .. }), "{error}");
    }
}
