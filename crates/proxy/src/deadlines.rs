//! What is due when: the next instant at which a request needs attention though nothing happens.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use krarup_units::Stamp;

use crate::ids::RequestId;

/// Requests that are to be looked at at an instant, the earliest first.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// A request's number may be another's by then: its generation tells.
    hedges: BinaryHeap<Reverse<(Stamp, RequestId, u16, u32)>>,
}

impl Deadlines {
    /// This part of the read that uses the number in this generation is sent to a second holder at
    /// `due`, unless it has been answered.
    pub(crate) fn hedge(&mut self, due: Stamp, number: RequestId, part: u16, generation: u32) {
        self.hedges.push(Reverse((due, number, part, generation)));
    }

    /// When something is due next.
    pub(crate) fn next(&self) -> Option<Stamp> {
        self.hedges.peek().map(|&Reverse((due, ..))| due)
    }

    /// A read that is due at `now`, which part of it, and its generation.
    pub(crate) fn take_due(&mut self, now: Stamp) -> Option<(RequestId, u16, u32)> {
        self.next().filter(|&due| due <= now)?;
        let Reverse((_, number, part, generation)) = self.hedges.pop()?;
        Some((number, part, generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Identifier;

    #[test]
    fn what_is_due_comes_in_order_and_not_before_its_time() {
        let mut deadlines = Deadlines::default();
        let ids = [1, 2, 3].map(RequestId::new);
        for (due, id) in [(30, ids[0]), (10, ids[1]), (20, ids[2])] {
            deadlines.hedge(Stamp(due), id, 2, 7);
        }
        assert_eq!((deadlines.next(), deadlines.take_due(Stamp(9))), (Some(Stamp(10)), None));
        assert_eq!(deadlines.take_due(Stamp(20)), Some((ids[1], 2, 7)));
        assert_eq!(deadlines.take_due(Stamp(20)), Some((ids[2], 2, 7)));
        assert_eq!((deadlines.take_due(Stamp(20)), deadlines.next()), (None, Some(Stamp(30))));
    }
}
