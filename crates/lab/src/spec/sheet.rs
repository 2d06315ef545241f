//! A sheet: what a reader guesses before anything is measured, what answers it afterwards, and what
//! a model says.

use std::collections::BTreeMap;

use krarup_model::sheet::{CostlyShare, SheetInputs, SheetLaw, SheetMeasure, SheetQuestion};
use krarup_settings::kind::{
    BANDWIDTH, Count, DAY, Duration, FreeTable, Inline, Number, Optional, Size, TEXT, Word,
};
use krarup_settings::{Mistake, settings};
use krarup_units::{Nanos, Seconds, Unit};

use super::factor::{LEVEL, LevelName};

settings! {
    /// A question that `krarup run SPEC --sheet` asks before anything is measured.
    #[derive(Clone, Debug)]
    pub struct SheetRow {
        /// Its name in a file of answers, of letters, digits and `_`.
        id: String = String::new(), TEXT, required = true, example = "\"reads\"";
        /// The question.
        ask: String = String::new(), TEXT, required = true,
            example = "\"At how many reads per second is the server's link full?\"";
        /// Which measured quantity answers it: at the clients `throughput`, `keys` (asked for per
        /// second), `response`, `clients_at_limit` (the fewest that come within 5 % of the most);
        /// at the middleware `queue_time`, `server_time`, `queue_length`, `at_servers` (requests
        /// that are with the servers), `middleware_bytes` (sent for each request, headers
        /// included). Without, nothing is measured, and the guess is held against the model.
        measured: Option<SheetMeasure> = None, Optional(Word(&SheetMeasure::NAMES)),
            example = "\"throughput\"";
        /// In which cell: a level of each factor that has several. Where that of the population is
        /// missing it is the cell with the fewest clients that come within 5 % of the most, if the
        /// limit was reached.
        at: BTreeMap<String, LevelName> = BTreeMap::new(), FreeTable(LEVEL),
            example = "{ workload = \"read\" }";
        /// Levels that are others in a second cell: asked is the change from that one, as a share.
        /// Only of `throughput` and `response`.
        beside: BTreeMap<String, LevelName> = BTreeMap::new(), FreeTable(LEVEL),
            example = "{ replication = \"none\" }";
        /// A guess is right, too, that is so near to what was measured: as a share of it, of a
        /// change as it is. Without, a tenth, of a change two hundredths.
        within: Option<f64> = None, Optional(Number::FRACTION), example = "0.05";
        /// What a model says.
        model: SheetModel = SheetModel::default(), Inline, required = true,
            example = "{ law = \"link\", rate = \"101Mbit/s\", bytes = 4132 }";
    }
}

settings! {
    /// A law, and what it is told.
    #[derive(Clone, Debug)]
    pub struct SheetModel {
        /// `link`: requests per second for which `links` of a `rate` suffice, X = links · C /
        /// (8 · copies · (bytes + headers)). `link_time`: for how long a message keeps one busy.
        /// `wire`: bytes with headers. `slots`: X = `slots` / `time`. `knee`: N* = X (R + Z), R
        /// being `time`, or what was measured with the fewest clients. `interactive`: R = N/X − Z.
        /// `waiting`: N − `slots` requests wait. `waiting_time`: for (N − `slots`)/X. `held`: the
        /// lesser of N and `slots`. `slowest`: of `copies` exponential times of a mean of `time`
        /// the longest. `mix_response`, `mix_throughput`: how R and X change when a share of
        /// `costly` requests that take `times` as long comes in place of `costly_before`.
        law: LawName = LawName::Link, Word(&LawName::NAMES), required = true, example = "\"link\"";
        /// What a link carries.
        rate: Option<f64> = None, Optional(BANDWIDTH), example = "\"101Mbit/s\"";
        /// How many links share the work.
        links: Option<u32> = None, Optional(Count::from(1)), example = "3";
        /// Bytes of one message, headers left out.
        bytes: Option<u64> = None, Optional(Size::from(1)), example = "4132";
        /// How many messages a request makes, or how many times there are.
        copies: Option<u32> = None, Optional(Count::between(1, 1_000)), example = "3";
        /// Connections, workers, readers.
        slots: Option<u32> = None, Optional(Count::from(1)), example = "40";
        /// A length of time.
        time: Option<Seconds> = None, Optional(Duration::between(Nanos(1), DAY)), example = "\"3ms\"";
        /// The question whose model says X.
        x: Option<String> = None, Optional(TEXT), example = "\"reads\"";
        /// The share of costly requests.
        costly: Option<f64> = None, Optional(Number::SHARE), example = "0.1";
        /// Their share in the second cell; without, there they cost no more than others.
        costly_before: Option<f64> = None, Optional(Number::SHARE), example = "0.01";
        /// How many times longer they take.
        times: Option<f64> = None, Optional(Number::POSITIVE), example = "3";
    }
}

