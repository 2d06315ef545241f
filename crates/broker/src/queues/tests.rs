//! What each operation does, one sentence a test; then random interleavings against the counts that
//! must hold.

use proptest::prelude::*;

use super::*;
use crate::report::OtherTubes;
use crate::shards::shard_of;
use krarup_beanstalk::DEFAULT_TTR;
use krarup_record::EndedLease;

const MEMORY: u64 = 1 << 20;

fn queues(durable: bool) -> Queues {
    let wall = Nanos::from_secs(1_000);
    Queues::new(QueueSettings { memory: MEMORY, durable, wall, ..QueueSettings::default() })
}

fn at(seconds: u64) -> Stamp {
    Stamp(Nanos::from_secs(seconds).0)
}

fn message(body: &[u8]) -> Put<'_> {
    Put { priority: 10, ttr: DEFAULT_TTR, body, ..Put::default() }
}

fn put(queues: &mut Queues, client: ClientId, priority: u32) -> Id {
    queues.put(client, &Put { priority, ..message(b"x") }, at(0)).unwrap().0
}

#[test]
fn a_message_may_have_an_end_of_its_own_beside_that_of_its_tube() {
    let mut queues = queues(false);
    let client = queues.open();
    for lives in [Some(3), Some(9), None] {
        queues.put(client, &Put { lives, ..message(b"x") }, at(0)).unwrap();
    }
    queues.tick(at(2));
    assert_eq!(queues.totals().expired, 0);
    queues.tick(at(3));
    assert_eq!((queues.totals().expired, queues.totals().ready), (1, 2));
    queues.expire_tube("default", 5, at(4));
    queues.tick(at(5));
    assert_eq!((queues.totals().expired, queues.totals().ready), (3, 0));
    // The client that holds it keeps it; given back, it is gone.
    let id = queues.put(client, &Put { lives: Some(2), ..message(b"x") }, at(6)).unwrap().0;
    assert_eq!(reserve(&mut queues, client, at(7)), Some(id));
    queues.tick(at(8));
    assert_eq!(queues.release(client, id, 0, Nanos::ZERO, at(9)).map(|done| done.0), Some(Released::Within));
    assert_eq!((queues.totals().expired, queues.memory_used()), (4, 0));
}

fn seen(queues: &Queues, now: Stamp) -> krarup_record::JobSnapshot {
    queues.books.get("default").expect("it had a message").snapshot(now)
}

#[test]
fn a_service_lasts_from_the_hand_out_to_the_delete_through_every_touch() {
    let mut queues = queues(false);
    let client = queues.open();
    let id = queues.put(client, &Put { ttr: 10, ..message(b"x") }, at(1)).unwrap().0;
    assert_eq!(reserve(&mut queues, client, at(4)), Some(id));
    assert!(queues.touch(client, id, at(11)));
    assert!(queues.delete(client, id, at(18),).is_some());
    let seen = seen(&queues, at(20));
    assert_eq!(seen.waits, [3.0]);
    assert_eq!(seen.services, [EndedLease { time: Nanos::from_secs(14), done: true }]);
    assert_eq!((seen.arrived, seen.redelivered), (1, 0));
}

#[test]
fn what_is_released_buried_timed_out_or_left_was_given_up_and_waits_anew() {
    let mut queues = queues(false);
    let client = queues.open();
    let id = queues.put(client, &Put { ttr: 10, ..message(b"x") }, at(0)).unwrap().0;
    let given_up = |queues: &mut Queues, client, from: u64, end: &dyn Fn(&mut Queues)| {
        assert_eq!(reserve(queues, client, at(from)), Some(id));
        end(queues);
    };
    given_up(&mut queues, client, 1, &|queues| {
        assert!(queues.release(client, id, 0, Nanos::ZERO, at(3)).is_some());
    });
    given_up(&mut queues, client, 7, &|queues| {
        assert!(queues.bury(client, id, 0, at(10)).is_some());
    });
    assert!(queues.kick_job(id, at(12)).is_some());
    given_up(&mut queues, client, 13, &|queues| queues.tick(at(23)));
    given_up(&mut queues, client, 23, &|queues| queues.close(client, at(24)));
    let seen = seen(&queues, at(30));
    let times = [2, 3, 10, 1].map(|seconds| EndedLease { time: Nanos::from_secs(seconds), done: false });
    assert_eq!(seen.services, times);
    assert_eq!(seen.waits, [1.0, 4.0, 1.0, 0.0]);
    // Put, released, kicked, timed out, left; handed out four times.
    assert_eq!((seen.arrived, seen.redelivered), (5, 3));
}

#[test]
fn a_popped_message_was_waited_for_and_never_served_and_a_delay_is_no_waiting() {
    let mut queues = queues(false);
    let client = queues.open();
    queues.put(client, &Put { delay: 5, ..message(b"x") }, at(0)).unwrap();
    queues.tick(at(5));
    assert!(queues.pop_tube(client, "default", at(7)).is_err(), "it was never created");
    queues.create_tube("default");
    assert!(queues.pop_tube(client, "default", at(7)).is_ok());
    let seen = seen(&queues, at(9));
    assert_eq!((seen.arrived, seen.waits, seen.services), (1, vec![2.0], vec![]));
}

/// A ready message as an owner finds it.
fn stored(id: Id) -> MessageRow {
    MessageRow {
        id,
        tube: "default".into(),
        sender: None,
        receiver: None,
        priority: 1,
        delay: Nanos::from_secs(4),
        ttr: Nanos::from_secs(60),
        // The process began at 1,000 s.
        created: Nanos::from_secs(900),
        standing: StoredState::Ready,
        happened: JobCounts::default(),
        flags: 0,
        lives_until: None,
        body: Arc::from(&b"x"[..]),
    }
}

#[test]
fn what_an_owner_finds_expires_as_its_tube_says() {
    let mut queues = queues(true);
    let until = queues.wall(at(500));
    queues.load(stored(1), at(0));
    queues.load(MessageRow { standing: StoredState::Delayed(until), ..stored(2) }, at(0));
    queues.load(MessageRow { created: until, ..stored(3) }, at(0));
    queues.load_tube("default", TubeRow { expires: 60, ..TubeRow::default() });
    queues.tick(at(0));
    assert_eq!([1, 2, 3].map(|id| queues.peek(id).is_some()), [false, false, true]);
    assert_eq!(queues.view_tube("default", at(0)).unwrap().expired, Some(2));
}

