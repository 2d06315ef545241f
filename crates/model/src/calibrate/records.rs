//! From records of a run to a row: what the middleware wrote down while the clients measured.
//!
//! ```text
//!   clients      ├── warm-up ──┤■■■■■■■■ measured ■■■■■■■■├── cool-down ──┤      X, client R, N, Z
//!   middleware   │ visit visit │ visit visit visit visit  │ visit visit   │      R, w of those replied within
//! ```
//! Both sides' clocks meet in the wall clock that stands in their files.

use std::collections::BTreeMap;

use krarup_record::holds::{HoldRow, Seen};
use krarup_record::{Visit, WindowRow};
use krarup_units::{Nanos, Seconds, Stamp};

use super::rows::Row;
use crate::Error;
use crate::table::{Table, Unit};

/// What the clients of a run measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clients {
    /// N.
    pub population: u64,
    /// X, requests per second that ended without an error.
    pub throughput: f64,
    /// R at the clients.
    pub response: Seconds,
    /// Z.
    pub think: Seconds,
}

/// A part of a run, on the clock of the middleware that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub from: Stamp,
    /// Its end.
    pub to: Stamp,
}

impl Span {
    /// From one wall time to another, in seconds since 1970, on a clock whose zero was at `epoch`.
    pub fn between(from: Seconds, to: Seconds, epoch: Nanos) -> Self {
        let on_clock = |wall: Seconds| {
            // Whole seconds first: a double holds no nanoseconds of the years since 1970.
            let whole = Nanos::from_seconds(wall.fract()).0 + (wall.trunc() as u64) * 1_000_000_000;
            Stamp(whole.saturating_sub(epoch.0))
        };
        Self { from: on_clock(from), to: on_clock(to) }
    }

    fn holds(&self, from: Stamp, to: Stamp) -> bool {
        from >= self.from && to <= self.to
    }
}

/// Sums over what one or several middlewares recorded within their spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Middlewares {
    /// Workers of all of them together; of one with as many as there are clients, that many.
    pub workers: u64,
    count: u64,
    response: u128,
    queue: u128,
}

impl Middlewares {
    /// Adds windows that lie wholly within the span; the rest is counted on one side of its ends or the other.
    pub fn add_windows<'a>(&mut self, windows: impl IntoIterator<Item = &'a WindowRow>, span: Span) {
        for window in windows {
            let end = Stamp(window.start.0.saturating_add(window.length.0));
            if span.holds(window.start, end) {
                self.count += window.tally.count;
                self.response += u128::from(window.tally.response_time.0);
                self.queue += u128::from(window.tally.queue_time.0);
            }
        }
    }

    /// Adds a visit that was replied within the span.
    pub fn add_visit(&mut self, visit: &Visit, span: Span) {
        if span.holds(visit.replied, visit.replied) {
            self.count += 1;
            self.response += u128::from(visit.replied.0.saturating_sub(visit.received.0));
            self.queue += u128::from(visit.queue_time().0);
        }
    }

    /// The row of the run.
    ///
    /// # Errors
    /// [`Error::Measurements`] where nothing was recorded while the clients measured, or nobody was answered.
    pub fn row(&self, place: &str, session: &str, clients: &Clients) -> Result<Row, Error> {
        let wrong = |what: String, hint: &str| Err(Error::Measurements { what, hint: hint.into() });
        if self.count == 0 {
            return wrong(
                format!("{place}: the middleware recorded nothing while the clients measured"),
                "do both belong to one run? windows must lie wholly within what was measured: measure some seconds, or keep --rows",
            );
        }
        if clients.throughput <= 0.0 || clients.population == 0 || self.workers == 0 {
            return wrong(
                format!("{place}: no clients, no workers or no answers"),
                "leave the run out and find out why",
            );
        }
        let mean = |sum: u128| sum as f64 / self.count as f64 / 1e9;
        Ok(Row {
            place: place.to_owned(),
            session: session.to_owned(),
            population: clients.population,
            workers: self.workers,
            throughput: clients.throughput,
            response: mean(self.response),
            wait: mean(self.queue),
            client_response: Some(clients.response),
            think: clients.think,
        })
    }
}

/// The curve T(n) as it was recorded: mean hold time by workers busy at `taken`, over all operations of one or several middlewares.
pub fn hold_table<'a>(rows: impl IntoIterator<Item = &'a HoldRow>) -> Table {
    let columns =
        [("busy", Unit::Count), ("requests", Unit::Count), ("hold", Unit::Seconds), ("woken", Unit::Share)];
    let mut levels: BTreeMap<usize, (u64, u64, u64)> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.seen == Seen::BusyWorkers) {
        let level = levels.entry(row.level).or_default();
        level.0 += row.hold.count;
        level.1 = level.1.saturating_add(row.hold.hold.0);
        level.2 += if row.worker_was_idle { row.hold.count } else { 0 };
    }
    let mut table = Table::new("Hold time T(n) by workers busy, as recorded in all runs", &columns);
    for (busy, (count, sum, woken)) in levels {
        let n = count as f64;
        table.push(vec![
            (busy as f64).into(),
            n.into(),
            (sum as f64 / n / 1e9).into(),
            (woken as f64 / n).into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use krarup_record::Operation;

    use super::*;

    fn visit(received: u64, taken: u64, replied: u64) -> Visit {
        let mut visit = Visit::at(Stamp(received), Operation::Get);
        (visit.taken, visit.replied) = (Stamp(taken), Stamp(replied));
        visit
    }

    const CLIENTS: Clients = Clients { population: 8, throughput: 2.0, response: 3.0, think: 1.0 };

    #[test]
    fn only_what_was_replied_while_the_clients_measured_counts() {
        let span = Span { from: Stamp(1_000), to: Stamp(5_000) };
        let mut seen = Middlewares { workers: 4, ..Default::default() };
        for (received, taken, replied) in
            [(0, 0, 900), (500, 1_500, 2_500), (3_000, 3_000, 5_000), (4_000, 4_100, 5_001)]
        {
            seen.add_visit(&visit(received, taken, replied), span);
        }
        let row = seen.row("a", "", &CLIENTS).unwrap();
        assert!((row.response - 2_000e-9).abs() < 1e-18 && (row.wait - 500e-9).abs() < 1e-18, "{row:?}");
        assert_eq!((row.population, row.workers, row.client_response), (8, 4, Some(3.0)));
        let nothing = Middlewares { workers: 4, ..Default::default() }.row("a", "", &CLIENTS);
        assert!(nothing.unwrap_err().to_string().contains("recorded nothing"));
    }

    #[test]
    fn wall_times_meet_the_middlewares_clock() {
        let epoch = Nanos(1_795_000_000_250_000_000);
        let span = Span::between(1_795_000_001.5, 1_795_000_003.0, epoch);
        let near = |stamp: Stamp, expected: u64| stamp.0.abs_diff(expected) < 1_000;
        assert!(near(span.from, 1_250_000_000) && near(span.to, 2_750_000_000), "{span:?}");
    }
}
