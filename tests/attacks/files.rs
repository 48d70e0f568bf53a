//! Leaving the workspace.

use std::fs;
use std::os::unix::fs::symlink;

use belljar::Status;
use support::{Expect, Jar, attack, packages_home, permitted};

#[track_caller]
fn refused(jar: &Jar, code: &str) {
    let result = attack(jar, code);
    result.ended(Status::Error, 1);
    let error = result.error.as_ref().expect("an error");
    assert_eq!(error.name, "PermissionError", "{error:?}");
    assert!(error.message.starts_with("[Errno 63] Operation not permitted"), "{error:?}");
}

#[track_caller]
fn read_only(jar: &Jar, code: &str) {
    let result = attack(jar, code);
    result.ended(Status::Error, 1);
    let error = result.error.as_ref().expect("an error");
    assert_eq!(error.name, "OSError", "{error:?}");
    assert!(error.message.starts_with("[Errno 69] Read-only file system"), "{error:?}");
}

#[test]
fn absolute_paths() {
    let jar = Jar::new();
    for path in
        ["/etc/passwd", "/home/somebody/.profile", "/tmp", "/dev/null", "/bin/sh", "//etc/passwd"]
    {
        refused(&jar, &format!("open('{path}')"));
        refused(&jar, &format!("open('{path}', 'w')"));
    }
    refused(&jar, "import os; os.listdir('/etc')");
    refused(&jar, "import os; os.mkdir('/tmp/x')");
    refused(&jar, "import os; os.remove('/etc/passwd')");
    permitted(&jar, "open('/app/f', 'w').write('x')\nprint(open('/app/f').read())").printed("x\n");
}

#[test]
fn proc() {
    let jar = Jar::new();
    for path in ["/proc/self/environ", "/proc/self/mem", "/proc/1/cmdline", "/proc/self/cwd/secret"]
    {
        refused(&jar, &format!("open('{path}')"));
    }
    symlink("/proc/self", jar.workspace().join("p")).expect("a link");
    refused(&jar, "open('p/environ')");
    permitted(&jar, "import os; os.mkdir('/app/proc'); print(os.listdir('/app/proc'))")
        .printed("[]\n");
}

#[test]
fn parent_directories() {
    let jar = Jar::new();
    for path in [
        "../../../../etc/passwd",
        "/app/../etc/passwd",
        "/app/../../etc/passwd",
        "d/../../etc/passwd",
        "..",
        "./../x",
        "d/./../../x",
    ] {
        refused(
            &jar,
            &format!("import os; os.mkdir('d') if not os.path.exists('d') else 0\nopen('{path}')"),
        );
    }
    refused(&jar, "import os; os.chdir('..'); open('etc/passwd')");
    let code = "import os; os.makedirs('a/b'); open('a/f', 'w').write('x'); print(open('a/b/../f').read())";
    permitted(&Jar::new(), code).printed("x\n");
}

#[test]
fn symlinks_made_by_the_guest() {
    let jar = Jar::new();
    refused(&jar, "import os; os.symlink('/etc/passwd', 'a')");
    refused(&jar, "import os; os.symlink('../../../../../../etc/passwd', 'b'); open('b')");
    refused(&jar, "import os; os.symlink('..', 'c'); os.listdir('c')");
    refused(&jar, "import os; os.symlink('../..', 'd'); open('d/etc/passwd')");
    refused(&jar, "import os; os.mkdir('e'); os.symlink('../..', 'e/f'); open('e/f/x', 'w')");
    refused(&jar, "import os; os.symlink('.', 'g'); os.symlink('g/../..', 'h'); os.listdir('h')");
    // A link that was harmless when it was made and is moved to where it would not be.
    let code = "import os\nos.makedirs('x/y')\nos.symlink('../..', 'x/y/up')\nprint(len(os.listdir('x/y/up')) > 0)\n\
                os.rename('x/y/up', 'up')\nos.listdir('up')";
    refused(&jar, code);
    let loop_code = "import os; os.symlink('l1', 'l2'); os.symlink('l2', 'l1'); open('l1')";
    attack(&jar, loop_code).raised("OSError", "[Errno 32] Symbolic link loop: 'l1'");
    let code = "import os; os.mkdir('d'); open('f', 'w').write('in')\nos.symlink('../f', 'd/l'); print(open('d/l').read())";
    permitted(&Jar::new(), code).printed("in\n");
}