#[test]
fn what_is_written_after_a_step_of_the_wall_clock_is_by_the_wall_as_it_is_then() {
    let mut queues = queues(true);
    let client = queues.open();
    let told = Put { delay: 9, lives: Some(60), ..message(b"x") };
    let early = queues.put(client, &told, at(1)).unwrap().0;
    commit(&mut queues);
    queues.set_wall(Nanos::from_secs(8_000));
    let late = queues.put(client, &Put { key: Some("a"), ..told }, at(1)).unwrap().0;
    let (number, batch) = queues.take_batch().unwrap();
    let crate::changes::MessageChange::Insert(row) = &batch.messages[&late] else { panic!("{batch:?}") };
    let wall = |seconds: u64| Nanos::from_secs(8_000 + seconds);
    assert_eq!((row.created, row.lives_until), (wall(1), Some(wall(61))));
    assert_eq!(row.standing, StoredState::Delayed(wall(10)));
    assert_eq!(batch.keys.values().map(|row| row.until).collect::<Vec<_>>(), [wall(61)]);
    assert_eq!(queues.wall_now(at(1)), wall(1));
    // The next owner finds it as it was told, with the time that is left.
    let mut next = Queues::new(QueueSettings { wall: wall(6), ..queues.settings });
    next.load((**row).clone(), at(0));
    assert_eq!((next.due(), next.view_job(late, at(4)).unwrap().state), (Some(at(4)), "delayed"));
    next.tick(at(4));
    assert_eq!((next.totals().ready, next.due()), (1, Some(at(55))));
    // Of what is in memory nothing ends sooner or later, and a refused put leaves no key.
    queues.refused(number, batch);
    assert_eq!((queues.keys.len(), queues.keys_by_age.len()), (0, 0));
    queues.tick(at(9));
    assert_eq!(queues.view_job(early, at(9)).unwrap().state, "delayed");
    queues.tick(at(10));
    assert_eq!(reserve(&mut queues, client, at(60)), Some(early));
}

#[test]
fn what_was_there_before_this_owner_is_no_arrival_and_has_waited_since_its_put() {
    let mut queues = queues(true);
    let client = queues.open();
    queues.load(stored(1), at(0));
    // When it was given back last is not known.
    let happened = JobCounts { releases: 1, ..JobCounts::default() };
    queues.load(MessageRow { happened, ..stored(2) }, at(0));
    assert_eq!(queues.view_job(1, at(6)).map(|job| job.age), Some(Nanos::from_secs(106)));
    let oldest = queues.tubes_state(at(6)).first[0].oldest;
    assert_eq!(oldest, Some(Nanos::from_secs(106)));
    assert_eq!(reserve(&mut queues, client, at(6)), Some(1));
    assert_eq!(reserve(&mut queues, client, at(6)), Some(2));
    let seen = seen(&queues, at(9));
    assert_eq!((seen.arrived, seen.waits), (0, vec![102.0]));
}

#[test]
fn a_message_that_a_client_only_looks_at_arrives_once() {
    let mut queues = queues(false);
    let [looker, other] = [(); 2].map(|()| queues.open());
    assert!(queues.reserve(looker, Reserve { how: TakeMode::Look, ..EVER }, at(0)).is_none());
    queues.pause_tube("default", Nanos::from_secs(5), at(0));
    let id = put(&mut queues, other, 1);
    queues.tick(at(5));
    assert_eq!(reserve(&mut queues, other, at(8)), Some(id));
    let seen = seen(&queues, at(9));
    assert_eq!((seen.arrived, seen.waits), (1, vec![8.0]));
}

#[test]
fn the_fullest_tubes_are_listed_one_by_one_and_the_others_as_a_sum() {
    let tubes = TubeSettings { tubes_in_metrics: 2, ..TubeSettings::default() };
    let mut queues = Queues::new(QueueSettings { tubes, ..queues(false).settings });
    let client = queues.open();
    for (tube, count) in [("a", 1), ("b", 5), ("c", 3), ("d", 2)] {
        for _ in 0..count {
            queues.put(client, &Put { tube: Some(tube), ..message(b"x") }, at(1)).unwrap();
        }
    }
    let state = queues.tubes_state(at(9));
    let listed: Vec<_> = state.first.iter().map(|tube| (tube.name.as_str(), tube.ready)).collect();
    assert_eq!(listed, [("b", Some(5)), ("c", Some(3))]);
    let others = OtherTubes {
        tubes: 3,
        ready: Some(3),
        arrivals_per_s: Some(3.0 / 8.0),
        oldest_s: Some(8.0),
        ..OtherTubes::default()
    };
    assert_eq!(state.others, others, "a, d and the default tube");
}

#[test]
fn the_oldest_is_looked_for_among_all_priorities() {
    let mut queues = queues(false);
    let client = queues.open();
    for (priority, second) in [(5, 2), (1, 4), (5, 3), (u32::MAX, 1)] {
        queues.put(client, &Put { priority, ..message(b"x") }, at(second)).unwrap();
    }
    let state = queues.tubes_state(at(9));
    assert_eq!(state.first[0].oldest, Some(Nanos::from_secs(8)));
}

const NOW: Reserve = Reserve { how: TakeMode::Lease, most: 1, timeout: Some(Nanos::ZERO) };
const EVER: Reserve = Reserve { timeout: None, ..NOW };

fn reserve(queues: &mut Queues, client: ClientId, now: Stamp) -> Option<Id> {
    match queues.reserve(client, NOW, now) {
        Some(ReserveResult::Taken(taken)) => Some(taken[0].id),
        Some(ReserveResult::TimedOut) => None,
        other => panic!("{other:?}"),
    }
}

fn answers(queues: &mut Queues) -> Vec<(ClientId, Option<Id>)> {
    let mut answers = Vec::new();
    queues.take_answers(&mut answers);
    let id = |answer| match answer {
        ReserveResult::Taken(taken) => Some(taken[0].id),
        _ => None,
    };
    answers.into_iter().map(|(client, answer)| (client, id(answer))).collect()
}

#[test]
fn the_most_urgent_is_taken_first_and_among_equals_the_oldest() {
    let mut queues = queues(false);
    let client = queues.open();
    let (late, first, urgent) =
        (put(&mut queues, client, 5), put(&mut queues, client, 5), put(&mut queues, client, 1));
    for expected in [urgent, late, first] {
        assert_eq!(reserve(&mut queues, client, at(0)), Some(expected));
    }
    assert_eq!(reserve(&mut queues, client, at(0)), None);
}

#[test]
fn a_batch_of_long_messages_ends_before_the_number_that_was_asked_for() {
    let mut queues = Queues::new(QueueSettings { memory: 8 * MEMORY, ..QueueSettings::default() });
    let client = queues.open();
    let body = vec![b'v'; 1 << 20];
    for _ in 0..6 {
        queues.put(client, &message(&body), at(0)).unwrap();
    }
    let taken = queues.reserve(client, Reserve { most: 10, ..NOW }, at(0));
    assert!(matches!(taken, Some(ReserveResult::Taken(taken)) if taken.len() == 4));
    assert_eq!(queues.totals().ready, 2);
}

