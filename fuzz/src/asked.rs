//! What comes to the admin address: any head of a request gets one whole answer.

use krarup_net::http::{Answer, Method, respond};

/// The head of a request over HTTP.
pub fn check(bytes: &[u8]) {
    let told = respond(bytes, |method, path| {
        // What is no text is shown as such, in three bytes for one.
        assert!(path.len() <= 3 * bytes.len());
        match method {
            Method::Get => Answer::text(200, "numbers\n"),
            Method::Post => Answer::text(409, "why\n"),
        }
    });
    let (head, body) = told.split_once("\r\n\r\n").expect("a head ends");
    let status =
        head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("a status stands in front");
    assert!(["200", "400", "405", "409"].contains(&status), "{told}");
    let length =
        head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("its length is told");
    assert!(body.is_empty() || length == body.len().to_string(), "{told}");
    assert_eq!(head.lines().filter(|line| line.starts_with("HTTP/1.1 ")).count(), 1, "{told}");
}
