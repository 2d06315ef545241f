//! Five rows of a table calibrate, the others are predicted, beside null models: of three simulated
//! systems whose processors bind, and of the two tables that forms were shaped on. `UPDATE=1`
//! simulates them again.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::OnceLock;

use krarup_model::calibrate::{
    CalibrationRow, HeldOutErrors, NullModel, against_nulls, calibrate, null_table, read_csv,
};
use krarup_model::form;
use krarup_model::simulate::{SimulationSettings, WarmUpRule, simulate};

use crate::prediction::Choices;

/// A simulated system: its name, its stations, and the path outside and inside of the pool.
struct SimulatedSystem {
    name: &'static str,
    stations: &'static str,
    path: &'static str,
}

const SYSTEMS: [SimulatedSystem; 3] = [
    // Four processors of the middleware bind; a thread reads from the clients by itself.
    SimulatedSystem {
        name: "processors",
        stations: r#"{ name = "network", delay = true }, { name = "reader" }, { name = "processors", servers = 4, discipline = "ps" }, { name = "memcached", servers = 12 }"#,
        path: r#"{ at = "network", service = "0.6 ms" }, { at = "reader", service = { gamma = "40 us", scv = 0.5 } },
            { hold = "workers", path = [{ at = "processors", service = { lognormal = "220 us", scv = 1.5 } },
                { at = "memcached", service = "0.7 ms" }, { at = "processors", service = "120 us" }] }"#,
    },
    // The load generator binds: one thread that takes 110 us for each request.
    SimulatedSystem {
        name: "generator",
        stations: r#"{ name = "network", delay = true }, { name = "generator" }, { name = "processors", servers = 8, discipline = "ps" }"#,
        path: r#"{ at = "generator", service = { erlang = "110 us", stages = 4 } }, { at = "network", service = "0.5 ms" },
            { hold = "workers", path = [{ at = "processors", service = "300 us" }, { at = "network", service = { lognormal = "0.9 ms", scv = 0.6 } }] }"#,
    },
    // The thread that reads takes its time from the same processors as the workers: no form has it.
    SimulatedSystem {
        name: "shared",
        stations: r#"{ name = "network", delay = true }, { name = "processors", servers = 3, discipline = "ps" }, { name = "memcached", servers = 2 }"#,
        path: r#"{ at = "network", service = "0.8 ms" }, { at = "processors", service = "60 us" },
            { hold = "workers", path = [{ at = "processors", service = "150 us" }, { at = "memcached", service = "140 us" },
                { at = "processors", service = "90 us" }] }"#,
    },
];

const POPULATIONS: [u64; 6] = [4, 12, 24, 48, 96, 192];
const POOLS: [u64; 4] = [8, 16, 32, 64];

impl SimulatedSystem {
    /// A line of its table.
    fn line(&self, population: u64, workers: u64) -> String {
        let text = format!(
            "name = \"{}\"\nstation = [{}]\npool = [{{ name = \"workers\", size = {workers} }}]\n[[class]]\nname = \"get\"\npopulation = {population}\npath = [{}]\n",
            self.name, self.stations, self.path
        );
        let network = form::from_toml(&text).expect("the network reads");
        let settings = SimulationSettings {
            seed: 7 + population * 1_000 + workers,
            precision: 0.0,
            max_events: 600_000,
            warm_up: WarmUpRule::Seconds(1.0),
            percentiles: vec![0.5, 0.9, 0.99],
            ..SimulationSettings::default()
        };
        let found =
            simulate(&network, &settings, &mut |_| ControlFlow::Continue(())).expect("it is simulated");
        let (class, pool) = (&found.classes[0], &found.pools[0]);
        let wait = pool.wait.as_ref().map_or(0.0, |wait| wait.value);
        let hold = pool.hold.as_ref().expect("slots were held").value;
        let mut line = format!(
            "{population},{workers},{:.2},{:.5},{:.5}",
            class.throughput.value,
            1e3 * (wait + hold),
            1e3 * wait
        );
        for percentile in &class.percentiles {
            write!(line, ",{:.4}", 1e3 * percentile.response.value).expect("a string takes all text");
        }
        line
    }

