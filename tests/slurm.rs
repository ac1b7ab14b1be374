//! Proves on a real SLURM that a sweep makes exactly its runs, whatever happens to it.
//!
//! Runs are counted by lines that the programs write themselves, never by our own records.

#![expect(clippy::unwrap_used, reason = "what helps tests may fail them")]

mod support;
#[path = "support/traces.rs"]
mod traces;

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
        self.command_in("", args)
    }

    fn command_in(&self, folder: &str, args: &str) -> Command {
        let mut command = self.project.sweepctl();
        command.envs(self.slurm.env()).env("SWEEPCTL_SPANS", "2");
        if traces_folder().is_some() {
            command.env("SWEEPCTL_TRACES", "1");
        }
        command.current_dir(self.project.path(folder));
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

    /// The logs hold one result that counts for each slot.
    fn assert_each_slot_counts_once(&self, folder: &str, slots: u32) {
        let logs = self.project.path(folder).join(".sweepctl/sweeps/sweep/slots/000");
        for slot in 0..slots {
            let entries =
                (0..).map(|number| fs::read_to_string(logs.join(format!("{slot}.{number}"))));
            let entries: Vec<String> = entries.map_while(Result::ok).collect();
            let counting = entries.iter().filter(|entry| entry.contains("\"counts\":true")).count();
            assert_eq!(counting, 1, "{folder}, slot {slot}: {entries:#?}");
        }
    }

    fn assert_never_more_than(&self, limit: i32) {
        let seen = self.project.read("seen");
        let (mut now, mut most) = (0, 0);
        for line in seen.lines() {
            now += if line.starts_with("start") { 1 } else { -1 };
            most = most.max(now);
        }
        assert!(most <= limit, "{most} at a time:\n{seen}");
    }

    fn status(&self) -> serde_json::Value {
        let text = self.run("status --json").assert(0).stdout;
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["sweeps"][0].clone()
    }
}

