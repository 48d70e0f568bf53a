use proptest::prelude::*;

use super::*;

fn find(code: &str) -> Findings {
    find_imports(code, &["os", "subprocess", "shutil", "socket"].map(str::to_owned))
}

/// The modules that are found, separated by spaces.
fn modules(code: &str) -> String {
    let found = find(code);
    assert_eq!(found.unexamined, None, "{code}");
    found.modules().join(" ")
}

#[track_caller]
fn finds(cases: &[(&str, &str)]) {
    for (code, expected) in cases {
        assert_eq!(modules(code), *expected, "{code}");
    }
}

#[test]
fn statements() {
    finds(&[
        ("import os", "os"),
        ("import os.path as p", "os.path"),
        ("import json, os as o, shutil", "os shutil"),
        ("from os import path", "os"),
        ("from os.path import join", "os.path"),
        ("from socket import *", "socket"),
        ("from shutil import os", "shutil"),
        ("from pathlib import os", "os"),
        ("def f():\n  class A:\n    try:\n      import os\n    finally: pass", "os"),
        ("if x: import os", "os"),
        ("import \\\n  os", "os"),
        ("x = 1; import os", "os"),
        ("import ｏｓ", "os"),
        ("\u{feff}import os", "os"),
        ("x = 1\rimport os", "os"),
        ("await f()\nasync with a: import os", "os"),
        ("match x:\n  case [a]:\n    import os", "os"),
        ("import json, osmosis, ossaudio, os_x", ""),
        ("from . import os\nfrom .os import x\nfrom .. import socket", ""),
        ("os = 1\nos.path\n'import os'\n# import os", ""),
        ("import posix, _socket, _posixsubprocess, nt", "_posixsubprocess _socket nt posix"),
    ]);
}

#[test]
fn what_is_below_a_module_is_blocked_with_it_and_not_the_other_way_round() {
    let found = |code| find_imports(code, &["os.path".to_owned()]).modules().join(" ");
    assert_eq!(found("import os"), "");
    assert_eq!(found("import os.path"), "os.path");
    assert_eq!(found("from os import path, sep"), "os.path");
    assert_eq!(found("from os.path import join"), "os.path");
    assert_eq!(found("import os as o\no.path.join('a')\no.sep"), "os.path");
    assert_eq!(found("import posixpath"), "posixpath");
}

#[test]
fn calls_and_their_aliases() {
    finds(&[
        ("__import__('os')", "os"),
        ("__import__(name='os.path')", "os.path"),
        ("__import__(*['os'])", "os"),
        ("__import__(**{'name': 'os'})", "os"),
        ("__import__('json', fromlist=['os'])", ""),
        ("__builtins__.__import__('os')", "os"),
        ("__builtins__['__import__']('os')", "os"),
        ("import builtins\nbuiltins.__import__('os')", "os"),
        ("import builtins as b\ngetattr(b, '__imp' + 'ort__')('os')", "os"),
        ("import builtins\nvars(builtins)['__import__']('os')", "os"),
        ("import builtins\nbuiltins.__dict__['__import__']('os')", "os"),
        ("import importlib\nimportlib.import_module('os')", "os"),
        ("import importlib as i\ni.import_module(name='os')", "os"),
        ("import importlib\nimportlib.__import__('os')", "os"),
        ("from importlib import import_module as im\nim('os')", "os"),
        ("from importlib import *\nimport_module('os')", "os"),
        ("import importlib\nimportlib.import_module('.path', 'os')", "os.path"),
        ("import importlib.util\nimportlib.util.find_spec('os')", "os"),
        ("imp = __import__\nimp('os')", "os"),
        ("a = b\nb = a\nb = __import__\na('os')", "os"),
        ("(f := __import__)('os')", "os"),
        ("a, b = __import__, 'os'\na(b)", "os"),
        ("[__import__][0]('os')", "os"),
        ("{'f': __import__}['f']('os')", "os"),
        ("def f(i=__import__, m='os'): return i(m)", "os"),
        ("for m in ['json', 'os']: __import__(m)", "os"),
        ("[__import__(m) for m in ('os',)]", "os"),
        ("list(map(__import__, ['os']))", "os"),
        ("import functools\nfunctools.partial(__import__, 'os')()", "os"),
        ("__import__('importlib').import_module('os')", "os"),
        ("globals()['__builtins__'].__import__('os')", "os"),
        ("x.load_module('os')", "os"),
        ("import pkgutil\npkgutil.resolve_name('os:system')", "os"),
        ("import sys\nsys.modules['os']", "os"),
        ("from sys import modules as m\nm.get('os')", "os"),
        ("import shlex\nshlex.os.getcwd()", "os"),
        ("import pathlib as p\ngetattr(p, 'os')", "os"),
        ("name = name or 'os'\n__import__(name)", "os"),
        ("__import__('json')\nimport importlib\nimportlib.import_module('json')", ""),
        ("__import__(input())\n__import__(x)\nf('os')\nx['os']\nd.get('os')", ""),
    ]);
}

