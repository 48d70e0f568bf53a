//! A zygote's forks: each is a jail of its own.

use std::fs;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use belljar_jail::{Cgroup, JailPlan, Layer};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tempfile::TempDir;

use crate::harness::{Running, python_plan, start, try_start};

/// Forks for every message: the code to run, with the descriptors of the child.
const ZYGOTE: &str = "
import array, ctypes, os, socket, sys
library = ctypes.PyDLL('/proc/self/fd/5')
assert library.belljar_open(6) == 0
os.close(5); os.close(6)
host = socket.socket(fileno=3)
host.send(b'ready')
children = {}
while True:
    message, rights, _, _ = host.recvmsg(8192, socket.CMSG_LEN(64))
    if not message: break
    fds = list(array.array('i', b''.join(data for _, _, data in rights)))
    if message.startswith(b'kill '):
        pid = int(message[5:]); os.kill(pid, 9); os.waitpid(pid, 0); host.send(b'killed'); continue
    assert library.belljar_before_fork() == 0
    pid = os.fork()
    if pid == 0:
        host.detach()
        protocol, out, status, *more = fds
        workspace, *groups = more or [-1]
        numbers = [protocol, protocol, out, out, workspace, status, *groups]
        numbers += [-1] * (8 - len(numbers))
        failed = library.belljar_enter((ctypes.c_int * 8)(*numbers))
        if failed:
            library.belljar_failure.restype = ctypes.c_char_p
            os.write(out, b'cannot %s: %d' % (library.belljar_failure(), failed)); os._exit(1)
        try: exec(message.decode(), {})
        finally: sys.stdout.flush(); sys.stderr.flush()
        os._exit(0)
    assert library.belljar_after_fork() == 0
    for fd in fds: os.close(fd)
    host.send(b'%d' % pid)
";

fn zygote() -> Running {
    zygote_with(|_| {})
}

fn zygote_with(more: impl FnOnce(&mut JailPlan)) -> Running {
    let mut plan = python_plan(ZYGOTE);
    plan.zygote = true;
    more(&mut plan);
    let running = start(plan);
    assert_eq!(running.hear(), "ready");
    running
}

struct Child {
    out: std::io::PipeReader,
    status: std::io::PipeReader,
    pid: String,
    _workspace: Option<TempDir>,
}

fn workspace() -> TempDir {
    let workspace = tempfile::tempdir().unwrap();
    fs::write(workspace.path().join("own"), "x").unwrap();
    workspace
}

fn fork(zygote: &Running, code: &str) -> Child {
    let workspace = workspace();
    let child = fork_in(zygote, code, Some(workspace.path()), None);
    Child { _workspace: Some(workspace), ..child }
}

