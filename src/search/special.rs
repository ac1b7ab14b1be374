//! The two quantile functions that need numerical analysis: normal and beta.
//!
//! Everything here and in [`super::quantile`] that is not exact arithmetic is computed by `libm`,
//! not by the machine's C library: that one picks its code by CPU, and a slot must have the same
//! configuration on every node.

use std::f64::consts::LN_2;

use libm::{exp, expm1, lgamma, log, log1p};

/// The standard normal's quantile function for `u` in (0, 1), to about 16 digits.
///
/// Algorithm AS 241 (PPND16): M. J. Wichura, Applied Statistics 37 (1988), 477-484.
pub(super) fn normal_quantile(u: f64) -> f64 {
    let q = u - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180_625 - q * q;
        return q * ratio(&CENTRE, r);
    }
    let tail = if q < 0.0 { u } else { 1.0 - u };
    let r = (-log(tail)).sqrt();
    let z = if r <= 5.0 { ratio(&NEAR_TAIL, r - 1.6) } else { ratio(&FAR_TAIL, r - 5.0) };
    if q < 0.0 { -z } else { z }
}

/// Numerator and denominator, highest power first.
type Ratio = [[f64; 8]; 2];

fn ratio([above, below]: &Ratio, x: f64) -> f64 {
    let value = |powers: &[f64; 8]| powers.iter().fold(0.0, |sum, power| sum * x + power);
    value(above) / value(below)
}

const CENTRE: Ratio = [
    [
        2_509.080_928_730_122_7,
        33_430.575_583_588_13,
        67_265.770_927_008_7,
        45_921.953_931_549_87,
        13_731.693_765_509_46,
        1_971.590_950_306_551_3,
        133.141_667_891_784_38,
        3.387_132_872_796_366_5,
    ],
    [
        5_226.495_278_852_546,
        28_729.085_735_721_943,
        39_307.895_800_092_71,
        21_213.794_301_586_597,
        5_394.196_021_424_751,
        687.187_007_492_057_9,
        42.313_330_701_600_91,
        1.0,
    ],
];

const NEAR_TAIL: Ratio = [
    [
        0.000_774_545_014_278_341_4,
        0.022_723_844_989_269_184,
        0.241_780_725_177_450_6,
        1.270_458_252_452_368_4,
        3.647_848_324_763_204_5,
        5.769_497_221_460_691,
        4.630_337_846_156_546,
        1.423_437_110_749_683_5,
    ],
    [
        1.050_750_071_644_416_9e-9,
        0.000_547_593_808_499_534_5,
        0.015_198_666_563_616_457,
        0.148_103_976_427_480_08,
        0.689_767_334_985_1,
        1.676_384_830_183_803_8,
        2.053_191_626_637_759,
        1.0,
    ],
];

const FAR_TAIL: Ratio = [
    [
        2.010_334_399_292_288_1e-7,
        2.711_555_568_743_487_6e-5,
        0.001_242_660_947_388_078_4,
        0.026_532_189_526_576_124,
        0.296_560_571_828_504_87,
        1.784_826_539_917_291_3,
        5.463_784_911_164_114,
        6.657_904_643_501_103,
    ],
    [
        2.044_263_103_389_939_7e-15,
        1.421_511_758_316_446e-7,
        1.846_318_317_510_054_8e-5,
        0.000_786_869_131_145_613_3,
        0.014_875_361_290_850_615,
        0.136_929_880_922_735_8,
        0.599_832_206_555_888,
        1.0,
    ],
];

/// The beta distribution's quantile function for `u` in (0, 1) and `a`, `b` above 0.
///
/// To seven digits at least, mostly ten; 0 or 1 where no other float is as near.
/// Newton's method on the logarithms of probability and value, kept within a bracket.
pub(super) fn beta_quantile(a: f64, b: f64, u: f64) -> f64 {
    if a.min(b) > MANY {
        return beta_of_many(a, b, normal_quantile(u));
    }
    if a > MOST {
        return 1.0 - beta_quantile(b, a, 1.0 - u);
    }
    if b > MOST {
        // -ln(1 - x) (b + (a - 1)/2) hardly depends on so large a b: it has the gamma distribution.
        let gamma = -log1p(-beta_quantile(a, MOST, u)) * (MOST + (a - 1.0) / 2.0);
        return -expm1(-gamma / (b + (a - 1.0) / 2.0));
    }
    let shape = Shape { a, b, ln_beta: ln_beta(a, b) };
    // The half with the smaller value, as floats are finer there.
    if log(u) <= shape.log_tails(-LN_2).0 {
        exp(shape.log_quantile(u))
    } else {
        1.0 - exp(shape.mirrored().log_quantile(1.0 - u))
    }
}

/// Above this, both shapes are so large that the expansion of [`beta_of_many`] is exact enough
/// and the continued fraction slow.
const MANY: f64 = 1e5;

/// Above this, one shape is so large that `1 - x` does not tell the values apart.
const MOST: f64 = 3e8;

/// A beta distribution for which neither [`MANY`] nor [`MOST`] matters.
struct Shape {
    a: f64,
    b: f64,
    ln_beta: f64,
}

