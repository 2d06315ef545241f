//! From records of a run to a row: what the middleware wrote down while the clients measured.
//!
//! ```text
//!   clients      ├── warm-up ──┤■■■■■■■■ measured ■■■■■■■■├── cool-down ──┤      X, client R, N, Z
//!   middleware   │ visit visit │ visit visit visit visit  │ visit visit   │      R, w of those replied within
//! ```
//! Both sides' clocks meet in the wall clock that stands in their files.

use std::collections::BTreeMap;

use krarup_record::holds::{HoldRow, Seen};
use krarup_record::{Operation, ServerVisit, Visit, VisitTally, WindowRow};
use krarup_record::{quantities, stamps};
use krarup_units::Unit;
use krarup_units::{Nanos, Seconds, Stamp};

use super::rows::CalibrationRow;
use super::uses::{BoundedResource, ResourceUse};
use crate::Error;
use crate::table::{ResultTable, TableCell};

/// What the clients of a run measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientMeasurements {
    /// N.
    pub population: u64,
    /// X, requests per second, those that failed too: they are in N and R as others are.
    pub throughput: f64,
    /// R at the clients.
    pub response: Seconds,
    /// Z.
    pub think: Seconds,
}

impl ClientMeasurements {
    /// The row of a run in which nothing between clients and servers was recorded: all of it is one
    /// station, which takes each request as it comes. Each client has a worker then, none waits for
    /// one, and the time outside is what clients think. `cores` are those of the middleware, where
    /// they are known.
    ///
    /// # Errors
    /// [`Error::Measurements`] where no request was answered.
    pub fn row(&self, place: &str, cores: Option<u32>) -> Result<CalibrationRow, Error> {
        let row = CalibrationRow::measured(self.population, self.population, self.throughput);
        let row = CalibrationRow {
            place: place.to_owned(),
            client_response: Some(self.response),
            think: self.think,
            cores,
            ..row
        };
        let inside = row.at_clients();
        if !inside.is_finite() || inside <= 0.0 || self.population == 0 {
            return Err(Error::Measurements {
                what: format!("{place}: no clients or no answers"),
                hint: "leave the run out and find out why".into(),
            });
        }
        Ok(row.with_times(inside, 0.0))
    }
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

    /// Whether a window lies wholly in it.
    pub fn covers(&self, window: &WindowRow) -> bool {
        self.holds(window.start, Stamp(window.start.0.saturating_add(window.length.0)))
    }

    fn holds(&self, from: Stamp, to: Stamp) -> bool {
        from >= self.from && to <= self.to
    }
}

/// Sums over what one or several middlewares recorded within their spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Middlewares {
    /// Workers of all of them together, but of those without a limit.
    pub workers: u64,
    /// Whether one of them takes each request as it comes: every client has a worker then.
    pub unlimited: bool,
    /// Cores of one of them, where it wrote them down.
    pub cores: Option<u32>,
    /// Whether a worker is free when the servers have answered, and not only when the reply has
    /// left: what comes after it, and before the queue, is then outside.
    pub free_when_answered: bool,
    count: u64,
    response: u128,
    queue: u128,
}

