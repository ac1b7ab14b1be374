//! Grid search by mixed radix: a slot's digits pick the values.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Config, sorted};
use crate::sweep::{Parameter, SweepSpec};

/// One parameter's distinct values.
enum Axis<'a> {
    Values(Vec<&'a Value>),
    Integers { min: i64, count: u128 },
}

impl Axis<'_> {
    /// `None` for a continuous parameter, which has no grid.
    fn of(parameter: &Parameter) -> Option<Axis<'_>> {
        match parameter {
            Parameter::Constant(value) => Some(Axis::Values(vec![value])),
            Parameter::Categorical(values) => Some(Axis::Values(distinct(values))),
            Parameter::IntUniform { min, max } => {
                let count = i128::from(*max) - i128::from(*min) + 1;
                Some(Axis::Integers { min: *min, count: u128::try_from(count).unwrap_or(0) })
            }
            _ => None,
        }
    }

    fn len(&self) -> u128 {
        match self {
            Axis::Values(values) => values.len() as u128,
            Axis::Integers { count, .. } => *count,
        }
    }

    fn value(&self, digit: u128) -> Option<Value> {
        match self {
            Axis::Values(values) => values.get(usize::try_from(digit).ok()?).copied().cloned(),
            Axis::Integers { min, .. } => {
                let value = i128::from(*min).checked_add(i128::try_from(digit).ok()?)?;
                Some(Value::from(i64::try_from(value).ok()?))
            }
        }
    }
}

/// The point of a slot, `None` beyond the grid.
pub(super) fn point(spec: &SweepSpec, slot: u64) -> Option<Config> {
    let mut rest = u128::from(slot);
    let mut chosen = Vec::new();
    for (name, parameter) in sorted(spec).into_iter().rev() {
        let axis = Axis::of(parameter)?;
        let digit = rest.checked_rem(axis.len())?;
        rest = rest.checked_div(axis.len())?;
        chosen.push((name.clone(), axis.value(digit)?));
    }
    (rest == 0).then(|| chosen.into_iter().rev().collect())
}

/// How many distinct points the grid has; `None` if a parameter is continuous.
pub(super) fn size(spec: &SweepSpec) -> Option<u64> {
    let mut size = 1_u128;
    for parameter in spec.parameters.values() {
        size = size.saturating_mul(Axis::of(parameter)?.len());
    }
    Some(u64::try_from(size).unwrap_or(u64::MAX))
}

/// The values without repeats: each at its first rank, spelled as listed last.
fn distinct(values: &[Value]) -> Vec<&Value> {
    let mut by_identity = IndexMap::new();
    for value in values {
        let mut identity = String::new();
        identify(value, &mut identity);
        by_identity.insert(identity, value);
    }
    by_identity.into_values().collect()
}

/// A text that is the same for equal values only: 3 equals 3.0, true and 1 differ, and the order
/// of a mapping's keys does not matter.
fn identify(value: &Value, out: &mut String) {
    // Writing to a `String` cannot fail.
    match value {
        Value::Number(number) => match number.as_f64() {
            // Every integer that a float of this size can be fits an `i128`.
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 1e30 => {
                let _ = write!(out, "{}", float as i128);
            }
            Some(float) if number.is_f64() => {
                let _ = write!(out, "{float:e}");
            }
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        Value::Array(items) => {
            out.push('[');
            for item in items {
                identify(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            out.push('{');
            for (key, item) in entries {
                let _ = write!(out, "{key:?}:");
                identify(item, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) => {
            let _ = write!(out, "{value}");
        }
        Value::String(text) => {
            let _ = write!(out, "{text:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::search::configuration;
    use crate::sweep::{SweepSpec, read};
    use serde_json::json;

    fn grid(parameters: &str) -> SweepSpec {
        let text = format!("program: p\nmethod: grid\nparameters: {parameters}\n");
        read(text.as_bytes(), "s").unwrap().spec
    }

    fn points(spec: &SweepSpec) -> Vec<String> {
        let points = (0..).map_while(|slot| configuration(spec, 0, slot));
        points.map(|point| serde_json::to_string(&point).unwrap()).collect()
    }

    #[test]
    fn the_last_name_varies_fastest_and_capitals_come_first() {
        let spec = grid("{b: {values: [1, 2]}, C: {values: [x, y]}, a: {value: 0}}");
        assert_eq!(
            points(&spec),
            [
                r#"{"C":"x","a":0,"b":1}"#,
                r#"{"C":"x","a":0,"b":2}"#,
                r#"{"C":"y","a":0,"b":1}"#,
                r#"{"C":"y","a":0,"b":2}"#,
            ]
        );
        assert_eq!(spec.grid_size(), Some(4));
    }

    #[test]
    fn equal_values_collapse_and_the_last_spelling_is_handed_out() {
        let table: [(&str, &[&str]); 6] = [
            ("[3, 3.0, 3000000, 3.0e+6]", &["3.0", "3000000.0"]),
            ("[true, 1, '1', 1.0]", &["true", "1.0", "\"1\""]),
            ("[[8, 8], [16], [8.0, 8]]", &["[8.0,8]", "[16]"]),
            ("[{a: 1, b: 2}, {b: 2, a: 1.0}, {a: 2}]", &["{\"a\":1.0,\"b\":2}", "{\"a\":2}"]),
            ("[null, '', ~, none]", &["null", "\"\"", "\"none\""]),
            ("[0.0, -0.0]", &["-0.0"]),
        ];
        for (values, want) in table {
            let spec = grid(&format!("{{v: {{values: {values}}}}}"));
            let want: Vec<String> = want.iter().map(|v| format!("{{\"v\":{v}}}")).collect();
            assert_eq!(points(&spec), want);
            assert_eq!(spec.grid_size(), Some(want.len() as u64));
        }
    }

    #[test]
    fn both_bounds_of_integers_are_part_of_the_grid() {
        let spec = grid("{n: {min: -1, max: 1}}");
        assert_eq!(points(&spec), [r#"{"n":-1}"#, r#"{"n":0}"#, r#"{"n":1}"#]);
    }

    #[test]
    fn a_grid_of_a_trillion_points_opens_at_once() {
        let spec = grid("{a: {min: 1, max: 1000000}, b: {min: 1, max: 1000000}}");
        assert_eq!(spec.grid_size(), Some(1_000_000_000_000));
        let point = configuration(&spec, 0, 999_999_999_999).unwrap();
        assert_eq!(serde_json::to_value(point).unwrap(), json!({"a": 1000000, "b": 1000000}));
        assert_eq!(configuration(&spec, 0, 1_000_000_000_000), None);
    }

    #[test]
    fn a_size_beyond_64_bits_saturates() {
        let whole = format!("{{min: {}, max: {}}}", i64::MIN, i64::MAX);
        let spec = grid(&format!("{{a: {whole}, b: {whole}}}"));
        assert_eq!(spec.grid_size(), Some(u64::MAX));
        let point = configuration(&spec, 0, u64::MAX).unwrap();
        assert_eq!(serde_json::to_value(point).unwrap(), json!({"a": i64::MIN, "b": i64::MAX}));
    }

    #[test]
    fn constants_alone_are_one_point() {
        assert_eq!(points(&grid("{a: {value: 1}}")), [r#"{"a":1}"#]);
    }
}
