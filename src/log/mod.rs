//! Logs of immutable files: whoever creates number K decides what number K says.
//!
//! An entry is appended by creating the file that follows the last one, with its content, exclusively
//! ([`create_once`]). What was read once stays true and may be kept; that a file was not seen proves
//! nothing, so every decision is judged on the entries read and made by creating the next number. If
//! somebody else creates it first, the log is read on and judged anew.

mod create;
pub mod slot;
pub mod sweep;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use create::{Created, create_folder, create_once, probe, read_once, sync_folder};
#[cfg(test)]
pub(crate) use create::{READS, SYNCED};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the entries that this program writes and understands.
const VERSION: u32 = 1;

/// Why a log could not be read or appended to. Nothing may be decided on it until a person has looked.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file system gave no clear answer: the entry may or may not be there.
    #[error("cannot tell whether {} was written: {source}", path.display())]
    Unknown {
        /// The entry's file.
        path: PathBuf,
        /// What the file system said last.
        source: std::io::Error,
    },
    /// A file is there that this version cannot understand.
    #[error("cannot understand {}: {why}", path.display())]
    Strange {
        /// The entry's file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// An entry with what is true of every entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stamped<E> {
    v: u32,
    nonce: String,
    /// When it was written, seconds since the epoch by the writer's clock; for people only.
    pub at: u64,
    /// Who wrote it, `HOST:PID`; for people only.
    pub by: String,
    /// The entry.
    #[serde(flatten)]
    pub entry: E,
}

/// What a log's entries add up to.
pub trait Fold: Default + Clone {
    /// The entries of the log.
    type Entry: Serialize + DeserializeOwned + Clone;
    /// Takes entry number `number` into account; an error says why it cannot stand there.
    fn apply(&mut self, number: u32, entry: &Self::Entry, at: u64) -> Result<(), String>;
}

/// A log as far as it has been read.
#[derive(Clone, Debug, Default)]
pub struct View<F> {
    /// What the entries read so far add up to.
    pub state: F,
    /// The number of the first entry that was not there.
    pub next: u32,
    /// How many entries were recalled from a journal and not seen to be there.
    recalled: u32,
    /// What was read and not recalled, as it stands in the files; none where nobody will ask for it.
    fresh: Option<Vec<Vec<u8>>>,
}

impl<F: Default> View<F> {
    /// A log of which nothing has been read, and whose entries are kept as they are read.
    pub fn keeping() -> Self {
        Self { fresh: Some(Vec::new()), ..Self::default() }
    }

    /// The entries that were read since this was last asked for, with their numbers.
    pub fn take_fresh(&mut self) -> impl Iterator<Item = (u32, Vec<u8>)> {
        let fresh = self.fresh.as_mut().map(std::mem::take).unwrap_or_default();
        let first = self.next - fresh.len() as u32;
        (first..).zip(fresh)
    }
}

/// Where a log's files are: `STEM` followed by the number.
#[derive(Clone, Debug)]
pub struct Log {
    dir: PathBuf,
    stem: String,
    width: usize,
}

impl Log {
    /// The sweep log, `log/000000 …`.
    pub fn of_sweep(sweep_dir: &Path) -> Self {
        Self { dir: sweep_dir.join("log"), stem: String::new(), width: 6 }
    }

    /// The log of one slot, `slots/DDD/SLOT.K`.
    pub fn of_slot(sweep_dir: &Path, slot: u32) -> Self {
        let dir = sweep_dir.join("slots").join(format!("{:03}", slot / 1000));
        Self { dir, stem: format!("{slot}."), width: 1 }
    }

    fn path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("{}{number:0width$}", self.stem, width = self.width))
    }

    /// Reads the entries that have come since `view`.
    pub fn read_on<F: Fold>(&self, view: &mut View<F>) -> Result<(), LogError> {
        while let Some(bytes) = read_once(&self.path(view.next))
            .map_err(|source| LogError::Unknown { path: self.path(view.next), source })?
        {
            self.take(view, &bytes)?;
        }
        Ok(())
    }

    /// Takes an entry for read that somebody else has read before; false if it is not the next one, or none.
    pub fn recall<F: Fold>(&self, view: &mut View<F>, number: u32, bytes: &[u8]) -> bool {
        let fresh = view.fresh.take();
        let taken = number == view.next && self.take(view, bytes).is_ok();
        view.recalled = if taken { view.next } else { view.recalled };
        view.fresh = fresh;
        taken
    }

    /// Reads the whole log.
    pub fn read<F: Fold>(&self) -> Result<View<F>, LogError> {
        let mut view = View::default();
        self.read_on(&mut view)?;
        Ok(view)
    }

    fn take<F: Fold>(&self, view: &mut View<F>, bytes: &[u8]) -> Result<(), LogError> {
        let strange = |why: String| LogError::Strange { path: self.path(view.next), why };
        let entry: Stamped<F::Entry> = parse(bytes).map_err(strange)?;
        // A fold that refuses half way must leave nothing behind.
        let mut state = view.state.clone();
        state.apply(view.next, &entry.entry, entry.at).map_err(strange)?;
        view.state = state;
        view.next += 1;
        if let Some(fresh) = &mut view.fresh {
            fresh.push(bytes.to_vec());
        }
        Ok(())
    }

    /// Reads on, lets `judge` decide on what stands there, and creates the next entry with what it
    /// says; if somebody else was first, again. `None` from `judge` ends it: false.
    pub fn append<F: Fold>(
        &self,
        view: &mut View<F>,
        patience: Duration,
        mut judge: impl FnMut(&F) -> Option<F::Entry>,
    ) -> Result<bool, LogError> {
        loop {
            self.forget_unless_there(view);
            self.read_on(view)?;
            let Some(entry) = judge(&view.state) else { return Ok(false) };
            let bytes = stamp(entry);
            let path = self.path(view.next);
            #[cfg(feature = "abort-hook")]
            crate::trace::writes(&path, &bytes);
            match create_once(&path, &bytes, patience) {
                Created::Mine => {
                    self.take(view, &bytes)?;
                    return Ok(true);
                }
                Created::Theirs(_) => {}
                Created::Unknown(source) => return Err(LogError::Unknown { path, source }),
            }
        }
    }
}