#[test]
fn a_tube_that_only_its_messages_hold_can_be_deleted() {
    let mut queues = queues(false);
    let client = queues.open();
    let put = Put { tube: Some("q"), ..message(b"x") };
    queues.put(client, &put, at(0)).unwrap();
    assert!(queues.delete_tube("q").is_some());
    assert!(queues.delete_tube("q").is_none());
    assert_eq!((queues.tube_count(), queues.memory_used()), (1, 0));
}

#[test]
fn a_client_that_waits_longest_is_served_first() {
    let mut queues = queues(false);
    let [a, b, c] = [(); 3].map(|()| queues.open());
    assert_eq!(queues.reserve(a, EVER, at(0)), None);
    assert_eq!(queues.reserve(b, EVER, at(0)), None);
    let (first, second) = (put(&mut queues, c, 1), put(&mut queues, c, 1));
    assert_eq!(answers(&mut queues), [(a, Some(first)), (b, Some(second))]);
}

#[test]
fn a_lease_that_runs_out_makes_the_message_ready_once_more() {
    let mut queues = queues(false);
    let [a, b] = [(); 2].map(|()| queues.open());
    let id = queues.put(a, &Put { ttr: 3, ..message(b"x") }, at(0)).unwrap().0;
    assert_eq!(reserve(&mut queues, a, at(0)), Some(id));
    assert_eq!(queues.due(), Some(at(3)));
    queues.tick(at(2));
    assert_eq!(reserve(&mut queues, b, at(2)), None);
    queues.tick(at(3));
    assert_eq!(reserve(&mut queues, b, at(3)), Some(id));
    assert_eq!(queues.delete(a, id, at(0)), None, "it is no longer his");
    let view = queues.view_job(id, at(3)).unwrap();
    assert_eq!((view.happened.reserves, view.happened.timeouts), (2, 1));
}

#[test]
fn a_touch_makes_the_lease_whole_once_more() {
    let mut queues = queues(false);
    let client = queues.open();
    let id = queues.put(client, &Put { ttr: 3, ..message(b"x") }, at(0)).unwrap().0;
    reserve(&mut queues, client, at(0));
    assert!(queues.touch(client, id, at(2)));
    queues.tick(at(4));
    assert_eq!(queues.view_job(id, at(4)).unwrap().state, "reserved");
}

#[test]
fn a_client_that_holds_a_lease_near_its_end_gets_a_reply_instead_of_waiting() {
    let mut queues = queues(false);
    let client = queues.open();
    queues.put(client, &Put { ttr: 3, ..message(b"x") }, at(0)).unwrap();
    reserve(&mut queues, client, at(0));
    assert_eq!(queues.reserve(client, EVER, at(0)), None);
    queues.tick(at(2));
    let mut answers = Vec::new();
    queues.take_answers(&mut answers);
    assert_eq!(answers, [(client, ReserveResult::DeadlineSoon)]);
    assert_eq!(queues.reserve(client, EVER, at(2)), Some(ReserveResult::DeadlineSoon));
    // Also where all there is is paused, as by beanstalkd.
    put(&mut queues, client, 1);
    queues.pause_tube("default", Nanos::from_secs(60), at(2));
    for query in [NOW, Reserve { how: TakeMode::Look, ..NOW }] {
        assert_eq!(queues.reserve(client, query, at(2)), Some(ReserveResult::DeadlineSoon));
    }
}

#[test]
fn a_client_that_waits_with_a_limit_is_reported_when_it_is_over() {
    let mut queues = queues(false);
    let client = queues.open();
    assert_eq!(queues.reserve(client, Reserve { timeout: Some(Nanos::from_secs(2)), ..NOW }, at(0)), None);
    queues.tick(at(2));
    assert_eq!(answers(&mut queues), [(client, None)]);
    assert_eq!(queues.totals().waiting, 0);
}

#[test]
fn a_delayed_message_is_ready_when_its_time_has_come() {
    let mut queues = queues(false);
    let client = queues.open();
    let id = queues.put(client, &Put { delay: 5, ..message(b"x") }, at(0)).unwrap().0;
    assert_eq!(queues.peek_delayed(client).map(|(id, _)| id), Some(id));
    queues.tick(at(4));
    assert_eq!(reserve(&mut queues, client, at(4)), None);
    queues.tick(at(5));
    assert_eq!(reserve(&mut queues, client, at(5)), Some(id));
}

#[test]
fn a_kick_takes_those_set_aside_and_only_without_them_those_delayed() {
    let mut queues = queues(false);
    let client = queues.open();
    let delayed = queues.put(client, &Put { delay: 5, ..message(b"x") }, at(0)).unwrap().0;
    let id = put(&mut queues, client, 1);
    reserve(&mut queues, client, at(0));
    assert!(queues.bury(client, id, 7, at(0)).is_some());
    assert_eq!(queues.kick(client, 10, at(0)).0, 1);
    assert_eq!(reserve(&mut queues, client, at(0)), Some(id));
    assert_eq!(queues.kick(client, 10, at(0)).0, 1);
    assert_eq!(reserve(&mut queues, client, at(0)), Some(delayed));
}

#[test]
fn any_number_may_look() {
    let mut queues = queues(false);
    let looking: Vec<ClientId> = (0..100_000).map(|_| queues.open()).collect();
    for &client in &looking {
        let look = Reserve { how: TakeMode::Look, most: 1, timeout: None };
        assert_eq!(queues.reserve(client, look, at(0)), None);
    }
    let puts = queues.open();
    let id = put(&mut queues, puts, 7);
    let mut output = Vec::new();
    queues.take_answers(&mut output);
    assert!(output.into_iter().eq(looking.into_iter().map(|client| (client, ReserveResult::Ready(7, id)))));
}

