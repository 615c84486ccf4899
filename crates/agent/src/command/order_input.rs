//! An order of the cell in the form in which executables read it.

use std::collections::BTreeMap;

use placewright_conductor::cell_conductor::{GuestRef, Order};
use placewright_conductor::{Amounts, HostId};
use serde::Serialize;
use serde_json::value::RawValue;
use uuid::Uuid;

#[derive(Serialize)]
pub(super) struct OrderInput<'a> {
    name: &'a str,
    project: &'a str,
    user: &'a str,
    is_live: bool,
    /// The allocations of the instance on the target, by provider; empty without a target.
    resources: Vec<ResourceInput<'a>>,
    /// By suffix of a request group: what the group gets of each provider that serves it.
    mappings: BTreeMap<&'a str, Vec<ResourceInput<'a>>>,
    /// The guest that the instance had when the job began; none if it had none.
    origin: Option<GuestRefInput>,
    /// The guest that is built, or to which the instance is moved; none if the job has no target.
    target: Option<GuestRefInput>,
    /// The location of the image: a path or a URL. None if the instance has no image with a UUID, or if
    /// [`Options::images`](super::Options::images) is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    /// The specification's body as control wrote it: flavor, image, networks and the like.
    spec: &'a RawValue,
}

#[derive(Serialize)]
struct ResourceInput<'a> {
    provider: Uuid,
    /// The name of the provider, if the driver described it.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    resources: BTreeMap<&'a str, i64>,
}

#[derive(Serialize)]
struct GuestRefInput {
    host: HostId,
    number: u32,
}

impl From<GuestRef> for GuestRefInput {
    fn from(guest: GuestRef) -> Self {
        Self {
            host: guest.host,
            number: guest.number,
        }
    }
}

impl<'a> OrderInput<'a> {
    /// An order, with the names of providers, the location of the image, and the body of the specification.
    pub(super) fn new(
        order: &'a Order,
        names: &'a BTreeMap<Uuid, String>,
        image: Option<String>,
        spec: Option<&'a RawValue>,
    ) -> Self {
        let resources = |amounts: &'a [Amounts]| {
            let rows = amounts.iter().map(|row| resource_input(row, names));
            rows.collect()
        };
        let mappings = order.mappings.iter();
        let mappings = mappings.map(|group| (&group.suffix[..], resources(&group.providers)));
        Self {
            name: &order.spec.name,
            project: &order.spec.project,
            user: &order.spec.user,
            is_live: order.is_live,
            resources: resources(&order.amounts),
            mappings: mappings.collect(),
            origin: order.origin.map(GuestRefInput::from),
            target: order.target.map(GuestRefInput::from),
            image,
            spec: spec.unwrap_or(RawValue::NULL),
        }
    }
}

fn resource_input<'a>(
    amounts: &'a Amounts,
    names: &'a BTreeMap<Uuid, String>,
) -> ResourceInput<'a> {
    let rows = amounts.resources.iter();
    ResourceInput {
        provider: amounts.provider,
        name: names.get(&amounts.provider).map(String::as_str),
        resources: rows
            .map(|(class, amount)| (class.as_str(), *amount))
            .collect(),
    }
}
