//! `sweepctl check` as people and programs see it.

mod support;

use std::io::Write as _;
use std::process::{Output, Stdio};

use serde_json::Value;
use support::Scratch;

const GOOD: &str = "\
program: train.py
method: grid
metric: {name: loss, goal: minimize}
parameters:
  lr: {values: [0.1, 0.01]}
  note: {value: \"it's\"}
";

const BAD: &str = "\
program: train.py
method: Grid
metric: {name: loss, goal: minimise}
paramters: {}
parameters:
  lr: {min: 1.0, max: 0.1}
";

fn check(scratch: &Scratch, args: &[&str]) -> Output {
    let output = scratch.sweepctl().arg("check").args(args).output().expect("it runs");
    assert!(!text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A project with `sweep.yaml` and the program that it names.
fn project(sweep: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("sweep.yaml", sweep);
    scratch.write("train.py", "");
    scratch
}

#[test]
fn a_good_file_is_summed_up_and_nothing_is_complained_of() {
    let output = check(&project(GOOD), &["sweep.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
    insta::assert_snapshot!(text(&output.stdout), @r"
    method      grid
    metric      minimize loss
    parameters  2, 1 of them constant
    grid        2 points
    budget      2 runs (the whole grid)
    first run   /usr/bin/env python train.py --lr=0.1 '--note=it'\''s'
    ");
}

#[test]
fn a_bad_file_is_shown_with_every_place_at_fault() {
    let output = check(&project(BAD), &["sweep.yaml"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stdout), "");
    insta::assert_snapshot!(text(&output.stderr), @r"
    error: sweep.yaml:2:9: there is no method `Grid` [method-unknown]
        2 | method: Grid
          |         ^
          = help: did you mean `grid`?
    error: sweep.yaml:3:28: there is no goal `minimise`, and W&B would minimize without a word [goal-unknown]
        3 | metric: {name: loss, goal: minimise}
          |                            ^
          = help: did you mean `minimize`?
    warning: sweep.yaml:4:1: `paramters` is no key of a sweep; it is ignored [unknown-key]
        4 | paramters: {}
          | ^
          = help: did you mean `parameters`?
    error: sweep.yaml:6:23: `lr`: `min` must be less than `max` [bounds-order]
        6 |   lr: {min: 1.0, max: 0.1}
          |                       ^
          = help: swap them
    error: sweep.yaml cannot be run: 3 errors, 1 warning
    ");
}

#[test]
fn submit_says_the_same_and_starts_nothing() {
    let scratch = project(BAD);
    let checked = text(&check(&scratch, &["sweep.yaml"]).stderr);
    let output = scratch.sweepctl().args(["submit", "--local", "sweep.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stderr), checked);
    assert!(!scratch.path(".sweepctl").exists());
}

#[test]
fn bayes_is_fine_to_check_and_refused_to_the_embedded_controller() {
    let scratch = project(
        "program: train.py\nmethod: bayes\nmetric: {name: loss}\nrun_cap: 3\n\
         parameters: {a: {min: 1, max: 9}}\nearly_terminate: {type: hyperband, min_iter: 3}\n",
    );
    let output = check(&scratch, &["sweep.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("budget      3 runs (run_cap)"));
    let output = scratch.sweepctl().args(["submit", "--local", "sweep.yaml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("error: sweep.yaml:2:9: method `bayes` needs W&B's controller"));
    assert!(stderr.contains("error: sweep.yaml:6:1: `early_terminate` needs W&B's controller"));
    assert!(stderr.contains("= help: the embedded controller does grid and random"));
    assert!(stderr.ends_with("error: sweep.yaml cannot be run: 2 errors\n"), "{stderr}");
}

#[test]
fn json_is_complete_also_where_the_file_cannot_be_run() {
    let output = check(&project(BAD), &["sweep.yaml", "--json"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stderr), "");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "schema_version",
            "loads",
            "parsed",
            "types",
            "client_accepts",
            "valid",
            "faults_at",
            "changed_on_the_way",
            "problems"
        ]
    );
    let problem = &json["problems"][0];
    assert_eq!(problem["severity"], "error");
    assert_eq!(problem["code"], "method-unknown");
    assert_eq!(problem["pointer"], "/method");
    assert_eq!(problem["file"], "sweep.yaml");
    assert_eq!((&problem["line"], &problem["column"]), (&2.into(), &9.into()));
    assert_eq!(problem["help"], "did you mean `grid`?");
    let good = check(&project(GOOD), &["sweep.yaml", "--json"]);
    let json: Value = serde_json::from_slice(&good.stdout).unwrap();
    assert_eq!(json["problems"], serde_json::json!([]));
    assert_eq!(json["grid"]["size"], 2);
    assert_eq!(json["grid"]["first"]["lr"], 0.1);
    assert_eq!(json["grid"]["last"]["lr"], 0.01);
    assert_eq!(json["run"]["argv"][3], "--lr=0.1");
}

#[test]
fn a_file_can_come_from_stdin_and_may_be_missing() {
    let scratch = project("");
    let mut child = scratch
        .sweepctl()
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(BAD.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("error: stdin:2:9: there is no method `Grid`"));
    let output = check(&scratch, &["none.yaml"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).starts_with("error: none.yaml: "));
}

#[test]
fn what_only_wandbs_client_refuses_is_summed_up_like_the_rest() {
    let scratch = project(
        "program: train.py\nmethod: random\nrun_cap: 1\nparameters: {lr: {min: 1e-5, max: 1e-1}}\n",
    );
    let output = check(&scratch, &["sweep.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(text(&output.stdout), @r"
    method      random
    parameters  1, 0 of them constant
    budget      1 run (run_cap)
    such as     /usr/bin/env python train.py --lr=1e-05
    ");
    let json = check(&scratch, &["sweep.yaml", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["client_accepts"], &json["run"]), (&false.into(), &Value::Null));
}

#[test]
fn a_program_that_is_not_here_is_only_a_warning() {
    let scratch = project(&GOOD.replace("train.py", "gone.py"));
    let output = check(&scratch, &["sweep.yaml"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output.stderr).contains(
            "warning: sweep.yaml:1:10: there is no file `gone.py` here [program-not-found]"
        )
    );
}

#[test]
fn a_screen_is_not_flooded() {
    let keys: String = (0..500).map(|n| format!("x{n}: 1\n")).collect();
    let output = check(&project(&format!("{GOOD}{keys}method: 5\n")), &["sweep.yaml"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr.starts_with("error: sweep.yaml:"), "{}", &stderr[..200]);
    assert!(stderr.contains("and 402 more; `sweepctl check --json` shows them all"));
}
