//! `belljar repl`.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use belljar::SandboxError;

use crate::args::ReplArgs;
use crate::repl::{self, Shell, Start};
use crate::sessions::Opened;
use crate::settings::Settings;
use crate::{context, tools};

pub(crate) fn run(args: ReplArgs) -> anyhow::Result<ExitCode> {
    let mut settings = Settings::of_shell(&args)?;
    let home = settings.config.home()?;
    let model = tools::shell_model(&args.model, &home)?;
    let context = args.context.as_deref().map(context::read).transpose()?;
    let kept = args
        .session
        .as_deref()
        .map(|id| Opened::open_or_create(&home, id, args.engine.lang, &settings.config))
        .transpose()?;
    if let Some(opened) = kept.as_ref().filter(|opened| context.is_some() && !opened.is_new()) {
        return Err(SandboxError::Session {
            id: opened.session.id().to_owned(),
            problem: "it has a context of its own".to_owned(),
            hint: Some("leave --context away, and type %context FILE to begin it again".to_owned()),
        }
        .into());
    }
    let deferred = kept.as_ref().map(|opened| opened.session.record().deferred_tools.clone());
    tools::offer(&mut settings.config, model.as_ref(), &deferred.unwrap_or_default())?;
    let interactive = io::stdin().is_terminal() && io::stdout().is_terminal();
    let shell = Shell::start(Start { settings, home, kept, context, interactive })?;
    if interactive { repl::interactive(shell) } else { repl::piped(shell) }
}
