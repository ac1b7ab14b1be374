//! The last look at a cluster's queue, kept for who asks again soon: `status` and a watcher that looks on.
//!
//! A small file of the state folder. It decides nothing, and is missed by nobody.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::state::{self, OpenSweep};
use crate::log;
use crate::scheduler::Row;
use crate::scheduler::slurm::{Slurm, SlurmError};
use crate::view::Waits;

/// A look is not repeated earlier, whoever asks.
const EVERY: Duration = Duration::from_secs(15);
/// Longer than a slurmctld that is only busy takes; who asked sits before the screen.
const LIMIT: Duration = Duration::from_secs(20);

/// What was seen of the queue.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Look {
    host: String,
    /// When, by that machine's clock.
    at: u64,
    /// Seconds until its maker meant to look again.
    every: u64,
    pending: Vec<Pending>,
}

/// Tasks of a job that wait for the same reason.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pending {
    job: String,
    name: String,
    reason: String,
    tasks: usize,
}

/// Why nothing was seen.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// SLURM says so.
    #[error(transparent)]
    Slurm(#[from] SlurmError),
    /// It takes too long.
    #[error("squeue gave no answer within {} s", LIMIT.as_secs())]
    Slow,
}

impl Look {
    fn new(rows: &[Row], every: Duration) -> Self {
        let mut pending: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.state.is_pending()) {
            *pending.entry((row.job.as_str(), &row.name, &row.reason)).or_default() +=
                row.tasks.len();
        }
        let pending = pending.into_iter().map(|((job, name, reason), tasks)| Pending {
            job: job.to_owned(),
            name: name.to_owned(),
            reason: reason.to_owned(),
            tasks,
        });
        let (host, at) = (log::host(), log::now());
        Self { host, at, every: every.max(EVERY).as_secs(), pending: pending.collect() }
    }

    /// Why tasks of this sweep wait.
    pub fn waits(&self, sweep: &OpenSweep) -> Waits {
        let jobs = sweep.jobs();
        let own = |pending: &&Pending| {
            jobs.iter().any(|(_, job, name, _)| *job == pending.job && *name == pending.name)
        };
        let own = self.pending.iter().filter(own);
        Waits::of(own.map(|pending| (pending.reason.as_str(), pending.tasks)))
    }

    /// How long ago that was.
    pub fn age(&self) -> Duration {
        Duration::from_secs(log::now().saturating_sub(self.at))
    }

    /// Whether its maker would not look again yet. Another machine's clock says nothing here.
    fn is_fresh(&self) -> bool {
        let now = log::now();
        self.host == log::host() && self.at <= now && now < self.at + self.every
    }

    /// Keeps it; one that cannot be kept is made again.
    pub(super) fn keep(&self, state_dir: &Path, cluster: Option<&str>) {
        let mut all = read(state_dir);
        all.insert(key(cluster), self.clone());
        if let Ok(bytes) = serde_json::to_vec(&all) {
            let _ = state::replace_whole(&path(state_dir), &bytes);
        }
    }
}

/// Keeps what a watcher saw that is to look again after `every`.
pub(super) fn keep(state_dir: &Path, cluster: Option<&str>, rows: &[Row], every: Duration) {
    Look::new(rows, every).keep(state_dir, cluster);
}

/// The last look, if it is young enough.
pub fn recent(state_dir: &Path, cluster: Option<&str>) -> Option<Look> {
    read(state_dir).remove(&key(cluster)).filter(Look::is_fresh)
}

/// How long ago somebody on this machine looked, if it is known.
pub(super) fn since_last(state_dir: &Path, cluster: Option<&str>) -> Option<Duration> {
    let look = read(state_dir).remove(&key(cluster))?;
    (look.host == log::host() && look.at <= log::now()).then(|| look.age())
}

/// The last look, or a new one that is then good for `least` or longer: for all sweeps at once.
pub async fn recent_or_new(
    state_dir: &Path,
    cluster: Option<&str>,
    sweeps: &[&OpenSweep],
    least: Duration,
) -> Result<Look, LookError> {
    if let Some(look) = recent(state_dir, cluster) {
        return Ok(look);
    }
    let slurm = Slurm::new(cluster.map(str::to_owned)).await?;
    let queue = tokio::time::timeout(LIMIT, slurm.queue()).await.map_err(|_| LookError::Slow)??;
    let jobs: Vec<_> = sweeps.iter().flat_map(|sweep| sweep.jobs()).collect();
    let rows = queue.rows_for(
        jobs.iter().map(|(_, job, ..)| job.as_str()),
        jobs.iter().map(|(_, _, name, _)| name.as_str()),
    )?;
    let look = Look::new(&rows, least);
    look.keep(state_dir, cluster);
    Ok(look)
}

fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("look.json")
}

fn read(state_dir: &Path) -> BTreeMap<String, Look> {
    let text = fs::read(path(state_dir)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Whose queue it is: of which cluster, and which user.
fn key(cluster: Option<&str>) -> String {
    let user = rustix::process::getuid().as_raw();
    let config = std::env::var_os("SLURM_CONF").unwrap_or_default();
    format!("{user} {} {}", cluster.unwrap_or_default(), config.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(change: impl Fn(&mut Look)) -> Option<Look> {
        let folder = tempfile::tempdir().unwrap();
        let mut look = Look::new(&[], Duration::ZERO);
        change(&mut look);
        look.keep(folder.path(), None);
        assert!(recent(folder.path(), Some("other")).is_none(), "another cluster's queue");
        recent(folder.path(), None)
    }

    #[test]
    fn a_look_is_used_again_as_long_as_its_maker_would_not_repeat_it() {
        assert!(kept(|_| {}).is_some());
        assert!(kept(|look| look.at -= 10).is_some());
        assert!(kept(|look| look.at -= 16).is_none());
        assert!(kept(|look| (look.at, look.every) = (look.at - 100, 120)).is_some());
    }

    #[test]
    fn a_look_by_another_clock_is_not_used() {
        assert!(kept(|look| look.host.push('x')).is_none());
        assert!(kept(|look| look.at += 1000).is_none());
    }

    #[test]
    fn a_file_of_rubbish_is_no_look() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(path(folder.path()), "{\"a\": ").unwrap();
        assert!(recent(folder.path(), None).is_none());
        keep(folder.path(), None, &[], Duration::ZERO);
        assert!(recent(folder.path(), None).is_some());
    }
}
