//! A sweep file from its text to all that can be said of it.

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::code::Code;
use super::command::argv;
use super::model::{Method, SweepSpec};
use super::problem::{Problem, Severity, quoted};
use super::validate::{Surroundings, Sweep, Validator};
use super::yaml::{self, Document, Node};
use super::{client, special};
use crate::search::{self, Config};

/// A sweep file that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The sweep.
    pub spec: SweepSpec,
    /// What its author may not have meant, or should know, in the file's order.
    pub warnings: Vec<Problem>,
}

/// Reads a sweep file; `file` is its name for messages.
///
/// # Errors
/// Everything wrong with the file at once, warnings included, in the file's order.
pub fn read(text: &[u8], file: &str) -> Result<Reading, Vec<Problem>> {
    let Check { spec, problems, .. } = check(text, file, Surroundings::UNKNOWN);
    match spec {
        Some(spec) => Ok(Reading { spec, warnings: problems }),
        None => Err(problems),
    }
}

/// All that can be said of a sweep file.
#[derive(Clone, Debug)]
pub struct Check {
    /// Everything wrong with it, in the file's order.
    pub problems: Vec<Problem>,
    /// The sweep, if sweepctl can run it.
    pub spec: Option<SweepSpec>,
    /// The points of its grid, if it is one.
    pub grid: Option<Grid>,
    /// Its first run, or one like those it will have; `None` if there can be none.
    pub run: Option<Run>,
    /// What W&B's packages say of it; `None` if their reader does not take it.
    pub wandb: Option<Verdict>,
}

/// What W&B's own packages say of a file.
///
/// Numbers such as `1e-5` are text for the client and numbers for the rest, as the hosted service
/// probably has it.
#[derive(Clone, Debug)]
pub struct Verdict {
    root: Node,
    /// The distributions that the client fills in: the parameters' pointers and the names.
    filled_in: Vec<(String, &'static str)>,
    /// Whether the client sends it.
    pub client_accepts: bool,
    /// Whether it is sent, and keeps to the schema.
    pub valid: bool,
    /// The parts that violate the schema.
    pub faults_at: Vec<String>,
}

impl Verdict {
    /// The file as PyYAML reads it, and Python's types in it by JSON pointer.
    #[must_use]
    pub fn parsed(&self) -> (Value, Map<String, Value>) {
        client::parsed(&self.root)
    }

    /// Types that differ in what the client sends: `[before, after]`, by JSON pointer.
    #[must_use]
    pub fn changed_on_the_way(&self) -> Map<String, Value> {
        if self.client_accepts {
            client::changed_on_the_way(&self.root, &self.filled_in)
        } else {
            Map::new()
        }
    }
}

/// The points of a grid.
#[derive(Clone, Debug)]
pub enum Grid {
    /// No grid can be made of the parameters.
    Refused,
    /// All of them.
    Points {
        /// How many; `None` if 128 bits cannot hold the number.
        size: Option<u128>,
        /// How many values each parameter has that is not constant, groups with dots.
        axes: IndexMap<String, u128>,
        /// The first three, as runs get them.
        first: Vec<Config>,
        /// The last one.
        last: Option<Config>,
    },
}

/// What a run gets and starts.
#[derive(Clone, Debug)]
pub struct Run {
    /// The value of each parameter.
    pub chosen: Config,
    /// The argument list.
    pub argv: Vec<String>,
    /// What a file that is named in the argument list holds, by its path in `$WANDB_DIR`.
    pub files: Map<String, Value>,
}

/// Checks a sweep file; `file` is its name for messages.
#[must_use]
pub fn check(text: &[u8], file: &str, around: Surroundings<'_>) -> Check {
    let mut validator = Validator::new(file, around);
    let mut check = match yaml::parse(text) {
        Ok(document) => of_document(document, &mut validator, around),
        Err(fault) => {
            let help = fault.help.unwrap_or_default();
            validator.error(fault.code, ("", fault.place), fault.message, &help);
            Check { problems: Vec::new(), spec: None, grid: None, run: None, wandb: None }
        }
    };
    check.problems = validator.problems;
    check.problems.sort_by_key(|problem| (problem.line, problem.column));
    if check.problems.iter().any(|problem| problem.severity == Severity::Error) {
        check.spec = None;
    }
    check
}

fn of_document(
    document: Document,
    validator: &mut Validator<'_>,
    around: Surroundings<'_>,
) -> Check {
    let root = &document.root;
    for duplicate in &document.duplicates {
        let (first, last) = (duplicate.first, duplicate.last);
        let message = format!(
            "{} is given twice, in lines {} and {}; the last one counts",
            quoted(&duplicate.key),
            first.line,
            last.line
        );
        let at = (duplicate.pointer.as_str(), last);
        validator.warn(Code::DuplicateKey, at, message, "remove one of them");
    }
    let dates = client::dates(root);
    for (pointer, place, text) in &dates {
        let message = format!("{} is a date, which W&B's client cannot send", quoted(text));
        validator.error(Code::Date, (pointer, *place), message, "in quotes it is text");
    }
    let sweep = validator.sweep(root);
    let filled_in = client::filled_in(root).filter(|_| dates.is_empty());
    let client_accepts = filled_in.is_some();
    let faults_at = faults_at(&validator.faults);
    let (mut grid, mut run) = (None, None);
    if let Some(sweep) = &sweep {
        grid = (sweep.method == Some(Method::Grid)).then(|| grid_of(sweep));
        if let Some(Grid::Points { size, .. }) = &grid {
            validator.run_cap_against(root, *size, sweep.spec.run_cap);
        }
        let can_be = sweep.complete && !matches!(grid, Some(Grid::Refused));
        run = can_be.then(|| run_of(sweep, around));
    }
    let verdict = Verdict {
        filled_in: filled_in.unwrap_or_default(),
        client_accepts,
        valid: client_accepts && faults_at.is_empty(),
        faults_at: if client_accepts { faults_at } else { Vec::new() },
        root: document.root,
    };
    let spec = sweep.filter(|sweep| sweep.complete).map(|sweep| sweep.spec);
    Check { problems: Vec::new(), spec, grid, run, wandb: Some(verdict) }
}

/// Faults by part: a parameter or `early_terminate` is one part, whatever is wrong inside.
fn faults_at(faults: &[String]) -> Vec<String> {
    let part = |pointer: &String| {
        let tokens = match pointer.split('/').nth(1) {
            Some("parameters") => 2,
            Some("early_terminate") => 1,
            _ => return pointer.clone(),
        };
        pointer.split('/').take(tokens + 1).collect::<Vec<_>>().join("/")
    };
    let mut parts: Vec<String> = faults.iter().map(part).collect();
    parts.sort();
    parts.dedup();
    parts
}

fn grid_of(sweep: &Sweep) -> Grid {
    let spec = Some(&sweep.spec).filter(|spec| sweep.complete && !spec.parameters.is_empty());
    let Some(grid) = spec.and_then(search::Grid::open) else { return Grid::Refused };
    Grid::Points {
        size: grid.size(),
        axes: grid.axes(),
        first: (0..3).map_while(|rank| grid.point(rank)).collect(),
        last: grid.last(),
    }
}

fn run_of(sweep: &Sweep, around: Surroundings<'_>) -> Run {
    let chosen = search::representative(&sweep.spec);
    let spec = &sweep.spec;
    let path = format!("{}/{}", around.wandb_dir, around.args_json_file);
    let arguments = |spec: &SweepSpec| argv(spec, &chosen, "python", &path, around.envvar);
    let mut files = Map::new();
    if spec.command.iter().flatten().any(|item| item == "${args_json_file}") {
        let command = Some(vec!["${args_json}".to_owned()]);
        let content = arguments(&SweepSpec { command, ..spec.clone() }).concat();
        files.insert(around.args_json_file.to_owned(), content.into());
    }
    Run { argv: arguments(spec), chosen, files }
}

impl Check {
    /// Whether sweepctl can run the sweep.
    #[must_use]
    pub fn can_run(&self) -> bool {
        self.spec.is_some()
    }

