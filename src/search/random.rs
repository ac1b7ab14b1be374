//! Random search: draws that depend on nothing but (seed, slot, parameter name).

use serde_json::Value;

use super::{Config, sorted};
use crate::sweep::{Law, Parameter, SweepSpec};

/// The draw of a slot.
pub(super) fn draw(spec: &SweepSpec, seed: u64, slot: u64) -> Config {
    let value = |(name, parameter): (&String, &Parameter)| {
        (name.clone(), quantile(parameter, uniform(seed, slot, name)))
    };
    sorted(spec).into_iter().map(value).collect()
}

/// A number of the open interval (0, 1), a multiple of 2^-53.
///
/// `h = mix(seed + G)`, then `h = mix((h ^ slot) + G)`, then `h = mix((h ^ w) + G)` for the
/// FNV-1a hash `w` of the name, where `mix` and `G` are splitmix64's. The result is
/// `((h >> 12) + 1/2) / 2^52`. Sweeps on disk rely on this: it must never change.
fn uniform(seed: u64, slot: u64, name: &str) -> f64 {
    let word = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    unit([slot, word].into_iter().fold(mix(seed), |hash, part| mix(hash ^ part)))
}

/// 64 random bits as a number of the open interval (0, 1): neither end can come.
fn unit(bits: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "52 bits fit")]
    let whole = (bits >> 12) as f64;
    (whole + 0.5) / 4_503_599_627_370_496.0
}

/// One step of splitmix64.
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The parameter's quantile function at `u`.
fn quantile(parameter: &Parameter, u: f64) -> Value {
    match parameter {
        Parameter::Constant(value) => value.clone(),
        Parameter::Categorical(values) => {
            let index = step(values.len() as u128, u);
            let value = usize::try_from(index).ok().and_then(|index| values.get(index));
            value.cloned().unwrap_or(Value::Null)
        }
        Parameter::IntUniform { min, max } => {
            let count = u128::try_from(i128::from(*max) - i128::from(*min) + 1).unwrap_or(1);
            let value = i128::from(*min) + i128::try_from(step(count, u)).unwrap_or(0);
            Value::from(i64::try_from(value).unwrap_or(*max))
        }
        Parameter::Real(Law::Uniform { min, max }) => {
            let (min, max) = (min.as_f64().unwrap_or(0.0), max.as_f64().unwrap_or(1.0));
            let width = max - min;
            // Bounds of opposite sign can be further apart than any float is large.
            let value = if width.is_finite() { min + u * width } else { min * (1.0 - u) + max * u };
            Value::from(value.max(min).min(max))
        }
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
    use super::*;
    use crate::search::configuration;
    use proptest::prelude::*;
    use serde_json::json;

    fn json_number(value: f64) -> serde_json::Number {
        serde_json::Number::from_f64(value).unwrap()
    }

    fn spec(parameters: &str) -> SweepSpec {
        let text = format!("program: p\nmethod: random\nparameters: {parameters}\n");
        crate::sweep::read(text.as_bytes(), "s").unwrap().spec
    }

    #[test]
    fn draws_never_change_between_versions() {
        let spec = spec("{lr: {min: 0.0, max: 1.0}, n: {min: 1, max: 100}, o: {values: [a, b]}}");
        insta::assert_snapshot!(
            (0..3)
                .map(|slot| json!(configuration(&spec, 7, slot)).to_string())
                .collect::<Vec<_>>()
                .join("\n"),
            @r#"
            {"lr":0.8936724281547223,"n":13,"o":"b"}
            {"lr":0.8382104034271841,"n":91,"o":"a"}
            {"lr":0.21693969416675907,"n":53,"o":"a"}
            "#
        );
    }

    #[test]
    fn another_parameter_changes_no_draw() {
        let few = configuration(&spec("{b: {min: 0, max: 9999}}"), 1, 5).unwrap();
        let more = spec("{b: {min: 0, max: 9999}, a: {min: 0, max: 9999}}");
        let many = configuration(&more, 1, 5).unwrap();
        assert_eq!(few["b"], many["b"]);
        assert_ne!(many["a"], many["b"]);
    }

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
    fn the_ends_of_the_interval_cannot_come() {
        assert!(unit(0) > 0.0);
        assert!(unit(u64::MAX) < 1.0);
    }

    #[test]
    fn draws_are_spread_evenly() {
        const BINS: usize = 20;
        const DRAWS: u64 = 20_000;
        // By slot with a fixed seed, and by seed with a fixed slot.
        let by_slot = (0..DRAWS).map(|slot| uniform(42, slot, "lr"));
        let by_seed = (0..DRAWS).map(|seed| uniform(seed, 3, "lr"));
        for draws in [by_slot.collect::<Vec<f64>>(), by_seed.collect()] {
            let mut bins = [0_u32; BINS];
            for u in draws {
                bins[(u * BINS as f64) as usize] += 1;
            }
            let expected = DRAWS as f64 / BINS as f64;
            let chi_square: f64 =
                bins.iter().map(|n| (f64::from(*n) - expected).powi(2) / expected).sum();
            // 19 degrees of freedom: 43.8 is passed once in a thousand seeds.
            assert!(chi_square < 43.8, "{chi_square}");
        }
    }

    #[test]
    fn two_parameters_of_a_slot_are_independent() {
        let mut bins = [[0_u32; 5]; 5];
        for slot in 0..10_000 {
            let at = |name| (uniform(0, slot, name) * 5.0) as usize;
            bins[at("a")][at("b")] += 1;
        }
        let chi_square: f64 =
            bins.iter().flatten().map(|n| (f64::from(*n) - 400.0).powi(2) / 400.0).sum();
        // 24 degrees of freedom: 51.2 is passed once in a thousand seeds.
        assert!(chi_square < 51.2, "{chi_square}");
    }

    proptest! {
        #[test]
        fn draws_are_inside_the_open_interval_and_repeatable(seed: u64, slot: u64, name: String) {
            let u = uniform(seed, slot, &name);
            prop_assert!(u > 0.0 && u < 1.0);
            prop_assert_eq!(u, uniform(seed, slot, &name));
        }

        #[test]
        fn values_are_within_their_bounds(
            seed: u64,
            slot: u64,
            a: i64,
            b: i64,
            x in any::<f64>().prop_filter("finite", |f| f.is_finite()),
            y in any::<f64>().prop_filter("finite", |f| f.is_finite()),
        ) {
            prop_assume!(a != b && x != y);
            let u = uniform(seed, slot, "p");
            let (min, max) = (a.min(b), a.max(b));
            let value = quantile(&Parameter::IntUniform { min, max }, u).as_i64().unwrap();
            prop_assert!(min <= value && value <= max);
            let (min, max) = (x.min(y), x.max(y));
            let value = quantile(&Parameter::Real(Law::Uniform { min: json_number(min), max: json_number(max) }), u).as_f64().unwrap();
            prop_assert!(min <= value && value <= max);
        }
    }
}
