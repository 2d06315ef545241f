//! The quantities of the project, each with its name, symbol, unit and definition: one table for
//! recorded files, models, analysis, reports and the glossary.

use krarup_units::Unit::{Count, PerSecond, Seconds, Share};

pub use crate::stamps::QuantityDefinition;
use crate::stamps::RESPONSE_TIME as MIDDLEWARE_RESPONSE_TIME;
use crate::stamps::{
    ANSWERED, HOLD_TIME, ONE_SERVER_TIME, OWN_TIME, QUEUE_TIME, QUEUED, RECEIVED, REPLIED, SENT, SERVER_TIME,
    TAKEN,
};

const fn quantity(
    name: &'static str,
    symbol: &'static str,
    unit: krarup_units::Unit,
    text: &'static str,
) -> QuantityDefinition {
    QuantityDefinition::new(name, symbol, unit, text)
}

/// How many requests arrive.
pub const ARRIVAL_RATE: QuantityDefinition =
    quantity("arrival rate", "λ", PerSecond, "requests that arrive per second, completed or not");
/// How many requests are completed.
pub const THROUGHPUT: QuantityDefinition = quantity(
    "throughput",
    "X",
    PerSecond,
    "requests completed per second; where it is measured, over the measured span. Reports of krarup run (by the clients' count) \
     and of krarup analyze count errors too; krarup load, recorded windows and the summary of a middleware leave them out",
);
/// How many keys are asked for.
pub const KEY_RATE: QuantityDefinition = quantity(
    "keys read",
    "",
    PerSecond,
    "keys that requests to read asked for, found or not, per second: a multi-get asks for several",
);
/// How long a visit is served.
pub const SERVICE_TIME: QuantityDefinition =
    quantity("service time", "S", Seconds, "time that one visit keeps a station busy, without waiting");
/// How often a station is visited.
pub const VISIT_RATIO: QuantityDefinition =
    quantity("visit ratio", "V", Count, "how often one request visits a station");
/// How long a request is served at a station.
pub const SERVICE_DEMAND: QuantityDefinition = quantity(
    "service demand",
    "D = V · S",
    Seconds,
    "time that one request keeps a station or a resource busy, over all its visits",
)
.in_terms_of(&[&VISIT_RATIO, &SERVICE_TIME]);
/// How long a request waits at a station.
pub const WAITING_TIME: QuantityDefinition =
    quantity("waiting time", "W", Seconds, "time in a queue only, from joining it to leaving it");
/// How long a visit takes.
pub const RESIDENCE_TIME: QuantityDefinition =
    quantity("residence time", "R_k = V · (W + S)", Seconds, "time at one station, its queue included")
        .in_terms_of(&[&VISIT_RATIO, &WAITING_TIME, &SERVICE_TIME]);
/// How long a request takes, as its client sees it.
pub const RESPONSE_TIME: QuantityDefinition = quantity(
    "response time",
    "R",
    Seconds,
    "from when a client's request is due to the read that brings the last byte of its reply, so that a late client cannot hide a \
     delay",
);
/// Percentiles of a time.
pub const PERCENTILE: QuantityDefinition = quantity(
    "percentile",
    "p50, p90, p99",
    Seconds,
    "the time that 50, 90, 99 of 100 requests did not exceed",
);
/// What the middleware does not see.
pub const OUTSIDE: QuantityDefinition = quantity(
    "outside the middleware",
    "response time − response time at the middleware, means of both",
    Seconds,
    "the network between clients and middleware, and waiting to be read on either side",
)
.in_terms_of(&[&RESPONSE_TIME, &MIDDLEWARE_RESPONSE_TIME]);
/// How late a request was sent.
pub const LATENESS: QuantityDefinition = quantity(
    "lateness",
    "",
    Seconds,
    "from when a request was due to when it was sent: the load generator was late itself, or all its connections waited for \
     replies",
);
/// A client's time without its lateness.
pub const TIME_FROM_SENT: QuantityDefinition = quantity(
    "time from sent",
    "",
    Seconds,
    "from when a client sent a request to the read that brought the last byte of its reply",
);
/// How busy something is.
pub const UTILIZATION: QuantityDefinition = quantity(
    "utilization",
    "U",
    Share,
    "share of the time in which a station is busy; of a process, the processor time that it used ÷ (measured span × processors it \
     can use at once). Busy is the same without the division by the processors",
);
/// How many requests wait.
pub const QUEUE_LENGTH: QuantityDefinition = quantity(
    "queue length",
    "",
    Count,
    "requests that wait for a worker, as seen by each request when a worker takes it",
);
/// How many workers are busy.
pub const WORKERS_HELD: QuantityDefinition = quantity(
    "workers held",
    "X · (response time at the middleware − queue time) ÷ workers",
    Share,
    "share of the workers that hold a request, by Little's law; of a broker, whose connection is free when the database has \
     answered, X · server time ÷ connections; unlimited workers have none",
)
.in_terms_of(&[&THROUGHPUT, &MIDDLEWARE_RESPONSE_TIME, &QUEUE_TIME, &SERVER_TIME]);
/// How many requests are at a station.
pub const AT_STATION: QuantityDefinition = quantity(
    "at the station",
    "Q",
    Count,
    "mean number of requests at a station: those that wait and those in service",
);
/// How many customers a closed network has.
pub const POPULATION: QuantityDefinition = quantity(
    "population",
    "N",
    Count,
    "customers of a closed network: clients that wait for a reply or think",
);
/// How long a client pauses.
pub const THINK_TIME: QuantityDefinition =
    quantity("think time", "Z", Seconds, "from a reply until the same client's next request is due");
