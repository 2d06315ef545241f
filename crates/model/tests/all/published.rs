//! Every model table of the published reports, recomputed to its printed digits; and the printed
//! numbers that are wrong.
//!
//! Inputs are printed rounded, so each recomputed number is an interval: what the inputs can have
//! been. A printed number agrees when its own rounding overlaps that. `UPDATE=1` rewrites
//! `docs/published-tables.md`; without it the page must be what the tests find.

mod claims;
mod errors;
mod page;
mod tables;

#[test]
fn the_interactive_law_of_2018_is_reproduced() {
    tables::t7_of_2018().assert();
}

#[test]
fn mm1_of_2018_is_reproduced() {
    tables::t12_of_2018().assert();
}

#[test]
fn mmm_of_2018_is_reproduced() {
    tables::t13_of_2018().assert();
}

#[test]
fn mean_value_analysis_of_2018_is_reproduced() {
    tables::t14_of_2018().assert();
}

#[test]
fn mm1_of_2016_is_reproduced() {
    tables::t1_of_2016().assert();
}

#[test]
fn mmm_of_2016_is_reproduced() {
    tables::t2_of_2016().assert();
}

#[test]
fn devices_of_2016_are_reproduced() {
    tables::t3_of_2016().assert();
}

#[test]
fn mean_value_analysis_of_2016_is_reproduced() {
    tables::t4_of_2016().assert();
}

#[test]
fn the_interactive_law_of_2016_is_reproduced() {
    tables::interactive_law_of_2016().assert();
}

#[test]
fn utilizations_of_2015_are_reproduced() {
    tables::utilizations_of_2015().assert();
}

#[test]
fn the_response_of_2015_is_the_interactive_law() {
    tables::t5_of_2015().assert();
}

#[test]
fn the_interactive_law_of_2015_is_reproduced() {
    tables::interactive_law_of_2015().assert();
}

#[test]
fn the_fifteen_wrong_numbers_have_their_right_values() {
    let errors = errors::all();
    assert_eq!(errors.len(), 15);
    for error in &errors {
        assert!(error.proof.iter().all(errors::Proof::holds), "{}: {:?}", error.id, error.proof);
    }
}

#[test]
fn the_page_is_what_the_tests_find() {
    page::check(&tables::all(), &errors::all(), &claims::all());
}
