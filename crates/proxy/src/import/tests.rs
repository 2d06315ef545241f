//! What is translated is what the file said, and what is not is named.

use serde::Deserialize;

use super::Imported;
use crate::Config;
use crate::placement::tests::golden_keys;
use crate::route::Routes;

/// The file without its comments, which the proxy understands.
fn settings(text: &str) -> String {
    let toml = Imported::read(text).unwrap().toml();
    Config::parse(&toml, "imported").unwrap().check().unwrap_or_else(|why| panic!("{why}: {toml}"));
    let lines = toml.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| format!("{line}\n")).collect::<String>().trim_start().to_owned()
}

fn notes(text: &str) -> String {
    Imported::read(text).unwrap().notes.join("\n")
}

fn refused(text: &str) -> String {
    Imported::read(text).unwrap_err().to_string()
}

#[test]
fn a_pool_of_twemproxys_keeps_its_placement() {
    assert_eq!(
        settings(
            "alpha:\n  listen: 127.0.0.1:22121\n  hash: murmur\n  hash_tag: \"{}\"\n  distribution: ketama\n  timeout: 400\n  \
             auto_eject_hosts: true\n  server_retry_timeout: 2000\n  server_failure_limit: 3\n  preconnect: true\n  servers:\n   - \
             127.0.0.1:11212:1\n   - 127.0.0.1:11213:2 second\n   - ::1:11214:1\n"
        ),
        "listen = \"127.0.0.1:22121\"\ntimeout = \"400ms\"\nconnect_timeout = \"400ms\"\neject_after = 3\neject_for = \"2000ms\"\n\n\
         [pools.alpha]\ndistribution = \"ketama\"\nhash = \"murmur\"\nhash_tag = \"{}\"\nwhen_down = \"next\"\nservers = [\n  \
         { address = \"127.0.0.1:11213\", weight = 2, name = \"second\" },\n  \"[::1]:11214\",\n  \"127.0.0.1:11212\",\n]\n"
    );
}

#[test]
fn several_pools_of_twemproxys_are_several_pools_and_addresses() {
    let text = "a:\n  listen: 127.0.0.1:1\n  servers: [\"127.0.0.1:11212:1\"]\nb b:\n  listen: 0.0.0.0:2\n  distribution: modula\n  \
                timeout: 100\n  servers:\n  - 127.0.0.1:11213:1\n";
    assert_eq!(
        settings(text),
        "listen = \"127.0.0.1:1\"\ntimeout = \"100ms\"\nconnect_timeout = \"100ms\"\ndefault_pool = \"a\"\n\n[pools.a]\n\
         distribution = \"ketama\"\nhash = \"fnv1a_64\"\nservers = [\n  \"127.0.0.1:11212\",\n]\n\n[pools.\"b b\"]\nlisten = \
         \"0.0.0.0:2\"\ndistribution = \"modulo\"\nhash = \"fnv1a_64\"\nservers = [\n  \"127.0.0.1:11213\",\n]\n"
    );
    assert!(notes(text).contains("timeout differs"));
}

#[test]
fn unix_sockets_and_what_holds_for_all_connections_are_translated() {
    let text = "a:\n  listen: /run/a.sock 0660\n  tcpkeepalive: false\n  reuseport: true\n  timeout: 1\n  servers:\n  - /run/1.sock:1\n  \
                - /run/2.sock:3 two\n";
    assert_eq!(
        settings(text),
        "listen = \"unix:/run/a.sock\"\ntimeout = \"1ms\"\nconnect_timeout = \"1ms\"\n\n[edge]\nsocket_mode = \"0660\"\nkeep_alive = \
         \"0s\"\nreuse_port = true\n\n[pools.a]\ndistribution = \"ketama\"\nhash = \"fnv1a_64\"\nservers = [\n  { address = \
         \"unix:/run/2.sock\", weight = 3, name = \"two\" },\n  { address = \"unix:/run/1.sock\", name = \"/run/1.sock:\" },\n]\n"
    );
    assert_eq!(notes(text), "");
}

