//! Rows of a file as the loop that wrote them would have kept them.

use krarup_units::Stamp;

use super::{LiveBooks, LiveSnapshot, LoopUse, SECOND};
use crate::{ServerVisit, Visit};

/// Visits that are kept of rows: no loop has to share the memory, so more than a loop keeps.
pub const KEPT_OF_ROWS: usize = 1 << 20;

/// [`LiveBooks`] that are filled from rows. What the loop itself used does not stand in rows, so
/// windows hold requests and failures alone.
#[derive(Clone, Debug)]
pub struct LiveRows {
    books: LiveBooks,
    /// The second of the newest reply; none before the first row.
    second: Option<u64>,
    last: Stamp,
    servers: usize,
}

impl LiveRows {
    /// Empty books with room for so many visits.
    pub fn new(room: usize) -> Self {
        Self { books: LiveBooks::new(room), second: None, last: Stamp(0), servers: 0 }
    }

    /// Adds a row. Rows come in the order of their replies.
    pub fn see(&mut self, visit: &Visit, servers: &[ServerVisit]) {
        let second = visit.replied.0 / SECOND;
        if self.second.is_some_and(|before| before < second) {
            self.books.loop_use(Stamp(second * SECOND), LoopUse::default());
        }
        self.second = Some(second);
        self.last = self.last.max(visit.replied);
        self.servers = servers.iter().map(|one| usize::from(one.server) + 1).fold(self.servers, usize::max);
        self.books.finish(visit, servers);
    }

    /// One more than the highest number of a server.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// What is kept when the last reply had left; none where there was no row.
    pub fn snapshot(mut self) -> Option<LiveSnapshot> {
        self.second?;
        self.books.loop_use(self.last, LoopUse::default());
        Some(self.books.snapshot(self.last))
    }
}

#[cfg(test)]
mod tests {
    use krarup_units::Nanos;

    use super::*;
    use crate::{Operation, Outcome};

    /// Ten requests a second for so many seconds, every fifth of which is answered with an error.
    fn rows(seconds: u64) -> impl Iterator<Item = (Visit, ServerVisit)> {
        (0..10 * seconds).map(|number| {
            let mut visit = Visit::at(Stamp(number * SECOND / 10), Operation::Get);
            visit.replied = Stamp(visit.received.0 + Nanos::from_millis(1).0);
            visit.outcome = if number % 5 == 0 { Outcome::ServerError } else { Outcome::Ok };
            (visit, ServerVisit::ok((number % 3) as u16, visit.received, visit.replied))
        })
    }

    #[test]
    fn each_second_has_its_window_and_each_row_its_visit() {
        let mut live = LiveRows::new(KEPT_OF_ROWS);
        for (visit, server) in rows(20) {
            live.see(&visit, &[server]);
        }
        assert_eq!(live.servers(), 3);
        let kept = live.snapshot().unwrap();
        assert_eq!((kept.visits.len(), kept.windows.len()), (200, 20));
        assert!(kept.windows.iter().all(|window| (window.requests, window.failures) == (10, 2)));
        assert_eq!(kept.at, Stamp(199 * SECOND / 10 + 1_000_000));
    }

    #[test]
    fn no_row_is_no_snapshot() {
        assert_eq!(LiveRows::new(1).snapshot(), None);
    }
}
