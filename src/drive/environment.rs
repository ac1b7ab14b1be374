//! The environment of the shell that submitted: it is the job's, also when a later process submits.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Parts of names whose values may be secrets.
const SECRET: [&str; 7] =
    ["KEY", "TOKEN", "SECRET", "PASSW", "PASSPHRASE", "PASSCODE", "CREDENTIAL"];

/// Names that have such a part and hold no secret, while programs of sweeps often want them.
const HARMLESS: [&str; 1] = ["TOKENIZERS_PARALLELISM"];

/// Whether a variable of the submitting shell is kept for the jobs.
///
/// Not SLURM's own (they would bend a later sbatch or srun; SLURM_CONF says which cluster), not ours, and nothing
/// that looks like a secret: the environment is stored in a file.
pub fn is_kept(name: &str) -> bool {
    !is_of_programs(name) && !looks_secret(name)
}

/// The names of this shell's variables that jobs do not get because they look like secrets.
pub fn left_out() -> Vec<String> {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|name| !is_of_programs(name) && looks_secret(name)).collect();
    names.sort();
    names
}

/// Whether it tells SLURM's programs, or this one, what to do; a test's hook is for jobs.
fn is_of_programs(name: &str) -> bool {
    if cfg!(feature = "abort-hook") && name == crate::abort::TASK_VARIABLE {
        return false;
    }
    (name.starts_with("SLURM_") && name != "SLURM_CONF")
        || ["SBATCH_", "SQUEUE_", "SACCT_", "SWEEPCTL_"].iter().any(|start| name.starts_with(start))
}

fn looks_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let secret = SECRET.iter().any(|word| upper.contains(word))
        || ["_PASS", "_PWD"].iter().any(|end| upper.ends_with(end));
    secret && !HARMLESS.contains(&name)
}

/// Writes this process's environment for the sweep's jobs.
pub fn save(sweep_dir: &Path) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (name, value) in std::env::vars_os() {
        if is_kept(&name.to_string_lossy()) {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b'=');
            bytes.extend_from_slice(value.as_bytes());
            bytes.push(0);
        }
    }
    super::state::write_whole(&sweep_dir.join("env"), &bytes)
}

/// The environment that [`save`] wrote.
pub fn of_sweep(sweep_dir: &Path) -> io::Result<Vec<(OsString, OsString)>> {
    let bytes = std::fs::read(sweep_dir.join("env"))?;
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    Ok(entries
        .filter_map(|entry| {
            let at = entry.iter().position(|byte| *byte == b'=')?;
            Some((
                OsString::from_vec(entry[..at].to_vec()),
                OsString::from_vec(entry[at + 1..].to_vec()),
            ))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_secrets_nor_another_jobs_variables_are_kept() {
        for name in [
            "WANDB_API_KEY",
            "MY_token",
            "DB_PASSWORD",
            "GPG_PASSPHRASE",
            "ssh_passphrase",
            "DB_PASS",
            "MYSQL_PWD",
            "GIT_CREDENTIALS",
            "SLURM_JOB_ID",
            "SBATCH_PARTITION",
            "SWEEPCTL_SPANS",
        ] {
            assert!(!is_kept(name), "{name}");
        }
        for name in
            ["PATH", "PWD", "SLURM_CONF", "CONDA_PREFIX", "SSH_ASKPASS", "TOKENIZERS_PARALLELISM"]
        {
            assert!(is_kept(name), "{name}");
        }
    }

    #[test]
    fn a_tests_hook_reaches_jobs_where_it_is_built_in_and_a_watchers_hook_never() {
        assert_eq!(is_kept("SWEEPCTL_ABORT_TASK"), cfg!(feature = "abort-hook"));
        assert!(!is_kept("SWEEPCTL_ABORT_AT"));
        assert!(!is_kept("SWEEPCTL_SPANS"));
    }
}
