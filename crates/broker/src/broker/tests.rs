//! Dialogues: what a client says, what it hears, wherever the network cuts the bytes.

use krarup_record::{Operation, recorder};
use krarup_service::{Disconnect, Service};
use proptest::prelude::*;

use super::*;
use crate::books::MOST_TUBES;
use crate::changes::{MessageRow, StoredState};
use crate::database::{Backlog, DatabaseRequest, ResultCode, ResultRow, TubeBacklog};
use crate::job::JobCounts;
use crate::metrics::{BrokerSnapshot, exposition};
use crate::queues::{self, Resident, StoredQueue};
use crate::shards::Shard;

pub(super) fn broker(durable: bool) -> Broker {
    let (settings, queues, recorder) = parts(durable);
    Broker::new(settings, queues, recorder)
}

fn parts(durable: bool) -> (BrokerSettings, Queues, Recorder) {
    let wall = Nanos::from_secs(1_000);
    let queues = queues::QueueSettings { durable, wall, ..Default::default() };
    let settings = BrokerSettings { largest: 1_000, ..BrokerSettings::default() };
    let recorder = Recorder::new(recorder::RecorderSettings::default()).unwrap();
    (settings, Queues::new(queues), recorder)
}

pub(super) fn sharing() -> Broker {
    sharing_statements(false)
}

/// Where queries of one kind share a statement, or not.
pub(super) fn sharing_statements(gathers: bool) -> Broker {
    let (settings, queues, recorder) = parts(false);
    let shared = shared::SharedSettings { gathers, number: 7, memory: 1 << 20 };
    Broker::sharing(settings, queues, recorder, shared)
}

/// The database answers all that it was asked, and tells that ten messages wait in three tubes.
pub(super) fn database_answers(broker: &mut Broker, word: ResultCode) {
    let tube = |name: &str, ready| TubeBacklog { tube: name.into(), ready, age: None };
    let fullest = vec![tube("old", 7), tube("other", 2)];
    let messages = Totals { ready: 10, reserved: 1, ..Totals::default() };
    let backlog = Backlog { fullest, tubes: 3, messages, took: Nanos::ZERO };
    let row = ResultRow { word, id: 5, ttr: 60, flags: 0, tube: None, body: b"x"[..].into() };
    let way = RequestTimes { together: 1, ..RequestTimes::default() };
    for asked in broker.take_queries() {
        let reply = match asked.query {
            DatabaseRequest::Sweep(_) => {
                DatabaseReply::Places { places: Vec::new(), expired: 0, more: false }
            }
            DatabaseRequest::Once(_) => DatabaseReply::Backlog(backlog.clone()),
            _ => DatabaseReply::Lines(vec![row.clone()]),
        };
        broker.database_replied(vec![(asked.number, reply)], &way, NOW);
    }
}

fn metrics(broker: &Broker) -> String {
    let snapshot = BrokerSnapshot::of(broker, NOW, true, false);
    exposition(&snapshot, &krarup_record::exposition::ProcessMetrics::default(), None)
}

pub(super) const NOW: Stamp = Stamp(1_000);

/// Says it and hears what comes at once.
pub(super) fn say(broker: &mut Broker, id: ClientId, text: &str) -> String {
    let used = broker.read(id, text.as_bytes(), NOW, NOW);
    assert_eq!(used, text.len());
    hear(broker, id)
}

pub(super) fn hear(broker: &mut Broker, id: ClientId) -> String {
    let output = String::from_utf8(broker.output(id).unsent().to_vec()).unwrap();
    broker.written(id, output.len(), NOW);
    output
}

pub(super) fn commit(broker: &mut Broker) {
    let (number, _) = broker.take_batch(NOW, 0).unwrap();
    broker.committed(number, NOW, NOW);
}

#[test]
fn a_conversation_is_beanstalkds() {
    let mut broker = broker(false);
    let id = broker.opened();
    let lines = [
        ("put 1 0 60 5\r\nhello\r\n", "INSERTED 1\r\n"),
        ("peek 1\r\n", "FOUND 1 5\r\nhello\r\n"),
        ("reserve\r\n", "RESERVED 1 5\r\nhello\r\n"),
        ("touch 1\r\n", "TOUCHED\r\n"),
        ("bury 1 2\r\n", "BURIED\r\n"),
        ("peek-buried\r\n", "FOUND 1 5\r\nhello\r\n"),
        ("kick 10\r\n", "KICKED 1\r\n"),
        ("reserve-job 1\r\n", "RESERVED 1 5\r\nhello\r\n"),
        ("release 1 3 100\r\n", "RELEASED\r\n"),
        ("peek-ready\r\n", "NOT_FOUND\r\n"),
        ("kick-job 1\r\n", "KICKED\r\n"),
        ("delete 1\r\n", "DELETED\r\n"),
        ("delete 1\r\n", "NOT_FOUND\r\n"),
        ("reserve-with-timeout 0\r\n", "TIMED_OUT\r\n"),
        ("use a\r\n", "USING a\r\n"),
        ("watch b\r\n", "WATCHING 2\r\n"),
        ("ignore default\r\n", "WATCHING 1\r\n"),
        ("ignore b\r\n", "NOT_IGNORED\r\n"),
        ("list-tube-used\r\n", "USING a\r\n"),
        ("list-tubes-watched\r\n", "OK 8\r\n---\n- b\n\r\n"),
        ("list-tubes\r\n", "OK 22\r\n---\n- default\n- a\n- b\n\r\n"),
        ("pause-tube a 0\r\n", "PAUSED\r\n"),
        ("pause-tube z 0\r\n", "NOT_FOUND\r\n"),
        ("put 1 0 60 5\r\nhello!!", "EXPECTED_CRLF\r\n"),
        ("nonsense\r\n", "UNKNOWN_COMMAND\r\n"),
        ("delete x\r\n", "BAD_FORMAT\r\n"),
        ("ping\r\n", "PONG\r\n"),
    ];
    for (said, expected) in lines {
        assert_eq!(say(&mut broker, id, said), expected, "after {said:?}");
    }
}

