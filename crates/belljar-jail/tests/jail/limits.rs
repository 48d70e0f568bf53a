//! What a program may use up.

use belljar_jail::{Ended, Layer, MemoryRule};

use crate::harness::{python, python_plan, python_prints, run, start};

const MIB: u64 = 1024 * 1024;

crate::both_users! {
    fn a_fork_bomb_is_bounded() {
        let mut plan = python_plan("
import os, time
children = 0
try:
    while True:
        if os.fork() == 0: time.sleep(60); os._exit(0)
        children += 1
except BlockingIOError:
    print(children)");
        plan.limits.max_processes = 20;
        let run = run(plan);
        assert_eq!(run.err, "");
        let children: u32 = run.out.trim().parse().unwrap();
        assert!((15..=20).contains(&children), "{children}");
    }

    fn threads_count_as_processes() {
        let mut plan = python_plan("
import threading
started, gate = 0, threading.Event()
try:
    for _ in range(100):
        threading.Thread(target=gate.wait, daemon=True).start()
        started += 1
except RuntimeError:
    pass
print(started)
gate.set()");
        plan.limits.max_processes = 20;
        plan.limits.memory_bytes = 1 << 30;
        plan.env.insert("MALLOC_ARENA_MAX".into(), "1".into());
        let started: u32 = run(plan).out.trim().parse().unwrap();
        assert!((15..=20).contains(&started), "{started}");
    }

    fn more_memory_than_allowed_is_a_memory_error() {
        let run = python("
try: bytearray(300 << 20)
except MemoryError: print('refused')
print(len(bytearray(50 << 20)))");
        assert_eq!(run.out, "refused\n52428800\n");
    }

    fn a_memory_bomb_ends_alone() {
        // Shared memory is in no process's own limit of data; the group counts it.
        let mut plan = python_plan("
import mmap
m = mmap.mmap(-1, 400 << 20)
for at in range(0, len(m), 4096): m[at] = 1
print('survived')");
        plan.limits.memory_rule = MemoryRule::Data;
        let running = start(plan);
        if !running.jail.layers().contains(&Layer::Cgroup) {
            println!("skipped: no control group can be had by this user here");
            return;
        }
        let run = running.finish();
        assert_eq!((run.ended, &*run.out), (Ended::OutOfMemory, ""));
        // The twin, after it: others are not touched.
        assert_eq!(python_prints("print('alive')"), "alive\n");
    }

    fn scratch_is_bounded() {
        let mut plan = python_plan("
for path in ['/tmp/big', '/dev/shm/big']:
    try:
        with open(path, 'wb') as f:
            for _ in range(20): f.write(bytes(1 << 20))
    except OSError as e: print(e.errno)");
        plan.limits.tmp_bytes = 8 * MIB;
        assert_eq!(run(plan).out, "28\n28\n");
    }

    fn scratch_can_be_used() {
        let mut plan = python_plan("print(open('/tmp/f', 'wb').write(bytes(4 << 20)))");
        plan.limits.tmp_bytes = 8 * MIB;
        assert_eq!(run(plan).out, "4194304\n");
    }

    fn a_file_cannot_grow_without_end() {
        let mut plan = python_plan("
try:
    with open('/app/f', 'wb') as f: f.truncate(9 << 20)
except OSError as e: print(e.errno)
print(open('/app/g', 'wb').write(bytes(1 << 20)))");
        plan.limits.max_file_bytes = 8 * MIB;
        assert_eq!(run(plan).out, "27\n1048576\n");
    }

    fn open_files_are_bounded() {
        let mut plan = python_plan("
files = []
try:
    while True: files.append(open('/dev/null'))
except OSError as e: print(e.errno, len(files) > 50)");
        plan.limits.max_open_files = 80;
        assert_eq!(run(plan).out, "24 True\n");
    }

    fn limits_cannot_be_raised() {
        let run = python("
import resource
for r in (resource.RLIMIT_DATA, resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
    try: resource.setrlimit(r, (1 << 40, 1 << 40)); print('raised')
    except ValueError as e: print('refused')
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); print(resource.getrlimit(resource.RLIMIT_NOFILE))");
        assert_eq!(run.out, "refused\nrefused\nrefused\n(64, 64)\n");
    }

    fn priorities_and_locked_memory_of_the_host_are_not_passed_on() {
        let run = python("
import resource
names = ('MEMLOCK', 'MSGQUEUE', 'NICE', 'RTPRIO')
print([resource.getrlimit(getattr(resource, 'RLIMIT_' + name)) for name in names])
import os
before = os.nice(0); print(os.nice(1) - before)
try: os.nice(-1)
except OSError: print('refused')");
        assert_eq!(run.out, "[(0, 0), (0, 0), (0, 0), (0, 0)]\n1\nrefused\n");
    }
}
