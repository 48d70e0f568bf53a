//! The Connect protocol in JSON: single requests, and streams of framed messages.

use std::convert::Infallible;
use std::io;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::body::parsed;
use super::errors::answer;

/// What comes before a message: flags and length.
const HEAD_BYTES: usize = 5;
/// The longest message in a stream of a client's.
const MAX_MESSAGE_BYTES: usize = 8 * 1024 * 1024;
/// The flag of the last message.
const LAST: u8 = 2;

/// Why something was not done.
#[derive(Debug)]
pub(super) struct Refusal {
    code: Code,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    Unimplemented,
    Internal,
    Unavailable,
    Unauthenticated,
    DeadlineExceeded,
}

impl Code {
    const fn word(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::AlreadyExists => "already_exists",
            Self::PermissionDenied => "permission_denied",
            Self::ResourceExhausted => "resource_exhausted",
            Self::Unimplemented => "unimplemented",
            Self::Internal => "internal",
            Self::Unavailable => "unavailable",
            Self::Unauthenticated => "unauthenticated",
            Self::DeadlineExceeded => "deadline_exceeded",
        }
    }

    const fn status(self) -> StatusCode {
        match self {
            Self::InvalidArgument => StatusCode::BAD_REQUEST,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::AlreadyExists => StatusCode::CONFLICT,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    fn body(&self) -> Value {
        json!({ "code": self.code.word(), "message": self.message })
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        let code = match error.kind() {
            Kind::NotFound => Code::NotFound,
            Kind::PermissionDenied | Kind::CrossesDevices => Code::PermissionDenied,
            Kind::AlreadyExists => Code::AlreadyExists,
            Kind::NotADirectory
            | Kind::IsADirectory
            | Kind::InvalidInput
            | Kind::DirectoryNotEmpty
            | Kind::InvalidFilename => Code::InvalidArgument,
            Kind::StorageFull | Kind::QuotaExceeded => Code::ResourceExhausted,
            _ => Code::Internal,
        };
        Self::new(code, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        answer(self.code.status(), &self.body())
    }
}

/// The one message of a request.
pub(super) fn message<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    parsed(bytes).map_err(|failure| Refusal::invalid(failure.message))
}

/// The one message of a request whose answer is a stream.
pub(super) fn framed_message<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let mut frames = Frames::default();
    frames.add(bytes);
    match frames.next()? {
        Some(first) => message(&first),
        None => Err(Refusal::invalid("the message is not whole")),
    }
}

/// Messages of a client's stream, as they come.
#[derive(Default)]
pub(super) struct Frames(Vec<u8>);

impl Frames {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole message; `None` when more has to come.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        loop {
            let Some((head, rest)) = self.0.split_first_chunk::<HEAD_BYTES>() else {
                return Ok(None);
            };
            let [flags, length @ ..] = *head;
            let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            if length > MAX_MESSAGE_BYTES {
                let problem = format!("a message has more than {MAX_MESSAGE_BYTES} bytes");
                return Err(Refusal::new(Code::ResourceExhausted, problem));
            }
            if flags & !LAST != 0 {
                return Err(Refusal::new(
                    Code::Unimplemented,
                    "messages cannot be compressed here",
                ));
            }
            if rest.len() < length {
                return Ok(None);
            }
            let message = rest[..length].to_vec();
            self.0.drain(..HEAD_BYTES + length);
            if flags & LAST == 0 {
                return Ok(Some(message));
            }
        }
    }

    /// Whether nothing is left of a message that was begun.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn frame(flags: u8, message: &Value) -> Bytes {
    let text = message.to_string();
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    let mut frame = Vec::with_capacity(HEAD_BYTES + text.len());
    frame.push(flags);
    frame.extend(length.to_be_bytes());
    frame.extend(text.as_bytes());
    frame.into()
}

/// An answer of many messages; the last says how it ended.
pub(super) fn stream(
    messages: impl Stream<Item = Result<Value, Refusal>> + Send + 'static,
) -> Response {
    let mut failed = false;
    let frames =
        messages.map(Some).chain(futures_util::stream::iter([None])).filter_map(move |item| {
            let frame = match item {
                _ if failed => None,
                Some(Ok(message)) => Some(frame(0, &message)),
                Some(Err(refusal)) => {
                    failed = true;
                    Some(frame(LAST, &json!({ "error": refusal.body() })))
                }
                None => Some(frame(LAST, &json!({}))),
            };
            std::future::ready(frame.map(Ok::<_, Infallible>))
        });
    let kind = [(header::CONTENT_TYPE, "application/connect+json")];
    (kind, Body::from_stream(frames)).into_response()
}

/// A stream that only says why there is none.
pub(super) fn refused_stream(refusal: Refusal) -> Response {
    stream(futures_util::stream::iter([Err(refusal)]))
}

/// A number that a client gives in a header.
pub(super) fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_whatever_they_come_in() {
        let mut bytes = frame(0, &json!({"a": 1})).to_vec();
        bytes.extend(frame(0, &json!({"b": 2})));
        bytes.extend(frame(LAST, &json!({})));
        let mut frames = Frames::default();
        let mut got = Vec::new();
        for byte in bytes {
            frames.add(&[byte]);
            got.extend(frames.next().unwrap());
        }
        assert_eq!(got, [br#"{"a":1}"#.to_vec(), br#"{"b":2}"#.to_vec()]);
        assert!(frames.is_empty());
    }

    #[test]
    fn messages_that_are_none_are_refused() {
        for bytes in
            [&b""[..], b"\0\0", b"\0\0\0\0\x05{}", b"\0\xff\xff\xff\xff", b"\x01\0\0\0\x02{}"]
        {
            assert!(framed_message::<Value>(bytes).is_err(), "{bytes:?}");
        }
        assert!(framed_message::<Value>(b"\0\0\0\0\x02[}").is_err());
        assert!(framed_message::<Value>(b"\0\0\0\0\x02{}").is_ok());
    }
}
