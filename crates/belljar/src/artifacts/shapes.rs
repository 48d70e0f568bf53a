//! What secrets look like, where nobody has told which values are secret: keys of known services,
//! and texts that are given to something whose name says that it is secret.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::redact::REDACTED;

/// A kind of secret that is known by its shape.
pub(super) struct Shape {
    pub(super) pattern: Regex,
    pub(super) replace: fn(&Captures<'_>) -> String,
}

/// How keys of known services begin that nothing else begins like.
const KEY_STARTS: &str = r"sk_live_|sk_test_|rk_live_|rk_test_|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xox[a-z]-|xapp-|AIza";

/// The same for beginnings that may also be the end of a word.
const SHORT_KEY_STARTS: &str = r"sk-|hf_|npm_|pypi-";

/// Such a key without its end.
pub(super) static CUT_KEY: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(r"(?:{KEY_STARTS}|\b(?:{SHORT_KEY_STARTS}|AKIA|ASIA|eyJ))[A-Za-z0-9_.\-]*$"))
});

/// How names of secrets end. `KEY` and the like are many things, except in names that are written
/// as those of variables of an environment are.
const SECRET_NAME: &str = r"(?:passw(?:or)?d|passwort|passphrase|pwd|secret|token|credentials?|(?:api|access|secret|private|auth|account|signing|encryption)[_\-]?key|(?-i:[A-Z0-9]_(?:KEY|PASS|AUTH|DSN)))[_\-]?[0-9]*";

/// From the end of a name to the value it is given: the name may be a key in quotes and brackets,
/// may have a type, and the value may have a prefix such as `b` or `f`.
const GIVEN: &str = r#"(?:\\{0,2}["'])?\s*\]?\s*(?::\s*[A-Za-z0-9_.]+(?:\[[A-Za-z0-9_.\[\], |]*\])?(?:\s*\|\s*[A-Za-z0-9_.]+)*\s*=|:=|=>|:|={1,3})\s*[rbfu]{0,2}"#;

/// A variable of an environment, where it is set.
const VARIABLE: &str = r"[A-Z0-9_]*(?:(?:PASSW(?:OR)?D|PASSWORT|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|APIKEY)S?|[A-Z0-9]_(?:KEY|PASS|PWD|AUTH|DSN))(?:_[A-Z0-9_]*)?=";

pub(super) static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let shape = |pattern: &str, replace| Shape { pattern: compiled(pattern), replace };
    let named = |value: &str, replace| shape(&format!("(?i)({SECRET_NAME}{GIVEN}{value}"), replace);
    vec![
        // Private keys, also those whose end is missing, and those written with \n in a string.
        shape(
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)",
            whole,
        ),
        shape(&format!(r"(?:{KEY_STARTS})[A-Za-z0-9_\-]{{16,}}"), whole),
        shape(
            &format!(r"(^|[^A-Za-z0-9])(?:{SHORT_KEY_STARTS})[A-Za-z0-9_\-]{{16,}}"),
            after_first_with_digit,
        ),
        shape(r"(?:AKIA|ASIA)[0-9A-Z]{16,}", whole),
        // JSON Web Tokens.
        shape(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}(?:\.[A-Za-z0-9_\-]*)?", whole),
        shape(
            r#"(?i)(\bauthorization["']?\s*[:=,]\s*["']?(?:bearer|basic|token)\s+)[^\s"',;]+"#,
            after_first,
        ),
        shape(
            r#"(?i)(\bauthorization["']?\s*\]?\s*[:=,]\s*[rbfu]{0,2}["'](?:(?:bearer|basic|token)\s+)?)[^"'\n]{6,}"#,
            after_first,
        ),
        shape(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=\-]{20,}", after_first),
        // Headers as they are sent.
        shape(
            r#"(?i)(\b(?:x-[a-z0-9\-]*(?:key|token|secret|auth|password)|(?:[a-z0-9]+-){1,4}(?:token|secret|password)|api-key)\s*:\s*)[^\s"',;\\]{6,}"#,
            after_first,
        ),
        // Passwords in addresses, before the host and among the parameters.
        shape(r#"(?i)(\b[a-z][a-z0-9+.\-]*://[^\s:/@"']*:)[^\s@/"']+@"#, before_at),
        shape(
            r#"(?i)([?&;](?:password|passwd|pwd|secret|client_secret|token|access_token|auth_token|api_?key|key|sig|signature)=)[^\s&"'#;]+"#,
            after_first,
        ),
        // Something called a password that is given a text, in every kind of quotes.
        named(r#"""")(?s:.*?)("""|\z)"#, between),
        named(r"''')(?s:.*?)('''|\z)", between),
        named(r#"")(?:[^"\\\n]|\\(?s:.)){6,}"#, after_first),
        named(r"')(?:[^'\\\n]|\\(?s:.)){6,}", after_first),
        // The same inside of a text, where quotes are escaped.
        named(r#"\\{1,3}["'])[^"'\\\n]{6,}"#, after_first),
        // Variables as `env` prints them, and as they stand before or among arguments.
        shape(
            &format!(r"(?m)^((?:export |declare -x |set )?{VARIABLE})([^\n]{{6,}})"),
            unless_expression,
        ),
        shape(&format!(r#"([ \t"']{VARIABLE})([^\s"']{{6,}})"#), unless_expression),
    ]
});

/// The patterns are constants and every one of them is tried by a test; one that did not compile
/// would match nothing.
fn compiled(pattern: &str) -> Regex {
    #[expect(clippy::expect_used, reason = "a constant, compiled by every test of this module")]
    Regex::new(pattern).expect("a valid pattern")
}

fn group<'t>(found: &Captures<'t>, number: usize) -> &'t str {
    found.get(number).map_or("", |text| text.as_str())
}

fn whole(_: &Captures<'_>) -> String {
    REDACTED.to_owned()
}

/// Words joined by hyphens can look like a key; keys have digits.
fn after_first_with_digit(found: &Captures<'_>) -> String {
    if group(found, 0).bytes().any(|byte| byte.is_ascii_digit()) {
        after_first(found)
    } else {
        group(found, 0).to_owned()
    }
}

fn after_first(found: &Captures<'_>) -> String {
    format!("{}{REDACTED}", group(found, 1))
}

fn before_at(found: &Captures<'_>) -> String {
    format!("{}@", after_first(found))
}

fn between(found: &Captures<'_>) -> String {
    format!("{}{}", after_first(found), group(found, 2))
}

/// In code, such a line may also take the value from elsewhere: `TOKEN=read()`. What begins with a
/// quote was looked at before.
fn unless_expression(found: &Captures<'_>) -> String {
    let value = group(found, 2).trim_end();
    let name_end = value.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.');
    let after_name = name_end.and_then(|end| value.get(end..)).unwrap_or_default();
    // A quote may have ended what was found right behind the bracket.
    let brackets = |open: char, close: char| {
        after_name
            .strip_prefix(open)
            .is_some_and(|rest: &str| rest.is_empty() || rest.ends_with(close))
    };
    let is_call = name_end != Some(0) && (brackets('(', ')') || brackets('[', ']'));
    let prefix = ['r', 'b', 'f', 'u', 'R', 'B', 'F', 'U'];
    let is_text = value.trim_start_matches(prefix).starts_with(['"', '\'']);
    if is_call || is_text { group(found, 0).to_owned() } else { after_first(found) }
}
