//! What a service says on stderr, on its way to a thread that writes it: where the reader of a pipe
//! or a terminal stands still, no event loop and no signal waits for it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use krarup_net::snapshots::lock;

/// How many entries wait for the reader at most. A service says few; where all its servers go and
/// come at once, a line of each.
const MOST: usize = 10_000;

/// How long a reader that takes nothing is waited for at the end.
const STALL: Duration = Duration::from_secs(1);

/// What waits for the thread that writes.
#[derive(Debug, Default)]
pub(super) struct Notices {
    queue: Mutex<NoticeQueue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct NoticeQueue {
    entries: VecDeque<NoticeEntry>,
    /// How many entries there have been so far, and how many of them are written.
    entered: u64,
    written: u64,
}

#[derive(Debug)]
enum NoticeEntry {
    Text(String),
    /// In its place so many were dropped.
    Dropped(u64),
}

impl NoticeQueue {
    fn put(&mut self, text: String) {
        let full = self.entries.len() >= MOST;
        if full && let Some(NoticeEntry::Dropped(count)) = self.entries.back_mut() {
            *count += 1;
            return;
        }
        self.entries.push_back(if full { NoticeEntry::Dropped(1) } else { NoticeEntry::Text(text) });
        self.entered += 1;
    }

    fn take(&mut self) -> Option<String> {
        self.entries.pop_front().map(|entry| match entry {
            NoticeEntry::Text(text) => text,
            NoticeEntry::Dropped(count) => {
                format!("warning: stderr was not read: {count} lines are missing here\n")
            }
        })
    }
}

impl Notices {
    /// A thread that writes to `out` from now on.
    pub(super) fn begin(mut out: impl Write + Send + 'static) -> io::Result<Arc<Self>> {
        let notices = Arc::new(Self::default());
        let its = Arc::clone(&notices);
        let writes = move || {
            loop {
                // Talk that cannot be written is dropped: there is nowhere to say so.
                let _ = out.write_all(its.next().as_bytes());
                its.queue().written += 1;
                its.changed.notify_all();
            }
        };
        thread::Builder::new().name("stderr".into()).spawn(writes)?;
        Ok(notices)
    }

    /// Has this written after all that was put before, and waits for nothing.
    pub(super) fn put(&self, text: String) {
        self.queue().put(text);
        self.changed.notify_all();
    }

    /// Waits until all that was put before is written, as long as the reader takes any of it.
    pub(super) fn settle(&self) {
        let mut queue = self.queue();
        let last = queue.entered;
        while queue.written < last {
            let before = queue.written;
            let waited = self.changed.wait_timeout_while(queue, STALL, |queue| queue.written == before);
            let (now, limit) = waited.unwrap_or_else(PoisonError::into_inner);
            if limit.timed_out() {
                return;
            }
            queue = now;
        }
    }

    /// What is to be written next, as soon as there is something.
    fn next(&self) -> String {
        let mut queue = self.queue();
        loop {
            if let Some(text) = queue.take() {
                return text;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn queue(&self) -> MutexGuard<'_, NoticeQueue> {
        lock(&self.queue)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::iter;

    use super::*;

    #[test]
    fn what_is_dropped_is_counted_in_its_place() {
        let mut queue = NoticeQueue::default();
        (0..MOST + 3).for_each(|number| queue.put(format!("{number}\n")));
        assert_eq!(queue.take().as_deref(), Some("0\n"));
        queue.put("there is no room yet\n".into());
        assert_eq!(queue.take().as_deref(), Some("1\n"));
        queue.put("there is\n".into());
        let rest: Vec<String> = iter::from_fn(|| queue.take()).collect();
        assert_eq!(rest.len(), MOST);
        let last = format!("{}\n", MOST - 1);
        let missing = "warning: stderr was not read: 4 lines are missing here\n".to_owned();
        assert_eq!(rest[MOST - 3..], [last, missing, "there is\n".to_owned()]);
    }

    /// More than a pipe holds is put before any of it is read.
    #[test]
    fn a_reader_that_comes_late_gets_every_line_in_order() {
        let (reader, writer) = io::pipe().unwrap();
        let notices = Notices::begin(writer).unwrap();
        (0..2_000).for_each(|number| notices.put(format!("{number:1000}\n")));
        let mut lines = BufReader::new(reader).lines();
        for number in 0..2_000 {
            assert_eq!(lines.next().unwrap().unwrap().trim(), number.to_string());
        }
        notices.put("the last\n".into());
        notices.settle();
        assert_eq!(notices.queue().written, 2_001);
        assert_eq!(lines.next().unwrap().unwrap(), "the last");
    }
}
