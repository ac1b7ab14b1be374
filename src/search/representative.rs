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
        // As written, an integer too: this is what the file says, not a draw.
        Parameter::Real(
            Law::Uniform { min: number, .. }
            | Law::LogUniformValues { min: number, .. }
            | Law::InvLogUniformValues { min: number, .. }
            | Law::Normal { mu: number, .. },
        ) => Value::Number(number.clone()),
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
        Law::Uniform { min: number, .. }
        | Law::LogUniformValues { min: number, .. }
        | Law::InvLogUniformValues { min: number, .. }
        | Law::Normal { mu: number, .. } => number.as_f64().unwrap_or(0.0),
        Law::LogUniform { min, .. } => exp(*min),
        Law::InvLogUniform { max, .. } => exp(-max),
        Law::LogNormal { mu, .. } => exp(*mu),
        Law::Beta { .. } => 0.5,
    })
}

#[cfg(test)]
mod tests {
    use super::super::vectors::sweep;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_distribution_has_its_plainest_value() {
        let d = |name: &str, mut json: Value| {
            json["distribution"] = json!(name);
            json
        };
        let table = [
            (json!({"value": {"a": [1]}}), json!({"a": [1]})),
            (json!({"values": ["x", "y"]}), json!("x")),
            (json!({"values": [1, 2], "probabilities": [0.25, 0.75]}), json!(1)),
            (json!({"min": 3, "max": 9}), json!(3)),
            (json!({"min": 0.5, "max": 9.0}), json!(0.5)),
            (d("uniform", json!({"min": 0, "max": 2})), json!(0)),
            (d("q_uniform", json!({"min": 10, "max": 50, "q": 10})), json!(10)),
            (d("q_uniform", json!({"min": 1, "max": 50, "q": 10.0})), json!(0.0)),
            (d("log_uniform", json!({"min": -9, "max": -2})), json!(0.000_123_409_804_086_679_56)),
            (d("log_uniform_values", json!({"min": 0.001, "max": 0.1})), json!(0.001)),
            (d("log_uniform_values", json!({"min": 1, "max": 100})), json!(1)),
            (d("q_log_uniform_values", json!({"min": 16, "max": 256, "q": 16})), json!(16)),
            (d("inv_log_uniform", json!({"min": 0, "max": 2})), json!(0.135_335_283_236_612_7)),
            (d("inv_log_uniform_values", json!({"min": 0.9, "max": 0.999})), json!(0.9)),
            (d("normal", json!({"mu": 2.5, "sigma": 0.5})), json!(2.5)),
            (d("normal", json!({})), json!(0.0)),
            (d("normal", json!({"mu": 7, "sigma": 0.5})), json!(7)),
            (d("q_normal", json!({"mu": 7.3, "sigma": 2, "q": 2})), json!(8)),
            (d("log_normal", json!({})), json!(1.0)),
            (d("q_log_normal", json!({"mu": 2, "q": 1})), json!(7)),
            (d("log_normal", json!({"mu": 1e300})), json!(f64::MAX)),
            (d("beta", json!({"a": 2, "b": 5})), json!(0.5)),
            (d("q_beta", json!({"a": 2, "b": 5, "q": 0.25})), json!(0.5)),
            (
                json!({"parameters": {"z": {"min": 1, "max": 2}, "y": {"value": 0}}}),
                json!({"y": 0, "z": 1}),
            ),
        ];
        for (json, want) in table {
            for method in [Method::Random, Method::Bayes, Method::Custom] {
                let config = representative(&sweep(method, &json!({"p": json})));
                assert_eq!(config["p"].to_string(), want.to_string(), "{json}");
            }
        }
    }

    #[test]
    fn a_grid_shows_its_first_point() {
        let parameters = json!({"n": {"values": [3, 3.0, 4]}, "a": {"min": 1, "max": 2}});
        let config = representative(&sweep(Method::Grid, &parameters));
        assert_eq!(json!(config).to_string(), r#"{"a":1,"n":3.0}"#);
        // A faulty grid, which the reader refuses, still shows what runs would look like.
        let parameters = json!({"n": {"min": 1.0, "max": 2.0}});
        assert_eq!(representative(&sweep(Method::Grid, &parameters))["n"], json!(1.0));
    }
}
