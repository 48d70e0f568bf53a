//! Stand-in until the engine's registry is merged.
#![expect(missing_docs, reason = "stand-in")]

pub mod llm;

use std::sync::Arc;

use belljar_core::{SandboxError, ToolCall, ToolFailure, ToolOutcome};
use serde_json::Value;

#[derive(Clone, Default)]
pub struct Tools {
    names: Vec<String>,
    _handlers: Vec<Arc<dyn Fn(&ToolRequest) -> ToolOutcome + Send + Sync>>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tools").field(&self.names).finish()
    }
}

#[derive(Debug, Clone)]
pub struct ToolRequest {
    pub call: ToolCall,
    pub depth: u64,
}

impl ToolRequest {
    pub fn cancelled(&self) -> bool {
        false
    }
}

impl Tools {
    pub fn new() -> Tools {
        Tools::default()
    }
    pub fn with(
        mut self,
        name: &str,
        handler: impl Fn(&ToolRequest) -> ToolOutcome + Send + Sync + 'static,
    ) -> Result<Tools, SandboxError> {
        self.names.push(name.to_owned());
        self._handlers.push(Arc::new(handler));
        Ok(self)
    }
    pub fn deferred(mut self, name: &str) -> Result<Tools, SandboxError> {
        self.names.push(name.to_owned());
        Ok(self)
    }
    pub fn rlm(
        mut self,
        f: impl Fn(&str, &Value, &ToolRequest) -> Result<Value, ToolFailure> + Send + Sync + 'static,
    ) -> Tools {
        self.names.push("rlm_query".to_owned());
        self._handlers.push(Arc::new(move |request| f("", &Value::Null, request)));
        self
    }
    pub fn names(&self) -> Vec<String> {
        self.names.clone()
    }
    pub fn at_depth(self, _depth: u64) -> Tools {
        self
    }
}
