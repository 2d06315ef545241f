//! What all threads record, in one place.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use krarup_proxy::core::{Core, RowSink};
use krarup_record::{ServerVisit, Visit};

/// The core that keeps the books, shared by all threads.
#[derive(Clone)]
pub(super) struct SharedBooks(Arc<Mutex<Core>>);

impl SharedBooks {
    pub(super) fn new(core: Core) -> Self {
        Self(Arc::new(Mutex::new(core)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        // Entries are whole or not made at all: a thread that panicked leaves books that can be
        // read.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowSink for SharedBooks {
    fn row(&mut self, visit: &Visit, servers: &[ServerVisit], pool: usize) {
        self.lock().enter(visit, servers, pool);
    }

    fn late(&mut self, visit: &ServerVisit) {
        self.lock().enter_late(visit);
    }

    fn detached(&mut self, visit: &ServerVisit) {
        self.lock().enter_detached(visit);
    }
}
