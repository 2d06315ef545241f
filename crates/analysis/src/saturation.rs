//! How far a workload goes, and what stops it: in plain words, with the evidence.

use std::fmt;

use krarup_record::watch::{FOREIGN, Watch};
use krarup_units::{Seconds, text};
use serde::{Deserialize, Serialize};

use crate::results::{Cell, ProcessLoad, Quantity, Results};
use crate::trial::{Levels, Link, Station};

/// A rate within this share of the highest counts as the highest.
const NEAR: f64 = 0.95;
/// From this share of its processors on, a machine is full.
const FULL: f64 = 0.9;

/// What was learnt about one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The cell with the fewest clients whose throughput is within 5 % of the highest.
    pub at: Levels,
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
    /// Where the response time goes there, largest part first; empty where the middleware was not asked.
    pub parts: Vec<(Part, f64)>,
    /// How much of it can be used; none where nothing was answered.
    #[serde(default)]
    pub usable: Option<Usable>,
    /// The cells from which nothing was concluded, clients rising.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsure: Vec<Unsure>,
}

/// A cell that is not known well enough to conclude anything from it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unsure {
    /// Its clients.
    pub clients: u32,
    /// Half of the wider of the intervals of throughput and mean response time, as a share of the value.
    pub half: f64,
}

/// The most clients that are still served well: beyond, requests wait more than they are served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Usable {
    /// The cell.
    pub at: Levels,
    /// Its throughput.
    pub throughput: f64,
    /// Its mean response time.
    pub response: Seconds,
    /// What goes wrong at the next cell.
    pub reason: Reason,
}

/// Why more clients than these are too many.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The response time is more than twice that of the fewest clients: more than half of it is waiting for others.
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
    /// Nothing yet: no more clients were tried.
    NotReached,
}

/// A response time of more than so many times the shortest is mostly waiting.
const LONG: f64 = 2.0;

/// The last cell before the first in which requests wait more than they are served. The cells of one workload that are known well, clients
/// rising; the first has the fewest clients of all.
fn usable(cells: &[&Cell]) -> Option<Usable> {
    let least = cells.first()?.response.mean.value;
    let wrong = |cell: &Cell| {
        let clients = cell.levels.clients;
        let middleware = cell.middleware.as_ref();
        let queue =
            middleware.and_then(|m| Some((m.queue_length?.value, m.workers.filter(|workers| *workers > 0)?)));
        let times = cell.response.mean.value / least;
        match queue {
            Some((length, workers)) if length > f64::from(workers) => {
                Some(Reason::Queue { clients, length, workers })
            }
            _ if times > LONG && times.is_finite() => Some(Reason::Response { clients, times }),
            _ => None,
        }
    };
    let mut last = *cells.first().filter(|cell| cell.throughput.value > 0.0)?;
    let mut reason = Reason::NotReached;
    for cell in &cells[1..] {
        if let Some(found) = wrong(cell) {
            reason = found;
            break;
        }
        last = cell;
    }
    let (throughput, response) = (last.throughput.value, last.response.mean.value);
    Some(Usable { at: last.levels.clone(), throughput, response, reason })
}

impl fmt::Display for Usable {
    /// A sentence: up to where it is used well, and what it is that goes wrong then.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rate, clients) = (text::count(self.throughput.round()), self.at.clients);
        let noun = if clients == 1 { "client" } else { "clients" };
        write!(f, "It is used well up to {clients} {noun} ({rate} requests per second): ")?;
        match self.reason {
            Reason::Response { clients, times } => write!(
                f,
                "with {clients}, requests take {} times as long as with the fewest.",
                text::three_digits(times)
            ),
            Reason::Queue { clients, length, workers } => write!(
                f,
                "with {clients}, {} requests wait on average for {workers} workers.",
                text::three_digits(length)
            ),
            Reason::NotReached => write!(f, "more were not tried."),
        }
    }
}

