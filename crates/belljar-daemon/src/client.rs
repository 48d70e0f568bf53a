//! A client of the protocol, for asynchronous code: any number of requests at the same time over
//! one stream, what the server tells and asks meanwhile, and what is left when it goes away.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belljar_core::limits::MAX_SERVER_MESSAGE_BYTES;
use belljar_core::protocol::{self, Id, METHOD_NOT_FOUND, Message, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader,
};
use tokio::sync::{mpsc, oneshot};

/// Requests that wait to be written. A server that does not read makes whoever asks wait.
const QUEUED_LINES: usize = 16;

type Outcome = Result<Box<RawValue>, RpcError>;

/// What a client does while the server works for it.
pub trait Peer: Send + Sync + 'static {
    /// The server tells something. Nothing else is heard until this returns.
    fn told(&self, method: &str, params: &RawValue);

    /// The server asks for something: a tool, or a line of input. Without tools there is nothing to
    /// answer.
    #[expect(clippy::boxed_local, reason = "whoever has tools keeps it beyond the call")]
    fn asked(
        &self,
        method: String,
        _params: Box<RawValue>,
    ) -> impl Future<Output = Result<Value, RpcError>> + Send {
        let problem = format!("this client has no method {method:?}");
        std::future::ready(Err(RpcError::new(METHOD_NOT_FOUND, problem)))
    }
}

/// Why a request gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server says why.
    #[error(transparent)]
    Refused(#[from] RpcError),
    /// The request could not be sent.
    #[error("the connection to the sandboxes is lost; nothing was run")]
    NotSent,
    /// The answer did not come.
    #[error("the connection to the sandboxes was lost; the code may have run")]
    Lost,
    /// An answer, and not to what was asked.
    #[error("the answer makes no sense: {0}; the code may have run")]
    Nonsense(#[from] serde_json::Error),
}

/// A connection. Its clones share it; when the last one is gone, it is closed.
#[derive(Clone)]
pub struct Client {
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Arc<Waiting>,
    last: Arc<AtomicU64>,
}

impl Client {
    /// Speaks the protocol on a stream, on tasks of this runtime.
    pub fn connect<S>(stream: S, peer: impl Peer) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (input, output) = tokio::io::split(stream);
        let (outgoing, lines) = mpsc::channel(QUEUED_LINES);
        let waiting = Arc::new(Waiting(Mutex::new(Some(HashMap::new()))));
        tokio::spawn(write(output, lines));
        let ear = Ear {
            peer: Arc::new(peer),
            waiting: Arc::clone(&waiting),
            // Not a sender of its own: with the last client the connection ends.
            outgoing: outgoing.downgrade(),
        };
        tokio::spawn(ear.listen(BufReader::new(input)));
        Self { outgoing, waiting, last: Arc::default() }
    }

    /// Asks, and waits for the answer. Nobody waits any more when this is dropped; what runs at the
    /// server goes on until it is cancelled there.
    ///
    /// # Errors
    /// When the server refuses, or the connection is lost.
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &impl Serialize,
    ) -> Result<T, ClientError> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let line = protocol::request(&Id::Number(number), method, params)?;
        let (sender, answer) = oneshot::channel();
        let _place = self.waiting.wait(number, sender).ok_or(ClientError::NotSent)?;
        self.outgoing.send(line).await.map_err(|_| ClientError::NotSent)?;
        let answer = answer.await.map_err(|_| ClientError::Lost)??;
        Ok(serde_json::from_str(answer.get())?)
    }

    /// Whether nobody answers any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.waiting.known().is_none()
    }
}

/// Who waits for which answer; `None` once there will be no more.
struct Waiting(Mutex<Option<HashMap<u64, oneshot::Sender<Outcome>>>>);

/// Somebody who waits.
struct Place<'a> {
    waiting: &'a Waiting,
    number: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(known) = self.waiting.known().as_mut() {
            known.remove(&self.number);
        }
    }
}

