//! Files of the caller's, there and back.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use belljar::{Backend, SandboxConfig, SandboxError, Status, Survives, create_sandbox};
use serde_json::json;
use support::{Cells, Expect, Jar};

use crate::{config, open, open_with, session};

#[test]
fn files_are_sent_and_changes_come_back() {
    let jar = Jar::new();
    for name in ["in/deep/a.txt", "changed", "gone", "same", "dir/inside"] {
        jar.write(name, name);
    }
    fs::create_dir(jar.workspace().join("empty")).expect("a directory");
    symlink("in/deep", jar.workspace().join("link")).expect("a link");
    let program = jar.workspace().join("changed");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut sandbox = open(&jar);
    let code = "import os, shutil
print(open('link/a.txt').read(), sorted(os.listdir('.')), os.path.islink('link'))
open('empty/new', 'w').write('n')
open('changed', 'a').write('!')
os.remove('gone')
shutil.rmtree('dir')
open('dir', 'w').write('a file now')
os.symlink('../same', 'empty/up')
os.remove('link')";
    let result = sandbox.run(code);
    result
        .printed("in/deep/a.txt ['changed', 'dir', 'empty', 'gone', 'in', 'link', 'same'] True\n")
        .changed(&["dir", "empty/new", "empty/up"], &["changed"], &["dir/inside", "gone", "link"]);
    let workspace = fs::canonicalize(jar.workspace()).expect("a path");
    assert_eq!(Path::new(&result.workspace_path), workspace);
    assert_eq!(jar.read("empty/new"), "n");
    assert_eq!(jar.read("changed"), "changed!");
    assert_eq!(fs::metadata(&program).expect("a file").permissions().mode() & 0o777, 0o755);
    assert_eq!(jar.read("dir"), "a file now");
    assert_eq!(jar.read("empty/up"), "same");
    for gone in ["gone", "link"] {
        assert!(jar.workspace().join(gone).symlink_metadata().is_err(), "{gone}");
    }
    // Fresh interpreters, the same files.
    sandbox.run("open('changed').read()").gave("changed!");
}

#[test]
fn large_files_come_in_pieces() {
    let jar = Jar::new();
    let big: String = "0123456789abcdef".repeat(600_000);
    jar.write("big", &big);
    let code = "text = open('big').read()\nopen('back', 'w').write(text[::-1])\nlen(text)";
    open(&jar).run(code).gave(big.len());
    let back: String = big.chars().rev().collect();
    assert!(jar.read("back") == back);
}

#[test]
fn nothing_is_copied_without_a_workspace() {
    let jar = Jar::new();
    let mut sandbox = open_with(&SandboxConfig { workspace: None, ..config(&jar) });
    assert_eq!(sandbox.workspace(), Path::new(""));
    let result = sandbox.run("open('f', 'w').write('x')");
    result.changed(&["f"], &[], &[]);
    assert_eq!(result.workspace_path, "");
    sandbox.run("open('f').read()").gave("x");
}

#[test]
fn links_that_lead_outside_stay_where_they_are() {
    let (jar, outside) = (Jar::new(), tempfile::tempdir().expect("a directory"));
    fs::write(outside.path().join("secret"), "s").expect("a file");
    symlink(outside.path(), jar.workspace().join("out")).expect("a link");
    symlink(outside.path().join("secret"), jar.workspace().join("file")).expect("a link");
    let mut sandbox = session(&jar);
    sandbox.run("import os\nos.listdir('.')").gave(json!([]));
    // What the guest makes there cannot take its way through them.
    let error = sandbox
        .execute("os.mkdir('out')\nopen('out/secret', 'w').write('!')")
        .expect_err("a link is in the way");
    let SandboxError::Execution(failed) = &error else { panic!("{error}") };
    assert_eq!(failed.survives, Survives::SandboxAsAfter, "{error}");
    assert_eq!(fs::read_to_string(outside.path().join("secret")).expect("a file"), "s");
    // Once nothing is in the way, it comes.
    fs::remove_file(jar.workspace().join("out")).expect("a link");
    sandbox.run("open('file', 'w').write('mine')").ended(Status::Ok, 0);
    assert_eq!((jar.read("out/secret").as_str(), jar.read("file").as_str()), ("!", "mine"));
    assert_eq!(fs::read_to_string(outside.path().join("secret")).expect("a file"), "s");
}

