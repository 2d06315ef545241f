//! Series of a service, asked of Prometheus over its HTTP interface, and the flags that say which.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use krarup_model::headroom::SeriesPoint;
use krarup_net::clock::wall;
use krarup_net::http;
use krarup_units::text::{duration, parse_duration};
use krarup_units::{Address, Mistake, Seconds};
use serde::Deserialize;

use crate::failure::Failure;

/// How long Prometheus may take: its own limit is two minutes.
const LIMIT: Duration = Duration::from_secs(120);
/// How far back to look unless it is said, in seconds.
const OVER: Seconds = 6.0 * 3600.0;
/// Into how many steps that is divided unless it is said, and the shortest one then.
const STEPS: f64 = 120.0;
const SHORTEST: Seconds = 15.0;
/// The most steps: Prometheus gives 11,000 points of a series.
const MOST_STEPS: f64 = 2_000.0;

/// Where a Prometheus is: what stands before `/api` in its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prometheus {
    address: Address,
    path: String,
}

impl FromStr for Prometheus {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        if text.starts_with("https://") {
            return Err(Mistake::new(
                format!("{text} is encrypted, and is asked without encryption here"),
                "give the address of Prometheus itself, http://HOST:PORT, or of a proxy or tunnel that decrypts",
            ));
        }
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = address.parse().map_err(|_| {
            Mistake::new(
                format!("`{text}` is no address of a Prometheus"),
                "write it like http://127.0.0.1:9090",
            )
        })?;
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { address, path })
    }
}

/// Which service is asked about, and over which time.
#[derive(Args)]
pub(crate) struct SeriesArgs {
    /// Ask this Prometheus about a service, as http://HOST:PORT
    #[arg(long, value_name = "URL", requires_all = ["rate", "in_flight", "time"])]
    pub(crate) prometheus: Option<Prometheus>,
    /// PromQL for requests per second; $step stands for the length of a step here and in the two
    /// others
    #[arg(long, value_name = "EXPR", requires = "prometheus")]
    rate: Option<String>,
    /// PromQL for the number of requests in flight
    #[arg(long, value_name = "EXPR", requires = "prometheus")]
    in_flight: Option<String>,
    /// PromQL for the mean response time, in seconds
    #[arg(long, value_name = "EXPR", requires = "prometheus")]
    time: Option<String>,
    /// How far back to look [default: 6h]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "prometheus")]
    over: Option<Seconds>,
    /// Length of a step [default: a 120th of --over, at least 15s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "prometheus")]
    step: Option<Seconds>,
}

impl SeriesArgs {
    /// The points of the service over the time until now, those that have all three values; none
    /// where no Prometheus is to be asked.
    pub(crate) fn points(&self) -> Result<Option<Vec<SeriesPoint>>, Failure> {
        Ok(self.seen()?.map(|(points, _)| points))
    }

    /// The same with the time that was looked at.
    pub(crate) fn seen(&self) -> Result<Option<(Vec<SeriesPoint>, QueryRange)>, Failure> {
        let Some(prometheus) = &self.prometheus else { return Ok(None) };
        let range = query_range(self.over.unwrap_or(OVER), self.step)?;
        let series = |flag: &str, expression: &Option<String>| {
            prometheus.series(flag, expression.as_deref().unwrap_or_default(), &range)
        };
        let rates = series("--rate", &self.rate)?;
        let in_flight = series("--in-flight", &self.in_flight)?;
        let times = series("--time", &self.time)?;
        let point = |(at, rate): (&u64, &f64)| {
            let (in_flight, response) = (*in_flight.get(at)?, *times.get(at)?);
            Some(SeriesPoint { at: *at as f64 / 1e3, rate: *rate, in_flight, response })
        };
        Ok(Some((rates.iter().filter_map(point).collect(), range)))
    }
}

/// Which stretch of time, in whole milliseconds.
pub(crate) struct QueryRange {
    from: u64,
    to: u64,
    step: u64,
}

/// What `query_range` answers.
#[derive(Deserialize)]
struct RangeAnswer {
    data: RangeData,
}

#[derive(Deserialize)]
struct RangeData {
    result: Vec<RangeSeries>,
}

#[derive(Deserialize)]
struct RangeSeries {
    /// Seconds since 1970, and a number as a text.
    values: Vec<(f64, String)>,
}

