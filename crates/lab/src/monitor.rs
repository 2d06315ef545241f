//! What the machine and the stations do while a trial is measured, looked at each second, and
//! whether other programs were at work on it.
//!
//! Stations are the processes that descend from this one, or on another machine those that carry
//! the mark of the run. A thread of ours reads `/proc`, which takes some milliseconds of one
//! processor per second. **Foreign** is what programs took that are no stations: the ticks of all
//! processors in programs and in the kernel for them, without those of our own processes and of the
//! kernel's threads, which work for whatever has work. All three are counted by the same clock's
//! ticks, so that what they miss they miss alike. **Steal** is what the machine's own host took
//! away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use krarup_record::watch::Watch;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use proc::{LinkCounters, MachineCounters, ThreadTimes, Ticks};

pub mod proc;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(1);

/// A process whose name is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its name in the records: `proxy`, `server 127.0.0.1:11211`.
    pub name: String,
    /// Its number.
    pub process: u32,
}

/// Whose processes are stations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessFamily {
    /// Those that descend from this one.
    Children,
    /// Those whose environment has a variable that begins like this, as `KRARUP_RUN=17/`.
    Carriers(String),
}

/// What a process that was there at the end took of the processors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Its number.
    pub process: u32,
    /// Processor time, in seconds.
    pub seconds: Seconds,
}

/// A thread of a station at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Thread {
    process: u32,
    /// The process of the station that it belongs to.
    station: u32,
    name: String,
    schedule: ThreadTimes,
    switches: u64,
}

/// What was seen at one moment.
#[derive(Clone, Debug, Default)]
struct Look {
    at: Seconds,
    machine: MachineCounters,
    /// Ticks of our processes, of the kernel's, and of all others.
    own: u64,
    kernel: u64,
    others: u64,
    memory: u64,
    /// By their numbers.
    threads: BTreeMap<u32, Thread>,
    /// Memory of each process in bytes.
    resident: BTreeMap<u32, u64>,
    /// Links by network and name; each network is called by a process that runs there.
    links: BTreeMap<(String, String), LinkCounters>,
}

/// Looks until it is told to end.
#[derive(Debug)]
pub struct Monitor {
    ending: Sender<()>,
    thread: JoinHandle<Vec<Look>>,
    subjects: Vec<Subject>,
}

impl Monitor {
    /// Begins to look, at once and then each second. Processes that are no subjects are called by
    /// their programs.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub fn begin(subjects: Vec<Subject>) -> io::Result<Self> {
        Self::begin_for(ProcessFamily::Children, subjects)
    }

    /// The same, where stations are known otherwise.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_for(family: ProcessFamily, subjects: Vec<Subject>) -> io::Result<Self> {
        let (ending, ended) = channel();
        let names: BTreeMap<u32, String> =
            subjects.iter().map(|subject| (subject.process, subject.name.clone())).collect();
        let thread = Builder::new().spawn(move || {
            let begun = Instant::now();
            let mut looks = vec![look(0.0, &family, &names)];
            for number in 1_u32.. {
                let next = EVERY * number;
                match ended.recv_timeout(next.saturating_sub(begun.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {
                        looks.push(look(begun.elapsed().as_secs_f64(), &family, &names));
                    }
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            looks.push(look(begun.elapsed().as_secs_f64(), &family, &names));
            looks
        });
        Ok(Self { ending, thread: thread?, subjects })
    }

    /// Looks for the last time, and ends.
    pub fn end(self) -> Observations {
        let _ = self.ending.send(());
        // A panic there would be ours: then nothing was seen.
        let looks = self.thread.join().unwrap_or_default();
        let names = self.subjects.into_iter().map(|subject| (subject.process, subject.name)).collect();
        Observations { looks, names, ..Observations::default() }
    }
}

/// Everything that was seen.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    looks: Vec<Look>,
    names: BTreeMap<u32, String>,
    /// How long after the first look the clients began.
    lead: Seconds,
    /// Packets that were lost where no device counts them.
    lost: Vec<(String, u64)>,
}

