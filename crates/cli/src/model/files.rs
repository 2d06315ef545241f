//! What a job of `krarup model` reads, with errors that name the file and the line.

use std::path::Path;

use krarup_model::calibrate::Calibration;
use krarup_model::{Error, Network, form};

use crate::failure::Failure;
use crate::input;

pub(super) fn read(path: &Path) -> Result<String, Failure> {
    input::text(path)
        .map_err(|why| why.or_hint("`krarup model example > network.toml` makes a network to begin with"))
}

pub(super) fn read_network(path: &Path) -> Result<Network, Failure> {
    parse_network(path, &read(path)?)
}

pub(super) fn parse_network(path: &Path, source: &str) -> Result<Network, Failure> {
    let json = path.extension().is_some_and(|extension| extension == "json");
    let network = if json { form::from_json(source) } else { form::from_toml(source) };
    network.map_err(|error| failed(path, &error))
}

pub(super) fn read_calibration(path: &Path, source: &str) -> Result<Calibration, Failure> {
    input::of_json(source, path).map_err(|why| {
        why.hint("krarup model calibrate ROWS --out FILE writes one; what an older version wrote is calibrated anew")
    })
}

pub(super) fn failed(path: &Path, error: &Error) -> Failure {
    let message = match error {
        Error::Form { line: Some(line), what, .. } => format!("{}, line {line}: {what}", path.display()),
        other => format!("{}: {other}", path.display()),
    };
    let failure = match error {
        Error::Form { .. } | Error::Invalid { .. } => Failure::usage(message),
        _ => Failure::run(message),
    };
    match error.hint() {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

pub(super) fn name(of_network: &str) -> &str {
    if of_network.is_empty() { "the network" } else { of_network }
}
