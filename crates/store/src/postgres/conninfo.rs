//! The text that says where a database is, as PostgreSQL's own programs read it: a URL, or words
//! with values. Nothing is looked up here.
//!
//! The grammar is that of libpq:
//! <https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING>.
//! No message quotes a value: it may be a password, or a part of one.

use std::collections::BTreeMap;

use krarup_units::Mistake;
use percent_encoding::percent_decode_str;

/// Values by keyword, of those that were given.
pub(super) type Keywords = BTreeMap<String, String>;

/// What each keyword is for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeywordUse {
    /// It says how to connect.
    Used,
    /// libpq knows it, and here it makes no difference.
    Ignored,
    /// What stands in the second place cannot be had here; what stands there is what would do.
    Refused(&'static str),
}

/// Every keyword of libpq 17, the environment variable that gives it its default ("": none does),
/// and what becomes of it here.
pub(super) const KEYWORDS: &[(&str, &str, KeywordUse)] = &[
    ("application_name", "PGAPPNAME", KeywordUse::Used),
    ("channel_binding", "PGCHANNELBINDING", KeywordUse::Used),
    ("client_encoding", "PGCLIENTENCODING", KeywordUse::Ignored),
    ("connect_timeout", "PGCONNECT_TIMEOUT", KeywordUse::Used),
    ("dbname", "PGDATABASE", KeywordUse::Used),
    ("fallback_application_name", "", KeywordUse::Ignored),
    ("gssdelegation", "PGGSSDELEGATION", KeywordUse::Ignored),
    ("gssencmode", "PGGSSENCMODE", KeywordUse::Used),
    ("gsslib", "PGGSSLIB", KeywordUse::Ignored),
    ("host", "PGHOST", KeywordUse::Used),
    ("hostaddr", "PGHOSTADDR", KeywordUse::Used),
    ("keepalives", "", KeywordUse::Used),
    ("keepalives_count", "", KeywordUse::Used),
    ("keepalives_idle", "", KeywordUse::Used),
    ("keepalives_interval", "", KeywordUse::Used),
    // The name of the same in the library below.
    ("keepalives_retries", "", KeywordUse::Used),
    ("krbsrvname", "PGKRBSRVNAME", KeywordUse::Ignored),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", KeywordUse::Ignored),
    ("options", "PGOPTIONS", KeywordUse::Used),
    ("passfile", "PGPASSFILE", KeywordUse::Used),
    ("password", "PGPASSWORD", KeywordUse::Used),
    ("port", "PGPORT", KeywordUse::Used),
    ("replication", "", KeywordUse::Refused("leave it out: a broker is no replica")),
    ("require_auth", "PGREQUIREAUTH", KeywordUse::Refused("channel_binding=require asks for SCRAM over TLS")),
    ("requirepeer", "PGREQUIREPEER", KeywordUse::Refused("the folder of the socket says whose server it is")),
    ("requiressl", "PGREQUIRESSL", KeywordUse::Refused("write sslmode=require")),
    ("service", "PGSERVICE", KeywordUse::Used),
    ("servicefile", "PGSERVICEFILE", KeywordUse::Used),
    ("sslcert", "PGSSLCERT", KeywordUse::Used),
    ("sslcertmode", "PGSSLCERTMODE", KeywordUse::Used),
    ("sslcompression", "PGSSLCOMPRESSION", KeywordUse::Ignored),
    ("sslcrl", "PGSSLCRL", KeywordUse::Used),
    ("sslcrldir", "PGSSLCRLDIR", KeywordUse::Refused("put the lists into one file and name it with sslcrl")),
    ("sslkey", "PGSSLKEY", KeywordUse::Used),
    (
        "sslpassword",
        "",
        KeywordUse::Refused("write the key without a password, and let only the broker's user read it"),
    ),
    ("sslmode", "PGSSLMODE", KeywordUse::Used),
    ("sslnegotiation", "PGSSLNEGOTIATION", KeywordUse::Used),
    ("sslrootcert", "PGSSLROOTCERT", KeywordUse::Used),
    ("sslsni", "PGSSLSNI", KeywordUse::Used),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", KeywordUse::Used),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", KeywordUse::Used),
    ("target_session_attrs", "PGTARGETSESSIONATTRS", KeywordUse::Used),
    ("tcp_user_timeout", "", KeywordUse::Used),
    ("user", "PGUSER", KeywordUse::Used),
];