#[test]
fn a_client_that_only_looks_gets_what_there_is_and_takes_nothing() {
    let mut queues = queues(false);
    let [looks, waits, puts] = [(); 3].map(|()| queues.open());
    let look = |timeout| Reserve { how: TakeMode::Look, most: 1, timeout };
    let now = Some(Nanos::ZERO);
    assert_eq!(queues.reserve(looks, look(now), at(0)), Some(ReserveResult::TimedOut));
    assert_eq!(queues.reserve(looks, look(None), at(0)), None);
    assert_eq!(queues.reserve(waits, EVER, at(0)), None);
    // It becomes ready, and the client that waits for it has it.
    let id = put(&mut queues, puts, 7);
    let mut output = Vec::new();
    queues.take_answers(&mut output);
    assert_eq!(output[0], (looks, ReserveResult::Ready(7, id)));
    assert!(
        matches!(&output[1], (client, ReserveResult::Taken(taken)) if *client == waits && taken[0].id == id)
    );
    let id = put(&mut queues, puts, 8);
    assert_eq!(queues.reserve(looks, look(now), at(1)), Some(ReserveResult::Ready(8, id)));
    assert_eq!(queues.view_job(id, at(1)).map(|view| view.happened.reserves), Some(0));
    // Of a paused tube it becomes ready when the pause is over, and it stays.
    queues.pause_tube("default", Nanos::from_secs(2), at(1));
    assert_eq!(queues.reserve(looks, look(None), at(1)), None);
    queues.tick(at(3));
    output.clear();
    queues.take_answers(&mut output);
    assert_eq!(output, [(looks, ReserveResult::Ready(8, id))]);
    assert_eq!(queues.totals().ready, 1);
}

#[test]
fn all_that_look_at_a_paused_tube_are_shown_its_message() {
    let mut queues = queues(false);
    let [one, other, puts] = [(); 3].map(|()| queues.open());
    queues.pause_tube("default", Nanos::from_secs(5), at(0));
    for client in [one, other] {
        assert_eq!(queues.reserve(client, Reserve { how: TakeMode::Look, ..EVER }, at(0)), None);
    }
    let id = put(&mut queues, puts, 7);
    queues.tick(at(5));
    let mut output = Vec::new();
    queues.take_answers(&mut output);
    assert_eq!(output, [one, other].map(|client| (client, ReserveResult::Ready(7, id))));
    assert_eq!(queues.totals().ready, 1);
}

#[test]
fn a_client_whose_lease_is_gone_with_its_tube_waits_for_as_long_as_it_wanted() {
    let mut queues = queues(false);
    let client = queues.open();
    let put = Put { tube: Some("one"), ttr: 3, ..message(b"x") };
    let id = queues.put(client, &put, at(0)).unwrap().0;
    assert!(queues.reserve_job(client, id, at(0)).is_some());
    let query = Reserve { timeout: Some(Nanos::from_secs(9)), ..NOW };
    assert_eq!(queues.reserve(client, query, at(0)), None);
    assert!(queues.delete_tube("one").is_some());
    queues.tick(at(2));
    assert_eq!((answers(&mut queues), queues.due()), (Vec::new(), Some(at(9))));
    queues.tick(at(9));
    assert_eq!((answers(&mut queues), queues.due()), (vec![(client, None)], None));
}

#[test]
fn an_owner_of_a_shard_gives_its_own_ids_alone() {
    let settings = queues(false).settings;
    let mut queues = Queues::new(QueueSettings { shard: Shard { number: 2, of: 4 }, ..settings });
    let client = queues.open();
    assert_eq!([1, 2, 3].map(|priority| put(&mut queues, client, priority)), [2, 6, 10]);
    queues.ids_from(15);
    assert_eq!(put(&mut queues, client, 4), 18);
}

#[test]
fn no_client_gets_a_message_of_a_paused_tube_until_the_pause_is_over() {
    let mut queues = queues(false);
    let [a, b] = [(); 2].map(|()| queues.open());
    assert!(queues.pause_tube("default", Nanos::from_secs(2), at(0)));
    assert!(!queues.pause_tube("nowhere", Nanos::from_secs(2), at(0)));
    let id = put(&mut queues, a, 1);
    assert_eq!(queues.reserve(b, EVER, at(0)), None);
    assert_eq!(answers(&mut queues), []);
    queues.tick(at(2));
    assert_eq!(answers(&mut queues), [(b, Some(id))]);
}

#[test]
fn what_a_client_had_is_ready_once_more_when_it_goes() {
    let mut queues = queues(false);
    let [a, b] = [(); 2].map(|()| queues.open());
    let id = put(&mut queues, a, 1);
    reserve(&mut queues, a, at(0));
    queues.close(a, at(0));
    assert_eq!(reserve(&mut queues, b, at(0)), Some(id));
}

#[test]
fn a_tube_that_no_client_refers_to_and_that_holds_nothing_is_no_more() {
    let mut queues = queues(false);
    let client = queues.open();
    queues.use_tube(client, "a");
    queues.watch(client, "b");
    assert_eq!(queues.tube_count(), 3);
    let id = put(&mut queues, client, 1);
    queues.use_tube(client, "default");
    assert_eq!(queues.ignore(client, "b"), Some(1));
    assert_eq!(queues.ignore(client, "default"), None);
    assert_eq!(queues.tube_count(), 2, "the message keeps its tube");
    assert!(queues.delete(client, id, at(0)).is_some());
    assert_eq!(queues.tube_count(), 1);
}

#[test]
fn a_message_to_one_is_no_other_clients_and_no_client_waits_behind_it() {
    let mut queues = queues(false);
    let [anna, other] = [(); 2].map(|()| queues.open());
    assert!(!queues.login(anna, "anna"));
    queues.register("anna");
    assert!(queues.login(anna, "anna"));
    let to_anna = queues.put(other, &Put { receiver: Some("anna"), ..message(b"1") }, at(0)).unwrap().0;
    let to_all = put(&mut queues, other, 10);
    assert_eq!(
        queues.put(other, &Put { receiver: Some("bob"), ..message(b"1") }, at(0)),
        Err(PutRefused::UnknownClient)
    );
    assert_eq!(reserve(&mut queues, other, at(0)), Some(to_all));
    assert_eq!(queues.reserve_job(other, to_anna, at(0)), None);
    assert_eq!(reserve(&mut queues, anna, at(0)), Some(to_anna));
}

#[test]
fn the_first_client_that_waits_and_may_have_it_gets_it() {
    let mut queues = queues(false);
    let [anna, other] = [(); 2].map(|()| queues.open());
    queues.register("anna");
    queues.login(anna, "anna");
    assert_eq!(queues.reserve(other, EVER, at(0)), None);
    assert_eq!(queues.reserve(anna, EVER, at(0)), None);
    let id = queues.put(other, &Put { receiver: Some("anna"), ..message(b"1") }, at(0)).unwrap().0;
    assert_eq!(answers(&mut queues), [(anna, Some(id))]);
}

