//! Real clients of beanstalkd and of memcached, unchanged, with the broker's queues.
//!
//! Left out, with a line that says so, is what is not installed; `make test-clients` installs and
//! builds it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::process::{Program, python, skipped};

/// A broker, and where its queues are reached by memcached's protocol.
fn broker() -> (Program, SocketAddr) {
    let mut broker =
        Program::krarup(&["broker", "--listen", "127.0.0.1:0", "--memcached-listen", "127.0.0.1:0"]);
    let door = broker.says(|line| line.strip_prefix("memcached's protocol on ")?.trim().parse().ok());
    (broker, door)
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broker").join(name)
}

fn is_well(command: &mut Command) {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(said, "all is well\n");
}

#[test]
fn greenstalk_works_unchanged() {
    let Some(python) = python("greenstalk") else {
        return skipped("no Python has greenstalk; CLIENTS_PYTHON names one");
    };
    let (broker, _) = broker();
    is_well(Command::new(python).arg(here("greenstalk_session.py")).arg(broker.address().port().to_string()));
}

#[test]
fn pheanstalk_works_unchanged() {
    let tried = Command::new("php")
        .args(["-r", "require getenv('PHEANSTALK') ?: 'Pheanstalk/autoload.php';"])
        .output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        return skipped(
            "PHP or pheanstalk is not installed: apt-get install php-cli php-pda-pheanstalk; PHEANSTALK names an autoload.php",
        );
    }
    let (broker, _) = broker();
    is_well(Command::new("php").arg(here("pheanstalk_session.php")).arg(broker.address().port().to_string()));
}

#[test]
fn pymemcache_works_unchanged() {
    let Some(python) = python("pymemcache") else {
        return skipped("no Python has pymemcache; CLIENTS_PYTHON names one");
    };
    let (_broker, door) = broker();
    is_well(Command::new(python).arg(here("pymemcache_session.py")).arg(door.port().to_string()));
}

/// What `make test-clients` has built of another language.
fn built(what: &str, needed: &str, program: &str, arguments: &[&str]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients/beanstalkd");
    if !folder.join(needed).exists() {
        return skipped(&format!("{what} is not built; `make test-clients` builds it"));
    }
    let (broker, _) = broker();
    let port = broker.address().port().to_string();
    is_well(Command::new(program).args(arguments).arg(port).current_dir(&folder));
    assert!(broker.stop().success);
}

#[test]
fn go_beanstalk_works_unchanged() {
    built("go-beanstalk's session", "go/session", "./go/session", &[]);
}

#[test]
fn jackd_works_unchanged() {
    built("jackd's session", "node/node_modules/jackd", "node", &["node/session.js"]);
}

#[test]
fn beanstalkc_and_beanstalk_client_work_unchanged() {
    let arguments = ["-cp", "java/classes:java/lib/*", "Session"];
    built("Java's session", "java/classes/Session.class", "java", &arguments);
}
