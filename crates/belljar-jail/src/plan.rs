//! What a jail shall be, as plain data. Nothing here touches the system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Where the workspace is in every jail.
pub const WORKSPACE: &str = "/app";
/// The name a jailed program sees as its host's.
pub const HOST_NAME: &str = "belljar";

/// A program and everything it will be able to see and use.
///
/// [`JailPlan::new`] allows nothing: no files of the host, no environment, no network, small
/// limits. Everything else is added. The network is always denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JailPlan {
    /// The program, as a path in the jail.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// The directory it starts in, as a path in the jail.
    pub directory: PathBuf,
    /// The host's directory that is writable in the jail. Without one its place is empty and
    /// read-only.
    pub workspace: Option<PathBuf>,
    /// Where the workspace is in the jail: [`WORKSPACE`], unless somebody chose another place.
    #[serde(skip_serializing_if = "is_usual_place")]
    pub workspace_inside: PathBuf,
    /// Files and directories of the host that can be read.
    pub mounts: Vec<Mount>,
    /// Symbolic links in the jail.
    pub links: Vec<Link>,
    /// Small files that exist in the jail only.
    pub files: Vec<TextFile>,
    /// How much it may use.
    pub limits: Limits,
    /// The user it is in the jail. Outside it stays the user who started it.
    pub uid: u32,
    /// The group it is in the jail.
    pub gid: u32,
    /// A program that only forks: each fork is confined by itself, see the crate's documentation.
    pub zygote: bool,
    /// A program of ours that calls [`inside::seal`](crate::inside::seal) before it touches anything
    /// foreign. Until then it may install one more filter; it may make unnamed files of memory and
    /// look up which of its own pages were written, which an interpreter in wasm needs.
    pub seals: bool,
    /// Whether it can make terminals of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub terminals: bool,
}

fn is_usual_place(path: &Path) -> bool {
    path == Path::new(WORKSPACE)
}

/// Something of the host in the jail, read-only unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// The path on the host.
    pub host: PathBuf,
    /// The path in the jail.
    pub inside: PathBuf,
    /// Passed over when the host does not have it.
    pub optional: bool,
    /// Whether it can be written, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub writable: bool,
}

/// A symbolic link in the jail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Where it is.
    pub inside: PathBuf,
    /// Where it leads.
    pub to: PathBuf,
}

/// A file that exists in the jail only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextFile {
    /// Where it is.
    pub inside: PathBuf,
    /// What is in it.
    pub text: String,
}

/// How much a jailed program may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Memory, of all processes together where a control group can be had, else of each.
    pub memory_bytes: u64,
    /// How one process's memory is counted.
    pub memory_rule: MemoryRule,
    /// Writable addresses that the program's compiler reserves beside what it uses. Counted by the
    /// system as a process's own memory, and so allowed on top of `memory_bytes`; what is used of
    /// them is memory for the control group.
    pub code_bytes: u64,
    /// Processes and threads together.
    pub max_processes: u32,
    /// Open descriptors of one process.
    pub max_open_files: u64,
    /// The longest file.
    pub max_file_bytes: u64,
    /// What fits in `/tmp`, and again in `/dev/shm`. It is memory.
    pub tmp_bytes: u64,
}

/// How the memory of one process is limited. Its writable private memory always is, so that the
/// program can react (Python raises MemoryError); memory that is shared between processes is counted
/// by the control group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryRule {
    /// Where there is no control group, its whole address space is limited as well. The C library
    /// reserves 64 MiB of addresses for each thread that allocates, unless `MALLOC_ARENA_MAX=1`.
    AddressSpace,
    /// Never its address space: for V8, which reserves far more addresses than it uses. Where there
    /// is no control group, shared memory is then unlimited.
    Data,
    /// By the control group alone, so that memory that was mapped and never touched costs nothing.
    /// Where there is no control group, as [`MemoryRule::Data`].
    Group,
}

impl Default for Limits {
    /// 256 MiB of memory, 64 processes, 256 open files, files of 256 MiB, 64 MiB in `/tmp`.
    fn default() -> Self {
        const MIB: u64 = 1024 * 1024;
        Self {
            memory_bytes: 256 * MIB,
            memory_rule: MemoryRule::AddressSpace,
            code_bytes: 0,
            max_processes: 64,
            max_open_files: 256,
            max_file_bytes: 256 * MIB,
            tmp_bytes: 64 * MIB,
        }
    }
}

