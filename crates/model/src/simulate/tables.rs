//! The results of a simulation as tables.

use super::result::{Reading, Simulated};
use crate::table::Unit::{Count, PerSecond, Seconds, Share, Text};
use crate::table::{Cell, Table};

impl Simulated {
    /// The results as tables: classes, percentiles, stations, pools (where there are any). `±` columns are half widths of
    /// the intervals.
    pub fn tables(&self) -> Vec<Table> {
        let level = self.settings.level * 100.0;
        let about = format!("{} events, {} s of simulated time", self.events, self.time);
        let mut classes = Table::new(
            format!("{}: classes, simulated ({about}; ± at {level} %)", self.network),
            &[
                ("class", Text),
                ("n", Count),
                ("throughput", PerSecond),
                ("throughput ±", PerSecond),
                ("response", Seconds),
                ("response ±", Seconds),
                ("present", Count),
                ("present ±", Count),
                ("lost", Share),
                ("lost ±", Share),
            ],
        );
        let mut percentiles = Table::new(
            format!("{}: percentiles of the response time", self.network),
            &[("class", Text), ("percentile", Share), ("response", Seconds), ("response ±", Seconds)],
        );
        for class in &self.classes {
            let mut row: Vec<Cell> = vec![class.name.as_str().into(), (class.throughput.n as f64).into()];
            for reading in [Some(class.throughput), class.response, Some(class.present)] {
                row.extend(cells(reading));
            }
            row.extend(cells(class.lost));
            classes.push(row);
            for percentile in &class.percentiles {
                let mut row: Vec<Cell> = vec![class.name.as_str().into(), (percentile.share).into()];
                row.extend(cells(Some(percentile.response)));
                percentiles.push(row);
            }
        }
        let mut stations = Table::new(
            format!("{}: stations", self.network),
            &[
                ("station", Text),
                ("class", Text),
                ("throughput", PerSecond),
                ("throughput ±", PerSecond),
                ("utilization", Share),
                ("utilization ±", Share),
                ("queue", Count),
                ("queue ±", Count),
                ("residence", Seconds),
                ("residence ±", Seconds),
                ("wait", Seconds),
                ("wait ±", Seconds),
                ("refused", Count),
            ],
        );
        for station in &self.stations {
            let by_class = station.classes.iter().filter(|_| self.classes.len() > 1);
            let all = std::iter::once(("", &station.all));
            for (class, flow) in all.chain(by_class.map(|(name, flow)| (name.as_str(), flow))) {
                let mut row: Vec<Cell> = vec![station.name.as_str().into(), class.into()];
                let known = [flow.throughput, flow.utilization, flow.queue].map(Some);
                for reading in known.into_iter().chain([flow.residence, flow.wait]) {
                    row.extend(cells(reading));
                }
                row.push((flow.refused as f64).into());
                stations.push(row);
            }
        }
        let mut tables = vec![classes, percentiles, stations];
        if !self.pools.is_empty() {
            tables.push(self.pool_table());
        }
        tables
    }

    fn pool_table(&self) -> Table {
        let mut table = Table::new(
            format!("{}: pools", self.network),
            &[
                ("pool", Text),
                ("size", Count),
                ("held", Count),
                ("held ±", Count),
                ("waiting", Count),
                ("waiting ±", Count),
                ("wait", Seconds),
                ("wait ±", Seconds),
                ("hold", Seconds),
                ("hold ±", Seconds),
                ("refused", Count),
            ],
        );
        for pool in &self.pools {
            let mut row: Vec<Cell> = vec![pool.name.as_str().into(), f64::from(pool.size).into()];
            for reading in [Some(pool.held), Some(pool.waiting), pool.wait, pool.hold] {
                row.extend(cells(reading));
            }
            row.push((pool.refused as f64).into());
            table.push(row);
        }
        table
    }

    /// The run over time as a table, one row for each stretch and class.
    pub fn timeline_table(&self) -> Table {
        let mut table = Table::new(
            format!("{}: over time", self.network),
            &[
                ("from", Seconds),
                ("to", Seconds),
                ("class", Text),
                ("begun", PerSecond),
                ("throughput", PerSecond),
                ("response", Seconds),
                ("present", Count),
            ],
        );
        for moment in &self.timeline {
            for (class, at) in self.classes.iter().zip(&moment.classes) {
                table.push(vec![
                    moment.from.into(),
                    moment.to.into(),
                    class.name.as_str().into(),
                    at.begun.into(),
                    at.throughput.into(),
                    at.response.into(),
                    at.present.into(),
                ]);
            }
        }
        table
    }
}

/// A reading and its half width.
fn cells(reading: Option<Reading>) -> [Cell; 2] {
    [reading.map(|reading| reading.value).into(), reading.and_then(|reading| reading.half_width()).into()]
}
