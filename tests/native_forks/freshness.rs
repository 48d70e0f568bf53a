//! Every fork is as fresh as an interpreter that was just started.

use std::fs;
use std::process::Command;
use std::time::Duration;

use belljar::{Status, create_sandbox};
use serde_json::Value;
use support::{Expect, Jar};

use crate::harness::{SEED, cold_with, config, warm};

#[test]
fn from_the_second_on_executions_are_forks_of_one_zygote() {
    let Some(mut cold) = cold_with(|layer| layer) else { return };
    let seeds: Vec<String> = (0..4).map(|_| cold.seed()).collect();
    assert!(seeds.iter().all(|seed| *seed == seeds[0]), "{seeds:?}");
    let other = create_sandbox(&config(&cold.jar)).expect("a sandbox").execute(SEED);
    assert_ne!(other.expect("a result").stdout, seeds[0], "another sandbox has its own");
}

#[test]
fn forks_have_the_layers_and_the_memory_figures_of_others() {
    let Some(mut cold) = cold_with(|layer| layer) else { return };
    let alone = create_sandbox(&config(&cold.jar)).expect("a sandbox").execute("1");
    let alone = alone.expect("a result");
    for _ in 0..3 {
        let forked = cold.run("x = bytearray(40 << 20)");
        assert_eq!(forked.meta.isolation, alone.meta.isolation);
        if let (Some(peak), Some(_)) = (forked.memory_used_bytes, alone.memory_used_bytes) {
            assert!(peak > 40 << 20, "{peak}");
        }
        let small = cold.run("1");
        if let Some(peak) = small.memory_used_bytes {
            assert!(peak < forked.memory_used_bytes.expect("known as well"), "{peak}");
        }
    }
}

#[test]
fn nothing_but_files_of_the_workspace_is_left_for_the_next() {
    let Some(mut warm) = warm() else { return };
    let attack = "
import os, sys, types, builtins, json, signal, atexit, random, decimal, gc, ctypes, tempfile
secret = 'left'
builtins.planted = sys.planted = json.planted = secret
sys.modules['planted'] = types.ModuleType('planted')
os.environ['PLANTED'] = '1'
sys.path.insert(0, '/planted')
random.seed(1)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setpriority(os.PRIO_PROCESS, 0, 19)
for place in ('/tmp', '/dev/shm', tempfile.gettempdir()):
    open(place + '/planted', 'w').write('x')
os.chdir('/')
for name in ('kept', 'sitecustomize.py', 'usercustomize.py', '.pythonrc', 'os.py'):
    open('/app/' + name, 'w').write('print(\"planted\")')
os.umask(0o777)
print('done')
# In the memory that all forks have from the zygote: the cached number 7 becomes 8.
ctypes.memmove(id(7) + 24, id(8) + 24, 4)
json.dumps = builtins.len = builtins.print = None";
    let look = "
import os, sys, builtins, json, random, signal, tempfile
print('secret' in globals(), hasattr(builtins, 'planted'), hasattr(sys, 'planted'), hasattr(json, 'planted'))
print('planted' in sys.modules, 'PLANTED' in os.environ, '/planted' in sys.path, json.dumps(len('abc')))
print(os.listdir('/tmp'), os.listdir('/dev/shm'), os.getcwd(), 3 + 4 == 7, os.umask(0o22) & 0o700)
print(signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, os.getpriority(os.PRIO_PROCESS, 0) < 19)
print(os.path.exists('kept'), random.random() != 0.13436424411240122)";
    let fresh = "False False False False\nFalse False False 3\n[] [] /app True 0\nTrue True\n";
    warm.run(look).printed(&format!("{fresh}False True\n"));
    warm.run(attack).printed("done\n");
    // What is in the workspace stays, and runs only when it is imported.
    warm.run(look).printed(&format!("{fresh}True True\n"));
    warm.run("import sitecustomize").printed("planted\n");
}

#[test]
fn random_numbers_and_clocks_are_never_those_of_another() {
    let Some(mut warm) = warm() else { return };
    let code = "
import random, uuid, secrets, tempfile, os
print(random.random(), uuid.uuid4(), secrets.token_hex(), next(tempfile._get_candidate_names()), os.urandom(8))";
    let first = warm.run(code).stdout;
    assert_ne!(first, warm.run(code).stdout);
    // The spare has waited; its program has not.
    std::thread::sleep(Duration::from_millis(1500));
    let age = "
import time, logging
start = logging._startTime
print(time.time() - (start / 1e9 if start > 1e12 else start) < 1, time.process_time() < 1)";
    warm.run(age).printed("True True\n");
}

#[test]
fn the_workspace_is_the_one_that_is_there_now() {
    let Some(mut warm) = warm() else { return };
    let path = warm.jar.workspace().to_owned();
    let aside = path.with_extension("aside");
    fs::rename(&path, &aside).expect("renamed");
    fs::create_dir(&path).expect("a new workspace");
    fs::write(path.join("new"), "x").expect("a file");
    warm.run("import os; print(os.listdir())").printed("['new']\n");
    fs::remove_dir_all(aside).expect("removed");
    warm.jar.write("later", "y");
    warm.run("import os; print(sorted(os.listdir()))").printed("['later', 'new']\n");
}

#[test]
fn sessions_are_forks_too_and_other_interpreters_go_on_beside_them() {
    let Some(mut warm) = warm() else { return };
    let seed = warm.seed();
    warm.sandbox.initialize(Value::from(41)).expect("a session");
    assert_eq!(warm.seed(), seed);
    warm.run("x = context + 1").kept(Status::Ok);
    assert!(warm.sandbox.check_code("1 +").expect("checked").is_some());
    warm.run("x").gave(42);
}

#[test]
fn without_ctypes_there_is_no_zygote_and_everything_works() {
    let venv = tempfile::tempdir().expect("a directory");
    let venv_made =
        Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(venv.path()).output();
    if !venv_made.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 -m venv does not work here");
        return;
    }
    let lib = fs::read_dir(venv.path().join("lib")).expect("lib").flatten().next().expect("one");
    let planted = lib.path().join("site-packages/sitecustomize.py");
    fs::write(planted, "import sys; sys.modules['ctypes'] = None").expect("a file");
    let jar = Jar::new();
    if cold_with(|layer| layer).is_none() {
        return;
    }
    let python = Some(venv.path().join("bin/python3"));
    let mut sandbox =
        create_sandbox(&belljar::SandboxConfig { python, ..config(&jar) }).expect("a sandbox");
    let mut seeds = Vec::new();
    for _ in 0..3 {
        let result = sandbox.execute(SEED).expect("a result");
        result.ended(Status::Ok, 0);
        seeds.push(result.stdout);
    }
    assert!(seeds[1] != seeds[2], "{seeds:?}");
}
