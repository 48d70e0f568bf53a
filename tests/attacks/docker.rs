//! Leaving a container, by what the system offers for that. Each attack has its permitted twin.

use std::fs;
use std::net::TcpListener;

use belljar::{Backend, SandboxConfig, SandboxError, SandboxResult, Status, create_sandbox};
use support::{Cells, Expect, Jar, containers, docker_settings, eventually, exclusive};

/// Prints what each way gives, or the error it fails with.
const TRY: &str = "import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def tried(*ways):
    for text in ways:
        try: print(eval(text))
        except BaseException as e: print(type(e).__name__)
def call(name, *arguments):
    if getattr(libc, name)(*arguments) == 0: return 'worked'
    raise OSError(ctypes.get_errno(), name)
";

/// Runs hostile code and then looks whether anything of it is left.
fn attack(config: &SandboxConfig, code: &str) -> SandboxResult {
    let _alone = exclusive();
    let result = create_sandbox(config).expect("a sandbox").run(code);
    eventually("every container is removed", || containers().is_empty());
    result
}

/// Every way must have failed with one of these, and none with anything else.
#[track_caller]
fn all_refused(result: &SandboxResult, ways: usize) {
    let refused = ["OSError", "PermissionError", "FileNotFoundError", "ConnectionRefusedError"];
    assert_eq!(result.status(), Status::Ok, "{result:#?}");
    assert_eq!(result.stdout.lines().count(), ways, "{}", result.stdout);
    assert!(result.stdout.lines().all(|line| refused.contains(&line)), "{}", result.stdout);
}

#[test]
fn reaching_the_network() {
    let jar = Jar::new();
    let Some(config) = jar.docker("reaching_the_network") else { return };
    let _alone = exclusive();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let code = format!(
        "{TRY}tried('socket.create_connection((\"127.0.0.1\", {port}), 2)',
        'socket.create_connection((\"192.0.2.1\", 80), 2)', 'socket.create_connection((\"172.17.0.1\", {port}), 2)',
        'socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)', 'socket.socket(socket.AF_PACKET, socket.SOCK_RAW)',
        'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"192.0.2.1\", 53))')"
    );
    let result = attack(&config, &code);
    all_refused(&result, 6);
    assert!(result.meta.isolation.contains(&"no-network".to_owned()));
    listener.set_nonblocking(true).expect("a listener");
    assert!(listener.accept().is_err(), "somebody connected");
    let own = "import socket\ns = socket.create_server(('127.0.0.1', 0))\n\
               c = socket.create_connection(s.getsockname())\nc.send(b'own'); print(s.accept()[0].recv(9))\n\
               print(socket.if_nameindex())";
    attack(&config, own).printed("b'own'\n[(1, 'lo')]\n");
}

#[test]
fn writing_to_the_root_file_system() {
    let jar = Jar::new().with_data(&[("d", "given")]);
    let Some(config) = jar.docker("writing_to_the_root_file_system") else { return };
    let code = format!(
        "{TRY}tried('open(\"/x\", \"w\")', 'open(\"/usr/x\", \"w\")', 'open(\"/etc/passwd\", \"a\")',
        'open(\"/opt/belljar/native/main.py\", \"a\")', 'os.unlink(\"/opt/belljar/native/main.py\")',
        'open(\"/run/belljar/x\", \"w\")', 'open(\"/run/x\", \"w\")', 'open(\"/var/tmp/x\", \"w\")', 'open(\"/data/d\", \"a\")',
        'os.unlink(\"/data/d\")', 'os.mkdir(\"/dev/x\")', 'open(os.__file__, \"a\")', 'os.rename(\"/app\", \"/ppa\")',
        'open(\"/app/../x\", \"w\")', 'open(\"/proc/self/root/x\", \"w\")')"
    );
    let result = attack(&config, &code);
    all_refused(&result, 15);
    result.changed(&[], &[], &[]);
    assert_eq!(fs::read_to_string(jar.data().join("d")).expect("the data"), "given");
    let code = "for path in ('a', '/app/b', '/tmp/c', '/dev/shm/d', '/dev/null'):\n  \
                with open(path, 'w') as f: f.write('x')\nprint(open('/data/d').read())";
    attack(&config, code).printed("given\n").changed(&["a", "b"], &[], &[]);
}

