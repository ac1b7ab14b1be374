//! What the command line answers before anything runs.

mod support;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::{Scratch, expect_code, skip};

const SWEEP: &str = "\
program: train.sh
command: [sh, \"${program}\", \"${args}\"]
method: grid
parameters:
  x: {values: [0, 1, 2]}
";

fn project() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("sweep.yaml", SWEEP);
    scratch.write("train.sh", "true\n");
    scratch
}

fn call(scratch: &Scratch, args: &[&str]) -> Output {
    scratch.sweepctl().args(args).output().expect("it runs")
}

/// Lets a command run as a user whom folders can refuse, if we are root: whom none refuses.
fn as_plain_user(scratch: &Scratch, command: &mut Command) {
    if rustix::process::geteuid().is_root() {
        let root = scratch.path("..");
        fs::set_permissions(root, fs::Permissions::from_mode(0o755)).expect("ours");
        command.uid(65_534).gid(65_534);
    }
}

/// By `cp`: a copy that we write is open for writing in what other threads start, and cannot be run.
fn copy_binary(to: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_sweepctl")).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

/// The program where any user can reach it.
fn reachable(scratch: &Scratch) -> Command {
    let copy = scratch.path("../sweepctl");
    copy_binary(&copy);
    let mut command = Command::new(copy);
    let model = scratch.sweepctl();
    for (name, value) in model.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(scratch.path("")).stdin(Stdio::null());
    as_plain_user(scratch, &mut command);
    command
}

fn check(program: &str, args: &[&str], script: &str) {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        skip::<()>(&format!("`{program}` is not installed"));
        return;
    };
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(script.as_bytes()).expect("it reads");
    drop(stdin);
    expect_code(&child.wait_with_output().expect("it ends"), 0);
}

#[test]
fn a_dry_run_prints_a_clean_script_and_writes_nothing() {
    let scratch = project();
    fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o555)).expect("ours");
    let output = reachable(&scratch)
        .args(["submit", "sweep.yaml", "--dry-run", "-p", "gpu", "--module", "cuda/12"])
        .args(["--setup", "cd \"$TMPDIR\"\nulimit -n 99", "--teardown", "rm -r \"$TMPDIR\""])
        .args(["--agents", "task", "-n4", "--", "--comment=it's $(x)"])
        .output();
    let (script, _) = expect_code(&output.expect("it runs"), 0);
    fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).expect("ours");
    assert!(!scratch.path(".sweepctl").exists());
    assert!(script.starts_with("#!/bin/bash\n") && script.ends_with('\n'), "{script}");
    assert!(script.contains("\n#SBATCH --partition=gpu\n"), "{script}");
    check("bash", &["-n"], &script);
    check("shellcheck", &["-"], &script);
}

#[test]
fn sbatch_variables_become_options_unless_a_flag_says_otherwise() {
    let scratch = project();
    let output = scratch
        .sweepctl()
        .args(["submit", "sweep.yaml", "--dry-run", "-p", "gpu", "--", "-qhigh"])
        .envs([
            ("SBATCH_ACCOUNT", "lab"),
            ("SBATCH_PARTITION", "cpu"),
            ("SBATCH_QOS", "low"),
            ("SBATCH_TIMELIMIT", "1:00:00"),
            ("SBATCH_CONSTRAINT", "a100|h100"),
            ("SBATCH_GPUS", "1"),
            ("SBATCH_GPUS_PER_NODE", "1"),
            ("SBATCH_MEM_PER_NODE", "4G"),
            ("SBATCH_RESERVATION", "course"),
            ("SBATCH_EXCLUSIVE", "1"),
            ("SBATCH_ARRAY_INX", "0-9"),
            ("SBATCH_MADE_UP", "1"),
        ])
        .output();
    let (script, err) = expect_code(&output.expect("it runs"), 0);
    let options: Vec<&str> =
        script.lines().filter_map(|line| line.strip_prefix("#SBATCH ")).skip(4).collect();
    assert_eq!(
        options,
        [
            "--account=lab",
            "\"--constraint=a100|h100\"",
            "--exclusive",
            "--gpus=1",
            "--gpus-per-node=1",
            "--mem=4G",
            "--reservation=course",
            "--time=1:00:00",
            "--partition=gpu",
            "--qos=high",
        ]
    );
    let warning = err.lines().find(|line| line.starts_with("warning:")).expect("a warning");
    assert!(warning.contains("`SBATCH_ARRAY_INX`, `SBATCH_MADE_UP`"), "{warning}");
    assert!(!warning.contains("ACCOUNT"), "{warning}");
}