impl JailPlan {
    /// A plan that allows `program` (a path in the jail) nothing yet, not even its own file.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        /// Nobody in particular; unlike 0 it tells no program that it could do more.
        const ORDINARY_USER: u32 = 1000;
        Self {
            program: program.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            directory: WORKSPACE.into(),
            workspace: None,
            workspace_inside: WORKSPACE.into(),
            mounts: Vec::new(),
            links: Vec::new(),
            files: Vec::new(),
            limits: Limits::default(),
            uid: ORDINARY_USER,
            gid: ORDINARY_USER,
            zygote: false,
            seals: false,
            terminals: false,
        }
    }

    /// Lets `path` of the host be read at the same path.
    pub fn read(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.read_at(path.as_ref(), path.as_ref())
    }

    /// Lets `host` be read at `inside`.
    pub fn read_at(&mut self, host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> &mut Self {
        let (host, inside) = (host.into(), inside.into());
        self.mounts.push(Mount { host, inside, optional: false, writable: false });
        self
    }

    /// Lets `host` be read and written at `inside`.
    pub fn write_at(&mut self, host: impl Into<PathBuf>, inside: impl Into<PathBuf>) -> &mut Self {
        let (host, inside) = (host.into(), inside.into());
        self.mounts.push(Mount { host, inside, optional: false, writable: true });
        self
    }

    /// Lets `path` be read if the host has it.
    pub fn read_if_there(&mut self, path: impl Into<PathBuf>) -> &mut Self {
        let path = path.into();
        let host = path.clone();
        self.mounts.push(Mount { host, inside: path, optional: true, writable: false });
        self
    }

    /// Adds what nearly every program needs: the system's programs and libraries, where the loader
    /// finds them, the time zone, and names for the one user.
    ///
    /// Looks at the host: `/bin` and the like are links on most systems and directories on some.
    pub fn with_system(&mut self) -> &mut Self {
        self.read_if_there("/usr");
        for top in ["/bin", "/sbin", "/lib", "/lib32", "/lib64"] {
            match std::fs::read_link(top) {
                Ok(to) => self.links.push(Link { inside: top.into(), to }),
                Err(_) => drop(self.read_if_there(top)),
            }
        }
        for file in ["/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives"] {
            self.read_if_there(file);
        }
        let (uid, gid) = (self.uid, self.gid);
        let home = self.workspace_inside.display();
        let file = |inside: &str, text: String| TextFile { inside: inside.into(), text };
        let files = [
            file("/etc/passwd", format!("user:x:{uid}:{gid}::{home}:/bin/sh\n")),
            file("/etc/group", format!("user:x:{gid}:\n")),
            file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n".into()),
            file("/etc/hosts", format!("127.0.0.1 localhost {HOST_NAME}\n")),
        ];
        self.files.extend(files);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_shown_as_it_is() {
        let mut plan = JailPlan::new("/usr/bin/python3");
        plan.args = vec!["-I".into()];
        plan.read("/usr").read_if_there("/lib64");
        plan.workspace = Some("/home/me/work".into());
        let expected = serde_json::json!({
            "program": "/usr/bin/python3",
            "args": ["-I"],
            "env": {},
            "directory": "/app",
            "workspace": "/home/me/work",
            "mounts": [
                { "host": "/usr", "inside": "/usr", "optional": false },
                { "host": "/lib64", "inside": "/lib64", "optional": true },
            ],
            "links": [],
            "files": [],
            "limits": {
                "memory_bytes": 268_435_456,
                "memory_rule": "address_space",
                "code_bytes": 0,
                "max_processes": 64,
                "max_open_files": 256,
                "max_file_bytes": 268_435_456,
                "tmp_bytes": 67_108_864,
            },
            "uid": 1000,
            "gid": 1000,
            "zygote": false,
            "seals": false,
        });
        assert_eq!(serde_json::to_value(plan).unwrap(), expected);
    }
}
