//! The course of a simulation: windows and batches, the end of the warm-up, and when it is enough.

use std::ops::ControlFlow;

use krarup_stats::StatsError;
use krarup_stats::steady::{WarmUp, mser5};
use krarup_units::Seconds;

use super::engine::{Engine, Pause};
use super::result::{self, Simulated, Stop};
use super::rows::{EachVisit, Rows};
use super::sample::Sample;
use super::tally::{ClassTally, Tally};
use super::{Progress, Runs, SimulationSettings, WarmUpRule};
use crate::Error;
use crate::network::{FeatureKind, Kind, Network, Workload};

/// Batches at most; when there are so many, neighbours are joined.
const BATCHES: usize = 64;
/// Windows in a batch: warm-up is looked for at this resolution.
const WINDOWS: usize = 16;
/// Fewer batches than this are not looked at.
const FEWEST: usize = 20;
/// Requests that are expected in the first windows.
const REQUESTS: f64 = 16.0;
/// Fewer replications than this are not looked at; the warm-up is looked for in the average of these.
const FEWEST_REPLICATIONS: usize = 10;
/// Batches of the first replications that are kept as one.
const PILOT: usize = 4;
/// More are not made.
const MOST_REPLICATIONS: usize = 10_000;
/// Progress is told at least each so many events.
const TELL: u64 = 1 << 20;

/// A simulation under way.
pub(super) struct Course<'a> {
    network: &'a Network,
    settings: &'a SimulationSettings,
    progress: &'a mut dyn FnMut(&Progress) -> ControlFlow<()>,
    /// Requests per second that may be expected.
    rate: f64,
    time_varying: bool,
    state: Progress,
}

/// One run, cut into windows and batches.
struct Run {
    batches: Vec<Tally>,
    /// For each class.
    series: Vec<Series>,
    /// Length of a window, and where the first begins.
    width: Seconds,
    origin: Seconds,
}

/// What the warm-up of a class is looked for in: one value per window.
#[derive(Clone, Debug, Default)]
struct Series {
    /// Completions, of a closed class. Of an open one the area under way, which begins at nothing: what is too
    /// high at its beginning is no warm-up but a burst, and to cut those off would make every queue shorter than it is.
    closed: bool,
    values: Vec<f64>,
}

/// Windows to leave out as warm-up; `None` when it is not over.
fn warm_up_windows(all: &[Series]) -> Option<usize> {
    let mut cut = 0;
    for series in all {
        match mser5(&series.values) {
            Ok(WarmUp::Ends { after, .. }) => {
                let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
                let (start, rest) = series.values.split_at(after);
                if series.closed || after > 0 && mean(start) < mean(rest) {
                    cut = cut.max(after);
                }
            }
            Err(StatsError::Constant { .. }) => {}
            Ok(WarmUp::NotOver { .. }) | Err(_) => return None,
        }
    }
    Some(cut)
}

impl Run {
    /// Batches to leave out as warm-up; `None` when it is not over.
    fn warm_up(&self) -> Option<usize> {
        warm_up_windows(&self.series).map(|windows| windows.div_ceil(WINDOWS))
    }

    /// Joins neighbours, so that there is room for as much again.
    fn join(&mut self) {
        let mut batches = std::mem::take(&mut self.batches).into_iter();
        while let (Some(mut first), Some(second)) = (batches.next(), batches.next()) {
            first.add(&second);
            self.batches.push(first);
        }
        for series in &mut self.series {
            series.values = series.values.chunks_exact(2).map(|pair| pair[0] + pair[1]).collect();
        }
        self.width *= 2.0;
    }
}

/// The first replications, in whose average the end of the warm-up is looked for. All replications are then cut there: cutting
/// each where it suits itself would cut off busy beginnings and keep idle ones, which bends the mean.
#[derive(Default)]
struct Pilot {
    runs: Vec<Run>,
    /// Batches to leave out, once it is known.
    cut: Option<usize>,
    /// The warm-up was not over in half of the length.
    drifts: bool,
}

impl Pilot {
    /// Adds a replication. Four batches are kept as one, to keep memory small.
    fn add(&mut self, mut run: Run) {
        run.batches = run.batches.chunks(PILOT).filter_map(Tally::sum).collect();
        self.runs.push(run);
    }

