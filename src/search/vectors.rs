//! The golden vectors of W&B's own engine (`tests/data/vectors`, or `SWEEPCTL_TEST_VECTORS`).

use std::path::PathBuf;
use std::{env, fs};

use indexmap::IndexMap;
use serde_json::{Number, Value, json};

use super::grid::Identity;
use super::quantile::quantile;
use super::{Config, Grid, configuration};
use crate::sweep::{Law, Method, Parameter, SweepSpec};

/// A parameter from its JSON, which must be right: tests of the search do not need the reader.
pub(super) fn parameter(json: &Value) -> Parameter {
    let number = |key: &str, default: Value| -> Number {
        let value = json.get(key).cloned().unwrap_or(default);
        let Value::Number(number) = value else { panic!("{json}: {key}") };
        number
    };
    let float = |key: &str, default: f64| number(key, json!(default)).as_f64().unwrap();
    let range = || (float("min", f64::NAN), float("max", f64::NAN));
    let bounds = || (number("min", Value::Null), number("max", Value::Null));
    let sigma = || float("sigma", 1.0);
    let list = |key: &str| json[key].as_array().unwrap().clone();
    let has = |key: &str| json.get(key).is_some();
    let inferred = match () {
        () if has("parameters") => "group",
        () if has("value") => "constant",
        () if has("probabilities") => "categorical_w_probabilities",
        () if has("values") => "categorical",
        () if json["min"].is_i64() && json["max"].is_i64() => "int_uniform",
        () => "uniform",
    };
    let distribution = json.get("distribution").map_or(inferred, |name| name.as_str().unwrap());
    let law = match distribution.strip_prefix("q_").unwrap_or(distribution) {
        "constant" => return Parameter::Constant(json["value"].clone()),
        "categorical" => return Parameter::Categorical(list("values")),
        "categorical_w_probabilities" => {
            let probabilities = list("probabilities").iter().map(|p| p.as_f64().unwrap()).collect();
            return Parameter::Weighted { values: list("values"), probabilities };
        }
        "int_uniform" => {
            let (min, max) = (json["min"].as_i64().unwrap(), json["max"].as_i64().unwrap());
            return Parameter::IntUniform { min, max };
        }
        "group" => return Parameter::Group(parameters(&json["parameters"])),
        "uniform" => Law::Uniform { min: bounds().0, max: bounds().1 },
        "log_uniform" => Law::LogUniform { min: range().0, max: range().1 },
        "log_uniform_values" => Law::LogUniformValues { min: bounds().0, max: bounds().1 },
        "inv_log_uniform" => Law::InvLogUniform { min: range().0, max: range().1 },
        "inv_log_uniform_values" => Law::InvLogUniformValues { min: bounds().0, max: bounds().1 },
        "normal" => Law::Normal { mu: number("mu", json!(0.0)), sigma: sigma() },
        "log_normal" => Law::LogNormal { mu: float("mu", 0.0), sigma: sigma() },
        "beta" => Law::Beta { a: float("a", 1.0), b: float("b", 1.0) },
        other => panic!("{other}"),
    };
    if distribution.starts_with("q_") {
        Parameter::Quantized { law, q: number("q", json!(1.0)) }
    } else {
        Parameter::Real(law)
    }
}

fn parameters(json: &Value) -> IndexMap<String, Parameter> {
    let entries = json.as_object().unwrap().iter();
    entries.map(|(name, json)| (name.clone(), parameter(json))).collect()
}

/// A sweep over these parameters.
pub(super) fn sweep(method: Method, json: &Value) -> SweepSpec {
    let bare = json!({"method": method, "parameters": {}});
    let spec: SweepSpec = serde_json::from_value(bare).unwrap();
    SweepSpec { parameters: parameters(json), ..spec }
}

/// The points from the first one on.
pub(super) fn points(spec: &SweepSpec) -> impl Iterator<Item = Config> + '_ {
    (0..).map_while(|slot| configuration(spec, 0, slot))
}

