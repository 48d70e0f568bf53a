//! The system call filter: `seccomp.policy`, compiled.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use seccompiler::{BpfProgram, TargetArch};
use serde_json::{Value, json};

use crate::error::JailError;

const POLICY: &str = include_str!("seccomp.policy");
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

/// One call that is allowed, as the policy says it.
#[derive(Debug, PartialEq, Eq)]
struct Rule<'a> {
    name: &'a str,
    processor: Option<&'a str>,
    condition: Option<Condition>,
}

#[derive(Debug, PartialEq, Eq)]
struct Condition {
    argument: u8,
    test: Test,
}

#[derive(Debug, PartialEq, Eq)]
enum Test {
    OneOf(Vec<u32>),
    Masked { mask: u32, value: u32 },
}

/// Filters as the kernel takes them, in the order in which they are installed.
#[derive(Debug, Clone)]
pub(crate) struct Filters {
    /// For a program.
    pub(crate) program: Vec<Vec<u8>>,
    /// For a program that has terminals.
    pub(crate) terminals: Vec<Vec<u8>>,
    /// For a program of ours that seals itself.
    pub(crate) sealing: Vec<Vec<u8>>,
    /// For a zygote: the same, and what it needs to confine its children.
    pub(crate) zygote: Vec<Vec<u8>>,
    /// For a zygote's child, on top of the zygote's: takes that away again, and is small, since
    /// installing the long one takes most of a millisecond.
    pub(crate) child: Vec<Vec<u8>>,
}

/// What a zygote may do beyond the policy, in its own user namespace.
const ZYGOTE_CALLS: [&str; 13] = [
    "unshare",
    "setns",
    "open_tree",
    "move_mount",
    "mount_setattr",
    "fsopen",
    "fsconfig",
    "fsmount",
    "capset",
    "seccomp",
    "landlock_create_ruleset",
    "landlock_add_rule",
    "landlock_restrict_self",
];
/// What a program that seals itself may do beyond the policy. It has no other programs to start, so
/// that a file of memory cannot become one.
const SEALING_CALLS: &str = "
memfd_create              : the states of sessions are kept in one
ioctl arg1 == 0xc0606610  : PAGEMAP_SCAN, which of its own pages were written
fallocate arg1 == 3       : holes in that file, when a state is forgotten
seccomp arg0 == 1         : the seal; which takes this away
";

/// What a program that has terminals of its own may do beyond the policy. Nothing that puts words
/// into another's mouth (TIOCSTI), and nothing about terminals of the host, of which there are none.
const TERMINAL_CALLS: &str = "
ioctl arg1 in 0x5402,0x5403,0x5404 : TCSETS and the like, how a terminal behaves
ioctl arg1 in 0x402c542b,0x402c542c,0x402c542d : the same in newer C libraries
ioctl arg1 in 0x5409,0x540a,0x540b : TCSBRK, TCXONC, TCFLSH, what waits in it
ioctl arg1 in 0x540e,0x5422 : TIOCSCTTY, TIOCNOTTY, whose terminal it is
ioctl arg1 in 0x540f,0x5410,0x5429 : TIOCGPGRP, TIOCSPGRP, TIOCGSID, who is in the foreground
ioctl arg1 in 0x5411,0x5414 : TIOCOUTQ, TIOCSWINSZ, how much waits, and its size
ioctl arg1 in 0x80045430,0x40045431,0x80045439,0x5441 : numbers and locks of new terminals
";

/// What the seal takes away: other programs, other processes, and further filters.
const SEALED: &str = "
execve                    : other programs
execveat                  : the same by descriptor
fork @x86_64              : other processes
vfork @x86_64             : the same
clone arg0 & 0x10000 == 0 : the same; threads have this bit
seccomp                   : once is enough
";

/// Allowed to a zygote with whatever arguments.
const PRCTL: &str = "prctl";

/// The filters of this processor.
pub(crate) fn filters() -> Result<&'static Filters, JailError> {
    static COMPILED: OnceLock<Result<Filters, String>> = OnceLock::new();
    match COMPILED.get_or_init(|| compile(std::env::consts::ARCH)) {
        Ok(filters) => Ok(filters),
        Err(reason) => Err(JailError::Unavailable { reason: reason.clone() }),
    }
}

