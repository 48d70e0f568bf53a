//! The tools: what they are called, what they are for, what they take and what they give.

use std::sync::{Arc, LazyLock};

use belljar::SandboxResult;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{answers, arguments};
use crate::desk::{Problem, SessionInfo, SessionList};

/// A call of a tool, with its arguments.
#[derive(Debug)]
pub(super) enum Call {
    RunPythonCode(arguments::RunPythonCode),
    ExecuteCode(arguments::ExecuteCode),
    CreateSession(arguments::CreateSession),
    ForkSession(arguments::OfSession),
    DestroySession(arguments::OfSession),
    ListSessions,
    GetVariable(arguments::GetVariable),
    ReadFile(arguments::ReadFile),
    WriteFile(arguments::WriteFile),
    ListFiles(arguments::OfSession),
    CancelExecution(arguments::CancelExecution),
    ListRuntimes,
    ValidateCode(arguments::ValidateCode),
}

impl Call {
    /// `None` when there is no such tool; a problem when its arguments are wrong.
    pub(super) fn read(name: &str, arguments: JsonObject) -> Option<Result<Self, Problem>> {
        Some(match name {
            "run_python_code" => read(arguments).map(Self::RunPythonCode),
            "execute_code" => read(arguments).map(Self::ExecuteCode),
            "create_session" => read(arguments).map(Self::CreateSession),
            "fork_session" => read(arguments).map(Self::ForkSession),
            "destroy_session" => read(arguments).map(Self::DestroySession),
            "list_sessions" => read::<arguments::Nothing>(arguments).map(|_| Self::ListSessions),
            "get_variable" => read(arguments).map(Self::GetVariable),
            "read_file" => read(arguments).map(Self::ReadFile),
            "write_file" => read(arguments).map(Self::WriteFile),
            "list_files" => read(arguments).map(Self::ListFiles),
            "cancel_execution" => read(arguments).map(Self::CancelExecution),
            "list_runtimes" => read::<arguments::Nothing>(arguments).map(|_| Self::ListRuntimes),
            "validate_code" => read(arguments).map(Self::ValidateCode),
            _ => return None,
        })
    }
}

fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Problem> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let (path, problem) = (error.path().to_string(), error.inner());
        let place = if path == "." { "arguments".to_owned() } else { format!("argument `{path}`") };
        Problem::invalid(format!("{place}: {problem}; nothing was run"))
            .hint("the tool's input schema names every argument and its type")
    })
}

/// All of them, in the order in which they are told.
pub(super) fn all() -> &'static [Tool] {
    static ALL: LazyLock<Vec<Tool>> = LazyLock::new(describe);
    &ALL
}

fn describe() -> Vec<Tool> {
    vec![
        tool::<arguments::RunPythonCode, answers::Ran>(
            "run_python_code",
            "Run Python",
            "Runs Python in a fresh, isolated sandbox and gives back what it printed, or the \
             traceback. Nothing is kept: no variables, no files. No network, no processes. numpy \
             and pandas are there when the code imports them. For state across calls, use \
             create_session and execute_code.",
            Effect::Adds,
        ),
        tool::<arguments::ExecuteCode, SandboxResult>(
            "execute_code",
            "Run code",
            "Runs Python or JavaScript, in a session whose variables and files live on, or in a \
             fresh sandbox when no session is named. Gives stdout, stderr, the value of the last \
             expression (images as images), the error with its traceback, and the files that were \
             changed. An error in the code leaves the session usable.",
            Effect::Changes,
        ),
        tool::<arguments::CreateSession, SessionInfo>(
            "create_session",
            "Create a session",
            "Begins a session: an interpreter with its own workspace directory, whose state lives \
             on from one execute_code to the next. It ends with destroy_session, after half an \
             hour without use, or when this client disconnects.",
            Effect::Adds,
        ),
        tool::<arguments::OfSession, SessionInfo>(
            "fork_session",
            "Fork a session",
            "Makes a second session that goes on from where this one is, with a copy of its \
             variables and files. Neither sees anything of the other afterwards. Cheap: use it to \
             try something out.",
            Effect::Adds,
        ),
        tool::<arguments::OfSession, answers::Destroyed>(
            "destroy_session",
            "End a session",
            "Ends a session. Its variables and files are gone.",
            Effect::Destroys,
        ),
        tool::<arguments::Nothing, SessionList>(
            "list_sessions",
            "List sessions",
            "Lists this client's sessions.",
            Effect::Looks,
        ),
        tool::<arguments::GetVariable, answers::VariableOf>(
            "get_variable",
            "Look at a variable",
            "Gives a global variable of a session: its type, its text, and its value as JSON where \
             it has one.",
            Effect::Looks,
        ),
        tool::<arguments::ReadFile, answers::FileContent>(
            "read_file",
            "Read a file",
            "Reads a file of a session's workspace: as text where it is text, else as base64. Large \
             ones come in parts.",
            Effect::Looks,
        ),
        tool::<arguments::WriteFile, answers::Written>(
            "write_file",
            "Write a file",
            "Writes a file into a session's workspace, where code finds it in its current \
             directory. One of that name is replaced.",
            Effect::Destroys,
        ),
        tool::<arguments::OfSession, answers::FileList>(
            "list_files",
            "List files",
            "Lists the files of a session's workspace.",
            Effect::Looks,
        ),
        tool::<arguments::CancelExecution, answers::Cancelled>(
            "cancel_execution",
            "Stop running code",
            "Stops the code that runs in a session, or all code this client runs. The session \
             lives on.",
            Effect::Destroys,
        ),
        tool::<arguments::Nothing, answers::Runtimes>(
            "list_runtimes",
            "List languages",
            "Lists the languages that can be run, with version, backend and isolation, and what can be \
             imported.",
            Effect::Looks,
        ),
        tool::<arguments::ValidateCode, answers::Valid>(
            "validate_code",
            "Check syntax",
            "Checks whether code compiles, with exactly the interpreter that would run it. \
             Executes nothing.",
            Effect::Looks,
        ),
    ]
}

