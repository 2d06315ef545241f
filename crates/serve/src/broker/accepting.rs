//! Accepting clients on a thread that waits for them.

use std::thread;
use std::time::Duration;

use krarup_net::blocking::{Wakeup, accept};
use krarup_net::{Listener, Stream};

/// Hands each client over with its number, until `over` is notified and no client waits.
pub(crate) fn accept_each(listener: &Listener, over: &Wakeup, mut serve: impl FnMut(Stream, u64)) {
    let mut number = 0;
    loop {
        match accept(listener, over) {
            Ok(Some(client)) => serve(client, number),
            Ok(None) => return,
            // Out of descriptors, most likely: others must close first.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
        number += 1;
    }
}
