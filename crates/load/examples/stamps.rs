//! What it costs to time a request and to account for it:
//! `cargo run --release -p krarup-load --example stamps` prints both in nanoseconds.
//!
//! A request of the generator has one clock read where its answer came, which is also `due` and
//! `sent` of the next, and one call that counts it and puts its three times into histograms.
//! `bench/generators.py` sets both against the processor time of a whole request.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::hint::black_box;

use krarup_load::account::{Account, MeasuredSpan};
use krarup_memcache::ReplyClass;
use krarup_net::{Clock, cpu};
use krarup_record::{Operation, ServerVisit, Visit};
use krarup_units::{Nanos, Stamp};

const REQUESTS: u64 = 2_000_000;

/// Processor time of one round of `each`, in nanoseconds: the least of several, as others disturb
/// only upwards.
fn cost(mut each: impl FnMut(u64)) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..7 {
        let before = cpu::thread();
        (0..REQUESTS).for_each(&mut each);
        least = least.min((cpu::thread() - before).0 as f64 / REQUESTS as f64);
    }
    least
}

fn main() {
    let clock = Clock::start();
    let stamp = cost(|_| {
        black_box(clock.now());
    });
    let mut account = Account::new(MeasuredSpan { from: Stamp(0), to: Stamp(u64::MAX) }, 1);
    let accounted = cost(|number| {
        // Times as they are: tens of microseconds, never twice the same.
        let due = Stamp(number % 500_000_000);
        let mut visit = Visit::at(due, Operation::Get);
        visit.taken = due + Nanos(number % 900);
        visit.replied = visit.taken + Nanos(40_000 + number % 30_000);
        (visit.keys, visit.hits, visit.bytes_in, visit.bytes_out) = (1, 1, 20, 60);
        let server = ServerVisit::ok(0, visit.taken, visit.replied);
        account.answered(ReplyClass::Values, black_box(&mut visit), server);
    });
    println!("{{\"stamp_ns\": {stamp:.1}, \"account_ns\": {accounted:.1}}}");
}
