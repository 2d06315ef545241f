//! All pods of an experiment: made for a cell, kept while they are what the next cell wants.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use krarup_units::{Mistake, Nanos};
use serde_json::json;

use super::super::error::StationError;
use super::super::host::{Host, HostGroup, Location};
use super::super::remote::{Remote, RemotePlace, RemoteRun, run_number};
use super::job::{FOLDER, JobOrder, PROGRAM, RUN};
use super::kubectl::{GONE, Kubectl, PodTransport};
use super::shape::PodShape;
use super::status::{Pod, PodStatus, pods, refusal};
use crate::ledger::Ledger;
use crate::plan::PlannedCell;
use crate::spec::{Kubernetes, Spec, StationSpec};
use crate::stop::Stop;
use crate::waiting;

/// How long pods may take to run, and how long one may find no node, where the spec does not say.
const PATIENCE: [Duration; 2] = [Duration::from_secs(120), Duration::from_secs(15)];
/// After this the events of a Job without pods are looked at.
const NO_PODS: Duration = Duration::from_secs(5);
/// How often the cluster is asked how far they are.
const LOOK: Duration = Duration::from_millis(500);

/// A kind of station that runs in pods.
#[derive(Debug)]
struct PodKind {
    letter: char,
    /// `servers`, `middleware`, `clients`.
    name: &'static str,
    station: StationSpec,
    count: u32,
}

/// The pods of one kind, as long as they are what they were made as.
#[derive(Debug)]
struct PodGroup {
    shape: PodShape,
    job: String,
    hosts: Vec<Host>,
}

/// All pods. They are deleted with this value.
#[derive(Debug)]
pub struct PodFleet {
    cluster: Kubernetes,
    kubectl: Kubectl,
    run: String,
    /// How many Jobs were made so far.
    jobs: AtomicU32,
    kinds: Vec<PodKind>,
    /// The folder here that stands for the run's folder there.
    folder: PathBuf,
    ledger: Ledger,
    made: Mutex<BTreeMap<char, PodGroup>>,
}

impl PodFleet {
    /// Makes the pods that the first cell wants. Paths in the spec are relative to `base`; `folder`
    /// is where a trial's records are written.
    ///
    /// # Errors
    /// Where the cluster cannot be reached, refuses, or has no room, or an image cannot be had.
    pub fn begin(
        spec: &Spec,
        counts: &[HostGroup],
        (base, folder): (&Path, &Path),
        first: Option<&PlannedCell>,
        ledger: &Ledger,
        stop: &Stop,
    ) -> Result<Self, StationError> {
        let cluster = spec.kubernetes.clone().unwrap_or_default();
        let started = spec.stations().filter(|(_, station)| station.addresses.is_empty());
        let kinds = started.map(|(name, station)| {
            let letter = name.chars().next().unwrap_or('s');
            let count = counts.iter().find(|group| group.letter == letter).map_or(1, |group| group.count);
            PodKind { letter, name, station: station.clone(), count }
        });
        let fleet = Self {
            kubectl: Kubectl::new(&cluster, base),
            cluster,
            run: run_number(),
            jobs: AtomicU32::new(0),
            kinds: kinds.collect(),
            folder: folder.to_owned(),
            ledger: ledger.clone(),
            made: Mutex::default(),
        };
        ledger.note_pods(&fleet.run, fleet.kubectl.options());
        if let Some(cell) = first {
            fleet.prepare(cell, stop)?;
        }
        Ok(fleet)
    }

