//! A task, step by step: fence, claim, trial, run, program, record (docs/design/claims.md §7).

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::metrics;
use super::program::{self, Exit, Launch, Signals};
use super::setup::{self, Held, Setup};
use crate::drive::logs;
use crate::drive::state::{self, OpenSweep, RunsOn, StateError};
use crate::launch::agents::{Agents, NOT_FOR_THE_STEP, Side};
use crate::launch::logs::LogName;
use crate::log::slot::{ClaimRule, Claimant, Entry, Outcome, Record, Slot};
use crate::log::sweep::{self, Pair, Sweep};
use crate::log::{self, Fence, Log, LogError, View};
use crate::plan::count_trials;
use crate::say::err;
use crate::{search, sweep as sweep_file};

/// Nothing was decided: SLURM's rows of such a task give no verdict (EX_TEMPFAIL of sysexits.h).
pub const UNDECIDED: u8 = 75;
/// A person asked for runs and a paused sweep gives none: the budget is not reached.
const NOT_DONE: u8 = 6;
/// How long a job tries to write to a file system that gives no clear answer.
const PATIENCE: Duration = Duration::from_secs(300);
/// A run that lived so long shows that the sweep's programs can live.
const LIVES: Duration = Duration::from_secs(60);
/// Between two beats; spread by up to a tenth.
const BEAT: Duration = Duration::from_secs(120);

/// How the job of a task that a person starts is named.
const BY_HAND: &str = "hand.";

/// Which task this process is.
#[derive(Clone, Debug)]
pub struct Me {
    /// Number of the array in the sweep log.
    pub array: u32,
    /// SLURM's array job id.
    pub job: String,
    /// Index in the array.
    pub task: u32,
    /// How often the task was requeued.
    pub leg: u32,
}

impl Me {
    /// Reads SLURM's variables; an error names the one that is missing.
    pub fn from_env(array: u32, var: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let need = |name: &str| {
            var(name).ok_or_else(|| format!("{name} is not set: this command is for array jobs"))
        };
        let number = |name: &str, text: String| {
            text.parse().map_err(|_| format!("{name} is not a number: `{text}`"))
        };
        Ok(Self {
            array,
            job: need("SLURM_ARRAY_JOB_ID")?,
            task: number("SLURM_ARRAY_TASK_ID", need("SLURM_ARRAY_TASK_ID")?)?,
            leg: var("SLURM_RESTART_COUNT")
                .map_or(Ok(0), |text| number("SLURM_RESTART_COUNT", text))?,
        })
    }
}

/// Why a task cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The sweep's folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// A log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The array has no such task.
    #[error("array {array} of this sweep has no task {task}")]
    NoTask {
        /// The array.
        array: u32,
        /// The task.
        task: u32,
    },
    /// Something of this machine.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: std::io::Error,
    },
}

/// What came of one pair.
enum Done {
    /// Its program ended with this exit code, or there was nothing to do.
    Exit(u8),
    /// The task takes no further pair.
    Stop(u8),
}

struct Task {
    sweep: OpenSweep,
    me: Me,
    signals: Signals,
    setup: Setup,
    /// The claim that came with this process through the shell of the set-up lines.
    held: Option<Held>,
    /// Whether the set-up lines have run, or there are none and a run was to begin.
    began: bool,
    /// Whether the log says which interpreter the runs have.
    told: bool,
}

