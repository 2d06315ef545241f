//! `kubectl`, as a user would call it.

use std::io::Cursor;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use krarup_units::Mistake;

use super::super::error::StationError;
use super::super::process::{ChildProcess, Feed};
use super::super::remote::kept;
use super::super::transport::{Transport, quoted};
use super::job::{RUN, STATION};
use super::status::{PodStatus, pods};
use crate::ledger::Ledger;
use crate::spec::Kubernetes;
use crate::stop::Stop;

/// The program.
const KUBECTL: &str = "kubectl";
/// How long one call of the API server may take.
const REQUEST: Duration = Duration::from_secs(30);
/// Deletes what belongs to it, too, and waits until it is gone, for a time.
pub const GONE: [&str; 3] = ["--cascade=foreground", "--wait=true", "--timeout=30s"];
/// What kubectl says when what was carried out in a pod has failed, and nothing else.
const CARRIED_OUT: &str = "command terminated with";

/// The program, and what tells it the cluster and the namespace.
#[derive(Clone, Debug)]
pub struct Kubectl {
    options: Vec<String>,
}

impl Kubectl {
    /// As the spec says; its paths are relative to `base`.
    pub fn new(cluster: &Kubernetes, base: &Path) -> Self {
        let file = cluster.kubeconfig.as_ref().map(|file| base.join(file).to_string_lossy().into_owned());
        let options = [
            ("--kubeconfig", file),
            ("--context", cluster.context.clone()),
            ("--namespace", cluster.namespace.clone()),
        ];
        let options = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        Self { options: options.flatten().collect() }
    }

    /// With options that were written down.
    pub fn with(options: Vec<String>) -> Self {
        Self { options }
    }

    /// What tells it the cluster and the namespace.
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// The command with these words.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(KUBECTL);
        command.args(&self.options).args(words);
        command
    }

    /// What one would type.
    fn by_hand(&self, words: &str) -> String {
        let options = self.options.iter().map(|word| quoted(word));
        let all: Vec<String> = std::iter::once(KUBECTL.to_owned()).chain(options).collect();
        format!("{} {words}", all.join(" "))
    }

    /// Deletes all that a run has made, and waits until it is gone; whether anything was there. A
    /// cluster that cannot be reached deletes it by itself.
    pub fn delete_run(&self, run: &str) -> bool {
        let selector = format!("--selector={RUN}={run}");
        let words = [&["delete", "jobs", &selector, "--output=name"][..], &GONE].concat();
        self.call(&words, None, &Stop::default()).is_ok_and(|deleted| !deleted.trim().is_empty())
    }

    /// Asks the API server, which takes `given`, and answers.
    ///
    /// # Errors
    /// Where it refuses or cannot be asked, with what to do.
    pub fn call(&self, words: &[&str], given: Option<String>, stop: &Stop) -> Result<String, StationError> {
        let feed = given.map_or(Feed::Nothing, |text| Feed::All(Box::new(Cursor::new(text))));
        let timeout = format!("--request-timeout={}s", REQUEST.as_secs());
        let mut command = self.command(&[words, &[timeout.as_str()]].concat());
        let mut process = ChildProcess::start_with(KUBECTL, &mut command, feed, kept()).map_err(|error| {
            if error.certain {
                let hint = "install kubectl: Krarup reaches the cluster through it, as you do";
                return StationError { hint: hint.into(), ..error };
            }
            error
        })?;
        // Its own limit is the better word.
        let ended = process.finish(2 * REQUEST, stop, || Ok(()))?;
        if ended.status.success() {
            return Ok(String::from_utf8_lossy(&ended.stdout).into_owned());
        }
        let what = words.iter().take(2).copied().collect::<Vec<_>>().join(" ");
        let error = process.error(format!("`kubectl {what}` failed"));
        let hint = self.hint(&error.said.join("\n"));
        Err(StationError { hint, ..error })
    }

    /// What to do about what kubectl said.
    fn hint(&self, said: &str) -> String {
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if has(&["exceeded quota"]) {
            return "ask for less in `pod`, or for more room in the namespace".into();
        }
        if has(&["orbidden"]) {
            return format!(
                "you need the rights to create, get and delete jobs, to get pods and events, and to create pods/exec in the namespace; try `{}`",
                self.by_hand("auth can-i create jobs")
            );
        }
        if has(&["namespaces"]) && has(&["not found"]) {
            let at = self.options.iter().position(|word| word == "--namespace");
            let name = at.and_then(|at| self.options.get(at + 1)).map_or("NAME", String::as_str);
            return format!(
                "make it with `kubectl create namespace {name}`, or name another in [kubernetes]"
            );
        }
        if has(&["no context exists", "does not exist"]) {
            return "`kubectl config get-contexts` lists them; `context` and `kubeconfig` in [kubernetes] choose"
                .into();
        }
        format!(
            "try `{}` by hand: what kubectl reaches is what Krarup reaches; KUBECONFIG, or `kubeconfig` in [kubernetes], names its configuration",
            self.by_hand("get pods")
        )
    }
}