/// The clock's ticks per second: what Linux has shown to programs on every platform since 2.6.
const TICKS: f64 = 100.0;

impl Observations {
    /// The same, of clients that began so long after the first look.
    #[must_use]
    pub fn with_lead(self, lead: Seconds) -> Self {
        Self { lead, ..self }
    }

    /// The same, with what was `lost` where no device counts it.
    #[must_use]
    pub fn with_lost(self, lost: Vec<(String, u64)>) -> Self {
        Self { lost, ..self }
    }

    /// All of it from when the clients began to the last look; from the first, where there is none
    /// between.
    pub fn watch(&self) -> Watch {
        let begun = self.looks.iter().position(|look| look.at >= self.lead).unwrap_or(0);
        let looks = &self.looks[if begun + 1 < self.looks.len() { begun } else { 0 }..];
        let (Some(first), Some(last)) = (looks.first(), looks.last()) else {
            return Watch { lost: self.lost.clone(), ..Watch::default() };
        };
        let seconds = last.at - first.at;
        let rate = |ticks: u64| if seconds > 0.0 { ticks as f64 / TICKS / seconds } else { 0.0 };
        let spent = sum(&spent(&first.machine, &last.machine));
        let own = last.own.saturating_sub(first.own);
        let kernel = last.kernel.saturating_sub(first.kernel);
        let programs = spent.user + spent.system;
        // What we were charged for interrupts hides as much of others' time in the difference; what
        // others were charged for by themselves lacks those that came and went without a parent.
        let others = last.others.saturating_sub(first.others);
        let foreign = programs.saturating_sub(own + kernel).max(others);
        // A process is charged for the interrupts that came while it ran, and the machine counts
        // these apart: no tick is told twice, so that the parts add up to what was not idle.
        let kernel =
            (kernel + spent.interrupts).min((programs + spent.interrupts).saturating_sub(own + foreign));
        let lost = last.links.iter().filter_map(|((network, name), link)| {
            let before = first.links.get(&(network.clone(), name.clone()));
            let lost = |link: &LinkCounters| link.received_lost.saturating_add(link.sent_lost);
            let more = lost(link).saturating_sub(before.map_or(0, lost));
            (more > 0).then(|| (format!("{network} {name}"), more))
        });
        Watch {
            seconds,
            cores: last.machine.cores.len() as u32,
            own: rate(own),
            foreign: rate(foreign),
            kernel: rate(kernel),
            steal: rate(spent.steal),
            run_queue: looks.iter().map(|look| look.machine.running as f64).sum::<f64>() / looks.len() as f64,
            switches: if seconds > 0.0 {
                last.machine.switches.saturating_sub(first.machine.switches) as f64 / seconds
            } else {
                0.0
            },
            memory_left: looks.iter().map(|look| look.memory).min().unwrap_or(0),
            lost: lost.chain(self.lost.iter().cloned()).collect(),
        }
    }

    /// What each process took that was there from the first look to the last, a subject with all
    /// that descend from it.
    pub fn spent(&self) -> Vec<Spent> {
        let (Some(first), Some(last)) = (self.looks.first(), self.looks.last()) else { return Vec::new() };
        let there =
            |look: &Look| -> BTreeSet<u32> { look.threads.values().map(|thread| thread.station).collect() };
        let (processes, left) = (there(first), there(last));
        let spent = |(process, threads): (u32, Vec<ThreadTimes>)| {
            let ran: u64 = threads.iter().map(|thread| thread.ran).sum();
            Spent { process, seconds: ran as f64 / 1e9 }
        };
        let stayed = |process: &u32| processes.contains(process) && left.contains(process);
        let threads = self.threads_of_processes().into_iter();
        threads.filter(|(process, _)| stayed(process)).map(spent).collect()
    }