    /// Finds the cut, and gives what the replications counted after it.
    fn finish(&mut self, detect: bool) -> Vec<Tally> {
        let mut average: Vec<Series> = Vec::new();
        for run in &self.runs {
            if average.is_empty() {
                average.clone_from(&run.series);
                continue;
            }
            for (into, from) in average.iter_mut().zip(&run.series) {
                into.values.iter_mut().zip(&from.values).for_each(|(into, from)| *into += from);
            }
        }
        let windows = if detect { warm_up_windows(&average) } else { Some(0) };
        self.drifts = windows.is_none() && !self.runs.is_empty();
        let cut = windows.map_or(BATCHES / PILOT / 2, |windows| windows.div_ceil(WINDOWS * PILOT));
        self.cut = Some(cut * PILOT);
        self.runs.drain(..).filter_map(|run| Tally::sum(&run.batches[cut..])).collect()
    }
}

impl<'a> Course<'a> {
    pub(super) fn new(
        network: &'a Network,
        settings: &'a SimulationSettings,
        progress: &'a mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        network.check()?;
        settings.check()?;
        let features = network.features();
        let has = |kind| features.iter().find(|feature| feature.kind == kind);
        let varying = has(FeatureKind::TimeVarying);
        if let (Some(feature), Runs::Long) = (varying, settings.runs) {
            return Err(Error::invalid(
                format!("class `{}`", feature.at),
                "arrives at a rate that changes with time, which has no long run",
                "simulate replications of a given length",
            ));
        }
        let limited = has(FeatureKind::FiniteCapacity).or(has(FeatureKind::FinitePoolQueue));
        if limited.is_none() && settings.runs == Runs::Long {
            check_load(network)?;
        }
        let rate = expected_rate(network)?;
        let state = Progress {
            events: 0,
            max_events: settings.max_events,
            time: 0.0,
            replications: 0,
            precision: None,
        };
        Ok(Self { network, settings, progress, rate, time_varying: varying.is_some(), state })
    }

    pub(super) fn finish(mut self, each: Option<EachVisit<'_>>) -> Result<Simulated, Error> {
        match self.settings.runs {
            Runs::Long => self.long(each),
            Runs::Replications { length } => self.replications(length, each),
        }
    }

    /// Runs the engine to a time; `Some` is why it stopped before.
    fn run_to(
        &mut self,
        engine: &mut Engine<'_>,
        time: Seconds,
        before: Progress,
    ) -> Result<Option<Stop>, Error> {
        loop {
            let left = self.settings.max_events.saturating_sub(before.events);
            let next_tell = (engine.events / TELL + 1) * TELL;
            let pause = engine.run(time, left.min(next_tell))?;
            self.state.events = before.events + engine.events;
            self.state.time = before.time + engine.now;
            if pause == Pause::Time {
                return Ok(None);
            }
            if engine.events >= left {
                return Ok(Some(Stop::Events));
            }
            if (self.progress)(&self.state).is_break() {
                return Ok(Some(Stop::Asked));
            }
        }
    }

    /// Runs for one more batch; `Some` is why it stopped before its end.
    fn batch(
        &mut self,
        run: &mut Run,
        engine: &mut Engine<'_>,
        before: Progress,
    ) -> Result<Option<Stop>, Error> {
        let classes = self.network.classes.len();
        let mut last = vec![ClassTally::default(); classes];
        let first = run.batches.len() * WINDOWS;
        for window in 1..=WINDOWS {
            let end = run.origin + (first + window) as f64 * run.width;
            if let Some(stop) = self.run_to(engine, end, before)? {
                return Ok(Some(stop));
            }
            for (class, last) in last.iter_mut().enumerate() {
                let sums = engine.class(class);
                let series = &mut run.series[class];
                series.values.push(if series.closed {
                    (sums.completed - last.completed) as f64
                } else {
                    sums.area - last.area
                });
                *last = sums;
            }
        }
        run.batches.push(engine.cut(run.width * WINDOWS as f64));
        Ok(None)
    }

    fn start(&self, width: Seconds, origin: Seconds) -> Run {
        let closed = self.network.classes.iter().map(|class| class.population().is_some());
        let series = closed.map(|closed| Series { closed, values: Vec::new() }).collect();
        Run { batches: Vec::new(), series, width, origin }
    }

