//! The user program of a run: started in its own process group, signalled, waited for, cleaned up after.
//!
//! No process of a run outlives [`Running`]. What the program leaves behind is handed to us by the
//! kernel, as we are its subreaper, and is found through `/proc` whatever session it moved to. If we
//! are killed ourselves, the kernel kills the program.
//!
//! One program runs at a time. Other programs that this process starts meanwhile must stay in its
//! own process group: that is how they are told apart from what the run left behind.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::future::{Future, poll_fn};
use std::io::{self, PipeReader, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use indexmap::IndexMap;
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::job::metrics::{self, Row};

/// How long what was killed may take to disappear; only a process stuck in the kernel (a dead file
/// server) needs more, and nothing we do ends it.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// The signals we catch, the mildest first: of two that arrive at once, SLURM's CONT before its
/// TERM, or a USR1 warning before the end, the program gets the mild one first.
const CAUGHT: [Signal; 6] =
    [Signal::CONT, Signal::USR1, Signal::USR2, Signal::HUP, Signal::INT, Signal::TERM];

/// What to run, and how long to be patient with it.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The command, its program first; looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The complete environment.
    pub env: Vec<(OsString, OsString)>,
    /// The working directory; ours if `None`.
    pub cwd: Option<PathBuf>,
    /// How long what the program left behind may go on (W&B's uploads do) before it gets TERM.
    pub linger: Duration,
    /// From TERM to KILL.
    pub kill_after: Duration,
    /// Read metrics from the program's stdout, which is copied to ours all the same.
    pub metrics_from_stdout: bool,
}

impl Launch {
    /// Launches `argv` with exactly the environment `env`, here, with the usual patience.
    #[must_use]
    pub fn new(argv: Vec<OsString>, env: Vec<(OsString, OsString)>) -> Self {
        Self {
            argv,
            env,
            cwd: None,
            linger: Duration::from_secs(30),
            kill_after: Duration::from_secs(10),
            metrics_from_stdout: false,
        }
    }
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

/// What there is to say about a program that ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// How its main process ended.
    pub exit: Exit,
    /// The signals this process got while the program ran or was cleaned up after, in order.
    pub signals: Vec<i32>,
    /// The last value of each metric on its stdout, if [`Launch::metrics_from_stdout`].
    pub summary: IndexMap<String, Value>,
    /// From its start to the end of its main process.
    pub elapsed: Duration,
    /// Processes of the run that outlived even KILL: they are stuck inside the kernel.
    pub left: Vec<u32>,
}

/// Signals caught for this process's whole life. Create once, before anything else.
///
/// Caught are CONT, USR1, USR2, HUP, INT and TERM; from then on none of them ends this process.
#[derive(Debug)]
pub struct Signals {
    streams: Vec<(i32, SignalStream)>,
    received: Vec<i32>,
    /// How many of `received` were handed out.
    handed_out: usize,
}

impl Signals {
    /// Starts to catch; needs a tokio runtime.
    pub fn install() -> io::Result<Self> {
        let stream = |caught: Signal| {
            let number = caught.as_raw();
            Ok((number, signal(SignalKind::from_raw(number))?))
        };
        let streams = CAUGHT.into_iter().map(stream).collect::<io::Result<_>>()?;
        Ok(Self { streams, received: Vec::new(), handed_out: 0 })
    }

    /// The next signal, handed out once each; several of one kind that arrive at once count as one.
    ///
    /// Cancel-safe: a signal is lost to no dropped future.
    pub async fn next(&mut self) -> i32 {
        if self.handed_out == self.received.len() {
            poll_fn(|context| self.poll(context)).await;
        }
        let number = self.received[self.handed_out];
        self.handed_out += 1;
        number
    }

    /// All signals so far, whether handed out or not, without waiting.
    ///
    /// They reach us through the runtime, so await something after a signal to see it here.
    pub fn received(&mut self) -> &[i32] {
        while self.poll(&mut Context::from_waker(Waker::noop())).is_ready() {}
        &self.received
    }