    fn path(&self) -> String {
        format!("{}/tests/data/simulated_{}.csv", env!("CARGO_MANIFEST_DIR"), self.name)
    }

    fn text(&self) -> String {
        if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
            let mut text = format!(
                "# source: krarup's own simulator, the system `{}` of tests/all/heldout.rs: no measurement\npopulation,workers,throughput,response_ms,wait_ms,p50_ms,p90_ms,p99_ms\n",
                self.name
            );
            for workers in POOLS {
                for population in POPULATIONS {
                    text.push_str(&self.line(population, workers));
                    text.push('\n');
                }
            }
            std::fs::write(self.path(), &text).expect("the table can be written");
        }
        std::fs::read_to_string(self.path()).expect("the table is there")
    }
}

#[test]
fn simulated_rows_are_what_the_simulator_says() {
    for system in &SYSTEMS {
        let text = std::fs::read_to_string(system.path()).expect("the table is there");
        assert_eq!(text.lines().count(), 2 + POPULATIONS.len() * POOLS.len());
        let line = system.line(48, 16);
        assert!(text.lines().any(|there| there == line), "{}: {line}", system.name);
    }
}

/// Tables with their names and where they come from.
fn tables() -> &'static [(String, Vec<CalibrationRow>)] {
    static READ: OnceLock<Vec<(String, Vec<CalibrationRow>)>> = OnceLock::new();
    READ.get_or_init(read_tables)
}

fn read_tables() -> Vec<(String, Vec<CalibrationRow>)> {
    let simulated = SYSTEMS.iter().map(|system| {
        let rows = read_csv(&system.text(), 1e-3, 1).expect("the table reads");
        (format!("simulated, {}", system.name), rows)
    });
    let shaped = [
        ("2018 report, writes", include_str!("../data/000_t13_mmm.csv"), 2),
        ("our own writes, bound by a link", include_str!("../data/own_writes.csv"), 1),
    ];
    let shaped = shaped.map(|(name, text, middlewares)| {
        (name.to_owned(), read_csv(text, 1e-3, middlewares).expect("it reads"))
    });
    simulated.chain(shaped).collect()
}

/// The five rows that are recommended: least load, the smallest and the largest pool with the most
/// clients, the middle of both, and many clients before the largest pool.
fn recommended(rows: &[CalibrationRow]) -> (Vec<CalibrationRow>, Vec<CalibrationRow>) {
    let sorted = |of: fn(&CalibrationRow) -> u64| {
        let mut values: Vec<u64> = rows.iter().map(of).collect();
        values.sort_unstable();
        values.dedup();
        values
    };
    let (clients, pools) = (sorted(|row| row.population), sorted(|row| row.workers));
    let at = |values: &[u64], share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    let wanted = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.4), (0.6, 1.0)]
        .map(|(n, m)| (at(&clients, n), at(&pools, m)));
    rows.iter().cloned().partition(|row| wanted.contains(&(row.population, row.workers)))
}

/// What the five recommended rows say of the others.
fn beside_nulls(rows: &[CalibrationRow]) -> Vec<HeldOutErrors> {
    let (five, rest) = recommended(rows);
    assert_eq!(five.len(), 5, "{five:?}");
    against_nulls(&calibrate(&five, None).expect("five rows suffice"), Some(&rest)).expect("rows are left")
}

/// Random choices of five rows of each table.
const CHOICES: usize = 6;

/// Rows within their intervals of X and of R, rows asked, and the errors of predictions that spoke
/// and of those that were silent, over random choices of five.
#[derive(Debug, Default)]
struct Coverage {
    inside: [usize; 2],
    asked: usize,
    spoken: Vec<f64>,
    silent: Vec<f64>,
}

