//! Parameters that are numbers between bounds or around a mean.

use serde_json::Number;

use super::parameter::Context;
use super::{Field, Num, Validator, field, kind, number, written};
use crate::search;
use crate::sweep::code::Code;
use crate::sweep::model::{Law, Method, Parameter};
use crate::sweep::problem::quoted;
use crate::sweep::python::float_text;
use crate::sweep::yaml::{Entry, join};

/// A continuous distribution's name without `q_`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Uniform,
    LogUniform,
    LogUniformValues,
    InvLogUniform,
    InvLogUniformValues,
    Normal,
    LogNormal,
    Beta,
}

impl Base {
    pub(super) const ALL: [Self; 8] = [
        Self::Uniform,
        Self::LogUniform,
        Self::LogUniformValues,
        Self::InvLogUniform,
        Self::InvLogUniformValues,
        Self::Normal,
        Self::LogNormal,
        Self::Beta,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::LogUniform => "log_uniform",
            Self::LogUniformValues => "log_uniform_values",
            Self::InvLogUniform => "inv_log_uniform",
            Self::InvLogUniformValues => "inv_log_uniform_values",
            Self::Normal => "normal",
            Self::LogNormal => "log_normal",
            Self::Beta => "beta",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|base| base.name() == name)
    }

    /// Whether W&B has it with `q_` too.
    pub(super) fn has_q(self) -> bool {
        !matches!(self, Self::InvLogUniform | Self::InvLogUniformValues)
    }

    /// The bounds that it needs, if any.
    pub(super) fn bounds(self) -> &'static [&'static str] {
        match self {
            Self::Normal | Self::LogNormal | Self::Beta => &[],
            _ => &["min", "max"],
        }
    }

    /// The keys that it may have.
    pub(super) fn shape_keys(self, quantized: bool) -> &'static [&'static str] {
        match (self, quantized) {
            (Self::Normal | Self::LogNormal, false) => &["distribution", "mu", "sigma"],
            (Self::Normal | Self::LogNormal, true) => &["distribution", "mu", "sigma", "q"],
            (Self::Beta, false) => &["distribution", "a", "b"],
            (Self::Beta, true) => &["distribution", "a", "b", "q"],
            (_, false) => &["distribution"],
            (_, true) => &["distribution", "q"],
        }
    }

    /// Whether bounds are exponents of e, under a name that W&B has given up.
    fn has_exponents(self) -> bool {
        matches!(self, Self::LogUniform | Self::InvLogUniform)
    }
}

/// A law, and the values it lies between if it has bounds.
struct Shape {
    law: Law,
    limits: Option<(f64, f64)>,
}

