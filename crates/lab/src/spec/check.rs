//! Reads a spec, and refuses what its grammar allows and no experiment can be.

use std::collections::BTreeMap;

use krarup_units::Seconds;
use krarup_units::text::duration;

use super::error::{SpecError, line_at};
use super::experiment::{Anchor, Predictions, Repetitions, Spec};
use super::factor::{Factor, Level, LevelName, names_in};
use super::fault::{Action, FaultTarget};
use super::station::{Program, StationCount, StationSpec, Stations, Testbed};
use crate::fault;
use crate::plan::Plan;
use crate::testbed::cap::LEAST;

/// The longest way of a packet, in seconds: connections give up where they wait longer.
const LONGEST_DELAY: Seconds = 5.0;
/// Most of one station.
const MOST: u32 = 200;

impl Spec {
    /// Reads a spec.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line.
    pub fn parse(source: &str) -> Result<Self, SpecError> {
        let spec: Self = toml::from_str(source).map_err(|error| SpecError {
            line: error.span().map(|span| line_at(source, span.start)),
            what: error.message().to_owned(),
            hint: "docs/reference/spec.md lists every key".into(),
        })?;
        Check { spec: &spec, source }.all()?;
        Ok(spec)
    }
}

/// What a spec must keep beyond its grammar.
struct Check<'a> {
    spec: &'a Spec,
    source: &'a str,
}

