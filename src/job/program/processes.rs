//! The processes of this node, as `/proc` shows them: who descends from whom.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

/// Sends a signal to a process that may be gone already.
pub(super) fn send(pid: Pid, signal: Signal) {
    let _ = rustix::process::kill_process(pid, signal);
}

pub(super) fn has_no_children() -> bool {
    // NOWAIT: only asks, and takes no child's status away from tokio.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(rustix::process::waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// A process ID and when its process started: unlike the ID alone, never used again.
pub(super) type Identity = (i32, u64);

/// One process as `/proc` shows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) ended: bool,
    /// In clock ticks since the node started.
    pub(super) start: u64,
}

impl Process {
    /// Parses `/proc/PID/stat`, where the name in parentheses may hold anything.
    pub(super) fn parse(stat: &[u8]) -> Option<Self> {
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

    pub(super) fn identity(&self) -> Identity {
        (self.pid.as_raw_pid(), self.start)
    }

    /// Whether it ended; reaps it if that is our duty.
    pub(super) fn is_gone(&self, us: Pid) -> bool {
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
pub(super) fn processes() -> io::Result<Vec<Process>> {
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
pub(super) fn children_of(
    root: Pid,
    all: &[Process],
    skip: impl Fn(&Process) -> bool,
) -> Vec<Process> {
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