#[test]
fn a_body_beyond_the_limit_goes_by_and_the_conversation_goes_on() {
    let mut broker = broker(false);
    let id = broker.opened();
    let said = format!("put 1 0 60 1001\r\n{}\r\nping\r\n", "x".repeat(1_001));
    assert_eq!(say(&mut broker, id, &said), "JOB_TOO_BIG\r\nPONG\r\n");
    let said = format!("{}\r\nping\r\n", "x".repeat(2_000));
    assert_eq!(say(&mut broker, id, &said), "BAD_FORMAT\r\nPONG\r\n");
    assert_eq!(errors(&broker), (1, 1), "the body is of a put, the long line of anything");
}

/// Errors of puts, and of what is told under no name of its own.
pub(super) fn errors(broker: &Broker) -> (u64, u64) {
    let of = |operation| broker.recorder().total(operation).errors;
    (of(Operation::Put), of(Operation::Other))
}

#[test]
fn clients_that_are_turned_away_are_counted_for_monitoring() {
    let mut broker = broker(false);
    for _ in 0..2 {
        assert_eq!(broker.turned_away(), b"");
    }
    assert!(metrics(&broker).contains("\nkrarup_broker_clients_refused_total 2\n"));
}

#[test]
fn clients_that_wait_for_memory_or_were_disconnected_for_it_are_counted_for_monitoring() {
    let mut broker = broker(false);
    broker.note_memory(4_096, true);
    broker.disconnected(Disconnect::TimeLimit);
    broker.disconnected(Disconnect::Memory);
    let told = metrics(&broker);
    for line in ["buffers_bytes 4096", "memory_short 1", "clients_cut_total 1"] {
        assert!(told.contains(&format!("\nkrarup_broker_{line}\n")), "{line}: {told}");
    }
}

#[test]
fn a_client_works_until_its_message_is_done_or_its_time_is_over() {
    let mut broker = broker(false);
    let id = broker.opened();
    let (put, reserve) = ("put 1 0 60 1\r\nx\r\n", "reserve\r\n");
    assert_eq!(say(&mut broker, id, put), "INSERTED 1\r\n");
    assert!(!broker.holds_lease(id, NOW));
    assert_eq!(say(&mut broker, id, reserve), "RESERVED 1 1\r\nx\r\n");
    assert!(broker.holds_lease(id, NOW));
    assert_eq!(say(&mut broker, id, "delete 1\r\n"), "DELETED\r\n");
    assert!(!broker.holds_lease(id, NOW));
    assert_eq!(say(&mut broker, id, put), "INSERTED 2\r\n");
    assert_eq!(say(&mut broker, id, reserve), "RESERVED 2 1\r\nx\r\n");
    let later = NOW + Nanos::from_secs(60);
    broker.tick(later);
    assert!(!broker.holds_lease(id, later));
}

#[test]
fn a_client_that_waits_is_read_later_when_it_is_answered() {
    let mut broker = broker(false);
    let [worker, producer] = [(); 2].map(|()| broker.opened());
    let said = b"reserve\r\nping\r\n";
    let used = broker.read(worker, said, NOW, NOW);
    assert_eq!(used, 9);
    assert!(broker.paused(worker));
    assert_eq!(hear(&mut broker, worker), "");
    assert_eq!(say(&mut broker, producer, "put 0 0 1 1\r\nx\r\n"), "INSERTED 1\r\n");
    let runnable: Vec<_> = std::iter::from_fn(|| broker.next_runnable()).collect();
    assert_eq!(runnable, [worker]);
    assert_eq!(broker.read(worker, &said[used..], NOW, NOW), 6);
    assert_eq!(hear(&mut broker, worker), "RESERVED 1 1\r\nx\r\nPONG\r\n");
}

