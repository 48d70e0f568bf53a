//! What the shell does with a cell or a command.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use belljar::core::units::group_digits;
use belljar::{
    Files, Home, RuntimeType, Sandbox, SandboxError, SandboxResult, Snapshot, StateAfter, Status,
    create_sandbox,
};
use serde_json::Value;

use super::ask::ask;
use super::cells::{self, Progress};
use super::interrupt::{Cleanup, Interrupt};
use super::magic::{COMMANDS, Magic};
use crate::progress::during;
use crate::render::{self, FAINT, STRONG};
use crate::sessions::Opened;
use crate::settings::Settings;
use crate::stream::Streams;
use crate::{calls, context, exit, report};

/// The name of the session the shell begins with, where it has none of its own.
const FIRST: &str = "main";

/// What a shell begins with.
pub(crate) struct Start {
    pub(crate) settings: Settings,
    pub(crate) home: Home,
    /// The session that is kept, if one is.
    pub(crate) kept: Option<Opened>,
    pub(crate) context: Option<Value>,
    /// Whether a person is there to answer `input()`.
    pub(crate) interactive: bool,
}

/// Whether the shell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Go,
    Leave,
}

pub(crate) struct Shell {
    /// Holds the temporary workspace, if there is one.
    settings: Settings,
    home: Home,
    /// The session on disk; it is the first of the branches.
    kept: Option<Opened>,
    context: Value,
    branches: Vec<Branch>,
    current: usize,
    streams: Streams,
    interrupt: Interrupt,
    interactive: bool,
    failure: u8,
}

/// A sandbox one can switch to.
struct Branch {
    name: String,
    sandbox: Box<dyn Sandbox>,
}

impl Shell {
    pub(crate) fn start(start: Start) -> anyhow::Result<Self> {
        let Start { mut settings, home, kept, context, interactive } = start;
        let streams = Streams::default();
        streams.attach(&mut settings.config);
        let interrupt = Interrupt::default();
        if interactive {
            let interrupt = interrupt.clone();
            settings.config.on_input =
                Some(Arc::new(move |request| ask(&request.prompt, &interrupt)));
        }
        let mut sandbox = match &kept {
            Some(opened) => opened.session.wake(&settings.config)?,
            None => create_sandbox(&settings.config)?,
        };
        if kept.is_none() || context.is_some() {
            sandbox.initialize(context.clone().unwrap_or(Value::Null))?;
        }
        let name = kept.as_ref().map_or(FIRST, |opened| opened.session.id()).to_owned();
        let temporary = settings.temporary.as_ref().map(|dir| dir.path().to_owned());
        interrupt.listen(interactive, Cleanup::new(temporary))?;
        let mut shell = Self {
            settings,
            home,
            kept,
            context: context.unwrap_or(Value::Null),
            branches: vec![Branch { name, sandbox }],
            current: 0,
            streams,
            interrupt,
            interactive,
            failure: 0,
        };
        shell.tell_what_waits();
        Ok(shell)
    }

    pub(crate) fn language(&self) -> RuntimeType {
        self.branch().sandbox.runtime()
    }

