//! Leading the host astray through what it keeps: names that are paths, directories that are
//! links, and secrets that end up on disk. Every attack has its permitted twin in the same test.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use belljar::artifacts::{ArtifactStore, replay};
use belljar::{Backend, PolicyLayer, RuntimeType};
use support::{Agent, both_users, exclusive, skipped};

/// A tool that keeps everything, on the backend that starts fastest.
fn keeper(more: &[(&str, &str)]) -> Agent {
    let variables = [&[("SANDBOX_STORE_CODE", "always"), ("SANDBOX_TYPE", "wasm")], more].concat();
    Agent::new(&variables)
}

/// Everything on disk below a directory, as one text.
fn everything_in(dir: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        text.push_str(&format!("{}\n", entry.path().display()));
        if entry.path().is_dir() {
            text.push_str(&everything_in(&entry.path()));
        } else {
            text.push_str(&fs::read_to_string(entry.path()).unwrap_or_default());
        }
    }
    text
}

#[test]
fn names_that_are_paths() {
    let _guard = exclusive();
    let agent = keeper(&[]);
    let outside = agent.dir().join("secret.json");
    fs::write(&outside, "{}").expect("a file");
    assert_eq!(agent.says("print(1)"), "1\n");
    let store = &agent.tool().settings().artifacts;
    for id in [
        "../secret",
        "../secret.json",
        "../../artifacts/secret",
        "/etc/passwd",
        outside.to_str().expect("a text"),
        "",
        ".",
        "..",
        "*",
        "2*",
        "?",
        "[0-9]",
        "2\0",
        "\0",
        "-rf",
        "2026/../../secret",
        "%2e%2e%2f",
        "2026\n",
        &"2".repeat(1 << 20),
    ] {
        let error = store.read(id).expect_err("it is no name").to_string();
        assert!(error.starts_with("the artifact `"), "{id:?}: {error}");
        assert!(error.len() < 400 && !error.contains('\0'), "{error}");
    }
    let name = agent.kept()[0].file_stem().expect("a name").to_string_lossy().into_owned();
    assert_eq!(store.read(&name).expect("it is there").1.code, "print(1)");
}

/// What code is called or prints has no influence on where it is kept.
#[test]
fn code_that_would_like_to_name_its_file() {
    let _guard = exclusive();
    let agent = keeper(&[]);
    for code in ["'../../x'", "# \0", "print('/etc/cron.d/x')", "x = '\\u202e'"] {
        let _ = agent.says(code);
    }
    let files = agent.kept();
    assert_eq!(files.len(), 4);
    for file in files {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "._".contains(c);
        assert!(name.len() == 45 && name.chars().all(plain), "{name}");
    }
    assert_eq!(fs::read_dir(agent.dir()).expect("it is there").count(), 1, "nothing beside it");
}

#[test]
fn directories_that_are_links_to_elsewhere() {
    let _guard = exclusive();
    for (link, makes) in [("artifacts", None), ("artifacts/executions", Some("artifacts"))] {
        let agent = keeper(&[]);
        let elsewhere = tempfile::tempdir().expect("a directory");
        fs::create_dir(elsewhere.path().join("executions")).expect("a directory");
        if let Some(dir) = makes {
            fs::create_dir(agent.dir().join(dir)).expect("a directory");
        }
        symlink(elsewhere.path(), agent.dir().join(link)).expect("a link");
        let text = agent.says("print('result')");
        assert!(text.starts_with("result\n[note]\nthis execution was not kept: "), "{text}");
        assert!(text.contains("symbolic link"), "{text}");
        assert!(agent.logged().contains("artifact_lost"), "{}", agent.logged());
        assert_eq!(fs::read_dir(elsewhere.path().join("executions")).expect("there").count(), 0);
        assert_eq!(fs::read_dir(elsewhere.path()).expect("there").count(), 1);
        assert!(agent.tool().settings().artifacts.list().is_err(), "nor is it read");
    }
    let agent = keeper(&[]);
    fs::create_dir(agent.dir().join("artifacts")).expect("a directory");
    assert_eq!(agent.says("print('result')"), "result\n");
    assert_eq!(agent.kept().len(), 1, "a directory that was there before is fine");
}

