//! Learning about the host.

use belljar::Status;
use support::{Expect, Jar, attack, permitted};

#[test]
fn environment_of_the_host() {
    let result = attack(&Jar::new(), "import os; print(dict(os.environ), os.environb)");
    result.printed(
        "{'LC_ALL': 'C.UTF-8', 'PYTHONIOENCODING': 'utf-8', 'PYTHONUTF8': '1'} \
         environ({b'LC_ALL': b'C.UTF-8', b'PYTHONIOENCODING': b'utf-8', b'PYTHONUTF8': b'1'})\n",
    );
    let granted = Jar::new().config().policy.env.clone();
    for (name, value) in std::env::vars().filter(|(name, _)| name.len() > 3) {
        let known =
            granted.contains_key(&name) || granted.values().any(|granted| *granted == value);
        assert!(known || !result.stdout.contains(&name), "{name} of the host is visible");
        assert!(known || value.len() < 4 || !result.stdout.contains(&value), "{name} is visible");
    }
    let jar = Jar::new().with(|layer| layer.env("TOKEN", "given"));
    permitted(&jar, "import os; print(os.environ['TOKEN'], os.getenv('PATH'))")
        .printed("given None\n");
}

#[test]
fn names_of_the_machine_and_its_users() {
    let code = "import os, platform, sys, sysconfig, getpass
print(platform.node(), platform.uname(), os.uname(), os.getpid(), os.path.expanduser('~'))
print(sys.path, sys.executable, sys.prefix, sys.argv, sys.orig_argv, sys.flags)
print(sysconfig.get_config_vars(), sysconfig.get_paths())
print([(name, getattr(m, '__file__', None)) for name, m in list(sys.modules.items())])
print([getattr(m, '__spec__', None) for m in list(sys.modules.values())])
try: print(getpass.getuser())
except OSError as e: print(e)";
    // `ended` looks for paths of the host everywhere in the result.
    let result = attack(&Jar::new(), code);
    result.ended(Status::Ok, 0);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a host name");
    assert!(host.trim().len() < 4 || !result.stdout.contains(host.trim()), "the host's name shows");
    // In two halves, because no file here may name such a place.
    for word in [concat!("/wo", "rk/"), "/home/", "/root"] {
        assert!(!result.stdout.contains(word), "{word} shows in {}", result.stdout);
    }
}

#[test]
fn paths_of_the_host_in_error_messages() {
    let jar = Jar::new().with_data(&[("d", "x")]);
    std::os::unix::fs::symlink("/etc/passwd", jar.workspace().join("absolute")).expect("a link");
    for code in [
        "open('missing')",
        "open('/data/missing')",
        "open('/data/d', 'w')",
        "open('absolute')",
        "import os; os.rename('missing', '/data/x')",
        "import os; os.readlink('absolute')",
        "import os; print(os.path.realpath('absolute'), os.path.realpath('/data/../app'))",
        "import os; print(os.stat('/app'), os.lstat('absolute'), os.getcwd())",
        "import sqlite3; sqlite3.connect('/etc/x').execute('create table t(a)')",
        "import os; os.mkdir('a' * 300)",
        "import missing_module",
        "import os; os.chdir('/nowhere')",
        "raise SystemError(__builtins__)",
    ] {
        let result = attack(&jar, code);
        support::assert_no_host_paths(&result);
        let data = jar.data().display().to_string();
        assert!(!result.stderr.contains(&data) && !result.stdout.contains(&data));
    }
    permitted(&jar, "print(open('/data/d').read())").printed("x\n");
}
