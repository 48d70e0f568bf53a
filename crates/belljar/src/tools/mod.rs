//! Tools: functions of the host that a guest may call by name.

pub mod llm;
mod serve;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belljar_core::tools::is_tool_name;
use belljar_core::units::format_bytes;
use belljar_core::{SandboxError, ToolCall, ToolDoc, ToolFailure, ToolOutcome, limits};
use serde_json::Value;

pub(crate) use serve::ToolServer;

/// The tool that asks a language model.
pub const LLM_QUERY: &str = "llm_query";

/// The tool that gives a task and a context to a language model with a sandbox of its own.
pub const RLM_QUERY: &str = "rlm_query";

/// Answers `input()`: with a line without its end, or nothing when nobody answers.
pub type InputSource = Arc<dyn Fn(&InputRequest) -> Option<String> + Send + Sync>;

/// An `input()` as whoever answers it sees it.
pub struct InputRequest {
    /// What the guest shows.
    pub prompt: String,
    unwanted: Arc<AtomicBool>,
}

impl InputRequest {
    /// Turns true when nobody waits for the line any more. Whoever waits for a person should look.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.unwanted.load(Ordering::Relaxed)
    }
}

type Handler = Arc<dyn Fn(&ToolRequest) -> ToolOutcome + Send + Sync>;

/// The tools a sandbox offers. Cheap to clone.
#[derive(Clone, Default)]
pub struct Tools {
    entries: BTreeMap<String, Entry>,
    docs: BTreeMap<String, ToolDoc>,
    depth: u64,
}

#[derive(Clone)]
enum Entry {
    Now(Handler),
    Later,
}

/// A call as a tool sees it.
pub struct ToolRequest {
    /// What the guest asks for.
    pub call: ToolCall,
    /// How deep the guest is nested in `rlm_query`.
    pub depth: u64,
    unwanted: Arc<AtomicBool>,
}

impl ToolRequest {
    /// Turns true when nobody waits for the outcome any more. A tool that takes long should look.
    #[must_use]
    pub fn cancelled(&self) -> bool {
        self.unwanted.load(Ordering::Relaxed)
    }

    /// The argument at a position, or of that name.
    #[must_use]
    pub fn argument(&self, position: usize, name: &str) -> Option<&Value> {
        self.call.args.get(position).or_else(|| self.call.kwargs.get(name))
    }

    fn text(&self, position: usize, name: &str) -> Result<&str, ToolFailure> {
        self.argument(position, name).and_then(Value::as_str).ok_or_else(|| {
            ToolFailure::new(format!("{}() needs {name}, and it must be text", self.call.name))
        })
    }
}

impl Tools {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Offers a function. It is called on a thread of its own, several calls at once when the guest
    /// awaits several; its panics are failures of the call.
    ///
    /// # Errors
    /// When the name is no identifier in both languages, or is taken.
    pub fn with(
        self,
        name: &str,
        handler: impl Fn(&ToolRequest) -> ToolOutcome + Send + Sync + 'static,
    ) -> Result<Self, SandboxError> {
        self.insert(name, Entry::Now(Arc::new(handler)))
    }

    /// Offers a tool whose answers come later: an execution that awaits one is suspended, and goes
    /// on when its session is resumed with the answer.
    ///
    /// # Errors
    /// As for [`Tools::with`].
    pub fn deferred(self, name: &str) -> Result<Self, SandboxError> {
        self.insert(name, Entry::Later)
    }

    /// Says what a tool is that is offered already, for the code that may call it: `__doc__` and
    /// `inspect.signature` in Python, `doc` and `signature` of the function in JavaScript.
    ///
    /// # Errors
    /// When there is no such tool, or the text is too long or holds control characters.
    pub fn documented(mut self, name: &str, doc: ToolDoc) -> Result<Self, SandboxError> {
        let checked = doc.check();
        self.docs.insert(name.to_owned(), doc);
        let bytes: usize = self.docs.iter().map(|(name, doc)| name.len() + doc.bytes()).sum();
        let problem = if !self.entries.contains_key(name) {
            "it is documented, and no tool has that name".to_owned()
        } else if let Err(problem) = checked {
            problem
        } else if self.docs.len() > limits::MAX_DOCUMENTED_TOOLS {
            format!("{} documented tools are the most", limits::MAX_DOCUMENTED_TOOLS)
        } else if bytes > limits::MAX_TOOL_DOCS_BYTES {
            let most = format_bytes(limits::MAX_TOOL_DOCS_BYTES as u64);
            format!("the documentation of all tools together is longer than {most}")
        } else {
            return Ok(self);
        };
        Err(SandboxError::Tool { name: name.to_owned(), problem })
    }

