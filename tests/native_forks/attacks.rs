//! What a fork tries against the zygote, its control and the fork that comes next.

use support::Expect;

use crate::harness::warm;

#[test]
fn seeing_and_signalling_the_zygote() {
    let Some(mut warm) = warm() else { return };
    let seed = warm.seed();
    let code = "
import os, signal
print(sorted(int(name) for name in os.listdir('/proc') if name.isdigit()), os.getpid(), os.getppid())
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGINT): os.kill(1, number)
try: os.kill(-1, signal.SIGKILL)
except ProcessLookupError: print('nobody')
for pid in (0x10000, 3, 4, 5, 6, 7, 8):
    try: os.kill(pid, signal.SIGKILL); print('hit', pid)
    except ProcessLookupError: pass";
    // The signal to itself by way of process 1 is its own business.
    let result = warm.run(&code.replace(", signal.SIGINT)", ")"));
    result.printed("[1, 2] 2 1\nnobody\n");
    // Its own children it sees and ends.
    let twin = "
import os, signal, time
pid = os.fork()
if pid == 0: time.sleep(60)
print(str(pid) in os.listdir('/proc'))
os.kill(pid, signal.SIGKILL)
print(os.WTERMSIG(os.waitpid(pid, 0)[1]))";
    warm.run(twin).printed("True\n9\n");
    assert_eq!(warm.seed(), seed, "the zygote lives on");
}

#[test]
fn reading_and_changing_the_memory_of_others() {
    let Some(mut warm) = warm() else { return };
    let code = "
import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
for request in (PTRACE_ATTACH, PTRACE_SEIZE):
    for pid in (1, os.getppid()):
        assert c.ptrace(request, pid, 0, 0) == -1
byte, = ctypes.create_string_buffer(1),
class iovec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
own = iovec(ctypes.addressof(byte), 1)
for call in (c.process_vm_readv, c.process_vm_writev):
    assert call(1, ctypes.byref(own), 1, ctypes.byref(own), 1, 0) == -1
try: descriptors = ['fd/' + name for name in os.listdir('/proc/1/fd')]
except OSError: descriptors = []
for name in ('mem', 'environ', 'maps', 'root', *descriptors):
    for way in (os.O_RDONLY, os.O_WRONLY, os.O_PATH):
        try: os.read(os.open('/proc/1/' + name, way), 1); print('opened', name)
        except OSError: pass
    try: print('leads to', os.readlink('/proc/1/' + name))
    except OSError: pass
print('refused')";
    warm.run(code).printed("refused\n");
    let twin = "
with open('/proc/self/maps') as maps: print('python' in maps.read())
import ctypes
buffer = ctypes.create_string_buffer(b'own')
print(ctypes.string_at(ctypes.addressof(buffer)))";
    warm.run(twin).printed("True\nb'own'\n");
}

#[test]
fn reaching_the_control_of_the_zygote() {
    let Some(mut warm) = warm() else { return };
    let seed = warm.seed();
    // Orders to the zygote, on every descriptor there is.
    let code = r#"
import os, stat
sockets = []
for fd in range(3, 1024):
    try: mode = os.fstat(fd).st_mode
    except OSError: continue
    if stat.S_ISSOCK(mode): sockets.append(fd)
peers = {os.readlink(f'/proc/self/fd/{fd}') for fd in sockets}
print(len(peers))
for fd in sockets:
    os.write(fd, b'{"jsonrpc":"2.0","method":"exited","params":{"pid":2,"code":0}}\n')
    os.write(fd, b'{"jsonrpc":"2.0","id":7,"method":"spawn","params":{}}\n')
    os.write(fd, b'{"jsonrpc":"2.0","id":8,"method":"kill","params":{"pid":2}}\n')
    os.write(fd, b'{"jsonrpc":"2.0","method":"ready","params":{}}\n')
print('still here')"#;
    // One is the host's own conversation with it, which knows no such orders.
    warm.run(code).printed("1\nstill here\n");
    let abstract_names = "
print([line for line in open('/proc/net/unix').read().splitlines()[1:] if '@' in line or '/' in line])";
    warm.run(abstract_names).printed("[]\n");
    // Sockets of its own are fine.
    let twin = "
import socket
a, b = socket.socketpair()
a.send(b'x'); print(b.recv(1))";
    warm.run(twin).printed("b'x'\n");
    assert_eq!(warm.seed(), seed);
}

#[test]
fn living_on_after_the_execution() {
    let Some(mut warm) = warm() else { return };
    let code = "
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 32):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        n = 0
        while True:
            n += 1
            with open('/app/heartbeat', 'w') as file: file.write(str(n))
            time.sleep(0.001)
    os._exit(0)
while not os.path.exists('/app/heartbeat'): time.sleep(0.001)
print('left')";
    warm.run(code).printed("left\n");
    let before = warm.jar.read("heartbeat");
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(warm.jar.read("heartbeat"), before);
    warm.run("import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))")
        .printed("2\n");
}

#[test]
fn using_up_what_the_next_one_needs() {
    let Some(mut warm) = warm() else { return };
    let seed = warm.seed();
    let processes = "
import os, time
try:
    while True:
        if os.fork() == 0: time.sleep(60); os._exit(0)
except BlockingIOError: print('no more')";
    warm.run(processes).printed("no more\n");
    warm.run("print('next')").printed("next\n");
    let files = "
full = 0
for place in ('/tmp', '/dev/shm'):
    try:
        with open(place + '/big', 'wb') as file:
            while True: file.write(bytes(1 << 20))
    except (OSError, MemoryError): full += 1
print(full)";
    // Its own memory is used up by that, or it gets to the end of what fits there.
    let result = warm.run(files);
    assert!(result.stdout == "2\n" || !result.success(), "{}", result.stderr);
    warm.run("open('/tmp/x', 'w').write('fits'); print(open('/tmp/x').read())").printed("fits\n");
    assert_eq!(warm.seed(), seed);
}
