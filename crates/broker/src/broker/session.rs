//! Messages that a client of memcached's protocol has open.

use crate::job::Id;

/// What is known of a client that speaks memcached's protocol.
#[derive(Debug, Default)]
pub(super) struct QueueSession {
    /// The message of each queue that is open.
    open: Vec<(Box<str>, Id)>,
    /// The queue that is being opened: its answer is on the way.
    pub(super) opening: Option<Box<str>>,
    /// The only queue that is watched; none: that of every client at first.
    pub(super) watched: Option<Box<str>>,
}

impl QueueSession {
    /// The answer to what was to be opened has left.
    pub(super) fn opened(&mut self, id: Option<Id>) {
        if let (Some(queue), Some(id)) = (self.opening.take(), id) {
            self.open.push((queue, id));
        }
    }

    pub(super) fn end(&mut self, queue: &str) -> Option<Id> {
        let place = self.open.iter().position(|(open, _)| &**open == queue)?;
        Some(self.open.swap_remove(place).1)
    }

    pub(super) fn is_open(&self, queue: &str) -> bool {
        self.open.iter().any(|(open, _)| &**open == queue)
    }
}
