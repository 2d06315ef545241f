//! The 2016 documents and the 2015 report.

use krarup_model::laws;
use krarup_model::single::{self, ClassStation};
use krarup_model::station;

use super::super::tables::{Csv, Line, TRACE, solve_2016};
use super::{Figures, cell, interval, mean, percent};

pub(super) fn experiments_of_2016() -> Figures {
    let mut found = Figures("2016 experiments", Vec::new());
    let changes = Csv::read(include_str!("../../../data/001_t04_throughput_change.csv"));
    let change = |servers: &str, copies: &str, writes: &str| {
        cell(&changes, &[("servers", servers), ("replication", copies), ("writes_pct", writes)], "change_pct")
    };
    let copies = |servers: &str| {
        100.0 * ((100.0 + change(servers, "full", "5")) / (100.0 + change(servers, "no", "5")) - 1.0)
    };
    found.one("2, 3: full copies change X by, %, 3 servers, 5 % writes", 1, copies("3"));
    found.one("2, 3: full copies change X by, %, 5 servers, 5 % writes", 1, copies("5"));
    found.one("2, 3: full copies change X by, %, 7 servers, 5 % writes", 1, copies("7"));
    let columns =
        ["no", "full"].into_iter().flat_map(|copies| ["1", "5", "10"].map(|writes| (copies, writes)));
    found.span(
        "3.1: change with 7 servers less that with 5, points",
        1,
        columns.clone().map(|(c, w)| change("7", c, w) - change("5", c, w)),
    );
    found.span(
        "3.1: change with 5 servers less that with 3, points",
        1,
        columns.map(|(c, w)| change("5", c, w) - change("3", c, w)),
    );
    found.one(
        "3.1: 5 servers, one copy: change with 10 % writes less that with 5 %, points",
        1,
        change("5", "no", "10") - change("5", "no", "5"),
    );
    let writes = |s: &str, c: &str| change(s, c, "10") - change(s, c, "1");
    let cases = ["3", "5", "7"].into_iter().flat_map(|s| ["no", "full"].map(|c| (s, c)));
    found.span(
        "3.1: change with 10 % writes less that with 1 %, points",
        1,
        cases.map(|(s, c)| writes(s, c)),
    );
    found.one(
        "3.1: mean R over that of the base, 7 servers, all copies, 10 % writes (N = X·R)",
        2,
        100.0 / (100.0 + change("7", "full", "10")),
    );
    let medians =
        |text: &'static str| Csv::read(text).rows().map(|l| l.value("queue_p50_ms")).collect::<Vec<_>>();
    found.span(
        "2.2: median wait of sets, ms",
        3,
        medians(include_str!("../../../data/001_t02_qset_repl.csv")),
    );
    let gets = medians(include_str!("../../../data/001_t03_qget_repl.csv"));
    // Three servers, five, seven, for each kind of copies.
    found.span(
        "2.2: median wait of gets with 5 servers over that with 3",
        2,
        gets.chunks(3).map(|row| row[1] / row[0]),
    );
    found.span(
        "3.2: median wait of sets, ms, one copy",
        3,
        medians(include_str!("../../../data/001_t05_qset_writes_norepl.csv")),
    );
    found.span(
        "3.2: median wait of sets, ms, all copies",
        3,
        medians(include_str!("../../../data/001_t06_qset_writes_full.csv")),
    );
    found
}

