//! A hook for tests: end as by `kill -9` after a chosen step. Release builds do not have it.
//!
//! A step is one `create_once` or external command. `SWEEPCTL_ABORT_AT=K` ends a watcher after its K-th. It never
//! reaches jobs; `SWEEPCTL_ABORT_TASK` does, and is for `sweepctl job run` alone: `SLOT K`, then `every` for every
//! attempt at the slot instead of the first start of the first one, or `requeue` to have SLURM requeue the task.

/// The variable of tasks: among the jobs' environment, but only where the hook is built in.
pub const TASK_VARIABLE: &str = "SWEEPCTL_ABORT_TASK";

#[cfg(feature = "abort-hook")]
mod hook {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    /// After which step, and which task is to be requeued then.
    struct Plan {
        step: Option<u64>,
        requeue: Option<String>,
    }

    static PLAN: OnceLock<Plan> = OnceLock::new();

    pub(super) fn for_task(job: &str, task: u32, leg: u32, (slot, attempt): (u32, u32)) {
        let text = std::env::var(super::TASK_VARIABLE).unwrap_or_default();
        let words: Vec<&str> = text.split_whitespace().collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
        let first = (attempt, leg) == (0, 0);
        let meant = number(0) == Some(slot.into()) && (first || words.contains(&"every"));
        let requeue = words.contains(&"requeue").then(|| format!("{job}_{task}"));
        let _ = PLAN.set(Plan { step: number(1).filter(|_| meant), requeue });
    }

    fn for_watcher() -> Plan {
        let step = std::env::var("SWEEPCTL_ABORT_AT").ok().and_then(|text| text.parse().ok());
        Plan { step, requeue: None }
    }

    pub(super) fn step() {
        static STEPS: AtomicU64 = AtomicU64::new(0);
        let step = STEPS.fetch_add(1, Ordering::Relaxed) + 1;
        let plan = PLAN.get_or_init(for_watcher);
        if plan.step != Some(step) {
            return;
        }
        crate::say::err!("sweepctl: killed by a test after step {step}");
        if let Some(task) = &plan.requeue {
            let _ = std::process::Command::new("scontrol").args(["requeue", task]).status();
        }
        let _ = kill_process(getpid(), Signal::KILL);
        std::process::abort();
    }
}

/// Counts one step; the chosen one ends the process.
pub fn step() {
    #[cfg(feature = "abort-hook")]
    hook::step();
}

/// Says that this process is the task's wrapper, and which slot and attempt it takes first.
#[cfg_attr(
    not(feature = "abort-hook"),
    expect(unused_variables, reason = "the hook is not built in")
)]
pub fn in_task(job: &str, task: u32, leg: u32, first: (u32, u32)) {
    #[cfg(feature = "abort-hook")]
    hook::for_task(job, task, leg, first);
}
