//! The tables, cell by cell.

use krarup_model::laws;
use krarup_model::single::{self, ClassStation};
use krarup_model::station;

/// Rows of a CSV file by column name.
pub(crate) struct Csv {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Csv {
    pub(crate) fn read(text: &str) -> Self {
        let mut lines = text
            .lines()
            .filter(|l| !l.starts_with('#') && !l.is_empty())
            .map(|l| l.split(',').map(str::to_owned).collect::<Vec<_>>());
        Self { heads: lines.next().expect("a head"), rows: lines.collect() }
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = Line<'_>> {
        self.rows.iter().map(|cells| Line { heads: &self.heads, cells })
    }
}

/// One row.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    heads: &'a [String],
    cells: &'a [String],
}

impl Line<'_> {
    pub(crate) fn text(&self, column: &str) -> &str {
        let place =
            self.heads.iter().position(|h| h == column).unwrap_or_else(|| panic!("no column {column}"));
        &self.cells[place]
    }

    pub(crate) fn printed(&self, column: &str) -> Printed {
        Printed::new(self.text(column))
    }

    pub(crate) fn value(&self, column: &str) -> f64 {
        self.printed(column).value
    }
}

/// A number as printed: it can have been anything within half a unit of its last digit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Printed {
    pub(crate) value: f64,
    pub(crate) half: f64,
}

impl Printed {
    pub(crate) fn new(text: &str) -> Self {
        let value = text.parse().unwrap_or_else(|_| panic!("{text} is no number"));
        let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
        Self { value, half: 0.5 * 10_f64.powi(-(digits as i32)) }
    }

    /// Digits cut off instead of rounded: up to a whole unit more (away from zero).
    pub(crate) fn cut(self) -> Self {
        Self { value: self.value, half: 2.0 * self.half }
    }

    fn ends(self) -> [f64; 2] {
        [self.value - self.half, self.value + self.half]
    }
}

/// What a function of printed inputs can have been: over all corners of their rounding.
pub(crate) fn range(inputs: &[Printed], of: impl Fn(&[f64]) -> f64) -> (f64, f64) {
    let mut range = (f64::INFINITY, f64::NEG_INFINITY);
    for corner in 0..1_usize << inputs.len() {
        let values: Vec<f64> = inputs.iter().enumerate().map(|(i, p)| p.ends()[corner >> i & 1]).collect();
        let value = of(&values);
        range = (range.0.min(value), range.1.max(value));
    }
    range
}

/// One table and how well it is reproduced.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) by: &'static str,
    pub(crate) cells: usize,
    /// Largest relative distance between a printed number and what the inputs can have been, beyond
    /// both roundings.
    pub(crate) excess: f64,
    pub(crate) worst: String,
    /// Cells that are wrong in print, by the number of the error.
    pub(crate) wrong: &'static str,
    /// How far a cell may be off: 0 is to the printed digits.
    pub(crate) allowed: f64,
}

impl Table {
    fn new(name: &'static str, by: &'static str) -> Self {
        Self { name, by, cells: 0, excess: 0.0, worst: String::new(), wrong: "", allowed: 0.0 }
    }

    fn cell(&mut self, place: &str, printed: Printed, (low, high): (f64, f64)) {
        self.cells += 1;
        // A hair for the arithmetic of the printed half units.
        let hair = 1e-9 * printed.value.abs() + 1e-12;
        let beyond = (printed.value - printed.half - high).max(low - printed.value - printed.half) - hair;
        let relative = beyond / printed.value.abs().max(printed.half);
        if beyond.is_nan() || relative > self.excess {
            self.excess = relative;
            self.worst = format!("{place}: printed {}, recomputed {low} to {high}", printed.value);
        }
    }

    pub(crate) fn assert(&self) {
        assert!(
            self.cells > 0 && self.excess <= self.allowed,
            "{}: {} off by {}",
            self.name,
            self.worst,
            self.excess
        );
    }
}

