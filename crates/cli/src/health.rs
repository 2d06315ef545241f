//! `krarup health`: asks a service whether it works, where no other program could ask: in an image
//! that holds this one alone.

use std::time::Duration;

use clap::Args;
use krarup_net::http;
use krarup_units::Address;

use crate::failure::Failure;

/// Ask a proxy or a broker at its admin address whether it works: what a container's health check
/// runs.
///
/// Exit code: 0 where its event loop answers, and with --ready where clients may be sent to it;
/// else 1, with the reason.
#[derive(Args)]
#[command(after_help = "Examples:\n  krarup health 127.0.0.1:9151\n  krarup health 127.0.0.1:9151 --ready")]
pub(crate) struct HealthArgs {
    /// The admin address of the proxy or broker
    #[arg(value_name = "HOST:PORT")]
    address: Address,
    /// Also whether it is ready for clients: it is not stopping, and what it needs is there
    #[arg(long)]
    ready: bool,
}

/// How long the answer may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Asks once, and prints what was answered.
pub(crate) fn run(args: &HealthArgs) -> Result<(), Failure> {
    let path = if args.ready { "/ready" } else { "/health" };
    let answer = http::ask("GET", &args.address, path, LIMIT).map_err(|why| {
        let hint = "give the proxy or the broker an address with --admin, and that one here";
        Failure::run(why.or_hint(hint))
    })?;
    print!("{answer}");
    Ok(())
}
