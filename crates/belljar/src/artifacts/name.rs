//! Names of artifacts: when, and a hash. Nothing in them comes from a user.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use belljar_core::SandboxError;
use belljar_core::text::shortened;

/// Characters of the hash.
const HASH_CHARS: usize = 16;

/// `20260109T081530.123456Z`, as long as the year has four digits.
const STAMP_CHARS: usize = 23;

/// What a file's name ends with.
pub(super) const EXTENSION: &str = ".json";

/// The name of an artifact, which is its file's name without `.json`. Sorted by it, artifacts are
/// sorted by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Name(String);

impl Name {
    /// A name nothing else has.
    pub(super) fn new(now: SystemTime, code: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut hasher = blake3::Hasher::new();
        hasher.update(code.as_bytes());
        hasher.update(&since.as_nanos().to_le_bytes());
        hasher.update(&std::process::id().to_le_bytes());
        hasher.update(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        // So that the name tells nobody whether he has guessed the code.
        hasher.update(crate::execution_id::next().as_bytes());
        let hash = hasher.finalize().to_hex();
        Self(format!("{}_{}", Moment::of(since).compact(), &hash[..HASH_CHARS]))
    }

    /// The name a file has, if it is the file of an artifact.
    pub(super) fn of_file(file: &str) -> Option<Self> {
        let stem = file.strip_suffix(EXTENSION)?;
        (stem.len() == STAMP_CHARS + 1 + HASH_CHARS && fits(stem)).then(|| Self(stem.to_owned()))
    }

    pub(super) fn file(&self) -> String {
        format!("{}{EXTENSION}", self.0)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// When it was made, to the second. `None` when the name says no date.
    pub(super) fn made(&self) -> Option<SystemTime> {
        let number = |from: usize, to: usize| self.0.get(from..to)?.parse::<u64>().ok();
        let days = days_since_1970(number(0, 4)?, number(4, 6)?, number(6, 8)?)?;
        let seconds = number(9, 11)? * 3600 + number(11, 13)? * 60 + number(13, 15)?;
        UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + seconds))
    }
}

/// Checks what a person typed for the beginning of a name.
///
/// # Errors
/// When no name begins like that.
pub(super) fn check_prefix(typed: &str) -> Result<&str, SandboxError> {
    let typed = typed.strip_suffix(EXTENSION).unwrap_or(typed);
    let problem = if typed.is_empty() {
        "a name is needed"
    } else if !fits(typed) {
        "this is no name of an artifact, nor the beginning of one"
    } else {
        return Ok(typed);
    };
    Err(SandboxError::Artifact {
        id: shortened(typed).escape_debug().to_string(),
        problem: problem.to_owned(),
        hint: Some("`belljar artifacts list` shows the names there are".to_owned()),
    })
}

/// Whether a text is a name or the beginning of one, character by character.
fn fits(text: &str) -> bool {
    text.len() <= STAMP_CHARS + 1 + HASH_CHARS
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 => byte == b'T',
            15 => byte == b'.',
            22 => byte == b'Z',
            STAMP_CHARS => byte == b'_',
            0..STAMP_CHARS => byte.is_ascii_digit(),
            _ => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        })
}

/// A time in UTC.
pub(super) struct Moment {
    year: u64,
    month: u64,
    day: u64,
    second: u64,
    micros: u32,
}

impl Moment {
    pub(super) fn of(since_1970: Duration) -> Self {
        let (year, month, day) = date(since_1970.as_secs() / 86_400);
        let second = since_1970.as_secs() % 86_400;
        Self { year, month, day, second, micros: since_1970.subsec_micros() }
    }

    fn compact(&self) -> String {
        let Self { year, month, day, second, micros } = self;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{micros:06}Z")
    }

    /// As RFC 3339 writes it.
    pub(super) fn readable(&self) -> String {
        let Self { year, month, day, second, micros } = self;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }
}

/// Years are counted from March, so that the leap day is the last of its year; eras of 400 years
/// have the same number of days each.
const DAYS_OF_ERA: u64 = 146_097;
/// From 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;

fn date(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let from_march = if month > 2 { month - 3 } else { month + 9 };
    let year_of_era = year % 400;
    let of_year = (153 * from_march + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    (year / 400 * DAYS_OF_ERA + of_era).checked_sub(DAYS_BEFORE_1970)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::new(seconds, 123_456_789)
    }

    #[test]
    fn a_name_is_a_time_and_a_hash() {
        let name = Name::new(at(1_767_946_530), "print(1)");
        assert!(name.as_str().starts_with("20260109T081530.123456Z_"), "{name:?}");
        assert_eq!(Name::of_file(&name.file()), Some(name.clone()));
        assert_eq!(name.made(), Some(UNIX_EPOCH + Duration::from_secs(1_767_946_530)));
        assert_ne!(Name::new(at(1_767_946_530), "print(1)"), name, "no two are the same");
    }

    #[test]
    fn other_files_are_not_artifacts() {
        let good = Name::new(at(0), "").file();
        for bad in [
            "",
            ".json",
            "notes.json",
            "../x.json",
            &good[1..],
            &good.replace('Z', "z"),
            &good.replace('_', "/"),
            &format!("{good}~"),
            &good.replace(".json", ".JSON"),
        ] {
            assert_eq!(Name::of_file(bad), None, "{bad}");
        }
    }

    #[test]
    fn only_beginnings_of_names_are_looked_for() {
        for good in ["2", "20260109", "20260109T0815", "20260109T081530.123456Z_00ff"] {
            assert!(check_prefix(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            ".json",
            "../x",
            "/etc/passwd",
            "*",
            "?",
            "2026*",
            "20260109T081530.123456Z_\0",
            "\0",
            ".",
            "..",
            "-rf",
            "2026/01",
            "é",
            &"2".repeat(100),
            "20260109T081530.123456Z_XY",
        ] {
            assert!(check_prefix(bad).is_err(), "{bad:?}");
        }
        insta::assert_snapshot!(
            check_prefix("../../etc/passwd").unwrap_err(),
            @"the artifact `../../etc/passwd` cannot be used: this is no name of an artifact, nor the beginning of one; nothing was run"
        );
    }

    proptest! {
        #[test]
        fn dates_go_there_and_back(days in 0u64..2_900_000) {
            let (year, month, day) = date(days);
            prop_assert_eq!(days_since_1970(year, month, day), Some(days));
        }

        #[test]
        fn later_names_sort_later(first in 0u64..200_000_000_000, second in 0u64..200_000_000_000) {
            let names = (Name::new(at(first), ""), Name::new(at(second), ""));
            prop_assert!(first == second || (first < second) == (names.0 < names.1));
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = (check_prefix(&text), Name::of_file(&text).map(|name| name.made()));
        }
    }
}