#[test]
fn the_operations_of_2015_tell_no_such_queue_from_empty_and_from_no_such_client() {
    let mut queues = queues(false);
    let [anna, bob] = [(); 2].map(|()| queues.open());
    let strict = Put { tube: Some("q"), strict: true, ..message(b"hello") };
    assert_eq!(queues.put(anna, &strict, at(0)), Err(PutRefused::NotLoggedIn));
    for (client, name) in [(anna, "anna"), (bob, "bob")] {
        assert!(queues.register(name).0);
        assert!(queues.login(client, name));
    }
    assert_eq!(queues.put(anna, &strict, at(0)), Err(PutRefused::UnknownTube));
    assert_eq!(queues.peek_tube(bob, "q"), Err(Nothing::UnknownTube));
    assert!(queues.create_tube("q").0);
    assert!(!queues.create_tube("q").0);
    assert_eq!(queues.peek_tube(bob, "q"), Err(Nothing::Empty));
    assert_eq!(queues.peek_sender(bob, "nobody"), Err(Nothing::UnknownClient));
    let first = queues.put(anna, &Put { receiver: Some("anna"), ..strict }, at(0)).unwrap().0;
    let second = queues.put(anna, &strict, at(0)).unwrap().0;
    assert_eq!(queues.peek_sender(bob, "anna").unwrap().0, second, "the first is for Anna alone");
    assert_eq!(queues.tubes_for(bob).unwrap().len(), 1);
    assert_eq!(queues.pop_tube(bob, "q", at(0)).unwrap().id, second);
    assert_eq!(queues.tubes_for(bob).unwrap().len(), 0);
    assert_eq!(queues.pop_sender(anna, "anna", at(0)).unwrap().id, first);
    assert_eq!(queues.pop_tube(anna, "q", at(0)), Err(Nothing::Empty));
}

#[test]
fn a_deleted_tube_takes_its_messages_along_reserved_ones_too() {
    let mut queues = queues(false);
    let client = queues.open();
    queues.create_tube("q");
    queues.watch(client, "q");
    for _ in 0..3 {
        queues.put(client, &Put { tube: Some("q"), ..message(b"x") }, at(0)).unwrap();
    }
    let held = reserve(&mut queues, client, at(0)).unwrap();
    assert!(queues.delete_tube("q").is_some());
    assert_eq!(queues.delete(client, held, at(0)), None);
    assert_eq!(reserve(&mut queues, client, at(0)), None);
    assert_eq!(queues.memory_used(), 0);
    assert_eq!(queues.due(), None);
}

#[test]
fn a_deleted_tube_takes_along_what_stands_anywhere_in_it_and_nothing_else() {
    let mut queues = queues(false);
    let client = queues.open();
    queues.register("anna");
    queues.watch(client, "q");
    let in_q = Put { tube: Some("q"), ..message(b"x") };
    let aside = queues.put(client, &in_q, at(0)).unwrap().0;
    assert_eq!(reserve(&mut queues, client, at(0)), Some(aside));
    assert!(queues.bury(client, aside, 1, at(0)).is_some());
    let held = queues.put(client, &in_q, at(0)).unwrap().0;
    assert_eq!(reserve(&mut queues, client, at(0)), Some(held));
    for one in [in_q, Put { delay: 9, ..in_q }, Put { receiver: Some("anna"), ..in_q }] {
        queues.put(client, &one, at(0)).unwrap();
    }
    let other = put(&mut queues, client, 10);
    assert!(queues.delete_tube("q").is_some());
    let totals = queues.totals();
    assert_eq!((totals.ready, totals.reserved, totals.delayed, totals.buried), (1, 0, 0, 0));
    assert_eq!(queues.memory_used(), OVERHEAD + 1);
    assert_eq!(reserve(&mut queues, client, at(0)), Some(other));
}

#[test]
fn an_emptied_tube_does_what_it_was_told_to_do() {
    let mut queues = queues(true);
    let client = queues.open();
    queues.limit_tube("q", 1, Some("dead"));
    queues.archive_tube("q", 60);
    let in_q = Put { tube: Some("q"), ..message(b"x") };
    let id = queues.put(client, &in_q, at(0)).unwrap().0;
    commit(&mut queues);
    assert!(queues.empty_tube("q").unwrap().is_some() && queues.empty_tube("other").is_none());
    let (_, batch) = queues.take_batch().unwrap();
    assert_eq!(batch.messages[&id], crate::changes::MessageChange::Delete);
    assert!(batch.tubes.is_empty());
    let kept = &queues.tubes.get(queues.tubes.find("q").unwrap()).kept;
    assert_eq!((kept.most, kept.dead.as_deref(), kept.keeps), (1, Some("dead"), 60));
}

#[test]
fn what_dies_and_is_taken_at_once_goes_into_the_archive_from_where_it_died() {
    let mut queues = queues(true);
    let [worker, collector] = [(); 2].map(|()| queues.open());
    queues.limit_tube("default", 1, Some("dead"));
    queues.archive_tube("dead", 60);
    queues.watch(collector, "dead");
    queues.ignore(collector, "default");
    let id = put(&mut queues, worker, 1);
    commit(&mut queues);
    assert_eq!(reserve(&mut queues, worker, at(0)), Some(id));
    assert_eq!(queues.reserve(collector, Reserve { how: TakeMode::Pop, ..EVER }, at(0)), None);
    assert!(queues.release(worker, id, 1, Nanos::ZERO, at(0)).is_some());
    assert_eq!(answers(&mut queues), [(collector, Some(id))]);
    let (_, batch) = queues.take_batch().unwrap();
    assert_eq!(batch.messages[&id], crate::changes::MessageChange::Delete);
    assert_eq!(&*batch.last[&id].tube, "dead");
}

#[test]
fn what_died_in_a_refused_batch_and_was_taken_since_goes_into_the_archive_from_where_it_died() {
    let mut queues = queues(true);
    let client = queues.open();
    queues.limit_tube("default", 1, Some("dead"));
    queues.archive_tube("dead", 60);
    let id = put(&mut queues, client, 1);
    commit(&mut queues);
    assert_eq!(reserve(&mut queues, client, at(0)), Some(id));
    assert!(queues.release(client, id, 1, Nanos::ZERO, at(0)).is_some());
    let (number, batch) = queues.take_batch().unwrap();
    assert!(queues.delete(client, id, at(0)).is_some());
    queues.refused(number, batch);
    let (_, batch) = queues.take_batch().unwrap();
    assert_eq!(batch.messages[&id], crate::changes::MessageChange::Delete);
    assert_eq!(&*batch.last[&id].tube, "dead");
}

