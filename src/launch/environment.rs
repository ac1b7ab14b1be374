//! The set-up lines that flags stand for: modules, conda, a venv, exported variables, scratch folders.

use super::quote;

/// What a job's shell is to be given before the agent starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// Variables to export, `NAME=VALUE`.
    pub exports: Vec<String>,
    /// A file of `NAME=VALUE` lines, as a shell reads them.
    pub env_file: Option<String>,
    /// Modules to load.
    pub modules: Vec<String>,
    /// A conda environment to activate: its name or folder.
    pub conda: Option<String>,
    /// A Python venv to activate: its folder.
    pub venv: Option<String>,
    /// A folder for temporary and W&B files; may name variables of the job.
    pub scratch: Option<String>,
    /// The user's own lines.
    pub lines: Vec<String>,
}

impl Environment {
    /// The lines, in the order in which they are run.
    #[must_use]
    pub fn set_up(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for export in &self.exports {
            let (name, value) = export.split_once('=').unwrap_or((export, ""));
            lines.push(format!("export {name}={}", quote(value)));
        }
        if let Some(file) = &self.env_file {
            lines.push(format!("set -a && . {} && set +a", quote(file)));
        }
        if !self.modules.is_empty() {
            // Not every site hands the function on to batch shells.
            lines.push(
                "type module >/dev/null 2>&1 || . /etc/profile.d/modules.sh 2>/dev/null || . /etc/profile.d/lmod.sh"
                    .to_owned(),
            );
            let names: Vec<String> = self.modules.iter().map(|name| quote(name)).collect();
            lines.push(format!("module load {}", names.join(" ")));
        }
        if let Some(name) = &self.conda {
            // As `conda init` writes it into .bashrc, which batch shells do not read.
            lines.push("eval \"$(\"${CONDA_EXE:-conda}\" shell.bash hook)\"".to_owned());
            lines.push(format!("conda activate {}", quote(name)));
        }
        if let Some(folder) = &self.venv {
            lines.push(format!(". {}", quote(&format!("{folder}/bin/activate"))));
        }
        if let Some(folder) = &self.scratch {
            lines.push(format!("export SWEEPCTL_SCRATCH={}", expanding(folder)));
            lines.push(
                "mkdir -p \"$SWEEPCTL_SCRATCH\"/{tmp,wandb,wandb-cache,wandb-config,wandb-data}"
                    .to_owned(),
            );
            lines.push(
                "export TMPDIR=\"$SWEEPCTL_SCRATCH/tmp\" WANDB_DIR=\"$SWEEPCTL_SCRATCH/wandb\" \
                 WANDB_CACHE_DIR=\"$SWEEPCTL_SCRATCH/wandb-cache\" WANDB_CONFIG_DIR=\"$SWEEPCTL_SCRATCH/wandb-config\" \
                 WANDB_DATA_DIR=\"$SWEEPCTL_SCRATCH/wandb-data\""
                    .to_owned(),
            );
        }
        lines.extend(self.lines.iter().cloned());
        lines
    }
}

