//! Claims of published documents beside ours: the verdict follows from figures by one rule.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::formula;

/// What such a file's name ends with.
pub(super) const ENDING: &str = "-claims.csv";

/// Every verdict that there is, in the order of the tables.
const VERDICTS: [&str; 4] = ["confirmed", "refuted", "not decidable", "not run"];

/// Where our figure comes from.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Basis {
    /// A run with nothing else on the machine, or of a limit that is a link's.
    Quiet,
    /// A run beside other programs: it may confirm, but it cannot refute.
    Disturbed,
    /// Computed from what the document itself prints.
    Recomputed,
    /// A run in which processors or delays decide that are not those of the published machines.
    Processors,
    /// A run or a model into which the published figure went.
    Input,
    /// What has no counterpart here, as threads of the published program.
    Other,
    /// No run, or none that tells this figure.
    None,
}

impl Basis {
    /// What stands behind a figure that is not from a quiet run.
    fn shown(self) -> &'static str {
        match self {
            Self::Quiet | Self::None => "",
            Self::Disturbed => ", disturbed",
            Self::Recomputed => ", recomputed",
            Self::Processors => ", other processors",
            Self::Input => ", an input",
            Self::Other => ", another system",
        }
    }
}

/// One claim. Figures are kept as written, so that pages show the digits of the file.
#[derive(Debug, Deserialize)]
struct Claim {
    section: String,
    claim: String,
    unit: String,
    /// What was published: both ends are one figure where they are equal, and a bound where one is
    /// missing.
    low: String,
    high: String,
    /// Ours with its interval of 95 %.
    ours: String,
    ours_low: String,
    ours_high: String,
    /// How much of the published figure ours may differ, in percent.
    within: f64,
    basis: Basis,
    verdict: String,
    why: String,
    /// The page that has our figure, from the folder of the file; several are parted by blanks.
    page: String,
    /// What that page says, word by word; several are parted by ` … `.
    quote: String,
    /// How ours follows from that, where it is not there as it is.
    formula: String,
    /// The command that decides what is not, or what there is no command for.
    decides: String,
}

/// A figure of a file, if there is one.
fn number(text: &str) -> Option<f64> {
    (!text.is_empty()).then(|| text.parse().unwrap_or_else(|_| panic!("`{text}` is not a number")))
}

fn read(file: &Path) -> Vec<Claim> {
    let mut reader = csv::Reader::from_path(file).expect("it can be read");
    let claims = reader.deserialize().collect::<Result<Vec<Claim>, csv::Error>>();
    claims.unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// Whether ours is what was published, give or take `within` percent of it. Ours has to lie inside
/// as a whole to confirm, and outside as a whole to refute; a disturbed run does not refute.
fn verdict(
    basis: Basis,
    published: (Option<f64>, Option<f64>),
    ours: Option<(f64, f64)>,
    within: f64,
) -> &'static str {
    let [confirmed, refuted, not_decidable, not_run] = VERDICTS;
    let Some((least, most)) = ours else {
        return if basis == Basis::None { not_run } else { not_decidable };
    };
    if matches!(basis, Basis::Processors | Basis::Input | Basis::Other | Basis::None) {
        return not_decidable;
    }
    let slack = |end: f64| end.abs() * within / 100.0;
    let low = published.0.map_or(f64::NEG_INFINITY, |end| end - slack(end));
    let high = published.1.map_or(f64::INFINITY, |end| end + slack(end));
    if low <= least && most <= high {
        confirmed
    } else if (most < low || high < least) && basis != Basis::Disturbed {
        refuted
    } else {
        not_decidable
    }
}

impl Claim {
    fn interval(&self) -> Option<(f64, f64)> {
        number(&self.ours_low).zip(number(&self.ours_high))
    }

