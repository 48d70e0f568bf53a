//! The cases, by name.

use belljar::{Backend, SandboxError, Status, ToolDoc, Tools};
use serde_json::json;
use support::{Expect, Jar};

use crate::check::{Differs, is_reference, run, run_differing, run_in, try_run};
use crate::file_cases::*;

type Case = fn(Backend);

/// Every case with its name.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// Every case with its name.
        pub const ALL: &[(&str, Case)] = &[$((stringify!($name), $name)),*];
    };
}

cases![
    print_goes_to_stdout,
    stderr_is_apart,
    unicode_output,
    invalid_utf8_is_replaced,
    text_and_bytes_written_together,
    value_that_json_can_carry,
    value_that_json_cannot_carry,
    value_nested_too_deeply_for_json,
    value_with_rich_forms,
    value_none_is_no_value,
    value_whose_repr_fails,
    exception,
    exception_chain,
    exception_group,
    user_defined_exception,
    exceptions_with_names_of_others,
    exception_whose_text_fails,
    keyboard_interrupt_of_its_own,
    exit_zero,
    exit_none,
    exit_three,
    exit_with_text,
    exit_codes_are_cut_to_a_byte,
    exit_with_a_hostile_object,
    os_exit,
    syntax_error,
    syntax_error_of_the_compiler,
    indentation_error,
    empty_code,
    comment_only,
    no_newline_and_crlf,
    nul_byte_in_code,
    ten_megabytes_of_source,
    source_beyond_the_cap,
    nested_parentheses,
    lone_surrogates_printed,
    lone_surrogate_in_an_exception,
    lone_surrogate_as_value,
    top_level_await,
    top_level_await_that_fails,
    asyncio_run_gather_and_timeouts,
    asyncio_deadlock,
    input_at_end_of_file,
    globals_are_those_of_main,
    warnings_name_the_users_line,
    files_created_modified_deleted,
    files_only_opened_are_no_change,
    file_renamed,
    file_replaced,
    directory_renamed,
    directory_renamed_onto_an_empty_one,
    directory_removed,
    directories_alone_are_no_files,
    file_that_came_and_went,
    file_without_a_name,
    symlink_inside_the_workspace,
    write_through_a_symlink,
    write_through_a_hard_link,
    truncate_and_touch,
    deltas_are_sorted_and_relative,
    meta_tells_what_held,
    tools_say_what_they_are,
];

fn print_goes_to_stdout(backend: Backend) {
    let result = run(backend, "print('Hello')");
    result.printed("Hello\n").changed(&[], &[], &[]);
    assert_eq!((&result.error, &result.result), (&None, &None));
}

fn stderr_is_apart(backend: Backend) {
    let result = run(backend, "import sys\nsys.stderr.write('bad\\n')\nprint('good')");
    result.ended(Status::Ok, 0);
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("good\n", "bad\n"));
}

fn unicode_output(backend: Backend) {
    run(backend, "print('héllo 日本 🎉')").printed("héllo 日本 🎉\n");
}

fn invalid_utf8_is_replaced(backend: Backend) {
    let code = "import sys\nsys.stdout.buffer.write(b'a\\xff\\xfeb\\n')\nsys.stdout.flush()";
    run(backend, code).printed("a\u{fffd}\u{fffd}b\n");
}

fn text_and_bytes_written_together(backend: Backend) {
    let code = "import sys\nprint('one', end='')\nsys.stdout.buffer.write(b'two')\nprint('three')";
    // As CPython does it: text waits in a buffer above the bytes'.
    run(backend, code).printed("twoonethree\n");
}

fn value_that_json_can_carry(backend: Backend) {
    let result = run(backend, "x = 1\n{'a': [1, 2.5, None, True], 'é': 'ü'}");
    let value = result.ended(Status::Ok, 0).result.as_ref().expect("a value");
    assert_eq!(value.text, "{'a': [1, 2.5, None, True], 'é': 'ü'}");
    assert_eq!(value.json, Some(json!({ "a": [1, 2.5, null, true], "é": "ü" })));
    assert!(value.mime.is_empty());
}

fn value_that_json_cannot_carry(backend: Backend) {
    for (code, text) in
        [("{1}", "{1}"), ("object", "<class 'object'>"), ("float('nan')", "nan"), ("1j", "1j")]
    {
        let result = run(backend, code);
        let value = result.ended(Status::Ok, 0).result.as_ref().expect("a value");
        assert_eq!((value.text.as_str(), &value.json), (text, &None));
    }
}

