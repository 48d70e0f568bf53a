//! Hiding an import from the guard. The guard is a rail and no wall: one table holds what it finds,
//! the other what it is known not to find, so that `docs/import-guard.md` stays true. Every trick
//! is also played with a module that is allowed.

use belljar::{
    Backend, DANGEROUS_IMPORTS, RuntimeType, SandboxConfig, SandboxError, SandboxLogger,
    StateAfter, Status, create_sandbox,
};
use support::{Cells, Expect, Jar, attacked, attacked_natively, exclusive, permitted};

/// A way to get at a module.
struct Trick {
    name: &'static str,
    code: &'static str,
    /// With the module that is allowed, where exchanging the names is not enough.
    twin: &'static str,
}

const fn trick(name: &'static str, code: &'static str, twin: &'static str) -> Trick {
    Trick { name, code, twin }
}

const fn same(name: &'static str, code: &'static str) -> Trick {
    trick(name, code, "")
}

/// Each leaves a module as `m`: `os`, which is blocked, or its twin `re`.
const FOUND: &[Trick] = &[
    same("a statement", "import os as m"),
    same("a statement over two lines", "import \\\n  os as m"),
    same("after a semicolon", "x = 1; import os as m"),
    same("in a function", "def f():\n    import os\n    return os\nm = f()"),
    same("in a class", "class A:\n    import os\nm = A.os"),
    same("where an error is expected", "try:\n    import os as m\nexcept ImportError:\n    pass"),
    same("after an await", "import asyncio\nawait asyncio.sleep(0)\nimport os as m"),
    trick("letters that look alike", "import ｏｓ as m", "import ｒｅ as m"),
    same("from a module that has it", "from shlex import os as m"),
    same("an attribute of a module", "import shlex\nm = shlex.os"),
    trick(
        "an attribute by name",
        "import shlex\nm = getattr(shlex, 'o' + 's')",
        "import shlex\nm = getattr(shlex, 'r' + 'e')",
    ),
    same("a module's dictionary", "import shlex\nm = vars(shlex)['os']"),
    same("a function's globals", "import shlex\nm = shlex.split.__globals__['os']"),
    same("modules that are loaded", "import sys, shlex\nm = sys.modules['os']"),
    same(
        "modules that are loaded, asked",
        "from sys import modules as x\nimport shlex\nm = x.get('os')",
    ),
    same("__import__", "m = __import__('os')"),
    same("its argument by name", "m = __import__(name='os')"),
    same("its argument in a list", "m = __import__(*['os'])"),
    same("builtins", "import builtins as b\nm = b.__import__('os')"),
    same("builtins by name", "import builtins\nm = getattr(builtins, '__imp' + 'ort__')('os')"),
    same("builtins as a dictionary", "import builtins\nm = vars(builtins)['__import__']('os')"),
    same("importlib", "import importlib\nm = importlib.import_module('os')"),
    same("importlib by another name", "from importlib import import_module as x\nm = x('os')"),
    same("importlib with everything", "from importlib import *\nm = import_module('os')"),
    same("importlib imported by a call", "m = __import__('importlib').import_module('os')"),
    same(
        "a specification",
        "import importlib.util as u\nm = u.module_from_spec(u.find_spec('os'))",
    ),
    same("pkgutil", "import pkgutil\nm = pkgutil.resolve_name('os')"),
    same("an alias", "x = __import__\nm = x('os')"),
    same("an alias of an alias", "x = __import__\ny = x\nz = y\nm = z('os')"),
    same("an alias on the way", "m = (x := __import__)('os')"),
    same("a function in a list", "m = [len, __import__][1]('os')"),
    same("a function in a dictionary", "m = {'f': __import__}['f']('os')"),
    same("a default argument", "def f(x=__import__, n='os'): return x(n)\nm = f()"),
    same("map", "m = list(map(__import__, ['os']))[0]"),
    same("a partial function", "import functools\nm = functools.partial(__import__, 'os')()"),
    same("a loop", "for n in ['json', 'os']: m = __import__(n)"),
    same("a variable", "n = 'os'\nm = __import__(n)"),
    trick("a sum", "m = __import__('o' + 's')", "m = __import__('r' + 'e')"),
    trick(
        "a joined list",
        "m = __import__(''.join(['o', 's']))",
        "m = __import__(''.join(['r', 'e']))",
    ),
    trick("reversed", "m = __import__('so'[::-1])", "m = __import__('er'[::-1])"),
    trick(
        "numbers of letters",
        "m = __import__(chr(111) + chr(115))",
        "m = __import__(chr(114) + chr(101))",
    ),
    trick(
        "numbers, mapped",
        "m = __import__(''.join(map(chr, [111, 115])))",
        "m = __import__(''.join(map(chr, [114, 101])))",
    ),
    trick(
        "numbers, shifted",
        "m = __import__(''.join(chr(c + 1) for c in [110, 114]))",
        "m = __import__(''.join(chr(c + 1) for c in [113, 100]))",
    ),
    same("bytes", "m = __import__(b'os'.decode())"),
    trick(
        "hexadecimal",
        "m = __import__(bytes.fromhex('6f73').decode())",
        "m = __import__(bytes.fromhex('7265').decode())",
    ),
    trick("an f-string", "x = 'o'\nm = __import__(f'{x}s')", "x = 'r'\nm = __import__(f'{x}e')"),
    trick(
        "a format",
        "m = __import__('{}{}'.format('o', 's'))",
        "m = __import__('{}{}'.format('r', 'e'))",
    ),
    trick(
        "a percent format",
        "m = __import__('%s%s' % ('o', 's'))",
        "m = __import__('%s%s' % ('r', 'e'))",
    ),
    trick("in capitals", "m = __import__('OS'.lower())", "m = __import__('RE'.lower())"),
    same("a replacement", "m = __import__('XS'.replace('XS', 'os'))"),
    same("exec", "exec('import os as m')"),
    same("exec of a sum", "x = 'import '\nexec(x + 'os as m')"),
    same("exec of an exec", "exec('exec(\"import os as m\")')"),
    same("exec of compiled code", "exec(compile('import os as m', '<x>', 'exec'))"),
    same("eval", "m = eval('__import__(\"os\")')"),
    same("exec by another name", "x = exec\nx('import os as m')"),
    same(
        "a text that means something else the second time",
        "x = str\nt = \"m = x('os')\"\nexec(t)\nexec('x = __import__\\nexec(t)')",
    ),
    same(
        "everything of importlib, used in a text",
        "from importlib import *\nexec(\"m = import_module('os')\")",
    ),
    trick(
        "a name that is also a parameter",
        "def f(n): return n\nn = 'o'\nm = __import__(n + 's')",
        "def f(n): return n\nn = 'r'\nm = __import__(n + 'e')",
    ),
];

