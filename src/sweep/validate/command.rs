//! `command` and `program`: what a run starts.

use super::{Field, Validator, field, is_swept, kind, written};
use crate::sweep::code::Code;
use crate::sweep::command::{ARGS_MACROS, DEFAULT_COMMAND, MACROS, macro_name, replace_envvars};
use crate::sweep::model::SweepSpec;
use crate::sweep::problem::{nearest, quoted};
use crate::sweep::python::python_text;
use crate::sweep::scalar::Meaning;
use crate::sweep::yaml::{self, Entry, Kind, Node, join};

const OPEN: &str = "${envvar:";

impl Validator<'_> {
    pub(super) fn command(&mut self, field: Option<Field<'_>>) -> Option<Vec<String>> {
        let field = field?;
        let at = ("/command", field.place());
        if field.node.is_null() {
            let message = "`command` is empty, so W&B's usual command is used";
            self.flaw(Code::EmptyKey, at, message, "remove it");
            return None;
        }
        let Kind::List(items) = &field.node.kind else {
            let message = format!("`command` must be a list, and this is {}", kind(field.node));
            let help =
                "one item for each argument: `[\"${env}\", python, \"${program}\", \"${args}\"]`";
            self.fault(Code::CommandKind, at, message, help);
            return None;
        };
        Some(items.iter().map(item_text).collect())
    }

    pub(super) fn program(&mut self, entries: &[Entry], spec: &SweepSpec) {
        let at = field(entries, "program");
        let command = spec.command.as_deref().filter(|command| !command.is_empty());
        let needed = command.is_none_or(|items| items.iter().any(|item| item == "${program}"));
        let Some(program) = spec.program.as_deref().filter(|program| !program.is_empty()) else {
            // A faulty `program` or `command` has been reported already.
            let faulty = self.problems.iter().any(|problem| {
                matches!(problem.code, Code::TextWanted | Code::CommandKind)
                    && matches!(problem.pointer.as_str(), "/program" | "/command")
            });
            if needed && !faulty {
                let place = at.map(|at| at.key).or(field(entries, "command").map(|f| f.key));
                let message = match command {
                    Some(_) => "`command` uses `${program}`, but there is no `program`",
                    None => "there is neither a `program` nor a `command`",
                };
                let at = ("/program", place.unwrap_or(yaml::START));
                self.error(Code::ProgramMissing, at, message, "add `program: train.py`");
            }
            return;
        };
        let at = ("/program", at.map_or(yaml::START, |at| at.place()));
        if program.contains(char::is_whitespace) {
            let message = format!("{} holds blanks and is taken as one file name", quoted(program));
            let help = "put arguments into `command` as items of their own";
            self.warn(Code::ProgramBlanks, at, message, help);
        } else if needed && is_a_file_name(program, command) && !(self.around.has_file)(program) {
            let message = format!("there is no file {} here", quoted(program));
            let help = "runs start in the folder where you submit, or in --chdir";
            self.warn(Code::ProgramNotFound, at, message, help);
        }
    }

    pub(super) fn macros(&mut self, entries: &[Entry], spec: &SweepSpec) {
        let Some(at) = field(entries, "command") else { return };
        let Kind::List(items) = &at.node.kind else { return };
        if items.is_empty() {
            return;
        }
        let mut hands_over = false;
        for (index, node) in items.iter().enumerate() {
            let pointer = join("/command", &index.to_string());
            let item = replace_envvars(written(node), &|_| None);
            hands_over |= macro_name(&item).is_some_and(|name| ARGS_MACROS.contains(&name));
            self.item((&pointer, node.place), &item);
        }
        if spec.parameters.values().any(is_swept) && !hands_over {
            let message = "no item of `command` hands over the parameters: only `wandb.config` will have them";
            let [.., args] = DEFAULT_COMMAND;
            self.warn(
                Code::NoArgsMacro,
                ("/command", at.key),
                message,
                &format!("add `\"{args}\"`"),
            );
        }
    }

    /// What an item does not do, after its environment variables are filled in.
    fn item(&mut self, at: (&str, yaml::Place), item: &str) {
        // What is left of these is not replaced.
        if let Some((_, rest)) = item.split_once(OPEN) {
            let name = rest.split('}').next().unwrap_or_default();
            let vanishes = if macro_name(item).is_some() { ": the item vanishes" } else { "" };
            let message =
                format!("{} is not replaced{vanishes}", quoted(&format!("{OPEN}{name}}}")));
            let help = "only names in capitals, digits and `_` are";
            self.warn(Code::EnvvarLowerCase, at, message, help);
            return;
        }
        let inside = MACROS.iter().find(|name| item.contains(&format!("${{{name}}}")));
        match (macro_name(item), inside) {
            (Some(name), _) if MACROS.contains(&name) => {}
            (Some(_), Some(_)) => {
                let message = format!(
                    "{} starts and ends like one macro, which there is not: it vanishes",
                    quoted(item)
                );
                self.warn(Code::MacroInsideItem, at, message, "make each macro an item of its own");
            }
            (Some(name), None) => {
                let message = format!("there is no macro {}: it vanishes", quoted(item));
                let help = nearest(name, &MACROS)
                    .map(|known| format!("did you mean `${{{known}}}`?"))
                    .unwrap_or_default();
                self.warn(Code::UnknownMacro, at, message, &help);
            }
            (None, Some(name)) => {
                let message = format!("`${{{name}}}` is not replaced inside a longer item");
                self.warn(Code::MacroInsideItem, at, message, "make it an item of its own");
            }
            (None, None) => {}
        }
    }
}

/// W&B's agent turns other kinds into text the Python way; what it reads as text stays as written.
fn item_text(item: &Node) -> String {
    if let Some(text) = item.scalar().and_then(|scalar| scalar.as_text()) {
        return text.to_owned();
    }
    match item.value() {
        Some(value) => python_text(&value),
        None => match item.scalar().map(|scalar| &scalar.meaning) {
            Some(Meaning::Date { repr, .. }) => repr.clone(),
            _ => String::new(),
        },
    }
}

/// Whether a program is looked for here: not a module's name, nor a command of the PATH.
fn is_a_file_name(program: &str, command: Option<&[String]>) -> bool {
    let before = command.and_then(|items| {
        let at = items.iter().position(|item| item == "${program}")?;
        items.get(at.checked_sub(1)?)
    });
    let is_module = before.is_some_and(|item| matches!(item.as_str(), "-m" | "--module"));
    let is_interpreted = command.is_none() || before.is_some_and(|item| item == "${interpreter}");
    let has_suffix = [".py", ".sh", ".R", ".jl", ".pl"].iter().any(|end| program.ends_with(end));
    !is_module && (is_interpreted || has_suffix || program.contains('/'))
}