fn value_nested_too_deeply_for_json(backend: Backend) {
    for depth in [61, 70, 200] {
        let code = format!("x = 1\nfor _ in range({depth}): x = [x]\nx");
        let result = run(backend, &code);
        result.ended(Status::Ok, 0);
        let value = result.result.expect("a value");
        assert!(value.json.is_none() && value.text.starts_with("[[["), "{}", value.text);
    }
}

fn value_with_rich_forms(backend: Backend) {
    let code = "class A:\n  def _repr_html_(self): return '<b>1</b>'\n  \
                def _repr_png_(self): return b'\\x89PNG'\n  def __repr__(self): return 'A()'\nA()";
    let result = run(backend, code);
    let value = result.ended(Status::Ok, 0).result.as_ref().expect("a value");
    assert_eq!(value.text, "A()");
    assert_eq!(value.mime["text/html"], "<b>1</b>");
    assert_eq!(value.mime["image/png"], "iVBORw==");
}

fn value_none_is_no_value(backend: Backend) {
    for code in ["None", "x = 5", "print(1)", "def f(): return 5"] {
        assert_eq!(run(backend, code).ended(Status::Ok, 0).result, None);
    }
}

fn value_whose_repr_fails(backend: Backend) {
    let code = "class A:\n  def __repr__(self): raise ValueError('no repr')\nA()";
    let result = run(backend, code);
    result.raised("ValueError", "no repr");
    assert_eq!(result.result, None);
    only_the_users_frames(&result);
}

fn exception(backend: Backend) {
    let code = "def f():\n    raise ValueError('test')\nprint('before')\nf()";
    // Since 3.13 a call that is all of its line is marked, too.
    let result = run_differing(backend, Differs::InTracebacks, code);
    result.raised("ValueError", "test");
    let marks = if is_since(&result, 13) { "    ~^^\n" } else { "" };
    let traceback = format!(
        "Traceback (most recent call last):\n  File \"<sandbox>\", line 4, in <module>\n    f()\n\
         {marks}  File \"<sandbox>\", line 2, in f\n    raise ValueError('test')\nValueError: test\n"
    );
    assert_eq!(result.stderr, traceback);
    assert_eq!(result.error.as_ref().map(|error| &*error.traceback), Some(&*traceback));
    assert_eq!(result.stdout, "before\n");
}

fn exception_chain(backend: Backend) {
    let code = "try:\n    1/0\nexcept Exception as e:\n    raise KeyError('k') from e";
    let result = run(backend, code);
    result.raised("KeyError", "'k'");
    assert_eq!(
        result.stderr,
        "Traceback (most recent call last):\n  File \"<sandbox>\", line 2, in <module>\n    1/0\n    \
         ~^~\nZeroDivisionError: division by zero\n\nThe above exception was the direct cause of \
         the following exception:\n\nTraceback (most recent call last):\n  File \"<sandbox>\", \
         line 4, in <module>\n    raise KeyError('k') from e\nKeyError: 'k'\n"
    );
}

fn exception_group(backend: Backend) {
    let result = run(backend, "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])");
    result.raised("ExceptionGroup", "many (2 sub-exceptions)");
    assert!(result.stderr.contains("| ValueError: 1\n"), "{result:#?}");
}

fn user_defined_exception(backend: Backend) {
    run(backend, "class MyError(Exception): pass\nraise MyError('x')").raised("MyError", "x");
    run(backend, "raise BaseException('x')").raised("BaseException", "x");
}

/// What an exception is called says nothing about what it is.
fn exceptions_with_names_of_others(backend: Backend) {
    for name in ["SystemExit", "MemoryError", "KeyboardInterrupt", "OSError"] {
        let code = format!("class {name}(Exception): pass\nraise {name}('fake')");
        run(backend, &code).raised(name, "fake");
    }
    // What the limit of a process looks like from outside; wasm's host knows that nothing was short.
    let mine = run_differing(backend, Differs::InAll, "raise MemoryError('mine')");
    if is_reference(backend) {
        mine.raised("MemoryError", "mine");
    } else {
        mine.ended(Status::OutOfMemory, -1);
    }
    run(backend, "raise OSError(51, 'No space left on device')")
        .raised("OSError", "[Errno 51] No space left on device");
}

