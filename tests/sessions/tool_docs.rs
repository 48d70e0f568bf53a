//! What the code in a sandbox can find out about its tools.

use belljar::{Files, JavaScriptSandbox, PythonSandbox, Sandbox, Status, ToolDoc, Tools};
use serde_json::{Value, json};
use support::{Cells, Expect, Jar};

/// Looks at everything there is about the tool `price`.
const LOOK: &str = "import inspect\n[price.__doc__, price.__name__, str(inspect.signature(price))]";
const LOOK_JS: &str = "[price.doc, price.name, price.signature]";

fn about() -> ToolDoc {
    ToolDoc::new("The price of an article.\n\nIn cents.", "(article: str, n: int = 1) -> int")
}

fn seen() -> Value {
    json!(["The price of an article.\n\nIn cents.", "price", "(article: str, n: int = 1) -> int"])
}

/// A jar with a tool of which this is said, and one of which nothing is.
fn jar_saying(doc: ToolDoc) -> Jar {
    let tools = Tools::new()
        .with("price", |_| Ok(json!(350)))
        .and_then(|tools| tools.with("plain", |_| Ok(json!(1))))
        .and_then(|tools| tools.documented("price", doc));
    Jar::new().with_tools(tools.expect("good names"))
}

#[test]
fn every_execution_knows_it() {
    let jar = jar_saying(about());
    jar.run(LOOK).gave(seen());
    let mut session = jar.session();
    session.run(LOOK).gave(seen());
    session.run("price('tea')").gave(350);
    session.fork().expect("a fork").run(LOOK).gave(seen());
    let mut fresh = PythonSandbox::from_config(&jar.config()).expect("a sandbox");
    fresh.run(LOOK).gave(seen());
    fresh.run(LOOK).gave(seen());
    session.run("help(price)").printed(
        "Help on Tool in module belljar.tools:\n\n\
         price(article: str, n: int = 1) -> int\n    The price of an article.\n\n    In cents.\n\n",
    );
    let defaults = "inspect.signature(price).parameters['n'].default + 1";
    session.run(defaults).gave(2);
    session.run("str(inspect.signature(plain))").gave("(*args, **kwargs)");
}

#[test]
fn javascript_knows_it_too() {
    let jar = jar_saying(about());
    let mut session = jar.javascript();
    session.run(LOOK_JS).gave(seen());
    session.fork().expect("a fork").run(LOOK_JS).gave(seen());
    let mut fresh = JavaScriptSandbox::from_config(&jar.config()).expect("a sandbox");
    fresh.run(LOOK_JS).gave(seen());
    // It cannot be changed, does not show, and is nowhere else.
    session.run("price.doc = 1; delete price.signature; [Object.keys(price), price.toString() === plain.toString().replace('plain', 'price')]").gave(json!([[], true]));
    session.run(LOOK_JS).gave(seen());
    session.run("[plain.doc, plain.signature].every((said) => said === undefined)").gave(true);
    session.run("await price('tea')").gave(350);
}

#[test]
fn a_session_that_wakes_up_elsewhere_is_told_anew() {
    let mut session = jar_saying(about()).session();
    session.run("held = price").kept(Status::Ok);
    let snapshot = session.snapshot(Files::Without).expect("a snapshot");
    let elsewhere = |jar: &Jar| {
        let mut sandbox = PythonSandbox::from_config(&jar.config()).expect("a sandbox");
        sandbox.restore(&snapshot).expect("a session");
        sandbox
    };
    let other = jar_saying(ToolDoc { doc: Some("In dollars.".into()), signature: None });
    elsewhere(&other).run(LOOK).gave(json!(["In dollars.", "price", "(*args, **kwargs)"]));
    elsewhere(&other).run("held is price").gave(true);
    let silent = Jar::new().with_tools(Tools::new().deferred("price").expect("a good name"));
    elsewhere(&silent).run("price.__doc__.startswith('A function of the host.')").gave(true);
    elsewhere(&jar_saying(about())).run(LOOK).gave(seen());

    let mut script = jar_saying(about()).javascript();
    script.run("1").gave(1);
    let snapshot = script.snapshot(Files::Without).expect("a snapshot");
    let mut sandbox = JavaScriptSandbox::from_config(&other.config()).expect("a sandbox");
    sandbox.restore(&snapshot).expect("a session");
    sandbox.run("[price.doc, price.signature ?? null]").gave(json!(["In dollars.", null]));
}

#[test]
fn a_suspended_cell_goes_on_where_its_tool_is_described() {
    let tools = || {
        let tools = Tools::new().deferred("ask").expect("a good name");
        tools.documented("ask", ToolDoc::new("Asks a person.", "(question: str) -> str"))
    };
    let jar = Jar::new().with_tools(tools().expect("good words"));
    let mut session = jar.session();
    session.run("answer = await ask('?')\n[answer, ask.__doc__]").waits_for(&["ask"]);
    let id = session.pending_calls()[0].id;
    let snapshot = session.snapshot(Files::Without).expect("a snapshot");
    let mut other = PythonSandbox::from_config(&jar.config()).expect("a sandbox");
    other.restore(&snapshot).expect("a session");
    let answer = belljar::ToolAnswer { id, outcome: Ok(json!("yes")) };
    other.resume(vec![answer]).expect("a result").gave(json!(["yes", "Asks a person."]));
}
