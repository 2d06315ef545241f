//! beanstalkd's protocol in both directions: no cut matters, bodies are within bounds, and what was
//! read is written alike.

use krarup_beanstalk::{InvalidRequest, Reply, Request, Verb, reply, request, write};
use krarup_load::queue;
use krarup_units::Parsed;

const LARGEST: u32 = 600;

/// The first byte chooses the direction, the rest is what a peer sends.
pub fn check(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    if first % 2 == 0 {
        crate::cuts_decide_nothing(bytes, |bytes| request::parse(bytes, LARGEST));
        match request::parse(bytes, LARGEST) {
            Parsed::Complete { message, used } => request_reads_back(&message, &bytes[..used]),
            Parsed::Invalid(InvalidRequest::Discard { discard, .. }) => assert!(discard > 0),
            Parsed::Invalid(InvalidRequest::Endless) => assert!(bytes.len() >= request::LONGEST_EXTRA_LINE),
            Parsed::Incomplete { .. } => {}
        }
    } else {
        crate::cuts_decide_nothing(bytes, reply::parse);
        if let Parsed::Complete { message, used } = reply::parse(bytes) {
            assert!(used > 0 && used <= bytes.len());
            reply_reads_back(&message);
        }
        for &verb in Verb::ALL {
            if let Parsed::Complete { used, .. } = queue::parse(bytes, verb) {
                assert!(used > 0 && used <= bytes.len());
            }
        }
    }
}

fn request_reads_back(request: &Request<'_>, bytes: &[u8]) {
    assert!(!bytes.is_empty() && bytes.ends_with(b"\r\n"));
    match request {
        Request::Put(put) => assert!(put.body.len() <= LARGEST as usize),
        Request::PutBatch(batch) => {
            assert!(!batch.is_empty() && batch.iter().all(|put| put.body.len() <= LARGEST as usize));
        }
        _ => {}
    }
    let mut out = Vec::new();
    write::request(&mut out, request);
    assert_eq!(request::parse(&out, LARGEST), Parsed::Complete { message: *request, used: out.len() });
}

fn reply_reads_back(reply: &Reply<'_>) {
    if let Reply::Batch { replies, .. } = reply {
        assert_eq!(replies.iter().count() as u64, replies.len());
    }
    let mut out = Vec::new();
    write::reply(&mut out, reply);
    assert_eq!(reply::parse(&out), Parsed::Complete { message: *reply, used: out.len() });
}
