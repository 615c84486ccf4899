//! The state of the hosts that an index reads.

use placewright_placement::slot_set::SlotSet;

use super::changes::ChangeLog;
use crate::hosts::column::Column;

/// The current state of all hosts, as an index reads it.
#[derive(Clone, Copy, Debug)]
pub struct Fleet<'a> {
    /// The log of recent changes.
    pub log: &'a ChangeLog,
    /// The columns with the raw values of the terms.
    pub columns: &'a [Column],
    /// The slots that have a host.
    pub hosts: &'a SlotSet,
}
