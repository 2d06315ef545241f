//! What is asked and told, with answers made by hand.

use super::*;
use crate::queues;
use crate::wish::{Line, Reply, Way, Word};
use krarup_beanstalk::DEFAULT_TTR;

const NOW: Stamp = Stamp(1_000);

struct Both {
    queues: Queues,
    shared: Shared,
}

impl Both {
    fn new(gathers: bool) -> Self {
        let settings = queues::Settings {
            memory: 0,
            durable: false,
            wall: Nanos::ZERO,
            remember_keys: Nanos::from_secs(60),
            resident: None,
            shard: crate::shards::Shard::WHOLE,
        };
        let shared = Shared::new(Settings { gathers, number: 7, memory: 1 << 20 });
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

    /// The only wish that waits.
    fn asked(&mut self) -> Asked {
        let mut all = self.shared.take_asked();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    fn answer(&mut self, number: u64, word: Word) {
        let line = Line { word, id: 5, ttr: 60, flags: 0, body: Arc::from(&b"x"[..]) };
        let reply = Reply::Lines(vec![line]);
        self.shared.answered(&mut self.queues, number, reply, &Way::default(), NOW);
    }

    fn told(&mut self) -> Vec<(ClientId, String)> {
        let text = |told: Told| (told.client, String::from_utf8(told.bytes).unwrap());
        self.shared.take_told().into_iter().map(text).collect()
    }
}

fn put<'a>() -> Request<'a> {
    Request::Put(Put { priority: 1, ttr: DEFAULT_TTR, body: b"x", ..Put::default() })
}

#[test]
fn who_waits_asks_again_when_something_is_put() {
    let mut both = Both::new(false);
    let [worker, producer] = [(); 2].map(|()| both.open());
    both.ask(worker, &Request::Reserve);
    let first = both.asked();
    both.answer(first.number, Word::None);
    assert!(both.told().is_empty() && both.shared.take_asked().is_empty());
    both.ask(producer, &put());
    let new = both.asked();
    both.answer(new.number, Word::Done);
    assert_eq!(both.told(), [(producer, "INSERTED 5\r\n".into())]);
    let again = both.asked();
    assert_eq!(again.wish, first.wish);
    both.answer(again.number, Word::Done);
    assert_eq!(both.told(), [(worker, "RESERVED 5 1\r\nx\r\n".into())]);
}

/// The database looked before the put was committed, and its answer comes after.
#[test]
fn what_is_put_while_the_database_looks_is_not_missed() {
    let mut both = Both::new(false);
    let [worker, producer] = [(); 2].map(|()| both.open());
    both.ask(worker, &Request::Reserve);
    let looks = both.asked();
    both.ask(producer, &put());
    let new = both.asked();
    both.answer(new.number, Word::Done);
    both.answer(looks.number, Word::None);
    assert!(matches!(both.asked().wish, Wish::Take { .. }));
}

#[test]
fn what_was_leased_to_one_who_has_gone_is_given_back() {
    let mut both = Both::new(false);
    let client = both.open();
    both.ask(client, &Request::Reserve);
    let under_way = both.asked();
    both.shared.close(client);
    both.queues.close(client, NOW);
    both.answer(under_way.number, Word::Done);
    assert!(matches!(both.asked().wish, Wish::Move { id: 5, what: Move::GiveBack, .. }));
    assert!(both.told().is_empty());
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
        let asked = both.asked();
        both.answer(asked.number, Word::Done);
        assert!(both.shared.may_go(client, &Request::Reserve));
    }
}

#[test]
fn who_waits_long_enough_is_told_after_a_last_look() {
    let mut both = Both::new(true);
    let client = both.open();
    both.ask(client, &Request::ReserveWithTimeout { timeout: (Nanos(500)) });
    let first = both.asked();
    both.shared.answered(
        &mut both.queues,
        first.number,
        Reply::Lines(vec![Line { word: Word::None, id: 0, ttr: 0, flags: 0, body: Arc::default() }]),
        &Way::default(),
        Stamp(1_100),
    );
    assert_eq!(both.shared.alarms.first(), Some(&(Stamp(1_500), client)));
    both.shared.tick(&both.queues, Stamp(1_500));
    let last = both.shared.take_asked().into_iter().find(|asked| matches!(asked.wish, Wish::Take { .. }));
    let nothing =
        Reply::Lines(vec![Line { word: Word::None, id: 0, ttr: 0, flags: 0, body: Arc::default() }]);
    let number = last.unwrap().number;
    both.shared.answered(&mut both.queues, number, nothing, &Way::default(), Stamp(1_600));
    assert_eq!(both.told(), [(client, "TIMED_OUT\r\n".into())]);
}

#[test]
fn the_messages_of_one_request_go_together() {
    let mut both = Both::new(false);
    let client = both.open();
    both.ask(client, &put());
    both.ask(client, &put());
    let joins: Vec<bool> = both.shared.take_asked().iter().map(|asked| asked.joins).collect();
    assert_eq!(joins, [false, true]);
}
