//! `krarup at`: programs that cannot be told when to begin, begun at one instant.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
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

/// The longest wait that makes sense; an instant farther away is a slip.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);

pub(crate) fn run(args: &AtArgs) -> Result<(), Failure> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let wait = Duration::from_nanos(args.instant.0).saturating_sub(now);
    if wait > LONGEST {
        let wait = duration(wait.as_secs_f64());
        return Err(Failure::usage(format!("that is in {wait}")).hint("give an instant within a day"));
    }
    if wait.is_zero() {
        eprintln!("warning: the instant has passed: it begins at once");
    }
    std::thread::sleep(wait);
    let (program, words) = args.command.split_first().expect("the command line has a command");
    let error = Command::new(program).args(words).exec();
    Err(Failure::run(Mistake::system(&error).of(program)).hint("is it installed, and in PATH?"))
}
