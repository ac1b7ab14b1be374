//! The sweep log: which arrays there are, and what the sweep as a whole was told.

use serde::{Deserialize, Serialize};

use super::Fold;

/// A slot and the attempt at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pair(pub u32, pub u32);

/// An array of tasks, to be submitted once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    /// The job's name; its end is the array's token, unique for good.
    pub name: String,
    /// What each task carries, by array index.
    pub tasks: Vec<Vec<Pair>>,
    /// How many tasks may run at a time, 0 for no limit, until the sweep is warm.
    pub throttle: u32,
    /// The same afterwards.
    pub throttle_warm: u32,
}

/// An entry of the sweep log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Entry {
    /// An array that will be submitted; its number is the entry's.
    Array(Array),
    /// A task may start a program although no run has lived yet.
    Trial {
        /// Its slot and attempt.
        pair: Pair,
        /// Of the leg that has it.
        claim: String,
    },
    /// A run has lived for a minute or finished.
    Warm {
        /// Which slot's.
        slot: u32,
    },
    /// The budget from here on; ends a pause, a cancel and a close.
    Budget {
        /// Runs in all.
        budget: u32,
    },
    /// No further array and no further start.
    Pause {
        /// Why, in words.
        why: String,
        /// The breaker did it, not a person.
        breaker: bool,
    },
    /// The sweep is to end before its budget is used up.
    Cancel {
        /// Why, in words.
        why: String,
        /// Running jobs are to be ended too.
        kill: bool,
    },
    /// The sweep has ended and nothing of it is left in the queue.
    Closed,
}

/// A start before the sweep was warm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its slot and attempt.
    pub pair: Pair,
    /// Of the leg that has it.
    pub claim: String,
}

/// What the sweep log's entries add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// The arrays with their numbers.
    pub arrays: Vec<(u32, Array)>,
    /// The budget as last set by an entry.
    pub budget: Option<u32>,
    /// Whether a run has lived.
    pub warm: bool,
    /// Starts before that, since the last `Budget` entry.
    pub trials: Vec<Trial>,
    /// Number of the last `Budget` entry, if there is one.
    pub reopened_at: Option<u32>,
    /// Why it is paused, and whether the breaker did it.
    pub paused: Option<(String, bool)>,
    /// Why it is to end early, and whether running jobs are killed.
    pub cancelled: Option<(String, bool)>,
    /// Whether it has ended.
    pub closed: bool,
}

impl Fold for Sweep {
    type Entry = Entry;

    fn apply(&mut self, number: u32, entry: &Entry, _at: u64) -> Result<(), String> {
        match entry {
            Entry::Array(array) => self.arrays.push((number, array.clone())),
            Entry::Trial { pair, claim } => {
                self.trials.push(Trial { pair: *pair, claim: claim.clone() })
            }
            Entry::Warm { .. } => self.warm = true,
            Entry::Budget { budget } => {
                self.budget = Some(*budget);
                self.reopened_at = Some(number);
                self.trials.clear();
                (self.paused, self.cancelled, self.closed) = (None, None, false);
            }
            Entry::Pause { why, breaker } => self.paused = Some((why.clone(), *breaker)),
            Entry::Cancel { why, kill } => {
                let kill = *kill || self.cancelled.as_ref().is_some_and(|(_, kill)| *kill);
                self.cancelled = Some((why.clone(), kill));
            }
            Entry::Closed => self.closed = true,
        }
        Ok(())
    }
}

impl Sweep {
    /// Whether no array may be opened and no program started.
    pub fn stopped(&self) -> bool {
        self.paused.is_some() || self.cancelled.is_some() || self.closed
    }

    /// The array with this number.
    pub fn array(&self, number: u32) -> Option<&Array> {
        self.arrays.iter().find(|(n, _)| *n == number).map(|(_, array)| array)
    }
}
