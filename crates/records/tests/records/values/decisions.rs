//! The records of decisions: why instances are where they are.

use placewright_conductor::super_conductor::{Change, Mapping, RankedCandidates};
use placewright_conductor::{ClaimResponse, Decision, FallenHost, RankingRecord, control};
use placewright_records::ranking;
use placewright_types::ranking::{RankedHost, RankedWeigher, Ranking};

use super::{AT, CELL, HOST, INSTANCE, MIGRATION, OTHER, some};

/// Whole, fractional, negative and very large values.
const VALUES: [f64; 4] = [65_536.0, -0.25, -3.0, 1e300];

/// A ranking with a weigher that has a number, and one of an operator.
pub(crate) fn ranking() -> Ranking {
    Ranking {
        sequence: 300,
        round: 1,
        siblings: 2,
        known_hosts: 10_000,
        feasible: Some(7),
        ranked: 7,
        named: 3,
        excluded: 4,
        avoided_cells: vec![CELL.0],
        is_from_fallback: true,
        weighers: vec![weigher("RAMWeigher"), weigher("quiet hosts")],
        hosts: vec![ranked_host()],
        lost_hosts: vec![OTHER],
        last_refusal: "too little VCPU".into(),
    }
}

pub(crate) fn weigher(name: &str) -> RankedWeigher {
    RankedWeigher {
        name: name.into(),
        multiplier: -1.5,
        low: 0.0,
        high: 65_536.0,
    }
}

pub(crate) fn ranked_host() -> RankedHost {
    RankedHost {
        host: HOST.0,
        raw_values: VALUES.into(),
        multipliers: vec![2.0],
    }
}

pub(crate) fn ranking_record() -> RankingRecord {
    RankingRecord(ranking::encode(&ranking()).into())
}

pub(crate) fn fallen() -> FallenHost {
    FallenHost {
        host: HOST,
        reason: "too little VCPU".into(),
    }
}

pub(crate) fn decision() -> Decision {
    Decision {
        host: HOST,
        at: AT,
        migration: Some(MIGRATION),
        ranking: ranking_record(),
        fallen: vec![fallen()],
        fallen_count: 300,
        alternate_count: 2,
    }
}

/// The candidates of a claim with the record of their ranking.
pub(crate) fn ranked_candidates() -> RankedCandidates {
    RankedCandidates {
        ranking: ranking_record(),
        ..super::commands::ranked_candidates()
    }
}

/// A mapping with decisions.
pub(crate) fn mapping() -> Mapping {
    Mapping {
        cell: Some(CELL),
        project: "p".into(),
        user: "u".into(),
        created_at: AT,
        is_deleting: false,
        claim_number: 300,
        claim_response: Some(ClaimResponse::Swapped { index: 1 }),
        move_number: 2,
        migrations: vec![MIGRATION],
        decisions: vec![decision()],
        reschedule: Default::default(),
    }
}

/// Changes of a mapping with decisions.
pub(crate) fn decision_changes() -> Vec<control::Change> {
    let build = Decision {
        migration: None,
        fallen: vec![],
        ..decision()
    };
    let both = Mapping {
        decisions: vec![build, decision()],
        ..mapping()
    };
    let changes = [Change::Mapping(INSTANCE, some(both))];
    changes.map(control::Change::Conductor).into()
}
