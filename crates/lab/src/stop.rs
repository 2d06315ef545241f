//! Ctrl-C ends the work in order: what waits finds out, ends what it started, and reports.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use krarup_net::signal;

/// Whether the user asked for the end. All copies share the answer.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    asked: Arc<AtomicBool>,
}

impl Stop {
    /// From now on the signals that end a work are heard here. However many come: one that ended us
    /// at once would leave what we have started running, and ending it in order takes seconds at
    /// most.
    ///
    /// # Errors
    /// From the system, when signals are refused.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        signal::flag_ends(&stop.asked)?;
        Ok(stop)
    }

    /// Asks for the end.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    /// Whether the end was asked for.
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}