#[test]
fn a_message_reserved_too_often_goes_to_the_tube_of_the_dead_or_aside() {
    let mut queues = queues(false);
    let client = queues.open();
    queues.limit_tube("default", 2, Some("dead"));
    let id = put(&mut queues, client, 1);
    for expected in [Released::Within, Released::Reached] {
        assert_eq!(reserve(&mut queues, client, at(0)), Some(id));
        assert_eq!(queues.release(client, id, 1, Nanos::ZERO, at(0)).unwrap().0, expected);
    }
    assert_eq!(&*queues.view_job(id, at(0)).unwrap().tube, "dead");
    queues.limit_tube("default", 1, None);
    let id = queues.put(client, &Put { ttr: 1, ..message(b"x") }, at(0)).unwrap().0;
    assert_eq!(reserve(&mut queues, client, at(0)), Some(id));
    queues.tick(at(1));
    assert_eq!(queues.view_job(id, at(1)).unwrap().state, "buried");
}

#[test]
fn a_dead_message_is_buried_where_the_tube_of_the_dead_is_another_owners() {
    let shard = Shard { number: shard_of("jobs", 8), of: 8 };
    let mut queues = Queues::new(QueueSettings { shard, ..queues(true).settings });
    let other = (0..).map(|number| format!("dead{number}")).find(|tube| !shard.has(tube)).unwrap();
    queues.load_tube("jobs", TubeRow { most: 1, dead: Some(other.into()), ..TubeRow::default() });
    let client = queues.open();
    queues.watch(client, "jobs");
    let id = queues.put(client, &Put { tube: Some("jobs"), ..message(b"x") }, at(0)).unwrap().0;
    commit(&mut queues);
    assert_eq!(reserve(&mut queues, client, at(0)), Some(id));
    let released = queues.release(client, id, 1, Nanos::ZERO, at(0)).map(|done| done.0);
    assert_eq!(released, Some(Released::Reached));
    assert_eq!(queues.view_job(id, at(0)).unwrap().state, "buried");
    let (_, batch) = queues.take_batch().unwrap();
    let crate::changes::MessageChange::Update(row) = &batch.messages[&id] else { panic!("{batch:?}") };
    assert_eq!(&*row.tube, "jobs");
}

#[test]
fn a_key_makes_a_second_message_none_while_it_is_remembered() {
    let mut queues = queues(false);
    let client = queues.open();
    let keyed = Put { key: Some("order-7"), ..message(b"x") };
    let id = queues.put(client, &keyed, at(0)).unwrap().0;
    assert_eq!(queues.put(client, &keyed, at(1)), Err(PutRefused::Duplicate(id, None)));
    queues.delete(client, id, at(0));
    assert_eq!(
        queues.put(client, &keyed, at(59)),
        Err(PutRefused::Duplicate(id, None)),
        "also when it is done"
    );
    queues.tick(at(60));
    assert!(queues.put(client, &keyed, at(60)).is_ok());
}

#[test]
fn keys_take_memory_while_they_are_remembered() {
    let mut queues = queues(false);
    let client = queues.open();
    let refused = (0..10_000).find_map(|number| {
        let key = format!("order-{number}");
        let sent = queues.put(client, &Put { key: Some(&key), ..message(b"x") }, at(0));
        sent.map(|(id, _)| assert!(queues.delete(client, id, at(0)).is_some())).err()
    });
    assert_eq!(refused, Some(PutRefused::OutOfMemory));
    let keyed = |key: &'static str| Put { tube: Some("default"), key: Some(key), ..message(b"x") };
    let known = queues.put(client, &keyed("order-0"), at(59));
    assert!(matches!(known, Err(PutRefused::Duplicate(..))), "{known:?}");
    let new = Put { tube: Some("q"), ..keyed("order-new") };
    assert_eq!(queues.put(client, &new, at(59)), Err(PutRefused::OutOfMemory));
    assert_eq!(queues.tube_count(), 1);
    // Half is for messages, and no more.
    let half = vec![0; (MEMORY / 2 - OVERHEAD) as usize];
    assert!(queues.put(client, &message(&half), at(59)).is_ok());
    assert_eq!(queues.put(client, &message(b""), at(59)), Err(PutRefused::OutOfMemory));
    queues.tick(at(60));
    assert_eq!(queues.memory_used(), MEMORY / 2);
    assert!(queues.put(client, &new, at(60)).is_ok());
}

#[test]
fn a_key_is_remembered_for_its_own_time_beside_one_of_a_store_that_ends_later() {
    let mut queues = queues(false);
    let client = queues.open();
    queues.load_key("default", "a", KeyRow { id: 1, until: queues.wall(at(600)) });
    let keyed = |key: &'static str| Put { key: Some(key), ..message(b"x") };
    let id = queues.put(client, &keyed("b"), at(0)).unwrap().0;
    assert!(queues.delete(client, id, at(0)).is_some());
    queues.tick(at(61));
    assert_eq!(queues.put(client, &keyed("a"), at(61)), Err(PutRefused::Duplicate(1, None)));
    assert!(queues.put(client, &keyed("b"), at(61)).is_ok());
}

#[test]
fn keys_of_a_store_leave_half_of_the_memory_to_messages() {
    let mut queues = queues(true);
    let client = queues.open();
    let until = queues.wall(at(60));
    for id in 1..=6_000 {
        queues.load_key("default", &format!("order-{id}"), KeyRow { id, until });
    }
    assert!(queues.memory_used() > MEMORY);
    assert!(queues.put(client, &message(b"x"), at(0)).is_ok());
    let new = Put { key: Some("order-new"), ..message(b"x") };
    assert_eq!(queues.put(client, &new, at(0)), Err(PutRefused::OutOfMemory));
}

#[test]
fn a_second_message_is_answered_after_the_batch_of_the_first() {
    let mut queues = queues(true);
    let client = queues.open();
    let keyed = |key: &'static str| Put { key: Some(key), ..message(b"x") };
    let there = queues.put(client, &keyed("a"), at(0)).unwrap().0;
    commit(&mut queues);
    let [first, middle] = ["b", "c"].map(|key| queues.put(client, &keyed(key), at(0)).unwrap().0);
    assert!(queues.take_batch().is_some());
    let last = queues.put(client, &keyed("d"), at(0)).unwrap().0;
    let expected = [("a", there, None), ("b", first, Some(2)), ("c", middle, Some(2)), ("d", last, Some(3))];
    for (key, id, after) in expected {
        assert_eq!(queues.put(client, &keyed(key), at(0)), Err(PutRefused::Duplicate(id, after)));
    }
}

#[test]
fn a_second_message_makes_no_tube() {
    let mut queues = queues(false);
    let client = queues.open();
    let keyed = Put { tube: Some("q"), key: Some("order-7"), ..message(b"x") };
    let id = queues.put(client, &keyed, at(0)).unwrap().0;
    assert!(queues.delete(client, id, at(0)).is_some());
    assert_eq!(queues.put(client, &keyed, at(1)), Err(PutRefused::Duplicate(id, None)));
    assert_eq!(queues.tube_count(), 1);
}

