//! What a weigher is, and how the values of all weighers become a score.

use std::fmt;

use super::term::Term;
use crate::config::SchedulerConfig;
use crate::context::Context;
use crate::error::BadRequest;
use crate::hosts::aggregate::OverrideColumn;
use crate::hosts::table::HostTable;

/// A weigher: its name in the configuration, its scale, and how it is compiled.
#[derive(Debug)]
pub struct Weigher {
    /// The name by which `weight_classes` refers to it.
    pub name: &'static str,
    /// The option with its multiplier; also the metadata key that overrides it for the hosts of an
    /// aggregate.
    pub multiplier_key: &'static str,
    /// Reads the multiplier from the configuration.
    pub multiplier: fn(&SchedulerConfig) -> f64,
    /// Whether the multiplier is negated, so that higher values are worse.
    pub is_subtracted: bool,
    /// The declared lower end of the values, if any; lower values are raised to it.
    pub low: Option<f64>,
    /// The declared upper end of the values, if any; higher values are cut to it.
    pub high: Option<f64>,
    /// Compiles the weigher for a request.
    pub compile: Compile,
}

/// Compiles a request into the values of all hosts.
pub type Compile = for<'a> fn(&Context<'a>) -> Result<RawValues<'a>, BadRequest>;

/// Where the raw values of the hosts are found.
pub enum RawValues<'a> {
    /// All hosts have the same value.
    Constant(f64),
    /// The values are in this column of the [`HostTable`].
    Column(usize),
    /// A few hosts, in rising order of slot, have values of their own.
    Sparse {
        /// Slots with their values.
        few: Vec<(u32, f64)>,
        /// The value of all other hosts.
        rest: f64,
    },
    /// A function that computes the value of a slot.
    Each(Box<dyn Fn(u32) -> f64 + Send + Sync + 'a>),
}

impl fmt::Debug for RawValues<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(number) => write!(f, "Constant({number})"),
            Self::Column(column) => write!(f, "Column({column})"),
            Self::Sparse { few, rest } => write!(f, "Sparse({} hosts, rest {rest})", few.len()),
            Self::Each(_) => f.write_str("Each"),
        }
    }
}

/// A weigher compiled for one request.
#[derive(Debug)]
pub struct Compiled<'a> {
    /// The name of the weigher.
    pub name: &'a str,
    /// The multiplier where no aggregate overrides it, negated if the weigher is subtracted.
    pub multiplier: f64,
    overrides: Option<OverrideColumn<'a>>,
    is_subtracted: bool,
    /// The declared lower end of the values.
    pub low: Option<f64>,
    /// The declared upper end of the values.
    pub high: Option<f64>,
    /// Where the raw values of the hosts are found.
    pub raw: RawValues<'a>,
}

impl<'a> Compiled<'a> {
    /// Compiles a weigher for a request; `None` if it cannot influence the ranking.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] when the request says something that the weigher cannot read.
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
            multiplier: if weigher.is_subtracted {
                -configured
            } else {
                configured
            },
            overrides,
            is_subtracted: weigher.is_subtracted,
            low: weigher.low,
            high: weigher.high,
            raw: (weigher.compile)(context)?,
        };
        Ok((!compiled.is_idle()).then_some(compiled))
    }

    /// A weigher that is not in [`ALL`], such as an operator's expression.
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
            is_subtracted: false,
            low: None,
            high: None,
            raw,
        }
    }

    /// Whether it cannot influence the ranking, whatever the hosts.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let is_even =
            matches!(self.raw, RawValues::Constant(_)) && self.low.is_none() && self.high.is_none();
        is_even || (self.multiplier == 0.0 && self.overrides.is_none())
    }

    /// The term for a cached ranking; `None` if the weigher needs more than a column and a common
    /// multiplier.
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
            Some(other) if self.is_subtracted => -other,
            Some(other) => other,
        }
    }

    /// A host's raw value, clamped to the declared ends.
    #[must_use]
    #[inline]
    pub fn number(&self, hosts: &HostTable, slot: u32) -> f64 {
        let number = match &self.raw {
            RawValues::Constant(number) => *number,
            RawValues::Column(column) => hosts.columns()[*column].get(slot),
            RawValues::Sparse { few, rest } => few
                .binary_search_by_key(&slot, |(slot, _)| *slot)
                .map_or(*rest, |index| few[index].1),
            RawValues::Each(ask) => ask(slot),
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
        let numbers = || slots.iter().map(|slot| self.number(hosts, *slot));
        let high = self.high.unwrap_or_else(|| {
            numbers().fold(
                f64::NEG_INFINITY,
                |most, next| if next > most { next } else { most },
            )
        });
        let low = self.low.unwrap_or_else(|| {
            numbers().fold(
                f64::INFINITY,
                |least, next| if next < least { next } else { least },
            )
        });
        Scale {
            low,
            range: if low == high { None } else { Some(high - low) },
        }
    }
}

