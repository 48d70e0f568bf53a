//! What each tool does; those for files are in `files.rs`.

use std::sync::Arc;
use std::time::Duration;

use belljar::core::limits::MIN_TIMEOUT_SECONDS;
use belljar::core::protocol::methods::{
    CodeParams, CreateParams, GET_VARIABLE, Looked, NameParams, VALIDATE, Validated,
};
use belljar::wasm::Package;
use belljar::{AgentTool, Backend, GuestImage, ImageChoice, RuntimeType, SandboxResult};
use rmcp::model::CallToolResult;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::answers::{
    Cancelled, Destroyed, Image, ImagePackage, Ran, Runtime, Runtimes, Valid, VariableOf,
};
use super::arguments;
use super::limits::{
    DEFAULT_TIMEOUT_SECONDS, MAX_STDERR_BYTES, MAX_STDOUT_BYTES, MAX_TIMEOUT_SECONDS,
};
use super::progress::{Progress, listener, watched};
use super::text;
use super::tools::Call;
use crate::desk::{Desk, Problem, Session, SessionList, Wanted};

/// A call, and who waits for it.
pub(super) struct Caller {
    pub(super) desk: Arc<Desk>,
    pub(super) tool: Arc<AgentTool>,
    /// Cancelled when nobody waits any more.
    pub(super) gone: CancellationToken,
    pub(super) progress: Option<Progress>,
}

impl Caller {
    pub(super) async fn call(self, call: Call) -> Result<CallToolResult, Problem> {
        let desk = Arc::clone(&self.desk);
        let _room = desk.admit()?;
        match call {
            Call::RunPythonCode(wanted) => self.run_python_code(wanted).await,
            Call::ExecuteCode(wanted) => text::executed(self.execute_code(wanted).await?),
            Call::CreateSession(wanted) => self.create_session(wanted).await,
            Call::ForkSession(wanted) => self.fork_session(wanted).await,
            Call::DestroySession(wanted) => self.destroy_session(wanted).await,
            Call::ListSessions => self.list_sessions(),
            Call::GetVariable(wanted) => self.get_variable(wanted).await,
            Call::ReadFile(wanted) => self.read_file(wanted).await,
            Call::WriteFile(wanted) => self.write_file(wanted).await,
            Call::ListFiles(wanted) => self.list_files(wanted).await,
            Call::CancelExecution(wanted) => self.cancel_execution(&wanted),
            Call::ListRuntimes => self.list_runtimes().await,
            Call::ValidateCode(wanted) => self.validate_code(wanted).await,
        }
    }

    /// The whole of a call for agents that want nothing but text.
    async fn run_python_code(
        self,
        wanted: arguments::RunPythonCode,
    ) -> Result<CallToolResult, Problem> {
        wanted.timeout.map(|timeout| seconds(Some(timeout))).transpose()?;
        let tool = Arc::clone(&self.tool);
        let policy = tool.policy_for(RuntimeType::Python, wanted.timeout)?;
        let settings = tool.settings();
        let params = CreateParams {
            language: RuntimeType::Python,
            preset: Some(policy.base()),
            policy: policy.explicit(),
            python: settings.python.clone(),
            index_url: settings.index_url.clone(),
            ..CreateParams::default()
        };
        let result = self.run(params, wanted.code.clone()).await?;
        let (success, status) = (result.success(), result.status());
        // Keeping an artifact means writing files.
        let told = spawn_blocking(move || tool.told(&wanted.code, &policy, &result));
        let told = told.await.map_err(|error| Problem::failed(error.to_string()))?;
        let ran = Ran { success, status, output: told.text };
        let mut answer = text::answer(ran.output.clone(), &ran)?;
        answer.is_error = Some(!ran.success);
        Ok(answer)
    }

    async fn execute_code(self, wanted: arguments::ExecuteCode) -> Result<SandboxResult, Problem> {
        let timeout = seconds(wanted.timeout)?;
        let Some(id) = wanted.session_id else {
            let language = wanted.language.unwrap_or_default();
            return self.run(params(language, timeout, wanted.image), wanted.code).await;
        };
        let session = self.desk.sessions.get(&id)?;
        if wanted.image.is_some_and(|image| image != ImageChoice::Auto) {
            let problem = format!("the session `{id}` has its image already; nothing was run");
            return Err(
                Problem::invalid(problem).hint("leave image out, or give it to create_session")
            );
        }
        match wanted.language {
            Some(language) if language != session.language => {
                let problem = format!("the language of session `{id}` is {}", session.language);
                Err(Problem::invalid(format!("{problem}; nothing was run"))
                    .hint("leave language out, or use another session"))
            }
            Some(_) | None => self.in_session(&session, wanted.code, timeout).await,
        }
    }

