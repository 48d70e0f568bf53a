//! The helper as a module of the library's tests: what the library writes, the helper must read.

#![expect(dead_code, reason = "most of it only makes sense in a process of its own")]

mod confine;
mod enter;
mod init;
mod landlock;
mod monitor;
mod mounts;
mod namespaces;
mod outer;
mod plan;
mod report;
mod root;
mod signals;
mod socket;
mod sys;

use crate::plan::{JailPlan, Link, TextFile};
use crate::wire;

fn example() -> JailPlan {
    let mut plan = JailPlan::new("/bin/program");
    plan.args = vec!["one".into(), String::new(), "ünïcode".into()];
    plan.env.insert("NAME".into(), "a=b".into());
    plan.read_at("/usr", "/data").read_if_there("/no/such/file");
    plan.links = vec![Link { inside: "/bin".into(), to: "usr/bin".into() }];
    plan.files = vec![TextFile { inside: "/etc/x".into(), text: "content\n".into() }];
    plan.workspace = Some("/usr".into());
    plan.limits.tmp_bytes = u64::MAX - 1;
    plan
}

#[test]
fn the_helper_reads_what_the_library_writes() {
    let read = plan::Plan::decode(&wire::encode(&example(), true).unwrap()).unwrap();
    assert!(!read.zygote);
    assert_eq!(read.program, b"/bin/program");
    assert_eq!(read.arguments, [b"one".as_slice(), b"", "ünïcode".as_bytes()]);
    assert_eq!(read.environment, [b"NAME=a=b"]);
    assert_eq!((&*read.directory, &*read.host_name), (b"/app".as_slice(), b"belljar".as_slice()));
    assert_eq!((read.uid, read.gid), (1000, 1000));
    assert_eq!((read.tmp_bytes, read.shm_bytes), (u64::MAX - 1, u64::MAX - 1));
    let mounts: Vec<_> = read.mounts.iter().map(|m| (&*m.source, &*m.target, m.writable)).collect();
    let expected: [(&[u8], &[u8], bool); 2] =
        [(b"/usr", b"/app", true), (b"/usr", b"/data", false)];
    assert_eq!(mounts, expected);
    assert_eq!(read.links, [(b"/bin".to_vec(), b"usr/bin".to_vec())]);
    assert_eq!(read.files, [(b"/etc/x".to_vec(), b"content\n".to_vec())]);
    assert_eq!(read.filters.len(), 2);
    assert!(read.filters.iter().all(|filter| filter.len().is_multiple_of(8)));
}

#[test]
fn a_plan_that_is_cut_short_is_refused() {
    let whole = wire::encode(&example(), false).unwrap();
    for length in (0..whole.len()).step_by(7) {
        assert!(plan::Plan::decode(&whole[..length]).is_err(), "{length}");
    }
}

#[test]
fn an_address_space_limit_is_only_for_jails_without_a_group() {
    const ADDRESS_SPACE: i32 = 9;
    for grouped in [true, false] {
        let read = plan::Plan::decode(&wire::encode(&example(), grouped).unwrap()).unwrap();
        let limited = read.limits.iter().any(|(resource, _)| *resource == ADDRESS_SPACE);
        assert_eq!(limited, !grouped);
    }
}

#[test]
fn exit_codes_are_a_shells() {
    assert_eq!(init::exit_code(3 << 8), 3);
    assert_eq!(init::exit_code(9), 137);
    assert_eq!(init::exit_code(6 | 0x80), 134);
}
