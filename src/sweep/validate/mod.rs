//! Everything that is wrong with a sweep file, and the sweep if it can be used.
//!
//! Two questions are answered apart. W&B's schema is violated or not ([`Validator::fault`] and
//! [`Validator::flaw`] against the rest); and sweepctl can run the sweep or not (an error or less).

mod command;
mod early_terminate;
mod launch;
mod law;
mod metric;
mod parameter;

use serde_json::{Number, Value};

use super::code::Code;
use super::model::{Method, Parameter, SweepSpec};
use super::problem::{Problem, Severity, nearest, quoted};
use super::python::python_text;
use super::scalar::Meaning;
use super::special;
use super::yaml::{self, Entry, Kind, Node, Place, Scalar, join};

/// Every key of W&B's schema.
const KEYS: [&str; 18] = [
    "method",
    "parameters",
    "metric",
    "program",
    "command",
    "name",
    "description",
    "run_cap",
    "project",
    "entity",
    "controller",
    "apiVersion",
    "kind",
    "early_terminate",
    "scheduler",
    "job",
    "image_uri",
    "metrics",
];

/// What a sweep file is checked against, and not in it.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Whether there is a file of this name where runs will start.
    pub has_file: &'a dyn Fn(&str) -> bool,
    /// The environment of the first run.
    pub envvar: &'a dyn Fn(&str) -> Option<String>,
    /// `$WANDB_DIR` of the first run.
    pub wandb_dir: &'a str,
    /// The path in it that `${args_json_file}` stands for.
    pub args_json_file: &'a str,
}

impl Surroundings<'_> {
    /// Nothing is known: no file is missed.
    pub const UNKNOWN: Surroundings<'static> = Surroundings {
        has_file: &|_| true,
        envvar: &|_| None,
        wandb_dir: "$WANDB_DIR",
        args_json_file: "wandb/sweep-SWEEP_ID/config-RUN_ID.json",
    };
}

/// What could be read of a sweep, whether or not it can be run.
pub(super) struct Sweep {
    pub(super) spec: SweepSpec,
    /// `None` if the file names none that there is; the spec then says random.
    pub(super) method: Option<Method>,
    /// Whether all parameters could be read; the spec has none otherwise.
    pub(super) complete: bool,
}

pub(super) struct Validator<'a> {
    file: &'a str,
    around: Surroundings<'a>,
    pub(super) problems: Vec<Problem>,
    /// Where W&B's schema is violated.
    pub(super) faults: Vec<String>,
}

/// A value with the key it stands under.
#[derive(Clone, Copy)]
struct Field<'a> {
    key: Place,
    node: &'a Node,
}

fn field<'a>(entries: &'a [Entry], key: &str) -> Option<Field<'a>> {
    let entry = entries.iter().find(|entry| entry.key == key)?;
    Some(Field { key: entry.place, node: &entry.value })
}

impl<'a> Field<'a> {
    /// Where the value is; where its key is if there is none to point at.
    fn place(self) -> Place {
        if self.node.is_null() { self.key } else { self.node.place }
    }

    /// The value's text, if it is text.
    fn text(self) -> Option<&'a str> {
        self.node.scalar().and_then(Scalar::as_text)
    }
}

/// The name of a node's kind, for messages.
fn kind(node: &Node) -> &'static str {
    match &node.kind {
        Kind::List(_) => "a list",
        Kind::Mapping(_) => "a mapping",
        Kind::Scalar(scalar) => match &scalar.meaning {
            Meaning::Value(Value::Null) => "empty",
            Meaning::Value(Value::Bool(_)) => "a boolean",
            Meaning::Value(Value::String(_)) => "text",
            Meaning::Value(Value::Number(number)) if number.is_f64() => "a float",
            Meaning::Value(_) if scalar.python().1 == "float" => "a float",
            Meaning::Value(_) => "an integer",
            Meaning::Scientific(_) => "a float",
            Meaning::Date { .. } => "a date",
        },
    }
}

/// How a node is written, if it is a scalar.
fn written(node: &Node) -> &str {
    node.scalar().map_or("", |scalar| &scalar.text)
}

/// A number of the file: as JSON has it if it can, and as a float.
#[derive(Clone, Debug)]
struct Num {
    exact: Option<Number>,
    float: f64,
}

