//! Who looks at the machines while a trial is measured: a thread of ours at this one, an agent at
//! each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use krarup_record::watch::Watch;
use krarup_units::Seconds;

use super::error::StationError;
use super::netns::Namespaces;
use super::process::{ChildProcess, PATIENCE};
use super::records::{read, save, unreadable};
use super::remote::Remote;
use super::stations::{Running, Starter};
use crate::monitor::proc::ThreadTimes;
use crate::monitor::{Monitor, Observations, Spent, Subject};
use crate::stop::Stop;

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
    /// A thread of ours, at this machine, so long before the clients begin.
    Here(Monitor, Seconds),
    /// An agent on each machine.
    There(Vec<(WatchedMachine, ChildProcess)>),
}

/// What was seen, before it is written down.
pub(super) enum Unkept {
    Here(Box<Observations>),
    There(Vec<WatchedMachine>),
}

/// A machine, or a pod, that an agent looks at.
pub(super) struct WatchedMachine {
    name: String,
    /// Where its records are below the folder of all.
    place: PathBuf,
}

/// What was seen on all machines.
pub(super) struct Observed {
    /// How long they were looked at.
    pub(super) seconds: Seconds,
    /// Each of them.
    pub(super) machines: Vec<Watch>,
    /// Why the figures may be others' doing.
    pub(super) disturbed: Option<String>,
    /// Seconds of processor time of each process.
    pub(super) spent: BTreeMap<ProcessId, Seconds>,
    /// What the threads of each process here had.
    pub(super) threads: BTreeMap<u32, Vec<ThreadTimes>>,
}

/// A machine, and what was seen of it from each of its parts.
type SeenMachine = (String, Vec<(String, Watch)>);

impl Watching {
    /// Begins to look, `lead` before the clients do.
    pub(super) fn begin(
        starter: &Starter,
        folder: &Path,
        middleware: &[Running],
        servers: &[Running],
        lead: Seconds,
    ) -> Result<Self, StationError> {
        let machines = starter.hosts.machines();
        if machines.is_empty() {
            let lines = starter.hosts.network().map(Namespaces::lines).unwrap_or_default();
            let lines = lines.into_iter().map(|(name, process)| Subject { name, process });
            let subjects = subjects("here", middleware, servers).into_iter().chain(lines).collect();
            let monitor = Monitor::begin(subjects)
                .map_err(|error| StationError::new("monitor", format!("no thread can be had: {error}")))?;
            return Ok(Self::Here(monitor, lead));
        }
        Self::begin_there(&machines, folder, (middleware, servers), lead, &starter.stop)
    }

    /// An agent on each of these machines begins to look. All are started before one is waited for:
    /// what the last of them took to begin, the first would see as idle time.
    fn begin_there(
        machines: &[Arc<Remote>],
        folder: &Path,
        (middleware, servers): (&[Running], &[Running]),
        lead: Seconds,
        stop: &Stop,
    ) -> Result<Self, StationError> {
        let begin = |machine: &Arc<Remote>| {
            let (name, place) = (machine.name.clone(), machine.watched_in());
            let into = folder.join("monitor").join(&place);
            let watch = machine.watch(&into, &subjects(&name, middleware, servers), lead)?;
            Ok((WatchedMachine { name, place }, watch))
        };
        let mut all = machines.iter().map(begin).collect::<Result<Vec<_>, StationError>>()?;
        all.iter_mut().try_for_each(|(_, watch)| Remote::watches(watch, stop))?;
        Ok(Self::There(all))
    }

    pub(super) fn end(self) -> Result<Unkept, StationError> {
        match self {
            Self::Here(monitor, lead) => Ok(Unkept::Here(Box::new(monitor.end().with_lead(lead)))),
            Self::There(mut all) => {
                // All before one is waited for, by the same reason.
                all.iter().for_each(|(_, process)| process.ask_to_end());
                for (_, process) in &mut all {
                    let ended = process.stop(PATIENCE)?;
                    if !ended.status.success() {
                        return Err(process.error(format!("failed ({})", ended.status)));
                    }
                }
                Ok(Unkept::There(all.into_iter().map(|(machine, _)| machine).collect()))
            }
        }
    }
}

