//! The rows of images, and the commands that write them.

use placewright_conductor::control;
use placewright_conductor::super_conductor::{
    Change, Command, Image, ImageContent, LimitCheck, Member, MemberStatus, Visibility,
};

use super::{AT, OTHER, commands, some};

/// The size and the digests of an image's bytes.
pub(crate) fn content() -> ImageContent {
    ImageContent {
        size: 1 << 33,
        md5: "d41d8cd98f00b204e9800998ecf8427e".into(),
        sha512: "cf83e1357eefb8bd".into(),
    }
}

/// A member for each status.
pub(crate) fn members() -> [Member; 3] {
    [
        MemberStatus::Pending,
        MemberStatus::Accepted,
        MemberStatus::Rejected,
    ]
    .map(|status| Member {
        status,
        created_at: AT,
        updated_at: AT,
    })
}

/// An image for each visibility, the first without anything that is optional.
pub(crate) fn images() -> [Image; 4] {
    let queued = Image {
        name: None,
        owner: "p".into(),
        visibility: Visibility::Private,
        is_protected: false,
        is_hidden: false,
        container_format: None,
        disk_format: None,
        min_disk_gb: 0,
        min_ram_mb: 0,
        tags: [].into(),
        properties: [].into(),
        members: [].into(),
        content: None,
        created_at: AT,
        updated_at: AT,
    };
    let active = |visibility| Image {
        name: Some("i".into()),
        visibility,
        is_protected: true,
        is_hidden: true,
        container_format: Some("bare".into()),
        disk_format: Some("raw".into()),
        min_disk_gb: 300,
        min_ram_mb: 512,
        tags: ["a".to_owned(), "b".to_owned()].into(),
        properties: [("hw_cpu_policy".to_owned(), "dedicated".to_owned())].into(),
        members: ["q", "r", "s"]
            .map(str::to_owned)
            .into_iter()
            .zip(members())
            .collect(),
        content: Some(content()),
        ..queued.clone()
    };
    [
        queued.clone(),
        active(Visibility::Shared),
        active(Visibility::Community),
        active(Visibility::Public),
    ]
}

/// A change for each image, and a removal.
pub(crate) fn image_changes() -> Vec<control::Change> {
    let rows = images().map(|image| Change::Image(OTHER, some(image)));
    let all = rows.into_iter().chain([Change::Image(OTHER, None)]);
    all.map(control::Change::Conductor).collect()
}

/// The checks of limits that version 3 of commands added.
pub(crate) fn limit_checks() -> [LimitCheck; 2] {
    [
        LimitCheck::Images {
            project: "p".into(),
            max: 300,
        },
        LimitCheck::ImageBytes {
            project: "p".into(),
            added: 1 << 33,
            max: u64::MAX,
        },
    ]
}

/// Commands that versions before 3 cannot express: a new one, and an older one that contains what is new.
pub(crate) fn image_commands() -> Vec<Command> {
    let set = |image: Option<Image>| Command::SetImage {
        id: OTHER,
        image: image.map(Box::new),
    };
    let guarded = Command::Guarded {
        expected: vec![Change::Image(OTHER, None)],
        command: Box::new(Command::Limited {
            checks: limit_checks().into(),
            command: Box::new(set(Some(images()[1].clone()))),
        }),
    };
    vec![set(Some(images()[0].clone())), set(None), guarded]
}

/// One of each command to the conductor, of all versions.
pub(crate) fn all_commands() -> Vec<Command> {
    [commands::conductor_commands(), image_commands()].concat()
}

/// One of each check of a limit, of all versions.
pub(crate) fn all_limit_checks() -> Vec<LimitCheck> {
    let of_version_1 = commands::limit_checks();
    of_version_1.into_iter().chain(limit_checks()).collect()
}
