//! The code interpreter: code that is told about while it runs, a JSON object a line.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use belljar::core::result::CellValue;
use belljar::{RuntimeType, SandboxResult, StateAfter, Status};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::E2b;
use super::body;
use super::contexts::{NoContext, language};
use super::errors::{answer, gone, plain};
use super::native;
use super::place::{HOME, Inside};
use super::record::Context;
use super::registry::Sandbox;
use super::time;
use crate::desk::{Listener, Printed, Problem, Wanted, problem};

/// How often something is written while nothing happens: so a client that has gone is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize)]
struct Execute {
    code: String,
    #[serde(default)]
    context_id: Option<String>,
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    env_vars: Option<BTreeMap<String, String>>,
}

pub(super) async fn execute(
    State(e2b): State<Arc<E2b>>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    request: Request,
) -> Response {
    let wanted: Execute = match body::json(&e2b.hub, request).await {
        Ok(wanted) => wanted,
        Err(failure) => return plain(failure.status, failure.message),
    };
    let context = match (&wanted.context_id, &wanted.language) {
        (Some(_), Some(_)) => {
            let problem = "Only one of context_id or language can be provided";
            return plain(StatusCode::BAD_REQUEST, problem);
        }
        (Some(id), None) => e2b.find_context(&sandbox, id),
        (None, name) => language(name.as_deref().unwrap_or_default())
            .and_then(|language| e2b.default_context(&sandbox, language)),
    };
    let context = match context {
        Ok(context) => context,
        Err(none) => return refused(&sandbox, none),
    };
    let env = wanted.env_vars.unwrap_or_default();
    if let Err(failure) = super::control::check_env(&env) {
        return plain(failure.status, failure.message);
    }
    let stop = sandbox.alive().child_token();
    let guard = stop.clone().drop_guard();
    let (sender, receiver) = mpsc::unbounded_channel();
    let events = Events(sender);
    let run = Run { e2b, sandbox, context, code: wanted.code, env, stop };
    tokio::spawn(async move {
        run.through(&events).await;
    });
    let lines = stream::unfold((receiver, guard), |(mut receiver, guard)| async {
        let line = tokio::select! {
            line = receiver.recv() => line?,
            () = sleep(SIGN_OF_LIFE) => line(&json!({ "type": "keepalive" })),
        };
        Some((Ok::<_, Infallible>(line), (receiver, guard)))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(lines)).into_response()
}

fn refused(sandbox: &Sandbox, none: NoContext) -> Response {
    match none {
        NoContext::Unknown(id) => plain(StatusCode::NOT_FOUND, format!("Context {id} not found")),
        NoContext::Language(name) => plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("there is no kernel for {name} here; python and javascript there are"),
        ),
        NoContext::Refused(problem) if problem.code == problem::NO_SESSION => gone(&sandbox.id),
        NoContext::Refused(problem) => {
            plain(super::super::http::status_of(&problem.code), problem.message)
        }
    }
}

/// What is told. It is bounded by what a policy lets code print.
struct Events(mpsc::UnboundedSender<Bytes>);

impl Events {
    fn tell(&self, event: &Value) {
        // Whoever has gone reads nothing.
        let _ = self.0.send(line(event));
    }

    fn listener(&self) -> Listener {
        let events = self.0.clone();
        Arc::new(move |printed, text| {
            let kind = match printed {
                Printed::Stdout => "stdout",
                Printed::Stderr => "stderr",
            };
            let event = json!({ "type": kind, "text": text, "timestamp": time::rfc3339_now() });
            let _ = events.send(line(&event));
        })
    }

    fn error(&self, name: &str, value: &str, traceback: &str) {
        self.tell(
            &json!({ "type": "error", "name": name, "value": value, "traceback": traceback }),
        );
    }
}

