//! Where rows go besides the recorder, with connections numbered over all cores whose rows go to
//! one place.

use std::sync::{Mutex, PoisonError};

use krarup_record::{ServerVisit, Visit};
use smallvec::SmallVec;

/// Where recorded rows go besides the recorder.
pub trait RowSink: Send {
    /// One row, complete; `pool` is the number of that of its first key.
    fn row(&mut self, visit: &Visit, servers: &[ServerVisit], pool: usize);

    /// A server has answered a request whose row is complete already.
    fn late(&mut self, visit: &ServerVisit) {
        let _ = visit;
    }

    /// A server has answered what belongs to no row: a copy, a refill or a shadow.
    fn detached(&mut self, visit: &ServerVisit) {
        let _ = visit;
    }
}

/// A sink, and which of the cores writes to it.
pub(super) struct Rows {
    /// Never locked: the owner of the books has them alone, and only their numbers are shared.
    sink: Mutex<Box<dyn RowSink>>,
    place: u16,
    of: u16,
}

impl Rows {
    pub(super) fn new(sink: Box<dyn RowSink>, place: u16, of: u16) -> Self {
        Self { sink: Mutex::new(sink), place, of }
    }

    fn sink(&mut self) -> &mut dyn RowSink {
        self.sink.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut()
    }

    /// Each core counts its connections from zero, and no two cores have one in common. Beyond
    /// 65,535 numbers are used again.
    fn numbered(&self, one: &ServerVisit) -> ServerVisit {
        ServerVisit { lane: one.lane.wrapping_mul(self.of).wrapping_add(self.place), ..*one }
    }

    #[inline]
    pub(super) fn row(&mut self, visit: &Visit, servers: &[ServerVisit], pool: usize) {
        if self.of == 1 {
            return self.sink().row(visit, servers, pool);
        }
        let servers: SmallVec<[ServerVisit; 8]> = servers.iter().map(|one| self.numbered(one)).collect();
        self.sink().row(visit, &servers, pool);
    }

    pub(super) fn late(&mut self, visit: &ServerVisit) {
        let visit = self.numbered(visit);
        self.sink().late(&visit);
    }

    pub(super) fn detached(&mut self, visit: &ServerVisit) {
        let visit = self.numbered(visit);
        self.sink().detached(&visit);
    }
}
