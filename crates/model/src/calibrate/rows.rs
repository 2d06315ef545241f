//! Measured rows, and the laws that tell when they cannot be true.

use std::collections::BTreeMap;

use csv::{ReaderBuilder, StringRecord, Trim};
use krarup_units::{Seconds, Unit};
use serde::{Deserialize, Serialize};

use super::uses::ResourceUse;
use crate::Error;
use crate::laws::{self, LawCheck};

/// One measured configuration of a closed system: means over a steady part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationRow {
    /// Where it comes from: a line of the file, a run, a trial.
    pub place: String,
    /// The session it was measured in; rows of one configuration in several sessions must agree.
    pub session: String,
    /// N, clients.
    pub population: u64,
    /// M, workers of all middlewares together.
    pub workers: u64,
    /// X, requests per second, all middlewares together.
    pub throughput: f64,
    /// R at the middleware.
    pub response: Seconds,
    /// w, the wait for a worker, at the middleware.
    pub wait: Seconds,
    /// R as the clients measured it.
    pub client_response: Option<Seconds>,
    /// Z of the clients, if they think.
    pub think: Seconds,
    /// Cores of a middleware, where they are given.
    #[serde(default)]
    pub cores: Option<u32>,
    /// Percentiles of the response time at the clients, where they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<ResponsePercentiles>,
    /// Half the width of the interval of X over X, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
    /// X in the second half of the measured part over X in the first half, less 1, where it is
    /// known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<f64>,
    /// What was in use meanwhile of things that there is only so much of, as far as it was watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uses: Vec<ResourceUse>,
}

/// Percentiles of the response time as the clients measured it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResponsePercentiles {
    /// The median.
    pub p50: Seconds,
    /// Nine of ten are below.
    pub p90: Seconds,
    /// 99 of 100 are below.
    pub p99: Seconds,
}

impl ResponsePercentiles {
    /// The shares that are below.
    pub const SHARES: [f64; 3] = [0.5, 0.9, 0.99];

    /// The percentiles in that order.
    pub fn values(&self) -> [Seconds; 3] {
        [self.p50, self.p90, self.p99]
    }
}

impl CalibrationRow {
    /// The same of a system that is not so many times slower (`by`, above 0): times are divided by
    /// it, rates multiplied.
    pub fn scaled_back(self, by: f64) -> Self {
        let percentiles = self.percentiles.map(|ResponsePercentiles { p50, p90, p99 }| ResponsePercentiles {
            p50: p50 / by,
            p90: p90 / by,
            p99: p99 / by,
        });
        Self {
            throughput: self.throughput * by,
            response: self.response / by,
            wait: self.wait / by,
            client_response: self.client_response.map(|response| response / by),
            think: self.think / by,
            percentiles,
            ..self
        }
    }

    /// A row of N clients and M workers that were answered X times a second, with nothing else
    /// known yet.
    pub fn measured(population: u64, workers: u64, throughput: f64) -> Self {
        Self {
            place: format!("N = {population}, M = {workers}"),
            session: String::new(),
            population,
            workers,
            throughput,
            response: 0.0,
            wait: 0.0,
            client_response: None,
            think: 0.0,
            cores: None,
            percentiles: None,
            half_width: None,
            drift: None,
            uses: Vec::new(),
        }
    }

    /// With R and w at the middleware.
    #[must_use]
    pub fn with_times(self, response: Seconds, wait: Seconds) -> Self {
        Self { response, wait, ..self }
    }

    /// h = R − w: how long a request held its worker.
    pub fn hold(&self) -> Seconds {
        self.response - self.wait
    }

    /// n = X·h: mean number of busy workers (Little).
    pub fn busy(&self) -> f64 {
        laws::little(self.throughput, self.hold())
    }

    /// Z = N/X − R: time outside of the middleware, what clients think included.
    pub fn outside(&self) -> Seconds {
        laws::outside(self.population as f64, self.throughput, self.response)
    }

    /// Mean response time at the clients: N/X less what they think.
    pub fn at_clients(&self) -> Seconds {
        laws::outside(self.population as f64, self.throughput, self.think)
    }
}