    /// The code of the last failure, or 0.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.failure)
    }

    pub(super) fn history(&self) -> PathBuf {
        self.home.history(self.language())
    }

    pub(super) fn prompt(&self) -> String {
        let sign = match self.language() {
            RuntimeType::Python => ">>> ",
            RuntimeType::Javascript => "> ",
        };
        if self.branches.len() == 1 {
            return sign.to_owned();
        }
        format!("{} {sign}", self.branch().name)
    }

    pub(super) fn greet(&self) {
        let version = env!("CARGO_PKG_VERSION");
        let language = match self.language() {
            RuntimeType::Python => "Python",
            RuntimeType::Javascript => "JavaScript",
        };
        render::note(&format!(
            "Belljar {version}, {language} in a sandbox. %help for help, Ctrl-D leaves."
        ));
        let tools = self.settings.config.tools.names();
        if !tools.is_empty() {
            render::note(&format!("Functions of the host: {}", tools.join(", ")));
        }
    }

    pub(super) fn say_goodbye(&self) {
        if self.branches.len() > 1 {
            render::note("Forks are gone with the shell; %snapshot keeps one.");
        }
    }

    /// Lets go of the session that is kept.
    pub(super) fn close(&mut self) {
        if let Some(opened) = self.kept.take()
            && opened.session.record().cells_run == 0
        {
            // A session in which nothing was done need not be kept.
            let _ = opened.give_up();
        }
    }

    /// Whether what was typed can be run.
    pub(super) fn is_ready(&mut self, text: &str) -> bool {
        let Some((_, code)) = code_in(text) else { return true };
        let language = self.language();
        // What the interpreter accepts is whole, whatever it looks like; a block may still go on.
        cells::is_ready(language, code)
            || (cells::progress(language, code) == Progress::Open
                && self.branch_mut().sandbox.check_code(code) == Ok(None))
    }

    /// Names that complete what stands before the cursor, and where they begin. In characters.
    pub(super) fn complete(&mut self, text: &str, cursor: usize) -> (usize, Vec<String>) {
        let Some((offset, code)) = code_in(text) else { return (cursor, Vec::new()) };
        let offset = text[..offset].chars().count();
        let Some(cursor_in_code) = cursor.checked_sub(offset) else { return (cursor, Vec::new()) };
        match self.branch_mut().sandbox.complete(code, cursor_in_code) {
            Ok(found) => (found.start + offset, found.matches),
            Err(_) => (cursor, Vec::new()),
        }
    }

    /// Runs a cell or a command. What goes wrong with it is shown and does not end the shell.
    pub(crate) fn run(&mut self, text: &str) -> anyhow::Result<Next> {
        if text.trim().is_empty() {
            return Ok(Next::Go);
        }
        let outcome = if cells::is_command(text) {
            self.command(text)
        } else {
            self.execute(text).map(|_| Next::Go)
        };
        let next = match outcome {
            Err(error) if error.is::<SandboxError>() => {
                render::failure(&error);
                self.failure = exit::COULD_NOT_RUN;
                Next::Go
            }
            other => other?,
        };
        Ok(if self.interrupt.is_ending() { Next::Leave } else { next })
    }

    fn command(&mut self, text: &str) -> anyhow::Result<Next> {
        let magic = match Magic::parse(text) {
            Ok(magic) => magic,
            Err(usage) => {
                render::problem("the shell does not know this command", Some(&usage));
                self.failure = exit::NEGATIVE;
                return Ok(Next::Go);
            }
        };
        match magic {
            Magic::Help => help()?,
            Magic::Fork(name) => self.fork(name)?,
            Magic::Switch(name) => self.switch(&name)?,
            Magic::Sessions => self.list()?,
            Magic::Snapshot(path) => self.snapshot(&path)?,
            Magic::Restore(path) => self.restore(&path)?,
            Magic::Context(path) => {
                self.context = context::read(&path)?;
                self.reset()?;
            }
            Magic::Reset => self.reset()?,
            Magic::Time(code) => self.time(&code)?,
            Magic::Var(name) => self.show_variable(&name)?,
            Magic::Tools => self.list_tools()?,
            Magic::Answer(call, answer) => self.answer(call, answer)?,
            Magic::Exit => return Ok(Next::Leave),
        }
        Ok(Next::Go)
    }

    fn execute(&mut self, code: &str) -> anyhow::Result<SandboxResult> {
        let result = self.interruptible(|sandbox| sandbox.execute(code))?;
        self.tell(&result)?;
        self.keep(1)?;
        Ok(result)
    }

    fn interruptible(
        &mut self,
        work: impl FnOnce(&mut dyn Sandbox) -> Result<SandboxResult, SandboxError>,
    ) -> Result<SandboxResult, SandboxError> {
        let interrupt = self.interrupt.clone();
        self.streams.stop_unread(self.branch().sandbox.cancel_handle());
        let sandbox = &mut self.branch_mut().sandbox;
        interrupt.during(sandbox.cancel_handle(), || work(sandbox.as_mut()))
    }

    /// Shows what was not shown while it ran.
    fn tell(&mut self, result: &SandboxResult) -> anyhow::Result<()> {
        self.streams.finish(result)?;
        if let Some(value) = &result.result {
            self.streams.fresh_line()?;
            render::value(value)?;
        }
        if self.interactive {
            // The editor would write its prompt over what stands there.
            self.streams.fresh_line()?;
        }
        match result.status() {
            Status::Ok => {}
            Status::Error if result.error.is_none() => {
                render::note(&format!("exit code {}; the session lives on", result.exit_code()));
            }
            // The traceback says so.
            Status::Error | Status::Cancelled => {}
            Status::Suspended => self.tell_what_waits(),
            Status::Timeout
            | Status::OutOfFuel
            | Status::OutOfMemory
            | Status::OutputLimit
            | Status::Quota
            | Status::Blocked
            | Status::Crashed => {
                if let Some((message, hint)) = report::explanation(result) {
                    render::problem(&message, Some(&hint));
                }
            }
        }
        if result.meta.state == Some(StateAfter::RolledBack) {
            render::note("the session is as it was before this cell");
        }
        if !result.success() {
            self.failure = exit::number_of(result.status(), result.exit_code());
        }
        Ok(())
    }

    fn tell_what_waits(&mut self) {
        let waiting = self.branch_mut().sandbox.pending_calls();
        if let Some(first) = waiting.first() {
            let hint = format!("answer with %answer {}=JSON", first.id);
            render::waiting(&format!("the session waits for:{}", calls::list(&waiting)), &hint);
        }
    }

    /// Saves the session that is kept, if that is where we are.
    fn keep(&mut self, cells: u64) -> Result<(), SandboxError> {
        match &mut self.kept {
            Some(opened) if self.current == 0 => {
                opened.session.save(self.branches[0].sandbox.as_mut(), cells)
            }
            Some(_) | None => Ok(()),
        }
    }

    fn fork(&mut self, name: Option<String>) -> anyhow::Result<()> {
        let name = name.unwrap_or_else(|| {
            let free = (1..).map(|n| format!("fork-{n}")).find(|name| self.find(name).is_none());
            free.unwrap_or_default()
        });
        belljar::sessions::check_id(&name)?;
        if self.find(&name).is_some() {
            return Err(SandboxError::Session {
                id: name,
                problem: "there is one of this name already".to_owned(),
                hint: Some("%sessions lists them".to_owned()),
            }
            .into());
        }
        let sandbox = self.branch_mut().sandbox.fork()?;
        self.branches.push(Branch { name, sandbox });
        self.current = self.branches.len() - 1;
        self.tell_where()
    }

    fn switch(&mut self, name: &str) -> anyhow::Result<()> {
        let Some(index) = self.find(name) else {
            return Err(SandboxError::Session {
                id: name.to_owned(),
                problem: "there is none of this name here".to_owned(),
                hint: Some("%sessions lists them".to_owned()),
            }
            .into());
        };
        self.current = index;
        self.tell_where()
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.branches.iter().position(|branch| branch.name == name)
    }

    fn tell_where(&self) -> anyhow::Result<()> {
        writeln!(anstream::stdout(), "in {STRONG}{}{STRONG:#}", self.branch().name)?;
        Ok(())
    }

    fn list(&mut self) -> anyhow::Result<()> {
        let mut out = anstream::stdout().lock();
        for (index, branch) in self.branches.iter_mut().enumerate() {
            let mark = if index == self.current { '*' } else { ' ' };
            let mut remarks = Vec::new();
            if index == 0 && self.kept.is_some() {
                remarks.push("kept on disk");
            }
            if !branch.sandbox.pending_calls().is_empty() {
                remarks.push("waits for an answer");
            }
            let remarks = remarks.join(", ");
            writeln!(out, "{mark} {STRONG}{}{STRONG:#}  {FAINT}{remarks}{FAINT:#}", branch.name)?;
        }
        Ok(())
    }

    fn snapshot(&mut self, path: &Path) -> anyhow::Result<()> {
        let sandbox = &mut self.branch_mut().sandbox;
        let snapshot = sandbox.snapshot(Files::With)?;
        during("writing the snapshot", || snapshot.write(path))?;
        writeln!(anstream::stdout(), "wrote {STRONG}{}{STRONG:#}", path.display())?;
        Ok(())
    }

    fn restore(&mut self, path: &Path) -> anyhow::Result<()> {
        let snapshot = Snapshot::read(path, &self.home)?;
        let sandbox = &mut self.branch_mut().sandbox;
        during("restoring the session", || sandbox.restore(&snapshot))?;
        self.tell_what_waits();
        Ok(self.keep(0)?)
    }

    fn reset(&mut self) -> anyhow::Result<()> {
        let context = self.context.clone();
        self.branch_mut().sandbox.initialize(context)?;
        Ok(self.keep(0)?)
    }

    fn time(&mut self, code: &str) -> anyhow::Result<()> {
        let result = self.execute(code)?;
        let fuel = result.fuel_consumed.map(|fuel| format!(", {} fuel", group_digits(fuel)));
        let fuel = fuel.unwrap_or_default();
        writeln!(anstream::stdout(), "{FAINT}{:.3} ms{fuel}{FAINT:#}", result.duration_ms)?;
        Ok(())
    }

    fn show_variable(&mut self, name: &str) -> anyhow::Result<()> {
        match self.branch_mut().sandbox.get_variable(name)? {
            Some(variable) => {
                let text = format!("{}: {}\n", variable.type_name, variable.text);
                render::guest_text(io::stdout().lock(), &text)?;
            }
            None => {
                render::problem(&format!("there is no variable {name:?}"), None);
                self.failure = exit::NEGATIVE;
            }
        }
        Ok(())
    }

    fn list_tools(&self) -> anyhow::Result<()> {
        let names = self.settings.config.tools.names();
        let mut out = anstream::stdout().lock();
        if names.is_empty() {
            writeln!(out, "none; --llm-command CMD offers llm_query and rlm_query")?;
        }
        for name in names {
            writeln!(out, "{STRONG}{name}{STRONG:#}")?;
        }
        Ok(())
    }

    fn answer(&mut self, call: u64, answer: String) -> anyhow::Result<()> {
        let pending = self.branch_mut().sandbox.pending_calls();
        let answers = calls::answers(&[(call, answer)], &[], &pending)?;
        let result = self.interruptible(|sandbox| sandbox.resume(answers))?;
        self.tell(&result)?;
        Ok(self.keep(0)?)
    }

    fn branch(&self) -> &Branch {
        &self.branches[self.current]
    }

    fn branch_mut(&mut self) -> &mut Branch {
        &mut self.branches[self.current]
    }
}

/// The code in what was typed and where it begins: all of it, or what stands behind `%time`.
fn code_in(text: &str) -> Option<(usize, &str)> {
    if !cells::is_command(text) {
        return Some((0, text));
    }
    let start = text.find("%time")? + "%time".len();
    let code = text[start..].trim_start();
    (!code.is_empty()).then(|| (text.len() - code.len(), code))
}

fn help() -> anyhow::Result<()> {
    let mut out = anstream::stdout().lock();
    for (usage, meaning) in COMMANDS {
        writeln!(out, "{STRONG}{usage:<18}{STRONG:#} {meaning}")?;
    }
    writeln!(
        out,
        "{FAINT}Ctrl-C interrupts a cell, Tab completes names, an empty line ends a block.{FAINT:#}"
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_cell_is_found() {
        assert_eq!(code_in("x = 1"), Some((0, "x = 1")));
        assert_eq!(code_in("%time x"), Some((6, "x")));
        assert_eq!(code_in("%time"), None);
        assert_eq!(code_in("%help"), None);
    }
}
