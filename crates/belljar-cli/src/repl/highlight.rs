//! Colours for code that is being typed.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use belljar::RuntimeType;

use super::tokens::{Kind, tokens};

/// The text with colours around its tokens.
pub(crate) fn colored(language: RuntimeType, text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut at = 0;
    for token in tokens(language, text) {
        out.push_str(&text[at..token.start]);
        let piece = &text[token.start..token.end];
        match style(token.kind) {
            // Writing to a string cannot fail.
            Some(style) => drop(write!(out, "{style}{piece}{style:#}")),
            None => out.push_str(piece),
        }
        at = token.end;
    }
    out.push_str(&text[at..]);
    out
}

const fn style(kind: Kind) -> Option<Style> {
    match kind {
        Kind::Keyword => Some(AnsiColor::Blue.on_default().bold()),
        Kind::Number => Some(AnsiColor::Cyan.on_default()),
        Kind::Text | Kind::OpenText => Some(AnsiColor::Green.on_default()),
        Kind::Comment | Kind::OpenComment => Some(Style::new().dimmed()),
        Kind::Name | Kind::Open | Kind::Close | Kind::Sign(_) | Kind::Continued | Kind::Newline => {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_get_their_colours_and_nothing_is_lost() {
        let text = "if x: # é\n  y = 'a' + 1";
        let shown = colored(RuntimeType::Python, text);
        assert_eq!(
            shown.replace('\u{1b}', "^"),
            "^[1m^[34mif^[0m x: ^[2m# é^[0m\n  y = ^[32m'a'^[0m + ^[36m1^[0m"
        );
        let plain = anstream::adapter::strip_str(&shown).to_string();
        assert_eq!(plain, text);
    }
}
