//! `--sheet`: a reader's guesses, asked for and sealed before anything is measured.

use std::io::{BufRead, IsTerminal, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use krarup_analysis::graded::GradedSheet;
use krarup_analysis::results::Results;
use krarup_analysis::sheet::{WantedSheet, sheet};
use krarup_lab::guesses::{self, SealedGuesses};
use krarup_lab::plan::Plan;
use krarup_lab::spec::Spec;
use krarup_lab::store::ResultsDirectory;
use krarup_model::sheet::{SheetGuess, SheetQuestion};

use crate::failure::Failure;
use crate::{input, output, trials};

/// Where guesses come from.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct GuessSource {
    /// Ask for guesses before anything is measured, and show them beside model and measurement
    #[arg(long)]
    sheet: bool,
    /// The guesses as a file (`-`: stdin), in place of asking; `krarup plan SPEC --sheet` prints
    /// one to fill in
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
}

/// What becomes of guesses.
pub(crate) enum Guesses {
    /// None are asked for.
    NotAsked,
    /// They are sealed already, under this digest.
    Sealed(String),
    /// They are to be sealed.
    New(Vec<SheetGuess>),
}

/// The questions of a spec.
///
/// # Errors
/// Where it has none.
pub(crate) fn questions(spec: &Spec) -> Result<Vec<SheetQuestion>, Failure> {
    let questions = spec.questions();
    if questions.is_empty() {
        let hint =
            "docs/course lists those that have one; [[sheet]] in docs/reference/spec.md gives one to a spec";
        return Err(Failure::usage("the spec has no sheet").hint(hint));
    }
    Ok(questions)
}

/// A file of answers to be filled in, on stdout.
pub(crate) fn print_template(spec: &Spec, name: &str) -> Result<(), Failure> {
    print!("{}", guesses::template(&questions(spec)?, name));
    Ok(())
}

/// The guesses for a directory, read or asked for; nothing is written yet.
///
/// # Errors
/// Where there is no sheet, no terminal to ask at, or answers that are none; where others are
/// sealed there already.
pub(crate) fn gather(source: &GuessSource, spec: &Spec, out: &Path) -> Result<Guesses, Failure> {
    let there = read(&ResultsDirectory::at(out))?;
    if !source.sheet && source.answers.is_none() {
        return Ok(there.map_or(Guesses::NotAsked, |(_, digest)| Guesses::Sealed(digest)));
    }
    let questions = questions(spec)?;
    let given = source.answers.as_ref().map(|path| from_file(path, &questions)).transpose()?;
    match there {
        Some((sealed, digest)) => {
            stay(&sealed, out, &questions, given.as_deref())?;
            Ok(Guesses::Sealed(digest))
        }
        None => Ok(Guesses::New(given.map_or_else(|| ask(&questions), Ok)?)),
    }
}

/// Guesses that are sealed stay, and it is said.
///
/// # Errors
/// Where those that are `given` are others, or something else is asked than was.
fn stay(
    sealed: &SealedGuesses,
    out: &Path,
    questions: &[SheetQuestion],
    given: Option<&[SheetGuess]>,
) -> Result<(), Failure> {
    let SealedGuesses { sealed: time, guesses, .. } = sealed;
    let values = |guesses: &[SheetGuess]| -> Vec<(String, Option<f64>)> {
        guesses.iter().map(|guess| (guess.id.clone(), guess.value)).collect()
    };
    let is_asked = |guess: &SheetGuess| {
        questions.iter().any(|question| question.id == guess.id && question.ask == guess.ask)
    };
    let others = if given.is_some_and(|given| values(given) != values(guesses)) {
        "other guesses"
    } else if guesses.len() != questions.len() || !guesses.iter().all(is_asked) {
        "guesses of other questions"
    } else {
        eprintln!("guesses were sealed at {time}: they stay");
        return Ok(());
    };
    let hint = "give another directory with --out; without --sheet and --answers those that are sealed stay";
    Err(Failure::usage(format!("{} has {others}, sealed at {time}", out.display())).hint(hint))
}

