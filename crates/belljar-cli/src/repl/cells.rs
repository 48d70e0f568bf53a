//! When a cell is over: while it is typed, and in a file that holds many.

use belljar::RuntimeType;

use super::tokens::{Kind, tokens};

/// How far a cell has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It can be run.
    Complete,
    /// A bracket, a string or a statement is open.
    Open,
    /// A block of Python, to which more lines may belong.
    Block,
}

/// Whether a cell can be run as it is. A text that is wrong is complete: the interpreter says what
/// is wrong with it.
pub(crate) fn progress(language: RuntimeType, text: &str) -> Progress {
    match language {
        RuntimeType::Python => python(text),
        RuntimeType::Javascript => javascript(text),
    }
}

/// Whether a person who has typed this and then Enter wants it to be run: a block ends with an
/// empty line.
pub(crate) fn is_ready(language: RuntimeType, text: &str) -> bool {
    match progress(language, text) {
        Progress::Complete => true,
        Progress::Open => false,
        Progress::Block => text.rsplit('\n').next().is_some_and(|last| last.trim().is_empty()),
    }
}

fn python(text: &str) -> Progress {
    let mut depth = 0_usize;
    let mut block = false;
    let mut decorated = false;
    let (mut first, mut last) = (None, None);
    for token in tokens(RuntimeType::Python, text) {
        match token.kind {
            Kind::OpenText => return Progress::Open,
            Kind::Continued if token.end >= text.trim_end().len() => return Progress::Open,
            Kind::Comment | Kind::OpenComment | Kind::Continued => continue,
            Kind::Newline if depth > 0 => continue,
            Kind::Newline => {
                block |= last == Some(Kind::Sign(':'));
                if first.is_some() {
                    decorated = first == Some(Kind::Sign('@'));
                }
                (first, last) = (None, None);
                continue;
            }
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Keyword | Kind::Name | Kind::Number | Kind::Text | Kind::Sign(_) => {}
        }
        first = first.or(Some(token.kind));
        last = Some(token.kind);
    }
    block |= last == Some(Kind::Sign(':'));
    if first.is_some() {
        decorated = first == Some(Kind::Sign('@'));
    }
    if depth > 0 || decorated {
        Progress::Open
    } else if block {
        Progress::Block
    } else {
        Progress::Complete
    }
}

fn javascript(text: &str) -> Progress {
    let mut depth = 0_usize;
    let mut last = None;
    for token in tokens(RuntimeType::Javascript, text) {
        match token.kind {
            Kind::OpenText | Kind::OpenComment => return Progress::Open,
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            Kind::Newline | Kind::Comment => continue,
            Kind::Keyword
            | Kind::Name
            | Kind::Number
            | Kind::Text
            | Kind::Sign(_)
            | Kind::Continued => {}
        }
        last = Some(&text[token.start..token.end]);
    }
    let dangling = ["+", "-", "*", "/", "%", "=", ",", ".", "&", "|", "?", ":", "<", ">", "^"];
    // `x++` and `x--` end here; `x +` does not.
    let counts = text.trim_end().ends_with("++") || text.trim_end().ends_with("--");
    if depth > 0 || (!counts && last.is_some_and(|last| dangling.contains(&last))) {
        Progress::Open
    } else {
        Progress::Complete
    }
}

/// Cuts lines into cells as they come: one for each statement, so that each value is shown.
pub(crate) struct Splitter {
    language: RuntimeType,
    cell: String,
}

impl Splitter {
    pub(crate) const fn new(language: RuntimeType) -> Self {
        Self { language, cell: String::new() }
    }

    /// Takes the next line. Gives the cell before it, if that is now known to be over.
    pub(crate) fn line(&mut self, line: &str) -> Vec<String> {
        let mut over = Vec::new();
        if self.may_end() && !self.belongs(line) {
            over.extend(self.take());
        }
        self.cell.push_str(line);
        self.cell.push('\n');
        if self.surely_over() {
            over.extend(self.take());
        }
        over
    }

    /// What is left at the end.
    pub(crate) fn finish(mut self) -> Option<String> {
        self.take()
    }

    fn take(&mut self) -> Option<String> {
        let cell = std::mem::take(&mut self.cell);
        (!cell.trim().is_empty()).then_some(cell)
    }

