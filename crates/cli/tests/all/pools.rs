//! Pools through the binary: keys at the servers they belong to, and another configuration while
//! requests are under way.

use crate::support;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::conversation::memcached;
use crate::support::file;
use crate::support::peer::{Peer, asked, listen};
use crate::support::process::{Port, Program};
use rustix::process::Signal;

fn items(server: &Program) -> u64 {
    server.connect().count("curr_items")
}

fn proxy(config: &str) -> Program {
    Program::krarup(&["proxy", "--listen", "127.0.0.1:0", "--config", config])
}

fn store(client: &mut Peer, keys: impl IntoIterator<Item = String>) {
    for key in keys {
        client.send(format!("set {key} 0 0 1\r\nx\r\n").as_bytes()).unwrap();
        client.expect(b"STORED\r\n").unwrap();
    }
}

/// The partitioning middleware of 2016: keys are placed on a ring, written to the primary and its
/// neighbour, and read from the primary by its readers.
#[test]
fn a_partitioned_pool_holds_each_key_as_often_as_it_says() {
    let servers: Vec<_> = (0..3).map(|_| memcached()).collect();
    let names: Vec<_> = servers.iter().map(|server| format!("\"{}\"", server.address())).collect();
    let text = format!(
        "servers = [{}]\ndistribution = \"ketama\"\nhash = \"md5\"\nreplicas = \"half\"\nreads = \"primary\"\nreaders = 4\n",
        names.join(", ")
    );
    let proxy = proxy(&file("pools-2016.toml", &text));
    let mut client = proxy.connect();
    store(&mut client, (0..300).map(|key| format!("key-{key}")));
    let counts: Vec<_> = servers.iter().map(items).collect();
    assert_eq!(counts.iter().sum::<u64>(), 600, "{counts:?}");
    assert!(counts.iter().all(|&count| count > 100 && count < 300), "{counts:?}");
    let keys: Vec<_> = (0..300).rev().map(|key| format!("key-{key}")).collect();
    for keys in keys.chunks(20) {
        client.send(format!("get {} nobody\r\n", keys.join(" ")).as_bytes()).unwrap();
        for key in keys {
            client.expect(format!("VALUE {key} 0 1\r\nx\r\n").as_bytes()).unwrap();
        }
        client.expect(b"END\r\n").unwrap();
    }
    let pools = client.stats("pools");
    assert_eq!((&*pools["main:replicas"], &*pools["main:requests"]), ("2", "315"));
    client.send(b"flush_all\r\n").unwrap();
    client.expect(b"CLIENT_ERROR").unwrap();
}

#[test]
fn prefixes_lead_to_pools_and_each_pool_may_have_its_own_address() {
    let (general, users) = (memcached(), memcached());
    let text = format!(
        "servers = [\"{}\"]\n[pools.users]\nlisten = \"127.0.0.1:0\"\nservers = [\"{}\"]\n\
         [[routes]]\nprefix = \"user:\"\npool = \"users\"\nstrip = true\nadd = \"u/\"\n",
        general.address(),
        users.address()
    );
    let mut proxy = proxy(&file("pools-routes.toml", &text));
    let own: std::net::SocketAddr =
        proxy.says(|line| line.strip_prefix("listening on ")?.trim().parse().ok());
    let mut client = proxy.connect();
    store(&mut client, ["user:1".into(), "a".into()]);
    client.send(b"get a user:1\r\n").unwrap();
    client.expect(b"VALUE a 0 1\r\nx\r\nVALUE user:1 0 1\r\nx\r\nEND\r\n").unwrap();
    let mut there = users.connect();
    there.send(b"get u/1\r\n").unwrap();
    there.expect(b"VALUE u/1 0 1\r\nx\r\nEND\r\n").unwrap();
    // In base64 user:1 is dXNlcjox, and the server, which knows u/1, told so either way.
    client
        .send(b"mg user:1 k v\r\nmg dXNlcjox b k v\r\nms dXNlcjoy 1 b k\r\ny\r\nmg user:2 k v\r\n")
        .unwrap();
    client.expect(b"VA 1 kuser:1\r\nx\r\nVA 1 kuser:1\r\nx\r\n").unwrap();
    client.expect(b"HD kdXNlcjoy b\r\nVA 1 kdXNlcjoy b\r\ny\r\n").unwrap();
    client.send(b"md user:2\r\nme user:1\r\n").unwrap();
    client.expect(b"HD\r\nME user:1 ").unwrap();
    client.line().unwrap();
    assert_eq!((items(&general), items(&users)), (1, 1));
    store(&mut Peer::connect(own), ["b".into()]);
    assert_eq!((items(&general), items(&users)), (1, 2));
    assert_eq!(client.stats("routes")["user:"], "users as u/...");
}

