//! The broker's numbers of one moment.

use crate::batches::BatchSizes;
use crate::broker::Broker;
use crate::queues::Totals;
use crate::report::{TubeState, TubesReport, TubesState};
use crate::statistics::BrokerState;
use krarup_model::headroom::ResponseTarget;
use krarup_record::exposition::{OfOperation, TimeBuckets};
use krarup_units::Stamp;

/// The numbers of one moment.
#[derive(Clone, Debug)]
pub struct BrokerSnapshot {
    pub(super) totals: Totals,
    /// Whether these tell how many messages there are.
    pub(super) knows_messages: bool,
    pub(super) tubes: u64,
    pub(super) memory: u64,
    pub(super) service: BrokerState,
    pub(super) operations: Vec<OfOperation>,
    /// Requests that wait for the store, and those that are with it.
    pub(super) waiting: u64,
    pub(super) with_store: u64,
    /// Connections to the store at work.
    pub(super) busy: u64,
    pub(super) statements: TimeBuckets,
    pub(super) batches: BatchSizes,
    /// Whether the store can be reached, answers, takes what it is given and refuses no look and no
    /// sweep; a memory always does.
    pub(super) store_takes: bool,
    pub(super) stopping: bool,
    by_tube: TubesState,
    waiting_target: ResponseTarget,
}

impl BrokerSnapshot {
    /// The numbers now.
    pub fn of(broker: &Broker, now: Stamp, store_takes: bool, stopping: bool) -> Self {
        let load = broker.store_load();
        let (totals, knows_messages) = broker.totals(now);
        Self {
            totals,
            knows_messages,
            tubes: broker.tube_count(now) as u64,
            memory: broker.memory_used(),
            service: broker.service(now),
            operations: OfOperation::seen(&broker.recorder_since_start()),
            waiting: load.waiting,
            with_store: load.asked,
            busy: load.busy,
            statements: TimeBuckets::of(&broker.batches().times, true),
            batches: broker.batches().sizes(),
            store_takes,
            stopping,
            by_tube: broker.tubes_state(now),
            waiting_target: broker.queues().waiting_target(),
        }
    }

    /// What is known of the tubes' waits. It takes a millisecond or more: not for the event loop.
    pub fn tubes(&self) -> TubesReport {
        TubesReport::of(&self.by_tube, self.waiting_target)
    }

    /// The tubes that are listed one by one, in the order of [`Self::tubes`].
    pub(super) fn first_tubes(&self) -> &[TubeState] {
        &self.by_tube.first
    }

    /// Why no more clients should be sent here; none if they should.
    pub fn not_ready(&self) -> Option<&'static str> {
        if self.stopping {
            Some("stopping")
        } else if !self.store_takes {
            Some("the database cannot be reached, does not answer, or refuses what it is asked")
        } else if self.service.draining {
            Some("draining: no more messages are accepted")
        } else {
            None
        }
    }
}
