//! Sweep files with what W&B's own packages say of them: `check --json` must say the same.
//!
//! `tests/data/sweeps` has one `NAME.yaml` and one `NAME.expected.json` for each case;
//! `SWEEPCTL_TEST_CASES=DIR` takes them from another folder.

#![expect(clippy::unwrap_used, reason = "what helps tests may fail them")]

mod support;

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Value, json};
use support::{Scratch, expect_none, repository};

struct Case {
    name: String,
    expected: Value,
    /// What `check --json` prints, and its exit code.
    got: Value,
    code: i32,
}

impl Case {
    fn of(scratch: &Scratch, path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let expected = fs::read_to_string(path.with_extension("expected.json")).unwrap();
        fs::copy(path, scratch.path("sweep.yaml")).unwrap();
        let output = scratch
            .sweepctl()
            .args(["check", "sweep.yaml", "--json"])
            .env("HOME", "/home/user")
            .env("USER", "alice")
            .env("SLURM_JOB_ID", "4242")
            .env("WANDB_SWEEP_ID", "sw33p1d0")
            .env("WANDB_RUN_ID", "run00001")
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let got = serde_json::from_str(&stdout).unwrap_or_else(|error| {
            panic!("{name}: {error}: {stdout}{}", String::from_utf8_lossy(&output.stderr))
        });
        let expected = serde_json::from_str(&expected).unwrap();
        Self { name, expected, got, code: output.status.code().unwrap() }
    }

    /// Where W&B's service reads numbers that its client takes for text, it decides.
    fn expected(&self, key: &str) -> Value {
        let by_service = &self.expected["read_as_yaml12"];
        let part = match key {
            _ if by_service.is_null() => None,
            "valid" => Some(by_service["valid"].clone()),
            "faults_at" if by_service["valid"] == json!(true) => Some(Value::Null),
            _ => None,
        };
        part.unwrap_or_else(|| self.expected[key].clone())
    }

    /// What differs in the given parts.
    fn differences(&self, keys: &[&str]) -> Vec<String> {
        let differs = |key: &&&str| self.expected(key) != self.got[**key];
        let say = |key: &&str| {
            format!("{}: {key}: {}, not {}", self.name, self.got[*key], self.expected(key))
        };
        keys.iter().filter(differs).map(say).collect()
    }

    fn problems(&self) -> &Vec<Value> {
        self.got["problems"].as_array().unwrap()
    }
}

fn cases() -> Vec<Case> {
    let folder = match env::var_os("SWEEPCTL_TEST_CASES") {
        Some(folder) => PathBuf::from(folder),
        None => repository().join("tests/data/sweeps"),
    };
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    assert!(!paths.is_empty(), "no cases in {}", folder.display());
    let scratch = Scratch::new();
    scratch.write("fit.py", "");
    paths.iter().map(|path| Case::of(&scratch, path)).collect()
}

#[test]
fn every_case_is_read_and_judged_as_wandb_does() {
    let keys =
        ["loads", "parsed", "types", "client_accepts", "valid", "faults_at", "changed_on_the_way"];
    let mut differences = Vec::new();
    for case in cases() {
        differences.extend(case.differences(&keys));
        let problems = case.problems();
        let has_error = problems.iter().any(|problem| problem["severity"] == "error");
        if (case.code == 3) != has_error {
            differences.push(format!("{}: exit code {}", case.name, case.code));
        }
        if case.expected["loads"] == json!(false) && !has_error {
            differences.push(format!("{}: does not load, and nothing is said", case.name));
        }
        // Each part at fault has a problem at it or inside.
        for fault in case.expected("faults_at").as_array().into_iter().flatten() {
            let fault = fault.as_str().unwrap();
            let at_fault = |problem: &&Value| {
                let pointer = problem["pointer"].as_str().unwrap();
                pointer == fault || pointer.starts_with(&format!("{fault}/"))
            };
            if problems.iter().find(at_fault).is_none() {
                differences.push(format!("{}: no problem at {fault}", case.name));
            }
        }
        for problem in problems {
            let place = (&problem["line"], &problem["column"]);
            if place.0.as_u64().unwrap() == 0 || place.1.as_u64().unwrap() == 0 {
                differences.push(format!("{}: a problem without a place", case.name));
            }
        }
    }
    expect_none(&differences);
}

/// What differs in the grid and the run.
fn search_differences(case: &Case) -> Vec<String> {
    let (expected, got) = (&case.expected, &case.got);
    let by_service = &expected["read_as_yaml12"];
    let mut differences = Vec::new();
    let mut compare = |what: &str, got: &Value, want: &Value| {
        if got != want {
            differences.push(format!("{}: {what}: {got}, not {want}", case.name));
        }
    };
    if expected["grid"].is_null() {
        compare("grid", &got["grid"], &Value::Null);
    }
    for (key, want) in expected["grid"].as_object().into_iter().flatten() {
        match (key.as_str(), &by_service["grid_size"]) {
            (_, Value::Null) => compare(key, &got["grid"][key], want),
            ("size", size) => compare(key, &got["grid"][key], size),
            // Fewer points, so others.
            _ => {}
        }
    }
    if expected["run"].is_null() {
        let want = &by_service["argv"];
        compare("argv", &got["run"]["argv"], want);
    }
    for (key, want) in expected["run"].as_object().into_iter().flatten() {
        let by_service = &by_service[key];
        compare(key, &got["run"][key], if by_service.is_null() { want } else { by_service });
    }
    differences
}

#[test]
fn every_case_hands_out_its_points_and_commands() {
    let differences: Vec<String> = cases().iter().flat_map(search_differences).collect();
    expect_none(&differences);
}
