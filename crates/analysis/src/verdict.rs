//! What is said of a workload: how far it goes, and what stops it, in plain words with the
//! evidence.

use std::fmt;

use krarup_record::quantities::{self, QuantityDefinition};
use krarup_record::stamps;
use krarup_record::summary::DATABASE;
use krarup_record::watch::FOREIGN;
use krarup_units::{Seconds, Unit, text};
use serde::{Deserialize, Serialize};

use crate::cell::ProcessLoad;
use crate::quantity::{CERTAIN, Quantity};
use crate::trial::{CellLevels, HostLink, SystemPart};

/// A rate within this share of the highest counts as the highest.
pub(crate) const NEAR: f64 = 0.95;

/// What was learnt about one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The cell with the fewest clients whose throughput is within 5 % of the highest.
    pub at: CellLevels,
    /// Its throughput.
    pub throughput: Quantity,
    /// Its mean response time.
    pub response: Seconds,
    /// Its 99th percentile.
    pub p99: Seconds,
    /// Whether more clients would bring more.
    pub saturation: Saturation,
    /// What stops it.
    pub bottleneck: Bottleneck,
    /// Where that is a process: the other processes that are full, too, the fullest first. Which of
    /// them all is the limit is not known then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_full: Vec<ProcessLoad>,
    /// Where the response time goes there, largest part first; empty where the middleware was not
    /// asked.
    pub parts: Vec<(ResponsePart, f64)>,
    /// How much of it can be used; none where nothing was answered, and where more requests wait
    /// than there are workers already with the fewest clients.
    #[serde(default)]
    pub usable: Option<Usable>,
    /// The cells from which nothing was concluded, clients rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<Unsure>,
    /// Numbers of clients, more than these, that were planned and of which no run is complete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<u32>,
}

/// A cell that is not known well enough to conclude anything from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unsure {
    /// Its clients.
    pub clients: u32,
    /// Half of the wider of the intervals of throughput and mean response time, as a share of the
    /// value.
    pub half: f64,
    /// Whether that wider one is the response time's.
    #[serde(default)]
    pub of_response: bool,
}

/// The most clients that are still served well: beyond, requests wait more than they are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usable {
    /// The cell.
    pub at: CellLevels,
    /// Its throughput.
    pub throughput: f64,
    /// Its mean response time.
    pub response: Seconds,
    /// What goes wrong at the next cell.
    pub reason: LimitReason,
}

/// Why more clients than these are too many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitReason {
    /// The response time is more than twice that of the fewest clients: more than half of it is
    /// waiting for others.
    Response {
        /// How many clients that is.
        clients: u32,
        /// How many times longer.
        times: f64,
    },
    /// More requests wait in the middleware's queue than workers serve.
    Queue {
        /// How many clients that is.
        clients: u32,
        /// Mean queue length.
        length: f64,
        /// Workers.
        workers: u32,
    },
    /// Nothing yet: no cell with more clients is known.
    NotReached,
}

/// Whether a sweep reached the highest rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Saturation {
    /// More clients were tried, and the rate grew by less than 5 %.
    Reached {
        /// The knee N* = (R + Z) · X: R at the fewest clients tried, X the highest rate (the
        /// bounds' crossing point); none where R is not known well there.
        knee: Option<f64>,
        /// The most clients tried.
        tried: u32,
        /// How many times longer the response time is there.
        longer: f64,
        /// By which share the rate may be higher there at most, by the 95 % interval of the change;
        /// none where there are too few runs for one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most: Option<f64>,
    },
    /// The rate still grew at the most clients tried.
    NotReached {
        /// By which share, from the cell before, in the repetitions that all known cells have; in
        /// all runs where these are fewer than two.
        growth: f64,
        /// Whether the runs tell that from none; true where there are too few of them for a test.
        #[serde(default = "is_shown")]
        shown: bool,
    },
    /// The rate was given (open load): how much the system can carry was not tried.
    Given,
    /// A single cell that is known well says nothing about growth, nor do cells in which nothing
    /// was answered.
    Unknown,
}

/// Growth in results of earlier builds was not tested.
fn is_shown() -> bool {
    true
}

impl Saturation {
    /// Itself, or unknown where the ratio it rests on has no value.
    pub(crate) fn if_finite(self, ratio: f64) -> Self {
        if ratio.is_finite() { self } else { Self::Unknown }
    }