#[test]
fn another_configuration_takes_over_without_a_lost_request() {
    let servers: Vec<_> = (0..3).map(|_| memcached()).collect();
    let text = |places: &[usize]| {
        let names: Vec<_> = places.iter().map(|&place| format!("\"{}\"", servers[place].address())).collect();
        format!("servers = [{}]\n", names.join(", "))
    };
    let path = file("pools-reload.toml", &text(&[0, 1]));
    let mut proxy = proxy(&path);
    let (done, answered) = (AtomicBool::new(false), support::Progress::default());
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (mut peer, done, answered) = (proxy.connect(), &done, &answered);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    // Enough at once that some are under way whenever the configuration changes.
                    let requests = format!("set k{client} 0 0 1\r\nx\r\nget k{client}\r\n").repeat(50);
                    peer.send(requests.as_bytes()).unwrap();
                    for _ in 0..50 {
                        peer.expect(format!("STORED\r\nVALUE k{client} 0 1\r\nx\r\nEND\r\n").as_bytes())
                            .unwrap();
                        answered.add(2);
                    }
                }
            });
        }
        // The last two leave one server that holds everything all the time, so that every get finds
        // its key.
        for (round, places) in [&[0, 1][..], &[1], &[0, 1], &[1, 0]].into_iter().enumerate() {
            let before = answered.count();
            fs::write(&path, text(places)).unwrap();
            proxy.signal(Signal::HUP);
            proxy.says_text("the configuration was read again and holds from now on");
            assert!(answered.reaches(before + 1_000));
            if round == 1 {
                fs::write(&path, "servers = [\"nobody\"]\n").unwrap();
                proxy.signal(Signal::HUP);
                proxy.says_text("line 1: ");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    let mut client = proxy.connect();
    assert_eq!(client.count("server_losses"), 0);
    fs::write(&path, text(&[2])).unwrap();
    proxy.signal(Signal::HUP);
    proxy.says_text(&format!("server {} is up", servers[2].address()));
    proxy.says_text("the configuration was read again and holds");
    store(&mut client, ["last".into()]);
    assert_eq!(items(&servers[2]), 1);
    support::until("the old servers are left", || servers[0].connect().count("curr_connections") <= 3);
    let ended = proxy.stop();
    assert!(format!("{ended:?}").contains(", 0 errors,"), "{ended:?}");
}

#[test]
fn clients_of_a_pool_with_another_name_stay_with_its_servers() {
    let (general, users) = (memcached(), memcached());
    let (own, admin) = (Port::new(), Port::new());
    let text = |top: &str, name: &str, more: &str| {
        format!(
            "admin = \"{}\"\n{top}\n[pools.{name}]\nlisten = \"{}\"\nservers = [\"{}\"]\n{more}",
            admin.address(),
            own.address(),
            users.address()
        )
    };
    let servers = format!("servers = [\"{}\"]", general.address());
    let path = file("pools-renamed.toml", &text(&servers, "users", ""));
    let proxy = proxy(&path);
    let mut clients = [proxy.connect(), Peer::connect(own.address())];
    clients.iter_mut().for_each(|client| store(client, ["a".into()]));
    let all = format!("[pools.web]\n{servers}\n");
    for (text, key) in [
        (text(&servers, "people", ""), "b"),
        // Another pool is the first by name.
        (text("default_pool = \"web\"", "people", &all), "c"),
    ] {
        fs::write(&path, text).unwrap();
        let told = asked(admin.address(), "POST", "/reload");
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
        clients.iter_mut().for_each(|client| store(client, [key.into()]));
    }
    assert_eq!((items(&general), items(&users)), (3, 3));
}

/// The second comes while the first waits for a server that accepts connections and says nothing.
#[test]
fn what_a_reload_has_opened_is_the_next_ones_too() {
    let server = memcached();
    let silent = listen();
    let ports = [Port::new(), Port::new()];
    let text = |more: &str| {
        format!(
            "servers = [\"{}\"{more}]\nconnect_timeout = \"10m\"\nadmin = \"{}\"\n\
             [pools.own]\nlisten = \"{}\"\nservers = [\"{0}\"]\n",
            server.address(),
            ports[0].address(),
            ports[1].address()
        )
    };
    let before = format!("servers = [\"{}\"]\n", server.address());
    let path = file("pools-twice.toml", &before);
    let mut proxy = proxy(&path);
    fs::write(&path, text(&format!(", \"{}\"", silent.local_addr().unwrap()))).unwrap();
    proxy.signal(Signal::HUP);
    let _held = Peer::accept(&silent).unwrap();
    fs::write(&path, text("")).unwrap();
    proxy.signal(Signal::HUP);
    let refused = proxy.says(|line| match line {
        _ if line.contains("is not taken over") => Some(true),
        _ => line.contains("holds from now on").then_some(false),
    });
    assert!(!refused, "{proxy:?}");
    store(&mut Peer::connect(ports[1].address()), ["a".into()]);
    assert!(asked(ports[0].address(), "GET", "/ready").starts_with("HTTP/1.1 200"));
}

/// It was answered that the one before went on, when what it had asked for held a moment later.
#[test]
fn a_reload_that_is_superseded_is_answered_when_the_next_one_holds() {
    let (server, silent, admin) = (memcached(), listen(), Port::new());
    let text = |more: &str| {
        format!(
            "servers = [\"{}\"{more}]\nconnect_timeout = \"10m\"\nadmin = \"{}\"\n",
            server.address(),
            admin.address()
        )
    };
    let path = file("pools-superseded.toml", &text(""));
    let mut proxy = proxy(&path);
    fs::write(&path, text(&format!(", \"{}\"", silent.local_addr().unwrap()))).unwrap();
    let at = admin.address();
    let answer = std::thread::spawn(move || asked(at, "POST", "/reload"));
    let _held = Peer::accept(&silent).unwrap();
    fs::write(&path, text("")).unwrap();
    proxy.signal(Signal::HUP);
    proxy.says_text("holds from now on");
    let told = answer.join().unwrap();
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
}

/// Servers that are gone keep their numbers, of which there are 4,096.
#[test]
fn a_reload_with_more_servers_than_have_numbers_is_refused_and_the_one_before_goes_on() {
    let server = memcached();
    let text = |round: usize| {
        // Files that are not there: a connection to one fails at once.
        let gone = (0..998).map(|place| format!(", \"unix:/nowhere/{round}-{place}\"")).collect::<String>();
        format!(
            "[pools.one]\nservers = [\"{}\"]\n[pools.many]\nservers = [{}]\n",
            server.address(),
            &gone[2..]
        )
    };
    let path = file("pools-numbers.toml", &text(0));
    let mut proxy = proxy(&path);
    for round in 1..4 {
        fs::write(&path, text(round)).unwrap();
        proxy.signal(Signal::HUP);
        proxy.says_text("holds from now on");
    }
    fs::write(&path, text(4)).unwrap();
    proxy.signal(Signal::HUP);
    proxy.says_text("there would be 4991 servers since the start, and 4096 are the most");
    // Those that there were are no more for it.
    fs::write(&path, text(2)).unwrap();
    proxy.signal(Signal::HUP);
    proxy.says_text("holds from now on");
    assert!(proxy.stop().success);
}

#[test]
fn a_name_can_stand_for_its_addresses() {
    let server = memcached();
    let port = server.address().port();
    let text = format!(
        "servers = [{{ address = \"localhost:{port}\", every_address = true }}]\nwrites = \"first\"\n"
    );
    let proxy = proxy(&file("pools-names.toml", &text));
    let mut client = proxy.connect();
    store(&mut client, ["a".into()]);
    let servers = client.stats("servers");
    assert!(servers.values().any(|name| *name == server.address().to_string()), "{servers:?}");
}
