//! Fetching wheels with pip. Nothing of a package is executed: only wheels are accepted.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use belljar_core::SandboxError;
use serde::Deserialize;

use super::GUEST_PYTHON_VERSION;
use super::stand_ins::StandIns;
use super::wheel::{WheelName, native, normalized, refused};

/// What a person asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Requirement {
    /// A name with optional extras and versions, as pip reads it.
    Named(String),
    /// A wheel on disk.
    File(PathBuf),
}

impl Requirement {
    /// Accepts plain requirements and wheel files. Options, URLs, version control and source trees
    /// are refused: pip would run code of theirs on the host.
    pub(super) fn parse(text: &str) -> Result<Self, SandboxError> {
        let text = text.trim();
        if text.ends_with(".whl") && !text.starts_with('-') && !text.contains("://") {
            let path = PathBuf::from(text);
            if !path.is_file() {
                return Err(refused(
                    format!("there is no file {text}"),
                    Some("give a package's name or the path of a .whl file".to_owned()),
                ));
            }
            return Ok(Self::File(path));
        }
        let name_length = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(name_length);
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        let ends_well = name.ends_with(|c: char| c.is_ascii_alphanumeric());
        let rest_is_plain = rest.chars().all(|c| {
            c.is_ascii_alphanumeric()
                || matches!(c, '.' | '-' | '_' | '+' | '*' | '!' | ',' | ' ' | '[' | ']')
                || matches!(c, '=' | '<' | '>' | '~')
        });
        let archive = [".zip", ".tar", ".gz", ".tgz", ".bz2", ".tbz", ".xz", ".txz", ".whl"]
            .iter()
            .any(|ending| text.to_ascii_lowercase().ends_with(ending));
        if !(starts_well && ends_well && rest_is_plain && text.len() <= 200) || archive {
            return Err(refused(
                format!("{text:?} is not a package's name"),
                Some(
                    "write for example urllib3, requests==2.32.3 or the path of a .whl file"
                        .to_owned(),
                ),
            ));
        }
        Ok(Self::Named(text.to_owned()))
    }

    /// Whether this is the requirement a fetched wheel answers.
    pub(super) fn asks_for(&self, wheel: &WheelName) -> bool {
        match self {
            Self::Named(_) => self.names(&wheel.distribution),
            Self::File(path) => {
                path.file_name().is_some_and(|name| name.to_string_lossy() == wheel.file_name)
            }
        }
    }

    /// Whether it names this package; `distribution` is normalised.
    fn names(&self, distribution: &str) -> bool {
        match self {
            Self::Named(text) => {
                let end = text.find(|c: char| !is_name_char(c)).unwrap_or(text.len());
                normalized(&text[..end]) == distribution
            }
            Self::File(_) => false,
        }
    }

