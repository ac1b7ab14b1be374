//! `submit`: read, check, create, then watch.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Failure, Place, code, logical_cwd, view, watch};
use crate::drive::state::{self, OpenSweep, RunsOn, STATE_DIR, SweepFile};
use crate::drive::{Driver, environment, script_context};
use crate::launch;
use crate::log;
use crate::log::sweep::{Array, Pair};
use crate::plan::{Policy, Spans};
use crate::say::{err, out};
use crate::scheduler::slurm::Slurm;
use crate::scheduler::{Limits, SubmitRefusal, Submitted};
use crate::sweep::{self as sweep_file, Severity, SweepSpec};

#[derive(clap::Args, Debug)]
pub(super) struct SubmitArgs {
    /// The sweep file
    file: PathBuf,
    /// Array tasks in the queue or running at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,
    /// Array tasks running at a time
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    parallel: Option<u32>,
    /// Runs in all; never more than the file's run_cap or the grid has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    budget: Option<u32>,
    /// Runs that one task does, one after the other
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs_per_job: u32,
    /// The sweep's name [default: the file's `name`, or its own]
    #[arg(long)]
    name: Option<String>,
    /// Where runs come from; only `embedded` is built so far
    #[arg(long, default_value = "embedded", value_parser = ["embedded"])]
    controller: String,
    /// Seed of random draws
    #[arg(long)]
    seed: Option<u64>,
    /// Run on this machine instead of SLURM
    #[arg(long)]
    local: bool,
    /// Queue the whole budget and do not watch
    #[arg(long, conflicts_with = "local")]
    detach: bool,
    /// Print the script that would be submitted, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the sweep's name alone on stdout
    #[arg(long)]
    quiet: bool,
    /// Start another sweep although the same one is under way
    #[arg(long)]
    new: bool,
    /// Tries at a run that machines or people took, before it is given up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: u32,
    /// Runs that may start before one has lived for a minute; 0: no such caution
    #[arg(long, value_name = "N", default_value_t = 4)]
    warmup: u32,
    /// SLURM does not start a task again by itself
    #[arg(long)]
    no_requeue: bool,
    /// Read metrics from the program's output: `name=value` and JSON lines
    #[arg(long, value_name = "SOURCE", value_parser = ["stdout"])]
    metrics: Option<String>,
    /// Seconds that processes of a program may outlive its end
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    linger: u64,
    /// SLURM's cluster, as for sbatch
    #[arg(long, value_name = "NAME")]
    clusters: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    request: Request,
    /// More options for sbatch, after `--`
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    more: Vec<String>,
}

/// What one job asks of SLURM, in sbatch's own words.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "What each job asks for, as sbatch has it")]
struct Request {
    #[arg(short = 'A', long)]
    account: Option<String>,
    #[arg(short = 'p', long)]
    partition: Option<String>,
    #[arg(short = 'q', long)]
    qos: Option<String>,
    #[arg(short = 't', long)]
    time: Option<String>,
    #[arg(short = 'N', long)]
    nodes: Option<String>,
    #[arg(short = 'c', long)]
    cpus_per_task: Option<String>,
    #[arg(long)]
    mem: Option<String>,
    #[arg(short = 'G', long)]
    gpus: Option<String>,
    #[arg(long)]
    gpus_per_node: Option<String>,
    #[arg(long)]
    gres: Option<String>,
    #[arg(short = 'C', long)]
    constraint: Option<String>,
    #[arg(short = 'x', long)]
    exclude: Option<String>,
}

/// Options of sbatch that would break the sweep, and what to say instead.
const REFUSED: &[(&str, &str)] = &[
    ("--array", "the budget decides; see --budget, --jobs and --parallel"),
    ("--wrap", "the sweep file's `command` is what runs"),
    ("--parsable", "see --quiet"),
    ("--wait", "submit watches by itself"),
    ("--test-only", "see --dry-run"),
    ("--export", "jobs get the environment of this shell"),
    ("--hold", "see `sweepctl pause`"),
    ("--job-name", "see --name"),
    ("--output", "logs are in the sweep's folder"),
    ("--error", "logs are in the sweep's folder"),
    ("--chdir", "submit from the folder that jobs are to run in"),
    ("--requeue", "it is on unless --no-requeue is given"),
    ("--no-requeue", "give it before `--`"),
    ("--clusters", "give it before `--`"),
    ("-a", "the budget decides; see --budget, --jobs and --parallel"),
    ("-H", "see `sweepctl pause`"),
    ("-W", "submit watches by itself"),
    ("-J", "see --name"),
    ("-o", "logs are in the sweep's folder"),
    ("-e", "logs are in the sweep's folder"),
    ("-D", "submit from the folder that jobs are to run in"),
    ("-M", "give --clusters before `--`"),
];

