//! What each watcher saw and why it acted: for people, and so that the next process need not read everything anew.
//!
//! Decides nothing. Entries of logs never change, so those that were read are written down here and taken from
//! here; what is absent is looked for in the logs each time. Each line carries a checksum that holds for its
//! sweep alone: a line that is damaged, or another sweep's, is as if it were not there. Nothing is fsynced.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::state::OpenSweep;
use crate::log;
use crate::plan::Sightings;

/// More files than these become one.
const FILES: usize = 8;
/// So much that is no entry may stand in a file before it is written anew without most of that.
const SLACK_BYTES: usize = 1 << 20;
/// Lines for people that are kept then.
const SAID: usize = 500;

/// Which entry of which log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Place {
    /// Of the sweep log.
    Sweep(u32),
    /// Of a slot's log.
    Slot(u32, u32),
    /// The fence of an array.
    Fence(u32),
}

#[derive(Serialize, Deserialize)]
struct Note {
    at: u64,
    host: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    said: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sightings: Option<Sightings>,
}

/// The journal of one process.
#[derive(Debug)]
pub(super) struct Journal {
    dir: PathBuf,
    path: PathBuf,
    sweep: String,
    last: Sightings,
    /// Bytes of notes in the file; none before it is begun.
    notes: Option<usize>,
}

impl Journal {
    pub(super) fn new(sweep_dir: &Path, sweep: &str) -> Self {
        let dir = dir_of(sweep_dir);
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let path = dir.join(format!("{:016}-{}.jsonl", start.as_micros(), log::nonce()));
        Self { dir, path, sweep: sweep.to_owned(), last: Sightings::default(), notes: None }
    }

    /// What the newest watcher on this machine had seen; another machine's clock says nothing here.
    pub(super) fn last_sightings(&mut self) -> Sightings {
        let (host, now) = (log::host(), log::now());
        let mut newest: Option<Note> = None;
        for_each_line(&self.dir, &self.sweep, false, |line| {
            let Line::Note(note) = line else { return };
            let later = newest.as_ref().is_none_or(|newest| newest.at <= note.at);
            if note.host == host && note.at <= now && note.sightings.is_some() && later {
                newest = Some(note);
            }
        });
        // What is not so any more must be written over it, or the next watcher takes it for true.
        self.last = newest.and_then(|note| note.sightings).unwrap_or_default();
        self.last.clone()
    }

    /// Writes what there is to write; a journal that cannot be written is no reason to stop.
    pub(super) fn write(
        &mut self,
        said: &[String],
        sightings: &Sightings,
        entries: Vec<(Place, Vec<u8>)>,
    ) {
        if said.is_empty() && *sightings == self.last && entries.is_empty() {
            return;
        }
        let mut text = String::new();
        for (place, entry) in &entries {
            text.extend(seal_entry(&self.sweep, *place, entry));
        }
        let entry_bytes = text.len();
        if !said.is_empty() || *sightings != self.last {
            let note = Note {
                at: log::now(),
                host: log::host(),
                said: said.to_vec(),
                sightings: (*sightings != self.last).then(|| sightings.clone()),
            };
            text.extend(seal_note(&self.sweep, &note));
        }
        let note_bytes = text.len() - entry_bytes;
        self.last = sightings.clone();
        let first = self.notes.is_none();
        let notes = self.notes.unwrap_or_default() + note_bytes;
        self.notes = Some(notes);
        let file = fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&self.path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        if written.is_ok()
            && (notes > SLACK_BYTES || (first && files(&self.dir).len() > FILES))
            && let Ok(notes) = self.compact()
        {
            self.notes = Some(notes);
        }
    }

    /// Makes one file of all: each entry once, what was seen last on each machine, and the last words.
    ///
    /// Another watcher that still writes to its own begins it anew. Answers the bytes of notes.
    fn compact(&self) -> io::Result<usize> {
        let tmp = self.dir.join(format!(".tmp.{}", log::nonce()));
        let others = files(&self.dir);
        let done = self.write_compact(&tmp).and_then(|notes| {
            fs::rename(&tmp, &self.path)?;
            Ok(notes)
        });
        match done {
            Ok(_) => others.iter().filter(|path| **path != self.path).for_each(|path| {
                let _ = fs::remove_file(path);
            }),
            Err(_) => drop(fs::remove_file(&tmp)),
        }
        done
    }

