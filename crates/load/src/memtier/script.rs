//! Scripts that call memtier_benchmark: the command lines in them, each as one of ours.
//!
//! Enough of the shell is understood for the scripts people keep: comments, quotes, lines that go
//! on after a backslash, `NAME=value` and `$NAME`, and several commands in a line. What a name
//! stands for only when the script runs cannot be known, and is named.

use std::collections::BTreeMap;

use krarup_settings::{Mistake, Mistakes};

use super::flags;

/// Commands that set names, as a plain assignment does.
const SETS: [&str; 4] = ["declare", "export", "local", "readonly"];

/// Commands to which memtier_benchmark is a word, and that do not run it.
const NAMES: [&str; 17] = [
    "[", "[[", "apt", "apt-get", "brew", "cd", "dnf", "echo", "git", "hash", "killall", "pkill", "printf",
    "test", "type", "which", "yum",
];

/// Words behind which a command begins.
const BEFORE: [&str; 11] = ["!", "do", "elif", "else", "if", "sudo", "then", "time", "until", "while", "{"];

/// A call of memtier_benchmark in a script.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The line it begins in, from one.
    pub line: usize,
    /// What it was understood as.
    pub memtier: flags::Memtier,
}

impl Call {
    /// The command of ours that does the same.
    pub fn command(&self) -> String {
        format!("krarup load {}", self.memtier.settings.flags())
    }
}

/// Finds every call in a script, or reads bare flags.
///
/// # Errors
/// With the line: a name that is not known, a flag that is not understood, or no call at all.
pub fn calls(text: &str) -> Result<Vec<Call>, Mistakes> {
    let mut names = BTreeMap::new();
    let mut found = Vec::new();
    for (line, text) in logical_lines(text) {
        let place = format!("line {line}");
        for command in commands(&text).map_err(|mistake| mistake.of(&place))? {
            let words = command.iter().map(|word| word.resolve(&names)).collect::<Vec<_>>();
            let begins = words.iter().position(|word| word.as_ref().is_ok_and(|word| is_memtier(word)));
            let begins = begins.filter(|begins| !is_only_named(&words[..*begins]));
            let bare =
                words.first().is_some_and(|word| word.as_ref().is_ok_and(|word| word.starts_with('-')));
            if begins.is_none() && !bare {
                // Assignments before anything else of the command, but for what sets names.
                let words = words.into_iter().map_while(Result::ok);
                for word in words.skip_while(|word| SETS.contains(&word.as_str()) || word.starts_with('-')) {
                    let Some((name, value)) = word.split_once('=').filter(|(name, _)| is_name(name)) else {
                        break;
                    };
                    names.insert(name.to_owned(), value.to_owned());
                }
                continue;
            }
            let args = words.into_iter().skip(begins.map_or(0, |begins| begins + 1));
            let args = args.collect::<Result<Vec<_>, _>>().map_err(|mistake| mistake.of(&place))?;
            let mut memtier = flags::parse(&args).map_err(|mistakes| mistakes.of(&place))?;
            if memtier.load.login.is_some() {
                // A password does not belong on a command line, which every program may read.
                let note = "--authenticate is left out: write user:password to a file, add --login FILE";
                memtier.notes.push(note.to_owned());
            }
            found.push(Call { line, memtier });
        }
    }
    if found.is_empty() { Err("memtier_benchmark is not called in it".into()) } else { Ok(found) }
}

fn is_memtier(word: &str) -> bool {
    word.rsplit('/').next() == Some("memtier_benchmark")
}

