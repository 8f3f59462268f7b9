//! Sizes on the command line: bytes, or a number with a binary (`MiB`) or decimal (`MB`) unit.

/// Parse a size of at least one byte.
pub(super) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err("expected bytes, or a number with KiB, MiB, GiB, kB, MB or GB".into()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    match bytes {
        Some(bytes) if bytes > 0 && bytes <= 1 << 40 => Ok(bytes),
        _ => Err("expected a size from 1 byte to 1024 GiB".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn sizes() {
        for (text, bytes) in [("1", 1), ("64KiB", 65_536), ("512MB", 512_000_000), ("2GiB", 2 << 30), ("7B", 7)] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "0", "12xyz", "-1", "1.5GiB", "MiB", "99999999999999999999", "18014398509481984KiB", "1 MiB"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
