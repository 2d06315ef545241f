//! Dialogues in memcached's protocol: what a client says, what it hears, wherever the network cuts
//! the bytes.

use krarup_service::Service;
use krarup_units::Nanos;
use proptest::prelude::*;

use super::super::tests::{
    NOW, broker, commit, database_answers, errors, hear, say, sharing, sharing_statements,
};
use super::*;
use crate::broker::MOST_UNSENT;
use crate::database::ResultCode;

#[test]
fn messages_are_put_and_taken_by_the_name_of_their_queue() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    let lines = [
        ("get jobs\r\n", "END\r\n"),
        ("set jobs 0 0 5\r\nfirst\r\n", "STORED\r\n"),
        ("set jobs 7 0 6 noreply\r\nsecond\r\n", ""),
        ("get jobs/peek\r\n", "VALUE jobs/peek 0 5\r\nfirst\r\nEND\r\n"),
        ("get jobs\r\n", "VALUE jobs 0 5\r\nfirst\r\nEND\r\n"),
        ("gets jobs other\r\n", "VALUE jobs 7 6 2\r\nsecond\r\nEND\r\n"),
        ("get jobs other\r\n", "END\r\n"),
        ("set jobs/priority=5 0 0 1\r\nb\r\nset jobs/priority=4 0 0 1\r\na\r\n", "STORED\r\nSTORED\r\n"),
        ("get jobs jobs jobs\r\n", "VALUE jobs 0 1\r\na\r\nVALUE jobs 0 1\r\nb\r\nEND\r\n"),
        ("set jobs/unique=k 0 0 1\r\nx\r\nset jobs/unique=k 0 0 1\r\nx\r\n", "STORED\r\nNOT_STORED\r\n"),
        ("delete jobs\r\n", "DELETED\r\n"),
        ("get jobs\r\n", "END\r\n"),
        ("flush jobs\r\n", "DELETED\r\n"),
        ("delete nothing\r\n", "NOT_FOUND\r\n"),
        ("version\r\n", "VERSION \r\n"),
        ("verbosity 1\r\n", "OK\r\n"),
        ("mn\r\n", "MN\r\n"),
    ];
    for (said, expected) in lines {
        assert_eq!(say(&mut broker, id, said), expected, "after {said:?}");
    }
}

#[test]
fn a_get_of_many_keys_ends_where_its_answer_is_long_and_leaves_the_other_messages() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    let body = "v".repeat(1_000);
    say(&mut broker, id, &format!("set q 0 0 1000\r\n{body}\r\n").repeat(300));
    for (key, most) in [(" q/peek", 1_000), (" q", 300)] {
        let values = say(&mut broker, id, &format!("get{}\r\n", key.repeat(most)));
        assert!((MOST_UNSENT..MOST_UNSENT + 2_000).contains(&values.len()));
        assert!(values.ends_with("\r\nEND\r\n"));
    }
    assert_eq!(say(&mut broker, id, "get q\r\n"), format!("VALUE q 0 1000\r\n{body}\r\nEND\r\n"));
}

#[test]
fn an_open_message_is_closed_or_goes_back_to_where_it_was() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    say(&mut broker, id, "set q 0 0 1\r\na\r\nset q 0 0 1\r\nb\r\n");
    let lines = [
        ("get q/open\r\n", "VALUE q/open 0 1\r\na\r\nEND\r\n"),
        ("get q/abort\r\n", "END\r\n"),
        ("get q/open\r\n", "VALUE q/open 0 1\r\na\r\nEND\r\n"),
        ("get q/close/open\r\n", "VALUE q/close/open 0 1\r\nb\r\nEND\r\n"),
        ("get q/close/open/t=0\r\n", "END\r\n"),
        ("get q/close\r\n", "END\r\n"),
        ("get q/abort\r\n", "END\r\n"),
    ];
    for (said, expected) in lines {
        assert_eq!(say(&mut broker, id, said), expected, "after {said:?}");
    }
    assert_eq!(broker.queues().totals().ready + broker.queues().totals().reserved, 0);
}

#[test]
fn a_close_after_the_time_to_run_leaves_the_message_where_it_is() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    say(&mut broker, id, "set q/ttr=1 0 0 1\r\na\r\nget q/open\r\n");
    broker.tick(NOW + Nanos::from_secs(2));
    assert_eq!(say(&mut broker, id, "get q/close\r\n").as_bytes(), RAN_OUT);
    assert_eq!(say(&mut broker, id, "get q/open\r\n"), "VALUE q/open 0 1\r\na\r\nEND\r\n");
    broker.tick(NOW + Nanos::from_secs(4));
    assert_eq!(say(&mut broker, id, "get q/close/open\r\n"), "VALUE q/close/open 0 1\r\na\r\nEND\r\n");
}

