//! Runs hyperparameter sweeps on SLURM clusters.

pub mod abort;
pub mod job;
pub mod log;
pub mod process;
pub mod scheduler;
pub mod search;
pub mod sweep;
