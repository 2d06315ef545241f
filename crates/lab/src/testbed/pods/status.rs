//! What a cluster says of pods, and which of it means that they will not run.

use krarup_units::Mistake;
use serde_json::Value;

/// Where a pod is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodStatus {
    /// Its station's container runs.
    Running {
        /// The pod's address.
        address: String,
        /// Its node.
        node: String,
    },
    /// It is not there yet, and may come.
    Waiting(String),
    /// No node has room for it; one may be brought.
    Unschedulable(Mistake),
    /// It will not run.
    Failed(Mistake),
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its Job's.
    pub job: String,
    /// Which of the Job's, from 0.
    pub index: u32,
    /// Where it is on its way.
    pub status: PodStatus,
}

/// Reasons for which a container waits that do not go by waiting. `ErrImagePull` is none of them: a
/// pull that fails is tried again, and what fails again is `ImagePullBackOff`.
const HOPELESS: [&str; 8] = [
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
    "ImageInspectError",
    "CrashLoopBackOff",
];

/// All pods of `kubectl get pods --output json`; none where that is no list.
pub fn pods(list: &str) -> Option<Vec<Pod>> {
    let list: Value = serde_json::from_str(list).ok()?;
    Some(list["items"].as_array()?.iter().filter_map(pod).collect())
}

/// One that is being deleted is none any more.
fn pod(item: &Value) -> Option<Pod> {
    let about = &item["metadata"];
    if !about["deletionTimestamp"].is_null() {
        return None;
    }
    Some(Pod {
        name: about["name"].as_str()?.to_owned(),
        job: about["labels"]["job-name"].as_str()?.to_owned(),
        index: about["annotations"]["batch.kubernetes.io/job-completion-index"].as_str()?.parse().ok()?,
        status: status(item),
    })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A word of the cluster, and what it says about it.
fn reason_of(reason: &Value, message: &Value) -> String {
    match text(message).trim() {
        "" => text(reason).to_owned(),
        message => format!("{}: {message}", text(reason)),
    }
}

fn status(item: &Value) -> PodStatus {
    let status = &item["status"];
    let all = |name: &str| status[name].as_array().into_iter().flatten();
    let containers = || all("initContainerStatuses").chain(all("containerStatuses"));
    for container in containers() {
        let waiting = &container["state"]["waiting"];
        if HOPELESS.contains(&text(&waiting["reason"])) {
            return PodStatus::Failed(hopeless(text(&container["image"]), waiting));
        }
    }
    let mut conditions = all("conditions");
    let unscheduled =
        conditions.find(|one| one["type"] == "PodScheduled" && one["reason"] == "Unschedulable");
    if let Some(condition) = unscheduled {
        let what = format!("no node takes it ({})", reason_of(&condition["reason"], &condition["message"]));
        let hint = "ask for less in `pod.requests` or `pod.limits`, look at `pod.nodes`, or wait longer for an autoscaler with `patience` in [kubernetes]";
        return PodStatus::Unschedulable(Mistake::new(what, hint));
    }
    match text(&status["phase"]) {
        "Failed" | "Succeeded" => PodStatus::Failed(ended(status, containers())),
        _ => {
            let runs = all("containerStatuses").any(|one| !one["state"]["running"].is_null());
            match (status["podIP"].as_str(), item["spec"]["nodeName"].as_str()) {
                (Some(address), Some(node)) if runs => {
                    PodStatus::Running { address: address.to_owned(), node: node.to_owned() }
                }
                _ => {
                    let waiting = containers().find_map(|one| one["state"].get("waiting"));
                    let why = waiting.map(|waiting| reason_of(&waiting["reason"], &waiting["message"]));
                    PodStatus::Waiting(why.unwrap_or_else(|| text(&status["phase"]).to_owned()))
                }
            }
        }
    }
}

/// What is said of a container that will never begin.
fn hopeless(image: &str, waiting: &Value) -> Mistake {
    let why = reason_of(&waiting["reason"], &waiting["message"]);
    if text(&waiting["reason"]).contains("Image") {
        let hint = "look at the image's name and tag; a registry that wants a password needs imagePullSecrets on the namespace's default service account";
        return Mistake::new(format!("its image `{image}` cannot be had ({why})"), hint);
    }
    Mistake::new(
        format!("its container of `{image}` does not begin ({why})"),
        "the image must run as user 65532",
    )
}

/// What is said of a pod that has ended.
fn ended<'a>(status: &Value, containers: impl Iterator<Item = &'a Value>) -> Mistake {
    let ends = containers.map(|one| &one["state"]["terminated"]);
    let end = ends.filter(|end| !end.is_null()).find(|end| end["exitCode"] != 0);
    match end {
        Some(end) if end["reason"] == "OOMKilled" => {
            Mistake::new("it used more memory than it may (OOMKilled)", "raise `memory` in `pod.limits`")
        }
        Some(end) => {
            let (code, why) = (&end["exitCode"], reason_of(&end["reason"], &end["message"]));
            Mistake::new(
                format!("it has ended (exit code {code}, {why})"),
                "the image of [kubernetes] must be krarup's, of this version",
            )
        }
        None => {
            Mistake::plain(format!("it has ended ({})", reason_of(&status["reason"], &status["message"])))
        }
    }
}

