//! Where the broker keeps its messages.

use krarup_store::pool::ConnectionPoolSettings;
use krarup_store::postgres::{Owned, Sharing};

/// Where messages are kept that are not in memory alone.
#[derive(Debug)]
pub enum MessageStore {
    /// In a database whose queues this process owns.
    Owned(Owned),
    /// In a database that decides for itself.
    Shared(Sharing, ConnectionPoolSettings),
}