    fn write_compact(&self, tmp: &Path) -> io::Result<usize> {
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(tmp)?;
        let mut file = io::BufWriter::new(file);
        let mut written = Ok(());
        let mut places = HashSet::new();
        let (mut said, mut seen) = (Vec::new(), BTreeMap::<String, Note>::new());
        for_each_line(&self.dir, &self.sweep, true, |line| match line {
            Line::Entry(place, entry) => {
                if places.insert(place)
                    && written.is_ok()
                    && let Some(line) = seal_entry(&self.sweep, place, entry)
                {
                    written = file.write_all(line.as_bytes());
                }
            }
            Line::Note(mut note) => {
                if let Some(sightings) = note.sightings.take() {
                    let last = seen.get(&note.host).is_none_or(|last| last.at <= note.at);
                    if last {
                        let (at, host) = (note.at, note.host.clone());
                        let sightings = Some(sightings);
                        seen.insert(host.clone(), Note { at, host, said: Vec::new(), sightings });
                    }
                }
                if !note.said.is_empty() {
                    said.push(note);
                }
            }
        });
        written?;
        said.sort_by_key(|note| note.at);
        said.drain(..said.len().saturating_sub(SAID));
        let mut bytes = 0;
        for note in said.iter().chain(seen.values()) {
            let line = seal_note(&self.sweep, note).unwrap_or_default();
            bytes += line.len();
            file.write_all(line.as_bytes())?;
        }
        file.flush()?;
        Ok(bytes)
    }
}

/// Gives what the journals hold to a sweep that has read nothing yet.
pub(super) fn recall(sweep: &mut OpenSweep) {
    let (dir, nonce) = (dir_of(&sweep.dir), sweep.file.nonce.clone());
    // Two watchers may have written in turn: what comes before its time has to wait.
    let mut early = BTreeMap::new();
    for_each_line(&dir, &nonce, true, |line| {
        if let Line::Entry(place, entry) = line
            && !sweep.recall(place, entry)
        {
            early.insert(place, entry.to_vec());
        }
    });
    for (place, entry) in early {
        sweep.recall(place, &entry);
    }
}

enum Line<'a> {
    Entry(Place, &'a [u8]),
    Note(Note),
}

fn dir_of(sweep_dir: &Path) -> PathBuf {
    sweep_dir.join("journal")
}

/// The journals, oldest first.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "jsonl"));
    files.sort();
    files
}

/// Shows the lines that are whole, those about entries only if they are asked for.
fn for_each_line(dir: &Path, sweep: &str, entries: bool, mut show: impl FnMut(Line)) {
    let mut line = Vec::new();
    for file in files(dir).iter().filter_map(|path| fs::File::open(path).ok()) {
        let mut file = io::BufReader::new(file);
        // Line by line: all of a big sweep would not be small.
        loop {
            line.clear();
            if !file.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                break;
            }
            let line_end = line.strip_suffix(b"\n").unwrap_or(&line);
            let is_entry =
                line_end.get(START + 1..).is_some_and(|rest| !rest.starts_with(b"\"at\""));
            if entries || !is_entry {
                read_line(sweep, line_end).into_iter().for_each(&mut show);
            }
        }
    }
}

/// `{"sum":"…"` with 13 characters.
const START: usize = 8 + 13 + 1;

fn read_line<'a>(sweep: &str, line: &'a [u8]) -> Option<Line<'a>> {
    let (start, rest) = line.split_at_checked(START)?;
    let rest = std::str::from_utf8(rest).ok()?.strip_prefix(',')?.strip_suffix('}')?;
    if start != sum(sweep, rest).as_bytes() {
        return None;
    }
    if rest.starts_with("\"at\"") {
        return serde_json::from_str(&format!("{{{rest}}}")).ok().map(Line::Note);
    }
    let (place, entry) = rest.split_once(",\"entry\":")?;
    let number = |text: &str, name: &str| text.strip_prefix(name)?.parse().ok();
    let place = match place.split_once(',') {
        Some((slot, k)) => Place::Slot(number(slot, "\"slot\":")?, number(k, "\"number\":")?),
        None => match number(place, "\"log\":") {
            Some(number) => Place::Sweep(number),
            None => Place::Fence(number(place, "\"fence\":")?),
        },
    };
    Some(Line::Entry(place, entry.as_bytes()))
}

