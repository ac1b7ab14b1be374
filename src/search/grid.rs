//! Grid search by mixed radix: a point's digits pick the values.

use std::fmt::Write as _;

use indexmap::IndexMap;
use serde_json::Value;

use super::{Config, sorted};
use crate::sweep::{Law, Parameter, SweepSpec};

/// Whether a parameter has countably many values, so that a grid can go through them.
///
/// A group has if all its members do.
#[must_use]
pub fn countable(parameter: &Parameter) -> bool {
    Branch::of(parameter).is_some()
}

/// The grid over a sweep's parameters: its points in order, none of them built before it is asked
/// for.
pub struct Grid<'a> {
    members: Vec<(&'a String, Branch<'a>)>,
}

impl<'a> Grid<'a> {
    /// `None` if a parameter is not [`countable`].
    ///
    /// The sweep's method does not matter.
    #[must_use]
    pub fn open(spec: &'a SweepSpec) -> Option<Self> {
        Some(Self { members: branches(&spec.parameters)? })
    }

    /// How many distinct points there are; saturates at `u128::MAX`.
    #[must_use]
    pub fn size(&self) -> u128 {
        size(&self.members)
    }

    /// How many distinct values each parameter that is no constant has, in the order of the walk.
    ///
    /// The name of a group's member has the group's name and a dot in front.
    #[must_use]
    pub fn axes(&self) -> IndexMap<String, u128> {
        let mut axes = IndexMap::new();
        list_axes("", &self.members, &mut axes);
        axes
    }

    /// The point of this rank, counted from 0; `None` beyond the end.
    ///
    /// Names are walked in the order of their code points, a group where its name stands; the
    /// last one varies fastest.
    #[must_use]
    pub fn point(&self, rank: u128) -> Option<Config> {
        let mut rest = rank;
        let mut digit = |axis: &Axis<'_>| {
            let digit = rest.checked_rem(axis.len())?;
            rest = rest.checked_div(axis.len())?;
            Some(digit)
        };
        let point = walk(&self.members, &mut digit)?;
        (rest == 0).then_some(point)
    }

    /// The last point, of whatever rank.
    #[must_use]
    pub fn last(&self) -> Option<Config> {
        walk(&self.members, &mut |axis| axis.len().checked_sub(1))
    }
}

/// A parameter as the grid sees it.
enum Branch<'a> {
    Constant(&'a Value),
    Axis(Axis<'a>),
    Group(Vec<(&'a String, Branch<'a>)>),
}

/// One parameter's distinct values.
enum Axis<'a> {
    Values(Vec<&'a Value>),
    Integers { first: i128, step: i128, count: u128 },
    Floats { first: f64, second: f64, count: u128 },
}

impl Branch<'_> {
    /// `None` for a parameter that cannot be counted.
    fn of(parameter: &Parameter) -> Option<Branch<'_>> {
        Some(match parameter {
            Parameter::Constant(value) => Branch::Constant(value),
            Parameter::Categorical(values) => Branch::Axis(Axis::Values(distinct(values))),
            Parameter::IntUniform { min, max } => {
                Branch::Axis(Axis::integers((*min).into(), 1, i128::from(*max) + 1))
            }
            Parameter::Quantized { law: Law::Uniform { min, max }, q } => {
                let ints = [min, max, q].map(|number| {
                    number.as_i64().map(i128::from).or(number.as_u64().map(i128::from))
                });
                Branch::Axis(match ints {
                    [Some(min), Some(max), Some(q)] => Axis::integers(min, q, max),
                    _ => Axis::floats(min.as_f64()?, q.as_f64()?, max.as_f64()?)?,
                })
            }
            Parameter::Group(members) => Branch::Group(branches(members)?),
            Parameter::Weighted { .. } | Parameter::Real(_) | Parameter::Quantized { .. } => {
                return None;
            }
        })
    }
}

