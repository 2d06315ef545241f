//! Conversations of several clients, written down once and held with every mode and store.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::support::peer::Peer;

const HISTORIES: &str = include_str!("histories.txt");

/// Holds all conversations with the broker at `address`, whose queues are reached by memcached's
/// protocol at `door`.
pub(crate) fn hold_all(address: SocketAddr, door: SocketAddr, whose: &str) {
    let histories: Vec<&str> = HISTORIES.split("\n## ").skip(1).collect();
    assert!(histories.len() > 10);
    for history in histories {
        let (title, lines) = history.split_once('\n').expect("a title and lines");
        hold([address, door], lines.lines().filter(|line| !line.is_empty()), &format!("{whose}: {title}"));
    }
}

fn hold<'a>([address, door]: [SocketAddr; 2], lines: impl Iterator<Item = &'a str>, title: &str) {
    let mut clients: BTreeMap<&str, Peer> = BTreeMap::new();
    let mut numbers: BTreeMap<String, String> = BTreeMap::new();
    for line in lines {
        if let Some((client, said)) = line.split_once("> ") {
            let said = filled_in(said, &numbers).replace('|', "\r\n");
            let place = if client.starts_with('m') { door } else { address };
            let peer = clients.entry(client).or_insert_with(|| Peer::connect(place));
            peer.send(format!("{said}\r\n").as_bytes()).unwrap();
        } else if let Some((client, expected)) = line.split_once("< ") {
            let peer = clients.get_mut(client).expect("he has spoken");
            for expected in expected.split('|') {
                let heard =
                    String::from_utf8(peer.line().unwrap_or_else(|why| panic!("{title}: {line}: {why}")))
                        .unwrap();
                let heard = heard.trim_end();
                bind(expected, heard, &mut numbers);
                assert_eq!(heard, filled_in(expected, &numbers), "{title}: {line}");
            }
        } else {
            let client = line.strip_suffix('.').unwrap_or_else(|| panic!("not understood: {line}"));
            assert!(clients.remove(client).is_some(), "{title}: {line}");
        }
    }
}

/// A name that stands for no number yet stands for the one that was heard in its place.
fn bind(expected: &str, heard: &str, numbers: &mut BTreeMap<String, String>) {
    for (expected, heard) in expected.split(' ').zip(heard.split(' ')) {
        if expected.starts_with('$') && heard.parse::<u64>().is_ok() {
            numbers.entry(expected.to_owned()).or_insert_with(|| heard.to_owned());
        }
    }
}

fn filled_in(text: &str, numbers: &BTreeMap<String, String>) -> String {
    let words = text.split(' ').map(|word| {
        let (name, rest) = word.split_at(word.find('|').unwrap_or(word.len()));
        numbers.get(name).map_or_else(|| word.to_owned(), |number| format!("{number}{rest}"))
    });
    words.collect::<Vec<_>>().join(" ")
}
