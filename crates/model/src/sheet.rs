//! A question of a course sheet, and what a law says of it before anything is measured.
//!
//! A law is told its parameters by the sheet. What it needs of the system besides (how many
//! clients, their think time, the response time of the fewest) is [`SheetInputs`].

use krarup_record::quantities::{self, QuantityDefinition};
use krarup_record::stamps;
use krarup_units::text::{count, duration, three_digits};
use krarup_units::{Seconds, Unit};
use serde::{Deserialize, Serialize};

use crate::calibrate::Wire;
use crate::forkjoin::Cluster;
use crate::laws;

/// A question of a sheet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SheetQuestion {
    /// Its name in a file of answers.
    pub id: String,
    /// The question.
    pub ask: String,
    /// Which measured quantity answers it; none where none does.
    pub measured: Option<SheetMeasure>,
    /// The levels of the cell that answers it; one without the population's is the workload's
    /// limit.
    pub at: Vec<(String, String)>,
    /// Levels that are others in the cell it is compared with; empty where it is compared with
    /// none.
    pub beside: Vec<(String, String)>,
    /// How far a right answer may be from what was measured, as a share of it; of a change, in its
    /// own unit.
    pub within: f64,
    /// What a model says.
    pub law: SheetLaw,
}

impl SheetQuestion {
    /// The unit of its answer.
    pub fn unit(&self) -> Unit {
        match self.measured {
            Some(_) if !self.beside.is_empty() => Unit::Share,
            Some(measured) => measured.quantity().unit,
            None => self.law.unit(),
        }
    }
}

/// What a reader guessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SheetGuess {
    /// The question's name.
    pub id: String,
    /// The question, as it was asked.
    pub ask: String,
    /// What was written.
    pub written: String,
    /// What that is in the base unit; none where there is no guess.
    pub value: Option<f64>,
}

/// What is looked up among the results to answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SheetMeasure {
    /// Requests answered per second.
    Throughput,
    /// Keys asked for per second.
    Keys,
    /// Mean response time at the clients.
    Response,
    /// Mean queue time at the middleware.
    QueueTime,
    /// Mean server time at the middleware.
    ServerTime,
    /// Requests in the middleware's queue.
    QueueLength,
    /// Requests that are with the servers.
    AtServers,
    /// The fewest clients that reach the highest throughput but for 5 %.
    ClientsAtLimit,
    /// Bytes that the middlewares send for each request, headers included.
    MiddlewareBytes,
}

