//! Whether all requests are where the counts say, and what is wrong when nothing can move.

use super::super::request::{NONE, SimulatedRequest};
use super::SimulationEngine;
use crate::Error;

impl SimulationEngine<'_> {
    /// Counts all requests one by one: none was lost or made on the way.
    ///
    /// # Errors
    /// [`Error::Violated`], naming the station, class or pool.
    pub(in crate::simulate) fn check_balance(&self) -> Result<(), Error> {
        let differ = |what: String, counted: u64, kept: u64| {
            let law = format!("flow balance: {counted} are there, {kept} by arrivals and departures");
            if counted == kept { Ok(()) } else { Err(Error::Violated { station: what, law }) }
        };
        let mut used = vec![true; self.requests.len()];
        self.unused.iter().for_each(|id| used[*id as usize] = false);
        let live = || self.requests.iter().zip(&used).filter(|(_, used)| **used).map(|(request, _)| request);
        for (number, place) in self.places.iter().enumerate() {
            let counted = live().filter(|request| request.at as usize == number).count();
            let name = format!("station `{}`", self.network.stations[number].name);
            differ(name, counted as u64, u64::from(place.present))?;
        }
        for (number, class) in self.network.classes.iter().enumerate() {
            let own = || live().filter(|request| request.class as usize == number && request.gather == NONE);
            let kept = class.population().unwrap_or(u64::from(self.classes[number].present));
            differ(format!("class `{}`", class.name), own().count() as u64, kept)?;
        }
        for (number, slots) in self.pools.iter().enumerate() {
            let name = &self.network.pools[number].name;
            let holds = |request: &&SimulatedRequest| {
                request.gather == NONE && self.program.held[request.op as usize].contains(&(number as u32))
            };
            let held = u64::from(slots.size - slots.free);
            differ(format!("pool `{name}`"), live().filter(holds).count() as u64, held)?;
        }
        Ok(())
    }

    /// A request that waits for a slot is at no station.
    pub(super) fn too_many(&self) -> Error {
        let stations = self.places.iter().zip(&self.network.stations);
        let pools = self.pools.iter().zip(&self.network.pools);
        let (_, place, more) = stations
            .map(|(place, station)| (place.present as usize, format!("at `{}`", station.name), "servers"))
            .chain(pools.map(|(slots, pool)| {
                let waiting = slots.line.len() + slots.blocked.len();
                (waiting, format!("waiting for a slot of `{}`", pool.name), "slots")
            }))
            .max_by_key(|(crowd, ..)| *crowd)
            .unwrap_or_default();
        Error::TooLarge {
            what: format!(
                "after {:.3} s of simulated time {} requests are under way at once, most of them {place}",
                self.now,
                self.requests.len() - self.unused.len()
            ),
            hint: format!("more work arrives than is done: lower the rate, add {more}, or limit the queue"),
        }
    }

    /// Those that find no room are back at once.
    pub(super) fn no_time(&self) -> Error {
        Error::invalid(
            format!("class `{}`", self.network.classes[self.refused.class].name),
            "comes back at once where it finds no room: simulated time stands still",
            "give it a think time, or let what is full block: full = \"block\"",
        )
    }

    pub(super) fn deadlock(&self) -> Error {
        let stations = self.places.iter().zip(&self.network.stations);
        let full: Vec<String> = stations
            .filter(|(place, _)| !place.blocked.is_empty())
            .map(|(_, station)| format!("room at `{}`", station.name))
            .chain(
                self.pools
                    .iter()
                    .zip(&self.network.pools)
                    .filter(|(slots, _)| !slots.blocked.is_empty() || slots.line.len() > 0)
                    .map(|(_, pool)| format!("a slot of `{}`", pool.name)),
            )
            .collect();
        Error::Invalid {
            thing: "network".into(),
            why: format!(
                "deadlock after {:.3} s of simulated time: all who are under way wait for {}",
                self.now,
                full.join(" and ")
            ),
            hint: "take slots in one order everywhere, or let a full station lose requests".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::from_toml;

    #[test]
    fn a_pool_that_most_requests_wait_for_is_named() {
        let class = |name: &str| {
            format!(
                r#"{{ name = "{name}", rate = 50, path = [
                    {{ hold = "workers", path = [{{ at = "net", service = 0.1 }}] }}] }}"#
            )
        };
        let network = format!(
            r#"station = [{{ name = "net", delay = true }}, {{ name = "idle" }}]
               pool = [{{ name = "workers", size = 1 }}]
               class = [{}, {}]"#,
            class("get"),
            class("set")
        );
        let network = from_toml(&network).unwrap();
        let mut engine = SimulationEngine::new(&network, 1, 0, None).unwrap();
        engine.run(20.0, u64::MAX).unwrap();
        let error = engine.too_many();
        assert!(error.to_string().ends_with("most of them waiting for a slot of `workers`"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("add slots")), "{error}");
    }
}