impl Unkept {
    /// Writes it down where a trial's records are, or reads what was brought there. What shapers of
    /// links here have `lost` no device counts, and is added.
    pub(super) fn keep(self, folder: &Path, lost: Vec<(String, u64)>) -> Result<Observed, StationError> {
        let place = folder.join("monitor");
        match self {
            Self::Here(seen) => {
                let seen = seen.with_lost(lost);
                seen.write(&place).map_err(|error| unreadable(&place, &error))?;
                let spent =
                    seen.spent().into_iter().map(|one| (("here".to_owned(), one.process), one.seconds));
                let watch = seen.watch();
                let threads = seen.threads_of_processes();
                let (seconds, disturbed) = (watch.seconds, watch.disturbed());
                Ok(Observed { seconds, machines: vec![watch], disturbed, spent: spent.collect(), threads })
            }
            Self::There(machines) => {
                let (mut seen, mut spent) = (Vec::<SeenMachine>::new(), BTreeMap::new());
                for WatchedMachine { name, place: below } in machines {
                    let records = place.join(&below);
                    let watch: Watch = read(&records.join("watch.json"))?;
                    let all: Vec<Spent> = read(&records.join("processes.json"))?;
                    spent.extend(all.into_iter().map(|one| ((name.clone(), one.process), one.seconds)));
                    let machine = below.iter().next().unwrap_or_default().to_string_lossy().into_owned();
                    match seen.iter_mut().find(|(known, _)| *known == machine) {
                        Some((_, parts)) => parts.push((name, watch)),
                        None => seen.push((machine, vec![(name, watch)])),
                    }
                }
                let mut watches = Vec::new();
                for (machine, parts) in seen {
                    let watch = Watch::of_shared(&parts);
                    // That of a machine with one part is there already.
                    if parts.iter().any(|(name, _)| *name != machine) {
                        save(&place.join(&machine).join("watch.json"), &watch)?;
                    }
                    watches.push((machine, watch));
                }
                let watch = Watch::of_all(&watches);
                save(&place.join("watch.json"), &watch)?;
                let why: Vec<String> = watches
                    .iter()
                    .filter_map(|(machine, watch)| Some(format!("{machine}: {}", watch.disturbed()?)))
                    .collect();
                let disturbed = (!why.is_empty()).then(|| why.join("; "));
                let machines = watches.into_iter().map(|(_, watch)| watch).collect();
                Ok(Observed { seconds: watch.seconds, machines, disturbed, spent, threads: BTreeMap::new() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::super::remote::tests::remote;
    use super::*;
    use crate::agent::protocol::WATCHES;

    /// Of two machines the first says that it looks only when the second is there, too, and ends
    /// only when the second is asked to.
    #[test]
    fn machines_are_watched_from_one_instant_to_one() {
        let folder = std::env::temp_dir().join(format!("krarup-watching-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let [begun, ended] = ["begun", "ended"].map(|name| {
            let pipe = folder.join(name);
            assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
            pipe.display().to_string()
        });
        let stop = Stop::default();
        // A pipe is opened by both ends at once.
        let machines = ["echo >", "read -r line <"].map(|meet| {
            let end = r#"while read -r word && [ "$word" != end ]; do :; done"#;
            let script = format!("{meet} '{begun}'; echo '{WATCHES}' >&2; {end}; {meet} '{ended}'");
            Arc::new(remote(&script, &folder, &stop))
        });
        let watching = Watching::begin_there(&machines, &folder, (&[], &[]), 0.0, &stop).unwrap();
        let unkept = watching.end();
        fs::remove_dir_all(&folder).unwrap();
        assert!(matches!(unkept.unwrap(), Unkept::There(all) if all.len() == 2));
    }
}
