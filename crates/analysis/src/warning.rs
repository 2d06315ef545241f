//! What does not add up, as values with evidence and a next step.

use std::fmt;

use krarup_units::{Seconds, text};
use serde::{Deserialize, Serialize};

use crate::trial::{CellLevels, GeneratorWarning};

/// A warning and where it was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Concern {
    /// The cell; none where it concerns the whole.
    pub levels: Option<CellLevels>,
    /// What was seen.
    pub warning: Warning,
}

/// Why figures may mislead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// N = X (R + Z) does not hold: the clients were not always waiting or thinking.
    InteractiveLaw {
        /// Population N.
        clients: u32,
        /// X (R + Z) as measured by the clients.
        by_law: f64,
    },
    /// Clients and middleware counted different numbers of requests.
    CountsDiffer {
        /// Requests answered, by the clients' count.
        clients: u64,
        /// Requests replied, by the middleware's.
        middleware: u64,
    },
    /// A part is longer than its whole: the two sides did not measure the same requests.
    PartBeyondWhole {
        /// Mean response time at the middleware.
        middleware: Seconds,
        /// Mean response time at the clients.
        clients: Seconds,
    },
    /// Little's law at the queue: the length seen is not X · queue time.
    QueueLength {
        /// Mean length seen.
        seen: f64,
        /// X · queue time.
        by_law: f64,
    },
    /// Requests failed.
    Errors {
        /// How many.
        errors: u64,
        /// Of how many.
        completed: u64,
    },
    /// Reads missed keys that should have been there.
    Misses {
        /// Keys not found.
        misses: u64,
        /// Keys asked for.
        keys: u64,
    },
    /// The load generator itself was busy most of the time: it measures itself.
    GeneratorBusy {
        /// Which process.
        name: String,
        /// Its utilization.
        utilization: f64,
    },
    /// The load generator found something in its own run: it was late, did not send what was due,
    /// or left a backlog behind.
    GeneratorWarned(GeneratorWarning),
    /// All processors of the machine were busy: clients, servers, and the middleware where there is
    /// one, take them from each other.
    MachineFull {
        /// Whether there is a middleware.
        #[serde(default)]
        middleware: bool,
        /// Processors kept busy, by whatever was seen.
        busy: f64,
        /// Processors of the machine.
        cores: u32,
    },
    /// The rate changed during a run.
    Unsteady {
        /// Coefficient of variation of the windows' throughput.
        variation: f64,
    },
    /// More workers were held than there are: Little's law at the worker slots.
    WorkersBeyond {
        /// X · (response − queue time) at the middleware.
        held: f64,
        /// How many there are.
        workers: u32,
    },
    /// The beginning of the run is unlike the rest: more of it should have been cut off.
    WarmUpLeft {
        /// How much of it is unlike the rest.
        seconds: Seconds,
        /// Of how much.
        of: Seconds,
    },
    /// The rate rose or fell all through the run.
    Drifts {
        /// From first to last, as a share of the mean.
        share: f64,
        /// Probability of so much order by chance.
        p_value: f64,
    },
    /// Others used the machine while it was measured.
    Disturbed {
        /// What was seen.
        why: String,
    },
    /// A link threw packets away.
    PacketsLost {
        /// Which.
        link: String,
        /// How many.
        packets: u64,
    },
    /// There are only rows of some keys.
    Sampled {
        /// Of which share of them, as `1/16`.
        keys: String,
    },
    /// The program that wrote the rows could not keep them all.
    RowsLost {
        /// How many are missing.
        lost: u64,
        /// How many are there.
        kept: u64,
    },
    /// Rows whose stamps are not in the order of their definitions.
    Disordered {
        /// How many.
        rows: u64,
        /// Of how many.
        of: u64,
    },
    /// Little's law does not hold at a place: L is not X · W.
    Little {
        /// Where.
        place: String,
        /// L: how many were there, averaged over time.
        present: f64,
        /// X · W.
        by_law: f64,
    },
    /// More came to a place than went, or fewer.
    FlowBalance {
        /// Where.
        place: String,
        /// Requests that came, per second.
        arrivals: f64,
        /// Requests that went, per second.
        completions: f64,
    },
    /// A trial that was measured cannot be read any more: it is in no figure.
    Unread {
        /// Its file or folder, within the directory.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A cell has fewer complete runs than the plan asks for.
    RunsMissing {
        /// Which cell, in words.
        cell: String,
        /// How many are complete.
        done: u32,
        /// How many there should be.
        wanted: u32,
        /// How many attempts failed.
        failed: u32,
    },
    /// A cell has all its runs, and other attempts at them failed.
    RunsRefused {
        /// Which cell, in words.
        cell: String,
        /// How many runs are complete.
        done: u32,
        /// How many attempts failed.
        failed: u32,
    },
    /// Servers that should be alike got different numbers of requests.
    UnevenServers {
        /// The server with the largest share, and the share.
        most: (String, f64),
        /// The server with the smallest.
        least: (String, f64),
    },
    /// Repetitions whose histograms have different buckets were left out of the sum.
    DifferentBuckets,
    /// No cell was repeated.
    OneRepetition,
    /// Whole repetitions were left out, because the anchor beside them disagrees with the others.
    NotPooled {
        /// Which, from 0.
        blocks: Vec<u32>,
        /// By how much anchors may differ, as a share.
        within: f64,
    },
    /// Repetitions have trials, and no run of the anchor beside them.
    AnchorMissing {
        /// Which, from 0.
        blocks: Vec<u32>,
    },
    /// Runs of the anchor differ within repetitions that were kept.
    AnchorScatters {
        /// Its lowest throughput.
        least: f64,
        /// Its highest.
        most: f64,
    },
    /// The anchor changed steadily over all that is pooled.
    Drift {
        /// By which share of its throughput, from the first run to the last.
        change: f64,
        /// Half of the 95 % interval.
        half: f64,
    },
}

