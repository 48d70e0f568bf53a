//! Leaving Pyodide for the JavaScript engine around it, where only the jail holds.

use std::fs;

use belljar::{Status, create_sandbox};
use support::{Cells, Expect, Jar, exclusive};

/// Runs JavaScript as the engine does, past everything of Python's: `run_js` is refused, but any
/// function leads to the constructor of functions.
const RUN_JS: &str = "from js import Object
def run_js(text): return Object.constructor('return ' + text)()
def read(path):
    try: print('read:', run_js(f'require(\"fs\").readFileSync({path!r}, \"utf8\")')[:40])
    except Exception as error: print('refused')
";

#[test]
fn reading_files_of_the_host() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("reading_files_of_the_host") else { return };
    let _alone = exclusive();
    let elsewhere = tempfile::tempdir().expect("a directory");
    let secret = elsewhere.path().join("secret");
    fs::write(&secret, "the secret").expect("a file");
    jar.write("own.txt", "my own");
    let code = format!(
        "{RUN_JS}try:\n    from pyodide.code import run_js as own\n    own('1')\n\
         except ImportError: print('no run_js')\nfor path in ('/etc/shadow', '/proc/1/environ', '/root', {:?}, \
         '/proc/self/root/../../..{}'): read(path)\nread('/app/own.txt')",
        secret.display().to_string(),
        secret.display(),
    );
    let result = create_sandbox(&config).expect("a sandbox").run(&code);
    let lines: Vec<&str> = result.stdout.lines().collect();
    assert_eq!(lines.last(), Some(&"read: my own"), "{result:#?}");
    assert!(!result.stdout.contains("the secret"), "{result:#?}");
    assert_eq!(lines[..6], ["no run_js", "refused", "refused", "refused", "refused", "refused"]);
}

#[test]
fn environment_of_the_host() {
    let jar = Jar::new().with(|layer| layer.env("OWN", "mine"));
    let Some(config) = jar.pyodide("environment_of_the_host") else { return };
    let _alone = exclusive();
    let code = format!(
        "{RUN_JS}print(run_js('JSON.stringify(globalThis.process.env)'))\n\
         import os\nprint(dict(os.environ).get('OWN'))"
    );
    let result = create_sandbox(&config).expect("a sandbox").run(&code);
    result.ended(Status::Ok, 0);
    assert!(result.stdout.ends_with("mine\n"), "{result:#?}");
    // What every test of cargo's has in its environment.
    assert!(!result.stdout.contains("CARGO"), "{result:#?}");
}

#[test]
fn starting_programs_and_reaching_the_network() {
    let jar = Jar::new();
    let Some(config) = jar.pyodide("starting_programs_and_reaching_the_network") else { return };
    let _alone = exclusive();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let code = format!(
        "{RUN_JS}for way in ('process.kill(1, \"SIGKILL\")', 'process.kill(-1, \"SIGSTOP\")', 'fetch(\"http://127.0.0.1:{port}\")'):
    try: run_js(way)
    except Exception as error: print('refused')
import urllib.request
try: urllib.request.urlopen('http://127.0.0.1:{port}', timeout=2); print('connected')
except Exception as error: print('refused')
print(6 * 7)"
    );
    let result = create_sandbox(&config).expect("a sandbox").run(&code);
    assert!(!result.stdout.contains("connected"), "{result:#?}");
    listener.set_nonblocking(true).expect("a listener");
    assert!(listener.accept().is_err(), "somebody connected");
    create_sandbox(&config).expect("a sandbox").run("6 * 7").gave(42);
}
