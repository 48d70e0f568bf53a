//! What goes along with Python code, so that its values, tracebacks and exit codes are told as they
//! are elsewhere. It is code like any other, so it works at every service. JavaScript goes alone: what
//! it declares would not outlive whatever else ran it.

use std::sync::OnceLock;

use belljar_core::{SandboxError, Survives};
use belljar_guests::drivers;
use belljar_host::{Answer, Told, Variable};
use serde::Deserialize;
use serde_json::{Value, json};

/// Its name as a package there.
const PACKAGE: &str = "belljar_along";
/// The type of what it tells, piece by piece.
const TOLD: &str = "application/vnd.belljar.told";
/// Pieces that are put together; each may be 16 MiB of UTF-8.
const MAX_PIECES: usize = 4;
/// A version that is longer is none.
const MAX_VERSION_BYTES: usize = 64;

const LOADER: &str = include_str!("loader.py");
const DRIVER: &str = include_str!("driver.py");

/// Modules of our own drivers that it is made of, in the order in which they need each other.
const SHARED: [&str; 6] = ["__init__", "wire", "sources", "errors", "interrupts", "display"];

/// Code that runs other code there.
pub(super) fn running(code: &str, filename: &str) -> Result<String, SandboxError> {
    called(&format!("run({}, {})", quoted(code), quoted(filename)))
}

/// Code that looks whether other code compiles.
pub(super) fn checking(code: &str, filename: &str) -> Result<String, SandboxError> {
    called(&format!("check({}, {})", quoted(code), quoted(filename)))
}

/// Code that describes a variable.
pub(super) fn inspecting(name: &str) -> Result<String, SandboxError> {
    called(&format!("inspect({})", quoted(name)))
}

/// Code that goes on with what awaits, in the event loop there.
pub(super) fn going_on() -> String {
    format!("await {}go_on()", imported())
}

fn called(call: &str) -> Result<String, SandboxError> {
    Ok(format!("{}{}{call}", preparation()?, imported()))
}

fn imported() -> String {
    format!("__import__('{PACKAGE}.driver', fromlist=['driver']).")
}

/// Makes the package where there is none yet. It leaves no name behind.
fn preparation() -> Result<&'static str, SandboxError> {
    static PREPARATION: OnceLock<Option<String>> = OnceLock::new();
    let made = PREPARATION.get_or_init(|| {
        let guest = |name: &str| drivers::PYTHON.get_file(format!("belljar_guest/{name}.py"));
        let mut sources = Vec::new();
        for name in SHARED {
            let known_as = if name == "__init__" { "" } else { name };
            sources.push((known_as, guest(name)?.contents_utf8()?));
        }
        let compiling = drivers::PYTHON_NATIVE.get_file("belljar_native/compiling.py")?;
        sources.push(("compiling", compiling.contents_utf8()?));
        sources.push(("driver", DRIVER));
        let pairs = sources.iter().map(|(name, text)| format!("{}:{}", quoted(name), quoted(text)));
        let pairs = pairs.collect::<Vec<_>>().join(",");
        let names = format!("{{'PACKAGE':'{PACKAGE}','SOURCES':{{{pairs}}}}}");
        Some(format!("exec({},{names})\n", quoted(LOADER)))
    });
    made.as_deref().ok_or_else(|| SandboxError::Internal {
        problem: "the driver for services is not whole".to_owned(),
        survives: Survives::NothingWasRun,
    })
}

/// A literal of Python's: what JSON escapes, Python reads as the same.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// What it told, if this is a result of its.
pub(super) fn heard(result: &Value) -> Option<Vec<u8>> {
    let pieces = (0..MAX_PIECES).map_while(|at| result["extra"][format!("{TOLD}.{at}")].as_str());
    let told = pieces.collect::<Vec<_>>().concat();
    (!told.is_empty()).then(|| told.into_bytes())
}

/// How a cell ended.
pub(super) enum Account {
    Ended(Answer),
    /// It awaits something, and has to be gone on with.
    Awaits,
}

impl Account {
    /// Guest data, bounded as every driver's is. `None` when it makes no sense.
    pub(super) fn parse(told: &[u8]) -> Option<Self> {
        Some(match Told::parse(told)? {
            Told::Ended(answer) => Self::Ended(answer),
            Told::Waiting { .. } => Self::Awaits,
        })
    }
}

pub(super) fn variable(told: &[u8]) -> Option<Option<Variable>> {
    Variable::parse(told)
}

/// The version of the language there.
pub(super) fn version(told: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Versioned {
        version: String,
    }
    let version = serde_json::from_slice::<Versioned>(told).ok()?.version;
    let plain = |byte: u8| byte.is_ascii_graphic();
    (version.len() <= MAX_VERSION_BYTES && version.bytes().all(plain)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_along_is_whole_and_leaves_no_names() {
        let code = running("print('ř\u{0}')", "<sandbox>").unwrap();
        let lines: Vec<&str> = code.lines().collect();
        assert!(lines[0].starts_with("exec(\"# Makes the package"), "{}", &lines[0][..80]);
        assert_eq!(
            lines[1..],
            ["__import__('belljar_along.driver', fromlist=['driver']).\
              run(\"print('ř\\u0000')\", \"<sandbox>\")"]
        );
    }

    #[test]
    fn pieces_are_put_together_and_others_results_are_none_of_its() {
        let piece = |at: usize| format!("{TOLD}.{at}");
        let event = json!({ "extra": { piece(0): r#"{"end":"#, piece(1): r#""waiting"}"# } });
        let told = heard(&event).unwrap();
        assert!(matches!(Account::parse(&told), Some(Account::Awaits)));
        assert!(heard(&json!({ "text": "1" })).is_none());
        assert!(heard(&json!({ "extra": { piece(1): "x" } })).is_none());
        assert!(Account::parse(b"{}").is_none() && version(br#"{"version":"a b"}"#).is_none());
    }
}
