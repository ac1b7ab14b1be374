//! Runs hyperparameter sweeps on SLURM clusters.

pub mod abort;
pub mod cli;
pub mod drive;
pub mod job;
pub mod launch;
pub mod log;
pub mod plan;
pub mod process;
pub mod scheduler;
pub mod search;
pub mod sweep;
pub mod view;