/// Variables by which users give sbatch options without typing them, and the options' names.
const SBATCH_VARIABLES: &[(&str, &str, &str)] = &[
    ("SBATCH_ACCOUNT", "account", "-A"),
    ("SBATCH_PARTITION", "partition", "-p"),
    ("SBATCH_QOS", "qos", "-q"),
    ("SBATCH_TIMELIMIT", "time", "-t"),
    ("SBATCH_CONSTRAINT", "constraint", "-C"),
    ("SBATCH_GRES", "gres", ""),
    ("SBATCH_GPUS", "gpus", "-G"),
    ("SBATCH_GPUS_PER_NODE", "gpus-per-node", ""),
    ("SBATCH_MEM_PER_NODE", "mem", ""),
    ("SBATCH_RESERVATION", "reservation", ""),
];

/// Adds what `SBATCH_*` variables of this shell ask for, unless a flag does.
///
/// They become options of the sweep: a later `watch` in another shell submits the same jobs.
fn add_from_variables(options: &mut Vec<String>, env: impl Iterator<Item = (String, String)>) {
    let mut variables: Vec<(String, String)> =
        env.filter(|(name, value)| name.starts_with("SBATCH_") && !value.is_empty()).collect();
    variables.sort();
    let mut ignored = Vec::new();
    for (variable, value) in variables {
        let known = SBATCH_VARIABLES.iter().find(|(name, ..)| *name == variable);
        let Some((_, name, short)) = known else {
            ignored.push(format!("`{variable}`"));
            continue;
        };
        let long = format!("--{name}=");
        let given = |option: &String| {
            option.starts_with(&long) || (!short.is_empty() && option.starts_with(short))
        };
        if !options.iter().any(given) {
            options.push(format!("{long}{value}"));
        }
    }
    if !ignored.is_empty() {
        let names = ignored.join(", ");
        err!("warning: {names} of this shell not used: give sbatch's option after `--` instead");
    }
}

impl Request {
    fn options(&self, more: &[String]) -> Result<Vec<String>, Failure> {
        let given = [
            ("account", &self.account),
            ("partition", &self.partition),
            ("qos", &self.qos),
            ("time", &self.time),
            ("nodes", &self.nodes),
            ("cpus-per-task", &self.cpus_per_task),
            ("mem", &self.mem),
            ("gpus", &self.gpus),
            ("gpus-per-node", &self.gpus_per_node),
            ("gres", &self.gres),
            ("constraint", &self.constraint),
            ("exclude", &self.exclude),
        ];
        let mut options: Vec<String> = given
            .into_iter()
            .filter_map(|(name, value)| value.as_ref().map(|value| format!("--{name}={value}")))
            .collect();
        for option in more {
            let name = option.split('=').next().unwrap_or_default();
            if !name.starts_with('-') {
                let text = format!(
                    "sbatch option `{option}` after `--` must be in one piece: `--name=value`"
                );
                return Err(Failure::new(code::COMMAND_LINE, text));
            }
            let short = |refused: &str| {
                refused.len() == 2 && name.starts_with(refused) && !name.starts_with("--")
            };
            if let Some((_, why)) =
                REFUSED.iter().find(|(refused, _)| *refused == name || short(refused))
            {
                let text = format!("sbatch's `{name}` cannot be used with a sweep: {why}");
                return Err(Failure::new(code::COMMAND_LINE, text));
            }
            options.push(option.clone());
        }
        Ok(options)
    }
}

