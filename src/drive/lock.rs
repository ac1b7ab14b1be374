//! Whose turn it is to look after a sweep: one watcher at a time, so that SLURM is asked once and limits are kept to.
//!
//! For politeness alone: whoever has the turn, all is decided in the logs. So a lock that is odd or cannot be
//! written keeps nobody from watching, and it is stolen when its counter has stood still for three beats of
//! the one who looks at it; no clock of another machine is asked.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::local;
use crate::log::{self, Created};

/// How long two who steal at the same moment wait to see who was last.
const SETTLE: Duration = Duration::from_millis(300);
/// Beats without a change after which nobody holds the lock any more.
const PATIENCE: u32 = 3;

/// What stands in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Mark {
    host: String,
    /// Its process, with its start: the kernel gives numbers anew.
    life: String,
    nonce: String,
    counter: u64,
}

/// A watcher that has the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    host: String,
    pid: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} on {}", self.pid, self.host)
    }
}

/// Whose turn it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// This process may go on.
    Ours,
    /// Another one has it.
    Theirs(Holder),
}

/// One process's hand on the lock; let go when it is dropped.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    mark: Mark,
    beat: Duration,
    /// A holder of this machine keeps it as long as it lives: nobody else can do its work.
    while_it_lives: bool,
    /// The lock of another one as last seen, and since when it has been like that.
    seen: Option<(String, u64, Instant)>,
    beating: Option<tokio::task::JoinHandle<()>>,
}

impl Lock {
    /// A hand on the lock of the sweep in `sweep_dir`, which does not have it yet.
    pub(super) fn new(sweep_dir: &Path, beat: Duration, while_it_lives: bool) -> Self {
        let mark =
            Mark { host: log::host(), life: local::own_life(), nonce: log::nonce(), counter: 0 };
        let path = sweep_dir.join("lock");
        Self { path, mark, beat, while_it_lives, seen: None, beating: None }
    }

    /// Between two signs of life of who has it.
    pub fn beat(&self) -> Duration {
        self.beat
    }

    /// Whether it was taken, and nobody was seen to steal it.
    pub fn is_ours(&self) -> bool {
        let stolen = || read(&self.path).is_some_and(|mark| mark.nonce != self.mark.nonce);
        self.beating.is_some() && !stolen()
    }

    /// Takes it if it is free, or if who has it shows no sign of life.
    pub async fn take(&mut self) -> Turn {
        if self.is_ours() {
            return Turn::Ours;
        }
        self.stop();
        let mut there = read(&self.path);
        if there.is_none() {
            match log::create_once(&self.path, &self.mark.bytes(), Duration::ZERO) {
                Created::Mine => return self.begin(),
                Created::Theirs(bytes) => there = parse(&bytes),
                Created::Unknown(_) => {}
            }
        }
        if let Some(mark) = there.filter(|mark| !self.is_gone(mark)) {
            return Turn::Theirs(mark.holder());
        }
        if replace(&self.path, &self.mark).is_ok() {
            tokio::time::sleep(SETTLE).await;
        }
        match read(&self.path) {
            Some(mark) if mark.nonce != self.mark.nonce => Turn::Theirs(mark.holder()),
            _ => self.begin(),
        }
    }

    fn begin(&mut self) -> Turn {
        self.seen = None;
        self.beating = Some(tokio::spawn(beat(self.path.clone(), self.mark.clone(), self.beat)));
        Turn::Ours
    }

    /// Whether who wrote this has ended, or has given no sign of life for too long.
    fn is_gone(&mut self, mark: &Mark) -> bool {
        if mark.host == self.mark.host {
            if local::is_over(&mark.life) {
                return true;
            }
            if self.while_it_lives {
                return false;
            }
        }
        match &self.seen {
            Some((nonce, counter, since)) if *nonce == mark.nonce && *counter == mark.counter => {
                since.elapsed() >= self.beat * PATIENCE
            }
            _ => {
                self.seen = Some((mark.nonce.clone(), mark.counter, Instant::now()));
                false
            }
        }
    }

    fn stop(&mut self) {
        if let Some(beating) = self.beating.take() {
            beating.abort();
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_ours() {
            let _ = fs::remove_file(&self.path);
        }
        self.stop();
    }
}

impl Mark {
    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    fn holder(&self) -> Holder {
        let pid = self.life.split('-').next().unwrap_or_default().to_owned();
        Holder { host: self.host.clone(), pid }
    }
}

async fn beat(path: PathBuf, mut mark: Mark, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        if read(&path).is_some_and(|there| there.nonce != mark.nonce) {
            return;
        }
        mark.counter += 1;
        let _ = replace(&path, &mark);
    }
}

/// What stands there; nothing if that is not a watcher's mark.
fn read(path: &Path) -> Option<Mark> {
    parse(&log::read_once(path).ok()??)
}

fn parse(bytes: &[u8]) -> Option<Mark> {
    serde_json::from_slice(bytes).ok()
}