#[test]
fn symlinks_made_by_the_host() {
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret"), "host").expect("a file");
    let jar = Jar::new();
    symlink(outside.path().join("secret"), jar.workspace().join("absolute")).expect("a link");
    symlink(outside.path(), jar.workspace().join("dir")).expect("a link");
    let name = outside.path().file_name().expect("a name").to_string_lossy().into_owned();
    symlink(format!("../{name}/secret"), jar.workspace().join("relative")).expect("a link");
    symlink(outside.path().join("new"), jar.workspace().join("dangling")).expect("a link");
    for code in [
        "open('absolute')",
        "open('absolute', 'w')",
        "open('absolute', 'a')",
        "open('relative')",
        "open('relative', 'w')",
        "open('dir/secret')",
        "open('dir/new', 'w')",
        "open('dangling', 'w')",
        "import os; os.listdir('dir')",
        "import os; os.mkdir('dir/new')",
        "import os; os.remove('dir/secret')",
        "import os; os.stat('absolute')",
        "import os; os.readlink('absolute')",
        "import os; os.truncate('absolute', 0)",
        "import os; os.utime('absolute', (1, 1))",
        "import os; os.rename('dir/secret', 'mine')",
        "import os; os.link('dir/secret', 'mine')",
        "import os; os.chdir('dir'); open('secret')",
        "import shutil; shutil.copytree('dir', 'copy')",
    ] {
        let result = attack(&jar, code);
        result.ended(Status::Error, 1);
        let error = result.error.as_ref().expect("an error");
        assert!(error.message.contains("not permitted"), "{code}: {error:?}");
    }
    assert_eq!(fs::read_to_string(outside.path().join("secret")).expect("unharmed"), "host");
    assert_eq!(fs::read_dir(outside.path()).expect("unharmed").count(), 1);
    // The links themselves are the guest's to remove or replace.
    let code = "import os; os.remove('absolute'); os.replace('dir', 'elsewhere'); print('done')";
    permitted(&jar, code).printed("done\n");
    assert_eq!(fs::read_to_string(outside.path().join("secret")).expect("unharmed"), "host");
}

#[test]
fn hard_links() {
    let outside = tempfile::tempdir_in("/tmp").expect("a directory");
    fs::write(outside.path().join("secret"), "host").expect("a file");
    let jar = Jar::new();
    symlink(outside.path().join("secret"), jar.workspace().join("link")).expect("a link");
    refused(&jar, "import os; os.link('/etc/passwd', 'h')");
    refused(&jar, "import os; os.link('../etc/passwd', 'h')");
    refused(&jar, "import os; os.link('link', 'h'); open('h')");
    refused(&jar, "import os; open('f', 'w').close(); os.link('f', '/tmp/f')");
    assert_eq!(fs::read_to_string(outside.path().join("secret")).expect("unharmed"), "host");
    let code = "import os; open('a', 'w').write('x'); os.link('a', 'b'); print(open('b').read())";
    permitted(&Jar::new(), code).printed("x\n");
}

#[test]
fn renames() {
    let jar = Jar::new();
    refused(&jar, "import os; open('f', 'w').close(); os.rename('f', '/tmp/f')");
    refused(&jar, "import os; open('f', 'w').close(); os.rename('f', '../f')");
    refused(&jar, "import os; os.rename('/etc/passwd', 'f')");
    refused(&jar, "import os; os.rename('../etc', 'f')");
    refused(&jar, "import os; os.mkdir('d'); os.rename('d', '../d')");
    let result = attack(&jar, "import os; os.rename('/app', '/other')");
    result.ended(Status::Error, 1);
    permitted(
        &jar,
        "import os; open('g', 'w').close(); os.rename('g', 'h'); print(os.path.exists('h'))",
    )
    .printed("True\n");
}

#[test]
fn writes_to_the_data_directory() {
    let jar = Jar::new().with_data(&[("d.txt", "data")]);
    for code in [
        "open('/data/d.txt', 'w')",
        "open('/data/d.txt', 'a')",
        "open('/data/d.txt', 'r+')",
        "open('/data/new', 'x')",
        "import os; os.open('/data/d.txt', os.O_RDONLY | os.O_TRUNC)",
        "import os; os.open('/data/new', os.O_RDONLY | os.O_CREAT)",
        "import os; os.remove('/data/d.txt')",
        "import os; os.rename('/data/d.txt', '/data/e.txt')",
        "import os; os.rename('/data/d.txt', '/app/e.txt')",
        "import os; open('/app/f', 'w').close(); os.rename('/app/f', '/data/f')",
        "import os; os.link('/data/d.txt', '/app/e.txt')",
        "import os; os.link('/data/d.txt', '/data/e.txt')",
        "import os; os.symlink('x', '/data/l')",
        "import os; os.mkdir('/data/x')",
        "import os; os.rmdir('/data')",
        "import os; os.truncate('/data/d.txt', 0)",
        "import os; os.utime('/data/d.txt', (1, 1))",
    ] {
        read_only(&jar, code);
    }
    attack(&jar, "import os; os.write(os.open('/data/d.txt', os.O_RDONLY), b'x')")
        .raised("OSError", "[Errno 8] Bad file descriptor");
    attack(&jar, "import os; os.ftruncate(os.open('/data/d.txt', os.O_RDONLY), 0)")
        .raised("OSError", "[Errno 28] Invalid argument");
    // WASI has no permissions; the call is accepted and does nothing.
    attack(&jar, "import os; os.chmod('/data/d.txt', 0)").printed("");
    assert_eq!(fs::read_to_string(jar.data().join("d.txt")).expect("unharmed"), "data");
    assert_eq!(fs::read_dir(jar.data()).expect("unharmed").count(), 1);
    permitted(&jar, "import os; print(open('/data/d.txt').read(), os.listdir('/data'))")
        .printed("data ['d.txt']\n");
}

