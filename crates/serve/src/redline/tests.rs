//! What is refused because of the traffic: two servers with all keys, of which the first answers a
//! thousand requests a second.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;

use krarup_model::headroom::LiveSystem;
use krarup_net::snapshots::SnapshotSlot;
use krarup_record::{LiveBooks, LiveSnapshot, LoopUse, Operation, ServerVisit, Visit};

use super::*;

/// A minute of reads, `rate` a second, at random moments and of random lengths.
fn minute(rate: f64) -> LiveSnapshot {
    let moment = |seconds: f64| Stamp((seconds * 1e9) as u64);
    let mut seed = 7_u64;
    let mut exponential = move || {
        // Marsaglia's xorshift.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        -((seed >> 11) as f64 / (1_u64 << 53) as f64).max(1e-12).ln()
    };
    let mut books = LiveBooks::default();
    let (mut now, mut free, mut second) = (1.0_f64, 0.0_f64, 1.0_f64);
    while now < 61.0 {
        now += exponential() / (rate * (1.0 + 0.1 * now.sin()));
        while second < now {
            books.loop_use(moment(second), LoopUse::default());
            second += 1.0;
        }
        free = free.max(now + 5e-4) + 1e-3 * exponential();
        let mut visit = Visit::at(moment(now), Operation::Get);
        visit.replied = moment(free + 5e-4);
        books.finish(&visit, &[ServerVisit::ok(0, visit.received, visit.replied)]);
    }
    books.snapshot(moment(61.0))
}

/// Of a loop that always answers that it has kept this.
fn redline(kept: LiveSnapshot) -> Arc<LiveRedline> {
    redline_with(kept, None)
}

/// The same with a file that proxies before the same servers lock.
fn redline_with(kept: LiveSnapshot, redline_lock: Option<PathBuf>) -> Arc<LiveRedline> {
    let pool = ReplicatedPool { name: "main".to_owned(), servers: vec![0, 1], left_out: Vec::new() };
    redline_of(LiveState {
        kept,
        system: LiveSystem::of(["a:1".to_owned(), "b:1".to_owned()]),
        target: None,
        pools: vec![pool],
        redline_lock,
        config: None,
        keys: Vec::new(),
    })
}

/// Of a loop that always answers this.
fn redline_of(state: LiveState) -> Arc<LiveRedline> {
    let own = Arc::new(OnceLock::<Arc<SnapshotSlot<LiveState>>>::new());
    let wakes = Arc::clone(&own);
    let slot = SnapshotSlot::waking(Duration::ZERO, move || {
        wakes.get().into_iter().for_each(|slot| slot.publish(|| state.clone()));
    });
    own.get_or_init(|| Arc::clone(&slot));
    let live = LiveQuestion::new(vec![slot]);
    let headroom = Arc::new(LiveHeadroom::new(live.clone(), |_| String::new()));
    Arc::new(LiveRedline::new(live, Arc::default(), headroom))
}

fn post(redline: &Arc<LiveRedline>, text: &str) -> (u16, String) {
    let answer = redline.respond(HttpMethod::Post, HttpQuery { text, page: false });
    (answer.status, answer.body)
}

#[test]
fn little_headroom_is_refused_unless_it_is_forced() {
    let full = redline(minute(800.0));
    let (status, why) = post(&full, "target=p99%3C80ms");
    assert!(status == 409 && why.contains("and must be 1.5"), "{why}");
    let (status, begun) = post(&full, "target=p99%3C80ms&force=1");
    assert_eq!(status, 200, "{begun}");
    assert_eq!(full.end().status, 200);
    // With room it needs no force.
    let idle = redline(minute(350.0));
    let (status, begun) = post(&idle, "target=p99%3C80ms");
    assert_eq!(status, 200, "{begun}");
    assert_eq!(idle.end().status, 200);
    let (status, why) = post(&idle, "target=p99%3C80ms");
    assert!(status == 409 && why.contains("a:1 was pushed 0 hours ago: once a day"), "{why}");
}

#[test]
fn none_begins_while_a_server_of_the_pool_is_down() {
    let mut state = LiveState::clone(&redline(minute(350.0)).live.ask().unwrap());
    state.system.servers[1].away = true;
    let redline = redline_of(state);
    for text in ["target=p99%3C80ms", "target=p99%3C80ms&force=1"] {
        let (status, why) = post(&redline, text);
        assert!(status == 409 && why.contains("server b:1 is down"), "{text}: {why}");
    }
    let (status, plan) = post(&redline, "target=p99%3C80ms&dry-run=1");
    assert_eq!(status, 200, "{plan}");
}

