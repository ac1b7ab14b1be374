//! Proves on a real SLURM that a sweep makes exactly its runs, whatever happens to it.
//!
//! Runs are counted by lines that the programs write themselves, never by our own records.

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use support::{Scratch, Testbed, wait_until};

/// Longer than any command here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(150);

/// Clusters of this test program at a time: more of them starve each other.
const CLUSTERS: usize = 2;
static RUNNING: Mutex<usize> = Mutex::new(0);
static FREE: Condvar = Condvar::new();

struct Turn;

impl Turn {
    fn wait() -> Self {
        let mut running = Self::lock();
        while *running >= CLUSTERS {
            running = FREE.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += 1;
        Self
    }

    fn lock() -> MutexGuard<'static, usize> {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        *Self::lock() -= 1;
        FREE.notify_one();
    }
}

/// A program that notes its start and its end, one line each, and does `work` in between.
fn noting(work: &str) -> String {
    format!("echo \"start $PPID $*\" >>seen\n{work}\necho \"end $*\" >>seen\n")
}

/// A cluster and a project with a sweep, in this order of their ends.
struct Bench {
    slurm: Testbed,
    project: Scratch,
    _turn: Turn,
}

impl Bench {
    fn start(settings: &[(&str, &str)]) -> Option<Self> {
        let turn = Turn::wait();
        let slurm = Testbed::start(settings)?;
        Some(Self { slurm, project: Scratch::new(), _turn: turn })
    }

    /// Writes a grid of so many runs, each of which is `work`.
    fn grid(&self, runs: u32, work: &str) {
        self.grid_in("", runs, work);
    }

    fn grid_in(&self, folder: &str, runs: u32, work: &str) {
        let values: Vec<String> = (0..runs).map(|x| x.to_string()).collect();
        let file = format!(
            "program: train.sh\ncommand: [sh, \"${{program}}\", \"${{args}}\"]\nmethod: grid\n\
             parameters:\n  x:\n    values: [{}]\n",
            values.join(", ")
        );
        let folder = PathBuf::from(folder);
        self.project.write(folder.join("train.sh"), &noting(work));
        self.project.write(folder.join("sweep.yaml"), &file);
    }

    fn command(&self, args: &str) -> Command {
        let mut command = self.project.sweepctl();
        command.envs(self.slurm.env()).env("SWEEPCTL_SPANS", "2");
        command.args(args.split_whitespace());
        command
    }

    fn begin(&self, args: &str) -> Running {
        Running::start(self.command(args), args)
    }

    fn run(&self, args: &str) -> Ran {
        self.begin(args).end()
    }

    /// The lines of programs that begin with `word`, without it.
    fn seen(&self, word: &str) -> Vec<String> {
        self.seen_in("", word)
    }

    fn seen_in(&self, folder: &str, word: &str) -> Vec<String> {
        let path = self.project.path(folder).join("seen");
        let text = fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.strip_prefix(word));
        lines.map(|rest| rest.trim().to_owned()).collect()
    }

    fn wait_for_ends(&self, count: usize) {
        wait_until("programs have ended", LIMIT, || self.seen("end").len() >= count);
    }

    fn wait_for_starts(&self, count: usize) {
        wait_until("programs have started", LIMIT, || self.seen("start").len() >= count);
    }

    fn queue(&self, args: &[&str]) -> String {
        let all = [&["--noheader", "--array"], args].concat();
        self.slurm.run("squeue", &all)
    }

    /// Each of the grid's runs has ended once, and nothing is left in the queue.
    fn assert_exact(&self, runs: usize) {
        self.assert_exact_in("", runs);
    }

    fn assert_exact_in(&self, folder: &str, runs: usize) {
        let mut ends = self.seen_in(folder, "end");
        assert_eq!(ends.len(), runs, "{ends:?}");
        ends.sort();
        ends.dedup();
        assert_eq!(ends.len(), runs, "the same run ended twice: {ends:?}");
        assert_eq!(self.queue(&[]), "");
    }

    fn status(&self) -> serde_json::Value {
        let text = self.run("status --json").assert(0).stdout;
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["sweeps"][0].clone()
    }
}

/// A command that runs; it ends at the latest with its test.
struct Running {
    child: Child,
    args: String,
    output: tempfile::TempDir,
}

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
    args: String,
}