impl fmt::Display for Warning {
    /// What was seen, with its evidence: a sentence.
    #[expect(clippy::too_many_lines, reason = "a table: one sentence for each warning")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| text::three_digits(share * 100.0);
        match self {
            Self::InteractiveLaw { clients, by_law } => {
                let off = by_law / f64::from(*clients) - 1.0;
                write!(
                    f,
                    "Throughput and response time account for {} of {clients} clients ({:+.1} %) by the interactive law \
                     N = X (R + Z).",
                    text::three_digits(*by_law),
                    off * 100.0
                )
            }
            Self::CountsDiffer { clients, middleware } => write!(
                f,
                "The clients counted {} requests, the middleware {}.",
                text::count(*clients as f64),
                text::count(*middleware as f64)
            ),
            Self::PartBeyondWhole { middleware, clients } => write!(
                f,
                "The mean response time at the middleware ({}) is longer than at the clients ({}).",
                text::duration(*middleware),
                text::duration(*clients)
            ),
            Self::QueueLength { seen, by_law } => write!(
                f,
                "Requests saw a queue of {} on average; throughput times queue time makes {} (Little's law).",
                text::three_digits(*seen),
                text::three_digits(*by_law)
            ),
            Self::Errors { errors, completed } => write!(
                f,
                "{} of {} requests failed.",
                text::count(*errors as f64),
                text::count(*completed as f64)
            ),
            Self::Misses { misses, keys } => write!(
                f,
                "{} of {} keys were not found ({} %).",
                text::count(*misses as f64),
                text::count(*keys as f64),
                percent(*misses as f64 / *keys as f64)
            ),
            Self::GeneratorBusy { name, utilization } => {
                write!(f, "The load generator ({name}) was busy {} % of the time.", percent(*utilization))
            }
            Self::GeneratorWarned(warned) => write!(f, "The load generator warned: {}.", warned.what),
            Self::MachineFull { middleware, busy, cores } => write!(
                f,
                "{} of the machine's {cores} processors were busy: {} take them from each other.",
                text::three_digits(busy.min(f64::from(*cores))),
                if *middleware { "clients, middleware and servers" } else { "clients and servers" }
            ),
            Self::Unsteady { variation } => write!(
                f,
                "Throughput varied by {} % from window to window (coefficient of variation).",
                percent(*variation)
            ),
            Self::WorkersBeyond { held, workers } => write!(
                f,
                "{} of {workers} workers were held on average (Little's law).",
                text::three_digits(*held)
            ),
            Self::WarmUpLeft { seconds, of } => write!(
                f,
                "The first {} of {} are unlike the rest (MSER): they still belong to the warm-up.",
                text::duration(*seconds),
                text::duration(*of)
            ),
            Self::Drifts { share, p_value } => write!(
                f,
                "Throughput {} by {} % from the first second to the last (Mann and Kendall, p = {p_value:.3}).",
                if *share > 0.0 { "rose" } else { "fell" },
                percent(share.abs())
            ),
            Self::Disturbed { why } => {
                let mut letters = why.chars();
                let first =
                    letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
                write!(f, "{first}{}.", letters.as_str())
            }
            Self::PacketsLost { link, packets } => {
                write!(f, "The link {link} threw {} packets away.", text::count(*packets as f64))
            }
            Self::Sampled { keys } => write!(f, "The rows are those of {keys} of the keys."),
            Self::RowsLost { lost, kept } => write!(
                f,
                "{} rows are missing beside the {} there are: the disk was too slow or full, or refused them.",
                text::count(*lost as f64),
                text::count(*kept as f64)
            ),
            Self::Disordered { rows, of } => write!(
                f,
                "The stamps of {} of {} rows are not in order.",
                text::count(*rows as f64),
                text::count(*of as f64)
            ),
            Self::Little { place, present, by_law } => write!(
                f,
                "{} requests were at the {place} on average; throughput times their time there makes {} (Little's law).",
                text::three_digits(*present),
                text::three_digits(*by_law)
            ),
            Self::FlowBalance { place, arrivals, completions } => write!(
                f,
                "{} requests came to the {place} each second, and {} left it.",
                text::count(arrivals.round()),
                text::count(completions.round())
            ),
            Self::UnevenServers { most, least } => write!(
                f,
                "{} got {} % of the requests, {} only {} %.",
                most.0,
                percent(most.1),
                least.0,
                percent(least.1)
            ),
            Self::Unread { file, why } => {
                write!(f, "A trial is in no figure, because {file} cannot be read: {why}.")
            }
            Self::RunsMissing { cell, done, wanted, failed } => {
                write!(f, "Runs of {cell} are missing: {done} of {wanted} are complete")?;
                match failed {
                    0 => write!(f, "."),
                    1 => write!(f, ", and 1 attempt failed."),
                    _ => write!(f, ", and {failed} attempts failed."),
                }
            }
            Self::RunsRefused { cell, done, failed } => {
                let runs = if *done == 1 { "run" } else { "runs" };
                let attempts = if *failed == 1 { "attempt" } else { "attempts" };
                write!(f, "{done} {runs} of {cell} came through, and {failed} {attempts} failed.")
            }
            Self::DifferentBuckets => {
                write!(
                    f,
                    "Some repetitions have histograms with other buckets; they are not in the histogram shown."
                )
            }
            Self::OneRepetition => {
                write!(
                    f,
                    "Every cell ran once: where there are intervals, they come from the windows of that run and say nothing about another."
                )
            }
            Self::NotPooled { blocks, within } => {
                write!(
                    f,
                    "The runs of repetition {} are in no figure: the anchor beside them differs by more than {} % from the others.",
                    from_one(blocks),
                    percent(*within)
                )
            }
            Self::AnchorMissing { blocks } => write!(
                f,
                "No run of the anchor stands beside the trials of repetition {}: whether the machine was the same then is not known.",
                from_one(blocks)
            ),
            Self::AnchorScatters { least, most } => write!(
                f,
                "The anchor, the same configuration each time, gave from {} to {} requests per second.",
                text::count(least.round()),
                text::count(most.round())
            ),
            Self::Drift { change, half } => write!(
                f,
                "The anchor's throughput changed by {:+.1} % (± {} %) from the first run that counts to the last.",
                change * 100.0,
                percent(*half)
            ),
        }
    }
}

