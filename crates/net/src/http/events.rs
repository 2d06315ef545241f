//! Server-sent events: the newest state is sent to every browser that listens, and again whenever
//! it changes.
//!
//! A listener that connects is sent the state at once; one that is slow is sent the newest and not
//! what lay between. So each event must say the whole state, and a listener that lost its
//! connection needs nothing but to connect again. While nothing changes a comment is sent from time
//! to time, so that a listener that has vanished is found out.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::{Either, select};
use futures_util::stream::{Stream, unfold};
use hyper::body::Bytes;
use tokio::sync::watch;
use tokio::time::sleep;

/// How often something is sent while nothing changes.
const COMMENT: Duration = Duration::from_secs(15);
/// After how long a browser connects again, in milliseconds.
const RETRY: u32 = 1_000;

/// A state that browsers listen to, on one path. Its copies are the same one.
#[derive(Clone, Debug)]
pub struct HttpEvents(Arc<EventState>);

#[derive(Debug)]
struct EventState {
    path: &'static str,
    newest: watch::Sender<String>,
    listeners: Mutex<ListenerCount>,
    changed: Condvar,
}

/// How many listen, or load a page.
#[derive(Debug, Default)]
struct ListenerCount {
    listeners: UnderWay,
    loads: UnderWay,
    /// How long an absence ends the waiting, once that has begun.
    absence: Option<Duration>,
    /// That it is not waited for any more.
    released: bool,
}

/// How many of a kind are under way, and when the last one ended.
#[derive(Debug, Default)]
struct UnderWay {
    now: usize,
    ended: Option<Instant>,
}

