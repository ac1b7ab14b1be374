//! What the command line answers before anything runs.

mod support;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use support::{Scratch, skip};

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

/// Fails unless this is the exit code; answers stdout and stderr.
#[track_caller]
fn expect_code(output: &Output, code: i32) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
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
        .args(["submit", "sweep.yaml", "--dry-run", "-p", "gpu", "--", "--comment=it's $(x)"])
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
            ("SBATCH_GRES", "gpu:1"),
            ("SBATCH_GPUS", "1"),
            ("SBATCH_GPUS_PER_NODE", "1"),
            ("SBATCH_MEM_PER_NODE", "4G"),
            ("SBATCH_RESERVATION", "course"),
            ("SBATCH_EXCLUSIVE", "1"),
            ("SBATCH_ARRAY_INX", "0-9"),
        ])
        .output();
    let (script, err) = expect_code(&output.expect("it runs"), 0);
    let options: Vec<&str> =
        script.lines().filter_map(|line| line.strip_prefix("#SBATCH ")).skip(4).collect();
    assert_eq!(
        options,
        [
            "--partition=gpu",
            "-qhigh",
            "--account=lab",
            "\"--constraint=a100|h100\"",
            "--gpus=1",
            "--gpus-per-node=1",
            "--gres=gpu:1",
            "--mem=4G",
            "--reservation=course",
            "--time=1:00:00",
        ]
    );
    let warning = err.lines().find(|line| line.starts_with("warning:")).expect("a warning");
    assert!(warning.contains("`SBATCH_ARRAY_INX`, `SBATCH_EXCLUSIVE`"), "{warning}");
    assert!(!warning.contains("ACCOUNT"), "{warning}");
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