    /// By which share the most clients may bring more, where that is so much that whether the limit
    /// is reached is not known: more than what a value may be off that is known well.
    pub(crate) fn doubt(self) -> Option<f64> {
        match self {
            Self::Reached { most, .. } => most.filter(|most| *most > CERTAIN),
            _ => None,
        }
    }
}

/// What limits the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// A host sends as much as its link carries.
    Link(HostLink),
    /// A process uses all the processors it can use.
    Process(ProcessLoad),
    /// All processors of a machine are busy, though no process uses all it could.
    Machine {
        /// Its name; none where there is one machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Processors kept busy.
        busy: f64,
        /// Processors there are.
        cores: u32,
        /// The process that takes most; none where no process was asked.
        most: Option<ProcessLoad>,
        /// What kept them busy; none where only the processes were asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        split: Option<Split>,
    },
    /// All worker slots are held, and more of them bring more.
    Workers {
        /// How many there are.
        workers: u32,
        /// The share that is held.
        busy: f64,
        /// What more of them bring.
        #[serde(default)]
        more: Option<MoreWorkers>,
    },
    /// All worker slots are held, and nothing says that more of them bring more.
    Held {
        /// How many there are.
        workers: u32,
        /// The share that is held.
        busy: f64,
        /// What more of them bring; none where it is not known.
        more: Option<MoreWorkers>,
        /// Where most of the time passes, the queue for these workers left out.
        most: Option<(ResponsePart, f64)>,
    },
    /// Nothing that was measured is full; most of the time passes here.
    MostTime(ResponsePart, f64),
    /// Nothing was measured that could tell.
    Unseen,
    /// No cell is known well enough, or one that is not carries more than those that are.
    NotKnown,
}

/// What kept the processors of a machine busy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// The experiment's own programs.
    pub own: f64,
    /// The kernel's threads and interrupts.
    pub kernel: f64,
    /// Other programs.
    pub others: f64,
    /// The machine's host, which took them away.
    pub host: f64,
}

/// What more workers do to the throughput of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MoreWorkers {
    /// How many; none for unlimited.
    pub workers: Option<u32>,
    /// By which share the throughput changes.
    pub change: f64,
    /// By which share it may change at most, by the interval of the change or, of a single run, of
    /// both; none where one has none.
    #[serde(default)]
    pub most: Option<f64>,
    /// Whether it is more for certain.
    pub apart: bool,
    /// Whether it was measured; else a model says so that was calibrated on other cells.
    pub measured: bool,
}

impl MoreWorkers {
    /// Whether the workers were what limited the rate.
    pub(crate) fn confirms(&self) -> bool {
        self.change > 1.0 - NEAR && self.apart
    }

    /// Whether they were not.
    fn refutes(&self) -> bool {
        self.most.is_some_and(|most| most <= 1.0 - NEAR)
    }

    /// Why it says neither.
    fn doubt(&self) -> &'static str {
        match self.most {
            None => "and one of the two has no interval",
            Some(_) if self.change > 1.0 - NEAR => "which the intervals do not tell from none",
            Some(_) => "which the intervals do not tell from 5 % more",
        }
    }
}

/// The parts of the response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponsePart {
    /// Waiting for a worker.
    Queue,
    /// With the servers.
    Server,
    /// The middleware's own time.
    Own,
    /// Outside the middleware.
    Outside,
}

impl ResponsePart {
    /// What it is.
    pub const fn quantity(self) -> QuantityDefinition {
        match self {
            Self::Queue => stamps::QUEUE_TIME,
            Self::Server => stamps::SERVER_TIME,
            Self::Own => stamps::OWN_TIME,
            Self::Outside => quantities::OUTSIDE,
        }
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        self.quantity().name
    }
}

impl Usable {
    /// A sentence: up to which load it stays responsive, and what changes beyond. `not_known` are
    /// the numbers of clients of which nothing is known.
    fn sentence(&self, not_known: &[u32]) -> String {
        let (rate, at) = (text::count(self.throughput), self.at.clients);
        let noun = if at == 1 { "client" } else { "clients" };
        let beyond: Vec<u32> = not_known.iter().copied().filter(|clients| *clients > at).collect();
        let beyond = match self.reason {
            LimitReason::Response { clients, times } => format!(
                "with {clients}, requests take {} times as long as with the fewest",
                text::three_digits(times)
            ),
            LimitReason::Queue { clients, length, workers } => format!(
                "with {clients}, {} requests wait on average for {workers} workers",
                text::three_digits(length)
            ),
            LimitReason::NotReached if beyond.is_empty() => "more were not tried".into(),
            LimitReason::NotReached => format!("whether it does with {} is not known", either(&beyond)),
        };
        format!("It stays responsive up to {at} {noun} ({rate} requests per second): {beyond}.")
    }
}