/// Runs what the task carries; answers the exit code.
///
/// `held` is what this process claimed before it became the shell of the set-up lines and itself again.
///
/// `side` tells which agent this is, if the task has several: each takes its share.
pub async fn run(
    dir: &Path,
    me: Me,
    side: Option<Side>,
    setup: Setup,
    held: Option<Held>,
) -> Result<u8, TaskError> {
    let signals = install()?;
    let sweep = OpenSweep::open_for_task(dir)?;
    let array = sweep.log.state.array(me.array);
    let pairs = array.and_then(|array| array.tasks.get(me.task as usize)).cloned();
    let mut pairs = pairs.ok_or(TaskError::NoTask { array: me.array, task: me.task })?;
    if let Some(side) = side {
        pairs = side.share(&pairs);
    }
    if let Some(first) = pairs.first() {
        crate::abort::in_task(&me.job, me.task, me.leg, (first.0, first.1));
    }
    if held.is_none() {
        let time = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
        let agent = side.map(|side| format!(", agent {} of {}", side.index + 1, side.count));
        let agent = agent.unwrap_or_default();
        say(&format!(
            "job {}_{}, leg {}, on {}{agent}, {time}",
            me.job,
            me.task,
            me.leg,
            log::host()
        ));
    }
    let fence = log::set_fence(dir, me.array, Fence::Job(me.job.clone()), PATIENCE)?;
    if fence != Fence::Job(me.job.clone()) {
        say("this array is another job's or void: nothing to do");
        return Ok(0);
    }
    if side.is_none() && own_log(&sweep).is_some_and(|name| !name.is_shared) {
        link_log(&state::log_path(dir, me.array, me.task));
    }
    // What comes before the claimed pair had nothing to do: the lines run before the first run.
    let done = held.as_ref().and_then(|held| pairs.iter().position(|pair| *pair == held.pair));
    let mut task = Task { sweep, me, signals, setup, began: held.is_some(), held, told: false };
    let code = task.pairs(&pairs[done.unwrap_or(0)..]).await;
    if task.began {
        task.setup.tear_down().into_iter().for_each(|said| say(&said));
    }
    code
}

/// Starts the agents of a task as one step, and waits for them; answers the step's exit code.
///
/// The step's processes are this program again: each claims, records and beats for itself.
pub async fn run_agents(dir: &Path, me: &Me, agents: Agents) -> Result<u8, TaskError> {
    let mut signals = install()?;
    let sweep = OpenSweep::open_for_task(dir)?;
    let array = sweep.log.state.array(me.array);
    let pairs = array.and_then(|array| array.tasks.get(me.task as usize));
    let pairs = pairs.ok_or(TaskError::NoTask { array: me.array, task: me.task })?;
    let log = state::log_path(dir, me.array, me.task);
    let logs = log.parent().unwrap_or(dir).to_owned();
    let io = |what: &str| {
        let what = what.to_owned();
        move |source| TaskError::Io { what, source }
    };
    let mut again: Vec<OsString> =
        vec![std::env::current_exe().map_err(io("cannot find this program"))?.into()];
    for word in std::env::args_os().skip(1) {
        let last = word == "--";
        if last && !again.contains(&OsString::from("--in-step")) {
            again.push("--in-step".into());
        }
        again.push(word);
    }
    let var = |name: &str| std::env::var(name).ok();
    let argv = agents.step(pairs.len() as u32, &logs, me.task, var, again);
    say(&format!(
        "job {}_{}, leg {}, on {}: {} agents, whose logs are {}.N.log beside this one",
        me.job,
        me.task,
        me.leg,
        log::host(),
        agents.count.min(pairs.len() as u32),
        me.task
    ));
    let env = std::env::vars_os()
        .filter(|(name, _)| !NOT_FOR_THE_STEP.iter().any(|other| name == other))
        .collect();
    let launch = Launch { linger: Duration::from_secs(5), ..Launch::new(argv, env) };
    let ended = program::start(&launch)
        .await
        .map_err(io("cannot start the agents by srun"))?
        .wait(&mut signals, std::future::pending())
        .await
        .map_err(io("srun"))?;
    let code = match ended.exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    };
    if code != 0 {
        show_ends(&logs, me.task, agents.count);
    }
    Ok(code as u8)
}

/// Prints the end of each agent's log into the task's own, which is where people look.
fn show_ends(logs: &Path, task: u32, count: u32) {
    for agent in 0..count {
        let text = fs::read(logs.join(format!("{task}.{agent}.log"))).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        if !lines.is_empty() {
            say(&format!("agent {} ended with:", agent + 1));
            lines[lines.len().saturating_sub(8)..].iter().for_each(|line| err!("  {line}"));
        }
    }
}

