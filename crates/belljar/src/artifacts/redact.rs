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
mod tests {
    use belljar_core::{CellValue, GuestError, Meta, Outcome, ToolCall};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn redacted(text: &str) -> String {
        Redactor::default().text(text).into_owned()
    }

    #[test]
    fn keys_are_known_by_their_shape() {
        let a = |count: usize| "a1B2".repeat(count);
        for secret in [
            format!("sk-{}", a(8)),
            format!("sk-proj-{}", a(10)),
            format!("sk-ant-api03-{}", a(10)),
            format!("sk_live_{}", a(6)),
            format!("ghp_{}", a(9)),
            format!("github_pat_{}", a(9)),
            format!("glpat-{}", a(5)),
            format!("xoxb-123456789012-{}", a(6)),
            format!("AKIA{}", "A1B2C3D4E5F6G7H8"),
            format!("AIza{}", a(9)),
            format!("hf_{}", a(9)),
            format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{}", a(8)),
        ] {
            let text = format!("key = '{secret}', twice {secret}\n");
            let shown = redacted(&text);
            assert!(!shown.contains(&secret), "{shown}");
            assert_eq!(shown, format!("key = '{REDACTED}', twice {REDACTED}\n"));
            let cut = format!("x {}{TRUNCATION_MARKER}", &secret[..secret.len() / 2]);
            assert_eq!(redacted(&cut), format!("x {REDACTED}{TRUNCATION_MARKER}"));
        }
    }

    #[test]
    fn secrets_are_known_by_where_they_stand() {
        for (text, shown) in [
            ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
            ("{'authorization': 'Basic dXNlcg=='}", "{'authorization': 'Basic [redacted]'}"),
            ("curl -H 'bearer 0123456789abcdefghij'", "curl -H 'bearer [redacted]'"),
            ("postgres://me:hunter2@db/x", "postgres://me:[redacted]@db/x"),
            (
                "https://x.example/?a=1&password=hunter2&b=2",
                "https://x.example/?a=1&password=[redacted]&b=2",
            ),
            ("PASSWORD = \"hunter22\"", "PASSWORD = \"[redacted]\""),
            ("{\"api_key\": \"0123456789\"}", "{\"api_key\": \"[redacted]\"}"),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- b",
                "a [redacted] b",
            ),
            ("'-----BEGIN PRIVATE KEY-----\\nMII", "'[redacted]"),
        ] {
            assert_eq!(redacted(text), shown);
        }
    }

    #[test]
    fn ordinary_text_is_unchanged() {
        for text in [
            "",
            "print('hello')",
            "import sk_learn as sk; task-force risk-averse-management-of-everything",
            "sk-learn-contrib-packages-are-many",
            "the bearer of this letter, Bearer bonds",
            "https://example.org/a:b/c?page=2&sort=key",
            "password = input('Password: ')",
            "key = d['key']; token = next(tokens)",
            "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
            "Line 12: ... (output truncated)",
            "AKIA is a prefix, eyJ too; 10:30@noon",
        ] {
            assert_eq!(redacted(text), text);
        }
    }

    #[test]
    fn names_say_what_is_secret() {
        for name in ["API_KEY", "github_token", "DB_PASSWORD", "MYSECRETS", "SENTRY_DSN", "X_AUTH"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["PATH", "HOME", "KEYBOARD", "PWD", "OLDPWD", "LANG", "AUTHOR", "COMPASS"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn nothing_of_what_it_knows_is_shown() {
        let redactor = Redactor::of_variables([("TOKEN", "tell-nobody"), ("PATH", "/usr/bin")]);
        assert_eq!(format!("{redactor:?}"), "Redactor { known: 1 }");
        assert_eq!(redactor.text("/usr/bin tell-nobody."), "/usr/bin [redacted].");
    }

    #[test]
    fn a_secret_is_known_as_a_string_in_code_too() {
        let redactor = Redactor::of_variables([("TOKEN", "two\nlines\\here\n")]);
        assert_eq!(redactor.text("print('two\\nlines\\\\here')"), "print('[redacted]')");
        assert_eq!(redactor.text("two\nlines\\here."), "[redacted].");
    }

    #[test]
    fn the_guests_environment_is_secret_except_for_the_usual() {
        let mut policy = PolicyValues::default();
        policy.env.insert("CITY".into(), "Samarkand".into());
        let redactor = Redactor::default().and_policy(&policy);
        assert_eq!(redactor.text("C.UTF-8 Samarkand"), "C.UTF-8 [redacted]");
    }

    /// Everything a guest can put a text into.
    fn full(secret: &str) -> SandboxResult {
        let text = || format!("a {secret} b");
        let error = GuestError { name: text(), message: text(), traceback: text() };
        let mut result = SandboxResult::new(Outcome::Raised(error), Meta::default());
        result.stdout = text();
        result.stderr = text();
        result.result = Some(CellValue {
            text: text(),
            json: Some(json!({ (text()): [text(), { "x": text() }] })),
            mime: [(text(), text())].into(),
        });
        result.files_created = vec![text()];
        result.files_modified = vec![text()];
        result.files_deleted = vec![text()];
        result.meta.blocked_imports = vec![text()];
        result.pending_calls = vec![ToolCall {
            args: vec![text().into()],
            kwargs: [("k".to_owned(), text().into())].into_iter().collect(),
            ..ToolCall::default()
        }];
        result
    }

    proptest! {
        #[test]
        fn a_known_secret_never_survives(
            secret in "[A-Za-z0-9+/=_.!-]{6,40}",
            before in any::<String>(),
            after in any::<String>(),
        ) {
            let redactor = Redactor::of_variables([("MY_TOKEN", &secret)]);
            prop_assume!(!REDACTED.contains(&secret));
            let shown = redactor.text(&format!("{before}{secret}{after}")).into_owned();
            prop_assert!(!shown.contains(&secret), "{}", shown);
            let mut result = full(&secret);
            redactor.result(&mut result);
            let json = serde_json::to_string(&result).unwrap();
            prop_assert!(!json.contains(&secret), "{}", json);
        }

        #[test]
        fn a_cut_secret_never_survives(secret in "[A-Za-z0-9]{8,40}", cut in 4usize..8) {
            let redactor = Redactor::of_variables([("MY_TOKEN", &secret)]);
            let text = format!("... {}{TRUNCATION_MARKER}", &secret[..cut]);
            let shown = redactor.text(&text).into_owned();
            prop_assert_eq!(shown, format!("... {REDACTED}{TRUNCATION_MARKER}"));
        }

        #[test]
        fn a_key_in_any_text_never_survives(
            before in "\\PC{0,40}", key in "[A-Za-z0-9]{20,40}", digit in 0u8..10,
        ) {
            let secret = format!("ghp_{key}{digit}");
            let shown = redacted(&format!("{before} {secret}\n"));
            prop_assert!(!shown.contains(&secret), "{}", shown);
        }

        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = redacted(&text);
        }
    }
}