/// Where the orders of events of all sweeps are to go, for the simulator to follow.
fn traces_folder() -> Option<PathBuf> {
    std::env::var_os("SWEEPCTL_TRACES").filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

impl Drop for Bench {
    fn drop(&mut self) {
        let Some(folder) = traces_folder().filter(|_| !std::thread::panicking()) else { return };
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("test");
        let slurm = self.slurm.run("sbatch", &["--version"]);
        let inner = fs::read_dir(self.project.path("")).unwrap().map(|entry| entry.unwrap().path());
        let mut number = 0;
        let mut projects: Vec<PathBuf> = [self.project.path("")].into_iter().chain(inner).collect();
        projects.sort();
        for project in projects {
            let sweeps = fs::read_dir(project.join(".sweepctl/sweeps")).into_iter().flatten();
            for sweep in sweeps {
                if let Some(trace) = traces::of_sweep(&sweep.unwrap().path(), test, slurm.trim()) {
                    number += 1;
                    fs::write(folder.join(format!("{test}-{number}.jsonl")), trace).unwrap();
                }
            }
        }
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
    bench.grid(200, "sleep 1");
    bench.run("submit sweep.yaml --jobs 40 --parallel 10").assert(0);
    bench.assert_exact(200);
    assert_eq!(bench.seen("start").len(), 200);
    bench.assert_never_more_than(10);
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
    bench.assert_never_more_than(6);
}

#[test]
fn watchers_beside_each_other_start_nothing_twice() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(40, "sleep 1");
    let submit = bench.begin("submit sweep.yaml --parallel 5 --jobs 8");
    bench.wait_for_starts(1);
    let others = ["watch", "watch"].map(|args| bench.begin(args));
    for watcher in others.into_iter().chain([submit]) {
        watcher.end().assert(0);
    }
    bench.assert_exact(40);
    assert_eq!(bench.seen("start").len(), 40);
    bench.assert_never_more_than(5);
}

#[test]
fn a_watcher_that_stands_still_loses_its_turn_and_looks_on_when_it_wakes() {
    use rustix::process::{Signal, kill_process};
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(12, "until [ -e go ]; do sleep 0.1; done");
    let first = bench.begin("submit sweep.yaml --parallel 4 --jobs 6");
    bench.wait_for_starts(4);
    let second = bench.begin("watch");
    let says = |watcher: &Running, words: &str| {
        wait_until(words, LIMIT, || watcher.text("stderr").contains(words));
    };
    says(&second, &format!("process {} on", first.child.id()));
    let pid = rustix::process::Pid::from_child(&first.child);
    kill_process(pid, Signal::STOP).unwrap();
    says(&second, "has gone: this one takes over");
    kill_process(pid, Signal::CONT).unwrap();
    says(&first, &format!("process {} on", second.child.id()));
    bench.project.write("go", "");
    first.end().assert(0);
    second.end().assert(0);
    bench.assert_exact(12);
    bench.assert_never_more_than(4);
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

#[test]
fn a_watcher_killed_anywhere_is_followed_by_another_one() {
    let Some(bench) = Bench::start(&[]) else { return };
    for kill_at in (1..).step_by(5) {
        let folder = format!("k{kill_at}");
        bench.grid_in(&folder, 4, ":");
        let mut submit = bench.command_in(&folder, "submit sweep.yaml --parallel 2");
        submit.env("SWEEPCTL_ABORT_AT", kill_at.to_string());
        let submitted = Running::start(submit, &format!("submit, killed at {kill_at}")).end();
        if submitted.code == Some(0) {
            bench.assert_exact_in(&folder, 4);
            assert!(kill_at > 10, "killed at {kill_at} steps only");
            break;
        }
        assert_eq!(submitted.code, None, "{}", submitted.stderr);
        let created = bench.project.path(&folder).join(".sweepctl/sweeps/sweep/env").exists();
        let next = if created { "watch" } else { "submit sweep.yaml" };
        let next = Running::start(
            bench.command_in(&folder, next),
            &format!("{next}, after a kill at {kill_at}"),
        );
        next.end().assert(0);
        bench.assert_exact_in(&folder, 4);
    }
}

/// Ends the wrapper of a program that has started, as the kernel does when memory is short.
fn kill_a_wrapper(bench: &Bench) {
    let start = bench.seen("start")[0].clone();
    let wrapper = start.split_whitespace().next().unwrap().parse().unwrap();
    let wrapper = rustix::process::Pid::from_raw(wrapper).unwrap();
    rustix::process::kill_process(wrapper, rustix::process::Signal::KILL).unwrap();
}

fn killed_wrapper(settings: &[(&str, &str)]) {
    let Some(bench) = Bench::start(settings) else { return };
    bench.grid(4, "until [ -e go ]; do sleep 0.1; done");
    let submit = bench.begin("submit sweep.yaml");
    bench.wait_for_starts(4);
    kill_a_wrapper(&bench);
    bench.wait_for_starts(5);
    bench.project.write("go", "");
    submit.end().assert(0);
    bench.assert_exact(4);
    assert_eq!(bench.seen("start").len(), 5);
}

/// Sweeps side by side; in each, the wrapper of slot 0's first start is killed after another of its steps.
fn wrapper_killed_after_each_step(options: &str, requeue: &str) {
    let Some(bench) = Bench::start(&[]) else { return };
    // The other runs wait for slot 0's: so its wrapper has the most steps there can be.
    let work =
        "case \"$*\" in *x=0*) ;; *) until grep -q 'end.*x=0' seen; do sleep 0.1; done ;; esac";
    let submits: Vec<(String, Running)> = (1..=8)
        .map(|step| {
            let folder = format!("k{step}");
            bench.grid_in(&folder, 4, work);
            let mut submit = bench.command_in(&folder, &format!("submit sweep.yaml {options}"));
            submit.env("SWEEPCTL_ABORT_TASK", format!("0 {step} {requeue}"));
            let submit = Running::start(submit, &format!("submit, a wrapper killed at {step}"));
            (folder, submit)
        })
        .collect();
    let mut killed = Vec::new();
    for (folder, submit) in submits {
        submit.end().assert(0);
        bench.assert_each_slot_counts_once(&folder, 4);
        let log =
            bench.project.read(format!("{folder}/.sweepctl/sweeps/sweep/arrays/0/logs/0.log"));
        killed.push(log.contains("killed by a test"));
        let mut ends = bench.seen_in(&folder, "end");
        let first = ends.iter().filter(|end| end.contains("x=0")).count();
        let after_its_end = killed.last() == Some(&true) && log.contains("run ");
        assert!(first == 1 || (first == 2 && after_its_end), "{folder}: {ends:?}");
        ends.sort();
        ends.dedup();
        assert_eq!(ends.len(), 4, "{folder}: {ends:?}");
    }
    assert_eq!(bench.queue(&[]), "");
    let kills = killed.iter().filter(|killed| **killed).count();
    assert!((4..killed.len()).contains(&kills), "{killed:?}");
    assert!(killed[..kills].iter().all(|killed| *killed), "a step was passed over: {killed:?}");
}

#[test]
fn a_wrapper_killed_after_any_step_costs_no_run() {
    wrapper_killed_after_each_step("--no-requeue", "");
}

#[test]
fn a_wrapper_killed_after_any_step_and_requeued_costs_no_run() {
    wrapper_killed_after_each_step("", "requeue");
}

#[test]
fn a_slot_whose_wrapper_is_killed_at_every_attempt_is_given_up_and_named() {
    let Some(bench) = Bench::start(&[]) else { return };
    let submits: Vec<(String, Running)> = (1..=3)
        .map(|step| {
            let folder = format!("k{step}");
            bench.grid_in(&folder, 4, ":");
            let mut submit = bench.command_in(&folder, "submit sweep.yaml --warmup 0");
            submit.env("SWEEPCTL_ABORT_TASK", format!("0 {step} every"));
            (folder, Running::start(submit, &format!("submit, wrappers killed at {step}")))
        })
        .collect();
    for (folder, submit) in submits {
        let ran = submit.end();
        let ends = bench.seen_in(&folder, "end");
        if ran.code == Some(0) {
            // Its record was written before it died.
            assert_eq!((&*folder, ends.len()), ("k3", 4));
            continue;
        }
        let ran = ran.assert(6);
        assert!(ran.stdout.contains("3 of 4 runs finished, 1 given up"), "{}", ran.stdout);
        let status = Running::start(bench.command_in(&folder, "status"), "status").end();
        assert!(status.stdout.contains("slot 0 given-up"), "{}", status.stdout);
        let others = ends.iter().filter(|end| !end.contains("x=0")).count();
        assert_eq!((others, bench.queue(&[]).as_str()), (3, ""), "{ends:?}");
    }
}

#[test]
fn a_killed_task_takes_its_program_along_and_is_run_again() {
    killed_wrapper(&[]);
}

#[test]
fn a_killed_task_is_run_again_where_accounts_are_kept() {
    killed_wrapper(&[("ACCOUNTING", "1")]);
}

fn killed_node(settings: &[(&str, &str)], options: &str) {
    let Some(bench) = Bench::start(settings) else { return };
    bench.grid(40, "until [ -e go ]; do sleep 0.1; done");
    let submit = bench.begin(&format!("submit sweep.yaml --warmup 0 {options}"));
    bench.wait_for_starts(32);
    bench.slurm.call("node-kill 1");
    bench.slurm.call("node-up 1");
    bench.project.write("go", "");
    submit.end().assert(0);
    bench.assert_exact(40);
    assert!(bench.seen("start").len() > 40);
}

#[test]
fn r12_and_r70_what_a_dead_node_ran_is_run_again_by_slurm() {
    killed_node(&[], "");
}

#[test]
fn what_a_dead_node_ran_is_run_again_by_us() {
    killed_node(&[], "--no-requeue");
}

#[test]
fn what_a_dead_node_ran_is_run_again_where_accounts_are_kept() {
    killed_node(&[("ACCOUNTING", "1")], "");
}

/// Submits with an sbatch that does this in its first call: a piece of shell, where `$sbatch` is SLURM's.
fn submit_with_sbatch(bench: &Bench, first_call: &str) -> Running {
    let [_, (_, path)] = bench.slurm.env();
    let sbatch = which::which_in("sbatch", Some(&path), "/").unwrap();
    let script = format!(
        "#!/bin/sh\nsbatch='{}'\ncase \"$*\" in *--parsable*) mkdir called 2>&- && {{ {first_call}; }} ;; \
         esac\nexec \"$sbatch\" \"$@\"\n",
        sbatch.display()
    );
    let script = bench.project.write("bin/sbatch", &script);
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut first = bench.project.path("bin").into_os_string();
    first.push(":");
    first.push(path);
    let mut submit = bench.command("submit sweep.yaml");
    submit.env("PATH", first);
    Running::start(submit, "submit")
}

fn assert_one_array(bench: &Bench) {
    let rows = bench.queue(&["--states=all", "--format=%F"]);
    assert!(rows.lines().all(|job| Some(job) == rows.lines().next()), "{rows}");
}

#[test]
fn an_sbatch_that_got_no_answer_is_looked_for_and_not_repeated() {
    let Some(bench) = Bench::start(&[("MESSAGE_TIMEOUT", "3")]) else { return };
    bench.grid(12, ":");
    let freeze = format!(
        "SLURM_TESTBED='{}' '{}/scripts/slurm-testbed' ctld-freeze",
        bench.slurm.folder().display(),
        env!("CARGO_MANIFEST_DIR"),
    );
    let submit = submit_with_sbatch(&bench, &freeze);
    wait_until("sbatch has got no answer", LIMIT, || {
        submit.text("stderr").contains("sbatch gave no answer")
    });
    bench.slurm.call("ctld-thaw");
    submit.end().assert(0);
    bench.assert_exact(12);
    assert_one_array(&bench);
}

#[test]
fn an_sbatch_that_died_with_its_answer_is_not_repeated() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(4, ":");
    let ran = submit_with_sbatch(&bench, "\"$sbatch\" \"$@\" >&2; kill -KILL $$").end().assert(0);
    assert!(ran.stderr.contains("found by its name"), "{}", ran.stderr);
    bench.assert_exact(4);
    assert_one_array(&bench);
}

#[test]
fn an_sbatch_that_died_before_it_sent_anything_is_replaced() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(4, ":");
    let ran = submit_with_sbatch(&bench, "kill -KILL $$").end().assert(0);
    assert!(ran.stderr.contains("is void"), "{}", ran.stderr);
    bench.assert_exact(4);
    assert_one_array(&bench);
}

