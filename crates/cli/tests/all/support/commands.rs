//! The commands that the documents show. The tests of `main.rs` read this file, too.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The hand-written documents.
pub(crate) fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "python/README.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    for folder in [
        "docs/guide",
        "docs/concepts",
        "docs/comparisons",
        "docs/course",
        "docs/reference",
        "docs/reproductions",
    ] {
        let entries = fs::read_dir(root().join(folder)).expect("the folder is there");
        let pages = entries.map(|entry| entry.expect("it can be listed").path());
        found.extend(pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    found
}

/// The commands of `krarup` in the shell blocks of a page, continued lines joined.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    let mut line = String::new();
    for raw in text.lines() {
        if raw.trim_start().starts_with("```") {
            inside = !inside && (raw.contains("sh") || raw.contains("console"));
            continue;
        }
        if !inside {
            continue;
        }
        line.push_str(raw.trim().trim_start_matches("$ "));
        if let Some(kept) = line.strip_suffix('\\') {
            line = kept.to_owned();
            continue;
        }
        let command = std::mem::take(&mut line);
        if command.starts_with("krarup ") {
            found.push(command);
        }
    }
    found
}

/// The words of a command as a shell would see them, up to a comment, a pipe or a redirection.
pub(crate) fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    let mut characters = command.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, quote) {
            ('\'' | '"', None) => quote = Some(character),
            (_, Some(open)) if character == open => quote = None,
            (' ', None) => words.push(String::new()),
            ('#' | '|' | '>' | '&' | ';', None) => break,
            ('\\', None) => words.extend(characters.next().map(String::from)),
            _ => words.last_mut().expect("there is a word").push(character),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
