//! `submit`: read, check, create, then watch.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::around::{self, AroundArgs};
use super::check::Checked;
use super::plan::{
    LOGS, fill_in_logs, first_commands, ranks, report, say_plan, warn_of_environment,
};
use super::sbatch_args::SbatchArgs;
use super::{Failure, Place, code, logical_cwd, template, view, watch};
use crate::drive::state::{self, OpenSweep, RunsOn, STATE_DIR, SweepFile};
use crate::drive::{Driver, environment, render_script};
use crate::launch::agents::{Agents, Gate};
use crate::launch::request::{Given, Partition, Ranks, Request};
use crate::launch::secret::looks_like_key_literal;
use crate::launch::{self, request};
use crate::log;
use crate::log::sweep::{Array, Pair};
use crate::plan::{Policy, Spans};
use crate::say::{err, out};
use crate::scheduler::slurm::Slurm;
use crate::scheduler::{Limits, SubmitRefusal, Submitted, limit_name};
use crate::settings::{self, Layer, Origin, Settings, Sources, Value};
use crate::sweep::{Method, SweepSpec};

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
    /// Runs that one task does, one after the other [default: 1]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    runs_per_job: Option<u32>,
    /// Agents of each job: one, one on each node, or one on each rank, whose runs are independent [default: job]
    #[arg(long, value_name = "WHERE", value_parser = ["job", "node", "task"])]
    agents: Option<String>,
    /// The sweep's name [default: the file's `name`, or its own]
    #[arg(long)]
    name: Option<String>,
    /// Where runs come from; only `embedded` is built so far
    #[arg(long, value_parser = ["embedded"])]
    controller: Option<String>,
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
    /// A script template of your own; `sweepctl template eject` writes ours out
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Refuse a sweep that may take more GPU hours than this
    #[arg(long, value_name = "H")]
    max_gpu_hours: Option<f64>,
    /// Print the sweep's name alone on stdout
    #[arg(long)]
    quiet: bool,
    /// Start another sweep although the same one is under way
    #[arg(long)]
    new: bool,
    /// Tries at a run that machines or people took, before it is given up [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_attempts: Option<u32>,
    /// Runs that may start before one has lived for a minute; 0: no such caution [default: 4]
    #[arg(long, value_name = "N")]
    warmup: Option<u32>,
    /// SLURM may start a task again by itself [the default]
    #[arg(long, overrides_with = "no_requeue")]
    requeue: bool,
    /// SLURM does not start a task again by itself
    #[arg(long)]
    no_requeue: bool,
    /// Read metrics from the program's output: `name=value` and JSON lines
    #[arg(long, value_name = "SOURCE", value_parser = ["stdout"])]
    metrics: Option<String>,
    /// Seconds that processes of a program may outlive its end [default: 30]
    #[arg(long, value_name = "SECONDS")]
    linger: Option<u32>,
    /// The set of settings to use, of those under `profiles:` in settings files
    #[arg(long = "profile", value_name = "NAME")]
    settings_profile: Option<String>,
    /// SLURM's cluster, as for sbatch
    #[arg(short = 'M', long, value_name = "NAME")]
    clusters: Option<String>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    around: AroundArgs,
    #[command(flatten)]
    request: SbatchArgs,
    /// More options for sbatch, after `--`
    #[arg(last = true, value_name = "SBATCH OPTIONS")]
    more: Vec<String>,
}

impl SubmitArgs {
    /// The same, without doing anything.
    pub(super) fn dry_run(mut self: Box<Self>) -> Self {
        self.dry_run = true;
        *self
    }
}

/// The settings of this call in the folder: files, variables and flags.
pub(super) fn sources(args: &SubmitArgs, folder: &Path) -> Result<Sources, Failure> {
    let (by_variables, typed) = options(args)?;
    let (variables, profile) = super::config::variables()?;
    let profile = args.settings_profile.clone().or(profile);
    let flags = flags(args, folder)?;
    let read = |by_variables: Vec<Given>| {
        let variables = Layer { options: by_variables, ..variables.clone() };
        let flags = Layer { options: typed.clone(), ..flags.clone() };
        Sources::read(folder, profile.as_deref(), variables, flags).map_err(super::config::failure)
    };
    let sources = read(by_variables)?;
    // SBATCH_* variables speak of jobs, of which a local sweep has none.
    let local =
        sources.effective.get("local").is_some_and(|found| found.value == Value::Switch(true));
    if local { read(Vec::new()) } else { Ok(sources) }
}

