//! The answer to `GET /headroom`: computed beside the loops, on a thread that yields to all others,
//! and kept for ten seconds.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use krarup_model::headroom::{
    Allowance, Headroom, HeadroomChange, HeadroomMemory, HeadroomQuestion, LiveSystem, NamedChange,
    ResourceKind, ResponseTarget, judge_remembering,
};
use krarup_net::http::{HttpQuery, HttpResponse};
use krarup_net::snapshots::lock;
use krarup_proxy::moves::{SeenKeys, moves};
use krarup_units::text::parse_count;
use krarup_units::{Mistake, Nanos};

use crate::live::{LiveQuestion, LiveState};
use crate::process;
use crate::redline_lock::{COOL_DOWN, ServerProof, proofs};
use crate::server_statistics::AskedServers;

/// How long an answer is given again.
const FRESH: Duration = Duration::from_secs(10);
/// How many different questions are kept with their answers.
const KEPT: usize = 16;
/// How many questions are taken at once: they are answered one after the other, and each takes a
/// thread that monitoring needs.
const MOST_ASKED: usize = 8;
/// How many changes one question may have: each is replayed.
const MOST_CHANGES: usize = 16;
/// What is used is kept with the rate of this time before, so far apart, for so many moments.
const LATELY: Nanos = Nanos::from_secs(10);
const APART: Duration = Duration::from_secs(5);
const MOMENTS: usize = 240;
/// The seed of all answers: the same traffic gives the same answer.
const SEED: u64 = 1;

/// Makes a page of an answer.
pub type HeadroomPage = fn(&Headroom) -> String;

/// Answers about the headroom of the loops of a process.
pub(crate) struct LiveHeadroom {
    live: LiveQuestion,
    page: HeadroomPage,
    /// Held while an answer is computed: one at a time.
    answers: Mutex<VecDeque<KeptAnswer>>,
    /// Held once by each question that is taken.
    asked: Arc<()>,
    /// What monitoring was given last.
    last: Mutex<Option<Arc<Headroom>>>,
    /// What servers have shown that they can do, by name, and when; none: what was shown to the
    /// process before this one was not looked for yet.
    proven: Mutex<Option<HashMap<String, (ServerProof, Instant)>>>,
    servers: AskedServers,
    uses: Mutex<UsesSeen>,
    /// What earlier answers found of the servers.
    memory: Mutex<HeadroomMemory>,
}

#[derive(Clone)]
struct KeptAnswer {
    asked: AskedHeadroom,
    at: Instant,
    answer: Arc<Headroom>,
}

/// What stands in a query.
#[derive(Clone, Debug, Default, PartialEq)]
struct AskedHeadroom {
    /// None: that of the configuration.
    target: Option<ResponseTarget>,
    /// None: the usual ones.
    changes: Option<Vec<NamedChange>>,
    /// None: [`SEED`].
    seed: Option<u64>,
}

impl AskedHeadroom {
    fn of(query: HttpQuery<'_>) -> Result<Self, Mistake> {
        let mut asked = Self::default();
        for (name, value) in query.parameters() {
            match name.as_str() {
                "target" => asked.target = Some(value.parse()?),
                "what-if" => asked.changes.get_or_insert_default().push(value.parse()?),
                "seed" => {
                    let wrong = |_| Mistake::new(format!("`{value}` is no seed"), "give a whole number");
                    asked.seed = Some(parse_count(&value).map_err(wrong)?);
                }
                _ => {
                    let hint = "there are target, what-if and seed";
                    return Err(Mistake::new(format!("there is no parameter `{name}`"), hint));
                }
            }
        }
        match &asked.changes {
            Some(changes) if changes.len() > MOST_CHANGES => {
                Err(Mistake::plain(format!("one question may have {MOST_CHANGES} changes")))
            }
            _ => Ok(asked),
        }
    }