#[test]
fn memory_is_bounded() {
    let mut queues = queues(false);
    let client = queues.open();
    let large = vec![0; (MEMORY - OVERHEAD) as usize];
    let id = queues.put(client, &message(&large), at(0)).unwrap().0;
    assert_eq!(queues.put(client, &message(b""), at(0)), Err(PutRefused::OutOfMemory));
    queues.delete(client, id, at(0));
    assert!(queues.put(client, &message(b""), at(0)).is_ok());
}

#[test]
fn no_client_sees_a_message_before_its_batch_is_committed() {
    let mut queues = queues(true);
    let client = queues.open();
    let (id, after) = queues.put(client, &message(b"x"), at(0)).unwrap();
    assert_eq!(after, Some(1));
    assert_eq!(reserve(&mut queues, client, at(0)), None);
    let (number, batch) = queues.take_batch().unwrap();
    assert_eq!((number, batch.messages.len()), (1, 1));
    assert!(queues.take_batch().is_none());
    queues.committed(number, at(0));
    assert_eq!(reserve(&mut queues, client, at(0)), Some(id));
    assert_eq!(queues.delete(client, id, at(0)), Some(Some(2)));
}

#[test]
fn a_refused_batch_takes_its_puts_along_and_leaves_the_rest_for_the_next() {
    let mut queues = queues(true);
    let client = queues.open();
    put(&mut queues, client, 1);
    let (number, _) = queues.take_batch().unwrap();
    queues.committed(number, at(0));
    let old = reserve(&mut queues, client, at(0)).unwrap();
    queues.delete(client, old, at(0));
    let new = put(&mut queues, client, 1);
    let (number, batch) = queues.take_batch().unwrap();
    queues.refused(number, batch);
    assert_eq!(queues.peek(new), None);
    assert_eq!(queues.memory_used(), 0);
    let (_, batch) = queues.take_batch().unwrap();
    assert_eq!(
        batch.messages.into_iter().collect::<Vec<_>>(),
        [(old, crate::changes::MessageChange::Delete)]
    );
}

fn commit(queues: &mut Queues) {
    let (number, _) = queues.take_batch().unwrap();
    queues.committed(number, at(0));
}

#[test]
fn keys_of_a_refused_batch_may_be_put_anew_and_others_are_remembered() {
    let mut queues = queues(true);
    let client = queues.open();
    let keyed = |key: &'static str| Put { key: Some(key), ..message(b"x") };
    let first = queues.put(client, &keyed("a"), at(0)).unwrap().0;
    commit(&mut queues);
    let used = queues.memory_used();
    queues.put(client, &keyed("b"), at(1)).unwrap();
    let (number, batch) = queues.take_batch().unwrap();
    queues.refused(number, batch);
    assert_eq!((queues.memory_used(), queues.keys_by_age.len()), (used, 1));
    assert_eq!(queues.put(client, &keyed("a"), at(2)), Err(PutRefused::Duplicate(first, None)));
    let again = queues.put(client, &keyed("b"), at(2)).unwrap().0;
    commit(&mut queues);
    // When the time of the first is over, that of the second is not.
    queues.tick(at(61));
    assert_eq!(queues.put(client, &keyed("b"), at(61)), Err(PutRefused::Duplicate(again, None)));
    assert!(queues.put(client, &keyed("a"), at(61)).is_ok());
}

#[test]
fn what_stood_aside_and_is_reserved_is_written_as_ready() {
    let mut queues = queues(true);
    let client = queues.open();
    let buried = put(&mut queues, client, 1);
    commit(&mut queues);
    assert_eq!(reserve(&mut queues, client, at(0)), Some(buried));
    assert!(queues.bury(client, buried, 1, at(0)).is_some());
    let delayed = queues.put(client, &Put { delay: 9, ..message(b"x") }, at(0)).unwrap().0;
    commit(&mut queues);
    for id in [buried, delayed] {
        assert!(queues.reserve_job(client, id, at(1)).is_some());
    }
    let (_, batch) = queues.take_batch().unwrap();
    let standing = |id: Id| match &batch.messages[&id] {
        crate::changes::MessageChange::Update(row) => row.standing,
        other => panic!("{other:?}"),
    };
    assert_eq!([buried, delayed].map(standing), [StoredState::Ready; 2]);
}

#[test]
fn what_has_waited_too_long_is_gone_unless_a_client_has_it() {
    let mut queues = queues(false);
    let [a, b] = [(); 2].map(|()| queues.open());
    let (held, aside) = (put(&mut queues, a, 1), put(&mut queues, a, 2));
    for id in [held, aside] {
        assert_eq!(reserve(&mut queues, a, at(0)), Some(id));
    }
    queues.bury(a, aside, 2, at(0));
    let late = queues.put(b, &Put { delay: 9, ..message(b"x") }, at(0)).unwrap().0;
    put(&mut queues, b, 3);
    queues.expire_tube("default", 5, at(4));
    assert_eq!((queues.totals().ready, queues.due()), (1, Some(at(5))));
    queues.tick(at(5));
    assert_eq!((queues.totals().ready, queues.totals().delayed, queues.totals().expired), (0, 0, 2));
    assert!(queues.peek(late).is_none() && queues.peek(held).is_some() && queues.peek(aside).is_some());
    // What comes back too late is gone at once; no client that waits is given it.
    assert_eq!(queues.reserve(b, EVER, at(6)), None);
    queues.release(a, held, 1, Nanos::ZERO, at(6)).unwrap();
    queues.kick(a, 1, at(6));
    assert_eq!((answers(&mut queues).len(), queues.totals().expired, queues.memory_used()), (0, 4, 0));
    let (id, _) = queues.put(a, &message(b"x"), at(6)).unwrap();
    assert_eq!(answers(&mut queues), [(b, Some(id))]);
    let view = queues.view_tube("default", at(6)).unwrap();
    assert_eq!((view.expired, view.expires), (Some(4), Nanos::from_secs(5)));
}

