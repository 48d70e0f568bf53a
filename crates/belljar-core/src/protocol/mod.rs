//! JSON-RPC 2.0, one message a line, in both directions.
//!
//! Whoever is on the other side may lie: sizes, nesting and names are bounded before anything is
//! unpacked.

pub mod daemon;
pub mod methods;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, Value};

use crate::json;
use crate::limits::{
    MAX_ANSWER_WEIGHT, MAX_ERROR_MESSAGE_BYTES, MAX_MESSAGE_NESTING, MAX_RPC_NAME_BYTES,
};

/// The line was no JSON.
pub const PARSE_ERROR: i32 = -32700;

/// It was JSON, and no message.
pub const INVALID_REQUEST: i32 = -32600;

/// There is no such method.
pub const METHOD_NOT_FOUND: i32 = -32601;

/// The method cannot do anything with these parameters.
pub const INVALID_PARAMS: i32 = -32602;

/// A tool, or whatever else was asked for, failed.
pub const FAILED: i32 = -32000;

/// Too much is going on; the same request may succeed later. Nothing was run.
pub const BUSY: i32 = -32001;

/// What a response refers to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

/// A message of the other side.
#[derive(Debug)]
pub enum Message {
    /// It wants an answer.
    Request {
        /// What the answer refers to.
        id: Id,
        /// What it wants.
        method: String,
        /// With what.
        params: Box<RawValue>,
    },
    /// It tells something.
    Notification {
        /// What it is about.
        method: String,
        /// Details.
        params: Box<RawValue>,
    },
    /// It answers.
    Response {
        /// The request that is answered.
        id: Id,
        /// What came of it.
        outcome: Result<Box<RawValue>, RpcError>,
    },
    /// It refuses something, and does not know or does not say what.
    Complaint(RpcError),
}

/// Why a request was not served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// What kind of failure.
    pub code: i32,
    /// What went wrong.
    pub message: String,
    /// More, for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// A failure without details.
    #[must_use]
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    fn capped(mut self) -> Self {
        self.message.truncate(self.message.floor_char_boundary(MAX_ERROR_MESSAGE_BYTES));
        self
    }
}

#[derive(Deserialize)]
struct RawMessage {
    jsonrpc: String,
    #[serde(default)]
    id: Option<Id>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<Box<RawValue>>,
}

/// A result may be null, which is not the same as none.
fn present<'de, D>(result: D) -> Result<Option<Box<RawValue>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Box::<RawValue>::deserialize(result).map(Some)
}

impl Message {
    /// Reads a line.
    ///
    /// # Errors
    /// The error to send back when it makes no sense.
    pub fn parse(line: &[u8]) -> Result<Self, RpcError> {
        check_weight(line)?;
        Self::parse_unweighed(line)
    }

    /// The same of a line that may weigh and nest anything. Whoever unpacks its parameters or its
    /// result weighs them first.
    ///
    /// # Errors
    /// The error to send back when it makes no sense.
    pub fn parse_unweighed(line: &[u8]) -> Result<Self, RpcError> {
        let nonsense = |error: serde_json::Error| {
            let code = if error.is_data() { INVALID_REQUEST } else { PARSE_ERROR };
            // It may quote what was sent.
            RpcError::new(code, format!("no JSON-RPC message: {error}")).capped()
        };
        let raw: RawMessage = serde_json::from_slice(line).map_err(nonsense)?;
        let invalid = |why: &str| Err(RpcError::new(INVALID_REQUEST, why));
        if raw.jsonrpc != "2.0" {
            return invalid("jsonrpc has to be \"2.0\"");
        }
        if matches!(&raw.id, Some(Id::Text(id)) if id.len() > MAX_RPC_NAME_BYTES)
            || raw.method.as_ref().is_some_and(|method| method.len() > MAX_RPC_NAME_BYTES)
        {
            return invalid("id or method is too long");
        }
        let error = match raw.error {
            Some(raw) => {
                check_weight(raw.get().as_bytes())?;
                let error: RpcError = serde_json::from_str(raw.get()).map_err(nonsense)?;
                Some(error.capped())
            }
            None => None,
        };
        let params = raw.params.unwrap_or_else(|| RawValue::NULL.to_owned());
        match (raw.id, raw.method, raw.result, error) {
            (Some(id), Some(method), None, None) => Ok(Self::Request { id, method, params }),
            (None, Some(method), None, None) => Ok(Self::Notification { method, params }),
            (Some(id), None, Some(result), None) => Ok(Self::Response { id, outcome: Ok(result) }),
            (Some(id), None, None, Some(error)) => Ok(Self::Response { id, outcome: Err(error) }),
            (None, None, None, Some(error)) => Ok(Self::Complaint(error)),
            _ => invalid("a message has either a method, or a result, or an error"),
        }
    }

