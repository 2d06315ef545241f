use proptest::prelude::*;

use super::*;
use crate::{About, Bounds, ItemStore, Traffic};

const NOW: Nanos = Nanos::from_secs(1_700_000_000);

fn state() -> State {
    let about = About {
        pid: 7,
        version: "0.1.0".to_owned(),
        started: Nanos::from_secs(1_699_999_958),
        host: "127.0.0.1".to_owned(),
        port: 11_211,
        connections: 1_024,
    };
    let store = ItemStore::new(Bounds { memory: 1 << 20, item: 4_096 });
    State { store, traffic: Traffic::default(), about, verbosity: 0 }
}

/// What a client gets for these bytes, all at once; closed or not.
fn talk(bytes: &[u8]) -> (String, bool) {
    let mut out = Vec::new();
    let (_, progress) = CacheSession::default().serve(&mut state(), NOW, bytes, &mut out, usize::MAX / 2);
    (String::from_utf8_lossy(&out).into_owned(), progress == SessionProgress::Close)
}

#[test]
fn requests_are_answered_in_order() {
    let (answers, closed) = talk(
        b"set k 5 0 1\r\n9\r\nget k j\r\ngets k k\r\nincr k 1\r\ndecr k 2\r\nget k\r\ntouch k 0\r\n\
          delete k\r\ndelete k\r\nfoo\r\nverbosity 3\r\nflush_all\r\nversion\r\nge",
    );
    let expected = "STORED\r\nVALUE k 5 1\r\n9\r\nEND\r\nVALUE k 5 1 1\r\n9\r\nVALUE k 5 1 1\r\n9\r\nEND\r\n10\r\n8\r\n\
                    VALUE k 5 2\r\n8 \r\nEND\r\nTOUCHED\r\nDELETED\r\nNOT_FOUND\r\nERROR\r\nOK\r\nOK\r\nVERSION 0.1.0\r\n";
    assert_eq!((answers.as_str(), closed), (expected, false));
}

#[test]
fn a_client_that_wants_no_answer_gets_none() {
    let (answers, _) = talk(
        b"set k 0 0 1 noreply\r\n9\r\nadd k 0 0 1 noreply\r\n9\r\nincr k 1 noreply\r\nincr z 1 noreply\r\n\
          touch k 0 noreply\r\ndelete k noreply\r\nflush_all noreply\r\nverbosity 1 noreply\r\nversion\r\n",
    );
    assert_eq!(answers, "VERSION 0.1.0\r\n");
}

#[test]
fn after_quit_nothing_is_answered() {
    assert_eq!(talk(b"version\r\nquit\r\nversion\r\n"), ("VERSION 0.1.0\r\n".to_owned(), true));
}

#[test]
fn a_binary_client_is_refused_in_its_own_protocol_with_its_opaque() {
    let mut request = [0; 24];
    (request[0], request[1]) = (0x80, 0x0a);
    request[12..16].copy_from_slice(b"opaq");
    let bytes = [&b"version\r\n"[..], &request, b"version\r\n"].concat();
    let mut out = Vec::new();
    let (used, progress) = CacheSession::default().serve(&mut state(), NOW, &bytes, &mut out, usize::MAX / 2);
    assert_eq!((used, progress), (bytes.len(), SessionProgress::Close));
    let refusal = out.strip_prefix(b"VERSION 0.1.0\r\n").unwrap();
    assert_eq!(&refusal[..8], b"\x81\x0a\0\0\0\0\0\x81");
    assert_eq!(&refusal[8..12], &(refusal.len() as u32 - 24).to_be_bytes());
    assert_eq!(&refusal[12..16], b"opaq");
    assert!(refusal[24..].starts_with(b"CLIENT_ERROR the binary protocol is not supported"));
}

#[test]
fn a_value_over_the_limit_goes_by_and_set_leaves_nothing() {
    let mut bytes = b"set k 0 0 1\r\nx\r\nadd k 0 0 5000\r\n".to_vec();
    bytes.extend_from_slice(&[b'y'; 5_000]);
    bytes.extend_from_slice(b"\r\nget k\r\nset k 0 0 5000\r\n");
    bytes.extend_from_slice(&[b'y'; 5_000]);
    bytes.extend_from_slice(b"\r\nget k\r\nset k 0 0 4096\r\n");
    bytes.extend_from_slice(&[b'y'; 4_096]);
    bytes.extend_from_slice(b"\r\n");
    let refused = "SERVER_ERROR object too large for cache\r\n";
    let expected = format!("STORED\r\n{refused}VALUE k 0 1\r\nx\r\nEND\r\n{refused}END\r\n{refused}");
    assert_eq!(talk(&bytes).0, expected);
}

