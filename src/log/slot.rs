//! The slot log: who runs a slot, and which run counts.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::Fold;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The program ended by itself with exit code 0.
    Finished,
    /// The program ended by itself with another exit code, or by a signal nobody sent to the job.
    Failed,
    /// It failed within 60 s before any run of the sweep had shown that it can live: does not count.
    FailedFast,
    /// SLURM ended it at its time limit.
    Timeout,
    /// SLURM ended it at its memory limit.
    OutOfMemory,
    /// We ended it (`sweepctl cancel`).
    Cancelled,
}

/// The end of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Whether the slot's budget is used up by it; decided once, by the writer.
    pub counts: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// The run's id.
    pub run: String,
    /// The program's exit code; none if a signal ended it or nobody saw it.
    pub exit: Option<i32>,
    /// The signal that ended the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// How long the program ran, in seconds.
    pub seconds: Option<f64>,
    /// The machine it ran on.
    pub host: String,
    /// The last value of each metric that the program gave.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub summary: IndexMap<String, serde_json::Value>,
    /// Who saw the end, if not the job itself: the evidence in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_by: Option<String>,
}

/// An entry of a slot's log. The rules of who may append what are [`Slot`]'s methods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Entry {
    /// A task takes the attempt; with `run`, its program starts at once.
    Claim {
        /// Which try at the slot this is, from 0.
        attempt: u32,
        /// Who takes it.
        #[serde(flatten)]
        who: Claimant,
        /// The run, where the program starts with this very entry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
    },
    /// The holder's last act before the program starts.
    Run {
        /// The run's id.
        run: String,
    },
    /// The program ended after the job got a signal: no verdict.
    Note {
        /// The signal that the job got.
        signal: i32,
        /// The program's exit code, if it had one.
        exit: Option<i32>,
    },
    /// The run has ended.
    Record(Record),
    /// The holder gives the attempt back before its run.
    Release {
        /// Why, in words.
        why: String,
        /// No run of the sweep had lived yet: the breaker's matter, not the slot's.
        early: bool,
    },
    /// The holder is dead and left no result.
    Lost {
        /// The evidence in words.
        why: String,
        /// The holder's leg.
        leg: u32,
        /// A run that it left at the controller, to be resumed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<String>,
        /// A person interrupted the shell that it ran in: that is no try that came to nothing.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        interrupted: bool,
    },
    /// The attempt is taken from its task before it started.
    Revoke {
        /// The attempt.
        attempt: u32,
        /// The evidence in words.
        why: String,
        /// Whether it says something about the slot (a pause does not).
        unstarted: bool,
    },
    /// Nothing runs in this slot any more.
    Close {
        /// Why, in words.
        why: String,
    },
    /// A result of a leg that had been given up on.
    Late(Record),
}

/// A leg of a task: who claims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimant {
    /// Number of the array in the sweep log.
    pub array: u32,
    /// SLURM's array job id.
    pub job: String,
    /// Index in the array.
    pub task: u32,
    /// How often the task was requeued (SLURM_RESTART_COUNT).
    pub leg: u32,
    /// Of this start of this leg alone.
    pub claim: String,
}

/// Who holds a slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Holder {
    /// The leg whose claim is the last one.
    pub who: Claimant,
    /// Whether its program may have started.
    pub running: bool,
    /// Its program ended after a signal: the exit code.
    pub note: Option<Option<i32>>,
    /// When it claimed, by its own clock.
    pub since: u64,
}

/// Where a slot is.
#[derive(Clone, Debug, PartialEq, Default)]
pub enum Phase {
    /// Nobody runs it; the current attempt may be claimed.
    #[default]
    Open,
    /// A task has it.
    Held(Holder),
    /// A run that counts has ended.
    Ended(Record),
    /// It was given up by a person or is not needed any more.
    Closed(String),
}

/// What a slot's entries add up to.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Slot {
    /// Where it is.
    pub phase: Phase,
    /// The current attempt.
    pub attempt: u32,
    /// The slot's run, once one is known.
    pub run: Option<String>,
    /// Attempts that started and came to nothing, by a fault of the machine or a person.
    pub taken: u32,
    /// Attempts revoked unstarted since the last claim.
    pub revoked: u32,
    /// The attempts that ended early, before the sweep was warm: failed fast or released.
    pub early: Vec<u32>,
    /// Why the last attempt came to nothing.
    pub last_loss: Option<String>,
    /// Results beyond the one that counts.
    pub surplus: Vec<Record>,
    /// Failed-fast records, newest last.
    pub fast: Vec<Record>,
    /// Who claimed last.
    pub last: Option<Claimant>,
}

impl Fold for Slot {
    type Entry = Entry;

