//! The environment variables of the agent's tool, each declared once: how it is read, what the
//! messages say about it and what its documentation is all come from here.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;

use crate::backend::Backend;
use crate::language::RuntimeType;
use crate::limits;
use crate::policy::Preset;
use crate::text::shortened;
use crate::units;

/// A variable whose values are of type `T`.
#[derive(Debug, Clone, Copy)]
pub struct Variable<T> {
    /// What people are told about it.
    pub declared: Declared,
    read: fn(&str) -> Option<T>,
}

/// What people are told about a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Declared {
    /// Its name.
    pub name: &'static str,
    /// What holds when it is not set, as it would be written.
    pub default: &'static str,
    /// What it accepts.
    pub accepts: &'static str,
    /// What it is for.
    pub about: &'static str,
}

impl<T> Variable<T> {
    /// Reads a value. An empty one is refused: whoever sets a variable to nothing has most likely
    /// lost what should have been in it.
    ///
    /// # Errors
    /// When the value is not one of those it accepts.
    pub fn read(&self, value: &str) -> Result<T, BadVariable> {
        (self.read)(value.trim()).ok_or_else(|| BadVariable::new(&self.declared, value))
    }
}

/// A variable with a value it does not accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadVariable {
    /// Its name.
    pub name: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl BadVariable {
    fn new(declared: &Declared, value: &str) -> Self {
        let found = if value.trim().is_empty() {
            "is empty".to_owned()
        } else {
            format!("is {:?}", shortened(value))
        };
        Self {
            name: declared.name.to_owned(),
            problem: format!("{found}; it accepts {}", declared.accepts),
        }
    }
}

impl fmt::Display for BadVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.problem)
    }
}

/// Which executions leave an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum StoreCode {
    /// Every one.
    Always,
    /// Those that did not succeed.
    #[default]
    OnError,
    /// None.
    Never,
}

impl StoreCode {
    /// Whether an execution is kept.
    #[must_use]
    pub const fn keeps(self, success: bool) -> bool {
        match self {
            Self::Always => true,
            Self::OnError => !success,
            Self::Never => false,
        }
    }
}

/// Every variable, in the order people are told about them.
pub const ALL: [Declared; 15] = [
    TYPE.declared,
    TIMEOUT_SEC.declared,
    MAX_OUTPUT_KB.declared,
    BLOCK_DANGEROUS_IMPORTS.declared,
    STORE_CODE.declared,
    SUPPORTED_LANGUAGES.declared,
    PRESET.declared,
    ARTIFACTS_DIR.declared,
    ARTIFACTS_MAX_AGE_DAYS.declared,
    ARTIFACTS_MAX_MB.declared,
    FALLBACK.declared,
    DOCKER_IMAGE.declared,
    DOCKER_NETWORK_ENABLED.declared,
    DOCKER_CPU_LIMIT.declared,
    DOCKER_MEMORY_LIMIT.declared,
];

/// The backend.
pub const TYPE: Variable<Backend> = Variable {
    declared: Declared {
        name: "SANDBOX_TYPE",
        default: "local",
        accepts: "local (or native), docker, wasm, pyodide, e2b, daemon or auto",
        about: "What runs the code",
    },
    read: parsed,
};

/// The time-out of one call.
pub const TIMEOUT_SEC: Variable<f64> = Variable {
    declared: Declared {
        name: "SANDBOX_TIMEOUT_SEC",
        default: "30",
        accepts: "seconds from 0.001 to 86400",
        about: "Wall-clock time of one call that does not say how long it may take",
    },
    read: |text| {
        let seconds = units::parse_seconds(text).ok()?;
        (limits::MIN_TIMEOUT_SECONDS..=limits::MAX_TIMEOUT_SECONDS)
            .contains(&seconds)
            .then_some(seconds)
    },
};

/// How much output is kept.
pub const MAX_OUTPUT_KB: Variable<u64> = Variable {
    declared: Declared {
        name: "SANDBOX_MAX_OUTPUT_KB",
        default: "10",
        accepts: "a whole number of KiB from 1 to 1048576",
        about: "How much of standard output, and of standard error, is kept while the code runs",
    },
    read: |text| whole(text, limits::MAX_OUTPUT_BYTES / 1024),
};

/// The import guard.
pub const BLOCK_DANGEROUS_IMPORTS: Variable<bool> = Variable {
    declared: Declared {
        name: "SANDBOX_BLOCK_DANGEROUS_IMPORTS",
        default: "false",
        accepts: FLAG,
        about: "Refuse code that imports os, subprocess, shutil or socket, before it runs",
    },
    read: flag,
};

/// Which executions are kept.
pub const STORE_CODE: Variable<StoreCode> = Variable {
    declared: Declared {
        name: "SANDBOX_STORE_CODE",
        default: "on_error",
        accepts: "always, on_error or never",
        about: "Which executions are kept as artifacts",
    },
    read: |text| match text {
        "always" => Some(StoreCode::Always),
        "on_error" => Some(StoreCode::OnError),
        "never" => Some(StoreCode::Never),
        _ => None,
    },
};

