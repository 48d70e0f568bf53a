//! Times as E2B writes them: RFC 3339, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// `2026-11-15T18:23:53.036Z`
pub(super) fn rfc3339(ms: u64) -> String {
    let (seconds, ms) = (ms / 1000, ms % 1000);
    let (days, rest) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

pub(super) fn rfc3339_now() -> String {
    rfc3339(now_ms())
}

/// Seconds and nanoseconds of a file's time.
pub(super) fn rfc3339_of(seconds: i64, nanos: u64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    rfc3339(seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000))
}

/// How long from now until then; nothing when it is over.
pub(super) fn until(ms: u64) -> Duration {
    Duration::from_millis(ms.saturating_sub(now_ms()))
}

/// Year, month and day of a number of days since 1970: whole cycles of 400 years, then years that
/// begin in March, so that the leap day is the last.
fn civil(days: u64) -> (u64, u64, u64) {
    const CYCLE: u64 = 146_097;
    /// From the first of March of the year 0 to 1970.
    const BEFORE: u64 = 719_468;
    let days = days + BEFORE;
    let (cycle, day) = (days / CYCLE, days % CYCLE);
    let year = (day - day / 1460 + day / 36_524 - day / (CYCLE - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let march = (5 * day + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + cycle * 400 + u64::from(month <= 2);
    (year, month, day - (153 * march + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_763_231_033_036), "2025-11-15T18:23:53.036Z");
        assert_eq!(rfc3339(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
    }
}
