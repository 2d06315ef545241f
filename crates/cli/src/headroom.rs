//! `krarup headroom`: what is full first, at which rate, and up to which rate a target holds.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use krarup_model::headroom::{
    Headroom, HeadroomTarget, HeadroomVerdict, NamedChange, ResponseTarget, judge_series,
};
use krarup_net::http;
use krarup_report::headroom as shown;
use krarup_units::text::{duration, parse_duration};
use krarup_units::{Address, Seconds};

use crate::experiment;
use crate::failure::Failure;
use crate::flags::{count, whole};
use crate::prometheus::SeriesArgs;
use crate::recorded_headroom::{self as records, RowsQuestion, SEED};

/// Say how much headroom a proxy or a broker has: which resource is full first, and up to which
/// rate a target of response time holds.
///
/// Of a running proxy or broker (its admin address), of the rows that a proxy has written, or of a
/// directory of results: a line for each trial. What is measured is how long a server
/// works on a request while others wait for it; nothing is put under load for it. A capacity is
/// `stated` up to twice the rate of busy seconds, `projected` up to four times, and else there is
/// no conclusion, with the reason.
///
/// Of any service whose rate, requests in flight and mean response time Prometheus keeps, with
/// `--prometheus`: up to which rate the mean response time holds, or where throughput ends, by the
/// law that predicts the series best.
///
/// Exit code: 0 where there is a capacity, 3 where there is no conclusion or --until-stated ends
/// without a stated one, 1 where the target is broken now, 2 where it could not be asked or the
/// answer not written.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
    krarup headroom 127.0.0.1:9151 --target 'p99 < 8ms'\n  \
    krarup headroom 127.0.0.1:9151 --what-if 'server lost' --what-if 'traffic x1.5' --target 'p99 < 8ms'\n  \
    krarup headroom run/rows.parquet --json\n  \
    krarup headroom --prometheus http://127.0.0.1:9090 --target 'mean < 50ms' --over 1d \\\n      \
    --rate 'sum(rate(http_request_duration_seconds_count[$step]))' \\\n      \
    --in-flight 'sum(avg_over_time(http_requests_in_flight[$step]))' \\\n      \
    --time 'sum(rate(http_request_duration_seconds_sum[$step]))\n        \
    / sum(rate(http_request_duration_seconds_count[$step]))'\n  \
    krarup headroom krarup-demo")]
pub(crate) struct HeadroomArgs {
    /// rows.parquet or the folder of a proxy's rows, a directory of results, or HOST:PORT of a
    /// proxy's or broker's admin address
    #[arg(
        value_name = "ROWS|DIR|ADDRESS",
        required_unless_present = "prometheus",
        conflicts_with = "prometheus"
    )]
    of: Option<String>,
    /// The response time that clients need, as `p99 < 8ms`, with --prometheus as `mean < 8ms`
    /// [default: the proxy's `headroom_target`; else none: at which rate the first resource is
    /// full]
    #[arg(long, value_name = "TARGET")]
    target: Option<HeadroomTarget>,
    #[command(flatten)]
    series: SeriesArgs,
    /// What a change would do: `traffic x1.5`, `values x2`, `workers x2`, `server +1`, `server
    /// lost` (the worst one), `server NAME lost`, `server NAME x2` (slower), `replicas +1`,
    /// `replicas -1` [default: those that make sense]
    #[arg(long, value_name = "CHANGE")]
    what_if: Vec<NamedChange>,
    /// How many workers the rows' proxy had [default: what summary.json beside the rows says]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u64::MAX))]
    workers: Option<u32>,
    /// Names of the rows' servers [default: what summary.json beside the rows says]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    server_names: Vec<String>,
    /// Leave out rows before this time of the run
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    from: Option<Seconds>,
    /// Leave out rows after this time of the run
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    to: Option<Seconds>,
    /// Ask a proxy every 10 s until a capacity is stated, for this long at most
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    until_stated: Option<Seconds>,
    /// Print JSON with full precision
    #[arg(long)]
    json: bool,
    /// Decides all random numbers: the same rows and seed give the same bytes [default: 1]
    #[arg(long, value_name = "N", value_parser = count::<u64>)]
    seed: Option<u64>,
}

/// How often a proxy is asked until a capacity is stated: its answers are that old at most.
const AGAIN: Duration = Duration::from_secs(10);
/// How long an answer may take: it is computed at the lowest priority.
const LIMIT: Duration = Duration::from_secs(30);

/// No conclusion, or not the one that was waited for.
const SILENT: u8 = 3;
/// The target is broken by the traffic of now.
const BROKEN: u8 = 1;

/// Whose headroom.
enum HeadroomOf {
    Series,
    Rows(PathBuf),
    Results(PathBuf),
    Proxy(Address),
}

pub(crate) fn run(args: &HeadroomArgs) -> Result<ExitCode, Failure> {
    match args.of()? {
        HeadroomOf::Series => args.tell_series(),
        HeadroomOf::Rows(path) => args.tell(&records::judge_rows(&args.of_rows()?, &path)?),
        HeadroomOf::Results(path) => args.tell_trials(&path),
        HeadroomOf::Proxy(address) => args.tell(&args.ask(&address, AGAIN)?),
    }
}