/// Repetitions as they are counted for a reader: `1, 3`.
fn from_one(blocks: &[u32]) -> String {
    let names: Vec<String> = blocks.iter().map(|block| (block + 1).to_string()).collect();
    names.join(", ")
}

impl Warning {
    /// How bad it is among those of its kind, of several runs of one cell or of several cells: a
    /// number from 0 up, in whatever unit; 0 of a kind that is not more or less bad.
    pub fn extent(&self) -> f64 {
        let share = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        match self {
            Self::InteractiveLaw { clients, by_law } => (by_law / f64::from(*clients) - 1.0).abs(),
            Self::CountsDiffer { clients, middleware } => {
                share(clients.abs_diff(*middleware), *clients.max(middleware))
            }
            Self::Errors { errors, completed } => share(*errors, *completed),
            Self::Misses { misses, keys } => share(*misses, *keys),
            Self::GeneratorBusy { utilization, .. } => *utilization,
            Self::MachineFull { busy, cores, .. } => busy / f64::from((*cores).max(1)),
            Self::PartBeyondWhole { middleware, clients } => middleware / clients,
            Self::QueueLength { seen, by_law } => (seen - by_law).abs(),
            Self::Unsteady { variation } => *variation,
            Self::WorkersBeyond { held, .. } => *held,
            Self::WarmUpLeft { seconds, of } => seconds / of,
            Self::Drifts { share, .. } => share.abs(),
            Self::PacketsLost { packets, .. } => *packets as f64,
            Self::UnevenServers { most, least } => most.1 - least.1,
            Self::GeneratorWarned(warned) => warned.extent,
            _ => 0.0,
        }
    }