    /// The answer for this state, of this system.
    fn judge(
        &self,
        state: &LiveState,
        mut system: LiveSystem,
        memory: &mut HeadroomMemory,
    ) -> Result<Headroom, Mistake> {
        let target = self.target.or(state.target);
        let usual = || NamedChange::usual(&system, target);
        let changes = self.changes.clone().unwrap_or_else(usual);
        let changes: Vec<HeadroomChange> =
            changes.iter().map(|change| change.of(&system)).collect::<Result<_, _>>()?;
        if changes.iter().any(HeadroomChange::moves_servers) {
            let names: Vec<String> = system.servers.iter().map(|server| server.name.clone()).collect();
            let seen = SeenKeys::of(&state.keys, &names);
            system.moves = state.config.as_ref().and_then(|config| moves(config, &names, &seen));
        }
        let question = HeadroomQuestion { target, changes, seed: self.seed.unwrap_or(SEED) };
        Ok(judge_remembering(&state.kept, &system, &question, memory))
    }
}

/// Requests a second and how much was used, from the oldest on.
type RatesAndUses = VecDeque<(f64, f64)>;

/// What was used of each resource at which rate, as often as that was asked.
#[derive(Debug, Default)]
struct UsesSeen {
    /// Of a resource of this program, or of the server of that name.
    of: BTreeMap<(ResourceKind, Option<String>), RatesAndUses>,
    last: Option<Instant>,
}

impl UsesSeen {
    /// Adds what is used now, at this rate, and tells each what was seen of it. What is of none of
    /// these servers any more is dropped.
    fn complete(&mut self, allowances: &mut [Allowance], servers: &[String], rate: f64, now: Instant) {
        self.of.retain(|(_, server), _| server.as_ref().is_none_or(|server| servers.contains(server)));
        let is_new = self.last.is_none_or(|last| now.duration_since(last) >= APART);
        if is_new {
            self.last = Some(now);
        }
        for one in allowances {
            let seen = self.of.entry((one.resource, one.server.clone())).or_default();
            if is_new {
                if seen.len() == MOMENTS {
                    seen.pop_front();
                }
                seen.push_back((rate, one.used));
            }
            one.seen = seen.iter().copied().collect();
        }
    }
}

/// Why there is no answer.
enum NoHeadroom {
    /// What is asked makes no sense.
    Mistake(Mistake),
    /// A loop did not hand out what it keeps.
    Stuck,
    /// Too many questions wait already.
    Full,
}

/// An answer as JSON.
pub(crate) fn json(text: serde_json::Result<String>) -> HttpResponse {
    let body = text.expect("an answer is plain data") + "\n";
    HttpResponse { status: 200, kind: "application/json", body }
}

impl LiveHeadroom {
    /// Answers about the loops that `live` asks; a browser is given a `page`.
    pub(crate) fn new(live: LiveQuestion, page: HeadroomPage) -> Self {
        let (answers, last, proven) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (servers, uses, memory) = (AskedServers::default(), Mutex::default(), Mutex::default());
        Self { live, page, answers, asked: Arc::default(), last, proven, servers, uses, memory }
    }

    /// The answer to a request for `/headroom`.
    pub(crate) fn respond(&self, query: HttpQuery<'_>) -> HttpResponse {
        let place = Arc::clone(&self.asked);
        let is_full = Arc::strong_count(&place) > MOST_ASKED + 1;
        let found = AskedHeadroom::of(query).map_err(NoHeadroom::Mistake);
        let found = found.and_then(|asked| {
            if is_full { Err(NoHeadroom::Full) } else { self.answer(&asked, lock(&self.answers)) }
        });
        match found {
            Ok(answer) if query.page => {
                HttpResponse { status: 200, kind: "text/html; charset=utf-8", body: (self.page)(&answer) }
            }
            Ok(answer) => json(serde_json::to_string_pretty(&*answer)),
            Err(NoHeadroom::Mistake(mistake)) => HttpResponse::text(400, format!("{mistake}\n")),
            Err(NoHeadroom::Stuck) => {
                HttpResponse::text(503, "an event loop did not answer within a second\n")
            }
            Err(NoHeadroom::Full) => {
                HttpResponse::text(503, "other questions about headroom are being answered; ask again\n")
            }
        }
    }

