//! What people met who run sweeps on SLURM, as collected from their reports: each test carries its number there.
//!
//! Those that need a real SLURM are in tests/slurm.rs, under `rNN_…` too.

#![expect(clippy::unwrap_used, reason = "what helps tests may fail them")]

mod support;

use std::collections::BTreeSet;
use std::process::Output;

use serde_json::Value;
use support::Scratch;

/// A project with this sweep file, whose program `train.sh` is `program`.
fn project(sweep: &str, program: &str) -> Scratch {
    let scratch = Scratch::new();
    scratch.write("sweep.yaml", sweep);
    scratch.write("train.sh", program);
    scratch
}

const HEAD: &str = "program: train.sh\ncommand: [sh, \"${program}\", \"${args}\"]\n";

fn grid(parameters: &str, program: &str) -> Scratch {
    project(&format!("{HEAD}method: grid\nparameters: {parameters}\n"), program)
}

fn call(scratch: &Scratch, args: &str) -> Output {
    scratch.sweepctl().args(args.split_whitespace()).output().unwrap()
}

/// Fails unless this is the exit code; answers stdout and stderr.
#[track_caller]
fn run(scratch: &Scratch, args: &str, code: i32) -> (String, String) {
    let output = call(scratch, args);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{out}\nstderr:\n{err}");
    (out, err)
}

fn status(scratch: &Scratch) -> Value {
    let (out, _) = run(scratch, "status --json", 0);
    let json: Value = serde_json::from_str(&out).unwrap();
    json["sweeps"][0].clone()
}

fn lines(scratch: &Scratch, name: &str) -> Vec<String> {
    scratch.read(name).lines().map(str::to_owned).collect()
}

const LOCAL: &str = "submit sweep.yaml --local";

#[test]
fn r06_a_grid_hands_out_each_combination_once() {
    let axis = "{values: [0, 1, 2, 3, 4]}";
    let scratch = grid(&format!("{{a: {axis}, b: {axis}}}"), "echo \"$@\" >> seen");
    run(&scratch, &format!("{LOCAL} --warmup 0"), 0);
    let seen = lines(&scratch, "seen");
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (25, 25));
    let (_, err) = run(&scratch, "agent", 0);
    assert!(err.contains("nothing left to take"), "{err}");
}

#[test]
fn r07_the_size_of_a_large_grid_is_the_budget() {
    let parameters = "{a: {min: 1, max: 21}, b: {min: 1, max: 31}, c: {min: 1, max: 20}}";
    let scratch = grid(parameters, ":");
    let (_, err) = run(&scratch, "submit sweep.yaml --dry-run", 0);
    assert!(err.contains("sweep: 13020 runs (the whole grid)"), "{err}");
    assert!(err.contains("\n13020 jobs, each with"), "{err}");
}

#[test]
fn r11_forks_of_a_program_make_no_further_run() {
    let scratch = grid(
        "{x: {values: [0, 1]}}",
        "for i in 1 2 3 4; do (sleep 0.1) & done; wait; echo run >> seen",
    );
    run(&scratch, &format!("{LOCAL} --runs-per-job 2"), 0);
    assert_eq!(lines(&scratch, "seen").len(), 2);
    assert_eq!(status(&scratch)["finished"], 2);
}

#[test]
fn r31_what_a_program_leaves_behind_ends_with_its_job() {
    let scratch = grid("{x: {value: 0}}", "(trap '' TERM; exec sleep 3600) & echo $! > left");
    run(&scratch, &format!("{LOCAL} --linger 0"), 0);
    let left = lines(&scratch, "left")[0].clone();
    assert!(!std::path::Path::new("/proc").join(left).exists());
}