/// Takes open slots by hand, `count` at most, one after the other; answers the exit code.
pub async fn by_hand(dir: &Path, count: u32) -> Result<u8, TaskError> {
    let signals = install()?;
    let job = format!("{BY_HAND}{}.{}.{}", log::host(), std::process::id(), log::nonce());
    let me = Me { array: 0, job, task: 0, leg: 0 };
    let sweep = OpenSweep::open(dir)?;
    let mut task =
        Task { sweep, me, signals, setup: Setup::default(), held: None, began: false, told: false };
    for done in 0..count {
        task.sweep.refresh()?;
        let Some(pair) = task.open_by_hand()? else {
            let name = &task.sweep.file.name;
            if task.sweep.log.state.stopped() && !task.sweep.log.state.closed {
                say(&format!("the sweep is paused or stopped: `sweepctl resume {name}` goes on"));
                return Ok(NOT_DONE);
            }
            if done == 0 {
                say("nothing left to take: every slot has its run, or a job that carries it");
                if matches!(task.sweep.file.runs_on, RunsOn::Slurm(_)) {
                    say(&format!("`sweepctl tick {name}` takes back what dead jobs carry"));
                }
            }
            return Ok(0);
        };
        if let Done::Stop(code) = task.pair(pair).await? {
            return Ok(code);
        }
    }
    Ok(0)
}

fn install() -> Result<Signals, TaskError> {
    Signals::install()
        .map_err(|source| TaskError::Io { what: "cannot catch signals".into(), source })
}

fn say(text: &str) {
    err!("sweepctl: {text}");
}

impl Task {
    /// Takes one pair after the other; answers the exit code of the first that failed.
    async fn pairs(&mut self, pairs: &[Pair]) -> Result<u8, TaskError> {
        let mut worst = 0;
        for pair in pairs {
            match self.pair(*pair).await? {
                Done::Exit(code) => worst = if worst == 0 { code } else { worst },
                Done::Stop(code) => return Ok(code),
            }
        }
        Ok(worst)
    }

    /// Appends an array of one task that this process is, for a slot that nobody carries.
    fn open_by_hand(&mut self) -> Result<Option<Pair>, TaskError> {
        let slots: Vec<Slot> = self.sweep.slots().cloned().collect();
        let fences = self.sweep.fences().clone();
        let max_attempts = self.sweep.file.policy.max_attempts;
        let name = format!("{}-hand", self.sweep.file.policy.job_name);
        let mut taken = None;
        let pick = |sweep: &Sweep| {
            let carried = |pair: &Pair| {
                sweep.arrays.iter().any(|(number, array)| {
                    !matches!(fences.get(number), Some(Fence::Void(_)))
                        && array.tasks.iter().flatten().any(|other| other == pair)
                })
            };
            let open = slots.iter().enumerate().filter(|(_, slot)| {
                slot.phase == crate::log::slot::Phase::Open && !slot.given_up(max_attempts)
            });
            let pair = open
                .map(|(number, slot)| Pair(number as u32, slot.attempt))
                .find(|pair| !carried(pair))
                .filter(|_| !sweep.stopped());
            taken = pair;
            pair.map(|pair| {
                sweep::Entry::Array(sweep::Array {
                    name: format!("{name}-{}", log::nonce()),
                    tasks: vec![vec![pair]],
                    throttle: 0,
                    throttle_warm: 0,
                })
            })
        };
        Log::of_sweep(&self.sweep.dir).append(&mut self.sweep.log, PATIENCE, pick)?;
        if taken.is_some() {
            self.me.array = self.sweep.log.next - 1;
            log::set_fence(
                &self.sweep.dir,
                self.me.array,
                Fence::Job(self.me.job.clone()),
                PATIENCE,
            )?;
        }
        Ok(taken)
    }