#[test]
fn of_one_client_so_many_requests_are_carried_out_before_others_have_their_turn() {
    let mut broker = broker(false);
    let [eager, other] = [(); 2].map(|()| broker.opened());
    let count = 3 * A_TURN as usize;
    let said = "ping\r\n".repeat(count);
    let mut used = broker.read(eager, said.as_bytes(), NOW, NOW);
    assert_eq!(used, A_TURN as usize * "ping\r\n".len());
    assert!(broker.paused(eager) && !broker.heeds_end(eager));
    assert_eq!(say(&mut broker, other, "ping\r\n"), "PONG\r\n");
    let mut answered = hear(&mut broker, eager);
    broker.ended(eager, NOW);
    while broker.next_runnable() == Some(eager) {
        assert!(!broker.finished(eager));
        used += broker.read(eager, &said.as_bytes()[used..], NOW, NOW);
        answered += &hear(&mut broker, eager);
    }
    assert_eq!((used, answered), (said.len(), "PONG\r\n".repeat(count)));
    assert!(!broker.paused(eager) && broker.finished(eager));
}

#[test]
fn a_request_that_walks_through_much_takes_more_of_a_turn() {
    let mut broker = broker(false);
    let watcher = broker.opened();
    // Beside the tube that each client watches.
    for tube in 1..TUBES_A_REQUEST {
        broker.queues.watch(watcher, &format!("t{tube}"));
    }
    let many = A_TURN as usize;
    for (id, request, count) in [
        (watcher, "reserve-with-timeout 0\r\n", many / 2),
        (broker.opened(), "reserve-with-timeout 0\r\n", many),
        (broker.opened(), "stats-reset\r\n", 1),
        (broker.opened(), "expire-tube t 9\r\n", 1),
        (broker.opened_memcached(), "stats\r\n", 1),
    ] {
        let used = broker.read(id, request.repeat(many + 1).as_bytes(), NOW, NOW);
        assert_eq!(used, count * request.len(), "{request}");
    }
    // So do batches of many messages.
    let id = broker.opened();
    let batch = format!("put-batch 0 0 60{}\r\n{}", " 1".repeat(256), "x\r\n".repeat(256));
    let batches = batch.repeat(many / 256);
    assert_eq!(broker.read(id, format!("{batches}ping\r\n").as_bytes(), NOW, NOW), batches.len());
}

#[test]
fn a_client_that_waits_is_answered_where_the_one_that_puts_quits_at_once() {
    let mut broker = broker(false);
    let [worker, producer] = [(); 2].map(|()| broker.opened());
    assert_eq!(say(&mut broker, worker, "reserve\r\n"), "");
    let said = b"put 0 0 60 1\r\nx\r\nquit\r\n";
    assert_eq!(broker.read(producer, said, NOW, NOW), said.len());
    assert_eq!(hear(&mut broker, worker), "RESERVED 1 1\r\nx\r\n");
    broker.gone(worker, NOW);
}

#[test]
fn answers_leave_after_their_commit_and_in_order() {
    let mut broker = broker(true);
    let id = broker.opened();
    assert_eq!(say(&mut broker, id, "put 0 0 1 1\r\na\r\nput 0 0 1 1\r\nb\r\nbroken\r\n"), "");
    let (number, batch) = broker.take_batch(NOW, 0).unwrap();
    assert_eq!(batch.messages.len(), 2);
    assert_eq!(say(&mut broker, id, "put 0 0 1 1\r\nc\r\n"), "");
    broker.committed(number, NOW, NOW);
    assert_eq!(hear(&mut broker, id), "INSERTED 1\r\nINSERTED 2\r\nUNKNOWN_COMMAND\r\n");
    commit(&mut broker);
    assert_eq!(hear(&mut broker, id), "INSERTED 3\r\n");
    assert!(broker.take_batch(NOW, 0).is_none());
    let row = broker.recorder().total(Operation::Put);
    assert_eq!((row.count, broker.recorder().disordered()), (3, 0));
}

/// Else a client that puts much at once would hold up all others.
#[test]
fn a_client_is_looked_through_once_however_many_of_its_answers_wait_for_a_commit() {
    let mut broker = broker(true);
    let [id, other] = [(); 2].map(|()| broker.opened());
    say(&mut broker, id, &"put 0 0 1 1\r\na\r\n".repeat(5));
    say(&mut broker, other, "put 0 0 1 1\r\na\r\n");
    let (number, _) = broker.take_batch(NOW, 0).unwrap();
    let mut answers = 0;
    broker.of_batch(number, |_, _| answers += 1);
    assert_eq!(answers, 6);
}

#[test]
fn a_client_that_has_put_sees_what_it_has_put() {
    let mut broker = broker(true);
    let id = broker.opened();
    let said = b"put 0 0 1 1\r\na\r\npeek-ready\r\n";
    let used = broker.read(id, said, NOW, NOW);
    assert_eq!(used, 16, "the question waits for the commit");
    commit(&mut broker);
    let runnable: Vec<_> = std::iter::from_fn(|| broker.next_runnable()).collect();
    assert_eq!(runnable, [id]);
    broker.read(id, &said[used..], NOW, NOW);
    assert_eq!(hear(&mut broker, id), "INSERTED 1\r\nFOUND 1 1\r\na\r\n");
}

