//! The tool an agent is given: code in, text out. It never fails; what goes wrong is part of the
//! text, with what to do about it.

mod settings;
mod text;

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use belljar_core::text::shortened;
use belljar_core::{
    ExecutionPolicy, Origin, PolicyLayer, RuntimeType, SandboxError, SandboxResult, Survives,
};

pub use settings::AgentSettings;

use crate::CancelHandle;
use crate::factory::{SandboxConfig, create_sandbox};
use crate::workspace;

/// What the tool says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// For the agent.
    pub text: String,
    /// Whether the code ran to its end without an error.
    pub success: bool,
}

impl Answer {
    /// What the tool says when nothing could be run.
    #[must_use]
    pub fn refused(error: &SandboxError) -> Self {
        text::refused(error)
    }
}

/// Told, just before code starts, how to stop it.
#[derive(Clone)]
pub struct OnStart(Arc<dyn Fn(CancelHandle) + Send + Sync>);

impl OnStart {
    /// Has this function told.
    #[must_use]
    pub fn new(told: impl Fn(CancelHandle) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }
}

impl fmt::Debug for OnStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnStart")
    }
}

/// Runs Python in a fresh sandbox, as the environment says, and gives what it printed, or what
/// went wrong and what to do about it. `timeout` is in seconds; `None` means
/// `SANDBOX_TIMEOUT_SEC`.
#[must_use]
pub fn run_python_code(code: &str, timeout: Option<f64>) -> String {
    run_code(code, RuntimeType::Python.as_str(), timeout)
}

/// The same for code in a language of `SANDBOX_SUPPORTED_LANGUAGES`.
#[must_use]
pub fn run_code(code: &str, language: &str, timeout: Option<f64>) -> String {
    run_as_configured(code, language, timeout).text
}

/// The same, and whether it went well.
#[must_use]
pub fn run_as_configured(code: &str, language: &str, timeout: Option<f64>) -> Answer {
    unharmed(|| match AgentTool::from_env() {
        Ok(tool) => tool.answer(code, language, timeout),
        Err(error) => Answer::refused(&error),
    })
}

/// The tool with its settings. Every call is a fresh sandbox in a fresh directory.
#[derive(Debug, Clone)]
pub struct AgentTool {
    settings: AgentSettings,
}

impl AgentTool {
    /// As the process's environment says.
    ///
    /// # Errors
    /// When it says something that is not valid.
    pub fn from_env() -> Result<Self, SandboxError> {
        AgentSettings::from_env().map(Self::new)
    }

    /// With settings of the caller's.
    #[must_use]
    pub const fn new(settings: AgentSettings) -> Self {
        Self { settings }
    }

    /// What it was made with.
    #[must_use]
    pub const fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// As [`run_python_code`].
    #[must_use]
    pub fn run_python_code(&self, code: &str, timeout: Option<f64>) -> String {
        self.answer(code, RuntimeType::Python.as_str(), timeout).text
    }

    /// As [`run_code`].
    #[must_use]
    pub fn run_code(&self, code: &str, language: &str, timeout: Option<f64>) -> String {
        self.answer(code, language, timeout).text
    }

    /// The same, and whether it went well.
    #[must_use]
    pub fn answer(&self, code: &str, language: &str, timeout: Option<f64>) -> Answer {
        unharmed(|| {
            let ran = language_named(language)
                .and_then(|language| self.run_and_keep(code, language, timeout));
            match ran {
                Ok((result, note)) => text::of(&result, note.as_ref()),
                Err(error) => text::refused(&error),
            }
        })
    }

    /// Runs code and gives the whole result. An artifact that could not be kept is logged.
    ///
    /// # Errors
    /// When Belljar or the caller failed; whatever the code does is a result.
    pub fn execute(
        &self,
        code: &str,
        language: RuntimeType,
        timeout: Option<f64>,
    ) -> Result<SandboxResult, SandboxError> {
        self.run_and_keep(code, language, timeout).map(|(result, _)| result)
    }

