//! What is told about code while it runs.

use std::sync::Arc;
use std::time::Instant;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::{Peer, RoleServer};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use super::limits::{MAX_PROGRESS_BYTES, MAX_WAITING_LINES, PROGRESS_EVERY, SIGN_OF_LIFE, TELLING};
use crate::desk::Listener;

/// Somebody who wants to know.
pub(super) struct Progress {
    peer: Peer<RoleServer>,
    token: ProgressToken,
    begun: Instant,
    told: Instant,
    news: String,
}

impl Progress {
    pub(super) fn new(peer: Peer<RoleServer>, token: ProgressToken) -> Self {
        let now = Instant::now();
        Self { peer, token, begun: now, told: now, news: String::new() }
    }

    /// Something was printed. Of what is not yet told, the last is kept.
    pub(super) fn add(&mut self, text: &str) {
        self.news.push_str(text);
        keep_end(&mut self.news, MAX_PROGRESS_BYTES);
    }

    /// Tells what there is to tell, not too often. Progress is the time it takes: nobody knows how
    /// much is left.
    pub(super) async fn tell(&mut self) {
        let (since, seconds) = (self.told.elapsed(), self.begun.elapsed().as_secs_f64());
        let message = if !self.news.is_empty() && since >= PROGRESS_EVERY {
            std::mem::take(&mut self.news)
        } else if since >= SIGN_OF_LIFE {
            format!("running for {seconds:.0} s")
        } else {
            return;
        };
        self.told = Instant::now();
        let progress = ProgressNotificationParam::new(self.token.clone(), seconds)
            .with_message(message.trim_end());
        // The result will hold everything: progress that cannot be told is not worth an error.
        let _ = tokio::time::timeout(TELLING, self.peer.notify_progress(progress)).await;
    }
}

/// Lines that are printed, on their way to somebody who is told about them, if anybody is. What
/// comes too quickly is left out.
pub(super) fn listener(wanted: bool) -> (Option<Listener>, mpsc::Receiver<String>) {
    let (sender, lines) = mpsc::channel(MAX_WAITING_LINES);
    let listener: Listener = Arc::new(move |_, mut text: String| {
        text.truncate(text.floor_char_boundary(MAX_PROGRESS_BYTES));
        // The result will hold it.
        let _ = sender.try_send(text);
    });
    (wanted.then_some(listener), lines)
}

/// Waits for something, and tells about it meanwhile.
pub(super) async fn watched<T>(
    work: impl Future<Output = T>,
    progress: Option<Progress>,
    mut lines: mpsc::Receiver<String>,
) -> T {
    let Some(mut progress) = progress else { return work.await };
    tokio::pin!(work);
    let mut ticks = interval(PROGRESS_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(line) = lines.recv() => progress.add(&line),
            _ = ticks.tick() => progress.tell().await,
        }
    }
}

fn keep_end(text: &mut String, max: usize) {
    if text.len() > max {
        let from = text.ceil_char_boundary(text.len() - max);
        text.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept() {
        for (text, max, expected) in [("abc", 3, "abc"), ("abcd", 3, "bcd"), ("aéb", 2, "b")] {
            let mut text = text.to_owned();
            keep_end(&mut text, max);
            assert_eq!(text, expected);
        }
    }
}