#[test]
fn a_file_that_is_a_link_to_elsewhere() {
    let _guard = exclusive();
    let agent = keeper(&[]);
    assert_eq!(agent.says("print(1)"), "1\n");
    let name = "20200101T000000.000000Z_0123456789abcdef";
    let link = agent.kept()[0].with_file_name(format!("{name}.json"));
    let target = agent.dir().join("target.json");
    fs::copy(&agent.kept()[0], &target).expect("a copy");
    symlink(&target, &link).expect("a link");
    let store = &agent.tool().settings().artifacts;
    assert!(store.read(name).is_err(), "not read through a link");
    assert_eq!(agent.says("print(2)"), "2\n");
    assert!(!link.is_symlink() && target.exists(), "the old link goes, its target stays");
    assert_eq!(agent.kept().len(), 2);
}

/// Nothing of a result is lost because it cannot be kept.
#[test]
fn directories_that_cannot_be_written() {
    let _guard = exclusive();
    let agent = keeper(&[]);
    fs::write(agent.dir().join("artifacts"), "in the way").expect("a file");
    let text = agent.says("print('result'); 1 / 0");
    assert!(text.starts_with("Error: ZeroDivisionError"), "{text}");
    assert!(text.contains("[stdout]\nresult\n"), "{text}");
    assert!(text.contains("\n[note]\nthis execution was not kept: "), "{text}");
    fs::remove_file(agent.dir().join("artifacts")).expect("it is there");
    assert!(!agent.says("print('result')").contains("[note]"));
    fs::set_permissions(agent.dir().join("artifacts/executions"), PermissionsExt::from_mode(0o777))
        .expect("it is ours");
    assert!(agent.says("print('result')").contains("other users may write to it"));
}

both_users! {
    /// Root may write everywhere; an ordinary user is told that he may not.
    fn directories_without_permission() {
        let _guard = exclusive();
        let agent = Agent::new(&[("SANDBOX_STORE_CODE", "always")]);
        let dir = agent.dir().join("artifacts");
        fs::create_dir(&dir).expect("a directory");
        fs::set_permissions(&dir, PermissionsExt::from_mode(0o500)).expect("it is ours");
        let text = agent.says("print('result')");
        if fs::metadata("/proc/self").expect("/proc").uid() == 0 {
            assert_eq!(text, "result\n");
        } else {
            assert!(text.starts_with("result\n[note]\nthis execution was not kept: "), "{text}");
            assert!(text.contains("Permission denied"), "{text}");
        }
        fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).expect("it is ours");
        assert_eq!(agent.says("print('result')"), "result\n");
        assert!(!agent.kept().is_empty());
    }
}

/// A file system with room for next to nothing.
struct TinyDisk(tempfile::TempDir);

impl TinyDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then(|| Self(dir))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn a_disk_that_is_full() {
    let _guard = exclusive();
    let Some(disk) = TinyDisk::mount() else {
        skipped("a_disk_that_is_full", "a small file system can only be mounted by root");
        return;
    };
    let store = ArtifactStore::at(disk.0.path().join("artifacts"));
    let agent = keeper(&[]).with(|settings| settings.artifacts = store.clone());
    let text = agent.says("print('result' + 'x' * 8000)");
    assert!(text.starts_with("resultxxx"), "{text}");
    assert!(text.contains("\n[note]\nthis execution was not kept: "), "{text}");
    assert!(text.contains("No space left"), "{text}");
    assert_eq!(fs::read_dir(store.path()).expect("it is there").count(), 0, "nothing half-written");
    assert_eq!(keeper(&[]).says("print('result')"), "result\n");
}