impl Shape {
    /// The distribution of `1 - x`.
    fn mirrored(&self) -> Self {
        Self { a: self.b, b: self.a, ln_beta: self.ln_beta }
    }

    /// The logarithm of a quantile that is at most 1/2.
    fn log_quantile(&self, u: f64) -> f64 {
        let Self { a, b, ln_beta } = *self;
        // Below e^-746 there is no float but 0.
        let (mut low, mut high) = (-746.0, -LN_2);
        // The smaller tail tells probabilities apart better.
        let upper = u > 0.5;
        let wanted = if upper { log(1.0 - u) } else { log(u) };
        // For small x the distribution is x^a / (a B(a, b)); for others the mean is near enough.
        let mut t = ((log(u) + log(a) + ln_beta) / a).min(log(a / (a + b))).min(-0.7);
        if t <= low && self.log_tails(low).0 >= log(u) {
            return low;
        }
        for _ in 0..100 {
            if !(t > low && t < high) {
                t = f64::midpoint(low, high);
            }
            let (below, above) = self.log_tails(t);
            let (tail, miss) =
                if upper { (above, wanted - above) } else { (below, below - wanted) };
            if miss < 0.0 {
                low = t;
            } else {
                high = t;
            }
            // How fast that logarithm changes with t: x^a (1-x)^(b-1) / (B(a, b) tail).
            let slope = exp(a * t + (b - 1.0) * log1p(-exp(t)) - ln_beta - tail);
            let next = t - miss / slope;
            // Newton's method squares the error: the next step would change nothing.
            if (next - t).abs() <= 1e-11 * t.abs() || high - low <= 1e-15 * low.abs() {
                return next.max(low).min(high);
            }
            t = next;
        }
        t
    }

    /// `ln I_x(a, b)` and `ln (1 - I_x(a, b))` at `x = e^t`, for the incomplete beta function `I`.
    ///
    /// The continued fraction of DLMF 8.17.22 by Lentz's method, on the side where it converges
    /// fast.
    fn log_tails(&self, t: f64) -> (f64, f64) {
        let Self { a, b, ln_beta } = *self;
        let x = exp(t);
        let front = a * t + b * log1p(-x) - ln_beta;
        let other = |tail: f64| log1p(-exp(tail).min(1.0));
        if x * (a + b + 2.0) < a + 1.0 {
            let below = front - log(a) + log(fraction(a, b, x));
            (below, other(below))
        } else {
            let above = front - log(b) + log(fraction(b, a, 1.0 - x));
            (other(above), above)
        }
    }
}

fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let not_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut c, mut d) = (1.0, 1.0 / not_zero(1.0 - (a + b) / (a + 1.0) * x));
    let mut value = d;
    for m in 1..5000 {
        let m = f64::from(m);
        // Divided before it is multiplied, as `a` or `b` may be near the largest float.
        let even = m / (a + 2.0 * m - 1.0) * ((b - m) / (a + 2.0 * m)) * x;
        let odd = -(a + m) / (a + 2.0 * m) * ((a + b + m) / (a + 2.0 * m + 1.0)) * x;
        let before = value;
        for term in [even, odd] {
            d = 1.0 / not_zero(1.0 + term * d);
            c = not_zero(1.0 + term / c);
            value *= d * c;
        }
        if (value - before).abs() <= 1e-16 * before.abs() {
            break;
        }
    }
    value
}

/// `ln B(a, b)`, without the cancellation that large arguments bring.
fn ln_beta(a: f64, b: f64) -> f64 {
    let (a, b) = (a.min(b), a.max(b));
    if b < 20.0 {
        return lgamma(a) + (lgamma(b) - lgamma(a + b));
    }
    // Stirling's series for the two large ones.
    let difference = a - (b - 0.5) * log1p(a / b) - a * log(a + b);
    lgamma(a) + difference + stirling_rest(b) - stirling_rest(a + b)
}

/// `ln Gamma(z) - ((z - 1/2) ln z - z + ln(2 pi) / 2)` for `z` from 20 on.
fn stirling_rest(z: f64) -> f64 {
    let w = 1.0 / (z * z);
    (1.0 / 12.0 - w * (1.0 / 360.0 - w * (1.0 / 1260.0 - w * (1.0 / 1680.0 - w / 1188.0)))) / z
}