/// Whether a sweep reached the highest rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Saturation {
    /// More clients were tried, and the rate grew by less than 5 %.
    Reached {
        /// The knee N* = (R + Z) · X: R at the fewest clients tried, X the highest rate (the bounds' crossing point); none where R is not known
        /// well there.
        knee: Option<f64>,
        /// The most clients tried.
        tried: u32,
        /// How many times longer the response time is there.
        longer: f64,
    },
    /// The rate still grew at the most clients tried.
    NotReached {
        /// By which share, from the cell before.
        growth: f64,
    },
    /// A single cell that is known well says nothing about growth, nor do cells in which nothing was answered.
    Unknown,
}

impl Saturation {
    /// Itself, or unknown where the ratio it rests on has no value.
    fn if_finite(self, ratio: f64) -> Self {
        if ratio.is_finite() { self } else { Self::Unknown }
    }
}

/// What limits the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bottleneck {
    /// A host sends as much as its link carries.
    Link(Link),
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
        most: Option<(Part, f64)>,
    },
    /// Nothing that was measured is full; most of the time passes here.
    MostTime(Part, f64),
    /// Nothing was measured that could tell.
    Unseen,
    /// No cell is known well enough.
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
    /// Whether the intervals of both lie apart.
    pub apart: bool,
    /// Whether it was measured; else a model says so that was calibrated on other cells.
    pub measured: bool,
}

impl MoreWorkers {
    /// Whether the workers were what limited the rate.
    fn confirms(&self) -> bool {
        self.change > 1.0 - NEAR && self.apart
    }
}

/// The parts of the response time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Waiting for a worker.
    Queue,
    /// With the servers.
    Server,
    /// The middleware's own time.
    Own,
    /// Outside the middleware.
    Outside,
}

impl Part {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue time",
            Self::Server => "server time",
            Self::Own => "own time",
            Self::Outside => "outside the middleware",
        }
    }
}

/// The mean times of a cell by part, from the inside out; none where the middleware was not asked.
pub fn parts(cell: &Cell) -> Option<[(Part, Quantity); 4]> {
    let middleware = cell.middleware.as_ref()?;
    Some([
        (Part::Queue, middleware.queue.mean),
        (Part::Server, middleware.server.mean),
        (Part::Own, middleware.own.mean),
        (Part::Outside, middleware.outside),
    ])
}

/// The verdict over the cells of one workload, clients rising. None where there is no cell.
///
/// `think` is the think time Z of the clients, `cores` the processors all processes share (0: unknown). Nothing is concluded from a cell that
/// is not known well; of full workers [`judge_workers`] says whether they are the limit.
pub fn verdict(cells: &[&Cell], think: Seconds, cores: u32) -> Option<Verdict> {
    let known: Vec<&Cell> = cells.iter().copied().filter(|cell| is_known(cell)).collect();
    let unsure = cells.iter().filter(|cell| !is_known(cell)).map(|cell| unsure(cell)).collect();
    let Some(last) = known.last() else {
        let by_rate = |one: &&&Cell, other: &&&Cell| one.throughput.value.total_cmp(&other.throughput.value);
        return cells.iter().max_by(by_rate).map(|at| Verdict {
            saturation: Saturation::Unknown,
            bottleneck: Bottleneck::NotKnown,
            parts: Vec::new(),
            usable: None,
            unsure,
            ..of_cell(at)
        });
    };
    let highest = known.iter().map(|cell| cell.throughput.value).fold(0.0, f64::max);
    let at = known.iter().find(|cell| cell.throughput.value >= NEAR * highest)?;
    let fewest = cells.first().filter(|cell| is_known(cell));
    let saturation = if at.levels != last.levels {
        let longer = last.response.mean.value / at.response.mean.value;
        let knee = fewest.map(|first| (first.response.mean.value + think) * highest);
        Saturation::Reached { knee, tried: last.levels.clients, longer }.if_finite(longer)
    } else if let [.., before, _] = &known[..] {
        let growth = at.throughput.value / before.throughput.value - 1.0;
        Saturation::NotReached { growth }.if_finite(growth)
    } else {
        Saturation::Unknown
    };
    let shares = shares(at);
    Some(Verdict {
        saturation,
        bottleneck: bottleneck(at, cores, &shares),
        parts: shares,
        usable: fewest.and_then(|_| usable(&known)),
        unsure,
        ..of_cell(at)
    })
}

