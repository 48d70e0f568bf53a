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

/// The filters as the kernel takes them, in the order in which they are installed.
pub(crate) fn filters() -> Result<&'static [Vec<u8>], JailError> {
    static COMPILED: OnceLock<Result<Vec<Vec<u8>>, String>> = OnceLock::new();
    match COMPILED.get_or_init(compile) {
        Ok(filters) => Ok(filters),
        Err(reason) => Err(JailError::Unavailable { reason: reason.clone() }),
    }
}

fn compile() -> Result<Vec<Vec<u8>>, String> {
    let processor = std::env::consts::ARCH;
    let target = TargetArch::try_from(processor)
        .map_err(|e| format!("no system call filter for {processor}: {e}"))?;
    let filters = json!({
        "allowed": {
            "match_action": "allow",
            "mismatch_action": { "errno": EPERM },
            "filter": allowed(&parse(POLICY)?, processor),
        },
        "unknown": {
            "match_action": { "errno": ENOSYS },
            "mismatch_action": "allow",
            "filter": [{ "syscall": "clone3" }],
        },
    });
    let text = filters.to_string();
    let mut compiled = seccompiler::compile_from_json(text.as_bytes(), target)
        .map_err(|e| format!("the system call filter does not compile: {e}"))?;
    // The one that allows least comes last: it would forbid to install another.
    ["unknown", "allowed"]
        .iter()
        .map(|name| compiled.remove(*name).map(|p| bytes(&p)).ok_or_else(|| format!("no {name}")))
        .collect()
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
            let rules = parse(POLICY).unwrap();
            let text = json!({ "all": {
                "match_action": "allow",
                "mismatch_action": "trap",
                "filter": allowed(&rules, processor),
            } });
            let target = TargetArch::try_from(processor).unwrap();
            seccompiler::compile_from_json(text.to_string().as_bytes(), target).unwrap();
        }
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