fn compile(processor: &str) -> Result<Filters, String> {
    let target = TargetArch::try_from(processor)
        .map_err(|e| format!("no system call filter for {processor}: {e}"))?;
    let rules = parse(POLICY)?;
    let policy = allowed(&rules, processor);
    let mut zygote: Vec<Value> =
        policy.iter().filter(|rule| rule["syscall"] != PRCTL).cloned().collect();
    zygote.extend(ZYGOTE_CALLS.iter().chain([&PRCTL]).map(|name| json!({ "syscall": name })));
    let mut denied: Vec<Value> =
        ZYGOTE_CALLS.iter().map(|name| json!({ "syscall": name })).collect();
    denied.push(unlisted(PRCTL, &rules));
    let sealing: Vec<Value> = [policy.clone(), allowed(&parse(SEALING_CALLS)?, processor)].concat();
    let terminals: Vec<Value> =
        [policy.clone(), allowed(&parse(TERMINAL_CALLS)?, processor)].concat();
    let filter = |rules: &[Value], matching: Value, otherwise: Value| json!({ "match_action": matching, "mismatch_action": otherwise, "filter": rules });
    let (allow, refuse) = (json!("allow"), json!({ "errno": EPERM }));
    let unknown = ["clone3", "openat2"].map(|name| json!({ "syscall": name }));
    let filters = json!({
        "program": filter(&policy, allow.clone(), refuse.clone()),
        "terminals": filter(&terminals, allow.clone(), refuse.clone()),
        "sealing": filter(&sealing, allow.clone(), refuse.clone()),
        "zygote": filter(&zygote, allow.clone(), refuse.clone()),
        "child": filter(&denied, refuse, allow.clone()),
        "unknown": filter(&unknown, json!({ "errno": ENOSYS }), allow),
    });
    let mut compiled = seccompiler::compile_from_json(filters.to_string().as_bytes(), target)
        .map_err(|e| format!("the system call filter does not compile: {e}"))?;
    let mut take = |name: &str| {
        compiled.remove(name).map(|p| bytes(&p)).ok_or_else(|| format!("no filter {name}"))
    };
    let unknown = take("unknown")?;
    // The one that forbids to install another comes last.
    Ok(Filters {
        program: vec![unknown.clone(), take("program")?],
        terminals: vec![unknown.clone(), take("terminals")?],
        sealing: vec![unknown.clone(), take("sealing")?],
        zygote: vec![unknown, take("zygote")?],
        child: vec![take("child")?],
    })
}

/// What a program installs in itself to seal itself.
pub(crate) fn seal() -> Result<BpfProgram, String> {
    let processor = std::env::consts::ARCH;
    let target = TargetArch::try_from(processor)
        .map_err(|e| format!("no system call filter for {processor}: {e}"))?;
    let taken = allowed(&parse(SEALED)?, processor);
    let filters = json!({ "seal": {
        "match_action": { "errno": EPERM }, "mismatch_action": "allow", "filter": taken,
    } });
    let mut compiled = seccompiler::compile_from_json(filters.to_string().as_bytes(), target)
        .map_err(|e| format!("the seal does not compile: {e}"))?;
    compiled.remove("seal").ok_or_else(|| "no filter seal".to_owned())
}

/// Matches a call whose first argument is none of those that the policy lists.
fn unlisted(name: &str, rules: &[Rule<'_>]) -> Value {
    let listed = rules.iter().filter(|rule| rule.name == name).flat_map(|rule| {
        match rule.condition.as_ref().map(|condition| &condition.test) {
            Some(Test::OneOf(values)) => values.clone(),
            Some(Test::Masked { .. }) | None => Vec::new(),
        }
    });
    let other = |value| json!({ "index": 0, "type": "dword", "op": "ne", "val": value });
    json!({ "syscall": name, "args": listed.map(other).collect::<Vec<_>>() })
}

fn bytes(program: &BpfProgram) -> Vec<u8> {
    let one = |i: &seccompiler::sock_filter| {
        let [a, b] = i.code.to_ne_bytes();
        let [c, d, e, f] = i.k.to_ne_bytes();
        [a, b, i.jt, i.jf, c, d, e, f]
    };
    program.iter().flat_map(one).collect()
}

fn allowed(rules: &[Rule<'_>], processor: &str) -> Vec<Value> {
    let here = rules.iter().filter(|rule| rule.processor.is_none_or(|p| p == processor));
    here.flat_map(|rule| match &rule.condition {
        None => vec![json!({ "syscall": rule.name })],
        Some(Condition { argument, test }) => {
            let one = |op: Value, value: u32| {
                let test = json!({ "index": argument, "type": "dword", "op": op, "val": value });
                json!({ "syscall": rule.name, "args": [test] })
            };
            match test {
                Test::OneOf(values) => values.iter().map(|v| one(json!("eq"), *v)).collect(),
                Test::Masked { mask, value } => vec![one(json!({ "masked_eq": mask }), *value)],
            }
        }
    })
    .collect()
}

fn parse(policy: &str) -> Result<Vec<Rule<'_>>, String> {
    let mut rules = Vec::new();
    let mut unconditional = BTreeMap::new();
    for (line, text) in (1..).zip(policy.lines()) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') || text.starts_with('[') {
            continue;
        }
        let rule =
            parse_rule(text).ok_or_else(|| format!("seccomp.policy, line {line}: {text}"))?;
        let first = unconditional.insert(rule.name, rule.condition.is_none());
        if first.is_some_and(|earlier| earlier || rule.condition.is_none()) {
            return Err(format!("seccomp.policy, line {line}: {} is there twice", rule.name));
        }
        rules.push(rule);
    }
    Ok(rules)
}

