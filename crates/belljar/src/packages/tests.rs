use std::io::Write;

use zip::write::SimpleFileOptions;

use super::*;

const PURE: &str = "demo_pkg-1.0-py3-none-any.whl";

fn write_wheel(path: &Path, files: &[(&str, &[u8])]) {
    let mut zip = zip::ZipWriter::new(File::create(path).unwrap());
    for (name, content) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap();
}

struct Fixture {
    dir: tempfile::TempDir,
    home: Home,
    store: Packages,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::at(dir.path().join("home"));
    let store = Packages::open(&home);
    Fixture { dir, home, store }
}

impl Fixture {
    /// Adds a wheel with these files as if pip had fetched it.
    fn add(&self, wheel: &str, files: &[(&str, &[u8])]) -> Result<Vec<Package>, SandboxError> {
        let wanted = [pip::Requirement::Named("demo-pkg".into())];
        self.store.add_from(&wanted, |_, into| {
            write_wheel(&into.join(wheel), files);
            Ok(())
        })
    }

    /// The message of an attempt that must fail, and proof that it left nothing behind.
    fn refusal(&self, files: &[(&str, &[u8])]) -> String {
        let error = self.add(PURE, files).unwrap_err();
        assert_eq!(self.store.list().unwrap(), []);
        assert_eq!(site_packages(&self.home), Ok(None));
        let left: Vec<_> = walk(&self.home.packages());
        assert_eq!(left, [".lock"]);
        error.to_string().replace(&self.dir.path().display().to_string(), "DIR")
    }
}

/// Every file below a directory, relative and sorted.
fn walk(root: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path.strip_prefix(root).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    files.sort();
    files
}

#[test]
fn a_pure_wheel_is_added_listed_and_removed() {
    let f = fixture();
    assert_eq!(site_packages(&f.home), Ok(None));
    f.add(PURE, &[("demo/__init__.py", b"x = 1"), ("demo_pkg-1.0.dist-info/METADATA", b"")])
        .unwrap();
    let packages = f.store.list().unwrap();
    assert_eq!(packages.len(), 1);
    assert_eq!((packages[0].name.as_str(), packages[0].requested), ("demo-pkg", true));
    assert_eq!(packages[0].sha256.len(), 64);
    let site = site_packages(&f.home).unwrap().unwrap();
    assert_eq!(fs::read_to_string(site.join("demo/__init__.py")).unwrap(), "x = 1");

    let removed = f.store.remove(&["Demo.Pkg".to_owned()]).unwrap();
    assert_eq!(removed, packages);
    assert_eq!(site_packages(&f.home), Ok(None));
    assert_eq!(f.store.list().unwrap(), []);
}

#[test]
fn two_packages_share_one_directory_and_removing_one_keeps_the_other() {
    let f = fixture();
    f.add(PURE, &[("demo/__init__.py", b"")]).unwrap();
    f.add("other-2-py3-none-any.whl", &[("other.py", b"")]).unwrap();
    let site = site_packages(&f.home).unwrap().unwrap();
    assert_eq!(walk(&site), ["demo/__init__.py", "other.py"]);
    f.store.remove(&["demo-pkg".to_owned()]).unwrap();
    let site = site_packages(&f.home).unwrap().unwrap();
    assert_eq!(walk(&site), ["other.py"]);
}

#[test]
fn an_upgrade_replaces_the_old_version() {
    let f = fixture();
    f.add(PURE, &[("demo/old.py", b"")]).unwrap();
    f.add("demo_pkg-2.0-py3-none-any.whl", &[("demo/new.py", b"")]).unwrap();
    assert_eq!(f.store.list().unwrap()[0].version, "2.0");
    assert_eq!(walk(&site_packages(&f.home).unwrap().unwrap()), ["demo/new.py"]);
    let kept = format!("{}.whl", f.store.list().unwrap()[0].sha256);
    assert_eq!(walk(&f.home.packages().join("wheels")), [kept]);
}

#[test]
fn removing_what_is_not_there_changes_nothing() {
    let f = fixture();
    f.add(PURE, &[("demo/__init__.py", b"")]).unwrap();
    let error = f.store.remove(&["demo-pkg".to_owned(), "nope".to_owned()]).unwrap_err();
    assert_eq!(error.to_string(), "the package nope is not installed; no package was changed");
    assert_eq!(f.store.list().unwrap().len(), 1);
}

