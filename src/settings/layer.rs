//! What one source says, and what all of them come to.

use std::collections::BTreeMap;
use std::fmt;

use super::keys::{self, Key, Takes};
use crate::launch::request::{self, Given};

/// Where a setting comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// A settings file: its name for messages, and the line.
    File(String, usize),
    /// A variable of the shell.
    Variable(&'static str),
    /// The command line.
    Flag,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(file, line) => write!(f, "{file}:{line}"),
            Self::Variable(name) => f.write_str(name),
            Self::Flag => f.write_str("flag"),
        }
    }
}

/// A setting's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// What farther sources say does not hold: `null`.
    Unset,
    /// A whole number.
    Count(u32),
    /// A number.
    Amount(f64),
    /// A switch.
    Switch(bool),
    /// A text.
    Text(String),
    /// Several of them.
    Lines(Vec<String>),
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The value.
    pub value: Value,
    /// Who says so.
    pub origin: Origin,
}

/// What one source says, each thing under its key; parts of mappings as `container.image`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// sbatch's options.
    pub options: Vec<Given>,
    /// Names of options that farther sources give and this one takes back.
    pub dropped: Vec<String>,
    /// Everything else.
    pub values: Vec<(String, Found)>,
}

impl Layer {
    /// Adds a value if there is one.
    pub fn set(&mut self, key: &str, value: Option<Value>, origin: Origin) {
        if let Some(value) = value {
            self.values.push((key.to_owned(), Found { value, origin }));
        }
    }
}

/// What all sources say together, the nearest one winning.
#[derive(Clone, Debug, Default)]
pub struct Effective {
    /// sbatch's options.
    pub options: Vec<Given>,
    /// Everything else that somebody said.
    pub values: BTreeMap<String, Found>,
}

impl Effective {
    /// Puts layers over each other, the farthest first.
    #[must_use]
    pub fn of(farthest_first: Vec<Layer>) -> Self {
        let mut all = Self::default();
        for nearer in farthest_first {
            let kept = all.options.into_iter().filter(|far| !nearer.dropped.contains(&far.name));
            all.options = request::merge(vec![kept.collect(), nearer.options]);
            for (key, found) in nearer.values {
                if found.value == Value::Unset {
                    let inside = format!("{key}.");
                    all.values.retain(|other, _| *other != key && !other.starts_with(&inside));
                } else {
                    all.values.insert(key, found);
                }
            }
        }
        all
    }

    /// A key's value, its default included.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Found> {
        self.values.get(key).cloned().or_else(|| default(keys::find(key)?))
    }

    pub(super) fn count(&self, key: &str) -> Option<u32> {
        match self.get(key)?.value {
            Value::Count(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn amount(&self, key: &str) -> Option<f64> {
        match self.get(key)?.value {
            Value::Amount(number) => Some(number),
            _ => None,
        }
    }

    pub(super) fn switch(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Value::Switch(on) => Some(on),
            _ => None,
        }
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.get(key)?.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn lines(&self, key: &str) -> Vec<String> {
        match self.get(key).map(|found| found.value) {
            Some(Value::Lines(lines)) => lines,
            _ => Vec::new(),
        }
    }

    /// The parts of a mapping, without its own name in front.
    pub(super) fn parts(&self, key: &str) -> impl Iterator<Item = (&str, &Found)> {
        let inside = format!("{key}.");
        self.values.iter().filter_map(move |(name, found)| {
            let part = name.strip_prefix(&inside)?;
            Some((part, found))
        })
    }
}

fn default(key: &Key) -> Option<Found> {
    let value = from_text(key.takes, key.default?).ok()?;
    Some(Found { value, origin: Origin::Default })
}

/// A text as what a key takes, or what it should have been.
pub(super) fn from_text(takes: Takes, text: &str) -> Result<Value, String> {
    match takes {
        Takes::Count(least) => {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse()
                .ok()
                .filter(|number| digits && *number >= least)
                .map(Value::Count)
                .ok_or_else(|| format!("a whole number, at least {least}"))
        }
        Takes::Amount => text
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite() && *number > 0.0)
            .map(Value::Amount)
            .ok_or_else(|| "a number above 0".to_owned()),
        Takes::Switch => match text.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Ok(Value::Switch(true)),
            "false" | "no" | "off" | "0" => Ok(Value::Switch(false)),
            _ => Err("true or false".to_owned()),
        },
        Takes::Text | Takes::Path | Takes::Image if text.is_empty() => Err("a text".to_owned()),
        Takes::Text | Takes::Path | Takes::Image => Ok(Value::Text(text.to_owned())),
        Takes::OneOf(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
        Takes::OneOf([one]) => Err(format!("`{one}`")),
        Takes::OneOf(words) => Err(format!("one of `{}`", words.join("`, `"))),
        Takes::Lines => Ok(Value::Lines(vec![text.trim_end_matches('\n').to_owned()])),
        Takes::Variables | Takes::Parts(_) => Err("a mapping".to_owned()),
    }
}

/// What `SWEEPCTL_*` variables say, and what is wrong with them.
pub fn from_variables(
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Layer, Vec<String>> {
    let (mut layer, mut wrong) = (Layer::default(), Vec::new());
    let mut variables: Vec<_> = variables.filter(|(_, value)| !value.is_empty()).collect();
    variables.sort();
    for (name, text) in variables {
        let of_name = |key: &&Key| key.variable == Some(name.as_str());
        let Some(key) = keys::KEYS.iter().find(of_name) else { continue };
        let Some(variable) = key.variable else { continue };
        match from_text(key.takes, &text) {
            Ok(value) => layer.set(key.name, Some(value), Origin::Variable(variable)),
            Err(want) => wrong.push(format!("{variable}: `{text}` is not {want}")),
        }
    }
    if wrong.is_empty() { Ok(layer) } else { Err(wrong) }
}
