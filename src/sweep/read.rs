//! From a sweep file's text to a checked sweep, or to everything that is wrong with it.

use indexmap::IndexMap;
use serde_json::Value;

use super::command::{ARGS_MACROS, DEFAULT_COMMAND, MACROS, macro_name, replace_envvars};
use super::model::{Goal, Law, Method, Metric, Parameter, SweepSpec};
use super::problem::{Problem, Severity, nearest, quoted};
use super::python::python_text;
use super::yaml::{self, Entry, Kind, Node, Place, join};

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

const DISTRIBUTIONS: [&str; 4] = ["constant", "categorical", "int_uniform", "uniform"];

/// Distributions that W&B knows and this version does not.
const OTHER_DISTRIBUTIONS: [&str; 15] = [
    "categorical_w_probabilities",
    "q_uniform",
    "log_uniform",
    "log_uniform_values",
    "q_log_uniform",
    "q_log_uniform_values",
    "inv_log_uniform",
    "inv_log_uniform_values",
    "normal",
    "q_normal",
    "log_normal",
    "q_log_normal",
    "beta",
    "q_beta",
    "group",
];

const PARAMETER_KEYS: [&str; 12] = [
    "value",
    "values",
    "min",
    "max",
    "distribution",
    "probabilities",
    "parameters",
    "q",
    "mu",
    "sigma",
    "a",
    "b",
];

/// A sweep file that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The sweep.
    pub spec: SweepSpec,
    /// What its author may not have meant, in the file's order.
    pub warnings: Vec<Problem>,
}

/// Reads a sweep file; `file` is its name for messages.
///
/// # Errors
/// Everything wrong with the file at once, warnings included, in the file's order.
pub fn read(text: &[u8], file: &str) -> Result<Reading, Vec<Problem>> {
    let mut reader = Reader { file, problems: Vec::new() };
    let spec = match yaml::parse(text) {
        Ok(document) => {
            for duplicate in &document.duplicates {
                let message = format!(
                    "{} is given twice, in lines {} and {}; the last one counts",
                    quoted(&duplicate.key),
                    duplicate.first.line,
                    duplicate.last.line
                );
                let help = "remove one of them";
                reader.warn("duplicate-key", &duplicate.pointer, duplicate.last, message, help);
            }
            reader.spec(&document.root)
        }
        Err(fault) => {
            let help = fault.help.unwrap_or_default();
            reader.error(fault.code, "", fault.place, fault.message, &help);
            None
        }
    };
    let mut problems = reader.problems;
    problems.sort_by_key(|problem| (problem.line, problem.column));
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    match spec {
        Some(spec) if !failed => Ok(Reading { spec, warnings: problems }),
        _ => Err(problems),
    }
}

struct Reader<'a> {
    file: &'a str,
    problems: Vec<Problem>,
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

impl Field<'_> {
    /// Where the value is; where its key is if there is none to point at.
    fn place(&self) -> Place {
        if self.node.is_null() { self.key } else { self.node.place }
    }
}

/// The usual cause if a parameter is named like a parameter's key.
fn misplaced(name: &str) -> Option<&'static str> {
    ["value", "values", "min", "max", "distribution"]
        .contains(&name)
        .then_some("if it belongs to the parameter above, indent it further")
}

/// The name of a node's kind, for messages.
fn kind(node: &Node) -> &'static str {
    match &node.kind {
        Kind::List(_) => "a list",
        Kind::Mapping(_) => "a mapping",
        Kind::Scalar(scalar) => match &scalar.value {
            Ok(Value::Null) => "empty",
            Ok(Value::Bool(_)) => "a boolean",
            Ok(Value::Number(number)) if number.is_f64() => "a float",
            Ok(Value::Number(_)) => "an integer",
            Ok(_) => "text",
            Err(_) => "not representable",
        },
    }
}

/// A scalar's value if it is one that JSON can hold.
fn scalar(node: &Node) -> Option<&Value> {
    match &node.kind {
        Kind::Scalar(scalar) => scalar.value.as_ref().ok(),
        _ => None,
    }
}

/// How a node is written, if it is a scalar.
fn written(node: &Node) -> &str {
    match &node.kind {
        Kind::Scalar(scalar) => &scalar.text,
        _ => "",
    }
}