/// How far a row of the calibration is from the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CalibrationResidual {
    /// The row's place.
    pub place: String,
    /// Model X / measured X − 1, in the fit.
    pub throughput: f64,
    /// Model R / measured R − 1, in the fit.
    pub response: f64,
    /// The same with this row left out of the fit and of the weights; none where the rest does not
    /// suffice.
    pub held_out: Option<(f64, f64)>,
}

/// Rows whose laws are off by more than this are reported.
pub(super) const LAW_TOLERANCE: f64 = 0.03;

/// Line number and cells.
type SheetLine = (usize, StringRecord);

/// The cells of a line of CSV (RFC 4180): in quotes a comma is a letter.
fn cells(line: &str) -> StringRecord {
    let reader = ReaderBuilder::new().has_headers(false).trim(Trim::All).from_reader(line.as_bytes());
    reader.into_records().next().and_then(Result::ok).unwrap_or_default()
}

/// A CSV text with a head; lines that start with `#` are skipped.
struct Sheet {
    heads: Vec<String>,
    head_line: usize,
    lines: Vec<SheetLine>,
    /// Seconds per unit of columns that do not name theirs.
    unit: Seconds,
}

/// A column and the factor that turns its numbers into seconds, if they are times.
#[derive(Clone, Copy)]
struct Place {
    column: usize,
    scale: f64,
}

fn wrong(line: usize, what: String, hint: &str) -> Error {
    Error::Form { line: Some(line), what, hint: hint.into() }
}

impl Sheet {
    fn read(text: &str, unit: Seconds) -> Result<Self, Error> {
        let mut lines = text
            .lines()
            .enumerate()
            .map(|(i, line)| (i + 1, line.trim()))
            .filter(|(_, l)| !l.is_empty() && !l.starts_with('#'))
            .map(|(line, text)| (line, cells(text)));
        let Some((head_line, head)) = lines.next() else {
            return Err(wrong(1, "the file has no head".into(), "the first line names the columns"));
        };
        let heads = head.iter().map(str::to_lowercase).collect();
        Ok(Self { heads, head_line, lines: lines.collect(), unit })
    }

    /// The column of one of these names, with or without the unit at its end.
    fn find(&self, names: &[&str]) -> Option<Place> {
        self.heads.iter().enumerate().find_map(|(column, head)| {
            let (base, scale) = [("_ms", 1e-3), ("_us", 1e-6), ("_s", 1.0)]
                .iter()
                .find_map(|(end, scale)| head.strip_suffix(end).map(|base| (base, *scale)))
                .unwrap_or((head, self.unit));
            (names.contains(&base) || names.contains(&head.as_str())).then_some(Place { column, scale })
        })
    }

    fn need(&self, names: &[&str]) -> Result<Place, Error> {
        self.find(names).ok_or_else(|| {
            wrong(
                self.head_line,
                format!("there is no column `{}`", names[0]),
                "columns are population, workers, throughput, response, wait; times with _s, _ms or _us",
            )
        })
    }

