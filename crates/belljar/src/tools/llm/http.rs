//! A model behind HTTP: the OpenAI chat completions protocol, which most servers speak.

use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use belljar_core::ToolFailure;
use serde::Deserialize;
use serde_json::json;

use super::{
    Cancelled, DEFAULT_TIMEOUT, LanguageModel, MAX_ANSWER_BYTES, Message, cancelled_failure,
    checked, timeout_failure, too_long_failure,
};

/// How often the caller is looked at while the server is silent.
const TICK: Duration = Duration::from_millis(20);

/// The most of a server's complaint that the guest is told.
const MAX_COMPLAINT_BYTES: usize = 500;

/// JSON around an answer: every character may be escaped.
const MAX_RESPONSE_BYTES: u64 = 6 * MAX_ANSWER_BYTES as u64 + 64 * 1024;

/// A chat completions endpoint as a model.
#[derive(Clone)]
pub struct HttpLlm {
    endpoint: String,
    model: String,
    key: Option<String>,
    timeout: Duration,
}

/// Without the key.
impl fmt::Debug for HttpLlm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpLlm")
            .field("endpoint", &self.endpoint)
            .field("model", &self.model)
            .field("has_key", &self.key.is_some())
            .field("timeout", &self.timeout)
            .finish()
    }
}

