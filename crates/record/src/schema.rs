//! Every column of every file, defined once: writers, readers, the files' own metadata and the
//! reference page take them from here.

use std::fmt::Write;

use crate::histogram::{BUCKET, DIGITS, LONGEST, Quantity};
use crate::holds::{HIGHEST_LEVEL, Seen};
use crate::quantities::QUANTITIES;
use crate::stamps;
use crate::{Operation, Outcome};

/// The version of the tables below. It rises when a column of `rows.parquet` comes, and when one of
/// any table changes its meaning or goes away.
pub const VERSION: u32 = 3;

/// The oldest version whose rows are still read.
pub const OLDEST_VERSION: u32 = 1;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A whole number from zero, below 2⁶⁴.
    U64,
    /// A whole number from zero, below 2³².
    U32,
    /// A whole number from zero, below 2¹⁶.
    U16,
    /// A whole number from zero, below 2¹²⁸.
    U128,
    /// A whole number with a sign, of 64 bits: every engine has it.
    I64,
    /// A moment on the wall clock, UTC, in microseconds since 1970.
    Moment,
    /// A text.
    Text,
    /// A number with a fraction. Empty where there is none.
    F64,
    /// `true` or `false`.
    Bool,
    /// One of a list of names.
    Name,
}

impl ColumnKind {
    /// The name in the reference.
    pub const fn name(self) -> &'static str {
        match self {
            Self::U64 => "u64",
            Self::U32 => "u32",
            Self::U16 => "u16",
            Self::U128 => "u128",
            Self::I64 => "i64",
            Self::Moment => "timestamp",
            Self::Text => "text",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Name => "name",
        }
    }
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct SchemaColumn {
    /// Its name, in the file too. `servers.sent` is the field `sent` of each element of the list
    /// `servers`.
    pub name: &'static str,
    /// What it holds.
    pub kind: ColumnKind,
    /// In which unit; empty for what has none.
    pub unit: &'static str,
    /// What it means.
    pub definition: &'static str,
    /// The first [`VERSION`] that has it.
    pub since: u32,
    /// What it held before version 3, where that was another kind.
    pub former: Option<ColumnKind>,
}

impl SchemaColumn {
    /// What it holds in files of this version.
    pub fn kind_in(&self, version: u32) -> ColumnKind {
        self.former.filter(|_| version < SIGNED).unwrap_or(self.kind)
    }
}

/// The first version in which whole numbers of rows have a sign and 64 bits each.
pub(crate) const SIGNED: u32 = 3;

/// One file.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// The file's name.
    pub file: &'static str,
    /// What one row of it is.
    pub about: &'static str,
    /// Its columns, in order.
    pub columns: &'static [SchemaColumn],
}

const fn column(
    name: &'static str,
    kind: ColumnKind,
    unit: &'static str,
    definition: &'static str,
) -> SchemaColumn {
    SchemaColumn { name, kind, unit, definition, since: OLDEST_VERSION, former: None }
}

/// A whole number of `rows.parquet`, which was `former` before version 3.
const fn whole(
    name: &'static str,
    former: ColumnKind,
    unit: &'static str,
    definition: &'static str,
) -> SchemaColumn {
    SchemaColumn { former: Some(former), ..column(name, ColumnKind::I64, unit, definition) }
}

