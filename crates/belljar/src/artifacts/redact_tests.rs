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
    for name in ["API_KEY", "github_token", "DB_PASSWORD", "MYSECRETS", "SENTRY_DSN", "X_AUTH"] {
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
