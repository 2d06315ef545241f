//! The course of a simulation: windows and batches, the end of the warm-up, and when it is enough.
//!
//! A run that ended as soon as its interval is narrow would end early whenever it happens to look
//! calm: its mean would be too low and its interval too narrow. So its length is fixed before what
//! counts begins:
//!
//! ```text
//! ├─ warm-up ─┼─ pilot: looked at at fixed checkpoints ─┼─ what counts: as long as the pilot says ─┤
//!              two in a row know X and R to 2.5 times   not looked at before its end; a quarter or
//!              the half width asked for                 more is added if it is not narrow enough
//! ```
//!
//! The length is what the two checkpoints expect to be needed, the longer of both, and a fifth
//! more; then more is added about one time in four.

use std::ops::{ControlFlow, Range};

use krarup_stats::StatsError;
use krarup_stats::steady::{WarmUp, mser5};
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use super::engine::{Pause, SimulationEngine};
use super::result::{self, Simulated, StopReason};
use super::rows::{EachVisit, RowGatherer};
use super::sample::Sample;
use super::settings::{MOST_REPLICATIONS, Runs, SimulationProgress, SimulationSettings, WarmUpRule};
use super::tally::{ClassTally, IntervalTally};
use crate::limits::extremes;
use crate::network::{ClassWorkload, FeatureKind, Network, StationId, StationKind, Step, Work};
use crate::{Error, laws};

/// Batches of a pilot at most, and of what is planned; when there are so many, neighbours are
/// joined.
const BATCHES: usize = 64;
/// Batches of a whole run at most.
const MOST_BATCHES: usize = 2 * BATCHES;
/// A pilot ends when half widths are at most so many times those asked for: after a sixth of the
/// length that is needed.
const PILOT_WIDTH: f64 = 2.5;
/// What counts is so much longer than the pilot expects to be needed.
const SPARE: f64 = 1.2;
/// Windows in a batch: warm-up is looked for at this resolution.
const WINDOWS: usize = 16;
/// Fewer batches than this are not looked at.
const FEWEST: usize = 20;
/// In fewer windows than this [`mser5`] does not look for the end of a warm-up.
const FEWEST_WINDOWS: usize = 50;
/// Requests that are expected in the first windows.
const REQUESTS: f64 = 16.0;
/// Fewer replications than this are not looked at; the warm-up is looked for in the average of
/// these.
const FEWEST_REPLICATIONS: usize = 10;
/// Batches of the first replications that are kept as one.
const COARSE: usize = 4;
/// Progress is told at least each so many events.
const TELL: u64 = 1 << 20;

/// A simulation under way.
pub(super) struct Course<'a> {
    network: &'a Network,
    settings: &'a SimulationSettings,
    progress: &'a mut dyn FnMut(&SimulationProgress) -> ControlFlow<()>,
    /// Requests per second that may be expected.
    rate: f64,
    time_varying: bool,
    state: SimulationProgress,
}

/// Simulated time that counts in no estimate: before `origin` nothing is looked at.
#[derive(Clone, Copy)]
struct LeftOut {
    origin: Seconds,
    /// From the beginning, and after it.
    warm_up: Seconds,
    pilot: Seconds,
}

/// One run, cut into windows and batches.
struct Run {
    batches: Vec<IntervalTally>,
    /// For each class.
    series: Vec<Series>,
    /// Length of a window, and where the first begins.
    width: Seconds,
    origin: Seconds,
}

/// What the warm-up of a class is looked for in: one value per window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Series {
    /// Completions, of a closed class. Of an open one the area under way, which begins at nothing:
    /// what is too high at its beginning is no warm-up but a burst, and to cut those off would make
    /// every queue shorter than it is.
    closed: bool,
    values: Vec<f64>,
}

