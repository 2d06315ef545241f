//! Reading allocates nothing, and neither does writing where there is room.

use allocation_counter::measure;
use krarup_beanstalk::{Put, Reply, Request, reply, request, write};
use krarup_units::Parsed;

#[test]
fn requests_and_replies_are_read_and_written_without_memory_of_their_own() {
    let put = Request::Put(Put { priority: 1, ttr: 60, body: b"hello", ..Put::default() });
    let mut out = Vec::with_capacity(4_096);
    let counted = measure(|| {
        for _ in 0..10 {
            out.clear();
            write::request(&mut out, &put);
            assert!(matches!(request::parse(&out, 100), Parsed::Complete { message: Request::Put(_), .. }));
            out.clear();
            write::message(&mut out, krarup_beanstalk::ReplyWord::Reserved, 7, None, b"hello");
            assert!(matches!(reply::parse(&out), Parsed::Complete { message: Reply::Message { .. }, .. }));
        }
    });
    assert_eq!(counted.count_total, 0);
}