/// The languages that may be asked for.
pub const SUPPORTED_LANGUAGES: Variable<Vec<RuntimeType>> = Variable {
    declared: Declared {
        name: "SANDBOX_SUPPORTED_LANGUAGES",
        default: "python,javascript",
        accepts: "python, javascript or both, separated by a comma",
        about: "The languages that may be run",
    },
    read: |text| text.split(',').map(|name| parsed(name.trim())).collect(),
};

/// The values a policy starts from.
pub const PRESET: Variable<Preset> = Variable {
    declared: Declared {
        name: "SANDBOX_PRESET",
        default: "agent",
        accepts: "strict or agent",
        about: "The policy to start from",
    },
    read: parsed,
};

/// Where artifacts are kept.
pub const ARTIFACTS_DIR: Variable<PathBuf> = Variable {
    declared: Declared {
        name: "SANDBOX_ARTIFACTS_DIR",
        default: "artifacts",
        accepts: "a directory with a name of its own, made if it does not exist",
        about: "Where artifacts are kept, in the directory executions below it",
    },
    read: |text| {
        let plain = !text.is_empty() && !text.contains('\0');
        plain.then(|| PathBuf::from(text)).filter(|path| path.file_name().is_some())
    },
};

/// How long artifacts are kept.
pub const ARTIFACTS_MAX_AGE_DAYS: Variable<u64> = Variable {
    declared: Declared {
        name: "SANDBOX_ARTIFACTS_MAX_AGE_DAYS",
        default: "30",
        accepts: "a whole number of days from 1 to 36500",
        about: "Older artifacts are removed when one is stored",
    },
    read: |text| whole(text, 36_500),
};

/// How much artifacts may take.
pub const ARTIFACTS_MAX_MB: Variable<u64> = Variable {
    declared: Declared {
        name: "SANDBOX_ARTIFACTS_MAX_MB",
        default: "100",
        accepts: "a whole number of MiB from 1 to 1048576",
        about: "The oldest artifacts are removed when all together are larger",
    },
    read: |text| whole(text, 1024 * 1024),
};

/// What is used when Docker is not there: `true` for the local backend.
pub const FALLBACK: Variable<bool> = Variable {
    declared: Declared {
        name: "SANDBOX_FALLBACK",
        default: "none",
        accepts: "local or none",
        about: "What runs the code when docker is asked for and is not there",
    },
    read: |text| match text {
        "local" => Some(true),
        "none" => Some(false),
        _ => None,
    },
};

/// The image of containers.
pub const DOCKER_IMAGE: Variable<String> = Variable {
    declared: Declared {
        name: "DOCKER_IMAGE",
        default: "antigravity-sandbox:latest",
        accepts: "the name of an image, with an optional tag or digest",
        about: "The image that containers are made of",
    },
    read: |text| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        let fits = begins && text.len() <= limits::MAX_IMAGE_NAME_BYTES && text.bytes().all(plain);
        fits.then(|| text.to_owned())
    },
};

/// Whether containers have a network.
pub const DOCKER_NETWORK_ENABLED: Variable<bool> = Variable {
    declared: Declared {
        name: "DOCKER_NETWORK_ENABLED",
        default: "false",
        accepts: FLAG,
        about: "Let code in a container use the network",
    },
    read: flag,
};

/// How many processors a container may use.
pub const DOCKER_CPU_LIMIT: Variable<f64> = Variable {
    declared: Declared {
        name: "DOCKER_CPU_LIMIT",
        default: "0.5",
        accepts: "a number of processors from 0.01 to 1024",
        about: "Processors a container may use",
    },
    read: |text| text.parse().ok().filter(|cpus| (0.01..=1024.0).contains(cpus)),
};

/// How much memory a container may use, in bytes.
pub const DOCKER_MEMORY_LIMIT: Variable<u64> = Variable {
    declared: Declared {
        name: "DOCKER_MEMORY_LIMIT",
        default: "256m",
        accepts: "a size from 6m, such as 256m or 1g",
        about: "Memory a container may use",
    },
    read: |text| {
        let bytes = units::parse_bytes(text).ok()?;
        (limits::MIN_CONTAINER_MEMORY_BYTES..=limits::MAX_CONTAINER_MEMORY_BYTES)
            .contains(&bytes)
            .then_some(bytes)
    },
};

const FLAG: &str = "true or false (or 1, 0, yes, no, on, off)";

/// Whether a variable of this name is one of the tool's.
#[must_use]
pub fn is_declared(name: &str) -> bool {
    ALL.iter().any(|declared| declared.name == name)
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

fn whole(text: &str, max: u64) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && (1..=max).contains(number))
}

/// As policies read them.
fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
#[path = "variables_tests.rs"]
mod tests;