/// Starts a sweep.
pub(super) async fn run(args: SubmitArgs) -> Result<u8, Failure> {
    let (spec, text) = read(&args.file)?;
    let mut options = args.request.options(&args.more)?;
    if !args.local {
        let env = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
        });
        add_from_variables(&mut options, env);
    }
    let (budget, reason) = budget(&args, &spec)?;
    let folder = logical_cwd();
    let asked = asked(&args, &text, &options, &folder);
    let state_dir = match &args.place.state_dir {
        Some(dir) => super::absolute(dir),
        None => folder.join(STATE_DIR),
    };
    let name = launch::slug(&args.name.clone().or(spec.name.clone()).unwrap_or_else(|| {
        args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }));
    let mut file = SweepFile {
        v: 1,
        name: name.clone(),
        nonce: log::nonce(),
        file: args.file.clone(),
        folder: folder.clone(),
        seed: args.seed.unwrap_or_else(|| log::stable_hash(&[&log::nonce()]) >> 11),
        spec,
        budget,
        policy: Policy {
            max_attempts: args.max_attempts,
            warmup: args.warmup,
            jobs: args.jobs.filter(|_| !args.detach),
            parallel: args.parallel,
            runs_per_job: args.runs_per_job,
            max_array_size: u32::MAX,
            job_name: name,
            spans: spans(args.local),
        },
        runs_on: RunsOn::Slurm(args.clusters.clone()),
        options,
        requeue: !args.no_requeue,
        linger: args.linger,
        metrics_from_stdout: args.metrics.is_some(),
        asked: asked.clone(),
        created: log::now(),
    };
    err!("{}: {budget} runs ({reason}); the sweep lives in {}", file.name, state_dir.display());
    if args.dry_run {
        out!("{}", dry_run(&state_dir, file)?.trim_end());
        return Ok(0);
    }
    if !args.new
        && let Some(live) = same_under_way(&state_dir, &asked)?
    {
        err!("{}", view(&live).line());
        err!(
            "this sweep is under way already: `sweepctl watch {}` watches it, `--new` starts another one",
            live.file.name
        );
        if args.quiet {
            out!("{}", live.file.name);
        }
        return Ok(0);
    }
    if !args.local && [&folder, &state_dir].iter().any(|dir| dir.to_string_lossy().contains('\\')) {
        let text = "SLURM cannot write logs where a folder's name has a backslash";
        return Err(Failure::new(code::COMMAND_LINE, text).help("rename the folder"));
    }
    prepare(&state_dir)?;
    let slurm = if args.local {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        file.runs_on = RunsOn::Local(args.parallel.unwrap_or(cores));
        file.policy.max_array_size = 1000;
        None
    } else {
        let (slurm, limits) = check_with_slurm(&state_dir, &file).await?;
        file.policy.max_array_size = limits.max_array_size.min(limits.max_array_tasks);
        Some((slurm, limits))
    };
    let sweep = OpenSweep::create(&state_dir, file)?;
    environment::save(&sweep.dir).map_err(|error| {
        Failure::new(code::UNEXPECTED, format!("cannot save the environment: {error}"))
    })?;
    if args.quiet {
        out!("{}", sweep.file.name);
    }
    let driver = Driver::with(sweep, slurm);
    if args.detach { detach(driver).await } else { watch::run(driver, args.quiet).await }
}

fn spans(local: bool) -> Spans {
    #[cfg(feature = "abort-hook")]
    if let Some(seconds) = std::env::var("SWEEPCTL_SPANS").ok().and_then(|text| text.parse().ok()) {
        return Spans { void: seconds, gone: seconds, dead: seconds, beat: seconds };
    }
    if local { Spans { void: 2, gone: 1, dead: 2, beat: 900 } } else { Spans::default() }
}

fn read(path: &Path) -> Result<(SweepSpec, Vec<u8>), Failure> {
    let text = fs::read(path)
        .map_err(|error| Failure::new(code::SWEEP_FILE, format!("{}: {error}", path.display())))?;
    match sweep_file::read(&text, &path.to_string_lossy()) {
        Ok(reading) => {
            for problem in reading.warnings {
                err!("warning: {problem}");
            }
            Ok((reading.spec, text))
        }
        Err(problems) => {
            let mut errors = Vec::new();
            for problem in problems {
                match problem.severity {
                    Severity::Error => errors.push(problem.to_string()),
                    Severity::Warning => err!("warning: {problem}"),
                }
            }
            // The last one is printed with the exit code.
            let last = errors.pop().unwrap_or_else(|| "the sweep file cannot be used".to_owned());
            for error in errors {
                err!("error: {error}");
            }
            Err(Failure::new(code::SWEEP_FILE, last))
        }
    }
}