/// Every key of twemproxy's is either translated or named.
#[test]
fn no_key_of_twemproxys_is_dropped_in_silence() {
    let with = |key: &str, value: &str| {
        format!(
            "a:\n  listen: 127.0.0.1:1\n  timeout: 5\n  {key}: {value}\n  servers:\n  - 127.0.0.1:11212:1\n"
        )
    };
    for (key, value) in [("client_connections", "10"), ("redis_db", "0"), ("distribution", "random")] {
        assert!(notes(&with(key, value)).contains(key), "{key}");
    }
    assert_eq!(notes(&with("backlog", "512")), "");
    assert!(settings(&with("backlog", "512")).contains("\n[edge]\nbacklog = 512\n"));
    assert_eq!(notes(&with("preconnect", "true")), "");
    assert_eq!(notes(&with("server_connections", "1")), "");
    assert_eq!(notes(&with("server_connections", "4")), "");
    assert!(settings(&with("server_connections", "4")).contains("\nserver_connections = 4\n"));
    assert!(notes(&with("server_connections", "100")).contains("64 are the most"));
}

#[test]
fn what_would_lose_keys_is_refused_with_its_line() {
    let pool = |lines: &str| format!("a:\n  listen: 127.0.0.1:1\n{lines}");
    let servers = "  servers:\n  - 127.0.0.1:11212:1\n";
    for (text, said) in [
        (pool(&format!("  hash: sha\n{servers}")), "line 3: hash = sha"),
        (pool(&format!("  distribution: ring\n{servers}")), "line 3: distribution = ring"),
        (pool(&format!("  hash_tag: x\n{servers}")), "line 3: hash_tag = x"),
        (pool(&format!("  timeout: soon\n{servers}")), "line 3: timeout = soon is no number"),
        (pool(&format!("  colour: red\n{servers}")), "line 3: colour = red is no key"),
        (pool(&format!("  hash: md5\n  hash: md5\n{servers}")), "line 4: a has two of `hash`"),
        (pool("  servers:\n  - 127.0.0.1:11212\n"), "line 4: `127.0.0.1:11212` is not of the form"),
        (pool("  servers:\n  - 127.0.0.1:11212:0\n"), "line 4"),
        (pool("  servers:\n  - /tmp/socket\n"), "line 4: `/tmp/socket` is not of the form"),
        (pool(""), "line 1: a has no servers"),
        (format!("a:\n{servers}"), "line 1: a does not say where it listens"),
        (pool(&format!("  redis: true\n{servers}")), "no pool that speaks memcached"),
        ("a: b: c\n".into(), "line 1"),
        ("a:\n  servers: {}\n".into(), "line 2: `servers`"),
        (String::new(), "no pools"),
    ] {
        assert!(refused(&text).contains(said), "{text}: {}", refused(&text));
    }
}

#[test]
fn a_pool_route_of_mcrouters_is_placed_as_mcrouter_does() {
    let text = r#"{ // the simplest
        "pools": { "A": { "servers": [ "10.0.0.1:11211", "10.0.0.2:11211:ascii:plain" ], "server_timeout": 500 } },
        "route": "PoolRoute|A" /* "no" // comment */ }"#;
    assert_eq!(
        settings(text),
        "listen = \"127.0.0.1:11211\"\ntimeout = \"500ms\"\n\n[pools.A]\ndistribution = \"ch3\"\nservers = [\n  \
         \"10.0.0.1:11211\",\n  \"10.0.0.2:11211\",\n]\n"
    );
}

/// Two pools of two hosts, a small one, and a route.
fn mcrouter(route: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["a1:1", "a2:1"]}}, "B": {{"servers": ["b1:1", "b2:1"]}}, "S": {{"servers": ["s:1"]}},
            "T": {{"servers": ["t:1"]}}}}, "route": {route}}}"#
    )
}

#[test]
fn reads_from_one_and_writes_to_all_make_one_pool_of_equals() {
    let text = mcrouter(
        r#"{"type": "OperationSelectorRoute", "default_policy": "AllSyncRoute|Pool|A",
            "operation_policies": {"get": "LatestRoute|Pool|A", "set": "AllMajorityRoute|Pool|A"}}"#,
    );
    let settings = settings(&text);
    for line in [
        "distribution = \"all\"",
        "writes = \"all\"",
        "reads = \"primary\"",
        "fall_back = [\"error\"]",
        "\"a1:1\",\n  \"a2:1\",",
    ] {
        assert!(settings.contains(line), "{line}: {settings}");
    }
    let single = mcrouter(r#"{"type": "AllFastestRoute", "children": ["PoolRoute|S", "PoolRoute|T"]}"#);
    assert!(Imported::read(&single).unwrap().toml().contains("[pools.S-T]"));
    assert!(notes(&single).contains("gets went to all servers"));
}