#[test]
fn options_of_sbatch_are_taken_in_its_own_spellings_and_in_order() {
    let scratch = project();
    let args = "submit sweep.yaml --dry-run -t10 --nodes 2 --exclusive --exclusive=user -O --tasks-per-node=4 \
                --mail-type END -C a&b -- --nice -x n1 --new-thing=1 --new-thing=2";
    let output = call(&scratch, &args.split_whitespace().collect::<Vec<_>>());
    let (script, _) = expect_code(&output, 0);
    let options: Vec<&str> =
        script.lines().filter_map(|line| line.strip_prefix("#SBATCH ")).skip(4).collect();
    assert_eq!(
        options,
        [
            "--time=10",
            "--nodes=2",
            "--exclusive",
            "--exclusive=user",
            "--overcommit",
            "--ntasks-per-node=4",
            "--mail-type=END",
            "\"--constraint=a&b\"",
            "--nice",
            "--exclude=n1",
            "--new-thing=1",
            "--new-thing=2",
        ]
    );
}

#[test]
fn options_that_would_break_the_sweep_are_refused_before_and_after_the_hyphens() {
    let scratch = project();
    let table = [
        ("--array=0-3", "`--array` cannot be used with a sweep: the budget decides"),
        ("-J x", "`--job-name` cannot be used with a sweep: see --name"),
        ("-- -a0-3", "after `--`: sbatch's `--array`"),
        ("-- --dependency=singleton", "see --parallel 1"),
        ("-- --requeue", "it is on unless --no-requeue is given"),
        ("-- gpu", "`gpu` is not an option of sbatch"),
        ("-- --time", "`--time` needs a value"),
    ];
    for (more, want) in table {
        let args: Vec<&str> = ["submit", "sweep.yaml", "--dry-run"]
            .into_iter()
            .chain(more.split_whitespace())
            .collect();
        let (_, err) = expect_code(&call(&scratch, &args), 2);
        assert!(err.contains(want), "{more}: {err}");
    }
}

#[test]
fn the_plan_says_what_the_sweep_may_cost_and_a_limit_refuses_it() {
    let scratch = project();
    let plan = |more: &str, code: i32| {
        let args = format!("submit sweep.yaml --dry-run {more}");
        let output = call(&scratch, &args.split_whitespace().collect::<Vec<_>>());
        expect_code(&output, code).1
    };
    let table = [
        ("-t 10", "3 jobs, each with 1 rank, 1 agent; no GPUs"),
        (
            "-t 2:00:00 -N2 --gpus-per-node=8",
            "3 jobs, each with 2 nodes, 2 ranks, 16 GPUs, 1 agent; at most 96 GPU hours",
        ),
        ("--gpus=1", "3 jobs, each with 1 rank, 1 GPU, 1 agent; GPU hours unknown: no time limit"),
        (
            "-t 1:00:00 --gpus=1 --runs-per-job 2",
            "2 jobs, each with up to 2 runs, 1 rank, 1 GPU, 1 agent; at most 2 GPU hours",
        ),
        ("-t 1:00:00 --gpus=1 --max-gpu-hours 3", "at most 3 GPU hours"),
    ];
    for (more, want) in table {
        let err = plan(more, 0);
        assert!(err.contains(want), "{more}: {err}");
    }
    let err = plan("-t 1:00:00 --gpus=1 --max-gpu-hours 2.5", 3);
    assert!(err.contains("may take 3 GPU hours, more than --max-gpu-hours 2.5"), "{err}");
    let err = plan("-t 1:00:00 --exclusive --gpus-per-node=1 --max-gpu-hours 99", 3);
    assert!(err.contains("cannot tell how many GPUs a job gets"), "{err}");
    let err = plan("-t 10 -n3 --gpus-per-node=4 --agents task", 0);
    assert!(err.contains("4 GPUs cannot be shared out among 3 agents"), "{err}");
    let err = plan("--gpus=1 --max-gpu-hours 2.5", 3);
    assert!(err.contains("needs a time limit"), "{err}");
    let err = plan("-t 10 --gres=gpu:1 --gpus-per-node=1", 3);
    assert!(
        err.contains("error: `--gres=gpu:1` and `--gpus-per-node=1` both ask for GPUs"),
        "{err}"
    );
    let err = plan("-t 10 -n 8", 0);
    assert!(
        err.contains("warning: each job asks for 8 ranks, and nothing starts the program on them"),
        "{err}"
    );
}

