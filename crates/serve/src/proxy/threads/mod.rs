//! Real threads and connections that block: the textbook's middleware, and what it costs beside
//! [events](super::events).
//!
//! ```text
//!                       ┌─ queue ─▶ worker 1..W ─▶ a connection of its own to every server     workers = W
//!  clients ─▶ network ──┤
//!             thread    ├─ queue of server i ─▶ reader 1..T ─▶ likewise                         readers = T
//!                       └─ writes of server i ─▶ one writer, which does not wait between two
//! ```
//!
//! One thread accepts clients, reads, and cuts requests; a worker takes one, asks the servers,
//! waits, writes the reply to the client, and takes the next. Of one client only one request is
//! under way at a time. Placement, policies, merging and records are those of the event engine:
//! each thread has a [core](krarup_proxy::core) of its own with one request in it, and one more
//! core keeps the books.
//!
//! | file | its one idea |
//! |---|---|
//! | `books` | what all threads record |
//! | `queue` | requests that wait for a thread |
//! | `client` | one client, as the thread sees it that has its request |
//! | `executor` | carries requests to servers and replies to clients |
//! | `network` | the thread that reads the clients |

mod books;
mod client;
mod executor;
mod network;
mod queue;

use krarup_units::Mistake;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;

use krarup_net::mio::{Poll, Waker};
use krarup_net::signal::Signals;
use krarup_net::{Clock, Listener, listen, processors};
use krarup_record::{Recorder, recorder};
use krarup_service::Service as _;

use self::books::SharedBooks;
use self::client::Finished;
use self::executor::Executor;
use self::network::{FINISHED, LISTENER, RELOAD, RefusedSockets, RequestQueues, STOP, ThreadSockets};
use self::queue::Queue;
use super::events::{ProxyEnd, ProxyNotice};
use super::listening;
use crate::proxy::credentials::credentials;
use krarup_proxy::config::Config;
use krarup_proxy::core::Core;
use krarup_proxy::dispatch::Workers;
use krarup_proxy::engine::ThreadDesign;
use krarup_proxy::live;

/// Starts threads of this `form` before so many servers, each with an executor of its own; where
/// requests are put for them, `bound` at most in one queue. `finished` counts them.
fn start(
    form: ThreadDesign,
    servers: usize,
    bound: usize,
    executor: impl Fn() -> io::Result<Executor>,
    finished: &Arc<Finished>,
) -> io::Result<RequestQueues> {
    let spawn = |executor: Executor, queue: &Arc<Queue>, writes: bool| {
        let (queue, finished) = (queue.clone(), finished.clone());
        finished.thread_begins();
        let work = move || {
            if writes {
                executor.stream(&queue);
            } else {
                executor.work(&queue);
            }
            finished.thread_ends();
        };
        thread::Builder::new().name("krarup-worker".into()).spawn(work).map(drop)
    };
    let mut queues = RequestQueues { reads: Vec::new(), writes: Vec::new() };
    match form {
        ThreadDesign::Workers(workers) => {
            let queue = Arc::new(Queue::new(bound));
            (0..workers).try_for_each(|_| spawn(executor()?, &queue, false))?;
            queues.reads.push(queue);
        }
        ThreadDesign::Readers(readers) => {
            for server in 0..servers {
                let reads = Arc::new(Queue::new(bound));
                (0..readers).try_for_each(|_| spawn(executor()?.reading_from(server), &reads, false))?;
                queues.reads.push(reads);
                let writes = Arc::new(Queue::new(bound));
                spawn(executor()?, &writes, true)?;
                queues.writes.push(writes);
            }
        }
    }
    Ok(queues)
}

/// The listening socket that this process was given, or else one of its own.
fn listener_of(config: &Config) -> Result<Listener, Mistake> {
    let inherited = listen::inherited();
    listen::all_used(inherited.len(), 1)?;
    match inherited.into_iter().next() {
        Some(listener) => Ok(listener),
        None => listen::listen_with(&config.listen, listening(&config.edge)),
    }
}

/// Runs the proxy until SIGINT or SIGTERM. `core` keeps the books.
///
/// # Errors
/// Before the first client is accepted: the port cannot be had, the system refuses.
pub fn run(
    config: &Config,
    mut core: Core,
    clock: Clock,
    mut notice: impl FnMut(ProxyNotice),
) -> Result<ProxyEnd, Mistake> {
    let system = |error: io::Error| format!("cannot start the threads: {error}");
    let started = clock.now();
    let poll = Poll::new().map_err(system)?;
    let signals = Signals::register(poll.registry(), STOP, RELOAD).map_err(system)?;
    let mut listener = listener_of(config)?;
    let credentials = credentials(&config.edge)?;
    for warning in &credentials.warnings {
        notice(ProxyNotice::Warning(warning.clone()));
    }
    let waker = Waker::new(poll.registry(), FINISHED).map_err(system)?;
    let finished = Arc::new(Finished::new(waker));
    core.keep_live();
    let books = SharedBooks::new(core);
    let shared = Arc::new(config.clone());

    // Each thread asks servers with a core of its own; how many requests it has is the threads' own
    // bound.
    let mut settings = config.settings();
    settings.workers = Workers::Unlimited;
    // These are kept in the books.
    settings.slow_requests = 0;
    (settings.unix, settings.run_id) = {
        let core = books.lock();
        (core.settings().unix, core.settings().run_id)
    };
    let mut topology = config.topology()?;
    topology.pools.iter_mut().for_each(|pool| pool.readers = None);
    let form = config.thread_form()?;
    let threads = u16::try_from(form.threads(topology.servers.len())).unwrap_or(u16::MAX);
    let begun = Cell::new(0);
    let executor = || -> io::Result<Executor> {
        let recorder =
            Recorder::new(recorder::RecorderSettings::default()).expect("the default settings are valid");
        let mut core = Core::new(settings.clone(), topology.clone(), recorder, started);
        core.sign_in_with(credentials.login.clone());
        let place = begun.replace(begun.get() + 1);
        core.keep_rows(Box::new(books.clone()), place, threads);
        Executor::new(core, shared.clone(), clock, books.clone(), finished.clone())
    };
    let queues = start(form, topology.servers.len(), config.queue, executor, &finished).map_err(system)?;
    listener.register(poll.registry(), LISTENER).map_err(system)?;
    notice(ProxyNotice::Listening(listener.address().map_err(system)?));
    let mut network = ThreadSockets {
        config,
        clock,
        notice,
        poll,
        signals,
        listener: Some(listener),
        finished,
        queues,
        books: books.clone(),
        stop_by: None,
        clients: Vec::new(),
        accepting: RefusedSockets::default(),
        answer_notices: BTreeMap::new(),
        turn: 0,
    };
    network.run().map_err(|error| format!("the network thread failed: {error}"))?;
    let unfinished = network.queues.unfinished();
    if unfinished > 0 {
        (network.notice)(ProxyNotice::Unfinished(unfinished));
    }
    network.tell_refused();
    let now = clock.now();
    let mut core = books.lock();
    for id in 0..network.clients.len() as u32 {
        if network.clients[id as usize].take().is_some() {
            core.gone(id, now);
        }
    }
    network.queues.enter_into(&mut core);
    core.advance(now);
    // Threads that have not ended keep a place to enter what will not be read.
    let recorder =
        Recorder::new(recorder::RecorderSettings::default()).expect("the default settings are valid");
    let rest = Core::new(settings, topology, recorder, started);
    let (traffic, system) = (core.live(now), live::system(&core, config, processors::usable()));
    Ok(ProxyEnd { core: std::mem::replace(&mut *core, rest), traffic, system, started, stopped: now })
}