/// Whether these words before a program's name only name it, as `command -v` and `apt install` do.
fn is_only_named(before: &[Result<String, Mistake>]) -> bool {
    let leads = |word: &&str| BEFORE.contains(word) || word.starts_with('-') || word.contains('=');
    let words = before.iter().flatten().map(String::as_str).skip_while(leads).collect::<Vec<_>>();
    match words[..] {
        ["command", option, ..] => matches!(option, "-v" | "-V"),
        [first, ..] => NAMES.contains(&first),
        [] => false,
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Lines, those that go on with the next one, each with the number of its first.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in text.lines().enumerate() {
        let (first, mut whole) = open.take().unwrap_or((number + 1, String::new()));
        whole.push_str(line);
        if goes_on(&whole) {
            whole.pop();
            open = Some((first, whole));
        } else {
            lines.push((first, whole));
        }
    }
    lines.extend(open);
    lines
}

/// Whether a line ends in a backslash behind which the next one belongs to it: in no comment, in no
/// single quotes, and behind no other backslash.
fn goes_on(line: &str) -> bool {
    let (mut quote, mut begun) = (None, false);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None | Some('"'), '\\') if letters.next().is_none() => return true,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '#') if !begun => return false,
            _ => {}
        }
        begun = !letter.is_whitespace() && !";&|()<>".contains(letter);
    }
    false
}

/// A word in parts: text, and names that stand for text.
#[derive(Clone, Debug, Default, PartialEq)]
struct Word(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Name(String),
}

impl Word {
    fn push(&mut self, letter: char) {
        match self.0.last_mut() {
            Some(Part::Text(text)) => text.push(letter),
            _ => self.0.push(Part::Text(letter.to_string())),
        }
    }

    fn resolve(&self, names: &BTreeMap<String, String>) -> Result<String, Mistake> {
        let part = |part: &Part| match part {
            Part::Text(text) => Ok(text.clone()),
            Part::Name(name) => names.get(name).cloned().ok_or_else(|| {
                let what = format!("what ${name} stands for is not known before the script runs");
                Mistake::new(what, "write it out")
            }),
        };
        self.0.iter().map(part).collect()
    }
}

/// The commands of a line, each as its words; redirections are left out.
fn commands(line: &str) -> Result<Vec<Vec<Word>>, Mistake> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<Word> = None;
    let mut letters = line.chars().peekable();
    let mut quote = None;
    let mut skips = false;
    while let Some(letter) = letters.next() {
        let begun = word.is_some();
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None | Some('"'), '$') => {
                let braces = letters.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(next) = letters.next_if(|next| next.is_ascii_alphanumeric() || *next == '_') {
                    name.push(next);
                }
                if name.is_empty() || (braces && letters.next_if_eq(&'}').is_none()) {
                    return Err(Mistake::new("more than a plain $NAME stands there", "write it out"));
                }
                word.get_or_insert_default().0.push(Part::Name(name));
            }
            (None | Some('"'), '\\') => {
                if let Some(next) = letters.next() {
                    word.get_or_insert_default().push(next);
                }
            }
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if !begun => break,
            (None, '>' | '<') => {
                // A number before it says which stream; the word after it is a file.
                let is_stream = word.as_ref().is_some_and(|word| matches!(word.0.as_slice(), [Part::Text(text)] if text.bytes().all(|byte| byte.is_ascii_digit())));
                let ended = word.take().filter(|_| !is_stream);
                push(&mut commands, ended, &mut skips);
                while letters.next_if(|next| matches!(next, '>' | '&')).is_some() {}
                skips = true;
            }
            (None, ';' | '&' | '|' | '(' | ')') => {
                push(&mut commands, word.take(), &mut skips);
                skips = false;
                commands.push(Vec::new());
            }
            (None, _) if letter.is_whitespace() => push(&mut commands, word.take(), &mut skips),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".into());
    }
    push(&mut commands, word, &mut skips);
    commands.retain(|command| !command.is_empty());
    Ok(commands)
}

