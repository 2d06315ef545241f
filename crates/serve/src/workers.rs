//! `workers = "auto"`: every ten seconds the number of workers is set by what the servers show, on a
//! thread of its own that yields to all others.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use krarup_model::headroom::workers_wanted;
use krarup_net::snapshots::lock;
use krarup_proxy::dispatch::MOST_AUTOMATIC;

use crate::live::{LiveQuestion, LiveState};
use crate::orders::LoopOrders;
use crate::process::yield_to_others;

/// How often the number is decided.
const EVERY: Duration = Duration::from_secs(10);

/// Sets the number of workers until it is dropped.
#[derive(Debug)]
pub(crate) struct WorkerControl(Arc<SharedControl>);

#[derive(Debug, Default)]
struct SharedControl {
    orders: Arc<LoopOrders>,
    over: Mutex<bool>,
    changed: Condvar,
}

impl WorkerControl {
    /// Begins to decide for the loops that `live` asks.
    pub(crate) fn begin(live: LiveQuestion, orders: Arc<LoopOrders>) -> io::Result<Self> {
        let shared = Arc::new(SharedControl { orders, ..SharedControl::default() });
        let own = Self(Arc::clone(&shared));
        thread::Builder::new().name("workers".into()).spawn(move || {
            yield_to_others();
            while !shared.is_over_after(EVERY) {
                let Some(workers) = live.ask().and_then(|state| decided(&state)) else { continue };
                shared.order(workers);
                // The loops take it over when they answer; one that is stuck does so later.
                let _ = live.ask();
            }
        })?;
        Ok(own)
    }
}

impl SharedControl {
    fn is_over_after(&self, time: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(lock(&self.over), time, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// There shall be so many workers, unless it is over.
    fn order(&self, workers: u32) {
        // Held while it is ordered, so that nothing is once it is over.
        let over = lock(&self.over);
        if !*over {
            self.orders.set_workers(workers);
        }
    }
}

impl Drop for WorkerControl {
    fn drop(&mut self) {
        let mut over = lock(&self.0.over);
        *over = true;
        // What was found out says nothing to the next, which begins with the most.
        self.0.orders.set_workers(0);
        self.0.changed.notify_all();
    }
}

/// Another number of workers; none: it stays.
fn decided(state: &LiveState) -> Option<u32> {
    let now = state.system.workers?;
    let wanted = workers_wanted(&state.kept, &state.system, now, MOST_AUTOMATIC).ok()?;
    (wanted != now).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_it_is_over_nothing_is_left_of_what_was_ordered() {
        let shared = Arc::<SharedControl>::default();
        let control = WorkerControl(Arc::clone(&shared));
        shared.order(7);
        assert_eq!(shared.orders.workers(), Some(7));
        drop(control);
        assert_eq!(shared.orders.workers(), None);
        // Decided just before.
        shared.order(9);
        assert_eq!(shared.orders.workers(), None);
    }
}
