//! What a quota of processor time really gives: a busy loop under it, for a second, before the
//! first trial.
//!
//! The kernel hands a quota out in slices, takes back what is left at the end of a period, and
//! throttles at a tick: what a station gets is some percent beside what was written. So it is
//! measured, and the quota corrected once. Where the loop did not use its quota up in most periods,
//! others kept it from the processors, and nothing is said.

use std::fmt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use krarup_units::Nanos;
use serde::{Deserialize, Serialize};

use super::cap::{Cap, LEAST, Throttled};
use super::error::StationError;
use crate::ledger::Ledger;
use crate::platform::cpu_time;
use crate::waiting;

/// How long a busy loop runs: a hundred of the usual periods.
const SHORT: Duration = Duration::from_secs(1);
/// A quota that is used up in fewer than this share of its periods is not what bounds.
const BOUND: f64 = 0.8;
/// What is this near to what was asked for is left as it is.
const NEAR: f64 = 0.01;
/// A quota is not changed by more than this factor: what is further off is no rounding.
const MOST: f64 = 1.25;

/// What one busy loop got.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BusyLoopShare {
    /// Processors, the mean over its time.
    pub got: f64,
    /// The share of the periods in which the quota was used up.
    pub bound: f64,
}

impl BusyLoopShare {
    /// Whether it was the quota that stopped it.
    fn tells(self) -> bool {
        self.bound >= BOUND && self.got > 0.0
    }
}

/// What is known of a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitCalibration {
    /// The machine: `here`, or its name in an experiment on several.
    pub machine: String,
    /// Processors that were asked for.
    pub asked: f64,
    /// What a quota for so many gave; none where others kept the loop from the processors, or it
    /// could have more than there are.
    pub plain: Option<f64>,
    /// The processors for which the quota is written since.
    pub written: f64,
    /// What that gave; none as with `plain`.
    pub got: Option<f64>,
}

impl LimitCalibration {
    /// Whether it is of this limit on this machine.
    pub fn is_of(&self, machine: &str, cpu: Option<f64>) -> bool {
        self.machine == machine && cpu == Some(self.asked)
    }

    /// What a station gets, as far as it is known.
    pub fn gets(&self) -> f64 {
        self.got.unwrap_or(self.asked)
    }
}

impl fmt::Display for LimitCalibration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, asked, plain, written, got } = self;
        write!(f, "cpu = {} on {machine}: ", (asked * 1e3).round() / 1e3)?;
        match (plain, got) {
            (Some(plain), Some(got)) if written != asked => {
                write!(
                    f,
                    "a busy loop got {plain:.3} by its quota, and {got:.3} by one for {written:.3}, which is set"
                )
            }
            (Some(plain), _) => write!(f, "a busy loop got {plain:.3} by its quota"),
            (None, _) => write!(f, "what its quota gives could not be told"),
        }
    }
}

/// Finds the quota that gives what was asked for, by at most two runs of a busy loop.
///
/// # Errors
/// Those of `measure`.
pub fn calibrate<E>(
    machine: &str,
    asked: f64,
    mut measure: impl FnMut(f64) -> Result<BusyLoopShare, E>,
) -> Result<LimitCalibration, E> {
    let off = |got: f64| (got / asked - 1.0).abs();
    let mut found =
        LimitCalibration { machine: machine.to_owned(), asked, plain: None, written: asked, got: None };
    let plain = measure(asked)?;
    if !plain.tells() {
        return Ok(found);
    }
    (found.plain, found.got) = (Some(plain.got), Some(plain.got));
    if off(plain.got) <= NEAR {
        return Ok(found);
    }
    let written = (asked * (asked / plain.got).clamp(1.0 / MOST, MOST)).max(LEAST);
    let again = measure(written)?;
    if again.tells() && off(again.got) < off(plain.got) {
        (found.written, found.got) = (written, Some(again.got));
    }
    Ok(found)
}

/// The same on this machine.
///
/// # Errors
/// Where control groups are not there or not ours to make, with what to do.
pub fn calibrate_here(machine: &str, asked: f64, ledger: &Ledger) -> Result<LimitCalibration, StationError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    calibrate(machine, asked, |share| {
        let cap = Cap::new(share, ledger)?;
        // One more than the quota lets run all the time.
        let threads = (share.floor() as usize).saturating_add(1);
        if threads > cores {
            // Nothing can use it up. That it can be had at all is known now.
            return Ok(BusyLoopShare { got: share, bound: 0.0 });
        }
        spin(&cap, threads, ledger)
    })
}

