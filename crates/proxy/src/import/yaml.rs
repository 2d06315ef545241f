//! As much of YAML as twemproxy reads: pools, their keys, and for each a text or a list of texts,
//! with the lines they stand in.

use saphyr_parser::{Event, Parser, Span};

/// One pool of the file.
#[derive(Debug)]
pub(super) struct YamlSection {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) entries: Vec<YamlEntry>,
}

/// One key of a pool.
#[derive(Debug)]
pub(super) struct YamlEntry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) value: YamlValue,
}

/// What a key says. Numbers and truths stay the text they were, as twemproxy has it.
#[derive(Debug)]
pub(super) enum YamlValue {
    Text(String),
    List(Vec<(usize, String)>),
}

/// Reads two levels of mappings.
///
/// # Errors
/// Names the line and what stands there instead.
pub(super) fn sections(text: &str) -> Result<Vec<YamlSection>, String> {
    let mut events = Events(Parser::new_from_str(text));
    loop {
        match events.next()? {
            (Event::MappingStart(..), _) => break,
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (Event::StreamEnd | Event::DocumentEnd, _) => return Err("the file has no pools".into()),
            (_, line) => return Err(format!("line {line}: the file must begin with the name of a pool")),
        }
    }
    let mut sections = Vec::new();
    while let Some((name, line)) = events.key()? {
        let (Event::MappingStart(..), _) = events.next()? else {
            return Err(format!("line {line}: `{name}` must be a pool, with its keys indented under it"));
        };
        let mut entries = Vec::new();
        while let Some((key, line)) = events.key()? {
            let value = match events.next()? {
                (Event::Scalar(text, ..), _) => YamlValue::Text(text.into_owned()),
                (Event::SequenceStart(..), _) => YamlValue::List(events.texts(&key)?),
                _ => {
                    return Err(format!(
                        "line {line}: `{key}` must be a text or a list of texts; quote it if it is one"
                    ));
                }
            };
            entries.push(YamlEntry { key, line, value });
        }
        sections.push(YamlSection { name, line, entries });
    }
    Ok(sections)
}

struct Events<'text>(Parser<'text, saphyr_parser::StrInput<'text>>);

impl<'text> Events<'text> {
    fn next(&mut self) -> Result<(Event<'text>, usize), String> {
        match self.0.next() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, start.line())),
            Some(Err(error)) => Err(format!("line {}: {}", error.marker().line(), error.info())),
            None => Ok((Event::StreamEnd, 0)),
        }
    }

    /// The next key of a mapping, or none at its end.
    fn key(&mut self) -> Result<Option<(String, usize)>, String> {
        match self.next()? {
            (Event::Scalar(text, ..), line) => Ok(Some((text.into_owned(), line))),
            (Event::MappingEnd, _) => Ok(None),
            (_, line) => Err(format!("line {line}: a key must be a text")),
        }
    }

    fn texts(&mut self, key: &str) -> Result<Vec<(usize, String)>, String> {
        let mut texts = Vec::new();
        loop {
            match self.next()? {
                (Event::Scalar(text, ..), line) => texts.push((line, text.into_owned())),
                (Event::SequenceEnd, _) => return Ok(texts),
                (_, line) => return Err(format!("line {line}: `{key}` must be a list of texts")),
            }
        }
    }
}
