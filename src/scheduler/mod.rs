//! Schedulers: where jobs are queued and looked up.

pub mod slurm;
