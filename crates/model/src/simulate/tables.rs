//! The results of a simulation as tables.

use krarup_record::{quantities, stamps};
use krarup_units::Unit::{Count, PerSecond, Seconds, Share, Text};

use super::result::{Simulated, SimulatedEstimate, percent};
use crate::table::{ResultTable, TableCell};

impl From<SimulatedEstimate> for TableCell {
    fn from(reading: SimulatedEstimate) -> Self {
        if !reading.value.is_finite() {
            return Self::Empty;
        }
        let interval = reading.interval.map(|interval| (interval.low, interval.high));
        Self::Estimate { value: reading.value, interval, n: reading.n }
    }
}

impl From<Option<SimulatedEstimate>> for TableCell {
    fn from(reading: Option<SimulatedEstimate>) -> Self {
        reading.map_or(Self::Empty, Self::from)
    }
}

impl Simulated {
    /// The results as tables: classes, percentiles, stations, pools (where there are any).
    pub fn tables(&self) -> Vec<ResultTable> {
        let mut classes = ResultTable::new(
            format!("Classes, simulated (± at {} %)", percent(self.settings.level)),
            &[
                ("class", Text),
                quantities::POPULATION.column(),
                quantities::THROUGHPUT.column(),
                quantities::RESPONSE_TIME.column(),
                ("present", Count),
                ("lost", Share),
            ],
        );
        let mut percentiles = ResultTable::new(
            "Percentiles of the response time",
            // Three digits are too few for the higher ones.
            &[("class", Text), ("percentile", Text), quantities::RESPONSE_TIME.column()],
        );
        for class in &self.classes {
            classes.push(vec![
                class.name.as_str().into(),
                class.population.map(|population| population as f64).into(),
                class.throughput.into(),
                class.response.into(),
                class.present.into(),
                class.lost.into(),
            ]);
            for percentile in &class.percentiles {
                let share = percent(percentile.share).to_string();
                percentiles.push(vec![class.name.as_str().into(), share.into(), percentile.response.into()]);
            }
        }
        let tables = [Some(classes), Some(percentiles), Some(self.station_table()), self.pool_table()];
        tables.into_iter().flatten().filter(|table| !table.rows.is_empty()).collect()
    }

    /// Each station, all classes together; and each class, where there are several.
    fn station_table(&self) -> ResultTable {
        let mut table = ResultTable::new(
            "Stations (utilization of a delay: the mean number there)",
            &[
                ("station", Text),
                ("class", Text),
                quantities::THROUGHPUT.column(),
                quantities::UTILIZATION.column(),
                quantities::AT_STATION.column(),
                quantities::RESIDENCE_TIME.column(),
                quantities::WAITING_TIME.column(),
                ("refused", Count),
            ],
        );
        for station in &self.stations {
            let by_class = station.classes.iter().filter(|_| self.classes.len() > 1);
            let all = std::iter::once(("all", &station.all));
            for (class, flow) in all.chain(by_class.map(|(name, flow)| (name.as_str(), flow))) {
                table.push(vec![
                    station.name.as_str().into(),
                    class.into(),
                    flow.throughput.into(),
                    flow.utilization.into(),
                    flow.queue.into(),
                    flow.residence.into(),
                    flow.wait.into(),
                    (flow.refused as f64).into(),
                ]);
            }
        }
        table
    }

    fn pool_table(&self) -> Option<ResultTable> {
        let mut table = ResultTable::new(
            "Pools",
            &[
                ("pool", Text),
                ("size", Count),
                ("held", Count),
                ("waiting", Count),
                quantities::WAITING_TIME.column(),
                stamps::HOLD_TIME.column(),
                ("refused", Count),
            ],
        );
        for pool in &self.pools {
            table.push(vec![
                pool.name.as_str().into(),
                f64::from(pool.size).into(),
                pool.held.into(),
                pool.waiting.into(),
                pool.wait.into(),
                pool.hold.into(),
                (pool.refused as f64).into(),
            ]);
        }
        (!table.rows.is_empty()).then_some(table)
    }

    /// The run over time as a table, one row for each stretch and class.
    pub fn timeline_table(&self) -> ResultTable {
        let mut table = ResultTable::new(
            "Over time, warm-up included",
            &[
                ("from", Seconds),
                ("to", Seconds),
                ("class", Text),
                ("begun", PerSecond),
                quantities::THROUGHPUT.column(),
                quantities::RESPONSE_TIME.column(),
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
