//! An experiment in pods: a `kubectl` that is a script takes the place of a cluster, whose pods are
//! folders of this machine with addresses of its loopback. `scripts/test-kubernetes` does the same
//! with a real one.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use krarup_units::Address;
use rustix::process::Signal;

use crate::support::experiment::{ELSEWHERE, are_alike, finished, json};
use crate::support::process::{Program, python, skipped};
use crate::support::{fresh, test_id};

/// `kubectl` as far as we need it. A folder with a file for each pod is the cluster; the file `mode`
/// says what is wrong with it.
const KUBECTL: &str = r#"#!PYTHON
import json, os, re, subprocess, sys
cluster, krarup = "CLUSTER", "KRARUP"
words = sys.argv[1:]
with open(f"{cluster}/calls", "a") as calls:
    print(json.dumps(words), file=calls)
mode = open(f"{cluster}/mode").read()
def refuse(text):
    print(text, file=sys.stderr)
    sys.exit(1)
while words and words[0] in ("--namespace", "--context", "--kubeconfig"):
    words = words[2:]
words = [word for word in words if not word.startswith("--request-timeout")]
if mode.startswith(("error:", "Error", "The connection")):
    refuse(mode)
def pods():
    names = sorted(name for name in os.listdir(f"{cluster}/pods") if name.endswith(".json"))
    return [json.load(open(f"{cluster}/pods/{name}")) for name in names]
def selected(words):
    for word in words:
        if word.startswith("--selector="):
            key, value = word.split("=", 1)[1].split("=")
            return [pod for pod in pods() if pod["metadata"]["labels"][key] == value]
    return [pod for pod in pods() if pod["metadata"]["labels"]["job-name"] in words]