#[test]
fn a_slurmctld_that_is_gone_for_a_while_changes_nothing() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(16, "sleep 1");
    let submit = bench.begin("submit sweep.yaml --parallel 4 --jobs 8");
    bench.wait_for_ends(2);
    bench.slurm.call("ctld-stop");
    wait_until("the watcher has noticed", LIMIT, || {
        let said = submit.text("stderr");
        said.contains("looking again later") || said.contains("trying again")
    });
    bench.slurm.call("ctld-start");
    submit.end().assert(0);
    bench.assert_exact(16);
    assert_eq!(bench.seen("start").len(), 16);
}

#[test]
fn nodes_ranks_and_gpus_are_those_that_slurm_makes_of_the_same_words() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(1, ":");
    let table = [
        "--gpus-per-node=4",
        "--gres=gpu:2",
        "--gres=gpu",
        "-G 4",
        "-N2 --gpus-per-node=3",
        "-N2 --ntasks-per-node=8 --gres=gpu:4",
        "-N 1-2 -n 8",
        "-n4 --gpus-per-task=1",
        "--gpus=4 --gpus-per-task=2",
        "--gpus=4 --ntasks-per-gpu=1",
        "--gpus-per-node=0 --exclusive",
    ];
    for request in table {
        let planned = bench.run(&format!("submit sweep.yaml --dry-run -t 10 {request}")).assert(0);
        let script = bench.project.write("held.sbatch", &planned.stdout);
        let script = script.to_str().unwrap();
        let held = ["--parsable", "--hold", "--output=/dev/null", script];
        let id = bench.slurm.run("sbatch", &held);
        let job = bench.slurm.run("scontrol", &["show", "job", id.trim()]);
        let field = |name: &str| {
            let fields = job.split_whitespace();
            let value = fields.filter_map(|field| field.strip_prefix(name)).next();
            value.unwrap_or_default().split('-').next().unwrap_or_default().to_owned()
        };
        let (nodes, ranks) = (field("NumNodes="), field("NumTasks="));
        // Not released: SLURM shows the GPUs of a pending job as they were asked for.
        let of = |name: &str| {
            let amount = field(name);
            let last = amount.rsplit(':').next().unwrap_or_default();
            if last == "gpu" { Some(1) } else { last.parse::<u32>().ok() }
        };
        let number = |text: &str| text.parse::<u32>().unwrap();
        let gpus = of("TresPerJob=")
            .or(of("TresPerNode=").map(|gpus| gpus * number(&nodes)))
            .or(of("TresPerTask=").map(|gpus| gpus * number(&ranks)))
            .unwrap_or(0);
        let plural = |number: u32, word: &str| {
            format!(" {number} {word}{}, ", if number == 1 { "" } else { "s" })
        };
        let mut want = vec![plural(number(&ranks), "rank")];
        if number(&nodes) > 1 {
            want.push(plural(number(&nodes), "node"));
        }
        if gpus > 0 {
            want.push(plural(gpus, "GPU"));
        }
        for words in want {
            assert!(
                planned.stderr.contains(&words),
                "{request}: {words} of {job}: {}",
                planned.stderr
            );
        }
    }
}

#[test]
fn a_time_that_the_partition_never_gives_is_refused_before_anything_is_created() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(1, ":");
    let refused = bench.run("submit sweep.yaml -p short -t 3").assert(3);
    assert!(
        refused.stderr.contains("more than its partition allows, 0:02:00"),
        "{}",
        refused.stderr
    );
    assert!(!bench.project.path(".sweepctl/sweeps").exists());
    // The default limit of the default partition counts where none is given.
    let planned = bench.run("submit sweep.yaml --gpus=1 --max-gpu-hours 0.5").assert(3);
    assert!(planned.stderr.contains("may take 1 GPU hours"), "{}", planned.stderr);
    assert!(!bench.project.path(".sweepctl/sweeps").exists());
    assert_eq!(bench.queue(&["--states=all"]), "");
}

#[test]
fn a_limit_on_submitted_jobs_only_delays() {
    let Some(bench) = Bench::start(&[("ACCOUNTING", "1")]) else { return };
    bench.grid(60, ":");
    bench.run("submit sweep.yaml --qos tiny --budget 50").assert(0);
    bench.assert_exact(50);
    let jobs = bench.queue(&["--states=all", "--format=%F"]);
    let jobs: std::collections::BTreeSet<&str> = jobs.lines().collect();
    assert!(jobs.len() <= 25, "{} arrays", jobs.len());
}

/// Accounts of root's beside `lab1`: `few` may have 6 tasks queued or running, 2 of them running.
fn add_limited_account(bench: &Bench) {
    for call in [
        "add account few Cluster=testbed",
        "add user root Account=few",
        "modify user where name=root account=few set MaxSubmitJobs=6 MaxJobs=2",
    ] {
        let args: Vec<&str> = ["-i"].into_iter().chain(call.split(' ')).collect();
        bench.slurm.run("sacctmgr", &args);
    }
    wait_until("slurmctld knows the limit", LIMIT, || {
        let all =
            bench.slurm.run("scontrol", &["show", "assoc_mgr", "flags=assoc", "accounts=few"]);
        all.contains("MaxSubmitJobs=6")
    });
}

