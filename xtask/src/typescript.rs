//! The protocol's types as TypeScript, from the same schemas that describe them to everybody else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, bail, ensure};
use belljar_core::protocol::{self, methods};
use belljar_core::{ExecutionPolicy, SandboxResult, TRUNCATION_MARKER, ToolCall, json, limits};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

/// Where the file stands.
pub const PATH: &str = "sdk/typescript/src/generated.ts";

const HEADER: &str =
    "// Written by `cargo xtask codegen` from the types of belljar-core. Changes belong there.

/** What JSON can carry. */
export type JsonValue =
  | null
  | boolean
  | number
  | string
  | JsonValue[]
  | { [key: string]: JsonValue };
";

/// A type's name here, and how its schema is made.
type Known = (&'static str, fn(&mut SchemaGenerator));

/// A method: its name, its parameters and its result.
type Method = (&'static str, &'static str, &'static str);

/// What a client says: what has a default may be left away.
const SAID: [Known; 18] = [
    known::<ExecutionPolicy>("ExecutionPolicy"),
    known::<methods::CreateParams>("CreateParams"),
    known::<methods::SandboxParams>("SandboxParams"),
    known::<methods::InitializeParams>("InitializeParams"),
    known::<methods::ExecuteParams>("ExecuteParams"),
    known::<methods::CodeParams>("CodeParams"),
    known::<methods::NameParams>("NameParams"),
    known::<methods::CompleteParams>("CompleteParams"),
    known::<methods::ResumeParams>("ResumeParams"),
    known::<methods::AnswerForm>("AnswerForm"),
    known::<methods::SnapshotParams>("SnapshotParams"),
    known::<methods::SnapshotReadParams>("SnapshotReadParams"),
    known::<methods::SnapshotWriteParams>("SnapshotWriteParams"),
    known::<methods::SnapshotDropParams>("SnapshotDropParams"),
    known::<methods::RestoreParams>("RestoreParams"),
    known::<methods::FileParams>("FileParams"),
    known::<methods::FileReadParams>("FileReadParams"),
    known::<methods::FileWriteParams>("FileWriteParams"),
];

/// What a server says: every field is there.
const HEARD: [Known; 14] = [
    known::<SandboxResult>("SandboxResult"),
    known::<ToolCall>("ToolCall"),
    known::<methods::Hello>("Hello"),
    known::<methods::Created>("Created"),
    known::<methods::Validated>("Validated"),
    known::<methods::Looked>("Looked"),
    known::<methods::Completed>("Completed"),
    known::<methods::Snapshotted>("Snapshotted"),
    known::<methods::Chunk>("Chunk"),
    known::<methods::FileEntry>("FileEntry"),
    known::<methods::Line>("Line"),
    known::<methods::ToolParams>("ToolParams"),
    known::<methods::InputParams>("InputParams"),
    known::<methods::DropParams>("DropParams"),
];

/// What a client asks for.
const METHODS: [Method; 21] = [
    (methods::HELLO, "Record<string, never>", "Hello"),
    (methods::CREATE, "CreateParams", "Created"),
    (methods::INITIALIZE, "InitializeParams", "null"),
    (methods::EXECUTE, "ExecuteParams", "SandboxResult"),
    (methods::VALIDATE, "CodeParams", "Validated"),
    (methods::GET_VARIABLE, "NameParams", "Looked"),
    (methods::COMPLETE, "CompleteParams", "Completed"),
    (methods::PENDING_CALLS, "SandboxParams", "ToolCall[]"),
    (methods::RESUME, "ResumeParams", "SandboxResult"),
    (methods::CANCEL, "SandboxParams", "null"),
    (methods::FORK, "SandboxParams", "Created"),
    (methods::SNAPSHOT, "SnapshotParams", "Snapshotted"),
    (methods::SNAPSHOT_READ, "SnapshotReadParams", "Chunk"),
    (methods::SNAPSHOT_WRITE, "SnapshotWriteParams", "Snapshotted"),
    (methods::SNAPSHOT_DROP, "SnapshotDropParams", "null"),
    (methods::RESTORE, "RestoreParams", "null"),
    (methods::FILES_LIST, "SandboxParams", "FileEntry[]"),
    (methods::FILES_READ, "FileReadParams", "Chunk"),
    (methods::FILES_WRITE, "FileWriteParams", "null"),
    (methods::FILES_REMOVE, "FileParams", "null"),
    (methods::DESTROY, "SandboxParams", "null"),
];

/// What a server tells or asks while code runs.
const TOLD: [(&str, &str); 5] = [
    (methods::STDOUT, "Line"),
    (methods::STDERR, "Line"),
    (methods::TOOL_CALL, "ToolParams"),
    (methods::INPUT, "InputParams"),
    (methods::CALL_DROPPED, "DropParams"),
];

const fn known<T: JsonSchema>(name: &'static str) -> Known {
    (name, |generator| drop(generator.subschema_for::<T>()))
}

/// The whole file.
pub fn text() -> anyhow::Result<String> {
    let mut types = BTreeMap::new();
    let settings = SchemaSettings::draft2020_12();
    collect(&mut types, settings.clone().for_deserialize(), &SAID)?;
    collect(&mut types, settings.for_serialize(), &HEARD)?;
    let mut file = HEADER.to_owned();
    for (name, schema) in &types {
        file.push('\n');
        file.push_str(&declared(name, schema).with_context(|| name.clone())?);
    }
    file.push_str(&methods_text());
    file.push_str(&constants()?);
    Ok(file)
}

/// Adds these types and all they mention. One that both sides say has to be the same for both.
fn collect(
    types: &mut BTreeMap<String, Value>,
    settings: SchemaSettings,
    known: &[Known],
) -> anyhow::Result<()> {
    let mut generator = settings.into_generator();
    for (_, describe) in known {
        describe(&mut generator);
    }
    let found = generator.take_definitions(true);
    for (name, _) in known {
        ensure!(found.contains_key(*name), "there is no schema of {name}");
    }
    for (name, schema) in found {
        let other = types.insert(name.clone(), schema.clone());
        if other.as_ref().is_some_and(|other| *other != schema) {
            bail!("{name} is not the same for clients and servers");
        }
    }
    Ok(())
}

fn declared(name: &str, schema: &Value) -> anyhow::Result<String> {
    let schema = schema.as_object().context("a schema that is no object")?;
    let mut text = doc(schema, "");
    match schema.get("properties").and_then(Value::as_object) {
        Some(_) => writeln!(text, "export interface {name} {}", object(schema, "")?)?,
        None => writeln!(text, "export type {name} = {};", expression(schema, "")?)?,
    }
    Ok(text)
}

fn object(schema: &Map<String, Value>, indent: &str) -> anyhow::Result<String> {
    let inner = format!("{indent}  ");
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array);
    let mut text = "{\n".to_owned();
    for (name, property) in properties {
        let always = required.is_some_and(|names| names.iter().any(|other| other == name));
        let mark = if always { "" } else { "?" };
        let of = of(property, &inner).with_context(|| name.clone())?;
        let doc = property.as_object().map_or_else(String::new, |property| doc(property, &inner));
        writeln!(text, "{doc}{inner}{name}{mark}: {of};")?;
    }
    write!(text, "{indent}}}")?;
    Ok(text)
}

/// The type that a schema stands for. `true` is anything.
fn of(schema: &Value, indent: &str) -> anyhow::Result<String> {
    match schema {
        Value::Bool(true) => Ok("JsonValue".to_owned()),
        Value::Object(schema) => expression(schema, indent),
        other => bail!("no schema: {other}"),
    }
}

fn expression(schema: &Map<String, Value>, indent: &str) -> anyhow::Result<String> {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let name = reference.strip_prefix("#/$defs/").context("a reference to elsewhere")?;
        return Ok(name.to_owned());
    }
    if let Some(value) = schema.get("const") {
        return Ok(value.to_string());
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Ok(values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | "));
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(cases) = schema.get(key).and_then(Value::as_array) {
            return union(cases.iter().map(|case| of(case, indent)));
        }
    }
    match schema.get("type") {
        None => Ok("JsonValue".to_owned()),
        Some(Value::String(name)) => named(name, schema, indent),
        Some(Value::Array(names)) => union(
            names
                .iter()
                .map(|name| named(name.as_str().context("a type without a name")?, schema, indent)),
        ),
        Some(other) => bail!("a type that is {other}"),
    }
}

fn union(cases: impl Iterator<Item = anyhow::Result<String>>) -> anyhow::Result<String> {
    Ok(cases.collect::<anyhow::Result<Vec<_>>>()?.join(" | "))
}

fn named(name: &str, schema: &Map<String, Value>, indent: &str) -> anyhow::Result<String> {
    Ok(match name {
        "null" | "boolean" | "string" => name.to_owned(),
        "integer" | "number" => "number".to_owned(),
        "array" => {
            let items = of(schema.get("items").unwrap_or(&Value::Bool(true)), indent)?;
            if items.contains(' ') { format!("({items})[]") } else { format!("{items}[]") }
        }
        "object" if schema.contains_key("properties") => object(schema, indent)?,
        "object" => {
            let values =
                of(schema.get("additionalProperties").unwrap_or(&Value::Bool(true)), indent)?;
            format!("Record<string, {values}>")
        }
        other => bail!("no type is called {other}"),
    })
}

/// The description as a comment. Links are for Rust's own documentation.
fn doc(schema: &Map<String, Value>, indent: &str) -> String {
    let Some(text) = schema.get("description").and_then(Value::as_str) else {
        return String::new();
    };
    let text = text.replace("[`", "`").replace("`]", "`").replace('\n', " ").replace("  ", " ");
    format!("{indent}/** {text} */\n")
}

fn methods_text() -> String {
    let mut text =
        "\n/** What a server can be asked for. */\nexport interface Methods {\n".to_owned();
    for (name, params, result) in METHODS {
        text.push_str(&format!("  \"{name}\": {{ params: {params}; result: {result} }};\n"));
    }
    text.push_str("}\n\n/** What a server tells and asks while code runs. */\n");
    text.push_str("export interface ServerMessages {\n");
    for (name, params) in TOLD {
        text.push_str(&format!("  \"{name}\": {params};\n"));
    }
    text.push_str("}\n");
    text
}

/// What both sides have to agree on.
fn constants() -> anyhow::Result<String> {
    let values: [(&str, Value); 13] = [
        ("PROTOCOL_VERSION", methods::PROTOCOL_VERSION.into()),
        ("BUSY", protocol::BUSY.into()),
        ("FAILED", protocol::FAILED.into()),
        ("METHOD_NOT_FOUND", protocol::METHOD_NOT_FOUND.into()),
        ("MAX_MESSAGE_BYTES", limits::MAX_MESSAGE_BYTES.into()),
        ("MAX_CHUNK_BYTES", limits::MAX_CHUNK_BYTES.into()),
        ("MAX_JSON_NESTING", limits::MAX_JSON_NESTING.into()),
        ("MAX_ANSWER_WEIGHT", limits::MAX_ANSWER_WEIGHT.into()),
        ("OBJECT_BYTES", json::OBJECT_BYTES.into()),
        ("LIST_BYTES", json::LIST_BYTES.into()),
        ("VALUE_BYTES", json::VALUE_BYTES.into()),
        ("TEXT_BYTES", json::TEXT_BYTES.into()),
        ("TRUNCATION_MARKER", TRUNCATION_MARKER.into()),
    ];
    let mut text = "\n".to_owned();
    for (name, value) in values {
        writeln!(text, "export const {name} = {value};")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn declared_as(schema: Value) -> String {
        declared("Name", &schema).unwrap()
    }

    #[test]
    fn an_object_is_an_interface() {
        let schema = json!({
            "description": "What [`it`] is.\nReally.",
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": { "type": ["integer", "null"] },
                "b": { "type": "array", "items": { "anyOf": [{ "$ref": "#/$defs/B" }, { "type": "null" }] } },
                "c": { "description": "Anything.", "default": null },
                "d": { "type": "object", "additionalProperties": { "type": "string" } },
            },
        });
        assert_eq!(
            declared_as(schema),
            "/** What `it` is. Really. */\nexport interface Name {\n  a: number | null;\n  \
             b?: (B | null)[];\n  /** Anything. */\n  c?: JsonValue;\n  d?: Record<string, string>;\n}\n"
        );
    }

    #[test]
    fn a_closed_set_is_a_union() {
        let schema = json!({ "oneOf": [
            { "const": "python", "type": "string" },
            { "enum": ["javascript", "other"], "type": "string" },
        ] });
        let expected = "export type Name = \"python\" | \"javascript\" | \"other\";\n";
        assert_eq!(declared_as(schema), expected);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        assert!(declared("Name", &json!({ "type": "tuple" })).is_err());
        assert!(declared("Name", &json!({ "$ref": "elsewhere" })).is_err());
    }

    #[test]
    fn every_method_names_types_that_are_there() {
        let file = text().unwrap();
        let types = METHODS.iter().flat_map(|(_, params, result)| [*params, *result]);
        for name in types.chain(TOLD.map(|(_, params)| params)) {
            let name = name.trim_end_matches("[]");
            let there = file.contains(&format!("export interface {name} {{"));
            assert!(there || ["null", "Record<string, never>"].contains(&name), "{name}");
        }
    }
}
