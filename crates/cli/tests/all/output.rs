//! A reader may leave, as `head` does, and a disk may be full: a command ends by its own exit code,
//! and never by a panic.

use std::fs::File;
use std::process::Command;

use crate::support::process::{Port, Program, unread};
use crate::support::{file, fresh};

/// Every command that prints, each with what it needs.
fn printing() -> Vec<Vec<String>> {
    let network = file("output-network.toml", &printed(&["model", "example"]));
    let simulated = fresh("output-rows.parquet").to_str().expect("a path in Unicode").to_owned();
    let rows = ["model", "simulate", &network, "--visits", &simulated, "--seed", "3", "--precision", "0.1"];
    printed(&rows);
    [
        vec!["--help"],
        vec!["--version"],
        vec![],
        vec!["help", "model", "solve"],
        vec!["plan", "demo"],
        vec!["proxy", "--print-config"],
        vec!["load", "--print-config"],
        vec!["completions", "bash"],
        vec!["completions", "zsh"],
        vec!["model", "example"],
        vec!["model", "solve", &network],
        vec!["model", "solve", &network, "--json"],
        vec!["model", "solve", &network, "--csv"],
        vec!["model", "bounds", &network],
        vec!["model", "whatif", &network, "--change", "uplink.speed=2"],
        vec!["model", "simulate", &network, "--seed", "3", "--precision", "0.1"],
        vec!["analyze", &simulated],
        vec!["analyze", &simulated, "--json"],
        vec!["analyze", &simulated, "--csv"],
        vec!["no-such-command"],
        vec!["model", "solve", "no-such-file.toml"],
    ]
    .iter()
    .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
    .collect()
}

fn printed(words: &[&str]) -> String {
    let ended = Program::begin(words).ended();
    assert!(ended.success, "{words:?}: {ended:?}");
    ended.output
}

#[test]
fn a_command_with_a_closed_pipe_ends_as_it_does_with_a_reader() {
    for words in printing() {
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let read = Program::begin(&words).ended();
        assert!(matches!(read.code, Some(0..=2)), "{words:?}: {read:?}");
        assert_eq!(unread(&words), read.code, "{words:?}");
    }
}

#[test]
fn output_that_a_full_disk_does_not_take_is_an_error_that_says_so() {
    let admin = Port::new();
    let address = admin.address().to_string();
    let proxy = ["proxy", "--listen", "127.0.0.1:0", "--admin", &address, "--servers", "127.0.0.1:1"];
    let _proxy = Program::krarup(&proxy);
    let look = ["top", &address, "--once", "--every", "50ms"];
    for words in [&["model", "example"][..], &["completions", "bash"], &["proxy", "--print-config"], &look] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
        let full = File::options().write(true).open("/dev/full").expect("it is always there");
        let output = command.args(words).stdout(full).output().expect("krarup runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {errors}");
        assert!(errors.contains("stdout cannot be written: No space left"), "{words:?}: {errors}");
    }
}
