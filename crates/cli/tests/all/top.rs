//! `krarup top`: on a terminal of its own, and as what scripts read.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use serde_json::Value;

use crate::monitoring::get;
use crate::support::process::{Ended, Port, Program, skipped};
use crate::support::terminal::OnTerminal;
use crate::support::{fresh, until};

/// A proxy before this server, whose admin address is `admin`.
fn proxy(server: &Program, admin: &Port) -> Program {
    let (server, admin) = (server.address().to_string(), admin.address().to_string());
    Program::krarup(&["proxy", "--listen", "127.0.0.1:0", "--admin", &admin, "--servers", &server])
}

fn top(words: &[&str]) -> Ended {
    Program::begin(&[&["top"], words].concat()).ended()
}

fn server() -> Program {
    Program::krarup(&["cache", "--listen", "127.0.0.1:0"])
}

#[test]
fn a_proxy_is_watched_until_q_also_while_it_begins_anew() {
    let (server, admin) = (server(), Port::new());
    let watched = proxy(&server, &admin);
    let (name, address) = (server.address().to_string(), admin.address().to_string());
    let mut terminal = OnTerminal::begin(80, &["top", &address, "--every", "50ms"]);
    terminal.shows(&["krarup proxy at", "1 servers", "losses", &name, "headroom   no conclusion", "q quit"]);
    let mut client = watched.connect();
    client.send(b"get a\r\n").unwrap();
    client.expect(b"END\r\n").unwrap();
    terminal.types(b"3");
    terminal.shows(&["operation", "response", "get  "]);
    // The next page is that of the clients, by the host and then each connection.
    terminal.types(b"\t");
    terminal.shows(&["connections", "in progress", "127.0.0.1  "]);
    terminal.types(b"g");
    let own = client.address().to_string();
    terminal.shows(&[&own]);
    terminal.types(b"?");
    terminal.shows(&["keys, and the columns of clients"]);
    terminal.types(b"?1");
    watched.kill();
    terminal.shows(&["no answer", "connection refused"]);
    let _anew = proxy(&server, &admin);
    terminal.shows(&["losses", &name]);
    terminal.types(b"q");
    terminal.ended_well();
}

#[test]
fn ctrl_c_and_signals_leave_the_terminal_as_it_was() {
    let (server, admin) = (server(), Port::new());
    let _proxy = proxy(&server, &admin);
    let address = admin.address().to_string();
    for signal in [None, Some(Signal::TERM), Some(Signal::INT), Some(Signal::HUP)] {
        let mut terminal = OnTerminal::begin(60, &["top", &address]);
        terminal.shows(&["krarup proxy at", "q quit"]);
        match signal {
            Some(signal) => terminal.signal(signal),
            None => terminal.types(b"\x03"),
        }
        terminal.ended_well();
    }
}

#[test]
fn several_instances_are_one_system_with_a_row_for_each() {
    let (server, admins) = (server(), [Port::new(), Port::new()]);
    let _proxies = [proxy(&server, &admins[0]), proxy(&server, &admins[1])];
    let names = admins.each_ref().map(|admin| admin.address().to_string());
    let printed = top(&[&names[0], &names[1], "--once", "--every", "50ms", "--page", "instances"]);
    assert!(printed.success && printed.output.contains("2 of 2 instances answer"), "{printed:?}");
    for name in &names {
        let row = printed.output.lines().find(|line| line.starts_with(name.as_str()));
        assert!(row.is_some_and(|row| row.contains("proxy")), "{printed:?}");
    }
    let json = top(&[&names[0], &names[1], "--json", "--looks", "2", "--every", "50ms"]);
    let looks: Vec<Value> = json.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(looks.len(), 2, "{json:?}");
    assert_eq!((&looks[0]["schema"], looks[1]["instances"].as_array().unwrap().len()), (&1.into(), 2));
    let shared = &looks[1]["servers"][0];
    assert_eq!((&shared["server"], &shared["proxies"]), (&server.address().to_string().into(), &2.into()));
    assert_eq!(looks[1]["headroom"].as_array().unwrap().len(), 2);
    // One that does not answer is a row that says so.
    let held = Port::new();
    let nothing = held.address().to_string();
    let partly = top(&[&names[0], &nothing, "--once", "--every", "50ms", "--page", "instances"]);
    assert!(partly.success && partly.output.contains("1 of 2 instances answer"), "{partly:?}");
    assert!(partly.output.is_ascii(), "{partly:?}");
}

