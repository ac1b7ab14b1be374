//! How much sweepctl costs: its search and reader, and ratios to bare SLURM commands side by side.
//!
//! `cargo bench` as root, with SLURM installed (or the first lines only). Nothing fails here: the
//! figures are for people.

#[path = "../tests/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use support::{Scratch, Testbed, sweepctl};
use sweepctl::log::slot::Slot;
use sweepctl::plan::{Ledger, Policy, Sightings, Snapshot, Spans, plan};
use sweepctl::search::{Grid, configuration};
use sweepctl::sweep::{SweepSpec, read};
use tempfile::TempDir;

fn main() {
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    version();
    planner();
    search();
    reader();
    let settings = [("MAX_ARRAY_SIZE", "10001"), ("MAX_JOB_COUNT", "30000"), ("NODES", "2")];
    let Some(testbed) = Testbed::start(&settings) else { return };
    submit(&testbed);
    status(&testbed);
    recall(&testbed);
    task(&testbed);
}

fn time(command: &mut Command) -> Duration {
    let began = Instant::now();
    let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output().expect("it starts");
    let took = began.elapsed();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn version() {
    let times = (0..50).map(|_| time(sweepctl().arg("--version"))).collect();
    println!("sweepctl --version: {:.1} ms (median of 50)", ms(median(times)));
}

fn planner() {
    let policy = Policy {
        max_attempts: 3,
        warmup: 4,
        jobs: Some(1000),
        parallel: Some(100),
        runs_per_job: 1,
        agents: 1,
        max_array_size: 1001,
        job_name: "bench".to_owned(),
        spans: Spans::default(),
    };
    let ledger =
        Ledger { budget: 100_000, slots: vec![Slot::default(); 100_000], ..Ledger::default() };
    let snapshot = Snapshot { queue: Some(Vec::new()), ..Snapshot::default() };
    let times = (0..20)
        .map(|_| {
            let began = Instant::now();
            let plan = plan(&policy, &ledger, &snapshot, &Sightings::default(), 0);
            assert_eq!(plan.actions.len(), 1);
            began.elapsed()
        })
        .collect();
    println!("plan at 100,000 slots: {:.1} ms (median of 20)", ms(median(times)));
}

/// A sweep of these parameters, as sweepctl stores them.
fn sweep(method: &str, parameters: &Value) -> SweepSpec {
    let json = json!({"method": method, "parameters": parameters});
    serde_json::from_value(json).expect("a sweep")
}

fn search() {
    let twenty: Map<String, Value> = (0..20)
        .map(|index| {
            let parameter = match index % 10 {
                0 | 1 => json!({"real": {"log_uniform_values": {"min": 1e-5, "max": 0.1}}}),
                2 => json!({"real": {"uniform": {"min": 0.0, "max": 1.0}}}),
                3 => json!({"int_uniform": {"min": 1, "max": 1000}}),
                4 | 5 => json!({"categorical": ["adam", "sgd", "rmsprop", "lamb"]}),
                6 => json!({"weighted": {"values": [1, 2, 3], "probabilities": [0.2, 0.3, 0.5]}}),
                7 => {
                    json!({"quantized": {"law": {"log_normal": {"mu": 3.0, "sigma": 1.0}}, "q": 8}})
                }
                8 => json!({"real": {"normal": {"mu": 0.0, "sigma": 1.0}}}),
                _ => json!({"real": {"beta": {"a": 2.0, "b": 5.0}}}),
            };
            (format!("parameter_{index}"), parameter)
        })
        .collect();
    let random = sweep("random", &twenty.into());
    println!(
        "a random configuration of 20 parameters: {:.1} us",
        each_us(100, |slot| configuration(&random, 1, slot))
    );
    let axis = json!({"int_uniform": {"min": 1, "max": 10_000}});
    let grid = sweep("grid", &json!({"a": axis, "b": axis, "c": axis}));
    println!(
        "a grid of 10^12 points: {:.2} us to open, with its size; {:.2} us for a point",
        each_us(100, |_| Grid::open(&grid).expect("a grid").size()),
        each_us(100, |slot| configuration(&grid, 1, 999_999_999_999 - slot))
    );
    let values: Vec<u32> = (0..10).collect();
    let categorical: Map<String, Value> =
        (0..20).map(|index| (format!("p{index}"), json!({"categorical": values}))).collect();
    let grid = sweep("grid", &categorical.into());
    println!(
        "a grid of 20 parameters with 10 values each: {:.1} us for a point",
        each_us(100, |slot| configuration(&grid, 1, slot))
    );
}

/// The time of a call in microseconds: of the best batch, as other programs only add to it.
fn each_us<T>(calls: u64, mut call: impl FnMut(u64) -> T) -> f64 {
    let mut batch = || {
        let began = Instant::now();
        for index in 0..calls {
            std::hint::black_box(call(index));
        }
        began.elapsed()
    };
    let best = (0..200).map(|_| batch()).min();
    ms(best.unwrap_or_default()) * 1000.0 / calls as f64
}

fn reader() {
    let mut text = String::from("program: train.py\nmethod: random\nparameters:\n");
    for index in 0..3332 {
        text += &format!("  parameter_{index}:\n    min: 1.0e-5\n    max: {index}.5\n");
    }
    text += "name: speed\n";
    let times = (0..20)
        .map(|_| {
            let began = Instant::now();
            let reading = read(text.as_bytes(), "sweep.yaml").expect("a good file");
            assert_eq!(reading.spec.parameters.len(), 3332);
            began.elapsed()
        })
        .collect();
    println!(
        "reading and checking {} lines: {:.1} ms (median of 20)",
        text.lines().count(),
        ms(median(times))
    );
}

/// A project with a grid of so many points.
fn project(points: u32) -> Scratch {
    let scratch = Scratch::new();
    let text = format!(
        "method: grid\ncommand: [/bin/true, \"${{args}}\"]\nparameters: {{a: {{min: 1, max: {points}}}}}\n"
    );
    fs::write(scratch.path("sweep.yaml"), text).expect("a sweep file");
    scratch
}

fn detach(testbed: &Testbed, scratch: &Scratch) -> Command {
    let mut command = scratch.sweepctl();
    command.envs(testbed.env());
    command.args(["submit", "sweep.yaml", "--detach", "--new", "--partition", "closed"]);
    command
}

fn submit(testbed: &Testbed) {
    let scratch = project(1000);
    // A second state folder where fsync costs nothing: what is left is ours and SLURM's.
    let memory = tempfile::Builder::new().prefix("sweepctl-bench-").tempdir_in("/dev/shm").ok();
    let in_memory = |memory: &TempDir| {
        let mut command = detach(testbed, &scratch);
        command.arg("--state-dir").arg(memory.path());
        command
    };
    let first = time(&mut detach(testbed, &scratch));
    if let Some(memory) = &memory {
        time(&mut in_memory(memory));
    }
    let (mut ours, mut synced, mut free, mut bare) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..9 {
        ours.push(time(&mut detach(testbed, &scratch)));
        synced.extend(syncs(&detach(testbed, &scratch)));
        free.extend(memory.iter().map(|memory| time(&mut in_memory(memory))));
        let mut sbatch = testbed.command("sbatch");
        sbatch.args(["--array=0-999", "-p", "closed", "-o", "/dev/null", "--wrap", "true"]);
        let config = time(testbed.command("scontrol").args(["show", "config"]));
        bare.push(time(&mut sbatch) + config);
        testbed.run("scancel", &["--user=root"]);
    }
    let (ours, bare) = (median(ours), median(bare));
    let times = |time: Duration| time.as_secs_f64() / bare.as_secs_f64();
    println!(
        "submit --detach of 1,000 tasks: {:.0} ms, bare sbatch + scontrol {:.0} ms: {:.2} times (medians of 9)",
        ms(ours),
        ms(bare),
        times(ours)
    );
    if let Some((count, took)) = typical(synced) {
        let rest = ours.saturating_sub(took);
        println!(
            "  of it {count} fsyncs, {:.1} ms; the rest {:.0} ms: {:.2} times",
            ms(took),
            ms(rest),
            times(rest)
        );
    }
    if !free.is_empty() {
        let free = median(free);
        println!(
            "  with its state in memory, where fsync is free: {:.0} ms: {:.2} times",
            ms(free),
            times(free)
        );
    }
    println!("  the first one in a folder, which copies the binary: {:.0} ms", ms(first));
}

/// How many fsyncs a command makes with all that it starts, and how long they take; none without strace.
fn syncs(command: &Command) -> Option<(usize, Duration)> {
    let trace = tempfile::NamedTempFile::new().expect("a scratch file");
    let mut strace = Command::new("strace");
    // By the filter only fsyncs are stopped at: all else runs at its own speed.
    strace.args([
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-T",
        "-e",
        "trace=fsync,fdatasync,sync,syncfs",
        "-o",
    ]);
    strace.arg(trace.path()).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    strace.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !strace.status().ok()?.success() {
        return None;
    }
    let text = fs::read_to_string(trace.path()).ok()?;
    let took = text.lines().filter_map(|line| {
        let seconds = line.rsplit_once('<')?.1.strip_suffix('>')?;
        Some(Duration::from_secs_f64(seconds.parse().ok()?))
    });
    let took: Vec<Duration> = took.collect();
    Some((took.len(), took.iter().sum()))
}

/// The medians of number and time.
fn typical(syncs: Vec<(usize, Duration)>) -> Option<(usize, Duration)> {
    let (mut counts, times): (Vec<usize>, Vec<Duration>) = syncs.into_iter().unzip();
    counts.sort_unstable();
    let count = *counts.get(counts.len() / 2)?;
    Some((count, median(times)))
}

fn status(testbed: &Testbed) {
    let scratch = project(10_000);
    time(&mut detach(testbed, &scratch));
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        ours.push(time(scratch.sweepctl().envs(testbed.env()).arg("status")));
        bare.push(time(testbed.command("squeue").arg("-r")));
    }
    let (ours, bare) = (median(ours), median(bare));
    let script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=-3); \
                  print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)";
    let output = Command::new("python3")
        .args(["-c", script, env!("CARGO_BIN_EXE_sweepctl"), "status"])
        .current_dir(scratch.path(""))
        .envs(testbed.env())
        .output()
        .expect("python3");
    println!(
        "status at 10,000 pending tasks: {:.0} ms, bare squeue -r {:.0} ms: {:.2} times; {} MiB",
        ms(ours),
        ms(bare),
        ours.as_secs_f64() / bare.as_secs_f64(),
        String::from_utf8_lossy(&output.stdout).trim()
    );
    testbed.run("scancel", &["--user=root"]);
}