pub(crate) fn all() -> Vec<Table> {
    vec![
        t7_of_2018(),
        t12_of_2018(),
        t13_of_2018(),
        t14_of_2018(),
        t1_of_2016(),
        t2_of_2016(),
        t3_of_2016(),
        t4_of_2016(),
        interactive_law_of_2016(),
        utilizations_of_2015(),
        t5_of_2015(),
        interactive_law_of_2015(),
    ]
}

/// X = jobs in the middlewares / R: two queues, and the workers at memcached.
pub(crate) fn t7_of_2018() -> Table {
    let mut table = Table::new("2018, table 7: interactive law", "X = (2·queue + X·T_memcached) / R");
    let responses = Csv::read(include_str!("../../data/000_t12_mm1.csv"));
    for line in Csv::read(include_str!("../../data/000_t07_exp4_max.csv")).rows() {
        let same =
            |l: &Line<'_>| l.text("clients") == line.text("clients") && l.text("wt") == line.text("wt");
        let response = responses.rows().find(same).expect("the same row of table 12").printed("r_act");
        let inputs =
            [line.printed("queue_size"), line.printed("x_mw"), line.printed("memcached_ms"), response];
        let x = range(&inputs, |i| (2.0 * i[0] + laws::little(i[1], i[2] / 1e3)) / (i[3] / 1e3));
        table.cell(line.text("wt"), line.printed("x_il"), x);
    }
    table
}

pub(crate) fn t12_of_2018() -> Table {
    let mut table = Table::new("2018, table 12: M/M/1", "`station::mm1`");
    for line in Csv::read(include_str!("../../data/000_t12_mm1.csv")).rows() {
        let inputs = [line.printed("lambda"), line.printed("mu")];
        let place = format!("N = {}, WT = {}", line.text("clients"), line.text("wt"));
        for (column, of) in [
            ("rho", (|s| s.utilization) as fn(&station::OpenStation) -> f64),
            ("nq_est", |s| s.waiting),
            ("w_est", |s| s.wait * 1e3),
            ("r_est", |s| s.response * 1e3),
            ("n_est", |s| s.present),
        ] {
            let found = range(&inputs, |i| of(&station::mm1(i[0], 1.0 / i[1]).expect("stable")));
            // ρ is printed with its digits cut off: 0.9991 as 1.00, but 0.9955 as 0.99.
            let printed = line.printed(column);
            table.cell(
                &format!("{place}, {column}"),
                if column == "rho" { printed.cut() } else { printed },
                found,
            );
        }
    }
    table
}

pub(crate) fn t13_of_2018() -> Table {
    let mut table = Table::new("2018, table 13: M/M/m", "`station::mmm`, μ of table 12 / m, not rounded");
    let single = Csv::read(include_str!("../../data/000_t12_mm1.csv"));
    for (line, mm1) in Csv::read(include_str!("../../data/000_t13_mmm.csv")).rows().zip(single.rows()) {
        let servers = 2 * line.value("wt") as u32;
        let inputs = [line.printed("lambda"), mm1.printed("mu")];
        let place = format!("N = {}, WT = {}", line.text("clients"), line.text("wt"));
        for (column, of) in [
            ("rho", (|s| s.utilization) as fn(&station::OpenStation) -> f64),
            ("nq_est", |s| s.waiting),
            ("w_est", |s| s.wait * 1e3),
            ("r_est", |s| s.response * 1e3),
            ("n_est", |s| s.present),
            ("p_queueing", |s| s.delayed),
            ("p0", |s| s.empty),
            ("U", |s| s.utilization),
        ] {
            let found = range(&inputs, |i| {
                of(&station::mmm(i[0], f64::from(servers) / i[1], servers).expect("stable"))
            });
            let printed = line.printed(column);
            let cut = column == "rho" || column == "U";
            table.cell(&format!("{place}, {column}"), if cut { printed.cut() } else { printed }, found);
        }
    }
    table
}