/// The number that a node is; a boolean is none.
fn number(node: &Node) -> Option<Num> {
    let value = node.scalar()?.value()?;
    match special::text(&value) {
        Some(text) => Some(Num { exact: None, float: text.parse().ok()? }),
        None => Some(Num { exact: Some(value.as_number()?.clone()), float: value.as_f64()? }),
    }
}

/// An integer, also one written as a float, as JSON Schema counts them.
fn whole(node: &Node) -> Option<f64> {
    number(node).map(|number| number.float).filter(|float| float.fract() == 0.0)
}

fn did_you_mean(word: &str, known: &[&str]) -> String {
    nearest(word, known).map(|known| format!("did you mean `{known}`?")).unwrap_or_default()
}

impl<'a> Validator<'a> {
    pub(super) fn new(file: &'a str, around: Surroundings<'a>) -> Self {
        Self { file, around, problems: Vec::new(), faults: Vec::new() }
    }

    /// An empty `help` is none.
    fn report(
        &mut self,
        (severity, code): (Severity, Code),
        (pointer, place): (&str, Place),
        message: String,
        help: &str,
    ) {
        self.problems.push(Problem {
            severity,
            code,
            pointer: pointer.to_owned(),
            file: self.file.to_owned(),
            line: place.line,
            column: place.column,
            message,
            help: (!help.is_empty()).then(|| help.to_owned()),
        });
    }

    /// What sweepctl cannot run, though W&B's schema lets it pass or does not see it.
    pub(super) fn error(
        &mut self,
        code: Code,
        at: (&str, Place),
        message: impl Into<String>,
        help: &str,
    ) {
        self.report((Severity::Error, code), at, message.into(), help);
    }

    /// What W&B's schema refuses and sweepctl cannot run.
    fn fault(&mut self, code: Code, at: (&str, Place), message: impl Into<String>, help: &str) {
        self.faults.push(at.0.to_owned());
        self.error(code, at, message, help);
    }

    /// What W&B's schema refuses, though it runs.
    fn flaw(&mut self, code: Code, at: (&str, Place), message: impl Into<String>, help: &str) {
        self.faults.push(at.0.to_owned());
        self.warn(code, at, message, help);
    }

    /// What runs, but perhaps not as its author meant it.
    pub(super) fn warn(
        &mut self,
        code: Code,
        at: (&str, Place),
        message: impl Into<String>,
        help: &str,
    ) {
        self.report((Severity::Warning, code), at, message.into(), help);
    }

    pub(super) fn notice(
        &mut self,
        code: Code,
        at: (&str, Place),
        message: impl Into<String>,
        help: &str,
    ) {
        self.report((Severity::Notice, code), at, message.into(), help);
    }

    /// What W&B's controller does and the embedded one does not; `submit` makes it an error.
    fn not_embedded(&mut self, at: (&str, Place), what: &str, help: &str) {
        let message = format!("{what} needs W&B's controller; the embedded one does not do it");
        self.notice(Code::EmbeddedController, at, message, help);
    }

    /// Reads the whole file; what is wrong goes to `problems`.
    pub(super) fn sweep(&mut self, root: &Node) -> Option<Sweep> {
        let Kind::Mapping(entries) = &root.kind else {
            let help = "a sweep file has lines such as `method: grid`";
            let at = ("", root.place);
            self.error(Code::NotAMapping, at, "the file is not a mapping of keys", help);
            return None;
        };
        self.top_level_keys(entries);
        let method = self.method(field(entries, "method"));
        let early_terminate = self.early_terminate(field(entries, "early_terminate"));
        let metric = self.sweep_metric(entries, method);
        let program = self.text(entries, "program");
        let command = self.command(field(entries, "command"));
        let parameters = self.parameters(entries, method);
        let complete = parameters.is_some();
        let spec = SweepSpec {
            name: self.text(entries, "name"),
            description: self.text(entries, "description"),
            project: self.text(entries, "project"),
            entity: self.text(entries, "entity"),
            metric,
            early_terminate,
            run_cap: self.run_cap(field(entries, "run_cap")),
            method: method.unwrap_or(Method::Random),
            program,
            command,
            parameters: parameters.unwrap_or_default(),
        };
        self.program(entries, &spec);
        self.macros(entries, &spec);
        self.launch(entries, method);
        self.scientific(entries);
        if method == Some(Method::Bayes) && complete && !spec.parameters.values().any(is_swept) {
            let place = field(entries, "parameters").map_or(yaml::START, |field| field.key);
            let message = "bayes has nothing to search: every parameter is constant";
            self.error(Code::NothingToSearch, ("/parameters", place), message, "");
        }
        Some(Sweep { spec, method, complete })
    }

