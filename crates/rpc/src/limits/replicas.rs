//! Limits of the messages between replicas.
//!
//! What a command contains is not checked further: it is what this replica's own API could have given, and only
//! replicas of the same role may send one.

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
