//! A sweep as the rest of sweepctl sees it: checked, and of supported kinds only.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::search;

/// A checked sweep configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepSpec {
    /// The sweep's display name.
    pub name: Option<String>,
    /// What the sweep is about, in the user's words.
    pub description: Option<String>,
    /// The program that `${program}` stands for.
    pub program: Option<String>,
    /// How configurations are chosen.
    pub method: Method,
    /// What the sweep optimises, if the file says so.
    pub metric: Option<Metric>,
    /// The most runs that the sweep may have.
    pub run_cap: Option<u64>,
    /// The command as a list; absent means W&B's default command.
    pub command: Option<Vec<String>>,
    /// The parameters, in the file's order.
    pub parameters: IndexMap<String, Parameter>,
}

impl SweepSpec {
    /// How many distinct points the grid has; `None` for another method.
    ///
    /// Saturates at `u64::MAX`, and costs nothing for huge grids: nothing is enumerated.
    #[must_use]
    pub fn grid_size(&self) -> Option<u64> {
        search::grid_size(self)
    }
}

/// How configurations are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every combination once.
    Grid,
    /// Independent draws.
    Random,
}

/// What a sweep optimises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The name under which runs log it.
    pub name: String,
    /// Whether less or more is better.
    pub goal: Goal,
}

/// Whether less or more of a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// Less is better; W&B's default.
    Minimize,
    /// More is better.
    Maximize,
}

/// Where a parameter's values come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Parameter {
    /// Always this value.
    Constant(Value),
    /// One of these values; never empty.
    Categorical(Vec<Value>),
    /// An integer; both bounds are included, and `min < max`.
    IntUniform {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// A real number between finite bounds with `min < max`.
    Uniform {
        /// The lower bound.
        min: f64,
        /// The upper bound.
        max: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int_and_float_stay_distinct_through_json() {
        let text = b"program: p\nmethod: grid\nparameters:\n  a: {values: [3, 3.0, 1.0e+17, -0.0, 18446744073709551615]}\n  b: {value: {x: [1, 1.0]}}\n";
        let spec = crate::sweep::read(text, "s").unwrap().spec;
        let json = serde_json::to_string(&spec).unwrap();
        let again: SweepSpec = serde_json::from_str(&json).unwrap();
        assert_eq!(again, spec);
        let Parameter::Categorical(values) = &again.parameters["a"] else { panic!() };
        let kinds: Vec<bool> = values.iter().map(Value::is_f64).collect();
        assert_eq!(kinds, [false, true, true, true, false]);
    }
}