    /// Warns if the grid ends before `run_cap` does.
    pub(super) fn run_cap_against(
        &mut self,
        root: &Node,
        grid_size: Option<u128>,
        run_cap: Option<u64>,
    ) {
        let Kind::Mapping(entries) = &root.kind else { return };
        let (Some(field), Some(cap)) = (field(entries, "run_cap"), run_cap) else { return };
        if let Some(grid_size) = grid_size.filter(|size| u128::from(cap) > *size) {
            let points = if grid_size == 1 { "one point" } else { &format!("{grid_size} points") };
            let message = format!("`run_cap` is {cap}, and the grid has only {points}");
            let help = "the sweep ends with the grid";
            self.warn(Code::RunCapAboveGrid, ("/run_cap", field.place()), message, help);
        }
    }

    fn top_level_keys(&mut self, entries: &[Entry]) {
        for entry in entries {
            let pointer = join("", &entry.key);
            let at = (pointer.as_str(), entry.place);
            match entry.key.as_str() {
                "controller" => self.controller(entry),
                "kind" => {
                    let kind = self.text(entries, "kind");
                    if let Some(kind) = kind.filter(|kind| kind != "sweep") {
                        let message = format!("there is no kind {}", quoted(&kind));
                        let help = "write `kind: sweep`, or remove it";
                        self.flaw(Code::KindUnknown, at, message, help);
                    }
                }
                "apiVersion" => {
                    self.text(entries, "apiVersion");
                }
                key if KEYS.contains(&key) => {}
                key => {
                    let help = did_you_mean(key, &KEYS);
                    let message = format!("{} is no key of a sweep; it is ignored", quoted(key));
                    self.flaw(Code::UnknownKey, at, message, &help);
                }
            }
        }
    }

    fn controller(&mut self, entry: &Entry) {
        let kind_of = match &entry.value.kind {
            Kind::Mapping(entries) => field(entries, "type"),
            _ => {
                let message = format!(
                    "`controller` must be a mapping, and this is {}; it is ignored",
                    kind(&entry.value)
                );
                let help = "write `controller: {type: cloud}`, or remove it";
                self.flaw(Code::ControllerKind, ("/controller", entry.place), message, help);
                return;
            }
        };
        if !matches!(kind_of.and_then(Field::text), Some("local" | "cloud")) {
            let (message, place) = match kind_of {
                Some(field) => (
                    format!(
                        "there is no controller {}; it is ignored",
                        quoted(written(field.node))
                    ),
                    field.place(),
                ),
                None => ("`controller` has no `type`; it is ignored".to_owned(), entry.place),
            };
            let help = "use local or cloud, or remove it";
            self.flaw(Code::ControllerKind, ("/controller/type", place), message, help);
        }
    }

    /// A text key that may be left out. Other scalars count as their text.
    fn text(&mut self, entries: &[Entry], key: &str) -> Option<String> {
        let field = field(entries, key)?;
        let pointer = join("", key);
        let at = (pointer.as_str(), field.place());
        if let Some(text) = field.text() {
            return Some(text.to_owned());
        }
        if field.node.is_null() {
            self.flaw(Code::EmptyKey, at, format!("`{key}` is empty"), "remove it");
            return None;
        }
        if Self::is_date(field.node) {
            return None;
        }
        let message = format!("`{key}` must be text, and this is {}", kind(field.node));
        let Some(scalar) = field.node.scalar() else {
            self.fault(Code::TextWanted, at, message, "");
            return None;
        };
        self.flaw(Code::TextWanted, at, message, "put it in quotes");
        scalar.value().map(|value| python_text(&value))
    }