fn exception_whose_text_fails(backend: Backend) {
    let code = "class E(Exception):\n  def __str__(self): raise SystemExit(3)\nraise E";
    run(backend, code).raised("E", "<its text cannot be had>");
}

fn keyboard_interrupt_of_its_own(backend: Backend) {
    run(backend, "raise KeyboardInterrupt").raised("KeyboardInterrupt", "");
}

fn exit_zero(backend: Backend) {
    run(backend, "import sys; print('a'); sys.exit(0); print('b')").printed("a\n");
}

fn exit_none(backend: Backend) {
    run(backend, "import sys; sys.exit()").printed("");
    run(backend, "exit()").printed("");
}

fn exit_three(backend: Backend) {
    let result = run(backend, "import sys; print('a'); sys.exit(3)");
    result.ended(Status::Error, 3);
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("a\n", ""));
}

fn exit_with_text(backend: Backend) {
    let result = run(backend, "import sys; sys.exit('text')");
    result.ended(Status::Error, 1);
    assert_eq!(result.stderr, "text\n");
}

fn exit_codes_are_cut_to_a_byte(backend: Backend) {
    run(backend, "import sys; sys.exit(-1)").ended(Status::Error, 255);
    run(backend, "import sys; sys.exit(259)").ended(Status::Error, 3);
    run(backend, "import sys; sys.exit(True)").ended(Status::Error, 1);
    // CPython answers -1 for what does not fit a C int.
    run(backend, "import sys; sys.exit(10**30)").ended(Status::Error, 255);
}

fn exit_with_a_hostile_object(backend: Backend) {
    let silent = "class I:\n  def __str__(self): raise ValueError\nraise SystemExit(I())";
    run(backend, silent).ended(Status::Error, 1);
    let lying = "class I(int):\n  def __and__(self, other): return 'lie'\nraise SystemExit(I(5))";
    run(backend, lying).ended(Status::Error, 5);
}

fn os_exit(backend: Backend) {
    let result = run(backend, "import os; print('out', flush=True); os._exit(7)");
    result.ended(Status::Error, 7);
    assert_eq!(result.stdout, "out\n");
    run(backend, "import os; os._exit(0)").printed("");
}

fn syntax_error(backend: Backend) {
    let result = run(backend, "print('never')\nx = 1 +");
    result.raised("SyntaxError", "invalid syntax (<sandbox>, line 2)");
    let expected = "  File \"<sandbox>\", line 2\n    x = 1 +\n           ^\n\
                    SyntaxError: invalid syntax\n";
    assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("", expected));
}

fn syntax_error_of_the_compiler(backend: Backend) {
    let result = run(backend, "return 5");
    result.raised("SyntaxError", "'return' outside function (<sandbox>, line 1)");
    let expected = "  File \"<sandbox>\", line 1\n    return 5\n    ^^^^^^^^\n\
                    SyntaxError: 'return' outside function\n";
    assert_eq!(result.stderr, expected);
}

fn indentation_error(backend: Backend) {
    run(backend, "def f():\npass").raised(
        "IndentationError",
        "expected an indented block after function definition on line 1 (<sandbox>, line 2)",
    );
}

fn empty_code(backend: Backend) {
    for code in ["", "\n\n", "   \n"] {
        assert_eq!(run(backend, code).printed("").result, None);
    }
}

fn comment_only(backend: Backend) {
    assert_eq!(run(backend, "# nothing").printed("").result, None);
}

fn no_newline_and_crlf(backend: Backend) {
    run(backend, "if True:\r\n    print(1)\r\nprint(2)").printed("1\n2\n");
}

fn nul_byte_in_code(backend: Backend) {
    let result = run(backend, "print('before')\nx = '\0'");
    result.raised("SyntaxError", "source code string cannot contain null bytes");
    assert_eq!(result.stdout, "");
    run(backend, "print(repr('\\0'))").printed("'\\x00'\n");
}

fn ten_megabytes_of_source(backend: Backend) {
    let line = "# a line of commentary that says nothing, to fill ten megabytes\n";
    let code = format!("{}print('end')", line.repeat(10_000_000 / line.len()));
    run(backend, &code).printed("end\n");
    let literal = format!("x = '{}'\nprint(len(x))", "y".repeat(10_000_000));
    run(backend, &literal).printed("10000000\n");
}

