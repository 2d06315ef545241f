//! Which keys take most, for a terminal.

use krarup_model::hot_keys::{HotKey, HotKeys, PoolHotKeys};
use krarup_units::Unit;
use krarup_units::text::{count, duration, three_digits};

use crate::document::{EstimateCell, Table, TableValue};
use crate::text;

/// Letters of a key that are shown.
const LETTERS: usize = 20;

/// What is said of the keys that take most; only in letters of ASCII where `ascii` asks for that.
pub fn screen(keys: &HotKeys, ascii: bool) -> String {
    if keys.keys == "off" {
        return "hot_keys = \"off\": nothing is kept\n".to_owned();
    }
    if keys.pools.is_empty() {
        return "no request was sampled in the last seconds\n".to_owned();
    }
    let out: Vec<String> = keys.pools.iter().map(|pool| of_pool(pool, keys.covers_s)).collect();
    let out = out.join("\n");
    if ascii { text::ascii(&out) } else { out }
}

fn of_pool(pool: &PoolHotKeys, seconds: f64) -> String {
    let mut out = format!(
        "pool {}: {} requests/s; {} sampled in {}, one of {}\n",
        pool.pool,
        count(pool.requests_per_s),
        count(pool.samples as f64),
        duration(seconds),
        three_digits(pool.one_of),
    );
    for (list, keys, unseen) in
        [("server time", &pool.by_time, pool.unseen_time), ("bytes", &pool.by_bytes, pool.unseen_bytes)]
    {
        if keys.is_empty() {
            out.push_str(&format!("\nby {list}: no key was sampled often enough\n"));
            continue;
        }
        out.push_str(&format!(
            "\nby {list}; a key that is not counted has at most {}\n",
            Unit::Share.show(unseen)
        ));
        out.push_str(&text::table(&table(list, keys)));
    }
    out
}

fn table(list: &str, keys: &[HotKey]) -> Table {
    let columns = [
        ("key", Unit::Text),
        ("share", Unit::Share),
        ("rate", Unit::PerSecond),
        ("reads", Unit::Share),
        ("of server", Unit::Share),
        ("if shared", Unit::Share),
        ("if copied", Unit::Share),
    ];
    let row = |key: &HotKey| {
        let share = EstimateCell {
            value: key.share.mean,
            interval: Some((key.share.low, key.share.high)),
            n: key.samples,
        };
        let less = |saves: Option<f64>| TableValue::from(saves.map(|saves| -saves));
        vec![
            TableValue::Text(key.name.as_ref().unwrap_or(&key.key).chars().take(LETTERS).collect()),
            TableValue::Measured(share),
            TableValue::from(key.requests_per_s),
            TableValue::from(key.reads),
            TableValue::from(key.of_server),
            less(key.coalescing_saves),
            less(key.copy_saves),
        ]
    };
    Table::untitled(list, &columns, keys.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use krarup_model::hot_keys::{HOT_KEYS_SCHEMA, KeyShare};

    use super::*;

    fn hot(name: Option<&str>, mean: f64) -> HotKey {
        HotKey {
            key: "00000000000000ab".to_owned(),
            name: name.map(str::to_owned),
            share: KeyShare { mean, low: mean - 0.01, high: mean + 0.01, se: 0.005 },
            samples: 62,
            requests_per_s: 1_386.0,
            reads: 0.95,
            time: mean,
            bytes: 0.01,
            server: Some("127.0.0.1:11212".to_owned()),
            heir: None,
            of_server: Some(0.21),
            coalescing_saves: Some(0.004),
            copy_saves: None,
        }
    }

    fn answer(keys: &str, pools: Vec<PoolHotKeys>) -> HotKeys {
        HotKeys { schema: HOT_KEYS_SCHEMA, keys: keys.to_owned(), covers_s: 7.5, pools }
    }

    #[test]
    fn a_pool_has_its_keys_by_time_and_by_bytes_within_eighty_columns() {
        let long = "user:".repeat(50);
        let pool = PoolHotKeys {
            pool: "main".to_owned(),
            requests_per_s: 20_000.0,
            samples: 9_375,
            one_of: 16.0,
            unseen_time: 0.004,
            unseen_bytes: 0.003,
            by_time: vec![hot(Some(&long), 0.069), hot(None, 0.03)],
            by_bytes: Vec::new(),
        };
        let shown = screen(&answer("name", vec![pool]), true);
        assert_eq!(
            shown,
            "pool main: 20,000 requests/s; 9,375 sampled in 7.50 s, one of 16.0

by server time; a key that is not counted has at most 0.40 %
key                         share   rate  reads  of server  if shared  if copied
                                %     /s      %          %          %          %
user:user:user:user:  6.90 + 1.00  1,386   95.0       21.0     -0.400          -
00000000000000ab      3.00 + 1.00  1,386   95.0       21.0     -0.400          -

by bytes: no key was sampled often enough
"
        );
        assert!(shown.lines().all(|line| line.len() <= 80), "{shown}");
    }

    #[test]
    fn where_nothing_is_known_it_says_why() {
        assert!(screen(&answer("off", Vec::new()), false).contains("\"off\""));
        assert!(screen(&answer("digest", Vec::new()), false).contains("no request was sampled"));
    }
}