    /// Runs code and keeps an artifact if it is to be kept. The second value says why it could not
    /// be: the result is not lost for that.
    fn run_and_keep(
        &self,
        code: &str,
        language: RuntimeType,
        timeout: Option<f64>,
    ) -> Result<(SandboxResult, Option<SandboxError>), SandboxError> {
        let policy = self.policy_for(language, timeout)?;
        let result = run_once(&self.settings, &policy, code, language)?;
        let note = self.keep(code, &policy, &result);
        Ok((result, note))
    }

    /// What code in this language may do, for whoever runs it elsewhere than here.
    ///
    /// # Errors
    /// When the language is not offered, or the time cannot be given.
    pub fn policy_for(
        &self,
        language: RuntimeType,
        timeout: Option<f64>,
    ) -> Result<ExecutionPolicy, SandboxError> {
        if !self.settings.languages.contains(&language) {
            return Err(not_offered(language, &self.settings.languages));
        }
        with_timeout(&self.settings, timeout)
    }

    /// What to say about code that ran elsewhere, as [`AgentTool::policy_for`] says. An artifact is
    /// kept if it is to be kept.
    #[must_use]
    pub fn told(&self, code: &str, policy: &ExecutionPolicy, result: &SandboxResult) -> Answer {
        text::of(result, self.keep(code, policy, result).as_ref())
    }

    /// Keeps an artifact if it is to be kept; or says why it could not be.
    fn keep(
        &self,
        code: &str,
        policy: &ExecutionPolicy,
        result: &SandboxResult,
    ) -> Option<SandboxError> {
        let settings = &self.settings;
        if !settings.store_code.keeps(result.success()) {
            return None;
        }
        let kept = without_panic(|| {
            let (redactor, retention) = (&settings.redactor, settings.retention);
            settings.artifacts.store(code, policy, result, redactor, retention)
        });
        let logger = settings.logger.clone().unwrap_or_default();
        logger.log_artifact(&result.meta.execution_id, &kept);
        kept.err()
    }
}

/// Runs code in a fresh sandbox and a fresh directory, both gone afterwards. Keeps nothing.
pub(crate) fn run_once(
    settings: &AgentSettings,
    policy: &ExecutionPolicy,
    code: &str,
    language: RuntimeType,
) -> Result<SandboxResult, SandboxError> {
    if !settings.languages.contains(&language) {
        return Err(not_offered(language, &settings.languages));
    }
    let workspace = workspace::temporary(settings.backend, &settings.docker)?;
    let config = SandboxConfig {
        runtime: language,
        backend: settings.backend,
        policy: policy.clone(),
        workspace: Some(workspace.path().to_owned()),
        logger: settings.logger.clone(),
        python: settings.python.clone(),
        index_url: settings.index_url.clone(),
        docker: settings.docker.clone(),
        home: settings.home.clone(),
        ..SandboxConfig::default()
    };
    let mut sandbox = create_sandbox(&config)?;
    if let Some(OnStart(told)) = &settings.on_start {
        told(sandbox.cancel_handle());
    }
    let result = sandbox.execute(code);
    drop(sandbox);
    // Only now: until here the sandbox used it.
    if let Err(error) = workspace.close() {
        settings.logger.clone().unwrap_or_default().log_workspace_left(&error);
    }
    result
}

fn with_timeout(
    settings: &AgentSettings,
    timeout: Option<f64>,
) -> Result<ExecutionPolicy, SandboxError> {
    match timeout {
        Some(seconds) => {
            let argument = Origin::Argument("timeout".to_owned());
            let layer = PolicyLayer::new().from_source(argument).timeout_seconds(seconds);
            Ok(settings.policy.with(layer)?)
        }
        None => Ok(settings.policy.clone()),
    }
}

fn language_named(name: &str) -> Result<RuntimeType, SandboxError> {
    name.trim().parse().map_err(|_| SandboxError::Source {
        problem: format!("{:?} is no language that is known here", shortened(name)),
        hint: Some("the languages are python and javascript".to_owned()),
    })
}

