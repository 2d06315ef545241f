//! How far the fork approximation is off, against small closed systems solved exactly.
//!
//! N clients think for an exponential time, then send a copy to each of k exponential FCFS servers.
//! Copies reach all servers in the same order, so the queue lengths are the whole state, and the
//! number of requests that still wait for their q-th answer is the q-th smallest of them.

use std::collections::HashMap;

use krarup_model::forkjoin::Cluster;
use krarup_model::single::{self, ClassStation, Pace};

/// Exact mean number of requests that wait, by iterating the balance of the Markov chain over queue
/// lengths sorted from short to long. `arrival(n)` is the arrival rate with n requests waiting; no
/// queue grows beyond `most`.
fn exact(arrival: impl Fn(usize) -> f64, most: usize, service: f64, servers: usize, needed: usize) -> f64 {
    let inside = |state: &[usize]| state[needed - 1];
    let mut index: HashMap<Vec<usize>, usize> = HashMap::new();
    let mut states = vec![vec![0; servers]];
    index.insert(states[0].clone(), 0);
    let mut moves: Vec<Vec<(usize, f64)>> = Vec::new();
    let mut next = 0;
    while next < states.len() {
        let state = states[next].clone();
        let mut out = Vec::new();
        let rate = arrival(inside(&state));
        if rate > 0.0 && state[servers - 1] < most {
            out.push((state.iter().map(|q| q + 1).collect::<Vec<_>>(), rate));
        }
        for server in 0..servers {
            if state[server] > 0 {
                let mut after = state.clone();
                after[server] -= 1;
                after.sort_unstable();
                out.push((after, 1.0 / service));
            }
        }
        let mut numbered = Vec::new();
        for (state, rate) in out {
            let place = *index.entry(state.clone()).or_insert_with(|| {
                states.push(state);
                states.len() - 1
            });
            numbered.push((place, rate));
        }
        moves.push(numbered);
        next += 1;
    }
    let mut into: Vec<Vec<(usize, f64)>> = vec![Vec::new(); states.len()];
    let mut leave = vec![0.0; states.len()];
    for (from, list) in moves.iter().enumerate() {
        for (to, rate) in list {
            into[*to].push((from, *rate));
            leave[from] += rate;
        }
    }
    let mut share = vec![1.0 / states.len() as f64; states.len()];
    for _ in 0..20_000 {
        let mut apart = 0.0_f64;
        for state in 0..states.len() {
            let flow: f64 = into[state].iter().map(|(from, rate)| share[*from] * rate).sum();
            let new = flow / leave[state];
            apart = apart.max((new - share[state]).abs());
            share[state] = new;
        }
        let total: f64 = share.iter().sum();
        share.iter_mut().for_each(|s| *s /= total);
        if apart < 1e-12 {
            break;
        }
    }
    states.iter().zip(&share).map(|(state, share)| inside(state) as f64 * share).sum()
}

fn approximate(population: usize, think: f64, service: f64, servers: usize, needed: usize) -> f64 {
    let cluster = Cluster::of_single_servers(&vec![service; servers], servers as u32, needed as u32);
    let rates = cluster.closed_rates(population).expect("the fork has a demand");
    let speeds = rates.iter().map(|rate| rate / rates[0]).collect();
    let fork = ClassStation { name: "fork".into(), demand: 1.0 / rates[0], pace: Pace::Speeds(speeds) };
    single::solve(&[fork], think, population).expect("the fork has a demand").throughput(population)
}

/// The largest relative error of X over populations and think times.
fn worst(servers: usize, needed: usize) -> f64 {
    let mut worst = 0.0_f64;
    for population in [1, 2, 4, 8, 12] {
        for think in [0.3, 1.0, 3.0, 10.0] {
            let free = |waiting: usize| (population - waiting) as f64;
            let waiting = exact(|n| free(n) / think, population, 1.0, servers, needed);
            let truth = (population as f64 - waiting) / think;
            let error = approximate(population, think, 1.0, servers, needed) / truth - 1.0;
            worst = worst.max(error.abs());
        }
    }
    worst
}

#[test]
fn one_server_is_no_fork_and_exact() {
    assert!(worst(1, 1) < 1e-6);
}

#[test]
fn closed_waiting_for_all_is_within_the_stated_error() {
    let (two, three) = (worst(2, 2), worst(3, 3));
    println!("closed, X: all of 2 {two:.4}, all of 3 {three:.4}");
    assert!(two < 0.01 && three < 0.02);
}

#[test]
fn open_forks_are_within_the_stated_error() {
    for (servers, needed, low, high) in
        [(2, 2, -1e-4, 1e-4), (3, 3, -0.02, 0.02), (2, 1, -0.20, 1e-6), (3, 2, -0.20, 1e-6)]
    {
        for load in [0.1, 0.5, 0.75] {
            let most = if servers == 2 { 60 } else { 28 };
            let truth = exact(|_| load, most, 1.0, servers, needed) / load;
            let cluster = Cluster::of_single_servers(&vec![1.0; servers], servers as u32, needed as u32);
            let error = cluster.open_present(load).unwrap() / load / truth - 1.0;
            println!("open, R: {needed} of {servers} at {load}: {error:.4}");
            assert!((low..=high).contains(&error), "{needed} of {servers} at {load}: {error}");
        }
    }
}
