//! Course pages: what a reader writes down first is what the sheets of the specs ask.

use std::fs;
use std::path::{Path, PathBuf};

use krarup_lab::guesses::form;
use krarup_lab::shipped;
use krarup_lab::spec::Spec;
use krarup_model::sheet::SheetInputs;

/// Pages whose guesses are no numbers: models are computed anew there, and nothing is measured.
const WITHOUT: [&str; 1] = ["2018-7-models.md"];

fn pages() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/course");
    let mut pages: Vec<PathBuf> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a page").path()).collect();
    pages.retain(|page| page.file_name().is_some_and(|name| name != "README.md"));
    pages.sort();
    pages
}

/// The specs that a page runs with their sheets.
fn specs(page: &str) -> Vec<&str> {
    let runs = page.lines().filter_map(|line| line.strip_prefix("krarup run "));
    runs.filter(|words| words.ends_with("--sheet")).filter_map(|words| words.split(' ').next()).collect()
}

/// The questions of these specs, for a page.
fn questions(specs: &[&str]) -> String {
    let mut text = String::new();
    for name in specs {
        let spec = Spec::parse(shipped::spec(name).expect("it is shipped"), name).expect("it is read");
        let questions = spec.questions();
        assert!(!questions.is_empty(), "{name} has no sheet");
        for question in questions {
            let place = if specs.len() > 1 { format!("{name}, ") } else { String::new() };
            text += &format!("- `{}` ({place}{}): {}\n", question.id, form(question.unit()), question.ask);
        }
    }
    text
}

const BEGIN: &str =
    "<!-- From the sheets of the specs: UPDATE=1 cargo test -p krarup-lab --test course -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn what_is_written_down_first_is_what_the_sheets_ask() {
    for path in pages() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let page = fs::read_to_string(&path).unwrap();
        let specs = specs(&page);
        if WITHOUT.contains(&name.as_str()) {
            assert!(specs.is_empty() && !page.contains("**Write down first.**"), "{name}");
            continue;
        }
        let runs = page.lines().filter(|line| line.starts_with("krarup run "));
        assert!(runs.count() == specs.len() && !specs.is_empty(), "{name} runs a spec without its sheet");
        let (_, written) =
            page.split_once("**Write down first.**").unwrap_or_else(|| panic!("{name}: what first?"));
        let (before, rest) =
            written.split_once(BEGIN).unwrap_or_else(|| panic!("{name} has no mark of its sheet"));
        assert!(before.len() < 1_000, "{name}: the questions stand under \"Write down first\"");
        let (there, _) = rest.split_once(END).unwrap_or_else(|| panic!("{name}: the sheet has no end"));
        let wanted = questions(&specs);
        if there != wanted && std::env::var("UPDATE").is_ok_and(|value| value == "1") {
            let new = page.replace(&format!("{BEGIN}{there}{END}"), &format!("{BEGIN}{wanted}{END}"));
            fs::write(&path, new).unwrap();
            continue;
        }
        assert!(there == wanted, "{name} does not ask what the sheets ask: run with UPDATE=1");
    }
}

/// Every sheet that comes with the program is on a page.
#[test]
fn every_shipped_sheet_is_on_a_course_page() {
    let pages: Vec<String> = pages().iter().map(|page| fs::read_to_string(page).unwrap()).collect();
    let asked: Vec<&str> = pages.iter().flat_map(|page| specs(page)).collect();
    for (name, text) in shipped::SPECS {
        let has_sheet = !Spec::parse(text, name).unwrap().sheet.is_empty();
        assert_eq!(has_sheet, asked.contains(name), "{name}");
    }
}

/// A question tells all that its answer takes: none waits for what is measured later.
#[test]
fn every_shipped_question_can_be_computed_beforehand() {
    let known = SheetInputs { clients: Some(192.0), ..SheetInputs::default() };
    for (name, text) in shipped::SPECS {
        for question in Spec::parse(text, name).unwrap().questions() {
            assert!(question.law.figure(known).is_some(), "{name}: {}", question.id);
        }
    }
}
