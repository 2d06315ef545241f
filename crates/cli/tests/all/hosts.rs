//! Hosts of one machine, as namespaces: their links, their delays and their share of the
//! processors; and that nothing of them is left.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::experiment::{LONG, begin, json, place, run, still_runs};
use crate::support::process::{NOBODY, Program, as_user, processes, skipped};
use crate::support::{test_id, until};
use rustix::process::{Pid, Signal, kill_process};

/// Two clients before one server whose link carries 8 Mbit/s: 4096-byte values in packets with
/// their headers.
const LINKED: &str = r#"
title = "a thin link"
testbed = "netns"
# Its two clients begin apart where the machine is busy.
retries = 20
repetitions = { min = 1 }
phases = { warm_up = "300ms", measure = "2s" }
gates = ["errors == 0", "misses == 0"]
data = ["--keys", "100", "--data-size", "4096"]

[populate]
[stations.servers]
program = "cache"
count = 1
link = "8Mbit/s"
[stations.clients]
program = "load"
count = 2
flags = ["--ratio", "0:1", "--connections", "4"]
"#;

/// Whether namespaces can be made by root; the reason is printed where they cannot.
fn spaces() -> bool {
    let probe = format!("krarup-probe-{}", test_id());
    let ip =
        |words: &[&str]| Command::new("ip").args(words).output().is_ok_and(|output| output.status.success());
    let can = ip(&["netns", "add", &probe]) && ip(&["netns", "del", &probe]);
    if !can {
        skipped("no network namespaces here (they need Linux, root and iproute2)");
    }
    can
}

/// The namespaces that programs of ours have made.
fn namespaces(of: u32) -> Vec<String> {
    let names = fs::read_dir("/run/netns").into_iter().flatten().filter_map(Result::ok);
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.starts_with(&format!("krarup-{of}-"))).collect()
}

#[test]
fn hosts_have_links_of_their_own_and_are_taken_away_again() {
    if !spaces() {
        return;
    }
    let (spec, out) = place("experiment-netns", LINKED);
    let mut killed = begin(&spec, &out);
    killed.says_text("1/1 ");
    killed.signal(Signal::KILL);
    let number = killed.id();
    killed.ended();
    assert_eq!(namespaces(number).len(), 4, "the bridge, two clients, a server");
    let mut second = begin(&spec, &out);
    second.says_text("1/1 ");
    assert!(namespaces(number).is_empty(), "the next run takes them away");
    let number = second.id();
    let ended = second.ended_within(LONG);
    assert!(ended.success, "{ended:?}");
    assert!(namespaces(number).is_empty());
    let results: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let cell = &results["cells"][0];
    assert_eq!(cell["levels"]["clients"], 8);
    // A value comes with its line and in three packets: 4,129 bytes of answer and 3 × 66 of
    // headers.
    let carried = 8e6 / 8.0 / (4_129.0 + 3.0 * 66.0);
    let throughput = cell["throughput"]["value"].as_f64().unwrap();
    // Less where the machine stood still for a part of it.
    assert!((0.4 * carried..1.05 * carried).contains(&throughput), "{throughput} of {carried}");
}

/// Where control groups with a quota can be made; none, with the reason printed, where they cannot.
fn groups() -> Option<PathBuf> {
    let place = ["cpu", "cpu,cpuacct", ""].map(|name| Path::new("/sys/fs/cgroup").join(name));
    let place = place
        .into_iter()
        .find(|place| place.join("cpu.cfs_quota_us").exists() || place.join("cgroup.controllers").exists());
    let probe = |place: &PathBuf| {
        let folder = place.join(format!("krarup-probe-{}", test_id()));
        fs::create_dir(&folder).and_then(|()| fs::remove_dir(&folder)).is_ok()
    };
    let place = place.filter(probe);
    if place.is_none() {
        skipped("no control groups that can be written here (they need Linux and root)");
    }
    place
}

