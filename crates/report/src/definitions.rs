//! What each quantity in a report means, gathered from where it is defined: captions and the
//! reference page quote these.

use krarup_record::stamps;

use crate::document::QuantityDefinition;

/// Throughput, as the clients count it.
pub fn throughput() -> QuantityDefinition {
    own(
        "throughput X",
        "requests answered per second of the measured span, counted by the clients, errors included",
    )
}

/// Response time at the clients.
pub fn response_time() -> QuantityDefinition {
    own(
        "response time R",
        "from when a client's request was due to the read that brought the last byte of its reply, so that a late client \
         cannot hide a delay",
    )
}

/// A percentile of the response time.
pub fn percentile() -> QuantityDefinition {
    own("p50, p90, p99", "the response time that 50, 90, 99 of 100 requests did not exceed")
}

/// Time in the middleware's queue.
pub fn queue_time() -> QuantityDefinition {
    quoted("queue time", stamps::QUEUE_TIME)
}

/// What a load generator's rows have in place of a queue time.
pub fn lateness() -> QuantityDefinition {
    own(
        "lateness",
        "from when a request was due to when it was sent: the load generator was late itself, or all its connections waited for answers",
    )
}

/// What a load generator's rows have in place of a server time.
pub fn from_sent() -> QuantityDefinition {
    own("time from sent", "from when a request was sent to the read that brought the last byte of its reply")
}

/// Time with the servers.
pub fn server_time() -> QuantityDefinition {
    quoted("server time", stamps::SERVER_TIME)
}

/// The middleware's own time.
pub fn own_time() -> QuantityDefinition {
    quoted("own time", stamps::OWN_TIME)
}

/// Response time at the middleware.
pub fn middleware_response_time() -> QuantityDefinition {
    quoted("response time at the middleware", stamps::RESPONSE_TIME)
}

/// What the middleware does not see.
pub fn outside() -> QuantityDefinition {
    own(
        "outside the middleware",
        "mean response time at the clients − mean response time at the middleware: the network between them, and waiting to be \
         read on either side",
    )
}

/// The length of the middleware's queue.
pub fn queue_length() -> QuantityDefinition {
    own("queue length", "requests waiting for a worker, as seen by each request when a worker took it")
}

/// The share of keys found.
pub fn hit_ratio() -> QuantityDefinition {
    own("hit ratio", "keys found ÷ keys asked for, over all reads")
}

/// How busy a process is.
pub fn utilization() -> QuantityDefinition {
    own(
        "utilization U",
        "processor time a process used ÷ (measured span × processors it can use at once); busy is the same without the \
         division by the processors",
    )
}

/// The crossing point of the bounds.
pub fn knee() -> QuantityDefinition {
    own(
        "knee N*",
        "(R + Z) · X, with R at the fewest clients and X the highest throughput: beyond about as many clients they queue for the \
         bottleneck",
    )
}

/// The stamps the middleware's times are made of.
pub fn stamps() -> Vec<QuantityDefinition> {
    let all =
        [stamps::RECEIVED, stamps::QUEUED, stamps::TAKEN, stamps::SENT, stamps::ANSWERED, stamps::REPLIED];
    all.map(|stamp| quoted(stamp.name, stamp)).to_vec()
}

/// All of them, in the order of a request's life.
pub fn all() -> Vec<QuantityDefinition> {
    let mut all = vec![throughput(), response_time(), percentile()];
    all.extend(stamps());
    all.extend([queue_time(), server_time(), own_time(), middleware_response_time(), outside()]);
    all.extend([queue_length(), hit_ratio(), utilization(), knee()]);
    all
}

fn own(term: &str, meaning: &str) -> QuantityDefinition {
    QuantityDefinition { term: term.to_owned(), meaning: meaning.to_owned() }
}

fn quoted(term: &str, definition: stamps::Definition) -> QuantityDefinition {
    own(term, definition.text)
}
