//! What is asked and written, with answers made by hand.

use super::*;
use crate::database::{DatabaseReply, RequestTimes, ResultCode, ResultRow};
use crate::queues;
use krarup_beanstalk::DEFAULT_TTR;

const NOW: Stamp = Stamp(1_000);

struct Both {
    queues: Queues,
    shared: SharedQueues,
}

impl Both {
    fn new(gathers: bool) -> Self {
        let settings = queues::QueueSettings {
            memory: 0,
            durable: false,
            wall: Nanos::ZERO,
            remember_keys: Nanos::from_secs(60),
            resident: None,
            shard: crate::shards::Shard::WHOLE,
        };
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
        let line = ResultRow { word, id: 5, ttr: 60, flags: 0, body: Arc::from(&b"x"[..]) };
        let reply = DatabaseReply::Lines(vec![line]);
        self.shared.answered(&mut self.queues, number, reply, &RequestTimes::default(), NOW);
    }

    fn replies(&mut self) -> Vec<(ClientId, String)> {
        let text = |replies: PendingReply| (replies.client, String::from_utf8(replies.bytes).unwrap());
        self.shared.take_replies().into_iter().map(text).collect()
    }
}

fn put<'a>() -> Request<'a> {
    Request::Put(Put { priority: 1, ttr: DEFAULT_TTR, body: b"x", ..Put::default() })
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
    both.answer(new.number, ResultCode::Done);
    assert_eq!(both.replies(), [(producer, "INSERTED 5\r\n".into())]);
    let repeated = both.query();
    assert_eq!(repeated.query, first.query);
    both.answer(repeated.number, ResultCode::Done);
    assert_eq!(both.replies(), [(worker, "RESERVED 5 1\r\nx\r\n".into())]);
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
    both.shared.close(client);
    both.queues.close(client, NOW);
    both.answer(under_way.number, ResultCode::Done);
    assert!(matches!(both.query().query, DatabaseRequest::Move { id: 5, what: StateChange::GiveBack, .. }));
    assert!(both.replies().is_empty());
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