#[test]
fn a_connection_is_told_whether_it_has_a_message_open_whose_time_has_not_run_out() {
    let mut broker = broker(false);
    let [id, other] = [(); 2].map(|()| broker.opened_memcached());
    say(&mut broker, id, "set q/ttr=1 0 0 1\r\na\r\nget q/open\r\n");
    assert_eq!(say(&mut broker, id, "stats open\r\n"), "STAT open 1\r\nEND\r\n");
    assert_eq!(say(&mut broker, other, "stats open\r\n").as_bytes(), NONE_OPEN);
    broker.tick(NOW + Nanos::from_secs(2));
    assert_eq!(say(&mut broker, id, "stats open\r\n").as_bytes(), NONE_OPEN);
    // To ask has ended nothing.
    assert_eq!(say(&mut broker, id, "get q/close\r\n").as_bytes(), RAN_OUT);
}

/// A broker whose database decides, and its client that has opened a message of `q`.
fn sharing_with_open() -> (Broker, ClientId) {
    let mut broker = sharing();
    let id = broker.opened_memcached();
    broker.read(id, b"get q/open\r\n", NOW, NOW);
    database_answers(&mut broker, ResultCode::Done);
    assert_eq!(hear(&mut broker, id), "VALUE q/open 0 1\r\nx\r\nEND\r\n");
    (broker, id)
}

#[test]
fn a_close_after_the_time_to_run_asks_nothing_of_a_database_that_decides() {
    let (mut broker, id) = sharing_with_open();
    let late = NOW + Nanos::from_secs(61);
    broker.read(id, b"get q/close\r\n", late, late);
    assert_eq!(broker.output(id).unsent(), RAN_OUT);
    assert!(broker.take_queries().is_empty());
}

/// Else the database could look for the next message before that one is back.
#[test]
fn what_is_open_is_over_before_a_database_that_decides_is_asked_for_the_next() {
    let (mut broker, id) = sharing_with_open();
    for key in ["q/abort/open", "q/close/open"] {
        let said = format!("get {key}\r\n");
        assert_eq!(broker.read(id, said.as_bytes(), NOW, NOW), 0);
        assert!(broker.paused(id));
        database_answers(&mut broker, ResultCode::Done);
        assert_eq!(broker.next_runnable(), Some(id));
        assert_eq!(broker.read(id, said.as_bytes(), NOW, NOW), said.len());
        database_answers(&mut broker, ResultCode::Done);
        assert_eq!(hear(&mut broker, id), format!("VALUE {key} 0 1\r\nx\r\nEND\r\n"));
    }
    let counted = |verb| broker.counts().get(verb);
    assert_eq!([Verb::Release, Verb::Delete, Verb::ReserveWithTimeout].map(counted), [1, 1, 3]);
}

/// It goes into another statement, which may be sent before that of the message before it.
#[test]
fn a_message_with_a_key_waits_for_those_before_it() {
    let mut broker = sharing_statements(true);
    let id = broker.opened_memcached();
    let (plain, unique) = ("set q 0 0 1\r\na\r\n", "set q/unique=k 0 0 1\r\nb\r\n");
    let said = [plain, plain, unique, unique, plain].concat();
    let mut used = 0;
    for together in [2 * plain.len(), 2 * unique.len(), plain.len()] {
        assert_eq!(broker.read(id, &said.as_bytes()[used..], NOW, NOW), together);
        used += together;
        database_answers(&mut broker, ResultCode::Done);
    }
    assert_eq!(hear(&mut broker, id), "STORED\r\n".repeat(5));
}

