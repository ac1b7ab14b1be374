//! `watch`: the loop with a progress view.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, code, view};
use crate::drive::state::{self, OpenSweep, RunsOn};
use crate::drive::{Driver, Holder, Lock, Turn, look};
use crate::log::slot::Slot;
use crate::say::{err, out};
use crate::view::{SweepView, Waits};

/// How long a watcher without a terminal stays: login nodes are not for daemons.
const UNATTENDED: std::time::Duration = std::time::Duration::from_secs(12 * 3600);

/// Watches until the sweep has ended, is paused, or the user leaves; `quiet` leaves stdout alone.
pub(super) async fn run(mut driver: Driver, quiet: bool) -> Result<u8, Failure> {
    if matches!(driver.sweep.file.runs_on, RunsOn::Slurm(_)) {
        // A login node is shared. Refused only where the priority is lower already.
        let _ = rustix::process::nice(10);
    }
    let unexpected =
        |error| Failure::new(code::UNEXPECTED, format!("cannot catch signals: {error}"));
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unexpected)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unexpected)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(unexpected)?;
    let mut leave = async || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    let mut screen = Screen::new(&driver.sweep);
    // Let go at the very end: until then this process may still have to end what it runs.
    let mut lock = driver.lock();
    let mut other = None;
    // The future ends at an await: an append or an sbatch under way is found again by the logs.
    let watched = tokio::select! {
        result = watch(&mut driver, &mut screen, &mut lock, &mut other) => Some(result),
        () = leave() => None,
    };
    screen.finish();
    let Some(result) = watched else {
        tokio::select! {
            () = left(&driver, other.as_ref()) => {}
            () = leave() => driver.kill().await,
        }
        give_back(&mut driver);
        return Ok(code::INTERRUPTED);
    };
    if let Err(failure) = result {
        tokio::select! {
            () = driver.let_go() => {}
            () = leave() => driver.kill().await,
        }
        give_back(&mut driver);
        return Err(failure);
    }
    Ok(ended(&driver.sweep, quiet))
}

/// Watches while it is this process's turn, and looks on while it is another's, who is then named in `other`.
async fn watch(
    driver: &mut Driver,
    screen: &mut Screen,
    lock: &mut Lock,
    other: &mut Option<Holder>,
) -> Result<(), Failure> {
    let mut quiet = 0;
    let mut waits = Waits::default();
    let began = std::time::Instant::now();
    loop {
        let mut acted = false;
        let seen;
        let ours = follow_or_take(driver, screen, lock, other).await;
        if ours {
            let tick = driver.tick().await?;
            acted = tick.acted;
            for said in &tick.said {
                screen.say(said);
            }
            seen = tick.rows.map(|rows| Waits::new(&rows));
        } else {
            driver.sweep.refresh().map_err(crate::drive::DriveError::from)?;
            let look = look::recent(driver.sweep.state_dir(), driver.sweep.cluster());
            seen = look.map(|look| look.waits(&driver.sweep));
        }
        if let (Some(now), RunsOn::Slurm(_)) = (seen, &driver.sweep.file.runs_on) {
            if !now.like(&waits) && !now.reasons.is_empty() {
                screen.say(&now.text());
            }
            waits = now;
        }
        screen.show(&view(&driver.sweep));
        let sweep = &driver.sweep.log.state;
        let running = driver.sweep.slots().filter(|slot| slot.holder().is_some()).count();
        if sweep.closed || (sweep.paused.is_some() && running == 0 && !acted) {
            return Ok(());
        }
        if screen.bar.is_none()
            && began.elapsed() > UNATTENDED
            && matches!(driver.sweep.file.runs_on, RunsOn::Slurm(_))
        {
            let name = &driver.sweep.file.name;
            screen.say(&format!(
                "nobody has watched for 12 hours: ending; `sweepctl watch {name}` or `tick` tops up"
            ));
            return Ok(());
        }
        quiet = if acted { 0 } else { quiet + 1 };
        if !ours {
            driver.rest(driver.pause_after(0).min(lock.beat())).await;
        } else if !acted {
            driver.rest(driver.pause_after(quiet)).await;
        } else {
            driver.rest(driver.least_pause()).await;
        }
    }
}

/// Whether it is this process's turn; says so when that changes.
async fn follow_or_take(
    driver: &mut Driver,
    screen: &Screen,
    lock: &mut Lock,
    other: &mut Option<Holder>,
) -> bool {
    match lock.take().await {
        Turn::Ours => {
            if let Some(other) = other.take() {
                screen.say(&format!("{other} has gone: this one takes over"));
                driver.take_over();
            }
            true
        }
        Turn::Theirs(holder) => {
            if other.as_ref() != Some(&holder) {
                screen.say(&format!(
                    "{holder} watches this sweep: looking on, to take over when it ends"
                ));
            }
            *other = Some(holder);
            false
        }
    }
}

