//! Whether the command can be started on this node, asked before it is: execvp's own answer names no cause.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::Access;

/// A part of the command that is not on this node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Missing {
    /// What is missing, and where.
    pub what: String,
    /// What could be used instead, or what to do.
    pub hint: Option<String>,
}

/// Where programs are looked for if there is no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// Checks that what execvp would start is there, and the program file too.
///
/// Looks through `env NAME=VALUE python …` and `#!` lines. `env` with options that change how the
/// rest is read, like `-S`, is refused.
pub fn resolve(
    argv: &[OsString],
    env: &[(OsString, OsString)],
    cwd: &Path,
    program: Option<&str>,
) -> Result<(), Missing> {
    let node = node_name();
    if !cwd.is_dir() {
        return Err(missing(format!("the folder `{}` is not on {node}", cwd.display()), None));
    }
    let path = env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let look = Look { node: &node, cwd: cwd.to_owned(), path };
    look.command(argv)?;
    let Some(program) = program else { return Ok(()) };
    let file = cwd.join(program);
    if !file.is_file() {
        let hint = format!("it is looked for in `{}`", cwd.display());
        return Err(missing(format!("program `{program}` is not on {node}"), Some(hint)));
    }
    if rustix::fs::access(&file, Access::READ_OK).is_err() {
        return Err(missing(format!("program `{program}` cannot be read on {node}"), None));
    }
    Ok(())
}

fn missing(what: String, hint: Option<String>) -> Missing {
    Missing { what, hint }
}

fn node_name() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    name.split('.').next().unwrap_or(&name).to_owned()
}

/// Where a program is looked for.
#[derive(Debug, Clone)]
struct Look<'a> {
    node: &'a str,
    cwd: PathBuf,
    path: Option<OsString>,
}

