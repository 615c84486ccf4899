//! Limits of the messages between replicas.
//!
//! The content of a command is not checked further: only replicas of the same role may send one, and what clients can
//! make another replica send, they can make this replica do by its own API.
//!
//! An address is a host name of up to 253 bytes with a port, for which [`NAME_BYTES_MAX`] would be too small.

use placewright_link::{FollowStart, Leader, ReplicaIdentity, ToLeader};

use super::{FieldPath, LIST_MAX, LimitExceeded, NAME_BYTES_MAX, TITLE_BYTES_MAX, Validate};

impl Validate for Leader {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let address = path.field("address");
        address.check_text(&self.address, TITLE_BYTES_MAX)
    }
}

impl Validate for FollowStart {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let address = path.field("address");
        address.check_text(&self.address, TITLE_BYTES_MAX)?;
        let release = path.field("release");
        release.check_text(&self.release, NAME_BYTES_MAX)?;
        self.leader.check(path.field("leader"))
    }
}

impl Validate for ReplicaIdentity {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let address = path.field("address");
        address.check_text(&self.address, TITLE_BYTES_MAX)?;
        let release = path.field("release");
        release.check_text(&self.release, NAME_BYTES_MAX)?;
        self.leader.check(path.field("leader"))
    }
}

impl Validate for ToLeader {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let commands = path.field("commands");
        commands.check_count(self.commands.len(), LIST_MAX)
    }
}
