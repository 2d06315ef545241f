//! What monitoring asks, beside the loop: `/metrics` for Prometheus, `/health` and `/ready`.

use std::sync::Arc;

use krarup_net::Address;
use krarup_net::board::{Board, Boards};
use krarup_net::http::{self, Answer, Method};
use krarup_record::exposition::{MEDIA_TYPE, OfOperation, Times};
use krarup_units::Stamp;

use crate::batches::Sizes;
use crate::broker::Broker;
use crate::queues::Totals;
use crate::statistics::Service;

mod metrics;

pub use metrics::{Metric, TABLE, page};

/// The numbers of one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    totals: Totals,
    tubes: u64,
    memory: u64,
    service: Service,
    operations: Vec<OfOperation>,
    /// Requests that wait for the store, and those that are with it.
    waiting: u64,
    with_store: u64,
    /// Connections to the store at work.
    busy: u64,
    statements: Times,
    batches: Sizes,
    /// Whether the store can be reached and takes what it is given; a memory always does.
    store_takes: bool,
    stopping: bool,
}

impl Snapshot {
    /// The numbers now.
    pub fn of(broker: &Broker, now: Stamp, store_takes: bool, stopping: bool) -> Self {
        let load = broker.store_load();
        Self {
            totals: broker.queues().totals(),
            tubes: broker.queues().tube_count() as u64,
            memory: broker.queues().memory_used(),
            service: broker.service(now),
            operations: OfOperation::seen(broker.recorder()),
            waiting: load.waiting,
            with_store: load.asked,
            busy: load.busy,
            statements: Times::of(&broker.batches().times, true),
            batches: broker.batches().sizes(),
            store_takes,
            stopping,
        }
    }

    fn not_ready(&self) -> Option<&'static str> {
        if self.stopping {
            Some("stopping")
        } else if !self.store_takes {
            Some("the database cannot be reached, or refuses what is to be written")
        } else if self.service.draining {
            Some("draining: no more messages are accepted")
        } else {
            None
        }
    }
}

/// Answers monitoring on `address` from what the loop lays down, until what is returned is dropped.
///
/// # Errors
/// With the address and the reason, where it cannot be listened on.
pub(crate) fn serve(address: &Address, board: Arc<Board<Snapshot>>) -> Result<http::Server, String> {
    let boards = Boards::of(board);
    http::serve(address, move |method, path| answer(&boards, method, path))
        .map_err(|why| format!("--admin: {why}"))
}

fn answer(boards: &Boards<Snapshot>, method: Method, path: &str) -> Answer {
    const PATHS: &str = "krarup broker: GET /metrics for Prometheus, /health, /ready\n";
    match (method, path) {
        (Method::Get, "/") => Answer::text(200, PATHS),
        (Method::Get, "/metrics" | "/health" | "/ready") => {
            let Some(now) = boards.ask() else {
                return Answer::text(503, "the event loop did not answer within a second\n");
            };
            match path {
                "/metrics" => Answer { status: 200, kind: MEDIA_TYPE, body: metrics::exposition(&now) },
                "/health" => Answer::text(200, "ok\n"),
                _ => match now.not_ready() {
                    None => Answer::text(200, "ready\n"),
                    Some(why) => Answer::text(503, format!("{why}\n")),
                },
            }
        }
        (Method::Post, "/" | "/metrics" | "/health" | "/ready") => Answer::text(405, PATHS),
        _ => Answer::text(404, PATHS),
    }
}
