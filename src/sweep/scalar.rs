//! What a plain scalar means: YAML 1.1 as W&B's own reader (PyYAML) has it.
//!
//! One deliberate difference: `1e-5`, `1e3` and `1.5e3` are numbers here and text there. Nobody
//! means text by them, and learning rates are written that way.

use serde_json::{Number, Value};

use super::problem::quoted;

/// A scalar's value, or why a sweep cannot hold it.
pub(super) type Resolved = Result<Value, String>;

/// Resolves a plain (unquoted, untagged) scalar.
pub(super) fn resolve(text: &str) -> Resolved {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return Ok(Value::Bool(true));
        }
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return Ok(Value::Bool(false));
        }
        _ => {}
    }
    if let Some(value) = int(text) {
        return value;
    }
    if let Some(value) = float(text) {
        return finite(text, value);
    }
    if is_date(text) {
        return Err(format!("{} is a date, which W&B cannot take", quoted(text)));
    }
    Ok(Value::String(text.to_owned()))
}

/// A float as a JSON value; JSON has neither infinities nor NaN.
pub(super) fn finite(text: &str, value: f64) -> Resolved {
    Number::from_f64(value)
        .map(Value::Number)
        .ok_or_else(|| format!("{} is not a finite number, which JSON cannot hold", quoted(text)))
}

fn split_sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// The integer that `text` is, `None` if it is none.
pub(super) fn int(text: &str) -> Option<Resolved> {
    let (negative, body) = split_sign(text);
    let magnitude = magnitude(body)?;
    let value = match magnitude {
        Some(size) if negative => i64::try_from(-size).ok().map(Value::from),
        Some(size) => u64::try_from(size).ok().map(Value::from),
        None => None,
    };
    Some(value.ok_or_else(|| format!("{} does not fit 64 bits", quoted(text))))
}

/// Outer `None`: not an integer. Inner `None`: larger than any we can hold.
fn magnitude(body: &str) -> Option<Option<i128>> {
    let digits = |text: &str, radix: u32| -> Option<Option<i128>> {
        let digits: String = text.chars().filter(|c| *c != '_').collect();
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            return None;
        }
        Some(i128::from_str_radix(&digits, radix).ok())
    };
    if let Some(rest) = body.strip_prefix("0b") {
        return digits(rest, 2);
    }
    if let Some(rest) = body.strip_prefix("0x") {
        return digits(rest, 16);
    }
    if body == "0" {
        return Some(Some(0));
    }
    if let Some(rest) = body.strip_prefix('0') {
        let octal = rest.chars().all(|c| matches!(c, '0'..='7' | '_'));
        return if octal { digits(body, 8) } else { None };
    }
    if !body.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut parts = body.split(':');
    let mut total = digits(parts.next()?, 10)?;
    for part in parts {
        let part = i128::from(base_sixty_digit(part)?);
        total = total.and_then(|t| t.checked_mul(60)).and_then(|t| t.checked_add(part));
    }
    Some(total)
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

/// Whether a number is one that PyYAML takes for text, such as `1e-5`: a float has a dot there, and
/// a sign in its exponent.
pub(super) fn is_text_for_pyyaml(number: &str) -> bool {
    let parts = number.split_once(['e', 'E']).filter(|_| !number.contains(['x', ':']));
    parts.is_some_and(|(mantissa, exponent)| {
        !mantissa.contains('.') || !exponent.starts_with(['-', '+'])
    })
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
fn is_date(text: &str) -> bool {
    let digits = |part: &str, most: usize, least: usize| {
        (least..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let split = text.find(['T', 't', ' ', '\t']);
    let (date, time) = match split {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    };
    let parts: Vec<&str> = date.split('-').collect();
    let [year, month, day] = parts.as_slice() else { return false };
    let least = if time.is_some() { 1 } else { 2 };
    if !digits(year, 4, 4) || !digits(month, 2, least) || !digits(day, 2, least) {
        return false;
    }
    let Some(time) = time else { return true };
    let time = time.trim_start_matches([' ', '\t']);
    let end = time.find(['Z', '+', '-', ' ', '\t']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(end);
    let clock: Vec<&str> = clock.split(':').collect();
    let [hour, minute, second] = clock.as_slice() else { return false };
    let (second, fraction) = second.split_once('.').unwrap_or((second, ""));
    let zone = zone.trim_start_matches([' ', '\t']);
    let zone_is_right = zone.is_empty()
        || zone == "Z"
        || zone.strip_prefix(['+', '-']).is_some_and(|offset| {
            let (hours, minutes) = offset.split_once(':').unwrap_or((offset, "00"));
            digits(hours, 2, 1) && digits(minutes, 2, 2)
        });
    digits(hour, 2, 1)
        && digits(minute, 2, 2)
        && digits(second, 2, 2)
        && fraction.bytes().all(|b| b.is_ascii_digit())
        && zone_is_right
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
            let got = resolve(text).unwrap();
            assert_eq!(got, want, "{text}");
            assert_eq!(got.is_f64(), want.is_f64(), "{text}");
        }
    }

    #[test]
    fn exponents_without_dot_or_sign_are_numbers_unlike_in_pyyaml() {
        for (text, want) in [("1e-5", 1e-5), ("1.5e3", 1500.0), ("1e3", 1e3), ("-1E+3", -1e3)] {
            assert_eq!(resolve(text).unwrap(), json!(want), "{text}");
        }
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        for text in [
            ".inf",
            "-.Inf",
            ".nan",
            "1e999",
            "18446744073709551616",
            "-9223372036854775809",
            "99999999999999999999999999999999999999999999",
            "2024-01-31",
            "2024-01-31 10:00:00",
            "2024-01-31T10:00:00.5Z",
            "2001-12-14 21:59:43.10 -5",
        ] {
            assert!(resolve(text).is_err(), "{text}");
        }
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
        // An error of PyYAML's own (such as month 13) is left out.
        let program = "
import yaml,json,sys,math
def read(t):
    loader = yaml.SafeLoader('')
    tag = loader.resolve(yaml.ScalarNode, t, (True, False))
    try: v = loader.construct_object(yaml.ScalarNode(tag, t))
    except Exception: return ['error', None]
    name = type(v).__name__
    if name == 'float' and not math.isfinite(v): return ['bad', None]
    if name in ('date', 'datetime'): return ['bad', None]
    return [name, v]
print(json.dumps([read(t) for t in json.load(sys.stdin)]))";
        let input = Value::from(texts.clone());
        let Some(answer) = python(program, &input) else { return };
        for (text, want) in texts.iter().zip(answer.as_array().unwrap()) {
            let got = resolve(text);
            match (want[0].as_str().unwrap(), got) {
                ("error", _) | ("bad", Err(_)) => {}
                // The deliberate difference.
                ("str", Ok(value)) if value.is_f64() => {
                    assert!(text.contains(['e', 'E']), "{text}")
                }
                (_, Ok(value)) => assert_eq!(value.to_string(), want[1].to_string(), "{text}"),
                (kind, Err(why)) => panic!("{text} is {kind}, not: {why}"),
            }
        }
    }
}