/// The smallest of what was asked, run_cap and the grid; else what the jobs make.
fn budget(args: &SubmitArgs, spec: &SweepSpec) -> Result<(u32, String), Failure> {
    let limits = [
        (args.budget.map(u64::from), "--budget"),
        (spec.run_cap, "run_cap"),
        (spec.grid_size(), "the whole grid"),
    ];
    let smallest =
        limits.iter().filter_map(|(limit, word)| limit.map(|limit| (limit, *word))).min();
    let (budget, reason) = match (smallest, args.jobs) {
        (Some((limit, word)), _) => (limit, word.to_owned()),
        (None, Some(jobs)) => {
            let all = u64::from(jobs) * u64::from(args.runs_per_job);
            (all, format!("{jobs} jobs with {} each, as the file sets no end", args.runs_per_job))
        }
        (None, None) => {
            return Err(Failure::new(code::SWEEP_FILE, "a random sweep has no end of its own")
                .help("give --budget N or --jobs N, or write run_cap into the file"));
        }
    };
    match u32::try_from(budget) {
        Ok(budget) if budget <= state::MOST_SLOTS => Ok((budget, reason)),
        _ => Err(Failure::new(code::SWEEP_FILE, format!("{budget} runs ({reason}) are too many"))
            .help(format!("sweepctl runs up to {}; give --budget N", state::MOST_SLOTS))),
    }
}

/// What this call asks for, to recognise it when it is typed again.
fn asked(args: &SubmitArgs, text: &[u8], options: &[String], folder: &Path) -> String {
    let parts = format!(
        "{:?} {:?} {:?} {} {:?} {:?} {:?} {options:?} {:?}",
        args.jobs,
        args.parallel,
        args.budget,
        args.runs_per_job,
        args.name,
        args.seed,
        args.local,
        folder
    );
    let hash =
        log::stable_hash(&[&String::from_utf8_lossy(text), &args.file.to_string_lossy(), &parts]);
    log::base36(u128::from(hash), 13)
}

fn same_under_way(state_dir: &Path, asked: &str) -> Result<Option<OpenSweep>, Failure> {
    for name in state::names(state_dir) {
        let sweep = OpenSweep::find(state_dir, Some(&name))?;
        if sweep.file.asked == asked && !sweep.log.state.closed {
            return Ok(Some(sweep));
        }
    }
    Ok(None)
}

fn dry_run(state_dir: &Path, mut file: SweepFile) -> Result<String, Failure> {
    "<nonce>".clone_into(&mut file.nonce);
    let dir = state_dir.join("sweeps").join(&file.name);
    let array = Array {
        name: format!("{}-<nonce>", file.policy.job_name),
        tasks: vec![vec![Pair(0, 0)]],
        throttle: 0,
        throttle_warm: 0,
    };
    script_text(&dir, &file, &array)
}

fn script_text(dir: &Path, file: &SweepFile, array: &Array) -> Result<String, Failure> {
    launch::render(&script_context(dir, file, 0, array))
        .map_err(|error| Failure::new(code::SWEEP_FILE, error))
}

/// Makes the state folder: the user's alone, ignored by git, with this binary for the jobs.
fn prepare(state_dir: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    let failed = |what: &Path, error: std::io::Error| {
        Failure::new(code::UNEXPECTED, format!("cannot write {}: {error}", what.display()))
            .help("go to a folder on the shared file system that you may write to, or name one with --state-dir")
    };
    if !state_dir.is_dir() {
        let missing: Vec<&Path> = state_dir.ancestors().take_while(|dir| !dir.is_dir()).collect();
        fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(state_dir)
            .map_err(|e| failed(state_dir, e))?;
        for dir in missing {
            log::sync_folder(dir.parent().unwrap_or(dir)).map_err(|e| failed(dir, e))?;
        }
    }
    let ignore = state_dir.join(".gitignore");
    if !ignore.exists() {
        log::probe(state_dir).map_err(|e| failed(state_dir, e))?;
        fs::write(&ignore, "*\n").map_err(|e| failed(&ignore, e))?;
    }
    let bin = state_dir.join("bin").join(env!("CARGO_PKG_VERSION")).join(std::env::consts::ARCH);
    let target = bin.join("sweepctl");
    let own = std::env::current_exe().map_err(|e| failed(&target, e))?;
    if !same_file(&own, &target) {
        fs::create_dir_all(&bin).map_err(|e| failed(&bin, e))?;
        let tmp = bin.join(format!(".tmp.{}", log::nonce()));
        fs::copy(&own, &tmp)
            .and_then(|_| fs::rename(&tmp, &target))
            .map_err(|e| failed(&target, e))?;
    }
    Ok(())
}