impl Look<'_> {
    fn command(mut self, mut argv: &[OsString]) -> Result<(), Missing> {
        while let Some((name, rest)) = argv.split_first() {
            let file = self.program(name)?;
            self.interpreter(name, &file)?;
            if Path::new(name).file_name() != Some(OsStr::new("env")) {
                return Ok(());
            }
            argv = self.behind_env(rest)?;
        }
        Err(missing("the command names no program".into(), None))
    }

    /// What `env` would start, and how it changes the look-up.
    fn behind_env<'b>(&mut self, mut argv: &'b [OsString]) -> Result<&'b [OsString], Missing> {
        let mut options = true;
        while let Some((word, rest)) = argv.split_first() {
            let bytes = word.as_bytes();
            let mut taken = 1;
            if options && bytes.starts_with(b"-") {
                match (bytes, rest.first()) {
                    (b"--", _) => options = false,
                    (b"-" | b"-i" | b"--ignore-environment", _) => self.path = None,
                    (b"-u" | b"--unset", Some(name)) => {
                        self.path = self.path.take_if(|_| name != "PATH");
                        taken = 2;
                    }
                    _ => {
                        let what = format!("`env {}` cannot be checked", word.display());
                        let hint = "write the command without this option of `env`";
                        return Err(missing(what, Some(hint.into())));
                    }
                }
            } else if let Some(equals) = bytes.iter().position(|byte| *byte == b'=') {
                options = false;
                if bytes.starts_with(b"PATH=") {
                    self.path = Some(OsString::from_vec(bytes[equals + 1..].to_vec()));
                }
            } else {
                break;
            }
            argv = &argv[taken..];
        }
        Ok(argv)
    }

    fn program(&self, name: &OsStr) -> Result<PathBuf, Missing> {
        let found = self.candidates(name);
        if let Some(file) = found.iter().find(|file| is_executable(file)) {
            return Ok(file.clone());
        }
        let shown = name.display();
        if let Some(file) = found.iter().find(|file| file.is_file()) {
            let what = format!("`{shown}` is not executable on {}", self.node);
            return Err(missing(what, Some(format!("run `chmod +x {}`", file.display()))));
        }
        let what = format!("`{shown}` not found on {}", self.node);
        Err(missing(what, self.alternative(name)))
    }

    fn candidates(&self, name: &OsStr) -> Vec<PathBuf> {
        if name.is_empty() {
            return Vec::new();
        }
        if name.as_bytes().contains(&b'/') {
            return vec![self.cwd.join(name)];
        }
        let path = self.path.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH));
        // An empty entry means the working directory, and joining one gives just that.
        std::env::split_paths(path).map(|folder| self.cwd.join(folder).join(name)).collect()
    }

    /// The program of this name in another place or version, most often Python.
    fn alternative(&self, name: &OsStr) -> Option<String> {
        let base = Path::new(name).file_name()?;
        let is_python = base.as_bytes().starts_with(b"python");
        let others: &[&OsStr] =
            if is_python { &[base, OsStr::new("python3"), OsStr::new("python")] } else { &[base] };
        let find = |other: &&OsStr| {
            let file = self.candidates(other).into_iter().find(|file| is_executable(file))?;
            Some(format!("{} is {}", other.display(), file.display()))
        };
        others.iter().find_map(find).or_else(|| {
            let path = self.path.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH)).display();
            (!name.as_bytes().contains(&b'/')).then(|| format!("PATH is {path}"))
        })
    }

    /// Checks the `#!` line, whose absence of a program execvp reports as that of the script.
    fn interpreter(&self, name: &OsStr, file: &Path) -> Result<(), Missing> {
        let mut head = Vec::new();
        let Ok(script) = fs::File::open(file) else { return Ok(()) };
        if script.take(256).read_to_end(&mut head).is_err() || !head.starts_with(b"#!") {
            return Ok(());
        }
        let line = head[2..].split(|byte| *byte == b'\n').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(interpreter) = words.next().map(OsStr::from_bytes) else { return Ok(()) };
        let what = |needed: &OsStr| {
            let (script, needed) = (name.display(), needed.display());
            format!(
                "`{needed}`, which `{script}` names on its first line, not found on {}",
                self.node
            )
        };
        if !is_executable(&self.cwd.join(interpreter)) {
            return Err(missing(what(interpreter), self.alternative(interpreter)));
        }
        if Path::new(interpreter).file_name() == Some(OsStr::new("env")) {
            let needed = words.next().map(OsStr::from_bytes);
            if let Some(needed) = needed.filter(|word| !word.as_bytes().starts_with(b"-"))
                && !needed.as_bytes().contains(&b'=')
                && !self.candidates(needed).iter().any(|file| is_executable(file))
            {
                return Err(missing(what(needed), self.alternative(needed)));
            }
        }
        Ok(())
    }
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    /// A scratch folder as PATH and working directory, with these executables.
    fn bin(programs: &[(&str, &str)]) -> (TempDir, Vec<(OsString, OsString)>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in programs {
            fs::write(folder.path().join(name), text).unwrap();
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(folder.path().join(name), mode).unwrap();
        }
        let env = vec![("PATH".into(), folder.path().into())];
        (folder, env)
    }

    fn words(command: &str) -> Vec<OsString> {
        command.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_missing_python_names_the_python3_that_is_there() {
        let (folder, env) = bin(&[("python3", ""), ("env", "")]);
        let node = node_name();
        for command in ["python train.py", "env A=1 python train.py", "env -u X -- python x"] {
            let missing = resolve(&words(command), &env, folder.path(), None).unwrap_err();
            assert_eq!(missing.what, format!("`python` not found on {node}"));
            let wanted = format!("python3 is {}/python3", folder.path().display());
            assert_eq!(missing.hint, Some(wanted));
        }
        assert_eq!(resolve(&words("env A=1 python3 x"), &env, folder.path(), None), Ok(()));
    }

    #[test]
    fn env_is_followed_to_the_path_it_sets_and_refused_when_it_splits_words() {
        let (folder, env) = bin(&[("env", "")]);
        let (other, _) = bin(&[("tool", "")]);
        let command = format!("env PATH={} tool", other.path().display());
        assert_eq!(resolve(&words(&command), &env, folder.path(), None), Ok(()));
        let missing = resolve(&words("env -S tool"), &env, folder.path(), None).unwrap_err();
        assert_eq!(missing.what, "`env -S` cannot be checked");
        assert!(resolve(&words("env A=1"), &env, folder.path(), None).is_err());
        assert!(resolve(&[], &env, folder.path(), None).is_err());
    }

    #[test]
    fn a_program_file_is_looked_for_in_the_working_directory() {
        let (folder, env) = bin(&[("python3", ""), ("train.py", "")]);
        let command = words("python3 train.py");
        assert_eq!(resolve(&command, &env, folder.path(), Some("train.py")), Ok(()));
        let missing = resolve(&command, &env, folder.path(), Some("tune.py")).unwrap_err();
        assert_eq!(missing.what, format!("program `tune.py` is not on {}", node_name()));
        let gone = folder.path().join("gone");
        assert!(resolve(&command, &env, &gone, None).unwrap_err().what.contains("the folder"));
    }

    #[test]
    fn a_script_needs_its_mode_and_its_interpreter() {
        let (folder, env) = bin(&[
            ("old", "#!/no/such/python -u\n"),
            ("asked", "#!/usr/bin/env python\n"),
            ("good", "#!/bin/sh\n"),
            ("python3", ""),
        ]);
        fs::write(folder.path().join("plain"), "").unwrap();
        let check = |command| resolve(&words(command), &env, folder.path(), None);
        assert_eq!(check("./good"), Ok(()));
        assert!(check("./old").unwrap_err().what.starts_with("`/no/such/python`, which `./old`"));
        assert!(check("asked").unwrap_err().hint.unwrap().starts_with("python3 is"));
        assert!(check("./plain").unwrap_err().hint.unwrap().starts_with("run `chmod +x"));
    }
}