#[test]
fn sweeps_of_two_accounts_each_keep_to_their_own_limits() {
    let Some(bench) = Bench::start(&[("ACCOUNTING", "1")]) else { return };
    add_limited_account(&bench);
    let work = |account: &str| {
        format!(
            "[ $SLURM_JOB_ACCOUNT = {account} ] && echo \"start $*\" >>most && sleep 1 && echo end >>most"
        )
    };
    bench.grid_in("few", 20, &work("few"));
    bench.grid_in("many", 20, &work("lab1"));
    let submit = |account: &str, folder: &str| {
        let args = format!("submit sweep.yaml --warmup 0 -A {account}");
        Running::start(bench.command_in(folder, &args), &args)
    };
    let few = submit("few", "few");
    wait_until("the limited one is full", LIMIT, || {
        bench.queue(&["--account=few"]).lines().count() == 6
    });
    let many = submit("lab1", "many");
    let mut most = 0;
    wait_until("the other one has ended", LIMIT, || {
        most = most.max(bench.queue(&["--account=few"]).lines().count());
        bench.seen_in("many", "end").len() == 20
    });
    let limited = bench.seen_in("few", "end").len();
    assert!(limited < 20, "the limited one was not slower");
    let many = many.end().assert(0);
    assert!(!many.stderr.contains("Limit"), "{}", many.stderr);
    let few = few.end().assert(0);
    assert!(most <= 6, "{most}");
    assert_eq!(few.stderr.matches("(AssocMaxSubmitJobLimit): queueing what it takes").count(), 1);
    assert!(few.stderr.contains("pending (AssocMaxJobsLimit)"), "{}", few.stderr);
    for folder in ["few", "many"] {
        bench.assert_exact_in(folder, 20);
        assert_eq!(bench.seen_in(folder, "start").len(), 20);
    }
    let jobs = bench.queue(&["--states=all", "--account=few", "--format=%F"]);
    let jobs: std::collections::BTreeSet<&str> = jobs.lines().collect();
    assert!(jobs.len() <= 12, "{} arrays", jobs.len());
}

#[test]
fn what_a_limit_keeps_back_from_a_detached_sweep_is_said_and_ticks_go_on() {
    let Some(bench) = Bench::start(&[("ACCOUNTING", "1")]) else { return };
    add_limited_account(&bench);
    bench.grid(14, ":");
    let ran = bench.run("submit sweep.yaml --detach --warmup 0 -A few").assert(0);
    assert!(ran.stderr.contains("AssocMaxSubmitJobLimit"), "{}", ran.stderr);
    let left = "8 runs are not queued yet; `sweepctl watch sweep` or `sweepctl tick sweep` goes on";
    assert!(ran.stderr.contains(left), "{}", ran.stderr);
    wait_until("ticks close the sweep", LIMIT, || {
        bench.run("tick").assert(0);
        bench.status()["state"] == "finished"
    });
    bench.assert_exact(14);
}

#[test]
fn an_account_that_is_not_ours_is_refused_before_anything_is_made() {
    let Some(bench) = Bench::start(&[("ACCOUNTING", "1")]) else { return };
    add_limited_account(&bench);
    bench.grid(4, ":");
    bench.slurm.run("sacctmgr", &["-i", "add", "account", "theirs", "Cluster=testbed"]);
    for account in ["theirs", "nosuch"] {
        let ran = bench.run(&format!("submit sweep.yaml -A {account}")).assert(4);
        assert!(ran.stderr.contains("Invalid account"), "{}", ran.stderr);
        assert!(ran.stderr.contains("sacctmgr show assoc user=$USER"), "{}", ran.stderr);
        assert!(!bench.project.path(".sweepctl/sweeps").exists());
    }
    assert_eq!(bench.queue(&["--states=all"]), "");
    bench.run("submit sweep.yaml -A few").assert(0);
    bench.assert_exact(4);
}

/// A sweep of 12 runs that waits for the file `go`, with 4 of them under way.
fn waiting(bench: &Bench) -> Running {
    bench.grid(12, "until [ -e go ]; do sleep 0.1; done");
    let submit = bench.begin("submit sweep.yaml --parallel 4");
    bench.wait_for_starts(4);
    submit
}

#[test]
fn a_later_tick_from_another_shell_submits_with_the_environment_of_the_first() {
    let Some(bench) = Bench::start(&[]) else { return };
    let venv = bench.project.path("venv");
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&venv).status();
    assert!(made.is_ok_and(|made| made.success()), "python3 -m venv");
    let file = "program: t.py\nmethod: grid\nparameters: {x: {values: [0, 1, 2, 3]}}\n";
    bench.project.write("sweep.yaml", file);
    bench
        .project
        .write("t.py", "import sys\nopen('seen', 'a').write('end ' + sys.prefix + '\\n')\n");
    // As `source venv/bin/activate` does; then a shell that knows nothing of it.
    let mut submit = bench.command("submit sweep.yaml --jobs 2 --warmup 0");
    let path = std::env::var("PATH").unwrap();
    submit.env("VIRTUAL_ENV", &venv).env("PATH", format!("{}/bin:{path}", venv.display()));
    let submit = Running::start(submit, "submit");
    bench.wait_for_ends(1);
    drop(submit);
    wait_until("four runs", LIMIT, || {
        let mut tick = bench.command("tick");
        tick.env_clear().envs(bench.slurm.env()).env("SWEEPCTL_SPANS", "2");
        Running::start(tick, "tick").end().assert(0);
        bench.seen("end").len() == 4
    });
    assert_eq!(bench.seen("end"), vec![venv.display().to_string(); 4]);
}

#[test]
fn a_task_cancelled_during_its_set_up_is_run_again() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(3, ":");
    let setup = "touch set-up; until [ -e go ]; do sleep 0.1; done";
    let mut submit = bench.command("submit sweep.yaml --warmup 0 --teardown :");
    submit.args(["--setup", setup]);
    let submit = Running::start(submit, "submit");
    wait_until("a set-up line runs", LIMIT, || bench.project.path("set-up").exists());
    let job = bench.queue(&["--format=%F"]).lines().next().unwrap().to_owned();
    bench.slurm.run("scancel", &[&format!("{job}_0")]);
    bench.project.write("go", "");
    submit.end().assert(0);
    bench.assert_exact(3);
}

