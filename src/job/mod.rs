//! What runs inside a job.

pub mod metrics;
pub mod program;
pub mod task;