    fn cell<'a>(&self, line: &'a SheetLine, column: usize) -> &'a str {
        line.1.get(column).unwrap_or("")
    }

    /// A number ≥ 0 as it stands.
    fn number(&self, line: &SheetLine, place: Place) -> Result<f64, Error> {
        let cell = self.cell(line, place.column);
        match cell.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
            _ => Err(wrong(
                line.0,
                format!("`{cell}` in column `{}` is not a number ≥ 0", self.heads[place.column]),
                "write plain numbers, without units",
            )),
        }
    }

    fn time(&self, line: &SheetLine, place: Place) -> Result<Seconds, Error> {
        Ok(self.number(line, place)? * place.scale)
    }

    /// A count from 1 up, where the column is there and the cell not empty.
    fn maybe_count(&self, line: &SheetLine, place: Option<Place>) -> Result<Option<u32>, Error> {
        let Some(place) = place.filter(|place| !self.cell(line, place.column).is_empty()) else {
            return Ok(None);
        };
        let number = self.number(line, place)?;
        if number < 1.0 || number.fract() > 0.0 || number > f64::from(u32::MAX) {
            let what =
                format!("`{number}` in column `{}` is no whole number from 1 up", self.heads[place.column]);
            return Err(wrong(line.0, what, "leave the cell empty where it is not known"));
        }
        Ok(Some(number as u32))
    }

    /// A number as it stands, of either sign, where the column is there and the cell not empty.
    fn maybe_number(&self, line: &SheetLine, place: Option<Place>) -> Result<Option<f64>, Error> {
        let Some(place) = place.filter(|place| !self.cell(line, place.column).is_empty()) else {
            return Ok(None);
        };
        let cell = self.cell(line, place.column);
        let number = cell.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(|| {
            let what = format!("`{cell}` in column `{}` is not a number", self.heads[place.column]);
            wrong(line.0, what, "leave the cell empty where it is not known")
        })?;
        Ok(Some(number))
    }

    /// A share, where the column is there and the cell not empty.
    fn maybe_share(&self, line: &SheetLine, place: Option<Place>, most: f64) -> Result<Option<f64>, Error> {
        let number = self.maybe_number(line, place)?;
        match number.zip(place).filter(|(number, _)| !(0.0..=most).contains(number)) {
            Some((number, place)) => {
                let what = format!("`{number}` in column `{}` is no share", self.heads[place.column]);
                Err(wrong(line.0, what, "write 0.85 for 85 %"))
            }
            None => Ok(number),
        }
    }

    /// Percentiles, where all three columns are there and their cells not empty.
    fn percentiles(
        &self,
        line: &SheetLine,
        places: [Option<Place>; 3],
    ) -> Result<Option<ResponsePercentiles>, Error> {
        let [p50, p90, p99] = places.map(|place| self.maybe_time(line, place));
        let (Some(p50), Some(p90), Some(p99)) = (p50?, p90?, p99?) else { return Ok(None) };
        if !(0.0 < p50 && p50 <= p90 && p90 <= p99) {
            let what = format!("the percentiles {p50}, {p90} and {p99} s do not rise");
            return Err(wrong(line.0, what, "p50, p90 and p99 of the response time at the clients"));
        }
        Ok(Some(ResponsePercentiles { p50, p90, p99 }))
    }

    /// A time, where the column is there and the cell not empty.
    fn maybe_time(&self, line: &SheetLine, place: Option<Place>) -> Result<Option<Seconds>, Error> {
        match place {
            Some(place) if !self.cell(line, place.column).is_empty() => self.time(line, place).map(Some),
            _ => Ok(None),
        }
    }
}

/// The largest share of a machine that is in use: clocks are read a moment apart.
const MOST_BUSY: f64 = 1.1;

/// Names of the columns that mean the same.
const POPULATION: [&str; 2] = ["population", "clients"];
const THROUGHPUT: [&str; 3] = ["throughput", "lambda", "x"];
const RESPONSE: [&str; 3] = ["response", "r_act", "r"];