impl Middlewares {
    /// Adds windows that lie wholly within the span; the rest is counted on one side of its ends or
    /// the other.
    pub fn add_windows<'a>(&mut self, windows: impl IntoIterator<Item = &'a WindowRow>, span: Span) {
        for window in windows {
            if span.covers(window) {
                self.count += window.tally.count;
                let VisitTally { response_time, queue_time, server_time, .. } = window.tally;
                self.response += self.until_free(queue_time, server_time, response_time);
                self.queue += u128::from(window.tally.queue_time.0);
            }
        }
    }

    /// From when requests came until their workers were free.
    fn until_free(&self, queue: Nanos, server: Nanos, response: Nanos) -> u128 {
        if self.free_when_answered {
            u128::from(queue.0) + u128::from(server.0)
        } else {
            u128::from(response.0)
        }
    }

    /// Adds a visit that was replied within the span, and what servers had of it.
    pub fn add_visit(&mut self, visit: &Visit, servers: &[ServerVisit], span: Span) {
        if span.holds(visit.replied, visit.replied) {
            let parts = visit.parts(servers);
            self.count += 1;
            let response = Nanos(visit.replied.0.saturating_sub(visit.received.0));
            self.response += self.until_free(parts.queue, parts.server, response);
            self.queue += u128::from(visit.queue_time().0);
        }
    }

    /// The row of the run.
    ///
    /// # Errors
    /// [`Error::Measurements`] where nothing was recorded while the clients measured, or no request
    /// was answered.
    pub fn row(
        &self,
        place: &str,
        session: &str,
        clients: &ClientMeasurements,
    ) -> Result<CalibrationRow, Error> {
        let wrong = |what: String, hint: &str| Err(Error::Measurements { what, hint: hint.into() });
        if self.count == 0 {
            return wrong(
                format!("{place}: the middleware recorded nothing while the clients measured"),
                "do both belong to one run? windows must lie wholly within what was measured: measure some seconds, or keep --rows of all keys",
            );
        }
        let workers = if self.unlimited { clients.population } else { self.workers };
        if clients.throughput <= 0.0 || clients.population == 0 || workers == 0 {
            return wrong(
                format!("{place}: no clients, no workers or no answers"),
                "leave the run out and find out why",
            );
        }
        let mean = |sum: u128| sum as f64 / self.count as f64 / 1e9;
        Ok(CalibrationRow {
            place: place.to_owned(),
            session: session.to_owned(),
            population: clients.population,
            workers,
            throughput: clients.throughput,
            response: mean(self.response),
            wait: mean(self.queue),
            client_response: Some(clients.response),
            think: clients.think,
            cores: self.cores,
            ..CalibrationRow::measured(clients.population, workers, clients.throughput)
        })
    }
}

/// Busy workers' time by the utilization law: in each window Σ hold time / length is the mean
/// number of busy workers, and the demand of each operation is what it adds to that per request and
/// second. Windows of all runs, one column for each operation.
///
/// # Errors
/// [`Error::Measurements`] where the windows do not determine the demands (too few, or operations
/// always in the same mix).
pub fn demand_table(windows: &[WindowRow]) -> Result<ResultTable, Error> {
    let columns = [
        ("operation", Unit::Text),
        quantities::SERVICE_DEMAND.column(),
        ("measured", Unit::Seconds),
        ("windows", Unit::Count),
    ];
    let mut names: Vec<Operation> = windows.iter().map(|row| row.operation).collect();
    names.sort_unstable();
    names.dedup();
    let held = |tally: &VisitTally| tally.response_time.0.saturating_sub(tally.queue_time.0) as f64 / 1e9;
    // Runs may share starts on clocks of their own: a window ends where an operation comes again or
    // the start changes.
    let mut busy: Vec<f64> = Vec::new();
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    let mut last = None;
    for row in windows.iter().filter(|row| !row.folded && row.length.0 > 0) {
        let length = row.length.as_seconds();
        let place = names.iter().position(|name| *name == row.operation).expect("all names were gathered");
        if last != Some(row.start) || rates[place].last().is_some_and(|rate| *rate > 0.0) {
            busy.push(0.0);
            rates.iter_mut().for_each(|rates| rates.push(0.0));
            last = Some(row.start);
        }
        let here = busy.len() - 1;
        busy[here] += held(&row.tally) / length;
        rates[place][here] += row.tally.count as f64 / length;
    }
    let labels: Vec<&str> = names.iter().map(|name| name.name()).collect();
    let fit = super::demands(&busy, &rates, &labels)?;
    let mut table = ResultTable::new("Demands on a worker, by the utilization law (± at 95 %)", &columns);
    for name in &names {
        let mut all = VisitTally::EMPTY;
        windows.iter().filter(|row| row.operation == *name).for_each(|row| all.merge(&row.tally));
        let estimate = fit.coefficient(name.name()).map(|coefficient| coefficient.estimate);
        table.push(vec![
            name.name().into(),
            estimate.map_or(TableCell::Empty, |estimate| TableCell::Estimate {
                value: estimate.value,
                interval: Some((estimate.interval.low, estimate.interval.high)),
                n: busy.len() as u64,
            }),
            (held(&all) / all.count as f64).into(),
            (busy.len() as f64).into(),
        ]);
    }
    Ok(table)
}

