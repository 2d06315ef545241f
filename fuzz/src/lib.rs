//! What must hold for any bytes: one `check` for each kind of reader. The fuzzer calls them with
//! bytes it invents, `tests/seeds.rs` with the seeds and with mutations of them that are the same
//! every time.

#![forbid(unsafe_code)]

pub mod beanstalk;
pub mod forms;
pub mod imports;
pub mod proxied;
pub mod queued;
pub mod records;
pub mod replies;
pub mod requests;
pub mod sessions;
pub mod traces;

use krarup_units::Parsed;

/// A name and its check.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 10] = [
    ("requests", requests::check),
    ("replies", replies::check),
    ("sessions", sessions::check),
    ("forms", forms::check),
    ("records", records::check),
    ("imports", imports::check),
    ("proxied", proxied::check),
    ("queued", queued::check),
    ("beanstalk", beanstalk::check),
    ("traces", traces::check),
];

/// How many cuts of one input are looked at; more would cost a fuzzer its speed.
const CUTS: usize = 24;

/// Where the network cuts the bytes decides nothing: what was decided stays, and less than what is
/// needed never decides.
fn cuts_decide_nothing<'a, T: PartialEq + std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    bytes: &'a [u8],
    parse: impl Fn(&'a [u8]) -> Parsed<T, E>,
) {
    let whole = parse(bytes);
    if let Parsed::Incomplete { needed } = whole {
        assert!(needed > bytes.len(), "{needed} bytes are needed, and {} are there", bytes.len());
    }
    let step = bytes.len() / CUTS + 1;
    for cut in (0..bytes.len()).step_by(step) {
        match parse(&bytes[..cut]) {
            Parsed::Incomplete { needed } => {
                assert!(needed > cut, "{needed} bytes are needed, and {cut} are there");
                let less = (needed - 1).min(bytes.len());
                let outcome = parse(&bytes[..less]);
                assert!(
                    matches!(outcome, Parsed::Incomplete { .. }),
                    "{less} bytes are {outcome:?}, but with {cut} of them {needed} were needed"
                );
            }
            decided => assert_eq!(decided, whole, "cut at {cut}"),
        }
    }
}
