//! What is said about headroom, for a terminal and as a document.

mod series;

pub use series::series_screen;

use std::iter::once;

use krarup_analysis::headroom::TrialHeadroom;
use krarup_analysis::results::Results;
use krarup_model::headroom::{
    CapacityEstimate, ChangeEffect, Headroom, HeadroomVerdict, LimitingResource, ResourceKind, ResourceState,
    STATED, Silence,
};
use krarup_units::text::{count, duration, three_digits};
use krarup_units::{Unit, lines};

use crate::document::{Block, Document, Fact, Finding, Note, Section, Table, TableValue};
use crate::text;

/// How wide a screen is at least.
const WIDTH: usize = 80;
/// How wide the drawing of rates is, without its ends.
const SCALE: usize = 62;
/// Where the text behind a keyword begins.
const INDENT: usize = 11;

/// What is said, in lines of at most 80 letters; only those of ASCII where `ascii` asks for that.
pub fn screen(headroom: &Headroom, ascii: bool) -> String {
    let lines = |said: Vec<(&str, String)>| -> String {
        said.iter().map(|(keyword, text)| wrapped(keyword, text)).collect()
    };
    let mut out = lines(said_first(headroom));
    if let Some(scale) = scale(headroom) {
        out.push_str(&scale);
    }
    if let Some(first) = first_full(headroom) {
        out.push_str(&wrapped("first full", &first));
    }
    if !headroom.resources.is_empty() {
        out.push('\n');
        out.push_str(&text::table(&resources(headroom)));
        out.push('\n');
    }
    out.push_str(&lines(said_last(headroom)));
    if ascii { text::ascii(&out) } else { out }
}

/// The answer, why there is none, and the rates that were seen, each with its keyword.
pub(crate) fn said_first(headroom: &Headroom) -> Vec<(&'static str, String)> {
    let because = headroom.silent.iter().map(|reason| ("because", reason.text().to_owned()));
    once(("", verdict(headroom))).chain(because).chain(once(("traffic", traffic(headroom)))).collect()
}

/// What changes would do, and what the answer stands on, likewise.
pub(crate) fn said_last(headroom: &Headroom) -> Vec<(&'static str, String)> {
    let what_if =
        |effect: &ChangeEffect| ("what if", format!("{}: {}", effect.change, of_effect(headroom, effect)));
    let assumes = (!headroom.assumes.is_empty()).then(|| ("assumes", headroom.assumes.join("; ")));
    let check = check(headroom).map(|check| ("check", check));
    effects(headroom).iter().map(what_if).chain(check).chain(assumes).collect()
}

/// The same as a page. `of` says whose traffic it is, `footer` names the program and its version.
pub fn document(headroom: &Headroom, of: &str, footer: &str) -> Document {
    let told = effects(headroom);
    let effects = told.iter().map(|effect| {
        vec![TableValue::from(effect.change.as_str()), TableValue::Text(of_effect(headroom, effect))]
    });
    let columns = [("change", Unit::Text), ("effect", Unit::Text)];
    let what_if = Table::untitled("what-if", &columns, effects.collect());
    let stands = check(headroom).map(|check| format!("The model beside what was measured: {check}."));
    let assumed = headroom.assumes.iter().map(|one| format!("It is assumed that {one}."));
    let sections = [
        ("Resources", (!headroom.resources.is_empty()).then(|| Block::Table(resources(headroom)))),
        ("What if", (!told.is_empty()).then_some(Block::Table(what_if))),
        ("What it stands on", Some(Block::List(stands.into_iter().chain(assumed).collect()))),
    ];
    Document {
        title: "Headroom".to_owned(),
        subtitle: format!("{of}: {}", traffic(headroom)),
        summary: vec![Finding::words("capacity", verdict(headroom))],
        facts: facts(headroom),
        quantities: Vec::new(),
        notes: headroom
            .silent
            .iter()
            .map(|reason| Note::warning("No conclusion.".to_owned(), reason.text().to_owned()))
            .collect(),
        sections: sections
            .into_iter()
            .filter_map(|(title, block)| Some(Section { title: title.to_owned(), blocks: vec![block?] }))
            .collect(),
        footer: footer.to_owned(),
    }
}

