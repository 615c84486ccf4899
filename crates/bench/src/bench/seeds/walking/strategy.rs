//! How hosts are preferred.

use placewright_scheduler::config::{MetricsConfig, SchedulerConfig};
use serde::Serialize;

/// The metric of a host that has its random number for [`Strategy::Random`].
pub(super) const RANDOM_METRIC: &str = "random";

/// Which of the feasible hosts is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(in super::super) enum Strategy {
    /// The fullest.
    Pack,
    /// The emptiest.
    Spread,
    /// Any: the one with the largest random number.
    Random,
}

/// All strategies.
pub(in super::super) const STRATEGIES: [Strategy; 3] =
    [Strategy::Pack, Strategy::Spread, Strategy::Random];

impl Strategy {
    pub(in super::super) fn name(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Spread => "spread",
            Self::Random => "random",
        }
    }

    /// The multiplier of each free amount.
    pub(super) fn multiplier(self) -> f64 {
        match self {
            Self::Pack => -1.0,
            Self::Spread => 1.0,
            Self::Random => 0.0,
        }
    }

    /// The configuration of the weighers.
    pub(super) fn config(self) -> SchedulerConfig {
        let multiplier = self.multiplier();
        let metrics = match self {
            Self::Random => MetricsConfig {
                weight_setting: vec![format!("{RANDOM_METRIC}=1.0")],
                ..MetricsConfig::default()
            },
            Self::Pack | Self::Spread => MetricsConfig::default(),
        };
        SchedulerConfig {
            ram_weight_multiplier: multiplier,
            cpu_weight_multiplier: multiplier,
            disk_weight_multiplier: multiplier,
            metrics,
            ..SchedulerConfig::default()
        }
    }
}
