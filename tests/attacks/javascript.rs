//! JavaScript that means harm: never ending, too deep, too much, out of the workspace, and what
//! it leaves behind. How it deceives the driver is in `javascript_driver`.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Once;
use std::time::Duration;

use belljar::{JavaScriptSandbox, Sandbox, SandboxResult, Status};
use support::{Cells, Expect, Jar, exclusive};

pub(crate) fn sandbox(jar: &Jar) -> JavaScriptSandbox {
    JavaScriptSandbox::from_config(&jar.javascript_config()).expect("a sandbox")
}

/// As `support::attacked`; what the host opens once for JavaScript and keeps is opened before.
pub(crate) fn attacked<T>(jar: &Jar, what: &str, body: impl FnOnce() -> T) -> T {
    static WARM_UP: Once = Once::new();
    WARM_UP.call_once(|| drop(permitted(&Jar::new(), "writeText('f', ''); removeFile('f')")));
    support::attacked(jar, what, body)
}

/// Runs hostile code and checks the host afterwards.
#[must_use]
pub(crate) fn attack(jar: &Jar, code: &str) -> SandboxResult {
    attacked(jar, code, || {
        let result = sandbox(jar).run(code);
        sandbox(&Jar::new()).run("console.log('still here')").printed("still here\n");
        result
    })
}

/// Runs what is allowed: the twin of an attack.
#[must_use]
pub(crate) fn permitted(jar: &Jar, code: &str) -> SandboxResult {
    let _guard = exclusive();
    sandbox(jar).run(code)
}

fn hasty() -> Jar {
    Jar::new().timeout(Duration::from_millis(300))
}

#[track_caller]
fn times_out(code: &str) {
    let result = attack(&hasty(), code);
    result.ended(Status::Timeout, -1);
    assert!(result.meta.timed_out);
    assert!((300.0..3_000.0).contains(&result.duration_ms), "{} ms", result.duration_ms);
    let notice = "Timeout: timed out after 0.3 s; raise timeout_seconds to allow more\n";
    assert!(result.stderr.ends_with(notice), "{}", result.stderr);
}

/// Ended with an error of one of these names, which the code could have caught.
#[track_caller]
fn throws(jar: &Jar, code: &str, names: &[&str]) -> SandboxResult {
    let result = attack(jar, code);
    result.ended(Status::Error, 1);
    let name = result.error.as_ref().map_or("", |error| &error.name);
    assert!(names.contains(&name), "{code}: {name}");
    result
}

#[test]
fn infinite_loop() {
    times_out("for (;;) {}");
    times_out("const o = { get x() { for (;;) {} } }; o.x");
    times_out("[1, 2].sort(() => { for (;;) {} })");
    times_out("function* g() { for (;;) yield 1 }; for (const x of g()) {}");
    times_out(
        "new Proxy({}, { has() { for (;;) {} } }).x; 'x' in new Proxy({}, { has() { for (;;) {} } })",
    );
    permitted(&hasty(), "let n = 0; for (let i = 0; i < 1e4; i++) n += i; console.log(n)")
        .printed("49995000\n");
}

#[test]
fn infinite_loop_in_native_code() {
    times_out(
        "[...{ [Symbol.iterator]: () => ({ next: () => ({ done: false }) }) }].length; for (;;) {}",
    );
    times_out("Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1)");
    times_out("let n = 3n; for (;;) n = n * n % (2n ** 40000n)");
    permitted(&hasty(), "console.log([1, 2].indexOf(2), 2n ** 64n)")
        .printed("1 18446744073709551616n\n");
}

#[test]
fn infinite_loop_in_promises() {
    times_out("const f = () => Promise.resolve().then(f); await f()");
    times_out("const f = async () => { for (;;) await 0 }; f()");
    times_out("const f = () => queueMicrotask(f); f()");
    times_out("await { then() { for (;;) {} } }");
    permitted(
        &hasty(),
        "let n = 0; while (n < 100) n = await Promise.resolve(n + 1); console.log(n)",
    )
    .printed("100\n");
}