/// The figures of a cell, with nothing concluded.
fn of_cell(at: &Cell) -> Verdict {
    Verdict {
        at: at.levels.clone(),
        throughput: at.throughput,
        response: at.response.mean.value,
        p99: at.response.p99.value,
        saturation: Saturation::Unknown,
        bottleneck: Bottleneck::Unseen,
        parts: Vec::new(),
        usable: None,
        unsure: Vec::new(),
    }
}

/// Whether a cell is known well enough to conclude something from it.
pub(crate) fn is_known(cell: &Cell) -> bool {
    cell.throughput.is_certain() && cell.response.mean.is_certain()
}

fn unsure(cell: &Cell) -> Unsure {
    let halves = [cell.throughput.half_share(), cell.response.mean.half_share()];
    Unsure { clients: cell.levels.clients, half: halves.into_iter().flatten().fold(0.0, f64::max) }
}

/// Which part of the response time is what share of it, largest first.
fn shares(cell: &Cell) -> Vec<(Part, f64)> {
    let all: Vec<(Part, Quantity)> = parts(cell).into_iter().flatten().collect();
    // Where the middleware measured longer times than the clients, its parts are more than the whole; a warning tells.
    let whole = all.iter().map(|(_, time)| time.value).sum::<f64>().max(cell.response.mean.value);
    let mut shares: Vec<(Part, f64)> =
        all.into_iter().map(|(part, time)| (part, time.value / whole)).collect();
    shares.retain(|(_, share)| share.is_finite());
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    shares
}

/// From this utilization on a link is full: the rest is gaps between windows of TCP.
const FULL_LINK: f64 = 0.95;

/// A full link is a limit in itself. A full process explains a full machine and full workers, a full machine explains full workers: in
/// this order.
fn bottleneck(cell: &Cell, cores: u32, shares: &[(Part, f64)]) -> Bottleneck {
    let by_link = |one: &&Link, other: &&Link| one.utilization().total_cmp(&other.utilization());
    if let Some(link) = cell.links.iter().max_by(by_link)
        && link.utilization() >= FULL_LINK
    {
        return Bottleneck::Link(link.clone());
    }
    let by_use = |one: &&ProcessLoad, other: &&ProcessLoad| one.utilization().total_cmp(&other.utilization());
    if let Some(process) = cell.load.iter().max_by(by_use)
        && process.utilization() >= FULL
    {
        return Bottleneck::Process(process.clone());
    }
    if let Some(machine) = full_machine(cell, cores) {
        return machine;
    }
    if let Some(middleware) = &cell.middleware
        && let (Some(workers), Some(busy)) = (middleware.workers, middleware.workers_busy)
        && busy >= FULL
    {
        let most = shares.iter().find(|(part, _)| *part != Part::Queue).copied();
        return Bottleneck::Held { workers, busy, more: None, most };
    }
    shares.first().map_or(Bottleneck::Unseen, |(part, share)| Bottleneck::MostTime(*part, *share))
}

/// The fullest machine, if all its processors are busy: with programs of ours, with others, with the kernel, or for the machine's host. Where
/// no machine was watched, what the processes took is all that is known.
pub(crate) fn full_machine(cell: &Cell, cores: u32) -> Option<Bottleneck> {
    let by_time = |one: &&ProcessLoad, other: &&ProcessLoad| one.busy.total_cmp(&other.busy);
    let most = cell.load.iter().max_by(by_time).cloned();
    let apart = cell.machines.iter().map(|(name, watch)| (Some(name), watch));
    let together = cell.machine.iter().map(|watch| (None, watch)).filter(|_| cell.machines.is_empty());
    let share = |(_, watch): &(Option<&String>, &Watch)| watch.busy() / f64::from(watch.cores.max(1));
    let watched = apart.chain(together).filter(|(_, watch)| watch.cores > 0);
    if let Some((name, watch)) = watched.max_by(|one, other| share(one).total_cmp(&share(other))) {
        let split = Split { own: watch.own, kernel: watch.kernel, others: watch.foreign, host: watch.steal };
        return (watch.busy() >= FULL * f64::from(watch.cores)).then(|| Bottleneck::Machine {
            name: name.cloned(),
            busy: watch.busy(),
            cores: watch.cores,
            // Which machine a process ran on is not known where there are several.
            most: most.filter(|_| name.is_none()),
            split: Some(split),
        });
    }
    let busy: f64 = cell.load.iter().map(|process| process.busy).sum();
    (cores > 0 && busy >= FULL * f64::from(cores)).then_some(Bottleneck::Machine {
        name: None,
        busy: busy.min(f64::from(cores)),
        cores,
        most,
        split: None,
    })
}