impl fmt::Display for Verdict {
    /// The verdict as a paragraph: the limit with its load, the saturation, the bottleneck, where
    /// the time goes. The workload is not named: it stands before, or above.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bottleneck == Bottleneck::NotKnown {
            write!(f, "No conclusion: ")?;
        }
        let rate = self.throughput.value;
        let scale = Unit::PerSecond.scale(rate);
        write!(f, "{} requests per second", scale.show(rate))?;
        if let Some(interval) = self.throughput.interval {
            write!(f, " (± {})", scale.show_beside(interval.half_width(), rate))?;
        }
        let alone = self.throughput.interval.is_none();
        let clients = self.at.clients;
        let noun = if clients == 1 { "client" } else { "clients" };
        let (response, p99) = (text::duration(self.response), text::duration(self.p99));
        write!(f, " with {clients} {noun}, response time {response} (p99 {p99}).")?;
        match (self.saturation, self.why_not_known()) {
            (Saturation::NotReached { growth, shown: true }, Some(why)) => write!(
                f,
                " The rate still grew by {} at the last step that is known. Whether it does beyond is not: {why}.",
                percent(growth)
            )?,
            (saturation, _) => write!(f, "{saturation}")?,
        }
        match &self.bottleneck {
            Bottleneck::Process(process) if !self.also_full.is_empty() => {
                let all = std::iter::once(process).chain(&self.also_full);
                let all: Vec<String> = all.map(process_with_use).collect();
                write!(
                    f,
                    " Several processes are full, and which of them is the bottleneck is not known: {}.",
                    listed(&all)
                )?;
            }
            bottleneck => write!(f, " {bottleneck}")?,
        }
        if alone {
            write!(f, " One short run has no interval: nothing says how far these figures may be off.")?;
        }
        if self.bottleneck != Bottleneck::NotKnown && !self.unsure.is_empty() {
            let some: Vec<String> =
                self.unsure.iter().map(|one| text::count(f64::from(one.clients))).collect();
            write!(
                f,
                " Nothing is concluded from the cells with {} clients: {}.",
                listed(&some),
                too_wide(&self.unsure)
            )?;
        }
        if !self.unsure.is_empty() {
            if self.bottleneck == Bottleneck::NotKnown {
                write!(f, " The widest is {}.", widest_in_words(&self.unsure))?;
            }
            write!(f, " {}", instead(widest(&self.unsure).of_response))?;
        }
        if let Some(usable) = self.usable.as_ref().filter(|_| self.saturation != Saturation::Unknown) {
            write!(f, " {}", usable.sentence(&self.not_known()))?;
        }
        if let [first, rest @ ..] = &self.parts[..] {
            write!(f, " Of the response time {} is {}", percent(first.1), first.0.name())?;
            for (part, share) in rest.iter().filter(|(_, share)| *share >= 0.005) {
                write!(f, ", {} {}", percent(*share), part.name())?;
            }
            write!(f, ".")?;
        }
        Ok(())
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// What to do next where a cell is not known well, in a line.
const AGAIN: &str = "Measure longer or repeat more often, with nothing else at work on the machine.";

/// What to do where nothing that was measured says what more workers bring.
const TWICE: &str = "Measure a cell with twice the workers.";

/// What to do where a cell is not known well: where its response time is what scatters, that is to
/// be watched.
fn instead(of_response: bool) -> String {
    let quantity = if of_response { "response" } else { "throughput" };
    format!(
        "Measure longer or repeat more often, as `repetitions = {{ min = 3, max = 10, until = \"cov({quantity}) <= 4 %\" }}` does, with nothing else at work on the machine."
    )
}

/// The cell with the widest interval of them all.
fn widest(unsure: &[Unsure]) -> Unsure {
    let none = Unsure { clients: 0, half: 0.0, of_response: false };
    unsure.iter().copied().max_by(|one, other| one.half.total_cmp(&other.half)).unwrap_or(none)
}

/// `the response time's, ± 24 %`.
fn widest_in_words(unsure: &[Unsure]) -> String {
    let Unsure { half, of_response, .. } = widest(unsure);
    let quantity = if of_response { "the response time's" } else { "the throughput's" };
    format!("{quantity}, ± {}", percent(half))
}

