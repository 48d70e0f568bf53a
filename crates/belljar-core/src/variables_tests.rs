use proptest::prelude::*;

use super::*;

/// What a variable says to a value, whatever its type is.
fn complaint(name: &str, value: &str) -> Option<String> {
    fn of<T>(variable: &Variable<T>, value: &str) -> Option<String> {
        variable.read(value).err().map(|bad| bad.to_string())
    }
    match name {
        "SANDBOX_TYPE" => of(&TYPE, value),
        "SANDBOX_TIMEOUT_SEC" => of(&TIMEOUT_SEC, value),
        "SANDBOX_MAX_OUTPUT_KB" => of(&MAX_OUTPUT_KB, value),
        "SANDBOX_BLOCK_DANGEROUS_IMPORTS" => of(&BLOCK_DANGEROUS_IMPORTS, value),
        "SANDBOX_STORE_CODE" => of(&STORE_CODE, value),
        "SANDBOX_SUPPORTED_LANGUAGES" => of(&SUPPORTED_LANGUAGES, value),
        "SANDBOX_PRESET" => of(&PRESET, value),
        "SANDBOX_ARTIFACTS_DIR" => of(&ARTIFACTS_DIR, value),
        "SANDBOX_ARTIFACTS_MAX_AGE_DAYS" => of(&ARTIFACTS_MAX_AGE_DAYS, value),
        "SANDBOX_ARTIFACTS_MAX_MB" => of(&ARTIFACTS_MAX_MB, value),
        "SANDBOX_FALLBACK" => of(&FALLBACK, value),
        "DOCKER_IMAGE" => of(&DOCKER_IMAGE, value),
        "DOCKER_NETWORK_ENABLED" => of(&DOCKER_NETWORK_ENABLED, value),
        "DOCKER_CPU_LIMIT" => of(&DOCKER_CPU_LIMIT, value),
        "DOCKER_MEMORY_LIMIT" => of(&DOCKER_MEMORY_LIMIT, value),
        _ => panic!("{name} is not tried"),
    }
}

#[test]
fn every_default_is_accepted() {
    for Declared { name, default, .. } in ALL {
        assert_eq!(complaint(name, default), None, "{name}");
    }
}

#[test]
fn every_variable_says_what_it_accepts() {
    let shown: Vec<String> =
        ALL.iter().filter_map(|declared| complaint(declared.name, " ")).collect();
    assert_eq!(shown.len(), ALL.len());
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn nonsense_is_refused_everywhere() {
    for Declared { name, .. } in ALL {
        for value in ["", " ", "\t\n", "..", "a b/..", "\u{1f4a5} \0"] {
            assert!(complaint(name, value).is_some(), "{name}={value:?}");
        }
    }
}

#[test]
fn numbers_that_are_none_or_absurd_are_refused() {
    for Declared { name, .. } in ALL {
        let number = ["_SEC", "_KB", "_MB", "_DAYS", "_LIMIT"];
        if !number.iter().any(|end| name.ends_with(end)) {
            continue;
        }
        for value in [
            "ten",
            "-1",
            "-0.5",
            "0",
            "0.0",
            "-0",
            "NaN",
            "inf",
            "-inf",
            "1e30",
            "1e400",
            "99999999999999999999999999",
            "18446744073709551616",
            "0x10",
            "1,5",
            "5 5",
            "+",
        ] {
            assert!(complaint(name, value).is_some(), "{name}={value}");
        }
    }
}

#[test]
fn values_are_read() {
    assert_eq!(TYPE.read("docker"), Ok(Backend::Docker));
    assert_eq!(TYPE.read(" local "), Ok(Backend::Native));
    assert_eq!(TIMEOUT_SEC.read("2.5"), Ok(2.5));
    assert_eq!(MAX_OUTPUT_KB.read("64"), Ok(64));
    assert_eq!(DOCKER_MEMORY_LIMIT.read("256m"), Ok(256 << 20));
    assert_eq!(DOCKER_CPU_LIMIT.read("2"), Ok(2.0));
    assert_eq!(FALLBACK.read("local"), Ok(true));
    assert_eq!(DOCKER_IMAGE.read("ghcr.io/a/b:1@sha256:00"), Ok("ghcr.io/a/b:1@sha256:00".into()));
    assert_eq!(SUPPORTED_LANGUAGES.read("python, javascript").map(|all| all.len()), Ok(2));
    for (text, value) in [("TRUE", true), ("1", true), ("on", true), ("No", false), ("0", false)] {
        assert_eq!(DOCKER_NETWORK_ENABLED.read(text), Ok(value));
    }
}

#[test]
fn some_more_ways_to_be_wrong() {
    let shown: Vec<String> = [
        ("SANDBOX_TYPE", "vm"),
        ("SANDBOX_TIMEOUT_SEC", "soon"),
        ("SANDBOX_MAX_OUTPUT_KB", "1.5"),
        ("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "maybe"),
        ("SANDBOX_STORE_CODE", "sometimes"),
        ("SANDBOX_SUPPORTED_LANGUAGES", "python,,cobol"),
        ("SANDBOX_ARTIFACTS_DIR", "/"),
        ("DOCKER_IMAGE", "--privileged"),
        ("DOCKER_CPU_LIMIT", "NaN"),
        ("DOCKER_MEMORY_LIMIT", "1k"),
        ("DOCKER_NETWORK_ENABLED", "\u{1b}[31m"),
    ]
    .into_iter()
    .filter_map(|(name, value)| complaint(name, value))
    .collect();
    assert_eq!(shown.len(), 11);
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn the_documentation_has_the_same_table() {
    let mut table = String::from("| variable | default | accepts | |\n|---|---|---|---|\n");
    for Declared { name, default, accepts, about } in ALL {
        table.push_str(&format!("| `{name}` | `{default}` | {accepts} | {about} |\n"));
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agent-tool.md");
    let page = std::fs::read_to_string(page).unwrap();
    let written = page
        .split("<!-- variables:start -->\n")
        .nth(1)
        .and_then(|rest| rest.split("<!-- variables:end -->").next());
    assert_eq!(written, Some(table.as_str()), "docs/agent-tool.md should have:\n{table}");
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        for Declared { name, .. } in ALL {
            let _ = complaint(name, &text);
        }
    }
}
