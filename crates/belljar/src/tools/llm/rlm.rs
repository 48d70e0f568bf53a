//! The recursive language model: a model that looks at its data by writing code, and may hand
//! parts of it to further ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use belljar_core::{RuntimeType, SandboxError, SandboxResult, ToolCall, ToolFailure, ToolOutcome};
use serde_json::Value;

use super::reply::{Final, Reply};
use super::{Cancelled, Message, SharedModel, cancelled_failure};
use crate::factory::{SandboxConfig, create_sandbox};
use crate::sandbox::Sandbox;
use crate::tools::{LLM_QUERY, Tools};
use crate::workspace_files;

/// Turns a model may take for one task, unless configured otherwise.
pub const DEFAULT_MAX_TURNS: usize = 12;

/// The most of a cell's output that the model is shown.
const MAX_SHOWN_CHARS: usize = 8_000;

/// How often the caller is looked at while a cell runs.
const TICK: Duration = Duration::from_millis(20);

/// Answers tasks about data that no prompt could hold: the data is `context` in a sandbox of its
/// own, and the model is shown what its code prints.
pub struct Rlm {
    model: SharedModel,
    config: SandboxConfig,
    max_turns: usize,
}

impl Rlm {
    /// Tasks are answered by this model, in sandboxes with this language, backend and policy. Of
    /// the rest of the configuration only Belljar's directory counts: every task has its own
    /// workspace and tools, and its output goes to the model.
    #[must_use]
    pub fn new(model: SharedModel, config: &SandboxConfig) -> Self {
        let config = SandboxConfig {
            runtime: config.runtime,
            backend: config.backend,
            policy: config.policy.clone(),
            logger: config.logger.clone(),
            wasm_binary_path: config.wasm_binary_path.clone(),
            home: config.home.clone(),
            ..SandboxConfig::default()
        };
        Self { model, config, max_turns: DEFAULT_MAX_TURNS }
    }

    /// The same with another bound on turns; at least one.
    #[must_use]
    pub fn max_turns(mut self, turns: usize) -> Self {
        self.max_turns = turns.max(1);
        self
    }

    /// Adds `llm_query` and `rlm_query`, answered by this.
    ///
    /// # Errors
    /// When the tools have one of these names already.
    pub fn offer(self: &Arc<Self>, tools: Tools) -> Result<Tools, SandboxError> {
        let model = Arc::clone(&self.model);
        let rlm = Arc::clone(self);
        let tools = tools.with(LLM_QUERY, move |request| {
            let prompt = prompt_of(&request.call)?;
            model.ask(prompt, &|| request.cancelled()).map(Value::String)
        })?;
        Ok(tools.rlm(move |task, context, request| {
            rlm.solve(task, context, request.depth + 1, &|| request.cancelled())
        }))
    }

    /// Works on a task until the model says that it is done. `depth` is that of the sandbox made
    /// for it; the outermost of all is at 0.
    ///
    /// # Errors
    /// When the model fails, does not come to an end, or the policy allows no such depth.
    pub fn solve(
        self: &Arc<Self>,
        task: &str,
        context: &Value,
        depth: u64,
        cancelled: Cancelled<'_>,
    ) -> ToolOutcome {
        let deepest = self.config.policy.max_rlm_depth;
        if depth > deepest {
            return Err(ToolFailure::limit(format!(
                "rlm_query may be nested {deepest} deep; raise max_rlm_depth to allow more"
            )));
        }
        let workspace = workspace_files::temporary().map_err(host_failure)?;
        let config = SandboxConfig {
            workspace: Some(workspace.path().to_owned()),
            tools: self.offer(Tools::new()).map_err(host_failure)?.at_depth(depth),
            ..self.config.clone()
        };
        let mut sandbox = create_sandbox(&config).map_err(host_failure)?;
        sandbox.initialize(context.clone()).map_err(host_failure)?;
        let conversation = vec![
            Message::system(instructions(self.config.runtime, depth < deepest)),
            Message::user(question(task, context)),
        ];
        self.converse(sandbox.as_mut(), conversation, cancelled)
    }

