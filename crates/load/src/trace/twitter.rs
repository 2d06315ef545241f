//! The public cache traces of Twitter (Yang, Yue and Rashmi, OSDI 2020): a line for each request,
//! without a head.
//!
//! ```text
//! timestamp,key,key size,value size,client,operation,TTL
//! 0,q:q:1:8WTfjZU14ee,17,213,4,get,0
//! ```
//! Times are whole seconds, so that requests of one second are spread evenly over it, in their
//! order. Keys are anonymous texts, some shorter than the key was: they are filled up to its size
//! with `0`. The TTL is in seconds, 0 for ever. Clients are counted only: one of them was a program
//! with many connections, so that its requests overlapped, and they wait for each other nowhere.

use csv::StringRecord;
use krarup_settings::Mistake;

use crate::command::Command;
use crate::keys::LONGEST_KEY;
use crate::limits::LARGEST_VALUE;

/// The column of the client.
pub(super) const CLIENT: usize = 4;
/// Columns of a line.
const COLUMNS: usize = 7;

/// What a line may ask, `cas` aside.
const OPERATIONS: [Command; 10] = [
    Command::Get,
    Command::Gets,
    Command::Set,
    Command::Add,
    Command::Replace,
    Command::Append,
    Command::Prepend,
    Command::Delete,
    Command::Incr,
    Command::Decr,
];

/// Whether a first line is one of these traces.
pub(super) fn is_line(line: &StringRecord) -> bool {
    line.len() == COLUMNS && !line[0].is_empty() && line[0].bytes().all(|byte| byte.is_ascii_digit())
}

/// What a line says.
pub(super) struct TwitterLine {
    /// When the request came, in seconds.
    pub(super) second: u64,
    /// What it asked.
    pub(super) command: Command,
    /// Bytes of the value, which a request that fetches may have found.
    pub(super) size: u32,
    /// For how long it is to live, in seconds; 0: for ever.
    pub(super) ttl: u32,
}

/// One line; its key is left in `key`.
pub(super) fn request(line: &StringRecord, key: &mut Vec<u8>) -> Result<TwitterLine, Mistake> {
    if line.len() != COLUMNS {
        return Err(Mistake::new(
            format!("it has {} columns and not {COLUMNS}", line.len()),
            "they are timestamp, key, key size, value size, client, operation, TTL",
        ));
    }
    let number = |place: usize, what: &str, most: u64| {
        let found = line[place].parse::<u64>().ok().filter(|number| *number <= most);
        found.ok_or_else(|| Mistake::plain(format!("`{}` is no {what}", line[place].escape_debug())))
    };
    let second = number(0, "time in seconds", u64::from(u32::MAX))?;
    let key_size = number(2, "size of a key", u64::MAX)?.min(LONGEST_KEY as u64) as usize;
    let size = number(3, "size of a value", u64::MAX)?.min(LARGEST_VALUE) as u32;
    let ttl = number(6, "TTL", u64::MAX)?.min(u64::from(u32::MAX)) as u32;
    let command = match Command::from_name(&line[5].to_ascii_lowercase()) {
        // Its unique is not in the trace.
        Some(Command::Cas) => Command::Set,
        Some(command) if OPERATIONS.contains(&command) => command,
        _ => return Err(Mistake::plain(format!("`{}` is no command about a key", line[5].escape_debug()))),
    };
    let text = line[1].as_bytes();
    if text.is_empty() || text.len() > LONGEST_KEY || text.iter().any(|byte| !byte.is_ascii_graphic()) {
        return Err(Mistake::plain(format!("`{}` is no key", text.escape_ascii())));
    }
    key.clear();
    key.extend_from_slice(text);
    key.resize(key_size.max(text.len()), b'0');
    Ok(TwitterLine { second, command, size, ttl })
}

#[cfg(test)]
mod tests {
    use krarup_units::Nanos;
    use proptest::prelude::*;

    use super::*;
    use crate::trace::Trace;

    const SECOND: u64 = 1_000_000_000;

    fn read(text: &str) -> Result<Trace, Mistake> {
        Trace::of_csv(text.as_bytes())
    }

