//! How far an experiment is, for the user: a bar on a terminal, else lines.

use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use krarup_lab::campaign::{CampaignEvent, CampaignProgress};
use krarup_lab::plan::run_name;
use krarup_units::Seconds;
use krarup_units::text::{count, duration};

/// How long a user has to wait: in minutes, or in hours, where seconds say nothing any more.
pub(crate) fn wait(seconds: Seconds) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        0 | 1 => duration(seconds),
        2..60 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

/// `run 2`, or `anchor-0-1`.
pub(crate) fn run_in_words(repetition: u32) -> String {
    let name = run_name(repetition);
    name.parse::<u32>().map_or(name, |number| format!("run {}", number + 1))
}

/// A trial that runs now.
pub(crate) struct RunningTrial {
    /// Which of them, from 1.
    pub(crate) number: usize,
    /// How many are known to be needed.
    pub(crate) all: usize,
    /// Its cell and repetition, and what the trial before gave.
    pub(crate) what: String,
    /// About how long all that is left takes.
    pub(crate) left: Seconds,
}

/// Tells how far it is: a bar on a terminal, else lines.
pub(crate) struct Telling {
    bar: ProgressBar,
    begun: Instant,
    /// How long a trial is planned to take.
    planned: Seconds,
    /// When all is expected to be done.
    end: Arc<Mutex<Option<Instant>>>,
    /// What the last complete trial gave.
    last: String,
    /// Whether it was said that others use the machine.
    disturbed: bool,
}

impl Telling {
    pub(crate) fn begin(planned: Seconds) -> Self {
        let end = Arc::new(Mutex::new(None::<Instant>));
        let shown = Arc::clone(&end);
        let left = move |_: &ProgressState, out: &mut dyn Write| {
            let end = shown.lock().ok().and_then(|end| *end);
            let left = end.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64());
            // A bar that cannot be drawn is no failure of the run.
            let _ = left.map_or(Ok(()), |left| write!(out, ", {}", in_words(left)));
        };
        let bar = ProgressBar::new(0);
        bar.set_style(
            ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}{left}")
                .expect("the template is valid")
                .with_key("left", left),
        );
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self { bar, begun: Instant::now(), planned, end, last: String::new(), disturbed: false }
    }

    /// Tells what happens; the trial that begins by it.
    pub(crate) fn tell(&mut self, event: &CampaignEvent<'_>) -> Option<RunningTrial> {
        match event {
            CampaignEvent::Begins(due, progress) => {
                let again =
                    if due.attempt > 0 { format!(", attempt {}", due.attempt + 1) } else { String::new() };
                let what =
                    format!("{}, {}{again}{}", due.cell.name(), run_in_words(due.repetition), self.last);
                let left = self.line(*progress, &what);
                return Some(RunningTrial { number: progress.done + 1, all: progress.all, what, left });
            }
            CampaignEvent::Skipped(..) => {}
            CampaignEvent::Complete(_, manifest, progress) => {
                let (rate, response) = (count(manifest.throughput.round()), duration(manifest.response));
                self.last = format!(" (before: {rate}/s, {response})");
                if let Some(why) = &manifest.disturbed {
                    self.disturbed(why, "kept, and marked");
                }
                if !self.bar.is_hidden() {
                    self.line(*progress, &format!("{rate}/s, {response}"));
                }
            }
            CampaignEvent::Failed(due, why, again) => {
                let next = if *again { "; trying again" } else { "; given up" };
                self.bar.suspend(|| {
                    eprintln!("{}, {}: {why}{next}", due.cell.name(), run_in_words(due.repetition));
                });
            }
            CampaignEvent::Disturbed(_, why) => {
                self.disturbed(why, "run once more, then kept and marked; --keep-disturbed goes on without");
            }
        }
        None
    }

    /// What others did is said once; it is the same machine for all trials.
    fn disturbed(&mut self, why: &str, then: &str) {
        if !self.disturbed {
            self.bar.suspend(|| eprintln!("{why}: such trials are {then}"));
        }
        self.disturbed = true;
    }

    /// Shows it; how long all that is left takes.
    fn line(&self, progress: CampaignProgress, what: &str) -> Seconds {
        let left = progress.estimate(self.begun.elapsed().as_secs_f64(), self.planned);
        if let Ok(mut end) = self.end.lock() {
            *end = Some(Instant::now() + Duration::from_secs_f64(left));
        }
        if self.bar.is_hidden() {
            eprintln!("{}/{} {what}, {}", progress.done + 1, progress.all, in_words(left));
        } else {
            self.bar.set_length(progress.all as u64);
            self.bar.set_position(progress.done as u64);
            self.bar.set_message(what.to_owned());
        }
        left
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// `about 12 s left`.
pub(crate) fn in_words(left: Seconds) -> String {
    if left < 90.0 { format!("about {left:.0} s left") } else { format!("about {} left", wait(left)) }
}
