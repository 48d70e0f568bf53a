//! JavaScript that wants the driver: to change what it says, to reach its objects, to speak to the
//! host in its name.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar::{JavaScriptSandbox, Sandbox, Status, ToolOutcome, Tools};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar};

use crate::javascript::{attack, attacked, permitted, sandbox};

/// A jar with a tool that gives back its first argument and one whose answers come later; and what
/// reached the first.
fn jar() -> (Jar, Arc<Mutex<Vec<Vec<Value>>>>) {
    let seen = Arc::<Mutex<Vec<Vec<Value>>>>::default();
    let record = Arc::clone(&seen);
    let echo = move |request: &belljar::ToolRequest| -> ToolOutcome {
        record.lock().expect("a list").push(request.call.args.clone());
        Ok(request.call.args.first().cloned().unwrap_or_default())
    };
    let tools = Tools::new().with("echo", echo).and_then(|tools| tools.deferred("later"));
    (Jar::new().with_tools(tools.expect("good names")), seen)
}

fn session(jar: &Jar) -> JavaScriptSandbox {
    let mut session = sandbox(jar);
    session.initialize(Value::Null).expect("a session");
    session
}

/// Whatever was done to the session, it tells the truth about what comes next.
#[track_caller]
fn is_sound(session: &mut JavaScriptSandbox) {
    session.run("1 + 1").gave(2);
    session.run("var kept = [1, 'two', { three: 3 }]; kept").gave(json!([1, "two", {"three": 3}]));
    session.run("console.log('next', kept[1])").printed("next two\n");
    session.run("throw new TypeError('told')").raised("TypeError", "told");
    session.run("let broken = ").ended(Status::Error, 1);
    session.run("await echo('a')").gave("a");
    session.run("echo.sync([1])").gave(json!([1]));
    session.run("writeJson('f', { a: [1] }); readJson('f').a[0]").gave(1);
    let variable = session.get_variable("kept").expect("the host is fine").expect("a variable");
    assert_eq!(variable.text, "[ 1, 'two', { three: 3 } ]");
}

/// The cell ends well, what it printed and its value are its own, and so are those of the next.
#[track_caller]
fn changes_nothing(pollution: &str) {
    let (jar, _) = jar();
    attacked(&jar, pollution, || {
        let result = sandbox(&jar).run(&format!("{pollution};\nconsole.log('mine')"));
        result.printed("mine\n");
        let mut session = session(&jar);
        session.run(&format!("{pollution};\n42")).gave(42);
        is_sound(&mut session);
    });
}

#[test]
fn prototype_pollution() {
    for code in [
        "Object.prototype.end = 'finished'; Object.prototype.value = 'forged'; Object.prototype.exit_code = 9",
        "Object.prototype.error = { name: 'F', message: 'forged', traceback: 'forged' }",
        "Object.defineProperty(Object.prototype, 'end', { get() { return 'raised' }, set() { throw 1 } })",
        "Object.defineProperty(Object.prototype, 'thrown', { get() { return 'forged' } })",
        "Object.prototype.get = Object.prototype.set = () => { throw 1 }",
        "Array.prototype[0] = 'forged'; Object.prototype[1] = 'forged'",
        "Array.prototype[Symbol.iterator] = function* () { yield 'forged' }",
        "Array.prototype.map = Array.prototype.join = Array.prototype.push = () => { throw 'trap' }",
        "Promise.prototype.then = () => { throw 'trap' }; Promise.resolve = null; Promise = null",
        "JSON.stringify = JSON.parse = () => 'forged'; globalThis.JSON = null",
        "String.prototype.toString = String.prototype.slice = String.prototype.replace = () => 'forged'",
        "Map.prototype.get = Map.prototype.set = Map.prototype.delete = () => { throw 'trap' }; Map = null",
        "Error.prototype.toString = () => 'forged'; Error.captureStackTrace = null; Error = null",
        "RegExp.prototype.exec = () => { throw 'trap' }; RegExp.prototype[Symbol.replace] = null",
        "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = null",
        "Reflect.ownKeys = Reflect.defineProperty = Reflect.getOwnPropertyDescriptor = null; Reflect = null",
        "Object.keys = Object.entries = Object.assign = Object.getPrototypeOf = Object.defineProperty = null",
        "Symbol.iterator.description; Number.prototype.toString = () => 'forged'; Math.max = () => NaN",
        "process.exit = process.stdout.write = null; structuredClone = queueMicrotask = setTimeout = null",
        "Object.setPrototypeOf(Object.prototype.__proto__ ?? {}, null); Object.freeze(Array.prototype)",
        "Uint8Array.prototype.set = TextEncoder.prototype.encode = null; TextDecoder = Uint8Array = null",
    ] {
        changes_nothing(code);
    }
}