fn sum(sweep: &str, rest: &str) -> String {
    let sum = log::base36(u128::from(log::stable_hash(&[sweep, rest])), 13);
    format!("{{\"sum\":\"{sum}\"")
}

/// A line of the journal. An entry that could not stand in one, as a person edited it, is left out.
fn seal_entry(sweep: &str, place: Place, entry: &[u8]) -> Option<String> {
    let entry = std::str::from_utf8(entry).ok().filter(|entry| !entry.contains('\n'))?;
    Some(seal(
        sweep,
        &match place {
            Place::Sweep(number) => format!("\"log\":{number},\"entry\":{entry}"),
            Place::Slot(slot, number) => {
                format!("\"slot\":{slot},\"number\":{number},\"entry\":{entry}")
            }
            Place::Fence(array) => format!("\"fence\":{array},\"entry\":{entry}"),
        },
    ))
}

fn seal_note(sweep: &str, note: &Note) -> Option<String> {
    let text = serde_json::to_string(note).ok()?;
    Some(seal(sweep, text.strip_prefix('{')?.strip_suffix('}')?))
}

fn seal(sweep: &str, rest: &str) -> String {
    format!("{},{rest}}}\n", sum(sweep, rest))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::drive::state::{OpenSweep, RunsOn, SweepFile};
    use crate::log::slot::{Claimant, Entry, Outcome, Record, Slot};
    use crate::log::sweep::{self, Pair, Sweep};
    use crate::log::{Fence, Fold, Log, READS, SYNCED, View};
    use crate::plan::{Policy, Spans};

    fn sweep(folder: &tempfile::TempDir, budget: u32) -> OpenSweep {
        let text = b"program: x\nmethod: grid\nparameters: {a: {values: [1, 2]}}\n";
        let file = SweepFile {
            v: 1,
            name: "s".to_owned(),
            nonce: log::nonce(),
            file: "s.yaml".into(),
            folder: folder.path().to_owned(),
            spec: crate::sweep::read(text, "s.yaml").unwrap().spec,
            seed: 1,
            budget,
            policy: Policy {
                max_attempts: 3,
                warmup: 4,
                jobs: None,
                parallel: None,
                runs_per_job: 1,
                agents: 1,
                max_array_size: 1000,
                job_name: "s".to_owned(),
                spans: Spans::default(),
            },
            runs_on: RunsOn::Local(1),
            options: Vec::new(),
            template: None,
            around: Default::default(),
            requeue: true,
            linger: 1,
            metrics_from_stdout: false,
            asked: String::new(),
            created: 0,
        };
        OpenSweep::create(folder.path(), file).unwrap()
    }

    fn watch(dir: &Path, journal: &mut Journal) {
        let mut sweep = OpenSweep::open_to_watch(dir).unwrap();
        let sightings = journal.last_sightings();
        journal.write(&["looked".to_owned()], &sightings, sweep.take_fresh());
    }

    type Known = (Sweep, u32, Vec<(Slot, u32)>, BTreeMap<u32, Fence>);

    fn known(mut sweep: OpenSweep) -> Known {
        let slots = (0..sweep.budget())
            .map(|slot| {
                let view = sweep.slot_view(slot).unwrap();
                (view.state.clone(), view.next)
            })
            .collect();
        (sweep.log.state.clone(), sweep.log.next, slots, sweep.fences().clone())
    }

    fn without_journals(dir: &Path) -> Known {
        let (journals, aside) = (dir_of(dir), dir.join("aside"));
        fs::rename(&journals, &aside).unwrap();
        let known = known(OpenSweep::open(dir).unwrap());
        fs::rename(&aside, &journals).unwrap();
        known
    }

    fn who(array: u32, leg: u32) -> Claimant {
        Claimant { array, job: "7".to_owned(), task: 0, leg, claim: log::nonce() }
    }

    fn record(counts: bool) -> Record {
        Record {
            counts,
            outcome: if counts { Outcome::Finished } else { Outcome::Cancelled },
            run: "r".to_owned(),
            exit: Some(0),
            signal: None,
            seconds: Some(1.5),
            host: "n1".to_owned(),
            summary: [("lö\"ss\n".to_owned(), 0.25.into())].into_iter().collect(),
            seen_by: None,
        }
    }

    fn slot_entry(kind: u8) -> Entry {
        let why = "why\nnot".to_owned();
        match kind % 9 {
            0 | 1 => {
                let run = (kind > 100).then(|| "r".to_owned());
                Entry::Claim { attempt: 0, who: who(0, u32::from(kind)), run }
            }
            2 => Entry::Run { run: "r".to_owned() },
            3 => Entry::Note { signal: 15, exit: None },
            4 => Entry::Record(record(kind > 100)),
            5 => Entry::Release { why, early: kind > 100 },
            6 => Entry::Lost { why, leg: 0, run: None, interrupted: kind > 100 },
            7 => Entry::Revoke { attempt: 0, why, unstarted: true },
            _ => Entry::Late(record(true)),
        }
    }

    fn sweep_entry(kind: u8) -> sweep::Entry {
        match kind % 5 {
            0 => sweep::Entry::Array(sweep::Array {
                name: log::nonce(),
                tasks: vec![vec![Pair(0, 0)]],
                throttle: 0,
                throttle_warm: 0,
            }),
            1 => sweep::Entry::Trial { pair: Pair(1, 0), claim: log::nonce() },
            2 => sweep::Entry::Warm { slot: 0 },
            3 => sweep::Entry::Pause { why: "why".to_owned(), breaker: false },
            _ => sweep::Entry::Budget { budget: 2 + u32::from(kind % 3) },
        }
    }

    fn append<F: Fold>(log: &Log, entry: F::Entry) {
        let fits = |state: &F| state.clone().apply(0, &entry, 0).is_ok().then(|| entry.clone());
        log.append(&mut View::<F>::default(), Duration::ZERO, fits).unwrap();
    }

    /// One thing that happens to a sweep or to its journals.
    #[derive(Clone, Debug)]
    enum Event {
        Slot(u32, u8),
        Sweep(u8),
        Fence(u8),
        Watch(usize),
        Compact(usize),
        Truncate(usize, usize),
        Flip(usize, usize),
        Delete(usize),
        Foreign,
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            12 => (0..4u32, any::<u8>()).prop_map(|(slot, kind)| Event::Slot(slot, kind)),
            3 => any::<u8>().prop_map(Event::Sweep),
            2 => any::<u8>().prop_map(Event::Fence),
            6 => (0..3usize).prop_map(Event::Watch),
            1 => (0..3usize).prop_map(Event::Compact),
            1 => any::<(usize, usize)>().prop_map(|(file, at)| Event::Truncate(file, at)),
            1 => any::<(usize, usize)>().prop_map(|(file, at)| Event::Flip(file, at)),
            1 => any::<usize>().prop_map(Event::Delete),
            1 => Just(Event::Foreign),
        ]
    }

    fn damage(dir: &Path, file: usize, change: impl Fn(&mut Vec<u8>)) {
        let files = files(&dir_of(dir));
        if let Some(path) = files.get(file % files.len().max(1)) {
            let mut bytes = fs::read(path).unwrap();
            change(&mut bytes);
            fs::write(path, bytes).unwrap();
        }
    }

    fn happen(dir: &Path, journals: &mut [Journal], event: &Event) {
        match event {
            Event::Slot(slot, kind) => {
                append::<Slot>(&Log::of_slot(dir, *slot), slot_entry(*kind));
            }
            Event::Sweep(kind) => append::<Sweep>(&Log::of_sweep(dir), sweep_entry(*kind)),
            Event::Fence(kind) => {
                let sweep = OpenSweep::open(dir).unwrap();
                let arrays = &sweep.log.state.arrays;
                if let Some((array, _)) = arrays.get(usize::from(*kind) % arrays.len().max(1)) {
                    log::set_fence(dir, *array, Fence::Job(kind.to_string()), Duration::ZERO)
                        .unwrap();
                }
            }
            Event::Watch(which) => watch(dir, &mut journals[*which]),
            Event::Compact(which) => drop(journals[*which].compact()),
            Event::Truncate(file, at) => {
                damage(dir, *file, |bytes| bytes.truncate(at % (bytes.len() + 1)));
            }
            Event::Flip(file, at) => damage(dir, *file, |bytes| {
                let at = at % bytes.len().max(1);
                bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << (at % 8));
            }),
            Event::Delete(file) => {
                let files = files(&dir_of(dir));
                let path = files.get(file % files.len().max(1));
                path.into_iter().for_each(|path| fs::remove_file(path).unwrap());
            }
            Event::Foreign => {
                let entry = slot_entry(0);
                let stamped = serde_json::json!({"v": 1, "nonce": "x", "at": 0, "by": "x"});
                let mut text = serde_json::to_value(entry).unwrap();
                text.as_object_mut().unwrap().extend(stamped.as_object().unwrap().clone());
                let entry = text.to_string();
                let lines: String = (0..4)
                    .filter_map(|slot| {
                        seal_entry("another sweep", Place::Slot(slot, 0), entry.as_bytes())
                    })
                    .collect();
                fs::write(dir_of(dir).join("0-foreign.jsonl"), lines).unwrap();
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_known_with_the_journals_is_what_is_known_without_them(
            events in prop::collection::vec(event(), 1..40)
        ) {
            let folder = tempfile::tempdir().unwrap();
            let dir = sweep(&folder, 4).dir;
            let mut journals: Vec<_> = (0..3)
                .map(|_| Journal::new(&dir, &OpenSweep::open(&dir).unwrap().file.nonce))
                .collect();
            for event in &events {
                happen(&dir, &mut journals, event);
                prop_assert_eq!(known(OpenSweep::open(&dir).unwrap()), without_journals(&dir));
            }
        }
    }
    /// A sweep of finished runs, written as quickly as can be, and with them read once.
    fn finished(folder: &tempfile::TempDir, slots: u32) -> (PathBuf, Journal) {
        let sweep = sweep(folder, slots);
        let stamp = |entry: Entry| {
            let mut value = serde_json::to_value(entry).unwrap();
            let stamp = serde_json::json!({"v": 1, "nonce": "x", "at": 0, "by": "x"});
            value.as_object_mut().unwrap().extend(stamp.as_object().unwrap().clone());
            value.to_string()
        };
        fs::create_dir(sweep.dir.join("slots/000")).unwrap();
        for slot in 0..slots {
            let claim = Entry::Claim { attempt: 0, who: who(0, 0), run: Some("r".to_owned()) };
            for (number, entry) in [claim, Entry::Record(record(true))].into_iter().enumerate() {
                let path = sweep.dir.join(format!("slots/000/{slot}.{number}"));
                fs::write(path, stamp(entry)).unwrap();
            }
        }
        let journal = Journal::new(&sweep.dir, &sweep.file.nonce);
        (sweep.dir, journal)
    }

    fn reads(dir: &Path) -> u32 {
        READS.set(0);
        OpenSweep::open(dir).unwrap();
        READS.get()
    }

    #[test]
    fn a_new_sweep_is_durable_before_anything_is_decided_in_it() {
        let folder = tempfile::tempdir().unwrap();
        SYNCED.take();
        let dir = sweep(&folder, 1).dir;
        let sweeps = folder.path().join("sweeps");
        // The folder `sweeps` is new too; the sweep's own folder comes before its name.
        assert_eq!(SYNCED.take(), [folder.path().to_owned(), dir, sweeps]);
    }

    #[test]
    fn what_a_watcher_has_read_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, mut journal) = finished(&folder, 100);
        // Each file, the end of each slot's log, and that of the sweep log.
        assert_eq!(reads(&dir), 301);
        watch(&dir, &mut journal);
        assert_eq!(reads(&dir), 1);
        append::<Slot>(&Log::of_slot(&dir, 7), Entry::Late(record(true)));
        assert_eq!(reads(&dir), 3, "the new entry and the log's new end");
        // A journal that ends in the middle of a line is of use as far as it goes.
        damage(&dir, 0, |bytes| bytes.truncate(bytes.len() / 2));
        assert!((100..200).contains(&reads(&dir)), "{}", reads(&dir));
    }

    #[test]
    fn the_next_watcher_writes_only_what_is_new() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, mut first) = finished(&folder, 100);
        watch(&dir, &mut first);
        let mut second = Journal::new(&dir, &first.sweep);
        append::<Slot>(&Log::of_slot(&dir, 7), Entry::Late(record(true)));
        watch(&dir, &mut second);
        let lines = |journal: &Journal| fs::read_to_string(&journal.path).unwrap().lines().count();
        assert_eq!((lines(&first), lines(&second)), (201, 2));
        // Clocks are not to be relied on: the newer one may seem older.
        fs::rename(&second.path, dir_of(&dir).join("0.jsonl")).unwrap();
        assert_eq!(reads(&dir), 1);
        fs::remove_file(&first.path).unwrap();
        assert_eq!(reads(&dir), 302, "entry 2 alone tells nothing");
    }

    #[test]
    fn journals_stay_few_and_small_and_nothing_that_counts_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, mut journal) = finished(&folder, 20);
        for tick in 0..3 * FILES {
            let mut cron = Journal::new(&dir, &journal.sweep);
            let mut sweep = OpenSweep::open_to_watch(&dir).unwrap();
            let sightings = Sightings {
                gone: [(format!("{tick}.0"), 5)].into_iter().collect(),
                ..Sightings::default()
            };
            cron.write(&[format!("tick {tick}")], &sightings, sweep.take_fresh());
            assert!(files(&dir_of(&dir)).len() <= FILES + 1);
            let last = Journal::new(&dir, &journal.sweep).last_sightings();
            assert_eq!(last, sightings);
        }
        assert_eq!(reads(&dir), 1);
        let mut said = Vec::new();
        for_each_line(&dir_of(&dir), &journal.sweep, false, |line| {
            if let Line::Note(note) = line {
                said.extend(note.said);
            }
        });
        assert_eq!(said.len(), 3 * FILES);
        // One watcher that has much to say.
        for tick in 0..600 {
            let beat = ("claim".repeat(1000), tick);
            let sightings = Sightings {
                beats: [("c".to_owned(), beat)].into_iter().collect(),
                ..Sightings::default()
            };
            journal.write(&[], &sightings, Vec::new());
            let size: u64 =
                files(&dir_of(&dir)).iter().map(|path| path.metadata().unwrap().len()).sum();
            assert!(size < 2 * SLACK_BYTES as u64, "{size}");
        }
        assert_eq!(journal.last_sightings().beats["c"].1, 599);
        assert_eq!(reads(&dir), 1);
    }

    #[test]
    fn what_a_watcher_sees_again_is_no_longer_missing_for_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let dir = sweep(&folder, 1).dir;
        let gone = [("0.0".to_owned(), 7)].into();
        let missing = Sightings { gone, ..Sightings::default() };
        Journal::new(&dir, "s").write(&[], &missing, Vec::new());
        let mut second = Journal::new(&dir, "s");
        assert_eq!(second.last_sightings(), missing);
        second.write(&[], &Sightings::default(), Vec::new());
        assert_eq!(Journal::new(&dir, "s").last_sightings(), Sightings::default());
    }

    #[test]
    fn nothing_is_appended_after_an_entry_that_only_a_journal_knows() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, mut journal) = finished(&folder, 2);
        watch(&dir, &mut journal);
        // A file system that forgot: a snapshot was restored.
        fs::remove_file(dir.join("slots/000/1.1")).unwrap();
        let mut sweep = OpenSweep::open_to_watch(&dir).unwrap();
        let view = sweep.slot_view(1).unwrap();
        let log = Log::of_slot(&dir, 1);
        let late = Entry::Late(record(true));
        log.append(view, Duration::ZERO, |_: &Slot| Some(late.clone())).unwrap();
        assert_eq!(view.next, 2);
        assert!(dir.join("slots/000/1.1").exists() && !dir.join("slots/000/1.2").exists());
    }
}
