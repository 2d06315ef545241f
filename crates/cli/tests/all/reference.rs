//! The reference pages say what the program says: they are printed by it. `UPDATE=1` rewrites them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use krarup_record::quantities::QUANTITIES;

fn krarup(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_krarup")).args(words).output().expect("krarup runs");
    assert!(output.status.success(), "krarup {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("help is text")
}

fn equals_page(name: &str, text: &str) {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&page, text).expect("the page can be written");
    }
    let there = fs::read_to_string(&page).unwrap_or_default();
    assert!(there == text, "docs/reference/{name} is not what the program says; `make docs` rewrites it");
}

/// The names of a command's subcommands, from the program's own list of them; none: it has none.
fn subcommands(of: &[&str]) -> Vec<String> {
    let help = krarup(&[of, &["--help"]].concat());
    let Some(list) = help.split("Commands:\n").nth(1) else { return Vec::new() };
    let words = list.lines().take_while(|line| line.starts_with("  "));
    words
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .filter(|name| name != "help")
        .collect()
}

#[test]
fn the_reference_of_commands_is_what_help_prints() {
    let mut page = String::from(
        "# Commands\n\nWhat `--help` of each command prints. Man pages: `krarup man DIR`; completions: \
         `krarup completions SHELL`.\n",
    );
    let mut section = |title: &str, words: &[&str]| {
        page.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", krarup(words).trim_end()));
    };
    section("krarup", &["--help"]);
    let commands = subcommands(&[]);
    assert!(commands.iter().any(|name| name == "proxy"), "{commands:?}");
    for name in &commands {
        section(&format!("krarup {name}"), &[name, "--help"]);
        for part in subcommands(&[name]) {
            section(&format!("krarup {name} {part}"), &[name, &part, "--help"]);
        }
    }
    equals_page("commands.md", &page);
}

#[test]
fn the_reference_of_the_proxys_configuration_is_what_it_prints() {
    let text = krarup(&["proxy", "--servers", "127.0.0.1:11212,127.0.0.1:11213", "--print-config"]);
    equals_page("proxy.toml", &text);
}

#[test]
fn the_reference_of_the_load_generators_configuration_is_what_it_prints() {
    equals_page("load.toml", &krarup(&["load", "--print-config"]));
}

/// Reports, models and the glossary have one table of quantities.
#[test]
fn the_glossary_has_the_table_of_quantities() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/glossary.md");
    let page = fs::read_to_string(path).expect("it is there");
    let (before, rest) = page.split_once(" reference:: -->\n").expect("the table begins");
    let (_, after) = rest.split_once("<!-- end of").expect("the table ends");
    let mut table =
        String::from("| term | symbol, formula | unit | meaning | where |\n|---|---|---|---|---|\n");
    for quantity in QUANTITIES {
        let (name, symbol, unit, text) =
            (quantity.name, quantity.symbol, quantity.unit.base(), quantity.text);
        let place = match quantity.field {
            "" => "reports, models".to_owned(),
            field => format!("`{field}` in [records](records.md)"),
        };
        table.push_str(&format!("| {name} | {symbol} | {unit} | {text} | {place} |\n"));
    }
    equals_page("glossary.md", &format!("{before} reference:: -->\n{table}<!-- end of{after}"));
}

#[test]
fn man_pages_and_completions_are_made() {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("man-pages");
    krarup(&["man", directory.to_str().expect("a path is text")]);
    let page = fs::read_to_string(directory.join("krarup-proxy.1")).expect("the proxy has a page");
    assert!(page.contains("\\-\\-servers"), "the page names the flags");
    assert!(!page.contains(".SH EXTRA"), "each paragraph below help has its own section");
    for name in ["krarup", "krarup-proxy", "krarup-model", "krarup-model-whatif", "krarup-memtier"] {
        let page = fs::read_to_string(directory.join(format!("{name}.1"))).expect("it has a page");
        assert!(page.contains(".SH EXAMPLES\n") && page.contains(".SH DOCUMENTS\n"), "{name}: {page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(krarup(&["completions", shell]).contains("krarup"));
    }
}
