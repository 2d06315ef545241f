//! The admin address: `/metrics`, `/health`, `/ready`, `/headroom`; of the proxy `/hotkeys`,
//! `/clients` and `/redline`, of the broker `/tubes`; and `/reload`, which is posted.
//!
//! ```text
//!   monitoring ──GET──▶ admin thread ──wants──▶ [slot] ──wakes──▶ event loop
//!              ◀─text──      formats  ◀─snapshot─ [slot] ◀─numbers──┘
//! ```
//!
//! The loop never waits: it is woken, lays down numbers, and goes on; the text is made on the other
//! thread. Without requests nothing is done. A loop that does not lay down its numbers within a
//! second is stuck, and `/health` says so.

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use krarup_model::headroom::Headroom;
use krarup_net::http::{self, HttpMethod, HttpQuery, HttpResponse};
use krarup_net::snapshots::lock;
use krarup_net::tls::Acceptor;
use krarup_record::exposition::{MEDIA_TYPE, ProcessMetrics};
use krarup_units::{Address, Mistake};

use crate::clients::LiveClients;
use crate::headroom::{LiveHeadroom, json};
use crate::process::process;
use crate::redline::LiveRedline;

/// The numbers of one moment, as a loop lays them down.
pub(crate) trait Monitored: Send + Sync + 'static {
    /// Where it answers more, by [`Self::report`].
    const PATHS: &'static [&'static str] = &[];

    /// Why no more clients should be sent here; none if they should.
    fn not_ready(&self) -> Option<String>;

    /// Every metric as Prometheus reads it, with what is known of the headroom.
    fn metrics(&self, process: &ProcessMetrics, headroom: Option<&Headroom>) -> String;

    /// What it answers in JSON at one of [`Self::PATHS`].
    fn report(&self, _path: &str) -> serde_json::Result<String> {
        Ok(String::new())
    }
}

impl Monitored for krarup_proxy::metrics::ProxySnapshot {
    const PATHS: &'static [&'static str] = &["/hotkeys"];

    fn not_ready(&self) -> Option<String> {
        self.not_ready()
    }

    fn metrics(&self, process: &ProcessMetrics, headroom: Option<&Headroom>) -> String {
        krarup_proxy::metrics::exposition(self, process, headroom)
    }

    fn report(&self, _: &str) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&self.hot_keys())
    }
}

impl Monitored for krarup_broker::metrics::BrokerSnapshot {
    const PATHS: &'static [&'static str] = &["/tubes"];

    fn not_ready(&self) -> Option<String> {
        self.not_ready().map(str::to_owned)
    }

    fn metrics(&self, process: &ProcessMetrics, headroom: Option<&Headroom>) -> String {
        krarup_broker::metrics::exposition(self, process, headroom)
    }

    fn report(&self, _: &str) -> serde_json::Result<String> {
        serde_json::to_string_pretty(&self.tubes())
    }
}

/// The numbers of this moment; none if a loop is stuck.
type Ask<T> = Box<dyn Fn() -> Option<Arc<T>> + Send + Sync>;

/// What monitoring is answered from, and what it may have done.
pub(crate) struct Monitoring<T> {
    /// The program that is asked, as its user calls it.
    pub(crate) program: &'static str,
    pub(crate) ask: Ask<T>,
    /// Answers about headroom; none: what it takes is not kept.
    pub(crate) headroom: Option<Arc<LiveHeadroom>>,
    /// Answers about clients; none: what they ask for is not counted.
    pub(crate) clients: Option<LiveClients>,
    /// Gives one server more and more of the reads; none: reads are not moved here.
    pub(crate) redline: Option<Arc<LiveRedline>>,
    /// None: there is no configuration to read again.
    pub(crate) reload: Option<Arc<Reload>>,
}

/// Reads the configuration again, or the certificate.
pub(crate) struct Reload {
    /// What is read again.
    pub(crate) what: &'static str,
    /// Says what came of it, and a warning where that does no good.
    pub(crate) reload: Box<dyn Fn() -> Result<Option<String>, Mistake> + Send + Sync>,
    /// Held by the one reload that may wait for the loop.
    pub(crate) alone: Mutex<()>,
}

