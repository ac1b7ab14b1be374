//! Runs hyperparameter sweeps on SLURM clusters.

// They panic when nobody reads; `say` does not.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod abort;
pub mod cli;
pub mod drive;
pub mod job;
pub mod launch;
pub mod log;
pub mod plan;
pub mod process;
mod say;
pub mod scheduler;
pub mod search;
pub mod settings;
pub mod sweep;
#[cfg(feature = "abort-hook")]
pub mod trace;
pub mod view;
