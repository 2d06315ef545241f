//! What a spec says of pods: in which cluster, of which images, with how much, on which nodes.

use std::collections::BTreeMap;

use krarup_settings::kind::{DAY, Duration, FreeTable, Kind, Located, Optional, TEXT, scalar};
use krarup_settings::table::FileItem;
use krarup_settings::{Mistake, settings};
use krarup_units::{Nanos, Seconds};
use toml::Spanned;

settings! {
    /// How a cluster is reached, and what all pods have in common.
    #[derive(Clone, Debug)]
    pub struct Kubernetes {
        /// The image of krarup, of the version that runs the experiment: each pod takes the program
        /// from it, and stations without an image of their own run in it.
        image: String = String::new(), TEXT, required = true, example = "\"registry.example/krarup:0.1.0\"";
        /// The namespace in which the pods are made, which must be there; without, that of the
        /// context.
        namespace: Option<String> = None, Optional(TEXT), example = "\"experiments\"";
        /// Which context of the configuration; without, the current one.
        context: Option<String> = None, Optional(TEXT), example = "\"staging\"";
        /// A configuration for kubectl in place of the user's own; relative to the spec.
        kubeconfig: Option<String> = None, Optional(TEXT), example = "\"kubeconfig\"";
        /// How long pods may take to run, where an autoscaler must bring nodes first. Without, 2
        /// minutes, and 15 seconds where no node has room.
        patience: Option<Seconds> = None, Optional(Duration::between(Nanos::from_secs(1), DAY)),
            example = "\"10m\"";
    }
}

settings! {
    /// The pod that a station runs in. `$factor` stands for the words of a level.
    #[derive(Clone, Debug)]
    pub struct PodSettings {
        /// The image, in which the program of the station is; without, krarup's. It is run as user
        /// 65532, without capabilities.
        image: Option<Spanned<String>> = None, Optional(Located(TEXT)), example = "\"memcached:1.6\"";
        /// What the scheduler keeps for it, by resource.
        requests: BTreeMap<String, Spanned<String>> = BTreeMap::new(), WORDS_BY_NAME,
            example = "{ cpu = \"500m\", memory = \"256Mi\" }";
        /// The most that it gets, by resource.
        limits: BTreeMap<String, Spanned<String>> = BTreeMap::new(), WORDS_BY_NAME,
            example = "{ cpu = \"$cpu\" }";
        /// On which nodes: those with these labels.
        nodes: BTreeMap<String, Spanned<String>> = BTreeMap::new(), WORDS_BY_NAME,
            example = "{ \"kubernetes.io/hostname\" = \"$node\" }";
    }
}

/// Numbers or texts, which may name factors, by names that are free.
const WORDS_BY_NAME: FreeTable<Located<ScalarText>> = FreeTable(Located(ScalarText));

/// A number or a text, as a text.
struct ScalarText;

impl Kind<String> for ScalarText {
    fn read(&self, name: &str, item: &FileItem<'_>, mistakes: &mut Vec<Mistake>) -> Option<String> {
        scalar(name, item).map_err(|mistake| mistakes.push(mistake.at(item.span().start))).ok()
    }
}

impl PodSettings {
    /// Every word that may hold a `$factor`.
    pub(super) fn words(&self) -> impl Iterator<Item = &Spanned<String>> {
        let named = self.requests.values().chain(self.limits.values()).chain(self.nodes.values());
        self.image.iter().chain(named)
    }
}

/// The suffixes of a quantity, and what they multiply by.
const SUFFIXES: [(&str, f64); 16] = [
    ("Ki", 1_024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("n", 1e-9),
    ("u", 1e-6),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("", 1.0),
];

/// A quantity as Kubernetes writes it: `500m` is 0.5, `1Ki` is 1024; none where it is none.
/// <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>
pub fn quantity(text: &str) -> Option<f64> {
    let (digits, factor) =
        SUFFIXES.iter().find_map(|(suffix, factor)| Some((text.strip_suffix(suffix)?, factor)))?;
    let plain = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    digits.parse::<f64>().ok().filter(|_| plain).map(|number| number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_kubernetes_writes_them() {
        let read = ["500m", "0.5", "2", "128Mi", "1k", "1e3", ".5"].map(quantity);
        let is = [0.5, 0.5, 2.0, 134_217_728.0, 1_000.0, 1_000.0, 0.5];
        for (read, is) in read.into_iter().zip(is) {
            assert!((read.unwrap() - is).abs() < 1e-12, "{read:?} {is}");
        }
        for none in ["", "m", "-1", "1MB", "half", "inf", "1 Gi", "$cpu"] {
            assert_eq!(quantity(none), None, "{none}");
        }
    }
}