/// The cases of one file.
pub(crate) fn cases(file: &str) -> Vec<Value> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/vectors");
    let folder = env::var_os("SWEEPCTL_TEST_VECTORS").map_or(PathBuf::from(own), PathBuf::from);
    let text = fs::read_to_string(folder.join(file)).unwrap();
    let vectors: Value = serde_json::from_str(&text).unwrap();
    vectors["cases"].as_array().unwrap().clone()
}

#[test]
fn quantiles_are_those_of_the_reference() {
    for case in cases("quantiles.json") {
        let parameter = parameter(&case["filled"]);
        let tolerance = match &parameter {
            Parameter::Real(Law::Beta { .. }) => 1e-7,
            Parameter::Real(_) => 1e-9,
            _ => 1e-12,
        };
        for (u, want) in case["u"].as_array().unwrap().iter().zip(case["x"].as_array().unwrap()) {
            let got = quantile(&parameter, u.as_f64().unwrap());
            match (got.as_f64(), want.as_f64()) {
                (Some(x), Some(y)) if got.is_f64() && want.is_f64() => {
                    assert!((x - y).abs() <= tolerance * y.abs(), "{case} at {u}: {got}");
                }
                _ => assert_eq!(got.to_string(), want.to_string(), "{case} at {u}"),
            }
        }
    }
}

/// Whether a run has a point's value for each of `axes`, paths of names.
fn covers(run: &Value, point: &Value, axes: &[Vec<&String>], known_keys: &[String]) -> bool {
    axes.iter().all(|path| {
        let at = |value: &Value| {
            let found = path.iter().try_fold(value, |value, name| value.get(name.as_str()));
            let mut value = found?.clone();
            if let Value::Object(map) = &mut value {
                map.retain(|key, _| known_keys.contains(key));
            }
            Some(value)
        };
        let (run, point) = (at(run), at(point));
        run.is_some() && run.as_ref().map(Identity::of) == point.as_ref().map(Identity::of)
    })
}

fn swept<'a>(
    parameters: &'a IndexMap<String, Parameter>,
    path: &[&'a String],
    axes: &mut Vec<Vec<&'a String>>,
    known_keys: &mut Vec<String>,
) {
    for (name, parameter) in parameters {
        let path = [path, &[name]].concat();
        match parameter {
            Parameter::Constant(_) => {}
            Parameter::Group(members) => swept(members, &path, axes, known_keys),
            other => {
                if let Parameter::Categorical(values) = other {
                    let maps = values.iter().filter_map(Value::as_object);
                    known_keys.extend(maps.flat_map(|map| map.keys().cloned()));
                }
                axes.push(path);
            }
        }
    }
}

#[test]
fn grids_are_those_of_the_reference() {
    for case in cases("grid.json") {
        let spec = sweep(Method::Grid, &case["config"]["parameters"]);
        if case.get("error").is_some() {
            assert!(Grid::open(&spec).is_none(), "{case}");
            assert_eq!(configuration(&spec, 0, 0), None, "{case}");
            assert_eq!(spec.grid_size(), None, "{case}");
            continue;
        }
        let (mut axes, mut known_keys) = (Vec::new(), Vec::new());
        swept(&spec.parameters, &[], &mut axes, &mut known_keys);
        let all: Vec<Value> = points(&spec).map(|point| json!(point)).collect();
        assert_eq!(spec.grid_size(), Some(all.len() as u64), "{case}");
        let runs = case["runs"].as_array().unwrap();
        let left = all
            .iter()
            .filter(|point| !runs.iter().any(|run| covers(run, point, &axes, &known_keys)));
        let left: Vec<&Value> = left.collect();
        let wanted: Vec<&Value> = case["suggestions"].as_array().unwrap().iter().collect();
        assert_eq!(left, wanted, "{case}");
    }
}
