//! `histograms.hlog`: the histograms at full resolution, as an HdrHistogram interval log that other
//! HDR tools read.
//!
//! Before each line stands a comment with what such a histogram cannot hold. Other tools skip it:
//! ```text
//! #[Krarup get.response_time start_ns=0 length_ns=60000000000 sum_ns=… least_ns=… greatest_ns=… clamped=0]
//! Tag=get.response_time,0.000,60.000,12.345,HISTFAAA…
//! ```

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use krarup_units::{Mistake, Nanos, Stamp};

use super::problem::{FileProblem, RunMetadata};
use crate::histogram::{DIGITS, Exact, LONGEST};
use crate::{Histograms, MeasuredDistribution, Operation, Quantity};

/// Largest values stand in the log in milliseconds: only people read them there.
const MAX_VALUE_DIVISOR: f64 = 1e6;

/// The most bytes that a histogram of our range takes when inflated: a head and nine bytes for each
/// of its 28,672 counts. More is no histogram of ours, and perhaps a trap.
const MOST_BYTES: u64 = 40 + 9 * 28_672;

/// The head of a histogram in the V2 encoding: cookie, payload length, and the range.
const HEAD: usize = 40;

/// Writes intervals, each with all of its histograms.
#[derive(Debug)]
pub struct LogWriter<W> {
    out: W,
}

impl<W: Write> LogWriter<W> {
    /// Begins the log of a run.
    ///
    /// # Errors
    /// As `out` says.
    pub fn begin(mut out: W, run: RunMetadata) -> Result<Self, FileProblem> {
        let seconds = run.epoch_unix.as_seconds();
        writeln!(out, "#[Histogram log format version 1.3]")?;
        writeln!(out, "#[StartTime: {seconds:.3} (seconds since epoch)]")?;
        writeln!(out, "#[BaseTime: {seconds:.3} (seconds since epoch)]")?;
        writeln!(out, "#[MaxValueDivisor: {MAX_VALUE_DIVISOR:.3}]")?;
        writeln!(out, "#[Krarup epoch_unix_ns={}]", run.epoch_unix.0)?;
        writeln!(
            out,
            "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
        )?;
        Ok(Self { out })
    }

    /// Writes every histogram that holds values, as what was measured in `length` from `start` on.
    ///
    /// # Errors
    /// As `out` says.
    pub fn interval(
        &mut self,
        start: Stamp,
        length: Nanos,
        histograms: &Histograms,
    ) -> Result<(), FileProblem> {
        for (operation, quantity, distribution) in histograms.iter() {
            let exact = distribution.exact();
            writeln!(
                self.out,
                "#[Krarup {operation}.{quantity} start_ns={} length_ns={} sum_ns={} least_ns={} greatest_ns={} clamped={}]",
                start.0, length.0, exact.sum.0, exact.least.0, exact.greatest.0, exact.clamped
            )?;
            let histogram = distribution.histogram();
            writeln!(
                self.out,
                "Tag={operation}.{quantity},{:.3},{:.3},{:.3},{}",
                Nanos(start.0).as_seconds(),
                length.as_seconds(),
                histogram.max() as f64 / MAX_VALUE_DIVISOR,
                encode(&histogram)
            )?;
        }
        self.out.flush()?;
        Ok(())
    }
}

/// A distribution as text within other files: what stands in a line of the log and in the comment
/// before it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Packed {
    /// The histogram as any HdrHistogram tool reads it (`HISTFAAA…`), values in nanoseconds.
    pub hdr: String,
    /// The exact sum of all values, in nanoseconds.
    pub sum_ns: u64,
    /// The least value, in nanoseconds.
    pub least_ns: u64,
    /// The greatest, in nanoseconds.
    pub greatest_ns: u64,
    /// How many values were longer than [`LONGEST`] and stand in the histogram as that.
    pub clamped: u64,
}

impl Packed {
    /// Of a distribution.
    pub fn of(distribution: &MeasuredDistribution) -> Self {
        let exact = distribution.exact();
        Self {
            hdr: encode(&distribution.histogram()),
            sum_ns: exact.sum.0,
            least_ns: exact.least.0,
            greatest_ns: exact.greatest.0,
            clamped: exact.clamped,
        }
    }

    /// The distribution again, the same in every figure.
    ///
    /// # Errors
    /// Why the text is no histogram of our range.
    pub fn unpack(&self) -> Result<MeasuredDistribution, Mistake> {
        let exact = Exact {
            sum: Nanos(self.sum_ns),
            least: Nanos(self.least_ns),
            greatest: Nanos(self.greatest_ns),
            clamped: self.clamped,
        };
        Ok(MeasuredDistribution::from_parts(&decode(&self.hdr)?, exact))
    }
}

