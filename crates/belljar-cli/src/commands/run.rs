//! `belljar run`.

use std::process::ExitCode;

use belljar::{LaunchPlan, create_sandbox};

use super::explain;
use crate::args::RunArgs;
use crate::report::Report;
use crate::sessions::Opened;
use crate::settings::{self, Settings};
use crate::{source, tools};

pub(crate) fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    if let Some(id) = &args.session {
        return in_session(&args, id);
    }
    let mut settings = Settings::of_run(&args)?;
    if args.explain {
        let plan = LaunchPlan::new(&settings.config)?;
        explain::print(&plan, &source::read(&args.source)?, &settings, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let code = source::read(&args.source)?;
    let model = tools::run_model(&args.tools, &settings.config.home()?)?;
    tools::offer(&mut settings.config, model.as_ref(), &[])?;
    let report = Report::new(args.json, false, &mut settings.config);
    let mut sandbox = create_sandbox(&settings.config)?;
    report.watch(sandbox.cancel_handle())?;
    report.finish(&sandbox.execute(&code)?)
}

/// Runs the code as a cell of a session, which is saved afterwards.
fn in_session(args: &RunArgs, id: &str) -> anyhow::Result<ExitCode> {
    let code = source::read(&args.source)?;
    let mut config = settings::live_config(&args.limits, &args.log)?;
    args.engine.apply(&mut config)?;
    config.code_name = settings::code_name(&args.source);
    let home = config.home()?;
    let model = tools::run_model(&args.tools, &home)?;
    let language = settings::named_language(&args.engine, &args.source);
    let mut opened = Opened::open_or_create(&home, id, language, &config)?;
    opened.session.defer(&args.defer);
    let deferred = &opened.session.record().deferred_tools;
    if let Err(error) = tools::offer(&mut config, model.as_ref(), deferred) {
        opened.give_up()?;
        return Err(error.into());
    }
    let report = Report::new(args.json, true, &mut config);
    let result = opened.use_once(&config, 1, |sandbox| {
        report.watch(sandbox.cancel_handle())?;
        sandbox.execute(&code)
    })?;
    report.finish(&result)
}
