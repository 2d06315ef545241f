//! The keys that take most, as `stats hotkeys`, `/hotkeys`, `/metrics` and `krarup top` tell them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;

use crate::monitoring::get;
use crate::support::conversation::memcached;
use crate::support::peer::Peer;
use crate::support::process::Program;
use crate::support::{file, until};

/// A proxy before two memcached that divide the keys, with so many loops; where it is asked, and
/// where it listens.
fn proxy(servers: &[Program], more: &str) -> (Program, SocketAddr, SocketAddr) {
    let config = file("hot-keys", &format!("admin = \"127.0.0.1:0\"\ndistribution = \"ketama\"\n{more}"));
    let names: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    let words = ["proxy", "--listen", "127.0.0.1:0", "--config", &config, "--servers", &names[0], &names[1]];
    let mut proxy = Program::begin(&words);
    let admin = proxy
        .says(|line| line.trim().strip_prefix("metrics on http://")?.strip_suffix("/metrics")?.parse().ok());
    let address = proxy.says(|line| line.strip_prefix("listening on ")?.trim().parse().ok());
    (proxy, admin, address)
}

/// Rounds of a hundred requests at once: every second is a get of one key, each other of a key of
/// its own, as long.
fn load(client: &mut Peer, from: usize) {
    for round in 0..20 {
        let key = |place: usize| match place % 2 {
            0 => "hot:00000000".to_owned(),
            _ => format!("cold{:08}", from + round * 100 + place),
        };
        let text: String = (0..100).map(|place| format!("get {}\r\n", key(place))).collect();
        client.send(text.as_bytes()).unwrap();
        client.expect("END\r\n".repeat(100).as_bytes()).unwrap();
    }
}

fn hot_keys(admin: SocketAddr) -> Value {
    let (status, told) = get(admin, "/hotkeys");
    assert_eq!(status, 200, "{told}");
    serde_json::from_str(&told).unwrap()
}

/// The words of a line of `stats hotkeys`.
fn words(line: &str) -> BTreeMap<&str, &str> {
    line.split(' ').map(|word| word.split_once('=').unwrap()).collect()
}

#[test]
fn a_key_with_half_of_the_load_is_the_first_wherever_it_is_told() {
    let servers = [memcached(), memcached()];
    let (proxy, admin, address) = proxy(&servers, "hot_keys = \"name\"\nthreads = 2\nwhen_down = \"next\"\n");
    let mut clients = [Peer::connect(address), Peer::connect(address)];
    let mut loaded = 0;
    // What is told is of the last seconds: on a machine that is slow, the load comes once more.
    until("the hot key is told", || {
        for client in &mut clients {
            load(client, loaded);
            loaded += 2_000;
        }
        let stats = clients[0].stats("hotkeys");
        assert_eq!(stats["hot_keys"], "name");
        let json = hot_keys(admin);
        assert_eq!(json["keys"], "name");
        let pool = &json["pools"][0];
        let (Some(by_time), Some(by_bytes)) = (stats.get("main:time:1"), stats.get("main:bytes:1")) else {
            return false;
        };
        // They are asked one after the other, and what was told may be too old meanwhile.
        if ["by_time", "by_bytes"].iter().any(|list| pool[list][0].is_null()) {
            return false;
        }
        let (by_time, by_bytes) = (words(by_time), words(by_bytes));
        for (told, list) in [(&by_time, "by_time"), (&by_bytes, "by_bytes")] {
            assert_eq!(told["name"], "\"hot:00000000\"", "{stats:?}");
            assert_eq!(pool[list][0]["name"], "hot:00000000", "{json:#}");
            assert_eq!(pool[list][0]["key"], told["key"]);
            assert_eq!(pool[list][0]["server"], told["server"]);
            let other = servers.iter().map(|one| one.address().to_string()).find(|one| told["server"] != one);
            assert_eq!(pool[list][0]["heir"].as_str(), other.as_deref(), "{json:#}");
        }
        let share = |end: &str| by_bytes[end].parse::<f64>().unwrap();
        // Four standard errors of 500 samples, one of two of which is of the key; of fewer where
        // the load before was too long ago, as wide as the interval.
        let four_errors = (share("high") - share("low")).max(0.09);
        assert!((share("share") - 0.5).abs() < four_errors, "{by_bytes:?}");
        assert!(share("low") < share("share") && share("share") < share("high"));
        assert!(by_time["of_server"].parse::<f64>().unwrap() > 0.2, "{by_time:?}");
        assert!(by_time.contains_key("coalescing_saves") && by_time.contains_key("copy_saves"));
        pool["by_time"].as_array().unwrap().len() == 1
    });
    let address = admin.to_string();
    let top = ["top", &address, "--page", "hotkeys", "--every", "50ms", "--looks", "1"];
    until("metrics and the screen tell it", || {
        load(&mut clients[0], loaded);
        loaded += 2_000;
        let (_, metrics) = get(admin, "/metrics");
        let top = Program::begin(&top).ended();
        assert!(top.success, "{top:?}");
        metrics.contains("\nkrarup_hot_key_ratio{pool=\"main\"} 0.") && top.output.contains("hot:00000000")
    });
    assert!(proxy.stop().success);
}

/// A name is told only where the configuration says so; without a word of it, a digest is.
#[test]
fn names_are_told_only_where_they_may_be() {
    let servers = [memcached(), memcached()];
    for (more, keys) in [("", "digest"), ("hot_keys = \"off\"\n", "off")] {
        let (proxy, admin, address) = proxy(&servers, more);
        let mut client = Peer::connect(address);
        load(&mut client, 0);
        until("what has ended is told", || {
            load(&mut client, 0);
            let json = hot_keys(admin);
            assert!(json["keys"] == keys && !json.to_string().contains("hot:"), "{json}");
            let stats = client.stats("hotkeys");
            assert!(
                stats["hot_keys"] == keys && !stats.values().any(|value| value.contains("name=")),
                "{stats:?}"
            );
            keys == "off" || stats.contains_key("main:time:1")
        });
        assert!(keys == "digest" || hot_keys(admin)["pools"].as_array().unwrap().is_empty());
        assert!(proxy.stop().success);
    }
}
