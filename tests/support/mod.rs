//! What integration tests share: a real SLURM, scratch projects, and patience with a limit.

#![allow(dead_code, reason = "each test program uses a part of this")]

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

use tempfile::TempDir;

/// Settings of the user that would change what the programs under test do.
const USER_SETTINGS: [&str; 10] = [
    "SLURM_",
    "SBATCH_",
    "SQUEUE_",
    "SACCT_",
    "SINFO_",
    "SCANCEL_",
    "SCONTROL_",
    "WANDB_",
    "SWEEPCTL_",
    "XDG_",
];

/// A real SLURM of its own, which ends when this is dropped.
pub(crate) struct Testbed {
    folder: TempDir,
}

impl Testbed {
    /// Starts a cluster with these settings of `scripts/slurm-testbed`, such as `("NODES", "3")`.
    ///
    /// `None` says that this machine cannot run one, and that the test is to end there.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Option<Self> {
        let mut programs = vec!["slurmctld", "slurmd", "sbatch", "munged", "unshare"];
        if settings.contains(&("ACCOUNTING", "1")) {
            programs.extend(["slurmdbd", "mariadbd", "sacctmgr"]);
        }
        if !rustix::process::geteuid().is_root() {
            return skip("a SLURM testbed needs root");
        }
        for program in programs {
            if which::which_in(program, Some(path_with_sbin()), "/").is_err() {
                return skip(&format!("`{program}` is not installed"));
            }
        }
        let folder = tempfile::Builder::new().prefix("slurm-testbed-").tempdir();
        let testbed = Self { folder: folder.expect("a scratch folder for SLURM") };
        let up = testbed.script("up").envs(settings.iter().copied()).output();
        expect_success("slurm-testbed up", &up.expect("bash runs"));
        Some(testbed)
    }

    /// What a program needs in its environment to find this cluster.
    pub(crate) fn env(&self) -> [(&'static str, OsString); 2] {
        let config = self.folder.path().join("etc/slurm.conf");
        [("SLURM_CONF", config.into()), ("PATH", path_with_sbin())]
    }

    /// Calls `scripts/slurm-testbed`, for example with `node-kill 1`, and returns what it printed.
    pub(crate) fn call(&self, call: &str) -> String {
        let output = self.script(call).output().expect("bash runs");
        expect_success(&format!("slurm-testbed {call}"), &output)
    }

    /// A program that talks to this cluster, such as `squeue`.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = clean_command(program);
        command.envs(self.env());
        command
    }

    /// Runs such a program to its end, which must be a success, and returns what it printed.
    pub(crate) fn run(&self, program: &str, args: &[&str]) -> String {
        let output = self.command(program).args(args).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        expect_success(&format!("{program} {args:?}"), &output)
    }

    /// The cluster's own folder, with the daemons' logs in `log`.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn script(&self, call: &str) -> Command {
        let mut command = clean_command(repository().join("scripts/slurm-testbed"));
        command.args(call.split_whitespace()).env("SLURM_TESTBED", self.folder.path());
        command
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if thread::panicking() {
            for (daemon, count) in [("slurmctld", 40), ("n1", 10), ("n2", 10)] {
                let log = self.folder.path().join("log").join(daemon).with_extension("log");
                let log = fs::read_to_string(log).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(count)..].join("\n");
                eprintln!("{daemon}'s log ends:\n{end}");
            }
        }
        // A panic here would hide the test's own.
        match self.script("clean").output() {
            Ok(output) if output.status.success() => {}
            failure => eprintln!("slurm-testbed clean: {failure:?}"),
        }
    }
}

/// A scratch project folder with a home folder beside it, deleted when this is dropped.
pub(crate) struct Scratch {
    folder: TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = TempDir::with_prefix("sweepctl-test-").expect("a scratch folder");
        for part in ["home", "project"] {
            fs::create_dir(folder.path().join(part)).expect("a folder in our own scratch folder");
        }
        Self { folder }
    }

    /// A project that holds a copy of the repository's folder `examples/NAME`.
    pub(crate) fn with_example(name: &str) -> Self {
        let scratch = Self::new();
        for entry in fs::read_dir(repository().join("examples").join(name)).expect("the example") {
            let entry = entry.expect("a readable example");
            fs::copy(entry.path(), scratch.path(entry.file_name())).expect("a copy of the file");
        }
        scratch
    }

    /// A path inside the project; `""` is the project itself.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join("project").join(relative)
    }

    /// Writes a file, with the folders that it needs.
    pub(crate) fn write(&self, relative: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("it lies in the project")).expect("its folder");
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        path
    }

    pub(crate) fn read(&self, relative: impl AsRef<Path>) -> String {
        let path = self.path(relative);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// `sweepctl` in this project, with this scratch folder's home.
    pub(crate) fn sweepctl(&self) -> Command {
        let mut command = clean_command(env!("CARGO_BIN_EXE_sweepctl"));
        command.current_dir(self.path("")).env("HOME", self.folder.path().join("home"));
        // Read by builds for tests alone.
        command.env("SWEEPCTL_SITE_FILE", self.folder.path().join("site.yaml"));
        command
    }

    /// Writes a file beside the project: `site.yaml` is what the site demands, `home/.config/...` the user's.
    pub(crate) fn write_outside(&self, relative: &str, text: &str) {
        self.write(Path::new("..").join(relative), text);
    }
}

/// `sweepctl` with an empty home, and without the user's settings for SLURM and W&B.
pub(crate) fn sweepctl() -> Command {
    static HOMES: AtomicU32 = AtomicU32::new(0);
    let name = format!("home-{}-{}", std::process::id(), HOMES.fetch_add(1, Ordering::Relaxed));
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // An earlier process may have had our number.
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).expect("a home folder in the target folder");
    let mut command = clean_command(env!("CARGO_BIN_EXE_sweepctl"));
    command.env("HOME", home);
    command
}

/// Waits until `done` holds; panics, naming `what`, if that takes longer than `limit`.
pub(crate) fn wait_until(what: &str, limit: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "not within {} s: {what}", limit.as_secs());
        thread::sleep(Duration::from_millis(50));
    }
}

/// Says that a test cannot run here, or fails it where everything has to run.
pub(crate) fn skip<T>(why: &str) -> Option<T> {
    assert!(
        env::var_os("SWEEPCTL_REQUIRE_ALL").is_none_or(|value| value.is_empty()),
        "cannot be skipped here: {why}"
    );
    // Not `println!`, which the test harness hides when a test passes.
    let _ = writeln!(io::stderr(), "skipped: {why}");
    None
}

/// Fails with all of them, if there are any.
pub(crate) fn expect_none(differences: &[String]) {
    assert!(
        differences.is_empty(),
        "{} differences:\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// Fails unless this is the exit code; answers stdout and stderr.
#[track_caller]
pub(crate) fn expect_code(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn path_with_sbin() -> OsString {
    let mut path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    path.push(":/usr/sbin:/sbin");
    path
}

fn clean_command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        if USER_SETTINGS.iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
            command.env_remove(name);
        }
    }
    command
}

fn expect_success(what: &str, output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {}\n{stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
