use proptest::prelude::*;

use super::*;
use crate::limits;

fn from_toml(text: &str) -> Result<ExecutionPolicy, PolicyValidationError> {
    ExecutionPolicy::build(Preset::Strict, [PolicyLayer::from_toml(text, "policy.toml")?])
}

fn complaint(text: &str) -> String {
    from_toml(text).unwrap_err().to_string()
}

#[test]
fn the_default_is_the_strict_preset_to_the_letter() {
    assert_eq!(ExecutionPolicy::default(), ExecutionPolicy::preset(Preset::Strict));
    insta::assert_json_snapshot!(ExecutionPolicy::default());
}

#[test]
fn the_agent_preset_differs_in_fuel_only() {
    let mut agent = Preset::Agent.values();
    assert_eq!(agent.fuel_budget, 200_000_000_000);
    agent.fuel_budget = Preset::Strict.values().fuel_budget;
    assert_eq!(agent, Preset::Strict.values());
}

#[test]
fn every_field_can_be_written_in_a_file() {
    let policy = from_toml(
        r#"
        fuel_budget = 1_000
        memory_bytes = 0x1000000
        stdout_max_bytes = 1
        stderr_max_bytes = 2
        mount_host_dir = "work"
        guest_mount_path = "/w/x"
        mount_data_dir = "datasets"
        guest_data_path = "/d"
        argv = ["python"]
        timeout_seconds = 5
        workspace_max_bytes = 3
        workspace_max_files = 4
        max_processes = 5
        max_tool_calls = 6
        max_tool_bytes = 7
        max_rlm_depth = 8
        idle_timeout_seconds = 9.5
        network = "denied"
        deterministic = true
        block_imports = ["subprocess", "os.path"]
        image = "data"
        env.CUSTOM = "value"
        "#,
    )
    .unwrap();
    insta::assert_json_snapshot!(policy);
    for field in Field::ALL {
        assert!(policy.is_explicit(field), "{field}");
    }
    assert_eq!(policy.origin(Field::FuelBudget).unwrap().to_string(), "policy.toml, line 2");
}

#[test]
fn all_problems_of_a_file_are_reported_at_once_with_their_lines() {
    insta::assert_snapshot!(complaint(
        r#"fuel_budget = -1000
memory_bytes = "lots"
stdout_max_bytes = 0
stderr_max_bytes = 1.5
timeout_seconds = nan
fuel_bugdet = 5
wibble = 1
workspace_max_files = 99999999999999999999999999999999999999999999
workspace_max_bytes = 2000000000000
max_processes = true
max_tool_calls = 0
max_tool_bytes = "64MiB"
max_rlm_depth = -1
idle_timeout_seconds = "a day"
network = "allowed"
deterministic = "yes"
argv = "python"
block_imports = [1]
mount_host_dir = 7
guest_mount_path = "app"
guest_data_path = "/a/../b"
mount_data_dir = ""
[env]
PORT = 80
"A=B" = "x"
NUL = "a\u0000b"
"#
    ));
}

#[test]
fn more_ways_to_be_wrong() {
    let cases = [
        "memory_bytes = 4294967296",
        "memory_bytes = 4294901760\nfuel_budget = 0",
        "timeout_seconds = inf",
        "timeout_seconds = -1",
        "timeout_seconds = 0",
        "timeout_seconds = 1e-9",
        "timeout_seconds = 86401",
        "timeout_seconds = 1979-05-27",
        "idle_timeout_seconds = inf",
        "idle_timeout_seconds = 0.5",
        "idle_timeout_seconds = 99999999",
        "max_rlm_depth = 17",
        "fuel_budget = 9223372036854775807",
        "env = 5",
        "env = []",
        "guest_mount_path = \"/\"",
        "guest_mount_path = \"/app/\"",
        "guest_mount_path = \"/a\\u0000\"",
        "mount_data_dir = \"d\"\nguest_data_path = \"/app/data\"",
        "mount_data_dir = \"d\"\nguest_mount_path = \"/data/app\"",
        "argv = []",
        "block_imports = [\"os path\", \"\"]",
        "fuel_budget = 5\nfuel_budget = 6",
        "fuel_budget = ",
        "[fuel_budget]\nx = 1",
        "\"bad\\nkey\" = 1",
    ];
    let shown: Vec<String> =
        cases.iter().map(|case| format!("{case}\n=> {}\n", complaint(case))).collect();
    insta::assert_snapshot!(shown.join("\n"));
}

