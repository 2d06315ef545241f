//! What a service does once its event loops have ended: it says what it has counted, and writes
//! what it has recorded. A disk or a reader may hold that up for ever, and no event loop hears a
//! signal by then.

use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use krarup_net::mio::{Events, Poll, Token};
use krarup_net::signal::{self, Signals};

use crate::output;

const STOP: Token = Token(0);
const RELOAD: Token = Token(1);

/// How long the last steps may still take once another stop is asked for. Signals that come twice,
/// as `timeout` sends them to a program and to its group, cost no statistics.
const LIMIT: Duration = Duration::from_secs(1);

/// Until this is dropped, SIGINT and SIGTERM end the process soon, by what the system does.
#[derive(Debug)]
pub(crate) struct LastSteps {
    _done: Sender<()>,
}

impl LastSteps {
    /// A stop was asked for, and the event loops have ended: what they have said comes first.
    pub(crate) fn begin() -> Self {
        let (done, ends) = mpsc::channel();
        // Without memory for a thread nothing hurries them.
        let _ = listen(ends);
        output::settle();
        Self { _done: done }
    }
}

fn listen(ends: Receiver<()>) -> io::Result<()> {
    let mut poll = Poll::new()?;
    let mut signals = Signals::register(poll.registry(), STOP, RELOAD)?;
    let listens = move || {
        let mut events = Events::with_capacity(2);
        while signals.stops() == 0 {
            // Interrupted, at worst: then nothing is read.
            let _ = poll.poll(&mut events, None);
        }
        if ends.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            signal::end();
        }
    };
    thread::Builder::new().name("last steps".into()).spawn(listens).map(drop)
}
