//! Reads a spec, and refuses what no key alone is wrong in and no experiment can be.

use std::collections::BTreeMap;

use krarup_model::sheet::SheetMeasure;
use krarup_settings::table::offset;
use krarup_settings::{Mistake, Mistakes, read_checked};
use krarup_units::text::duration;
use toml::Spanned;
use toml::de::DeTable;

use super::experiment::{Anchor, Repetitions, Spec};
use super::factor::{Factor, Level, LevelName, names_in};
use super::fault::{Action, Fault, FaultTarget};
use super::pod::{Kubernetes, PodSettings, quantity};
use super::scale::{Baseline, StationRole};
use super::sheet::SheetRow;
use super::station::{MOST, Program, StationCount, StationSpec, Testbed};
use crate::fault;
use crate::gate::{Gate, Watched};
use crate::plan::{MOST_ANCHORS, Plan, combination_count};

impl Spec {
    /// Reads a spec's text.
    ///
    /// # Errors
    /// Every mistake with its line; `name` is the file's.
    pub fn parse(text: &str, name: &str) -> Result<Self, Mistakes> {
        read_checked(text, name, |spec, table| {
            let check = Check { spec, table };
            let mut found = check.all();
            if found.is_empty() {
                found.extend(check.no_such_cell());
            }
            found.extend(check.passed_over());
            found.extend(check.conditions());
            found
        })
    }

    /// The same for a spec whose results are there: it may have conditions that always hold or are
    /// never asked, keys that are passed over, cells that there are not, and an anchor that is run
    /// too often, which earlier versions took.
    ///
    /// # Errors
    /// Every mistake with its line; `name` is the file's.
    pub fn parse_recorded(text: &str, name: &str) -> Result<Self, Mistakes> {
        read_checked(text, name, |spec, table| Check { spec, table }.all())
    }
}

/// Flags by which memtier_benchmark and memaslap are told a rate.
const RATE_FLAGS: [&str; 2] = ["--rate-limiting", "--tps"];

/// The most letters of a folder's name that file systems take.
const LONGEST_NAME: usize = 255;

/// The most combinations of levels: a plan has all of them in memory, and is made several times.
const MOST_COMBINATIONS: f64 = 100_000.0;

/// What a spec must keep beyond what its keys say, each alone.
struct Check<'a> {
    spec: &'a Spec,
    table: &'a DeTable<'a>,
}

/// The mistake at this place of the text.
fn wrong<T>(at: usize, what: impl Into<String>, hint: &str) -> Result<T, Mistake> {
    Err(Mistake::new(what, hint).at(at))
}