#[test]
fn a_popped_message_leaves_after_its_end_is_on_disk() {
    let mut broker = broker(true);
    let id = broker.opened();
    say(&mut broker, id, "put 0 0 1 1\r\na\r\n");
    commit(&mut broker);
    assert_eq!(hear(&mut broker, id), "INSERTED 1\r\n");
    assert_eq!(say(&mut broker, id, "pop\r\n"), "");
    commit(&mut broker);
    assert_eq!(hear(&mut broker, id), "POPPED 1 1\r\na\r\n");
}

/// Answers that wait for their commit are held as well as those that wait to leave.
#[test]
fn a_client_is_read_on_when_few_bytes_of_its_answers_wait_for_a_commit_or_to_leave() {
    let (settings, _, recorder) = parts(true);
    let settings = BrokerSettings { largest: 10_000, ..settings };
    let queues = queues::QueueSettings { durable: true, memory: 1 << 23, ..Default::default() };
    let mut broker = Broker::new(settings, Queues::new(queues), recorder);
    let id = broker.opened();
    say(&mut broker, id, &format!("put 0 0 60 10000\r\n{}\r\n", "v".repeat(10_000)).repeat(200));
    commit(&mut broker);
    hear(&mut broker, id);
    broker.take_growth();
    let pops = "pop\r\n".repeat(200);
    let used = broker.read(id, pops.as_bytes(), NOW, NOW);
    assert!(used < pops.len() && broker.paused(id) && broker.output(id).is_empty());
    let held = broker.held(id);
    assert!((MOST_UNCOMMITTED..MOST_UNCOMMITTED + 20_000).contains(&held));
    assert_eq!(broker.take_growth(), held);
    commit(&mut broker);
    assert!(broker.paused(id) && broker.take_growth() == 0);
    assert_eq!(hear(&mut broker, id).len(), held);
    assert_eq!(broker.next_runnable(), Some(id));
    assert_eq!(broker.read(id, &pops.as_bytes()[used..], NOW, NOW), pops.len() - used);
}

/// Its next request may have come meanwhile, and was not looked at.
#[test]
fn a_client_that_has_taken_a_long_answer_is_read_on_though_no_request_of_it_waits() {
    let mut broker = broker(false);
    let id = broker.opened();
    say(&mut broker, id, &format!("put 0 0 60 1000\r\n{}\r\n", "v".repeat(1_000)).repeat(300));
    let said = b"reserve-batch 300 0\r\n";
    assert_eq!(broker.read(id, said, NOW, NOW), said.len());
    assert!(broker.paused(id));
    broker.written(id, 1_000, NOW);
    assert_eq!(broker.next_runnable(), None, "much is left");
    hear(&mut broker, id);
    assert_eq!(broker.next_runnable(), Some(id));
}

#[test]
fn a_refused_batch_refuses_its_puts_and_keeps_the_rest_waiting() {
    let mut broker = broker(true);
    let id = broker.opened();
    say(&mut broker, id, "put 0 0 1 1\r\na\r\n");
    commit(&mut broker);
    hear(&mut broker, id);
    assert_eq!(say(&mut broker, id, "delete 1\r\nput 0 0 1 1\r\nb\r\n"), "");
    let (number, batch) = broker.take_batch(NOW, 0).unwrap();
    broker.refused(number, batch, NOW);
    assert_eq!(hear(&mut broker, id), "", "the delete is not decided yet");
    assert_eq!(broker.store_load().waiting, 1);
    commit(&mut broker);
    assert_eq!(hear(&mut broker, id), "DELETED\r\nOUT_OF_MEMORY\r\n");
    assert_eq!(say(&mut broker, id, "reserve-with-timeout 0\r\n"), "TIMED_OUT\r\n");
}

#[test]
fn what_the_store_has_refused_is_not_counted_and_waits_no_more() {
    let mut broker = broker(true);
    let id = broker.opened();
    let counted = |broker: &Broker| (broker.queues().totals().jobs, broker.service(NOW).written);
    say(&mut broker, id, "put 0 0 1 1\r\na\r\n");
    let (number, batch) = broker.take_batch(NOW, 0).unwrap();
    assert_eq!(counted(&broker), (0, 0));
    broker.refused(number, batch, NOW);
    assert_eq!(hear(&mut broker, id), "OUT_OF_MEMORY\r\n");
    assert_eq!((counted(&broker), broker.store_load().waiting), ((0, 0), 0));
    say(&mut broker, id, "put 0 0 1 1\r\na\r\n");
    commit(&mut broker);
    assert_eq!(counted(&broker), (1, 1));
}

