//! The cases about files: what changed, and what is left.

use belljar::{Backend, Status};
use support::{Expect, Jar};

use crate::check::{Differs, run, run_differing, run_with, try_run};

pub fn files_created_modified_deleted(backend: Backend) {
    let code = "import os
open('new.txt', 'w').write('x')
open('changed.txt', 'a').write('x')
os.remove('gone.txt')
os.makedirs('x/y')
open('x/y/z', 'w').close()";
    run_with(backend, &["changed.txt", "gone.txt", "same.txt"], code).ended(Status::Ok, 0).changed(
        &["new.txt", "x/y/z"],
        &["changed.txt"],
        &["gone.txt"],
    );
    let overwritten = run_with(backend, &["a"], "open('a', 'w').write('content')");
    overwritten.changed(&[], &["a"], &[]);
    let made_again = "import os\nos.remove('a')\nopen('a', 'w').write('new')";
    run_with(backend, &["a"], made_again).changed(&[], &["a"], &[]);
}

pub fn files_only_opened_are_no_change(backend: Backend) {
    let code = "open('a').read()\nopen('a', 'a').close()\nopen('a', 'r+').close()\n\
                import os\nos.listdir('.')\nos.stat('a').st_size";
    run_with(backend, &["a"], code).ended(Status::Ok, 0).changed(&[], &[], &[]);
}

pub fn file_renamed(backend: Backend) {
    let code = "import os\nos.rename('a', 'b')\nopen('b', 'a').write('x')";
    run_with(backend, &["a"], code).changed(&["b"], &[], &["a"]);
    let there_and_back = "import os\nos.rename('a', 'b')\nos.rename('b', 'a')";
    let result = if backend == Backend::E2b {
        // Seen from outside, nothing has happened to it; wasm saw what did.
        let jar = Jar::new();
        jar.write("a", "content");
        try_run(backend, &jar, there_and_back).expect("the host is fine")
    } else {
        run_with(backend, &["a"], there_and_back)
    };
    result.ended(Status::Ok, 0);
    assert_eq!((&result.files_created, &result.files_deleted), (&vec![], &vec![]));
}

pub fn file_replaced(backend: Backend) {
    // Longer than the other: a service tells size and time, and two uploads can have the same time.
    let code = "import os\nopen('a', 'a').write('more')\nos.replace('a', 'b')";
    run_with(backend, &["a", "b"], code).changed(&[], &["b"], &["a"]);
}

pub fn directory_renamed(backend: Backend) {
    let code = "import os\nos.rename('d', 'e')\nopen('e/new', 'w').close()";
    run_with(backend, &["d/a", "d/sub/b"], code).changed(
        &["e/a", "e/new", "e/sub/b"],
        &[],
        &["d/a", "d/sub/b"],
    );
    let open_meanwhile =
        "import os\nf = open('d/a', 'a')\nos.rename('d', 'e')\nf.write('more')\nf.close()";
    run_with(backend, &["d/a"], open_meanwhile).changed(&["e/a"], &[], &["d/a"]);
}

pub fn directory_renamed_onto_an_empty_one(backend: Backend) {
    let code = "import os\nos.mkdir('empty')\nos.rename('d', 'empty')\nprint(os.listdir('.'))";
    run_with(backend, &["d/a"], code).printed("['empty']\n").changed(&["empty/a"], &[], &["d/a"]);
}

pub fn directory_removed(backend: Backend) {
    let code = "import shutil\nshutil.rmtree('d')";
    run_with(backend, &["d/a", "d/b/c", "e"], code).changed(&[], &[], &["d/a", "d/b/c"]);
}

pub fn directories_alone_are_no_files(backend: Backend) {
    let code = "import os\nos.makedirs('a/b')\nos.rename('a', 'c')\nos.rmdir('c/b')";
    run(backend, code).ended(Status::Ok, 0).changed(&[], &[], &[]);
}

pub fn file_that_came_and_went(backend: Backend) {
    let code = "import os\nopen('t', 'w').write('x')\nos.rename('t', 'u')\nos.remove('u')";
    run(backend, code).ended(Status::Ok, 0).changed(&[], &[], &[]);
}

pub fn file_without_a_name(backend: Backend) {
    let code = "import os, tempfile\nf = open('t', 'wb')\nos.remove('t')\nf.write(b'x')\nf.close()\n\
                with tempfile.TemporaryFile() as t: t.write(b'x')";
    run(backend, code).ended(Status::Ok, 0).changed(&[], &[], &[]);
}

pub fn symlink_inside_the_workspace(backend: Backend) {
    let code = "import os\nos.symlink('a', 'l')\nos.mkdir('d')\nos.symlink('../a', 'd/up')\n\
                print(open('l').read(), os.readlink('l'), open('d/up').read(), os.path.islink('l'))";
    run_with(backend, &["a"], code).printed("content a content True\n").changed(
        &["d/up", "l"],
        &[],
        &[],
    );
}

pub fn write_through_a_symlink(backend: Backend) {
    let code = "import os\nos.symlink('a', 'l')\nopen('l', 'a').write('x')\nos.remove('l')";
    run_with(backend, &["a"], code).ended(Status::Ok, 0).changed(&[], &["a"], &[]);
    let through_a_directory = "import os\nos.symlink('d', 'l')\nopen('l/a', 'a').write('x')\n\
                               open('l/b', 'w').close()\nos.remove('l')";
    run_with(backend, &["d/a"], through_a_directory).changed(&["d/b"], &["d/a"], &[]);
}

pub fn write_through_a_hard_link(backend: Backend) {
    let code = "import os\nos.link('a', 'h')\nopen('h', 'a').write('x')";
    if backend == Backend::Pyodide {
        // Its file system has no hard links, and says so.
        let result = run_differing(backend, Differs::InAll, code);
        assert_eq!(result.error.expect("an error").name, "AttributeError");
        return;
    }
    run_with(backend, &["a"], code).ended(Status::Ok, 0).changed(&["h"], &["a"], &[]);
}

pub fn truncate_and_touch(backend: Backend) {
    run_with(backend, &["a"], "import os\nos.truncate('a', 2)").changed(&[], &["a"], &[]);
    run_with(backend, &["a"], "open('a', 'w').close()").changed(&[], &["a"], &[]);
}

pub fn deltas_are_sorted_and_relative(backend: Backend) {
    // Services have homes of other names.
    let code = "import os\nroot = os.getcwd()\nos.chdir('d')\nfor n in 'cab': open(n, 'w').close()\n\
                open(root + '/./d/../z', 'w').close()";
    run_with(backend, &["d/x"], code).changed(&["d/a", "d/b", "d/c", "z"], &[], &[]);
}