/// `windows.csv`.
pub const WINDOWS: TableSchema = TableSchema {
    file: "windows.csv",
    about: "One row per window of time and operation. A request belongs to the window in which it was replied. Windows in which \
            an operation did not complete have a row of zeros. Where a run outlasts the windows that are kept one by one, \
            the older ones are one row per operation, the first.",
    columns: &[
        column("start_ns", ColumnKind::U64, "ns", "when the window begins, on the clock of the run"),
        column("length_ns", ColumnKind::U64, "ns", "how long the window is"),
        column(
            "folded",
            ColumnKind::Bool,
            "",
            "whether the row stands for all windows too old to be kept one by one",
        ),
        column("operation", ColumnKind::Name, "", "what was asked for"),
        column("count", ColumnKind::U64, "requests", "requests completed, errors included"),
        column("errors", ColumnKind::U64, "requests", "requests that did not end with outcome ok"),
        column("keys", ColumnKind::U64, "keys", "keys named"),
        column("hits", ColumnKind::U64, "keys", "keys found"),
        column("misses", ColumnKind::U64, "keys", "keys asked for and not found"),
        column("bytes_in", ColumnKind::U64, "bytes", "bytes of requests, framing included"),
        column("bytes_out", ColumnKind::U64, "bytes", "bytes of replies, framing included"),
        column("queue_time_ns", ColumnKind::U64, "ns", "sum of the queue times"),
        column("server_time_ns", ColumnKind::U64, "ns", "sum of the server times"),
        column("own_time_ns", ColumnKind::U64, "ns", "sum of the own times"),
        column("response_time_ns", ColumnKind::U64, "ns", "sum of the response times"),
        column(
            "response_min_ns",
            ColumnKind::U64,
            "ns",
            "the shortest response time; empty without requests",
        ),
        column("response_max_ns", ColumnKind::U64, "ns", "the longest response time"),
        column(
            "taken",
            ColumnKind::U64,
            "requests",
            "requests that a worker took, and that saw a queue then",
        ),
        column("queue_length_sum", ColumnKind::U64, "requests", "sum of the queue lengths they saw"),
        column("queue_length_max", ColumnKind::U64, "requests", "the longest queue that any of them saw"),
        column(
            "busy_workers_sum",
            ColumnKind::U64,
            "workers",
            "sum of the busy workers they saw, their own included; with unlimited workers those of one event loop",
        ),
        column("throughput", ColumnKind::F64, "1/s", "(count − errors) / length"),
        column("queue_time_mean_us", ColumnKind::F64, "µs", "queue_time_ns / count"),
        column("server_time_mean_us", ColumnKind::F64, "µs", "server_time_ns / count"),
        column("own_time_mean_us", ColumnKind::F64, "µs", "own_time_ns / count"),
        column("response_time_mean_us", ColumnKind::F64, "µs", "response_time_ns / count"),
        column(
            "queue_length_seen_mean",
            ColumnKind::F64,
            "requests",
            "queue_length_sum / taken: the queue as requests saw it",
        ),
        column(
            "queue_length_mean",
            ColumnKind::F64,
            "requests",
            "queue_time_ns / length_ns: the queue averaged over time, by Little's law with the requests that ended in the window",
        ),
    ],
};

/// `histogram.csv`.
pub const HISTOGRAM: TableSchema = TableSchema {
    file: "histogram.csv",
    about: "One row per operation, quantity and bucket of 100 µs that holds requests.",
    columns: &[
        column("operation", ColumnKind::Name, "", "what was asked for"),
        column("quantity", ColumnKind::Name, "", "which of the four times"),
        column("from_us", ColumnKind::U64, "µs", "the least value of the bucket"),
        column("to_us", ColumnKind::U64, "µs", "the least value of the next bucket"),
        column("count", ColumnKind::U64, "requests", "requests in the bucket"),
        column("cumulative", ColumnKind::F64, "", "share of the requests in this bucket or below, up to 1"),
    ],
};

/// `holds.csv`.
pub const HOLDS: TableSchema = TableSchema {
    file: "holds.csv",
    about: "One row per operation and level of what a request saw when a worker took it: over busy workers, the mean hold time is the curve T(n).",
    columns: &[
        column("operation", ColumnKind::Name, "", "what was asked for"),
        column(
            "seen",
            ColumnKind::Name,
            "",
            "what was seen: workers busy, the request's own included (with unlimited workers those of one event loop), or requests still queued",
        ),
        column("level", ColumnKind::U64, "", "how much of it; the highest level stands for all above too"),
        column(
            "worker_was_idle",
            ColumnKind::Bool,
            "",
            "whether the worker had been idle, or came straight from another request",
        ),
        column("count", ColumnKind::U64, "requests", "requests"),
        column("hold_time_ns", ColumnKind::U64, "ns", "sum of their hold times"),
        column("hold_time_squares_ns2", ColumnKind::U128, "ns²", "sum of the squares of their hold times"),
        column("server_time_ns", ColumnKind::U64, "ns", "sum of their server times"),
        column("hold_time_mean_us", ColumnKind::F64, "µs", "hold_time_ns / count"),
        column(
            "hold_time_deviation_us",
            ColumnKind::F64,
            "µs",
            "standard deviation of the hold times; empty below two requests",
        ),
    ],
};

