//! The command line: one file for each command that does more than one thing.

mod around;
mod check;
mod config;
mod init;
mod plan;
mod sbatch_args;
mod submit;
mod template;
mod watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::drive::state::{self, OpenSweep};
use crate::drive::{DriveError, Driver, environment, look};
use crate::job::setup::{Held, Setup};
use crate::job::task::{self, Me};
use crate::launch;
use crate::launch::agents::Agents;
use crate::log::sweep::{Entry, Sweep};
use crate::log::{self, Log};
use crate::say::{err, out};
use crate::search;
use crate::settings::Floors;
use crate::sweep as sweep_file;
use crate::view::{Facts, QueueView, SweepView};

/// Exit codes, as the reference documents them.
mod code {
    pub(super) const UNEXPECTED: u8 = 1;
    pub(super) const COMMAND_LINE: u8 = 2;
    pub(super) const SWEEP_FILE: u8 = 3;
    pub(super) const SLURM: u8 = 4;
    pub(super) const NOT_REACHED: u8 = 6;
    pub(super) const INTERRUPTED: u8 = 130;
}

/// Runs hyperparameter sweeps on SLURM clusters: exactly the budget, one agent per job
#[derive(Parser, Debug)]
#[command(
    name = "sweepctl",
    version,
    after_help = "Exit codes: 0 ok, 1 unexpected, 2 command line, 3 sweep file, settings or request invalid, \
                  4 SLURM refused or absent, 6 budget not reached or runs failed, 130 interrupted"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Say all that is wrong with a sweep file, and what it would run
    Check(check::CheckArgs),
    /// Start a sweep and watch it until its budget is used up
    Submit(Box<submit::SubmitArgs>),
    /// Print the script that `submit` would give to sbatch, and do nothing
    Render(Box<submit::SubmitArgs>),
    /// See the settings that files, variables and flags come to
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// Write a first sweepctl.yaml from what this cluster says, and a first sweep file
    Init(init::InitArgs),
    /// See, write out and check the templates of scripts
    #[command(subcommand)]
    Template(template::TemplateCommand),
    /// Watch a sweep and keep its jobs topped up; Ctrl-C ends watching, not the jobs
    ///
    /// One watcher at a time does so: a second one shows how the sweep goes, and takes over when the first one ends.
    Watch(Named),
    /// Look, top up and tidy once, as `watch` does all the time
    Tick(Named),
    /// Show how far sweeps have come, and why tasks wait; changes nothing
    Status(StatusArgs),
    /// Start no further run of a sweep; what runs goes on
    Pause(Named),
    /// Go on with a paused or stopped sweep
    Resume(Named),
    /// End a sweep early: what runs may finish, nothing more is started
    Stop(Named),
    /// End a sweep now: what runs is ended too
    Cancel(Named),
    /// Take open runs of a sweep by hand, in this shell
    Agent(AgentArgs),
    /// What job scripts call
    #[command(subcommand, hide = true)]
    Job(JobCommand),
}

/// Which sweep.
#[derive(clap::Args, Debug)]
struct Named {
    /// The sweep's name; not needed if only one is under way
    name: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args, Debug)]
