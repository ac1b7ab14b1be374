//! Set-up lines: run by a shell between a task's claim and its agent, in one and the same process.
//!
//! `job run` claims a slot and becomes the shell (exec), which becomes `job run` again. What the lines do to their
//! shell (variables, `cd`, `ulimit`, `umask`) therefore holds for the program, and no signal has to be passed on.

use std::fmt::Write as _;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::launch::quote;
use crate::log::sweep::Pair;

/// The claim that goes with this process through the shell: `SLOT ATTEMPT CLAIM`.
const HELD: &str = "SWEEPCTL_HELD";
/// The line that failed, from 1, and its exit status.
const FAILED: &str = "SWEEPCTL_SET_UP_FAILED";

/// What the script asks for around the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The shell of the lines, as words: `bash` or `bash -l`.
    pub shell: Vec<String>,
    /// Lines to be run before the agent, each perhaps a block of several.
    pub lines: Vec<String>,
    /// Lines to be run after the last run.
    pub teardown: Vec<String>,
}

/// A claim that was made before the set-up lines ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What is claimed.
    pub pair: Pair,
    /// The claim's nonce.
    pub claim: String,
    /// The line that failed, from 1, and its exit status.
    pub failed: Option<(usize, i32)>,
}

/// Whether a variable is between us and ourselves, and not for programs.
pub fn is_ours(name: &str) -> bool {
    [HELD, FAILED].contains(&name)
}

impl Held {
    /// What the shell that ran the set-up lines handed on; `None` in a task that comes from its script.
    pub fn from_env(var: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let held = var(HELD)?;
        let mut parts = held.split(' ');
        let pair = Pair(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let claim = parts.next()?.to_owned();
        let failed = var(FAILED).and_then(|text| {
            let (line, status) = text.split_once(' ')?;
            Some((line.parse().ok()?, status.parse().ok()?))
        });
        Some(Self { pair, claim, failed })
    }
}

impl Setup {
    /// Becomes the shell that runs the lines and then this program again, with the same arguments.
    ///
    /// Returns only if that fails.
    pub fn become_shell(&self, pair: Pair, claim: &str) -> io::Error {
        let program = match std::env::current_exe() {
            Ok(program) => program,
            Err(error) => return error,
        };
        let args = std::env::args_os().skip(1).map(|arg| quote(&arg.to_string_lossy()));
        let again: Vec<String> =
            [quote(&program.to_string_lossy())].into_iter().chain(args).collect();
        let Some((shell, options)) = self.words() else {
            return io::Error::new(io::ErrorKind::InvalidInput, "no shell");
        };
        Command::new(shell)
            .args(options)
            .arg("-c")
            .arg(self.text(&again.join(" ")))
            .env(HELD, format!("{} {} {claim}", pair.0, pair.1))
            .env_remove(FAILED)
            .exec()
    }

    /// The shell and its options; bash unless another is asked for.
    fn words(&self) -> Option<(&str, &[String])> {
        match self.shell.split_first() {
            Some((shell, options)) => Some((shell, options)),
            None => Some(("bash", &[])),
        }
    }

    /// The shell's text: each line in turn, then `again`, which also runs if a line fails or leaves the shell.
    fn text(&self, again: &str) -> String {
        let mut text = format!(
            "trap 'SWEEPCTL_STATUS=$?; export {FAILED}=\"$SWEEPCTL_LINE $SWEEPCTL_STATUS\"; exec {}' EXIT\n",
            again.replace('\'', r"'\''")
        );
        for (number, line) in (1..).zip(&self.lines) {
            let _ = writeln!(text, "SWEEPCTL_LINE={number}");
            let _ = writeln!(text, "eval {}", quote(line));
            text.push_str("SWEEPCTL_STATUS=$?\n");
            if let Some(file) = sourced(line) {
                // Start-up files often end with a test that fails; that says nothing about what they did.
                let _ = writeln!(
                    text,
                    "if [ $SWEEPCTL_STATUS != 0 ] && [ -r {file} ]; then echo \"sweepctl: set-up line {number} ended with status \
                     $SWEEPCTL_STATUS, which is overlooked as it reads a file\" >&2; SWEEPCTL_STATUS=0; fi"
                );
            }
            text.push_str("[ $SWEEPCTL_STATUS = 0 ] || exit $SWEEPCTL_STATUS\n");
        }
        let _ = writeln!(text, "trap - EXIT\nunset SWEEPCTL_LINE SWEEPCTL_STATUS\nexec {again}");
        text
    }

