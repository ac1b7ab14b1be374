//! What a parameter is at a probability: the inverse of its distribution function.
//!
//! Nothing here gives NaN or an infinity, whatever the parameter: results beyond the largest float
//! become that float, and integers beyond 64 bits the multiple of `q` next to the end.

use libm::{exp, log};
use serde_json::{Number, Value};

use super::special::{beta_quantile, normal_quantile};
use crate::sweep::{Law, Parameter};

/// The value at `u` of (0, 1).
pub(super) fn quantile(parameter: &Parameter, u: f64) -> Value {
    match parameter {
        Parameter::Constant(value) => value.clone(),
        Parameter::Categorical(values) => {
            let index = step(values.len() as u128, u);
            let value = usize::try_from(index).ok().and_then(|index| values.get(index));
            value.cloned().unwrap_or(Value::Null)
        }
        Parameter::Weighted { values, probabilities } => weighted(values, probabilities, u),
        Parameter::IntUniform { min, max } => {
            let count = u128::try_from(i128::from(*max) - i128::from(*min) + 1).unwrap_or(1);
            let value = i128::from(*min) + i128::try_from(step(count, u)).unwrap_or(0);
            Value::from(i64::try_from(value).unwrap_or(*max))
        }
        Parameter::Real(law) => Value::from(real(law, u)),
        Parameter::Quantized { law, q } => quantized(real(law, u), q),
        Parameter::Group(_) => Value::Null,
    }
}

/// The first value at which the probabilities so far exceed `u`.
fn weighted(values: &[Value], probabilities: &[f64], u: f64) -> Value {
    let mut sum = 0.0;
    let mut chosen = None;
    for (value, probability) in values.iter().zip(probabilities) {
        sum += probability;
        // Rounding can leave the sum below 1; a value of probability 0 never comes.
        if *probability > 0.0 {
            chosen = Some(value);
        }
        if u < sum {
            break;
        }
    }
    chosen.or(values.first()).cloned().unwrap_or(Value::Null)
}

/// Whether every value that can be drawn is held by a number: a float, or 64 bits if `q` is an
/// integer.
///
/// If not, draws are cut to what a number holds, and the reader warns. A group's values are held
/// if all its members' are.
#[must_use]
pub fn representable(parameter: &Parameter) -> bool {
    // The smallest and the largest number that draws use.
    let ends = [f64::EPSILON / 2.0, 1.0 - f64::EPSILON / 2.0];
    match parameter {
        Parameter::Real(law) => ends.iter().all(|u| unbounded(law, *u).is_finite()),
        Parameter::Quantized { law, q } => ends.iter().all(|u| {
            let value = unbounded(law, *u);
            let step = q.as_f64().unwrap_or(1.0);
            let multiple = (value / step).round_ties_even() * step;
            // 2^63 and 2^64 as floats; both are beyond the integers that end there.
            let (least, most) = (-9_223_372_036_854_775_808.0, 18_446_744_073_709_551_616.0);
            value.is_finite() && (q.is_f64() || (multiple >= least && multiple < most))
        }),
        Parameter::Group(members) => members.values().all(representable),
        _ => true,
    }
}

/// A continuous distribution's value, always finite.
fn real(law: &Law, u: f64) -> f64 {
    finite(unbounded(law, u))
}

fn unbounded(law: &Law, u: f64) -> f64 {
    match law {
        Law::Uniform { min, max } => {
            between(min.as_f64().unwrap_or(0.0), max.as_f64().unwrap_or(1.0), u)
        }
        Law::LogUniform { min, max } => exp(between(*min, *max, u)),
        Law::InvLogUniform { min, max } => exp(-between(*min, *max, 1.0 - u)),
        Law::LogUniformValues { min, max } | Law::InvLogUniformValues { min, max } => {
            let (min, max) = (min.as_f64().unwrap_or(1.0), max.as_f64().unwrap_or(1.0));
            exp(between(log(min), log(max), u)).max(min).min(max)
        }
        Law::Normal { mu, sigma } => mu.as_f64().unwrap_or(0.0) + sigma * normal_quantile(u),
        Law::LogNormal { mu, sigma } => exp(mu + sigma * normal_quantile(u)),
        Law::Beta { a, b } => beta_quantile(*a, *b, u),
    }
}

pub(super) fn finite(value: f64) -> f64 {
    value.clamp(f64::MIN, f64::MAX)
}

fn between(min: f64, max: f64, u: f64) -> f64 {
    let width = max - min;
    // Bounds of opposite sign can be further apart than any float is large.
    let value = if width.is_finite() { min + u * width } else { min * (1.0 - u) + max * u };
    value.max(min).min(max)
}

