//! A class's path as a list of instructions, so that a request's place in it is one number.
//!
//! ```text
//! hold workers [ uplink, fork a b c ]        0 Take workers
//!                                            1 Visit uplink
//!                                            2 Fork a b c
//!                                            3 Give workers
//!                                            4 End
//! ```

use std::collections::BTreeMap;

use super::random::{RandomStream, TimeSampler};
use crate::network::{ClassWorkload, Fork, Network, StationId, Step, Work};

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    /// Visit a station `whole` times in a row, once more with probability `fraction`.
    Visit { station: u32, times: u32, whole: u32, fraction: f64, coin: u32 },
    /// Copies to several stations.
    Fork(u32),
    /// Take a slot of a pool.
    Take(u32),
    /// Give it back.
    Give(u32),
    /// Go on in one of several places.
    Branch(u32),
    /// Go on elsewhere.
    Jump(u32),
    /// The request is done.
    End,
}

/// Where copies go.
#[derive(Clone, Debug)]
pub(super) struct ForkTargets {
    /// Stations, each with its service times.
    pub(super) stations: Vec<(u32, u32)>,
    /// To how many of them.
    pub(super) choose: u32,
    /// How many answers let the request go on.
    pub(super) needed: u32,
    /// Decides which ones.
    pub(super) coin: u32,
}

/// Where a path may go on.
#[derive(Clone, Debug)]
pub(super) struct Branches {
    /// Cumulative shares up to 1, and where each goes on.
    pub(super) ways: Vec<(f64, u32)>,
    /// Decides which one.
    pub(super) coin: u32,
}

/// The paths of all classes, and the random streams they draw from.
#[derive(Clone, Debug, Default)]
pub(super) struct PathProgram {
    pub(super) ops: Vec<Op>,
    /// The pools that a request at each instruction holds.
    pub(super) held: Vec<Vec<u32>>,
    /// Where each class begins.
    pub(super) entry: Vec<u32>,
    pub(super) forks: Vec<ForkTargets>,
    pub(super) branches: Vec<Branches>,
    /// Service times of each step.
    pub(super) times: Vec<TimeSampler>,
    /// Streams of choices.
    pub(super) coins: Vec<RandomStream>,
    /// Think times or gaps between arrivals of each class.
    pub(super) gaps: Vec<TimeSampler>,
}

impl PathProgram {
    /// The paths of a checked network, with the streams of one replication.
    pub(super) fn new(network: &Network, seed: u64, replication: u64) -> Self {
        let mut program = Self::default();
        for class in &network.classes {
            let mut writer = Writer {
                program: &mut program,
                network,
                seed,
                replication,
                class: &class.name,
                named: BTreeMap::new(),
            };
            let gaps = match &class.workload {
                ClassWorkload::Open { gap, .. } => TimeSampler::new(writer.stream(&["gap"]), gap),
                ClassWorkload::Closed { think, .. } => TimeSampler::new(writer.stream(&["think"]), think),
            };
            let entry = writer.program.ops.len() as u32;
            writer.path(&class.path, &mut Vec::new());
            writer.op(Op::End, &[]);
            program.gaps.push(gaps);
            program.entry.push(entry);
        }
        program
    }
}

struct Writer<'a> {
    program: &'a mut PathProgram,
    network: &'a Network,
    seed: u64,
    replication: u64,
    class: &'a str,
    /// How many streams of each name there are: two steps at one station draw from two streams.
    named: BTreeMap<String, u32>,
}

impl Writer<'_> {
    fn op(&mut self, op: Op, held: &[u32]) -> usize {
        self.program.ops.push(op);
        self.program.held.push(held.to_vec());
        self.program.ops.len() - 1
    }

    fn path(&mut self, path: &[Step], held: &mut Vec<u32>) {
        for step in path {
            match step {
                Step::Visit(visit) => {
                    let station = visit.station;
                    let times = self.times(station, &visit.work);
                    let network = self.network;
                    let coin = self.coin(&["visits", &network.stations[station.0].name]);
                    let whole = visit.count.floor().min(f64::from(u32::MAX - 1));
                    let fraction = (visit.count - whole).clamp(0.0, 1.0);
                    let station = station.0 as u32;
                    self.op(Op::Visit { station, times, whole: whole as u32, fraction, coin }, held);
                }
                Step::Hold { pool, path } => {
                    let pool = pool.0 as u32;
                    self.op(Op::Take(pool), held);
                    held.push(pool);
                    self.path(path, held);
                    self.op(Op::Give(pool), held);
                    held.pop();
                }
                Step::Fork(fork) => self.fork(fork, held),
                Step::OneOf { branches } => {
                    let coin = self.coin(&["branch"]);
                    let place = self.program.branches.len() as u32;
                    self.program.branches.push(Branches { ways: Vec::new(), coin });
                    self.op(Op::Branch(place), held);
                    let total: f64 = branches.iter().map(|branch| branch.share).sum();
                    let (mut ways, mut ends, mut sum) = (Vec::new(), Vec::new(), 0.0);
                    for branch in branches {
                        sum += branch.share / total;
                        ways.push((sum, self.program.ops.len() as u32));
                        self.path(&branch.path, held);
                        ends.push(self.op(Op::Jump(0), held));
                    }
                    let after = self.program.ops.len() as u32;
                    for end in ends {
                        self.program.ops[end] = Op::Jump(after);
                    }
                    self.program.branches[place as usize].ways = ways;
                }
            }
        }
    }

    fn fork(&mut self, fork: &Fork, held: &[u32]) {
        let stations: Vec<(u32, u32)> = fork
            .stations
            .iter()
            .map(|&station| (station.0 as u32, self.times(station, &fork.work)))
            .collect();
        let coin = self.coin(&["choose"]);
        let needed = fork.wait.needed(fork.choose);
        let place = self.program.forks.len() as u32;
        self.program.forks.push(ForkTargets { stations, choose: fork.choose, needed, coin });
        self.op(Op::Fork(place), held);
    }

    fn times(&mut self, station: StationId, work: &Work) -> u32 {
        let network = self.network;
        let there = &network.stations[station.0];
        let stream = self.stream(&["service", &there.name]);
        let times = TimeSampler::new(stream, &there.service_time(work));
        self.program.times.push(times);
        self.program.times.len() as u32 - 1
    }

    fn coin(&mut self, purpose: &[&str]) -> u32 {
        let stream = self.stream(purpose);
        self.program.coins.push(stream);
        self.program.coins.len() as u32 - 1
    }

    /// A stream for the class being written, of this purpose.
    fn stream(&mut self, purpose: &[&str]) -> RandomStream {
        let count = self.named.entry(purpose.join("\u{1f}")).or_default();
        *count += 1;
        let number = count.to_string();
        let mut name = vec![self.class, number.as_str()];
        name.extend(purpose);
        RandomStream::named(self.seed, self.replication, &name)
    }
}
