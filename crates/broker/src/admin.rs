//! What monitoring asks, beside the loop: `/metrics` for Prometheus, `/health` and `/ready`.

use std::fmt::{Display, Write};
use std::sync::Arc;

use krarup_net::Address;
use krarup_net::board::Board;
use krarup_net::http::{self, Answer, Method};
use krarup_record::{Operation, Tally};
use krarup_units::{Nanos, Stamp};

use crate::broker::Broker;
use crate::queues::Totals;
use crate::statistics::Service;

const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The numbers of one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    totals: Totals,
    tubes: u64,
    memory: u64,
    service: Service,
    operations: Vec<(Operation, Tally)>,
    /// Whether the store can be reached and takes what it is given; a memory always does.
    store_takes: bool,
    stopping: bool,
}

impl Snapshot {
    /// The numbers now.
    pub fn of(broker: &Broker, now: Stamp, store_takes: bool, stopping: bool) -> Self {
        let recorder = broker.recorder();
        let seen = Operation::ALL.iter().map(|&operation| (operation, recorder.total(operation)));
        Self {
            totals: broker.queues().totals(),
            tubes: broker.queues().tube_count() as u64,
            memory: broker.queues().memory_used(),
            service: broker.service(now),
            operations: seen.filter(|(_, tally)| tally.count > 0).collect(),
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

/// One number: its name, what it is, whether it only grows, and where it comes from.
type Number = (&'static str, &'static str, bool, fn(&Snapshot) -> u64);
/// Messages that stand somewhere.
type State = (&'static str, fn(&Totals) -> u64);
/// One number of each operation.
type OfOperation = (&'static str, &'static str, fn(&Tally) -> f64);

const NUMBERS: [Number; 14] = [
    ("krarup_broker_clients", "Clients connected now.", false, |now| now.totals.connections),
    ("krarup_broker_clients_waiting", "Clients that wait for a message.", false, |now| now.totals.waiting),
    ("krarup_broker_tubes", "Tubes there are.", false, |now| now.tubes),
    ("krarup_broker_messages_put_total", "Messages that were put.", true, |now| now.totals.jobs),
    ("krarup_broker_leases_expired_total", "Leases that ran out.", true, |now| now.totals.timeouts),
    ("krarup_broker_memory_bytes", "Memory that messages are counted with.", false, |now| now.memory),
    ("krarup_broker_unanswered", "Requests that wait for a commit or a message.", false, |now| {
        now.service.unanswered
    }),
    ("krarup_broker_commits_total", "Batches committed.", true, |now| now.service.commits),
    ("krarup_broker_written_total", "Messages written or deleted by batches.", true, |now| {
        now.service.written
    }),
    (
        "krarup_broker_store_takes",
        "1 if the store can be reached and takes what it is given.",
        false,
        |now| u64::from(now.store_takes),
    ),
    ("krarup_broker_draining", "1 if no more messages are accepted.", false, |now| {
        u64::from(now.service.draining)
    }),
    ("krarup_broker_uptime_seconds", "Since the start.", false, |now| now.service.uptime.0 / 1_000_000_000),
    ("krarup_broker_producers", "Clients that have put something.", false, |now| now.totals.producers),
    ("krarup_broker_workers", "Clients that have reserved something.", false, |now| now.totals.workers),
];

const STATES: [State; 5] = [
    ("ready", |totals| totals.ready),
    ("urgent", |totals| totals.urgent),
    ("reserved", |totals| totals.reserved),
    ("delayed", |totals| totals.delayed),
    ("buried", |totals| totals.buried),
];

const OF_OPERATIONS: [OfOperation; 6] = [
    ("krarup_broker_requests_total", "Requests answered.", |tally| tally.count as f64),
    ("krarup_broker_errors_total", "Requests answered with an error.", |tally| tally.errors as f64),
    ("krarup_broker_queue_seconds_total", "Time that requests waited for the store to be free.", |tally| {
        tally.queue_time.as_seconds()
    }),
    ("krarup_broker_store_seconds_total", "Time that the store took, its commit included.", |tally| {
        tally.server_time.as_seconds()
    }),
    ("krarup_broker_own_seconds_total", "The rest of the time, waiting for messages included.", |tally| {
        tally.own_time.as_seconds()
    }),
    ("krarup_broker_response_seconds_total", "The whole time.", |tally| tally.response_time.as_seconds()),
];

/// Answers monitoring on `address` from what the loop lays down, until what is returned is dropped.
///
/// # Errors
/// With the address and the reason, where it cannot be listened on.
pub(crate) fn serve(address: &Address, board: Arc<Board<Snapshot>>) -> Result<http::Server, String> {
    http::serve(address, move |method, path| answer(&board, method, path))
        .map_err(|why| format!("--admin: {why}"))
}

fn answer(board: &Arc<Board<Snapshot>>, method: Method, path: &str) -> Answer {
    const PATHS: &str = "krarup broker: GET /metrics for Prometheus, /health, /ready\n";
    match (method, path) {
        (Method::Get, "/") => Answer::text(200, PATHS),
        (Method::Get, "/metrics" | "/health" | "/ready") => {
            let numbers = Board::ask(std::slice::from_ref(board)).and_then(|mut all| all.pop());
            let Some(now) = numbers else {
                return Answer::text(503, "the event loop did not answer within a second\n");
            };
            match path {
                "/metrics" => Answer { status: 200, kind: MEDIA_TYPE, body: exposition(&now) },
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

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, help: &str, grows: bool) {
        let kind = if grows { "counter" } else { "gauge" };
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("a text takes all");
    }
}

fn exposition(now: &Snapshot) -> String {
    let mut text = Text(String::with_capacity(8 << 10));
    for (name, help, grows, value) in NUMBERS {
        text.head(name, help, grows);
        text.line(format_args!("{name} {}", value(now)));
    }
    text.head(
        "krarup_broker_messages",
        "Messages by where they stand; the urgent are among the ready.",
        false,
    );
    for (state, value) in STATES {
        text.line(format_args!("krarup_broker_messages{{state=\"{state}\"}} {}", value(&now.totals)));
    }
    for (name, help, value) in OF_OPERATIONS {
        text.head(name, help, true);
        for (operation, tally) in &now.operations {
            text.line(format_args!("{name}{{operation=\"{operation}\"}} {}", value(tally)));
        }
    }
    let processor: Nanos = now.service.processor;
    text.head("process_cpu_seconds_total", "Processor time of the process.", true);
    text.line(format_args!("process_cpu_seconds_total {}", processor.as_seconds()));
    text.0
}
