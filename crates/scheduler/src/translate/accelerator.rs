//! Device profiles of the accelerator service (Cyborg) as request groups.

use super::extra_groups::ExtraGroup;
use super::parse_group::ParseGroup;
use crate::error::{BadRequest, Warning};
use crate::extra_spec::ExtraSpecKey;
use crate::flavor::extra_spec_field;
use crate::request::{DeviceProfile, RequestGroup, RequestSpec};
use placewright_types::text::whole_number;

/// The extra spec that names a flavor's device profile.
pub const DEVICE_PROFILE_KEY: &str = "accel:device_profile";

/// Adds a group for each group of the device profiles that the flavor and the ports name.
pub(super) fn add_groups(
    spec: &RequestSpec,
    extra_groups: &mut Vec<ExtraGroup>,
    warnings: &mut Vec<Warning>,
) -> Result<(), BadRequest> {
    // If `requested_resources` has the groups of the flavor's profile already, the request need not have the
    // profile itself.
    let flavor_profile = spec.flavor.filled_extra_spec(DEVICE_PROFILE_KEY);
    if let Some(name) = flavor_profile
        && !has_profile_groups(spec)
    {
        let profile = find_profile(spec, name, || extra_spec_field(DEVICE_PROFILE_KEY))?;
        add_profile(profile, "", extra_groups, warnings);
    }
    for (index, nic) in spec.requested_networks.iter().enumerate() {
        let Some(name) = &nic.device_profile else {
            continue;
        };
        let field = || format!("requested_networks[{index}].device_profile");
        let profile = find_profile(spec, name, field)?;
        if device_count(profile, field)? > 1 {
            return Err(BadRequest::invalid(
                field(),
                "a port is made of one device, and this profile has more",
            ));
        }
        let Some(port) = nic.port_id else {
            return Err(BadRequest::missing(
                format!("requested_networks[{index}].port_id"),
                "the groups of its device profile are named after it",
            ));
        };
        add_profile(profile, &port.to_string(), extra_groups, warnings);
    }
    Ok(())
}

/// Whether the request has the groups of the flavor's device profile already.
fn has_profile_groups(spec: &RequestSpec) -> bool {
    let mut groups = spec.requested_resources.iter();
    groups.any(|group| group.requester_id == suffix(0, ""))
}

/// The suffix of a profile's group. `owner` is the UUID of the port, or empty for the flavor's
/// profile.
fn suffix(index: usize, owner: &str) -> String {
    format!("device_profile_{index}{owner}")
}

/// The device profile of a name. `field` is the field of the request that has the name.
fn find_profile<'a>(
    spec: &'a RequestSpec,
    name: &str,
    field: impl FnOnce() -> String,
) -> Result<&'a DeviceProfile, BadRequest> {
    let mut profiles = spec.device_profiles.iter();
    let profile = profiles.find(|profile| profile.name == name);
    profile.ok_or_else(|| {
        BadRequest::missing("device_profiles", format!("{} names {name:?}", field()))
    })
}

/// Adds the groups of a device profile. `owner` is as in [`suffix`].
fn add_profile(
    profile: &DeviceProfile,
    owner: &str,
    extra_groups: &mut Vec<ExtraGroup>,
    warnings: &mut Vec<Warning>,
) {
    for (index, profile_group) in profile.groups.iter().enumerate() {
        let mut group = RequestGroup {
            requester_id: suffix(index, owner),
            ..RequestGroup::default()
        };
        for (key, value) in &profile_group.properties {
            let field = || {
                format!(
                    "device_profiles[{:?}].groups[{index}][{key:?}]",
                    profile.name
                )
            };
            match ExtraSpecKey::parse(key) {
                ExtraSpecKey::Resources { class, .. } => {
                    group.parse_resource(class, value, field, warnings);
                }
                ExtraSpecKey::Trait { name, .. } => group.parse_trait(name, value, field, warnings),
                ExtraSpecKey::AnyTrait { .. } | ExtraSpecKey::GroupPolicy | ExtraSpecKey::Other => {
                }
            }
        }
        extra_groups.push(ExtraGroup {
            group,
            field: format!("device_profiles[{:?}].groups[{index}]", profile.name),
        });
    }
}

/// The number of devices of a profile.
fn device_count(
    profile: &DeviceProfile,
    field: impl FnOnce() -> String,
) -> Result<i64, BadRequest> {
    let properties = profile.groups.iter().flat_map(|group| &group.properties);
    let mut count = 0_i64;
    for (key, value) in properties {
        if let ExtraSpecKey::Resources { .. } = ExtraSpecKey::parse(key) {
            let Some(amount) = whole_number(value) else {
                return Err(BadRequest::malformed(field(), value, "a number of devices"));
            };
            count = count.saturating_add(amount);
        }
    }
    Ok(count)
}