/// `servers.csv`.
pub const SERVERS: TableSchema = TableSchema {
    file: "servers.csv",
    about: "One row per server behind the station.",
    columns: &[
        column("server", ColumnKind::U64, "", "the server's place in the configuration, from zero"),
        column("requests", ColumnKind::U64, "requests", "requests, or parts of requests, sent to it"),
        column("errors", ColumnKind::U64, "requests", "those that did not end with outcome ok"),
        column("time_ns", ColumnKind::U64, "ns", "sum of its times, answered − sent"),
        column("time_mean_us", ColumnKind::F64, "µs", "time_ns / requests"),
        column("time_p50_us", ColumnKind::F64, "µs", "median of its times"),
        column("time_p90_us", ColumnKind::F64, "µs", "90th percentile of its times"),
        column("time_p99_us", ColumnKind::F64, "µs", "99th percentile of its times"),
        column("time_max_us", ColumnKind::F64, "µs", "its longest time"),
    ],
};

/// `rows.parquet`.
pub const ROWS: TableSchema = TableSchema {
    file: "rows.parquet",
    about: "One row per request; those of each event loop in the order in which its replies left.",
    columns: &[
        whole(
            "station",
            ColumnKind::U16,
            "",
            "which station of the network was visited; 0 is the station that wrote the file",
        ),
        column("operation", ColumnKind::Name, "", "what was asked for"),
        column("outcome", ColumnKind::Name, "", "how it ended"),
        whole("received", ColumnKind::U64, "ns", stamps::RECEIVED.text),
        whole("queued", ColumnKind::U64, "ns", stamps::QUEUED.text),
        whole("taken", ColumnKind::U64, "ns", stamps::TAKEN.text),
        whole("replied", ColumnKind::U64, "ns", stamps::REPLIED.text),
        whole(
            "busy_workers",
            ColumnKind::U32,
            "workers",
            "workers busy at taken, the request's own included, with unlimited workers those of one event loop; 0 where no worker took it",
        ),
        whole("queue_length", ColumnKind::U32, "requests", "requests that still waited at taken"),
        column("worker_was_idle", ColumnKind::Bool, "", "whether the worker that took it had been idle"),
        whole("keys", ColumnKind::U32, "keys", "keys named"),
        whole("hits", ColumnKind::U32, "keys", "keys found"),
        whole("misses", ColumnKind::U32, "keys", "keys asked for and not found"),
        whole("bytes_in", ColumnKind::U64, "bytes", "bytes of the request, framing included"),
        whole("bytes_out", ColumnKind::U64, "bytes", "bytes of the reply, framing included"),
        SchemaColumn {
            since: 3,
            ..column(
                "key",
                ColumnKind::I64,
                "",
                "XXH3 (64 bits) of its first key as the servers see it; empty where no key was named, or keys are not kept",
            )
        },
        SchemaColumn {
            since: 3,
            ..column(
                "time",
                ColumnKind::Moment,
                "",
                "the wall clock at replied, in UTC to the microsecond: the wall clock at stamp zero + replied",
            )
        },
        SchemaColumn {
            since: 3,
            ..column(
                "instance",
                ColumnKind::Text,
                "",
                "which program wrote the row: a name given to it, or its address",
            )
        },
        whole("servers.server", ColumnKind::U16, "", "the server's place in the configuration, from zero"),
        column("servers.outcome", ColumnKind::Name, "", "how this server's part ended"),
        whole("servers.sent", ColumnKind::U64, "ns", stamps::SENT.text),
        whole("servers.answered", ColumnKind::U64, "ns", stamps::ANSWERED.text),
        SchemaColumn {
            since: 2,
            ..whole(
                "servers.lane",
                ColumnKind::U16,
                "",
                "which connection to the server carried it, from zero; answers on one connection come in the order of the requests. Not in files of version 1, whose rows are read with 0",
            )
        },
    ],
};

/// All tables.
pub const TABLES: &[TableSchema] = &[WINDOWS, HISTOGRAM, HOLDS, SERVERS, ROWS];

