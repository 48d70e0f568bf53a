//! Secrets are taken out of what is kept: values known to be secret, and what has the shape of a
//! key. Work is linear in the text, whatever the text is.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use belljar_core::{PolicyValues, SandboxResult, TRUNCATION_MARKER};
use regex::{Captures, Regex};
use serde_json::Value;

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// Shorter values are no secrets worth the name, and would be found everywhere.
const MIN_SECRET_BYTES: usize = 6;

/// Of a known secret that the output limit cut, this much is recognised.
const MIN_CUT_BYTES: usize = 4;

/// Finds secrets in texts. Cheap to clone; never shows what it knows.
#[derive(Clone)]
pub struct Redactor {
    known: Arc<BTreeSet<String>>,
    finder: Option<AhoCorasick>,
}

impl Default for Redactor {
    fn default() -> Self {
        Self::new(BTreeSet::new())
    }
}

impl Redactor {
    /// Knows the values of those variables whose names say that they are secret.
    #[must_use]
    pub fn of_variables<N: AsRef<str>, V: AsRef<str>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let secret = variables.into_iter().filter(|(name, _)| is_secret_name(name.as_ref()));
        Self::new(secret.map(|(_, value)| value.as_ref().to_owned()).collect())
    }

    /// Knows the guest's environment as well, except for what every guest is given.
    #[must_use]
    pub fn and_policy(&self, policy: &PolicyValues) -> Self {
        let usual = PolicyValues::default().env;
        let given = policy.env.iter().filter(|(name, value)| usual.get(*name) != Some(*value));
        let mut known = (*self.known).clone();
        known.extend(given.map(|(_, value)| value.clone()));
        Self::new(known)
    }

    fn new(known: BTreeSet<String>) -> Self {
        let mut all = BTreeSet::new();
        for secret in known {
            // Whoever prints a variable may have lost the line end at its end, or show it as a
            // string in code, where quotes, backslashes and line ends are escaped.
            let trimmed = secret.trim().to_owned();
            let escaped = Value::from(trimmed.as_str()).to_string();
            let escaped = escaped.trim_matches('"').to_owned();
            for form in [trimmed, escaped, secret] {
                if form.len() >= MIN_SECRET_BYTES && form != REDACTED {
                    all.insert(form);
                }
            }
        }
        // Fails beyond billions of bytes only; an environment is not as large as that.
        let finder = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&all)
            .ok()
            .filter(|_| !all.is_empty());
        Self { known: Arc::new(all), finder }
    }

    /// The text without secrets. One without any is given back as it is.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = self.without_cut_secret(text);
        if let Some(finder) = &self.finder
            && finder.is_match(text.as_ref())
        {
            text = Cow::Owned(finder.replace_all(&text, &vec![REDACTED; self.known.len()]));
        }
        for shape in SHAPES.iter() {
            if let Cow::Owned(changed) = shape.pattern.replace_all(&text, shape.replace) {
                text = Cow::Owned(changed);
            }
        }
        text
    }

    /// The output limit may have cut a secret in two; what is left of it is one as well.
    fn without_cut_secret<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(body) = text.strip_suffix(TRUNCATION_MARKER) else { return Cow::Borrowed(text) };
        let known = self.known.iter().filter_map(|secret| {
            let cuts = secret.char_indices().map(|(index, _)| index).rev();
            cuts.take_while(|index| *index >= MIN_CUT_BYTES)
                .find(|index| secret.get(..*index).is_some_and(|start| body.ends_with(start)))
        });
        let shaped = CUT_KEY.find(body).map(|found| found.len());
        match known.chain(shaped).max() {
            Some(length) => {
                let kept = body.get(..body.len() - length).unwrap_or_default();
                Cow::Owned(format!("{kept}{REDACTED}{TRUNCATION_MARKER}"))
            }
            None => Cow::Borrowed(text),
        }
    }

    /// Takes secrets out of everything in a result that a guest had a hand in.
    pub fn result(&self, result: &mut SandboxResult) {
        self.replace(&mut result.stdout);
        self.replace(&mut result.stderr);
        if let Some(error) = &mut result.error {
            self.replace(&mut error.name);
            self.replace(&mut error.message);
            self.replace(&mut error.traceback);
        }
        if let Some(value) = &mut result.result {
            self.replace(&mut value.text);
            if let Some(json) = &mut value.json {
                self.json(json);
            }
            value.mime = std::mem::take(&mut value.mime)
                .into_iter()
                .map(|(kind, text)| (self.text(&kind).into_owned(), self.text(&text).into_owned()))
                .collect();
        }
        for call in &mut result.pending_calls {
            call.args.iter_mut().for_each(|value| self.json(value));
            call.kwargs.values_mut().for_each(|value| self.json(value));
        }
        let files =
            [&mut result.files_created, &mut result.files_modified, &mut result.files_deleted];
        files.into_iter().flatten().for_each(|name| self.replace(name));
        result.meta.blocked_imports.iter_mut().for_each(|name| self.replace(name));
    }

    pub(super) fn json(&self, value: &mut Value) {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => self.replace(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.json(item)),
            Value::Object(fields) => {
                *fields = std::mem::take(fields)
                    .into_iter()
                    .map(|(name, mut value)| {
                        self.json(&mut value);
                        (self.text(&name).into_owned(), value)
                    })
                    .collect();
            }
        }
    }

    fn replace(&self, text: &mut String) {
        if let Cow::Owned(changed) = self.text(text) {
            *text = changed;
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("known", &self.known.len()).finish()
    }
}