/// Nothing of a runner that was killed in the middle of it stays: no namespace, no control group,
/// no process; and what it had done stays done.
#[test]
fn a_killed_runner_leaves_no_hosts_groups_or_processes_to_the_next() {
    if !rustix::process::geteuid().is_root() {
        return skipped("not root");
    }
    let Some(groups) = groups() else { return };
    let spec = LINKED
        .replace("min = 1", "min = 4")
        .replace("measure = \"2s\"", "measure = \"300ms\"")
        .replace("count = 1\n", "count = 1\ncpu = 0.5\n");
    let (spec, out) = place("experiment-netns-killed", &spec);
    let mut killed = begin(&spec, &out);
    killed.says_text("3/4 ");
    killed.signal(Signal::KILL);
    let number = killed.id();
    killed.ended();
    let made = || {
        let names =
            fs::read_dir(&groups).unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
        names.filter(|name| name.starts_with(&format!("krarup-{number}-"))).count()
    };
    assert!(made() >= 1 && namespaces(number).len() == 4);
    let noted = fs::read_to_string(out.join("processes")).unwrap();
    // What the quota gives was found out before anything was measured, and holds for all trials of
    // the directory.
    let limits = || json(&out.join("environment.json"))["limits"].clone();
    let calibrated = limits();
    assert_eq!(
        (&calibrated[0]["machine"], &calibrated[0]["asked"]),
        (&"here".into(), &0.5.into()),
        "{calibrated}"
    );
    let written = calibrated[0]["written"].as_f64().unwrap();
    assert!((0.4..=0.625).contains(&written), "{calibrated}");
    let done = files_of(&out);
    assert!(done.len() >= 2, "{done:?}");
    let ended = run(&spec, &out);
    assert!(ended.errors.contains("4/4 ") && !ended.errors.contains("a busy loop"), "{ended:?}");
    assert_eq!(limits(), calibrated);
    let all = files_of(&out);
    assert_eq!(all.len(), 4);
    assert!(done.iter().all(|(name, manifest)| all[name] == *manifest), "what was complete is as it was");
    assert!(made() == 0 && namespaces(number).is_empty());
    let left: Vec<&str> = noted.lines().filter(|line| still_runs(line)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// The manifests of all complete trials.
fn files_of(out: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let inside = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    };
    let all = inside(&out.join("trials")).into_iter().flat_map(|cell| inside(&cell));
    all.map(|trial| (trial.clone(), fs::read(trial.join("trial.json")).unwrap())).collect()
}

/// A user who is not root makes namespaces in a user namespace, with the same results.
#[test]
fn hosts_need_no_root_where_users_may_have_namespaces() {
    let probe = as_user("unshare").args(["-Urnm", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        return skipped("users may not have namespaces here");
    }
    let mut spec = LINKED.replace("2s", "1s").replace("program = \"cache\"", "program = \"auto\"");
    // Who may have namespaces may not open that device, where it is root's alone.
    let opens = as_user("test").args(["-w", "/dev/net/tun"]).status();
    let may = opens.is_ok_and(|status| status.success());
    let delayed = taps() && may;
    if delayed {
        spec = spec.replace("count = 2\n", "count = 2\ndelay = \"2ms\"\n");
    }
    let (spec, out) = place("experiment-rootless", &spec);
    let krarup = env!("CARGO_BIN_EXE_krarup");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(spec.parent().unwrap(), Some(NOBODY), Some(NOBODY)).unwrap();
        if !as_user(krarup).arg("--version").output().is_ok_and(|output| output.status.success()) {
            return skipped(&format!("another user may not run {krarup}"));
        }
    }
    let mut command = as_user(krarup);
    command.args(["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let ended = Program::spawn(command).ended_within(LONG);
    assert!(ended.success, "{ended:?}");
    let results: serde_json::Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let carried = 8e6 / 8.0 / (4_129.0 + 3.0 * 66.0);
    let throughput = results["cells"][0]["throughput"]["value"].as_f64().unwrap();
    assert!(throughput < 1.05 * carried, "{throughput} of {carried}: the link is the bound");
    let way = &json(&out.join("trials/all/0/paths.json"))[0];
    assert!(!delayed || way["least"].as_f64().unwrap() >= 2e-3, "{way}");
    // What goes through between them was measured, each way.
    let ways = results["environment"]["ways"].as_array().unwrap();
    let of =
        |way: &serde_json::Value| format!("{}{}", way["from"].as_str().unwrap(), way["to"].as_str().unwrap());
    assert_eq!(ways.iter().map(of).collect::<Vec<_>>(), ["c1s1", "s1c1", "c2s1", "s1c2"]);
    assert!(
        ways.iter().any(|way| way["bits_per_second"].as_f64().is_some_and(|bits| bits > 0.0)),
        "{ways:?}"
    );
}

/// The delay of this client and this server, one way each; what it makes of a packet there and
/// back.
const DELAYS: [&str; 2] = ["3ms", "7ms"];
const THERE_AND_BACK: f64 = 10e-3;

/// As [`LINKED`], with delays of both sides in the place of the thin link.
fn delayed() -> String {
    LINKED
        .replace("link = \"8Mbit/s\"", &format!("delay = \"{}\"", DELAYS[1]))
        .replace("count = 2\n", &format!("count = 2\nlink = \"500Mbit/s\"\ndelay = \"{}\"\n", DELAYS[0]))
        .replace("2s", "1s")
}

/// Whether a delay line can stand here; the reason is printed where it cannot.
fn taps() -> bool {
    let there = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_ok();
    if !there {
        skipped("/dev/net/tun cannot be opened, and a delay line is made of two TAP devices");
    }
    there
}

/// What is sent is under way for as long as was asked for; requests feel it; and no line and no
/// namespace is left, whichever process was killed.
#[test]
fn delays_are_kept_and_their_lines_are_taken_away_again() {
    if !(spaces() && taps()) {
        return;
    }
    let (spec, out) = place("hosts-delayed", &delayed());
    let mut killed = begin(&spec, &out);
    killed.says_text("1/1 ");
    killed.signal(Signal::KILL);
    let number = killed.id();
    killed.ended();
    assert_eq!(lines(number).len(), 3, "two clients, a server");
    // A process that was started in a namespace and is not noted, because the runner was killed
    // before it could, ends with it.
    let space = format!("--net=/run/netns/krarup-{number}-s1");
    let mut command = Command::new("nsenter");
    command.args([space.as_str(), "sleep", "600"]);
    let unknown = Program::spawn(command);
    let ended = run(&spec, &out);
    assert!(lines(number).is_empty() && namespaces(number).is_empty(), "{ended:?}");
    assert!(!unknown.ended().success, "it was killed");
    let paths = json(&out.join("trials/all/0/paths.json"));
    let paths = paths.as_array().unwrap();
    assert_eq!(paths.len(), 2, "{paths:?}");
    for path in paths {
        let of = |name: &str| path[name].as_f64().unwrap();
        assert!((of("asked") - THERE_AND_BACK).abs() < 1e-9, "{path}");
        // Never less; how much more is the machine's doing.
        assert!(of("least") >= THERE_AND_BACK && of("median") >= of("least"), "{path}");
    }
    let delays = json(&out.join("trials/all/0/delays.json"));
    let delays = delays.as_array().unwrap();
    assert_eq!(
        delays.iter().map(|one| one["host"].as_str().unwrap()).collect::<Vec<_>>(),
        ["c1", "c2", "s1"]
    );
    assert!(delays.iter().all(|one| one["late"].as_f64().unwrap() >= 0.0), "{delays:?}");
    let results = json(&out.join("results.json"));
    let cell = &results["cells"][0];
    assert!(cell["response"]["mean"]["value"].as_f64().unwrap() >= THERE_AND_BACK, "{cell}");
    assert_eq!((cell["errors"].as_u64(), results["round_trips"][0]["to"].as_str()), (Some(0), Some("s1")));
    let page = fs::read_to_string(out.join("report.html")).unwrap();
    assert!(
        page.contains("c1 and s1") && page.contains("where the delays are 10.0 ms"),
        "told in the report"
    );
}

/// The delay lines of a runner's namespaces that still run: their process numbers and their words.
fn lines(of: u32) -> Vec<(i32, String)> {
    let runner = format!("krarup-{of}-");
    processes().filter(|(_, words)| words.contains(" agent delay ") && words.contains(&runner)).collect()
}

/// A host that was cut off spoils the trial, whatever the load generators say of it, and not those
/// that come after it.
#[test]
fn a_trial_whose_delay_line_ends_has_failed_and_is_tried_again_with_another() {
    if !(spaces() && taps()) {
        return;
    }
    let spec = delayed().replace("measure = \"1s\"", "measure = \"3s\"");
    let (spec, out) = place("hosts-cut-off", &spec);
    let runner = begin(&spec, &out);
    let measured = out.join("unfinished/paths.json");
    until("something is measured", || measured.exists());
    let all = lines(runner.id());
    let (number, _) = all.iter().find(|(_, words)| words.contains("-s1 ")).unwrap();
    kill_process(Pid::from_raw(*number).unwrap(), Signal::KILL).unwrap();
    let number = runner.id();
    let ended = runner.ended_within(LONG);
    assert!(ended.success, "{ended:?}");
    let failed = json(&out.join("failed/all/0-0/trial.json"));
    let why = failed["failed"].as_str().unwrap();
    assert!(why.starts_with("delay line of s1: has ended, and its host was cut off"), "{why}");
    let complete = json(&out.join("trials/all/0/trial.json"));
    assert_eq!(
        (&complete["failed"], complete["attempt"].as_u64() >= Some(1)),
        (&serde_json::Value::Null, true)
    );
    assert_eq!(json(&out.join("results.json"))["cells"][0]["errors"], 0);
    let least = json(&out.join("trials/all/0/paths.json"))[0]["least"].as_f64().unwrap();
    assert!(least >= THERE_AND_BACK, "the new line keeps what is sent as long: {least}");
    assert!(lines(number).is_empty() && namespaces(number).is_empty());
}
