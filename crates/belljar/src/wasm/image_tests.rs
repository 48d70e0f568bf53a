use belljar_core::{ExecutionPolicy, ImageChoice, PolicyLayer, Preset};
use tempfile::TempDir;

use super::*;
use crate::factory::SandboxConfig;
use crate::home::Home;

/// A plan in a directory of its own, with what somebody has put into its workspace.
struct Case {
    _directory: TempDir,
    plan: LaunchPlan,
}

fn case(choice: ImageChoice, files: &[&str]) -> Case {
    let directory = tempfile::tempdir().unwrap();
    let workspace = directory.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    for file in files {
        let path = workspace.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let layer = PolicyLayer::new().image(choice);
    let plan = LaunchPlan::new(&SandboxConfig {
        policy: ExecutionPolicy::build(Preset::Agent, [layer]).unwrap(),
        workspace: Some(workspace),
        home: Some(Home::at(directory.path().join("home"))),
        ..SandboxConfig::default()
    })
    .unwrap();
    Case { _directory: directory, plan }
}

fn chosen(code: &str) -> GuestImage {
    for_code(&case(ImageChoice::Auto, &[]).plan, code, Search::Everywhere)
}

#[test]
fn code_that_imports_something_of_the_data_image_gets_it() {
    for code in [
        "import numpy as np\nprint(np.arange(3))",
        "from pandas import DataFrame",
        "import os, numpy.linalg",
        "def f():\n    if True:\n        import pandas.io.json\n",
        "try:\n    import yaml\nexcept ImportError:\n    yaml = None",
        "import importlib\nimportlib.import_module('numpy')",
        "np = __import__('numpy')",
        "exec('import numpy')",
        "import matplotlib.pyplot as plt",
        "from dateutil.parser import parse",
    ] {
        assert_eq!(chosen(code), GuestImage::Data, "{code}");
    }
}

#[test]
fn other_code_stays_where_it_is_small() {
    for code in [
        "print('hello')",
        "import json, math",
        "# import numpy\nimport json",
        "text = 'import numpy as np'",
        "import sixteen",
        "import numpyx",
        "from here import numpy",
        "from . import numpy",
        "import sys\nsys.modules['numpy'] = 1",
        "import",
        "",
    ] {
        assert_eq!(chosen(code), GuestImage::Plain, "{code}");
    }
    let deep = format!("import numpy\nx = {}", "(".repeat(100_000));
    assert_eq!(chosen(&deep), GuestImage::Plain);
}

#[test]
fn a_policy_that_names_an_image_is_obeyed() {
    let of = |choice, code| for_code(&case(choice, &[]).plan, code, Search::Everywhere);
    assert_eq!(of(ImageChoice::Plain, "import numpy"), GuestImage::Plain);
    assert_eq!(of(ImageChoice::Data, "print(1)"), GuestImage::Data);
}

#[test]
fn a_module_of_ones_own_is_preferred() {
    let with = |file: &str, code: &str, search: Search| {
        for_code(&case(ImageChoice::Auto, &[file]).plan, code, search)
    };
    let everywhere = Search::Everywhere;
    assert_eq!(with("yaml.py", "import yaml", everywhere), GuestImage::Plain);
    assert_eq!(with("yaml/__init__.py", "import yaml", everywhere), GuestImage::Plain);
    assert_eq!(with("yaml/data.csv", "import yaml", everywhere), GuestImage::Data);
    assert_eq!(with("yaml.py", "import yaml, numpy", everywhere), GuestImage::Data);
    assert_eq!(with("yaml.py", "import yaml", Search::ImageOnly), GuestImage::Data);
}

#[test]
fn a_link_in_the_workspace_tells_nothing_about_where_it_leads() {
    let case = case(ImageChoice::Auto, &["elsewhere/__init__.py"]);
    let workspace = case.plan.workspace.clone();
    std::os::unix::fs::symlink(workspace.join("elsewhere"), workspace.join("numpy")).unwrap();
    assert_eq!(for_code(&case.plan, "import numpy", Search::Everywhere), GuestImage::Data);
}

#[test]
fn a_missing_module_says_how_to_get_it() {
    let error = |name: &str, message: &str| GuestError {
        name: name.to_owned(),
        message: message.to_owned(),
        traceback: String::new(),
    };
    insta::assert_snapshot!(
        hint(&error(NOT_FOUND, "No module named 'numpy.linalg'"), false).unwrap(),
        @r#"MissingModule: numpy is in the image data; have it with image = "data" in the policy, or --image data"#
    );
    insta::assert_snapshot!(
        hint(&error(NOT_FOUND, "No module named 'pandas'"), true).unwrap(),
        @r#"MissingModule: pandas is in the image data; a session keeps the image it has begun with: begin another with image = "data" in its policy, or --image data"#
    );
    for (name, message) in [
        (NOT_FOUND, "No module named 'left_pad'"),
        (NOT_FOUND, "numpy"),
        (NOT_FOUND, ""),
        ("ImportError", "No module named 'numpy'"),
    ] {
        assert_eq!(hint(&error(name, message), true), None, "{message}");
    }
}