    fn made(&self) -> MutexGuard<'_, BTreeMap<char, PodGroup>> {
        self.made.lock().expect("no thread panics while it holds it")
    }

    /// The host of this kind and number, from 1.
    pub fn host(&self, letter: char, number: u32) -> Option<Host> {
        self.made().get(&letter)?.hosts.get(number.checked_sub(1)? as usize).cloned()
    }

    /// The pods there are, each as a machine.
    pub fn machines(&self) -> Vec<Arc<Remote>> {
        self.made()
            .values()
            .flat_map(|group| &group.hosts)
            .filter_map(|host| host.remote().cloned())
            .collect()
    }

    /// Whether a cell wants other pods of a kind than there are.
    pub fn changes(&self, letter: char, cell: &PlannedCell) -> bool {
        let made = self.made();
        self.kinds.iter().filter(|kind| kind.letter == letter).any(|kind| {
            let wanted = PodShape::of(&kind.station, cell, &self.cluster);
            made.get(&letter).is_some_and(|group| group.shape != wanted)
        })
    }

    /// Makes sure that the pods are there that a cell wants, and can be reached.
    ///
    /// # Errors
    /// Where one will not run, or does not in time, or the cluster refuses it.
    pub fn prepare(&self, cell: &PlannedCell, stop: &Stop) -> Result<(), StationError> {
        let mut made = self.made();
        let (mut missing, mut stale) = (Vec::new(), Vec::new());
        for kind in &self.kinds {
            let shape = PodShape::of(&kind.station, cell, &self.cluster);
            let reached = |host: &Host| host.remote().is_none_or(|pod| pod.reconnect(stop).is_ok());
            let kept = |group: &PodGroup| group.shape == shape && group.hosts.iter().all(reached);
            if !made.get(&kind.letter).is_some_and(kept) {
                stale.extend(made.remove(&kind.letter).map(|group| group.job));
                let number = self.jobs.fetch_add(1, Ordering::Relaxed);
                missing.push((kind, shape, format!("krarup-{}-{number}-{}", self.run, kind.name)));
            }
        }
        // What they had kept of a node is to be free for those that come; a node that is gone takes
        // its time.
        let _ = self.delete(&stale, stop);
        if missing.is_empty() {
            return Ok(());
        }
        let orders = missing.iter().map(|(kind, shape, job)| {
            let (image, run) = (&*self.cluster.image, &*self.run);
            JobOrder { name: job, station: kind.name, count: kind.count, shape, image, run }.manifest()
        });
        let list = json!({"apiVersion": "v1", "kind": "List", "items": orders.collect::<Vec<_>>()});
        let jobs: Vec<String> = missing.iter().map(|(.., job)| job.clone()).collect();
        let begun =
            self.kubectl.call(&["create", "--filename=-", "--output=name"], Some(list.to_string()), stop);
        let mut hosts = match begun.and_then(|_| self.connect(&missing, stop)) {
            Ok(hosts) => hosts,
            Err(error) => {
                let _ = self.delete(&jobs, &Stop::default());
                return Err(error);
            }
        };
        for (kind, shape, job) in missing {
            let hosts = hosts.remove(&kind.letter).unwrap_or_default().into_values().collect();
            made.insert(kind.letter, PodGroup { shape, job, hosts });
        }
        Ok(())
    }

    /// Deletes Jobs with their pods, and waits until they are gone.
    fn delete(&self, jobs: &[String], stop: &Stop) -> Result<(), StationError> {
        if jobs.is_empty() {
            return Ok(());
        }
        let names = jobs.iter().map(String::as_str);
        let words: Vec<&str> =
            [&["delete", "jobs", "--ignore-not-found"][..], &GONE, &names.collect::<Vec<_>>()].concat();
        self.kubectl.call(&words, None, stop).map(drop)
    }

    /// Waits until all pods of some Jobs run, and begins to work in each as soon as it does.
    fn connect(&self, jobs: &[Wanted<'_>], stop: &Stop) -> Result<Hosted, StationError> {
        let begun = Instant::now();
        let [patience, room] =
            PATIENCE.map(|usual| self.cluster.patience.map_or(usual, Duration::from_secs_f64));
        let total: usize = jobs.iter().map(|(kind, ..)| kind.count as usize).sum();
        let mut hosts = Hosted::new();
        loop {
            let selector = format!("--selector={RUN}={}", self.run);
            let list = self.kubectl.call(&["get", "pods", &selector, "--output=json"], None, stop)?;
            let found = pods(&list).ok_or_else(|| {
                StationError::new("kubectl", "what it writes with --output=json is no list of pods")
            })?;
            let mut waits = Vec::new();
            for pod in &found {
                let Some((kind, shape, _)) = jobs.iter().find(|(.., job)| *job == pod.job) else { continue };
                let station = format!("{}{} (pod {})", kind.letter, pod.index + 1, pod.name);
                let known = hosts.entry(kind.letter).or_default();
                match &pod.status {
                    PodStatus::Failed(why) => return Err(refused(station, why)),
                    PodStatus::Unschedulable(why) if begun.elapsed() >= room => {
                        return Err(refused(station, why));
                    }
                    PodStatus::Unschedulable(why) => waits.push(format!("{station}: {}", why.what)),
                    PodStatus::Waiting(why) => waits.push(format!("{station}: {why}")),
                    PodStatus::Running { .. } if known.contains_key(&pod.index) => {}
                    PodStatus::Running { address, node } => {
                        let host = self.host_in((*kind, shape), pod, (address, node), stop)?;
                        known.insert(pod.index, host);
                    }
                }
            }
            if hosts.values().map(BTreeMap::len).sum::<usize>() == total {
                return Ok(hosts);
            }
            if stop.asked() {
                return Err(StationError::new("pods", "stopped on request"));
            }
            if begun.elapsed() >= NO_PODS.min(patience) {
                self.pods_are_made(jobs, &found, stop)?;
            }
            if begun.elapsed() >= patience {
                let what = format!("do not run after {} s ({})", patience.as_secs(), waits.join("; "));
                let hint = "wait longer with `patience` in [kubernetes]";
                return Err(StationError::new("pods", Mistake::new(what, hint)));
            }
            waiting::blindly(LOOK);
        }
    }

    /// A Job without pods has been refused them.
    fn pods_are_made(&self, jobs: &[Wanted<'_>], found: &[Pod], stop: &Stop) -> Result<(), StationError> {
        for (kind, _, job) in jobs.iter().filter(|(.., job)| !found.iter().any(|pod| pod.job == *job)) {
            let events = self.kubectl.call(&["get", "events", "--output=json"], None, stop)?;
            if let Some(why) = refusal(&events, job) {
                return Err(refused(format!("stations.{}", kind.name), &why));
            }
        }
        Ok(())
    }

    /// A station's host in a pod that runs.
    fn host_in(
        &self,
        (kind, shape): (&PodKind, &PodShape),
        pod: &Pod,
        (address, node): (&str, &str),
        stop: &Stop,
    ) -> Result<Host, StationError> {
        let name = format!("{}{}", kind.letter, pod.index + 1);
        let transport = PodTransport {
            kubectl: self.kubectl.clone(),
            pod: pod.name.clone(),
            title: format!("{name} (pod {} on {node})", pod.name),
            node: node.to_owned(),
        };
        let place = RemotePlace {
            name: name.clone(),
            address: address.to_owned(),
            krarup: PROGRAM.to_owned(),
            runs: format!("{FOLDER}/runs"),
        };
        let run = RemoteRun { number: &self.run, folder: &self.folder, ledger: &self.ledger, stop };
        let remote = Remote::begin(place, Box::new(transport), None, run)?;
        Ok(Host {
            name,
            address: address.to_owned(),
            location: Location::Remote(Arc::new(remote)),
            link: None,
            waits: Nanos::ZERO,
            delay: Nanos::ZERO,
            cpu: shape.cpu(),
            quota: None,
        })
    }
}

impl Drop for PodFleet {
    fn drop(&mut self) {
        // Agents first: they leave nothing behind where a pod takes its time.
        self.made().clear();
        self.kubectl.delete_run(&self.run);
    }
}

/// A kind whose pods are to be made, what each is, and the Job's name.
type Wanted<'a> = (&'a PodKind, PodShape, String);
/// Hosts in pods, by kind and by place from 0.
type Hosted = BTreeMap<char, BTreeMap<u32, Host>>;

/// It would go the same way the next time.
fn refused(station: String, why: &Mistake) -> StationError {
    StationError { certain: true, ..StationError::new(station, why.clone()) }
}