    /// Hands out all that were not, after giving the runtime the chance to bring in the last ones.
    async fn drain(&mut self) -> Vec<i32> {
        tokio::task::yield_now().await;
        let handed_out = self.handed_out;
        self.handed_out = self.received().len();
        self.received[handed_out..].to_vec()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for (number, stream) in &mut self.streams {
            if let Poll::Ready(Some(())) = stream.poll_recv(context) {
                self.received.push(*number);
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

/// A program that was started. Dropping it kills everything the run has started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    pid: Pid,
    started: Instant,
    linger: Duration,
    kill_after: Duration,
    copying: Option<Copying>,
    /// Descendants of ours that were there before the program: none of its business.
    before: HashSet<Identity>,
    /// The kinds of signals that went to the group, each at most once.
    forwarded: Vec<i32>,
    /// Who got TERM.
    termed: HashSet<Identity>,
    /// The main process was reaped: its ID means nothing any more.
    reaped: bool,
    clean: bool,
}

/// Starts the program.
///
/// The kernel ties the program's life to the *thread* that calls this, which must therefore last as
/// long as the program: the main thread, or that of a current-thread runtime.
pub async fn start(launch: &Launch) -> io::Result<Running> {
    let Some((program, arguments)) = launch.argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the command is empty"));
    };
    let us = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(us))?;
    let before = children_of(us, &processes()?, |_| false).iter().map(Process::identity).collect();

    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(launch.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    let output = if launch.metrics_from_stdout {
        let (reader, writer) = io::pipe()?;
        command.stdout(writer);
        Some(reader)
    } else {
        None
    };
    // SAFETY: between fork and exec only plain system calls are allowed. These are two of them:
    // nothing allocates, takes a lock or reads memory that another thread may be changing.
    unsafe {
        command.pre_exec(move || {
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // Had we died before that call, the signal would never come.
            if rustix::process::getppid() == Some(us) { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
    let child = command.spawn()?;
    // It holds the writing end of the pipe, whose end we could never see.
    drop(command);
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let pid = pid.ok_or_else(|| io::Error::other("the program has no process ID"))?;
    let mut running = Running {
        child,
        pid,
        started: Instant::now(),
        linger: launch.linger,
        kill_after: launch.kill_after,
        copying: None,
        before,
        forwarded: Vec::new(),
        termed: HashSet::new(),
        reaped: false,
        clean: false,
    };
    running.copying = output.map(Copying::start).transpose()?;
    Ok(running)
}

impl Running {
    /// The program's process ID, which is also that of its group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_pid().cast_unsigned()
    }

    /// Waits until the program and all it started are gone.
    ///
    /// Signals are forwarded to the program's group, each kind once, also those that came before
    /// this call and were not handed out. When `stop` resolves, the group gets TERM (unless it had
    /// one) and, `kill_after` later, whatever is left of the run gets KILL.
    pub async fn wait(
        mut self,
        signals: &mut Signals,
        stop: impl Future<Output = ()>,
    ) -> io::Result<Ended> {
        let mut stop = pin!(stop);
        let mut children = signal(SignalKind::child())?;
        let mut seen = Vec::new();
        let mut kill_at: Option<Instant> = None;
        let mut killed = false;

        let status = loop {
            let kill_time = kill_at.unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                number = signals.next() => {
                    seen.push(number);
                    self.forward(number)?;
                }
                () = &mut stop, if kill_at.is_none() => {
                    kill_at = Some(Instant::now() + self.kill_after);
                    self.forward(Signal::TERM.as_raw())?;
                }
                () = sleep_until(kill_time), if kill_at.is_some() && !killed => {
                    killed = true;
                    self.kill_all()?;
                }
                status = self.child.wait() => break status?,
                // Orphans that ended while the program goes on must not pile up as zombies.
                _ = children.recv() => drop(self.strays()?),
            }
        };
        self.reaped = true;
        let elapsed = self.started.elapsed();

        let mut stopped = kill_at.is_some();
        let mut term_at = if stopped { Instant::now() } else { Instant::now() + self.linger };
        let mut give_up_at = None;
        let mut pause = Duration::from_millis(2);
        let left = loop {
            let strays = self.strays()?;
            let now = Instant::now();
            if strays.is_empty() || give_up_at.is_some_and(|at| at <= now) {
                break strays;
            }
            if kill_at.is_some_and(|at| at <= now) {
                give_up_at.get_or_insert(now + GIVE_UP_AFTER);
                strays.iter().for_each(|stray| send(stray.pid, Signal::KILL));
            } else if term_at <= now {
                kill_at.get_or_insert(now + self.kill_after);
                for stray in strays.iter().filter(|stray| self.termed.insert(stray.identity())) {
                    send(stray.pid, Signal::TERM);
                }
            }
            tokio::select! {
                biased;
                number = signals.next() => {
                    seen.push(number);
                    self.forward(number)?;
                }
                () = &mut stop, if !stopped => {
                    stopped = true;
                    term_at = Instant::now();
                    let at = term_at + self.kill_after;
                    kill_at = Some(kill_at.map_or(at, |earlier| earlier.min(at)));
                }
                _ = children.recv() => {}
                () = sleep(pause) => pause = (pause * 2).min(Duration::from_millis(200)),
            }
        };
        self.clean = true;

        let summary = match self.copying.take() {
            Some(copying) => copying.finish().await,
            None => Row::new(),
        };
        // The signal that ended the program may have reached us just after its end did.
        seen.extend(signals.drain().await);
        let left = left.iter().map(|stray| stray.pid.as_raw_pid().cast_unsigned()).collect();
        Ok(Ended { exit: status.into(), signals: seen, summary, elapsed, left })
    }

    /// Sends a signal to the group, unless it had one of that kind.
    fn forward(&mut self, number: i32) -> io::Result<()> {
        let Some(signal) = Signal::from_named_raw(number) else { return Ok(()) };
        if self.forwarded.contains(&number) {
            return Ok(());
        }
        self.forwarded.push(number);
        let group = self.pid.as_raw_pid();
        let mut members = self.strays()?;
        members.retain(|stray| stray.group == group);
        if signal == Signal::TERM {
            self.termed.extend(members.iter().map(Process::identity));
        }
        if self.reaped {
            // The group's ID may be another's by now; the members we saw are ours.
            members.iter().for_each(|member| send(member.pid, signal));
        } else if rustix::process::kill_process_group(self.pid, signal).is_err() {
            send(self.pid, signal);
        }
        Ok(())
    }

    fn kill_all(&self) -> io::Result<()> {
        if !self.reaped {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
            send(self.pid, Signal::KILL);
        }
        self.strays()?.iter().for_each(|stray| send(stray.pid, Signal::KILL));
        Ok(())
    }

    /// What the run has started and is still there, but for the main process; reaps what ended.
    ///
    /// Only processes known to be of this run are reaped, by their ID: tokio waits for the others.
    fn strays(&self) -> io::Result<Vec<Process>> {
        let us = rustix::process::getpid();
        // A process that is born and orphaned while we look can hide from one look, not from two.
        for _ in 0..2 {
            if has_no_children() {
                break;
            }
            let mut strays = children_of(us, &processes()?, |process| self.is_foreign(process));
            strays.retain(|stray| !stray.is_main(self) && !stray.is_gone(us));
            if !strays.is_empty() {
                return Ok(strays);
            }
        }
        Ok(Vec::new())
    }

    fn is_foreign(&self, process: &Process) -> bool {
        let us = rustix::process::getpid();
        let in_our_group = process.group == rustix::process::getpgrp().as_raw_pid();
        (process.parent == us.as_raw_pid() && in_our_group)
            || self.before.contains(&process.identity())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.clean {
            return;
        }
        // An error or a dropped future: no time for manners. Whoever was just being started gets
        // the next round.
        for _ in 0..100 {
            if self.kill_all().is_err() || self.strays().is_ok_and(|strays| strays.is_empty()) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Sends a signal to a process that may be gone already.
fn send(pid: Pid, signal: Signal) {
    let _ = rustix::process::kill_process(pid, signal);
}

fn has_no_children() -> bool {
    // NOWAIT: only asks, and takes no child's status away from tokio.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// A process ID and when its process started: unlike the ID alone, never used again.
type Identity = (i32, u64);

/// One process as `/proc` shows it.
#[derive(Debug, Clone, Copy)]
struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    ended: bool,
    /// In clock ticks since the node started.
    start: u64,
}

impl Process {
    /// Parses `/proc/PID/stat`, where the name in parentheses may hold anything.
    fn parse(stat: &[u8]) -> Option<Self> {
        let name_end = stat.iter().rposition(|byte| *byte == b')')?;
        let pid = stat.split(|byte| *byte == b' ').next()?;
        let pid = std::str::from_utf8(pid).ok()?.parse().ok().and_then(Pid::from_raw)?;
        let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            ended: matches!(*fields.first()?, "Z" | "X" | "x"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }

    fn identity(&self) -> Identity {
        (self.pid.as_raw_pid(), self.start)
    }

    fn is_main(&self, running: &Running) -> bool {
        !running.reaped && self.pid == running.pid
    }

    /// Whether it ended; reaps it if that is our duty.
    fn is_gone(&self, us: Pid) -> bool {
        if !self.ended {
            return false;
        }
        if self.parent != us.as_raw_pid() {
            return true;
        }
        // Not ready means that other threads of it still run.
        !matches!(rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG), Ok(None))
    }
}

/// All processes of this node that we may see.
fn processes() -> io::Result<Vec<Process>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        if entry.file_name().as_bytes().iter().all(u8::is_ascii_digit) {
            // Unreadable: it ended since it was listed.
            all.extend(
                fs::read(entry.path().join("stat")).ok().as_deref().and_then(Process::parse),
            );
        }
    }
    Ok(all)
}

/// The descendants of `root` in `all`, without those that `skip` names and their descendants.
fn children_of(root: Pid, all: &[Process], skip: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root.as_raw_pid()];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|process| process.parent == parent && !skip(process)) {
            parents.push(child.pid.as_raw_pid());
            found.push(*child);
        }
    }
    found
}

/// A thread that copies the program's stdout to ours and reads its metrics.
///
/// A thread, as writing to a stdout that nobody empties blocks, and signals must go through still.
#[derive(Debug)]
struct Copying {
    summary: Arc<Mutex<Row>>,
    done: oneshot::Receiver<()>,
}

impl Copying {
    fn start(output: PipeReader) -> io::Result<Self> {
        let summary = Arc::new(Mutex::new(Row::new()));
        let (sender, done) = oneshot::channel();
        let shared = Arc::clone(&summary);
        std::thread::Builder::new().name("stdout".into()).spawn(move || {
            copy(output, &mut io::stdout(), &shared);
            let _ = sender.send(());
        })?;
        Ok(Self { summary, done })
    }

    /// The metrics, once all output is copied; what is stuck behind a stuck stdout is given up.
    async fn finish(self) -> Row {
        let _ = timeout(GIVE_UP_AFTER, self.done).await;
        self.summary.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Copies bytes as they come, and reads lines on the way; a `\r` ends one too (progress bars).
fn copy(mut from: impl io::Read, to: &mut impl io::Write, summary: &Mutex<Row>) {
    let mut lines = metrics::Lines::default();
    let read_line = |line: &[u8]| {
        for part in line.split(|byte| *byte == b'\r') {
            let row = metrics::parse_printed(part);
            summary.lock().unwrap_or_else(PoisonError::into_inner).extend(row);
        }
    };
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                // If nobody reads our stdout any more, the program must go on nevertheless.
                let _ = to.write_all(&buffer[..count]).and_then(|()| to.flush());
                lines.push(&buffer[..count], read_line);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    lines.end(read_line);
}

/// A part of the command that is not on this node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Missing {
    /// What is missing, and where.
    pub what: String,
    /// What could be used instead, or what to do.
    pub hint: Option<String>,
}

/// Where programs are looked for if there is no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// Checks that what execvp would start is there, and the program file too.
///
/// Looks through `env NAME=VALUE python …` and `#!` lines. `env` with options that change how the
/// rest is read, like `-S`, is refused.
pub fn resolve(
    argv: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
    program: Option<&str>,
) -> Result<(), Missing> {
    let node = node_name();
    if !cwd.is_dir() {
        return Err(missing(format!("the folder `{}` is not on {node}", cwd.display()), None));
    }
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let look = Look { node: &node, cwd: cwd.to_owned(), path };
    look.command(argv)?;
    let Some(program) = program else { return Ok(()) };
    let file = cwd.join(program);
    if !file.is_file() {
        let hint = format!("it is looked for in `{}`", cwd.display());
        return Err(missing(format!("program `{program}` is not on {node}"), Some(hint)));
    }
    if rustix::fs::access(&file, Access::READ_OK).is_err() {
        return Err(missing(format!("program `{program}` cannot be read on {node}"), None));
    }
    Ok(())
}

fn missing(what: String, hint: Option<String>) -> Missing {
    Missing { what, hint }
}

fn node_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    name.split('.').next().unwrap_or(&name).to_owned()
}

/// Where a program is looked for.
#[derive(Debug, Clone)]
struct Look<'a> {
    node: &'a str,
    cwd: PathBuf,
    path: Option<OsString>,
}

impl Look<'_> {
    fn command(mut self, mut argv: &[OsString]) -> Result<(), Missing> {
        while let Some((name, rest)) = argv.split_first() {
            let file = self.program(name)?;
            self.interpreter(name, &file)?;
            if Path::new(name).file_name() != Some(OsStr::new("env")) {
                return Ok(());
            }
            argv = self.behind_env(rest)?;
        }
        Err(missing("the command names no program".into(), None))
    }

