//! Which modules are blocked, and what to use instead.

/// Modules in C that do the work of others: who blocks the one means the other, too.
const BEHIND: [(&str, &[&str]); 9] = [
    ("os", &["posix", "nt"]),
    ("os.path", &["posixpath", "ntpath"]),
    ("subprocess", &["_posixsubprocess", "_winapi"]),
    ("socket", &["_socket"]),
    ("ssl", &["_ssl"]),
    ("ctypes", &["_ctypes"]),
    ("threading", &["_thread"]),
    ("multiprocessing", &["_multiprocessing", "_posixshmem"]),
    ("signal", &["_signal"]),
];

/// What to use instead of a module, as part of a sentence.
const INSTEAD: [(&str, &str); 9] = [
    ("os", "pathlib for paths and files, platform for facts about the system"),
    ("shutil", "pathlib for files, zipfile and tarfile for archives"),
    ("subprocess", "Python itself for what the program would do, or a tool that the host offers"),
    ("socket", "a tool that the host offers"),
    ("ssl", "a tool that the host offers"),
    ("ctypes", "struct and array for binary data"),
    ("threading", "asyncio, or plain loops"),
    ("multiprocessing", "asyncio, or plain loops"),
    ("pickle", "json"),
];

/// A module that may be used instead of a blocked one, or what else to do, if there is advice.
#[must_use]
pub fn alternative(module: &str) -> Option<&'static str> {
    let root = module.split('.').next().unwrap_or(module);
    INSTEAD.iter().find(|(name, _)| *name == root).map(|(_, advice)| *advice)
}

/// The list, with what stands behind it.
pub(crate) struct Blocked {
    /// Each name and the rule of the policy it comes from.
    names: Vec<(String, String)>,
}

impl Blocked {
    pub(crate) fn new(list: &[String]) -> Self {
        let mut names = Vec::new();
        for rule in list {
            names.push((rule.clone(), rule.clone()));
            for (name, behind) in BEHIND {
                if name == rule {
                    names.extend(behind.iter().map(|name| ((*name).to_owned(), rule.clone())));
                }
            }
        }
        Self { names }
    }

    /// The rule that a module falls under.
    pub(crate) fn rule_for(&self, module: &str) -> Option<&str> {
        let is_at_or_below = |name: &String| {
            module
                .strip_prefix(name.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.names.iter().find(|(name, _)| is_at_or_below(name)).map(|(_, rule)| rule.as_str())
    }

    /// Whether the name of a blocked module ends with this. Most names in a program do not.
    pub(crate) fn ends_with(&self, name: &str) -> bool {
        let last = |module: &str| module.rsplit('.').next() == Some(name);
        self.names.iter().any(|(module, _)| last(module))
    }

    /// The rule for a module that another has as an attribute of this name.
    pub(crate) fn rule_for_attribute(&self, name: &str) -> Option<&str> {
        self.names.iter().find(|(blocked, _)| blocked == name).map(|(_, rule)| rule.as_str())
    }
}
