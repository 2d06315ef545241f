//! What instances are asked, and which they are.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use krarup_analysis::top::{ServiceKind, TopState};
use krarup_model::headroom::Headroom;
use krarup_model::hot_keys::HotKeys;
use krarup_net::http;
use krarup_record::ClientsReport;
use krarup_record::exposition::read::Samples;
use krarup_units::{Address, Mistake, Seconds};
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::headroom;

/// Instances that are looked at, at most.
const MOST: usize = 64;
/// How long any answer but that about the headroom may take.
const LIMIT: Duration = Duration::from_secs(5);
/// How often names are resolved.
const NAMES: Duration = Duration::from_secs(10);

/// Seconds since this was made, for a state that knows no clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elapsed(Instant);

impl Elapsed {
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    pub(super) fn seconds(self) -> Seconds {
        self.0.elapsed().as_secs_f64()
    }
}

/// What can be asked beside metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopQuestion {
    Headroom,
    HotKeys,
    Clients,
}

/// What an instance answered.
#[derive(Debug)]
pub(super) enum Answered {
    Metrics(Samples),
    /// It does not answer, for this reason.
    Nothing(String),
    Headroom(Box<Headroom>),
    HotKeys(Box<HotKeys>),
    Clients(Box<ClientsReport>),
    /// It is a broker that serves nothing now.
    Waits,
    /// It does not say this: what it said before is of another time.
    Unsaid(TopQuestion),
}

/// What an instance answered, and when.
#[derive(Debug)]
pub(super) struct TopReply {
    pub(super) instance: String,
    pub(super) at: Seconds,
    pub(super) answered: Answered,
}

impl TopQuestion {
    /// Whether this kind of service answers it.
    pub(super) fn suits(self, kind: ServiceKind) -> bool {
        match self {
            Self::Headroom => true,
            Self::HotKeys | Self::Clients => kind == ServiceKind::Proxy,
        }
    }
}

impl TopReply {
    /// What kind of service has answered; none: it did not.
    pub(super) fn kind(&self) -> Option<ServiceKind> {
        match &self.answered {
            Answered::Metrics(samples) => ServiceKind::of(samples),
            _ => None,
        }
    }

    /// Enters what was answered into the state.
    pub(super) fn enter(self, state: &mut TopState) {
        let Self { instance, at, answered } = self;
        match answered {
            Answered::Metrics(samples) => state.looked(&instance, at, samples),
            Answered::Nothing(why) => state.lost(&instance, at, why),
            Answered::Waits => state.lost(&instance, at, WAITS.to_owned()),
            Answered::Headroom(headroom) => state.set_headroom(&instance, *headroom),
            Answered::HotKeys(keys) => state.set_hot_keys(&instance, *keys),
            Answered::Clients(clients) => state.set_clients(&instance, *clients),
            Answered::Unsaid(TopQuestion::Headroom) => state.set_headroom(&instance, None),
            Answered::Unsaid(TopQuestion::HotKeys) => state.set_hot_keys(&instance, None),
            Answered::Unsaid(TopQuestion::Clients) => state.set_clients(&instance, None),
        }
    }
}

/// The instances behind `addresses`: a name stands for all its addresses. Where it has some of both
/// families, as a name of one process has that listens on both, it is those of the family in which
/// one answers, or which `known` has.
pub(super) fn instances(addresses: &[Address], known: &[Address]) -> Result<Vec<Address>, Mistake> {
    let mut found: Vec<Address> = Vec::new();
    for address in addresses {
        for instance in behind(address, known)? {
            if !found.contains(&instance) {
                found.push(instance);
            }
        }
    }
    match found.len() {
        0..=MOST => Ok(found),
        many => Err(Mistake::new(
            format!("{many} instances are more than the {MOST} that can be looked at"),
            "for more, packaging/recording-rules.yml and Prometheus",
        )),
    }
}

/// Whether it is an instance itself, and no name for some.
fn is_one(address: &Address) -> bool {
    address.is_local() || address.is_number()
}

