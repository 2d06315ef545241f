//! The hosts and ports that a service has, as a name service knows them (DNS SRV, RFC 2782).
//!
//! The system's resolver cannot be asked for them. So its name servers are asked directly: by a
//! datagram, and where the answer is too long for one, by a connection. Names are asked for as they
//! are written, without the search list.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use krarup_units::mistake::system_words;
use krarup_units::{Address, Mistake};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE};

/// How long one name server has for its answer, each of [`ATTEMPTS`] times.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often all of them are asked.
const ATTEMPTS: usize = 2;
/// More bytes do not come in one datagram.
const DATAGRAM: usize = 4_096;
/// Bytes before the first question.
const HEADER: usize = 12;

/// The servers of a service, in one order whatever the name service says first. Blocks until a name
/// server has answered, or for some seconds. Priorities and weights are not heeded: which server
/// holds a key is the placement's.
///
/// # Errors
/// Names the service: there is no such name, it has no server, or no name server answers.
pub fn servers_of(service: &Address) -> Result<Vec<Address>, Mistake> {
    servers_by(service, &name_servers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default()))
}

/// The name servers of a `resolv.conf`; without any it is this machine's.
fn name_servers(text: &str) -> Vec<SocketAddr> {
    let mut found: Vec<SocketAddr> = text.lines().filter_map(name_server).collect();
    if found.is_empty() {
        found.push((Ipv4Addr::LOCALHOST, 53).into());
    }
    found
}

/// The name server of one line, if it has one.
fn name_server(line: &str) -> Option<SocketAddr> {
    let rest = line.trim().strip_prefix("nameserver")?.trim_start();
    let number = rest.split(|letter: char| letter.is_whitespace() || matches!(letter, '#' | ';')).next()?;
    if let Some((address, _)) = number.split_once('%') {
        // The system knows the interfaces. It must not be asked for a name.
        address.parse::<Ipv6Addr>().ok()?;
        return (number, 53).to_socket_addrs().ok()?.next();
    }
    Some((number.parse::<IpAddr>().ok()?, 53).into())
}

fn servers_by(service: &Address, name_servers: &[SocketAddr]) -> Result<Vec<Address>, Mistake> {
    let name = service.service().unwrap_or(&service.host);
    let wrong = |why: &str| Mistake::plain(format!("`{service}` cannot be looked up: {why}"));
    let asked = Name::new(name)
        .map_err(|_| wrong("it is longer than 255 bytes, or has a part that is empty or longer than 63"))?;
    let mut last = String::new();
    for server in name_servers.iter().cycle().take(name_servers.len() * ATTEMPTS) {
        match ask(&asked, *server) {
            Ok(Answer::Servers(found)) if found.is_empty() => return Err(wrong("it has no server")),
            Ok(Answer::Servers(found)) => return Ok(found),
            Ok(Answer::Unknown) => return Err(wrong("there is no such name")),
            Ok(Answer::Refused(why)) => last = format!("the name server {server} answers {why}"),
            Err(error) => last = format!("the name server {server}: {}", system_words(&error)),
        }
    }
    Err(wrong(&last))
}

/// What a name server says.
enum Answer {
    Servers(Vec<Address>),
    /// There is no such name.
    Unknown,
    /// It cannot or will not say; another may.
    Refused(String),
}

/// Asks one name server.
fn ask(name: &Name<'_>, server: SocketAddr) -> io::Result<Answer> {
    let invalid =
        |error: simple_dns::SimpleDnsError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    let local: SocketAddr = if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(local)?;
    // Answers of others do not arrive here: the kernel has drawn the port.
    socket.connect(server)?;
    // It is not known to those who see neither the question nor this process.
    let id = RandomState::new().build_hasher().finish() as u16;
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(Question::new(name.clone(), TYPE::SRV.into(), CLASS::IN.into(), false));
    let question = packet.build_bytes_vec().map_err(invalid)?;
    socket.send(&question)?;
    let end = Instant::now() + PATIENCE;
    let mut room = vec![0; DATAGRAM];
    let mut answer = loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let count = socket.recv(&mut room)?;
        // A late answer to another question is passed over, as is one that was made up.
        if is_answer(&room[..count], &question) {
            break room[..count].to_vec();
        }
    };
    let is_cut = Packet::parse(&answer).map_or(true, |cut| cut.has_flags(PacketFlag::TRUNCATION));
    if is_cut {
        answer = ask_at_length(&question, server)?;
    }
    read(&Packet::parse(&answer).map_err(invalid)?)
}

/// Whether it has the number of a question and repeats it, in whatever case.
fn is_answer(bytes: &[u8], question: &[u8]) -> bool {
    let repeated = bytes.get(HEADER..question.len());
    bytes.starts_with(&question[..2])
        && repeated.is_some_and(|repeated| repeated.eq_ignore_ascii_case(&question[HEADER..]))
}