/// Reads rows from CSV with a head. Lines that start with `#` are skipped.
///
/// | column | other names | |
/// |---|---|---|
/// | `population` | `clients` | N |
/// | `workers` | `wt`, multiplied by `middlewares` | M of all middlewares together |
/// | `throughput` | `lambda`, `x` | per second |
/// | `response` | `r_act`, `r` | at the middleware |
/// | `wait` | `w_act`, `w` | for a worker |
/// | `client_response` | | optional |
/// | `think` | | optional |
/// | `session` | | optional |
/// | `cores` | | of a middleware; optional |
/// | `p50`, `p90`, `p99` | | percentiles of the response time at the clients; optional |
/// | `half_width` | | of the interval of X, relative; optional |
/// | `drift` | | X in the second half over X in the first, less 1; optional |
/// | `machine_busy` | | share of the busiest machine's processors that are busy; optional |
///
/// Columns of times end in `_s`, `_ms` or `_us`; without, `unit` holds (seconds per unit).
///
/// # Errors
/// [`Error::Form`] with the line.
pub fn read_csv(text: &str, unit: Seconds, middlewares: u64) -> Result<Vec<CalibrationRow>, Error> {
    let sheet = Sheet::read(text, unit)?;
    let population = sheet.need(&POPULATION)?;
    let throughput = sheet.need(&THROUGHPUT)?;
    let response = sheet.need(&RESPONSE)?;
    let wait = sheet.need(&["wait", "w_act", "w"])?;
    let (workers, each) = match sheet.find(&["workers"]) {
        Some(workers) => (workers, 1),
        None => (sheet.need(&["workers", "wt"])?, middlewares),
    };
    let client_response = sheet.find(&["client_response"]);
    let think = sheet.find(&["think"]);
    let session = sheet.find(&["session"]);
    let cores = sheet.find(&["cores"]);
    let percentiles = [["p50"], ["p90"], ["p99"]].map(|name| sheet.find(&name));
    let (half_width, drift) = (sheet.find(&["half_width"]), sheet.find(&["drift"]));
    let machine_busy = sheet.find(&["machine_busy"]);
    sheet
        .lines
        .iter()
        .map(|line| {
            let row = CalibrationRow {
                place: format!("line {}", line.0),
                session: session.map_or_else(String::new, |place| sheet.cell(line, place.column).to_owned()),
                population: sheet.number(line, population)?.round() as u64,
                workers: (sheet.number(line, workers)?.round() as u64).saturating_mul(each),
                throughput: sheet.number(line, throughput)?,
                response: sheet.time(line, response)?,
                wait: sheet.time(line, wait)?,
                client_response: sheet.maybe_time(line, client_response)?,
                think: sheet.maybe_time(line, think)?.unwrap_or(0.0),
                cores: sheet.maybe_count(line, cores)?,
                percentiles: sheet.percentiles(line, percentiles)?,
                half_width: sheet.maybe_share(line, half_width, f64::INFINITY)?,
                drift: sheet.maybe_number(line, drift)?,
                uses: sheet
                    .maybe_share(line, machine_busy, MOST_BUSY)?
                    .map(ResourceUse::machine)
                    .into_iter()
                    .collect(),
            };
            if row.population == 0 || row.workers == 0 || row.throughput <= 0.0 || row.hold() <= 0.0 {
                return Err(wrong(
                    line.0,
                    "a row needs clients, workers, a throughput, and a response above the wait".into(),
                    "leave rows out that measured nothing",
                ));
            }
            Ok(row)
        })
        .collect()
}

/// What was measured at one population, without knowing the inside.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PopulationMeasurement {
    /// N, clients.
    pub population: u64,
    /// X, per second.
    pub throughput: f64,
    /// R, where it was measured.
    pub response: Option<Seconds>,
}

impl From<&CalibrationRow> for PopulationMeasurement {
    /// R as the clients measured it, where they did.
    fn from(row: &CalibrationRow) -> Self {
        let response = Some(row.client_response.unwrap_or(row.response));
        Self { population: row.population, throughput: row.throughput, response }
    }
}

/// Reads `population`, `throughput` and, if there, `client_response`, else `response`, from CSV, as
/// [`read_csv`] does.
///
/// # Errors
/// [`Error::Form`] with the line.
pub fn read_measured(text: &str, unit: Seconds) -> Result<Vec<PopulationMeasurement>, Error> {
    let sheet = Sheet::read(text, unit)?;
    let population = sheet.need(&POPULATION)?;
    let throughput = sheet.need(&THROUGHPUT)?;
    let (of_clients, response) = (sheet.find(&["client_response"]), sheet.find(&RESPONSE));
    let row = |line| {
        Ok(PopulationMeasurement {
            population: sheet.number(line, population)?.round() as u64,
            throughput: sheet.number(line, throughput)?,
            response: match sheet.maybe_time(line, of_clients)? {
                None => sheet.maybe_time(line, response)?,
                known => known,
            },
        })
    };
    sheet.lines.iter().map(row).collect()
}

