//! What the code can call: a model by its configuration, and tools that are answered later.

use std::sync::Arc;

use belljar::tools::llm::{LLM_COMMAND_VARIABLE, LlmConfig, Rlm};
use belljar::{Field, Home, PolicyLayer, SandboxConfig, SandboxError, Tools};

use crate::args::{ModelArgs, ToolArgs};

/// How long code may take that asks a model, unless somebody says otherwise: models are slow.
const TIMEOUT_WITH_MODEL: f64 = 600.0;

/// The model of the shell: whoever names one wants it there.
pub(crate) fn shell_model(
    args: &ModelArgs,
    home: &Home,
) -> Result<Option<LlmConfig>, SandboxError> {
    LlmConfig::find(home, args.llm_command.as_deref())
}

/// The model of a run: only when it was asked for, since code that nobody has read would spend it.
pub(crate) fn run_model(args: &ToolArgs, home: &Home) -> Result<Option<LlmConfig>, SandboxError> {
    if !args.llm {
        return Ok(args.model.llm_command.as_deref().map(LlmConfig::command));
    }
    match LlmConfig::find(home, args.model.llm_command.as_deref())? {
        Some(model) => Ok(Some(model)),
        None => Err(SandboxError::Input {
            what: "the model from".to_owned(),
            path: home.config_file(),
            problem: "none is configured".to_owned(),
            hint: Some(format!("give --llm-command CMD, or set {LLM_COMMAND_VARIABLE}")),
        }),
    }
}

/// Offers them to the sandboxes of a configuration.
pub(crate) fn offer(
    config: &mut SandboxConfig,
    model: Option<&LlmConfig>,
    deferred: &[String],
) -> Result<(), SandboxError> {
    let mut tools = Tools::new();
    for name in deferred {
        tools = tools.deferred(name)?;
    }
    if let Some(model) = model {
        if !config.policy.is_explicit(Field::TimeoutSeconds) {
            let layer = PolicyLayer::new().timeout_seconds(TIMEOUT_WITH_MODEL);
            config.policy = config.policy.with(layer)?;
        }
        tools = Arc::new(Rlm::new(model.model()?, config)).offer(tools)?;
    }
    config.tools = tools;
    Ok(())
}
