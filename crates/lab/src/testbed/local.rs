//! Trials by processes on this machine: servers that stay, a middleware made anew for each trial,
//! one load generator.

use std::path::Path;
use std::time::{Duration, Instant};

use super::error::StationError;
use super::netns::Namespaces;
use super::process::PATIENCE;
use super::stations::{Starter, words};
use super::trial::{RunningServers, RunningStations, TrialRun, Unmeasured, busy, end};
use crate::campaign::{DueTrial, TrialOutcome, TrialRunner};
use crate::plan::PlannedCell;
use crate::spec::Spec;

/// Trials on this machine.
#[derive(Debug)]
pub struct Local<'a> {
    spec: &'a Spec,
    starter: Starter,
    servers: Option<RunningServers>,
    /// How long before their instant several clients are told to begin together. A trial whose
    /// clients were not ready by then has failed, and the next gives them more; see [`next_lead`].
    lead: Duration,
}

/// The first lead, and the longest.
const LEAD: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(20)];
/// How many times longer the first lead is at most where everything is slower.
const SLOW: f64 = 4.0;
/// What is left of a lead for the next trial where it was long enough. Not much less: where clients
/// need more than the first lead, every trial that gives them too little has failed.
const ENOUGH: f64 = 0.9;
/// Starting clients on other machines takes no longer than this many times what it takes to ask
/// each of these for a trifle.
const STARTS: u32 = 3;

/// The first lead of this spec, and the shortest.
fn first_lead(spec: &Spec) -> Duration {
    // Clients that are slower take longer to be ready.
    LEAD[0].mul_f64(spec.slower().min(SLOW))
}

/// The lead after a trial that was measured, or was not for this reason.
fn next_lead(lead: Duration, first: Duration, unmeasured: Option<&Unmeasured>) -> Duration {
    match unmeasured {
        Some(Unmeasured::NotReady(_)) => LEAD[1].min(2 * lead),
        Some(Unmeasured::Failed(_)) => lead,
        None => first.max(lead.mul_f64(ENOUGH)),
    }
}

impl<'a> Local<'a> {
    /// A testbed for this spec. Nothing is started yet.
    pub fn new(spec: &'a Spec, starter: Starter) -> Self {
        Self { spec, starter, servers: None, lead: first_lead(spec) }
    }

    /// Ends the servers.
    ///
    /// # Errors
    /// When one had to be killed.
    pub fn end(&mut self) -> Result<(), StationError> {
        let Some(mut servers) = self.servers.take() else { return Ok(()) };
        servers
            .running
            .iter_mut()
            .filter_map(|one| one.process.as_mut())
            .try_for_each(|one| one.stop(PATIENCE).map(drop))
    }

    /// RunningServers that were started as this cell wants them.
    fn servers(&mut self, cell: &PlannedCell) -> Result<(), StationError> {
        let station = &self.spec.stations.servers;
        let count = cell.count(station, station.usual_servers());
        let wanted = [words(station, cell), vec![format!("× {count}")]].concat();
        if self.servers.as_ref().is_some_and(|servers| servers.words == wanted) {
            return Ok(());
        }
        self.end()?;
        let mut commands = Vec::new();
        let running = self.starter.servers(station, cell, &mut commands)?;
        self.servers = Some(RunningServers { words: wanted, running, populated: None, commands });
        Ok(())
    }

    /// One trial: servers, keys, middleware, warm-up, load with its faults, and what stays of it.
    fn trial(
        &mut self,
        due: &DueTrial<'_>,
        folder: &Path,
        outcome: &mut TrialOutcome,
    ) -> Result<(), StationError> {
        let cell = due.cell;
        if self.starter.hosts.changes('s', cell) {
            self.end()?;
        }
        self.starter.hosts.prepare(cell, &self.starter.stop)?;
        let begun = Instant::now();
        self.starter.clear()?;
        // Where starting something takes time, clients are told an instant that is as much later.
        let lead = (self.lead + STARTS * begun.elapsed()).min(LEAD[1]);
        self.servers(cell)?;
        let trial = TrialRun::new(self.spec, &self.starter, due, folder)?;
        let servers = self.servers.as_mut().expect("they were started above");
        outcome.commands.extend(servers.commands.iter().cloned());
        trial.populate(servers, &mut outcome.commands)?;
        let mut middleware = trial.middleware(servers, &mut outcome.commands)?;
        let mut stations = RunningStations { servers: &mut servers.running, middleware: &mut middleware };
        trial.warm_up(&stations.targets(), &mut outcome.commands)?;
        let paths = trial.paths(&stations)?;
        let counted = trial.counted(&stations)?;
        let measured = trial.measure(&mut stations, lead, &mut outcome.commands);
        self.lead = next_lead(self.lead, first_lead(self.spec), measured.as_ref().err());
        let measured = measured?;
        trial.thaw(&mut stations)?;
        trial.keep_counted(&counted, &trial.counted(&stations)?)?;
        let mut spent_by = busy(self.spec, cell, &middleware, &servers.running);
        end(&mut middleware)?;
        let loads = trial.keep(measured, &mut spent_by, &paths, outcome)?;
        if loads.iter().any(|load| load.config.loses_keys()) {
            servers.populated = None;
        }
        if trial.has_faults() {
            // A server that was killed has lost its keys: the next trial begins with servers that
            // have theirs.
            self.end()?;
        }
        Ok(())
    }
}

impl TrialRunner for Local<'_> {
    fn run(&mut self, due: &DueTrial<'_>, folder: &Path) -> TrialOutcome {
        let mut outcome = TrialOutcome::default();
        let ended = self.trial(due, folder, &mut outcome);
        // What stations say of a host that was cut off is only what came of it.
        let stands = self.starter.hosts.network().map_or(Ok(()), Namespaces::stands);
        if let Err(error) = stands.and(ended) {
            outcome.failed = Some(error.to_string());
            outcome.certain = error.certain;
            // What was written up to then may tell why.
            let _ = self.starter.collect(folder);
            // Whatever was wrong with them: the next attempt begins with servers of its own.
            let _ = self.end();
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use krarup_load::LoadError;

    use super::*;

    #[test]
    fn clients_get_more_time_only_where_they_were_not_ready_in_it() {
        let [first, longest] = LEAD;
        let failed = |said: String| {
            Unmeasured::of_load(StationError { said: vec![said], ..StationError::new("load 1", "failed") })
        };
        let other = failed("error: cannot connect to 127.0.0.1:1: connection refused".to_owned());
        assert_eq!(next_lead(first, first, Some(&other)), first);
        let late = failed(format!("error: {}", LoadError::TooLate { by: 0.3 }));
        assert_eq!(next_lead(first, first, Some(&late)), 2 * first);
        assert_eq!(next_lead(longest, first, Some(&late)), longest);
        assert!(next_lead(longest, first, None) < longest);
        assert_eq!(next_lead(first, first, None), first);
    }
}
