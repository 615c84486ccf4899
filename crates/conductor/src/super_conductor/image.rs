//! The rows of images. Their bytes are files, which are no part of the state.

use std::collections::{BTreeMap, BTreeSet};

use placewright_placement::Timestamp;

/// An image from which instances are built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The name that users see; several images may have the same one.
    pub name: Option<String>,
    /// The project that owns the image.
    pub owner: String,
    /// Which projects may use the image, besides its owner.
    pub visibility: Visibility,
    /// Whether the image is protected: it cannot be deleted until the protection is taken away.
    pub is_protected: bool,
    /// Whether lists omit the image unless they ask for hidden images.
    pub is_hidden: bool,
    /// The format of the container that the disk is in, `bare` for none; `None` until it is set.
    pub container_format: Option<String>,
    /// The format of the disk, `raw` for example; `None` until it is set.
    pub disk_format: Option<String>,
    /// The smallest root disk of an instance that is built from the image, in GiB.
    pub min_disk_gb: u32,
    /// The least memory of an instance that is built from the image, in MiB.
    pub min_ram_mb: u32,
    /// The tags that the owner gave the image.
    pub tags: BTreeSet<String>,
    /// Properties by name: those that the scheduler and drivers read, and any others that the owner has set.
    pub properties: BTreeMap<String, String>,
    /// The projects with which a shared image is shared.
    pub members: BTreeMap<String, Member>,
    /// The size and the digests of the bytes; `None` until the bytes are uploaded. Uploaded bytes never change.
    pub content: Option<ImageContent>,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

impl Image {
    /// The answer of a project with which the image is shared; `None` if it is not shared with the project.
    #[must_use]
    pub fn membership(&self, project: &str) -> Option<MemberStatus> {
        let is_shared = self.visibility == Visibility::Shared;
        let member = self.members.get(project).filter(|_| is_shared);
        member.map(|member| member.status)
    }

    /// Whether a project owns the image.
    #[must_use]
    pub fn is_owned_by(&self, project: &str) -> bool {
        !project.is_empty() && self.owner == project
    }

    /// Whether a project may know of the image, and use it.
    #[must_use]
    pub fn is_visible_to(&self, project: &str) -> bool {
        self.is_owned_by(project)
            || matches!(self.visibility, Visibility::Public | Visibility::Community)
            || self.membership(project).is_some()
    }
}

/// Which projects may use an image, besides its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visibility {
    /// No other project may use the image.
    Private,
    /// The projects that are members of the image.
    #[default]
    Shared,
    /// All projects; lists of other projects omit the image unless they ask for community images.
    Community,
    /// All projects, and the image is in the lists of all.
    Public,
}

/// A project with which an image is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Whether the project has accepted the image.
    pub status: MemberStatus,
    /// The time at which the image was shared with the project.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

/// The answer of a project to an image that is shared with it. The project may use the image with each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemberStatus {
    /// No answer yet: the project's list omits the image.
    Pending,
    /// The project's list has the image.
    Accepted,
    /// The project's list omits the image.
    Rejected,
}

/// The number and the digests of the bytes that were uploaded for an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageContent {
    /// How many bytes there are.
    pub size: u64,
    /// The MD5 of the bytes, in hexadecimal digits.
    pub md5: String,
    /// The SHA-512 of the bytes, in hexadecimal digits.
    pub sha512: String,
}