    /// Whether the two say the same but for their figures: of a rise and a fall, each is said, and
    /// so is each kind of warning that a load generator has.
    pub fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Drifts { share, .. }, Self::Drifts { share: another, .. }) => {
                (*share > 0.0) == (*another > 0.0)
            }
            (Self::GeneratorWarned(warned), Self::GeneratorWarned(another)) => warned.kind == another.kind,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }

    /// Whether it finds no fault with the figures: it says what they are.
    pub fn is_hint(&self) -> bool {
        matches!(self, Self::OneRepetition | Self::DifferentBuckets | Self::QueueLength { .. })
    }

    /// What to do about it.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::InteractiveLaw { .. } => {
                "Look at the clients: those that connect late, stop early or wait for a processor are missing in the sum."
            }
            Self::CountsDiffer { .. } => {
                "Check that both measured the same span and that no other client used the middleware."
            }
            Self::PartBeyondWhole { .. } | Self::WorkersBeyond { .. } => {
                "Check that both measured the same span; read neither the time outside the middleware nor the workers' share from this cell."
            }
            Self::QueueLength { .. } => {
                "Expect this where requests arrive in bursts; else look for a change during the run."
            }
            Self::Errors { .. } => {
                "Read the logs first: failed requests are often fast and flatter every other figure."
            }
            Self::Misses { .. } => {
                "Populate all keys, give the servers enough memory, or let keys live longer than the run."
            }
            Self::GeneratorBusy { .. } => {
                "Add client threads or machines before you believe the limit to be the system's."
            }
            Self::GeneratorWarned(_) => "Follow its advice, or read the figures with what it says in mind.",
            Self::MachineFull { .. } => {
                "Read the limit as the machine's; give the clients a machine of their own to see the limit of what they ask."
            }
            Self::Unsteady { .. } => "Measure longer, cut more warm-up, and see the run over time.",
            Self::WarmUpLeft { .. } => "Give the spec a longer warm-up, and run these cells again.",
            Self::Drifts { .. } => {
                "Look for what changes with time: a cache that fills, memory, a neighbour, heat; measure longer."
            }
            Self::Disturbed { .. } => {
                "Run it on a quiet machine, or ask for one: gates = [\"foreign_cpu < 10 %\"]."
            }
            Self::PacketsLost { .. } => {
                "Expect repeats after some 200 ms in the slowest requests; look at the link's queue and rate."
            }
            Self::Sampled { .. } => {
                "Times are those of all requests as far as keys are alike; rates, and how many are present, are those of the sample."
            }
            Self::RowsLost { .. } => {
                "Write the rows to a disk that is quick enough and has room; rates from the rows are too low by as much."
            }
            Self::Disordered { .. } => {
                "This is a bug of the station that stamped them: report it, and do not read parts of times from these rows."
            }
            Self::Little { .. } => {
                "Measure longer than requests stay, and see whether the load changed; rows that are missing have this effect, too."
            }
            Self::FlowBalance { .. } => {
                "The place filled up or emptied while it was measured: it was not in a steady state. Measure longer, or with less load."
            }
            Self::UnevenServers { .. } => {
                "On a ring of hashes the shares of servers differ by about a tenth; rendezvous and jump place keys more evenly. Elsewhere check the routing, and whether a server was down."
            }
            Self::Unread { .. } => {
                "Restore the file, or remove the trial's folder and run the experiment again: that trial alone is measured anew."
            }
            Self::RunsMissing { failed: 0, .. } => "Run the experiment again: it goes on with these.",
            Self::RunsMissing { .. } | Self::RunsRefused { .. } => {
                "Read in `failed/` why they failed: what a gate refuses is in no figure, and those that passed may flatter the system."
            }
            Self::DifferentBuckets => "Use one bucket width for all repetitions.",
            Self::OneRepetition => "Repeat each cell three times or more.",
            Self::NotPooled { .. } => {
                "Find out what else the machine did then; remove these trials and run again to have them measured anew."
            }
            Self::AnchorMissing { .. } => {
                "Read in `failed/` why it failed, if it did, and run the experiment again: it goes on with these. Of trials of another day it says nothing: run the whole in another directory."
            }
            Self::AnchorScatters { .. } => {
                "Differences between cells below this one say nothing: measure longer, or on a machine with nothing else to do."
            }
            Self::Drift { .. } => {
                "The order of the trials is random, so without `until` no cell is favoured, but intervals hold the drift: find its cause."
            }
        }
    }
}
