//! The file of rows beside a run: every request with its stamps.

use krarup_record::file::rows::RowWriter;

use crate::failure::Failure;

/// Completes the file, and tells what is in it and what is not, on stderr.
pub(crate) fn finish(writer: RowWriter, name: &str) -> Result<(), Failure> {
    let written = writer.finish().map_err(|why| Failure::run(format!("the rows are not written: {why}")))?;
    eprintln!("{} rows in {name}", written.rows);
    if written.lost > 0 {
        eprintln!("warning: {} rows were dropped because the disk was too slow", written.lost);
    }
    Ok(())
}
