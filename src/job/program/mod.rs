//! The user program of a run: started in its own process group, signalled, waited for, cleaned up after.
//!
//! No process of a run outlives [`Running`]. What the program leaves behind is handed to us by the
//! kernel, as we are its subreaper, and is found through `/proc` whatever session it moved to. If we
//! are killed ourselves, the kernel kills the program.
//!
//! One program runs at a time. Other programs that this process starts meanwhile must stay in its
//! own process group: that is how they are told apart from what the run left behind.

mod lookup;
mod output;
mod processes;
mod running;
mod signals;
mod spawn;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use indexmap::IndexMap;
use serde_json::Value;

pub use lookup::{Missing, resolve};
pub use running::Running;
pub use signals::Signals;
pub use spawn::start;

/// How long what was killed may take to disappear; only a process stuck in the kernel (a dead file
/// server) needs more, and nothing we do ends it.
const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

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
    /// Keep the end of the program's output, which is copied to ours all the same.
    pub keep_tail: bool,
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
            keep_tail: false,
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

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with code {code}"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
        }
    }
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
    /// The last 64 KiB of its stdout and stderr, if [`Launch::keep_tail`].
    pub tail: Vec<u8>,
    /// From its start to the end of its main process.
    pub elapsed: Duration,
    /// Processes of the run that outlived even KILL: they are stuck inside the kernel.
    pub left: Vec<u32>,
}
