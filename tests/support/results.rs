//! Checks of results that say what they expected.

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use belljar::{Backend, SandboxResult, StateAfter, Status};
use serde_json::Value;

use crate::jar::build_dir;

/// Checks on a result, each with the whole result in its message.
pub trait Expect {
    /// Ended like this, and nowhere does a path of the host show.
    fn ended(&self, status: Status, exit_code: i32) -> &Self;

    /// Ran to its end with this output and nothing on stderr.
    fn printed(&self, stdout: &str) -> &Self;

    /// Ended with this uncaught exception.
    fn raised(&self, name: &str, message: &str) -> &Self;

    /// Changed exactly these files.
    fn changed(&self, created: &[&str], modified: &[&str], deleted: &[&str]) -> &Self;

    /// Ran to its end, and its last expression has this value as JSON.
    fn gave(&self, value: impl Into<Value>) -> &Self;

    /// Ended like this, and the session has everything the code did.
    fn kept(&self, status: Status) -> &Self;

    /// Was stopped like this, and the session is what it was before.
    fn rolled_back(&self, status: Status) -> &Self;

    /// Waits for calls of these tools.
    fn waits_for(&self, tools: &[&str]) -> &Self;
}

impl Expect for SandboxResult {
    #[track_caller]
    fn ended(&self, status: Status, exit_code: i32) -> &Self {
        assert_eq!((self.status(), self.exit_code()), (status, exit_code), "{}", Shown(self));
        assert_eq!(self.success(), status == Status::Ok, "{}", Shown(self));
        assert_no_host_paths(self);
        self
    }

    #[track_caller]
    fn printed(&self, stdout: &str) -> &Self {
        self.ended(Status::Ok, 0);
        assert_eq!((self.stdout.as_str(), self.stderr.as_str()), (stdout, ""), "{}", Shown(self));
        self
    }

    #[track_caller]
    fn raised(&self, name: &str, message: &str) -> &Self {
        self.ended(Status::Error, 1);
        let error = self.error.as_ref().unwrap_or_else(|| panic!("no error in {}", Shown(self)));
        assert_eq!(
            (error.name.as_str(), error.message.as_str()),
            (name, message),
            "{}",
            Shown(self)
        );
        self
    }

    #[track_caller]
    fn changed(&self, created: &[&str], modified: &[&str], deleted: &[&str]) -> &Self {
        assert_eq!(self.files_created, created, "created, in {}", Shown(self));
        assert_eq!(self.files_modified, modified, "modified, in {}", Shown(self));
        assert_eq!(self.files_deleted, deleted, "deleted, in {}", Shown(self));
        self
    }

    #[track_caller]
    fn gave(&self, value: impl Into<Value>) -> &Self {
        self.ended(Status::Ok, 0);
        let json = self.result.as_ref().and_then(|value| value.json.clone());
        assert_eq!(json, Some(value.into()), "{}", Shown(self));
        self
    }

    #[track_caller]
    fn kept(&self, status: Status) -> &Self {
        assert_eq!(self.status(), status, "{}", Shown(self));
        assert_eq!(self.meta.state, Some(StateAfter::Kept), "{}", Shown(self));
        assert_no_host_paths(self);
        self
    }

    #[track_caller]
    fn rolled_back(&self, status: Status) -> &Self {
        self.ended(status, -1);
        assert_eq!(self.meta.state, Some(StateAfter::RolledBack), "{}", Shown(self));
        self
    }

    #[track_caller]
    fn waits_for(&self, tools: &[&str]) -> &Self {
        self.ended(Status::Suspended, -1).kept(Status::Suspended);
        let names: Vec<&str> = self.pending_calls.iter().map(|call| call.name.as_str()).collect();
        assert_eq!(names, tools, "{}", Shown(self));
        self
    }
}

/// The parts of a result that tell what happened, short enough to read in a test's failure.
struct Shown<'a>(&'a SandboxResult);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = self.0;
        writeln!(f, "{}, exit code {}", result.status(), result.exit_code())?;
        for (name, text) in [("stdout", &result.stdout), ("stderr", &result.stderr)] {
            let start: String = text.chars().take(2000).collect();
            writeln!(f, "{name} ({} bytes): {start}", text.len())?;
        }
        writeln!(f, "value: {:.500}", format!("{:?}", result.result))?;
        writeln!(f, "pending: {:.500}", format!("{:?}", result.pending_calls))?;
        writeln!(f, "created {:.500}", format!("{:?}", result.files_created))?;
        writeln!(f, "modified {:.500}", format!("{:?}", result.files_modified))?;
        writeln!(f, "deleted {:.500}", format!("{:?}", result.files_deleted))
    }
}

/// Where the machine's own Python is installed, be it in somebody's home: natively, code sees that,
/// and an interrupt that strikes in a hook of the library's is reported with the library's path.
fn interpreter_home() -> &'static str {
    static HOME: OnceLock<String> = OnceLock::new();
    HOME.get_or_init(|| {
        let code = "import sys; print(sys.base_prefix, end='')";
        let output = Command::new("python3").args(["-c", code]).output().expect("python3");
        String::from_utf8(output.stdout).expect("a path")
    })
}

/// Nothing a guest could see or cause tells where on the host it runs.
#[track_caller]
pub fn assert_no_host_paths(result: &SandboxResult) {
    let mut words = vec![result.stdout.clone(), result.stderr.clone()];
    if let Some(error) = &result.error {
        words.extend([error.name.clone(), error.message.clone(), error.traceback.clone()]);
    }
    if let Some(value) = &result.result {
        words.push(value.text.clone());
    }
    if result.meta.runtime == Backend::Native.runtime_name() {
        words = words.iter().map(|word| word.replace(interpreter_home(), "")).collect();
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(""));
    let user_home = std::env::home_dir().unwrap_or_default().display().to_string();
    let secrets = [
        result.workspace_path.clone(),
        build_dir().display().to_string(),
        repository.display().to_string(),
        user_home,
    ];
    for word in &words {
        for secret in secrets.iter().filter(|secret| secret.len() > 1) {
            assert!(!word.contains(secret.as_str()), "{secret} shows in {}", Shown(result));
        }
    }
}
