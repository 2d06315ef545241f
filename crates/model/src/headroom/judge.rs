//! From what was fitted and replayed to a verdict.

use krarup_record::LiveSnapshot;

use super::{
    Headroom, HeadroomQuestion, HeadroomVerdict, LiveSystem, ProvenRate, SCHEMA, Silence, TrafficSeen,
};

/// Judges a snapshot. See the [module](super).
pub fn judge(snapshot: &LiveSnapshot, _system: &LiveSystem, question: &HeadroomQuestion) -> Headroom {
    Headroom {
        schema: SCHEMA,
        at_ns: snapshot.at,
        traffic: TrafficSeen::default(),
        target: question.target,
        verdict: HeadroomVerdict::Silent,
        silent: vec![Silence::NoQueueSeen],
        broken_now: None,
        bottleneck: None,
        capacity_per_s: None,
        saturation_per_s: None,
        headroom_ratio: None,
        proven_per_s: ProvenRate::default(),
        resources: Vec::new(),
        what_if: Vec::new(),
        check: None,
        assumes: Vec::new(),
    }
}
