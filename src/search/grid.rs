//! Grid search by mixed radix: a point's digits pick the values.

use std::collections::BTreeMap;

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

    /// How many distinct points there are; `None` if 128 bits cannot hold the number.
    #[must_use]
    pub fn size(&self) -> Option<u128> {
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

fn size(members: &[(&String, Branch<'_>)]) -> Option<u128> {
    members.iter().try_fold(1, |so_far: u128, (_, branch)| match branch {
        Branch::Constant(_) => Some(so_far),
        Branch::Axis(axis) => so_far.checked_mul(axis.len()),
        Branch::Group(members) => so_far.checked_mul(size(members)?),
    })
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
    if values.len() > SHORT {
        let all = values.iter().map(|value| (Identity::of(value), value));
        return all.collect::<IndexMap<_, _>>().into_values().collect();
    }
    let mut found: Vec<&Value> = Vec::with_capacity(values.len());
    for value in values {
        match found.iter_mut().find(|known| equal(known, value)) {
            Some(spelling) => *spelling = value,
            None => found.push(value),
        }
    }
    found
}

/// Up to here it is faster to compare each with each than to hash.
const SHORT: usize = 16;

/// Whether both have the same [`Identity`]: found without it for what lists mostly hold.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a == b,
        _ => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a == b,
            _ => Identity::of(a) == Identity::of(b),
        },
    }
}

