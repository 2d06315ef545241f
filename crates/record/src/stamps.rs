//! What each stamp and each time derived from stamps means, said once. Reports and docs quote it.
//!
//! All stamps are monotonic nanoseconds since the epoch of one run. A stamp stands next to the
//! system call it belongs to; where one call served a batch of requests, they share its stamp. **A
//! stamp whose event never happened takes the value of the stamp before it**, so that its part of
//! the time is zero: a request answered by the proxy itself was queued and taken when it was
//! received.

use krarup_units::Unit;

/// A quantity: its name in code, files and reports, and what it means. The table of all is
/// [`crate::quantities::QUANTITIES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantityDefinition {
    /// One word for one thing, as captions, headings and the glossary use it.
    pub name: &'static str,
    /// Its symbol, or the formula that gives it; empty for what has none.
    pub symbol: &'static str,
    /// In which unit it is given.
    pub unit: Unit,
    /// The definition, a phrase that is complete together with those of [`Self::terms`].
    pub text: &'static str,
    /// The quantities that the definition names.
    pub terms: &'static [&'static QuantityDefinition],
    /// How columns of recorded files and log lines spell it; empty for what is not recorded.
    pub field: &'static str,
}

impl QuantityDefinition {
    /// A quantity that is not recorded and whose definition names no other.
    pub const fn new(name: &'static str, symbol: &'static str, unit: Unit, text: &'static str) -> Self {
        Self { name, symbol, unit, text, terms: &[], field: "" }
    }

    /// The same, with the quantities that its definition names.
    pub const fn in_terms_of(self, terms: &'static [&'static Self]) -> Self {
        Self { terms, ..self }
    }

    /// The same, with its spelling in recorded files.
    pub const fn recorded_as(self, field: &'static str) -> Self {
        Self { field, ..self }
    }

    /// Heading and unit of a column that holds it.
    pub const fn column(self) -> (&'static str, Unit) {
        (self.name, self.unit)
    }

    /// Its name and, if it is a letter rather than a formula, its symbol: `throughput X`.
    pub fn title(&self) -> String {
        if self.symbol.is_empty() || !self.formula().is_empty() {
            self.name.to_owned()
        } else {
            format!("{} {}", self.name, self.symbol)
        }
    }

    /// Its symbol where that is a formula rather than a letter; empty elsewhere.
    pub fn formula(&self) -> &'static str {
        if self.symbol.contains(' ') { self.symbol } else { "" }
    }

    /// The formula, if there is one, and the definition.
    pub fn meaning(&self) -> String {
        let formula = self.formula();
        if formula.is_empty() { self.text.to_owned() } else { format!("{formula}: {}", self.text) }
    }
}

const fn stamp(name: &'static str, text: &'static str) -> QuantityDefinition {
    QuantityDefinition::new(name, "", Unit::Seconds, text).recorded_as(name)
}

const fn time(name: &'static str, symbol: &'static str, text: &'static str) -> QuantityDefinition {
    QuantityDefinition::new(name, symbol, Unit::Seconds, text)
}

/// When the station had the request.
pub const RECEIVED: QuantityDefinition =
    stamp("received", "after the read that brought the request's last byte");
/// When the request began to wait.
pub const QUEUED: QuantityDefinition =
    stamp("queued", "when the request joined the queue of requests that wait for a worker");
/// When the request stopped waiting.
pub const TAKEN: QuantityDefinition =
    stamp("taken", "when the request left the queue: a worker took it, or it was given up");
/// When one server was asked.
pub const SENT: QuantityDefinition =
    stamp("sent", "before the write that carried the request's first byte to the server");
/// When one server was done.
pub const ANSWERED: QuantityDefinition =
    stamp("answered", "after the read that completed the server's reply, or when the server was given up");
/// When the client had its reply.
pub const REPLIED: QuantityDefinition = stamp(
    "replied",
    "after the write that took the reply's last byte, or when it was known that no reply would be taken",
);
/// Time in the queue.
pub const QUEUE_TIME: QuantityDefinition =
    time("queue time", "taken − queued", "how long the request waited for a worker")
        .in_terms_of(&[&QUEUED, &TAKEN])
        .recorded_as("queue_time");
/// Time with the servers.
pub const SERVER_TIME: QuantityDefinition = time(
    "server time",
    "last answered − first sent",
    "from the first server that was asked to the last that answered, the network to them and what a further part waited for \
     a reader included; zero where none was asked",
)
.in_terms_of(&[&SENT, &ANSWERED])
.recorded_as("server_time");
/// Everything else.
pub const OWN_TIME: QuantityDefinition = time(
    "own time",
    "response time at the middleware − queue time − server time",
    "what the station itself added before, between and after, the wait of a long value for room on its server's connection \
     included",
)
.in_terms_of(&[&RESPONSE_TIME, &QUEUE_TIME, &SERVER_TIME])
.recorded_as("own_time");
/// The whole.
pub const RESPONSE_TIME: QuantityDefinition = time(
    "response time at the middleware",
    "replied − received",
    "how long the station had the request, the sum of queue, server and own time",
)
.in_terms_of(&[&RECEIVED, &REPLIED])
.recorded_as("response_time");
/// How long a worker was bound.
pub const HOLD_TIME: QuantityDefinition =
    time("hold time", "replied − taken", "how long the request held its worker")
        .in_terms_of(&[&TAKEN, &REPLIED])
        .recorded_as("hold_time");
/// One server's part of a request.
pub const ONE_SERVER_TIME: QuantityDefinition =
    time("time of one server", "its answered − its sent", "how long this server had its part of the request")
        .in_terms_of(&[&SENT, &ANSWERED])
        .recorded_as("one_server_time");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_stands_in_the_title_and_a_formula_does_not() {
        assert_eq!(QuantityDefinition::new("throughput", "X", Unit::PerSecond, "").title(), "throughput X");
        assert_eq!(QUEUE_TIME.title(), "queue time");
        assert_eq!(QUEUE_TIME.meaning(), "taken − queued: how long the request waited for a worker");
        assert_eq!(RECEIVED.title(), "received");
    }
}
