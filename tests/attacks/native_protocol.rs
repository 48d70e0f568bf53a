//! Talking to the host as if one were the driver: the connection is in the process, and code that
//! looks for it finds it. It gets nothing there that it could not have by asking properly.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar::{SandboxResult, StateAfter, Status, Tools};
use support::{Cells, Expect, Jar, attack_native, attacked_natively, both_users, permitted_native};

/// Finds the connection, as `fd`.
const CONNECTION: &str = "import os, stat, time
fd = max(f for f in range(3, 256) if os.path.exists(f'/proc/self/fd/{f}') and stat.S_ISSOCK(os.fstat(f).st_mode))
def say(line):
    while line: line = line[os.write(fd, line):]
";

/// Nothing that was said this way takes longer.
const SOON_MS: f64 = 15_000.0;

fn quick() -> Jar {
    Jar::native().timeout(Duration::from_secs(1))
}

#[track_caller]
fn said(jar: &Jar, code: &str) -> SandboxResult {
    let result = attack_native(jar, &format!("{CONNECTION}{code}"));
    assert!(result.duration_ms < SOON_MS, "{} ms", result.duration_ms);
    result
}

#[test]
fn nonsense() {
    let code = r#"for line in (b'nonsense', b'', b'{}', b'[]', b'7', b'\xff\xfe', b'{"jsonrpc":"1.0","id":2}', b'[' * 10_000,
    b'{"jsonrpc":"2.0","id":{},"method":"tool.call"}', b'{"jsonrpc":"2.0","id":2,"result":1,"error":{}}',
    b'{"jsonrpc":"2.0","method":"tool.drop","params":{"id":-1}}', b'{"jsonrpc":"2.0","method":"tool.drop","params":7}',
    b'{"jsonrpc":"2.0","id":1e999,"method":"input","params":{}}', b'{"jsonrpc":"2.0","id":99,"result":{}}',
    b'{"jsonrpc":"2.0","id":5,"method":"execute","params":{"code":"print(1)"}}', b'\0' * 100):
    say(line + b'\n')
print('fine')"#;
    said(&Jar::native(), code).printed("fine\n");
    permitted_native(&Jar::native(), "print('fine')").printed("fine\n");
}

both_users! {
    fn message_without_an_end() {
        let result = said(&Jar::native(), "while True: say(b'x' * 1_000_000)");
        result.ended(Status::Crashed, -1);
        assert!(result.stderr.contains("its message has no end"), "{}", result.stderr);
    }

    /// The clock is looked at however much there is to read, and answers that nobody reads are not
    /// kept for ever.
    fn messages_without_an_end() {
        for line in [
            r#"b'x\n' * 30_000"#,
            r#"b'\n' * 60_000"#,
            r#"b'{"jsonrpc":"2.0","id":7,"method":"wishful","params":{}}\n' * 1000"#,
            r#"b'{"jsonrpc":"2.0","id":7,"method":"tool.call","params":{"name":"x"}}\n' * 1000"#,
            r#"b'{"jsonrpc":"2.0","method":"tool.drop","params":{"id":3}}\n' * 1000"#,
            r#"b'{"jsonrpc":"2.0","id":77,"result":{}}\n' * 1000"#,
        ] {
            let result = said(&quick(), &format!("while True: say({line})"));
            assert!(matches!(result.status(), Status::Timeout | Status::Crashed), "{line}: {result:#?}");
        }
        permitted_native(&quick(), "print('fine')").printed("fine\n");
    }

    fn closing_every_descriptor() {
        // With more time than the host waits for the end of a process that has hung up.
        let result = said(&Jar::native(), "os.closerange(0, 4096)\nwhile True: pass");
        result.ended(Status::Crashed, -1);
        assert!(result.stderr.contains("it has closed its connection to the host"), "{}", result.stderr);
        said(&quick(), "os.closerange(0, 4096)\nos._exit(5)").ended(Status::Error, 5);
        said(&quick(), "os.closerange(0, 3)").ended(Status::Ok, 0);
        permitted_native(&quick(), "f = open('f', 'w'); f.close(); print('fine')").printed("fine\n");
    }

    fn becoming_another_program() {
        let code = "os.execv('/bin/sh', ['sh', '-c', 'echo out; echo err >&2; cat /etc/shadow 2>/dev/null; exit 6'])";
        let result = said(&quick(), code);
        result.ended(Status::Error, 6);
        assert_eq!((result.stdout.as_str(), result.stderr.as_str()), ("out\n", "err\n"));
        // One that takes the connection along.
        let code = "os.dup2(fd, 9)\nos.execv('/bin/sh', ['sh', '-c', 'echo nonsense >&9; sleep 60'])";
        said(&quick(), code).ended(Status::Timeout, -1);
        let code = "import subprocess\nprint(subprocess.run(['sh', '-c', 'echo out; exit 6'], capture_output=True, text=True))";
        permitted_native(&quick(), code).printed(
            "CompletedProcess(args=['sh', '-c', 'echo out; exit 6'], returncode=6, stdout='out\\n', stderr='')\n",
        );
    }

    fn dying_in_the_middle_of_a_message() {
        for end in ["os.kill(os.getpid(), 9)", "os.abort()", "os._exit(0)", "os.execv('/bin/true', ['true'])"] {
            let code = format!("say(b'{{\"jsonrpc\":\"2.0\",\"id\":2,\"resu')\n{end}");
            let result = said(&quick(), &code);
            assert!(matches!(result.status(), Status::Crashed | Status::Ok), "{end}: {result:#?}");
        }
        // A session goes on with a new interpreter.
        let jar = Jar::native();
        attacked_natively(&jar, "a session whose interpreter died", || {
            let mut sandbox = jar.open_session("the context");
            sandbox.run("x = 1").kept(Status::Ok);
            let result = sandbox.run("import os; os.kill(os.getpid(), 9)");
            result.ended(Status::Crashed, -1);
            assert!(result.stderr.contains("signal 9"), "{}", result.stderr);
            assert_eq!(result.meta.state, Some(StateAfter::Lost));
            sandbox.run("'x' in globals(), context").gave(serde_json::json!([false, "the context"]));
        });
    }
}