#[test]
fn names_made_of_constants() {
    let made = [
        "'o' + 's'",
        "''.join(['o', 's'])",
        "''.join(('o', 's'))",
        "'so'[::-1]",
        "'xosx'[1:3]",
        "f'o{\"s\"}'",
        "f'{\"o\"}s'",
        "'OS'.lower()",
        "chr(111) + chr(115)",
        "b'os'.decode()",
        "'%s%s' % ('o', 's')",
        "'o%s' % 's'",
        "'%c%c' % (111, 115)",
        "'{}{}'.format('o', 's')",
        "'{1}{0}'.format('s', 'o')",
        "'{a}s'.format(a='o')",
        "'xs'.replace('x', 'o')",
        "' os '.strip()",
        "'o' 's'",
        "bytes([111, 115]).decode()",
        "bytes.fromhex('6f73').decode()",
        "''.join(map(chr, [111, 115]))",
        "''.join(chr(c) for c in [111, 115])",
        "''.join(chr(c - 1) for c in (112, 116))",
        "''.join(reversed('so'))",
        "str(b'os', 'ascii')",
        "'os' if x else 'json'",
        "x or 'os'",
        "'json os'.split()[1]",
        "'os' * 1",
        "'a.os'.split('.')[-1]",
        "'Os'.swapcase().upper().lower()",
        "'\\x6fs'",
        "'\\N{LATIN SMALL LETTER O}s'",
    ];
    for text in made {
        assert_eq!(modules(&format!("__import__({text})")), "os", "{text}");
        assert_eq!(modules(&format!("n = {text}\nm = n\n__import__(m)")), "os", "{text}");
    }
    assert_eq!(modules("import string as s\n__import__(s.ascii_lowercase[14] + 's')"), "os");
    assert_eq!(modules("__import__('o' + x)\n__import__('os'[5])\n__import__('os'[::0])"), "");
    assert_eq!(modules("__import__('%d' % 's')\n__import__('{}'.format())\n__import__('{')"), "");
}

#[test]
fn code_in_strings() {
    finds(&[
        ("exec('import os')", "os"),
        ("exec(b'import os')", "os"),
        ("eval('__import__(\"os\")')", "os"),
        ("eval('  __import__(\"os\")')", "os"),
        ("exec(compile('import os', 'x', 'exec'))", "os"),
        ("exec('exec(\"import os\")')", "os"),
        ("s = 'import '\nexec(s + 'os')", "os"),
        ("e = exec\ne('import os')", "os"),
        ("i = __import__\nexec('i(\"os\")')", "os"),
        ("import textwrap\nexec(textwrap.dedent('''\n  import os\n  os.x\n'''))", "os"),
        ("import timeit\ntimeit.timeit('import os')", "os"),
        ("exec('import json')\neval('1 + 1')\nprint('import os')", ""),
    ]);
}

/// What a text means is decided by where it is run.
#[test]
fn the_same_text_in_two_places() {
    finds(&[
        ("x = str\nt = \"x('os')\"\nexec(t)\nexec('x = __import__\\nexec(t)')", "os"),
        ("x = str\nt = \"x('os')\"\nexec(t)\nexec('x = print\\nexec(t)')", ""),
        ("from importlib import *\nexec(\"import_module('os')\")", "os"),
    ]);
}

/// One known value is enough, whatever else a name is bound to.
#[test]
fn names_that_are_also_something_unknown() {
    finds(&[
        ("def f(n): pass\nn = 'o'\n__import__(n + 's')", "os"),
        ("n = 'o'\nn = input()\n__import__(n + 's')", "os"),
        ("n = 'o'\nfor n in x: pass\n__import__(f'{n}s')", "os"),
        ("p = 'o'\nn = p\nn += 'x'\n__import__(n + 's')", "os"),
        ("n = 'o'\nn = 'o'\n__import__(n + 's')", "os"),
        ("n = n + n\nn = n.upper() + n\nn += n\nn = n % n\n__import__(n + 's')", ""),
        ("n = 'o'\nn = 'x'\n__import__(n + 's')", ""),
    ]);
}

