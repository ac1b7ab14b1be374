//! From a settings file's text to what it says, or to everything that is wrong with it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde_json::Value as Json;

use super::keys::{self, FLOORS, KEYS, Key, MORE, Takes};
use super::layer::{Found, Layer, Origin, Value, from_text};
use crate::launch::request::{self, Given, Source};
use crate::launch::secret;
use crate::sweep::Code;
use crate::sweep::problem::in_one_line;
use crate::sweep::problem::{nearest, quoted};
use crate::sweep::scalar::Meaning;
use crate::sweep::yaml::{self, Entry, Kind, Node, Place};

/// Keys of sweep files that people look for here.
const OF_SWEEP_FILES: [&str; 8] =
    ["method", "parameters", "metric", "program", "command", "run_cap", "name", "early_terminate"];

/// What a settings file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettingsFile {
    /// What holds under every profile.
    pub plain: Layer,
    /// What each profile adds.
    pub profiles: BTreeMap<String, Layer>,
    /// The profile that it chooses.
    pub profile: Option<(String, Origin)>,
    /// What the site demands; empty in every other file.
    pub floors: Layer,
}

/// Reads a settings file; `name` is its name for messages, `folder` where its relative paths begin.
///
/// # Errors
/// Everything wrong with it at once, in the file's order.
pub fn read(
    text: &[u8],
    name: &str,
    folder: &Path,
    is_site: bool,
) -> Result<SettingsFile, Vec<Mistake>> {
    let mut reader = Reader { name, folder, is_site, problems: Vec::new() };
    reader.secrets_in_lines(&String::from_utf8_lossy(text));
    let mut file = SettingsFile::default();
    match yaml::parse(text) {
        // A file of comments is one that says nothing.
        Err(fault) if fault.code == Code::Empty => {}
        Err(fault) => {
            let (message, help) = match fault.code {
                Code::SeveralDocuments => {
                    ("the file holds several documents".to_owned(), "remove the `---`".to_owned())
                }
                _ => (fault.message, fault.help.unwrap_or_default()),
            };
            reader.error(fault.code.name(), fault.place, message, &help);
        }
        Ok(document) => {
            for twice in &document.duplicates {
                let (first, last) = (twice.first.line, twice.last.line);
                let message =
                    format!("{} is given twice, in lines {first} and {last}", quoted(&twice.key));
                reader.error("duplicate-key", twice.last, message, "remove one of them");
            }
            if let Kind::Mapping(entries) = &document.root.kind {
                reader.secrets_in_keys(entries);
                reader.file(entries, &mut file);
            } else {
                let help = "a settings file has lines such as `jobs: 20`";
                let message = "the file is not a mapping of keys";
                reader.error("not-a-mapping", document.root.place, message, help);
            }
        }
    }
    let mut problems = reader.problems;
    problems.sort_by_key(|problem| (problem.place.line, problem.place.column));
    if problems.is_empty() { Ok(file) } else { Err(problems) }
}

/// One thing wrong with a settings file; shown as `FILE:LINE:COLUMN: what (what to do)`.
#[derive(Clone, Debug)]
pub struct Mistake {
    kind: &'static str,
    place: Place,
    text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Reader<'a> {
    name: &'a str,
    folder: &'a Path,
    is_site: bool,
    problems: Vec<Mistake>,
}