/// Whether the copy is of this very binary: by size and time, as reading both would cost seconds on NFS.
fn same_file(own: &Path, copy: &Path) -> bool {
    let (Ok(own), Ok(copy)) = (fs::metadata(own), fs::metadata(copy)) else { return false };
    let times = own.modified().ok().zip(copy.modified().ok());
    own.len() == copy.len() && times.is_some_and(|(own, copy)| own <= copy)
}

/// Asks SLURM whether it would take such a job, before anything is created. Answers its limits.
async fn check_with_slurm(state_dir: &Path, file: &SweepFile) -> Result<(Slurm, Limits), Failure> {
    let cluster = match &file.runs_on {
        RunsOn::Slurm(cluster) => cluster.clone(),
        RunsOn::Local(_) => None,
    };
    let slurm = Slurm::new(cluster).await.map_err(|error| {
        Failure::new(code::SLURM, error)
            .help("without SLURM, `--local` runs the sweep on this machine")
    })?;
    let limits = slurm.limits().await.map_err(|error| Failure::new(code::SLURM, error))?;
    let array = Array {
        name: file.policy.job_name.clone(),
        tasks: Vec::new(),
        throttle: 0,
        throttle_warm: 0,
    };
    let dir = state_dir.join("sweeps").join(&file.name);
    let script = state_dir.join(format!(".tmp.{}.sbatch", log::nonce()));
    let text = script_text(&dir, file, &array)?;
    state::write_whole(&script, text.as_bytes()).map_err(|error| {
        Failure::new(code::UNEXPECTED, format!("{}: {error}", script.display()))
    })?;
    let env: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| environment::is_kept(&name.to_string_lossy()))
        .collect();
    let answer = slurm.test_only(&["--array=0".into()], &script, env, &file.folder).await;
    let _ = fs::remove_file(&script);
    match answer {
        Ok(estimate) => {
            if !estimate.is_empty() {
                err!("{estimate}");
            }
        }
        Err(Submitted::Refused { kind: SubmitRefusal::Limit, text }) => {
            err!("SLURM takes no job of yours now ({text}); this will be tried again");
        }
        Err(Submitted::Refused { kind, text }) => {
            let failure = Failure::new(code::SLURM, format!("SLURM refuses such a job: {text}"));
            return Err(match kind {
                SubmitRefusal::Account => {
                    failure.help("list your accounts with `sacctmgr show assoc user=$USER`")
                }
                SubmitRefusal::Partition => failure.help("list the partitions with `sinfo -s`"),
                SubmitRefusal::Node => {
                    failure.help("no node has that many; see `sinfo -o '%P %c %m %G'`")
                }
                _ => failure,
            });
        }
        Err(Submitted::NoAnswer { text } | Submitted::NotSent { text }) => {
            return Err(Failure::new(code::SLURM, format!("slurmctld does not answer: {text}")));
        }
        Err(Submitted::Accepted(_)) => {}
    }
    Ok((slurm, limits))
}

/// Queues all that the limits allow, and says what they keep back.
async fn detach(mut driver: Driver) -> Result<u8, Failure> {
    let left = loop {
        let tick = driver.tick().await?;
        for said in &tick.said {
            err!("{said}");
        }
        let left = driver.left_to_queue()?;
        if left == 0 || !tick.acted {
            break left;
        }
    };
    let name = driver.sweep.file.name.clone();
    if left > 0 {
        err!(
            "{left} runs are not queued yet; `sweepctl watch {name}` or `sweepctl tick {name}` goes on"
        );
    }
    err!("`sweepctl status {name}` shows how far it is");
    Ok(0)
}