impl<T: Monitored> Monitoring<T> {
    fn answer(&self, method: HttpMethod, path: &str, query: HttpQuery<'_>) -> HttpResponse {
        match (method, path) {
            (HttpMethod::Get, "/") => HttpResponse::text(200, self.paths()),
            (HttpMethod::Get, "/metrics" | "/health" | "/ready") => self.tell(path),
            (HttpMethod::Get, _) if T::PATHS.contains(&path) => self.tell(path),
            (_, "/" | "/metrics" | "/health" | "/ready") => HttpResponse::text(405, self.paths()),
            _ if T::PATHS.contains(&path) => HttpResponse::text(405, self.paths()),
            (_, "/headroom") => match (&self.headroom, method) {
                (Some(headroom), HttpMethod::Get) => headroom.respond(query),
                (Some(_), _) => HttpResponse::text(405, self.paths()),
                (None, _) => HttpResponse::text(404, self.paths()),
            },
            (_, "/clients") => match (&self.clients, method) {
                (Some(clients), HttpMethod::Get) => clients.respond(),
                (Some(_), _) => HttpResponse::text(405, self.paths()),
                (None, _) => HttpResponse::text(404, self.paths()),
            },
            (_, "/redline") => match &self.redline {
                Some(redline) => redline.respond(method, query),
                None => HttpResponse::text(404, self.paths()),
            },
            (_, "/reload") => match (&self.reload, method) {
                (Some(reload), HttpMethod::Post) => reload.once(),
                (Some(_), _) => HttpResponse::text(405, self.paths()),
                (None, _) => HttpResponse::text(404, self.paths()),
            },
            _ => HttpResponse::text(404, self.paths()),
        }
    }

    /// What may be asked.
    fn paths(&self) -> String {
        let reload = self.reload.as_ref();
        let reload =
            reload.map_or_else(String::new, |it| format!("; POST /reload reads the {} again", it.what));
        let headroom = if self.headroom.is_some() { ", /headroom" } else { "" };
        let clients = if self.clients.is_some() { ", /clients" } else { "" };
        let own: String = T::PATHS.iter().map(|path| format!(", {path}")).collect();
        let redline = if self.redline.is_some() { "; POST, GET, DELETE /redline" } else { "" };
        let read = format!("GET /metrics for Prometheus, /health, /ready{headroom}{clients}{own}");
        format!("{}: {read}{reload}{redline}\n", self.program)
    }

    fn tell(&self, path: &str) -> HttpResponse {
        let Some(numbers) = (self.ask)() else {
            return HttpResponse::text(503, "the event loop did not answer within a second\n");
        };
        match path {
            "/metrics" => {
                // Of the moment of the numbers: an answer about headroom may take a while.
                let process = process();
                let headroom = self.headroom.as_ref().and_then(|headroom| headroom.for_metrics());
                let body = numbers.metrics(&process, headroom.as_deref());
                HttpResponse { status: 200, kind: MEDIA_TYPE, body }
            }
            "/health" => HttpResponse::text(200, "ok\n"),
            _ if T::PATHS.contains(&path) => json(numbers.report(path)),
            _ => match numbers.not_ready() {
                None => HttpResponse::text(200, "ready\n"),
                Some(why) => HttpResponse::text(503, format!("{why}\n")),
            },
        }
    }
}

impl Reload {
    /// Reads the files of a certificate again.
    fn of_certificate(acceptor: Acceptor) -> Self {
        let reload = Box::new(move || acceptor.reload());
        Self { what: "certificate", reload, alone: Mutex::default() }
    }

    /// Reloads, unless another request does: each would take a thread that monitoring needs.
    fn once(&self) -> HttpResponse {
        let Ok(_alone) = self.alone.try_lock() else {
            return HttpResponse::text(409, "a reload is under way; ask again when it is done\n");
        };
        match (self.reload)() {
            Ok(warning) => {
                let warning = warning.map_or_else(String::new, |warning| format!("warning: {warning}\n"));
                let told = format!("the {} was read again and holds from now on\n{warning}", self.what);
                HttpResponse::text(200, told)
            }
            Err(why) => HttpResponse::text(409, format!("{why}; the {} before goes on\n", self.what)),
        }
    }
}