#[test]
fn timers_for_ever() {
    times_out("setInterval(() => {}, 1)");
    times_out("setInterval(() => {}, 0); setTimeout(() => { for (;;) {} }, 5)");
    times_out("const f = () => setTimeout(f, 0); f()");
    times_out("const f = () => setImmediate(f); f()");
    times_out("await new Promise(done => setTimeout(done, 1e9))");
    permitted(&hasty(), "setTimeout(console.log, 10, 'rang')").printed("rang\n");
}

#[test]
fn catastrophic_regular_expression() {
    times_out("/(a+)+$/.exec('a'.repeat(40) + 'b')");
    times_out("'a'.repeat(40).concat('b').replace(/^(a|a)*$/, '')");
    permitted(&hasty(), "console.log(/(a+)+$/.test('a'.repeat(40)))").printed("true\n");
}

#[test]
fn interrupt_swallowed() {
    times_out("for (;;) { try { for (;;) {} } catch {} }");
    times_out("for (;;) { try { for (;;) {} } finally { continue } }");
    times_out("try { for (;;) {} } finally { for (;;) {} }");
    times_out(
        "const f = async () => { try { for (;;) {} } catch {} finally { f() } }; f(); for (;;) {}",
    );
    times_out(
        "function* g() { for (;;) try { for (;;) yield } finally { for (;;) {} } }; for (const x of g()) break",
    );
    let jar = Jar::new();
    attacked(&jar, "cancelled", || {
        for code in
            ["for (;;) {}", "for (;;) try { for (;;) {} } catch {}", "setInterval(() => {}, 1)"]
        {
            let mut sandbox = sandbox(&jar);
            let cancel = sandbox.cancel_handle();
            let result = std::thread::scope(|scope| {
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(200));
                    cancel.cancel();
                });
                sandbox.run(code)
            });
            result.ended(Status::Cancelled, -1);
            assert!(result.duration_ms < 3_000.0, "{} ms", result.duration_ms);
            sandbox.run("console.log('again')").printed("again\n");
        }
    });
    permitted(&hasty(), "try { throw 1 } catch (e) { console.log(e) } finally { console.log(2) }")
        .printed("1\n2\n");
}

#[test]
fn infinite_loop_out_of_fuel() {
    let jar = Jar::new().with(|layer| layer.fuel_budget(50_000_000));
    let result = attack(&jar, "for (;;) try { for (;;) {} } catch {}");
    assert_eq!(result.ended(Status::OutOfFuel, -1).fuel_consumed, Some(50_000_000));
    permitted(&jar, "console.log('in time')").printed("in time\n");
}

#[test]
fn infinite_recursion() {
    for code in [
        "const f = () => f(); f()",
        "const o = { toString() { return '' + this } }; '' + o",
        "const o = { valueOf() { return +this } }; +o",
        "const o = { toJSON() { return JSON.stringify(this) } }; JSON.stringify(o)",
        "const p = new Proxy({}, { get(t, k, r) { return r[k] } }); p.x",
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
        "const f = (...a) => f(...a, ...a, 1); f(1)",
        "const f = () => [1].map(f); f()",
        "const f = () => 'a'.replace(/a/, f); f()",
        "class A { constructor() { new A() } }; new A()",
        "const f = async () => { await f() }; await f()",
        "let x = []; for (let i = 0; i < 1e5; i++) x = [x]; String(x)",
        "let x = []; for (let i = 0; i < 1e5; i++) x = [x]; x.flat(Infinity)",
    ] {
        throws(&Jar::new(), code, &["RangeError"]);
    }
    let caught = "let n = 0; const f = () => { n++; f() }; try { f() } catch (e) { console.log(e.name, n > 500) }";
    permitted(&Jar::new(), caught).printed("RangeError true\n");
    permitted(&Jar::new(), "const f = n => n && 1 + f(n - 1); console.log(f(1000))")
        .printed("1000\n");
}

