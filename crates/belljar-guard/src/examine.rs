//! Looks at code: what it binds first, what it imports then.

use std::collections::HashSet;

use belljar_core::limits::{MAX_GUARD_FINDINGS, MAX_GUARD_NESTED_TEXTS};
use ruff_python_ast::{Expr, ExprCall, Mod, Stmt};
use ruff_python_parser::{Mode, ParseOptions, parse_unchecked};
use ruff_text_size::{Ranged, TextSize};

use crate::bindings::{Bindings, elements};
use crate::budget::Budget;
use crate::calls::{Takes, name_argument, relative_to_package};
use crate::modules::Blocked;
use crate::paths::{Aliases, MAX_HOPS, Scope, aliases};
use crate::walk::{Node, each};
use crate::{Finding, Findings, How, Unexamined, broken, depth};

/// What it costs to begin with a text, however short.
const STEPS_A_TEXT: usize = 32;

/// Bytes of such a text that are read as code in one step: parsing is more work than copying.
const BYTES_READ_A_STEP: usize = 4;

/// Everything blocked that some code imports.
pub(crate) fn examine(code: &str, blocked: &Blocked, budget: &Budget) -> Findings {
    let mut search =
        Search { blocked, budget, texts: HashSet::new(), places: 0, found: Vec::new() };
    search.code(code, &Around { level: 0, at: None, names: None, aliases: &Aliases::new() });
    let mut found = search.found;
    found.sort_by(|a, b| (a.at, &a.module, a.how).cmp(&(b.at, &b.module, b.how)));
    let mut lines = Lines { code, at: 0, line: 1, start: 0 };
    let mut imports: Vec<Finding> = Vec::new();
    for Found { at, module, rule, how } in found {
        let (line, column) = lines.position(at.to_usize());
        let known = |other: &Finding| other.line == line && other.module == module;
        if !imports.iter().rev().take_while(|other| other.line == line).any(known) {
            imports.push(Finding { module, rule, line, column, how });
        }
    }
    Findings { imports, unexamined: budget.over() }
}

/// Where code stands: in a file, or in a string that other code runs.
struct Around<'a> {
    level: usize,
    /// What runs the string.
    at: Option<TextSize>,
    names: Option<&'a Bindings<'a>>,
    aliases: &'a Aliases,
}

struct Found {
    at: TextSize,
    module: String,
    rule: String,
    how: How,
}

struct Search<'b> {
    blocked: &'b Blocked,
    budget: &'b Budget,
    /// Texts that were looked at, and the place each stood in: what its names mean is decided
    /// there.
    texts: HashSet<(usize, String)>,
    /// Places so far.
    places: usize,
    found: Vec<Found>,
}