impl Reader<'_> {
    /// An empty `help` is none.
    fn error(
        &mut self,
        kind: &'static str,
        place: Place,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        let help = help.into();
        let help = Some(help.as_str()).filter(|help| !help.is_empty());
        let text = in_one_line(self.name, (place.line, place.column), &message.into(), help);
        self.problems.push(Mistake { kind, place, text });
    }

    fn origin(&self, place: Place) -> Origin {
        Origin::File(self.name.to_owned(), place.line)
    }

    /// Comments too: who can read the file can read them.
    fn secrets_in_lines(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            if secret::looks_like_key_literal(line) {
                let column = line.find("WANDB_API_KEY").or(line.find("wandb login"));
                let before = line.get(..column.unwrap_or_default()).unwrap_or_default();
                self.secret(Place { line: index + 1, column: before.chars().count() + 1 });
            }
        }
    }

    /// `WANDB_API_KEY: ...`, wherever it stands, and texts that are folded over lines.
    fn secrets_in_keys(&mut self, entries: &[Entry]) {
        for entry in entries {
            if let Kind::Scalar(scalar) = &entry.value.kind
                && entry.key == "WANDB_API_KEY"
                && secret::looks_like_key_literal(&format!("WANDB_API_KEY={}", scalar.text))
            {
                self.secret(entry.place);
            }
            self.secrets_in(&entry.value);
        }
    }

    fn secrets_in(&mut self, node: &Node) {
        match &node.kind {
            Kind::Scalar(scalar) if secret::looks_like_key_literal(&scalar.text) => {
                self.secret(node.place);
            }
            Kind::Scalar(_) => {}
            Kind::List(items) => items.iter().for_each(|item| self.secrets_in(item)),
            Kind::Mapping(entries) => self.secrets_in_keys(entries),
        }
    }

    fn secret(&mut self, place: Place) {
        let kind = "literal-key";
        if !self.problems.iter().any(|other| other.kind == kind && other.place.line == place.line) {
            let message = "a W&B API key is written out here, where others can read it";
            self.error(kind, place, message, secret::WAYS);
        }
    }

    fn file(&mut self, entries: &[Entry], file: &mut SettingsFile) {
        self.settings(entries, &mut file.plain, true);
        for entry in entries {
            match entry.key.as_str() {
                "profile" if entry.value.is_null() => {}
                "profile" => {
                    if let Some(Value::Text(name)) = self.value(Takes::Text, &entry.value) {
                        file.profile = Some((name, self.origin(entry.place)));
                    }
                }
                "profiles" => self.profiles(&entry.value, &mut file.profiles),
                name if self.is_site => {
                    if let Some(key) = FLOORS.iter().find(|key| key.name == name) {
                        self.floor(key, entry, &mut file.floors);
                    }
                }
                _ => {}
            }
        }
    }

    fn profiles(&mut self, node: &Node, profiles: &mut BTreeMap<String, Layer>) {
        let Kind::Mapping(entries) = &node.kind else {
            if !node.is_null() {
                let help = "write `profiles: {big: {jobs: 100}}`";
                self.error("value", node.place, "`profiles` takes a mapping of names", help);
            }
            return;
        };
        for entry in entries {
            let mut layer = Layer::default();
            match &entry.value.kind {
                Kind::Mapping(entries) => self.settings(entries, &mut layer, false),
                _ if entry.value.is_null() => {}
                _ => {
                    let message = format!("the profile {} is not a mapping", quoted(&entry.key));
                    self.error("value", entry.value.place, message, "");
                }
            }
            profiles.insert(entry.key.clone(), layer);
        }
    }

    fn floor(&mut self, key: &Key, entry: &Entry, floors: &mut Layer) {
        let value = self.value(key.takes, &entry.value);
        if let (Some(Value::Lines(names)), "require") = (&value, key.name) {
            for name in names {
                let given = request::by_name(name).map(|known| Given {
                    name: known.long.to_owned(),
                    value: None,
                    source: Source::CommandLine,
                });
                if given.is_none_or(|given| request::check(&given).is_err()) {
                    let message = format!("{} is not an option that jobs can have", quoted(name));
                    let help =
                        nearest(name, &option_names()).map(|near| format!("is it `{near}`?"));
                    let place = entry.value.place;
                    self.error("unknown-option", place, message, help.unwrap_or_default());
                }
            }
        }
        floors.set(key.name, value, self.origin(entry.place));
    }

    /// The settings of a whole file or of a profile.
    fn settings(&mut self, entries: &[Entry], layer: &mut Layer, is_file: bool) {
        for entry in entries {
            match entry.key.as_str() {
                "slurm" => self.options(&entry.value, layer),
                // Behind those of `slurm`, wherever they stand.
                "sbatch" => {}
                "profile" | "profiles" if is_file => {}
                name => match keys::find(name) {
                    Some(key) => self.setting(key, entry, layer),
                    None if self.is_site && is_file && is_floor(name) => {}
                    None => self.unknown(entry, is_file),
                },
            }
        }
        if let Some(entry) = entries.iter().find(|entry| entry.key == "sbatch")
            && let Some(Value::Lines(words)) = self.value(Takes::Lines, &entry.value)
        {
            match request::read(&words) {
                Ok(given) => layer.options.extend(given.into_iter().map(|given| Given {
                    source: Source::Settings(format!("{}:{}", self.name, entry.place.line)),
                    ..given
                })),
                Err(error) => {
                    self.error("option", entry.value.place, error.to_string(), "");
                }
            }
        }
    }

    fn unknown(&mut self, entry: &Entry, is_file: bool) {
        let name = entry.key.as_str();
        let message = format!("there is no key {}", quoted(name));
        let help = if request::by_name(name).is_some() {
            "options of sbatch stand under `slurm:`".to_owned()
        } else if is_floor(name) {
            let own = name.replace('_', "-");
            match keys::find(&own) {
                Some(_) => format!("yours is `{own}`; `{name}` is for the site's own file"),
                None => "it is for the site's own file".to_owned(),
            }
        } else if OF_SWEEP_FILES.contains(&name) {
            "it belongs into the sweep file".to_owned()
        } else if matches!(name, "profile" | "profiles") {
            "a profile has no profiles of its own".to_owned()
        } else {
            let more = MORE.iter().map(|(name, _)| *name).take(if is_file { 4 } else { 2 });
            let floors = FLOORS.iter().map(|key| key.name).filter(|_| self.is_site && is_file);
            let known: Vec<&str> =
                KEYS.iter().map(|key| key.name).chain(more).chain(floors).collect();
            match nearest(name, &known) {
                Some(near) => format!("is it `{near}`?"),
                None => "most keys are named like the flags of `submit`".to_owned(),
            }
        };
        self.error("unknown-key", entry.place, message, help);
    }

    fn setting(&mut self, key: &Key, entry: &Entry, layer: &mut Layer) {
        let origin = self.origin(entry.place);
        if entry.value.is_null() {
            layer.set(key.name, Some(Value::Unset), origin);
            return;
        }
        match (key.takes, &entry.value.kind) {
            (Takes::Variables, Kind::Mapping(entries)) => {
                for entry in entries {
                    if !is_variable(&entry.key) {
                        let message = format!("{} is not a variable's name", quoted(&entry.key));
                        self.error("value", entry.place, message, "");
                    }
                    let value = match entry.value.is_null() {
                        true => Some(Value::Unset),
                        // An empty variable is one that is set.
                        false => match &entry.value.kind {
                            Kind::Scalar(scalar) => Some(Value::Text(scalar.text.clone())),
                            _ => self.value(Takes::Text, &entry.value),
                        },
                    };
                    let name = format!("{}.{}", key.name, entry.key);
                    layer.set(&name, value, self.origin(entry.place));
                }
            }
            (Takes::Parts(parts), Kind::Mapping(entries)) => {
                for entry in entries {
                    let Some(part) = parts.iter().find(|part| part.name == entry.key) else {
                        let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
                        let message = format!("`{}` has no key {}", key.name, quoted(&entry.key));
                        let help = match nearest(&entry.key, &names) {
                            Some(near) => format!("is it `{near}`?"),
                            None => format!("it has `{}`", names.join("`, `")),
                        };
                        self.error("unknown-key", entry.place, message, help);
                        continue;
                    };
                    let value = match entry.value.is_null() {
                        true => Some(Value::Unset),
                        false => self.value(part.takes, &entry.value),
                    };
                    let name = format!("{}.{}", key.name, part.name);
                    layer.set(&name, value, self.origin(entry.place));
                }
            }
            (takes, _) => {
                let value = self.value(takes, &entry.value);
                layer.set(key.name, value, origin);
            }
        }
    }

    /// A value as what its key takes; what it is not is said.
    fn value(&mut self, takes: Takes, node: &Node) -> Option<Value> {
        let scalar = |node: &Node| match &node.kind {
            Kind::Scalar(scalar) => Some(scalar.clone()),
            _ => None,
        };
        if takes == Takes::Lines
            && let Kind::List(items) = &node.kind
        {
            let texts: Option<Vec<String>> =
                items.iter().map(|item| scalar(item).map(|scalar| scalar.text)).collect();
            if let Some(lines) = texts {
                // A block ends with a line's end.
                let lines = lines.iter().map(|line| line.trim_end_matches('\n').to_owned());
                return Some(Value::Lines(lines.collect()));
            }
            self.error("value", node.place, "each item has to be a text", "");
            return None;
        }
        let read = match scalar(node) {
            Some(scalar) => {
                // As written: `1:30` is a text here, and no number to the base 60.
                let quoted_switch = takes == Takes::Switch
                    && !matches!(scalar.meaning, Meaning::Value(Json::Bool(_)));
                if quoted_switch {
                    Err("true or false".to_owned())
                } else {
                    from_text(takes, &scalar.text)
                }
            }
            None => Err(match takes {
                Takes::Variables | Takes::Parts(_) => "a mapping".to_owned(),
                Takes::Lines => "a list of texts".to_owned(),
                _ => "a single value".to_owned(),
            }),
        };
        match (read, takes) {
            (Ok(Value::Text(path)), Takes::Path) => Some(Value::Text(self.path(&path))),
            (Ok(Value::Text(image)), Takes::Image) => {
                let is_file =
                    !image.starts_with(['/', '~', '$']) && self.folder.join(&image).exists();
                Some(Value::Text(if is_file { self.path(&image) } else { image }))
            }
            (Ok(value), _) => Some(value),
            (Err(want), _) => {
                let written = match &node.kind {
                    Kind::Scalar(scalar) => quoted(&scalar.text),
                    Kind::List(_) => "a list".to_owned(),
                    Kind::Mapping(_) => "a mapping".to_owned(),
                };
                self.error("value", node.place, format!("{written} is not {want}"), "");
                None
            }
        }
    }

    fn path(&self, path: &str) -> String {
        if path.starts_with(['/', '~', '$']) {
            return path.to_owned();
        }
        // `./x` of a file beside us is `x`.
        self.folder.join(path.trim_start_matches("./")).to_string_lossy().into_owned()
    }

    fn options(&mut self, node: &Node, layer: &mut Layer) {
        let Kind::Mapping(entries) = &node.kind else {
            if !node.is_null() {
                let help = "write `slurm: {partition: gpu}`";
                self.error(
                    "value",
                    node.place,
                    "`slurm` takes a mapping of sbatch's options",
                    help,
                );
            }
            return;
        };
        for entry in entries {
            self.option(entry, layer);
        }
    }

    fn option(&mut self, entry: &Entry, layer: &mut Layer) {
        let name = entry.key.as_str();
        let Some(known) = request::by_name(name) else {
            let (message, help) = if keys::find(name).is_some() {
                (
                    format!("{} is not an option of sbatch's jobs", quoted(name)),
                    format!("`{name}` stands beside `slurm:`, not under it"),
                )
            } else {
                let help = match nearest(name, &option_names()) {
                    Some(near) => format!("is it `{near}`?"),
                    None => {
                        "one that this version does not know goes into `sbatch: [--NAME=VALUE]`"
                            .to_owned()
                    }
                };
                (format!("sbatch has no option {}", quoted(name)), help)
            };
            self.error("unknown-option", entry.place, message, help);
            return;
        };
        let value = match self.option_value(known, &entry.value) {
            Ok(Some(value)) => value,
            Ok(None) => {
                layer.dropped.push(known.long.to_owned());
                return;
            }
            Err(want) => {
                let message = format!("`{name}` takes {want}");
                self.error("option-value", entry.value.place, message, "");
                return;
            }
        };
        let source = Source::Settings(format!("{}:{}", self.name, entry.place.line));
        let given = Given { name: known.long.to_owned(), value, source };
        if let Err(error) = request::check(&given) {
            let help = match keys::find(known.long) {
                Some(_) => format!("`{}` of ours stands beside `slurm:`", known.long),
                None => String::new(),
            };
            self.error("refused-option", entry.place, error.to_string(), help);
        } else if !request::is_readable(&given) {
            let message = format!("`{}` cannot be read", given.word());
            self.error("option-value", entry.value.place, message, "write it as sbatch has it");
        } else {
            layer.options.push(given);
        }
    }

    /// The value of an option, none within if it takes none; `None` if it is not to be given. Else what it takes.
    fn option_value(
        &self,
        known: &request::Known,
        node: &Node,
    ) -> Result<Option<Option<String>>, &'static str> {
        if node.is_null() {
            return Ok(None);
        }
        let text = match &node.kind {
            Kind::Scalar(scalar) => match (&scalar.meaning, known.takes) {
                (
                    Meaning::Value(Json::Bool(false)),
                    request::Takes::Nothing | request::Takes::Maybe,
                ) => {
                    return Ok(None);
                }
                (
                    Meaning::Value(Json::Bool(true)),
                    request::Takes::Nothing | request::Takes::Maybe,
                ) => {
                    return Ok(Some(None));
                }
                (_, request::Takes::Nothing) => return Err("true or false"),
                // sbatch's own words for it.
                (Meaning::Value(Json::Bool(_)), _) if !matches!(&*scalar.text, "yes" | "no") => {
                    return Err("a value, not true or false");
                }
                // As written: YAML would make 7200 of `2:00:00`.
                _ => scalar.text.clone(),
            },
            Kind::List(items) if LISTS.contains(&known.long) => {
                let texts: Option<Vec<&str>> = items
                    .iter()
                    .map(|item| match &item.kind {
                        Kind::Scalar(scalar) => Some(scalar.text.as_str()),
                        _ => None,
                    })
                    .collect();
                texts.ok_or("a list of texts")?.join(",")
            }
            _ => return Err("a single value"),
        };
        if text.is_empty() || text.contains(['\n', '\r']) {
            return Err("a text of one line");
        }
        Ok(Some(Some(text)))
    }
}

/// Options whose values are lists with commas.
const LISTS: [&str; 16] = [
    "acctg-freq",
    "dependency",
    "exclude",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "gres-flags",
    "licenses",
    "mail-type",
    "nodelist",
    "partition",
    "profile",
    "propagate",
    "reservation",
];

fn option_names() -> Vec<&'static str> {
    request::KNOWN.iter().map(|known| known.long).collect()
}

fn is_floor(name: &str) -> bool {
    FLOORS.iter().any(|key| key.name == name)
}

/// Whether a text can be the name of a variable.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    let start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(start) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl Layer {
    /// A value by its key, as this layer has it.
    #[must_use]
    pub fn find(&self, key: &str) -> Option<&Found> {
        self.values.iter().rev().find(|(name, _)| name == key).map(|(_, found)| found)
    }
}