#[test]
fn logs_have_the_names_that_were_asked_for_and_are_found_all_the_same() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(2, "echo \"out of $SWEEPCTL_SLOT\"; echo \"err of $SWEEPCTL_SLOT\" >&2");
    let call = "submit sweep.yaml --warmup 0 --new";
    let end = |more: &str| bench.run(&format!("{call} {more}")).assert(0);
    let ours = |sweep: &str, task: u32| {
        bench.project.read(format!(".sweepctl/sweeps/{sweep}/arrays/0/logs/{task}.log"))
    };
    end("--name one -o out/%x/%A_%a.txt -e out/%x/%A_%a.err");
    let files = |folder: &str| {
        let files = fs::read_dir(bench.project.path(folder)).unwrap();
        let mut names: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let names = files("out/one");
    let job = names[0].split('_').next().unwrap();
    assert_eq!(names, ["0.err", "0.txt", "1.err", "1.txt"].map(|end| format!("{job}_{end}")));
    let errors = bench.project.read(format!("out/one/{job}_1.err"));
    assert!(errors.contains("err of 1\n"), "{errors}");
    assert_eq!(bench.project.read(format!("out/one/{job}_1.txt")), "out of 1\n");
    assert_eq!(ours("one", 1), errors);

    // One file for all: SLURM appends, and the end of each run is kept.
    let said = end("--name two --output=all.txt").stderr;
    assert!(said.contains("--output all.txt is one file for several tasks"), "{said}");
    let all = bench.project.read("all.txt");
    for slot in 0..2 {
        assert!(all.contains(&format!("out of {slot}\n")), "{all}");
        let kept = ours("two", slot);
        let mut lines: Vec<&str> = kept.lines().collect();
        lines.sort();
        assert_eq!(lines, [format!("err of {slot}"), format!("out of {slot}")]);
    }
    end("--name three --output=/dev/null");
    assert!(ours("three", 0).contains("err of 0"));

    for (more, want) in [
        ("-o logs/%A/%a.txt", "the folder of the log"),
        ("-o a\\b", "backslash"),
        ("-e %N/x", "--error: the folder of the log"),
    ] {
        let said = bench.run(&format!("{call} {more}")).assert(2).stderr;
        assert!(said.contains(want), "{more}: {said}");
    }
}

#[test]
fn r81_agents_on_every_rank_do_independent_runs_with_a_share_of_the_gpus_each() {
    let Some(bench) = Bench::start(&[("GPUS", "4")]) else { return };
    // Slot 5 kills its own agent: the others go on, and it is run again.
    bench.grid(
        10,
        "echo \"gpu $CUDA_VISIBLE_DEVICES ranks ${SLURM_NTASKS-hidden}\" >>seen\n\
         [ $SWEEPCTL_SLOT != 5 ] || [ -e killed ] || { touch killed; kill -9 $PPID; sleep 9; }",
    );
    for (name, gpus) in [("gres", "--gres=gpu:4"), ("job", "-G 4"), ("sweep", "--gpus-per-node=4")]
    {
        let asked = format!("-N1 -n4 {gpus} -t 10 --agents task --warmup 0 --new --name {name}");
        let _ = fs::remove_file(bench.project.path("seen"));
        let _ = fs::remove_file(bench.project.path("killed"));
        agents_on_every_rank(&bench, name, &asked);
    }
}

fn agents_on_every_rank(bench: &Bench, name: &str, asked: &str) {
    let submit = bench.run(&format!("submit sweep.yaml {asked} --jobs 2")).assert(0);
    assert!(
        submit.stderr.contains("3 jobs, each with 4 ranks, 4 GPUs, 4 agents"),
        "{}",
        submit.stderr
    );
    bench.assert_exact(10);
    let mut gpus = bench.seen("gpu");
    assert_eq!(gpus.len(), 11, "{gpus:?}");
    gpus.sort();
    gpus.dedup();
    assert_eq!(gpus, ["0", "1", "2", "3"].map(|gpu| format!("{gpu} ranks hidden")));
    let logs = bench.project.path(".sweepctl/sweeps").join(name).join("arrays/0/logs");
    let mut names: Vec<String> = fs::read_dir(logs)
        .unwrap()
        .map(|log| log.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "0.0.log", "0.1.log", "0.2.log", "0.3.log", "0.log", "1.0.log", "1.1.log", "1.2.log",
            "1.3.log", "1.log"
        ]
    );
}

#[test]
fn agents_on_every_node_do_independent_runs_and_signals_reach_them_all() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(6, "echo \"node $SLURMD_NODENAME\" >>seen; until [ -e go ]; do sleep 0.1; done");
    let submit = bench.begin("submit sweep.yaml -N2 --agents node -t 10 --jobs 1 --warmup 0");
    bench.wait_for_starts(2);
    let job = bench.queue(&["--states=R", "--format=%F"]).lines().next().unwrap().to_owned();
    bench.slurm.run("scancel", &[&format!("{job}_0")]);
    bench.wait_for_starts(4);
    bench.project.write("go", "");
    submit.end().assert(0);
    bench.assert_exact(6);
    bench.assert_each_slot_counts_once("", 6);
    let mut nodes = bench.seen("node");
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes.len(), 2, "{nodes:?}");
}

#[test]
fn r10_srun_in_the_command_gives_every_rank_the_same_values() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(3, "echo \"rank $SLURM_PROCID $SWEEPCTL_SLOT $*\" >>seen");
    let sweep = bench.project.read("sweep.yaml").replace("command: [sh,", "command: [srun, sh,");
    bench.project.write("sweep.yaml", &sweep);
    let said = bench.run("submit sweep.yaml -n4 -t 10 --warmup 0").assert(0).stderr;
    assert!(!said.contains("nothing starts the program on them"), "{said}");
    for slot in 0..3 {
        let mut ranks: Vec<String> = bench.seen("rank");
        ranks.retain(|rank| rank.contains(&format!(" {slot} --x={slot}")));
        ranks.sort();
        let want: Vec<String> = (0..4).map(|rank| format!("{rank} {slot} --x={slot}")).collect();
        assert_eq!(ranks, want);
    }
    assert_eq!(bench.status()["finished"], 3);
}

#[test]
fn r64_and_r72_arrays_are_as_large_as_the_site_allows_and_share_the_throttle() {
    let Some(bench) = Bench::start(&[("MAX_ARRAY_SIZE", "11")]) else { return };
    bench.grid(25, "until [ -e go ]; do sleep 0.1; done");
    bench.run("submit sweep.yaml --detach --parallel 4 --warmup 0 -t 10").assert(0);
    let rows = bench.queue(&["--format=%F %K"]);
    let arrays: std::collections::BTreeSet<&str> =
        rows.lines().filter_map(|row| row.split(' ').next()).collect();
    assert_eq!((arrays.len(), rows.lines().count()), (3, 25), "{rows}");
    let mut throttles = 0;
    for array in arrays {
        let job = bench.slurm.run("scontrol", &["show", "job", array]);
        let throttle =
            job.split_whitespace().find_map(|word| word.strip_prefix("ArrayTaskThrottle="));
        throttles += throttle.unwrap().parse::<u32>().unwrap();
    }
    assert_eq!(throttles, 4);
    let index = |row: &str| row.split(' ').nth(1).unwrap().parse::<u32>().unwrap();
    assert!(rows.lines().all(|row| index(row) <= 10), "{rows}");
    bench.wait_for_starts(4);
    bench.project.write("go", "");
    bench.run("watch").assert(0);
    bench.assert_exact(25);
    bench.assert_never_more_than(4);
}

