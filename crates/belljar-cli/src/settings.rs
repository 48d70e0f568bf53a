//! What the arguments mean: preset, then policy file, then `SANDBOX_*` variables, then arguments.

use std::ffi::OsString;
use std::path::Path;

use belljar::policy_file;
use belljar::{
    Backend, DockerSettings, ExecutionPolicy, LogFormat, Origin, PolicyLayer,
    PolicyValidationError, RuntimeType, SandboxConfig, SandboxError, SandboxLogger, workspace,
};
use tempfile::TempDir;

use crate::args::{EngineArgs, LimitArgs, LogArgs, ReplArgs, RunArgs, SourceArgs};

/// A configuration, and the temporary workspace that has to live as long as it is used.
pub(crate) struct Settings {
    pub(crate) config: SandboxConfig,
    /// Removed with everything in it when this is dropped.
    pub(crate) temporary: Option<TempDir>,
}

impl Settings {
    /// The settings of `run`.
    pub(crate) fn of_run(args: &RunArgs) -> Result<Self, SandboxError> {
        let policy = policy(&args.limits)?;
        let mut config = SandboxConfig {
            runtime: language(&args.engine, &args.source),
            policy,
            logger: logger(&args.log)?,
            code_name: code_name(&args.source),
            ..SandboxConfig::default()
        };
        args.engine.apply(&mut config)?;
        let own = !has_workspace(&config.policy);
        let temporary =
            own.then(|| temporary_workspace(config.backend, &config.docker)).transpose()?;
        config.workspace = temporary.as_ref().map(|dir| dir.path().to_owned());
        Ok(Self { config, temporary })
    }

    /// The settings of a sandbox whose state lives on. Its workspace is temporary unless somebody
    /// named one, or a session brings its own.
    pub(crate) fn of_shell(args: &ReplArgs) -> Result<Self, SandboxError> {
        let mut config = live_config(&args.limits, &args.log)?;
        config.runtime = args.engine.lang.unwrap_or_default();
        args.engine.apply(&mut config)?;
        let own = args.session.is_none() && !has_workspace(&config.policy);
        let temporary =
            own.then(|| temporary_workspace(config.backend, &config.docker)).transpose()?;
        config.workspace = temporary.as_ref().map(|dir| dir.path().to_owned());
        Ok(Self { config, temporary })
    }

    /// The settings for code that is only looked at.
    pub(crate) fn of_check(engine: &EngineArgs, source: &SourceArgs) -> Result<Self, SandboxError> {
        let mut config = SandboxConfig {
            runtime: language(engine, source),
            policy: ExecutionPolicy::preset(belljar::Preset::Agent),
            ..SandboxConfig::default()
        };
        engine.apply(&mut config)?;
        let temporary = temporary_workspace(config.backend, &config.docker)?;
        config.workspace = Some(temporary.path().to_owned());
        Ok(Self { config, temporary: Some(temporary) })
    }
}

/// The configuration of a session, but for its language and workspace.
pub(crate) fn live_config(
    limits: &LimitArgs,
    log: &LogArgs,
) -> Result<SandboxConfig, SandboxError> {
    Ok(SandboxConfig { policy: policy(limits)?, logger: logger(log)?, ..SandboxConfig::default() })
}

/// A file keeps its name in tracebacks; where it lies on the host is nobody's business.
pub(crate) fn code_name(source: &SourceArgs) -> Option<String> {
    let name = source.file.as_deref()?.file_name()?.to_str()?;
    (name != "-").then(|| name.to_owned())
}

/// The policy the arguments, the environment and the policy file make together.
pub(crate) fn policy(args: &LimitArgs) -> Result<ExecutionPolicy, SandboxError> {
    let file = args.policy.as_deref().map(required_file).transpose()?;
    let variables = sandbox_variables(std::env::vars_os())?;
    let layers = file.into_iter().chain([variables, argument_layer(args)]);
    Ok(ExecutionPolicy::build(args.preset, layers)?)
}

