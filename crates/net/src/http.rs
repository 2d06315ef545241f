//! HTTP/1.1 for the admin address and for a live report: `GET`, `HEAD`, `POST` and `DELETE` without
//! a body, one answer for each connection, on a thread of its own. One path may be a stream of
//! [`events`].
//!
//! A connection never waits for another one. Everything is bounded: 256 connections at once, a
//! request line and headers of 8 KiB at most, two seconds until they begin and two more until they
//! end, 90 seconds until the answer is taken, unless it is a stream. Where all places are taken, a
//! new connection takes the place of the one that has been silent for longest, so that connections
//! which send nothing cannot keep monitoring out.

pub mod events;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use futures_util::future::select;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};

use krarup_units::mistake::system_words;
use krarup_units::{Address, Mistake};

use self::events::{EventListener, HttpEvents};
use crate::connect_any;
use crate::listen::{listen, refused};
use crate::snapshots::lock;

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 8 << 10;
/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: u64 = 16 << 20;
/// How long a client may take to begin its request, and then to end its head.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a connection may last, until its answer is taken: a reload answers within a minute.
const LONGEST: Duration = Duration::from_secs(90);
/// The most connections at once. Each answer is made on a thread of its own, because it may wait
/// for an event loop: were there fewer of these, one that waits would hold another.
const CONNECTIONS: usize = 256;
/// How long such a thread waits for its next answer, which is as good as for ever. The first is
/// begun with the server: where all had ended and the system gives no other, there would be no
/// answer at all.
const KEPT: Duration = Duration::from_secs(365 * 86_400);
/// With these a service says in its first line why it refuses.
const WITH_REASON: [u16; 5] = [400, 403, 409, 422, 503];

/// What a path is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    /// 200, 400, 403, 404, 405, 409 or 503.
    pub status: u16,
    /// The media type.
    pub kind: &'static str,
    /// What is sent; not to `HEAD`.
    pub body: String,
}

impl HttpResponse {
    /// Plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// What is asked of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// To read something (`GET`, or `HEAD`, which gets the head of the reply alone).
    Get,
    /// To have something done.
    Post,
    /// To have something ended.
    Delete,
}

/// What is asked, beside the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpQuery<'a> {
    /// What stands behind the `?`, as it came; empty where nothing does.
    pub text: &'a str,
    /// Whether a page is asked for: a browser says so.
    pub page: bool,
}

impl HttpQuery<'_> {
    /// The parameters, decoded, in their order: `target=p99%3C8ms` is `target` and `p99<8ms`. What
    /// is no UTF-8 is replaced.
    pub fn parameters(&self) -> Vec<(String, String)> {
        let pairs = self.text.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .collect()
    }
}

/// A text as it may stand in a query.
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The text that was encoded; what is no encoding stays as it is.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |place: usize| bytes.get(place).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut place) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(&byte) = bytes.get(place) {
        match (byte, digit(place + 1), digit(place + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                place += 2;
            }
            (b'+', ..) => out.push(b' '),
            _ => out.push(byte),
        }
        place += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Answers requests until it is dropped; answers that are being made are still given then.
#[derive(Debug)]
pub struct HttpServer {
    /// Where it listens, with the port it got.
    pub address: Address,
    over: Arc<Notify>,
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.over.notify_one();
    }
}

