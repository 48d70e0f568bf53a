//! Breaking the interpreter on purpose.

use belljar::{SandboxResult, Status};
use support::{Expect, Jar, attack, permitted};

/// The interpreter may fall over in more than one way; it may not succeed, and the host must know.
#[track_caller]
fn falls_over(code: &str) -> SandboxResult {
    let result = attack(&Jar::new().timeout(std::time::Duration::from_secs(2)), code);
    let status = result.status();
    let ways = [Status::Crashed, Status::Error, Status::OutOfMemory, Status::Timeout];
    assert!(ways.contains(&status), "{status}: {}", result.stderr);
    support::assert_no_host_paths(&result);
    result
}

#[track_caller]
fn crashes(code: &str) {
    let result = attack(&Jar::new(), code);
    result.ended(Status::Crashed, -1);
    let error = result.error.as_ref().expect("an error");
    assert_eq!(error.name, "Crashed");
    assert!(error.message.starts_with("the interpreter broke: "), "{error:?}");
    assert!(error.message.ends_with("; the host is unharmed"), "{error:?}");
}

fn code_object(replacement: &str) -> String {
    format!(
        "import opcode\nop = opcode.opmap\ndef f(): pass\nexec(f.__code__.replace({replacement}))"
    )
}

#[test]
fn corrupted_code_objects() {
    for replacement in [
        "co_code=b'\\xff' * 100",
        "co_code=bytes([op['LOAD_CONST'], 200] * 50), co_consts=()",
        "co_code=bytes([op['RESUME'], 0] + [op['LOAD_FAST'], 200] * 50)",
        "co_code=bytes([op['POP_TOP'], 0] * 5000), co_stacksize=1",
        "co_code=bytes([op['LOAD_CONST'], 0] * 500_000), co_stacksize=1",
        "co_code=bytes([op['RESUME'], 0, op['JUMP_BACKWARD'], 200, 0, 0])",
        "co_code=bytes([op['RESUME'], 0, op['LOAD_GLOBAL'], 255] * 10), co_names=()",
        "co_code=bytes([op['RESUME'], 0, op['CALL'], 255, 0, 0, 0, 0, 0, 0] * 10)",
        "co_code=b''",
    ] {
        falls_over(&code_object(replacement));
    }
    let code = code_object("co_consts=(None,)") + "\nprint('fine')";
    permitted(&Jar::new(), &code).printed("fine\n");
}

#[test]
fn code_objects_from_nothing() {
    falls_over(
        "import types\ncode = types.CodeType(255, 0, 0, 255, 0, 0, b'\\x00\\x01' * 500, (), (), \
         ('x',) * 255, 'f', 'n', 'q', 0, b'', b'')\nexec(code)",
    );
    falls_over("import marshal\nmarshal.loads(b'\\xe3' + b'\\xff' * 200)");
    falls_over(
        "import marshal, random\nfor i in range(20_000):\n  try: marshal.loads(random.randbytes(50))\n  except Exception: pass\nraise ValueError",
    );
    let code =
        "import marshal\nexec(marshal.loads(marshal.dumps(compile('print(1)', 'x', 'exec'))))";
    permitted(&Jar::new(), code).printed("1\n");
}

#[test]
fn native_code() {
    let result = attack(&Jar::new(), "import ctypes; ctypes.string_at(0)");
    result.ended(Status::Error, 1);
    let error = result.error.as_ref().expect("an error");
    assert!(error.message.ends_with("the Belljar sandbox does not offer native code"), "{error:?}");
    for module in ["_testcapi", "_testinternalcapi", "_interpreters", "_posixsubprocess"] {
        let result = attack(&Jar::new(), &format!("import {module}"));
        result.ended(Status::Error, 1);
        assert_eq!(result.error.as_ref().map(|error| &*error.name), Some("ModuleNotFoundError"));
    }
    let code = "import struct; print(struct.unpack('<I', b'\\1\\0\\0\\0'))";
    permitted(&Jar::new(), code).printed("(1,)\n");
}

#[test]
fn aborts_and_fatal_signals() {
    crashes("import os; os.abort()");
    crashes("import signal; signal.raise_signal(signal.SIGABRT)");
    crashes("import faulthandler; faulthandler._sigsegv()");
    crashes("import faulthandler; faulthandler._sigabrt()");
    let code = "import faulthandler; faulthandler.enable(); print('fine')";
    permitted(&Jar::new(), code).printed("fine\n");
}

#[test]
fn everything_the_collector_knows_is_emptied() {
    let jar = Jar::new();
    for code in [
        "import gc\nfor o in gc.get_objects():\n  if isinstance(o, list): del o[:]",
        "import gc\nfor o in gc.get_objects():\n  if isinstance(o, dict): o.clear()",
        "import sys\nfor m in list(sys.modules.values()): vars(m).clear()",
        "import sys, builtins\nsys.modules.clear()\nvars(builtins).clear()",
        "import gc\ngc.unfreeze()\nfor o in gc.get_objects():\n  \
         if isinstance(o, (dict, list, set)): o.clear()",
    ] {
        // Whether anything is left that could answer is the guest's own affair.
        let result = attack(&jar, code);
        assert!(
            matches!(result.status(), Status::Ok | Status::Error | Status::Crashed),
            "{code}: {}",
            result.status()
        );
    }
    permitted(&jar, "import gc; print(gc.collect() >= 0)").printed("True\n");
}

#[test]
fn hooks_that_raise() {
    let jar = Jar::new();
    let code =
        "import sys\ndef hook(*a): raise RuntimeError('hook')\nsys.setprofile(hook)\nprint(1)";
    attack(&jar, code).raised("RuntimeError", "hook");
    let code = "import sys\ndef hook(*a): raise SystemExit(9)\n\
                sys.excepthook = sys.unraisablehook = sys.displayhook = hook\n1/0";
    attack(&jar, code).raised("ZeroDivisionError", "division by zero");
    let code =
        "import sys\ndef hook(*a): raise RuntimeError('audit')\nsys.addaudithook(hook)\nopen('x')";
    attack(&jar, code).ended(Status::Error, 1);
    permitted(&jar, "import sys; sys.setprofile(None); print(1)").printed("1\n");
}

#[test]
fn imports_made_impossible() {
    let jar = Jar::new();
    let code =
        "import sys, builtins\nsys.meta_path.clear()\nbuiltins.__import__ = None\nprint('x')\n1/0";
    attack(&jar, code).raised("ZeroDivisionError", "division by zero");
    permitted(&jar, "import json; print(json.dumps(1))").printed("1\n");
}

#[test]
fn standard_streams_broken() {
    let jar = Jar::new();
    for code in [
        "import sys\nsys.stdout = sys.stderr = None\n1/0",
        "import sys\ndel sys.stdout, sys.stderr, sys.__stdout__\n1/0",
        "import sys\nclass E:\n  def write(self, *a): raise SystemExit(5)\n  flush = write\nsys.stdout = sys.stderr = E()\n1/0",
        "import os\nos.close(1); os.close(2)\n1/0",
        "import sys\nsys.stdout.close(); sys.stderr.close()\n1/0",
    ] {
        attack(&jar, code).raised("ZeroDivisionError", "division by zero");
    }
    permitted(&jar, "print('fine')").printed("fine\n");
}