/// Known not to be found. What only shows when the code runs, the guard does not see.
const NOT_FOUND: &[Trick] = &[
    trick(
        "an encoding",
        "import base64\nm = __import__(base64.b64decode('b3M=').decode())",
        "import base64\nm = __import__(base64.b64decode('cmU=').decode())",
    ),
    trick(
        "a cipher",
        "import codecs\nm = __import__(codecs.decode('bf', 'rot13'))",
        "import codecs\nm = __import__(codecs.decode('er', 'rot13'))",
    ),
    same("an argument of a function of its own", "def f(n): return __import__(n)\nm = f('os')"),
    same("what a function of its own returns", "def f(): return 'os'\nm = __import__(f())"),
    same("an attribute of an object", "class A: n = 'os'\nm = __import__(A.n)"),
    same("a value in a dictionary", "d = {'n': 'os'}\nm = __import__(d['n'])"),
    trick(
        "a text that is added to",
        "n = 'o'\nn += 's'\nm = __import__(n)",
        "n = 'r'\nn += 'e'\nm = __import__(n)",
    ),
    trick(
        "a part that has had another value",
        "n = 'x'\nn = 'o'\nm = __import__(n + 's')",
        "n = 'x'\nn = 'r'\nm = __import__(n + 'e')",
    ),
    same("a loop that adds letters", "n = ''\nfor c in 'os': n += c\nm = __import__(n)"),
    same("a file", "open('n', 'w').write('os')\nm = __import__(open('n').read())"),
    same("a module of its own", "open('own.py', 'w').write('import os as m')\nfrom own import m"),
    same("a frame's builtins", "import sys\nm = sys._getframe().f_builtins['__import__']('os')"),
    same(
        "a class found by looking around",
        "import shlex\nfor c in object.__subclasses__():\n    \
         if c.__name__ == 'shlex': m = c.__init__.__globals__['os']",
    ),
    same("a pickle", "import pickle\nm = type(pickle.loads(b'cos\\n__name__\\n.'), (), {})"),
];

