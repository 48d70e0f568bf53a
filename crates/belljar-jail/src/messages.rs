//! The socket between the host and a jail's helper. Its counterpart is `helper/report.rs` and
//! `helper/monitor.rs`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The longest message in either direction.
const MOST_BYTES: usize = 8 * 1024;
/// As many as the helper has room for.
const MOST_DESCRIPTORS: usize = 16;

/// What the helper says.
#[derive(Debug)]
pub(crate) enum Message {
    Ready {
        landlock: u32,
        proc: bool,
    },
    Failed {
        step: String,
        errno: i32,
    },
    Ended {
        status: i32,
    },
    Mounted(OwnedFd),
    /// Everybody on the other side has gone.
    Gone,
}

/// What the host asks for.
pub(crate) enum Request<'a> {
    Interrupt,
    Kill,
    Take { path: &'a [u8], writable: bool },
}

/// Hands the helper its plan and its descriptors.
pub(crate) fn send_start(socket: &OwnedFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::from(Errno::TOOBIG));
    }
    sendmsg(socket, &[IoSlice::new(b"P")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn send(socket: &OwnedFd, request: &Request<'_>) -> io::Result<()> {
    let message = match request {
        Request::Interrupt => b"I".to_vec(),
        Request::Kill => b"K".to_vec(),
        Request::Take { path, writable } => {
            let head: &[u8] = if *writable { b"Tw" } else { b"Tr" };
            [head, path].concat()
        }
    };
    if message.len() > MOST_BYTES {
        return Err(io::Error::from(Errno::NAMETOOLONG));
    }
    rustix::net::send(socket, &message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next message; waits for it.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Message> {
    let mut bytes = [0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        match recvmsg(socket.as_fd(), &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            // The helper was killed with something of ours unread.
            Err(Errno::CONNRESET) => break 0,
            Err(other) => return Err(other.into()),
        }
    };
    let descriptor = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    parse(&bytes[..length], descriptor).ok_or_else(|| io::Error::from(Errno::PROTO))
}

fn parse(bytes: &[u8], descriptor: Option<OwnedFd>) -> Option<Message> {
    match bytes {
        [] => Some(Message::Gone),
        [b'R', proc, landlock @ ..] => Some(Message::Ready {
            landlock: u32::from_le_bytes(landlock.try_into().ok()?),
            proc: *proc != 0,
        }),
        [b'F', rest @ ..] => {
            let (errno, step) = rest.split_first_chunk::<4>()?;
            let step = String::from_utf8_lossy(step).into_owned();
            Some(Message::Failed { step, errno: i32::from_le_bytes(*errno) })
        }
        [b'X', status @ ..] => {
            Some(Message::Ended { status: i32::from_le_bytes(status.try_into().ok()?) })
        }
        [b'M', ..] => descriptor.map(Message::Mounted),
        _ => None,
    }
}
