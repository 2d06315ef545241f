//! Large values are not copied: who reads them lends their memory, and outboxes keep a piece of it
//! until it has left.
//!
//! A value is held once, however many servers get it, from its last byte's arrival until the
//! slowest of them has taken it; and a value that a server has sent, until its client has. Small
//! ones are copied: that is cheaper than to keep count.

use std::sync::Arc;

use krarup_units::Lent;

/// What is shorter is copied, in bytes: into memory that is there already, which is cheaper than
/// new memory for each.
pub(crate) const LARGE: usize = 1 << 20;

/// The same for requests. One that is longer than a usual read lies in memory of its own already.
pub const LARGE_REQUEST: usize = 128 << 10;

/// The memory that bytes lie in, where pieces of it may be kept.
pub(crate) type BufferMemory<'a> = Option<&'a Arc<Vec<u8>>>;

/// A request's bytes, and the memory that they lie in.
#[derive(Clone, Copy)]
pub(crate) struct RequestBytes<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) memory: BufferMemory<'a>,
}

/// The piece that `bytes` are of `memory`, if they are at `least` so long.
#[inline]
fn piece(memory: BufferMemory<'_>, least: usize, bytes: &[u8]) -> Option<Lent> {
    Lent::of(memory.filter(|_| bytes.len() >= least)?, bytes)
}

/// A reply, if it is better kept than copied.
#[inline]
pub(crate) fn reply(memory: BufferMemory<'_>, bytes: &[u8]) -> Option<Lent> {
    piece(memory, LARGE, bytes)
}

/// The value of a request and the line end behind it, if they are better kept than copied.
#[inline]
pub(crate) fn value(memory: BufferMemory<'_>, data: &[u8]) -> Option<Lent> {
    piece(memory, LARGE_REQUEST / 2, data)?.longer(2)
}

/// A whole request, if it is better kept than copied.
#[inline]
pub(crate) fn request(source: RequestBytes<'_>) -> Option<Lent> {
    piece(source.memory, LARGE_REQUEST, source.bytes)
}
