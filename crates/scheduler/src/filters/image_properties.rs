//! `ImagePropertiesFilter`: the host supports the architecture, hypervisor, VM mode and address
//! width that the image requests.

use super::filter::Filter;
use super::version::Version;
use crate::context::Context;
use crate::error::BadRequest;
use crate::hosts::platform::PlatformGroup;
use crate::hosts::verdict::{Partition, Verdict};
use crate::values::strip;

/// The filter as registered in [`super::ALL`].
pub(super) const FILTER: Filter = Filter {
    name: "ImagePropertiesFilter",
    is_once_per_request: true,
    runs_on_rebuild: true,
    compile,
};

fn compile<'a>(context: &Context<'a>) -> Result<Verdict<'a>, BadRequest> {
    let default_architecture = context
        .config
        .image_properties_default_architecture
        .as_deref();
    let required: Vec<&str> = [
        context
            .image_property("hw_architecture")
            .or(default_architecture),
        context.image_property("img_hv_type"),
        context.image_property("hw_vm_mode"),
    ]
    .into_iter()
    .flatten()
    .collect();
    if required.is_empty() {
        return Ok(Verdict::All);
    }
    let required_version = context.image_property("img_hv_requested_version");
    let required_version = required_version.map(VersionPredicate::parse).transpose()?;
    let image = context.request.image.as_ref();
    let required_bits = image.and_then(|image| image.properties.number("hw_maxphysaddr_bits"));
    let required_bits = required_bits.filter(|bits| *bits != 0);
    let platforms = context.hosts.platforms();
    let passes = |group: &PlatformGroup| {
        let supported = &group.platform.supported_instances;
        let matches_required = |instance: &[String; 3]| {
            required
                .iter()
                .all(|value| instance.iter().any(|part| part == value))
        };
        let version = group
            .platform
            .hypervisor_version
            .filter(|version| *version != 0);
        let version_fits = match (&required_version, version) {
            (Some(predicate), Some(version)) => predicate.is_met_by(version),
            _ => true,
        };
        let bits_fit = match (
            required_bits,
            group.physical_address_bits().filter(|bits| *bits != 0),
        ) {
            (Some(required), Some(supported)) => supported >= required,
            _ => true,
        };
        supported.iter().any(matches_required) && version_fits && bits_fit
    };
    let groups = platforms.groups().iter();
    Ok(Partition::verdict(
        platforms.group_of(),
        groups.map(|group| (&group.hosts, passes(group))),
    ))
}

/// Conditions on a version, all of which must hold: `>=2.6,<9`.
#[derive(Clone, Debug)]
struct VersionPredicate {
    conditions: Vec<(&'static str, Version)>,
}

/// The comparison operators. Longer ones come first, because the first that matches is used.
const OPERATORS: [&str; 6] = ["<=", ">=", "!=", "==", "<", ">"];

impl VersionPredicate {
    fn parse(text: &str) -> Result<Self, BadRequest> {
        let condition = |text: &str| {
            let text = strip(text);
            let mut operators = OPERATORS.into_iter();
            let operator = operators.find(|operator| text.starts_with(operator))?;
            Some((operator, Version::parse(strip(&text[operator.len()..]))?))
        };
        let conditions = text.split(',').map(condition).collect::<Option<_>>();
        let conditions = conditions.ok_or_else(|| {
            let field = "image.properties.img_hv_requested_version";
            BadRequest::malformed(field, text, "a list of conditions such as \">=2.6\"")
        })?;
        Ok(Self { conditions })
    }

    /// Whether a version that a hypervisor reports, as in [`Version::from_number`], satisfies all conditions.
    fn is_met_by(&self, number: i32) -> bool {
        let Some(version) = Version::from_number(number) else {
            return false;
        };
        self.conditions.iter().all(|(operator, required_version)| {
            let order = version.cmp(required_version);
            match *operator {
                "<=" => order.is_le(),
                ">=" => order.is_ge(),
                "!=" => order.is_ne(),
                "==" => order.is_eq(),
                "<" => order.is_lt(),
                _ => order.is_gt(),
            }
        })
    }
}
