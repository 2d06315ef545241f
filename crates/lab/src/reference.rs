//! Every key of a spec as a page, from the rows that read it.

use krarup_settings::key_tables;

use crate::shipped;
use crate::spec::Spec;

const GATES: &[[&str; 2]] = &[
    [
        "interactive_law within 5 %",
        "X·(R + Z) is that near to N: the clients were all there; not looked at where any of them send at a rate or by a trace",
    ],
    ["errors == 0", "no request of any client failed; not of clients by a command, which report none"],
    ["misses == 0", "every key was found, by all clients"],
    [
        "generator_cpu < 80 %",
        "no thread of a load generator ran more than that share of its time, or of what `cpu` gives it of that; a command's, on average",
    ],
    [
        "foreign_cpu < 10 %",
        "on each machine programs that are no stations took less than that share of all processors",
    ],
    ["steal < 1 %", "each machine's host took less than that share of its processors"],
];

/// The page.
pub fn reference() -> String {
    let mut page = String::from(
        "# The spec of an experiment\n\n\
         <!-- Generated: UPDATE=1 cargo test -p krarup-lab reference -->\n\n\
         A TOML file that says what is varied, what runs, how long and how often. `krarup plan SPEC` shows what it means, `krarup run SPEC`\n\
         carries it out, `krarup report DIR` writes the report anew. Every mistake is named with its line; keys that are not listed here are\n\
         mistakes, too. [Machines of your own](../guide/machines.md) have a guide, and [pods](../guide/kubernetes.md#an-experiment-in-pods).\n",
    );
    let mut tables = Vec::new();
    key_tables::<Spec>("", &mut tables);
    for table in tables {
        let names: Vec<_> = table.names.iter().map(|name| format!("`{name}`")).collect();
        let title = if table.names == [""] { "The whole".to_owned() } else { names.join(", ") };
        page += &format!("\n## {title}\n\n{}", table.markdown);
    }
    page += "\n## Gates\n\nA name, `<`, `<=`, `==` or `within`, and a limit: of a share in %, of a count without.\n\n| gate | a trial passes when |\n|---|---|\n";
    for [gate, meaning] in GATES {
        page += &format!("| `{gate}` | {meaning} |\n");
    }
    let demo = shipped::spec("demo").expect("it is shipped");
    page += &format!("\n## An example\n\n`krarup run demo` is this spec:\n\n```toml\n{demo}```\n");
    let names: Vec<String> = shipped::SPECS.iter().map(|(name, _)| format!("`{name}`")).collect();
    page + &format!("\nSpecs that come with the program: {}.\n", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;

    #[test]
    fn the_gates_that_the_page_lists_are_gates() {
        for [gate, _] in GATES {
            assert!(gate.parse::<Gate>().is_ok(), "{gate}");
        }
    }

    #[test]
    fn the_reference_is_what_the_tables_say() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/spec.md");
        if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
            std::fs::write(path, reference()).unwrap();
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == reference(), "docs/reference/spec.md is not what the tables say: run with UPDATE=1");
    }
}