impl Axis<'_> {
    /// `end` is excluded, as in Python's `range`.
    fn integers(first: i128, step: i128, end: i128) -> Self {
        let step = step.max(1);
        let count = u128::try_from((end - first + step - 1) / step).unwrap_or(0);
        Axis::Integers { first, step, count }
    }

    /// numpy's `arange`, rounding included; `None` if floats cannot tell the steps apart.
    fn floats(first: f64, step: f64, end: f64) -> Option<Self> {
        let second = first + step;
        let largest = first.abs().max(end.abs());
        let count = ((end - first) / step).ceil();
        if !(second - first >= largest.next_up() - largest && (1.0..=MOST_FLOATS).contains(&count))
        {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and in range"
        )]
        let count = count as u128;
        Some(Axis::Floats { first, second, count })
    }

    fn len(&self) -> u128 {
        match self {
            Axis::Values(values) => values.len() as u128,
            Axis::Integers { count, .. } | Axis::Floats { count, .. } => *count,
        }
    }

    fn value(&self, digit: u128) -> Option<Value> {
        match self {
            Axis::Values(values) => values.get(usize::try_from(digit).ok()?).copied().cloned(),
            Axis::Integers { first, step, .. } => {
                let value = i128::try_from(digit).ok()?.checked_mul(*step)?.checked_add(*first)?;
                i64::try_from(value).map(Value::from).or(u64::try_from(value).map(Value::from)).ok()
            }
            Axis::Floats { second, .. } if digit == 1 => Some(Value::from(*second)),
            #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
            Axis::Floats { first, second, .. } => {
                Some(Value::from(first + digit as f64 * (second - first)))
            }
        }
    }
}

/// 2^53: up to here floats can count.
const MOST_FLOATS: f64 = 9_007_199_254_740_992.0;

fn branches(parameters: &IndexMap<String, Parameter>) -> Option<Vec<(&String, Branch<'_>)>> {
    let parameters = sorted(parameters).into_iter();
    parameters.map(|(name, parameter)| Some((name, Branch::of(parameter)?))).collect()
}

fn size(members: &[(&String, Branch<'_>)]) -> u128 {
    let sizes = members.iter().map(|(_, branch)| match branch {
        Branch::Constant(_) => 1,
        Branch::Axis(axis) => axis.len(),
        Branch::Group(members) => size(members),
    });
    sizes.fold(1, u128::saturating_mul)
}

fn list_axes(prefix: &str, members: &[(&String, Branch<'_>)], axes: &mut IndexMap<String, u128>) {
    for (name, branch) in members {
        let name = format!("{prefix}{name}");
        match branch {
            Branch::Constant(_) => {}
            Branch::Axis(axis) => {
                axes.insert(name, axis.len());
            }
            Branch::Group(members) => list_axes(&format!("{name}."), members, axes),
        }
    }
}

/// One value of each axis; `digit` is asked for its rank, last axis first.
fn walk<M>(
    members: &[(&String, Branch<'_>)],
    digit: &mut dyn FnMut(&Axis<'_>) -> Option<u128>,
) -> Option<M>
where
    M: FromIterator<(String, Value)>,
{
    let mut chosen = Vec::with_capacity(members.len());
    for (name, branch) in members.iter().rev() {
        let value = match branch {
            Branch::Constant(value) => (*value).clone(),
            Branch::Axis(axis) => axis.value(digit(axis)?)?,
            Branch::Group(members) => Value::Object(walk(members, digit)?),
        };
        chosen.push(((*name).clone(), value));
    }
    Some(chosen.into_iter().rev().collect())
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
pub(super) fn identify(value: &Value, out: &mut String) {
    // Writing to a `String` cannot fail.
    match value {
        Value::Number(number) => match number.as_f64() {
            // All digits of a whole float; the sum makes -0 a 0.
            Some(float) if number.is_f64() && float.fract() == 0.0 => {
                let _ = write!(out, "{:.0}", float + 0.0);
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