/// What changes would do: nothing while its traffic tells nothing of the system as it is.
fn effects(headroom: &Headroom) -> &[ChangeEffect] {
    match headroom.verdict {
        HeadroomVerdict::Proven | HeadroomVerdict::Silent => &[],
        HeadroomVerdict::Stated | HeadroomVerdict::Projected => &headroom.what_if,
    }
}

fn facts(headroom: &Headroom) -> Vec<Fact> {
    let fact = |label: &str, value: String, detail: String| Fact { label: label.to_owned(), value, detail };
    let now = fact("traffic now", rate(headroom.traffic.now_per_s), "mean of ten seconds".to_owned());
    let said = headroom.verdict != HeadroomVerdict::Silent;
    let capacity = headroom.capacity_per_s.filter(|_| said).map(|capacity| {
        fact("capacity", rate(capacity.mean), format!("{} ({})", word(headroom.verdict), range(capacity)))
    });
    let ratio = headroom.headroom_ratio.filter(|_| said).map(|ratio| {
        let detail =
            format!("capacity over the traffic now ({} – {})", digits(ratio.low), digits(ratio.high));
        fact("headroom", format!("{} ×", digits(ratio.mean)), detail)
    });
    let first = headroom.bottleneck.as_ref().map(|first| {
        let at = headroom.saturation_per_s.map_or(String::new(), |at| format!("at {}", rate(at)));
        fact("first full", of_limit(first), at)
    });
    once(now).chain(capacity).chain(ratio).chain(first).collect()
}

/// The word for a verdict.
pub const fn word(verdict: HeadroomVerdict) -> &'static str {
    match verdict {
        HeadroomVerdict::Proven => "proven",
        HeadroomVerdict::Stated => "stated",
        HeadroomVerdict::Projected => "projected",
        HeadroomVerdict::Silent => "no conclusion",
    }
}

/// The answer in one or two sentences.
pub fn verdict(headroom: &Headroom) -> String {
    let sentence = CapacitySentence {
        target: headroom.target.map(|target| target.to_string()),
        limit: "the first resource is full",
        seen: "the rate of busy seconds",
        verdict: headroom.verdict,
        capacity: headroom.capacity_per_s,
        ratio: headroom.headroom_ratio,
        broken_now: headroom.broken_now,
        now_per_s: headroom.traffic.now_per_s,
    };
    sentence.text()
}

/// What the first sentence of an answer is made of.
struct CapacitySentence {
    target: Option<String>,
    /// What happens at the capacity where there is no target.
    limit: &'static str,
    /// The rate that a projection is measured by.
    seen: &'static str,
    verdict: HeadroomVerdict,
    capacity: Option<CapacityEstimate>,
    ratio: Option<CapacityEstimate>,
    broken_now: Option<bool>,
    now_per_s: f64,
}

impl CapacitySentence {
    fn text(&self) -> String {
        let out = match (self.verdict, self.capacity) {
            (HeadroomVerdict::Silent, _) | (_, None) => match &self.target {
                Some(target) => format!("no conclusion about the rate at which {target} breaks"),
                None => format!("no conclusion about the rate at which {}", self.limit),
            },
            (said, Some(capacity)) => {
                let about = if said == HeadroomVerdict::Proven { "at least" } else { "about" };
                let what = match &self.target {
                    Some(target) => format!("{target} holds up to {about}"),
                    None => format!("{} at {about}", self.limit),
                };
                let times = self.ratio.map(|ratio| format!(": {} × the traffic now", digits(ratio.mean)));
                let times = times.unwrap_or_default();
                let range = match said {
                    HeadroomVerdict::Proven => String::new(),
                    _ => format!(" ({})", range(capacity)),
                };
                format!("{what} {}{range}{times}{}", rate(capacity.mean), reach(said, self.seen))
            }
        };
        match (&self.target, self.broken_now) {
            (Some(target), Some(true)) => {
                format!("{target} is broken now, at {}; {out}", rate(self.now_per_s))
            }
            _ => out,
        }
    }
}

/// How far an answer reaches beyond what was `seen`, behind the capacity.
fn reach(said: HeadroomVerdict, seen: &str) -> String {
    match said {
        HeadroomVerdict::Projected => format!(
            " [projected: over {STATED} × {seen}, a limit that acts only when it is met may come before]"
        ),
        HeadroomVerdict::Proven => " [proven by a redline]".to_owned(),
        _ => " [stated]".to_owned(),
    }
}

