//! Which module, or what in a module, an expression stands for.

use std::collections::HashMap;

use ruff_python_ast::{Expr, ExprCall, ExprSubscript};

use crate::bindings::{Bindings, Bound, elements};
use crate::budget::{BYTES_A_STEP, Budget};
use crate::calls::{is_importer, name_argument, relative_to_package};

/// How deep an expression is followed.
pub(crate) const MAX_HOPS: usize = 48;

/// Aliases of aliases that are followed.
const MAX_ROUNDS: usize = 8;

/// What one name may stand for.
const MAX_PATHS: usize = 32;

/// A full name that is longer leads nowhere.
pub(crate) const MAX_PATH_BYTES: usize = 200;

/// Names that stand for something although nobody binds them.
const BUILTINS: [&str; 16] = [
    "__import__",
    "bytearray",
    "bytes",
    "chr",
    "compile",
    "eval",
    "exec",
    "getattr",
    "globals",
    "list",
    "locals",
    "map",
    "reversed",
    "str",
    "tuple",
    "vars",
];

/// Names, and which modules or things in modules they stand for.
pub(crate) type Aliases = HashMap<String, Vec<String>>;

/// What is known about a piece of code, and how much work may be done for it.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) names: &'a Bindings<'a>,
    pub(crate) aliases: &'a Aliases,
    pub(crate) budget: &'a Budget,
    /// Whether this is about one of several values of a name.
    pub(crate) within_crowd: bool,
}

/// Works out what names stand for. Names are given values by way of other names, also in circles,
/// so all are looked at again until nothing is new.
pub(crate) fn aliases(names: &Bindings<'_>, outer: &Aliases, budget: &Budget) -> Option<Aliases> {
    let copied = outer.values().map(|paths| 1 + cost(paths)).sum();
    budget.take(copied)?;
    let mut known = outer.clone();
    for _ in 0..MAX_ROUNDS {
        let scope = Scope { names, aliases: &known, budget, within_crowd: false };
        let mut new: Vec<(&str, Vec<String>)> = Vec::new();
        for (name, bounds) in names.own() {
            let mut paths = known.get(name).cloned().unwrap_or_default();
            let before = paths.len();
            for bound in bounds {
                match bound {
                    Bound::Path(path) => paths.push(path.clone()),
                    Bound::Value(value) => paths.extend(scope.paths(value)),
                    Bound::Unknown => {}
                }
            }
            paths.retain(|path| path.len() <= MAX_PATH_BYTES);
            paths.sort();
            paths.dedup();
            paths.truncate(MAX_PATHS.max(before));
            if paths.len() > before {
                new.push((name, paths));
            }
        }
        if new.is_empty() {
            break;
        }
        known.extend(new.into_iter().map(|(name, paths)| (name.to_owned(), paths)));
    }
    Some(known)
}

/// What copying full names costs.
fn cost(paths: &[String]) -> usize {
    paths.iter().map(|path| 1 + path.len() / BYTES_A_STEP).sum()
}

impl Scope<'_> {
    /// What an expression can stand for, as full names such as `importlib.import_module`.
    pub(crate) fn paths(self, expr: &Expr) -> Vec<String> {
        self.paths_within(expr, MAX_HOPS)
    }

    pub(crate) fn paths_within(self, expr: &Expr, hops: usize) -> Vec<String> {
        let Some(hops) = hops.checked_sub(1) else { return Vec::new() };
        if self.budget.take(1).is_none() {
            return Vec::new();
        }
        let all = |parts: &mut dyn Iterator<Item = &Expr>| {
            let mut paths: Vec<String> =
                parts.flat_map(|part| self.paths_within(part, hops)).collect();
            paths.sort();
            paths.dedup();
            paths
        };
        match expr {
            Expr::Name(name) => self.paths_of_name(name.id.as_str()),
            Expr::Attribute(attribute) => {
                self.inside(&attribute.value, attribute.attr.as_str(), hops)
            }
            Expr::Named(named) => self.paths_within(&named.value, hops),
            Expr::If(either) => all(&mut [&*either.body, &*either.orelse].into_iter()),
            Expr::BoolOp(operation) => all(&mut operation.values.iter()),
            Expr::Call(call) => self.paths_of_call(call, hops),
            Expr::Subscript(subscript) => match (&*subscript.value, elements(&subscript.value)) {
                (_, Some(elements)) => all(&mut elements.iter()),
                (Expr::Dict(dict), _) => all(&mut dict.iter_values()),
                _ => self.paths_of_item(subscript, hops),
            },
            _ => Vec::new(),
        }
    }

    fn paths_of_name(self, name: &str) -> Vec<String> {
        let mut paths = Vec::new();
        if let Some(known) = self.aliases.get(name) {
            if self.budget.take(cost(known)).is_none() {
                return Vec::new();
            }
            paths.clone_from(known);
        }
        for module in self.names.stars() {
            if self.budget.take(1 + name.len() / BYTES_A_STEP).is_none() {
                return Vec::new();
            }
            paths.push(format!("{module}.{name}"));
        }
        match name {
            "__builtins__" => paths.push("builtins".to_owned()),
            _ if BUILTINS.contains(&name) => paths.push(format!("builtins.{name}")),
            _ => {}
        }
        paths.sort();
        paths.dedup();
        paths
    }

    /// `value.name`, however it is written. A module's dictionary is as good as the module.
    fn inside(self, value: &Expr, name: &str, hops: usize) -> Vec<String> {
        let paths = self.paths_within(value, hops);
        let added = paths.len().saturating_mul(name.len() / BYTES_A_STEP);
        if self.budget.take(cost(&paths).saturating_add(added)).is_none() {
            return Vec::new();
        }
        match name {
            "__dict__" => paths,
            _ => paths.iter().map(|path| format!("{path}.{name}")).collect(),
        }
    }

    fn paths_of_call(self, call: &ExprCall, hops: usize) -> Vec<String> {
        let mut paths = Vec::new();
        for callee in self.paths_within(&call.func, hops) {
            let arguments = &call.arguments.args;
            match (callee.as_str(), &**arguments) {
                ("builtins.getattr", [value, name, ..]) => {
                    for name in self.strings_within(name, hops) {
                        paths.extend(self.inside(value, &name, hops));
                    }
                }
                ("builtins.vars", [value]) => paths.extend(self.paths_within(value, hops)),
                ("sys.modules.get", [name, ..]) => paths.extend(self.strings_within(name, hops)),
                ("builtins.globals" | "builtins.locals", []) => paths.push(callee),
                _ if is_importer(&callee) => {
                    let Some(name) = name_argument(call) else { continue };
                    for name in self.strings_within(name, hops) {
                        let name = relative_to_package(self, call, name, hops);
                        // `__import__` gives the outermost package.
                        let whole = !callee.ends_with("__import__") || arguments.len() > 1;
                        let root = name.split('.').next().unwrap_or(&name).to_owned();
                        paths.push(if whole { name } else { root });
                    }
                }
                _ => {}
            }
        }
        paths
    }

    fn paths_of_item(self, subscript: &ExprSubscript, hops: usize) -> Vec<String> {
        let mut paths = Vec::new();
        for table in self.paths_within(&subscript.value, hops) {
            for key in self.strings_within(&subscript.slice, hops) {
                match table.as_str() {
                    "sys.modules" => paths.push(key),
                    "builtins.globals" | "builtins.locals" => {
                        paths.extend(self.paths_of_name(&key));
                    }
                    _ => paths.push(format!("{table}.{key}")),
                }
            }
        }
        paths
    }
}