/// A law by its name in a spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LawName {
    /// [`SheetLaw::Link`]
    Link,
    /// [`SheetLaw::LinkTime`]
    LinkTime,
    /// [`SheetLaw::Wire`]
    Wire,
    /// [`SheetLaw::Slots`]
    Slots,
    /// [`SheetLaw::Knee`]
    Knee,
    /// [`SheetLaw::Interactive`]
    Interactive,
    /// [`SheetLaw::Waiting`]
    Waiting,
    /// [`SheetLaw::WaitingTime`]
    WaitingTime,
    /// [`SheetLaw::Held`]
    Held,
    /// [`SheetLaw::Slowest`]
    Slowest,
    /// [`SheetLaw::MixResponse`]
    MixResponse,
    /// [`SheetLaw::MixThroughput`]
    MixThroughput,
}

impl LawName {
    /// All, with their words.
    pub const NAMES: [(Self, &'static str); 12] = [
        (Self::Link, "link"),
        (Self::LinkTime, "link_time"),
        (Self::Wire, "wire"),
        (Self::Slots, "slots"),
        (Self::Knee, "knee"),
        (Self::Interactive, "interactive"),
        (Self::Waiting, "waiting"),
        (Self::WaitingTime, "waiting_time"),
        (Self::Held, "held"),
        (Self::Slowest, "slowest"),
        (Self::MixResponse, "mix_response"),
        (Self::MixThroughput, "mix_throughput"),
    ];

    /// The keys that it must be told, and those that it may.
    const fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Link => (&["rate", "bytes"], &["links", "copies"]),
            Self::LinkTime => (&["rate", "bytes"], &[]),
            Self::Wire => (&["bytes"], &["copies"]),
            Self::Slots => (&["slots", "time"], &[]),
            Self::Knee => (&["x"], &["time"]),
            Self::Interactive => (&["x"], &[]),
            Self::Waiting | Self::Held => (&["slots"], &[]),
            Self::WaitingTime => (&["slots", "x"], &[]),
            Self::Slowest => (&["time", "copies"], &[]),
            Self::MixResponse | Self::MixThroughput => (&["costly", "times"], &["costly_before"]),
        }
    }

    fn word(self) -> &'static str {
        Word(&Self::NAMES).word(self).expect("each has a word")
    }
}

