//! The estimator of headroom against systems whose capacity is known: the simulator
//! ([`system`]), the kinds of systems ([`kinds`]) and what is asked of them: how much they can do
//! ([`judging`]) and what changes would do ([`changed`]).
//!
//! `make bench-headroom` judges it over many systems and prints a table; the tests here hold it to a
//! few of them.

pub(crate) mod changed;
#[cfg(test)]
mod few;
pub(crate) mod judging;
pub(crate) mod kinds;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod networks;
pub(crate) mod system;
#[cfg(test)]
mod workers;