impl Check<'_> {
    fn all(&self) -> Vec<Mistake> {
        let spec = self.spec;
        let mut found = Vec::new();
        let mut see = |result: Result<(), Mistake>| found.extend(result.err());
        for (index, factor) in spec.factors.iter().enumerate() {
            see(self.factor(factor, &spec.factors[..index]));
        }
        see(self.zips());
        see(self.combinations());
        spec.except.iter().for_each(|except| see(self.levels("except", at(except), except.get_ref())));
        spec.words().for_each(|word| see(self.word(word)));
        see(self.repetitions());
        see(self.predictions());
        see(self.anchor());
        spec.base.iter().for_each(|base| see(self.levels("base", at(base), base.get_ref())));
        spec.effects_by.iter().for_each(|name| see(self.effects_by(name)));
        spec.stations().for_each(|(name, station)| see(self.station(name, station)));
        see(self.ssh());
        see(self.kubernetes());
        see(self.clients());
        see(self.database());
        see(self.twemproxy());
        see(self.sheet());
        see(self.scale());
        spec.scale
            .iter()
            .flat_map(|scale| &scale.baselines)
            .for_each(|baseline| see(self.baseline(baseline)));
        spec.faults.iter().for_each(|fault| see(self.fault(fault)));
        if found.is_empty() {
            found.extend(self.courses().err());
            found.extend(self.pods().err());
            found.extend(self.scaled_rate().err());
        }
        found
    }

    /// Where a key stands.
    fn at(&self, path: &str) -> usize {
        offset(self.table, path)
    }

    fn known(&self) -> String {
        let names: Vec<&str> =
            self.spec.factors.iter().map(|factor| factor.name.get_ref().as_str()).collect();
        format!("factors are: {}", names.join(", "))
    }

    fn factor(&self, factor: &Factor, before: &[Factor]) -> Result<(), Mistake> {
        let (name, at) = (factor.name.get_ref(), at(&factor.name));
        if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
            return wrong(at, format!("`{name}` is no name for a factor"), "use letters, digits and _");
        }
        if before.iter().any(|other| other.name.get_ref() == name) {
            return wrong(at, format!("the factor `{name}` is there twice"), "give each a name of its own");
        }
        if factor.levels.is_empty() {
            return wrong(at, format!("the factor `{name}` has no level"), "write levels = [1, 2, 4]");
        }
        for (place, level) in factor.levels.iter().enumerate() {
            if factor.levels[..place].iter().any(|other| other.name == level.name) {
                let what = format!("the factor `{name}` has the level `{}` twice", level.name);
                return wrong(at, what, "leave one out");
            }
        }
        let used = self.spec.words().any(|word| names_in(word.get_ref()).contains(&name.as_str()));
        let mut counts = self.spec.stations().filter_map(|(_, station)| station.count.as_ref()?.factor());
        let decides = self.spec.faults.iter().any(|fault| fault.get_ref().when.contains_key(name));
        if !used && !decides && !counts.any(|counted| counted == name) {
            let hint =
                format!("write \"${name}\" in the flags of a station or as its count, or remove the factor");
            return wrong(at, format!("factor `{name}` is never used"), &hint);
        }
        Ok(())
    }

    fn zips(&self) -> Result<(), Mistake> {
        let mut seen: Vec<&str> = Vec::new();
        for zip in &self.spec.zip {
            let at = at(zip);
            let mut levels = None;
            for name in zip.get_ref() {
                let Some(factor) = self.spec.factor(name) else {
                    return wrong(at, format!("there is no factor `{name}` to zip"), &self.known());
                };
                if seen.contains(&name.as_str()) {
                    return wrong(at, format!("the factor `{name}` is zipped twice"), "name it in one zip");
                }
                seen.push(name);
                if *levels.get_or_insert(factor.levels.len()) != factor.levels.len() {
                    let names = zip.get_ref().join(", ");
                    let what = format!("zipped factors have different numbers of levels: {names}");
                    return wrong(at, what, "give each the same number");
                }
            }
        }
        Ok(())
    }

    fn combinations(&self) -> Result<(), Mistake> {
        let count = combination_count(self.spec);
        match self.spec.factors.first().filter(|_| count > MOST_COMBINATIONS) {
            None => Ok(()),
            Some(first) => {
                let what = format!(
                    "the levels of all factors make {count} combinations, and {MOST_COMBINATIONS} is the most"
                );
                wrong(at(&first.name), what, "leave levels out, or zip factors that move together")
            }
        }
    }

    fn word(&self, word: &Spanned<String>) -> Result<(), Mistake> {
        match names_in(word.get_ref()).into_iter().find(|name| self.spec.factor(name).is_none()) {
            None => Ok(()),
            Some(name) => wrong(at(word), format!("`${name}` stands for no factor"), &self.known()),
        }
    }

    /// Whether factors have the levels that are named for `what`.
    fn levels(&self, what: &str, at: usize, levels: &BTreeMap<String, LevelName>) -> Result<(), Mistake> {
        for (name, level) in levels {
            let Some(factor) = self.spec.factor(name) else {
                return wrong(at, format!("{what}: there is no factor `{name}`"), &self.known());
            };
            if !factor.levels.iter().any(|other| other.name == *level) {
                let known: Vec<String> = factor.levels.iter().map(|level| level.name.to_string()).collect();
                let what = format!("{what}: the factor `{name}` has no level `{level}`");
                return wrong(at, what, &format!("levels are: {}", known.join(", ")));
            }
        }
        Ok(())
    }

    fn effects_by(&self, name: &Spanned<String>) -> Result<(), Mistake> {
        match self.spec.factor(name.get_ref()) {
            Some(_) => Ok(()),
            None => {
                wrong(at(name), format!("effects_by: there is no factor `{}`", name.get_ref()), &self.known())
            }
        }
    }

    fn repetitions(&self) -> Result<(), Mistake> {
        let Repetitions { min, max, until } = &self.spec.repetitions;
        if max.is_some_and(|max| max < *min) {
            let what = "repetitions.min must be from 1 to repetitions.max";
            return wrong(self.at("repetitions.max"), what, "write repetitions = { min = 3, max = 6 }");
        }
        if until.is_some() && *min < 2 && self.spec.repetitions.most() > *min {
            let what = "repetitions.until compares runs: it needs min = 2 or more";
            return wrong(self.at("repetitions.until"), what, "raise repetitions.min");
        }
        Ok(())
    }

    fn predictions(&self) -> Result<(), Mistake> {
        let Some(predictions) = &self.spec.predictions else { return Ok(()) };
        let (at, workers) = (self.at("predictions.workers"), &predictions.workers);
        if self.spec.factor(workers).is_none() {
            return wrong(at, format!("predictions.workers: there is no factor `{workers}`"), &self.known());
        }
        if self.spec.stations.middleware.is_none() {
            return wrong(at, "predictions are of a middleware", "give the spec one, or take them away");
        }
        Ok(())
    }

    fn anchor(&self) -> Result<(), Mistake> {
        let Some(anchor) = &self.spec.anchor else { return Ok(()) };
        let Anchor { levels, .. } = anchor.get_ref();
        self.whole_cell("anchor", at(anchor), levels)
    }

    /// Whether the levels that are named for `what` are those of one cell.
    fn whole_cell(&self, what: &str, at: usize, levels: &BTreeMap<String, LevelName>) -> Result<(), Mistake> {
        self.levels(what, at, levels)?;
        let open = |factor: &&Factor| factor.levels.len() > 1 && !levels.contains_key(factor.name.get_ref());
        match self.spec.factors.iter().find(open) {
            None => Ok(()),
            Some(factor) => {
                let what = format!("{what}: the level of `{}` is missing", factor.name.get_ref());
                wrong(at, what, "name a level of each factor that has several")
            }
        }
    }

    /// Cells that are named and that there are not, one that no folder can be named after, and an
    /// anchor that is run too often.
    fn no_such_cell(&self) -> Vec<Mistake> {
        let (spec, plan) = (self.spec, Plan::of(self.spec));
        if plan.cells.is_empty() {
            let what = "`except` leaves out every cell";
            return vec![Mistake::new(what, "leave an exception out").at(self.at("except"))];
        }
        let anchor = spec.anchor.iter();
        let anchor = anchor.map(|anchor| ("the anchor".to_owned(), at(anchor), &anchor.get_ref().levels));
        let baselines = spec.scale.iter().flat_map(|scale| &scale.baselines).map(|baseline| {
            let Baseline { station, levels, .. } = baseline.get_ref();
            (format!("the baseline of the {}", station.name()), at(baseline), levels)
        });
        let named = anchor.chain(baselines);
        let missing = named.filter(|(.., levels)| !plan.cells.iter().any(|cell| cell.has(levels)));
        let mistake = |(name, at, levels)| {
            let (what, hint) = match self.apart(levels) {
                Some([one, other]) => (
                    format!("{name}: `{one}` and `{other}` never meet"),
                    "`zip` moves them together: name levels that stand at one place of both lists",
                ),
                None => (
                    format!("{name} is a combination that `except` leaves out"),
                    "name another, or leave the exception out",
                ),
            };
            Mistake::new(what, hint).at(at)
        };
        missing.map(mistake).chain(self.long_name(&plan)).chain(self.frequent_anchor(&plan)).collect()
    }

    /// Two of these levels that one zip keeps apart.
    fn apart(&self, levels: &BTreeMap<String, LevelName>) -> Option<[String; 2]> {
        let place = |name: &String| {
            let level = levels.get(name)?;
            let place = self.spec.factor(name)?.levels.iter().position(|one| one.name == *level)?;
            Some((place, format!("{name} {level}")))
        };
        self.spec.zip.iter().find_map(|zip| {
            let named: Vec<(usize, String)> = zip.get_ref().iter().filter_map(place).collect();
            let (first, one) = named.first()?;
            let (_, other) = named.iter().find(|(place, _)| place != first)?;
            Some([one.clone(), other.clone()])
        })
    }

    /// A cell whose folder cannot be made.
    fn long_name(&self, plan: &Plan) -> Option<Mistake> {
        let cell = plan.cells.iter().find(|cell| cell.folder.len() > LONGEST_NAME)?;
        let letters = |factor: &&Factor| cell.level(factor.name.get_ref()).map_or(0, |level| level.0.len());
        let longest = self.spec.factors.iter().max_by_key(letters)?;
        let what = format!(
            "the folder of a cell would have a name of {} letters, and {LONGEST_NAME} is the most",
            cell.folder.len()
        );
        let hint = "shorten names of factors or levels: { name = \"…\", words = [\"…\"] }";
        Some(Mistake::new(what, hint).at(at(&longest.name)))
    }

    /// An anchor with more runs in a repetition than there are numbers for them.
    fn frequent_anchor(&self, plan: &Plan) -> Option<Mistake> {
        let anchor = self.spec.anchor.as_ref()?;
        let runs = plan.in_block(self.spec) - plan.cells.len();
        let what = format!(
            "the anchor would be run {runs} times in each repetition, and {MOST_ANCHORS} is the most"
        );
        (runs > MOST_ANCHORS as usize).then(|| Mistake::new(what, "raise its `every`").at(at(anchor)))
    }

    /// What is scaled must be known, and ours to scale.
    fn scale(&self) -> Result<(), Mistake> {
        if self.spec.scale.is_none() {
            return Ok(());
        }
        let at = self.at("scale");
        if matches!(self.spec.testbed, Testbed::Ssh | Testbed::Kubernetes) {
            let what = "a scale is of stations that share the processors of this machine";
            return wrong(at, what, "write testbed = \"netns\", or take the scale away");
        }
        if let Some(fault) = self.spec.faults.first() {
            let what = "faults are done by the clock, and no scale changes that";
            return wrong(fault.span().start, what, "take the scale away, or the faults");
        }
        for (name, station) in self.spec.stations() {
            if station.cpu.is_none() {
                let what =
                    format!("scale: it is not said how many processors the machine of stations.{name} has");
                return wrong(
                    self.at(&format!("stations.{name}")),
                    what,
                    "write cpu = 2 there, as it was published",
                );
            }
        }
        Ok(())
    }

    /// Only our load generator is told of a scale. Another that sends at a rate would send all of
    /// it; one that waits for its answers is slower as they are.
    fn scaled_rate(&self) -> Result<(), Mistake> {
        let clients = &self.spec.stations.clients;
        if self.spec.scale.is_none() || clients.program.is_some() {
            return Ok(());
        }
        for cell in &Plan::of(self.spec).cells {
            for word in clients.command.iter().chain(&clients.flags) {
                let said = cell.render(std::slice::from_ref(word));
                let is_rate = |word: &&String| RATE_FLAGS.iter().any(|flag| word.starts_with(flag));
                if let Some(rate) = said.iter().find(is_rate) {
                    let what = format!("scale: `{rate}` is told to clients that know of no scale");
                    let hint = "let them wait for their answers, without a rate, or write program = \"load\"";
                    return wrong(at(word), what, hint);
                }
            }
        }
        Ok(())
    }

    fn baseline(&self, spanned: &Spanned<Baseline>) -> Result<(), Mistake> {
        let (at, Baseline { station, levels, .. }) = (at(spanned), spanned.get_ref());
        let what = format!("the baseline of the {}", station.name());
        if *station == StationRole::Middleware && self.spec.stations.middleware.is_none() {
            return wrong(at, format!("{what}: there is none"), "take the baseline away");
        }
        let all = self.spec.scale.iter().flat_map(|scale| &scale.baselines);
        if all.filter(|other| other.get_ref().station == *station).count() > 1 {
            return wrong(
                at,
                format!("{what} is there twice"),
                "one share cannot be found by two: leave one out",
            );
        }
        self.whole_cell(&what, at, levels)
    }

    fn sheet(&self) -> Result<(), Mistake> {
        self.spec.checked_questions()?;
        for row in &self.spec.sheet {
            let (at, SheetRow { id, at: levels, beside, measured, .. }) = (at(row), row.get_ref());
            let what = format!("sheet `{id}`");
            self.levels(&what, at, levels)?;
            self.levels(&what, at, beside)?;
            let open = |factor: &&Factor| {
                let name = factor.name.get_ref();
                factor.levels.len() > 1 && *name != self.spec.population && !levels.contains_key(name)
            };
            if let Some(factor) = self.spec.factors.iter().find(open).filter(|_| measured.is_some()) {
                let what = format!("{what}: the level of `{}` is missing", factor.name.get_ref());
                return wrong(
                    at,
                    what,
                    "name a level of each factor that has several, but of the population",
                );
            }
            let limit = *measured == Some(SheetMeasure::ClientsAtLimit);
            if limit && levels.contains_key(&self.spec.population) {
                let what = format!("{what}: the clients of one cell are no limit");
                return wrong(at, what, "leave the level of the population out");
            }
        }
        Ok(())
    }

    fn station(&self, name: &str, station: &StationSpec) -> Result<(), Mistake> {
        let path = |key: &str| self.at(&format!("stations.{name}.{key}"));
        let named = |what: &str| format!("stations.{name} {what}");
        let [starts, runs] = [!station.command.is_empty(), !station.addresses.is_empty()];
        let ways = [station.program.is_some(), starts, runs].into_iter().filter(|way| *way).count();
        if ways != 1 {
            let what = named(&format!("needs one of program, command and addresses, and has {ways}"));
            return wrong(path("program"), what, "docs/reference/spec.md says what each is for");
        }
        let programs: &[Program] = match name {
            "servers" => {
                &[Program::Auto, Program::Memcached, Program::Cache, Program::Broker, Program::Postgres]
            }
            "middleware" => &[Program::Proxy, Program::Twemproxy, Program::Broker],
            _ => &[Program::Load],
        };
        if station.program.is_some_and(|program| !programs.contains(&program)) {
            let hint = "servers are memcached, cache, broker, postgres or auto, the middleware proxy, twemproxy or broker, the clients load";
            return wrong(path("program"), named("cannot be this program"), hint);
        }
        let netns = self.spec.testbed == Testbed::Netns;
        for (key, given) in [("link", station.link.is_some()), ("delay", station.delay > 0.0)] {
            if given && !netns {
                let what = named(&format!("has a {key}, and no host that we can give one"));
                return wrong(path(key), what, "write testbed = \"netns\"");
            }
        }
        self.hosts(name, station)?;
        self.pod(name, station)?;
        if netns && runs {
            let what = named("runs already, and cannot be reached from a namespace");
            return wrong(path("addresses"), what, "let it be started, or use testbed = \"local\"");
        }
        self.count(name, station)?;
        if station.cpu.is_some() && runs {
            let what = named("runs already, and cannot be limited");
            return wrong(path("cpu"), what, "let it be started, or take its cpu away");
        }
        if let Some(config) = &station.config {
            let told = || station.command.iter().any(|word| word.get_ref().contains("{config}"));
            let takes = matches!(station.program, Some(Program::Proxy | Program::Twemproxy));
            if name != "middleware" || !(takes || told()) {
                let hint = "a middleware may have one: program = \"proxy\" or \"twemproxy\", or a command with {config} in a word";
                return wrong(at(config), named("is not told where its config is"), hint);
            }
        }
        Ok(())
    }

    /// Machines are named where there are some.
    fn hosts(&self, name: &str, station: &StationSpec) -> Result<(), Mistake> {
        let path = self.at(&format!("stations.{name}.hosts"));
        let [runs, hosts] = [!station.addresses.is_empty(), !station.hosts.is_empty()];
        if self.spec.testbed != Testbed::Ssh {
            let what = format!("stations.{name}.hosts speaks of other machines");
            return if hosts { self.unless_chosen(path, what, "ssh") } else { Ok(()) };
        }
        let inventory = self.spec.ssh.as_ref().is_some_and(|ssh| ssh.inventory.is_some());
        if !runs && !hosts && !inventory {
            let hint = "write hosts = [\"user@10.0.0.4\"], or give an inventory with a group of the station's name: [ssh] inventory = \"hosts.ini\"";
            return wrong(path, format!("stations.{name} has no hosts"), hint);
        }
        if runs && hosts {
            let what = format!("stations.{name} runs already, and has hosts to be started on");
            return wrong(path, what, "take one of both away");
        }
        Ok(())
    }

    fn ssh(&self) -> Result<(), Mistake> {
        if self.spec.ssh.is_none() || self.spec.testbed == Testbed::Ssh {
            return Ok(());
        }
        self.unless_chosen(self.at("ssh"), "ssh speaks of other machines", "ssh")
    }

    /// What belongs to another testbed is a mistake, unless the spec says itself where it runs: one
    /// spec may hold what each testbed needs.
    fn unless_chosen(&self, at: usize, what: impl Into<String>, testbed: &str) -> Result<(), Mistake> {
        if self.table.get("testbed").is_some() {
            return Ok(());
        }
        wrong(at, what, &format!("write testbed = \"{testbed}\""))
    }

    fn kubernetes(&self) -> Result<(), Mistake> {
        match (&self.spec.kubernetes, self.spec.testbed == Testbed::Kubernetes) {
            (Some(Kubernetes { image, .. }), true) => {
                image_of(image).map_err(|mistake| mistake.at(self.at("kubernetes.image")))
            }
            (None, true) => {
                let hint =
                    "write [kubernetes] image = \"registry.example/krarup:VERSION\"; `make image` builds it";
                wrong(self.at("testbed"), "pods take krarup from an image, and none is named", hint)
            }
            (Some(_), false) => {
                self.unless_chosen(self.at("kubernetes"), "kubernetes speaks of a cluster", "kubernetes")
            }
            (None, false) => Ok(()),
        }
    }

    /// What a pod is given must be what Kubernetes takes, in each cell.
    fn pod(&self, name: &str, station: &StationSpec) -> Result<(), Mistake> {
        let path = |key: &str| self.at(&format!("stations.{name}.{key}"));
        let in_cluster = self.spec.testbed == Testbed::Kubernetes;
        if station.cpu.is_some() && in_cluster {
            let what = format!("stations.{name}.cpu is a control group, which a pod may not make");
            return wrong(path("cpu"), what, "write pod = { limits = { cpu = \"320m\" } }");
        }
        if station.pod.is_some() && !in_cluster {
            let what = format!("stations.{name}.pod speaks of a cluster");
            return self.unless_chosen(path("pod"), what, "kubernetes");
        }
        if station.pod.is_some() && !station.addresses.is_empty() {
            let what = format!("stations.{name} runs already, and has a pod to be started in");
            return wrong(path("pod"), what, "take one of both away");
        }
        Ok(())
    }

    /// What pods are given is what Kubernetes takes, in each cell.
    fn pods(&self) -> Result<(), Mistake> {
        let cells = Plan::of(self.spec).cells;
        for (name, station) in self.spec.stations() {
            let Some(PodSettings { image, requests, limits, .. }) = &station.pod else { continue };
            for cell in &cells {
                for (resource, word) in requests.iter().chain(limits) {
                    let amount = cell.render(std::slice::from_ref(word)).join(" ");
                    if quantity(&amount).is_none() {
                        let what = format!("stations.{name}.pod: `{amount}` is no quantity of {resource}");
                        return wrong(at(word), what, "write it as Kubernetes does: 500m, 2, 256Mi");
                    }
                }
                if let Some(image) = image {
                    let name = cell.render(std::slice::from_ref(image)).join(" ");
                    image_of(&name).map_err(|mistake| mistake.at(at(image)))?;
                }
            }
        }
        Ok(())
    }

    fn count(&self, name: &str, station: &StationSpec) -> Result<(), Mistake> {
        let Some(StationCount::Factor(factor)) = &station.count else { return Ok(()) };
        let Some(factor) = self.spec.factor(factor) else {
            let path = format!("stations.{name}.count");
            let what = format!("{path}: `${factor}` stands for no factor");
            return wrong(self.at(&path), what, &self.known());
        };
        let no_count = |level: &&Level| !level.name.0.parse().is_ok_and(|count| (1..=MOST).contains(&count));
        match factor.levels.iter().find(no_count) {
            None => Ok(()),
            Some(level) => {
                let what = format!("stations.{name} cannot be `{}` many", level.name);
                wrong(at(&factor.name), what, &format!("count is from 1 to {MOST}"))
            }
        }
    }

    /// A database is asked by brokers, and brokers between ask a database.
    fn database(&self) -> Result<(), Mistake> {
        let spec = self.spec;
        let (servers, middleware) = (&spec.stations.servers, spec.stations.middleware.as_ref());
        let brokers = middleware.is_some_and(|station| station.program == Some(Program::Broker));
        if servers.program != Some(Program::Postgres) {
            let hint = "write program = \"postgres\" in [stations.servers], or let the broker be the servers";
            let what = "stations.middleware is a broker, and no database is behind it";
            return if brokers { wrong(self.at("stations.middleware.program"), what, hint) } else { Ok(()) };
        }
        let at = |key: &str| self.at(&format!("stations.servers.{key}"));
        if !brokers {
            let what = "stations.servers is a database, which the clients' protocols do not reach";
            let hint = "write program = \"broker\" in [stations.middleware]";
            return wrong(at("program"), what, hint);
        }
        if spec.testbed.is_elsewhere() {
            let what = "stations.servers: a database that asks for no password is for one machine";
            let hint = "write testbed = \"netns\" or \"local\", or let the servers be brokers that are told of a database: \
                        program = \"broker\", flags = [\"--store-file\", \"/etc/krarup/store\"]";
            return wrong(at("program"), what, hint);
        }
        if spec.counts(servers, 1).iter().any(|count| *count != 1) {
            let what = "stations.servers: there is one database, whatever asks it";
            return wrong(at("count"), what, "leave count out, and count the middleware");
        }
        let of_database = |fault: &&Spanned<Fault>| matches!(fault.get_ref().station, FaultTarget::Server(_));
        if let Some(fault) = spec.faults.iter().find(of_database) {
            let what = "a fault of a database: it is several processes, and one of them says nothing of it";
            return wrong(fault.span().start, what, "do it to a middleware");
        }
        let alone = |baseline: &&Spanned<Baseline>| baseline.get_ref().station == StationRole::Servers;
        match spec.scale.iter().flat_map(|scale| &scale.baselines).find(alone) {
            None => Ok(()),
            Some(baseline) => {
                let what = "the baseline of the servers: clients do not reach a database alone";
                wrong(baseline.span().start, what, "take the baseline away")
            }
        }
    }

    /// twemproxy speaks memcached's protocol, and tells nothing of a pool of workers.
    fn twemproxy(&self) -> Result<(), Mistake> {
        let spec = self.spec;
        let middleware = spec.stations.middleware.as_ref();
        if middleware.and_then(|station| station.program) != Some(Program::Twemproxy) {
            return Ok(());
        }
        if spec.testbed == Testbed::Kubernetes {
            let what = "stations.middleware: twemproxy is started on this machine, and on others through ssh";
            let hint = "write testbed = \"local\", \"netns\" or \"ssh\"";
            return wrong(self.at("stations.middleware.program"), what, hint);
        }
        if spec.stations.servers.program == Some(Program::Broker) {
            let what = "stations.servers is a broker, and twemproxy speaks memcached's protocol";
            let hint = "write program = \"memcached\" in [stations.servers]";
            return wrong(self.at("stations.servers.program"), what, hint);
        }
        if spec.predictions.is_some() {
            let what = "predictions are by numbers of workers, and twemproxy has none";
            let hint =
                "take them away; `krarup model calibrate DIR/trials/CELL…` makes a model of its clients";
            return wrong(self.at("predictions"), what, hint);
        }
        Ok(())
    }

    /// Clients that are a command are told all that they must know.
    fn clients(&self) -> Result<(), Mistake> {
        let clients = &self.spec.stations.clients;
        if clients.program.is_some() {
            return Ok(());
        }
        let told = |what: &str| clients.command.iter().any(|word| word.get_ref().contains(what));
        if !told("{seconds}") || !(told("{port}") || told("{servers}")) {
            let what = "stations.clients are not told how long they run, or which address they ask";
            let hint = "write program = \"load\", or a command with {seconds}, and {host} and {port}, in its words; {out} is where it writes what \
                        memtier_benchmark would";
            return wrong(self.at("stations.clients.command"), what, hint);
        }
        if self.spec.phases.cool_down > 0.0 {
            let what = "clients by a command cut no cool-down off";
            let hint = "leave cool_down out: what they print is all measured";
            return wrong(self.at("phases.cool_down"), what, hint);
        }
        Ok(())
    }

    /// What is only for a station that is started, of one that runs already.
    fn passed_over(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        for (name, station) in self.spec.stations().filter(|(_, station)| !station.addresses.is_empty()) {
            let keys = [
                ("count", station.count.is_some(), "counted"),
                ("flags", !station.flags.is_empty(), "given flags"),
            ];
            for (key, _, what) in keys.into_iter().filter(|(_, is_given, _)| *is_given) {
                let what = format!("stations.{name} runs already, and cannot be {what}");
                let hint = format!("take its {key} away, or let it be started");
                found.push(Mistake::new(what, hint).at(self.at(&format!("stations.{name}.{key}"))));
            }
        }
        found
    }

    /// Conditions that always hold, or are never asked. A share above 1 is a percentage without its
    /// sign.
    fn conditions(&self) -> Vec<Mistake> {
        let reports_errors = self.spec.stations.clients.program.is_some();
        let above = |name: &str, at: usize| {
            let what = format!("{name} has a limit above 1, which is 100 %");
            Mistake::new(what, "write a percentage with its sign, as in 80 %, or a share up to 1").at(at)
        };
        let of_gate = |gate: &Spanned<Gate>| {
            let Gate { watched, limit, .. } = *gate.get_ref();
            if watched.is_share() {
                return (limit > 1.0).then(|| above(watched.name(), at(gate)));
            }
            let unreported = watched == Watched::Errors && !reports_errors;
            unreported.then(|| {
                let what = "clients by a command report no errors: this condition would always hold";
                Mistake::new(what, "take the condition on errors away").at(at(gate))
            })
        };
        let (repetitions, place) = (&self.spec.repetitions, self.at("repetitions.until"));
        let until = repetitions.until.filter(|until| until.limit > 1.0);
        let until = until.map(|_| above("repetitions.until", place));
        let unasked = repetitions.until.filter(|_| repetitions.max.is_none()).map(|_| {
            let what = "repetitions.until is never asked: there is no repetitions.max";
            // It compares runs.
            let min = repetitions.min.max(2);
            Mistake::new(what, format!("write min = {min}, max = {}", min.saturating_mul(2))).at(place)
        });
        self.spec.gates.iter().filter_map(of_gate).chain(until).chain(unasked).collect()
    }

    fn fault(&self, spanned: &Spanned<Fault>) -> Result<(), Mistake> {
        let (at, fault, measured) = (at(spanned), spanned.get_ref(), self.spec.phases.measure);
        self.levels("fault", at, &fault.when)?;
        if fault.at >= measured {
            let what = format!("{fault} comes too late: a trial is measured for {}", duration(measured));
            return wrong(at, what, "name an earlier instant, or raise phases.measure");
        }
        match (fault.action, fault.lasts, fault.every) {
            (Action::Pause, None, _) => {
                return wrong(at, "a pause has no length".to_owned(), "say how long it is: for = \"20ms\"");
            }
            (Action::Pause, Some(lasts), Some(every)) if lasts >= every => {
                let what = format!("{fault}: it would never go on");
                return wrong(at, what, "let `every` be longer than `for`");
            }
            (Action::Pause, ..) | (_, None, None) => {}
            _ => {
                let what = format!("{fault}: `for` and `every` are of a pause alone");
                return wrong(at, what, "write do = \"pause\"");
            }
        }
        let ends = matches!(fault.action, Action::Kill | Action::Restart);
        if ends && matches!(fault.station, FaultTarget::Middleware(_)) {
            let what = format!("{fault}: a middleware that is killed writes no records");
            return wrong(at, what, "freeze and thaw it, or pause it, or do this to a server");
        }
        Ok(())
    }

    /// Whether all faults of each cell can be done one after the other.
    fn courses(&self) -> Result<(), Mistake> {
        if self.spec.faults.is_empty() {
            return Ok(());
        }
        for cell in &Plan::of(self.spec).cells {
            if let Err((fault, what)) = fault::course(self.spec, cell) {
                let hint = "stations are named by kind and number, as \"server 2\"; docs/reference/spec.md says what may follow what";
                return wrong(at(fault), what, hint);
            }
        }
        Ok(())
    }
}

