//! `submit --local` from the first word to the last: what people do, and what goes wrong with it.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Scratch, wait_until};

/// Patience with what takes a second or two on an idle machine.
const LONG: Duration = Duration::from_secs(60);

/// A grid of 12 runs of `train.sh`.
const TWELVE: &str = "\
program: train.sh
command: [sh, \"${program}\", \"${args}\"]
method: grid
metric: {name: loss, goal: minimize}
parameters:
  x: {values: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]}
";

/// Slots from 2 on wait until there is a file `go`; each slot notes its start and its end.
const GATED: &str = "\
echo $SWEEPCTL_SLOT >> starts
[ $SWEEPCTL_SLOT -lt 2 ] || while [ ! -e go ]; do sleep 0.05; done
echo \"{\\\"loss\\\": $SWEEPCTL_SLOT}\" >> \"$SWEEPCTL_METRICS\"
echo $SWEEPCTL_SLOT >> ends
";

fn project(program: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("sweep.yaml", TWELVE);
    scratch.write("train.sh", program);
    scratch
}

fn submit(scratch: &Scratch, more: &[&str]) -> Command {
    let mut command = scratch.sweepctl();
    command.args(["submit", "sweep.yaml", "--local"]).args(more);
    command
}

fn start(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
}

fn call(scratch: &Scratch, args: &[&str]) -> Output {
    scratch.sweepctl().args(args).output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Fails with all that was printed.
#[track_caller]
fn expect_code(output: &Output, code: i32) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
    assert!(!err.contains("panicked"), "{err}");
}

fn status(scratch: &Scratch) -> Value {
    let output = call(scratch, &["status", "--json"]);
    expect_code(&output, 0);
    let all: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    all["sweeps"][0].clone()
}

/// The numbers in a file of lines, in order; none if there is no such file.
fn lines(scratch: &Scratch, name: &str) -> Vec<u32> {
    let text = fs::read_to_string(scratch.path(name)).unwrap_or_default();
    let mut numbers: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    numbers.sort();
    numbers
}

/// Processes that work in the project: programs, tasks and watchers alike.
fn processes_in(folder: &Path) -> Vec<String> {
    let folder = folder.canonicalize().expect("it exists");
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let path = entry.path();
        if fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder)) {
            let command = fs::read(path.join("cmdline")).unwrap_or_default();
            found.push(format!("{}: {}", path.display(), text(&command).replace('\0', " ")));
        }
    }
    found
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id().cast_signed()).expect("a process ID");
    kill_process(pid, signal).expect("it lives");
}

/// A sweep whose slots 2 and 3 wait at the gate.
fn at_the_gate(scratch: &Scratch, more: &[&str]) -> Child {
    let child = start(submit(scratch, more));
    wait_until("two runs at the gate", LONG, || lines(scratch, "starts").len() >= 4);
    child
}

fn open_gate(scratch: &Scratch) {
    scratch.write("go", "");
}

fn all() -> Vec<u32> {
    (0..12).collect()
}

#[test]
fn the_quickstart_runs_to_its_end_in_a_fresh_home() {
    let scratch = Scratch::with_example("quickstart");
    let output = submit(&scratch, &[]).output().expect("it runs");
    expect_code(&output, 0);
    let out = text(&output.stdout);
    assert!(out.contains("12 of 12 runs finished; best loss 0."), "{out}");
    assert!(out.contains("  best   run ") && out.contains("hidden="), "{out}");
    let seen = status(&scratch);
    assert_eq!(seen["state"], "finished");
    assert_eq!(seen["runs"].as_array().map(Vec::len), Some(12));
    // What is written is the user's alone, and git's not at all.
    assert_eq!(scratch.read(".sweepctl/.gitignore"), "*\n");
}