/// A histogram of our range as text.
fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    written.expect("a histogram of our range fits, and memory takes what is written to it");
    STANDARD.encode(&bytes)
}

/// The same histogram in microseconds, rounded to the nearest, as tools read it whose histograms
/// are (`HISTFAAA…`).
pub fn in_micros(distribution: &MeasuredDistribution) -> String {
    let micros = |nanos: u64| ((nanos + 500) / 1_000).max(1);
    let mut histogram =
        Histogram::new_with_bounds(1, micros(LONGEST.0).max(2), DIGITS).expect("the range is one");
    for step in distribution.histogram().iter_recorded() {
        histogram.saturating_record_n(micros(step.value_iterated_to()), step.count_at_value());
    }
    encode(&histogram)
}

/// A log that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// When and where.
    pub run: RunMetadata,
    /// Its lines, in the order of the file.
    pub entries: Vec<HistogramEntry>,
}

/// One histogram of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramEntry {
    /// When the interval began.
    pub start: Stamp,
    /// How long it was.
    pub length: Nanos,
    /// What was asked for.
    pub operation: Operation,
    /// Which time.
    pub quantity: Quantity,
    /// The histogram, with its exact figures.
    pub distribution: MeasuredDistribution,
}

/// Reads a log that [`LogWriter`] wrote.
///
/// # Errors
/// The first line that is not what it should be.
pub fn read(mut input: impl Read) -> Result<Log, FileProblem> {
    let mut text = Vec::new();
    input.read_to_end(&mut text)?;
    let mut run = None;
    let mut noted: Option<Noted> = None;
    let mut entries = Vec::new();
    for (place, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let wrong = |why: &str| FileProblem::Log { line: place + 1, why: why.to_owned() };
        if let Some(note) = note(line) {
            if let Some(epoch) = note.strip_prefix("epoch_unix_ns=") {
                let epoch =
                    epoch.parse().map_err(|_| wrong("the wall clock at stamp zero is not a number"))?;
                run = Some(RunMetadata { epoch_unix: Nanos(epoch) });
            } else {
                let why = "not `operation.quantity` and the six exact figures of a histogram";
                noted = Some(Noted::parse(note).ok_or_else(|| wrong(why))?);
            }
            continue;
        }
        match IntervalLogIterator::new(line).next() {
            Some(Ok(LogEntry::Interval(interval))) => {
                let noted =
                    noted.take().ok_or_else(|| wrong("no exact figures stand before this histogram"))?;
                if interval.tag().is_none_or(|tag| tag.as_str() != noted.tag()) {
                    return Err(wrong("the tag is not that of the exact figures before it"));
                }
                let histogram =
                    decode(interval.encoded_histogram()).map_err(|why| wrong(&why.to_string()))?;
                entries.push(noted.entry(&histogram));
            }
            Some(Ok(LogEntry::StartTime(_) | LogEntry::BaseTime(_))) | None => {}
            Some(Err(_)) => return Err(wrong("neither a comment nor a histogram")),
        }
    }
    let lines = text.split(|&byte| byte == b'\n').count();
    let run = run
        .ok_or(FileProblem::Log { line: lines, why: "nowhere is the wall clock at stamp zero".to_owned() })?;
    Ok(Log { run, entries })
}

/// What our own comments say, between `#[Krarup ` and `]`.
fn note(line: &[u8]) -> Option<&str> {
    let note = line.trim_ascii_end().strip_prefix(b"#[Krarup ")?.strip_suffix(b"]")?;
    std::str::from_utf8(note).ok()
}

/// The comment before a histogram.
struct Noted {
    operation: Operation,
    quantity: Quantity,
    start: Stamp,
    length: Nanos,
    exact: Exact,
}

impl Noted {
    fn parse(note: &str) -> Option<Self> {
        let mut words = note.split(' ');
        let (operation, quantity) = words.next()?.split_once('.')?;
        let mut figure =
            |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok();
        let noted = Self {
            operation: Operation::from_name(operation)?,
            quantity: Quantity::from_name(quantity)?,
            start: Stamp(figure("start_ns")?),
            length: Nanos(figure("length_ns")?),
            exact: Exact {
                sum: Nanos(figure("sum_ns")?),
                least: Nanos(figure("least_ns")?),
                greatest: Nanos(figure("greatest_ns")?),
                clamped: figure("clamped")?,
            },
        };
        words.next().is_none().then_some(noted)
    }