fn parse_rule(text: &str) -> Option<Rule<'_>> {
    let (what, reason) = text.split_once(" : ")?;
    if reason.trim().is_empty() {
        return None;
    }
    let words: Vec<&str> = what.split_whitespace().collect();
    let (name, mut rest) = words.split_first()?;
    let mut processor = None;
    if let Some((first, others)) = rest.split_first()
        && let Some(named) = first.strip_prefix('@')
    {
        (processor, rest) = (Some(named), others);
    }
    let condition = if rest.is_empty() { None } else { Some(parse_condition(rest)?) };
    Some(Rule { name, processor, condition })
}

fn parse_condition(words: &[&str]) -> Option<Condition> {
    let (argument, test) = words.split_first()?;
    let argument = argument.strip_prefix("arg")?.parse().ok().filter(|n| *n < 6)?;
    let test = match test {
        ["==", value] => Test::OneOf(vec![number(value)?]),
        ["in", values] => Test::OneOf(values.split(',').map(number).collect::<Option<_>>()?),
        ["&", mask, "==", value] => Test::Masked { mask: number(mask)?, value: number(value)? },
        _ => return None,
    };
    Some(Condition { argument, test })
}

fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_compiles_for_both_processors() {
        for processor in ["x86_64", "aarch64"] {
            compile(processor).unwrap();
        }
    }

    #[test]
    fn what_a_zygote_may_do_beyond_is_not_in_the_policy() {
        let rules = parse(POLICY).unwrap();
        assert!(!rules.iter().any(|rule| ZYGOTE_CALLS.contains(&rule.name)));
        // All of them look at the first argument, or `unlisted` would forget something.
        let prctl: Vec<_> = rules.iter().filter(|rule| rule.name == PRCTL).collect();
        assert!(prctl.iter().all(|rule| matches!(
            rule.condition,
            Some(Condition { argument: 0, test: Test::OneOf(_) })
        )));
    }

    #[test]
    fn what_must_never_be_allowed_is_not() {
        let rules = parse(POLICY).unwrap();
        for name in [
            "ptrace",
            "process_vm_readv",
            "process_vm_writev",
            "bpf",
            "mount",
            "umount2",
            "pivot_root",
            "chroot",
            "open_tree",
            "move_mount",
            "fsopen",
            "fsmount",
            "mount_setattr",
            "keyctl",
            "add_key",
            "request_key",
            "userfaultfd",
            "unshare",
            "setns",
            "perf_event_open",
            "kexec_load",
            "kexec_file_load",
            "init_module",
            "finit_module",
            "delete_module",
            "personality",
            "io_uring_setup",
            "io_uring_enter",
            "io_uring_register",
            "seccomp",
            "capset",
            "pidfd_getfd",
            "process_madvise",
            "open_by_handle_at",
            "name_to_handle_at",
            "swapon",
            "reboot",
            "sethostname",
            "settimeofday",
            "clock_settime",
            "syslog",
            "quotactl",
            "acct",
            "iopl",
            "ioperm",
            "modify_ldt",
            "mq_open",
            "kcmp",
            "fanotify_init",
            "vmsplice",
        ] {
            assert!(!rules.iter().any(|rule| rule.name == name), "{name} is allowed");
        }
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert_eq!(parse("read :  ").unwrap_err(), "seccomp.policy, line 1: read :");
    }

    #[test]
    fn a_call_allowed_twice_is_refused() {
        let twice = "read : once\nread arg0 == 1 : twice";
        assert_eq!(parse(twice).unwrap_err(), "seccomp.policy, line 2: read is there twice");
    }

    #[test]
    fn conditions_are_read() {
        assert_eq!(
            parse("clone @x86_64 arg0 & 0x10 == 0 : threads").unwrap(),
            [Rule {
                name: "clone",
                processor: Some("x86_64"),
                condition: Some(Condition {
                    argument: 0,
                    test: Test::Masked { mask: 0x10, value: 0 }
                }),
            }]
        );
    }
}