#[test]
fn ctrl_c_ends_every_program_and_watch_goes_on_to_exactly_the_budget() {
    let scratch = project(GATED);
    let child = at_the_gate(&scratch, &["--parallel", "2"]);
    signal(&child, Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    expect_code(&output, 130);
    assert_eq!(processes_in(&scratch.path("")), Vec::<String>::new());
    assert!(text(&output.stderr).contains("`sweepctl watch sweep`"));
    open_gate(&scratch);
    let output = call(&scratch, &["watch"]);
    expect_code(&output, 0);
    assert_eq!(lines(&scratch, "ends"), all());
    assert_eq!(status(&scratch)["finished"], 12);
}

#[test]
fn a_program_that_ignores_term_and_its_child_end_at_the_second_ctrl_c() {
    let scratch = project(
        "trap '' TERM INT\n(while :; do sleep 0.05; done) &\n\
         echo $SWEEPCTL_SLOT >> starts\nwhile :; do sleep 0.05; done\n",
    );
    let mut child = start(submit(&scratch, &["--parallel", "2", "--max-attempts", "1"]));
    wait_until("two programs", LONG, || lines(&scratch, "starts").len() == 2);
    signal(&child, Signal::INT);
    let mut seen = String::new();
    let stderr = child.stderr.as_mut().expect("piped");
    while !seen.contains("ending what runs") {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).expect("readable"), 1, "{seen}");
        seen.push(char::from(byte[0]));
    }
    signal(&child, Signal::INT);
    wait_until("its end", Duration::from_secs(20), || child.try_wait().expect("ours").is_some());
    assert_eq!(child.wait().expect("ours").code(), Some(130));
    wait_until("the end of all", LONG, || processes_in(&scratch.path("")).is_empty());
    assert_eq!(
        (&status(&scratch)["running"], &status(&scratch)["given_up"]),
        (&0.into(), &0.into())
    );
}

#[test]
fn interruptions_cost_no_attempt_and_what_ran_is_open_again_at_once() {
    let scratch = project(GATED);
    let mut child = at_the_gate(&scratch, &["--parallel", "2", "--max-attempts", "1"]);
    for round in 1..=3 {
        signal(&child, Signal::INT);
        expect_code(&child.wait_with_output().expect("it ends"), 130);
        let seen = status(&scratch);
        assert_eq!(
            [&seen["finished"], &seen["running"], &seen["given_up"], &seen["pending"]],
            [2, 0, 0, 10],
            "after {round}"
        );
        child = start({
            let mut watch = scratch.sweepctl();
            watch.arg("watch");
            watch
        });
        let starts = 4 + 2 * round;
        wait_until("both again", LONG, || lines(&scratch, "starts").len() >= starts);
    }
    open_gate(&scratch);
    expect_code(&child.wait_with_output().expect("it ends"), 0);
    assert_eq!(lines(&scratch, "ends"), all());
}

#[test]
fn an_agent_by_hand_takes_what_a_killed_watcher_left() {
    let scratch = project(GATED);
    let mut child = at_the_gate(&scratch, &["--parallel", "2"]);
    signal(&child, Signal::KILL);
    child.wait().expect("ours");
    open_gate_for_agents(&scratch);
    let agent = call(&scratch, &["agent", "--count", "50"]);
    expect_code(&agent, 0);
    let (starts, ends) = (lines(&scratch, "starts"), lines(&scratch, "ends"));
    assert_eq!((starts.len(), ends.len()), (12, 10), "{}", text(&agent.stderr));
    // Those at the gate live on without a watcher, until they do not.
    assert!(text(&call(&scratch, &["agent"]).stderr).contains("nothing left to take"));
    for process in processes_in(&scratch.path("")) {
        if process.contains("job run") {
            let pid = process.split(['/', ':']).nth(2).and_then(|pid| pid.parse().ok());
            let pid = pid.and_then(Pid::from_raw).expect("/proc/PID");
            kill_process(pid, Signal::KILL).expect("it lives");
        }
    }
    wait_until("their end", LONG, || processes_in(&scratch.path("")).is_empty());
    expect_code(&call(&scratch, &["agent", "--count", "50"]), 0);
    assert_eq!(lines(&scratch, "ends"), all());
    expect_code(&call(&scratch, &["watch"]), 0);
    assert_eq!(status(&scratch)["state"], "finished");
}

#[test]
fn an_agent_by_hand_that_is_interrupted_gives_its_run_back() {
    let scratch = project(GATED);
    let child = at_the_gate(&scratch, &["--parallel", "2", "--jobs", "2", "--max-attempts", "1"]);
    for round in 1..=2 {
        let agent = start({
            let mut agent = scratch.sweepctl();
            agent.args(["agent", "--count", "3"]);
            agent
        });
        wait_until("its program", LONG, || lines(&scratch, "starts").len() >= 4 + round);
        signal(&agent, Signal::INT);
        expect_code(&agent.wait_with_output().expect("it ends"), 130);
        assert_eq!(status(&scratch)["running"], 2, "those of the watcher");
    }
    open_gate(&scratch);
    expect_code(&child.wait_with_output().expect("it ends"), 0);
    assert_eq!(lines(&scratch, "ends"), all());
}