    fn found(&self) -> &'static str {
        verdict(self.basis, (number(&self.low), number(&self.high)), self.interval(), self.within)
    }

    /// The first thing that is wrong with it.
    fn check(&self, folder: &Path) -> Result<(), String> {
        let found = self.found();
        if self.verdict != found {
            return Err(format!("`{}` is written, the figures say `{found}`", self.verdict));
        }
        let undecided = found == VERDICTS[2] || found == VERDICTS[3];
        if undecided && self.decides.is_empty() && self.basis != Basis::Other {
            return Err("nothing is named that would decide it".into());
        }
        let spec = self.decides.strip_prefix("krarup run ").filter(|spec| spec.starts_with("asl"));
        let file = |spec: &str| format!("../../crates/lab/specs/{}.toml", spec.replace('/', "-"));
        if let Some(spec) = spec.filter(|spec| !folder.join(file(spec)).exists()) {
            return Err(format!("there is no spec {spec}"));
        }
        let Some((least, most)) = self.interval() else {
            let empty =
                [&self.ours, &self.page, &self.quote, &self.formula].iter().all(|text| text.is_empty());
            return empty.then_some(()).ok_or("a figure of ours without an interval".into());
        };
        if self.basis == Basis::None {
            return Err("a figure of ours that was not run".into());
        }
        let shown = number(&self.ours).is_none_or(|ours| least <= ours && ours <= most);
        if !shown || least > most {
            return Err("ours lies outside of its interval".into());
        }
        if number(&self.low).or(number(&self.high)).is_none() {
            return Err("nothing published to compare with".into());
        }
        self.check_quotes(folder)
    }

    /// Ours is what a page of the repository says, or follows from that.
    fn check_quotes(&self, folder: &Path) -> Result<(), String> {
        let mut pages = String::new();
        for page in self.page.split(' ') {
            let path = folder.join(page);
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            pages += &(before_claims(&text) + "\n");
        }
        if let Some(quote) = self.quote.split(" … ").find(|quote| quote.is_empty() || !pages.contains(quote))
        {
            return Err(format!("{} does not say `{quote}`", self.page));
        }
        let ours = if self.ours.is_empty() { &self.ours_high } else { &self.ours };
        let (least, most) = self.interval().expect("it has quotes");
        if self.formula.is_empty() {
            let half = self.half_in_quote().unwrap_or((most - least) / 2.0);
            if (most - least - 2.0 * half).abs() > 1e-6 {
                return Err(format!("the quote says ± {half}"));
            }
            let exact = ours == "0" && self.quote.contains("| none |");
            return (exact || self.quotes(ours)).then_some(()).ok_or(format!("`{ours}` is not in the quote"));
        }
        let (value, numbers) = formula::value(&self.formula)?;
        if let Some(number) = numbers.iter().find(|number| !is_count(number) && !self.quotes(number)) {
            return Err(format!("`{number}` of the formula is not in the quote"));
        }
        let digits = ours.split('.').nth(1).map_or(0, str::len);
        let half = 0.5 * 0.1f64.powi(digits as i32) + 1e-9;
        let right = match number(&self.ours) {
            Some(ours) => (ours - value).abs() <= half,
            None => least - half <= value && value <= most + half,
        };
        right.then_some(()).ok_or(format!("the formula says {value}"))
    }

    /// Half of the interval, where the quote has ours as `2,915 ± 10`.
    fn half_in_quote(&self) -> Option<f64> {
        let (_, rest) = self.quote.split_once(&format!("{} ± ", grouped(&self.ours)))?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && !",.".contains(letter));
        number(&rest[..end.unwrap_or(rest.len())].trim_end_matches('.').replace(',', ""))
    }

    fn quotes(&self, number: &str) -> bool {
        self.quote.contains(number) || self.quote.contains(&grouped(number))
    }

    fn shown(&self, own: &str) -> String {
        let unit = if self.unit.is_empty() || self.unit == "/s" {
            self.unit.clone()
        } else {
            format!(" {}", self.unit)
        };
        let published = match (self.low.as_str(), self.high.as_str()) {
            ("", "") => String::new(),
            (low, "") => format!("at least {}{unit}", grouped(low)),
            ("", high) => format!("at most {}{unit}", grouped(high)),
            (low, high) if low == high => format!("{}{unit}", grouped(low)),
            (low, high) => format!("{} to {}{unit}", grouped(low), grouped(high)),
        };
        let ends = || format!("{} to {}", grouped(&self.ours_low), grouped(&self.ours_high));
        let from = self.basis.shown();
        let ours = match (self.ours.as_str(), self.interval()) {
            (_, None) => String::new(),
            ("", _) => format!("{}{unit}{from}", ends()),
            (ours, _) if self.ours_low == self.ours_high => format!("{}{unit}{from}", grouped(ours)),
            (ours, _) => format!("{}{unit} ({}){from}", grouped(ours), ends()),
        };
        let within = if self.interval().is_none() || published.is_empty() {
            String::new()
        } else {
            format!("{} %", self.within)
        };
        format!(
            "| {} | {} | {published} | {within} | {ours} | {} | {} |\n",
            self.section,
            self.claim,
            self.verdict,
            self.reason(own)
        )
    }

    /// Why, with links to the page of our figure and to the list of errors, and what would decide.
    fn reason(&self, own: &str) -> String {
        let mut reason: Vec<String> = self.why.split(' ').map(linked).collect();
        for page in self.page.split(' ').filter(|page| !page.is_empty() && *page != own) {
            reason.push(format!("([figures]({page}))"));
        }
        let decides = match self.decides.as_str() {
            "" => String::new(),
            command if is_command(command) => format!("; `{command}` decides"),
            other => format!("; {other} decides"),
        };
        reason.join(" ") + &decides
    }
}

