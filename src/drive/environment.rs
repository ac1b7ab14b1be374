//! The environment of the shell that submitted: it is the job's, also when a later process submits.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Whether a variable of the submitting shell is kept for the jobs.
///
/// Not SLURM's own (they would bend a later sbatch or srun; SLURM_CONF says which cluster), and nothing that
/// looks like a secret: the environment is stored in a file. Of our own, only a test's hook is for jobs.
pub fn is_kept(name: &str) -> bool {
    let hook = cfg!(feature = "abort-hook") && name == crate::abort::TASK_VARIABLE;
    let ours = name.starts_with("SWEEPCTL_") && !hook;
    let slurm = (name.starts_with("SLURM_") && name != "SLURM_CONF")
        || name.starts_with("SBATCH_")
        || name.starts_with("SQUEUE_")
        || name.starts_with("SACCT_");
    let upper = name.to_ascii_uppercase();
    let secret = ["KEY", "TOKEN", "SECRET", "PASSW"].iter().any(|word| upper.contains(word));
    !slurm && !secret && !ours
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
        for name in ["WANDB_API_KEY", "MY_token", "DB_PASSWORD", "SLURM_JOB_ID", "SBATCH_PARTITION"]
        {
            assert!(!is_kept(name), "{name}");
        }
        for name in ["PATH", "SLURM_CONF", "VIRTUAL_ENV", "CONDA_PREFIX"] {
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