/// One replication.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CountedRun {
    /// From zero.
    pub(super) number: usize,
    pub(super) events: u64,
    /// Simulated seconds.
    pub(super) time: Seconds,
    pub(super) batches: Vec<IntervalTally>,
    /// In what the warm-up is looked for; empty beyond the first replications.
    pub(super) series: Vec<Series>,
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

    /// A warning where the end of the warm-up was not found, and half of the batches are left out.
    fn drift(&self) -> String {
        if self.series.iter().all(|series| series.values.len() >= FEWEST_WINDOWS) {
            return "the warm-up was not over: the first half of the run is left out, and what is given may drift".into();
        }
        let left_out = if self.batches.len() < 2 { "nothing" } else { "its first half" };
        format!("the run is too short to see whether its warm-up was over; {left_out} is left out")
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

/// How long what counts has to be, from what a pilot knew at its checkpoints. Lengths are in any
/// unit.
#[derive(Default)]
struct Plan {
    /// What the checkpoint before expects to be needed, if it knew enough.
    last: Option<f64>,
}

impl Plan {
    /// A checkpoint knows X and R to `reached` from `length`. Two in a row that know enough give a
    /// length: the longer that they expect.
    fn checkpoint(&mut self, length: f64, reached: Option<f64>, precision: f64) -> Option<f64> {
        let needed = reached
            .filter(|reached| precision > 0.0 && *reached <= PILOT_WIDTH * precision)
            .map(|reached| length * (reached / precision).powi(2));
        let before = std::mem::replace(&mut self.last, needed);
        Some(SPARE * before?.max(needed?))
    }

    /// How much to add to a `length` that knows X and R to `reached` only: at least a quarter, at
    /// most as much again.
    fn more(length: usize, reached: Option<f64>, precision: f64) -> usize {
        let times = reached.map_or(2.0, |reached| 1.1 * (reached / precision).powi(2));
        (length as f64 * (times - 1.0).clamp(0.25, 1.0)).ceil() as usize
    }
}

/// The first replications, in whose average the end of the warm-up is looked for. All replications
/// are then cut there: cutting each where it suits itself would cut off busy beginnings and keep
/// idle ones, which bends the mean.
#[derive(Default)]
struct First {
    runs: Vec<Run>,
    /// Batches to leave out, once it is known.
    cut: Option<usize>,
    /// The warm-up was not over in half of the length.
    drifts: bool,
}

impl First {
    /// Adds a replication. Four batches are kept as one, to keep memory small.
    fn add(&mut self, mut run: Run) {
        run.batches = run.batches.chunks(COARSE).filter_map(IntervalTally::sum).collect();
        self.runs.push(run);
    }

    /// Finds the cut, and gives what the replications counted after it.
    fn finish(&mut self, detect: bool) -> Vec<IntervalTally> {
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
        let cut = windows.map_or(BATCHES / COARSE / 2, |windows| windows.div_ceil(WINDOWS * COARSE));
        self.cut = Some(cut * COARSE);
        self.runs.drain(..).filter_map(|run| IntervalTally::sum(&run.batches[cut..])).collect()
    }

    /// A warning where the warm-up was not over.
    fn drift(&self) -> Vec<String> {
        let warning = "the warm-up was not over after half of a replication: make them longer";
        self.drifts.then(|| warning.to_owned()).into_iter().collect()
    }
}

impl<'a> Course<'a> {
    pub(super) fn new(
        network: &'a Network,
        settings: &'a SimulationSettings,
        progress: &'a mut dyn FnMut(&SimulationProgress) -> ControlFlow<()>,
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
        let state = SimulationProgress {
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
            Runs::Replications { length } => self.replications(length, MOST_REPLICATIONS, each),
            Runs::Counted { length, count } => {
                let runs = self.counted(0..count, length, each)?;
                self.together(runs, length)
            }
        }
    }

    /// Runs the engine to a time; `Some` is why it stopped before.
    fn run_to(
        &mut self,
        engine: &mut SimulationEngine<'_>,
        time: Seconds,
        before: SimulationProgress,
    ) -> Result<Option<StopReason>, Error> {
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
                return Ok(Some(StopReason::Events));
            }
            if (self.progress)(&self.state).is_break() {
                return Ok(Some(StopReason::Asked));
            }
        }
    }

    /// Runs for one more batch; `Some` is why it stopped before its end.
    fn batch(
        &mut self,
        run: &mut Run,
        engine: &mut SimulationEngine<'_>,
        before: SimulationProgress,
    ) -> Result<Option<StopReason>, Error> {
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
        let rows = each.map(|each| RowGatherer::new(self.network, 0.0, each));
        let mut engine = SimulationEngine::new(self.network, self.settings.seed, 0, rows)?;
        let before = self.state;
        let origin = self.fixed_warm_up();
        let mut run = self.start(REQUESTS / self.rate, origin);
        let mut stop = self.run_to(&mut engine, origin, before)?;
        engine.cut(origin);
        let mut warnings = Vec::new();
        let mut plan = Plan::default();
        // The batches that count, and the warm-up before the pilot, once they are planned.
        let mut planned: Option<(Range<usize>, Seconds)> = None;
        while stop.is_none() {
            stop = self.batch(&mut run, &mut engine, before)?;
            let count = run.batches.len();
            if stop.is_some() {
                break;
            }
            if let Some((counts, _)) = &mut planned {
                if count == counts.end {
                    let reached =
                        self.reached(&Sample::batches(&run.batches[counts.clone()], self.settings.level));
                    if reached.is_some_and(|reached| reached <= self.settings.precision) {
                        stop = Some(StopReason::Precise);
                        break;
                    }
                    // Even, so that all batches find a partner.
                    let more = Plan::more(counts.len(), reached, self.settings.precision).next_multiple_of(2);
                    counts.end = (count + more).next_multiple_of(2);
                    while counts.end > MOST_BATCHES && run.batches.len().is_multiple_of(2) {
                        run.join();
                        *counts = counts.start.div_ceil(2)..counts.end.div_ceil(2);
                    }
                }
            } else if count >= BATCHES / 2 && count.is_multiple_of(BATCHES / 4) {
                let cut = if self.detects() { run.warm_up() } else { Some(0) };
                let known = cut.filter(|cut| count - cut >= FEWEST);
                let reached = known.and_then(|cut| {
                    self.reached(&Sample::batches(&run.batches[cut..], self.settings.level).pilot())
                });
                let length = (count - known.unwrap_or(0)) as f64;
                let time = run.width * WINDOWS as f64;
                let length = plan.checkpoint(length * time, reached, self.settings.precision);
                if let Some(length) = length {
                    let warm_up = origin + known.unwrap_or(0) as f64 * time;
                    let mut batches = ((length / time).ceil() as usize).max(BATCHES / 2);
                    while batches > BATCHES && run.batches.len().is_multiple_of(2) {
                        run.join();
                        batches = batches.div_ceil(2);
                    }
                    let begin = run.batches.len();
                    planned = Some((begin..(begin + batches).next_multiple_of(2), warm_up));
                } else if count == BATCHES {
                    run.join();
                }
            }
            if count.is_multiple_of(BATCHES / 8) && (self.progress)(&self.state).is_break() {
                stop = Some(StopReason::Asked);
            }
        }
        engine.check_balance()?;
        let time = run.width * WINDOWS as f64;
        let (first, left_out) = match planned.filter(|_| stop == Some(StopReason::Precise)) {
            Some((counts, warm_up)) => {
                let pilot = origin + counts.start as f64 * time - warm_up;
                (counts.start, LeftOut { origin, warm_up, pilot })
            }
            // Cut short: all that was seen counts.
            None => {
                let cut = if self.detects() { run.warm_up() } else { Some(0) };
                let cut = cut.unwrap_or_else(|| {
                    warnings.push(run.drift());
                    run.batches.len() / 2
                });
                (cut, LeftOut { origin, warm_up: origin + cut as f64 * time, pilot: 0.0 })
            }
        };
        if run.batches.len() == first {
            return Err(self.too_short());
        }
        let sample = Sample::batches(&run.batches[first..], self.settings.level);
        let timeline: Vec<&IntervalTally> = run.batches.iter().collect();
        self.result(&sample, left_out, &timeline, stop, warnings)
    }

    /// How well a sample knows X and R, which is told as progress, too.
    fn reached(&mut self, sample: &Sample<'_>) -> Option<f64> {
        self.state.precision = sample.precision(self.network.classes.len());
        self.state.precision
    }

    /// The length of a window in a replication.
    fn width(&self, length: Seconds) -> Seconds {
        (length - self.fixed_warm_up()) / (BATCHES * WINDOWS) as f64
    }

    /// The replication of this number; `Some` is why it stopped before its end.
    fn replication(
        &mut self,
        number: u64,
        length: Seconds,
        each: Option<EachVisit<'_>>,
    ) -> Result<(Run, Option<StopReason>), Error> {
        let origin = self.fixed_warm_up();
        let rows = each.map(|each| RowGatherer::new(self.network, number as f64 * length, each));
        let mut engine = SimulationEngine::new(self.network, self.settings.seed, number, rows)?;
        let before = self.state;
        let mut run = self.start(self.width(length), origin);
        let mut stop = self.run_to(&mut engine, origin, before)?;
        engine.cut(origin);
        while stop.is_none() && run.batches.len() < BATCHES {
            stop = self.batch(&mut run, &mut engine, before)?;
        }
        engine.check_balance()?;
        if stop.is_none() {
            self.state.replications += 1;
        }
        Ok((run, stop))
    }

    /// These replications, as many as were asked for in all, each by itself.
    pub(super) fn counted(
        &mut self,
        numbers: Range<usize>,
        length: Seconds,
        mut each: Option<EachVisit<'_>>,
    ) -> Result<Vec<CountedRun>, Error> {
        let mut runs = Vec::with_capacity(numbers.len());
        for number in numbers {
            let (events, time) = (self.state.events, self.state.time);
            let (run, stop) =
                self.replication(number as u64, length, each.as_mut().map(|each| &mut **each as _))?;
            let asked = stop.is_none() && (self.progress)(&self.state).is_break();
            match stop {
                Some(StopReason::Events) => {
                    let why =
                        format!("replication {} was not over after {} events", number + 1, self.state.events);
                    return Err(Error::invalid("max_events", why, "allow more"));
                }
                _ if asked || stop.is_some() => return Err(Error::Stopped),
                _ => {}
            }
            runs.push(CountedRun {
                number,
                events: self.state.events - events,
                time: self.state.time - time,
                batches: run.batches.chunks(COARSE).filter_map(IntervalTally::sum).collect(),
                series: if number < FEWEST_REPLICATIONS { run.series } else { Vec::new() },
            });
        }
        Ok(runs)
    }

    /// What all replications say together: `runs` are in the order of their numbers, from the
    /// first.
    pub(super) fn together(&mut self, runs: Vec<CountedRun>, length: Seconds) -> Result<Simulated, Error> {
        let (origin, width) = (self.fixed_warm_up(), self.width(length));
        self.state = SimulationProgress { replications: runs.len(), events: 0, time: 0.0, ..self.state };
        let mut timeline: Vec<IntervalTally> = Vec::new();
        let (mut first, mut rest) = (First::default(), Vec::new());
        for run in runs {
            (self.state.events, self.state.time) =
                (self.state.events + run.events, self.state.time + run.time);
            if timeline.is_empty() {
                timeline.clone_from(&run.batches);
            } else {
                timeline.iter_mut().zip(&run.batches).for_each(|(into, from)| into.add(from));
            }
            if run.number < FEWEST_REPLICATIONS {
                first.runs.push(Run { batches: run.batches, series: run.series, width, origin });
            } else {
                rest.push(run.batches);
            }
        }
        let mut samples = first.finish(self.detects());
        let cut = first.cut.unwrap_or(0);
        samples.extend(rest.iter().filter_map(|batches| IntervalTally::sum(&batches[cut / COARSE..])));
        if samples.is_empty() {
            return Err(self.too_short());
        }
        let sample = Sample::replications(&samples, 0, self.settings.level);
        let timeline: Vec<&IntervalTally> = timeline.iter().collect();
        let left_out = LeftOut { origin, warm_up: origin + width * (cut * WINDOWS) as f64, pilot: 0.0 };
        self.result(&sample, left_out, &timeline, Some(StopReason::Counted), first.drift())
    }

    /// Replications until they know enough, `most` of them.
    fn replications(
        &mut self,
        length: Seconds,
        most: usize,
        mut each: Option<EachVisit<'_>>,
    ) -> Result<Simulated, Error> {
        let origin = self.fixed_warm_up();
        let width = self.width(length);
        let mut first = First::default();
        let mut plan = Plan::default();
        let mut checkpoint = FEWEST_REPLICATIONS;
        let mut counts: Option<Range<usize>> = None;
        let (mut samples, mut timeline): (Vec<IntervalTally>, Vec<IntervalTally>) = (Vec::new(), Vec::new());
        let mut stop = None;
        while stop.is_none() {
            let number = self.state.replications as u64;
            let (run, stopped) =
                self.replication(number, length, each.as_mut().map(|each| &mut **each as _))?;
            stop = stopped;
            if stop.is_some() {
                break; // a replication that was cut short is none
            }
            if timeline.is_empty() {
                timeline.clone_from(&run.batches);
            } else {
                timeline.iter_mut().zip(&run.batches).for_each(|(into, from)| into.add(from));
            }
            if let Some(cut) = first.cut {
                samples.extend(IntervalTally::sum(&run.batches[cut..]));
            } else {
                first.add(run);
                if self.state.replications == FEWEST_REPLICATIONS {
                    samples = first.finish(self.detects());
                }
            }
            let count = samples.len();
            if let Some(counts) = &mut counts {
                if count == counts.end {
                    let sample = Sample::replications(&samples, counts.start, self.settings.level);
                    let reached = self.reached(&sample);
                    if reached.is_some_and(|reached| reached <= self.settings.precision) {
                        stop = Some(StopReason::Precise);
                    } else {
                        counts.end += Plan::more(counts.len(), reached, self.settings.precision);
                    }
                }
            } else if count == checkpoint {
                checkpoint = checkpoint * 3 / 2;
                let reached = self.reached(&Sample::replications(&samples, 0, self.settings.level).pilot());
                let length = plan.checkpoint(count as f64, reached, self.settings.precision);
                counts = length.map(|length| count..count + FEWEST_REPLICATIONS.max(length.ceil() as usize));
            }
            if stop.is_none() && samples.len() == most {
                stop = Some(StopReason::Replications);
            }
            if stop.is_none() && (self.progress)(&self.state).is_break() {
                stop = Some(StopReason::Asked);
            }
        }
        if first.cut.is_none() {
            samples = first.finish(self.detects());
        }
        if samples.is_empty() {
            return Err(self.too_short());
        }
        let warm_up = origin + width * (first.cut.unwrap_or(0) * WINDOWS) as f64;
        // Cut short: all that was seen counts.
        let begin = counts.filter(|_| stop == Some(StopReason::Precise)).map_or(0, |counts| counts.start);
        let sample = Sample::replications(&samples, begin, self.settings.level);
        let timeline: Vec<&IntervalTally> = timeline.iter().collect();
        let left_out = LeftOut { origin, warm_up, pilot: begin as f64 * length };
        self.result(&sample, left_out, &timeline, stop, first.drift())
    }

    fn result(
        &mut self,
        sample: &Sample<'_>,
        left_out: LeftOut,
        timeline: &[&IntervalTally],
        stop: Option<StopReason>,
        warnings: Vec<String>,
    ) -> Result<Simulated, Error> {
        let stop = stop.unwrap_or(StopReason::Events);
        let mut simulated = result::read(self.network, self.settings, sample)?;
        simulated.events = self.state.events;
        simulated.time = self.state.time;
        (simulated.warm_up, simulated.pilot) = (left_out.warm_up, left_out.pilot);
        simulated.stop = stop;
        simulated.warnings.splice(0..0, warnings);
        let reached = self.reached(sample);
        let narrow = reached.is_some_and(|reached| reached <= self.settings.precision);
        if !narrow && self.settings.precision > 0.0 && stop != StopReason::Counted {
            let reached = reached.map_or("an unknown".into(), |p| format!("{:.2} %", p * 100.0));
            let when = match stop {
                StopReason::Events => "after the most events allowed",
                StopReason::Replications => "after the most replications that are made (make them longer)",
                _ => "on request",
            };
            simulated.warnings.push(format!(
                "stopped {when} at {reached} relative half width; {:.2} % were asked for",
                self.settings.precision * 100.0
            ));
        }
        simulated.timeline = result::timeline(timeline, left_out.origin, simulated.replications);
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

/// Open classes alone must not ask a station, or a pool, for more than it can do.
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
        laws::stability(&station.name, utilization, utilization)?;
    }
    let mut held = vec![0.0; network.pools.len()];
    for class in &network.classes {
        fewest_present(network, &class.path, class.rate().unwrap_or(0.0), &mut held);
    }
    for (pool, held) in network.pools.iter().zip(held) {
        let utilization = held / f64::from(pool.size);
        laws::stability(&pool.name, utilization, utilization)?;
    }
    Ok(())
}