impl SheetModel {
    fn given(&self) -> [(&'static str, bool); 10] {
        [
            ("rate", self.rate.is_some()),
            ("links", self.links.is_some()),
            ("bytes", self.bytes.is_some()),
            ("copies", self.copies.is_some()),
            ("slots", self.slots.is_some()),
            ("time", self.time.is_some()),
            ("x", self.x.is_some()),
            ("costly", self.costly.is_some()),
            ("costly_before", self.costly_before.is_some()),
            ("times", self.times.is_some()),
        ]
    }

    /// The law; `before` are the questions that stand before this one.
    fn law(&self, before: &[SheetQuestion]) -> Result<SheetLaw, Mistake> {
        let (needed, allowed) = self.law.keys();
        let word = self.law.word();
        for (key, given) in self.given() {
            if !given && needed.contains(&key) {
                let what = format!("the law `{word}` is not told `{key}`");
                return Err(Mistake::new(what, format!("it needs {}", needed.join(" and "))));
            }
            if given && !needed.contains(&key) && !allowed.contains(&key) {
                let known = [needed, allowed].concat().join(", ");
                let what = format!("the law `{word}` has no use for `{key}`");
                return Err(Mistake::new(what, format!("it takes {known}")));
            }
        }
        let x = self.x.as_ref().map(|id| throughput(id, before)).transpose()?.unwrap_or_default();
        let (links, copies) = (self.links.unwrap_or(1), self.copies.unwrap_or(1));
        let (slots, time) = (self.slots.unwrap_or(1), self.time.unwrap_or_default());
        let (bits_per_second, bytes) = (self.rate.unwrap_or_default(), self.bytes.unwrap_or_default());
        let mix = CostlyShare {
            share: self.costly.unwrap_or_default(),
            before: self.costly_before.unwrap_or_default(),
            times: self.times.unwrap_or_default(),
        };
        Ok(match self.law {
            LawName::Link => SheetLaw::Link { bits_per_second, links, copies, bytes },
            LawName::LinkTime => SheetLaw::LinkTime { bits_per_second, bytes },
            LawName::Wire => SheetLaw::Wire { copies, bytes },
            LawName::Slots => SheetLaw::Slots { slots, time },
            LawName::Knee => SheetLaw::Knee { throughput: x, response: self.time },
            LawName::Interactive => SheetLaw::Interactive { throughput: x },
            LawName::Waiting => SheetLaw::Waiting { slots },
            LawName::WaitingTime => SheetLaw::WaitingTime { slots, throughput: x },
            LawName::Held => SheetLaw::Held { slots },
            LawName::Slowest => SheetLaw::Slowest { time, copies },
            LawName::MixResponse => SheetLaw::MixResponse(mix),
            LawName::MixThroughput => SheetLaw::MixThroughput(mix),
        })
    }
}

/// What the model of the question `id` says of the throughput.
fn throughput(id: &str, before: &[SheetQuestion]) -> Result<f64, Mistake> {
    let hint = "name a question before it whose law is `link` or `slots`";
    let Some(question) = before.iter().find(|question| question.id == id) else {
        return Err(Mistake::new(format!("x = \"{id}\" is no question before this one"), hint));
    };
    match question.law {
        SheetLaw::Link { .. } | SheetLaw::Slots { .. } => {
            Ok(question.law.figure(SheetInputs::default()).map_or(0.0, |figure| figure.value))
        }
        _ => Err(Mistake::new(format!("the model of `{id}` says no throughput"), hint)),
    }
}

impl SheetRow {
    /// The question; `before` are those that stand before it.
    ///
    /// # Errors
    /// Where its model is not told what it needs, or says another quantity than is measured.
    pub(crate) fn question(&self, before: &[SheetQuestion]) -> Result<SheetQuestion, Mistake> {
        let id = &self.id;
        let wrong = |what: String, hint: &str| Err(Mistake::new(format!("sheet `{id}`: {what}"), hint));
        if id.is_empty() || !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return wrong("this is no name for a question".into(), "use letters, digits and _");
        }
        if before.iter().any(|other| other.id == *id) {
            return wrong("it is there twice".into(), "give each question a name of its own");
        }
        let compared = [None, Some(SheetMeasure::Throughput), Some(SheetMeasure::Response)];
        if !self.beside.is_empty() && !compared[1..].contains(&self.measured) {
            return wrong(
                "only throughput and response are compared with those of a second cell".into(),
                "leave `beside` out, or measure one of them",
            );
        }
        let law = self.model.law(before).map_err(|mistake| mistake.within(&format!("sheet `{id}`")))?;
        let levels = |of: &BTreeMap<String, LevelName>| {
            of.iter().map(|(name, level)| (name.clone(), level.0.clone())).collect()
        };
        let mut question = SheetQuestion {
            id: id.clone(),
            ask: self.ask.clone(),
            measured: self.measured,
            at: levels(&self.at),
            beside: levels(&self.beside),
            within: 0.1,
            law,
        };
        let usual = if question.unit() == Unit::Share { 0.02 } else { question.within };
        question.within = self.within.unwrap_or(usual);
        if question.unit() != question.law.unit() {
            let word = self.model.law.word();
            let what = format!("the law `{word}` says another quantity than is measured");
            return wrong(
                what,
                "`beside` makes a change of what is measured; docs/reference/spec.md says what each law says",
            );
        }
        Ok(question)
    }
}
