//! The description of a weigher, and the computation of scores from the values of all weighers.

use std::fmt;

use super::term::Term;
use crate::config::SchedulerConfig;
use crate::context::Context;
use crate::error::BadRequest;
use crate::hosts::aggregate::OverrideColumn;
use crate::hosts::table::HostTable;

/// A weigher: its name in the configuration, its multiplier, the ends of its range, and its
/// compiler.
#[derive(Debug)]
pub struct Weigher {
    /// The name by which `weight_classes` refers to the weigher.
    pub name: &'static str,
    /// The name of the option with its multiplier, which is also the metadata key by which an
    /// aggregate overrides the multiplier for its hosts.
    pub multiplier_key: &'static str,
    /// Reads the multiplier from the configuration.
    pub multiplier: fn(&SchedulerConfig) -> f64,
    /// Whether the multiplier is negated, so that higher values are worse.
    pub negates_multiplier: bool,
    /// The declared lower end of the range, if any; lower raw values are raised to it.
    pub declared_low: Option<f64>,
    /// The declared upper end of the range, if any; higher raw values are lowered to it.
    pub declared_high: Option<f64>,
    /// Compiles the weigher for a request.
    pub compile: Compile,
}

/// Compiles a weigher for a request: returns the raw values of all hosts.
pub type Compile = for<'a> fn(&Context<'a>) -> Result<RawValues<'a>, BadRequest>;

/// The raw values of all hosts, in the cheapest form that the weigher allows.
pub enum RawValues<'a> {
    /// All hosts have the same value.
    Constant(f64),
    /// The values are in this column of the [`HostTable`].
    Column(usize),
    /// All hosts have the same value, with few exceptions.
    Sparse {
        /// Slots with another value, in rising order.
        exceptions: Vec<(u32, f64)>,
        /// The value of all other hosts.
        default: f64,
    },
    /// A function that computes the value of a slot.
    Each(Box<dyn Fn(u32) -> f64 + Send + Sync + 'a>),
}

impl fmt::Debug for RawValues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(number) => write!(f, "Constant({number})"),
            Self::Column(column) => write!(f, "Column({column})"),
            Self::Sparse {
                exceptions,
                default,
            } => write!(f, "Sparse({} hosts, rest {default})", exceptions.len()),
            Self::Each(_) => f.write_str("Each"),
        }
    }
}

/// A weigher compiled for one request.
#[derive(Debug)]
pub struct CompiledWeigher<'a> {
    /// The name of the weigher.
    pub name: &'a str,
    /// The multiplier where no aggregate overrides it, negated if the weigher says so.
    pub multiplier: f64,
    overrides: Option<OverrideColumn<'a>>,
    negates_multiplier: bool,
    /// The declared lower end of the range.
    pub low: Option<f64>,
    /// The declared upper end of the range.
    pub high: Option<f64>,
    /// The raw values of the hosts.
    pub raw: RawValues<'a>,
}

impl<'a> CompiledWeigher<'a> {
    /// Compiles a weigher for a request; `None` if it cannot influence the ranking.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] if the request has a value that the weigher cannot interpret.
    pub fn new(
        weigher: &'static Weigher,
        context: &Context<'a>,
    ) -> Result<Option<Self>, BadRequest> {
        let configured = (weigher.multiplier)(context.config);
        let overrides = context.hosts.aggregates().overrides(weigher.multiplier_key);
        if configured == 0.0 && overrides.is_none() {
            return Ok(None);
        }
        let compiled = Self {
            name: weigher.name,
            multiplier: if weigher.negates_multiplier {
                -configured
            } else {
                configured
            },
            overrides,
            negates_multiplier: weigher.negates_multiplier,
            low: weigher.declared_low,
            high: weigher.declared_high,
            raw: (weigher.compile)(context)?,
        };
        Ok((!compiled.has_no_effect()).then_some(compiled))
    }

