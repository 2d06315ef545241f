//! A recorded trace to be sent again: when each request came, what it asked, which keys it named,
//! how large its value was.
//!
//! Three kinds of file are read. `rows.parquet`, as `krarup proxy --rows`, `krarup load --rows` and
//! simulations of one station write it, or a folder of such files, knows when requests came, what
//! they asked, how many keys they named and how many bytes they had. Where the first key's digest
//! was kept (`--rows-keys`), a key that is named by it stands for each key, so that each is asked
//! for as often as it was; further keys of a request are those of the requests that follow.
//! Otherwise keys are drawn by the workload's laws. A CSV file has a line for each request and
//! knows them all:
//!
//! ```text
//! time,op,key,size,ttl
//! 0.000000,set,user:1,512,3600
//! 0.000310,get,user:1,,
//! 0.000420,get,user:1 user:2,,
//! ```
//! `time` is in seconds from any beginning (`time_ms`, `time_us` and `time_ns` say so in the head),
//! `op` a command by its name on the wire, `key` one key or several with blanks between, `size` the
//! bytes of the value, `ttl` its time to live in seconds. `key` and `size` may be empty or left
//! out; then they are drawn; without a `ttl` values do not expire. The third kind is that of the
//! public cache traces of Twitter (`twitter`).

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::{StringRecord, StringRecordsIter};
use krarup_record::file::FileError;
use krarup_record::file::rows::RowRun;
use krarup_record::{KeyDigest, Operation, Visit};
use krarup_settings::Mistake;
use krarup_units::text::count;
use krarup_units::{Nanos, Stamp};
use serde::{Deserialize, Serialize};

use crate::command::{Command, RequestTemplate};
use crate::keys::LONGEST_KEY;
use crate::limits::{LARGEST_VALUE, MOST_KEYS};

mod twitter;

use twitter::TwitterLine;

/// A trace and how fast it is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The file.
    pub trace: PathBuf,
    /// How fast.
    pub speed: Speed,
}

/// How fast a trace is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speed {
    /// Open: each request is due when it came, so many times as fast; 1 is as it was.
    Times(f64),
    /// Closed: each client takes its next one as soon as it has its answer.
    Fastest,
}

/// Most requests of a trace: they are all in memory.
pub const MOST_ROWS: usize = 100_000_000;

/// In the place of where the names of a row begin: its keys are not known.
const UNNAMED: u32 = u32::MAX;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// When it came, counted from the first.
    pub at: Nanos,
    /// What it asked.
    pub command: Command,
    /// How many keys it named.
    pub keys: u32,
    /// Where these begin in the list of all names, or [`UNNAMED`].
    named: u32,
    /// Bytes of the value it stored, where that is known.
    pub size: Option<u32>,
    /// For how long its value is to live, in seconds; 0: for ever, or that is not known.
    pub ttl: u32,
}

impl TraceRow {
    /// Where its keys begin in the list of all names; none where they are not known.
    fn names_from(&self) -> Option<u32> {
        Some(self.named).filter(|&named| named != UNNAMED)
    }

    /// Whether its value is added to what is there.
    fn appends(&self) -> bool {
        matches!(self.command, Command::Append | Command::Prepend)
    }

    /// Whether it changes in place what is there: of a short value all bytes may be digits, which
    /// a server counts on from.
    fn changes_in_place(&self) -> bool {
        self.appends() || matches!(self.command, Command::Incr | Command::Decr | Command::MetaArithmetic)
    }

    /// For how many seconds the value is to live from now on, 0 for ever; none where the request
    /// leaves that as it was.
    pub fn lifetime(&self) -> Option<u32> {
        let says = matches!(
            self.command,
            Command::Set
                | Command::Add
                | Command::Replace
                | Command::Cas
                | Command::MetaSet
                | Command::Touch
                | Command::Gat
                | Command::Gats
        );
        says.then_some(self.ttl)
    }
}

/// A trace in memory, in the order of time.
#[derive(Debug, Default)]
pub struct Trace {
    rows: Vec<TraceRow>,
    /// The keys of all rows that name any, as places in `texts`.
    names: Vec<u32>,
    texts: Vec<Box<[u8]>>,
    /// How many bytes the value of each key has where a row says so, by the last that does.
    sizes: Vec<Option<u32>>,
    /// How many requests each client sent; empty where clients are not known.
    clients: Vec<u64>,
}