/// Without an fsync: after a crash nobody holds it anyway.
fn replace(path: &Path, mark: &Mark) -> io::Result<()> {
    super::state::replace_whole(path, &mark.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(100);

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }

    fn hand(folder: &tempfile::TempDir) -> Lock {
        Lock::new(folder.path(), BEAT, false)
    }

    fn theirs(host: &str, life: &str, counter: u64) -> Mark {
        let (host, life) = (host.to_owned(), life.to_owned());
        Mark { host, life, nonce: "theirs".to_owned(), counter }
    }

    #[test]
    fn one_has_it_and_the_next_one_when_that_lets_go() {
        let folder = tempfile::tempdir().unwrap();
        block_on(async {
            let (mut first, mut second) = (hand(&folder), hand(&folder));
            assert_eq!(first.take().await, Turn::Ours);
            let Turn::Theirs(holder) = second.take().await else { panic!("two have it") };
            let expected = format!("process {} on {}", std::process::id(), log::host());
            assert_eq!(holder.to_string(), expected);
            // It shows that it lives, however long it takes.
            for _ in 0..8 {
                tokio::time::sleep(BEAT).await;
                assert!(matches!(second.take().await, Turn::Theirs(_)));
            }
            drop(first);
            assert_eq!(second.take().await, Turn::Ours);
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left over");
    }

    #[test]
    fn a_process_that_has_ended_here_has_it_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let life = format!("{}-1", child.id());
        child.wait().unwrap();
        block_on(async {
            let mut local = Lock::new(folder.path(), Duration::from_secs(60), true);
            replace(&local.path, &theirs(&log::host(), &life, 0)).unwrap();
            assert_eq!(local.take().await, Turn::Ours);
            // The number lives, but as another process.
            let life = format!("{}-1", std::process::id());
            replace(&local.path, &theirs(&log::host(), &life, 0)).unwrap();
            assert_eq!(local.take().await, Turn::Ours);
        });
    }

    #[test]
    fn another_machines_is_stolen_when_its_counter_stands_still() {
        let folder = tempfile::tempdir().unwrap();
        block_on(async {
            let mut lock = hand(&folder);
            for counter in 0..5 {
                replace(&lock.path, &theirs("elsewhere", "1-1", counter)).unwrap();
                assert!(matches!(lock.take().await, Turn::Theirs(_)), "it lives");
                tokio::time::sleep(BEAT * 2).await;
            }
            assert!(matches!(lock.take().await, Turn::Theirs(_)), "it lived a moment ago");
            tokio::time::sleep(BEAT * 2).await;
            assert_eq!(lock.take().await, Turn::Ours);
        });
    }

    #[test]
    fn who_was_robbed_sees_it_and_does_not_take_it_back() {
        let folder = tempfile::tempdir().unwrap();
        block_on(async {
            let mut lock = hand(&folder);
            assert_eq!(lock.take().await, Turn::Ours);
            for counter in 0..5 {
                replace(&lock.path, &theirs("elsewhere", "1-1", counter)).unwrap();
                assert!(!lock.is_ours());
                tokio::time::sleep(BEAT * 2).await;
                assert_eq!(read(&lock.path).unwrap().nonce, "theirs");
                assert!(matches!(lock.take().await, Turn::Theirs(_)));
            }
            drop(lock);
        });
        assert!(folder.path().join("lock").exists(), "it is not ours to remove");
    }

    #[test]
    fn a_lock_that_is_odd_or_cannot_be_written_keeps_nobody_from_watching() {
        block_on(async {
            for odd in ["", "{", "7", "{\"host\": 3}", "\u{0}\u{1}"] {
                let folder = tempfile::tempdir().unwrap();
                fs::write(folder.path().join("lock"), odd).unwrap();
                assert_eq!(hand(&folder).take().await, Turn::Ours, "{odd}");
            }
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("lock")).unwrap();
            assert_eq!(hand(&folder).take().await, Turn::Ours);
            let mut lock = Lock::new(Path::new("/proc/self"), BEAT, false);
            assert_eq!(lock.take().await, Turn::Ours);
            assert!(lock.is_ours());
        });
    }

    #[test]
    fn of_many_that_steal_at_once_one_gets_it() {
        for _ in 0..5 {
            let folder = tempfile::tempdir().unwrap();
            replace(&folder.path().join("lock"), &theirs(&log::host(), "0-0", 0)).unwrap();
            let start = std::sync::Barrier::new(8);
            let end = std::sync::Barrier::new(8);
            let steal = || {
                block_on(async {
                    let mut lock = hand(&folder);
                    start.wait();
                    let turn = lock.take().await;
                    end.wait();
                    turn == Turn::Ours
                })
            };
            let won = std::thread::scope(|scope| {
                let thieves: Vec<_> = (0..8).map(|_| scope.spawn(steal)).collect();
                thieves.into_iter().map(|thief| thief.join().unwrap()).filter(|won| *won).count()
            });
            assert_eq!(won, 1);
        }
    }
}
