//! Just enough of HTTP/1.1 to be asked how one is and told what to do: `GET`, `HEAD` and `POST` without a body, one answer for each
//! connection, a thread of its own.
//!
//! Whoever asks is somebody's monitoring, so everything is bounded and nothing is kept: a request line and headers of 8 KiB at
//! most, two seconds to send them, then the answer and the end.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Address;

/// The longest head of a request, in bytes.
const LONGEST_HEAD: usize = 8 << 10;
/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: u64 = 16 << 20;
/// How long a client may take over its request, and over taking the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a path is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// 200, 404, 405, 409 or 503.
    pub status: u16,
    /// The media type.
    pub kind: &'static str,
    /// What is sent; not to `HEAD`.
    pub body: String,
}

impl Answer {
    /// Plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// What is asked of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// To be told something (`GET`, or `HEAD`, which is told less).
    Get,
    /// To have something done.
    Post,
}

/// A thread that answers; it ends when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// Where it listens, with the port it got.
    pub address: Address,
    bound: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // It looks when somebody comes. Where nobody can, it looks when somebody does.
        let _ = TcpStream::connect_timeout(&self.bound, PATIENCE);
    }
}

/// Listens on `address` and answers each request by what `answer` makes of its method and its path (without the query), on a thread of
/// its own. `POST` without a body is taken; nothing is done with one.
///
/// # Errors
/// With the address and the reason, where it cannot be listened on.
pub fn serve(
    address: &Address,
    answer: impl Fn(Method, &str) -> Answer + Send + 'static,
) -> Result<Server, String> {
    let wrong = |error: io::Error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(&address.resolve()?[..]).map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let serving = move || {
        for stream in listener.incoming() {
            if ended.load(Ordering::Acquire) {
                return;
            }
            match stream {
                // One who goes away in the middle is of no concern to the next.
                Ok(mut stream) => _ = converse(&mut stream, &answer),
                // No descriptors: they come back when something else is closed.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    thread::Builder::new().name("admin".into()).spawn(serving).map_err(wrong)?;
    Ok(Server { address: bound.into(), bound, over })
}

/// Asks a server of this kind for a path; the body of its answer.
///
/// # Errors
/// In plain words, with the address: where it cannot be asked, or answers anything but 200.
pub fn get(address: &Address, path: &str) -> Result<String, String> {
    let ask = || -> io::Result<Vec<u8>> {
        let candidates = address.resolve().map_err(io::Error::other)?;
        let mut stream = TcpStream::connect(&candidates[..])?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut told = Vec::new();
        stream.take(LONGEST_ANSWER).read_to_end(&mut told)?;
        Ok(told)
    };
    let told = ask().map_err(|error| format!("{address} cannot be asked: {error}"))?;
    let head = end_of_head(&told).ok_or_else(|| format!("what {address} answers is no HTTP"))?;
    let line = String::from_utf8_lossy(&told[..head]).lines().next().unwrap_or_default().to_owned();
    match line.split(' ').nth(1) {
        Some("200") => Ok(String::from_utf8_lossy(&told[head..]).into_owned()),
        _ => Err(format!("{address} answers {path} with `{line}`")),
    }
}

fn converse(stream: &mut TcpStream, answer: impl Fn(Method, &str) -> Answer) -> io::Result<()> {
    let begun = Instant::now();
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut some = [0; 1_024];
    let answer = loop {
        if let Some(length) = end_of_head(&head) {
            break respond(&head[..length], answer);
        }
        let left = PATIENCE.saturating_sub(begun.elapsed());
        if head.len() > LONGEST_HEAD || left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut some)? {
            0 => return Ok(()),
            count => head.extend_from_slice(&some[..count]),
        }
    };
    stream.write_all(answer.as_bytes())
}

/// Behind the empty line, if it has come.
fn end_of_head(head: &[u8]) -> Option<usize> {
    let crlf = head.windows(4).position(|four| four == b"\r\n\r\n").map(|place| place + 4);
    crlf.or_else(|| head.windows(2).position(|two| two == b"\n\n").map(|place| place + 2))
}

/// The whole answer to a request with this head, whatever it is.
pub fn respond(head: &[u8], answer: impl Fn(Method, &str) -> Answer) -> String {
    let line = head.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target, version) = (words.next(), words.next(), words.next());
    let good = version.is_some_and(|version| version.starts_with("HTTP/1.")) && words.next().is_none();
    let answer = match (method, target) {
        (Some(method @ ("GET" | "HEAD" | "POST")), Some(target)) if good => {
            let method = if method == "POST" { Method::Post } else { Method::Get };
            answer(method, target.split('?').next().unwrap_or_default())
        }
        _ if good => Answer::text(405, "only GET, HEAD and POST are answered\n"),
        _ => Answer::text(400, "this is no HTTP/1.1\n"),
    };
    let reason = match answer.status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        _ => "Service Unavailable",
    };
    let allow = match (answer.status, method) {
        (405, Some("POST")) => "Allow: GET, HEAD\r\n",
        (405, _) => "Allow: POST\r\n",
        _ => "",
    };
    let body = if method == Some("HEAD") { "" } else { &answer.body };
    format!(
        "HTTP/1.1 {} {reason}\r\n{allow}Content-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        answer.status,
        answer.kind,
        answer.body.len(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(method: Method, path: &str) -> Answer {
        match (method, path) {
            (Method::Get, "/here") => Answer::text(200, "well\n"),
            (Method::Post, "/do") => Answer::text(200, "done\n"),
            (Method::Post, "/here") => Answer::text(405, "only GET\n"),
            _ => Answer::text(404, ""),
        }
    }

    #[test]
    fn a_path_is_answered_without_its_query_and_head_without_its_body() {
        let answered = |head: &str| respond(head.as_bytes(), answer);
        assert_eq!(
            answered("GET /here?a=b HTTP/1.1\r\nHost: x\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 5\r\nConnection: close\r\n\r\nwell\n"
        );
        let head = answered("HEAD /here HTTP/1.0\n\n");
        assert!(head.contains("Content-Length: 5") && head.ends_with("\r\n\r\n"));
        assert!(answered("GET /there HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 Not Found"));
    }

    #[test]
    fn what_is_no_get_is_refused_and_what_is_no_http_too() {
        let status = |head: &[u8]| respond(head, answer)[9..12].to_owned();
        assert_eq!(status(b"POST /here HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status(b"PUT /here HTTP/1.1\r\n\r\n"), "405");
        assert_eq!(status(b"POST /do?now HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), "200");
        for head in [
            &b"get key\r\n\r\n"[..],
            b"GET /here\r\n\r\n",
            b"\r\n\r\n",
            b"GET / here HTTP/1.1\r\n\r\n",
            b"\xff\xfe\r\n\r\n",
        ] {
            assert_eq!(status(head), "400", "{}", head.escape_ascii());
        }
    }

    #[test]
    fn several_ask_in_turn_in_pieces_and_one_gives_up() {
        let bound = serve(&"127.0.0.1:0".parse().unwrap(), answer).unwrap();
        let connect = || TcpStream::connect(bound.bound).unwrap();
        drop(connect());
        for _ in 0..3 {
            let mut stream = connect();
            for piece in ["GET /he", "re HTTP/1.1\r", "\n\r\n"] {
                stream.write_all(piece.as_bytes()).unwrap();
            }
            let mut told = String::new();
            stream.read_to_string(&mut told).unwrap();
            assert!(told.starts_with("HTTP/1.1 200 OK") && told.ends_with("well\n"), "{told}");
        }
    }

    #[test]
    fn what_is_asked_for_is_told_and_what_is_not_there_is_an_error_with_the_address() {
        let server = serve(&"127.0.0.1:0".parse().unwrap(), answer).unwrap();
        assert_eq!(get(&server.address, "/here").as_deref(), Ok("well\n"));
        let error = get(&server.address, "/there").unwrap_err();
        assert!(error.contains("404") && error.contains(&server.address.to_string()), "{error}");
        let nobody = Address { port: 1, ..server.address.clone() };
        assert!(get(&nobody, "/here").unwrap_err().contains("cannot be asked"));
    }

    #[test]
    fn who_is_dropped_listens_no_more() {
        let server = serve(&"127.0.0.1:0".parse().unwrap(), answer).unwrap();
        let address = server.address.clone();
        drop(server);
        // The thread sees it when it is woken, and closes the socket then.
        while TcpStream::connect(address.resolve().unwrap()[0]).is_ok() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_head_without_end_is_not_read_to_it() {
        let bound = serve(&"127.0.0.1:0".parse().unwrap(), answer).unwrap();
        let mut stream = TcpStream::connect(bound.bound).unwrap();
        // It closes in the middle, so that writing or reading may fail: what counts is that it ends.
        _ = stream.write_all(&[b'x'; 64 << 10]);
        let mut told = String::new();
        _ = stream.read_to_string(&mut told);
        assert_eq!(told, "");
    }
}
