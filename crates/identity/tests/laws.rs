//! Properties of identities: they are parsed as they were written, and allow only the calls of
//! their own role, cell and hosts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use placewright_identity::{AgentNames, Call, HostPattern, Identity, NameError, Role};
use placewright_types::host_name::uuid_of_name;
use proptest::prelude::*;
use uuid::Uuid;

const INSTALLATION: &str = "test";

/// Names, also with characters that have a meaning in URIs and patterns.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,3}",
        "[a-c*/%=. é]{1,6}",
        Just("control".to_owned()),
        Just("host".to_owned()),
    ]
}

fn pattern() -> impl Strategy<Value = HostPattern> {
    prop_oneof![
        4 => name().prop_map(HostPattern::Named),
        2 => (name(), any::<u128>())
            .prop_map(|(name, uuid)| HostPattern::WithUuid(name, Uuid::from_u128(uuid))),
        1 => name().prop_map(HostPattern::Prefix),
        1 => Just(HostPattern::All),
    ]
}

fn agent() -> impl Strategy<Value = Role> {
    let hosts = proptest::collection::btree_set(pattern(), 1..4);
    let services = proptest::collection::btree_set(name(), 0..2);
    (name(), hosts, services).prop_map(|(cell, hosts, services)| {
        Role::Agent(AgentNames {
            cell,
            hosts,
            services,
        })
    })
}

fn identity() -> impl Strategy<Value = Identity> {
    let role = prop_oneof![
        Just(Role::Control),
        name().prop_map(Role::Cell),
        agent(),
        agent()
    ];
    let installation = prop_oneof![3 => Just(INSTALLATION), 1 => Just("other")];
    (installation, role).prop_map(|(installation, role)| Identity::new(installation, role).unwrap())
}

/// Whether an agent may send messages for a host: a second definition, to compare `check_call` with.
fn may_report_host(names: &AgentNames, name: &str, uuid: Uuid) -> bool {
    let is_derived = uuid == uuid_of_name(name);
    names.hosts.contains(&HostPattern::All)
        || (is_derived && names.hosts.contains(&HostPattern::Named(name.to_owned())))
        || names
            .hosts
            .contains(&HostPattern::WithUuid(name.to_owned(), uuid))
        || (is_derived
            && (1..=name.len())
                .filter(|end| name.is_char_boundary(*end))
                .any(|end| {
                    let prefix = name[..end].to_owned();
                    names.hosts.contains(&HostPattern::Prefix(prefix))
                }))
}

