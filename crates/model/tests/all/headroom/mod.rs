//! The estimator of headroom against systems whose capacity is known: the simulator
//! ([`system`]), the kinds of systems ([`kinds`]) and what is asked of them ([`judging`]).
//!
//! `make bench-headroom` judges it over many systems and prints a table; the tests here hold it to a
//! few of them.

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
