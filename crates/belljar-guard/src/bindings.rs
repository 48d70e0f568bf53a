//! What names can stand for. Scopes are not told apart: a name stands for whatever it is given
//! anywhere in the code, which finds more than a run would, and never less for that reason.

use std::collections::{BTreeSet, HashMap};

use ruff_python_ast::{Expr, Parameters, Stmt};

use crate::paths::MAX_PATH_BYTES;
use crate::walk::{Node, each};

/// What a name is bound to somewhere.
pub(crate) enum Bound<'a> {
    /// A module or something in one, by its full name.
    Path(String),
    /// The value of an expression.
    Value(&'a Expr),
    /// Something that only a run would show.
    Unknown,
}

impl<'a> Bound<'a> {
    pub(crate) fn value(&self) -> Option<&'a Expr> {
        match self {
            Self::Value(value) => Some(value),
            Self::Path(_) | Self::Unknown => None,
        }
    }
}

/// The names of a piece of code, and of the code around it if it stands in a string.
#[derive(Default)]
pub(crate) struct Bindings<'a> {
    bound: HashMap<&'a str, Vec<Bound<'a>>>,
    /// Modules all names of which were imported.
    stars: BTreeSet<&'a str>,
    outer: Option<&'a Bindings<'a>>,
}

impl<'a> Bindings<'a> {
    pub(crate) fn of(body: &'a [Stmt], outer: Option<&'a Bindings<'a>>) -> Self {
        let mut names = Self { outer, ..Self::default() };
        each(body, |node| match node {
            Node::Stmt(stmt) => names.statement(stmt),
            Node::Expr(Expr::Named(named)) => names.assign(&named.target, &named.value),
            Node::Comprehension(part) => names.one_of(&part.target, &part.iter),
            Node::Parameters(list) => names.parameters(list),
            Node::Expr(_) | Node::Pattern(_) | Node::Element(_) => {}
        });
        names
    }

    /// Everything a name is bound to, the code's own first.
    pub(crate) fn get(&self, name: &str) -> impl Iterator<Item = &Bound<'a>> {
        let levels = std::iter::successors(Some(self), |names| names.outer);
        levels.filter_map(move |names| names.bound.get(name)).flatten()
    }

    /// The code's own names.
    pub(crate) fn own(&self) -> impl Iterator<Item = (&'a str, &[Bound<'a>])> {
        self.bound.iter().map(|(name, bound)| (*name, bound.as_slice()))
    }

    /// Modules all names of which were imported, here or in the code around.
    pub(crate) fn stars(&self) -> impl Iterator<Item = &'a str> {
        let levels = std::iter::successors(Some(self), |names| names.outer);
        levels.flat_map(|names| names.stars.iter().copied())
    }

    fn bind(&mut self, name: &'a str, bound: Bound<'a>) {
        self.bound.entry(name).or_default().push(bound);
    }

    fn statement(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    let name = alias.name.as_str();
                    match &alias.asname {
                        Some(short) => self.bind(short.as_str(), Bound::Path(name.to_owned())),
                        None => {
                            let root = name.split('.').next().unwrap_or(name);
                            self.bind(root, Bound::Path(root.to_owned()));
                        }
                    }
                }
            }
            Stmt::ImportFrom(import) => {
                let module = import.module.as_deref().filter(|_| import.level == 0);
                for alias in &import.names {
                    let name = alias.name.as_str();
                    let short = alias.asname.as_ref().map_or(name, |short| short.as_str());
                    match module {
                        Some(module) if name == "*" => {
                            // A full name that is longer leads nowhere.
                            if module.len() <= MAX_PATH_BYTES {
                                self.stars.insert(module);
                            }
                        }
                        Some(module) => self.bind(short, Bound::Path(format!("{module}.{name}"))),
                        None => self.bind(short, Bound::Unknown),
                    }
                }
            }
            Stmt::Assign(assign) => {
                for target in &assign.targets {
                    self.assign(target, &assign.value);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.assign(&assign.target, value);
                }
            }
            Stmt::AugAssign(assign) => self.unknown(&assign.target),
            Stmt::For(each) => self.one_of(&each.target, &each.iter),
            Stmt::With(with) => {
                for target in with.items.iter().filter_map(|item| item.optional_vars.as_deref()) {
                    self.unknown(target);
                }
            }
            Stmt::FunctionDef(function) => self.bind(function.name.as_str(), Bound::Unknown),
            Stmt::ClassDef(class) => self.bind(class.name.as_str(), Bound::Unknown),
            _ => {}
        }
    }

    fn parameters(&mut self, list: &'a Parameters) {
        for parameter in list.iter() {
            let bound = parameter.default().map_or(Bound::Unknown, Bound::Value);
            self.bind(parameter.name().as_str(), bound);
        }
    }

    /// `target = value`, part by part where both have parts.
    fn assign(&mut self, target: &'a Expr, value: &'a Expr) {
        if let Expr::Name(name) = target {
            return self.bind(name.id.as_str(), Bound::Value(value));
        }
        let Some(targets) = elements(target) else { return };
        match elements(value) {
            Some(values) if values.len() == targets.len() => {
                for (target, value) in targets.iter().zip(values) {
                    match target {
                        Expr::Name(name) => self.bind(name.id.as_str(), Bound::Value(value)),
                        _ => self.unknown(target),
                    }
                }
            }
            _ => self.unknown(target),
        }
    }

    /// `for target in values`.
    fn one_of(&mut self, target: &'a Expr, values: &'a Expr) {
        match (target, elements(values)) {
            (Expr::Name(name), Some(values)) => {
                for value in values {
                    self.bind(name.id.as_str(), Bound::Value(value));
                }
            }
            _ => self.unknown(target),
        }
    }

    fn unknown(&mut self, target: &'a Expr) {
        let mut waiting = vec![target];
        while let Some(target) = waiting.pop() {
            match target {
                Expr::Name(name) => self.bind(name.id.as_str(), Bound::Unknown),
                Expr::Starred(starred) => waiting.push(&starred.value),
                _ => waiting.extend(elements(target).unwrap_or_default()),
            }
        }
    }
}

/// The elements of a list, a tuple or a set that is written out.
pub(crate) fn elements(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::List(list) => Some(&list.elts),
        Expr::Tuple(tuple) => Some(&tuple.elts),
        Expr::Set(set) => Some(&set.elts),
        _ => None,
    }
}
