//! What monitoring asks, beside the loop: `/metrics`, `/health` and `/ready`; and `/reload`, which is posted.
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
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use krarup_net::http::{self, Answer, Method};
use krarup_net::{Address, mio};

pub use metrics::{Metric, TABLE, page};
pub use snapshot::Snapshot;

/// How long the loop may take to lay down its numbers before it counts as stuck.
const STUCK: Duration = Duration::from_secs(1);

/// Where a loop lays down its numbers when it is asked to.
pub struct Board<T> {
    wanted: AtomicBool,
    laid: Mutex<Option<T>>,
    there: Condvar,
    /// Who asks has the board for himself.
    asking: Mutex<()>,
    wake: Box<dyn Fn() + Send + Sync>,
    patience: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here is whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Board<T> {
    /// A board that wakes the loop by `waker`.
    pub fn new(waker: Arc<mio::Waker>) -> Arc<Self> {
        // A loop that cannot be woken will be found stuck.
        Self::waking(STUCK, move || _ = waker.wake())
    }

    fn waking(patience: Duration, wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            wanted: AtomicBool::new(false),
            laid: Mutex::new(None),
            there: Condvar::new(),
            asking: Mutex::new(()),
            wake: Box::new(wake),
            patience,
        })
    }

    /// Lays down numbers if somebody wants them. The loop calls this once in each pass.
    #[inline]
    pub fn lay(&self, numbers: impl FnOnce() -> T) {
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Acquire) {
            *lock(&self.laid) = Some(numbers());
            self.there.notify_all();
        }
    }

    /// Numbers of this moment from each of these boards; none if one of the loops does not lay them down in time. Whoever asks
    /// several names them in the same order.
    pub(crate) fn ask(boards: &[Arc<Self>]) -> Option<Vec<T>> {
        let _turns: Vec<_> = boards.iter().map(|board| lock(&board.asking)).collect();
        for board in boards {
            *lock(&board.laid) = None;
            board.wanted.store(true, Ordering::Release);
            (board.wake)();
        }
        boards.iter().map(|board| board.wait()).collect()
    }

    fn wait(&self) -> Option<T> {
        let nothing = |laid: &mut Option<T>| laid.is_none();
        let waited = self.there.wait_timeout_while(lock(&self.laid), self.patience, nothing);
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// What monitoring is answered from, and what it may have done.
pub(crate) struct Desk {
    /// The numbers of this moment; none if a loop is stuck.
    pub(crate) ask: Box<dyn Fn() -> Option<Snapshot> + Send>,
    /// Has the configuration read again, and says what came of it.
    pub(crate) reload: Box<dyn Fn() -> Result<(), String> + Send>,
}

impl Desk {
    fn answer(&self, method: Method, path: &str) -> Answer {
        const PATHS: &str = "krarup proxy: GET /metrics for Prometheus, /health, /ready; POST /reload reads the configuration again\n";
        match (method, path) {
            (Method::Get, "/") => Answer::text(200, PATHS),
            (Method::Get, "/metrics" | "/health" | "/ready") => self.tell(path),
            (Method::Post, "/reload") => match (self.reload)() {
                Ok(()) => Answer::text(200, "the configuration was read again and holds from now on\n"),
                Err(why) => Answer::text(409, format!("{why}; the configuration before goes on\n")),
            },
            (_, "/" | "/metrics" | "/health" | "/ready" | "/reload") => Answer::text(405, PATHS),
            _ => Answer::text(404, PATHS),
        }
    }

    fn tell(&self, path: &str) -> Answer {
        let Some(snapshot) = (self.ask)() else {
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

/// Answers monitoring on `address` until what is returned is dropped.
///
/// # Errors
/// With the address and the reason, where it cannot be listened on.
pub(crate) fn serve(address: &Address, desk: Desk) -> Result<http::Server, String> {
    http::serve(address, move |method, path| desk.answer(method, path))
        .map_err(|why| format!("`admin`: {why}"))
}
