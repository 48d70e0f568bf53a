//! Sandboxes of the service: made, kept alive, ended.

use std::thread::sleep;
use std::time::Duration;

use belljar_core::{Backend, SandboxError, Survives};
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::{Method, Request, Response};
use ureq::{Agent, Body};

use crate::e2b_settings::E2bSettings;

/// How long the service may take to answer what runs no code.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often something is tried again that may succeed later.
const RETRIES: u32 = 3;
/// The longest answer that is read.
pub(super) const MAX_ANSWER_BYTES: u64 = 64 * 1024 * 1024;
/// What is shown of a complaint.
const SHOWN_BYTES: usize = 300;
/// No service keeps anybody waiting longer before it is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

pub(super) const INTERPRETER_PORT: u16 = 49999;
pub(super) const AGENT_PORT: u16 = 49983;

/// The service.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) settings: E2bSettings,
    agent: Agent,
}

/// A sandbox there. It is ended when this is dropped.
pub(super) struct Remote {
    pub(super) service: Service,
    pub(super) id: String,
    token: Option<String>,
    traffic_token: Option<String>,
    domain: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    #[serde(rename = "sandboxID")]
    id: String,
    #[serde(default)]
    envd_access_token: Option<String>,
    #[serde(default)]
    traffic_access_token: Option<String>,
    #[serde(default)]
    domain: Option<String>,
}

/// An answer, whatever its status.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) bytes: Vec<u8>,
}

impl Answer {
    pub(super) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.bytes).ok()
    }

    /// What the service has to say, as one line.
    pub(super) fn complaint(&self) -> String {
        let told = self.json().and_then(|json| json["message"].as_str().map(str::to_owned));
        let text = told.unwrap_or_else(|| String::from_utf8_lossy(&self.bytes).into_owned());
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        line[..line.floor_char_boundary(SHOWN_BYTES)].to_owned()
    }
}

impl Service {
    pub(super) fn new(settings: E2bSettings) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // A key goes where its owner sent it, and nowhere else.
            .max_redirects(0)
            .user_agent(concat!("belljar/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        Self { settings, agent }
    }

    /// A new sandbox that ends by itself after so many seconds.
    pub(super) fn create(&self, seconds: u64) -> Result<Remote, SandboxError> {
        let body = json!({ "templateID": self.settings.template, "timeout": seconds });
        // One key for all tries, so that none makes a second one.
        let key = crate::execution_id::next().to_lowercase().replace('_', "-");
        let answer = self.control(Method::POST, "/v2/sandboxes", Some((&body, &key)))?;
        match answer.status {
            200 | 201 => {}
            401 | 403 => {
                return Err(unavailable(
                    format!("the service refuses the key: {}", answer.complaint()),
                    "look at E2B_API_KEY",
                ));
            }
            status => {
                return Err(refused(status, &answer, "no sandbox was made; nothing was run"));
            }
        }
        let created: Created = serde_json::from_slice(&answer.bytes).map_err(|_| {
            let problem = "the service's answer to a create makes no sense".to_owned();
            SandboxError::Protocol { problem, survives: Survives::NothingWasRun }
        })?;
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic());
        if !created.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            || !created.envd_access_token.as_deref().is_none_or(plain)
            || !created.traffic_access_token.as_deref().is_none_or(plain)
        {
            let problem = "the service names a sandbox as none can be named".to_owned();
            return Err(SandboxError::Protocol { problem, survives: Survives::NothingWasRun });
        }
        Ok(Remote {
            service: self.clone(),
            id: created.id,
            token: created.envd_access_token,
            traffic_token: created.traffic_access_token,
            domain: created.domain.filter(|domain| !domain.is_empty()),
        })
    }

    /// Asks the control interface, again where that may help.
    fn control(
        &self,
        method: Method,
        path: &str,
        body: Option<(&Value, &str)>,
    ) -> Result<Answer, SandboxError> {
        let mut tried = 0;
        loop {
            let mut request = Request::builder()
                .method(method.clone())
                .uri(format!("{}{path}", self.settings.api_url()))
                .header("x-api-key", &self.settings.api_key)
                .header("content-type", "application/json");
            if let Some((_, key)) = body.filter(|(_, key)| !key.is_empty()) {
                request = request.header("idempotency-key", key);
            }
            let text = body.map_or_else(Vec::new, |(body, _)| body.to_string().into_bytes());
            let wait = match self.send(request, text, Some(PATIENCE)) {
                Ok(response) => {
                    let wait = retry_after(&response, tried);
                    let answer = read(response)?;
                    match wait.filter(|_| tried < RETRIES) {
                        Some(wait) => wait,
                        None => return Ok(answer),
                    }
                }
                Err(error) if is_no_connection(&error) && tried < RETRIES => pause(tried),
                Err(error) => {
                    let reason = format!("the service cannot be reached: {error}");
                    return Err(unavailable(reason, "look at E2B_DOMAIN or E2B_API_URL"));
                }
            };
            tried += 1;
            sleep(wait);
        }
    }

