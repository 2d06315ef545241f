//! Who may come in, asked as memcached asks: the first thing a client says is `set any 0 0 N` with
//! the value `user password`. The answer is `STORED`, or an error; nothing else is carried out
//! before.

use krarup_units::Mistake;
use std::collections::BTreeMap;

/// What a client has said so far, judged.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// More must come before it can be judged.
    Incomplete,
    /// It gets this reply, its first `used` bytes are done with, and it may come in or may try
    /// again.
    Answered { reply: &'static [u8], used: usize, admitted: bool },
    /// It is no memcached client, or does not mean well.
    Close,
}

/// A line without an end is given up at this length.
const LONGEST_LINE: usize = 2_048;
/// No user's name and password are longer than this together.
const LONGEST_VALUE: usize = 1_024;

const UNAUTHENTICATED: &[u8] = b"CLIENT_ERROR unauthenticated\r\n";
const BAD_TOKEN: &[u8] = b"CLIENT_ERROR bad authentication token format\r\n";
const BAD_ENDING: &[u8] = b"CLIENT_ERROR bad command line termination\r\n";

impl Login {
    /// The answer to a wrong password.
    pub(crate) const FAILURE: &'static [u8] = b"CLIENT_ERROR authentication failure\r\n";
}

/// Names and passwords, of which a name may have several: so a password is changed while clients
/// still say the one before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Users(BTreeMap<Vec<u8>, Vec<Vec<u8>>>);