#[test]
fn r16_r18_and_r69_after_any_signal_no_further_run_is_taken_and_exit_0_is_no_result() {
    let Some(bench) = Bench::start(&[("ACCOUNTING", "1")]) else { return };
    for signal in ["USR1", "TERM"] {
        bench.grid_in(signal, 3, ":");
        bench.project.write(
            format!("{signal}/train.sh"),
            "echo \"start $SWEEPCTL_SLOT\" >>seen\ntrap 'echo \"saved $SWEEPCTL_SLOT\" >>seen; exit 0' USR1 TERM\n\
             until [ -e go ]; do sleep 0.1; done\necho \"end $SWEEPCTL_SLOT\" >>seen\n",
        );
        let args = "submit sweep.yaml --runs-per-job 3 --warmup 0 --no-requeue -t 10";
        let submit = Running::start(bench.command_in(signal, args), args);
        wait_until("a run", LIMIT, || bench.seen_in(signal, "start") == ["0"]);
        let job = bench.queue(&["--states=R", "--format=%F"]).trim().to_owned();
        bench.slurm.run("scancel", &["--batch", "--signal", signal, &format!("{job}_0")]);
        wait_until("it saves", LIMIT, || bench.seen_in(signal, "saved") == ["0"]);
        // The task ends without its other runs; all three come with the next ones.
        wait_until("the next task", LIMIT, || bench.seen_in(signal, "start").len() == 2);
        let first =
            bench.project.read(format!("{signal}/.sweepctl/sweeps/sweep/arrays/0/logs/0.log"));
        assert!(first.contains("SLURM tells what becomes of the run"), "{first}");
        assert_eq!(first.matches("sweepctl: slot ").count(), 1, "{first}");
        bench.project.write(format!("{signal}/go"), "");
        submit.end().assert(0);
        let mut ends = bench.seen_in(signal, "end");
        ends.sort();
        assert_eq!(ends, ["0", "1", "2"], "{signal}");
    }
}

#[test]
fn tasks_cancelled_by_hand_are_run_again() {
    tasks_cancelled_by_hand(&[]);
}

#[test]
fn tasks_cancelled_by_hand_are_run_again_where_accounts_are_kept() {
    tasks_cancelled_by_hand(&[("ACCOUNTING", "1")]);
}

fn tasks_cancelled_by_hand(settings: &[(&str, &str)]) {
    let Some(bench) = Bench::start(settings) else { return };
    let submit = waiting(&bench);
    for state in ["--states=running", "--states=pending"] {
        let tasks = bench.queue(&[state, "--format=%F_%K"]);
        bench.slurm.run("scancel", &[tasks.lines().last().unwrap()]);
    }
    bench.project.write("go", "");
    submit.end().assert(0);
    bench.assert_exact(12);
}

#[test]
fn cancel_empties_the_queue() {
    let Some(bench) = Bench::start(&[]) else { return };
    let submit = waiting(&bench);
    bench.run("cancel").assert(0);
    submit.end().assert(6);
    assert_eq!(bench.queue(&[]), "");
    assert_eq!(bench.seen("end").len(), 0);
    let status = bench.status();
    assert_eq!((&status["state"], &status["finished"]), (&"cancelled".into(), &0.into()));
}

#[test]
fn pause_holds_what_is_pending_and_resume_lets_it_go() {
    let Some(bench) = Bench::start(&[]) else { return };
    let submit = waiting(&bench);
    bench.run("pause").assert(0);
    assert_eq!(bench.queue(&["--states=running"]).lines().count(), 4);
    let held = bench.queue(&["--states=pending", "--format=%r"]);
    assert!(held.lines().count() == 8 && held.lines().all(|why| why == "JobHeldUser"), "{held}");
    assert_eq!(bench.status()["state"], "paused");
    bench.project.write("go", "");
    submit.end().assert(6);
    assert_eq!(bench.seen("end").len(), 4);
    bench.run("resume").assert(0);
    bench.run("watch").assert(0);
    bench.assert_exact(12);
    assert_eq!(bench.status()["state"], "finished");
}

#[test]
fn stop_lets_what_runs_finish() {
    let Some(bench) = Bench::start(&[]) else { return };
    let submit = waiting(&bench);
    bench.run("stop").assert(0);
    assert_eq!(bench.status()["state"], "ending");
    bench.project.write("go", "");
    submit.end().assert(6);
    bench.assert_exact(4);
    let status = bench.status();
    assert_eq!((&status["state"], &status["finished"]), (&"cancelled".into(), &4.into()));
}

#[test]
fn two_submits_at_once_make_one_sweep_or_two_whole_ones() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(4, ":");
    let both = [bench.begin("submit sweep.yaml"), bench.begin("submit sweep.yaml")];
    for submit in both {
        submit.end().assert(0);
    }
    let text = bench.run("status --json").assert(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let sweeps = json["sweeps"].as_array().unwrap();
    assert!((1..=2).contains(&sweeps.len()), "{text}");
    for sweep in sweeps {
        assert_eq!((&sweep["state"], &sweep["finished"]), (&"finished".into(), &4.into()));
    }
    assert_eq!(bench.seen("end").len(), 4 * sweeps.len());
    assert_eq!(bench.queue(&[]), "");
}

#[test]
fn a_folder_may_have_any_name() {
    let Some(bench) = Bench::start(&[]) else { return };
    let folder = "it's \"my\" $(touch x) `touch y`; 100%j";
    bench.grid_in(folder, 4, ":");
    let submit = Running::start(bench.command_in(folder, "submit sweep.yaml"), "submit");
    submit.end().assert(0);
    bench.assert_exact_in(folder, 4);
    let logs = bench.project.path(folder).join(".sweepctl/sweeps/sweep/arrays/0/logs");
    assert_eq!(fs::read_dir(logs).unwrap().count(), 4);
    for file in ["x", "y"] {
        assert!(!bench.project.path(folder).join(file).exists(), "`{file}` was executed");
    }
}

#[test]
fn a_wrong_partition_creates_nothing() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(4, ":");
    let ran = bench.run("submit sweep.yaml -p nope").assert(4);
    assert!(ran.stderr.contains("sinfo -s"), "{}", ran.stderr);
    assert!(!bench.project.path(".sweepctl/sweeps").exists());
    assert_eq!(bench.queue(&["--states=all"]), "");
}

