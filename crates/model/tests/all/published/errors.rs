//! Printed numbers that are wrong, and the computation that shows it.

use krarup_model::calibrate::Wire;
use krarup_model::laws;
use krarup_model::single::{self, ClassStation};
use krarup_model::station;
use krarup_units::Bytes;

use super::tables::{Csv, Line, TRACE, net_of_2018, network_of_2018, solve_2016};

/// One slip: what is printed, what is right, why.
pub(crate) struct Slip {
    pub(crate) id: &'static str,
    pub(crate) place: &'static str,
    pub(crate) printed: String,
    pub(crate) right: String,
    pub(crate) why: &'static str,
    pub(crate) proof: Vec<Proof>,
}

/// A computed value with the right one, and a printed one it must not be.
#[derive(Debug)]
pub(crate) struct Proof {
    computed: f64,
    right: f64,
    /// Relative agreement needed.
    within: f64,
    printed: Option<f64>,
}

impl Proof {
    pub(crate) fn holds(&self) -> bool {
        let near = |a: f64, b: f64| (a - b).abs() <= self.within * b.abs();
        near(self.computed, self.right) && self.printed.is_none_or(|printed| !near(self.computed, printed))
    }
}

fn proof(computed: f64, right: f64, within: f64, printed: f64) -> Proof {
    Proof { computed, right, within, printed: Some(printed) }
}

fn line<'a>(csv: &'a Csv, wanted: &[(&str, &str)]) -> Line<'a> {
    csv.rows()
        .find(|l| wanted.iter().all(|(column, text)| l.text(column) == *text))
        .expect("the row is there")
}

/// Three digits, or as many as the number has before its point.
fn show(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let digits = 3 - (value.abs().log10().floor() as i32 + 1);
    if value.abs() < 1e-3 { format!("{value:.1e}") } else { format!("{value:.*}", digits.max(0) as usize) }
}

pub(crate) fn all() -> Vec<Slip> {
    vec![e0(), e1(), e2(), e3(), e4(), e5(), e6(), e7(), e8(), e9(), e10(), e11(), e12(), e13(), e14()]
}

fn e0() -> Slip {
    let bare = Wire { payload: u64::MAX, header: Bytes(0) };
    let csv = Csv::read(include_str!("../../data/000_t01_network_limits.csv"));
    let middleware = line(&csv, &[("machine", "middleware")]);
    let reply = bare.limit(middleware.value("upload_mbit") * 1e6, 8);
    let client = line(&csv, &[("machine", "client")]);
    let request = bare.limit(client.value("upload_mbit") * 1e6, 4_131);
    Slip {
        id: "E0",
        place: "2018, table 1, middleware, SET reply; client, SET request",
        printed: format!("{}/s; {}/s", middleware.text("set_reply"), client.text("set_request")),
        right: format!("{reply:.3e}/s; {request:.2}/s (6077.65 would need 200.85 Mbit/s)"),
        why: "bandwidth / message size: 802 Mbit/s over 8 B, 201 Mbit/s over 4131 B",
        proof: vec![
            proof(reply, 1.253e7, 1e-3, middleware.value("set_reply")),
            proof(request, 6_082.06, 1e-5, client.value("set_request")),
        ],
    }
}

fn two_middlewares(set: bool) -> single::Sweep {
    single::solve(&network_of_2018(2, set, net_of_2018(2)), 0.0, 192).expect("solvable")
}

fn e1() -> Slip {
    let sweep = two_middlewares(false);
    let worker = sweep.resources.iter().position(|r| r.name == "worker").expect("there is a worker station");
    let utilization = sweep.utilization(worker, 192);
    Slip {
        id: "E1",
        place: "2018, table 14, two middlewares, GET, U of the workers (three cells)",
        printed: "0.06".into(),
        right: format!("{utilization:.3}"),
        why: "U = X·V·S/m = 2940 · ½ · 0.256949 ms / 64",
        proof: vec![proof(utilization, 0.005_9, 0.02, 0.06)],
    }
}

