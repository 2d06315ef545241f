//! What a person gets wrong: each mistake is told with the thing, its place and what would do, by
//! an exit code of its own, and never in the words of a program's types.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::process::{Ended, Program, limited};
use crate::support::{file, fresh};

/// What no answer has.
const PROGRAMS_WORDS: &[&str] = &[
    "os error",
    "expected struct",
    "invalid type",
    "missing field",
    "unknown field",
    "unknown variant",
    "Corrupt footer",
    "EOF",
    "Parquet error",
    "CSV error",
    "at line",
    "UTF-8 character",
    "valid UTF-8",
    "float literal",
    "invalid digit",
    "..=",
    "Some(",
    "Err(",
    "panicked",
    "stream did not",
    "Os {",
];

/// A mistake: the words of the command, its exit code, and what the answer has. `{}` stands for the
/// folder of [`files`].
type Row = (&'static str, i32, &'static [&'static str]);

/// On the command line.
const OF_FLAGS: &[Row] = &[
    ("prxy", 2, &["there is no command `prxy`", "did you mean proxy?"]),
    ("model solv", 2, &["there is no command `solv`", "did you mean solve?"]),
    ("proxy", 2, &["there is no server to ask", "--servers"]),
    ("load --duration 5", 2, &["there is no flag --duration", "it is --seconds"]),
    ("load --clients 5", 2, &["there is no flag --clients", "it is --connections"]),
    ("proxy --servrs 127.0.0.1:1", 2, &["there is no flag --servrs", "did you mean --servers?"]),
    ("proxy --servers nowhere", 2, &["--servers: `nowhere` is not an address", "127.0.0.1:11211"]),
    ("proxy --servers 127.0.0.1:99999", 2, &["--servers: `127.0.0.1:99999` is not an address"]),
    ("proxy -m 127.0.0.1:1 --workers -1", 2, &["--workers: `-1` is no number of workers", "unlimited"]),
    ("proxy -m 127.0.0.1:1 --threads 1k", 2, &["`threads` is 1000, and must be from 1 to 64"]),
    ("proxy -m 127.0.0.1:1 --engine event", 2, &["did you mean events?", "there are events, threads"]),
    ("proxy -m 127.0.0.1:1 --distribution ketma", 2, &["`ketma` is no distribution", "did you mean ketama?"]),
    ("proxy -m 127.0.0.1:1 --hash murmer3", 2, &["`murmer3` is no hash", "murmur3"]),
    ("proxy -m 127.0.0.1:1,127.0.0.1:2 --replicas 2", 2, &["--replicas places keys", "--distribution"]),
    (
        "proxy -m 127.0.0.1:1,127.0.0.1:2 --distribution ketama --replicas 3",
        2,
        &["`replicas` is 3, and there are 2 servers"],
    ),
    ("proxy --import a.yml --workers 9", 2, &["--import prints what a.yml says, and --workers would not"]),
    ("proxy --import a.yml -p 9", 2, &["--import prints what a.yml says, and -p would not", "leave out -p"]),
    ("proxy -m 127.0.0.1:1 --print-config --check", 2, &["exclude each other", "--print-config"]),
    ("proxy -m 127.0.0.1:1 -l [::1 -p 9", 2, &["-l: `[::1` is no address alone"]),
    ("proxy -m 127.0.0.1:1 -l [::1]:11211", 2, &["-l: `[::1]:11211` is no address alone", "--listen"]),
    (
        "proxy -m 127.0.0.1:1 -l 127.0.0.1:9 --check",
        2,
        &["-l: `127.0.0.1:9` is no address alone", "--listen"],
    ),
    ("proxy -m 127.0.0.1:1 -l /run/k.sock", 2, &["-l: `/run/k.sock` is no address alone", "--listen"]),
    ("proxy -m 127.0.0.1:1 --sharded maybe", 2, &["--sharded: `maybe` is neither", "true or false"]),
    ("proxy -m 127.0.0.1:1 --idle-timeout 9parsec", 2, &["`9parsec` is not a length of time", "250ms"]),
    ("proxy -m 127.0.0.1:1 --listen 1.2.3.4:0", 2, &["this machine has no such address"]),
    ("proxy -m 127.0.0.1:1 --stats-dir /proc/x", 2, &["/proc/x cannot be made", "--stats-dir"]),
    ("cache --memory -1", 2, &["--memory", "-1"]),
    ("cache -m 64 -I 2", 2, &["--max-item-size: 2 B is less than 1 KiB", "2MiB"]),
    ("cache --memory 1 --max-item-size 2MiB", 2, &["--memory 1 MiB cannot hold one item", "--max-item-size"]),
    ("cache -p 70000", 2, &["-p", "70000 is not from 0 to 65535"]),
    ("cache --connections 0", 2, &["--connections", "0 is less than 1"]),
    ("cache -l 127.0.0.1:9", 2, &["-l: `127.0.0.1:9` is no address alone", "--listen"]),
    ("cache --shutdown-limit 999999d", 2, &["--shutdown-limit is at most 36500d"]),
    ("broker --connections 0", 2, &["--connections", "0 is less than 1"]),
    ("broker --mode bach", 2, &["--mode: `bach` is none of its values", "did you mean batch?"]),
    ("broker --shards 2 --buffer-memory 8MiB", 2, &["--buffer-memory is not held with --shards"]),
    ("broker --shards 2 --listen unix:/a/b --socket-mode 0600", 2, &["permissions", "add --secret FILE"]),
    ("broker --shards 0", 2, &["--shards: 0 is not from 1 to "]),
    ("broker --remember-keys 36501d", 2, &["--remember-keys is at most 36500d"]),
    ("broker --shutdown-limit 999999d", 2, &["--shutdown-limit is at most 36500d"]),
    ("broker --max-message-size 2GiB", 2, &["--max-message-size is at most 1GiB"]),
    ("broker --admin 127.0.0.1:11300", 2, &["--listen and --admin are both 127.0.0.1:11300"]),
    ("broker --advertise unix:/a/b", 2, &["--advertise: unix:/a/b is no host", "HOST:PORT"]),
    ("broker --advertise srv:_a._tcp.b", 2, &["--advertise: srv:_a._tcp.b is no host", "HOST:PORT"]),
    ("load --rate -5", 2, &["--rate: `-5` is no rate", "20k"]),
    ("load --tls-authorities nowhere.pem", 2, &["no certificate can be read from nowhere.pem", "hint: "]),
    (
        "load -s unix:/run/k.sock --tls-authorities nowhere.pem",
        2,
        &["unix:/run/k.sock has no name that its certificate", "--tls-name"],
    ),
    ("load --rate 20q", 2, &["--rate: `20q` is no rate", "1000-5000x30s"]),
    ("load --connections -3", 2, &["`connections` is `-3`, and must be a whole number"]),
    ("load --ratio x", 2, &["--ratio: `x` is no ratio of SETs to GETs", "1:10"]),
    ("load --mix gte=1", 2, &["`gte` is no command", "did you mean get"]),
    ("load --key-law zip:0.9", 2, &["`zip:0.9` is no law for keys", "did you mean zipf?"]),
    ("load --arrivals poison --rate 9", 2, &["`poison` is no arrival process", "did you mean poisson?"]),
    ("load --data-size huge", 2, &["`huge` is no size", "4KiB"]),
    ("load --replay-speed 2", 2, &["--replay-speed belongs to a trace, and none is sent", "--replay"]),
    ("load --merge a,b --rate 5", 2, &["--merge sends nothing, so --rate has no effect"]),
    ("load --from-memtier a --seconds 5", 2, &["--from-memtier sends nothing, so --seconds has no effect"]),
    ("load --memtier-result a --populate", 2, &["--memtier-result", "--populate", "exclude each other"]),
    ("load --progress humann", 2, &["--progress: `humann`", "did you mean human?"]),
    ("load --servers 127.0.0.1:1", 1, &["cannot connect to 127.0.0.1:1: connection refused", "krarup cache"]),
    ("load --servers 127.0.0.1:1 --csv /proc/x", 1, &["/proc/x cannot be written", "choose another file"]),
    ("load --servers 127.0.0.1:1 --json /proc/x", 1, &["/proc/x cannot be written", "choose another file"]),
    ("load --servers 127.0.0.1:1 --json /proc", 1, &["/proc cannot be written: it is a directory"]),
    ("memtier --ratio=x", 2, &["--ratio: `x`", "krarup memtier --help"]),
    ("memtier -P redis", 2, &["--protocol=redis is not supported", "memcache_text"]),
    ("memtier -p 1 -P memcache_text -o /proc/x", 1, &["/proc/x cannot be written", "choose another file"]),
    ("memtier -p 1 -P memcache_text --json-out-file /proc/x", 1, &["/proc/x cannot be written"]),
    ("memtier -s 127.0.0.1 -p 1 -P memcache_text", 1, &["connection refused", "memcached listening"]),
    ("plan --quck demo", 2, &["there is no flag --quck", "did you mean --quick?"]),
    ("plan dem", 2, &["dem: there is no such file", "did you mean demo?"]),
    ("run asl2018/99", 2, &["asl2018/99: there is no such file", "did you mean asl2018/"]),
    ("demo one", 2, &["`one` is one word too many"]),
    ("demo 5", 2, &["`5` is one word too many"]),
    ("demo --seconds 1 --seconds 2", 2, &["--seconds is given more than once", "give it once"]),
    ("demo --quick --quick", 2, &["--quick is given more than once", "give it once"]),
    ("demo --servers memcache", 2, &["--servers: `memcache` are no servers", "memcached?", "HOST:PORT"]),
    ("demo --clients 0", 2, &["--clients: 0 is not from 1 to 10000"]),
    ("demo --repetitions two", 2, &["--repetitions: `two` is no whole number"]),
    ("top nowhere", 2, &["HOST:PORT: `nowhere` is not an address", "127.0.0.1:11211"]),
    ("top 127.0.0.1:1 --every 0", 2, &["--every is from 50ms to an hour", "write it like 250ms"]),
    ("top 127.0.0.1:1", 1, &["127.0.0.1:1 does not answer: connection refused", "--admin"]),
    ("compare a b --power 0.9", 2, &["--fail-if is missing", "krarup compare --help"]),
    ("analyze x --part y --html z", 2, &["exclude each other"]),
    ("headroom 127.0.0.1:1", 2, &["cannot be asked: connection refused", "--admin"]),
    ("headroom 127.0.0.1:1 --target p99<9parsec", 2, &["--target: `9parsec` is not a length", "p99 < 8ms"]),
    (
        "headroom --prometheus https://a:1 --rate x --in-flight y --time z",
        2,
        &["--prometheus", "http://HOST:PORT"],
    ),
    ("redline 127.0.0.1:1", 2, &["cannot be asked: connection refused", "--admin"]),
    ("redline 127.0.0.1:1 --most-weight many", 2, &["--most-weight: `many` is no number"]),
    (
        "model calibrate --prometheus a:1 --rate x --in-flight y --time z --unit ms",
        2,
        &["--prometheus", "--unit", "exclude each other"],
    ),
    (
        "model simulate x --replicate 1s --replication 1/2 --part y --html z",
        2,
        &["--part", "--html", "exclude each other"],
    ),
    ("model predict x --population 9 --workers 9 --middlewares 2", 2, &["--against-null is missing"]),
    ("model calibrate x --unit parsec", 2, &["--unit: `parsec` is none of its values", "s, ms, us"]),
    ("at yesterday -- ls", 2, &["INSTANT: `yesterday` is no instant", "RFC 3339"]),
    ("at 1764300000 -- true", 2, &["that was ", " ago", "nanoseconds", "date +%s%N"]),
    ("at 2020-01-01T00:00:00Z -- true", 2, &["that was ", " ago"]),
    ("at 2020-01-01T00:00:00Z", 2, &["COMMAND is missing", "krarup at --help"]),
    ("completions basch", 2, &["`basch` is none of its values", "did you mean bash?"]),
    ("man /proc/x", 1, &["/proc/x: there is no such file", "directory"]),
];

/// In files.
const OF_FILES: &[Row] = &[
    ("proxy --config {}/none", 2, &["none: there is no such file", "--print-config"]),
    ("proxy --config {}", 2, &["it is a directory", "a file in it"]),
    ("proxy --config {}/bytes", 2, &["bytes: it is no text in UTF-8", "--print-config"]),
    ("proxy --config {}/open.toml", 2, &["open.toml, line 1: a value is missing", "write key ="]),
    ("proxy --config {}/array.toml", 2, &["array.toml, line 1: `listen` is an array", "write one value"]),
    ("proxy --config {}/title.toml", 2, &["title.toml, line 1: there is no key `title`"]),
    (
        "proxy --config {}/pools.toml --distribution ketama --check",
        2,
        &["`distribution` at the top level is of the pool main, which has no servers", "[pools.NAME]"],
    ),
    ("proxy --config {}/tls.toml", 2, &["tls.toml, line 1: there is no key `tls`", "it is a key of `edge`"]),
    (
        "proxy --config {}/unix.toml --check",
        2,
        &["unix:/run/k.sock has no name that its certificate", "`server_tls.name`"],
    ),
    (
        "cache --listen 127.0.0.1:0 --tls-certificate {}/empty --tls-key {}/locked.key",
        2,
        &["locked.key is encrypted", "openssl pkey -in"],
    ),
    ("broker --store-file {}/none", 2, &["none: there is no such file", "postgres://"]),
    (
        "broker --postgres-embedded {}/queues --secret {}/none",
        2,
        &["none: there is no such file", "its first line"],
    ),
    ("proxy --import {}/none", 2, &["none: there is no such file"]),
    ("proxy --import {}/two.csv", 2, &["two.csv: line 1", "nutcracker.yml"]),
    ("load --config {}/minus.toml", 2, &["minus.toml, line 1: `connections` is `-3`"]),
    ("load --config {}/list.toml", 2, &["list.toml, line 2", "rate"]),
    ("load --merge {}/cut.json", 2, &["cut.json, line 2: it ends in the middle", "--json FILE"]),
    ("load --merge {}/other.json", 2, &["other.json, line 1: `format` is missing", "--json FILE"]),
    ("load --replay {}/magic.parquet", 2, &["it is no Parquet file, or its end is missing", "a trace is"]),
    ("load --replay {}/two.csv", 2, &["two.csv, line 1: the head names no `time`", "time,op,key,size"]),
    ("load --from-memtier {}/none", 2, &["none: there is no such file"]),
    ("load --memtier-result {}/two.csv", 2, &["there is no table of memtier_benchmark", "JSON"]),
    ("plan {}", 2, &["it is a directory", "a file in it"]),
    ("plan {}/bytes", 2, &["it is no text in UTF-8", "spec.md"]),
    ("plan {}/times.toml", 2, &["times.toml, line 2: `repetitions` is no table", "{ key = value }"]),
    ("report {}", 2, &["spec.toml: there is no such file", "krarup run"]),
    ("analyze {}/none", 2, &["none: there is no such file", "--rows"]),
    ("analyze {}", 2, &["holds no rows.parquet", "--stats-dir DIR --rows"]),
    ("analyze {}/empty", 2, &["it is no Parquet file, or its end is missing", "--rows"]),
    ("analyze {}/empty --part /proc/x", 1, &["/proc/x cannot be written", "choose another file"]),
    ("analyze {}/two.csv", 2, &["two.csv, line 1: the head names no `time`", "time,op,key,size"]),
    ("compare {}/none {}/none", 2, &["none: there is no such file or directory", "`krarup run` makes"]),
    (
        "compare {}/cut.json {}/cut.json",
        2,
        &["cut.json: there are no runs in it that are understood", "hyperfine"],
    ),
    (
        "compare {}/results.json {}/results.json",
        2,
        &["results.json, line 1: `title` is missing", "krarup run"],
    ),
    ("compare {}/no.json {}/no.json", 2, &["no.json: there are no runs in it", "krarup run"]),
    ("model solve {}/none", 2, &["none: there is no such file", "krarup model example"]),
    ("model solve {}/title.toml", 2, &["line 1: there is no key `title`", "there are name, station"]),
    ("model solve {}/class.toml", 2, &["class.toml, line 1", "write a list", "krarup model example"]),
    (
        "model simulate {}/db.toml --replicate 1s --replication 1/2 --part /proc/x",
        1,
        &["/proc/x cannot be written", "choose another file"],
    ),
    ("model predict {}/other.json --population 9 --workers 9", 2, &["`model` is missing", "calibrate"]),
    ("model calibrate {}/two.csv", 2, &["line 1: there is no column `population`", "columns are"]),
    ("headroom {}/magic.parquet", 2, &["it is no Parquet file, or its end is missing", "--rows"]),
];

/// The files of [`OF_FILES`].
fn files(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for (name, text) in [
        ("bytes", &b"\xff\xfe\0"[..]),
        ("open.toml", b"servers = \n"),
        ("array.toml", b"listen = [\"127.0.0.1:1\"]\n"),
        ("title.toml", b"title = 3\n"),
        ("pools.toml", b"[pools.a]\nservers = [\"127.0.0.1:1\"]\n"),
        ("tls.toml", b"tls = { certificate = \"a.pem\", key = \"a.key\" }\n"),
        (
            "unix.toml",
            b"servers = [\"unix:/run/k.sock\"]\n[edge]\nserver_tls = { authorities = \"a.pem\" }\n",
        ),
        ("locked.key", b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"),
        ("minus.toml", b"connections = -3\n"),
        ("list.toml", b"connections = 1\nrate = { a = 1 }\n"),
        ("times.toml", b"title = \"x\"\nrepetitions = \"many\"\n[stations.servers]\nprogram = \"cache\"\n"),
        ("class.toml", b"class = 3\n"),
        ("db.toml", include_bytes!("../../../model/src/example.toml")),
        ("two.csv", b"a,b\n1,2\n"),
        ("cut.json", b"{ \"title\":\n"),
        ("other.json", b"{ \"other\": 1 }"),
        ("results.json", b"{ \"other\": 1 }"),
        ("no.json", b"title: x"),
        ("magic.parquet", b"PAR1 nothing PAR1"),
        ("empty", b""),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// What is wrong with an answer.
fn faults(ended: &Ended, code: i32, has: &[&str]) -> Vec<String> {
    let said = &ended.errors;
    let lacks = has.iter().filter(|part| !said.contains(**part)).map(|part| format!("lacks {part:?}"));
    let words =
        PROGRAMS_WORDS.iter().filter(|word| said.contains(**word)).map(|word| format!("has {word:?}"));
    let mut found: Vec<String> = lacks.chain(words).collect();
    if ended.code != Some(code) {
        found.push(format!("exit code {:?}", ended.code));
    }
    if !said.lines().any(|line| line.starts_with("error: ")) || !said.contains("  hint: ") {
        found.push("no error with a hint".into());
    }
    found
}

fn each_is_answered(rows: &[Row], folder: &str) {
    let mut wrong = Vec::new();
    for (line, code, has) in rows {
        let line = line.replace("{}", folder);
        let words: Vec<&str> = line.split(' ').collect();
        let ended = Program::begin(&words).ended();
        let faults = faults(&ended, *code, has);
        if !faults.is_empty() {
            wrong.push(format!("krarup {line}: {}\n{}", faults.join(", "), ended.errors));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_mistake_on_the_command_line_is_told_with_what_would_do() {
    each_is_answered(OF_FLAGS, "");
}

#[test]
fn a_mistake_in_a_file_is_told_with_its_place() {
    let folder = fresh("mistakes");
    files(&folder);
    each_is_answered(OF_FILES, folder.to_str().unwrap());
}

#[test]
fn a_program_that_is_not_there_is_told_once_its_instant_has_come() {
    let instant = SystemTime::now() - Duration::from_secs(1);
    let instant = instant.duration_since(UNIX_EPOCH).unwrap().as_nanos().to_string();
    let ended = Program::begin(&["at", &instant, "--", "no-such-program"]).ended();
    let has = ["warning: the instant has passed", "no-such-program: there is no such file", "PATH"];
    assert!(faults(&ended, 1, &has).is_empty(), "{ended:?}");
}

#[test]
fn a_port_that_is_taken_is_told_by_every_service() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for service in [&["proxy", "-m", "127.0.0.1:1"][..], &["cache"], &["broker"]] {
        let ended = Program::begin(&[service, &["--listen", &address]].concat()).ended();
        let has = ["another process listens there", "choose another port"];
        assert!(faults(&ended, ended.code.unwrap_or(0), &has).is_empty(), "{service:?}: {ended:?}");
        assert!(matches!(ended.code, Some(1 | 2)), "{service:?}: {ended:?}");
    }
}

/// A run tries once more what ends with 1, and never what ends with 2.
#[test]
fn what_the_system_refuses_at_the_start_is_no_mistake_in_words() {
    let threads = ["proxy", "-m", "127.0.0.1:1", "--engine", "threads", "--workers", "1"];
    for service in [&threads[..3], &threads, &["cache"]] {
        let mut refused = 0;
        // How many files it has open before depends on what started it.
        for files in 5..=8 {
            let mut command = limited(&format!("-n {files}"));
            command.args(service).args(["--listen", "127.0.0.1:0"]);
            let ended = Program::spawn(command).ended();
            if ["cannot start", "the system refuses"].iter().any(|what| ended.errors.contains(what)) {
                refused += 1;
                assert!(ended.code == Some(1) && !ended.errors.contains("hint"), "{ended:?}");
            }
        }
        assert!(refused > 0, "{service:?}");
    }
}

#[test]
fn counts_and_rates_may_have_a_decimal_prefix() {
    let words = ["load", "--rate", "20k", "--connections", "1k", "--keys", "1M", "--print-config"];
    let ended = Program::begin(&words).ended();
    assert!(ended.success, "{ended:?}");
    for line in ["rate = \"20k\"", "connections = 1000", "keys = 1000000"] {
        assert!(ended.output.lines().any(|one| one == line), "{line}: {}", ended.output);
    }
}

#[test]
fn a_proxy_says_at_its_start_where_keys_lie() {
    let servers = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3";
    for (flags, says, hints) in [
        (&[][..], "every server holds a copy of everything: a write goes to all 3", true),
        (&["--distribution", "all"], "every server holds a copy of everything: a write goes to all 3", false),
        (&["--distribution", "ketama"], "each key on 1 of 3 servers by ketama\n", false),
        (
            &["--distribution", "rendezvous", "--replicas", "2", "--hash", "xxh3"],
            "each key on 2 of 3 servers by rendezvous, hashed by xxh3\n",
            false,
        ),
        (&["--distribution", "jump", "--replicas", "half"], "each key on 2 of 3 servers by jump\n", false),
    ] {
        let words = [&["proxy", "--servers", servers, "--check"], flags].concat();
        let ended = Program::begin(&words).ended();
        assert!(ended.success && ended.errors.contains(says), "{flags:?}: {ended:?}");
        assert_eq!(ended.errors.contains("--distribution ketama places"), hints, "{flags:?}: {ended:?}");
        let begun = [&["proxy", "--servers", servers, "--listen", "127.0.0.1:0"], flags].concat();
        let mut proxy = Program::begin(&begun);
        proxy.says_text(says.trim_end());
        proxy.says_text("listening on ");
    }
}

#[test]
fn a_check_says_nothing_of_servers_that_are_not_looked_up_yet() {
    let servers = "servers = [{ address = \"m.svc:11211\", every_address = true }]\n";
    let text = format!("{servers}distribution = \"ketama\"\n[pools.b]\nservers = [\"127.0.0.1:1\"]\n");
    let ended = Program::begin(&["proxy", "--config", &file("check-many", &text), "--check"]).ended();
    let said = &ended.errors;
    let count = "1 server and as many servers as m.svc:11211 stands for when it is looked up, clients on ";
    assert!(ended.success && said.contains(count), "{ended:?}");
    assert!(said.contains("pool b: every key on the one server"), "{said}");
    assert!(!said.contains("pool main") && !said.contains("100.0 %"), "{said}");
}

#[test]
fn a_check_warns_of_a_path_that_depends_on_where_the_proxy_is_started() {
    for (path, is_warned_of) in [("redline", true), ("/run/redline", false)] {
        let text = format!("servers = [\"127.0.0.1:1\"]\nredline_lock = \"{path}\"\n");
        let ended = Program::begin(&["proxy", "--config", &file("check-path", &text), "--check"]).ended();
        let said = &ended.errors;
        assert!(ended.success && said.contains("the configuration is good"), "{ended:?}");
        assert_eq!(said.contains("warning: redline is another file where"), is_warned_of, "{said}");
    }
}

#[test]
fn a_broker_warns_of_memory_into_which_the_largest_message_never_fits() {
    let mut broker = Program::begin(&["broker", "--listen", "127.0.0.1:0", "--memory", "512"]);
    broker.says_text("never fits into the memory, 512 B; --memory takes a size with its unit");
    broker.says_text("listening on ");
}

#[test]
fn an_address_and_a_port_take_the_place_of_a_socket() {
    let path = file("socket-and-port", "listen = \"unix:/run/k.sock\"\nservers = [\"127.0.0.1:1\"]\n");
    for (flags, listen) in [
        (&["-p", "11311"][..], "127.0.0.1:11311"),
        (&["-l", "0.0.0.0"], "0.0.0.0:11211"),
        (&["-l", "::1"], "[::1]:11211"),
        (&["-l", "[::1]", "-p", "9"], "[::1]:9"),
        (&[], "unix:/run/k.sock"),
    ] {
        let words = [&["proxy", "--config", &path, "--print-config"], flags].concat();
        let ended = Program::begin(&words).ended();
        let line = format!("listen = \"{listen}\"");
        assert!(ended.output.lines().any(|one| one == line), "{flags:?}: {ended:?}");
    }
}

/// The long help of a command and of all that it lists, each with the words before `--help`.
fn helps(words: &[&str]) -> Vec<(Vec<String>, String)> {
    let said = Program::begin(&[words, &["--help"]].concat()).ended().output;
    let list = said.split("\nCommands:\n").nth(1).unwrap_or_default();
    let list = list.lines().take_while(|line| line.starts_with("  "));
    let names =
        list.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    let within: Vec<_> =
        names.filter(|name| *name != "help").flat_map(|name| helps(&[words, &[name]].concat())).collect();
    let own = (words.iter().map(|word| (*word).to_owned()).collect(), said.clone());
    [vec![own], within].concat()
}

#[test]
fn help_has_headings_an_example_the_documents_and_what_exit_codes_say() {
    let help = |words: &[&str]| Program::begin(&[words, &["--help"]].concat()).ended().output;
    let top = help(&[]);
    assert!(top.contains("Exit codes: 0 ") && top.contains("130"), "{top}");
    let pages = helps(&[]);
    for name in ["proxy", "memtier", "model whatif", "health", "completions"] {
        assert!(pages.iter().any(|(words, _)| words.join(" ") == name), "{name} is among them");
    }
    for (words, said) in &pages {
        let name = words.join(" ");
        assert!(said.contains(&format!("\n  krarup {name}")), "an example of `{name}`: {said}");
        assert!(said.contains("\nExample") && said.contains("\nDocuments: "), "`{name}`: {said}");
        let pages = said.split("\nDocuments: ").nth(1).unwrap().trim_end();
        for page in pages.split(", ") {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
            assert!(path.exists(), "`{name}` names {page}");
        }
        for line in said.lines() {
            assert!(line.chars().count() <= 100, "`{name}` has a wide line: {line}");
        }
    }
    for (name, flag) in [("load", "--rate"), ("proxy", "--listen"), ("broker", "--listen")] {
        let said = help(&[name]);
        for heading in ["\nOptions:\n", "\nWhen:\n", "\nConnections:\n", "\nOutput:\n"] {
            let needed = name == "load" || heading != "\nWhen:\n";
            assert!(said.contains(heading) || !needed, "{name} {heading}: {said}");
        }
        let above = said
            .lines()
            .take_while(|line| !line.trim_start().starts_with(flag) && !line.contains(&format!(", {flag} ")));
        let heading = above.filter(|line| line.ends_with(':') && !line.starts_with(' ')).last().unwrap();
        let expected = if flag == "--rate" { "When:" } else { "Connections:" };
        assert_eq!(heading, expected, "{name} {flag}");
    }
}

#[test]
fn completions_know_values_and_the_specs_that_come_with_the_program() {
    for shell in ["bash", "zsh", "fish"] {
        let said = Program::begin(&["completions", shell]).ended().output;
        for word in ["rendezvous", "murmur3", "asl2018/3.1", "failover", "batch"] {
            assert!(said.contains(word), "{shell} lacks {word}");
        }
    }
    let bash = Program::begin(&["completions", "bash"]).ended().output;
    for (flag, words) in [
        ("--sharded", "true false"),
        ("--allow", "flush_all verbosity"),
        ("--arrivals", "paced poisson bursty:"),
        ("--key-law", "uniform sequential parted zipf gaussian hot"),
        ("--fail-if", "throughput response p99"),
    ] {
        let mut after = bash.lines().skip_while(|line| line.trim() != format!("{flag})")).skip(1);
        let line = after.next().unwrap_or_default();
        assert!(line.contains(&format!("compgen -W \"{words}\"")), "{flag}: {line}");
    }
    assert!(bash.contains("compgen -W \"get= mget= "), "the commands of a mix");
}