    #[test]
    fn a_line_is_a_request_and_those_of_a_second_are_spread_over_it() {
        let text = "100,ab,4,0,c,get,0\n100,cd,2,300,d,set,3600\n100,ab,4,9,c,gets,0\n102,ef,2,7,c,cas,7\n";
        let trace = read(text).unwrap();
        let rows: Vec<_> = (0..trace.len()).filter_map(|number| trace.row(number)).collect();
        let seen: Vec<_> =
            rows.iter().map(|row| (row.at.0 / 1_000_000, row.command.name(), row.size)).collect();
        assert_eq!(
            seen,
            [(0, "get", None), (333, "set", Some(300)), (666, "gets", None), (2_000, "set", Some(7))]
        );
        assert_eq!(rows.iter().map(|row| row.ttl).collect::<Vec<_>>(), [0, 3_600, 0, 7]);
        assert_eq!(trace.clients(), [3, 1]);
        let keys: Vec<_> =
            rows.iter().map(|row| trace.text(u64::from(trace.names(row).unwrap()[0]))).collect();
        assert_eq!(keys, [&b"ab00"[..], b"cd", b"ab00", b"ef"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (line, words) in [
            ("x,ab,2,0,1,get,0", "line 2: `x` is no time"),
            ("1,ab,2,0,1,got,0", "line 2: `got` is no command"),
            ("1,ab,2,0,1,version,0", "line 2: `version` is no command"),
            ("1,ab,-2,0,1,get,0", "line 2: `-2` is no size of a key"),
            ("1,ab,2,z,1,get,0", "line 2: `z` is no size of a value"),
            ("1,,2,0,1,get,0", "line 2: `` is no key"),
            ("1,a b,2,0,1,get,0", "line 2: `a b` is no key"),
            ("1,ab,2,0,1,get,-1", "line 2: `-1` is no TTL"),
            ("1,ab,2,0", "line 2: it has 4 columns and not 7"),
            ("\"1\n2\",ab,2,0,1,get,0", "line 2: `1\\n2` is no time"),
            ("1,ab,2,0,1,\"g\net\",0", "line 2: `g\\net` is no command"),
        ] {
            let error = read(&format!("0,ab,2,0,1,get,0\n{line}\n")).unwrap_err().to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }

    proptest! {
        /// Any lines of the form are a trace: in the order of time, none lost, each within its
        /// second.
        #[test]
        fn no_request_is_lost_and_none_leaves_its_second(
            lines in prop::collection::vec(
                (0_u64..20, "[a-f]{1,3}", 0_usize..300, 0_u64..2_000, 0_usize..4, 0_u32..9),
                1..40,
            ),
        ) {
            let mut lines = lines;
            lines.sort_by_key(|line| line.0);
            let operation = |place: usize| ["get", "set", "delete", "incr"][place];
            let line = |(at, key, size, value, what, ttl): &(u64, String, usize, u64, usize, u32)| {
                format!("{at},{key},{size},{value},{ttl},{},{ttl}\n", operation(*what))
            };
            let trace = read(&lines.iter().map(line).collect::<String>()).unwrap();
            prop_assert_eq!(trace.len(), lines.len());
            prop_assert_eq!(trace.clients().iter().sum::<u64>(), lines.len() as u64);
            let begun = lines[0].0;
            let mut last = Nanos(0);
            for (number, line) in lines.iter().enumerate() {
                let row = trace.row(number).unwrap();
                prop_assert_eq!(row.at.0 / SECOND, line.0 - begun);
                prop_assert!(row.at >= last);
                last = row.at;
                prop_assert_eq!(row.command.name(), operation(line.4));
                prop_assert_eq!(row.ttl, line.5);
                let key = trace.text(u64::from(trace.names(&row).unwrap()[0]));
                prop_assert!(key.starts_with(line.1.as_bytes()));
                prop_assert_eq!(key.len(), line.2.min(LONGEST_KEY).max(line.1.len()));
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(
            text in "[0-9]{1,22},[ -~]{0,6},[0-9]{0,22},[0-9]{0,22},[0-9]{0,3},[a-z]{0,5},0\n([ -~\n]{0,40}\n){0,3}",
        ) {
            let _ = read(&text);
        }
    }
}