    fn send(
        &self,
        request: ureq::http::request::Builder,
        body: Vec<u8>,
        patience: Option<Duration>,
    ) -> Result<Response<Body>, ureq::Error> {
        let request = request.body(body).map_err(ureq::Error::from)?;
        let request = self.agent.configure_request(request).timeout_global(patience).build();
        self.agent.run(request)
    }
}

/// When a refusal may be tried again, if it may: as E2B's own packages do.
fn retry_after(response: &Response<Body>, tried: u32) -> Option<Duration> {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let usual = matches!(response.status().as_u16(), 429 | 502 | 503 | 504);
    let may = match header("should-retry") {
        Some("true") => true,
        Some("false") => false,
        _ => usual,
    };
    let wanted = header("retry-after").and_then(|it| it.parse().ok()).map(Duration::from_secs);
    may.then(|| wanted.unwrap_or_else(|| pause(tried)).min(LONGEST_WAIT))
}

fn pause(tried: u32) -> Duration {
    Duration::from_millis(200).saturating_mul(1 << tried.min(5))
}

fn is_no_connection(error: &ureq::Error) -> bool {
    use std::io::ErrorKind;
    match error {
        ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
        ureq::Error::Io(error) => {
            matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
        }
        _ => false,
    }
}

fn read(mut response: Response<Body>) -> Result<Answer, SandboxError> {
    let status = response.status().as_u16();
    let read = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
    let bytes = read.map_err(|error| SandboxError::ConnectionLost {
        problem: format!("the service's answer did not come: {error}"),
        survives: Survives::NothingWasRun,
    })?;
    Ok(Answer { status, bytes })
}

impl Remote {
    /// Has the sandbox live so many seconds from now.
    pub(super) fn keep_alive(&self, seconds: u64) -> Result<(), SandboxError> {
        let body = json!({ "timeout": seconds });
        let path = format!("/sandboxes/{}/timeout", self.id);
        let answer = self.service.control(Method::POST, &path, Some((&body, "")))?;
        match answer.status {
            200..=299 => Ok(()),
            404 => Err(gone()),
            status => Err(refused(status, &answer, "nothing was run")),
        }
    }

    fn request(&self, method: Method, port: u16, path: &str) -> ureq::http::request::Builder {
        let url = self.service.settings.sandbox_url(&self.id, self.domain.as_deref(), port);
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{url}{path}"))
            .header("e2b-sandbox-id", &self.id)
            .header("e2b-sandbox-port", port.to_string());
        if let Some(token) = &self.token {
            request = request.header("x-access-token", token);
        }
        if let Some(token) = &self.traffic_token {
            request = request.header("e2b-traffic-access-token", token);
        }
        request
    }

    /// Asks something in the sandbox that runs no code.
    pub(super) fn ask(
        &self,
        method: Method,
        port: u16,
        path: &str,
        body: (&str, Vec<u8>),
    ) -> Result<Answer, SandboxError> {
        let request = self.request(method, port, path).header("content-type", body.0);
        let sent = self.service.send(request, body.1, Some(PATIENCE));
        let response = sent.map_err(|error| SandboxError::ConnectionLost {
            problem: format!("the sandbox cannot be reached: {error}"),
            survives: Survives::NothingWasRun,
        })?;
        let answer = read(response)?;
        if answer.status == 502 && answer.complaint().contains("was not found") {
            return Err(gone());
        }
        Ok(answer)
    }

    /// Starts an execution; what it tells comes as lines.
    pub(super) fn execute(&self, body: &Value) -> Result<Response<Body>, SandboxError> {
        let request = self.request(Method::POST, INTERPRETER_PORT, "/execute");
        let request = request.header("content-type", "application/json");
        let sent = self.service.send(request, body.to_string().into_bytes(), None);
        let response = sent.map_err(|error| SandboxError::ConnectionLost {
            problem: format!("the sandbox cannot be reached: {error}"),
            survives: Survives::MayHaveRun,
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let answer = read(response)?;
        match answer.status {
            502 if answer.complaint().contains("was not found") => Err(gone()),
            status => Err(refused(status, &answer, "nothing was run")),
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // Whoever cannot be reached ends it by its clock.
        let path = format!("/sandboxes/{}", self.id);
        if let Err(error) = self.service.control(Method::DELETE, &path, None) {
            tracing::warn!(target: "belljar", %error, sandbox = self.id, "not ended at once");
        }
    }
}

pub(super) fn gone() -> SandboxError {
    SandboxError::ConnectionLost {
        problem: "the service has ended the sandbox; its time may have been over".to_owned(),
        survives: Survives::NothingWasRun,
    }
}

pub(super) fn refused(status: u16, answer: &Answer, survives: &str) -> SandboxError {
    let kind = if matches!(status, 429 | 503) { "busy" } else { "refused" };
    let hint = (kind == "busy").then(|| "try again later".to_owned());
    let message = format!("the service answered {status}: {}; {survives}", answer.complaint());
    SandboxError::Remote { kind: kind.to_owned(), message, hint }
}

fn unavailable(reason: String, hint: &str) -> SandboxError {
    let hint = Some(hint.to_owned());
    SandboxError::BackendUnavailable { backend: Backend::E2b, reason, hint }
}
