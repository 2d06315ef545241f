//! Every command in every malformed form, derived rather than remembered: each word of each command
//! missing, doubled, too long, of another kind, out of range, with bytes in it that do not belong
//! there; each line ended wrongly; each value of another length than announced; each meta command
//! with each flag and each word a flag may carry.

use std::collections::BTreeSet;

/// What a word of a command line is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Command,
    Key,
    Number,
    Flag,
    Other,
}

/// A well-formed command: its words, and its value if it has one. The key `k` holds the number 10
/// with the flags 5.
struct Form {
    words: Vec<(Kind, String)>,
    value: Option<&'static str>,
}

/// Command, key, number, flag, other: by the first byte of each word's description.
fn form(line: &str, value: Option<&'static str>) -> Form {
    let words = line
        .split(' ')
        .map(|word| match word.split_at(1) {
            ("!", word) => (Kind::Command, word.to_owned()),
            ("@", word) => (Kind::Key, word.to_owned()),
            ("#", word) => (Kind::Number, word.to_owned()),
            ("+", word) => (Kind::Flag, word.to_owned()),
            _ => (Kind::Other, word.to_owned()),
        })
        .collect();
    Form { words, value }
}

/// Every command as it should be.
fn forms() -> Vec<Form> {
    let lines = [
        "!get @k",
        "!get @k @nothing @k",
        "!gets @k",
        "!gat #0 @k",
        "!gat #100 @k @nothing",
        "!gats #0 @k",
        "!delete @k",
        "!incr @k #1",
        "!decr @k #1",
        "!touch @k #100",
        "!flush_all",
        "!flush_all #0",
        "!verbosity #0",
        "!version",
        "!quit",
        "!mg @k",
        "!mg @k +v",
        "!mg @k +s +t +c +f +h +u +v +k +O77 +q",
        "!mg @nothing +v +k +O77",
        "!mg @nothing +v +k +O77 +q",
        "!mg @nothing +N100 +c +v +t",
        "!mg @k +T100 +R200 +t +v",
        "!mg @aw== +b +k +v",
        "!md @k",
        "!md @k +q +O7 +k",
        "!md @nothing +q",
        "!md @k +I +T100",
        "!md @k +C1 +q",
        "!md @aw== +b",
        "!ma @k",
        "!ma @k +D5 +MD +v +t +c",
        "!ma @k +q",
        "!ma @nothing +q",
        "!ma @nothing +N100 +J7 +v +t",
        "!ma @k +C1 +O7",
        "!ma @aw== +b +M- +k",
        "!me @k",
        "!me @nothing",
        "!me @aw== +b",
        "!mn",
        "!mn +q",
    ];
    let stores = [
        "!set @a #5 #0 #2",
        "!add @a #5 #0 #2",
        "!replace @k #5 #0 #2",
        "!append @k #5 #0 #2",
        "!prepend @k #5 #0 #2",
        "!cas @k #5 #0 #2 #1",
        "!ms @a #2",
        "!ms @a #2 +T100 +F9 +c +k +O77",
        "!ms @a #2 +q",
        "!ms @k #2 +ME +q",
        "!ms @k #2 +MA",
        "!ms @k #2 +MP +O1",
        "!ms @k #2 +MR +c",
        "!ms @k #2 +C1 +q",
        "!ms @k #2 +C1 +I",
        "!ms @aw== #2 +b +k",
    ];
    let lines = lines.into_iter().map(|line| form(line, None));
    lines.chain(stores.into_iter().map(|line| form(line, Some("42")))).collect()
}

/// What may stand where a number should.
const NUMBERS: [&str; 33] = [
    "0",
    "-0",
    "+0",
    "00",
    "1",
    "-1",
    "+1",
    "--1",
    "+-1",
    "01",
    "x",
    "1x",
    "x1",
    "1.0",
    "1e3",
    "0x1",
    "-",
    "+",
    "10",
    "255",
    "2147483645",
    "2147483646",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-18446744073709551615",
    "99999999999999999999999999999999",
];

/// Bytes that do not belong into a word.
const STRANGE: [&str; 8] = ["\u{1}", "\t", "\u{7f}", "\u{e9}", "\r", "\u{b}", "\"", "%00"];

fn line(words: &[(Kind, String)]) -> String {
    words.iter().map(|(_, word)| word.as_str()).collect::<Vec<_>>().join(" ")
}

/// A word in its place becomes another.
fn with(form: &Form, place: usize, word: &str) -> String {
    let mut words = form.words.clone();
    word.clone_into(&mut words[place].1);
    line(&words)
}

