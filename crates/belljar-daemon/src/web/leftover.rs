//! What is left of a request's body when its answer is there, as with one that is refused by its
//! headers. A client that still writes when its connection is closed sees a broken pipe, and never
//! the answer that says why; so what is left is read and thrown away first.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use futures_util::StreamExt;
use hyper::body::{Frame, SizeHint};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// What is thrown away of one request: all of an ordinary one. Whoever sends more is cut off.
const MAX_BYTES: usize = 1024 * 1024;

/// How long an answer waits for that.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where a body comes back when whoever answers has no more use for it.
pub(crate) struct Leftover(oneshot::Receiver<Body>);

impl Leftover {
    /// A body to give away, and what will be left of it.
    pub(crate) fn of(body: Body) -> (Body, Self) {
        let (back, leftover) = oneshot::channel();
        (Body::new(Lent { body, back: Some(back) }), Self(leftover))
    }

    /// Throws it away, unless somebody still reads it.
    pub(crate) async fn discard(mut self) {
        let Ok(body) = self.0.try_recv() else { return };
        let (mut parts, mut bytes) = (body.into_data_stream(), 0);
        let read = async {
            while let Some(Ok(part)) = parts.next().await {
                bytes += part.len();
                if bytes > MAX_BYTES {
                    return;
                }
            }
        };
        // Who sends too much or too slowly has had the chance.
        let _ = timeout(PATIENCE, read).await;
    }
}

struct Lent {
    body: Body,
    back: Option<oneshot::Sender<Body>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(back) = self.back.take()
            && !self.body.is_end_stream()
        {
            // Nobody waits for it when the answer is on its way.
            let _ = back.send(std::mem::take(&mut self.body));
        }
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