fn e2() -> Slip {
    let sweep = two_middlewares(true);
    let server = sweep.resources.iter().position(|r| r.name == "memcached").expect("there is a server");
    let residence = sweep.residence(server, 6) * 1e3;
    Slip {
        id: "E2",
        place: "2018, table 14, two middlewares, SET, R of memcached at N = 6",
        printed: "0.08 ms".into(),
        right: format!("{residence:.3} ms"),
        why: "mean value analysis; the printed Q of 0.53 at X = 6081.54/s says 0.087 ms, too (Little)",
        proof: vec![proof(residence, 0.087, 0.005, 0.08)],
    }
}

fn e3() -> Slip {
    let at = |net: f64| single::solve(&network_of_2018(1, true, net), 0.0, 192).expect("solvable");
    let (printed, right) = (at(11_546.0), at(11_545.0));
    Slip {
        id: "E3",
        place: "2018, section 7.3.1, S_net",
        printed: "1/11546 s".into(),
        right: "1/11545 s".into(),
        why: "only 11545 gives the printed X of 11511.69 at N = 24 and 11545.00 at N = 192",
        proof: vec![
            proof(right.throughput(24), 11_511.69, 2e-6, printed.throughput(24)),
            proof(right.throughput(192), 11_545.0, 1e-6, printed.throughput(192)),
        ],
    }
}

fn e4() -> Slip {
    let csv = Csv::read(include_str!("../../data/000_t05_mw_max.csv"));
    let middleware = line(&csv, &[("experiment", "3.2"), ("type", "GET"), ("measured_at", "middleware")]);
    let client = line(&csv, &[("experiment", "3.2"), ("type", "GET"), ("measured_at", "client")]);
    let most = laws::response(192.0, middleware.value("throughput"), 0.0) * 1e3;
    Slip {
        id: "E4",
        place: "2018, table 5, GET, experiment 3.2, R at the middleware",
        printed: format!("{} ms", middleware.text("response_ms")),
        right: format!("at most N/X = {most:.2} ms (the client saw {} ms)", client.text("response_ms")),
        why: "a request cannot be longer at the middleware than at the client that waits for it",
        proof: vec![proof(most, 65.55, 1e-4, middleware.value("response_ms"))],
    }
}

fn e5() -> Slip {
    let [lambda, n] = TRACE.map(|(_, text)| text.parse::<f64>().expect("a number"));
    let station = station::mmm_from_number(lambda, n, 1).expect("stable");
    let csv = Csv::read(include_str!("../../data/002_t01_mm1.csv"));
    let printed = |parameter: &str| line(&csv, &[("parameter", parameter)]).value("mm1");
    Slip {
        id: "E5",
        place: "2016 models, table 1, E[r] and E[w]",
        printed: format!("{} and {} µs", printed("Er"), printed("Ew")),
        right: format!("{:.2} and {:.2} µs", station.response * 1e6, station.wait * 1e6),
        why: "the measured response stands in the model's column: E[r] = E[n]/λ = 192/12025",
        proof: vec![
            proof(station.response * 1e6, 15_966.74, 1e-6, printed("Er")),
            proof(station.wait * 1e6, 15_884.01, 1e-6, printed("Ew")),
        ],
    }
}

fn e6() -> Slip {
    let csv = Csv::read(include_str!("../../data/002_t02_mmm.csv"));
    let mut right = Vec::new();
    let mut proofs = Vec::new();
    for (line, expected) in csv.rows().filter(|l| l.text("parameter") == "Enq").zip([188.79, 154.42, 121.66])
    {
        let servers = line.value("m") as u32;
        let waiting = station::mmm_from_number(line.value("lambda"), line.value("En"), servers)
            .expect("stable")
            .waiting;
        right.push(format!("{waiting:.2}"));
        proofs.push(proof(waiting, expected, 1e-4, line.value("mmm")));
    }
    Slip {
        id: "E6",
        place: "2016 models, table 2, E[nq]",
        printed: "189, 155, 121".into(),
        right: right.join(", "),
        why: "240 − m is printed; the model's number is E[n] − m·ρ with E[n] of 239.53, 238.91, 239.78",
        proof: proofs,
    }
}