    async fn pair(&mut self, pair: Pair) -> Result<Done, TaskError> {
        let held = self.held.take();
        if held.is_none() && self.signal().is_some() {
            say("the job was signalled: it takes no further run");
            return Ok(Done::Stop(0));
        }
        let slot_log = Log::of_slot(&self.sweep.dir, pair.0);
        let mut slot: View<Slot> = View::default();
        let who = Claimant {
            array: self.me.array,
            job: self.me.job.clone(),
            task: self.me.task,
            leg: self.me.leg,
            claim: held.as_ref().map_or_else(log::nonce, |held| held.claim.clone()),
        };
        self.beat(0);
        if held.is_some() {
            slot_log.read_on(&mut slot)?;
        } else if let Some(done) = self.claim(pair, &who, &slot_log, &mut slot)? {
            return Ok(done);
        }
        if !self.may_start(pair, &who).await? {
            // A signal is the machine's or a person's doing, and says nothing about the program.
            let (why, early) = match self.signal() {
                Some(signal) => (format!("the job got signal {signal} before its run"), false),
                None => ("the sweep was stopped before the run".to_owned(), true),
            };
            say(&why);
            self.release(&slot_log, &mut slot, &who, why, early)?;
            return Ok(Done::Stop(0));
        }
        let set_up = held
            .and_then(|held| held.failed)
            .map_or(Ok(()), |failed| Err(self.set_up_failed(failed)));
        let launch = match set_up
            .and_then(|()| self.set_up(pair, &who))
            .and_then(|()| self.launch(pair, &who))
        {
            Ok(launch) => launch,
            Err(why) => {
                say(&why);
                // Before a run has lived, the breaker counts such failures; without it, attempts do.
                let early = !self.sweep.log.state.warm && self.sweep.file.policy.warmup > 0;
                self.release(&slot_log, &mut slot, &who, why, early)?;
                self.trip_if_spent()?;
                return Ok(Done::Stop(1));
            }
        };
        let run = state::run_id(&self.sweep.file.nonce, pair.0);
        let started = slot_log.append(&mut slot, PATIENCE, |slot: &Slot| {
            let ready = slot.held_by(&who.claim) && slot.holder().is_some_and(|h| !h.running);
            ready.then(|| Entry::Run { run: run.clone() })
        })?;
        if !started {
            say("the slot was given away while this task got ready: nothing is started");
            return Ok(Done::Exit(0));
        }
        self.program(pair, &who, &launch, &run, &slot_log, &mut slot).await
    }

    /// Becomes the shell of the set-up lines, if they have not run yet. The error is for people.
    fn set_up(&mut self, pair: Pair, who: &Claimant) -> Result<(), String> {
        let done = std::mem::replace(&mut self.began, true) || self.setup.lines.is_empty();
        if done {
            if !std::mem::replace(&mut self.told, true) {
                let found = |name: &str| {
                    let path = which::which(name).ok();
                    path.map_or_else(|| format!("no {name}"), |path| path.display().to_string())
                };
                let interpreter = self.sweep.file.around.interpreter();
                say(&format!("on PATH: {}, {}", found(interpreter), found("wandb")));
            }
            return Ok(());
        }
        let error = self.setup.become_shell(pair, &who.claim);
        let shell = self.setup.shell.join(" ");
        let shell = if shell.is_empty() { "bash" } else { &shell };
        Err(format!("cannot run the set-up lines by `{shell}`: {error}"))
    }

    /// What there is to say of a set-up line that failed.
    fn set_up_failed(&self, (line, status): (usize, i32)) -> String {
        let text = self.setup.lines.get(line.wrapping_sub(1)).map(String::as_str);
        let text = text.and_then(|text| text.lines().next()).unwrap_or_default();
        match status {
            0 => format!("set-up line {line} left the shell: `{text}`"),
            status => format!("set-up line {line} failed with status {status}: `{text}`"),
        }
    }

    /// Claims the pair, or says what to do instead.
    fn claim(
        &mut self,
        pair: Pair,
        who: &Claimant,
        slot_log: &Log,
        slot: &mut View<Slot>,
    ) -> Result<Option<Done>, TaskError> {
        Log::of_sweep(&self.sweep.dir).read_on(&mut self.sweep.log)?;
        let max_attempts = self.sweep.file.policy.max_attempts;
        let stopped = self.sweep.log.state.stopped();
        let mut rule = ClaimRule::Claim;
        slot_log.append(slot, PATIENCE, |slot: &Slot| {
            rule = slot.claim_rule(pair.1, who, max_attempts);
            match rule {
                ClaimRule::Claim if !stopped => {
                    Some(Entry::Claim { attempt: pair.1, who: who.clone(), run: None })
                }
                // Nobody has it yet: give it back, so that no later look has to find out.
                ClaimRule::Claim if slot.holder().is_none() => Some(Entry::Revoke {
                    attempt: pair.1,
                    why: "the sweep was stopped before the task began".to_owned(),
                    unstarted: false,
                }),
                _ => None,
            }
        })?;
        Ok(match rule {
            ClaimRule::Leave(why) => {
                say(&format!("nothing to do for slot {}: {why}", pair.0));
                Some(Done::Exit(0))
            }
            ClaimRule::Twin => {
                say("this leg of the task was launched before: leaving");
                Some(Done::Stop(UNDECIDED))
            }
            ClaimRule::Claim if stopped => {
                say("the sweep is stopped: nothing is started");
                Some(Done::Stop(0))
            }
            ClaimRule::Claim => None,
        })
    }

