//! `krarup proxy` before real memcacheds against one alone: a client need not know that it is
//! there.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::thread;

use crate::support::conversation::{
    answers, cases, converse, is_the_promised_version, memcached, meta_requests, requests, runner,
};
use crate::support::malformed::malformed;
use crate::support::peer::Peer;
use crate::support::process::Program;
use crate::support::{shown, until};
use proptest::prelude::*;

/// A proxy, and the servers behind it.
struct Proxied {
    proxy: Program,
    servers: Vec<Program>,
}

fn proxied(servers: usize, flags: &[&str]) -> Proxied {
    let servers: Vec<Program> = (0..servers).map(|_| memcached()).collect();
    let addresses: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let addresses = addresses.join(",");
    let begin =
        ["proxy", "--listen", "127.0.0.1:0", "--servers", &addresses, "--allow", "flush_all,verbosity"];
    let arguments = [&begin, flags].concat();
    Proxied { proxy: Program::krarup(&arguments), servers }
}

/// Before each case, on a connection of its own: nothing is stored but `k`.
const BEFORE: &[u8] = b"flush_all\r\nset k 5 0 2\r\n10\r\n";
/// After each case: whether the connection still listens, and what became of `k`, with its cas
/// unique.
const AFTER: &[u8] = b"gets k\r\n";

#[test]
fn every_case_is_answered_as_memcached_alone_answers_it() {
    answers_as_memcached(&[]);
}

#[test]
fn threads_answer_every_case_as_memcached_alone_answers_it() {
    answers_as_memcached(&["--engine", "threads", "-t", "3"]);
}

fn answers_as_memcached(flags: &[&str]) {
    if !is_the_promised_version() {
        return;
    }
    let alone = memcached();
    let Proxied { proxy, servers } = proxied(1, flags);
    let mut differences = Vec::new();
    // Statistics are the proxy's own.
    for case in cases().iter().filter(|case| !case.starts_with(b"stats")) {
        let ask = |program| {
            assert_eq!(answers(program, BEFORE), b"OK\r\nSTORED\r\n");
            answers(program, &[case, AFTER].concat())
        };
        let (theirs, ours) = (ask(&alone), ask(&proxy));
        if theirs != ours {
            differences.push(format!(
                "  {}\n    memcached: {}\n        proxy: {}",
                shown(case),
                shown(&theirs),
                shown(&ours)
            ));
        }
    }
    assert!(differences.is_empty(), "{} answers differ:\n{}", differences.len(), differences.join("\n"));
    drop(servers);
}

/// Before each malformed form: nothing is stored but `k`, which can be counted, and what tells
/// whose answer is whose.
const FRESH: (&[u8], &[u8]) =
    (b"flush_all\r\nset k 5 0 2\r\n10\r\nset sentinel 0 0 9\r\nunchanged\r\n", b"OK\r\nSTORED\r\nSTORED\r\n");
/// After each: a line end, in case it has none; whether the connection still listens; what is
/// stored now.
const LEFT: &[u8] = b"\r\nmn\r\ngets k a nothing\r\nget sentinel\r\nmg the-end k\r\n";
/// How the answers end where the malformed form has neither closed the connection nor taken for a
/// value what came behind.
const END: &[u8] = b"END\r\nEN kthe-end\r\n";

/// One server, alone or behind the proxy, with a connection that stays.
struct Asked {
    program: Program,
    used: Peer,
}

impl Asked {
    fn new(program: Program) -> Self {
        Self { used: program.connect(), program }
    }

    /// All that comes back on a new connection for a case and for what is behind it.
    fn on_a_fresh_connection(&self, case: &[u8]) -> Vec<u8> {
        let mut peer = self.program.connect();
        peer.send(FRESH.0).unwrap();
        peer.expect(FRESH.1).unwrap();
        let _ = peer.send(&[case, LEFT].concat());
        peer.finish();
        let mut answer = peer.rest();
        if !answer.ends_with(END) {
            answer.extend_from_slice(b" -- then the end, and on another connection ");
            answer.extend_from_slice(&answers(&self.program, LEFT));
            answer.extend_from_slice(b".");
        }
        answer
    }