/// What the flags say of settings.
fn flags(args: &SubmitArgs, here: &Path) -> Result<Layer, Failure> {
    let text = |text: &Option<String>| text.clone().map(Value::Text);
    let path = |path: &Option<PathBuf>| {
        path.as_ref().map(|path| Value::Text(path.to_string_lossy().into_owned()))
    };
    let requeue = match (args.requeue, args.no_requeue) {
        (_, true) => Some(false),
        (true, false) => Some(true),
        (false, false) => None,
    };
    let mut layer = Layer::default();
    for (key, value) in [
        ("jobs", args.jobs.map(Value::Count)),
        ("parallel", args.parallel.map(Value::Count)),
        ("runs-per-job", args.runs_per_job.map(Value::Count)),
        ("agents", args.agents.clone().map(Value::Text)),
        ("max-attempts", args.max_attempts.map(Value::Count)),
        ("warmup", args.warmup.map(Value::Count)),
        ("requeue", requeue.map(Value::Switch)),
        ("metrics", text(&args.metrics)),
        ("linger", args.linger.map(Value::Count)),
        ("max-gpu-hours", args.max_gpu_hours.map(Value::Amount)),
        ("state-dir", path(&args.place.state_dir)),
        ("template", path(&args.template)),
        ("controller", text(&args.controller)),
        ("local", args.local.then_some(Value::Switch(true))),
        ("clusters", text(&args.clusters)),
    ] {
        layer.set(key, value, Origin::Flag);
    }
    args.around.add_to(&mut layer, here)?;
    Ok(layer)
}

/// Refuses what the site does not want.
fn check_settings(args: &SubmitArgs, settings: &Settings, state_dir: &Path) -> Result<(), Failure> {
    let floors = &settings.floors;
    let refused = |text: String, help: String| Err(Failure::new(code::SWEEP_FILE, text).help(help));
    if !floors.allow_state_dir(state_dir) {
        let dirs: Vec<String> =
            floors.state_dirs.iter().map(|dir| dir.display().to_string()).collect();
        let dirs = dirs.join(" or ");
        return refused(
            format!(
                "this site wants state folders in {dirs}, and this one would be {}",
                state_dir.display()
            ),
            format!("submit from a folder in {dirs}, or name one there with --state-dir"),
        );
    }
    if settings.local {
        if args.detach {
            let text = "--detach is for jobs of SLURM, and this sweep is local";
            return Err(Failure::new(code::COMMAND_LINE, text));
        }
        return Ok(());
    }
    let missing = floors.missing(&settings.options);
    if !missing.is_empty() {
        let flags: Vec<String> = missing.iter().map(|name| format!("--{name}")).collect();
        return refused(
            format!("this site wants each job to give {}", flags.join(" and ")),
            format!(
                "give it here, or `slurm: {{{}: ...}}` in {}",
                missing[0],
                settings::PROJECT_FILE
            ),
        );
    }
    if floors.no_watchers && !args.detach && !args.dry_run {
        return Err(super::config::no_watchers("submit --detach"));
    }
    Ok(())
}

/// sbatch's options by `SBATCH_*` variables, and as typed before `--` and after it.
fn options(args: &SubmitArgs) -> Result<(Vec<Given>, Vec<Given>), Failure> {
    let refused = |error: request::OptionError| Failure::new(code::COMMAND_LINE, error);
    args.request.0.iter().try_for_each(request::check).map_err(refused)?;
    let more = request::read(&args.more)
        .map_err(|error| Failure::new(code::COMMAND_LINE, format!("after `--`: {error}")))?;
    let typed: Vec<Given> = args.request.0.iter().cloned().chain(more).collect();
    if args.local {
        return Ok((Vec::new(), typed));
    }
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
    });
    let (from_variables, unused) = request::from_variables(variables);
    if !unused.is_empty() {
        let names: Vec<String> = unused.iter().map(|name| format!("`{name}`")).collect();
        err!("warning: {} of this shell not used: a sweep has no use for it", names.join(", "));
    }
    Ok((from_variables, typed))
}