/// The way into a pod: `kubectl exec`.
#[derive(Clone, Debug)]
pub struct PodTransport {
    /// The cluster.
    pub kubectl: Kubectl,
    /// The pod's name there.
    pub pod: String,
    /// `s1 (pod krarup-… on node-a)`.
    pub title: String,
    /// The node it runs on.
    pub node: String,
}

impl Transport for PodTransport {
    fn name(&self) -> &str {
        &self.title
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = self.kubectl.command(&["exec", "--stdin", "--container", STATION, &self.pod, "--"]);
        command.args(words);
        command
    }

    fn connect(&self, _: &Ledger, _: &Stop) -> Result<Option<ChildProcess>, StationError> {
        Ok(None)
    }

    fn broke(&self, _: ExitStatus, said: &[String]) -> bool {
        !said.iter().any(|line| line.contains(CARRIED_OUT))
    }

    fn unreachable(&self) -> Mistake {
        // The cluster may know what became of it.
        let name = format!("--field-selector=metadata.name={}", self.pod);
        let asked = self.kubectl.call(&["get", "pods", &name, "--output=json"], None, &Stop::default());
        let found = asked.ok().and_then(|list| pods(&list)).and_then(|mut found| found.pop());
        if let Some(PodStatus::Failed(why)) = found.map(|pod| pod.status) {
            return why;
        }
        let words = format!("describe pod {}", self.pod);
        let hint = format!("`{}` says what became of it, while it is there", self.kubectl.by_hand(&words));
        Mistake::new("cannot be reached by `kubectl exec`, or no longer", hint)
    }

    /// There may be no `env` in its image.
    fn agent(&self, krarup: &str, variables: [(&str, &str); 2]) -> Vec<String> {
        let set = variables.map(|(name, value)| format!("{name}={value}"));
        let begin = [krarup, "agent", "with"].map(str::to_owned);
        [&begin[..], &set, &["--".to_owned(), "agent".to_owned()]].concat()
    }

    fn other_version(&self) -> &'static str {
        "name the image of this version as `image` in [kubernetes]; `make image` builds it"
    }

    fn node(&self) -> Option<&str> {
        Some(&self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubectl() -> Kubectl {
        let cluster = Kubernetes {
            context: Some("a b".into()),
            namespace: Some("runs".into()),
            kubeconfig: Some("here.conf".into()),
            ..Kubernetes::default()
        };
        Kubectl::new(&cluster, Path::new("/specs"))
    }

    #[test]
    fn the_cluster_is_told_as_the_spec_says() {
        let pod =
            PodTransport { kubectl: kubectl(), pod: "p-0-x".into(), title: "s1".into(), node: "n".into() };
        let command = pod.command(&pod.agent("/krarup/krarup", [("A", "1/"), ("B", "c d")]));
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let begin = ["--kubeconfig", "/specs/here.conf", "--context", "a b", "--namespace", "runs", "exec"];
        assert_eq!(words[..begin.len()], begin);
        let end = ["p-0-x", "--", "/krarup/krarup", "agent", "with", "A=1/", "B=c d", "--", "agent"];
        assert_eq!(words[words.len() - end.len()..], end);
        assert!(kubectl().by_hand("get pods").ends_with("--context 'a b' --namespace runs get pods"));
    }

    #[test]
    fn what_failed_in_the_pod_is_told_from_what_failed_on_the_way() {
        let pod = PodTransport { kubectl: kubectl(), pod: "p".into(), title: "s1".into(), node: "n".into() };
        let broke = |said: &str| pod.broke(ExitStatus::default(), &[said.to_owned()]);
        assert!(!broke("command terminated with exit code 1"));
        assert!(broke("Error from server (NotFound): pods \"p\" not found"));
        assert!(broke("error: unable to upgrade connection: container not found"));
    }

    #[test]
    fn what_kubectl_says_has_a_hint() {
        let hint = |said: &str| kubectl().hint(said);
        assert!(hint("pods is forbidden: exceeded quota: q, requested: cpu=4").contains("ask for less"));
        assert!(hint("Error from server (Forbidden): jobs is forbidden").contains("auth can-i create jobs"));
        assert!(
            hint("Error from server (NotFound): namespaces \"runs\" not found").contains("namespace runs")
        );
        assert!(hint("error: context \"x\" does not exist").contains("get-contexts"));
        assert!(hint("The connection to the server localhost:8080 was refused").contains("KUBECONFIG"));
    }
}
