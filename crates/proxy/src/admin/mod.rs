//! What monitoring asks, beside the loop: `/metrics`, `/health` and `/ready`.
//!
//! ```text
//!   monitoring ──GET──▶ admin thread ──wants──▶ [board] ──wakes──▶ event loop
//!              ◀─text──      formats  ◀─snapshot─ [board] ◀─numbers──┘
//! ```
//!
//! The loop never waits: it is woken, lays down numbers, and goes on; the text is made on the other thread. Nobody asks, nothing is
//! done. If the loop does not lay down its numbers within a second, it is stuck, and `/health` says so.

mod exposition;
mod metrics;
mod snapshot;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use krarup_net::http::{self, Answer};
use krarup_net::{Address, mio};

pub use metrics::{Metric, TABLE, page};
pub use snapshot::Snapshot;

/// How long the loop may take to lay down its numbers before it counts as stuck.
const STUCK: Duration = Duration::from_secs(1);

/// Where the loop lays down its numbers when it is asked to.
pub struct Board {
    wanted: AtomicBool,
    laid: Mutex<Option<Arc<Snapshot>>>,
    there: Condvar,
    wake: Box<dyn Fn() + Send + Sync>,
    patience: Duration,
}

impl Board {
    /// A board that wakes the loop by `waker`.
    pub fn new(waker: Arc<mio::Waker>) -> Arc<Self> {
        // A loop that cannot be woken will be found stuck.
        Self::waking(STUCK, move || _ = waker.wake())
    }

    fn waking(patience: Duration, wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let (wanted, laid, there) = (AtomicBool::new(false), Mutex::new(None), Condvar::new());
        Arc::new(Self { wanted, laid, there, wake: Box::new(wake), patience })
    }

    /// Lays down numbers if somebody wants them. The loop calls this once in each pass.
    #[inline]
    pub fn lay(&self, numbers: impl FnOnce() -> Snapshot) {
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Acquire) {
            *self.laid.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(numbers()));
            self.there.notify_all();
        }
    }

    /// Numbers of this moment; none if the loop does not lay them down in time.
    fn ask(&self) -> Option<Arc<Snapshot>> {
        let mut laid = self.laid.lock().unwrap_or_else(PoisonError::into_inner);
        *laid = None;
        self.wanted.store(true, Ordering::Release);
        (self.wake)();
        let waited = self.there.wait_timeout_while(laid, self.patience, |laid| laid.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// Answers one path.
    fn answer(&self, path: &str) -> Answer {
        const PATHS: &str = "krarup proxy: /metrics for Prometheus, /health, /ready\n";
        if path == "/" {
            return Answer::text(200, PATHS);
        }
        if !["/metrics", "/health", "/ready"].contains(&path) {
            return Answer::text(404, PATHS);
        }
        let Some(snapshot) = self.ask() else {
            return Answer::text(503, "the event loop did not answer within a second\n");
        };
        match path {
            "/metrics" => {
                Answer { status: 200, kind: exposition::MEDIA_TYPE, body: exposition::exposition(&snapshot) }
            }
            "/health" => Answer::text(200, "ok\n"),
            _ => match snapshot.not_ready() {
                None => Answer::text(200, "ready\n"),
                Some(why) => Answer::text(503, format!("{why}\n")),
            },
        }
    }
}

/// Answers monitoring on `address` from what the loop lays down on `board`. Returns the address with the port it got.
///
/// # Errors
/// With the address and the reason, where it cannot be listened on.
pub fn serve(address: &Address, board: Arc<Board>) -> Result<Address, String> {
    http::serve(address, move |path| board.answer(path)).map_err(|why| format!("`admin`: {why}"))
}
