//! WASI preview 1 error numbers, and how the host's errors map onto them.

use std::io;

/// An error number as WASI defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u16);

impl Errno {
    pub const ACCES: Errno = Errno(2);
    pub const BADF: Errno = Errno(8);
    pub const EXIST: Errno = Errno(20);
    pub const FAULT: Errno = Errno(21);
    pub const FBIG: Errno = Errno(22);
    pub const ILSEQ: Errno = Errno(25);
    pub const INTR: Errno = Errno(27);
    pub const INVAL: Errno = Errno(28);
    pub const IO: Errno = Errno(29);
    pub const ISDIR: Errno = Errno(31);
    pub const LOOP: Errno = Errno(32);
    pub const MFILE: Errno = Errno(33);
    pub const MLINK: Errno = Errno(34);
    pub const NAMETOOLONG: Errno = Errno(37);
    pub const NOENT: Errno = Errno(44);
    pub const NOMEM: Errno = Errno(48);
    pub const NOSPC: Errno = Errno(51);
    pub const STALE: Errno = Errno(72);
    pub const NOSYS: Errno = Errno(52);
    pub const NOTDIR: Errno = Errno(54);
    pub const NOTEMPTY: Errno = Errno(55);
    pub const NOTSUP: Errno = Errno(58);
    pub const OVERFLOW: Errno = Errno(61);
    pub const PERM: Errno = Errno(63);
    pub const ROFS: Errno = Errno(69);
    pub const SPIPE: Errno = Errno(70);
    pub const XDEV: Errno = Errno(75);
}

pub type Result<T> = std::result::Result<T, Errno>;

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Errno {
        use rustix::io::Errno as Host;
        // An error without a number is cap-std's own "the path led outside".
        let Some(host) = Host::from_io_error(&error) else {
            return match error.kind() {
                io::ErrorKind::PermissionDenied => Errno::PERM,
                _ => Errno::IO,
            };
        };
        match host {
            Host::ACCESS => Errno::ACCES,
            Host::BADF => Errno::BADF,
            Host::EXIST => Errno::EXIST,
            Host::FBIG => Errno::FBIG,
            Host::ILSEQ => Errno::ILSEQ,
            Host::INTR => Errno::INTR,
            Host::INVAL => Errno::INVAL,
            Host::ISDIR => Errno::ISDIR,
            Host::LOOP => Errno::LOOP,
            Host::MFILE | Host::NFILE => Errno::MFILE,
            Host::MLINK => Errno::MLINK,
            Host::NAMETOOLONG => Errno::NAMETOOLONG,
            Host::NOENT => Errno::NOENT,
            Host::NOMEM => Errno::NOMEM,
            Host::NOSPC | Host::DQUOT => Errno::NOSPC,
            Host::NOTDIR => Errno::NOTDIR,
            Host::NOTEMPTY => Errno::NOTEMPTY,
            Host::OPNOTSUPP => Errno::NOTSUP,
            Host::OVERFLOW => Errno::OVERFLOW,
            // EXDEV is how openat2 says that a path left the directory it must stay in.
            Host::PERM | Host::XDEV => Errno::PERM,
            Host::ROFS => Errno::ROFS,
            Host::SPIPE => Errno::SPIPE,
            _ => Errno::IO,
        }
    }
}
