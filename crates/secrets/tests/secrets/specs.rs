//! The secrets of specifications: sealed, opened for other roles, and sealed again with other keys.

use placewright_conductor::{InstanceId, Rules, SharedRow, SharedText, Spec, SpecBody, Usage};
use placewright_placement::Timestamp;
use placewright_records::{Layout, Reader, Writer, server};
use placewright_secrets::{Key, Keyring, OpenError, Sealer, Secret, SecretCounts, SecretFields};
use placewright_types::server::{OwnFields, ServerBody, ServerFields};
use proptest::prelude::*;
use uuid::Uuid;

/// Values of `with_bodies` of [`Sealer::resealed`].
const WITHOUT_BODIES: bool = false;
const WITH_BODIES: bool = true;

/// A body without secrets.
const BODY: &str = r#"{"request":{"a":1.50},"server":{"b":[1,2],"hostname":"vm"}}"#;

fn instance(number: u128) -> InstanceId {
    InstanceId(Uuid::from_u128(number))
}

fn spec(body: &str) -> Spec {
    Spec {
        name: "vm".to_owned(),
        project: "p".to_owned(),
        user: "u".to_owned(),
        group: None,
        rules: Rules::default(),
        body: body.into(),
        created_at: Timestamp(1),
        usage: Usage::default(),
        build_secrets: SharedText::default(),
        secrets: SharedText::default(),
    }
}

fn fields(user_data: Option<&str>, admin_pass: Option<&str>) -> SecretFields {
    let secret = |text: Option<&str>| text.map(|text| Secret::new(text.to_owned()));
    SecretFields {
        user_data: secret(user_data),
        admin_pass: secret(admin_pass),
    }
}

/// A specification with two sealed secrets. Its user data are `hi` in base 64.
fn sealed(sealer: &Sealer, number: u128) -> Spec {
    let request_secrets = sealer
        .seal(fields(Some("aGk="), Some("pass")))
        .expect("seals");
    let mut spec = spec(BODY);
    (spec.build_secrets, spec.secrets) = request_secrets
        .for_instance(instance(number))
        .expect("seals");
    spec
}

proptest! {
    #[test]
    fn a_spec_that_is_opened_and_sealed_again_has_the_same_secrets(
        user_data in proptest::option::of(".{0,80}"),
        admin_pass in proptest::option::of(".{0,80}"),
    ) {
        let (control, cell) = (Sealer::default(), Sealer::default());
        let given = fields(user_data.as_deref(), admin_pass.as_deref());
        let before = {
            let mut spec = spec(BODY);
            let request_secrets = control.seal(given.clone()).unwrap();
            (spec.build_secrets, spec.secrets) = request_secrets.for_instance(instance(1)).unwrap();
            spec
        };
        prop_assert_eq!(&control.open_fields(instance(1), &before).unwrap(), &given);
        let mut sent = before.clone();
        control.open_spec(instance(1), &mut sent).unwrap();
        prop_assert!(!sent.has_secrets());
        let json: serde_json::Value = serde_json::from_str(&server::json(&sent.body)).unwrap();
        prop_assert_eq!(json["server"]["user_data"].as_str(), user_data.as_deref());
        prop_assert_eq!(json["server"]["admin_pass"].as_str(), admin_pass.as_deref());
        if !given.is_empty() {
            prop_assert_eq!(
                format!("{:?}", sent.body),
                format!("Json(({} bytes, not shown))", sent.body.len())
            );
        }
        cell.seal_spec(instance(1), &mut sent).unwrap();
        prop_assert_eq!(server::json(&sent.body), BODY);
        prop_assert_eq!(sent.digest(), before.digest());
        prop_assert_eq!(cell.open_fields(instance(1), &sent).unwrap(), given);
    }
}

/// The row, with a field that a later release added to its common part.
fn with_later_field(row: &SharedRow) -> SharedRow {
    let mut from = Reader::new(row.common(), Layout::Growing);
    let present_fields = from.bytes().expect("the row can be read");
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    out.bytes(&[present_fields, b"of a later release"].concat());
    SharedRow::from_parts(out.into_bytes().into(), row.own())
}

#[test]
fn secrets_of_a_body_that_is_a_row_are_opened_and_sealed_again() {
    let body = ServerBody {
        server: ServerFields {
            flavor_id: "small".into(),
            secrets_mark: Some("mark".into()),
            ..ServerFields::default()
        },
        own: OwnFields {
            launch_index: 1,
            hostname: "vm".into(),
        },
        ..ServerBody::default()
    };
    let SpecBody::Row(row) = server::write(&body) else {
        panic!("a body that is written is a row");
    };
    for row in [with_later_field(&row), row] {
        let (control, cell) = (Sealer::default(), Sealer::default());
        let request_secrets = control.seal(fields(Some("aGk="), Some("pass"))).unwrap();
        let mut before = spec("");
        before.body = SpecBody::Row(row);
        (before.build_secrets, before.secrets) = request_secrets.for_instance(instance(1)).unwrap();
        let mut sent = before.clone();
        control.open_spec(instance(1), &mut sent).unwrap();
        let shown = format!("{:?}", sent.body);
        assert_eq!(
            shown,
            format!("Row(({} bytes, not shown))", sent.body.len())
        );
        let open = server::read(&sent.body).unwrap().server;
        assert_eq!(open.user_data.as_deref(), Some("aGk="));
        assert_eq!(open.admin_pass.as_deref(), Some("pass"));
        assert!(cell.seal_spec(instance(1), &mut sent).unwrap());
        assert_eq!(sent.body, before.body);
        assert_eq!(sent.digest(), before.digest());
        let opened = cell.open_fields(instance(1), &sent).unwrap();
        assert_eq!(opened, fields(Some("aGk="), Some("pass")));
        // There is nothing left to be sealed.
        assert!(!cell.seal_spec(instance(1), &mut sent).unwrap());
    }
}

