//! Specs that come with the program, by their names.

/// Name and text of each.
pub const SPECS: &[(&str, &str)] = &[
    ("demo", include_str!("../specs/demo.toml")),
    ("prediction", include_str!("../specs/prediction.toml")),
    ("asl2015/stability", include_str!("../specs/asl2015-stability.toml")),
    ("asl2015/scalability", include_str!("../specs/asl2015-scalability.toml")),
    ("asl2016/1", include_str!("../specs/asl2016-1.toml")),
    ("asl2016/2", include_str!("../specs/asl2016-2.toml")),
    ("asl2016/3", include_str!("../specs/asl2016-3.toml")),
    ("asl2018/2.1", include_str!("../specs/asl2018-2.1.toml")),
    ("asl2018/2.2", include_str!("../specs/asl2018-2.2.toml")),
    ("asl2018/3.1", include_str!("../specs/asl2018-3.1.toml")),
    ("asl2018/3.2", include_str!("../specs/asl2018-3.2.toml")),
    ("asl2018/4", include_str!("../specs/asl2018-4.toml")),
    ("asl2018/5", include_str!("../specs/asl2018-5.toml")),
    ("asl2018/6", include_str!("../specs/asl2018-6.toml")),
];

/// The spec of this name.
pub fn spec(name: &str) -> Option<&'static str> {
    SPECS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Changes;
    use crate::plan::Plan;
    use crate::spec::Spec;

    #[test]
    fn every_shipped_spec_can_be_planned_and_so_can_its_quick_form() {
        for (name, text) in SPECS {
            let whole = Spec::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!Plan::of(&whole).cells.is_empty(), "{name}");
            let mut changes = Changes::of(text).unwrap();
            changes.quick().unwrap_or_else(|error| panic!("{name}: {error}"));
            let quick =
                Spec::parse(&changes.source()).unwrap_or_else(|error| panic!("{name}, quick: {error}"));
            assert!(!Plan::of(&quick).cells.is_empty(), "{name}, quick");
        }
    }
}
