//! What each tool does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use belljar::core::limits::{MAX_CHUNK_BYTES, MIN_TIMEOUT_SECONDS};
use belljar::core::protocol::methods::{
    Chunk, CodeParams, Created, FILES_LIST, FILES_READ, FILES_WRITE, FORK, FileEntry, FileKind,
    FileReadParams, FileWriteParams, GET_VARIABLE, Looked, NameParams, SandboxParams, VALIDATE,
    Validated,
};
use belljar::{RuntimeType, SandboxResult};
use rmcp::model::CallToolResult;
use tokio_util::sync::CancellationToken;

use super::answers::{
    Cancelled, Destroyed, FileContent, FileList, Ran, Runtime, Runtimes, SessionList, Valid,
    VariableOf, Written,
};
use super::arguments::{self, Encoding};
use super::desk::Desk;
use super::execution::Execution;
use super::limits::{
    DEFAULT_READ_BYTES, DEFAULT_TIMEOUT_SECONDS, MAX_LISTED_FILES, MAX_TIMEOUT_SECONDS,
};
use super::problem::Problem;
use super::progress::Progress;
use super::sessions::Session;
use super::text;
use super::tools::Call;

/// A call, and who waits for it.
pub(super) struct Caller {
    pub(super) desk: Arc<Desk>,
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
        let timeout = seconds(wanted.timeout)?;
        let result = self.fresh(RuntimeType::Python, wanted.code, timeout).await?;
        let output = text::output(&result);
        let ran = Ran { success: result.success(), status: result.status(), output };
        let mut answer = text::answer(ran.output.clone(), &ran)?;
        answer.is_error = Some(!ran.success);
        Ok(answer)
    }

    async fn execute_code(self, wanted: arguments::ExecuteCode) -> Result<SandboxResult, Problem> {
        let timeout = seconds(wanted.timeout)?;
        let Some(id) = wanted.session_id else {
            return self.fresh(wanted.language.unwrap_or_default(), wanted.code, timeout).await;
        };
        let session = self.desk.sessions.get(&id)?;
        match wanted.language {
            Some(language) if language != session.language => {
                let problem = format!("the language of session `{id}` is {}", session.language);
                Err(Problem::new(format!("{problem}; nothing was run"))
                    .hint("leave language out, or use another session"))
            }
            Some(_) | None => self.in_session(&session, wanted.code, timeout).await,
        }
    }

    /// Runs code in a sandbox of its own.
    async fn fresh(
        self,
        language: RuntimeType,
        code: String,
        timeout: Duration,
    ) -> Result<SandboxResult, Problem> {
        let begun = self.desk.begin(None, &self.gone);
        let _slot = unless(&begun.stop, self.desk.house.executions.acquire()).await?;
        let sandbox = self.desk.create(language, timeout, self.progress.is_some()).await?;
        let execution = Execution {
            connection: self.desk.connection().await?,
            sandbox,
            code,
            // Its policy sees to it.
            timeout: None,
            stop: &begun.stop,
            progress: self.progress,
        };
        let ran = execution.run().await;
        if let Err(problem) = self.desk.destroy(sandbox).await {
            tracing::warn!(target: "belljar", %problem, "a sandbox was not ended in order");
        }
        ran
    }

    async fn in_session(
        self,
        session: &Session,
        code: String,
        timeout: Duration,
    ) -> Result<SandboxResult, Problem> {
        let begun = self.desk.begin(Some(session), &self.gone);
        let _turn = unless(&begun.stop, session.turn.lock()).await?;
        let _slot = unless(&begun.stop, self.desk.house.executions.acquire()).await?;
        let execution = Execution {
            connection: self.desk.connection().await?,
            sandbox: session.sandbox,
            code,
            timeout: Some(timeout),
            stop: &begun.stop,
            progress: self.progress,
        };
        let ran = execution.run().await;
        session.touch();
        session.executions.fetch_add(1, Ordering::Relaxed);
        let mut result = ran?;
        result.meta.session_id = Some(session.id.clone());
        Ok(result)
    }

    async fn create_session(
        self,
        wanted: arguments::CreateSession,
    ) -> Result<CallToolResult, Problem> {
        let language = wanted.language.unwrap_or_default();
        let session = self.desk.create_session(language, wanted.session_id).await?;
        let told = format!("session_id: {} ({})", session.id, session.language);
        text::answer(told, &session.info())
    }

    async fn fork_session(self, wanted: arguments::OfSession) -> Result<CallToolResult, Problem> {
        let parent = self.desk.sessions.get(&wanted.session_id)?;
        let place = self.desk.sessions.reserve(None)?;
        let params = SandboxParams { sandbox: parent.sandbox };
        let created: Created = self.ask(&parent, FORK, &params).await?;
        let fork = place.fill(parent.language, created.sandbox);
        let told = format!("session_id: {} (a fork of {})", fork.id, parent.id);
        text::answer(told, &fork.info())
    }

    async fn destroy_session(
        self,
        wanted: arguments::OfSession,
    ) -> Result<CallToolResult, Problem> {
        let session = self.desk.sessions.take(&wanted.session_id)?;
        self.desk.cancel(Some(&session.id));
        let _turn = session.turn.lock().await;
        self.desk.destroy(session.sandbox).await?;
        let session_id = session.id.clone();
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

    async fn read_file(self, wanted: arguments::ReadFile) -> Result<CallToolResult, Problem> {
        let session = self.desk.sessions.get(&wanted.session_id)?;
        let params = FileReadParams {
            sandbox: session.sandbox,
            path: wanted.path.clone(),
            offset: wanted.offset,
            length: Some(wanted.length.unwrap_or(DEFAULT_READ_BYTES).min(MAX_CHUNK_BYTES)),
        };
        let Chunk { data, bytes } = self.ask(&session, FILES_READ, &params).await?;
        let part = STANDARD
            .decode(&data)
            .map_err(|error| Problem::new(format!("the file came as nonsense: {error}")))?;
        let (encoding, content, taken) = written_as_text(part, data);
        let end = wanted.offset.saturating_add(taken as u64);
        let next_offset = (end < bytes && taken > 0).then_some(end);
        let told = content.clone();
        text::answer(
            told,
            &FileContent { path: wanted.path, encoding, content, bytes, next_offset },
        )
    }

    async fn write_file(self, wanted: arguments::WriteFile) -> Result<CallToolResult, Problem> {
        let session = self.desk.sessions.get(&wanted.session_id)?;
        let data = match wanted.encoding {
            Encoding::Utf8 => wanted.content.into_bytes(),
            Encoding::Base64 => STANDARD.decode(&wanted.content).map_err(|error| {
                Problem::new(format!(
                    "argument `content` is no base64: {error}; nothing was written"
                ))
                .hint("leave encoding out for plain text")
            })?,
        };
        let bytes = data.len() as u64;
        if bytes > MAX_CHUNK_BYTES {
            let problem = format!("content has {bytes} bytes, and at most {MAX_CHUNK_BYTES} fit");
            return Err(Problem::new(format!("{problem}; nothing was written"))
                .hint("write several files, and join them with code in the session"));
        }
        let params = FileWriteParams {
            sandbox: session.sandbox,
            path: wanted.path.clone(),
            data: STANDARD.encode(data),
            append: false,
        };
        self.ask::<()>(&session, FILES_WRITE, &params).await?;
        let told = format!("{bytes} bytes written to {}", wanted.path);
        text::answer(told, &Written { path: wanted.path, bytes })
    }

    async fn list_files(self, wanted: arguments::OfSession) -> Result<CallToolResult, Problem> {
        let session = self.desk.sessions.get(&wanted.session_id)?;
        let params = SandboxParams { sandbox: session.sandbox };
        let mut files: Vec<FileEntry> = self.ask(&session, FILES_LIST, &params).await?;
        let total = files.len();
        files.truncate(MAX_LISTED_FILES);
        let lines = files.iter().map(|file| match file.kind {
            FileKind::File => format!("{} ({} bytes)", file.path, file.bytes),
            FileKind::Directory => format!("{}/", file.path),
            FileKind::Link => format!("{} (a link)", file.path),
        });
        let mut told = listed(lines, "no files");
        if total > files.len() {
            told.push_str(&format!("\n… and {} more", total - files.len()));
        }
        text::answer(told, &FileList { files, total })
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
            let asker =
                Self { progress: None, desk: Arc::clone(&self.desk), gone: self.gone.clone() };
            // Whoever has run nothing says what it would say if it had.
            let tried = asker.fresh(language, String::new(), seconds(None)?).await;
            runtimes.push(runtime(language, tried));
        }
        let lines = runtimes.iter().map(|one| match &one.problem {
            Some(problem) => format!("{}: {problem}", one.language),
            None => {
                let (version, backend) = (one.version.as_deref(), one.backend.as_deref());
                let version = version.unwrap_or("of unknown version");
                format!("{} {version} on {}", one.language, backend.unwrap_or_default())
            }
        });
        text::answer(listed(lines, "none"), &Runtimes { runtimes })
    }

    async fn validate_code(
        self,
        wanted: arguments::ValidateCode,
    ) -> Result<CallToolResult, Problem> {
        let language = wanted.language.unwrap_or_default();
        let sandbox = self.desk.create(language, seconds(None)?, false).await?;
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
    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        session: &Session,
        method: &str,
        params: &impl serde::Serialize,
    ) -> Result<T, Problem> {
        let _turn = unless(&self.gone, session.turn.lock()).await?;
        session.touch();
        Ok(self.desk.connection().await?.client.request(method, params).await?)
    }
}

