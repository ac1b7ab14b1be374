//! What a plain scalar means: YAML 1.1 as W&B's own reader (PyYAML) has it.
//!
//! One deliberate difference: `1e-5`, `1e3` and `1.5e3` are numbers here and text there. Nobody
//! means text by them, and learning rates are written that way.

use serde_json::{Number, Value};

use super::problem::quoted;
use super::special;

/// What a scalar is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// The same value here and for W&B's client.
    Value(Value),
    /// A number here, and text for W&B's client.
    Scientific(Number),
    /// A date, which W&B's client reads and then cannot send.
    Date {
        /// What Python's `repr` gives.
        repr: String,
        /// Python's name of the type.
        kind: &'static str,
    },
}

/// Integers with more digits than Python turns into text.
const MOST_DIGITS: usize = 4300;

/// Resolves a plain (unquoted, untagged) scalar, or says why PyYAML refuses it.
pub(super) fn resolve(text: &str) -> Result<Meaning, String> {
    let value = |value| Ok(Meaning::Value(value));
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return value(Value::Null),
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return value(Value::Bool(true));
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return value(Value::Bool(false));
        }
        "=" | "<<" => return Err(format!("{} is no value in YAML", quoted(text))),
        _ => {}
    }
    if let Some(int) = int(text) {
        return int.map(Meaning::Value);
    }
    if let Some(number) = float(text) {
        return Ok(match Number::from_f64(number) {
            Some(number) if is_scientific(text) => Meaning::Scientific(number),
            // `1e999` is text for PyYAML, and no number for anybody.
            None if is_scientific(text) => Meaning::Value(Value::from(text)),
            _ => Meaning::Value(float_value(number)),
        });
    }
    if let Some(date) = date(text) {
        return date;
    }
    value(Value::from(text))
}

/// Whether a float is one that PyYAML takes for text: no dot, or an exponent without a sign.
fn is_scientific(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return false };
    !mantissa.contains('.') || !exponent.starts_with(['+', '-'])
}

/// A float as a value.
pub(super) fn float_value(number: f64) -> Value {
    Number::from_f64(number).map_or_else(|| special::not_finite(number), Value::Number)
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// The integer that `text` is, `None` if it is none.
pub(super) fn int(text: &str) -> Option<Result<Value, String>> {
    let (negative, body) = split_sign(text);
    let digits = magnitude(body)?;
    if digits.len() > MOST_DIGITS {
        return Some(Err(format!("{} has too many digits", quoted(text))));
    }
    let signed = if negative && digits != "0" { format!("-{digits}") } else { digits };
    let value = match (signed.parse::<i64>(), signed.parse::<u64>()) {
        (Ok(value), _) => Value::from(value),
        (_, Ok(value)) => Value::from(value),
        _ => special::value(signed),
    };
    Some(Ok(value))
}

/// The decimal digits of an integer without its sign; `None` if `body` is none.
fn magnitude(body: &str) -> Option<String> {
    if let Some(rest) = body.strip_prefix("0b") {
        return decimal_digits(rest, 2);
    }
    if let Some(rest) = body.strip_prefix("0x") {
        return decimal_digits(rest, 16);
    }
    if body == "0" {
        return Some("0".to_owned());
    }
    if let Some(rest) = body.strip_prefix('0') {
        let octal = rest.chars().all(|c| matches!(c, '0'..='7' | '_'));
        return if octal { decimal_digits(body, 8) } else { None };
    }
    if !body.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut parts = body.split(':');
    let first = parts.next()?;
    let rest: Option<Vec<u8>> = parts.map(base_sixty_digit).collect();
    let mut total = decimal_digits(first, 10)?;
    for part in rest? {
        total = times_plus(&total, 60, part);
    }
    Some(total)
}

/// Digits of some base, underscores left out, as decimal digits.
fn decimal_digits(text: &str, radix: u32) -> Option<String> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    if let Ok(small) = u128::from_str_radix(&digits, radix) {
        return Some(small.to_string());
    }
    // Too long to be turned around in good time, and refused by its length.
    if radix == 10 || digits.len() > MOST_DIGITS {
        return Some(digits);
    }
    let digit = |c: char| c.to_digit(radix).and_then(|d| u8::try_from(d).ok()).unwrap_or(0);
    Some(digits.chars().fold("0".to_owned(), |total, c| times_plus(&total, radix, digit(c))))
}

