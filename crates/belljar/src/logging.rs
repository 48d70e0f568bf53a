//! Structured events about executions, on `tracing`.
//!
//! Code and output of guests are never logged unless asked for.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_core::{ExecutionPolicy, RuntimeType, SandboxError, SandboxResult};
use tracing::{Dispatch, Level};
use tracing_subscriber::fmt::MakeWriter;

/// The target of every event, for filters of the program's own subscriber.
pub const TARGET: &str = "belljar";

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// One JSON object a line.
    #[default]
    Json,
    /// One readable line each.
    Human,
}

/// Something a guest tried that a limit stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecurityEvent {
    /// The fuel was used up.
    FuelExhaustion,
    /// The memory limit was met.
    MemoryLimit,
    /// The clock ran out.
    Timeout,
    /// The output was flooded.
    OutputLimit,
    /// The workspace's quota was met.
    Quota,
    /// The code was not run for what it imports. The detail says what to use instead.
    BlockedImport,
    /// A path outside the mounts was asked for, or a read-only one was written.
    FilesystemDenied,
}

impl SecurityEvent {
    /// The name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FuelExhaustion => "fuel_exhaustion",
            Self::MemoryLimit => "memory_limit",
            Self::Timeout => "timeout",
            Self::OutputLimit => "output_limit",
            Self::Quota => "quota",
            Self::BlockedImport => "blocked_import",
            Self::FilesystemDenied => "filesystem_denied",
        }
    }
}

/// Logs what happens to executions. Cheap to clone.
///
/// The default sends events to whatever `tracing` subscriber the program has installed; the other
/// constructors write them to a place of their own.
#[derive(Clone, Default)]
pub struct SandboxLogger {
    /// A place of its own, or the program's subscriber.
    dispatch: Option<Dispatch>,
    log_code: bool,
    log_output: bool,
}

impl SandboxLogger {
    /// Sends events to the program's own `tracing` subscriber.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes events to standard error.
    #[must_use]
    pub fn to_stderr(format: LogFormat) -> Self {
        Self::to_writer(format, io::stderr)
    }

    /// Appends events to a file, which is created for its owner only.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn to_file(format: LogFormat, path: &Path) -> Result<Self, SandboxError> {
        let file = open_for_append(path).map_err(|error| SandboxError::Cache {
            what: "the log file".to_owned(),
            path: path.to_owned(),
            problem: error.to_string(),
            hint: Some("name a file in an existing, writable directory".to_owned()),
        })?;
        Ok(Self::to_writer(format, Mutex::new(file)))
    }

    /// Keeps events in memory, for tests and for programs that show them themselves.
    #[must_use]
    pub fn captured() -> (Self, LogCapture) {
        let capture = LogCapture::default();
        (Self::to_writer(LogFormat::Json, capture.clone()), capture)
    }

    fn to_writer<W>(format: LogFormat, writer: W) -> Self
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let builder = tracing_subscriber::fmt()
            .with_max_level(Level::INFO)
            .with_ansi(false)
            .with_writer(writer);
        let dispatch = match format {
            LogFormat::Json => Dispatch::new(builder.json().flatten_event(true).finish()),
            LogFormat::Human => Dispatch::new(builder.compact().finish()),
        };
        Self { dispatch: Some(dispatch), ..Self::default() }
    }

    /// Whether the guest's source code is logged. Off unless asked for.
    #[must_use]
    pub const fn log_code(mut self, on: bool) -> Self {
        self.log_code = on;
        self
    }

    /// Whether the guest's output and error messages are logged. Off unless asked for.
    #[must_use]
    pub const fn log_output(mut self, on: bool) -> Self {
        self.log_output = on;
        self
    }

    /// An execution is about to start.
    pub fn log_execution_start(&self, runtime: RuntimeType, policy: &ExecutionPolicy, code: &str) {
        self.emit(|| {
            tracing::info!(
                target: TARGET,
                event = "execution_start",
                runtime = runtime.as_str(),
                fuel_budget = policy.fuel_budget,
                memory_bytes = policy.memory_bytes,
                timeout_seconds = policy.timeout_seconds,
                code_bytes = code.len(),
                code = self.log_code.then_some(code),
                "execution starts"
            );
        });
    }

    /// An execution has ended.
    pub fn log_execution_complete(&self, result: &SandboxResult) {
        let error = result.error.as_ref().filter(|_| self.log_output);
        self.emit(|| {
            tracing::info!(
                target: TARGET,
                event = "execution_complete",
                execution_id = result.meta.execution_id,
                runtime = result.meta.language.as_str(),
                backend = result.meta.runtime,
                success = result.success(),
                status = result.status().as_str(),
                exit_code = result.exit_code(),
                duration_ms = result.duration_ms,
                fuel_consumed = result.fuel_consumed,
                memory_used_bytes = result.memory_used_bytes,
                truncated = result.meta.truncated,
                files_created = result.files_created.len(),
                files_modified = result.files_modified.len(),
                files_deleted = result.files_deleted.len(),
                stdout = self.log_output.then_some(result.stdout.as_str()),
                stderr = self.log_output.then_some(result.stderr.as_str()),
                error = error.map(|error| format!("{}: {}", error.name, error.message)),
                "execution complete"
            );
        });
    }

    /// A guest met a boundary. The detail is the host's own words, never the guest's.
    pub fn log_security_event(&self, event: SecurityEvent, detail: &str) {
        self.emit(|| {
            tracing::warn!(
                target: TARGET,
                event = "security",
                event_type = event.as_str(),
                detail,
                "security event"
            );
        });
    }

    /// An execution was kept as an artifact, or could not be.
    pub fn log_artifact(&self, execution_id: &str, kept: &Result<String, SandboxError>) {
        self.emit(|| match kept {
            Ok(artifact) => tracing::info!(
                target: TARGET,
                event = "artifact_stored",
                execution_id,
                artifact,
                "artifact stored"
            ),
            Err(error) => tracing::warn!(
                target: TARGET,
                event = "artifact_lost",
                execution_id,
                error = error.to_string(),
                "artifact could not be stored"
            ),
        });
    }

    /// A temporary workspace could not be removed.
    pub fn log_workspace_left(&self, error: &io::Error) {
        self.emit(|| {
            tracing::warn!(
                target: TARGET,
                event = "workspace_left",
                error = error.to_string(),
                "temporary workspace could not be removed"
            );
        });
    }

    fn emit(&self, event: impl FnOnce()) {
        match &self.dispatch {
            Some(dispatch) => tracing::dispatcher::with_default(dispatch, event),
            None => event(),
        }
    }
}