#[test]
fn writes_wait_as_the_strictest_operation_does_and_what_differs_is_noted() {
    let selector = |others: &str, policies: &str| {
        mcrouter(&format!(
            r#"{{"type": "OperationSelectorRoute", "default_policy": "{others}|Pool|A", "operation_policies": {{{policies}}}}}"#
        ))
    };
    for (others, policies, writes, said) in [
        (
            "AllFastestRoute",
            r#""set": "AllSyncRoute|Pool|A", "delete": "AllSyncRoute|Pool|A""#,
            "all",
            "(delete: all, set: all, default_policy: first)",
        ),
        (
            "AllAsyncRoute",
            r#""delete": "AllSyncRoute|Pool|A""#,
            "all",
            "(delete: all, default_policy: async)",
        ),
        ("AllAsyncRoute", r#""delete": "AllInitialRoute|Pool|A""#, "async", "answered at once"),
        // How gets are answered says nothing of writes.
        ("AllFastestRoute", r#""get": "AllSyncRoute|Pool|A""#, "first", "gets went to all servers"),
        (
            "LatestRoute",
            r#""set": "AllMajorityRoute|Pool|A""#,
            "quorum",
            "the writes of default_policy went to one server",
        ),
        (
            "AllSyncRoute",
            r#""get": "LatestRoute|Pool|A", "gets": "RandomRoute|Pool|A""#,
            "all",
            "here all of them do as get",
        ),
    ] {
        let text = selector(others, policies);
        let (settings, notes) = (settings(&text), notes(&text));
        assert!(settings.contains(&format!("\nwrites = \"{writes}\"\n")), "{text}: {settings}");
        assert!(notes.contains(said), "{text}: {notes}");
    }
    // A handle that only reads writes nothing.
    let text = selector("LatestRoute", r#""get": "AllSyncRoute|Pool|A""#);
    assert!(refused(&text).contains("writes too, go to one"), "{}", refused(&text));
}

#[test]
fn handles_around_a_pool_become_its_settings() {
    for (route, lines) in [
        (
            r#"{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B", "exptime": 60}"#,
            vec!["[pools.B]", "warm_from = \"B\"", "warm_ttl = \"60s\""],
        ),
        (
            r#"{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}"#,
            vec!["gutter = \"B\"", "gutter_ttl = \"720h\""],
        ),
        (
            r#"{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": "PoolRoute|B", "failover_exptime": 9}"#,
            vec!["gutter = \"B\"", "gutter_ttl = \"9s\""],
        ),
        (
            r#"{"type": "PoolRoute", "pool": "A", "shadows":
                [{"target": "PoolRoute|B", "index_range": [0, 2], "key_fraction_range": [0.25, 0.5]}]}"#,
            vec!["shadow = \"B\"", "shadow_share = 0.25"],
        ),
        (
            r#"{"type": "PoolRoute", "pool": "A", "shadows": [{"target": "PoolRoute|S"},
                {"target": "PoolRoute|B", "index_range": [0, 2], "key_fraction_range": [0, 0.5], "requests_fraction": 0.25}]}"#,
            vec!["shadow = \"B\"", "shadow_share = 0.125"],
        ),
        (
            r#"{"type": "ShadowRoute", "children": "PoolRoute|A", "shadows":
                [{"target": "AllSyncRoute|Pool|A", "index_range": [0, 1], "key_fraction_range": [0, 1]}]}"#,
            vec![
                "shadow = \"A-2\"",
                "shadow_share = 1.0",
                "[pools.A]",
                "[pools.A-2]",
                "distribution = \"all\"",
            ],
        ),
        (
            r#"{"type": "OutstandingLimitRoute", "target": "PoolRoute|A", "max_outstanding": 7}"#,
            vec!["concurrency = 7"],
        ),
        (
            r#"{"type": "ModifyExptimeRoute", "target": "PoolRoute|A", "exptime": 60, "action": "min"}"#,
            vec!["ttl_cap = \"60s\""],
        ),
        (
            r#"{"type": "PrefixSelectorRoute", "policies": {"b:": "PoolRoute|B"}, "wildcard": "PoolRoute|A"}"#,
            vec!["default_pool = \"A\"", "[[routes]]\nprefix = \"b:\"\npool = \"B\""],
        ),
        (
            r#"{"type": "HashRoute", "children": "Pool|A", "hash_func": "Ch3"}"#,
            vec!["distribution = \"ch3\""],
        ),
    ] {
        let settings = settings(&mcrouter(route));
        for line in lines {
            assert!(settings.contains(line), "{route}: {line}: {settings}");
        }
    }
}

