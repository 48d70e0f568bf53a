//! Layers from a policy file's text, from JSON and from environment variables.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check;
use super::fields::Field;
use super::issue::{FieldIssue, Origin, PolicyValidationError};
use super::layer::{PolicyLayer, Setting};
use super::raw::{FromRaw, Raw, bytes, count, quoted, seconds};
use crate::variables;

/// Another name for `SANDBOX_TIMEOUT_SECONDS`.
const TIMEOUT_ALIAS: &str = variables::TIMEOUT_SEC.declared.name;

/// Adds [`DANGEROUS_IMPORTS`](super::DANGEROUS_IMPORTS) to `SANDBOX_BLOCK_IMPORTS`.
const DANGEROUS_VARIABLE: &str = variables::BLOCK_DANGEROUS_IMPORTS.declared.name;

impl PolicyLayer {
    /// Reads a policy file's text. `name` is what messages call the file.
    ///
    /// # Errors
    /// Everything that is wrong with the text: syntax, unknown keys, types and ranges, with lines.
    pub fn from_toml(text: &str, name: &str) -> Result<Self, PolicyValidationError> {
        let at =
            |offset: usize| Origin::File { name: name.to_owned(), line: line_of(text, offset) };
        let table = DeTable::parse(text).map_err(|error| {
            let location = error.span().map_or(0, |span| span.start);
            PolicyValidationError::single(
                "",
                format!("the text is not valid TOML: {}", error.message()),
                Some(at(location)),
            )
        })?;
        let mut reader = Reader::default();
        for (key, value) in table.get_ref() {
            let origin = at(key.span().start);
            match (Field::from_name(key.get_ref()), value.get_ref()) {
                (Some(Field::Env), DeValue::Table(variables)) => {
                    for (variable, value) in variables {
                        let origin = at(variable.span().start);
                        reader.variable(variable.get_ref(), &from_toml(value), origin);
                    }
                }
                (Some(field), _) => reader.field(field, &from_toml(value), origin),
                (None, _) => reader.unknown(key.get_ref(), origin),
            }
        }
        reader.finish()
    }

    /// Reads a JSON object with the fields of a policy file.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, PolicyValidationError> {
        let serde_json::Value::Object(fields) = value else {
            return Err(PolicyValidationError::single(
                "",
                "a policy must be an object",
                Some(Origin::Request),
            ));
        };
        let mut reader = Reader::default();
        for (key, value) in fields {
            match (Field::from_name(key), value) {
                (Some(Field::Env), serde_json::Value::Object(variables)) => {
                    for (name, value) in variables {
                        reader.variable(name, &from_json(value), Origin::Request);
                    }
                }
                (Some(field), value) => reader.field(field, &from_json(value), Origin::Request),
                (None, _) => reader.unknown(key, Origin::Request),
            }
        }
        reader.finish()
    }

    /// Reads the `SANDBOX_*` variables among these pairs; all others are left alone. Sizes may have
    /// units, lists are separated by commas or written as JSON, and `SANDBOX_ENV` is a JSON object.
    ///
    /// A variable that merely shares the prefix is ignored, but one that looks like a misspelt
    /// field is refused, so that a limit is never lost to a typing error.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn from_variables<N: AsRef<str>, V: AsRef<str>>(
        variables: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Self, PolicyValidationError> {
        let mut reader = Reader::default();
        for (name, value) in variables {
            let (name, value) = (name.as_ref(), value.as_ref());
            let Some(suffix) = name.strip_prefix("SANDBOX_") else { continue };
            let origin = Origin::Variable(name.to_owned());
            let text = Raw::Text(value.to_owned());
            match Field::from_name(&suffix.to_ascii_lowercase()) {
                _ if name == TIMEOUT_ALIAS => reader.field(Field::TimeoutSeconds, &text, origin),
                _ if name == DANGEROUS_VARIABLE => reader.dangerous_imports(&text, origin),
                // The agent's tool reads its own.
                _ if variables::is_declared(name) => {}
                Some(Field::Env) => reader.json_env(value, &origin),
                Some(field) => reader.field(field, &text, origin),
                None => reader.misspelt_variable(name, origin),
            }
        }
        reader.finish()
    }
}

/// Collects a layer and everything wrong with it.
#[derive(Default)]
struct Reader {
    layer: PolicyLayer,
    issues: Vec<FieldIssue>,
}

impl Reader {
    fn field(&mut self, field: Field, raw: &Raw, origin: Origin) {
        let layer = &mut self.layer;
        let outcome = match field {
            Field::FuelBudget => put(&mut layer.fuel_budget, count(raw), &origin),
            Field::MemoryBytes => put(&mut layer.memory_bytes, bytes(raw), &origin),
            Field::StdoutMaxBytes => put(&mut layer.stdout_max_bytes, bytes(raw), &origin),
            Field::StderrMaxBytes => put(&mut layer.stderr_max_bytes, bytes(raw), &origin),
            Field::MountHostDir => put(&mut layer.mount_host_dir, FromRaw::from_raw(raw), &origin),
            Field::GuestMountPath => {
                put(&mut layer.guest_mount_path, FromRaw::from_raw(raw), &origin)
            }
            Field::MountDataDir => put(&mut layer.mount_data_dir, FromRaw::from_raw(raw), &origin),
            Field::GuestDataPath => {
                put(&mut layer.guest_data_path, FromRaw::from_raw(raw), &origin)
            }
            Field::Argv => put(&mut layer.argv, FromRaw::from_raw(raw), &origin),
            Field::Env => Err("must be a table of variables; write [env] and below it \
                               NAME = \"value\""
                .to_owned()),
            Field::TimeoutSeconds => put(&mut layer.timeout_seconds, seconds(raw), &origin),
            Field::WorkspaceMaxBytes => put(&mut layer.workspace_max_bytes, bytes(raw), &origin),
            Field::WorkspaceMaxFiles => put(&mut layer.workspace_max_files, count(raw), &origin),
            Field::MaxProcesses => put(&mut layer.max_processes, count(raw), &origin),
            Field::MaxToolCalls => put(&mut layer.max_tool_calls, count(raw), &origin),
            Field::MaxToolBytes => put(&mut layer.max_tool_bytes, bytes(raw), &origin),
            Field::MaxRlmDepth => put(&mut layer.max_rlm_depth, count(raw), &origin),
            Field::IdleTimeoutSeconds => {
                put(&mut layer.idle_timeout_seconds, seconds(raw), &origin)
            }
            Field::Network => put(&mut layer.network, FromRaw::from_raw(raw), &origin),
            Field::Deterministic => put(&mut layer.deterministic, FromRaw::from_raw(raw), &origin),
            Field::BlockImports => put(&mut layer.block_imports, FromRaw::from_raw(raw), &origin),
            Field::Image => put(&mut layer.image, FromRaw::from_raw(raw), &origin),
        };
        if let Err(message) = outcome {
            self.issue(field.name(), message, origin);
        }
    }