    /// Offers `llm_query(prompt)`, and with it `llm_query_batched(prompts)`.
    #[must_use]
    pub fn llm(
        mut self,
        ask: impl Fn(&str) -> Result<String, ToolFailure> + Send + Sync + 'static,
    ) -> Self {
        let handler = move |request: &ToolRequest| {
            request.text(0, "prompt").and_then(&ask).map(Value::String)
        };
        self.entries.insert(LLM_QUERY.to_owned(), Entry::Now(Arc::new(handler)));
        self
    }

    /// Offers `rlm_query(task, ctx)`, and with it `rlm_query_batched(tasks)`. The context is the
    /// guest's own unless it gives another.
    #[must_use]
    pub fn rlm(
        mut self,
        ask: impl Fn(&str, &Value, &ToolRequest) -> ToolOutcome + Send + Sync + 'static,
    ) -> Self {
        let handler = move |request: &ToolRequest| {
            let task = request.text(0, "task")?;
            ask(task, request.argument(1, "ctx").unwrap_or(&Value::Null), request)
        };
        self.entries.insert(RLM_QUERY.to_owned(), Entry::Now(Arc::new(handler)));
        self
    }

    /// The same for a sandbox nested this deep in `rlm_query`.
    #[must_use]
    pub fn at_depth(mut self, depth: u64) -> Self {
        self.depth = depth;
        self
    }

    /// How deep the sandbox is nested in `rlm_query`.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// Their names, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }

    /// What is said about them, by name.
    #[must_use]
    pub fn docs(&self) -> &BTreeMap<String, ToolDoc> {
        &self.docs
    }

    /// The names of those that answer later, sorted, or of those that answer at once.
    pub(crate) fn names_of(&self, later: bool) -> Vec<String> {
        let such = |entry: &Entry| matches!(entry, Entry::Later) == later;
        self.entries.iter().filter(|(_, entry)| such(entry)).map(|(name, _)| name.clone()).collect()
    }

    fn insert(mut self, name: &str, entry: Entry) -> Result<Self, SandboxError> {
        let refused = |problem: &str| SandboxError::Tool {
            name: name.to_owned(),
            problem: problem.to_owned(),
        };
        if !is_tool_name(name) {
            return Err(refused("it is no name in both languages"));
        }
        if self.entries.contains_key(name) {
            return Err(refused("there is one of that name already"));
        }
        self.entries.insert(name.to_owned(), entry);
        Ok(self)
    }
}

impl fmt::Debug for Tools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_and_doubled_names_are_refused() {
        let tools = Tools::new().deferred("approve").unwrap();
        insta::assert_snapshot!(
            tools.clone().deferred("approve").unwrap_err(),
            @r#"the tool "approve" cannot be offered: there is one of that name already; nothing was run"#
        );
        insta::assert_snapshot!(
            tools.with("two words", |_| Ok(Value::Null)).unwrap_err(),
            @r#"the tool "two words" cannot be offered: it is no name in both languages; nothing was run"#
        );
    }

    #[test]
    fn what_cannot_be_said_about_a_tool_is_refused() {
        let tools = Tools::new().deferred("ask").unwrap();
        let refusal =
            |name: &str, doc: ToolDoc| tools.clone().documented(name, doc).unwrap_err().to_string();
        let about = ToolDoc::new("Asks.", "(question: str) -> bool");
        insta::assert_snapshot!(
            refusal("other", about.clone()),
            @r#"the tool "other" cannot be offered: it is documented, and no tool has that name; nothing was run"#
        );
        insta::assert_snapshot!(
            refusal("ask", ToolDoc::new("a\0b", "()")),
            @r#"the tool "ask" cannot be offered: its documentation holds the control character U+0000; nothing was run"#
        );
        let tools = tools.documented("ask", about.clone()).unwrap();
        assert_eq!(tools.docs()["ask"], about);
    }

    #[test]
    fn documentation_is_bounded_in_number_and_altogether() {
        let fill = |count: usize, doc: &str| {
            (0..count).try_fold(Tools::new(), |tools, number| {
                let name = format!("tool_{number}");
                let about = ToolDoc { doc: Some(doc.to_owned()), signature: None };
                tools.deferred(&name)?.documented(&name, about)
            })
        };
        let long = "x".repeat(limits::MAX_TOOL_DOC_BYTES);
        fill(limits::MAX_DOCUMENTED_TOOLS, "short").unwrap();
        fill(60, &long).unwrap();
        insta::assert_snapshot!(
            fill(limits::MAX_DOCUMENTED_TOOLS + 1, "short").unwrap_err(),
            @r#"the tool "tool_1024" cannot be offered: 1024 documented tools are the most; nothing was run"#
        );
        insta::assert_snapshot!(
            fill(64, &long).unwrap_err(),
            @r#"the tool "tool_63" cannot be offered: the documentation of all tools together is longer than 1 MiB; nothing was run"#
        );
    }
}
