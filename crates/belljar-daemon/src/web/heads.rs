//! Headers of requests have to come in time, however long a connection may wait for its next request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What a connection's stream and its service tell each other.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    /// Requests whose headers are there.
    whole: AtomicUsize,
    /// Those that are not answered yet.
    served: AtomicUsize,
}

/// A request that is being answered.
pub(crate) struct Served(Arc<Heads>);

impl Heads {
    /// Called when the headers of a request are there.
    pub(crate) fn begin(self: &Arc<Self>) -> Served {
        self.whole.fetch_add(1, Ordering::Relaxed);
        self.served.fetch_add(1, Ordering::Relaxed);
        Served(Arc::clone(self))
    }
}

impl Served {
    /// The body of its answer; when that is written, the request is over.
    pub(crate) fn with(self, body: Body) -> Body {
        Body::new(Answer { body, _served: self })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.served.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Answer {
    body: Body,
    _served: Served,
}

impl HttpBody for Answer {
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

/// A stream that fails when a request has begun to come and its headers do not all come in time.
pub(crate) struct Prompt<S> {
    stream: S,
    heads: Arc<Heads>,
    patience: Duration,
    /// Runs while headers come.
    begun: Option<Pin<Box<Sleep>>>,
    /// How many had come when it was looked last.
    whole: usize,
}

impl<S> Prompt<S> {
    pub(crate) const fn new(stream: S, heads: Arc<Heads>, patience: Duration) -> Self {
        Self { stream, heads, patience, begun: None, whole: 0 }
    }

    /// Whether what comes now are headers.
    fn is_between(&mut self) -> bool {
        let whole = self.heads.whole.load(Ordering::Relaxed);
        if self.whole != whole {
            (self.whole, self.begun) = (whole, None);
        }
        self.heads.served.load(Ordering::Relaxed) == 0
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (between, before) = (self.is_between(), buffer.filled().len());
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if between && buffer.filled().len() > before && self.begun.is_none() {
            self.begun = Some(Box::pin(sleep(self.patience)));
        }
        // Also when some of it comes all the time.
        let late = |begun: &mut Pin<Box<Sleep>>| begun.as_mut().poll(context).is_ready();
        if between && self.begun.as_mut().is_some_and(late) {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn headers_that_do_not_end_are_given_up() {
        let (ours, mut theirs) = duplex(64);
        let mut stream = Prompt::new(ours, Arc::default(), Duration::ZERO);
        let trickle = tokio::spawn(async move { while theirs.write_all(b"x").await.is_ok() {} });
        let mut byte = [0];
        let error = loop {
            if let Err(error) = stream.read_exact(&mut byte).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(stream);
        trickle.await.unwrap();
    }

    #[tokio::test]
    async fn bodies_may_come_slowly_and_nobody_has_to_ask_for_anything() {
        let (ours, mut theirs) = duplex(64);
        let heads = Arc::new(Heads::default());
        let mut stream = Prompt::new(ours, Arc::clone(&heads), Duration::ZERO);
        let mut byte = [0];
        for _ in 0..3 {
            let mut waits = Box::pin(stream.read(&mut byte));
            assert!(futures_util::poll!(&mut waits).is_pending());
            drop(waits);
            let served = heads.begin();
            for _ in 0..100 {
                theirs.write_all(b"x").await.unwrap();
                stream.read_exact(&mut byte).await.unwrap();
            }
            drop(served);
        }
    }
}
