//! Durations on the command line: `500ms`, `2s`, `1m`, `1h`.

use std::time::Duration;

/// Parse a duration of at least a millisecond.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("expected a number with ms, s, m or h, for example 2s".into()),
    };
    let total = number.parse::<u64>().ok().and_then(|n| n.checked_mul(milliseconds));
    match total {
        Some(ms) if (1..=86_400_000).contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err("expected a duration from 1ms to 24h".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::time::Duration;

    #[test]
    fn durations() {
        for (text, ms) in [("500ms", 500), ("2s", 2_000), ("1m", 60_000), ("24h", 86_400_000)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "2", "0s", "-1s", "1.5s", "25h", "s", "99999999999999999999ms"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
