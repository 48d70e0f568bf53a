//! The rules every value has to keep.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use super::fields::{Field, PolicyValues};
use super::issue::{FieldIssue, Origin};
use super::layer::{PolicyLayer, Setting};
use super::raw::quoted;
use crate::limits;
use crate::units::format_bytes;

/// What is wrong with the values of one layer, each by itself.
pub(super) fn layer(layer: &PolicyLayer) -> Vec<FieldIssue> {
    let mut issues = Issues::default();
    issues.check(Field::FuelBudget, layer.fuel_budget.as_ref(), |fuel| {
        within(*fuel, limits::MAX_FUEL_BUDGET, plain)
    });
    for (field, setting, max) in [
        (Field::MemoryBytes, &layer.memory_bytes, limits::MAX_MEMORY_BYTES),
        (Field::StdoutMaxBytes, &layer.stdout_max_bytes, limits::MAX_OUTPUT_BYTES),
        (Field::StderrMaxBytes, &layer.stderr_max_bytes, limits::MAX_OUTPUT_BYTES),
        (Field::WorkspaceMaxBytes, &layer.workspace_max_bytes, limits::MAX_WORKSPACE_BYTES),
        (Field::MaxToolBytes, &layer.max_tool_bytes, limits::MAX_TOOL_BYTES),
    ] {
        issues.check(field, setting.as_ref(), |size| within(*size, max, with_unit));
    }
    for (field, setting, max) in [
        (Field::WorkspaceMaxFiles, &layer.workspace_max_files, limits::MAX_WORKSPACE_FILES),
        (Field::MaxProcesses, &layer.max_processes, limits::MAX_PROCESSES),
        (Field::MaxToolCalls, &layer.max_tool_calls, limits::MAX_TOOL_CALLS),
        (Field::MaxRlmDepth, &layer.max_rlm_depth, limits::MAX_RLM_DEPTH),
    ] {
        issues.check(field, setting.as_ref(), |number| within(*number, max, plain));
    }
    issues.check(Field::TimeoutSeconds, layer.timeout_seconds.as_ref(), |time| timeout(*time));
    issues.check(Field::IdleTimeoutSeconds, layer.idle_timeout_seconds.as_ref(), |time| {
        idle_timeout(*time)
    });
    issues.check(Field::MountHostDir, layer.mount_host_dir.as_ref(), |path| host_path(path));
    issues.check(Field::MountDataDir, layer.mount_data_dir.as_ref(), |path| {
        path.as_deref().map_or(Ok(()), host_path)
    });
    issues.check(Field::GuestMountPath, layer.guest_mount_path.as_ref(), |path| guest_path(path));
    issues.check(Field::GuestDataPath, layer.guest_data_path.as_ref(), |path| guest_path(path));
    issues.check(Field::Argv, layer.argv.as_ref(), |argv| arguments(argv));
    issues.check(Field::BlockImports, layer.block_imports.as_ref(), |list| module_names(list));
    for (name, setting) in &layer.env {
        if let Err(message) = variable(name, &setting.value) {
            let shown =
                if name.chars().any(char::is_control) { quoted(name) } else { name.clone() };
            issues.push(format!("env.{shown}"), message, &setting.origin);
        }
    }
    issues.0
}

/// What is wrong with the values taken together.
pub(super) fn whole(values: &PolicyValues, origins: &BTreeMap<Field, Origin>) -> Vec<FieldIssue> {
    let mut issues = Vec::new();
    let (app, data) = (&values.guest_mount_path, &values.guest_data_path);
    if values.mount_data_dir.is_some() && (inside(app, data) || inside(data, app)) {
        let field = Field::GuestDataPath;
        let location = origins.get(&field).or_else(|| origins.get(&Field::GuestMountPath));
        issues.push(FieldIssue {
            field: field.name().to_owned(),
            message: format!(
                "{data} and guest_mount_path {app} overlap; give them separate directories, \
                 for example /data and /app"
            ),
            location: location.cloned(),
        });
    }
    let size: usize = values.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size > limits::MAX_ENV_BYTES || values.env.len() > limits::MAX_ENV_VARS {
        issues.push(FieldIssue {
            field: Field::Env.name().to_owned(),
            message: format!(
                "{} variables of {} bytes together are too many; at most {} variables and {} are \
                 allowed",
                values.env.len(),
                size,
                limits::MAX_ENV_VARS,
                format_bytes(limits::MAX_ENV_BYTES as u64),
            ),
            location: origins.get(&Field::Env).cloned(),
        });
    }
    issues
}

#[derive(Default)]
struct Issues(Vec<FieldIssue>);

impl Issues {
    fn check<T>(
        &mut self,
        field: Field,
        setting: Option<&Setting<T>>,
        check: impl Fn(&T) -> Result<(), String>,
    ) {
        if let Some(setting) = setting
            && let Err(message) = check(&setting.value)
        {
            self.push(field.name().to_owned(), message, &setting.origin);
        }
    }