struct Place {
    /// The state folder, if it is not .sweepctl here or above
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct StatusArgs {
    #[command(flatten)]
    named: Named,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show one run, by its id or its slot's number: what it was started with, and where its log is
    #[arg(long, value_name = "RUN", conflicts_with = "json")]
    run: Option<String>,
}

#[derive(clap::Args, Debug)]
struct AgentArgs {
    /// Runs to take, at most
    #[arg(long, default_value_t = 1, value_name = "N")]
    count: u32,
    #[command(flatten)]
    named: Named,
}

#[derive(Subcommand, Debug)]
enum JobCommand {
    /// Stand around the agent of an array task: claim, run, record
    Run {
        /// The sweep's folder
        #[arg(long)]
        dir: PathBuf,
        /// Number of the array in the sweep log
        #[arg(long)]
        array: u32,
        /// Several agents, as `task:4` or `node:2`: a step of the job starts them
        #[arg(long)]
        agents: Option<Agents>,
        /// This process is one of that step
        #[arg(long)]
        in_step: bool,
        /// The shell of the set-up lines [default: bash]
        #[arg(long, allow_hyphen_values = true)]
        shell: Option<String>,
        /// A line for that shell, between the claim and the agent
        #[arg(long, allow_hyphen_values = true)]
        set_up: Vec<String>,
        /// A line for that shell, after the last run
        #[arg(long, allow_hyphen_values = true)]
        teardown: Vec<String>,
        /// The agent: `sweepctl agent --count N SWEEP`
        #[arg(last = true, required = true)]
        agent: Vec<String>,
    },
}

/// An error with its exit code: one line, and what to do next if that is known.
#[derive(Debug)]
struct Failure {
    code: u8,
    text: String,
    help: Option<String>,
}

impl Failure {
    fn new(code: u8, text: impl ToString) -> Self {
        Self { code, text: text.to_string(), help: None }
    }

    fn help(mut self, help: impl ToString) -> Self {
        self.help = Some(help.to_string());
        self
    }
}

impl From<state::StateError> for Failure {
    fn from(error: state::StateError) -> Self {
        use state::StateError::{NoState, NoSweep, Which};
        match error {
            NoState { .. } => Self::new(code::COMMAND_LINE, error)
                .help("go to the folder where you submitted, or name it with --state-dir"),
            NoSweep { .. } | Which { .. } => Self::new(code::COMMAND_LINE, error),
            error => Self::new(code::UNEXPECTED, error),
        }
    }
}

impl From<log::LogError> for Failure {
    fn from(error: log::LogError) -> Self {
        Self::new(code::UNEXPECTED, error)
    }
}

impl From<DriveError> for Failure {
    fn from(error: DriveError) -> Self {
        let code = match error {
            DriveError::Slurm(_) | DriveError::Refused { .. } => code::SLURM,
            DriveError::Render(_) | DriveError::Site(_) => code::SWEEP_FILE,
            _ => code::UNEXPECTED,
        };
        let help = match &error {
            DriveError::Slurm(slurm) => slurm.hint(),
            _ => None,
        };
        let failure = Self::new(code, error);
        match help {
            Some(help) => failure.help(help),
            None => failure,
        }
    }
}

/// Parses the command line, runs the command, and answers its exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { code::COMMAND_LINE } else { 0 });
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            err!("error: cannot start: {error}");
            return ExitCode::from(code::UNEXPECTED);
        }
    };
    match runtime.block_on(run(cli.command)) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            err!("error: {}", failure.text);
            if let Some(help) = failure.help {
                err!("help: {help}");
            }
            ExitCode::from(failure.code)
        }
    }
}

async fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Check(args) => check::run(&args),
        Command::Submit(args) => submit::run(*args).await,
        Command::Render(args) => submit::run(args.dry_run()).await,
        Command::Config(command) => config::run(command),
        Command::Init(args) => init::run(args).await,
        Command::Template(command) => template::run(command),
        Command::Watch(named) => {
            let sweep = named.open()?;
            if !is_local(&sweep) && floors()?.no_watchers {
                let name = &sweep.file.name;
                return Err(config::no_watchers(&format!("tick {name}")));
            }
            watch::run(Driver::new(sweep).await?, false).await
        }
        Command::Tick(named) => {
            let sweep = named.open()?;
            if is_local(&sweep) {
                // A tick's tasks would end with it.
                watch_hint(&sweep);
                out!("{}", view(&sweep).line());
                return Ok(0);
            }
            let mut driver = Driver::new(sweep).await?;
            driver.rest_since_last_look().await;
            loop {
                let tick = driver.tick().await?;
                for said in tick.said {
                    err!("{said}");
                }
                // The next process would begin anew with more than SLURM takes.
                if !tick.closing_in {
                    break;
                }
                driver.rest(driver.least_pause()).await;
            }
            out!("{}", view(&driver.sweep).line());
            Ok(0)
        }
        Command::Status(args) => status(&args).await,
        Command::Pause(named) => {
            let entry = |sweep: &Sweep| {
                let why = "paused by hand; `sweepctl resume` goes on".to_owned();
                (!sweep.stopped()).then_some(Entry::Pause { why, breaker: false })
            };
            command_entry(named.open()?, entry).await
        }
        Command::Resume(named) => {
            let sweep = named.open()?;
            let budget = sweep.budget();
            let entry = |sweep: &Sweep| sweep.stopped().then_some(Entry::Budget { budget });
            // The shell that goes on is where the fault was mended: its environment is the jobs' from now on.
            let _ = environment::save(&sweep.dir);
            if is_local(&sweep) && (sweep.log.state.stopped() || !sweep.log.state.closed) {
                watch_hint(&sweep);
            }
            command_entry(sweep, entry).await
        }
        Command::Stop(named) => command_entry(named.open()?, |sweep| end(sweep, false)).await,
        Command::Cancel(named) => command_entry(named.open()?, |sweep| end(sweep, true)).await,
        Command::Agent(args) => {
            let sweep = args.named.open()?;
            let dir = sweep.dir.clone();
            if is_local(&sweep) {
                // Nobody may be left who sees that a watcher was killed.
                for said in Driver::with(sweep, None, floors()?).take_back().await? {
                    err!("{said}");
                }
            }
            task::by_hand(&dir, args.count).await.map_err(task_failure)
        }
        Command::Job(JobCommand::Run {
            dir,
            array,
            agents,
            in_step,
            shell,
            set_up,
            teardown,
            agent,
        }) => {
            if agent.first().map(String::as_str) != Some("sweepctl") {
                let text = format!("cannot run the agent `{}`", agent.join(" "));
                return Err(Failure::new(code::COMMAND_LINE, text)
                    .help("only `sweepctl agent` is built so far; W&B's own agent comes later"));
            }
            let me = Me::from_env(array, |name| std::env::var(name).ok())
                .map_err(|text| Failure::new(code::COMMAND_LINE, text))?;
            let shell = shell.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
            let setup = Setup { shell, lines: set_up, teardown };
            let held = Held::from_env(|name| std::env::var(name).ok());
            let side = match agents {
                Some(agents) if in_step => Some(
                    agents
                        .of_this_process(|name| std::env::var(name).ok())
                        .map_err(|text| Failure::new(code::COMMAND_LINE, text))?,
                ),
                Some(agents) => {
                    return task::run_agents(&dir, &me, agents).await.map_err(task_failure);
                }
                None => None,
            };
            task::run(&dir, me, side, setup, held).await.map_err(task_failure)
        }
    }
}

/// What the site demands.
fn floors() -> Result<Floors, Failure> {
    Floors::of_this_machine().map_err(config::failure)
}

fn is_local(sweep: &OpenSweep) -> bool {
    matches!(sweep.file.runs_on, state::RunsOn::Local(_))
}

fn watch_hint(sweep: &OpenSweep) {
    let name = &sweep.file.name;
    err!("this sweep runs only while a shell here watches it: `sweepctl watch {name}`");
}

fn task_failure(error: task::TaskError) -> Failure {
    Failure::new(task::UNDECIDED, error)
}

fn end(sweep: &Sweep, kill: bool) -> Option<Entry> {
    let done =
        sweep.closed || sweep.cancelled.as_ref().is_some_and(|(_, killing)| *killing || !kill);
    let why = if kill { "cancelled by hand" } else { "stopped by hand" };
    (!done).then(|| Entry::Cancel { why: why.to_owned(), kill })
}