impl SheetMeasure {
    /// All, with the words by which a spec names them.
    pub const NAMES: [(Self, &'static str); 9] = [
        (Self::Throughput, "throughput"),
        (Self::Keys, "keys"),
        (Self::Response, "response"),
        (Self::QueueTime, "queue_time"),
        (Self::ServerTime, "server_time"),
        (Self::QueueLength, "queue_length"),
        (Self::AtServers, "at_servers"),
        (Self::ClientsAtLimit, "clients_at_limit"),
        (Self::MiddlewareBytes, "middleware_bytes"),
    ];

    /// What it is.
    pub const fn quantity(self) -> QuantityDefinition {
        match self {
            Self::Throughput => quantities::THROUGHPUT,
            Self::Keys => quantities::KEY_RATE,
            Self::Response => quantities::RESPONSE_TIME,
            Self::QueueTime => stamps::QUEUE_TIME,
            Self::ServerTime => stamps::SERVER_TIME,
            Self::QueueLength => quantities::QUEUE_LENGTH,
            Self::AtServers => quantities::AT_STATION,
            Self::ClientsAtLimit => quantities::POPULATION,
            Self::MiddlewareBytes => BYTES_ON_THE_WIRE,
        }
    }
}

/// What one request takes of links.
const BYTES_ON_THE_WIRE: QuantityDefinition = QuantityDefinition::new(
    "bytes on the wire",
    "",
    Unit::Count,
    "bytes that are sent for one request, the headers of all packets included",
);

/// A law with the parameters that a sheet gives it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SheetLaw {
    /// X = links · C / (8 · copies · (bytes + headers)).
    Link {
        /// C.
        bits_per_second: f64,
        /// How many links share the work evenly.
        links: u32,
        /// How often a request sends the bytes.
        copies: u32,
        /// Of one message.
        bytes: u64,
    },
    /// The time for which a message keeps a link busy.
    LinkTime {
        /// What the link carries.
        bits_per_second: f64,
        /// Of the message.
        bytes: u64,
    },
    /// Bytes of messages with the headers of their packets.
    Wire {
        /// How many messages.
        copies: u32,
        /// Of one message.
        bytes: u64,
    },
    /// X = m / D.
    Slots {
        /// m: connections, workers.
        slots: u32,
        /// D: for how long a request holds one.
        time: Seconds,
    },
    /// N* = X (R + Z).
    Knee {
        /// X: the bound.
        throughput: f64,
        /// R without waiting; none: as measured with the fewest clients.
        response: Option<Seconds>,
    },
    /// R = N / X − Z.
    Interactive {
        /// X: the bound.
        throughput: f64,
    },
    /// N − m requests wait.
    Waiting {
        /// m.
        slots: u32,
    },
    /// W = (N − m) / X.
    WaitingTime {
        /// m.
        slots: u32,
        /// X.
        throughput: f64,
    },
    /// Of N requests m at most are beyond the queue.
    Held {
        /// m.
        slots: u32,
    },
    /// The slowest of several exponential times.
    Slowest {
        /// The mean of each.
        time: Seconds,
        /// How many.
        copies: u32,
    },
    /// How the mean response time changes with a share of costly requests.
    MixResponse(CostlyShare),
    /// How the throughput of a full system changes with a share of costly requests.
    MixThroughput(CostlyShare),
}

/// Requests of two kinds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostlyShare {
    /// w: the share of costly ones.
    pub share: f64,
    /// w₀: their share in what it is compared with; with 0 it is compared with them costing the
    /// same.
    pub before: f64,
    /// c: how many times longer they take.
    pub times: f64,
}

impl CostlyShare {
    /// (1 + w (c − 1)) / (1 + w₀ (c − 1)).
    fn growth(self) -> f64 {
        let of = |share: f64| 1.0 + share * (self.times - 1.0);
        of(self.share) / of(self.before)
    }
}

/// What is known of the cell beside the sheet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SheetInputs {
    /// N.
    pub clients: Option<f64>,
    /// Z.
    pub think: Seconds,
    /// R of the fewest clients, as measured.
    pub least_response: Option<Seconds>,
}

/// What a model says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SheetFigure {
    /// The value, in the base unit.
    pub value: f64,
    /// Where it comes from, in a line.
    pub from: String,
}

impl SheetLaw {
    /// The unit of what it says.
    pub const fn unit(&self) -> Unit {
        match self {
            Self::Link { .. } | Self::Slots { .. } => Unit::PerSecond,
            Self::LinkTime { .. }
            | Self::Interactive { .. }
            | Self::WaitingTime { .. }
            | Self::Slowest { .. } => Unit::Seconds,
            Self::Wire { .. } | Self::Knee { .. } | Self::Waiting { .. } | Self::Held { .. } => Unit::Count,
            Self::MixResponse(_) | Self::MixThroughput(_) => Unit::Share,
        }
    }

