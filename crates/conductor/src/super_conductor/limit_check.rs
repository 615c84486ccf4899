//! Checks of limits on the number and size of objects.

use uuid::Uuid;

/// A check that a command keeps the number or size of something within a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitCheck {
    /// The number of a user's key pairs, including the new one.
    Keypairs {
        /// The user who owns the key pairs.
        user: String,
        /// How many key pairs the user may have.
        max: usize,
    },
    /// The number of a project's server groups, including the new one.
    Groups {
        /// The project that owns the groups.
        project: String,
        /// How many groups the project may have.
        max: usize,
    },
    /// The quota of a project for the key pairs of each user, including the new one.
    KeypairQuota {
        /// The project whose quota is checked.
        project: String,
        /// The user who owns the key pairs.
        user: String,
    },
    /// The size of the records of a project's instances, including the new ones.
    InstanceBytes {
        /// The project that owns the instances.
        project: String,
        /// The number of bytes to be added.
        added: u64,
        /// The maximum number of bytes.
        max: u64,
    },
    /// The number of a project's images, including the new one.
    Images {
        /// The project that owns the images.
        project: String,
        /// How many images the project may have.
        max: u64,
    },
    /// The size of a project's images in bytes, including the new bytes.
    ImageBytes {
        /// The project that owns the images.
        project: String,
        /// The number of bytes to be added.
        added: u64,
        /// The maximum number of bytes.
        max: u64,
    },
    /// The number of a server group's members, including the new ones.
    Members {
        /// The UUID of the group.
        group: Uuid,
        /// The number of members to be added.
        added: usize,
        /// How many members the group may have.
        max: usize,
    },
}
