//! Other programs' configurations: whatever is read of them is a configuration of ours, and a
//! mistake is one line.

use krarup_proxy::Config;
use krarup_proxy::import::Imported;

/// A nutcracker.yml or a mcrouter.json.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Imported::read(text) {
        Err(why) => assert!(!why.to_string().contains('\n'), "{why:?}"),
        Ok(imported) => {
            let ours = imported.toml();
            let config = Config::parse(&ours, "ours");
            let config = config.unwrap_or_else(|why| panic!("{why}, of:\n{ours}"));
            // What it says may still not work, as that two pools listen at one address.
            if let Err(why) = config.check() {
                let why = why.to_string();
                assert!(!why.trim_end().contains('\n'), "{why:?}");
            }
        }
    }
}