/// `status` of 10,000 finished runs, whose logs are written here as tasks would write them.
fn recall(testbed: &Testbed) {
    let scratch = project(10_000);
    time(&mut detach(testbed, &scratch));
    testbed.run("scancel", &["--user=root"]);
    let dir = scratch.path(".sweepctl/sweeps/sweep");
    for slot in 0..10_000 {
        let folder = dir.join(format!("slots/{:03}", slot / 1000));
        fs::create_dir_all(&folder).expect("a folder");
        let stamp = format!("\"v\":1,\"nonce\":\"n{slot}\",\"at\":1796022692,\"by\":\"n1:4711\"");
        let claim = format!(
            "{{{stamp},\"kind\":\"claim\",\"attempt\":0,\"array\":0,\"job\":\"1\",\"task\":{slot},\
             \"leg\":0,\"claim\":\"c{slot}\",\"run\":\"r{slot}\"}}"
        );
        let record = format!(
            "{{{stamp},\"kind\":\"record\",\"counts\":true,\"outcome\":\"finished\",\"run\":\"r{slot}\",\
             \"exit\":0,\"seconds\":61.5,\"host\":\"n1\",\"summary\":{{\"loss\":0.5,\"accuracy\":0.75}}}}"
        );
        fs::write(folder.join(format!("{slot}.0")), claim).expect("a file");
        fs::write(folder.join(format!("{slot}.1")), record).expect("a file");
    }
    let status = || {
        let call = |_| time(scratch.sweepctl().envs(testbed.env()).arg("status"));
        ms(median((0..5).map(call).collect()))
    };
    let anew = status();
    time(scratch.sweepctl().envs(testbed.env()).arg("tick"));
    println!(
        "status of 10,000 runs: {anew:.0} ms from the logs, {:.0} ms with a journal",
        status()
    );
}

