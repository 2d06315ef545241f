//! Man pages in the sections that their readers know: what help says, as one page for each command.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// The pages of a command and of all within it that help lists, each with the name of its file.
pub(crate) fn pages(krarup: Command) -> Vec<(String, String)> {
    let mut krarup = krarup.disable_help_subcommand(true);
    krarup.build();
    let mut pages = Vec::new();
    add(&krarup, &mut pages);
    pages
}

fn add(command: &Command, pages: &mut Vec<(String, String)>) {
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add(command, pages);
    }
    pages.push((Man::new(command.clone()).get_filename(), page(command)));
}

/// A page: name, synopsis, description, arguments, options under their headings, commands, then
/// what stands below help in sections of its own.
fn page(command: &Command) -> String {
    let hidden = |positional: bool| {
        Man::new(command.clone().mut_args(|arg| {
            let hides = arg.is_positional() == positional;
            if hides { arg.hide(true) } else { arg }
        }))
    };
    let man = Man::new(command.clone()).source(concat!("krarup ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    let mut arguments = Vec::new();
    man.render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| synopsis(command).to_writer(&mut text))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| hidden(false).render_options_section(&mut arguments))
        .expect("memory takes all bytes");
    text.extend(String::from_utf8_lossy(&arguments).replacen(".SH OPTIONS", ".SH ARGUMENTS", 1).bytes());
    hidden(true).render_options_section(&mut text).expect("memory takes all bytes");
    if command.get_subcommands().any(|command| !command.is_hide_set()) {
        man.render_subcommands_section(&mut text).expect("memory takes all bytes");
    }
    let below = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    below_help(&below).to_writer(&mut text).expect("memory takes all bytes");
    String::from_utf8_lossy(&text).into_owned()
}

/// How the command is called, in one line as in help; its options stand below with their values.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim().to_owned();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    for (number, line) in usage.lines().enumerate() {
        if number > 0 {
            roff.control("br", []);
        }
        match line.trim().strip_prefix(name) {
            Some(rest) => roff.text([bold(name), roman(rest)]),
            None => roff.text([roman(line.trim())]),
        };
    }
    roff
}

/// The paragraphs below help: examples, exit codes and documents, each under its heading.
fn below_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    for paragraph in text.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
        let (title, rest) = paragraph.split_once(':').unwrap_or(("Notes", paragraph));
        let heading = match title {
            "Example" | "Examples" => "EXAMPLES",
            "Exit codes" => "EXIT STATUS",
            "Documents" => "DOCUMENTS",
            _ => "NOTES",
        };
        roff.control("SH", [heading]);
        if heading == "EXAMPLES" {
            // Their lines are commands, which a page does not fill.
            roff.control("nf", []);
            rest.lines().skip(1).for_each(|line| {
                roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
            });
            roff.control("fi", []);
        } else {
            roff.text([roman(rest.trim())]);
        }
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_section_for_each_kind_of_thing() {
        let arg = |name: &'static str| clap::Arg::new(name);
        let command = Command::new("tool")
            .about("Do it")
            .arg(arg("FILE").help("What is read"))
            .arg(arg("rate").long("rate").value_name("RATE").help("How much"))
            .after_help("Examples:\n  tool a \\\n      --rate 1\n\nDocuments: docs/tool.md");
        let pages = pages(command);
        let [(name, page)] = &pages[..] else { panic!("{pages:?}") };
        assert_eq!(name, "tool.1");
        let sections: Vec<_> = page.lines().filter_map(|line| line.strip_prefix(".SH ")).collect();
        let wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", "ARGUMENTS", "OPTIONS", "EXAMPLES", "DOCUMENTS"];
        assert_eq!(sections, wanted);
        let section = |name: &str| page.split(&format!(".SH {name}\n")).nth(1).unwrap();
        let section = |name: &str| section(name).split(".SH").next().unwrap().to_owned();
        assert!(section("SYNOPSIS").contains("[OPTIONS] [FILE]"), "{page}");
        assert!(section("ARGUMENTS").contains("FILE") && !section("OPTIONS").contains("FILE"), "{page}");
        assert!(section("OPTIONS").contains("<RATE>") && !section("ARGUMENTS").contains("rate"), "{page}");
        assert_eq!(section("EXAMPLES"), ".nf\ntool a \\\\\n    \\-\\-rate 1\n.fi\n", "{page}");
    }
}
