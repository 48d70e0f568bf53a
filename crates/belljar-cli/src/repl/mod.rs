//! The shell: cells that share a sandbox, on a terminal or from a pipe.

mod ask;
mod cells;
mod editor;
mod highlight;
mod interrupt;
mod magic;
mod shell;
mod tokens;

use std::cell::RefCell;
use std::io::{self, BufRead};
use std::process::ExitCode;
use std::rc::Rc;

use cells::Splitter;
pub(crate) use shell::{Next, Shell, Start};

/// Works on cells that a person types.
pub(crate) fn interactive(shell: Shell) -> anyhow::Result<ExitCode> {
    let shell = Rc::new(RefCell::new(shell));
    shell.borrow().greet();
    editor::run(&shell)?;
    let mut shell = shell.borrow_mut();
    shell.say_goodbye();
    shell.close();
    // Whoever has seen the failures does not need them again as a code.
    Ok(ExitCode::SUCCESS)
}

/// Works on cells that come from a pipe: no prompts, and the code of the last failure.
pub(crate) fn piped(mut shell: Shell) -> anyhow::Result<ExitCode> {
    run_lines(&mut shell)?;
    shell.close();
    Ok(shell.exit_code())
}

fn run_lines(shell: &mut Shell) -> anyhow::Result<()> {
    let mut splitter = Splitter::new(shell.language());
    for line in io::stdin().lock().lines() {
        for cell in splitter.line(&line?) {
            if shell.run(&cell)? == Next::Leave {
                return Ok(());
            }
        }
    }
    if let Some(cell) = splitter.finish() {
        shell.run(&cell)?;
    }
    Ok(())
}
