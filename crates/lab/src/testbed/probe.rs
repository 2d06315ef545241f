//! What this machine and the stations that it reaches are asked before and between trials.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use krarup_units::{Address, Seconds};

/// How long one may take to answer a word, or to take a connection.
const WORD: Duration = Duration::from_secs(5);

/// A port of an address of this machine that was free a moment ago, for programs that cannot be
/// told to choose one themselves.
///
/// # Errors
/// From the system.
pub fn free_port(address: &str) -> io::Result<u16> {
    Ok(TcpListener::bind((address, 0))?.local_addr()?.port())
}

/// A connection to the first address of a station's name that takes one.
fn connect(address: &Address) -> io::Result<TcpStream> {
    krarup_net::connect_any(&krarup_net::resolve(address).map_err(io::Error::other)?, WORD)
}

/// Says something to a station from here, and listens to the end.
///
/// # Errors
/// From the system.
pub fn ask(address: &Address, words: &str) -> io::Result<String> {
    let mut stream = connect(address)?;
    stream.set_read_timeout(Some(WORD))?;
    stream.write_all(words.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
}

/// How long connections from here take, one after the other.
///
/// # Errors
/// From the system.
pub fn round_trips(address: &Address, count: u32) -> io::Result<Vec<Seconds>> {
    let to = connect(address)?.peer_addr()?;
    let one = |_| {
        let begun = Instant::now();
        TcpStream::connect_timeout(&to, WORD).map(|_| begun.elapsed().as_secs_f64())
    };
    (0..count).map(one).collect()
}

/// Where Debian keeps PostgreSQL's programs, those of each version in `VERSION/bin`.
pub const POSTGRES_VERSIONS: &str = "/usr/lib/postgresql";

/// Where PostgreSQL's programs are: on the path, or those of the newest of [`POSTGRES_VERSIONS`].
pub fn postgres_programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).find(|folder| folder.join("initdb").exists());
    let versions = fs::read_dir(POSTGRES_VERSIONS).ok().into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, folder)| folder.join("initdb").exists())
        .max();
    on_path.or(newest.map(|(_, folder)| folder))
}

/// The installed PostgreSQL's words for its version.
pub fn postgres() -> Option<String> {
    let output = Command::new(postgres_programs()?.join("postgres")).arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The installed twemproxy and its version, as `nutcracker` says it.
pub fn nutcracker() -> Option<String> {
    let output = Command::new(super::twemproxy::PROGRAM).arg("-V").output().ok()?;
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let version = said.split("nutcracker-").nth(1)?.split_whitespace().next()?;
    Some(format!("twemproxy {version}"))
}

/// The installed memcached's words for its version.
pub fn memcached() -> Option<String> {
    let output = Command::new("memcached").arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
