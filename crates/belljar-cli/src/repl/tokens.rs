//! Source code cut into tokens, roughly: enough for colours and for knowing when a cell is over.

use belljar::RuntimeType;

/// What a piece of source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Keyword,
    Name,
    Number,
    /// A string, or a part of one around `${…}`.
    Text,
    /// A string that has no end, and could have one on a later line.
    OpenText,
    Comment,
    OpenComment,
    /// An opening bracket.
    Open,
    /// A closing one.
    Close,
    /// Anything else that says something, one character at a time.
    Sign(char),
    /// A line that goes on by a backslash.
    Continued,
    Newline,
}

/// A piece of source. What lies between two of them is white space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Cuts a text into tokens. Never fails: what is not understood is a sign.
pub(crate) fn tokens(language: RuntimeType, text: &str) -> Vec<Token> {
    let mut lexer = Lexer { language, text, at: 0, tokens: Vec::new(), templates: Vec::new() };
    while lexer.at < text.len() {
        lexer.next();
    }
    lexer.tokens
}

struct Lexer<'a> {
    language: RuntimeType,
    text: &'a str,
    at: usize,
    tokens: Vec<Token>,
    /// For every `${` that is open, how many braces are open inside it.
    templates: Vec<usize>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn push(&mut self, kind: Kind, length: usize) {
        self.tokens.push(Token { kind, start: self.at, end: self.at + length });
        self.at += length;
    }

    fn next(&mut self) {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return };
        match first {
            '\n' => self.push(Kind::Newline, 1),
            '\\' if rest[1..].trim_start_matches([' ', '\r']).starts_with('\n') => {
                let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
                self.push(Kind::Continued, length);
            }
            '\\' if rest.len() == 1 => self.push(Kind::Continued, 1),
            space if space.is_whitespace() => self.at += space.len_utf8(),
            digit if digit.is_ascii_digit() => {
                let length = rest
                    .find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_')
                    .unwrap_or(rest.len());
                self.push(Kind::Number, length);
            }
            '(' | '[' => self.push(Kind::Open, 1),
            ')' | ']' => self.push(Kind::Close, 1),
            '{' => {
                if let Some(braces) = self.templates.last_mut() {
                    *braces += 1;
                }
                self.push(Kind::Open, 1);
            }
            '}' => self.closing_brace(),
            letter if is_name_char(letter) || letter == '$' => self.name(),
            _ => match self.language {
                RuntimeType::Python => self.python(first),
                RuntimeType::Javascript => self.javascript(first),
            },
        }
    }

    fn closing_brace(&mut self) {
        match self.templates.last_mut() {
            Some(0) => {
                self.templates.pop();
                self.push(Kind::Close, 1);
                self.template(0);
            }
            Some(braces) => {
                *braces -= 1;
                self.push(Kind::Close, 1);
            }
            None => self.push(Kind::Close, 1),
        }
    }

    fn name(&mut self) {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !is_name_char(c) && c != '$' && !c.is_numeric())
            .unwrap_or(rest.len());
        let word = &rest[..length];
        if self.language == RuntimeType::Python
            && length <= 2
            && rest[length..].starts_with(['"', '\''])
            && word.chars().all(|c| "rRbBuUfFtT".contains(c))
        {
            return self.python_string(length);
        }
        let keywords = match self.language {
            RuntimeType::Python => &PYTHON_KEYWORDS[..],
            RuntimeType::Javascript => &JAVASCRIPT_KEYWORDS[..],
        };
        let kind = if keywords.contains(&word) { Kind::Keyword } else { Kind::Name };
        self.push(kind, length);
    }

    fn python(&mut self, first: char) {
        match first {
            '#' => self.push(Kind::Comment, line_length(self.rest())),
            '"' | '\'' => self.python_string(0),
            sign => self.push(Kind::Sign(sign), sign.len_utf8()),
        }
    }

    fn python_string(&mut self, prefix: usize) {
        let body = &self.rest()[prefix..];
        let quote = &body[..1];
        let triple = quote.repeat(3);
        let (length, open) = if body.starts_with(&triple) {
            match string_end(&body[3..], &triple, true) {
                Some(end) => (3 + end, false),
                None => (body.len(), true),
            }
        } else {
            match string_end(&body[1..], quote, false) {
                Some(end) => (1 + end, false),
                None => (line_length(body), false),
            }
        };
        self.push(if open { Kind::OpenText } else { Kind::Text }, prefix + length);
    }

    fn javascript(&mut self, first: char) {
        let rest = self.rest();
        match first {
            '/' if rest.starts_with("//") => self.push(Kind::Comment, line_length(rest)),
            '/' if rest.starts_with("/*") => match rest[2..].find("*/") {
                Some(end) => self.push(Kind::Comment, end + 4),
                None => self.push(Kind::OpenComment, rest.len()),
            },
            '/' if self.begins_expression() => {
                let length = regex_length(rest);
                self.push(if length > 1 { Kind::Text } else { Kind::Sign('/') }, length);
            }
            '"' | '\'' => {
                let end = string_end(&rest[1..], &rest[..1], false);
                let length = end.map_or_else(|| line_length(rest), |end| end + 1);
                self.push(Kind::Text, length);
            }
            '`' => self.template(1),
            sign => self.push(Kind::Sign(sign), sign.len_utf8()),
        }
    }

    /// A template from here, behind its opening quote if there is one, to its end or to the next
    /// `${`.
    fn template(&mut self, quote: usize) {
        let rest = self.rest();
        let mut escaped = false;
        for (index, char) in rest.char_indices().skip(quote) {
            match char {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '`' => return self.push(Kind::Text, index + 1),
                '$' if rest[index..].starts_with("${") => {
                    self.push(Kind::Text, index);
                    self.push(Kind::Open, 2);
                    self.templates.push(0);
                    return;
                }
                _ => {}
            }
        }
        self.push(Kind::OpenText, rest.len());
    }

    /// Whether a slash here begins a regular expression and does not divide.
    fn begins_expression(&self) -> bool {
        match self.tokens.last().map(|token| token.kind) {
            None | Some(Kind::Newline | Kind::Open | Kind::Sign(_) | Kind::Comment) => true,
            Some(Kind::Keyword) => true,
            Some(
                Kind::Name
                | Kind::Number
                | Kind::Text
                | Kind::OpenText
                | Kind::OpenComment
                | Kind::Close
                | Kind::Continued,
            ) => false,
        }
    }
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_length(text: &str) -> usize {
    text.find('\n').unwrap_or(text.len())
}

