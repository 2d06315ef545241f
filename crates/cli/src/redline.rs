//! `krarup redline`: proves what a server can do, by giving it more and more of the reads.

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use krarup_lab::stop::Stop;
use krarup_model::headroom::{RedlineReport, ResponseTarget};
use krarup_net::http::{self, NoAnswer};
use krarup_report::redline as shown;
use krarup_units::text::{duration, parse_duration};
use krarup_units::{Address, Mistake, Seconds};

use crate::failure::Failure;

/// Prove what one server of a replicated pool can do: it is given more and more of the pool's reads
/// while it is watched.
///
/// A limit that does not act before it is met, as a quota, is in no measurement of usual traffic.
/// Each step gives the server a tenth more than the one before, and lasts until its service time is
/// known within 3 %. Once a second it is looked at, and it ends, with the usual shares back in the
/// next pass of the event loop, where the server's reads miss the target in two of three seconds, a
/// request fails, its service time rises by 15 %, or the other servers become slower by a fifth.
/// What it did is proven, and `krarup headroom` counts with it for a day. Ctrl-C ends it too.
///
/// Exit code: 0 where something is proven, 3 where nothing is, 2 where it was refused, 1 where the
/// proxy no longer answers, or the report cannot be written.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup redline 127.0.0.1:9151 --dry-run\n  \
    krarup redline 127.0.0.1:9151 --server 10.0.0.4:11211 --target 'p99 < 8ms'\n  \
    curl -X DELETE http://127.0.0.1:9151/redline")]
pub(crate) struct RedlineArgs {
    /// The proxy's admin address
    #[arg(value_name = "HOST:PORT")]
    address: Address,
    /// Whose reads are moved [default: the first pool of which every server holds all keys]
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Which server gets more of them [default: the one that is full first]
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// What all reads must keep to, as `p99 < 8ms` [default: the proxy's `headroom_target`]
    #[arg(long, value_name = "TARGET")]
    target: Option<ResponseTarget>,
    /// The most that the server gets, as a multiple of an even share [default: 4]
    #[arg(long, value_name = "FACTOR")]
    most_weight: Option<f64>,
    /// How long it may take [default: 10m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    most_time: Option<Seconds>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Also where the headroom (capacity over traffic) is below 1.5 or unknown, and where the
    /// server was pushed today
    #[arg(long)]
    force: bool,
    /// Print JSON with full precision
    #[arg(long)]
    json: bool,
}

/// Nothing is proven.
const UNPROVEN: u8 = 3;
/// How long the first answer may take: before the first step the headroom is computed.
const LIMIT: Duration = Duration::from_secs(40);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// For how long a look is waited for, and a proxy that does not answer it is asked on.
const UNANSWERED: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &RedlineArgs) -> Result<ExitCode, Failure> {
    let signals = |error| Failure::run(format!("signals are refused: {error}"));
    let stop = Stop::on_signals().map_err(signals)?;
    let mut report = args.begin()?;
    let mut printed = 0;
    while !args.dry_run && report.ended.is_none() {
        thread::sleep(LOOK);
        report = args.look(&stop, UNANSWERED)?;
        for step in &report.steps[printed.min(report.steps.len())..] {
            eprintln!(
                "{} gets {:.2} times its share: {:.0} requests/s, response {} ({})",
                report.server,
                step.weight,
                step.server_per_s,
                duration(step.response_s),
                if step.kept_target { "kept to the target" } else { "missed the target" },
            );
        }
        printed = report.steps.len();
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report).expect("a report is plain data"));
    } else {
        println!("pool {}, server {}\n", report.pool, report.server);
        print!(
            "{}\n{}",
            crate::output::table(&shown::table(&report)),
            crate::output::prose(shown::sentences(&report))
        );
    }
    let nothing = report.proven.is_none() && !args.dry_run;
    Ok(if nothing { ExitCode::from(UNPROVEN) } else { ExitCode::SUCCESS })
}

impl RedlineArgs {
    fn query(&self) -> String {
        let flag = |set: bool| set.then(|| "1".to_owned());
        let parameters = [
            ("pool", self.pool.clone()),
            ("server", self.server.clone()),
            ("target", self.target.map(|target| target.to_string())),
            ("most-weight", self.most_weight.map(|weight| weight.to_string())),
            ("most-time", self.most_time.map(|seconds| format!("{seconds}s"))),
            ("dry-run", flag(self.dry_run)),
            ("force", flag(self.force)),
        ];
        let given = parameters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let words: Vec<String> =
            given.map(|(name, value)| format!("{name}={}", http::encoded(&value))).collect();
        format!("/redline?{}", words.join("&"))
    }

