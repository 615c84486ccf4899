//! The rows of quotas.

use placewright_conductor::quota::{QuotaScope, QuotaSet, Resource, Usage, UsageAmounts};
use placewright_conductor::super_conductor::{Change, Move, MoveStage};
use placewright_conductor::{MoveKind, Spec, control};

use super::{INSTANCE, MIGRATION, some, spec};

/// The usage of an instance.
pub(crate) fn usage() -> Usage {
    Usage::new(UsageAmounts {
        cores: 300,
        ram_mb: 512,
        classes: vec![("CUSTOM_GPU".into(), 1), ("VCPU".into(), 300)],
    })
}

/// A spec with a usage.
pub(crate) fn spec_with_usage() -> Spec {
    Spec {
        usage: usage(),
        ..spec()
    }
}

/// A move that adds to the usage of its instance.
pub(crate) fn move_with_usage() -> Move {
    Move {
        instance: INSTANCE,
        kind: MoveKind::Resize,
        stage: MoveStage::Requested,
        spec: Some(spec_with_usage()),
        move_number: 1,
        held: vec![],
        decision: None,
        added_usage: Usage::new(UsageAmounts {
            cores: 200,
            ..UsageAmounts::default()
        }),
        decision_request: None,
    }
}

/// A limit of each resource.
pub(crate) fn limits() -> QuotaSet {
    let limits = [
        (Resource::Instances, 10),
        (Resource::Cores, 20),
        (Resource::Ram, -1),
        (Resource::KeyPairs, 3),
        (Resource::ServerGroups, 4),
        (Resource::ServerGroupMembers, 5),
        (Resource::Class("CUSTOM_GPU".into()), 300),
    ];
    QuotaSet {
        limits: limits.into(),
    }
}

/// A scope of each kind.
pub(crate) fn scopes() -> [QuotaScope; 5] {
    [
        QuotaScope::Configured,
        QuotaScope::Class("default".into()),
        QuotaScope::Project("p".into()),
        QuotaScope::Registered,
        QuotaScope::Unified("p".into()),
    ]
}

/// Changes of quotas, and of an instance with a usage.
pub(crate) fn quota_changes() -> Vec<control::Change> {
    let sets = scopes().map(|scope| Change::Quota(scope, some(limits())));
    let of_instance = [
        Change::Quota(QuotaScope::Project("q".into()), None),
        Change::Spec(INSTANCE, some(spec_with_usage())),
        Change::Move(MIGRATION, some(move_with_usage())),
    ];
    let all = sets.into_iter().chain(of_instance);
    all.map(control::Change::Conductor).collect()
}
