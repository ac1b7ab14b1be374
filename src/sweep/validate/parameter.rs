//! `parameters`: which kind each is, and whether its keys fit that kind.

use indexmap::IndexMap;
use serde_json::Value;

use super::law::Base;
use super::{Field, Validator, field, kind, launch, number, written};
use crate::search;
use crate::sweep::code::Code;
use crate::sweep::model::{Law, Method, Parameter};
use crate::sweep::problem::{nearest, quoted};
use crate::sweep::python::float_text;
use crate::sweep::scalar::Meaning;
use crate::sweep::yaml::{self, Entry, Kind, Node, join};

const KEYS: [&str; 12] = [
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

/// Names that other tools have for W&B's distributions.
const OTHER_NAMES: [(&str, &str); 9] = [
    ("loguniform", "log_uniform_values"),
    ("qloguniform", "q_log_uniform_values"),
    ("uniform_values", "uniform"),
    ("float", "uniform"),
    ("int", "int_uniform"),
    ("randint", "int_uniform"),
    ("integer", "int_uniform"),
    ("choice", "categorical"),
    ("gaussian", "normal"),
];

/// What a parameter is, by `distribution` or by its keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    Constant,
    Categorical,
    Weighted,
    /// Bounds without a distribution: integers or real numbers, whichever they are.
    Bounds,
    IntUniform,
    Real(Base),
    Quantized(Base),
    Group,
}

impl Is {
    fn named(distribution: &str) -> Option<Self> {
        Some(match distribution {
            "constant" => Self::Constant,
            "categorical" => Self::Categorical,
            "categorical_w_probabilities" => Self::Weighted,
            "int_uniform" => Self::IntUniform,
            name => match name.strip_prefix("q_") {
                Some(base) => Self::Quantized(Base::named(base).filter(|base| base.has_q())?),
                None => Self::Real(Base::named(name)?),
            },
        })
    }

    /// The keys that it needs, and those that it may have.
    fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Constant => (&["value"], &["distribution"]),
            Self::Categorical => (&["values"], &["distribution"]),
            Self::Weighted => (&["values", "probabilities"], &["distribution"]),
            Self::Bounds | Self::IntUniform => (&["min", "max"], &["distribution"]),
            Self::Group => (&["parameters"], &[]),
            Self::Real(base) => (base.bounds(), base.shape_keys(false)),
            Self::Quantized(base) => (base.bounds(), base.shape_keys(true)),
        }
    }
}

/// Every distribution, for messages.
pub(super) fn distributions() -> Vec<String> {
    let mut names: Vec<String> =
        ["constant", "categorical", "categorical_w_probabilities", "int_uniform"]
            .map(str::to_owned)
            .to_vec();
    for base in Base::ALL {
        names.push(base.name().to_owned());
        if base.has_q() {
            names.push(format!("q_{}", base.name()));
        }
    }
    names
}

/// Where a parameter stands and what goes for it.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) entry: &'a Entry,
    pub(super) pointer: &'a str,
    /// Not in a group: W&B checks more.
    pub(super) top: bool,
    pub(super) method: Option<Method>,
}

impl Context<'_> {
    pub(super) fn name(&self) -> String {
        quoted(&self.entry.key)
    }

    pub(super) fn at(&self) -> (&str, yaml::Place) {
        (self.pointer, self.entry.place)
    }
}

/// The usual cause if a parameter is named like a parameter's key.
fn misplaced(name: &str) -> Option<&'static str> {
    ["value", "values", "min", "max", "distribution"]
        .contains(&name)
        .then_some("if it belongs to the parameter above, indent it further")
}

