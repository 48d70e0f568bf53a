//! Which modules are blocked, and what to use instead.

use std::collections::{HashMap, HashSet};

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

/// The list, with what stands behind it. Looking something up costs the same however long it is.
pub(crate) struct Blocked {
    /// Each name, its place in the list, and the rule of the policy it comes from.
    rules: HashMap<String, (usize, String)>,
    /// How the names end: `path` for `os.path`.
    ends: HashSet<String>,
    /// The length of the longest name.
    longest: usize,
}

impl Blocked {
    pub(crate) fn new(list: &[String]) -> Self {
        let mut blocked = Self { rules: HashMap::new(), ends: HashSet::new(), longest: 0 };
        for rule in list {
            blocked.add(rule, rule);
            for (name, behind) in BEHIND {
                if name == rule {
                    behind.iter().for_each(|name| blocked.add(name, rule));
                }
            }
        }
        blocked
    }

    fn add(&mut self, name: &str, rule: &str) {
        let place = self.rules.len();
        self.rules.entry(name.to_owned()).or_insert_with(|| (place, rule.to_owned()));
        self.ends.insert(name.rsplit('.').next().unwrap_or(name).to_owned());
        self.longest = self.longest.max(name.len());
    }

    /// The rule that a module falls under: the first in the list.
    pub(crate) fn rule_for(&self, module: &str) -> Option<&str> {
        let dots = module.match_indices('.').map(|(at, _)| at);
        let ends = dots.chain([module.len()]).take_while(|end| *end <= self.longest);
        let rules = ends.filter_map(|end| self.rules.get(module.get(..end)?));
        rules.min_by_key(|(place, _)| *place).map(|(_, rule)| rule.as_str())
    }

    /// Whether the name of a blocked module ends with this. Most names in a program do not.
    pub(crate) fn ends_with(&self, name: &str) -> bool {
        self.ends.contains(name)
    }

    /// The rule for a module that another has as an attribute of this name.
    pub(crate) fn rule_for_attribute(&self, name: &str) -> Option<&str> {
        self.rules.get(name).map(|(_, rule)| rule.as_str())
    }
}
