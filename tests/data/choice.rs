//! Which image code gets.

use belljar::core::Rule;
use belljar::{
    Backend, GuestImage, ImageChoice, JavaScriptSandbox, Sandbox, SandboxConfig, SandboxError,
    Status, create_sandbox,
};
use serde_json::json;
use support::{Cells, Expect, Jar, exclusive};

use crate::{image, jar};

const SUM: &str = "import numpy as np, pandas as pd
print(pd.DataFrame({'a': np.arange(10)}).a.sum())";

#[test]
fn a_fresh_run_has_what_it_imports() {
    let jar = Jar::new();
    let mut sandbox = jar.sandbox();
    let data = sandbox.run(SUM);
    data.printed("45\n");
    assert_eq!(image(&data), GuestImage::Data);
    // The next code has the image that fits it.
    let plain = sandbox.run("import json\nprint(json.dumps([1]))");
    plain.printed("[1]\n");
    assert_eq!(image(&plain), GuestImage::Plain);
    assert_eq!(serde_json::to_value(&plain.meta).expect("JSON").get("image"), None);
    assert_eq!(serde_json::to_value(&data.meta).expect("JSON")["image"], "data");
}

#[test]
fn imports_are_found_wherever_they_stand() {
    for code in [
        "def f():\n    from numpy import arange\n    return int(arange(4).sum())\nprint(f())",
        "import importlib\nprint(int(importlib.import_module('numpy').arange(4).sum()))",
        "print(int(__import__('numpy').arange(4).sum()))",
    ] {
        Jar::new().run(code).printed("6\n");
    }
}

#[test]
fn an_image_that_is_named_is_the_one() {
    let data = jar(ImageChoice::Data).run("import sys\nprint('numpy' in sys.modules)");
    data.printed("True\n");
    assert_eq!(image(&data), GuestImage::Data);
    let plain = jar(ImageChoice::Plain).run("import numpy");
    plain.raised("ModuleNotFoundError", "No module named 'numpy'");
    let hint = "MissingModule: numpy is in the image data; have it with image = \"data\" in the \
                policy, or --image data\n";
    assert!(plain.stderr.ends_with(hint), "{}", plain.stderr);
}

#[test]
fn a_session_has_what_its_first_cell_imports() {
    let jar = Jar::new();
    let mut session = jar.session_about(json!([1, 2, 3]));
    assert_eq!(session.get_variable("context").expect("a look").expect("one").text, "[1, 2, 3]");
    let first = session.run("import numpy as np\nint(np.array(context).sum())");
    first.gave(6);
    assert_eq!(image(&first), GuestImage::Data);
    let next = session.run("print('still')");
    next.printed("still\n");
    assert_eq!(image(&next), GuestImage::Data, "a session keeps its image");
}

#[test]
fn a_session_that_has_begun_without_it_is_told_how_to_have_it() {
    let jar = Jar::new();
    let mut session = jar.session();
    session.run("x = 1").kept(Status::Ok);
    let result = session.run("import pandas as pd");
    result.raised("ModuleNotFoundError", "No module named 'pandas'").kept(Status::Error);
    assert_eq!(image(&result), GuestImage::Plain);
    let hint = "MissingModule: pandas is in the image data; a session keeps the image it has begun \
                with: begin another with image = \"data\" in its policy, or --image data\n";
    assert!(result.stderr.ends_with(hint), "{}", result.stderr);
    session.run("x").gave(1);
    let missing = session.run("import left_pad");
    assert!(!missing.stderr.contains("MissingModule"), "{}", missing.stderr);
}

#[test]
fn a_module_in_the_workspace_is_the_one_that_is_meant() {
    let jar = Jar::new();
    jar.write("yaml.py", "who = 'mine'");
    let result = jar.run("import yaml\nprint(yaml.who)");
    result.printed("mine\n");
    assert_eq!(image(&result), GuestImage::Plain);
    // Where the path has no workspace, nothing of it is meant.
    let code = "import yaml\nprint(yaml.safe_load('a: [1, 2]'))";
    let result = jar.sandbox().execute_without_setup(code).expect("the host is fine");
    result.printed("{'a': [1, 2]}\n");
}

#[test]
fn where_it_cannot_be_had_it_is_refused() {
    let data = jar(ImageChoice::Data);
    let refused = |config: SandboxConfig| match create_sandbox(&config) {
        Err(SandboxError::Unenforceable { rule: Rule::Image, backend }) => backend,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was not refused"),
    };
    let native = SandboxConfig { backend: Backend::Native, ..data.config() };
    assert_eq!(refused(native), Backend::Native);
    let own = SandboxConfig { wasm_binary_path: Some("own.wasm".into()), ..data.config() };
    assert_eq!(refused(own), Backend::Wasm);
    let javascript = JavaScriptSandbox::from_config(&data.config()).map(|_| ());
    let error = javascript.expect_err("JavaScript has no such image");
    assert_eq!(error.to_string(), "the wasm backend cannot enforce image; nothing was run");
    // What every interpreter has may be asked for everywhere.
    let plain = jar(ImageChoice::Plain);
    let javascript = JavaScriptSandbox::from_config(&plain.config());
    assert!(javascript.expect("a sandbox").execute("1").expect("a result").success());
}

#[test]
fn it_goes_along_to_the_daemon() {
    let _alone = exclusive();
    let jar = Jar::new();
    let mut sandbox = create_sandbox(&jar.config_on(Backend::Daemon)).expect("a daemon");
    let result = sandbox.run(SUM);
    result.printed("45\n");
    assert_eq!((image(&result), result.meta.runtime.as_str()), (GuestImage::Data, "daemon"));
    let named = crate::jar(ImageChoice::Data);
    let mut session = create_sandbox(&named.config_on(Backend::Daemon)).expect("a daemon");
    session.initialize(json!(null)).expect("a session");
    session.run("import sys\n'numpy' in sys.modules").gave(true);
    let mut fork = session.fork().expect("a fork");
    fork.run("import numpy as np\nint(np.arange(5).sum())").gave(10);
    let snapshot = session.snapshot(belljar::Files::Without).expect("a snapshot");
    assert_eq!(snapshot.image(), GuestImage::Data);
    let mut here = jar.sandbox();
    here.restore(&snapshot).expect("restored");
    here.run("'numpy' in sys.modules").gave(true);
}
