//! What the proxy measures is what happened: against a clock of the test's own, and in every file
//! it writes.
//!
//! A scripted server holds an answer back for a time that the test measures itself, after it has
//! seen the request and before it lets the answer go. The proxy cannot have asked later than that,
//! nor have been answered before. So each part of a row has bounds that hold by construction,
//! whatever else the machine is doing.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::support::peer::{Peer, listen};
use crate::support::process::Program;
use crate::support::{file, fresh, pass, until};
use krarup_record::file::rows::RowFile;
use krarup_record::file::{buckets, holds, load, log, servers as server_file, windows};
use krarup_record::holds::Seen;
use krarup_record::{Operation, Outcome, Quantity, ServerVisit, Visit, VisitTally};
use krarup_units::Nanos;

/// A row and what each server did for it.
type Row = (Visit, Vec<ServerVisit>);

/// The rows in a folder that a proxy has written, in the order in which they were replied to.
fn rows(folder: &Path) -> Vec<Row> {
    let mut file = RowFile::open(&folder.join("rows.parquet")).unwrap();
    assert_eq!(file.lost(), 0);
    let mut rows = Vec::new();
    file.for_each(|visit, servers| rows.push((*visit, servers.to_vec()))).unwrap();
    rows
}

/// The only row of an operation.
fn only(rows: &[Row], operation: Operation) -> &Row {
    let mut found = rows.iter().filter(|(visit, _)| visit.operation == operation);
    let row = found.next().unwrap();
    assert!(found.next().is_none(), "more than one {operation:?}");
    row
}

/// A proxy before scripted servers that writes its rows.
struct Stage {
    proxy: Program,
    servers: Vec<Peer>,
    folder: PathBuf,
}

impl Stage {
    fn set(name: &str, servers: usize, flags: &[&str]) -> Self {
        let folder = fresh(name);
        let listeners: Vec<_> = (0..servers).map(|_| listen()).collect();
        let text = folder.to_str().unwrap();
        // However late servers greet and answer.
        let config = file("measured", "connect_timeout = \"60s\"\ntimeout = \"60s\"\n");
        let flags = [&["--rows", "--stats-dir", text, "--json", "--config", &config], flags].concat();
        let (proxy, servers) = Program::proxy_before(&listeners, &flags);
        Self { proxy, servers, folder }
    }

    /// Ends the proxy and reads its rows.
    fn rows(self) -> Vec<Row> {
        let ended = self.proxy.stop();
        assert!(ended.success, "{ended:?}");
        rows(&self.folder)
    }
}

fn nanos(time: Duration) -> Nanos {
    Nanos::from(time)
}

/// Waits until the proxy has done everything it has begun, so that what it stamped is not later
/// than what comes next. A client may have its reply before the write that carried it has come back
/// to the proxy.
fn settle(peer: &mut Peer) {
    peer.send(b"version\r\n").unwrap();
    assert!(peer.line().unwrap().starts_with(b"VERSION "));
}

const FOUND: &[u8] = b"VALUE a 0 1\r\nx\r\nEND\r\n";

#[test]
fn the_time_for_which_a_server_holds_an_answer_is_server_time_and_no_other() {
    let mut stage = Stage::set("held", 1, &[]);
    let mut client = stage.proxy.connect();
    let before = Instant::now();
    client.send(b"get a\r\n").unwrap();
    stage.servers[0].expect(b"get a\r\n").unwrap();
    let seen = Instant::now();
    pass(Duration::from_millis(30));
    let held = seen.elapsed();
    stage.servers[0].send(FOUND).unwrap();
    client.expect(FOUND).unwrap();
    settle(&mut client);
    let whole = before.elapsed();
    let rows = stage.rows();
    let (visit, servers) = only(&rows, Operation::Get);
    let parts = visit.parts(servers);
    assert!(visit.is_ordered(servers), "{visit:?} {servers:?}");
    assert!(parts.server >= nanos(held) && held >= Duration::from_millis(30), "{parts:?} {held:?}");
    assert!(parts.response <= nanos(whole), "{parts:?} {whole:?}");
    assert_eq!(parts.queue, Nanos::ZERO, "no request was before it");
    // What is left for the proxy itself cannot hold any of it.
    assert!(parts.own <= nanos(whole - held), "{parts:?} {whole:?} {held:?}");
    assert_eq!(parts.queue + parts.server + parts.own, parts.response);
    assert_eq!((visit.hits, visit.misses, visit.outcome), (1, 0, Outcome::Ok));
    assert_eq!((visit.bytes_in, visit.bytes_out), (7, FOUND.len() as u64));
}