/// Appends what a command says to the sweep log, then looks once so that it takes effect.
async fn command_entry(
    mut sweep: OpenSweep,
    entry: impl Fn(&Sweep) -> Option<Entry>,
) -> Result<u8, Failure> {
    let patience = std::time::Duration::from_secs(30);
    let log = Log::of_sweep(&sweep.dir);
    let said = log.append(&mut sweep.log, patience, |sweep: &Sweep| entry(sweep))?;
    if !said {
        out!("{}: nothing to change", sweep.file.name);
    }
    // A local sweep is looked after by the shell that watches it, but an end needs none that does.
    if !is_local(&sweep) || sweep.log.state.cancelled.is_some() {
        let name = sweep.file.name.clone();
        let mut driver = Driver::new(sweep).await.map_err(|error| {
            // Tasks read it in the sweep's folder, also while slurmctld is away.
            Failure::from(error).help(format!(
                "it is written down all the same; `sweepctl tick {name}` does SLURM's part later"
            ))
        })?;
        for _ in 0..2 {
            for said in driver.tick().await?.said {
                err!("{said}");
            }
        }
        sweep = driver.sweep;
    }
    out!("{}", view(&sweep).line());
    Ok(0)
}

async fn status(args: &StatusArgs) -> Result<u8, Failure> {
    if let Some(run) = &args.run {
        out!("{}", one_run(&args.named.open()?, run)?);
        return Ok(0);
    }
    let state_dir = args.named.place.find()?;
    let names = match &args.named.name {
        Some(name) => vec![name.clone()],
        None => {
            for error in state::unreadable(&state_dir) {
                err!("warning: {error}");
            }
            state::names(&state_dir)
        }
    };
    let mut sweeps = Vec::new();
    for name in &names {
        sweeps.push(OpenSweep::find(&state_dir, Some(name))?);
    }
    let mut views: Vec<SweepView> = sweeps.iter().map(view).collect();
    add_queue(&state_dir, &sweeps, &mut views).await;
    if args.json {
        let json = serde_json::json!({ "schema_version": 1, "sweeps": views });
        out!("{json:#}");
    } else if views.is_empty() {
        out!("no sweep yet");
    } else {
        let texts: Vec<String> = views.iter().map(SweepView::text).collect();
        out!("{}", texts.join("\n\n"));
    }
    Ok(0)
}

/// What there is to say of one run: its command above all, as its agent started it.
fn one_run(sweep: &OpenSweep, wanted: &str) -> Result<String, Failure> {
    let file = &sweep.file;
    let view = view(sweep);
    let is_wanted = |run: &&crate::view::RunView| {
        state::run_id(&file.nonce, run.slot) == wanted || run.slot.to_string() == wanted
    };
    let Some(run) = view.runs.iter().find(is_wanted) else {
        let text = format!("{} has had no run `{wanted}` so far", file.name);
        return Err(Failure::new(code::COMMAND_LINE, text)
            .help("`sweepctl status --json` lists those that there are"));
    };
    let last = sweep.slots().nth(run.slot as usize).and_then(|slot| slot.last.clone());
    let (leg, log) = last
        .map_or((0, None), |who| (who.leg, Some(state::log_path(&sweep.dir, who.array, who.task))));
    let run_dir = state::run_dir(&sweep.dir, run.slot, run.attempt, leg);
    let json_file = run_dir.join("args.json").to_string_lossy().into_owned();
    let envvar = |name: &str| std::env::var(name).ok();
    let argv =
        sweep_file::argv(&file.spec, &run.config, file.around.interpreter(), &json_file, &envvar);
    let command: Vec<String> = argv.iter().map(|word| launch::quote(word)).collect();
    let mut lines = vec![format!(
        "{}, run {} (slot {}): {}",
        file.name,
        state::run_id(&file.nonce, run.slot),
        run.slot,
        run.state
    )];
    let mut add = |name: &str, value: Option<String>| {
        lines.extend(value.map(|value| format!("  {name:8} {value}")));
    };
    add("command", Some(command.join(" ")));
    add("exit", run.exit.map(|code| code.to_string()));
    add("job", run.job.clone());
    add("host", run.host.clone());
    add("log", log.map(|log| log.display().to_string()));
    add("files", Some(run_dir.display().to_string()));
    add("lost", run.last_loss.clone());
    Ok(lines.join("\n"))
}