    /// Whose answer a line is that [`Message::parse`] refuses. That one fails, and no other.
    #[must_use]
    pub fn addressee(line: &[u8]) -> Option<Id> {
        Envelope::of(line).filter(|envelope| envelope.method.is_none()).map(|envelope| envelope.id)
    }

    /// Whose request a line is that [`Message::parse`] refuses: somebody waits for an answer to it.
    #[must_use]
    pub fn asker(line: &[u8]) -> Option<Id> {
        Envelope::of(line).filter(|envelope| envelope.method.is_some()).map(|envelope| envelope.id)
    }
}

#[derive(Deserialize)]
struct Envelope {
    id: Id,
    #[serde(default)]
    method: Option<IgnoredAny>,
}

impl Envelope {
    fn of(line: &[u8]) -> Option<Self> {
        let envelope: Self = serde_json::from_slice(line).ok()?;
        let long = matches!(&envelope.id, Id::Text(id) if id.len() > MAX_RPC_NAME_BYTES);
        (!long).then_some(envelope)
    }
}

/// Whether whoever gets this line takes it.
///
/// # Errors
/// Why not.
pub fn check_weight(line: &[u8]) -> Result<(), RpcError> {
    let weight = json::weight_within(line, MAX_MESSAGE_NESTING);
    if weight.is_some_and(|weight| weight <= MAX_ANSWER_WEIGHT) {
        return Ok(());
    }
    let why = "the message would take too much memory, or nests too deeply";
    Err(RpcError::new(INVALID_REQUEST, why))
}