    fn push(&mut self, field: String, message: String, origin: &Origin) {
        self.0.push(FieldIssue { field, message, location: Some(origin.clone()) });
    }
}

fn within(value: u64, max: u64, show: fn(u64) -> String) -> Result<(), String> {
    if value == 0 {
        return Err("must be greater than 0, but is 0".to_owned());
    }
    if value > max {
        return Err(format!("must be at most {}, but is {value}", show(max)));
    }
    Ok(())
}

fn plain(number: u64) -> String {
    number.to_string()
}

fn with_unit(size: u64) -> String {
    format!("{size} ({})", format_bytes(size))
}

fn timeout(seconds: f64) -> Result<(), String> {
    if !seconds.is_finite() {
        return Err(format!(
            "must be a finite number of seconds, but is {seconds}; every execution has a time limit"
        ));
    }
    let range = limits::MIN_TIMEOUT_SECONDS..=limits::MAX_TIMEOUT_SECONDS;
    duration(seconds, range, "24 hours")
}

fn idle_timeout(seconds: f64) -> Result<(), String> {
    if !seconds.is_finite() {
        return Err(format!("must be a finite number of seconds, but is {seconds}"));
    }
    let range = limits::MIN_IDLE_TIMEOUT_SECONDS..=limits::MAX_IDLE_TIMEOUT_SECONDS;
    duration(seconds, range, "a year")
}

fn duration(seconds: f64, range: RangeInclusive<f64>, longest: &str) -> Result<(), String> {
    if seconds <= 0.0 {
        return Err(format!("must be greater than 0, but is {seconds}"));
    }
    if seconds < *range.start() {
        return Err(format!("must be at least {}, but is {seconds}", range.start()));
    }
    if seconds > *range.end() {
        return Err(format!("must be at most {} ({longest}), but is {seconds}", range.end()));
    }
    Ok(())
}

fn host_path(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() {
        return Err("must name a directory, but is empty".to_owned());
    }
    no_nul(bytes)?;
    if bytes.len() > limits::MAX_PATH_BYTES {
        return Err(format!("is longer than {} bytes", limits::MAX_PATH_BYTES));
    }
    Ok(())
}

fn guest_path(path: &str) -> Result<(), String> {
    no_nul(path.as_bytes())?;
    let Some(relative) = path.strip_prefix('/') else {
        return Err(format!("must be absolute, for example /app, but is {}", quoted(path)));
    };
    if relative.is_empty() {
        return Err("must be a directory below /, for example /app".to_owned());
    }
    if path.len() > limits::MAX_PATH_BYTES {
        return Err(format!("is longer than {} bytes", limits::MAX_PATH_BYTES));
    }
    for part in relative.split('/') {
        match part {
            "" => return Err(format!("has an empty part: {}", quoted(path))),
            "." | ".." => {
                return Err(format!("must not contain `{part}`, but is {}", quoted(path)));
            }
            _ => {}
        }
    }
    Ok(())
}

fn arguments(argv: &[String]) -> Result<(), String> {
    if argv.is_empty() {
        return Err("must hold at least the program's name".to_owned());
    }
    for argument in argv {
        no_nul(argument.as_bytes())?;
    }
    let size: usize = argv.iter().map(|argument| argument.len() + 1).sum();
    if size > limits::MAX_ARGV_BYTES {
        return Err(format!(
            "is {size} bytes long; at most {} are allowed",
            format_bytes(limits::MAX_ARGV_BYTES as u64)
        ));
    }
    Ok(())
}

fn module_names(modules: &[String]) -> Result<(), String> {
    if modules.len() > limits::MAX_BLOCKED_IMPORTS {
        return Err(format!("has more than {} names", limits::MAX_BLOCKED_IMPORTS));
    }
    for module in modules {
        let good = !module.is_empty()
            && module.split('.').all(|part| {
                !part.is_empty()
                    && part.chars().all(|c| c.is_alphanumeric() || c == '_')
                    && !part.starts_with(|c: char| c.is_ascii_digit())
            });
        if !good {
            return Err(format!(
                "{} is not a module name; write for example \"subprocess\" or \"os.path\"",
                quoted(module)
            ));
        }
    }
    Ok(())
}

fn variable(name: &str, value: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("a variable needs a name".to_owned());
    }
    if name.contains('=') {
        return Err("a variable's name must not contain `=`".to_owned());
    }
    no_nul(name.as_bytes())?;
    no_nul(value.as_bytes())
}

fn no_nul(bytes: &[u8]) -> Result<(), String> {
    if bytes.contains(&0) {
        return Err("must not contain a NUL character".to_owned());
    }
    Ok(())
}

/// Whether `inner` is `outer` or lies below it.
fn inside(inner: &str, outer: &str) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
