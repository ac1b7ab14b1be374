//! What `submit` says before it does anything: the plan, its cost, and what is likely to go wrong.

use std::fs;

use super::{Failure, code};
use crate::drive::state::{Around, SweepFile};
use crate::launch;
use crate::launch::agents::Agents;
use crate::launch::environment::misspelt;
use crate::launch::logs::LogName;
use crate::launch::request::{Given, Partition, Ranks, Remark, Request};
use crate::say::err;
use crate::search;
use crate::settings::Settings;
use crate::sweep as sweep_file;

/// Prints what there is to say of a request; an error in it ends the submission.
pub(super) fn report(remarks: Vec<Remark>) -> Result<(), Failure> {
    let mut last = None;
    for remark in remarks {
        if let Some(error) =
            remark.is_error.then_some(remark.clone()).and_then(|error| last.replace(error))
        {
            err!("error: {error}");
        } else if !remark.is_error {
            err!("warning: {remark}");
        }
    }
    match last {
        // Printed with the exit code.
        Some(error) => Err(Failure::new(code::SWEEP_FILE, error.message).help(error.help)),
        None => Ok(()),
    }
}

/// Says what in the environment of jobs is likely to go wrong.
pub(super) fn warn_of_environment(around: &Around) {
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    for (name, meant) in misspelt(names) {
        err!("warning: {name} is no variable of W&B's, which ignores it: did you mean {meant}?");
    }
    const GPUS: &str = "CUDA_VISIBLE_DEVICES";
    let by_hand = around.set_up.iter().any(|line| line.contains(&format!("{GPUS}=")));
    if by_hand || std::env::var_os(GPUS).is_some() {
        let place = if by_hand { "in a set-up line" } else { "in this shell" };
        err!(
            "warning: {GPUS} is set {place}: SLURM gives each job its own GPUs, and other numbers hide them (unset it)"
        );
    }
}

/// What the sweep's program does about ranks.
pub(super) fn ranks(file: &SweepFile) -> Ranks {
    let command = file.spec.command.as_deref().unwrap_or_default();
    let program = file.spec.program.as_ref().map(|program| file.folder.join(program));
    let text = program.and_then(|path| fs::read_to_string(path).ok());
    Ranks::of(command, text.as_deref())
}

/// Says what will be submitted and what it may cost; refuses what costs more than `--max-gpu-hours`.
pub(super) fn say_plan(
    settings: &Settings,
    given: &[Given],
    (jobs, agents): (u64, Option<Agents>),
    partitions: &[Partition],
) -> Result<(), Failure> {
    let request = Request::of(given);
    let hours = request.gpu_hours(jobs, request.default_time(partitions));
    let cost = match (hours, request.gpus) {
        (Some(0.0), _) => "no GPUs".to_owned(),
        (Some(hours), _) => format!("at most {hours:.0} GPU hours"),
        (None, None) => "GPU hours unknown".to_owned(),
        (None, _) => "GPU hours unknown: no time limit".to_owned(),
    };
    let count =
        |number: u64, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let each = [
        (settings.runs_per_job > 1).then(|| match agents {
            Some(_) => format!("up to {} runs of each agent", settings.runs_per_job),
            None => format!("up to {} runs", settings.runs_per_job),
        }),
        (request.nodes > 1).then(|| format!("{} nodes", request.nodes)),
        Some(count(request.ranks.into(), "rank")),
        request.gpus.filter(|gpus| *gpus > 0).map(|gpus| count(gpus.into(), "GPU")),
        Some(count(agents.map_or(1, |agents| agents.count).into(), "agent")),
    ];
    let each: Vec<String> = each.into_iter().flatten().collect();
    if let (Some(agents), Some(gpus)) = (agents, request.gpus)
        && gpus % agents.count != 0
    {
        err!(
            "warning: {gpus} GPUs cannot be shared out among {} agents: each sees all of its node",
            agents.count
        );
    }
    err!("{}, each with {}; {cost}", count(jobs, "job"), each.join(", "));
    match (settings.max_gpu_hours, hours) {
        (Some(most), Some(hours)) if hours > most => {
            let text = format!(
                "the sweep may take {hours:.0} GPU hours, more than --max-gpu-hours {most}"
            );
            Err(Failure::new(code::SWEEP_FILE, text).help("lower --time or --budget"))
        }
        (Some(_), None) if request.gpus.is_none() => {
            let text = "--max-gpu-hours cannot tell how many GPUs a job gets";
            Err(Failure::new(code::SWEEP_FILE, text).help(
                "ask for them by --gpus, or by --nodes and --gpus-per-node, without --exclusive",
            ))
        }
        (Some(_), None) => {
            let text = "--max-gpu-hours needs a time limit to go by";
            Err(Failure::new(code::SWEEP_FILE, text).help("give --time"))
        }
        _ => Ok(()),
    }
}

/// Options that say where output goes: they are not copied into the script as they are.
pub(super) const LOGS: [&str; 2] = ["output", "error"];

/// Fills in names of logs; refuses those that SLURM would not write, and warns of one that tasks share.
pub(super) fn fill_in_logs(file: &mut SweepFile, local: bool) -> Result<(), Failure> {
    let user = std::env::var("USER").unwrap_or_default();
    for (flag, name) in [("--output", &mut file.around.output), ("--error", &mut file.around.error)]
    {
        let Some(name) = name else { continue };
        if local {
            err!("warning: {flag} is for SLURM: logs of a local sweep are in its folder");
            continue;
        }
        let read = LogName::read(name, &file.policy.job_name, &user);
        let read = read.map_err(|error| {
            Failure::new(code::COMMAND_LINE, format!("{flag}: {error}"))
                .help("logs/%x-%A_%a.out is a good name")
        })?;
        if read.is_shared {
            err!(
                "warning: {flag} {name} is one file for several tasks (%A_%a in its name gives each its own); the end of each run's output is kept in the sweep's folder"
            );
        }
    }
    Ok(())
}

/// The first runs' commands, as they would be typed.
pub(super) fn first_commands(file: &SweepFile) -> Vec<String> {
    let envvar = |name: &str| std::env::var(name).ok();
    let slots = (0..u64::from(file.budget.min(3)))
        .filter_map(|slot| search::configuration(&file.spec, file.seed, slot));
    let argv = |config| {
        sweep_file::argv(&file.spec, &config, file.around.interpreter(), "<args.json>", &envvar)
    };
    slots
        .map(|config| {
            argv(config).iter().map(|word| launch::quote(word)).collect::<Vec<_>>().join(" ")
        })
        .collect()
}