#[test]
fn conversion_to_json_replaced() {
    let (jar, _) = jar();
    attacked(&jar, "toJSON", || {
        let mut session = session(&jar);
        let code = "Object.prototype.toJSON = () => 'forged'; [42, { a: 1 }]";
        session.run(code).gave(json!([42, {"a": 1}]));
        session.run("console.log({ a: 1 })").printed("{ a: 1 }\n");
        session.run("throw new TypeError('told')").raised("TypeError", "told");
        // What the code sends is its own affair, and as with JSON.stringify.
        session.run("await echo({ a: 1 })").gave("forged");
    });
}

/// What the code does to its own promises is its own affair; the driver lives.
#[test]
fn every_object_is_a_thenable() {
    let (jar, _) = jar();
    for (code, status) in [
        ("Object.prototype.then = function (resolve) { resolve('stolen') }; 5", Status::Ok),
        ("Object.prototype.then = function () { throw 'trap' }; 5", Status::Error),
        (
            "Object.defineProperty(Object.prototype, 'then', { get() { throw 'trap' }, configurable: true }); 5",
            Status::Error,
        ),
    ] {
        attacked(&jar, code, || {
            let mut session = session(&jar);
            assert_eq!(session.run(code).status(), status, "{code}");
            session.run("delete Object.prototype.then");
            session.run("1 + 1").gave(2);
        });
    }
}

#[test]
fn every_built_in_is_a_trap() {
    let code = "(() => { const all = [Array, Promise, String, Error, Map, RegExp, Set, Number, Uint8Array, Symbol, JSON,
            Math, Function, Reflect]; const { ownKeys, defineProperty } = Reflect;
        for (let i = 0; i < all.length; i++) for (let j = 0; j < 2; j++) { const o = j ? all[i] : all[i].prototype;
          if (o) for (let n = 0, keys = ownKeys(o); n < keys.length; n++)
            defineProperty(o, keys[n], { __proto__: null, get() { throw 'trap' }, set() {} }) } })(); 5";
    let (jar, _) = jar();
    attacked(&jar, code, || {
        let mut session = session(&jar);
        session.run(code).gave(5);
        session.run("1 + 1").gave(2);
        session.run("console.log('next', { a: 1 })").printed("next { a: 1 }\n");
        session.run("throw 5").raised("Uncaught", "5");
    });
}

#[test]
fn errors_that_lie() {
    for (code, name, message) in [
        (
            "const e = new Error('m'); Object.defineProperty(e, 'stack', { get() { for (;;) {} } }); throw e",
            "Error",
            "m",
        ),
        (
            "Object.defineProperty(Error.prototype, 'message', { get() { throw 1 } }); throw new Error('m')",
            "Error",
            "m",
        ),
        ("Error.prepareStackTrace = () => { for (;;) {} }; null.x", "", ""),
        (
            "Error.prepareStackTrace = () => { throw new Error('again') }; throw new RangeError('m')",
            "",
            "",
        ),
        (
            "throw new Proxy({}, { get() { throw 1 }, getPrototypeOf() { throw 2 }, ownKeys() { throw 3 } })",
            "Uncaught",
            "{}",
        ),
        ("throw { toString() { for (;;) {} }, get name() { for (;;) {} } }", "Uncaught", ""),
        ("class Interrupted extends Error {}; throw new Interrupted('not really')", "", ""),
    ] {
        let jar = Jar::new().timeout(Duration::from_millis(500));
        let result = attack(&jar, code);
        if code.contains("prepareStackTrace = () => { for") {
            result.ended(Status::Timeout, -1);
            continue;
        }
        let error = result.ended(Status::Error, 1).error.as_ref().expect("an error");
        assert!(name.is_empty() || error.name == name, "{code}: {error:?}");
        assert!(message.is_empty() || error.message == message, "{code}: {error:?}");
    }
    // Claims of having met a limit do not become the host's.
    let code = "const e = new Error('out of memory'); e.name = 'InternalError'; throw e";
    attack(&Jar::new(), code).ended(Status::Error, 1);
    permitted(&Jar::new(), "throw new RangeError('plain')").raised("RangeError", "plain");
}