impl HttpEvents {
    /// Events at `path`, which say `state` until they say something else. A state is one line.
    pub fn at(path: &'static str, state: impl Into<String>) -> Self {
        Self(Arc::new(EventState {
            path,
            newest: watch::Sender::new(state.into()),
            listeners: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Tells all listeners another state.
    pub fn tell(&self, state: impl Into<String>) {
        self.0.newest.send_replace(state.into());
    }

    /// Waits until a browser listens; false where [`Self::until_left`] would end before.
    pub fn until_listened(&self, absence: Duration) -> bool {
        let count = self.wait(absence, |count| count.listeners.now > 0);
        count.listeners.now > 0 && !count.released
    }

    /// Waits until no browser has listened, or loaded a page, for `absence`, or [`Self::release`]
    /// is called. A page that is loaded again leaves, is loaded, and listens within a moment: no
    /// other load counts that begins after the waiting.
    pub fn until_left(&self, absence: Duration) {
        drop(self.wait(absence, |_| false));
    }

    /// Waits until this holds, or there is nothing to wait for.
    fn wait(
        &self,
        absence: Duration,
        holds: impl Fn(&ListenerCount) -> bool,
    ) -> MutexGuard<'_, ListenerCount> {
        let mut count = self.0.count();
        count.absence = Some(absence);
        while !count.released && !holds(&count) {
            let last = count.listeners.ended.max(count.loads.ended);
            let gone = last.map_or(absence, |last| last.elapsed());
            let changed = &self.0.changed;
            count = if count.listeners.now + count.loads.now > 0 {
                changed.wait(count).unwrap_or_else(PoisonError::into_inner)
            } else if gone < absence {
                let waited = changed.wait_timeout(count, absence - gone);
                waited.unwrap_or_else(PoisonError::into_inner).0
            } else {
                break;
            };
        }
        count
    }

    /// Ends every waiting, now and later.
    pub fn release(&self) {
        self.0.count().released = true;
        self.0.changed.notify_all();
    }

    pub(super) fn is_at(&self, path: &str) -> bool {
        self.0.path == path
    }

    pub(super) fn listen(&self) -> EventListener {
        let mut newest = self.0.newest.subscribe();
        newest.mark_changed();
        let counted = self.count_in(&mut self.0.count(), |count| &mut count.listeners);
        self.0.changed.notify_all();
        let begin = ListenerPlace { newest, first: true, _counted: counted };
        EventListener(Box::pin(unfold(begin, next)))
    }

    /// Counts what begins to be loaded: a page listens once the whole of it is there. None where
    /// the waiting has begun and no listener is there or has just left: it is no page that is
    /// loaded again, and a probe would hold the waiting for ever.
    pub(super) fn load(&self) -> Option<Counted> {
        let mut count = self.0.count();
        if let Some(absence) = count.absence {
            let has_just_left = count.listeners.ended.is_some_and(|left| left.elapsed() < absence);
            if count.listeners.now == 0 && !has_just_left {
                return None;
            }
        }
        Some(self.count_in(&mut count, |count| &mut count.loads))
    }

    /// Counts one more of a kind.
    fn count_in(&self, count: &mut ListenerCount, of: KindOf) -> Counted {
        of(count).now += 1;
        Counted(Arc::clone(&self.0), of)
    }
}

impl EventState {
    fn count(&self) -> MutexGuard<'_, ListenerCount> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type KindOf = fn(&mut ListenerCount) -> &mut UnderWay;

/// Is counted among its kind until it is dropped, with the connection.
pub(super) struct Counted(Arc<EventState>, KindOf);

impl Drop for Counted {
    fn drop(&mut self) {
        let mut count = self.0.count();
        let kind = (self.1)(&mut count);
        *kind = UnderWay { now: kind.now - 1, ended: Some(Instant::now()) };
        drop(count);
        self.0.changed.notify_all();
    }
}

/// The bytes that one listener is sent.
pub(super) struct EventListener(Pin<Box<dyn Stream<Item = Bytes> + Send>>);

impl EventListener {
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.as_mut().poll_next(context)
    }
}

/// Where a listener is.
struct ListenerPlace {
    newest: watch::Receiver<String>,
    first: bool,
    _counted: Counted,
}

/// What is sent next: the state when it has changed, or a comment.
async fn next(mut at: ListenerPlace) -> Option<(Bytes, ListenerPlace)> {
    let changed = {
        let (changed, quiet) = (std::pin::pin!(at.newest.changed()), std::pin::pin!(sleep(COMMENT)));
        match select(changed, quiet).await {
            Either::Left((Err(_), _)) => return None,
            Either::Left((Ok(()), _)) => true,
            Either::Right(_) => false,
        }
    };
    let text = if changed {
        let state = at.newest.borrow_and_update();
        let retry = if at.first { format!("retry: {RETRY}\n") } else { String::new() };
        format!("{retry}data: {}\n\n", *state)
    } else {
        ":\n\n".to_owned()
    };
    at.first = false;
    Some((text.into(), at))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::super::{HttpResponse, HttpServer, get, serve_with_events};
    use super::*;

    fn begin(events: &HttpEvents) -> HttpServer {
        let address = "127.0.0.1:0".parse().unwrap();
        serve_with_events(&address, events, |_, path, _| HttpResponse::text(200, path)).unwrap()
    }

    fn listen(server: &HttpServer, method: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(crate::resolve(&server.address).unwrap()[0]).unwrap();
        stream.write_all(format!("{method} /events HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
        BufReader::new(stream)
    }

    /// More than what the kernel holds for a connection that is not read from.
    const LARGE: usize = 16 << 20;

    fn begin_large(events: &HttpEvents) -> HttpServer {
        let address = "127.0.0.1:0".parse().unwrap();
        let page = "x".repeat(LARGE);
        serve_with_events(&address, events, move |_, _, _| HttpResponse::text(200, page.as_str())).unwrap()
    }

    /// A large page of which little has come.
    fn load(server: &HttpServer) -> TcpStream {
        let mut stream = TcpStream::connect(crate::resolve(&server.address).unwrap()[0]).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 8]).unwrap();
        stream
    }

    /// How many listen, and how many loads are waited for.
    fn counts(events: &HttpEvents) -> (usize, usize) {
        let count = events.0.count();
        (count.listeners.now, count.loads.now)
    }

    /// The data of the next event.
    fn data(stream: &mut BufReader<TcpStream>) -> String {
        let mut line = String::new();
        while stream.read_line(&mut line).unwrap() > 0 {
            if let Some(data) = line.strip_prefix("data: ") {
                return data.trim_end().to_owned();
            }
            line.clear();
        }
        panic!("the stream has ended");
    }

    #[test]
    fn a_listener_is_sent_the_state_and_every_change_and_other_paths_are_answered() {
        let events = HttpEvents::at("/events", "one");
        let server = begin(&events);
        let mut first = listen(&server, "GET");
        assert_eq!(data(&mut first), "one");
        events.tell("two");
        assert_eq!(data(&mut first), "two");
        let mut second = listen(&server, "GET");
        assert_eq!((data(&mut second).as_str(), counts(&events)), ("two", (2, 0)));
        assert_eq!(get(&server.address, "/other").as_deref(), Ok("/other"));
        // What is no GET goes the usual way.
        let mut posted = String::new();
        listen(&server, "POST").read_to_string(&mut posted).unwrap();
        assert!(posted.ends_with("\r\n\r\n/events"), "{posted}");
    }

    #[test]
    fn a_listener_that_leaves_is_counted_no_more_and_the_waiting_ends() {
        let events = HttpEvents::at("/events", "one");
        let server = begin(&events);
        let mut stream = listen(&server, "GET");
        data(&mut stream);
        assert_eq!(counts(&events), (1, 0));
        drop(stream);
        events.until_left(Duration::from_millis(1));
        assert_eq!(counts(&events), (0, 0));
    }

    /// It listens again when it has the whole page, which may take its link many seconds.
    #[test]
    fn a_page_that_is_being_loaded_is_waited_for() {
        let events = HttpEvents::at("/events", "one");
        let server = begin_large(&events);
        let mut stream = load(&server);
        assert_eq!(counts(&events), (0, 1));
        let mut rest = Vec::new();
        assert!(stream.read_to_end(&mut rest).unwrap() > LARGE);
        drop(stream);
        events.until_left(Duration::from_millis(1));
        assert_eq!(counts(&events), (0, 0));
    }

    #[test]
    fn a_page_that_listens_when_it_is_loaded_is_a_listener_that_was_waited_for() {
        let events = HttpEvents::at("/events", "one");
        let server = begin_large(&events);
        let _page = load(&server);
        let its = events.clone();
        let waiting = thread::spawn(move || its.until_listened(Duration::MAX));
        let mut stream = listen(&server, "GET");
        data(&mut stream);
        assert!(waiting.join().unwrap());
    }

    /// A probe asks for ever, and so does a script that waits for the end.
    #[test]
    fn what_is_loaded_once_the_waiting_has_begun_is_waited_for_only_if_a_listener_has_just_left() {
        let events = HttpEvents::at("/events", "one");
        let server = begin_large(&events);
        events.until_left(Duration::MAX);
        let _asked = load(&server);
        assert_eq!(counts(&events), (0, 0));
        assert!(!events.until_listened(Duration::MAX));
        events.until_left(Duration::MAX);
        let mut stream = listen(&server, "GET");
        data(&mut stream);
        drop(stream);
        let _page = load(&server);
        assert_eq!(counts(&events).1, 1);
    }

    #[test]
    fn where_no_listener_was_nothing_is_waited_for_and_a_release_ends_every_waiting() {
        HttpEvents::at("/events", "one").until_left(Duration::MAX);
        let events = HttpEvents::at("/events", "one");
        let server = begin(&events);
        let mut stream = listen(&server, "GET");
        data(&mut stream);
        events.release();
        events.until_left(Duration::MAX);
        assert!(!events.until_listened(Duration::MAX));
        assert_eq!(counts(&events), (1, 0));
    }

    #[test]
    fn a_server_that_is_dropped_ends_its_streams() {
        let events = HttpEvents::at("/events", "one");
        let server = begin(&events);
        let mut stream = listen(&server, "GET");
        data(&mut stream);
        drop(server);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        events.until_left(Duration::from_millis(1));
    }
}
