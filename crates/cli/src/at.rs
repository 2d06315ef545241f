//! `krarup at`: programs that cannot be told when to begin, begun at one instant.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use clap::Args;
use krarup_net::clock::wall;
use krarup_units::text::{duration, parse_instant};
use krarup_units::{Mistake, Nanos};

use crate::failure::Failure;

/// Run a command at an instant: it waits, and then becomes the command.
///
/// Load generators that are told the same instant begin together, on one machine or on several
/// whose clocks agree. `krarup run` does it where several clients are another program.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  krarup at 2026-11-22T07:30:00Z -- memtier_benchmark -s 10.0.0.1 -p 11211 -P memcache_text --test-time=60"
)]
pub(crate) struct AtArgs {
    /// When the wall clock shows this: nanoseconds since 1970, or 2026-11-22T07:30:00Z (RFC 3339)
    #[arg(value_name = "INSTANT", value_parser = parse_instant)]
    instant: Nanos,
    /// The command and its words
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// The longest wait that makes sense; an instant farther away, on either side, is a slip.
const LONGEST: Nanos = Nanos::from_secs(24 * 3_600);

/// It looks at the wall clock at least so often: that may be set meanwhile, or the machine sleep.
const LOOK: Nanos = Nanos::from_secs(1);

pub(crate) fn run(args: &AtArgs) -> Result<(), Failure> {
    let now = wall();
    let (wait, ago) = (args.instant.saturating_sub(now), now.saturating_sub(args.instant));
    if ago > LONGEST {
        let ago = duration(ago.as_seconds());
        return Err(Failure::usage(format!("that was {ago} ago"))
            .hint("a bare number is nanoseconds since 1970, as `date +%s%N` prints"));
    }
    if wait > LONGEST {
        let wait = duration(wait.as_seconds());
        return Err(Failure::usage(format!("that is in {wait}")).hint("give an instant within a day"));
    }
    let late = wait_until(args.instant, wall, std::thread::sleep);
    if wait == Nanos::ZERO || late > LOOK {
        eprintln!("warning: the instant has passed: it begins at once");
    }
    let (program, words) = args.command.split_first().expect("the command line has a command");
    let error = Command::new(program).args(words).exec();
    Err(Failure::run(Mistake::system(&error).of(program)).hint("is it installed, and in PATH?"))
}

/// Waits until the clock shows the instant. Says how long after it that was.
fn wait_until(instant: Nanos, now: impl Fn() -> Nanos, sleep: impl Fn(Duration)) -> Nanos {
    loop {
        let shown = now();
        let left = instant.saturating_sub(shown);
        if left == Nanos::ZERO {
            return shown.saturating_sub(instant);
        }
        sleep(left.min(LOOK).as_duration());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How long it waits for second 60, and how late that is, with a clock that is set to second
    /// `to` after ten.
    fn waited(to: u64) -> (Nanos, Nanos) {
        let (clock, slept) = (Cell::new(Nanos::ZERO), Cell::new(Nanos::ZERO));
        let sleep = |time: Duration| {
            slept.set(slept.get() + Nanos::from(time));
            let is_set = slept.get() == Nanos::from_secs(10);
            clock.set(if is_set { Nanos::from_secs(to) } else { clock.get() + Nanos::from(time) });
        };
        let late = wait_until(Nanos::from_secs(60), || clock.get(), sleep);
        (slept.get(), late)
    }

    #[test]
    fn a_clock_that_is_set_meanwhile_is_followed() {
        let seconds = |slept, late| (Nanos::from_secs(slept), Nanos::from_secs(late));
        assert_eq!(waited(10), seconds(60, 0));
        assert_eq!(waited(50), seconds(20, 0));
        assert_eq!(waited(5), seconds(65, 0));
        assert_eq!(waited(100), seconds(10, 40));
    }
}