/// Says of each verdict in which all workers are held whether they are the limit: only if cells with more workers, or the model where no such
/// cell was measured, bring more.
pub fn judge_workers(results: &mut Results) {
    let judged = |verdict: &Verdict| {
        let (workers, busy) = match verdict.bottleneck {
            Bottleneck::Held { workers, busy, .. } | Bottleneck::Workers { workers, busy, .. } => {
                (workers, busy)
            }
            _ => return None,
        };
        let cell = results.cell(&verdict.at)?;
        let more = measured_with_more(results, cell, workers)
            .or_else(|| predicted_with_more(results, cell, workers));
        Some(if more.is_some_and(|more| more.confirms()) {
            Bottleneck::Workers { workers, busy, more }
        } else {
            let most = verdict.parts.iter().find(|(part, _)| *part != Part::Queue).copied();
            Bottleneck::Held { workers, busy, more, most }
        })
    };
    let judged: Vec<Option<Bottleneck>> = results.verdicts.iter().map(judged).collect();
    for (verdict, judged) in results.verdicts.iter_mut().zip(judged) {
        if let Some(bottleneck) = judged {
            verdict.bottleneck = bottleneck;
        }
    }
}

/// The best of the cells that have more workers, and are otherwise the same.
fn measured_with_more(results: &Results, cell: &Cell, workers: u32) -> Option<MoreWorkers> {
    let has_more = |other: &Cell| {
        let side = other.middleware.as_ref();
        let differ = cell.factors.iter().filter(|level| !other.factors.contains(level)).count();
        side.is_some_and(|side| side.workers.is_none_or(|theirs| theirs > workers))
            && other.levels.clients == cell.levels.clients
            && differ == 1
            && is_known(other)
    };
    let others = results.cells.iter().filter(|other| has_more(other));
    let best = others.max_by(|one, other| one.throughput.value.total_cmp(&other.throughput.value))?;
    let ends = |quantity: &Quantity| quantity.interval.map(|interval| (interval.low, interval.high));
    let apart = match (ends(&cell.throughput), ends(&best.throughput)) {
        (Some((_, high)), Some((low, _))) => low > high,
        _ => false,
    };
    Some(MoreWorkers {
        workers: best.middleware.as_ref().and_then(|side| side.workers),
        change: best.throughput.value / cell.throughput.value - 1.0,
        apart,
        measured: true,
    })
}

/// What a model says of twice the workers, if it knows this cell.
fn predicted_with_more(results: &Results, cell: &Cell, workers: u32) -> Option<MoreWorkers> {
    let known =
        results.predictions.iter().filter(|one| one.median_error.is_some()).flat_map(|one| &one.cells);
    let mut known = known.filter(|one| {
        (one.clients, one.workers) == (cell.levels.clients, workers)
            && one.throughput == cell.throughput.value
    });
    let one = known.next()?;
    let (now, more) = (one.predicted.0, one.more_workers?);
    Some(MoreWorkers {
        workers: Some(2 * workers),
        change: more.value / now.value - 1.0,
        apart: more.low > now.value,
        measured: false,
    })
}

