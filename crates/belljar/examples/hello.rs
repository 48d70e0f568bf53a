//! The smallest use of Belljar: one piece of untrusted code, one result.
#![expect(clippy::print_stdout, reason = "an example")]

use belljar::{ExecutionPolicy, PythonSandbox, Sandbox, SandboxError};

fn main() -> Result<(), SandboxError> {
    let code = std::env::args().nth(1).unwrap_or_else(|| "print('hello')".to_owned());
    let mut sandbox = PythonSandbox::new(ExecutionPolicy::default(), std::env::temp_dir())?;
    let result = sandbox.execute(&code)?;
    println!("{result:#?}");
    Ok(())
}