    /// The answer for monitoring: for the configured target, without changes. While another
    /// question is being answered it is the last one, so that monitoring never waits for that.
    pub(crate) fn for_metrics(&self) -> Option<Arc<Headroom>> {
        let asked = AskedHeadroom { changes: Some(Vec::new()), ..AskedHeadroom::default() };
        let answers = match self.answers.try_lock() {
            Ok(answers) => answers,
            Err(TryLockError::Poisoned(answers)) => answers.into_inner(),
            Err(TryLockError::WouldBlock) => return lock(&self.last).clone(),
        };
        let answer = self.answer(&asked, answers).ok();
        lock(&self.last).clone_from(&answer);
        answer
    }

    /// The answer for a target, without changes; none where a loop is stuck.
    pub(crate) fn of_target(&self, target: ResponseTarget) -> Option<Arc<Headroom>> {
        let asked = AskedHeadroom { target: Some(target), changes: Some(Vec::new()), seed: None };
        self.answer(&asked, lock(&self.answers)).ok()
    }

    /// A server has shown that it can do this; it counts for a day, while servers get the shares
    /// that they had.
    pub(crate) fn prove(&self, server: &str, proof: ServerProof) {
        lock(&self.proven).get_or_insert_default().insert(server.to_owned(), (proof, Instant::now()));
        lock(&self.answers).clear();
    }

    /// The system, with what its servers have shown and say, and what this process may use.
    fn known(&self, state: &LiveState) -> LiveSystem {
        let mut system = state.system.clone();
        system.allowances = process::allowances();
        let config = state.config.iter().filter(|config| config.server_stats);
        // Not those that have been taken out of it.
        let servers = config.flat_map(|config| config.addresses());
        let names: Vec<String> = servers.map(|address| address.to_string()).collect();
        system.allowances.extend(self.servers.allowances(&names));
        let rate = state.kept.replied_per_s(LATELY);
        lock(&self.uses).complete(&mut system.allowances, &names, rate, Instant::now());
        let mut proven = lock(&self.proven);
        let proven = proven.get_or_insert_with(|| proven_before(state));
        let shares = state.shares_digest();
        proven.retain(|_, (proof, at)| at.elapsed() < COOL_DOWN && proof.shares == shares);
        for server in &mut system.servers {
            server.proven = proven.get(&server.name).map(|(proof, _)| proof.proven);
        }
        system
    }

    fn answer(
        &self,
        asked: &AskedHeadroom,
        mut kept: MutexGuard<'_, VecDeque<KeptAnswer>>,
    ) -> Result<Arc<Headroom>, NoHeadroom> {
        kept.retain(|one| one.at.elapsed() < FRESH);
        if let Some(known) = kept.iter().find(|one| one.asked == *asked) {
            return Ok(Arc::clone(&known.answer));
        }
        let state = self.live.ask().ok_or(NoHeadroom::Stuck)?;
        let system = self.known(&state);
        let answer = thread::scope(|scope| {
            let computed = thread::Builder::new().name("headroom".into()).spawn_scoped(scope, || {
                process::yield_to_others();
                asked.judge(&state, system, &mut lock(&self.memory))
            });
            // Without memory for a thread there is no answer, as from a loop that is stuck.
            computed.map_err(|_| NoHeadroom::Stuck)?.join().map_err(|_| NoHeadroom::Stuck)
        })?;
        let answer = Arc::new(answer.map_err(NoHeadroom::Mistake)?);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(KeptAnswer { asked: asked.clone(), at: Instant::now(), answer: Arc::clone(&answer) });
        Ok(answer)
    }
}

