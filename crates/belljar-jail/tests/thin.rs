//! x
use belljar_jail::*;
use std::io::Read;
#[test]
fn thin() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = JailPlan::new("/bin/sh");
    plan.with_system();
    plan.workspace = Some(dir.path().into());
    plan.args = vec!["-c".into(), "id; ls -la / /app /dev /etc; cat /proc/self/status | grep -iE 'cap|seccomp|nonew'; echo hi > /app/x; ls -la /proc/self/fd; mount; ps aux; exit 3".into()];
    plan.env.insert("PATH".into(), "/bin:/usr/bin".into());
    let (mut r, w) = std::io::pipe().unwrap();
    let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    let t = std::time::Instant::now();
    let d = Descriptors { protocol_in: b.try_clone().unwrap().into(), protocol_out: b.into(), user_stdout: w.try_clone().unwrap().into(), user_stderr: w.into() };
    let j = Jailed::spawn(&plan, d).unwrap();
    println!("{:?} {:?}", t.elapsed(), j.layers());
    let mut s = String::new(); r.read_to_string(&mut s).unwrap();
    println!("{s}\n{:?} {:?}", j.wait(), j.peak_memory_bytes());
    drop(j); drop(a);
}
