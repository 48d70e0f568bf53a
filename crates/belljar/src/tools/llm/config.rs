//! Which model answers: from Belljar's configuration file, a variable or an argument.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use belljar_core::SandboxError;
use serde::Deserialize;

use super::{CommandLlm, DEFAULT_TIMEOUT, SharedModel};
use crate::home::Home;

/// The variable that names a command as the model.
pub const LLM_COMMAND_VARIABLE: &str = "BELLJAR_LLM_COMMAND";

/// A configuration file beyond this is a mistake.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Longest time-out of one answer: a day.
const MAX_TIMEOUT_SECONDS: f64 = 86_400.0;

/// Which model answers `llm_query` and `rlm_query`.
#[derive(Debug, Clone, PartialEq)]
pub enum LlmConfig {
    /// A shell command: the prompt on standard input, the answer on standard output.
    Command {
        /// The command.
        command: String,
        /// How long one answer may take.
        timeout: Duration,
    },
    /// An endpoint that speaks the OpenAI chat completions protocol.
    Http {
        /// The address up to, not including, `/chat/completions`.
        url: String,
        /// The model's name.
        model: String,
        /// The environment variable that holds the key, if one is needed.
        api_key_env: Option<String>,
        /// How long one answer may take.
        timeout: Duration,
    },
}

impl LlmConfig {
    /// A command with the usual time-out.
    #[must_use]
    pub fn command(command: impl Into<String>) -> Self {
        Self::Command { command: command.into(), timeout: DEFAULT_TIMEOUT }
    }

    /// The model to use: an argument's command, else the variable's, else the file's. `None` when
    /// nobody names one.
    ///
    /// # Errors
    /// When the file exists but cannot be read or is wrong, even if it is not needed: a mistake in
    /// it should not wait for the day when it is.
    pub fn find(home: &Home, argument: Option<&str>) -> Result<Option<Self>, SandboxError> {
        let variable = std::env::var(LLM_COMMAND_VARIABLE).ok();
        let file = Self::from_file(&home.config_file())?;
        Ok(Self::choose(file, variable, argument))
    }

    fn choose(
        file: Option<Self>,
        variable: Option<String>,
        argument: Option<&str>,
    ) -> Option<Self> {
        let named = argument.map(str::to_owned).or(variable.filter(|text| !text.is_empty()));
        named.map(Self::command).or(file)
    }

    /// The section `[llm]` of a configuration file, if there are both.
    ///
    /// # Errors
    /// When the file cannot be read or is wrong.
    pub fn from_file(path: &Path) -> Result<Option<Self>, SandboxError> {
        let unreadable =
            |problem: String| unusable(path, problem, "check the file's path and permissions");
        match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error.to_string())),
            Ok(metadata) if metadata.len() > MAX_CONFIG_BYTES => {
                return Err(unreadable("it is larger than 1 MiB".to_owned()));
            }
            Ok(_) => {}
        }
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        Self::from_toml(&text).map_err(|problem| unusable(path, problem, EXAMPLE))
    }

    fn from_toml(text: &str) -> Result<Option<Self>, String> {
        let file: File = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        file.llm.map(Section::into_config).transpose()
    }

    /// The model itself.
    ///
    /// # Errors
    /// When the variable that should hold the key is not set, or this build cannot speak HTTP.
    pub fn model(&self) -> Result<SharedModel, SandboxError> {
        match self {
            Self::Command { command, timeout } => {
                Ok(Arc::new(CommandLlm::new(command).timeout(*timeout)))
            }
            #[cfg(feature = "http-llm")]
            Self::Http { url, model, api_key_env, timeout } => {
                let key = api_key_env.as_deref().map(key_from).transpose()?;
                Ok(Arc::new(super::HttpLlm::new(url, model, key).timeout(*timeout)))
            }
            #[cfg(not(feature = "http-llm"))]
            Self::Http { url, .. } => Err(SandboxError::Input {
                what: "answers from".to_owned(),
                path: url.into(),
                problem: "this build of Belljar cannot speak HTTP".to_owned(),
                hint: Some("name a command as the model".to_owned()),
            }),
        }
    }
}

const EXAMPLE: &str = "write [llm] and below it command = \"…\", or url = \"…\", model = \"…\" and api_key_env = \"…\"";

#[cfg(feature = "http-llm")]
fn key_from(variable: &str) -> Result<String, SandboxError> {
    match std::env::var(variable) {
        Ok(key) if !key.trim().is_empty() => Ok(key.trim().to_owned()),
        Ok(_) | Err(_) => Err(SandboxError::Input {
            what: "the model's key from the variable".to_owned(),
            path: variable.into(),
            problem: "it is not set".to_owned(),
            hint: Some(format!("set {variable}, or take api_key_env out of config.toml")),
        }),
    }
}

