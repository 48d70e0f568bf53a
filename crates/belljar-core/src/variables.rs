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
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a variable says to a value, whatever its type is.
    fn complaint(name: &str, value: &str) -> Option<String> {
        fn of<T>(variable: &Variable<T>, value: &str) -> Option<String> {
            variable.read(value).err().map(|bad| bad.to_string())
        }
        match name {
            "SANDBOX_TYPE" => of(&TYPE, value),
            "SANDBOX_TIMEOUT_SEC" => of(&TIMEOUT_SEC, value),
            "SANDBOX_MAX_OUTPUT_KB" => of(&MAX_OUTPUT_KB, value),
            "SANDBOX_BLOCK_DANGEROUS_IMPORTS" => of(&BLOCK_DANGEROUS_IMPORTS, value),
            "SANDBOX_STORE_CODE" => of(&STORE_CODE, value),
            "SANDBOX_SUPPORTED_LANGUAGES" => of(&SUPPORTED_LANGUAGES, value),
            "SANDBOX_PRESET" => of(&PRESET, value),
            "SANDBOX_ARTIFACTS_DIR" => of(&ARTIFACTS_DIR, value),
            "SANDBOX_ARTIFACTS_MAX_AGE_DAYS" => of(&ARTIFACTS_MAX_AGE_DAYS, value),
            "SANDBOX_ARTIFACTS_MAX_MB" => of(&ARTIFACTS_MAX_MB, value),
            "SANDBOX_FALLBACK" => of(&FALLBACK, value),
            "DOCKER_IMAGE" => of(&DOCKER_IMAGE, value),
            "DOCKER_NETWORK_ENABLED" => of(&DOCKER_NETWORK_ENABLED, value),
            "DOCKER_CPU_LIMIT" => of(&DOCKER_CPU_LIMIT, value),
            "DOCKER_MEMORY_LIMIT" => of(&DOCKER_MEMORY_LIMIT, value),
            _ => panic!("{name} is not tried"),
        }
    }

    #[test]
    fn every_default_is_accepted() {
        for Declared { name, default, .. } in ALL {
            assert_eq!(complaint(name, default), None, "{name}");
        }
    }

    #[test]
    fn every_variable_says_what_it_accepts() {
        let shown: Vec<String> =
            ALL.iter().filter_map(|declared| complaint(declared.name, " ")).collect();
        assert_eq!(shown.len(), ALL.len());
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn nonsense_is_refused_everywhere() {
        for Declared { name, .. } in ALL {
            for value in ["", " ", "\t\n", "..", "a b/..", "\u{1f4a5} \0"] {
                assert!(complaint(name, value).is_some(), "{name}={value:?}");
            }
        }
    }

    #[test]
    fn numbers_that_are_none_or_absurd_are_refused() {
        for Declared { name, .. } in ALL {
            let number = ["_SEC", "_KB", "_MB", "_DAYS", "_LIMIT"];
            if !number.iter().any(|end| name.ends_with(end)) {
                continue;
            }
            for value in [
                "ten",
                "-1",
                "-0.5",
                "0",
                "0.0",
                "-0",
                "NaN",
                "inf",
                "-inf",
                "1e30",
                "1e400",
                "99999999999999999999999999",
                "18446744073709551616",
                "0x10",
                "1,5",
                "5 5",
                "+",
            ] {
                assert!(complaint(name, value).is_some(), "{name}={value}");
            }
        }
    }

    #[test]
    fn values_are_read() {
        assert_eq!(TYPE.read("docker"), Ok(Backend::Docker));
        assert_eq!(TYPE.read(" local "), Ok(Backend::Native));
        assert_eq!(TIMEOUT_SEC.read("2.5"), Ok(2.5));
        assert_eq!(MAX_OUTPUT_KB.read("64"), Ok(64));
        assert_eq!(DOCKER_MEMORY_LIMIT.read("256m"), Ok(256 << 20));
        assert_eq!(DOCKER_CPU_LIMIT.read("2"), Ok(2.0));
        assert_eq!(FALLBACK.read("local"), Ok(true));
        assert_eq!(
            DOCKER_IMAGE.read("ghcr.io/a/b:1@sha256:00"),
            Ok("ghcr.io/a/b:1@sha256:00".into())
        );
        assert_eq!(SUPPORTED_LANGUAGES.read("python, javascript").map(|all| all.len()), Ok(2));
        for (text, value) in
            [("TRUE", true), ("1", true), ("on", true), ("No", false), ("0", false)]
        {
            assert_eq!(DOCKER_NETWORK_ENABLED.read(text), Ok(value));
        }
    }

    #[test]
    fn some_more_ways_to_be_wrong() {
        let shown: Vec<String> = [
            ("SANDBOX_TYPE", "vm"),
            ("SANDBOX_TIMEOUT_SEC", "soon"),
            ("SANDBOX_MAX_OUTPUT_KB", "1.5"),
            ("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "maybe"),
            ("SANDBOX_STORE_CODE", "sometimes"),
            ("SANDBOX_SUPPORTED_LANGUAGES", "python,,cobol"),
            ("SANDBOX_ARTIFACTS_DIR", "/"),
            ("DOCKER_IMAGE", "--privileged"),
            ("DOCKER_CPU_LIMIT", "NaN"),
            ("DOCKER_MEMORY_LIMIT", "1k"),
            ("DOCKER_NETWORK_ENABLED", "\u{1b}[31m"),
        ]
        .into_iter()
        .filter_map(|(name, value)| complaint(name, value))
        .collect();
        assert_eq!(shown.len(), 11);
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let mut table = String::from("| variable | default | accepts | |\n|---|---|---|---|\n");
        for Declared { name, default, accepts, about } in ALL {
            table.push_str(&format!("| `{name}` | `{default}` | {accepts} | {about} |\n"));
        }
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agent-tool.md");
        let page = std::fs::read_to_string(page).unwrap();
        let written = page
            .split("<!-- variables:start -->\n")
            .nth(1)
            .and_then(|rest| rest.split("<!-- variables:end -->").next());
        assert_eq!(written, Some(table.as_str()), "docs/agent-tool.md should have:\n{table}");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            for Declared { name, .. } in ALL {
                let _ = complaint(name, &text);
            }
        }
    }
}