#[test]
fn findings_say_where_and_how() {
    let found =
        find("x = 1\nif x:\n    import os, os.path\n\ny = 'ä'; exec('import shutil')\nos.path");
    let shown: Vec<String> = found
        .imports
        .iter()
        .map(|Finding { module, rule, line, column, how }| {
            format!("{module} ({rule}), {line}:{column}, {how}")
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @"
    os (os), 3:12, an import statement
    os.path (os), 3:16, an import statement
    shutil (shutil), 5:10, code in a string
    ");
}

#[test]
fn names_are_shown_only_if_they_are_names() {
    assert_eq!(modules("__import__('os.\\x1b[31m')"), "os");
    assert_eq!(modules(&format!("__import__('os.{}')", "a".repeat(1000))), "os");
}

#[test]
fn broken_code_is_looked_at_as_far_as_it_goes() {
    finds(&[
        ("import os\nx = (", "os"),
        ("x = = 1\nimport os", "os"),
        ("frobnicate x y\nif True:\n  from os import path", "os"),
        ("with x as (y: import os", "os"),
        ("def f(:\n  import os", "os"),
        ("lazy import os", "os"),
        ("x = 'unclosed\nimport os", "os"),
        ("$ ? import\nfrom", ""),
        ("import", ""),
        ("from import x\nyield from os", ""),
    ]);
}

#[test]
fn no_list_means_no_look() {
    assert!(find_imports("import os", &[]).is_empty());
}

#[test]
fn alternatives_are_known_for_a_module_and_what_is_below_it() {
    assert_eq!(alternative("os.path"), alternative("os"));
    assert!(alternative("subprocess").is_some());
    assert_eq!(alternative("left_pad"), None);
}

/// Every way we know to make a tree deep, on a thread with an ordinary stack of its own.
#[test]
fn depth_is_refused_and_never_overflows() {
    for (start, end) in [
        ("(", ""),
        ("[", ""),
        ("{", ""),
        ("(", ")"),
        ("[", "]"),
        ("f(", ")"),
        ("x[", "]"),
        ("-", ""),
        ("not ", ""),
        ("~", ""),
        ("lambda: ", ""),
        ("lambda a, b: ", ""),
        ("x if y else lambda a, b: ", ""),
        ("await ", ""),
        ("x if x else ", ""),
        ("x ** ", ""),
        ("*", ""),
        ("(yield ", ")"),
        ("f'{", ""),
        ("f\"{f'{", ""),
        ("{1: ", "}"),
        ("", ".a"),
        ("", "()"),
        ("", "[0]"),
        ("", " + x"),
        ("", " and x"),
        ("", " < x"),
        ("(a; ", ""),
        ("(def ", ""),
        ("(lambda x=", ""),
        ("with (", ""),
        ("match (", ""),
        ("case [", ""),
        ("class A(", ""),
        ("if x: ", ""),
        ("@", ""),
        ("x = ", ""),
        ("x: ", ""),
        ("async ", ""),
        ("print(1, ", ")"),
        ("[x for x in ", "]"),
        ("f'{x:", "}'"),
        ("try: ", ""),
        ("import ", ""),
        ("from x import (", ""),
        ("t'{", ""),
        ("x := ", ""),
        ("(x := ", ")"),
        ("del (", ""),
        ("for x in ", ""),
        ("type X = ", ""),
        ("def f[T: ", ""),
        ("\\\n", ""),
        ("\t", ""),
        ("a, (", ""),
        ("x,[y,", "]"),
    ] {
        for many in [100, 3_000, 24_000, 49_000, 200_000] {
            let code = format!("{}x{}\nimport os", start.repeat(many), end.repeat(many));
            let found = find(&code);
            let found_it =
                found.modules() == ["os"] || found.unexamined == Some(Unexamined::TooDeep);
            let swallowed = ["f'{", "f\"{f'{", "f'{x:", "t'{", "\\\n", "from x import ("];
            assert!(
                found_it || swallowed.contains(&start) || many > 100,
                "{start}…{end} × {many}: {found:?}"
            );
        }
    }
}

#[test]
fn wide_code_is_not_deep() {
    for code in [
        format!("x = [{}]\nimport os", "-1, ".repeat(200_000)),
        format!("x = {{{}}}\nimport os", "'a': lambda: (1, 2), ".repeat(10_000)),
        "x = a.b(c)[d] + 1\n".repeat(50_000) + "import os",
        format!("x = (\n{}", "def f(a, b):\n    return a + b\nimport os\n".repeat(10_000)),
    ] {
        let found = find(&code);
        assert_eq!((found.modules().join(" "), found.unexamined), ("os".to_owned(), None));
    }
}

#[test]
fn text_that_grows_is_refused() {
    let doubling: String = (1..22).map(|n| format!("a{n} = a{} + a{}\n", n - 1, n - 1)).collect();
    for code in [
        format!("a0 = 'x'\n{doubling}exec(a21)"),
        "exec('a' * 10**12)".replace("10**12", "1000000000000"),
        "exec('x' * 1048577)".to_owned(),
        format!("a = 'x' * 1000000\nexec('{}'.format(a))", "{0}".repeat(1000)),
        format!("a = 'x' * 1000000\nexec(''.join([{}]))", "a, ".repeat(1000)),
        format!("a = 'x' * 1000000\nexec({})", vec!["a"; 1000].join(" + ")),
        "a = 'x' * 1000000\nexec(a.replace('x', a))".to_owned(),
        (0..12).fold("1".to_owned(), |code, _| format!("exec({code:?})")),
    ] {
        let found = find(&code);
        assert_eq!(found.unexamined, Some(Unexamined::TooMuch), "{code:.100}");
    }
}

/// Values in circles, and names with many values, as ordinary scripts have them.
#[test]
fn circles_and_crowds_end() {
    let crowd = "df = df.rename(df.a, df)[df].b(df)\n".repeat(2000);
    let getting = "a = getattr(x, a)()\nb = getattr(b, b)(b)\nc = c(c)[c]\nd = d.d\n";
    let names: String =
        (0..500).map(|n| format!("m = m or n\nn = m if n else m\nx{n} = x{}\n", n + 1)).collect();
    let code =
        format!("{crowd}{getting}{names}__import__(m)\n__import__(df)\na.b\nb('os')\nimport os");
    assert_eq!(modules(&code), "os");
}

fn soup() -> impl Strategy<Value = String> {
    let tokens = prop::sample::select(vec![
        "import ",
        "from ",
        "os",
        "os.path",
        "subprocess",
        " as ",
        "x",
        "y",
        "=",
        " ",
        "\n",
        "\n  ",
        "\n    ",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ",",
        ".",
        ":",
        ";",
        "'os'",
        "\"",
        "'",
        "'''",
        "f'",
        "f'{",
        "{{",
        "b'os'",
        "r'",
        "+",
        "*",
        "%",
        "-",
        "**",
        ":=",
        "lambda ",
        "if ",
        " else ",
        "for ",
        " in ",
        "def f(",
        "class A",
        "with ",
        "try:",
        "except ",
        "match ",
        "case ",
        "__import__",
        "getattr",
        "exec",
        "eval",
        "chr",
        "join",
        ".format",
        ".replace",
        "map",
        "1",
        "111",
        "\\",
        "\\\n",
        "#",
        "\u{0}",
        "\u{c}",
        "\r",
        "\t",
        "é",
        "\u{feff}",
        "await ",
        "async ",
        "yield ",
        "not ",
        "global ",
        "del ",
        "@",
        "->",
        "...",
        "t'",
        "type ",
        "[::-1]",
        "sys",
        ".modules",
        "!",
        "?",
        "$",
        "`",
        "0x",
        "1e",
        "\u{1F600}",
    ]);
    prop::collection::vec(tokens, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_has_an_answer(code in any::<String>()) {
        prop_assert_ne!(find(&code).unexamined, Some(Unexamined::NoParser));
    }

    #[test]
    fn any_tokens_have_an_answer(code in soup()) {
        prop_assert_ne!(find(&code).unexamined, Some(Unexamined::NoParser), "{}", code);
    }

    #[test]
    fn an_import_after_whole_lines_is_found(names in prop::collection::vec("[a-z]{1,8}", 0..20)) {
        let lines: String = names.iter().map(|name| format!("v_{name} = '{name}'\n")).collect();
        let found = find(&format!("{lines}import os"));
        prop_assert_eq!(found.imports.len(), 1);
        prop_assert_eq!(found.imports[0].line, names.len() + 1);
    }
}