/// The name stands in a hosts file that only the watching program sees, in a mount namespace of its
/// own.
#[test]
fn a_name_that_has_several_addresses_is_several_instances() {
    let (server, admin) = (server(), Port::new());
    let port = admin.address().port();
    let addresses = ["127.0.0.1", "127.0.0.2"].map(|host| format!("{host}:{port}"));
    let _proxies = addresses.each_ref().map(|at| {
        let server = server.address().to_string();
        Program::krarup(&["proxy", "--listen", "127.0.0.1:0", "--admin", at, "--servers", &server])
    });
    let folder = fresh("top-hosts");
    fs::create_dir_all(&folder).unwrap();
    let hosts = folder.join("hosts");
    fs::write(&hosts, "127.0.0.1 localhost proxies.test\n127.0.0.2 proxies.test\n").unwrap();
    let unshared = |words: &[&str]| {
        let mut command = Command::new("unshare");
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]).arg(&hosts).args(words);
        command
    };
    if !unshared(&["true"]).output().is_ok_and(|tried| tried.status.success()) {
        return skipped("no mount namespaces here (they need Linux and user namespaces)");
    }
    let name = format!("proxies.test:{port}");
    let asked = ["top", &name, "--once", "--every", "50ms", "--page", "instances"];
    let printed = Program::spawn(unshared(&[&[env!("CARGO_BIN_EXE_krarup")], &asked[..]].concat())).ended();
    assert!(printed.success && printed.output.contains("2 of 2 instances answer"), "{printed:?}");
    for address in &addresses {
        let row = printed.output.lines().find(|line| line.starts_with(address.as_str()));
        assert!(row.is_some_and(|row| row.contains("proxy")), "{printed:?}");
    }
}

#[test]
fn an_address_at_which_nothing_answers_is_a_mistake() {
    let held = Port::new();
    let nothing = held.address().to_string();
    for words in [&[nothing.as_str()][..], &[nothing.as_str(), "--json"]] {
        let ended = top(words);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.errors.contains("does not answer") && ended.errors.contains("--admin"), "{ended:?}");
    }
    let server = server();
    let other = top(&[&server.address().to_string(), "--once"]);
    assert_eq!(other.code, Some(1), "{other:?}");
}

/// The addresses of the report are those of the connections, and its rates what they asked for.
#[test]
fn clients_are_told_with_what_they_ask_for() {
    let (server, admin) = (server(), Port::new());
    let watched = proxy(&server, &admin);
    let mut client = watched.connect();
    let mut report = Value::Null;
    until("the requests are in a report", || {
        for _ in 0..10 {
            client.send(b"get a\r\n").unwrap();
            client.expect(b"END\r\n").unwrap();
        }
        report = serde_json::from_str(&get(admin.address(), "/clients").1).unwrap();
        report["clients"][0]["requests_per_s"].as_f64().is_some_and(|rate| rate > 0.0)
    });
    assert_eq!(report["connections"], 1);
    assert_eq!(report["clients"][0]["client"], client.address().to_string());
    assert_eq!(report["hosts"][0]["client"], "127.0.0.1");
    let number = |name: &str| report["clients"][0][name].as_f64().unwrap();
    // `get a` and its end of line are seven bytes, `END` and its are five.
    assert!((number("received_per_s") / number("requests_per_s") - 7.0).abs() < 1e-6, "{report}");
    assert!((number("sent_per_s") / number("requests_per_s") - 5.0).abs() < 1e-6, "{report}");
}