if words[0] == "create":
    for job in json.load(sys.stdin)["items"]:
        assert job["apiVersion"] == "batch/v1" and job["kind"] == "Job"
        template = job["spec"]["template"]
        for index in range(job["spec"]["completions"]):
            name, place = f"{job['metadata']['name']}-{index}-abcde", len(os.listdir(f"{cluster}/pods")) + 1
            image = template["spec"]["containers"][0]["image"]
            container = {"image": image, "state": {"running": {}}}
            status = {"phase": "Running", "podIP": f"127.0.1.{place}", "containerStatuses": [container]}
            if mode == "ImagePullBackOff" and image == "proxies:1":
                container["state"] = {"waiting": {"reason": mode, "message": "Back-off pulling"}}
            if mode == "Unschedulable":
                status = {"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "reason": mode, "message": "0/1 nodes are available: 1 Insufficient cpu."}]}
            about = {"name": name, "labels": {**template["metadata"]["labels"], "job-name": job["metadata"]["name"]},
                "annotations": {"batch.kubernetes.io/job-completion-index": str(index)}}
            pod = {"metadata": about, "spec": {**template["spec"], "nodeName": "node-a"}, "status": status}
            if mode != "FailedCreate":
                os.makedirs(f"{cluster}/files/{name}", exist_ok=True)
                if not os.path.exists(f"{cluster}/files/{name}/krarup"):
                    os.symlink(krarup, f"{cluster}/files/{name}/krarup")
                json.dump(pod, open(f"{cluster}/pods/{name}.json", "w"))
        print(f"job.batch/{job['metadata']['name']}")
elif words[:2] == ["get", "pods"]:
    print(json.dumps({"items": selected(words) if "--selector" in " ".join(words) else pods()}))
elif words[:2] == ["get", "events"]:
    calls = [json.loads(line) for line in open(f"{cluster}/calls")]
    job = "krarup-" + [w.split("=")[2] for c in calls for w in c if w.startswith("--selector=krarup-run")][-1] + "-0-servers"
    print(json.dumps({"items": [{"reason": "FailedCreate", "involvedObject": {"name": job}, "message": "exceeded quota: small"}]}))
elif words[:2] == ["delete", "jobs"]:
    for pod in selected(words):
        os.remove(f"{cluster}/pods/{pod['metadata']['name']}.json")
        print(f"job.batch/{pod['metadata']['labels']['job-name']}")
elif words[0] == "exec":
    pod = words[words.index("--") - 1]
    if not os.path.exists(f"{cluster}/pods/{pod}.json"):
        refuse(f'Error from server (NotFound): pods "{pod}" not found')
    inside = [re.sub("(^|=)/krarup/", rf"\1{cluster}/files/{pod}/", word) for word in words[words.index("--") + 1:]]
    code = subprocess.call(inside)
    if code:
        print(f"command terminated with exit code {code}", file=sys.stderr)
    sys.exit(code)
else:
    refuse(f"error: unknown command {words}")
"#;

const SPEC: &str = r#"
title = "two limits of a proxy in pods"
testbed = "kubernetes"
seed = 7
repetitions = { min = 2 }
phases = { warm_up = "50ms", measure = "300ms" }
retries = 5
gates = ["errors == 0", "misses == 0"]
data = ["--keys", "200", "--verify"]
population = "connections"

[kubernetes]
image = "localhost/krarup:0.1.0"
namespace = "runs"

[[factor]]
name = "processors"
levels = ["500m", "2"]
[[factor]]
name = "connections"
levels = [2]

[populate]
[stations.servers]
program = "cache"
count = 2
pod = { requests = { cpu = "10m", memory = "32Mi" } }
[stations.middleware]
program = "proxy"
flags = ["--workers", "2"]
pod = { image = "proxies:1", limits = { cpu = "$processors" }, nodes = { pool = "a" } }
[stations.clients]
program = "load"
count = 2
flags = ["--connections", "$connections"]
"#;

/// A cluster that is a folder.
struct ScriptedCluster {
    folder: PathBuf,
}

impl ScriptedCluster {
    /// None, with the reason printed, where there is no Python.
    fn new(name: &str) -> Option<Self> {
        let Some(python) = python("json") else {
            skipped("no python3 here, which the script in place of kubectl is for");
            return None;
        };
        let python = Command::new(python).args(["-c", "import sys; print(sys.executable)"]).output().unwrap();
        let python = String::from_utf8(python.stdout).unwrap();
        let folder = fresh(name);
        for below in ["bin", "pods", "files"] {
            fs::create_dir_all(folder.join(below)).unwrap();
        }
        let script = KUBECTL.replace("PYTHON", python.trim()).replace("CLUSTER", folder.to_str().unwrap());
        let kubectl = folder.join("bin/kubectl");
        fs::write(&kubectl, script.replace("KRARUP", env!("CARGO_BIN_EXE_krarup"))).unwrap();
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
        let cluster = Self { folder };
        cluster.set("");
        Some(cluster)
    }

    /// What is wrong with it.
    fn set(&self, mode: &str) {
        fs::write(self.folder.join("mode"), mode).unwrap();
    }

    fn spec(&self, text: &str) -> PathBuf {
        let path = self.folder.join("pods.toml");
        fs::write(&path, text).unwrap();
        path
    }

    fn run(&self, text: &str, out: &Path) -> Program {
        let path = std::env::join_paths([self.folder.join("bin")]).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
        command.args(["run", self.spec(text).to_str().unwrap(), "--out", out.to_str().unwrap()]);
        command.env("PATH", path);
        Program::spawn(command)
    }

    fn pods(&self) -> Vec<String> {
        let pods = fs::read_dir(self.folder.join("pods")).unwrap();
        pods.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.folder.join("calls")).unwrap()
    }
}