/// Why nothing is concluded from these cells.
fn too_wide(unsure: &[Unsure]) -> String {
    format!(
        "their intervals are wider than a fifth of their values (the widest is {})",
        widest_in_words(unsure)
    )
}

/// `64 or 128`.
fn either(clients: &[u32]) -> String {
    let numbers = clients.iter().map(|clients| text::count(f64::from(*clients)));
    numbers.collect::<Vec<_>>().join(" or ")
}

/// `8`, `8 and 64`, `2, 8 and 64`.
fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

impl fmt::Display for Saturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached { knee, tried, longer, most } => {
                let longer = text::three_digits(*longer);
                match most.filter(|most| *most > 1.0 - NEAR) {
                    // Rounded up, so that the interval does not end beyond what is said.
                    Some(most) => write!(
                        f,
                        " More clients brought less than 5 % more, and by the 95 % interval up to {:.0} %: ",
                        (most * 100.0).ceil()
                    )?,
                    None => write!(f, " More clients bring less than 5 % more: ")?,
                }
                if self.doubt().is_some() {
                    write!(f, "whether the limit is reached is not known. ")?;
                }
                write!(f, "{tried} clients wait {longer} times as long")?;
                match knee {
                    Some(knee) => write!(f, " (the knee N* lies near {:.0} clients).", knee.max(1.0)),
                    None => write!(f, "."),
                }
            }
            Self::NotReached { growth, shown } => {
                let growth = percent(*growth);
                match shown {
                    true => {
                        write!(f, " The rate still grew by {growth} at the last step: the limit lies beyond.")
                    }
                    false => write!(
                        f,
                        " The rate was higher by {growth} at the last step, which these runs do not tell from none."
                    ),
                }
            }
            Self::Given => write!(f, " The rate was given: what more the system carries was not tried."),
            Self::Unknown => Ok(()),
        }
    }
}

/// `the middleware (proxy)`.
fn process_in_words(process: &ProcessLoad) -> String {
    match process.station {
        SystemPart::Clients => format!("the load generator ({})", process.name),
        SystemPart::Middleware => format!("the middleware ({})", process.name),
        _ if process.is_server_by_place() => process.name.clone(),
        SystemPart::Server => format!("the server {}", process.name),
    }
}

/// `0.97 of the 1 processor it can`.
fn use_in_words(process: &ProcessLoad) -> String {
    let busy = text::three_digits(process.busy.min(process.cores));
    let cores = text::count(process.cores);
    let noun = if process.cores == 1.0 { "processor" } else { "processors" };
    format!("{busy} of the {cores} {noun} it can")
}

/// `the middleware (proxy) uses 0.97 of the 1 processor it can`.
fn process_with_use(process: &ProcessLoad) -> String {
    format!("{} uses {}", process_in_words(process), use_in_words(process))
}