    fn apply(&mut self, _number: u32, entry: &Entry, at: u64) -> Result<(), String> {
        match (entry, &mut self.phase) {
            (Entry::Claim { who, run, .. }, Phase::Open | Phase::Held(_)) => {
                self.revoked = 0;
                self.last = Some(who.clone());
                self.run = run.clone().or(self.run.take());
                self.phase = Phase::Held(Holder {
                    who: who.clone(),
                    running: run.is_some(),
                    note: None,
                    since: at,
                });
            }
            (Entry::Run { run }, Phase::Held(holder)) => {
                holder.running = true;
                self.run = Some(run.clone());
            }
            (Entry::Note { exit, .. }, Phase::Held(holder)) => holder.note = Some(*exit),
            (Entry::Record(record), Phase::Held(_)) => {
                if record.counts {
                    self.phase = Phase::Ended(record.clone());
                } else if record.outcome == Outcome::FailedFast {
                    self.early.push(self.attempt);
                    self.fast.push(record.clone());
                    self.reopen("failed within a minute of its start");
                } else {
                    self.taken += 1;
                    self.reopen(&format!("ended {:?} and does not count", record.outcome));
                }
            }
            (Entry::Release { why, early }, Phase::Held(_)) => {
                if *early {
                    self.early.push(self.attempt);
                } else {
                    self.taken += 1;
                }
                self.reopen(why);
            }
            (Entry::Lost { why, run, interrupted, .. }, Phase::Held(_)) => {
                self.taken += u32::from(!interrupted);
                self.run = run.clone().or(self.run.take());
                self.reopen(why);
            }
            (Entry::Revoke { why, unstarted, .. }, Phase::Open) => {
                self.revoked += u32::from(*unstarted);
                self.reopen(why);
            }
            (Entry::Close { why }, Phase::Open | Phase::Held(_)) => {
                self.phase = Phase::Closed(why.clone())
            }
            (Entry::Late(record), Phase::Open | Phase::Closed(_)) => {
                self.phase = Phase::Ended(record.clone())
            }
            (Entry::Late(record), Phase::Held(_) | Phase::Ended(_)) => {
                self.surplus.push(record.clone())
            }
            (entry, phase) => return Err(format!("{entry:?} cannot follow {phase:?}")),
        }
        Ok(())
    }
}

/// What a task that wants to claim its pair is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimRule {
    /// Append the claim.
    Claim,
    /// Nothing to do here: leave with exit code 0; the reason in words.
    Leave(String),
    /// The same leg was launched a second time: leave with 75 and give no verdict.
    Twin,
}

impl Slot {
    fn reopen(&mut self, why: &str) {
        self.attempt += 1;
        self.phase = Phase::Open;
        self.last_loss = Some(why.to_owned());
    }

    /// Whether no further attempt is made: open, with too many that came to nothing.
    pub fn given_up(&self, max_attempts: u32) -> bool {
        self.phase == Phase::Open && (self.taken >= max_attempts || self.revoked >= 3)
    }

    /// Whether the slot needs nothing more.
    pub fn over(&self, max_attempts: u32) -> bool {
        matches!(self.phase, Phase::Ended(_) | Phase::Closed(_)) || self.given_up(max_attempts)
    }

    /// The holder, if there is one.
    pub fn holder(&self) -> Option<&Holder> {
        match &self.phase {
            Phase::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// Whether `claim` is the last claim and the slot is still held by it.
    pub fn held_by(&self, claim: &str) -> bool {
        self.holder().is_some_and(|holder| holder.who.claim == claim)
    }

    /// What `who`, carrying `attempt`, may do (PROTOCOL: a leg judges the whole log).
    pub fn claim_rule(&self, attempt: u32, who: &Claimant, max_attempts: u32) -> ClaimRule {
        match &self.phase {
            Phase::Open if self.attempt == attempt && !self.given_up(max_attempts) => {
                ClaimRule::Claim
            }
            Phase::Open => {
                ClaimRule::Leave(format!("attempt {attempt} of this slot was given away"))
            }
            Phase::Ended(_) => ClaimRule::Leave("the slot has a run that counts".to_owned()),
            Phase::Closed(why) => ClaimRule::Leave(format!("the slot is closed: {why}")),
            Phase::Held(holder) => {
                let held = &holder.who;
                let same_task =
                    (held.array, &held.job, held.task) == (who.array, &who.job, who.task);
                match held.leg.cmp(&who.leg) {
                    _ if !same_task || self.attempt != attempt => {
                        ClaimRule::Leave(format!("job {}_{} has the slot", held.job, held.task))
                    }
                    std::cmp::Ordering::Less => ClaimRule::Claim,
                    std::cmp::Ordering::Equal => ClaimRule::Twin,
                    std::cmp::Ordering::Greater => {
                        ClaimRule::Leave("a later leg of this task has the slot".to_owned())
                    }
                }
            }
        }
    }

    /// The entry for a program that ended by itself, seen by the leg with `claim`.
    pub fn end_entry(&self, claim: &str, record: Record) -> Entry {
        // Whoever was given up on never decides: what it has is kept, and counts only if nothing else does.
        if self.held_by(claim) {
            Entry::Record(record)
        } else {
            Entry::Late(Record { counts: true, ..record })
        }
    }
}