/// `E4` as a link to the list of errors.
fn linked(word: &str) -> String {
    let name = word.trim_matches(|letter: char| !letter.is_alphanumeric());
    if error(name).is_none() {
        return word.to_owned();
    }
    word.replace(name, &format!("[{name}](../published-tables.md#numbers-that-are-wrong-in-print)"))
}

/// The number of an error of the list.
fn error(name: &str) -> Option<u32> {
    name.strip_prefix('E').and_then(|number| number.parse().ok())
}

fn is_command(text: &str) -> bool {
    ["krarup ", "bench/"].iter().any(|start| text.starts_with(start))
}

/// A number of clients, keys or workers, a percent or a thousandth: it needs no page.
fn is_count(number: &str) -> bool {
    number.parse().is_ok_and(|count: u32| count <= 400 || count == 1000)
}

/// Thousands by commas: 2937.75 is 2,937.75.
fn grouped(number: &str) -> String {
    let (sign, digits) = number.strip_prefix('-').map_or(("", number), |rest| ("−", rest));
    let (whole, rest) = digits.find('.').map_or((digits, ""), |point| digits.split_at(point));
    if !whole.bytes().all(|digit| digit.is_ascii_digit()) {
        return number.to_owned();
    }
    let mut out = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    format!("{sign}{out}{rest}")
}

/// A page without the tables that are made from claims, which would quote themselves.
fn before_claims(page: &str) -> String {
    let mut inside = false;
    let kept = page.lines().filter(|line| {
        let marked = line.starts_with(super::TABLE) && line.contains(ENDING);
        inside = marked || inside && (line.is_empty() || line.starts_with('|'));
        !inside
    });
    kept.collect::<Vec<_>>().join("\n")
}

pub(super) fn table(file: &Path) -> String {
    let own = file.file_name().expect("it has a name").to_str().expect("it is text");
    let own = own.replace(ENDING, ".md");
    let head =
        "| section | claim | published | within | ours | verdict | why |\n|---|---|---:|---:|---:|---|---|\n";
    head.to_owned() + &read(file).iter().map(|claim| claim.shown(&own)).collect::<String>()
}

/// How many are confirmed by runs and by the document's own figures, how many refuted by either,
/// and how many are open.
fn counts_of(claims: &[Claim]) -> [usize; 6] {
    let of = |verdict: &str, so: fn(Basis) -> bool| {
        claims.iter().filter(|claim| claim.verdict == verdict && so(claim.basis)).count()
    };
    let [confirmed, refuted, not_decidable, not_run] = VERDICTS;
    let runs = |basis: Basis| basis != Basis::Recomputed;
    let printed = |basis: Basis| basis == Basis::Recomputed;
    [
        of(confirmed, runs),
        of(confirmed, printed),
        of(refuted, runs),
        of(refuted, printed),
        of(not_decidable, |_| true),
        of(not_run, |_| true),
    ]
}

/// The counts of verdicts, a line for each file.
pub(super) fn counts(files: &[PathBuf]) -> String {
    let mut out = String::from(
        "| document | claims | confirmed by our runs | by its own figures | refuted by our runs | by its own figures | not decidable | not run |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for file in files {
        let claims = read(file);
        let page = file.file_name().expect("it has a name").to_str().expect("it is text").replace(ENDING, "");
        let counts = counts_of(&claims).map(|count| count.to_string()).join(" | ");
        out += &format!("| [{}]({page}.md) | {} | {counts} |\n", page.replace('-', " "), claims.len());
    }
    out
}

/// Every file of claims, with its folder.
fn all() -> Vec<(PathBuf, Vec<Claim>)> {
    let files = super::files("csv").into_iter().filter(|file| file.to_string_lossy().ends_with(ENDING));
    files.map(|file| (file.clone(), read(&file))).collect()
}

