//! How deep a tree can become, known from its tokens before it is built.

use belljar_core::limits::MAX_GUARD_DEPTH;
use ruff_python_ast::token::TokenKind;
use ruff_python_parser::{Mode, lexer};

/// An open bracket, or the statement itself.
#[derive(Default)]
struct Level {
    /// Tokens since the last comma: what stands after one does not nest in what stands before.
    recent: usize,
    /// Tokens that stay around whatever follows, in spite of commas: a lambda's parameters have
    /// some, and its body goes on.
    kept: usize,
}

/// Whether no tree of this code has more levels than [`MAX_GUARD_DEPTH`]. A level needs a token at
/// least, so the tokens are counted that can stand around each other.
pub(crate) fn is_bounded(code: &str) -> bool {
    let mut tokens = lexer::lex(code, Mode::Module);
    let mut levels: Vec<Level> = Vec::new();
    let mut here = Level::default();
    let (mut outside, mut blocks) = (0, 0_usize);
    loop {
        match tokens.next_token() {
            TokenKind::EndOfFile => return true,
            TokenKind::Lpar
            | TokenKind::Lsqb
            | TokenKind::Lbrace
            | TokenKind::FStringStart
            | TokenKind::TStringStart => {
                outside += here.recent + here.kept + 1;
                levels.push(std::mem::take(&mut here));
            }
            TokenKind::Rpar
            | TokenKind::Rsqb
            | TokenKind::Rbrace
            | TokenKind::FStringEnd
            | TokenKind::TStringEnd => {
                if let Some(level) = levels.pop() {
                    outside -= level.recent + level.kept + 1;
                    here = level;
                }
                here.recent += 1;
            }
            TokenKind::Lambda => {
                here.kept += here.recent + 1;
                here.recent = 0;
            }
            // No expression holds the words among these. In a bracket that was never closed, they
            // are as good as a comma.
            TokenKind::Comma
            | TokenKind::Semi
            | TokenKind::Def
            | TokenKind::Class
            | TokenKind::Import
            | TokenKind::Return
            | TokenKind::FStringMiddle
            | TokenKind::TStringMiddle => here.recent = 0,
            TokenKind::Newline => {
                levels.clear();
                here = Level::default();
                outside = 0;
            }
            TokenKind::Indent => blocks += 1,
            TokenKind::Dedent => blocks = blocks.saturating_sub(1),
            TokenKind::NonLogicalNewline | TokenKind::Comment => {}
            _ => here.recent += 1,
        }
        if here.recent + here.kept + outside + blocks > MAX_GUARD_DEPTH {
            return false;
        }
    }
}