impl Trace {
    /// Reads a file, Parquet or CSV, as its first bytes say; or the rows in all files of a folder.
    ///
    /// # Errors
    /// In words, with the line where there are lines.
    pub fn read(path: &Path) -> Result<Self, Mistake> {
        if path.is_dir() {
            let files = RowRun::files(path).map_err(|error| Mistake::system(&error))?;
            if files.is_empty() {
                return Err("it holds no rows-….parquet".into());
            }
            return Self::of_run(&files);
        }
        let mut file = File::open(path).map_err(|error| Mistake::system(&error))?;
        let mut magic = Vec::new();
        file.by_ref().take(4).read_to_end(&mut magic).map_err(|error| Mistake::system(&error))?;
        if magic == b"PAR1" {
            return Self::of_run(&[path.to_owned()]);
        }
        // What comes by a pipe can be read once.
        Self::of_csv(magic.as_slice().chain(file))
    }

    fn of_run(files: &[PathBuf]) -> Result<Self, Mistake> {
        let several = files.len() > 1;
        let unread = |error: FileError| {
            let what = unread(&error.problem);
            if several { what.of(&error.path.display().to_string()) } else { what }
        };
        let run = RowRun::open(files).map_err(unread)?;
        if run.has_both_sides() {
            return Err(Mistake::new(
                "it has rows of load generators and rows of what they asked: a request may be in both",
                "give the file, or the folder, of one side",
            ));
        }
        let mut rows = RowTrace { of_clients: run.of_clients(), ..RowTrace::default() };
        run.for_each(|visit, _| rows.see(visit)).map_err(unread)?;
        rows.end()
    }