/// The permitted twin: a link that stays inside is made here as it was there.
#[test]
fn links_of_the_guest_are_made_unless_they_lead_outside() {
    let jar = Jar::new();
    jar.write("f", "text");
    let code = "import os\nos.symlink('f', 'inside')\ntry: os.symlink('../../etc', 'outside')\n\
                except OSError: pass\ntry: os.symlink('/etc', 'absolute')\nexcept OSError: pass";
    open(&jar).run(code).ended(Status::Ok, 0);
    assert_eq!(jar.read("inside"), "text");
    for name in ["outside", "absolute"] {
        assert!(jar.workspace().join(name).symlink_metadata().is_err(), "{name}");
    }
}

#[test]
fn a_directory_where_a_file_was_deleted_stays() {
    let jar = Jar::new();
    jar.write("a", "file");
    let mut sandbox = session(&jar);
    sandbox.run("1").gave(1);
    // The caller has put something else there meanwhile.
    fs::remove_file(jar.workspace().join("a")).expect("a file");
    jar.write("a/mine", "kept");
    let error = sandbox.execute("import os\nos.remove('a')").expect_err("in the way");
    assert!(error.to_string().contains("the code ended with status ok"), "{error}");
    assert_eq!(jar.read("a/mine"), "kept");
}

/// What the daemon does not know of is the caller's, whatever it is.
#[test]
fn a_directory_with_links_or_pipes_of_the_callers_does_not_make_way() {
    let (jar, outside) = (Jar::new(), tempfile::tempdir().expect("a directory"));
    for name in ["pipe", "link", "empty"] {
        jar.write(&format!("{name}/f"), "1");
    }
    let mut sandbox = session(&jar);
    sandbox.run("1").gave(1);
    let made = std::process::Command::new("mkfifo").arg(jar.workspace().join("pipe/p")).status();
    assert!(made.expect("mkfifo").success());
    symlink(outside.path(), jar.workspace().join("link/out")).expect("a link");
    let replace = |name: &str| {
        format!("import shutil\nshutil.rmtree('{name}')\nopen('{name}', 'w').write('a file now')")
    };
    sandbox.run(&replace("empty")).ended(Status::Ok, 0);
    assert_eq!(jar.read("empty"), "a file now");
    for (name, kept) in [("link", "out"), ("pipe", "p")] {
        sandbox.execute(&replace(name)).expect_err("something is in the way");
        assert!(jar.workspace().join(name).join(kept).symlink_metadata().is_ok(), "{name}/{kept}");
        // As long as it is, nothing else comes.
        fs::remove_file(jar.workspace().join(name).join(kept)).expect("the caller may");
        sandbox.run("1").gave(1);
        assert_eq!(jar.read(name), "a file now");
    }
    assert!(outside.path().is_dir());
}

#[test]
fn what_cannot_be_had_there_is_refused() {
    let refused = |config: SandboxConfig| match create_sandbox(&config).map(drop) {
        Err(SandboxError::BackendUnavailable { backend: Backend::Daemon, reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    let data = Jar::new().with_data(&[("d", "1")]);
    insta::assert_snapshot!(
        refused(config(&data)),
        @"mount_data_dir is a directory of this machine, which its workers do not see, and a copy would not be read-only"
    );
    let own = Jar::new().with_wasm_binary("own.wasm");
    insta::assert_snapshot!(
        refused(config(&own)),
        @"it runs its own interpreters, and none that is given to it"
    );
}