/// `total * factor + more` on decimal digits.
fn times_plus(total: &str, factor: u32, more: u8) -> String {
    let mut carry = u32::from(more);
    let mut digits: Vec<char> = Vec::with_capacity(total.len() + 2);
    for c in total.chars().rev() {
        carry += c.to_digit(10).unwrap_or(0) * factor;
        digits.extend(char::from_digit(carry % 10, 10));
        carry /= 10;
    }
    while carry > 0 {
        digits.extend(char::from_digit(carry % 10, 10));
        carry /= 10;
    }
    while digits.len() > 1 && digits.last() == Some(&'0') {
        digits.pop();
    }
    digits.into_iter().rev().collect()
}

/// `[0-5]?[0-9]`
fn base_sixty_digit(text: &str) -> Option<u8> {
    let all_digits = text.bytes().all(|b| b.is_ascii_digit());
    let value: u8 = text.parse().ok().filter(|_| all_digits && text.len() <= 2)?;
    (value < 60).then_some(value)
}

/// The float that `text` is (perhaps infinite or NaN), `None` if it is none.
pub(super) fn float(text: &str) -> Option<f64> {
    let (negative, body) = split_sign(text);
    match body {
        ".inf" | ".Inf" | ".INF" => {
            return Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        ".nan" | ".NaN" | ".NAN" if body == text => return Some(f64::NAN),
        _ => {}
    }
    let value = if body.contains(':') { base_sixty_float(body)? } else { decimal(body, text)? };
    Some(if negative { -value } else { value })
}

fn decimal(body: &str, text: &str) -> Option<f64> {
    let (mantissa, exponent) = match body.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (body, None),
    };
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let starts_with_digit = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    match mantissa.split_once('.') {
        // `.5` is a float; `-.5` and `+.5` are text for PyYAML.
        Some(("", fraction)) => {
            if body != text || !starts_with_digit(fraction) || !is_digits(fraction) {
                return None;
            }
        }
        Some((whole, fraction)) => {
            if !starts_with_digit(whole) || !is_digits(whole) || !is_digits(fraction) {
                return None;
            }
        }
        // Only with an exponent; without one it would have been an integer.
        None => {
            exponent?;
            if !starts_with_digit(mantissa) || !is_digits(mantissa) {
                return None;
            }
        }
    }
    if let Some(exponent) = exponent {
        let (_, digits) = split_sign(exponent);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    }
    body.replace('_', "").parse().ok()
}

/// `[0-9][0-9_]*(:[0-5]?[0-9])+\.[0-9_]*`
fn base_sixty_float(body: &str) -> Option<f64> {
    let (whole, fraction) = body.split_once('.')?;
    let fraction_is_digits = fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    if !whole.starts_with(|c: char| c.is_ascii_digit()) || !fraction_is_digits {
        return None;
    }
    let mut parts: Vec<&str> = whole.split(':').collect();
    let (last, first) = (parts.pop()?, *parts.first()?);
    base_sixty_digit(last)?;
    if !first.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return None;
    }
    // Summed in PyYAML's order, so that rounding is the same.
    let mut total: f64 = format!("{last}.{}", fraction.replace('_', "")).parse().ok()?;
    let mut base = 60.0;
    for (index, part) in parts.iter().enumerate().rev() {
        let digit = match index {
            0 => first.replace('_', "").parse().ok()?,
            _ => f64::from(base_sixty_digit(part)?),
        };
        total += digit * base;
        base *= 60.0;
    }
    Some(total)
}