    /// The time that is left out by order, not by detection.
    fn fixed_warm_up(&self) -> Seconds {
        match self.settings.warm_up {
            WarmUpRule::Seconds(time) => time,
            WarmUpRule::Detect => 0.0,
        }
    }

    fn detects(&self) -> bool {
        self.settings.warm_up == WarmUpRule::Detect && !self.time_varying
    }

    fn long(&mut self, each: Option<EachVisit<'_>>) -> Result<Simulated, Error> {
        let rows = each.map(|each| Rows::new(self.network, each));
        let mut engine = Engine::new(self.network, self.settings.seed, 0, rows)?;
        let before = self.state;
        let origin = self.fixed_warm_up();
        let mut run = self.start(REQUESTS / self.rate, origin);
        let mut stop = self.run_to(&mut engine, origin, before)?;
        engine.cut(origin);
        let mut warnings = Vec::new();
        while stop.is_none() {
            stop = self.batch(&mut run, &mut engine, before)?;
            let count = run.batches.len();
            if stop.is_none() && count >= BATCHES / 2 && count.is_multiple_of(BATCHES / 8) {
                let cut = if self.detects() { run.warm_up() } else { Some(0) };
                if let Some(cut) = cut.filter(|cut| count - cut >= FEWEST) {
                    let sample = Sample::batches(&run.batches[cut..], self.settings.level);
                    self.state.precision = sample.precision(self.network.classes.len());
                    if self.state.precision.is_some_and(|reached| reached <= self.settings.precision) {
                        stop = Some(Stop::Precise);
                    }
                }
                if stop.is_none() && (self.progress)(&self.state).is_break() {
                    stop = Some(Stop::Asked);
                }
            }
            if stop.is_none() && count == BATCHES {
                run.join();
            }
        }
        engine.check_balance()?;
        let count = run.batches.len();
        let cut = if self.detects() { run.warm_up() } else { Some(0) };
        let cut = cut.unwrap_or_else(|| {
            warnings.push("the warm-up was not over: the first half of the run is left out, and what is given may drift".into());
            count / 2
        });
        if count == cut {
            return Err(self.too_short());
        }
        let warm_up = origin + run.width * (cut * WINDOWS) as f64;
        let sample = Sample::batches(&run.batches[cut..], self.settings.level);
        let timeline: Vec<&Tally> = run.batches.iter().collect();
        self.result(&sample, origin, &timeline, warm_up, stop, warnings)
    }

    fn replications(&mut self, length: Seconds, mut each: Option<EachVisit<'_>>) -> Result<Simulated, Error> {
        let origin = self.fixed_warm_up();
        let width = (length - origin) / (BATCHES * WINDOWS) as f64;
        let mut pilot = Pilot::default();
        let (mut samples, mut timeline): (Vec<Tally>, Vec<Tally>) = (Vec::new(), Vec::new());
        let mut stop = None;
        while stop.is_none() {
            let rows = each.as_mut().map(|each| Rows::new(self.network, &mut **each));
            let mut engine =
                Engine::new(self.network, self.settings.seed, self.state.replications as u64, rows)?;
            let before = self.state;
            let mut run = self.start(width, origin);
            stop = self.run_to(&mut engine, origin, before)?;
            engine.cut(origin);
            while stop.is_none() && run.batches.len() < BATCHES {
                stop = self.batch(&mut run, &mut engine, before)?;
            }
            engine.check_balance()?;
            if stop.is_some() {
                break; // a replication that was cut short is none
            }
            self.state.replications += 1;
            if timeline.is_empty() {
                timeline.clone_from(&run.batches);
            } else {
                timeline.iter_mut().zip(&run.batches).for_each(|(into, from)| into.add(from));
            }
            if let Some(cut) = pilot.cut {
                samples.extend(Tally::sum(&run.batches[cut..]));
            } else {
                pilot.add(run);
                if self.state.replications == FEWEST_REPLICATIONS {
                    samples = pilot.finish(self.detects());
                }
            }
            if !samples.is_empty() {
                let sample = Sample::replications(&samples, self.settings.level);
                self.state.precision = sample.precision(self.network.classes.len());
                let enough = self.state.precision.is_some_and(|reached| reached <= self.settings.precision);
                stop = enough.then_some(Stop::Precise);
            }
            if stop.is_none() && samples.len() == MOST_REPLICATIONS {
                stop = Some(Stop::Events);
            }
            if stop.is_none() && (self.progress)(&self.state).is_break() {
                stop = Some(Stop::Asked);
            }
        }
        if pilot.cut.is_none() {
            samples = pilot.finish(self.detects());
        }
        if samples.is_empty() {
            return Err(self.too_short());
        }
        let drifts = pilot
            .drifts
            .then(|| "the warm-up was not over after half of a replication: make them longer".to_owned());
        let warm_up = origin + width * (pilot.cut.unwrap_or(0) * WINDOWS) as f64;
        let sample = Sample::replications(&samples, self.settings.level);
        let timeline: Vec<&Tally> = timeline.iter().collect();
        self.result(&sample, origin, &timeline, warm_up, stop, drifts.into_iter().collect())
    }