#[test]
fn writes_to_the_packages() {
    let jar = Jar::new().with_home(packages_home());
    for code in [
        "open('/app/site-packages/evil.py', 'w')",
        "open('site-packages/evil.py', 'w')",
        "open('site-packages/urllib3/__init__.py', 'a')",
        "import os; os.chdir('site-packages'); open('evil.py', 'w')",
        "import os; os.remove('/app/site-packages/urllib3/__init__.py')",
        "import os; os.rename('/app/site-packages', '/app/x')",
        "import os; os.mkdir('/app/site-packages/x')",
        "import shutil; shutil.rmtree('/app/site-packages')",
    ] {
        read_only(&jar, code);
    }
    let code =
        "import urllib3, os; print(urllib3.util.parse_url('http://a/b').path, os.listdir('/app'))";
    permitted(&jar, code).printed("/b []\n");
}

#[test]
fn descriptors_of_the_mounts() {
    let code = "import os
for fd in range(3, 20):
    for attempt in (lambda: os.open('../etc/passwd', 0, dir_fd=fd), lambda: os.open('/etc/passwd', 0, dir_fd=fd),
                    lambda: os.fchdir(fd), lambda: os.write(fd, b'x'), lambda: os.read(fd, 1), lambda: os.close(fd)):
        try: attempt()
        except (OSError, AttributeError, NotImplementedError): pass
print('end')";
    attack(&Jar::new(), code).printed("end\n");
    attack(&Jar::new(), "import os\nfor fd in range(100):\n  try: os.close(fd)\n  except OSError: pass\nopen('/etc/passwd')")
        .ended(Status::Error, 1);
    permitted(&Jar::new(), "print(open('/app/f', 'w').write('x'))").printed("1\n");
}

#[test]
fn names_that_are_no_names() {
    let jar = Jar::new();
    attack(&jar, "open('a\\0b')").raised("ValueError", "embedded null byte");
    for name in ["b'\\xff\\xfe'", "'\\udcff'", "'a' * 1000", "'a/' * 10_000", "''"] {
        let result = attack(&jar, &format!("open({name}, 'w')"));
        result.ended(Status::Error, 1);
        assert!(result.error.as_ref().is_some_and(|error| error.name.ends_with("Error")));
    }
    assert_eq!(fs::read_dir(jar.workspace()).expect("the workspace").count(), 0);
    let code = "open('é 日本 \\n .txt', 'w').close()\nimport os; print(os.listdir('.'))";
    permitted(&jar, code).printed("['é 日本 \\n .txt']\n").changed(&["é 日本 \n .txt"], &[], &[]);
}

#[test]
fn devices_and_pipes_left_by_the_host() {
    let jar = Jar::new();
    let pipe = jar.workspace().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let jar = jar.timeout(std::time::Duration::from_secs(5));
    // Opening a pipe must not wait for somebody at its other end.
    for code in [
        "open('pipe').read()",
        "open('pipe', 'w').write('x')",
        "open('pipe', 'r+').read(1)",
        "import os; os.utime('pipe')",
    ] {
        let result = attack(&jar, code);
        assert!(result.duration_ms < 4_000.0, "{code} waited: {}", result.status());
    }
    permitted(&jar, "import os; os.remove('pipe'); print(os.listdir('.'))").printed("[]\n");
}

#[test]
fn a_change_hidden_behind_a_renamed_hard_link() {
    let jar = Jar::new();
    std::fs::write(jar.workspace().join("old"), "good").expect("a file in the workspace");
    let code = "import os
os.link('old', 'x'); os.rename('x', 'y')
with open('y', 'w') as f: f.write('evil')";
    let result = attack(&jar, code);
    assert_eq!(result.files_created, ["y"]);
    assert_eq!(result.files_modified, ["old"]);
    let result = permitted(&jar, "import os; os.rename('y', 'z')");
    assert_eq!((result.files_created, result.files_modified), (vec!["z".to_owned()], vec![]));
}