/// Programs that do nothing, as fast as they can; they end with this value.
struct Loops(Vec<Child>);

impl Loops {
    fn used(&self) -> f64 {
        self.0.iter().filter_map(|one| cpu_time(one.id())).map(Nanos::as_seconds).sum()
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for one in &mut self.0 {
            let _ = one.kill();
            let _ = one.wait();
        }
    }
}

fn spin(cap: &Cap, count: usize, ledger: &Ledger) -> Result<BusyLoopShare, StationError> {
    let mut loops = Loops(Vec::new());
    for _ in 0..count {
        let child = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
        let child =
            child.map_err(|error| StationError::new("cpu", format!("`sh` cannot be started: {error}")))?;
        // It ends with the others, also where it cannot be held.
        let number = child.id();
        loops.0.push(child);
        ledger.note(number);
        cap.hold(number)?;
    }
    let (begun, before, used) = (Instant::now(), cap.throttled(), loops.used());
    waiting::blindly(SHORT);
    let (seconds, after, used) = (begun.elapsed().as_secs_f64(), cap.throttled(), loops.used() - used);
    Ok(BusyLoopShare { got: used / seconds, bound: Throttled::share(before, after) })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::Write as _;

    use super::*;

    /// A kernel that gives this much of what is written.
    fn found(asked: f64, gives: f64, bound: f64) -> (LimitCalibration, Vec<f64>) {
        let mut written = Vec::new();
        let measure = |share: f64| {
            written.push(share);
            Ok::<_, Infallible>(BusyLoopShare { got: share * gives, bound })
        };
        let found = calibrate("here", asked, measure);
        (found.unwrap(), written)
    }

    #[test]
    fn a_quota_that_gives_less_is_written_for_more() {
        let (found, written) = found(0.32, 0.96, 1.0);
        assert_eq!(written.len(), 2);
        assert!((found.written - 0.32 / 0.96).abs() < 1e-9 && (found.gets() - 0.32).abs() < 1e-9);
        assert_eq!(
            found.to_string(),
            "cpu = 0.32 on here: a busy loop got 0.307 by its quota, and 0.320 by one for 0.333, which is set"
        );
    }

    #[test]
    fn what_is_near_or_says_nothing_is_left_as_it_is() {
        let (near, written) = found(0.5, 0.995, 1.0);
        assert_eq!((near.written, written.len(), near.got.is_some()), (0.5, 1, true));
        let (busy, written) = found(0.5, 0.4, 0.3);
        assert_eq!((busy.written, written.len(), busy.plain, busy.gets()), (0.5, 1, None, 0.5));
        assert!(busy.to_string().ends_with("could not be told"));
    }

    #[test]
    fn what_is_far_off_is_not_followed() {
        let (far, written) = found(0.5, 0.1, 1.0);
        assert!((written[1] - 0.625).abs() < 1e-9 && far.written <= 0.625, "{far}");
        let (worse, _) = {
            let mut answers = [0.45, 0.7].into_iter();
            let found = calibrate("here", 0.5, |_| {
                Ok::<_, Infallible>(BusyLoopShare { got: answers.next().unwrap(), bound: 1.0 })
            });
            (found.unwrap(), ())
        };
        assert_eq!((worse.written, worse.got), (0.5, Some(0.45)), "the second was no better");
    }

    /// On this machine, where it lets us: nothing of it stays.
    #[test]
    fn a_limit_is_calibrated_by_a_busy_loop() {
        let path = std::env::temp_dir().join(format!("krarup-calibrate-{}", std::process::id()));
        let ledger = Ledger::at(&path);
        match calibrate_here("here", 0.25, &ledger) {
            Ok(found) => {
                println!("{found}");
                assert!((0.2..0.32).contains(&found.written), "{found:?}");
                assert!((0.15..0.35).contains(&found.gets()), "{found:?}");
                assert_eq!(ledger.settle(), 0, "nothing is left to take away");
            }
            Err(error) => {
                assert!(error.to_string().contains("run as root"), "{error}");
                let _ = writeln!(std::io::stderr(), "skipped: {error}");
            }
        }
    }
}