/// Answers a request.
type Answer = dyn Fn(HttpMethod, &str, HttpQuery<'_>) -> HttpResponse + Send + Sync;

/// An admin address of a broker that is there from the beginning: while nothing is served, since
/// another broker owns the queues or they are being loaded, it says that the process is well and
/// not ready, and why.
#[derive(Clone)]
pub struct AdminAddress {
    /// Where it listens, with the port it got.
    pub address: Address,
    state: Arc<Mutex<AdminState>>,
    /// It listens as long as one of the copies is there.
    _server: Arc<http::HttpServer>,
}

#[derive(Clone)]
struct AdminState {
    /// What is served; none yet, or no longer.
    served: Option<Arc<Answer>>,
    /// Why nothing is.
    waits_for: String,
    /// Whether clients should be sent here all the same.
    takes_clients: bool,
    /// Reads the certificate again, served or not; none: clients speak no TLS.
    reload: Option<Arc<Reload>>,
}

impl AdminAddress {
    /// Listens at `address`, which `setting` gave; nothing is served yet, for that reason. The
    /// files of `certificate` may be read again from now on.
    ///
    /// # Errors
    /// With the setting, the address and the reason, where it cannot be listened on.
    pub fn listen(
        address: &Address,
        setting: &str,
        waits_for: &str,
        certificate: Option<&Acceptor>,
    ) -> Result<Self, Mistake> {
        let reload = certificate.map(|acceptor| Arc::new(Reload::of_certificate(acceptor.clone())));
        let waits_for = waits_for.to_owned();
        let state = AdminState { served: None, waits_for, takes_clients: false, reload };
        let state = Arc::new(Mutex::new(state));
        let asked = Arc::clone(&state);
        let answer = move |method, path: &str, query: HttpQuery<'_>| {
            let state = lock(&asked).clone();
            match &state.served {
                Some(served) => served(method, path, query),
                None => unserved(method, path, query, &state),
            }
        };
        let server = http::serve(address, answer).map_err(|why| why.within(setting))?;
        Ok(Self { address: server.address.clone(), state, _server: Arc::new(server) })
    }

    /// Why nothing is served from now on, until something is.
    pub fn waits_for(&self, what: &str) {
        what.clone_into(&mut lock(&self.state).waits_for);
    }

    /// Whether `/ready` says from now on that clients should be sent here also while nothing is
    /// served: other brokers own this shard, and this one takes the clients of all shards.
    pub fn takes_clients(&self, takes: bool) {
        lock(&self.state).takes_clients = takes;
    }

    /// Reads the certificate again; none: clients speak no TLS.
    pub(crate) fn reload(&self) -> Option<Arc<Reload>> {
        lock(&self.state).reload.clone()
    }

    /// Answers from what is served, until what is returned is dropped.
    pub(crate) fn show<T: Monitored>(&self, monitoring: Monitoring<T>) -> ShownMonitoring {
        let answer = move |method, path: &str, query: HttpQuery<'_>| monitoring.answer(method, path, query);
        let served: Arc<Answer> = Arc::new(answer);
        lock(&self.state).served = Some(Arc::clone(&served));
        ShownMonitoring { state: Arc::clone(&self.state), served }
    }
}

impl std::fmt::Debug for AdminAddress {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_tuple("AdminAddress").field(&self.address).finish()
    }
}

/// What an admin address answers from, until this is dropped.
pub(crate) struct ShownMonitoring {
    state: Arc<Mutex<AdminState>>,
    served: Arc<Answer>,
}

impl Drop for ShownMonitoring {
    fn drop(&mut self) {
        // An engine that was given up may end after its successor has begun.
        let mut state = lock(&self.state);
        if state.served.as_ref().is_some_and(|served| Arc::ptr_eq(served, &self.served)) {
            state.served = None;
        }
    }
}

/// A broker that serves nothing, for this reason.
struct Unserved(String);

impl Monitored for Unserved {
    fn not_ready(&self) -> Option<String> {
        Some(self.0.clone())
    }

    fn metrics(&self, process: &ProcessMetrics, _: Option<&Headroom>) -> String {
        krarup_broker::metrics::waiting(process)
    }
}

/// What a broker answers while it serves nothing: as ever where every service answers, and of its
/// certificate, which its clients see later; elsewhere the reason. One that takes clients all the
/// same is ready.
fn unserved(method: HttpMethod, path: &str, query: HttpQuery<'_>, state: &AdminState) -> HttpResponse {
    let why = state.waits_for.clone();
    if state.takes_clients && (method, path) == (HttpMethod::Get, "/ready") {
        return HttpResponse::text(200, format!("ready for clients: {why}\n"));
    }
    if !["/", "/metrics", "/health", "/ready", "/reload"].contains(&path) {
        return HttpResponse::text(503, format!("{why}\n"));
    }
    let numbers = Arc::new(Unserved(why));
    let ask: Ask<Unserved> = Box::new(move || Some(Arc::clone(&numbers)));
    let program = "krarup broker: nothing is served yet";
    let reload = state.reload.clone();
    let monitoring = Monitoring { program, ask, headroom: None, clients: None, redline: None, reload };
    monitoring.answer(method, path, query)
}

/// Answers monitoring on `address` until what is returned is dropped. `setting` is what gave the
/// address.
///
/// # Errors
/// With the setting, the address and the reason, where it cannot be listened on.
pub(crate) fn serve<T: Monitored>(
    address: &Address,
    setting: &str,
    monitoring: Monitoring<T>,
) -> Result<http::HttpServer, Mistake> {
    http::serve(address, move |method, path, query| monitoring.answer(method, path, query))
        .map_err(|why| why.within(setting))
}