impl Waiting {
    fn wait(&self, number: u64, sender: oneshot::Sender<Outcome>) -> Option<Place<'_>> {
        self.known().as_mut()?.insert(number, sender);
        Some(Place { waiting: self, number })
    }

    fn answered(&self, id: &Id, outcome: Outcome) {
        let Id::Number(number) = id else { return };
        let sender = self.known().as_mut().and_then(|known| known.remove(number));
        if let Some(sender) = sender {
            // Whoever asked may have gone.
            let _ = sender.send(outcome);
        }
    }

    fn close(&self) {
        *self.known() = None;
    }

    fn known(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Outcome>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write(mut output: impl AsyncWrite + Unpin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
    // The server learns that nothing more comes.
    let _ = output.shutdown().await;
}

struct Ear<P> {
    peer: Arc<P>,
    waiting: Arc<Waiting>,
    outgoing: mpsc::WeakSender<Vec<u8>>,
}

impl<P: Peer> Ear<P> {
    async fn listen(self, mut input: impl AsyncBufRead + Unpin) {
        while let Ok(Some(line)) = next_line(&mut input, MAX_SERVER_MESSAGE_BYTES).await {
            match Message::parse(&line) {
                Ok(Message::Response { id, outcome }) => self.waiting.answered(&id, outcome),
                Ok(Message::Notification { method, params }) => self.peer.told(&method, &params),
                Ok(Message::Request { id, method, params }) => self.answer(id, method, params),
                // It is about something that nobody can name; what waits is answered or not.
                Ok(Message::Complaint(_)) => {}
                Err(error) => match Message::addressee(&line) {
                    Some(id) => self.waiting.answered(&id, Err(error)),
                    // Nobody knows who would wait for ever.
                    None => break,
                },
            }
        }
        self.waiting.close();
    }

    fn answer(&self, id: Id, method: String, params: Box<RawValue>) {
        let (peer, outgoing) = (Arc::clone(&self.peer), self.outgoing.clone());
        tokio::spawn(async move {
            let outcome = peer.asked(method, params).await;
            let line = protocol::response(&id, outcome.as_ref());
            if let (Ok(line), Some(outgoing)) = (line, outgoing.upgrade()) {
                // The connection may have been closed meanwhile.
                let _ = outgoing.send(line).await;
            }
        });
    }
}

/// A line without its end; `None` when there are no more, or it is longer than any may be.
async fn next_line(
    input: &mut (impl AsyncBufRead + Unpin),
    max: usize,
) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(max as u64).read_until(b'\n', &mut line).await?;
    Ok((line.pop() == Some(b'\n')).then_some(line))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    #[derive(Default, Clone)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    impl Peer for Notes {
        fn told(&self, method: &str, params: &RawValue) {
            self.0.lock().unwrap().push(format!("{method} {}", params.get()));
        }
    }

    struct Server {
        input: BufReader<tokio::io::ReadHalf<DuplexStream>>,
        output: tokio::io::WriteHalf<DuplexStream>,
    }

    impl Server {
        async fn hear(&mut self) -> Option<Value> {
            let line = next_line(&mut self.input, 1000).await.unwrap()?;
            Some(serde_json::from_slice(&line).unwrap())
        }

        async fn say(&mut self, text: &str) {
            self.output.write_all(format!("{text}\n").as_bytes()).await.unwrap();
        }
    }

    fn pair() -> (Client, Server, Notes) {
        let (ours, theirs) = duplex(1 << 20);
        let notes = Notes::default();
        let client = Client::connect(ours, notes.clone());
        let (input, output) = tokio::io::split(theirs);
        (client, Server { input: BufReader::new(input), output }, notes)
    }

    #[tokio::test]
    async fn answers_find_their_questions_whatever_their_order() {
        let (client, mut server, notes) = pair();
        let ask = |method: &'static str| {
            let client = client.clone();
            tokio::spawn(async move { client.request::<Value>(method, &json!({})).await })
        };
        let first = ask("a");
        assert_eq!(server.hear().await.unwrap()["id"], 1);
        let second = ask("b");
        assert_eq!(server.hear().await.unwrap()["id"], 2);
        server.say(r#"{"jsonrpc":"2.0","id":9,"result":"nobody's"}"#).await;
        server.say(r#"{"jsonrpc":"2.0","method":"stdout","params":{"n":1}}"#).await;
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":"two"}"#).await;
        server.say(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}"#).await;
        assert_eq!(second.await.unwrap().unwrap(), json!("two"));
        assert_eq!(first.await.unwrap().unwrap_err().to_string(), "no");
        assert_eq!(*notes.0.lock().unwrap(), [r#"stdout {"n":1}"#]);
    }

    #[tokio::test]
    async fn what_the_server_asks_is_answered_and_the_end_is_told() {
        let (client, mut server, _) = pair();
        server.say(r#"{"jsonrpc":"2.0","id":7,"method":"tool.call","params":{}}"#).await;
        let answer = server.hear().await.unwrap();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(7), &json!(METHOD_NOT_FOUND))
        );
        drop(client);
        assert!(server.hear().await.is_none());
    }

    #[tokio::test]
    async fn an_answer_too_deep_to_read_fails_alone() {
        let (client, mut server, _) = pair();
        let asked = tokio::spawn({
            let client = client.clone();
            async move { client.request::<Value>("a", &json!({})).await }
        });
        server.hear().await.unwrap();
        let deep = format!("{}{}", "[".repeat(500), "]".repeat(500));
        server.say(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{deep}}}"#)).await;
        assert!(matches!(asked.await.unwrap(), Err(ClientError::Refused(_))));
        let asked = tokio::spawn(async move { client.request::<Value>("a", &json!({})).await });
        server.hear().await.unwrap();
        server.say(r#"{"jsonrpc":"2.0","id":2,"result":null}"#).await;
        assert_eq!(asked.await.unwrap().unwrap(), Value::Null);
    }

    #[tokio::test]
    async fn a_lost_connection_says_what_may_have_happened() {
        let (client, mut server, _) = pair();
        let asked = tokio::spawn({
            let client = client.clone();
            async move { client.request::<Value>("a", &json!({})).await }
        });
        server.hear().await.unwrap();
        drop(server);
        assert!(matches!(asked.await.unwrap(), Err(ClientError::Lost)));
        let after = client.request::<Value>("a", &json!({})).await;
        assert!(matches!(after, Err(ClientError::NotSent)));
    }
}