/// The networks of table 14: two delays, net thread, workers, memcached; `net` is 1/S_net of all
/// middlewares.
pub(crate) fn network_of_2018(middlewares: u32, set: bool, net: f64) -> Vec<ClassStation> {
    let worker = match (middlewares, set) {
        (1, false) => 1.094_205e-3,
        (1, true) => 0.172_963e-3,
        (_, false) => 0.256_949e-3,
        (_, true) => 0.109_886e-3,
    };
    let server = if set { 1.0 / 16_335.0 } else { 1.0 / 2_940.0 };
    let mut stations = vec![ClassStation::delay("delay", 0.3e-3), ClassStation::delay("delay", 0.3e-3)];
    for _ in 0..middlewares {
        let visits = 1.0 / f64::from(middlewares);
        stations.push(ClassStation::fixed("netthread", visits * f64::from(middlewares) / net));
        stations.push(ClassStation::servers("worker", visits * worker, 64));
    }
    stations.push(ClassStation::fixed("memcached", server));
    stations
}

/// 1/S_net that the printed throughputs need: 11545 with one middleware (E3), 15310 with two.
pub(crate) fn net_of_2018(middlewares: u32) -> f64 {
    if middlewares == 1 { 11_545.0 } else { 15_310.0 }
}

pub(crate) fn t14_of_2018() -> Table {
    let mut table = Table::new("2018, table 14: mean value analysis", "`single::solve`, 1/S_net = 11545");
    table.wrong = "E1, E2, E3";
    // S_net, S_worker and S_server are printed rounded, but not by how much.
    table.allowed = 0.006;
    let solve = |middlewares: u32, set: bool| {
        single::solve(&network_of_2018(middlewares, set, net_of_2018(middlewares)), 0.0, 192)
            .expect("solvable")
    };
    for line in Csv::read(include_str!("../../data/000_t14_mva_x.csv")).rows() {
        let sweep = solve(line.value("mw") as u32, line.text("type") == "SET");
        let x = sweep.throughput(line.value("clients") as usize);
        table.cell(&format!("X at {}", line.text("clients")), line.printed("mva_x"), (x, x));
    }
    for line in Csv::read(include_str!("../../data/000_t14_mva.csv")).rows() {
        let (middlewares, set) = (line.value("mw") as u32, line.text("type") == "SET");
        let population = line.value("clients") as usize;
        let (parameter, name) = (line.text("parameter"), line.text("station"));
        let is_e1 = middlewares == 2 && !set && parameter == "U" && name == "worker";
        let is_e2 = middlewares == 2 && set && parameter == "R" && name == "memcached" && population == 6;
        if is_e1 || is_e2 {
            continue;
        }
        let sweep = solve(middlewares, set);
        let station = sweep.resources.iter().position(|r| r.name == name).expect("a station of this name");
        let visits = match name {
            "netthread" | "worker" => 1.0 / f64::from(middlewares),
            _ => 1.0,
        };
        let value = match parameter {
            "U" => sweep.utilization(station, population),
            "R" => sweep.residence(station, population) / visits * 1e3,
            _ => sweep.queue(station, population),
        };
        let place = format!("{middlewares} MW {} {parameter} {name} at {population}", line.text("type"));
        table.cell(&place, line.printed("mva"), (value, value));
    }
    table
}

/// Throughput and mean number of the first trace.
pub(crate) const TRACE: [(&str, &str); 2] = [("lambda", "12025"), ("n", "192")];

pub(crate) fn t1_of_2016() -> Table {
    let mut table = Table::new("2016, table 1: M/M/1", "ρ = n/(1 + n), μ = λ/ρ");
    table.wrong = "E5 (E[r], E[w])";
    let [lambda, n] = TRACE.map(|(_, text)| Printed { half: 0.0, ..Printed::new(text) });
    for line in Csv::read(include_str!("../../data/002_t01_mm1.csv")).rows() {
        let station = station::mmm_from_number(lambda.value, n.value, 1).expect("stable");
        let value = match line.text("parameter") {
            "rho" => station.utilization,
            "mu" => 1.0 / station.service,
            "ES" => station.service * 1e6,
            "En" => station.present,
            "Enq" => station.waiting,
            _ => continue, // E5
        };
        table.cell(line.text("parameter"), line.printed("mm1"), (value, value));
    }
    table
}