fn e7() -> Slip {
    let sweep = solve_2016();
    let rest = sweep.resources.iter().position(|r| r.name == "Leftover").expect("there is a rest");
    let (queue, residence) = (sweep.queue(rest, 240), sweep.residence(rest, 240) * 1e6);
    let response = sweep.response(240) * 1e6;
    let inside = 240.0 - sweep.throughput(240) * 8_976.756e-6;
    let csv = Csv::read(include_str!("../../data/002_t04_mva.csv"));
    let printed = |device: &str, column: &str| line(&csv, &[("device", device)]).value(column);
    Slip {
        id: "E7",
        place: "2016 models, table 4, Leftover (Q, R) and system (R, Q)",
        printed: "97.08, 7846.1 µs; 10354.4 µs, 128.12".into(),
        right: format!("{queue:.2}, {residence:.1} µs; {response:.1} µs, {inside:.2}"),
        why: "the printed Q add up to 172.9, but N − X·Z is 128.9",
        proof: vec![
            proof(queue, 53.05, 2e-3, printed("Leftover", "Q")),
            proof(residence, 4_286.7, 2e-3, printed("Leftover", "R_us")),
            proof(response, 10_418.1, 2e-4, printed("system", "R_us")),
            proof(inside, 128.92, 2e-4, printed("system", "Q")),
        ],
    }
}

fn e8() -> Slip {
    let sweep = solve_2016();
    // R + Z = N/X; with Z in microseconds as printed the loop would take half of that.
    let whole = laws::response(240.0, sweep.throughput(240), 0.0);
    let think = whole - sweep.response(240);
    Slip {
        id: "E8",
        place: "2016 models, section 3, think time",
        printed: "0.008976756 µs".into(),
        right: format!("0.008976756 s ({:.3} µs)", think * 1e6),
        why: "N = X·(R + Z) holds with seconds only",
        proof: vec![proof(think, 0.008_976_756, 1e-6, 0.008_976_756e-6)],
    }
}

/// Erlang's C and the queue at each row of the 2015 report's table 1.
fn queues_of_2015() -> Vec<(f64, f64, f64, f64)> {
    Csv::read(include_str!("../../data/003_t01_mm40_1mw.csv"))
        .rows()
        .map(|l| {
            let station = station::mmm(l.value("lambda"), 1.0 / l.value("mu"), 40).expect("stable");
            (station.delayed * 100.0, station.waiting, l.value("p_queueing_pct"), l.value("queue_computed"))
        })
        .collect()
}

fn list(values: impl Iterator<Item = f64>) -> String {
    values.map(show).collect::<Vec<_>>().join(", ")
}

fn e9() -> Slip {
    let rows = queues_of_2015();
    let right = [3e-16, 1e-6, 0.011, 2.14, 24.5, 78.8, 97.5, 97.4, 99.7, 97.4, 97.8, 98.7];
    Slip {
        id: "E9",
        place: "2015, table 1, probability of queueing, %",
        printed: list(rows.iter().map(|r| r.2)),
        right: list(rows.iter().map(|r| r.0)),
        why: "Erlang's C at m = 40; from 30 clients on 100·ρ is printed",
        proof: rows
            .iter()
            .zip(right)
            .enumerate()
            .map(|(i, (row, right))| Proof {
                computed: row.0,
                right,
                // The first two are known to one digit; from 70 clients on ρ and C differ little.
                within: if i < 2 { 0.5 } else { 0.02 },
                printed: (i < 6).then_some(row.2),
            })
            .collect(),
    }
}

fn e10() -> Slip {
    let rows = queues_of_2015();
    let right = [0.0, 0.0, 0.0, 0.05, 1.43, 25.5, 291.0, 285.0, 2_671.0, 287.0, 338.0, 592.0];
    Slip {
        id: "E10",
        place: "2015, table after table 1, computed queue length",
        printed: list(rows.iter().map(|r| r.3)),
        right: list(rows.iter().map(|r| if r.1 < 5e-4 { 0.0 } else { r.1 })),
        why: "ρ(1 − ρ)/C is printed for C·ρ/(1 − ρ), and the row is reversed; near saturation the third digit of μ decides",
        proof: rows.iter().zip(right).skip(3).map(|(row, right)| proof(row.1, right, 0.02, row.3)).collect(),
    }
}