/// Requests on a path that is walked at this rate, where none of them ever waits: Little's law over
/// the shortest time there. Those on the path inside of a hold are added to what its pool holds.
fn fewest_present(network: &Network, path: &[Step], rate: f64, held: &mut [f64]) -> f64 {
    let alone = |station: StationId, work: &Work| {
        let there = &network.stations[station.0];
        let (_, least) = extremes(&there.kind);
        there.service(work) * least
    };
    let mut present = 0.0;
    for step in path {
        present += match step {
            Step::Visit(visit) => rate * visit.count * alone(visit.station, &visit.work),
            // The last of all copies takes as long as any of them.
            Step::Fork(fork) if fork.wait.needed(fork.choose) == fork.choose => {
                let times: f64 = fork.stations.iter().map(|station| alone(*station, &fork.work)).sum();
                rate * times / fork.stations.len() as f64
            }
            Step::Fork(_) => 0.0,
            Step::OneOf { branches } => {
                let total: f64 = branches.iter().map(|branch| branch.share).sum();
                let mut present = 0.0;
                for branch in branches {
                    present += fewest_present(network, &branch.path, rate * branch.share / total, held);
                }
                present
            }
            Step::Hold { pool, path } => {
                let inside = fewest_present(network, path, rate, held);
                held[pool.0] += inside;
                inside
            }
        };
    }
    present
}

