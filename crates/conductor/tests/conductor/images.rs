//! Rows of images: which changes are refused, and how a project's images are counted and limited.

use placewright_conductor::ControlState;
use placewright_conductor::control::{Command as ControlCommand, Refusal as ControlRefusal};
use placewright_conductor::super_conductor::{
    Change, Command, Image, ImageContent, ImageUsage, LimitCheck, Refusal, Visibility,
};
use placewright_placement::Timestamp;
use uuid::Uuid;

const ID: Uuid = Uuid::from_u128(1);

/// An image of the project `p`, with this number of bytes; `None` before its bytes are uploaded.
fn image(size: Option<u64>) -> Image {
    Image {
        name: None,
        owner: "p".to_owned(),
        visibility: Visibility::Shared,
        is_protected: false,
        is_hidden: false,
        container_format: None,
        disk_format: None,
        min_disk_gb: 0,
        min_ram_mb: 0,
        tags: [].into(),
        properties: [].into(),
        members: [].into(),
        content: size.map(|size| ImageContent {
            size,
            md5: String::new(),
            sha512: String::new(),
        }),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
    }
}

fn set(id: Uuid, image: Option<Image>) -> Command {
    Command::SetImage {
        id,
        image: image.map(Box::new),
    }
}

/// Decides and applies a command. Undoing it has to restore the state.
fn carry_out(state: &mut ControlState, command: Command) -> Result<(), Refusal> {
    let command = ControlCommand::Conductor {
        command,
        at: Timestamp(2),
    };
    let mut changes = Vec::new();
    match state.decide(&command, &mut changes) {
        Ok(_) => {
            let before = state.conductor.clone();
            let undo: Vec<_> = changes.iter().map(|change| state.apply(change)).collect();
            undo.into_iter().rev().for_each(|undo| state.undo(undo));
            assert_eq!(state.conductor, before);
            changes.iter().for_each(|change| drop(state.apply(change)));
            Ok(())
        }
        Err(ControlRefusal::Conductor(refusal)) => Err(refusal),
        Err(refusal) => panic!("{refusal}"),
    }
}

fn usage(state: &ControlState) -> ImageUsage {
    state.conductor.listing().image_usage("p")
}

#[test]
fn bytes_never_change_and_a_protected_image_stays() {
    let mut state = ControlState::default();
    let unknown = carry_out(&mut state, set(ID, None));
    assert!(matches!(unknown, Err(Refusal::NotFound { .. })));
    carry_out(&mut state, set(ID, Some(image(None)))).unwrap();
    carry_out(&mut state, set(ID, Some(image(Some(7))))).unwrap();
    for other in [image(None), image(Some(8))] {
        let refused = carry_out(&mut state, set(ID, Some(other)));
        let Err(Refusal::WrongState {
            state: "active", ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
    }
    let protected = Image {
        is_protected: true,
        ..image(Some(7))
    };
    carry_out(&mut state, set(ID, Some(protected))).unwrap();
    let refused = carry_out(&mut state, set(ID, None));
    assert!(matches!(
        refused,
        Err(Refusal::WrongState {
            state: "protected",
            ..
        })
    ));
    carry_out(&mut state, set(ID, Some(image(Some(7))))).unwrap();
    carry_out(&mut state, set(ID, None)).unwrap();
    assert_eq!(usage(&state), ImageUsage::default());
}

#[test]
fn a_project_has_no_more_images_or_bytes_than_its_limits_allow() {
    let mut state = ControlState::default();
    let limited = |id: u128, image: Image, check: LimitCheck| Command::Limited {
        checks: vec![check],
        command: Box::new(set(Uuid::from_u128(id), Some(image))),
    };
    let count = || LimitCheck::Images {
        project: "p".to_owned(),
        max: 2,
    };
    carry_out(&mut state, limited(1, image(None), count())).unwrap();
    carry_out(&mut state, limited(2, image(None), count())).unwrap();
    let refused = carry_out(&mut state, limited(3, image(None), count()));
    assert_eq!(
        refused,
        Err(Refusal::TooMany {
            what: "images",
            most: 2
        })
    );
    let bytes = |added| LimitCheck::ImageBytes {
        project: "p".to_owned(),
        added,
        max: 10,
    };
    carry_out(&mut state, limited(1, image(Some(7)), bytes(7))).unwrap();
    let refused = carry_out(&mut state, limited(2, image(Some(4)), bytes(4)));
    assert_eq!(refused, Err(Refusal::TooManyImageBytes { most: 10 }));
    carry_out(&mut state, limited(2, image(Some(3)), bytes(3))).unwrap();
    assert_eq!(
        usage(&state),
        ImageUsage {
            count: 2,
            bytes: 10
        }
    );
    carry_out(&mut state, limited(2, image(Some(3)), bytes(0))).unwrap();
}

#[test]
fn of_two_changes_that_expect_the_same_row_the_second_is_refused() {
    let mut state = ControlState::default();
    carry_out(&mut state, set(ID, Some(image(None)))).unwrap();
    let rename = |name: &str| Command::Guarded {
        expected: vec![Change::Image(ID, Some(Box::new(image(None))))],
        command: Box::new(set(
            ID,
            Some(Image {
                name: Some(name.to_owned()),
                ..image(None)
            }),
        )),
    };
    carry_out(&mut state, rename("a")).unwrap();
    assert_eq!(carry_out(&mut state, rename("b")), Err(Refusal::Changed));
}
