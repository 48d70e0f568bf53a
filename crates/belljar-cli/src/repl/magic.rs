//! Commands of the shell itself. They begin with `%`, which no statement does.

use std::path::PathBuf;

/// A command of the shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Magic {
    Help,
    Fork(Option<String>),
    Switch(String),
    Sessions,
    Snapshot(PathBuf),
    Restore(PathBuf),
    Context(PathBuf),
    Reset,
    Time(String),
    Var(String),
    Tools,
    Answer(u64, String),
    Exit,
}

/// Every command with what it does, in the order of `%help`.
pub(super) const COMMANDS: [(&str, &str); 13] = [
    ("%time CODE", "run code and say how long it took"),
    ("%var NAME", "show a variable's type and value"),
    ("%fork [NAME]", "go on in a copy of this session; this one stays as it is"),
    ("%switch NAME", "go to another of them"),
    ("%sessions", "list them"),
    ("%snapshot FILE", "write the session with its files into a file"),
    ("%restore FILE", "go on from such a file"),
    ("%context FILE", "begin again with a file as the variable `context`"),
    ("%reset", "begin again; files stay"),
    ("%tools", "list the functions of the host"),
    ("%answer CALL=JSON", "answer a call the session waits for"),
    ("%help", "this list"),
    ("%exit", "leave, like Ctrl-D"),
];

/// Names that complete what was typed.
pub(super) fn completions(typed: &str) -> Vec<String> {
    COMMANDS
        .iter()
        .filter_map(|(usage, _)| usage.split(' ').next())
        .filter(|name| name.starts_with(typed))
        .map(str::to_owned)
        .collect()
}

impl Magic {
    /// Reads a command. The error says how it is written.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        let usage = || {
            COMMANDS.iter().find(|(usage, _)| usage.split(' ').next() == Some(name)).map_or_else(
                || "%help lists the commands".to_owned(),
                |(usage, _)| format!("write {usage}"),
            )
        };
        let argument = || if rest.is_empty() { Err(usage()) } else { Ok(rest.to_owned()) };
        let alone = |command: Self| if rest.is_empty() { Ok(command) } else { Err(usage()) };
        match name {
            "%help" | "%?" => alone(Self::Help),
            "%fork" => Ok(Self::Fork((!rest.is_empty()).then(|| rest.to_owned()))),
            "%switch" => argument().map(Self::Switch),
            "%sessions" => alone(Self::Sessions),
            "%snapshot" => argument().map(|path| Self::Snapshot(path.into())),
            "%restore" => argument().map(|path| Self::Restore(path.into())),
            "%context" => argument().map(|path| Self::Context(path.into())),
            "%reset" => alone(Self::Reset),
            "%time" => argument().map(Self::Time),
            "%var" => argument().map(Self::Var),
            "%tools" => alone(Self::Tools),
            "%answer" => {
                let (call, answer) = rest.split_once('=').ok_or_else(usage)?;
                let call = call.trim().parse().map_err(|_| usage())?;
                Ok(Self::Answer(call, answer.trim().to_owned()))
            }
            "%exit" | "%quit" => alone(Self::Exit),
            _ => Err(usage()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        assert_eq!(Magic::parse("%fork"), Ok(Magic::Fork(None)));
        assert_eq!(Magic::parse(" %fork  a\n"), Ok(Magic::Fork(Some("a".into()))));
        assert_eq!(Magic::parse("%time\nx = 1\ny"), Ok(Magic::Time("x = 1\ny".into())));
        assert_eq!(Magic::parse("%answer 3={\"a\": 1}"), Ok(Magic::Answer(3, "{\"a\": 1}".into())));
        for (usage, _) in COMMANDS {
            let typed = usage.replace("CALL=JSON", "1=2");
            assert!(Magic::parse(&typed).is_ok(), "{usage}");
        }
    }

    #[test]
    fn what_is_no_command_says_how_it_is_written() {
        assert_eq!(Magic::parse("%nope"), Err("%help lists the commands".into()));
        assert_eq!(Magic::parse("%"), Err("%help lists the commands".into()));
        assert_eq!(Magic::parse("%switch"), Err("write %switch NAME".into()));
        assert_eq!(Magic::parse("%reset now"), Err("write %reset".into()));
        assert_eq!(Magic::parse("%answer x=1"), Err("write %answer CALL=JSON".into()));
    }

    #[test]
    fn names_are_completed() {
        assert_eq!(completions("%s"), ["%switch", "%sessions", "%snapshot"]);
    }
}