/// Makes an answer of a method, a path and its query.
trait Answers: Fn(HttpMethod, &str, HttpQuery<'_>) -> HttpResponse + Send + Sync + 'static {}
impl<F: Fn(HttpMethod, &str, HttpQuery<'_>) -> HttpResponse + Send + Sync + 'static> Answers for F {}

/// Listens on `address` and answers each request by what `answer` makes of its method, its path and
/// its query, on threads of its own: `answer` may wait. `POST` without a body is taken,
/// unless a page in a browser sends it; nothing is done with a body.
///
/// # Errors
/// With the address and the reason, where it cannot be listened on.
pub fn serve(
    address: &Address,
    answer: impl Fn(HttpMethod, &str, HttpQuery<'_>) -> HttpResponse + Send + Sync + 'static,
) -> Result<HttpServer, Mistake> {
    serve_all(address, answer, None)
}

/// As [`serve`], and `GET` of the path of these events is answered with them.
///
/// # Errors
/// As [`serve`].
pub fn serve_with_events(
    address: &Address,
    events: &HttpEvents,
    answer: impl Fn(HttpMethod, &str, HttpQuery<'_>) -> HttpResponse + Send + Sync + 'static,
) -> Result<HttpServer, Mistake> {
    serve_all(address, answer, Some(events.clone()))
}

fn serve_all(
    address: &Address,
    answer: impl Answers,
    events: Option<HttpEvents>,
) -> Result<HttpServer, Mistake> {
    let wrong = |error: io::Error| refused(address, &error);
    let listener: TcpListener = listen(address)?.into();
    let bound = listener.local_addr().map_err(wrong)?;
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(CONNECTIONS)
        .thread_keep_alive(KEPT)
        .build()
        .map_err(wrong)?;
    let over = Arc::new(Notify::new());
    let ended = Arc::clone(&over);
    let on_loopback = bound.ip().to_canonical().is_loopback();
    let own_name = on_loopback.then(|| address.host.clone());
    let site = ServedSite { answer: Arc::new(answer), events, own_name };
    let (begun, begins) = mpsc::channel();
    let serving = move || {
        // It panics where the system gives no thread.
        drop(runtime.spawn_blocking(|| {}));
        let _ = begun.send(());
        run(runtime, listener, &ended, &site);
    };
    thread::Builder::new().name("admin".into()).spawn(serving).map_err(wrong)?;
    begins.recv().map_err(|_| format!("cannot listen on {address}: no thread can be started"))?;
    Ok(HttpServer { address: bound.into(), over })
}

/// What requests are answered from.
struct ServedSite<A> {
    answer: Arc<A>,
    events: Option<HttpEvents>,
    /// Where it listens on loopback alone: the name of that in its configuration.
    own_name: Option<String>,
}

impl<A> Clone for ServedSite<A> {
    fn clone(&self) -> Self {
        Self {
            answer: Arc::clone(&self.answer),
            events: self.events.clone(),
            own_name: self.own_name.clone(),
        }
    }
}

fn run(runtime: Runtime, listener: TcpListener, over: &Notify, site: &ServedSite<impl Answers>) {
    runtime.block_on(async {
        let mut connections = Connections::default();
        select(pin!(accept(listener, &mut connections, site)), pin!(over.notified())).await;
        connections.end().await;
    });
    // An answer that still waits for an event loop is for a client that has gone.
    runtime.shutdown_background();
}

/// Accepts connections for ever.
async fn accept(listener: TcpListener, connections: &mut Connections, site: &ServedSite<impl Answers>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let spare = ReserveDescriptor::default();
    loop {
        spare.open();
        let accepted = match listener.accept().await {
            // No descriptors, most likely.
            Err(_) if spare.close() => poll_fn(|context| Poll::Ready(listener.poll_accept(context))).await,
            accepted => Poll::Ready(accepted),
        };
        match accepted {
            Poll::Ready(Ok((stream, _))) => {
                let (site, spare) = (site.clone(), spare.clone());
                connections.add(|works| async move {
                    converse(stream, site, works).await;
                    spare.open();
                });
            }
            // They come back when something else is closed.
            Poll::Ready(Err(_)) => sleep(Duration::from_millis(100)).await,
            Poll::Pending => {}
        }
    }
}

/// A file descriptor that is kept for a connection which comes when there is no other: monitoring
/// is to tell that they are used up. Another part of the process may take it in the moment in which
/// it is given up or back: then the connection is refused, or waits until there is another one.
#[derive(Clone, Default)]
struct ReserveDescriptor(Arc<Mutex<Option<File>>>);

impl ReserveDescriptor {
    /// Keeps one, unless it does or there is none.
    fn open(&self) {
        let mut kept = lock(&self.0);
        if kept.is_none() {
            *kept = File::open("/dev/null").ok();
        }
    }

    /// Gives it up; whether there was one.
    fn close(&self) -> bool {
        lock(&self.0).take().is_some()
    }
}

/// The connections of this moment, the oldest first.
#[derive(Default)]
struct Connections(VecDeque<Connection>);

struct Connection {
    task: JoinHandle<()>,
    /// Whether its answer is being made.
    works: Arc<AtomicBool>,
}

impl Connections {
    /// Begins another conversation; where all places are taken, instead of the oldest one that
    /// nothing is being done for.
    fn add<F: Future<Output = ()> + Send + 'static>(&mut self, begin: impl FnOnce(Arc<AtomicBool>) -> F) {
        self.0.retain(|connection| !connection.task.is_finished());
        if self.0.len() >= CONNECTIONS {
            let silent = |connection: &Connection| !connection.works.load(Ordering::Relaxed);
            let Some(oldest) = self.0.iter().position(silent).and_then(|place| self.0.remove(place)) else {
                return;
            };
            oldest.task.abort();
        }
        let works = Arc::<AtomicBool>::default();
        let task = tokio::spawn(begin(Arc::clone(&works)));
        self.0.push_back(Connection { task, works });
    }

    /// Lets answers that are being made, or sent, leave.
    async fn end(self) {
        let all: Vec<AbortHandle> = self.0.iter().map(|connection| connection.task.abort_handle()).collect();
        let left = async {
            for connection in self.0 {
                let _ = connection.task.await;
            }
        };
        if timeout(PATIENCE, left).await.is_err() {
            all.iter().for_each(AbortHandle::abort);
        }
    }
}

/// The answer to a `<` or `>` in the address: hyper would refuse it without a word, and a target is
/// typed like that.
const UNENCODED: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\n\r\nin an address, write %3C for < and %3E for >, as in target=p99%3C8ms\n";

/// Whether a request begins with a line in which there is a `<` or `>`; none where nothing comes.
async fn is_unencoded(stream: &tokio::net::TcpStream) -> Option<bool> {
    let mut head = [0; 1024];
    let count = timeout(PATIENCE, stream.peek(&mut head)).await.ok()?.ok()?;
    let line = head[..count].split(|byte| *byte == b'\n').next()?;
    let methods = [&b"GET /"[..], b"HEAD /", b"POST /", b"DELETE /"];
    let is_asked = methods.iter().any(|method| line.starts_with(method));
    Some(is_asked && line.iter().any(|byte| matches!(byte, b'<' | b'>')))
}

/// One request and its answer.
async fn converse(mut stream: tokio::net::TcpStream, site: ServedSite<impl Answers>, works: Arc<AtomicBool>) {
    match is_unencoded(&stream).await {
        Some(false) => {}
        Some(true) => {
            // What is not read would reset the connection, and the answer would be lost.
            let _ = stream.read(&mut [0; LONGEST_HEAD]).await;
            let _ = timeout(PATIENCE, stream.write_all(UNENCODED.as_bytes())).await;
            return;
        }
        None => return,
    }
    let ServedSite { answer, events, own_name } = site;
    // A browser that closes a stream of events is seen by that alone, so half of a connection is
    // none then.
    let half_close = events.is_none();
    let listens = Arc::<AtomicBool>::default();
    // What is loaded is under way from its request on, until the last of it has left.
    let loads = OnceLock::new();
    let service = service_fn(|request: Request<Incoming>| {
        let (answer, works) = (Arc::clone(&answer), Arc::clone(&works));
        let refused = own_name.as_ref().is_some_and(|own| is_by_another_name(request.headers(), own));
        let stream = events.as_ref().filter(|events| !refused && events.is_at(request.uri().path()));
        let is_get = request.method() == "GET";
        let stream = stream.filter(|_| is_get).map(HttpEvents::listen);
        listens.store(stream.is_some(), Ordering::Relaxed);
        if let Some(events) = events.as_ref().filter(|_| is_get && !refused && stream.is_none()) {
            loads.get_or_init(|| events.load());
        }
        async move {
            if let Some(stream) = stream {
                return Ok(events_response(stream));
            }
            if refused {
                return Ok(whole_response(response(HttpResponse::text(403, BY_ANOTHER_NAME))));
            }
            works.store(true, Ordering::Relaxed);
            let (head, _) = request.into_parts();
            let made = spawn_blocking(move || {
                let method = head.method.as_str();
                respond(method, &head.uri, &head.headers, &*answer)
            });
            let made = made.await;
            works.store(false, Ordering::Relaxed);
            // It panicked, and the log says why.
            let made =
                made.unwrap_or_else(|_| response(HttpResponse::text(500, "this answer could not be made\n")));
            Ok::<_, Infallible>(whole_response(made))
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(LONGEST_HEAD);
    http.keep_alive(false).half_close(half_close).auto_date_header(false).title_case_headers(true);
    // A client that goes away in the middle is of no concern to another one.
    let mut conversation = pin!(http.serve_connection(TokioIo::new(stream), service));
    // A stream of events lasts as long as its listener does.
    while timeout(LONGEST, &mut conversation).await.is_err() && listens.load(Ordering::Relaxed) {}
}

/// The body of an answer: text, or events as they come.
enum HttpBody {
    Whole(Option<Bytes>),
    Events(EventListener),
}

impl Body for HttpBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match &mut *self {
            Self::Whole(body) => Poll::Ready(body.take()),
            Self::Events(listener) => listener.poll_next(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

fn whole_response(made: Response<String>) -> Response<HttpBody> {
    made.map(|body| HttpBody::Whole(Some(body.into())))
}

fn events_response(listener: EventListener) -> Response<HttpBody> {
    let mut made = Response::new(HttpBody::Events(listener));
    made.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    made.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    made
}

/// The answer to a request.
fn respond(
    method: &str,
    uri: &Uri,
    headers: &HeaderMap,
    answer: &impl Fn(HttpMethod, &str, HttpQuery<'_>) -> HttpResponse,
) -> Response<String> {
    let (asked, others) = match method {
        "GET" | "HEAD" => (HttpMethod::Get, "POST, DELETE"),
        // A page of any site can have its reader's browser post to an address that only the reader
        // reaches.
        "POST" | "DELETE" if is_from_a_page(headers) => {
            let why = format!("a page in a browser may not do this: use curl -X {method}\n");
            return response(HttpResponse::text(403, why));
        }
        "POST" => (HttpMethod::Post, "GET, HEAD"),
        "DELETE" => (HttpMethod::Delete, "GET, HEAD"),
        _ => {
            let mut refused =
                response(HttpResponse::text(405, "only GET, HEAD, POST and DELETE are answered\n"));
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, DELETE"));
            return refused;
        }
    };
    let accepts = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    let query = HttpQuery { text: uri.query().unwrap_or_default(), page: accepts.contains("text/html") };
    let answer = answer(asked, uri.path(), query);
    let mut made = response(answer);
    if made.status() == StatusCode::METHOD_NOT_ALLOWED {
        made.headers_mut().insert(ALLOW, HeaderValue::from_static(others));
    }
    made
}

/// Whether a browser says that a page sent this request: what a person types or a program sends
/// carries neither header.
fn is_from_a_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.get("sec-fetch-site").is_some_and(|site| site != "none")
}

/// The answer to one that asks by such a name.
const BY_ANOTHER_NAME: &str = "on loopback only a Host that is a number, localhost or the configured name is answered: \
    use http://localhost, or curl -H 'Host: localhost'\n";

/// Whether a request is for a host of another name than `localhost` or its `own`: a page of any
/// site can have the name of its host lead to its reader's loopback, and would be allowed to read
/// the answer.
fn is_by_another_name(headers: &HeaderMap, own: &str) -> bool {
    let Some(host) = headers.get(HOST).filter(|host| !host.is_empty()) else { return false };
    let host = host.to_str().unwrap_or_default();
    let end = if host.starts_with('[') { ']' } else { ':' };
    let name = host.trim_start_matches('[').split(end).next().unwrap_or_default();
    let known = ["localhost", own].into_iter().any(|known| name.eq_ignore_ascii_case(known));
    !known && name.parse::<IpAddr>().is_err()
}

fn response(answer: HttpResponse) -> Response<String> {
    let mut made = Response::new(answer.body);
    *made.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    made.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    made
}

/// Asks a server of this kind for a path; the body of its answer.
///
/// # Errors
/// In plain words, with the address: where it cannot be asked, or answers anything but 200.
pub fn get(address: &Address, path: &str) -> Result<String, Mistake> {
    get_within(address, path, PATIENCE)
}

/// As [`get`], and waits so long for the answer.
///
/// # Errors
/// As [`get`].
pub fn get_within(address: &Address, path: &str, limit: Duration) -> Result<String, Mistake> {
    ask("GET", address, path, limit).map_err(Mistake::from)
}

/// As [`get_within`], with this method: `GET`, `POST` or `DELETE`.
///
/// # Errors
/// As [`get`], and whether what was asked for may have been done.
pub fn ask(method: &str, address: &Address, path: &str, limit: Duration) -> Result<String, NoAnswer> {
    let failed =
        |error: &io::Error| Mistake::plain(format!("{address} cannot be asked: {}", system_words(error)));
    let lost = |why: String| NoAnswer::Lost(Mistake::plain(why));
    let no_http = || format!("what {address} answers is no HTTP");
    let found = crate::resolve(address).map_err(io::Error::other);
    let stream = found.and_then(|found| connect_any(&found, PATIENCE));
    let stream = stream.map_err(|error| NoAnswer::Unreached(failed(&error)))?;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut received = Vec::new();
    let exchanged = exchange(stream, &request, limit, &mut received);
    // A port of clients answers like that, and waits for more.
    if !b"HTTP/".starts_with(&received[..received.len().min(5)]) {
        return Err(NoAnswer::Unreached(Mistake::plain(no_http())));
    }
    exchanged.map_err(|error| NoAnswer::Lost(failed(&error)))?;
    if received.len() as u64 > LONGEST_ANSWER {
        let most = LONGEST_ANSWER >> 20;
        return Err(lost(format!("the answer of {address} is longer than {most} MiB")));
    }
    let head = end_of_head(&received).ok_or_else(|| lost(no_http()))?;
    let (head, body) = received.split_at(head);
    let head = String::from_utf8_lossy(head);
    let body = whole(&head, body);
    let body = body.ok_or_else(|| lost(format!("the answer of {address} ends in the middle")))?;
    let body = String::from_utf8_lossy(&body);
    let line = head.lines().next().unwrap_or_default();
    let other = format!("{address} answers {path} with `{line}`");
    match line.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok()) {
        Some(200) => Ok(body.into_owned()),
        Some(status) if WITH_REASON.contains(&status) => {
            let why = format!("{address}: {}", body.lines().next().unwrap_or(line));
            Err(NoAnswer::Status(status, Mistake::plain(why)))
        }
        Some(status) => Err(NoAnswer::Status(status, Mistake::plain(other))),
        None => Err(lost(other)),
    }
}

/// Sends a request; what comes until the connection ends is added to `received`.
fn exchange(mut stream: TcpStream, request: &str, limit: Duration, received: &mut Vec<u8>) -> io::Result<()> {
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    stream.take(LONGEST_ANSWER + 1).read_to_end(received).map(drop)
}

/// Why what was asked for did not come: in plain words, with the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nothing was asked: there is no connection, or what is there speaks no HTTP.
    Unreached(Mistake),
    /// It was asked, and no whole answer came: what was asked for may have been done.
    Lost(Mistake),
    /// It answered with this status, which is not 200.
    Status(u16, Mistake),
}

impl NoAnswer {
    /// What is wrong, with what would do if the address is the wrong one: not where what is there
    /// says itself why it refuses.
    pub fn or_hint(self, hint: &str) -> Mistake {
        let says_why = matches!(&self, Self::Status(status, _) if WITH_REASON.contains(status));
        let why = Mistake::from(self);
        if says_why || !why.hint.is_empty() { why } else { Mistake { hint: hint.to_owned(), ..why } }
    }
}

impl From<NoAnswer> for Mistake {
    fn from(why: NoAnswer) -> Self {
        match why {
            NoAnswer::Unreached(why) | NoAnswer::Lost(why) | NoAnswer::Status(_, why) => why,
        }
    }
}

/// The value of a field of a head.
fn field<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
}

/// Whether the body comes in chunks (RFC 9112, 7.1), as from a server that does not know the length
/// when it begins.
fn is_chunked(head: &str) -> bool {
    field(head, "transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
}

/// The body behind a head; none where not all of it has come.
fn whole(head: &str, rest: &[u8]) -> Option<Vec<u8>> {
    if is_chunked(head) {
        return unchunked(rest);
    }
    match field(head, "content-length").and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => rest.get(..length).map(<[u8]>::to_vec),
        None => Some(rest.to_vec()),
    }
}

/// The body without the sizes of its chunks; none where it has no end.
fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::with_capacity(rest.len());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        let chunk = rest.get(end + 2..)?;
        body.extend_from_slice(chunk.get(..size)?);
        rest = chunk.get(size..)?.strip_prefix(b"\r\n")?;
    }
}

/// Behind the empty line, if it has come.
fn end_of_head(head: &[u8]) -> Option<usize> {
    let crlf = head.windows(4).position(|four| four == b"\r\n\r\n").map(|place| place + 4);
    crlf.or_else(|| head.windows(2).position(|two| two == b"\n\n").map(|place| place + 2))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    fn answer(method: HttpMethod, path: &str, _: HttpQuery<'_>) -> HttpResponse {
        match (method, path) {
            (HttpMethod::Get, "/here") => HttpResponse::text(200, "well\n"),
            (HttpMethod::Post, "/do") => HttpResponse::text(200, "done\n"),
            (HttpMethod::Post, "/here") => HttpResponse::text(405, "only GET\n"),
            _ => HttpResponse::text(404, ""),
        }
    }

    fn begin(
        answer: impl Fn(HttpMethod, &str, HttpQuery<'_>) -> HttpResponse + Send + Sync + 'static,
    ) -> HttpServer {
        serve(&"127.0.0.1:0".parse().unwrap(), answer).unwrap()
    }

    fn connect(server: &HttpServer) -> TcpStream {
        TcpStream::connect(crate::resolve(&server.address).unwrap()[0]).unwrap()
    }

    /// All that comes for these bytes, until the connection ends.
    fn received(server: &HttpServer, bytes: &[u8]) -> String {
        let mut stream = connect(server);
        // It may end in the middle of what is sent, so that writing or reading fails.
        _ = stream.write_all(bytes);
        let mut received = Vec::new();
        _ = stream.read_to_end(&mut received);
        String::from_utf8(received).unwrap()
    }

    #[test]
    fn a_path_is_answered_without_its_query_and_head_without_its_body() {
        let server = begin(answer);
        let here = received(&server, b"GET /here?a=b HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, body) = here.split_once("\r\n\r\n").unwrap();
        assert_eq!((head.lines().next(), body), (Some("HTTP/1.1 200 OK"), "well\n"));
        for line in ["Content-Type: text/plain; charset=utf-8", "Content-Length: 5", "Connection: close"] {
            assert!(head.lines().any(|one| one == line), "{line}: {head}");
        }
        let head = received(&server, b"HEAD /here HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(head.contains("Content-Length: 5") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(received(&server, b"GET /there HTTP/1.0\r\n\r\n").contains(" 404 Not Found"));
    }

    #[test]
    fn an_answer_in_chunks_is_put_together_and_half_of_one_is_refused() {
        assert_eq!(unchunked(b"4\r\nwell\r\n3;note=x\r\n, A\r\n0\r\n\r\n").unwrap(), b"well, A");
        for half in [
            &b""[..],
            b"4\r\nwe",
            b"4\r\nwell\r\n",
            b"4\r\nwell0\r\n\r\n",
            b"x\r\n",
            b"ffffffffffffffff\r\na",
        ] {
            assert_eq!(unchunked(half), None, "{half:?}");
        }
        assert!(is_chunked("HTTP/1.1 200 OK\r\nTransfer-encoding: Chunked\r\n\r\n"));
        assert!(!is_chunked("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n"));
    }

    #[test]
    fn an_answer_that_is_shorter_than_it_says_is_refused() {
        let of_length =
            |length: usize| whole(&format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n"), b"well");
        assert_eq!((of_length(4), of_length(5)), (Some(b"well".to_vec()), None));
        assert_eq!(whole("HTTP/1.1 200 OK\r\n\r\n", b"well").unwrap(), b"well");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::from(listener.local_addr().unwrap());
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let asked = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
            asked
        });
        let why = get(&address, "/here").unwrap_err().to_string();
        assert!(why.contains("ends in the middle"), "{why}");
        assert!(peer.join().unwrap() > 0);
    }

    #[test]
    fn an_answer_that_is_longer_than_is_read_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::from(listener.local_addr().unwrap());
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let asked = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
            // It is not read to its end.
            _ = stream.write_all(&vec![b'x'; LONGEST_ANSWER as usize]);
            asked
        });
        let why = get(&address, "/here").unwrap_err().to_string();
        assert!(why.contains("is longer than 16 MiB"), "{why}");
        assert!(peer.join().unwrap() > 0);
    }

    #[test]
    fn what_may_have_been_done_is_no_refusal_and_a_refusal_has_its_own_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::from(listener.local_addr().unwrap());
        let peer = thread::spawn(move || {
            for answer in [
                "",
                "HTTP/1",
                "ERROR\r\n",
                "HTTP/1.1 409 Conflict\r\n\r\nnot now\n",
                "HTTP/1.1 404 Not Found\r\n\r\n",
            ] {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
                stream.write_all(answer.as_bytes()).unwrap();
            }
        });
        let post = || ask("POST", &address, "/do", Duration::from_secs(60)).unwrap_err();
        let no_http = Mistake::plain(format!("what {address} answers is no HTTP"));
        assert_eq!([post(), post()], [no_http.clone(), no_http.clone()].map(NoAnswer::Lost));
        assert_eq!(post(), NoAnswer::Unreached(no_http));
        let hinted = || post().or_hint("ask elsewhere").to_string();
        assert_eq!(hinted(), format!("{address}: not now"));
        assert_eq!(hinted(), format!("{address} answers /do with `HTTP/1.1 404 Not Found`; ask elsewhere"));
        peer.join().unwrap();
    }

    #[test]
    fn a_server_that_is_silent_is_given_up_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::from(listener.local_addr().unwrap());
        let why = get_within(&address, "/", Duration::from_millis(10)).unwrap_err().to_string();
        assert!(why.ends_with("cannot be asked: no answer in time"), "{why}");
    }

    #[test]
    fn a_query_is_decoded_and_a_browser_asks_for_a_page() {
        let server = begin(|_, _, query| {
            HttpResponse::text(200, format!("{} {:?}\n", query.page, query.parameters()))
        });
        let path = format!("/?target={}&what-if=server+a%20lost&%zz", encoded("p99 < 8µs&"));
        let expected = r#"[("target", "p99 < 8µs&"), ("what-if", "server a lost"), ("%zz", "")]"#;
        assert_eq!(get(&server.address, &path).unwrap(), format!("false {expected}\n"));
        let page = received(&server, b"GET /?a HTTP/1.1\r\nHost: localhost\r\nAccept: text/html,*/*\r\n\r\n");
        assert!(page.ends_with("true [(\"a\", \"\")]\n"), "{page}");
    }

    #[test]
    fn what_is_no_get_is_refused_and_what_is_no_http_too() {
        let server = begin(answer);
        let status = |bytes: &[u8]| received(&server, bytes).get(9..12).unwrap_or_default().to_owned();
        assert_eq!(status(b"POST /here HTTP/1.1\r\nHost: localhost\r\n\r\n"), "405");
        assert!(
            received(&server, b"PUT /here HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .contains("Allow: GET, HEAD, POST, DELETE")
        );
        assert_eq!(status(b"POST /do?now HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"), "200");
        // What a person types gets a hint.
        for method in ["GET", "HEAD", "POST", "DELETE"] {
            let head = format!("{method} /here?target=p99<8ms HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let typed = received(&server, head.as_bytes());
            assert!(typed.starts_with("HTTP/1.1 400 ") && typed.contains("%3C"), "{typed}");
        }
        for head in [&b"get key\r\n\r\n"[..], b"GET / here HTTP/1.1\r\n\r\n", b"\xff\xfe\r\n\r\n"] {
            assert_eq!(status(head), "400", "{}", head.escape_ascii());
        }
    }

    #[test]
    fn a_page_in_a_browser_cannot_post_and_a_person_can() {
        let server = begin(answer);
        let status = |more: &str| {
            received(&server, format!("POST /do HTTP/1.1\r\nHost: localhost\r\n{more}\r\n").as_bytes())[9..12]
                .to_owned()
        };
        assert_eq!(status(""), "200");
        assert_eq!(status("Sec-Fetch-Site: none\r\n"), "200");
        for page in ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"]
        {
            assert_eq!(status(page), "403", "{page}");
        }
    }

    #[test]
    fn on_loopback_only_a_number_or_localhost_is_answered() {
        let server = begin(answer);
        let status = |fields: &str| {
            received(&server, format!("GET /here HTTP/1.1\r\n{fields}\r\n").as_bytes())[9..12].to_owned()
        };
        let own = ["127.0.0.1:1", "127.0.0.1", "[::1]", "[::1]:1", "localhost:9", "LocalHost", ""];
        own.iter().for_each(|host| assert_eq!(status(&format!("Host: {host}\r\n")), "200", "{host}"));
        assert_eq!(status(""), "200");
        // A name that the operator has given it.
        assert!(!is_by_another_name(
            &HeaderMap::from_iter([(HOST, HeaderValue::from_static("own:1"))]),
            "own"
        ));
        for host in ["evil.example", "evil.example:80", "localhost.evil.example", "\u{e9}"] {
            assert_eq!(status(&format!("Host: {host}\r\n")), "403", "{host}");
        }
    }

    #[test]
    fn a_request_comes_in_pieces_and_another_client_gives_up() {
        let server = begin(answer);
        drop(connect(&server));
        for _ in 0..3 {
            let mut stream = connect(&server);
            for piece in ["GET /he", "re HTTP/1.1\r", "\nHost: localhost\r\n\r\n"] {
                stream.write_all(piece.as_bytes()).unwrap();
            }
            let mut received = String::new();
            stream.read_to_string(&mut received).unwrap();
            assert!(received.starts_with("HTTP/1.1 200 OK") && received.ends_with("well\n"), "{received}");
        }
    }

    #[test]
    fn a_client_that_sends_no_more_after_its_request_is_answered() {
        let server = begin(answer);
        let mut stream = connect(&server);
        stream.write_all(b"GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut received = String::new();
        stream.read_to_string(&mut received).unwrap();
        assert!(received.ends_with("well\n"), "{received}");
    }

    #[test]
    fn an_answer_that_waits_holds_no_other() {
        let (release, released) = channel::<()>();
        let (begun, begins) = channel::<()>();
        let released = Mutex::new(released);
        let server = begin(move |method, path, query| {
            if method == HttpMethod::Post {
                begun.send(()).unwrap();
                released.lock().unwrap().recv().unwrap();
            }
            answer(method, path, query)
        });
        let mut slow = connect(&server);
        slow.write_all(b"POST /do HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        begins.recv().unwrap();
        assert_eq!(get(&server.address, "/here").as_deref(), Ok("well\n"));
        // It is answered also where the server ends meanwhile: a reload may have moved the admin
        // address.
        drop(server);
        release.send(()).unwrap();
        let mut received = String::new();
        slow.read_to_string(&mut received).unwrap();
        assert!(received.ends_with("done\n"), "{received}");
    }

    /// They would be, if an answer had to wait for the thread of another one.
    #[test]
    fn as_many_answers_wait_together_as_there_are_connections() {
        let all = std::sync::Barrier::new(CONNECTIONS);
        let server = begin(move |method, path, query| {
            all.wait();
            answer(method, path, query)
        });
        let mut askers: Vec<_> = (0..CONNECTIONS).map(|_| connect(&server)).collect();
        for asker in &mut askers {
            asker.write_all(b"GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        }
        for mut asker in askers {
            asker.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let mut received = String::new();
            asker.read_to_string(&mut received).unwrap();
            assert!(received.ends_with("well\n"), "{received}");
        }
    }

    #[test]
    fn connections_that_say_nothing_do_not_keep_another_out() {
        let server = begin(answer);
        let silent: Vec<_> = (0..2 * CONNECTIONS).map(|_| connect(&server)).collect();
        assert_eq!(get(&server.address, "/here").as_deref(), Ok("well\n"));
        // The oldest have made place.
        let mut oldest = &silent[0];
        assert!(matches!(oldest.read(&mut [0]), Ok(0) | Err(_)));
    }

    #[test]
    fn what_is_asked_for_is_reported_and_what_is_not_there_is_an_error_with_the_address() {
        let server = begin(answer);
        assert_eq!(get(&server.address, "/here").as_deref(), Ok("well\n"));
        let error = get(&server.address, "/there").unwrap_err();
        assert!(
            error.to_string().contains("404") && error.to_string().contains(&server.address.to_string()),
            "{error}"
        );
        let unused = Address { port: 1, ..server.address.clone() };
        assert!(get(&unused, "/here").unwrap_err().to_string().contains("cannot be asked"));
    }

    #[test]
    fn a_server_that_is_dropped_listens_no_more() {
        let server = begin(answer);
        let address = server.address.clone();
        drop(server);
        // The thread sees it when it is woken, and closes the socket then: until then it answers.
        while get(&address, "/here").is_ok() {}
        assert!(TcpStream::connect(crate::resolve(&address).unwrap()[0]).is_err());
    }

    #[test]
    fn a_head_without_end_is_not_read_to_it() {
        let server = begin(answer);
        let refused = received(&server, &[b'x'; 64 << 10]);
        assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 4"), "{refused}");
    }
}