impl fmt::Display for Bottleneck {
    #[expect(clippy::too_many_lines, reason = "a table: one sentence for each kind of bottleneck")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(link) => {
                let host = match link.station {
                    SystemPart::Clients => "the load generator on",
                    SystemPart::Middleware => "the middleware on",
                    SystemPart::Server => "the server on",
                };
                let mbit = |bits: f64| text::three_digits(bits / 1e6);
                write!(
                    f,
                    "The bottleneck is the link of {host} {}: it sends {} of the {} Mbit/s it carries, headers included.",
                    link.name,
                    mbit(link.sent),
                    mbit(link.bandwidth)
                )
            }
            Self::Process(process) => {
                let (name, used) = (process_in_words(process), use_in_words(process));
                write!(f, "The bottleneck is {name}: it uses {used}.")
            }
            Self::Machine { name: machine, busy, cores, most, split } => {
                let busy = text::three_digits(busy.min(f64::from(*cores)));
                let machine =
                    machine.as_ref().map_or("the machine".to_owned(), |name| format!("the machine {name}"));
                write!(f, "The bottleneck is {machine}: {busy} of its {cores} processors are busy")?;
                let most = most.as_ref().map(|most| {
                    let busy = text::three_digits(most.busy);
                    format!("most of all with {} ({busy})", process_in_words(most))
                });
                let Some(split) = split else {
                    return write!(f, ", {}.", most.as_deref().unwrap_or("with its processes"));
                };
                let kinds = [
                    ("the experiment's own programs", split.own),
                    ("the kernel", split.kernel),
                    ("other programs", split.others),
                    ("the machine's host, which takes them away", split.host),
                ];
                let kinds = kinds.iter().filter(|(_, busy)| *busy >= 0.005);
                let kinds: Vec<String> =
                    kinds.map(|(what, busy)| format!("{} with {what}", text::three_digits(*busy))).collect();
                write!(f, ", {}", listed(&kinds))?;
                match most {
                    Some(most) => write!(f, "; of the stations {most}.")?,
                    None => write!(f, ".")?,
                }
                if split.disturbs(*cores) {
                    write!(
                        f,
                        " What the system does with the machine to itself is not known: run it again with nothing else at work."
                    )?;
                }
                Ok(())
            }
            Self::Workers { workers, busy, more } => {
                let busy = percent(busy.min(1.0));
                write!(
                    f,
                    "The bottleneck is the {workers} workers: {busy} of them are held on average, and the others wait in the queue"
                )?;
                match more {
                    Some(more) => write!(f, "; {more}."),
                    None => write!(f, "."),
                }
            }
            Self::Held { workers, busy, more, most } => {
                let busy = percent(busy.min(1.0));
                write!(f, "{busy} of the {workers} workers are held on average, ")?;
                match more {
                    Some(more) if more.refutes() => write!(f, "but they are not the limit: {more}.")?,
                    Some(more) => write!(
                        f,
                        "and whether that is the limit is not known: {more}, {}. {}",
                        more.doubt(),
                        if more.measured { instead(false) } else { TWICE.into() }
                    )?,
                    None => write!(
                        f,
                        "and whether that is the limit is not known: no cell with more of them and as many clients is known well. Measure one with twice the workers, or repeat the one there is."
                    )?,
                }
                match most {
                    Some((part, share)) => {
                        write!(
                            f,
                            " Apart from the queue the largest part of the response time is {} ({}).",
                            part.name(),
                            percent(*share)
                        )
                    }
                    None => Ok(()),
                }
            }
            Self::MostTime(part, share) => write!(
                f,
                "Nothing that was measured is full; the largest part of the response time is {} ({}).",
                part.name(),
                percent(*share)
            ),
            Self::Unseen => write!(f, "What limits it was not measured."),
            Self::NotKnown => {
                write!(
                    f,
                    "Where the limit is and what it is cannot be said: of the cells that carry the most, intervals are wider than a fifth of their values."
                )
            }
        }
    }
}

impl fmt::Display for MoreWorkers {
    /// `with 32 workers 45 % more were answered`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.workers {
            Some(workers) => write!(f, "with {workers} workers ")?,
            None => write!(f, "with unlimited workers ")?,
        }
        let (share, word) = (percent(self.change.abs()), if self.change < 0.0 { "fewer" } else { "more" });
        match self.measured {
            true => write!(f, "{share} {word} requests were answered"),
            false => write!(f, "a model calibrated on other cells expects {share} {word} requests answered"),
        }
    }
}

impl Verdict {
    /// Why nothing is concluded, in the words of a table: `the response time is known to ± 24 %`.
    pub fn too_wide(&self) -> String {
        let Unsure { half, of_response, .. } = widest(&self.unsure);
        let quantity = if of_response { "response time" } else { "throughput" };
        match self.unsure.is_empty() {
            true => "intervals are too wide".into(),
            false => format!("the {quantity} is known to ± {}", percent(half)),
        }
    }

    /// The numbers of clients, more than these, whose cells are not known well.
    fn unsure_beyond(&self) -> Vec<u32> {
        let unsure = self.unsure.iter().map(|cell| cell.clients);
        unsure.filter(|clients| *clients > self.at.clients).collect()
    }

    /// The numbers of clients, more than these, that were tried or planned and of which nothing is
    /// known, rising.
    fn not_known(&self) -> Vec<u32> {
        let mut all = [self.unsure_beyond(), self.missing.clone()].concat();
        all.sort_unstable();
        all
    }

    /// Why it is not known what more clients do; none where none were tried or planned.
    fn why_not_known(&self) -> Option<String> {
        let missing = (!self.missing.is_empty())
            .then(|| format!("no run with {} clients is complete", either(&self.missing)));
        let unsure = self.unsure_beyond();
        let unsure = (!unsure.is_empty())
            .then(|| format!("no cell with {} clients is known well enough", either(&unsure)));
        let all: Vec<String> = missing.into_iter().chain(unsure).collect();
        (!all.is_empty()).then(|| all.join(", and "))
    }

