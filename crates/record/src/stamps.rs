//! What each stamp and each time derived from stamps means, said once. Reports and docs quote it.
//!
//! All stamps are monotonic nanoseconds since the epoch of one run. A stamp stands next to the
//! system call it belongs to; where one call served a batch of requests, they share its stamp. **A
//! stamp whose event never happened takes the value of the stamp before it**, so that its part of
//! the time is zero: a request answered by the proxy itself was queued and taken when it was
//! received.

/// A name as it stands in code, files and reports, and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// One word for one thing, as columns and captions use it.
    pub name: &'static str,
    /// The definition, complete in itself.
    pub text: &'static str,
}

/// When the request was there.
pub const RECEIVED: Definition =
    Definition { name: "received", text: "after the read that brought the request's last byte" };
/// When the request began to wait.
pub const QUEUED: Definition = Definition {
    name: "queued",
    text: "when the request joined the queue of requests that wait for a worker",
};
/// When the request stopped waiting.
pub const TAKEN: Definition = Definition {
    name: "taken",
    text: "when the request left the queue: a worker took it, or it was given up",
};
/// When one server was asked.
pub const SENT: Definition =
    Definition { name: "sent", text: "before the write that carried the request's first byte to the server" };
/// When one server was done.
pub const ANSWERED: Definition = Definition {
    name: "answered",
    text: "after the read that completed the server's reply, or when the server was given up",
};
/// When the client had its reply.
pub const REPLIED: Definition = Definition {
    name: "replied",
    text: "after the write that took the reply's last byte, or when it was known that no reply would be taken",
};
/// Time with nobody working on the request but the dispatcher.
pub const QUEUE_TIME: Definition =
    Definition { name: "queue_time", text: "taken − queued: how long the request waited for a worker" };
/// Time with the servers.
pub const SERVER_TIME: Definition = Definition {
    name: "server_time",
    text: "last answered − first sent: how long any server had the request, the network to it included; zero where none was asked",
};
/// Everything else.
pub const OWN_TIME: Definition = Definition {
    name: "own_time",
    text: "response time − queue time − server time: what the station itself added before, between and after",
};
/// The whole.
pub const RESPONSE_TIME: Definition = Definition {
    name: "response_time",
    text: "replied − received: how long the station had the request, the sum of queue, server and own time",
};
/// How long a worker was bound.
pub const HOLD_TIME: Definition =
    Definition { name: "hold_time", text: "replied − taken: how long the request held its worker" };
/// One server's part of a request.
pub const ONE_SERVER_TIME: Definition = Definition {
    name: "one_server_time",
    text: "answered − sent of one server: how long this server had its part of the request",
};

/// Every definition, in the order of a request's life: first the stamps, then what derives from
/// them.
pub const DEFINITIONS: &[Definition] = &[
    RECEIVED,
    QUEUED,
    TAKEN,
    SENT,
    ANSWERED,
    REPLIED,
    QUEUE_TIME,
    SERVER_TIME,
    OWN_TIME,
    RESPONSE_TIME,
    HOLD_TIME,
    ONE_SERVER_TIME,
];

/// The definition of `name`, if there is one.
pub fn definition(name: &str) -> Option<Definition> {
    DEFINITIONS.iter().copied().find(|definition| definition.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_definition() {
        for one in DEFINITIONS {
            assert_eq!(DEFINITIONS.iter().filter(|other| other.name == one.name).count(), 1, "{}", one.name);
            assert_eq!(definition(one.name), Some(*one));
        }
        assert_eq!(definition("latency"), None);
    }
}
