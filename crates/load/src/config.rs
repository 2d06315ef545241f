//! What a run is asked to be: plain data that reads from and writes to TOML and JSON, and is checked before anything begins.

use krarup_net::Address;
use krarup_units::Seconds;
use serde::{Deserialize, Serialize};

use crate::keys::Family;
use crate::schedule::Arrivals;
use crate::workload::{Mix, OnMiss, Workload};

/// One run of the generator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// The servers. Each client is connected to one of them, in turn.
    pub targets: Vec<Address>,
    /// Connections in all. In a closed load each is one client.
    pub connections: u32,
    /// Threads, each with an event loop and its share of the connections.
    pub threads: u32,
    /// How many requests a connection may have under way at once.
    pub pipeline: u32,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// Which requests are sent.
    pub workload: Workload,
    /// When the run is over.
    pub extent: Extent,
    /// What happens in this many seconds at the start is counted but not measured.
    pub warm_up: Seconds,
    /// What happens in this many seconds before the end is counted but not measured.
    pub cool_down: Seconds,
    /// Decides every key, size, think time and arrival.
    pub seed: u64,
    /// Values that come are compared with what must have been stored.
    pub verify: bool,
    /// For how long connections are tried before the run begins, in seconds.
    pub connect_timeout: Seconds,
    /// After this many seconds without an answer a connection is given up. 0: never.
    pub request_timeout: Seconds,
    /// How long last answers are waited for when the run is over, in seconds.
    pub drain: Seconds,
    /// A thread none of whose connections stands for this many seconds ends its part of the run; where requests are counted, a client gives
    /// up its share when its connection does not stand for so long.
    pub give_up: Seconds,
}

/// When a run is over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// After this time.
    Seconds(Seconds),
    /// When all clients together have sent this many requests; those that follow from an answer are not counted in.
    Requests(u64),
}

impl Default for Load {
    fn default() -> Self {
        Self {
            targets: vec![Address { host: "127.0.0.1".to_owned(), port: 11_211 }],
            connections: 50,
            threads: 1,
            pipeline: 1,
            arrivals: Arrivals::default(),
            workload: Workload::default(),
            extent: Extent::Seconds(10.0),
            warm_up: 0.0,
            cool_down: 0.0,
            seed: 1,
            verify: false,
            connect_timeout: 1.0,
            request_timeout: 10.0,
            drain: 2.0,
            give_up: 10.0,
        }
    }
}

/// Most connections of one run.
pub const MOST_CONNECTIONS: u32 = 100_000;
/// Most threads.
pub const MOST_THREADS: u32 = 1_024;
/// Most requests under way on one connection.
pub const MOST_PIPELINED: u32 = 10_000;
/// The longest run: a year.
const LONGEST: Seconds = 366.0 * 86_400.0;

