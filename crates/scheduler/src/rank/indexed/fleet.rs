//! The state of the hosts that are ranked.

use placewright_placement::slot_set::SlotSet;

use super::changes::ChangeLog;
use crate::hosts::column::Column;

/// The current state of all hosts.
#[derive(Clone, Copy, Debug)]
pub struct Fleet<'a> {
    /// The log of recent changes.
    pub log: &'a ChangeLog,
    /// The columns with the weighed values.
    pub columns: &'a [Column],
    /// The slots that hold a host.
    pub hosts: &'a SlotSet,
}