/// One of a client that has its message from another owner counts no more as waiting here. With one
/// owner of all queues, what a client sends while it waits is its next request.
#[test]
fn a_broker_that_asks_something_else_waits_no_longer() {
    for (of, waiting, answers) in [(2, 0, "TIMED_OUT\r\nTIMED_OUT\r\n"), (1, 1, "")] {
        let (settings, _, recorder) = parts(false);
        let shard = Shard { number: 0, of };
        let queues = Queues::new(queues::QueueSettings { shard, ..Default::default() });
        let mut broker = Broker::new(settings, queues, recorder);
        let id = broker.opened();
        assert_eq!(say(&mut broker, id, "await 3600\r\n"), "");
        assert_eq!((broker.queues().totals().waiting, broker.paused(id)), (1, of == 1));
        broker.read(id, b"await 0\r\n", NOW, NOW);
        assert_eq!((broker.queues().totals().waiting, &*hear(&mut broker, id)), (waiting, answers));
    }
}

/// One client waits for a line to be read, and another deletes what is in it by its number.
#[test]
fn a_client_goes_on_when_nothing_is_left_of_what_it_wanted_read() {
    let (settings, _, recorder) = parts(true);
    let resident = Some(Resident { bytes: 0, heads: 1 });
    let mut queues = Queues::new(queues::QueueSettings { durable: true, resident, ..Default::default() });
    queues.ids_from(2);
    queues.load_line(StoredQueue::Ready("default".into(), None), 1, 0);
    let mut broker = Broker::new(settings, queues, recorder);
    let [waits, deletes] = [(); 2].map(|()| broker.opened());
    let (reserve, delete) = (b"reserve-with-timeout 5\r\n", b"delete 1\r\n");
    assert_eq!(broker.read(waits, reserve, NOW, NOW), 0);
    assert_eq!(broker.read(deletes, delete, NOW, NOW), 0);
    assert_eq!(broker.take_fetch(), Some(Fetch::Named(vec![1])));
    let row = MessageRow {
        id: 1,
        tube: "default".into(),
        sender: None,
        receiver: None,
        priority: 2_000,
        delay: Nanos::ZERO,
        ttr: Nanos::from_secs(1),
        created: Nanos::ZERO,
        standing: StoredState::Ready,
        happened: JobCounts::default(),
        flags: 0,
        lives_until: None,
        body: b"x"[..].into(),
    };
    broker.fetched(Fetched { rows: vec![row], ..Fetched::default() }, NOW);
    assert_eq!([broker.next_runnable(), broker.next_runnable()], [Some(waits), Some(deletes)]);
    assert_eq!(broker.read(waits, reserve, NOW, NOW), 0);
    assert_eq!(broker.read(deletes, delete, NOW, NOW), delete.len());
    commit(&mut broker);
    assert_eq!(hear(&mut broker, deletes), "DELETED\r\n");
    assert_eq!((broker.take_fetch(), broker.next_runnable()), (None, Some(waits)));
    assert_eq!(broker.read(waits, reserve, NOW, NOW), reserve.len());
    broker.tick(NOW + Nanos::from_secs(5));
    assert_eq!(hear(&mut broker, waits), "TIMED_OUT\r\n");
}

#[test]
fn a_client_that_has_ended_its_side_waits_for_nothing_and_gets_what_it_is_owed() {
    let mut broker = broker(false);
    let id = broker.opened();
    broker.read(id, b"reserve\r\n", NOW, NOW);
    broker.ended(id, NOW);
    assert!(!broker.finished(id));
    assert_eq!(hear(&mut broker, id), "TIMED_OUT\r\n");
    assert!(broker.finished(id));
}

#[test]
fn where_a_secret_is_set_nothing_is_done_without_it() {
    let mut broker = broker(false);
    broker.settings.secret = Some("hush".into());
    let id = broker.opened();
    assert_eq!(say(&mut broker, id, "put 0 0 1 1\r\na\r\n"), "NOT_LOGGED_IN\r\n");
    assert_eq!(say(&mut broker, id, "login anna\r\n"), "NOT_LOGGED_IN\r\n");
    assert_eq!(say(&mut broker, id, "login anna wrong\r\n"), "NOT_LOGGED_IN\r\n");
    assert_eq!(say(&mut broker, id, "login anna hush\r\n"), "LOGGED_IN\r\n");
    assert_eq!(say(&mut broker, id, "put 0 0 1 1\r\na\r\n"), "INSERTED 1\r\n");
    // The name is registered by that.
    let other = broker.opened();
    assert_eq!(say(&mut broker, other, "login bob hush\r\n"), "LOGGED_IN\r\n");
    assert_eq!(say(&mut broker, other, "put-to anna 0 0 1 1\r\nb\r\n"), "INSERTED 2\r\n");
}