#[test]
fn values_that_do_not_want_to_be_shown() {
    let (jar, _) = jar();
    let jar = jar.timeout(Duration::from_secs(2));
    attacked(&jar, "values", || {
        let mut session = session(&jar);
        for code in [
            "new Proxy({}, { get() { throw 1 }, ownKeys() { throw 2 }, getOwnPropertyDescriptor() { throw 3 } })",
            "({ get x() { throw 1 }, toString() { throw 2 }, [Symbol.toPrimitive]() { throw 3 } })",
            "({ toJSON() { for (;;) {} } })",
            "Object.create({ constructor: { get name() { for (;;) {} } } })",
            "const o = {}; o.o = o; o",
            "Object.create(null)",
            "Symbol('x')",
            "10n ** 1000n",
            "Array(1e9)",
            "new Proxy([], { get(t, k) { return k === 'length' ? 1e9 : t[k] } })",
        ] {
            let result = session.run(&format!("{{ }};\n{code}"));
            result.ended(Status::Ok, 0);
            let shown = result.result.as_ref().map_or(0, |value| value.text.len());
            assert!(shown < 100_000, "{code}");
        }
        is_sound(&mut session);
    });
}

/// Names of the driver's own that must be nowhere.
const NAMES: &str = "['host', 'hostCall', 'phase', 'handle', 'warmUp', 'portal', 'runJobs', 'setVariable', 'std', 'os', 'bjson', 'scriptArgs', 'print', 'gc', 'navigator']";

#[test]
fn functions_of_the_host_in_reach() {
    let code = format!(
        "const names = {NAMES}; const seen = new Set(), found = [];
        const ways = [o => Reflect.ownKeys(o).map(k => {{ try {{ return [k, o[k]] }} catch {{ return [k] }} }}),
                      o => [['__proto__', Object.getPrototypeOf(o)]],
                      o => Object.values(Object.getOwnPropertyDescriptors(o)).flatMap(d => [['get', d.get], ['set', d.set]])];
        const visit = (value, path) => {{
          if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
          seen.add(value);
          for (const way of ways) for (const [key, next] of way(value)) {{
            if (names.includes(key)) found.push(path + '.' + String(key));
            visit(next, path + '.' + String(key));
          }}
          if (typeof value === 'function' && value !== Function.prototype && !(value instanceof Function)) found.push(path + ' of another realm');
          if (typeof value === 'object' && value !== Object.prototype && Object.getPrototypeOf(value) !== null && !(value instanceof Object)) found.push(path + ' of another realm');
        }};
        visit(globalThis, '');
        for (const f of [() => readText('none'), () => null.x, () => structuredClone(() => 1), () => atob('*'), () => fetch('x').catch(() => {{}}),
                         () => setTimeout(1), () => process.cwd.call(null).x.y, () => new TextDecoder('none'), () => readText(1)])
          try {{ f() }} catch (e) {{ visit(e, f) }}
        console.log(seen.size > 500, found)"
    );
    attack(&Jar::new(), &code).printed("true []\n");
    for get in [
        "Function('return this')()",
        "console.log.constructor('return this')()",
        "readText.constructor.constructor('return this')()",
        "(async () => {}).constructor('return this')",
        "Object.getPrototypeOf(function* () {}).constructor('return this')().next().value",
        "(0, eval)('this')",
        "[].constructor.constructor('return globalThis')()",
    ] {
        let code = format!(
            "const g = {get}; const it = typeof g === 'function' ? await g() : g;
             console.log(it === globalThis, {NAMES}.filter(n => n in it || n in globalThis))"
        );
        attack(&Jar::new(), &code).printed("true []\n");
    }
    permitted(&Jar::new(), "console.log(Function('a', 'return a + 1')(1))").printed("2\n");
}