/// The length up to and with the closing quote.
fn string_end(body: &str, quote: &str, many_lines: bool) -> Option<usize> {
    let mut escaped = false;
    for (index, char) in body.char_indices() {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' if !many_lines => return None,
            _ if body[index..].starts_with(quote) => return Some(index + quote.len()),
            _ => {}
        }
    }
    None
}

/// The length of a regular expression with its flags, or 1 where it has no end on this line.
fn regex_length(text: &str) -> usize {
    let (mut escaped, mut in_class) = (false, false);
    for (index, char) in text.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => break,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => {
                let after = index + 1;
                let flags = text[after..].find(|c: char| !c.is_ascii_alphabetic());
                return flags.map_or(text.len(), |flags| after + flags);
            }
            _ => {}
        }
    }
    1
}

const PYTHON_KEYWORDS: [&str; 37] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "case", "class",
    "continue", "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if",
    "import", "in", "is", "lambda", "match", "nonlocal", "not", "or", "pass", "raise", "return",
    "try", "while", "with", "yield",
];

const JAVASCRIPT_KEYWORDS: [&str; 42] = [
    "async",
    "await",
    "break",
    "case",
    "catch",
    "class",
    "const",
    "continue",
    "debugger",
    "default",
    "delete",
    "do",
    "else",
    "export",
    "extends",
    "false",
    "finally",
    "for",
    "function",
    "if",
    "import",
    "in",
    "instanceof",
    "let",
    "new",
    "null",
    "of",
    "return",
    "static",
    "super",
    "switch",
    "this",
    "throw",
    "true",
    "try",
    "typeof",
    "undefined",
    "var",
    "void",
    "while",
    "with",
    "yield",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(language: RuntimeType, text: &str) -> Vec<(Kind, &str)> {
        tokens(language, text).iter().map(|t| (t.kind, &text[t.start..t.end])).collect()
    }

    #[test]
    fn python_is_cut() {
        use Kind::{Close, Comment, Keyword, Name, Number, Open, Sign, Text};
        assert_eq!(
            shown(RuntimeType::Python, "def f(x): # é\n  return rb'a\\'' + 0x_1f"),
            [
                (Keyword, "def"),
                (Name, "f"),
                (Open, "("),
                (Name, "x"),
                (Close, ")"),
                (Sign(':'), ":"),
                (Comment, "# é"),
                (Kind::Newline, "\n"),
                (Keyword, "return"),
                (Text, "rb'a\\''"),
                (Sign('+'), "+"),
                (Number, "0x_1f"),
            ]
        );
        assert_eq!(shown(RuntimeType::Python, "'''a\n'b"), [(Kind::OpenText, "'''a\n'b")]);
        assert_eq!(shown(RuntimeType::Python, "'a")[0], (Text, "'a"));
    }

    #[test]
    fn javascript_is_cut() {
        use Kind::{Close, Keyword, Name, Number, Open, Sign, Text};
        assert_eq!(
            shown(RuntimeType::Javascript, "let a = `x${ {b: 1} }y` / 2;"),
            [
                (Keyword, "let"),
                (Name, "a"),
                (Sign('='), "="),
                (Text, "`x"),
                (Open, "${"),
                (Open, "{"),
                (Name, "b"),
                (Sign(':'), ":"),
                (Number, "1"),
                (Close, "}"),
                (Close, "}"),
                (Text, "y`"),
                (Sign('/'), "/"),
                (Number, "2"),
                (Sign(';'), ";"),
            ]
        );
        assert_eq!(shown(RuntimeType::Javascript, "x = /[/(]/g")[2], (Text, "/[/(]/g"));
        assert_eq!(shown(RuntimeType::Javascript, "/* a"), [(Kind::OpenComment, "/* a")]);
        assert_eq!(shown(RuntimeType::Javascript, "`a\n"), [(Kind::OpenText, "`a\n")]);
    }

    #[test]
    fn no_text_is_lost_or_panics() {
        for text in ["", "\\", "\"", "`", "`${", "'\\", "é'é", "}}", "$", "/", "\u{0}", "x\\ \ny"]
        {
            for language in RuntimeType::ALL {
                let mut end = 0;
                for token in tokens(language, text) {
                    assert!(token.start >= end && token.end >= token.start, "{text:?}");
                    assert!(text[end..token.start].trim().is_empty(), "{text:?}");
                    end = token.end;
                }
                assert!(text[end..].trim().is_empty(), "{text:?}");
            }
        }
    }
}