#[derive(Serialize)]
struct Outgoing<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(flatten)]
    content: Content<'a, T>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Content<'a, T> {
    Params(&'a T),
    Result(&'a T),
    Error(&'a RpcError),
}

/// A request as a line, with its end.
///
/// # Errors
/// When the parameters cannot be JSON.
pub fn request(id: &Id, method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    line(Some(id), Some(method), Content::Params(params))
}

/// A response as a line, with its end.
///
/// # Errors
/// When the result cannot be JSON.
pub fn response<T: Serialize>(
    id: &Id,
    outcome: Result<&T, &RpcError>,
) -> serde_json::Result<Vec<u8>> {
    line(Some(id), None, outcome.map_or_else(Content::Error, Content::Result))
}

/// A notification as a line, with its end.
///
/// # Errors
/// When the parameters cannot be JSON.
pub fn notification(method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    line(None, Some(method), Content::Params(params))
}

/// An error about a line in which no id was found, as a line, with its end.
///
/// # Errors
/// When its details cannot be JSON.
pub fn complaint(error: &RpcError) -> serde_json::Result<Vec<u8>> {
    let mut line =
        serde_json::to_vec(&serde_json::json!({ "jsonrpc": "2.0", "id": null, "error": error }))?;
    line.push(b'\n');
    Ok(line)
}

fn line<T: Serialize>(
    id: Option<&Id>,
    method: Option<&str>,
    content: Content<'_, T>,
) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Outgoing { jsonrpc: "2.0", id, method, content })?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn error(line: &str) -> (i32, String) {
        let error = Message::parse(line.as_bytes()).unwrap_err();
        (error.code, error.message)
    }

    #[test]
    fn what_is_written_can_be_read() {
        let id = Id::Number(7);
        let line = request(&id, "execute", &json!({"code": "1\n2"})).unwrap();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let Ok(Message::Request { id: read, method, params }) = Message::parse(&line) else {
            panic!("no request");
        };
        assert_eq!(
            (read, method.as_str(), params.get()),
            (id.clone(), "execute", r#"{"code":"1\n2"}"#)
        );
        for outcome in [Ok(json!(null)), Err(RpcError::new(FAILED, "no"))] {
            let line = response(&id, outcome.as_ref()).unwrap();
            let Ok(Message::Response { outcome: read, .. }) = Message::parse(&line) else {
                panic!("no response");
            };
            assert_eq!(read.map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap()), outcome);
        }
    }

    #[test]
    fn what_refers_to_nothing_has_no_id() {
        let text = |line: Vec<u8>| String::from_utf8(line).unwrap();
        let told = text(notification("stdout", &json!({"text": "a"})).unwrap());
        assert_eq!(
            told,
            "{\"jsonrpc\":\"2.0\",\"method\":\"stdout\",\"params\":{\"text\":\"a\"}}\n"
        );
        let complaint = text(complaint(&RpcError::new(PARSE_ERROR, "no")).unwrap());
        assert!(complaint.contains("\"id\":null") && complaint.ends_with('\n'), "{complaint}");
        let read = Message::parse(complaint.as_bytes());
        assert!(matches!(read, Ok(Message::Complaint(error)) if error.message == "no"));
    }

    #[test]
    fn nonsense_gets_the_error_the_standard_names() {
        assert_eq!(error("{").0, PARSE_ERROR);
        assert_eq!(error("").0, PARSE_ERROR);
        assert_eq!(error("[]").0, INVALID_REQUEST);
        assert_eq!(error(r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#).0, INVALID_REQUEST);
        assert_eq!(error(r#"{"jsonrpc":"2.0"}"#).0, INVALID_REQUEST);
        assert_eq!(
            error(r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#).0,
            INVALID_REQUEST
        );
        assert_eq!(error(r#"{"jsonrpc":"2.0","id":-1,"method":"m"}"#).0, INVALID_REQUEST);
        let long = "m".repeat(MAX_RPC_NAME_BYTES + 1);
        assert_eq!(error(&format!(r#"{{"jsonrpc":"2.0","method":"{long}"}}"#)).0, INVALID_REQUEST);
        let deep = format!(
            r#"{{"jsonrpc":"2.0","method":"m","params":{}1{}}}"#,
            "[".repeat(99),
            "]".repeat(99)
        );
        assert_eq!(error(&deep).0, INVALID_REQUEST);
    }

    #[test]
    fn what_a_guest_may_give_can_be_told_and_what_is_heavier_says_whose_it_is() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        let told = |depth: usize| {
            let calls = format!(r#"[{{"args":{}}}]"#, nested(depth));
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"pending_calls":{calls}}}}}"#)
        };
        assert!(Message::parse(told(crate::limits::MAX_JSON_NESTING).as_bytes()).is_ok());
        let deep = told(1000);
        assert!(Message::parse(deep.as_bytes()).is_err());
        assert_eq!(Message::addressee(deep.as_bytes()), Some(Id::Number(7)));
        assert!(matches!(
            Message::parse_unweighed(deep.as_bytes()),
            Ok(Message::Response { id: Id::Number(7), outcome: Ok(_) })
        ));
        let asked = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"m","params":{}}}"#, nested(99));
        assert_eq!(Message::addressee(asked.as_bytes()), None);
        assert_eq!(Message::asker(asked.as_bytes()), Some(Id::Number(7)));
        assert_eq!(Message::asker(deep.as_bytes()), None);
        let error = format!(r#"{{"code":1,"message":"","data":{}}}"#, nested(99));
        let failed = format!(r#"{{"jsonrpc":"2.0","id":7,"error":{error}}}"#);
        assert!(Message::parse_unweighed(failed.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in any::<Vec<u8>>(), json in ".{0,60}") {
            let _ = Message::parse(&line);
            let _ = Message::parse_unweighed(&line);
            let _ = Message::addressee(&line);
            let _ = Message::parse(format!(r#"{{"jsonrpc":"2.0",{json}}}"#).as_bytes());
        }
    }
}
