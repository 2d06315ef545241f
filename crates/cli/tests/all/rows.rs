//! Rows in files that rotate, and samples of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use krarup_record::KeyDigest;
use krarup_record::file::rows::{RowFile, RowRun};

use crate::support::process::{Ended, Program};
use crate::support::{fresh, until};

fn krarup(words: &[&str]) -> Ended {
    Program::begin(words).ended()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn cache() -> Program {
    Program::krarup(&["cache", "--listen", "127.0.0.1:0"])
}

/// How often each key's first requests are there.
fn keys(folder: &Path) -> BTreeMap<KeyDigest, u64> {
    let run = RowRun::open(&RowRun::files(folder).unwrap()).unwrap();
    let mut keys = BTreeMap::new();
    run.for_each(|visit, _| *keys.entry(visit.key).or_insert(0) += 1).unwrap();
    keys
}

/// A file is whole when the next is written: a kill takes no row of it. The one that was being
/// written has a name that readers pass over.
#[test]
fn files_that_are_complete_stay_whole_when_the_proxy_is_killed() {
    let server = cache();
    let folder = fresh("rows-killed");
    let flags = ["--stats-dir", text(&folder), "--rows", "--rows-every", "1s", "--instance", "here"];
    let proxy = Program::proxy(&[server.address()], &flags);
    let mut client = proxy.connect();
    let rows = folder.join("rows");
    let mut asked = 0;
    until("a file is complete", || {
        asked += 1;
        client.send(b"get a\r\n").unwrap();
        client.expect(b"END\r\n").unwrap();
        !RowRun::files(&rows).unwrap_or_default().is_empty()
    });
    let complete = RowRun::files(&rows).unwrap();
    proxy.kill();
    for path in &complete {
        let mut file = RowFile::open(path).unwrap();
        assert_eq!((file.instance(), file.lost()), ("here", 0));
        let mut count = 0;
        file.for_each(|visit, servers| {
            assert!(visit.is_ordered(servers));
            count += 1;
        })
        .unwrap();
        assert!(count > 0 && count < asked, "{count} of {asked}");
        let place = path.strip_prefix(&rows).unwrap().display().to_string();
        assert!(place.starts_with("date=20") && place.contains("/hour="), "{place}");
    }
}

/// A load generator's rows in files of a second, of some keys.
fn loaded(name: &str, flags: &[&str]) -> PathBuf {
    let server = cache();
    let folder = fresh(name);
    let address = server.address().to_string();
    let words =
        ["load", "-s", &address, "-c", "4", "--keys", "40", "--key-law", "zipf:0.9", "--rows", text(&folder)];
    let ended = krarup(&[&words[..], flags].concat());
    assert!(ended.success, "{ended:?}");
    folder
}

#[test]
fn a_sample_has_all_requests_of_its_keys_and_is_said_to_be_one() {
    let all = loaded("rows-all", &["-n", "2000", "--seed", "5", "--rows-every", "1h", "--rows-keys"]);
    let some = loaded(
        "rows-some",
        &["-n", "2000", "--seed", "5", "--rows-every", "1h", "--rows-keys", "--rows-sample", "1/4"],
    );
    let (all, kept) = (keys(&all), keys(&some));
    assert!(kept.len() < all.len() && !kept.is_empty(), "{} of {}", kept.len(), all.len());
    for (key, count) in &kept {
        assert!(key.known().is_some());
        assert_eq!(all.get(key), Some(count), "all requests of a key or none");
    }
}

/// What is replayed asks for each key as often as it was asked for, under another name.
#[test]
fn a_replay_of_rows_with_keys_keeps_their_popularity() {
    let recorded = loaded("rows-popular", &["-n", "1500", "--rows-every", "1h", "--rows-keys"]);
    let counts = |folder: &Path| {
        let mut counts: Vec<u64> = keys(folder).into_values().collect();
        counts.sort_unstable();
        counts
    };
    let flags = ["--replay", text(&recorded), "--replay-speed", "max", "--rows-every", "1h", "--rows-keys"];
    let replayed = loaded("rows-replayed", &flags);
    let (was, is) = (counts(&recorded), counts(&replayed));
    assert_eq!(was.iter().sum::<u64>(), 1_500);
    assert_eq!(was, is);
    assert_eq!(is.iter().copied().collect::<BTreeSet<_>>().last(), was.last(), "the hottest key");
}

#[test]
fn a_broker_writes_files_by_day_and_hour_too() {
    let folder = fresh("rows-broker");
    let flags = ["broker", "--listen", "127.0.0.1:0", "--rows", text(&folder), "--rows-every", "1d"];
    let broker = Program::krarup(&flags);
    let mut client = broker.connect();
    client.send(b"put 1 0 60 1\r\nx\r\n").unwrap();
    client.expect(b"INSERTED 1\r\n").unwrap();
    assert!(broker.stop().success);
    let files = RowRun::files(&folder).unwrap();
    assert_eq!(files.len(), 1);
    let place = files[0].strip_prefix(&folder).unwrap().display().to_string();
    assert!(place.starts_with("date=") && !place.contains("hour="), "{place}");
    let file = RowFile::open(&files[0]).unwrap();
    // A port of its own on an address that every machine has: it is called by the machine's name.
    assert!(file.rows() == 1 && file.instance().ends_with(":0"), "{}", file.instance());
}

#[test]
fn what_makes_no_sense_is_said_with_a_hint() {
    for (words, why) in [
        (&["proxy", "--rows-every", "10m"][..], "--rows"),
        (&["load", "--rows", "x", "--rows-every", "0s"], "too short or too long"),
        (&["load", "--rows", "x", "--rows-sample", "0.5"], "no share of the keys"),
        (&["load", "--rows", "x", "--instance", " "], "is no name"),
    ] {
        let ended = krarup(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
        assert!(ended.errors.contains(why) && ended.errors.contains("hint"), "{words:?}: {ended:?}");
    }
}