/// Whether a variable's name says that its value is secret.
fn is_secret_name(name: &str) -> bool {
    const ANYWHERE: [&str; 7] =
        ["TOKEN", "SECRET", "PASSW", "PASSPHRASE", "CREDENTIAL", "APIKEY", "PRIVATE"];
    const WORDS: [&str; 7] = ["KEY", "KEYS", "PASS", "PWD", "AUTH", "COOKIE", "DSN"];
    let name = name.to_ascii_uppercase();
    let in_words = || name.split('_').any(|word| WORDS.contains(&word));
    // The shell's own variable for where it stands.
    name != "PWD" && (ANYWHERE.iter().any(|part| name.contains(part)) || in_words())
}

/// A kind of secret that is known by its shape.
struct Shape {
    pattern: Regex,
    replace: fn(&Captures<'_>) -> String,
}

/// How keys of known services begin that nothing else begins like.
const KEY_STARTS: &str = r"sk_live_|sk_test_|rk_live_|rk_test_|ghp_|gho_|ghu_|ghs_|ghr_|github_pat_|glpat-|xox[a-z]-|xapp-|AIza";

/// The same for beginnings that may also be the end of a word.
const SHORT_KEY_STARTS: &str = r"sk-|hf_|npm_|pypi-";

/// Such a key without its end.
static CUT_KEY: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&format!(r"(?:{KEY_STARTS}|\b(?:{SHORT_KEY_STARTS}|AKIA|ASIA|eyJ))[A-Za-z0-9_.\-]*$"))
});

static SHAPES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let shape = |pattern: &str, replace| Shape { pattern: compiled(pattern), replace };
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
        shape(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=\-]{20,}", after_first),
        // Passwords in addresses, before the host and among the parameters.
        shape(r#"(?i)(\b[a-z][a-z0-9+.\-]*://[^\s:/@"']*:)[^\s@/"']+@"#, before_at),
        shape(
            r#"(?i)([?&;](?:password|passwd|pwd|secret|client_secret|token|access_token|auth_token|api_?key|key|sig|signature)=)[^\s&"'#;]+"#,
            after_first,
        ),
        // Something called a password that is given a text.
        shape(
            r#"(?i)((?:password|passwd|passphrase|secret|secret_key|api_?key|access_key|auth_?token|access_?token)["']?\s*[:=]\s*["'])[^"'\n]{6,}"#,
            after_first,
        ),
    ]
});

/// The patterns are constants and every one of them is tried by a test; one that did not compile
/// would match nothing.
fn compiled(pattern: &str) -> Regex {
    #[expect(clippy::expect_used, reason = "a constant, compiled by every test of this module")]
    Regex::new(pattern).expect("a valid pattern")
}

fn whole(_: &Captures<'_>) -> String {
    REDACTED.to_owned()
}

/// Words joined by hyphens can look like a key; keys have digits.
fn after_first_with_digit(found: &Captures<'_>) -> String {
    let text = found.get(0).map_or("", |all| all.as_str());
    if text.bytes().any(|byte| byte.is_ascii_digit()) {
        after_first(found)
    } else {
        text.to_owned()
    }
}

fn after_first(found: &Captures<'_>) -> String {
    format!("{}{REDACTED}", found.get(1).map_or("", |kept| kept.as_str()))
}

fn before_at(found: &Captures<'_>) -> String {
    format!("{}@", after_first(found))
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
