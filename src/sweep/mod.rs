//! The sweep file: read, checked, turned into argument lists.
//!
//! Everything here is pure: text and values in, text and values out. [`read`] reports every
//! problem of a file at once, each with its place in the file.

mod command;
#[cfg(test)]
mod fuzz;
mod model;
mod parameter_file;
mod problem;
mod python;
mod read;
mod scalar;
mod yaml;

pub use command::argv;
pub use model::{Goal, Law, Method, Metric, Parameter, SweepSpec};
pub use parameter_file::parameter_file;
pub use problem::{Problem, Severity};
pub use python::python_text;
pub use read::{Reading, read};