    /// What the threads of each process had from the first look on, by the process, or by the
    /// subject that it descends from; those that have ended, too, as far as they were seen.
    pub fn threads_of_processes(&self) -> BTreeMap<u32, Vec<ThreadTimes>> {
        let first = self.looks.first();
        let mut last: BTreeMap<u32, (u32, ThreadTimes)> = BTreeMap::new();
        for (number, thread) in self.looks.iter().flat_map(|look| &look.threads) {
            last.insert(*number, (thread.station, thread.schedule));
        }
        let mut threads: BTreeMap<u32, Vec<ThreadTimes>> = BTreeMap::new();
        for (number, (process, now)) in last {
            // A thread that has begun since began with nothing.
            let before = first.and_then(|look| look.threads.get(&number));
            let before = before.map_or(ThreadTimes::default(), |thread| thread.schedule);
            threads.entry(process).or_default().push(ThreadTimes {
                ran: now.ran.saturating_sub(before.ran),
                waited: now.waited.saturating_sub(before.waited),
            });
        }
        threads
    }

    /// Writes `machine.csv`, `cores.csv`, `threads.csv` and `links.csv`, a row for each second,
    /// `watch.json` and `processes.json` into a folder, which is made.
    ///
    /// # Errors
    /// From the system.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let text = serde_json::to_string_pretty(&self.watch()).expect("plain data");
        fs::write(folder.join("watch.json"), text)?;
        let spent = serde_json::to_string_pretty(&self.spent()).expect("plain data");
        fs::write(folder.join("processes.json"), spent)?;
        fs::write(folder.join("machine.csv"), self.machine())?;
        fs::write(folder.join("cores.csv"), self.cores())?;
        fs::write(folder.join("threads.csv"), self.threads())?;
        fs::write(folder.join("links.csv"), self.links())
    }

    /// Each pair of looks that follow each other, with the seconds between them.
    fn spans(&self) -> impl Iterator<Item = (&Look, &Look, Seconds)> {
        let pairs = self.looks.windows(2).map(|pair| (&pair[0], &pair[1], pair[1].at - pair[0].at));
        pairs.filter(|(.., seconds)| *seconds > 0.0)
    }

    fn machine(&self) -> String {
        let mut out = String::from(
            "start_s,length_s,busy_cores,own_cores,foreign_cores,kernel_cores,steal_cores,run_queue,switches_per_s,memory_left_bytes\n",
        );
        for (before, after, seconds) in self.spans() {
            let part = Self { looks: vec![before.clone(), after.clone()], ..Self::default() }.watch();
            let busy = part.own + part.foreign + part.kernel;
            let _ = writeln!(
                out,
                "{:.3},{seconds:.3},{busy:.3},{:.3},{:.3},{:.3},{:.3},{},{:.0},{}",
                before.at,
                part.own,
                part.foreign,
                part.kernel,
                part.steal,
                after.machine.running,
                part.switches,
                after.memory
            );
        }
        out
    }

    fn cores(&self) -> String {
        let mut out = String::from("start_s,length_s,core,user,system,interrupts,idle,steal\n");
        for (before, after, seconds) in self.spans() {
            for (number, spent) in spent(&before.machine, &after.machine).into_iter().enumerate() {
                let whole = spent.sum().max(1) as f64;
                let parts = [spent.user, spent.system, spent.interrupts, spent.idle, spent.steal];
                let shares: Vec<String> =
                    parts.iter().map(|part| format!("{:.3}", *part as f64 / whole)).collect();
                let _ = writeln!(out, "{:.3},{seconds:.3},{number},{}", before.at, shares.join(","));
            }
        }
        out
    }

    fn threads(&self) -> String {
        let mut out = String::from(
            "start_s,length_s,station,process,thread,thread_name,running,waiting,switches_per_s,process_memory_bytes\n",
        );
        for (before, after, seconds) in self.spans() {
            for (number, thread) in &after.threads {
                let was = before.threads.get(number);
                // A thread that has begun in between began with nothing.
                let (then, switched) =
                    was.map_or((ThreadTimes::default(), 0), |was| (was.schedule, was.switches));
                let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / 1e9 / seconds;
                let station = self.names.get(&thread.station).map_or(thread.name.as_str(), String::as_str);
                let _ = writeln!(
                    out,
                    "{:.3},{seconds:.3},{},{},{number},{},{:.4},{:.4},{:.0},{}",
                    before.at,
                    quoted(station),
                    thread.process,
                    quoted(&thread.name),
                    share(thread.schedule.ran, then.ran),
                    share(thread.schedule.waited, then.waited),
                    thread.switches.saturating_sub(switched) as f64 / seconds,
                    after.resident.get(&thread.process).copied().unwrap_or(0)
                );
            }
        }
        out
    }

    fn links(&self) -> String {
        let mut out = String::from(
            "start_s,length_s,network,link,received_bytes_per_s,sent_bytes_per_s,received_lost,sent_lost\n",
        );
        for (before, after, seconds) in self.spans() {
            for (place, link) in &after.links {
                let none = LinkCounters::default();
                let was = before.links.get(place).unwrap_or(&none);
                let _ = writeln!(
                    out,
                    "{:.3},{seconds:.3},{},{},{:.0},{:.0},{},{}",
                    before.at,
                    quoted(&place.0),
                    quoted(&place.1),
                    link.received.saturating_sub(was.received) as f64 / seconds,
                    link.sent.saturating_sub(was.sent) as f64 / seconds,
                    link.received_lost.saturating_sub(was.received_lost),
                    link.sent_lost.saturating_sub(was.sent_lost)
                );
            }
        }
        out
    }
}