fn source_beyond_the_cap(backend: Backend) {
    let error = try_run(backend, &Jar::new(), &"#".repeat(17 << 20)).unwrap_err();
    assert!(matches!(error, SandboxError::Source { .. }), "{error}");
}

fn nested_parentheses(backend: Backend) {
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let result = run_differing(backend, Differs::InAll, &deep);
    // Which limit of the parser is met first depends on its stack, so on its build.
    result.ended(Status::Error, 1);
    let error = result.error.as_ref().expect("an error");
    let known = [
        ("MemoryError", "Parser stack overflowed - Python source too complex to parse"),
        ("SyntaxError", "too many nested parentheses (<sandbox>, line 1)"),
    ];
    assert!(known.contains(&(&error.name, &error.message)), "{error:?}");
    let fine = format!("print({}1{})", "(".repeat(50), ")".repeat(50));
    run(backend, &fine).printed("1\n");
}

fn lone_surrogates_printed(backend: Backend) {
    // Since 3.13 a call that is all of its line is marked, too.
    run_differing(backend, Differs::InTracebacks, "print('\\ud800')").raised(
        "UnicodeEncodeError",
        "'utf-8' codec can't encode character '\\ud800' in position 0: surrogates not allowed",
    );
    run(backend, "print('a\\udc80b')").printed("a\u{fffd}b\n");
}

fn lone_surrogate_in_an_exception(backend: Backend) {
    let result = run(backend, "raise ValueError('\\ud800x')");
    result.raised("ValueError", "?x");
    assert!(result.stderr.ends_with("ValueError: \\ud800x\n"), "{result:#?}");
}

fn lone_surrogate_as_value(backend: Backend) {
    let result = run(backend, "'\\ud800'");
    let value = result.ended(Status::Ok, 0).result.as_ref().expect("a value");
    // JSON cannot carry it, so there is none.
    assert_eq!((value.text.as_str(), &value.json), ("'\\ud800'", &None));
}

fn top_level_await(backend: Backend) {
    let code = "import asyncio\nawait asyncio.sleep(0.01)\nprint('done')\n\
                await asyncio.sleep(0, 'value')";
    let result = run(backend, code);
    let value = result.printed("done\n").result.as_ref().expect("a value");
    assert_eq!(value.json, Some(json!("value")));
    let code = "async def g():\n  for i in range(3): yield i\nprint([i async for i in g()])";
    run(backend, code).printed("[0, 1, 2]\n");
}

fn top_level_await_that_fails(backend: Backend) {
    let result = run(backend, "async def f():\n  raise ValueError('in f')\nawait f()");
    result.raised("ValueError", "in f");
    assert_eq!(
        result.stderr,
        "Traceback (most recent call last):\n  File \"<sandbox>\", line 3, in <module>\n    \
         await f()\n  File \"<sandbox>\", line 2, in f\n    raise ValueError('in f')\n\
         ValueError: in f\n"
    );
}

fn asyncio_run_gather_and_timeouts(backend: Backend) {
    let code = "import asyncio, time
async def f(n):
    await asyncio.sleep(0.1)
    return n
async def main():
    start = time.monotonic()
    print(await asyncio.gather(*(f(n) for n in range(10))))
    print(time.monotonic() - start < 0.9)
    try:
        await asyncio.wait_for(asyncio.sleep(100), 0.02)
    except asyncio.TimeoutError as error:
        print(type(error).__name__)
    try:
        async with asyncio.timeout(0.02): await asyncio.sleep(100)
    except TimeoutError:
        print('timeout')
    async with asyncio.TaskGroup() as group:
        task = group.create_task(f(5))
    print(task.result(), await asyncio.to_thread(lambda: 3))
    queue = asyncio.Queue()
    async def produce():
        for i in range(3): await queue.put(i)
    asyncio.create_task(produce())
    print([await queue.get() for _ in range(3)])
asyncio.run(main())";
    let expected = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]\nTrue\nTimeoutError\ntimeout\n5 3\n[0, 1, 2]\n";
    run(backend, code).printed(expected);
}

