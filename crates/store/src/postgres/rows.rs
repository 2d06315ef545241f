//! Messages as the database's rows have them.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use krarup_broker::changes::{MessageRow, StoredState};
use krarup_broker::job::{Id, JobCounts};
use krarup_units::Nanos;

/// Names that occur again and again are kept once.
#[derive(Default)]
pub(super) struct NameTable(std::collections::HashSet<Arc<str>>);

impl NameTable {
    pub(super) fn one(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }
}

/// A number as a column has it, whose largest is 2,147,483,647: of seconds that is for ever.
pub(super) fn at_most(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// A message out of a row.
pub(super) fn read(row: &tokio_postgres::Row, names: &mut NameTable) -> MessageRow {
    let due: Option<SystemTime> = row.get(4);
    let standing = match (row.get::<_, i16>(2), due) {
        (1, Some(due)) => StoredState::Delayed(since_1970(due)),
        (2, _) => StoredState::Buried(row.get::<_, Option<i64>>(5).unwrap_or(0) as u64),
        _ => StoredState::Ready,
    };
    let count = |column: usize| row.get::<_, i32>(column) as u32;
    let seconds = |column: usize| Nanos::from_secs(u64::from(row.get::<_, i32>(column) as u32));
    MessageRow {
        id: row.get::<_, i64>(0) as Id,
        tube: names.one(row.get(1)),
        sender: row.get::<_, Option<&str>>(9).map(|name| names.one(name)),
        receiver: row.get::<_, Option<&str>>(10).map(|name| names.one(name)),
        priority: row.get::<_, i64>(3) as u32,
        delay: seconds(6),
        ttr: seconds(7),
        created: since_1970(row.get(8)),
        standing,
        happened: JobCounts {
            reserves: count(11),
            timeouts: count(12),
            releases: count(13),
            buries: count(14),
            kicks: count(15),
        },
        flags: row.get::<_, i64>(17) as u32,
        lives_until: row.get::<_, Option<SystemTime>>(18).map(since_1970),
        body: row.get::<_, &[u8]>(16).into(),
    }
}

pub(super) fn since_1970(time: SystemTime) -> Nanos {
    time.duration_since(UNIX_EPOCH).map_or(Nanos::ZERO, Nanos::from)
}

pub(super) fn wall(time: Nanos) -> SystemTime {
    UNIX_EPOCH + time.as_duration()
}
