//! Messages between the helper and the host, and the descriptors that come with them.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::sys::{self, Outcome};

#[repr(C)]
struct Slice {
    start: *mut c_void,
    length: usize,
}

#[repr(C)]
struct MessageHeader {
    name: *mut c_void,
    name_length: u32,
    slices: *mut Slice,
    slice_count: usize,
    control: *mut c_void,
    control_length: usize,
    flags: c_int,
}

/// The most descriptors one message may bring.
pub(super) const MOST_DESCRIPTORS: usize = 16;
/// `struct cmsghdr` in words of eight bytes, before the descriptors.
const CONTROL_HEADER_BYTES: usize = 16;
const CONTROL_WORDS: usize = 2 + MOST_DESCRIPTORS / 2;
const SOL_SOCKET: u64 = 1;
const SCM_RIGHTS: u64 = 1;

/// Receives one message and the descriptors with it; no bytes mean that the other side has gone.
pub(super) fn receive(socket: RawFd, buffer: &mut [u8]) -> Outcome<(usize, Vec<OwnedFd>)> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    let mut control = [0_u64; CONTROL_WORDS];
    let mut slice = Slice { start: buffer.as_mut_ptr().cast(), length: buffer.len() };
    let mut header = MessageHeader {
        name: std::ptr::null_mut(),
        name_length: 0,
        slices: &raw mut slice,
        slice_count: 1,
        control: control.as_mut_ptr().cast(),
        control_length: size_of_val(&control),
        flags: 0,
    };
    let arguments = [sys::word(socket), &raw mut header as usize, MSG_CMSG_CLOEXEC, 0, 0];
    let length = sys::call("receive from the host", sys::number::RECVMSG, arguments)?;
    let mut descriptors = Vec::new();
    if header.control_length > CONTROL_HEADER_BYTES {
        let bytes = usize::try_from(control[0]).unwrap_or(0).min(size_of_val(&control));
        let count = bytes.saturating_sub(CONTROL_HEADER_BYTES) / size_of::<RawFd>();
        let first = control[2..].as_ptr().cast::<RawFd>();
        for index in 0..count {
            // SAFETY: the kernel wrote `count` new descriptors behind the header, inside of
            // `control`, and nobody else knows them.
            descriptors.push(unsafe { OwnedFd::from_raw_fd(first.add(index).read()) });
        }
    }
    Ok((length, descriptors))
}

/// Sends one message, with a descriptor if there is one.
pub(super) fn send(socket: RawFd, bytes: &[u8], descriptor: Option<&OwnedFd>) -> Outcome<()> {
    const MSG_NOSIGNAL: usize = 0x4000;
    let mut control = [0_u64; 3];
    control[0] = (CONTROL_HEADER_BYTES + size_of::<RawFd>()) as u64;
    control[1] = SOL_SOCKET | SCM_RIGHTS << 32;
    if let Some(fd) = descriptor {
        control[2] = u64::from(fd.as_raw_fd().cast_unsigned());
    }
    let mut slice = Slice { start: bytes.as_ptr().cast_mut().cast(), length: bytes.len() };
    let header = MessageHeader {
        name: std::ptr::null_mut(),
        name_length: 0,
        slices: &raw mut slice,
        slice_count: 1,
        control: control.as_mut_ptr().cast(),
        control_length: if descriptor.is_some() { size_of_val(&control) } else { 0 },
        flags: 0,
    };
    let arguments = [sys::word(socket), &raw const header as usize, MSG_NOSIGNAL, 0, 0];
    sys::call("send to the host", sys::number::SENDMSG, arguments).map(drop)
}
