//! The examples do what their pages say.

#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod support;

use std::path::Path;
use std::process::Command;

/// Standard output and standard error of an example's script.
fn run(example: &str) -> (String, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
    let belljar = support::command(&[]);
    let mut command = Command::new("sh");
    command.arg(script).env("BELLJAR", belljar.get_program());
    for (name, value) in belljar.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let (code, stdout, stderr) = support::outcome(&command.output().unwrap());
    assert_eq!(code, 0, "{stdout}\n{stderr}");
    (stdout, stderr)
}

#[test]
fn an_approval_arrives_after_the_process_has_ended() {
    let (stdout, stderr) = run("approval/run.sh");
    insta::assert_snapshot!(format!("{stdout}---\n{stderr}"));
}

#[test]
fn a_table_and_a_chart_come_out_of_the_data_image() {
    let (stdout, stderr) = run("data/run.sh");
    assert_eq!(stderr, "");
    insta::assert_snapshot!(stdout, @r"
    image                data (by what the code imports)  [preset agent]
    product  chair    lamp
    region                
    north    895.0   795.0
    south    895.0  1021.0
    region,chair,lamp
    north,895.0,795.0
    south,895.0,1021.0
    PNG
    6
    image        data
    ");
}

#[test]
fn a_recursive_language_model_works_on_a_book() {
    let (stdout, stderr) = run("rlm/run.sh");
    assert_eq!(stderr, "");
    insta::assert_snapshot!(stdout, @r"
    620
    'lighthouse has 10 characters'
    'counted'
    ['ships', 'counted', 'clock']
    ");
}
