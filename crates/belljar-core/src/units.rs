//! Sizes like `64MiB` and durations like `500ms`, as people write them.

/// Reads a size: a whole number of bytes, optionally with `B`, `kB`, `MB`, `GB`, `TB` (powers of a
/// thousand) or `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024), or a plain `K`, `M`, `G`, `T` meaning
/// the latter. Upper and lower case are the same; underscores are ignored.
///
/// # Errors
/// A sentence that says what is wrong and what would be right.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(format!("`{text}` is not a size; write for example 64MiB or 1000000")),
    };
    let number: u64 = digits(number)
        .ok_or_else(|| format!("`{text}` is not a size; write for example 64MiB or 1000000"))?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is larger than any size can be"))
}

/// Reads a plain count such as fuel, with optional `K`, `M`, `G`, `T` for thousands, millions and so
/// on. Underscores are ignored.
///
/// # Errors
/// A sentence that says what is wrong and what would be right.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "t" => 1_000_000_000_000,
        _ => {
            return Err(format!(
                "`{text}` is not a whole number; write for example 2000000000 or 2G"
            ));
        }
    };
    let number: u64 = digits(number).ok_or_else(|| {
        format!("`{text}` is not a whole number; write for example 2000000000 or 2G")
    })?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is larger than any number can be"))
}

/// Reads a duration in seconds: a number, optionally with `ms`, `s`, `m`/`min`, `h` or `d`.
///
/// # Errors
/// A sentence that says what is wrong and what would be right.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let bad = || format!("`{text}` is not a duration; write for example 5, 0.5, 500ms or 2m");
    let (number, unit) = split_unit(text);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "s" | "sec" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(bad()),
    };
    let number: f64 = number.replace('_', "").parse().map_err(|_| bad())?;
    Ok(number * factor)
}

/// Writes a size the way people read it: exact, in the largest binary unit that divides it, or in
/// plain bytes.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    for (factor, unit) in
        [(1u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")]
    {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{} {unit}", bytes / factor);
        }
    }
    format!("{} bytes", group_digits(bytes))
}

/// Writes a number with its digits in groups of three.
#[must_use]
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    out
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    (text[..end].trim_end(), &text[end..])
}

fn digits(text: &str) -> Option<u64> {
    let plain = text.replace('_', "");
    let all_digits = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { plain.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("0", 0),
            ("1_000", 1000),
            ("64MiB", 64 << 20),
            ("64 mib", 64 << 20),
            ("64M", 64 << 20),
            ("2MB", 2_000_000),
            ("1kB", 1000),
            ("1b", 1),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "-1", "1.5MiB", "MiB", "12 monkeys", "99999999999TiB", "+3", "１"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_are_read() {
        assert_eq!(parse_count("2G"), Ok(2_000_000_000));
        assert_eq!(parse_count("1_000"), Ok(1000));
        assert!(parse_count("2GiB").is_err());
        assert!(parse_count("-5").is_err());
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_seconds("5"), Ok(5.0));
        assert_eq!(parse_seconds("500ms"), Ok(0.5));
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        assert_eq!(parse_seconds("2m"), Ok(120.0));
        assert_eq!(parse_seconds("7d"), Ok(604_800.0));
        assert!(parse_seconds("soon").is_err());
        assert!(parse_seconds("nan").is_err());
        assert!(parse_seconds("").is_err());
    }

    #[test]
    fn sizes_are_written_exactly() {
        assert_eq!(format_bytes(64 << 20), "64 MiB");
        assert_eq!(format_bytes(128_000_000), "125000 KiB");
        assert_eq!(format_bytes(2_000_001), "2 000 001 bytes");
        assert_eq!(format_bytes(0), "0 bytes");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,20}") {
            let _ = (parse_bytes(&text), parse_count(&text), parse_seconds(&text));
        }
    }
}
