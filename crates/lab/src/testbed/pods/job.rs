//! The objects that are made: an indexed Job for each kind of station, which the cluster takes away
//! when it has ended.

use serde_json::{Value, json};

use super::shape::PodShape;
use crate::agent::protocol::ALONE;

/// The container of the station.
pub const STATION: &str = "station";
/// Our program in each pod, in a folder of the pod's own, and where runs have their folders.
pub const PROGRAM: &str = "/krarup/krarup";
/// The folder.
pub const FOLDER: &str = "/krarup";
/// The label with the run that made it.
pub const RUN: &str = "krarup-run";
/// The user that all programs run as.
const USER: u32 = 65_532;
/// A Job is ended after a day, whatever happens; one that a run still needs is made again.
const LONGEST: u64 = 86_400;
/// Seconds after which a Job that has ended is taken away by the cluster.
const KEPT: u64 = 30;

/// The pods of one kind.
#[derive(Clone, Debug)]
pub struct JobOrder<'a> {
    /// The Job's name.
    pub name: &'a str,
    /// `servers`, `middleware`, `clients`.
    pub station: &'a str,
    /// How many.
    pub count: u32,
    /// What each is.
    pub shape: &'a PodShape,
    /// The image of krarup.
    pub image: &'a str,
    /// What [`RUN`] says.
    pub run: &'a str,
}

impl JobOrder<'_> {
    /// The Job, as the API server takes it.
    pub fn manifest(&self) -> Value {
        let labels = json!({
            "app.kubernetes.io/name": "krarup",
            "app.kubernetes.io/component": self.station,
            RUN: self.run,
        });
        let mounts = json!([{"name": "krarup", "mountPath": FOLDER}]);
        let confined = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
        let resources = json!({"requests": self.shape.requests, "limits": self.shape.limits});
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": self.name, "labels": labels},
            "spec": {
                "completions": self.count,
                "parallelism": self.count,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "activeDeadlineSeconds": LONGEST,
                "ttlSecondsAfterFinished": KEPT,
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "restartPolicy": "Never",
                        "terminationGracePeriodSeconds": 5,
                        "automountServiceAccountToken": false,
                        "enableServiceLinks": false,
                        "nodeSelector": self.shape.nodes,
                        "securityContext": {
                            "runAsNonRoot": true,
                            "runAsUser": USER,
                            "runAsGroup": USER,
                            "fsGroup": USER,
                            "seccompProfile": {"type": "RuntimeDefault"},
                        },
                        "volumes": [{"name": "krarup", "emptyDir": {}}],
                        "initContainers": [{
                            "name": "program",
                            "image": self.image,
                            "imagePullPolicy": "IfNotPresent",
                            "args": ["agent", "copy", PROGRAM],
                            "volumeMounts": mounts,
                            "securityContext": confined,
                            "resources": resources,
                        }],
                        "containers": [{
                            "name": STATION,
                            "image": self.shape.image,
                            "imagePullPolicy": "IfNotPresent",
                            "command": [PROGRAM, "agent", "stay", ALONE.as_secs().to_string(), self.run],
                            "volumeMounts": mounts,
                            "securityContext": confined,
                            "resources": resources,
                        }],
                    },
                },
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_ends_by_itself_and_its_pods_may_do_nothing_but_run() {
        let shape = PodShape {
            image: "memcached:1.6".into(),
            limits: [("cpu".to_owned(), "500m".to_owned())].into(),
            nodes: [("pool".to_owned(), "a".to_owned())].into(),
            ..PodShape::default()
        };
        let order = JobOrder {
            name: "krarup-1-servers",
            station: "servers",
            count: 3,
            shape: &shape,
            image: "localhost/krarup:0.1.0",
            run: "1",
        };
        let job = order.manifest();
        assert_eq!(job["metadata"]["labels"][RUN], "1");
        assert_eq!(job["spec"]["completions"], 3);
        assert_eq!(
            (&job["spec"]["backoffLimit"], &job["spec"]["ttlSecondsAfterFinished"]),
            (&0.into(), &30.into())
        );
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!((&pod["restartPolicy"], &pod["nodeSelector"]["pool"]), (&"Never".into(), &"a".into()));
        assert_eq!(pod["initContainers"][0]["image"], "localhost/krarup:0.1.0");
        assert_eq!(pod["containers"][0]["image"], "memcached:1.6");
        assert_eq!(pod["containers"][0]["resources"]["limits"]["cpu"], "500m");
        for container in [&pod["initContainers"][0], &pod["containers"][0]] {
            assert_eq!(container["securityContext"]["capabilities"]["drop"][0], "ALL");
        }
    }
}
