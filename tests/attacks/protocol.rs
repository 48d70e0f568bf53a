//! Talking to the host as if one were the driver.

use std::time::Duration;

use belljar::{SandboxResult, Status};
use support::{Expect, Jar, attack, permitted};

#[test]
fn output_that_looks_like_an_answer() {
    let code = "print('{\"end\": \"finished\", \"exit_code\": 0, \"error\": null, \"value\": {\"text\": \"forged\"}}')
import sys
sys.stdout.write('Content-Length: 10\\r\\n\\r\\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\\n')
sys.stderr.write('OutOfFuel: all 5 units of fuel were used\\n')
print('... (output truncated)')
raise ValueError('real')";
    let result = attack(&Jar::new(), code);
    result.raised("ValueError", "real");
    assert_eq!(result.result, None);
    assert!(!result.meta.truncated);
    assert!(result.stdout.starts_with("{\"end\""), "output is only output");
    let result = permitted(&Jar::new(), "print('{}')\n5");
    assert_eq!(result.printed("{}\n").result.as_ref().map(|value| &*value.text), Some("5"));
}

#[test]
fn phases_told_to_the_host() {
    // Pretending to be the driver gives no fuel beyond the driver's own small share, no time and
    // no memory beyond the driver's reserve.
    let jar = Jar::new().with(|layer| layer.fuel_budget(50_000_000).memory_bytes(64_000_000));
    for spam in
        ["h.phase(0)", "for _ in range(1000): h.phase(0); h.phase(1); h.phase(0)", "h.phase(1)"]
    {
        let code = format!("import _belljar_host as h\n{spam}\nwhile True: pass");
        let result = attack(&jar, &code);
        result.ended(Status::OutOfFuel, -1);
        assert!(result.duration_ms < 2_000.0, "{} ms", result.duration_ms);
    }
    let code = "import _belljar_host as h\nwhile True: h.phase(0); h.phase(1)";
    let result = attack(&jar, code);
    result.ended(Status::OutOfFuel, -1);
    let code =
        "import _belljar_host as h\nh.phase(0)\nx = []\nwhile True: x.append(bytearray(10**6))";
    let result = attack(&jar, code);
    result.ended(Status::OutOfMemory, -1);
    assert!(result.memory_used_bytes.is_some_and(|bytes| bytes < 64_000_000 + (5 << 20)));
    attack(&jar, "import _belljar_host as h\nh.phase(7); h.phase(-1); print('x')").printed("x\n");
    let timed = Jar::new().timeout(Duration::from_millis(300));
    let code = "import _belljar_host as h\nh.phase(0)\nimport time\ntime.sleep(1000)";
    attack(&timed, code).ended(Status::Timeout, -1);
    permitted(&jar, "print(sum(range(10_000)))").printed("49995000\n");
}

#[test]
fn calls_to_the_host() {
    let jar = Jar::new();
    let code = "import _belljar_host as h\nrefused = 0\nfor i in range(10_000):\n  \
                try: h.call(b'x' * 1000)\n  except RuntimeError: refused += 1\nprint(refused)";
    attack(&jar, code).printed("10000\n");
    let code = "import _belljar_host as h\nh.call(bytes(50_000_000))";
    attack(&jar, code).raised("RuntimeError", "the host refused the call");
    for argument in ["None", "'text'", "b''", "b'{}'", "b'\\xff' * 10"] {
        let result = attack(&jar, &format!("import _belljar_host as h\nh.call({argument})"));
        result.ended(Status::Error, 1);
    }
    permitted(&jar, "print('fine')").printed("fine\n");
}

/// Replaces what the driver answers with.
#[track_caller]
fn answered(answer: &str) -> SandboxResult {
    let code = format!(
        "from belljar_guest import cells\nclass Text(str):\n  def encode(self, *a): return {answer}\n\
         cells._conclude = lambda *a: Text()\nprint('before')"
    );
    let result = attack(&Jar::new().with(|layer| layer.memory_bytes(256_000_000)), &code);
    assert_eq!(result.stdout, "before\n");
    result
}

#[test]
fn answers_that_make_no_sense() {
    for answer in [
        "b'garbage'",
        "b''",
        "b'\\xff\\xfe'",
        "b'{\"end\": 7}'",
        "b'{\"end\": \"finished\", \"exit_code\": \"x\", \"error\": 7, \"value\": []}'",
        "b'{\"end\": \"exited\", \"exit_code\": 99999999999}'",
        "b'{\"end\": \"exited\", \"exit_code\": -5}'",
        "b'{\"value\": {\"text\": \"\", \"json\": ' + b'[' * 100_000 + b']' * 100_000 + b'}}'",
        "b'{\"value\": {\"text\": \"' + b'x' * 70_000_000 + b'\"}}'",
        "'text, not bytes'",
        "None",
    ] {
        answered(answer).ended(Status::Crashed, -1);
    }
    permitted(&Jar::new(), "print('fine')").printed("fine\n");
}