#[test]
fn each_queue_has_its_open_message_and_a_client_that_goes_gives_them_back() {
    let mut broker = broker(false);
    let [id, other] = [(); 2].map(|()| broker.opened_memcached());
    say(&mut broker, id, "set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n");
    assert_eq!(say(&mut broker, id, "get a/open\r\n"), "VALUE a/open 0 1\r\nx\r\nEND\r\n");
    assert_eq!(say(&mut broker, id, "get b/open\r\n"), "VALUE b/open 0 1\r\ny\r\nEND\r\n");
    let refused = say(&mut broker, id, "get a/open\r\n");
    assert!(refused.starts_with("CLIENT_ERROR a message of this queue is open"), "{refused}");
    assert_eq!(say(&mut broker, other, "get a\r\n"), "END\r\n");
    broker.gone(id, NOW);
    assert_eq!(say(&mut broker, other, "get a\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
    assert_eq!(say(&mut broker, other, "get b\r\n"), "VALUE b 0 1\r\ny\r\nEND\r\n");
}

#[test]
fn a_client_that_waits_gets_the_next_message_of_that_queue_or_hears_in_time_that_there_is_none() {
    let mut broker = broker(false);
    let [worker, producer] = [(); 2].map(|()| broker.opened_memcached());
    assert_eq!(say(&mut broker, worker, "get q/t=500/open\r\n"), "");
    assert_eq!(say(&mut broker, producer, "set other 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(hear(&mut broker, worker), "");
    assert_eq!(say(&mut broker, producer, "set q 0 0 1\r\ny\r\n"), "STORED\r\n");
    assert_eq!(hear(&mut broker, worker), "VALUE q/t=500/open 0 1\r\ny\r\nEND\r\n");
    assert_eq!(say(&mut broker, worker, "get q/close/open/t=500\r\n"), "");
    broker.tick(NOW + Nanos::from_millis(499));
    assert_eq!(hear(&mut broker, worker), "");
    broker.tick(NOW + Nanos::from_millis(500));
    assert_eq!(hear(&mut broker, worker), "END\r\n");
    assert_eq!(broker.queues().totals().reserved, 0);
}

#[test]
fn the_same_queue_serves_clients_of_both_protocols() {
    let mut broker = broker(false);
    let (old, new) = (broker.opened(), broker.opened_memcached());
    assert_eq!(say(&mut broker, old, "use q\r\nput 1 0 60 2\r\nhi\r\n"), "USING q\r\nINSERTED 1\r\n");
    assert_eq!(say(&mut broker, new, "get q/open\r\n"), "VALUE q/open 0 2\r\nhi\r\nEND\r\n");
    assert_eq!(say(&mut broker, old, "peek-ready\r\n"), "NOT_FOUND\r\n");
    say(&mut broker, new, "get q/abort\r\nset q 0 0 2\r\nho\r\n");
    // Its priority is what it was: it comes first.
    assert_eq!(say(&mut broker, old, "watch q\r\nreserve\r\n"), "WATCHING 2\r\nRESERVED 1 2\r\nhi\r\n");
}

#[test]
fn answers_leave_after_their_commit_and_a_question_sees_what_was_put() {
    let mut broker = broker(true);
    let id = broker.opened_memcached();
    assert_eq!(say(&mut broker, id, "set q 0 0 1\r\na\r\nset q 0 0 1\r\nb\r\n"), "");
    let question = b"get q/open\r\nget q/close\r\n";
    assert_eq!(broker.read(id, question, NOW, NOW), 0);
    commit(&mut broker);
    assert_eq!(hear(&mut broker, id), "STORED\r\nSTORED\r\n");
    assert_eq!(broker.read(id, question, NOW, NOW), question.len());
    assert_eq!(hear(&mut broker, id), "VALUE q/open 0 1\r\na\r\nEND\r\n");
    commit(&mut broker);
    assert_eq!(hear(&mut broker, id), "END\r\n");
}

#[test]
fn flags_are_reported_by_memcacheds_protocol_alone_and_what_is_over_is_counted() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    assert_eq!(say(&mut broker, id, "set q 7 0 1\r\na\r\nset q 8 -1 1\r\nb\r\n"), "STORED\r\nSTORED\r\n");
    assert_eq!(say(&mut broker, id, "get q/peek\r\n"), "VALUE q/peek 7 1\r\na\r\nEND\r\n");
    let other = broker.opened();
    let output = say(&mut broker, other, "watch q\r\nreserve\r\nrelease 1 0 0\r\n");
    assert_eq!(output, "WATCHING 2\r\nRESERVED 1 1\r\na\r\nRELEASED\r\n");
    assert_eq!(say(&mut broker, id, "get q\r\n"), "VALUE q 7 1\r\na\r\nEND\r\n");
    assert_eq!(say(&mut broker, id, "get q\r\n"), "END\r\n");
    assert_eq!(broker.queues().totals().expired, 1);
}

#[test]
fn what_queues_do_not_know_is_refused_and_the_conversation_goes_on() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    for (said, expected) in [
        ("incr q 1\r\n", "CLIENT_ERROR queues know"),
        ("append q 0 0 1\r\nx\r\n", "CLIENT_ERROR queues know"),
        ("mg q v\r\n", "CLIENT_ERROR queues know"),
        ("flush_all\r\n", "CLIENT_ERROR flush_all is not allowed"),
        ("get q/open other\r\n", "CLIENT_ERROR options of get go with one key"),
        ("get q/what\r\n", "CLIENT_ERROR options of get:"),
        ("set q!/open 0 0 1\r\nx\r\n", "CLIENT_ERROR a queue's name"),
        ("set q/open 0 0 1\r\nx\r\n", "CLIENT_ERROR options of set:"),
        ("nonsense\r\n", "ERROR\r\n"),
        ("set q 0 0 1\r\nxyz\r\n", "CLIENT_ERROR bad data chunk\r\n"),
    ] {
        let output = say(&mut broker, id, said);
        assert!(output.starts_with(expected), "{output:?} after {said:?}");
    }
    let large = format!("set q 0 0 1001\r\n{}\r\nget q\r\n", "x".repeat(1_001));
    assert_eq!(say(&mut broker, id, &large), "SERVER_ERROR object too large for cache\r\nEND\r\n");
    let (puts, others) = errors(&broker);
    assert_eq!(puts, 1);
    let large = format!("set q 0 0 1001 noreply\r\n{}\r\nget q\r\n", "x".repeat(1_001));
    assert_eq!(say(&mut broker, id, &large), "END\r\n");
    assert_eq!(errors(&broker), (2, others));
}

/// Else each answer behind it would be taken for that to the request before.
#[test]
fn what_is_refused_and_wants_no_answer_has_none() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    for silent in [
        "delete q/open noreply\r\n",
        "delete q! noreply\r\n",
        "delete nothing noreply\r\n",
        "set q/open 0 0 1 noreply\r\nx\r\n",
        "append q 0 0 1 noreply\r\nx\r\n",
        "incr q 1 noreply\r\n",
        "flush_all noreply\r\n",
    ] {
        assert_eq!(say(&mut broker, id, &format!("{silent}mn\r\n")), "MN\r\n", "after {silent:?}");
    }
    assert!(say(&mut broker, id, "delete q/open\r\n").starts_with("CLIENT_ERROR a queue's name"));
    broker.settings.secret = Some("hush".into());
    let id = broker.opened_memcached();
    for silent in ["set x 0 0 1 noreply\r\n!\r\n", "set x 0 0 4 noreply\r\nanna\r\n"] {
        assert_eq!(say(&mut broker, id, silent), "", "after {silent:?}");
    }
}

#[test]
fn the_binary_protocol_is_refused_in_its_own_form() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    let mut asked = [0; 24];
    (asked[0], asked[1]) = (0x80, 0x0a);
    asked[12..16].copy_from_slice(b"opaq");
    assert_eq!(broker.read(id, &asked[..23], NOW, NOW), 0);
    assert_eq!(broker.read(id, &asked, NOW, NOW), asked.len());
    let output = broker.output(id).unsent();
    assert_eq!(output[..8], [0x81, 0x0a, 0, 0, 0, 0, 0, 0x81]);
    assert_eq!((&output[12..16], output.len()), (&b"opaq"[..], 24 + usize::from(output[11])));
    let length = output.len();
    broker.written(id, length, NOW);
    assert!(broker.finished(id));
    assert_eq!(errors(&broker), (0, 1));
}