/// Adds what SLURM says of waiting tasks: by one look at each cluster, and only where something may wait.
async fn add_queue(state_dir: &Path, sweeps: &[OpenSweep], views: &mut [SweepView]) {
    let waits = |(sweep, view): &(&OpenSweep, &mut SweepView)| {
        let may_wait = view.running + view.pending > 0 && !sweep.jobs().is_empty();
        !is_local(sweep) && !sweep.log.state.closed && may_wait
    };
    let mut waiting: BTreeMap<Option<&str>, Vec<_>> = BTreeMap::new();
    for (sweep, view) in sweeps.iter().zip(views).filter(waits) {
        waiting.entry(sweep.cluster()).or_default().push((sweep, view));
    }
    // A site file that cannot be read demands something that we do not know: not even a look, then.
    let floors = match Floors::of_this_machine() {
        Ok(floors) => floors,
        Err(error) => return err!("warning: {error}: SLURM is not asked"),
    };
    let least = floors.least_pause(1);
    for (cluster, of_cluster) in waiting {
        let sweeps: Vec<&OpenSweep> = of_cluster.iter().map(|(sweep, _)| *sweep).collect();
        let look = look::recent_or_new(state_dir, cluster, &sweeps, least).await;
        if let Err(error) = &look {
            let error = error.to_string().replace('\n', "; ");
            err!("warning: SLURM did not answer ({error}): this is what the logs say");
        }
        for (sweep, view) in of_cluster {
            view.queue = Some(look.as_ref().map_or_else(
                |_| QueueView::default(),
                |look| QueueView {
                    answered: true,
                    age_seconds: look.age().as_secs(),
                    waits: look.waits(sweep).reasons,
                },
            ));
        }
    }
}

/// What people see of a sweep.
fn view(sweep: &OpenSweep) -> SweepView {
    let file = &sweep.file;
    let config = |slot: u32| {
        search::configuration(&file.spec, file.seed, u64::from(slot)).unwrap_or_default()
    };
    let facts = Facts {
        name: &file.name,
        path: sweep.dir.display().to_string(),
        spec: &file.spec,
        config: &config,
        sweep: &sweep.log.state,
        budget: sweep.budget(),
        max_attempts: file.policy.max_attempts,
    };
    SweepView::new(&facts, sweep.slots())
}

impl Named {
    fn open(&self) -> Result<OpenSweep, Failure> {
        Ok(OpenSweep::find_to_watch(&self.place.find()?, self.name.as_deref())?)
    }
}

impl Place {
    fn find(&self) -> Result<PathBuf, state::StateError> {
        match &self.state_dir {
            Some(dir) => Ok(absolute(dir)),
            // Settings that cannot be read are `submit`'s to report: a look at a sweep needs none.
            None => {
                match config::state_dir(&logical_cwd()).filter(|dir| dir.join("sweeps").is_dir()) {
                    Some(dir) => Ok(dir),
                    None => state::find_state_dir(&logical_cwd()),
                }
            }
        }
    }
}

/// The working folder as the shell names it, if that is right: links in it are the user's, and stay.
fn logical_cwd() -> PathBuf {
    let real = std::env::current_dir().unwrap_or_default();
    let named = std::env::var_os("PWD").map(PathBuf::from);
    let same =
        |path: &PathBuf| path.is_absolute() && path.canonicalize().ok() == real.canonicalize().ok();
    named.filter(same).unwrap_or(real)
}

fn absolute(path: &Path) -> PathBuf {
    logical_cwd().join(path)
}
