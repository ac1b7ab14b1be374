//! One configuration that stands for a sweep, to show what its runs will look like.

use libm::exp;
use serde_json::Value;

use super::quantile::{finite, quantized};
use super::{Config, Grid, sorted};
use crate::sweep::{Law, Method, Parameter, SweepSpec};

/// The grid's first point; for another method each parameter's plainest value.
///
/// That is the fixed value, the first one listed, the lower limit, the median or, for beta, 1/2,
/// and the nearest multiple of `q` to that.
#[must_use]
pub fn representative(spec: &SweepSpec) -> Config {
    let first = || Grid::open(spec)?.point(0);
    let point = (spec.method == Method::Grid).then(first).flatten();
    point.unwrap_or_else(|| {
        let parameters = sorted(&spec.parameters).into_iter();
        parameters.map(|(name, parameter)| (name.clone(), plain(parameter))).collect()
    })
}

fn plain(parameter: &Parameter) -> Value {
    match parameter {
        Parameter::Constant(value) => value.clone(),
        Parameter::Categorical(values) | Parameter::Weighted { values, .. } => {
            values.first().cloned().unwrap_or(Value::Null)
        }
        Parameter::IntUniform { min, .. } => Value::from(*min),
        // As written: a run of W&B's would not show it as a float here.
        Parameter::Real(Law::Uniform { min, .. }) => Value::Number(min.clone()),
        Parameter::Real(law) => Value::from(centre(law)),
        Parameter::Quantized { law, q } => quantized(centre(law), q),
        Parameter::Group(members) => {
            let members = sorted(members).into_iter();
            Value::Object(members.map(|(name, member)| (name.clone(), plain(member))).collect())
        }
    }
}

fn centre(law: &Law) -> f64 {
    finite(match law {
        Law::Uniform { min, .. } => min.as_f64().unwrap_or(0.0),
        Law::LogUniform { min, .. } => exp(*min),
        Law::InvLogUniform { max, .. } => exp(-max),
        Law::LogUniformValues { min, .. } | Law::InvLogUniformValues { min, .. } => *min,
        Law::Normal { mu, .. } => *mu,
        Law::LogNormal { mu, .. } => exp(*mu),
        Law::Beta { .. } => 0.5,
    })
}