/// The beta quantile by the expansion of Cornish and Fisher around the normal quantile `z`.
fn beta_of_many(a: f64, b: f64, z: f64) -> f64 {
    // Written so that nothing overflows, whatever a and b are.
    let mean = if a <= b { (a / b) / (1.0 + a / b) } else { 1.0 / (1.0 + b / a) };
    let rest = if b <= a { (b / a) / (1.0 + b / a) } else { 1.0 / (1.0 + a / b) };
    let deviation = (mean * rest / (a + b + 1.0)).sqrt();
    let lean = rest - mean;
    let spread = 1.0 / a + 1.0 / b;
    let n = a + b;
    let skewness = 2.0 * lean * (spread * (1.0 + 1.0 / n)).sqrt() / (1.0 + 2.0 / n);
    let excess = 6.0 * (lean * lean * spread - 1.0 / (n + 3.0));
    let w = z + (z * z - 1.0) * skewness / 6.0 + (z * z * z - 3.0 * z) * excess / 24.0
        - (2.0 * z * z * z - 5.0 * z) * skewness * skewness / 36.0;
    (mean + deviation * w).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // The references are mpmath's, with 60 digits.

    #[test]
    fn normal_quantiles_are_exact_to_the_last_digits() {
        let table = [
            (5.0e-324, -38.467_405_617_144_344),
            (1.0e-300, -37.047_096_299_361_2),
            (1.110_223_024_625_156_5e-16, -8.209_536_151_601_387),
            (1.0e-9, -5.997_807_015_007_686_5),
            (0.02, -2.053_748_910_631_823),
            (0.074_99, -1.439_602_118_239_316_2),
            (0.075_000_1, -1.439_530_764_501_729_7),
            (0.3, -0.524_400_512_708_040_8),
            (0.5, 0.0),
            (0.925, 1.439_531_470_938_456_1),
            (0.975, 1.959_963_984_540_053_8),
            (0.999_999_999_068_677_4, 6.009_353_565_530_744),
            (0.999_999_999_999_999_9, 8.209_536_151_601_387),
        ];
        for (u, want) in table {
            let got = normal_quantile(u);
            assert!((got - want).abs() <= 4e-16 * want.abs(), "{u:e}: {got:e}, not {want:e}");
        }
    }

    #[test]
    fn beta_quantiles_are_exact_for_all_shapes() {
        let table = [
            (0.5, 0.5, 1.110_223_024_625_156_5e-16, 3.041_306_664_850_247e-32),
            (0.5, 0.5, 0.999_999_999_999_999_9, 1.0),
            (8.5, 1.25, 1.110_223_024_625_156_5e-16, 0.012_298_768_085_498_549),
            (0.01, 0.01, 0.001, 1.247_264_321_227_788_5e-270),
            (0.01, 0.01, 0.5, 0.5),
            (0.01, 5.0, 0.1, 1.253_990_451_122_832_7e-101),
            (5.0, 0.01, 1.0e-9, 0.054_201_427_102_774_46),
            (5.0, 0.01, 0.5, 1.0),
            (1.0e-6, 2.0, 0.999_999_999_068_677_4, 0.957_460_283_292_069_6),
            (1.0e-6, 1.0e-6, 0.5, 0.5),
            (3.0, 1000.0, 1.110_223_024_625_156_5e-16, 8.724_773_743_958_991e-9),
            (3.0, 1000.0, 0.999_999_999_999_999_9, 0.042_661_324_221_120_32),
            (1000.0, 3.0, 1.0e-9, 0.973_706_155_856_905_3),
            (10_000.0, 10_000.0, 1.110_223_024_625_156_5e-16, 0.470_998_979_993_098_14),
            (10_000.0, 10_000.0, 0.77, 0.502_612_232_913_925_6),
            (2.0, 1_000_000_000_000.0, 0.999, 9.233_413_476_404_34e-12),
            (10_000.0, 1_000_000_000_000.0, 0.001, 9.693_824_290_374_337e-9),
            (0.001, 1.0e30, 0.999, 2.647_702_702_396_508_8e-31),
            (1.5, 1.0e30, 1.110_223_024_625_156_5e-16, 2.792_742_878_517_240_3e-41),
            (90_000.0, 90_000.0, 0.999_999_999_999_999_9, 0.509_674_138_999_490_9),
            (110_000.0, 110_000.0, 1.110_223_024_625_156_5e-16, 0.491_249_265_314_974_76),
            (90_000.0, 1_000_000_000.0, 0.5, 8.999_156_748_580_679e-5),
            (200_000.0, 5_000_000.0, 0.001, 0.038_201_437_354_381_376),
        ];
        for (a, b, u, want) in table {
            let got = beta_quantile(a, b, u);
            assert!((got - want).abs() <= 2e-8 * want, "{a} {b} {u}: {got:e}, not {want:e}");
            let mirrored = beta_quantile(b, a, 1.0 - u);
            assert!((got - (1.0 - mirrored)).abs() <= 2e-8, "{b} {a} 1 - {u}: {mirrored}");
        }
    }

    #[test]
    fn shapes_without_a_middle_give_one_end_or_the_other() {
        // Almost all is at 0 or 1, in the ratio of b to a.
        for (a, b, u, want) in [
            (1e-300, 1e-300, 0.4, 0.0),
            (1e-300, 1e-300, 0.6, 1.0),
            (1e-200, 3e-200, 0.7, 0.0),
            (1e-200, 3e-200, 0.8, 1.0),
            (5e-324, 1e300, 0.9, 0.0),
            (f64::MAX, 1e-3, 0.1, 1.0),
            (f64::MAX, f64::MAX, 0.1, 0.5),
        ] {
            assert_eq!(json!(beta_quantile(a, b, u)), json!(want), "{a:e} {b:e} {u}");
        }
    }
}
