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

/// The spec of this name. One spec may hold several sections of a report: `asl2018/5.1` is in `asl2018/5`.
pub fn spec(name: &str) -> Option<&'static str> {
    let of = |name: &str| SPECS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    of(name).or_else(|| of(name.rsplit_once('.')?.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Changes;
    use crate::plan::Plan;
    use crate::spec::Spec;

    #[test]
    fn a_section_is_found_in_the_spec_of_its_whole() {
        assert_eq!(spec("asl2018/5.2"), spec("asl2018/5"));
        assert_ne!(spec("asl2018/2.2"), spec("asl2018/2.1"));
        assert_eq!((spec("asl2018/9.1"), spec("nobody")), (None, None));
    }

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