/// Else one over the limit would remove the key.
#[test]
fn a_meta_set_is_not_known_however_long_its_value_is() {
    for length in [1, 5_000] {
        let value = "y".repeat(length);
        let (answers, _) =
            talk(format!("set k 0 0 1\r\nx\r\nms k {length}\r\n{value}\r\nget k\r\n").as_bytes());
        assert_eq!(answers, "STORED\r\nERROR\r\nVALUE k 0 1\r\nx\r\nEND\r\n", "{length}");
    }
}

#[test]
fn statistics_have_memcacheds_names_and_can_be_reset() {
    let (answers, _) = talk(b"set k 0 0 1\r\nx\r\nget k j\r\nstats\r\nstats reset\r\nstats\r\n");
    for line in [
        "STAT pid 7\r\n",
        "STAT uptime 42\r\n",
        "STAT time 1700000000\r\n",
        "STAT version 0.1.0\r\n",
        "STAT cmd_get 2\r\n",
        "STAT cmd_set 1\r\n",
        "STAT get_hits 1\r\n",
        "STAT get_misses 1\r\n",
        "STAT limit_maxbytes 1048576\r\n",
        "STAT curr_items 1\r\n",
        "STAT bytes 162\r\n",
        "STAT threads 1\r\n",
        "RESET\r\n",
        "STAT cmd_get 0\r\n",
    ] {
        assert!(answers.contains(line), "{line:?} in {answers}");
    }
    assert_eq!(talk(b"stats items\r\nstats foo\r\n").0, "END\r\nERROR\r\n");
    assert!(talk(b"stats settings\r\n").0.contains("STAT item_size_max 4096\r\n"));
}

/// Bytes a client may send: whole requests, broken ones, and rubbish.
fn script() -> impl Strategy<Value = Vec<u8>> {
    let key = prop::sample::select(vec!["a", "b", "kk"]);
    let noreply = prop::sample::select(vec!["", " noreply"]);
    let storage =
        (prop::sample::select(vec!["set", "add", "append", "prepend", "replace"]), key.clone(), 0_usize..60)
            .prop_flat_map(move |(word, key, length)| {
                (Just((word, key)), prop::collection::vec(any::<u8>(), length), noreply.clone())
            })
            .prop_map(|((word, key), data, noreply)| {
                let mut bytes = format!("{word} {key} 3 0 {}{noreply}\r\n", data.len()).into_bytes();
                bytes.extend_from_slice(&data);
                bytes.extend_from_slice(b"\r\n");
                bytes
            });
    let line = (
        prop::sample::select(vec![
            "get K K a b\r\n",
            "gets K a\r\n",
            "gat 0 K b\r\n",
            "incr K 7\r\n",
            "decr K 7\r\n",
            "delete K\r\n",
            "cas K 0 0 1 1\r\nx\r\n",
            "set K 0 0 1\r\nxyz\r\n",
            "set K 0 0 9999\r\n",
            "set K 0 0\r\n",
            "touch K 0\r\n",
            "stats\r\n",
            "nonsense K\n",
            "\r\n",
        ]),
        key,
    )
        .prop_map(|(line, key)| line.replace('K', key).into_bytes());
    prop::collection::vec(prop_oneof![3 => storage, 4 => line], 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    /// Where the network cuts the bytes must not matter, nor how much of the answers may wait at a
    /// time.
    #[test]
    fn every_cut_and_every_allowance_gives_the_same_answers(
        bytes in script(),
        cuts in prop::collection::vec(1_usize..40, 1..20),
        allowance in 1_usize..200,
    ) {
        let mut state = state();
        let mut session = CacheSession::default();
        let mut out = Vec::new();
        let (mut start, mut end) = (0, 0);
        let mut cuts = cuts.into_iter().cycle();
        loop {
            let before = out.len();
            let (used, progress) = session.serve(&mut state, NOW, &bytes[start..end], &mut out, allowance);
            start += used;
            match progress {
                SessionProgress::Full => prop_assert!(out.len() - before >= allowance),
                SessionProgress::Close => break,
                SessionProgress::Hungry { needed } => {
                    prop_assert!(needed > end - start, "{needed} are needed, {} are there", end - start);
                    if end == bytes.len() {
                        break;
                    }
                    // At least what is needed, if there is so much.
                    end = (end + cuts.next().expect("endless")).min(bytes.len());
                }
            }
        }
        prop_assert_eq!(String::from_utf8_lossy(&out).into_owned(), talk(&bytes).0);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        talk(&bytes);
    }
}
