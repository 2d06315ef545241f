//! What the broker says about its tubes: settings.

use krarup_model::headroom::ResponseTarget;
use krarup_settings::kind::{Count, CustomText};
use krarup_settings::{Flag, settings};

use crate::books::MOST_TUBES;

settings! {
    /// What the broker says about its tubes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct TubeSettings {
        /// How soon messages shall be handed out, counted from when they are ready: a percentile
        /// and a time. stats-tube, /metrics and /tubes say how many workers that takes.
        waiting_target: ResponseTarget = ResponseTarget { quantile: 0.95, seconds: 1.0 }, TARGET,
            flag = Some(Flag::of_key("TARGET"));
        /// How many tubes /metrics and /tubes list, those with the most messages that wait; the
        /// others are one sum.
        tubes_in_metrics: usize = 20, Count::between(1, MOST_TUBES as u64), flag = Some(Flag::of_key("COUNT"));
    }
}

/// A percentile and a time: `p95 < 1s`.
const TARGET: CustomText<ResponseTarget> =
    CustomText { read: |text| text.parse(), write: ResponseTarget::to_string };