#[test]
fn a_killed_watcher_costs_no_run() {
    let scratch = project(GATED);
    let mut child = at_the_gate(&scratch, &["--parallel", "2"]);
    signal(&child, Signal::KILL);
    // Not waited for yet: a dead process that nobody has reaped is dead all the same.
    let watch = start({
        let mut watch = scratch.sweepctl();
        watch.arg("watch");
        watch
    });
    open_gate(&scratch);
    let output = watch.wait_with_output().expect("it ends");
    expect_code(&output, 0);
    child.wait().expect("ours");
    assert_eq!(lines(&scratch, "starts"), all(), "each once");
    assert_eq!(lines(&scratch, "ends"), all(), "each once");
}

#[test]
fn runs_that_fail_are_counted_and_the_exit_code_says_so() {
    let scratch =
        project("echo $SWEEPCTL_SLOT >> starts\n[ $((SWEEPCTL_SLOT % 3)) != 2 ] || exit 3\n");
    let output = submit(&scratch, &["--parallel", "2"]).output().expect("it runs");
    expect_code(&output, 6);
    let seen = status(&scratch);
    assert_eq!(
        [&seen["finished"], &seen["failed"], &seen["pending"], &seen["given_up"], &seen["budget"]],
        [8, 4, 0, 0, 12]
    );
    assert_eq!(lines(&scratch, "starts"), all(), "a failed run counts and is not tried again");
    let exits = seen["runs"].as_array().expect("a list").iter().filter(|run| run["exit"] == 3);
    assert_eq!(exits.count(), 4);
}

#[test]
fn the_breaker_stops_a_typo_and_resume_goes_on_once_it_is_mended() {
    let scratch =
        project("echo $SWEEPCTL_SLOT >> starts\necho no module named torhc >&2\nexit 1\n");
    let output = submit(&scratch, &[]).output().expect("it runs");
    expect_code(&output, 6);
    let starts = lines(&scratch, "starts").len();
    assert!((1..=4).contains(&starts), "{starts} starts");
    let err = text(&output.stderr);
    assert!(
        err.contains("no module named torhc") && err.contains("`sweepctl resume sweep`"),
        "{err}"
    );
    assert_eq!(status(&scratch)["state"], "paused");

    scratch.write("train.sh", "echo $SWEEPCTL_SLOT >> ends\n");
    let output = call(&scratch, &["resume"]);
    expect_code(&output, 0);
    assert!(text(&output.stderr).contains("`sweepctl watch sweep`"), "nobody watches it");
    expect_code(&call(&scratch, &["watch"]), 0);
    assert_eq!(lines(&scratch, "ends"), all());
    assert_eq!(status(&scratch)["finished"], 12);
}

#[test]
fn a_missing_python_is_named_with_what_to_do() {
    let scratch = Scratch::new();
    scratch.write(
        "sweep.yaml",
        "program: train.py\nmethod: grid\nparameters: {x: {values: [1, 2]}}\n",
    );
    scratch.write("train.py", "");
    let bin = scratch.path("bin");
    fs::create_dir(&bin).expect("a folder");
    for program in ["bash", "uname", "env", "python3"] {
        std::os::unix::fs::symlink(which::which(program).expect("installed"), bin.join(program))
            .expect("a link");
    }
    let output = submit(&scratch, &[]).env("PATH", &bin).output().expect("it runs");
    expect_code(&output, 6);
    let err = text(&output.stderr);
    assert!(
        err.contains("`python` not found") && err.contains("help: write `command: [python3"),
        "{err}"
    );
}

#[test]
fn agents_by_hand_take_open_slots_and_never_more_than_the_budget() {
    let scratch = project(GATED);
    let child = at_the_gate(&scratch, &["--parallel", "2", "--jobs", "2"]);
    open_gate_for_agents(&scratch);
    let agent = call(&scratch, &["agent", "--count", "2"]);
    expect_code(&agent, 0);
    assert_eq!(lines(&scratch, "ends").len(), 4, "{}", text(&agent.stderr));
    let agents: Vec<Child> = (0..3)
        .map(|_| {
            let mut agent = scratch.sweepctl();
            agent.args(["agent", "--count", "50"]);
            start(agent)
        })
        .collect();
    for agent in agents {
        expect_code(&agent.wait_with_output().expect("it ends"), 0);
    }
    open_gate(&scratch);
    expect_code(&child.wait_with_output().expect("it ends"), 0);
    assert_eq!(lines(&scratch, "ends"), all(), "each once");
    expect_code(&call(&scratch, &["agent", "--count", "5"]), 0);
    assert_eq!(lines(&scratch, "starts"), all(), "each once");
}

