//! Weighers: each assigns every host a value, and the normalised values add up to the score.
//!
//! To add a weigher, write a file in `weighers/` and add a line to [`ALL`]. A weigher is compiled
//! once for a request and returns [`RawValues`].
//!
//! The score of a host is the sum over weighers of `multiplier * (value - low) / (high - low)`,
//! where `low` and `high` are the declared ends of the range, or else the minimum and maximum over
//! the compared hosts. If `low` and `high` are equal, the weigher adds nothing. A single host is
//! not weighed.

pub use term::Term;
pub use weigher::{
    Compile, CompiledWeigher, CompiledWeighers, RawValues, Scale, Scales, Share, Weigher, rank,
};

mod build_failure;
mod cpu;
mod cross_cell;
mod disk;
mod fragmentation;
mod hypervisor_version;
mod image_properties;
mod io_ops;
pub(crate) mod metrics;
mod num_instances;
mod pci;
mod ram;
mod soft_affinity;
mod term;
mod topology;
mod weigher;

/// All weighers, in the order in which their shares are added.
pub static ALL: &[&Weigher] = &[
    &ram::WEIGHER,
    &cpu::WEIGHER,
    &disk::WEIGHER,
    &io_ops::WEIGHER,
    &metrics::WEIGHER,
    &soft_affinity::AFFINITY,
    &soft_affinity::ANTI_AFFINITY,
    &build_failure::WEIGHER,
    &cross_cell::WEIGHER,
    &pci::WEIGHER,
    &hypervisor_version::WEIGHER,
    &num_instances::WEIGHER,
    &image_properties::WEIGHER,
    &topology::WEIGHER,
    &fragmentation::WEIGHER,
];

/// The names of all weighers, for error messages.
#[must_use]
pub fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|weigher| weigher.name).collect();
    names.join(", ")
}

/// A weigher by its name; `None` if there is no such weigher.
#[must_use]
pub fn find(name: &str) -> Option<&'static Weigher> {
    ALL.iter().copied().find(|weigher| weigher.name == name)
}