pub(super) fn models_of_2016() -> Figures {
    let mut found = Figures("2016 models", Vec::new());
    let [lambda, clients] = TRACE.map(|(_, text)| text.parse::<f64>().expect("a number"));
    found.one("1: X·R of the trace", 2, laws::little(lambda, 16_046.67e-6));
    let alone = station::mmm_from_number(lambda, clients, 1).expect("stable");
    found.one("1: measured service time over that of M/M/1", 1, 1_994.72e-6 / alone.service);
    let rates = Csv::read(include_str!("../../../data/002_s22_predicted_lambda.csv"));
    let of = |m: &str, column: &str| cell(&rates, &[("m", m)], column);
    found.one(
        "2.2: predicted over measured X, 5 servers",
        2,
        of("85", "lambda_predicted") / of("85", "lambda_measured"),
    );
    found.one(
        "2.2: predicted over measured X, 7 servers",
        2,
        of("119", "lambda_predicted") / of("119", "lambda_measured"),
    );
    found.one(
        "2.2: measured X with 7 servers over that with 3",
        3,
        of("119", "lambda_measured") / of("51", "lambda_measured"),
    );
    let table = Csv::read(include_str!("../../../data/002_t02_mmm.csv"));
    let value =
        |m: &str, parameter: &str, column: &str| cell(&table, &[("m", m), ("parameter", parameter)], column);
    let all = ["51", "85", "119"];
    found.one(
        "2.2: measured service time with 7 servers over that with 3",
        3,
        value("119", "ES", "observed") / value("51", "ES", "observed"),
    );
    found.one(
        "2.2: service rate of M/M/119 over that of M/M/51",
        2,
        value("119", "mu", "mmm") / value("51", "mu", "mmm"),
    );
    let busy = |m: &str| {
        value(m, "mu", "mmm") * m.parse::<f64>().expect("a number") * value(m, "ES", "observed") / 1e6
    };
    found.span("2.2: threads at work, m·μ·S", 2, all.map(busy));
    found
}

pub(super) fn network_of_2016() -> Figures {
    let mut found = Figures("2016 models", Vec::new());
    let sweep = solve_2016();
    found.one("3: X of the network over X measured", 4, sweep.throughput(240) / 12_331.2);
    let device =
        |name: &str| sweep.resources.iter().position(|r| r.name == name).expect("a device of this name");
    found.one(
        "3: utilization of the rest over that of a GET device",
        3,
        sweep.utilization(device("Leftover"), 240) / sweep.utilization(device("GET"), 240),
    );
    found.one("3: R of a GET device, measured less the network's, µs", 1, 6_203.464 - 6_172.668);
    let devices = Csv::read(include_str!("../../../data/002_t03_devices.csv"));
    let mut stations = Vec::new();
    for line in devices.rows() {
        let demand = line.value("visit") * line.value("ES_us") / 1e6;
        let name = line.text("device");
        for _ in 0..line.value("count") as usize {
            stations.push(if name == "GET" {
                ClassStation::servers(name, demand, 16)
            } else {
                ClassStation::fixed(name, demand)
            });
        }
    }
    let pooled = single::solve(&stations, 8_976.756e-6, 240).expect("solvable");
    let get = pooled.resources.iter().position(|r| r.name == "GET").expect("a GET device");
    found.one("3: utilization of a GET device as 16 servers", 3, pooled.utilization(get, 240));
    found
}

pub(super) fn design_of_2016() -> Figures {
    let mut found = Figures("2016 models", Vec::new());
    let effects = [1_471.4, 294.5, 447.6, 101.7, 158.5, 125.1];
    found.one("4: half an interval over the effect of clients, %", 1, 100.0 * 81.26 / effects[0]);
    found.span(
        "4: half an interval over the effects B, C, AB, AC, BC, %",
        0,
        effects[1..].iter().map(|e| 100.0 * 81.26 / e),
    );
    let law = Csv::read(include_str!("../../../data/002_s05_interactive_law.csv"));
    let think: Vec<f64> = law.rows().map(|l| l.value("z_us")).collect();
    found.span("5: mean think time N/X − R, µs, 95 %", 0, interval(&think));
    let shares: Vec<f64> = law.rows().map(|l| l.value("diff_pct")).collect();
    found.one("5: rows with less than 1 % between N/X and R, %", 0, percent(&shares, |share| *share < 1.0));
    found.span("5: R over N/X less 1, %", 2, shares);
    found
}