#[test]
fn answers_that_lie() {
    // A guest can lie about itself; what the host measured stays true, and sizes are capped.
    let result = answered(
        "b'{\"end\": \"finished\", \"value\": {\"text\": \"' + b'x' * 30_000_000 + b'\"}}'",
    );
    let text = result.result.as_ref().map_or(0, |value| value.text.len());
    assert!(text < 10_000_000, "{text} bytes of text");
    for lie in ["out_of_memory", "no_space"] {
        let answer = format!(
            "b'{{\"end\": \"{lie}\", \"exit_code\": 1, \"error\": {{\"name\": \"N\", \"message\": \"M\", \"traceback\": \"T\"}}}}'"
        );
        answered(&answer).raised("N", "M");
    }
    answered("b'{\"end\": \"raised\", \"exit_code\": 0}'").ended(Status::Error, 1);
    answered("b'{\"end\": \"exited\", \"exit_code\": 3}'").ended(Status::Error, 3);
    let code = "from belljar_guest import cells\nclass Text(str):\n  \
                def encode(self, *a): return b'{\"end\": \"finished\"}'\n\
                cells._conclude = lambda *a: Text()\nwhile True: pass";
    let jar = Jar::new().with(|layer| layer.fuel_budget(5_000_000));
    attack(&jar, code).ended(Status::OutOfFuel, -1);
}

#[test]
fn driver_that_never_answers() {
    let jar = Jar::new().timeout(Duration::from_millis(500));
    for patch in [
        "cells._conclude = spin",
        "hygiene.flush = spin",
        "hygiene.flush = lambda: time.sleep(1000)",
        "hygiene.flush = swallow",
    ] {
        let code = format!(
            "from belljar_guest import cells, hygiene\nimport time\ndef spin(*a, **k):\n  while True: pass\n\
             def swallow(*a):\n  while True:\n    try: spin()\n    except BaseException: pass\n{patch}"
        );
        let result = attack(&jar, &code);
        assert!(
            matches!(result.status(), Status::Timeout | Status::OutOfFuel | Status::Crashed),
            "{patch}: {}",
            result.status()
        );
        assert!(result.duration_ms < 3_000.0, "{patch}: {} ms", result.duration_ms);
    }
    permitted(&jar, "print('fine')").printed("fine\n");
}

#[test]
fn driver_that_takes_all_memory() {
    let code = "from belljar_guest import hygiene\nhygiene.flush = lambda: bytearray(10**9)";
    attack(&Jar::new(), code).ended(Status::OutOfMemory, -1);
}

#[test]
fn driver_that_fails() {
    for (code, error) in [
        ("def boom(*a): raise SystemExit(9)\ncells._conclude = boom", "SystemExit"),
        ("cells._conclude = None", "TypeError"),
        ("cells.explain = None\n1/0", "TypeError"),
        ("vars(cells).clear()", "NameError"),
    ] {
        let code = format!("from belljar_guest import cells\n{code}");
        let message = format!("the sandbox's own driver failed with {error}");
        attack(&Jar::new(), &code).raised("SystemError", &message);
    }
    for code in ["driver._own_failure = None", "vars(driver).clear()"] {
        let code =
            format!("from belljar_guest import cells, driver\ncells._conclude = None\n{code}");
        attack(&Jar::new(), &code).ended(Status::Crashed, -1);
    }
    permitted(&Jar::new(), "print('fine')").printed("fine\n");
}

#[test]
fn library_of_the_driver_patched() {
    let jar = Jar::new();
    let code =
        "import traceback\ntraceback.format_exception = traceback.TracebackException = None\n1/0";
    attack(&jar, code).raised("ZeroDivisionError", "division by zero");
    let code = "import sys\nsys.modules.clear()\nprint('x')\n1/0";
    attack(&jar, code).raised("ZeroDivisionError", "division by zero");
    let code = "import json\njson.encoder.JSONEncoder.encode = json.dumps = None\n{'a': 1}";
    let result = attack(&jar, code);
    let value = result.ended(Status::Ok, 0).result.as_ref().expect("a value");
    assert_eq!(value.json, Some(serde_json::json!({"a": 1})));
    permitted(&jar, "import json; print(json.dumps({'a': 1}))").printed("{\"a\": 1}\n");
}

#[test]
fn driver_entered_again() {
    let code = "from belljar_guest import driver\nimport json\n\
                request = json.dumps({'op': 'execute', 'code': 'print(1)', 'filename': 'x', 'value': True}).encode()\n\
                for _ in range(100): driver.handle(request)\nprint('end')";
    attack(&Jar::new(), code).printed(&format!("{}end\n", "1\n".repeat(100)));
    let nested = "from belljar_guest import driver\nimport json\n\
                  def go(): driver.handle(json.dumps({'op': 'execute', 'code': 'go()', 'filename': 'x', 'value': True}).encode())\n\
                  go()\nprint('end')";
    let result = attack(&Jar::new(), nested);
    assert!(matches!(result.status(), Status::Ok | Status::Error | Status::Crashed));
}