#[test]
fn nesting_too_deep_for_the_native_stack() {
    for code in [
        "JSON.parse('['.repeat(1e6))",
        "JSON.parse('{\"a\":'.repeat(1e5))",
        "let x = []; for (let i = 0; i < 1e5; i++) x = [x]; JSON.stringify(x)",
        "let x = []; for (let i = 0; i < 1e5; i++) x = [x]; structuredClone(x)",
        "eval('('.repeat(1e5))",
        "eval('['.repeat(1e5))",
        "Function('{'.repeat(1e5))",
        "writeText('deep.js', '('.repeat(1e5)); await import('./deep.js')",
    ] {
        throws(&Jar::new(), code, &["RangeError", "SyntaxError"]);
    }
    throws(&Jar::new(), &"(".repeat(100_000), &["RangeError", "SyntaxError"]);
    assert_eq!(sandbox(&Jar::new()).validate_code(&"(".repeat(100_000)), Ok(false));
}

#[test]
fn deep_nesting() {
    let nest = "let x = []; for (let i = 0; i < 1e5; i++) x = [x];";
    attack(&Jar::new(), &format!("{nest} console.log(x)")).printed("[ [ [ [Array] ] ] ]\n");
    attack(&Jar::new(), &format!("{nest} x = null; console.log('freed')")).printed("freed\n");
    throws(&Jar::new(), &format!("{nest} writeJson('f', x)"), &["TypeError"]);
    throws(
        &Jar::new(),
        "RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
        &["SyntaxError", "RangeError"],
    );
    throws(
        &Jar::new(),
        "RegExp('(?:'.repeat(1e5) + ')'.repeat(1e5))",
        &["SyntaxError", "RangeError"],
    );
    let code = "let e = new Error('0'); for (let i = 0; i < 1e5; i++) e = new Error('n', { cause: e }); throw e";
    attack(&Jar::new(), code).raised("Error", "n");
    let code = "let x = []; for (let i = 0; i < 200; i++) x = [x]; console.log(JSON.stringify(JSON.parse(JSON.stringify(x))).length)";
    permitted(&Jar::new(), code).printed("402\n");
}

#[test]
fn memory_bombs() {
    let jar = Jar::new().with(|layer| layer.memory_bytes(64_000_000));
    for code in [
        "new ArrayBuffer(1e9)",
        "const a = []; for (;;) a.push({})",
        "const a = []; for (;;) a.push(new Uint8Array(1e5))",
        "const a = []; let s = 'x'.repeat(1e6); for (let i = 0; ; i++) a.push(s + i + s.toUpperCase())",
        "const m = new Map(); for (let i = 0; ; i++) m.set(i, { i })",
        "const f = () => { const p = new Promise(() => {}); all.push(p, f2 => p) }; const all = []; for (;;) f()",
        "'x'.repeat(5e8).split('')",
        "for (;;) setTimeout(() => {}, 1e6)",
    ] {
        let result = attack(&jar, code);
        result.ended(Status::OutOfMemory, -1);
        let notice = "OutOfMemory: more than 64000000 bytes of memory were wanted; \
                      raise memory_bytes to allow more\n";
        assert!(result.stderr.ends_with(notice), "{code}: {}", result.stderr);
    }
    // Longer than a string can be, whatever the memory.
    throws(&jar, "let s = 'x'; for (;;) s += s", &["InternalError", "RangeError"]);
    let hasty = hasty().with(|layer| layer.memory_bytes(64_000_000));
    let code = "const a = []; for (;;) try { a.push(new Uint8Array(1e5)) } catch {}";
    attack(&hasty, code).ended(Status::Timeout, -1);
    let code = "try { new ArrayBuffer(1e9) } catch (e) { console.log(e.message) }
                console.log(new Uint8Array(1e7).length, 'x'.repeat(1e6).length)";
    permitted(&jar, code).printed("out of memory\n10000000 1000000\n");
}