/// A policy file that was named must exist: defaults in its place would be a weaker policy than the
/// one that was asked for.
fn required_file(path: &Path) -> Result<PolicyLayer, SandboxError> {
    policy_file::read_layer(path)?.ok_or_else(|| SandboxError::Input {
        what: "policy file".to_owned(),
        path: path.to_owned(),
        problem: "it does not exist".to_owned(),
        hint: Some("leave --policy away to use the preset alone".to_owned()),
    })
}

fn sandbox_variables(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<PolicyLayer, PolicyValidationError> {
    let mut pairs = Vec::new();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|name| name.starts_with("SANDBOX_")) else {
            continue;
        };
        let Some(value) = value.to_str() else {
            let origin = Origin::Variable(name.to_owned());
            return Err(PolicyValidationError::single(name, "is not UTF-8 text", Some(origin)));
        };
        pairs.push((name.to_owned(), value.to_owned()));
    }
    PolicyLayer::from_variables(pairs)
}

fn argument_layer(args: &LimitArgs) -> PolicyLayer {
    let mut layer = PolicyLayer::new();
    let flag =
        |layer: PolicyLayer, name: &str| layer.from_source(Origin::Argument(name.to_owned()));
    if let Some(fuel) = args.fuel {
        layer = flag(layer, "--fuel").fuel_budget(fuel);
    }
    if let Some(bytes) = args.memory {
        layer = flag(layer, "--memory").memory_bytes(bytes);
    }
    if let Some(seconds) = args.timeout {
        layer = flag(layer, "--timeout").timeout_seconds(seconds);
    }
    if let Some(path) = &args.workspace {
        layer = flag(layer, "--workspace").mount_host_dir(path);
    }
    if let Some(path) = &args.data {
        layer = flag(layer, "--data").mount_data_dir(path);
    }
    for (name, value) in &args.env {
        layer = flag(layer, "--env").env(name, value);
    }
    if let Some(calls) = args.max_tool_calls {
        layer = flag(layer, "--max-tool-calls").max_tool_calls(calls);
    }
    if let Some(depth) = args.max_rlm_depth {
        layer = flag(layer, "--max-rlm-depth").max_rlm_depth(depth);
    }
    if !args.block_import.is_empty() {
        layer = flag(layer, "--block-import").block_imports(&args.block_import);
    }
    if args.deterministic {
        layer = flag(layer, "--deterministic").deterministic(true);
    }
    layer
}

/// Whether somebody named a workspace. The preset's own `workspace` does not count on the command
/// line: whatever directory one happens to stand in would be opened to the guest.
pub(crate) fn has_workspace(policy: &ExecutionPolicy) -> bool {
    policy.is_explicit(belljar::Field::MountHostDir)
}

/// A directory that the backend can use and nobody else can.
pub(crate) fn temporary_workspace(
    backend: Backend,
    docker: &DockerSettings,
) -> Result<TempDir, SandboxError> {
    workspace::temporary(backend, docker).map_err(|error| match error {
        SandboxError::Workspace { path, problem, hint: None } => SandboxError::Workspace {
            path,
            problem: format!("no temporary directory can be made in it: {problem}"),
            hint: Some("name a directory with --workspace, or set TMPDIR".to_owned()),
        },
        other => other,
    })
}

fn language(engine: &EngineArgs, source: &SourceArgs) -> RuntimeType {
    named_language(engine, source).unwrap_or_default()
}

/// The language that was asked for, by argument or by the file's name.
pub(crate) fn named_language(engine: &EngineArgs, source: &SourceArgs) -> Option<RuntimeType> {
    let by_name = || match source.file.as_deref().and_then(Path::extension)?.to_str()? {
        "js" | "mjs" => Some(RuntimeType::Javascript),
        "py" => Some(RuntimeType::Python),
        _ => None,
    };
    engine.lang.or_else(by_name)
}

fn logger(args: &LogArgs) -> Result<Option<SandboxLogger>, SandboxError> {
    let Some(path) = &args.log else { return Ok(None) };
    let format: LogFormat = args.log_format;
    let logger = if path.as_path() == Path::new("-") {
        SandboxLogger::to_stderr(format)
    } else {
        SandboxLogger::to_file(format, path)?
    };
    Ok(Some(logger.log_code(args.log_code).log_output(args.log_code)))
}