#[test]
fn before_the_secret_nothing_large_is_kept() {
    for begun in ["put 0 0 1 60000\r\n", "put-batch 0 0 1 60000 60000\r\n"] {
        let mut broker = broker(false);
        broker.settings.secret = Some("hush".into());
        broker.settings.largest = 65_535;
        let half = format!("{begun}{}", "x".repeat(30_000));
        let id = broker.opened();
        assert_eq!(say(&mut broker, id, &half), "NOT_LOGGED_IN\r\n", "{begun}");
        assert!(broker.finished(id), "{begun}");
        assert_eq!(say(&mut broker, id, &half), "", "it goes by");
        let other = broker.opened();
        assert_eq!(say(&mut broker, other, "login anna hush\r\n"), "LOGGED_IN\r\n");
        assert_eq!(broker.read(other, half.as_bytes(), NOW, NOW), 0, "the rest of it is awaited");
        assert!(!broker.finished(other));
    }
}

#[test]
fn a_third_wrong_secret_is_the_last_request() {
    let mut broker = broker(false);
    broker.settings.secret = Some("hush".into());
    let id = broker.opened();
    let said = format!("{}login anna hush\r\n", "login anna wrong\r\n".repeat(3));
    assert_eq!(say(&mut broker, id, &said), "NOT_LOGGED_IN\r\n".repeat(3));
    assert!(broker.finished(id));
}

#[test]
fn a_draining_broker_takes_no_more_messages_and_gives_out_those_it_has() {
    let mut broker = broker(false);
    let id = broker.opened();
    say(&mut broker, id, "put 0 0 1 1\r\na\r\n");
    broker.drain();
    assert_eq!(say(&mut broker, id, "put 0 0 1 1\r\nb\r\n"), "DRAINING\r\n");
    assert_eq!(say(&mut broker, id, "reserve\r\n"), "RESERVED 1 1\r\na\r\n");
}

#[test]
fn a_batch_of_messages_is_taken_kept_and_deleted_in_one_request() {
    let mut broker = broker(false);
    let id = broker.opened();
    say(&mut broker, id, "put 0 0 1 1\r\na\r\nput 0 0 1 1\r\nb\r\n");
    let expected = "RESERVED_BATCH 2\r\nRESERVED 1 1\r\na\r\nRESERVED 2 1\r\nb\r\n";
    assert_eq!(say(&mut broker, id, "reserve-batch 10 0\r\n"), expected);
    assert_eq!(say(&mut broker, id, "touch-batch 1 2 2 3\r\n"), "TOUCHED 2\r\n");
    assert_eq!(say(&mut broker, id, "delete-batch 1 2 3\r\n"), "DELETED 2\r\n");
    assert_eq!(say(&mut broker, id, "touch-batch 1\r\n"), "TOUCHED 0\r\n");
}

#[test]
fn a_batch_of_messages_is_put_in_one_request_and_each_is_answered() {
    let mut broker = broker(true);
    let id = broker.opened();
    assert_eq!(say(&mut broker, id, "put-batch 3 0 60 1 0 3\r\na\r\n\r\nb\r\n\r\n"), "");
    let (number, batch) = broker.take_batch(NOW, 0).unwrap();
    assert_eq!(batch.messages.len(), 3);
    broker.committed(number, NOW, NOW);
    let expected = "INSERTED_BATCH 3\r\nINSERTED 1\r\nINSERTED 2\r\nINSERTED 3\r\n";
    assert_eq!(hear(&mut broker, id), expected);
    assert_eq!(say(&mut broker, id, "ping\r\npeek 3\r\n"), "PONG\r\nFOUND 3 3\r\nb\r\n\r\n");
    assert_eq!(broker.batches().sizes().sum, 3);
}

#[test]
fn a_batch_that_is_not_well_formed_goes_by_as_a_whole() {
    let mut broker = broker(false);
    let id = broker.opened();
    for (said, expected) in [
        ("put-batch 3 0 60 1 1\r\na\r\nbcd", "EXPECTED_CRLF\r\n"),
        ("put-batch 3 0 60\r\n", "BAD_FORMAT\r\n"),
        ("put-batch 3 0 60 1 x\r\n", "BAD_FORMAT\r\n"),
    ] {
        assert_eq!(say(&mut broker, id, said), expected, "after {said:?}");
    }
    let large = format!("put-batch 3 0 60 1 1001\r\na\r\n{}\r\nping\r\n", "x".repeat(1_001));
    assert_eq!(say(&mut broker, id, &large), "JOB_TOO_BIG\r\nPONG\r\n");
    assert_eq!(errors(&broker), (1, 3));
    // There is room for some of them.
    let body = "y".repeat(900);
    let many = format!("put-batch 3 0 60{}\r\n{}", " 900".repeat(150), format!("{body}\r\n").repeat(150));
    assert_eq!(broker.queues().totals().jobs, 0);
    for _ in 0..6 {
        say(&mut broker, id, &many);
    }
    let output = say(&mut broker, id, &many);
    assert!(
        output.starts_with("INSERTED_BATCH 150\r\n") && output.ends_with("OUT_OF_MEMORY\r\n"),
        "{output}"
    );
    assert_eq!(output.lines().count(), 151);
    assert_eq!(say(&mut broker, id, "ping\r\n"), "PONG\r\n");
}