/// Why a Job makes no pods, of `kubectl get events --output json`; none where no event says it.
pub fn refusal(events: &str, job: &str) -> Option<Mistake> {
    let list: Value = serde_json::from_str(events).ok()?;
    let of = |event: &&Value| event["involvedObject"]["name"] == job && event["reason"] == "FailedCreate";
    let event = list["items"].as_array()?.iter().rfind(of)?;
    let hint = "a quota, a limit range or an admission rule of the namespace refuses it: `pod` can be given requests and limits";
    Some(Mistake::new(format!("the cluster makes no pod: {}", text(&event["message"])), hint))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(status: &Value) -> PodStatus {
        let pod = json!({
            "metadata": {"name": "p", "labels": {"job-name": "j"},
                "annotations": {"batch.kubernetes.io/job-completion-index": "1"}},
            "spec": {"nodeName": "node-a"},
            "status": status,
        });
        let list = json!({"items": [pod]}).to_string();
        pods(&list).unwrap().remove(0).status
    }

    fn waiting(reason: &str) -> Value {
        json!({"phase": "Pending", "podIP": "10.0.0.1", "containerStatuses": [
            {"image": "memcached:nope", "state": {"waiting": {"reason": reason, "message": "why"}}}]})
    }

    #[test]
    fn a_pod_runs_when_its_container_does_and_has_an_address() {
        let runs = json!({"phase": "Running", "podIP": "10.0.0.1", "containerStatuses": [{"state": {"running": {}}}]});
        let (address, node) = ("10.0.0.1".to_owned(), "node-a".to_owned());
        assert_eq!(of(&runs), PodStatus::Running { address, node });
        assert_eq!(of(&waiting("PodInitializing")), PodStatus::Waiting("PodInitializing: why".into()));
        assert_eq!(
            of(&waiting("ErrImagePull")),
            PodStatus::Waiting("ErrImagePull: why".into()),
            "it is tried again"
        );
        assert_eq!(of(&json!({"phase": "Pending"})), PodStatus::Waiting("Pending".into()));
    }

    #[test]
    fn what_will_not_run_is_told_with_what_to_do() {
        let failed = |status: &Value| match of(status) {
            PodStatus::Failed(why) | PodStatus::Unschedulable(why) => why.to_string(),
            other => panic!("{other:?}"),
        };
        let image = failed(&waiting("ImagePullBackOff"));
        assert!(
            image.starts_with("its image `memcached:nope` cannot be had (ImagePullBackOff: why)"),
            "{image}"
        );
        let room = failed(&json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "1 Insufficient cpu"}]}));
        assert!(
            room.contains("Unschedulable: 1 Insufficient cpu") && room.contains("pod.requests"),
            "{room}"
        );
        let memory = failed(&json!({"phase": "Failed", "containerStatuses": [
            {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]}));
        assert!(memory.contains("OOMKilled") && memory.contains("raise `memory`"), "{memory}");
        let other = failed(&json!({"phase": "Failed", "reason": "Evicted", "message": "disk"}));
        assert_eq!(other, "it has ended (Evicted: disk)");
    }

    #[test]
    fn pods_that_are_being_deleted_are_none() {
        let list = json!({"items": [{"metadata": {"name": "p", "deletionTimestamp": "2026-11-25T00:00:00Z",
            "labels": {"job-name": "j"}, "annotations": {"batch.kubernetes.io/job-completion-index": "0"}}}]});
        assert_eq!(pods(&list.to_string()), Some(Vec::new()));
        assert_eq!(pods("cut off"), None);
    }

    #[test]
    fn a_job_that_makes_no_pods_says_why() {
        let events = json!({"items": [
            {"reason": "FailedCreate", "involvedObject": {"name": "other"}, "message": "x"},
            {"reason": "FailedCreate", "involvedObject": {"name": "j"}, "message": "exceeded quota: small"}]});
        let why = refusal(&events.to_string(), "j").unwrap().to_string();
        assert!(why.contains("makes no pod: exceeded quota: small"), "{why}");
        assert_eq!(refusal(&events.to_string(), "k"), None);
    }
}