    fn may_end(&self) -> bool {
        is_command(&self.cell) || progress(self.language, &self.cell) != Progress::Open
    }

    /// Whether nothing that follows can belong to the cell.
    fn surely_over(&self) -> bool {
        if self.cell.trim().is_empty() {
            return false;
        }
        if is_command(&self.cell) {
            return true;
        }
        let complete = progress(self.language, &self.cell) == Progress::Complete;
        match self.language {
            RuntimeType::Python => complete,
            RuntimeType::Javascript => complete && self.cell.trim_end().ends_with(';'),
        }
    }

    /// Whether a line goes on with what came before it.
    fn belongs(&self, line: &str) -> bool {
        if self.cell.trim().is_empty() {
            return true;
        }
        let start = line.trim_start();
        let word = start.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        match self.language {
            RuntimeType::Python => {
                start.is_empty()
                    || start.len() < line.len()
                    || ["else", "elif", "except", "finally", "case"].contains(&word)
            }
            RuntimeType::Javascript => {
                start.is_empty()
                    || ["else", "catch", "finally", "while"].contains(&word)
                    || start.starts_with([
                        '.', '?', ':', '&', '|', '+', '-', '*', '=', ',', ')', ']', '}', '<', '>',
                    ])
            }
        }
    }
}

/// Whether a cell is a command of the shell.
pub(crate) fn is_command(cell: &str) -> bool {
    cell.trim_start().starts_with('%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_cells_end_where_a_person_would_end_them() {
        for (text, ready) in [
            ("x = 1", true),
            ("print(", false),
            ("print(1,\n", false),
            ("x = '''a", false),
            ("x = 'a", true),
            ("x = \\", false),
            ("def f():", false),
            ("def f():\n    return 1", false),
            ("def f():\n    return 1\n", true),
            ("def f():\n    return 1\n    ", true),
            ("for x in y: print(x)", true),
            ("@decorator", false),
            ("@decorator\ndef f():\n    pass\n", true),
            ("x = {'a': 1}", true),
            ("x[1:", false),
            ("# comment:", true),
            ("if x:  # why", false),
            ("))", true),
            ("", true),
        ] {
            assert_eq!(is_ready(RuntimeType::Python, text), ready, "{text:?}");
        }
    }

    #[test]
    fn javascript_cells_end_where_a_person_would_end_them() {
        for (text, ready) in [
            ("let x = 1", true),
            ("function f() {", false),
            ("function f() {\n}", true),
            ("x +", false),
            ("x++", true),
            ("`a", false),
            ("`a${b}`", true),
            ("/* a", false),
            ("x = /[(]/", true),
            ("() =>", false),
        ] {
            assert_eq!(is_ready(RuntimeType::Javascript, text), ready, "{text:?}");
        }
    }

    fn split(language: RuntimeType, text: &str) -> Vec<String> {
        let mut splitter = Splitter::new(language);
        let mut cells: Vec<String> = text.lines().flat_map(|line| splitter.line(line)).collect();
        cells.extend(splitter.finish());
        cells
    }

    #[test]
    fn a_python_file_is_cut_into_statements() {
        let text = "import os\n\nx = [1,\n2]\nif x:\n    a()\n\n    b()\nelse:\n    c()\n@d\ndef f():\n    pass\n%time f()\nf()\n";
        assert_eq!(
            split(RuntimeType::Python, text),
            [
                "import os\n",
                "\nx = [1,\n2]\n",
                "if x:\n    a()\n\n    b()\nelse:\n    c()\n",
                "@d\ndef f():\n    pass\n",
                "%time f()\n",
                "f()\n",
            ]
        );
    }

    #[test]
    fn a_javascript_file_is_cut_into_statements() {
        let text = "let a = 1;\nfetch(a)\n  .then(b)\nif (a) {\n}\nelse {\n}\n%tools\na";
        assert_eq!(
            split(RuntimeType::Javascript, text),
            [
                "let a = 1;\n",
                "fetch(a)\n  .then(b)\n",
                "if (a) {\n}\nelse {\n}\n",
                "%tools\n",
                "a\n"
            ]
        );
    }
}
