//! Only trials touch the world: stations are started, watched, and ended here, and nowhere below.
//!
//! | file | its one idea |
//! |---|---|
//! | [`spec`] | what an experiment is asked to be |
//! | [`change`] | the same, with something changed |
//! | [`shipped`] | those that come with the program |
//! | [`gate`] | what a trial must keep to count |
//! | [`guesses`] | what a reader guessed before, sealed |
//! | [`fault`] | what is done to stations while a trial is measured |
//! | [`plan`] | which trials that means, and in which order |
//! | [`campaign`] | all of them, one after the other, taken up where they were left |
//! | [`monitor`] | what the machine did meanwhile, and whether others were at work on it |
//! | [`ledger`] | what was started can be ended by another |
//! | [`scale`] | how many times slower, and with which shares |
//! | [`store`] | a directory of results |
//! | [`testbed`] | where stations run: processes on this machine, namespaces of it, other machines |
//! | [`identity`], [`identities`] | what could change a trial's outcome, and which trials a directory holds |
//! | [`agent`] | what is done on other machines, by this program there |
//! | [`delay`] | what a host sends, kept for a while and passed on |
//! | [`parcel`] | files as one stream, from one machine to another |
//! | [`platform`] | what machine it is, and what processes take of it |
//! | [`mod@reference`] | every key of a spec as a page |
//! | [`stop`] | Ctrl-C ends the work in order, not in the middle |

#![forbid(unsafe_code)]

pub mod agent;
pub mod campaign;
pub mod change;
pub mod delay;
pub mod fault;
pub mod gate;
pub mod guesses;
pub mod identities;
pub mod identity;
pub mod ledger;
pub mod monitor;
pub mod parcel;
pub mod plan;
pub mod platform;
pub mod reference;
pub mod scale;
pub mod shipped;
pub mod spec;
pub mod stop;
pub mod store;
pub mod testbed;
mod waiting;