    /// Begins it. Where the answer is lost it may have begun all the same, or be about to: then it
    /// is ended.
    fn begin(&self) -> Result<RedlineReport, Failure> {
        match self.ask("POST", &self.query(), LIMIT) {
            Ok(report) => Ok(report),
            Err(NoAnswer::Lost(why)) if !self.dry_run => {
                self.give_up(&why.what)?;
                Err(Failure::run(format!("{}; the redline was ended", why.what)))
            }
            Err(why) => {
                let hint = "give the proxy an address with --admin, and that one here";
                Err(Failure::usage(why.or_hint(hint)))
            }
        }
    }

    /// Tells the proxy to end it, because of that.
    fn give_up(&self, why: &str) -> Result<RedlineReport, Failure> {
        self.ask("DELETE", "/redline", UNANSWERED).map_err(|answer| match answer {
            NoAnswer::Status(404, _) => Failure::run(format!("{why}; no redline is under way there")),
            _ => Failure::run(format!("{why}; the redline may go on until its time is over"))
                .hint(format!("curl -X DELETE http://{}/redline ends it", self.address)),
        })
    }

    /// How far it is; where the end is asked for, it is ended. The proxy goes on pushing also while
    /// it cannot be asked: it is asked on for so long, and then told to end.
    fn look(&self, stop: &Stop, limit: Duration) -> Result<RedlineReport, Failure> {
        let ask = |method: &str| self.ask(method, "/redline", UNANSWERED);
        let mut unanswered: Option<Instant> = None;
        loop {
            let ended = if stop.asked() { ask("DELETE").ok() } else { None };
            // What has ended by itself meanwhile cannot be ended.
            let why = match ended.map_or_else(|| ask("GET"), Ok) {
                Ok(report) => return Ok(report),
                Err(why) => Mistake::from(why),
            };
            let since = *unanswered.get_or_insert_with(|| {
                Failure::run(why.clone()).warn("it is asked again");
                Instant::now()
            });
            if since.elapsed() >= limit {
                return self.give_up(&why.what);
            }
            thread::sleep(LOOK);
        }
    }

    fn ask(&self, method: &str, path: &str, limit: Duration) -> Result<RedlineReport, NoAnswer> {
        let answer = http::ask(method, &self.address, path, limit)?;
        serde_json::from_str(&answer).map_err(|error| {
            let what = format!("what {} answers is no redline: {error}", self.address);
            let hint = "is it the admin address of a krarup proxy of this version?";
            NoAnswer::Unreached(Mistake::new(what, hint))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use clap::FromArgMatches;

    use super::*;

    fn args(address: &str) -> RedlineArgs {
        let words = ["redline", address];
        let matches = RedlineArgs::augment_args(clap::Command::new("redline")).get_matches_from(words);
        RedlineArgs::from_arg_matches(&matches).unwrap()
    }

    /// Exit code 2 is for what was refused, and has not begun.
    #[test]
    fn what_may_have_begun_is_ended_and_was_not_refused() {
        let report = r#"{"schema": 1, "pool": "main", "server": "a:1", "ended": "stopped", "steps": [],
            "proven": null}"#;
        for (answer, end) in [
            (format!("HTTP/1.1 200 OK\r\n\r\n{report}"), "the redline was ended"),
            ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), "no redline is under way there"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let args = args(&listener.local_addr().unwrap().to_string());
            let proxy = thread::spawn(move || {
                // The answer to the first is lost.
                ["", answer.as_str()].map(|answer| {
                    let (mut stream, _) = listener.accept().unwrap();
                    let mut room = [0; 1024];
                    let count = stream.read(&mut room).unwrap();
                    stream.write_all(answer.as_bytes()).unwrap();
                    let asked = String::from_utf8_lossy(&room[..count]).into_owned();
                    asked.split(' ').next().unwrap().to_owned()
                })
            });
            let lost = Failure::run(format!("what {} answers is no HTTP; {end}", args.address));
            assert_eq!(args.begin().unwrap_err(), lost);
            assert_eq!(proxy.join().unwrap(), ["POST", "DELETE"]);
        }
    }

    #[test]
    fn a_proxy_that_no_longer_answers_has_refused_nothing() {
        let args = args("127.0.0.1:1");
        let why = "127.0.0.1:1 cannot be asked: connection refused: nothing listens there";
        let lost = Failure::run(format!("{why}; the redline may go on until its time is over"))
            .hint("curl -X DELETE http://127.0.0.1:1/redline ends it");
        let stop = Stop::default();
        assert_eq!(args.look(&stop, Duration::ZERO).unwrap_err(), lost);
        stop.ask();
        assert_eq!(args.look(&stop, Duration::ZERO).unwrap_err(), lost);
    }
}