fn e11() -> Slip {
    let csv = Csv::read(include_str!("../../data/003_t03_t04_mva_inputs.csv"));
    let service = |device: &str| line(&csv, &[("device", device)]).value("service_ms") / 1e3;
    let sweep = single::solve(
        &[
            ClassStation::delay("client", service("client+network")),
            ClassStation::servers("middleware", service("middleware"), 95),
            ClassStation::servers("database", service("database"), 30),
        ],
        service("think"),
        30,
    )
    .expect("solvable");
    let (x, r, u) = (sweep.throughput(30), 30.0 / sweep.throughput(30) * 1e3, sweep.utilization(2, 30));
    Slip {
        id: "E11",
        place: "2015, table 4 against table 5 at N = 30",
        printed: "X 7004/s, R 4.28 ms, U of the database 0.563".into(),
        right: format!("X {x:.0}/s, R {r:.2} ms, U {u:.3} from the service times of table 4"),
        why: "table 5 needs a database time of 2.4 to 2.7 ms, not 1.33",
        proof: vec![
            proof(x, 9_873.0, 1e-3, 7_004.0),
            proof(r, 3.04, 2e-3, 4.28),
            proof(u, 0.437, 2e-3, 0.563),
        ],
    }
}

fn e12() -> Slip {
    let first = Csv::read(include_str!("../../data/003_t01_mm40_1mw.csv"));
    let fifth = Csv::read(include_str!("../../data/003_t05_mva.csv"));
    let right = line(&first, &[("clients", "20")]).value("lambda");
    let printed = line(&fifth, &[("clients", "20")]).value("x_meas");
    // All other rows of table 5 repeat table 1, rounded.
    let others = first.rows().zip(fifth.rows()).filter(|(a, _)| a.text("clients") != "20").map(|(a, b)| {
        Proof { computed: b.value("x_meas"), right: a.value("lambda"), within: 3e-4, printed: None }
    });
    let mut proofs: Vec<Proof> = others.collect();
    proofs.push(proof(right, 4_773.5, 1e-9, printed));
    Slip {
        id: "E12",
        place: "2015, table 5, measured X at 20 clients",
        printed: format!("{printed}/s"),
        right: format!("{right}/s"),
        why: "table 1 has the same measurement; all other rows agree",
        proof: proofs,
    }
}

fn e13() -> Slip {
    let csv = Csv::read(include_str!("../../data/003_s01_stability.csv"));
    let value = |parameter: &str| line(&csv, &[("parameter", parameter)]).value("value");
    let service = value("R") - value("Q");
    let mu = 1e3 / service;
    let rho = laws::utilization(value("X"), service / 1e3);
    // The interval of ρ from the spreads printed beside X and R: three standard errors are not even
    // needed.
    let (x, sd) = (value("X"), value("sd_X"));
    let spread = (sd / x).hypot(value("sd_R") / value("R"));
    let verdict = laws::stability("the database", rho / 40.0 * (1.0 - spread), rho / 40.0 * (1.0 + spread));
    assert!(matches!(verdict, Err(krarup_model::Error::Undecided { .. })), "{verdict:?}");
    Slip {
        id: "E13",
        place: "2015, section 1, S = R − Q and what follows",
        printed: "71.91 ms, μ 13.91/s, ρ 39.91, ρ/40 = 0.9973: stable".into(),
        right: format!(
            "{service:.1} ms, μ {mu:.2}/s, ρ {rho:.2}, ρ/40 = {:.3}: not stable; with the printed spreads, undecided",
            rho / 40.0
        ),
        why: "216.5 − 142.6 = 73.9; the conclusion hangs on the slip, and an interval of ρ that covers 1 allows none",
        proof: vec![
            proof(service, 73.9, 1e-9, value("S")),
            proof(mu, 13.53, 1e-3, value("mu")),
            proof(rho / 40.0, 1.025, 1e-3, value("rho_m40")),
        ],
    }
}

fn e14() -> Slip {
    let csv = Csv::read(include_str!("../../data/001_t05_qset_writes_norepl.csv"));
    let most = csv.rows().map(|l| l.value("writes_pct")).fold(0.0, f64::max);
    Slip {
        id: "E14",
        place: "2016 experiments, table 4, head of the last column",
        printed: "7 %".into(),
        right: format!("{most} %"),
        why: "the experiment and tables 5 and 6 used 1, 5 and 10 % writes",
        proof: vec![proof(most, 10.0, 1e-9, 7.0)],
    }
}
