//! Pods of a Kubernetes cluster, through the system's `kubectl`: its configuration, contexts and
//! ways to log in are the user's, and are used as they are.
//!
//! ```text
//! spec, cell ─▶ shape ─▶ job ─▶ kubectl create        an indexed Job for each kind of station
//!                        status ◀─ kubectl get pods   until each runs, or one says why it cannot
//!                        remote × pods ─▶ kubectl exec ─▶ agent
//! ```
//! What is made has a label of its run. It goes in three ways: we delete it; a pod ends that heard
//! of no runner for a minute, and the cluster deletes a Job that has ended; the next run in the
//! same directory of results deletes what the ledger says that the one before has made.

pub mod fleet;
pub mod job;
pub mod kubectl;
pub mod shape;
pub mod status;
