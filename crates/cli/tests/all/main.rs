//! The whole program from outside: one binary, so that it is linked once. A file is about one
//! thing; `cargo test -p krarup --test all reload::` runs one file.

#![allow(clippy::unwrap_used, reason = "a test ends where something is missing")]

mod analyze;
mod bad_days;
mod broker;
mod cache;
mod calibrate;
mod clients;
mod compare;
mod comparisons;
mod dashboards;
mod demo;
mod documents;
mod doors;
mod durable;
mod edge;
mod experiment;
mod faults;
mod guides;
mod headroom;
mod history;
mod hosts;
mod hot_keys;
mod large;
mod live_report;
mod load;
mod loops;
mod measured;
mod memory;
mod mistakes;
mod model;
mod monitoring;
mod moving;
mod output;
mod passes;
mod pods;
mod pools;
mod prometheus;
mod proxy;
mod queues;
mod redline;
mod reference;
mod reload;
mod rows;
mod rules;
mod scale;
mod scripts;
mod sheets;
mod ssh;
mod support;
mod threads;
mod top;
mod tubes;
mod wire;