/// All lines that come of one form, without their ends.
fn lines(form: &Form) -> Vec<String> {
    let mut lines = vec![line(&form.words)];
    for place in 0..form.words.len() {
        let (kind, word) = &form.words[place];
        // Missing, doubled, followed by another.
        let mut words = form.words.clone();
        words.remove(place);
        lines.push(line(&words));
        words = form.words.clone();
        words.insert(place, form.words[place].clone());
        lines.push(line(&words));
        words = form.words.clone();
        words.insert(place + 1, (Kind::Other, "foo".to_owned()));
        lines.push(line(&words));
        // Empty: two blanks where there should be one.
        lines.push(with(form, place, ""));
        lines.push(with(form, place, &word.to_uppercase()));
        for strange in STRANGE {
            lines.push(with(form, place, strange));
            lines.push(with(form, place, &format!("{word}{strange}")));
            lines.push(with(form, place, &format!("{strange}{word}")));
        }
        let lengths: &[usize] = if *kind == Kind::Key { &[249, 250, 251, 252, 1_000] } else { &[33, 251] };
        for &length in lengths {
            lines.push(with(form, place, &"k".repeat(length)));
        }
        if *kind == Kind::Number {
            lines.extend(NUMBERS.iter().map(|number| with(form, place, number)));
            lines.push(with(form, place, &format!("{}1", "0".repeat(300))));
        }
    }
    let whole = line(&form.words);
    for more in [" noreply", " noreply foo", " foo noreply", " 0 noreply", " 0", " ", "  ", "\t"] {
        lines.push(format!("{whole}{more}"));
    }
    lines.push(format!("{whole}{}", " foo".repeat(30)));
    lines.push(format!(" {whole}"));
    lines.push(format!("{}{whole}", " ".repeat(50)));
    lines.push(whole.replace(' ', "   "));
    lines.push(whole.replace(' ', "\t"));
    lines
}

/// Every meta command with every flag, known or not, and every kind of word it may carry.
fn flags() -> Vec<(String, Option<&'static str>)> {
    let mut cases = Vec::new();
    for (command, numbered) in [
        ("mg k", "TRE"),
        ("mg nothing", "NC"),
        ("md k", "CTI"),
        ("ma k", "DC"),
        ("ma nothing", "NJ"),
        ("me k", ""),
        ("mn", ""),
        ("ms a 2", "TFNE"),
        ("ms k 2", "CFJDR"),
    ] {
        let value = command.starts_with("ms").then_some("42");
        for letter in 0x21_u8..0x7f {
            let letter = char::from(letter);
            for word in ["", "100", "x"] {
                cases.push((format!("{command} {letter}{word}"), value));
            }
            cases.push((format!("{command} q {letter}"), value));
            cases.push((format!("{command} {letter}1 {letter}1"), value));
            cases.push((format!("{command} v {letter}1 k"), value));
        }
        for letter in numbered.chars() {
            cases.extend(NUMBERS.iter().map(|number| (format!("{command} {letter}{number}"), value)));
            cases.extend(STRANGE.iter().map(|strange| (format!("{command} {letter}{strange}"), value)));
        }
        for letter in "OPLTM".chars() {
            cases.extend(
                [31, 32, 250].map(|length| (format!("{command} {letter}{}", "x".repeat(length)), value)),
            );
        }
        for mode in (0x21_u8..0x7f).filter(|_| command.starts_with("ma") || command.starts_with("ms")) {
            cases.push((format!("{command} M{}", char::from(mode)), value));
        }
        for count in [17, 18, 19, 20, 40] {
            let flags: Vec<String> =
                (0..count).map(|flag| char::from(b'a' + flag % 26).to_string()).collect();
            cases.push((format!("{command} {}", flags.join(" ")), value));
            cases.push((format!("{command} {}", "v ".repeat(usize::from(count))), value));
        }
        for key in ["aw==", "aw=", "aw", "a===", "====", "a!w==", "aw==aw==", "Zm9v", "AP8Q", "!", "+/+/"] {
            let line = command.replace(" k", &format!(" {key}")).replace(" a ", &format!(" {key} "));
            cases.push((format!("{line} b k"), value));
            cases.push((format!("{line} b"), value));
        }
    }
    cases
}

/// All cases: bytes to be sent.
pub(crate) fn malformed() -> Vec<Vec<u8>> {
    let mut cases = BTreeSet::new();
    for form in forms() {
        let ended = |line: &str, end: &str| [line.as_bytes(), end.as_bytes()].concat();
        let whole = line(&form.words);
        let Some(value) = form.value else {
            cases.extend(lines(&form).iter().map(|line| ended(line, "\r\n")));
            cases.extend(["\n", "\r\r\n", "\n\r\n", "\r\n\r\n", "", "\r"].map(|end| ended(&whole, end)));
            continue;
        };
        let value_line = format!("\r\n{value}\r\n");
        cases.extend(lines(&form).iter().map(|line| ended(line, &value_line)));
        for end in ["\n", "\r\r\n", "\r\n\r\n"] {
            cases.insert(ended(&whole, &format!("{end}{value}\r\n")));
        }
        for rest in [
            "",
            "\r\n",
            "\r\n\r\n",
            "\r\n4",
            "\r\n42",
            "\r\n42\r",
            "\r\n42\n",
            "\r\n42\r\r\n",
            "\r\n4\r\n",
            "\r\n423\r\n",
            "\r\n4234\r\n",
            "\r\n\r\n\r\n",
            "\r\n\n\n\r\n",
            "\r\n4\r\n2\r\n",
            "\r\n42mn\r\n",
            "\r\nget k\r\n",
        ] {
            cases.insert(ended(&whole, rest));
        }
    }
    for (line, value) in flags() {
        let value = value.map_or(String::new(), |value| format!("{value}\r\n"));
        cases.insert(format!("{line}\r\n{value}").into_bytes());
    }
    cases.into_iter().collect()
}