async fn left(driver: &Driver, other: Option<&Holder>) {
    let name = &driver.sweep.file.name;
    match (&driver.sweep.file.runs_on, other) {
        (_, Some(other)) => {
            err!("{other} goes on watching; `sweepctl watch {name}` comes back");
            driver.let_go().await;
        }
        (RunsOn::Slurm(_), None) => {
            err!("watching has ended, the jobs go on; `sweepctl watch {name}` comes back");
        }
        (RunsOn::Local(_), None) => {
            err!("ending what runs (Ctrl-C again kills it); then `sweepctl watch {name}` goes on");
            driver.let_go().await;
        }
    }
}

/// What cannot be given back now is found by the next watcher.
fn give_back(driver: &mut Driver) {
    if let Err(error) = driver.give_back() {
        err!("sweepctl: {error}");
    }
}

/// The last words, and the exit code.
fn ended(sweep: &OpenSweep, quiet: bool) -> u8 {
    let view = view(sweep);
    let mut result = view.line();
    if let Some(best) = &view.best {
        result = format!("{result}\n{}", best.text());
    }
    if quiet {
        err!("{result}");
    } else {
        out!("{result}");
    }
    if let Some(why) = &view.why {
        err!("{}: {why}", view.state);
    }
    if let Some(metric) = &sweep.file.spec.metric
        && view.best.is_none()
        && view.finished > 0
    {
        err!(
            "warning: no run reported `{}`, the sweep file's metric: programs append it to the file named by \
             SWEEPCTL_METRICS, or print `{}=...` and you submit with --metrics stdout",
            metric.name,
            metric.name
        );
    }
    if let Some(log) = failed_log(sweep) {
        err!("the end of {log}");
        err!("mend the cause, then `sweepctl resume {}`", sweep.file.name);
    }
    if view.all_finished() { 0 } else { code::NOT_REACHED }
}

/// The path and the last lines of one failed task's log, if the sweep is paused by the breaker.
fn failed_log(sweep: &OpenSweep) -> Option<String> {
    let breaker = sweep.log.state.paused.as_ref().is_some_and(|(_, breaker)| *breaker);
    let failed = |slot: &&Slot| !slot.early.is_empty();
    let slot = sweep.slots().find(failed).filter(|_| breaker)?;
    let who = slot.last.as_ref()?;
    let path = state::log_path(&sweep.dir, who.array, who.task);
    let text = std::fs::read_to_string(&path).ok()?;
    let lines: Vec<&str> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(15)..];
    Some(format!(
        "{}:\n{}",
        path.display(),
        tail.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    ))
}

/// Columns that stay free: there the terminal writes `^C`. On a line of its own it would keep the bar, whose last
/// line alone is cleared.
const CTRL_C: usize = 4;

/// The terminal that stderr is.
#[derive(Debug, Default)]
struct Terminal(Mutex<String>);

impl Terminal {
    fn columns() -> usize {
        let size = rustix::termios::tcgetwinsize(std::io::stderr());
        let columns = size.map_or(0, |size| usize::from(size.ws_col));
        let columns = if columns == 0 { 80 } else { columns };
        columns.saturating_sub(CTRL_C).max(1)
    }

    fn add(&self, text: &str) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }

    fn go(&self, count: usize, way: char) -> io::Result<()> {
        if count > 0 { self.add(&format!("\x1b[{count}{way}")) } else { Ok(()) }
    }
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        u16::try_from(Self::columns()).unwrap_or(u16::MAX)
    }

    fn move_cursor_up(&self, count: usize) -> io::Result<()> {
        self.go(count, 'A')
    }

    fn move_cursor_down(&self, count: usize) -> io::Result<()> {
        self.go(count, 'B')
    }

    fn move_cursor_right(&self, count: usize) -> io::Result<()> {
        self.go(count, 'C')
    }

    fn move_cursor_left(&self, count: usize) -> io::Result<()> {
        self.go(count, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.add(text)?;
        self.add("\n")
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.add(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.add("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        let text = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        io::stderr().write_all(text.as_bytes())
    }
}

/// The progress view: a bar on a terminal, plain lines elsewhere.
struct Screen {
    bar: Option<ProgressBar>,
    last: String,
}

impl Screen {
    fn new(sweep: &OpenSweep) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let target = ProgressDrawTarget::term_like(Box::new(Terminal::default()));
            let bar = ProgressBar::with_draw_target(Some(u64::from(sweep.budget())), target);
            let style = ProgressStyle::with_template("{bar:10} {pos}/{len}: {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, last: String::new() }
    }

    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| err!("{text}")),
            None => err!("{text}"),
        }
    }

    fn show(&mut self, view: &SweepView) {
        if let Some(bar) = &self.bar {
            let ended = view.finished + view.failed;
            let before = format!("{:10} {ended}/{}: ", "", view.budget).len();
            bar.set_length(u64::from(view.budget));
            bar.set_position(u64::from(ended));
            bar.set_message(view.beside_bar(Terminal::columns().saturating_sub(before)));
            return;
        }
        let progress = view.progress();
        if progress != self.last {
            err!("{}", view.line());
            self.last = progress;
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
