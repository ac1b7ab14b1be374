//! Judges attempts that a task holds (docs/design/claims.md §6): what does what SLURM shows prove?

use std::cmp::Ordering;

use super::{Action, Plan, Seen};
use crate::log::slot::{Entry, Holder, Outcome, Phase, Record, Slot};
use crate::scheduler::State;

/// What is known of the end of a holder's task.
enum End {
    /// SLURM's word for the holder's own leg: state, exit code, signal.
    Known(State, Option<(i32, i32)>),
    /// Dead, nobody knows how.
    Unknown(&'static str),
}

/// Appends a verdict for each holder that is surely dead.
pub(super) fn held(seen: &Seen, plan: &mut Plan) {
    for (number, slot) in seen.ledger.slots.iter().enumerate() {
        let Phase::Held(holder) = &slot.phase else { continue };
        note_beat(seen, holder, plan);
        let Some(end) = end_of(seen, holder, plan) else { continue };
        let entry = verdict(seen, slot, holder, &end);
        plan.reasons.push(format!(
            "slot {number}: job {}_{} is dead ({})",
            holder.who.job,
            holder.who.task,
            words(&end)
        ));
        plan.actions.push(Action::Slot(number as u32, entry));
    }
}

fn note_beat(seen: &Seen, holder: &Holder, plan: &mut Plan) {
    let who = &holder.who;
    let beat = seen.ledger.beats.get(&(who.array, who.task, who.leg)).cloned().unwrap_or_default();
    match plan.sightings.beats.get(&who.claim) {
        Some((last, _)) if *last == beat => {}
        _ => drop(plan.sightings.beats.insert(who.claim.clone(), (beat, seen.now))),
    }
}

/// The end of the holder, if it is proved; else remembers what was not seen.
fn end_of(seen: &Seen, holder: &Holder, plan: &mut Plan) -> Option<End> {
    let who = &holder.who;
    let key = (who.job.as_str(), who.task);
    let alive = seen.job(who.array) == Some(who.job.as_str()) && seen.alive.contains(&key);
    seen.snapshot.queue.as_ref()?;
    if alive {
        plan.sightings.missing.remove(&who.claim);
        return None;
    }
    // Accounting was asked before the queue: a final row there and nothing alive here is proof.
    let rows = seen.history(who.array, who.task);
    if let Some(newest) = rows.last().filter(|row| !row.state.is_alive()) {
        return Some(match newest.leg.cmp(&who.leg) {
            Ordering::Less => return lasting(seen, holder, plan),
            Ordering::Equal => End::Known(newest.state.clone(), Some(newest.exit)),
            Ordering::Greater => match rows.iter().find(|row| row.leg == who.leg) {
                Some(own) => End::Known(own.state.clone(), Some(own.exit)),
                None => End::Unknown("a later leg has ended"),
            },
        });
    }
    if let Some(row) = seen.ended.get(&key) {
        if seen.snapshot.accounting && seen.snapshot.history.is_none() {
            // The accounting can say how it ended; ask it first.
            plan.sightings.missing.entry(who.claim.clone()).or_insert(seen.now);
            return None;
        }
        return Some(End::Known(row.state.clone(), None));
    }
    lasting(seen, holder, plan)
}

/// Neither row: dead when that has lasted, and the beat stood still all the while.
fn lasting(seen: &Seen, holder: &Holder, plan: &mut Plan) -> Option<End> {
    if seen.snapshot.accounting && seen.snapshot.history.is_none() {
        return None;
    }
    let claim = &holder.who.claim;
    let missing = *plan.sightings.missing.entry(claim.clone()).or_insert(seen.now);
    let still = plan.sightings.beats.get(claim).map_or(seen.now, |(_, since)| *since);
    let spans = &seen.policy.spans;
    let proved = seen.before.missing.contains_key(claim)
        && seen.now >= missing + spans.dead
        && seen.now >= still + spans.beat;
    proved.then_some(End::Unknown("SLURM knows no such task and its beat stands still"))
}

fn verdict(seen: &Seen, slot: &Slot, holder: &Holder, end: &End) -> Entry {
    let noted = holder.note.is_some();
    // A signal, and then its watcher was gone: somebody ended both.
    let interrupted = noted && seen.starter_gone(&(holder.who.array, holder.who.task));
    let lost = || Entry::Lost { why: words(end), leg: holder.who.leg, run: None, interrupted };
    if !holder.running {
        return lost();
    }
    let record = |outcome: Outcome, exit: Option<i32>| {
        Entry::Record(Record {
            counts: outcome != Outcome::Cancelled,
            outcome,
            run: slot.run.clone().unwrap_or_default(),
            exit,
            signal: None,
            seconds: None,
            host: String::new(),
            summary: Default::default(),
            seen_by: Some(format!("SLURM: {}", words(end))),
        })
    };
    // The exit code is that of one agent, nobody knows which, if there are several.
    let alone = seen.policy.agents <= 1;
    match end {
        End::Known(State::Timeout | State::Deadline, _) => record(Outcome::Timeout, None),
        End::Known(State::OutOfMemory, _) if alone => record(Outcome::OutOfMemory, None),
        End::Known(State::Completed, Some((0, 0))) if !noted && alone => {
            record(Outcome::Finished, Some(0))
        }
        // 75 is our own "nothing was decided"; from 128 on a signal ended the batch script.
        End::Known(State::Failed, Some((code @ (1..=74 | 76..=127), 0))) if !noted && alone => {
            record(Outcome::Failed, Some(*code))
        }
        End::Known(State::Cancelled { by: Some(by) }, _)
            if *by == seen.snapshot.uid
                && seen.ledger.sweep.cancelled.as_ref().is_some_and(|(_, kill)| *kill) =>
        {
            record(Outcome::Cancelled, None)
        }
        End::Unknown(_) if holder.note == Some(Some(0)) => record(Outcome::Finished, Some(0)),
        _ => lost(),
    }
}

fn words(end: &End) -> String {
    match end {
        End::Known(state, Some((code, signal))) => format!("{state} {code}:{signal}"),
        End::Known(state, None) => state.to_string(),
        End::Unknown(why) => (*why).to_owned(),
    }
}
