//! The page that lists what was found, generated from it.

use std::fmt::Write as _;

use super::claims::Figure;
use super::errors::Slip;
use super::tables::Table;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published-tables.md");

pub(crate) fn check(tables: &[Table], errors: &[Slip], claims: &[Figure]) {
    let page = render(tables, errors) + &figures(claims);
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(PATH, &page).expect("docs/ can be written");
    }
    let there = std::fs::read_to_string(PATH).unwrap_or_default();
    assert!(there == page, "docs/published-tables.md is not what the tests find: run with UPDATE=1");
}

fn render(tables: &[Table], errors: &[Slip]) -> String {
    let mut page = String::from(
        "# The published tables, recomputed\n\n\
         <!-- Generated: UPDATE=1 cargo test -p krarup-model --test all published:: -->\n\n\
         Four reports on middlewares of this kind were published from 2015 to 2018, with models worked out by hand, in\n\
         spreadsheets and in GNU Octave. Every model table is recomputed here by the solvers of `krarup model`, from the\n\
         inputs as printed. *Beyond rounding* is the largest relative difference that the rounding of inputs and\n\
         outputs does not explain. The factorial tables (2018, table 11; 2016, tables 5 to 7) are recomputed by the\n\
         statistics crate's tests.\n\n\
         | table | recomputed by | cells | beyond rounding | wrong in print |\n|---|---|---:|---:|---|\n",
    );
    for table in tables {
        let excess =
            if table.excess <= 0.0 { "none".to_owned() } else { format!("{:.2} %", 100.0 * table.excess) };
        writeln!(page, "| {} | {} | {} | {excess} | {} |", table.name, table.by, table.cells, table.wrong)
            .expect("a string takes all text");
    }
    page.push_str(
        "\n## Numbers that are wrong in print\n\n\
         Each right value is computed by the test that wrote this page.\n\n\
         | | where | printed | right | why |\n|---|---|---|---|---|\n",
    );
    for error in errors {
        writeln!(
            page,
            "| {} | {} | {} | {} | {} |",
            error.id, error.place, error.printed, error.right, error.why
        )
        .expect("a string takes all text");
    }
    page.push_str(
        "\nHow such slips are caught before they are printed: [`krarup model calibrate`](concepts/queueing.md#measurements-first)\n\
         checks Little's law, the interactive law and the order of response times on every row (E4, E7, E8, E11, E12), carries\n\
         unrounded inputs (E3, E6), and refuses a conclusion where the interval of ρ covers 1 (E10, E13).\n",
    );
    page
}

/// What the reports' own figures say of what their texts claim.
fn figures(claims: &[Figure]) -> String {
    let mut page = String::from(
        "\n## What the printed figures say of claims\n\n\
         Ratios, shares and errors of models, computed from the tables as printed (of several figures the least and the\n\
         largest). The tables of claims in the [reproductions](reproductions/README.md) quote them.\n\n\
         | report | figure, by section | |\n|---|---|---:|\n",
    );
    for figure in claims {
        writeln!(page, "| {} | {} | {} |", figure.of, figure.what, figure.shown())
            .expect("a string takes all text");
    }
    page
}
