//! The words and rules of Belljar: what a caller may ask for ([`ExecutionPolicy`]), what a backend
//! promises to hold ([`ResolvedPolicy`]), what comes back ([`SandboxResult`]) and what can go wrong
//! ([`SandboxError`]).
//!
//! This crate does no IO, starts no threads, reads no environment and knows no engine, so that
//! clients and tools can depend on the types without paying for one.

#![forbid(unsafe_code)]

pub mod backend;
pub mod error;
pub mod image;
pub mod json;
pub mod language;
pub mod limits;
pub mod policy;
pub mod protocol;
pub mod resolve;
pub mod result;
pub mod text;
pub mod tools;
pub mod units;
pub mod variables;

pub use backend::{Abilities, Backend, Rule};
pub use error::{SandboxError, SandboxExecutionError, Survives};
pub use image::{GuestImage, ImageChoice};
pub use language::RuntimeType;
pub use policy::{
    DANGEROUS_IMPORTS, ExecutionPolicy, Field, FieldIssue, Network, Origin, PolicyLayer,
    PolicyValidationError, PolicyValues, Preset,
};
pub use resolve::{ResolvedPolicy, resolve};
pub use result::{
    CellValue, GuestError, Meta, Outcome, ResourceLimits, SandboxResult, StateAfter, Status, Stop,
};
pub use text::{CappedBytes, CappedText, TRUNCATION_MARKER};
pub use tools::{ToolAnswer, ToolCall, ToolDoc, ToolFailure, ToolLimits, ToolOutcome, ToolUsage};
pub use variables::{BadVariable, StoreCode};
