//! Out of the jail: files, processes, sockets and calls that are not the code's own.

use std::fs;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use belljar::Status;
use support::{Expect, Jar, attack_native, both_users, exclusive, permitted_native};

/// Tries expressions and prints how each ends, without its words: those could hold paths.
const TRY: &str = "import os, sys
def tried(*expressions):
    for text in expressions:
        try: print(eval(text))
        except BaseException as e: print(type(e).__name__)
";

/// A file that only the host has.
fn secret() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("key");
    fs::write(&path, "the secret").expect("a file");
    let path = path.display().to_string();
    (dir, path)
}

/// Plain files in the home directory of whoever runs the tests.
fn files_at_home() -> Vec<String> {
    let home = std::env::home_dir().unwrap_or_default();
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let plain = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    plain.map(|entry| entry.path().display().to_string()).collect()
}

both_users! {
    fn reading_files_of_the_host() {
        let (_dir, secret) = secret();
        let mut paths: Vec<String> = ["", "/proc/self/root", "/proc/self/cwd/..", "/proc/1/root", "/app/.."]
            .iter()
            .flat_map(|way| [format!("{way}/etc/shadow"), format!("{way}{secret}")])
            .collect();
        paths.extend(files_at_home());
        let code = format!("{TRY}for path in {paths:?}: tried('open(path).read()')");
        let result = attack_native(&Jar::native(), &code);
        result.ended(Status::Ok, 0);
        let refused = ["FileNotFoundError", "PermissionError"];
        assert_eq!(result.stdout.lines().count(), paths.len());
        assert!(result.stdout.lines().all(|line| refused.contains(&line)), "{}", result.stdout);
        let jar = Jar::native().with_data(&[("d", "given")]);
        jar.write("own", "mine");
        permitted_native(&jar, "print(open('own').read(), open('/data/d').read())")
            .printed("mine given\n");
    }

    fn looking_around() {
        let code = format!("{TRY}tried('sorted(os.listdir(\"/\"))', 'os.listdir(\"/home\")', 'os.listdir(\"/sys\")',
            'os.listdir(\"/tmp\")', 'os.listdir(\"/var/log\")', 'open(\"/proc/kcore\", \"rb\").read(1)', 'open(\"/dev/mem\")',
            'os.readlink(\"/proc/self/root\")', 'os.getcwd()')");
        let result = attack_native(&Jar::native(), &code);
        let lines: Vec<&str> = result.ended(Status::Ok, 0).stdout.lines().collect();
        for name in ["home", "sys", "mnt", "boot", "srv", "run"] {
            assert!(!lines[0].contains(&format!("'{name}'")), "{}", lines[0]);
        }
        assert_eq!(lines[1..4], ["FileNotFoundError", "FileNotFoundError", "[]"], "{lines:?}");
        assert_eq!(lines[4], "FileNotFoundError");
        assert!(lines[5].ends_with("Error") && lines[6].ends_with("Error"), "{lines:?}");
        assert_eq!(lines[7..], ["/", "/app"]);
    }

    fn writing_outside_of_the_workspace() {
        let (_dir, secret) = secret();
        let code = format!("{TRY}tried('open(\"/x\", \"w\")', 'open(\"/usr/x\", \"w\")', 'open(\"/etc/passwd\", \"a\")',
            'open(\"/opt/belljar/native/main.py\", \"a\")', 'os.unlink(\"/opt/belljar/native/main.py\")',
            'os.chmod(\"/opt/belljar/native/main.py\", 0)', 'open(sys.prefix + \"/x\", \"w\")', 'open(os.__file__, \"a\")',
            'open(\"/proc/sys/kernel/core_pattern\", \"w\")', 'open(\"/proc/self/oom_score_adj\", \"w\")',
            'open(\"/proc/self/root/x\", \"w\")', 'open(\"/app/../x\", \"w\")', 'open(\"/data/d\", \"a\")',
            'os.unlink(\"/data/d\")', 'os.rename(\"/data/d\", \"/app/d\")', 'os.link(\"/data/d\", \"/app/d\")',
            'os.rename(\"/app\", \"/ppa\")', 'os.mkdir(\"/dev/x\")', 'os.mknod(\"/app/dev\", 0o60666, os.makedev(8, 0))',
            'open({secret:?}, \"w\")')");
        let jar = Jar::native().with_data(&[("d", "given")]);
        let result = attack_native(&jar, &code);
        let refused = ["OSError", "PermissionError", "FileNotFoundError"];
        assert_eq!(result.ended(Status::Ok, 0).stdout.lines().count(), 20);
        assert!(result.stdout.lines().all(|line| refused.contains(&line)), "{}", result.stdout);
        assert_eq!(fs::read_to_string(secret).expect("the secret"), "the secret");
        assert_eq!(fs::read_to_string(jar.data().join("d")).expect("the data"), "given");
        result.changed(&[], &[], &[]);
        let code = "for path in ('a', '/app/b', '/tmp/c', '/dev/shm/d', '/dev/null'):\n  \
                    with open(path, 'w') as f: f.write('x')\nimport os\nos.rename('a', 'e')";
        permitted_native(&jar, code).printed("").changed(&["b", "e"], &[], &[]);
    }

    fn other_processes_and_the_environment_of_the_parent() {
        let code = "import os, glob, signal
pids = sorted(int(p) for p in os.listdir('/proc') if p.isdigit())
print(pids == [1, os.getpid()], os.getppid())
for name in ('environ', 'cmdline', 'maps', 'cgroup', 'mountinfo', 'status'):
    for path in glob.glob(f'/proc/[0-9]*/{name}') + ['/proc/mounts', '/proc/cmdline', '/proc/keys']:
        try: print(open(path, errors='replace').read())
        except OSError: pass
for pid in (2, 3, 4, 100, 4000, 100_000):
    try: pid == os.getpid() or os.kill(pid, signal.SIGKILL)
    except OSError: pass
    else: pid == os.getpid() or print('killed somebody')
print(dict(os.environ))";
        let jar = Jar::native().with(|layer| layer.env("TOKEN", "given"));
        let result = attack_native(&jar, code);
        // Where the interpreter and the workspace lie shows in the list of mounts, so no `ended`.
        assert_eq!(result.status(), Status::Ok, "{result:#?}");
        assert!(result.stdout.starts_with("True 1\n"), "{}", result.stdout);
        assert!(!result.stdout.contains("killed somebody"));
        let own = ["/usr/local/bin:/usr/bin:/bin", "C.UTF-8", "/tmp", "/app"];
        for (name, value) in std::env::vars() {
            let known = own.contains(&&*value) || value.len() < 6 || value.starts_with('/');
            assert!(known || !result.stdout.contains(&value), "{name} of the host is visible");
            let given = ["PATH", "HOME", "LANG", "TMPDIR", "MALLOC_ARENA_MAX", "TOKEN"];
            let shown = result.stdout.contains(&format!("'{name}'"));
            assert!(given.contains(&&*name) || name.starts_with("LC_") || !shown, "{name}");
        }
        let code = "import os, subprocess\np = subprocess.Popen(['sleep', '9'])\n\
                    print(os.environ['TOKEN'], os.path.exists(f'/proc/{p.pid}'))\np.kill()\nprint(p.wait())";
        permitted_native(&jar, code).printed("given True\n-9\n");
    }

    fn set_user_id_bits() {
        let code = format!("{TRY}open('f', 'w').close()
tried('os.chmod(\"f\", 0o4755)', 'os.chmod(\"f\", 0o2755)', 'os.fchmod(os.open(\"f\", os.O_RDONLY), 0o4755)',
      'os.open(\"g\", os.O_CREAT | os.O_WRONLY, 0o4755)', 'os.mkfifo(\"p\", 0o4600)')
import stat
print([n for n in os.listdir('.') if os.stat(n).st_mode & (stat.S_ISUID | stat.S_ISGID)])");
        let result = attack_native(&Jar::native(), &code);
        assert!(result.stdout.ends_with("[]\n"), "{result:#?}");
        let code = "import os\nopen('f', 'w').close()\nos.chmod('f', 0o755)\nprint(oct(os.stat('f').st_mode))";
        permitted_native(&Jar::native(), code).printed("0o100755\n");
    }

    fn killing_the_parent() {
        let code = "import os, signal
for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV):
    try: os.kill(1, number)
    except OSError: pass
    try: os.killpg(1, number)
    except OSError: pass
print('still here', flush=True)
try: os.kill(-1, signal.SIGKILL)
except ProcessLookupError: print('nobody else is there')";
        let result = attack_native(&Jar::native(), code);
        result.printed("still here\nnobody else is there\n");
        let result = attack_native(&Jar::native(), "import os; os.kill(0, 9)");
        result.ended(Status::Crashed, -1);
        let code = "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *a: print('own signal'))\n\
                    os.kill(os.getpid(), signal.SIGUSR1)";
        permitted_native(&Jar::native(), code).printed("own signal\n");
    }

    fn connecting_to_the_host() {
        let _alone = exclusive();
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("socket").display().to_string();
        let _named = UnixListener::bind(&path).expect("a socket");
        let name = format!("belljar-attack-{}-{port}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let _abstract = UnixListener::bind_addr(&address).expect("a socket");
        let code = format!("{TRY}import socket
def to(a, family=socket.AF_UNIX): socket.socket(family).connect(a)
tried('to((\"127.0.0.1\", {port}), socket.AF_INET)', 'to((\"::1\", {port}), socket.AF_INET6)',
      'socket.create_connection((\"192.0.2.1\", 80), timeout=1)', 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM)',
      'socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)', 'socket.socket(socket.AF_PACKET, socket.SOCK_RAW)',
      'socket.getaddrinfo(\"example.org\", 80)', 'to({path:?})', 'to(\"\\\\0{name}\")')");
        let result = attack_native(&Jar::native(), &code);
        result.printed("PermissionError\nPermissionError\nPermissionError\nPermissionError\nPermissionError\n\
                        PermissionError\ngaierror\nFileNotFoundError\nConnectionRefusedError\n");
        let code = "import socket\na, b = socket.socketpair(); a.send(b'pair'); print(b.recv(9))\n\
                    s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen()\n\
                    c = socket.socket(socket.AF_UNIX); c.connect('/tmp/s'); s.accept()[0].send(b'own'); print(c.recv(9))";
        permitted_native(&Jar::native(), code).printed("b'pair'\nb'own'\n");
    }

    fn descriptors_of_the_host() {
        // One that the host forgot to close on exec.
        let _alone = exclusive();
        let (_dir, secret) = secret();
        let file = fs::File::open(&secret).expect("the secret");
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: changes a flag of a descriptor that `file` holds.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }, 0);
        let code = "import os, stat
for fd in range(4096):
    try: mode = os.fstat(fd).st_mode
    except OSError: continue
    print('file' if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else stat.filemode(mode)[0], end=' ')";
        let result = attack_native(&Jar::native(), code);
        // /dev/null, two pipes, and the driver's connection.
        result.printed("c p p s s ");
        permitted_native(&Jar::native(), "f = open('f', 'w'); print(f.fileno() > 2)").printed("True\n");
    }

    #[cfg(target_arch = "x86_64")]
    fn calls_of_the_kernel() {
        let code = "import ctypes
c = ctypes.CDLL(None, use_errno=True)
for name, number, *args in [('ptrace', 101, 0), ('ptrace attach', 101, 16, 1), ('process_vm_readv', 310, 1),
    ('unshare user', 272, 0x10000000), ('unshare mount', 272, 0x20000), ('clone user', 56, 0x10000000 | 17),
    ('setns', 308, 0), ('mount', 165), ('pivot_root', 155), ('chroot', 161), ('bpf', 321), ('keyctl', 250),
    ('userfaultfd', 323), ('io_uring_setup', 425), ('perf_event_open', 298), ('own seccomp', 317, 1),
    ('own seccomp by prctl', 157, 22), ('kexec_load', 246), ('open_by_handle_at', 304)]:
    ctypes.set_errno(0)
    result = c.syscall(number, *args, *[0] * (6 - len(args)))
    if (result, ctypes.get_errno()) != (-1, 1): print(name, result, ctypes.get_errno())
print('done')";
        attack_native(&Jar::native(), code).printed("done\n");
        let code = "import threading, subprocess\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n\
                    print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='')";
        permitted_native(&Jar::native(), code).printed("thread\nchild\n");
    }

    fn programs_with_the_set_user_id_bit() {
        let code = "import os, subprocess
print(subprocess.run(['./id', '-u'], capture_output=True, text=True).stdout.strip())
for call in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    try: call(); print('became')
    except OSError: pass
print(os.getuid(), [p for p in ('/bin/su', '/usr/bin/sudo', '/bin/mount') if os.path.exists(p) and
      subprocess.run([p, '--version'], capture_output=True).returncode < 0])";
        let jar = Jar::native();
        // Put there by somebody else: nobody in the jail can make one.
        let program = jar.workspace().join("id");
        fs::copy("/usr/bin/id", &program).expect("a copy");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o6755);
        fs::set_permissions(&program, mode).expect("its owner may");
        attack_native(&jar, code).printed("1000\n1000 []\n");
        permitted_native(&jar, "import subprocess\nprint(subprocess.run(['true']).returncode)").printed("0\n");
    }
}
