//! Several event loops of one service: each client is served by one of them.

use krarup_net::Stream;

/// Several event loops over which the connections of one are distributed.
pub(crate) trait EventLoops {
    /// How many clients are connected to all of them.
    fn clients(&self) -> usize;
    /// Where a new connection, accepted at the listener of that `number`, is to be served: it is
    /// given back if here.
    fn hand_over(&self, stream: Stream, number: usize) -> Option<Stream>;
    /// A client of this loop is gone.
    fn one_gone(&self);
}