impl HeadroomArgs {
    fn of(&self) -> Result<HeadroomOf, Failure> {
        let name = self.of.as_deref().unwrap_or_default();
        let path = Path::new(name);
        let of = if self.series.prometheus.is_some() {
            HeadroomOf::Series
        } else if path.join("spec.toml").is_file() {
            HeadroomOf::Results(path.to_owned())
        } else if path.exists() || name.ends_with(".parquet") {
            HeadroomOf::Rows(path.to_owned())
        } else {
            let address = name.strip_prefix("http://").unwrap_or(name);
            let address = address.trim_end_matches('/').trim_end_matches("/headroom");
            HeadroomOf::Proxy(address.parse().map_err(|_| {
                Failure::usage(format!("{name} is no file, no directory and no HOST:PORT"))
                    .hint("give rows.parquet, a directory of results, or the admin address of a proxy")
            })?)
        };
        self.suits(&of).map(|()| of)
    }

    /// Refuses flags that say nothing of it.
    fn suits(&self, of: &HeadroomOf) -> Result<(), Failure> {
        let of_rows = self.from.is_some() || self.to.is_some() || !self.server_names.is_empty();
        let wrong = match of {
            HeadroomOf::Series
                if of_rows
                    || self.workers.is_some()
                    || self.seed.is_some()
                    || self.until_stated.is_some()
                    || !self.what_if.is_empty() =>
            {
                "with --prometheus only --rate, --in-flight, --time, --over, --step, --target and --json can be given"
            }
            HeadroomOf::Proxy(_) if of_rows || self.workers.is_some() => {
                "--from, --to, --server-names and --workers are about rows: a running proxy knows these"
            }
            HeadroomOf::Rows(_) if self.until_stated.is_some() => {
                "--until-stated waits for more traffic: rows will have no more"
            }
            HeadroomOf::Results(_) if of_rows || self.until_stated.is_some() || !self.what_if.is_empty() => {
                "of a directory of results only --target, --workers, --seed and --json can be asked"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(wrong).hint("krarup headroom --help shows every flag"))
    }

    /// Asks a running proxy, once or, so far apart, until a capacity is stated.
    fn ask(&self, address: &Address, apart: Duration) -> Result<Headroom, Failure> {
        let mut query = format!("/headroom?seed={}", self.seed.unwrap_or(SEED));
        let target = self.percentile()?.map(|target| ("target", target.to_string()));
        let changes = self.what_if.iter().map(|change| ("what-if", change.to_string()));
        for (name, value) in target.into_iter().chain(changes) {
            query.push_str(&format!("&{name}={}", http::encoded(&value)));
        }
        let limit = Duration::from_secs_f64(self.until_stated.unwrap_or(0.0).min(86_400.0 * 365.0));
        let begun = Instant::now();
        // Whether the question before was answered; none: this is the first.
        let mut answered = None;
        loop {
            let answer = answer(address, &query);
            let left = limit.saturating_sub(begun.elapsed());
            match answer {
                Ok(answer) => {
                    let is_sure = matches!(answer.verdict, HeadroomVerdict::Proven | HeadroomVerdict::Stated);
                    if is_sure || left.is_zero() {
                        return Ok(answer);
                    }
                    let reason = answer.silent.first().map_or("the rate seen is low", |reason| reason.text());
                    eprintln!(
                        "{}: {}; for {} more",
                        shown::word(answer.verdict),
                        reason,
                        duration(left.as_secs_f64().round())
                    );
                    answered = Some(true);
                }
                Err(why) if answered.is_none() || left.is_zero() => return Err(why),
                // A restart, a fail-over and a full machine pass.
                Err(why) => {
                    if answered == Some(true) {
                        // The address is the right one: it has answered.
                        Failure::run(why.message()).warn("it is asked again");
                    }
                    answered = Some(false);
                }
            }
            thread::sleep(apart.min(left));
        }
    }

    fn tell(&self, answer: &Headroom) -> Result<ExitCode, Failure> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(answer).expect("an answer is plain data"));
        } else {
            print!("{}", shown::screen(answer, !is_terminal()));
        }
        let said = code(answer.broken_now, answer.verdict);
        // Who waits for a stated one must be able to tell that it did not come.
        let is_projected = self.until_stated.is_some() && answer.verdict == HeadroomVerdict::Projected;
        Ok(if is_projected && said == ExitCode::SUCCESS { ExitCode::from(SILENT) } else { said })
    }

    /// The target of a proxy or of rows.
    fn percentile(&self) -> Result<Option<ResponseTarget>, Failure> {
        match self.target {
            None => Ok(None),
            Some(HeadroomTarget::Percentile(target)) => Ok(Some(target)),
            Some(HeadroomTarget::Mean(_)) => {
                Err(Failure::usage("a target of the mean is for --prometheus")
                    .hint("write it like 'p99 < 8ms'"))
            }
        }
    }

    /// Asks Prometheus about a service and says what its series say.
    fn tell_series(&self) -> Result<ExitCode, Failure> {
        let target = match self.target {
            None => None,
            Some(HeadroomTarget::Mean(target)) => Some(target),
            Some(HeadroomTarget::Percentile(_)) => {
                return Err(Failure::usage("from means no percentile can be told")
                    .hint("write it like 'mean < 8ms'; percentiles take a proxy, or its rows"));
            }
        };
        let (points, range) = self.series.seen()?.expect("--prometheus was given");
        let (end, step) = range.end_and_step();
        let answer = judge_series(&points, target).at(end, step);
        if self.json {
            println!("{}", serde_json::to_string_pretty(&answer).expect("an answer is plain data"));
        } else {
            print!("{}", shown::series_screen(&answer, !is_terminal()));
        }
        Ok(code(answer.broken_now, answer.verdict))
    }

    /// What is asked of rows.
    fn of_rows(&self) -> Result<RowsQuestion, Failure> {
        Ok(RowsQuestion {
            target: self.percentile()?,
            what_if: self.what_if.clone(),
            workers: self.workers,
            server_names: self.server_names.clone(),
            from: self.from,
            to: self.to,
            seed: self.seed.unwrap_or(SEED),
        })
    }

    fn tell_trials(&self, path: &Path) -> Result<ExitCode, Failure> {
        let trials = records::judge_trials(&self.of_rows()?, &experiment::complete(path)?)?;
        if trials.is_empty() {
            return Err(Failure::usage(format!("{} has no trial that tells it", path.display())).hint(
                "a target takes rows: write flags = [\"--rows\"] under [stations.middleware] in the spec; of several proxies nothing is told",
            ));
        }
        if self.json {
            println!("{}", serde_json::to_string_pretty(&trials).expect("answers are plain data"));
        } else {
            print!("{}", crate::output::table(&shown::trials(&trials)));
        }
        let is_broken = trials.iter().any(|trial| trial.headroom.broken_now == Some(true));
        let all = || trials.iter().map(|trial| trial.headroom.verdict);
        let said = all().find(|verdict| *verdict != HeadroomVerdict::Silent);
        Ok(code(Some(is_broken), said.unwrap_or(HeadroomVerdict::Silent)))
    }
}