#[test]
fn render_prints_the_script_and_the_first_commands_without_slurm() {
    let scratch = project();
    scratch.write(
        "random.yaml",
        "program: a b.py\nmethod: random\nrun_cap: 9\nparameters: {x: {min: 0.0, max: 1.0}, o: {value: 'a b'}}\n",
    );
    let mut command = scratch.sweepctl();
    command.args(["render", "random.yaml", "--seed", "7", "-t", "10"]).env("PATH", "/nowhere");
    let (script, err) = expect_code(&command.output().expect("it runs"), 0);
    assert!(script.starts_with("#!/bin/bash\n#SBATCH --job-name=\"random-<nonce>\"\n"), "{script}");
    let (_, commands) = err.split_once("its first runs:\n").expect("commands");
    let mut lines = commands.lines();
    let first = lines.next().unwrap_or_default();
    assert!(first.starts_with("  /usr/bin/env python 'a b.py' '--o=a b' --x=0."), "{err}");
    assert_eq!(commands.lines().filter(|line| line.starts_with("  /usr/bin/env")).count(), 3);
    assert!(!scratch.path(".sweepctl").exists());

    let dry = call(&scratch, &["submit", "random.yaml", "--seed", "7", "-t", "10", "--dry-run"]);
    assert_eq!(expect_code(&dry, 0), (script, err));
}

#[test]
fn render_opens_no_socket() {
    let scratch = project();
    if Command::new("strace").arg("-V").output().is_err() {
        skip::<()>("strace is not installed");
        return;
    }
    let mut command = Command::new("strace");
    let trace = scratch.path("trace");
    command.args(["-f", "-e", "trace=socket,connect,sendto", "-o"]).arg(&trace);
    command.arg(env!("CARGO_BIN_EXE_sweepctl")).args(["render", "sweep.yaml", "-t", "10"]);
    expect_code(&command.current_dir(scratch.path("")).output().expect("it runs"), 0);
    let calls = scratch.read("trace");
    assert!(calls.contains("exited with 0") && !calls.contains("socket("), "{calls}");
}

#[test]
fn the_script_that_is_submitted_differs_from_the_dry_run_in_the_nonce_alone() {
    let scratch = project();
    let args = ["submit", "sweep.yaml", "--local", "-t", "10", "--comment=it's $(x) & more"];
    let (planned, _) = expect_code(&call(&scratch, &[&args[..], &["--dry-run"]].concat()), 0);
    expect_code(&call(&scratch, &args), 0);
    let script = scratch.read(".sweepctl/sweeps/sweep/arrays/0/script.sbatch");
    let name = script.lines().find_map(|line| line.strip_prefix("#SBATCH --job-name=")).unwrap();
    let nonce = name.strip_prefix("sweep-").unwrap();
    assert_eq!(planned.replace("\"sweep-<nonce>\"", name), script);
    assert_eq!(nonce.len(), 10);
}

#[test]
fn what_is_likely_to_go_wrong_in_the_environment_is_said() {
    let scratch = project();
    let plan = |name: &str, value: &str, more: &[&str]| {
        let mut command = scratch.sweepctl();
        command.args(["submit", "sweep.yaml", "--dry-run", "-t", "10"]).args(more).env(name, value);
        expect_code(&command.output().expect("it runs"), 0).1
    };
    let err = plan("WANBD__SERVICE_WAIT", "300", &[]);
    assert!(err.contains("did you mean WANDB__SERVICE_WAIT?"), "{err}");
    let err = plan("CUDA_VISIBLE_DEVICES", "0", &[]);
    assert!(err.contains("warning: CUDA_VISIBLE_DEVICES is set in this shell"), "{err}");
    let err = plan("X", "", &["--export", "CUDA_VISIBLE_DEVICES=1"]);
    assert!(err.contains("warning: CUDA_VISIBLE_DEVICES is set in a set-up line"), "{err}");
    assert!(!plan("X", "", &[]).contains("warning"), "{err}");
}

