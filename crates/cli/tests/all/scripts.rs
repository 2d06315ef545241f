//! What `make test` stands on: packages are installed patiently and failures say why; the run ends
//! with its total. What `make demo` runs. And what `bench/books.py` stands on: its patch.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::fresh;
use crate::support::process::skipped;

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

/// It is made by Python, after the program is built.
#[test]
fn what_makes_a_bill_of_materials_asks_for_python_by_its_name() {
    let makefile = fs::read_to_string(script("../Makefile")).unwrap();
    let mut targets = Vec::new();
    for target in makefile.split("\n\n") {
        let mut scripts = target.split("scripts/").skip(1).filter_map(|rest| rest.split_whitespace().next());
        let text = |name: &str| fs::read_to_string(script(name)).unwrap_or_default();
        if scripts.any(|name| text(name).contains("\nscripts/bill-of-materials ")) {
            let name = target.split(':').next().unwrap();
            assert!(target.contains("scripts/need python3 python3\n"), "{name} does not ask for python3");
            targets.push(name);
        }
    }
    assert_eq!(targets, ["deb", "static-archive", "test-packages"]);
    let text = fs::read_to_string(script("bill-of-materials")).unwrap();
    assert!(!text.contains("import tomllib"), "Python 3.10, which Ubuntu 22.04 has, reads no TOML");
}

/// One manifest is the chart's, with the comment of its values; of two Helm fails with the second.
#[test]
fn manifests_stay_as_they_are_where_helm_does_not_write_all_of_them() {
    let checkout = Checkout(fresh("manifests"));
    fs::create_dir_all(checkout.0.join("scripts")).unwrap();
    fs::copy(script("kubernetes-manifests"), checkout.0.join("scripts/kubernetes-manifests")).unwrap();
    checkout.program("helm", "case \"$*\" in *b.yaml*) exit 1 ;; esac; echo 'kind: New'");
    checkout.write("packaging/kubernetes/values/a.yaml", "# A proxy.\nproxy: {}\n");
    let manifest = checkout.write("packaging/kubernetes/a.yaml", "kind: Old\n");
    let written = || {
        let mut command = Command::new(checkout.0.join("scripts/kubernetes-manifests"));
        let output = command.arg(checkout.0.join("helm")).output().unwrap();
        (output.status.success(), fs::read_to_string(&manifest).unwrap())
    };
    let second = checkout.write("packaging/kubernetes/values/b.yaml", "# A broker.\n");
    assert_eq!(written(), (false, "kind: Old\n".to_owned()));
    fs::remove_file(second).unwrap();
    let (success, text) = written();
    assert!(
        success && text.starts_with("# A proxy.\n# Written by ") && text.ends_with("\nkind: New\n"),
        "{text}"
    );
}

/// Debian 12 has Go 1.19, which can read none of the modules.
#[test]
fn a_go_that_cannot_build_kubernetes_is_named() {
    let machine = machine("old-go", "exit 1");
    let go = machine.join("go");
    fs::write(&go, "#!/bin/sh\necho go1.19.8\n").unwrap();
    fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", machine.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(script("test-kubernetes"));
    command.arg("krarup").arg(machine.join("kubernetes")).env("PATH", path).env_remove("INSIDE");
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("needs Go 1.21 or later, and has go1.19.8"), "{errors}");
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

/// A lock that is held when packages are installed, and again when their lists are brought up to
/// date, is waited for ten minutes in all: 200 times three seconds.
#[test]
fn a_lock_that_is_never_given_back_is_waited_for_once() {
    let machine = machine("need-held", "echo x >> tries\necho 'E: Could not get lock' >&2\nexit 100");
    let (code, errors) = need(&machine, &[]);
    assert_eq!(code, Some(1), "{errors}");
    assert_eq!(errors.matches("another package manager holds the lock").count(), 1, "{errors}");
    assert_eq!(fs::read_to_string(machine.join("tries")).unwrap().lines().count(), 202);
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
    total_with("", text)
}

/// The same with `KRARUP_TEST_ALL`.
fn total_with(all: &str, text: &str) -> Output {
    let mut command = Command::new(script("total"));
    command.env("KRARUP_TEST_ALL", all).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
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
    assert_eq!(text.lines().last(), Some("42 passed, 2 failed, 1 skipped, 0 left out"));
    assert!(output.status.success(), "it counts, and cargo decides");
    assert!(!total("error: could not compile\n").status.success(), "where nothing ran, nothing passed");
}

