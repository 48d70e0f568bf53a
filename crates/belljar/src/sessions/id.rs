//! Names of sessions.

use std::hash::{BuildHasher, RandomState};

use belljar_core::{SandboxError, limits};

/// Whether a text can name a session: what is safe as a directory, on a command line and in a URL.
///
/// # Errors
/// When it cannot, with the reason.
pub fn check_id(id: &str) -> Result<(), SandboxError> {
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let problem = if id.is_empty() {
        "a session needs a name"
    } else if id.len() > limits::MAX_SESSION_ID_BYTES {
        "the name is longer than 64 characters"
    } else if !plain || id.starts_with('-') {
        "this is no name for a session"
    } else {
        return Ok(());
    };
    Err(SandboxError::Session {
        id: shown(id),
        problem: problem.to_owned(),
        hint: Some("use ASCII letters, digits, `_` and, except at the beginning, `-`".to_owned()),
    })
}

fn shown(id: &str) -> String {
    const SHOWN: usize = 80;
    let end = id.floor_char_boundary(SHOWN);
    id[..end].escape_debug().to_string()
}

/// A name nobody has chosen: short, to be typed and remembered. Not necessarily unused.
pub(super) fn generate() -> String {
    // A hash with random keys is random enough for a name.
    let random = RandomState::new().hash_one(0);
    let pick = |words: &[&'static str], bits: u64| {
        usize::try_from(bits).map_or(words[0], |index| words[index % words.len()])
    };
    let adjective = pick(&ADJECTIVES, random & 0xffff);
    let noun = pick(&NOUNS, (random >> 16) & 0xffff);
    format!("{adjective}-{noun}-{}", (random >> 32) % 90 + 10)
}

const ADJECTIVES: [&str; 32] = [
    "amber", "bold", "brisk", "calm", "clear", "cosy", "crisp", "deep", "early", "fair", "fine",
    "fresh", "gentle", "glad", "green", "keen", "kind", "late", "light", "mild", "neat", "plain",
    "quick", "quiet", "ripe", "round", "sharp", "slow", "soft", "still", "warm", "wise",
];

const NOUNS: [&str; 32] = [
    "acorn", "badger", "birch", "brook", "cedar", "clover", "crane", "dune", "falcon", "fern",
    "finch", "harbour", "hazel", "heron", "island", "ivy", "juniper", "lark", "lynx", "maple",
    "marten", "meadow", "otter", "pebble", "plover", "reed", "robin", "spruce", "thistle", "tulip",
    "willow", "wren",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_are_accepted() {
        for good in ["a", "A-1_b", "_x", "0", &"x".repeat(64)] {
            assert_eq!(check_id(good), Ok(()), "{good}");
        }
        for _ in 0..100 {
            assert_eq!(check_id(&generate()), Ok(()));
        }
    }

    #[test]
    fn names_that_could_be_paths_or_options_are_refused() {
        for bad in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "a\\b",
            "-rf",
            "a b",
            "a.b",
            "é",
            "a\0",
            "a\n",
            &"x".repeat(65),
        ] {
            assert!(check_id(bad).is_err(), "{bad:?}");
        }
        insta::assert_snapshot!(
            check_id("../../etc").unwrap_err(),
            @"the session `../../etc` cannot be used: this is no name for a session; nothing was changed"
        );
    }
}