fn unusable(path: &Path, problem: String, hint: &str) -> SandboxError {
    SandboxError::Input {
        what: "configuration file".to_owned(),
        path: path.to_owned(),
        problem,
        hint: Some(hint.to_owned()),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    llm: Option<Section>,
    /// Read elsewhere.
    #[serde(rename = "sandbox")]
    _sandbox: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Section {
    command: Option<String>,
    url: Option<String>,
    model: Option<String>,
    api_key_env: Option<String>,
    timeout_seconds: Option<f64>,
}

impl Section {
    fn into_config(self) -> Result<LlmConfig, String> {
        let timeout = self.timeout_seconds.map_or(Ok(DEFAULT_TIMEOUT), seconds)?;
        match (self.command, self.url, self.model) {
            (Some(command), None, None) if self.api_key_env.is_none() => {
                if command.trim().is_empty() {
                    return Err("llm.command is empty".to_owned());
                }
                Ok(LlmConfig::Command { command, timeout })
            }
            (None, Some(url), Some(model)) => {
                if !url.starts_with("https://") && !url.starts_with("http://") {
                    return Err(format!(
                        "llm.url {url:?} begins with neither https:// nor http://"
                    ));
                }
                Ok(LlmConfig::Http { url, model, api_key_env: self.api_key_env, timeout })
            }
            (None, Some(_), None) => Err("llm.url needs llm.model".to_owned()),
            (None, None, Some(_)) => Err("llm.model needs llm.url".to_owned()),
            (None, None, None) => Err("llm names neither a command nor a url".to_owned()),
            (Some(_), _, _) => {
                Err("llm.command stands alone: a command has no url, model or key".to_owned())
            }
        }
    }
}

fn seconds(number: f64) -> Result<Duration, String> {
    if !(number > 0.0 && number <= MAX_TIMEOUT_SECONDS) {
        return Err(format!(
            "llm.timeout_seconds must be more than 0 and at most {MAX_TIMEOUT_SECONDS}, but is {number}"
        ));
    }
    Ok(Duration::from_secs_f64(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_or_an_endpoint_can_be_configured() {
        assert_eq!(
            LlmConfig::from_toml("[llm]\ncommand = \"llm -m small\"\ntimeout_seconds = 5"),
            Ok(Some(LlmConfig::Command {
                command: "llm -m small".into(),
                timeout: Duration::from_secs(5)
            }))
        );
        let text = "[llm]\nurl = \"http://localhost:1\"\nmodel = \"m\"\napi_key_env = \"KEY\"";
        assert_eq!(
            LlmConfig::from_toml(text),
            Ok(Some(LlmConfig::Http {
                url: "http://localhost:1".into(),
                model: "m".into(),
                api_key_env: Some("KEY".into()),
                timeout: DEFAULT_TIMEOUT
            }))
        );
        assert_eq!(LlmConfig::from_toml(""), Ok(None));
    }

    #[test]
    fn wrong_configurations_are_refused() {
        let shown: Vec<String> = [
            "llm = 5",
            "[llm]",
            "[llm]\ncomand = \"x\"",
            "[lm]",
            "[llm]\ncommand = \" \"",
            "[llm]\ncommand = \"x\"\nmodel = \"m\"",
            "[llm]\ncommand = \"x\"\napi_key_env = \"K\"",
            "[llm]\nurl = \"http://x\"",
            "[llm]\nmodel = \"m\"",
            "[llm]\nurl = \"ftp://x\"\nmodel = \"m\"",
            "[llm]\ncommand = \"x\"\ntimeout_seconds = 0",
            "[llm]\ncommand = \"x\"\ntimeout_seconds = nan",
            "[llm",
        ]
        .iter()
        .map(|text| format!("{text:?}\n  {}", LlmConfig::from_toml(text).unwrap_err()))
        .collect();
        insta::assert_snapshot!(shown.join("\n"));
    }

    #[test]
    fn the_argument_wins_over_the_variable_and_both_over_the_file() {
        let file = || Some(LlmConfig::command("file"));
        let choose = |variable: Option<&str>, argument| {
            LlmConfig::choose(file(), variable.map(str::to_owned), argument)
        };
        assert_eq!(choose(Some("v"), Some("a")), Some(LlmConfig::command("a")));
        assert_eq!(choose(Some("v"), None), Some(LlmConfig::command("v")));
        assert_eq!(choose(Some(""), None), file());
        assert_eq!(LlmConfig::choose(None, None, None), None);
    }

    #[test]
    fn a_missing_file_is_none_and_a_wrong_one_stops_everything() {
        let dir = tempfile::tempdir().unwrap();
        let path = Home::at(dir.path()).config_file();
        assert_eq!(LlmConfig::from_file(&path), Ok(None));
        fs::write(&path, "[llm]\nurl = 5").unwrap();
        let error = LlmConfig::find(&Home::at(dir.path()), Some("echo x")).unwrap_err();
        insta::assert_snapshot!(
            error.to_string().replace(&dir.path().display().to_string(), "DIR"),
            @"cannot read configuration file DIR/config.toml: invalid type: integer `5`, expected a string; nothing was run"
        );
    }
}
