//! The systems of this harness as queueing networks, where those can say them: the project's own
//! simulator shares no line with this one, and what both can say they say alike.

use std::ops::ControlFlow;

use krarup_model::Distribution;
use krarup_model::network::{Branch, Class, Network, SlotPool, SlotPoolId, Station, StationId, Step};
use krarup_model::simulate::{SimulationSettings, simulate};

use super::judging::{Effort, SHAPING_SEED, quantile, saturation};
use super::kinds::{Kind, candidate};
use super::system::{Load, SECOND, ServiceLaw, Simulation, SystemLaw};

/// The kinds that are a network with a law of service for each connection to a server. The others
/// have a loop that works in passes, arrivals in bursts, servers that stop, change, serve several
/// requests at once or share processors, clients of another proxy, copies whose later answer is
/// thrown away, or sizes and mixes that go with the time.
const BOTH: [Kind; 9] = [
    Kind::Exp,
    Kind::Det,
    Kind::Gam,
    Kind::Rtt,
    Kind::Threads,
    Kind::Hot,
    Kind::Slow,
    Kind::Workers,
    Kind::Workers2,
];

/// Of the mean and of the 99th percentile of 200,000 response times, by either simulator.
const NEAR: (f64, f64) = (0.03, 0.05);

/// The candidate's law without what no network has: bursts, jitter and the time of the loop.
fn plain(kind: Kind) -> SystemLaw {
    let law = candidate(kind, SHAPING_SEED).law;
    let law = SystemLaw { jitter: 0.0, burst: 0.0, pass: 0.0, entry: 0.0, exit: 0.0, ..law };
    // Its branches are weighted otherwise than those of a network's hyperexponential law.
    if law.law == ServiceLaw::Hyper { SystemLaw { law: ServiceLaw::Exponential, ..law } } else { law }
}

fn service(law: ServiceLaw, mean: f64) -> Distribution {
    match law {
        ServiceLaw::Constant => Distribution::Constant { value: mean },
        ServiceLaw::Gamma => Distribution::Erlang { stages: 4, mean },
        ServiceLaw::Exponential | ServiceLaw::Hyper => Distribution::Exponential { mean },
    }
}

fn network(law: &SystemLaw, rate: f64) -> Network {
    let wire = StationId(0);
    let mut stations = vec![Station::delay("wire")];
    let mut branches = Vec::new();
    for (number, server) in law.servers.iter().enumerate() {
        for lane in 0..law.lanes {
            let station = StationId(stations.len());
            stations.push(Station::single(format!("s{number}-{lane}")));
            let half = || Step::visit(wire, Distribution::Constant { value: 0.5 * server.delay });
            let path = vec![half(), Step::visit(station, service(law.law, server.service)), half()];
            branches.push(Branch { share: server.share / law.lanes as f64, path });
        }
    }
    let all = vec![Step::OneOf { branches }];
    let (pools, path) = match law.workers {
        Some(workers) => {
            (vec![SlotPool::new("workers", workers as u32)], vec![Step::hold(SlotPoolId(0), all)])
        }
        None => (Vec::new(), all),
    };
    Network { name: "system".into(), stations, pools, classes: vec![Class::open("get", rate, path)] }
}

#[test]
fn both_simulators_say_the_same_of_what_both_can_say() {
    let quick = Effort { saturation: 60_000, target: 60_000, seconds: 6, kept: 0, minutes: 1, loops: 1 };
    for kind in BOTH {
        let law = plain(kind);
        let rate = 0.7 * saturation(&law, quick, 1);
        let load = Load::Open(vec![rate]);
        let mut run = Simulation::new(&law, &load, 3);
        run.keep_from = Some(SECOND);
        run.run_until((200_000.0 / rate) as u64 * SECOND);
        let mean = run.responses.iter().sum::<f64>() / run.responses.len() as f64;
        let p99 = quantile(&mut run.responses, 0.99);

        // Three visits and an arrival are four events, and waiting for a worker is none.
        let defaults = SimulationSettings::default();
        let settings =
            SimulationSettings { precision: 0.0, max_events: 800_000, percentiles: vec![0.99], ..defaults };
        let network = network(&law, rate);
        let found = simulate(&network, &settings, &mut |_| ControlFlow::Continue(())).unwrap();
        let class = &found.classes[0];
        let response = class.response.unwrap().value;
        let high = class.percentiles[0].response.value;
        let name = kind.name();
        assert!((mean / response - 1.0).abs() < NEAR.0, "{name}: mean {mean}, as a network {response}");
        assert!((p99 / high - 1.0).abs() < NEAR.1, "{name}: p99 {p99}, as a network {high}");
    }
}
