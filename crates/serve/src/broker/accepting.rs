//! Accepting clients on a thread that waits for them.

use std::io;
use std::thread;
use std::time::Duration;

use krarup_net::blocking::{Wakeup, accept};
use krarup_net::{Listener, Stream};
use krarup_units::Stamp;

use crate::refusal::RefusalNotices;

/// Hands each client over with its number, until `over` is notified and no client waits. A client
/// that cannot be served finds its connection closed. The operator is told by `refused` why one is
/// turned away, not of each: `now` says what time it is.
pub(crate) fn accept_each(
    listener: &Listener,
    over: &Wakeup,
    now: impl Fn() -> Stamp,
    refused: impl Fn(String),
    mut serve: impl FnMut(Stream, u64) -> io::Result<()>,
) {
    let mut told = RefusalNotices::default();
    let mut refused = |error: &io::Error| {
        if told.is_due(now()) {
            refused(error.to_string());
        }
    };
    let mut number = 0;
    loop {
        match accept(listener, over) {
            Ok(Some(client)) => _ = serve(client, number).inspect_err(&mut refused),
            Ok(None) => return,
            Err(error) => {
                refused(&error);
                // Out of descriptors, most likely: others must close first.
                thread::sleep(Duration::from_millis(50));
            }
        }
        number += 1;
    }
}
