//! What an interpreter is told about where it wakes up, whatever it runs in.

use std::collections::BTreeMap;

use belljar_core::{PolicyValues, ResolvedPolicy, RuntimeType};
use belljar_wasm::Surroundings;

use crate::tools::Tools;

/// Told to a new interpreter.
pub(crate) fn surroundings(
    policy: &ResolvedPolicy,
    language: RuntimeType,
    path: Vec<String>,
    tools: &Tools,
) -> Surroundings {
    Surroundings {
        env: environment(policy, language),
        workspace: policy.guest_mount_path().to_owned(),
        path,
        argv: arguments(policy.argv(), language),
        tools: tools.names(),
        tool_docs: tools.docs().clone(),
        renewed: false,
    }
}

/// A policy starts with what Python wants to know, which means nothing to others.
fn environment(policy: &ResolvedPolicy, language: RuntimeType) -> BTreeMap<String, String> {
    let mut env = policy.env().clone();
    if language != RuntimeType::Python {
        let defaults = PolicyValues::default().env;
        env.retain(|name, value| !name.starts_with("PYTHON") || defaults.get(name) != Some(value));
    }
    env
}

/// Python's programs see what follows the interpreter, JavaScript's see the interpreter too.
fn arguments(argv: &[String], language: RuntimeType) -> Vec<String> {
    match language {
        RuntimeType::Python => script_arguments(argv),
        RuntimeType::Javascript if argv == PolicyValues::default().argv => {
            ["javascript", "/app/user_code.js"].map(str::to_owned).to_vec()
        }
        RuntimeType::Javascript => argv.to_vec(),
    }
}

/// What the script itself gets of an interpreter's command line.
fn script_arguments(argv: &[String]) -> Vec<String> {
    let mut own: Vec<String> = argv.iter().skip(1).cloned().collect();
    if own.ends_with(&["-X".to_owned(), "utf8".to_owned()]) {
        own.truncate(own.len() - 2);
    }
    own
}