    fn converse(
        &self,
        sandbox: &mut dyn Sandbox,
        mut conversation: Vec<Message>,
        cancelled: Cancelled<'_>,
    ) -> ToolOutcome {
        for turn in 1..=self.max_turns {
            let said = self.model.answer(&conversation, cancelled)?;
            let reply = Reply::parse(&said, tags(self.config.runtime));
            conversation.push(Message::assistant(said));
            let mut told = Vec::new();
            let mut failed = false;
            for block in &reply.blocks {
                let result = execute(sandbox, block, cancelled).map_err(host_failure)?;
                if cancelled() {
                    return Err(cancelled_failure());
                }
                failed = !result.success();
                told.push(shown(&result));
                if failed {
                    break;
                }
            }
            match reply.last {
                // Code that fails belies an end that was announced beside it.
                Some(Final::Text(answer)) if !failed => return Ok(Value::String(answer)),
                Some(Final::Variable(name)) if !failed => {
                    match sandbox.get_variable(&name).map_err(host_failure)? {
                        Some(variable) => {
                            return Ok(variable.json.unwrap_or(Value::String(variable.text)));
                        }
                        None => told.push(format!("There is no variable {name:?}.")),
                    }
                }
                Some(_) => {}
                None if reply.blocks.is_empty() => told.push(
                    "Write code in a fenced block, or end with a line `FINAL: …` or \
                     `FINAL_VAR: …`."
                        .to_owned(),
                ),
                None => {}
            }
            match self.max_turns - turn {
                0 => break,
                1 => {
                    told.push("This is your last turn: end now with a line `FINAL: …`.".to_owned());
                }
                _ => {}
            }
            conversation.push(Message::user(told.join("\n\n")));
        }
        Err(ToolFailure::new(format!(
            "the model did not come to an end in {} turns",
            self.max_turns
        )))
    }
}

/// The one prompt of `llm_query`.
fn prompt_of(call: &ToolCall) -> Result<&str, ToolFailure> {
    match (call.args.as_slice(), call.kwargs.get("prompt"), call.kwargs.len()) {
        ([Value::String(prompt)], None, 0) => Ok(prompt),
        ([], Some(Value::String(prompt)), 1) => Ok(prompt),
        _ => Err(ToolFailure::new("llm_query takes one prompt, a string")),
    }
}

/// Runs a cell that the caller of the whole task can stop.
fn execute(
    sandbox: &mut dyn Sandbox,
    code: &str,
    cancelled: Cancelled<'_>,
) -> Result<SandboxResult, SandboxError> {
    let cancel = sandbox.cancel_handle();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                if cancelled() {
                    cancel.cancel();
                }
                thread::park_timeout(TICK);
            }
        });
        let result = sandbox.execute(code);
        over.store(true, Ordering::Release);
        watcher.thread().unpark();
        result
    })
}

/// The guest learns that it failed; where on the host things lie is none of its business.
fn host_failure(error: SandboxError) -> ToolFailure {
    tracing::warn!(%error, "a sandbox for rlm_query could not be used");
    ToolFailure::new("the host could not work on the task")
}

/// The tags of code blocks that are run.
const fn tags(language: RuntimeType) -> &'static [&'static str] {
    match language {
        RuntimeType::Python => &["python", "py", "python3", "repl"],
        RuntimeType::Javascript => &["javascript", "js", "repl"],
    }
}

fn instructions(language: RuntimeType, may_recurse: bool) -> String {
    let (name, tag, wait) = match language {
        RuntimeType::Python => ("Python", "python", ""),
        RuntimeType::Javascript => ("JavaScript", "javascript", "await "),
    };
    let deeper = if may_recurse {
        format!(
            "- {wait}rlm_query(task, ctx): hands a smaller task with its own data to a helper that \
             works as you do; {wait}rlm_query_batched(tasks) hands over several at once\n"
        )
    } else {
        String::new()
    };
    format!(
        "You work on a task about data that is too large to be shown to you. The data is the \
         variable `context` of a {name} session that keeps its variables from one turn to the \
         next.\n\
         Write code in ```{tag} blocks. It is run, and you are shown what it printed and the value \
         of its last expression, shortened to {MAX_SHOWN_CHARS} characters. So look at parts, \
         search, count, and keep what you find in variables.\n\
         The session also has:\n\
         - {wait}llm_query(prompt): asks a language model about a text that fits into a prompt; \
         {wait}llm_query_batched(prompts) asks several at once\n\
         {deeper}\
         - chunk_text(text, size, overlap): cuts a text into pieces\n\
         - search_context(pattern, window): finds a regular expression in `context`, with the text \
         around it\n\
         Look before you answer. When you are sure, end with a line that begins with `FINAL:` and \
         gives the answer, or with a line `FINAL_VAR: name` if the answer is a variable."
    )
}