    /// Whether the limit was reached, in the words of a table.
    pub fn word(&self) -> &'static str {
        match (&self.bottleneck, &self.saturation) {
            (Bottleneck::NotKnown, _) => "no conclusion",
            (_, saturation) if saturation.doubt().is_some() => "limit not known",
            (_, Saturation::Reached { .. }) => "limit reached",
            (_, Saturation::NotReached { shown: true, .. }) if self.not_known().is_empty() => {
                "limit not reached"
            }
            (_, Saturation::Given) => "rate given",
            (_, Saturation::NotReached { .. } | Saturation::Unknown) => "limit not known",
        }
    }

    /// What to do next: one sentence, which says so where nothing follows.
    pub fn next_step(&self) -> String {
        let clients = self.at.clients;
        match (&self.bottleneck, &self.saturation) {
            (Bottleneck::NotKnown, _) => AGAIN.into(),
            // More clients were tried: their cells are not known well enough.
            (_, Saturation::NotReached { .. }) if !self.unsure_beyond().is_empty() => AGAIN.into(),
            (Bottleneck::Machine { split: Some(split), cores, .. }, _) if split.disturbs(*cores) => {
                "Run it again with nothing else at work on the machine.".into()
            }
            (Bottleneck::Process(ProcessLoad { station: SystemPart::Clients, .. }), _)
                if !self.are_several_full() =>
            {
                "Give the load generator more threads or a machine of its own: the system can do more than it was asked for.".into()
            }
            (Bottleneck::Process(process), _)
                if self.also_full.iter().chain([process]).any(|one| one.station == SystemPart::Clients) =>
            {
                "Give the load generator more threads or a machine of its own: while it is full, nothing is known of the other full processes.".into()
            }
            (_, Saturation::NotReached { shown: true, .. } | Saturation::Unknown)
                if !self.missing.is_empty() =>
            {
                format!(
                    "Run it again, because no run with {} clients is complete; where attempts failed, `failed/` has the reasons.",
                    either(&self.missing)
                )
            }
            (_, Saturation::NotReached { shown: false, .. }) => AGAIN.into(),
            (_, saturation) if saturation.doubt().is_some() => AGAIN.into(),
            (Bottleneck::Machine { .. }, Saturation::NotReached { .. }) => {
                format!("Give the clients a machine of their own, and try more of them than {clients}.")
            }
            (_, Saturation::Given) => {
                "Compare the response times; to find the limit, offer more or let clients wait for their answers.".into()
            }
            (_, Saturation::NotReached { .. }) => format!("Try more clients than {clients}."),
            (_, Saturation::Unknown) if !self.unsure.is_empty() => AGAIN.into(),
            (bottleneck, Saturation::Unknown) if bottleneck.is_seen() => {
                "Try other numbers of clients: one cell says nothing about growth.".into()
            }
            _ if self.are_several_full() => {
                "Give one of the full processes more threads or processors, and see whether the rate grows: one of the others may be the limit.".into()
            }
            (bottleneck, _) => bottleneck.next_step(),
        }
    }

    /// Whether processes of several stations are full, so that more of one alone may bring nothing.
    fn are_several_full(&self) -> bool {
        let Bottleneck::Process(process) = &self.bottleneck else { return false };
        self.also_full.iter().any(|other| other.station != process.station)
    }

    /// What stops it, in a few words for a table: `middleware`, `middleware or load generator`.
    pub fn cause(&self) -> String {
        let mut all = vec![self.bottleneck.short()];
        for other in self.also_full.iter().map(process_in_short) {
            if !all.contains(&other) {
                all.push(other);
            }
        }
        all.join(" or ")
    }
}

/// `middleware`.
fn process_in_short(process: &ProcessLoad) -> String {
    match process.station {
        SystemPart::Clients => "load generator".into(),
        SystemPart::Middleware => "middleware".into(),
        _ if process.is_server_by_place() => process.name.clone(),
        SystemPart::Server => format!("server {}", process.name),
    }
}

impl Split {
    /// Whether others than the experiment took so much of a machine that what the system does
    /// without them is not known.
    fn disturbs(&self, cores: u32) -> bool {
        self.others + self.host > FOREIGN * f64::from(cores)
    }
}

impl Bottleneck {
    /// Whether anything was measured that could tell.
    fn is_seen(&self) -> bool {
        !matches!(self, Self::Unseen | Self::NotKnown)
    }