impl Check<'_> {
    fn wrong<T>(&self, at: Option<usize>, what: String, hint: &str) -> Result<T, SpecError> {
        Err(SpecError { line: at.map(|at| line_at(self.source, at)), what, hint: hint.to_owned() })
    }

    fn all(&self) -> Result<(), SpecError> {
        self.factors()?;
        self.zips()?;
        self.exceptions()?;
        self.words()?;
        self.lengths()?;
        self.predictions()?;
        self.anchor()?;
        if let Some(base) = &self.spec.base {
            self.levels("base", Some(base.span().start), base.get_ref())?;
        }
        self.stations()?;
        self.faults()
    }

    fn known(&self) -> String {
        let names: Vec<&str> =
            self.spec.factors.iter().map(|factor| factor.name.get_ref().as_str()).collect();
        format!("factors are: {}", names.join(", "))
    }

    fn factors(&self) -> Result<(), SpecError> {
        for (index, factor) in self.spec.factors.iter().enumerate() {
            let (name, at) = (factor.name.get_ref(), Some(factor.name.span().start));
            if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                return self.wrong(
                    at,
                    format!("`{name}` is no name for a factor"),
                    "use letters, digits and _",
                );
            }
            if self.spec.factors[..index].iter().any(|other| other.name.get_ref() == name) {
                return self.wrong(
                    at,
                    format!("the factor `{name}` is there twice"),
                    "give each a name of its own",
                );
            }
            if factor.levels.is_empty() {
                return self.wrong(
                    at,
                    format!("the factor `{name}` has no level"),
                    "write levels = [1, 2, 4]",
                );
            }
            for (place, level) in factor.levels.iter().enumerate() {
                if factor.levels[..place].iter().any(|other| other.name == level.name) {
                    return self.wrong(
                        at,
                        format!("the factor `{name}` has the level `{}` twice", level.name),
                        "leave one out",
                    );
                }
            }
            let used = self.spec.words().any(|word| names_in(word.get_ref()).contains(&name.as_str()));
            let counts = self.spec.stations().filter_map(|(_, station)| station.count.as_ref()?.factor());
            let decides = self.spec.faults.iter().any(|fault| fault.get_ref().when.contains_key(name));
            if !used && !decides && !counts.into_iter().any(|counted| counted == name) {
                let hint = format!(
                    "write \"${name}\" in the flags of a station or as its count, or remove the factor"
                );
                return self.wrong(at, format!("factor `{name}` is never used"), &hint);
            }
        }
        Ok(())
    }

    fn zips(&self) -> Result<(), SpecError> {
        let mut seen: Vec<&str> = Vec::new();
        for zip in &self.spec.zip {
            let at = Some(zip.span().start);
            let mut levels = None;
            for name in zip.get_ref() {
                let Some(factor) = self.spec.factor(name) else {
                    return self.wrong(at, format!("there is no factor `{name}` to zip"), &self.known());
                };
                if seen.contains(&name.as_str()) {
                    return self.wrong(
                        at,
                        format!("the factor `{name}` is zipped twice"),
                        "name it in one zip",
                    );
                }
                seen.push(name);
                if *levels.get_or_insert(factor.levels.len()) != factor.levels.len() {
                    let what = format!(
                        "zipped factors have different numbers of levels: {}",
                        zip.get_ref().join(", ")
                    );
                    return self.wrong(at, what, "give each the same number");
                }
            }
        }
        Ok(())
    }

    fn exceptions(&self) -> Result<(), SpecError> {
        for except in &self.spec.except {
            let at = Some(except.span().start);
            for (name, level) in except.get_ref() {
                let Some(factor) = self.spec.factor(name) else {
                    return self.wrong(
                        at,
                        format!("there is no factor `{name}` to leave out"),
                        &self.known(),
                    );
                };
                if !factor.levels.iter().any(|other| other.name == *level) {
                    let levels: Vec<String> =
                        factor.levels.iter().map(|level| level.name.to_string()).collect();
                    let hint = format!("levels are: {}", levels.join(", "));
                    return self.wrong(at, format!("the factor `{name}` has no level `{level}`"), &hint);
                }
            }
        }
        Ok(())
    }

    fn words(&self) -> Result<(), SpecError> {
        for word in self.spec.words() {
            for name in names_in(word.get_ref()) {
                if self.spec.factor(name).is_none() {
                    let what = format!("`${name}` stands for no factor");
                    return self.wrong(Some(word.span().start), what, &self.known());
                }
            }
        }
        Ok(())
    }

    fn lengths(&self) -> Result<(), SpecError> {
        let Repetitions { min, max, until } = &self.spec.repetitions;
        if *min == 0 || max.is_some_and(|max| max < *min) {
            return self.wrong(
                None,
                "repetitions.min must be from 1 to repetitions.max".into(),
                "write repetitions = { min = 3, max = 6 }",
            );
        }
        if until.is_some() && *min < 2 && self.spec.repetitions.most() > *min {
            return self.wrong(
                None,
                "repetitions.until compares runs: it needs min = 2 or more".into(),
                "raise repetitions.min",
            );
        }
        if self.spec.phases.measure < 0.1 {
            return self.wrong(
                None,
                "phases.measure must be 100 ms or more".into(),
                "write phases.measure = \"10s\"",
            );
        }
        Ok(())
    }

    fn stations(&self) -> Result<(), SpecError> {
        let Stations { servers, middleware, clients } = &self.spec.stations;
        let allowed: [(&str, Option<&StationSpec>, &[Program]); 3] = [
            ("servers", Some(servers), &[Program::Auto, Program::Memcached, Program::Cache, Program::Broker]),
            ("middleware", middleware.as_ref(), &[Program::Proxy]),
            ("clients", Some(clients), &[Program::Load]),
        ];
        for (name, station, programs) in allowed {
            let Some(station) = station else { continue };
            let ways = usize::from(station.program.is_some())
                + usize::from(!station.command.is_empty())
                + usize::from(!station.addresses.is_empty());
            if ways != 1 {
                let what =
                    format!("stations.{name} needs one of program, command and addresses, and has {ways}");
                return self.wrong(None, what, "docs/reference/spec.md says what each is for");
            }
            if station.program.is_some_and(|program| !programs.contains(&program)) {
                let what = format!("stations.{name} cannot be this program");
                return self.wrong(
                    None,
                    what,
                    "servers are memcached, cache or auto, the middleware proxy, the clients load",
                );
            }
            if self.spec.testbed != Testbed::Netns && station.link.is_some() {
                let what = format!("stations.{name} has a link, and no host that we can give one");
                return self.wrong(None, what, "write testbed = \"netns\"");
            }
            if self.spec.testbed != Testbed::Netns && station.delay > 0.0 {
                let what = format!("stations.{name} has a delay, and no host that we can give one");
                return self.wrong(None, what, "write testbed = \"netns\"");
            }
            if station.delay > LONGEST_DELAY {
                let what = format!("stations.{name}.delay is longer than {LONGEST_DELAY} s");
                return self.wrong(
                    None,
                    what,
                    "it is one way, as \"0.3ms\" in one data centre, or \"40ms\" over an ocean",
                );
            }
            self.hosts(name, station)?;
            if self.spec.testbed == Testbed::Netns && !station.addresses.is_empty() {
                let what = format!("stations.{name} runs already, and cannot be reached from a namespace");
                return self.wrong(None, what, "let it be started, or use testbed = \"local\"");
            }
            self.count(name, station)?;
            if station.cpu.is_some_and(|cpu| !(LEAST..=1_024.0).contains(&cpu)) {
                let what = format!("stations.{name}.cpu is no number of processors");
                return self.wrong(None, what, "0.5 is half of one; the least is 0.01");
            }
            if station.cpu.is_some() && !station.addresses.is_empty() {
                let what = format!("stations.{name} runs already, and cannot be limited");
                return self.wrong(None, what, "let it be started, or take its cpu away");
            }
            if let Some(config) = &station.config {
                let told = || station.command.iter().any(|word| word.get_ref().contains("{config}"));
                if name != "middleware" || !(station.program.is_some() || told()) {
                    let what = format!("stations.{name} is not told where its config is");
                    let hint = "a middleware may have one: program = \"proxy\", or a command with {config} in a word";
                    return self.wrong(Some(config.span().start), what, hint);
                }
            }
        }
        if clients.program.is_none() {
            let told = |what: &str| clients.command.iter().any(|word| word.get_ref().contains(what));
            if !told("{seconds}") || !(told("{port}") || told("{servers}")) {
                let what = "stations.clients are not told how long they run, or whom they ask".to_owned();
                let hint = "write program = \"load\", or a command with {seconds}, and {host} and {port}, in its words; {out} is where it writes what \
                            memtier_benchmark would";
                return self.wrong(None, what, hint);
            }
            if self.spec.phases.cool_down > 0.0 {
                let what = "clients by a command cut no cool-down off".to_owned();
                return self.wrong(None, what, "leave cool_down out: what they print is all measured");
            }
        }
        Ok(())
    }
}

