//! A hook for tests: end as by `kill -9` after a chosen step. Release builds do not have it.

/// Counts one `create_once` or external command; the one that `SWEEPCTL_ABORT_AT` names ends the process.
#[cfg(feature = "abort-hook")]
pub fn step() {
    use std::sync::atomic::{AtomicU64, Ordering};
    static STEPS: AtomicU64 = AtomicU64::new(0);
    let step = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
    let wanted = std::env::var("SWEEPCTL_ABORT_AT").ok().and_then(|text| text.parse().ok());
    if wanted == Some(step) {
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        std::process::abort();
    }
}

/// Does nothing: the hook is not built in.
#[cfg(not(feature = "abort-hook"))]
pub fn step() {}
