//! Beginning a thread, which the system may refuse.

use std::io;
use std::thread;

/// What a thread does.
pub(crate) type ThreadBody = Box<dyn FnOnce() + Send>;

/// Begins a thread of that name.
pub(crate) type Spawn = fn(&str, ThreadBody) -> io::Result<()>;

/// The [`Spawn`] that the system does; its error is the system's.
pub(crate) fn spawn(name: &str, body: ThreadBody) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(body).map(drop)
}
