//! What the commands write to stdout and stderr. A reader that has closed the pipe is no error:
//! what it would have read is dropped, and the command goes on to its own end and exit code. The
//! macros of this module stand before those of `std`, which panic there.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::{Arc, OnceLock};

use krarup_report::document::Table;
use krarup_report::text;
use krarup_units::lines;

use self::notices::Notices;
use crate::failure::Failure;

mod notices;

/// Why stdout could not be written, the first time: a full disk, say. Kept until the command ends,
/// because a print has no result.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// The way of what a service says to stderr; none: this process is no service.
static NOTICES: OnceLock<Arc<Notices>> = OnceLock::new();

macro_rules! print {
    ($($text:tt)*) => { $crate::output::print(format_args!($($text)*)) };
}

macro_rules! println {
    () => { $crate::output::print(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::print(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::eprint(format_args!("{}\n", format_args!($($text)*))) };
}

/// A table for stdout: on a terminal no wider than it is; else in whole lines, for a program.
pub(crate) fn table(table: &Table) -> String {
    width().map_or_else(|| text::table(table), |width| text::fitted(table, width))
}

/// Sentences for stdout: on a terminal wrapped at words to its width; else as they are.
pub(crate) fn prose(text: impl Display) -> String {
    lines::prose(&text.to_string(), width())
}

/// The same for stderr.
pub(crate) fn talk(text: impl Display) -> String {
    lines::prose(&text.to_string(), stderr_width())
}

/// How many letters a line of stdout has; none where it is no terminal.
pub(crate) fn width() -> Option<usize> {
    columns(&raw_stdout())
}

/// The same of stderr.
pub(crate) fn stderr_width() -> Option<usize> {
    columns(&io::stderr())
}

fn columns(stream: &impl IsTerminal) -> Option<usize> {
    let columns = stream.is_terminal().then(|| crossterm::terminal::size().ok()).flatten()?.0;
    (columns > 0).then_some(usize::from(columns))
}

/// Stdout, to which a closed pipe is like a reader that skips the rest.
pub(crate) fn stdout() -> impl Write {
    Output(raw_stdout())
}

#[expect(clippy::disallowed_methods, reason = "here is the one that knows a closed pipe")]
fn raw_stdout() -> io::Stdout {
    io::stdout()
}

struct Output<W>(W);

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.0.flush(), ())
    }
}

/// `written`, or `dropped` if the reader has gone.
fn unless_closed<T>(written: io::Result<T>, dropped: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(dropped),
        written => written,
    }
}

/// Writes to stdout; an error other than a closed pipe is kept for [`finish`].
pub(crate) fn print(text: Arguments<'_>) {
    keep(stdout().write_fmt(text));
}

/// Writes to stderr, or has it written where this is a service. Talk that cannot be written is
/// dropped: there is nowhere to say so.
pub(crate) fn eprint(text: Arguments<'_>) {
    match NOTICES.get() {
        Some(notices) => notices.put(text.to_string()),
        None => {
            let _ = io::stderr().write_fmt(text);
        }
    }
}

/// From now on nothing in this process waits for the reader of stderr: it is a service.
pub(crate) fn begin_service() {
    // Without memory for a thread it is as of any other command.
    if let Ok(notices) = Notices::begin(io::stderr()) {
        let _ = NOTICES.set(notices);
    }
}

/// Waits until what a service has said is written, as long as its reader takes any of it.
pub(crate) fn settle() {
    if let Some(notices) = NOTICES.get() {
        notices.settle();
    }
}

/// What is still in memory goes out; an error if any of what was printed is lost.
pub(crate) fn finish() -> Result<(), Failure> {
    keep(stdout().flush());
    match LOST.get() {
        Some(error) => Err(unwritten(error)),
        None => Ok(()),
    }
}

/// What is lost because stdout could not be written.
pub(crate) fn unwritten(error: &io::Error) -> Failure {
    Failure::run(format!("stdout cannot be written: {error}"))
}

fn keep(written: io::Result<()>) {
    if let Err(error) = written {
        let _ = LOST.set(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe whose reader answers every write with `kind`.
    struct Refusing(ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_reader_that_has_gone_is_no_error() {
        let mut out = Output(Refusing(ErrorKind::BrokenPipe));
        assert!(out.write_all(b"a line\n").is_ok());
        assert!(out.flush().is_ok());
    }

    #[test]
    fn sentences_are_wrapped_where_there_is_a_width() {
        let said = "read: the limit is reached\n  next: measure again\n";
        assert_eq!(
            lines::prose(said, Some(14)),
            "read: the\nlimit is\nreached\n  next:\n  measure\n  again\n"
        );
        assert_eq!(lines::prose(said, None), said, "to a pipe nothing is");
    }

    #[test]
    fn a_full_disk_is_one() {
        let mut out = Output(Refusing(ErrorKind::StorageFull));
        assert_eq!(out.write_all(b"a line\n").unwrap_err().kind(), ErrorKind::StorageFull);
        assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
