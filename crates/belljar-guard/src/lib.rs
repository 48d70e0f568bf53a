//! Finds imports of named modules in Python code before it runs.
//!
//! A guard-rail, no boundary: it reads text, and Python can make a name from anything. What it sees
//! and what it does not is listed in `docs/import-guard.md` and tested in
//! `tests/attacks/import_guard.rs`. It does no IO; whatever the text, the answer is a [`Findings`].
#![forbid(unsafe_code)]

mod bindings;
mod broken;
mod budget;
mod calls;
mod constants;
mod depth;
mod examine;
mod fold;
mod format;
mod modules;
mod paths;
mod walk;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use belljar_core::limits::{MAX_GUARD_DEPTH, MAX_GUARD_SOURCE_BYTES};
use belljar_core::units::format_bytes;

use budget::Budget;
use examine::examine;
use modules::Blocked;

pub use modules::alternative;

/// What [`find_imports`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The imports, in the order of the code, each module once a line.
    pub imports: Vec<Finding>,
    /// Why some of the code was not looked at. Such code should not run.
    pub unexamined: Option<Unexamined>,
}

impl Findings {
    /// Whether the code may run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.imports.is_empty() && self.unexamined.is_none()
    }

    /// The modules, sorted, each once.
    #[must_use]
    pub fn modules(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.imports.iter().map(|finding| finding.module.clone()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// One import of a blocked module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The module as the code names it, such as `os.path`.
    pub module: String,
    /// The name on the list it falls under, such as `os`.
    pub rule: String,
    /// The line, from 1. For code in a string, the line of what runs the string.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// How the code gets at it.
    pub how: How,
}

/// How code gets at a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// An `import` or `from` statement.
    Statement,
    /// A call of `__import__`, `importlib.import_module` and the like.
    Call,
    /// Out of `sys.modules`.
    Loaded,
    /// As an attribute of another module that imports it.
    Attribute,
    /// In a string that is given to `exec`, `eval` or `compile`.
    Text,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Statement => "an import statement",
            Self::Call => "a call that imports",
            Self::Loaded => "sys.modules",
            Self::Attribute => "an attribute of another module",
            Self::Text => "code in a string",
        })
    }
}

/// Why code was not looked at to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unexamined {
    /// It is longer than [`MAX_GUARD_SOURCE_BYTES`].
    TooLong,
    /// It is nested deeper than a parser should follow.
    TooDeep,
    /// It builds, or runs, more text than is worth following.
    TooMuch,
    /// The parser failed, or there was no thread for it.
    NoParser,
}

impl fmt::Display for Unexamined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => {
                return write!(
                    f,
                    "it is longer than {}",
                    format_bytes(MAX_GUARD_SOURCE_BYTES as u64)
                );
            }
            Self::TooDeep => "it is nested too deeply",
            Self::TooMuch => "it builds too much code or text from constants",
            Self::NoParser => "the parser failed on it",
        })
    }
}

/// Stack of the thread that parses. Trees are taken down recursively: a level of one takes less
/// than [`STACK_BYTES_A_LEVEL`], and no tree has more levels than [`MAX_GUARD_DEPTH`]. Only what is
/// used of it ever becomes memory.
const STACK_BYTES: usize = MAX_GUARD_DEPTH * STACK_BYTES_A_LEVEL + 4 * 1024 * 1024;

/// Measured: a quarter of this is enough for every kind of nesting we know.
const STACK_BYTES_A_LEVEL: usize = 1024;

/// Looks for imports of these modules. Blocking a module blocks what is below it, and the modules
/// in C that stand behind it: `os` is also `os.path` and `posix`.
///
/// Code that does not parse is looked at as far as it makes sense; what the interpreter will not
/// accept either is nothing to block.
#[must_use]
pub fn find_imports(code: &str, blocked: &[String]) -> Findings {
    if blocked.is_empty() {
        return Findings::default();
    }
    if code.len() > MAX_GUARD_SOURCE_BYTES {
        return unexamined(Unexamined::TooLong);
    }
    let look = || {
        let blocked = Blocked::new(blocked);
        let budget = Budget::for_code(code);
        // A parser that meets what it cannot handle must not take the host with it.
        catch_unwind(AssertUnwindSafe(|| examine(code, &blocked, &budget))).ok()
    };
    let found = thread::scope(|scope| {
        let builder =
            thread::Builder::new().name("import guard".to_owned()).stack_size(STACK_BYTES);
        builder.spawn_scoped(scope, look).ok()?.join().ok()?
    });
    found.unwrap_or_else(|| unexamined(Unexamined::NoParser))
}

fn unexamined(why: Unexamined) -> Findings {
    Findings { imports: Vec::new(), unexamined: Some(why) }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod work_tests;