/// The rates that were seen.
pub fn traffic(headroom: &Headroom) -> String {
    let (seen, proven) = (headroom.traffic, headroom.proven_per_s);
    if seen.over_s == 0.0 {
        return "none that could be looked at".to_owned();
    }
    format!(
        "{} now, {} in busy seconds (p95 of {}); served already: {} for 1 s, {} for 100 ms",
        rate(seen.now_per_s),
        rate(seen.highest_per_s),
        duration(seen.over_s),
        rate(proven.one_second),
        rate(proven.tenth_of_a_second),
    )
}

/// Rates as a line: now, proven, the interval of the capacity.
fn scale(headroom: &Headroom) -> Option<String> {
    if headroom.verdict == HeadroomVerdict::Silent {
        return None;
    }
    let proven = headroom.proven_per_s.one_second;
    Some(drawn(headroom.traffic.now_per_s, proven, headroom.capacity_per_s?))
}

/// Rates per second as a line with its legend.
fn drawn(now: f64, proven: f64, capacity: CapacityEstimate) -> String {
    let end = capacity.high.max(proven) * 1.05;
    let place = |rate: f64| ((rate / end * SCALE as f64).round() as usize).min(SCALE);
    let (now, proven) = (place(now), place(proven));
    let (low, mean, high) = (place(capacity.low), place(capacity.mean), place(capacity.high));
    let mark = |at: usize| match at {
        at if at + 1 == mean => '|',
        at if at < now => '█',
        at if at < proven => '▓',
        at if at < low => '·',
        at if at < high => '▒',
        _ => ' ',
    };
    let line: String = (0..SCALE).map(mark).collect();
    let legend = "█ now   ▓ served already   · free   ▒ interval of the capacity, | its middle";
    format!("0 {line} {}\n  {legend}\n", rate(end))
}

fn first_full(headroom: &Headroom) -> Option<String> {
    let first = headroom.bottleneck.as_ref()?;
    let at = headroom.saturation_per_s.map_or(String::new(), |at| format!(", at {}", rate(at)));
    let is_first = |state: &&ResourceState| state.resource == first.resource && state.name == first.name;
    let state = headroom.resources.iter().find(is_first);
    let busy =
        state.and_then(|state| state.busy_now).map(|busy| format!("{} busy now", Unit::Share.show(busy)));
    let time = state.and_then(|state| state.service_us).map(|time| {
        let what = if first.resource == ResourceKind::Loop { "processor time" } else { "service time" };
        format!("{what} {}", duration(time / 1e6))
    });
    let known: Vec<_> = time.into_iter().chain(busy).collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) };
    Some(format!("{}{at}{known}", of_limit(first)))
}

/// A resource by its kind and name.
pub fn of_limit(first: &LimitingResource) -> String {
    named(first.resource, &first.name)
}

fn named(kind: ResourceKind, name: &str) -> String {
    match (kind, name) {
        (ResourceKind::Link | ResourceKind::Processors, "") => format!("{} of this machine", kind_word(kind)),
        (_, "") => kind_word(kind).to_owned(),
        (ResourceKind::Server, _) => format!("server {name}"),
        (ResourceKind::Link, _) => format!("link to {name}"),
        _ => format!("{} of {name}", kind_word(kind)),
    }
}

const fn kind_word(kind: ResourceKind) -> &'static str {
    match kind {
        ResourceKind::Server => "server",
        ResourceKind::Loop => "event loop",
        ResourceKind::Workers => "workers",
        ResourceKind::Link => "link",
        ResourceKind::Memory => "memory",
        ResourceKind::Files => "open files",
        ResourceKind::Connections => "client connections",
        ResourceKind::Processors => "processors",
        ResourceKind::Clients => "clients",
    }
}

