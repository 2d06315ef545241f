//! The files of a folder as one stream of bytes, so that they can be taken from one machine to
//! another.
//!
//! ```text
//! 12 clients/1.json⏎ twelve bytes   0 middleware/empty⏎   …   end⏎
//! ```
//! Unpacking trusts nothing: a path that leads out of the folder is refused, and a stream
//! without its end is an error.

use std::fs::{self, File};
use std::io::{self, BufRead, Read, Write};
use std::path::{Component, Path, PathBuf};

/// The last line.
const END: &str = "end";
/// No path is longer than this, in bytes.
const LONGEST: u64 = 4_096;

/// Writes all files of a folder, by name; folders without files are left out.
///
/// # Errors
/// From the system.
pub fn pack(folder: &Path, to: &mut dyn Write) -> io::Result<()> {
    pack_under(folder, Path::new(""), to)?;
    writeln!(to, "{END}")?;
    to.flush()
}

fn pack_under(folder: &Path, below: &Path, to: &mut dyn Write) -> io::Result<()> {
    let entries = fs::read_dir(folder.join(below))?.collect::<io::Result<Vec<_>>>()?;
    let mut names: Vec<PathBuf> = entries.iter().map(|entry| below.join(entry.file_name())).collect();
    names.sort();
    for name in names {
        let path = folder.join(&name);
        let kind = fs::symlink_metadata(&path)?;
        if kind.is_dir() {
            pack_under(folder, &name, to)?;
        } else if kind.is_file() {
            let size = kind.len();
            writeln!(to, "{size} {}", name.to_string_lossy())?;
            let copied = io::copy(&mut File::open(&path)?.take(size), to)?;
            if copied != size {
                return Err(io::Error::other(format!("{} became shorter while it was read", path.display())));
            }
        }
    }
    Ok(())
}

/// Makes the files of a stream in a folder, which is made, too. Returns how many there were.
///
/// # Errors
/// From the system; where the stream is none, or ends before its end.
pub fn unpack(mut from: impl BufRead, folder: &Path) -> io::Result<u64> {
    let broken = |what: &str| {
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("files that come from another machine: {what}"),
        ))
    };
    for number in 0.. {
        let mut line = Vec::new();
        from.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
        let Ok(line) = std::str::from_utf8(&line) else { return broken("a name that is no text") };
        let Some(line) = line.strip_suffix('\n') else { return broken("they end in the middle") };
        if line == END {
            return Ok(number);
        }
        let parts =
            line.split_once(' ').and_then(|(size, path)| Some((size.parse::<u64>().ok()?, Path::new(path))));
        let Some((size, path)) = parts else { return broken("a line without size and name") };
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if path.as_os_str().is_empty() || !path.components().all(plain) {
            return broken("a name that leads out of the folder");
        }
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let copied = io::copy(&mut from.by_ref().take(size), &mut File::create(&path)?)?;
        if copied != size {
            return broken("they end in the middle");
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("krarup-parcel-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn what_is_packed_is_unpacked_whatever_is_in_it() {
        let (from, to) = (folder("from"), folder("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/with space"), b"end\n12 x\n\0\xff").unwrap();
        fs::write(from.join("empty"), b"").unwrap();
        let mut bytes = Vec::new();
        pack(&from, &mut bytes).unwrap();
        assert_eq!(unpack(&bytes[..], &to).unwrap(), 2);
        assert_eq!(fs::read(to.join("a/b/with space")).unwrap(), b"end\n12 x\n\0\xff");
        assert_eq!(fs::read(to.join("empty")).unwrap(), b"");
        for cut in 0..bytes.len() {
            assert!(unpack(&bytes[..cut], &to).is_err(), "cut at {cut}");
        }
        fs::remove_dir_all(from).unwrap();
        fs::remove_dir_all(to).unwrap();
    }

    #[test]
    fn no_file_is_written_outside() {
        let to = folder("outside");
        for name in ["../x", "/tmp/x", "a/../../x", "", "."] {
            let error = unpack(format!("1 {name}\nxend\n").as_bytes(), &to).unwrap_err();
            assert!(error.to_string().contains("leads out"), "{name}: {error}");
        }
        assert!(unpack(&b"x y\n"[..], &to).unwrap_err().to_string().contains("without size"));
        assert!(!to.exists());
    }
}
