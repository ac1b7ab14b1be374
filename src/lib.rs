//! Runs hyperparameter sweeps on SLURM clusters.

pub mod job;
pub mod process;
pub mod scheduler;
pub mod search;
pub mod sweep;
