//! Whole sweep files, changed at random, read beside a real PyYAML.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use serde_json::{Value, json};

use super::python::tests::python;
use super::{argv, client, parameter_file, read, yaml};
use crate::search;

/// Numbers of a fixed seed, so that a failure comes again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }

    fn of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

const SNIPPETS: [&str; 62] = [
    "yes",
    "no",
    "~",
    "null",
    "1e-5",
    "1.0e-5",
    "010",
    "0o10",
    "1_000",
    "12:30",
    "-.5",
    "+1",
    "0x1F",
    "99999999999999999999",
    ".inf",
    ".nan",
    "2024-01-31",
    "''",
    "\"\"",
    "'it''s'",
    "\"\\u00e9\\n\"",
    "=",
    "!!str ",
    "!!int ",
    "!!float ",
    "! ",
    "!x ",
    "&a ",
    "*a",
    "<<: *a",
    "<<: ",
    "? ",
    ": ",
    ":",
    "- ",
    ",",
    "[",
    "]",
    "{",
    "}",
    "[1, [2]]",
    "{a: 1}",
    "|\n",
    ">\n",
    "|-\n",
    ">+\n",
    "#",
    " #x",
    "%",
    "@",
    "`",
    "---\n",
    "...\n",
    "\n",
    "\n\n",
    "\t",
    "\r\n",
    " ",
    "  ",
    "    ",
    "\u{e9}",
    "\u{85}",
];

/// A few changes such as people and editors make, and some that only fuzzers do.
fn mutated(random: &mut Random, files: &[String]) -> String {
    let mut text: Vec<char> = random.of(files).chars().collect();
    for _ in 0..=random.below(3) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(8)).min(text.len());
        let line = |at: usize| text[..at].iter().rposition(|c| *c == '\n').map_or(0, |n| n + 1);
        match random.below(8) {
            0 => drop(text.splice(at..end, [])),
            1 | 2 => drop(text.splice(at..at, random.of(&SNIPPETS).chars())),
            3 => drop(text.splice(at..end, random.of(&SNIPPETS).chars())),
            4 => {
                let indentation = random.below(5);
                let start = line(at);
                drop(text.splice(start..start, std::iter::repeat_n(' ', indentation)));
            }
            5 => {
                let start = line(at);
                let blanks = text[start..].iter().take_while(|c| **c == ' ').count();
                drop(text.splice(start..start + random.below(blanks + 1), []));
            }
            6 => {
                let other: Vec<&str> = random.of(files).lines().collect();
                let start = line(at);
                let lines = format!("{}\n", random.of(&other));
                drop(text.splice(start..start, lines.chars()));
            }
            // A whole value.
            _ => {
                let start =
                    text[..at].iter().rposition(|c| ":-[,".contains(*c)).map_or(at, |n| n + 1);
                let end =
                    text[at..].iter().position(|c| "\n,]}".contains(*c)).map_or(at, |n| at + n);
                let value = format!(" {}", random.of(&SNIPPETS));
                drop(text.splice(start.min(end)..end, value.chars()));
            }
        }
    }
    text.into_iter().collect()
}

/// What our reader makes of a file as YAML, `None` if it refuses it or no sweep can be like that.
fn ours(text: &str) -> Option<Value> {
    let root = yaml::parse(text.as_bytes()).ok()?.root;
    let can_be_sent = client::dates(&root).is_empty();
    root.value().filter(|value| can_be_sent && value.is_object())
}

/// PyYAML's answers: the value, or why there is none; what JSON cannot hold as our reader has it.
const PYYAML: &str = r#"
import datetime, json, math, sys, yaml
class Odd(Exception): pass
def plain(v):
    if isinstance(v, dict): return {key(k): plain(x) for k, x in v.items()}
    if isinstance(v, list): return [plain(x) for x in v]
    if isinstance(v, bool) or v is None or isinstance(v, str): return v
    if isinstance(v, float) and not math.isfinite(v): return {"sweepctl:number": str(v)}
    if isinstance(v, int) and not -2**63 <= v < 2**64: return {"sweepctl:number": str(v)}
    if isinstance(v, (int, float)): return v
    raise Odd(type(v).__name__)
def key(k):
    if k is None or isinstance(k, (str, bool, int, float)): return next(iter(json.loads(json.dumps({k: 0}))))
    raise Odd("a key of " + type(k).__name__)
def read(text):
    try: return ["value", plain(yaml.safe_load(text))]
    except Odd as e: return ["odd", str(e)]
    except Exception as e: return ["error", f"{type(e).__name__}: {e}"]
sys.setrecursionlimit(10000)
print(json.dumps([read(t.encode()) for t in json.load(sys.stdin)]))
"#;

/// What PyYAML cannot read and we can, by its messages: see docs/design/decisions.md.
const MORE_THAN_PYYAML: [&str; 4] = [
    // A key of more than one line, in brackets.
    "expected ',' or '}', but got ':'",
    "expected ',' or ']', but got ':'",
    // `...` at the beginning.
    "expected the node content, but found '<document end>'",
    // The same anchor twice.
    "found duplicate anchor",
];

/// Whether both values mean the same, but for one difference: `1e-5` is a number.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(number), Value::String(text)) => {
            let text = text.replace('_', "");
            number.is_f64()
                && text.contains(['e', 'E'])
                && text.parse() == Ok(number.as_f64().unwrap())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        // As text, which tells -0.0 from 0.0.
        _ => ours.to_string().eq(&theirs.to_string()),
    }
}

/// Everything that is done with a file once it is read.
fn use_it(text: &str) {
    let Ok(reading) = read(text.as_bytes(), "s") else { return };
    let spec = reading.spec;
    let again = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
    assert_eq!(spec, again, "{text}");
    let mut configs: Vec<search::Config> = [0, 1, 999_999_999_999]
        .into_iter()
        .filter_map(|slot| search::configuration(&spec, 7, slot))
        .collect();
    configs.push(search::representative(&spec));
    for config in configs {
        assert!(config.keys().is_sorted(), "{text}");
        let _ = argv(&spec, &config, "python", "file", &|_| None);
        let _ = parameter_file(&config);
    }
}

#[test]
fn changed_files_mean_the_same_to_pyyaml_or_are_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sweeps");
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    paths.sort();
    let files: Vec<String> = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let count = env::var("SWEEPCTL_FUZZ_FILES").map_or(4000, |count| count.parse().unwrap());
    let mut random = Random(env::var("SWEEPCTL_FUZZ_SEED").map_or(1, |seed| seed.parse().unwrap()));
    let mut texts = files.clone();
    texts.extend((0..count).map(|_| mutated(&mut random, &files)));
    for text in &texts {
        use_it(text);
    }
    let Some(answers) = python(PYYAML, &json!(texts)) else { return };
    let (mut accepted, mut report) = (0, String::new());
    for (text, answer) in texts.iter().zip(answers.as_array().unwrap()) {
        let Some(ours) = ours(text) else { continue };
        accepted += 1;
        let (kind, theirs) = (&answer[0], &answer[1]);
        let fine = match kind.as_str() {
            Some("value") => same(&ours, theirs),
            Some("error") => {
                let why = theirs.as_str().unwrap();
                MORE_THAN_PYYAML.iter().any(|message| why.contains(message))
            }
            _ => false,
        };
        if !fine {
            writeln!(report, "{text:?}\nours: {ours}\n{kind}: {theirs}\n").unwrap();
        }
    }
    assert!(accepted > count / 4, "too few files are accepted to say anything: {accepted}");
    assert!(report.is_empty(), "{report}");
}
