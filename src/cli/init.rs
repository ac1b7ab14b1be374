//! `init`: a first settings file and a first sweep file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::{Failure, code, floors, logical_cwd};
use crate::say::{err, out};
use crate::scheduler::slurm::{Slurm, SlurmError};
use crate::settings::init::{Survey, settings_file, sweep_file};
use crate::settings::{PROJECT_FILE, project_file};

const SWEEP_FILE: &str = "sweep.yaml";

/// Names under which people keep what they sweep, the likeliest first.
const PROGRAMS: [&str; 3] = ["train.py", "main.py", "run.py"];

#[derive(clap::Args, Debug)]
pub(super) struct InitArgs {
    /// SLURM's cluster, as for sbatch
    #[arg(short = 'M', long, value_name = "NAME")]
    clusters: Option<String>,
}

pub(super) async fn run(args: InitArgs) -> Result<u8, Failure> {
    let folder = logical_cwd();
    let survey = match Slurm::new(args.clusters.clone()).await {
        Ok(slurm) => Some(survey(&slurm).await.map_err(failure)?),
        Err(SlurmError::Missing { .. }) if args.clusters.is_none() => None,
        Err(error) => return Err(failure(error)),
    };
    if let Some(other) = project_file(&folder).filter(|path| path.parent() != Some(&*folder)) {
        err!("warning: {} holds no longer here, but for what you copy from it", other.display());
    }
    let mut settings = settings_file(survey.as_ref(), &floors()?.require);
    if let Some(cluster) = &args.clusters {
        settings.push_str(&format!("\nclusters: {cluster}\n"));
    }
    let program = PROGRAMS.into_iter().find(|name| folder.join(name).exists());
    let wrote = [
        write_new(&folder, PROJECT_FILE, &settings)?,
        write_new(&folder, SWEEP_FILE, &sweep_file(program.unwrap_or(PROGRAMS[0])))?,
    ];
    if survey.is_none() && wrote[0] {
        err!("no SLURM here: the runs are processes of this machine");
    }
    if program.is_none() && wrote[1] {
        err!("`{}` is not there yet: change `program` in {SWEEP_FILE}, or write it", PROGRAMS[0]);
    }
    err!("see both files, then `sweepctl submit {SWEEP_FILE}`");
    Ok(0)
}

fn failure(error: SlurmError) -> Failure {
    let hint = error.hint();
    let failure = Failure::new(code::SLURM, error);
    match hint {
        Some(hint) => failure.help(hint),
        None => failure,
    }
}

/// Asks the cluster for all that it says of itself. What goes beyond its limits may be missing.
async fn survey(slurm: &Slurm) -> Result<Survey, SlurmError> {
    let limits = slurm.limits().await?;
    let partitions = slurm.partitions().await?;
    let nodes = slurm.nodes_by_partition().await.unwrap_or_else(|error| {
        err!("warning: {error}: the kinds of nodes are left out");
        partitions.iter().map(|partition| (partition.name.clone(), Vec::new())).collect()
    });
    let mut accounts = Vec::new();
    if limits.accounting {
        accounts = slurm.accounts(&limits.cluster).await.unwrap_or_else(|error| {
            err!("warning: {error}: your accounts are left out");
            Vec::new()
        });
    }
    Ok(Survey { cluster: limits.cluster, version: limits.version, partitions, nodes, accounts })
}

/// Whether it was written: a file that is there stays as it is.
fn write_new(folder: &Path, name: &str, text: &str) -> Result<bool, Failure> {
    let file = OpenOptions::new().write(true).create_new(true).open(folder.join(name));
    match file.and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => {
            out!("{name}");
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            err!("{name} is there already, and stays as it is");
            Ok(false)
        }
        Err(error) => {
            let text = format!("cannot write {}: {error}", folder.join(name).display());
            Err(Failure::new(code::UNEXPECTED, text))
        }
    }
}