#[test]
fn ticks_bring_a_detached_sweep_to_its_end() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(4, "until [ -e go ]; do sleep 0.1; done");
    bench.run("submit sweep.yaml --detach").assert(0);
    let jobs = bench.queue(&["--format=%F_%K"]);
    assert_eq!(jobs.lines().count(), 4);
    let by_hand = bench.run("agent").assert(0);
    assert!(by_hand.stderr.contains("`sweepctl tick sweep` takes back"), "{}", by_hand.stderr);
    let again = bench.run("submit sweep.yaml --detach").assert(0);
    assert!(again.stderr.contains("under way already"), "{}", again.stderr);
    assert_eq!(bench.queue(&["--format=%F_%K"]).lines().count(), 4);
    bench.project.write("go", "");
    wait_until("a tick closes the sweep", LIMIT, || {
        bench.run("tick").assert(0);
        bench.status()["state"] == "finished"
    });
    bench.assert_exact(4);
}

#[test]
fn a_folder_whose_logs_slurm_would_lose_is_refused() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid_in("a\\b", 4, ":");
    let submit = Running::start(bench.command_in("a\\b", "submit sweep.yaml"), "submit");
    let ran = submit.end().assert(2);
    assert!(ran.stderr.contains("backslash"), "{}", ran.stderr);
}

#[test]
fn jobs_go_on_when_their_watcher_is_interrupted() {
    let Some(bench) = Bench::start(&[]) else { return };
    let submit = waiting(&bench);
    let watcher = rustix::process::Pid::from_child(&submit.child);
    rustix::process::kill_process(watcher, rustix::process::Signal::INT).unwrap();
    submit.end().assert(130);
    assert_eq!(bench.queue(&[]).lines().count(), 12);
    bench.project.write("go", "");
    bench.run("watch").assert(0);
    bench.assert_exact(12);
}

#[test]
fn a_task_that_slurm_forgot_at_once_is_run_again() {
    let Some(bench) = Bench::start(&[("MIN_JOB_AGE", "2")]) else { return };
    bench.grid(4, "until [ -e go ]; do sleep 0.1; done");
    bench.run("submit sweep.yaml --detach").assert(0);
    bench.wait_for_starts(4);
    kill_a_wrapper(&bench);
    bench.project.write("go", "");
    wait_until("SLURM has forgotten all", LIMIT, || bench.queue(&["--states=all"]).is_empty());
    bench.run("watch").assert(0);
    bench.assert_exact(4);
    assert_eq!(bench.seen("start").len(), 5);
}

#[test]
fn r15_a_preempted_task_is_run_again() {
    let Some(bench) = Bench::start(&[("NODES", "1"), ("CPUS", "4")]) else { return };
    bench.grid(4, "until [ -e go ]; do sleep 0.1; done");
    let submit = bench.begin("submit sweep.yaml -p preemptable");
    bench.wait_for_starts(4);
    bench.slurm.run(
        "sbatch",
        &["-p", "high", "--cpus-per-task=2", "--output=/dev/null", "--wrap=sleep 2"],
    );
    bench.wait_for_starts(6);
    bench.project.write("go", "");
    submit.end().assert(0);
    bench.assert_exact(4);
}

#[test]
fn an_array_that_somebody_cancels_is_not_submitted_over_and_over() {
    let Some(bench) = Bench::start(&[]) else { return };
    let submit = waiting(&bench);
    let tasks = bench.queue(&["--states=pending", "--format=%F"]);
    bench.slurm.run("scancel", &["--state=pending", tasks.lines().next().unwrap()]);
    bench.project.write("go", "");
    let ran = submit.end().assert(6);
    assert!(ran.stderr.contains("vanished unstarted"), "{}", ran.stderr);
    assert_eq!(bench.seen("end").len(), 4);
    bench.run("resume").assert(0);
    bench.run("watch").assert(0);
    bench.assert_exact(12);
}

#[test]
fn a_sweep_whose_watchers_are_killed_all_the_time_comes_to_its_end() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(24, ":");
    let mut next = "submit sweep.yaml --parallel 3 --jobs 6";
    for kill_at in 10.. {
        let mut command = bench.command(next);
        command.env("SWEEPCTL_ABORT_AT", kill_at.to_string());
        let ran = Running::start(command, &format!("{next}, killed at {kill_at}")).end();
        if ran.code.is_some() {
            ran.assert(0);
            break;
        }
        next = "watch";
    }
    bench.assert_exact(24);
    bench.assert_never_more_than(3);
}

#[test]
fn without_its_accounts_slurm_proves_no_death() {
    let Some(bench) = Bench::start(&[("ACCOUNTING", "1")]) else { return };
    bench.grid(4, "until [ -e go ]; do sleep 0.1; done");
    let submit = bench.begin("submit sweep.yaml");
    bench.wait_for_starts(4);
    bench.slurm.call("dbd-stop");
    kill_a_wrapper(&bench);
    bench.project.write("go", "");
    bench.wait_for_ends(3);
    bench.slurm.call("dbd-start");
    submit.end().assert(0);
    bench.assert_exact(4);
}

/// `status --json` with a squeue that notes its calls: the sweeps by name, the calls, what was said.
fn status_and_calls(bench: &Bench) -> (serde_json::Value, usize, String) {
    let [_, (_, path)] = bench.slurm.env();
    let squeue = which::which_in("squeue", Some(&path), "/").unwrap();
    let script = format!("#!/bin/sh\necho >>calls\nexec '{}' \"$@\"\n", squeue.display());
    let script = bench.project.write("noting/squeue", &script);
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut first = bench.project.path("noting").into_os_string();
    first.push(":");
    first.push(path);
    let _ = fs::remove_file(bench.project.path("calls"));
    let mut status = bench.command("status --json");
    status.env("PATH", first);
    let ran = Running::start(status, "status --json").end().assert(0);
    let calls = fs::read_to_string(bench.project.path("calls")).unwrap_or_default();
    let json: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let sweeps = json["sweeps"].as_array().unwrap().iter();
    let by_name = sweeps.map(|sweep| (sweep["name"].as_str().unwrap().to_owned(), sweep.clone()));
    (serde_json::Value::Object(by_name.collect()), calls.lines().count(), ran.stderr)
}