/// What equal values share: 3 and 3.0 are one, true and 1 are two, and the order of a mapping's
/// keys does not matter.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Identity<'a> {
    Null,
    Bool(bool),
    /// An integer, also one written as a float.
    Whole(i128),
    /// The bits of any other float.
    Float(u64),
    Text(&'a str),
    List(Vec<Self>),
    Mapping(BTreeMap<&'a str, Self>),
}

impl<'a> Identity<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => {
                let float = number.as_f64().unwrap_or_default();
                let whole = number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
                match whole {
                    Some(whole) => Self::Whole(whole),
                    #[expect(clippy::cast_possible_truncation, reason = "whole, and in range")]
                    None if float.fract() == 0.0 && float.abs() < 1e38 => {
                        Self::Whole(float as i128)
                    }
                    None => Self::Float(float.to_bits()),
                }
            }
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            Value::Object(map) => Self::Mapping(
                map.iter().map(|(key, item)| (key.as_str(), Self::of(item))).collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::vectors::{points, sweep};
    use super::*;
    use crate::search::configuration;
    use crate::sweep::Method;
    use proptest::prelude::*;
    use serde_json::json;

    fn grid(parameters: Value) -> SweepSpec {
        sweep(Method::Grid, &parameters)
    }

    fn texts(spec: &SweepSpec) -> Vec<String> {
        points(spec).map(|point| json!(point).to_string()).collect()
    }

    /// The values of a grid with one parameter.
    fn values(parameter: Value) -> Vec<String> {
        let spec = grid(json!({"v": parameter}));
        let values: Vec<String> = points(&spec).map(|point| point["v"].to_string()).collect();
        assert_eq!(spec.grid_size(), Some(values.len() as u64));
        values
    }

    #[test]
    fn the_last_name_varies_fastest_and_capitals_come_first() {
        let spec = grid(json!({
            "b": {"values": [1, 2]}, "C": {"values": ["x", "y"]}, "a": {"value": 0}
        }));
        assert_eq!(
            texts(&spec),
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
    fn a_group_is_walked_where_its_name_stands() {
        let spec = grid(json!({
            "z": {"values": [1, 2]},
            "m": {"parameters": {
                "y": {"values": ["a", "b"]}, "k": {"value": 0}, "n": {"parameters": {"x": {"min": 5, "max": 6}}}
            }},
            "A": {"values": [true]},
        }));
        let all = texts(&spec);
        assert_eq!(all.len(), 8);
        assert_eq!(all[0], r#"{"A":true,"m":{"k":0,"n":{"x":5},"y":"a"},"z":1}"#);
        assert_eq!(all[1], r#"{"A":true,"m":{"k":0,"n":{"x":5},"y":"a"},"z":2}"#);
        assert_eq!(all[2], r#"{"A":true,"m":{"k":0,"n":{"x":5},"y":"b"},"z":1}"#);
        assert_eq!(all[4], r#"{"A":true,"m":{"k":0,"n":{"x":6},"y":"a"},"z":1}"#);
        let grid = Grid::open(&spec).unwrap();
        assert_eq!(json!(grid.last()).to_string(), all[7]);
        assert_eq!(json!(grid.axes()).to_string(), r#"{"A":1,"m.n.x":2,"m.y":2,"z":2}"#);
    }

    #[test]
    fn equal_values_collapse_and_the_last_spelling_is_handed_out() {
        let table: [(Value, &[&str]); 7] = [
            (json!([3, 3.0, 3_000_000, 3e6]), &["3.0", "3000000.0"]),
            (json!([true, 1, "1", 1.0]), &["true", "1.0", "\"1\""]),
            (json!([[8, 8], [16], [8.0, 8]]), &["[8.0,8]", "[16]"]),
            (
                json!([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}, {"a": 2}]),
                &["{\"b\":2,\"a\":1.0}", "{\"a\":2}"],
            ),
            (json!([null, "", null, "none"]), &["null", "\"\"", "\"none\""]),
            (json!([0.0, -0.0]), &["-0.0"]),
            (json!([1e300, 1e16, 10_000_000_000_000_000_u64]), &["1e+300", "10000000000000000"]),
        ];
        for (list, want) in table {
            assert_eq!(values(json!({"values": list})), want);
        }
    }

    #[test]
    fn long_lists_collapse_as_short_ones_do() {
        let list =
            json!([3, 3.0, true, 1, "1", 1.0, [8, 8.0], null, -0.0, 0.5, {"a": 1}, 1e300, 0]);
        let short = list.as_array().unwrap();
        let long: Vec<Value> = short.iter().chain(short).chain(short).cloned().collect();
        assert!(short.len() <= SHORT && long.len() > SHORT);
        assert_eq!(values(json!({"values": long})), values(json!({"values": short})));
    }

    #[test]
    fn both_bounds_of_integers_are_part_of_the_grid() {
        assert_eq!(values(json!({"min": -1, "max": 1})), ["-1", "0", "1"]);
    }

    #[test]
    fn steps_are_those_of_numpy() {
        let table: [(Value, &[&str]); 6] = [
            (json!({"min": 1, "max": 10, "q": 3}), &["1", "4", "7"]),
            (json!({"min": 1, "max": 8, "q": 3}), &["1", "4", "7"]),
            (json!({"min": 1, "max": 3, "q": 1.0}), &["1.0", "2.0"]),
            (json!({"min": 1, "max": 3.0, "q": 1}), &["1.0", "2.0"]),
            (json!({"min": 0.0, "max": 1.0, "q": 5.0}), &["0.0"]),
            (
                json!({"min": -5, "max": u64::MAX, "q": 1_u64 << 63}),
                &["-5", "9223372036854775803", "18446744073709551611"],
            ),
        ];
        for (mut json, want) in table {
            json["distribution"] = json!("q_uniform");
            assert_eq!(values(json), want);
        }
    }

    #[test]
    fn what_cannot_be_counted_is_no_grid() {
        let uncountable = [
            json!({"min": 0.0, "max": 1.0}),
            json!({"values": [1, 2], "probabilities": [0.5, 0.5]}),
            json!({"distribution": "q_normal", "q": 1}),
            json!({"distribution": "q_log_uniform_values", "min": 1, "max": 8, "q": 1}),
            json!({"distribution": "beta"}),
            // Floats cannot tell these steps apart, nor could anyone run so many.
            json!({"distribution": "q_uniform", "min": 1.0, "max": 2.0, "q": 1e-16}),
            json!({"distribution": "q_uniform", "min": 1.0, "max": 2.0, "q": 5e-324}),
            json!({"distribution": "q_uniform", "min": -1e308, "max": f64::MAX, "q": 1e290}),
            json!({"distribution": "q_uniform", "min": 0.0, "max": 1.0, "q": 1e-17}),
        ];
        for json in uncountable {
            let group = json!({"parameters": {"a": {"value": 1}, "b": json}});
            for json in [json, group] {
                let spec = grid(json!({"a": json}));
                assert!(!countable(&spec.parameters["a"]), "{json}");
                assert_eq!(spec.grid_size(), None);
                assert_eq!(configuration(&spec, 0, 0), None);
            }
        }
    }

    #[test]
    fn a_grid_of_a_trillion_points_opens_at_once() {
        let spec =
            grid(json!({"a": {"min": 1, "max": 1_000_000}, "b": {"min": 1, "max": 1_000_000}}));
        assert_eq!(spec.grid_size(), Some(1_000_000_000_000));
        let point = configuration(&spec, 0, 999_999_999_999).unwrap();
        assert_eq!(json!(point), json!({"a": 1_000_000, "b": 1_000_000}));
        assert_eq!(Grid::open(&spec).unwrap().last(), Some(point));
        assert_eq!(configuration(&spec, 0, 1_000_000_000_000), None);
    }

    #[test]
    fn a_size_beyond_64_bits_saturates() {
        let whole = json!({"min": i64::MIN, "max": i64::MAX});
        let spec = grid(json!({"a": whole, "b": whole}));
        assert_eq!(spec.grid_size(), Some(u64::MAX));
        let point = configuration(&spec, 0, u64::MAX).unwrap();
        assert_eq!(json!(point), json!({"a": i64::MIN, "b": i64::MAX}));
        let spec = grid(json!({"a": whole, "b": whole, "c": whole}));
        let grid = Grid::open(&spec).unwrap();
        assert_eq!(grid.size(), None);
        assert_eq!(grid.axes()["c"], 1 << 64);
        let last = json!({"a": i64::MAX, "b": i64::MAX, "c": i64::MAX});
        assert_eq!(json!(grid.last()), last);
    }

    #[test]
    fn constants_alone_are_one_point() {
        let spec = grid(json!({"a": {"value": 1}}));
        assert_eq!(texts(&spec), [r#"{"a":1}"#]);
        assert!(Grid::open(&spec).unwrap().axes().is_empty());
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            prop::sample::select(vec![
                json!(null),
                json!(true),
                json!(1),
                json!(1.0),
                json!("1"),
                json!(-0.0)
            ]),
            prop::sample::select(vec![
                json!(0),
                json!(0.0),
                json!(1e300),
                json!(0.1),
                json!(u64::MAX)
            ]),
            (0_i64..1 << 60).prop_map(Value::from),
            (0_i64..1 << 60).prop_map(|n| Value::from(n as f64)),
        ];
        leaf.prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::hash_map("[ab]", inner, 0..3).prop_map(|map| json!(map)),
            ]
        })
    }

    fn any_parameter() -> impl Strategy<Value = Value> {
        let value = prop_oneof![
            (-2..3).prop_map(Value::from),
            (-2..3).prop_map(|n| Value::from(f64::from(n) / 2.0)),
            prop::sample::select(vec![
                json!(null),
                json!(true),
                json!("1"),
                json!([1]),
                json!([1.0])
            ]),
        ];
        let leaf = prop_oneof![
            value.clone().prop_map(|value| json!({"value": value})),
            prop::collection::vec(value, 1..6).prop_map(|values| json!({"values": values})),
            (-3..3, 1..4).prop_map(|(min, n)| json!({"min": min, "max": min + n})),
            (-3..3, 1..9, 1..9).prop_map(|(min, n, q)| {
                let (min, max) = (f64::from(min) / 4.0, f64::from(min + n) / 4.0);
                json!({"distribution": "q_uniform", "min": min, "max": max, "q": f64::from(q) / 10.0})
            }),
        ];
        leaf.prop_recursive(2, 6, 3, |inner| {
            prop::collection::hash_map("[a-cA]", inner, 1..3)
                .prop_map(|members| json!({"parameters": members}))
        })
    }

    proptest! {
        #[test]
        fn both_ways_to_find_equal_values_agree(values in prop::collection::vec(any_value(), 2..6)) {
            for (one, other) in values.iter().zip(&values[1..]) {
                prop_assert_eq!(equal(one, other), Identity::of(one) == Identity::of(other));
            }
            // Enough repeats to go the other way.
            let many: Vec<Value> = std::iter::repeat_n(&values, 17).flatten().cloned().collect();
            prop_assert_eq!(distinct(&many), distinct(&values));
        }

        #[test]
        fn every_point_comes_once_and_the_size_is_their_number(
            parameters in prop::collection::hash_map("[a-d]", any_parameter(), 0..4),
        ) {
            let spec = grid(json!(parameters));
            let grid = Grid::open(&spec).unwrap();
            let size = grid.size().unwrap_or(u128::MAX);
            prop_assume!(size < 5000);
            let all: Vec<Config> = (0..size).map(|rank| grid.point(rank).unwrap()).collect();
            prop_assert_eq!(grid.point(size), None);
            prop_assert_eq!(grid.last(), all.last().cloned());
            let axes = grid.axes();
            prop_assert_eq!(axes.values().product::<u128>(), size);
            let points: Vec<Value> = all.iter().map(|point| json!(point)).collect();
            let mut seen = std::collections::HashSet::new();
            for point in &points {
                prop_assert!(seen.insert(Identity::of(point)), "{point:?}");
            }
        }
    }
}