    fn as_argument(&self) -> String {
        match self {
            Self::Named(text) => text.clone(),
            // pip runs in a directory of its own.
            Self::File(path) => std::path::absolute(path)
                .unwrap_or_else(|_| path.clone())
                .to_string_lossy()
                .into_owned(),
        }
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Fetches the requirements and what they depend on, as pure wheels, into a directory.
pub(super) fn download(requirements: &[Requirement], into: &Path) -> Result<(), SandboxError> {
    // Refuse native wheels given as files before pip says something less clear.
    for requirement in requirements {
        if let Requirement::File(path) = requirement {
            WheelName::of_file(path)?;
        }
    }
    let stand_ins = StandIns::write(|name| requirements.iter().any(|it| it.names(name)))
        .map_err(|error| refused(format!("cannot prepare the download: {error}"), None))?;
    let mut command = pip("download", into);
    command
        .args(["--only-binary", ":all:", "--implementation", "py", "--abi", "none"])
        .args(["--platform", "any", "--python-version", GUEST_PYTHON_VERSION, "--find-links"])
        .arg(stand_ins.folder())
        .arg("--dest")
        .arg(into)
        .arg("--")
        .args(requirements.iter().map(Requirement::as_argument));
    let output = run(&mut command)?;
    if output.status.success() {
        return stand_ins
            .remove_from(into)
            .map_err(|error| refused(format!("cannot finish the download: {error}"), None));
    }
    let natives = native_wheels(requirements, into);
    if let Some(first) = natives.first() {
        return Err(native(first));
    }
    Err(refused(
        format!("pip could not fetch the packages: {}", complaint(&output)),
        Some("check the names and the network; pip's own configuration is used".to_owned()),
    ))
}

/// The native wheels this machine would get for the requirements, for a better message than "no
/// matching distribution".
fn native_wheels(requirements: &[Requirement], empty: &Path) -> Vec<String> {
    let mut command = pip("install", empty);
    command
        .args(["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--report", "-", "--"])
        .args(requirements.iter().map(Requirement::as_argument));
    let Ok(output) = run(&mut command) else { return Vec::new() };
    let Ok(report) = serde_json::from_slice::<Report>(&output.stdout) else { return Vec::new() };
    let files = report
        .install
        .into_iter()
        .filter_map(|item| item.download_info.url.rsplit('/').next().map(str::to_owned));
    files.filter(|file| file.ends_with(".whl") && !file.ends_with("-none-any.whl")).collect()
}

/// The part of pip's installation report we read.
#[derive(Deserialize)]
struct Report {
    install: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    download_info: DownloadInfo,
}

#[derive(Deserialize)]
struct DownloadInfo {
    url: String,
}

/// pip, run in a directory that holds nothing: Python would import modules from the current one,
/// and pip would take an archive there for the package of that name and run its build.
fn pip(verb: &str, empty: &Path) -> Command {
    let mut command = Command::new("python3");
    command.current_dir(empty);
    command.args(["-m", "pip", verb, "--quiet", "--no-input", "--disable-pip-version-check"]);
    command
}

fn run(command: &mut Command) -> Result<Output, SandboxError> {
    command.stdin(std::process::Stdio::null()).output().map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::NotFound => "python3 was not found".to_owned(),
            _ => format!("python3 could not be started: {error}"),
        };
        refused(
            problem,
            Some("packages are fetched with pip; install Python 3 with pip".to_owned()),
        )
    })
}

/// pip's last error line, without its prefix and without control characters.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines()
        .rfind(|line| line.starts_with("ERROR:"))
        .or_else(|| lines().next_back())
        .unwrap_or("it gave no reason");
    let plain: String = line.chars().filter(|c| !c.is_control()).take(300).collect();
    plain.trim_start_matches("ERROR:").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_no_name() {
        for text in ["ev-1.0.tar.gz", "ev.zip", "EV.TGZ", "gone-1-py3-none-any.whl"] {
            assert!(Requirement::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pip_does_not_run_where_the_user_stands() {
        let command = pip("download", Path::new("/somewhere/empty"));
        assert_eq!(command.get_current_dir(), Some(Path::new("/somewhere/empty")));
    }

    #[test]
    fn plain_requirements_are_accepted() {
        for text in
            ["urllib3", "requests==2.32.3", "requests[socks]>=2,<3", "zope.interface", "a~=1.0"]
        {
            assert_eq!(Requirement::parse(text), Ok(Requirement::Named(text.to_owned())));
        }
    }

    #[test]
    fn what_could_run_code_or_set_options_is_refused() {
        for text in [
            "--index-url=http://evil",
            "-r",
            "git+https://example.org/x",
            "x @ https://example.org/x.whl",
            "https://example.org/x.whl",
            "./source",
            "../x",
            "/etc/passwd",
            "",
            "-",
            "a; python_version>'3'",
            "a\nb",
            "-x.whl",
        ] {
            assert!(Requirement::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_requirement_knows_its_wheel() {
        let wheel = WheelName::of_file(Path::new("Foo_Bar-1-py3-none-any.whl")).unwrap();
        assert!(Requirement::Named("foo.bar>=1".into()).asks_for(&wheel));
        assert!(!Requirement::Named("foo".into()).asks_for(&wheel));
        assert!(Requirement::File("d/Foo_Bar-1-py3-none-any.whl".into()).asks_for(&wheel));
    }

    #[test]
    fn a_missing_wheel_file_is_named() {
        insta::assert_snapshot!(
            Requirement::parse("gone-1-py3-none-any.whl").unwrap_err(),
            @"there is no file gone-1-py3-none-any.whl; no package was changed"
        );
    }
}