    /// Reads CSV.
    ///
    /// # Errors
    /// In words, with the line.
    pub fn of_csv(input: impl Read) -> Result<Self, Mistake> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).flexible(true).from_reader(input);
        let head = reader.headers().map_err(unread)?.clone();
        if twitter::is_line(&head) {
            return Self::of_twitter(&head, reader.records());
        }
        let place = |name: &str| head.iter().position(|head| head.eq_ignore_ascii_case(name));
        let units = [("time", 1e9), ("time_s", 1e9), ("time_ms", 1e6), ("time_us", 1e3), ("time_ns", 1.0)];
        let time = units.iter().find_map(|&(name, scale)| Some((place(name)?, scale)));
        let (Some((time, scale)), Some(op)) = (time, place("op")) else {
            let head = Mistake::new("the head names no `time` and `op`", "it is like time,op,key,size");
            return Err(head.of("line 1"));
        };
        let (key, size, ttl) = (place("key"), place("size"), place("ttl"));
        let mut trace = Self::default();
        let mut known = KeyNames::default();
        for (number, record) in reader.records().enumerate() {
            let record = record.map_err(unread)?;
            let line = record.position().map_or(number as u64 + 2, csv::Position::line);
            let at_line = |mistake: Mistake| mistake.of(&format!("line {line}"));
            let wrong = |why: String| at_line(Mistake::plain(why));
            let cell = |place: Option<usize>| place.and_then(|place| record.get(place)).unwrap_or("");
            let at = nanos(cell(Some(time)), scale).map_err(at_line)?;
            let name = cell(Some(op)).to_ascii_lowercase();
            let command = Command::from_name(&name)
                .ok_or_else(|| wrong(format!("`{}` is no command", name.escape_debug())))?;
            let number = |text: &str, most: u64, what: &str| match text {
                "" => Ok(None),
                text => match text.parse::<u32>() {
                    Ok(number) if u64::from(number) <= most => Ok(Some(number)),
                    _ => Err(wrong(format!("`{}` is no {what}", text.escape_debug()))),
                },
            };
            let size = number(cell(size), LARGEST_VALUE, "size of a value")?;
            let ttl = number(cell(ttl), u64::MAX, "time to live in seconds")?.unwrap_or(0);
            let begun = trace.names.len();
            for text in cell(key).split_ascii_whitespace() {
                let text = text.as_bytes();
                if text.len() > LONGEST_KEY || text.iter().any(u8::is_ascii_control) {
                    return Err(wrong(format!("`{}` is no key", text.escape_ascii())));
                }
                trace.names.push(known.place(text));
            }
            let count = trace.names.len() - begun;
            if count > MOST_KEYS as usize || (count > 1 && !matches!(command, Command::Get | Command::Mget)) {
                return Err(wrong(format!("{count} keys are too many for a {name}")));
            }
            if trace.rows.len() == MOST_ROWS {
                return trace.in_order(true);
            }
            let named = if count > 0 { begun as u32 } else { UNNAMED };
            trace.rows.push(TraceRow { at, command, keys: (count as u32).max(1), named, size, ttl });
        }
        trace.texts = known.texts;
        Ok(trace.in_order(false)?.with_sizes())
    }

    /// Reads a trace of Twitter's whose first line was taken for a head.
    fn of_twitter(first: &StringRecord, lines: StringRecordsIter<'_, impl Read>) -> Result<Self, Mistake> {
        let mut trace = Self::default();
        let (mut known, mut clients) = (KeyNames::default(), KeyNames::default());
        let mut key = Vec::new();
        // The second of the last lines, and how many of them there are.
        let (mut second, mut of_second) = (0, 0);
        let lines = std::iter::once(Ok(first.clone())).chain(lines);
        for (number, line) in lines.enumerate() {
            let line = line.map_err(unread)?;
            let place = line.position().map_or(number as u64 + 1, csv::Position::line);
            let asked = twitter::request(&line, &mut key);
            let TwitterLine { second: at, command, size, ttl } =
                asked.map_err(|mistake| mistake.of(&format!("line {place}")))?;
            if trace.rows.len() == MOST_ROWS {
                return trace.in_order(true);
            }
            if at != second {
                spread(&mut trace.rows, of_second);
                (second, of_second) = (at, 0);
            }
            of_second += 1;
            let client = clients.place(line[twitter::CLIENT].as_bytes()) as usize;
            if client == trace.clients.len() {
                trace.clients.push(0);
            }
            trace.clients[client] += 1;
            let named = trace.names.len() as u32;
            trace.names.push(known.place(&key));
            let at = Nanos(at.saturating_mul(SECOND));
            let size = stores(command).then_some(size);
            trace.rows.push(TraceRow { at, command, keys: 1, named, size, ttl });
        }
        spread(&mut trace.rows, of_second);
        trace.texts = known.texts;
        Ok(trace.in_order(false)?.with_sizes())
    }

    /// By time, counted from the first. Rows of a proxy are in the order of their replies.
    fn in_order(mut self, too_many: bool) -> Result<Self, Mistake> {
        if too_many {
            return Err(Mistake::plain(format!("it has more than {MOST_ROWS} requests")));
        }
        self.rows.sort_by_key(|row| row.at);
        let Some(first) = self.rows.first().map(|row| row.at) else {
            return Err("there is no request in it".into());
        };
        self.rows.iter_mut().for_each(|row| row.at = row.at.saturating_sub(first));
        Ok(self)
    }

    /// Notes how large the values of its keys are. What is appended is a part of one.
    fn with_sizes(self) -> Self {
        let mut sizes = vec![None; self.texts.len()];
        for row in self.rows.iter().filter(|row| !row.appends()) {
            if let (Some(&[name]), Some(size)) = (self.names(row), row.size) {
                sizes[name as usize] = Some(size);
            }
        }
        Self { sizes, ..self }
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none; a trace that was read has one at least.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Request `number`, from zero.
    pub fn row(&self, number: usize) -> Option<TraceRow> {
        self.rows.get(number).copied()
    }

    /// Whether it changes in place what it stores under a key that it names: then the value is none
    /// that can be verified.
    pub fn changes_in_place(&self) -> bool {
        self.rows.iter().any(|row| row.changes_in_place() && row.names_from().is_some())
    }

    /// Whether it names the keys of all its requests: none is drawn from a range then.
    pub fn names_all(&self) -> bool {
        let has_key = |row: &TraceRow| row.command.form() != RequestTemplate::Bare;
        self.rows.iter().all(|row| row.names_from().is_some() || !has_key(row))
    }

    /// The keys a row names, as numbers for [`Self::text`]; none where they are not known.
    pub fn names(&self, row: &TraceRow) -> Option<&[u32]> {
        let begin = row.names_from()? as usize;
        self.names.get(begin..begin + row.keys as usize)
    }

    /// How many requests each client sent, in any order; empty where clients are not known.
    pub fn clients(&self) -> &[u64] {
        &self.clients
    }

    /// How many bytes the value of a key has, by the last request that says so; none: none does.
    pub fn size(&self, name: u64) -> Option<u32> {
        *self.sizes.get(name as usize)?
    }

    /// A key's text.
    pub fn text(&self, name: u64) -> &[u8] {
        self.texts.get(name as usize).map_or(b"", |text| text)
    }
}