/// What is read of it then says nothing: there are too few reads because the proxy sends none.
#[test]
fn a_server_that_is_left_out_is_not_pushed_and_ends_a_push_at_once() {
    let mut state = LiveState::clone(&redline(minute(350.0)).live.ask().unwrap());
    let target = "p99 < 80ms".parse().unwrap();
    let settings = RedlineSettings { target, most_weight: 4.0, most_seconds: 60.0 };
    let mut pushed = PreparedRedline {
        proxy: None,
        pool: "main".to_owned(),
        server: "a:1".to_owned(),
        shares: None,
        redline: Redline::new(settings, 0, vec![0, 1], Stamp::default(), state.kept.at),
        shared: None,
    };
    // Of the other one reads go on.
    state.pools[0].left_out = vec![1];
    assert_eq!(pushed.look(&state), RedlineOrder::Hold);
    state.pools[0].left_out = vec![0];
    assert_eq!(pushed.look(&state), RedlineOrder::End(RedlineEnd::LeftOut));
    let redline = redline_of(state);
    let (status, why) = post(&redline, "target=p99%3C80ms&server=a:1&force=1");
    assert!(status == 409 && why.contains("server a:1 is left out"), "{why}");
    let (status, plan) = post(&redline, "target=p99%3C80ms&server=a:1&dry-run=1");
    assert_eq!(status, 200, "{plan}");
}

#[test]
fn one_for_which_no_thread_can_be_had_leaves_nothing_behind() {
    let path = std::env::temp_dir().join(format!("krarup-redline-thread-{}", std::process::id()));
    let redline = redline_with(minute(350.0), Some(path.clone()));
    let text = "target=p99%3C80ms";
    let asked = AskedRedline::of(HttpQuery { text, page: false }).unwrap();
    let refuse: Spawn = |_, _| Err(std::io::ErrorKind::WouldBlock.into());
    let begun = redline.begin(&asked, Instant::now(), refuse);
    assert!(begun.is_err_and(|(status, why)| status == 503 && why.what.contains("no thread")));
    let query = HttpQuery { text: "", page: false };
    assert_eq!(redline.respond(HttpMethod::Get, query).status, 404);
    // The server was not pushed.
    let (status, begun) = post(&redline, text);
    assert_eq!(status, 200, "{begun}");
    assert_eq!(redline.end().status, 200);
    std::fs::remove_file(&path).unwrap();
}

/// Telling the headroom may take long, and whatever asked may have gone meanwhile.
#[test]
fn one_that_was_ended_before_it_began_or_comes_too_late_does_not_begin() {
    let redline = redline(minute(350.0));
    let asked = AskedRedline::of(HttpQuery { text: "target=p99%3C80ms", page: false }).unwrap();
    let long_ago = Instant::now().checked_sub(BEGINS_WITHIN + LOOK).unwrap();
    let (status, why) = redline.begin(&asked, long_ago, spawn).unwrap_err();
    assert!(status == 503 && why.to_string().contains("nothing was begun; ask again"), "{why}");
    let asked_at = Instant::now();
    assert_eq!(redline.end().status, 404);
    let (status, why) = redline.begin(&asked, asked_at, spawn).unwrap_err();
    assert!(status == 409 && why.what.contains("ended before it had begun"), "{why}");
    assert!(lock(&redline.state).report.is_none());
    // What is asked for from then on begins.
    let (status, begun) = post(&redline, "target=p99%3C80ms");
    assert_eq!(status, 200, "{begun}");
    assert_eq!(redline.end().status, 200);
}

#[test]
fn the_end_of_one_does_not_wait_for_the_next() {
    fn begin_next(state: &mut RedlineState) {
        (state.running, state.stop) = (true, false);
        state.number += 1;
    }
    let redline = redline(minute(350.0));
    begin_next(&mut lock(&redline.state));
    let (ended, is_over) = mpsc::channel();
    let ends = Arc::clone(&redline);
    let thread = thread::spawn(move || ended.send(ends.end().status).unwrap());
    // Once the state that says so can be locked, that thread waits.
    let state = redline.changed.wait_while(lock(&redline.state), |state| !state.stop);
    // One has ended and the next has begun before it wakes.
    begin_next(&mut state.unwrap());
    redline.changed.notify_all();
    assert_eq!(is_over.recv_timeout(Duration::from_secs(60)), Ok(200));
    thread.join().unwrap();
    assert!(!lock(&redline.state).stop);
}

#[test]
fn what_is_switched_off_in_the_query_is_off() {
    let on = |text: &str| {
        let asked = AskedRedline::of(HttpQuery { text, page: false }).unwrap();
        (asked.dry_run, asked.force)
    };
    assert_eq!(on("dry-run&force=1"), (true, true));
    assert_eq!(on("dry-run=true&force=0"), (true, false));
    assert_eq!(on("dry-run=false"), (false, false));
    let (status, why) = post(&redline(minute(350.0)), "force=perhaps");
    assert!(status == 400 && why.contains("`force` is `perhaps`"), "{why}");
}

#[test]
fn a_target_that_is_broken_now_is_refused_and_force_does_not_help() {
    let redline = redline(minute(450.0));
    for text in ["target=p99%3C2ms", "target=p99%3C2ms&force=1", "target=p99%3C2ms&dry-run=1"] {
        let (status, why) = post(&redline, text);
        assert!(status == 409 && why.contains("is broken by the traffic of now"), "{text}: {why}");
        assert!(!why.contains("force"), "{why}");
    }
}
