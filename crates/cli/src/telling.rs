//! How far an experiment is, for the user: a bar on a terminal, else lines.

use std::fmt::{Display, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use krarup_lab::campaign::{CampaignEvent, CampaignProgress};
use krarup_lab::plan::run_name;
use krarup_lab::testbed::stations::LoadSeconds;
use krarup_net::snapshots::lock;
use krarup_units::Seconds;
use krarup_units::text::{count, duration};

use crate::output;

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
    shown: Arc<Mutex<ShownTrial>>,
    /// What the last complete trial gave.
    last: String,
    /// Whether it was said that others use the machine.
    disturbed: bool,
}

/// What stands beside the bar.
#[derive(Default)]
struct ShownTrial {
    /// Its cell, or what the trial that ended gave.
    what: String,
    /// Which repetition: `, run 1`.
    run: String,
    /// What the trial before gave.
    before: String,
    /// When all is expected to be done.
    end: Option<Instant>,
}

impl ShownTrial {
    /// In one line of at most `width` letters: how far it is, the trial, what it gives `now`, what
    /// the one before gave, and how long all takes. What does not fit is left out: first the trial
    /// before, then the end of the cell's name.
    fn line(&self, (done, all): (u64, u64), now: &str, width: usize) -> String {
        let left = self.end.map(|end| end.saturating_duration_since(Instant::now()).as_secs_f64());
        let left = left.map_or(String::new(), |left| format!(", {}", in_words(left)));
        let line = |what: &str, before: &str| format!("{done}/{all} {what}{}{now}{before}{left}", self.run);
        let letters = |line: &str| line.chars().count();
        let whole = [line(&self.what, &self.before), line(&self.what, "")];
        if let Some(fitting) = whole.into_iter().find(|line| letters(line) <= width) {
            return fitting;
        }
        let room = width.saturating_sub(letters(&line("…", "")));
        let what: String = self.what.chars().take(room).collect();
        line(&format!("{what}…"), "").chars().take(width).collect()
    }
}

/// What the load generators that run say of their last second, scaled back from a testbed that is
/// so many times `slower`: `: 204/s, 2.19 ms`; nothing before each has said something.
fn now(lines: &[String], slower: f64) -> String {
    let read = |line: &String| serde_json::from_str::<serde_json::Value>(line).ok();
    let Some(seconds) = lines.iter().map(read).collect::<Option<Vec<_>>>() else { return String::new() };
    if seconds.iter().any(|second| second["phase"] != "run") {
        return ": populating".to_owned();
    }
    let value = |second: &serde_json::Value, name: &str| second["second"][name].as_f64().unwrap_or(0.0);
    let rate: f64 = seconds.iter().map(|second| value(second, "throughput")).sum();
    let weighted: f64 =
        seconds.iter().map(|second| value(second, "throughput") * value(second, "mean")).sum();
    if rate > 0.0 {
        format!(": {}/s, {}", count(rate * slower), duration(weighted / rate / slower))
    } else {
        String::new()
    }
}

/// How wide the bar is.
const BAR: usize = 16;

impl Telling {
    /// Begins; `seconds` is what the load generators tell while they run, on a testbed that is so
    /// many times `slower`.
    pub(crate) fn begin(planned: Seconds, seconds: LoadSeconds, slower: f64) -> Self {
        let shown = Arc::new(Mutex::new(ShownTrial::default()));
        let its = Arc::clone(&shown);
        let line = move |state: &ProgressState, out: &mut dyn Write| {
            let width = output::stderr_width().unwrap_or(80).saturating_sub(BAR + 1);
            let shown = lock(&its);
            let done = (state.pos(), state.len().unwrap_or(0));
            // A bar that cannot be drawn is no failure of the run.
            let _ = write!(out, "{}", shown.line(done, &now(&seconds.lines(), slower), width));
        };
        let bar = ProgressBar::new(0);
        bar.set_style(
            ProgressStyle::with_template(&format!("{{bar:{BAR}}} {{line}}"))
                .expect("the template is valid")
                .with_key("line", line),
        );
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self { bar, begun: Instant::now(), planned, shown, last: String::new(), disturbed: false }
    }

