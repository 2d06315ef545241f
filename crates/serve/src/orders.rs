//! What threads beside the event loops have them do: each loop looks at it when it is asked what it
//! has kept, so that an order holds everywhere when the answer is there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use krarup_net::snapshots::lock;
use krarup_proxy::ReadPush;

/// What the loops are to do from their next answer on.
#[derive(Debug, Default)]
pub(crate) struct LoopOrders {
    push: Mutex<Option<ReadPush>>,
    /// How many workers there shall be; zero: as many as the configuration says.
    workers: AtomicU32,
}

impl LoopOrders {
    pub(crate) fn push(&self) -> Option<ReadPush> {
        lock(&self.push).clone()
    }

    pub(crate) fn set_push(&self, push: Option<ReadPush>) {
        *lock(&self.push) = push;
    }

    pub(crate) fn workers(&self) -> Option<u32> {
        Some(self.workers.load(Ordering::Relaxed)).filter(|workers| *workers > 0)
    }

    pub(crate) fn set_workers(&self, workers: u32) {
        self.workers.store(workers, Ordering::Relaxed);
    }
}