#[test]
fn files_of_the_host_and_links_to_them() {
    let jar = Jar::new();
    let Some(config) = jar.docker("files_of_the_host_and_links_to_them") else { return };
    let elsewhere = tempfile::tempdir().expect("a directory");
    let secret = elsewhere.path().join("secret");
    fs::write(&secret, "the secret").expect("a file");
    let path = secret.display();
    let code = format!(
        "{TRY}os.symlink({path:?}, 'link'); os.symlink('/', 'root')
tried('open(\"link\").read()', 'open(\"root{path}\").read()', 'open(\"/proc/self/root{path}\").read()',
    'open(\"/proc/1/root{path}\").read()', 'open(\"/app/..{path}\").read()', 'open(\"/etc/shadow\").read()')",
    );
    let result = attack(&config, &code);
    all_refused(&result, 6);
    result.changed(&["link", "root"], &[], &[]);
    assert_eq!(fs::read_to_string(&secret).expect("a file"), "the secret");
    attack(
        &config,
        "import os\nopen('f', 'w').write('own'); os.symlink('f', 'own')\nprint(open('own').read())",
    )
    .printed("own\n");
}

#[test]
fn getting_capabilities() {
    let jar = Jar::new();
    let Some(config) = jar.docker("getting_capabilities") else { return };
    let code = format!(
        "{TRY}status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
print({{status[name] for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')}}, status['NoNewPrivs'], status['Seccomp'])
print(os.getuid() != 0, os.getgid() != 0, os.getgroups())
tried('os.setuid(0)', 'os.setgid(0)', 'os.setgroups([0])', 'os.chown(\"/app\", 0, 0)', 'os.chroot(\"/tmp\")',
    'call(\"sethostname\", b\"x\", 1)', 'os.nice(-5)', 'call(\"reboot\", 0)', 'call(\"unshare\", 0x10000000)',
    'call(\"unshare\", 0x00020000)', 'call(\"setns\", os.open(\"/proc/1/ns/mnt\", 0), 0)')"
    );
    let result = attack(&config, &code);
    let (facts, tries) = result
        .stdout
        .split_at(result.stdout.match_indices('\n').nth(1).map_or(0, |(at, _)| at + 1));
    assert!(facts.starts_with("{'0000000000000000'} 1 2\nTrue True ["), "{result:#?}");
    assert!(tries.lines().all(|line| line.ends_with("Error")), "{tries}");
    assert_eq!(tries.lines().count(), 11, "{tries}");
    attack(&config, "import os\nos.setuid(os.getuid()); open('f', 'w').close(); os.chmod('f', 0o600); os.nice(1); print('fine')")
        .printed("fine\n");
}

#[test]
fn escaping_by_mounts() {
    let jar = Jar::new();
    let Some(config) = jar.docker("escaping_by_mounts") else { return };
    let code = format!(
        "{TRY}os.mkdir('m')
tried('call(\"mount\", b\"/\", b\"/app/m\", None, 4096, None)', 'call(\"mount\", b\"proc\", b\"/app/m\", b\"proc\", 0, None)',
    'call(\"mount\", None, b\"/\", None, 32 | 4096, None)', 'call(\"umount2\", b\"/app\", 2)', 'call(\"umount2\", b\"/proc/sys\", 2)',
    'call(\"syscall\", 155, b\"/app\", b\"/app/m\")', 'call(\"syscall\", 430, b\"ext4\", 0)',
    'os.mknod(\"/app/disk\", 0o60666, os.makedev(254, 0))', 'open(\"/sys/fs/cgroup/memory/release_agent\", \"w\")',
    'os.mkdir(\"/sys/fs/cgroup/x\")')"
    );
    all_refused(&attack(&config, &code), 10);
    let code = "mounts = [line.split() for line in open('/proc/self/mountinfo')]\n\
                print(sorted({m[4] for m in mounts} & {'/app', '/opt/belljar', '/run/belljar', '/tmp'}))\n\
                print(sorted({m[4] for m in mounts if m[5].startswith('rw')} & {'/', '/app', '/opt/belljar', '/tmp'}))";
    attack(&config, code)
        .printed("['/app', '/opt/belljar', '/run/belljar', '/tmp']\n['/app', '/tmp']\n");
}

#[test]
fn speaking_to_the_engine() {
    let jar = Jar::new();
    let Some(config) = jar.docker("speaking_to_the_engine") else { return };
    let _alone = exclusive();
    let socket = docker_settings().expect("an engine").socket.expect("a socket");
    let socket = socket.trim_start_matches("unix://").to_owned();
    let code = format!(
        "{TRY}sockets = [os.path.join(d, n) for top in ('/app', '/run', '/var', '/tmp', '/opt') for d, _, names in os.walk(top)
    for n in names if not os.path.islink(os.path.join(d, n)) and os.stat(os.path.join(d, n)).st_mode & 0o170000 in (0o140000, 0o010000)]
print(sockets, os.listdir('/run/belljar'))
for path in ({socket:?}, '/var/run/docker.sock', '/run/containerd/containerd.sock'):
    try: socket.socket(socket.AF_UNIX).connect(path); print('connected')
    except OSError: print('refused')"
    );
    attack(&config, &code).printed("[] []\nrefused\nrefused\nrefused\n");
    // A workspace that would show it is refused; one beside it is not.
    let folder = std::path::Path::new(&socket).parent().expect("a folder").to_owned();
    let holding = SandboxConfig { workspace: Some(folder), ..config.clone() };
    match create_sandbox(&holding).map(drop) {
        Err(SandboxError::Workspace { problem, .. }) => {
            assert_eq!(problem, "it holds the socket of the Docker engine");
        }
        other => panic!("{other:?}"),
    }
    attack(&config, "print('beside')").printed("beside\n");
}

#[test]
fn fork_bombs() {
    let jar = Jar::new().with(|layer| layer.max_processes(16).timeout_seconds(20.0));
    let Some(config) = jar.docker("fork_bombs") else { return };
    let code = "import os, time\nborn = 0\ntry:\n    while True:\n        if os.fork() == 0: time.sleep(60); os._exit(0)\n        born += 1\nexcept OSError as e: print(type(e).__name__, born < 16)";
    attack(&config, code).printed("BlockingIOError True\n");
    let wild = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass";
    let quick = Jar::new().with(|layer| layer.max_processes(16).timeout_seconds(2.0));
    let Some(quick) = quick
        .docker("fork_bombs")
        .map(|quick| SandboxConfig { workspace: config.workspace.clone(), ..quick })
    else {
        return;
    };
    attack(&quick, wild).ended(Status::Timeout, -1);
    let code = "import subprocess, threading\nprint(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='')\n\
                threads = [threading.Thread(target=print, args=(n,)) for n in range(3)]\nfor t in threads: t.start(); t.join()";
    attack(&config, code).printed("child\n0\n1\n2\n");
}

#[test]
fn memory_bombs() {
    let jar = Jar::new().with(|layer| layer.memory_bytes(96 * 1024 * 1024));
    let Some(config) = jar.docker("memory_bombs") else { return };
    let alone = attack(&config, "kept = []\nwhile True: kept.append(bytearray(1 << 20))");
    alone.ended(Status::OutOfMemory, -1);
    // Each within its own limit, all together far beyond the container's.
    let together = "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        b = bytearray(40 << 20)\n        time.sleep(30); os._exit(0)\n\
                    import signal\nb = bytearray(40 << 20)\nwhile True: b[::4096] = b'x' * len(b[::4096])";
    let result = attack(&config, together);
    assert!(matches!(result.status(), Status::OutOfMemory | Status::Timeout), "{result:#?}");
    assert!(result.memory_used_bytes.is_none_or(|used| used <= 96 * 1024 * 1024), "{result:#?}");
    let in_memory = "with open('/tmp/f', 'wb') as f:\n    while True: f.write(bytes(1 << 20))";
    let full = attack(&config, in_memory);
    assert_eq!(full.error.as_ref().map(|error| &*error.name), Some("OSError"), "{full:#?}");
    attack(
        &config,
        "b = bytearray(32 << 20); open('/tmp/f', 'wb').write(bytes(1 << 20)); print(len(b))",
    )
    .printed("33554432\n");
}

#[test]
fn setuid_programs() {
    let jar = Jar::new();
    let Some(config) = jar.docker("setuid_programs") else { return };
    let code = "import os, shutil, subprocess
shutil.copy('/usr/bin/id', 'own'); os.chmod('own', 0o6755)
print(subprocess.run(['./own', '-u'], capture_output=True, text=True).stdout.strip() == str(os.getuid()))
for command in (['su', '-c', 'id -u'], ['mount', '--bind', '/', '/tmp'], ['chfn', '-f', 'x']):
    try: print(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode != 0)
    except OSError: print(True)";
    attack(&config, code).printed("True\nTrue\nTrue\nTrue\n");
    attack(&config, "import subprocess; print(subprocess.run(['id', '-u'], capture_output=True, text=True).stdout.strip() != '0')")
        .printed("True\n");
}

#[test]
fn settings_of_the_kernel() {
    let jar = Jar::new();
    let Some(config) = jar.docker("settings_of_the_kernel") else { return };
    let code = format!(
        "{TRY}tried('open(\"/proc/sysrq-trigger\", \"w\")', 'open(\"/proc/sys/kernel/core_pattern\", \"w\")',
        'open(\"/proc/sys/net/ipv4/ip_forward\", \"w\")', 'open(\"/proc/sys/kernel/hostname\", \"w\")',
        'os.write(os.open(\"/proc/self/oom_score_adj\", os.O_WRONLY), b\"-1000\")', 'open(\"/sys/kernel/uevent_helper\", \"w\")',
        'open(\"/sys/power/state\", \"w\")', 'open(\"/proc/acpi/x\", \"w\")', 'open(\"/proc/bus/pci/x\", \"w\")')"
    );
    all_refused(&attack(&config, &code), 9);
    attack(&config, "open('/proc/self/oom_score_adj', 'w').write('1000'); open('/proc/self/comm', 'w').write('own'); print(open('/proc/self/comm').read())")
        .printed("own\n\n");
}

#[test]
fn devices() {
    let jar = Jar::new();
    let Some(config) = jar.docker("devices") else { return };
    let code = format!(
        "{TRY}tried('open(\"/dev/mem\")', 'open(\"/dev/kmem\")', 'open(\"/dev/sda\")', 'open(\"/dev/vda\")', 'open(\"/dev/kvm\")',
        'open(\"/dev/fuse\")', 'open(\"/dev/net/tun\")', 'open(\"/dev/kmsg\", \"w\")',
        'os.mknod(\"/app/null\", 0o20666, os.makedev(1, 3))', 'os.mknod(\"/dev/shm/mem\", 0o20666, os.makedev(1, 1))')"
    );
    all_refused(&attack(&config, &code), 10);
    attack(
        &config,
        "print(open('/dev/zero', 'rb').read(2), len(open('/dev/urandom', 'rb').read(4)))",
    )
    .printed("b'\\x00\\x00' 4\n");
}