/// Reads a URL (`postgres://…`, `postgresql://…`) or words with values (`host=… dbname=…`).
///
/// # Errors
/// The text is neither, or a keyword is not known or cannot be had here.
pub(super) fn parse(text: &str) -> Result<Keywords, Mistake> {
    let text = text.trim();
    let url = ["postgres://", "postgresql://"].iter().find_map(|prefix| text.strip_prefix(prefix));
    let mut keywords = Keywords::new();
    match url {
        Some(rest) => parse_url(rest, &mut keywords)?,
        None => parse_words(text, &mut keywords)?,
    }
    Ok(keywords)
}

/// What keeps a value from running over into the next.
const QUOTES: &str =
    "a value with spaces or quotes is written '…', with \\' for '; a URL has %3F for ? and %26 for &";

/// Takes a value in, if its keyword is one.
///
/// # Errors
/// It is not known, or cannot be had here.
pub(super) fn set(keywords: &mut Keywords, keyword: &str, value: String) -> Result<(), Mistake> {
    let Some((_, _, treatment)) = KEYWORDS.iter().find(|(known, _, _)| *known == keyword) else {
        // The word itself may be a part of a password that was not quoted.
        let what = "a word before `=` is no parameter of a connection to PostgreSQL".to_owned();
        let near = Mistake::unknown(what, keyword, KEYWORDS.iter().map(|(known, _, _)| *known));
        return Err(if near.hint.is_empty() { Mistake::new(near.what, QUOTES) } else { near });
    };
    if let KeywordUse::Refused(instead) = treatment {
        return Err(Mistake::new(format!("the parameter {keyword} cannot be had here"), *instead));
    }
    keywords.insert(keyword.to_owned(), value);
    Ok(())
}

// ---- URLs -------------------------------------------------------------------------------------

fn parse_url(rest: &str, keywords: &mut Keywords) -> Result<(), Mistake> {
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = before.split_once('/').unwrap_or((before, ""));
    let hosts = match authority.rsplit_once('@') {
        None => authority,
        Some((user, hosts)) => {
            let (user, password) = user.split_once(':').unwrap_or((user, ""));
            for (keyword, value) in [("user", user), ("password", password)] {
                if !value.is_empty() {
                    set(keywords, keyword, decode(value)?)?;
                }
            }
            hosts
        }
    };
    let (mut names, mut ports) = (Vec::new(), Vec::new());
    for one in hosts.split(',') {
        let (name, port) = match one.strip_prefix('[') {
            Some(rest) => {
                let (name, rest) = rest.split_once(']').ok_or_else(|| {
                    Mistake::new("an address in brackets has no end", "write it like [fd00::9]:5432")
                })?;
                (name, rest.strip_prefix(':').unwrap_or(rest))
            }
            None => one.split_once(':').unwrap_or((one, "")),
        };
        names.push(decode(name)?);
        ports.push(port.to_owned());
    }
    for (keyword, values) in [("host", names), ("port", ports)] {
        if values.iter().any(|value| !value.is_empty()) {
            set(keywords, keyword, values.join(","))?;
        }
    }
    if !database.is_empty() {
        set(keywords, "dbname", decode(database)?)?;
    }
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (keyword, value) = pair.split_once('=').ok_or_else(|| {
            Mistake::new(
                "a parameter behind `?` has no value",
                "write parameters like ?sslmode=require&port=5433",
            )
        })?;
        match (decode(keyword)?.as_str(), decode(value)?) {
            // As JDBC writes it.
            ("ssl", value) if value == "true" => set(keywords, "sslmode", "require".into())?,
            (keyword, value) => set(keywords, keyword, value)?,
        }
    }
    Ok(())
}

fn decode(text: &str) -> Result<String, Mistake> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| {
        Mistake::new(
            "a part of the address is no text in UTF-8",
            "write other bytes as the server's encoding UTF-8 has them",
        )
    })
}

// ---- words with values ------------------------------------------------------------------------