#[test]
fn each_verdict_follows_from_the_figures_and_each_figure_is_in_its_page() {
    let mut wrong = Vec::new();
    let all = all();
    for (file, claims) in &all {
        let folder = file.parent().expect("a file has a folder");
        for claim in claims {
            if let Err(why) = claim.check(folder) {
                wrong.push(format!("{}, {}, `{}`: {why}", file.display(), claim.section, claim.claim));
            }
        }
    }
    assert!(all.len() >= 5, "five documents");
    assert!(wrong.is_empty(), "{} claims: {wrong:#?}", wrong.len());
}

#[test]
fn each_error_of_the_documents_is_linked_from_the_claims_that_it_touches() {
    let list = super::folder("published-tables.md");
    let list = fs::read_to_string(list).expect("it is there");
    let known: Vec<u32> =
        list.lines().filter_map(|line| error(line.strip_prefix("| ")?.split(' ').next()?)).collect();
    assert!(known.len() >= 15, "{known:?}");
    let all = all();
    let named: Vec<u32> = all
        .iter()
        .flat_map(|(_, claims)| claims)
        .flat_map(|claim| claim.why.split(|letter: char| !letter.is_alphanumeric()))
        .filter_map(error)
        .collect();
    let without: Vec<&u32> = known.iter().filter(|number| !named.contains(number)).collect();
    assert!(without.is_empty(), "no claim names E{without:?}");
    let unknown: Vec<&u32> = named.iter().filter(|number| !known.contains(number)).collect();
    assert!(unknown.is_empty(), "the list has no E{unknown:?}");
}

#[test]
fn ours_confirms_as_a_whole_refutes_as_a_whole_and_otherwise_leaves_it_open() {
    let of = |basis, low, high| verdict(basis, (Some(100.0), Some(100.0)), Some((low, high)), 5.0);
    assert_eq!(of(Basis::Quiet, 96.0, 104.0), "confirmed");
    assert_eq!(of(Basis::Quiet, 80.0, 94.0), "refuted");
    assert_eq!(of(Basis::Quiet, 94.0, 99.0), "not decidable");
    assert_eq!(of(Basis::Quiet, 20.0, 180.0), "not decidable");
    assert_eq!(of(Basis::Recomputed, 106.0, 106.0), "refuted");
}

#[test]
fn a_disturbed_run_may_confirm_but_not_refute() {
    let of = |low, high| verdict(Basis::Disturbed, (Some(100.0), Some(100.0)), Some((low, high)), 5.0);
    assert_eq!(of(99.0, 101.0), "confirmed");
    assert_eq!(of(50.0, 60.0), "not decidable");
}

#[test]
fn other_processors_and_inputs_decide_nothing() {
    for basis in [Basis::Processors, Basis::Input, Basis::Other] {
        assert_eq!(verdict(basis, (Some(1.0), Some(1.0)), Some((1.0, 1.0)), 5.0), "not decidable");
    }
    assert_eq!(verdict(Basis::None, (Some(1.0), None), None, 5.0), "not run");
    assert_eq!(verdict(Basis::Other, (None, None), None, 5.0), "not decidable");
}

#[test]
fn a_bound_has_one_end_and_slack_goes_outwards_on_both_sides_of_zero() {
    assert_eq!(verdict(Basis::Quiet, (Some(1.0), None), Some((7.0, 9.0)), 5.0), "confirmed");
    assert_eq!(verdict(Basis::Quiet, (None, Some(1.0)), Some((7.0, 9.0)), 5.0), "refuted");
    assert_eq!(verdict(Basis::Quiet, (Some(-20.0), Some(-20.0)), Some((-20.9, -19.1)), 5.0), "confirmed");
}

#[test]
fn what_a_page_says_of_claims_is_no_source_of_claims() {
    let page = format!("First.\n\n{}x{ENDING} -->\n\n| a |\n| 0 |\n\nLast.\n", super::TABLE);
    assert_eq!(before_claims(&page), "First.\n\nLast.");
}

#[test]
fn figures_are_shown_with_thousands_parted_and_errors_as_links() {
    assert_eq!(grouped("2937.75"), "2,937.75");
    assert_eq!(grouped("-574"), "−574");
    assert_eq!(grouped("1234567"), "1,234,567");
    assert_eq!(grouped("2.25e7"), "2.25e7");
    assert_eq!(linked("(E4)"), "([E4](../published-tables.md#numbers-that-are-wrong-in-print))");
    assert_eq!(linked("Erlang"), "Erlang");
}