#[test]
fn environment_and_processes_of_the_host() {
    let jar = Jar::new().with(|layer| layer.env("TOKEN", "given"));
    let Some(config) = jar.docker("environment_and_processes_of_the_host") else { return };
    let code = "import os, glob\nprint(os.environ['TOKEN'])\n\
                for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):\n\
                    \x20   try: print(open(path, errors='replace').read())\n\
                    \x20   except OSError: pass\n\
                print(sorted(os.environ)); print(len(glob.glob('/proc/[0-9]*')) <= 3, os.uname().nodename)";
    let result = attack(&config, code);
    assert_eq!(result.status(), Status::Ok, "{result:#?}");
    assert!(
        result.stdout.starts_with("given\n") && result.stdout.ends_with("True belljar\n"),
        "{}",
        result.stdout
    );
    // What every test of cargo's has in its environment.
    assert!(!result.stdout.contains("CARGO"), "{}", result.stdout);
}

#[test]
fn images_that_would_let_the_disk_be_filled() {
    let jar = Jar::new();
    let Some(mut config) = jar.docker("images_that_would_let_the_disk_be_filled") else { return };
    let _alone = exclusive();
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("f"), "").expect("a file");
    let tar = dir.path().join("t.tar");
    let made = std::process::Command::new("tar")
        .arg("-C")
        .arg(dir.path())
        .arg("-cf")
        .arg(&tar)
        .arg("f")
        .status();
    assert!(made.expect("tar").success());
    let tar = tar.display().to_string();
    let _ = support::engine(&["import", "--change", "VOLUME /big", &tar, "belljar-test-volumes"]);
    config.docker.image = "belljar-test-volumes".to_owned();
    match create_sandbox(&config).map(drop) {
        Err(SandboxError::BackendUnavailable { backend: Backend::Docker, reason, .. }) => {
            assert!(reason.contains("has volumes (/big)"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    let _ = support::engine(&["image", "rm", "belljar-test-volumes"]);
    // In the workspace, where it is counted, it may write, until it is too much.
    let small = Jar::new().with(|layer| layer.workspace_max_bytes(1 << 20));
    let Some(small) = small
        .docker("images_that_would_let_the_disk_be_filled")
        .map(|small| SandboxConfig { workspace: config.workspace.clone(), ..small })
    else {
        return;
    };
    attack(&small, "open('f', 'wb').write(bytes(1 << 19)); print('fine')").printed("fine\n");
    attack(&small, "import time\nfor n in range(1000): open(f'g{n}', 'wb').write(bytes(1 << 18)); time.sleep(0.01)")
        .ended(Status::Quota, -1);
}

#[test]
fn files_without_a_name() {
    let jar = Jar::new().with(|layer| layer.workspace_max_bytes(1_000_000));
    let Some(config) = jar.docker("files_without_a_name") else { return };
    let open = "import os, time\nkept = []\ndef hold(size):\n  \
                f = open('f', 'wb'); os.remove('f'); f.write(b'x' * size); f.flush(); kept.append(f)\n";
    let mapped = "import ctypes, os, time\nc = ctypes.CDLL(None); c.mmap.restype = ctypes.c_void_p\ndef hold(size):\n  \
                  fd = os.open('f', os.O_RDWR | os.O_CREAT); os.write(fd, b'x' * size)\n  \
                  assert c.mmap(None, 4096, 1, 1, fd, ctypes.c_long(0)) != 2 ** 64 - 1\n  os.remove('f'); os.close(fd)\n";
    for hold in [open, mapped] {
        let fill = format!("{hold}for _ in range(50): hold(900_000)\ntime.sleep(10)");
        attack(&config, &fill).ended(Status::Quota, -1);
        let little = format!("{hold}hold(90_000)\ntime.sleep(0.2)\nprint(1)");
        attack(&config, &little).printed("1\n");
    }
}
