use std::os::unix::ffi::OsStringExt;

use belljar_core::Preset;

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<AgentSettings, String> {
    AgentSettings::from_variables(variables.iter().copied()).map_err(|error| error.to_string())
}

#[test]
fn nothing_set_gives_the_defaults_of_the_specification() {
    let settings = read(&[("PATH", "/usr/bin")]).unwrap();
    assert_eq!(settings.backend, Backend::Native);
    assert_eq!(settings.languages, RuntimeType::ALL);
    assert_eq!(settings.store_code, StoreCode::OnError);
    assert_eq!(settings.artifacts, ArtifactStore::at("artifacts"));
    assert_eq!(settings.docker, DockerSettings::default());
    let policy = &settings.policy;
    assert_eq!((policy.timeout_seconds, policy.base()), (30.0, Preset::Agent));
    assert_eq!((policy.stdout_max_bytes, policy.stderr_max_bytes), (10 * KIB, 10 * KIB));
    assert!(policy.block_imports.is_empty());
    for field in [Field::TimeoutSeconds, Field::StdoutMaxBytes, Field::StderrMaxBytes] {
        assert_eq!(policy.origin(field), None, "nobody has asked for {field}");
    }
    let policy = read(&[("SANDBOX_TIMEOUT_SEC", "30")]).unwrap().policy;
    let asked = Origin::Variable("SANDBOX_TIMEOUT_SEC".to_owned());
    assert_eq!(policy.origin(Field::TimeoutSeconds), Some(&asked));
}

/// No variable of ours is dropped in silence, and no secret is unknown, because it is no text.
#[test]
fn variables_that_are_no_text() {
    let bytes = |start: &str| {
        let mut bytes = start.as_bytes().to_vec();
        bytes.push(0xff);
        OsString::from_vec(bytes)
    };
    let odd = |names: &[&str]| {
        texts(names.iter().map(|name| (OsString::from(name), bytes("tell-nobody"))))
    };
    let names = |texts: &Texts| -> Vec<String> {
        texts.unreadable.iter().map(|bad| bad.name.clone()).collect()
    };
    let ours = ["DOCKER_IMAGE", "SANDBOX_TYPE", "SANDBOX_NONE_OF_THESE"];
    assert_eq!(names(&odd(&ours)), ours);
    insta::assert_snapshot!(DockerSettings::from_texts(odd(&ours)).unwrap_err(), @r"
    the environment is not valid; nothing was run
      DOCKER_IMAGE: is not UTF-8 text
    ");
    assert!(DockerSettings::from_texts(odd(&["SANDBOX_TYPE", "HOME"])).is_ok());
    let Texts { pairs, unreadable } = odd(&["SERVICE_TOKEN"]);
    assert!(unreadable.is_empty());
    let settings = AgentSettings::from_variables(pairs).unwrap();
    assert_eq!(settings.redactor.text("a tell-nobody\u{fffd} b"), "a [redacted] b");
}

#[test]
fn what_is_set_holds() {
    let settings = read(&[
        ("SANDBOX_TYPE", "wasm"),
        ("SANDBOX_TIMEOUT_SEC", "5"),
        ("SANDBOX_MAX_OUTPUT_KB", "64"),
        ("SANDBOX_MEMORY_BYTES", "64MiB"),
        ("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "yes"),
        ("SANDBOX_BLOCK_IMPORTS", "ctypes,os"),
        ("SANDBOX_STORE_CODE", "never"),
        ("SANDBOX_SUPPORTED_LANGUAGES", "python"),
        ("SANDBOX_ARTIFACTS_DIR", "kept/here"),
        ("SANDBOX_FALLBACK", "local"),
        ("DOCKER_IMAGE", "own:1"),
        ("DOCKER_MEMORY_LIMIT", "1g"),
    ])
    .unwrap();
    assert_eq!(settings.backend, Backend::Wasm);
    let policy = &settings.policy;
    assert_eq!((policy.timeout_seconds, policy.memory_bytes), (5.0, 64 * MIB));
    assert_eq!(policy.stdout_max_bytes, 64 * KIB);
    assert_eq!(policy.block_imports, ["ctypes", "os", "subprocess", "shutil", "socket"]);
    assert_eq!(settings.store_code, StoreCode::Never);
    assert_eq!(settings.languages, [RuntimeType::Python]);
    assert!(settings.docker.fallback);
    assert_eq!((&*settings.docker.image, settings.docker.memory_bytes), ("own:1", 1 << 30));
}

/// A policy's own variable is above the tool's defaults, and below what the tool is told.
#[test]
fn the_last_that_says_something_holds() {
    let policy = read(&[("SANDBOX_STDOUT_MAX_BYTES", "5")]).unwrap().policy;
    assert_eq!((policy.stdout_max_bytes, policy.stderr_max_bytes), (5, 10 * KIB));
    let both = [
        ("SANDBOX_TIMEOUT_SECONDS", "7"),
        ("SANDBOX_TIMEOUT_SEC", "8"),
        ("SANDBOX_STDOUT_MAX_BYTES", "5"),
        ("SANDBOX_MAX_OUTPUT_KB", "1"),
    ];
    let policy = read(&both).unwrap().policy;
    assert_eq!((policy.timeout_seconds, policy.stdout_max_bytes), (8.0, KIB));
    assert_eq!(read(&both[..1]).unwrap().policy.timeout_seconds, 7.0);
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let wrong = [
        ("SANDBOX_TYPE", "vm"),
        ("SANDBOX_TIMEOUT_SEC", ""),
        ("SANDBOX_MEMORY_BYTES", "-5"),
        ("SANDBOX_STORE_COD", "never"),
        ("DOCKER_CPU_LIMIT", "1e30"),
    ];
    insta::assert_snapshot!(read(&wrong).unwrap_err(), @r#"
    the environment is not valid; nothing was run
      SANDBOX_TYPE: is "vm"; it accepts local (or native), docker, wasm, pyodide, e2b, daemon or auto
      SANDBOX_TIMEOUT_SEC: is empty; it accepts seconds from 0.001 to 86400
      SANDBOX_MEMORY_BYTES: must be greater than 0, but is -5
      SANDBOX_STORE_COD: unknown variable; did you mean `SANDBOX_STORE_CODE`?
      DOCKER_CPU_LIMIT: is "1e30"; it accepts a number of processors from 0.01 to 1024
    "#);
    insta::assert_snapshot!(read(&[("SANDBOX_MOUNT_HOST_DIR", "/tmp")]).unwrap_err(), @r"
    the environment is not valid; nothing was run
      SANDBOX_MOUNT_HOST_DIR: is set, but the tool's code always gets a temporary directory; unset it
    ");
}

#[test]
fn secrets_are_not_shown() {
    let settings = read(&[("API_KEY", "tell-nobody-1")]).unwrap();
    assert!(!format!("{settings:?}").contains("tell-nobody"));
}