/// In pods it is what it would be on this machine, what a runner that was killed has left is
/// deleted by the next, and nothing is left after that.
#[test]
fn an_experiment_in_pods_is_that_of_this_machine() {
    let Some(cluster) = ScriptedCluster::new("pods-whole") else { return };
    let out = cluster.folder.join("results");
    let mut killed = cluster.run(SPEC, &out);
    killed.says_within(ELSEWHERE, |line| line.contains("1/4 ").then_some(()));
    killed.signal(Signal::KILL);
    killed.ended();
    let left = cluster.pods();
    // Two servers, two clients, and the proxy, unless just then another took its place.
    assert!(left.len() >= 4, "{left:?}");

    finished(cluster.run(SPEC, &out));
    assert_eq!(cluster.pods(), Vec::<String>::new());
    let calls = cluster.calls();
    let run = left[0].split('-').skip(1).take(2).collect::<Vec<_>>().join("-");
    let selector = format!("--selector=krarup-run={run}");
    let deleted = calls.lines().filter(|call| call.contains("delete") && call.contains(&selector));
    assert_eq!(deleted.count(), 1, "by the second run: {calls}");
    assert!(calls.lines().all(|call| call.starts_with(r#"["--namespace", "runs", "#)), "{calls}");
    assert!(!out.join("processes").exists() && !out.join("unfinished").exists());

    let trial = out.join("trials/processors=2,connections=2/0");
    let words = fs::read_to_string(trial.join("trial.json")).unwrap();
    assert!(words.contains("c1: ") && words.contains("m1: ") && words.contains("127.0.1."), "{words}");
    let clocks = json(&trial.join("clocks.json"));
    assert_eq!(clocks.as_object().unwrap().keys().collect::<Vec<_>>(), ["c1", "c2", "m1", "s1", "s2"]);
    // All pods share one node: it is told once, and what each does beside it.
    for place in ["watch.json", "node-a/watch.json", "node-a/s2/machine.csv", "node-a/m1/threads.csv"] {
        assert!(trial.join("monitor").join(place).is_file(), "{place}");
    }
    let cpu = json(&trial.join("cpu.json"));
    let of = |station: &str| {
        let all = cpu.as_array().unwrap().iter();
        all.filter(|one| one["station"] == station)
            .map(|one| one["cores"].as_f64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!((of("servers"), of("middleware")), (vec![1.0, 1.0], vec![1.0]), "{cpu}");
    let narrow = json(&out.join("trials/processors=500m,connections=2/0/cpu.json")).to_string();
    assert!(narrow.contains(r#""cores":0.5"#), "{narrow}");
    let environment = json(&out.join("environment.json"));
    assert!(environment["versions"].to_string().contains("on node node-a"), "{environment}");

    // The same on this machine has the same files and cells: what belongs to pods may stay.
    let here = cluster.folder.join("here");
    let words = ["run", "--testbed", "local", "--out", here.to_str().unwrap()];
    let spec = cluster.spec(SPEC);
    finished(Program::begin(&[&words[..], &[spec.to_str().unwrap()]].concat()));
    are_alike(&out, &here);
}

#[test]
fn pods_that_will_not_run_are_told_with_what_to_do() {
    let Some(cluster) = ScriptedCluster::new("pods-refused") else { return };
    let refused = |mode: &str, words: &[&str]| {
        cluster.set(mode);
        let text = SPEC.replace("namespace =", "patience = \"1s\"\nnamespace =");
        let ended = cluster.run(&text, &cluster.folder.join("results")).ended_within(ELSEWHERE);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        for word in words {
            assert!(ended.errors.contains(word), "`{word}` is not in {}", ended.errors);
        }
        assert_eq!(cluster.pods(), Vec::<String>::new(), "{mode}");
    };
    refused("ImagePullBackOff", &["error: m1 (pod krarup-", "image `proxies:1` cannot be had", "hint: "]);
    refused("Unschedulable", &["no node takes it", "Insufficient cpu", "pod.requests", "patience"]);
    refused(
        "Error from server (Forbidden): jobs.batch is forbidden: User \"me\" cannot create",
        &["said: Error from server (Forbidden)", "auth can-i create jobs"],
    );
    refused(
        "Error from server (NotFound): namespaces \"runs\" not found",
        &["kubectl create namespace runs"],
    );
    refused("The connection to the server localhost:8080 was refused", &["by hand", "KUBECONFIG"]);
    refused("FailedCreate", &["stations.servers: the cluster makes no pod: exceeded quota: small"]);
    fs::remove_file(cluster.folder.join("bin/kubectl")).unwrap();
    refused("", &["`kubectl` cannot be started", "install kubectl"]);
}

#[test]
fn a_plan_shows_the_pods_of_its_cells() {
    let path = fresh("pods-plan").with_extension("toml");
    let plan = |text: &str| {
        fs::write(&path, text).unwrap();
        Program::begin(&["plan", path.to_str().unwrap()]).ended()
    };
    let shown = plan(SPEC).output;
    assert!(
        shown.contains("pods: servers: 2 × localhost/krarup:0.1.0; requests cpu 10m, memory 32Mi\n"),
        "{shown}"
    );
    assert!(
        shown.contains("pods: middleware, cell 1: 1 × proxies:1; limits cpu 500m; on nodes with pool a\n"),
        "{shown}"
    );
    // Images, requests and nodes may be factors as limits are.
    let any = |place: &str, as_factor: &str, levels: [&str; 2], told: &str| {
        let factor = format!("[[factor]]\nname = \"any\"\nlevels = {levels:?}\n\n[populate]");
        let shown = plan(&SPEC.replace(place, as_factor).replace("[populate]", &factor)).output;
        for level in levels {
            let lines = shown.lines().filter(|line| line.starts_with("pods: middleware, cell "));
            assert_eq!(
                lines.filter(|line| line.contains(&told.replace("$any", level))).count(),
                2,
                "{shown}"
            );
        }
    };
    any("proxies:1", "proxies:$any", ["2", "3"], "1 × proxies:$any; limits");
    any("pool = \"a\"", "pool = \"$any\"", ["b", "c"], "on nodes with pool $any");
    let limits = "limits = { cpu = \"$processors\" }";
    let asked = format!("requests = {{ cpu = \"$any\" }}, {limits}");
    any(limits, &asked, ["100m", "200m"], "requests cpu $any");
    let refused = |text: &str| {
        let ended = plan(text);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        ended.errors
    };
    let errors = refused(&SPEC.replace("testbed = \"kubernetes\"\n", ""));
    assert!(errors.contains("kubernetes speaks of a cluster") && errors.contains("testbed ="), "{errors}");
    assert!(refused(&SPEC.replace("\"500m\"", "\"half\"")).contains("`half` is no quantity of cpu"));
}

#[test]
fn pods_of_the_manifests_may_have_addresses_of_either_family() {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let files = |folder: &str| {
        let entries = fs::read_dir(packaging.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        let files = entries.filter(|path| path.is_file());
        files.map(|path| fs::read_to_string(path).unwrap()).collect::<String>()
    };
    let manifests = files("kubernetes");
    let flags = manifests.lines().filter_map(|line| line.trim().strip_prefix("- --")?.split_once('='));
    let addresses = flags.filter(|(flag, _)| ["listen", "admin", "advertise"].contains(flag));
    let addresses: Vec<&str> = addresses.map(|(_, address)| address).collect();
    assert!(addresses.len() >= 12, "{addresses:?}");
    for (host, pod) in [("0.0.0.0", "10.0.0.5"), ("[::]", "fd00::5")] {
        for address in &addresses {
            let address = address.replace("0.0.0.0", host).replace("$(POD_IP)", pod);
            let found = address.parse::<Address>().unwrap_or_else(|why| panic!("{why}"));
            assert!(!found.is_name(), "{address}");
        }
    }
    // The chart says in one place where pods listen.
    assert!(!files("chart/krarup/templates").contains("0.0.0.0"));
}

/// The first process of a pod ends where no agent of its run is beside it, and when it is told to.
#[test]
fn the_first_process_of_a_pod_does_not_outlive_its_run() {
    let run = format!("stay-{}", test_id());
    assert!(Program::begin(&["agent", "stay", "1", &run]).ended().success);
    let mut agent = Command::new("cat");
    agent.env("KRARUP_RUN", format!("{run}/s1/1/")).stdin(Stdio::piped());
    let mut agent = agent.spawn().unwrap();
    let first = Program::begin(&["agent", "stay", "600", &run]);
    // It hears signals by the time that it has begun to look.
    crate::support::until("it has begun", || {
        let status = fs::read_to_string(format!("/proc/{}/status", first.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t")).unwrap_or("0");
        u64::from_str_radix(caught, 16).unwrap() & (1 << 14) != 0
    });
    first.signal(Signal::TERM);
    assert!(first.ended().success);
    drop(agent.stdin.take());
    agent.wait().unwrap();
}
