//! How many workers a proxy needs, from what its servers show: as many as keep the first server to
//! be full busy, and hardly more, because a request that waits at the proxy slows no server down.
//!
//! The number is left alone where that is not the whole truth: where nothing can be said of the
//! headroom, where the event loop or the machine may be full before the server, and where a server
//! or the loop does several requests at once, so that each takes the less the more there are.

use krarup_record::LiveSnapshot;
use krarup_units::{Nanos, Seconds, Stamp};

use super::answer::{HeadroomQuestion, LiveSystem, Silence};
use super::fit::{DEEP, ServiceFit};
use super::fitted::Fitted;
use super::judge::judge;
use super::kept::mean;
use super::server_fit::{self, ServerFit};
use super::traffic::{LATELY, SeenTraffic};

/// How far it is looked back.
const LOOKED_BACK: Nanos = Nanos::from_secs(60);
/// So much of the highest throughput is enough.
const ENOUGH: f64 = 0.99;
/// Fewer workers would serialise what little comes.
const FEWEST: u32 = 4;
/// The number goes up by this factor at most from one decision to the next, and down by this.
const UP: f64 = 2.0;
const DOWN: f64 = 0.5;
/// The round trip without a queue is known from so many requests that found a connection idle.
const IDLE_SEEN: usize = 50;
/// The first server counts as full at this share of what it can do.
const FULL: f64 = 0.9;
/// What can be full within this many times the rate at which the server is may be full before it.
const NEAR: f64 = 2.0;
/// Where more than this share of those that waited are answered with others, or the service time
/// falls with those outstanding beyond doubt (slope over standard error), requests are batched.
const TOGETHER: f64 = 0.1;
const FALLS: f64 = -2.5;
/// The seed of the replays.
const SEED: u64 = 1;

/// How many workers there shall be from now on, where there are `now` and may be `most`.
///
/// The number is that of a closed network: W requests are either on their way, each for `d`, or in
/// one of the queues of the server, one for each connection, whose service time grows with those
/// outstanding as far as this was seen. It is the smallest W whose throughput is 99 % of what the
/// best W gives, by mean value analysis (Jain, "The Art of Computer Systems Performance Analysis",
/// chapter 34). Servers that are not full then hold as many as they have by Little's law.
///
/// It is `now` while the server is full, and where that network is another than the system: the
/// event loop or the machine may be full before the server, or requests are batched.
///
/// # Errors
/// Why nothing can be said, of the headroom or of the number; the number shall stay what it is.
pub fn workers_wanted(
    snapshot: &LiveSnapshot,
    system: &LiveSystem,
    now: u32,
    most: u32,
) -> Result<u32, Silence> {
    let question = HeadroomQuestion { target: None, changes: Vec::new(), seed: SEED };
    if let Some(why) = judge(snapshot, system, &question).silent.first() {
        return Err(*why);
    }
    let from = Stamp(snapshot.at.0.saturating_sub(LOOKED_BACK.0));
    let kept = server_fit::seen(snapshot, system, from, snapshot.at);
    let traffic = SeenTraffic::of(&kept).ok_or(Silence::ShortTime)?;
    let fitted = Fitted::of(kept, traffic, system, &[], SEED);
    let (first, full_at) = fitted.first_server().ok_or(Silence::NoQueueSeen)?;
    let fit = fitted.servers[first].fit.as_ref().ok_or(Silence::NoQueueSeen)?;
    if fit.waited < 300 || fit.idle < IDLE_SEEN {
        // Without requests that found it idle the round trip is not told from the queue.
        return Err(Silence::FewWaited);
    }
    // Where the server is full now the workers are enough, and the round trip cannot be told from
    // the queue that they make: they stay.
    let full = snapshot.replied_per_s(LATELY) > FULL * full_at;
    if full || may_be_full_before(&fitted, full_at) || is_batched(fit) {
        return Ok(now.clamp(FEWEST.min(most), most));
    }
    let (kept, servers) = (&fitted.kept, &fitted.servers);
    let own = mean(kept.of_clients().map(|one| one.own));
    let others = servers.iter().enumerate().filter(|(number, _)| *number != first);
    let elsewhere: f64 = others.map(|(_, one)| full_at * one.share * busy_for(one)).sum();
    let wanted = at_server(fit, servers[first].lanes, most) + elsewhere + full_at * own;
    let wanted = (wanted.ceil() as u32).clamp(FEWEST.min(most), most);
    let (lowest, highest) = ((f64::from(now) * DOWN) as u32, (f64::from(now) * UP) as u32);
    Ok(wanted.clamp(lowest.min(most), highest.max(FEWEST).min(most)))
}

/// Whether the loops or the machine may be full before a server that is at this rate: then more
/// workers give each pass of a loop more to do at once, and fewer make all of them slower.
fn may_be_full_before(fitted: &Fitted<'_>, full_at: f64) -> bool {
    let loops = fitted.loops.map(|fit| fit.low);
    let all = fitted.machine().map(|(_, fit)| fit.middle).chain(loops);
    all.fold(f64::INFINITY, f64::min) < NEAR * full_at
}

/// Whether requests take the less time the more there are.
fn is_batched(fit: &ServiceFit) -> bool {
    fit.together > TOGETHER || fit.contention.z < FALLS
}

/// For how long a request holds its worker at a server that has little to do.
fn busy_for(server: &ServerFit) -> Seconds {
    server.fit.as_ref().map_or(server.round_trip, |fit| fit.delay + 1.5 * fit.service)
}

/// The workers that keep the server busy.
fn at_server(fit: &ServiceFit, lanes: f64, most: u32) -> f64 {
    let slope = fit.contention;
    // The less sure the slope, the less it counts.
    let slower = if slope.z > 1.0 { slope.slope * (1.0 - slope.z.powi(-2)) } else { 0.0 };
    // Deeper than requests have been the slope is not known.
    let service = |outstanding: f64| {
        let depth = outstanding.clamp(0.0, DEEP) - slope.at;
        fit.service * (1.0 + slower * depth).max(0.3)
    };
    let throughputs = throughputs(most, fit.delay, lanes, service);
    let best = throughputs.iter().copied().fold(0.0, f64::max);
    let enough = throughputs.iter().position(|one| *one >= ENOUGH * best);
    enough.map_or(f64::from(most), |place| place as f64 + 1.0)
}

/// Throughput of 1 to `most` requests that are `delay` under way each, and then in one of `lanes`
/// queues, whichever, where a service takes `service(n)` with n outstanding: mean value analysis.
fn throughputs(most: u32, delay: Seconds, lanes: f64, service: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut outstanding = 0.0;
    let of = |workers: u32| {
        let response = service(outstanding) * (1.0 + outstanding / lanes);
        let throughput = f64::from(workers) / (delay + response);
        outstanding = throughput * response;
        throughput
    };
    (1..=most).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M/M/1 with a finite population: p0 of its birth and death chain (Jain, chapter 31).
    #[test]
    fn throughput_is_that_of_the_chain_of_a_finite_population() {
        let (service, delay) = (1e-3, 4e-3);
        for (workers, found) in (1..=40).zip(throughputs(40, delay, 1.0, |_| service)) {
            let (mut weight, mut total) = (1.0, 1.0);
            for at in 0..workers {
                weight *= f64::from(workers - at) * service / delay;
                total += weight;
            }
            let expected = (1.0 - 1.0 / total) / service;
            assert!((found / expected - 1.0).abs() < 1e-9, "{workers}: {found} for {expected}");
        }
    }
}