#[test]
fn what_a_route_of_mcrouter_says_beside_its_pool_is_noted() {
    let file = mcrouter(
        r#"{"type": "PoolRoute", "pool": "A", "hash": "Ch3", "shard_splits": {"user": 4}, "bucketize": true}"#,
    );
    let notes = notes(&file);
    for key in ["shard_splits", "bucketize"] {
        assert!(notes.contains(&format!("A: {key} of its route is not translated")), "{notes}");
    }
    assert!(!notes.contains("hash"), "{notes}");
}

#[test]
fn a_shadow_that_mcrouter_sends_nothing_is_left_out() {
    for shadow in [
        r#""index_range": [0, 2]"#,
        r#""key_fraction_range": [0, 1]"#,
        r#""index_range": [2, 9], "key_fraction_range": [0, 1]"#,
        r#""index_range": [0, 2], "key_fraction_range": [0, 1], "requests_fraction": 0.0"#,
        r#""index_range": [0, 2], "key_fraction_range_rv": "share""#,
    ] {
        let text = mcrouter(&format!(
            r#"{{"type": "PoolRoute", "pool": "A", "shadows": [{{"target": "PoolRoute|B", {shadow}}}]}}"#
        ));
        let settings = settings(&text);
        assert!(!settings.contains("shadow") && !settings.contains("[pools.B]"), "{shadow}: {settings}");
        assert!(notes(&text).contains("A: a shadow is left out"), "{shadow}: {}", notes(&text));
    }
}

#[test]
fn weights_by_which_no_key_moves_are_no_hindrance() {
    for (servers, weights, route) in [
        (r#""a:1", "b:1""#, "[1.0, 1]", r#""PoolRoute|A""#),
        (r#""a:1""#, "[0.5]", r#""PoolRoute|A""#),
        (r#""a:1", "b:1""#, "[1.0, 0.2]", r#"{"type": "PoolRoute", "pool": "A", "hash": "Ch3"}"#),
        (r#""a:1", "b:1""#, "[1.0, 0.2]", r#"{"type": "HashRoute", "children": "Pool|A"}"#),
    ] {
        let text = format!(
            r#"{{"pools": {{"A": {{"servers": [{servers}], "weights": {weights}}}}}, "route": {route}}}"#
        );
        assert!(settings(&text).contains("distribution = \"ch3\""), "{text}");
    }
    for (weights, route) in [
        ("[1.0, 0.2]", r#""PoolRoute|A""#),
        ("[1.0]", r#"{"type": "PoolRoute", "pool": "A", "hash": {}}"#),
        ("{}", r#""PoolRoute|A""#),
    ] {
        let text = format!(
            r#"{{"pools": {{"A": {{"servers": ["a:1", "b:1"], "weights": {weights}}}}}, "route": {route}}}"#
        );
        assert!(refused(&text).contains("pool A: its `weights`"), "{text}: {}", refused(&text));
    }
}

#[test]
fn no_pool_waits_less_than_it_did() {
    let text = |first: &str, second: &str| {
        format!(
            r#"{{"pools": {{"A": {{"servers": ["a:1"]{first}}}, "B": {{"servers": ["b:1"]{second}}}}},
                "route": {{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}}}"#
        )
    };
    let of = |milliseconds| format!(", \"server_timeout\": {milliseconds}");
    for (first, second, timeout, differs, standard) in [
        (String::new(), of(50), 1_000, true, true),
        (String::new(), of(5_000), 5_000, true, true),
        (String::new(), String::new(), 1_000, false, true),
        (of(50), of(60), 60, true, false),
        (of(50), of(50), 50, false, false),
    ] {
        let text = text(&first, &second);
        assert!(settings(&text).contains(&format!("\ntimeout = \"{timeout}ms\"\n")), "{text}");
        assert_eq!(notes(&text).contains("server_timeout differs"), differs, "{text}");
        assert_eq!(notes(&text).contains("mcrouter's -t"), standard, "{text}");
    }
}

#[test]
fn of_handles_within_each_other_the_narrower_holds_and_what_is_left_out_is_noted() {
    for (route, line) in [
        (
            r#"{"type": "ModifyExptimeRoute", "exptime": 3600, "action": "min", "target":
                {"type": "ModifyExptimeRoute", "exptime": 60, "action": "min", "target": "PoolRoute|A"}}"#,
            "ttl_cap = \"60s\"",
        ),
        (
            r#"{"type": "OutstandingLimitRoute", "max_outstanding": 1000, "target":
                {"type": "OutstandingLimitRoute", "max_outstanding": 10, "target": "PoolRoute|A"}}"#,
            "concurrency = 10\n",
        ),
        (
            r#"{"type": "OutstandingLimitRoute", "max_outstanding": 10, "target":
                {"type": "OutstandingLimitRoute", "max_outstanding": 1000, "target": "PoolRoute|A"}}"#,
            "concurrency = 10\n",
        ),
    ] {
        let settings = settings(&mcrouter(route));
        assert!(settings.contains(line), "{route}: {settings}");
    }
    let text = mcrouter(
        r#"{"type": "FailoverRoute", "children":
            [{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}, "PoolRoute|S"]}"#,
    );
    let settings = settings(&text);
    assert!(settings.contains("gutter = \"B\"") && !settings.contains("[pools.S]"), "{settings}");
    assert!(notes(&text).contains("gutter: of handles within each other only that of the innermost"));
}

#[test]
fn an_alias_that_stands_twice_is_one_route() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}},
        "routes": [{"aliases": ["/a/b/", "/a/b/"], "route": "PoolRoute|A"},
                   {"aliases": ["/a/b/"], "route": "PoolRoute|B"}]}"#;
    let settings = settings(text);
    assert_eq!(settings.matches("prefix = \"/a/b/\"").count(), 1, "{settings}");
    assert!(notes(text).contains("/a/b/: only the first route of that alias is translated"));
}

