//! Terminals of a jail's own, and places to write other than the workspace.

use std::fs;

use belljar_jail::Ended;

use crate::harness::{python, python_plan, run};

const OPEN: &str = "
import os, fcntl, termios, struct
main, other = os.openpty()
fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 120, 0, 0))
if os.fork() == 0:
    os.setsid()
    fcntl.ioctl(other, termios.TIOCSCTTY, 0)
    print(os.ttyname(other), os.get_terminal_size(other), os.tcgetpgrp(other) == os.getpid(), flush=True)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.wait()[1]))
";

crate::both_users! {
    fn a_program_with_terminals_can_make_one_and_be_in_it() {
        let mut plan = python_plan(OPEN);
        plan.terminals = true;
        let run = run(plan);
        assert_eq!(run.err, "");
        assert!(
            run.out.contains("/dev/pts/0 os.terminal_size(columns=120, lines=33) True"),
            "{}", run.out
        );
        assert_eq!(run.ended, Ended::Exited(0));
    }

    fn no_words_are_put_into_a_terminals_mouth() {
        let code = "
import os, fcntl, termios
main, other = os.openpty()
try: fcntl.ioctl(other, termios.TIOCSTI, b'x')
except OSError as e: print(type(e).__name__)
";
        let mut plan = python_plan(code);
        plan.terminals = true;
        assert_eq!(run(plan).out, "PermissionError\n");
    }

    fn a_program_without_terminals_makes_none() {
        let run = python("import os\ntry: os.openpty()\nexcept OSError as e: print('none')");
        assert_eq!(run.out, "none\n");
    }

    fn a_workspace_elsewhere_and_a_second_place_can_be_written() {
        let (home, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut plan = python_plan(
            "open('/home/user/a', 'w').write('1'); open('/tmp/b', 'w').write('2')
try: open('/home/c', 'w')
except OSError: print('no')",
        );
        plan.workspace = Some(home.path().into());
        plan.workspace_inside = "/home/user".into();
        plan.directory = "/home/user".into();
        plan.write_at(second.path(), "/tmp");
        assert_eq!(run(plan).out, "no\n");
        assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "1");
        assert_eq!(fs::read_to_string(second.path().join("b")).unwrap(), "2");
    }
}