/// The reference page, in Markdown.
pub fn page() -> String {
    let mut page = String::from(
        "# Records\n\n\
         What every station writes about every request, and what each word means. This page is generated from the tables in \
         `crates/record/src/schema.rs` and `quantities.rs`.\n\n\
         ## Stamps and times\n\n\
         Stamps are nanoseconds on the monotonic clock of one run; the wall clock at stamp zero stands in the metadata of \
         `rows.parquet` and in `histograms.hlog`. A stamp stands next to the system call it belongs to; requests that one call \
         served share its stamp. A stamp whose event never happened takes the value of the stamp before it.\n\n\
         | name | definition |\n|---|---|\n",
    );
    // Writing to a String cannot fail.
    for quantity in QUANTITIES.iter().filter(|quantity| !quantity.field.is_empty()) {
        let _ = writeln!(page, "| `{}` | {} |", quantity.field, quantity.meaning());
    }
    let _ = write!(page, "\n## Names\n\n| what | names |\n|---|---|\n");
    let names = [
        ("operation", Operation::names()),
        ("outcome", Outcome::names()),
        ("quantity", Quantity::names()),
        ("seen", Seen::names()),
    ];
    for (what, names) in names {
        let _ = writeln!(page, "| {what} | `{}` |", names.replace(", ", "` `"));
    }
    for table in TABLES {
        let _ = write!(page, "\n## `{}`\n\n{}\n\n", table.file, table.about);
        let _ = write!(page, "| column | type | unit | definition |\n|---|---|---|---|\n");
        for column in table.columns {
            let (kind, definition) = (column.kind.name(), column.definition);
            let _ = writeln!(page, "| `{}` | {kind} | {} | {definition} |", column.name, column.unit);
        }
    }
    let _ = write!(
        page,
        "\nThe list `servers` of `rows.parquet` is one element per server asked; it is empty where none was. The file's metadata \
         holds `krarup.schema_version` (now {VERSION}; files since {OLDEST_VERSION} are read), `krarup.epoch_unix_ns` (the wall clock at stamp zero), \
         `krarup.rows_lost` (rows that could not be written), `krarup.visits_apart` (answers of servers that no client waited for and no row shows: \
         copies of `writes`, hedges, refills, shadows; files of earlier builds do not say), `krarup.instance` (what the column says in every row), `krarup.sample` where only \
         the rows of some keys were kept (`1/16`: of one key in sixteen, and of requests that name none), `krarup.clients` where a load generator wrote it (`received` is when a request was due, `taken` when it was sent) \
         and `krarup.columns` (this table). Before version 3 whole numbers had no sign, and 16, 32 or 64 bits. Rows as CSV have neither `key` nor `time` \
         nor `instance`, and one column `servers` \
         that holds `server:outcome:sent:answered:lane` for each server, parted by spaces; without a lane it is 0.\n\n\
         With `--rows-every` there are several files, in folders that engines take for columns: `date=2026-11-25/hour=04/rows-20261125T043000Z-INSTANCE.parquet` has the \
         rows that were replied to from 04:30:00 UTC on for so long, and never beyond the hour (the day, where intervals are longer than an hour; there is no `hour=` then). Intervals are counted from the hour's \
         beginning by the wall clock. Where that is set by more than a second, or the machine was suspended, rows go within a second into files that say another wall clock at stamp zero; stamps stay those of one run. A single file goes by the wall clock \
         at the program's start. A file has its name when it is whole and on the disk, two seconds after its interval; until then its name begins with a dot and ends in `.partial`. What comes later than that, \
         or from a program that was started anew in the same interval, is in a file of its own (`-2.parquet`). `krarup.rows_lost` and `krarup.visits_apart` count since the file before. \
         A file that cannot be written is given up with its rows and the next is begun; the program warns once, and again only after a file was complete.\n\n\
         ## `histograms.hlog`\n\n\
         An HdrHistogram interval log, version 1.3: one line per operation and quantity, tagged `operation.quantity`, values in \
         nanoseconds to {DIGITS} digits, the largest value of a line in milliseconds. Any HdrHistogram tool reads it; the comment \
         before each line adds what such a histogram cannot hold: exact sum, least and greatest value, and how many values \
         were longer than {LONGEST} and are counted as that.\n\n\
         ## How histograms are bucketed\n\n\
         Below 2048 ns values are counted one by one; above, buckets double in width with every doubling of the value, each \
         at most 1/1024 of its values wide. In `histogram.csv`, such a bucket is counted as a whole where its middle lies, in \
         buckets of {BUCKET}: a value may stand one bucket beside its own, by at most 0.05 % of itself, and above 102 ms some \
         buckets stay empty. Levels in `holds.csv` above {HIGHEST_LEVEL} are counted as {HIGHEST_LEVEL}.\n",
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `UPDATE=1 cargo test -p krarup-record` writes the page anew.
    #[test]
    fn the_reference_page_is_what_the_tables_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/records.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(written == page(), "docs/reference/records.md is out of date: run the tests with UPDATE=1");
    }

    #[test]
    fn a_table_names_a_column_once() {
        for table in TABLES {
            for one in table.columns {
                assert_eq!(
                    table.columns.iter().filter(|other| other.name == one.name).count(),
                    1,
                    "{}",
                    one.name
                );
            }
        }
    }
}