impl HttpLlm {
    /// A model behind `url` + `/chat/completions`.
    #[must_use]
    pub fn new(url: &str, model: &str, key: Option<String>) -> Self {
        Self {
            endpoint: format!("{}/chat/completions", url.trim_end_matches('/')),
            model: model.to_owned(),
            key,
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// The same with another time-out.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn ask_server(&self, body: &[u8]) -> Result<String, ToolFailure> {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .http_status_as_error(false)
            // A key goes where its owner sent it, and nowhere else.
            .max_redirects(0)
            .user_agent(concat!("belljar/", env!("CARGO_PKG_VERSION")))
            .build()
            .into();
        let mut request = agent.post(&self.endpoint).content_type("application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut response = request.send(body).map_err(|error| self.failed(error))?;
        let status = response.status();
        let bytes = response
            .body_mut()
            .with_config()
            .limit(MAX_RESPONSE_BYTES)
            .read_to_vec()
            .map_err(|error| self.failed(error))?;
        if !status.is_success() {
            let complaint = complaint_in(&bytes);
            return Err(self.failure(&format!("the model's server answered {status}{complaint}")));
        }
        let answer = content_of(&bytes).map_err(|problem| self.failure(&problem))?;
        if answer.len() > MAX_ANSWER_BYTES {
            return Err(too_long_failure());
        }
        checked(&answer)
    }

    fn failed(&self, error: ureq::Error) -> ToolFailure {
        match error {
            ureq::Error::Timeout(_) => timeout_failure(self.timeout),
            ureq::Error::BodyExceedsLimit(_) => too_long_failure(),
            other => self.failure(&format!("the model cannot be reached: {other}")),
        }
    }

    /// A failure that does not give the key away, whoever quoted it.
    fn failure(&self, message: &str) -> ToolFailure {
        ToolFailure::new(match &self.key {
            Some(key) => message.replace(key.as_str(), "(key)"),
            None => message.to_owned(),
        })
    }
}

impl LanguageModel for HttpLlm {
    fn answer(
        &self,
        conversation: &[Message],
        cancelled: Cancelled<'_>,
    ) -> Result<String, ToolFailure> {
        let messages: Vec<_> = conversation
            .iter()
            .map(|message| json!({ "role": message.role.as_str(), "content": message.content }))
            .collect();
        let body = json!({ "model": self.model, "messages": messages }).to_string().into_bytes();
        let (sender, answers) = mpsc::channel();
        let model = self.clone();
        // A request cannot be broken off from outside; one nobody waits for ends by its own clock.
        thread::spawn(move || sender.send(model.ask_server(&body)));
        let deadline = Instant::now() + self.timeout;
        loop {
            match answers.recv_timeout(TICK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Timeout) if cancelled() => return Err(cancelled_failure()),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    return Err(timeout_failure(self.timeout));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ToolFailure::new("the model cannot be reached"));
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Content,
}

#[derive(Deserialize)]
struct Content {
    content: Option<String>,
}

fn content_of(bytes: &[u8]) -> Result<String, String> {
    let completion: Completion = serde_json::from_slice(bytes)
        .map_err(|error| format!("the model's server answered something else: {error}"))?;
    let content = completion.choices.into_iter().next().and_then(|choice| choice.message.content);
    Ok(content.unwrap_or_default())
}

/// What a server says about its refusal: the protocol's `error.message`, or the text itself.
fn complaint_in(bytes: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(bytes).ok();
    let told = json.as_ref().and_then(|json| json["error"]["message"].as_str().map(str::to_owned));
    let text = told.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return line;
    }
    format!(": {}", &line[..line.floor_char_boundary(MAX_COMPLAINT_BYTES)])
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc::Receiver;

    use super::*;

    /// A server that gives one answer, and what it was asked.
    fn server(answer: impl Into<Vec<u8>>) -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let (sender, asked) = mpsc::channel();
        let answer = answer.into();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while !complete(&request) {
                let count = stream.read(&mut buffer).unwrap();
                request.extend_from_slice(&buffer[..count]);
            }
            sender.send(String::from_utf8(request).unwrap()).unwrap();
            let _ = stream.write_all(&answer);
        });
        (url, asked)
    }

    fn complete(request: &[u8]) -> bool {
        let text = String::from_utf8_lossy(request).to_lowercase();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
        length.is_some_and(|length| body.len() >= length.parse().unwrap())
    }

    fn with_body(status: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    }

    fn ask(answer: Vec<u8>) -> Result<String, String> {
        let (url, _asked) = server(answer);
        HttpLlm::new(&url, "m", Some("s3cret".into()))
            .ask("hi", &|| false)
            .map_err(|failure| failure.message)
    }

    #[test]
    fn a_question_is_asked_and_answered() {
        let body = r#"{"choices":[{"message":{"role":"assistant","content":"hello"}}]}"#;
        let (url, asked) = server(with_body("200 OK", body));
        let model = HttpLlm::new(&url, "some-model", Some("s3cret".into()));
        assert_eq!(model.ask("hi", &|| false).unwrap(), "hello");
        let request = asked.recv().unwrap();
        assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("authorization: Bearer s3cret\r\n"), "{request}");
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(body).unwrap(),
            json!({"model": "some-model", "messages": [{"role": "user", "content": "hi"}]})
        );
        assert!(!format!("{model:?}").contains("s3cret"));
    }

    #[test]
    fn refusals_are_passed_on_without_the_key() {
        insta::assert_snapshot!(
            ask(with_body("401 Unauthorized", r#"{"error":{"message":"bad key s3cret"}}"#)).unwrap_err(),
            @"the model's server answered 401 Unauthorized: bad key (key)"
        );
        insta::assert_snapshot!(
            ask(with_body("500 Oops", "<p>\n no </p>")).unwrap_err(),
            @"the model's server answered 500 Internal Server Error: <p> no </p>"
        );
        insta::assert_snapshot!(
            ask(with_body("307 Elsewhere", "")).unwrap_err(),
            @"the model's server answered 307 Temporary Redirect"
        );
    }

    #[test]
    fn answers_that_are_none() {
        insta::assert_snapshot!(
            ask(with_body("200 OK", "hello")).unwrap_err(),
            @"the model's server answered something else: expected value at line 1 column 1"
        );
        for body in [r#"{"choices":[]}"#, r#"{"choices":[{"message":{"content":null}}]}"#] {
            assert_eq!(ask(with_body("200 OK", body)), Err("the model gave no answer".to_owned()));
        }
        assert!(ask(b"garbage".to_vec()).unwrap_err().starts_with("the model cannot be reached"));
        let endless = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1_u64 << 40);
        let mut endless = endless.into_bytes();
        endless.resize(30 << 20, b' ');
        assert_eq!(ask(endless), Err("the model's answer is longer than 4 MiB".to_owned()));
    }

    #[test]
    fn a_silent_server_does_not_hold_anybody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let model = HttpLlm::new(&url, "m", None);
        let started = Instant::now();
        let cancelled = move || started.elapsed() > Duration::from_millis(50);
        assert_eq!(model.ask("hi", &cancelled).unwrap_err(), cancelled_failure());
        let impatient = model.timeout(Duration::from_millis(50));
        let failure = impatient.ask("hi", &|| false).unwrap_err();
        assert_eq!(failure.message, "the model gave no answer within 0.05 s");
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_key_that_is_no_header_is_refused() {
        let model = HttpLlm::new("http://127.0.0.1:1", "m", Some("a\r\nHost: evil".into()));
        let failure = model.ask("p", &|| false).unwrap_err();
        assert!(!failure.message.contains("evil"), "{failure}");
    }
}
