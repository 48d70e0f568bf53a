//! Code that waits for a person, and goes on in another process.
//!
//! ```console
//! $ cargo run -p belljar --example suspend -- begin waiting.belljar
//! $ cargo run -p belljar --example suspend -- answer waiting.belljar true
//! ```
#![expect(clippy::print_stdout, reason = "an example")]

use std::path::Path;

use belljar::{
    ExecutionPolicy, Files, Home, Sandbox, SandboxConfig, SandboxError, SandboxResult, Snapshot,
    Status, ToolAnswer, Tools, create_sandbox,
};
use serde_json::Value;

const CODE: &str = "
amount = 100
if await approve('pay out', amount=amount):
    print('paid', amount)
else:
    print('refused')
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let home = Home::locate()?;
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["begin", file] => {
            let result = begin(Path::new(file), &home)?;
            for call in result.pending_calls {
                println!("call {} waits: {} {:?} {:?}", call.id, call.name, call.args, call.kwargs);
            }
        }
        ["answer", file, answer] => {
            let result = answer_all(Path::new(file), serde_json::from_str(answer)?, &home)?;
            print!("{}", result.stdout);
        }
        _ => println!("usage: suspend begin FILE | answer FILE JSON"),
    }
    Ok(())
}

/// Runs the code until it waits, and saves it as it waits.
fn begin(file: &Path, home: &Home) -> Result<SandboxResult, SandboxError> {
    let mut sandbox = sandbox(home)?;
    sandbox.initialize(Value::Null)?;
    let result = sandbox.execute(CODE)?;
    assert_eq!(result.status(), Status::Suspended);
    // The code has no files; `Files::With` would take the workspace along.
    sandbox.snapshot(Files::Without)?.write(file)?;
    Ok(result)
}

/// Goes on from the file, with one answer for every call.
fn answer_all(file: &Path, answer: Value, home: &Home) -> Result<SandboxResult, SandboxError> {
    let mut sandbox = sandbox(home)?;
    sandbox.restore(&Snapshot::read(file, home)?)?;
    let waiting = sandbox.pending_calls();
    let answers = waiting
        .iter()
        .map(|call| ToolAnswer { id: call.id, outcome: Ok(answer.clone()) })
        .collect();
    sandbox.resume(answers)
}

fn sandbox(home: &Home) -> Result<Box<dyn Sandbox>, SandboxError> {
    create_sandbox(&SandboxConfig {
        policy: ExecutionPolicy::default(),
        workspace: Some(std::env::temp_dir()),
        // A tool without a handler: whoever awaits it waits for `resume`.
        tools: Tools::new().deferred("approve")?,
        home: Some(home.clone()),
        ..SandboxConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_lets_the_code_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("waiting.belljar");
        // Compiled guests are kept below the build directory.
        let program = std::env::current_exe().unwrap();
        let home = Home::at(program.ancestors().nth(3).unwrap().join("test-home"));
        let waiting = begin(&file, &home).unwrap();
        assert_eq!(waiting.pending_calls[0].name, "approve");
        for (answer, output) in [(true, "paid 100\n"), (false, "refused\n")] {
            assert_eq!(answer_all(&file, answer.into(), &home).unwrap().stdout, output);
        }
    }
}