fn behind(address: &Address, known: &[Address]) -> Result<Vec<Address>, Mistake> {
    if is_one(address) {
        return Ok(vec![address.clone()]);
    }
    let resolved = krarup_net::resolve(address)?;
    let (v4, v6): (Vec<SocketAddr>, Vec<SocketAddr>) = resolved.iter().partition(|one| one.is_ipv4());
    let preferred = if resolved.first().is_some_and(SocketAddr::is_ipv4) { [v4, v6] } else { [v6, v4] };
    let mut families = preferred.into_iter().filter(|family| !family.is_empty()).map(|family| {
        let mut family: Vec<Address> = family.into_iter().map(Address::from).collect();
        family.dedup();
        family
    });
    let first = families.next().unwrap_or_default();
    let Some(second) = families.next() else { return Ok(named(address, first)) };
    let is_known = |family: &[Address]| family.iter().any(|one| known.contains(one));
    let chosen = match (is_known(&first), is_known(&second)) {
        (true, _) => first,
        (_, true) => second,
        _ if first.iter().any(|one| http::get(one, "/health").is_ok()) => first,
        _ if second.iter().any(|one| http::get(one, "/health").is_ok()) => second,
        _ => first,
    };
    Ok(named(address, chosen))
}

/// One address goes by the name that was given: it may have another one later.
fn named(address: &Address, found: Vec<Address>) -> Vec<Address> {
    if found.len() == 1 { vec![address.clone()] } else { found }
}

/// Resolves names again and again on a thread of its own, where there are any, and tells the
/// instances that they stand for whenever those are others; until `tell` says that it is over.
pub(super) fn follow_names(
    addresses: Vec<Address>,
    first: Vec<Address>,
    tell: impl FnMut(Vec<Address>) -> bool + Send + 'static,
) {
    if addresses.iter().all(is_one) {
        return;
    }
    // Nothing is ever sent here: it is a wait that a closed channel would end.
    let (open, never) = mpsc::channel::<()>();
    let resolve = move |known: &[Address]| {
        let (_open, _over) = (&open, never.recv_timeout(NAMES));
        instances(&addresses, known)
    };
    thread::spawn(move || follow(first, resolve, tell));
}

/// A resolver that is out of reach says nothing about the instances.
fn follow(
    mut known: Vec<Address>,
    mut resolve: impl FnMut(&[Address]) -> Result<Vec<Address>, Mistake>,
    mut tell: impl FnMut(Vec<Address>) -> bool,
) {
    loop {
        if let Ok(found) = resolve(&known)
            && found != known
        {
            known.clone_from(&found);
            if !tell(found) {
                return;
            }
        }
    }
}