/// In the code, in what it prints, in its error, in its value, in the names of its files, in its
/// environment: a secret is not on disk afterwards, and what is no secret is.
#[test]
fn secrets_in_everything_that_is_kept() {
    let _guard = exclusive();
    let key = format!("sk-{}", "a1B2c3D4".repeat(4));
    let host = "correct horse battery";
    let given = "samarkand-1221";
    let agent = keeper(&[("SERVICE_TOKEN", host), ("PATH", "/usr/local/bin")]).with(|settings| {
        let layer = PolicyLayer::new().env("CITY", given);
        settings.policy = settings.policy.with(layer).expect("a valid policy");
    });
    for secret in [key.as_str(), host, given] {
        for code in [
            format!("print('before {secret} after'); plain = 'ordinary'"),
            format!("import sys; sys.stderr.write('{secret}'); plain = 'ordinary'"),
            format!("raise ValueError('ordinary {secret}')"),
            format!("{{'ordinary': ['{secret}', {{'{secret}': 1}}]}}"),
            format!("open('ordinary {secret}', 'w').write('{secret}')"),
        ] {
            let _ = agent.says(&code);
            let kept = everything_in(&agent.dir().join("artifacts"));
            assert!(!kept.contains(secret), "{secret} of {code} in {kept}");
            assert!(kept.contains("ordinary") && kept.contains("[redacted]"), "{kept}");
            fs::remove_dir_all(agent.dir().join("artifacts")).expect("it is there");
        }
    }
    let _ = agent.says("import os; print(os.environ['CITY'], os.environ['LC_ALL'])");
    let kept = everything_in(&agent.dir().join("artifacts"));
    assert!(!kept.contains(given) && kept.contains("[redacted] C.UTF-8"), "{kept}");
    assert!(kept.contains("\"CITY\": \"[redacted]\""), "the name is kept: {kept}");
    assert!(!kept.contains("/usr/local/bin"), "the host's environment is not kept at all");
    assert!(!agent.logged().contains(given) && !agent.logged().contains(host));
}

/// Half a secret is a secret, too: where the output limit cuts is up to the code.
#[test]
fn a_secret_that_the_output_limit_cuts() {
    let _guard = exclusive();
    // No digits of hexadecimal numbers in front: identifiers of executions are made of those.
    let secret = "ghijklmnopqrstuvwxyz0123456789ABCDEF";
    let agent = keeper(&[("SERVICE_TOKEN", secret), ("SANDBOX_MAX_OUTPUT_KB", "1")]);
    for before in 960..1024 {
        let code = format!(
            "s = ''.join(chr(c) for c in [*range(103, 123), *range(48, 58), *range(65, 71)])\nprint('.' * {before} + s)"
        );
        let _ = agent.says(&code);
        let kept = everything_in(&agent.dir().join("artifacts"));
        assert!(!kept.contains(&secret[..4]), "{before}: {kept}");
        fs::remove_dir_all(agent.dir().join("artifacts")).expect("it is there");
    }
    // The host's line about a limit stands behind what is left of it.
    let agent = keeper(&[
        ("SERVICE_TOKEN", secret),
        ("SANDBOX_MAX_OUTPUT_KB", "1"),
        ("SANDBOX_TIMEOUT_SEC", "1"),
    ]);
    for before in [880, 900, 920, 940] {
        let code = format!(
            "import sys\ns = ''.join(chr(c) for c in [*range(103, 123), *range(48, 58), *range(65, 71)])\n\
             sys.stderr.write('.' * {before} + s * 9)\nwhile True: pass"
        );
        let _ = agent.says(&code);
        let kept = everything_in(&agent.dir().join("artifacts"));
        assert!(!kept.contains(&secret[..4]), "{before}: {kept}");
        assert!(kept.contains("Timeout: timed out"), "{kept}");
        fs::remove_dir_all(agent.dir().join("artifacts")).expect("it is there");
    }
    let _ = agent.says("print('.' * 2000)");
    assert!(everything_in(&agent.dir().join("artifacts")).contains("..... (output truncated)"));
}

