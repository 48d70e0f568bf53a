//! What a model said, taken apart: code to run and the final answer.

/// A model's turn.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Reply {
    /// The code blocks, in order.
    pub(super) blocks: Vec<String>,
    /// The final answer, if it gave one.
    pub(super) last: Option<Final>,
}

/// How a model ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Final {
    /// `FINAL: text`, to the end of what was said.
    Text(String),
    /// `FINAL_VAR: name`.
    Variable(String),
}

impl Reply {
    /// Reads fenced blocks whose tag is one of these, or which have none; `FINAL` counts outside
    /// of blocks only.
    pub(super) fn parse(text: &str, tags: &[&str]) -> Self {
        let mut reply = Self::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some((fence, tag)) = opening_fence(line) {
                let block = take_block(&mut lines, fence);
                if tag.is_empty() || tags.contains(&tag.to_ascii_lowercase().as_str()) {
                    reply.blocks.push(block);
                }
            } else if let Some(name) = line.trim().strip_prefix("FINAL_VAR:") {
                let name = name.trim().trim_matches(['`', '"', '\'', '(', ')']);
                reply.last = Some(Final::Variable(name.to_owned()));
                break;
            } else if let Some(first) = line.trim().strip_prefix("FINAL:") {
                let rest: Vec<&str> = std::iter::once(first).chain(lines.by_ref()).collect();
                reply.last = Some(Final::Text(rest.join("\n").trim().to_owned()));
            }
        }
        reply
    }
}

/// The fence and the tag behind it.
fn opening_fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let length = line.bytes().take_while(|byte| *byte == b'`').count();
    (length >= 3).then(|| (&line[..length], line[length..].trim()))
}

/// The lines up to the closing fence, or to the end when a model forgot it.
fn take_block<'a>(lines: &mut impl Iterator<Item = &'a str>, fence: &str) -> String {
    let mut block = String::new();
    for line in lines {
        if line.trim().starts_with(fence) && line.trim().bytes().all(|byte| byte == b'`') {
            break;
        }
        block.push_str(line);
        block.push('\n');
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    const PYTHON: [&str; 3] = ["python", "py", "repl"];

    fn parse(text: &str) -> Reply {
        Reply::parse(text, &PYTHON)
    }

    #[test]
    fn blocks_and_final_answers_are_found() {
        let reply = parse("Let me look.\n```python\nx = 1\nprint(x)\n```\nand\n```\ny = 2\n```\n");
        assert_eq!(reply.blocks, ["x = 1\nprint(x)\n", "y = 2\n"]);
        assert_eq!(reply.last, None);
        assert_eq!(parse("FINAL: 42").last, Some(Final::Text("42".into())));
        assert_eq!(parse("So:\n FINAL: a\nb\n").last, Some(Final::Text("a\nb".into())));
        assert_eq!(parse("FINAL_VAR: `total`").last, Some(Final::Variable("total".into())));
    }

    #[test]
    fn other_languages_are_not_run_and_final_in_a_block_is_code() {
        let reply = parse("```text\nFINAL: no\n```\n```python\n# FINAL: no\nFINAL: no\n```");
        assert_eq!(reply.blocks, ["# FINAL: no\nFINAL: no\n"]);
        assert_eq!(reply.last, None);
    }

    #[test]
    fn a_block_may_hold_shorter_fences_and_may_never_end() {
        assert_eq!(parse("````py\n```\ninner\n````").blocks, ["```\ninner\n"]);
        assert_eq!(parse("```python\nx = 1").blocks, ["x = 1\n"]);
        assert_eq!(parse(""), Reply::default());
    }

    #[test]
    fn code_and_an_end_may_come_together() {
        let reply = parse("```python\nx = 1\n```\nFINAL_VAR: x\n```python\nlate()\n```");
        assert_eq!(reply.blocks, ["x = 1\n"]);
        assert_eq!(reply.last, Some(Final::Variable("x".into())));
    }
}
