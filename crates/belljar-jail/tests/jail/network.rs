//! Nobody to talk to.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::harness::{python_plan, python_prints, run};

crate::both_users! {
    fn nothing_of_the_host_can_be_reached() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let _named = UnixListener::bind(&path).unwrap();
        let name = format!("belljar-test-{}-{port}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _unnamed = UnixListener::bind_addr(&address).unwrap();
        let out = python_prints(&format!("
import socket
def tried(what, f):
    try: f(); print(what, 'reached')
    except OSError as e: print(what, type(e).__name__)
unix = lambda a: socket.socket(socket.AF_UNIX).connect(a)
tried('tcp', lambda: socket.create_connection(('127.0.0.1', {port})))
tried('udp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
tried('tcp6', lambda: socket.socket(socket.AF_INET6))
tried('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
tried('packets', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried('vsock', lambda: socket.socket(40, socket.SOCK_STREAM))
tried('named', lambda: unix('{}'))
tried('abstract', lambda: unix('\\0{name}'))
", path.display()));
        assert_eq!(out, "tcp PermissionError
udp PermissionError
tcp6 PermissionError
netlink PermissionError
packets PermissionError
vsock PermissionError
named FileNotFoundError
abstract ConnectionRefusedError
");
    }

    fn a_socket_in_given_data_can_be_talked_to() {
        // A limit of the kernel, so that nobody is surprised: what is mounted can be talked to,
        // read-only or not. Whoever mounts a directory with a socket in it gives away the socket.
        let directory = tempfile::tempdir().unwrap();
        let _listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let mut plan = python_plan("
import socket
try: socket.socket(socket.AF_UNIX).connect('/data/socket'); print('reached')
except OSError as e: print(type(e).__name__)");
        plan.read_at(directory.path(), "/data");
        let out = run(plan).out;
        assert_eq!(out, "reached\n");
    }

    fn the_only_interface_is_down() {
        let out = python_prints("print(open('/proc/net/dev').read().count(':'))");
        assert_eq!(out, "1\n");
    }

    fn talking_to_oneself_works() {
        let out = python_prints("
import asyncio, socket, threading
a, b = socket.socketpair(); a.send(b'pair'); print(b.recv(9).decode())
s = socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); s.listen()
threading.Thread(target=lambda: s.accept()[0].send(b'named')).start()
c = socket.socket(socket.AF_UNIX); c.connect('/tmp/s'); print(c.recv(9).decode())
async def main():
    p = await asyncio.create_subprocess_exec('echo', 'loop', stdout=asyncio.subprocess.PIPE)
    print((await p.communicate())[0].decode().strip())
asyncio.run(main())");
        assert_eq!(out, "pair\nnamed\nloop\n");
    }
}
