//! Values of unknown type, whatever they were written in, and how each field reads them.

use std::path::PathBuf;

use super::fields::Network;
use crate::image::ImageChoice;
use crate::text::shortened;
use crate::units;

/// A value before its field has looked at it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    Null,
    Bool(bool),
    Int(i128),
    /// An integer too long for any machine, as written.
    HugeInt(String),
    Float(f64),
    Str(String),
    /// From a source that has no types, such as an environment variable.
    Text(String),
    List(Vec<Raw>),
    Table,
    DateTime,
}

impl Raw {
    /// The value's type, as a message names it.
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::HugeInt(_) => "a whole number",
            Self::Float(_) => "a number with a fraction",
            Self::Str(_) | Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Table => "a table",
            Self::DateTime => "a date",
        }
    }
}

/// A type a field can have. The error is the message of the issue.
pub(super) trait FromRaw: Sized {
    fn from_raw(raw: &Raw) -> Result<Self, String>;
}

/// A count, which environment variables may write with units.
pub(super) fn count(raw: &Raw) -> Result<u64, String> {
    unsigned(raw, units::parse_count)
}

/// A size, which environment variables may write with units.
pub(super) fn bytes(raw: &Raw) -> Result<u64, String> {
    unsigned(raw, units::parse_bytes)
}

fn unsigned(raw: &Raw, parse: fn(&str) -> Result<u64, String>) -> Result<u64, String> {
    match raw {
        Raw::Int(number) if *number <= 0 => Err(format!("must be greater than 0, but is {number}")),
        Raw::Int(number) => {
            u64::try_from(*number).map_err(|_| format!("{number} is far too large"))
        }
        Raw::HugeInt(digits) if digits.starts_with('-') => {
            Err(format!("must be greater than 0, but is {}", shortened(digits)))
        }
        Raw::HugeInt(digits) => Err(format!("{} is far too large", shortened(digits))),
        Raw::Text(text) => match text.trim().parse::<i128>() {
            Ok(number) => unsigned(&Raw::Int(number), parse),
            Err(_) => parse(text),
        },
        Raw::Float(number) => {
            Err(format!("must be a whole number, but is {number:?}; write it without a fraction"))
        }
        Raw::Str(text) => Err(format!(
            "must be a whole number, but is the string {}; write it without quotes",
            quoted(text)
        )),
        Raw::Null | Raw::Bool(_) | Raw::List(_) | Raw::Table | Raw::DateTime => {
            Err(format!("must be a whole number, but is {}", raw.kind()))
        }
    }
}

/// A duration in seconds.
pub(super) fn seconds(raw: &Raw) -> Result<f64, String> {
    match raw {
        Raw::Float(number) => Ok(*number),
        #[expect(clippy::cast_precision_loss, reason = "the limit is far below 2^53")]
        Raw::Int(number) => Ok(*number as f64),
        Raw::HugeInt(digits) => Err(format!("{} is far too large", shortened(digits))),
        Raw::Text(text) => units::parse_seconds(text),
        Raw::Str(text) => Err(format!(
            "must be a number of seconds, but is the string {}; write it without quotes",
            quoted(text)
        )),
        Raw::Null | Raw::Bool(_) | Raw::List(_) | Raw::Table | Raw::DateTime => {
            Err(format!("must be a number of seconds, but is {}", raw.kind()))
        }
    }
}

impl FromRaw for bool {
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Bool(value) => Ok(*value),
            Raw::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(true),
                "false" | "0" | "no" | "off" => Ok(false),
                _ => Err(format!("must be true or false, but is {}", quoted(text))),
            },
            Raw::Str(text) => Err(format!(
                "must be true or false without quotes, but is the string {}",
                quoted(text)
            )),
            Raw::Null
            | Raw::Int(_)
            | Raw::HugeInt(_)
            | Raw::Float(_)
            | Raw::List(_)
            | Raw::Table
            | Raw::DateTime => Err(format!("must be true or false, but is {}", raw.kind())),
        }
    }
}

impl FromRaw for String {
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Str(text) | Raw::Text(text) => Ok(text.clone()),
            Raw::Int(number) => {
                Err(format!("must be a string, but is a whole number; write \"{number}\""))
            }
            Raw::Bool(value) => {
                Err(format!("must be a string, but is a boolean; write \"{value}\""))
            }
            Raw::Null
            | Raw::HugeInt(_)
            | Raw::Float(_)
            | Raw::List(_)
            | Raw::Table
            | Raw::DateTime => Err(format!("must be a string, but is {}", raw.kind())),
        }
    }
}

impl FromRaw for PathBuf {
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        String::from_raw(raw).map(Self::from)
    }
}

/// JSON has `null` for "none"; TOML simply leaves the key away.
impl FromRaw for Option<PathBuf> {
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Null => Ok(None),
            Raw::Bool(_)
            | Raw::Int(_)
            | Raw::HugeInt(_)
            | Raw::Float(_)
            | Raw::Str(_)
            | Raw::Text(_)
            | Raw::List(_)
            | Raw::Table
            | Raw::DateTime => PathBuf::from_raw(raw).map(Some),
        }
    }
}

impl FromRaw for Vec<String> {
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::List(items) => items
                .iter()
                .enumerate()
                .map(|(index, item)| {
                    String::from_raw(item)
                        .map_err(|message| format!("item {}: {message}", index + 1))
                })
                .collect(),
            Raw::Text(text) if text.trim_start().starts_with('[') => serde_json::from_str(text)
                .map_err(|error| format!("is not a JSON list of strings ({error})")),
            Raw::Text(text) => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()),
            Raw::Str(text) => {
                Err(format!("must be a list of strings, but is a string; write [{}]", quoted(text)))
            }
            Raw::Null
            | Raw::Bool(_)
            | Raw::Int(_)
            | Raw::HugeInt(_)
            | Raw::Float(_)
            | Raw::Table
            | Raw::DateTime => Err(format!("must be a list of strings, but is {}", raw.kind())),
        }
    }
}

impl FromRaw for Network {
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Str(text) | Raw::Text(text) if text == Self::Denied.as_str() => Ok(Self::Denied),
            Raw::Str(text) | Raw::Text(text) => Err(format!(
                "must be \"denied\", but is {}; no backend offers a network",
                quoted(text)
            )),
            Raw::Null
            | Raw::Bool(_)
            | Raw::Int(_)
            | Raw::HugeInt(_)
            | Raw::Float(_)
            | Raw::List(_)
            | Raw::Table
            | Raw::DateTime => Err(format!("must be \"denied\", but is {}", raw.kind())),
        }
    }
}

impl FromRaw for ImageChoice {
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        const WANTED: &str = "must be \"auto\", \"plain\" or \"data\", but is";
        match raw {
            Raw::Str(text) | Raw::Text(text) => {
                text.parse().map_err(|_| format!("{WANTED} {}", quoted(text)))
            }
            Raw::Null
            | Raw::Bool(_)
            | Raw::Int(_)
            | Raw::HugeInt(_)
            | Raw::Float(_)
            | Raw::List(_)
            | Raw::Table
            | Raw::DateTime => Err(format!("{WANTED} {}", raw.kind())),
        }
    }
}

/// A string as a message shows it: quoted, escaped, and not longer than a line.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}
