//! What cannot work says so, and leaves nothing behind.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belljar::{Sandbox, SandboxConfig, SandboxError, StateAfter, Status, create_sandbox};
use insta::assert_snapshot;
use support::{
    Cells, Expect, Jar, alone, attacked_natively, both_users, eventually, processes_of, skipped,
};
use tempfile::TempDir;

/// A program that is said to be a Python.
fn script(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("python");
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("permissions");
    (dir, path)
}

/// Why a Python is refused, with its hint; its path is `PYTHON`.
#[track_caller]
fn refusal(python: &Path) -> String {
    let jar = Jar::native();
    let config = SandboxConfig { python: Some(python.to_owned()), ..jar.config() };
    told(create_sandbox(&config), &[(python, "PYTHON")])
}

/// An error and its hint, with names for what differs from run to run.
#[track_caller]
fn told(refused: Result<Box<dyn Sandbox>, SandboxError>, names: &[(&Path, &str)]) -> String {
    let error = refused.err().expect("it cannot work");
    let mut text = match error.hint() {
        Some(hint) => format!("{error}\nhint: {hint}"),
        None => error.to_string(),
    };
    for (path, name) in names {
        text = text.replace(&path.display().to_string(), name);
    }
    text
}

#[test]
fn python_that_is_not_there() {
    assert_snapshot!(refusal(Path::new("/nowhere/bin/python3")));
}

#[test]
fn no_python_at_all() {
    const TEST: &str = "bad_input::no_python_at_all";
    if std::env::var_os("BELLJAR_TEST_NO_PYTHON").is_none() {
        let empty = tempfile::tempdir().expect("a directory");
        let output = std::process::Command::new("/proc/self/exe")
            .args(["--exact", TEST, "--nocapture"])
            .env("BELLJAR_TEST_NO_PYTHON", "1")
            .env("PATH", empty.path())
            .output()
            .expect("a new process");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let jar = Jar::native();
    assert_snapshot!(told(create_sandbox(&jar.config()), &[]));
}

#[test]
fn python_that_is_too_old() {
    let old = "#!/bin/sh\necho '{\"version\": [3, 7, 17], \"executable\": \"/usr/bin/python3.7\", \
               \"called\": \"/usr/bin/python3.7\", \"prefixes\": [\"/usr\"]}'\n";
    let (_dir, path) = script(old);
    assert_snapshot!(refusal(&path));
}

#[test]
fn python_that_hangs() {
    let (dir, path) = script("#!/bin/sh\nsleep 600 &\necho $! > \"$0.child\"\nwait\n");
    let start = Instant::now();
    assert_snapshot!(refusal(&path));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_gone(&dir.path().join("python.child"));
}

/// It ends, and what it has started goes on.
#[test]
fn python_that_leaves_somebody_behind() {
    let (dir, path) = script("#!/bin/sh\nsleep 600 &\necho $! > \"$0.child\"\necho hello\n");
    assert_snapshot!(refusal(&path));
    assert_gone(&dir.path().join("python.child"));
}

/// Waits until the process with the number in this file has ended.
#[track_caller]
fn assert_gone(number: &Path) {
    let number = fs::read_to_string(number).expect("a number");
    let stat = format!("/proc/{}/stat", number.trim());
    eventually("its child has ended", || {
        fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn python_that_answers_without_end() {
    let (_dir, path) = script("#!/bin/sh\nexec cat /dev/zero\n");
    assert_snapshot!(refusal(&path));
}

#[test]
fn python_that_is_something_else() {
    let (_dir, path) = script("#!/bin/sh\necho 'Python 3.12.1'\n");
    assert_snapshot!("something_else", refusal(&path));
    let (_dir, path) = script("#!/bin/sh\nexit 3\n");
    assert_snapshot!("it_fails", refusal(&path));
    let (_dir, path) = script("no program at all");
    assert_snapshot!("no_program", refusal(&path));
}

/// It answers well, and what it names is no Python.
#[test]
fn python_that_lies() {
    let lie = "#!/bin/sh\necho '{\"version\": [3, 12, 1], \"executable\": \"/bin/false\", \
               \"called\": \"/bin/false\", \"prefixes\": [\"/usr\"]}'\n";
    let (_dir, path) = script(lie);
    let jar = Jar::native();
    let config = SandboxConfig { python: Some(path), ..jar.config() };
    let refused = create_sandbox(&config).and_then(|mut sandbox| sandbox.execute("1"));
    assert_snapshot!(refused.expect_err("it cannot work").to_string());
    assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
}

#[test]
fn python_that_is_a_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_snapshot!(refusal(dir.path()));
}

#[test]
fn virtual_environment_that_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let bin = dir.path().join("venv/bin");
    assert_snapshot!("missing", refusal(&bin.join("python")));
    fs::create_dir_all(&bin).expect("a directory");
    std::os::unix::fs::symlink("/nowhere/python3", bin.join("python")).expect("a link");
    assert_snapshot!("without_its_python", refusal(&bin.join("python")));
}

both_users! {
    fn workspace_without_permission() {
        let jar = Jar::native();
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), Permissions::from_mode(0o500)).expect("permissions");
        let config = SandboxConfig { workspace: Some(dir.path().to_owned()), ..jar.config() };
        let made = create_sandbox(&config);
        if fs::metadata("/proc/self").expect("/proc").uid() == 0 {
            // Root needs none, and the code in the jail is not root: what it gets is its error.
            let result = made.expect("a sandbox").run("open('f', 'w')");
            assert_eq!(result.error.as_ref().map(|error| &*error.name), Some("PermissionError"));
        } else {
            let said = told(made, &[(dir.path(), "WORKSPACE")]);
            assert!(said.starts_with("the directory WORKSPACE cannot be used: it is not writable"), "{said}");
        }
        let refused = SandboxConfig { workspace: Some(dir.path().join("missing")), ..jar.config() };
        assert!(matches!(create_sandbox(&refused), Err(SandboxError::Workspace { .. })));
        jar.open().run("open('f', 'w').close()").changed(&["f"], &[], &[]);
    }
}