    /// What it says; none where it needs more than is known.
    pub fn figure(&self, inputs: SheetInputs) -> Option<SheetFigure> {
        let (clients, think) = (inputs.clients, inputs.think);
        let think_words = if think > 0.0 { format!(" − {}", duration(think)) } else { String::new() };
        let figure = |value: f64, from: String| Some(SheetFigure { value, from });
        match *self {
            Self::Link { bits_per_second, links, copies, bytes } => {
                let wire = on_the_wire(bytes);
                let value = f64::from(links) * Wire::TCP.limit(bits_per_second, bytes) / f64::from(copies);
                let (links, rate) = (several(links), mbit(bits_per_second));
                figure(value, format!("bound of the link: {links}{rate} / (8 · {}{wire})", several(copies)))
            }
            Self::LinkTime { bits_per_second, bytes } => {
                let (wire, rate) = (on_the_wire(bytes), mbit(bits_per_second));
                figure(1.0 / Wire::TCP.limit(bits_per_second, bytes), format!("8 · {wire} / {rate}"))
            }
            Self::Wire { copies, bytes } => {
                let value = f64::from(copies) * (bytes + Wire::TCP.overhead(bytes).0) as f64;
                figure(value, format!("{}{}", several(copies), on_the_wire(bytes)))
            }
            Self::Slots { slots, time } => {
                let from = format!("bound m/D: {} / {}", count(f64::from(slots)), duration(time));
                figure(f64::from(slots) / time, from)
            }
            Self::Knee { throughput, response } => {
                let (time, of) = match response {
                    Some(time) => (time, "given"),
                    None => (inputs.least_response?, "measured with the fewest clients"),
                };
                let (x, r) = (rate(throughput), duration(time));
                let loop_time = if think > 0.0 { format!("({r} + {})", duration(think)) } else { r };
                let from = format!("knee N* = X (R + Z): {x} · {loop_time}, R as {of}");
                figure(laws::little(throughput, time + think), from)
            }
            Self::Interactive { throughput } => {
                let clients = clients?;
                let from = format!(
                    "interactive law R = N/X − Z: {} / {}{think_words}",
                    count(clients),
                    rate(throughput)
                );
                figure(laws::response(clients, throughput, think), from)
            }
            Self::Waiting { slots } => {
                let value = (clients? - f64::from(slots)).max(0.0);
                figure(value, format!("all that are not held wait: {} − {slots}", count(clients?)))
            }
            Self::WaitingTime { slots, throughput } => {
                let waiting = (clients? - f64::from(slots)).max(0.0);
                let from =
                    format!("Little's law W = Q/X: ({} − {slots}) / {}", count(clients?), rate(throughput));
                figure(waiting / throughput, from)
            }
            Self::Held { slots } => {
                let value = clients?.min(f64::from(slots));
                figure(value, format!("at most {slots} of {} are let through", count(clients?)))
            }
            Self::Slowest { time, copies } => figure(
                slowest(time, copies),
                format!(
                    "the slowest of {copies} exponential times: {} · (1 + … + 1/{copies})",
                    duration(time)
                ),
            ),
            Self::MixResponse(mix) => figure(mix.growth() - 1.0, mix_words("R", mix)),
            Self::MixThroughput(mix) => figure(1.0 / mix.growth() - 1.0, mix_words("1/X", mix)),
        }
    }
}

/// The mean of the slowest of so many exponential times of this mean.
fn slowest(time: Seconds, copies: u32) -> Seconds {
    let cluster = Cluster::of_single_servers(&vec![time; copies as usize], copies, copies);
    cluster.forks.first().map_or(0.0, |fork| cluster.alone(fork))
}

fn mix_words(what: &str, CostlyShare { share, before, times }: CostlyShare) -> String {
    let part = |share: f64| format!("1 + {} · {}", three_digits(share), three_digits(times - 1.0));
    match before > 0.0 {
        true => format!("{what} grows by ({}) / ({})", part(share), part(before)),
        false => format!("{what} grows by {}", part(share)),
    }
}

fn on_the_wire(bytes: u64) -> String {
    let headers = Wire::TCP.overhead(bytes).0;
    format!("({} B + {} B of headers)", count(bytes as f64), count(headers as f64))
}

fn mbit(bits_per_second: f64) -> String {
    format!("{} Mbit/s", count(bits_per_second / 1e6))
}

fn rate(throughput: f64) -> String {
    Unit::PerSecond.show(throughput.round())
}