const SECOND: u64 = 1_000_000_000;

/// Spreads the last `count` rows, which have the same second, over it.
fn spread(rows: &mut [TraceRow], count: u64) {
    let first = rows.len() - count as usize;
    for (place, row) in (0_u64..).zip(&mut rows[first..]) {
        row.at.0 = row.at.0.saturating_add(place * SECOND / count);
    }
}

/// The keys of a trace, or its clients, each once, by their places.
#[derive(Debug, Default)]
struct KeyNames {
    known: HashMap<Box<[u8]>, u32>,
    texts: Vec<Box<[u8]>>,
}

impl KeyNames {
    /// The place of this key, which is a new one where it was not known.
    fn place(&mut self, text: &[u8]) -> u32 {
        if let Some(&place) = self.known.get(text) {
            return place;
        }
        let place = self.texts.len() as u32;
        self.known.insert(text.into(), place);
        self.texts.push(text.into());
        place
    }
}

/// A trace that is made of rows.
#[derive(Default)]
struct RowTrace {
    trace: Trace,
    /// The place of each digest in the list of all keys.
    known: HashMap<KeyDigest, u32>,
    too_many: bool,
    /// Whether the station of a row is the class of its client: each request has one row then.
    of_clients: bool,
    /// The station of the first row, and whether another one has rows too.
    station: Option<u16>,
    several_stations: bool,
    /// By operation: how many rows asked for no key of a cache.
    passed: [u64; Operation::COUNT],
}

impl RowTrace {
    fn see(&mut self, visit: &Visit) {
        let Some(command) = command(visit.operation) else {
            self.passed[visit.operation.index()] += 1;
            return;
        };
        let station = *self.station.get_or_insert(visit.station);
        self.several_stations |= !self.of_clients && visit.station != station;
        self.too_many |= self.trace.rows.len() == MOST_ROWS;
        if self.too_many {
            return;
        }
        let keys = visit.keys.clamp(1, MOST_KEYS);
        let size = stores(command).then(|| value_of(visit.bytes_in));
        let named = visit.key.known().map_or(UNNAMED, |key| self.place(key));
        self.trace.rows.push(TraceRow { at: Nanos(visit.received.0), command, keys, named, size, ttl: 0 });
    }

    /// The key's digest is its name.
    fn place(&mut self, key: KeyDigest) -> u32 {
        let texts = &mut self.trace.texts;
        *self.known.entry(key).or_insert_with(|| {
            texts.push(format!("{:016x}", key.0).into_bytes().into());
            texts.len() as u32 - 1
        })
    }

    /// Why there is no trace: what its rows ask instead.
    fn of_no_key(&self) -> Mistake {
        let asked = Operation::ALL.iter().zip(self.passed).filter(|(_, rows)| *rows > 0);
        let asked: Vec<String> =
            asked.map(|(operation, rows)| format!("{} {operation}", count(rows as f64))).collect();
        Mistake::new(
            format!("no request in it asks a cache for a key: there are {}", asked.join(", ")),
            "classes of a simulation are requests to a cache where they are called so: get, set",
        )
    }