#[test]
fn output_flood() {
    for code in
        ["for (;;) console.log('x'.repeat(1e5))", "for (;;) process.stdout.write('x'.repeat(1e6))"]
    {
        let result = attack(&Jar::new(), code);
        assert_eq!(result.ended(Status::OutputLimit, -1).stdout.len(), 2_000_000);
        assert!(result.stdout.ends_with("... (output truncated)") && result.meta.truncated);
    }
    let result = attack(&Jar::new(), "for (;;) console.error('x'.repeat(1e5))");
    assert!(result.ended(Status::OutputLimit, -1).stderr.len() <= 1_000_000);
    let result = attack(&Jar::new(), "throw new Error('x'.repeat(2e7))");
    let error = result.ended(Status::Error, 1).error.as_ref().expect("an error");
    assert!(error.message.len() < 100_000 && error.traceback.len() < 1_000_000);
    let result = attack(&Jar::new(), "console.log(Array(1e6).fill({ a: { b: { c: [1] } } }))");
    assert!(result.ended(Status::Ok, 0).stdout.len() < 100_000);
    permitted(&Jar::new(), "console.log('x'.repeat(1e5).length)").printed("100000\n");
}

#[track_caller]
fn refused(jar: &Jar, code: &str, with: &str) {
    let result = attack(jar, code);
    let error = result.ended(Status::Error, 1).error.as_ref().expect("an error");
    assert!(error.message.starts_with(with), "{code}: {error:?}");
}

#[test]
fn paths_that_lead_outside() {
    let outside = tempfile::tempdir().expect("a directory");
    fs::write(outside.path().join("secret.js"), "export const secret = 'host'").expect("a file");
    let jar = Jar::new();
    jar.write("d/f", "x");
    symlink(outside.path(), jar.workspace().join("dir")).expect("a link");
    symlink(outside.path().join("secret.js"), jar.workspace().join("link.js")).expect("a link");
    symlink(outside.path().join("new"), jar.workspace().join("dangling")).expect("a link");
    for path in [
        "/etc/passwd",
        "//etc/passwd",
        "/proc/self/environ",
        "../x",
        "/app/../etc/passwd",
        "d/../../x",
        "link.js",
        "dir/secret.js",
        "/dev/null",
        "/boot/driver/main.js",
    ] {
        for code in ["readText(P)", "writeText(P, 'evil')", "appendText(P, 'evil')", "readBytes(P)"]
        {
            refused(&jar, &code.replace('P', &format!("'{path}'")), "EPERM");
        }
    }
    for code in [
        "listFiles('/etc')",
        "listFiles('..')",
        "listFiles('dir')",
        "makeDir('/tmp/x')",
        "makeDir('dir/x')",
        "removeFile('/etc/passwd')",
        "removeFile('dir/secret.js')",
        "renameFile('dir/secret.js', 'mine')",
        "renameFile('d/f', '/tmp/f')",
        "renameFile('d/f', '../f')",
        "writeText('dangling', 'x')",
        "import '/etc/passwd'",
        "await import('/etc/passwd')",
        "import 'dir/secret.js'",
        "await import('./link.js')",
        "await import('../../../../etc/passwd')",
        "import x from './dir/secret.js'",
    ] {
        let result = attack(&jar, code);
        result.ended(Status::Error, 1);
        assert!(!result.stdout.contains("host") && !result.stderr.contains("'host'"), "{code}");
    }
    for code in [
        "await import('file:///etc/passwd')",
        "import 'http://example.com/x.js'",
        "await import('data:text/javascript,1')",
    ] {
        attack(&jar, code).ended(Status::Error, 1);
    }
    assert_eq!(fs::read_dir(outside.path()).expect("unharmed").count(), 1);
    let secret = fs::read_to_string(outside.path().join("secret.js")).expect("unharmed");
    assert_eq!(secret, "export const secret = 'host'");
    throws(&jar, "readText('a\\0b')", &["TypeError"]);
    permitted(&jar, "console.log(readText('d/../d/f'), exists('/etc/passwd'))")
        .printed("x false\n");
}

