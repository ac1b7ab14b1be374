//! The state folder: where a sweep's files are, and what they say together.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::journal::{self, Place};
use crate::launch::agents::Agents;
use crate::launch::container::Container;
use crate::log::slot::{Phase, Slot};
use crate::log::sweep::Sweep;
use crate::log::{self, Fence, Log, LogError, View};
use crate::plan::{Ledger, Policy};
use crate::sweep::SweepSpec;

/// The folder's name.
pub const STATE_DIR: &str = ".sweepctl";

/// No sweep has more.
pub const MOST_SLOTS: u32 = 1_000_000;

/// `sweep.json`: written once, before anything else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SweepFile {
    /// Version of this file's form.
    pub v: u32,
    /// The sweep's name, also its folder's.
    pub name: String,
    /// Of this sweep alone; names of jobs and runs are made from it.
    pub nonce: String,
    /// The sweep file's path as typed.
    pub file: PathBuf,
    /// Where `submit` was called: the logical path.
    pub folder: PathBuf,
    /// The sweep.
    pub spec: SweepSpec,
    /// Random draws are functions of it.
    pub seed: u64,
    /// Runs in all, at first.
    pub budget: u32,
    /// What the user asked of the sweep as a whole.
    pub policy: Policy,
    /// Where its jobs run.
    pub runs_on: RunsOn,
    /// The user's own sbatch options.
    pub options: Vec<String>,
    /// The script's template, if it is the user's own.
    #[serde(default)]
    pub template: Option<String>,
    /// What stands around the agent in each job.
    #[serde(default)]
    pub around: Around,
    /// Whether SLURM may start a task again under the same id.
    pub requeue: bool,
    /// Seconds that processes of a program may outlive its end.
    pub linger: u64,
    /// Whether metrics are read from the program's output.
    pub metrics_from_stdout: bool,
    /// What `submit` was asked for, to recognise the same call again.
    pub asked: String,
    /// When, in seconds since the epoch.
    pub created: u64,
}

/// What stands around the agent in each job, as the user asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Around {
    /// Several agents in each job; one in its batch script if it is `None`.
    pub agents: Option<Agents>,
    /// The shell of the set-up lines; bash if it is empty.
    pub shell: String,
    /// Lines that it runs between the claim of a run and the agent.
    pub set_up: Vec<String>,
    /// Lines that it runs after the last run.
    pub teardown: Vec<String>,
    /// What `${interpreter}` stands for; `python` if it is empty.
    pub interpreter: String,
    /// The container of the programs.
    pub container: Option<Container>,
    /// Where each job's output goes, in sbatch's notation; the sweep's folder if it is `None`.
    pub output: Option<String>,
    /// Where its errors go, if not to the same file.
    pub error: Option<String>,
    /// Whether programs see one process where SLURM has several tasks.
    pub hide_slurm: bool,
}

impl Around {
    /// What `${interpreter}` stands for.
    #[must_use]
    pub fn interpreter(&self) -> &str {
        if self.interpreter.is_empty() { "python" } else { &self.interpreter }
    }
}

/// Where a sweep's jobs run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunsOn {
    /// SLURM, and which cluster if one was named.
    Slurm(Option<String>),
    /// Processes of this machine, so many at a time.
    Local(u32),
}