    /// Rows know their first keys. Further ones are first keys of the rows that follow: each of
    /// them is as frequent as it was, and they are those that were asked for about then.
    fn end(self) -> Result<Trace, Mistake> {
        if self.several_stations {
            return Err(Mistake::new(
                "its rows are of several stations, and a request has one at each that it visited",
                "of a simulation, rows of a network with one station, and without a pool, are a trace",
            ));
        }
        if self.trace.rows.is_empty() && self.passed.iter().any(|&rows| rows > 0) {
            return Err(self.of_no_key());
        }
        let mut trace = self.trace.in_order(self.too_many)?;
        let first: Vec<Option<u32>> = trace.rows.iter().map(TraceRow::names_from).collect();
        for number in 0..first.len() {
            let Some(own) = first[number] else { continue };
            let begun = trace.names.len();
            trace.names.push(own);
            let wanted = trace.rows[number].keys as usize;
            let following = first[number + 1..].iter().chain(&first[..number]).flatten();
            for &other in following.take(FURTHER * wanted) {
                if trace.names.len() - begun == wanted {
                    break;
                }
                if !trace.names[begun..].contains(&other) {
                    trace.names.push(other);
                }
            }
            trace.rows[number].keys = (trace.names.len() - begun) as u32;
            trace.rows[number].named = begun as u32;
        }
        Ok(trace.with_sizes())
    }
}

/// How many rows are looked at for each further key: few keys may be asked for again and again.
const FURTHER: usize = 8;

/// When the requests of a trace are due at a speed: at/speed, each by itself, so nothing drifts.
#[derive(Clone, Debug)]
pub struct Dues {
    trace: Arc<Trace>,
    speed: f64,
    next: usize,
}

impl Dues {
    /// From the first request on; `speed` above 0.
    pub fn new(trace: Arc<Trace>, speed: f64) -> Self {
        Self { trace, speed, next: 0 }
    }
}

impl Iterator for Dues {
    type Item = Stamp;

    fn next(&mut self) -> Option<Stamp> {
        self.nth(0)
    }

    fn nth(&mut self, skip: usize) -> Option<Stamp> {
        let row = self.trace.row(self.next.saturating_add(skip))?;
        self.next += skip + 1;
        let exact = if self.speed == 1.0 { row.at.0 } else { (row.at.0 as f64 / self.speed).round() as u64 };
        Some(Stamp(exact))
    }
}

fn unread(error: impl std::fmt::Display) -> Mistake {
    Mistake::plain(error.to_string())
}

fn nanos(text: &str, scale: f64) -> Result<Nanos, Mistake> {
    let wrong = || Mistake::plain(format!("`{}` is no time", text.escape_debug()));
    if scale == 1.0 {
        return text.parse().map(Nanos).map_err(|_| wrong());
    }
    match text.parse::<f64>() {
        Ok(value) if value >= 0.0 && value * scale < 9e18 => Ok(Nanos((value * scale).round() as u64)),
        _ => Err(wrong()),
    }
}

/// What is sent for an operation of a record; nothing for those that ask for no key.
fn command(operation: Operation) -> Option<Command> {
    Some(match operation {
        Operation::Get => Command::Get,
        Operation::MultiGet => Command::Mget,
        Operation::Set => Command::Set,
        Operation::Add => Command::Add,
        Operation::Replace => Command::Replace,
        Operation::Append => Command::Append,
        Operation::Prepend => Command::Prepend,
        // Its unique is not in the record: it is fetched first, and that is no request of the
        // trace.
        Operation::Cas => Command::Set,
        Operation::Delete => Command::Delete,
        Operation::Incr => Command::Incr,
        Operation::Decr => Command::Decr,
        Operation::Touch => Command::Touch,
        Operation::Gat => Command::Gat,
        _ => return None,
    })
}

fn stores(command: Command) -> bool {
    matches!(
        command,
        Command::Set | Command::Add | Command::Replace | Command::Append | Command::Prepend | Command::Cas
    )
}

