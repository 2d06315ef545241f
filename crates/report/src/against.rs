//! Against what a sweep is drawn: the clients, or where their number never changes, another factor:
//! one of numbers, else one of words.

use krarup_analysis::cell::Cell;
use krarup_analysis::results::Results;
use krarup_units::Unit;

use crate::document::EstimateCell;
use crate::figures::{Axis, AxisScale, FigurePoint, LineSeries, Lines, Mark, Tint};
use crate::workloads::clients;

/// The x axis of a sweep and the cells along it.
pub(crate) struct Against<'a> {
    /// What it is, in words: `clients`, `servers`.
    pub(crate) name: String,
    /// The axis.
    pub(crate) axis: Axis,
    /// Each line: its name, and its cells by their place on the axis.
    pub(crate) lines: Vec<(String, Vec<(f64, &'a Cell)>)>,
}

/// The axis of these results.
pub(crate) fn against(results: &Results) -> Against<'_> {
    let first = results.cells.first().map(|cell| cell.levels.clients);
    let alike = results.cells.iter().all(|cell| Some(cell.levels.clients) == first);
    if !alike {
        return along_clients(results);
    }
    if let Some(factor) = factors_of_numbers(results).into_iter().next() {
        return along(results, &factor, Axis::linear(&factor, Unit::Count), number);
    }
    match factor_of_words(results) {
        Some((factor, levels)) => {
            let axis = Axis::words(&factor, levels.clone());
            along(results, &factor, axis, |cell, name| {
                let own = cell.level(name)?;
                levels.iter().position(|level| level == own).map(|place| place as f64)
            })
        }
        None => along_clients(results),
    }
}

/// The factor of words with the most levels, where several vary: a line for each of the others'
/// levels says more than a place for each cell. Its levels are in the order of the cells.
fn factor_of_words(results: &Results) -> Option<(String, Vec<String>)> {
    let first = results.cells.first()?;
    let mut varying: Vec<(String, Vec<String>)> = Vec::new();
    for (name, _) in &first.factors {
        let mut levels: Vec<String> = Vec::new();
        for own in results.cells.iter().filter_map(|cell| cell.level(name)) {
            if !levels.iter().any(|known| known == own) {
                levels.push(own.to_owned());
            }
        }
        if levels.len() > 1 {
            varying.push((name.clone(), levels));
        }
    }
    let several = varying.len() > 1;
    // Of equals the last one, which the spec varies fastest.
    varying.into_iter().max_by_key(|(_, levels)| levels.len()).filter(|_| several)
}

fn along_clients(results: &Results) -> Against<'_> {
    let clients = || results.cells.iter().map(|cell| cell.levels.clients);
    let (least, most) = (clients().min().unwrap_or(0), clients().max().unwrap_or(0));
    let line = |workload: &str| {
        let cells = results.cells.iter().filter(|cell| cell.levels.workload == workload);
        (workload.to_owned(), cells.map(|cell| (f64::from(cell.levels.clients), cell)).collect())
    };
    let workloads = results.verdicts.iter().map(|verdict| verdict.at.workload.as_str());
    Against {
        name: "clients".into(),
        axis: axis("clients", f64::from(least), f64::from(most)),
        lines: workloads.map(line).collect(),
    }
}

fn along<'a>(
    results: &'a Results,
    factor: &str,
    axis: Axis,
    place: impl Fn(&Cell, &str) -> Option<f64>,
) -> Against<'a> {
    let mut lines: Vec<(String, Vec<(f64, &Cell)>)> = Vec::new();
    for cell in &results.cells {
        let Some(x) = place(cell, factor) else { continue };
        let varying = |name: &str| {
            name != factor && results.cells.iter().any(|other| other.level(name) != cell.level(name))
        };
        let is_of_another = |name: &str, level: &str| {
            let of_another =
                |(other, own): &(String, String)| other != name && own == level && varying(other);
            results.cells.iter().any(|cell| cell.factors.iter().any(of_another))
        };
        let words: Vec<String> = cell
            .factors
            .iter()
            .filter(|(name, _)| varying(name))
            .map(|(name, level)| in_words(name, level, is_of_another(name, level)))
            .collect();
        let name = if words.is_empty() { cell.levels.workload.clone() } else { words.join(", ") };
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push((x, cell)),
            None => lines.push((name, vec![(x, cell)])),
        }
    }
    lines.iter_mut().for_each(|(_, cells)| cells.sort_by(|one, other| one.0.total_cmp(&other.0)));
    if let [(name, _)] = &mut lines[..] {
        *name = "all".into();
    }
    Against { name: factor.to_owned(), axis, lines }
}