pub(super) fn report_of_2015() -> Figures {
    let mut found = Figures("2015", Vec::new());
    found.one("1: N/X over R", 3, laws::response(120.0, 554.94, 0.0) * 1e3 / 216.5);
    found.one("1: standard deviation of X, %", 2, 100.0 * 20.122 / 554.94);
    found.one("1: requests that wait, X·Q", 1, laws::little(554.94, 142.6e-3));
    let one = Csv::read(include_str!("../../../data/003_t01_mm40_1mw.csv"));
    let two = Csv::read(include_str!("../../../data/003_t02_mm40_2mw.csv"));
    let rho = |line: &Line<'_>, m: f64| line.value("lambda") / (m * line.value("mu"));
    found.one(
        "2: the largest ρ of M/M/40, one middleware",
        4,
        one.rows().map(|l| rho(&l, 40.0)).fold(0.0, f64::max),
    );
    found.one(
        "2: the largest ρ of M/M/39, one middleware",
        3,
        one.rows().map(|l| rho(&l, 39.0)).fold(0.0, f64::max),
    );
    let loaded = || two.rows().filter(|l| l.value("clients") >= 70.0);
    found.span("2: ρ of M/M/40, two middlewares, from 70 clients on", 3, loaded().map(|l| rho(&l, 40.0)));
    found.span("2: ρ of M/M/42, two middlewares, from 70 clients on", 3, loaded().map(|l| rho(&l, 42.0)));
    let ratios: Vec<f64> =
        one.rows().zip(two.rows()).map(|(a, b)| b.value("lambda") / a.value("lambda")).collect();
    found.span("2: X with two middlewares over X with one, mean of 12, 95 %", 3, interval(&ratios));
    let wrong = |line: &Line<'_>| {
        let station = station::mmm(line.value("lambda"), 1.0 / line.value("mu"), 40).expect("stable");
        station.waiting / line.value("queue_measured")
    };
    found.span(
        "2: right queue of M/M/40 over the measured one, from 70 clients on",
        1,
        one.rows().filter(|l| l.value("clients") >= 70.0).map(|l| wrong(&l)),
    );
    let x = |n: &str| cell(&one, &[("clients", n)], "lambda");
    found.one("2: X with 60 clients over X with 10", 2, x("60") / x("10"));
    let beyond = ["70", "80", "90", "100", "110", "120"];
    found.span("2: X with more clients over X with 60", 3, beyond.map(|n| x(n) / x("60")));
    found.one("3.1: 95 / 47", 2, 95.0 / 47.0);
    let table = Csv::read(include_str!("../../../data/003_t05_mva.csv"));
    let rows: Vec<Line<'_>> = table.rows().collect();
    // E12: at 20 clients table 1 has what was measured.
    let measured = |l: &Line<'_>| if l.text("clients") == "20" { x("20") } else { l.value("x_meas") };
    let error = |l: &Line<'_>| l.value("x_mva") / measured(l);
    found.span("4: X of the network over X measured, to 50 clients", 3, rows[..5].iter().map(error));
    found.span("4: X of the network over X measured, from 60 clients on", 3, rows[5..].iter().map(error));
    found.span(
        "4: R of the network over R measured",
        2,
        rows.iter().map(|l| l.value("r_mva") / l.value("r_meas")),
    );
    found.span(
        "4: measured N/X over measured R",
        2,
        rows.iter().map(|l| laws::response(l.value("clients"), measured(l), 0.0) * 1e3 / l.value("r_meas")),
    );
    let law = Csv::read(include_str!("../../../data/003_s05_irl_2k.csv"));
    found.one(
        "5: mean difference of R and N/X without sign, ms",
        3,
        mean(&law.rows().map(|l| l.value("abs_ms")).collect::<Vec<_>>()),
    );
    found.one("5: the same, % of R", 2, mean(&law.rows().map(|l| l.value("pct")).collect::<Vec<_>>()));
    found.one("5: the largest of them, % of R", 1, law.rows().map(|l| l.value("pct")).fold(0.0, f64::max));
    found
}