/// The share of keys found.
pub const HIT_RATIO: QuantityDefinition =
    quantity("hit ratio", "hits ÷ (hits + misses)", Share, "keys found ÷ keys asked for, over all reads");
/// The crossing point of the bounds.
pub const KNEE: QuantityDefinition = quantity(
    "knee",
    "N* = (D + Z) · X_max",
    Count,
    "the population from which requests begin to wait for each other. D is the sum of all demands, X_max the capacity; measured, it \
     is (R + Z) · X, with R at the fewest clients and X the highest throughput",
)
.in_terms_of(&[&SERVICE_DEMAND, &THINK_TIME, &CAPACITY, &RESPONSE_TIME, &THROUGHPUT]);
/// The most that is possible.
pub const CAPACITY: QuantityDefinition = quantity(
    "capacity",
    "X_max = min (m ÷ D)",
    PerSecond,
    "the highest throughput that the bottleneck allows: D is a station's demand, m how many requests it serves at once (workers, \
     processors); the least of all stations counts",
)
.in_terms_of(&[&THROUGHPUT, &SERVICE_DEMAND]);
/// What is left.
pub const HEADROOM: QuantityDefinition =
    quantity("headroom", "1 − X ÷ X_max", Share, "share of the capacity that is left at the present load")
        .in_terms_of(&[&THROUGHPUT, &CAPACITY]);

/// Every quantity once: first what a client sees, then stamps and times in the order of a request's
/// life, then what models add.
pub const QUANTITIES: &[QuantityDefinition] = &[
    ARRIVAL_RATE,
    THROUGHPUT,
    KEY_RATE,
    RESPONSE_TIME,
    PERCENTILE,
    LATENESS,
    TIME_FROM_SENT,
    HIT_RATIO,
    RECEIVED,
    QUEUED,
    TAKEN,
    SENT,
    ANSWERED,
    REPLIED,
    QUEUE_TIME,
    SERVER_TIME,
    OWN_TIME,
    MIDDLEWARE_RESPONSE_TIME,
    OUTSIDE,
    HOLD_TIME,
    ONE_SERVER_TIME,
    QUEUE_LENGTH,
    WORKERS_HELD,
    UTILIZATION,
    SERVICE_TIME,
    VISIT_RATIO,
    SERVICE_DEMAND,
    WAITING_TIME,
    RESIDENCE_TIME,
    AT_STATION,
    POPULATION,
    THINK_TIME,
    KNEE,
    CAPACITY,
    HEADROOM,
];

/// The quantity of this name, if there is one.
pub fn named(name: &str) -> Option<QuantityDefinition> {
    QUANTITIES.iter().copied().find(|quantity| quantity.name == name)
}

/// `used` and everything that their definitions name, each once, in the order of the table; those
/// that are not in it stand last.
pub fn glossary(used: impl IntoIterator<Item = QuantityDefinition>) -> Vec<QuantityDefinition> {
    let mut found: Vec<QuantityDefinition> = Vec::new();
    let mut open: Vec<QuantityDefinition> = used.into_iter().collect();
    open.reverse();
    while let Some(next) = open.pop() {
        if !found.contains(&next) {
            found.push(next);
            open.extend(next.terms.iter().copied());
        }
    }
    let place = |one: &QuantityDefinition| QUANTITIES.iter().position(|known| known == one);
    found.sort_by_key(|one| place(one).unwrap_or(usize::MAX));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_definition_and_every_term_of_it_is_defined() {
        for one in QUANTITIES {
            assert_eq!(QUANTITIES.iter().filter(|other| other.name == one.name).count(), 1, "{}", one.name);
            assert_eq!(named(one.name), Some(*one));
            assert!(!one.text.is_empty() && !one.text.ends_with('.'), "{}: a phrase", one.name);
            let unknown = one.terms.iter().find(|term| named(term.name).as_ref() != Some(*term));
            assert_eq!(unknown, None, "of {}", one.name);
        }
        assert_eq!(named("latency"), None);
    }

    #[test]
    fn a_glossary_has_what_the_definitions_name_each_once_in_the_order_of_the_table() {
        let own = QuantityDefinition::new("speed", "v", PerSecond, "of another program");
        let names: Vec<&str> =
            glossary([own, QUEUE_TIME, THROUGHPUT, QUEUE_TIME]).iter().map(|one| one.name).collect();
        assert_eq!(names, ["throughput", "queued", "taken", "queue time", "speed"]);
        assert_eq!(glossary([]), []);
    }
}