impl Reader<'_> {
    fn problem(
        &mut self,
        severity: Severity,
        code: &'static str,
        pointer: &str,
        place: Place,
        (message, help): (String, &str),
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

    /// An empty `help` is none.
    fn error(
        &mut self,
        code: &'static str,
        pointer: &str,
        place: Place,
        message: impl Into<String>,
        help: &str,
    ) {
        self.problem(Severity::Error, code, pointer, place, (message.into(), help));
    }

    /// An empty `help` is none.
    fn warn(
        &mut self,
        code: &'static str,
        pointer: &str,
        place: Place,
        message: impl Into<String>,
        help: &str,
    ) {
        self.problem(Severity::Warning, code, pointer, place, (message.into(), help));
    }

    fn spec(&mut self, root: &Node) -> Option<SweepSpec> {
        let Kind::Mapping(entries) = &root.kind else { return None };
        self.top_level_keys(entries);
        let method = self.method(field(entries, "method"));
        let program = self.text(entries, "program");
        let command = self.command(field(entries, "command"));
        let parameters = self.parameters(field(entries, "parameters"), method);
        let spec = SweepSpec {
            name: self.text(entries, "name"),
            description: self.text(entries, "description"),
            metric: self.metric(field(entries, "metric")),
            run_cap: self.run_cap(field(entries, "run_cap")),
            method: method.unwrap_or(Method::Grid),
            program,
            command,
            parameters,
        };
        self.program(entries, &spec);
        self.macros(entries, &spec);
        Some(spec)
    }

    fn top_level_keys(&mut self, entries: &[Entry]) {
        for entry in entries {
            let pointer = join("", &entry.key);
            match entry.key.as_str() {
                "early_terminate" | "scheduler" | "job" | "image_uri" | "metrics" => {
                    let message = format!("{} is not supported yet", quoted(&entry.key));
                    let help = "remove it to run without";
                    self.error("unsupported-key", &pointer, entry.place, message, help);
                }
                "controller" => {
                    let kind = match &entry.value.kind {
                        Kind::Mapping(entries) => field(entries, "type"),
                        _ => None,
                    };
                    let value = kind.and_then(|kind| scalar(kind.node));
                    if value.and_then(Value::as_str) != Some("local") {
                        let message = "`controller` is ignored: sweepctl is the controller";
                        self.warn("controller", &pointer, entry.place, message, "");
                    }
                }
                key if KEYS.contains(&key) => {}
                key => {
                    let help = nearest(key, &KEYS)
                        .map(|known| format!("did you mean `{known}`?"))
                        .unwrap_or_default();
                    let message = format!("{} is no key of a sweep; it is ignored", quoted(key));
                    self.warn("unknown-key", &pointer, entry.place, message, &help);
                }
            }
        }
    }

    /// A text key that may be left out or empty.
    fn text(&mut self, entries: &[Entry], key: &str) -> Option<String> {
        let field = field(entries, key)?;
        match scalar(field.node) {
            Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            _ => {
                let message = format!("`{key}` must be text, and this is {}", kind(field.node));
                let is_scalar = matches!(field.node.kind, Kind::Scalar(_));
                let help = if is_scalar { "put it in quotes" } else { "" };
                self.error("text-wanted", &join("", key), field.place(), message, help);
                None
            }
        }
    }

    fn method(&mut self, field: Option<Field<'_>>) -> Option<Method> {
        let Some(field) = field else {
            let help = "add `method: grid` or `method: random`";
            self.error("method-missing", "/method", yaml::START, "`method` is missing", help);
            return None;
        };
        let name = scalar(field.node).and_then(Value::as_str);
        match name {
            Some("grid") => return Some(Method::Grid),
            Some("random") => return Some(Method::Random),
            _ => {}
        }
        let (code, message, help) = match name {
            Some(name) if matches!(name.to_lowercase().as_str(), "bayes" | "custom") => (
                "unsupported-method",
                format!("method `{name}` is not supported yet"),
                "use grid or random".to_owned(),
            ),
            Some(name) => (
                "method-unknown",
                format!("there is no method {}", quoted(name)),
                match nearest(name, &["grid", "random"]) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => "use grid or random".to_owned(),
                },
            ),
            None => (
                "method-unknown",
                format!("`method` must be a method's name, and this is {}", kind(field.node)),
                "use grid or random".to_owned(),
            ),
        };
        self.error(code, "/method", field.place(), message, &help);
        None
    }

    fn metric(&mut self, field_: Option<Field<'_>>) -> Option<Metric> {
        let at = field_?;
        let Kind::Mapping(entries) = &at.node.kind else {
            let message = format!("`metric` must be a mapping, and this is {}", kind(at.node));
            let help = "write `metric: {name: loss, goal: minimize}`";
            self.error("metric-kind", "/metric", at.place(), message, help);
            return None;
        };
        for entry in entries {
            let pointer = join("/metric", &entry.key);
            match entry.key.as_str() {
                "name" | "goal" => {}
                "target" => {
                    let message = "`target` is not supported yet";
                    let help = "remove it to run without";
                    self.error("unsupported-key", &pointer, entry.place, message, help);
                }
                "impute" | "impute_while_running" => {
                    let message = format!("`{}` matters for bayes only; it is ignored", entry.key);
                    self.warn("no-effect", &pointer, entry.place, message, "");
                }
                key => {
                    let help = nearest(key, &["name", "goal", "target"])
                        .map(|known| format!("did you mean `{known}`?"))
                        .unwrap_or_default();
                    let message = format!("{} is no key of a metric; it is ignored", quoted(key));
                    self.warn("unknown-key", &pointer, entry.place, message, &help);
                }
            }
        }
        let name = self.metric_name(at, field(entries, "name"));
        let goal = self.goal(field(entries, "goal"));
        Some(Metric { name: name?, goal: goal? })
    }

    fn metric_name(&mut self, metric: Field<'_>, name: Option<Field<'_>>) -> Option<String> {
        let Some(name) = name.filter(|name| !name.node.is_null()) else {
            let help = "add `name:` with the name that runs log";
            self.error("metric-name", "/metric", metric.key, "the metric has no name", help);
            return None;
        };
        match scalar(name.node) {
            Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
            _ => {
                let message =
                    format!("the metric's name must be text: this is {}", kind(name.node));
                self.error("metric-name", "/metric/name", name.place(), message, "use quotes");
                None
            }
        }
    }

    fn goal(&mut self, goal: Option<Field<'_>>) -> Option<Goal> {
        let Some(goal) = goal else { return Some(Goal::Minimize) };
        let name = scalar(goal.node).and_then(Value::as_str).unwrap_or_default();
        match name {
            "minimize" => return Some(Goal::Minimize),
            "maximize" => return Some(Goal::Maximize),
            _ => {}
        }
        let message = format!("there is no goal {}", quoted(written(goal.node)));
        let short = name.to_lowercase();
        let help = match nearest(name, &["minimize", "maximize"]) {
            Some(known) => format!("did you mean `{known}`?"),
            None if short == "min" => "did you mean `minimize`?".to_owned(),
            None if short == "max" => "did you mean `maximize`?".to_owned(),
            None => "use minimize or maximize".to_owned(),
        };
        self.error("goal-unknown", "/metric/goal", goal.place(), message, &help);
        None
    }

    fn run_cap(&mut self, field: Option<Field<'_>>) -> Option<u64> {
        let field = field?;
        let cap = scalar(field.node).and_then(Value::as_u64).filter(|cap| *cap > 0);
        if cap.is_none() {
            let message = "`run_cap` must be a positive integer";
            self.error("run-cap", "/run_cap", field.place(), message, "");
        }
        cap
    }

    fn command(&mut self, field: Option<Field<'_>>) -> Option<Vec<String>> {
        let field = field.filter(|field| !field.node.is_null())?;
        let Kind::List(items) = &field.node.kind else {
            let message = format!("`command` must be a list, and this is {}", kind(field.node));
            let help =
                "one item for each argument: `[\"${env}\", python, \"${program}\", \"${args}\"]`";
            self.error("command-kind", "/command", field.place(), message, help);
            return None;
        };
        let mut command = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let pointer = join("/command", &index.to_string());
            // W&B turns other kinds into text the Python way; what JSON cannot hold stays as is.
            match item.value() {
                Ok(value) => command.push(python_text(&value)),
                Err(_) if matches!(item.kind, Kind::Scalar(_)) => {
                    command.push(written(item).to_owned());
                }
                Err(bad) => self.unholdable(&pointer, bad),
            }
        }
        Some(command)
    }

    fn unholdable(&mut self, pointer: &str, bad: Vec<(Place, String)>) {
        for (place, message) in bad {
            self.error("value", pointer, place, message, "in quotes it would be text");
        }
    }

    fn program(&mut self, entries: &[Entry], spec: &SweepSpec) {
        let at = field(entries, "program");
        let command = spec.command.as_deref().filter(|command| !command.is_empty());
        match spec.program.as_deref().filter(|program| !program.is_empty()) {
            None => {
                let needed =
                    command.is_none_or(|items| items.iter().any(|item| item == "${program}"));
                // A faulty `program` or `command` has been reported already.
                let faulty = ["/program", "/command"]
                    .iter()
                    .any(|pointer| self.problems.iter().any(|p| p.pointer == *pointer));
                if needed && !faulty {
                    let place = at.map(|at| at.key).or(field(entries, "command").map(|f| f.key));
                    let message = match command {
                        Some(_) => "`command` uses `${program}`, but there is no `program`",
                        None => "there is neither a `program` nor a `command`",
                    };
                    let place = place.unwrap_or(yaml::START);
                    let help = "add `program: train.py`";
                    self.error("program-missing", "/program", place, message, help);
                }
            }
            Some(program) if program.contains(char::is_whitespace) => {
                let place = at.map_or(yaml::START, |at| at.place());
                let message =
                    format!("{} holds blanks and is taken as one file name", quoted(program));
                let help = "put arguments into `command` as items of their own";
                self.warn("program-blanks", "/program", place, message, help);
            }
            Some(_) => {}
        }
    }

    fn macros(&mut self, entries: &[Entry], spec: &SweepSpec) {
        let Some(at) = field(entries, "command") else { return };
        let Kind::List(items) = &at.node.kind else { return };
        if items.is_empty() {
            return;
        }
        let mut hands_over = false;
        for (index, node) in items.iter().enumerate() {
            let item = replace_envvars(written(node), &|_| None);
            let pointer = join("/command", &index.to_string());
            match macro_name(&item) {
                Some(name) => {
                    hands_over |= ARGS_MACROS.contains(&name);
                    if !MACROS.contains(&name) {
                        let message = format!("there is no macro {}: it vanishes", quoted(&item));
                        let help = nearest(name, &MACROS)
                            .map(|known| format!("did you mean `${{{known}}}`?"))
                            .unwrap_or_default();
                        self.warn("unknown-macro", &pointer, node.place, message, &help);
                    }
                }
                None => {
                    let inside = MACROS.iter().find(|name| item.contains(&format!("${{{name}}}")));
                    if let Some(name) = inside {
                        let message = format!("`${{{name}}}` is not replaced inside a longer item");
                        let help = "make it an item of its own";
                        self.warn("macro-inside-item", &pointer, node.place, message, help);
                    }
                }
            }
        }
        let swept = spec.parameters.values().any(|parameter| match parameter {
            Parameter::Constant(_) => false,
            Parameter::Categorical(values) => values.len() > 1,
            _ => true,
        });
        if swept && !hands_over {
            let message = "no item of `command` hands over the parameters: only `wandb.config` will have them";
            let [.., args] = DEFAULT_COMMAND;
            let help = format!("add `\"{args}\"`");
            self.warn("no-args-macro", "/command", at.key, message, &help);
        }
    }

    fn parameters(
        &mut self,
        field: Option<Field<'_>>,
        method: Option<Method>,
    ) -> IndexMap<String, Parameter> {
        let mut parameters = IndexMap::new();
        let Some(field) = field else {
            let help = "add `parameters:` with at least one";
            let message = "`parameters` is missing";
            self.error("parameters-missing", "/parameters", yaml::START, message, help);
            return parameters;
        };
        let entries = match &field.node.kind {
            Kind::Mapping(entries) if !entries.is_empty() => entries,
            Kind::Mapping(_) => {
                let message = "`parameters` is empty";
                self.error("parameters-empty", "/parameters", field.place(), message, "");
                return parameters;
            }
            _ if field.node.is_null() => {
                let message = "`parameters` is empty";
                self.error("parameters-empty", "/parameters", field.place(), message, "");
                return parameters;
            }
            _ => {
                let message =
                    format!("`parameters` must be a mapping, and this is {}", kind(field.node));
                let help = "write `NAME: {values: [...]}` for each";
                self.error("parameters-kind", "/parameters", field.place(), message, help);
                return parameters;
            }
        };
        for entry in entries {
            let pointer = join("/parameters", &entry.key);
            self.parameter_name(entry, &pointer);
            let Some(parameter) = self.parameter(entry, &pointer) else { continue };
            if method == Some(Method::Grid) && matches!(parameter, Parameter::Real(_)) {
                let message = format!(
                    "grid needs countable values, and {} is continuous",
                    quoted(&entry.key)
                );
                let help = "list `values:`, use integer bounds, or use `method: random`";
                self.error("grid-continuous", &pointer, entry.place, message, help);
            }
            parameters.insert(entry.key.clone(), parameter);
        }
        parameters
    }

    fn parameter_name(&mut self, entry: &Entry, pointer: &str) {
        if let Some(written) = &entry.written {
            let message = format!("the name {} arrives as {}", quoted(written), quoted(&entry.key));
            self.warn("name-changes", pointer, entry.place, message, "put it in quotes");
        }
        let mut bytes = entry.key.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        let rest = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        if !(first && rest) {
            let message = format!("W&B may object to the name {}", quoted(&entry.key));
            let help =
                "a name has letters, digits, `_`, `.` and `-`, and starts with a letter or `_`";
            self.warn("name-pattern", pointer, entry.place, message, help);
        }
    }

    fn parameter(&mut self, entry: &Entry, pointer: &str) -> Option<Parameter> {
        let name = quoted(&entry.key);
        let place = if entry.value.is_null() { entry.place } else { entry.value.place };
        let entries = match &entry.value.kind {
            Kind::Mapping(entries) => entries,
            Kind::List(_) => {
                let message = format!("{name} is a list and needs `values:`");
                let help = misplaced(&entry.key).unwrap_or("write `{values: [...]}`");
                self.error("parameter-kind", pointer, place, message, help);
                return None;
            }
            Kind::Scalar(scalar) if entry.value.is_null() => {
                let message = format!("{name} is empty and needs `value:`, `values:` or bounds");
                let help = if scalar.text.is_empty() { "" } else { "write `{value: null}`" };
                self.error("parameter-kind", pointer, place, message, help);
                return None;
            }
            Kind::Scalar(scalar) => {
                let text = quoted(&scalar.text);
                let message = format!("{name} is {text} and needs `value:`");
                let help = format!("write `{{value: {}}}`", text.trim_matches('`'));
                let help = misplaced(&entry.key).unwrap_or(&help);
                self.error("parameter-kind", pointer, place, message, help);
                return None;
            }
        };
        if self.unsupported(entries, pointer, &name) {
            return None;
        }
        let distribution = match field(entries, "distribution") {
            Some(field) => Some(self.distribution(field, pointer)?),
            None => None,
        };
        let has = |key| field(entries, key).is_some();
        let kind = match distribution {
            Some(kind) => kind,
            None if has("value") => "constant",
            None if has("values") => "categorical",
            None if has("min") || has("max") => "bounds",
            None => {
                // A misspelt key is the likely cause; it says so itself.
                if !self.other_keys(entries, pointer, &name, &["distribution"]) {
                    let message = format!("{name} needs `value:`, `values:` or `min:` and `max:`");
                    self.error("parameter-kind", pointer, entry.place, message, "");
                }
                return None;
            }
        };
        let wanted: &[&str] = match kind {
            "constant" => &["value", "distribution"],
            "categorical" => &["values", "distribution"],
            _ => &["min", "max", "distribution"],
        };
        let extra = self.other_keys(entries, pointer, &name, wanted);
        let parameter = match kind {
            "constant" => self.constant(entry, entries, pointer),
            "categorical" => self.categorical(entry, entries, pointer),
            kind => self.bounds(entry, entries, pointer, kind),
        };
        parameter.filter(|_| !extra)
    }

    /// Reports what W&B knows and we do not.
    fn unsupported(&mut self, entries: &[Entry], pointer: &str, name: &str) -> bool {
        let mut found = false;
        for (key, what) in
            [("parameters", "nested `parameters`"), ("probabilities", "`probabilities`")]
        {
            if let Some(field) = field(entries, key) {
                let message = format!("{name}: {what} are not supported yet");
                self.error("unsupported-key", &join(pointer, key), field.key, message, "");
                found = true;
            }
        }
        found
    }

    fn distribution(&mut self, field: Field<'_>, pointer: &str) -> Option<&'static str> {
        let name = scalar(field.node).and_then(Value::as_str).unwrap_or_default();
        if let Some(known) = DISTRIBUTIONS.iter().find(|known| **known == name) {
            return Some(known);
        }
        let pointer = join(pointer, "distribution");
        if OTHER_DISTRIBUTIONS.contains(&name) {
            let message = format!("distribution `{name}` is not supported yet");
            let help = "use constant, categorical, int_uniform or uniform";
            self.error("unsupported-distribution", &pointer, field.place(), message, help);
            return None;
        }
        let message = format!("there is no distribution {}", quoted(written(field.node)));
        let all: Vec<&str> = DISTRIBUTIONS.iter().chain(&OTHER_DISTRIBUTIONS).copied().collect();
        let help = match nearest(name, &all) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "use constant, categorical, int_uniform or uniform".to_owned(),
        };
        self.error("distribution-unknown", &pointer, field.place(), message, &help);
        None
    }

    /// Reports keys that do not belong to the parameter's kind: W&B refuses such a sweep.
    fn other_keys(
        &mut self,
        entries: &[Entry],
        pointer: &str,
        name: &str,
        wanted: &[&str],
    ) -> bool {
        let mut found = false;
        for entry in entries.iter().filter(|entry| !wanted.contains(&entry.key.as_str())) {
            found = true;
            let key = quoted(&entry.key);
            let below = join(pointer, &entry.key);
            if PARAMETER_KEYS.contains(&entry.key.as_str()) {
                let message = match wanted.first() {
                    Some(&"distribution") | None => format!("{name} cannot use {key} alone"),
                    Some(first) => format!("{name}: {key} does not go with `{first}`"),
                };
                self.error("parameter-keys", &below, entry.place, message, "remove one of them");
            } else {
                let message = format!("{key} is no key of a parameter");
                let help = match nearest(&entry.key, &PARAMETER_KEYS) {
                    Some(known) => format!("did you mean `{known}`?"),
                    None => "remove it: W&B refuses such a parameter".to_owned(),
                };
                self.error("parameter-keys", &below, entry.place, message, &help);
            }
        }
        found
    }

    /// A key that the parameter's kind needs.
    fn needed<'a>(
        &mut self,
        entry: &Entry,
        entries: &'a [Entry],
        pointer: &str,
        key: &str,
    ) -> Option<Field<'a>> {
        let found = field(entries, key);
        if found.is_none() {
            let message = format!("{} needs `{key}:`", quoted(&entry.key));
            self.error("parameter-incomplete", pointer, entry.place, message, "");
        }
        found
    }

    fn constant(&mut self, entry: &Entry, entries: &[Entry], pointer: &str) -> Option<Parameter> {
        let field = self.needed(entry, entries, pointer, "value")?;
        match field.node.value() {
            Ok(value) => Some(Parameter::Constant(value)),
            Err(bad) => {
                self.unholdable(&join(pointer, "value"), bad);
                None
            }
        }
    }

    fn categorical(
        &mut self,
        entry: &Entry,
        entries: &[Entry],
        pointer: &str,
    ) -> Option<Parameter> {
        let field = self.needed(entry, entries, pointer, "values")?;
        let pointer = join(pointer, "values");
        let name = quoted(&entry.key);
        let Kind::List(items) = &field.node.kind else {
            let message =
                format!("{name}: `values` must be a list, and this is {}", kind(field.node));
            let help = if matches!(field.node.kind, Kind::Scalar(_)) && !field.node.is_null() {
                "use `value:` for a single value"
            } else {
                ""
            };
            self.error("values-kind", &pointer, field.place(), message, help);
            return None;
        };
        if items.is_empty() {
            let message = format!("{name}: `values` is empty");
            self.error("values-empty", &pointer, field.place(), message, "");
            return None;
        }
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item.value() {
                Ok(value) => values.push(value),
                Err(bad) => self.unholdable(&join(&pointer, &index.to_string()), bad),
            }
        }
        (values.len() == items.len()).then_some(Parameter::Categorical(values))
    }

    fn bounds(
        &mut self,
        entry: &Entry,
        entries: &[Entry],
        pointer: &str,
        kind: &str,
    ) -> Option<Parameter> {
        let min = self.needed(entry, entries, pointer, "min");
        let max = self.needed(entry, entries, pointer, "max");
        let low = min.and_then(|field| self.bound(field, pointer, "min", kind));
        let high = max.and_then(|field| self.bound(field, pointer, "max", kind));
        let (low, high, max) = (low?, high?, max?);
        let name = quoted(&entry.key);
        let (parameter, ordered) = match (low, high, kind) {
            (Bound::Int(min), Bound::Int(max), "bounds" | "int_uniform") => {
                (Parameter::IntUniform { min, max }, min < max)
            }
            (Bound::Int(_), Bound::Float(_), "bounds")
            | (Bound::Float(_), Bound::Int(_), "bounds") => {
                let message = format!(
                    "{name} has an integer and a float as bounds: W&B's client refuses this as ambiguous"
                );
                let help =
                    "write both with a dot, as in `1.0`, for real numbers, or neither for integers";
                self.error("bounds-mixed", pointer, entry.place, message, help);
                return None;
            }
            (low, high, _) => {
                let (min, max) = (low.float(), high.float());
                let law = Law::Uniform { min: low.number()?, max: high.number()? };
                (Parameter::Real(law), min < max)
            }
        };
        if !ordered {
            let message = format!("{name}: `min` must be less than `max`");
            self.error("bounds-order", &join(pointer, "max"), max.place(), message, "");
            return None;
        }
        Some(parameter)
    }

    fn bound(&mut self, field: Field<'_>, pointer: &str, key: &str, kind_: &str) -> Option<Bound> {
        let pointer = join(pointer, key);
        let number = match &field.node.kind {
            Kind::Scalar(scalar) => match &scalar.value {
                Ok(Value::Number(number)) => Some(number),
                Err(why) => {
                    self.error("value", &pointer, field.place(), why.clone(), "");
                    return None;
                }
                Ok(_) => None,
            },
            _ => None,
        };
        let Some(number) = number else {
            let message = format!("`{key}` must be a number, and this is {}", kind(field.node));
            let is_number = written(field.node).parse::<f64>().is_ok_and(f64::is_finite);
            let help = match written(field.node) {
                text if is_number && text.contains("-.") => "write a digit before the dot",
                text if is_number && text.contains("+.") => "write a digit before the dot",
                _ if is_number => "remove the quotes",
                _ => "",
            };
            self.error("bound-kind", &pointer, field.place(), message, help);
            return None;
        };
        match number.as_i64() {
            Some(int) => Some(Bound::Int(int)),
            None if kind_ == "int_uniform" || !number.is_f64() => {
                let message = if number.is_f64() {
                    format!("int_uniform needs integers, and `{key}` is a float")
                } else {
                    format!("`{key}` is too large")
                };
                self.error("bound-kind", &pointer, field.place(), message, "");
                None
            }
            None => number.as_f64().map(Bound::Float),
        }
    }
}