/// Seals guesses, and tells the digest of those that are sealed.
///
/// # Errors
/// Where others were sealed meanwhile; where the directory is `unwritable`.
pub(crate) fn seal(
    guesses: Guesses,
    spec: &Spec,
    store: &ResultsDirectory,
    now: String,
    unwritable: impl Fn(std::io::Error) -> Failure,
) -> Result<Option<String>, Failure> {
    let guesses = match guesses {
        Guesses::NotAsked => return Ok(None),
        Guesses::Sealed(digest) => return Ok(Some(digest)),
        Guesses::New(guesses) => guesses,
    };
    let questions = spec.questions();
    // While they were asked for, another run may have ended here; now the directory is ours alone.
    if let Some((sealed, digest)) = read(store)? {
        stay(&sealed, store.directory(), &questions, Some(&guesses))?;
        return Ok(Some(digest));
    }
    eprintln!("guesses are sealed: {}", store.directory().join(guesses::FILE).display());
    let trials_there = guesses::measured_in(store);
    let sealed = SealedGuesses { sealed: now, trials_there, questions, guesses };
    sealed.seal(store).map(Some).map_err(unwritable)
}

/// The sheet of a directory, graded; none where nothing was guessed.
pub(crate) fn graded(
    results: &Results,
    spec: &Spec,
    plan: &Plan,
    store: &ResultsDirectory,
) -> Result<Option<GradedSheet>, Failure> {
    let sealed = read(store)?;
    let (trials, questions) = (trials::seals(spec, plan, store)?, spec.questions());
    let (sealed, digest) = sealed.map_or((None, None), |(sealed, digest)| (Some(sealed), Some(digest)));
    Ok(sheet(
        results,
        &WantedSheet {
            questions: &questions,
            asked: sealed.as_ref().map_or(&[], |sealed| &sealed.questions),
            guesses: sealed.as_ref().map_or(&[], |sealed| &sealed.guesses),
            sealed: sealed.as_ref().map_or("", |sealed| &sealed.sealed),
            digest: digest.as_deref(),
            trials_there: sealed.as_ref().map_or(0, |sealed| sealed.trials_there),
            trials: &trials,
            population: &spec.population,
        },
    ))
}

fn read(store: &ResultsDirectory) -> Result<Option<(SealedGuesses, String)>, Failure> {
    SealedGuesses::read(store).map_err(|error| {
        Failure::usage(error.to_string())
            .hint("put the sealed file back, or take it away: the report then says that it is gone")
    })
}

fn from_file(path: &Path, questions: &[SheetQuestion]) -> Result<Vec<SheetGuess>, Failure> {
    let (text, name) = if path == Path::new("-") {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::usage(format!("stdin cannot be read: {error}")))?;
        (text, "stdin".to_owned())
    } else {
        (input::text(path)?, path.display().to_string())
    };
    guesses::answers(&text, &name, questions).map_err(|mistakes| {
        Failure::from(mistakes).or_hint("what is no plain number stands in quotes: reads = \"2.9k\"")
    })
}

/// Asks a reader at the terminal, question by question.
fn ask(questions: &[SheetQuestion]) -> Result<Vec<SheetGuess>, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let hint = "give --answers FILE; `krarup plan SPEC --sheet` prints a file to fill in";
        return Err(Failure::usage("guesses cannot be asked for: stdin is no terminal").hint(hint));
    }
    eprintln!("Before anything is measured: what do you expect? `?` is no guess.");
    let mut lines = stdin.lock().lines();
    let mut guesses = Vec::new();
    for (place, question) in questions.iter().enumerate() {
        let SheetQuestion { id, ask, .. } = question;
        let asked = format_args!("\n{}/{} {ask}", place + 1, questions.len());
        eprintln!("{}", output::talk(asked));
        loop {
            output::eprint(format_args!("({}) ", guesses::form(question.unit())));
            let Some(Ok(written)) = lines.next() else {
                return Err(Failure::usage("the answers end before the questions; nothing was measured"));
            };
            match guesses::read_guess(&written, question.unit()) {
                Ok(value) => {
                    guesses.push(SheetGuess { id: id.clone(), ask: ask.clone(), written, value });
                    break;
                }
                Err(mistake) => eprintln!("{}", output::talk(mistake)),
            }
        }
    }
    Ok(guesses)
}
