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
const ZYGOTE: &str = r#"
import ctypes, os, sys, socket, time, array, signal
lib = ctypes.PyDLL('/proc/self/fd/5')
assert lib.belljar_open(6) == 0
s = socket.socket(fileno=3)
assert os.getpid() == 2
s.send(b'ready')
n = 0
while True:
    msg, fds, flags, _ = socket.recv_fds(s, 100, 10)
    if not msg: break
    t = time.perf_counter()
    r = lib.belljar_before_fork(); assert r == 0, r
    pid = os.fork()
    if pid == 0:
        numbers = (ctypes.c_int * 8)(fds[0], fds[0], fds[1], fds[1], fds[2], fds[3], *(fds[4:6] or [-1, -1]))
        r = lib.belljar_enter(numbers)
        if r: os.write(fds[1], b'enter %d' % r); os._exit(9)
        exec(msg.decode())
        sys.stdout.flush()
        os._exit(7)
    r = lib.belljar_after_fork(); assert r == 0, r
    for f in fds: os.close(f)
    os.waitpid(pid, 0)
    s.send(b'%.3f' % ((time.perf_counter() - t) * 1e3))
"#;
#[test]
fn zygote() {
    use rustix::net::*;
    use std::os::fd::*;
    use std::io::{IoSlice, Write};
    let dir = tempfile::tempdir().unwrap();
    let mut plan = JailPlan::new("/usr/bin/python3.11");
    plan.with_system();
    plan.zygote = true;
    plan.directory = "/".into();
    plan.args = vec!["-I".into(), "-c".into(), ZYGOTE.into()];
    let (mut r, w) = std::io::pipe().unwrap();
    let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    let d = Descriptors { protocol_in: b.try_clone().unwrap().into(), protocol_out: b.into(), user_stdout: w.try_clone().unwrap().into(), user_stderr: w.into() };
    let j = Jailed::spawn(&plan, d).unwrap();
    let mut buf = [0; 100];
    let n = (&a).read(&mut buf).unwrap();
    if n == 0 { let mut s = String::new(); r.read_to_string(&mut s).unwrap(); panic!("{s}"); }
    let code = "import os; print(os.listdir('/proc')); print(os.getpid(), os.listdir('/app'), os.listdir('/tmp'), os.listdir('/proc/self/fd'), open('/proc/self/status').read()); open('/app/made','w').write('x'); os.system('id; echo sub')";
    for i in 0..20 {
        let (mut cr, cw) = std::io::pipe().unwrap();
        let (mut sr, sw) = std::io::pipe().unwrap();
        let (_ca, cb) = std::os::unix::net::UnixStream::pair().unwrap();
        let t = std::time::Instant::now();
        let app = j.take_directory(dir.path(), true).unwrap();
        let t1 = t.elapsed();
        let g = Cgroup::create(&plan.limits).unwrap();
        let t2 = t.elapsed();
        let e = g.entrances().unwrap();
        {
            let cwf = OwnedFd::from(cw); let swf = OwnedFd::from(sw); let cbf = OwnedFd::from(cb);
            let mut fds = vec![cbf.as_fd(), cwf.as_fd(), app.as_fd(), swf.as_fd()];
            fds.extend(e.iter().map(|x| x.as_fd()));
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
            let mut c = SendAncillaryBuffer::new(&mut space);
            assert!(c.push(SendAncillaryMessage::ScmRights(&fds)));
            let code = if i == 0 { code } else { "pass" };
            sendmsg(&a, &[IoSlice::new(code.as_bytes())], &mut c, SendFlags::empty()).unwrap();
        }
        let n = (&a).read(&mut buf).unwrap();
        println!("{i} {:?} {t1:?} {t2:?} {}", t.elapsed(), String::from_utf8_lossy(&buf[..n]));
        let mut s = String::new(); cr.read_to_string(&mut s).unwrap();
        let mut st = vec![]; sr.read_to_end(&mut st).unwrap();
        println!("{s} {st:?}");
        if n == 0 { let mut s = String::new(); r.read_to_string(&mut s).unwrap(); panic!("{s}"); }
    }
    (&a).flush().unwrap();
}