/// The laws every row must obey, with their relative `tolerance` (0.03 lets the clocks of different
/// machines pass). Those that do not hold name the row; it should not be modelled before the reason
/// is found.
pub fn check_rows(rows: &[CalibrationRow], tolerance: f64) -> Vec<LawCheck> {
    let mut checks = Vec::new();
    for row in rows {
        let place = row.place.as_str();
        checks.push(LawCheck::at_most(
            "Little: busy workers X·(R − w) ≤ M",
            place,
            Unit::Count,
            (row.busy(), row.workers as f64),
            tolerance,
        ));
        let loop_time = row.population as f64 / row.throughput;
        match row.client_response {
            Some(client) => {
                checks.push(LawCheck::at_most(
                    "middleware R ≤ client R",
                    place,
                    Unit::Seconds,
                    (row.response, client),
                    tolerance,
                ));
                checks.push(LawCheck::equal(
                    "interactive response time law: N = X·(R + Z)",
                    place,
                    Unit::Seconds,
                    (client + row.think, loop_time),
                    tolerance,
                ));
            }
            None => checks.push(LawCheck::at_most(
                "interactive response time law: X·(R + Z) ≤ N",
                place,
                Unit::Seconds,
                (row.response + row.think, loop_time),
                tolerance,
            )),
        }
    }
    checks
}

/// Of each row, which configuration it is of, numbered as they first come; and how many there are.
pub(super) fn configurations(rows: &[CalibrationRow]) -> (Vec<usize>, usize) {
    let mut known: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    let number = |row: &CalibrationRow| {
        let next = known.len();
        *known.entry((row.population, row.workers)).or_insert(next)
    };
    let of_rows = rows.iter().map(number).collect();
    (of_rows, known.len())
}