    /// §7a: until a run has lived, only so many programs may start. Waits for its turn.
    async fn may_start(&mut self, pair: Pair, who: &Claimant) -> Result<bool, TaskError> {
        let warmup = self.sweep.file.policy.warmup;
        let dir = self.sweep.dir.clone();
        let mut told = false;
        loop {
            let mut go = false;
            let appended =
                Log::of_sweep(&dir).append(&mut self.sweep.log, PATIENCE, |sweep: &Sweep| {
                    let mine = sweep.trials.iter().any(|trial| trial.claim == who.claim);
                    if sweep.stopped() {
                        return None;
                    }
                    go = sweep.warm || warmup == 0 || mine;
                    if go {
                        return None;
                    }
                    let (spent, live) = count_trials(sweep, |slot| read_slot(&dir, slot));
                    if spent + live < warmup {
                        return Some(sweep::Entry::Trial { pair, claim: who.claim.clone() });
                    }
                    (live == 0).then(|| breaker_entry(spent))
                })?;
            if go || self.sweep.log.state.stopped() || self.signal().is_some() {
                return Ok(go && self.signal().is_none());
            }
            if appended {
                continue;
            }
            if !told {
                say("waiting until one of the first runs has lived for a minute");
                told = true;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Stops the sweep if the first starts are all spent: no later task needs to find out.
    fn trip_if_spent(&mut self) -> Result<(), TaskError> {
        let warmup = self.sweep.file.policy.warmup;
        let limit = warmup.min(self.sweep.budget());
        let dir = self.sweep.dir.clone();
        let tripped =
            Log::of_sweep(&dir).append(&mut self.sweep.log, PATIENCE, |sweep: &Sweep| {
                if sweep.warm || sweep.stopped() || warmup == 0 {
                    return None;
                }
                let (spent, live) = count_trials(sweep, |slot| read_slot(&dir, slot));
                (live == 0 && spent >= limit).then(|| breaker_entry(spent))
            })?;
        if tripped {
            say("the first tasks all failed: the sweep is paused");
            self.scontrol(&["uhold", &self.me.job]);
        }
        Ok(())
    }

    fn release(
        &self,
        slot_log: &Log,
        slot: &mut View<Slot>,
        who: &Claimant,
        why: String,
        early: bool,
    ) -> Result<(), TaskError> {
        slot_log.append(slot, PATIENCE, |slot: &Slot| {
            let mine = slot.held_by(&who.claim) && slot.holder().is_some_and(|h| !h.running);
            mine.then(|| Entry::Release { why: why.clone(), early })
        })?;
        Ok(())
    }

    /// The program of a slot: argument list, environment, files. The error is for people.
    fn launch(&self, pair: Pair, who: &Claimant) -> Result<Launch, String> {
        let file = &self.sweep.file;
        let config = search::configuration(&file.spec, file.seed, u64::from(pair.0))
            .ok_or_else(|| format!("the sweep has no configuration number {}", pair.0))?;
        let run_dir = state::run_dir(&self.sweep.dir, pair.0, pair.1, who.leg);
        fs::create_dir_all(&run_dir).map_err(|error| format!("{}: {error}", run_dir.display()))?;
        let write = |name: &str, text: &str| {
            let path = run_dir.join(name);
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>(path)
        };
        let parameters = write("config.yaml", &sweep_file::parameter_file(&config))?;
        let json_file = run_dir.join("args.json");
        let json_path = json_file.to_string_lossy().into_owned();
        let argv =
            sweep_file::argv(&file.spec, &config, file.around.interpreter(), &json_path, &|name| {
                std::env::var(name).ok()
            });
        if argv.contains(&json_path) {
            write("args.json", &serde_json::to_string(&config).unwrap_or_default())?;
        }
        let mut argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
        let mut env: Vec<(OsString, OsString)> = std::env::vars_os()
            .filter(|(name, _)| {
                let name = name.to_string_lossy();
                let ours = name.starts_with("SWEEPCTL_ABORT_") || setup::is_ours(&name);
                let hidden =
                    (file.around.hide_slurm || file.around.agents.is_some()) && is_of_ranks(&name);
                !(ours || hidden || name == "WANDB_SERVICE")
            })
            .collect();
        let mut set = |name: &str, value: OsString| {
            env.retain(|(known, _)| known != name);
            env.push((name.into(), value));
        };
        set("WANDB_SWEEP_ID", state::sweep_id(&file.nonce).into());
        set("WANDB_RUN_ID", state::run_id(&file.nonce, pair.0).into());
        set("WANDB_SWEEP_PARAM_PATH", parameters.into());
        if std::env::var_os("WANDB_MODE").is_none() {
            set("WANDB_MODE", "offline".into());
        }
        set("SWEEPCTL_METRICS", run_dir.join("metrics.jsonl").into());
        set("SWEEPCTL_RUN_DIR", run_dir.into());
        set("SWEEPCTL_SWEEP", file.name.clone().into());
        set("SWEEPCTL_SLOT", pair.0.to_string().into());
        let cwd = std::env::current_dir().map_err(|error| format!("no working folder: {error}"))?;
        if let Some(container) = &file.around.container {
            let mut own = vec![cwd.clone(), state::state_dir_of(&self.sweep.dir).to_owned()];
            own.extend(std::env::var_os("SWEEPCTL_SCRATCH").map(PathBuf::from));
            argv = container.argv(argv, &cwd, &own, &|name| which::which(name).is_ok());
        }
        program::resolve(&argv, &env, &cwd, file.spec.program.as_deref()).map_err(|missing| {
            let mut text = missing.what;
            if let Some(hint) = missing.hint {
                text = format!("{text} ({hint})");
            }
            if file.spec.command.is_none() && text.starts_with("`python`") {
                text += "\nhelp: write `command: [python3, \"${program}\", \"${args}\"]` \
                             into the sweep file, or put `python` on PATH";
            }
            text
        })?;
        Ok(Launch {
            argv,
            env,
            cwd: None,
            linger: Duration::from_secs(file.linger),
            kill_after: Duration::from_secs(10),
            metrics_from_stdout: file.metrics_from_stdout,
            keep_tail: own_log(&self.sweep).is_some_and(|name| name.is_shared),
        })
    }

    async fn program(
        &mut self,
        pair: Pair,
        who: &Claimant,
        launch: &Launch,
        run: &str,
        slot_log: &Log,
        slot: &mut View<Slot>,
    ) -> Result<Done, TaskError> {
        let words: Vec<String> =
            launch.argv.iter().map(|word| crate::launch::quote(&word.to_string_lossy())).collect();
        say(&format!("slot {}, run {run}: {}", pair.0, words.join(" ")));
        let running = match program::start(launch).await {
            Ok(running) => running,
            Err(error) => {
                let record = self.record(run, Outcome::Failed, None, None, None);
                self.end(slot_log, slot, who, record)?;
                say(&format!("cannot start the program: {error}"));
                return Ok(Done::Exit(1));
            }
        };
        let dir = self.sweep.dir.clone();
        let beat = state::beat_path(&dir, who.array, who.task, who.leg);
        // Besides the program: beats, the minute that makes the sweep warm, and the slot's log moving on.
        let stop = watch_over(beat, slot_log.clone(), slot.clone(), who.claim.clone(), pair.0);
        let warm =
            warm_after_a_minute(&dir, pair.0, self.sweep.log.state.warm, self.raise(who.array));
        let ended = {
            let wait = running.wait(&mut self.signals, stop);
            tokio::pin!(wait);
            tokio::pin!(warm);
            tokio::select! {
                ended = &mut wait => ended,
                () = &mut warm => wait.await,
            }
        };
        let ended = ended.map_err(|source| TaskError::Io { what: "the program".into(), source })?;
        if launch.keep_tail {
            let _ = fs::write(state::log_path(&dir, self.me.array, self.me.task), &ended.tail);
        }
        let (exit, signal) = match ended.exit {
            Exit::Code(code) => (Some(code), None),
            Exit::Signal(signal) => (None, Some(signal)),
        };
        if let Some(by) = self.signal() {
            slot_log.append(slot, PATIENCE, |slot: &Slot| {
                slot.held_by(&who.claim).then_some(Entry::Note { signal: by, exit })
            })?;
            if who.job.starts_with(BY_HAND) {
                // No scheduler knows of this task, so nobody else could tell for a long time.
                let why = format!("its agent got signal {by}");
                slot_log.append(slot, PATIENCE, |slot: &Slot| {
                    slot.held_by(&who.claim).then(|| Entry::Lost {
                        why: why.clone(),
                        leg: who.leg,
                        run: None,
                        interrupted: true,
                    })
                })?;
                say(&format!("got signal {by}: the run is given back"));
            } else {
                say(&format!("the job got signal {by}: SLURM tells what becomes of the run"));
            }
            return Ok(Done::Stop(exit.filter(|code| *code != 0).unwrap_or(128 + by) as u8));
        }
        Log::of_sweep(&dir).read_on(&mut self.sweep.log)?;
        let cold = !self.sweep.log.state.warm && self.sweep.file.policy.warmup > 0;
        let outcome = match exit {
            Some(0) => Outcome::Finished,
            _ if cold && ended.elapsed < LIVES => Outcome::FailedFast,
            _ => Outcome::Failed,
        };
        if outcome == Outcome::Finished && cold {
            make_warm(&dir, &mut self.sweep.log, pair.0)?;
            self.raise(who.array)();
        }
        let seconds = Some(ended.elapsed.as_secs_f64());
        let mut record = self.record(run, outcome, exit, signal, seconds);
        let metrics = state::run_dir(&dir, pair.0, pair.1, who.leg).join("metrics.jsonl");
        record.summary = ended.summary;
        record.summary.extend(metrics::summary(&fs::read(metrics).unwrap_or_default()));
        self.end(slot_log, slot, who, record)?;
        if outcome == Outcome::FailedFast {
            self.trip_if_spent()?;
        }
        let how = match outcome {
            Outcome::Finished => "finished".to_owned(),
            Outcome::FailedFast => format!("{} within a minute, and does not count", ended.exit),
            _ => ended.exit.to_string(),
        };
        say(&format!("slot {}: {how}", pair.0));
        Ok(Done::Exit(exit.or(signal.map(|s| 128 + s)).unwrap_or(1) as u8))
    }

    fn record(
        &self,
        run: &str,
        outcome: Outcome,
        exit: Option<i32>,
        signal: Option<i32>,
        seconds: Option<f64>,
    ) -> Record {
        Record {
            counts: outcome != Outcome::FailedFast,
            outcome,
            run: run.to_owned(),
            exit,
            signal,
            seconds,
            host: log::host(),
            summary: Default::default(),
            seen_by: None,
        }
    }

    fn end(
        &self,
        slot_log: &Log,
        slot: &mut View<Slot>,
        who: &Claimant,
        record: Record,
    ) -> Result<(), TaskError> {
        slot_log.append(slot, PATIENCE, |slot: &Slot| {
            Some(slot.end_entry(&who.claim, record.clone()))
        })?;
        Ok(())
    }

    /// The signal that tells this job to end, if one came. CONT does not.
    fn signal(&mut self) -> Option<i32> {
        let cont = rustix::process::Signal::CONT.as_raw();
        self.signals.received().iter().copied().find(|signal| *signal != cont)
    }

    fn beat(&self, count: u64) {
        let path = state::beat_path(&self.sweep.dir, self.me.array, self.me.task, self.me.leg);
        write_beat(&path, count);
    }

    /// What gives the array its full width once the sweep is warm.
    fn raise(&self, array: u32) -> impl FnOnce() + use<> {
        let width =
            self.sweep.log.state.array(array).map(|array| (array.throttle, array.throttle_warm));
        let on_slurm = matches!(self.sweep.file.runs_on, RunsOn::Slurm(_));
        let job = format!("jobid={}", self.me.job);
        move || {
            if let Some((start, warm)) = width
                && start != warm
                && on_slurm
            {
                scontrol(&["update", &job, &format!("arraytaskthrottle={warm}")]);
            }
        }
    }

    fn scontrol(&self, args: &[&str]) {
        if matches!(self.sweep.file.runs_on, RunsOn::Slurm(_)) {
            scontrol(args);
        }
    }
}

/// The user's own name for the logs of jobs, if there is one.
fn own_log(sweep: &OpenSweep) -> Option<LogName> {
    let on_slurm = matches!(sweep.file.runs_on, RunsOn::Slurm(_));
    on_slurm.then(|| logs(&sweep.file, |around| &around.output)).flatten()
}

/// Makes a task's log found where all logs are, too: by a link to what our stderr is.
fn link_log(path: &Path) {
    if let Ok(log) = fs::read_link("/proc/self/fd/2")
        && log.is_file()
    {
        let _ = fs::remove_file(path);
        let _ = std::os::unix::fs::symlink(log, path);
    }
}

/// Asks slurmctld for a favour; the watcher does it if this fails.
fn scontrol(args: &[&str]) {
    let quiet = std::process::Stdio::null;
    let call = std::process::Command::new("scontrol")
        .args(args)
        .stdin(quiet())
        .stdout(quiet())
        .stderr(quiet())
        .spawn();
    if let Ok(mut child) = call {
        let _ = child.wait();
    }
    crate::abort::step();
}

/// Whether a variable tells of ranks: trainers that see it wait for processes that nobody starts.
fn is_of_ranks(name: &str) -> bool {
    const RANKS: [&str; 14] = [
        "SLURM_NTASKS",
        "SLURM_NPROCS",
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_NNODES",
        "SLURM_JOB_NUM_NODES",
        "SLURM_NODELIST",
        "SLURM_JOB_NODELIST",
        "SLURM_TASKS_PER_NODE",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_TASK_PID",
        "SLURM_GTIDS",
        "SLURM_DISTRIBUTION",
    ];
    RANKS.contains(&name) || name.starts_with("SLURM_STEP")
}

fn read_slot(dir: &Path, slot: u32) -> Option<Slot> {
    Log::of_slot(dir, slot).read().ok().map(|view: View<Slot>| view.state)
}

fn breaker_entry(spent: u32) -> sweep::Entry {
    sweep::Entry::Pause {
        why: format!("the first {spent} tasks failed within a minute"),
        breaker: true,
    }
}

fn make_warm(dir: &Path, log: &mut View<Sweep>, slot: u32) -> Result<(), LogError> {
    Log::of_sweep(dir).append(log, PATIENCE, |sweep: &Sweep| {
        (!sweep.warm).then_some(sweep::Entry::Warm { slot })
    })?;
    Ok(())
}

async fn warm_after_a_minute(dir: &Path, slot: u32, warm: bool, raise: impl FnOnce()) {
    tokio::time::sleep(LIVES).await;
    if warm {
        return;
    }
    let mut log = View::default();
    if make_warm(dir, &mut log, slot).is_ok() {
        raise();
    }
}

/// Beats, and resolves when the slot's log has moved on without this leg.
async fn watch_over(beat: PathBuf, slot_log: Log, mut slot: View<Slot>, claim: String, seed: u32) {
    let spread = Duration::from_millis(u64::from(seed % 100) * 120);
    let mut count = 1;
    loop {
        tokio::time::sleep(BEAT - spread).await;
        write_beat(&beat, count);
        count += 1;
        if slot_log.read_on(&mut slot).is_ok() && !slot.state.held_by(&claim) {
            say("this slot was given to another task: ending the program");
            return;
        }
    }
}

fn write_beat(path: &Path, count: u64) {
    let content = format!("{count} {}:{}\n", log::host(), std::process::id());
    if fs::write(path, &content).is_err()
        && let Some(folder) = path.parent()
    {
        let _ = fs::create_dir_all(folder);
        let _ = fs::write(path, content);
    }
}
