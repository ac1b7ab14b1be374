//! A program that runs: its signals, its end, and the end of all that it started.

use std::collections::HashSet;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::output::Copying;
use super::processes::{Identity, Process, children_of, has_no_children, processes, send};
use super::signals::CAUGHT;
use super::{Ended, Exit, GIVE_UP_AFTER, Signals};

/// A program that was started. Dropping it kills everything the run has started.
#[derive(Debug)]
pub struct Running {
    pub(super) child: Child,
    pub(super) pid: Pid,
    pub(super) started: Instant,
    pub(super) linger: Duration,
    pub(super) kill_after: Duration,
    pub(super) copying: Copying,
    /// Descendants of ours that were there before the program: none of its business.
    pub(super) before: HashSet<Identity>,
    /// The kinds of signals that went to the group, each at most once.
    pub(super) forwarded: Vec<i32>,
    /// Who got TERM.
    pub(super) termed: HashSet<Identity>,
    /// The main process was reaped: its ID means nothing any more.
    pub(super) reaped: bool,
    pub(super) clean: bool,
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

        let (summary, tail) = std::mem::take(&mut self.copying).finish().await;
        // The signal that ended the program may reach us after its end did: SLURM signals a job's processes one
        // after the other.
        if let Some(patience) = may_be_signalled(status.into()) {
            let until = Instant::now() + patience;
            // SLURM's CONT, which comes before its TERM, ends nothing.
            while seen.iter().all(|number| *number == Signal::CONT.as_raw())
                && let Ok(number) = timeout_at(until, signals.next()).await
            {
                seen.push(number);
            }
        }
        seen.extend(signals.drain().await);
        let left = left.iter().map(|stray| stray.pid.as_raw_pid().cast_unsigned()).collect();
        Ok(Ended { exit: status.into(), signals: seen, summary, tail, elapsed, left })
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
            strays.retain(|stray| !self.is_main(stray) && !stray.is_gone(us));
            if !strays.is_empty() {
                return Ok(strays);
            }
        }
        Ok(Vec::new())
    }

    fn is_main(&self, process: &Process) -> bool {
        !self.reaped && process.pid == self.pid
    }

    fn is_foreign(&self, process: &Process) -> bool {
        let us = rustix::process::getpid();
        let in_our_group = process.group == rustix::process::getpgrp().as_raw_pid();
        (process.parent == us.as_raw_pid() && in_our_group)
            || self.before.contains(&process.identity())
    }
}

/// How long to wait for a signal of our own that would explain this end; `None` if there is nothing to explain.
///
/// Most programs that fail do so without one, and are not held up for long.
fn may_be_signalled(exit: Exit) -> Option<Duration> {
    let ended_by = match exit {
        Exit::Signal(signal) => signal,
        Exit::Code(0) => return None,
        Exit::Code(code) => code - 128,
    };
    let caught = CAUGHT.iter().any(|caught| caught.as_raw() == ended_by);
    Some(if caught { Duration::from_secs(3) } else { Duration::from_millis(50) })
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
