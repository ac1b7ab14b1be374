//! What each watcher saw and why it acted: for people, and what earlier looks did not see. Decides nothing.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::log;
use crate::plan::Sightings;

#[derive(Serialize, Deserialize)]
struct Line {
    at: u64,
    host: String,
    said: Vec<String>,
    sightings: Sightings,
}

/// The journal of one process.
#[derive(Debug)]
pub(super) struct Journal {
    dir: PathBuf,
    path: PathBuf,
    last: Sightings,
}

impl Journal {
    pub(super) fn new(sweep_dir: &Path) -> Self {
        let dir = sweep_dir.join("journal");
        let path = dir.join(format!("{}-{}.jsonl", log::now(), log::nonce()));
        Self { dir, path, last: Sightings::default() }
    }

    /// What the newest watcher on this machine had seen; another machine's clock says nothing here.
    pub(super) fn last_sightings(&mut self) -> Sightings {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        files.sort();
        let last = files.iter().rev().find_map(|path| {
            let text = fs::read_to_string(path).ok()?;
            let line =
                text.lines().rev().find_map(|line| serde_json::from_str::<Line>(line).ok())?;
            (line.host == log::host() && line.at <= log::now()).then_some(line.sightings)
        });
        // What is not so any more must be written over it, or the next watcher takes it for true.
        self.last = last.unwrap_or_default();
        self.last.clone()
    }

    /// Writes a line if there is anything new to write; a journal that cannot be written is no reason to stop.
    pub(super) fn write(&mut self, said: &[String], sightings: &Sightings) {
        if said.is_empty() && *sightings == self.last {
            return;
        }
        self.last = sightings.clone();
        let line = Line {
            at: log::now(),
            host: log::host(),
            said: said.to_vec(),
            sightings: sightings.clone(),
        };
        let Ok(mut text) = serde_json::to_string(&line) else { return };
        text.push('\n');
        let file = fs::OpenOptions::new().create(true).append(true).open(&self.path);
        let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_watcher_sees_again_is_no_longer_missing_for_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("journal")).unwrap();
        let gone = [("0.0".to_owned(), 7)].into();
        let missing = Sightings { gone, ..Sightings::default() };
        let mut first = Journal::new(folder.path());
        first.write(&[], &missing);
        let mut second = Journal::new(folder.path());
        // Journals of one second are in no order: this one is the later.
        second.path = folder.path().join("journal/99999999999-later.jsonl");
        assert_eq!(second.last_sightings(), missing);
        second.write(&[], &Sightings::default());
        assert_eq!(Journal::new(folder.path()).last_sightings(), Sightings::default());
    }
}