/// What a call does to the client's sessions. Nothing outside of a sandbox is ever reached.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Looks,
    /// Something is there that was not there before.
    Adds,
    /// Something may be other than it was, each time anew.
    Changes,
    /// Something may be gone; a second time changes nothing more.
    Destroys,
}

fn tool<I: JsonSchema, O: JsonSchema>(
    name: &'static str,
    title: &str,
    description: &'static str,
    effect: Effect,
) -> Tool {
    let annotations = ToolAnnotations::with_title(title)
        .read_only(effect == Effect::Looks)
        .destructive(matches!(effect, Effect::Changes | Effect::Destroys))
        .idempotent(matches!(effect, Effect::Looks | Effect::Destroys))
        .open_world(false);
    Tool::new(name, description, schema::<I>())
        .with_title(title)
        .with_raw_output_schema(schema::<O>())
        .with_annotations(annotations)
}

/// A schema that any client understands: no references, and none of the formats of numbers that
/// only Rust has.
fn schema<T: JsonSchema>() -> Arc<JsonObject> {
    let mut settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(
        |schema: &mut schemars::Schema| {
            schema.remove("format");
        },
    ));
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.remove("description");
    let mut object = schema.as_object().cloned().unwrap_or_default();
    // Some clients look for it even where there is none.
    object.entry("properties").or_insert_with(|| Value::Object(JsonObject::new()));
    Arc::new(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_tool_that_is_told_can_be_called_and_no_other() {
        let names: Vec<&str> = all().iter().map(|tool| &*tool.name).collect();
        assert_eq!(
            names,
            [
                "run_python_code",
                "execute_code",
                "create_session",
                "fork_session",
                "destroy_session",
                "list_sessions",
                "get_variable",
                "read_file",
                "write_file",
                "list_files",
                "cancel_execution",
                "list_runtimes",
                "validate_code",
            ]
        );
        for name in names {
            assert!(Call::read(name, JsonObject::new()).is_some(), "{name}");
        }
        assert!(Call::read("run_python_cod", JsonObject::new()).is_none());
    }

    #[test]
    fn schemas_are_objects_without_references_and_every_argument_is_described() {
        for tool in all() {
            for schema in [Some(&tool.input_schema), tool.output_schema.as_ref()] {
                let schema = Value::Object((**schema.unwrap()).clone());
                assert_eq!(schema["type"], "object", "{}", tool.name);
                let text = schema.to_string();
                assert!(!text.contains("$ref") && !text.contains("\"format\""), "{text}");
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    assert!(property["description"].is_string(), "{} {name}", tool.name);
                }
            }
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        let problem = |name: &str, arguments: Value| {
            let Value::Object(arguments) = arguments else { panic!("{arguments}") };
            Call::read(name, arguments).unwrap().unwrap_err().to_string()
        };
        insta::assert_snapshot!(problem("execute_code", json!({})), @"
        error: arguments: missing field `code`; nothing was run
        hint: the tool's input schema names every argument and its type
        ");
        insta::assert_snapshot!(problem("execute_code", json!({"code": 5})), @"
        error: argument `code`: invalid type: integer `5`, expected a string; nothing was run
        hint: the tool's input schema names every argument and its type
        ");
        insta::assert_snapshot!(problem("execute_code", json!({"code": "", "language": "perl"})), @"
        error: argument `language`: unknown variant `perl`, expected `python` or `javascript`; nothing was run
        hint: the tool's input schema names every argument and its type
        ");
        insta::assert_snapshot!(problem("list_sessions", json!({"all": true})), @"
        error: argument `all`: unknown field `all`, there are no fields; nothing was run
        hint: the tool's input schema names every argument and its type
        ");
    }
}
