//! Amounts as sbatch spells them.

use std::time::Duration;

/// A job's time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeLimit {
    /// At most this long. SLURM counts whole minutes, rounded up.
    Limited(Duration),
    /// None: sbatch's `0`, `UNLIMITED` and `INFINITE`.
    Unlimited,
}

/// Reads a time limit: `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` or `D-H:M:S`.
pub fn time(text: &str) -> Option<TimeLimit> {
    let text = text.trim_matches('"');
    if ["-1", "infinite", "unlimited"].contains(&text.to_ascii_lowercase().as_str()) {
        return Some(TimeLimit::Unlimited);
    }
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    let parts: Vec<u64> = clock.split(':').map(number).collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match (days, parts.as_slice()) {
        (None, [minutes]) => (0, *minutes, 0),
        (None, [minutes, seconds]) => (0, *minutes, *seconds),
        (Some(_), [hours]) => (*hours, 0, 0),
        (Some(_), [hours, minutes]) => (*hours, *minutes, 0),
        (_, [hours, minutes, seconds]) => (*hours, *minutes, *seconds),
        _ => return None,
    };
    let hours = days.unwrap_or(0).checked_mul(24)?.checked_add(hours)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    let seconds = minutes.checked_mul(60)?.checked_add(seconds)?;
    let whole_minutes = seconds.div_ceil(60).checked_mul(60)?;
    Some(match whole_minutes {
        0 => TimeLimit::Unlimited,
        seconds => TimeLimit::Limited(Duration::from_secs(seconds)),
    })
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads a count, `2` or `2k`.
pub(super) fn count(text: &str) -> Option<u32> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => (text, 1),
    };
    u32::try_from(number(digits)?).ok()?.checked_mul(unit)
}

/// Reads a number of nodes, of which the least counts: `2`, `2-4`, `2,4,8` or `4-12:4`.
pub(super) fn nodes(text: &str) -> Option<u32> {
    text.split(['-', ',', ':']).map(count).collect::<Option<Vec<_>>>()?.first().copied()
}

/// The most nodes of such a number.
pub(super) fn most_nodes(text: &str) -> Option<u32> {
    text.split(['-', ',', ':']).map(count).collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// Reads GPUs, with or without types: `8`, `a100:8`, `a100:2,v100:1`.
pub(super) fn gpus(text: &str) -> Option<u32> {
    let one = |item: &str| count(item.rsplit_once(':').map_or(item, |(_, number)| number));
    text.split(',').map(one).try_fold(0_u32, |sum, number| sum.checked_add(number?))
}

/// Reads one item of `--gres`: `gpu`, `gpu:8`, `gpu:a100` or `gpu:a100:8`.
pub(super) fn gres(item: &str) -> Option<u32> {
    match item.rsplit_once([':', '=']) {
        None => Some(1),
        // `gpu:a100` is one of that type.
        Some((_, last)) if last.starts_with(|c: char| c.is_ascii_digit()) => {
            count(last.split('(').next().unwrap_or(last)).or(Some(1))
        }
        Some(_) => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_in_every_form_of_the_manual() {
        let table = [
            ("10", Some(600)),
            ("0:30", Some(60)),
            ("10:01", Some(660)),
            ("0:30:0", Some(1800)),
            ("12:00:00", Some(43_200)),
            ("1-0", Some(86_400)),
            ("5-00:30", Some(433_800)),
            ("01-00:00:00", Some(86_400)),
            ("4000", Some(240_000)),
            ("0", None),
            ("0:0", None),
            ("UNLIMITED", None),
            ("infinite", None),
            ("-1", None),
        ];
        for (text, seconds) in table {
            let want = seconds
                .map_or(TimeLimit::Unlimited, |s| TimeLimit::Limited(Duration::from_secs(s)));
            assert_eq!(time(text), Some(want), "{text}");
        }
        for text in ["", "1:2:3:4", "ten", "1-", "-5", "+5", "1.5", "99999999999999999999", "1-2-3"]
        {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn counts_of_nodes_and_gpus() {
        for (text, want) in [("2", 2), ("2-4", 2), ("1k", 1024), ("4-12:4", 4), ("1,5,9", 1)] {
            assert_eq!(nodes(text), Some(want), "{text}");
        }
        for (text, want) in [("8", 8), ("a100:8", 8), ("a100:2,v100:1", 3), ("0", 0)] {
            assert_eq!(gpus(text), Some(want), "{text}");
        }
        let table =
            [("gpu", 1), ("gpu:4", 4), ("gpu:3080ti:1", 1), ("gpu:typeA:2", 2), ("gpu:a100", 1)];
        for (text, want) in table {
            assert_eq!(gres(text), Some(want), "{text}");
        }
        for text in ["", "-", "2-", "two", "4294967296", "-1"] {
            assert_eq!(nodes(text), None, "{text}");
        }
        assert_eq!(gpus("a100"), None);
    }
}
