//! What a program knows of others: nothing.

use std::os::fd::AsRawFd;

use belljar_jail::Ended;

use crate::harness::{python_plan, python_prints, run};

crate::both_users! {
    fn only_its_own_processes_exist() {
        let out = python_prints("
import os
print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()), os.getpid(), os.getppid())
for pid in (3, 4, 100, os.getppid() + 5000):
    try: os.kill(pid, 0); print('exists')
    except ProcessLookupError: pass");
        assert_eq!(out, "[1, 2] 2 1\n");
    }

    fn its_children_exist() {
        let out = python_prints("
import os, subprocess
p = subprocess.Popen(['sleep', '9']); print(os.path.exists(f'/proc/{p.pid}')); p.kill(); print(p.wait())");
        assert_eq!(out, "True\n-9\n");
    }

    fn killing_everything_kills_only_itself() {
        let run = run(python_plan("
import os, signal
for pid in (1, 0, -1):
    try: os.kill(pid, signal.SIGTERM if pid else 0)
    except OSError as e: print(pid, type(e).__name__)
os.kill(1, signal.SIGKILL); print('the first process is still there')
os.kill(0, signal.SIGKILL)"));
        assert_eq!((run.ended, &*run.out), (Ended::Signalled(9), ""));
    }

    fn the_hosts_environment_is_not_there() {
        let mut plan = python_plan("
import os
print({k: v for k, v in os.environ.items() if k != 'LC_CTYPE'})
print(open('/proc/self/environ').read().split('\\0'))");
        plan.env.insert("GIVEN".into(), "yes".into());
        assert_eq!(
            run(plan).out,
            "{'GIVEN': 'yes', 'PATH': '/usr/bin:/bin'}\n['GIVEN=yes', 'PATH=/usr/bin:/bin', '']\n"
        );
    }

    fn open_descriptors_of_the_host_are_closed() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        assert!(file.as_raw_fd() > 2);
        let out = python_prints("
import os
for fd in range(0, 1024):
    try: os.fstat(fd); print(fd, end=' ')
    except OSError: pass");
        assert_eq!(out, "0 1 2 3 4 ");
    }

    fn there_is_nothing_to_read_at_standard_input() {
        assert_eq!(python_prints("import sys; print(repr(sys.stdin.read()))"), "''\n");
    }

    fn no_key_of_the_host_is_seen() {
        let out = python_prints("
for name in ('keys', 'key-users'):
    try: print(repr(open('/proc/' + name).read()))
    except FileNotFoundError: print(repr(''))");
        assert_eq!(out, "''\n''\n");
    }

    fn there_is_no_terminal() {
        let out = python_prints("
import os
try: os.open('/dev/tty', os.O_RDWR)
except OSError as e: print(type(e).__name__)
print(os.isatty(0), os.getsid(0) == os.getpid())");
        assert_eq!(out, "FileNotFoundError\nFalse True\n");
    }
}