/// Asks all instances at once for their metrics, and for more.
pub(super) fn look(instances: &[Address], asked: &[TopQuestion], elapsed: Elapsed) -> Vec<TopReply> {
    thread::scope(|scope| {
        let threads: Vec<_> = instances
            .iter()
            .map(|instance| {
                scope.spawn(move || {
                    let reply = metrics(instance, elapsed);
                    let kind = reply.kind();
                    let asked = asked.iter().filter(|question| kind.is_some_and(|kind| question.suits(kind)));
                    let more = asked.map(|question| more(instance, *question, elapsed));
                    let mut replies: Vec<_> = more.collect();
                    // What it says belongs to the look that it came with.
                    replies.insert(0, reply);
                    replies
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("asking does not panic")).collect()
    })
}

/// What a broker says that serves nothing now.
const WAITS: &str =
    "it is a broker that serves nothing now: it waits for its turn, loads the queues or stops";

/// Asks an instance for its metrics.
pub(super) fn metrics(instance: &Address, elapsed: Elapsed) -> TopReply {
    let answer = http::get_within(instance, "/metrics", LIMIT);
    let at = elapsed.seconds();
    let answered = match answer.map(|text| Samples::read(&text)) {
        Ok(samples) if ServiceKind::of(&samples).is_some() => Answered::Metrics(samples),
        Ok(samples) if samples.value("krarup_broker_waiting") == Some(1.0) => Answered::Waits,
        Ok(_) => Answered::Nothing("it is no krarup proxy or broker".to_owned()),
        Err(why) => {
            let front = format!("{instance} cannot be asked: ");
            Answered::Nothing(why.what.strip_prefix(&front).unwrap_or(&why.what).to_owned())
        }
    };
    TopReply { instance: instance.to_string(), at, answered }
}

/// Asks for something more. An instance may not say it: it is of an older version, or overloaded.
pub(super) fn more(instance: &Address, asked: TopQuestion, elapsed: Elapsed) -> TopReply {
    let ask = |path: &str| http::get_within(instance, path, LIMIT);
    let says = match asked {
        TopQuestion::Headroom => {
            headroom::answer(instance, "/headroom").ok().map(Box::new).map(Answered::Headroom)
        }
        TopQuestion::HotKeys => json(ask("/hotkeys")).map(Box::new).map(Answered::HotKeys),
        TopQuestion::Clients => json(ask("/clients")).map(Box::new).map(Answered::Clients),
    };
    let answered = says.unwrap_or(Answered::Unsaid(asked));
    TopReply { instance: instance.to_string(), at: elapsed.seconds(), answered }
}

fn json<T: DeserializeOwned>(answer: Result<String, Mistake>) -> Option<T> {
    serde_json::from_str(&answer.ok()?).ok()
}

/// Why not one instance answered; none: one did.
pub(super) fn why_none_answers(replies: &[TopReply]) -> Option<Failure> {
    let answers = |reply: &TopReply| matches!(reply.answered, Answered::Metrics(_));
    let why = replies.iter().find_map(|reply| match &reply.answered {
        Answered::Waits => {
            Some(Failure::run(format!("{}: {WAITS}", reply.instance)).hint("GET /ready there says what for"))
        }
        Answered::Nothing(why) => Some(
            Failure::run(format!("{} does not answer: {why}", reply.instance))
                .hint("give the proxy or the broker an address with --admin, and that one here"),
        ),
        _ => None,
    });
    why.filter(|_| !replies.iter().any(answers))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADROOM: &str = r#"{"schema": 1, "at_ns": 1, "verdict": "silent", "silent": [], "resources": [],
        "traffic": {"now_per_s": 0, "highest_per_s": 0, "over_s": 0, "c1": 0, "c2": 0}, "what_if": [],
        "proven_per_s": {"1s": 0, "100ms": 0}, "assumes": []}"#;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_said_no_more_is_shown_no_more() {
        let headroom: Headroom = serde_json::from_str(HEADROOM).unwrap();
        let mut state = TopState::default();
        state.set_instances(["p:9151".to_owned()]);
        let mut enter = |answered: Answered| {
            TopReply { instance: "p:9151".to_owned(), at: 1.0, answered }.enter(&mut state);
            state.figures(1.0, None).headroom.len()
        };
        assert_eq!(enter(Answered::Headroom(Box::new(headroom))), 1);
        assert_eq!(enter(Answered::Unsaid(TopQuestion::Clients)), 1);
        assert_eq!(enter(Answered::Unsaid(TopQuestion::Headroom)), 0);
    }

    #[test]
    fn a_broker_that_waits_is_not_called_one_that_does_not_answer() {
        let why = |answered| {
            let reply = TopReply { instance: "b:9150".to_owned(), at: 1.0, answered };
            why_none_answers(&[reply]).unwrap().message()
        };
        assert!(why(Answered::Waits).starts_with("b:9150: it is a broker that serves nothing now"));
        let refused = Answered::Nothing("connection refused".to_owned());
        assert!(why(refused).contains("b:9150 does not answer: connection refused"));
    }

    #[test]
    fn an_address_that_a_name_has_later_is_looked_at_from_then_on() {
        let (first, second) = (address("10.0.0.1:9151"), address("10.0.0.2:9151"));
        let (one, both) = (vec![first.clone()], vec![first, second]);
        let out_of_reach = || Err(Mistake::plain("the resolver is out of reach"));
        let mut answers =
            vec![Ok(one.clone()), out_of_reach(), Ok(both.clone()), Ok(both.clone()), Ok(one.clone())]
                .into_iter();
        let (mut asked, mut told) = (Vec::new(), Vec::new());
        let resolve = |known: &[Address]| {
            asked.push(known.len());
            answers.next().expect("it has ended")
        };
        follow(one.clone(), resolve, |found| {
            told.push(found);
            told.len() < 2
        });
        assert_eq!((asked, told), (vec![1, 1, 1, 2, 2], vec![both, one]));
    }
}