impl Prometheus {
    /// The one series that an expression gives, by milliseconds since 1970.
    fn series(
        &self,
        flag: &str,
        expression: &str,
        range: &QueryRange,
    ) -> Result<BTreeMap<u64, f64>, Failure> {
        let seconds = |milliseconds: u64| milliseconds as f64 / 1e3;
        let query = expression.replace("$step", &format!("{}ms", range.step));
        let path = format!(
            "{}/api/v1/query_range?query={}&start={}&end={}&step={}",
            self.path,
            http::encoded(&query),
            seconds(range.from),
            seconds(range.to),
            seconds(range.step)
        );
        let text = http::get_within(&self.address, &path, LIMIT).map_err(|why| {
            Failure::usage(why)
                .or_hint("is it the address of a Prometheus, and the expression PromQL?")
                .at(flag)
        })?;
        let answer: RangeAnswer = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!("what {} answers is no series of Prometheus: {error}", self.address))
                .hint("is it the address of a Prometheus, and the expression PromQL?")
                .at(flag)
        })?;
        match &answer.data.result[..] {
            [one] => Ok(one.values.iter().filter_map(of_text).collect()),
            [] => Err(Failure::usage(format!("`{query}` gives nothing over the last {}", range.over()))
                .hint(format!(
                    "try it in Prometheus' own page: are the names right, and is it scraped at least twice in each step? $step is {} now, --step sets it",
                    duration(seconds(range.step))
                ))
                .at(flag)),
            several => Err(Failure::usage(format!("`{query}` gives {} series", several.len()))
                .hint("one is needed: put sum (…) around it")
                .at(flag)),
        }
    }
}

impl QueryRange {
    /// Its end, in seconds since 1970, and the length of a step.
    pub(crate) fn end_and_step(&self) -> (Seconds, Seconds) {
        (self.to as f64 / 1e3, self.step as f64 / 1e3)
    }

    fn over(&self) -> String {
        duration((self.to - self.from) as f64 / 1e3)
    }
}

/// A point as Prometheus writes it; none where its value is no number.
fn of_text((at, value): &(f64, String)) -> Option<(u64, f64)> {
    Some(((at * 1e3).round() as u64, value.parse().ok()?))
}

/// The time until now in steps.
fn query_range(over: Seconds, step: Option<Seconds>) -> Result<QueryRange, Failure> {
    let step = step.unwrap_or((over / STEPS).max(SHORTEST));
    let steps = over / step;
    // What is not a number is not in a range.
    let possible = step >= 0.001 && (1.0..=MOST_STEPS).contains(&steps);
    if !possible {
        return Err(Failure::usage(format!(
            "{} in steps of {} cannot be looked at: 1 to {MOST_STEPS} steps of at least 1 ms can",
            duration(over),
            duration(step)
        ))
        .hint("choose --over and --step so"));
    }
    let step = (step * 1e3).round() as u64;
    let now = wall().0 / 1_000_000;
    // Whole steps, so that asked again a moment later the same points come.
    let to = now / step * step;
    Ok(QueryRange { from: to.saturating_sub((over * 1e3) as u64), to, step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_path_and_must_not_be_encrypted() {
        let of = |text: &str| text.parse::<Prometheus>();
        let plain = of("http://127.0.0.1:9090").unwrap();
        assert_eq!(of("127.0.0.1:9090/").unwrap(), plain);
        assert_eq!((of("http://a:80/p/q/").unwrap().path.as_str(), plain.path.as_str()), ("/p/q", ""));
        assert!(of("https://a:443").unwrap_err().hint.contains("http://HOST:PORT"));
        assert!(of("http://prometheus").unwrap_err().hint.contains("9090"));
    }

    #[test]
    fn a_stretch_of_time_is_divided_into_whole_steps() {
        let range = query_range(3600.0, None).unwrap();
        assert_eq!((range.step, range.to % 30_000, range.to - range.from), (30_000, 0, 3_600_000));
        assert_eq!(query_range(60.0, None).unwrap().step, 15_000);
        assert_eq!(query_range(60.0, Some(1.5)).unwrap().step, 1_500);
        for (over, step) in [(1.0, None), (60.0, Some(0.0)), (1e7, Some(1.0)), (60.0, Some(f64::NAN))] {
            assert!(query_range(over, step).is_err(), "{over} {step:?}");
        }
    }
}