/// Programs that start from here on do not wait; those at the gate still do.
fn open_gate_for_agents(scratch: &Scratch) {
    let gateless = GATED.lines().filter(|line| !line.contains("while")).collect::<Vec<_>>();
    // A new file: a shell reads its script as it goes.
    fs::remove_file(scratch.path("train.sh")).expect("it is there");
    scratch.write("train.sh", &(gateless.join("\n") + "\n"));
}

#[test]
fn a_job_of_several_runs_takes_them_one_after_the_other() {
    let scratch = project(
        "mkdir busy.$SLURM_ARRAY_TASK_ID || exit 9\necho $SLURM_ARRAY_TASK_ID >> tasks\n\
         echo $SWEEPCTL_SLOT >> ends\nrmdir busy.$SLURM_ARRAY_TASK_ID\n",
    );
    let output = submit(&scratch, &["--runs-per-job", "5"]).output().expect("it runs");
    expect_code(&output, 0);
    assert_eq!(lines(&scratch, "ends"), all());
    assert_eq!(lines(&scratch, "tasks").iter().max(), Some(&2), "three tasks");
}

#[test]
fn a_random_sweep_needs_an_end() {
    let scratch = Scratch::new();
    let random = "program: train.sh\ncommand: [sh, \"${program}\"]\nmethod: random\n\
                  parameters: {x: {min: 0.0, max: 1.0}}\n";
    scratch.write("sweep.yaml", random);
    scratch.write("train.sh", "echo $SWEEPCTL_SLOT >> ends\n");
    let output = submit(&scratch, &[]).output().expect("it runs");
    expect_code(&output, 3);
    assert!(text(&output.stderr).contains("--budget N"));
    assert!(!scratch.path(".sweepctl").exists());
    expect_code(&submit(&scratch, &["--jobs", "5"]).output().expect("it runs"), 0);
    assert_eq!(lines(&scratch, "ends"), [0, 1, 2, 3, 4]);
}

#[test]
fn pause_and_cancel_from_another_shell_reach_a_running_sweep() {
    let scratch = project(GATED);
    let child = at_the_gate(&scratch, &["--parallel", "2"]);
    expect_code(&call(&scratch, &["pause"]), 0);
    open_gate(&scratch);
    let output = child.wait_with_output().expect("it ends");
    expect_code(&output, 6);
    let starts = lines(&scratch, "starts").len();
    assert!(starts < 12, "{starts} starts");
    assert_eq!(status(&scratch)["state"], "paused");
    assert_eq!(status(&scratch)["running"], 0);

    fs::remove_file(scratch.path("go")).expect("it is there");
    expect_code(&call(&scratch, &["resume"]), 0);
    let mut watch = scratch.sweepctl();
    watch.arg("watch");
    let watch = start(watch);
    wait_until("two more at the gate", LONG, || lines(&scratch, "starts").len() >= starts + 2);
    expect_code(&call(&scratch, &["cancel"]), 0);
    let output = watch.wait_with_output().expect("it ends");
    expect_code(&output, 6);
    assert_eq!(status(&scratch)["state"], "cancelled");
    assert_eq!(processes_in(&scratch.path("")), Vec::<String>::new());
}

#[test]
fn stop_lets_what_runs_finish() {
    let scratch = project(GATED);
    let child = at_the_gate(&scratch, &["--parallel", "2"]);
    expect_code(&call(&scratch, &["stop"]), 0);
    open_gate(&scratch);
    expect_code(&child.wait_with_output().expect("it ends"), 6);
    assert_eq!(lines(&scratch, "ends"), lines(&scratch, "starts"));
    assert!(lines(&scratch, "ends").len() < 12);
}

#[test]
fn tick_leaves_a_local_sweep_able_to_finish() {
    let scratch = project(GATED);
    let child = at_the_gate(&scratch, &["--parallel", "2"]);
    signal(&child, Signal::INT);
    expect_code(&child.wait_with_output().expect("it ends"), 130);
    for _ in 0..6 {
        expect_code(&call(&scratch, &["tick"]), 0);
    }
    open_gate(&scratch);
    expect_code(&call(&scratch, &["watch"]), 0);
    assert_eq!(lines(&scratch, "ends"), all());
}

#[test]
fn r39_a_quiet_submit_prints_the_name_alone() {
    let scratch = project("true\n");
    let output = submit(&scratch, &["--quiet"]).output().expect("it runs");
    expect_code(&output, 0);
    assert_eq!(text(&output.stdout), "sweep\n");
}