impl Load {
    /// What is wrong with it.
    ///
    /// # Errors
    /// In plain words, naming the thing.
    pub fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: u32, most: u32| {
            if (1..=most).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} is {value}, not 1 to {most}"))
            }
        };
        let length = |name: &str, value: Seconds| {
            if (0.0..=LONGEST).contains(&value) {
                Ok(())
            } else {
                Err(format!("{name} of {value} seconds is not between 0 and a year"))
            }
        };
        if self.targets.is_empty() {
            return Err("there is no server to send requests to".to_owned());
        }
        if self.targets.len() > self.connections as usize {
            return Err(format!(
                "{} servers need at least as many connections, not {}",
                self.targets.len(),
                self.connections
            ));
        }
        within("the number of connections", self.connections, MOST_CONNECTIONS)?;
        within("the number of threads", self.threads, MOST_THREADS)?;
        within("the pipeline depth", self.pipeline, MOST_PIPELINED)?;
        if self.threads > self.connections {
            return Err(format!(
                "{} threads need at least as many connections, not {}",
                self.threads, self.connections
            ));
        }
        for (name, value) in [
            ("a warm-up", self.warm_up),
            ("a cool-down", self.cool_down),
            ("a time to connect", self.connect_timeout),
            ("a time limit for answers", self.request_timeout),
            ("a time to wait for last answers", self.drain),
            ("a time to give up after", self.give_up),
        ] {
            length(name, value)?;
        }
        match self.extent {
            Extent::Seconds(seconds) => {
                length("a run", seconds)?;
                if self.warm_up + self.cool_down >= seconds {
                    return Err(format!(
                        "a run of {seconds} s has nothing left to measure after {} s of warm-up and {} s of cool-down",
                        self.warm_up, self.cool_down
                    ));
                }
            }
            Extent::Requests(0) => return Err("a run of 0 requests sends nothing".to_owned()),
            Extent::Requests(_) if self.cool_down > 0.0 => {
                return Err(
                    "a run of so many requests has an end that is not known beforehand, so no cool-down can \
                            be cut off"
                        .to_owned(),
                );
            }
            Extent::Requests(_) => {}
        }
        self.arrivals.check()?;
        self.workload.check()
    }

    /// The run that stores every key of the workload at one target, in order and exactly once.
    ///
    /// One connection, so that they arrive in order; pipelined, so that it does not take long.
    pub fn populating(&self, target: &Address, family: Family) -> Self {
        let workload = Workload {
            mix: Mix::Ratio { sets: 1, gets: 0 },
            set_law: crate::keys::KeyLaw::Sequential,
            on_miss: OnMiss::Count,
            set_family: family,
            ..self.workload.clone()
        };
        self.one_pass(target, workload)
    }

    /// The run that fetches every key of the workload from one target and verifies it.
    pub fn checking(&self, target: &Address) -> Self {
        let workload = Workload {
            mix: Mix::Ratio { sets: 0, gets: 1 },
            get_law: crate::keys::KeyLaw::Sequential,
            multi_get: 1,
            on_miss: OnMiss::Count,
            ..self.workload.clone()
        };
        Self { verify: true, ..self.one_pass(target, workload) }
    }

    fn one_pass(&self, target: &Address, workload: Workload) -> Self {
        Self {
            targets: vec![target.clone()],
            connections: 1,
            threads: 1,
            pipeline: 32,
            arrivals: Arrivals::default(),
            extent: Extent::Requests(workload.keys.count),
            warm_up: 0.0,
            cool_down: 0.0,
            verify: false,
            workload,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_named() {
        let check = |change: fn(&mut Load)| {
            let mut load = Load::default();
            change(&mut load);
            load.check().unwrap_err()
        };
        assert_eq!(Load::default().check(), Ok(()));
        assert!(check(|load| load.targets.clear()).contains("server"));
        assert!(check(|load| load.connections = 0).contains("1 servers need"));
        assert!(check(|load| load.threads = 51).contains("51 threads"));
        assert!(check(|load| load.pipeline = 0).contains("pipeline"));
        assert!(check(|load| load.warm_up = 10.0).contains("nothing left"));
        assert!(check(|load| load.drain = f64::NAN).contains("NaN"));
        assert!(check(|load| load.extent = Extent::Requests(0)).contains("0 requests"));
        assert!(check(|load| load.extent = Extent::Seconds(-1.0)).contains("-1"));
        assert!(
            check(|load| (load.extent, load.cool_down) = (Extent::Requests(5), 1.0)).contains("cool-down")
        );
    }

    #[test]
    fn a_load_is_written_and_read_back() {
        let load = Load { extent: Extent::Requests(7), ..Load::default() };
        let text = serde_json::to_string(&load).unwrap();
        assert_eq!(serde_json::from_str::<Load>(&text).unwrap(), load);
        assert_eq!(serde_json::from_str::<Load>("{}").unwrap(), Load::default());
        assert!(
            serde_json::from_str::<Load>(r#"{"conections": 3}"#)
                .unwrap_err()
                .to_string()
                .contains("conections")
        );
    }
}