    /// What to do about it once the limit is reached.
    fn next_step(&self) -> String {
        match self {
            Self::Link(link) => {
                format!("Nothing follows for the programs: the link of {} is full. A faster link or smaller values would do.", link.name)
            }
            Self::Process(process) => match process.station {
                SystemPart::Clients => "Give the load generator more threads.".into(),
                SystemPart::Middleware => "Give the middleware more threads, or run one more of it.".into(),
                SystemPart::Server if process.name == DATABASE => {
                    "Give the database more processors, or gather the requests of its brokers (`--mode batch`, `owned`); one broker more brings nothing.".into()
                }
                SystemPart::Server => "Add a server, or spread the keys more evenly.".into(),
            },
            Self::Machine { .. } => {
                "Give the clients a machine of their own to see the middleware's limit; for this machine, nothing follows.".into()
            }
            Self::Workers { .. } => "Set more workers.".into(),
            Self::Held { more: Some(more), .. } if more.refutes() => {
                "Nothing follows for the workers: more of them bring nothing. Look at the largest part of the response time.".into()
            }
            Self::Held { more: Some(more), .. } if more.measured => AGAIN.into(),
            Self::Held { .. } => TWICE.into(),
            Self::MostTime(ResponsePart::Queue, _) => "Measure a cell with more workers.".into(),
            Self::MostTime(ResponsePart::Server, _) => {
                "Look at the servers and the links to them: nothing before them is full, unless parts of multi-gets wait for `readers`.".into()
            }
            Self::MostTime(ResponsePart::Own, _) => {
                "Look at the middleware: profile it under this load. Where its processors are idle and values are long (128 KiB), look at the servers and the links to them: requests wait for room on their connections.".into()
            }
            Self::MostTime(ResponsePart::Outside, _) => {
                "Look at the clients' machine and the network: most of the time passes there.".into()
            }
            Self::Unseen => {
                "Nothing follows: measure with a middleware, or on a machine whose processors can be read, to see what is full.".into()
            }
            Self::NotKnown => AGAIN.into(),
        }
    }