proptest! {
    #[test]
    fn an_identity_is_read_as_it_was_written(identity in identity()) {
        let uris = identity.uris();
        let parsed = Identity::parse(uris.iter().map(String::as_str)).unwrap();
        prop_assert_eq!(&parsed, &identity);
        // URIs with other schemes are ignored.
        let other_names = ["spiffe://x/y", "https://example.org"].into_iter();
        let parsed = Identity::parse(uris.iter().map(String::as_str).chain(other_names)).unwrap();
        prop_assert_eq!(parsed, identity);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(placewright://)?[a-z*%/0-9:-]{0,40}") {
        if let Ok(parsed) = Identity::parse([text.as_str()]) {
            // Each identity has one form only.
            prop_assert_eq!(parsed.uris(), [text]);
        }
    }

    #[test]
    fn two_different_roles_make_no_identity(left in identity(), right in identity()) {
        let uris = [left.uris(), right.uris()].concat();
        let parsed = Identity::parse(uris.iter().map(String::as_str));
        let agent_cell = |identity: &Identity| match identity.role() {
            Role::Agent(names) => Some((identity.installation().to_owned(), names.cell.clone())),
            _ => None,
        };
        // An agent has one URI for each host or service, so those of two agents of one cell are those of one
        // agent with the hosts of both.
        let can_merge = agent_cell(&left).is_some() && agent_cell(&left) == agent_cell(&right);
        prop_assert_eq!(parsed.is_ok(), can_merge);
    }

    #[test]
    fn nobody_speaks_for_others(
        identity in identity(), cell in name(), host in name(), uuid in any::<u128>(), is_derived in any::<bool>(),
        holder in identity(),
    ) {
        let uuid = if is_derived { uuid_of_name(&host) } else { Uuid::from_u128(uuid) };
        let is_same_installation = identity.installation() == INSTALLATION;
        let agent = match identity.role() {
            Role::Agent(names) if names.cell == cell => Some(names),
            _ => None,
        };
        let calls = [
            (Call::ControlCell { cell: &cell }, *identity.role() == Role::Control),
            (Call::RequestClaims, matches!(identity.role(), Role::Cell(_))),
            // The empty name stands for control.
            (Call::JoinReplicas { cell: "" }, *identity.role() == Role::Control),
            (
                Call::JoinReplicas { cell: &cell },
                *identity.role() == Role::Cell(cell.clone()),
            ),
            (Call::JoinCell { cell: &cell }, agent.is_some()),
            (
                Call::ReportHost { cell: &cell, name: &host, uuid },
                agent.is_some_and(|names| may_report_host(names, &host, uuid)),
            ),
            (Call::RenewCertificate, true),
            (
                Call::RenewAgentCertificate { holder: &holder },
                match (identity.role(), holder.role()) {
                    (Role::Cell(cell_name), Role::Agent(names)) => {
                        *cell_name == names.cell && holder.installation() == INSTALLATION
                    }
                    _ => false,
                },
            ),
        ];
        for (call, is_allowed) in calls {
            let expected = is_allowed && is_same_installation;
            prop_assert_eq!(identity.check_call(INSTALLATION, &call).is_ok(), expected, "{}", call);
        }
    }
}

fn agent_of(cell: &str, host: HostPattern) -> Identity {
    let names = AgentNames {
        cell: cell.to_owned(),
        hosts: BTreeSet::from([host]),
        services: BTreeSet::new(),
    };
    Identity::new(INSTALLATION, Role::Agent(names)).unwrap()
}

#[test]
fn refusals_say_who_what_and_why() {
    let identity = agent_of("c1", HostPattern::from_argument("h1").unwrap());
    let call = Call::ReportHost {
        cell: "c1",
        name: "h2",
        uuid: uuid_of_name("h2"),
    };
    assert_eq!(
        identity
            .check_call(INSTALLATION, &call)
            .unwrap_err()
            .to_string(),
        format!(
            "the certificate of placewright://test/cell/c1/host/h1 does not allow it to speak for \
             the host \"h2\" ({}): it is for other hosts",
            uuid_of_name("h2")
        )
    );
}

#[test]
fn an_agent_cannot_report_the_uuid_of_another_host_with_the_name_of_its_own() {
    let identity = agent_of("c1", HostPattern::from_argument("h1").unwrap());
    let call = Call::ReportHost {
        cell: "c1",
        name: "h1",
        uuid: uuid_of_name("h2"),
    };
    assert!(identity.check_call(INSTALLATION, &call).is_err());
}

#[test]
fn a_service_host_has_the_name_of_a_host_or_a_name_in_the_certificate() {
    let names = AgentNames {
        cell: "c1".into(),
        hosts: BTreeSet::from([HostPattern::Named("h1".into())]),
        services: BTreeSet::from(["ironic".to_owned()]),
    };
    let identity = Identity::new(INSTALLATION, Role::Agent(names)).unwrap();
    for (service, is_allowed) in [("h1", true), ("ironic", true), ("h2", false)] {
        let call = Call::ReportServiceHost {
            cell: "c1",
            service_host: service,
        };
        assert_eq!(
            identity.check_call(INSTALLATION, &call).is_ok(),
            is_allowed,
            "{service}"
        );
    }
}

#[test]
fn uris_that_name_no_role_are_refused() {
    for uri in [
        "placewright://test",
        "placewright://test/",
        "placewright://test/cell/",
        "placewright://test/cell/c1/host",
        "placewright://test/cell/c1/host/",
        "placewright://test/cell/c1/host/h1/x",
        "placewright://test/cell/c1/service/s",
        "placewright://TEST/control",
        "placewright://test/control/",
        "placewright:///control",
        "placewright://test/cell/c%31",
        "placewright://test/cell/c1/host/a*b",
    ] {
        assert!(Identity::parse([uri]).is_err(), "{uri}");
    }
    assert_eq!(Identity::parse(["https://x/y"]), Err(NameError::NoRole));
}
