//! Typing on a terminal: editing, history, colours, completion.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use anstream::{AutoStream, ColorChoice};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, Helper, Result as LineResult};

use super::shell::{Next, Shell};
use super::{cells, highlight, magic};
use crate::render;

/// Lines of history that are kept.
const HISTORY_LINES: usize = 10_000;

/// What a blank line before the cursor is completed to.
const INDENT: &str = "    ";

/// Reads and runs cells until the person leaves.
pub(super) fn run(shell: &Rc<RefCell<Shell>>) -> anyhow::Result<()> {
    let color = AutoStream::choice(&std::io::stdout()) != ColorChoice::Never;
    let config = Config::builder()
        .max_history_size(HISTORY_LINES)?
        .history_ignore_space(true)
        .completion_type(CompletionType::List)
        .color_mode(if color { ColorMode::Enabled } else { ColorMode::Disabled })
        .build();
    let mut editor: Editor<Typing, FileHistory> = Editor::with_config(config)?;
    editor.set_helper(Some(Typing { shell: Rc::clone(shell), color }));
    let history = shell.borrow().history();
    // There may be none yet.
    let _ = editor.load_history(&history);
    loop {
        let prompt = shell.borrow().prompt();
        match editor.readline(&prompt) {
            Ok(cell) => {
                editor.add_history_entry(cell.trim_end())?;
                if shell.borrow_mut().run(&cell)? == Next::Leave {
                    break;
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let saved = history.parent().map_or(Ok(()), std::fs::create_dir_all);
    if let Err(error) =
        saved.map_err(ReadlineError::from).and_then(|()| editor.save_history(&history))
    {
        render::note(&format!("the history could not be saved: {error}"));
    }
    Ok(())
}

/// What the editor asks while somebody types.
struct Typing {
    shell: Rc<RefCell<Shell>>,
    color: bool,
}

impl Helper for Typing {}

impl Hinter for Typing {
    type Hint = String;
}

impl Highlighter for Typing {
    fn highlight<'l>(&self, line: &'l str, _pos: usize) -> Cow<'l, str> {
        if !self.color {
            return Cow::Borrowed(line);
        }
        Cow::Owned(highlight::colored(self.shell.borrow().language(), line))
    }

    fn highlight_char(&self, _line: &str, _pos: usize, kind: CmdKind) -> bool {
        self.color && kind != CmdKind::MoveCursor
    }
}

impl Validator for Typing {
    fn validate(&self, context: &mut ValidationContext<'_>) -> LineResult<ValidationResult> {
        let ready = self.shell.borrow_mut().is_ready(context.input());
        Ok(if ready { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Completer for Typing {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _context: &Context<'_>,
    ) -> LineResult<(usize, Vec<String>)> {
        let before = &line[..pos];
        let current_line = before.rsplit('\n').next().unwrap_or_default();
        if current_line.trim().is_empty() {
            return Ok((pos, vec![INDENT.to_owned()]));
        }
        if cells::is_command(before) && !before.trim_start().contains(char::is_whitespace) {
            let start = before.len() - before.trim_start().len();
            return Ok((start, magic::completions(before.trim_start())));
        }
        let (start, matches) = self.shell.borrow_mut().complete(line, before.chars().count());
        let start = line.char_indices().nth(start).map_or(line.len(), |(byte, _)| byte);
        // A list that does not fit what was typed would tear it apart.
        Ok(if start <= pos { (start, matches) } else { (pos, Vec::new()) })
    }
}