/// A text made to keep a matcher busy.
#[test]
fn texts_that_make_redaction_slow() {
    let _guard = exclusive();
    let agent = keeper(&[("SANDBOX_MAX_OUTPUT_KB", "1024")]);
    for piece in ["eyJ", "-----BEGIN PRIVATE KEY", "a://", "password=", "sk-a", "Bearer ", "xoxb-"]
    {
        let start = std::time::Instant::now();
        let text = agent.says(&format!("print({piece:?} * (1_000_000 // {}))", piece.len()));
        assert!(text.len() > 900_000);
        assert!(start.elapsed().as_secs() < 10, "{piece} took {:?}", start.elapsed());
    }
    assert_eq!(agent.kept().len(), 7);
}

/// An artifact is a file that somebody may have written: replaying it gives its code no more than
/// any other code has.
#[test]
fn an_artifact_that_asks_for_more_than_it_may_have() {
    let _guard = exclusive();
    let agent = keeper(&[]);
    assert_eq!(agent.says("import os; print(os.listdir('/app'))"), "[]\n");
    let (store, settings) = (&agent.tool().settings().artifacts, agent.tool().settings());
    let file = agent.kept()[0].clone();
    let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
    let (id, artifact) = store.read(&name).expect("it is there");
    assert!(replay(&id, &artifact, settings).expect("it runs").is_same());
    let mut forged = artifact.clone();
    forged.policy["mount_host_dir"] = "/".into();
    assert!(replay(&id, &forged, settings).expect("it runs").is_same(), "still in an empty one");
    let mut forged = artifact.clone();
    forged.code = "import os; print(os.path.exists('/data'))".to_owned();
    forged.policy["mount_data_dir"] = "/etc".into();
    let again = replay(&id, &forged, settings).expect("it runs");
    assert_eq!(again.result.stdout, "False\n", "no directory that the settings do not name");
    assert_eq!(again.notes.len(), 1, "{:?}", again.notes);
    for (field, value) in [("memory_bytes", u64::MAX), ("timeout_seconds", 0), ("unknown", 1)] {
        let mut forged = artifact.clone();
        forged.policy[field] = value.into();
        let error = replay(&id, &forged, settings).expect_err("refused").to_string();
        assert!(error.contains("its policy cannot be used"), "{error}");
    }
    let mut forged = artifact.clone();
    forged.code = "import socket".to_owned();
    let mut guarded = settings.clone();
    let layer = PolicyLayer::new().block_imports(["socket"]).memory_bytes(64_000_000);
    guarded.policy = guarded.policy.with(layer).expect("a valid policy");
    let again = replay(&id, &forged, &guarded).expect("it runs");
    assert_eq!(again.result.meta.blocked_imports, ["socket"], "what is blocked now is blocked");
    assert_eq!(again.result.meta.resource_limits.memory_bytes, Some(64_000_000));
    assert_eq!(again.notes.len(), 2, "{:?}", again.notes);
    let mut forged = artifact.clone();
    forged.backend = Backend::Native;
    let again = replay(&id, &forged, settings).expect("it runs");
    assert_eq!(again.result.meta.runtime, "wasm", "no weaker backend than the settings name");
    assert_eq!(again.notes.len(), 1, "{:?}", again.notes);
    let mut forged = artifact;
    forged.language = RuntimeType::Javascript;
    let mut python_only = settings.clone();
    python_only.languages = vec![RuntimeType::Python];
    let error = replay(&id, &forged, &python_only).expect_err("refused").to_string();
    assert!(error.contains("not among the languages that are offered"), "{error}");
    assert_eq!(agent.kept().len(), 1, "replaying keeps nothing");
}