#[test]
fn a_template_is_listed_shown_written_out_checked_and_used() {
    let scratch = project();
    let (list, _) = expect_code(&call(&scratch, &["template", "list"]), 0);
    assert!(list.starts_with("array  "), "{list}");
    let (shown, _) = expect_code(&call(&scratch, &["template", "show"]), 0);
    let (_, err) = expect_code(&call(&scratch, &["template", "show", "other"]), 2);
    assert!(err.contains("there is no template `other`"), "{err}");
    expect_code(&call(&scratch, &["template", "eject"]), 0);
    let text = scratch.read("sweepctl.sbatch.hbs");
    assert_eq!(text, shown);
    let (_, err) = expect_code(&call(&scratch, &["template", "eject"]), 1);
    assert!(err.contains("sweepctl.sbatch.hbs: ") && err.contains("--to"), "{err}");
    expect_code(&call(&scratch, &["template", "eject", "--to", "other.hbs"]), 0);

    scratch.write("mine.hbs", &text.replace("shopt -s execfail", "echo mine\nshopt -s execfail"));
    let (out, _) = expect_code(&call(&scratch, &["template", "check", "mine.hbs"]), 0);
    assert_eq!(out, "mine.hbs: usable\n");
    let args = ["submit", "sweep.yaml", "--local", "--template", "mine.hbs"];
    let (script, _) = expect_code(&call(&scratch, &[&args[..], &["--dry-run"]].concat()), 0);
    assert!(script.contains("\necho mine\n"), "{script}");
    expect_code(&call(&scratch, &args), 0);
    let log = scratch.read(".sweepctl/sweeps/sweep/arrays/0/logs/0.log");
    assert!(log.starts_with("mine\n"), "{log}");

    scratch.write(
        "bad.hbs",
        &text.replace("#SBATCH --open-mode=append\n", "").replace("--count {{count}}", ""),
    );
    for args in [
        &["template", "check", "bad.hbs"][..],
        &["submit", "sweep.yaml", "--local", "--template", "bad.hbs"],
    ] {
        let (_, err) = expect_code(&call(&scratch, args), 3);
        assert!(err.contains("error: bad.hbs: `#SBATCH --open-mode=append` is missing"), "{err}");
        assert!(err.contains("error: bad.hbs: the working line is missing"), "{err}");
    }
    scratch.write("bad.hbs", &text.replace("{{sh sweep}}", "{{sh sweeep}}"));
    let (_, err) = expect_code(&call(&scratch, &["template", "check", "bad.hbs"]), 3);
    let line = text.lines().position(|line| line.contains("{{sh sweep}}")).unwrap() + 1;
    assert!(err.contains(&format!("error: bad.hbs: line {line}, column ")), "{err}");
    assert!(err.contains("there is no `sweeep`"), "{err}");
    let (_, err) = expect_code(&call(&scratch, &["template", "check", "none.hbs"]), 3);
    assert!(err.contains("none.hbs: No such file"), "{err}");
}

#[test]
fn detached_and_local_exclude_each_other() {
    let (_, err) =
        expect_code(&call(&project(), &["submit", "sweep.yaml", "--detach", "--local"]), 2);
    assert!(err.contains("--detach") && err.contains("--local"), "{err}");
}

#[test]
fn a_fault_in_the_sweep_file_has_a_place() {
    let scratch = project();
    scratch.write("bad.yaml", "program: train.sh\nmethod: grid\nparameters:\n  x: {valeus: [1]}\n");
    let (_, err) = expect_code(&call(&scratch, &["submit", "bad.yaml", "--local"]), 3);
    assert!(err.contains("bad.yaml:4:"), "{err}");
    assert!(err.contains("valeus"), "{err}");
    assert!(!scratch.path(".sweepctl").exists());
    let (_, err) = expect_code(&call(&scratch, &["submit", "none.yaml", "--local"]), 3);
    assert!(err.contains("none.yaml"), "{err}");
}