#[test]
fn r33_a_random_sweep_without_an_end_gets_one_from_its_jobs_or_none() {
    let sweep = format!("{HEAD}method: random\nparameters: {{x: {{min: 0, max: 9}}}}\n");
    let scratch = project(&sweep, "echo run >> seen");
    let (_, err) = run(&scratch, LOCAL, 3);
    assert!(err.contains("a random sweep has no end of its own"), "{err}");
    let (_, err) = run(&scratch, &format!("{LOCAL} --jobs 5 --warmup 0"), 0);
    assert!(err.contains("sweep: 5 runs (5 jobs with 1 each, as the file sets no end)"), "{err}");
    assert_eq!(lines(&scratch, "seen").len(), 5);
    assert_eq!(status(&scratch)["state"], "finished");
}

#[test]
fn r36_a_run_that_is_tried_again_has_the_values_that_it_had() {
    let sweep =
        format!("{HEAD}method: random\nrun_cap: 6\nparameters: {{x: {{min: 0, max: 1000000}}}}\n");
    let program = "echo \"$SWEEPCTL_SLOT $1\" >> seen; [ -e mended ] || exit 1";
    let scratch = project(&sweep, program);
    run(&scratch, &format!("{LOCAL} --seed 1"), 6);
    scratch.write("mended", "");
    run(&scratch, "resume", 0);
    run(&scratch, "watch", 0);
    let seen: BTreeSet<String> = lines(&scratch, "seen").into_iter().collect();
    assert_eq!(seen.len(), 6, "a slot had two values: {seen:?}");
    assert!(lines(&scratch, "seen").len() > 6, "none was tried again");
}

#[test]
fn r41_status_shows_the_exact_command_of_a_run() {
    let scratch = grid("{x: {values: [0, 'it is']}}", "[ \"$1\" = --x=0 ]");
    run(&scratch, &format!("{LOCAL} --warmup 0"), 6);
    let (out, _) = run(&scratch, "status --run 1", 0);
    let mut lines = out.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("sweep, run ") && first.ends_with(" (slot 1): failed"), "{out}");
    assert_eq!(lines.next().unwrap(), "  command  sh train.sh '--x=it is'");
    assert!(out.contains("\n  exit     1\n"), "{out}");
    assert!(out.contains("/arrays/0/logs/1.log\n"), "{out}");
    let id = first.split(' ').nth(2).unwrap();
    assert_eq!(run(&scratch, &format!("status sweep --run {id}"), 0).0, out);
    let (_, err) = run(&scratch, "status --run r9", 2);
    assert!(err.contains("sweep has had no run `r9` so far"), "{err}");
}

#[test]
fn r43_a_program_runs_where_submit_was_called() {
    let scratch = grid("{x: {value: 0}}", "pwd > seen; echo \"$PYTHONPATH\" >> seen");
    run(&scratch, &format!("{LOCAL} --export PYTHONPATH=src"), 0);
    let here = scratch.path("seen").parent().unwrap().display().to_string();
    assert_eq!(lines(&scratch, "seen"), [here.as_str(), "src"]);
}

#[test]
fn r45_the_file_of_arguments_is_there_before_the_program_starts() {
    let sweep = "program: train.sh\ncommand: [sh, \"${program}\", \"${args_json_file}\"]\n\
                 method: grid\nparameters: {lr: {value: 0.5}, opt: {value: adam}}\n";
    let scratch = project(sweep, "cat \"$1\" > seen");
    run(&scratch, &format!("{LOCAL} --export WANDB_DIR=elsewhere"), 0);
    let seen: Value = serde_json::from_str(&scratch.read("seen")).unwrap();
    assert_eq!(seen, serde_json::json!({"lr": 0.5, "opt": "adam"}));
}

/// What `check` says of a sweep file, one `SEVERITY CODE POINTER: MESSAGE (HELP)` a line.
fn problems(sweep: &str) -> Vec<String> {
    let scratch = project(sweep, "");
    let output = call(&scratch, "check sweep.yaml --json");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |problem: &Value, key: &str| problem[key].as_str().unwrap_or_default().to_owned();
    let line = |problem: &Value| {
        let [severity, code, pointer, message, help] =
            ["severity", "code", "pointer", "message", "help"].map(|key| text(problem, key));
        format!("{severity} {code} {pointer}: {message} ({help})")
    };
    json["problems"].as_array().unwrap().iter().map(line).collect()
}

