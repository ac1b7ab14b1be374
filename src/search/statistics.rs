//! Whether draws have the distributions they are named after, and depend on nothing else.
//!
//! All of one seed: a test of these fails always or never.

use libm::erfc;
use serde_json::{Value, json};

use super::vectors::sweep;
use super::{Config, configuration};
use crate::sweep::Method;

const DRAWS: usize = 100_000;

/// Enough for what has been seen with all draws already.
const FEW_DRAWS: usize = 20_000;

/// The distribution function of a continuous parameter.
type Cdf = fn(f64) -> f64;

/// How likely each value is.
type Probabilities = Vec<(Value, f64)>;

fn normal(x: f64) -> f64 {
    erfc(-x / std::f64::consts::SQRT_2) / 2.0
}

/// Names, parameters and distribution functions written down by hand; more shapes in groups.
fn continuous(nested: bool) -> Vec<(&'static str, Value, Cdf)> {
    let mut all: Vec<(&str, Value, Cdf)> = vec![
        ("u", json!({"min": -2.0, "max": 6.0}), |x| (x + 2.0) / 8.0),
        ("lu", json!({"distribution": "log_uniform", "min": -3, "max": 2}), |x| {
            (x.ln() + 3.0) / 5.0
        }),
        ("luv", json!({"distribution": "log_uniform_values", "min": 1e-4, "max": 1}), |x| {
            1.0 + x.log10() / 4.0
        }),
        ("ilu", json!({"distribution": "inv_log_uniform", "min": -3, "max": 2}), |x| {
            (x.ln() + 2.0) / 5.0
        }),
        ("iluv", json!({"distribution": "inv_log_uniform_values", "min": 1e-4, "max": 1}), |x| {
            1.0 + x.log10() / 4.0
        }),
        ("n", json!({"distribution": "normal", "mu": 3, "sigma": 0.5}), |x| {
            normal((x - 3.0) / 0.5)
        }),
        ("ln", json!({"distribution": "log_normal", "mu": -1, "sigma": 2}), |x| {
            normal((x.ln() + 1.0) / 2.0)
        }),
        ("b25", json!({"distribution": "beta", "a": 2, "b": 5}), |x| {
            1.0 - (1.0 - x).powi(6) - 6.0 * x * (1.0 - x).powi(5)
        }),
    ];
    if nested {
        all.extend::<Vec<(&str, Value, Cdf)>>(vec![
            ("arcsine", json!({"distribution": "beta", "a": 0.5, "b": 0.5}), |x| {
                x.sqrt().asin() / std::f64::consts::FRAC_PI_2
            }),
            ("power", json!({"distribution": "beta", "a": 0.3, "b": 1}), |x| x.powf(0.3)),
            ("steep", json!({"distribution": "beta", "a": 1, "b": 300}), |x| {
                1.0 - (1.0 - x).powi(300)
            }),
        ]);
    }
    all
}

/// Names, parameters, and the probability of each value.
fn discrete() -> Vec<(&'static str, Value, Probabilities)> {
    let q_normal = |k: f64| normal(k + 0.5) - normal(k - 0.5);
    let q_beta = |x: f64| 1.0 - (1.0 - x).powi(6) - 6.0 * x * (1.0 - x).powi(5);
    vec![
        ("c", json!({"values": [1, "1", true, null]}), {
            [json!(1), json!("1"), json!(true), json!(null)].map(|v| (v, 0.25)).into()
        }),
        ("w", json!({"values": ["x", "y", "z", "z"], "probabilities": [0.1, 0.6, 0.0, 0.3]}), {
            vec![(json!("x"), 0.1), (json!("y"), 0.6), (json!("z"), 0.3)]
        }),
        ("i", json!({"min": -3, "max": 3}), (-3..4).map(|k| (json!(k), 1.0 / 7.0)).collect()),
        ("qu", json!({"distribution": "q_uniform", "min": 1, "max": 10, "q": 4}), {
            // Half a step is cut off at each end: 1..2 becomes 0, and 10 is a tie that cannot come.
            vec![(json!(0), 1.0 / 9.0), (json!(4), 4.0 / 9.0), (json!(8), 4.0 / 9.0)]
        }),
        ("qn", json!({"distribution": "q_normal", "mu": 0, "sigma": 2.0, "q": 2}), {
            (-5..6).map(|k| (json!(2 * k), q_normal(f64::from(k)))).collect()
        }),
        ("qb", json!({"distribution": "q_beta", "a": 2, "b": 5, "q": 0.25}), {
            let edges = [0.0, 0.125, 0.375, 0.625, 0.875, 1.0];
            let steps = edges.windows(2).enumerate();
            steps.map(|(k, e)| (json!(k as f64 * 0.25), q_beta(e[1]) - q_beta(e[0]))).collect()
        }),
        (
            "qlu",
            json!({"distribution": "q_log_uniform_values", "min": 0.5, "max": 2.5, "q": 1.0}),
            {
                let width = 5.0_f64.ln();
                // 0.5 and 2.5 are ties, and go to 0 and 2: but neither can come.
                vec![(json!(1.0), 3.0_f64.ln() / width), (json!(2.0), (5.0_f64 / 3.0).ln() / width)]
            },
        ),
    ]
}

