//! Leading the host astray in the one directory that both write to.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use belljar::{SandboxResult, Status};
use support::{Cells, Expect, Jar, attack_native, attacked_natively, both_users, permitted_native};

/// A directory of the host's with something in it that has a name like nothing else.
fn treasure() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("treasure"), "gold").expect("a file");
    dir
}

fn names(result: &SandboxResult) -> String {
    [&result.files_created[..], &result.files_modified, &result.files_deleted].concat().join("\n")
}

both_users! {
    fn links_that_lead_outside() {
        let outside = treasure();
        let path = outside.path().display().to_string();
        let jar = Jar::native();
        std::os::unix::fs::symlink(outside.path(), jar.workspace().join("there")).expect("a link");
        let code = format!("import os
os.symlink({path:?}, 'absolute'); os.symlink('../../../../..' + {path:?}, 'relative'); os.symlink('/proc/self/root', 'root')
os.symlink('.', 'self'); os.symlink('loop', 'loop')
for name in ('there', 'absolute', 'relative', 'root' + {path:?}):
    for way in (lambda n: open(n + '/treasure').read(), lambda n: open(n + '/new', 'w'), os.listdir):
        try: print(way(name))
        except OSError as e: print(type(e).__name__, end=' ')");
        let result = attack_native(&jar, &code);
        result.printed(&"FileNotFoundError ".repeat(12));
        result.changed(&["absolute", "loop", "relative", "root", "self"], &[], &[]);
        assert_eq!(fs::read_dir(outside.path()).expect("it is there").count(), 1);
        permitted_native(&jar, "import os\nos.mkdir('d'); os.symlink('d', 'l'); open('l/f', 'w').write('x')\nprint(open('d/f').read())")
            .printed("x\n").changed(&["d/f", "l"], &[], &[]);
    }

    /// The host lists the workspace while a process swaps a directory and a link to the host's files.
    fn links_swapped_while_the_host_looks() {
        let outside = treasure();
        let path = outside.path().display().to_string();
        let jar = Jar::native();
        attacked_natively(&jar, "a swapped link", || {
            let mut sandbox = jar.open_session(());
            // The kernel exchanges the two at once, so that the host finds one or the other.
            let code = format!("import ctypes, os
os.mkdir('d'); os.symlink({path:?}, 'link')
exchange = ctypes.CDLL(None).renameat2
assert exchange(-100, b'd', -100, b'link', 2) == 0
if os.fork() == 0:
    while True: exchange(-100, b'd', -100, b'link', 2)");
            sandbox.run(&code).ended(Status::Ok, 0);
            for _ in 0..200 {
                let result = sandbox.run("1");
                assert!(!names(&result).contains("treasure"), "{result:#?}");
            }
        });
        permitted_native(&jar, "import os\nopen('f', 'w').close(); os.rename('f', 'g')").changed(&["g"], &[], &[]);
    }

    fn directories_that_the_host_cannot_read() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let code = "import os\nos.mkdir('d'); os.chmod('d', 0o300)\nfor i in range(30):\n  \
                    with open(f'd/{i}', 'wb') as f: f.write(b'x' * 100_000)";
        attack_native(&jar, code).ended(Status::Quota, -1);
        let readable = fs::Permissions::from_mode(0o700);
        fs::set_permissions(jar.workspace().join("d"), readable).expect("its owner may");
        permitted_native(&Jar::native(), "import os\nos.mkdir('d'); os.chmod('d', 0o750); open('d/f', 'w').close()")
            .printed("").changed(&["d/f"], &[], &[]);
    }

    fn directories_too_deep_to_look_into() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let code = "import os\nfor _ in range(300):\n  os.mkdir('d'); os.chdir('d')\n\
                    with open('f', 'wb') as f: f.write(b'x' * 900_000)";
        attack_native(&jar, code).ended(Status::Quota, -1);
        permitted_native(&Jar::native(), "import os\nos.makedirs('/'.join('d' * 60)); open('/'.join('d' * 60) + '/f', 'w').close()")
            .printed("").changed(&[&format!("{}f", "d/".repeat(60))], &[], &[]);
    }

    fn directories_that_cannot_be_removed() {
        let jar = Jar::native();
        jar.write("mine/f", "of the caller");
        let mine = jar.workspace().join("mine");
        fs::set_permissions(&mine, fs::Permissions::from_mode(0o755)).expect("its owner may");
        let code = "import os\nos.makedirs('a/b/c')\nopen('a/b/f', 'w').close()\nos.chmod('a/b', 0)\nos.chmod('a', 0)";
        drop(attack_native(&jar, code));
        fs::remove_dir_all(jar.workspace().join("a")).expect("it can be removed");
        let mode = fs::metadata(&mine).expect("still there").permissions().mode() & 0o777;
        assert_eq!(mode, 0o755, "what nobody closed keeps its mode");
        permitted_native(&Jar::native(), "import os\nos.makedirs('a')\nos.rmdir('a')").printed("");
    }

    fn things_that_are_no_files() {
        let jar = Jar::native().timeout(Duration::from_secs(5));
        let code = "import os, socket\nos.mkfifo('pipe'); socket.socket(socket.AF_UNIX).bind('socket')\n\
                    open('new\\nline', 'w').close(); open(b'\\xff\\xfe', 'w').close(); open('-rf', 'w').close(); os.mkdir('e' * 255)";
        attack_native(&jar, code).printed("").changed(&["-rf", "new\nline", "pipe", "socket", "\u{fffd}\u{fffd}"], &[], &[]);
        permitted_native(&jar, "print(len(__import__('os').listdir('.')))").printed("6\n");
    }

    fn the_workspace_itself_removed() {
        let jar = Jar::native();
        jar.write("kept", "x");
        let code = "import os, shutil\nshutil.rmtree('/app', ignore_errors=True)\ntry: os.rmdir('/app')\nexcept OSError: print('kept')";
        attack_native(&jar, code).printed("kept\n").changed(&[], &[], &["kept"]);
        assert!(jar.workspace().is_dir());
        permitted_native(&jar, "open('again', 'w').close()").changed(&["again"], &[], &[]);
    }

    fn files_without_a_name() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let code = "import os, time\nkept = []\nfor i in range(50):\n  f = open('f', 'wb'); os.remove('f'); f.write(b'x' * 900_000); \
                    f.flush(); kept.append(f)\ntime.sleep(5)";
        attack_native(&jar, code).ended(Status::Quota, -1);
        permitted_native(&jar, "import os\nf = open('f', 'wb'); os.remove('f'); f.write(b'x' * 900_000); f.flush(); print(1)").printed("1\n");
    }

    fn files_without_a_name_or_descriptor() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let code = "import os, mmap, time\nkept = []\nfor i in range(50):\n  f = open('f', 'wb+'); f.truncate(900_000)\n  \
                    m = mmap.mmap(f.fileno(), 0); os.remove('f'); f.close(); m[:] = b'x' * 900_000; kept.append(m)\ntime.sleep(5)";
        attack_native(&jar, code).ended(Status::Quota, -1);
        permitted_native(&jar, "import os, mmap\nf = open('f', 'wb+'); f.truncate(900_000); m = mmap.mmap(f.fileno(), 0); os.remove('f'); print(len(m))")
            .printed("900000\n");
    }

    /// A mapping says nothing about how long its file is.
    fn files_without_a_name_of_which_one_page_is_mapped() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let hold = "import ctypes, os, time\nc = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\ndef hold(size):\n  \
                    fd = os.open('f', os.O_RDWR | os.O_CREAT); os.write(fd, b'x' * size)\n  \
                    assert c.mmap(None, 4096, 1, 1, fd, ctypes.c_long(0)) != 2 ** 64 - 1\n  os.remove('f'); os.close(fd)\n";
        attack_native(&jar, &format!("{hold}for _ in range(50): hold(900_000)\ntime.sleep(5)")).ended(Status::Quota, -1);
        permitted_native(&jar, &format!("{hold}hold(90_000)\ntime.sleep(0.2)\nprint(1)")).printed("1\n");
    }

    /// A process lives on without the thread that has its number.
    fn files_without_a_name_in_a_thread_that_outlives_the_first() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let code = "import ctypes, os, threading, time\nkept = []\ndef fill():\n  time.sleep(0.3)\n  for i in range(50):\n    \
                    f = open('f', 'wb'); os.remove('f'); f.write(b'x' * 900_000); f.flush(); kept.append(f)\n  time.sleep(60)\n\
                    threading.Thread(target=fill, daemon=True).start()\n\
                    ctypes.CDLL(None).syscall(93 if os.uname().machine == 'aarch64' else 60, 0)";
        attack_native(&jar, code).ended(Status::Quota, -1);
        let code = "import os, threading\ndef fill():\n  f = open('f', 'wb'); os.remove('f'); f.write(b'x' * 900_000); f.flush(); print(1)\n\
                    t = threading.Thread(target=fill); t.start(); t.join()";
        permitted_native(&jar, code).printed("1\n");
    }

    fn files_without_a_name_in_a_process_that_cannot_be_looked_at() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let code = "import ctypes, os, time\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nkept = []\nfor i in range(50):\n  \
                    f = open('f', 'wb'); os.remove('f'); f.write(b'x' * 900_000); f.flush(); kept.append(f)\ntime.sleep(5)";
        attack_native(&jar, code).ended(Status::Quota, -1);
        permitted_native(&jar, "import ctypes, time\nprint(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)); time.sleep(0.2)").printed("1\n");
    }

    fn files_without_a_name_in_another_process() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let code = "import os, time\nfor i in range(9):\n  if os.fork() == 0:\n    os.setsid()\n    f = open('f%d' % i, 'wb'); os.remove('f%d' % i)\n    \
                    f.write(b'x' * 900_000); f.flush(); time.sleep(5); os._exit(0)\ntime.sleep(5)";
        attack_native(&jar, code).ended(Status::Quota, -1);
        permitted_native(&jar, "import os\nif os.fork() == 0:\n  f = open('f', 'wb'); os.remove('f'); f.write(b'x' * 900_000); f.flush(); os._exit(0)\n\
                                os.wait(); print(1)").printed("1\n");
    }
}