#[track_caller]
fn expect_problem(sweep: &str, start: &str, words: &str) {
    let found = problems(sweep);
    assert!(found.iter().any(|line| line.starts_with(start) && line.contains(words)), "{found:#?}");
}

#[test]
fn r48_parameters_that_never_reach_the_program_are_warned_about() {
    let sweep = "program: train.sh\ncommand: [sh, \"${program}\"]\nmethod: grid\n\
                 parameters: {a: {values: [1, 2]}, b: {values: [1, 2]}}\n";
    expect_problem(sweep, "warning no-args-macro /command", "wandb.config");
}

#[test]
fn r49_a_launcher_typed_into_program_is_warned_about_and_stays_one_argument() {
    let sweep = "program: torchrun --nproc_per_node=4 t.py\nmethod: grid\nparameters: {a: {values: [1, 2]}}\n";
    expect_problem(sweep, "warning ", "command");
    let scratch = project(sweep, "");
    let (out, _) = run(&scratch, "check sweep.yaml --json", 0);
    let json: Value = serde_json::from_str(&out).unwrap();
    let argv = json["run"]["argv"].as_array().unwrap();
    assert!(argv.contains(&"torchrun --nproc_per_node=4 t.py".into()), "{argv:?}");
}

#[test]
fn r50_a_colon_in_a_key_is_seen() {
    let sweep = format!("{HEAD}method: grid\nparameters: {{c: {{'values:': [2, 10]}}}}\n");
    expect_problem(&sweep, "error parameter-keys /parameters/c", "`values`");
}

#[test]
fn r51_a_group_without_its_key_and_a_bare_value_say_what_they_need() {
    let sweep = format!(
        "{HEAD}method: random\nparameters:\n  training: {{lr: {{min: 0.1, max: 1.0}}}}\n  opt: 0.01\n"
    );
    expect_problem(&sweep, "error parameter-kind /parameters/training", "`parameters:`");
    expect_problem(&sweep, "error parameter-kind /parameters/opt", "needs `value:`");
}

#[test]
fn r54_a_logarithm_has_no_start_at_zero() {
    let sweep = format!(
        "{HEAD}method: random\nparameters: {{lr: {{distribution: log_uniform_values, min: 0, max: 1}}}}\n"
    );
    expect_problem(&sweep, "error log-from-zero /parameters/lr/min", "above 0");
}

#[test]
fn r57_text_and_booleans_are_different_values() {
    let sweep =
        |values: &str| format!("{HEAD}method: grid\nparameters: {{flag: {{values: {values}}}}}\n");
    expect_problem(
        &sweep("['true', 'false']"),
        "warning quoted-boolean /parameters/flag/values/0",
        "",
    );
    for (values, want) in [("['true', 'false']", "--flag=true"), ("[true, false]", "--flag=True")] {
        let scratch = project(&sweep(values), "echo \"$1\" >> seen");
        run(&scratch, LOCAL, 0);
        assert!(lines(&scratch, "seen").contains(&want.to_owned()), "{values}");
    }
}

#[test]
fn r60_what_a_program_writes_of_its_own_configuration_changes_nothing() {
    let program = "echo '{\"obj\": 1.08, \"loss\": 2}' >> \"$SWEEPCTL_METRICS\"";
    let scratch = grid("{obj: {values: [0.64, 0.5]}}", program);
    run(&scratch, LOCAL, 0);
    let configs: Vec<f64> = status(&scratch)["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["config"]["obj"].as_f64().unwrap())
        .collect();
    assert_eq!(configs, [0.64, 0.5]);
}

#[test]
fn r61_agents_that_start_together_draw_different_values() {
    let sweep =
        format!("{HEAD}method: random\nrun_cap: 8\nparameters: {{x: {{min: 0, max: 1000000}}}}\n");
    let scratch = project(&sweep, "echo \"$1\" >> seen");
    run(&scratch, &format!("{LOCAL} --parallel 8 --warmup 0"), 0);
    let seen = lines(&scratch, "seen");
    assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (8, 8));
}