#[test]
fn a_native_wheel_is_refused_by_name() {
    let f = fixture();
    let error = f.add("numpy-2-cp313-cp313-linux_x86_64.whl", &[("numpy/x.so", b"")]).unwrap_err();
    insta::assert_snapshot!(error, @"numpy-2-cp313-cp313-linux_x86_64.whl has native code, which cannot run in the sandbox; no package was changed");
    assert_eq!(f.store.list().unwrap(), []);
}

#[test]
fn native_code_inside_a_wheel_that_claims_to_be_pure_is_refused() {
    insta::assert_snapshot!(
        fixture().refusal(&[("demo/_fast.cpython-313-x86_64-linux-gnu.so", b"\x7fELF")]),
        @"demo_pkg-1.0-py3-none-any.whl (demo/_fast.cpython-313-x86_64-linux-gnu.so) has native code, which cannot run in the sandbox; no package was changed"
    );
}

#[test]
fn a_path_out_of_the_directory_is_refused() {
    insta::assert_snapshot!(
        fixture().refusal(&[("ok.py", b""), ("../../evil.py", b"")]),
        @r#"demo_pkg-1.0-py3-none-any.whl cannot be unpacked: the name "../../evil.py" leads outside; no package was changed"#
    );
}

#[test]
fn a_symbolic_link_in_a_wheel_is_refused() {
    let f = fixture();
    let error = f
        .store
        .add_from(&[], |_, into| {
            let mut zip = zip::ZipWriter::new(File::create(into.join(PURE)).unwrap());
            zip.add_symlink("demo/passwd", "/etc/passwd", SimpleFileOptions::default()).unwrap();
            zip.finish().unwrap();
            Ok(())
        })
        .unwrap_err();
    insta::assert_snapshot!(error, @r#"demo_pkg-1.0-py3-none-any.whl cannot be unpacked: "demo/passwd" is a link or a device; no package was changed"#);
}

#[test]
fn a_file_that_is_no_archive_is_refused() {
    let f = fixture();
    let error = f
        .store
        .add_from(&[], |_, into| {
            fs::write(into.join(PURE), "hello").unwrap();
            Ok(())
        })
        .unwrap_err();
    assert!(error.to_string().starts_with(&format!("{PURE} cannot be unpacked: ")), "{error}");
}

#[test]
fn a_failed_fetch_changes_nothing() {
    let f = fixture();
    f.add(PURE, &[("demo/__init__.py", b"")]).unwrap();
    let before = walk(&f.home.packages());
    let failed = f.store.add_from(&[], |_, _| Err(wheel::refused("no network".to_owned(), None)));
    assert!(failed.is_err());
    assert_eq!(walk(&f.home.packages()), before);
}

#[test]
fn a_wheel_that_changed_on_disk_is_noticed() {
    let f = fixture();
    f.add(PURE, &[("demo/__init__.py", b"")]).unwrap();
    let kept = wheel_path(&f.home.packages().join("wheels"), &f.store.list().unwrap()[0]);
    write_wheel(&kept, &[("demo/evil.py", b"")]);
    let error = f.add("other-2-py3-none-any.whl", &[("other.py", b"")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{PURE} has changed on disk since it was added; no package was changed")
    );
    assert_eq!(f.store.list().unwrap().len(), 1);
}

#[test]
fn a_damaged_lock_file_is_an_error_and_never_a_path_outside() {
    let f = fixture();
    fs::create_dir_all(f.home.packages()).unwrap();
    let path = f.home.packages().join("lock.json");
    for text in [
        "not json",
        "{}",
        r#"{"version": 2, "generation": null, "packages": []}"#,
        r#"{"version": 1, "generation": "../../etc", "packages": []}"#,
    ] {
        fs::write(&path, text).unwrap();
        assert!(matches!(site_packages(&f.home), Err(SandboxError::Cache { .. })), "{text}");
    }
}

#[test]
fn concurrent_changes_take_turns() {
    let f = fixture();
    std::thread::scope(|scope| {
        for number in 0..4 {
            let f = &f;
            scope.spawn(move || {
                let name = format!("p{number}-1-py3-none-any.whl");
                f.add(&name, &[(format!("p{number}.py").as_str(), b"")]).unwrap();
            });
        }
    });
    assert_eq!(f.store.list().unwrap().len(), 4);
    assert_eq!(walk(&site_packages(&f.home).unwrap().unwrap()).len(), 4);
}