fn most_speed(kind: &StationKind) -> f64 {
    match kind {
        StationKind::Servers { count } => f64::from(*count),
        StationKind::Delay => f64::INFINITY,
        StationKind::LoadDependent { rates } => rates.last().copied().unwrap_or(1.0),
        StationKind::Link { .. } => 1.0,
    }
}

/// About how many requests per second there will be: no more than stations can do, no more than
/// clients ask for.
fn expected_rate(network: &Network) -> Result<f64, Error> {
    let mut sum = 0.0;
    for (class, demands) in network.classes.iter().zip(network.demands()) {
        let total: f64 = demands.iter().map(|demand| demand.seconds).sum();
        sum += match &class.workload {
            ClassWorkload::Open { .. } => class.rate().unwrap_or(0.0),
            ClassWorkload::Closed { population, .. } => {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_checkpoints_in_a_row_have_to_agree_that_enough_is_known() {
        let mut plan = Plan::default();
        let precision = 0.02;
        for (length, reached) in [(32.0, Some(0.04)), (48.0, Some(0.06)), (64.0, Some(0.05)), (96.0, None)] {
            assert_eq!(plan.checkpoint(length, reached, precision), None, "{length}");
        }
        assert_eq!(plan.checkpoint(128.0, Some(0.04), precision), None);
        // They expect 512 and 96 to be needed.
        let length = plan.checkpoint(96.0, Some(0.02), precision);
        assert!(length.is_some_and(|length| (length - SPARE * 512.0).abs() < 1e-9), "{length:?}");
        assert_eq!(Plan::default().checkpoint(32.0, Some(0.0), 0.0), None, "0 is never");
    }

    /// The product is below 1 by a rounding, and such a run would go on until memory is full.
    #[test]
    fn a_station_that_is_always_busy_is_refused() {
        let network = crate::form::from_toml(
            r#"station = [{ name = "db" }]
               class = [{ name = "c", rate = 1250, path = [{ at = "db", service = "800 us" }] }]"#,
        )
        .unwrap();
        let mut progress = |_: &SimulationProgress| ControlFlow::Continue(());
        let error = Course::new(&network, &SimulationSettings::default(), &mut progress).err();
        assert!(matches!(error, Some(Error::Unstable { .. })), "{error:?}");
    }

    #[test]
    fn the_most_replications_are_no_limit_of_events() {
        let network = crate::form::from_toml(
            r#"station = [{ name = "db" }]
               class = [{ name = "c", rate = 0.5, path = [{ at = "db", service = 1 }] }]"#,
        )
        .unwrap();
        let settings = SimulationSettings {
            precision: 1e-6,
            runs: Runs::Replications { length: 200.0 },
            ..SimulationSettings::default()
        };
        let mut progress = |_: &SimulationProgress| ControlFlow::Continue(());
        let mut course = Course::new(&network, &settings, &mut progress).unwrap();
        let simulated = course.replications(200.0, 12, None).unwrap();
        assert_eq!((simulated.stop, simulated.replications), (StopReason::Replications, 12));
        let told = simulated.warnings.iter().any(|warning| warning.contains("the most replications"));
        assert!(told, "{:?}", simulated.warnings);
    }

    #[test]
    fn what_is_not_narrow_enough_gets_a_quarter_more_at_least() {
        assert_eq!(Plan::more(64, Some(0.0201), 0.02), 16);
        assert_eq!(Plan::more(64, Some(0.024), 0.02), 38);
        assert_eq!(Plan::more(64, Some(0.1), 0.02), 64);
        assert_eq!(Plan::more(64, None, 0.02), 64);
    }
}