/// Each task's script is run by hand, in turn with a bare script of the same program.
fn task(testbed: &Testbed) {
    let scratch = project(200);
    time(detach(testbed, &scratch).args(["--warmup", "0"]));
    let dir = scratch.path(".sweepctl/sweeps/sweep");
    let array = fs::read_dir(dir.join("arrays"))
        .expect("arrays")
        .flatten()
        .next()
        .expect("an array")
        .path();
    let fence = fs::read_to_string(array.join("job")).expect("the array's job");
    let job =
        fence.split("\"job\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a job id");
    let bare_script = scratch.path("bare.sh");
    fs::write(&bare_script, "#!/bin/bash\nexec /bin/true --a=1\n").expect("a script");
    let before = inodes(&dir);
    let (mut ours, mut bare, mut synced) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..200 {
        let mut script = Command::new("bash");
        script.arg(array.join("script.sbatch")).current_dir(scratch.path(""));
        script.env("SLURM_ARRAY_JOB_ID", job).env("SLURM_ARRAY_TASK_ID", index.to_string());
        if index % 10 == 9
            && let Some(seen) = syncs(&script)
        {
            synced.push(seen);
            continue;
        }
        ours.push(time(&mut script));
        bare.push(time(Command::new("bash").arg(&bare_script)));
    }
    // The log, which sbatch makes, is one more.
    let made = (inodes(&dir) - before) as f64 / 200.0 + 1.0;
    println!(
        "a task around its program: {:.1} ms, bare script {:.1} ms: {:.1} ms more (medians); {made:.2} inodes a run",
        ms(median(ours.clone())),
        ms(median(bare.clone())),
        ms(median(ours)) - ms(median(bare))
    );
    match typical(synced) {
        Some((count, took)) => println!("  of it {count} fsyncs, {:.1} ms", ms(took)),
        None => println!("  fsyncs are not counted: that needs strace"),
    }
    testbed.run("scancel", &["--user=root"]);
}

fn inodes(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| 1 + if entry.path().is_dir() { inodes(&entry.path()) } else { 0 }).sum()
}
