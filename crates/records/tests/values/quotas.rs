//! The rows of quotas.

use placewright_conductor::quota::{QuotaScope, QuotaSet, Resource, Usage, UsageAmounts};
use placewright_conductor::super_conductor::{Change, Move, MoveStage};
use placewright_conductor::{MoveKind, Spec, control};

use super::{INSTANCE, MIGRATION, some, spec};

/// The specification of an instance that counts for something.
pub fn counted_spec() -> Spec {
    Spec {
        usage: Usage::new(UsageAmounts {
            cores: 300,
            ram_mb: 512,
            classes: vec![("CUSTOM_GPU".into(), 1), ("VCPU".into(), 300)],
        }),
        ..spec()
    }
}

/// Limits of each scope, and an instance that counts for something.
pub fn of_quotas() -> Vec<control::Change> {
    let limits = [
        (Resource::Instances, 10),
        (Resource::Cores, 20),
        (Resource::Ram, -1),
        (Resource::KeyPairs, 3),
        (Resource::ServerGroups, 4),
        (Resource::ServerGroupMembers, 5),
        (Resource::Class("CUSTOM_GPU".into()), 300),
    ];
    let set = QuotaSet {
        limits: limits.into(),
    };
    let scopes = [
        QuotaScope::Configured,
        QuotaScope::Class("default".into()),
        QuotaScope::Project("p".into()),
        QuotaScope::Registered,
        QuotaScope::Unified("p".into()),
    ];
    let counted = counted_spec();
    let under_way = Move {
        instance: INSTANCE,
        kind: MoveKind::Resize,
        stage: MoveStage::Requested,
        spec: Some(counted.clone()),
        turn: 1,
        held: vec![],
        verdict: None,
        added_usage: Usage::new(UsageAmounts {
            cores: 200,
            ..UsageAmounts::default()
        }),
    };
    let sets = scopes.map(|scope| Change::Quota(scope, some(set.clone())));
    let of_instance = [
        Change::Quota(QuotaScope::Project("q".into()), None),
        Change::Spec(INSTANCE, some(counted)),
        Change::Move(MIGRATION, some(under_way)),
    ];
    let all = sets.into_iter().chain(of_instance);
    all.map(control::Change::Conductor).collect()
}
