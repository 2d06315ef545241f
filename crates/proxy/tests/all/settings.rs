//! Files that were written for earlier versions are read as they were then.

use krarup_proxy::config::PoolConfig;
use krarup_proxy::{Config, Edge};
use krarup_settings::SettingsTable;
use proptest::prelude::*;

fn holds(config: &Config, golden: &str) {
    let path = format!("{}/tests/settings/{golden}", env!("CARGO_MANIFEST_DIR"));
    let read = format!("{config:#?}\n");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &read).unwrap();
    }
    assert!(read == std::fs::read_to_string(&path).unwrap(), "{golden}: {read}");
}

#[test]
fn earlier_files_are_read_as_before() {
    holds(&Config::default(), "default.txt");
    for name in ["full", "template"] {
        let text =
            std::fs::read_to_string(format!("{}/tests/settings/{name}.toml", env!("CARGO_MANIFEST_DIR")));
        let config = Config::parse(&text.unwrap(), name).unwrap();
        holds(&config, &format!("{name}.txt"));
        let again = Config::parse(&config.commented(), "commented").unwrap();
        assert_eq!(format!("{again:?}"), format!("{config:?}"));
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*") {
        let _ = Config::parse(&text, "f.toml");
    }

    /// Any value at any key is read, or named with its line.
    #[test]
    fn any_value_is_read_or_named(
        key in prop::sample::select(Config::keys().chain(Edge::keys()).chain(PoolConfig::keys()).collect::<Vec<_>>()),
        head in prop::sample::select(vec!["", "[edge]\n", "[pools.a]\n", "[[routes]]\n"]),
        value in prop_oneof![
            "-?[0-9]{1,25}",
            "-?[0-9]{1,6}\\.[0-9]{1,3}(e[0-9]{1,3})?",
            "\"[a-z0-9:. ]{0,9}\"",
            "(true|false|inf|nan|1979-05-27|0xff)",
            "\\[(1|\"a\"|\\{ a = 1 \\}|, ){0,3}\\]",
            "\\{ (certificate|address|prefix) = \"a:1\" \\}",
        ],
    ) {
        let text = format!("{head}{key} = {value}\n");
        match Config::parse(&text, "f.toml") {
            Ok(config) => {
                let _ = config.check();
                let again = Config::parse(&config.commented(), "commented").unwrap();
                prop_assert_eq!(format!("{:?}", again), format!("{:?}", config));
            }
            Err(mistakes) => for mistake in mistakes.0 {
                prop_assert!(mistake.place.starts_with("f.toml, line "), "{}", mistake);
                prop_assert!(!mistake.what.is_empty() && !mistake.what.contains('\n'), "{}", mistake);
            }
        }
    }
}