/// PyYAML's timestamps: `2024-01-31`, or a date, a time of day and perhaps a zone.
///
/// An error is a moment that does not exist, where PyYAML fails.
fn date(text: &str) -> Option<Result<Meaning, String>> {
    let digits = |part: &str, most: usize, least: usize| {
        (least..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let split = text.find(['T', 't', ' ', '\t']);
    let (date, time) = match split {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return None };
    let least = if time.is_some() { 1 } else { 2 };
    if !digits(year, 4, 4) || !digits(month, 2, least) || !digits(day, 2, least) {
        return None;
    }
    let number = |part: &str| part.parse::<u32>().unwrap_or(0);
    let (y, m, d) = (number(year), number(month), number(day));
    let last = match m {
        2 if y % 4 == 0 && (y % 100 != 0 || y % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let mut exists = y > 0 && (1..=12).contains(&m) && (1..=last).contains(&d);
    let (repr, kind) = match time {
        None => (format!("datetime.date({y}, {m}, {d})"), "date"),
        Some(time) => {
            let time = time.trim_start_matches([' ', '\t']);
            let end = time.find(['Z', '+', '-', ' ', '\t']).unwrap_or(time.len());
            let (clock, zone) = time.split_at(end);
            let clock: Vec<&str> = clock.split(':').collect();
            let [hour, minute, second] = clock.as_slice() else { return None };
            let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
            let zone = zone.trim_start_matches([' ', '\t']);
            let offset = zone.strip_prefix(['+', '-']).map(|offset| {
                let (hours, minutes) = offset.split_once(':').unwrap_or((offset, "00"));
                (hours, minutes, digits(hours, 2, 1) && digits(minutes, 2, 2))
            });
            let is_time = digits(hour, 2, 1)
                && digits(minute, 2, 2)
                && digits(second, 2, 2)
                && fraction.bytes().all(|b| b.is_ascii_digit())
                && (zone.is_empty() || zone == "Z" || offset.is_some_and(|(.., right)| right));
            if !is_time {
                return None;
            }
            let (h, min, s) = (number(hour), number(minute), number(second));
            exists &= h < 24 && min < 60 && s < 60;
            let micros: String = fraction.chars().chain("000000".chars()).take(6).collect();
            let mut repr = format!("datetime.datetime({y}, {m}, {d}, {h}, {min}");
            match (s, number(&micros)) {
                (0, 0) => {}
                (s, 0) => repr += &format!(", {s}"),
                (s, micros) => repr += &format!(", {s}, {micros}"),
            }
            match offset {
                None if zone == "Z" => repr += ", tzinfo=datetime.timezone.utc",
                None => {}
                Some((hours, minutes, _)) => {
                    let size = i64::from(number(hours)) * 3600 + i64::from(number(minutes)) * 60;
                    exists &= size < 86_400;
                    repr += &zone_repr(if zone.starts_with('-') { -size } else { size });
                }
            }
            (repr + ")", "datetime")
        }
    };
    Some(if exists {
        Ok(Meaning::Date { repr, kind })
    } else {
        Err(format!("there is no such date as {}", quoted(text)))
    })
}

fn zone_repr(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let delta = match (days, rest) {
        (0, 0) => return ", tzinfo=datetime.timezone.utc".to_owned(),
        (0, rest) => format!("seconds={rest}"),
        (days, 0) => format!("days={days}"),
        (days, rest) => format!("days={days}, seconds={rest}"),
    };
    format!(", tzinfo=datetime.timezone(datetime.timedelta({delta}))")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_are_read_as_pyyaml_reads_them() {
        let table = [
            ("1.0e-5", json!(1e-5)),
            ("1.e-5", json!(1e-5)),
            ("1.5e+3", json!(1500.0)),
            (".5", json!(0.5)),
            ("5.", json!(5.0)),
            ("-.5", json!("-.5")),
            ("+1", json!(1)),
            ("-1", json!(-1)),
            ("0", json!(0)),
            ("-0", json!(0)),
            ("-0.0", json!(-0.0)),
            ("010", json!(8)),
            ("0o10", json!("0o10")),
            ("08", json!("08")),
            ("0x1F", json!(31)),
            ("-0x1F", json!(-31)),
            ("0b101", json!(5)),
            ("1_000", json!(1000)),
            ("1_000.5", json!(1000.5)),
            ("_1", json!("_1")),
            ("yes", json!(true)),
            ("No", json!(false)),
            ("on", json!(true)),
            ("OFF", json!(false)),
            ("y", json!("y")),
            ("n", json!("n")),
            ("tRUE", json!("tRUE")),
            ("~", json!(null)),
            ("Null", json!(null)),
            ("", json!(null)),
            ("none", json!("none")),
            ("1:30", json!(90)),
            ("12:30:45", json!(45045)),
            ("1:30.5", json!(90.5)),
            ("1:60", json!("1:60")),
            ("1.2.3", json!("1.2.3")),
            ("1,000", json!("1,000")),
            ("0.1", json!(0.1)),
            (".", json!(".")),
            ("-", json!("-")),
            ("e5", json!("e5")),
            ("1e", json!("1e")),
            ("18446744073709551615", json!(18446744073709551615_u64)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("2024-1-2", json!("2024-1-2")),
        ];
        for (text, want) in table {
            let Ok(Meaning::Value(got)) = resolve(text) else { panic!("{text}") };
            assert_eq!(got, want, "{text}");
            assert_eq!(got.is_f64(), want.is_f64(), "{text}");
        }
    }

    #[test]
    fn exponents_without_dot_or_sign_are_numbers_unlike_in_pyyaml() {
        for (text, want) in [("1e-5", 1e-5), ("1.5e3", 1500.0), ("1e3", 1e3), ("-1E+3", -1e3)] {
            let want = Number::from_f64(want).unwrap();
            assert_eq!(resolve(text), Ok(Meaning::Scientific(want)), "{text}");
        }
        assert_eq!(resolve("1e999"), Ok(Meaning::Value(json!("1e999"))));
    }

    #[test]
    fn what_json_cannot_hold_is_kept_apart() {
        let table = [
            (".inf", "inf"),
            ("-.Inf", "-inf"),
            (".nan", "nan"),
            ("1.0e+999", "inf"),
            ("18446744073709551616", "18446744073709551616"),
            ("-9223372036854775809", "-9223372036854775809"),
            ("1_0000_0000_0000_0000_0000", "100000000000000000000"),
            ("0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "5444517870735015415413993718908291383295"),
            ("-5000000000000000000:30", "-300000000000000000030"),
        ];
        for (text, want) in table {
            assert_eq!(resolve(text), Ok(Meaning::Value(special::value(want))), "{text}");
        }
    }

    #[test]
    fn dates_are_recognised_and_what_is_none_is_refused() {
        let table = [
            ("2024-01-31", "datetime.date(2024, 1, 31)"),
            ("2024-01-31 10:00:00", "datetime.datetime(2024, 1, 31, 10, 0)"),
            (
                "2024-1-3T10:00:00.5Z",
                "datetime.datetime(2024, 1, 3, 10, 0, 0, 500000, tzinfo=datetime.timezone.utc)",
            ),
            (
                "2001-12-14 21:59:43.10 -5",
                "datetime.datetime(2001, 12, 14, 21, 59, 43, 100000, \
                 tzinfo=datetime.timezone(datetime.timedelta(days=-1, seconds=68400)))",
            ),
        ];
        for (text, want) in table {
            let Ok(Meaning::Date { repr, .. }) = resolve(text) else { panic!("{text}") };
            assert_eq!(repr, want);
        }
        for text in ["2024-02-30", "2023-02-29", "2024-13-01", "0000-01-01", "=", "<<"] {
            assert!(resolve(text).is_err(), "{text}");
        }
        assert!(resolve(&"9".repeat(5000)).is_err());
    }

    #[test]
    fn random_plain_scalars_are_read_as_a_real_pyyaml_reads_them() {
        use crate::sweep::python::tests::{python, samples};
        use proptest::prelude::*;
        let strategy = prop_oneof![
            "[-+]?[0-9_.:]{1,6}",
            "[-+]?[0-9][0-9_]{0,3}\\.?[0-9]{0,3}[eE][-+]?[0-9]{0,2}",
            "[-+]?0[xbo]?[0-9a-fA-F_]{0,5}",
            "[-+]?[1-9]{1,2}(:[0-6]?[0-9]){1,2}(\\.[0-9]{0,2})?",
            "[0-9]{4}-[01]?[0-9]-[0-3]?[0-9]([Tt ]1?[0-9]:[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,3})?(Z| ?[-+][01]?[0-9](:[03]0)?)?)?",
            "[-+]?\\.(inf|Inf|INF|nan|NaN|NAN|iNF)",
            "[yYnNoO]([eEoOnNfFuU][sSlLfF]{0,2})?",
        ];
        let texts = samples(&strategy, 4000);
        let program = "
import yaml,json,sys,math
def read(t):
    loader = yaml.SafeLoader('')
    tag = loader.resolve(yaml.ScalarNode, t, (True, False))
    try: v = loader.construct_object(yaml.ScalarNode(tag, t))
    except Exception: return ['error', None]
    name = type(v).__name__
    if name == 'float' and not math.isfinite(v) or name == 'int' and abs(v) >= 2**63: return ['special', str(v)]
    if name in ('date', 'datetime'): return [name, repr(v)]
    return [name, v]
print(json.dumps([read(t) for t in json.load(sys.stdin)]))";
        let input = Value::from(texts.clone());
        let Some(answer) = python(program, &input) else { return };
        for (text, want) in texts.iter().zip(answer.as_array().unwrap()) {
            match (want[0].as_str().unwrap(), resolve(text)) {
                // PyYAML fails where an exponent's or a number's digits are all underscores.
                ("error", Ok(_)) => assert!(text.contains('_'), "{text}"),
                ("error", Err(_)) => {}
                ("special", Ok(Meaning::Value(value))) => {
                    let want = want[1].as_str();
                    let text = special::text(&value).map_or(value.to_string(), str::to_owned);
                    assert_eq!(Some(text.as_str()), want);
                }
                ("date" | "datetime", Ok(Meaning::Date { repr, .. })) => assert_eq!(repr, want[1]),
                // The deliberate difference.
                ("str", Ok(Meaning::Scientific(_))) => {
                    assert!(text.contains(['e', 'E']), "{text}");
                }
                (_, Ok(Meaning::Value(value))) => {
                    assert_eq!(value.to_string(), want[1].to_string(), "{text}");
                }
                (kind, got) => panic!("{text} is {kind}, not: {got:?}"),
            }
        }
    }
}
