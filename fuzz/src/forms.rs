//! What people write: configuration, network descriptions, loads, experiments, command lines,
//! addresses, sizes and times. A mistake is one line; what is accepted can be written, and reads
//! back as the same.

use krarup_lab::spec::Spec;
use krarup_load::memtier;
use krarup_load::settings::LoadConfig;
use krarup_model::form;
use krarup_net::http::{HttpQuery, encoded};
use krarup_proxy::Config;
use krarup_store::postgres::Database;
use krarup_units::Address;
use krarup_units::text;

/// The first byte chooses the form, the rest is its text.
pub fn check(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match first % 8 {
        0 => config(text),
        1 => toml(text),
        2 => json(text),
        4 => {
            let _ = LoadConfig::parse(text, "load.toml");
        }
        5 => {
            let _ = Spec::parse(text, "spec.toml");
        }
        6 => {
            let flags: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            let _ = memtier::parse(&flags);
        }
        7 => query(text),
        _ => words(text),
    }
}

fn config(text: &str) {
    match Config::parse(text, "krarup.toml") {
        Ok(config) => match config.check() {
            Ok(()) => {
                let read = Config::parse(&config.commented(), "again").expect("what is written reads back");
                assert_eq!(format!("{config:?}"), format!("{read:?}"));
                let _ = config.settings();
            }
            Err(why) => one_line(&why.to_string()),
        },
        Err(why) => {
            for line in why.to_string().lines() {
                assert!(line.starts_with("krarup.toml, line "), "{why}");
            }
        }
    }
}

fn toml(text: &str) {
    if let Ok(network) = form::from_toml(text) {
        let written = form::to_toml(&network);
        assert_eq!(form::from_toml(&written).expect("what is written reads back"), network, "{written}");
    }
}

fn json(text: &str) {
    if let Ok(network) = form::from_json(text) {
        let written = form::to_json(&network);
        assert_eq!(form::from_json(&written).expect("what is written reads back"), network, "{written}");
    }
}

fn words(text: &str) {
    match text.parse::<Address>() {
        Ok(address) => assert_eq!(address.to_string().parse(), Ok(address)),
        Err(why) => assert!(why.what.contains(&text.escape_debug().to_string())),
    }
    if let Ok(seconds) = text::parse_duration(text) {
        assert!(seconds.is_finite() && seconds >= 0.0);
    }
    let _ = text::parse_size(text);
    let _ = Database::tells_password(text);
}

fn query(text: &str) {
    let _ = HttpQuery { text, page: false }.parameters();
    let written = format!("name={}", encoded(text));
    let read = HttpQuery { text: &written, page: false }.parameters();
    assert_eq!(read, [("name".to_owned(), text.to_owned())]);
}

fn one_line(why: &str) {
    assert!(!why.trim_end().contains('\n'), "{why:?}");
}
