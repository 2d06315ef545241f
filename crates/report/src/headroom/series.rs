//! What is said about the headroom of a service from its series, for a terminal.

use krarup_model::headroom::{HeadroomVerdict, SeriesHeadroom};
use krarup_units::text::duration;

use super::{CapacitySentence, digits, drawn, rate, wrapped};
use crate::text;

/// What is said, in lines of at most 80 letters; only those of ASCII where `ascii` asks for that.
pub fn series_screen(headroom: &SeriesHeadroom, ascii: bool) -> String {
    let mut out = wrapped("", &verdict(headroom));
    for reason in &headroom.silent {
        out.push_str(&wrapped("because", reason.text()));
    }
    let seen = headroom.traffic;
    if seen.points > 0 {
        let over = format!("{} points over {}", seen.points, duration(seen.over_s));
        let now = match seen.quiet_s {
            Some(quiet) => format!("none in the last {}", duration(quiet)),
            None => format!("{} now", rate(seen.now_per_s)),
        };
        let traffic = format!("{now}, {} highest; {over}", rate(seen.highest_per_s));
        out.push_str(&wrapped("traffic", &traffic));
    }
    let said = headroom.verdict != HeadroomVerdict::Silent;
    if let Some(capacity) = headroom.capacity_per_s.filter(|_| said) {
        out.push_str(&drawn(seen.now_per_s, seen.highest_per_s, capacity));
    }
    for (number, law) in headroom.laws.iter().enumerate() {
        let keyword = if number == 0 { "law" } else { "or" };
        let limit = format!("throughput ends at {}", rate(law.law.limit()));
        let error = format!("misses what it has not seen by {} %", digits(100.0 * law.error));
        out.push_str(&wrapped(keyword, &format!("{}: {limit}; {error}", law.law.name())));
    }
    if let Some(little) = headroom.little {
        let ratio = format!("number in flight over rate × response time: {}", digits(little));
        out.push_str(&wrapped("check", &ratio));
    }
    if said {
        let assumed = "what made requests slower at high rates goes on to do so; a limit that acts for less than a step, or has not acted yet, is not seen";
        out.push_str(&wrapped("assumes", assumed));
    }
    if ascii { text::ascii(&out) } else { out }
}

/// The answer in one or two sentences.
fn verdict(headroom: &SeriesHeadroom) -> String {
    let sentence = CapacitySentence {
        target: headroom.target_mean_s.map(|target| format!("mean < {}", duration(target))),
        limit: "throughput ends",
        seen: "the highest rate seen",
        verdict: headroom.verdict,
        capacity: headroom.capacity_per_s,
        ratio: headroom.headroom_ratio,
        broken_now: headroom.broken_now,
        now_per_s: headroom.traffic.now_per_s,
    };
    sentence.text()
}