/// The exit code of an answer.
fn code(broken_now: Option<bool>, verdict: HeadroomVerdict) -> ExitCode {
    match (broken_now, verdict) {
        (Some(true), _) => ExitCode::from(BROKEN),
        (_, HeadroomVerdict::Silent) => ExitCode::from(SILENT),
        _ => ExitCode::SUCCESS,
    }
}

/// What a running proxy answers.
pub(crate) fn answer(address: &Address, query: &str) -> Result<Headroom, Failure> {
    let text = http::ask("GET", address, query, LIMIT).map_err(|why| {
        Failure::usage(why.or_hint("give the proxy an address with --admin, and that one here"))
    })?;
    serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("what {address} answers is no headroom: {error}"))
            .hint("is it the admin address of a krarup proxy of this version?")
    })
}

#[expect(clippy::disallowed_methods, reason = "whether it is a terminal; nothing is written")]
fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use clap::FromArgMatches;

    use super::*;

    const HEADROOM: &str = r#"{"schema": 1, "at_ns": 1, "verdict": "VERDICT", "silent": [], "resources": [],
        "traffic": {"now_per_s": 0, "highest_per_s": 0, "over_s": 0, "c1": 0, "c2": 0}, "what_if": [],
        "proven_per_s": {"1s": 0, "100ms": 0}, "assumes": []}"#;

    /// What comes of waiting for a proxy that gives these verdicts, and no answer where one is
    /// empty.
    fn waited(verdicts: &'static [&'static str]) -> Result<Headroom, Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::from(listener.local_addr().unwrap());
        let name = address.to_string();
        let words = ["headroom", &name, "--until-stated", "1h"];
        let matches = HeadroomArgs::augment_args(clap::Command::new("headroom")).get_matches_from(words);
        let args = HeadroomArgs::from_arg_matches(&matches).unwrap();
        thread::spawn(move || {
            for verdict in verdicts {
                let (mut stream, _) = listener.accept().unwrap();
                assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
                if !verdict.is_empty() {
                    let body = HEADROOM.replace("VERDICT", verdict);
                    stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n{body}").as_bytes()).unwrap();
                }
            }
        });
        args.ask(&address, Duration::ZERO)
    }

    #[test]
    fn a_question_that_is_not_answered_does_not_end_the_waiting_unless_it_is_the_first() {
        let stated = waited(&["silent", "", "", "projected", "", "stated"]).unwrap();
        assert_eq!(stated.verdict, HeadroomVerdict::Stated);
        let why = waited(&[""]).unwrap_err();
        assert!(why.message().ends_with("is no HTTP"), "{why:?}");
    }
}
