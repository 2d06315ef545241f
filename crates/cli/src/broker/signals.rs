//! Signals are heard from the first instant, whatever the broker does at that time: one thread
//! listens for the whole process.
//!
//! What was asked for is kept: an event loop that begins later is told as well.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use krarup_net::mio::{Events, Poll, Token};
use krarup_net::signal::{self, SignalStream};
use krarup_net::tls::Acceptor;
use krarup_serve::broker::engine::Ending;

use crate::failure::Failure;
use crate::last_steps::LastSteps;
use crate::tls;

const STOP: Token = Token(0);
const RELOAD: Token = Token(1);
const DRAIN: Token = Token(2);

/// What signals have asked of this process so far.
#[derive(Debug, Default)]
pub(super) struct ProcessSignals {
    inner: Arc<Inner>,
    /// What listens for one more stop once the event loops have ended.
    last_steps: OnceLock<LastSteps>,
}

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How often SIGINT or SIGTERM came.
    stops: usize,
    /// Whether SIGUSR1 came.
    drains: bool,
    followers: Vec<(Weak<Ending>, Follows)>,
    /// Whose certificate SIGHUP reads again.
    acceptor: Option<Acceptor>,
}

/// Which signals an event loop obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// All of them.
    All,
    /// SIGUSR1: it is told to end by other means.
    Draining,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn tell(&self, ending: &Ending, follows: Follows) {
        if self.drains {
            ending.drain();
        }
        match (follows, self.stops) {
            (Follows::Draining, _) | (Follows::All, 0) => {}
            (Follows::All, 1) => ending.ask(),
            (Follows::All, _) => ending.hurry(),
        }
    }

    /// How many event loops there are.
    fn tell_all(&mut self) -> usize {
        self.followers.retain(|(ending, _)| ending.strong_count() > 0);
        for (ending, follows) in &self.followers {
            if let Some(ending) = ending.upgrade() {
                self.tell(&ending, *follows);
            }
        }
        self.followers.len()
    }
}

impl ProcessSignals {
    /// From now on no signal that has a meaning here ends the process by itself.
    pub(super) fn listen() -> Result<Self, Failure> {
        let wrong = |error: std::io::Error| Failure::run(format!("signals cannot be heard: {error}"));
        let mut poll = Poll::new().map_err(wrong)?;
        let mut signals = signal::Signals::register(poll.registry(), STOP, RELOAD).map_err(wrong)?;
        let mut drain = SignalStream::user_one(poll.registry(), DRAIN).map_err(wrong)?;
        let inner = Arc::new(Inner::default());
        let its = Arc::clone(&inner);
        let listens = move || {
            let mut events = Events::with_capacity(4);
            loop {
                // Interrupted, at worst: then it looks for nothing.
                let _ = poll.poll(&mut events, None);
                if signals.reloads() > 0 {
                    let acceptor = its.state().acceptor.clone();
                    tls::reload(acceptor.as_ref());
                }
                let (stops, drains) = (signals.stops() > 0, drain.count() > 0);
                let mut state = its.state();
                state.stops += usize::from(stops);
                let begins = drains && !state.drains;
                state.drains |= drains;
                if state.tell_all() == 0 && begins {
                    eprintln!("draining: no messages will be accepted once this broker serves");
                }
                its.changed.notify_all();
            }
        };
        thread::Builder::new().name("signals".into()).spawn(listens).map_err(wrong)?;
        Ok(Self { inner, last_steps: OnceLock::new() })
    }

    /// SIGHUP reads the certificate of this one again, from now on.
    pub(super) fn reloads(&self, acceptor: &Acceptor) {
        self.inner.state().acceptor = Some(acceptor.clone());
    }

    /// Tells this event loop what was asked for, and what will be.
    pub(super) fn follow(&self, ending: &Arc<Ending>, follows: Follows) {
        let mut state = self.inner.state();
        state.tell(ending, follows);
        // Shards that ended are followed no more.
        state.followers.retain(|(shard, _)| shard.strong_count() > 0);
        state.followers.push((Arc::downgrade(ending), follows));
    }

    /// How often a stop was asked for.
    pub(super) fn stops(&self) -> usize {
        self.inner.state().stops
    }

    /// The event loops have ended. Where a stop was asked for, one more ends what is left to do.
    pub(super) fn last_steps(&self) {
        if self.stops() > 0 {
            self.last_steps.get_or_init(LastSteps::begin);
        }
    }

    /// Waits for so long, or until a stop has been asked for more than so often; whether it has.
    pub(super) fn wait(&self, most: Duration, stops: usize) -> bool {
        let state = self.inner.state();
        let waited = self.inner.changed.wait_timeout_while(state, most, |state| state.stops <= stops);
        waited.unwrap_or_else(PoisonError::into_inner).0.stops > stops
    }
}
