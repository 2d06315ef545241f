//! What a model of the broker's running traffic is given: what the loop has kept, and how its
//! requests wait for the store.

use std::sync::Arc;

use krarup_broker::visits::StoreLanes;
use krarup_model::headroom::{LiveServer, LiveSystem, ResponseTarget, ServerQueue};
use krarup_net::processors;
use krarup_net::snapshots::SnapshotSlot;
use krarup_record::LiveSnapshot;
use krarup_store::{journal, pool};

use super::message_store::MessageStore;
use crate::headroom::{HeadroomPage, LiveHeadroom};
use crate::live::{LiveQuestion, LiveState};

/// What is answered about the headroom of a broker.
#[derive(Clone, Copy, Debug)]
pub struct BrokerHeadroom {
    /// The response time that is to hold; none: only saturation counts.
    pub target: Option<ResponseTarget>,
    /// The answer as a page for a browser.
    pub page: HeadroomPage,
}

/// Where the loop lays down what it keeps, and what does not change beside it.
pub(super) struct BrokerLive {
    slot: Arc<SnapshotSlot<LiveState>>,
    system: LiveSystem,
    target: Option<ResponseTarget>,
}

impl BrokerLive {
    /// With what answers about it; `most_clients` may be connected at once.
    pub(super) fn new(
        slot: Arc<SnapshotSlot<LiveState>>,
        how: BrokerHeadroom,
        store: Option<&MessageStore>,
        most_clients: usize,
    ) -> (Self, Arc<LiveHeadroom>) {
        let system = LiveSystem { most_clients: u32::try_from(most_clients).ok(), ..system(store) };
        let answers = LiveHeadroom::new(LiveQuestion::new(vec![Arc::clone(&slot)]), how.page);
        (Self { slot, system, target: how.target }, Arc::new(answers))
    }

    /// Lays down what is `kept`, and whether the store takes what it is given, if a thread has
    /// asked for it.
    pub(super) fn publish(&self, store_takes: bool, kept: impl FnOnce() -> LiveSnapshot) {
        self.slot.publish(|| LiveState {
            kept: kept(),
            system: LiveSystem { store_takes_nothing: !store_takes, ..self.system.clone() },
            target: self.target,
            pools: Vec::new(),
            redline_lock: None,
            config: None,
            keys: Vec::new(),
        });
    }
}

/// How a store's connections share its requests.
pub(super) fn lanes(store: Option<&MessageStore>) -> StoreLanes {
    match store {
        Some(MessageStore::Shared(_, settings)) if settings.gathers => StoreLanes::ByKind,
        _ => StoreLanes::Alike,
    }
}

/// The store as the servers of a system.
fn system(store: Option<&MessageStore>) -> LiveSystem {
    let servers = |names: &[&str], queue| -> Vec<LiveServer> {
        let server = |name: &&str| LiveServer { name: (*name).to_owned(), queue, ..LiveServer::default() };
        names.iter().map(server).collect()
    };
    let (servers, lanes) = match store {
        None => (Vec::new(), None),
        Some(MessageStore::Owned(_)) => {
            let queue = ServerQueue::Gathered { most: u32::MAX, beside: journal::SIDE_BY_SIDE as u32 };
            (servers(&["PostgreSQL"], queue), None)
        }
        Some(MessageStore::Shared(_, settings)) if settings.gathers => {
            let most = pool::MOST_TOGETHER as u32;
            (servers(&pool::KINDS, ServerQueue::Gathered { most, beside: most }), None)
        }
        Some(MessageStore::Shared(_, settings)) => {
            (servers(&["PostgreSQL"], ServerQueue::Common), u16::try_from(settings.connections).ok())
        }
    };
    let processors_per_loop = LiveSystem::per_loop(processors::usable(), 1);
    LiveSystem { servers, lanes, processors_per_loop, ..LiveSystem::default() }
}