/// Levels that are words speak for themselves, unless they are words like yes and no, or another
/// factor of the line has them too.
fn in_words(name: &str, level: &str, is_of_another: bool) -> String {
    let is_number = level.starts_with(|first: char| first.is_ascii_digit());
    let is_answer =
        matches!(level, "true" | "false" | "yes" | "no" | "on" | "off" | "none" | "half" | "full" | "all");
    if level.contains(name) || !(is_number || is_answer || is_of_another) {
        level.to_owned()
    } else {
        format!("{name} {level}")
    }
}

/// Equal ratios where the largest is eight times the smallest or more.
fn axis(name: &str, least: f64, most: f64) -> Axis {
    if least > 0.0 && most >= 8.0 * least {
        Axis::log(name, Unit::Count)
    } else {
        Axis::linear(name, Unit::Count)
    }
}

impl Against<'_> {
    /// The clients of all cells, where none have another number: these stand beside each other, and
    /// there is no axis.
    fn clients_of_all(&self) -> Option<String> {
        let mut places = self.lines.iter().flat_map(|(_, cells)| cells.iter().map(|(x, _)| *x));
        let first = places.next().filter(|_| self.name == "clients")?;
        places.all(|x| x == first).then(|| clients(first as u32))
    }

    /// What a title says of it: `against clients`, or `at 8 clients` where no cell has others.
    pub(crate) fn in_title(&self) -> String {
        self.clients_of_all().map_or_else(|| format!("against {}", self.name), |all| format!("at {all}"))
    }

    /// How the axis is divided, as a caption says it: `; clients on a linear axis`
    pub(crate) fn scale(&self) -> String {
        if let Some(clients) = self.clients_of_all() {
            return format!("; all at {clients}");
        }
        match self.axis.scale {
            _ if !self.axis.levels.is_empty() => String::new(),
            AxisScale::Log => format!("; {} on a logarithmic axis", self.name),
            _ => format!("; {} on a linear axis", self.name),
        }
    }

    /// What stands at a place of the axis: `8`, `two choices`.
    pub(crate) fn level(&self, x: f64) -> String {
        self.axis.levels.get(x as usize).cloned().unwrap_or_else(|| x.to_string())
    }

    /// A line for each workload in each panel, of the cells that have something to show.
    pub(crate) fn draw(
        &self,
        y: Vec<Axis>,
        of: impl Fn(&Cell) -> Option<Vec<Option<EstimateCell>>>,
    ) -> Lines {
        let series = self.lines.iter().enumerate().map(|(index, (name, cells))| LineSeries {
            name: name.clone(),
            tint: Tint::Series(index),
            mark: Mark::Joined,
            points: cells.iter().filter_map(|(x, cell)| Some(FigurePoint { x: *x, y: of(cell)? })).collect(),
        });
        let series = series.filter(|series| !series.points.is_empty()).collect();
        Lines { x: self.axis.clone(), y, series }
    }
}

fn number(cell: &Cell, name: &str) -> Option<f64> {
    cell.level(name)?.parse().ok().filter(|level: &f64| level.is_finite())
}

/// Factors with several levels, all of them numbers, that neither are the number of clients nor
/// move with it.
pub(crate) fn factors_of_numbers(results: &Results) -> Vec<String> {
    let Some(first) = results.cells.first() else { return Vec::new() };
    let varies = |name: &&String| {
        let levels: Option<Vec<f64>> = results.cells.iter().map(|cell| number(cell, name)).collect();
        let Some(levels) = levels else { return false };
        let moves = || {
            let mut beside = results.cells.iter().zip(&levels);
            beside.any(|(cell, level)| *level == levels[0] && cell.levels.clients != first.levels.clients)
        };
        let alike = results.cells.iter().all(|cell| cell.levels.clients == first.levels.clients);
        levels.iter().any(|level| *level != levels[0]) && (alike || moves())
    };
    first.factors.iter().map(|(name, _)| name).filter(varies).cloned().collect()
}

/// How many levels a factor has in these results.
pub(crate) fn levels_of(results: &Results, name: &str) -> usize {
    let mut levels: Vec<&str> = results.cells.iter().filter_map(|cell| cell.level(name)).collect();
    levels.sort_unstable();
    levels.dedup();
    levels.len()
}

#[cfg(test)]
mod tests {
    use krarup_analysis::trial::{CellLevels, ClientSide, TrialTimes};
    use krarup_analysis::{Environment, Trial, summarise};

    use super::*;