/// A field of CSV.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// What each core spent between two looks.
fn spent(before: &MachineCounters, after: &MachineCounters) -> Vec<Ticks> {
    after.cores.iter().zip(&before.cores).map(|(after, before)| after.since(*before)).collect()
}

fn sum(cores: &[Ticks]) -> Ticks {
    cores.iter().fold(Ticks::default(), |sum, core| Ticks {
        user: sum.user + core.user,
        system: sum.system + core.system,
        interrupts: sum.interrupts + core.interrupts,
        idle: sum.idle + core.idle,
        steal: sum.steal + core.steal,
    })
}

fn text(path: &str) -> String {
    // What ends while it is looked at has no text any more.
    fs::read_to_string(path).unwrap_or_default()
}

/// The numbers that are names in a folder: processes, or threads.
fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The processes whose environment has a variable that begins like this, as far as we may look.
pub fn carriers(mark: &str) -> BTreeSet<u32> {
    let carries = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(mark.as_bytes()))
    };
    numbers("/proc").into_iter().filter(carries).collect()
}

fn look(at: Seconds, family: &ProcessFamily, names: &BTreeMap<u32, String>) -> Look {
    let mut look = Look {
        at,
        machine: proc::stat(&text("/proc/stat")),
        memory: proc::available(&text("/proc/meminfo")).unwrap_or(0),
        ..Look::default()
    };
    let processes: BTreeMap<u32, proc::ProcessTimes> = numbers("/proc")
        .into_iter()
        .filter_map(|process| Some((process, proc::process(&text(&format!("/proc/{process}/stat")))?)))
        .collect();
    let own = match family {
        ProcessFamily::Children => descendants(std::process::id(), &processes),
        ProcessFamily::Carriers(mark) => carriers(mark),
    };
    for (number, process) in &processes {
        if own.contains(number) {
            look.own += process.ticks;
        } else if process.kernel {
            look.kernel += process.ticks;
        } else {
            look.others += process.ticks;
        }
    }
    let mut networks = BTreeSet::new();
    let here = std::process::id();
    for &process in std::iter::once(&here).chain(own.iter().filter(|one| **one != here)) {
        if let Ok(network) = fs::read_link(format!("/proc/{process}/ns/net"))
            && networks.insert(network)
        {
            let program = || proc::comm(&text(&format!("/proc/{process}/comm"))).to_owned();
            let name = if process == here {
                "here".to_owned()
            } else {
                names.get(&process).cloned().unwrap_or_else(program)
            };
            for link in proc::links(&text(&format!("/proc/{process}/net/dev"))) {
                look.links.insert((name.clone(), link.name.clone()), link);
            }
        }
        if process == here {
            continue;
        }
        if let Some(resident) = proc::resident(&text(&format!("/proc/{process}/status"))) {
            look.resident.insert(process, resident);
        }
        let station = station(process, names, &processes);
        for thread in numbers(&format!("/proc/{process}/task")) {
            let of = |file: &str| text(&format!("/proc/{process}/task/{thread}/{file}"));
            let Some(schedule) = proc::schedstat(&of("schedstat")) else { continue };
            let name = proc::comm(&of("comm")).to_owned();
            let switches = proc::switches(&of("status")).unwrap_or(0);
            look.threads.insert(thread, Thread { process, station, name, schedule, switches });
        }
    }
    look
}