#[test]
fn without_a_sweep_here_the_help_says_where_to_go() {
    let scratch = Scratch::new();
    for command in ["status", "watch", "tick", "pause", "resume", "stop", "cancel", "agent"] {
        let (out, err) = expect_code(&call(&scratch, &[command]), 2);
        assert!(out.is_empty(), "{out}");
        assert!(err.contains("error: no sweep here") && err.contains("help: "), "{err}");
    }
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let scratch = project();
    expect_code(&call(&scratch, &["submit", "sweep.yaml", "--local"]), 0);
    let (_, err) = expect_code(&call(&scratch, &["status", "nosuch"]), 2);
    assert!(err.contains("`nosuch`") && err.contains("`sweep`"), "{err}");
}

#[test]
fn the_json_of_status_has_its_shape() {
    let scratch = project();
    expect_code(&call(&scratch, &["submit", "sweep.yaml", "--local"]), 0);
    let (out, _) = expect_code(&call(&scratch, &["status", "--json"]), 0);
    let all: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(all["schema_version"], 1);
    let sweep = all["sweeps"][0].as_object().expect("an object");
    let keys: Vec<&str> = sweep.keys().map(String::as_str).filter(|key| *key != "why").collect();
    assert_eq!(
        keys,
        [
            "name",
            "state",
            "controller",
            "path",
            "budget",
            "finished",
            "running",
            "pending",
            "failed",
            "given_up",
            "best",
            "runs",
            "queue",
            "seconds_left"
        ]
    );
    assert_eq!((&sweep["finished"], &sweep["best"]), (&3.into(), &serde_json::Value::Null));
    assert_eq!(sweep["runs"][2]["config"]["x"], 2);
}

#[test]
fn output_into_a_closed_pipe_is_no_panic() {
    let scratch = project();
    expect_code(&call(&scratch, &["submit", "sweep.yaml", "--local"]), 0);
    for args in [
        &["status", "--json"][..],
        &["status"],
        &["--help"],
        &["submit", "sweep.yaml", "--dry-run"],
        &["tick"],
        &["watch"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = scratch.sweepctl().args(args).stdout(writer).output().expect("it runs");
        expect_code(&output, 0);
    }
}

#[test]
fn a_state_folder_that_cannot_be_written_is_named() {
    let scratch = project();
    let mut command = reachable(&scratch);
    command.args(["submit", "sweep.yaml", "--local"]);
    fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o555)).expect("ours");
    let (_, err) = expect_code(&command.output().expect("it runs"), 1);
    fs::set_permissions(scratch.path(""), fs::Permissions::from_mode(0o755)).expect("ours");
    assert!(err.contains("cannot write") && err.contains("/.sweepctl: "), "{err}");
    assert!(err.contains("help: ") && err.contains("--state-dir"), "{err}");
}

#[test]
fn the_binary_runs_in_an_empty_root() {
    if !rustix::process::geteuid().is_root() {
        skip::<()>("chroot needs root");
        return;
    }
    let scratch = Scratch::new();
    copy_binary(&scratch.path("sweepctl"));
    let output =
        Command::new("chroot").arg(scratch.path("")).args(["/sweepctl", "--version"]).output();
    let (out, _) = expect_code(&output.expect("chroot runs"), 0);
    assert_eq!(out, concat!("sweepctl ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn a_sweep_that_cannot_be_read_is_named_and_hides_no_other() {
    let scratch = project();
    for _ in 0..2 {
        expect_code(&call(&scratch, &["submit", "sweep.yaml", "--local"]), 0);
    }
    scratch.write(".sweepctl/sweeps/sweep/sweep.json", "{");
    let (out, err) = expect_code(&call(&scratch, &["status"]), 0);
    assert!(out.starts_with("sweep-2: 3 of 3 runs finished"), "{out}");
    assert!(
        err.contains("warning: cannot understand") && err.contains("/sweep/sweep.json"),
        "{err}"
    );
    let (_, err) = expect_code(&call(&scratch, &["watch", "sweep"]), 1);
    assert!(err.contains("cannot understand"), "{err}");
}
