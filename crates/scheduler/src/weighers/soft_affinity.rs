//! The soft policies of server groups: hosts with many members are preferred, or hosts with few.

use super::weigher::{RawValues, Weigher};
use crate::context::Context;
use crate::filters::members_by_host;
use crate::request::GroupPolicy;

/// `ServerGroupSoftAffinityWeigher` as registered in [`super::ALL`].
pub(super) const AFFINITY: Weigher = Weigher {
    name: "ServerGroupSoftAffinityWeigher",
    multiplier_key: "soft_affinity_weight_multiplier",
    multiplier: |config| config.soft_affinity_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |context| Ok(signed_counts(context, GroupPolicy::SoftAffinity, 1.0)),
};

/// `ServerGroupSoftAntiAffinityWeigher` as registered in [`super::ALL`].
pub(super) const ANTI_AFFINITY: Weigher = Weigher {
    name: "ServerGroupSoftAntiAffinityWeigher",
    multiplier_key: "soft_anti_affinity_weight_multiplier",
    multiplier: |config| config.soft_anti_affinity_weight_multiplier,
    negates_multiplier: false,
    declared_low: None,
    declared_high: None,
    compile: |context| Ok(signed_counts(context, GroupPolicy::SoftAntiAffinity, -1.0)),
};

/// The number of members of the request's group on each host, times `sign`; 0 everywhere if the
/// group does not have the policy.
fn signed_counts<'a>(context: &Context<'a>, policy: GroupPolicy, sign: f64) -> RawValues<'a> {
    let group = context.request.instance_group.as_ref();
    let Some(group) = group.filter(|group| group.policy == Some(policy)) else {
        return RawValues::Constant(0.0);
    };
    let counts = members_by_host(context, group).into_iter();
    RawValues::Sparse {
        exceptions: counts
            .map(|(slot, count)| (slot, sign * f64::from(count)))
            .collect(),
        default: 0.0,
    }
}
