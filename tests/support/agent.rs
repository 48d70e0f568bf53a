//! The agent's tool with a directory of its own for what it keeps.

use std::fs;
use std::path::{Path, PathBuf};

use belljar::artifacts::ArtifactStore;
use belljar::logging::LogCapture;
use belljar::{AgentSettings, AgentTool, RuntimeType, SandboxLogger, SandboxResult};
use tempfile::TempDir;

use crate::jar::home;

/// A tool, where it keeps artifacts, and what it has logged.
#[derive(Debug)]
pub struct Agent {
    dir: TempDir,
    tool: AgentTool,
    log: LogCapture,
}

impl Agent {
    /// A tool as these variables say.
    #[must_use]
    pub fn new(variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut settings =
            AgentSettings::from_variables(variables.iter().copied()).expect("valid variables");
        let (logger, log) = SandboxLogger::captured();
        settings.artifacts = ArtifactStore::at(dir.path().join("artifacts"));
        settings.home = Some(home());
        settings.logger = Some(logger);
        Self { dir, tool: AgentTool::new(settings), log }
    }

    /// The same with other settings.
    #[must_use]
    pub fn with(self, change: impl FnOnce(&mut AgentSettings)) -> Self {
        let mut settings = self.tool.settings().clone();
        change(&mut settings);
        Self { tool: AgentTool::new(settings), ..self }
    }

    /// The tool itself.
    #[must_use]
    pub const fn tool(&self) -> &AgentTool {
        &self.tool
    }

    /// What the tool says about this code.
    #[must_use]
    pub fn says(&self, code: &str) -> String {
        self.tool.run_python_code(code, None)
    }

    /// The whole result of this code.
    #[must_use]
    pub fn result(&self, code: &str) -> SandboxResult {
        self.tool.execute(code, RuntimeType::Python, None).expect("the host is fine")
    }

    /// The directory above the artifacts.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The files of the artifacts, oldest first.
    #[must_use]
    pub fn kept(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.dir().join("artifacts/executions")) else {
            return Vec::new();
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        files
    }

    /// What was logged, as one text.
    #[must_use]
    pub fn logged(&self) -> String {
        let events = self.log.events();
        events.iter().map(|event| format!("{event}\n")).collect()
    }
}