#[test]
fn the_time_for_which_the_only_worker_is_held_is_queue_time_of_the_next() {
    let mut stage = Stage::set("queued", 1, &["--workers", "1"]);
    let mut observer = stage.proxy.connect();
    let mut clients = [stage.proxy.connect(), stage.proxy.connect()];
    clients[0].send(b"get a\r\n").unwrap();
    stage.servers[0].expect(b"get a\r\n").unwrap();
    let before = Instant::now();
    clients[1].send(b"delete a\r\n").unwrap();
    until("it waits", || observer.count("queue_length") == 1);
    let waits = Instant::now();
    pass(Duration::from_millis(20));
    let waited = waits.elapsed();
    stage.servers[0].send(FOUND).unwrap();
    stage.servers[0].expect(b"delete a\r\n").unwrap();
    let (queued, seen) = (before.elapsed(), Instant::now());
    pass(Duration::from_millis(10));
    let held = seen.elapsed();
    stage.servers[0].send(b"DELETED\r\n").unwrap();
    clients[1].expect(b"DELETED\r\n").unwrap();
    settle(&mut clients[1]);
    let whole = before.elapsed();
    clients[0].expect(FOUND).unwrap();
    let rows = stage.rows();
    let (visit, servers) = only(&rows, Operation::Delete);
    let parts = visit.parts(servers);
    assert!(visit.is_ordered(servers), "{visit:?} {servers:?}");
    assert!(nanos(waited) <= parts.queue && parts.queue <= nanos(queued), "{parts:?} {waited:?} {queued:?}");
    assert!(parts.server >= nanos(held), "{parts:?} {held:?}");
    assert!(parts.server <= nanos(whole - waited), "{parts:?} {whole:?} {waited:?}");
    assert!(parts.response <= nanos(whole), "{parts:?} {whole:?}");
    // It was alone in the queue, and its worker was the one that was busy until then.
    assert_eq!((visit.queue_length, visit.worker_was_idle), (0, false));
    let (first, servers) = only(&rows, Operation::Get);
    assert_eq!((first.queue_time(), first.worker_was_idle), (Nanos::ZERO, true));
    assert!(first.server_time(servers) >= nanos(waited));
}

#[test]
fn each_server_of_a_sharded_request_has_its_own_time_and_the_slowest_decides() {
    let mut stage = Stage::set("sharded", 3, &["--sharded", "true"]);
    let mut client = stage.proxy.connect();
    let before = Instant::now();
    client.send(b"get a b c\r\n").unwrap();
    // Which server gets which key is up to the balance; each gets one.
    let asked: Vec<Vec<u8>> = stage.servers.iter_mut().map(|server| server.line().unwrap()).collect();
    let mut held = Vec::new();
    for (server, line) in stage.servers.iter_mut().zip(&asked) {
        let seen = Instant::now();
        pass(Duration::from_millis(10));
        // All of them were asked before the first was looked at: the later a server answers, the
        // longer it held its answer.
        held.push(seen.elapsed() + held.last().copied().unwrap_or_default());
        let key = line.strip_prefix(b"get ").unwrap().strip_suffix(b"\r\n").unwrap();
        server.send(&[b"VALUE ", key, b" 0 1\r\n", key, b"\r\nEND\r\n"].concat()).unwrap();
    }
    client.expect(b"VALUE a 0 1\r\na\r\nVALUE b 0 1\r\nb\r\nVALUE c 0 1\r\nc\r\nEND\r\n").unwrap();
    settle(&mut client);
    let whole = before.elapsed();
    let rows = stage.rows();
    let (visit, servers) = only(&rows, Operation::MultiGet);
    assert!(visit.is_ordered(servers), "{visit:?} {servers:?}");
    assert_eq!(
        servers.iter().map(|one| one.server).collect::<Vec<_>>(),
        [0, 1, 2],
        "in the order of the answers"
    );
    for (one, held) in servers.iter().zip(&held) {
        assert!(one.time() >= nanos(*held) && one.time() <= nanos(whole), "{one:?} {held:?} {whole:?}");
    }
    let parts = visit.parts(servers);
    let (first, last) =
        (servers.iter().map(|one| one.sent).min(), servers.iter().map(|one| one.answered).max());
    assert_eq!(parts.server, last.unwrap() - first.unwrap());
    assert!(parts.server >= nanos(held[2]) && parts.response <= nanos(whole), "{parts:?} {held:?} {whole:?}");
    assert_eq!((visit.keys, visit.hits), (3, 3));
}

// ---- the files ----------------------------------------------------------------------------------

/// What a server counts itself.
fn counted(server: &Program, name: &str) -> u64 {
    server.connect().count(name)
}