    fn result(
        &self,
        sample: &Sample<'_>,
        origin: Seconds,
        timeline: &[&Tally],
        warm_up: Seconds,
        stop: Option<Stop>,
        warnings: Vec<String>,
    ) -> Result<Simulated, Error> {
        let stop = stop.unwrap_or(Stop::Events);
        let mut simulated = result::read(self.network, self.settings, sample)?;
        simulated.events = self.state.events;
        simulated.time = self.state.time;
        simulated.warm_up = warm_up;
        simulated.stop = stop;
        simulated.warnings.splice(0..0, warnings);
        if stop != Stop::Precise && self.settings.precision > 0.0 {
            let reached = self.state.precision.map_or("an unknown".into(), |p| format!("{:.2} %", p * 100.0));
            simulated.warnings.push(format!(
                "stopped {} at {reached} relative half width; {:.2} % were asked for",
                if stop == Stop::Events { "after the most events allowed" } else { "on request" },
                self.settings.precision * 100.0
            ));
        }
        simulated.timeline = result::timeline(timeline, origin, sample.replicated().unwrap_or(1));
        Ok(simulated)
    }

    fn too_short(&self) -> Error {
        Error::invalid(
            "simulation",
            format!("saw nothing after its warm-up in {} events", self.state.events),
            "allow more events",
        )
    }
}

/// Open classes alone must not ask a station for more than it can do.
fn check_load(network: &Network) -> Result<(), Error> {
    let demands = network.demands();
    for (place, station) in network.stations.iter().enumerate() {
        let offered: f64 = network
            .classes
            .iter()
            .zip(&demands)
            .filter_map(|(class, demands)| Some(class.rate()? * demands[place].seconds))
            .sum();
        let utilization = offered / most_speed(&station.kind);
        if utilization >= 1.0 {
            return Err(Error::Unstable { station: station.name.clone(), utilization });
        }
    }
    Ok(())
}

fn most_speed(kind: &Kind) -> f64 {
    match kind {
        Kind::Servers { count } => f64::from(*count),
        Kind::Delay => f64::INFINITY,
        Kind::LoadDependent { rates } => rates.last().copied().unwrap_or(1.0),
        Kind::Link { .. } => 1.0,
    }
}

/// About how many requests per second there will be: no more than stations can do, no more than clients ask for.
fn expected_rate(network: &Network) -> Result<f64, Error> {
    let mut sum = 0.0;
    for (class, demands) in network.classes.iter().zip(network.demands()) {
        let total: f64 = demands.iter().map(|demand| demand.seconds).sum();
        sum += match &class.workload {
            Workload::Open { .. } => class.rate().unwrap_or(0.0),
            Workload::Closed { population, .. } => {
                let once = total + class.think();
                if once <= 0.0 {
                    return Err(Error::invalid(
                        format!("class `{}`", class.name),
                        "takes no time at all: simulated time would stand still",
                        "give it a think time or a service time above 0",
                    ));
                }
                let bounds = demands.iter().zip(&network.stations).filter(|(demand, _)| demand.seconds > 0.0);
                let bound = bounds.map(|(demand, station)| most_speed(&station.kind) / demand.seconds);
                bound.fold(*population as f64 / once, f64::min)
            }
        };
    }
    Ok(sum)
}
