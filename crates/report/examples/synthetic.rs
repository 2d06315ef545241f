//! Writes the report of a made-up sweep into a directory, to look at:
//! `cargo run --example synthetic -- DIRECTORY [REPETITIONS]`.

#[allow(dead_code, reason = "tests use more of it")]
#[path = "../tests/all/fixture.rs"]
mod fixture;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use krarup_report::{Page, sweep, text};

#[allow(clippy::print_stdout, reason = "the example's answer is the table and the page's path")]
fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(directory), repetitions) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: synthetic DIRECTORY [REPETITIONS]");
        return ExitCode::from(2);
    };
    let repetitions = repetitions.and_then(|number| number.parse().ok()).unwrap_or(3);
    let results = fixture::with_history(repetitions);
    let document = sweep::document(&results, "Krarup 0.1.0, made-up trials");
    print!("{}", text::table(&sweep::table(&results)));
    let page = Page::of(&document);
    let write = || {
        fs::create_dir_all(&directory)?;
        let path = Path::new(&directory).join("report.html");
        fs::write(&path, page.html)?;
        Ok::<_, std::io::Error>(path)
    };
    match write() {
        Ok(path) => println!("{}", path.display()),
        Err(error) => {
            eprintln!("error: {directory}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