impl Validator<'_> {
    /// Bounds that are both integers, or of which nobody said what they are.
    pub(super) fn integers(
        &mut self,
        context: Context<'_>,
        entries: &[Entry],
        inferred: bool,
    ) -> Option<Parameter> {
        let (min, max) = self.bounds(context, entries, !inferred)?;
        let name = context.name();
        let is_float = |bound: &Number| bound.is_f64();
        if is_float(&min) != is_float(&max) && context.top {
            let message = format!(
                "{name} has an integer and a float as bounds: W&B's client refuses this as ambiguous"
            );
            let help =
                "write both with a dot, as in `1.0`, for real numbers, or neither for integers";
            self.error(Code::BoundsMixed, context.at(), message, help);
            return None;
        }
        if is_float(&min) || is_float(&max) {
            return Some(Parameter::Real(Law::Uniform { min, max }));
        }
        let (Some(min), Some(max)) = (min.as_i64(), max.as_i64()) else {
            let message = format!("{name}: integer bounds must fit 64 bits");
            self.error(Code::BoundKind, context.at(), message, "");
            return None;
        };
        Some(Parameter::IntUniform { min, max })
    }

    /// Two numbers in order.
    fn bounds(
        &mut self,
        context: Context<'_>,
        entries: &[Entry],
        integers: bool,
    ) -> Option<(Number, Number)> {
        let (min, max) = (field(entries, "min"), field(entries, "max"));
        let low = min.and_then(|field| self.bound(context, field, "min", integers));
        let high = max.and_then(|field| self.bound(context, field, "max", integers));
        let (low, high, max) = (low?, high?, max?);
        let ordered = match (&low.exact, &high.exact) {
            (Some(low), Some(high)) if !low.is_f64() && !high.is_f64() => {
                whole_number(low) < whole_number(high)
            }
            _ => low.float < high.float,
        };
        if !ordered {
            let message = format!("{}: `min` must be less than `max`", context.name());
            let pointer = join(context.pointer, "max");
            let at = (pointer.as_str(), max.place());
            let help = if low.float == high.float {
                "write `value:` for a fixed value"
            } else {
                "swap them"
            };
            // W&B does not look into groups, and then fails to draw.
            if context.top {
                self.fault(Code::BoundsOrder, at, message, help);
            } else {
                self.error(Code::BoundsOrder, at, message, help);
            }
            return None;
        }
        match (low.exact, high.exact) {
            (Some(low), Some(high)) => Some((low, high)),
            _ => {
                let message = format!("{}: bounds must be finite, and fit 64 bits", context.name());
                self.error(Code::BoundKind, context.at(), message, "");
                None
            }
        }
    }

    fn bound(
        &mut self,
        context: Context<'_>,
        field: Field<'_>,
        key: &str,
        integer: bool,
    ) -> Option<Num> {
        let pointer = join(context.pointer, key);
        let at = (pointer.as_str(), field.place());
        let Some(number) = number(field.node) else {
            if Self::is_date(field.node) {
                return None;
            }
            let message = format!("`{key}` must be a number, and this is {}", kind(field.node));
            let text = written(field.node);
            let is_number = text.parse::<f64>().is_ok_and(f64::is_finite);
            let help = match text {
                _ if !is_number => "",
                _ if text.contains("-.") || text.contains("+.") => "write a digit before the dot",
                _ => "remove the quotes",
            };
            self.fault(Code::BoundKind, at, message, help);
            return None;
        };
        let is_float = number.exact.as_ref().map_or(!number.float.is_finite(), Number::is_f64);
        if integer && is_float {
            let message = format!("int_uniform needs integers, and `{key}` is a float");
            self.fault(Code::BoundKind, at, message, "remove the dot");
            return None;
        }
        Some(number)
    }

    /// A continuous distribution, rounded to multiples of `q` if `quantized`.
    pub(super) fn law(
        &mut self,
        context: Context<'_>,
        entries: &[Entry],
        base: Base,
        quantized: bool,
    ) -> Option<Parameter> {
        let shape = match base {
            Base::Normal | Base::LogNormal => self.around_a_mean(context, entries, base),
            Base::Beta => self.beta(context, entries),
            base => self.between(context, entries, base),
        };
        let q = quantized.then(|| self.shape_number(context, entries, "q", 1.0, 0.0));
        let Shape { law, limits } = shape?;
        let parameter = match q {
            None => Parameter::Real(law),
            Some(q) => Parameter::Quantized { law, q: q? },
        };
        // Points of a grid are not rounded, and end below `max`.
        if context.method != Some(Method::Grid) {
            if !search::representable(&parameter) {
                self.draws_cut(context, &parameter, base);
            } else if let Parameter::Quantized { q, .. } = &parameter {
                self.rounding(context, entries, limits, q);
            }
        }
        Some(parameter)
    }

    /// Only a warning: W&B runs such a sweep.
    fn draws_cut(&mut self, context: Context<'_>, parameter: &Parameter, base: Base) {
        let what = match parameter {
            Parameter::Quantized { q, .. } if !q.is_f64() => "an integer of 64 bits",
            _ => "a float",
        };
        let message =
            format!("{}: draws can be larger than {what} can be, and are then cut", context.name());
        let new = match parameter {
            Parameter::Quantized { .. } => format!("q_{}_values", base.name()),
            _ => format!("{}_values", base.name()),
        };
        let help = if base.has_exponents() {
            format!("bounds are exponents of e: write `distribution: {new}` if they are values")
        } else if what == "a float" {
            "give smaller numbers".to_owned()
        } else {
            "with a dot, as in `1.0`, `q` gives floats".to_owned()
        };
        self.warn(Code::DrawsCut, context.at(), message, &help);
    }

    fn between(&mut self, context: Context<'_>, entries: &[Entry], base: Base) -> Option<Shape> {
        if base.has_exponents() {
            self.old_name(context, entries, base);
        }
        let bounds = self.bounds(context, entries, false);
        if matches!(base, Base::LogUniformValues | Base::InvLogUniformValues)
            && let Some(field) = field(entries, "min")
            && number(field.node).is_some_and(|min| min.float <= 0.0)
        {
            let message = format!("{}: {} needs `min` above 0", context.name(), base.name());
            let at = (join(context.pointer, "min"), field.place());
            let help = "a logarithm has no start at 0: write the smallest value worth trying";
            self.fault(Code::LogFromZero, (&at.0, at.1), message, help);
            return None;
        }
        let (low, high) = bounds?;
        let (min, max) = (low.as_f64()?, high.as_f64()?);
        let (law, limits) = match base {
            Base::LogUniform => (Law::LogUniform { min, max }, (min.exp(), max.exp())),
            Base::InvLogUniform => (Law::InvLogUniform { min, max }, ((-max).exp(), (-min).exp())),
            Base::LogUniformValues => (Law::LogUniformValues { min: low, max: high }, (min, max)),
            Base::InvLogUniformValues => {
                (Law::InvLogUniformValues { min: low, max: high }, (min, max))
            }
            _ => (Law::Uniform { min: low, max: high }, (min, max)),
        };
        Some(Shape { law, limits: Some(limits) })
    }

    /// `log_uniform` and its like take exponents, which hardly anybody means.
    fn old_name(&mut self, context: Context<'_>, entries: &[Entry], base: Base) {
        let Some(field_) = field(entries, "distribution") else { return };
        let bound = |key| field(entries, key).and_then(|field| Some(number(field.node)?.float));
        let new = written(field_.node).to_owned() + "_values";
        let name = context.name();
        let (code, message, help) = match (bound("min"), bound("max")) {
            (Some(min), Some(max)) if (min >= 0.0 && max <= 1.0 && min < max) || max > 30.0 => {
                let sign = if base == Base::InvLogUniform { -1.0 } else { 1.0 };
                let (one, other) = ((min * sign).exp(), (max * sign).exp());
                let message = format!(
                    "{name}: these bounds are exponents of e, so values lie between {} and {}",
                    short(one.min(other)),
                    short(one.max(other))
                );
                let help = format!(
                    "write `distribution: {new}` if {} and {} are the values",
                    short(min),
                    short(max)
                );
                (Code::LogBoundsLookLikeValues, message, help)
            }
            _ => {
                let message = format!(
                    "{name}: `{}` takes exponents of e, and W&B advises against it",
                    written(field_.node)
                );
                let help = format!("`{new}` takes the values themselves");
                (Code::OldDistribution, message, help)
            }
        };
        let pointer = join(context.pointer, "distribution");
        let at = (pointer.as_str(), field_.place());
        // W&B does not look into groups.
        if context.top {
            self.flaw(code, at, message, &help);
        } else {
            self.warn(code, at, message, &help);
        }
    }

    fn around_a_mean(
        &mut self,
        context: Context<'_>,
        entries: &[Entry],
        base: Base,
    ) -> Option<Shape> {
        let mu = self.shape_number(context, entries, "mu", 0.0, f64::NEG_INFINITY);
        let sigma = self.shape_number(context, entries, "sigma", 1.0, 0.0);
        let (mu, sigma) = (mu?, sigma?.as_f64()?);
        let law = match base {
            Base::Normal => Law::Normal { mu, sigma },
            _ => Law::LogNormal { mu: mu.as_f64()?, sigma },
        };
        Some(Shape { law, limits: None })
    }

    fn beta(&mut self, context: Context<'_>, entries: &[Entry]) -> Option<Shape> {
        let a = self.shape_number(context, entries, "a", 1.0, 0.0);
        let b = self.shape_number(context, entries, "b", 1.0, 0.0);
        let law = Law::Beta { a: a?.as_f64()?, b: b?.as_f64()? };
        Some(Shape { law, limits: Some((0.0, 1.0)) })
    }

    /// A finite number above `least`; W&B's schema lets `least` itself pass but for `q`, and then
    /// draws NaN. The default is a float, also for `q`.
    fn shape_number(
        &mut self,
        context: Context<'_>,
        entries: &[Entry],
        key: &str,
        default: f64,
        least: f64,
    ) -> Option<Number> {
        let Some(field) = field(entries, key) else { return Number::from_f64(default) };
        let pointer = join(context.pointer, key);
        let at = (pointer.as_str(), field.place());
        let name = context.name();
        match number(field.node) {
            None if Self::is_date(field.node) => {}
            None => {
                let message =
                    format!("{name}: `{key}` must be a number, and this is {}", kind(field.node));
                self.fault(Code::ParameterNumber, at, message, "");
            }
            Some(number) if number.float < least || (key == "q" && number.float == least) => {
                let message = format!("{name}: `{key}` must be above 0");
                self.fault(Code::ParameterNumber, at, message, "");
            }
            Some(number) if number.float == least => {
                let message = format!("{name}: with `{key}` at 0 no number can be drawn");
                self.error(Code::ParameterNumber, at, message, "write `value:` for a fixed value");
            }
            Some(Num { exact: Some(number), .. }) => return Some(number),
            Some(_) => {
                let message =
                    format!("{name}: {} is no usable `{key}`", quoted(written(field.node)));
                self.error(Code::ParameterNumber, at, message, "");
            }
        }
        None
    }

    /// Rounding does not stop at the bounds, and a large step leaves little to choose from.
    fn rounding(
        &mut self,
        context: Context<'_>,
        entries: &[Entry],
        limits: Option<(f64, f64)>,
        q: &Number,
    ) {
        let (Some((min, max)), Some(step)) = (limits, q.as_f64()) else { return };
        let round = |x: f64| (x / step).round_ties_even() * step;
        let (low, high) = (round(min), round(max));
        let at = match field(entries, "q") {
            Some(field) => (join(context.pointer, "q"), field.place()),
            None => (context.pointer.to_owned(), context.entry.place),
        };
        let at = (at.0.as_str(), at.1);
        let name = context.name();
        let text = |x: f64| if q.is_f64() { float_text(x) } else { format!("{x}") };
        let tolerance = step * 1e-9;
        let is_beta = (min, max) == (0.0, 1.0) && field(entries, "min").is_none();
        if high - low < step / 2.0 || (is_beta && high - low < step * 1.5) {
            let values =
                if high > low { format!("{} and {}", text(low), text(high)) } else { text(low) };
            let message = format!("{name} can only be {values}: `q` is {}", text(step));
            self.warn(Code::QTooCoarse, at, message, "give a smaller `q`");
        } else if low < min - tolerance || high > max + tolerance {
            let (value, side) =
                if low < min - tolerance { (low, "below") } else { (high, "above") };
            let bound = if side == "below" { "min" } else { "max" };
            let message = format!(
                "{name} can be {}, which is {side} `{bound}`: rounding to `q` does not stop there",
                text(value)
            );
            self.warn(Code::QOutsideBounds, at, message, "make the bounds multiples of `q`");
        }
    }
}

fn whole_number(number: &Number) -> i128 {
    let signed = number.as_i64().map(i128::from);
    signed.or(number.as_u64().map(i128::from)).unwrap_or_default()
}

/// A number for a message.
fn short(number: f64) -> String {
    let digits = format!("{number:.5e}").parse().unwrap_or(number);
    float_text(digits)
}