/// Adds a word that is at its end, unless it is the file of a redirection.
fn push(commands: &mut [Vec<Word>], word: Option<Word>, skips: &mut bool) {
    if let (Some(word), Some(command)) = (word, commands.last_mut())
        && !std::mem::take(skips)
    {
        command.push(word);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_call_of_a_script_becomes_a_command_of_ours() {
        let script = "#!/bin/bash\nHOST=10.0.0.5  # the server\nVC=32\n\n\
                      # populate\n/opt/memtier_benchmark -s $HOST -p 11211 -P memcache_text \\\n  \
                      --ratio=1:0 -n 10001 -c 1 -t 1 --key-maximum=10000 > /dev/null 2>&1 && echo done\n\
                      sleep 3; memtier_benchmark -s \"${HOST}\" -p 11211 -c ${VC} -t 2 --test-time=80 --key-prefix='a b' &\n";
        let error = calls(script).unwrap_err().to_string();
        assert!(error.contains("line 8") && error.contains("a b"), "{error}");
        let calls = calls(&script.replace("'a b'", "'a-b'")).unwrap();
        assert_eq!(calls.iter().map(|call| call.line).collect::<Vec<_>>(), [6, 8]);
        assert_eq!((calls[0].memtier.load.connections, calls[1].memtier.load.connections), (1, 64));
        let command = calls[1].command();
        assert!(
            command.starts_with("krarup load --servers 10.0.0.5:11211 --threads 2 --connections 64 "),
            "{command}"
        );
        assert!(command.contains("--key-prefix a-b") && command.contains("--seconds 80"), "{command}");
    }

    #[test]
    fn names_are_known_however_a_script_sets_them() {
        for set in ["export HOST=10.0.0.5", "declare -r HOST=10.0.0.5", "local A=1 HOST=10.0.0.5"] {
            let calls = calls(&format!("{set}\nmemtier_benchmark -s $HOST -p 11211\n")).unwrap();
            assert_eq!(calls[0].memtier.load.targets[0].to_string(), "10.0.0.5:11211", "{set}");
        }
    }

    #[test]
    fn what_only_names_the_program_is_no_call() {
        for line in [
            "command -v memtier_benchmark >/dev/null || exit 1",
            "if ! which memtier_benchmark; then exit 1; fi",
            "sudo -E A=1 apt-get install -y memtier_benchmark",
            "[ -x /usr/bin/memtier_benchmark ] || exit 1",
            "echo memtier_benchmark -p 11211",
        ] {
            // `test` is a name here, and no command.
            let call = "docker run --network test a/memtier_benchmark -p 11211 -t 1 -c 3";
            let calls = calls(&format!("{line}\n{call}\n")).unwrap();
            let found = calls.iter().map(|call| (call.line, call.memtier.load.connections));
            assert_eq!(found.collect::<Vec<_>>(), [(2, 3)], "{line}");
        }
    }

    #[test]
    fn a_line_goes_on_where_it_does_for_a_shell() {
        let script = "# populate \\\nmemtier_benchmark -p 11211 -t 1 \\\n  -c 3 # three \\\n\
                      memtier_benchmark -p 11211 -t 1 --clie\\\nnts=5\n";
        let calls = calls(script).unwrap();
        let found = calls.iter().map(|call| (call.line, call.memtier.load.connections));
        assert_eq!(found.collect::<Vec<_>>(), [(2, 3), (4, 5)]);
    }

    #[test]
    fn a_sign_in_is_left_out_with_a_note() {
        let call = calls("memtier_benchmark -p 11211 --authenticate=u:secret\n").unwrap().remove(0);
        assert!(!call.command().contains("secret"), "{}", call.command());
        let [note] = &call.memtier.notes[..] else { panic!("{:?}", call.memtier.notes) };
        assert!(note.contains("add --login FILE") && !note.contains("secret"), "{note}");
        assert!(calls("memtier_benchmark -p 11211\n").unwrap()[0].memtier.notes.is_empty());
    }

    #[test]
    fn bare_flags_are_a_call_and_what_cannot_be_known_is_named() {
        assert_eq!(calls("-p 11211 -c 3 -t 1\n").unwrap()[0].memtier.load.connections, 3);
        for (text, words) in [
            ("memtier_benchmark -c $1\n", "line 1"),
            ("memtier_benchmark -c $VC\n", "$VC"),
            ("memtier_benchmark --key-prefix='a\n", "quote"),
            ("echo hello\n", "not called"),
            ("memtier_benchmark -c $(nproc)\n", "write it out"),
        ] {
            let error = calls(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_script_makes_the_reader_panic(text in "(memtier_benchmark)?[ -~\\n]{0,60}") {
            let _ = calls(&text);
        }
    }
}
