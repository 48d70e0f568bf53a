//! Calls that must not work, by number, and the rights that a program has.

use crate::harness::{python_plan, python_prints, run};

/// Prints every call that does not fail as it should, and then `done`.
pub const DANGEROUS_CALLS: &str = "
import ctypes
c = ctypes.CDLL(None, use_errno=True)
for name, number, *args in [
    ('ptrace', 101, 0), ('process_vm_readv', 310, 1), ('process_vm_writev', 311, 1),
    ('unshare', 272, 0x10000000), ('setns', 308, 0), ('mount', 165), ('umount2', 166),
    ('pivot_root', 155), ('chroot', 161), ('open_tree', 428), ('move_mount', 429),
    ('fsopen', 430), ('mount_setattr', 442), ('keyctl', 250), ('add_key', 248),
    ('request_key', 249), ('bpf', 321), ('userfaultfd', 323), ('perf_event_open', 298),
    ('io_uring_setup', 425), ('io_uring_enter', 426), ('seccomp', 317, 1),
    ('personality', 135, 0xffffffff), ('kexec_load', 246), ('init_module', 175),
    ('finit_module', 313), ('capset', 126), ('pidfd_getfd', 438), ('sethostname', 170),
    ('open_by_handle_at', 304), ('clone into a namespace', 56, 0x10000000 | 17),
    ('prctl(PR_SET_MM)', 157, 35), ('prctl(PR_SET_SECCOMP)', 157, 22),
    ('ioctl(TIOCSTI)', 16, 0, 0x5412), ('ioctl(TIOCLINUX)', 16, 0, 0x541c),
    ('a call of the x32 kind', 0x40000000 | 39), ('clone3', 435), ('no such call', 1000),
]:
    ctypes.set_errno(0)
    result = c.syscall(number, *args, *[0] * (6 - len(args)))
    expected = 38 if name == 'clone3' else 1
    if (result, ctypes.get_errno()) != (-1, expected): print(name, result, ctypes.get_errno())
print('done')";

crate::both_users! {
    #[cfg(target_arch = "x86_64")]
    fn dangerous_calls_are_refused() {
        let out = python_prints(DANGEROUS_CALLS);
        assert_eq!(out, "done\n");
    }

    fn ordinary_calls_work() {
        let out = python_prints("
import os, sqlite3, subprocess, tempfile, threading, multiprocessing, signal, time, select, random
print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout.strip())
t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()
with multiprocessing.Pool(2) as pool: print(pool.map(abs, [-1, -2]))
q = multiprocessing.get_context('spawn').Lock()
d = sqlite3.connect('/app/db'); d.execute('create table t(a)'); d.execute('insert into t values (4)')
d.commit(); print(d.execute('select a from t').fetchall())
signal.signal(signal.SIGALRM, lambda *_: print('alarm')); signal.setitimer(signal.ITIMER_REAL, 0.01); time.sleep(0.05)
print(len(os.urandom(8)), os.cpu_count() > 0, os.getlogin if False else 'ok')
import pwd; print(pwd.getpwuid(os.getuid()).pw_name, os.uname().nodename)");
        assert_eq!(out, "child\nthread\n[1, 2]\n[(4,)]\nalarm\n8 True ok\nuser belljar\n");
    }

    fn no_capabilities_are_left() {
        let out = python_prints("
import re
status = open('/proc/self/status').read()
print(re.findall(r'(Cap...|NoNewPrivs|Seccomp):\\s+(\\w+)', status))");
        let zero = "0000000000000000";
        assert_eq!(out, format!(
            "[('CapInh', '{zero}'), ('CapPrm', '{zero}'), ('CapEff', '{zero}'), \
             ('CapBnd', '{zero}'), ('CapAmb', '{zero}'), ('NoNewPrivs', '1'), ('Seccomp', '2')]\n"
        ));
    }

    fn nobody_else_can_be_become() {
        let out = python_prints("
import os
def tried(f, *args):
    try: f(*args); print('became')
    except OSError as e: print(type(e).__name__)
tried(os.setuid, 0); tried(os.setgid, 0); tried(os.setgroups, [0]); tried(os.setresuid, 0, 0, 0)
os.setuid(os.getuid()); print(os.getuid(), os.getgid())");
        assert_eq!(out, "OSError\nOSError\nPermissionError\nOSError\n1000 1000\n");
    }

    fn a_setuid_program_gains_nothing() {
        let code = "
import subprocess
print(subprocess.run(['/app/id', '-u'], capture_output=True, text=True).stdout.strip())";
        let mut plan = python_plan(code);
        plan.env.insert("LC_ALL".into(), "C".into());
        // Put there by somebody else: nobody in the jail can make one.
        let workspace = tempfile::tempdir().unwrap();
        let program = workspace.path().join("id");
        std::fs::copy("/usr/bin/id", &program).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o6755);
        std::fs::set_permissions(&program, mode).unwrap();
        plan.workspace = Some(workspace.path().to_owned());
        assert_eq!(run(plan).out, "1000\n");
    }

    fn nobody_makes_a_setuid_program() {
        let out = python_prints("
import os
open('/app/f', 'w').close()
for make in (lambda: os.chmod('/app/f', 0o4755), lambda: os.chmod('/app/f', 0o2755),
             lambda: os.open('/app/g', os.O_CREAT | os.O_WRONLY, 0o4755)):
    try: make(); print('made')
    except PermissionError: print('refused')
os.chmod('/app/f', 0o755); print(oct(os.stat('/app/f').st_mode))");
        assert_eq!(out, "refused\nrefused\nrefused\n0o100755\n");
    }
}
