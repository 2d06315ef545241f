//! What is asked and written, with answers made by hand.

use super::*;
use crate::database::{Backlog, DatabaseReply, RequestTimes, ResultCode, ResultRow, TubeBacklog};
use crate::queues::{self, Totals};
use crate::report::{DrainTime, TubeReport};
use krarup_beanstalk::DEFAULT_TTR;
use krarup_units::Nanos;

const NOW: Stamp = Stamp(1_000);

struct Both {
    queues: Queues,
    shared: SharedQueues,
}

impl Both {
    fn new(gathers: bool) -> Self {
        let settings = queues::QueueSettings { memory: 0, ..Default::default() };
        let shared = SharedQueues::new(SharedSettings { gathers, number: 7, memory: 1 << 20 });
        Self { queues: Queues::new(settings), shared }
    }

    fn open(&mut self) -> ClientId {
        let client = self.queues.open();
        self.shared.open(client);
        client
    }

    fn ask(&mut self, client: ClientId, request: &Request<'_>) {
        let asked = self.shared.ask(&mut self.queues, client, request, false, NOW, &mut Vec::new());
        assert!(asked.is_some());
    }

    /// The only request that waits.
    fn query(&mut self) -> QueuedRequest {
        let mut all = self.shared.take_queries();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn answer(&mut self, number: u64, word: ResultCode) {
        self.answer_at(number, word, NOW);
    }

    fn answer_at(&mut self, number: u64, word: ResultCode, now: Stamp) {
        self.answer_of(None, number, word, now);
    }

    /// With what the database says of the message's tube.
    fn answer_of(&mut self, tube: Option<&str>, number: u64, word: ResultCode, now: Stamp) {
        let (tube, body) = (tube.map(Into::into), Arc::from(&b"x"[..]));
        let line = ResultRow { word, id: 5, ttr: 60, flags: 0, tube, body };
        let reply = DatabaseReply::Lines(vec![line]);
        self.shared.answered(&mut self.queues, number, reply, &RequestTimes::default(), now);
    }

    /// Asks, and has the answer that it is done at that second.
    fn done(&mut self, client: ClientId, request: &Request<'_>, second: u64) {
        self.ask(client, request);
        let asked = self.query();
        self.answer_at(asked.number, ResultCode::Done, at(second));
    }

    fn report(&self, tube: &str, second: u64) -> Option<TubeReport> {
        self.shared.report(&self.queues, &tube.into(), at(second))
    }

    fn replies(&mut self) -> Vec<(ClientId, String)> {
        let text = |replies: PendingReply| (replies.client, String::from_utf8(replies.bytes).unwrap());
        self.shared.take_replies().into_iter().map(text).collect()
    }
}

fn at(second: u64) -> Stamp {
    Stamp(Nanos::from_secs(second).0)
}

fn put<'a>() -> Request<'a> {
    Request::Put(Put { priority: 1, ttr: DEFAULT_TTR, body: b"x", ..Put::default() })
}

/// Its key is remembered all the same, as by an owner.
#[test]
fn a_message_that_is_over_at_once_is_put_for_its_key_alone() {
    let mut both = Both::new(false);
    let client = both.open();
    let over = |key| Put { lives: Some(0), key, ..Put::default() };
    let mut out = Vec::new();
    let asked = both.shared.ask(&mut both.queues, client, &Request::Put(over(None)), false, NOW, &mut out);
    assert_eq!((asked, &out[..], both.shared.take_queries().len()), (None, &b"INSERTED 0\r\n"[..], 0));
    both.ask(client, &Request::Put(over(Some("k"))));
    let asked = both.query();
    let DatabaseRequest::New(new) = &asked.query else { panic!("{asked:?}") };
    assert_eq!((new.key.as_deref(), new.lives), (Some("k"), Some(0)));
    assert!(new.delay > 0, "no client sees it before it is swept");
    both.answer(asked.number, ResultCode::None);
    assert_eq!(both.replies(), [(client, "EXISTS 5\r\n".into())]);
    // No worker is ever given it.
    both.done(client, &Request::Put(over(Some("other"))), 10);
    assert_eq!(both.replies(), [(client, "INSERTED 5\r\n".into())]);
    assert_eq!((both.report("default", 11), both.shared.put_here()), (None, 2));
}

#[test]
fn a_client_that_waits_asks_once_more_when_something_is_put() {
    let mut both = Both::new(false);
    let [worker, producer] = [(); 2].map(|()| both.open());
    both.ask(worker, &Request::Reserve);
    let first = both.query();
    both.answer(first.number, ResultCode::None);
    assert!(both.replies().is_empty() && both.shared.take_queries().is_empty());
    both.ask(producer, &put());
    let new = both.query();
    both.answer_at(new.number, ResultCode::Done, at(3));
    assert_eq!(both.replies(), [(producer, "INSERTED 5\r\n".into())]);
    let repeated = both.query();
    assert_eq!(repeated.query, first.query);
    both.answer_at(repeated.number, ResultCode::Done, at(4));
    let reply = both.shared.take_replies().remove(0);
    assert_eq!((reply.client, &reply.bytes[..]), (worker, &b"RESERVED 5 1\r\nx\r\n"[..]));
    assert_eq!(reply.repeated, Some(at(3)), "with the message that it waited for");
}

/// The database looked before the put was committed, and its answer comes after.
#[test]
fn what_is_put_while_the_database_looks_is_not_missed() {
    let mut both = Both::new(false);
    let [worker, producer] = [(); 2].map(|()| both.open());
    both.ask(worker, &Request::Reserve);
    let looks = both.query();
    both.ask(producer, &put());
    let new = both.query();
    both.answer(new.number, ResultCode::Done);
    both.answer(looks.number, ResultCode::None);
    assert!(matches!(both.query().query, DatabaseRequest::Take { .. }));
}

#[test]
fn what_was_leased_to_a_client_that_has_gone_is_given_back() {
    let mut both = Both::new(false);
    let client = both.open();
    both.ask(client, &Request::Reserve);
    let under_way = both.query();
    both.shared.close(client, NOW);
    both.queues.close(client, NOW);
    both.answer(under_way.number, ResultCode::Done);
    assert!(matches!(both.query().query, DatabaseRequest::Move { id: 5, what: StateChange::GiveBack, .. }));
    assert!(both.replies().is_empty());
}

#[test]
fn of_a_client_that_goes_only_what_it_would_take_is_not_wanted_any_more() {
    let takes = [Request::Reserve, Request::ReserveJob(5), Request::PopSender("anna")];
    let others = [put(), Request::Delete(5), Request::Peek(5)];
    let all = || takes.iter().map(|take| (take, false)).chain(others.iter().map(|other| (other, true)));
    for closes in [true, false] {
        let mut both = Both::new(true);
        for (request, is_wanted) in all() {
            let client = both.open();
            both.ask(client, request);
            let asked = both.query();
            assert!(asked.is_wanted());
            if closes {
                both.shared.close(client, NOW);
                both.queues.close(client, NOW);
            } else {
                both.shared.give_up_waiting(client);
            }
            assert_eq!(asked.is_wanted(), is_wanted, "{asked:?}");
        }
    }
}

#[test]
fn what_is_not_asked_for_a_client_that_has_gone_leaves_nothing_behind() {
    let mut both = Both::new(true);
    let not_asked = |both: &mut Both| {
        let number = both.query().number;
        let (reply, way) = (DatabaseReply::NotAsked, RequestTimes::default());
        both.shared.answered(&mut both.queues, number, reply, &way, NOW);
        assert!(both.shared.underway.is_empty() && both.shared.take_without_reply().is_empty());
    };
    let [closed, ended] = [(); 2].map(|()| both.open());
    both.ask(closed, &Request::Reserve);
    both.shared.close(closed, NOW);
    both.queues.close(closed, NOW);
    not_asked(&mut both);
    assert!(both.replies().is_empty());
    for request in [Request::Reserve, Request::ReserveJob(5)] {
        both.ask(ended, &request);
        both.shared.give_up_waiting(ended);
        not_asked(&mut both);
        assert_eq!(both.replies(), [(ended, "INTERNAL_ERROR\r\n".into())]);
        assert!(both.shared.has_nothing_under_way(ended));
    }
}

#[test]
fn a_client_that_ends_its_side_while_the_database_is_asked_is_told_what_it_found() {
    let mut both = Both::new(true);
    let client = both.open();
    both.ask(client, &Request::Reserve);
    let under_way = both.query();
    both.shared.give_up_waiting(client);
    both.answer(under_way.number, ResultCode::Done);
    assert_eq!(both.replies(), [(client, "RESERVED 5 1\r\nx\r\n".into())]);
}

#[test]
fn one_clients_puts_go_together_only_where_they_keep_their_order() {
    for gathers in [true, false] {
        let mut both = Both::new(gathers);
        let client = both.open();
        both.ask(client, &put());
        assert_eq!(both.shared.may_go(client, &put()), gathers);
        assert!(both.shared.may_go(client, &Request::Use("q")));
        assert!(!both.shared.may_go(client, &Request::Reserve));
        let asked = both.query();
        both.answer(asked.number, ResultCode::Done);
        assert!(both.shared.may_go(client, &Request::Reserve));
    }
}

#[test]
fn nothing_goes_before_the_answer_to_a_client_that_waits() {
    let mut both = Both::new(true);
    let client = both.open();
    both.ask(client, &Request::Reserve);
    let asked = both.query();
    both.answer(asked.number, ResultCode::None);
    for request in [put(), Request::Reserve, Request::Use("q"), Request::Delete(5)] {
        assert!(!both.shared.may_go(client, &request));
    }
    assert!(!both.shared.has_nothing_under_way(client));
}

#[test]
fn a_client_that_holds_a_lease_near_its_end_is_warned_though_it_does_not_wait() {
    let mut both = Both::new(false);
    let client = both.open();
    both.done(client, &Request::Reserve, 0);
    both.ask(client, &Request::ReserveWithTimeout { timeout: Nanos::ZERO });
    let number = both.query().number;
    both.answer_at(number, ResultCode::None, at(59));
    assert_eq!(both.replies().pop(), Some((client, "DEADLINE_SOON\r\n".into())));
}

#[test]
fn a_tube_that_a_client_here_uses_can_be_deleted_whatever_the_database_has_of_it() {
    let mut both = Both::new(false);
    let client = both.open();
    both.queues.use_tube(client, "used");
    for (tube, is_known) in [("used", true), ("default", true), ("nowhere", false)] {
        both.ask(client, &Request::DeleteTube(tube));
        let query = RareRequest::DeleteTube { tube: tube.into(), known: is_known, whole: true, last: None };
        assert_eq!(both.query().query, DatabaseRequest::Once(query));
    }
}

#[test]
fn what_is_about_many_messages_is_asked_in_parts_and_answered_once() {
    let mut both = Both::new(true);
    let client = both.open();
    let kick = |bound, buried| RareRequest::Kick { tube: "default".into(), bound, buried };
    both.ask(client, &Request::Kick(2_500));
    for (before, left) in [(kick(2_500, None), 1_500), (kick(1_500, Some(true)), 500)] {
        let asked = both.query();
        assert_eq!(asked.query, DatabaseRequest::Once(before));
        let reply = DatabaseReply::Part { done: 1_000, rest: kick(left, Some(true)) };
        both.shared.answered(&mut both.queues, asked.number, reply, &RequestTimes::default(), NOW);
        assert!(both.replies().is_empty() && !both.shared.may_go(client, &put()));
    }
    let last = both.query();
    assert_eq!(last.query, DatabaseRequest::Once(kick(500, Some(true))));
    let reply = DatabaseReply::Count(20);
    both.shared.answered(&mut both.queues, last.number, reply, &RequestTimes::default(), NOW);
    assert_eq!(both.replies(), [(client, "KICKED 2020\r\n".into())]);
    // What is begun is done where its client has gone.
    both.ask(client, &Request::DeleteTube("q"));
    let asked = both.query();
    both.shared.close(client, NOW);
    both.queues.close(client, NOW);
    let rest = RareRequest::DeleteTube { tube: "q".into(), known: true, whole: true, last: Some(9) };
    let reply = DatabaseReply::Part { done: 1_000, rest: rest.clone() };
    both.shared.answered(&mut both.queues, asked.number, reply, &RequestTimes::default(), NOW);
    assert_eq!(both.query().query, DatabaseRequest::Once(rest));
    assert!(!both.shared.is_idle());
}

#[test]
fn a_client_that_waits_long_enough_is_reported_after_a_last_look() {
    let mut both = Both::new(true);
    let client = both.open();
    both.ask(client, &Request::ReserveWithTimeout { timeout: (Nanos(500)) });
    let first = both.query();
    both.shared.answered(
        &mut both.queues,
        first.number,
        DatabaseReply::Lines(vec![ResultRow {
            word: ResultCode::None,
            id: 0,
            ttr: 0,
            flags: 0,
            tube: None,
            body: Arc::default(),
        }]),
        &RequestTimes::default(),
        Stamp(1_100),
    );
    assert_eq!(both.shared.alarms.first(), Some(&(Stamp(1_500), client)));
    both.shared.tick(&both.queues, Stamp(1_500));
    let last = both
        .shared
        .take_queries()
        .into_iter()
        .find(|asked| matches!(asked.query, DatabaseRequest::Take { .. }));
    let nothing = DatabaseReply::Lines(vec![ResultRow {
        word: ResultCode::None,
        id: 0,
        ttr: 0,
        flags: 0,
        tube: None,
        body: Arc::default(),
    }]);
    let number = last.unwrap().number;
    both.shared.answered(&mut both.queues, number, nothing, &RequestTimes::default(), Stamp(1_600));
    assert_eq!(both.replies(), [(client, "TIMED_OUT\r\n".into())]);
}

#[test]
fn the_messages_of_one_request_go_together() {
    let mut both = Both::new(false);
    let client = both.open();
    both.ask(client, &put());
    both.ask(client, &put());
    let joins: Vec<bool> = both.shared.take_queries().iter().map(|asked| asked.joins).collect();
    assert_eq!(joins, [false, true]);
}

#[test]
fn waits_and_services_are_those_that_go_through_this_broker() {
    let mut both = Both::new(false);
    let client = both.open();
    assert_eq!(both.report("default", 0), None);
    both.done(client, &put(), 10);
    both.done(client, &Request::Reserve, 13);
    let held = both.report("default", 15).unwrap();
    assert_eq!((held.busy_consumers, held.ready, held.redeliveries), (1, None, Some(0)));
    assert_eq!(held.waiting_s.map(|waiting| waiting.p50), Some(3.0));
    both.done(client, &Request::Release { id: 5, priority: 1, delay: 0 }, 20);
    both.done(client, &Request::Reserve, 22);
    both.done(client, &Request::Delete(5), 26);
    let report = both.report("default", 30).unwrap();
    assert_eq!((report.arrivals, report.redeliveries, report.given_up), (Some(2), Some(1), Some(1)));
    assert_eq!(report.service_s.map(|service| (service.count, service.mean)), Some((1, 4.0)));
    assert_eq!(report.busy_consumers, 0);
}

#[test]
fn the_tube_of_a_message_that_was_put_here_is_known_whatever_its_taker_watches() {
    let mut both = Both::new(false);
    let client = both.open();
    both.queues.watch(client, "other");
    both.done(client, &put(), 10);
    both.done(client, &Request::Reserve, 11);
    both.done(client, &Request::Delete(5), 12);
    assert_eq!(both.report("default", 13).unwrap().service_s.map(|service| service.count), Some(1));
    // One that another broker was given may be of either, until the database says which.
    both.done(client, &Request::Reserve, 14);
    assert_eq!(both.report("default", 15).unwrap().busy_consumers, 0);
    assert_eq!(both.report("other", 15), None);
    both.done(client, &Request::Delete(5), 16);
    both.ask(client, &Request::Reserve);
    let number = both.query().number;
    both.answer_of(Some("other"), number, ResultCode::Done, at(17));
    assert_eq!(both.report("other", 18).unwrap().busy_consumers, 1);
    both.done(client, &Request::Delete(5), 19);
    let service = both.report("other", 20).unwrap().service_s;
    assert_eq!(service.map(|service| (service.count, service.mean)), Some((1, 2.0)));
}

#[test]
fn a_message_of_several_tubes_that_goes_back_is_ready_in_the_one_that_the_database_said() {
    let mut both = Both::new(false);
    let client = both.open();
    both.queues.watch(client, "other");
    both.ask(client, &Request::Reserve);
    let number = both.query().number;
    both.shared.close(client, at(1));
    both.queues.close(client, at(1));
    both.answer_of(Some("other"), number, ResultCode::Done, at(2));
    let number = both.query().number;
    both.answer_at(number, ResultCode::Done, at(3));
    assert_eq!(both.report("other", 4).unwrap().arrivals, Some(1));
}

#[test]
fn a_client_is_not_warned_of_the_lease_of_a_message_that_went_with_its_tube() {
    let mut both = Both::new(false);
    let [worker, other] = [(); 2].map(|()| both.open());
    both.done(worker, &Request::Reserve, 0);
    let delete = |both: &mut Both, second| {
        let request = Request::DeleteTube("default");
        let asked = both.shared.ask(&mut both.queues, other, &request, false, at(second), &mut Vec::new());
        assert!(asked.is_some());
        let number = both.query().number;
        let reply = DatabaseReply::Yes(true);
        both.shared.answered(&mut both.queues, number, reply, &RequestTimes::default(), at(30));
    };
    let held = |both: &Both| both.shared.holds(worker, 5, at(30));
    assert!(held(&both));
    delete(&mut both, 1);
    assert!(!held(&both));
    both.replies();
    both.ask(worker, &Request::ReserveWithTimeout { timeout: Nanos::ZERO });
    let number = both.query().number;
    both.answer_at(number, ResultCode::None, at(59));
    assert_eq!(both.replies().pop(), Some((worker, "TIMED_OUT\r\n".into())));
    // One that was handed out while the tube was emptied was put after that.
    both.done(worker, &Request::Reserve, 20);
    delete(&mut both, 19);
    assert!(held(&both));
}

#[test]
fn a_tube_is_told_of_the_messages_of_its_own_that_are_held() {
    let mut both = Both::new(false);
    let clients = [(); 3].map(|()| both.open());
    for (client, tube) in clients.into_iter().zip(["one", "two", "two"]) {
        both.queues.use_tube(client, tube);
        both.queues.watch(client, tube);
        both.done(client, &put(), 10);
        both.done(client, &Request::Reserve, 10);
    }
    let held = ["one", "two"].map(|tube| both.report(tube, 11).unwrap().busy_consumers);
    assert_eq!(held, [1, 2]);
}

#[test]
fn a_lease_that_has_run_out_was_given_up_when_it_did() {
    let mut both = Both::new(false);
    let client = both.open();
    both.done(client, &put(), 10);
    both.done(client, &Request::Reserve, 10);
    assert_eq!(both.report("default", 71).unwrap().busy_consumers, 0);
    // Another connection may not have taken it: then it is deleted still.
    both.done(client, &Request::Delete(5), 100);
    let report = both.report("default", 101).unwrap();
    assert_eq!((report.given_up, report.service_s), (Some(1), None));
    both.done(client, &put(), 110);
    both.done(client, &Request::Reserve, 110);
    both.shared.close(client, at(115));
    let asked = both.query();
    both.answer_at(asked.number, ResultCode::Done, at(116));
    let state = both.shared.tubes_state(5, at(117));
    let jobs = state.first[0].jobs.as_ref().unwrap();
    assert_eq!((state.first.len(), jobs.arrived, jobs.given_up), (1, 3, 2));
    assert_eq!(jobs.services.last().map(|service| service.time), Some(Nanos::from_secs(5)));
}

#[test]
fn leases_that_have_run_out_are_looked_for_when_there_are_twice_as_many_as_were_left() {
    let mut both = Both::new(false);
    let client = both.open();
    let mut take = |ids: std::ops::Range<u64>, second| {
        both.ask(client, &Request::ReserveBatch { most: 10, timeout: Nanos::ZERO });
        let number = both.query().number;
        let (word, body) = (ResultCode::Done, Arc::<[u8]>::default());
        let row = |id| ResultRow { word, id, ttr: 60, flags: 0, tube: None, body: Arc::clone(&body) };
        let reply = DatabaseReply::Lines(ids.map(row).collect());
        both.shared.answered(&mut both.queues, number, reply, &RequestTimes::default(), at(second));
        both.shared.holder(client).leases.len()
    };
    let most = MOST_LEASES as u64;
    assert_eq!(take(0..most, 0), MOST_LEASES);
    assert_eq!(take(most..most + 1, 1), MOST_LEASES + 1, "none has run out");
    assert_eq!(take(most + 1..most + 2, 60), MOST_LEASES + 2, "it is not looked again");
    assert_eq!(take(most + 2..2 * most + 1, 60), MOST_LEASES + 1);
}

/// As the database would tell it: three tubes have messages, and these are the fullest.
fn backlog() -> Backlog {
    let tube = |name: &str, ready, age| TubeBacklog { tube: name.into(), ready, age };
    let fullest = vec![tube("old", 7, Some(Nanos::from_secs(100))), tube("other", 2, None)];
    let messages = Totals { ready: 10, buried: 4, ..Totals::default() };
    Backlog { fullest, tubes: 3, messages, took: Nanos::from_millis(100) }
}

impl Both {
    /// Lets time pass to then; of how many tubes the backlog is asked.
    fn sweep(&mut self, second: u64, found: Option<&Backlog>) -> Option<usize> {
        self.shared.tick(&self.queues, at(second));
        let mut backlog_of = None;
        for QueuedRequest { number, query, .. } in self.shared.take_queries() {
            let reply = match query {
                DatabaseRequest::Sweep(_) => {
                    DatabaseReply::Places { places: Vec::new(), expired: 0, more: false }
                }
                DatabaseRequest::Once(RareRequest::Backlog { fullest }) => {
                    backlog_of = Some(fullest);
                    found.cloned().map_or(DatabaseReply::Failed("no time".into()), DatabaseReply::Backlog)
                }
                other => panic!("{other:?}"),
            };
            let way = RequestTimes::default();
            self.shared.answered(&mut self.queues, number, reply, &way, at(second));
        }
        backlog_of
    }
}

#[test]
fn what_one_sweep_leaves_is_looked_for_sooner() {
    for (more, pause) in [(false, 250), (true, 20)] {
        let mut both = Both::new(false);
        both.shared.tick(&both.queues, NOW);
        let is_sweep = |asked: &QueuedRequest| matches!(asked.query, DatabaseRequest::Sweep(_));
        let number = both.shared.take_queries().into_iter().find(is_sweep).expect("it sweeps").number;
        assert_eq!(both.shared.due(), None, "no two sweeps are under way");
        let reply = DatabaseReply::Places { places: Vec::new(), expired: 0, more };
        both.shared.answered(&mut both.queues, number, reply, &RequestTimes::default(), NOW);
        assert_eq!(both.shared.due(), Some(NOW + Nanos::from_millis(pause)), "more: {more}");
    }
}

/// Clients that watch several tubes, and a sweep that saw something in one of them.
#[test]
fn each_client_that_finds_something_wakes_one_other() {
    let mut both = Both::new(false);
    for _ in 0..20 {
        let client = both.open();
        for tube in ["a", "b"] {
            both.queues.watch(client, tube);
        }
        both.ask(client, &Request::Reserve);
        let first = both.query();
        both.answer(first.number, ResultCode::None);
    }
    both.shared.tick(&both.queues, NOW);
    let sweep = both.shared.take_queries().into_iter().find_map(|asked| match asked.query {
        DatabaseRequest::Sweep(waited) => {
            Some((asked.number, waited.iter().position(|(tube, _)| &**tube == "a")?))
        }
        _ => None,
    });
    let (number, place) = sweep.expect("it sweeps");
    let reply = DatabaseReply::Places { places: vec![place], expired: 0, more: false };
    both.shared.answered(&mut both.queues, number, reply, &RequestTimes::default(), NOW);
    let woken = both.shared.take_queries();
    assert_eq!(woken.len(), 16);
    both.answer(woken[0].number, ResultCode::Done);
    let next = both.query();
    both.answer(next.number, ResultCode::Done);
    both.answer(woken[1].number, ResultCode::None);
    let last = both.query();
    both.answer(last.number, ResultCode::None);
    assert!(both.shared.take_queries().is_empty(), "there was nothing more");
}

#[test]
fn what_waits_is_what_the_database_said_and_grows_older() {
    let mut both = Both::new(false);
    let client = both.open();
    both.done(client, &put(), 10);
    assert_eq!(both.sweep(11, Some(&backlog())), Some(100));
    let state = both.shared.tubes_state(2, at(14));
    let first =
        |place: usize| (&*state.first[place].name, state.first[place].ready, state.first[place].oldest);
    assert_eq!(first(0), ("old", Some(7), Some(Nanos::from_secs(103))));
    assert_eq!(first(1), ("other", Some(2), None));
    // The tube that was put into, and one that was not named.
    assert_eq!((state.others.tubes, state.others.ready, state.others.oldest_s), (2, Some(1), None));
    let one = both.shared.tubes_state(1, at(14));
    assert_eq!((one.others.tubes, one.others.ready), (3, Some(3)));
    assert_eq!(both.shared.messages(at(14)).map(|all| (all.ready, all.buried)), Some((10, 4)));
    let report = both.report("old", 14).unwrap();
    // The consumers at other brokers are not known.
    assert_eq!((report.ready, report.drained_in), (Some(7), DrainTime::Unknown));
    // A tube that is not named may have some too.
    assert_eq!(both.report("default", 14).unwrap().ready, None);
    // What it said 300 seconds ago holds no longer.
    let told = |second| (both.shared.messages(at(second)).is_some(), both.shared.ready_tubes(at(second)));
    assert_eq!((told(310), told(311)), ((true, 3), (false, 0)));
}

#[test]
fn the_database_is_asked_what_waits_for_a_fiftieth_of_the_time_at_most() {
    let mut both = Both::new(false);
    assert_eq!(both.sweep(10, Some(&backlog())), Some(100));
    // It took a tenth of a second.
    assert_eq!(both.sweep(14, None), None);
    assert_eq!(both.sweep(15, Some(&Backlog::default())), Some(100));
    // Refused: what it said before holds for a while, and it is not asked at once again.
    assert_eq!((both.sweep(16, None), both.sweep(16, None)), (Some(100), None));
    let ready = |both: &Both, second| both.shared.tubes_state(5, at(second)).others.ready;
    assert_eq!((ready(&both, 314), ready(&both, 315)), (Some(0), None));
}
