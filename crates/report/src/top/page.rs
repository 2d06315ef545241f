//! The pages there are.

use krarup_analysis::top::ServiceKind;

/// A page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopPage {
    /// The servers of proxies.
    Servers,
    /// Their pools.
    Pools,
    /// The tubes of brokers.
    Tubes,
    /// What is asked for, and how long it takes.
    Operations,
    /// Who asks for how much.
    Clients,
    /// The keys that take most.
    HotKeys,
    /// Which resource is full first.
    Headroom,
    /// The instances that are looked at.
    Instances,
}

impl TopPage {
    /// Every page, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Servers,
        Self::Pools,
        Self::Tubes,
        Self::Operations,
        Self::Clients,
        Self::HotKeys,
        Self::Headroom,
        Self::Instances,
    ];

    /// What stands on its tab.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Pools => "pools",
            Self::Tubes => "tubes",
            Self::Operations => "operations",
            Self::Clients => "clients",
            Self::HotKeys => "hot keys",
            Self::Headroom => "headroom",
            Self::Instances => "instances",
        }
    }

    /// The kind of service that it is about; none: any.
    pub const fn service(self) -> Option<ServiceKind> {
        match self {
            Self::Servers | Self::Pools | Self::Clients | Self::HotKeys => Some(ServiceKind::Proxy),
            Self::Tubes => Some(ServiceKind::Broker),
            Self::Operations | Self::Headroom | Self::Instances => None,
        }
    }

    /// The pages about these kinds of service.
    pub fn about(services: &[ServiceKind]) -> Vec<Self> {
        let is_about = |page: &Self| page.service().is_none_or(|kind| services.contains(&kind));
        Self::ALL.into_iter().filter(is_about).collect()
    }
}