#[test]
fn secrets_are_not_opened_for_another_server() {
    let sealer = Sealer::default();
    let one = sealed(&sealer, 1);
    assert_eq!(
        sealer.open_fields(instance(2), &one),
        Err(OpenError::NotAuthentic)
    );
    let mut swapped = one.clone();
    std::mem::swap(&mut swapped.build_secrets, &mut swapped.secrets);
    assert_eq!(
        sealer.open_fields(instance(1), &swapped),
        Err(OpenError::NotAuthentic)
    );
    // The fields of one request, which its servers share, with the server's own key of another request.
    let other = sealed(&sealer, 1);
    let mut mixed = one.clone();
    mixed.secrets = SharedText::from_parts(
        std::sync::Arc::clone(one.secrets.common()),
        other.secrets.own(),
    );
    assert_eq!(
        sealer.open_fields(instance(1), &mixed),
        Err(OpenError::NotAuthentic)
    );
    let mut opened = mixed;
    assert!(sealer.open_spec(instance(1), &mut opened).is_err());
    assert!(!opened.has_secrets());
}

#[test]
fn servers_of_one_request_share_the_fields() {
    let sealer = Sealer::default();
    let request_secrets = sealer.seal(fields(Some("aGk="), None)).unwrap();
    let (build_secrets, first) = request_secrets.for_instance(instance(1)).unwrap();
    let (_, second) = request_secrets.for_instance(instance(2)).unwrap();
    // The request has no password, which would be a secret for the build alone.
    assert!(build_secrets.is_empty());
    assert!(first.shares_prefix(&second) && first != second);
}

#[test]
fn secrets_are_sealed_again_with_a_new_key() {
    let keys = Keyring::random().unwrap();
    let old = keys.current().id();
    let before = Sealer::with_keyring(keys.clone());
    let mut spec = sealed(&before, 1);
    assert_eq!(
        before.resealed(instance(1), &spec, WITHOUT_BODIES),
        Ok(None)
    );
    // In a spec that was read from a store, the shared part of the text is not separated from the rest.
    spec.secrets = SharedText::from(spec.secrets.text().into_owned());
    let keys = keys.rotated(Key::random().unwrap());
    let after = Sealer::with_keyring(keys.clone());
    let mut counts = SecretCounts::default();
    after.count(&spec, &mut counts);
    // Both secrets of the specification are sealed with an older key.
    assert_eq!((counts.current, counts.older, counts.unknown), (0, 2, 0));
    let new = after
        .resealed(instance(1), &spec, WITHOUT_BODIES)
        .unwrap()
        .unwrap();
    assert_eq!(new.digest(), spec.digest());
    assert_eq!(
        Sealer::key_ids_of(&new).collect::<Vec<_>>(),
        [Some(keys.current().id()); 2]
    );
    let last = Sealer::with_keyring(keys.without(old).unwrap());
    let opened = last.open_fields(instance(1), &new).unwrap();
    assert_eq!(opened, fields(Some("aGk="), Some("pass")));
    assert_eq!(
        last.open_fields(instance(1), &spec),
        Err(OpenError::UnknownKey(old))
    );
    assert_eq!(
        last.resealed(instance(1), &spec, WITHOUT_BODIES),
        Err(OpenError::UnknownKey(old))
    );
    counts = SecretCounts::default();
    last.count(&spec, &mut counts);
    last.count(&new, &mut counts);
    assert_eq!((counts.current, counts.older, counts.unknown), (2, 0, 2));
}

#[test]
fn secrets_that_an_earlier_release_left_in_the_clear_are_sealed() {
    let sealer = Sealer::default();
    let open = r#"{"request":{},"server":{"user_data":"aGk=","b":1,"admin_pass":"pass"}}"#;
    let new = sealer
        .resealed(instance(1), &spec(open), WITH_BODIES)
        .unwrap();
    let new = new.unwrap();
    assert_eq!(
        server::json(&new.body),
        r#"{"request":{},"server":{"b":1}}"#
    );
    let opened = sealer.open_fields(instance(1), &new).unwrap();
    assert_eq!(opened, fields(Some("aGk="), Some("pass")));
    assert_eq!(sealer.resealed(instance(1), &new, WITH_BODIES), Ok(None));
    assert_eq!(
        sealer.resealed(instance(1), &spec(BODY), WITH_BODIES),
        Ok(None)
    );
}