    /// In two or three words: for a table, or a large number's label.
    pub fn short(&self) -> String {
        match self {
            Self::Link(link) => format!("link of {}", link.name),
            Self::Process(process) => process_in_short(process),
            Self::Machine { name: Some(name), cores, .. } => format!("all {cores} processors of {name}"),
            Self::Machine { cores, .. } => format!("all {cores} processors"),
            Self::Workers { workers, .. } => format!("{workers} workers"),
            Self::Held { workers, .. } => format!("not known; all {workers} workers held"),
            Self::MostTime(part, _) => format!("none full; most is {}", part.name()),
            Self::Unseen => "not measured".into(),
            Self::NotKnown => "no conclusion".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(bottleneck: Bottleneck, saturation: Saturation) -> Verdict {
        Verdict {
            at: CellLevels { workload: "read".into(), clients: 16 },
            throughput: Quantity::of_repetitions(&[9.0, 10.0, 11.0]).unwrap(),
            response: 1e-3,
            p99: 2e-3,
            saturation,
            bottleneck,
            also_full: Vec::new(),
            parts: Vec::new(),
            usable: None,
            unsure: Vec::new(),
            missing: Vec::new(),
        }
    }

    #[test]
    fn each_verdict_says_what_to_do_next_or_that_nothing_follows() {
        let reached = Saturation::Reached { knee: None, tried: 64, longer: 4.0, most: None };
        let process =
            |station| Bottleneck::Process(ProcessLoad { station, name: "p".into(), busy: 1.0, cores: 1.0 });
        let database =
            ProcessLoad { station: SystemPart::Server, name: DATABASE.into(), busy: 8.0, cores: 8.0 };
        let split = |others| Split { own: 1.0, kernel: 0.1, others, host: 0.0 };
        let machine = |others| Bottleneck::Machine {
            name: None,
            busy: 2.0,
            cores: 2,
            most: None,
            split: Some(split(others)),
        };
        let held = |most, measured| {
            let more =
                MoreWorkers { workers: Some(32), change: 0.01, most: Some(most), apart: false, measured };
            Bottleneck::Held { workers: 16, busy: 1.0, more: Some(more), most: None }
        };
        let growing = Saturation::NotReached { growth: 0.4, shown: true };
        for (bottleneck, saturation, word, next) in [
            (process(SystemPart::Server), reached, "limit reached", "Add a server"),
            (Bottleneck::Process(database), reached, "limit reached", "Give the database more processors"),
            (
                process(SystemPart::Clients),
                reached,
                "limit reached",
                "Give the load generator more threads or a machine",
            ),
            (process(SystemPart::Middleware), growing, "limit not reached", "Try more clients than 16."),
            (
                machine(0.0),
                growing,
                "limit not reached",
                "Give the clients a machine of their own, and try more",
            ),
            (machine(0.9), growing, "limit not reached", "Run it again with nothing else at work"),
            (machine(0.0), Saturation::Unknown, "limit not known", "Try other numbers of clients"),
            (held(0.03, true), reached, "limit reached", "Nothing follows for the workers"),
            (held(0.1, true), reached, "limit reached", "Measure longer or repeat more often"),
            (held(0.1, false), reached, "limit reached", "Measure a cell with twice the workers"),
            (
                Bottleneck::Unseen,
                Saturation::Unknown,
                "limit not known",
                "Nothing follows: measure with a middleware",
            ),
            (
                Bottleneck::MostTime(ResponsePart::Own, 0.97),
                reached,
                "limit reached",
                "Look at the middleware: profile it under this load. Where its processors are idle and values are long",
            ),
            (Bottleneck::NotKnown, reached, "no conclusion", "Measure longer or repeat more often"),
        ] {
            let verdict = verdict(bottleneck, saturation);
            assert_eq!(verdict.word(), word);
            assert!(verdict.next_step().starts_with(next), "{}", verdict.next_step());
        }
    }

    #[test]
    fn a_server_that_is_called_by_its_place_is_not_called_one_twice() {
        for (name, short) in [("server 1", "server 1"), ("127.0.0.1:21211", "server 127.0.0.1:21211")] {
            let process =
                ProcessLoad { station: SystemPart::Server, name: name.into(), busy: 1.0, cores: 1.0 };
            assert_eq!(Bottleneck::Process(process).short(), short);
        }
    }

    #[test]
    fn a_low_rate_keeps_its_digits_and_its_interval() {
        let throughput = Quantity::of_repetitions(&[20.2, 20.4, 20.6]).unwrap();
        let verdict = Verdict { throughput, ..verdict(Bottleneck::Unseen, Saturation::Unknown) };
        let text = verdict.to_string();
        assert!(text.starts_with("20.4 requests per second (± 0.5) with 16 clients"), "{text}");
    }

    #[test]
    fn runs_that_end_by_the_rule_that_is_advised_are_known_well() {
        let said = instead(false);
        let (_, limit) = said.split_once("<= ").unwrap();
        let variation: f64 = limit.split_once(" %").unwrap().0.parse().unwrap();
        // The fewest runs that may end, and just that coefficient of variation.
        let runs = [100.0 - variation, 100.0, 100.0 + variation];
        assert!(Quantity::of_repetitions(&runs).unwrap().is_certain(), "{said}");
    }

    #[test]
    fn more_clients_that_were_tried_are_not_asked_for() {
        let growing = Saturation::NotReached { growth: 0.4, shown: true };
        let mut verdict = verdict(Bottleneck::Unseen, growing);
        for (clients, next) in [(2, "Try more clients than 16."), (64, AGAIN)] {
            verdict.unsure = vec![Unsure { clients, half: 0.3, of_response: false }];
            assert_eq!(verdict.next_step(), next);
            assert_eq!(verdict.word() == "limit not reached", clients < 16);
        }
    }

    #[test]
    fn verdicts_of_earlier_builds_are_read() {
        let old = r#"{"workers": {"workers": 16, "busy": 1.01}}"#;
        let read: Bottleneck = serde_json::from_str(old).unwrap();
        assert_eq!(read, Bottleneck::Workers { workers: 16, busy: 1.01, more: None });
        let old = r#"{"machine": {"busy": 1.9, "cores": 2, "most": {"station": "middleware", "name": "proxy", "busy": 1.0, "cores": 1.0}}}"#;
        assert!(matches!(
            serde_json::from_str(old).unwrap(),
            Bottleneck::Machine { split: None, most: Some(_), .. }
        ));
        let old = r#"{"reached": {"knee": 4.02, "tried": 32, "longer": 4.0}}"#;
        assert!(matches!(
            serde_json::from_str(old).unwrap(),
            Saturation::Reached { knee: Some(_), most: None, .. }
        ));
        let read: Saturation = serde_json::from_str(r#"{"not_reached": {"growth": 0.4}}"#).unwrap();
        assert_eq!(read, Saturation::NotReached { growth: 0.4, shown: true });
    }
}