    /// Runs code in a sandbox of its own.
    async fn run(self, params: CreateParams, code: String) -> Result<SandboxResult, Problem> {
        let stream = self.progress.is_some();
        let params = CreateParams { stream, ..params };
        let (listener, lines) = listener(stream);
        let run = self.desk.run_fresh(&params, Wanted { code, gone: &self.gone, listener });
        watched(run, self.progress, lines).await
    }

    async fn in_session(
        self,
        session: &Session,
        code: String,
        timeout: Duration,
    ) -> Result<SandboxResult, Problem> {
        let (listener, lines) = listener(self.progress.is_some());
        let wanted = Wanted { code, gone: &self.gone, listener };
        let run = self.desk.run_in(session, Some(timeout), wanted);
        watched(run, self.progress, lines).await
    }

    async fn create_session(
        self,
        wanted: arguments::CreateSession,
    ) -> Result<CallToolResult, Problem> {
        let language = wanted.language.unwrap_or_default();
        // As much time as any call may have; each call has its own.
        let longest = Duration::from_secs_f64(MAX_TIMEOUT_SECONDS);
        let params = params(language, longest, wanted.image);
        let made = self.desk.create_session(&params, Value::Null, wanted.session_id);
        let session = made.await?;
        let told = format!("session_id: {} ({})", session.id, session.language);
        text::answer(told, &session.info())
    }

    async fn fork_session(self, wanted: arguments::OfSession) -> Result<CallToolResult, Problem> {
        let parent = self.desk.sessions.get(&wanted.session_id)?;
        let fork = self.desk.fork_session(&parent, None, &self.gone).await?;
        let told = format!("session_id: {} (a fork of {})", fork.id, parent.id);
        text::answer(told, &fork.info())
    }

    async fn destroy_session(
        self,
        wanted: arguments::OfSession,
    ) -> Result<CallToolResult, Problem> {
        self.desk.destroy_session(&wanted.session_id).await?;
        let session_id = wanted.session_id;
        text::answer(format!("{session_id} is gone"), &Destroyed { session_id })
    }

    fn list_sessions(self) -> Result<CallToolResult, Problem> {
        let sessions: Vec<_> = self.desk.sessions.all().iter().map(|one| one.info()).collect();
        let lines = sessions.iter().map(|one| {
            let busy = if one.running { ", running" } else { "" };
            format!("{} ({}, {} executions{busy})", one.session_id, one.language, one.executions)
        });
        text::answer(listed(lines, "no sessions"), &SessionList { sessions })
    }

    async fn get_variable(self, wanted: arguments::GetVariable) -> Result<CallToolResult, Problem> {
        let session = self.desk.sessions.get(&wanted.session_id)?;
        let params = NameParams { sandbox: session.sandbox, name: wanted.name.clone() };
        let Looked { variable } = self.ask(&session, GET_VARIABLE, &params).await?;
        let told = match &variable {
            Some(variable) => variable.text.clone(),
            None => "there is no variable of that name".to_owned(),
        };
        let session_id = wanted.session_id;
        text::answer(told, &VariableOf { session_id, name: wanted.name, variable })
    }

    fn cancel_execution(
        self,
        wanted: &arguments::CancelExecution,
    ) -> Result<CallToolResult, Problem> {
        if let Some(id) = &wanted.session_id {
            self.desk.sessions.get(id)?;
        }
        let cancelled = self.desk.cancel(wanted.session_id.as_deref());
        text::answer(format!("executions stopped: {cancelled}"), &Cancelled { cancelled })
    }

    async fn list_runtimes(self) -> Result<CallToolResult, Problem> {
        let mut runtimes = Vec::new();
        for language in RuntimeType::ALL {
            let asker = Self {
                desk: Arc::clone(&self.desk),
                tool: Arc::clone(&self.tool),
                gone: self.gone.clone(),
                progress: None,
            };
            // Whoever has run nothing says what it would say if it had.
            let tried = asker.run(params(language, seconds(None)?, None), String::new()).await;
            runtimes.push(runtime(language, tried));
        }
        let lines = runtimes.iter().map(|one| match &one.problem {
            Some(problem) => format!("{}: {problem}", one.language),
            None => {
                let (version, backend) = (one.version.as_deref(), one.backend.as_deref());
                let version = version.unwrap_or("of unknown version");
                let backend = backend.unwrap_or_default();
                format!("{} {version} on {backend}{}", one.language, told_images(&one.images))
            }
        });
        text::answer(listed(lines, "none"), &Runtimes { runtimes })
    }

