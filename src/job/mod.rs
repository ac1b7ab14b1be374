//! What runs inside a job.

pub mod program;
pub mod task;
