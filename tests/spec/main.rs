//! The specifications, scenario by scenario: one test each, named after it, in the documents' order.

mod core_models;
mod python_runtime;
