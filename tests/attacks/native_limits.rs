//! More than is allowed: processes, memory, disk, output, time.

use std::time::Duration;

use belljar::Status;
use support::{
    Cells, Expect, Jar, attack_native, attacked_natively, both_users, permitted_native,
    processes_of, skipped,
};

/// Stays behind in every way there is.
const SURVIVORS: &str = "
import os, signal, subprocess, time
def stubborn():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 300)
        while True: time.sleep(1)
    os._exit(0)
for _ in range(3):
    if os.fork() == 0: stubborn()
subprocess.Popen(['sh', '-c', 'trap \"\" TERM INT HUP; (sleep 600 & sleep 600) & sleep 600'], start_new_session=True)
";

fn quick(jar: Jar) -> Jar {
    jar.timeout(Duration::from_millis(700))
}

/// Time for an end that must come soon, on a busy machine.
const SOON_MS: f64 = 15_000.0;

both_users! {
    fn fork_bomb() {
        let jar = quick(Jar::native().with(|layer| layer.max_processes(20)));
        let code = "import os, time\nwhile True:\n  try: os.fork()\n  except OSError: time.sleep(0.01)";
        attack_native(&jar, code).ended(Status::Timeout, -1);
        let code = "import os, time\nn = 0\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(60); os._exit(0)\n    \
                    n += 1\nexcept BlockingIOError: print(10 < n <= 20)";
        attack_native(&jar, code).printed("True\n");
        let code = "import os\nfor _ in range(5):\n  if os.fork() == 0: os._exit(0)\nfor _ in range(5): os.wait()";
        permitted_native(&jar, code).printed("");
    }

    fn thread_bomb() {
        let jar = Jar::native().with(|layer| layer.max_processes(20).memory_bytes(1 << 30));
        let code = "import threading\ngate, n = threading.Event(), 0\ntry:\n  for _ in range(1000):\n    \
                    threading.Thread(target=gate.wait, daemon=True).start(); n += 1\n\
                    except RuntimeError: pass\nprint(10 < n <= 20)";
        attack_native(&jar, code).printed("True\n");
    }

    fn memory_bomb() {
        let jar = Jar::native();
        let bombs = [
            "x = []\nwhile True: x.append(bytearray(10**7))",
            "x = bytearray(10**9)",
            "x = 'x'\nwhile True: x += x",
            "x = {}\nwhile True: x[len(x)] = str(len(x))",
        ];
        for bomb in bombs {
            attack_native(&jar, bomb).ended(Status::OutOfMemory, -1);
        }
        permitted_native(&jar, "print(len(bytearray(50_000_000)))").printed("50000000\n");
    }

    fn memory_that_is_not_the_process_s_own() {
        let jar = Jar::native();
        let held = permitted_native(&jar, "").meta.isolation;
        if !held.iter().any(|layer| layer == "cgroup") {
            skipped("memory_that_is_not_the_process_s_own", "no control group can be had here");
            return;
        }
        let shared = "import mmap\nm = mmap.mmap(-1, 400 << 20)\nfor at in range(0, len(m), 4096): m[at] = 1\nprint('had it')";
        let result = attack_native(&jar, shared);
        assert!(!result.stdout.contains("had it"), "{result:#?}");
        let children = "import os\nfor _ in range(8):\n  if os.fork() == 0:\n    x = bytearray(b'x') * (60 << 20)\n    \
                        import time; time.sleep(60)\nimport time; time.sleep(5)\nprint('had it')";
        let result = attack_native(&quick(jar), children);
        assert!(!result.stdout.contains("had it"), "{result:#?}");
    }

    fn filling_the_disk() {
        let jar = Jar::native().with(|layer| layer.workspace_max_bytes(1_000_000));
        let fills = [
            "open('f', 'wb').write(bytes(10**7))",
            "i = 0\nwhile True:\n  i += 1\n  with open(f'f{i}', 'wb') as f: f.write(b'x' * 10**5)",
            "f = open('f', 'wb', 0)\nwhile True:\n  try: f.write(b'x' * 10**5)\n  except OSError: pass",
            "import os\nos.makedirs('a/b/c')\nfor i in range(50):\n  with open(f'a/b/c/{i}', 'wb') as f: f.write(b'x' * 10**5)",
            "import subprocess\nsubprocess.run(['sh', '-c', 'i=0; while :; do i=$((i+1)); head -c 500000 /dev/zero > f$i; done'])",
        ];
        for code in fills {
            let result = attack_native(&jar, code);
            result.ended(Status::Quota, -1);
            let notice = "Quota: the workspace may grow by 1000000 bytes and 10000 files; \
                          raise workspace_max_bytes or workspace_max_files to allow more\n";
            assert!(result.stderr.ends_with(notice), "{}", result.stderr);
            assert!(result.duration_ms < SOON_MS, "{} ms", result.duration_ms);
            let code = "import os, shutil\nfor name in os.listdir('.'): shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)";
            permitted_native(&jar, code).printed("");
        }
        permitted_native(&jar, "print(open('f', 'wb').write(bytes(900_000)))").printed("900000\n");
    }

    fn filling_the_disk_with_names() {
        let jar = Jar::native().with(|layer| layer.workspace_max_files(100));
        let fills = [
            "for i in range(200): open(str(i), 'w').close()",
            "import os\nfor i in range(200): os.mkdir(str(i))",
            "import os\nfor i in range(200): os.symlink('x', str(i))",
            "import os\nopen('f', 'w').close()\nfor i in range(200): os.link('f', str(i))",
            "i = 0\nwhile True:\n  i += 1\n  open(str(i), 'w').close()",
        ];
        for code in fills {
            attack_native(&jar, code).ended(Status::Quota, -1);
            let code = "import os\nfor name in os.listdir('.'): os.rmdir(name) if os.path.isdir(name) else os.remove(name)";
            permitted_native(&jar, code).printed("");
        }
        permitted_native(&jar, "for i in range(99): open(str(i), 'w').close()").printed("");
    }

    fn filling_scratch() {
        let code = "for path in ('/tmp/big', '/dev/shm/big'):\n  try:\n    with open(path, 'wb') as f:\n      \
                    while True: f.write(bytes(1 << 20))\n  except OSError as e: print(e.errno)\n  import os; os.unlink(path)";
        let result = attack_native(&Jar::native(), code);
        assert!(matches!(result.status(), Status::Ok | Status::OutOfMemory), "{result:#?}");
        permitted_native(&Jar::native(), "print(open('/tmp/f', 'wb').write(bytes(4 << 20)))").printed("4194304\n");
    }

    fn outliving_the_time_out() {
        let jar = quick(Jar::native());
        let result = attack_native(&jar, &format!("{SURVIVORS}\nwhile True: time.sleep(1)"));
        result.ended(Status::Timeout, -1);
    }

    fn outliving_the_end() {
        let jar = Jar::native();
        attack_native(&jar, SURVIVORS).ended(Status::Ok, 0);
        attack_native(&jar, &format!("{SURVIVORS}\nos._exit(4)")).ended(Status::Error, 4);
        attack_native(&jar, &format!("{SURVIVORS}\nraise SystemExit(5)")).ended(Status::Error, 5);
        // A session's processes are its own until it ends.
        attacked_natively(&jar, "a session with children", || {
            let mut sandbox = jar.open_session(());
            sandbox.run(SURVIVORS).ended(Status::Ok, 0);
            assert!(processes_of(jar.workspace()).len() > 4);
            sandbox.run("print('meanwhile')").printed("meanwhile\n");
            drop(sandbox);
        });
    }

    fn ignoring_that_time_is_up() {
        let ways = [
            "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
            "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
            "import time\nwhile True:\n  try: time.sleep(60)\n  except BaseException: pass",
            "import re\nre.match(r'(a+)+$', 'a' * 40 + 'b')",
            "x = 7 ** (7 ** 9)",
            "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
            "import os, signal\nif os.fork():\n  os.wait()\nelse:\n  os.kill(os.getppid(), signal.SIGSTOP)",
            "import threading\ndef f():\n  while True: pass\nthreading.Thread(target=f).start()",
            "import atexit, time\natexit.register(time.sleep, 600)\nwhile True: pass",
            "class A:\n  def __del__(self):\n    while True: pass\nA()",
        ];
        let jar = quick(Jar::native());
        for code in ways {
            let result = attack_native(&jar, code);
            assert_eq!(result.status(), Status::Timeout, "{code}: {result:#?}");
            assert!(result.duration_ms < SOON_MS, "{code}: {} ms", result.duration_ms);
        }
        permitted_native(&jar, "import time; time.sleep(0.2); print('in time')").printed("in time\n");
    }

    fn output_flood() {
        let jar = Jar::native().with(|layer| layer.stdout_max_bytes(10_000).stderr_max_bytes(10_000));
        let floods = [
            "while True: print('x' * 10_000)",
            "import os\nwhile True: os.write(2, b'x' * 65536)",
            "import subprocess\nsubprocess.run(['sh', '-c', 'while :; do echo flood; done >&2 & cat /dev/zero'])",
        ];
        for code in floods {
            let result = attack_native(&jar, code);
            result.ended(Status::OutputLimit, -1);
            assert!(result.stdout.len() <= 10_000 && result.stderr.len() <= 10_000);
        }
        permitted_native(&jar, "print('x' * 100)").printed(&format!("{}\n", "x".repeat(100)));
    }
}
