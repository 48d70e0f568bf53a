//! The languages a sandbox can run.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The language of a guest.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeType {
    /// CPython.
    #[default]
    Python,
    /// JavaScript.
    Javascript,
}

impl RuntimeType {
    /// Every language, in the order they are listed to people.
    pub const ALL: [Self; 2] = [Self::Python, Self::Javascript];

    /// The name used in JSON, on the command line and in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Javascript => "javascript",
        }
    }
}

impl fmt::Display for RuntimeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A language name nobody knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown language `{0}`; the languages are python and javascript")]
pub struct UnknownLanguage(String);

impl FromStr for RuntimeType {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name.to_ascii_lowercase().as_str() {
            "python" | "py" => Ok(Self::Python),
            "javascript" | "js" => Ok(Self::Javascript),
            _ => Err(UnknownLanguage(name.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_through_text_and_json() {
        for language in RuntimeType::ALL {
            assert_eq!(language.as_str().parse::<RuntimeType>(), Ok(language));
            let json = serde_json::to_string(&language).unwrap();
            assert_eq!(json, format!("\"{language}\""));
            assert_eq!(serde_json::from_str::<RuntimeType>(&json).unwrap(), language);
        }
    }

    #[test]
    fn short_names_are_understood_and_others_refused() {
        assert_eq!("js".parse(), Ok(RuntimeType::Javascript));
        assert_eq!(
            "ruby".parse::<RuntimeType>().unwrap_err().to_string(),
            "unknown language `ruby`; the languages are python and javascript"
        );
    }
}
