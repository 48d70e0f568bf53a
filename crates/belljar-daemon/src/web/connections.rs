//! Connections of an HTTP server: not too many, none that only wait, and all ended in the end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::heads::{Heads, Prompt};
use super::leftover::Leftover;
use super::stalled::Stalled;

/// When none can be accepted, descriptors for example are used up, it may be better soon.
const PAUSE: Duration = Duration::from_millis(100);

/// How much for how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Connections at the same time; more wait until one is closed.
    pub(crate) connections: u32,
    /// Whoever takes longer for the headers of a request is disconnected.
    pub(crate) headers: Duration,
    /// Whoever makes no further request for so long is, too.
    pub(crate) idle: Duration,
    /// Whoever takes nothing for so long of what is written is disconnected.
    pub(crate) stall: Duration,
    /// How long connections may take to end, when all is over.
    pub(crate) ending: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // A client has two or three.
            connections: 1024,
            headers: Duration::from_secs(30),
            idle: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            ending: Duration::from_secs(1),
        }
    }
}

pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    bounds: Bounds,
    end: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(bounds.connections as usize));
    let accept = async {
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (router, end) = (router.clone(), end.clone());
                    tokio::spawn(async move {
                        let _place = place;
                        connected(stream, router, bounds, end).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(target: "belljar", %error, "no connection can be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        () = end.cancelled() => {}
    }
    drop(listener);
    // All places are free when all have gone; who does not go in time is cut off.
    let _ = timeout(bounds.ending, places.acquire_many(bounds.connections)).await;
}

async fn connected(stream: TcpStream, router: Router, bounds: Bounds, end: CancellationToken) {
    let heads = Arc::new(Heads::default());
    let stream =
        Prompt::new(Stalled::new(stream, bounds.stall), Arc::clone(&heads), bounds.headers);
    let service = service_fn(move |request: Request<Incoming>| {
        let (served, router) = (heads.begin(), router.clone());
        async move {
            // Who asks before sending a body is told by the answer not to.
            let asks_first = request.headers().contains_key(header::EXPECT);
            let (parts, body) = request.into_parts();
            let (body, leftover) = Leftover::of(Body::new(body));
            let answer = router.oneshot(Request::from_parts(parts, body)).await;
            if !asks_first {
                leftover.discard().await;
            }
            answer.map(|answer| answer.map(|body| served.with(body)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // It is also how long a connection may wait for its next request.
        .header_read_timeout(bounds.idle.max(bounds.headers))
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = end.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(target: "belljar", %error, "a connection has ended badly");
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A client of a server that refuses everything by its headers.
    async fn client() -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(|| async { StatusCode::UNAUTHORIZED });
        let served = serve(listener, router, Bounds::default(), CancellationToken::new());
        tokio::spawn(served);
        TcpStream::connect(address).await.unwrap()
    }

    async fn head(client: &mut TcpStream, body_bytes: usize, more: &str) {
        let head =
            format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {body_bytes}\r\n{more}\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
    }

    /// The status of the next answer, none of which has a body.
    async fn status(client: &mut TcpStream) -> String {
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(client.read_u8().await.unwrap());
        }
        String::from_utf8(answer).unwrap().lines().next().unwrap().to_owned()
    }

    const REFUSED: &str = "HTTP/1.1 401 Unauthorized";

    #[tokio::test]
    async fn who_still_writes_when_refused_hears_why_and_may_ask_again() {
        let mut client = client().await;
        for _ in 0..2 {
            head(&mut client, 100_000, "").await;
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(5)).await;
                client.write_all(&[b'x'; 10_000]).await.unwrap();
            }
            assert_eq!(status(&mut client).await, REFUSED);
        }
    }

    #[tokio::test]
    async fn who_writes_without_end_is_cut_off() {
        let mut client = client().await;
        head(&mut client, usize::MAX / 4, "").await;
        let bytes = vec![b'x'; 65_536];
        let flood = async { while client.write_all(&bytes).await.is_ok() {} };
        timeout(Duration::from_secs(30), flood).await.expect("an end");
    }

    #[tokio::test]
    async fn who_sends_nothing_of_what_was_promised_is_answered_all_the_same() {
        let mut client = client().await;
        head(&mut client, 10, "").await;
        assert_eq!(status(&mut client).await, REFUSED);
    }

    #[tokio::test]
    async fn who_asks_first_is_not_told_to_go_on() {
        let mut client = client().await;
        head(&mut client, 10, "expect: 100-continue\r\n").await;
        assert_eq!(status(&mut client).await, REFUSED);
    }
}
