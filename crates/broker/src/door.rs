//! Clients who come to a thread that waits for them.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Hands each client over with his number, until one comes after it is `over`.
pub(crate) fn each(listener: &TcpListener, over: &AtomicBool, mut serve: impl FnMut(TcpStream, u64)) {
    for (number, client) in (0..).zip(listener.incoming()) {
        if over.load(Ordering::SeqCst) {
            return;
        }
        match client {
            Ok(client) => serve(client, number),
            // Out of descriptors, most likely: others must close first.
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}