#[test]
fn routing_prefixes_become_routes_that_take_them_off() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}},
        "routes": [{"aliases": ["/here/a/"], "route": "PoolRoute|A"}, {"aliases": ["/there/b/"], "route": "PoolRoute|B"}]}"#;
    assert!(settings(text).ends_with("[[routes]]\nprefix = \"/there/b/\"\npool = \"B\"\nstrip = true\n"));
    assert!(notes(text).contains("-R"));
}

#[test]
fn behind_an_alias_prefixes_choose_as_without_one() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"]}, "U": {"servers": ["u:1"]}, "W": {"servers": ["w:1"]}},
        "routes": [{"aliases": ["/here/a/"], "route": "PoolRoute|A"}, {"aliases": ["/there/b/", "/there/c/"], "route":
            {"type": "PrefixSelectorRoute", "policies": {"user:": "PoolRoute|U"}, "wildcard": "PoolRoute|W"}}]}"#;
    let topology = Config::parse(&settings(text), "ours").unwrap().topology().unwrap();
    let routes = Routes::new(topology.routes.clone());
    for (key, server, sent) in [
        ("/here/a/user:1", "a:1", "user:1"),
        ("/there/b/user:1", "u:1", "user:1"),
        ("/there/b/x", "w:1", "x"),
        ("/there/c/user:1", "u:1", "user:1"),
    ] {
        let route = routes.find(key.as_bytes()).unwrap();
        let found = &topology.servers[topology.pools[route.pool].servers[0]];
        let seen = [&route.add[..], &key.as_bytes()[route.stripped()..]].concat();
        assert_eq!((&**found, &seen[..]), (server, sent.as_bytes()), "{key}");
    }
    // Where the first alias has prefixes, they hold for keys without an alias, too.
    let text = text.replace(r#"{"aliases": ["/here/a/"], "route": "PoolRoute|A"}, "#, "");
    let topology = Config::parse(&settings(&text), "ours").unwrap().topology().unwrap();
    let prefixes = topology.routes.iter().map(|route| String::from_utf8_lossy(&route.prefix));
    assert_eq!(
        prefixes.collect::<Vec<_>>(),
        ["user:", "/there/b/", "/there/b/user:", "/there/c/", "/there/c/user:"]
    );
}

