//! The description of the interface, made from the types themselves.

use std::collections::BTreeMap;

use belljar::SandboxResult;
use belljar::core::protocol::methods::VariableForm;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use super::errors::ErrorBody;
use super::forms::{
    Cancelled, CodeRequest, ExecutionRequest, FileListing, ForkRequest, Health, SessionRequest,
};
use crate::desk::{SessionInfo, SessionList};

/// The interface over HTTP, as OpenAPI 3.1 describes it.
#[must_use]
pub fn openapi() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut types = Types(settings.into_generator());
    let mut paths: BTreeMap<&str, Value> = BTreeMap::new();
    for operation in operations(&mut types) {
        let path = paths.entry(operation.path).or_insert_with(|| json!({}));
        path[operation.method] = operation.described(&mut types);
    }
    let schemas = types.0.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Belljar",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs code nobody has read in a fresh sandbox, or in a session whose \
                            state lives on, and tells exactly what happened. Code that fails is a \
                            result with status 200; every other status means that Belljar or the \
                            client failed, and its body says why.",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

struct Types(SchemaGenerator);

impl Types {
    fn json<T: JsonSchema>(&mut self) -> Content {
        Content::Json(self.0.subschema_for::<T>())
    }
}

/// What a body holds.
enum Content {
    Json(Schema),
    /// A result, or events that end with one.
    Result(Schema),
    Bytes,
    Text,
}

impl Content {
    fn described(&self) -> Value {
        match self {
            Self::Json(schema) => json!({ "application/json": { "schema": schema } }),
            Self::Result(schema) => json!({
                "application/json": { "schema": schema },
                "text/event-stream": { "schema": { "type": "string", "description": EVENTS } },
            }),
            Self::Bytes => json!({ "application/octet-stream": {} }),
            Self::Text => json!({ "text/plain": { "schema": { "type": "string" } } }),
        }
    }
}

/// What those see who accept events.
const EVENTS: &str = "With `Accept: text/event-stream`: events `stdout` and `stderr` with \
    {\"text\"} as lines are printed, `missed` with {\"lines\"} when some came too quickly, and at \
    last `result` with the result, or `error` with an error.";

struct Operation {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    /// The body of a request, and whether there has to be one.
    takes: Option<(Content, bool)>,
    status: &'static str,
    gives: Option<Content>,
}

impl Operation {
    fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Self {
        Self { method, path, id, summary, takes: None, status: "204", gives: None }
    }

    fn takes(self, content: Content) -> Self {
        Self { takes: Some((content, true)), ..self }
    }

    fn may_take(self, content: Content) -> Self {
        Self { takes: Some((content, false)), ..self }
    }

    fn gives(self, content: Content) -> Self {
        Self { status: "200", gives: Some(content), ..self }
    }

    fn makes(self, content: Content) -> Self {
        Self { status: "201", gives: Some(content), ..self }
    }

    fn described(&self, types: &mut Types) -> Value {
        let names = self.path.split('/').filter_map(|part| part.strip_prefix('{'));
        let parameters: Vec<Value> = names
            .map(|name| {
                json!({
                    "name": name.trim_end_matches('}'),
                    "in": "path",
                    "required": true,
                    "schema": { "type": "string" },
                })
            })
            .collect();
        let error = types.json::<ErrorBody>().described();
        let mut done = json!({ "description": "Done." });
        if let Some(content) = &self.gives {
            done["content"] = content.described();
        }
        let mut described = json!({
            "operationId": self.id,
            "summary": self.summary,
            "parameters": parameters,
            "responses": {
                self.status: done,
                "default": { "description": "It came to nothing.", "content": error },
            },
        });
        if let Some((content, required)) = &self.takes {
            described["requestBody"] =
                json!({ "required": required, "content": content.described() });
        }
        described
    }
}

fn operations(types: &mut Types) -> Vec<Operation> {
    const FILE: &str = "/v1/sessions/{id}/files/{path}";
    let op = Operation::new;
    let result = types.0.subschema_for::<SandboxResult>();
    vec![
        op("post", "/v1/executions", "execute", "Run code in a fresh sandbox.")
            .takes(types.json::<ExecutionRequest>())
            .gives(Content::Result(result.clone())),
        op("post", "/v1/cancel", "cancelAll", "Stop everything this client runs.")
            .gives(types.json::<Cancelled>()),
        op("get", "/v1/sessions", "listSessions", "The sessions of this client.")
            .gives(types.json::<SessionList>()),
        op("post", "/v1/sessions", "createSession", "Begin a session.")
            .may_take(types.json::<SessionRequest>())
            .makes(types.json::<SessionInfo>()),
        op("get", "/v1/sessions/{id}", "showSession", "What is known about a session.")
            .gives(types.json::<SessionInfo>()),
        op("delete", "/v1/sessions/{id}", "destroySession", "End a session."),
        op("post", "/v1/sessions/{id}/executions", "executeInSession", "Run code in a session.")
            .takes(types.json::<CodeRequest>())
            .gives(Content::Result(result)),
        op("post", "/v1/sessions/{id}/fork", "forkSession", "A second session from here.")
            .may_take(types.json::<ForkRequest>())
            .makes(types.json::<SessionInfo>()),
        op("post", "/v1/sessions/{id}/cancel", "cancel", "Stop what runs in a session.")
            .gives(types.json::<Cancelled>()),
        op("get", "/v1/sessions/{id}/variables/{name}", "getVariable", "A global variable.")
            .gives(types.json::<VariableForm>()),
        op("get", "/v1/sessions/{id}/files", "listFiles", "What is in the workspace.")
            .gives(types.json::<FileListing>()),
        op("get", FILE, "readFile", "A file; its path may hold slashes.").gives(Content::Bytes),
        op("put", FILE, "writeFile", "Write a file, and the directories above it.")
            .takes(Content::Bytes),
        op("delete", FILE, "removeFile", "Remove a file, or a directory with all in it."),
        op("get", "/v1/health", "health", "Whether code can be run; 503 when not.")
            .gives(types.json::<Health>()),
        op("get", "/v1/metrics", "metrics", "Numbers as Prometheus reads them.")
            .gives(Content::Text),
        op("get", "/v1/openapi.json", "describe", "This description.").gives(Content::Json(
            Schema::try_from(json!({ "type": "object" })).unwrap_or_default(),
        )),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    found.push(reference.clone());
                }
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_reference_leads_somewhere_and_every_name_is_there_once() {
        let document = openapi();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 10);
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
        let mut names = BTreeSet::new();
        for (path, operations) in document["paths"].as_object().unwrap() {
            for (method, operation) in operations.as_object().unwrap() {
                let name = operation["operationId"].as_str().unwrap();
                assert!(names.insert(name.to_owned()), "{method} {path}");
                let expected = path.matches('{').count();
                assert_eq!(operation["parameters"].as_array().unwrap().len(), expected, "{path}");
            }
        }
        assert_eq!(names.len(), 17);
    }
}
