//! A sweep as the rest of sweepctl sees it: checked.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::search;

/// A checked sweep configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepSpec {
    /// The sweep's display name.
    pub name: Option<String>,
    /// What the sweep is about, in the user's words.
    pub description: Option<String>,
    /// W&B's project, if the file names one.
    #[serde(default)]
    pub project: Option<String>,
    /// W&B's entity, if the file names one.
    #[serde(default)]
    pub entity: Option<String>,
    /// The program that `${program}` stands for.
    pub program: Option<String>,
    /// How configurations are chosen.
    pub method: Method,
    /// What the sweep optimises, if the file says so.
    pub metric: Option<Metric>,
    /// When runs that do badly are ended early: on W&B's controller only.
    #[serde(default)]
    pub early_terminate: Option<EarlyTerminate>,
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
    /// [`search::Grid`] has the exact number.
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
    /// A model of the metric proposes: on W&B's controller only.
    Bayes,
    /// Somebody else's search: on W&B's controller only.
    Custom,
}

/// What a sweep optimises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The name under which runs log it.
    pub name: String,
    /// Whether less or more is better.
    pub goal: Goal,
    /// Once a run reaches it, no more are started: on W&B's controller only.
    #[serde(default)]
    pub target: Option<Number>,
}

/// Hyperband's way of ending runs that do badly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlyTerminate {
    /// After how many logged values runs are compared.
    pub bands: Bands,
    /// Of `eta` runs, one goes on; above 1.
    pub eta: f64,
    /// Whether a run's value at the band decides, not its best one so far; absent: W&B decides.
    pub strict: Option<bool>,
}

/// After how many logged values runs are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bands {
    /// `max_iter` divided by `eta` again and again, `s` times at most.
    Max {
        /// Not a band itself.
        max_iter: u64,
        /// How many bands.
        s: u64,
    },
    /// `min_iter` multiplied by `eta` again and again.
    Min {
        /// The first band.
        min_iter: u64,
    },
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
    /// One of these values, each as likely as the others; never empty.
    Categorical(Vec<Value>),
    /// One of these values, each with its own probability.
    Weighted {
        /// The values; never empty.
        values: Vec<Value>,
        /// As many probabilities, none negative; their sum is 1 but for rounding.
        probabilities: Vec<f64>,
    },
    /// An integer; both bounds are included, and `min < max`.
    IntUniform {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// A real number.
    Real(Law),
    /// A real number rounded to the nearest multiple of `q`: W&B's `q_` distributions.
    Quantized {
        /// What is rounded.
        law: Law,
        /// The step, above 0. Values are integers if it is one, floats if it is a float.
        q: Number,
    },
    /// Parameters that arrive together as one mapping.
    Group(IndexMap<String, Parameter>),
}

/// A continuous distribution. All numbers are finite.
///
/// A number that stands for a value, and not for an exponent or a width, is kept as written: an
/// integer is shown as one, and a quantized grid of integers is one of integers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    /// Between two limits, `min < max`.
    Uniform {
        /// The lower limit.
        min: Number,
        /// The upper limit.
        max: Number,
    },
    /// `exp` of a uniform exponent: W&B's `log_uniform`.
    LogUniform {
        /// The smallest exponent of e.
        min: f64,
        /// The largest exponent of e.
        max: f64,
    },
    /// The same between two limits, `0 < min < max`: W&B's `log_uniform_values`.
    LogUniformValues {
        /// The lower limit.
        min: Number,
        /// The upper limit.
        max: Number,
    },
    /// `exp(-x)` of a uniform exponent `x`: W&B's `inv_log_uniform`.
    InvLogUniform {
        /// The smallest exponent of 1/e.
        min: f64,
        /// The largest exponent of 1/e.
        max: f64,
    },
    /// W&B's `inv_log_uniform_values`, which draws as `log_uniform_values` does.
    InvLogUniformValues {
        /// The lower limit.
        min: Number,
        /// The upper limit.
        max: Number,
    },
    /// The normal distribution.
    Normal {
        /// The mean.
        mu: Number,
        /// The standard deviation, above 0.
        sigma: f64,
    },
    /// `exp` of a normal distribution.
    LogNormal {
        /// The mean of the logarithm.
        mu: f64,
        /// The standard deviation of the logarithm, above 0.
        sigma: f64,
    },
    /// The beta distribution on (0, 1).
    Beta {
        /// The first shape parameter, above 0.
        a: f64,
        /// The second shape parameter, above 0.
        b: f64,
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