#[test]
fn handles_without_a_counterpart_are_named() {
    for (route, said) in [
        (r#""NullRoute""#, "NullRoute has no counterpart"),
        (r#"{"type": "PoolRoute", "pool": "A", "hash": "Crc32"}"#, "hash function Crc32"),
        (r#"{"type": "PoolRoute", "pool": "A", "hash": {"hash_func": "Ch3", "salt": "x"}}"#, "`salt`"),
        (r#""PoolRoute|Z""#, "there is no pool Z"),
        (
            r#"{"type": "PoolRoute", "pool": "A", "shadows": [{"target": "PoolRoute|B", "keys_to_shadow": ["a"]}]}"#,
            "`keys_to_shadow`",
        ),
        (
            r#"{"type": "ShadowRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}"#,
            "only one handle is translated",
        ),
        (r#""LatestRoute|Pool|A""#, "writes too, go to one"),
        (
            r#"{"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}"#,
            "over pools of several servers (A)",
        ),
        (
            r#"{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {"get": "PoolRoute|B"}}"#,
            "operations that go to different servers",
        ),
        (r#"{"type": "WarmUpRoute", "cold": "PoolRoute|A"}"#, "WarmUpRoute has no `warm`"),
        ("7", "7 is no route handle"),
    ] {
        assert!(refused(&mcrouter(route)).contains(said), "{route}: {}", refused(&mcrouter(route)));
    }
}

#[test]
fn no_text_however_broken_makes_the_reader_fall_over() {
    let text = mcrouter(r#"{"type": "FailoverRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}"#);
    for end in 0..text.len() {
        _ = Imported::read(&text[..end]);
    }
    let text = "a:\n  listen: 127.0.0.1:1\n  hash_tag: \"{}\"\n  servers:\n  - 127.0.0.1:11212:1 näme\n";
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        _ = Imported::read(&text[..end]);
    }
}

#[test]
fn an_address_that_is_none_is_refused() {
    let text = "a:\n  listen: 127.0.0.1:2212/*1\n  servers:\n  - 127.0.0.1:2212:1\n";
    let why = refused(text);
    assert!(why.contains("is not an address") && !why.contains('\n'), "{why}");
}

/// What twemproxy answered, written down by `scripts/golden-placement.py`.
#[derive(Deserialize)]
struct Golden {
    answers: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    distribution: String,
    hash: String,
    tag: Option<String>,
    servers: Vec<String>,
    /// For each key the place of its server in the list, as a digit in base 36.
    placed: String,
}

/// Through the whole of it: its file, ours, the pool, the key.
#[test]
fn every_key_lies_where_twemproxy_puts_it() {
    let golden: Golden = serde_json::from_str(include_str!("../../tests/placement/twemproxy.json")).unwrap();
    let keys = golden_keys();
    assert!(golden.answers.len() > 30 && keys.len() > 400, "the vectors are whole");
    for Answer { distribution, hash, tag, servers, placed } in golden.answers {
        let tag = tag.map_or(String::new(), |tag| format!("  hash_tag: \"{tag}\"\n"));
        let members: String = servers.iter().map(|server| format!("  - {server}\n")).collect();
        let theirs = format!(
            "pool:\n  listen: 127.0.0.1:1\n  distribution: {distribution}\n  hash: {hash}\n{tag}  servers:\n{members}"
        );
        let ours = Config::parse(&Imported::read(&theirs).unwrap().toml(), "ours").unwrap();
        ours.check().unwrap();
        let topology = ours.topology().unwrap();
        let pool = &topology.pools[0];
        let placement = pool.placement.as_ref().unwrap();
        assert_eq!(placed.len(), keys.len());
        for (key, digit) in keys.iter().zip(placed.chars()) {
            let theirs = &servers[digit.to_digit(36).unwrap() as usize];
            let address = theirs.split(' ').next().unwrap().rsplit_once(':').unwrap().0;
            let scheme = if address.starts_with('/') { "unix:" } else { "" };
            let ours = &topology.servers[pool.servers[placement.primary(key)]];
            assert_eq!(
                *ours,
                format!("{scheme}{address}"),
                "{distribution} {hash} over {servers:?}: key {}",
                key.escape_ascii()
            );
        }
    }
}