    /// Runs the teardown lines in the agent's own folder and environment; what fails there changes nothing.
    pub fn tear_down(&self) -> Vec<String> {
        let mut said = Vec::new();
        if self.teardown.is_empty() {
            return said;
        }
        let Some((shell, options)) = self.words() else { return said };
        let mut text = String::new();
        for line in &self.teardown {
            let _ = writeln!(
                text,
                "eval {} || echo \"sweepctl: a teardown line ended with status $?\" >&2",
                quote(line)
            );
        }
        let mut command = Command::new(shell);
        command.args(options).arg("-c").arg(text).stdin(Stdio::null()).env_remove(HELD);
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => said.push(format!("the teardown lines ended with {status}")),
            Err(error) => said.push(format!("cannot run the teardown lines: {shell}: {error}")),
        }
        said
    }
}

/// The file that a line reads and does nothing else, as written.
fn sourced(line: &str) -> Option<&str> {
    let (command, file) = line.trim().split_once([' ', '\t'])?;
    let file = file.trim();
    let plain = !file.is_empty() && !file.contains([' ', ';', '&', '|', '<', '>', '(', '`', '\n']);
    (["source", "."].contains(&command) && plain).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the text in bash with a stand-in for `job run`; answers what that says and all that was printed.
    fn run(lines: &[&str]) -> String {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        let setup = Setup { lines, ..Setup::default() };
        let again = r#"bash -c 'echo "again:${X-}:${SWEEPCTL_SET_UP_FAILED-}:$(ulimit -n):$PWD"'"#;
        let output = Command::new("bash")
            .args(["-c", &setup.text(again)])
            .current_dir("/")
            .env_remove("X")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr)
    }

    #[test]
    fn what_the_lines_do_to_their_shell_holds_for_the_agent() {
        assert_eq!(run(&["export X=1; ulimit -n 77", "cd /tmp"]), "again:1::77:/tmp\n");
    }

    #[test]
    fn a_block_and_an_unset_variable_and_a_failing_pipe_are_no_failure() {
        let lines = ["for i in a b; do\n export X=$X$i\ndone", ": $NEVER_SET", "false | true"];
        assert!(run(&lines).starts_with("again:ab::"), "{}", run(&lines));
    }

    #[test]
    fn a_failing_line_is_named_with_its_status() {
        for (lines, want) in [
            (&["true", "(exit 3)", "echo never"][..], "again::2 3:"),
            (&["no-such-command"], "again::1 127:"),
            (&["exit 0"], "again::1 0:"),
            (&["export X='it''s'", "set -e; false"], "again:its:2 1:"),
            (&["if ["], "again::1 2:"),
            (&["source /no/such/file"], "again::1 1:"),
            (&["kill -TERM $$"], "again::1 "),
        ] {
            let said = run(lines);
            assert!(said.contains(want), "{lines:?}: {said}");
            assert!(!said.contains("never"), "{said}");
        }
    }

    #[test]
    fn a_start_up_file_that_ends_false_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rc");
        std::fs::write(&file, "export X=rc\nfalse\n").unwrap();
        let said = run(&[&format!("source {}", file.display())]);
        assert!(said.contains("again:rc::"), "{said}");
        assert!(said.contains("set-up line 1 ended with status 1, which is overlooked"), "{said}");
    }

    #[test]
    fn a_claim_goes_through_the_environment() {
        let var = |text: &'static str, failed: Option<&'static str>| {
            move |name: &str| match name {
                HELD => Some(text.to_owned()),
                FAILED => failed.map(str::to_owned),
                _ => None,
            }
        };
        let held = Held { pair: Pair(7, 1), claim: "abc".to_owned(), failed: None };
        assert_eq!(Held::from_env(var("7 1 abc", None)), Some(held.clone()));
        let failed = Held { failed: Some((2, 127)), ..held };
        assert_eq!(Held::from_env(var("7 1 abc", Some("2 127"))), Some(failed));
        assert_eq!(Held::from_env(var("7 x abc", None)), None);
        assert_eq!(Held::from_env(|_| None), None);
    }
}