pub(crate) fn t2_of_2016() -> Table {
    let mut table = Table::new("2016, table 2: M/M/m", "`station::mmm_from_number`");
    table.wrong = "E6 (E[nq])";
    for line in Csv::read(include_str!("../../data/002_t02_mmm.csv")).rows() {
        let servers = line.value("m") as u32;
        let inputs = [line.printed("lambda"), line.printed("En")];
        let solve = |i: &[f64]| station::mmm_from_number(i[0], i[1], servers).expect("stable");
        let found = range(&inputs, |i| match line.text("parameter") {
            "rho" => solve(i).utilization,
            "mu" => 1.0 / solve(i).service,
            "ES" => solve(i).service * 1e6,
            "Er" => solve(i).response * 1e6,
            "Ew" => solve(i).wait * 1e6,
            _ => f64::NAN,
        });
        if line.text("parameter") != "Enq" {
            table.cell(&format!("m = {servers}, {}", line.text("parameter")), line.printed("mmm"), found);
        }
    }
    // Two predictions: the throughput of m servers as fast as the first case's with 240 there.
    for line in Csv::read(include_str!("../../data/002_s22_predicted_lambda.csv")).rows() {
        if line.text("lambda_predicted").is_empty() {
            continue;
        }
        let servers = line.value("m") as u32;
        let found = range(&[Printed::new("253.77")], |mu| {
            station::mmm_from_number(1.0, 240.0, servers).expect("stable").utilization
                * f64::from(servers)
                * mu[0]
        });
        table.cell(&format!("predicted λ, m = {servers}"), line.printed("lambda_predicted").cut(), found);
    }
    table
}

pub(crate) fn t3_of_2016() -> Table {
    let mut table = Table::new("2016, table 3: devices", "M/M/1 solved backwards, μ = λ + 1/R");
    table.allowed = 0.0003; // the rates are means over devices, printed rounded
    for line in Csv::read(include_str!("../../data/002_t03_devices.csv")).rows() {
        let inputs = [line.printed("tps"), line.printed("Er_us")];
        let mu = |i: &[f64]| i[0] + 1e6 / i[1];
        let device = line.text("device");
        table.cell(&format!("{device} μ"), line.printed("mu"), range(&inputs, mu));
        table.cell(&format!("{device} ρ"), line.printed("rho").cut(), range(&inputs, |i| i[0] / mu(i)));
        table.cell(&format!("{device} S"), line.printed("ES_us").cut(), range(&inputs, |i| 1e6 / mu(i)));
        table.cell(&format!("{device} n"), line.printed("En").cut(), range(&inputs, |i| i[0] * i[1] / 1e6));
    }
    table
}

/// Five SET devices, five GET devices, one for the rest; 240 clients thinking 8976.756 µs.
pub(crate) fn solve_2016() -> single::Sweep {
    let mut stations = Vec::new();
    for line in Csv::read(include_str!("../../data/002_t03_devices.csv")).rows() {
        let service = line.value("ES_us") / 1e6;
        for _ in 0..line.value("count") as usize {
            stations.push(ClassStation::fixed(line.text("device"), line.value("visit") * service));
        }
    }
    single::solve(&stations, 8_976.756e-6, 240).expect("solvable")
}

pub(crate) fn t4_of_2016() -> Table {
    let mut table = Table::new("2016, table 4: mean value analysis", "`single::solve`, 11 stations, N = 240");
    table.wrong = "E7 (rest: Q, R; system: Q, R)";
    table.allowed = 0.0005;
    let sweep = solve_2016();
    let visits = [("SET", 0.002), ("GET", 0.198), ("Leftover", 1.0)];
    for line in Csv::read(include_str!("../../data/002_t04_mva.csv")).rows() {
        let device = line.text("device");
        let Some((_, visit)) = visits.iter().find(|v| v.0 == device) else {
            let x = sweep.throughput(240);
            table.cell("system X", line.printed("X"), (x, x));
            continue;
        };
        let station = sweep.resources.iter().position(|r| r.name == device).expect("a device of this name");
        let mut cell = |column: &str, value: f64| {
            table.cell(&format!("{device} {column}"), line.printed(column), (value, value));
        };
        cell("U", sweep.utilization(station, 240));
        cell("X", sweep.throughput(240) * visit);
        if device != "Leftover" {
            cell("Q", sweep.queue(station, 240));
            cell("R_us", sweep.residence(station, 240) / visit * 1e6);
        }
    }
    table
}

