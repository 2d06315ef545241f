//! Who moves here from twemproxy finds every key where twemproxy left it: the same keys through
//! both.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::peer::Peer;
use crate::support::process::{Port, Program, skipped};
use crate::support::{file, until};

/// Keys of several shapes, tagged ones among them.
fn keys() -> Vec<String> {
    let shapes: [fn(u32) -> String; 4] = [
        |number| format!("memtier-{}", number * 7_919),
        |number| format!("user:{number}:profile"),
        |number| format!("{{user{number}}}:cart"),
        |number| format!("straße/{number}"),
    ];
    (0..100).flat_map(|number| shapes.map(|shape| shape(number))).collect()
}

/// One pool as `nutcracker.yml` says it, listening on `port`.
fn pool(name: &str, port: &Port, settings: &str, servers: &[Program]) -> String {
    let members: String = servers
        .iter()
        .enumerate()
        .map(|(place, server)| match name {
            "named" => format!("   - {}:{} cache-{place}\n", server.address(), place + 1),
            _ => format!("   - {}:1\n", server.address()),
        })
        .collect();
    format!("{name}:\n  listen: {}\n  timeout: 30000\n{settings}  servers:\n{members}", port.address())
}

#[test]
fn what_is_stored_through_the_imported_configuration_twemproxy_finds() {
    if Command::new("nutcracker").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        return skipped("twemproxy is not installed: apt-get install nutcracker");
    }
    let servers: Vec<Program> =
        (0..4).map(|_| Program::krarup(&["cache", "--listen", "127.0.0.1:0"])).collect();
    let pools = [
        ("plain", "  hash: fnv1a_64\n  distribution: ketama\n"),
        ("named", "  hash: murmur\n  distribution: ketama\n"),
        ("modulo", "  hash: crc16\n  distribution: modula\n"),
        ("tagged", "  hash: one_at_a_time\n  hash_tag: \"{}\"\n"),
    ];
    let (their_ports, our_ports) = (pools.map(|_| Port::new()), pools.map(|_| Port::new()));
    let listening = |ports: &[Port]| -> String {
        pools.iter().zip(ports).map(|((name, settings), port)| pool(name, port, settings, &servers)).collect()
    };
    let statistics = Port::new();
    let mut command = Command::new("nutcracker");
    command.args(["-c", &file("nutcracker.yml", &listening(&their_ports)), "-a", "127.0.0.1", "-s"]);
    command.arg(statistics.address().port().to_string());
    let _twemproxy = Program::spawn(command);

    let same = file("same.yml", &listening(&our_ports));
    let imported = Program::begin(&["proxy", "--import", &same]).ended();
    assert!(imported.success, "{imported:?}");
    let proxy = Program::krarup(&["proxy", "--config", &file("imported.toml", &imported.output)]);

    for (((name, _), ours), theirs) in pools.iter().zip(&our_ports).zip(&their_ports) {
        for port in [ours, theirs] {
            until("both listen", || TcpStream::connect(port.address()).is_ok());
        }
        let (mut ours, mut theirs) = (Peer::connect(ours.address()), Peer::connect(theirs.address()));
        for key in keys() {
            ours.send(format!("set {key} 0 0 {}\r\n{name}\r\n", name.len()).as_bytes()).unwrap();
            ours.expect(b"STORED\r\n").unwrap();
            theirs.send(format!("get {key}\r\n").as_bytes()).unwrap();
            let value = format!("VALUE {key} 0 {}\r\n{name}\r\nEND\r\n", name.len());
            theirs.expect(value.as_bytes()).unwrap_or_else(|why| panic!("pool {name}: {key}: {why}"));
            theirs.send(format!("delete {key}\r\n").as_bytes()).unwrap();
            theirs.expect(b"DELETED\r\n").unwrap();
        }
        // Each key was stored once: with twemproxy's copies gone, there is none.
        for server in &servers {
            assert_eq!(server.connect().count("curr_items"), 0, "pool {name}");
        }
    }
    assert!(proxy.stop().success);
}