fn coverage(rows: &[CalibrationRow]) -> Coverage {
    let mut choices = Choices(11);
    let mut found = Coverage::default();
    for _ in 0..CHOICES {
        let (five, rest) = choices.split(rows, 5);
        let calibration = calibrate(&five, None).expect("five rows suffice");
        let places: Vec<(usize, usize)> =
            rest.iter().map(|row| (row.population as usize, row.workers as usize)).collect();
        for (row, said) in rest.iter().zip(calibration.predict_all(&places).expect("all are predicted")) {
            found.asked += 1;
            for (part, (interval, measured)) in
                [(said.throughput, row.throughput), (said.response, row.response)].into_iter().enumerate()
            {
                found.inside[part] += usize::from(interval.low <= measured && measured <= interval.high);
            }
            let error = (said.response.value / row.response - 1.0).abs();
            if said.doubts.is_empty() { found.spoken.push(error) } else { found.silent.push(error) }
        }
    }
    found
}

fn median(errors: &[f64]) -> Option<f64> {
    HeldOutErrors::median_and_worst(errors).map(|(median, _)| median)
}

#[test]
fn five_rows_of_simulated_systems_predict_the_others() {
    for (name, rows) in tables().iter().take(SYSTEMS.len()) {
        let errors = beside_nulls(rows);
        println!("{name}: {:?}", null_table(&errors).rows);
        let ours = &errors[0];
        let of = |errors: &[f64]| median(errors).expect("rows were held out");
        assert!(of(&ours.throughput) <= 0.012 && of(&ours.response) <= 0.02, "{name}");
        for null in &errors[1..] {
            // Where X or R are nearly the same in all rows a constant is as good.
            assert!(of(&null.throughput) + 0.001 >= of(&ours.throughput), "{name}: {}", null.model);
            assert!(of(&null.response) + 0.002 >= of(&ours.response), "{name}: {}", null.model);
        }
    }
}

#[test]
fn intervals_cover_and_silence_is_where_errors_are() {
    let mut all = Coverage::default();
    for (name, rows) in tables() {
        let found = coverage(rows);
        println!("{name}: {:?} of {}", found.inside, found.asked);
        all.inside = [all.inside[0] + found.inside[0], all.inside[1] + found.inside[1]];
        all.asked += found.asked;
        all.spoken.extend(found.spoken);
        all.silent.extend(found.silent);
    }
    for inside in all.inside {
        let share = inside as f64 / all.asked as f64;
        assert!((0.90..=0.995).contains(&share), "{share}");
    }
    assert!(median(&all.silent) > median(&all.spoken), "{:?} {:?}", median(&all.silent), median(&all.spoken));
}

/// The section of the page.
pub(crate) fn section() -> String {
    let mut text = String::from(
        "| table | | this model | closed M/M/m | USL over clients | USL over min(N, a·M) | log-linear | nearest row | last value |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut covers = String::from(
        "| table | X inside | R inside | silent | R off where it spoke | where it was silent |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for (name, rows) in tables() {
        let errors = beside_nulls(rows);
        assert_eq!(errors.len(), 1 + NullModel::ALL.len());
        type Errors = fn(&HeldOutErrors) -> &Vec<f64>;
        let parts: [(&str, Errors); 3] =
            [("X", |e| &e.throughput), ("R", |e| &e.response), ("p99", |e| &e.p99)];
        for (what, of) in parts {
            let medians: Vec<Option<f64>> = errors.iter().map(|errors| median(of(errors))).collect();
            if medians[0].is_none() {
                continue;
            }
            let least = medians.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            let cells = medians.iter().map(|one| match one {
                None => String::new(),
                Some(one) if *one <= least => format!("**{:.1}**", 100.0 * one),
                Some(one) => format!("{:.1}", 100.0 * one),
            });
            let cells: Vec<String> = cells.collect();
            writeln!(text, "| {name} | {what} | {} |", cells.join(" | ")).expect("a string takes all text");
        }
        let found = coverage(rows);
        let share = |part: usize| 100.0 * part as f64 / found.asked as f64;
        let percent =
            |errors: &[f64]| median(errors).map_or(String::new(), |error| format!("{:.1}", 100.0 * error));
        writeln!(
            covers,
            "| {name} | {:.0} | {:.0} | {:.0} | {} | {} |",
            share(found.inside[0]),
            share(found.inside[1]),
            share(found.silent.len()),
            percent(&found.spoken),
            percent(&found.silent)
        )
        .expect("a string takes all text");
    }
    format!("{text}\n{covers}")
}