impl Search<'_> {
    fn code(&mut self, code: &str, around: &Around<'_>) -> Option<()> {
        if !depth::is_bounded(code) {
            return self.budget.end(Unexamined::TooDeep);
        }
        let parsed = parse_unchecked(code, ParseOptions::from(Mode::Module));
        let Mod::Module(module) = parsed.syntax() else { return None };
        let names = Bindings::of(&module.body, around.names);
        let aliases = aliases(&names, around.aliases, self.budget)?;
        let scope =
            Scope { names: &names, aliases: &aliases, budget: self.budget, within_crowd: false };
        self.places += 1;
        let place = Place { scope, number: self.places, level: around.level, at: around.at };
        each(&module.body, |node| match node {
            Node::Stmt(stmt) => self.statement(stmt, &place),
            Node::Expr(expr) => self.expression(expr, &place),
            Node::Comprehension(_) | Node::Parameters(_) | Node::Pattern(_) | Node::Element(_) => {}
        });
        if parsed.has_invalid_syntax() {
            for (module, at) in broken::imports(code, parsed.tokens()) {
                self.module(&module, at, How::Statement, &place);
            }
        }
        self.budget.over().is_none().then_some(())
    }

    fn statement(&mut self, stmt: &Stmt, place: &Place<'_>) {
        match stmt {
            Stmt::Import(import) => {
                for alias in &import.names {
                    self.module(&alias.name, alias.start(), How::Statement, place);
                }
            }
            Stmt::ImportFrom(import) if import.level == 0 => {
                let Some(module) = &import.module else { return };
                if self.module(module, import.start(), How::Statement, place) {
                    return;
                }
                for alias in &import.names {
                    let whole = format!("{module}.{}", alias.name);
                    if !self.module(&whole, alias.start(), How::Statement, place) {
                        self.attribute(&alias.name, alias.start(), place);
                    }
                }
            }
            _ => {}
        }
    }

    fn expression(&mut self, expr: &Expr, place: &Place<'_>) {
        match expr {
            Expr::Call(call) => {
                self.call(call, place);
                if let [_, name, ..] = &*call.arguments.args
                    && place.scope.paths(&call.func).iter().any(|path| path == "builtins.getattr")
                    && place.scope.strings(name).iter().any(|name| self.blocked.ends_with(name))
                {
                    self.reached(expr, place);
                }
            }
            Expr::Attribute(attribute) if self.blocked.ends_with(&attribute.attr) => {
                self.reached(expr, place);
            }
            Expr::Subscript(subscript) => {
                let tables = place.scope.paths(&subscript.value);
                if tables.is_empty() {
                    return;
                }
                let keys = place.scope.strings(&subscript.slice);
                if tables.iter().any(|path| path == "sys.modules") {
                    for name in &keys {
                        self.module(name, expr.start(), How::Loaded, place);
                    }
                }
                if keys.iter().any(|key| self.blocked.ends_with(key)) {
                    self.reached(expr, place);
                }
            }
            _ => {}
        }
    }

    /// `shutil.os`, or `os.path` where only that is blocked.
    fn reached(&mut self, expr: &Expr, place: &Place<'_>) {
        for path in place.scope.paths(expr) {
            let Some((module, name)) = path.rsplit_once('.') else { continue };
            // What is below a blocked module was found where that was reached.
            if path.starts_with("builtins.") || self.blocked.rule_for(module).is_some() {
                continue;
            }
            if !self.module(&path, expr.start(), How::Attribute, place) {
                self.attribute(name, expr.start(), place);
            }
        }
    }

    fn call(&mut self, call: &ExprCall, place: &Place<'_>) {
        let arguments = || {
            let named = call.arguments.keywords.iter().map(|keyword| &keyword.value);
            call.arguments.args.iter().chain(named)
        };
        for takes in place.scope.takes(&call.func) {
            let texts: Vec<&Expr> = match takes {
                Takes::Module | Takes::Loaded => name_argument(call).into_iter().collect(),
                Takes::Code => arguments().collect(),
            };
            for argument in texts {
                for text in place.scope.strings(argument) {
                    self.given(takes, call, text, place);
                }
            }
            for unpacked in call.arguments.args.iter().filter(|argument| argument.is_starred_expr())
            {
                self.given_all(takes, call, unstarred(unpacked), place);
            }
            for unpacked in call.arguments.keywords.iter().filter(|keyword| keyword.arg.is_none()) {
                self.given_all(takes, call, &unpacked.value, place);
            }
        }
        // `map(__import__, ["os"])`: who hands on such a function hands on its argument, too.
        for takes in arguments().flat_map(|argument| place.scope.takes(argument)) {
            for argument in arguments() {
                for text in place.scope.strings(argument) {
                    self.given(takes, call, text, place);
                }
                self.given_all(takes, call, unstarred(argument), place);
            }
        }
    }

    fn given_all(&mut self, takes: Takes, call: &ExprCall, list: &Expr, place: &Place<'_>) {
        let values: Vec<&Expr> = match list {
            Expr::Dict(dict) => dict.iter_values().collect(),
            _ => elements(list).unwrap_or_default().iter().collect(),
        };
        for element in values {
            for text in place.scope.strings(element) {
                self.given(takes, call, text, place);
            }
        }
    }

    /// A function is given text.
    fn given(&mut self, takes: Takes, call: &ExprCall, text: String, place: &Place<'_>) {
        match takes {
            Takes::Module => {
                let name = relative_to_package(place.scope, call, text, MAX_HOPS);
                self.module(&name, call.start(), How::Call, place);
            }
            Takes::Loaded => {
                self.module(&text, call.start(), How::Loaded, place);
            }
            Takes::Code => self.text(text, call.start(), place),
        }
    }

    /// Code in a string.
    fn text(&mut self, text: String, at: TextSize, place: &Place<'_>) {
        if place.level >= MAX_GUARD_NESTED_TEXTS {
            let _: Option<()> = self.budget.end(Unexamined::TooMuch);
        }
        let at = place.at.unwrap_or(at);
        if self.budget.text(text.len()).is_none() {
            return;
        }
        // Within one place a text means the same each time.
        let key = (place.number, text);
        let steps = STEPS_A_TEXT + key.1.len() / BYTES_READ_A_STEP;
        if self.texts.contains(&key) || self.budget.take(steps).is_none() {
            return;
        }
        let around = Around {
            level: place.level + 1,
            at: Some(at),
            names: Some(place.scope.names),
            aliases: place.scope.aliases,
        };
        let _ = self.code(key.1.trim_start_matches([' ', '\t']), &around);
        self.texts.insert(key);
    }

    /// A module of this name is wanted. Tells whether it is blocked.
    fn module(&mut self, name: &str, at: TextSize, how: How, place: &Place<'_>) -> bool {
        let rule = self.blocked.rule_for(name).map(str::to_owned);
        rule.is_some_and(|rule| self.add(name, rule, at, how, place))
    }

    /// Another module's attribute of this name is wanted.
    fn attribute(&mut self, name: &str, at: TextSize, place: &Place<'_>) -> bool {
        let rule = self.blocked.rule_for_attribute(name).map(str::to_owned);
        rule.is_some_and(|rule| self.add(name, rule, at, How::Attribute, place))
    }

    fn add(&mut self, name: &str, rule: String, at: TextSize, how: How, place: &Place<'_>) -> bool {
        let how = if place.at.is_some() { How::Text } else { how };
        // The name can be any text of the guest; it is shown to people.
        let plain = name.len() <= 100
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let module = if plain { name.to_owned() } else { rule.clone() };
        if self.found.len() < MAX_GUARD_FINDINGS {
            self.found.push(Found { at: place.at.unwrap_or(at), module, rule, how });
        }
        true
    }
}

/// The code that is looked at.
struct Place<'a> {
    scope: Scope<'a>,
    /// No other place has it.
    number: usize,
    level: usize,
    at: Option<TextSize>,
}

fn unstarred(expr: &Expr) -> &Expr {
    match expr {
        Expr::Starred(starred) => &starred.value,
        _ => expr,
    }
}

/// Lines and columns of places in rising order.
struct Lines<'a> {
    code: &'a str,
    /// How far it has come, the line there, and where that begins.
    at: usize,
    line: usize,
    start: usize,
}

impl Lines<'_> {
    fn position(&mut self, offset: usize) -> (usize, usize) {
        let bytes = self.code.as_bytes();
        while self.at < offset {
            let next = bytes.get(self.at + 1);
            match bytes.get(self.at) {
                Some(b'\n') => self.newline(),
                Some(b'\r') if next != Some(&b'\n') => self.newline(),
                _ => {}
            }
            self.at += 1;
        }
        let column = self.code.get(self.start..offset).map_or(0, |text| text.chars().count());
        (self.line, column + 1)
    }

    fn newline(&mut self) {
        self.line += 1;
        self.start = self.at + 1;
    }
}
