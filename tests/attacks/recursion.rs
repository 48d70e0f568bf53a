//! Going too deep.

use belljar::Status;
use support::{Expect, Jar, attack, permitted};

#[track_caller]
fn raises(code: &str, name: &str, message: &str) {
    attack(&Jar::new(), code).raised(name, message);
}

#[track_caller]
fn is_contained(code: &str, status: Status) {
    attack(&Jar::new(), code).ended(status, -1);
}

#[test]
fn plain_recursion() {
    raises("def f(): f()\nf()", "RecursionError", "maximum recursion depth exceeded");
    let code = "def f(n): return n and 1 + f(n - 1)\nprint(f(900))";
    permitted(&Jar::new(), code).printed("900\n");
}

#[test]
fn recursion_with_the_limit_raised() {
    let code = "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()";
    is_contained(code, Status::OutOfMemory);
    let code = "import sys\nsys.setrecursionlimit(50_000)\ndef f(n): return n and 1 + f(n - 1)\n\
                print(f(20_000))";
    permitted(&Jar::new(), code).printed("20000\n");
}

#[test]
fn recursion_through_special_methods() {
    for method in ["__repr__", "__hash__", "__len__", "__eq__"] {
        let call = match method {
            "__repr__" => "repr(A())",
            "__hash__" => "hash(A())",
            "__len__" => "len(A())",
            _ => "A() == A()",
        };
        let inner = call.replace("A()", "self");
        let code = format!("class A:\n  def {method}(self, *a): return {inner}\n{call}");
        let result = attack(&Jar::new(), &code);
        result.ended(Status::Error, 1);
        assert_eq!(result.error.as_ref().map(|error| &*error.name), Some("RecursionError"));
    }
    let code = "import sys\nsys.setrecursionlimit(10**9)\nclass A:\n  \
                def __getattr__(self, n): return getattr(self, n)\nA().x";
    let result = attack(&Jar::new(), code);
    assert_ne!(result.status(), Status::Ok);
    permitted(&Jar::new(), "class A:\n  def __repr__(self): return 'A'\nprint([A()])")
        .printed("[A]\n");
}

#[test]
fn deep_nesting_in_repr_json_pickle_and_comparison() {
    let nest = "x = []\nfor _ in range(100_000): x = [x]\n";
    for (call, ending) in [
        ("repr(x)", " while getting the repr of an object"),
        ("import json; json.dumps(x)", " while encoding a JSON object"),
        ("import pickle; pickle.dumps(x)", " while pickling an object"),
        ("y = []\nfor _ in range(100_000): y = [y]\nx == y", " in comparison"),
        ("import copy; copy.deepcopy(x)", ""),
    ] {
        let message = format!("maximum recursion depth exceeded{ending}");
        raises(&format!("{nest}{call}"), "RecursionError", &message);
    }
    raises(
        "import json; json.loads('[' * 10**6)",
        "RecursionError",
        "maximum recursion depth exceeded while decoding a JSON array from a unicode string",
    );
    let code = "import json\nx = []\nfor _ in range(500): x = [x]\nprint(len(json.dumps(x)))";
    permitted(&Jar::new(), code).printed("1002\n");
}

#[test]
fn deep_nesting_torn_down() {
    let code = "x = None\nfor _ in range(300_000): x = (x,)\ndel x\nprint('fine')";
    attack(&Jar::new(), code).printed("fine\n");
}

#[test]
fn deep_source() {
    raises(
        "import ast; ast.parse('(' * 10_000 + ')' * 10_000)",
        "MemoryError",
        "Parser stack overflowed - Python source too complex to parse",
    );
    raises(
        "eval('+'.join(['1'] * 100_000))",
        "RecursionError",
        "maximum recursion depth exceeded during compilation",
    );
    raises(
        "import ast\nn = ast.Constant(1, lineno=1, col_offset=0)\n\
         for _ in range(100_000): n = ast.UnaryOp(ast.USub(), n, lineno=1, col_offset=0)\n\
         compile(ast.Expression(n), 'x', 'eval')",
        "RecursionError",
        "maximum recursion depth exceeded while traversing 'expr' node",
    );
    let result = attack(&Jar::new(), "import re; re.compile('(' * 5000 + ')' * 5000)");
    result.ended(Status::Error, 1);
    assert_eq!(result.error.as_ref().map(|error| &*error.name), Some("RecursionError"));
    permitted(&Jar::new(), "print(eval('+'.join(['1'] * 1000)))").printed("1000\n");
}

#[test]
fn deep_iterators_on_the_native_stack() {
    let code = "import itertools\nx = iter(())\nfor _ in range(200_000): x = itertools.chain(x)\n\
                next(x)";
    is_contained(code, Status::Crashed);
    let code = "import itertools\nx = iter([1])\nfor _ in range(100): x = itertools.chain(x)\n\
                print(next(x))";
    permitted(&Jar::new(), code).printed("1\n");
}

#[test]
fn deep_documents() {
    let code = "import xml.etree.ElementTree as E\n\
                print(E.fromstring('<a>' * 50_000 + '</a>' * 50_000).tag)";
    attack(&Jar::new(), code).printed("a\n");
    raises(
        "import marshal; marshal.loads(b'[' + b'\\x01\\0\\0\\0[' * 100_000)",
        "ValueError",
        "recursion limit exceeded",
    );
    raises(
        "import sqlite3\nsqlite3.connect(':memory:').execute('select ' + '(' * 100_000 + '1')",
        "OperationalError",
        "Recursion limit",
    );
}
