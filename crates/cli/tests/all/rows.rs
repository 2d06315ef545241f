//! Rows in files that rotate, samples of them, and rows that are read in parts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use krarup_record::KeyDigest;
use krarup_record::file::rows::{RowFile, RowRun};
use serde_json::Value;

use crate::support::process::{Ended, Program};
use crate::support::{file, fresh, until};

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
    // What is complete is analysed while the next is written.
    let found = krarup(&["analyze", text(&folder), "--json"]);
    assert!(found.success, "{found:?}");
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
        assert!(count > 0 && count <= asked, "{count} of {asked}");
        let place = path.strip_prefix(&rows).unwrap().display().to_string();
        assert!(place.starts_with("date=20") && place.contains("/hour="), "{place}");
    }
    let said = krarup(&["analyze", text(&folder)]);
    assert!(said.success && said.output.contains("rows of here"), "{said:?}");
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
fn parts_of_the_rows_say_the_same_bytes_as_one_reading() {
    let folder =
        loaded("rows-parts", &["-n", "40000", "--ratio", "1:3", "--multi-get", "2", "--rows-every", "1s"]);
    let forms: [&[&str]; 4] = [&[], &["--json"], &["--csv"], &["--markdown"]];
    let words = ["analyze", text(&folder), "--warm-up", "1ms"];
    let whole = forms.map(|form| krarup(&[&words[..], form].concat()).output);
    assert!(whole.iter().all(|told| told.len() > 100), "{whole:?}");
    for of in [1, 2, 5] {
        let parts: Vec<PathBuf> = (1..=of).map(|number| fresh(&format!("part-{number}-{of}.json"))).collect();
        for (number, part) in (1..).zip(&parts) {
            let share = format!("{number}/{of}");
            let ended = krarup(&[&words[..], &["--share", &share, "--part", text(part)]].concat());
            assert!(ended.success && ended.output.is_empty(), "{ended:?}");
        }
        let names: Vec<&str> = parts.iter().rev().map(|part| text(part)).collect();
        let merged =
            forms.map(|form| krarup(&[&["analyze"], form, &["--merge"], &names[..]].concat()).output);
        assert_eq!(merged, whole, "{of} parts");
        if of == 1 {
            let printed = krarup(&[&words[..], &["--part", "-"]].concat());
            assert_eq!(printed.output, fs::read_to_string(&parts[0]).unwrap(), "{printed:?}");
        }
        if of == 5 {
            let few = krarup(&[&["analyze", "--merge"], &names[1..]].concat());
            assert!(few.code == Some(2) && few.errors.contains("read by none"), "{few:?}");
            let twice = krarup(&[&["analyze", "--merge", names[0]], &names[..]].concat());
            assert!(twice.code == Some(2) && twice.errors.contains("read twice"), "{twice:?}");
        }
    }
}