    fn method(&mut self, field: Option<Field<'_>>) -> Option<Method> {
        let pointer = "/method";
        let Some(field) = field else {
            let help = "add `method: grid`, `method: random` or `method: bayes`";
            let at = (pointer, yaml::START);
            self.fault(Code::MethodMissing, at, "`method` is missing", help);
            return None;
        };
        let at = (pointer, field.place());
        let others = "use grid, random or bayes";
        match field.text() {
            Some("grid") => return Some(Method::Grid),
            Some("random") => return Some(Method::Random),
            Some("bayes") => {
                self.not_embedded(
                    at,
                    "method `bayes`",
                    "the embedded controller does grid and random",
                );
                return Some(Method::Bayes);
            }
            Some("custom") => {
                let help = "the embedded controller does grid and random";
                self.not_embedded(at, "method `custom`", help);
                return Some(Method::Custom);
            }
            Some(name) => {
                let message = format!("there is no method {}", quoted(name));
                let help = match nearest(name, &["grid", "random", "bayes", "custom"]) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None if name.to_lowercase().starts_with("bayes") => {
                        "did you mean `bayes`?".to_owned()
                    }
                    None => others.to_owned(),
                };
                self.fault(Code::MethodUnknown, at, message, &help);
            }
            None => {
                let message =
                    format!("`method` must be a method's name, and this is {}", kind(field.node));
                self.fault(Code::MethodUnknown, at, message, others);
            }
        }
        None
    }

    fn run_cap(&mut self, field: Option<Field<'_>>) -> Option<u64> {
        let field = field?;
        let cap = whole(field.node).filter(|cap| *cap > 0.0);
        if cap.is_none() {
            let message = match written(field.node) {
                "" => "`run_cap` must be a positive integer".to_owned(),
                text => {
                    format!("`run_cap` must be a positive integer, and this is {}", quoted(text))
                }
            };
            let at = ("/run_cap", field.place());
            self.fault(Code::RunCap, at, message, "write how many runs there may be at most");
        }
        let exact = number(field.node).and_then(|number| number.exact?.as_u64());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        cap.map(|cap| exact.unwrap_or(cap as u64))
    }

    /// One notice for all numbers that W&B's client takes for text.
    fn scientific(&mut self, entries: &[Entry]) {
        let (mut found, mut count) = (None, 0);
        for key in ["parameters", "metric", "metrics", "run_cap", "early_terminate"] {
            if let Some(field) = field(entries, key) {
                find_scientific(field.node, &join("", key), &mut found, &mut count);
            }
        }
        let Some((pointer, place, text)) = found else { return };
        let more = match count - 1 {
            0 => String::new(),
            1 => ", and one more".to_owned(),
            more => format!(", and {more} more"),
        };
        let text = quoted(&text);
        let message = format!("{text} is taken as a number{more}; W&B's own client reads text");
        let help = "with a dot and a signed exponent, as in `1.0e-5`, it is a number for all";
        self.notice(Code::ScientificNumber, (&pointer, place), message, help);
    }
}

/// Counts them, and keeps the first.
fn find_scientific(
    node: &Node,
    pointer: &str,
    first: &mut Option<(String, Place, String)>,
    count: &mut usize,
) {
    // Behind the first one pointers are not needed, and files are long.
    let below = |token: &str, first: &Option<_>| match first {
        None => join(pointer, token),
        Some(_) => String::new(),
    };
    match &node.kind {
        Kind::Scalar(scalar) => {
            if let Meaning::Scientific(_) = scalar.meaning {
                *count += 1;
                first.get_or_insert_with(|| (pointer.to_owned(), node.place, scalar.text.clone()));
            }
        }
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let pointer = below(&index.to_string(), first);
                find_scientific(item, &pointer, first, count);
            }
        }
        Kind::Mapping(entries) => {
            for entry in entries {
                let pointer = below(&entry.key, first);
                find_scientific(&entry.value, &pointer, first, count);
            }
        }
    }
}

/// Whether runs can differ in this parameter.
fn is_swept(parameter: &Parameter) -> bool {
    match parameter {
        Parameter::Constant(_) => false,
        Parameter::Categorical(values) | Parameter::Weighted { values, .. } => values.len() > 1,
        Parameter::Group(parameters) => parameters.values().any(is_swept),
        Parameter::IntUniform { .. } | Parameter::Real(_) | Parameter::Quantized { .. } => true,
    }
}