#[test]
fn every_file_says_the_same_of_every_request_and_so_do_the_servers() {
    let servers = [Program::memcached(&[]), Program::memcached(&[]), Program::memcached(&[])];
    let folder = fresh("files");
    let text = folder.to_str().unwrap();
    let flags = ["--rows", "--stats-dir", text, "--json", "--workers", "8"];
    let proxy = Program::proxy(&servers.each_ref().map(Program::address), &flags);
    let target = proxy.address().to_string();
    let load_flags =
        ["--mix", "get=5,mget=2,set=2,delete=1,touch=1", "--multi-get", "7", "-c", "20", "-n", "6000"];
    let arguments =
        [&["load", "-s", &target, "--keys", "300", "--populate", "--json", "-"], &load_flags[..]].concat();
    let loaded = Program::begin(&arguments).ended();
    assert!(loaded.success, "{loaded:?}");
    let ended = proxy.stop();
    assert!(ended.success, "{ended:?}");
    let summary = ended.json();
    let rows = rows(&folder);
    assert!(ended.errors.contains(&format!("{} rows in rows.parquet", rows.len())), "{}", ended.errors);

    // The rows, added up, are the summary …
    let mut tallies: BTreeMap<&str, VisitTally> = BTreeMap::new();
    for (visit, servers) in &rows {
        assert!(visit.is_ordered(servers), "{visit:?} {servers:?}");
        tallies.entry(visit.operation.name()).or_default().add(visit, &visit.parts(servers));
    }
    let lines = summary["operations"].as_array().unwrap();
    assert_eq!(lines.len(), tallies.len());
    for line in lines {
        let tally = &tallies[line["operation"].as_str().unwrap()];
        let said = ["count", "errors", "hits", "misses", "bytes_in", "bytes_out"].map(|name| &line[name]);
        let added = [tally.count, tally.errors, tally.hits, tally.misses, tally.bytes_in, tally.bytes_out];
        assert_eq!(said.map(|number| number.as_u64().unwrap()), added, "{line}");
    }
    assert!(["get", "multiget", "set", "delete", "touch"].iter().all(|name| tallies[name].count > 100));
    assert_eq!(summary["events"]["requests"].as_u64(), Some(rows.len() as u64));

    // … and the windows, to the nanosecond …
    let mut from_windows: BTreeMap<&str, VisitTally> = BTreeMap::new();
    for row in load(&folder.join("windows.csv"), windows::read).unwrap() {
        from_windows.entry(row.operation.name()).or_default().merge(&row.tally);
    }
    from_windows.retain(|_, tally| tally.count > 0);
    assert_eq!(from_windows, tallies);

    // … and the histograms, in buckets and as a log …
    let buckets = load(&folder.join("histogram.csv"), buckets::read).unwrap();
    let log = log::read(File::open(folder.join("histograms.hlog")).unwrap()).unwrap();
    for (name, tally) in &tallies {
        let is_it =
            |operation: Operation, quantity| operation.name() == *name && quantity == Quantity::Response;
        let in_buckets = buckets.iter().filter(|row| is_it(row.operation, row.quantity));
        assert_eq!(in_buckets.map(|row| row.bucket.count).sum::<u64>(), tally.count, "{name}");
        let in_log = log.entries.iter().find(|entry| is_it(entry.operation, entry.quantity)).unwrap();
        assert_eq!(in_log.distribution.count(), tally.count, "{name}");
        assert_eq!(in_log.distribution.exact().sum, tally.response_time, "{name}");
    }
    let held = load(&folder.join("holds.csv"), holds::read).unwrap();
    let with_worker = rows.iter().filter(|(_, servers)| !servers.is_empty()).count() as u64;
    for &kind in Seen::ALL {
        let of_kind = held.iter().filter(|row| row.seen == kind);
        assert_eq!(of_kind.map(|row| row.hold.count).sum::<u64>(), with_worker, "{kind:?}");
    }

    // … and every server's own count.
    let of_servers = load(&folder.join("servers.csv"), server_file::read).unwrap();
    for (place, server) in servers.iter().enumerate() {
        let at_it = |operations: &[Operation], part: fn(&Visit) -> u64| -> u64 {
            let there =
                rows.iter().filter(|(_, servers)| servers.iter().any(|one| one.server == place as u16));
            there
                .filter(|(visit, _)| operations.contains(&visit.operation))
                .map(|(visit, _)| part(visit))
                .sum()
        };
        let keys = |visit: &Visit| u64::from(visit.keys);
        let reads = [Operation::Get, Operation::MultiGet];
        assert_eq!(counted(server, "cmd_get"), at_it(&reads, keys));
        assert_eq!(counted(server, "get_hits"), at_it(&reads, |visit| u64::from(visit.hits)));
        assert_eq!(counted(server, "cmd_set"), at_it(&[Operation::Set], |_| 1));
        assert_eq!(counted(server, "cmd_touch"), at_it(&[Operation::Touch], keys));
        let deletes = counted(server, "delete_hits") + counted(server, "delete_misses");
        assert_eq!(deletes, at_it(&[Operation::Delete], |_| 1));
        assert_eq!(of_servers[place].requests, at_it(Operation::ALL, |_| 1));
        assert_eq!(summary["servers"][place]["requests"].as_u64(), Some(of_servers[place].requests));
    }
    std::fs::remove_dir_all(folder).unwrap();
}