fn several(number: u32) -> String {
    if number == 1 { String::new() } else { format!("{number} · ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(law: SheetLaw, inputs: SheetInputs) -> f64 {
        law.figure(inputs).unwrap().value
    }

    /// The 2018 report: 101 Mbit/s and replies of 4132 B; it measured 2938 per second, and with 192
    /// clients 65.3 ms, of which the queue for 64 workers took 42.17 ms.
    #[test]
    fn the_published_baseline_is_what_the_link_says() {
        let link = SheetLaw::Link { bits_per_second: 101e6, links: 1, copies: 1, bytes: 4_132 };
        let bound = link.figure(SheetInputs::default()).unwrap();
        assert!((bound.value / 2_938.0 - 1.0).abs() < 0.01, "{bound:?}");
        assert_eq!(bound.from, "bound of the link: 101 Mbit/s / (8 · (4,132 B + 156 B of headers))");
        let inputs = SheetInputs { clients: Some(192.0), ..SheetInputs::default() };
        let response = value(SheetLaw::Interactive { throughput: bound.value }, inputs);
        assert!((response / 65.3e-3 - 1.0).abs() < 0.01, "{response}");
        let waiting = SheetLaw::WaitingTime { slots: 64, throughput: bound.value };
        let queue = value(waiting, inputs);
        assert!((queue / 42.17e-3 - 1.0).abs() < 0.05, "{queue}");
        assert_eq!(value(SheetLaw::Waiting { slots: 64 }, inputs), 128.0);
        assert_eq!(value(SheetLaw::Held { slots: 40 }, inputs), 40.0);
        assert_eq!(value(SheetLaw::Held { slots: 400 }, inputs), 192.0);
    }

    #[test]
    fn links_that_share_the_work_carry_more_and_copies_less() {
        let of = |links, copies| SheetLaw::Link { bits_per_second: 1e8, links, copies, bytes: 1_000 };
        let one = value(of(1, 1), SheetInputs::default());
        assert!((value(of(2, 3), SheetInputs::default()) / one - 2.0 / 3.0).abs() < 1e-12);
        let time = value(SheetLaw::LinkTime { bits_per_second: 1e8, bytes: 1_000 }, SheetInputs::default());
        assert!((time * one - 1.0).abs() < 1e-12);
        assert_eq!(value(SheetLaw::Wire { copies: 3, bytes: 1_000 }, SheetInputs::default()), 3.0 * 1_052.0);
    }

    #[test]
    fn a_pool_bounds_the_rate_and_the_knee() {
        let bound = value(SheetLaw::Slots { slots: 40, time: 3e-3 }, SheetInputs::default());
        assert!((bound - 13_333.3).abs() < 0.1);
        let given = SheetLaw::Knee { throughput: bound, response: Some(3e-3) };
        assert!((value(given, SheetInputs::default()) - 40.0).abs() < 1e-9);
        let measured = SheetLaw::Knee { throughput: bound, response: None };
        assert_eq!(measured.figure(SheetInputs::default()), None, "nothing was measured");
        let inputs = SheetInputs { think: 1e-3, least_response: Some(2e-3), clients: None };
        assert!((value(measured, inputs) - 40.0).abs() < 1e-9);
    }

    #[test]
    fn the_slowest_of_three_takes_eleven_sixths() {
        let three = value(SheetLaw::Slowest { time: 1e-3, copies: 3 }, SheetInputs::default());
        assert!((three - 11.0 / 6.0 * 1e-3).abs() < 1e-9, "{three}");
    }

    #[test]
    fn costly_requests_weigh_by_their_share() {
        let mix = CostlyShare { share: 0.05, before: 0.0, times: 3.0 };
        assert!((value(SheetLaw::MixResponse(mix), SheetInputs::default()) - 0.1).abs() < 1e-12);
        let x = value(SheetLaw::MixThroughput(mix), SheetInputs::default());
        assert!((x - (1.0 / 1.1 - 1.0)).abs() < 1e-12);
        let more = CostlyShare { share: 0.1, before: 0.01, times: 3.0 };
        let x = value(SheetLaw::MixThroughput(more), SheetInputs::default());
        assert!((x + 0.15).abs() < 1e-12, "{x}");
    }
}