    /// Tells what happens; the trial that begins by it.
    pub(crate) fn tell(&mut self, event: &CampaignEvent<'_>) -> Option<RunningTrial> {
        match event {
            CampaignEvent::Begins(due, progress) => {
                let again =
                    if due.attempt > 0 { format!(", attempt {}", due.attempt + 1) } else { String::new() };
                let run = format!(", {}{again}", run_in_words(due.repetition));
                let trial = ShownTrial {
                    what: due.cell.name(),
                    run: run.clone(),
                    before: self.last.clone(),
                    end: None,
                };
                let left = self.line(*progress, trial);
                let what = format!("{}{run}{}", due.cell.name(), self.last);
                return Some(RunningTrial { number: progress.ended() + 1, all: progress.all, what, left });
            }
            CampaignEvent::Skipped(..) => {}
            CampaignEvent::Complete(_, manifest, progress) => {
                let (rate, response) = (count(manifest.throughput), duration(manifest.response));
                self.last = format!(" (before: {rate}/s, {response})");
                if let Some(why) = &manifest.disturbed {
                    self.disturbed(why, "kept, and marked");
                }
                if !self.bar.is_hidden() {
                    let what = format!("{rate}/s, {response}");
                    self.line(*progress, ShownTrial { what, ..ShownTrial::default() });
                }
            }
            CampaignEvent::Failed(due, why, again) => {
                let next = if *again { "; trying again" } else { "; given up" };
                let trial = format!("{}, {}", due.cell.name(), run_in_words(due.repetition));
                self.say(format_args!("{trial}: {why}{next}"));
            }
            CampaignEvent::Disturbed(_, why) => {
                self.disturbed(why, "run once more, then kept and marked; --keep-disturbed goes on without");
            }
        }
        None
    }

    /// Says something above the bar.
    pub(crate) fn say(&self, what: impl Display) {
        self.bar.suspend(|| eprintln!("{}", output::talk(what)));
    }

    /// What others did is said once; it is the same machine for all trials.
    fn disturbed(&mut self, why: &str, then: &str) {
        if !self.disturbed {
            self.say(format_args!("{why}: such trials are {then}"));
        }
        self.disturbed = true;
    }

    /// Shows it; how long all that is left takes.
    fn line(&self, progress: CampaignProgress, trial: ShownTrial) -> Seconds {
        let left = progress.estimate(self.begun.elapsed().as_secs_f64(), self.planned);
        if self.bar.is_hidden() {
            let ShownTrial { what, run, before, .. } = &trial;
            eprintln!("{}/{} {what}{run}{before}, {}", progress.ended() + 1, progress.all, in_words(left));
        } else {
            let end = Some(Instant::now() + Duration::from_secs_f64(left));
            *lock(&self.shown) = ShownTrial { end, ..trial };
            self.bar.set_length(progress.all as u64);
            self.bar.set_position(progress.ended() as u64);
            self.bar.tick();
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

#[cfg(test)]
mod tests {
    use krarup_lab::campaign::DueTrial;
    use krarup_lab::plan::Plan;
    use krarup_lab::shipped;
    use krarup_lab::spec::Spec;

    use super::*;

    fn second(phase: &str, throughput: f64, mean: f64) -> String {
        serde_json::json!({
            "of": { "seconds": 6.0 },
            "phase": phase,
            "second": { "throughput": throughput, "mean": mean },
        })
        .to_string()
    }

    #[test]
    fn the_trial_that_runs_shows_what_its_generators_say_together() {
        let both = [second("run", 300.0, 0.002), second("run", 100.0, 0.004)];
        assert_eq!(now(&both, 1.0), ": 400/s, 2.50 ms");
        assert_eq!(now(&both, 4.0), ": 1,600/s, 625 µs", "scaled back");
        assert_eq!(now(&[second("run", 300.0, 0.002), second("populate", 9.0, 0.1)], 1.0), ": populating");
        assert_eq!(now(&[second("run", 300.0, 0.002), String::new()], 1.0), "", "one has said nothing yet");
        assert_eq!(now(&[second("run", 0.0, 0.0)], 1.0), "");
    }

    #[test]
    fn a_trial_that_was_given_up_is_counted_as_one_that_ended() {
        let spec = Spec::parse(shipped::spec("demo").unwrap(), "demo").unwrap();
        let plan = Plan::of(&spec);
        let due = DueTrial { cell: &plan.cells[0], repetition: 0, attempt: 0 };
        let progress = CampaignProgress { done: 2, all: 8, complete: 2, given_up: 1 };
        let mut telling = Telling::begin(1.0, LoadSeconds::default(), 1.0);
        let running = telling.tell(&CampaignEvent::Begins(due, progress)).unwrap();
        telling.end();
        assert_eq!((running.number, running.all), (4, 8));
    }

    #[test]
    fn the_line_beside_the_bar_fits_the_terminal() {
        let shown = ShownTrial {
            what: "clients 8".into(),
            run: ", run 1".into(),
            before: " (before: 204/s, 2.19 ms)".into(),
            end: None,
        };
        let line = |width| shown.line((1, 4), ": 400/s, 2.50 ms", width);
        assert_eq!(line(80), "1/4 clients 8, run 1: 400/s, 2.50 ms (before: 204/s, 2.19 ms)");
        assert_eq!(line(40), "1/4 clients 8, run 1: 400/s, 2.50 ms");
        assert_eq!(line(30), "1/4 cl…, run 1: 400/s, 2.50 ms");
        for width in 1..80 {
            assert!(line(width).chars().count() <= width, "{}", line(width));
        }
    }
}
