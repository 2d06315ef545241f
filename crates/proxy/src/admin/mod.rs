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

use std::sync::{Arc, Mutex};

use krarup_net::Address;
use krarup_net::http::{self, Answer, Method};

pub use krarup_net::board::{Board, Boards};
pub use metrics::{Metric, TABLE, page};
pub use snapshot::Snapshot;

/// What monitoring is answered from, and what it may have done.
pub(crate) struct Desk {
    /// The numbers of this moment; none if a loop is stuck.
    pub(crate) ask: Box<dyn Fn() -> Option<Arc<Snapshot>> + Send + Sync>,
    /// Has the configuration read again, and says what came of it.
    pub(crate) reload: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Held by the one reload that may wait for the loop.
    pub(crate) reloading: Mutex<()>,
}

impl Desk {
    fn answer(&self, method: Method, path: &str) -> Answer {
        const PATHS: &str = "krarup proxy: GET /metrics for Prometheus, /health, /ready; POST /reload reads the configuration again\n";
        match (method, path) {
            (Method::Get, "/") => Answer::text(200, PATHS),
            (Method::Get, "/metrics" | "/health" | "/ready") => self.tell(path),
            (Method::Post, "/reload") => self.reload_once(),
            (_, "/" | "/metrics" | "/health" | "/ready" | "/reload") => Answer::text(405, PATHS),
            _ => Answer::text(404, PATHS),
        }
    }

    /// Reloads, unless another request does: each would take a thread that monitoring needs.
    fn reload_once(&self) -> Answer {
        let Ok(_alone) = self.reloading.try_lock() else {
            return Answer::text(409, "a reload is under way; ask again when it is done\n");
        };
        match (self.reload)() {
            Ok(()) => Answer::text(200, "the configuration was read again and holds from now on\n"),
            Err(why) => Answer::text(409, format!("{why}; the configuration before goes on\n")),
        }
    }

    fn tell(&self, path: &str) -> Answer {
        let Some(snapshot) = (self.ask)() else {
            return Answer::text(503, "the event loop did not answer within a second\n");
        };
        match path {
            "/metrics" => Answer {
                status: 200,
                kind: krarup_record::exposition::MEDIA_TYPE,
                body: exposition::exposition(&snapshot),
            },
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
