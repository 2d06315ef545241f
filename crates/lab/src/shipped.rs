//! Specs that come with the program, by their names.

/// Name and text of each.
pub const SPECS: &[(&str, &str)] = &[
    ("demo", include_str!("../specs/demo.toml")),
    ("prediction", include_str!("../specs/prediction.toml")),
    ("prediction/processors", include_str!("../specs/prediction-processors.toml")),
    ("prediction/twemproxy", include_str!("../specs/prediction-twemproxy.toml")),
    ("failover", include_str!("../specs/failover.toml")),
    ("tails", include_str!("../specs/tails.toml")),
    ("asl2015/stability", include_str!("../specs/asl2015-stability.toml")),
    ("asl2015/scalability", include_str!("../specs/asl2015-scalability.toml")),
    ("asl2015/middlewares", include_str!("../specs/asl2015-middlewares.toml")),
    ("asl2016/1", include_str!("../specs/asl2016-1.toml")),
    ("asl2016/2", include_str!("../specs/asl2016-2.toml")),
    ("asl2016/3", include_str!("../specs/asl2016-3.toml")),
    ("asl2016/factors", include_str!("../specs/asl2016-factors.toml")),
    ("asl2018/2.1", include_str!("../specs/asl2018-2.1.toml")),
    ("asl2018/2.2", include_str!("../specs/asl2018-2.2.toml")),
    ("asl2018/3.1", include_str!("../specs/asl2018-3.1.toml")),
    ("asl2018/3.2", include_str!("../specs/asl2018-3.2.toml")),
    ("asl2018/4", include_str!("../specs/asl2018-4.toml")),
    ("asl2018/5", include_str!("../specs/asl2018-5.toml")),
    ("asl2018/6", include_str!("../specs/asl2018-6.toml")),
];

/// The spec of this name. One spec may hold several sections of a report: `asl2018/5.1` is in
/// `asl2018/5`.
pub fn spec(name: &str) -> Option<&'static str> {
    let of = |name: &str| SPECS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    of(name).or_else(|| of(name.rsplit_once('.')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Changes;
    use crate::plan::{Plan, least_time};
    use crate::spec::Spec;

    #[test]
    fn a_section_is_found_in_the_spec_of_its_whole() {
        assert_eq!(spec("asl2018/5.2"), spec("asl2018/5"));
        assert_ne!(spec("asl2018/2.2"), spec("asl2018/2.1"));
        assert_eq!((spec("asl2018/9.1"), spec("nobody")), (None, None));
    }

    /// What the reports measured: configurations, repetitions of each, and for how long without
    /// warm-up; a quick form takes a quarter of an hour at most.
    #[test]
    fn the_published_experiments_are_planned_as_they_were_published() {
        let published = [
            // Reads and writes with 6 numbers of clients.
            ("asl2018/2.1", 12, 3, 60.0),
            ("asl2018/2.2", 12, 3, 60.0),
            // Reads and writes, 4 sizes of the pool, 7 numbers of clients.
            ("asl2018/3.1", 56, 3, 60.0),
            ("asl2018/3.2", 56, 3, 60.0),
            // Writes alone.
            ("asl2018/4", 28, 3, 60.0),
            // Four sizes of a multi-get, sharded and whole.
            ("asl2018/5", 8, 3, 60.0),
            // 2^3, for reads and for writes.
            ("asl2018/6", 16, 3, 60.0),
            // 4 sizes of the pools, 12 numbers of clients.
            ("asl2016/1", 48, 3, 30.0),
            // 3, 5 and 7 servers, each key on one, half and all of them.
            ("asl2016/2", 9, 3, 90.0),
            // The same servers, two ways to replicate, three shares of writes.
            ("asl2016/3", 18, 3, 90.0),
            // 2^3: clients, size, writes.
            ("asl2016/factors", 8, 5, 180.0),
            ("asl2015/scalability", 48, 3, 30.0),
            // One middleware and two, 12 numbers of clients.
            ("asl2015/middlewares", 24, 3, 30.0),
            // Half an hour.
            ("asl2015/stability", 1, 1, 1_800.0),
        ];
        let planned = |text: &str| {
            let spec = Spec::parse(text, "spec.toml").unwrap();
            let plan = Plan::of(&spec);
            (spec, plan)
        };
        for (name, cells, repetitions, seconds) in published {
            let (spec, plan) = planned(spec(name).unwrap());
            let has = (plan.cells.len(), spec.repetitions.min, spec.phases.measure);
            assert_eq!(has, (cells, repetitions, seconds), "{name}");
            assert!(spec.phases.warm_up > 0.0 && !spec.gates.is_empty(), "{name}");
        }
        for (name, text) in SPECS {
            let mut changes = Changes::of(text, "spec.toml").unwrap();
            changes.quick().unwrap();
            let (spec, plan) = planned(&changes.source());
            let time = least_time(&spec, &plan);
            assert!(time <= 900.0, "{name} --quick takes {time} s");
        }
    }

    #[test]
    fn every_shipped_spec_can_be_planned_and_so_can_its_quick_form() {
        for (name, text) in SPECS {
            let whole = Spec::parse(text, "spec.toml").unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!Plan::of(&whole).cells.is_empty(), "{name}");
            let mut changes = Changes::of(text, "spec.toml").unwrap();
            changes.quick().unwrap_or_else(|error| panic!("{name}: {error}"));
            let quick = Spec::parse(&changes.source(), "spec.toml")
                .unwrap_or_else(|error| panic!("{name}, quick: {error}"));
            assert!(!Plan::of(&quick).cells.is_empty(), "{name}, quick");
        }
    }
}
