//! A report's page and its tables as files.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use krarup_record::file::{self, Partial};
use krarup_report::document::Document;
use krarup_report::{Page, html};
use krarup_units::mistake::system_words;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// Results as a file that programs read.
pub(crate) const RESULTS: &str = "results.json";

/// What made a page: this program, with its version.
pub(crate) fn footer() -> String {
    format!("krarup {}", env!("CARGO_PKG_VERSION"))
}

/// Opens a file that is written at the end of a long run: at its beginning, so that it is told then
/// if it cannot be. What stands there stays until the end.
///
/// # Errors
/// Names the file; exit code 1.
fn open(path: &Path) -> Result<File, Failure> {
    let file = File::options().create(true).write(true).truncate(false).open(path);
    file.map_err(|error| unwritten(path, &system_words(&error)))
}

/// Opens one that is asked for.
///
/// # Errors
/// As [`open`].
pub(crate) fn opened(path: Option<PathBuf>) -> Result<Option<(PathBuf, File)>, Failure> {
    path.map(|path| open(&path).map(|file| (path, file))).transpose()
}

/// Refuses a file that cannot be saved at the end of a long run: at its beginning. Nothing is there
/// under its name until then, but what stood there before.
///
/// # Errors
/// Names the file; exit code 1.
pub(crate) fn writable(path: &Path) -> Result<(), Failure> {
    if path == Path::new("-") {
        return Ok(());
    }
    let begun = match fs::metadata(path) {
        Ok(there) if there.is_dir() => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        // A device or a pipe is written into.
        Ok(there) if !there.is_file() => Ok(()),
        _ => Partial::create(path).map(drop),
    };
    begun.map_err(|error| unwritten(path, &system_words(&error)))
}

/// A file that cannot be written, and why; exit code 1.
pub(crate) fn unwritten(path: &Path, why: &dyn Display) -> Failure {
    Failure::run(format!("{} cannot be written: {why}", path.display())).hint("choose another file")
}

/// Writes to stdout, to its end.
///
/// # Errors
/// As [`open`].
pub(crate) fn to_stdout(text: &str) -> Result<(), Failure> {
    let mut out = output::stdout();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| unwritten(Path::new("-"), &error))
}

/// Writes what one machine did of a work that several do: JSON, all of it or nothing; to stdout if
/// the name is `-`.
///
/// # Errors
/// Names the file; exit code 1.
pub(crate) fn part(path: &Path, part: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(part).expect("a part is plain data");
    if path == Path::new("-") {
        return to_stdout(&text);
    }
    save(path, &text).map_err(|error| Failure::run(error.to_string()))
}

/// Writes `report.html`, the tables for programs beside it and `figures/*.csv` into a directory,
/// which is made where it does not exist. Of an earlier page there, what only that one had goes.
/// The answer is the page's path.
///
/// # Errors
/// What the file system said, with the path it said it about.
pub(crate) fn write(page: &Page, directory: &Path) -> io::Result<PathBuf> {
    let figures = directory.join("figures");
    named(&figures, fs::create_dir_all(&figures))?;
    let file = directory.join("report.html");
    let earlier = fs::read_to_string(&file).unwrap_or_default();
    for (name, text) in &page.csv {
        save(&figures.join(name), text)?;
    }
    for (name, text) in &page.data {
        save(&directory.join(name), text)?;
    }
    remove_others(&earlier, page, directory)?;
    save(&file, &page.html)?;
    Ok(file)
}

/// Writes a file, whole or not at all: where the disk is full, what stood there stays. A device or
/// a pipe is written into.
///
/// # Errors
/// What the file system said, with the path.
pub(crate) fn save(path: &Path, text: &str) -> io::Result<()> {
    let saved = file::save(path, |out| Ok(out.write_all(text.as_bytes())?));
    saved.map_err(|error| io::Error::other(error.to_string()))
}

/// The tables that an earlier page had and this one has not, by their names without `.csv`, and
/// whether each is for programs.
pub(crate) fn only_before<'a>(earlier: &'a str, page: &'a Page) -> impl Iterator<Item = (&'a str, bool)> {
    html::downloads(earlier).filter_map(move |(name, is_data)| {
        let own = if is_data { &page.data } else { &page.csv };
        let stem = name.strip_suffix(".csv").filter(|stem| !stem.contains(['/', '\\']))?;
        own.iter().all(|(own, _)| own != name).then_some((stem, is_data))
    })
}

