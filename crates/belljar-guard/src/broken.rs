//! Import statements in code the parser stumbles over. The guest's Python may be newer than our
//! parser and accept it, so the lines that look like imports are read by their tokens.

use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_text_size::{Ranged, TextSize};

/// Modules that statements seem to import, and where.
pub(crate) fn imports(code: &str, tokens: &Tokens) -> Vec<(String, TextSize)> {
    let mut found = Vec::new();
    let mut state = State::Start;
    let mut module: Option<(String, TextSize)> = None;
    for token in tokens {
        let kind = token.kind();
        state = match (state, kind) {
            (_, TokenKind::Comment) => state,
            // Also where a bracket is open: it may be open by mistake.
            (
                _,
                TokenKind::Newline
                | TokenKind::NonLogicalNewline
                | TokenKind::Semi
                | TokenKind::Colon
                | TokenKind::Indent
                | TokenKind::Dedent,
            ) => {
                found.extend(module.take());
                State::Start
            }
            (State::Start, TokenKind::Import) => State::Names,
            (State::Start, TokenKind::From) => State::From,
            (State::Names | State::From, TokenKind::Name | TokenKind::Dot) => {
                let part = code.get(token.range().to_std_range()).unwrap_or_default();
                module.get_or_insert_with(|| (String::new(), token.start())).0.push_str(part);
                state
            }
            (State::Names, TokenKind::Comma) => {
                found.extend(module.take());
                State::Names
            }
            (State::Names, TokenKind::As) => {
                found.extend(module.take());
                State::Alias
            }
            (State::Alias, TokenKind::Comma) => State::Names,
            (State::Alias, TokenKind::Name) => State::Alias,
            (State::Names | State::From | State::Alias, _) => {
                found.extend(module.take());
                State::Other
            }
            (State::Start | State::Other, _) => State::Other,
        };
    }
    found.extend(module);
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Where a statement can begin.
    Start,
    /// After `import` or a comma in it.
    Names,
    /// After `as`.
    Alias,
    /// After `from`.
    From,
    /// In something else.
    Other,
}