fn asyncio_deadlock(backend: Backend) {
    let code = "import asyncio\nawait asyncio.Event().wait()";
    if matches!(backend, Backend::Pyodide | Backend::E2b) {
        // Their loops know as well as wasm's that nothing can come; whose frames show is theirs.
        let result = run_differing(backend, Differs::InTracebacks, code);
        assert_eq!(result.error.expect("an error").name, "RuntimeError");
        return;
    }
    if !is_reference(backend) {
        // Around a native process there is always something that could still wake it: the clock ends it.
        let jar = Jar::new().with(|layer| layer.timeout_seconds(0.5));
        let result = try_run(backend, &jar, code).expect("a result");
        // Where this Python's library is shows in its traceback, so no `ended` here.
        assert_eq!((result.status(), result.exit_code()), (Status::Timeout, -1), "{result:#?}");
        return;
    }
    let result = run(backend, code);
    result.raised(
        "RuntimeError",
        "asyncio: every task is waiting and nothing in the sandbox can wake one",
    );
    only_the_users_frames(&result);
}

fn input_at_end_of_file(backend: Backend) {
    // Since 3.13 a call that is all of its line is marked, too.
    // A service does not tell how often it was asked.
    let differs = if backend == Backend::E2b { Differs::InAll } else { Differs::InTracebacks };
    let result = run_differing(backend, differs, "input('? ')");
    result
        .raised("EOFError", "the Belljar sandbox does not offer input: nobody is there to answer");
    run(backend, "import sys; print(repr(sys.stdin.read()), list(sys.stdin))").printed("'' []\n");
}

fn globals_are_those_of_main(backend: Backend) {
    let code = "print(__name__, [n for n in globals() if not n.startswith('__')])";
    if backend == Backend::E2b {
        // A context of our service is a session, which begins with these.
        let names = "__main__ ['context', 'chunk_text', 'search_context']\n";
        run_differing(backend, Differs::InAll, code).printed(names);
        return;
    }
    run(backend, code).printed("__main__ []\n");
}

fn warnings_name_the_users_line(backend: Backend) {
    let result = run(backend, "import warnings\nwarnings.warn('careful')");
    result.ended(Status::Ok, 0);
    assert_eq!(result.stderr, "<sandbox>:2: UserWarning: careful\n  warnings.warn('careful')\n");
}

fn meta_tells_what_held(backend: Backend) {
    // Nobody here can hold a service to how much memory it gives; asking for that is refused.
    let memory = (backend != Backend::E2b).then_some(64_000_000);
    let jar = Jar::new().with(|layer| match memory {
        Some(bytes) => layer.memory_bytes(bytes).timeout_seconds(7.0),
        None => layer.timeout_seconds(7.0),
    });
    let result = run_in(backend, &jar, "print(1)");
    assert_eq!(result.meta.runtime, backend.runtime_name());
    assert_eq!(result.meta.language.as_str(), "python");
    assert!(result.meta.language_version.as_ref().is_some_and(|version| version.starts_with("3.")));
    assert_eq!(result.meta.resource_limits.memory_bytes, memory);
    assert!((result.meta.resource_limits.timeout_seconds - 7.0).abs() < f64::EPSILON);
    assert!(!result.meta.isolation.is_empty() && !result.meta.execution_id.is_empty());
    let again = run_in(backend, &jar, "print(1)");
    assert_ne!(again.meta.execution_id, result.meta.execution_id);
}

fn tools_say_what_they_are(backend: Backend) {
    let tools = Tools::new()
        .with("price", |_| Ok(json!(350)))
        .and_then(|tools| tools.with("plain", |_| Ok(json!(1))))
        .and_then(|tools| {
            tools.documented("price", ToolDoc::new("In cents.", "(article: str, n=1) -> int"))
        });
    let jar = Jar::new().with_tools(tools.expect("good names"));
    let code = "import inspect\n\
                [price.__doc__, *(str(inspect.signature(t)) for t in (price, plain))]";
    if backend == Backend::E2b {
        // Code there cannot call tools.
        let refused = try_run(backend, &jar, code).expect_err("no tools");
        assert!(matches!(refused, SandboxError::BackendUnavailable { .. }), "{refused}");
        return;
    }
    run_in(backend, &jar, code).gave(json!([
        "In cents.",
        "(article: str, n=1) -> int",
        "(*args, **kwargs)"
    ]));
}

/// Whether it was at least this Python 3.
fn is_since(result: &belljar::SandboxResult, minor: u32) -> bool {
    let version = result.meta.language_version.as_deref().expect("a version");
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    parts.nth(1).is_some_and(|own: u32| own >= minor)
}

fn only_the_users_frames(result: &belljar::SandboxResult) {
    assert!(!result.stderr.contains("belljar"), "the driver shows: {}", result.stderr);
}
