//! Functions that import, and functions that run text.

use ruff_python_ast::{Expr, ExprCall};

use crate::paths::Scope;

/// Functions whose argument is the name of a module to import or to find.
const IMPORTERS: [&str; 15] = [
    "builtins.__import__",
    "importlib.__import__",
    "importlib.import_module",
    "importlib.find_loader",
    "importlib.util.find_spec",
    "importlib._bootstrap.__import__",
    "importlib._bootstrap._gcd_import",
    "_frozen_importlib.__import__",
    "_frozen_importlib._gcd_import",
    "imp.find_module",
    "pkgutil.find_loader",
    "pkgutil.get_loader",
    "pkgutil.resolve_name",
    "pydoc.locate",
    "runpy.run_module",
];

/// Methods that import, of whatever object.
const IMPORTING_METHODS: [&str; 7] = [
    "__import__",
    "_gcd_import",
    "find_module",
    "find_spec",
    "import_module",
    "load_module",
    "run_module",
];

/// Functions that run, or prepare to run, text as code.
const RUNNERS: [&str; 8] = [
    "builtins.compile",
    "builtins.eval",
    "builtins.exec",
    "cProfile.run",
    "profile.run",
    "timeit.Timer",
    "timeit.repeat",
    "timeit.timeit",
];

/// Methods of `sys.modules` that give a module.
const LOOKUPS: [&str; 4] =
    ["sys.modules.__getitem__", "sys.modules.get", "sys.modules.pop", "sys.modules.setdefault"];

/// What a function does with the text it is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Imports the module of that name.
    Module,
    /// Runs it.
    Code,
    /// Looks for a module that is loaded.
    Loaded,
}

pub(crate) fn is_importer(path: &str) -> bool {
    IMPORTERS.contains(&path)
}

impl Scope<'_> {
    /// What a function does with text, if it is one of those above.
    pub(crate) fn takes(self, function: &Expr) -> Vec<Takes> {
        let mut takes = Vec::new();
        for path in self.paths(function) {
            if is_importer(&path) {
                takes.push(Takes::Module);
            } else if RUNNERS.contains(&path.as_str()) {
                takes.push(Takes::Code);
            } else if LOOKUPS.contains(&path.as_str()) {
                takes.push(Takes::Loaded);
            }
        }
        if let Expr::Attribute(method) = function
            && IMPORTING_METHODS.contains(&method.attr.as_str())
            && !takes.contains(&Takes::Module)
        {
            takes.push(Takes::Module);
        }
        takes
    }
}

/// The argument that names a module.
pub(crate) fn name_argument(call: &ExprCall) -> Option<&Expr> {
    let by_name = |name: &str| call.arguments.find_keyword(name).map(|keyword| &keyword.value);
    let first = call.arguments.args.first();
    first
        .or_else(|| by_name("name"))
        .or_else(|| by_name("fullname"))
        .or_else(|| by_name("mod_name"))
}

/// `import_module(".path", "os")` is `os.path`. A name for `resolve_name` ends at a colon.
pub(crate) fn relative_to_package(
    scope: Scope<'_>,
    call: &ExprCall,
    name: String,
    hops: usize,
) -> String {
    let name = name.split(':').next().unwrap_or_default().to_owned();
    if !name.starts_with('.') {
        return name;
    }
    let package = call.arguments.find_argument_value("package", 1);
    let packages = package.map(|package| scope.strings_within(package, hops)).unwrap_or_default();
    match packages.first() {
        Some(package) => format!("{package}.{}", name.trim_start_matches('.')),
        None => name,
    }
}