    /// A weigher that is not in [`ALL`](super::ALL), such as an operator's expression.
    #[must_use]
    pub fn custom(
        name: &'a str,
        multiplier: f64,
        overrides: Option<OverrideColumn<'a>>,
        raw: RawValues<'a>,
    ) -> Self {
        Self {
            name,
            multiplier,
            overrides,
            negates_multiplier: false,
            low: None,
            high: None,
            raw,
        }
    }

    /// Whether the weigher cannot influence the ranking, whatever the state of the hosts.
    #[must_use]
    pub fn has_no_effect(&self) -> bool {
        // Without declared ends, both ends of the range are the constant value, which is then normalised to 0. With a
        // declared end it may add to the scores, and not equally where aggregates override the multiplier.
        let is_uniform =
            matches!(self.raw, RawValues::Constant(_)) && self.low.is_none() && self.high.is_none();
        is_uniform || (self.multiplier == 0.0 && self.overrides.is_none())
    }

    /// The term for the indexed ranking; `None` if the raw values are not in a column, or hosts
    /// have different multipliers.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        match self.raw {
            RawValues::Column(column) if self.overrides.is_none() => Some(Term {
                column,
                multiplier: self.multiplier,
                low: self.low,
                high: self.high,
            }),
            _ => None,
        }
    }

    /// The multiplier that applies to a host.
    #[must_use]
    #[inline]
    pub fn multiplier_of(&self, slot: u32) -> f64 {
        match self.overrides.and_then(|overrides| overrides.get(slot)) {
            None => self.multiplier,
            Some(multiplier) if self.negates_multiplier => -multiplier,
            Some(multiplier) => multiplier,
        }
    }

    /// A host's raw value, clamped to the declared ends.
    #[must_use]
    #[inline]
    pub fn raw_value(&self, hosts: &HostTable, slot: u32) -> f64 {
        let number = match &self.raw {
            RawValues::Constant(number) => *number,
            RawValues::Column(column) => hosts.columns()[*column].get(slot),
            RawValues::Sparse {
                exceptions,
                default,
            } => exceptions
                .binary_search_by_key(&slot, |(slot, _)| *slot)
                .map_or(*default, |index| {
                    let (_, value) = exceptions[index];
                    value
                }),
            RawValues::Each(compute) => compute(slot),
        };
        let number = self
            .low
            .map_or(number, |low| if number < low { low } else { number });
        self.high
            .map_or(number, |high| if number > high { high } else { number })
    }

    /// The scale of the weigher over some hosts.
    #[must_use]
    pub fn scale(&self, hosts: &HostTable, slots: &[u32]) -> Scale {
        let raw_values = || slots.iter().map(|slot| self.raw_value(hosts, *slot));
        let high = self.high.unwrap_or_else(|| {
            raw_values().fold(f64::NEG_INFINITY, |maximum, number| {
                if number > maximum { number } else { maximum }
            })
        });
        let low = self.low.unwrap_or_else(|| {
            raw_values().fold(f64::INFINITY, |minimum, number| {
                if number < minimum { number } else { minimum }
            })
        });
        Scale {
            low,
            high,
            width: if low == high { None } else { Some(high - low) },
        }
    }
}

/// The affine map from raw values to the range 0 to 1, given their range over the compared hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    /// The width of the range; `None` if its ends are equal, so that every value maps to 0.
    width: Option<f64>,
}

impl Scale {
    /// Maps a raw value to the range 0 to 1.
    #[must_use]
    #[inline]
    pub fn normalise(&self, raw_value: f64) -> f64 {
        self.width
            .map_or(0.0, |width| (raw_value - self.low) / width)
    }
}

/// All weighers compiled for one request.
#[derive(Debug)]
pub struct CompiledWeighers<'a> {
    hosts: &'a HostTable,
    weighers: Vec<CompiledWeigher<'a>>,
}

impl<'a> CompiledWeighers<'a> {
    /// Compiled weighers with the host table from which they read.
    #[must_use]
    pub fn new(hosts: &'a HostTable, weighers: Vec<CompiledWeigher<'a>>) -> Self {
        Self { hosts, weighers }
    }

    /// The weighers that can influence the ranking, in the order in which their shares are added.
    #[must_use]
    pub fn weighers(&self) -> &[CompiledWeigher<'a>] {
        &self.weighers
    }

