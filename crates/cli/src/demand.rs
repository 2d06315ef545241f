//! `krarup analyze` of a trace: what it asks.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use krarup_analysis::trace::{TraceEstimates, TraceReading, TraceUse};
use krarup_load::command::Command;
use krarup_load::trace::Trace;
use krarup_report::demand;
use krarup_report::{csv, markdown};

use crate::failure::Failure;
use crate::form::OutputForm;
use crate::{output, written};

/// Whether a file is one of lines, of which a trace may be made, and none of rows.
pub(crate) fn is_text(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = File::open(path).and_then(|file| file.take(1_000).read_to_end(&mut beginning));
    let is_text = beginning.iter().all(|byte| !byte.is_ascii_control() || byte.is_ascii_whitespace());
    read.is_ok() && path.is_file() && beginning.contains(&b',') && is_text
}

/// Reads a trace, and prints what it asks in the form that was asked for.
pub(crate) fn tell(path: &Path, form: &OutputForm) -> Result<(), Failure> {
    let trace =
        Trace::read(path).map_err(|mistake| Failure::from(mistake.of(&path.display().to_string())))?;
    let found = estimates(&trace);
    let title = format!("The requests in {}", path.display());
    let document = demand::document(&found, &title, &written::footer());
    if form.json {
        println!("{}", serde_json::to_string_pretty(&found).expect("what a trace asks is plain data"));
    } else if form.csv {
        print!("{}", csv::table(&demand::memory(&found).unwrap_or_else(|| demand::operations(&found))));
    } else if form.markdown {
        print!("{}", markdown::document(&document));
    } else {
        print(&found, &title);
    }
    if let Some(directory) = &form.html {
        written::page(&document, directory)?;
    }
    Ok(())
}

fn estimates(trace: &Trace) -> TraceEstimates {
    let mut reading = TraceReading::default();
    for number in 0..trace.len() {
        let Some(row) = trace.row(number) else { break };
        let (used, keys) = match used(row.command) {
            Some(used) => (used, trace.names(&row).unwrap_or_default()),
            None => (TraceUse::Read, &[][..]),
        };
        reading.see(row.at, row.command.name(), used, keys, (row.size, row.lifetime()));
    }
    reading.end(|key| trace.text(u64::from(key)).len(), trace.clients())
}

/// What a command of a trace does with its keys; none of what leaves them as they are.
fn used(command: Command) -> Option<TraceUse> {
    Some(match command {
        Command::Get | Command::Mget | Command::Gets | Command::Gat | Command::Gats | Command::MetaGet => {
            TraceUse::Read
        }
        // A generator asks for its unique first, and that is no request of the trace.
        Command::Set | Command::Cas | Command::MetaSet => TraceUse::Write,
        Command::Add => TraceUse::Add,
        Command::Append | Command::Prepend => TraceUse::Extend,
        Command::Replace | Command::Incr | Command::Decr | Command::MetaArithmetic | Command::Touch => {
            TraceUse::Change
        }
        Command::Delete | Command::MetaDelete => TraceUse::Remove,
        _ => return None,
    })
}

fn print(found: &TraceEstimates, title: &str) {
    println!("{}\n", output::prose(format_args!("{title}: {}", demand::span(found))));
    let tables = [
        Some(demand::operations(found)),
        demand::clients(found),
        demand::values(found),
        demand::lifetimes(found),
        demand::keys(found),
        demand::memory(found),
    ];
    for table in tables.iter().flatten() {
        println!("{}", output::table(table));
        if !table.caption.is_empty() {
            println!("{}\n", output::prose(format_args!("{}", table.caption)));
        }
    }
    if let Some(words) = demand::summary(found) {
        println!("{}", output::prose(format_args!("{words}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> TraceEstimates {
        estimates(&Trace::of_csv(text.as_bytes()).unwrap())
    }

    #[test]
    fn a_trace_asks_the_same_in_each_form() {
        let lines =
            found("time,op,key,size\n0,set,a,100\n1,cas,a,100\n2,cas,a,100\n3,get,b,\n4,get,a,\n5,me,c,\n");
        let of_twitter = found(
            "0,a,1,100,1,set,0\n1,a,1,100,1,cas,0\n2,a,1,100,1,cas,0\n3,b,1,0,1,get,0\n4,a,1,0,1,get,0\n",
        );
        assert_eq!(lines.memory, of_twitter.memory);
        let memory = lines.memory.unwrap();
        assert_eq!((memory.reads, memory.most_hits), (2, 0.5));
        assert_eq!(lines.keys.unwrap().distinct, 2, "`me` uses no key");
    }
}