/// Starts a sweep.
pub(super) async fn run(args: SubmitArgs) -> Result<u8, Failure> {
    let here = logical_cwd();
    let settings = sources(&args, &here)?.settings();
    let folder = settings.chdir.as_ref().map_or_else(|| here.clone(), |dir| here.join(dir));
    if !folder.is_dir() {
        let text = format!("--chdir {}: there is no such folder", folder.display());
        return Err(Failure::new(code::COMMAND_LINE, text));
    }
    let (spec, text) = read(&args.file, &folder)?;
    if looks_like_key_literal(&String::from_utf8_lossy(&text)) {
        return Err(around::key_refused(&args.file.to_string_lossy()));
    }
    let (mut named, given): (Vec<Given>, Vec<Given>) =
        settings.options.iter().cloned().partition(|given| LOGS.contains(&given.name.as_str()));
    let options: Vec<String> = given.iter().map(Given::word).collect();
    let request = Request::of(&given);
    let agents = settings.agents.map(|gate| Agents {
        gate,
        count: if gate == Gate::Task { request.ranks } else { request.nodes },
    });
    if options.iter().any(|option| looks_like_key_literal(option)) {
        return Err(around::key_refused("an option for sbatch"));
    }
    let (budget, reason) = budget(&args, &settings, agents, &spec)?;
    let mut around = around::of(&settings, &here)?;
    around.agents = agents;
    let asked = asked(&args, &settings, &text, &(&options, &folder, &around));
    let state_dir = match &settings.state_dir {
        Some(dir) => super::absolute(dir),
        None => here.join(STATE_DIR),
    };
    check_settings(&args, &settings, &state_dir)?;
    let name = launch::slug(&args.name.clone().or(spec.name.clone()).unwrap_or_else(|| {
        args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }));
    let mut log_name = |which: &str| {
        let last = named.iter().rposition(|given| given.name == which)?;
        named.swap_remove(last).value
    };
    around.output = log_name("output");
    around.error = log_name("error");
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
            max_attempts: settings.max_attempts,
            warmup: settings.warmup,
            jobs: settings.floors.tasks(settings.jobs.filter(|_| !args.detach)),
            parallel: settings.parallel,
            runs_per_job: settings.runs_per_job,
            agents: agents.map_or(1, |agents| agents.count),
            max_array_size: u32::MAX,
            job_name: name,
            spans: spans(settings.local),
        },
        runs_on: RunsOn::Slurm(settings.clusters.clone()),
        options,
        around,
        template: settings.template.as_deref().map(template::read).transpose()?,
        requeue: settings.requeue,
        linger: settings.linger,
        metrics_from_stdout: settings.metrics.is_some(),
        asked: asked.clone(),
        created: log::now(),
    };
    err!("{}: {budget} runs ({reason}); the sweep lives in {}", file.name, state_dir.display());
    fill_in_logs(&mut file, settings.local)?;
    let jobs = u64::from(budget.div_ceil(file.policy.slots_per_task()));
    if !settings.local {
        // Ranks that have an agent each are used.
        let ranks = if agents.is_some() { Ranks::Started } else { ranks(&file) };
        report(request::remarks(&given, ranks))?;
        warn_of_environment(&file.around);
    }
    if args.dry_run {
        if !settings.local {
            say_plan(&settings, &given, (jobs, agents), &[])?;
        }
        let commands = first_commands(&file);
        err!(
            "its first runs{}:",
            if file.spec.method == Method::Random && args.seed.is_none() {
                ", whose values --seed would fix"
            } else {
                ""
            }
        );
        for command in commands {
            err!("  {command}");
        }
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
    if !settings.local
        && [&folder, &state_dir].iter().any(|dir| dir.to_string_lossy().contains('\\'))
    {
        let text = "SLURM cannot write logs where a folder's name has a backslash";
        return Err(Failure::new(code::COMMAND_LINE, text).help("rename the folder"));
    }
    prepare(&state_dir)?;
    let slurm = if settings.local {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        file.runs_on = RunsOn::Local(settings.parallel.unwrap_or(cores));
        file.policy.max_array_size = 1000;
        None
    } else {
        let (slurm, limits, partitions) = check_with_slurm(&state_dir, &file, &given).await?;
        say_plan(&settings, &given, (jobs, agents), &partitions)?;
        file.policy.max_array_size = limits.max_array_size.min(limits.max_array_tasks);
        Some((slurm, limits))
    };
    let sweep = OpenSweep::create(&state_dir, file)?;
    environment::save(&sweep.dir).map_err(|error| {
        Failure::new(code::UNEXPECTED, format!("cannot save the environment: {error}"))
    })?;
    say_what_stays_here();
    if args.quiet {
        out!("{}", sweep.file.name);
    }
    let driver = Driver::with(sweep, slurm, settings.floors);
    if args.detach { detach(driver).await } else { watch::run(driver, args.quiet).await }
}

/// A program that misses its key fails in its first second, on another machine: better said here.
fn say_what_stays_here() {
    let names = environment::left_out();
    if !names.is_empty() {
        let names: Vec<String> =
            names.iter().map(|name| format!("`{}`", name.escape_debug())).collect();
        err!(
            "warning: jobs do not get {}, as secrets are not stored; a program that needs one can read it from a \
             file of mode 600, for example by `sh -c '. FILE; exec ...'` in the sweep file's `command`",
            names.join(", ")
        );
    }
}

