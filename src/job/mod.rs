//! What runs inside a job.

pub mod metrics;
pub mod program;
pub mod setup;
pub mod task;