#[test]
fn workspace_on_a_read_only_mount() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    // A thread of its own sees mounts of its own, which go with it.
    let said = std::thread::spawn(move || {
        mount_read_only(&path)?;
        let jar = Jar::native();
        let config = SandboxConfig { workspace: Some(path.clone()), ..jar.config() };
        Ok::<_, std::io::Error>(told(create_sandbox(&config), &[(&path, "WORKSPACE")]))
    });
    match said.join().expect("no panic") {
        Ok(said) => assert_snapshot!(said),
        Err(error) => skipped("workspace_on_a_read_only_mount", &format!("no mounts: {error}")),
    }
}

fn mount_read_only(path: &Path) -> std::io::Result<()> {
    let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
    let done =
        |result: i32| if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
    let none = std::ptr::null();
    // SAFETY: the strings live until the calls return; nothing of this program's memory is touched.
    unsafe {
        done(libc::unshare(libc::CLONE_NEWNS))?;
        let private = libc::MS_REC | libc::MS_PRIVATE;
        done(libc::mount(none, c"/".as_ptr(), none, private, none.cast()))?;
        let tmpfs = c"tmpfs".as_ptr();
        done(libc::mount(tmpfs, path.as_ptr(), tmpfs, libc::MS_RDONLY, none.cast()))
    }
}

/// The session says that it lost its state, and goes on.
#[test]
fn driver_that_dies() {
    // In a process of its own: others open descriptors meanwhile.
    alone("bad_input::driver_that_dies", || {
        let jar = Jar::native();
        attacked_natively(&jar, "a driver that dies", || {
            let mut sandbox = jar.open_session("the context");
            let said =
                sandbox.run("x = 1\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)");
            said.ended(Status::Crashed, -1);
            assert_snapshot!("killed", said.stderr);
            assert_eq!(said.meta.state, Some(StateAfter::Lost));
            assert_eq!(sandbox.get_variable("x"), Ok(None));
            let said =
                sandbox.run("import os\nos.closerange(3, 4096)\nimport time\ntime.sleep(60)");
            said.ended(Status::Crashed, -1);
            assert_snapshot!("hung_up", said.stderr);
            sandbox.run("context").gave("the context");
        });
    });
}

#[test]
fn workspace_that_cannot_be_watched() {
    let jar = Jar::native();
    let mut sandbox = jar.open_session("the context");
    sandbox.run("x = 1").ended(Status::Ok, 0);
    let deep = (0..200).fold(jar.workspace().join("deep"), |path, _| path.join("d"));
    fs::create_dir_all(deep).expect("a deep directory");
    let refused = sandbox.execute("x = 2").expect_err("it is refused");
    assert!(matches!(refused, SandboxError::Workspace { .. }), "{refused}");
    // Nothing was run, and the session is what it was.
    fs::remove_dir_all(jar.workspace().join("deep")).expect("it can be removed");
    sandbox.run("x").gave(1);
}

/// A broken driver in the cache is not believed either.
#[test]
fn driver_that_talks_nonsense() {
    let home = tempfile::tempdir().expect("a home");
    let jar = Jar::native().with_home(belljar::Home::at(home.path()));
    jar.open().run("").ended(Status::Ok, 0);
    let cache = belljar::Home::at(home.path()).cache();
    let driver = fs::read_dir(cache).expect("a cache").flatten().map(|entry| entry.path());
    let main = driver.map(|dir| dir.join("native/main.py")).find(|path| path.exists());
    let main = main.expect("the driver");
    for (name, code) in [
        (
            "garbage",
            "import os\nos.write(4, b'garbage\\n')\nos.read(3, 99)\nos.write(4, b'more\\n')\n",
        ),
        ("no_python", "this is no Python\n"),
        (
            "half_an_answer",
            "import os\nos.read(3, 9999)\nos.write(4, b'{\"jsonrpc\":\"2.0\",\"id\":1,')\n",
        ),
        (
            "wrong_answer",
            "import os\nos.read(3, 9999)\nos.write(4, b'{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\\n')\n",
        ),
    ] {
        fs::write(&main, code).expect("the driver");
        let error = jar.open().execute("1").expect_err("it cannot work");
        assert_snapshot!(name, error.to_string());
        assert_eq!(processes_of(jar.workspace()), Vec::<String>::new());
    }
}