    fn trial(servers: &str, copies: &str, writes: &str, clients: u32) -> Trial {
        let mean = 1e-3;
        Trial {
            levels: CellLevels { workload: format!("servers {servers}, {copies}, {writes}"), clients },
            repetition: 0,
            length: 10.0,
            think: 0.0,
            client: ClientSide {
                completed: 1_000,
                response: TrialTimes { mean, p50: mean, p90: mean, p99: mean },
                ..ClientSide::default()
            },
            middleware: None,
            servers: Vec::new(),
            cpu: Vec::new(),
            links: Vec::new(),
            ways: Vec::new(),
            factors: [
                ("servers", servers),
                ("copies", copies),
                ("writes", writes),
                ("clients", &clients.to_string()),
            ]
            .map(|(name, level)| (name.to_owned(), level.to_owned()))
            .to_vec(),
            machine: None,
            machines: Vec::new(),
            course: Vec::new(),
            disturbed: None,
        }
    }

    #[test]
    fn where_clients_never_change_a_factor_of_numbers_is_the_axis() {
        let mut trials = Vec::new();
        for servers in ["5", "3"] {
            for copies in ["none", "full"] {
                trials.extend(["1 % writes", "5 % writes"].map(|writes| trial(servers, copies, writes, 261)));
            }
        }
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let found = against(&results);
        assert_eq!(
            (found.name.as_str(), found.scale(), found.lines.len()),
            ("servers", "; servers on a linear axis".into(), 4)
        );
        let (name, cells) = &found.lines[0];
        assert_eq!(name, "copies none, 1 % writes");
        assert_eq!(cells.iter().map(|(x, _)| *x).collect::<Vec<_>>(), [3.0, 5.0]);
    }

    #[test]
    fn a_factor_of_words_is_the_axis_where_no_other_has_numbers() {
        let mut trials = Vec::new();
        for copies in ["none", "half", "full"] {
            trials.extend(["reads", "writes"].map(|kind| trial("3", copies, kind, 64)));
        }
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let found = against(&results);
        assert_eq!((found.name.as_str(), found.scale()), ("copies", String::new()));
        assert_eq!(found.axis.levels, ["none", "half", "full"]);
        let lines: Vec<(&str, Vec<f64>)> = found
            .lines
            .iter()
            .map(|(name, cells)| (name.as_str(), cells.iter().map(|(x, _)| *x).collect()))
            .collect();
        assert_eq!(lines, [("reads", vec![0.0, 1.0, 2.0]), ("writes", vec![0.0, 1.0, 2.0])]);
        assert_eq!(found.level(1.0), "half");
        // A single factor: its cells stand beside each other.
        let one = ["none", "full"].map(|copies| trial("3", copies, "reads", 64));
        let results = summarise("t", Environment::default(), &one).unwrap();
        let found = against(&results);
        assert_eq!(
            (found.name.as_str(), found.scale(), found.in_title()),
            ("clients", "; all at 64 clients".into(), "at 64 clients".into())
        );
    }

    #[test]
    fn a_level_without_a_place_on_an_axis_is_a_word() {
        for unplaced in ["inf", "nan"] {
            let levels = ["5", unplaced];
            let trials = levels.map(|servers| ["none", "full"].map(|copies| trial(servers, copies, "", 64)));
            let results = summarise("t", Environment::default(), &trials.concat()).unwrap();
            assert!(factors_of_numbers(&results).is_empty());
            let found = against(&results);
            assert_eq!((found.name.as_str(), found.axis.levels.len(), found.lines.len()), ("copies", 2, 2));
        }
    }

    #[test]
    fn levels_of_which_no_reader_could_say_whose_they_are_have_their_factor_beside_them() {
        let lines = |copies: [&str; 2], writes: [&str; 2]| -> Vec<String> {
            let mut trials = Vec::new();
            for servers in ["3", "5"] {
                for copy in copies {
                    trials.extend(writes.map(|write| trial(servers, copy, write, 64)));
                }
            }
            let results = summarise("t", Environment::default(), &trials).unwrap();
            against(&results).lines.into_iter().map(|(name, _)| name).collect()
        };
        let answers = lines(["on", "off"], ["off", "on"]);
        assert_eq!(answers[..2], ["copies on, writes off", "copies on, writes on"]);
        let shared = lines(["slow", "quick"], ["quick", "lazy"]);
        let expected =
            ["slow, writes quick", "slow, lazy", "copies quick, writes quick", "copies quick, lazy"];
        assert_eq!(shared, expected);
    }

    #[test]
    fn clients_are_the_axis_wherever_they_vary() {
        let trials = [1, 2, 64].map(|clients| trial("3", "none", "1 % writes", clients));
        let results = summarise("t", Environment::default(), &trials).unwrap();
        let found = against(&results);
        assert_eq!(
            (found.in_title().as_str(), found.scale(), found.lines.len()),
            ("against clients", "; clients on a logarithmic axis".into(), 1)
        );
        assert_eq!(levels_of(&results, "clients"), 3);
        assert!(factors_of_numbers(&results).is_empty());
    }
}