fn fork_in(
    zygote: &Running,
    code: &str,
    workspace: Option<&Path>,
    group: Option<&Cgroup>,
) -> Child {
    let (out, their_out) = std::io::pipe().unwrap();
    let (status, their_status) = std::io::pipe().unwrap();
    let (_protocol, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut fds: Vec<OwnedFd> = vec![theirs.into(), their_out.into(), their_status.into()];
    fds.extend(workspace.map(|path| zygote.jail.take_directory(path, true).unwrap()));
    fds.extend(group.iter().flat_map(|g| g.entrances().unwrap()));
    let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
    let flags = SendFlags::empty();
    sendmsg(&zygote.protocol, &[IoSlice::new(code.as_bytes())], &mut control, flags).unwrap();
    Child { out, status, pid: zygote.hear(), _workspace: None }
}

impl Child {
    /// What it printed, and its status as `waitpid` gives it.
    fn finish(&mut self) -> (String, Option<i32>) {
        let (mut text, mut status) = (String::new(), Vec::new());
        self.out.read_to_string(&mut text).unwrap();
        self.status.read_to_end(&mut status).unwrap();
        (text, status.try_into().ok().map(i32::from_le_bytes))
    }
}

fn check(code: &str, expected: &str) {
    assert_eq!(fork(&zygote(), code).finish(), (expected.into(), Some(0)));
}

crate::both_users! {
    fn a_child_has_its_own_workspace_and_scratch() {
        let zygote = zygote();
        let code = "import os; print(os.getcwd(), os.listdir('/app'), os.listdir('/tmp'))
for p in ('/app/made', '/tmp/made', '/dev/shm/made'): open(p, 'w').close()";
        for _ in 0..3 {
            let workspace = workspace();
            let mut child = fork_in(&zygote, code, Some(workspace.path()), None);
            assert_eq!(child.finish(), ("/app ['own'] []\n".into(), Some(0)));
            assert!(workspace.path().join("made").exists());
        }
    }

    fn a_child_can_write_nowhere_else() {
        check("
for p in ('/x', '/usr/x', '/etc/passwd', '/proc/self/oom_score_adj'):
    try: open(p, 'w')
    except OSError as e: print(p, type(e).__name__ in ('OSError', 'PermissionError'))",
            "/x True\n/usr/x True\n/etc/passwd True\n/proc/self/oom_score_adj True\n");
    }

    fn a_child_sees_neither_the_zygote_nor_others() {
        let zygote = zygote();
        let mut first = fork(&zygote, "import time; time.sleep(60)");
        let mut second = fork(&zygote, "
import os
print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()), os.getpid(), os.getppid())
os.kill(1, 9)
try: os.kill(-1, 9)
except ProcessLookupError: print('nobody else')");
        assert_eq!(second.finish(), ("[1, 2] 2 1\nnobody else\n".into(), Some(0)));
        // The first is unharmed, and ends when the zygote does.
        zygote.jail.kill();
        zygote.jail.wait().unwrap();
        assert_eq!(first.finish(), (String::new(), None));
    }

    fn a_child_has_no_rights() {
        check("
import os, re, ctypes
print({v for _, v in re.findall(r'(Cap...):\\s+(\\w+)', open('/proc/self/status').read())})
print(re.findall(r'(?:NoNewPrivs|Seccomp):\\s+(\\w+)', open('/proc/self/status').read()))
c = ctypes.CDLL(None, use_errno=True)
for n in (101, 165, 272, 308): print(c.syscall(n, 0, 0, 0, 0), ctypes.get_errno())
print(repr(open('/proc/keys').read() if os.path.exists('/proc/keys') else ''))
for p in ('/proc/1/mem', '/proc/1/root', '/proc/1/environ'):
    try: open(p)
    except PermissionError: print('refused')",
            "{'0000000000000000'}\n['1', '2']\n-1 1\n-1 1\n-1 1\n-1 1\n''\nrefused\nrefused\nrefused\n");
    }

    #[cfg(target_arch = "x86_64")]
    fn a_child_can_make_no_dangerous_calls() {
        check(crate::syscalls::DANGEROUS_CALLS, "done\n");
    }

    fn a_child_can_look_at_itself() {
        check("
import os
for name in ('maps', 'limits'): print(len(open('/proc/self/' + name).read()) > 0)
print(sorted(os.listdir('/proc/self/fd'))[:5], flush=True)
with open('/dev/stdout', 'w') as f: f.write('by name\\n')",
            "True\nTrue\n['0', '1', '2', '3', '4']\nby name\n");
    }

    fn a_child_has_only_its_own_descriptors() {
        check("
import os
for fd in range(0, 1024):
    try: os.fstat(fd); print(fd, end=' ')
    except OSError: pass", "0 1 2 3 4 ");
    }

    fn children_cannot_meet_at_an_abstract_socket() {
        let zygote = zygote();
        let mut first = fork(&zygote, "
import socket, time
s = socket.socket(socket.AF_UNIX); s.bind('\\0meet'); s.listen(); print('x', flush=True); time.sleep(60)");
        let mut one = [0; 2];
        first.out.read_exact(&mut one).unwrap();
        let mut second = fork(&zygote, "
import socket
try: socket.socket(socket.AF_UNIX).connect('\\0meet'); print('met')
except OSError as e: print(type(e).__name__)");
        assert_eq!(second.finish().0, "ConnectionRefusedError\n");
    }

    fn a_child_can_use_threads_processes_and_signals() {
        check("
import subprocess, threading, multiprocessing, sqlite3, asyncio, signal, os, tempfile
print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())
t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()
with multiprocessing.get_context('fork').Pool(2) as p: print(p.map(abs, [-1]))
async def main(): return await asyncio.sleep(0.01, 'loop')
print(asyncio.run(main()))
try: os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt: print('interrupted')
print(tempfile.gettempdir())", "child\nthread\n[1]\nloop\ninterrupted\n/tmp\n");
    }

    fn memory_and_processes_of_a_child_are_bounded() {
        let zygote = zygote();
        let (workspace, group) = (workspace(), Cgroup::create(&python_plan("").limits).ok());
        // In the zygote's group, and in one of its own.
        for group in [None, group.as_ref()] {
            let mut child = fork_in(&zygote, "
import os, time
try: bytearray(300 << 20)
except MemoryError: print('refused')
children = []
try:
    while len(children) < 200:
        pid = os.fork()
        if pid == 0: time.sleep(60); os._exit(0)
        children.append(pid)
except BlockingIOError: pass
print(55 <= len(children) <= 64)", Some(workspace.path()), group);
            assert_eq!(child.finish(), ("refused\nTrue\n".into(), Some(0)));
        }
    }

    fn a_childs_memory_bomb_leaves_the_zygote_alone() {
        let zygote = zygote();
        if !zygote.jail.layers().contains(&Layer::Cgroup) {
            println!("skipped: no control group can be had by this user here");
            return;
        }
        let mut child = fork(&zygote, "
import mmap
m = mmap.mmap(-1, 400 << 20)
for at in range(0, len(m), 4096): m[at] = 1
print('survived')");
        let (out, status) = child.finish();
        assert_eq!((&*out, status.unwrap_or(9)), ("", 9));
        assert!(zygote.jail.memory_kills() > 0);
        assert_eq!(fork(&zygote, "print('next')").finish(), ("next\n".into(), Some(0)));
    }

    fn killing_a_child_kills_all_of_it() {
        let zygote = zygote();
        let mut child = fork(&zygote, "
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0: os.setsid(); os.fork()
time.sleep(60)");
        std::thread::sleep(Duration::from_millis(50));
        rustix::io::write(&zygote.protocol, format!("kill {}", child.pid).as_bytes()).unwrap();
        let start = Instant::now();
        assert_eq!(zygote.hear(), "killed");
        // The pipes are closed: nobody is left who had them.
        assert_eq!(child.finish(), (String::new(), None));
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(fork(&zygote, "print('next')").finish(), ("next\n".into(), Some(0)));
    }

    fn exit_codes_and_signals_of_children_are_told_apart() {
        let zygote = zygote();
        assert_eq!(fork(&zygote, "import os; os._exit(137)").finish().1, Some(137 << 8));
        assert_eq!(fork(&zygote, "import os; os.kill(os.getpid(), 9)").finish().1, Some(9));
    }

    fn a_zygote_has_no_workspace_of_its_own() {
        let mut plan = python_plan("");
        plan.zygote = true;
        plan.workspace = Some("/usr".into());
        assert_eq!(
            try_start(plan).err().unwrap().to_string(),
            "the jail's plan is invalid: a zygote has no workspace, its children have"
        );
    }

    fn a_child_without_a_workspace_has_an_empty_one() {
        let zygote = zygote();
        let mut child = fork_in(&zygote, "
import os; print(os.listdir('/app'))
try: open('/app/x', 'w')
except OSError as e: print('refused')", None, None);
        assert_eq!(child.finish().0, "[]\nrefused\n");
    }

    fn mounts_of_the_zygote_are_there_in_its_children() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("data.txt"), "given").unwrap();
        let zygote = zygote_with(|plan| {
            plan.read_at(data.path(), "/app/packages").read_at(data.path(), "/tmp/packages");
        });
        let mut child = fork(&zygote, "
import os
for p in ('/app/packages/data.txt', '/tmp/packages/data.txt'):
    print(open(p).read())
    try: open(p, 'w')
    except OSError as e: print(e.errno)
print(sorted(os.listdir('/app')))");
        let expected = "given\n30\ngiven\n30\n['own', 'packages']\n";
        assert_eq!(child.finish(), (expected.into(), Some(0)));
    }

    fn a_missing_workspace_is_refused() {
        let zygote = zygote();
        let error = zygote.jail.take_directory("/no/such".as_ref(), true).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot take a directory into the jail: No such file or directory (os error 2)"
        );
    }
}