/// How many requests of the mean size a link of `bits_per_second` carries, in and out.
fn carried(tally: &VisitTally, bits_per_second: f64) -> [f64; 2] {
    [tally.bytes_in, tally.bytes_out].map(|bytes| {
        super::Wire::TCP.limit(bits_per_second, (bytes as f64 / tally.count as f64).round() as u64)
    })
}

/// Bytes of a request and its reply, and how many of them a link of `bits_per_second` carries each
/// way, headers counted.
pub fn link_table(windows: &[WindowRow], bits_per_second: f64) -> ResultTable {
    let columns = [
        ("operation", Unit::Text),
        ("bytes in", Unit::Count),
        ("bytes out", Unit::Count),
        ("link carries in", Unit::PerSecond),
        ("link carries out", Unit::PerSecond),
    ];
    let mut tallies: BTreeMap<Operation, VisitTally> = BTreeMap::new();
    windows
        .iter()
        .for_each(|row| tallies.entry(row.operation).or_insert(VisitTally::EMPTY).merge(&row.tally));
    let mut table = ResultTable::new("What a link carries, TCP and IP headers counted", &columns);
    for (operation, tally) in tallies.iter().filter(|(_, tally)| tally.count > 0) {
        let mean = |bytes: u64| bytes as f64 / tally.count as f64;
        let [carries_in, carries_out] = carried(tally, bits_per_second);
        table.push(vec![
            operation.name().into(),
            mean(tally.bytes_in).into(),
            mean(tally.bytes_out).into(),
            carries_in.into(),
            carries_out.into(),
        ]);
    }
    table
}

/// Adds what each row used of links that carry `bits_per_second` together, by the bytes of the
/// recorded requests and replies with their headers: of the way with more.
pub fn add_link_use(rows: &mut [CalibrationRow], windows: &[WindowRow], bits_per_second: f64) {
    let mut all = VisitTally::EMPTY;
    windows.iter().for_each(|row| all.merge(&row.tally));
    if all.count == 0 {
        return;
    }
    let limit = carried(&all, bits_per_second).into_iter().fold(f64::INFINITY, f64::min);
    let resource = BoundedResource::Link("the middlewares".into());
    for row in rows {
        row.uses.push(ResourceUse { resource: resource.clone(), share: row.throughput / limit });
    }
}