#[test]
fn several_runs_in_a_folder_are_told_by_their_names() {
    let folder = fresh("rows-several");
    let server = cache();
    let address = server.address().to_string();
    let names = ["one", "two"].map(|name| folder.join(name).join("rows.parquet").display().to_string());
    for (name, count) in names.iter().zip(["400", "800"]) {
        fs::create_dir_all(Path::new(name).parent().unwrap()).unwrap();
        let ended = krarup(&["load", "-s", &address, "-c", "2", "-n", count, "--rows", name]);
        assert!(ended.success, "{ended:?}");
    }
    let json = krarup(&["analyze", text(&folder), "--json"]);
    let found: Vec<Value> = serde_json::from_str(&json.output).unwrap();
    let csv = krarup(&["analyze", text(&folder), "--csv"]);
    let lines: Vec<&str> = csv.output.lines().collect();
    assert!(lines[0].starts_with("name,operation,requests,"), "{csv:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("name,")).count(), 1, "{csv:?}");
    for (name, count) in names.iter().zip([400, 800]) {
        let of_run = found.iter().find(|run| run["name"] == name.as_str()).unwrap();
        assert_eq!(of_run["rows"], count);
        assert!(lines.iter().any(|line| line.starts_with(&format!("{name},"))), "{csv:?}");
        for warning in of_run["warnings"].as_array().unwrap() {
            assert!(csv.errors.contains(&format!("warning: {name}: ")), "{warning}: {csv:?}");
        }
    }
}

#[test]
fn statistics_that_cannot_be_written_cost_none_of_the_rows() {
    let server = cache();
    let folder = fresh("rows-kept");
    fs::create_dir_all(folder.join("summary.json")).unwrap();
    let proxy = Program::proxy(&[server.address()], &["--stats-dir", text(&folder), "--rows"]);
    let mut client = proxy.connect();
    client.send(b"get a\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
    drop(client);
    let ended = proxy.stop();
    assert!(ended.code == Some(1) && ended.errors.contains("the statistics cannot be written"), "{ended:?}");
    assert_eq!(RowFile::open(&folder.join("rows.parquet")).unwrap().rows(), 1);
}

/// Two machines that have files of their own count within the same span of the wall clock.
#[test]
fn files_on_several_machines_are_counted_within_a_span_they_are_told() {
    let folder =
        loaded("rows-between", &["-n", "4500", "--rate", "3000", "--rows-every", "1s", "--instance", "one"]);
    let files = RowRun::files(&folder).unwrap();
    let run = RowRun::open(&files).unwrap();
    let (epoch, (begun, ended)) = (run.run().epoch_unix.0, run.span().unwrap());
    let span = format!("{},{}", epoch + begun.0, epoch + ended.0);
    let whole = krarup(&["analyze", text(&folder), "--between", &span, "--json"]);
    assert!(whole.success, "{whole:?}");
    let apart = [fresh("rows-between-1"), fresh("rows-between-2")];
    for (number, path) in files.iter().enumerate() {
        let place = path.strip_prefix(&folder).unwrap();
        let there = apart[number % 2].join("rows").join(place);
        fs::create_dir_all(there.parent().unwrap()).unwrap();
        fs::copy(path, there).unwrap();
    }
    let part = |number: usize| {
        let out = fresh(&format!("rows-between-{number}.json"));
        let words = ["analyze", "rows", "--between", &span, "--part", text(&out)];
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_krarup"));
        command.args(words).current_dir(&apart[number]);
        assert!(Program::spawn(command).ended().success);
        out
    };
    let parts = [part(0), part(1)];
    let merged = krarup(&["analyze", "--json", "--merge", text(&parts[1]), text(&parts[0])]);
    assert_eq!(merged.output, whole.output, "{merged:?}");
}

/// What clients have written by the clock of one machine, and a middleware by that of another.
#[test]
fn rows_are_cut_where_clients_measured_by_the_clocks_of_both_machines() {
    let server = cache();
    let folder = fresh("rows-clocks");
    let records = folder.join("middleware/1");
    fs::create_dir_all(&records).unwrap();
    let proxy = Program::proxy(&[server.address()], &["--stats-dir", text(&records), "--rows"]);
    let (address, result) = (proxy.address().to_string(), folder.join("load.json"));
    let words = ["load", "-s", &address, "-c", "2", "--keys", "40", "--warm-up", "300ms", "--seconds", "1s"];
    let ended = krarup(&[&words[..], &["--json", text(&result)]].concat());
    assert!(ended.success, "{ended:?}");
    assert!(proxy.stop().success);
    let mut load: Value = serde_json::from_slice(&fs::read(&result).unwrap()).unwrap();
    // Whole eighths: what is added to them and taken away again leaves the same.
    let started = (load["started_unix"].as_f64().unwrap() * 8.0).floor() / 8.0;
    let mut found = |started: f64| {
        load["started_unix"] = started.into();
        fs::write(&result, load.to_string()).unwrap();
        let ended = krarup(&["analyze", text(&folder), "--json"]);
        assert!(ended.success, "{ended:?}");
        ended.output
    };
    let by_one_clock = found(started);
    let clock = |seconds: f64| format!(r#"{{"seconds":{seconds},"within":0.001}}"#);
    let clocks = format!(r#"{{"c1":{},"m1":{}}}"#, clock(-5.0), clock(2.0));
    fs::write(folder.join("clocks.json"), clocks).unwrap();
    assert_eq!(found(started - 7.0), by_one_clock);
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
    let told = krarup(&["analyze", text(&some)]);
    assert!(told.output.contains("those of 1/4 of the keys"), "{told:?}");
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
    let part = file("rows-part.json", "{\"version\":1}");
    for (words, why) in [
        (&["proxy", "--rows-every", "10m"][..], "--rows"),
        (&["load", "--rows", "x", "--rows-every", "0s"], "too short or too long"),
        (&["load", "--rows", "x", "--rows-sample", "0.5"], "no share of the keys"),
        (&["load", "--rows", "x", "--instance", " "], "is no name"),
        (&["analyze", "x", "--share", "3/2", "--part", "y"], "no share"),
        (&["analyze", "x", "--share", "1/2"], "--part"),
        (&["analyze", "x", "--between", "now"], "no two instants"),
        (&["analyze", "--merge", &part], "rows-part.json"),
        (&["analyze", "--merge", "no/such/part"], "no/such/part"),
        (&["analyze"], "PATH"),
    ] {
        let ended = krarup(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {ended:?}");
        assert!(ended.errors.contains(why) && ended.errors.contains("hint"), "{words:?}: {ended:?}");
    }
}