impl Log {
    /// Nothing may follow an entry that only a journal knows: whoever reads the files alone would not get there.
    fn forget_unless_there<F: Fold>(&self, view: &mut View<F>) {
        let Some(last) = view.next.checked_sub(1).filter(|_| view.recalled == view.next) else {
            return;
        };
        view.recalled = 0;
        let found = self.path(last).symlink_metadata();
        if found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
            let fresh = view.fresh.as_ref().map(|_| Vec::new());
            *view = View { fresh, ..View::default() };
        }
    }
}

fn stamp<E: Serialize>(entry: E) -> Vec<u8> {
    let stamped = Stamped { v: VERSION, nonce: nonce(), at: now(), by: me(), entry };
    serde_json::to_vec(&stamped).expect("entries have text keys and plain values")
}

fn parse<E: DeserializeOwned>(bytes: &[u8]) -> Result<Stamped<E>, String> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let stamped = serde_json::from_slice::<Stamped<E>>(bytes).map_err(|error| error.to_string());
    if stamped.as_ref().is_ok_and(|stamped| stamped.v == VERSION) {
        return stamped;
    }
    let version: Version = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if version.v != VERSION {
        return Err(format!(
            "it is of version {}, this program knows {VERSION}; use the newer sweepctl",
            version.v
        ));
    }
    stamped
}

/// Who may run an array: the one job that it has, or nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fence {
    /// This job, SLURM's array job id.
    Job(String),
    /// Nobody, and why.
    Void(String),
}

/// Reads `arrays/N/job`.
pub fn read_fence(sweep_dir: &Path, array: u32) -> Result<Option<Fence>, LogError> {
    let path = fence_path(sweep_dir, array);
    let bytes =
        read_once(&path).map_err(|source| LogError::Unknown { path: path.clone(), source })?;
    let Some(bytes) = bytes else { return Ok(None) };
    let stamped: Stamped<Fence> = parse(&bytes).map_err(|why| LogError::Strange { path, why })?;
    Ok(Some(stamped.entry))
}

/// Makes `fence` the array's, unless it has one; answers which one it has.
pub fn set_fence(
    sweep_dir: &Path,
    array: u32,
    fence: Fence,
    patience: Duration,
) -> Result<Fence, LogError> {
    if let Some(there) = read_fence(sweep_dir, array)? {
        return Ok(there);
    }
    let path = fence_path(sweep_dir, array);
    let bytes = stamp(fence.clone());
    #[cfg(feature = "abort-hook")]
    crate::trace::writes(&path, &bytes);
    match create_once(&path, &bytes, patience) {
        Created::Mine => Ok(fence),
        Created::Theirs(bytes) => {
            let stamped: Stamped<Fence> =
                parse(&bytes).map_err(|why| LogError::Strange { path, why })?;
            Ok(stamped.entry)
        }
        Created::Unknown(source) => Err(LogError::Unknown { path, source }),
    }
}

fn fence_path(sweep_dir: &Path, array: u32) -> PathBuf {
    sweep_dir.join("arrays").join(array.to_string()).join("job")
}

/// A text that nobody else has: 16 characters of `0-9a-z`, from the system's random numbers.
pub fn nonce() -> String {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            // A kernel without getrandom (before 3.17): time and pid still differ between writers.
            Err(_) => {
                let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                bytes = (nanos.as_nanos() ^ (u128::from(std::process::id()) << 96)).to_le_bytes();
                filled = bytes.len();
            }
        }
    }
    base36(u128::from_le_bytes(bytes), 16)
}

/// The last `width` digits of a number in base 36.
pub fn base36(mut number: u128, width: usize) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut text = vec![b'0'; width];
    for place in text.iter_mut().rev() {
        *place = DIGITS[(number % 36) as usize];
        number /= 36;
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A stable 64-bit hash (FNV-1a with splitmix64's finish): names of jobs and runs are made from it, so it must
/// never change.
pub fn stable_hash(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in part.bytes().chain([0xff]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash ^= hash >> 30;
    hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash ^= hash >> 27;
    hash = hash.wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// Seconds since the epoch.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// This machine's name, as the kernel has it.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn me() -> String {
    format!("{}:{}", host(), std::process::id())
}