/// Why a sweep cannot be opened or read.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// There is no such folder here or above.
    #[error("no sweep here: there is no {STATE_DIR} in {} or above it", from.display())]
    NoState {
        /// Where the search began.
        from: PathBuf,
    },
    /// The state folder has no such sweep.
    #[error("no sweep named `{name}`; there {}", known(others))]
    NoSweep {
        /// As typed.
        name: String,
        /// Those that exist.
        others: Vec<String>,
    },
    /// Several sweeps, and none was named.
    #[error("which sweep? there {}", known(others))]
    Which {
        /// Those that exist.
        others: Vec<String>,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// sweep.json is not one of ours.
    #[error("cannot understand {}: {why}", path.display())]
    Strange {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn known(names: &[String]) -> String {
    match names {
        [] => "is none yet".to_owned(),
        [one] => format!("is `{one}`"),
        many => format!("are `{}`", many.join("`, `")),
    }
}

/// Looks for the state folder in `from` and upwards.
pub fn find_state_dir(from: &Path) -> Result<PathBuf, StateError> {
    from.ancestors()
        .map(|folder| folder.join(STATE_DIR))
        .find(|dir| dir.join("sweeps").is_dir())
        .ok_or_else(|| StateError::NoState { from: from.to_owned() })
}

/// The names of the sweeps in a state folder, oldest first.
pub fn names(state_dir: &Path) -> Vec<String> {
    let mut found: Vec<(u64, String)> = fs::read_dir(state_dir.join("sweeps"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let file = read_file(&entry.path()).ok()?;
            Some((file.created, file.name))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Why each sweep that [`names`] leaves out cannot be read; one that is only being made has no file yet.
pub fn unreadable(state_dir: &Path) -> Vec<StateError> {
    let folders = fs::read_dir(state_dir.join("sweeps")).into_iter().flatten().flatten();
    let with_file = folders.map(|folder| folder.path()).filter(|dir| is_made(dir));
    with_file.filter_map(|dir| read_file(&dir).err()).collect()
}

fn is_made(dir: &Path) -> bool {
    dir.join("sweep.json").exists()
}

fn read_file(dir: &Path) -> Result<SweepFile, StateError> {
    let path = dir.join("sweep.json");
    let text = fs::read(&path).map_err(|source| StateError::Io { path: path.clone(), source })?;
    let file: SweepFile = serde_json::from_slice(&text)
        .map_err(|error| StateError::Strange { path: path.clone(), why: error.to_string() })?;
    if file.v != 1 {
        return Err(StateError::Strange { path, why: format!("it is of version {}", file.v) });
    }
    Ok(file)
}

/// A sweep and what is known of it.
#[derive(Debug)]
pub struct OpenSweep {
    /// Its folder.
    pub dir: PathBuf,
    /// Its `sweep.json`.
    pub file: SweepFile,
    /// Its sweep log as far as it was read.
    pub log: View<Sweep>,
    slots: Vec<View<Slot>>,
    fences: BTreeMap<u32, Fence>,
    /// Fences that no journal had; none where nobody writes one.
    fresh_fences: Option<Vec<u32>>,
}

impl OpenSweep {
    /// Opens the sweep in `dir` and reads its logs.
    pub fn open(dir: &Path) -> Result<Self, StateError> {
        let mut sweep = Self::unread(dir)?;
        journal::recall(&mut sweep);
        sweep.refresh()?;
        Ok(sweep)
    }

    /// The same for who writes a journal: what is read and was in none is kept for it.
    pub fn open_to_watch(dir: &Path) -> Result<Self, StateError> {
        let mut sweep = Self::unread(dir)?;
        sweep.log = View::keeping();
        sweep.fresh_fences = Some(Vec::new());
        journal::recall(&mut sweep);
        sweep.refresh()?;
        Ok(sweep)
    }

    /// Opens the sweep in `dir` and reads the sweep log alone: a task has no use for the other slots.
    pub fn open_for_task(dir: &Path) -> Result<Self, StateError> {
        let mut sweep = Self::unread(dir)?;
        Log::of_sweep(dir).read_on(&mut sweep.log)?;
        Ok(sweep)
    }

    fn unread(dir: &Path) -> Result<Self, StateError> {
        Ok(Self {
            dir: dir.to_owned(),
            file: read_file(dir)?,
            log: View::default(),
            slots: Vec::new(),
            fences: BTreeMap::new(),
            fresh_fences: None,
        })
    }

    /// Takes an entry from a journal for read; false if it is not the next one of its log, or none.
    pub(super) fn recall(&mut self, place: Place, entry: &[u8]) -> bool {
        match place {
            Place::Sweep(number) => Log::of_sweep(&self.dir).recall(&mut self.log, number, entry),
            Place::Slot(slot, number) if slot < MOST_SLOTS => {
                if self.slots.len() <= slot as usize {
                    self.make_slots(slot as usize + 1);
                }
                Log::of_slot(&self.dir, slot).recall(&mut self.slots[slot as usize], number, entry)
            }
            Place::Slot(..) => false,
            Place::Fence(array) => match serde_json::from_slice(entry) {
                Ok(fence) => {
                    self.fences.insert(array, fence);
                    true
                }
                Err(_) => false,
            },
        }
    }

    fn make_slots(&mut self, count: usize) {
        let keep = self.fresh_fences.is_some();
        self.slots.resize_with(count, || if keep { View::keeping() } else { View::default() });
    }

    /// What was read or written since this was last asked for, and no journal had.
    pub(super) fn take_fresh(&mut self) -> Vec<(Place, Vec<u8>)> {
        let mut fresh: Vec<(Place, Vec<u8>)> = Vec::new();
        fresh.extend(self.log.take_fresh().map(|(number, entry)| (Place::Sweep(number), entry)));
        for (slot, view) in self.slots.iter_mut().enumerate() {
            let entries = view.take_fresh();
            fresh.extend(entries.map(|(number, e)| (Place::Slot(slot as u32, number), e)));
        }
        let fences = self.fresh_fences.as_mut().map(std::mem::take).unwrap_or_default();
        let json = |array: &u32| serde_json::to_vec(self.fences.get(array)?).ok();
        fresh.extend(fences.iter().filter_map(|array| Some((Place::Fence(*array), json(array)?))));
        fresh
    }

    /// Opens the sweep named `name`, or the newest that is not closed, or the only one.
    pub fn find(state_dir: &Path, name: Option<&str>) -> Result<Self, StateError> {
        Self::find_and(Self::open, state_dir, name)
    }

    /// The same for who writes a journal.
    pub fn find_to_watch(state_dir: &Path, name: Option<&str>) -> Result<Self, StateError> {
        Self::find_and(Self::open_to_watch, state_dir, name)
    }

    fn find_and(
        open: fn(&Path) -> Result<Self, StateError>,
        state_dir: &Path,
        name: Option<&str>,
    ) -> Result<Self, StateError> {
        let all = names(state_dir);
        if let Some(name) = name {
            let dir = state_dir.join("sweeps").join(name);
            if !all.iter().any(|known| known == name) && !is_made(&dir) {
                return Err(StateError::NoSweep { name: name.to_owned(), others: all });
            }
            return open(&dir);
        }
        let mut live = Vec::new();
        for name in &all {
            let sweep = open(&state_dir.join("sweeps").join(name))?;
            if !sweep.log.state.closed {
                live.push(sweep);
            }
        }
        match (live.len(), all.as_slice()) {
            (1, _) => Ok(live.remove(0)),
            (0, [.., last]) => open(&state_dir.join("sweeps").join(last)),
            _ => Err(StateError::Which { others: all }),
        }
    }

    /// Writes a new sweep's folder; nothing else may have its name.
    pub fn create(state_dir: &Path, mut file: SweepFile) -> Result<Self, StateError> {
        let sweeps = state_dir.join("sweeps");
        let io = |path: &Path| {
            let path = path.to_owned();
            move |source| StateError::Io { path, source }
        };
        if !sweeps.is_dir() {
            log::create_folder(&sweeps).map_err(io(&sweeps))?;
        }
        let wish = file.name.clone();
        let mut number = 1;
        // The folder's creation decides who has the name.
        let dir = loop {
            let dir = sweeps.join(&file.name);
            match fs::create_dir(&dir) {
                Ok(()) => break dir,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    file.name = format!("{wish}-{number}");
                }
                Err(error) => return Err(io(&dir)(error)),
            }
        };
        for sub in ["log", "slots", "arrays", "runs", "journal"] {
            fs::create_dir(dir.join(sub)).map_err(io(&dir))?;
        }
        write_whole(&dir.join("sweep.json"), &serde_json::to_vec_pretty(&file).unwrap_or_default())
            .map_err(io(&dir))?;
        // Before any log says something in there.
        for folder in [&dir, &sweeps] {
            log::sync_folder(folder).map_err(io(folder))?;
        }
        #[cfg(feature = "abort-hook")]
        crate::trace::begin(&dir);
        Self::open_to_watch(&dir)
    }

    /// Reads what has come to the logs.
    pub fn refresh(&mut self) -> Result<(), StateError> {
        Log::of_sweep(&self.dir).read_on(&mut self.log)?;
        self.make_slots(self.budget() as usize);
        for (number, _) in &self.log.state.arrays {
            if !self.fences.contains_key(number)
                && let Some(fence) = log::read_fence(&self.dir, *number)?
            {
                self.fences.insert(*number, fence);
                self.fresh_fences.iter_mut().for_each(|fresh| fresh.push(*number));
            }
        }
        let path = self.dir.join("slots");
        let folders = match fs::read_dir(&path) {
            Ok(folders) => folders,
            Err(source) => return Err(StateError::Io { path, source }),
        };
        for folder in folders {
            let folder =
                folder.map_err(|source| StateError::Io { path: path.clone(), source })?.path();
            let entries = fs::read_dir(&folder)
                .map_err(|source| StateError::Io { path: folder.clone(), source })?;
            for entry in entries.flatten() {
                let name = entry.file_name();
                let Some((slot, number)) = name.to_str().and_then(slot_entry) else { continue };
                if let Some(view) = self.slots.get_mut(slot as usize)
                    && number >= view.next
                {
                    Log::of_slot(&self.dir, slot).read_on(view)?;
                }
            }
        }
        Ok(())
    }

    /// Runs in all.
    pub fn budget(&self) -> u32 {
        self.log.state.budget.unwrap_or(self.file.budget)
    }

    /// The slots, one for each run of the budget.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().map(|view| &view.state)
    }

    /// A slot's log as far as it was read.
    pub fn slot_view(&mut self, slot: u32) -> Option<&mut View<Slot>> {
        self.slots.get_mut(slot as usize)
    }

    /// The fences read so far.
    pub fn fences(&self) -> &BTreeMap<u32, Fence> {
        &self.fences
    }

    /// Array number, job, name and size of each array that has a job.
    pub fn jobs(&self) -> Vec<(u32, String, String, usize)> {
        let arrays = self.log.state.arrays.iter();
        arrays
            .filter_map(|(number, array)| match self.fences.get(number) {
                Some(Fence::Job(job)) => {
                    Some((*number, job.clone(), array.name.clone(), array.tasks.len()))
                }
                _ => None,
            })
            .collect()
    }

    /// The state folder that it is in.
    pub fn state_dir(&self) -> &Path {
        state_dir_of(&self.dir)
    }

    /// SLURM's cluster, if one was named.
    pub fn cluster(&self) -> Option<&str> {
        match &self.file.runs_on {
            RunsOn::Slurm(cluster) => cluster.as_deref(),
            RunsOn::Local(_) => None,
        }
    }

    /// Remembers a fence that was just made.
    pub fn note_fence(&mut self, array: u32, fence: Fence) {
        self.fences.insert(array, fence);
        self.fresh_fences.iter_mut().for_each(|fresh| fresh.push(array));
    }

    /// What the logs say, for the planner.
    pub fn ledger(&self) -> Ledger {
        let mut beats = BTreeMap::new();
        for slot in self.slots() {
            if let Phase::Held(holder) = &slot.phase {
                let who = &holder.who;
                if let Ok(beat) =
                    fs::read_to_string(beat_path(&self.dir, who.array, who.task, who.leg))
                {
                    beats.insert((who.array, who.task, who.leg), beat);
                }
            }
        }
        Ledger {
            budget: self.budget(),
            sweep: self.log.state.clone(),
            slots: self.slots().cloned().collect(),
            fences: self.fences.clone(),
            beats,
        }
    }
}

fn slot_entry(name: &str) -> Option<(u32, u32)> {
    let (slot, number) = name.split_once('.')?;
    Some((slot.parse().ok()?, number.parse().ok()?))
}

/// The state folder of the sweep in `sweep_dir`.
pub fn state_dir_of(sweep_dir: &Path) -> &Path {
    sweep_dir.parent().and_then(Path::parent).unwrap_or(sweep_dir)
}

/// Where a leg shows that it lives.
pub fn beat_path(sweep_dir: &Path, array: u32, task: u32, leg: u32) -> PathBuf {
    sweep_dir.join("arrays").join(array.to_string()).join("beats").join(format!("{task}.{leg}"))
}

/// Where a task's output goes.
pub fn log_path(sweep_dir: &Path, array: u32, task: u32) -> PathBuf {
    sweep_dir.join("arrays").join(array.to_string()).join("logs").join(format!("{task}.log"))
}

/// The folder of one leg's run.
pub fn run_dir(sweep_dir: &Path, slot: u32, attempt: u32, leg: u32) -> PathBuf {
    let thousand = format!("{:03}", slot / 1000);
    sweep_dir.join("runs").join(thousand).join(format!("{slot}.{attempt}.{leg}"))
}

/// The run's id: the same on every machine and in every attempt.
pub fn run_id(sweep_nonce: &str, slot: u32) -> String {
    let own = log::base36(u128::from(log::stable_hash(&[sweep_nonce, "run"])), 4);
    format!("{own}{}", log::base36(u128::from(slot), 4))
}

/// The id by which programs know the sweep.
pub fn sweep_id(sweep_nonce: &str) -> String {
    log::base36(u128::from(log::stable_hash(&[sweep_nonce, "sweep"])), 8)
}

/// Writes a file whole or not at all, readable by its owner only.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    write_and_rename(path, content, true)
}

/// As [`write_whole`] where readers are concerned; in a crash it may be gone or empty.
pub fn replace_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    write_and_rename(path, content, false)
}

fn write_and_rename(path: &Path, content: &[u8], sync: bool) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let tmp = path.with_file_name(format!(".tmp.{}", log::nonce()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&tmp)?;
    let written = file.write_all(content).and_then(|()| match sync {
        true => file.sync_all(),
        false => Ok(()),
    });
    let done = written.and_then(|()| fs::rename(&tmp, path));
    if done.is_err() {
        let _ = fs::remove_file(&tmp);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c11_every_leg_of_a_slot_finds_the_same_run_without_asking() {
        let all: std::collections::BTreeSet<String> =
            (0..100_000).map(|slot| run_id("nonce", slot)).collect();
        assert_eq!(all.len(), 100_000, "two slots have one run");
        // Stored in logs of sweeps under way: an upgrade must find the same runs.
        assert_eq!(run_id("nonce", 7), run_id("nonce", 7));
        assert_ne!(run_id("nonce", 7), run_id("other", 7));
    }
}
