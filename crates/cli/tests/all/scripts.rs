//! What `make test` stands on: packages are installed patiently and failures say why; the run ends
//! with its total. And what `bench/books.py` stands on: its patch.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::fresh;

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(name)
}

/// A folder of programs that stand before the machine's own: `apt-get` as given, `sleep` that does
/// not, `id` that says root.
fn machine(name: &str, apt_get: &str) -> PathBuf {
    let folder = fresh(name);
    fs::create_dir_all(&folder).unwrap();
    for (program, text) in [("apt-get", apt_get), ("sleep", "exit 0"), ("id", "echo 0")] {
        let path = folder.join(program);
        fs::write(&path, format!("#!/bin/bash\ncd \"$(dirname \"$0\")\"\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

/// `need` on that machine, asked for a program that only its apt-get can bring.
fn need(machine: &Path, flags: &[&str]) -> (Option<i32>, String) {
    let path = format!("{}:{}", machine.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(script("need"));
    let output =
        command.args(flags).args(["krarup-test-program", "a-package"]).env("PATH", path).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Where there is no git directory, as in an archive of the sources, it is not looked at.
#[test]
fn the_patch_that_switches_books_on_and_off_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join(".git").exists() {
        return;
    }
    let mut git = Command::new("git");
    let output = git.args(["apply", "--check", "bench/books.patch"]).current_dir(root).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "write it anew, `git apply --3way` helps: {errors}");
}

#[test]
fn a_package_is_installed_once_another_package_manager_gives_the_lock_back() {
    let machine = machine(
        "need-locked",
        "echo x >> tries
         if [ $(wc -l < tries) -lt 4 ]; then
           echo 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1 (apt)' >&2; exit 100
         fi
         printf '#!/bin/sh\n' > krarup-test-program; chmod +x krarup-test-program",
    );
    let (code, errors) = need(&machine, &[]);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(errors.matches("another package manager holds the lock").count(), 1, "{errors}");
    assert_eq!(fs::read_to_string(machine.join("tries")).unwrap().lines().count(), 4);
}

#[test]
fn a_package_that_cannot_be_installed_is_refused_with_the_last_words_of_the_package_manager() {
    let machine = machine("need-refused", "echo 'E: Unable to locate package a-package' >&2; exit 100");
    let (code, errors) = need(&machine, &[]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("Unable to locate package a-package"), "{errors}");
    assert!(errors.contains("hint: install Debian's package a-package"), "{errors}");
    let (code, errors) = need(&machine, &["--optional"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("Unable to locate") && errors.contains("going on without it"), "{errors}");
}

fn total(text: &str) -> Output {
    let mut child =
        Command::new(script("total")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn several_runs_of_tests_end_with_their_sum() {
    let runs = "running 3 tests\n...\n\
                test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.01s\n\
                test result: FAILED. 39 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";
    let output = total(runs);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(runs), "what the runs print is passed on: {text}");
    assert_eq!(text.lines().last(), Some("42 passed, 2 failed, 1 skipped"));
    assert!(output.status.success(), "it counts, and cargo decides");
    assert!(!total("error: could not compile\n").status.success(), "where nothing ran, nothing passed");
}