/// Asks by a connection, over which an answer may have any length.
fn ask_at_length(question: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&[&(question.len() as u16).to_be_bytes(), question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn read(packet: &Packet<'_>) -> io::Result<Answer> {
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(Answer::Unknown),
        other => return Ok(Answer::Refused(format!("{other:?}"))),
    }
    let mut found = Vec::new();
    for record in &packet.answers {
        if let RData::SRV(server) = &record.rdata {
            let host = server.target.to_string();
            // A dot alone says that the service is decidedly not there.
            let host = host.trim_end_matches('.');
            if !host.is_empty() {
                // Some name services change the case from one answer to the next.
                found.push(Address { host: host.to_ascii_lowercase(), port: server.port });
            }
        }
    }
    found.sort_unstable_by(|one, other| (&one.host, one.port).cmp(&(&other.host, other.port)));
    found.dedup();
    Ok(Answer::Servers(found))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use simple_dns::ResourceRecord;
    use simple_dns::rdata::SRV;

    use super::*;

    /// The answer to a question: these servers, as a whole, or cut off.
    fn answer(question: &[u8], servers: &[(&str, u16)], rcode: RCODE, is_cut: bool) -> Vec<u8> {
        let asked = Packet::parse(question).unwrap();
        let mut packet = Packet::new_reply(asked.id());
        *packet.rcode_mut() = rcode;
        packet.questions.clone_from(&asked.questions);
        let name = asked.questions[0].qname.clone();
        for (target, port) in servers {
            let target = Name::new(target).unwrap();
            let server = RData::SRV(SRV { priority: 0, weight: 33, port: *port, target });
            packet.answers.push(ResourceRecord::new(name.clone(), CLASS::IN, 5, server));
        }
        if is_cut {
            packet.set_flags(PacketFlag::TRUNCATION);
            packet.answers.clear();
        }
        packet.build_bytes_vec().unwrap()
    }

    /// A question with the number of this one about another service.
    fn about_another(question: &[u8]) -> Vec<u8> {
        let mut packet = Packet::new_query(Packet::parse(question).unwrap().id());
        let name = Name::new("_memcache._tcp.other.example").unwrap();
        packet.questions.push(Question::new(name, TYPE::SRV.into(), CLASS::IN.into(), false));
        packet.build_bytes_vec().unwrap()
    }

    /// A socket for datagrams, and one for connections at the same port. A port that is free for
    /// the first may be another program's for the second: then the next is tried.
    fn sockets(is_long: bool) -> (UdpSocket, Option<TcpListener>) {
        let mut taken = Vec::new();
        loop {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            if !is_long {
                return (socket, None);
            }
            match TcpListener::bind(socket.local_addr().unwrap()) {
                Ok(listener) => return (socket, Some(listener)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => taken.push(socket),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A name server that answers one question, by a connection where datagrams are too short. An
    /// answer to another question comes first, and is passed over.
    fn name_server(servers: Vec<(&'static str, u16)>, rcode: RCODE, is_long: bool) -> SocketAddr {
        let (socket, listener) = sockets(is_long);
        let address = socket.local_addr().unwrap();
        thread::spawn(move || {
            let mut room = [0; 512];
            let (count, client) = socket.recv_from(&mut room).unwrap();
            let other = about_another(&room[..count]);
            socket.send_to(&answer(&other, &[("x.example", 1)], RCODE::NoError, false), client).unwrap();
            socket.send_to(&answer(&room[..count], &servers, rcode, is_long), client).unwrap();
            let Some(listener) = listener else { return };
            let (mut stream, _) = listener.accept().unwrap();
            let mut length = [0; 2];
            stream.read_exact(&mut length).unwrap();
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut question).unwrap();
            let whole = answer(&question, &servers, rcode, false);
            stream.write_all(&[&(whole.len() as u16).to_be_bytes(), &whole[..]].concat()).unwrap();
        });
        address
    }

    fn servers(service: &str, server: SocketAddr) -> Result<Vec<String>, Mistake> {
        let found = servers_by(&service.parse().unwrap(), &[server])?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    const SERVICE: &str = "srv:_memcache._tcp.cache.example";

    #[test]
    fn servers_come_in_one_order_however_long_the_answer_is() {
        for is_long in [false, true] {
            let said = vec![("cache-1.cache.example", 11211), ("cache-0.cache.example", 11212), (".", 1)];
            let found = servers(SERVICE, name_server(said, RCODE::NoError, is_long));
            assert_eq!(found.unwrap(), ["cache-0.cache.example:11212", "cache-1.cache.example:11211"]);
        }
    }

    #[test]
    fn a_server_is_the_same_in_whatever_case_its_name_is_written() {
        let said = vec![("Cache-0.Cache.Example", 11211), ("cache-0.cache.example", 11211)];
        let found = servers(SERVICE, name_server(said, RCODE::NoError, false));
        assert_eq!(found.unwrap(), ["cache-0.cache.example:11211"]);
    }

    #[test]
    fn a_service_that_is_not_there_is_named_with_the_reason() {
        let told = |servers_said, rcode| {
            servers(SERVICE, name_server(servers_said, rcode, false)).unwrap_err().to_string()
        };
        assert!(told(Vec::new(), RCODE::NameError).contains("there is no such name"));
        let none = told(Vec::new(), RCODE::NoError);
        assert!(none.contains(SERVICE) && none.contains("it has no server"), "{none}");
    }

    #[test]
    fn no_name_server_is_blamed_for_a_name_that_cannot_be_asked_for() {
        let long = format!("srv:_memcache._tcp.{}example", "cache.".repeat(50));
        let told = servers(&long, "127.0.0.1:53".parse().unwrap()).unwrap_err().to_string();
        assert!(told.contains("longer than 255 bytes") && !told.contains("name server"), "{told}");
    }

    #[test]
    fn name_servers_are_those_of_the_system() {
        let text = "search a.example\nnameserver 10.0.0.10\n nameserver ::1\n# nameserver 1.1.1.1\noptions ndots:5\n";
        assert_eq!(name_servers(text), ["10.0.0.10:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        let text = "nameserver 10.0.0.10 # ours\nnameserver fe80::1%1;\nnameserver x%1\n";
        assert_eq!(name_servers(text), ["10.0.0.10:53".parse().unwrap(), "[fe80::1%1]:53".parse().unwrap()]);
        assert_eq!(name_servers(""), ["127.0.0.1:53".parse().unwrap()]);
    }
}
