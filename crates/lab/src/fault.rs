//! What is done to stations while a trial is measured, so that a report can say what the others
//! make of it: in which cell, in which order, and whether it can be done.

use std::collections::BTreeMap;

use krarup_units::Seconds;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::plan::PlannedCell;
use crate::spec::{Action, Fault, FaultTarget, Spec, StationSpec};

/// A fault that happened; `faults.json` of a trial is a list of these.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Happened {
    /// To which station.
    pub station: String,
    /// What was done.
    #[serde(rename = "do")]
    pub action: Action,
    /// When it was due, from the beginning of what is measured.
    pub at: Seconds,
    /// How much later it was done; a restart is done when the station takes connections.
    pub late: Seconds,
}

impl Fault {
    /// Whether it is done in this cell.
    pub fn is_in(&self, cell: &PlannedCell) -> bool {
        self.when.iter().all(|(name, level)| cell.level(name) == Some(level))
    }
}

/// What is done in this cell, in the order of time.
pub fn in_order<'a>(spec: &'a Spec, cell: &PlannedCell) -> Vec<&'a Spanned<Fault>> {
    let mut faults: Vec<_> = spec.faults.iter().filter(|fault| fault.get_ref().is_in(cell)).collect();
    faults.sort_by(|one, other| one.get_ref().at.total_cmp(&other.get_ref().at));
    faults
}

/// What a station is doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Frozen,
    Gone,
}

/// Whether a cell's faults can be done one after the other: which one cannot, and why.
pub(crate) fn course<'a>(spec: &'a Spec, cell: &PlannedCell) -> Result<(), (&'a Spanned<Fault>, String)> {
    let mut states: BTreeMap<FaultTarget, State> = BTreeMap::new();
    for spanned in in_order(spec, cell) {
        let Fault { station, action, .. } = spanned.get_ref();
        let wrong = |why: &str| Err((spanned, format!("{}: {why}", spanned.get_ref())));
        let there = match station {
            FaultTarget::Server(number) => {
                started(Some(&spec.stations.servers), cell, 3).map(|there| (there, number))
            }
            FaultTarget::Middleware(number) => {
                started(spec.stations.middleware.as_ref(), cell, 1).map(|there| (there, number))
            }
        };
        match there {
            None => return wrong("no such station is started by the spec"),
            Some((there, number)) if *number > there => {
                return wrong(&format!("there are {there} of its kind in the cell `{}`", cell.name()));
            }
            Some(_) => {}
        }
        let state = states.entry(*station).or_insert(State::Runs);
        *state = match (*state, action) {
            (State::Gone, Action::Kill | Action::Freeze | Action::Thaw) => {
                return wrong("it is gone by then");
            }
            (State::Frozen, Action::Freeze) => return wrong("it is frozen already by then"),
            (State::Runs, Action::Thaw) => return wrong("it is not frozen then"),
            (_, Action::Kill) => State::Gone,
            (_, Action::Freeze) => State::Frozen,
            (_, Action::Thaw | Action::Restart) => State::Runs,
        };
    }
    Ok(())
}

/// How many of a station are started in a cell; none where the lab does not start it.
fn started(station: Option<&StationSpec>, cell: &PlannedCell, usual: u32) -> Option<u32> {
    let station = station.filter(|station| station.addresses.is_empty())?;
    Some(cell.count(station, usual))
}

#[cfg(test)]
mod tests {
    use krarup_settings::Mistakes;

    use super::*;
    use crate::plan::Plan;

    fn spec(faults: &str) -> Result<Spec, Mistakes> {
        Spec::parse(
            &format!(
                r#"
title = "t"
phases = {{ measure = "6s" }}
[[factor]]
name = "loss"
levels = ["none", "kill"]
[[factor]]
name = "servers"
levels = [1, 2]
[stations.servers]
program = "cache"
count = "$servers"
[stations.middleware]
program = "proxy"
[stations.clients]
program = "load"
{faults}
"#
            ),
            "spec.toml",
        )
    }

    fn fault(station: &str, at: &str, action: &str, when: &str) -> String {
        format!("[[fault]]\nstation = \"{station}\"\nat = \"{at}\"\ndo = \"{action}\"\nwhen = {{ {when} }}\n")
    }

    #[test]
    fn a_level_switches_a_fault_off() {
        let killed = fault("server 1", "2s", "kill", "loss = \"kill\"");
        let spec =
            spec(&format!("{}{killed}", fault("server 1", "4s", "restart", "loss = \"kill\""))).unwrap();
        let told: Vec<Vec<String>> = Plan::of(&spec)
            .cells
            .iter()
            .map(|cell| in_order(&spec, cell).iter().map(|fault| fault.get_ref().to_string()).collect())
            .collect();
        let both = ["kill server 1 at 2.00 s", "restart server 1 at 4.00 s"].map(str::to_owned).to_vec();
        assert_eq!(told, [vec![], vec![], both.clone(), both]);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_line() {
        let used = fault("server 1", "0s", "freeze", "loss = \"kill\"");
        let refused = |more: &str| spec(&format!("{used}{more}")).unwrap_err().0.remove(0);
        for (more, what) in [
            (
                fault("server 2", "1s", "kill", "servers = 1"),
                "there are 1 of its kind in the cell `loss none, servers 1`",
            ),
            (fault("server 0", "1s", "kill", ""), "`server 0` is no station"),
            (fault("client 1", "1s", "kill", ""), "`client 1` is no station"),
            (fault("middleware 2", "1s", "freeze", ""), "there are 1 of its kind"),
            (fault("middleware 1", "1s", "kill", ""), "writes no records"),
            (fault("server 1", "6s", "kill", ""), "is measured for 6.00 s"),
            (fault("server 1", "1s", "thaw", "loss = \"none\""), "it is not frozen then"),
            (fault("server 1", "1s", "freeze", "loss = \"kill\""), "it is frozen already by then"),
            (fault("server 1", "1s", "kill", "loss = \"any\""), "the factor `loss` has no level `any`"),
            (fault("server 1", "1s", "end", ""), "end"),
        ] {
            let error = refused(&more);
            assert!(error.what.contains(what), "{more}: {error}");
            let at = |line: usize| error.place == format!("spec.toml, line {line}");
            assert!((22..27).any(at), "{more}: {error}");
        }
        let twice = [fault("server 1", "1s", "kill", ""), fault("server 1", "2s", "thaw", "")].concat();
        assert!(refused(&twice).what.contains("it is gone by then"));
    }

    #[test]
    fn nothing_is_done_to_what_the_lab_has_not_started() {
        let source = "title = \"t\"\n[stations.servers]\naddresses = [\"127.0.0.1:1\"]\n[stations.clients]\nprogram = \"load\"\n";
        let error = Spec::parse(&format!("{source}{}", fault("server 1", "1s", "kill", "")), "spec.toml")
            .unwrap_err();
        assert!(error.to_string().contains("no such station is started"), "{error}");
    }
}