/// Draws of all of them at the top level, or fewer of them in a group of a group.
fn draws(nested: bool) -> Vec<Config> {
    let mut all: serde_json::Map<String, Value> =
        continuous(nested).into_iter().map(|(name, json, _)| (name.to_owned(), json)).collect();
    all.extend(discrete().into_iter().map(|(name, json, _)| (name.to_owned(), json)));
    let mut parameters = Value::Object(all);
    if nested {
        parameters = json!({"g": {"parameters": {"h": {"parameters": parameters}}}});
    }
    let spec = sweep(Method::Random, &parameters);
    let slots = if nested { FEW_DRAWS } else { DRAWS };
    (0..slots as u64).map(|slot| configuration(&spec, 42, slot).unwrap()).collect()
}

fn of<'a>(draw: &'a Config, nested: bool, name: &str) -> &'a Value {
    if nested { &draw["g"]["h"][name] } else { &draw[name] }
}

fn chi_square(seen: &[u32], wanted: impl Iterator<Item = f64>) -> f64 {
    seen.iter().zip(wanted).map(|(n, want)| (f64::from(*n) - want).powi(2) / want).sum()
}

/// About the value that chi-square passes once in 10,000 seeds (Wilson and Hilferty).
fn chi_square_limit(freedom: usize) -> f64 {
    let n = freedom as f64;
    let part = 2.0 / (9.0 * n);
    n * (1.0 - part + 3.719 * part.sqrt()).powi(3)
}

#[test]
fn draws_have_their_distributions_and_do_not_depend_on_each_other() {
    // Each parameter as numbers spread evenly over (0, 1).
    let mut uniforms: Vec<(String, Vec<f64>)> = Vec::new();
    for nested in [false, true] {
        let draws = draws(nested);
        let n = draws.len() as f64;
        for (name, _, cdf) in continuous(nested) {
            let u: Vec<f64> =
                draws.iter().map(|draw| cdf(of(draw, nested, name).as_f64().unwrap())).collect();
            let mut ordered = u.clone();
            ordered.sort_by(f64::total_cmp);
            let ranks = ordered.iter().enumerate();
            let distance = ranks
                .map(|(i, u)| (u - i as f64 / n).max((i + 1) as f64 / n - u))
                .fold(0.0, f64::max);
            // Kolmogorov and Smirnov: passed once in 10,000 seeds.
            assert!(distance * n.sqrt() < 2.225, "{name}, nested {nested}: {distance}");
            uniforms.push((format!("{name}, nested {nested}"), u[..FEW_DRAWS].to_vec()));
        }
        for (name, _, wanted) in discrete() {
            let mut seen = vec![0_u32; wanted.len()];
            for draw in &draws {
                let value = of(draw, nested, name);
                let at = wanted.iter().position(|(want, _)| want == value);
                seen[at.unwrap_or_else(|| panic!("{name}: {value}"))] += 1;
            }
            let sum: f64 = wanted.iter().map(|(_, p)| p).sum();
            assert!((sum - 1.0).abs() < 1e-3, "{name}: {sum}");
            let found = chi_square(&seen, wanted.iter().map(|(_, p)| p * n));
            assert!(found < chi_square_limit(wanted.len() - 1), "{name}: {found} {seen:?}");
        }
    }
    // Two parameters of a slot, and one parameter of two neighbouring slots.
    let bin = |u: f64| (u * 10.0) as usize;
    for (i, (name, of_one)) in uniforms.iter().enumerate() {
        for (other, of_other, shift) in uniforms[..i]
            .iter()
            .map(|(other, u)| (other, u, 0))
            .chain([(name, of_one, 1), (name, of_one, 2)])
        {
            let mut seen = vec![0_u32; 100];
            for (u, v) in of_one.iter().zip(&of_other[shift..]) {
                seen[10 * bin(*u) + bin(*v)] += 1;
            }
            let each = (of_one.len() - shift) as f64 / 100.0;
            let found = chi_square(&seen, std::iter::repeat(each));
            // 99 degrees of freedom, and 275 pairs: one in a million each.
            assert!(found < 176.0, "{name} and {other}, {shift} slots apart: {found}");
        }
    }
}

#[test]
fn another_seed_gives_draws_that_do_not_depend_on_the_first_ones() {
    let spec = sweep(Method::Random, &json!({"u": {"min": 0.0, "max": 1.0}}));
    let at = |seed, slot| configuration(&spec, seed, slot).unwrap()["u"].as_f64().unwrap();
    let mut seen = vec![0_u32; 100];
    for slot in 0..DRAWS as u64 {
        seen[10 * (at(1, slot) * 10.0) as usize + (at(2, slot) * 10.0) as usize] += 1;
    }
    let found = chi_square(&seen, std::iter::repeat(DRAWS as f64 / 100.0));
    assert!(found < chi_square_limit(99), "{found}");
    // By seed with a fixed slot.
    let mut seen = vec![0_u32; 100];
    for seed in 0..DRAWS as u64 {
        seen[(at(seed, 3) * 100.0) as usize] += 1;
    }
    let found = chi_square(&seen, std::iter::repeat(DRAWS as f64 / 100.0));
    assert!(found < chi_square_limit(99), "{found}");
}