impl Check<'_> {
    /// Whether factors have the levels that are named for `what`.
    fn levels(
        &self,
        what: &str,
        at: Option<usize>,
        levels: &BTreeMap<String, LevelName>,
    ) -> Result<(), SpecError> {
        for (name, level) in levels {
            let Some(factor) = self.spec.factor(name) else {
                return self.wrong(at, format!("{what}: there is no factor `{name}`"), &self.known());
            };
            if !factor.levels.iter().any(|other| other.name == *level) {
                let known: Vec<String> = factor.levels.iter().map(|level| level.name.to_string()).collect();
                let what = format!("{what}: the factor `{name}` has no level `{level}`");
                return self.wrong(at, what, &format!("levels are: {}", known.join(", ")));
            }
        }
        Ok(())
    }

    fn anchor(&self) -> Result<(), SpecError> {
        let Some(anchor) = &self.spec.anchor else { return Ok(()) };
        let at = Some(anchor.span().start);
        let Anchor { levels, every, within } = anchor.get_ref();
        self.levels("anchor", at, levels)?;
        let open = |factor: &&Factor| factor.levels.len() > 1 && !levels.contains_key(factor.name.get_ref());
        if let Some(factor) = self.spec.factors.iter().find(open) {
            let what = format!("anchor: the level of `{}` is missing", factor.name.get_ref());
            return self.wrong(at, what, "name a level of each factor that has several");
        }
        if *every == Some(0) || !(*within > 0.0 && *within < 1.0) {
            let what = "anchor: every must be above 0, and within between 0 and 1".into();
            return self.wrong(at, what, "write every = 10 and within = 0.1");
        }
        Ok(())
    }

    fn faults(&self) -> Result<(), SpecError> {
        let measured = self.spec.phases.measure;
        for spanned in &self.spec.faults {
            let (at, fault) = (Some(spanned.span().start), spanned.get_ref());
            self.levels("fault", at, &fault.when)?;
            if fault.at >= measured {
                let what = format!("{fault} comes too late: a trial is measured for {}", duration(measured));
                return self.wrong(at, what, "name an earlier instant, or raise phases.measure");
            }
            let ends = matches!(fault.action, Action::Kill | Action::Restart);
            if ends && matches!(fault.station, FaultTarget::Middleware(_)) {
                let what = format!("{fault}: a middleware that is killed writes no records");
                return self.wrong(at, what, "freeze and thaw it, or do this to a server");
            }
        }
        if self.spec.faults.is_empty() {
            return Ok(());
        }
        for cell in &Plan::of(self.spec).cells {
            if let Err((fault, what)) = fault::course(self.spec, cell) {
                let hint = "stations are named by kind and number, as \"server 2\"; docs/reference/spec.md says what may follow what";
                return self.wrong(Some(fault.span().start), what, hint);
            }
        }
        Ok(())
    }

    fn predictions(&self) -> Result<(), SpecError> {
        let Some(Predictions { workers, cells }) = &self.spec.predictions else { return Ok(()) };
        let at = Some(workers.span().start).filter(|at| *at > 0);
        if self.spec.factor(workers.get_ref()).is_none() {
            let what = format!("predictions.workers: there is no factor `{}`", workers.get_ref());
            return self.wrong(at, what, &self.known());
        }
        if self.spec.stations.middleware.is_none() {
            return self.wrong(
                at,
                "predictions are of a middleware".into(),
                "give the spec one, or take them away",
            );
        }
        if *cells < 3 {
            return self.wrong(
                at,
                format!("predictions.cells is {cells}"),
                "a model is calibrated on three cells or more",
            );
        }
        Ok(())
    }

    /// Machines are named where there are some.
    fn hosts(&self, name: &str, station: &StationSpec) -> Result<(), SpecError> {
        let Spec { testbed, ssh, .. } = self.spec;
        if *testbed != Testbed::Ssh {
            let which = if ssh.is_some() { Some("ssh".to_owned()) } else { None };
            let which = which.or((!station.hosts.is_empty()).then(|| format!("stations.{name}.hosts")));
            return match which {
                None => Ok(()),
                Some(which) => {
                    self.wrong(None, format!("{which} speaks of other machines"), "write testbed = \"ssh\"")
                }
            };
        }
        let inventory = ssh.as_ref().is_some_and(|ssh| ssh.inventory.is_some());
        if station.addresses.is_empty() && station.hosts.is_empty() && !inventory {
            let what = format!("stations.{name} has no hosts");
            return self.wrong(
                None,
                what,
                "write hosts = [\"user@10.0.0.4\"], or give an inventory with a group of the station's name: [ssh] inventory = \"hosts.ini\"",
            );
        }
        if !station.addresses.is_empty() && !station.hosts.is_empty() {
            let what = format!("stations.{name} runs already, and has hosts to be started on");
            return self.wrong(None, what, "take one of both away");
        }
        Ok(())
    }

    fn count(&self, name: &str, station: &StationSpec) -> Result<(), SpecError> {
        let hint = format!("count is from 1 to {MOST}");
        match &station.count {
            Some(StationCount::Number(number)) if !(1..=MOST).contains(number) => {
                self.wrong(None, format!("stations.{name} has too many, or none"), &hint)
            }
            Some(StationCount::Factor(factor)) => {
                let Some(factor) = self.spec.factor(factor) else {
                    let what = format!("stations.{name}.count: `${factor}` stands for no factor");
                    return self.wrong(None, what, &self.known());
                };
                let no_count =
                    |level: &&Level| !level.name.0.parse().is_ok_and(|count| (1..=MOST).contains(&count));
                match factor.levels.iter().find(no_count) {
                    None => Ok(()),
                    Some(level) => {
                        let what = format!("stations.{name} cannot be `{}` many", level.name);
                        self.wrong(Some(factor.name.span().start), what, &hint)
                    }
                }
            }
            _ => Ok(()),
        }
    }
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

    fn wrong(change: &str, to: &str) -> SpecError {
        let source = SMALL.replace(change, to);
        assert_ne!(source, SMALL, "`{change}` is there");
        Spec::parse(&source).expect_err("it is wrong")
    }

    #[test]
    fn what_is_left_out_has_its_usual_value() {
        let spec = Spec::parse(SMALL).unwrap();
        assert_eq!((spec.seed, spec.repetitions.min, spec.repetitions.most(), spec.retries), (1, 3, 3, 2));
        assert_eq!(spec.phases.total(), 12.0);
        assert_eq!(spec.factors[0].levels[1].words, ["2"]);
    }

    #[test]
    fn levels_are_numbers_texts_or_words() {
        let spec =
            Spec::parse(&SMALL.replace("[1, 2]", r#"[4, 0.5, "x", { name = "many", words = ["-a", "b"] }]"#))
                .unwrap();
        let names: Vec<&str> = spec.factors[0].levels.iter().map(|level| level.name.0.as_str()).collect();
        assert_eq!(names, ["4", "0.5", "x", "many"]);
        assert_eq!(spec.factors[0].levels[3].words, ["-a", "b"]);
    }

    #[test]
    fn an_error_names_the_line_and_what_there_is() {
        let error = wrong("$clients", "$client");
        assert_eq!(error.line, Some(4), "the factor is never used: {error}");
        let error = wrong("\"--connections\", ", "\"--workers\", \"$workers\", \"--connections\", ");
        assert_eq!((error.line, error.what.as_str()), (Some(10), "`$workers` stands for no factor"));
        assert_eq!(error.hint, "factors are: clients");
        let error = wrong("program = \"load\"", "program = \"loda\"");
        assert_eq!(error.line, Some(9), "{error}");
        assert!(error.what.contains("loda"), "{error}");
    }

    #[test]
    fn unknown_keys_are_not_passed_over() {
        let error = wrong("title = \"small\"", "title = \"small\"\nrepetition = 3");
        assert_eq!(error.line, Some(3));
        assert!(error.what.contains("repetition"), "{error}");
    }

    #[test]
    fn zips_and_exceptions_name_factors_and_levels_that_there_are() {
        let error = wrong("title = \"small\"", "title = \"small\"\nzip = [[\"clients\", \"threads\"]]");
        assert!(error.what.contains("`threads`") && error.line == Some(3), "{error:?}");
        let error = wrong("title = \"small\"", "title = \"small\"\nexcept = [{ clients = 3 }]");
        assert_eq!((error.line, error.hint.as_str()), (Some(3), "levels are: 1, 2"));
    }

    #[test]
    fn a_count_may_be_a_factor_whose_levels_are_counts() {
        let counted = |levels: &str| {
            let factor = format!(
                "[[factor]]\nname = \"servers\"\nlevels = {levels}\n[stations.servers]\ncount = \"$servers\""
            );
            Spec::parse(&SMALL.replace("[stations.servers]", &factor))
        };
        let spec = counted("[1, 3]").unwrap();
        assert_eq!(spec.stations.servers.count, Some(StationCount::Factor("servers".into())));
        assert_eq!(spec.counts(&spec.stations.servers, 9), [1, 3]);
        let error = counted("[1, \"many\"]").unwrap_err();
        assert!(error.line == Some(7) && error.what.contains("`many`"), "{error}");
        assert!(counted("[0]").is_err());
        let error = wrong("program = \"cache\"", "program = \"cache\"\ncount = \"$server\"");
        assert!(error.what.contains("`$server` stands for no factor"), "{error}");
        let error = wrong("program = \"cache\"", "program = \"cache\"\ncount = \"three\"");
        assert!(error.what.contains("three"), "{error}");
    }

    #[test]
    fn a_configuration_is_for_a_middleware_that_is_told_of_it() {
        let configured = |station: &str| {
            Spec::parse(&SMALL.replace("[stations.clients]", &format!("{station}\n[stations.clients]")))
        };
        let ours = "[stations.middleware]\nprogram = \"proxy\"\nconfig = \"\"\"\nreaders = $clients\n\"\"\"";
        assert!(configured(ours).is_ok());
        let error = configured(&ours.replace("$clients", "$readers")).unwrap_err();
        assert!(error.what.contains("`$readers` stands for no factor") && error.line == Some(10), "{error}");
        let other = "[stations.middleware]\ncommand = [\"nutcracker\"]\nconfig = \"x\"";
        let error = configured(other).unwrap_err();
        assert!(error.what.contains("not told") && error.line == Some(10), "{error}");
        assert!(
            configured(&other.replace("[\"nutcracker\"]", "[\"nutcracker\", \"--conf={config}\"]")).is_ok()
        );
        assert!(configured("config = \"x\"").unwrap_err().what.contains("stations.servers"));
    }

    #[test]
    fn predictions_name_a_factor_and_need_a_middleware() {
        let asked = |table: &str, station: &str| {
            Spec::parse(&SMALL.replace(
                "[stations.clients]",
                &format!("{station}\n[predictions]\n{table}\n[stations.clients]"),
            ))
        };
        let middleware = "[stations.middleware]\nprogram = \"proxy\"\nflags = [\"--workers\", \"$clients\"]";
        assert_eq!(asked("workers = \"clients\"", middleware).unwrap().predictions.unwrap().cells, 5);
        let error = asked("", middleware).unwrap_err();
        assert!(
            error.what.contains("no factor `workers`") && error.hint == "factors are: clients",
            "{error}"
        );
        assert!(
            asked("workers = \"clients\"\ncells = 2", middleware).unwrap_err().what.contains("cells is 2")
        );
        assert!(asked("workers = \"clients\"", "").unwrap_err().what.contains("of a middleware"));
    }

    #[test]
    fn a_base_names_levels_that_there_are() {
        let based = |base: &str| Spec::parse(&SMALL.replace("title =", &format!("base = {base}\ntitle =")));
        assert_eq!(based("{ clients = 2 }").unwrap().base.unwrap().get_ref().len(), 1);
        assert!(
            based("{ clients = 3 }")
                .unwrap_err()
                .what
                .contains("base: the factor `clients` has no level `3`")
        );
        assert!(based("{ nobody = 3 }").unwrap_err().what.contains("base: there is no factor `nobody`"));
    }

    #[test]
    fn an_anchor_is_one_cell() {
        let anchored =
            |anchor: &str| Spec::parse(&SMALL.replace("title =", &format!("anchor = {anchor}\ntitle =")));
        let spec = anchored("{ levels = { clients = 2 }, every = 5 }").unwrap();
        assert_eq!(spec.anchor.unwrap().get_ref().within, 0.1);
        for (anchor, what) in [
            ("{ levels = {} }", "`clients` is missing"),
            ("{ levels = { clients = 3 } }", "no level `3`"),
            ("{ levels = { client = 2 } }", "no factor `client`"),
            ("{ levels = { clients = 2 }, every = 0 }", "above 0"),
        ] {
            let error = anchored(anchor).unwrap_err();
            assert!(error.what.contains(what) && error.line == Some(2), "{error}");
        }
    }

    #[test]
    fn a_delay_is_a_time_of_a_host_that_has_one() {
        let delayed = |delay: &str, testbed: &str| {
            let source = SMALL.replace("program = \"load\"", &format!("program = \"load\"\ndelay = {delay}"));
            Spec::parse(&format!("testbed = \"{testbed}\"\n{source}"))
        };
        assert_eq!(delayed("\"0.5ms\"", "netns").unwrap().stations.clients.delay, 0.0005);
        let what = |delay: &str, testbed: &str| delayed(delay, testbed).unwrap_err().what;
        assert!(what("\"1ms\"", "local").contains("stations.clients has a delay, and no host"));
        assert!(what("\"6s\"", "netns").contains("stations.clients.delay is longer than 5 s"));
        assert!(what("\"-1s\"", "netns").contains("delay") || what("-1", "netns").contains("not from 0"));
    }

    #[test]
    fn a_share_of_the_processors_is_a_number_that_the_kernel_takes() {
        let capped = |cpu: &str| {
            Spec::parse(&SMALL.replace("program = \"load\"", &format!("program = \"load\"\ncpu = {cpu}")))
        };
        assert_eq!(capped("0.32").unwrap().stations.clients.cpu, Some(0.32));
        for wrong in ["0.001", "-1", "0", "1e9"] {
            assert!(capped(wrong).unwrap_err().what.contains("stations.clients.cpu"), "{wrong}");
        }
    }
}
