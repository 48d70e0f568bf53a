//! The specifications, scenario by scenario: one test each, named after it, in the documents' order.
#![expect(clippy::expect_used, clippy::panic, reason = "helpers of tests fail by panicking")]

mod core_models;
mod javascript_runtime;
mod python_runtime;
mod repl_sandbox;
mod repl_sandbox_native;
mod repl_sandbox_pyodide;
mod sandbox_code_execution;
