//! GNU Octave's queueing package as a second opinion, where both are installed and its answers are
//! known to be safe: few servers, moderate sizes. Without them the test says so and ends.

#![allow(clippy::disallowed_methods, reason = "the oracle is a program")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use krarup_model::multi::{self, Customers, MulticlassStation};
use krarup_model::single::{self, ClassStation};
use krarup_model::station;

/// A small generator (SplitMix64): the cases are the same for ever.
struct Cases(u64);

impl Cases {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn whole(&mut self, least: u32, most: u32) -> u32 {
        least + (self.next() * f64::from(most - least + 1)) as u32
    }
}

fn row(values: impl IntoIterator<Item = f64>) -> String {
    let texts: Vec<String> = values.into_iter().map(|v| format!("{v:e}")).collect();
    format!("[{}]", texts.join(","))
}

/// The numbers Octave prints for a script, or nothing where it or the package is not installed.
fn octave(script: &str) -> Option<Vec<f64>> {
    let output = Command::new("octave-cli")
        .args(["--no-gui", "--quiet", "--eval", &format!("pkg load queueing; format long e;\n{script}")])
        .stderr(Stdio::null())
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.lines().filter_map(|line| line.trim().parse().ok()).collect())
}

#[test]
fn octave_gives_the_same_where_it_is_safe() {
    let mut cases = Cases(7);
    let mut script = String::new();
    let mut ours = Vec::new();
    for _ in 0..60 {
        // A closed network of single servers and a few of several, with think time.
        let stations = cases.whole(1, 6);
        let population = cases.whole(1, 30);
        let think = cases.next();
        let demands: Vec<f64> = (0..stations).map(|_| 0.01 + cases.next()).collect();
        let servers: Vec<u32> =
            (0..stations).map(|_| if cases.next() < 0.7 { 1 } else { cases.whole(2, 4) }).collect();
        let resources: Vec<_> =
            demands.iter().zip(&servers).map(|(d, m)| ClassStation::servers("s", *d, *m)).collect();
        let sweep = single::solve(&resources, think, population as usize).expect("solvable");
        ours.push(sweep.throughput(population as usize));
        ours.push(sweep.queue(0, population as usize));
        let (s, m) = (row(demands), row(servers.iter().map(|m| f64::from(*m))));
        writeln!(
            script,
            "[U R Q X] = qncsmva({population}, {s}, ones(1,{stations}), {m}, {think:e}); printf('%.16e\\n%.16e\\n', X(1), Q(1));"
        )
        .expect("a string takes all text");
    }
    for _ in 0..20 {
        // Two closed classes at single servers.
        let stations = cases.whole(1, 4) as usize;
        let population = [cases.whole(1, 8), cases.whole(1, 8)];
        let demands: Vec<Vec<f64>> =
            (0..2).map(|_| (0..stations).map(|_| 0.01 + cases.next()).collect()).collect();
        let think = [cases.next(), cases.next()];
        let places: Vec<_> =
            (0..stations).map(|_| MulticlassStation { name: "s".into(), servers: Some(1) }).collect();
        let classes: Vec<_> = (0..2)
            .map(|c| Customers {
                name: "c".into(),
                population: u64::from(population[c]),
                think: think[c],
                demands: demands[c].clone(),
            })
            .collect();
        ours.extend(multi::exact(&places, &classes).expect("solvable").throughput);
        writeln!(
            script,
            "[U R Q X] = qncmmva({}, [{};{}], ones(2,{stations}), ones(1,{stations}), {}); printf('%.16e\\n%.16e\\n', X(1,1), X(2,1));",
            row(population.map(f64::from)),
            row(demands[0].clone()),
            row(demands[1].clone()),
            row(think)
        )
        .expect("a string takes all text");
    }
    for _ in 0..40 {
        let servers = cases.whole(1, 60);
        let (mu, rho) = (0.1 + cases.next(), 0.05 + 0.94 * cases.next());
        let arrival = rho * f64::from(servers) * mu;
        let s = station::mmm(arrival, 1.0 / mu, servers).expect("stable");
        ours.extend([s.response, s.delayed]);
        writeln!(
            script,
            "[U R Q X p0 pm] = qsmmm({arrival:.17e}, {mu:.17e}, {servers}); printf('%.16e\\n%.16e\\n', R, pm);"
        )
        .expect("a string takes all text");
    }
    let Some(theirs) = octave(&script) else {
        let why = "octave-cli with the queueing package is not installed";
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
        return;
    };
    assert_eq!(ours.len(), theirs.len(), "Octave answered every case");
    for (case, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert!((ours / theirs - 1.0).abs() < 1e-6, "number {case}: {ours}, Octave {theirs}");
    }
}