/// The subject that a process is, or descends from; itself, where there is none.
fn station(
    process: u32,
    names: &BTreeMap<u32, String>,
    processes: &BTreeMap<u32, proc::ProcessTimes>,
) -> u32 {
    let parent = |one: &u32| processes.get(one).map(|times| times.parent);
    // Numbers are given again: a circle must not hold us.
    let mut line = std::iter::successors(Some(process), parent).take(processes.len());
    line.find(|one| names.contains_key(one)).unwrap_or(process)
}

/// A process and all that descend from it.
fn descendants(of: u32, processes: &BTreeMap<u32, proc::ProcessTimes>) -> BTreeSet<u32> {
    let mut family = BTreeSet::from([of]);
    loop {
        let more: Vec<u32> = processes
            .iter()
            .filter(|(number, process)| family.contains(&process.parent) && !family.contains(number))
            .map(|(number, _)| *number)
            .collect();
        if more.is_empty() {
            return family;
        }
        family.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(looks: Vec<Look>) -> Observations {
        let names = BTreeMap::from([(7, "proxy".to_owned())]);
        Observations { looks, names, ..Observations::default() }
    }

    /// Two cores; in two seconds 100 ticks of programs, 40 of them ours and 10 the kernel's.
    fn two_looks() -> Observations {
        let core = |user, idle, steal| Ticks { user, idle, steal, ..Ticks::default() };
        let machine = |one, two| MachineCounters { cores: vec![one, two], switches: 5_000, running: 3 };
        let thread = |ran, switches| Thread {
            process: 7,
            station: 7,
            name: "krarup, \"x\"".into(),
            schedule: ThreadTimes { ran, waited: ran / 2 },
            switches,
        };
        let link = |sent, sent_lost| {
            let place = ("here".to_owned(), "lo".to_owned());
            BTreeMap::from([(
                place,
                LinkCounters { name: "lo".into(), sent, sent_lost, ..LinkCounters::default() },
            )])
        };
        let first = Look {
            machine: MachineCounters {
                switches: 1_000,
                running: 1,
                ..machine(core(1_000, 50, 0), core(50, 50, 0))
            },
            own: 500,
            memory: 9,
            threads: BTreeMap::from([(8, thread(1_000_000_000, 10))]),
            links: link(1_000, 1),
            ..Look::default()
        };
        let last = Look {
            at: 2.0,
            machine: machine(core(1_060, 170, 10), core(90, 200, 10)),
            own: 540,
            kernel: 10,
            memory: 5,
            threads: BTreeMap::from([(8, thread(1_500_000_000, 30))]),
            links: link(5_000, 4),
            ..Look::default()
        };
        seen(vec![first, last])
    }

    /// A machine of one core, of whose ticks our processes had so many.
    fn one_core(at: Seconds, own: u64, ticks: Ticks) -> Look {
        let machine = MachineCounters { cores: vec![ticks], ..MachineCounters::default() };
        Look { at, own, machine, ..Look::default() }
    }

    /// A second of one core: 60 ticks in programs, 30 in interrupts, 10 idle; our process was
    /// charged for 85 of them.
    #[test]
    fn interrupts_that_a_process_was_charged_for_are_told_once() {
        let ticks = Ticks { user: 60, interrupts: 30, idle: 10, ..Ticks::default() };
        let watch = seen(vec![one_core(0.0, 0, Ticks::default()), one_core(1.0, 85, ticks)]).watch();
        assert_eq!((watch.own, watch.foreign, watch.kernel), (0.85, 0.0, 0.05));
        assert!((watch.busy() - 0.9).abs() < 1e-9, "a tenth was idle: {}", watch.busy());
    }

    /// The same, beside another program that was charged for 20 ticks.
    #[test]
    fn others_are_seen_beside_what_we_were_charged_for_interrupts() {
        let ticks = Ticks { user: 65, interrupts: 35, ..Ticks::default() };
        let last = Look { others: 20, ..one_core(1.0, 75, ticks) };
        let watch = seen(vec![one_core(0.0, 0, Ticks::default()), last]).watch();
        assert_eq!((watch.own, watch.foreign, watch.kernel), (0.75, 0.2, 0.05));
    }

    #[test]
    fn before_the_clients_begin_nothing_counts() {
        let look = |at, own| one_core(at, own, Ticks { user: own, ..Ticks::default() });
        let looks = || seen(vec![look(0.0, 0), look(1.0, 10), look(2.0, 110), look(3.0, 210)]);
        assert!((looks().watch().own - 0.7).abs() < 1e-9);
        let watch = looks().with_lead(0.8).watch();
        assert_eq!((watch.own, watch.seconds), (1.0, 2.0));
        assert_eq!(looks().with_lead(2.5).watch().seconds, 3.0, "too short to be cut");
    }

    #[test]
    fn what_is_not_ours_is_foreign() {
        let watch = two_looks().watch();
        assert_eq!((watch.seconds, watch.cores, watch.own, watch.foreign), (2.0, 2, 0.2, 0.25));
        assert_eq!((watch.kernel, watch.steal, watch.switches, watch.run_queue), (0.05, 0.1, 2_000.0, 2.0));
        assert_eq!((watch.memory_left, &watch.lost[..]), (5, &[("here lo".to_owned(), 3)][..]));
        let why = watch.disturbed().unwrap();
        assert_eq!(
            why,
            "the machine was disturbed: other programs took 12 % of the processors, the machine's host took 5.0 % of them away"
        );
        assert_eq!(Watch { foreign: 0.1, steal: 0.0, ..watch.clone() }.disturbed(), None);
        assert_eq!(Watch { seconds: 0.5, ..watch }.disturbed(), None, "a few ticks say nothing");
    }

    /// One that was there at the first look, and one that came and went since.
    #[test]
    fn what_threads_had_is_counted_from_the_first_look_on() {
        let mut seen = two_looks();
        let thread = |process, ran, waited| Thread {
            process,
            station: process,
            name: "load".into(),
            schedule: ThreadTimes { ran, waited },
            switches: 0,
        };
        let between =
            Look { at: 1.0, threads: BTreeMap::from([(20, thread(19, 300, 70))]), ..Look::default() };
        seen.looks.insert(1, between);
        let had = |ran, waited| vec![ThreadTimes { ran, waited }];
        let expected = BTreeMap::from([(7, had(500_000_000, 250_000_000)), (19, had(300, 70))]);
        assert_eq!(seen.threads_of_processes(), expected);
    }

    #[test]
    fn every_second_is_a_row() {
        let seen = two_looks();
        let rows = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(rows(&seen.threads()), ["0.000,2.000,proxy,7,8,\"krarup, \"\"x\"\"\",0.2500,0.1250,10,0"]);
        assert_eq!(rows(&seen.links()), ["0.000,2.000,here,lo,0,2000,0,3"]);
        assert_eq!(rows(&seen.cores()).len(), 2);
        assert_eq!(rows(&seen.machine()), ["0.000,2.000,0.500,0.200,0.250,0.050,0.100,3,2000,5"]);
    }

    /// A database is several processes, and a station all the same.
    #[test]
    fn what_descends_from_a_station_is_counted_with_it() {
        let process = |parent| proc::ProcessTimes { parent, ..proc::ProcessTimes::default() };
        let all = [(1, process(0)), (5, process(1)), (6, process(5)), (7, process(6)), (8, process(1))];
        let names = BTreeMap::from([(5, "server".to_owned())]);
        let of = |one| station(one, &names, &BTreeMap::from(all));
        assert_eq!([1, 5, 6, 7, 8, 9].map(of), [1, 5, 5, 5, 8, 9]);
        let thread = |process: u32, ran| Thread {
            process,
            station: of(process),
            name: "postgres".into(),
            schedule: ThreadTimes { ran, waited: 0 },
            switches: 0,
        };
        let look = |at, ran| {
            let threads = BTreeMap::from([(5, thread(5, ran)), (7, thread(7, 2 * ran))]);
            Look { at, threads, ..Look::default() }
        };
        let looks = vec![look(0.0, 0), look(1.0, 100_000_000)];
        let seen = Observations { looks, names, ..Observations::default() };
        assert_eq!(seen.spent(), [Spent { process: 5, seconds: 0.3 }]);
        assert_eq!(seen.threads_of_processes()[&5].len(), 2);
        assert!(seen.threads().contains(",server,7,7,postgres,"), "{}", seen.threads());
    }

    #[test]
    fn children_of_children_are_of_the_family() {
        let process = |parent| proc::ProcessTimes { parent, ..proc::ProcessTimes::default() };
        let all = BTreeMap::from([
            (1, process(0)),
            (5, process(1)),
            (6, process(5)),
            (7, process(6)),
            (8, process(1)),
        ]);
        assert_eq!(descendants(5, &all), BTreeSet::from([5, 6, 7]));
    }

    #[test]
    fn this_machine_is_looked_at_and_a_child_of_ours_is_seen() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let monitor = Monitor::begin(vec![Subject { name: "the cat".into(), process: child.id() }]).unwrap();
        let seen = monitor.end();
        drop(child.stdin.take());
        child.wait().unwrap();
        let watch = seen.watch();
        assert!(watch.cores > 0 && watch.memory_left > 0 && watch.run_queue >= 1.0, "{watch:?}");
        assert!(seen.threads().contains(",the cat,"), "{}", seen.threads());
        let folder = std::env::temp_dir().join(format!("krarup-monitor-{}", std::process::id()));
        seen.write(&folder).unwrap();
        let kept: Watch =
            serde_json::from_str(&fs::read_to_string(folder.join("watch.json")).unwrap()).unwrap();
        assert_eq!(kept.cores, watch.cores);
        assert!(fs::read_to_string(folder.join("links.csv")).unwrap().contains(",here,lo,"));
        fs::remove_dir_all(folder).unwrap();
    }

    proptest! {
        /// However counters jump, shares are numbers from 0 up.
        #[test]
        fn no_counters_make_nonsense(
            cores in proptest::collection::vec((0_u64..1 << 40, 0_u64..1 << 40, 0_u64..1 << 40), 2..4),
            own in (0_u64..1 << 40, 0_u64..1 << 40),
            kernel in (0_u64..1 << 40, 0_u64..1 << 40),
            length in 0.0..100.0f64,
        ) {
            let machine = |place: usize| {
                let (user, system, steal) = cores[place];
                MachineCounters { cores: vec![Ticks { user, system, steal, ..Ticks::default() }], ..MachineCounters::default() }
            };
            let look = |place: usize, at, own, kernel| Look { at, machine: machine(place), own, kernel, ..Look::default() };
            let watch = seen(vec![look(0, 0.0, own.0, kernel.0), look(1, length, own.1, kernel.1)]).watch();
            for value in [watch.own, watch.foreign, watch.kernel, watch.steal, watch.run_queue, watch.switches] {
                prop_assert!(value.is_finite() && value >= 0.0);
            }
        }
    }
}
