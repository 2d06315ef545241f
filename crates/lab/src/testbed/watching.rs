//! Who looks at the machines while a trial is measured: a thread of ours at this one, an agent at
//! each other.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use krarup_record::watch::Watch;
use krarup_units::Seconds;

use super::error::StationError;
use super::netns::Namespaces;
use super::process::{ChildProcess, PATIENCE};
use super::records::{read, save, unreadable};
use super::ssh::remote::Remote;
use super::stations::{Running, Starter};
use crate::monitor::proc::ThreadTimes;
use crate::monitor::{Monitor, Observations, Spent, Subject};

/// A process: the machine it runs on, and its number there.
pub(super) type ProcessId = (String, u32);

/// The names of what runs already on a machine when a trial is watched.
fn subjects(machine: &str, middleware: &[Running], servers: &[Running]) -> Vec<Subject> {
    let of = |kind: &str, running: &Running| {
        let process = running.process.as_ref()?.number();
        let subject = Subject { name: format!("{kind} {}", running.address), process };
        (running.host.machine() == machine).then_some(subject)
    };
    let between = middleware.iter().filter_map(|one| of("middleware", one));
    between.chain(servers.iter().filter_map(|one| of("server", one))).collect()
}

/// Looks at the machines while a trial is measured.
pub(super) enum Watching {
    /// A thread of ours, at this machine.
    Here(Monitor),
    /// An agent on each machine, by the machine's name.
    There(Vec<(String, ChildProcess)>),
}

/// What was seen, before it is written down.
pub(super) enum Unkept {
    Here(Box<Observations>),
    There(Vec<String>),
}

/// What was seen on all machines.
pub(super) struct Observed {
    /// All of them together.
    pub(super) watch: Watch,
    /// Why the figures may be others' doing.
    pub(super) disturbed: Option<String>,
    /// Seconds of processor time of each process.
    pub(super) spent: BTreeMap<ProcessId, Seconds>,
    /// What the threads of each process here had.
    pub(super) threads: BTreeMap<u32, Vec<ThreadTimes>>,
}

impl Watching {
    pub(super) fn begin(
        starter: &Starter,
        folder: &Path,
        middleware: &[Running],
        servers: &[Running],
    ) -> Result<Self, StationError> {
        let Some(fleet) = starter.hosts.fleet() else {
            let lines = starter.hosts.network().map(Namespaces::lines).unwrap_or_default();
            let lines = lines.into_iter().map(|(name, process)| Subject { name, process });
            let subjects = subjects("here", middleware, servers).into_iter().chain(lines).collect();
            return Ok(Self::Here(Monitor::begin(subjects)));
        };
        let begin = |machine: &Arc<Remote>| {
            let into = folder.join("monitor").join(&machine.name);
            let watch = machine.watch(&into, &subjects(&machine.name, middleware, servers), &starter.stop)?;
            Ok((machine.name.clone(), watch))
        };
        fleet.machines().iter().map(begin).collect::<Result<_, _>>().map(Self::There)
    }

    pub(super) fn end(self) -> Result<Unkept, StationError> {
        match self {
            Self::Here(monitor) => Ok(Unkept::Here(Box::new(monitor.end()))),
            Self::There(mut all) => {
                for (_, process) in &mut all {
                    let ended = process.stop(PATIENCE)?;
                    if !ended.status.success() {
                        return Err(process.error(format!("failed ({})", ended.status)));
                    }
                }
                Ok(Unkept::There(all.into_iter().map(|(name, _)| name).collect()))
            }
        }
    }
}

impl Unkept {
    /// Writes it down where a trial's records are, or reads what was brought there.
    pub(super) fn keep(self, folder: &Path) -> Result<Observed, StationError> {
        let place = folder.join("monitor");
        match self {
            Self::Here(seen) => {
                seen.write(&place).map_err(|error| unreadable(&place, &error))?;
                let spent =
                    seen.spent().into_iter().map(|one| (("here".to_owned(), one.process), one.seconds));
                let watch = seen.watch();
                let threads = seen.threads_of_processes();
                Ok(Observed { disturbed: watch.disturbed(), watch, spent: spent.collect(), threads })
            }
            Self::There(machines) => {
                let (mut watches, mut spent) = (Vec::new(), BTreeMap::new());
                for machine in machines {
                    let place = place.join(&machine);
                    watches.push((machine.clone(), read::<Watch>(&place.join("watch.json"))?));
                    let all: Vec<Spent> = read(&place.join("processes.json"))?;
                    spent.extend(all.into_iter().map(|one| ((machine.clone(), one.process), one.seconds)));
                }
                let watch = Watch::of_all(&watches);
                save(&place.join("watch.json"), &watch)?;
                let why: Vec<String> = watches
                    .iter()
                    .filter_map(|(machine, watch)| Some(format!("{machine}: {}", watch.disturbed()?)))
                    .collect();
                let disturbed = (!why.is_empty()).then(|| why.join("; "));
                Ok(Observed { disturbed, watch, spent, threads: BTreeMap::new() })
            }
        }
    }
}
