//! Proves the tests' own SLURM: what it runs, and the faults that it can have.

mod support;

use std::time::Duration;

use support::{Scratch, Testbed, wait_until};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn each_task_of_an_array_runs_on_a_node_of_its_own() {
    let Some(slurm) = Testbed::start(&[("NODES", "2")]) else { return };
    let project = Scratch::new();
    let output = project.path("task-%a");
    let job = slurm.run(
        "sbatch",
        &[
            "--parsable",
            "--array=1-2",
            "--exclusive",
            &format!("--output={}", output.display()),
            "--wrap=hostname && sleep 1",
        ],
    );
    wait_until("both tasks have ended", LIMIT, || {
        let rows = ["--noheader", "--array", "--states=COMPLETED", "--jobs", job.trim()];
        slurm.run("squeue", &rows).lines().count() == 2
    });
    let mut nodes = [project.read("task-1"), project.read("task-2")];
    nodes.sort();
    assert_eq!(nodes, ["n1\n", "n2\n"]);
}

#[test]
fn what_a_dead_node_ran_waits_to_run_again() {
    let Some(slurm) = Testbed::start(&[("NODES", "1")]) else { return };
    let job = slurm.run("sbatch", &["--parsable", "--output=/dev/null", "--wrap=sleep 600"]);
    let state = || slurm.run("squeue", &["--noheader", "--format=%T", "--jobs", job.trim()]);
    wait_until("the job runs", LIMIT, || state() == "RUNNING\n");
    slurm.call("node-kill 1");
    slurm.call("node-up 1");
    wait_until("the job waits", LIMIT, || state() == "PENDING\n");
}

#[test]
fn a_frozen_slurmctld_answers_only_after_its_thaw() {
    let Some(slurm) = Testbed::start(&[("NODES", "1"), ("MESSAGE_TIMEOUT", "2")]) else { return };
    slurm.call("ctld-freeze");
    let frozen = slurm.command("squeue").output().unwrap();
    assert!(String::from_utf8_lossy(&frozen.stderr).contains("timed out"), "{frozen:?}");
    slurm.call("ctld-thaw");
    slurm.run("squeue", &[]);
}