#[test]
fn where_a_secret_is_set_the_first_value_says_it() {
    let mut broker = broker(false);
    broker.settings.secret = Some("hush".into());
    let id = broker.opened_memcached();
    let refused = "CLIENT_ERROR unauthenticated\r\n";
    assert_eq!(say(&mut broker, id, "get q\r\nflush q\r\nstats\r\n"), refused.repeat(3));
    for wrong in ["anna wrong", "anna"] {
        let said = format!("set x 0 0 {}\r\n{wrong}\r\n", wrong.len());
        assert_eq!(say(&mut broker, id, &said), "CLIENT_ERROR authentication failure\r\n");
    }
    assert_eq!(say(&mut broker, id, "set x 0 0 9\r\nanna hush\r\n"), "STORED\r\n");
    assert_eq!(say(&mut broker, id, "set q 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(say(&mut broker, id, "get q x\r\n"), "VALUE q 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn before_the_secret_nothing_large_is_kept() {
    let mut broker = broker(false);
    broker.settings.secret = Some("hush".into());
    broker.settings.largest = 65_535;
    for end in ["\r\n", " noreply\r\n"] {
        let half = format!("set q 0 0 60000{end}{}", "x".repeat(30_000));
        let id = broker.opened_memcached();
        assert_eq!(say(&mut broker, id, &half), "CLIENT_ERROR unauthenticated\r\n");
        assert!(broker.finished(id));
        assert_eq!(say(&mut broker, id, &half), "", "it goes by");
    }
}

#[test]
fn a_third_wrong_secret_is_the_last_request() {
    let mut broker = broker(false);
    broker.settings.secret = Some("hush".into());
    let id = broker.opened_memcached();
    let wrong = "set x 0 0 10\r\nanna wrong\r\n".repeat(3);
    let said = format!("{wrong}set x 0 0 9\r\nanna hush\r\n");
    assert_eq!(say(&mut broker, id, &said), "CLIENT_ERROR authentication failure\r\n".repeat(3));
    assert!(broker.finished(id));
}

#[test]
fn statistics_are_lines_of_memcacheds_form() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    say(&mut broker, id, "set q 0 0 1\r\nx\r\nset q 0 0 1\r\ny\r\nget q/open\r\n");
    let text = say(&mut broker, id, "stats\r\n");
    for line in ["curr_items 1", "cmd_set 2", "cmd_get 1", "queue_q_items 1", "queue_q_open_transactions 1"] {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{line} in {text}");
    }
    assert!(text.ends_with("END\r\n"));
}

#[test]
fn statistics_of_shared_queues_are_what_the_database_has_told() {
    let mut broker = sharing();
    let id = broker.opened_memcached();
    assert!(!say(&mut broker, id, "stats\r\n").contains("STAT curr_items "));
    broker.tick(NOW);
    database_answers(&mut broker, ResultCode::None);
    let text = say(&mut broker, id, "stats\r\n");
    for line in ["curr_items 10", "open_transactions 1", "queue_old_items 7", "queue_other_waiters 0"] {
        assert!(text.contains(&format!("STAT {line}\r\n")), "{line} in {text}");
    }
    assert!(!text.contains("queue_old_total_items"), "{text}");
}

#[test]
fn rows_of_silent_requests_end_without_a_write() {
    let mut broker = broker(false);
    let id = broker.opened_memcached();
    assert_eq!(say(&mut broker, id, "set q 0 0 1 noreply\r\nx\r\n"), "");
    broker.written(id, 0, NOW);
    assert!(!broker.has_silent_replies(id));
    assert_eq!(broker.recorder().total(Operation::Put).count, 1);
}

proptest! {
    /// Where the network cuts the bytes must not matter to what is answered.
    #[test]
    fn any_cut_of_the_bytes_is_answered_alike(
        lines in proptest::collection::vec(prop_oneof![
            Just("set q 0 0 5\r\nhello\r\n".to_owned()),
            Just("set q/delay=1 0 0 5 noreply\r\nhello\r\n".to_owned()),
            Just("set q 0 0 2\r\nhello\r\n".to_owned()),
            Just(format!("set q 0 0 1001\r\n{}\r\n", "y".repeat(1_001))),
            Just("get q\r\n".to_owned()),
            Just("gets q r q\r\n".to_owned()),
            Just("get q/open\r\n".to_owned()),
            Just("get q/close/open\r\n".to_owned()),
            Just("get q/abort\r\n".to_owned()),
            Just("flush q\r\n".to_owned()),
            Just("delete q noreply\r\n".to_owned()),
            "[a-z/ ]{0,12}\r\n",
        ], 1..10),
        cuts in proptest::collection::vec(0.0..1.0_f64, 0..6),
    ) {
        let text: Vec<u8> = lines.concat().into_bytes();
        let converse = |places: &[usize]| {
            let mut broker = broker(false);
            let id = broker.opened_memcached();
            let (mut kept, mut from) = (Vec::new(), 0);
            for &place in places {
                kept.extend_from_slice(&text[from..place]);
                from = place;
                let used = broker.read(id, &kept, NOW, NOW);
                kept.drain(..used);
            }
            broker.output(id).unsent().to_vec()
        };
        let mut places: Vec<usize> = cuts.iter().map(|share| (share * text.len() as f64) as usize).collect();
        places.push(text.len());
        places.sort_unstable();
        prop_assert_eq!(converse(&places), converse(&[text.len()]));
    }
}
