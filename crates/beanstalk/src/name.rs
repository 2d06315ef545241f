//! Names of tubes and clients: what a word must be to be one.

/// The longest name, in bytes.
pub const LONGEST: usize = 200;

/// Whether a byte may stand in a name: letters, digits and `-+/;.$_()`.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-+/;.$_()".contains(&byte)
}

/// The name these bytes are: 1 to [`LONGEST`] of them, a hyphen not first.
pub fn name(bytes: &[u8]) -> Option<&str> {
    let good =
        (1..=LONGEST).contains(&bytes.len()) && bytes[0] != b'-' && bytes.iter().copied().all(is_name_byte);
    // Letters of names are ASCII.
    if good { std::str::from_utf8(bytes).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_letters_digits_and_a_few_signs_but_does_not_begin_with_a_hyphen() {
        assert_eq!(name(b"a-Z09+/;.$_()"), Some("a-Z09+/;.$_()"));
        for bad in [&b""[..], b"-a", b"a b", b"a,b", b"\xc3\xa9", b"a\0"] {
            assert_eq!(name(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_name_has_at_most_200_bytes() {
        assert!(name(&[b'a'; 200]).is_some());
        assert!(name(&[b'a'; 201]).is_none());
    }
}