#[test]
fn the_same_name_again_gets_a_number_and_the_same_submit_again_is_recognised() {
    let scratch = project(GATED);
    let child = at_the_gate(&scratch, &["--parallel", "2"]);
    let again = submit(&scratch, &["--parallel", "2", "--quiet"]).output().expect("it runs");
    expect_code(&again, 0);
    assert_eq!(text(&again.stdout), "sweep\n");
    assert!(text(&again.stderr).contains("is under way already"));
    open_gate(&scratch);
    expect_code(&child.wait_with_output().expect("it ends"), 0);
    for name in ["sweep-2\n", "sweep-3\n"] {
        let output = submit(&scratch, &["--quiet"]).output().expect("it runs");
        expect_code(&output, 0);
        assert_eq!(text(&output.stdout), name);
    }
}

#[test]
fn a_folder_with_any_name_works() {
    let scratch = Scratch::new();
    for name in ["two words", "it's \"quoted\"", "$(touch x) `touch y`", "a%a\\b;&|", "ünï"] {
        scratch.write(Path::new(name).join("sweep.yaml"), TWELVE);
        scratch.write(Path::new(name).join("train.sh"), "pwd >> ends\n");
        let output = submit(&scratch, &["--budget", "2"])
            .current_dir(scratch.path(name))
            .output()
            .expect("it runs");
        expect_code(&output, 0);
        assert_eq!(scratch.read(Path::new(name).join("ends")).lines().count(), 2, "{name}");
        for made in ["x", "y"] {
            assert!(!scratch.path(name).join(made).exists(), "{name}");
        }
    }
}

#[test]
fn metrics_are_read_from_the_file_and_from_stdout() {
    let file = project("echo \"{\\\"loss\\\": 0.$SWEEPCTL_SLOT}\" >> $SWEEPCTL_METRICS\n");
    expect_code(&submit(&file, &["--budget", "3"]).output().expect("it runs"), 0);
    let best = &status(&file)["best"];
    assert_eq!((&best["value"], &best["slot"]), (&Value::from(0.0), &Value::from(0)));
    let stdout = project("echo loss=0.$((9 - SWEEPCTL_SLOT))\n");
    let output = submit(&stdout, &["--budget", "3", "--metrics", "stdout"]).output();
    expect_code(&output.expect("it runs"), 0);
    assert_eq!(status(&stdout)["best"]["slot"], 2);
    assert_eq!(status(&stdout)["best"]["config"]["x"], 2);
}

#[test]
fn a_secret_of_the_shell_is_written_nowhere() {
    let scratch = project("env > env.$SWEEPCTL_SLOT\n");
    let output = submit(&scratch, &["--budget", "2"])
        .env("WANDB_API_KEY", "canary")
        .env("ZIP_PASSPHRASE", "canary")
        .env("HARMLESS", "seen")
        .output()
        .expect("it runs");
    expect_code(&output, 0);
    let err = text(&output.stderr);
    let warnings: Vec<&str> =
        err.lines().filter(|line| line.starts_with("warning: jobs do not get")).collect();
    assert_eq!(warnings.len(), 1, "{err}");
    assert!(warnings[0].contains("`WANDB_API_KEY`, `ZIP_PASSPHRASE`"), "{err}");
    assert!(!warnings[0].contains("HARMLESS") && !err.contains("canary"), "{err}");
    let mut folders = vec![scratch.path(".sweepctl")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name() != Some(OsStr::new("sweepctl")) {
                let text = text(&fs::read(&path).expect("readable"));
                assert!(!text.contains("canary"), "{}", path.display());
            }
        }
    }
    assert!(scratch.read("env.0").contains("HARMLESS=seen"));
}

#[test]
fn a_command_can_read_a_secret_from_a_file_as_the_readme_has_it() {
    let readme = fs::read_to_string(support::repository().join("README.md")).expect("README.md");
    let command = readme.lines().find(|line| line.contains("command: [sh, -c, ")).expect("shown");
    let command = command.trim().replace("python train.py", "sh train.sh");
    let scratch = project("echo $HF_TOKEN $* >> seen\n");
    let file = TWELVE.replace("command: [sh, \"${program}\", \"${args}\"]", &command);
    assert_ne!(file, TWELVE);
    scratch.write("sweep.yaml", &file);
    scratch.write("../home/.secrets", "export HF_TOKEN=from-the-file\n");
    let output = submit(&scratch, &["--budget", "1"]).env("HF_TOKEN", "of-the-shell").output();
    expect_code(&output.expect("it runs"), 0);
    assert_eq!(scratch.read("seen"), "from-the-file --x=0\n");
}