    /// What `env` would start, and how it changes the look-up.
    fn behind_env<'b>(&mut self, mut argv: &'b [OsString]) -> Result<&'b [OsString], Missing> {
        let mut options = true;
        while let Some((word, rest)) = argv.split_first() {
            let bytes = word.as_bytes();
            let mut taken = 1;
            if options && bytes.starts_with(b"-") {
                match (bytes, rest.first()) {
                    (b"--", _) => options = false,
                    (b"-" | b"-i" | b"--ignore-environment", _) => self.path = None,
                    (b"-u" | b"--unset", Some(name)) => {
                        self.path = self.path.take_if(|_| name != "PATH");
                        taken = 2;
                    }
                    _ => {
                        let what = format!("`env {}` cannot be checked", word.display());
                        let hint = "write the command without this option of `env`";
                        return Err(missing(what, Some(hint.into())));
                    }
                }
            } else if let Some(equals) = bytes.iter().position(|byte| *byte == b'=') {
                options = false;
                if bytes.starts_with(b"PATH=") {
                    self.path = Some(OsString::from_vec(bytes[equals + 1..].to_vec()));
                }
            } else {
                break;
            }
            argv = &argv[taken..];
        }
        Ok(argv)
    }

    fn program(&self, name: &OsStr) -> Result<PathBuf, Missing> {
        let found = self.candidates(name);
        if let Some(file) = found.iter().find(|file| is_executable(file)) {
            return Ok(file.clone());
        }
        let shown = name.display();
        if let Some(file) = found.iter().find(|file| file.is_file()) {
            let what = format!("`{shown}` is not executable on {}", self.node);
            return Err(missing(what, Some(format!("run `chmod +x {}`", file.display()))));
        }
        let what = format!("`{shown}` not found on {}", self.node);
        Err(missing(what, self.alternative(name)))
    }

    fn candidates(&self, name: &OsStr) -> Vec<PathBuf> {
        if name.is_empty() {
            return Vec::new();
        }
        if name.as_bytes().contains(&b'/') {
            return vec![self.cwd.join(name)];
        }
        let path = self.path.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH));
        // An empty entry means the working directory, and joining one gives just that.
        std::env::split_paths(path).map(|folder| self.cwd.join(folder).join(name)).collect()
    }

    /// The program of this name in another place or version, most often Python.
    fn alternative(&self, name: &OsStr) -> Option<String> {
        let base = Path::new(name).file_name()?;
        let is_python = base.as_bytes().starts_with(b"python");
        let others: &[&OsStr] =
            if is_python { &[base, OsStr::new("python3"), OsStr::new("python")] } else { &[base] };
        let find = |other: &&OsStr| {
            let file = self.candidates(other).into_iter().find(|file| is_executable(file))?;
            Some(format!("{} is {}", other.display(), file.display()))
        };
        others.iter().find_map(find).or_else(|| {
            let path = self.path.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH)).display();
            (!name.as_bytes().contains(&b'/')).then(|| format!("PATH is {path}"))
        })
    }

    /// Checks the `#!` line, whose absence of a program execvp reports as that of the script.
    fn interpreter(&self, name: &OsStr, file: &Path) -> Result<(), Missing> {
        let mut head = Vec::new();
        let Ok(script) = fs::File::open(file) else { return Ok(()) };
        if script.take(256).read_to_end(&mut head).is_err() || !head.starts_with(b"#!") {
            return Ok(());
        }
        let line = head[2..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(interpreter) = words.next().map(OsStr::from_bytes) else { return Ok(()) };
        let what = |needed: &OsStr| {
            let (script, needed) = (name.display(), needed.display());
            format!(
                "`{needed}`, which `{script}` names on its first line, not found on {}",
                self.node
            )
        };
        if !is_executable(&self.cwd.join(interpreter)) {
            return Err(missing(what(interpreter), self.alternative(interpreter)));
        }
        if Path::new(interpreter).file_name() == Some(OsStr::new("env")) {
            let needed = words.next().map(OsStr::from_bytes);
            if let Some(needed) = needed.filter(|word| !word.as_bytes().starts_with(b"-"))
                && !needed.as_bytes().contains(&b'=')
                && !self.candidates(needed).iter().any(|file| is_executable(file))
            {
                return Err(missing(what(needed), self.alternative(needed)));
            }
        }
        Ok(())
    }
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::any::type_name;
    use std::fmt::Write as _;
    use std::future::pending;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Output;

    use tempfile::TempDir;

    use super::*;

    /// Set in the process that runs one scenario alone.
    const ALONE: &str = "SWEEPCTL_TEST_ALONE";
    /// Where a scenario finds its scratch folder, if the test outside gave it one.
    const SCRATCH: &str = "SWEEPCTL_TEST_SCRATCH";
    /// Wide: a loaded machine is slow, and only a bug reaches it.
    const DEADLINE: Duration = Duration::from_secs(120);

    /// This test binary again, to run only the test whose scenario has the type `F`.
    fn rerun<F>() -> std::process::Command {
        let name = type_name::<F>().split_once("::").unwrap().1;
        let name = name.split("::{{closure}}").next().unwrap();
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(ALONE, "1");
        command
    }

    /// Runs the scenario in a process of its own: signals, and the children that become ours,
    /// belong to a process and not to a test.
    fn alone<F: AsyncFnOnce()>(scenario: F) -> Option<Output> {
        if std::env::var_os(ALONE).is_some() {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let limited = async { timeout(DEADLINE, scenario()).await.unwrap() };
            runtime.unwrap().block_on(limited);
            return None;
        }
        let output = rerun::<F>().output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{shown}\n{errors}", output.status);
        assert!(shown.contains("1 passed"), "the scenario did not run: {shown}");
        Some(output)
    }

    fn launch(argv: &[&str]) -> Launch {
        let argv = argv.iter().map(OsString::from).collect();
        Launch::new(argv, std::env::vars_os().filter(|(name, _)| name != ALONE).collect())
    }

    /// A shell script that finds its scratch folder in `$D`.
    fn script(folder: &TempDir, text: &str) -> Launch {
        let mut launch = launch(&["sh", "-c", text]);
        launch.env.push(("D".into(), folder.path().into()));
        launch
    }

    /// Polls until there is what `look` looks for.
    async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = look() {
                return found;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// The complete first line of a file.
    fn line(file: &Path) -> Option<String> {
        fs::read_to_string(file).ok()?.split_once('\n').map(|(line, _)| line.to_owned())
    }

    fn pid_in(file: &Path) -> Option<Pid> {
        Pid::from_raw(line(file)?.trim().parse().unwrap())
    }

    fn lives(pid: Pid) -> bool {
        let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_pid())).ok();
        stat.and_then(|stat| Process::parse(&stat)).is_some_and(|process| !process.ended)
    }

    fn signal_us(signal: Signal) {
        rustix::process::kill_process(rustix::process::getpid(), signal).unwrap();
    }

    #[test]
    fn the_exit_code_and_the_environment_are_the_programs_own() {
        alone(async || {
            let mut signals = Signals::install().unwrap();
            let mut launch = launch(&["sh", "-c", "test -z \"$HOME\" && exit $CODE"]);
            launch.env = vec![("CODE".into(), "7".into()), ("PATH".into(), "/usr/bin:/bin".into())];
            let running = start(&launch).await.unwrap();
            let ended = running.wait(&mut signals, pending()).await.unwrap();
            assert_eq!(ended.exit, Exit::Code(7));
            assert!(ended.signals.is_empty() && ended.left.is_empty());
        });
    }

    #[test]
    fn death_by_a_signal_is_told_from_an_exit() {
        alone(async || {
            let mut signals = Signals::install().unwrap();
            let running = start(&launch(&["sh", "-c", "kill -SEGV $$"])).await.unwrap();
            let ended = running.wait(&mut signals, pending()).await.unwrap();
            assert_eq!(ended.exit, Exit::Signal(Signal::SEGV.as_raw()));
        });
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        alone(async || {
            let error = start(&launch(&["no-such-program"])).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert_eq!(start(&launch(&[])).await.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        });
    }

    #[test]
    fn term_is_forwarded_once_and_the_program_saves_before_its_exit() {
        alone(async || {
            let folder = tempfile::tempdir().unwrap();
            let mut signals = Signals::install().unwrap();
            let program = "
import os, signal, time
folder, terms = os.environ['D'], []
signal.signal(signal.SIGTERM, lambda *_: terms.append(1))
open(folder + '/ready', 'w').write('yes\\n')
while not terms:
    time.sleep(0.01)
open(folder + '/got', 'w').write('yes\\n')
while not os.path.exists(folder + '/again'):
    time.sleep(0.01)
open(folder + '/saved', 'w').write(str(len(terms)) + '\\n')
";
            let mut launch = launch(&["python3", "-c", program]);
            launch.env.push(("D".into(), folder.path().into()));
            let running = start(&launch).await.unwrap();
            let at = |name: &str| folder.path().join(name);
            // A listener of our own: what it sees, the one under test was handed too.
            let mut terms = signal(SignalKind::terminate()).unwrap();
            let story = async {
                until(|| line(&at("ready"))).await;
                signal_us(Signal::TERM);
                terms.recv().await;
                until(|| line(&at("got"))).await;
                signal_us(Signal::TERM);
                terms.recv().await;
                tokio::task::yield_now().await;
                fs::write(at("again"), "").unwrap();
            };
            let (ended, ()) = tokio::join!(running.wait(&mut signals, pending()), story);
            let ended = ended.unwrap();
            assert_eq!(ended.exit, Exit::Code(0));
            assert_eq!(line(&at("saved")).unwrap(), "1");
            let term = Signal::TERM.as_raw();
            assert_eq!(ended.signals, [term, term]);
            assert_eq!(signals.received(), [term, term]);
        });
    }

    #[test]
    fn usr1_reaches_the_program_and_its_children() {
        alone(async || {
            let folder = tempfile::tempdir().unwrap();
            let mut signals = Signals::install().unwrap();
            let text = "
                sh -c 'trap \"exit 5\" USR1; echo > $D/inner; while :; do sleep 0.01; done' &
                trap 'wait $!; exit $?' USR1
                echo > $D/outer; while :; do sleep 0.01; done";
            let running = start(&script(&folder, text)).await.unwrap();
            let story = async {
                until(|| line(&folder.path().join("inner"))).await;
                until(|| line(&folder.path().join("outer"))).await;
                signal_us(Signal::USR1);
            };
            let (ended, ()) = tokio::join!(running.wait(&mut signals, pending()), story);
            let ended = ended.unwrap();
            assert_eq!(ended.exit, Exit::Code(5));
            assert_eq!(ended.signals, [Signal::USR1.as_raw()]);
        });
    }

    #[test]
    fn a_signal_that_came_before_the_program_reaches_it() {
        alone(async || {
            let mut signals = Signals::install().unwrap();
            signal_us(Signal::TERM);
            let term = Signal::TERM.as_raw();
            until(|| signals.received().contains(&term).then_some(())).await;
            let running = start(&launch(&["sleep", "1000"])).await.unwrap();
            let ended = running.wait(&mut signals, pending()).await.unwrap();
            assert_eq!(ended.exit, Exit::Signal(term));
            assert_eq!(signals.received(), [term]);
        });
    }

    #[test]
    fn a_program_that_ignores_term_is_killed_with_all_its_children() {
        alone(async || {
            let folder = tempfile::tempdir().unwrap();
            let mut signals = Signals::install().unwrap();
            let text = "
                trap '' TERM
                setsid sh -c 'echo $$ > $D/child; exec sleep 1000' &
                echo > $D/ready; while :; do sleep 0.01; done";
            let mut launch = script(&folder, text);
            launch.kill_after = Duration::from_millis(200);
            let running = start(&launch).await.unwrap();
            let child = folder.path().join("child");
            let stop = async {
                until(|| line(&folder.path().join("ready"))).await;
                until(|| line(&child)).await;
            };
            let ended = running.wait(&mut signals, stop).await.unwrap();
            assert_eq!(ended.exit, Exit::Signal(Signal::KILL.as_raw()));
            assert!(ended.signals.is_empty());
            assert!(!lives(pid_in(&child).unwrap()));
        });
    }

    #[test]
    fn a_stray_in_a_session_of_its_own_is_gone_afterwards() {
        alone(async || {
            let folder = tempfile::tempdir().unwrap();
            let mut signals = Signals::install().unwrap();
            let text = "
                (setsid sh -c 'trap \"\" TERM HUP; echo $$ > $D/stray; while :; do sleep 0.01; done' &)
                while ! test -s $D/stray; do sleep 0.01; done; exit 3";
            let mut launch = script(&folder, text);
            (launch.linger, launch.kill_after) = (Duration::ZERO, Duration::from_millis(100));
            let running = start(&launch).await.unwrap();
            let ended = running.wait(&mut signals, pending()).await.unwrap();
            assert_eq!(ended.exit, Exit::Code(3));
            assert!(ended.left.is_empty());
            assert!(!lives(pid_in(&folder.path().join("stray")).unwrap()));
            assert!(has_no_children(), "a zombie is left");
        });
    }

    #[test]
    fn what_lingers_may_finish_its_work() {
        alone(async || {
            let folder = tempfile::tempdir().unwrap();
            let mut signals = Signals::install().unwrap();
            let text = "(setsid sh -c 'sleep 0.3; echo > $D/uploaded' &)";
            let mut launch = script(&folder, text);
            launch.linger = DEADLINE;
            let running = start(&launch).await.unwrap();
            running.wait(&mut signals, pending()).await.unwrap();
            assert!(folder.path().join("uploaded").exists());
        });
    }

    #[test]
    fn stop_ends_the_lingering_at_once() {
        alone(async || {
            let folder = tempfile::tempdir().unwrap();
            let mut signals = Signals::install().unwrap();
            let text = "(setsid sh -c 'echo $$ > $D/stray; exec sleep 1000' &)";
            let mut launch = script(&folder, text);
            (launch.linger, launch.kill_after) = (DEADLINE * 2, DEADLINE * 2);
            let running = start(&launch).await.unwrap();
            let pid = Pid::from_raw(running.pid().cast_signed()).unwrap();
            let stray = folder.path().join("stray");
            let stop = until(|| (!lives(pid) && line(&stray).is_some()).then_some(()));
            let ended = running.wait(&mut signals, stop).await.unwrap();
            assert_eq!(ended.exit, Exit::Code(0));
            assert!(!lives(pid_in(&stray).unwrap()));
        });
    }

    #[test]
    fn a_dropped_wait_leaves_nothing_behind() {
        alone(async || {
            let folder = tempfile::tempdir().unwrap();
            let mut signals = Signals::install().unwrap();
            let text = "setsid sh -c 'echo $$ > $D/stray; exec sleep 1000' & exec sleep 1000";
            let running = start(&script(&folder, text)).await.unwrap();
            let pid = Pid::from_raw(running.pid().cast_signed()).unwrap();
            let stray = folder.path().join("stray");
            tokio::select! {
                _ = running.wait(&mut signals, pending()) => panic!("it ended by itself"),
                _ = until(|| line(&stray)) => {}
            }
            until(|| (!lives(pid) && !lives(pid_in(&stray).unwrap())).then_some(())).await;
        });
    }

    #[test]
    fn our_other_programs_are_left_alone() {
        alone(async || {
            let folder = tempfile::tempdir().unwrap();
            let mut signals = Signals::install().unwrap();
            let mut earlier = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
            let text = "(setsid sleep 1000 &)";
            let mut launch = script(&folder, text);
            launch.linger = Duration::from_millis(100);
            let running = start(&launch).await.unwrap();
            let mut meanwhile = Command::new("sh").args(["-c", "exit 4"]).spawn().unwrap();
            running.wait(&mut signals, pending()).await.unwrap();
            assert_eq!(meanwhile.wait().await.unwrap().code(), Some(4));
            assert!(earlier.try_wait().unwrap().is_none());
            earlier.kill().await.unwrap();
        });
    }

    #[test]
    fn the_program_dies_with_us_even_by_kill() {
        let scenario = async || {
            let folder = PathBuf::from(std::env::var_os(SCRATCH).unwrap());
            let mut signals = Signals::install().unwrap();
            let mut launch =
                launch(&["sh", "-c", "trap '' TERM HUP; echo $$ > pid; exec sleep 1000"]);
            launch.cwd = Some(folder);
            let running = start(&launch).await.unwrap();
            running.wait(&mut signals, pending()).await.unwrap();
        };
        if std::env::var_os(ALONE).is_some() {
            alone(scenario);
            return;
        }
        fn rerun_of<F>(_: &F) -> std::process::Command {
            rerun::<F>()
        }
        let folder = tempfile::tempdir().unwrap();
        let mut us =
            rerun_of(&scenario).env(SCRATCH, folder.path()).stdout(Stdio::null()).spawn().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let started = until(|| pid_in(&folder.path().join("pid")));
        let program = runtime.block_on(async { timeout(DEADLINE, started).await.unwrap() });
        assert!(lives(program));
        us.kill().unwrap();
        us.wait().unwrap();
        let gone = until(|| (!lives(program)).then_some(()));
        runtime.block_on(async { timeout(DEADLINE, gone).await.unwrap() });
    }

    #[test]
    fn stdout_is_copied_byte_for_byte_while_its_metrics_are_read() {
        let output = alone(async || {
            let mut signals = Signals::install().unwrap();
            let text = r#"printf 'loss=3 \377\000|\n{"acc": {"val": NaN}}\nstep 1 loss=0.5\rloss=0.25, n=2'"#;
            let mut launch = launch(&["sh", "-c", text]);
            launch.metrics_from_stdout = true;
            let running = start(&launch).await.unwrap();
            let ended = running.wait(&mut signals, pending()).await.unwrap();
            let wanted = serde_json::json!({"loss": 0.25, "acc.val": "NaN", "n": 2});
            assert_eq!(serde_json::to_value(&ended.summary).unwrap(), wanted);
        });
        let Some(output) = output else { return };
        let wanted = b"loss=3 \xff\0|\n{\"acc\": {\"val\": NaN}}\nstep 1 loss=0.5\rloss=0.25, n=2";
        assert!(output.stdout.windows(wanted.len()).any(|bytes| bytes == wanted));
    }

    #[test]
    fn metrics_of_a_flood_of_output_are_complete() {
        let output = alone(async || {
            let mut signals = Signals::install().unwrap();
            let text = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo step=$i; done";
            let mut launch = launch(&["sh", "-c", text]);
            launch.metrics_from_stdout = true;
            let running = start(&launch).await.unwrap();
            let ended = running.wait(&mut signals, pending()).await.unwrap();
            assert_eq!(ended.summary["step"], 20000);
        });
        let Some(output) = output else { return };
        let mut wanted = String::new();
        (1..=20000).for_each(|step| writeln!(wanted, "step={step}").unwrap());
        assert!(String::from_utf8(output.stdout).unwrap().contains(&wanted));
    }

    #[test]
    fn a_hundred_quick_programs_in_a_row_lose_no_exit_code() {
        alone(async || {
            let mut signals = Signals::install().unwrap();
            for code in 0..100 {
                let text = format!("(true &); exit {code}");
                let running = start(&launch(&["sh", "-c", &text])).await.unwrap();
                let ended = running.wait(&mut signals, pending()).await.unwrap();
                assert_eq!(ended.exit, Exit::Code(code));
                assert!(has_no_children());
            }
        });
    }

    #[test]
    fn a_process_name_may_hold_parentheses_and_blanks() {
        // Invented, as any program may give itself such a name with PR_SET_NAME.
        let stat = b"42 (a) Z 1 () S 7 40 39 0 -1 4194560 102 0 0 0 0 0 0 0 20 0 1 0 5150 8 1 2";
        let process = Process::parse(stat).unwrap();
        assert_eq!((process.parent, process.group, process.ended), (7, 40, false));
        assert_eq!(process.identity(), (42, 5150));
    }

    /// A scratch folder as PATH and working directory, with these executables.
    fn bin(programs: &[(&str, &str)]) -> (TempDir, Vec<(OsString, OsString)>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in programs {
            fs::write(folder.path().join(name), text).unwrap();
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(folder.path().join(name), mode).unwrap();
        }
        let env = vec![("PATH".into(), folder.path().into())];
        (folder, env)
    }

    fn words(command: &str) -> Vec<OsString> {
        command.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_missing_python_names_the_python3_that_is_there() {
        let (folder, env) = bin(&[("python3", ""), ("env", "")]);
        let node = node_name();
        for command in ["python train.py", "env A=1 python train.py", "env -u X -- python x"] {
            let missing = resolve(&words(command), &env, folder.path(), None).unwrap_err();
            assert_eq!(missing.what, format!("`python` not found on {node}"));
            let wanted = format!("python3 is {}/python3", folder.path().display());
            assert_eq!(missing.hint, Some(wanted));
        }
        assert_eq!(resolve(&words("env A=1 python3 x"), &env, folder.path(), None), Ok(()));
    }

    #[test]
    fn env_is_followed_to_the_path_it_sets_and_refused_when_it_splits_words() {
        let (folder, env) = bin(&[("env", "")]);
        let (other, _) = bin(&[("tool", "")]);
        let command = format!("env PATH={} tool", other.path().display());
        assert_eq!(resolve(&words(&command), &env, folder.path(), None), Ok(()));
        let missing = resolve(&words("env -S tool"), &env, folder.path(), None).unwrap_err();
        assert_eq!(missing.what, "`env -S` cannot be checked");
        assert!(resolve(&words("env A=1"), &env, folder.path(), None).is_err());
        assert!(resolve(&[], &env, folder.path(), None).is_err());
    }

    #[test]
    fn a_program_file_is_looked_for_in_the_working_directory() {
        let (folder, env) = bin(&[("python3", ""), ("train.py", "")]);
        let command = words("python3 train.py");
        assert_eq!(resolve(&command, &env, folder.path(), Some("train.py")), Ok(()));
        let missing = resolve(&command, &env, folder.path(), Some("tune.py")).unwrap_err();
        assert_eq!(missing.what, format!("program `tune.py` is not on {}", node_name()));
        let gone = folder.path().join("gone");
        assert!(resolve(&command, &env, &gone, None).unwrap_err().what.contains("the folder"));
    }

    #[test]
    fn a_script_needs_its_mode_and_its_interpreter() {
        let (folder, env) = bin(&[
            ("old", "#!/no/such/python -u\n"),
            ("asked", "#!/usr/bin/env python\n"),
            ("good", "#!/bin/sh\n"),
            ("python3", ""),
        ]);
        fs::write(folder.path().join("plain"), "").unwrap();
        let check = |command| resolve(&words(command), &env, folder.path(), None);
        assert_eq!(check("./good"), Ok(()));
        assert!(check("./old").unwrap_err().what.starts_with("`/no/such/python`, which `./old`"));
        assert!(check("asked").unwrap_err().hint.unwrap().starts_with("python3 is"));
        assert!(check("./plain").unwrap_err().hint.unwrap().starts_with("run `chmod +x"));
    }
}