    async fn validate_code(
        self,
        wanted: arguments::ValidateCode,
    ) -> Result<CallToolResult, Problem> {
        let language = wanted.language.unwrap_or_default();
        let sandbox = self.desk.create(&params(language, seconds(None)?, None)).await?;
        let params = CodeParams { sandbox, code: wanted.code };
        let client = &self.desk.connection().await?.client;
        let checked = client.request::<Validated>(VALIDATE, &params).await;
        self.desk.destroy(sandbox).await?;
        let Validated { error } = checked?;
        let told = match &error {
            Some(error) => error.traceback.clone(),
            None => "the code compiles".to_owned(),
        };
        text::answer(told, &Valid { valid: error.is_none(), error })
    }

    /// Something of a session that is quickly done, when it is this call's turn.
    pub(super) async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        session: &Session,
        method: &str,
        params: &impl serde::Serialize,
    ) -> Result<T, Problem> {
        self.desk.ask(session, &self.gone, method, params).await
    }
}

/// A sandbox for somebody who reads what it prints, and may run for so long.
fn params(language: RuntimeType, timeout: Duration, image: Option<ImageChoice>) -> CreateParams {
    let fields = [
        ("timeout_seconds", json!(timeout.as_secs_f64())),
        ("stdout_max_bytes", json!(MAX_STDOUT_BYTES)),
        ("stderr_max_bytes", json!(MAX_STDERR_BYTES)),
    ];
    let image = image.map(|image| ("image", json!(image)));
    let policy =
        fields.into_iter().chain(image).map(|(name, value)| (name.to_owned(), value)).collect();
    CreateParams { language, policy, ..CreateParams::default() }
}

fn seconds(timeout: Option<f64>) -> Result<Duration, Problem> {
    let wanted = timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    if (MIN_TIMEOUT_SECONDS..=MAX_TIMEOUT_SECONDS).contains(&wanted) {
        return Ok(Duration::from_secs_f64(wanted));
    }
    Err(Problem::invalid(format!(
        "argument `timeout`: {wanted} s cannot be given; nothing was run"
    ))
    .hint(format!("give {MIN_TIMEOUT_SECONDS} to {MAX_TIMEOUT_SECONDS} seconds")))
}

pub(super) fn listed(lines: impl Iterator<Item = String>, none: &str) -> String {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { none.to_owned() } else { lines.join("\n") }
}

fn runtime(language: RuntimeType, tried: Result<SandboxResult, Problem>) -> Runtime {
    match tried {
        Ok(result) => Runtime {
            language,
            available: result.success(),
            version: result.meta.language_version,
            images: images(language, &result.meta.runtime),
            backend: Some(result.meta.runtime),
            isolation: result.meta.isolation,
            problem: result.error.map(|error| error.message),
        },
        Err(problem) => Runtime {
            language,
            available: false,
            version: None,
            backend: None,
            isolation: Vec::new(),
            images: Vec::new(),
            problem: Some(problem.to_string()),
        },
    }
}

/// The images of a language, where the backend has any.
fn images(language: RuntimeType, backend: &str) -> Vec<Image> {
    let ours = [Backend::Wasm, Backend::Daemon].map(Backend::runtime_name).contains(&backend);
    if !ours || language != RuntimeType::Python {
        return Vec::new();
    }
    let image = |name: GuestImage| {
        // A build without that image has none to tell about.
        let packages = belljar::wasm::packages_in(language, name).ok()?;
        let package = |package: Package| ImagePackage {
            name: package.name,
            version: package.version,
            modules: package.modules,
        };
        Some(Image { name, packages: packages.into_iter().map(package).collect() })
    };
    GuestImage::ALL.into_iter().filter_map(image).collect()
}

fn told_images(images: &[Image]) -> String {
    let told = |image: &Image| {
        let packages = image.packages.iter().map(|it| format!("{} {}", it.name, it.version));
        let packages: Vec<String> = packages.collect();
        format!("\n  image {}: also {}", image.name, packages.join(", "))
    };
    images.iter().filter(|image| !image.packages.is_empty()).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_bounded() {
        assert_eq!(seconds(None).unwrap(), Duration::from_secs(30));
        assert_eq!(seconds(Some(0.5)).unwrap(), Duration::from_millis(500));
        for wrong in [0.0, -1.0, 601.0, f64::INFINITY] {
            assert!(seconds(Some(wrong)).is_err(), "{wrong}");
        }
        insta::assert_snapshot!(seconds(Some(-1.0)).unwrap_err(), @"
        error: argument `timeout`: -1 s cannot be given; nothing was run
        hint: give 0.001 to 600 seconds
        ");
    }
}
