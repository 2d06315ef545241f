//! Queueing theory that says what its assumptions are.
//!
//! One description, [`Network`], feeds every solver and the simulator. A solver treats some
//! features of the description exactly, some approximately, and refuses the rest by name; every
//! answer is checked against the laws before it is returned, and an answer that breaks one is an
//! error, never a number.
//!
//! | module | its one idea |
//! |---|---|
//! | [`network`] | what there is: stations, pools, classes and their paths |
//! | [`form`] | the same as TOML or JSON, with errors that name the line |
//! | [`distribution`] | service and gap times by name and parameters |
//! | [`laws`] | operational laws: true of every system, whatever its distributions |
//! | [`bounds`] | what no system of these demands can exceed, and where its knee is |
//! | [`station`] | one station alone, fed by arrivals: M/M/1 to G/G/m, with percentiles |
//! | [`single`] | closed networks of one class, exactly, for every population at once |
//! | [`multi`] | closed networks of several classes: exactly, or nearly so when large |
//! | [`open`] | open networks, and open classes beside closed ones |
//! | `variable` | closed networks of one class whose FCFS service is not exponential |
//! | [`layered`] | workers that stay occupied while their request is elsewhere |
//! | [`forkjoin`] | copies to several servers, and how long the last of them takes |
//! | [`flow`] | the model that predicts: held workers whose hold time depends on how many are busy |
//! | [`calibrate`] | from measurements to a model, with its residuals and intervals |
//! | [`usl`] | the universal scalability law |
//! | [`mod@simulate`] | the same description, event by event, with intervals |
//! | [`mod@solve`] | the right solver for a description, and what it assumes |
//! | [`headroom`] | from running traffic: what is full first, and at which rate |
//! | [`hot_keys`] | from running traffic: which keys take most, and what sharing their answers would save |
//! | [`limits`] | what bounds a network, and how near measurements come |
//! | [`whatif`] | the same network with one thing changed, before and after; what matters most |
//! | [`sheet`] | what a law says to a question of a course sheet, before anything is measured |
//! | [`table`] | results as rows, for people and for programs |
//!
//! Times are seconds, rates are per second, sizes are bytes, unless a name says otherwise.

#![forbid(unsafe_code)]

pub mod bounds;
pub mod calibrate;
pub mod distribution;
mod error;
pub mod flow;
pub mod forkjoin;
pub mod form;
pub mod headroom;
pub mod hot_keys;
mod infinite;
pub mod laws;
pub mod layered;
pub mod limits;
pub mod multi;
pub mod network;
pub mod open;
pub mod sheet;
pub mod simulate;
pub mod single;
pub mod solve;
pub mod station;
pub mod table;
pub mod usl;
mod variable;
pub mod whatif;

pub use distribution::Distribution;
pub use error::Error;
pub use network::Network;