async fn unless<T>(stop: &CancellationToken, work: impl Future<Output = T>) -> Result<T, Problem> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(Problem::new("cancelled before it began; nothing was run")),
        done = work => Ok(done),
    }
}

fn seconds(timeout: Option<f64>) -> Result<Duration, Problem> {
    let wanted = timeout.unwrap_or(DEFAULT_TIMEOUT_SECONDS);
    if (MIN_TIMEOUT_SECONDS..=MAX_TIMEOUT_SECONDS).contains(&wanted) {
        return Ok(Duration::from_secs_f64(wanted));
    }
    Err(Problem::new(format!("argument `timeout`: {wanted} s cannot be given; nothing was run"))
        .hint(format!("give {MIN_TIMEOUT_SECONDS} to {MAX_TIMEOUT_SECONDS} seconds")))
}

fn listed(lines: impl Iterator<Item = String>, none: &str) -> String {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { none.to_owned() } else { lines.join("\n") }
}

fn runtime(language: RuntimeType, tried: Result<SandboxResult, Problem>) -> Runtime {
    match tried {
        Ok(result) => Runtime {
            language,
            available: result.success(),
            version: result.meta.language_version,
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
            problem: Some(problem.to_string()),
        },
    }
}

/// Text as it is, if it is text; `base64` is the same bytes. A character that is cut at the end is
/// left for the next part.
fn written_as_text(bytes: Vec<u8>, base64: String) -> (Encoding, String, usize) {
    let taken = bytes.len();
    match String::from_utf8(bytes) {
        Ok(text) => (Encoding::Utf8, text, taken),
        Err(error) => {
            let (whole, cut) = (error.utf8_error().valid_up_to(), error.utf8_error().error_len());
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            match String::from_utf8(bytes) {
                Ok(text) if cut.is_none() && whole > 0 => (Encoding::Utf8, text, whole),
                Ok(_) | Err(_) => (Encoding::Base64, base64, taken),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_when_they_can_be() {
        let read = |bytes: &[u8]| written_as_text(bytes.to_vec(), "64".to_owned());
        assert_eq!(read("añ".as_bytes()), (Encoding::Utf8, "añ".to_owned(), 3));
        assert_eq!(read(b"a\xc3"), (Encoding::Utf8, "a".to_owned(), 1));
        assert_eq!(read(b"\xc3"), (Encoding::Base64, "64".to_owned(), 1));
        assert_eq!(read(b"a\xffb"), (Encoding::Base64, "64".to_owned(), 3));
        assert_eq!(read(b""), (Encoding::Utf8, String::new(), 0));
    }

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
