//! Which files exist, and which can be changed.

use std::fs;

use belljar_jail::{Ended, WORKSPACE};

use crate::harness::{python, python_plan, python_prints, run, start, try_start};

/// Tries each expression and prints what it raises.
const TRY: &str = r#"
import os, sys
def tried(*expressions):
    for text in expressions:
        try: print(text, '->', eval(text))
        except BaseException as e: print(text, '->', type(e).__name__)
"#;

crate::both_users! {
    fn files_of_the_host_do_not_exist() {
        let secret = tempfile::tempdir().unwrap();
        fs::write(secret.path().join("key"), "secret").unwrap();
        let path = secret.path().join("key");
        let out = python_prints(&format!(
            "{TRY}tried('open(\"/etc/shadow\")', 'os.path.exists(\"/root\" + \"/.profile\")', 'os.listdir(\"/home\")',
            'os.listdir(\"/sys\")', 'os.path.exists(\"{}\")')", path.display()
        ));
        assert_eq!(out, format!(
            "open(\"/etc/shadow\") -> FileNotFoundError
os.path.exists(\"/root\" + \"/.profile\") -> False
os.listdir(\"/home\") -> FileNotFoundError
os.listdir(\"/sys\") -> FileNotFoundError
os.path.exists(\"{}\") -> False
", path.display()));
    }

    fn own_files_and_given_data_can_be_read() {
        let (own, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(own.path().join("own.txt"), "mine").unwrap();
        fs::write(data.path().join("data.txt"), "given").unwrap();
        let mut plan = python_plan("print(open('own.txt').read(), open('/data/data.txt').read())");
        plan.workspace = Some(own.path().into());
        plan.read_at(data.path(), "/data");
        assert_eq!(run(plan).out, "mine given\n");
    }

    fn nothing_outside_of_the_workspace_can_be_written() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("data.txt"), "given").unwrap();
        let mut plan = python_plan(&format!("{TRY}tried(
            'open(\"/x\", \"w\")', 'open(\"/usr/x\", \"w\")', 'open(\"/etc/passwd\", \"a\")',
            'open(\"/proc/sys/kernel/core_pattern\", \"w\")', 'open(\"/proc/self/oom_score_adj\", \"w\")',
            'open(\"/data/data.txt\", \"a\")', 'os.unlink(\"/data/data.txt\")',
            'os.chmod(\"/data/data.txt\", 0)', 'os.chmod(\"/dev/null\", 0)',
            'os.mkdir(\"/dev/x\")', 'os.rename(\"/app\", \"/ppa\")')"));
        plan.read_at(data.path(), "/data");
        let out = run(plan).out;
        let refused = ["OSError", "PermissionError"];
        let lines: Vec<_> = out.lines().collect();
        assert_eq!(lines.len(), 11, "{out}");
        for line in lines {
            assert!(refused.iter().any(|e| line.ends_with(&format!("-> {e}"))), "{line}");
        }
        assert_eq!(fs::read_to_string(data.path().join("data.txt")).unwrap(), "given");
    }

    fn the_workspace_and_scratch_can_be_written() {
        let running = start(python_plan(
            "for p in ['/app/a', 'b', '/tmp/c', '/dev/shm/d', '/dev/null']:
    with open(p, 'w') as f: f.write('x')
import os, tempfile
os.rename('/app/a', '/app/e'); os.mkdir('/app/d'); os.symlink('e', '/app/l')
tempfile.TemporaryFile().write(b'x')
print(sorted(os.listdir('/app')), os.getcwd())",
        ));
        assert_eq!(running.jail.wait().unwrap(), Ended::Exited(0));
        assert_eq!(fs::read_to_string(running.workspace.path().join("e")).unwrap(), "x");
        assert_eq!(running.finish().out, "['b', 'd', 'e', 'l'] /app\n");
    }

    fn proc_self_root_leads_nowhere() {
        let out = python_prints(&format!("{TRY}
print(os.listdir('/proc/self/root') == os.listdir('/'))
tried('os.listdir(\"/proc/1/root\")', 'open(\"/proc/self/root/../../etc/shadow\")',
      'open(\"/proc/1/fd/0\")', 'open(\"/proc/1/mem\", \"rb\")', 'open(\"/proc/1/environ\")', 'open(\"/proc/self/cwd/../etc/shadow\")')"));
        assert_eq!(out, "True
os.listdir(\"/proc/1/root\") -> PermissionError
open(\"/proc/self/root/../../etc/shadow\") -> FileNotFoundError
open(\"/proc/1/fd/0\") -> PermissionError
open(\"/proc/1/mem\", \"rb\") -> PermissionError
open(\"/proc/1/environ\") -> PermissionError
open(\"/proc/self/cwd/../etc/shadow\") -> FileNotFoundError
");
    }

    fn proc_of_oneself_can_be_read() {
        let out = python_prints("
import os
for name in ('maps', 'environ', 'limits'): print(len(open('/proc/self/' + name).read()) > 0)
print(sorted(os.listdir('/proc/self/fd'))[:5], os.readlink('/proc/self/exe') != '')
open('/dev/stdout', 'w').write('by name\\n')");
        // What is printed is written at the end, after what goes to the file.
        assert_eq!(out, "by name\nTrue\nTrue\nTrue\n['0', '1', '2', '3', '4'] True\n");
    }

    fn a_link_planted_in_the_workspace_is_not_followed_by_mounts() {
        let (own, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink("/etc", own.path().join("packages")).unwrap();
        let mut plan = python_plan("");
        plan.workspace = Some(own.path().into());
        plan.read_at(data.path(), "/app/packages");
        let error = try_start(plan).err().unwrap().to_string();
        assert_eq!(
            error,
            "the jail could not make /app/packages in the jail: Not a directory (os error 20)"
        );
    }

    fn a_mount_inside_of_the_workspace_works() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("data.txt"), "given").unwrap();
        let mut plan = python_plan("print(open('packages/data.txt').read())");
        plan.read_at(data.path(), "/app/packages");
        assert_eq!(run(plan).out, "given\n");
    }

    fn a_mount_inside_of_scratch_works() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("data.txt"), "given").unwrap();
        let path = data.path().join("data.txt");
        let mut plan = python_plan(&format!("print(open('{}').read())", path.display()));
        plan.read(data.path());
        assert_eq!(run(plan).out, "given\n");
    }

    fn a_link_out_of_the_workspace_leads_to_the_jails_files() {
        let own = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/shadow", own.path().join("out")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", own.path().join("in")).unwrap();
        let mut plan = python_plan(&format!("{TRY}tried('open(\"out\")', 'open(\"in\").read()')"));
        plan.workspace = Some(own.path().into());
        assert_eq!(
            run(plan).out,
            format!("open(\"out\") -> FileNotFoundError
open(\"in\").read() -> user:x:1000:1000::{WORKSPACE}:/bin/sh\n\n")
        );
    }

    fn a_named_pipe_can_be_made() {
        let out = python_prints("import os, stat; os.mkfifo('/app/p'); print(stat.S_ISFIFO(os.stat('/app/p').st_mode))");
        assert_eq!(out, "True\n");
    }

    fn a_device_cannot_be_made() {
        let run = python("import os, stat; os.mknod('/app/sda', 0o600 | stat.S_IFBLK, os.makedev(8, 0))");
        assert!(run.err.ends_with("PermissionError: [Errno 1] Operation not permitted\n"), "{}", run.err);
    }
}