proptest! {
    /// Where the network cuts the bytes must not matter to what is answered.
    #[test]
    fn any_cut_of_the_bytes_is_answered_alike(
        lines in proptest::collection::vec(prop_oneof![
            Just("put 0 0 1 5\r\nhello\r\n".to_owned()),
            Just("put 0 0 1 2\r\nhello\r\n".to_owned()),
            Just("put-batch 0 0 1 2 0 3\r\nhe\r\n\r\nllo\r\n".to_owned()),
            Just("put-batch 0 0 1 2 2\r\nhe\r\nllo\r\n".to_owned()),
            Just(format!("put 0 0 1 1001\r\n{}\r\n", "y".repeat(1_001))),
            Just(format!("{}\r\n", "z".repeat(900))),
            Just("reserve-with-timeout 0\r\n".to_owned()),
            Just("peek-ready\r\n".to_owned()),
            Just("delete 1\r\n".to_owned()),
            "[a-z ]{0,12}\r\n",
        ], 1..8),
        cuts in proptest::collection::vec(0.0..1.0_f64, 0..6),
    ) {
        let text: Vec<u8> = lines.concat().into_bytes();
        let mut whole = broker(false);
        let id = whole.opened();
        prop_assume!(whole.read(id, &text, NOW, NOW) <= text.len());
        let expected = whole.output(id).unsent().to_vec();

        let mut cut = broker(false);
        let id = cut.opened();
        let mut places: Vec<usize> = cuts.iter().map(|share| (share * text.len() as f64) as usize).collect();
        places.push(text.len());
        places.sort_unstable();
        let (mut kept, mut from) = (Vec::new(), 0);
        for place in places {
            kept.extend_from_slice(&text[from..place]);
            from = place;
            let used = cut.read(id, &kept, NOW, NOW);
            kept.drain(..used);
        }
        prop_assert_eq!(cut.output(id).unsent(), expected);
    }
}

/// A reserve finds no message, waits, and is asked for once more when one is there: to a model the
/// two are trips to the database, and the client waited from the second on.
#[test]
fn a_trip_that_found_no_message_is_kept_for_the_model() {
    let mut broker = sharing();
    broker.keep_live(StoreLanes::Alike);
    let [worker, producer] = [(); 2].map(|()| broker.opened());
    let at = |tenths: u64| Stamp(Nanos::from_millis(100 * tenths).0);
    let line = |word| {
        let row = ResultRow { word, id: 5, ttr: 60, flags: 0, tube: None, body: b"x"[..].into() };
        DatabaseReply::Lines(vec![row])
    };
    let answer = |broker: &mut Broker, word, tenths: u64| {
        let asked = broker.take_queries().remove(0);
        let (taken, sent, answered) = (at(tenths), at(tenths), at(tenths + 2));
        let way = RequestTimes { taken, sent, answered, connection: 1, ..RequestTimes::default() };
        broker.database_replied(vec![(asked.number, line(word))], &way, answered);
    };
    broker.read(worker, b"reserve\r\n", at(10), at(10));
    answer(&mut broker, ResultCode::None, 10);
    broker.read(producer, b"put 1 0 60 1\r\nx\r\n", at(20), at(20));
    answer(&mut broker, ResultCode::Done, 20);
    answer(&mut broker, ResultCode::Done, 30);
    for (client, text) in [(producer, "INSERTED 5\r\n"), (worker, "RESERVED 5 1\r\nx\r\n")] {
        assert_eq!(broker.output(client).unsent(), text.as_bytes());
        broker.written(client, text.len(), at(32));
    }
    let kept = broker.live(at(40)).visits;
    let seen = kept.iter().map(|one| (one.received, one.is_late(), one.answered_at().0 - one.sent_at().0));
    let trip = Nanos::from_millis(200).0;
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [(at(10), true, trip), (at(20), false, trip), (at(22), false, trip)],
        "in vain; the put; the reserve, since the message is there"
    );
    // Of 2.2 s it waited for a connection from when it was asked for once more.
    assert_eq!(parts_of(&broker, Operation::Reserve), [800, 200, 1_200].map(Nanos::from_millis));
}

/// Times in the queue, with the store and of the broker's own, summed up.
fn parts_of(broker: &Broker, operation: Operation) -> [Nanos; 3] {
    let all = broker.recorder().total(operation);
    [all.queue_time, all.server_time, all.own_time]
}

/// Both wait for ten seconds; the end of the popped message waits one more for the store, and is
/// written in another.
#[test]
fn to_wait_for_a_message_is_not_to_wait_for_the_store() {
    let at = |second| Stamp(Nanos::from_secs(second).0);
    for (said, operation, parts) in
        [("reserve\r\n", Operation::Reserve, [0, 0, 12]), ("pop 60\r\n", Operation::Pop, [1, 1, 10])]
    {
        let mut broker = broker(true);
        let [worker, producer] = [(); 2].map(|()| broker.opened());
        broker.read(worker, said.as_bytes(), at(0), at(0));
        broker.read(producer, b"put 1 0 60 1\r\nx\r\n", at(9), at(9));
        let (put, _) = broker.take_batch(at(9), 0).unwrap();
        broker.committed(put, at(9), at(10));
        if let Some((taken, _)) = broker.take_batch(at(11), 0) {
            broker.committed(taken, at(11), at(12));
        }
        let length = broker.output(worker).len();
        broker.written(worker, length, at(12));
        assert_eq!(parts_of(&broker, operation), parts.map(Nanos::from_secs), "{said}");
    }
}