pub(crate) fn resources(headroom: &Headroom) -> Table {
    let micros = |time: Option<f64>| TableValue::from(time.map(|time| time / 1e6));
    let row = |state: &ResourceState| {
        vec![
            TableValue::Text(named(state.resource, &state.name)),
            TableValue::from(state.full_at_per_s),
            TableValue::from(state.busy_now),
            micros(state.service_us),
            micros(state.outside_us),
            TableValue::from(state.waited.map(|waited| waited as f64)),
            TableValue::from(state.stalled),
        ]
    };
    let columns = [
        ("resource", Unit::Text),
        ("full at", Unit::PerSecond),
        ("busy now", Unit::Share),
        ("service", Unit::Seconds),
        ("outside", Unit::Seconds),
        ("waits", Unit::Count),
        ("stalled", Unit::Share),
    ];
    Table::untitled("resources", &columns, headroom.resources.iter().map(row).collect())
}

/// What is said at each trial beside what all of them measured.
pub fn trials(trials: &[TrialHeadroom]) -> Table {
    let row = |trial: &TrialHeadroom| {
        let said = trial.headroom.verdict != HeadroomVerdict::Silent;
        let capacity = trial.headroom.capacity_per_s.filter(|_| said);
        let why = trial.headroom.silent.first().map_or("", |reason| reason.name());
        vec![
            TableValue::from(trial.workload.as_str()),
            TableValue::from(f64::from(trial.clients)),
            TableValue::from(trial.throughput),
            TableValue::from(word(trial.headroom.verdict)),
            TableValue::from(capacity.map(|capacity| capacity.low)),
            TableValue::from(capacity.map(|capacity| capacity.mean)),
            TableValue::from(capacity.map(|capacity| capacity.high)),
            TableValue::from(trial.highest_measured),
            TableValue::from(why.replace('_', " ").as_str()),
        ]
    };
    let columns = [
        ("workload", Unit::Text),
        ("clients", Unit::Count),
        ("throughput", Unit::PerSecond),
        ("said", Unit::Text),
        ("low", Unit::PerSecond),
        ("capacity", Unit::PerSecond),
        ("high", Unit::PerSecond),
        ("measured", Unit::PerSecond),
        ("because", Unit::Text),
    ];
    Table::untitled("headroom", &columns, trials.iter().map(row).collect())
}

/// The same as a table of a report, without the trials that were too short for an answer; a
/// sentence where all were; nothing where no proxy said anything.
pub(crate) fn of_results(results: &Results) -> Option<Block> {
    let is_short = |one: &&TrialHeadroom| one.headroom.silent.contains(&Silence::ShortTime);
    let (short, told): (Vec<_>, Vec<_>) = results.headroom.iter().partition(is_short);
    let left_out = match short.len() {
        0 => String::new(),
        some => format!(
            " {some} of {} trials are left out: their proxy saw less than four seconds of traffic, which is too little for an answer.",
            results.headroom.len()
        ),
    };
    if told.is_empty() {
        let longer =
            "`phases.measure` in the spec makes them longer; from about ten seconds on there are answers.";
        return (!short.is_empty()).then(|| Block::Paragraph(format!("{} {longer}", left_out.trim_start())));
    }
    let title = "What is said about headroom at the end of each trial".to_owned();
    let caption = "From the traffic of one trial alone, as `krarup headroom` would have said it then: up to twice the rate \
                   of busy seconds (their 95th percentile) a capacity is stated, up to four times projected. It is the rate at which the first resource is full, \
                   with its interval; beside it the highest throughput of any trial of the workload.";
    let told: Vec<TrialHeadroom> = told.into_iter().cloned().collect();
    Some(Block::Table(Table { title, caption: format!("{caption}{left_out}"), ..trials(&told) }))
}