#[test]
fn r08_and_r68_ranks_that_nothing_starts_or_that_disagree_are_warned_about() {
    let scratch = grid("{x: {values: [0, 1]}}", ":");
    let (_, err) = run(&scratch, "submit sweep.yaml --dry-run -t 10 -n 2", 0);
    assert!(err.contains("warning: each job asks for 2 ranks"), "{err}");
    let (_, err) =
        run(&scratch, "submit sweep.yaml --dry-run -t 10 -N1 -n1 --ntasks-per-node=2", 0);
    assert!(err.contains("is less than 1 nodes x 2 ranks"), "{err}");
    // A template that starts the wrapper on each rank would start an agent on each.
    let (text, _) = run(&scratch, "template show", 0);
    scratch.write("mine.hbs", &text.replace("exec \"$sweepctl\"", "srun \"$sweepctl\""));
    let (_, err) = run(&scratch, "template check mine.hbs", 3);
    assert!(err.contains("each rank would start an agent"), "{err}");
}

#[test]
fn r74_what_a_program_says_on_stderr_is_in_its_log_and_its_code_in_status() {
    let scratch = grid("{x: {values: [0, 1]}}", "echo \"no such $1\" >&2; exit 3");
    run(&scratch, &format!("{LOCAL} --warmup 0"), 6);
    let log = scratch.read(".sweepctl/sweeps/sweep/arrays/0/logs/1.log");
    assert!(log.contains("no such --x=1\n"), "{log}");
    let runs = status(&scratch)["runs"].clone();
    assert_eq!((&runs[1]["exit"], &runs[1]["state"]), (&3.into(), &"failed".into()), "{runs}");
}

#[test]
fn a_metric_that_no_run_reports_is_said_in_the_end() {
    let sweep =
        format!("{HEAD}method: grid\nmetric: {{name: loss}}\nparameters: {{x: {{value: 0}}}}\n");
    let scratch = project(&sweep, "echo loss=0.5");
    let (_, err) = run(&scratch, LOCAL, 0);
    assert!(err.contains("warning: no run reported `loss`"), "{err}");
    let (_, err) = run(&scratch, &format!("{LOCAL} --new --metrics stdout"), 0);
    assert!(!err.contains("no run reported"), "{err}");
}

#[test]
fn an_agent_of_a_paused_sweep_says_so() {
    let scratch = grid("{x: {values: [0, 1, 2, 3, 4, 5]}}", "exit 1");
    run(&scratch, LOCAL, 6);
    let (_, err) = run(&scratch, "agent", 6);
    assert!(
        err.contains("the sweep is paused or stopped: `sweepctl resume sweep` goes on"),
        "{err}"
    );
}

#[test]
fn a_program_is_looked_for_where_runs_start() {
    let scratch = grid("{x: {value: 0}}", ":");
    scratch.write("inside/train.sh", ":");
    std::fs::remove_file(scratch.path("train.sh")).unwrap();
    let (_, err) = run(&scratch, &format!("{LOCAL} --chdir inside"), 0);
    assert!(!err.contains("there is no file"), "{err}");
}

#[test]
fn r80_there_are_never_more_jobs_than_runs() {
    let scratch = grid("{x: {values: [0, 1, 2, 3]}}", "echo run >> seen");
    let (_, err) = run(&scratch, "submit sweep.yaml --dry-run --jobs 10 -t 10", 0);
    assert!(
        err.contains("4 runs (the whole grid)") && err.contains("\n4 jobs, each with"),
        "{err}"
    );
    run(&scratch, &format!("{LOCAL} --jobs 10"), 0);
    assert_eq!(lines(&scratch, "seen").len(), 4);
}