fn parse_words(text: &str, keywords: &mut Keywords) -> Result<(), Mistake> {
    let mut rest = text;
    while !rest.is_empty() {
        let (keyword, behind) = rest.split_once('=').ok_or_else(|| {
            Mistake::new(
                "the address is neither a URL nor words with values",
                "write it like postgres://user@127.0.0.1:5432/database, or host=127.0.0.1 user=krarup dbname=queues",
            )
        })?;
        let (value, behind) = value(behind.trim_start())?;
        set(keywords, keyword.trim(), value)?;
        rest = behind.trim_start();
    }
    Ok(())
}

/// The value at the beginning of a text, and what is behind it. In quotes it may hold spaces; a
/// backslash takes the next character as it is.
fn value(text: &str) -> Result<(String, &str), Mistake> {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, next)| next)),
            '\'' if quoted => return Ok((value, &text[at + 1..])),
            space if space.is_whitespace() && !quoted => return Ok((value, &text[at..])),
            other => value.push(other),
        }
    }
    if quoted {
        return Err(Mistake::new("a value in quotes has no end", "write it like password='two words'"));
    }
    Ok((value, ""))
}

// ---- files of services and passwords ----------------------------------------------------------

/// What a file of services says of one of them; none: it does not name it.
///
/// # Errors
/// A line of it is wrong.
pub(super) fn service(text: &str, name: &str) -> Result<Option<Keywords>, Mistake> {
    let mut found: Option<Keywords> = None;
    let mut within = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |mistake: Mistake| mistake.of(&format!("line {number}"));
        if let Some(section) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            within = section.strip_suffix(']') == Some(name);
            if within {
                found = Some(Keywords::new());
            }
        } else if let (true, Some(keywords)) = (within, &mut found) {
            let (keyword, value) = line.split_once('=').ok_or_else(|| {
                at(Mistake::new("a parameter has no value", "write it like host=db.example"))
            })?;
            let keyword = keyword.trim();
            if keyword == "service" || keyword == "servicefile" {
                return Err(at(Mistake::plain("a service cannot name another")));
            }
            set(keywords, keyword, value.trim().to_owned()).map_err(at)?;
        }
    }
    Ok(found)
}

/// The password that a file of passwords has for this connection: that of the first line of the
/// form `host:port:database:user:password` whose first four fields are these, or `*`.
pub(super) fn password(text: &str, [host, port, database, user]: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line.trim_end_matches('\r'))?;
        let is = |field: &(String, bool), wanted: &str| field.0 == wanted || (field.0 == "*" && !field.1);
        let matches =
            fields[..4].iter().zip([host, port, database, user]).all(|(field, wanted)| is(field, wanted));
        matches.then(|| fields[4].0.clone())
    })
}