/// What servers have shown to the process that ran here before.
fn proven_before(state: &LiveState) -> HashMap<String, (ServerProof, Instant)> {
    let found = state.redline_lock.as_ref().zip(state.listens_at());
    let Some((path, proxy)) = found else { return HashMap::new() };
    let now = Instant::now();
    let of_age = |(server, proof, age)| (server, (proof, now.checked_sub(age).unwrap_or(now)));
    proofs(path, &proxy, SystemTime::now()).into_iter().map(of_age).collect()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::TcpListener;
    use std::sync::OnceLock;

    use krarup_model::headroom::{HeadroomVerdict, ProvenServer, Silence};
    use krarup_net::snapshots::SnapshotSlot;
    use krarup_proxy::Config;
    use krarup_record::LiveSnapshot;

    use super::*;

    /// Answers about a loop that has seen nothing; it publishes when it is woken, unless it is
    /// stuck.
    fn headroom(stuck: bool) -> LiveHeadroom {
        let own = Arc::new(OnceLock::<Arc<SnapshotSlot<LiveState>>>::new());
        let wakes = Arc::clone(&own);
        let slot = SnapshotSlot::waking(Duration::ZERO, move || {
            let slot = wakes.get().filter(|_| !stuck);
            slot.into_iter().for_each(|slot| slot.publish(nothing_seen));
        });
        own.get_or_init(|| Arc::clone(&slot));
        LiveHeadroom::new(LiveQuestion::new(vec![slot]), |answer| format!("<p>{:?}</p>", answer.verdict))
    }

    fn nothing_seen() -> LiveState {
        let target = "p99 < 8ms".parse().ok();
        let system = LiveSystem::of(["a:1".to_owned(), "b:1".to_owned()]);
        let kept = LiveSnapshot { loops: 1, ..LiveSnapshot::default() };
        let (pools, keys) = (Vec::new(), Vec::new());
        LiveState { kept, system, target, pools, redline_lock: None, config: None, keys }
    }

    /// Of a proxy before these servers, with these lines more.
    fn configured(servers: &[&str], more: &str) -> LiveState {
        let config = Config::parse(&format!("servers = {servers:?}\n{more}"), "proxy.toml").unwrap();
        let system = LiveSystem::of(servers.iter().map(|&name| name.to_owned()));
        LiveState { system, config: Some(Box::new(config)), ..nothing_seen() }
    }

    #[test]
    fn what_was_proven_counts_while_servers_get_the_shares_that_they_had() {
        let headroom = headroom(false);
        let two = configured(&["a:1", "b:1"], "");
        let proven = ProvenServer {
            target: "p99 < 8ms".parse().unwrap(),
            server_per_s: 20_000.0,
            usual_parts: Some(0.5),
            traffic_per_s: 40_000.0,
            missed_per_s: None,
            slower_per_s: None,
        };
        headroom.prove("a:1", ServerProof { proven, shares: two.shares_digest() });
        assert_eq!(headroom.known(&two).servers[0].proven, Some(proven));
        let four = configured(&["a:1", "b:1", "c:1", "d:1"], "");
        assert_eq!(headroom.known(&four).servers[0].proven, None);
    }

    #[test]
    fn a_server_that_has_been_taken_out_is_not_asked_for_its_statistics() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        gone.set_nonblocking(true).unwrap();
        // A file that is not there: a connection to it fails at once.
        let mut state = configured(&["unix:/nowhere/server"], "server_stats = true");
        state.system =
            LiveSystem::of([gone.local_addr().unwrap().to_string(), "unix:/nowhere/server".into()]);
        headroom(false).known(&state);
        assert_eq!(gone.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    fn ask(headroom: &LiveHeadroom, text: &str, page: bool) -> HttpResponse {
        headroom.respond(HttpQuery { text, page })
    }

    #[test]
    fn a_program_is_given_json_and_a_browser_a_page() {
        let headroom = headroom(false);
        let json = ask(&headroom, "", false);
        assert_eq!((json.status, json.kind), (200, "application/json"));
        let answer: Headroom = serde_json::from_str(&json.body).unwrap();
        assert_eq!((answer.verdict, answer.silent), (HeadroomVerdict::Silent, vec![Silence::ShortTime]));
        assert_eq!(answer.target, nothing_seen().target, "the configured one");
        let page = ask(&headroom, "target=p50%3C1s", true);
        assert_eq!((page.status, page.body.as_str()), (200, "<p>Silent</p>"));
    }

    #[test]
    fn uses_are_kept_beside_the_rate_some_seconds_apart_and_so_many_at_the_most() {
        let begun = Instant::now();
        let mut uses = UsesSeen::default();
        let mut seen_at = |second: u64, rate: f64| {
            let (resource, used) = (ResourceKind::Files, 2.0 * rate);
            let mut all = [Allowance { resource, server: None, used, most: 1e9, seen: Vec::new() }];
            uses.complete(&mut all, &[], rate, begun + Duration::from_secs(second));
            all[0].seen.clone()
        };
        assert_eq!(seen_at(0, 10.0), [(10.0, 20.0)]);
        assert_eq!(seen_at(1, 90.0), [(10.0, 20.0)], "too soon after the one before");
        assert_eq!(seen_at(5, 30.0), [(10.0, 20.0), (30.0, 60.0)]);
        let many = (0..2 * MOMENTS as u64).map(|number| seen_at(10 + 5 * number, number as f64));
        let many = many.last().unwrap();
        let latest = 2.0 * MOMENTS as f64 - 1.0;
        assert_eq!((many.len(), many.last()), (MOMENTS, Some(&(latest, 2.0 * latest))));
    }

    #[test]
    fn uses_of_what_is_no_server_any_more_are_dropped_and_those_of_a_silent_one_are_kept() {
        let (now, mut uses) = (Instant::now(), UsesSeen::default());
        let of = |server: Option<&str>| {
            let (resource, server) = (ResourceKind::Memory, server.map(str::to_owned));
            Allowance { resource, server, used: 1.0, most: 2.0, seen: Vec::new() }
        };
        let both = ["a:1".to_owned(), "b:1".to_owned()];
        uses.complete(&mut [of(None), of(Some("a:1")), of(Some("b:1"))], &both, 1.0, now);
        uses.complete(&mut [of(None)], &both, 1.0, now);
        assert_eq!(uses.of.len(), 3);
        uses.complete(&mut [of(None)], &both[1..], 1.0, now);
        let left: Vec<_> = uses.of.keys().map(|(_, server)| server.as_deref()).collect();
        assert_eq!(left, [None, Some("b:1")]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_would_do() {
        let headroom = headroom(false);
        for (query, part) in [
            ("target=p99", "p99 < 8ms"),
            ("what-if=more", "server +1"),
            ("what-if=server+c:1+lost", "there is no server `c:1`"),
            ("seed=x", "whole number"),
            ("goal=1", "there are target, what-if and seed"),
            (&"what-if=server+lost&".repeat(17), "16 changes"),
        ] {
            let answer = ask(&headroom, query, false);
            assert!(answer.status == 400 && answer.body.contains(part), "{query}: {answer:?}");
        }
    }

    #[test]
    fn so_many_questions_wait_and_monitoring_keeps_its_threads() {
        let headroom = headroom(false);
        let mut others: Vec<_> = (0..MOST_ASKED).map(|_| Arc::clone(&headroom.asked)).collect();
        let full = ask(&headroom, "seed=2", false);
        assert!(full.status == 503 && full.body.contains("ask again"), "{full:?}");
        assert_eq!(ask(&headroom, "seed=x", false).status, 400);
        others.pop();
        assert_eq!(ask(&headroom, "seed=2", false).status, 200);
    }

    #[test]
    fn an_answer_is_computed_once_and_a_stuck_loop_gives_none() {
        let known = headroom(false);
        let first = known.for_metrics().unwrap();
        assert!(Arc::ptr_eq(&first, &known.for_metrics().unwrap()));
        let held = lock(&known.answers);
        assert!(Arc::ptr_eq(&first, &known.for_metrics().unwrap()), "while another one is computed");
        drop(held);
        let stuck = headroom(true);
        assert_eq!(ask(&stuck, "", false).status, 503);
        assert!(stuck.for_metrics().is_none());
    }
}
