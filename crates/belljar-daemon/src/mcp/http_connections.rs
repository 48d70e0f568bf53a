//! Connections of an HTTP server: not too many, none that only wait, and all ended in the end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::limits::{ENDING, HEADERS, MAX_CONNECTIONS};

/// When none can be accepted, descriptors for example are used up, it may be better soon.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn serve(listener: TcpListener, router: Router, end: CancellationToken) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
    let accept = async {
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (router, end) = (router.clone(), end.clone());
                    tokio::spawn(async move {
                        let _place = place;
                        connected(stream, router, end).await;
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
    // All places are free when all have gone; who does not go in time is cut off.
    let _ = timeout(ENDING, places.acquire_many(MAX_CONNECTIONS)).await;
}

async fn connected(stream: TcpStream, router: Router, end: CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
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