/// How large the value of a request of so many bytes is about: less the line of a short key and the
/// two line ends.
fn value_of(bytes: u64) -> u32 {
    const FRAMING: u64 = "set key-0000 0 0 100\r\n\r\n".len() as u64;
    u32::try_from(bytes.saturating_sub(FRAMING).min(LARGEST_VALUE)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use krarup_record::Visit;
    use krarup_record::file::RunMetadata;
    use krarup_record::file::rows::{RowFileWriter, RowSettings};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_requests_in_the_order_of_time() {
        let text = "time_ms,op,key,size\n5,get,a b,\n1,set,a,100\n3.5,delete,b,\n3.5,get,,\n";
        let trace = Trace::of_csv(text.as_bytes()).unwrap();
        let rows: Vec<_> = (0..trace.len()).filter_map(|number| trace.row(number)).collect();
        let seen: Vec<_> =
            rows.iter().map(|row| (row.at.0 / 100_000, row.command.name(), row.keys, row.size)).collect();
        assert_eq!(
            seen,
            [(0, "set", 1, Some(100)), (25, "delete", 1, None), (25, "get", 1, None), (40, "get", 2, None)]
        );
        let keys = |row: &TraceRow| -> Vec<&[u8]> {
            trace.names(row).into_iter().flatten().map(|&name| trace.text(u64::from(name))).collect()
        };
        assert_eq!(keys(&rows[3]), [b"a", b"b"]);
        assert_eq!(trace.names(&rows[2]), None);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, words) in [
            ("op,key\nget,a\n", "line 1"),
            ("time,op\n", "no request"),
            ("time,op\n1,get\nx,get\n", "line 3: `x` is no time"),
            ("time,op\n1,got\n", "line 2: `got`"),
            ("time,op,key\n1,set,a b\n", "line 2: 2 keys"),
            ("time,op,size\n1,set,-1\n", "line 2: `-1`"),
            ("time,op,ttl\n1,set,-1\n", "line 2: `-1` is no time to live"),
            ("time_ns,op\n-1,get\n", "line 2: `-1`"),
        ] {
            let error = Trace::of_csv(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_trace_changes_values_in_place_where_it_names_the_key() {
        for command in ["append", "prepend", "incr", "decr", "ma"] {
            let changes = |key: &str| {
                let text = format!("time,op,key\n0,set,a\n1,{command},{key}\n");
                Trace::of_csv(text.as_bytes()).unwrap().changes_in_place()
            };
            // A key that is drawn is one of those whose values are not verified.
            assert!(changes("a") && !changes(""), "{command}");
        }
        assert!(!Trace::of_csv("time,op,key\n0,set,a\n1,get,a\n".as_bytes()).unwrap().changes_in_place());
    }

    /// As of what a shell unpacks on the way: `--replay <(zstdcat trace.zst)`.
    #[test]
    fn a_trace_may_come_by_a_pipe() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(b"time,op,key\n0,get,a\n1,get,b\n").unwrap();
        drop(writer);
        let trace = Trace::read(Path::new(&format!("/dev/fd/{}", reader.as_raw_fd()))).unwrap();
        assert_eq!((trace.len(), trace.text(0)), (2, &b"a"[..]));
    }

    #[test]
    fn a_trace_names_all_keys_where_no_request_draws_one() {
        let names_all = |text: &str| Trace::of_csv(text.as_bytes()).unwrap().names_all();
        assert!(names_all("time,op,key\n0,set,a\n1,get,a b\n2,version,\n"));
        assert!(!names_all("time,op,key\n0,set,a\n1,get,\n") && !names_all("time,op\n0,get\n"));
    }

    #[test]
    fn due_times_are_those_of_the_trace_scaled_each_by_itself() {
        let trace = Arc::new(Trace::of_csv(&b"time_ns,op\n10,get\n13,get\n20,get\n"[..]).unwrap());
        let dues = |speed| Dues::new(Arc::clone(&trace), speed).map(|stamp| stamp.0).collect::<Vec<_>>();
        assert_eq!(dues(1.0), [0, 3, 10]);
        assert_eq!(dues(0.5), [0, 6, 20]);
        assert_eq!(dues(2.0), [0, 2, 5]);
        assert_eq!(Dues::new(Arc::clone(&trace), 1.0).nth(2), Some(Stamp(10)));
        assert_eq!(Dues::new(trace, 1.0).nth(3), None);
    }

    #[test]
    fn rows_of_a_proxy_are_a_trace_without_keys() {
        let mut rows = RowTrace::default();
        for (received, operation, keys, bytes) in
            [(900, Operation::Set, 1, 124), (500, Operation::MultiGet, 3, 40), (700, Operation::Other, 0, 9)]
        {
            let mut visit = Visit::at(Stamp(received), operation);
            (visit.keys, visit.bytes_in) = (keys, bytes);
            rows.see(&visit);
        }
        let trace = rows.end().unwrap();
        let first =
            TraceRow { at: Nanos(0), command: Command::Mget, keys: 3, named: UNNAMED, size: None, ttl: 0 };
        let second = TraceRow {
            at: Nanos(400),
            command: Command::Set,
            keys: 1,
            named: UNNAMED,
            size: Some(100),
            ttl: 0,
        };
        assert_eq!(trace.rows, [first, second]);
    }

    /// A request of a simulation has a row at each station; one of a client has one, whose station
    /// is its class.
    #[test]
    fn a_request_is_no_trace_of_as_many_as_it_has_rows() {
        let read = |of_clients| {
            let mut rows = RowTrace { of_clients, ..RowTrace::default() };
            for station in [1, 2, 1] {
                rows.see(&Visit { station, ..Visit::at(Stamp(u64::from(station)), Operation::Get) });
            }
            rows.end().map(|trace| trace.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read(true), Ok(3));
        let refused = read(false).unwrap_err();
        assert!(refused.contains("several stations"), "{refused}");
    }

    #[test]
    fn files_of_both_sides_of_a_request_are_no_trace() {
        let folder = std::env::temp_dir().join(format!("krarup-load-sides-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let write = |of_clients: bool| {
            let run = RunMetadata { epoch_unix: Nanos(0) };
            let settings = RowSettings { of_clients, ..RowSettings::from(run) };
            let file = File::create(folder.join(format!("rows-{of_clients}.parquet"))).unwrap();
            let mut rows = RowFileWriter::new(file, settings).unwrap();
            rows.push(&Visit::at(Stamp(1), Operation::Get), &[]).unwrap();
            rows.finish().unwrap();
        };
        write(true);
        assert_eq!(Trace::read(&folder).unwrap().len(), 1);
        write(false);
        let refused = Trace::read(&folder).unwrap_err().to_string();
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(refused.contains("load generators") && refused.contains("what they asked"), "{refused}");
    }

    #[test]
    fn rows_of_queues_are_told_as_what_they_are() {
        let mut rows = RowTrace::default();
        for operation in [Operation::Put, Operation::Reserve, Operation::Put] {
            rows.see(&Visit::at(Stamp(1), operation));
        }
        let refused = rows.end().unwrap_err().to_string();
        assert!(refused.contains("asks a cache for a key: there are 2 put, 1 reserve"), "{refused}");
    }

    /// Digests name keys; a multi-get takes its further keys from what follows it.
    #[test]
    fn rows_with_digests_ask_for_each_key_as_often_as_it_was() {
        let mut rows = RowTrace::default();
        for (received, key, keys) in [(30, "c", 1), (10, "a", 1), (20, "b", 3), (40, "b", 1), (50, "a", 1)] {
            let mut visit =
                Visit::at(Stamp(received), if keys > 1 { Operation::MultiGet } else { Operation::Get });
            (visit.keys, visit.key) = (keys, KeyDigest::of(key.as_bytes()));
            rows.see(&visit);
        }
        let trace = rows.end().unwrap();
        let text = |key: &str| format!("{:016x}", KeyDigest::of(key.as_bytes()).0);
        let asked: Vec<Vec<String>> = (0..trace.len())
            .map(|number| {
                let names = trace.names(&trace.row(number).unwrap()).unwrap().to_vec();
                names
                    .iter()
                    .map(|&name| String::from_utf8(trace.text(u64::from(name)).to_vec()).unwrap())
                    .collect()
            })
            .collect();
        let expected = [vec!["a"], vec!["b", "c", "a"], vec!["c"], vec!["b"], vec!["a"]];
        assert_eq!(asked, expected.map(|keys| keys.into_iter().map(text).collect::<Vec<_>>()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(text in "(time|time_ns),op,key,size,ttl\n([0-9.-]{0,4},(get|set|x),[a-c ]{0,4},[0-9]{0,3},[0-9-]{0,12}\n){0,5}") {
            let _ = Trace::of_csv(text.as_bytes());
        }
    }
}