/// A word in which a shell still fills in variables, and does nothing else.
fn expanding(word: &str) -> String {
    let mut quoted = String::from("\"");
    let mut rest = word.chars().peekable();
    while let Some(c) = rest.next() {
        let variable = c != '$'
            || rest
                .peek()
                .is_some_and(|next| *next == '{' || *next == '_' || next.is_ascii_alphabetic());
        if matches!(c, '"' | '\\' | '`') || !variable {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// Whether a set-up line replaces its shell, which could then become no agent: `exec` with a command.
#[must_use]
pub fn leaves_shell(line: &str) -> bool {
    line.lines().any(|line| {
        let mut words = line.split_whitespace();
        let redirects = |word: &str| {
            word.trim_start_matches(|c: char| {
                c.is_ascii_digit() || "{}".contains(c) || c.is_ascii_alphabetic()
            })
            .starts_with(['<', '>', '&'])
        };
        words.next() == Some("exec") && words.next().is_some_and(|word| !redirects(word))
    })
}

/// The first line of a file of variables, counted from 1, that a shell would not read as one; `None` if all are.
///
/// A value with blanks has to be in quotes: the shell would run what stands behind them.
#[must_use]
pub fn bad_line(env_file: &str) -> Option<usize> {
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
            && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let good = |line: &str| {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return true;
        }
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let Some((name, value)) = line.split_once('=') else { return false };
        let quoted = ['"', '\'']
            .iter()
            .any(|quote| value.len() > 1 && value.starts_with(*quote) && value.ends_with(*quote));
        let bare = value.split(" #").next().unwrap_or_default().trim_end();
        is_name(name) && (quoted || !bare.contains([' ', '\t', ';', '&', '|', '<', '>', '(', '`']))
    };
    env_file.lines().position(|line| !good(line)).map(|index| index + 1)
}

/// The variables among `names` that seem to be misspelt ones of W&B's, with what was meant.
///
/// W&B ignores them without a word, and people wait for what they have set.
#[must_use]
pub fn misspelt(names: impl Iterator<Item = String>) -> Vec<(String, String)> {
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.to_ascii_uppercase().chars().collect();
        letters.sort_unstable();
        letters
    };
    let meant = |name: &str| {
        let (start, rest) = name.split_once('_')?;
        let other = start != "WANDB";
        // The same five letters, or all but one of them.
        let (have, want) = (letters(start), letters("WANDB"));
        let missing = want.iter().filter(|letter| !have.contains(letter)).count();
        let close = have.len().abs_diff(want.len()) <= 1 && missing <= 1;
        (other && close && start.starts_with(['W', 'w'])).then(|| format!("WANDB_{rest}"))
    };
    let mut found: Vec<_> = names.filter_map(|name| Some((name.clone(), meant(&name)?))).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(environment: &Environment, then: &str) -> String {
        let script = format!("{}\n{then}", environment.set_up().join("\n"));
        let output = std::process::Command::new("bash").arg("-c").arg(script).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    #[test]
    fn exports_are_taken_literally() {
        let exports = vec!["A=it's $(touch x) \"two\"".to_owned(), "B=".to_owned()];
        let environment = Environment { exports, ..Environment::default() };
        assert_eq!(bash(&environment, "echo \"$A|$B|\""), "it's $(touch x) \"two\"||\n");
    }

    #[test]
    fn a_scratch_folder_may_name_variables_and_nothing_else() {
        let table = [
            ("/s/$USER", "\"/s/$USER\""),
            ("${TMPDIR}/a b", "\"${TMPDIR}/a b\""),
            ("$(id)", "\"\\$(id)\""),
            ("`id`\"", "\"\\`id\\`\\\"\""),
            ("a$", "\"a\\$\""),
        ];
        for (folder, want) in table {
            assert_eq!(expanding(folder), want);
        }
    }

    #[test]
    fn a_scratch_folder_holds_what_wandb_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let environment = Environment {
            scratch: Some(format!("{path}/$N")),
            lines: vec![],
            exports: vec!["N=7".to_owned()],
            ..Environment::default()
        };
        let said = bash(
            &environment,
            "[ -d \"$WANDB_DIR\" ] && [ -d \"$TMPDIR\" ] && echo $WANDB_CACHE_DIR",
        );
        assert_eq!(said, format!("{path}/7/wandb-cache\n"));
    }

    #[test]
    fn r24_misspelt_names_of_wandb_are_seen() {
        let names = [
            "WANBD__SERVICE_WAIT",
            "WANDB_MODE",
            "WNADB_DIR",
            "WADB_MODE",
            "wandb_mode",
            "PATH",
            "_",
            "WANDBX_Y",
        ];
        let found = misspelt(names.iter().map(|name| (*name).to_owned()));
        let found: Vec<String> =
            found.iter().map(|(name, meant)| format!("{name} {meant}")).collect();
        assert_eq!(
            found,
            [
                "WADB_MODE WANDB_MODE",
                "WANBD__SERVICE_WAIT WANDB__SERVICE_WAIT",
                "WANDBX_Y WANDB_Y",
                "WNADB_DIR WANDB_DIR",
                "wandb_mode WANDB_mode",
            ]
        );
    }
}