impl Validator<'_> {
    /// The parameters; `None` unless all can be read.
    pub(super) fn parameters(
        &mut self,
        entries: &[Entry],
        method: Option<Method>,
    ) -> Option<IndexMap<String, Parameter>> {
        let pointer = "/parameters";
        let Some(field) = field(entries, "parameters") else {
            let at = (pointer, yaml::START);
            if launch::has_search_space(entries) {
                let message =
                    "the scheduler's search space is for W&B Launch: sweepctl needs `parameters`";
                self.error(Code::ParametersMissing, at, message, "");
            } else {
                let help = "add `parameters:` with at least one";
                self.fault(Code::ParametersMissing, at, "`parameters` is missing", help);
            }
            return None;
        };
        self.group(field, pointer, method, true)
    }

    /// Parameters under one key; `None` unless all can be read.
    fn group(
        &mut self,
        field: Field<'_>,
        pointer: &str,
        method: Option<Method>,
        top: bool,
    ) -> Option<IndexMap<String, Parameter>> {
        let at = (pointer, field.place());
        let entries = match &field.node.kind {
            Kind::Mapping(entries) => entries,
            _ => {
                let message =
                    format!("`parameters` must be a mapping, and this is {}", kind(field.node));
                let help = "write `NAME: {values: [...]}` for each";
                self.fault(Code::ParametersKind, at, message, help);
                return None;
            }
        };
        if entries.is_empty() {
            self.fault(Code::ParametersEmpty, at, "`parameters` is empty", "add at least one");
        }
        let mut parameters = IndexMap::new();
        let mut complete = top || !entries.is_empty();
        for entry in entries {
            let pointer = join(pointer, &entry.key);
            let context = Context { entry, pointer: &pointer, top, method };
            self.parameter_name(context);
            match self.parameter(context) {
                Some(parameter) => drop(parameters.insert(entry.key.clone(), parameter)),
                None => complete = false,
            }
        }
        complete.then_some(parameters)
    }

    fn parameter_name(&mut self, context: Context<'_>) {
        let (entry, at) = (context.entry, context.at());
        if let Some(written) = &entry.written {
            let message = format!("the name {} arrives as {}", quoted(written), quoted(&entry.key));
            self.warn(Code::NameChanges, at, message, "put it in quotes");
        }
        let mut bytes = entry.key.bytes();
        let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
        let rest = bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'));
        if !(first && rest) {
            let message = format!("W&B may object to the name {}", quoted(&entry.key));
            let help =
                "a name has letters, digits, `_`, `.` and `-`, and starts with a letter or `_`";
            self.flaw(Code::NamePattern, at, message, help);
        }
    }

    fn parameter(&mut self, context: Context<'_>) -> Option<Parameter> {
        let Context { entry, pointer, .. } = context;
        let Kind::Mapping(entries) = &entry.value.kind else {
            self.bare_value(context);
            return None;
        };
        let is = self.what(context, entries)?;
        let (needed, allowed) = is.keys();
        let extra = self.other_keys(context, entries, is);
        let mut complete = true;
        for key in needed {
            if field(entries, key).is_none() {
                complete = false;
                let message = format!("{} needs `{key}:`", context.name());
                self.fault(Code::ParameterIncomplete, context.at(), message, "");
            }
        }
        debug_assert!(needed.iter().chain(allowed).all(|key| KEYS.contains(key)));
        let read = match is {
            Is::Constant => self.constant(pointer, field(entries, "value")?),
            Is::Categorical => {
                self.values(context, field(entries, "values")?).map(Parameter::Categorical)
            }
            Is::Weighted => self.weighted(context, entries),
            Is::Bounds | Is::IntUniform => self.integers(context, entries, is == Is::Bounds),
            Is::Real(base) => self.law(context, entries, base, false),
            Is::Quantized(base) => self.law(context, entries, base, true),
            Is::Group => {
                let below = join(pointer, "parameters");
                let group = field(entries, "parameters")?;
                self.group(group, &below, context.method, false).map(Parameter::Group)
            }
        };
        let parameter = read.filter(|_| complete && !extra)?;
        self.grid(context, &parameter).then_some(parameter)
    }

    /// A parameter that is no mapping.
    fn bare_value(&mut self, context: Context<'_>) {
        let Context { entry, pointer, .. } = context;
        let name = context.name();
        let place = if entry.value.is_null() { entry.place } else { entry.value.place };
        let (message, help) = match &entry.value.kind {
            Kind::Scalar(scalar) if entry.value.is_null() => {
                let help = if scalar.text.is_empty() { "" } else { "write `{value: null}`" };
                (
                    format!("{name} is empty and needs `value:`, `values:` or bounds"),
                    help.to_owned(),
                )
            }
            Kind::Scalar(scalar) => {
                let text = quoted(&scalar.text);
                let help = format!("write `{{value: {}}}`", text.trim_matches('`'));
                (format!("{name} is {text} and needs `value:`"), help)
            }
            _ => {
                let help = "write `{values: [...]}`".to_owned();
                (format!("{name} is a list and needs `values:`"), help)
            }
        };
        let help = misplaced(&entry.key).map_or(help, str::to_owned);
        self.fault(Code::ParameterKind, (pointer, place), message, &help);
    }

    /// What a parameter is; what is wrong if nobody can tell.
    fn what(&mut self, context: Context<'_>, entries: &[Entry]) -> Option<Is> {
        let has = |key| field(entries, key).is_some();
        if let Some(distribution) = field(entries, "distribution") {
            return self.distribution(context, distribution);
        }
        if has("value") {
            return Some(Is::Constant);
        }
        if has("values") {
            return Some(if has("probabilities") { Is::Weighted } else { Is::Categorical });
        }
        if has("min") || has("max") {
            return Some(Is::Bounds);
        }
        if has("parameters") {
            return Some(Is::Group);
        }
        let name = context.name();
        let all_mappings = !entries.is_empty()
            && entries.iter().all(|entry| matches!(entry.value.kind, Kind::Mapping(_)));
        let message = format!("{name} needs `value:`, `values:` or `min:` and `max:`");
        if all_mappings {
            let message = format!("{name} is a group and needs `parameters:` above its parameters");
            let help = format!("write `{}: {{parameters: {{...}}}}`", entry_name(context));
            self.fault(Code::ParameterKind, context.at(), message, &help);
        } else if has("mu") || has("sigma") {
            let help = "add `distribution: normal`, or another that has `mu` and `sigma`";
            self.fault(Code::ParameterKind, context.at(), message, help);
        } else if has("a") || has("b") {
            self.fault(Code::ParameterKind, context.at(), message, "add `distribution: beta`");
        } else if !self.unknown_keys(context, entries) {
            self.fault(Code::ParameterKind, context.at(), message, "");
        }
        None
    }

    fn distribution(&mut self, context: Context<'_>, field: Field<'_>) -> Option<Is> {
        let name = field.text().unwrap_or_default();
        if let Some(is) = Is::named(name) {
            return Some(is);
        }
        let pointer = join(context.pointer, "distribution");
        let message = match written(field.node) {
            "" => format!("`distribution` must be a name, and this is {}", kind(field.node)),
            name => format!("there is no distribution {}", quoted(name)),
        };
        let all = distributions();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        let lower = name.to_lowercase();
        let known = OTHER_NAMES.iter().find(|(other, _)| *other == lower).map(|(_, known)| *known);
        let help = match known.or_else(|| nearest(name, &all)) {
            Some(known) => format!("did you mean `{known}`?"),
            None => "use uniform, log_uniform_values, int_uniform or another of W&B's".to_owned(),
        };
        self.fault(Code::DistributionUnknown, (&pointer, field.place()), message, &help);
        None
    }

    /// Reports keys that are no key of any parameter: W&B refuses such a sweep.
    fn unknown_keys(&mut self, context: Context<'_>, entries: &[Entry]) -> bool {
        let mut found = false;
        for entry in entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
            found = true;
            let message = format!("{} is no key of a parameter", quoted(&entry.key));
            let help = match nearest(&entry.key, &KEYS) {
                Some(known) => format!("did you mean `{known}`?"),
                None => "remove it: W&B refuses such a parameter".to_owned(),
            };
            let pointer = join(context.pointer, &entry.key);
            self.fault(Code::ParameterKeys, (&pointer, entry.place), message, &help);
        }
        found
    }

    /// Reports keys that do not belong to the parameter's kind: W&B refuses such a sweep.
    fn other_keys(&mut self, context: Context<'_>, entries: &[Entry], is: Is) -> bool {
        let mut found = self.unknown_keys(context, entries);
        let (needed, allowed) = is.keys();
        let has = |key| field(entries, key).is_some();
        for entry in entries {
            let key = entry.key.as_str();
            if !KEYS.contains(&key) || needed.contains(&key) || allowed.contains(&key) {
                continue;
            }
            found = true;
            let distribution = field(entries, "distribution").and_then(Field::text);
            let beside = match (distribution, needed.first()) {
                (Some(name), _) => format!("distribution `{name}`"),
                (None, Some(first)) => format!("`{first}`"),
                (None, None) => "the other keys".to_owned(),
            };
            let message = format!("{}: {} does not go with {beside}", context.name(), quoted(key));
            let help = match (is, key) {
                (Is::Categorical, "probabilities") => {
                    "remove `distribution`: it follows from the other keys".to_owned()
                }
                (Is::Bounds, "q") => "add `distribution: q_uniform`".to_owned(),
                (Is::Real(base), "q") if base.has_q() => {
                    format!("use `distribution: q_{}`", base.name())
                }
                (Is::Real(base) | Is::Quantized(base), _) if base.bounds().is_empty() => {
                    let keys: Vec<&str> =
                        allowed.iter().copied().filter(|key| *key != "distribution").collect();
                    format!("it takes {}", keys.join(", "))
                }
                (Is::Group, _) if has("parameters") => "a group has no other key".to_owned(),
                _ => "remove one of them".to_owned(),
            };
            let pointer = join(context.pointer, key);
            self.fault(Code::ParameterKeys, (&pointer, entry.place), message, &help);
        }
        found
    }

    fn constant(&mut self, pointer: &str, field: Field<'_>) -> Option<Parameter> {
        let value = field.node.value()?;
        self.quoted_boolean(&join(pointer, "value"), field.node);
        Some(Parameter::Constant(value))
    }

    fn values(&mut self, context: Context<'_>, field: Field<'_>) -> Option<Vec<Value>> {
        let pointer = join(context.pointer, "values");
        let at = (pointer.as_str(), field.place());
        let name = context.name();
        let Kind::List(items) = &field.node.kind else {
            let message =
                format!("{name}: `values` must be a list, and this is {}", kind(field.node));
            let help = match written(field.node) {
                "" => String::new(),
                text if text.contains(',') => {
                    format!("write `[{}]`", quoted(text).trim_matches('`'))
                }
                _ => "use `value:` for a single value".to_owned(),
            };
            self.fault(Code::ValuesKind, at, message, &help);
            return None;
        };
        if items.is_empty() {
            let message = format!("{name}: `values` is empty");
            self.fault(Code::ValuesEmpty, at, message, "list at least one");
            return None;
        }
        for (index, item) in items.iter().enumerate() {
            self.quoted_boolean(&join(&pointer, &index.to_string()), item);
        }
        if items.len() == 1 {
            let message = format!("{name} has only one value to choose from");
            self.warn(Code::OneValue, at, message, "write `value:` if that is what you mean");
        }
        items.iter().map(Node::value).collect()
    }

    /// Text that a program will hardly take for the boolean it looks like.
    fn quoted_boolean(&mut self, pointer: &str, node: &Node) {
        let Some(scalar) = node.scalar().filter(|scalar| !scalar.plain) else { return };
        let Some(text) = scalar.as_text() else { return };
        if matches!(text.to_lowercase().as_str(), "true" | "false") {
            let message =
                format!("{} in quotes is text, which a program may take for true", quoted(text));
            let help = format!("without quotes it is a boolean: {}", text.to_lowercase());
            self.warn(Code::QuotedBoolean, (pointer, node.place), message, &help);
        }
    }

    fn weighted(&mut self, context: Context<'_>, entries: &[Entry]) -> Option<Parameter> {
        let values = field(entries, "values").and_then(|field| self.values(context, field));
        let field = field(entries, "probabilities")?;
        let pointer = join(context.pointer, "probabilities");
        let at = (pointer.as_str(), field.place());
        let name = context.name();
        let items = match &field.node.kind {
            Kind::List(items) if !items.is_empty() => items,
            Kind::List(_) => {
                self.fault(Code::ProbabilitiesKind, at, format!("{name}: no probabilities"), "");
                return None;
            }
            _ => {
                let message = format!(
                    "{name}: `probabilities` must be a list, and this is {}",
                    kind(field.node)
                );
                self.fault(Code::ProbabilitiesKind, at, message, "one for each value");
                return None;
            }
        };
        let mut probabilities = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match number(item).map(|number| number.float) {
                Some(probability) if probability >= 0.0 || probability.is_nan() => {
                    probabilities.push(probability);
                }
                _ => {
                    let what = match written(item) {
                        "" => kind(item).to_owned(),
                        text => quoted(text),
                    };
                    let message = format!("{name}: {what} is no probability");
                    let at = (join(&pointer, &index.to_string()), item.place);
                    self.fault(Code::ProbabilitiesKind, (&at.0, at.1), message, "");
                }
            }
        }
        if probabilities.len() < items.len() {
            return None;
        }
        let values = values?;
        if values.len() != probabilities.len() {
            let message = format!(
                "{name} has {} values and {} probabilities",
                values.len(),
                probabilities.len()
            );
            self.fault(Code::ProbabilitiesLength, at, message, "give one for each value");
            return None;
        }
        let sum: f64 = probabilities.iter().sum();
        // As numpy's `isclose` has it.
        if (sum - 1.0).abs() > 1e-8 + 1e-5 || sum.is_nan() {
            let message = format!("{name}: the probabilities add up to {}, not 1", float_text(sum));
            self.fault(Code::ProbabilitiesSum, at, message, "");
            return None;
        }
        if context.method == Some(Method::Bayes) {
            let message = format!("{name}: W&B's bayes may fail on probabilities");
            let help = "remove them: bayes learns which values are good";
            self.warn(Code::ProbabilitiesWithBayes, at, message, help);
        }
        Some(Parameter::Weighted { values, probabilities })
    }

    /// Whether the method can have the parameter: a grid needs points that can be counted.
    fn grid(&mut self, context: Context<'_>, parameter: &Parameter) -> bool {
        if context.method != Some(Method::Grid) || search::countable(parameter) {
            return true;
        }
        let name = context.name();
        let (code, message, help) = match parameter {
            Parameter::Weighted { .. } => (
                Code::GridProbabilities,
                format!("a grid has every value once, and {name} has probabilities"),
                "remove them, or use `method: random`",
            ),
            Parameter::Quantized { law: Law::Uniform { .. }, .. } => (
                Code::GridContinuous,
                format!("{name}: floats cannot tell so small steps apart"),
                "give a larger `q`",
            ),
            _ => (
                Code::GridContinuous,
                format!("grid needs countable values, and {name} is continuous"),
                "list `values:`, use integer bounds or q_uniform, or use `method: random`",
            ),
        };
        self.error(code, context.at(), message, help);
        false
    }

    /// Whether a node is what `value()` cannot have, and has been reported as a date.
    pub(super) fn is_date(node: &Node) -> bool {
        node.scalar().is_some_and(|scalar| matches!(scalar.meaning, Meaning::Date { .. }))
    }
}

fn entry_name(context: Context<'_>) -> String {
    quoted(&context.entry.key).trim_matches('`').to_owned()
}