#[test]
fn writes_to_the_data_directory() {
    let jar = Jar::new().with_data(&[("d.txt", "data")]);
    for code in [
        "writeText('/data/d.txt', 'x')",
        "appendText('/data/d.txt', 'x')",
        "writeText('/data/new', '')",
        "removeFile('/data/d.txt')",
        "renameFile('/data/d.txt', '/data/e')",
        "renameFile('/data/d.txt', 'e')",
        "writeText('f', ''); renameFile('f', '/data/f')",
        "makeDir('/data/x')",
        "writeJson('/data/d.txt', 1)",
        "writeBytes('/data/d.txt', new Uint8Array(1))",
    ] {
        refused(&jar, code, "EROFS");
    }
    assert_eq!(fs::read_to_string(jar.data().join("d.txt")).expect("unharmed"), "data");
    assert_eq!(fs::read_dir(jar.data()).expect("unharmed").count(), 1);
    permitted(&jar, "console.log(readText('/data/d.txt'))").printed("data\n");
}

#[test]
fn disk_filled() {
    let jar =
        Jar::new().with(|layer| layer.workspace_max_bytes(1_000_000).workspace_max_files(100));
    for code in [
        "writeText('f', 'x'.repeat(1e7))",
        "for (;;) appendText('f', 'x'.repeat(1e5))",
        "for (let i = 0; ; i++) writeText('f' + i, '')",
        "for (let i = 0; ; i++) makeDir('d' + i)",
    ] {
        let jar =
            Jar::new().with(|layer| layer.workspace_max_bytes(1_000_000).workspace_max_files(100));
        let result = attack(&jar, code);
        result.ended(Status::Quota, -1);
        assert!(result.stderr.contains("Quota: the workspace may grow by 1000000 bytes"), "{code}");
        let entries = fs::read_dir(jar.workspace()).expect("the workspace");
        let sizes: Vec<u64> =
            entries.map(|e| e.expect("an entry").metadata().expect("metadata").len()).collect();
        assert!(sizes.len() <= 100, "{code}: {} files", sizes.len());
        assert!(!code.contains("Text('f',") || sizes.iter().sum::<u64>() <= 1_000_000, "{sizes:?}");
    }
    let code = "try { writeText('f', 'x'.repeat(1e7)) } catch (e) { console.log(e.code) }
                removeFile('f'); writeText('g', 'x'.repeat(9e5)); console.log(readText('g').length)";
    permitted(&jar, code).printed("ENOSPC\n900000\n");
}

#[test]
fn what_one_sandbox_leaves_for_the_next() {
    let jar = Jar::new();
    attacked(&jar, "leftovers", || {
        let mut sandbox = sandbox(&jar);
        let code = "globalThis.secret = 1; var planted = 2; Object.prototype.polluted = 3; process.env.LEFT = 'x';
                    process.argv.push('left'); console.log = null; Array.prototype.map = null; JSON.parse = null;
                    setInterval(() => {}, 1e6); process.exit(0)";
        sandbox.run(code).printed("");
        let code = "console.log(typeof secret, typeof planted, {}.polluted, process.env.LEFT,
                    process.argv.includes('left'), [1].map(n => n + 1), JSON.parse('[1]'))";
        sandbox.run(code).printed("undefined undefined undefined undefined false [ 2 ] [ 1 ]\n");
    });
}

#[test]
fn random_state_is_never_the_same_twice() {
    let code = "for (const v of [Math.random(), Math.random(), crypto.randomUUID(), crypto.getRandomValues(new Uint32Array(4))]) console.log(String(v))";
    let jar = Jar::new();
    let mut seen = HashSet::new();
    let _guard = exclusive();
    let mut kept = sandbox(&jar);
    for _ in 0..25 {
        for result in [sandbox(&jar).run(code), kept.run(code)] {
            for line in result.ended(Status::Ok, 0).stdout.lines() {
                assert!(seen.insert(line.to_owned()), "{line} came twice");
            }
        }
    }
    assert_eq!(seen.len(), 200);
}