#[derive(Clone, Copy)]
enum Bound {
    Int(i64),
    Float(f64),
}

impl Bound {
    /// The bound as written.
    fn number(self) -> Option<serde_json::Number> {
        match self {
            Bound::Int(value) => Some(value.into()),
            Bound::Float(value) => serde_json::Number::from_f64(value),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "uniform takes integers as the nearest floats")]
    fn float(self) -> f64 {
        match self {
            Bound::Int(value) => value as f64,
            Bound::Float(value) => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search;
    use crate::sweep::{argv, parameter_file};
    use proptest::prelude::*;
    use serde_json::json;

    /// Every problem of a file, one a line; warnings of a good file too.
    fn problems(text: &str) -> String {
        let problems = match read(text.as_bytes(), "s") {
            Ok(reading) => {
                assert!(reading.warnings.iter().all(|p| p.severity == Severity::Warning));
                reading.warnings
            }
            Err(problems) => {
                assert!(problems.iter().any(|p| p.severity == Severity::Error));
                problems
            }
        };
        let lines = problems.iter().map(|problem| {
            let letter = if problem.severity == Severity::Error { 'E' } else { 'W' };
            format!("{letter} {} [{}] {problem}\n", problem.code, problem.pointer)
        });
        lines.collect()
    }

    fn good(text: &str) -> SweepSpec {
        read(text.as_bytes(), "s").map_err(|p| format!("{p:?}")).unwrap().spec
    }

    /// One parameter `a` of a random sweep.
    fn of_parameter(parameter: &str) -> String {
        problems(&format!("program: p\nmethod: random\nparameters:\n  a: {parameter}\n"))
    }

    /// One more top-level line, the fourth.
    fn of_line(line: &str) -> String {
        problems(&format!("program: p\nmethod: grid\nparameters: {{a: {{value: 1}}}}\n{line}\n"))
    }

    #[test]
    fn a_whole_file_is_read() {
        let spec = good(
            "name: n\ndescription: d\nprogram: p.py\nmethod: random\nrun_cap: 5\nproject: x\n\
             entity: y\nkind: sweep\napiVersion: v\ncontroller: {type: local}\n\
             metric: {name: loss, goal: maximize}\ncommand: [python, 5, 1.0e-6, true, null]\n\
             parameters:\n  c: {value: }\n  k: {values: [1, 1.0, 'yes', yes]}\n  \
             i: {min: 1, max: 5}\n  u: {min: 1e-5, max: 1e-1}\n  \
             v: {distribution: uniform, min: 0, max: 1}\n",
        );
        assert_eq!(
            serde_json::to_value(&spec).unwrap(),
            json!({
                "name": "n", "description": "d", "program": "p.py", "method": "random",
                "metric": {"name": "loss", "goal": "maximize"}, "run_cap": 5,
                "command": ["python", "5", "1e-06", "True", "None"],
                "parameters": {
                    "c": {"constant": null},
                    "k": {"categorical": [1, 1.0, "yes", true]},
                    "i": {"int_uniform": {"min": 1, "max": 5}},
                    "u": {"real": {"uniform": {"min": 1e-5, "max": 0.1}}},
                    "v": {"real": {"uniform": {"min": 0, "max": 1}}},
                },
            })
        );
    }

    #[test]
    fn mappings_in_values_arrive_with_sorted_keys() {
        let spec =
            good("program: p\nmethod: grid\nparameters: {a: {value: {b: {d: 1, c: 2}, a: 3}}}");
        assert_eq!(
            serde_json::to_string(&spec.parameters["a"]).unwrap(),
            r#"{"constant":{"a":3,"b":{"c":2,"d":1}}}"#
        );
    }

    #[test]
    fn byte_order_mark_crlf_and_document_marks_are_fine() {
        for text in [
            "\u{feff}program: p\nmethod: grid\nparameters: {a: {value: 1}}\n",
            "program: p\r\nmethod: grid\r\nparameters:\r\n  a:\r\n    value: 1\r\n",
            "---\n# note\nprogram: p\nmethod: grid\nparameters: {a: {value: 1}}\n...\n",
        ] {
            assert_eq!(problems(text), "", "{text:?}");
            assert_eq!(good(text).parameters["a"], Parameter::Constant(json!(1)));
        }
    }

    #[test]
    fn lines_are_counted_alike_with_crlf() {
        let text = "\u{feff}program: p\r\nmethod: grid\r\nparameters:\r\n  \u{e9}: 1\r\n";
        assert!(problems(text).contains("s:4:6: "), "{}", problems(text));
    }

    #[test]
    fn what_is_no_sweep_file_is_one_clear_error() {
        let table: [(&[u8], &str); 17] = [
            (b"", "s:1:1: the file is empty"),
            (b"# nothing\n", "s:1:1: the file is empty"),
            (b"---\n", "s:1:1: the file is empty"),
            (b"- a\n", "s:1:1: the file is not a mapping of keys"),
            (b"text\n", "s:1:1: the file is not a mapping of keys"),
            (b"a: 1\nb: \xff\n", "s:2:4: the file is not UTF-8 text"),
            (b"\xff\xfea\0", "s:1:1: the file is not UTF-8 text"),
            (b"a: \0\n", "s:1:4: YAML does not allow the control character U+0000"),
            (b"a:\n\tb: 1\n", "s:2:1: YAML does not allow tabs as indentation"),
            (b"a: 1\n---\nb: 1\n", "s:2:1: the file holds several documents"),
            (b"a: b\nc\nd: e\n", "s:3:1: this is not YAML: a line above lacks its `:`"),
            (
                b"a: [${env}]\n",
                "s:1:6: this is not YAML: while parsing a flow sequence, expected ',' or ']' (within `[...]`, put every `${...}` in quotes)",
            ),
            (b"a: [1\n", "s:2:1: this is not YAML"),
            (b"a: *b\n", "s:1:4: this is not YAML"),
            (b"a: &b [*b]\n", "s:1:8: this alias refers to a value it is part of"),
            (b"a: !python/x 1\n", "s:1:14: the tag `!python/x` has no meaning here"),
            (b"? [a]\n: 1\n", "s:1:3: a key must be text"),
        ];
        for (text, want) in table {
            let found = read(text, "s").unwrap_err();
            assert_eq!(found.len(), 1, "{found:?}");
            let found = found[0].to_string();
            assert!(found.starts_with(want), "{:?}: {found}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn aliases_and_depth_are_bounded() {
        let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let alias = format!("*a{}", i - 1);
            laughs += &format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 10].join(", "));
        }
        assert!(problems(&laughs).contains("more than 100000 values"));
        assert!(problems(&format!("a: {}", "[".repeat(200))).contains("deeper than 128 levels"));
        assert!(problems(&"- ".repeat(100_000)).contains("deeper than 128 levels"));
        let mut chain = String::from("a0: &a0 [x]\n");
        for i in 1..200 {
            chain += &format!("a{i}: &a{i} [*a{}]\n", i - 1);
        }
        assert!(problems(&chain).contains("deeper than 128 levels"));
    }

    #[test]
    fn anchors_and_merge_keys_are_resolved() {
        let spec = good(
            "program: p\nmethod: grid\nparameters:\n  base: &b {values: [1, 2]}\n  same: *b\n  \
             more: {<<: *b, distribution: categorical}\n  own: {<<: [*b, {values: [9]}], values: [3]}\n",
        );
        let values = |values: Value| Parameter::Categorical(values.as_array().unwrap().clone());
        assert_eq!(spec.parameters["same"], values(json!([1, 2])));
        assert_eq!(spec.parameters["more"], values(json!([1, 2])));
        assert_eq!(spec.parameters["own"], values(json!([3])));
    }

    #[test]
    fn tags_say_what_a_scalar_is() {
        let spec = good(
            "program: p\nmethod: grid\nparameters: {a: {values: [!!str 1, !!float 1, !!int '2', ! 3]}}",
        );
        assert_eq!(
            spec.parameters["a"],
            Parameter::Categorical(vec![json!("1"), json!(1.0), json!(2), json!("3")])
        );
    }

    #[test]
    fn every_problem_is_found_at_once_and_at_its_place() {
        insta::assert_snapshot!(problems(
            "method: Gird\nmetric: {goal: maximise}\nrun_cap: -1\ncommand: python ${program}\n\
             paramters: 1\nparameters:\n  opt: 0.01\n  lr: {min: 1.0, max: 0.1}\n  \
             b: {values: []}\n  lr: {min: 0, max: 0.5}\nearly_terminate: {type: hyperband}\n"
        ), @r##"
            E method-unknown [/method] s:1:9: there is no method `Gird` (did you mean `grid`?)
            E metric-name [/metric] s:2:1: the metric has no name (add `name:` with the name that runs log)
            E goal-unknown [/metric/goal] s:2:16: there is no goal `maximise` (did you mean `maximize`?)
            E run-cap [/run_cap] s:3:10: `run_cap` must be a positive integer
            E command-kind [/command] s:4:10: `command` must be a list, and this is text (one item for each argument: `["${env}", python, "${program}", "${args}"]`)
            W unknown-key [/paramters] s:5:1: `paramters` is no key of a sweep; it is ignored (did you mean `parameters`?)
            E parameter-kind [/parameters/opt] s:7:8: `opt` is `0.01` and needs `value:` (write `{value: 0.01}`)
            E values-empty [/parameters/b/values] s:9:15: `b`: `values` is empty
            W duplicate-key [/parameters/lr] s:10:3: `lr` is given twice, in lines 8 and 10; the last one counts (remove one of them)
            E bounds-mixed [/parameters/lr] s:10:3: `lr` has an integer and a float as bounds: W&B's client refuses this as ambiguous (write both with a dot, as in `1.0`, for real numbers, or neither for integers)
            E unsupported-key [/early_terminate] s:11:1: `early_terminate` is not supported yet (remove it to run without)
            "##);
    }

    #[test]
    fn faults_of_the_top_level() {
        let lines = [
            "run_cap: 0",
            "run_cap: 1.5",
            "run_cap: yes",
            "command: 'a b'",
            "metric: loss",
            "metric: {goal: minimize}",
            "metric: {name: loss, goal: min}",
            "metric: {name: loss, target: 0.1, impute: best}",
            "early_terminate: {}",
            "scheduler: {}",
            "job: x",
            "image_uri: x",
            "metrics: []",
            "controller: {type: cloud}",
            "descripton: x",
            "colour: x",
            "name: 5",
            "program: train.py --x",
            "command: ['${env}', '${arg}', '--x=${args}', '${args}']",
            "command: ['${args}', {a: .inf}]",
            "method: bayes",
            "method: Random",
            "method: [grid]",
        ];
        let all: String = lines.iter().map(|line| of_line(line)).collect();
        insta::assert_snapshot!(all, @r##"
            E run-cap [/run_cap] s:4:10: `run_cap` must be a positive integer
            E run-cap [/run_cap] s:4:10: `run_cap` must be a positive integer
            E run-cap [/run_cap] s:4:10: `run_cap` must be a positive integer
            E command-kind [/command] s:4:10: `command` must be a list, and this is text (one item for each argument: `["${env}", python, "${program}", "${args}"]`)
            E metric-kind [/metric] s:4:9: `metric` must be a mapping, and this is text (write `metric: {name: loss, goal: minimize}`)
            E metric-name [/metric] s:4:1: the metric has no name (add `name:` with the name that runs log)
            E goal-unknown [/metric/goal] s:4:28: there is no goal `min` (did you mean `minimize`?)
            E unsupported-key [/metric/target] s:4:22: `target` is not supported yet (remove it to run without)
            W no-effect [/metric/impute] s:4:35: `impute` matters for bayes only; it is ignored
            E unsupported-key [/early_terminate] s:4:1: `early_terminate` is not supported yet (remove it to run without)
            E unsupported-key [/scheduler] s:4:1: `scheduler` is not supported yet (remove it to run without)
            E unsupported-key [/job] s:4:1: `job` is not supported yet (remove it to run without)
            E unsupported-key [/image_uri] s:4:1: `image_uri` is not supported yet (remove it to run without)
            E unsupported-key [/metrics] s:4:1: `metrics` is not supported yet (remove it to run without)
            W controller [/controller] s:4:1: `controller` is ignored: sweepctl is the controller
            W unknown-key [/descripton] s:4:1: `descripton` is no key of a sweep; it is ignored (did you mean `description`?)
            W unknown-key [/colour] s:4:1: `colour` is no key of a sweep; it is ignored
            E text-wanted [/name] s:4:7: `name` must be text, and this is an integer (put it in quotes)
            W duplicate-key [/program] s:4:1: `program` is given twice, in lines 1 and 4; the last one counts (remove one of them)
            W program-blanks [/program] s:4:10: `train.py --x` holds blanks and is taken as one file name (put arguments into `command` as items of their own)
            W unknown-macro [/command/1] s:4:21: there is no macro `${arg}`: it vanishes (did you mean `${args}`?)
            W macro-inside-item [/command/2] s:4:31: `${args}` is not replaced inside a longer item (make it an item of its own)
            E value [/command/1] s:4:26: `.inf` is not a finite number, which JSON cannot hold (in quotes it would be text)
            W duplicate-key [/method] s:4:1: `method` is given twice, in lines 2 and 4; the last one counts (remove one of them)
            E unsupported-method [/method] s:4:9: method `bayes` is not supported yet (use grid or random)
            W duplicate-key [/method] s:4:1: `method` is given twice, in lines 2 and 4; the last one counts (remove one of them)
            E method-unknown [/method] s:4:9: there is no method `Random` (did you mean `random`?)
            W duplicate-key [/method] s:4:1: `method` is given twice, in lines 2 and 4; the last one counts (remove one of them)
            E method-unknown [/method] s:4:9: `method` must be a method's name, and this is a list (use grid or random)
            "##);
    }

    #[test]
    fn faults_of_a_parameter() {
        let parameters = [
            "0.01",
            "[1, 2]",
            "",
            "{}",
            "{vaules: [1]}",
            "{value: 1, values: [1]}",
            "{values: 3}",
            "{values: }",
            "{values: [1, .inf, 2024-01-31]}",
            "{min: 1}",
            "{max: 1}",
            "{min: 1, max: 1}",
            "{min: 0, max: 1.0}",
            "{min: true, max: 1}",
            "{min: '0.1', max: 1.0}",
            "{min: -.5, max: 1.0}",
            "{min: 1, max: 5, q: 2}",
            "{min: 1, max: 5, desc: x}",
            "{distribution: int_uniform, min: 1.0, max: 2}",
            "{distribution: categorical, value: 1}",
            "{distribution: q_uniform, min: 1, max: 2}",
            "{distribution: unifrom, min: 1, max: 2}",
            "{values: [1], probabilities: [1]}",
            "{parameters: {b: {value: 1}}}",
            "{min: 1, max: 99999999999999999999}",
        ];
        let all: String = parameters.iter().map(|parameter| of_parameter(parameter)).collect();
        insta::assert_snapshot!(all, @r##"
            E parameter-kind [/parameters/a] s:4:6: `a` is `0.01` and needs `value:` (write `{value: 0.01}`)
            E parameter-kind [/parameters/a] s:4:6: `a` is a list and needs `values:` (write `{values: [...]}`)
            E parameter-kind [/parameters/a] s:4:3: `a` is empty and needs `value:`, `values:` or bounds
            E parameter-kind [/parameters/a] s:4:3: `a` needs `value:`, `values:` or `min:` and `max:`
            E parameter-keys [/parameters/a/vaules] s:4:7: `vaules` is no key of a parameter (did you mean `values`?)
            E parameter-keys [/parameters/a/values] s:4:17: `a`: `values` does not go with `value` (remove one of them)
            E values-kind [/parameters/a/values] s:4:15: `a`: `values` must be a list, and this is an integer (use `value:` for a single value)
            E values-kind [/parameters/a/values] s:4:7: `a`: `values` must be a list, and this is empty
            E value [/parameters/a/values/1] s:4:19: `.inf` is not a finite number, which JSON cannot hold (in quotes it would be text)
            E value [/parameters/a/values/2] s:4:25: `2024-01-31` is a date, which W&B cannot take (in quotes it would be text)
            E parameter-incomplete [/parameters/a] s:4:3: `a` needs `max:`
            E parameter-incomplete [/parameters/a] s:4:3: `a` needs `min:`
            E bounds-order [/parameters/a/max] s:4:20: `a`: `min` must be less than `max`
            E bounds-mixed [/parameters/a] s:4:3: `a` has an integer and a float as bounds: W&B's client refuses this as ambiguous (write both with a dot, as in `1.0`, for real numbers, or neither for integers)
            E bound-kind [/parameters/a/min] s:4:12: `min` must be a number, and this is a boolean
            E bound-kind [/parameters/a/min] s:4:12: `min` must be a number, and this is text (remove the quotes)
            E bound-kind [/parameters/a/min] s:4:12: `min` must be a number, and this is text (write a digit before the dot)
            E parameter-keys [/parameters/a/q] s:4:23: `a`: `q` does not go with `min` (remove one of them)
            E parameter-keys [/parameters/a/desc] s:4:23: `desc` is no key of a parameter (remove it: W&B refuses such a parameter)
            E bound-kind [/parameters/a/min] s:4:39: int_uniform needs integers, and `min` is a float
            E parameter-incomplete [/parameters/a] s:4:3: `a` needs `values:`
            E parameter-keys [/parameters/a/value] s:4:34: `a`: `value` does not go with `values` (remove one of them)
            E unsupported-distribution [/parameters/a/distribution] s:4:21: distribution `q_uniform` is not supported yet (use constant, categorical, int_uniform or uniform)
            E distribution-unknown [/parameters/a/distribution] s:4:21: there is no distribution `unifrom` (did you mean `uniform`?)
            E unsupported-key [/parameters/a/probabilities] s:4:20: `a`: `probabilities` are not supported yet
            E unsupported-key [/parameters/a/parameters] s:4:7: `a`: nested `parameters` are not supported yet
            E value [/parameters/a/max] s:4:20: `99999999999999999999` does not fit 64 bits
            "##);
    }

    #[test]
    fn keys_beside_their_parameter_are_recognised() {
        let text = "program: p\nmethod: grid\nparameters:\n  a:\n  values: [1]\n  min: 1\n";
        let found = problems(text);
        assert_eq!(found.matches("(if it belongs to the parameter above, indent it").count(), 2);
    }

    #[test]
    fn grid_over_a_continuous_parameter_is_refused() {
        let text = "program: p\nmethod: grid\nparameters:\n  n: {min: 1, max: 2}\n  lr: {min: 0.1, max: 1.0}\n";
        assert!(problems(text).starts_with("E grid-continuous [/parameters/lr] s:5:3: "));
    }

    #[test]
    fn a_program_is_needed_unless_the_command_does_without() {
        let file = |more: &str| format!("{more}method: grid\nparameters: {{a: {{value: 1}}}}\n");
        assert!(problems(&file("")).contains("program-missing [/program] s:1:1: "));
        assert!(problems(&file("command: []\n")).contains("program-missing"));
        assert!(problems(&file("command: ['${program}']\n")).contains("program-missing"));
        assert_eq!(problems(&file("command: [train, '${args}']\n")), "");
    }

    #[test]
    fn a_command_without_args_is_worth_a_warning_only_if_something_is_swept() {
        let file = |values: &str| {
            format!(
                "program: p\nmethod: grid\ncommand: ['${{program}}']\nparameters: {{a: {values}}}\n"
            )
        };
        assert!(
            problems(&file("{values: [1, 2]}")).starts_with("W no-args-macro [/command] s:3:1: ")
        );
        assert_eq!(problems(&file("{value: 1}")), "");
    }

    const BASE: &str = "program: p\nmethod: random\nmetric: {name: loss, goal: minimize}\nrun_cap: 5\n\
        command:\n- ${env}\n- \"${args}\"\n- '${envvar:HOME}'\nparameters:\n  a: &a {values: [1, 1.0, yes, 1e3]}\n  \
        b: {<<: *a}\n  c: {min: 1, max: 5}\n  d:\n    min: 1e-5\n    max: 1.0\n  e: {value: |\n}\n  \
        f: {value: !!str 010}\n";

    fn exercise(text: &[u8]) {
        let Ok(Reading { spec, warnings }) = read(text, "s") else { return };
        assert!(warnings.iter().all(|warning| !warning.to_string().contains('\n')));
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<SweepSpec>(&json).unwrap(), spec);
        for slot in [0, 1, u64::MAX] {
            if let Some(config) = search::configuration(&spec, 1, slot) {
                assert!(config.keys().is_sorted());
                let _ = argv(&spec, &config, "python", "file", &|_| None);
                let _ = parameter_file(&config);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn reading_random_bytes_never_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            exercise(&text);
        }

        #[test]
        fn reading_random_yaml_characters_never_panics(
            text in "[-a-c0-2:?,{}\\[\\]&*!|>'\"%@` #\n\t.~<\u{e9}\r]{0,60}"
        ) {
            exercise(text.as_bytes());
        }

        #[test]
        fn reading_a_mutated_file_never_panics(
            edits in prop::collection::vec(
                (0_usize..400, 0_usize..6, "[-a-c0-2:?,{}\\[\\]&*!|>'\"%@` #\n\t.~<\u{e9}]{0,4}"),
                1..5,
            )
        ) {
            let mut text: Vec<u8> = BASE.replace("e: {value: |\n}\n", "e: {value: x}\n").into_bytes();
            for (at, cut, put) in edits {
                let at = at.min(text.len());
                let end = (at + cut).min(text.len());
                text.splice(at..end, put.into_bytes());
            }
            exercise(&text);
        }
    }
}