impl Running {
    fn start(mut command: Command, args: &str) -> Self {
        let output = tempfile::tempdir().unwrap();
        command.stdout(fs::File::create(output.path().join("stdout")).unwrap());
        command.stderr(fs::File::create(output.path().join("stderr")).unwrap());
        let child = command.spawn().unwrap();
        Self { child, args: args.to_owned(), output }
    }

    fn text(&self, stream: &str) -> String {
        fs::read_to_string(self.output.path().join(stream)).unwrap()
    }

    fn end(mut self) -> Ran {
        let start = std::time::Instant::now();
        let mut status = None;
        wait_until("the command ends", LIMIT + Duration::from_secs(1), || {
            assert!(
                start.elapsed() < LIMIT,
                "`{}` does not end:\n{}",
                self.args,
                self.text("stderr")
            );
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let (stdout, stderr) = (self.text("stdout"), self.text("stderr"));
        let code = status.and_then(|status| status.code());
        Ran { code, stdout, stderr, args: self.args.clone() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    fn assert(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "`{}`\n{}\n{}", self.args, self.stdout, self.stderr);
        self
    }
}

#[test]
fn a_grid_is_run_once_each() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(60, ":");
    bench.run("submit sweep.yaml --jobs 20 --parallel 8").assert(0);
    bench.assert_exact(60);
    assert_eq!(bench.seen("start").len(), 60);
}

#[test]
fn a_program_that_crashes_is_started_a_few_times_only() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(50, "echo 'it is broken'; exit 3");
    let ran = bench.run("submit sweep.yaml").assert(6);
    assert!(ran.stderr.contains("it is broken"), "{}", ran.stderr);
    assert!(ran.stderr.contains("sweepctl resume"), "{}", ran.stderr);
    let started = bench.seen("start").len();
    assert!((1..=5).contains(&started), "{started}");
    assert_eq!(bench.queue(&["--states=running"]), "");
    for row in bench.queue(&["--format=%r"]).lines() {
        assert!(row.starts_with("JobHeld"), "{row}");
    }
    bench.grid(50, ":");
    bench.run("resume").assert(0);
    bench.run("watch").assert(0);
    bench.assert_exact(50);
}

#[test]
fn a_program_that_is_not_there_stops_the_sweep() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(50, ":");
    fs::rename(bench.project.path("train.sh"), bench.project.path("other.sh")).unwrap();
    let ran = bench.run("submit sweep.yaml").assert(6);
    assert!(ran.stderr.contains("program `train.sh` is not on"), "{}", ran.stderr);
    assert!(ran.stderr.contains("sweepctl resume"), "{}", ran.stderr);
    assert_eq!(bench.seen("start").len(), 0);
    assert_eq!(bench.queue(&["--states=running"]), "");
    fs::rename(bench.project.path("other.sh"), bench.project.path("train.sh")).unwrap();
    bench.run("resume").assert(0);
    bench.run("watch").assert(0);
    bench.assert_exact(50);
}

#[test]
fn no_more_programs_than_parallel_run_at_a_time() {
    let Some(bench) = Bench::start(&[("MAX_ARRAY_SIZE", "21")]) else { return };
    bench.grid(64, "sleep 2");
    bench.run("submit sweep.yaml --parallel 6").assert(0);
    bench.assert_exact(64);
    let seen = bench.project.read("seen");
    let (mut now, mut most) = (0, 0);
    for line in seen.lines() {
        now += if line.starts_with("start") { 1 } else { -1 };
        most = most.max(now);
    }
    assert!(most <= 6, "{most} at a time:\n{seen}");
}

#[test]
fn a_task_can_do_several_runs() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(25, ":");
    bench.run("submit sweep.yaml --runs-per-job 10").assert(0);
    bench.assert_exact(25);
    let mut runs = std::collections::BTreeMap::<String, usize>::new();
    for start in bench.seen("start") {
        let task = start.split_whitespace().next().unwrap().to_owned();
        *runs.entry(task).or_default() += 1;
    }
    let mut runs: Vec<usize> = runs.into_values().collect();
    runs.sort_unstable();
    assert_eq!(runs, [5, 10, 10]);
}
