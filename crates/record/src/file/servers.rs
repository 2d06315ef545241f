//! `servers.csv`: what each server did. Columns: [`crate::schema::SERVERS`].

use std::io::{Read, Write};

use krarup_units::Nanos;
use serde::{Deserialize, Serialize};

use super::problem::FileProblem;
use super::table;
use crate::{ServerTotals, schema};

/// One server's line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerRow {
    /// The server's place in the configuration.
    pub server: u64,
    /// Requests, or parts of requests, sent to it.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// Sum of its times.
    pub time_ns: Nanos,
    /// Mean of its times, in µs.
    pub time_mean_us: Option<f64>,
    /// Median of its times, in µs.
    pub time_p50_us: Option<f64>,
    /// 90th percentile of its times, in µs.
    pub time_p90_us: Option<f64>,
    /// 99th percentile of its times, in µs.
    pub time_p99_us: Option<f64>,
    /// Its longest time, in µs.
    pub time_max_us: Option<f64>,
}

impl ServerRow {
    /// The line of `server`.
    pub fn new(server: usize, totals: &ServerTotals) -> Self {
        let quantile = |quantile| table::micros(totals.time.quantile(quantile).map(Nanos::as_seconds));
        let exact = totals.time.exact();
        Self {
            server: server as u64,
            requests: totals.requests,
            errors: totals.errors,
            time_ns: exact.sum,
            time_mean_us: table::micros(totals.time.mean()),
            time_p50_us: quantile(0.5),
            time_p90_us: quantile(0.9),
            time_p99_us: quantile(0.99),
            time_max_us: (totals.requests > 0).then(|| exact.greatest.as_seconds() * 1e6),
        }
    }
}

/// Writes the servers of [`crate::Recorder::servers`].
///
/// # Errors
/// As `out` says.
pub fn write<'a>(
    out: impl Write,
    servers: impl IntoIterator<Item = (usize, &'a ServerTotals)>,
) -> Result<(), FileProblem> {
    table::write(
        out,
        &schema::SERVERS,
        servers.into_iter().map(|(server, totals)| ServerRow::new(server, totals)),
    )
}

/// Reads the lines.
///
/// # Errors
/// A missing column, or a line that is not what its columns say, with its number.
pub fn read(input: impl Read) -> Result<Vec<ServerRow>, FileProblem> {
    table::read(input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let mut totals = ServerTotals { requests: 3, errors: 1, ..ServerTotals::default() };
        [1_234_567, 999, 45_000_001].iter().for_each(|&nanos| totals.time.record(Nanos(nanos)));
        let rows = [ServerRow::new(0, &totals), ServerRow::new(7, &ServerTotals::default())];
        let mut text = vec![];
        write(&mut text, [(0, &totals), (7, &ServerTotals::default())]).unwrap();
        assert_eq!(read(&text[..]).unwrap(), rows);
        assert_eq!(rows[0].time_max_us, Some(45_000.001));
    }

    #[test]
    fn the_header_is_the_schema() {
        table::assert_columns(&schema::SERVERS, ServerRow::new(0, &ServerTotals::default()));
    }
}