/// The same trick with the module that is allowed.
fn twin(trick: &Trick) -> String {
    match trick.twin {
        "" => trick.code.replace("os", "re"),
        written => written.to_owned(),
    }
}

fn shown(code: &str) -> String {
    format!("{code}\nprint(m.__name__)")
}

fn guarded() -> Jar {
    Jar::new().with(|layer| layer.block_dangerous_imports(true))
}

#[test]
fn hidden_imports_that_are_found() {
    let jar = guarded();
    attacked(&jar, "hidden imports", || {
        for Trick { name, code, .. } in FOUND {
            let result = jar.run(&shown(code));
            assert_eq!(result.meta.blocked_imports, ["os"], "{name}");
            result.ended(Status::Blocked, 1).changed(&[], &[], &[]);
        }
    });
    for trick in FOUND {
        let code = twin(trick);
        let result = permitted(&guarded(), &shown(&code));
        assert_eq!(result.stdout, "re\n", "{}: {code}\n{}", trick.name, result.stderr);
    }
}

#[test]
fn hidden_imports_that_are_not_found() {
    for trick in NOT_FOUND {
        for (code, module) in [(trick.code.to_owned(), "os\n"), (twin(trick), "re\n")] {
            let result = permitted(&guarded(), &shown(&code));
            assert_eq!(result.stdout, module, "{}: {code}\n{}", trick.name, result.stderr);
        }
    }
}

#[test]
fn an_alias_from_an_earlier_cell_is_not_found() {
    let _alone = exclusive();
    let mut session = guarded().open_session(());
    session.run("x = __import__").kept(Status::Ok);
    session.run("print(x('os').__name__)").printed("os\n");
}

#[test]
fn modules_behind_modules() {
    for name in ["posix", "_socket", "_posixsubprocess"] {
        let code = format!("import {name}");
        let result = attacked(&guarded(), &code, || guarded().run(&code));
        result.ended(Status::Blocked, 1);
        assert_eq!(result.meta.blocked_imports, [name]);
    }
    permitted(&guarded(), "import _json; print(1)").printed("1\n");
}

#[test]
fn code_too_deep_to_examine() {
    for code in ["(".repeat(100_000), format!("x{}", ".a".repeat(400_000)), "-".repeat(100_000)] {
        let jar = guarded();
        let result = attacked(&jar, "deep code", || jar.run(&code));
        result.ended(Status::Blocked, 1);
        assert_eq!(result.meta.blocked_imports, Vec::<String>::new());
        assert!(result.stderr.contains("nested too deeply"), "{}", result.stderr);
    }
    permitted(&guarded(), &format!("print({}1{})", "(".repeat(50), ")".repeat(50))).printed("1\n");
    permitted(&guarded(), &format!("print(0{})", " + 1".repeat(500))).printed("500\n");
}

