//! Device profiles of the accelerator service.

use super::outside::Outside;
use super::read_group::ReadGroup;
use crate::error::{BadRequest, Warning};
use crate::extra_spec::ExtraSpecKey;
use crate::flavor::extra_spec_field;
use crate::request::{DeviceProfile, RequestGroup, RequestSpec};
use placewright_types::text::whole_number;

/// The extra spec that names a flavor's device profile.
pub(crate) const DEVICE_PROFILE_KEY: &str = "accel:device_profile";

/// Adds a group for each group of the device profiles that the flavor and the ports name.
pub(super) fn add_groups(
    spec: &RequestSpec,
    outside: &mut Vec<Outside>,
    warnings: &mut Vec<Warning>,
) -> Result<(), BadRequest> {
    // A request with ready-made groups need not include the profile.
    let of_flavor = spec.flavor.filled_extra_spec(DEVICE_PROFILE_KEY);
    if let Some(name) = of_flavor
        && !is_ready_made(spec)
    {
        let profile = find(spec, name, || extra_spec_field(DEVICE_PROFILE_KEY))?;
        add_profile(profile, "", outside, warnings);
    }
    for (index, nic) in spec.requested_networks.iter().enumerate() {
        let Some(name) = &nic.device_profile else {
            continue;
        };
        let field = || format!("requested_networks[{index}].device_profile");
        let profile = find(spec, name, field)?;
        if device_count(profile, field)? > 1 {
            return Err(BadRequest::invalid(
                field(),
                "a port is made of one device, and this profile has more",
            ));
        }
        let Some(port) = nic.port_id else {
            return Err(BadRequest::missing(
                format!("requested_networks[{index}].port_id"),
                "its device profile is known by it",
            ));
        };
        add_profile(profile, &port.to_string(), outside, warnings);
    }
    Ok(())
}

fn is_ready_made(spec: &RequestSpec) -> bool {
    let mut groups = spec.requested_resources.iter();
    groups.any(|group| group.requester_id == suffix(0, ""))
}

fn suffix(index: usize, owner: &str) -> String {
    format!("device_profile_{index}{owner}")
}

fn find<'a>(
    spec: &'a RequestSpec,
    name: &str,
    field: impl FnOnce() -> String,
) -> Result<&'a DeviceProfile, BadRequest> {
    let mut profiles = spec.device_profiles.iter();
    let found = profiles.find(|profile| profile.name == name);
    found.ok_or_else(|| {
        BadRequest::missing("device_profiles", format!("{} names {name:?}", field()))
    })
}

fn add_profile(
    profile: &DeviceProfile,
    owner: &str,
    outside: &mut Vec<Outside>,
    warnings: &mut Vec<Warning>,
) {
    for (index, described) in profile.groups.iter().enumerate() {
        let mut group = RequestGroup {
            requester_id: suffix(index, owner),
            ..RequestGroup::default()
        };
        for (key, value) in &described.properties {
            let field = || {
                format!(
                    "device_profiles[{:?}].groups[{index}][{key:?}]",
                    profile.name
                )
            };
            match ExtraSpecKey::parse(key) {
                ExtraSpecKey::Resources { class, .. } => {
                    group.read_resource(class, value, field, warnings);
                }
                ExtraSpecKey::Trait { name, .. } => group.read_trait(name, value, field, warnings),
                ExtraSpecKey::AnyTrait { .. } | ExtraSpecKey::GroupPolicy | ExtraSpecKey::Other => {
                }
            }
        }
        outside.push(Outside {
            group,
            field: format!("device_profiles[{:?}].groups[{index}]", profile.name),
        });
    }
}

/// The number of devices of a profile's group.
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