fn of_effect(headroom: &Headroom, effect: &ChangeEffect) -> String {
    if let Some(why) = &effect.silent {
        return format!("no conclusion ({})", why.replace('_', " "));
    }
    let time = headroom.target.zip(effect.quantile_s);
    let time = time.map(|(target, seconds)| format!("{} {}", target.percentile(), duration(seconds)));
    let capacity = effect.capacity_per_s.map(|capacity| match headroom.target {
        Some(_) => format!("holds up to {} ({})", rate(capacity.mean), range(capacity)),
        None => format!("full at {} ({})", rate(capacity.mean), range(capacity)),
    });
    let limit = effect.capacity_per_s.or(headroom.capacity_per_s);
    let holds = match (effect.holds, capacity.is_some()) {
        (_, true) => limit
            .filter(|limit| headroom.traffic.now_per_s > limit.mean)
            .map(|_| "which the traffic now exceeds".to_owned()),
        (Some(true), false) => Some("holds".to_owned()),
        (Some(false), false) => Some("breaks".to_owned()),
        (None, false) => limit.map(|limit| format!("may break: the limit is {}/s", range(limit))),
    };
    let parts: Vec<_> = match capacity {
        Some(capacity) => {
            let now = time.map(|time| format!("{time} at the traffic now"));
            once(capacity).chain(holds).chain(now).collect()
        }
        None => time.into_iter().chain(holds).collect(),
    };
    let fails = effect.fails.map(|share| format!("{} of the requests fail", Unit::Share.show(share)));
    once(parts.join(", ")).chain(fails).collect::<Vec<_>>().join("; ")
}

fn check(headroom: &Headroom) -> Option<String> {
    let check = headroom.check?;
    let off = |logarithm: f64| format!("{:+.0} %", 100.0 * logarithm.exp_m1());
    Some(format!(
        "response time modelled over measured: mean {}, p95 {}, over {} stretches of traffic",
        off(check.mean),
        off(check.p95),
        check.blocks
    ))
}

/// A rate of requests.
pub(crate) fn rate(per_second: f64) -> String {
    Unit::PerSecond.show(per_second)
}

/// An interval of rates.
pub fn range(of: CapacityEstimate) -> String {
    format!("{} – {}", count(of.low), count(of.high))
}

fn digits(ratio: f64) -> String {
    three_digits(ratio)
}

/// Text behind a keyword, its further lines under its first.
fn wrapped(keyword: &str, text: &str) -> String {
    let indent = if keyword.is_empty() { 0 } else { INDENT };
    let (first, further) = (format!("{keyword:<indent$}"), " ".repeat(indent));
    lines::wrapped(text, (&first, &further), WIDTH) + "\n"
}

#[cfg(test)]
mod tests {
    use krarup_model::headroom::{ModelCheck, ProvenRate, ResponseTarget, SCHEMA, Silence, TrafficSeen};
    use krarup_units::Stamp;

    use super::*;

    fn answer() -> Headroom {
        let estimate = |low, mean, high| CapacityEstimate { low, mean, high };
        let state = ResourceState {
            resource: ResourceKind::Server,
            name: "b".to_owned(),
            full_at_per_s: Some(3_898.0),
            busy_now: Some(0.3),
            service_us: Some(302.0),
            standard_error: Some(0.01),
            others: None,
            outside_us: Some(309.0),
            waited: Some(5_327),
            contention: Some(0.0),
            stalled: Some(0.0),
        };
        let effect = |change: &str| ChangeEffect {
            change: change.to_owned(),
            capacity_per_s: None,
            quantile_s: None,
            fails: None,
            holds: None,
            silent: None,
        };
        Headroom {
            schema: SCHEMA,
            at_ns: Stamp(1),
            traffic: TrafficSeen {
                now_per_s: 1_181.0,
                highest_per_s: 1_667.0,
                over_s: 600.0,
                c1: 0.0,
                c2: 0.0,
            },
            target: Some(ResponseTarget { quantile: 0.99, seconds: 0.008 }),
            verdict: HeadroomVerdict::Stated,
            silent: Vec::new(),
            broken_now: Some(false),
            bottleneck: Some(LimitingResource { resource: ResourceKind::Server, name: "b".to_owned() }),
            capacity_per_s: Some(estimate(2_323.0, 2_820.0, 3_169.0)),
            saturation_per_s: Some(3_898.0),
            headroom_ratio: Some(estimate(1.97, 2.39, 2.68)),
            proven_per_s: ProvenRate { one_second: 1_742.0, tenth_of_a_second: 1_990.0 },
            resources: vec![state],
            what_if: vec![
                ChangeEffect { quantile_s: Some(0.0044), holds: Some(true), ..effect("traffic x1.5") },
                ChangeEffect {
                    capacity_per_s: Some(estimate(900.0, 1_000.0, 1_100.0)),
                    quantile_s: Some(0.02),
                    holds: Some(false),
                    ..effect("server lost (worst)")
                },
                ChangeEffect { silent: Some("sizes_do_not_vary".into()), ..effect("values x2") },
                ChangeEffect { quantile_s: Some(0.007), ..effect("traffic x2") },
                ChangeEffect {
                    capacity_per_s: Some(estimate(2_300.0, 2_800.0, 3_100.0)),
                    quantile_s: Some(0.004),
                    fails: Some(0.378),
                    holds: Some(false),
                    ..effect("server a lost")
                },
            ],
            check: Some(ModelCheck { mean: 0.02, p95: 0.01, blocks: 6 }),
            assumes: vec!["servers keep the speed they show".to_owned()],
        }
    }