fn spans(local: bool) -> Spans {
    #[cfg(feature = "abort-hook")]
    if let Some(seconds) = std::env::var("SWEEPCTL_SPANS").ok().and_then(|text| text.parse().ok()) {
        return Spans { void: seconds, gone: seconds, dead: seconds, beat: seconds };
    }
    if local { Spans { void: 2, gone: 1, dead: 2, beat: 900 } } else { Spans::default() }
}

/// The sweep, if the embedded controller can run it; all that is wrong with it is printed.
fn read(path: &Path, folder: &Path) -> Result<(SweepSpec, Vec<u8>), Failure> {
    let checked = Checked::of(path, folder)?.with_embedded_controller();
    checked.print_problems();
    match checked.check.spec {
        Some(spec) => Ok((spec, checked.text)),
        None => Err(checked.failure()),
    }
}

/// The smallest of what was asked, run_cap and the grid; else what the jobs make.
fn budget(
    args: &SubmitArgs,
    settings: &Settings,
    agents: Option<Agents>,
    spec: &SweepSpec,
) -> Result<(u32, String), Failure> {
    let limits = [
        (args.budget.map(u64::from), "--budget"),
        (spec.run_cap, "run_cap"),
        (spec.grid_size(), "the whole grid"),
    ];
    let smallest =
        limits.iter().filter_map(|(limit, word)| limit.map(|limit| (limit, *word))).min();
    let (budget, reason) = match (smallest, settings.jobs) {
        (Some((limit, word)), _) => (limit, word.to_owned()),
        (None, Some(jobs)) => {
            let agents = agents.map_or(1, |agents| agents.count);
            let each = settings.runs_per_job.saturating_mul(agents);
            let all = u64::from(jobs) * u64::from(each);
            (all, format!("{jobs} jobs with {each} each, as the file sets no end"))
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
fn asked(
    args: &SubmitArgs,
    settings: &Settings,
    text: &[u8],
    jobs: &dyn std::fmt::Debug,
) -> String {
    let parts = format!(
        "{:?} {:?} {:?} {} {:?} {:?} {:?} {jobs:?} {:?}",
        settings.jobs,
        settings.parallel,
        args.budget,
        settings.runs_per_job,
        args.name,
        args.seed,
        settings.local,
        settings.template
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
    render_script(dir, file, 0, array).map_err(|error| Failure::new(code::SWEEP_FILE, error))
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
async fn check_with_slurm(
    state_dir: &Path,
    file: &SweepFile,
    given: &[Given],
) -> Result<(Slurm, Limits, Vec<Partition>), Failure> {
    let cluster = match &file.runs_on {
        RunsOn::Slurm(cluster) => cluster.clone(),
        RunsOn::Local(_) => None,
    };
    let slurm = Slurm::new(cluster).await.map_err(|error| {
        Failure::new(code::SLURM, error)
            .help("without SLURM, `--local` runs the sweep on this machine")
    })?;
    let array = Array {
        name: file.policy.job_name.clone(),
        tasks: Vec::new(),
        throttle: 0,
        throttle_warm: 0,
    };
    let dir = state_dir.join("sweeps").join(&file.name);
    let script = state_dir.join(format!(".tmp.{}.sbatch", log::nonce()));
    let text = script_text(&dir, file, &array)?;
    state::replace_whole(&script, text.as_bytes()).map_err(|error| {
        Failure::new(code::UNEXPECTED, format!("{}: {error}", script.display()))
    })?;
    let env: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| environment::is_kept(&name.to_string_lossy()))
        .collect();
    // Side by side: all only ask, and none needs another's answer.
    let one_task = ["--array=0".into()];
    let (limits, partitions, answer) = tokio::join!(
        slurm.limits(),
        slurm.partitions(),
        slurm.test_only(&one_task, &script, env, &file.folder)
    );
    let _ = fs::remove_file(&script);
    let limits = limits.map_err(|error| {
        let help =
            error.hint().unwrap_or("without SLURM, `--local` runs the sweep on this machine");
        Failure::new(code::SLURM, error).help(help)
    })?;
    let partitions = partitions.map_err(|error| Failure::new(code::SLURM, error))?;
    report(request::time_remark(given, &partitions).into_iter().collect())?;
    match answer {
        Ok(estimate) => {
            if !estimate.is_empty() {
                err!("{estimate}");
            }
        }
        Err(Submitted::Refused { kind: SubmitRefusal::Limit, text }) => {
            let limit = limit_name(&text);
            err!("SLURM takes no job of yours now ({limit}); this will be tried again");
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
    Ok((slurm, limits, partitions))
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
        driver.rest(driver.least_pause()).await;
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
