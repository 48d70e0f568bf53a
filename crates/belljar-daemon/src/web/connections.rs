//! Connections of an HTTP server: not too many, none that only wait, and all ended in the end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::heads::{Heads, Prompt};
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
            let answer = router.oneshot(request.map(Body::new)).await;
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