/// The name of an image has no spaces, and is there.
fn image_of(name: &str) -> Result<(), Mistake> {
    if name.is_empty() || name.chars().any(char::is_whitespace) || name.starts_with('-') {
        let what = format!("`{}` is no name of an image", name.escape_debug());
        return Err(Mistake::new(what, "write it like registry.example/krarup:0.1.0"));
    }
    Ok(())
}

/// Where a value stands.
fn at<T>(value: &Spanned<T>) -> usize {
    value.span().start
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
title = "small"
[[factor]]
name = "clients"
levels = [1, 2]
[stations.servers]
program = "cache"
[stations.clients]
program = "load"
flags = ["--connections", "$clients"]
"#;

    /// Clients that are no load generator of ours.
    const COMMAND: &str = r#"command = ["memcaslap", "-s", "{host}:{port}", "-t", "{seconds}s"]"#;

    fn read(text: &str) -> Result<Spec, Mistakes> {
        Spec::parse(text, "small.toml")
    }

    /// The first mistake.
    fn first(result: Result<Spec, Mistakes>) -> Mistake {
        result.expect_err("it is wrong").0.remove(0)
    }

    fn wrong(change: &str, to: &str) -> Mistake {
        let source = SMALL.replace(change, to);
        assert_ne!(source, SMALL, "`{change}` is there");
        first(read(&source))
    }

    fn line(line: usize) -> String {
        format!("small.toml, line {line}")
    }

    #[test]
    fn what_is_left_out_has_its_usual_value() {
        let spec = read(SMALL).unwrap();
        assert_eq!((spec.seed, spec.repetitions.min, spec.repetitions.most(), spec.retries), (1, 3, 3, 2));
        assert_eq!(spec.phases.total(), 12.0);
        assert_eq!(spec.factors[0].levels[1].words, ["2"]);
    }

    #[test]
    fn levels_are_numbers_texts_or_words() {
        let spec = read(&SMALL.replace("[1, 2]", r#"[4, 0.5, "x", { name = "many", words = ["-a", "b"] }]"#))
            .unwrap();
        let names: Vec<&str> = spec.factors[0].levels.iter().map(|level| level.name.0.as_str()).collect();
        assert_eq!(names, ["4", "0.5", "x", "many"]);
        assert_eq!(spec.factors[0].levels[3].words, ["-a", "b"]);
    }

    #[test]
    fn an_error_names_the_line_and_what_there_is() {
        let error = wrong("$clients", "$client");
        assert_eq!(error.place, line(4), "the factor is never used: {error}");
        let error = wrong("\"--connections\", ", "\"--workers\", \"$workers\", \"--connections\", ");
        assert_eq!(
            (error.place.as_str(), error.what.as_str()),
            (&*line(10), "`$workers` stands for no factor")
        );
        assert_eq!(error.hint, "factors are: clients");
        let error = wrong("program = \"load\"", "program = \"loda\"");
        assert_eq!(error.place, line(9), "{error}");
        assert!(error.what.contains("loda"), "{error}");
    }

    /// Every key that is wrong is named; where none is, everything that several keys say together.
    #[test]
    fn a_scale_needs_to_know_what_it_scales() {
        let scaled = SMALL.replace(
            "[[factor]]",
            "[scale]\nby = 20\n[[scale.baseline]]\nstation = \"servers\"\nlevels = { clients = 2 }\nthroughput = 9\n[[factor]]",
        );
        let scaled = scaled.replace("program = \"cache\"", "program = \"cache\"\ncpu = 1");
        let whole = scaled.replace("program = \"load\"", "program = \"load\"\ncpu = 2");
        let spec = read(&whole).unwrap();
        assert_eq!((spec.slower(), spec.scale.unwrap().baselines.len()), (20.0, 1));
        let wrong = |text: &str| first(read(text)).to_string();
        assert!(wrong(&scaled).contains("how many processors the machine of stations.clients has"));
        let change = |from: &str, to: &str| {
            assert!(whole.contains(from), "{from}");
            wrong(&whole.replace(from, to))
        };
        assert!(change("by = 20", "by = 0.5").contains("from 1 to 1000, or \"auto\""));
        assert!(
            change("{ clients = 2 }", "{}")
                .contains("the baseline of the servers: the level of `clients` is missing")
        );
        assert!(change("{ clients = 2 }", "{ clients = 3 }").contains("has no level `3`"));
        assert!(change("station = \"servers\"", "station = \"middleware\"").contains("there is none"));
        let twice =
            "[[scale.baseline]]\nstation = \"servers\"\nlevels = { clients = 1 }\nthroughput = 9\n[[factor]]";
        assert!(change("[[factor]]", twice).contains("is there twice"));
        assert!(
            change("title = \"small\"", "title = \"small\"\ntestbed = \"ssh\"")
                .contains("a scale is of stations")
        );
        let fault = "[[fault]]\nstation = \"server 1\"\nat = \"1s\"\ndo = \"kill\"\n[[factor]]";
        assert!(change("[[factor]]", fault).contains("faults are done by the clock"));
        let foreign = whole.replace("program = \"load\"", COMMAND);
        assert!(read(&foreign).is_ok(), "clients that wait for their answers are slower by themselves");
        let paced = foreign.replace("\"--connections\"", "\"--tps=100\", \"--connections\"");
        assert!(wrong(&paced).contains("line 18: scale: `--tps=100` is told to clients"));
    }

    #[test]
    fn levels_that_make_too_many_combinations_are_refused_before_a_plan_is_made() {
        let with = |factors: usize| {
            let names: Vec<String> = (0..factors).map(|number| format!("f{number}")).collect();
            let factor = |name: &String| format!("[[factor]]\nname = \"{name}\"\nlevels = [1, 2, 3, 4, 5]\n");
            let tables: String = names.iter().map(factor).collect();
            let words: String = names.iter().map(|name| format!(", \"${name}\"")).collect();
            let text = SMALL.replace("[stations.servers]", &format!("{tables}[stations.servers]"));
            read(&text.replace(", \"$clients\"", &format!(", \"$clients\"{words}")))
        };
        assert!(with(3).is_ok());
        let error = first(with(12));
        let what = "the levels of all factors make 488281250 combinations, and 100000 is the most";
        assert_eq!((error.place, error.what.as_str()), (line(4), what));
    }

    #[test]
    fn an_anchor_has_no_more_runs_in_a_repetition_than_numbers() {
        let levels = (1..=70).map(|level| level.to_string()).collect::<Vec<_>>().join(", ");
        let threads = format!("[[factor]]\nname = \"threads\"\nlevels = [{levels}]\n[stations.servers]");
        let text = SMALL.replace("[1, 2]", &format!("[{levels}]")).replace("[stations.servers]", &threads);
        let text = text.replace(", \"$clients\"", ", \"$clients\", \"--threads\", \"$threads\"");
        let anchored = |every: u32| {
            let anchor = format!("anchor = {{ levels = {{ clients = 1, threads = 1 }}, every = {every} }}");
            text.replace("title =", &format!("{anchor}\ntitle ="))
        };
        assert!(read(&anchored(2)).is_ok());
        let error = first(read(&anchored(1)));
        let what = "the anchor would be run 4901 times in each repetition, and 4096 is the most";
        assert_eq!((error.place, error.what.as_str()), (line(2), what));
        assert!(Spec::parse_recorded(&anchored(1), "small.toml").is_ok());
    }

    #[test]
    fn clients_that_report_no_errors_keep_no_condition_on_errors() {
        let gated = |gates: &str| {
            let text = SMALL.replace("program = \"load\"", COMMAND);
            read(&text.replace("title =", &format!("gates = [{gates}]\ntitle =")))
        };
        assert!(gated("\"misses == 0\"").is_ok());
        let error = first(gated("\"misses == 0\", \"errors == 0\""));
        assert!(error.what.contains("report no errors") && error.place == line(2), "{error}");
    }

    #[test]
    fn conditions_that_always_hold_are_refused_but_where_results_are_there() {
        let with = |text: &str, line: &str| text.replace("title =", &format!("{line}\ntitle ="));
        let unreported = with(&SMALL.replace("program = \"load\"", COMMAND), "gates = [\"errors == 0\"]");
        let until = "repetitions = { min = 2, max = 3, until = \"cov(throughput) <= 5\" }";
        let unasked = "repetitions = { min = 3, until = \"cov(throughput) <= 5 %\" }";
        for (text, what) in [
            (unreported, "report no errors"),
            (with(SMALL, "gates = [\"generator_cpu < 80\"]"), "generator_cpu has a limit above 1"),
            (with(SMALL, "gates = [\"steal < 150 %\"]"), "steal has a limit above 1"),
            (with(SMALL, until), "repetitions.until has a limit above 1"),
            (with(SMALL, unasked), "repetitions.until is never asked"),
        ] {
            let error = first(read(&text));
            assert!(error.what.contains(what) && error.place == line(2), "{error}");
            assert!(Spec::parse_recorded(&text, "small.toml").is_ok(), "{text}");
        }
        // Other mistakes are mistakes there, too.
        assert!(Spec::parse_recorded(&SMALL.replace("$clients", "8"), "small.toml").is_err());
        // A quick form says so itself.
        assert!(read(&with(SMALL, &unasked.replace("min = 3", "min = 1, max = 1"))).is_ok());
    }

    #[test]
    fn what_runs_already_is_neither_counted_nor_given_flags() {
        let running =
            |more: &str| SMALL.replace("program = \"cache\"", &format!("addresses = [\"h:1\"]\n{more}"));
        assert!(read(&running("")).is_ok());
        for (more, what) in [
            ("count = \"$clients\"", "stations.servers runs already, and cannot be counted"),
            ("count = 1", "stations.servers runs already, and cannot be counted"),
            ("flags = [\"-t\", \"$clients\"]", "stations.servers runs already, and cannot be given flags"),
        ] {
            let error = first(read(&running(more)));
            assert_eq!((error.place, error.what.as_str()), (line(8), what), "{more}");
            assert!(Spec::parse_recorded(&running(more), "small.toml").is_ok(), "{more}");
        }
        // Else the first trial would find out, and each attempt at every other.
        let error = first(read(&running("").replace("h:1", "h")));
        assert_eq!((error.place, error.what.as_str()), (line(7), "`h` is not an address"));
    }

    #[test]
    fn a_change_is_right_within_two_hundredths_however_it_is_asked_for() {
        let within = |row: &str| {
            let text = format!("{SMALL}[[sheet]]\nid = \"a\"\nask = \"?\"\n{row}");
            read(&text).unwrap().questions()[0].within
        };
        let change = "model = { law = \"mix_response\", costly = 0.1, times = 3 }";
        assert_eq!(within(change), 0.02);
        assert_eq!(within(&format!("within = 0.05\n{change}")), 0.05);
        assert_eq!(within("model = { law = \"slowest\", time = \"1ms\", copies = 2 }"), 0.1);
    }

    #[test]
    fn all_mistakes_are_named_at_once() {
        let mistakes = |text: &str| {
            let found = read(text).unwrap_err().0;
            found.into_iter().map(|mistake| mistake.to_string()).collect::<Vec<_>>()
        };
        let text = format!(
            "sead = 3\nphases = {{ mesure = 1, warm_up = \"2 days\" }}\nquick = {{ gate = [] }}\n{}",
            SMALL.replace("\"cache\"", "\"cache\"\ncount = 0").replace("title = \"small\"", "")
        );
        assert_eq!(
            mistakes(&text),
            [
                "small.toml, line 1: there is no key `sead`; did you mean seed?",
                "small.toml, line 1: `title` is missing",
                "small.toml, line 2: there is no key `mesure`; did you mean measure?",
                "small.toml, line 2: `2 days` is not a length of time; write it like 250ms, 1.5s or 2m",
                "small.toml, line 3: there is no key `gate`; did you mean gates?",
                "small.toml, line 11: `0` is no count of stations; write a number from 1 to 200, or a factor as \"$name\"",
            ]
        );
        let text = SMALL.replace("$clients", "$clint").replace("\"cache\"", "\"proxy\"\nlink = \"1Mbit/s\"");
        assert_eq!(
            mistakes(&format!("{text}[ssh]\n")),
            [
                "small.toml, line 4: factor `clients` is never used; write \"$clients\" in the flags of a station or as its count, or remove the factor",
                "small.toml, line 7: stations.servers cannot be this program; servers are memcached, cache, broker, postgres or auto, the middleware proxy, twemproxy or broker, the clients load",
                "small.toml, line 11: `$clint` stands for no factor; factors are: clients",
                "small.toml, line 12: ssh speaks of other machines; write testbed = \"ssh\"",
            ]
        );
    }

    #[test]
    fn what_belongs_to_another_testbed_stays_where_the_spec_says_which_it_is() {
        let pods = "\"cache\"\nhosts = [\"a\"]\npod = { image = \"m\", limits = { cpu = \"$clients\", memory = 1e6 } }";
        let text = SMALL.replace("\"cache\"", pods) + "[ssh]\n[kubernetes]\nimage = \"k\"\n";
        let with = |testbed: &str| read(&format!("testbed = \"{testbed}\"\n{text}"));
        for testbed in ["local", "kubernetes"] {
            assert_eq!(with(testbed).unwrap().stations.servers.hosts.len(), 1, "{testbed}");
        }
        assert!(first(with("ssh")).what.contains("stations.clients has no hosts"));
        let all = read(&text).unwrap_err().to_string();
        for what in ["hosts speaks of other", "ssh speaks of other", "kubernetes speaks of a cluster"] {
            assert!(all.contains(what), "{all}");
        }
    }

    #[test]
    fn a_pod_is_given_what_kubernetes_takes() {
        let wrong = |servers: &str, tables: &str| {
            let text = SMALL.replace("\"cache\"", &format!("\"cache\"\n{servers}"));
            first(read(&format!("testbed = \"kubernetes\"\n{text}{tables}")))
        };
        const IMAGE: &str = "[kubernetes]\nimage = \"krarup\"\n";
        let error = wrong("", "");
        assert!(error.what.contains("none is named") && error.hint.contains("[kubernetes] image"), "{error}");
        assert!(wrong("cpu = 0.5", IMAGE).hint.contains("limits = { cpu"));
        let error = wrong("pod = { limits = { cpu = \"${clients}x\" } }", IMAGE);
        assert_eq!(
            (error.place.as_str(), error.what.as_str()),
            (&*line(9), "stations.servers.pod: `1x` is no quantity of cpu")
        );
        assert!(wrong("pod = { image = \"a b\" }", IMAGE).what.contains("`a b` is no name of an image"));
        assert!(wrong("", "[kubernetes]\nimage = \"\"\n").what.contains("is no name of an image"));
        let error = wrong("pod = { limits = { cpu = \"$limit\" } }", IMAGE);
        assert_eq!(error.what, "`$limit` stands for no factor");
    }

    #[test]
    fn a_database_is_asked_by_brokers_and_brokers_ask_a_database() {
        let text = SMALL.replace(
            "program = \"cache\"",
            "program = \"postgres\"\n[stations.middleware]\nprogram = \"broker\"\ncount = 2",
        );
        let spec = read(&text).unwrap();
        assert_eq!(spec.counts(&spec.stations.servers, spec.stations.servers.usual_servers()), [1]);
        let wrong = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            let Mistake { place, what, hint, .. } = first(read(&text.replace(from, to)));
            (place, what, hint)
        };
        let (place, what, hint) = wrong("\"postgres\"", "\"cache\"");
        assert!(place == line(9) && what.contains("no database is behind it"), "{place} {what}");
        assert!(hint.contains("program = \"postgres\" in [stations.servers]"), "{hint}");
        let (place, what, hint) = wrong("\"broker\"", "\"proxy\"");
        assert!(place == line(7) && what.contains("protocols do not reach"), "{place} {what}");
        assert!(hint.contains("program = \"broker\" in [stations.middleware]"), "{hint}");
        assert!(wrong("\"postgres\"", "\"postgres\"\ncount = 3").1.contains("there is one database"));
        assert!(wrong("count = 2", "config = \"x\"").1.contains("is not told where its config is"));
        let kubernetes = "testbed = \"kubernetes\"\n[kubernetes]\nimage = \"k\"";
        let (_, what, hint) = wrong("[[factor]]", &format!("{kubernetes}\n[[factor]]"));
        assert!(what.contains("is for one machine") && hint.contains("--store-file"), "{what} {hint}");
        let fault = "[[fault]]\nstation = \"server 1\"\nat = \"1s\"\ndo = \"kill\"\n[[factor]]";
        assert!(wrong("[[factor]]", fault).1.contains("a fault of a database"));
    }

    #[test]
    fn twemproxy_is_asked_for_nothing_that_it_cannot_do() {
        let text = SMALL.replace(
            "[stations.clients]",
            "[stations.middleware]\nprogram = \"twemproxy\"\nconfig = \"server_connections: 2\"\n[stations.clients]",
        );
        assert!(read(&text).is_ok());
        let wrong = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            first(read(&text.replace(from, to))).to_string()
        };
        let kubernetes = "testbed = \"kubernetes\"\n[kubernetes]\nimage = \"k\"\n[[factor]]";
        assert!(wrong("[[factor]]", kubernetes).contains("on others through ssh; write testbed ="));
        assert!(wrong("\"cache\"", "\"broker\"").contains("line 7: stations.servers is a broker"));
        let predictions = "[predictions]\nworkers = \"clients\"\n[stations.clients]";
        assert!(wrong("[stations.clients]", predictions).contains("twemproxy has none"));
        assert!(wrong("program = \"cache\"", "program = \"twemproxy\"").contains("cannot be this program"));
    }

    #[test]
    fn unknown_keys_are_not_passed_over() {
        let error = wrong("title = \"small\"", "title = \"small\"\nrepetition = 3");
        assert_eq!(error.place, line(3));
        assert!(error.what.contains("repetition"), "{error}");
    }

    #[test]
    fn zips_and_exceptions_name_factors_and_levels_that_there_are() {
        let error = wrong("title = \"small\"", "title = \"small\"\nzip = [[\"clients\", \"threads\"]]");
        assert!(error.what.contains("`threads`") && error.place == line(3), "{error:?}");
        let error = wrong("title = \"small\"", "title = \"small\"\nexcept = [{ clients = 3 }]");
        assert_eq!((error.place.as_str(), error.hint.as_str()), (&*line(3), "levels are: 1, 2"));
    }

    #[test]
    fn a_count_may_be_a_factor_whose_levels_are_counts() {
        let counted = |levels: &str| {
            let factor = format!(
                "[[factor]]\nname = \"servers\"\nlevels = {levels}\n[stations.servers]\ncount = \"$servers\""
            );
            read(&SMALL.replace("[stations.servers]", &factor))
        };
        let spec = counted("[1, 3]").unwrap();
        assert_eq!(spec.stations.servers.count, Some(StationCount::Factor("servers".into())));
        assert_eq!(spec.counts(&spec.stations.servers, 9), [1, 3]);
        let error = first(counted("[1, \"many\"]"));
        assert!(error.place == line(7) && error.what.contains("`many`"), "{error}");
        assert!(counted("[0]").is_err());
        let error = wrong("program = \"cache\"", "program = \"cache\"\ncount = \"$server\"");
        assert!(error.what.contains("`$server` stands for no factor"), "{error}");
        let error = wrong("program = \"cache\"", "program = \"cache\"\ncount = \"three\"");
        assert!(error.what.contains("three"), "{error}");
    }

    #[test]
    fn a_configuration_is_for_a_middleware_that_is_told_of_it() {
        let configured = |station: &str| {
            read(&SMALL.replace("[stations.clients]", &format!("{station}\n[stations.clients]")))
        };
        let ours = "[stations.middleware]\nprogram = \"proxy\"\nconfig = \"\"\"\nreaders = $clients\n\"\"\"";
        assert!(configured(ours).is_ok());
        let error = first(configured(&ours.replace("$clients", "$readers")));
        assert!(error.what.contains("`$readers` stands for no factor") && error.place == line(10), "{error}");
        let other = "[stations.middleware]\ncommand = [\"nutcracker\"]\nconfig = \"x\"";
        let error = first(configured(other));
        assert!(error.what.contains("not told") && error.place == line(10), "{error}");
        assert!(
            configured(&other.replace("[\"nutcracker\"]", "[\"nutcracker\", \"--conf={config}\"]")).is_ok()
        );
        assert!(first(configured("config = \"x\"")).what.contains("stations.servers"));
    }

    #[test]
    fn predictions_name_a_factor_and_need_a_middleware() {
        let asked = |table: &str, station: &str| {
            read(&SMALL.replace(
                "[stations.clients]",
                &format!("{station}\n[predictions]\n{table}\n[stations.clients]"),
            ))
        };
        let middleware = "[stations.middleware]\nprogram = \"proxy\"\nflags = [\"--workers\", \"$clients\"]";
        assert_eq!(asked("workers = \"clients\"", middleware).unwrap().predictions.unwrap().cells, 5);
        let error = first(asked("", middleware));
        assert!(
            error.what.contains("no factor `workers`") && error.hint == "factors are: clients",
            "{error}"
        );
        assert!(first(asked("workers = \"clients\"\ncells = 2", middleware)).what.contains("cells` is 2"));
        assert!(first(asked("workers = \"clients\"", "")).what.contains("of a middleware"));
    }

    #[test]
    fn a_base_names_levels_that_there_are() {
        let based = |base: &str| read(&SMALL.replace("title =", &format!("base = {base}\ntitle =")));
        assert_eq!(based("{ clients = 2 }").unwrap().base.unwrap().get_ref().len(), 1);
        let what = |base: &str| first(based(base)).what;
        assert!(what("{ clients = 3 }").contains("base: the factor `clients` has no level `3`"));
        assert!(what("{ nobody = 3 }").contains("base: there is no factor `nobody`"));
    }

    #[test]
    fn an_anchor_is_one_cell() {
        let anchored = |anchor: &str| read(&SMALL.replace("title =", &format!("anchor = {anchor}\ntitle =")));
        let spec = anchored("{ levels = { clients = 2 }, every = 5 }").unwrap();
        assert_eq!(spec.anchor.unwrap().get_ref().within, 0.1);
        for (anchor, what) in [
            ("{ levels = {} }", "`clients` is missing"),
            ("{ levels = { clients = 3 } }", "no level `3`"),
            ("{ levels = { client = 2 } }", "no factor `client`"),
            ("{ levels = { clients = 2 }, every = 0 }", "must be at least 1"),
        ] {
            let error = first(anchored(anchor));
            assert!(error.what.contains(what) && error.place == line(2), "{error}");
        }
    }

    #[test]
    fn an_anchor_and_a_baseline_are_of_a_cell_that_there_is() {
        let text = SMALL
            .replace("[1, 2]", "[1, 2]\n[[factor]]\nname = \"threads\"\nlevels = [4, 8]")
            .replace("\"$clients\"", "\"$clients\", \"--threads\", \"$threads\"")
            .replace("\"cache\"", "\"cache\"\ncpu = 1")
            .replace("\"load\"", "\"load\"\ncpu = 2");
        const LEVELS: &str = "levels = { clients = 1, threads = 8 }";
        let baseline = format!("{{ station = \"servers\", {LEVELS}, throughput = 9 }}");
        for (named, key) in [
            ("the anchor", format!("anchor = {{ {LEVELS} }}")),
            ("the baseline of the servers", format!("scale = {{ by = 20, baseline = [{baseline}] }}")),
        ] {
            let with = |rule: &str| text.replace("title =", &format!("{rule}\n{key}\ntitle ="));
            assert!(read(&with("")).is_ok(), "{key}");
            for (rule, what, hint) in [
                (
                    "zip = [[\"clients\", \"threads\"]]",
                    format!("{named}: `clients 1` and `threads 8` never meet"),
                    "`zip` moves them together: name levels that stand at one place of both lists",
                ),
                (
                    "except = [{ clients = 1, threads = 8 }]",
                    format!("{named} is a combination that `except` leaves out"),
                    "name another, or leave the exception out",
                ),
            ] {
                let error = first(read(&with(rule)));
                assert_eq!((error.place, error.what, error.hint.as_str()), (line(3), what, hint));
                assert!(Spec::parse_recorded(&with(rule), "small.toml").is_ok(), "{rule}");
            }
        }
    }

    #[test]
    fn there_is_a_cell_and_its_folder_can_be_made() {
        let error = wrong("title =", "except = [{ clients = 1 }, { clients = 2 }]\ntitle =");
        assert_eq!((error.place, error.what.as_str()), (line(2), "`except` leaves out every cell"));
        let error = wrong("[1, 2]", &format!("[1, \"{}\"]", "a".repeat(300)));
        assert!(error.place == line(4) && error.what.contains("a name of 308 letters"), "{error}");
        assert!(error.hint.contains("shorten names of factors or levels"), "{error}");
    }

    #[test]
    fn a_delay_is_a_time_of_a_host_that_has_one() {
        let delayed = |delay: &str, testbed: &str| {
            let source = SMALL.replace("program = \"load\"", &format!("program = \"load\"\ndelay = {delay}"));
            read(&format!("testbed = \"{testbed}\"\n{source}"))
        };
        assert_eq!(delayed("\"0.5ms\"", "netns").unwrap().stations.clients.delay, 0.0005);
        let what = |delay: &str, testbed: &str| first(delayed(delay, testbed)).what;
        assert!(what("\"1ms\"", "local").contains("stations.clients has a delay, and no host"));
        assert!(what("\"6s\"", "netns").contains("`stations.clients.delay` is 6 s, and must be at most 5s"));
        assert!(what("-1", "netns").contains("`-1` is not a length of time"));
    }

    #[test]
    fn a_share_of_the_processors_is_a_number_that_the_kernel_takes() {
        let capped = |cpu: &str| {
            read(&SMALL.replace("program = \"load\"", &format!("program = \"load\"\ncpu = {cpu}")))
        };
        assert_eq!(capped("0.32").unwrap().stations.clients.cpu, Some(0.32));
        for wrong in ["0.001", "-1", "0", "1e9"] {
            assert!(first(capped(wrong)).what.contains("stations.clients.cpu"), "{wrong}");
        }
    }
}