/// The multiple of `q` nearest to `value`, the even one of two: an integer if `q` is one.
///
/// It is not cut to the bounds: W&B does not either.
pub(super) fn quantized(value: f64, q: &Number) -> Value {
    let step = q.as_f64().unwrap_or(1.0);
    let count = value / step;
    if q.is_f64() {
        // So small a step, or so large a value, that it is a multiple as far as floats can tell.
        let multiples = [count.round_ties_even() * step, count.trunc() * step, value];
        return multiples.into_iter().find(|multiple| multiple.is_finite()).into();
    }
    let step = q.as_u64().map_or(1, i128::from).max(1);
    let (least, most) = (i128::from(i64::MIN) / step, i128::from(u64::MAX) / step);
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is cut to it anyway")]
    let product = (count.round_ties_even() as i128).clamp(least, most) * step;
    match (i64::try_from(product), u64::try_from(product)) {
        (Ok(int), _) => Value::from(int),
        (_, Ok(int)) => Value::from(int),
        _ => Value::Null,
    }
}

/// The smallest `i` of `0..count` with `(i + 1) / count >= u`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "u is in (0, 1); where floats cannot tell neighbours apart, either will do"
)]
fn step(count: u128, u: f64) -> u128 {
    let n = count as f64;
    let mut i = ((u * n).ceil() as u128).saturating_sub(1).min(count.saturating_sub(1));
    // u * n is rounded, and so can be off by one step.
    if i > 0 && i as f64 / n >= u {
        i -= 1;
    } else if ((i + 1) as f64) / n < u && i + 1 < count {
        i += 1;
    }
    i
}

#[cfg(test)]
mod tests {
    use super::super::vectors::parameter;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const SMALLEST: f64 = 0.5 / 4_503_599_627_370_496.0;

    #[test]
    fn steps_follow_the_quantile_function() {
        let table = [(1, 0.5, 0), (2, 0.5, 0), (2, 0.5000001, 1), (4, 0.25, 0), (10, 0.3, 2)];
        for (count, u, want) in table {
            assert_eq!(step(count, u), want, "{count} {u}");
        }
        assert_eq!(step(3, f64::MIN_POSITIVE), 0);
        assert_eq!(step(3, 1.0 - f64::EPSILON / 2.0), 2);
    }

    #[test]
    fn a_value_of_probability_zero_never_comes() {
        let values = ["a", "b", "c", "d"].map(Value::from);
        // The sum is rounded to below 1.
        let weights = [0.0, 0.5, 0.5 - 1e-9, 0.0];
        for u in [SMALLEST, 0.25, 0.4999, 0.5, 0.75, 1.0 - 1e-9, 1.0 - SMALLEST] {
            let want = if u < 0.5 { "b" } else { "c" };
            assert_eq!(weighted(&values, &weights, u), want, "{u}");
        }
    }

    #[test]
    fn halves_are_rounded_to_the_even_multiple_and_kinds_are_kept() {
        let table = [
            (2.5, json!(1), json!(2)),
            (3.5, json!(1), json!(4)),
            (-2.5, json!(1), json!(-2)),
            (2.5, json!(1.0), json!(2.0)),
            (5.0, json!(2), json!(4)),
            (0.3, json!(0.1), json!(3.0 * 0.1)),
            (-0.2, json!(1.0), json!(-0.0)),
            (-0.2, json!(1), json!(0)),
        ];
        for (value, q, want) in table {
            let got = quantized(value, q.as_number().unwrap());
            assert_eq!(got.to_string(), want.to_string(), "{value} by {q}");
        }
    }

    #[test]
    fn what_no_number_can_hold_is_cut_to_the_end() {
        let max = f64::MAX;
        let table = [
            (json!({"distribution": "log_uniform", "min": 0, "max": 1e6}), json!(max)),
            (json!({"distribution": "inv_log_uniform", "min": -1e6, "max": 0}), json!(max)),
            (json!({"distribution": "normal", "mu": max, "sigma": max}), json!(max)),
            (json!({"distribution": "log_normal", "sigma": 1e300}), json!(max)),
            (json!({"distribution": "q_log_normal", "sigma": 1e300, "q": 1}), json!(u64::MAX)),
            (
                json!({"distribution": "q_log_normal", "sigma": 300, "q": 7}),
                json!(u64::MAX / 7 * 7),
            ),
            (json!({"distribution": "q_uniform", "min": 0, "max": max, "q": 1e308}), json!(1e308)),
            (
                json!({"distribution": "q_uniform", "min": 0.5, "max": 0.75, "q": 5e-324}),
                json!(0.75),
            ),
            (json!({"distribution": "q_beta", "a": 1e-300, "b": 1e-300, "q": 1}), json!(1)),
            (json!({"distribution": "q_beta", "a": 1, "b": 1, "q": u64::MAX}), json!(0)),
        ];
        for (json, want) in table {
            let got = quantile(&parameter(&json), 1.0 - SMALLEST);
            match (got.as_f64(), want.as_f64()) {
                (Some(x), Some(y)) if got.is_f64() && want.is_f64() => {
                    assert!((x - y).abs() <= 1e-15 * y, "{json}: {got}");
                }
                _ => assert_eq!(got, want, "{json}"),
            }
        }
        let lowest = quantile(
            &parameter(&json!({"distribution": "q_normal", "sigma": max, "q": 3})),
            SMALLEST,
        );
        assert_eq!(lowest, json!(i64::MIN / 3 * 3));
    }