/// Removes the files of an earlier page that this one has not. What that page does not name is left
/// alone.
fn remove_others(earlier: &str, page: &Page, directory: &Path) -> io::Result<()> {
    for (stem, is_data) in only_before(earlier, page) {
        let folder = if is_data { "" } else { "figures" };
        let path = directory.join(folder).join(format!("{stem}.csv"));
        if path.is_file() {
            named(&path, fs::remove_file(&path))?;
        }
    }
    Ok(())
}

/// Writes a document as [`write()`] does, and tells where its page is.
///
/// # Errors
/// Names the file; exit code 1.
pub(crate) fn page(document: &Document, directory: &Path) -> Result<(), Failure> {
    let page = write(&Page::of(document), directory).map_err(|error| Failure::run(error.to_string()))?;
    eprintln!("page: {}", page.display());
    Ok(())
}

fn named(path: &Path, result: io::Result<()>) -> io::Result<()> {
    result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use krarup_report::document::{Block, Section, Table};

    use super::*;

    /// Such as `>(gzip >part.json.gz)` of a shell.
    #[test]
    fn a_pipe_is_written_into() {
        let (mut reader, writer) = io::pipe().unwrap();
        let name = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        writable(Path::new(&name)).unwrap();
        save(Path::new(&name), "all of it").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "all of it");
    }

    #[test]
    fn a_page_is_written_with_its_files_beside_it() {
        let directory = std::env::temp_dir().join(format!("krarup a page with files {}", std::process::id()));
        let csv = ["response.csv", "throughput.csv"].map(|name| (name.to_owned(), format!("of,{name}\n")));
        let data = vec![("cells.csv".to_owned(), "clients\n".to_owned())];
        let page = Page { html: "<p>".into(), csv: csv.into(), data };
        let path = write(&page, &directory).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), page.html);
        assert_eq!(fs::read_to_string(directory.join("cells.csv")).unwrap(), "clients\n");
        for (name, text) in &page.csv {
            assert_eq!(&fs::read_to_string(directory.join("figures").join(name)).unwrap(), text);
        }
        let file = directory.join("report.html");
        let error = write(&page, &file).unwrap_err();
        assert!(error.to_string().contains("report.html"), "{error}");
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_whole_leaves_the_one_before() {
        let directory = std::env::temp_dir().join(format!("krarup a page kept {}", std::process::id()));
        let page = |text: &str| {
            let table = |name: &str| vec![(name.to_owned(), text.to_owned())];
            Page { html: text.to_owned(), csv: table("a.csv"), data: table("cells.csv") }
        };
        write(&page("earlier"), &directory).unwrap();
        for name in ["figures/a.csv", "cells.csv", "report.html"] {
            let in_the_way = directory.join(format!("{name}.partial"));
            fs::create_dir(&in_the_way).unwrap();
            let error = write(&page("later"), &directory).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert_eq!(fs::read_to_string(directory.join(name)).unwrap(), "earlier");
            fs::remove_dir(in_the_way).unwrap();
        }
        fs::remove_dir_all(directory).unwrap();
    }

    /// They would stand beside a page that says nothing of them, and look like its own.
    #[test]
    fn what_only_an_earlier_report_had_goes_and_other_files_stay() {
        let directory = std::env::temp_dir().join(format!("krarup a page anew {}", std::process::id()));
        let table = |name: &&str| Table { name: (*name).to_owned(), ..Table::default() };
        let page = |shown: &[&str], data: &[&str]| {
            let data = data.iter().map(|name| Block::Data(table(name)));
            let blocks = shown.iter().map(|name| Block::Table(table(name))).chain(data).collect();
            let sections = vec![Section { title: "all".into(), blocks }];
            Page::of(&Document { sections, ..Document::default() })
        };
        write(&page(&["a", "b"], &["cells", "history-comparisons"]), &directory).unwrap();
        for own in ["b.csv", "figures/cells.csv", "figures/notes.csv"] {
            fs::write(directory.join(own), "of a user").unwrap();
        }
        write(&page(&["a"], &["cells"]), &directory).unwrap();
        let is_there = |path: &str| directory.join(path).is_file();
        let kept =
            ["report.html", "figures/a.csv", "cells.csv", "b.csv", "figures/cells.csv", "figures/notes.csv"];
        assert!(kept.into_iter().all(is_there));
        assert!(!is_there("figures/b.csv") && !is_there("history-comparisons.csv"));
        fs::remove_dir_all(directory).unwrap();
    }
}
