//! How jails end: completely.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belljar_jail::Ended;

use crate::harness::{Running, python, python_plan, start};

/// Leaves behind processes that try to outlive it.
const SURVIVORS: &str = "
import os, signal, socket, time
def stubborn():
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        while True: time.sleep(1)
    os._exit(0)
for _ in range(3):
    if os.fork() == 0: stubborn()
";

/// Processes of this host whose command line holds `mark`.
fn alive(mark: &str) -> usize {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter(|e| {
            fs::read(e.path().join("cmdline"))
                .is_ok_and(|c| String::from_utf8_lossy(&c).contains(mark))
        })
        .count()
}

fn mark(name: &str) -> String {
    format!("mark-{name}-{}", std::process::id())
}

fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while Instant::now() < deadline {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn waiting(mark: &str, before: &str) -> Running {
    let code = format!(
        "{before}
import socket, time
socket.socket(fileno=3).send(b'here') and time.sleep(60) # {mark}"
    );
    let running = start(python_plan(&code));
    assert_eq!(running.hear(), "here");
    running
}

crate::both_users! {
    fn nothing_survives_a_kill() {
        let mark = mark("kill");
        let running = waiting(&mark, SURVIVORS);
        assert!(eventually(|| alive(&mark) >= 4));
        running.jail.kill();
        assert_eq!(running.jail.wait().unwrap(), Ended::Killed);
        assert_eq!(alive(&mark), 0);
    }

    fn nothing_survives_the_programs_own_end() {
        let mark = mark("end");
        let code = format!("{SURVIVORS}\nos._exit(4) # {mark}");
        let running = start(python_plan(&code));
        assert_eq!(running.jail.wait().unwrap(), Ended::Exited(4));
        assert_eq!(alive(&mark), 0);
        // Their ends of the pipes are closed, too.
        running.finish();
    }

    fn nothing_survives_dropping_it() {
        let mark = mark("drop");
        drop(waiting(&mark, SURVIVORS));
        assert_eq!(alive(&mark), 0);
    }

    fn it_dies_with_its_host() {
        if let Ok(mark) = std::env::var("BELLJAR_TEST_HOST") {
            // This is the host that will be killed.
            let running = waiting(&mark, SURVIVORS);
            println!("\nready {mark}");
            running.jail.wait().unwrap();
            return;
        }
        let mark = mark("host");
        let mut host = Command::new("/proc/self/exe")
            .args(["--exact", "ends::it_dies_with_its_host", "--nocapture"])
            .env("BELLJAR_TEST_HOST", &mark)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
        let wanted = format!("ready {mark}");
        assert!(lines.any(|line| line.unwrap() == wanted));
        assert!(eventually(|| alive(&mark) >= 4));
        host.kill().unwrap();
        host.wait().unwrap();
        assert!(eventually(|| alive(&mark) == 0));
    }

    fn no_zombie_is_left() {
        if std::env::var("BELLJAR_TEST_ALONE").is_err() {
            // In a process of its own, which has no children but these.
            let output = Command::new("/proc/self/exe")
                .args(["--exact", "ends::no_zombie_is_left", "--nocapture"])
                .env("BELLJAR_TEST_ALONE", "1")
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            return;
        }
        drop(waiting("", SURVIVORS));
        assert_eq!(python(SURVIVORS).ended, Ended::Exited(0));
        let left = rustix::process::wait(rustix::process::WaitOptions::NOHANG);
        assert_eq!(left.unwrap_err(), rustix::io::Errno::CHILD);
    }

    fn it_outlives_the_thread_that_started_it() {
        let running = std::thread::spawn(|| waiting("", "")).join().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(running.jail.try_wait().unwrap(), None);
    }

    fn an_interrupt_is_a_keyboard_interrupt() {
        let running = start(python_plan("
import socket, time
s = socket.socket(fileno=3)
for n in (1, 2):
    try: s.send(b'here'); time.sleep(60)
    except KeyboardInterrupt: print('interrupted', n)"));
        for _ in 0..2 {
            assert_eq!(running.hear(), "here");
            running.jail.interrupt().unwrap();
        }
        let run = running.finish();
        assert_eq!((run.ended, &*run.out), (Ended::Exited(0), "interrupted 1\ninterrupted 2\n"));
    }

    fn swallowing_interrupts_does_not_help_against_a_kill() {
        let running = waiting("", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)");
        running.jail.interrupt().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(running.jail.try_wait().unwrap(), None);
        running.jail.kill();
        assert_eq!(running.jail.wait().unwrap(), Ended::Killed);
    }

    fn exit_codes_and_signals_are_told_apart() {
        assert_eq!(python("import os; os._exit(0)").ended, Ended::Exited(0));
        assert_eq!(python("import os; os._exit(137)").ended, Ended::Exited(137));
        assert_eq!(python("import os; os.kill(os.getpid(), 9)").ended, Ended::Signalled(9));
        assert_eq!(python("import os; os.abort()").ended, Ended::Signalled(6));
    }

    fn closing_all_descriptors_ends_nothing() {
        let run = python("import os; os.closerange(0, 1000); os._exit(5)");
        assert_eq!(run.ended, Ended::Exited(5));
    }

    fn becoming_another_program_is_no_way_out() {
        let run = python("import os; os.execv('/bin/sh', ['sh', '-c', 'cat /etc/shadow; exit 6'])");
        assert_eq!((run.ended, &*run.err), (Ended::Exited(6), "cat: /etc/shadow: No such file or directory\n"));
    }
}