#[test]
fn a_program_sees_what_wandb_needs() {
    let scratch = project("env > env.$SWEEPCTL_SLOT\ncat $WANDB_SWEEP_PARAM_PATH > params\n");
    expect_code(&submit(&scratch, &["--budget", "1"]).output().expect("it runs"), 0);
    let env = scratch.read("env.0");
    let value = |name: &str| {
        let start = format!("{name}=");
        let line = env.lines().find_map(|line| line.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no {name} in\n{env}")).to_owned()
    };
    assert_eq!(value("WANDB_RUN_ID"), status(&scratch)["runs"][0]["run"].as_str().expect("text"));
    assert_eq!(value("WANDB_SWEEP_ID").len(), 8);
    assert_eq!(value("WANDB_MODE"), "offline");
    assert!(value("WANDB_SWEEP_PARAM_PATH").ends_with("config.yaml"));
    assert!(scratch.read("params").contains("x:"));
}

#[test]
fn a_reader_that_leaves_early_ends_nothing() {
    let scratch = project("echo $SWEEPCTL_SLOT >> ends\n");
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = submit(&scratch, &[])
        .stdout(writer.try_clone().expect("a copy"))
        .stderr(writer)
        .status()
        .expect("it runs");
    assert_eq!(status.code(), Some(0));
    assert_eq!(lines(&scratch, "ends"), all());
}

#[test]
fn neither_a_home_nor_the_folder_needs_to_be_writable_if_the_state_is_elsewhere() {
    let scratch = project("true\n");
    let state = scratch.path("state");
    fs::create_dir(&state).expect("a folder");
    let output = submit(&scratch, &["--budget", "2", "--state-dir", "state"])
        .env("HOME", "/proc/nowhere")
        .output()
        .expect("it runs");
    expect_code(&output, 0);
    assert!(!scratch.path(".sweepctl").exists());
}

#[test]
fn a_watcher_in_a_group_of_its_own_hears_hangup_too() {
    let scratch = project(GATED);
    let mut command = submit(&scratch, &["--parallel", "2"]);
    command.process_group(0);
    let child = start(command);
    wait_until("two runs at the gate", LONG, || lines(&scratch, "starts").len() >= 4);
    signal(&child, Signal::HUP);
    expect_code(&child.wait_with_output().expect("it ends"), 130);
    assert_eq!(processes_in(&scratch.path("")), Vec::<String>::new());
}

#[test]
fn cancel_ends_what_a_killed_watcher_left_running() {
    let scratch = project(GATED);
    let mut child = at_the_gate(&scratch, &["--parallel", "2"]);
    signal(&child, Signal::KILL);
    child.wait().expect("ours");
    assert!(!processes_in(&scratch.path("")).is_empty());
    expect_code(&call(&scratch, &["cancel"]), 0);
    wait_until("the end of all", LONG, || processes_in(&scratch.path("")).is_empty());
    expect_code(&call(&scratch, &["watch"]), 6);
    assert_eq!(status(&scratch)["state"], "cancelled");
    assert_eq!(lines(&scratch, "starts").len(), 4);
}

#[test]
fn stop_ends_a_sweep_that_nobody_watches() {
    let scratch = project(GATED);
    let child = at_the_gate(&scratch, &["--parallel", "2"]);
    signal(&child, Signal::INT);
    expect_code(&child.wait_with_output().expect("it ends"), 130);
    expect_code(&call(&scratch, &["stop"]), 0);
    expect_code(&call(&scratch, &["watch"]), 6);
    assert_eq!(status(&scratch)["state"], "cancelled");
    assert_eq!(lines(&scratch, "starts").len(), 4);

    open_gate(&scratch);
    expect_code(&call(&scratch, &["resume"]), 0);
    expect_code(&call(&scratch, &["watch"]), 0);
    assert_eq!(lines(&scratch, "ends"), all(), "a stop can be taken back");
}

#[test]
fn a_first_run_that_fails_is_tried_again_once_another_has_finished() {
    let scratch = project("echo $SWEEPCTL_SLOT >> starts\n[ $SWEEPCTL_SLOT != 0 ] || exit 3\n");
    let output = submit(&scratch, &["--parallel", "1"]).output().expect("it runs");
    expect_code(&output, 6);
    let seen = status(&scratch);
    assert_eq!((&seen["finished"], &seen["failed"]), (&11.into(), &1.into()));
    assert_eq!(lines(&scratch, "starts").len(), 13, "the first start only showed that it fails");
}

#[test]
fn runs_that_never_started_are_not_given_up_however_often_watching_ends() {
    let scratch = project(GATED);
    let many = TWELVE.replace("11]", &numbers_from_11_to(199));
    scratch.write("sweep.yaml", &many);
    // As many at a time as there are cores: the last slots wait in the first array.
    let mut watcher = start(submit(&scratch, &["--max-attempts", "9"]));
    for round in 0..=4 {
        wait_until("an array with slot 199", LONG, || {
            let log = scratch.path(".sweepctl/sweeps/sweep/log");
            let carried = format!("[199,{round}]");
            let has = |path| fs::read_to_string(path).unwrap_or_default().contains(&carried);
            fs::read_dir(log).into_iter().flatten().flatten().any(|entry| has(entry.path()))
        });
        signal(&watcher, Signal::INT);
        expect_code(&watcher.wait_with_output().expect("it ends"), 130);
        let mut watch = scratch.sweepctl();
        watch.arg("watch");
        watcher = start(watch);
    }
    signal(&watcher, Signal::KILL);
    watcher.wait().expect("ours");
    expect_code(&call(&scratch, &["cancel"]), 0);
    wait_until("the end of all", LONG, || processes_in(&scratch.path("")).is_empty());
    assert_eq!(status(&scratch)["given_up"], 0);
}

fn numbers_from_11_to(last: u32) -> String {
    let numbers: Vec<String> = (11..=last).map(|number| number.to_string()).collect();
    format!("{}]", numbers.join(", "))
}

#[test]
fn runs_side_by_side_share_out_the_gpus() {
    let scratch = project("echo $CUDA_VISIBLE_DEVICES >> gpus\n");
    let mut command = submit(&scratch, &["--parallel", "2"]);
    let output = command.env("CUDA_VISIBLE_DEVICES", "4,7").output().expect("it runs");
    expect_code(&output, 0);
    let seen = fs::read_to_string(scratch.path("gpus")).expect("what the runs saw");
    let (four, seven) = seen.lines().partition::<Vec<_>, _>(|line| *line == "4");
    assert_eq!(four.len() + seven.len(), 12);
    assert!(
        !four.is_empty() && !seven.is_empty() && seven.iter().all(|line| *line == "7"),
        "{seen}"
    );
}

fn watch(scratch: &Scratch) -> Child {
    let mut watch = scratch.sweepctl();
    watch.arg("watch");
    start(watch)
}

/// Kills it if that takes too long; until what this answers is dropped.
fn patience_with(child: &Child) -> std::sync::mpsc::Sender<()> {
    use std::sync::mpsc::{RecvTimeoutError, channel};
    let pid = Pid::from_child(child);
    let (patience, dropped) = channel();
    std::thread::spawn(move || {
        if dropped.recv_timeout(LONG) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    patience
}

/// Reads what it writes to stderr until that is there; answers all of it.
fn wait_for_words(child: &mut Child, words: &str) -> String {
    let _patience = patience_with(child);
    let mut seen = String::new();
    let stderr = child.stderr.as_mut().expect("piped");
    let mut byte = [0];
    while !seen.contains(words) && stderr.read(&mut byte).expect("readable") == 1 {
        seen.push(char::from(byte[0]));
    }
    assert!(seen.contains(words), "no `{words}` in:\n{seen}");
    seen
}

#[test]
fn a_second_watcher_looks_on_and_takes_over_from_one_that_was_killed() {
    let scratch = project(GATED);
    let mut first = at_the_gate(&scratch, &["--parallel", "2"]);
    let mut second = watch(&scratch);
    wait_for_words(&mut second, &format!("process {} on", first.id()));
    wait_for_words(&mut second, "2 of 12 runs finished, 2 running");
    signal(&first, Signal::KILL);
    wait_for_words(&mut second, "has gone: this one takes over");
    open_gate(&scratch);
    expect_code(&second.wait_with_output().expect("it ends"), 0);
    first.wait().expect("ours");
    assert_eq!(lines(&scratch, "starts"), all(), "each once");
    assert!(!scratch.path(".sweepctl/sweeps/sweep/lock").exists());
}

#[test]
fn who_looks_on_may_leave_and_commands_reach_both() {
    let scratch = project(GATED);
    let first = at_the_gate(&scratch, &["--parallel", "2"]);
    let words = format!("process {} on", first.id());
    let mut leaves = watch(&scratch);
    wait_for_words(&mut leaves, &words);
    signal(&leaves, Signal::INT);
    let err = wait_for_words(&mut leaves, "goes on watching");
    assert!(err.contains(&words), "{err}");
    expect_code(&leaves.wait_with_output().expect("it ends"), 130);
    let mut second = watch(&scratch);
    wait_for_words(&mut second, &words);
    expect_code(&call(&scratch, &["tick"]), 0);
    expect_code(&call(&scratch, &["pause"]), 0);
    expect_code(&call(&scratch, &["resume"]), 0);
    let another = submit(&scratch, &["--new", "--budget", "2"]).output();
    expect_code(&another.expect("it runs"), 0);
    assert_eq!(lines(&scratch, "starts").len(), 6);
    expect_code(&call(&scratch, &["cancel", "sweep"]), 0);
    for watcher in [first, second] {
        expect_code(&watcher.wait_with_output().expect("it ends"), 6);
    }
    assert_eq!(status(&scratch)["state"], "cancelled");
    assert_eq!(processes_in(&scratch.path("")), Vec::<String>::new());
}

/// Runs it on a terminal of 80 columns and types Ctrl-C once it shows these words; answers all that went there.
fn on_a_terminal(scratch: &Scratch, args: &str, words: &str) -> String {
    use std::io::Write as _;
    let model = scratch.sweepctl();
    let mut command = Command::new("script");
    for (name, value) in model.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let line = format!("stty cols 80; exec {} {args}", env!("CARGO_BIN_EXE_sweepctl"));
    command.args(["-qec", &line, "/dev/null"]).current_dir(scratch.path(""));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script of util-linux is on every system");
    let _patience = patience_with(&child);
    let mut shown = Vec::new();
    let mut byte = [0];
    let stdout = child.stdout.as_mut().expect("piped");
    while stdout.read(&mut byte).expect("readable") == 1 {
        shown.push(byte[0]);
        if shown.ends_with(words.as_bytes()) {
            let stdin = child.stdin.as_mut().expect("piped");
            stdin.write_all(b"\x03").expect("it reads");
        }
    }
    child.wait().expect("ours");
    text(&shown)
}

#[test]
fn after_ctrl_c_nothing_is_left_of_the_bar_and_one_line_says_how_to_come_back() {
    let scratch = project(GATED);
    let shown = on_a_terminal(&scratch, "submit sweep.yaml --local --parallel 2", "2 running");
    let (before, after) = shown.split_once("^C").expect("the terminal's echo");
    // The echo must stand in the bar's line, which is then cleared.
    let line = before.rsplit(['\r', '\n']).next().unwrap_or_default();
    let line = line.replace("\u{1b}[2K", "");
    assert!(line.contains("2/12: 2 running"), "{line}");
    assert!(line.chars().count() + 2 <= 80, "{line}");
    let lines: Vec<&str> = after.lines().map(|line| line.trim_end_matches('\r')).collect();
    assert_eq!(lines.len(), 1, "{after}");
    let (_, last) = lines[0].rsplit_once("\r\u{1b}[2K").expect("the line is cleared");
    assert_eq!(
        last,
        "ending what runs (Ctrl-C again kills it); then `sweepctl watch sweep` goes on"
    );
}

#[test]
fn plain_lines_say_how_long_it_will_take_but_not_again_and_again() {
    let scratch = project(GATED);
    let mut command = submit(&scratch, &["--parallel", "2"]);
    command.env("NO_COLOR", "1");
    let mut child = start(command);
    // Two have finished, and two run until the gate opens.
    let mut err = wait_for_words(&mut child, " s left");
    open_gate(&scratch);
    let output = child.wait_with_output().expect("it ends");
    expect_code(&output, 0);
    err += &text(&output.stderr);
    assert!(!err.contains('\u{1b}'), "{err}");
    let progress = |line: &str| line.split("; about").next().unwrap_or_default().to_owned();
    let lines: Vec<String> =
        err.lines().filter(|line| line.contains("runs finished")).map(progress).collect();
    assert!(lines.len() > 1 && lines.windows(2).all(|pair| pair[0] != pair[1]), "{err}");
    let told = err.lines().filter(|line| line.contains(" running") && line.contains(" s left"));
    assert!(told.count() > 0, "{err}");
}

// As users have it: `scripts/test` runs this without the feature too.
#[cfg(not(feature = "abort-hook"))]
#[test]
fn a_build_without_the_hooks_of_tests_knows_nothing_of_their_variables() {
    let scratch = project("env | grep ABORT >>hooks; :");
    let mut submit = submit(&scratch, &[]);
    let hooks = [("SWEEPCTL_ABORT_AT", "1"), ("SWEEPCTL_ABORT_TASK", "0 1 every")];
    submit.envs(hooks).env("SWEEPCTL_TRACES", scratch.path("")).env("SWEEPCTL_SPANS", "0");
    expect_code(&submit.output().expect("it runs"), 0);
    assert_eq!(scratch.read("hooks"), "");
    assert!(!scratch.path(".sweepctl/sweeps/sweep/trace").exists());
}