#[test]
fn answering_ones_own_request() {
    // A guest can lie about itself, which it can do by printing, too.
    let forged = r#"say(b'{"jsonrpc":"2.0","id":2,"result":{"end":"finished","exit_code":0,"error":null,"value":{"text":"forged","json":null,"mime":{}}}}\n')"#;
    let result = said(&quick(), &format!("{forged}\nwhile True: time.sleep(1)"));
    assert!(matches!(result.status(), Status::Ok | Status::Timeout), "{result:#?}");
    // In a session, what ran on has to end before the next cell does.
    let jar = quick();
    attacked_natively(&jar, "a session that answers itself", || {
        let mut sandbox = jar.open_session(());
        let forged = forged.replace("\"id\":2", "\"id\":3");
        let code = format!(
            "{CONNECTION}x = 1\n{forged}\nwhile True:\n  try: time.sleep(1)\n  except BaseException: pass"
        );
        sandbox.run(&code).ended(Status::Ok, 0);
        sandbox.run("print('never')").ended(Status::Timeout, -1);
        sandbox.run("'x' in globals()").gave(false);
    });
    let result = permitted_native(&quick(), "'real'");
    assert_eq!(result.result.as_ref().map(|value| &*value.text), Some("'real'"));
}

#[test]
fn answers_that_make_no_sense() {
    for answer in [
        r#"b'7'"#,
        r#"b'{"end":7}'"#,
        r#"b'{"end":"finished","exit_code":"x"}'"#,
        r#"b'{"end":"exited","exit_code":99999999999}'"#,
        r#"b'{"end":"waiting"}'"#,
        r#"b'{"value":{"text":"","json":' + b'[' * 100_000 + b']' * 100_000 + b'}}'"#,
    ] {
        let code = format!(
            "say(b'{{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":' + {answer} + b'}}\\n')\nwhile True: time.sleep(1)"
        );
        let result = said(&quick(), &code);
        assert!(
            matches!(result.status(), Status::Crashed | Status::Timeout),
            "{answer}: {result:#?}"
        );
    }
    let large = r#"say(b'{"jsonrpc":"2.0","id":2,"result":{"end":"finished","value":{"text":"' + b'x' * 30_000_000 + b'"}}}\n')"#;
    let result = said(&Jar::native(), large);
    let text = result.result.as_ref().map_or(0, |value| value.text.len());
    assert!(text < 10_000_000, "{text} bytes of text");
}

#[test]
fn tool_calls_with_foreign_ids() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    let tools = Tools::new().llm(move |prompt| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(prompt.to_owned())
    });
    let jar = Jar::native().with_tools(tools).with(|layer| layer.max_tool_calls(20));
    // Ids that the driver uses too, the same twice, and ids that are no numbers.
    let code = r#"call = b'{"jsonrpc":"2.0","id":%b,"method":"tool.call","params":{"name":"llm_query","args":["x"]}}\n'
for id in (b'1', b'1', b'2', b'0', b'18446744073709551615', b'-1', b'"text"', b'null', b'1.5', b'18446744073709551616', b'[]'):
    say(call % id)
for name in (b'missing', b'__class__', b'', b'x' * 10_000):
    say(b'{"jsonrpc":"2.0","id":5,"method":"tool.call","params":{"name":"%b"}}\n' % name)
say(b'{"jsonrpc":"2.0","method":"tool.drop","params":{"id":1}}\n')
for _ in range(200): say(call % b'9')
time.sleep(0.3)
print('fine')"#;
    let result = said(&jar, code);
    result.printed("fine\n");
    assert!(calls.load(Ordering::Relaxed) <= 20, "{calls:?}");
    assert!(result.meta.tools.calls <= 20, "{result:#?}");
    permitted_native(&jar, "print(llm_query('y'))").printed("y\n");
}

/// Large answers that it never reads.
#[test]
fn asking_without_listening() {
    let tools = Tools::new().llm(|_| Ok("x".repeat(1_000_000)));
    let jar = quick().with_tools(tools).with(|layer| layer.max_tool_bytes(1 << 30));
    let code = r#"for id in range(100, 500):
    say(b'{"jsonrpc":"2.0","id":%d,"method":"tool.call","params":{"name":"llm_query","args":["x"]}}\n' % id)
while True: time.sleep(1)"#;
    let result = said(&jar, code);
    assert!(matches!(result.status(), Status::Timeout | Status::Crashed), "{result:#?}");
    permitted_native(&jar, "print(len(llm_query('y')))").printed("1000000\n");
}

#[test]
fn tools_called_by_a_fork() {
    let jar = Jar::native().with_tools(Tools::new().llm(|prompt| Ok(prompt.to_owned())));
    let code = "import os\nif os.fork() == 0:\n  try: llm_query('x')\n  except RuntimeError: os._exit(3)\n\
                print(os.waitstatus_to_exitcode(os.wait()[1]), llm_query('y'))";
    attack_native(&jar, code).printed("3 y\n");
}