impl fmt::Debug for SandboxLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SandboxLogger")
            .field("own_place", &self.dispatch.is_some())
            .field("log_code", &self.log_code)
            .field("log_output", &self.log_output)
            .finish()
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Events kept in memory. Cheap to clone; all clones share them.
#[derive(Debug, Clone, Default)]
pub struct LogCapture {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl LogCapture {
    /// The events so far, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<serde_json::Value> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }
}

impl Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogCapture {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use belljar_core::{GuestError, Meta, Outcome};

    use super::*;

    fn finished() -> SandboxResult {
        let error = GuestError {
            name: "ValueError".into(),
            message: "guest words".into(),
            traceback: String::new(),
        };
        let mut result = SandboxResult::new(Outcome::Raised(error), Meta::default());
        result.stdout = "guest output".into();
        result.duration_ms = 1.5;
        result.fuel_consumed = Some(1000);
        result
    }

    /// The events of one run without their times.
    fn events_of(logger: impl FnOnce(SandboxLogger) -> SandboxLogger) -> Vec<serde_json::Value> {
        let (captured, log) = SandboxLogger::captured();
        let logger = logger(captured);
        logger.log_execution_start(RuntimeType::Python, &ExecutionPolicy::default(), "print('hi')");
        logger.log_execution_complete(&finished());
        let mut events = log.events();
        for event in &mut events {
            event.as_object_mut().unwrap().remove("timestamp");
        }
        events
    }

    #[test]
    fn events_are_structured_and_hold_nothing_of_the_guest() {
        let events = events_of(|logger| logger);
        insta::assert_json_snapshot!(events);
        let text = serde_json::to_string(&events).unwrap();
        assert!(!text.contains("guest") && !text.contains("print"), "{text}");
    }

    #[test]
    fn code_and_output_are_logged_when_asked_for() {
        let events = events_of(|logger| logger.log_code(true).log_output(true));
        assert_eq!(events[0]["code"], "print('hi')");
        assert_eq!(events[1]["stdout"], "guest output");
        assert_eq!(events[1]["error"], "ValueError: guest words");
    }

    #[test]
    fn every_security_event_has_its_name_and_is_a_warning() {
        for (event, name) in [
            (SecurityEvent::FuelExhaustion, "fuel_exhaustion"),
            (SecurityEvent::MemoryLimit, "memory_limit"),
            (SecurityEvent::Timeout, "timeout"),
            (SecurityEvent::OutputLimit, "output_limit"),
            (SecurityEvent::Quota, "quota"),
            (SecurityEvent::FilesystemDenied, "filesystem_denied"),
        ] {
            let (logger, log) = SandboxLogger::captured();
            logger.log_security_event(event, "why");
            let logged = &log.events()[0];
            assert_eq!((&logged["event_type"], &logged["detail"]), (&name.into(), &"why".into()));
            assert_eq!(logged["level"], "WARN");
        }
    }

    #[test]
    fn a_log_file_is_appended_to_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        for _ in 0..2 {
            let logger = SandboxLogger::to_file(LogFormat::Human, &path).unwrap();
            logger.log_security_event(SecurityEvent::FilesystemDenied, "line\nbreak");
        }
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains("event_type=\"filesystem_denied\""), "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_log_file_that_cannot_be_opened_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(SandboxLogger::to_file(LogFormat::Json, dir.path()).is_err());
    }
}