fn not_offered(language: RuntimeType, offered: &[RuntimeType]) -> SandboxError {
    let names: Vec<&str> = offered.iter().map(|language| language.as_str()).collect();
    SandboxError::Source {
        problem: format!("{language} is not among the languages that are offered"),
        hint: Some(format!(
            "write it in {}, or set SANDBOX_SUPPORTED_LANGUAGES",
            names.join(" or ")
        )),
    }
}

/// Storing looks at whatever the guest has printed, after the code has run. Should that meet a
/// mistake of ours, the artifact is lost and the result is not: the code may have cost minutes, and
/// cannot always be run again.
fn without_panic(
    store: impl FnOnce() -> Result<String, SandboxError>,
) -> Result<String, SandboxError> {
    catch_unwind(AssertUnwindSafe(store)).unwrap_or_else(|panic| {
        Err(SandboxError::Internal {
            problem: message_of(&*panic),
            survives: Survives::SandboxAsAfter,
        })
    })
}

/// A panic is a mistake of Belljar's, and no reason to take the agent down.
fn unharmed(body: impl FnOnce() -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        text::refused(&SandboxError::Internal {
            problem: message_of(&*panic),
            survives: Survives::OtherSandboxes,
        })
    })
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| panic.downcast_ref::<String>().cloned());
    said.unwrap_or_else(|| "a panic without a message".to_owned())
}

#[cfg(test)]
mod tests {
    use belljar_core::{Meta, Outcome};

    use super::*;

    fn tool(variables: &[(&str, &str)]) -> AgentTool {
        AgentTool::new(AgentSettings::from_variables(variables.iter().copied()).unwrap())
    }

    #[test]
    fn a_panic_is_told() {
        let answer = unharmed(|| panic!("the {} is broken", "jar"));
        assert!(!answer.success);
        insta::assert_snapshot!(answer.text, @r"
        Error: internal error: the jar is broken; this sandbox is gone; other sandboxes are unaffected, and the workspace may hold what the code wrote
        Suggestion: this is a bug in Belljar; please report it with the message above
        ");
    }

    /// A result is not lost because keeping it went wrong, however wrong.
    #[test]
    fn a_panic_while_storing_is_a_note() {
        assert_eq!(without_panic(|| Ok("name".to_owned())), Ok("name".to_owned()));
        let kept = without_panic(|| panic!("the {} is broken", "jar"));
        let mut result = SandboxResult::new(Outcome::Finished, Meta::default());
        result.stdout = "42\n".to_owned();
        let answer = text::of(&result, kept.err().as_ref());
        assert!(answer.success);
        insta::assert_snapshot!(answer.text, @r"
        42
        [note]
        this execution was not kept: internal error: the jar is broken; the code ran, and the sandbox is as it was left by it
        ");
    }

    #[test]
    fn languages_that_are_unknown_or_not_offered() {
        let tool = tool(&[("SANDBOX_SUPPORTED_LANGUAGES", "python")]);
        insta::assert_snapshot!(tool.run_code("1", "cobol\u{1b}", None), @r#"
        Error: the code cannot be run: "cobol\u{1b}" is no language that is known here; nothing was run
        Suggestion: the languages are python and javascript
        "#);
        insta::assert_snapshot!(tool.run_code("1", "javascript", None), @r"
        Error: the code cannot be run: javascript is not among the languages that are offered; nothing was run
        Suggestion: write it in python, or set SANDBOX_SUPPORTED_LANGUAGES
        ");
    }

    #[test]
    fn the_functions_that_read_the_environment_give_text_too() {
        let text = run_code("1", "cobol", None);
        assert!(text.starts_with("Error: "), "{text}");
        let text = run_python_code("1", Some(f64::NAN));
        assert!(text.starts_with("Error: "), "{text}");
    }

    #[test]
    fn timeouts_that_are_none() {
        let tool = tool(&[]);
        for timeout in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e30] {
            let text = tool.run_python_code("print(1)", Some(timeout));
            assert!(text.starts_with("Error: the policy is not valid"), "{timeout}: {text}");
        }
        insta::assert_snapshot!(tool.run_python_code("print(1)", Some(-1.0)));
    }
}