    /// The terms of the weighers, for the indexed ranking; `None` if a weigher has no term.
    #[must_use]
    pub fn terms(&self) -> Option<Vec<Term>> {
        let adds_to_scores = |term: &Term| self.adds_to_scores(term);
        let mut terms = Vec::with_capacity(self.weighers.len());
        for weigher in self
            .weighers
            .iter()
            .filter(|weigher| !weigher.has_no_effect())
        {
            terms.extend(Some(weigher.term()?).filter(adds_to_scores));
        }
        Some(terms)
    }

    /// Whether a term adds to any score. If all hosts have the same value, it does only if the value is above a
    /// declared low end.
    fn adds_to_scores(&self, term: &Term) -> bool {
        match self.hosts.columns()[term.column].uniform() {
            Some(number) => term.low.is_some_and(|low| number > low),
            None => true,
        }
    }

    /// Whether a weigher adds to any score, as far as its raw values over all hosts show.
    #[must_use]
    pub(crate) fn may_add_to_scores(&self, weigher: &CompiledWeigher<'_>) -> bool {
        let term = weigher.term();
        !weigher.has_no_effect() && term.is_none_or(|term| self.adds_to_scores(&term))
    }

    /// The scales of all weighers over some hosts. A single host is not weighed: its score is 0.
    #[must_use]
    pub fn scales(&self, slots: &[u32]) -> Scales<'_, 'a> {
        let scale = |weigher: &CompiledWeigher<'a>| weigher.scale(self.hosts, slots);
        let are_weighed = slots.len() > 1;
        Scales {
            weighers: self,
            scales: are_weighed.then(|| self.weighers.iter().map(scale).collect()),
        }
    }

    /// The scores of some hosts that are compared with each other, in the order given.
    #[must_use]
    pub fn scores(&self, slots: &[u32]) -> Vec<f64> {
        let scales = self.scales(slots);
        slots.iter().map(|slot| scales.score(*slot)).collect()
    }
}

/// Weighers with their scales over the compared hosts.
#[derive(Debug)]
pub struct Scales<'w, 'a> {
    weighers: &'w CompiledWeighers<'a>,
    /// By weigher; `None` for fewer than two hosts, which are not weighed.
    scales: Option<Vec<Scale>>,
}

impl Scales<'_, '_> {
    /// The score of one of the compared hosts.
    #[must_use]
    pub fn score(&self, slot: u32) -> f64 {
        self.shares(slot).fold(0.0, |sum, share| sum + share.share)
    }

    /// For each weigher, the ends of its range; empty if the hosts are not weighed.
    pub fn ends(&self) -> impl Iterator<Item = (f64, f64)> {
        let scales = self.scales.iter().flatten();
        scales.map(|scale| (scale.low, scale.high))
    }

    /// The contributions of the weighers to the score of one of the compared hosts, in order.
    pub fn shares(&self, slot: u32) -> impl Iterator<Item = Share<'_>> {
        let scales = self.scales.as_deref().unwrap_or_default();
        let weighers = self.weighers.weighers.iter().zip(scales);
        weighers.map(move |(weigher, scale)| {
            let raw_value = weigher.raw_value(self.weighers.hosts, slot);
            let multiplier = weigher.multiplier_of(slot);
            let normalised = scale.normalise(raw_value);
            Share {
                weigher: weigher.name,
                raw_value,
                normalised,
                multiplier,
                share: multiplier * normalised,
            }
        })
    }
}

/// The contribution of a weigher to the score of a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share<'a> {
    /// The name of the weigher.
    pub weigher: &'a str,
    /// The host's raw value, clamped to the declared ends.
    pub raw_value: f64,
    /// The raw value normalised over the compared hosts, from 0 to 1.
    pub normalised: f64,
    /// The multiplier that applies to the host.
    pub multiplier: f64,
    /// The product of multiplier and normalised value.
    pub share: f64,
}

/// Sorts hosts by score, the highest first; equal scores stay in the order given. Returns indexes
/// into `scores`.
#[must_use]
pub fn rank(scores: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    order
}