/// The five fields of a line, each with whether something in it was escaped.
fn fields(line: &str) -> Option<[(String, bool); 5]> {
    let mut fields: [(String, bool); 5] = Default::default();
    let mut at = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                fields[at].0.extend(characters.next());
                fields[at].1 = true;
            }
            // What is behind the fifth belongs to the password, as far as the next colon.
            ':' if at == 4 => break,
            ':' => at += 1,
            other => fields[at].0.push(other),
        }
    }
    (at == 4).then_some(fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().collect()
    }

    fn expect(text: &str, expected: &[(&str, &str)]) {
        let expected: Vec<_> =
            expected.iter().map(|(keyword, value)| ((*keyword).to_owned(), (*value).to_owned())).collect();
        assert_eq!(pairs(text), expected, "{text}");
    }

    #[test]
    fn urls_are_read_as_libpq_reads_them() {
        expect("postgres://", &[]);
        expect("postgresql://db.example/queues", &[("dbname", "queues"), ("host", "db.example")]);
        expect("postgres://u@h1,h2/db", &[("dbname", "db"), ("host", "h1,h2"), ("user", "u")]);
        expect(
            "postgres://u:p%40%2Fss@[fd00::9]:5433,h2/db?sslmode=verify-full&connect_timeout=3",
            &[
                ("connect_timeout", "3"),
                ("dbname", "db"),
                ("host", "fd00::9,h2"),
                ("password", "p@/ss"),
                ("port", "5433,"),
                ("sslmode", "verify-full"),
                ("user", "u"),
            ],
        );
        expect("postgres://%2Frun%2Fpg/db", &[("dbname", "db"), ("host", "/run/pg")]);
        expect(
            "postgres:///db?host=/run/pg&ssl=true",
            &[("dbname", "db"), ("host", "/run/pg"), ("sslmode", "require")],
        );
    }

    #[test]
    fn words_with_values_may_be_quoted() {
        expect("host=/tmp user = krarup dbname=q", &[("dbname", "q"), ("host", "/tmp"), ("user", "krarup")]);
        expect(r"password='it\'s two words' user=a\ b", &[("password", "it's two words"), ("user", "a b")]);
        expect("", &[]);
    }

    /// Whatever is wrong with an address, no message repeats a value of it.
    #[test]
    fn mistakes_are_named_without_a_value() {
        for (text, what) in [
            ("postgres://h/db?sslmod=secret", "sslmod"),
            ("postgres://h/db?secret", "has no value"),
            ("postgres://[secret/db", "has no end"),
            ("password='secret", "has no end"),
            ("secret", "neither a URL"),
            ("host=h replication=secret", "replication"),
            ("host=h sslcrldir=secret", "sslcrldir"),
            ("host=db user=krarup password=correct secret dbname=q", "before `=`"),
            ("host=db password='ab'secret' user=k", "before `=`"),
            ("postgres://k:pa?secret=x@db/q", "before `=`"),
        ] {
            let mistake = parse(text).unwrap_err();
            assert!(
                mistake.to_string().contains(what) && !mistake.to_string().contains("secret"),
                "{text}: {mistake}"
            );
        }
        assert!(parse("postgres://h/db?sslmod=x").unwrap_err().hint.contains("sslmode"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = parse(&text);
            let _ = parse(&format!("postgres://{text}"));
            let _ = service(&text, "q");
            let _ = password(&text, ["h", "1", "d", "u"]);
        }

        /// What is quoted is read as it was.
        #[test]
        fn any_value_can_be_written(value in "\\PC*") {
            let quoted = value.replace('\\', "\\\\").replace('\'', "\\'");
            prop_assert_eq!(&parse(&format!("host=h password='{quoted}' user=u")).unwrap()["password"], &value);
            let escaped = percent_encoding::utf8_percent_encode(&value, percent_encoding::NON_ALPHANUMERIC);
            let found = parse(&format!("postgres://u:{escaped}@h/d")).unwrap();
            prop_assert_eq!(found.get("password"), Some(&value).filter(|value| !value.is_empty()));
        }
    }

    #[test]
    fn a_file_of_services_says_what_one_of_them_is() {
        let text =
            "# ours\n[other]\nhost=wrong\n\n[queues]\nhost=db1,db2\nuser = krarup\n[queues]\nhost=late\n";
        let found = service(text, "queues").unwrap().unwrap();
        assert_eq!((found["host"].as_str(), found["user"].as_str(), found.len()), ("db1,db2", "krarup", 2));
        assert_eq!(service(text, "none").unwrap(), None);
        let wrong = service("[q]\nhost", "q").unwrap_err();
        assert!(wrong.to_string().starts_with("line 2"), "{wrong}");
        assert!(service("[q]\nservice=q", "q").is_err());
    }

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let text = "# host:5432:db:user:comment\nhost:5433:db:user:other port\nhost:*:db:user:its own\n\
                    a\\:b:*:*:*:esc\\:aped\n\\*:*:*:star:literal\n*:*:*:*:any:rest\nshort:line\n";
        let of = |host, port, database, user| password(text, [host, port, database, user]);
        assert_eq!(of("host", "5433", "db", "user").as_deref(), Some("other port"));
        assert_eq!(of("host", "5432", "db", "user").as_deref(), Some("its own"));
        assert_eq!(of("a:b", "1", "x", "y").as_deref(), Some("esc:aped"));
        assert_eq!(of("host", "5432", "db", "star").as_deref(), Some("any"));
        assert_eq!(password("short:line\n", ["short", "line", "", ""]), None);
    }
}
