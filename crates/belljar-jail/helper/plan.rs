//! The plan as it arrives: lengths and bytes in a fixed order, written by the library's `wire.rs`.

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use super::sys::{EINVAL, Failure, Outcome};

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"BJP2");

pub(super) struct Plan {
    pub(super) zygote: bool,
    pub(super) program: Vec<u8>,
    pub(super) arguments: Vec<Vec<u8>>,
    /// `NAME=value` each.
    pub(super) environment: Vec<Vec<u8>>,
    pub(super) directory: Vec<u8>,
    pub(super) host_name: Vec<u8>,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) tmp_bytes: u64,
    pub(super) shm_bytes: u64,
    pub(super) workspace_target: Vec<u8>,
    pub(super) terminals: bool,
    pub(super) mounts: Vec<Mount>,
    /// Where the link is, and what it says.
    pub(super) links: Vec<(Vec<u8>, Vec<u8>)>,
    /// Small files that Belljar writes itself: path and content.
    pub(super) files: Vec<(Vec<u8>, Vec<u8>)>,
    /// The kernel's number of the resource, and the most of it.
    pub(super) limits: Vec<(i32, u64)>,
    /// For a zygote itself.
    pub(super) zygote_filters: Vec<Vec<u8>>,
    pub(super) filters: Vec<Vec<u8>>,
}

pub(super) struct Mount {
    pub(super) source: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) writable: bool,
}

impl Plan {
    pub(super) fn read(file: &OwnedFd) -> Outcome<Self> {
        let read = || {
            let file = std::fs::File::from(file.try_clone()?);
            let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)];
            file.read_exact_at(&mut bytes, 0)?;
            Ok(bytes)
        };
        Self::decode(&read().map_err(|e: std::io::Error| Failure::io("read the plan", &e))?)
    }

    pub(super) fn decode(bytes: &[u8]) -> Outcome<Self> {
        let mut rest = Reader(bytes);
        if rest.number()? != MAGIC {
            return Err(Failure::new("the plan is of another version", EINVAL));
        }
        let plan = Self {
            zygote: rest.number()? != 0,
            program: rest.bytes()?,
            arguments: rest.list(Reader::bytes)?,
            environment: rest.list(Reader::bytes)?,
            directory: rest.bytes()?,
            host_name: rest.bytes()?,
            uid: rest.number()?,
            gid: rest.number()?,
            tmp_bytes: rest.wide()?,
            shm_bytes: rest.wide()?,
            workspace_target: rest.bytes()?,
            terminals: rest.number()? != 0,
            mounts: rest.list(|r| {
                let (source, target) = (r.bytes()?, r.bytes()?);
                Ok(Mount { source, target, writable: r.number()? != 0 })
            })?,
            links: rest.list(|r| Ok((r.bytes()?, r.bytes()?)))?,
            files: rest.list(|r| Ok((r.bytes()?, r.bytes()?)))?,
            limits: rest.list(|r| Ok((r.number()?.cast_signed(), r.wide()?)))?,
            zygote_filters: rest.list(Reader::bytes)?,
            filters: rest.list(Reader::bytes)?,
        };
        if rest.0.is_empty() { Ok(plan) } else { Err(malformed()) }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Outcome<u32> {
        let (head, tail) = self.0.split_first_chunk::<4>().ok_or_else(malformed)?;
        self.0 = tail;
        Ok(u32::from_le_bytes(*head))
    }

    fn wide(&mut self) -> Outcome<u64> {
        let (low, high) = (self.number()?, self.number()?);
        Ok(u64::from(high) << 32 | u64::from(low))
    }

    fn bytes(&mut self) -> Outcome<Vec<u8>> {
        let length = self.number()? as usize;
        let (head, tail) = self.0.split_at_checked(length).ok_or_else(malformed)?;
        self.0 = tail;
        Ok(head.to_vec())
    }

    fn list<T>(&mut self, one: impl Fn(&mut Self) -> Outcome<T>) -> Outcome<Vec<T>> {
        let count = self.number()?;
        (0..count).map(|_| one(self)).collect()
    }
}

fn malformed() -> Failure {
    Failure::new("the plan is malformed", EINVAL)
}
