//! From a network to the schema: what is as usual is left out.

use super::schema::{
    Bandwidth, BranchForm, ChangeForm, ClassForm, DisciplineForm, FullForm, NetworkForm, PoolForm, SizeValue,
    StationForm, StepForm, TimeForm, TimeValue, WaitForm,
};
use crate::network::{
    Class, ClassWorkload, Discipline, Network, Station, StationId, StationKind, Step, Work,
};

impl From<&Network> for NetworkForm {
    fn from(network: &Network) -> Self {
        Self {
            name: network.name.clone(),
            stations: network.stations.iter().map(StationForm::from).collect(),
            pools: network
                .pools
                .iter()
                .map(|pool| PoolForm {
                    name: pool.name.clone(),
                    size: pool.size,
                    queue: pool.waiting,
                    full: FullForm::of(pool.when_full),
                    discipline: (pool.discipline != Discipline::Fcfs)
                        .then(|| DisciplineForm::of(pool.discipline)),
                })
                .collect(),
            classes: network.classes.iter().map(|class| ClassForm::of(class, network)).collect(),
        }
    }
}

impl From<&Station> for StationForm {
    fn from(station: &Station) -> Self {
        let mut form = Self { name: station.name.clone(), capacity: station.capacity, ..Self::default() };
        let mut usual = Discipline::Fcfs;
        match &station.kind {
            StationKind::Servers { count } => form.servers = Some(*count),
            StationKind::Delay => form.delay = Some(true),
            StationKind::LoadDependent { rates } => form.rates = Some(rates.clone()),
            StationKind::Link { bits_per_second, overhead } => {
                usual = Discipline::ProcessorSharing;
                form.bandwidth = Some(Bandwidth(*bits_per_second));
                form.overhead = Some(SizeValue(overhead.0));
            }
        }
        form.discipline = (station.discipline != usual).then(|| DisciplineForm::of(station.discipline));
        form.factor = (station.factor != 1.0).then_some(station.factor);
        form.full = FullForm::of(station.when_full);
        form
    }
}

impl ClassForm {
    fn of(class: &Class, network: &Network) -> Self {
        let mut form = Self {
            name: class.name.clone(),
            population: None,
            think: None,
            rate: None,
            gap: None,
            profile: Vec::new(),
            priority: class.priority,
            path: steps(&class.path, network),
        };
        match &class.workload {
            ClassWorkload::Open { gap, profile } => {
                form.gap = Some(TimeForm(gap.clone()));
                form.profile =
                    profile.iter().map(|c| ChangeForm { at: TimeValue(c.at), factor: c.factor }).collect();
            }
            ClassWorkload::Closed { population, think } => {
                form.population = Some(*population);
                form.think = Some(TimeForm(think.clone()));
            }
        }
        form
    }
}

fn steps(path: &[Step], network: &Network) -> Vec<StepForm> {
    let name = |station: &StationId| network.stations[station.0].name.clone();
    let work = |form: &mut StepForm, work: &Work| match work {
        Work::Time(time) => form.service = Some(TimeForm(time.clone())),
        Work::Bytes(bytes) => form.bytes = Some(*bytes),
    };
    path.iter()
        .map(|step| {
            let mut form = StepForm::default();
            match step {
                Step::Visit(visit) => {
                    form.at = Some(name(&visit.station));
                    form.visits = (visit.count != 1.0).then_some(visit.count);
                    work(&mut form, &visit.work);
                }
                Step::Hold { pool, path } => {
                    form.hold = Some(network.pools[pool.0].name.clone());
                    form.path = Some(steps(path, network));
                }
                Step::Fork(fork) => {
                    form.fork = Some(fork.stations.iter().map(name).collect());
                    form.choose = Some(fork.choose);
                    form.wait = Some(WaitForm(fork.wait));
                    work(&mut form, &fork.work);
                }
                Step::OneOf { branches } => {
                    form.one_of = Some(
                        branches
                            .iter()
                            .map(|b| BranchForm { share: b.share, path: steps(&b.path, network) })
                            .collect(),
                    );
                }
            }
            form
        })
        .collect()
}
