//! The effective settings as a settings file.

use super::keys::{KEYS, Takes};
use super::layer::{Found, Value};
use super::{Origin, Sources};
use crate::launch::request::{self, Given, Source};
use crate::sweep::push_yaml_text;

/// The settings as YAML that reads back as the same; with `origins`, each line says where it comes from.
#[must_use]
pub fn show(sources: &Sources, origins: bool) -> String {
    let mut lines: Vec<(String, Option<String>)> = Vec::new();
    if let Some(profile) = &sources.profile {
        lines.push((format!("# with the profile {}", text(profile)), None));
    }
    let all = &sources.effective;
    for key in KEYS {
        if matches!(key.takes, Takes::Variables | Takes::Parts(_)) {
            let mut parts = all.parts(key.name).peekable();
            if parts.peek().is_some() {
                lines.push((format!("{}:", key.name), None));
            }
            for (part, found) in parts {
                setting(&mut lines, "  ", part, found);
            }
        } else if let Some(found) = all.get(key.name) {
            setting(&mut lines, "", key.name, &found);
        }
    }
    let (known, other): (Vec<&Given>, Vec<&Given>) =
        all.options.iter().partition(|given| request::by_name(&given.name).is_some());
    if !known.is_empty() {
        lines.push(("slurm:".to_owned(), None));
    }
    for (index, given) in known.iter().enumerate() {
        // The last one wins.
        if known.iter().skip(index + 1).any(|later| later.name == given.name) {
            continue;
        }
        let value = given.value.as_deref().map_or_else(|| "true".to_owned(), text);
        lines.push((format!("  {}: {value}", given.name), Some(of_option(given))));
    }
    if !other.is_empty() {
        lines.push(("sbatch:".to_owned(), None));
    }
    for given in other {
        lines.push((format!("  - {}", text(&given.word())), Some(of_option(given))));
    }
    if !sources.floors.values.is_empty() {
        lines.push(("# what the site demands:".to_owned(), None));
        for (name, found) in &sources.floors.values {
            setting(&mut lines, "#   ", name, found);
        }
    }
    let width =
        lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default().min(40);
    let line = |(line, origin): (String, Option<String>)| match origin.filter(|_| origins) {
        Some(origin) => format!("{line:width$}  # {origin}\n"),
        None => format!("{line}\n"),
    };
    lines.into_iter().map(line).collect()
}

fn of_option(given: &Given) -> String {
    match &given.source {
        Source::CommandLine => Origin::Flag.to_string(),
        Source::Variable(name) => (*name).to_owned(),
        Source::Settings(place) => place.clone(),
    }
}

fn setting(lines: &mut Vec<(String, Option<String>)>, indent: &str, name: &str, found: &Found) {
    let value = match &found.value {
        Value::Unset => "null".to_owned(),
        Value::Count(number) => number.to_string(),
        Value::Amount(number) => number.to_string(),
        Value::Switch(on) => on.to_string(),
        Value::Text(value) => text(value),
        Value::Lines(values) => {
            format!("[{}]", values.iter().map(|value| text(value)).collect::<Vec<_>>().join(", "))
        }
    };
    lines.push((format!("{indent}{name}: {value}"), Some(found.origin.to_string())));
}

/// A text as YAML reads it back, also within a list.
pub(super) fn text(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+@%=:".contains(c);
    let is_plain = value.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '.')
        && value.chars().all(plain)
        && !value.ends_with(':');
    // Words that would be no text.
    let switch = ["yes", "no", "on", "off", "true", "false", "null", "y", "n"];
    if is_plain && !switch.contains(&value.to_ascii_lowercase().as_str()) {
        return value.to_owned();
    }
    let mut quoted = String::new();
    push_yaml_text(value, &mut quoted);
    quoted
}