/// One line, in ASCII: some clients take a chunk's end, or other characters, for the end of one.
fn line(event: &Value) -> Bytes {
    let text = event.to_string();
    let mut line = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if character.is_ascii() {
            line.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                line.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    line.push('\n');
    line.into()
}

struct Run {
    e2b: Arc<E2b>,
    sandbox: Arc<Sandbox>,
    context: Context,
    code: String,
    env: BTreeMap<String, String>,
    /// Nobody wants it any more.
    stop: CancellationToken,
}

impl Run {
    async fn through(self, events: &Events) {
        let turn = self.sandbox.turn_in(&self.context.id);
        let _turn = tokio::select! {
            turn = turn.lock() => turn,
            () = self.stop.cancelled() => return,
        };
        let number = self.sandbox.change(|record| {
            let mut contexts = record.contexts.iter_mut();
            let context = contexts.find(|context| context.session == self.context.session)?;
            context.executions += 1;
            Some(context.executions)
        });
        match number {
            Some(number) => {
                events.tell(&json!({ "type": "number_of_executions", "execution_count": number }));
            }
            None => return self.restarted(events),
        }
        match self.run(events).await {
            Ok(_) if self.was_restarted() => self.restarted(events),
            Ok(result) => told(events, &result, self.context.language),
            Err(_) if self.was_restarted() => self.restarted(events),
            Err(problem) => {
                events.error("UnexpectedEndOfExecution", &problem.message, &problem.to_string());
            }
        }
        events.tell(&json!({ "type": "end_of_execution" }));
    }

    fn was_restarted(&self) -> bool {
        let contexts = self.sandbox.record().contexts;
        !contexts.iter().any(|context| context.session == self.context.session)
    }

    fn restarted(&self, events: &Events) {
        let told = "the context was restarted or removed while this ran";
        events.error("ContextRestarting", told, told);
    }

    async fn run(&self, events: &Events) -> Result<SandboxResult, Problem> {
        let Self { e2b, sandbox, context, .. } = self;
        if !self.env.is_empty() {
            e2b.run_quietly(sandbox, context, set_env(context.language, &self.env)).await?;
        }
        let (code, listener) = (self.code.clone(), Some(events.listener()));
        let ran = match e2b.native_python(sandbox, context) {
            Some(python) => {
                let wanted = (code, listener, &self.stop);
                let ran = e2b.run_natively(sandbox, context, &python, wanted).await;
                if ran.as_ref().is_ok_and(|result| result.meta.state == Some(StateAfter::Kept)) {
                    let code = native::figures_code();
                    let shown = e2b.run_quietly(sandbox, context, code).await?;
                    native::figures(&shown).iter().for_each(|it| events.tell(it));
                }
                ran
            }
            None => {
                let (desk, session) = e2b.session(sandbox, context).await?;
                let wanted = Wanted { code, gone: &self.stop, listener };
                desk.run_in(&session, None, wanted).await
            }
        };
        if !self.env.is_empty() && sandbox.is_running() && !self.was_restarted() {
            e2b.run_quietly(sandbox, context, reset_env(context.language)).await?;
        }
        ran
    }
}

/// Sets variables and notes what they were.
fn set_env(language: RuntimeType, env: &BTreeMap<String, String>) -> String {
    let env = serde_json::to_string(env).unwrap_or_default();
    match language {
        RuntimeType::Python => format!(
            "(lambda os, new: setattr(os, '_env_before', {{k: os.environ.get(k) for k in new}}) \
             or os.environ.update(new))(__import__('os'), {env})"
        ),
        RuntimeType::Javascript => format!(
            "((env, now) => {{ globalThis.__envBefore = {{}}; for (const k of Object.keys(now)) \
             {{ globalThis.__envBefore[k] = env[k]; env[k] = now[k]; }} }})(process.env, {env})"
        ),
    }
}

fn reset_env(language: RuntimeType) -> String {
    match language {
        RuntimeType::Python => {
            "(lambda os: [os.environ.pop(k, None) if v is None else os.environ.__setitem__(k, v) \
             for k, v in os.__dict__.pop('_env_before', {}).items()] and None)(__import__('os'))"
        }
        RuntimeType::Javascript => {
            "((env, was) => { for (const k of Object.keys(was)) { if (was[k] === undefined) \
             delete env[k]; else env[k] = was[k]; } delete globalThis.__envBefore; })\
             (process.env, globalThis.__envBefore ?? {})"
        }
    }
    .to_owned()
}

/// What came of it.
fn told(events: &Events, result: &SandboxResult, language: RuntimeType) {
    if let Some(value) = &result.result {
        events.tell(&result_event(value, language));
    }
    match (&result.error, result.status()) {
        (Some(error), _) => events.error(&error.name, &error.message, &error.traceback),
        (None, Status::Ok) => {}
        (None, Status::Error) => {
            let code = result.exit_code().to_string();
            events.error("SystemExit", &code, &format!("SystemExit: {code}"));
        }
        (None, status) => {
            let name = json!(status);
            events.error(name.as_str().unwrap_or("Stopped"), &result.stderr, &result.stderr);
        }
    }
}

/// A value in the forms it has, by the names E2B has for them.
fn result_event(value: &CellValue, language: RuntimeType) -> Value {
    let mut event = json!({ "type": "result", "text": unquoted(&value.text, language) });
    event["is_main_result"] = json!(true);
    let mut extra = serde_json::Map::new();
    for (kind, data) in &value.mime {
        let parsed = || serde_json::from_str::<Value>(data).unwrap_or_else(|_| json!(data));
        let (name, data) = match kind.as_str() {
            "text/plain" => ("text", json!(data)),
            "text/html" => ("html", json!(data)),
            "text/markdown" => ("markdown", json!(data)),
            "image/svg+xml" => ("svg", json!(data)),
            "image/png" => ("png", json!(data)),
            "image/jpeg" => ("jpeg", json!(data)),
            "application/pdf" => ("pdf", json!(data)),
            "text/latex" => ("latex", json!(data)),
            "application/javascript" => ("javascript", json!(data)),
            "application/json" => ("json", parsed()),
            "e2b/data" => ("data", parsed()),
            "e2b/chart" => ("chart", parsed()),
            other => {
                extra.insert(other.to_owned(), json!(data));
                continue;
            }
        };
        event[name] = data;
    }
    if !extra.is_empty() {
        event["extra"] = Value::Object(extra);
    }
    event
}

/// A text is told without the quotes around it.
fn unquoted(text: &str, language: RuntimeType) -> &str {
    let marks: &[char] = match language {
        RuntimeType::Python => &['\'', '"'],
        RuntimeType::Javascript => &['\'', '"', '`'],
    };
    let mark = text.chars().next().filter(|first| marks.contains(first));
    mark.and_then(|mark| text.strip_prefix(mark)?.strip_suffix(mark)).unwrap_or(text)
}

#[derive(Debug, Deserialize, Default)]
struct NewContext {
    #[serde(default)]
    language: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
}

pub(super) async fn create_context(
    State(e2b): State<Arc<E2b>>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    request: Request,
) -> Response {
    let wanted: NewContext = match body::optional_json(&e2b.hub, request).await {
        Ok(wanted) => wanted,
        Err(failure) => return plain(failure.status, failure.message),
    };
    let Ok(cwd) = Inside::new(wanted.cwd.as_deref().unwrap_or_default()) else {
        return plain(StatusCode::BAD_REQUEST, "cwd: this is no path");
    };
    let made = async {
        let language = language(wanted.language.as_deref().unwrap_or_default())?;
        let context = e2b.add_context(&sandbox, language, cwd.as_str(), false)?;
        if cwd.as_str() != HOME
            && let Err(problem) = e2b.go_to(&sandbox, &context).await
        {
            e2b.end_context(&sandbox, &context.id, false).await?;
            return Err(problem);
        }
        Ok(context)
    };
    match made.await {
        Ok(context) => answer(StatusCode::OK, &described(&context)),
        Err(none) => refused(&sandbox, none),
    }
}

pub(super) async fn contexts(Extension(sandbox): Extension<Arc<Sandbox>>) -> Response {
    let contexts: Vec<Value> = sandbox.record().contexts.iter().map(described).collect();
    answer(StatusCode::OK, &contexts)
}

fn described(context: &Context) -> Value {
    json!({ "id": context.id, "language": context.language, "cwd": context.cwd })
}

pub(super) async fn remove_context(
    State(e2b): State<Arc<E2b>>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Path(id): Path<String>,
) -> Response {
    ended(&sandbox, e2b.end_context(&sandbox, &id, false).await)
}

pub(super) async fn restart_context(
    State(e2b): State<Arc<E2b>>,
    Extension(sandbox): Extension<Arc<Sandbox>>,
    Path(id): Path<String>,
) -> Response {
    ended(&sandbox, e2b.end_context(&sandbox, &id, true).await)
}

fn ended(sandbox: &Sandbox, outcome: Result<(), NoContext>) -> Response {
    match outcome {
        Ok(()) => answer(StatusCode::OK, &Value::Null),
        Err(none) => refused(sandbox, none),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ascii_and_whole() {
        let told = line(&json!({ "text": "ř\u{2028}🎉\n" }));
        assert_eq!(&told[..], b"{\"text\":\"\\u0159\\u2028\\ud83c\\udf89\\n\"}\n");
    }

    #[test]
    fn only_quotes_around_the_whole_are_taken_off() {
        let python = |text| unquoted(text, RuntimeType::Python);
        assert_eq!(python("'it'"), "it");
        assert_eq!(python("['it']"), "['it']");
        assert_eq!(python("'"), "'");
        assert_eq!(python(""), "");
    }
}