#[test]
fn tests_that_went_without_a_program_are_counted_apart_with_its_name() {
    let runs = "running 5 tests\n.skipped: no x: install x\nskipped: no y\n..skipped: no x: install x\n..\n\
                test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s\n";
    let output = total(runs);
    assert!(output.status.success(), "a machine may lack a program");
    let text = String::from_utf8(output.stdout).unwrap();
    let last = "left out (2): no x: install x\nleft out (1): no y\n\
                2 passed, 0 failed, 1 skipped, 3 left out\n";
    assert_eq!(text.strip_prefix(runs), Some(last));
    assert!(!total_with("1", runs).status.success(), "and may not, where all are asked for");
}

/// A checkout of version 1.2.3 whose programs say their version, and a cargo that builds.
struct Checkout(PathBuf);

impl Checkout {
    fn new() -> Self {
        let checkout = Self(fresh("demo-program"));
        checkout.write("Cargo.toml", "[workspace.package]\nversion = \"1.2.3\"\n");
        checkout.write("Cargo.lock", "");
        checkout.write("crates/cli/src/main.rs", "");
        fs::create_dir_all(checkout.0.join("scripts")).unwrap();
        fs::copy(script("demo-program"), checkout.0.join("scripts/demo-program")).unwrap();
        checkout
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A program that does this.
    fn program(&self, name: &str, text: &str) {
        let path = self.write(name, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A cargo, which needs some time, so that what it builds is newer than the sources.
    fn with_cargo(&self) {
        let built = "mkdir -p target/release; echo built > target/release/krarup";
        self.program("programs/cargo", &format!("{built}; touch -d '+1 hour' target/release/krarup"));
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.0.join(name)).unwrap();
    }

    /// The program of the demo, or none, and what is said.
    fn demo(&self, krarup: &str) -> (Option<String>, String) {
        let programs = format!("{}:/usr/bin:/bin", self.0.join("programs").display());
        let mut command = Command::new(self.0.join("scripts/demo-program"));
        command.arg("target").env("PATH", programs).env("KRARUP", krarup).env_remove("CARGO");
        let output = command.output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let printed = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        (output.status.success().then(|| printed.replace(&format!("{}/", self.0.display()), "")), errors)
    }

    fn takes(&self, expected: &str, why: &str) {
        let (program, errors) = self.demo("");
        assert!(program.as_deref() == Some(expected) && errors.contains(why), "{program:?}: {errors}");
    }
}

/// What is there already, unless it is of another version or older than the sources.
#[test]
fn the_demo_runs_the_program_that_is_quickest_to_have() {
    let checkout = Checkout::new();
    if Path::new("/usr/bin/krarup").exists() || Path::new("/usr/bin/cargo").exists() {
        return skipped("a krarup or a cargo is installed among the system's programs");
    }
    let (program, errors) = checkout.demo("");
    assert!(program.is_none() && errors.contains("hint: install Rust"), "{program:?}: {errors}");
    assert_eq!(checkout.demo("/my/own").0.as_deref(), Some("/my/own"));

    checkout.program("programs/krarup", "echo krarup 1.2.2");
    checkout.takes("programs/krarup", "there is no cargo to build it");
    checkout.with_cargo();
    checkout.takes("target/release/krarup", "built now");
    checkout.takes("target/release/krarup", "no source is newer");

    // A source is newer; the installed one has this version, but this tree is one that is built.
    let later = "touch -d '+2 hours' crates/cli/src/main.rs";
    let touched = Command::new("sh").args(["-c", later]).current_dir(&checkout.0).status().unwrap();
    assert!(touched.success());
    checkout.program("programs/krarup", "echo krarup 1.2.3");
    checkout.takes("target/release/krarup", "built now");
    checkout.remove("programs/cargo");
    checkout.takes("programs/krarup", "installed, of this version");
    checkout.with_cargo();
    checkout.remove("target/release/krarup");
    checkout.takes("programs/krarup", "installed, of this version");

    checkout.program("programs/krarup", "echo krarup 1.2.4");
    checkout.program("krarup-1.2.3-a/krarup", "echo krarup 1.2.3");
    fs::create_dir_all(checkout.0.join("target/packages")).unwrap();
    let packed = ["-czf", "target/packages/krarup-1.2.3-a.tar.gz", "krarup-1.2.3-a"];
    assert!(Command::new("tar").args(packed).current_dir(&checkout.0).status().unwrap().success());
    checkout.takes("target/demo/krarup", "from target/packages/krarup-1.2.3-a.tar.gz");
}
