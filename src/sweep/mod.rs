//! The sweep file: read, checked, turned into argument lists.
//!
//! Everything here is pure: text and values in, text and values out. [`check`] reports every
//! problem of a file at once, each with its place in the file, and [`read`] is the short way to a
//! sweep that can be run.

mod check;
mod client;
mod code;
mod command;
#[cfg(test)]
mod fuzz;
mod model;
mod parameter_file;
pub(crate) mod problem;
mod python;
pub(crate) mod scalar;
mod special;
#[cfg(test)]
mod tests;
mod validate;
pub(crate) mod yaml;

pub use check::{Check, Grid, Reading, Run, Verdict, check, read};
pub use code::Code;
pub use command::argv;
pub use model::{Bands, EarlyTerminate, Goal, Law, Method, Metric, Parameter, SweepSpec};
pub use parameter_file::parameter_file;
pub(crate) use parameter_file::push_yaml_text;
pub(crate) use problem::one_line;
pub use problem::{Problem, Severity};
pub use python::python_text;
pub use validate::Surroundings;
pub(crate) use yaml::lines;
