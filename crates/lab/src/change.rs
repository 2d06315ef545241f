//! A spec with something changed, still a spec that can be read again: its quick form, or other
//! levels from a command line.

use krarup_settings::{Mistake, Mistakes};
use krarup_units::mistake::place;
use toml::{Table, Value};

/// A spec as a tree of values.
#[derive(Clone, Debug)]
pub struct Changes {
    table: Table,
}

impl Changes {
    /// Begins with a spec as it was written.
    ///
    /// # Errors
    /// Where it is no TOML; `name` is the file's.
    pub fn of(source: &str, name: &str) -> Result<Self, Mistakes> {
        let table = source.parse::<Table>().map_err(|error| {
            let place = place(name, source, error.span().map_or(0, |span| span.start));
            Mistake::new(error.message(), "a spec is a TOML file").of(&place)
        })?;
        Ok(Self { table })
    }

    /// What its table `quick` says in place of the same keys elsewhere; `quick.levels` has levels
    /// by the names of factors.
    ///
    /// # Errors
    /// Where it has no such table, or that speaks of a factor there is not.
    pub fn quick(&mut self) -> Result<(), Mistake> {
        let Some(Value::Table(mut quick)) = self.table.remove("quick") else {
            let hint = "run it as it is, or give it a table [quick]";
            return Err(Mistake::new("the spec has no quick form", hint));
        };
        if let Some(levels) = quick.remove("levels") {
            let Value::Table(levels) = levels else {
                let hint = "write levels = { clients = [1, 2] }";
                return Err(Mistake::new("quick.levels is no table", hint));
            };
            for (factor, levels) in levels {
                self.levels(&factor, levels)?;
            }
        }
        merge(&mut self.table, quick);
        Ok(())
    }

    /// Other levels for a factor.
    ///
    /// # Errors
    /// Where there is no such factor.
    pub fn levels(&mut self, factor: &str, levels: Value) -> Result<(), Mistake> {
        let factors = self.table.get_mut("factor").and_then(Value::as_array_mut).into_iter().flatten();
        let mut found = factors.filter_map(Value::as_table_mut);
        let Some(found) = found.find(|found| found.get("name").and_then(Value::as_str) == Some(factor))
        else {
            let what = format!("there is no factor `{factor}`");
            return Err(Mistake::new(what, "levels are given to factors of the spec"));
        };
        found.insert("levels".into(), levels);
        Ok(())
    }

    /// Another value at `path`, whose tables are made where they are not there.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        let Some((last, tables)) = path.split_last() else { return };
        let mut table = &mut self.table;
        for name in tables {
            let inner = table.entry(*name).or_insert_with(|| Value::Table(Table::new()));
            if !inner.is_table() {
                *inner = Value::Table(Table::new());
            }
            table = inner.as_table_mut().expect("it is one, or was made one");
        }
        table.insert((*last).to_owned(), value.into());
    }

    /// Takes away what is at `path`.
    pub fn remove(&mut self, path: &[&str]) {
        let Some((last, tables)) = path.split_last() else { return };
        let inner =
            tables.iter().try_fold(&mut self.table, |table, name| table.get_mut(*name)?.as_table_mut());
        inner.and_then(|table| table.remove(*last));
    }

    /// The spec, to be read again.
    pub fn source(&self) -> String {
        toml::to_string(&self.table).expect("a tree of TOML values is TOML")
    }
}

/// Tables are merged key by key, all else is replaced.
fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shipped;
    use crate::spec::Spec;

    #[test]
    fn a_quick_form_changes_what_it_names_and_nothing_else() {
        let source = shipped::spec("demo").unwrap();
        let whole = Spec::parse(source, "spec.toml").unwrap();
        let mut changes = Changes::of(source, "spec.toml").unwrap();
        changes.quick().unwrap();
        let quick = Spec::parse(&changes.source(), "spec.toml").unwrap();
        assert_eq!((quick.repetitions.min, quick.phases.measure), (1, 0.6));
        assert_eq!(quick.phases.warm_up, whole.phases.warm_up);
        assert_eq!(quick.factor("clients").unwrap().levels.len(), 3);
        assert_eq!(quick.factor("workload").unwrap().levels, whole.factor("workload").unwrap().levels);
        assert!(changes.quick().unwrap_err().what.contains("no quick form"));
    }

    #[test]
    fn values_are_set_and_taken_away_by_their_path() {
        let mut changes = Changes::of(shipped::spec("demo").unwrap(), "spec.toml").unwrap();
        changes.set(&["phases", "measure"], "3s");
        changes.set(&["stations", "servers", "addresses"], vec!["127.0.0.1:1"]);
        changes.remove(&["stations", "servers", "program"]);
        changes.remove(&["stations", "servers", "count"]);
        changes.levels("clients", Value::from(vec![7])).unwrap();
        let spec = Spec::parse(&changes.source(), "spec.toml").unwrap();
        assert_eq!((spec.phases.measure, spec.stations.servers.addresses.len()), (3.0, 1));
        assert_eq!(spec.factor("clients").unwrap().levels[0].words, ["7"]);
        assert!(changes.levels("nobody", Value::from(1)).unwrap_err().what.contains("`nobody`"));
    }
}
