//! Starts the program: in a group of its own, tied to our life, with exactly its environment.

use std::collections::HashSet;
use std::io;
use std::process::Stdio;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use tokio::process::Command;
use tokio::time::Instant;

use super::output::{Copying, Stream};
use super::processes::{Process, children_of, processes};
use super::{Launch, Running};

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
    let mut streams = Vec::new();
    for is_stderr in [false, true] {
        let metrics = launch.metrics_from_stdout && !is_stderr;
        if metrics || launch.keep_tail {
            let (from, writer) = io::pipe()?;
            if is_stderr {
                command.stderr(writer)
            } else {
                command.stdout(writer)
            };
            streams.push(Stream { from, is_stderr, metrics, tail: launch.keep_tail });
        }
    }
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
    // It holds the writing ends of the pipes, whose ends we could never see.
    drop(command);
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let pid = pid.ok_or_else(|| io::Error::other("the program has no process ID"))?;
    let mut running = Running {
        child,
        pid,
        started: Instant::now(),
        linger: launch.linger,
        kill_after: launch.kill_after,
        copying: Copying::default(),
        before,
        forwarded: Vec::new(),
        termed: HashSet::new(),
        reaped: false,
        clean: false,
    };
    running.copying = Copying::start(streams)?;
    Ok(running)
}