    #[test]
    fn the_screen_says_what_holds_up_to_which_rate_and_why() {
        let expected = "\
p99 < 8 ms holds up to about 2,820/s (2,323 - 3,169): 2.39 x the traffic now
[stated]
traffic    1,181/s now, 1,667/s in busy seconds (p95 of 600 s); served already:
           1,742/s for 1 s, 1,990/s for 100 ms
0 ######################==========...........~~~~~~~~~|~~~~~~    3,327/s
  # now   = served already   . free   ~ interval of the capacity, | its middle
first full server b, at 3,898/s (service time 302 us, 30.0 % busy now)

resource  full at  busy now  service  outside  waits  stalled
               /s         %       ms       ms               %
server b    3,898      30.0    0.302    0.309  5,327        0

what if    traffic x1.5: p99 4.40 ms, holds
what if    server lost (worst): holds up to 1,000/s (900 - 1,100), which the
           traffic now exceeds, p99 20.0 ms at the traffic now
what if    values x2: no conclusion (sizes do not vary)
what if    traffic x2: p99 7.00 ms, may break: the limit is 2,323 - 3,169/s
what if    server a lost: holds up to 2,800/s (2,300 - 3,100), p99 4.00 ms at
           the traffic now; 37.8 % of the requests fail
check      response time modelled over measured: mean +2 %, p95 +1 %, over 6
           stretches of traffic
assumes    servers keep the speed they show
";
        let shown = screen(&answer(), true);
        assert_eq!(shown, expected, "{shown}");
        assert!(shown.lines().all(|line| line.len() <= WIDTH));
    }

    #[test]
    fn silence_has_its_reason_and_no_number_to_rely_on() {
        let silent =
            Headroom { verdict: HeadroomVerdict::Silent, silent: vec![Silence::FewWaited], ..answer() };
        let shown = screen(&silent, false);
        assert!(shown.starts_with("no conclusion about the rate at which p99 < 8 ms breaks\n"), "{shown}");
        assert!(shown.contains("because    too few requests found a server busy"), "{shown}");
        assert!(!shown.contains("2,820") && !shown.contains("what if"), "{shown}");
        let document = document(&silent, "here", "footer");
        assert!(document.facts.iter().all(|fact| fact.label != "capacity"));
        assert_eq!(document.notes.len(), 1);
    }

    #[test]
    fn a_projection_and_a_target_that_is_broken_say_so() {
        let projected = Headroom { verdict: HeadroomVerdict::Projected, ..answer() };
        assert!(verdict(&projected).contains("[projected: over 2 × the rate of busy seconds"));
        let broken = Headroom { broken_now: Some(true), ..answer() };
        assert!(verdict(&broken).starts_with("p99 < 8 ms is broken now, at 1,181/s; "));
        let bursts = ProvenRate { one_second: 5_000.0, tenth_of_a_second: 6_000.0 };
        let bursts = traffic(&Headroom { proven_per_s: bursts, ..answer() });
        assert!(bursts.contains("5,000/s for 1 s") && !bursts.contains("highest"), "{bursts}");
        let nothing = Headroom { target: None, ..answer() };
        assert!(verdict(&nothing).starts_with("the first resource is full at about 2,820/s"));
    }

    #[test]
    fn the_page_has_all_that_the_screen_has() {
        let page = crate::html::page(&document(&answer(), "proxy on 127.0.0.1:11211", "krarup"));
        for part in
            ["2,820/s", "server b", "sizes do not vary", "1,742/s for 1 s", "It is assumed that servers"]
        {
            assert!(page.contains(part), "{part}");
        }
    }
}