#[test]
fn metrics_list_so_many_tubes_and_one_for_all_others() {
    let mut broker = broker(false);
    let id = broker.opened();
    for number in 0..300 {
        say(&mut broker, id, &format!("use tube-{number}\r\nput 1 0 60 1\r\nx\r\n"));
    }
    let text = metrics(&broker);
    let labels = text.lines().filter_map(|line| line.split_once("{tube=\"")?.1.split_once('"'));
    let mut tubes: Vec<&str> = labels.map(|(tube, _)| tube).collect();
    tubes.sort_unstable();
    tubes.dedup();
    // 20 of those with a message each, those that are there longest, and the rest as one.
    assert_eq!((tubes.len(), tubes[0]), (21, "*"));
    assert!(tubes.contains(&"tube-0") && !tubes.contains(&"tube-299"), "{tubes:?}");
    let others = "krarup_broker_tube_ready{tube=\"*\"} 280";
    assert!(text.lines().any(|line| line == others), "{text}");
}

#[test]
fn of_a_tube_without_books_of_its_own_no_arrivals_are_told() {
    let mut broker = broker(false);
    let id = broker.opened();
    for number in 0..=MOST_TUBES {
        say(&mut broker, id, &format!("use tube-{number}\r\nput 1 0 60 1\r\nx\r\n"));
    }
    // It is the fullest now.
    say(&mut broker, id, "put 1 0 60 1\r\nx\r\n");
    let text = metrics(&broker);
    let told =
        |name: &str, tube: usize| text.contains(&format!("krarup_broker_{name}{{tube=\"tube-{tube}\""));
    for name in ["tube_arrivals_total", "workers_needed_silent", "tube_waiting_time_seconds_count"] {
        assert_eq!((told(name, 0), told(name, MOST_TUBES)), (true, false), "{name} in {text}");
    }
    assert!(told("tube_ready", MOST_TUBES));
}

#[test]
fn what_changes_nothing_for_a_client_is_no_commit() {
    let mut broker = sharing();
    let id = broker.opened();
    let counted = |broker: &Broker| (broker.service(NOW).commits, broker.service(NOW).written);
    broker.tick(NOW);
    database_answers(&mut broker, ResultCode::None);
    for request in ["reserve-with-timeout 0\r\n", "peek 5\r\n", "delete 5\r\n"] {
        broker.read(id, request.as_bytes(), NOW, NOW);
        database_answers(&mut broker, ResultCode::None);
    }
    assert_eq!(hear(&mut broker, id), "TIMED_OUT\r\nNOT_FOUND\r\nNOT_FOUND\r\n");
    assert_eq!((counted(&broker), broker.batches().count()), ((0, 0), 0));
    broker.read(id, b"put 1 0 60 1\r\nx\r\n", NOW, NOW);
    database_answers(&mut broker, ResultCode::Done);
    assert_eq!((counted(&broker), broker.batches().sizes().sum), ((1, 1), 1));
}

#[test]
fn where_the_database_decides_monitoring_is_told_what_it_said_and_nothing_else() {
    let mut broker = sharing();
    let id = broker.opened();
    broker.tick(NOW);
    database_answers(&mut broker, ResultCode::None);
    broker.read(id, format!("put 1 0 60 100\r\n{}\r\n", "x".repeat(100)).as_bytes(), NOW, NOW);
    let text = metrics(&broker);
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    assert_eq!(value("krarup_broker_tubes"), Some("3"));
    // The message is on its way.
    assert_eq!(value("krarup_broker_memory_bytes"), Some("420"));
    assert_eq!(value("krarup_broker_leases_expired_total"), None);
    let owner = self::broker(false);
    assert!(metrics(&owner).contains("\nkrarup_broker_leases_expired_total 0\n"));
}

/// As after a warm-up; monitoring, whose counters never go back, counts all of it.
#[test]
fn records_begin_anew_when_a_client_asks() {
    let mut broker = broker(false);
    let id = broker.opened();
    let put = |broker: &Broker| broker.recorder().total(Operation::Put).count;
    for _ in 0..2 {
        assert_eq!(say(&mut broker, id, "stats-reset\r\n"), "RESET\r\n");
        assert!(say(&mut broker, id, "put 0 0 1 1\r\na\r\n").starts_with("INSERTED "));
        assert_eq!((put(&broker), broker.reset_at()), (1, Some(NOW)));
    }
    assert_eq!(broker.recorder_since_start().total(Operation::Put).count, 2);
    assert!(say(&mut broker, id, "stats\r\n").contains("\ncmd-put: 2\n"));
}