impl Users {
    /// Reads lines of `user:password`, memcached's own form of the file.
    ///
    /// # Errors
    /// With the line's number.
    pub(crate) fn parse(text: &str) -> Result<Self, Mistake> {
        let mut users: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
        for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let wrong = |why: &str| Err(Mistake::plain(why).of(&format!("line {}", place + 1)));
            match line.split_once(':') {
                Some((user, password)) if !user.is_empty() && !password.is_empty() => {
                    if line.contains([' ', '\t', '\0']) {
                        return wrong("a user or a password with a blank cannot be said");
                    }
                    if line.len() >= LONGEST_VALUE {
                        return wrong("a user and a password are at most 1000 bytes");
                    }
                    users.entry(user.into()).or_default().push(password.into());
                }
                _ => return wrong("a line is `user:password`"),
            }
        }
        if users.is_empty() { Err("line 1: there is no user in it".into()) } else { Ok(Self(users)) }
    }

    /// What is said to a server first, for the only user there is. memcached with `-Y` looks at
    /// nothing of the line but its length; one that asks for no login takes it for a value, which
    /// has expired already and is given to no client.
    pub(crate) fn login(&self) -> Result<Vec<u8>, Mistake> {
        let mut users = self.0.iter().map(|(user, passwords)| (user, &passwords[..]));
        let (Some((user, [password])), None) = (users.next(), users.next()) else {
            let count = self.0.values().map(Vec::len).sum::<usize>();
            return Err(Mistake::plain(format!("{count} lines of users stand in it, where one is needed")));
        };
        let value = [user.as_slice(), b" ", password].concat();
        let line = format!("set krarup 0 -1 {}\r\n", value.len()).into_bytes();
        Ok([line.as_slice(), &value, b"\r\n"].concat())
    }

    /// Takes as long for a wrong password as for the right one.
    fn admit(&self, user: &[u8], password: &[u8]) -> bool {
        let Some(known) = self.0.get(user) else { return false };
        let is_said = |known: &Vec<u8>| {
            let differing = known.iter().zip(password).fold(0, |sum, (a, b)| sum | (a ^ b));
            differing == 0 && known.len() == password.len()
        };
        known.iter().fold(false, |found, one| is_said(one) | found)
    }

    /// Judges what a client has said.
    pub(crate) fn judge(&self, bytes: &[u8]) -> Login {
        let Some(newline) = bytes.iter().take(LONGEST_LINE).position(|&byte| byte == b'\n') else {
            return if bytes.len() >= LONGEST_LINE { Login::Close } else { Login::Incomplete };
        };
        let line = bytes[..newline].strip_suffix(b"\r").unwrap_or(&bytes[..newline]);
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).collect();
        let refused = |reply, used| Login::Answered { reply, used, admitted: false };
        let length = words.get(4).and_then(|word| std::str::from_utf8(word).ok()?.parse::<usize>().ok());
        let (Some(b"set"), Some(length)) = (words.first().copied(), length) else {
            return refused(UNAUTHENTICATED, newline + 1);
        };
        if length > LONGEST_VALUE {
            // No client's; and not worth waiting for.
            return Login::Close;
        }
        let value = newline + 1;
        let end = value + length;
        let Some(ending) = bytes.get(end..end + 2) else { return Login::Incomplete };
        if ending != b"\r\n" {
            return refused(BAD_ENDING, end + 2);
        }
        let mut words = bytes[value..end].split(|&byte| byte == b' ').filter(|word| !word.is_empty());
        let (Some(user), Some(password)) = (words.next(), words.next()) else {
            return refused(BAD_TOKEN, end + 2);
        };
        if self.admit(user, password) {
            Login::Answered { reply: b"STORED\r\n", used: end + 2, admitted: true }
        } else {
            refused(Login::FAILURE, end + 2)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn users() -> Users {
        Users::parse("anna:secret\nbert:a:b\n").unwrap()
    }

    #[test]
    fn a_client_with_a_password_is_admitted() {
        for (said, reply, admitted) in [
            ("set x 0 0 11\r\nanna secret\r\n", "STORED\r\n", true),
            ("set x 0 0 8\r\nbert a:b\r\n", "STORED\r\n", true),
            ("set x 0 0 10\r\nanna secre\r\n", "CLIENT_ERROR authentication failure\r\n", false),
            ("set x 0 0 12\r\nanna secrets\r\n", "CLIENT_ERROR authentication failure\r\n", false),
            ("set x 0 0 4\r\nanna\r\n", "CLIENT_ERROR bad authentication token format\r\n", false),
            ("set x 0 0 4\r\nanna..", "CLIENT_ERROR bad command line termination\r\n", false),
            ("get x\r\n", "CLIENT_ERROR unauthenticated\r\n", false),
            ("set x\r\n", "CLIENT_ERROR unauthenticated\r\n", false),
        ] {
            let expected = Login::Answered { reply: reply.as_bytes(), used: said.len(), admitted };
            assert_eq!(users().judge(said.as_bytes()), expected, "{said:?}");
        }
        assert_eq!(users().judge(&[b'x'; LONGEST_LINE]), Login::Close);
        assert_eq!(users().judge(b"set x 0 0 1000000000\r\n"), Login::Close);
    }

    #[test]
    fn what_is_said_to_servers_is_what_they_ask_for() {
        let login = Users::parse("anna:secret\n").unwrap().login().unwrap();
        assert_eq!(
            users().judge(&login),
            Login::Answered { reply: b"STORED\r\n", used: login.len(), admitted: true }
        );
        assert_eq!(login, b"set krarup 0 -1 11\r\nanna secret\r\n");
        for several in [users(), Users::parse("anna:secret\nanna:next").unwrap()] {
            assert!(several.login().unwrap_err().what.contains("2 lines"));
        }
    }

    /// As at memcached itself.
    #[test]
    fn a_user_may_say_each_of_several_passwords() {
        let users = Users::parse("anna:secret\nbert:b\nanna:next\n").unwrap();
        for (said, expected) in [
            ("set x 0 0 11\r\nanna secret\r\n", true),
            ("set x 0 0 9\r\nanna next\r\n", true),
            ("set x 0 0 6\r\nanna b\r\n", false),
            ("set x 0 0 9\r\nbert next\r\n", false),
        ] {
            let judged = users.judge(said.as_bytes());
            assert_eq!(matches!(judged, Login::Answered { admitted: true, .. }), expected, "{said:?}");
        }
    }

    #[test]
    fn a_file_of_users_is_read_line_by_line() {
        for (text, part) in [("", "no user"), ("a:b\nc", "line 2"), (":b", "line 1"), ("a:b c", "blank")] {
            assert!(Users::parse(text).unwrap_err().to_string().contains(part), "{text:?}");
        }
    }

    proptest! {
        /// No client is admitted without a password, wherever the bytes are cut.
        #[test]
        fn whatever_is_said_only_the_password_opens(said in proptest::collection::vec(any::<u8>(), 0..200)) {
            let admitted = matches!(users().judge(&said), Login::Answered { admitted: true, .. });
            let text = String::from_utf8_lossy(&said);
            prop_assert!(!admitted || text.contains("secret") || text.contains("a:b"));
        }

        #[test]
        fn every_cut_is_incomplete_until_the_last_byte(cut in 0_usize..29) {
            let said = b"set x 0 0 11\r\nanna secret\r\n";
            let judged = users().judge(&said[..cut.min(said.len() - 1)]);
            prop_assert_eq!(judged, Login::Incomplete);
        }
    }
}
