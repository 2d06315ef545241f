//! The largest values pass through the built proxy, and its memory shows that it holds them once.

use crate::support;
use crate::support::process::Program;

/// The most memory that a process has used, in KiB.
pub(crate) fn most(program: &Program) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn the_proxy_holds_a_value_of_64_mib_once() {
    const LENGTH: usize = 64 << 20;
    let memcached = || Program::memcached(&["-I", "128m", "-m", "512"]);
    let servers = [memcached(), memcached()];
    let config = support::file("large", "max_value = \"64MiB\"\ntimeout = \"60s\"\n");
    let proxy = Program::proxy(&servers.each_ref().map(Program::address), &["--config", &config]);
    let before = most(&proxy);
    let value = vec![b'v'; LENGTH];
    let mut client = proxy.connect();
    client.send(format!("set a 0 0 {LENGTH}\r\n").as_bytes()).unwrap();
    client.send(&value).unwrap();
    client.send(b"\r\n").unwrap();
    client.expect(b"STORED\r\n").unwrap();
    let stored = most(&proxy) - before;
    client.send(b"get a\r\n").unwrap();
    client.expect(format!("VALUE a 0 {LENGTH}\r\n").as_bytes()).unwrap();
    client.expect(&value).unwrap();
    client.expect(b"\r\nEND\r\n").unwrap();
    let fetched = most(&proxy) - before;
    // Two servers got it, one sent it back.
    for (what, used) in [("stored", stored), ("fetched", fetched)] {
        assert!(used < LENGTH * 3 / 2 / 1_024, "{what}: {used} KiB beyond what was used before");
    }
    for server in &servers {
        assert_eq!(server.connect().count("curr_items"), 1);
    }
    assert!(proxy.stop().success);
}