/// Rows of the same configuration must agree, or the machine was not the same: throughputs that
/// differ by more than `tolerance` (relative to their mean; 0.1 is lenient) must not be pooled.
///
/// # Errors
/// [`Error::Measurements`] naming the rows that disagree most.
pub fn check_anchors(rows: &[CalibrationRow], tolerance: f64) -> Result<(), Error> {
    let mut same: BTreeMap<(u64, u64), Vec<&CalibrationRow>> = BTreeMap::new();
    for row in rows {
        same.entry((row.population, row.workers)).or_default().push(row);
    }
    for ((population, workers), group) in same {
        let least =
            group.iter().min_by(|a, b| a.throughput.total_cmp(&b.throughput)).expect("groups are not empty");
        let most =
            group.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput)).expect("groups are not empty");
        let mean = group.iter().map(|r| r.throughput).sum::<f64>() / group.len() as f64;
        if most.throughput - least.throughput > tolerance * mean {
            return Err(Error::Measurements {
                what: format!(
                    "the same configuration (N = {population}, M = {workers}) gave {:.1}/s ({} {}) and {:.1}/s ({} {})",
                    least.throughput, least.place, least.session, most.throughput, most.place, most.session
                ),
                hint: "the system changed between these runs, or they differ in something else than clients and workers: calibrate each session, and each such configuration, by itself".into(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(population: u64, workers: u64, throughput: f64, response: f64, wait: f64) -> CalibrationRow {
        CalibrationRow::measured(population, workers, throughput).with_times(response, wait)
    }

    #[test]
    fn columns_may_carry_their_unit_or_take_the_default() {
        let text = "# a comment\nclients,wt,x,response_us,w\n6,8,2840.73,1310,0.06\n";
        let rows = read_csv(text, 1e-3, 2).unwrap();
        assert_eq!(rows[0].workers, 16);
        assert!((rows[0].response - 1.31e-3).abs() < 1e-12 && (rows[0].wait - 6e-5).abs() < 1e-15);
        assert!((rows[0].busy() - 2840.73 * 1.25e-3).abs() < 1e-9);
    }

    /// As R writes the head, and as pandas does a label with a comma in it.
    #[test]
    fn what_stands_in_quotes_is_one_cell() {
        let plain = "population,workers,throughput,response_ms,wait_ms\n1,3,186,5.387,0\n";
        let rows = read_csv(plain, 1.0, 1).unwrap();
        for quoted in [
            "\"population\",\"workers\",\"throughput\",\"response_ms\",\"wait_ms\"\n1,3,186,5.387,0\n",
            "mix,population,workers,throughput,response_ms,wait_ms\n\"reads, small\",1,3,\"186\", 5.387 ,0\n",
        ] {
            assert_eq!(read_csv(quoted, 1.0, 1).unwrap(), rows, "{quoted}");
            let measured = read_measured(quoted, 1.0).unwrap();
            assert_eq!((measured[0].population, measured[0].throughput), (1, 186.0));
        }
    }

    /// Who is where stays: X·R and X·w are numbers of requests.
    #[test]
    fn a_row_of_a_slower_system_is_scaled_back() {
        let percentiles = Some(ResponsePercentiles { p50: 0.1, p90: 0.2, p99: 0.4 });
        let client_response = Some(0.5);
        let slow = CalibrationRow { think: 0.08, client_response, percentiles, ..row(8, 4, 10.0, 0.4, 0.1) };
        let shown = slow.clone().scaled_back(8.0);
        let times = (shown.throughput, shown.response, shown.wait, shown.think, shown.client_response);
        assert_eq!(times, (80.0, 0.05, 0.0125, 0.01, Some(0.0625)));
        assert_eq!(shown.percentiles.map(|all| all.values()), Some([0.0125, 0.025, 0.05]));
        assert_eq!(shown.busy(), slow.busy());
    }

    /// As of rows that have everything.
    #[test]
    fn what_clients_measured_is_their_response_time() {
        let text = "population,workers,x,r,w,client_response\n6,8,500,0.01,0,0.012\n6,8,500,0.01,0,\n";
        let measured = read_measured(text, 1.0).unwrap();
        assert_eq!([0, 1].map(|row| measured[row].response), [Some(0.012), Some(0.01)]);
        let rows = read_csv(text, 1.0, 1).unwrap();
        assert_eq!(rows.iter().map(PopulationMeasurement::from).collect::<Vec<_>>(), measured);
    }

    #[test]
    fn a_bad_cell_is_named_with_its_line() {
        let error = read_csv("population,workers,x,r,w\n1,1,5,0.1,0\n2,1,fast,0.1,0\n", 1.0, 1).unwrap_err();
        assert_eq!(error.to_string(), "line 3: `fast` in column `x` is not a number ≥ 0");
        assert!(read_csv("population,workers,x,w\n", 1.0, 1).unwrap_err().to_string().contains("`response`"));
    }

    #[test]
    fn a_share_that_is_none_is_refused() {
        let read = |busy: &str, half_width: &str| {
            let head = "population,workers,x,r,w,machine_busy,half_width\n";
            read_csv(&format!("{head}1,1,5,0.1,0,{busy},{half_width}\n"), 1.0, 1)
                .map_err(|why| why.to_string())
        };
        let rows = read("1.02", "0.03").unwrap();
        assert_eq!((rows[0].uses[0].share, rows[0].half_width), (1.02, Some(0.03)));
        assert!(read("", "").is_ok());
        assert_eq!(read("85", "0.03"), Err("line 2: `85` in column `machine_busy` is no share".to_owned()));
        assert!(read("-0.1", "0.03").is_err() && read("0.85", "-0.03").is_err());
    }

    /// The 2018 report's table 5, GET in experiment 3.2: the middleware is slower than the client
    /// that waits for it.
    #[test]
    fn a_middleware_slower_than_its_client_is_caught() {
        let mut slow = row(192, 128, 2_929.16, 69.02e-3, 20.6e-3);
        slow.client_response = Some(65.92e-3);
        let broken: Vec<_> = check_rows(&[slow], 0.03).into_iter().filter(|c| !c.holds).collect();
        assert!(broken.iter().any(|c| c.law.starts_with("middleware R")), "{broken:?}");
    }

    #[test]
    fn more_busy_workers_than_there_are_is_caught() {
        let broken = check_rows(&[row(100, 8, 1_000.0, 0.02, 0.01)], 0.03);
        assert!(!broken[0].holds && broken[0].law.starts_with("Little"));
    }

    #[test]
    fn runs_that_disagree_are_not_pooled() {
        let mut other = row(192, 128, 20_000.0, 8e-3, 1e-3);
        other.session = "other machines".into();
        let rows = [row(192, 128, 11_100.0, 15e-3, 1e-3), other];
        let error = check_anchors(&rows, 0.1).unwrap_err();
        assert!(error.to_string().contains("other machines"), "{error}");
        assert!(check_anchors(&rows[..1], 0.1).is_ok());
    }
}