/// The affine map from raw values to the range 0 to 1, over the hosts that are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    /// The width of the range; `None` if all values are equal.
    range: Option<f64>,
}

impl Scale {
    /// Maps a raw value to the range 0 to 1.
    #[must_use]
    #[inline]
    pub fn normalise(&self, number: f64) -> f64 {
        self.range.map_or(0.0, |range| (number - self.low) / range)
    }
}

/// All weighers compiled for one request.
#[derive(Debug)]
pub struct CompiledWeighers<'a> {
    hosts: &'a HostTable,
    weighers: Vec<Compiled<'a>>,
}

impl<'a> CompiledWeighers<'a> {
    /// Combines compiled weighers with a table of hosts.
    #[must_use]
    pub fn new(hosts: &'a HostTable, weighers: Vec<Compiled<'a>>) -> Self {
        Self { hosts, weighers }
    }

    /// The weighers that can influence the ranking, in the order in which shares are added up.
    #[must_use]
    pub fn weighers(&self) -> &[Compiled<'a>] {
        &self.weighers
    }

    /// The terms of a cached ranking that gives the same order; `None` if a weigher needs more.
    #[must_use]
    pub fn terms(&self) -> Option<Vec<Term>> {
        let columns = self.hosts.columns();
        // A term is zero where all hosts have the same value and it is the lower end.
        let counts = |term: &Term| match columns[term.column].uniform() {
            Some(number) => term.low.is_some_and(|low| number > low),
            None => true,
        };
        let mut terms = Vec::with_capacity(self.weighers.len());
        for weigher in self.weighers.iter().filter(|weigher| !weigher.is_idle()) {
            terms.extend(Some(weigher.term()?).filter(counts));
        }
        Some(terms)
    }

    /// The scales of all weighers over some hosts; with fewer than two hosts nothing is weighed.
    #[must_use]
    pub fn scales(&self, slots: &[u32]) -> Scales<'_, 'a> {
        let scale = |weigher: &Compiled<'a>| weigher.scale(self.hosts, slots);
        let is_weighed = slots.len() > 1;
        Scales {
            weighers: self,
            scales: is_weighed.then(|| self.weighers.iter().map(scale).collect()),
        }
    }

    /// The scores of some hosts, compared with each other, in the same order.
    #[must_use]
    pub fn weights(&self, slots: &[u32]) -> Vec<f64> {
        let scales = self.scales(slots);
        slots.iter().map(|slot| scales.weight(*slot)).collect()
    }
}

/// Weighers with their scales over the compared hosts.
#[derive(Debug)]
pub struct Scales<'w, 'a> {
    weighers: &'w CompiledWeighers<'a>,
    scales: Option<Vec<Scale>>,
}

impl Scales<'_, '_> {
    /// The score of one of the compared hosts.
    #[must_use]
    pub fn weight(&self, slot: u32) -> f64 {
        self.shares(slot).fold(0.0, |sum, share| sum + share.share)
    }

    /// The contribution of every weigher to one of the compared hosts, in order.
    pub fn shares(&self, slot: u32) -> impl Iterator<Item = Share<'_>> {
        let scales = self.scales.as_deref().unwrap_or_default();
        let both = self.weighers.weighers.iter().zip(scales);
        both.map(move |(weigher, scale)| {
            let number = weigher.number(self.weighers.hosts, slot);
            let multiplier = weigher.multiplier_of(slot);
            let normalised = scale.normalise(number);
            Share {
                weigher: weigher.name,
                number,
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
    pub number: f64,
    /// The raw value normalised over the compared hosts, from 0 to 1.
    pub normalised: f64,
    /// The multiplier that applies to the host.
    pub multiplier: f64,
    /// The product of multiplier and normalised value.
    pub share: f64,
}

/// Sorts hosts by score, the highest first, equals in the order given. Returns indexes into
/// `weights`.
#[must_use]
pub fn rank(weights: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|a, b| weights[*b].total_cmp(&weights[*a]));
    order
}