    fn dangerous_imports(&mut self, raw: &Raw, origin: Origin) {
        let value = FromRaw::from_raw(raw);
        if let Err(message) = put(&mut self.layer.block_dangerous_imports, value, &origin) {
            self.issue(DANGEROUS_VARIABLE, message, origin);
        }
    }

    fn variable(&mut self, name: &str, raw: &Raw, origin: Origin) {
        match String::from_raw(raw) {
            Ok(value) => {
                self.layer.env.insert(name.to_owned(), Setting { value, origin });
            }
            Err(message) => self.issue(&format!("env.{name}"), message, origin),
        }
    }

    fn json_env(&mut self, text: &str, origin: &Origin) {
        match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text) {
            Ok(variables) => {
                for (name, value) in &variables {
                    self.variable(name, &from_json(value), origin.clone());
                }
            }
            Err(error) => self.issue(
                "env",
                format!("is not a JSON object ({error}); write {{\"NAME\": \"value\"}}"),
                origin.clone(),
            ),
        }
    }

    fn unknown(&mut self, key: &str, origin: Origin) {
        let names = Field::ALL.map(Field::name);
        let message = match nearest(key, names.iter().copied()) {
            Some(name) => format!("unknown field; did you mean `{name}`?"),
            None => format!("unknown field; the fields are {}", names.join(", ")),
        };
        self.issue(key, message, origin);
    }

    fn misspelt_variable(&mut self, name: &str, origin: Origin) {
        let fields = Field::ALL.map(Field::variable);
        let known =
            fields.iter().map(String::as_str).chain(variables::ALL.map(|declared| declared.name));
        if let Some(meant) = nearest(name, known) {
            let message = format!("unknown variable; did you mean `{meant}`?");
            self.issue(name, message, origin);
        }
    }

    fn issue(&mut self, field: &str, message: String, location: Origin) {
        // A key is the caller's text and may hold anything; show it safely.
        let field = if field.chars().any(char::is_control) || field.len() > 60 {
            quoted(field)
        } else {
            field.to_owned()
        };
        self.issues.push(FieldIssue { field, message, location: Some(location) });
    }

    fn finish(mut self) -> Result<PolicyLayer, PolicyValidationError> {
        self.issues.extend(check::layer(&self.layer));
        PolicyValidationError::unless_empty(self.issues)?;
        Ok(self.layer)
    }
}

fn put<T>(
    slot: &mut Option<Setting<T>>,
    value: Result<T, String>,
    origin: &Origin,
) -> Result<(), String> {
    *slot = Some(Setting { value: value?, origin: origin.clone() });
    Ok(())
}

fn from_toml(value: &Spanned<DeValue<'_>>) -> Raw {
    match value.get_ref() {
        DeValue::String(text) => Raw::Str(text.clone().into_owned()),
        DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Raw::HugeInt(number.as_str().to_owned()), Raw::Int),
        DeValue::Float(number) => number
            .as_str()
            .parse()
            .map_or_else(|_| Raw::HugeInt(number.as_str().to_owned()), Raw::Float),
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Datetime(_) => Raw::DateTime,
        DeValue::Array(items) => Raw::List(items.iter().map(from_toml).collect()),
        DeValue::Table(_) => Raw::Table,
    }
}

fn from_json(value: &serde_json::Value) -> Raw {
    match value {
        serde_json::Value::Null => Raw::Null,
        serde_json::Value::Bool(value) => Raw::Bool(*value),
        serde_json::Value::Number(number) => match (number.as_i128(), number.as_f64()) {
            (Some(whole), _) => Raw::Int(whole),
            (None, Some(float)) => Raw::Float(float),
            (None, None) => Raw::HugeInt(number.to_string()),
        },
        serde_json::Value::String(text) => Raw::Str(text.clone()),
        serde_json::Value::Array(items) => Raw::List(items.iter().map(from_json).collect()),
        serde_json::Value::Object(_) => Raw::Table,
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.split(|byte| *byte == b'\n').count().saturating_sub(1)
}

/// The name a person most likely meant: at most a third of it is different.
fn nearest<'a>(typed: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if typed.len() > 64 {
        return None;
    }
    names
        .map(|name| (edit_distance(typed, name), name))
        .filter(|(distance, name)| *distance <= name.len() / 3)
        // Half a name is more likely than another one that is as far away.
        .min_by_key(|(distance, name)| (!name.starts_with(typed), *distance))
        .map(|(_, name)| name)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_ascii_lowercase().chars().collect();
    let b: Vec<char> = b.to_ascii_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