    /// Makes errors of what the embedded controller does not do.
    #[must_use]
    pub fn with_embedded_controller(mut self) -> Self {
        for problem in &mut self.problems {
            if problem.code == Code::EmbeddedController {
                problem.severity = Severity::Error;
                self.spec = None;
            }
        }
        self
    }

    /// Everything as JSON, for programs.
    #[must_use]
    pub fn json(&self) -> String {
        let mut all = Map::new();
        all.insert("schema_version".to_owned(), json!(1));
        all.insert("loads".to_owned(), self.wandb.is_some().into());
        if let Some(verdict) = &self.wandb {
            let (parsed, types) = verdict.parsed();
            all.insert("parsed".to_owned(), parsed);
            all.insert("types".to_owned(), types.into());
            all.insert("client_accepts".to_owned(), verdict.client_accepts.into());
            all.insert("valid".to_owned(), verdict.valid.into());
            if !verdict.faults_at.is_empty() {
                all.insert("faults_at".to_owned(), json!(verdict.faults_at));
            }
            let changed = verdict.changed_on_the_way();
            if !changed.is_empty() {
                all.insert("changed_on_the_way".to_owned(), changed.into());
            }
        }
        let problems = self.problems.iter().map(Problem::to_json).collect();
        all.insert("problems".to_owned(), problems);
        // What the client does not send has neither.
        let sent = self.wandb.as_ref().is_some_and(|verdict| verdict.client_accepts);
        if let Some(grid) = self.grid.as_ref().filter(|_| sent) {
            all.insert("grid".to_owned(), grid.to_json());
        }
        if let Some(run) = self.run.as_ref().filter(|_| sent) {
            let mut json = json!({ "chosen": run.chosen, "argv": run.argv });
            if !run.files.is_empty() {
                json["files"] = run.files.clone().into();
            }
            all.insert("run".to_owned(), json);
        }
        special::pretty_json(&Value::Object(all))
    }
}

impl Grid {
    fn to_json(&self) -> Value {
        match self {
            Self::Refused => json!({ "refused": true }),
            Self::Points { size, axes, first, last } => {
                let axes: Map<String, Value> =
                    axes.iter().map(|(name, size)| (name.clone(), special::whole(*size))).collect();
                json!({
                    "size": size.map(special::whole),
                    "axes": axes,
                    "first": first.first(),
                    "first_three": first,
                    "last": last,
                })
            }
        }
    }
}
