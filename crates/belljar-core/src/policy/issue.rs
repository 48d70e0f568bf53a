//! What is wrong with a policy, and where it was said.

use std::fmt;

use serde::{Serialize, Serializer};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A line of a policy file.
    File {
        /// The file's name as the caller gave it.
        name: String,
        /// The line, counted from one.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A command-line argument.
    Argument(String),
    /// A field of a JSON request.
    Request,
    /// A call from a program.
    Code,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { name, line } => write!(f, "{name}, line {line}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
            Self::Argument(name) => write!(f, "argument {name}"),
            Self::Request => f.write_str("request"),
            Self::Code => f.write_str("set by the program"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One thing that is wrong with a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldIssue {
    /// The field, as written: `fuel_budget`, `env.PATH`. Empty when the text as a whole is wrong.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
    /// Where it was written.
    pub location: Option<Origin>,
}

impl fmt::Display for FieldIssue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.message)?;
        match &self.location {
            Some(location @ (Origin::File { .. } | Origin::Variable(_) | Origin::Argument(_))) => {
                write!(f, " ({location})")
            }
            Some(Origin::Request | Origin::Code) | None => Ok(()),
        }
    }
}

/// A policy that cannot be used. Holds every problem, never just the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PolicyValidationError {
    /// The problems, in the order they were written. Never empty.
    pub issues: Vec<FieldIssue>,
}

impl PolicyValidationError {
    /// A single problem.
    #[must_use]
    pub fn single(
        field: impl Into<String>,
        message: impl Into<String>,
        location: Option<Origin>,
    ) -> Self {
        Self { issues: vec![FieldIssue { field: field.into(), message: message.into(), location }] }
    }

    /// Whether a field is among the problems.
    #[must_use]
    pub fn concerns(&self, field: &str) -> bool {
        self.issues.iter().any(|issue| issue.field == field)
    }

    pub(super) fn unless_empty(mut issues: Vec<FieldIssue>) -> Result<(), Self> {
        if issues.is_empty() {
            return Ok(());
        }
        issues.sort_by(|a, b| a.location.cmp(&b.location));
        issues.dedup();
        Err(Self { issues })
    }
}

impl fmt::Display for PolicyValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the policy is not valid; nothing was run")?;
        for issue in &self.issues {
            write!(f, "\n  {issue}")?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyValidationError {}
