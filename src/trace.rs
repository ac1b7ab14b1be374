//! For tests: what the processes of a sweep do, written down in one order. Release builds do not have it.
//!
//! Every line is added to the sweep's file `trace` in one write, before anybody can see what it tells of: so causes
//! stand before their effects, whatever the clocks say. Which of the entries that it announces came to be, the
//! logs say. Only a sweep that was submitted with `SWEEPCTL_TRACES` set has the file.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::drive::state::OpenSweep;
use crate::log;
use crate::plan::{Ledger, Plan, Policy, Sightings, Snapshot};
use crate::scheduler::{Submitted, task_ranges};

const FILE: &str = "trace";

/// This process, also after it has become the shell of the set-up lines and itself again: ids come again, but not at
/// the same moment.
static ME: OnceLock<String> = OnceLock::new();

/// Makes the file, if that is asked for.
pub fn begin(sweep_dir: &Path) {
    if std::env::var_os("SWEEPCTL_TRACES").is_some() {
        let _ = std::fs::write(sweep_dir.join(FILE), "");
    }
}

/// A file that is about to be created: an entry of a log, or a fence.
pub fn writes(path: &Path, content: &[u8]) {
    let sweep_dir = path.ancestors().find(|dir| dir.join(FILE).exists());
    let Some(sweep_dir) = sweep_dir else { return };
    let name = path.strip_prefix(sweep_dir).unwrap_or(path).to_string_lossy();
    let entry: Value = serde_json::from_slice(content).unwrap_or_default();
    line(sweep_dir, json!({ "writes": name, "entry": entry }));
}

/// A watcher is about to look.
pub fn looks(sweep_dir: &Path) {
    line(sweep_dir, json!({ "looks": true }));
}

/// What a watcher has seen and read: all that its plan was made from.
pub fn plans(
    sweep: &mut OpenSweep,
    policy: &Policy,
    ledger: &Ledger,
    snapshot: &Snapshot,
    (before, now): (&Sightings, u64),
    plan: &Plan,
) {
    let dir = sweep.dir.clone();
    if !dir.join(FILE).exists() {
        return;
    }
    let slots = (0..sweep.budget()).map(|slot| sweep.slot_view(slot).map(|view| view.next));
    let slots: Vec<_> = slots.collect();
    let arrays = &sweep.log.state.arrays;
    let ours = |name: &str| arrays.iter().any(|(_, array)| array.name == name);
    let beats = ledger.beats.iter();
    let beats: Vec<_> = beats.map(|((array, task, leg), beat)| (array, task, leg, beat)).collect();
    let queue = snapshot.queue.as_ref().map(|rows| {
        let mut like = BTreeMap::<_, Vec<u32>>::new();
        for row in rows.iter().filter(|row| ours(&row.name)) {
            let state = row.state.to_string();
            let key =
                (&row.job, state, &row.reason, &row.name, row.throttle, row.restarts);
            like.entry(key).or_default().extend(&row.tasks);
        }
        let rows = like.iter().map(|((job, state, reason, name, throttle, restarts), tasks)| {
            json!({ "job": job, "tasks": task_ranges(tasks).join(","), "state": state, "reason": reason,
                "name": name, "throttle": throttle, "restarts": restarts })
        });
        rows.collect::<Vec<_>>()
    });
    let history = snapshot.history.as_ref().map(|rows| {
        let rows = rows.iter().filter(|row| ours(&row.name)).map(|row| {
            json!({ "job": row.job, "tasks": task_ranges(&row.tasks).join(","), "whole": row.whole_array,
                "state": row.state.to_string(), "exit": row.exit, "name": row.name, "leg": row.leg })
        });
        rows.collect::<Vec<_>>()
    });
    let read = json!({ "log": sweep.log.next, "slots": slots, "fences": ledger.fences.keys().collect::<Vec<_>>() });
    let seen = json!({ "now": now, "queue": queue, "history": history, "accounting": snapshot.accounting,
        "uid": snapshot.uid, "read": read, "beats": beats, "before": before, "after": plan.sightings,
        "policy": (*policy != sweep.file.policy).then_some(policy),
        "acts": plan.actions.len() });
    line(&dir, json!({ "plans": seen }));
}

/// What became of an sbatch.
pub fn answer(sweep_dir: &Path, array: u32, submitted: &Submitted) {
    use crate::scheduler::SubmitRefusal::Limit;
    let (answer, job) = match submitted {
        Submitted::Accepted(job) => ("accepted", Some(job)),
        Submitted::Refused { kind: Limit, .. } => ("limit", None),
        Submitted::Refused { .. } => ("refused", None),
        Submitted::NoAnswer { .. } => ("none", None),
        Submitted::NotSent { .. } => ("not-sent", None),
    };
    line(sweep_dir, json!({ "sbatch": array, "answer": answer, "job": job }));
}

fn line(sweep_dir: &Path, mut line: Value) {
    let Ok(mut file) = OpenOptions::new().append(true).open(sweep_dir.join(FILE)) else {
        return;
    };
    line["at"] = log::now().into();
    line["by"] = ME.get_or_init(me).as_str().into();
    let _ = file.write_all(format!("{line}\n").as_bytes());
}

fn me() -> String {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    // The 22nd field of proc(5), of which two stand before the name's end: when it was started.
    let started = fields.split_whitespace().nth(19).unwrap_or_default();
    format!("{}.{started}", std::process::id())
}