pub(crate) fn interactive_law_of_2016() -> Table {
    let mut table = Table::new("2016, section 5: interactive law", "Z = N/X − R, difference / R");
    for line in Csv::read(include_str!("../../data/002_s05_interactive_law.csv")).rows() {
        let place = format!(
            "{} % writes, {} servers, {}",
            line.text("writes_pct"),
            line.text("servers"),
            line.text("replication")
        );
        let inputs = [line.printed("irt_us").cut(), line.printed("r_us").cut()];
        let z = range(&inputs, |i| laws::outside(240.0, 240e6 / i[0], i[1] / 1e6) * 1e6);
        table.cell(&format!("{place}: Z"), line.printed("z_us").cut(), z);
        let share = range(&inputs, |i| (i[1] - i[0]) / i[1] * 100.0);
        table.cell(&format!("{place}: %"), line.printed("diff_pct").cut(), share);
    }
    table
}

pub(crate) fn utilizations_of_2015() -> Table {
    let mut table = Table::new("2015, tables 1 and 2: ρ of M/M/40 and M/M/42", "ρ = λ/(m·μ)");
    table.wrong = "E9, E10 (queueing columns)";
    for line in Csv::read(include_str!("../../data/003_t01_mm40_1mw.csv")).rows() {
        let inputs = [line.printed("lambda"), line.printed("mu")];
        table.cell(line.text("clients"), line.printed("rho").cut(), range(&inputs, |i| i[0] / (40.0 * i[1])));
    }
    for line in Csv::read(include_str!("../../data/003_t02_mm40_2mw.csv")).rows() {
        let inputs = [line.printed("lambda"), line.printed("mu")];
        for (column, servers) in [("rho40", 40.0), ("rho42", 42.0)] {
            let rho = range(&inputs, |i| laws::utilization(i[0], 1.0 / i[1]) / servers);
            table.cell(&format!("{column} at {}", line.text("clients")), line.printed(column).cut(), rho);
        }
    }
    table
}

pub(crate) fn t5_of_2015() -> Table {
    let mut table = Table::new("2015, table 5: R of the analysis", "R = N/X");
    table.wrong = "E11, E12 (service times, one measured X)";
    table.allowed = 0.002;
    for line in Csv::read(include_str!("../../data/003_t05_mva.csv")).rows() {
        let population = line.value("clients");
        let r = range(&[line.printed("x_mva")], |x| laws::response(population, x[0], 0.0) * 1e3);
        table.cell(line.text("clients"), line.printed("r_mva"), r);
    }
    table
}

/// N is not printed; N/X fits 60 clients for rows 1–4 and 9–12, 120 for the others.
pub(crate) fn interactive_law_of_2015() -> Table {
    let mut table = Table::new("2015, section 5: interactive law", "R = N/X, N = 60 or 120");
    table.allowed = 0.002;
    for line in Csv::read(include_str!("../../data/003_s05_irl_2k.csv")).rows() {
        let row = line.value("row") as usize;
        let population = if ((row - 1) / 4).is_multiple_of(2) { 60.0 } else { 120.0 };
        let irl = range(&[line.printed("tp")], |x| laws::response(population, x[0], 0.0) * 1e3);
        table.cell(&format!("row {row}: R"), line.printed("irl_ms"), irl);
        let inputs = [line.printed("rt_ms"), line.printed("irl_ms")];
        table.cell(
            &format!("row {row}: difference"),
            line.printed("abs_ms"),
            range(&inputs, |i| (i[0] - i[1]).abs()),
        );
        let share = range(&inputs, |i| (i[0] - i[1]).abs() / i[0] * 100.0);
        table.cell(&format!("row {row}: %"), line.printed("pct"), share);
    }
    table
}