    #[test]
    fn what_would_be_cut_is_known_beforehand() {
        let table = [
            (json!({"distribution": "log_uniform", "min": 0, "max": 709}), true),
            (json!({"distribution": "log_uniform", "min": 0, "max": 710}), false),
            (json!({"distribution": "inv_log_uniform", "min": -710, "max": 0}), false),
            (json!({"distribution": "log_normal", "sigma": 86}), true),
            (json!({"distribution": "log_normal", "sigma": 87}), false),
            (json!({"distribution": "q_log_normal", "mu": 3, "sigma": 5, "q": 1}), true),
            (json!({"distribution": "q_log_normal", "mu": 4, "sigma": 5, "q": 1}), false),
            (json!({"distribution": "q_log_normal", "mu": 4, "sigma": 5, "q": 1.0}), true),
            (json!({"distribution": "q_normal", "sigma": 1e20, "q": 5}), false),
            (json!({"distribution": "q_uniform", "min": 0, "max": f64::MAX, "q": 5e-324}), true),
            (json!({"distribution": "beta", "a": 5e-324, "b": f64::MAX}), true),
            (json!({"min": -1, "max": 1}), true),
        ];
        for (json, want) in table {
            assert_eq!(representable(&parameter(&json)), want, "{json}");
            let group = json!({"parameters": {"x": {"value": 1}, "y": json}});
            assert_eq!(representable(&parameter(&group)), want, "{group}");
        }
    }

    fn extreme() -> impl Strategy<Value = f64> {
        let ends =
            vec![0.0, 5e-324, 1e-308, 1e-300, 1e-5, 0.5, 1.0, 3.0, 1e5, 1e16, 1e300, f64::MAX];
        prop_oneof![
            prop::sample::select(ends),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(f64::abs),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_parameter_gives_anything_but_a_number_within_its_bounds(
            kind in 0_usize..9, x in extreme(), y in extreme(), sign: (bool, bool), bits: u64,
            q in extreme().prop_filter("above 0", |q| *q > 0.0), whole_q in 1..u64::MAX,
        ) {
            let u = ((bits >> 12) as f64 + 0.5) / 4_503_599_627_370_496.0;
            let signed = |x: f64, minus: bool| if minus { -x } else { x };
            let (any, other) = (signed(x, sign.0), signed(y, sign.1));
            prop_assume!(any != other && x != y);
            let (min, max) = (any.min(other), any.max(other));
            let (low, high) = (x.min(y).max(5e-324), x.max(y).max(1e-323));
            let (a, b) = (x.max(5e-324), y.max(5e-324));
            let number = |x| Number::from_f64(x).unwrap();
            let (law, bounds) = match kind {
                0 => (Law::Uniform { min: number(min), max: number(max) }, (min, max)),
                1 => (Law::LogUniform { min, max }, (0.0, f64::MAX)),
                2 => (Law::InvLogUniform { min, max }, (0.0, f64::MAX)),
                3 => (Law::LogUniformValues { min: number(low), max: number(high) }, (low, high)),
                4 => (Law::InvLogUniformValues { min: number(low), max: number(high) }, (low, high)),
                5 => (Law::Normal { mu: number(any), sigma: b }, (f64::MIN, f64::MAX)),
                6 => (Law::LogNormal { mu: any, sigma: b }, (0.0, f64::MAX)),
                _ => (Law::Beta { a, b }, (0.0, 1.0)),
            };
            let value = quantile(&Parameter::Real(law.clone()), u).as_f64();
            prop_assert!(value.is_some_and(|v| bounds.0 <= v && v <= bounds.1), "{law:?} {u} {value:?}");
            for (q, float) in [(number(q), true), (Number::from(whole_q), false), (Number::from(1), false)] {
                let value = quantile(&Parameter::Quantized { law: law.clone(), q: q.clone() }, u);
                prop_assert!(value.is_number() && value.is_f64() == float, "{law:?} {q} {u} {value}");
            }
        }

        #[test]
        fn integers_are_within_their_bounds(bits: u64, a: i64, b: i64) {
            prop_assume!(a != b);
            let u = ((bits >> 12) as f64 + 0.5) / 4_503_599_627_370_496.0;
            let (min, max) = (a.min(b), a.max(b));
            let value = quantile(&Parameter::IntUniform { min, max }, u).as_i64().unwrap();
            prop_assert!(min <= value && value <= max);
        }

        #[test]
        fn quantiles_grow_with_the_probability(
            kind in 0_usize..3, a in 1e-3..1e6_f64, b in 1e-3..1e6_f64, u in 0.0..1.0_f64, v in 0.0..1.0_f64,
        ) {
            prop_assume!(u > 0.0 && v > 0.0);
            let law = match kind {
                0 => Law::Beta { a, b },
                1 => Law::Normal { mu: Number::from_f64(a).unwrap(), sigma: b },
                _ => Law::InvLogUniform { min: -a, max: b },
            };
            let (low, high) = (real(&law, u.min(v)), real(&law, u.max(v)));
            prop_assert!(low <= high + 1e-9 * high.abs(), "{law:?} {u} {v}: {low} {high}");
        }
    }
}
