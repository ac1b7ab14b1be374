//! What W&B's own client makes of a file: what it reads, whether it sends it, and what it changes.

use serde_json::{Map, Value, json};

use super::scalar::Meaning;
use super::special;
use super::yaml::{Entry, Kind, Node, Place, Scalar, join};

impl Scalar {
    /// The value as PyYAML reads it, and Python's name of its type.
    pub(super) fn python(&self) -> (Value, &'static str) {
        match &self.meaning {
            Meaning::Value(value) => (value.clone(), kind(value)),
            Meaning::Scientific(_) => (Value::from(self.text.as_str()), "str"),
            Meaning::Date { repr, kind } => (Value::from(repr.as_str()), kind),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "NoneType",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        value => match special::text(value) {
            Some(number) if special::is_whole(number) => "int",
            Some(_) => "float",
            None => "str",
        },
    }
}

/// The tree as PyYAML reads it, and the type of each value in it by JSON pointer.
///
/// `#key` at a pointer's end marks a key that is not text.
pub(super) fn parsed(root: &Node) -> (Value, Map<String, Value>) {
    let mut types = Map::new();
    let value = parse(root, "", &mut types);
    (value, types)
}

fn parse(node: &Node, pointer: &str, types: &mut Map<String, Value>) -> Value {
    let is = match &node.kind {
        Kind::Scalar(scalar) => {
            let (value, kind) = scalar.python();
            types.insert(pointer.to_owned(), kind.into());
            return value;
        }
        Kind::List(items) if !items.is_empty() => {
            let item = |(index, item)| parse(item, &format!("{pointer}/{index}"), types);
            return items.iter().enumerate().map(item).collect();
        }
        Kind::Mapping(entries) if !entries.is_empty() => {
            let mut map = Map::new();
            for entry in entries {
                let (key, kind) = &entry.python;
                let below = join(pointer, key);
                if *kind != "str" {
                    types.insert(format!("{below}#key"), (*kind).into());
                }
                map.insert(key.clone(), parse(&entry.value, &below, types));
            }
            return Value::Object(map);
        }
        Kind::List(_) => ("list(empty)", json!([])),
        Kind::Mapping(_) => ("dict(empty)", json!({})),
    };
    types.insert(pointer.to_owned(), is.0.into());
    is.1
}

/// Every date in the tree, keys included: W&B's client cannot send them.
pub(super) fn dates(root: &Node) -> Vec<(String, Place, String)> {
    let mut found = Vec::new();
    if has_date(root) {
        look_for_dates(root, "", &mut found);
    }
    found
}

/// The quick answer, as hardly any file has one.
fn has_date(node: &Node) -> bool {
    match &node.kind {
        Kind::Scalar(scalar) => matches!(scalar.meaning, Meaning::Date { .. }),
        Kind::List(items) => items.iter().any(has_date),
        Kind::Mapping(entries) => {
            let is_one =
                |entry: &Entry| entry.python.1.starts_with("date") || has_date(&entry.value);
            entries.iter().any(is_one)
        }
    }
}

fn look_for_dates(node: &Node, pointer: &str, found: &mut Vec<(String, Place, String)>) {
    match &node.kind {
        Kind::Scalar(Scalar { meaning: Meaning::Date { .. }, text, .. }) => {
            found.push((pointer.to_owned(), node.place, text.clone()));
        }
        Kind::Scalar(_) => {}
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                look_for_dates(item, &format!("{pointer}/{index}"), found);
            }
        }
        Kind::Mapping(entries) => {
            for entry in entries {
                let below = join(pointer, &entry.key);
                if entry.python.1.starts_with("date") {
                    found.push((below.clone(), entry.place, entry.key.clone()));
                }
                look_for_dates(&entry.value, &below, found);
            }
        }
    }
}

/// Whether W&B's client gets through its own checks, and the distributions that it fills in.
///
/// Its code asks `"min" in parameter` of whatever a parameter is, which fails for numbers, and
/// for text and lists that happen to hold both words.
pub(super) fn filled_in(root: &Node) -> Option<Vec<(String, &'static str)>> {
    let Kind::Mapping(entries) = &root.kind else { return None };
    let Some(parameters) = find(entries, "parameters") else { return Some(Vec::new()) };
    let parameters = match &parameters.kind {
        Kind::Mapping(parameters) => parameters,
        Kind::List(items) => return items.is_empty().then(Vec::new),
        Kind::Scalar(scalar) => return (scalar.as_text() == Some("")).then(Vec::new),
    };
    let mut filled = Vec::new();
    for parameter in parameters {
        let has_both = match &parameter.value.kind {
            Kind::Mapping(entries) => {
                if let (Some(min), Some(max), None) =
                    (find(entries, "min"), find(entries, "max"), find(entries, "distribution"))
                {
                    filled.push((join("/parameters", &parameter.key), inferred(min, max)?));
                }
                false
            }
            Kind::List(items) => {
                let holds = |word| items.iter().any(|item| is_text(item, word));
                holds("min") && holds("max") && !holds("distribution")
            }
            Kind::Scalar(scalar) => {
                let text = scalar.as_text()?;
                text.contains("min") && text.contains("max") && !text.contains("distribution")
            }
        };
        if has_both {
            return None;
        }
    }
    Some(filled)
}

fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Node> {
    entries
        .iter()
        .find(|entry| entry.key == key && entry.python.1 == "str")
        .map(|entry| &entry.value)
}

fn is_text(node: &Node, text: &str) -> bool {
    node.scalar().and_then(Scalar::as_text) == Some(text)
}

/// A boolean is an integer for Python.
fn inferred(min: &Node, max: &Node) -> Option<&'static str> {
    let kind = |node: &Node| node.scalar().map(|scalar| scalar.python().1);
    match (kind(min)?, kind(max)?) {
        ("int" | "bool", "int" | "bool") => Some("int_uniform"),
        ("float", "float") => Some("uniform"),
        _ => None,
    }
}

/// The types in what the client sends that differ from those in the file, as `[before, after]`.
pub(super) fn changed_on_the_way(root: &Node, filled: &[(String, &str)]) -> Map<String, Value> {
    let (_, before) = parsed(root);
    let mut after = Map::new();
    sent(root, "", &mut after);
    for (pointer, _) in filled {
        after.insert(join(pointer, "distribution"), "str".into());
    }
    after.retain(|pointer, kind| before.get(pointer) != Some(kind));
    let pair =
        |pointer: &String, kind: &Value| (pointer.clone(), json!([before.get(pointer), kind]));
    let mut changed: Map<String, Value> = after.iter().map(|(p, kind)| pair(p, kind)).collect();
    changed.sort_keys();
    changed
}

/// The types of what is sent: every key is text.
fn sent(node: &Node, pointer: &str, types: &mut Map<String, Value>) {
    match &node.kind {
        Kind::Mapping(entries) if !entries.is_empty() => {
            for entry in entries {
                sent(&entry.value, &join(pointer, &entry.key), types);
            }
        }
        Kind::List(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                sent(item, &format!("{pointer}/{index}"), types);
            }
        }
        _ => {
            parse(node, pointer, types);
        }
    }
}
