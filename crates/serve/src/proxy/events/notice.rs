//! What the operator is told.

use krarup_units::Address;

/// Something the operator should know, told as it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyNotice {
    /// Clients can connect here.
    Listening(Address),
    /// Monitoring can ask here.
    Admin(Address),
    /// A server takes requests.
    ServerUp(String),
    /// A server does not take requests, and why. Told when it changes, not at every attempt.
    ServerDown(String, String),
    /// A connection to a server that takes requests was closed for its answer, and why.
    AnswerRefused(String, String),
    /// A stop was asked for: no more clients are accepted, and those that are there are served on.
    Draining,
    /// No more clients are accepted, and no more requests taken.
    Stopping,
    /// What was in flight was not finished within the limit: this many requests are without a
    /// reply.
    Unfinished(usize),
    /// Clients cannot be accepted, and why.
    NotAccepting(String),
    /// The configuration was read again and holds from now on.
    Reloaded,
    /// The configuration was read again and is no good, why; the one before goes on.
    NotReloaded(String),
    /// Something that was asked for will do no good.
    Warning(String),
    /// Every client can connect here from other machines, without authentication.
    Open(Address),
    /// The bound on memory was reached, and this client, which held this many bytes without getting
    /// on, was disconnected.
    Cut(u32, usize),
    /// Clients wait for memory from now on, of which there is so much for all loops together.
    MemoryShort(usize),
    /// They do not any more; so many were disconnected meanwhile.
    MemoryEnough(u64),
}

impl ProxyNotice {
    /// Whether each of several loops tells it for itself.
    pub(super) fn is_of_one_loop(&self) -> bool {
        matches!(
            self,
            Self::AnswerRefused(..)
                | Self::Cut(..)
                | Self::Unfinished(_)
                | Self::MemoryShort(_)
                | Self::MemoryEnough(_)
        )
    }
}

/// What several loops say of their memory, told as one.
#[derive(Debug, Default)]
pub(super) struct MemoryNotices {
    /// Loops in which clients wait for memory.
    short: usize,
    cut: u64,
}

impl MemoryNotices {
    /// What is told; none while another loop is as this one was.
    pub(super) fn summed(&mut self, told: ProxyNotice) -> Option<ProxyNotice> {
        match told {
            ProxyNotice::MemoryShort(_) => {
                self.short += 1;
                (self.short == 1).then_some(told)
            }
            ProxyNotice::MemoryEnough(cut) => {
                self.short -= 1;
                self.cut += cut;
                (self.short == 0).then(|| ProxyNotice::MemoryEnough(std::mem::take(&mut self.cut)))
            }
            told => Some(told),
        }
    }
}