/// The curve T(n) as it was recorded: mean hold time by workers busy at `taken`, over all
/// operations. Where each run had several middlewares it is no T(n) of all: each saw its own
/// workers.
pub fn hold_table<'a>(rows: impl IntoIterator<Item = &'a HoldRow>, middlewares: usize) -> ResultTable {
    let columns = [
        ("busy", Unit::Count),
        ("requests", Unit::Count),
        stamps::HOLD_TIME.column(),
        ("woken", Unit::Share),
    ];
    let mut levels: BTreeMap<usize, (u64, u64, u64)> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.seen == Seen::BusyWorkers) {
        let level = levels.entry(row.level).or_default();
        level.0 += row.hold.count;
        level.1 = level.1.saturating_add(row.hold.hold.0);
        level.2 += if row.worker_was_idle { row.hold.count } else { 0 };
    }
    let title = if middlewares > 1 {
        "Hold time by workers busy of one middleware, as recorded in all runs"
    } else {
        "Hold time T(n) by workers busy, as recorded in all runs"
    };
    let mut table = ResultTable::new(title, &columns);
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
    use super::*;

    fn visit(received: u64, taken: u64, replied: u64) -> Visit {
        let mut visit = Visit::at(Stamp(received), Operation::Get);
        (visit.taken, visit.replied) = (Stamp(taken), Stamp(replied));
        visit
    }

    const CLIENTS: ClientMeasurements =
        ClientMeasurements { population: 8, throughput: 2.0, response: 3.0, think: 1.0 };

    #[test]
    fn only_what_was_replied_while_the_clients_measured_counts() {
        let span = Span { from: Stamp(1_000), to: Stamp(5_000) };
        let mut seen = Middlewares { workers: 4, ..Default::default() };
        for (received, taken, replied) in
            [(0, 0, 900), (500, 1_500, 2_500), (3_000, 3_000, 5_000), (4_000, 4_100, 5_001)]
        {
            seen.add_visit(&visit(received, taken, replied), &[], span);
        }
        let row = seen.row("a", "", &CLIENTS).unwrap();
        assert!((row.response - 2_000e-9).abs() < 1e-18 && (row.wait - 500e-9).abs() < 1e-18, "{row:?}");
        assert_eq!((row.population, row.workers, row.client_response), (8, 4, Some(3.0)));
        let nothing = Middlewares { workers: 4, ..Default::default() }.row("a", "", &CLIENTS);
        assert!(nothing.unwrap_err().to_string().contains("recorded nothing"));
    }

    /// However many of them limit nothing, and whatever others do.
    #[test]
    fn without_a_limit_each_client_has_one_worker() {
        let span = Span { from: Stamp(0), to: Stamp(5_000) };
        for workers in [0, 4, 64] {
            let mut seen = Middlewares { workers, unlimited: true, ..Default::default() };
            seen.add_visit(&visit(0, 0, 1_000), &[], span);
            assert_eq!(seen.row("a", "", &CLIENTS).unwrap().workers, CLIENTS.population);
        }
    }

    #[test]
    fn levels_of_several_middlewares_are_of_one() {
        let title = |middlewares| hold_table(None::<&HoldRow>, middlewares).title;
        assert!(title(1).contains("T(n)"), "{}", title(1));
        assert!(title(2).contains("of one middleware") && !title(2).contains("T(n)"), "{}", title(2));
    }

    /// Each request is under way in all of the system, or its client thinks.
    #[test]
    fn without_records_the_row_is_of_what_clients_see() {
        let clients = ClientMeasurements { population: 8, throughput: 1_000.0, response: 6e-3, think: 2e-3 };
        let row = clients.row("a", Some(1)).unwrap();
        assert_eq!((row.population, row.workers, row.cores, row.wait), (8, 8, Some(1), 0.0));
        assert!((row.busy() - 6.0).abs() < 1e-9 && (row.outside() - 2e-3).abs() < 1e-12, "{row:?}");
        assert_eq!(row.client_response, Some(6e-3));
        for clients in [
            ClientMeasurements { throughput: 0.0, ..clients },
            ClientMeasurements { think: 9e-3, ..clients },
            ClientMeasurements { population: 0, ..clients },
        ] {
            assert!(clients.row("a", None).is_err(), "{clients:?}");
        }
    }

    /// Own time before the queue and after the answer, 300 of 1,000 ns, is outside.
    #[test]
    fn a_connection_is_held_until_the_database_has_answered() {
        let span = Span { from: Stamp(0), to: Stamp(5_000) };
        let mut visit = visit(0, 400, 1_000);
        visit.queued = Stamp(200);
        let servers = [ServerVisit::ok(0, Stamp(400), Stamp(900))];
        for (free_when_answered, response) in [(false, 1_000e-9), (true, 700e-9)] {
            let mut seen = Middlewares { workers: 4, free_when_answered, ..Default::default() };
            seen.add_visit(&visit, &servers, span);
            let tally = VisitTally {
                count: 1,
                response_time: Nanos(1_000),
                queue_time: Nanos(200),
                server_time: Nanos(500),
                own_time: Nanos(300),
                ..VisitTally::EMPTY
            };
            let [row, _] = window(0, 1, 1);
            seen.add_windows(&[WindowRow { start: Stamp(0), length: Nanos(1_000), tally, ..row }], span);
            let row = seen.row("a", "", &CLIENTS).unwrap();
            assert!((row.response - response).abs() < 1e-18 && (row.wait - 200e-9).abs() < 1e-18, "{row:?}");
        }
    }

    #[test]
    fn wall_times_meet_the_middlewares_clock() {
        let epoch = Nanos(1_795_000_000_250_000_000);
        let span = Span::between(1_795_000_001.5, 1_795_000_003.0, epoch);
        let near = |stamp: Stamp, expected: u64| stamp.0.abs_diff(expected) < 1_000;
        assert!(near(span.from, 1_250_000_000) && near(span.to, 2_750_000_000), "{span:?}");
    }

    /// A window in which so many gets and sets held workers for 1 ms and 4 ms each.
    fn window(start: u64, gets: u64, sets: u64) -> [WindowRow; 2] {
        let row = |operation, count: u64, hold: u64| {
            let (bytes_out, queue) = (if operation == Operation::Get { 4_132 } else { 8 }, 300);
            let tally = VisitTally {
                count,
                response_time: Nanos(count * (hold + queue)),
                queue_time: Nanos(count * queue),
                bytes_in: count * 40,
                bytes_out: count * bytes_out,
                ..VisitTally::EMPTY
            };
            let (start, length) = (Stamp(start * 1_000_000_000), Nanos(1_000_000_000));
            WindowRow { start, length, folded: false, operation, tally }
        };
        [row(Operation::Get, gets, 1_000_000), row(Operation::Set, sets, 4_000_000)]
    }

    #[test]
    fn demands_follow_from_windows_of_different_mixes() {
        let windows: Vec<WindowRow> = [(0, 100, 50), (1, 300, 20), (2, 200, 90), (2, 50, 50), (3, 10, 400)]
            .into_iter()
            .flat_map(|(s, g, w)| window(s, g, w))
            .collect();
        let table = demand_table(&windows).unwrap();
        for (row, demand) in table.rows.iter().zip([1e-3, 4e-3]) {
            let (TableCell::Estimate { value, n, .. }, TableCell::Number(measured)) = (&row[1], &row[2])
            else {
                panic!("{row:?}")
            };
            assert!(
                (value / demand - 1.0).abs() < 1e-9 && (measured / demand - 1.0).abs() < 1e-9 && *n == 5,
                "{row:?}"
            );
        }
        let same_mix: Vec<WindowRow> = (0..5).flat_map(|s| window(s, 100 + s, 2 * (100 + s))).collect();
        assert!(demand_table(&same_mix).unwrap_err().hint().unwrap().contains("mixes"));
    }

    #[test]
    fn rows_use_a_link_as_far_as_their_bytes_go() {
        let mut rows = vec![CalibrationRow::measured(8, 4, 1_472.0)];
        add_link_use(&mut rows, &[], 101e6);
        assert!(rows[0].uses.is_empty());
        // Gets alone: 4,132 bytes each to the clients.
        add_link_use(&mut rows, &window(0, 10, 10)[..1], 101e6);
        assert!((rows[0].uses[0].share - 0.5).abs() < 1e-3, "{rows:?}");
    }

    #[test]
    fn a_link_carries_what_its_headers_leave() {
        let table = link_table(&window(0, 10, 10), 101e6);
        let [Some(get), Some(_)] = table.numbers("link carries out")[..] else { panic!("{table:?}") };
        assert!((get / 2_944.0 - 1.0).abs() < 1e-3, "{get}");
    }
}
