//! Numbers of one moment, laid down by a loop for another thread that asks: the loop never waits.
//!
//! ```text
//!   who asks ──wants──▶ [board] ──wakes──▶ event loop
//!            ◀──────── [board] ◀─numbers──┘
//! ```
//!
//! Nobody asks, nothing is done. A loop that does not lay down its numbers in time is stuck.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mio::Waker;

/// How long the loop may take to lay down its numbers before it counts as stuck.
const STUCK: Duration = Duration::from_secs(1);

/// Where a loop lays down its numbers when it is asked to.
pub struct Board<T> {
    wanted: AtomicBool,
    laid: Mutex<Option<T>>,
    there: Condvar,
    /// Who asks has the board for himself.
    asking: Mutex<()>,
    wake: Box<dyn Fn() + Send + Sync>,
    patience: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is kept here is whole at any time.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Board<T> {
    /// A board that wakes the loop by `waker`.
    pub fn new(waker: Arc<Waker>) -> Arc<Self> {
        // A loop that cannot be woken will be found stuck.
        Self::waking(STUCK, move || _ = waker.wake())
    }

    /// A board that wakes the loop by `wake`, and waits so long for its numbers.
    pub fn waking(patience: Duration, wake: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            wanted: AtomicBool::new(false),
            laid: Mutex::new(None),
            there: Condvar::new(),
            asking: Mutex::new(()),
            wake: Box::new(wake),
            patience,
        })
    }

    /// Lays down numbers if somebody wants them. The loop calls this once in each pass.
    #[inline]
    pub fn lay(&self, numbers: impl FnOnce() -> T) {
        if self.wanted.load(Ordering::Relaxed) && self.wanted.swap(false, Ordering::Acquire) {
            *lock(&self.laid) = Some(numbers());
            self.there.notify_all();
        }
    }

    /// Numbers of this moment from each of these boards; none if one of the loops does not lay them down in time. Whoever asks
    /// several names them in the same order.
    pub fn ask(boards: &[Arc<Self>]) -> Option<Vec<T>> {
        let _turns: Vec<_> = boards.iter().map(|board| lock(&board.asking)).collect();
        for board in boards {
            *lock(&board.laid) = None;
            board.wanted.store(true, Ordering::Release);
            (board.wake)();
        }
        boards.iter().map(|board| board.wait()).collect()
    }

    fn wait(&self) -> Option<T> {
        let nothing = |laid: &mut Option<T>| laid.is_none();
        let waited = self.there.wait_timeout_while(lock(&self.laid), self.patience, nothing);
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}