#[test]
fn clients_that_leave_their_lines_leave_the_others_in_order() {
    let mut queues = queues(false);
    let clients = [(); 5].map(|()| queues.open());
    for client in clients {
        queues.watch(client, "other");
        assert_eq!(queues.reserve(client, EVER, at(0)), None);
    }
    let [producer, at_other] = [(); 2].map(|()| queues.open());
    queues.use_tube(at_other, "other");
    let [a, b, c, d, e] = clients;
    let id = put(&mut queues, at_other, 1);
    assert_eq!(answers(&mut queues), [(a, Some(id))]);
    assert_eq!(queues.reserve(a, EVER, at(1)), None);
    queues.give_up_waiting(c);
    assert_eq!(answers(&mut queues), [(c, None)]);
    queues.close(d, at(1));
    for client in [b, e, a] {
        let id = put(&mut queues, producer, 1);
        assert_eq!(answers(&mut queues), [(client, Some(id))]);
    }
    assert_eq!(queues.totals().waiting, 0);
}

/// What a random client does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    Put { priority: u32, delay: u32, ttr: u32 },
    Reserve { how: TakeMode, wait: bool },
    Delete(u8),
    Release(u8, u32),
    Bury(u8),
    Touch(u8),
    Kick(u32),
    Pause,
    Leave,
    Pass(u64),
    Commit,
}

fn step() -> impl Strategy<Value = Step> {
    let id = 1..20_u8;
    prop_oneof![
        4 => (0..3_u32, 0..3_u32, 1..4_u32).prop_map(|(priority, delay, ttr)| Step::Put { priority, delay, ttr }),
        4 => (any::<bool>(), any::<bool>()).prop_map(|(pop, wait)| Step::Reserve { how: if pop { TakeMode::Pop } else { TakeMode::Lease }, wait }),
        2 => id.clone().prop_map(Step::Delete),
        2 => (id.clone(), 0..3_u32).prop_map(|(id, delay)| Step::Release(id, delay)),
        1 => id.clone().prop_map(Step::Bury),
        1 => id.prop_map(Step::Touch),
        1 => (1..4_u32).prop_map(Step::Kick),
        1 => Just(Step::Pause),
        1 => Just(Step::Leave),
        2 => (1..3_u64).prop_map(Step::Pass),
        3 => Just(Step::Commit),
    ]
}

proptest! {
    /// Whatever comes in whatever order: each message is in exactly one place, the counts are those
    /// of the places, no client waits for a message that is there, and what the store has been sent
    /// is what is there.
    #[test]
    fn messages_are_neither_lost_nor_made(
        durable in any::<bool>(),
        steps in proptest::collection::vec((0..3_usize, step()), 1..80),
    ) {
        let mut queues = queues(durable);
        let mut clients = [(); 3].map(|()| queues.open());
        let mut now = at(0);
        let mut store: std::collections::BTreeMap<Id, StoredState> = std::collections::BTreeMap::new();
        let mut answers = Vec::new();
        let (mut leases, mut never_taken) = (0, 0);
        for (who, what) in steps {
            let client = clients[who];
            let free = !queues.is_waiting(client);
            match what {
                Step::Pass(seconds) => now = now + Nanos::from_secs(seconds),
                Step::Leave => {
                    queues.close(client, now);
                    clients[who] = queues.open();
                }
                Step::Commit => {
                    if let Some((number, batch)) = queues.take_batch() {
                        for (id, change) in batch.messages {
                            match change {
                                crate::changes::MessageChange::Insert(row) => prop_assert!(store.insert(id, row.standing).is_none()),
                                crate::changes::MessageChange::Update(row) => prop_assert!(store.insert(id, row.standing).is_some()),
                                crate::changes::MessageChange::Delete => prop_assert!(store.remove(&id).is_some()),
                            }
                        }
                        queues.committed(number, now);
                    }
                }
                _ if !free => {}
                Step::Put { priority, delay, ttr } => {
                    queues.put(client, &Put { priority, delay, ttr, ..message(b"x") }, now).unwrap();
                }
                Step::Reserve { how, wait } => {
                    let timeout = if wait { None } else { Some(Nanos::ZERO) };
                    let taken = queues.reserve(client, Reserve { how, most: 1, timeout }, now);
                    leases += u64::from(matches!(taken, Some(ReserveResult::Taken(_))) && how == TakeMode::Lease);
                }
                Step::Delete(id) => {
                    let ready = queues.jobs.get(&id.into()).is_some_and(|job| job.state == JobState::Ready);
                    never_taken += u64::from(queues.delete(client, id.into(), now).is_some() && ready);
                }
                Step::Release(id, delay) => _ = queues.release(client, id.into(), 1, Nanos::from_secs(delay.into()), now),
                Step::Bury(id) => _ = queues.bury(client, id.into(), 1, now),
                Step::Touch(id) => _ = queues.touch(client, id.into(), now),
                Step::Kick(bound) => _ = queues.kick(client, bound, now),
                Step::Pause => _ = queues.pause_tube("default", Nanos::from_secs(1), now),
            }
            queues.tick(now);
            answers.clear();
            queues.take_answers(&mut answers);
            let totals = queues.totals();
            let pending = queues.pending.len() as u64;
            prop_assert_eq!(totals.ready + totals.reserved + totals.delayed + totals.buried + pending, queues.jobs.len() as u64);
            prop_assert_eq!(queues.memory_used(), queues.jobs.len() as u64 * (OVERHEAD + 1));
            let tube = queues.view_tube("default", now).unwrap();
            prop_assert_eq!((tube.ready, tube.reserved, tube.delayed, tube.buried), (totals.ready, totals.reserved, totals.delayed, totals.buried));
            prop_assert!(totals.ready == 0 || totals.waiting == 0 || tube.pause > Nanos::ZERO);
            prop_assert!(queues.due().is_none_or(|due| due > now));
            // What was ready was taken, was deleted, or is ready; what was leased has ended, or is
            // held.
            let leased = |(_, answer): &(ClientId, ReserveResult)| match answer {
                ReserveResult::Taken(taken) => queues.jobs.contains_key(&taken[0].id),
                _ => false,
            };
            leases += answers.iter().filter(|one| leased(one)).count() as u64;
            let seen = queues.books.get("default").map(|books| books.snapshot(now)).unwrap_or_default();
            prop_assert_eq!(seen.arrived, seen.waiting.count + never_taken + totals.ready);
            prop_assert_eq!(leases, seen.done + seen.given_up + totals.reserved);
        }
        if durable {
            while let Some((number, batch)) = queues.take_batch() {
                for (id, change) in batch.messages {
                    match change {
                        crate::changes::MessageChange::Insert(row) | crate::changes::MessageChange::Update(row) => _ = store.insert(id, row.standing),
                        crate::changes::MessageChange::Delete => _ = store.remove(&id),
                    }
                }
                queues.committed(number, now);
            }
            let mut there: Vec<Id> = queues.jobs.keys().copied().collect();
            there.sort_unstable();
            prop_assert_eq!(store.keys().copied().collect::<Vec<_>>(), there);
        }
    }
}