    /// The same on the connection that stays, for a case whose answer is known to end as it should.
    fn on_the_used_connection(&mut self, case: &[u8]) -> Vec<u8> {
        self.used.send(FRESH.0).unwrap();
        self.used.expect(FRESH.1).unwrap();
        self.used.send(&[case, LEFT].concat()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(END) {
            answer.extend_from_slice(&self.used.line().unwrap());
        }
        answer
    }

    /// Whether a case leaves the connection in use, after which, or on another, everything is
    /// answered as it should be.
    fn stays_in_step(&self, case: &[u8]) -> bool {
        let answer = self.on_a_fresh_connection(case);
        let kept = answer.ends_with(END);
        assert!(kept || answer.ends_with(b"END\r\nEN kthe-end\r\n."), "{}: {}", shown(case), shown(&answer));
        kept
    }

    /// The cas unique that was given out last.
    fn unique(&mut self) -> u64 {
        self.used.send(b"set k 5 0 2\r\n10\r\ngets k\r\n").unwrap();
        self.used.expect(b"STORED\r\n").unwrap();
        let line = String::from_utf8(self.used.line().unwrap()).unwrap();
        self.used.expect(b"10\r\nEND\r\n").unwrap();
        line.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
    }
}

/// After an answer that differs the two have given out different numbers of cas uniques: the same
/// again from here on.
fn level(alone: &mut Asked, proxied: &mut Asked) {
    loop {
        match alone.unique().cmp(&proxied.unique()) {
            Ordering::Less => drop(alone.unique()),
            Ordering::Equal => return,
            Ordering::Greater => drop(proxied.unique()),
        }
    }
}

/// How many pairs of memcached and proxy share the malformed forms.
const PARTS: usize = 6;

/// What came of some cases.
#[derive(Default)]
struct Compared {
    differences: Vec<String>,
    /// Cases that keep the connection.
    kept: usize,
    /// Cases that are left out because we answer them otherwise on purpose.
    otherwise: usize,
}

/// Each case to a memcached alone and through a proxy before another.
fn compare(cases: &[Vec<u8>]) -> Compared {
    let Proxied { proxy, servers: _servers } = proxied(1, &[]);
    let (mut alone, mut proxied) = (Asked::new(memcached()), Asked::new(proxy));
    let Compared { mut differences, mut kept, mut otherwise } = Compared::default();
    for case in cases {
        let (mut tries, most) = (0, if answered_otherwise(case) { 2 } else { 10 });
        let different = loop {
            let (theirs, ours) = (alone.on_a_fresh_connection(case), proxied.on_a_fresh_connection(case));
            let mut different = (theirs != ours).then(|| (theirs.clone(), ours));
            if different.is_none() && theirs.ends_with(END) {
                let (theirs, ours) =
                    (alone.on_the_used_connection(case), proxied.on_the_used_connection(case));
                different = (theirs != ours).then_some((theirs, ours));
                kept += 1;
            }
            // A second may have passed between the two: a time to live is then not the same.
            tries += 1;
            if different.is_none() || tries == most {
                break different;
            }
            level(&mut alone, &mut proxied);
        };
        if different.is_some() && answered_otherwise(case) {
            // Answered all the same, and no other is.
            otherwise += 1;
            proxied.stays_in_step(case);
            assert!(proxied.on_the_used_connection(b"").starts_with(b"ERROR\r\nMN\r\nVALUE k 5 2 "));
            level(&mut alone, &mut proxied);
        } else if let Some((theirs, ours)) = different {
            let (case, theirs, ours) = (shown(case), shown(&theirs), shown(&ours));
            differences.push(format!("  {case}\n    memcached: {theirs}\n        proxy: {ours}"));
        }
    }
    let ended = proxied.program.stop();
    assert!(ended.output.contains(" 0 server connections lost"), "{ended:?}");
    Compared { differences, kept, otherwise }
}

/// Each case through a proxy before a memcached of another version: its words are not ours, but
/// nothing is out of step.
fn keep_in_step(cases: &[Vec<u8>]) -> Compared {
    let Proxied { proxy, servers: _servers } = proxied(1, &[]);
    let mut proxied = Asked::new(proxy);
    let mut compared = Compared::default();
    for case in cases {
        if proxied.stays_in_step(case) {
            proxied.on_the_used_connection(case);
            compared.kept += 1;
        }
    }
    let ended = proxied.program.stop();
    assert!(ended.output.contains(" 0 server connections lost"), "{ended:?}");
    compared
}

/// Every command in every malformed form, on fresh and on used connections: the same answers, the
/// same left behind, and neither on the same connection nor on another an answer that belongs to
/// another client.
#[test]
fn every_malformed_form_is_answered_as_memcached_alone_answers_it() {
    let cases = malformed();
    let mut all = Compared::default();
    let look = if is_the_promised_version() { compare } else { keep_in_step };
    // Most of the time all of them wait for the network.
    thread::scope(|scope| {
        let parts: Vec<_> =
            cases.chunks(cases.len().div_ceil(PARTS)).map(|part| scope.spawn(|| look(part))).collect();
        for part in parts {
            let Compared { differences, kept, otherwise } = part.join().unwrap();
            all.differences.extend(differences);
            all.kept += kept;
            all.otherwise += otherwise;
        }
    });
    let Compared { differences, kept, otherwise } = all;
    let (count, all) = (differences.len(), cases.len());
    assert!(differences.is_empty(), "{count} of {all} answers differ:\n{}", differences.join("\n"));
    assert!(
        kept > 15_000 && otherwise < 700,
        "{all} cases, {kept} keep the connection, {otherwise} are left out"
    );
}

/// What the first of three servers refuses, the others have not done either.
#[test]
fn every_malformed_read_that_changes_something_leaves_three_servers_alike() {
    let Proxied { proxy, servers } = proxied(3, &[]);
    let changing = |case: &[u8]| {
        case.split(|&byte| byte == b' ')
            .skip(2)
            .any(|word| b"NRTE".iter().any(|letter| word.starts_with(&[*letter])))
    };
    let cases = malformed().into_iter().filter(|case| case.starts_with(b"mg ") && changing(case));
    let own = [
        &b"mg a z N10 c\r\n"[..],
        b"mg k T-1 z\r\n",
        b"mg k v T-1 v\r\n",
        b"mg a N30 O12345678901234567890123456789012\r\n",
    ];
    let mut tried = 0;
    for case in cases.chain(own.into_iter().map(<[u8]>::to_vec)) {
        let answer = answers(&proxy, &[FRESH.0, &case, LEFT].concat());
        let held = |server| answers(server, b"get k a nothing\r\nget sentinel\r\n");
        let [first, others @ ..] = &servers[..] else { panic!("three servers") };
        for other in others {
            // A short life does not end everywhere at once: each server counts seconds by a clock
            // of its own.
            let what = format!("{} leaves them alike, answered {}", shown(&case), shown(&answer));
            until(&what, || held(other) == held(first));
        }
        tried += 1;
    }
    assert!(tried > 500, "{tried} cases");
}

/// What is answered otherwise on purpose:
///
/// - `version` names the proxy as well.
/// - Numbers that later memcacheds refuse as we do, and 1.6.18 reads in its own way: those beyond
///   32 bits, of which it keeps the lower 32; a minus sign before a number that cannot be negative;
///   blanks other than the space around the digits; in the flags of a meta set, whose value would
///   be left standing by a server that refused it, also a plus sign.
/// - The value over the limit of an `ms`: memcached removes the old one at once, we when it has
///   gone by.
/// - A quiet `ma` that creates its number: 1.6.18 tells of it, later ones do not.
fn answered_otherwise(case: &[u8]) -> bool {
    let text = String::from_utf8_lossy(case);
    let line = text.split("\r\n").next().unwrap_or_default().split('\n').next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let Some(&command) = words.first() else { return false };
    let strange = |number: &str| {
        let trimmed = number.trim_matches(['\t', '\r', '\u{b}']);
        let digits = trimmed.trim_start_matches(['-', '+']);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let value = digits.parse::<u128>().unwrap_or(u128::MAX);
        is_number && (trimmed != number || value > 0x7fff_ffff || trimmed.starts_with('-'))
    };
    match command {
        "version" => true,
        "ms" if words.get(2) == Some(&"2147483645") => true,
        "ma" => words.contains(&"q") && words.iter().any(|word| word.starts_with('N')),
        "ms" => words.iter().skip(2).any(|word| {
            strange(word) || word.get(1..).is_some_and(|number| strange(number) || number.starts_with('+'))
        }),
        "mg" | "md" | "me" => false,
        _ => words.iter().skip(1).any(|word| strange(word)),
    }
}

/// Three servers that hold the same, however their work is shared, are to a client as one; and they
/// do hold the same.
#[test]
fn any_conversation_with_three_servers_is_that_with_one() {
    let threads = ["-s", "true", "-t", "2", "--engine", "threads"];
    for flags in [&["-s", "false"][..], &["-s", "true"], &["-s", "true", "-t", "1"], &threads] {
        with_three_as_with_one(6, &requests(), flags);
    }
}

#[test]
fn any_conversation_in_meta_commands_with_three_servers_is_that_with_one() {
    for flags in [&[][..], &["-t", "1"]] {
        with_three_as_with_one(12, &meta_requests(), flags);
    }
}

/// memcached closes the connection on a longer line than it reads at once that is no `get`, and
/// other clients' requests are on the same.
#[test]
fn a_gat_of_many_keys_costs_no_client_its_server() {
    let Proxied { proxy, servers: _servers } = proxied(1, &[]);
    let mut client = proxy.connect();
    let keys: Vec<String> = (0..500).map(|number| format!("{number:030}")).collect();
    let sets: String = keys.iter().map(|key| format!("set {key} 0 0 1\r\nx\r\n")).collect();
    client.send(sets.as_bytes()).unwrap();
    client.expect("STORED\r\n".repeat(keys.len()).as_bytes()).unwrap();
    client.send(format!("gat 0 {}\r\n", keys.join(" ")).as_bytes()).unwrap();
    let values: String = keys.iter().map(|key| format!("VALUE {key} 0 1\r\nx\r\n")).collect();
    client.expect(format!("{values}END\r\n").as_bytes()).unwrap();
    let ended = proxy.stop();
    assert!(ended.output.contains(" 0 server connections lost"), "{ended:?}");
}

/// memcached shows the key of what `mg` itself has stored by its bytes.
#[test]
fn a_key_in_base64_keeps_the_server_in_step_whatever_its_bytes() {
    let Proxied { proxy, servers: _servers } = proxied(1, &[]);
    let mut client = proxy.connect();
    // A blank; a line feed; a key that ends as if another answer came behind it.
    for key in ["YSBj", "YQpj", "eCBiDQpFTg0K"] {
        let asked =
            format!("mg {key} b N1000 v k\r\nmg {key} b v k q\r\nmd {key} b k\r\nmg {key} b k\r\nmn\r\n");
        client.send(asked.as_bytes()).unwrap();
        for _ in 0..2 {
            let line = client.line().unwrap();
            assert!(line.starts_with(format!("VA 0 k{key} b").as_bytes()), "{}", shown(&line));
            client.expect(b"\r\n").unwrap();
        }
        client.expect(format!("HD k{key} b\r\nEN k{key} b\r\nMN\r\n").as_bytes()).unwrap();
    }
    let ended = proxy.stop();
    assert!(ended.output.contains(" 0 server connections lost"), "{ended:?}");
}

/// Where no server is asked for the key, the proxy puts it where memcached would.
#[test]
fn a_key_in_base64_is_shown_where_the_client_has_asked_for_it() {
    let requests: Vec<String> = ["v f k s", "k v f s", "f s k O7", "v O7 f k q"]
        .into_iter()
        .flat_map(|flags| [format!("mg YSBj b {flags}\r\n"), format!("mg bm8gYQ== b {flags}\r\n")])
        .collect();
    let requests = [vec!["ms YSBj 5 b F7\r\nhello\r\n".to_owned()], requests].concat();
    let Proxied { proxy, servers: _servers } = proxied(1, &[]);
    assert_eq!(converse(&proxy, &requests), converse(&memcached(), &requests));
}

fn with_three_as_with_one(cases: u32, conversations: &impl Strategy<Value = Vec<String>>, flags: &[&str]) {
    let conversation = |requests: Vec<String>| {
        let alone = memcached();
        let Proxied { proxy, servers } = proxied(3, flags);
        let (theirs, ours) = (converse(&alone, &requests), converse(&proxy, &requests));
        for (number, (theirs, ours)) in theirs.iter().zip(&ours).enumerate() {
            let before = &requests[number.saturating_sub(6)..=number];
            prop_assert_eq!(theirs, ours, "memcached and proxy {:?} at the end of {:#?}", flags, before);
        }
        let held = |server| shown(&answers(server, b"get a b c d\r\n"));
        for server in &servers {
            prop_assert_eq!(held(&alone), held(server));
        }
        Ok(())
    };
    runner(cases).run(conversations, conversation).unwrap();
}

/// What the servers were asked, by name of their counters.
fn counters(server: &Program) -> BTreeMap<String, u64> {
    String::from_utf8(answers(server, b"stats\r\n"))
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("STAT ")?.split_once(' '))
        .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
        .collect()
}

#[test]
fn reads_are_shared_evenly_and_writes_go_to_all() {
    let Proxied { proxy, servers } = proxied(3, &["-s", "true"]);
    let mut client = proxy.connect();
    for number in 0..30 {
        client.send(format!("set k{number} 0 0 2\r\n{number:02}\r\n").as_bytes()).unwrap();
        client.expect(b"STORED\r\n").unwrap();
    }
    for number in 0..30 {
        client.send(format!("get k{number}\r\n").as_bytes()).unwrap();
        client.expect(format!("VALUE k{number} 0 2\r\n{number:02}\r\nEND\r\n").as_bytes()).unwrap();
        client.send(b"get k0 k1 k2 k3 nothing k5\r\n").unwrap();
        let values = [0, 1, 2, 3, 5].map(|key| format!("VALUE k{key} 0 2\r\n{key:02}\r\n")).concat();
        client.expect(format!("{values}END\r\n").as_bytes()).unwrap();
    }
    drop(client);
    assert!(proxy.stop().success);
    for server in &servers {
        let counters = counters(server);
        // 30 sets to each; 30 keys alone and 180 in company, a third each.
        assert_eq!((counters["cmd_set"], counters["cmd_get"]), (30, 70));
    }
}