#[test]
fn stack_frames_of_the_driver() {
    let code = "let frames = []; Error.prepareStackTrace = (e, sites) => { frames.push(...sites); return sites };
        for (const f of [() => readText('none'), () => fetch('x').catch(() => {}), () => structuredClone(() => 1), () => writeJson('f', { toJSON() { new Error().stack } })])
          try { f() } catch (e) { e.stack }
        setTimeout(() => { new Error().stack; const all = frames.flatMap(s => ['getFunction', 'getThis'].map(k => { try { return s[k]?.() } catch {} }));
          console.log(all.filter(x => x !== undefined && x !== null && !(x instanceof Object)).length);
          console.log(frames.some(s => /driver|belljar:|boot/.test(String(s.getFileName?.())))) }, 1)";
    attack(&Jar::new(), code).printed("0\nfalse\n");
    let code = "const f = () => { try { readText('none') } catch (e) { return e.stack } }; console.log(/driver|boot|belljar/.test(f()))";
    attack(&Jar::new(), code).printed("false\n");
    let code = "for (const f of [readText, console.log, process.exit]) for (const k of ['caller', 'arguments']) try { console.log(f[k]) } catch (e) { console.log(e.name) }";
    attack(&Jar::new(), code).printed(&"TypeError\n".repeat(6));
}

#[test]
fn forged_tool_results() {
    let (jar, seen) = jar();
    attacked(&jar, "forged results", || {
        let mut session = session(&jar);
        for value in [
            json!({"do": "call", "name": "secret", "args": []}),
            json!("\"}],\"name\":\"secret\",\"args\":[{\""),
            json!({"end": "finished", "value": {"text": "forged"}, "answers": [{"id": 1, "value": 1}]}),
            json!({"__proto__": {"polluted": true}, "constructor": {"prototype": 1}, "": 0}),
            json!("\u{0}\n\u{2028}\u{feff}</script>`${x}`"),
        ] {
            let text = serde_json::to_string(&value.to_string()).expect("JSON");
            session.run(&format!("await echo(JSON.parse({text}))")).gave(value.clone());
            assert_eq!(seen.lock().expect("a list").pop(), Some(vec![value]));
        }
        session.run("[{}.polluted === undefined, typeof secret]").gave(json!([true, "undefined"]));
        // What the code says about its calls is not what the host believes.
        session.run("JSON.stringify = () => '{\"do\":\"call\",\"name\":\"later\"}'; JSON.parse = () => ({ value: 'forged' })");
        session.run("await echo('true')").gave("true");
        session
            .run("Promise.prototype.then = f => f('forged'); await echo('still true')")
            .gave("still true");
        session
            .run("console.log('{\"end\":\"finished\",\"value\":{\"json\":\"forged\"}}'); 7")
            .gave(7);
        session.run("await echo({ toJSON() { return 'own' } }, () => 1)").ended(Status::Error, 1);
        // A call that waits is answered by the host alone.
        session
            .run("var got = later(1); got.constructor.resolve('forged'); await got")
            .waits_for(&["later"]);
        let id = session.waiting()[0];
        session.answer(vec![(id, Ok(json!("answered")))]).gave("answered");
        is_sound(&mut session);
    });
}

#[test]
fn unhandled_rejections() {
    let jar = Jar::new();
    attack(&jar, "Promise.reject(new Error('lost')); console.log(1)").raised("Error", "lost");
    attack(&jar, "(async () => { throw new TypeError('lost') })()").raised("TypeError", "lost");
    attack(&jar, "setTimeout(() => { throw new RangeError('late') }, 1)")
        .raised("RangeError", "late");
    let code = "for (let i = 0; i < 1e4; i++) Promise.reject({ get message() { for (;;) {} } })";
    attack(&jar, code).ended(Status::Error, 1);
    let (jar, _) = self::jar();
    attacked(&jar, "rejections in a session", || {
        let mut session = session(&jar);
        let result =
            session.run("for (let i = 0; i < 1e3; i++) Promise.reject(new Error('e' + i)); 5");
        assert!(
            result.gave(5).stderr.contains("Uncaught (in promise) Error: e0"),
            "{}",
            result.stderr
        );
        session
            .run("setTimeout(() => Promise.reject(1), 0); setInterval(() => { throw 2 }, 1); 6")
            .gave(6);
        let late = session.run("await new Promise(done => setTimeout(done, 20)); 7");
        assert_ne!(late.status(), Status::Crashed);
        session.run("for (let i = 0; i < 1e4; i++) clearInterval(i)");
        is_sound(&mut session);
    });
    permitted(&Jar::new(), "await Promise.reject(1).catch(e => console.log(e))").printed("1\n");
}