#[test]
fn the_largest_values_are_allowed() {
    let text = format!(
        "memory_bytes = {}\ntimeout_seconds = {}\nfuel_budget = {}",
        limits::MAX_MEMORY_BYTES,
        limits::MAX_TIMEOUT_SECONDS,
        limits::MAX_FUEL_BUDGET
    );
    assert_eq!(from_toml(&text).unwrap().memory_bytes, limits::MAX_MEMORY_BYTES);
}

#[test]
fn overlapping_guest_paths_matter_only_when_data_is_mounted() {
    assert!(from_toml("guest_data_path = \"/app\"").is_ok());
    assert!(from_toml("guest_data_path = \"/application\"\nmount_data_dir = \"d\"").is_ok());
}

#[test]
fn environments_are_merged_variable_by_variable() {
    let file = PolicyLayer::from_toml("env.CUSTOM = \"file\"\nenv.KEEP = \"1\"", "p").unwrap();
    let arguments = PolicyLayer::new().env("CUSTOM", "argument");
    let policy = ExecutionPolicy::build(Preset::Strict, [file, arguments]).unwrap();
    insta::assert_json_snapshot!(policy.env, @r#"
    {
      "CUSTOM": "argument",
      "KEEP": "1",
      "LC_ALL": "C.UTF-8",
      "PYTHONIOENCODING": "utf-8",
      "PYTHONUTF8": "1"
    }
    "#);
}

#[test]
fn file_then_variables_then_arguments_and_the_last_wins() {
    let file = PolicyLayer::from_toml(
        "fuel_budget = 1\nmemory_bytes = 1000\ntimeout_seconds = 1",
        "policy.toml",
    )
    .unwrap();
    let variables = PolicyLayer::from_variables([
        ("SANDBOX_FUEL_BUDGET", "2"),
        ("SANDBOX_MEMORY_BYTES", "64MiB"),
        ("HOME", "/root"),
    ])
    .unwrap();
    let arguments =
        PolicyLayer::new().from_source(Origin::Argument("--fuel".into())).fuel_budget(3);
    let policy = ExecutionPolicy::build(Preset::Strict, [file, variables, arguments]).unwrap();
    assert_eq!((policy.fuel_budget, policy.memory_bytes), (3, 64 << 20));
    assert!((policy.timeout_seconds - 1.0).abs() < f64::EPSILON);
    let origins: Vec<String> = [Field::FuelBudget, Field::MemoryBytes, Field::TimeoutSeconds]
        .map(|field| policy.origin(field).unwrap().to_string())
        .to_vec();
    insta::assert_json_snapshot!(origins, @r#"
    [
      "argument --fuel",
      "environment variable SANDBOX_MEMORY_BYTES",
      "policy.toml, line 3"
    ]
    "#);
}

#[test]
fn variables_say_everything_a_file_can() {
    let layer = PolicyLayer::from_variables([
        ("SANDBOX_TIMEOUT_SEC", "500ms"),
        ("SANDBOX_BLOCK_IMPORTS", "subprocess, socket"),
        ("SANDBOX_ARGV", "[\"python\", \"a,b\"]"),
        ("SANDBOX_DETERMINISTIC", "on"),
        ("SANDBOX_ENV", "{\"A\": \"1\"}"),
        ("SANDBOX_MOUNT_DATA_DIR", "data"),
        ("SANDBOX_MAX_TOOL_CALLS", "2k"),
        ("SANDBOX_MAX_TOOL_BYTES", "1MiB"),
        ("SANDBOX_MAX_RLM_DEPTH", "1"),
        ("SANDBOX_IDLE_TIMEOUT_SECONDS", "7d"),
        ("SANDBOX_TYPE", "docker"),
        ("SANDBOX_OF_SOMEBODY_ELSE", "1"),
    ])
    .unwrap();
    let policy = ExecutionPolicy::build(Preset::Strict, [layer]).unwrap();
    assert!((policy.timeout_seconds - 0.5).abs() < f64::EPSILON);
    assert_eq!(policy.block_imports, ["subprocess", "socket"]);
    assert_eq!(policy.argv, ["python", "a,b"]);
    assert!(policy.deterministic);
    assert_eq!(policy.env["A"], "1");
    assert_eq!((policy.max_tool_calls, policy.max_tool_bytes), (2000, 1 << 20));
    assert_eq!(policy.max_rlm_depth, 1);
    assert!((policy.idle_timeout_seconds - 604_800.0).abs() < f64::EPSILON);
}

#[test]
fn dangerous_imports_are_added_to_whatever_else_is_blocked() {
    let blocked = |variables: &[(&str, &str)], flags: PolicyLayer| {
        let layer = PolicyLayer::from_variables(variables.iter().copied()).unwrap();
        let policy = ExecutionPolicy::build(Preset::Strict, [layer, flags]).unwrap();
        (
            policy.block_imports.join(" "),
            policy.origin(Field::BlockImports).map(ToString::to_string),
        )
    };
    let dangerous = ("SANDBOX_BLOCK_DANGEROUS_IMPORTS", "true");
    let origin = |name: &str| Some(format!("environment variable {name}"));
    let none = PolicyLayer::new;
    assert_eq!(
        blocked(&[dangerous], none()),
        ("os subprocess shutil socket".to_owned(), origin(dangerous.0))
    );
    assert_eq!(
        blocked(&[dangerous, ("SANDBOX_BLOCK_IMPORTS", "ctypes, os")], none()),
        ("ctypes os subprocess shutil socket".to_owned(), origin("SANDBOX_BLOCK_IMPORTS"))
    );
    let flag = || PolicyLayer::new().block_imports(["ctypes"]);
    assert_eq!(blocked(&[dangerous], flag()).0, "ctypes os subprocess shutil socket");
    assert_eq!(blocked(&[(dangerous.0, "false")], flag()).0, "ctypes");
    assert_eq!(blocked(&[(dangerous.0, "off")], none()), (String::new(), None));
    let error = PolicyLayer::from_variables([
        (dangerous.0, "perhaps"),
        ("SANDBOX_BLOCK_DANGEROUS_IMPORT", "true"),
    ])
    .unwrap_err();
    insta::assert_snapshot!(error, @r#"
    the policy is not valid; nothing was run
      SANDBOX_BLOCK_DANGEROUS_IMPORT: unknown variable; did you mean `SANDBOX_BLOCK_DANGEROUS_IMPORTS`? (environment variable SANDBOX_BLOCK_DANGEROUS_IMPORT)
      SANDBOX_BLOCK_DANGEROUS_IMPORTS: must be true or false, but is "perhaps" (environment variable SANDBOX_BLOCK_DANGEROUS_IMPORTS)
    "#);
}

#[test]
fn wrong_variables_are_named() {
    let error = PolicyLayer::from_variables([
        ("SANDBOX_FUEL_BUDGET", "-5"),
        ("SANDBOX_FUEL_BUDGT", "5"),
        ("SANDBOX_DETERMINISTIC", "maybe"),
        ("SANDBOX_ENV", "A=1"),
        ("SANDBOX_MEMORY_BYTES", "1 potato"),
        ("SANDBOX_TIMEOUT_SECONDS", "inf"),
        ("SANDBOX_ARGV", "[1]"),
    ])
    .unwrap_err();
    insta::assert_snapshot!(error);
}

#[test]
fn json_is_read_like_a_file() {
    let policy: ExecutionPolicy =
        serde_json::from_str(r#"{"fuel_budget": 7, "mount_data_dir": null, "env": {"A": "1"}}"#)
            .unwrap();
    assert_eq!((policy.fuel_budget, policy.env["A"].as_str()), (7, "1"));
    let error = PolicyLayer::from_json(&serde_json::json!({
        "fuel_budget": -1000, "memory_bytes": 1e300, "nope": 1, "env": {"A": null}
    }))
    .unwrap_err();
    insta::assert_snapshot!(error);
    assert!(PolicyLayer::from_json(&serde_json::json!([])).is_err());
}

#[test]
fn a_policy_round_trips_through_json() {
    let policy = from_toml("fuel_budget = 7\nmount_data_dir = \"d\"").unwrap();
    let text = serde_json::to_string(&policy).unwrap();
    let back: ExecutionPolicy = serde_json::from_str(&text).unwrap();
    assert_eq!(back.values(), policy.values());
}

#[test]
fn only_what_was_asked_for_is_sent() {
    let policy = ExecutionPolicy::build(Preset::Agent, [PolicyLayer::new().env("A", "1")]).unwrap();
    let policy = policy.with(PolicyLayer::new().timeout_seconds(2.5)).unwrap();
    insta::assert_json_snapshot!(policy.explicit(), @r#"
    {
      "env": {
        "A": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONUTF8": "1"
      },
      "timeout_seconds": 2.5
    }
    "#);
    assert!(ExecutionPolicy::preset(Preset::Agent).explicit().is_empty());
    let defaults = PolicyLayer::new().stdout_max_bytes(5).timeout_seconds(30.0);
    let policy = ExecutionPolicy::build_with_defaults(Preset::Agent, defaults, []).unwrap();
    assert_eq!(policy.stdout_max_bytes, 5);
    assert!(!policy.is_explicit(Field::StdoutMaxBytes));
    assert_eq!(policy.origin(Field::StdoutMaxBytes), None);
    insta::assert_json_snapshot!(policy.explicit(), @r#"
    {
      "stdout_max_bytes": 5
    }
    "#);
}

#[test]
fn wrong_values_from_a_program_are_refused_too() {
    let layer = PolicyLayer::new().fuel_budget(0).timeout_seconds(f64::NAN).env("", "x");
    insta::assert_snapshot!(ExecutionPolicy::build(Preset::Agent, [layer]).unwrap_err(), @r"
    the policy is not valid; nothing was run
      fuel_budget: must be greater than 0, but is 0
      timeout_seconds: must be a finite number of seconds, but is NaN; every execution has a time limit
      env.: a variable needs a name
    ");
}

#[test]
fn a_layer_on_top_of_a_policy() {
    let base = from_toml("fuel_budget = 7").unwrap();
    let policy = base.with(PolicyLayer::new().memory_bytes(9)).unwrap();
    assert_eq!((policy.fuel_budget, policy.memory_bytes), (7, 9));
    assert!(policy.is_explicit(Field::FuelBudget) && policy.is_explicit(Field::MemoryBytes));
    assert!(base.with(PolicyLayer::new().memory_bytes(0)).is_err());
}

#[test]
fn an_environment_too_large_is_refused() {
    let layer = PolicyLayer::new().env("BIG", "x".repeat(limits::MAX_ENV_BYTES));
    let error = ExecutionPolicy::build(Preset::Strict, [layer]).unwrap_err();
    assert!(error.concerns("env"));
}

#[test]
fn the_schema_knows_every_field() {
    let schema = serde_json::to_value(schemars::schema_for!(ExecutionPolicy)).unwrap();
    for field in Field::ALL {
        assert!(schema["properties"][field.name()].is_object(), "{field}");
    }
}

proptest! {
    #[test]
    fn no_file_text_panics(text in "\\PC{0,200}") {
        let _ = from_toml(&text);
    }

    #[test]
    fn no_assignment_panics_and_what_is_accepted_is_in_range(
        field in prop::sample::select(Field::ALL.to_vec()),
        value in prop_oneof![
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_map(|n| format!("{n:?}")),
            Just("true".to_owned()),
            "[a-z/.]{0,8}".prop_map(|s| format!("\"{s}\"")),
            Just("[]".to_owned()),
            Just("{}".to_owned()),
        ],
    ) {
        let text = format!("{field} = {value}");
        match from_toml(&text) {
            Ok(policy) => {
                prop_assert!(policy.fuel_budget > 0);
                prop_assert!(policy.memory_bytes > 0 && policy.memory_bytes <= limits::MAX_MEMORY_BYTES);
                prop_assert!(policy.timeout_seconds.is_finite() && policy.timeout_seconds > 0.0);
                prop_assert!(policy.guest_mount_path.starts_with('/'));
                prop_assert!(!policy.argv.is_empty());
            }
            Err(error) => {
                prop_assert!(!error.issues.is_empty());
                let named = error.issues.iter().all(|issue| {
                    issue.location == Some(Origin::File { name: "policy.toml".into(), line: 1 })
                });
                prop_assert!(named, "{error}");
            }
        }
    }

    #[test]
    fn what_was_asked_for_gives_the_same_policy_elsewhere(
        preset in prop::sample::select(Preset::ALL.to_vec()),
        fuel in prop::option::of(1u64..=limits::MAX_FUEL_BUDGET),
        memory in prop::option::of(1u64..=limits::MAX_MEMORY_BYTES),
        timeout in prop::option::of(limits::MIN_TIMEOUT_SECONDS..limits::MAX_TIMEOUT_SECONDS),
        data in prop::option::of("[a-z /é]{1,12}"),
        argv in prop::option::of(prop::collection::vec("[^\0]{0,8}", 1..4)),
        env in prop::collection::btree_map("[A-Z]{1,4}", "[^\0]{0,8}", 0..4),
        deterministic in prop::option::of(any::<bool>()),
    ) {
        let mut layer = PolicyLayer::new();
        if let Some(fuel) = fuel { layer = layer.fuel_budget(fuel); }
        if let Some(memory) = memory { layer = layer.memory_bytes(memory); }
        if let Some(timeout) = timeout { layer = layer.timeout_seconds(timeout); }
        if let Some(data) = data { layer = layer.mount_data_dir(data); }
        if let Some(argv) = argv { layer = layer.argv(argv); }
        if let Some(on) = deterministic { layer = layer.deterministic(on); }
        for (name, value) in env { layer = layer.env(name, value); }
        let policy = ExecutionPolicy::build(preset, [layer]).unwrap();
        // As it travels.
        let text = serde_json::to_string(&policy.explicit()).unwrap();
        let layer = PolicyLayer::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
        let there = ExecutionPolicy::build(policy.base(), [layer]).unwrap();
        prop_assert_eq!(there.values(), policy.values());
        for field in Field::ALL {
            prop_assert_eq!(there.is_explicit(field), policy.is_explicit(field), "{}", field);
        }
    }

    #[test]
    fn merging_keeps_the_later_value(first in prop::option::of(1u64..1000), second in prop::option::of(1u64..1000)) {
        let layer = |fuel: Option<u64>| fuel.map_or_else(PolicyLayer::new, |fuel| PolicyLayer::new().fuel_budget(fuel));
        let policy = ExecutionPolicy::build(Preset::Strict, [layer(first), layer(second)]).unwrap();
        prop_assert_eq!(policy.fuel_budget, second.or(first).unwrap_or(2_000_000_000));
        prop_assert_eq!(policy.is_explicit(Field::FuelBudget), first.is_some() || second.is_some());
    }
}
