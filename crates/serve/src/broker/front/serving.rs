//! What the threads of all clients share.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use krarup_net::blocking::{BlockingClient, ShutdownHandle, Wakeup};
use krarup_net::tls::Acceptor;
use krarup_units::Nanos;

use crate::broker::engine::Protocol;
use krarup_store::owners::Owners;

/// How clients are served.
#[derive(Clone, Debug)]
pub struct FrontSettings {
    /// The largest body, in bytes.
    pub largest: u32,
    /// What a client must say with `login` before anything else.
    pub secret: Option<String>,
    /// How many clients may be connected at once to all fronts that have the same `connected`.
    pub connections: usize,
    /// How many are.
    pub connected: Arc<AtomicUsize>,
    /// Makes the sessions of clients, which then speak TLS; none: in plain text.
    pub tls: Option<Acceptor>,
    /// How long a client may be idle; zero: for ever.
    pub idle: Nanos,
    /// How long a TLS handshake may take; zero: for ever.
    pub handshake: Nanos,
}

/// The client's connection ends.
#[derive(Debug)]
pub(super) struct End;

/// What the threads of all clients share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) settings: FrontSettings,
    pub(super) owners: Arc<Owners>,
    pub(super) protocol: Protocol,
    pub(super) phase: AtomicU8,
    pub(super) over: Wakeup,
    pub(super) clients: Mutex<HashMap<u64, ShutdownHandle>>,
    pub(super) gone: Condvar,
}

/// How far it is; each comes after the one before.
const SERVES: u8 = 0;
/// What has arrived is still answered.
pub(super) const ENDS: u8 = 1;
/// No owner is waited for.
pub(super) const ABANDONED: u8 = 2;

impl Inner {
    pub(super) fn new(protocol: Protocol, settings: FrontSettings, owners: Arc<Owners>) -> io::Result<Self> {
        Ok(Self {
            settings,
            owners,
            protocol,
            phase: AtomicU8::new(SERVES),
            over: Wakeup::new()?,
            clients: Mutex::default(),
            gone: Condvar::new(),
        })
    }

    /// What another thread has left is as good as what it was.
    pub(super) fn clients(&self) -> MutexGuard<'_, HashMap<u64, ShutdownHandle>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what a client says next; none: it says nothing for too long.
    pub(super) fn receive(
        &self,
        client: &mut BlockingClient,
        buffer: &mut [u8],
    ) -> Result<Option<usize>, End> {
        match client.receive(buffer, self.settings.idle) {
            Ok(count) if count > 0 => Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(None),
            _ => Err(End),
        }
    }

    /// Whether this broker ends: then no request waits for a shard to have an owner again.
    pub(super) fn is_over(&self) -> bool {
        self.phase.load(Ordering::SeqCst) >= ENDS
    }

    /// Whether clients are given up.
    pub(super) fn is_abandoned(&self) -> bool {
        self.phase.load(Ordering::SeqCst) >= ABANDONED
    }
}
