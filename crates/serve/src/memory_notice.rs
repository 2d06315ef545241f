//! What operators of a broker and of a cache are told of the memory of clients' buffers.

use krarup_service::ClientId;

use crate::driver::DriverNotice;

/// Told as it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryNotice {
    /// Clients wait for memory from now on, of which there is so much.
    Short(usize),
    /// The bound was reached, and this client, which held this many bytes without getting on, was
    /// disconnected.
    Cut(ClientId, usize),
    /// No client waits any more; so many were disconnected meanwhile.
    Enough(u64),
}

impl MemoryNotice {
    /// What a driver tells of it whose clients may take so much `memory`; none: it is about
    /// something else.
    pub(crate) fn of(notice: &DriverNotice, memory: usize) -> Option<Self> {
        match *notice {
            DriverNotice::MemoryShort => Some(Self::Short(memory)),
            DriverNotice::Cut(client, bytes) => Some(Self::Cut(client, bytes)),
            DriverNotice::MemoryEnough(cut) => Some(Self::Enough(cut)),
            _ => None,
        }
    }
}
