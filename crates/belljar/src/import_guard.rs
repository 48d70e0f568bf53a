//! The import guard: code that imports what its policy blocks is not run. Every backend asks here
//! before it starts anything.

use std::time::Instant;

use belljar_core::text::CappedText;
use belljar_core::{Meta, SandboxResult, StateAfter, Stop, ToolUsage};
use belljar_guard::{Finding, Findings, How, alternative, find_imports};

use crate::execution_id;
use crate::logging::{SandboxLogger, SecurityEvent};
use crate::plan::LaunchPlan;
use crate::verdict::{Verdict, with_notice};

/// The name of the error, where an exception would have its class.
const ERROR_NAME: &str = "BlockedImportError";

/// Lines that a message names; more would say no more.
const SHOWN_LINES: usize = 5;

/// Who asks, and about what.
pub(crate) struct Asked<'a> {
    pub code: &'a str,
    pub plan: &'a LaunchPlan,
    /// Whether the code would run in a session, and that session's name if it has one.
    pub session: Option<Option<&'a str>>,
    /// How deep this sandbox is nested in others.
    pub depth: u64,
}

/// The result of code that must not run, or `None` if it may. Nothing is started or touched; a
/// session is as it was.
pub(crate) fn blocked(asked: &Asked<'_>, logger: &SandboxLogger) -> Option<SandboxResult> {
    let started = Instant::now();
    let policy = &asked.plan.policy;
    let found = find_imports(asked.code, policy.block_imports());
    if found.is_empty() {
        return None;
    }
    let event = Some(SecurityEvent::BlockedImport);
    let verdict = Verdict::limit(Stop::Blocked, ERROR_NAME, message(&found), event, None);
    verdict.log(logger);
    let stderr = with_notice(CappedText::default(), verdict.notice, policy.stderr_max_bytes());
    let meta = Meta {
        runtime: policy.backend().runtime_name().to_owned(),
        language: asked.plan.language,
        session_id: asked.session.flatten().map(str::to_owned),
        execution_id: execution_id::next(),
        truncated: stderr.truncated,
        state: asked.session.map(|_| StateAfter::Kept),
        tools: ToolUsage { depth: asked.depth, ..ToolUsage::default() },
        blocked_imports: found.modules(),
        resource_limits: policy.resource_limits(),
        // No interpreter was started, so none has a version and nothing had to hold.
        language_version: None,
        isolation: Vec::new(),
        ..Meta::default()
    };
    let mut result = SandboxResult::new(verdict.outcome, meta);
    result.stderr = stderr.text;
    result.duration_ms = started.elapsed().as_secs_f64() * 1000.0;
    result.workspace_path = asked.plan.workspace.display().to_string();
    Some(result)
}

/// What was found, where, and what to do instead.
fn message(found: &Findings) -> String {
    let modules = found.modules();
    if let (true, Some(why)) = (modules.is_empty(), found.unexamined) {
        return format!(
            "the code was not run, because it cannot be examined for blocked imports: {why}"
        );
    }
    let named: Vec<String> = modules.iter().map(|module| described(module, found)).collect();
    let mut sentences =
        vec![format!("the code was not run, because it imports {}", named.join(" and "))];
    let mut rules: Vec<&str> = found.imports.iter().map(|finding| finding.rule.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    for rule in rules {
        sentences.push(match alternative(rule) {
            Some(advice) => format!("instead of {rule}, use {advice}"),
            None => format!("do without {rule}, or ask whoever runs this to allow it"),
        });
    }
    sentences.join("; ")
}

/// One module, and where it is imported.
fn described(module: &str, found: &Findings) -> String {
    let all: Vec<&Finding> =
        found.imports.iter().filter(|finding| finding.module == module).collect();
    let mut lines: Vec<String> =
        all.iter().take(SHOWN_LINES).map(|finding| finding.line.to_string()).collect();
    if all.len() > SHOWN_LINES {
        lines.push("…".to_owned());
    }
    let word = if lines.len() == 1 { "line" } else { "lines" };
    let mut place = format!("{word} {}", lines.join(", "));
    if let Some(hidden) = all.iter().find(|finding| finding.how != How::Statement) {
        place = format!("{place}: {}", hidden.how);
    }
    let blocked_as = match all.first() {
        Some(first) if first.rule != module => format!(", blocked with {}", first.rule),
        _ => String::new(),
    };
    format!("`{module}` ({place}{blocked_as})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str, blocked: &[&str]) -> String {
        let blocked: Vec<String> = blocked.iter().map(|name| (*name).to_owned()).collect();
        message(&find_imports(code, &blocked))
    }

    #[test]
    fn a_message_names_module_and_line_and_what_to_use_instead() {
        let list = ["os", "subprocess", "left_pad"];
        insta::assert_snapshot!(
            said("import subprocess\nsubprocess.run(['rm', '-rf', '/'])", &list),
            @"the code was not run, because it imports `subprocess` (line 1); instead of subprocess, use Python itself for what the program would do, or a tool that the host offers"
        );
        insta::assert_snapshot!(
            said("x = 1\n__import__('o' + 's')\nimport left_pad", &list),
            @"the code was not run, because it imports `left_pad` (line 3) and `os` (line 2: a call that imports); do without left_pad, or ask whoever runs this to allow it; instead of os, use pathlib for paths and files, platform for facts about the system"
        );
        insta::assert_snapshot!(
            said(&"import posix\n".repeat(9), &list),
            @"the code was not run, because it imports `posix` (lines 1, 2, 3, 4, 5, …, blocked with os); instead of os, use pathlib for paths and files, platform for facts about the system"
        );
        insta::assert_snapshot!(
            said(&"(".repeat(100_000), &list),
            @"the code was not run, because it cannot be examined for blocked imports: it is nested too deeply"
        );
    }
}
