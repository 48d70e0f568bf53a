//! Secrets are taken out of what is kept: values known to be secret, and what has the shape of a
//! key. Work is linear in the text, whatever the text is.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use belljar_core::{PolicyValues, SandboxResult, TRUNCATION_MARKER};
use serde_json::{Map, Value};

use super::shapes::{CUT_KEY, SHAPES};

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
        // The host's line about a limit may follow.
        let Some(end) = text.rfind(TRUNCATION_MARKER) else { return Cow::Borrowed(text) };
        let (body, rest) = text.split_at(end);
        let known = self.known.iter().filter_map(|secret| {
            let cuts = secret.char_indices().map(|(index, _)| index).rev();
            cuts.take_while(|index| *index >= MIN_CUT_BYTES)
                .find(|index| secret.get(..*index).is_some_and(|start| body.ends_with(start)))
        });
        let shaped = CUT_KEY.find(body).map(|found| found.len());
        match known.chain(shaped).max() {
            Some(length) => {
                let kept = body.get(..body.len() - length).unwrap_or_default();
                Cow::Owned(format!("{kept}{REDACTED}{rest}"))
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
            self.replace(&mut call.name);
            call.args.iter_mut().for_each(|value| self.json(value));
            self.fields(&mut call.kwargs, Numbers::Looked);
        }
        let files =
            [&mut result.files_created, &mut result.files_modified, &mut result.files_deleted];
        files.into_iter().flatten().for_each(|name| self.replace(name));
        result.meta.blocked_imports.iter_mut().for_each(|name| self.replace(name));
    }

    /// Takes secrets out of a guest's value. A number can be one.
    fn json(&self, value: &mut Value) {
        self.value(value, Numbers::Looked);
    }

    /// Takes secrets out of the texts of a value that is not the guest's; its numbers stay.
    pub(super) fn texts_in(&self, value: &mut Value) {
        self.value(value, Numbers::Kept);
    }

    fn value(&self, value: &mut Value, numbers: Numbers) {
        match value {
            Value::Null | Value::Bool(_) => {}
            Value::Number(number) => {
                let digits = number.to_string();
                if numbers == Numbers::Looked
                    && let Cow::Owned(changed) = self.text(&digits)
                {
                    *value = Value::String(changed);
                }
            }
            Value::String(text) => self.replace(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item, numbers)),
            Value::Object(fields) => self.fields(fields, numbers),
        }
    }

    fn fields(&self, fields: &mut Map<String, Value>, numbers: Numbers) {
        *fields = std::mem::take(fields)
            .into_iter()
            .map(|(name, mut value)| {
                self.value(&mut value, numbers);
                (self.text(&name).into_owned(), value)
            })
            .collect();
    }

    fn replace(&self, text: &mut String) {
        if let Cow::Owned(changed) = self.text(text) {
            *text = changed;
        }
    }
}

/// Whether numbers are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Numbers {
    Looked,
    Kept,
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

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