#[test]
fn code_too_long_to_examine() {
    let long = |bytes: usize| format!("print(1) #{}", "x".repeat(bytes));
    let jar = guarded();
    let result = attacked(&jar, "long code", || jar.run(&long(1024 * 1024)));
    result.ended(Status::Blocked, 1);
    assert!(result.stderr.contains("longer than 1 MiB"), "{}", result.stderr);
    permitted(&guarded(), &long(1000 * 1024)).printed("1\n");
    permitted(&Jar::new(), &long(1024 * 1024)).printed("1\n");
}

#[test]
fn code_that_does_not_parse_is_the_interpreters_business() {
    let result = permitted(&guarded(), "x = = 1");
    result.raised("SyntaxError", "invalid syntax (<sandbox>, line 1)");
    let jar = guarded();
    let result = attacked(&jar, "broken code", || jar.run("x = = 1\nimport os"));
    result.ended(Status::Blocked, 1);
}

/// Nothing is started, nothing is touched, and a session goes on.
fn leaves_everything_alone(jar: &Jar) {
    let mut session = jar.open_session(());
    session.run("x = 41").kept(Status::Ok);
    let result = session.run("x = 0\nopen('file', 'w').close()\nimport socket");
    result.ended(Status::Blocked, 1).changed(&[], &[], &[]);
    assert_eq!(result.meta.state, Some(StateAfter::Kept));
    assert!(!jar.workspace().join("file").exists());
    session.run("x + 1").gave(42);
    let mut once = jar.open();
    once.run("open('file', 'w').close()\nimport os").ended(Status::Blocked, 1);
    assert!(!jar.workspace().join("file").exists());
    assert_eq!(once.check_code("import os"), Ok(None), "checking runs nothing");
    once.run("import re; print(re.__name__)").printed("re\n");
}

#[test]
fn a_blocked_cell_of_a_session() {
    let jar = guarded();
    attacked(&jar, "a blocked cell", || leaves_everything_alone(&jar));
}

#[test]
fn a_blocked_cell_of_a_jailed_session() {
    let jar = Jar::native().with(|layer| layer.block_dangerous_imports(true));
    attacked_natively(&jar, "a blocked cell", || leaves_everything_alone(&jar));
}

#[test]
fn a_blocked_import_in_pyodide() {
    let jar = guarded();
    let Some(config) = jar.pyodide("a_blocked_import_in_pyodide") else { return };
    let _alone = exclusive();
    let mut sandbox = create_sandbox(&config).expect("a sandbox");
    sandbox.run("import subprocess").ended(Status::Blocked, 1);
    sandbox.run("import re; print(re.__name__)").printed("re\n");
}

#[test]
fn suggestions_are_logged() {
    let _alone = exclusive();
    let (logger, log) = SandboxLogger::captured();
    let jar = guarded();
    let config = SandboxConfig { logger: Some(logger), ..jar.config() };
    create_sandbox(&config).expect("a sandbox").run("import shutil").ended(Status::Blocked, 1);
    let events = log.events();
    let logged = events.iter().find(|event| event["event"] == "security").expect("an event");
    assert_eq!(logged["event_type"], "blocked_import");
    let detail = logged["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("instead of shutil, use pathlib"), "{detail}");
}

#[test]
fn a_list_for_javascript_is_refused_rather_than_ignored() {
    let jar = guarded();
    for backend in [Backend::Wasm, Backend::Native] {
        let config = SandboxConfig { runtime: RuntimeType::Javascript, backend, ..jar.config() };
        let error = create_sandbox(&config).err().expect("a refusal");
        assert!(matches!(error, SandboxError::Unenforceable { .. }), "{error}");
        let hint = error.hint().unwrap_or_default();
        assert_eq!(hint, "leave block_imports away: the import guard reads Python only");
    }
    assert_eq!(DANGEROUS_IMPORTS, ["os", "subprocess", "shutil", "socket"]);
}