impl fmt::Display for Verdict {
    /// The verdict as a paragraph: the limit with its load, the saturation, the bottleneck, where the time goes. The
    /// workload is not named: it stands before, or above.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bottleneck == Bottleneck::NotKnown {
            write!(f, "No conclusion: ")?;
        }
        let rate = text::count(self.throughput.value.round());
        write!(f, "{rate} requests per second")?;
        if let Some(interval) = self.throughput.interval {
            write!(f, " (± {})", text::count(interval.half_width().round()))?;
        }
        let alone = self.throughput.interval.is_none();
        let clients = self.at.clients;
        let noun = if clients == 1 { "client" } else { "clients" };
        let (response, p99) = (text::duration(self.response), text::duration(self.p99));
        write!(f, " with {clients} {noun}, response time {response} (p99 {p99}).")?;
        write!(f, "{} {}", self.saturation, self.bottleneck)?;
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
            write!(f, " {INSTEAD}")?;
        }
        if let Some(usable) = self.usable.as_ref().filter(|_| self.saturation != Saturation::Unknown) {
            write!(f, " {usable}")?;
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

/// What to do where a cell is not known well.
const INSTEAD: &str = "Measure longer or repeat more often, as `repetitions = { min = 3, max = 10, until = \"cov(throughput) <= 5 %\" }` does, with nothing else at work on the machine.";

/// Why nothing is concluded from these cells.
fn too_wide(unsure: &[Unsure]) -> String {
    let widest = unsure.iter().map(|one| one.half).fold(0.0, f64::max);
    format!("their intervals are wider than a fifth of their values (up to ± {})", percent(widest))
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
            Self::Reached { knee, tried, longer } => {
                let longer = text::three_digits(*longer);
                write!(
                    f,
                    " More clients bring less than 5 % more: {tried} clients wait {longer} times as long"
                )?;
                match knee {
                    Some(knee) => write!(f, " (the knee N* lies near {:.0} clients).", knee.max(1.0)),
                    None => write!(f, "."),
                }
            }
            Self::NotReached { growth } => {
                write!(
                    f,
                    " The rate still grew by {} at the last step: the limit lies beyond.",
                    percent(*growth)
                )
            }
            Self::Unknown => Ok(()),
        }
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |process: &ProcessLoad| match process.station {
            Station::Clients => format!("the load generator ({})", process.name),
            Station::Middleware => format!("the middleware ({})", process.name),
            Station::Server => format!("the server {}", process.name),
        };
        let of = |process: &ProcessLoad| {
            let busy = text::three_digits(process.busy.min(process.cores));
            let cores = text::count(process.cores);
            let noun = if process.cores == 1.0 { "processor" } else { "processors" };
            format!("{busy} of the {cores} {noun} it can")
        };
        match self {
            Self::Link(link) => {
                let host = match link.station {
                    Station::Clients => "the load generator on",
                    Station::Middleware => "the middleware on",
                    Station::Server => "the server on",
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
                write!(f, "The bottleneck is {}: it uses {}.", name(process), of(process))
            }
            Self::Machine { name: machine, busy, cores, most, split } => {
                let busy = text::three_digits(busy.min(f64::from(*cores)));
                let machine =
                    machine.as_ref().map_or("the machine".to_owned(), |name| format!("the machine {name}"));
                write!(f, "The bottleneck is {machine}: {busy} of its {cores} processors are busy")?;
                let most = most.as_ref().map(|most| {
                    format!("most of all with {} ({})", name(most), text::three_digits(most.busy))
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
                if split.others + split.host > FOREIGN * f64::from(*cores) {
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
                    Some(more) if more.change <= 1.0 - NEAR => {
                        write!(f, "but they are not the limit: {more}.")?;
                    }
                    Some(more) => write!(
                        f,
                        "and whether that is the limit is not known: {more}, which the intervals do not tell from none. {INSTEAD}"
                    )?,
                    None => write!(
                        f,
                        "and whether that is the limit is not known: no cell with more of them was measured with as many clients. Measure one with twice the workers."
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
                    "No cell is known well enough to say where the limit is and what it is: all intervals are wider than a fifth of their values."
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

impl Bottleneck {
    /// In two or three words: for a table, or a large number's label.
    pub fn short(&self) -> String {
        match self {
            Self::Link(link) => format!("link of {}", link.name),
            Self::Process(process) => match process.station {
                Station::Clients => "load generator".into(),
                Station::Middleware => "middleware".into(),
                Station::Server => format!("server {}", process.name),
            },
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
    use crate::results::{Environment, Results};
    use crate::sweep::summarise;
    use crate::sweep::tests::steady_trial;
    use crate::trial::{ProcessCpu, Trial};

    fn sweep(rates: &[(u32, f64)]) -> Results {
        let trials: Vec<_> =
            rates.iter().map(|(clients, rate)| steady_trial("read-only", *clients, *rate)).collect();
        summarise("test", Environment { cores: 4, ..Environment::default() }, &trials).unwrap()
    }

    #[test]
    fn a_rate_that_stops_growing_is_saturated_at_the_fewest_clients_that_reach_it() {
        let results = sweep(&[(1, 5_000.0), (8, 19_500.0), (16, 20_000.0), (32, 20_100.0)]);
        let verdict = &results.verdicts[0];
        assert_eq!(verdict.at.clients, 8);
        // R(1) = 1/5000 s; N* = 20100 / 5000.
        assert!(
            matches!(verdict.saturation, Saturation::Reached { knee: Some(knee), tried: 32, .. } if (knee - 4.02).abs() < 0.01)
        );
    }

    #[test]
    fn a_rate_that_still_grows_is_not_called_a_limit() {
        let results = sweep(&[(1, 5_000.0), (2, 9_000.0)]);
        let verdict = &results.verdicts[0];
        assert!(
            matches!(verdict.saturation, Saturation::NotReached { growth } if (growth - 0.8).abs() < 1e-3)
        );
        assert!(verdict.to_string().contains("still grew by 80 %"), "{verdict}");
    }

    #[test]
    fn a_full_process_is_named_before_the_machine_and_the_workers() {
        let mut trial = steady_trial("read-only", 16, 20_000.0);
        let process = |station, busy: f64| ProcessCpu { station, name: "proxy".into(), busy, cores: 1.0 };
        trial.cpu = vec![process(Station::Middleware, 0.97 * trial.length)];
        let results = summarise("test", Environment::default(), &[trial.clone()]).unwrap();
        let verdict = &results.verdicts[0];
        assert!(
            verdict.to_string().contains(
                "The bottleneck is the middleware (proxy): it uses 0.97 of the 1 processor it can."
            ),
            "{verdict}"
        );
        trial.cpu = vec![
            process(Station::Middleware, 0.8 * trial.length),
            process(Station::Clients, 0.7 * trial.length),
            process(Station::Server, 0.45 * trial.length),
        ];
        let environment = Environment { cores: 2, ..Environment::default() };
        let results = summarise("test", environment, &[trial]).unwrap();
        assert_eq!(results.verdicts[0].bottleneck.short(), "all 2 processors");
    }

    #[test]
    fn a_full_link_is_named_before_whoever_waits_for_it() {
        let mut trial = steady_trial("read-only", 16, 2_918.0);
        let link = |name: &str, station, sent| Link { station, name: name.into(), bandwidth: 101e6, sent };
        let process = |busy: f64| ProcessCpu {
            station: Station::Middleware,
            name: "proxy".into(),
            busy: busy * trial.length,
            cores: 1.0,
        };
        trial.cpu = vec![process(0.97)];
        trial.links = vec![
            link("c1", Station::Clients, 3e6),
            link("s1", Station::Server, 100.6e6),
            link("s2", Station::Server, 5e6),
        ];
        let results = summarise("test", Environment::default(), &[trial.clone()]).unwrap();
        let verdict = &results.verdicts[0];
        assert_eq!(verdict.bottleneck.short(), "link of s1");
        assert!(
            verdict.to_string().contains("the link of the server on s1: it sends 101 of the 101 Mbit/s"),
            "{verdict}"
        );
        // Half full, it waits for others.
        trial.links[1].sent = 50e6;
        let results = summarise("test", Environment::default(), &[trial]).unwrap();
        assert!(matches!(results.verdicts[0].bottleneck, Bottleneck::Process(_)));
    }

    /// 64 clients: most of 3.2 ms in the queue, 0.8 ms held by one of the workers; Little's law makes a few more of them than there are.
    fn held(workers: u32, rate: f64) -> Trial {
        let mut trial = steady_trial(&format!("read-only, workers {workers}"), 64, rate);
        trial.factors = vec![
            ("ratio".into(), "0:1".into()),
            ("workers".into(), workers.to_string()),
            ("clients".into(), "64".into()),
        ];
        let response = trial.client.response.mean;
        let middleware = trial.middleware.as_mut().unwrap();
        middleware.workers = Some(workers);
        let hold = 1.01 * f64::from(workers) / rate;
        middleware.response.mean = response * 0.95;
        (middleware.queue.mean, middleware.server.mean, middleware.own.mean) =
            (middleware.response.mean - hold, hold - 1e-4, 1e-4);
        middleware.queue_length = Some(rate * middleware.queue.mean);
        trial
    }

    fn judged(trials: &[Trial]) -> Results {
        summarise("test", Environment { cores: 2, ..Environment::default() }, trials).unwrap()
    }

    #[test]
    fn full_workers_are_the_limit_only_where_more_of_them_bring_more() {
        let alone = judged(&[held(16, 20_000.0)]);
        let verdict = &alone.verdicts[0];
        assert!(
            matches!(verdict.bottleneck, Bottleneck::Held { workers: 16, busy, more: None, .. } if busy == 1.0),
            "{verdict:?}"
        );
        assert!(
            verdict.to_string().contains(
                "100 % of the 16 workers are held on average, and whether that is the limit is not known"
            ),
            "{verdict}"
        );
        assert_eq!(verdict.parts[0].0, Part::Queue);

        let more = judged(&[held(16, 20_000.0), held(32, 29_000.0)]);
        let verdict = &more.verdicts[0];
        assert!(matches!(verdict.bottleneck, Bottleneck::Workers { workers: 16, .. }), "{verdict:?}");
        assert!(
            verdict.to_string().contains("The bottleneck is the 16 workers: 100 % of them are held on average, and the others wait in the queue; with 32 workers 45 % more requests were answered."),
            "{verdict}"
        );

        let same = judged(&[held(16, 20_000.0), held(32, 20_100.0)]);
        let verdict = &same.verdicts[0];
        assert!(matches!(verdict.bottleneck, Bottleneck::Held { more: Some(_), .. }), "{verdict:?}");
        assert!(
            verdict.to_string().contains("but they are not the limit: with 32 workers 0 % more"),
            "{verdict}"
        );

        // A cell that differs in something else, too, is no evidence about workers.
        let mut other = held(32, 29_000.0);
        other.factors[0].1 = "1:0".into();
        let verdict = &judged(&[held(16, 20_000.0), other]).verdicts[0];
        assert!(matches!(verdict.bottleneck, Bottleneck::Held { more: None, .. }), "{verdict:?}");
    }

    #[test]
    fn a_full_machine_comes_before_workers_whatever_keeps_it_busy() {
        let mut trial = held(16, 20_000.0);
        let process =
            |station, busy: f64| ProcessCpu { station, name: "it".into(), busy: 10.0 * busy, cores: 1.0 };
        trial.cpu = vec![process(Station::Middleware, 0.6), process(Station::Clients, 0.4)];
        trial.machine = Some(Watch {
            seconds: 10.0,
            cores: 2,
            own: 1.0,
            foreign: 0.4,
            kernel: 0.59,
            steal: 0.01,
            ..Watch::default()
        });
        let verdict = &judged(&[trial.clone(), held(32, 29_000.0)]).verdicts[0];
        assert_eq!(verdict.bottleneck.short(), "all 2 processors");
        assert!(
            verdict.to_string().contains(
                "The bottleneck is the machine: 2.00 of its 2 processors are busy, 1.00 with the experiment's own programs, 0.59 with the kernel, \
                 0.40 with other programs and 0.01 with the machine's host, which takes them away; of the stations most of all with the middleware (it) (0.60). \
                 What the system does with the machine to itself is not known: run it again with nothing else at work."
            ),
            "{verdict}"
        );
        // Half of it idle, it limits nothing.
        trial.machine = Some(Watch { seconds: 10.0, cores: 2, own: 1.0, ..Watch::default() });
        assert!(matches!(judged(&[trial.clone()]).verdicts[0].bottleneck, Bottleneck::Held { .. }));
        // One of several machines is full: their sum does not show it.
        let watch = |own| Watch { seconds: 10.0, cores: 2, own, ..Watch::default() };
        trial.machines = vec![("alpha".into(), watch(0.1)), ("beta".into(), watch(1.9))];
        let verdict = &judged(&[trial]).verdicts[0];
        assert_eq!(verdict.bottleneck.short(), "all 2 processors of beta");
    }

    /// Windows that differ so much that the rate is known to ± 60 % or so.
    fn wild(mut trial: Trial) -> Trial {
        for (number, window) in trial.client.windows.iter_mut().enumerate() {
            window.completed = if number % 2 == 0 { 100 } else { 40_000 };
        }
        trial
    }

    #[test]
    fn nothing_is_concluded_from_cells_that_are_not_known_well() {
        let cell = |clients, rate| steady_trial("read-only", clients, rate);
        // The last cell seems to have twice the rate.
        let results =
            judged(&[cell(1, 5_000.0), cell(8, 19_500.0), cell(16, 20_000.0), wild(cell(32, 40_000.0))]);
        let verdict = &results.verdicts[0];
        assert_eq!((verdict.at.clients, verdict.unsure[0].clients), (8, 32));
        assert!(matches!(verdict.saturation, Saturation::Reached { tried: 16, .. }), "{verdict:?}");
        assert!(verdict.to_string().contains("Nothing is concluded from the cells with 32 clients: their intervals are wider than a fifth of their values"), "{verdict}");
        assert!(verdict.to_string().contains("Measure longer or repeat more often"), "{verdict}");
        assert_eq!(results.configurations[0].best.clients, 16);
        // Without the fewest clients there is neither a knee nor a shortest response time.
        let results = judged(&[wild(cell(1, 5_000.0)), cell(8, 19_500.0), cell(16, 20_000.0)]);
        let verdict = &results.verdicts[0];
        assert!(
            matches!(verdict.saturation, Saturation::Reached { knee: None, tried: 16, .. }),
            "{verdict:?}"
        );
        assert_eq!(verdict.usable, None);
        assert!(!verdict.to_string().contains("knee"), "{verdict}");
        // One cell after the other that is not known: no growth either.
        let results = judged(&[wild(cell(1, 5_000.0)), wild(cell(8, 19_500.0))]);
        let verdict = &results.verdicts[0];
        assert_eq!((&verdict.bottleneck, verdict.saturation), (&Bottleneck::NotKnown, Saturation::Unknown));
        let said = verdict.to_string();
        assert!(
            said.starts_with("No conclusion: ") && !said.contains("grew") && said.contains("Measure longer"),
            "{said}"
        );
        assert!(results.configurations.is_empty());
        // A run too short for windows has no interval at all, and the verdict says so.
        let mut short = cell(4, 5_000.0);
        short.client.windows.truncate(1);
        let verdict = &judged(&[short]).verdicts[0];
        assert!(
            verdict
                .to_string()
                .contains("One short run has no interval: nothing says how far these figures may be off."),
            "{verdict}"
        );
    }

    #[test]
    fn no_share_is_more_than_all_of_it() {
        let mut trial = held(16, 20_000.0);
        trial.cpu =
            vec![ProcessCpu { station: Station::Middleware, name: "proxy".into(), busy: 10.3, cores: 1.0 }];
        let mut results = judged(&[trial.clone()]);
        assert!(
            results.verdicts[0].to_string().contains("it uses 1.00 of the 1 processor it can"),
            "{}",
            results.verdicts[0]
        );
        assert_eq!(results.cells[0].load[0].utilization(), 1.0);
        assert_eq!(results.cells[0].middleware.as_ref().unwrap().workers_busy, Some(1.0));
        trial.links =
            vec![Link { station: Station::Server, name: "s1".into(), bandwidth: 1e8, sent: 1.02e8 }];
        trial.middleware.as_mut().unwrap().server.mean *= 9.0;
        results = judged(&[trial]);
        assert_eq!(results.cells[0].links[0].utilization(), 1.0);
        let whole: f64 = results.verdicts[0].parts.iter().map(|(_, share)| share).sum();
        assert!((whole - 1.0).abs() < 1e-9, "{:?}", results.verdicts[0].parts);
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
        assert!(matches!(serde_json::from_str(old).unwrap(), Saturation::Reached { knee: Some(_), .. }));
    }
}
