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
    /// When it was due, from the beginning of what is measured; of pauses, the first.
    pub at: Seconds,
    /// How much later it was done; a restart is done when the station takes connections. Of pauses,
    /// the most.
    pub late: Seconds,
}

impl Fault {
    /// What it comes to in a trial that is measured for so long: when which is done.
    pub(crate) fn steps(&self, measured: Seconds) -> Vec<(Seconds, Action)> {
        let (Action::Pause, Some(lasts)) = (self.action, self.lasts) else {
            return vec![(self.at, self.action)];
        };
        let begins = (0_u32..).map(|turn| self.at + f64::from(turn) * self.every.unwrap_or(measured));
        begins
            .take_while(|&begin| begin < measured)
            .flat_map(|begin| [(begin, Action::Freeze), (begin + lasts, Action::Thaw)])
            .collect()
    }

    /// Whether it is done in this cell.
    pub fn is_in(&self, cell: &PlannedCell) -> bool {
        cell.has(&self.when)
    }
}

/// What is done in this cell, in the order of time.
pub fn in_order<'a>(spec: &'a Spec, cell: &PlannedCell) -> Vec<&'a Spanned<Fault>> {
    let mut faults: Vec<_> = spec.faults.iter().filter(|fault| fault.get_ref().is_in(cell)).collect();
    faults.sort_by(|one, other| one.get_ref().at.total_cmp(&other.get_ref().at));
    faults
}

/// What a station is doing.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Runs,
    Frozen,
    Gone,
    /// It runs and stands still in turn, to the end.
    Paused,
    /// It stands still until then.
    PausedUntil(Seconds),
}

/// Whether a cell's faults can be done one after the other: which one cannot, and why.
pub(crate) fn course<'a>(spec: &'a Spec, cell: &PlannedCell) -> Result<(), (&'a Spanned<Fault>, String)> {
    let mut states: BTreeMap<FaultTarget, State> = BTreeMap::new();
    for spanned in in_order(spec, cell) {
        let Fault { station, action, at, lasts, every, .. } = spanned.get_ref();
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
            (State::Paused, _) => return wrong("it is paused again and again by then"),
            (State::PausedUntil(end), _) if *at < end => return wrong("it is paused then"),
            (State::Gone, Action::Kill | Action::Freeze | Action::Thaw | Action::Pause) => {
                return wrong("it is gone by then");
            }
            (State::Frozen, Action::Freeze | Action::Pause) => return wrong("it is frozen already by then"),
            (State::Runs | State::PausedUntil(_), Action::Thaw) => return wrong("it is not frozen then"),
            (_, Action::Kill) => State::Gone,
            (_, Action::Freeze) => State::Frozen,
            (_, Action::Thaw | Action::Restart) => State::Runs,
            (_, Action::Pause) if every.is_some() => State::Paused,
            (_, Action::Pause) => State::PausedUntil(at + lasts.unwrap_or_default()),
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
    fn pauses_come_again_and_again_to_the_end() {
        let pause = |times: &str| {
            format!(
                "[[fault]]\nstation = \"server 1\"\nat = \"1s\"\ndo = \"pause\"\nwhen = {{ loss = \"kill\" }}\n{times}\n"
            )
        };
        let steps = |times: &str| spec(&pause(times)).unwrap().faults[0].get_ref().steps(6.0);
        let [freeze, thaw] = [Action::Freeze, Action::Thaw];
        assert_eq!(steps("for = \"20ms\""), [(1.0, freeze), (1.02, thaw)]);
        let many = steps("for = \"500ms\"\nevery = \"2s\"");
        assert_eq!(
            many,
            [(1.0, freeze), (1.5, thaw), (3.0, freeze), (3.5, thaw), (5.0, freeze), (5.5, thaw)]
        );
        let told = |times: &str| spec(&pause(times)).unwrap().faults[0].get_ref().to_string();
        assert_eq!(told("for = \"20ms\""), "pause server 1 for 20.0 ms at 1.00 s");
        assert_eq!(
            told("for = \"20ms\"\nevery = \"1s\""),
            "pause server 1 for 20.0 ms every 1.00 s, from 1.00 s on"
        );
        // After one pause it can be paused again, after pauses without end nothing can be done.
        let later = fault("server 1", "3s", "kill", "loss = \"kill\"");
        assert!(spec(&format!("{}{later}", pause("for = \"2s\""))).is_ok());
        for (faults, what) in [
            (pause(""), "a pause has no length"),
            (pause("for = \"2s\"\nevery = \"2s\""), "it would never go on"),
            (pause("for = \"1us\""), "for"),
            (later.replace("when", "for = \"1s\"\nwhen"), "are of a pause alone"),
            (format!("{}{later}", pause("for = \"2001ms\"")), "it is paused then"),
            (format!("{}{later}", pause("for = \"1s\"\nevery = \"2s\"")), "paused again and again"),
        ] {
            let error = spec(&faults).unwrap_err().0.remove(0);
            assert!(error.what.contains(what), "{faults}: {error}");
        }
    }

    #[test]
    fn nothing_is_done_to_what_the_lab_has_not_started() {
        let source = "title = \"t\"\n[stations.servers]\naddresses = [\"127.0.0.1:1\"]\n[stations.clients]\nprogram = \"load\"\n";
        let error = Spec::parse(&format!("{source}{}", fault("server 1", "1s", "kill", "")), "spec.toml")
            .unwrap_err();
        assert!(error.to_string().contains("no such station is started"), "{error}");
    }
}