#[test]
fn r79_status_says_why_tasks_wait_by_one_look_for_all_sweeps() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(3, ":");
    bench.slurm.run("sbatch", &["--output=/dev/null", "--wrap=false"]);
    let submit = "submit sweep.yaml --detach --new --name";
    bench.run(&format!("{submit} long -p short -t 10:00 --qos normal")).assert(0);
    bench.run(&format!("{submit} late -- --dependency=afterok:1")).assert(0);
    bench.run(&format!("{submit} held -p closed")).assert(0);
    bench.run(&format!("{submit} once")).assert(0);
    bench.wait_for_ends(3);
    wait_until("the last sweep has ended", LIMIT, || {
        bench.run("tick once").assert(0).stdout.contains("3 of 3")
    });
    for name in ["long", "late", "held"] {
        let all = bench.queue(&["--format=%F %j"]);
        let job = all.lines().find(|row| row.contains(name)).unwrap();
        if name == "held" {
            bench.slurm.run("scontrol", &["hold", job.split(' ').next().unwrap()]);
        }
    }
    let reasons = || bench.queue(&["--format=%r"]);
    wait_until("slurmctld has seen it", LIMIT, || reasons().contains("DependencyNeverSatisfied"));
    let _ = fs::remove_file(bench.project.path(".sweepctl/look.json"));
    let (sweeps, calls, said) = status_and_calls(&bench);
    assert_eq!((calls, &*said), (1, ""));
    for (name, reason) in [
        ("long", "PartitionTimeLimit"),
        ("late", "DependencyNeverSatisfied"),
        ("held", "JobHeldAdmin"),
    ] {
        let queue = &sweeps[name]["queue"];
        assert_eq!(queue["answered"], true, "{queue}");
        let wait = serde_json::json!([{"reason": reason, "tasks": 3, "hopeless": true}]);
        assert_eq!(queue["waits"], wait);
        let text = bench.run(&format!("status {name}")).assert(0).stdout;
        let line = format!("  queue  3 pending ({reason}, will not start by themselves)");
        assert!(text.contains(&line), "{text}");
    }
    assert_eq!(sweeps["once"]["queue"], serde_json::Value::Null);
    // The look is young: nobody is asked again. Then it is gone, and so is SLURM.
    assert_eq!(status_and_calls(&bench).1, 0);
    bench.slurm.call("ctld-stop");
    assert_eq!(status_and_calls(&bench).0["held"]["queue"]["answered"], true);
    fs::remove_file(bench.project.path(".sweepctl/look.json")).unwrap();
    let (sweeps, calls, said) = status_and_calls(&bench);
    assert_eq!((calls, said.lines().count()), (1, 1), "{said}");
    assert!(said.contains("warning: SLURM did not answer"), "{said}");
    assert_eq!((&sweeps["held"]["pending"], &sweeps["once"]["finished"]), (&3.into(), &3.into()));
    assert_eq!(sweeps["held"]["queue"]["answered"], false);
    bench.slurm.call("ctld-start");
}

#[test]
fn status_reuses_its_watchers_look() {
    let Some(bench) = Bench::start(&[]) else { return };
    let submit = waiting(&bench);
    wait_until("the watcher says why tasks wait", LIMIT, || {
        submit.text("stderr").contains("JobArrayTaskLimit")
    });
    let (sweeps, calls, _) = status_and_calls(&bench);
    assert_eq!(calls, 0);
    assert_eq!(sweeps["sweep"]["queue"]["waits"][0]["reason"], "JobArrayTaskLimit");
    bench.project.write("go", "");
    submit.end().assert(0);
}

#[test]
fn status_names_jobs_that_slurm_could_not_launch() {
    let Some(bench) = Bench::start(&[("EXTRA_CONF", "Prolog=/bin/false")]) else { return };
    bench.grid(1, ":");
    bench.run("submit sweep.yaml --detach").assert(0);
    let reason = || bench.queue(&["--format=%r"]);
    wait_until("the job is held", LIMIT, || reason().contains("requeued"));
    let _ = fs::remove_file(bench.project.path(".sweepctl/look.json"));
    let text = bench.run("status").assert(0).stdout;
    assert!(text.contains("1 pending (launch failed requeued held, will not"), "{text}");
}

/// A folder that not even root can write to, until this is dropped.
struct ReadOnly(PathBuf);

impl ReadOnly {
    fn mount(folder: PathBuf) -> Self {
        use rustix::mount::{MountFlags, mount};
        fs::create_dir_all(&folder).unwrap();
        mount("tmpfs", &folder, "tmpfs", MountFlags::RDONLY, None).unwrap();
        assert!(fs::write(folder.join("x"), "").is_err());
        Self(folder)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn nothing_is_written_to_a_home_and_none_is_needed() {
    let Some(bench) = Bench::start(&[]) else { return };
    let read_only = ReadOnly::mount(bench.project.path("homes/read-only"));
    let (missing, empty) = (bench.project.path("homes/missing"), bench.project.path("homes/empty"));
    fs::create_dir(&empty).unwrap();
    for home in [None, Some(&read_only.0), Some(&missing), Some(&empty)] {
        let folder = home.map_or("unset", |home| home.file_name().unwrap().to_str().unwrap());
        bench.grid_in(folder, 4, "echo \"home $HOME\" >>seen; until [ -e go ]; do sleep 0.1; done");
        let call = |args: &str| {
            let mut command = bench.command_in(folder, args);
            match home {
                Some(home) => command.env("HOME", home),
                None => command.env_remove("HOME"),
            };
            Running::start(command, args).end().assert(0)
        };
        call("submit sweep.yaml --detach");
        wait_until("all run", LIMIT, || bench.seen_in(folder, "home").len() == 4);
        if let Some(home) = home {
            for seen in bench.seen_in(folder, "home") {
                assert_eq!(PathBuf::from(seen), *home, "the programs' home");
            }
        }
        assert!(call("status").stdout.contains("4 running"));
        call("pause");
        call("resume");
        bench.project.write(PathBuf::from(folder).join("go"), "");
        call("watch");
        assert!(call("status").stdout.contains("4 of 4 runs finished"));
        bench.assert_exact_in(folder, 4);
    }
    assert!(!missing.exists());
    for home in [&empty, &read_only.0] {
        assert_eq!(fs::read_dir(home).unwrap().count(), 0, "{}", home.display());
    }
}

#[test]
fn a_job_of_the_same_user_that_cannot_be_read_stops_no_sweep() {
    let Some(bench) = Bench::start(&[]) else { return };
    bench.grid(4, ":");
    let stranger = ["--parsable", "--hold", "--job-name=odd\u{1e}name", "--wrap=true"];
    let job = bench.slurm.run("sbatch", &stranger);
    assert!(bench.queue(&["--format=%j"]).contains('\u{1e}'), "SLURM keeps it");
    let ran = bench.run("submit sweep.yaml").assert(0);
    assert!(!ran.stderr.contains("cannot read"), "{}", ran.stderr);
    bench.slurm.run("scancel", &[job.trim()]);
    bench.assert_exact(4);
}