fn question(task: &str, context: &Value) -> String {
    let what = match context {
        Value::Null => "nothing; the task speaks for itself".to_owned(),
        Value::String(text) => format!("a text of {} characters", text.chars().count()),
        Value::Array(items) => format!("a list of {} items", items.len()),
        Value::Object(fields) => format!("an object with {} keys", fields.len()),
        Value::Bool(_) | Value::Number(_) => "a single value".to_owned(),
    };
    format!("{task}\n\n(`context` is {what}.)")
}

/// What the model is told about a cell.
fn shown(result: &SandboxResult) -> String {
    let mut text = result.stdout.clone();
    let mut add = |part: &str| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(part);
    };
    add(&result.stderr);
    if let Some(value) = &result.result {
        add(&value.text);
    }
    // Standard error usually ends with the traceback.
    if let Some(error) = &result.error
        && !result.stderr.contains(error.traceback.trim_end())
    {
        add(&error.traceback);
    }
    if !result.success() && result.error.is_none() {
        add(&format!("(ended with status {})", result.status()));
    }
    let text = text.trim_end();
    if text.is_empty() { "(no output)".to_owned() } else { shortened(text) }
}

/// The beginning and the end, where the middle does not fit.
fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= MAX_SHOWN_CHARS {
        return text.to_owned();
    }
    let half = MAX_SHOWN_CHARS / 2;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(count - half).collect();
    format!("{head}\n… ({} characters left out) …\n{tail}", count - 2 * half)
}

#[cfg(test)]
mod tests {
    use belljar_core::{Meta, Outcome};

    use super::*;

    #[test]
    fn the_model_is_told_how_to_work() {
        insta::assert_snapshot!(format!(
            "{}\n-----\n{}\n-----\n{}",
            instructions(RuntimeType::Python, true),
            instructions(RuntimeType::Javascript, false),
            question("Count the words.", &Value::String("a b".into())),
        ));
    }

    #[test]
    fn long_output_loses_its_middle() {
        let text = format!("{}{}", "a".repeat(10_000), "z".repeat(10_000));
        let short = shortened(&text);
        assert!(short.starts_with("aaa") && short.ends_with("zzz"));
        assert!(short.contains("… (12000 characters left out) …"), "{short}");
        assert_eq!(shortened("é"), "é");
    }

    #[test]
    fn a_cells_output_value_and_end_are_shown() {
        let mut result = SandboxResult::new(Outcome::Exited(3), Meta::default());
        assert_eq!(shown(&result), "(ended with status error)");
        result.stdout = "out".into();
        result.stderr = "err\n".into();
        assert_eq!(shown(&result), "out\nerr\n(ended with status error)");
        let mut quiet = SandboxResult::new(Outcome::Finished, Meta::default());
        assert_eq!(shown(&quiet), "(no output)");
        quiet.result = Some(belljar_core::CellValue { text: "42".into(), ..Default::default() });
        assert_eq!(shown(&quiet), "42");
    }

    #[test]
    fn a_prompt_is_one_string() {
        use serde_json::json;
        let request = |args: Value, kwargs: Value| -> ToolCall {
            let call = json!({"id": 1, "name": "llm_query", "args": args, "kwargs": kwargs});
            serde_json::from_value(call).unwrap()
        };
        assert_eq!(prompt_of(&request(json!(["p"]), json!({}))), Ok("p"));
        assert_eq!(prompt_of(&request(json!([]), json!({"prompt": "p"}))), Ok("p"));
        for (args, kwargs) in
            [(json!([]), json!({})), (json!([1]), json!({})), (json!(["a"]), json!({"x": 1}))]
        {
            assert!(prompt_of(&request(args, kwargs)).is_err());
        }
    }
}
