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

/// However a secret is given to its name.
#[test]
fn what_a_secret_name_is_given_never_survives() {
    for text in [
        r#"cfg["password"] = "HUNTER-2222""#,
        r#"cfg['db']['password']='HUNTER-2222'"#,
        "X-API-Key: HUNTER-2222",
        "curl -H 'X-Auth-Token: HUNTER-2222' x",
        "Private-Token: HUNTER-2222",
        r#"{"X-API-Key": "HUNTER-2222"}"#,
        r#"headers["Authorization"] = "Bearer HUNTER-2222""#,
        r#"headers["Authorization"] = f"Bearer HUNTER-2222""#,
        r#"headers = {"Authorization": "HUNTER-2222"}"#,
        r#"headers["Authorization"] = "Custom scheme HUNTER-2222""#,
        r#"password = b"HUNTER-2222""#,
        r#"password = r'HUNTER-2222'"#,
        r#"password = f"HUNTER-2222""#,
        r#"password = Rb"HUNTER-2222""#,
        r#"token: str = "HUNTER-2222""#,
        r#"token: Optional[str] = "HUNTER-2222""#,
        r#"token: dict[str, str] | None = "HUNTER-2222""#,
        r#"(token := "HUNTER-2222")"#,
        r#"if password == "HUNTER-2222": pass"#,
        "secret = \"\"\"HUNTER-2222\"\"\"",
        "secret = '''\nfirst line\n\"HUNTER-2222\n'''",
        "secret = \"\"\"never closed\nHUNTER-2222",
        r#"password = "it's HUNTER-2222""#,
        r#"password = 'say "please" HUNTER-2222'"#,
        r#"password = "a \"quoted\" HUNTER-2222""#,
        r#"API_TOKEN = "HUNTER-2222""#,
        r#"GITHUB_TOKEN="HUNTER-2222""#,
        r#"STRIPE_KEY = "HUNTER-2222""#,
        r#"password2 = "HUNTER-2222""#,
        r#"connect(db_password="HUNTER-2222")"#,
        r#"json.loads("{\"password\": \"HUNTER-2222\"}")"#,
        "PASSWORD=HUNTER-2222",
        "LANG=C\nDB_PASSWORD=with spaces and (brackets) HUNTER-2222\nHOME=/",
        "export GITHUB_TOKEN=HUNTER-2222",
        "AWS_SECRET_ACCESS_KEY=abc/HUNTER-2222+x=",
        "docker run -e API_TOKEN=HUNTER-2222 image",
        "DB_PASS=HUNTER-2222",
    ] {
        let shown = redacted(text);
        assert!(!shown.contains("HUNTER"), "{text} gave {shown}");
        assert!(shown.contains(REDACTED), "{text} gave {shown}");
    }
}

/// What stands around a secret is still there: code that was kept can be read, and mostly run.
#[test]
fn what_stands_around_a_secret_stays() {
    for (text, shown) in [
        (r#"f(password="hunter22", n=5)"#, r#"f(password="[redacted]", n=5)"#),
        (r#"c["token"] = b'hunter22' # x"#, r#"c["token"] = b'[redacted]' # x"#),
        (r#"password = "it's hunter" + x"#, r#"password = "[redacted]" + x"#),
        ("s.secret = '''a\nb''' + c", "s.secret = '''[redacted]''' + c"),
        ("A=1\nTOKEN=hunter22\nB=2", "A=1\nTOKEN=[redacted]\nB=2"),
        ("TOKEN='hunter22'\nx", "TOKEN='[redacted]'\nx"),
        ("X-API-Key: hunter22\nAccept: */*", "X-API-Key: [redacted]\nAccept: */*"),
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
        "password_field = None",
        "tokens = 5",
        "print(\"token count\")",
        "token: str = None\ntoken: Optional[str]",
        "def login(user, password: str, token=None): pass",
        "TOKEN=os.environ['TOKEN']\nSECRET=read_secret('it')",
        "if x: TOKEN=os.environ['TOKEN']; SECRET=read_secret('it')",
        "PWD=/home/somebody\nOLDPWD=/home/else\nGIT_AUTHOR_NAME=Somebody Else",
        "secret_santa = ['Ann', 'Bob']; passwords = []",
        "max_tokens=4096, tokenizer='bert-base-cased'",
        "foreign-key: users.identifier",
        "def ask(token: str, model='large-model-1'): pass",
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

/// Numbers that are secret in what a guest gives; a policy's own numbers stay what they are.
#[test]
fn a_number_can_be_a_secret() {
    let redactor = Redactor::of_variables([("PIN_TOKEN", "4815162342")]);
    let value = json!({ "n": [4_815_162_342_u64, -4_815_162_342_i64, 7], "x": 4_815_162_342_u64 });
    let mut given = value.clone();
    redactor.json(&mut given);
    assert_eq!(given, json!({ "n": [REDACTED, format!("-{REDACTED}"), 7], "x": REDACTED }));
    let mut policy = value.clone();
    redactor.texts_in(&mut policy);
    assert_eq!(policy, value);
}

/// Texts made to keep a matcher busy. The bound is far above what is needed.
#[test]
fn no_text_takes_longer_than_its_length_explains() {
    for piece in [
        "password=\"\"\"",
        "token='''",
        "token: ",
        "token:str,",
        "secret=\"\\\"",
        "A_TOKEN=",
        "\nA_TOKEN=",
        "x-a-",
        "authorization: \"",
        "password = \\\"",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        let started = std::time::Instant::now();
        let _ = redacted(&text);
        assert!(started.elapsed().as_secs() < 60, "{piece}: {:?}", started.elapsed());
    }
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
        name: text(),
        kwargs: [("k".to_owned(), text().into()), (text(), 1.into())].into_iter().collect(),
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
        let notice = "Timeout: timed out after 1 s\n";
        let shown = redactor.text(&format!("{text}\n{notice}")).into_owned();
        prop_assert_eq!(shown, format!("... {REDACTED}{TRUNCATION_MARKER}\n{notice}"));
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