    fn tag(&self) -> String {
        format!("{}.{}", self.operation, self.quantity)
    }

    fn entry(self, histogram: &Histogram<u64>) -> HistogramEntry {
        HistogramEntry {
            start: self.start,
            length: self.length,
            operation: self.operation,
            quantity: self.quantity,
            distribution: MeasuredDistribution::from_parts(histogram, self.exact),
        }
    }
}

/// A histogram of our range from its text, or why it is none.
fn decode(text: &str) -> Result<Histogram<u64>, Mistake> {
    let compressed = STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))?;
    // Eight bytes of cookie and length stand before the deflated histogram.
    let deflated = compressed.get(8..).ok_or("the histogram is cut short")?;
    let mut bytes = Vec::new();
    let inflated = ZlibDecoder::new(deflated).take(MOST_BYTES + 1).read_to_end(&mut bytes);
    inflated.map_err(|error| format!("the histogram does not inflate: {error}"))?;
    let (head, counts) = bytes.split_at_checked(HEAD).ok_or("the histogram is cut short")?;
    // The library makes room for as much as the head announces, and overflows on the one count that
    // is its own negative (nine bytes of ones), so neither may get there.
    let announced = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
    let damaged = || Mistake::plain("the histogram is damaged");
    if announced != counts.len() || counts.windows(9).any(|nine| nine == [0xff; 9]) {
        return Err(damaged());
    }
    let range = |from: usize| u64::from_be_bytes(std::array::from_fn(|place| head[from + place]));
    let digits = u32::from_be_bytes(std::array::from_fn(|place| head[12 + place]));
    if (digits, range(16), range(24)) != (u32::from(DIGITS), 1, LONGEST.0) {
        return Err(Mistake::plain(format!(
            "the histogram's range is not 1 ns to {LONGEST} to {DIGITS} digits"
        )));
    }
    let histogram = Deserializer::new().deserialize(&mut &bytes[..]);
    let histogram: Histogram<u64> = histogram.map_err(|error| Mistake::plain(error.to_string()))?;
    // There are more values than were ever counted.
    if histogram.len() >= 1 << 53 { Err(damaged()) } else { Ok(histogram) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::visit::tests::any_visit;

    const RUN: RunMetadata = RunMetadata { epoch_unix: Nanos(1_795_000_000_123_456_789) };

    #[test]
    fn a_histogram_in_microseconds_has_the_same_counts_and_percentiles() {
        let mut distribution = MeasuredDistribution::new();
        for value in 1..=1_000_u64 {
            distribution.record(Nanos(value * 10_000));
        }
        distribution.record(Nanos(3));
        let bytes = STANDARD.decode(in_micros(&distribution)).unwrap();
        let read: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!((read.len(), read.min()), (1_001, 1));
        for share in [0.5, 0.99, 1.0] {
            let (ours, theirs) =
                (distribution.quantile(share).unwrap().0 as f64 / 1e3, read.value_at_quantile(share) as f64);
            assert!((theirs / ours - 1.0).abs() < 2e-3, "{share}: {theirs} and {ours}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_packed_is_unpacked(values in prop::collection::vec(any::<u64>(), 0..20)) {
            let mut distribution = MeasuredDistribution::new();
            values.iter().for_each(|&value| distribution.record(Nanos(value)));
            let packed = Packed::of(&distribution);
            prop_assert_eq!(packed.unpack().unwrap(), distribution);
            let cut = Packed { hdr: packed.hdr[1..].to_owned(), ..packed };
            prop_assert!(cut.unpack().is_err());
        }
    }

    #[test]
    fn more_values_than_can_be_counted_are_refused() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, LONGEST.0, DIGITS).unwrap();
        for value in [10, 1_000, 100_000, 10_000_000, 1_000_000_000] {
            histogram.saturating_record_n(value, 1 << 62);
        }
        let packed = Packed { hdr: encode(&histogram), ..Packed::of(&MeasuredDistribution::new()) };
        assert_eq!(packed.unpack().unwrap_err().to_string(), "the histogram is damaged");
    }

    fn histograms(values: &[u64]) -> Histograms {
        let mut histograms = Histograms::new();
        for &value in values {
            let mut visit = crate::Visit::at(Stamp(0), Operation::Get);
            visit.replied = Stamp(value);
            histograms.record(visit.operation, &visit.parts(&[]));
        }
        histograms
    }

    fn written(intervals: &[(Stamp, Nanos, &Histograms)]) -> Vec<u8> {
        let mut text = vec![];
        let mut log = LogWriter::begin(&mut text, RUN).unwrap();
        for (start, length, histograms) in intervals {
            log.interval(*start, *length, histograms).unwrap();
        }
        text
    }

    fn rebuilt(log: &Log) -> Vec<(Operation, Quantity, &MeasuredDistribution)> {
        log.entries.iter().map(|entry| (entry.operation, entry.quantity, &entry.distribution)).collect()
    }

    #[test]
    fn a_plain_reader_of_such_logs_finds_the_histograms() {
        let text =
            written(&[(Stamp(1_500_000_000), Nanos::from_secs(60), &histograms(&[1_000_000, 3_000_000]))]);
        let entries: Vec<_> = IntervalLogIterator::new(&text).map(Result::unwrap).collect();
        let LogEntry::Interval(response) = entries.last().unwrap() else { panic!("{entries:?}") };
        assert_eq!(response.tag().unwrap().as_str(), "get.response_time");
        assert_eq!(response.start_timestamp().as_millis(), 1_500);
        assert_eq!(response.duration().as_secs(), 60);
        let bytes = STANDARD.decode(response.encoded_histogram()).unwrap();
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
        assert_eq!((histogram.len(), histogram.count_at(1_000_000)), (2, 1));
    }

    #[test]
    fn the_largest_histogram_fits() {
        let mut histograms = Histograms::new();
        let whole = histograms_of_every_bucket();
        histograms.merge(&whole);
        let text = written(&[(Stamp(0), Nanos(1), &histograms)]);
        assert_eq!(rebuilt(&read(&text[..]).unwrap()), histograms.iter().collect::<Vec<_>>());
    }

    fn histograms_of_every_bucket() -> Histograms {
        let all = MeasuredDistribution::new();
        histograms(&all.histogram().iter_all().map(|step| step.value_iterated_to()).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let text = String::from_utf8(written(&[(Stamp(0), Nanos(1), &histograms(&[5]))])).unwrap();
        for (find, replace, why) in [
            ("HISTF", "HIST!", "line 8: not base64"),
            ("Tag=get.queue_time", "Tag=set.queue_time", "line 8: the tag is not that"),
            ("#[Krarup get.queue", "#[Other get.queue", "line 8: no exact figures"),
            ("sum_ns=0", "sum_ns=?", "line 7: not `operation.quantity`"),
            ("#[Krarup epoch", "#[epoch", "nowhere is the wall clock"),
            ("Tag=get.queue_time,0.000", "Tag=get.queue_time,zero", "line 8: neither a comment"),
        ] {
            let error = read(text.replacen(find, replace, 1).as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{find}: {error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_was_written_is_read(visits in prop::collection::vec(any_visit(), 0..4), start: u64, length: u64) {
            let mut histograms = Histograms::new();
            for (visit, servers) in &visits {
                histograms.record(visit.operation, &visit.parts(servers));
            }
            let text = written(&[(Stamp(start), Nanos(length), &histograms)]);
            let log = read(&text[..]).unwrap();
            prop_assert_eq!(log.run, RUN);
            prop_assert_eq!(rebuilt(&log), histograms.iter().collect::<Vec<_>>());
            prop_assert!(log.entries.iter().all(|one| (one.start, one.length) == (Stamp(start), Nanos(length))));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&bytes[..]);
        }

        #[test]
        fn no_damage_makes_the_reader_panic(place in any::<prop::sample::Index>(), byte: u8) {
            let mut text = written(&[(Stamp(0), Nanos(1), &histograms(&[5, 70_000]))]);
            let place = place.index(text.len());
            text[place] = byte;
            let _ = read(&text[..]);
        }

        #[test]
        fn no_histogram_makes_the_reader_panic(payload in prop::collection::vec(prop_oneof![any::<u8>(), Just(0xff)], 0..40)) {
            let mut bytes = 0x1c84_9303_u32.to_be_bytes().to_vec();
            bytes.extend((payload.len() as u32).to_be_bytes());
            bytes.extend(0_u32.to_be_bytes());
            bytes.extend(u32::from(DIGITS).to_be_bytes());
            bytes.extend(1_u64.to_be_bytes());
            bytes.extend(LONGEST.0.to_be_bytes());
            bytes.extend(1_f64.to_be_bytes());
            bytes.extend(&payload);
            let mut text = vec![0; 8];
            let mut deflate = flate2::write::ZlibEncoder::new(&mut text, flate2::Compression::fast());
            deflate.write_all(&bytes).unwrap();
            deflate.finish().unwrap();
            let _ = decode(&STANDARD.encode(&text));
        }
    }
}
