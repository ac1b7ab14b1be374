//! Turns what a sweep wrote down with `SWEEPCTL_TRACES` into a trace that `src/plan/sim/replay.rs` follows.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// The trace of the sweep in `sweep_dir`; none if it kept none, or its tasks have several agents.
///
/// A header, then a line for each entry that came to be, each look that mattered, and each answer of sbatch.
pub(crate) fn of_sweep(sweep_dir: &Path, test: &str, slurm: &str) -> Option<String> {
    let raw = fs::read_to_string(sweep_dir.join("trace")).ok().filter(|text| !text.is_empty())?;
    let raw = raw.lines().map(|line| serde_json::from_str(line).expect("whole lines of JSON"));
    let raw: Vec<Map<String, Value>> = raw.collect();
    let sweep: Value = json_in(&sweep_dir.join("sweep.json")).expect("the sweep's file");
    // The simulator's tasks have one agent each.
    if sweep["policy"]["agents"] != 1 {
        return None;
    }
    let header = json!({
        "test": test, "slurm": slurm, "budget": sweep["budget"], "policy": sweep["policy"],
    });
    let kept = looks_that_matter(&raw);
    let mut names = Names::default();
    let mut lines = vec![header.to_string()];
    let (mut entries, mut planned) = (0, BTreeMap::new());
    for (line, kept) in raw.into_iter().zip(kept) {
        let line = match line.get("writes").and_then(Value::as_str) {
            Some(path) => entry(sweep_dir, path, &line),
            None => kept.then_some(line.clone()),
        };
        let Some(mut line) = line else { continue };
        entries += usize::from(line.contains_key("entry"));
        let by = names.short(line["by"].as_str().expect("who").to_owned());
        if let Some(Value::Object(plan)) = line.get_mut("plans") {
            // What it remembers of its own plan follows from that.
            let after = plan.remove("after").expect("what it remembers");
            if planned.insert(by.clone(), after) == plan.get("before").cloned() {
                plan.remove("before");
            }
            plan.retain(|_, value| !value.is_null());
        }
        line["by"] = by.into();
        lines.push(Value::from(line).to_string());
    }
    assert_eq!(entries, files(sweep_dir), "every entry of {} is announced", sweep_dir.display());
    // Nor the folder of the test.
    let folder = sweep["folder"].as_str().expect("the project's folder");
    Some(lines.join("\n").replace(folder, "/project") + "\n")
}

/// Processes by number: a trace names no machine.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn short(&mut self, name: String) -> String {
        let number = self.0.len() + 1;
        self.0.entry(name).or_insert_with(|| format!("p{number}")).clone()
    }
}

/// The announced entry, if it is the one that came to be.
fn entry(sweep_dir: &Path, path: &str, line: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut entry = line["entry"].as_object().expect("an entry").clone();
    let there = json_in(&sweep_dir.join(path))?;
    if there["nonce"] != entry["nonce"] {
        return None;
    }
    for common in ["v", "nonce", "at", "by"] {
        entry.remove(common);
    }
    let parts: Vec<&str> = path.split('/').collect();
    let log = match parts[..] {
        ["log", _] => "sweep".to_owned(),
        ["arrays", number, "job"] => format!("fence {number}"),
        ["slots", _, name] => format!("slot {}", name.split_once('.').expect("SLOT.K").0),
        _ => panic!("{path} is no log's"),
    };
    let short = json!({ "at": line["at"], "by": line["by"], "log": log, "entry": entry });
    Some(short.as_object().expect("made just now").clone())
}

/// Whether each line is to be kept: not a look that shows what the watcher's last one showed and leads to nothing.
fn looks_that_matter(raw: &[Map<String, Value>]) -> Vec<bool> {
    let mut last: HashMap<&str, Value> = HashMap::new();
    let mut look: HashMap<&str, usize> = HashMap::new();
    let mut kept = vec![true; raw.len()];
    for (number, line) in raw.iter().enumerate() {
        let by = line["by"].as_str().expect("who");
        if line.contains_key("looks") {
            // It counts once a plan is made from it.
            kept[number] = false;
            look.insert(by, number);
        } else if let Some(plan) = line.get("plans") {
            let mut seen = plan.clone();
            for changes in ["now", "after"] {
                seen[changes] = Value::Null;
            }
            let news = plan["acts"] != 0 || last.get(by) != Some(&seen);
            kept[number] = news;
            if let Some(look) = look.remove(by) {
                kept[look] = news;
            }
            last.insert(by, seen);
        }
    }
    kept
}

fn json_in(path: &Path) -> Option<Value> {
    let bytes = sweepctl::log::read_once(path).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// How many entries and fences there are.
fn files(sweep_dir: &Path) -> usize {
    let in_folder = |folder: &Path| -> BTreeMap<_, _> {
        let all = fs::read_dir(folder).into_iter().flatten().flatten();
        all.map(|entry| (entry.file_name(), entry.path())).collect()
    };
    let count = |folder: &Path| {
        let names = in_folder(folder).into_keys();
        names.filter(|name| !name.to_string_lossy().starts_with('.')).count()
    };
    let slots = in_folder(&sweep_dir.join("slots")).into_values().map(|folder| count(&folder));
    let arrays = in_folder(&sweep_dir.join("arrays")).into_values();
    count(&sweep_dir.join("log"))
        + slots.sum::<usize>()
        + arrays.filter(|array| array.join("job").exists()).count()
}
