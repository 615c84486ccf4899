//! The collections of the API, all of them empty, and the answers about them.

use placewright_http::{ApiError, ApiResult};
use serde_json::{Map, Value, json};

/// The collections: the segment of the path, and the key of the list in answers.
const COLLECTIONS: [(&str, &str); 26] = [
    ("networks", "networks"),
    ("subnets", "subnets"),
    ("ports", "ports"),
    ("routers", "routers"),
    ("floatingips", "floatingips"),
    ("security-groups", "security_groups"),
    ("security-group-rules", "security_group_rules"),
    (
        "default-security-group-rules",
        "default_security_group_rules",
    ),
    ("subnetpools", "subnetpools"),
    ("address-scopes", "address_scopes"),
    ("address-groups", "address_groups"),
    ("trunks", "trunks"),
    ("agents", "agents"),
    ("availability_zones", "availability_zones"),
    ("extensions", "extensions"),
    ("quotas", "quotas"),
    ("rbac-policies", "rbac_policies"),
    ("segments", "segments"),
    ("network_segment_ranges", "network_segment_ranges"),
    ("network-ip-availabilities", "network_ip_availabilities"),
    ("service-providers", "service_providers"),
    ("flavors", "flavors"),
    ("service_profiles", "service_profiles"),
    ("auto-allocated-topology", "auto_allocated_topologies"),
    ("local_ips", "local_ips"),
    ("ndp_proxies", "ndp_proxies"),
];

/// The resources that the quotas of a project limit.
const QUOTAS: [&str; 9] = [
    "network",
    "subnet",
    "subnetpool",
    "port",
    "router",
    "floatingip",
    "security_group",
    "security_group_rule",
    "rbac_policy",
];

/// The resource that a path of the API names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// The list of versions.
    Versions,
    /// The list of collections.
    Collections,
    /// A collection, by the key of its list.
    Collection(&'static str),
    /// The quotas of a project; if `with_usage`, with the amounts that the project uses.
    Quotas { with_usage: bool },
    /// An object with an id in a collection. There are no such objects.
    Item {
        collection: &'static str,
        id: String,
    },
}

impl Resource {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// 404 if the API has no such path.
    pub(crate) fn parse(path: &str) -> ApiResult<Self> {
        let path = path.strip_suffix(".json").unwrap_or(path);
        // A path of the API has four segments at most. A longer one matches none below.
        let segments: Vec<&str> = path.trim_matches('/').split('/').take(5).collect();
        let collection = |segment: &str| {
            let found = COLLECTIONS.iter().find(|(name, _)| *name == segment);
            found.map(|(_, key)| *key).ok_or_else(not_found)
        };
        match segments.as_slice() {
            [""] => Ok(Self::Versions),
            ["v2.0"] => Ok(Self::Collections),
            ["v2.0", segment] => collection(segment).map(Self::Collection),
            ["v2.0", "quotas", _] | ["v2.0", "quotas", _, "default"] => {
                Ok(Self::Quotas { with_usage: false })
            }
            ["v2.0", "quotas", _, "details"] => Ok(Self::Quotas { with_usage: true }),
            ["v2.0", segment, id] => Ok(Self::Item {
                collection: collection(segment)?,
                id: (*id).to_owned(),
            }),
            _ => Err(not_found()),
        }
    }

    /// The path with its parameters in braces, for logs.
    pub(crate) fn route(&self) -> &'static str {
        match self {
            Self::Versions => "/",
            Self::Collections => "/v2.0",
            Self::Collection(_) => "/v2.0/{collection}",
            Self::Quotas { .. } => "/v2.0/quotas/{project_id}",
            Self::Item { .. } => "/v2.0/{collection}/{id}",
        }
    }

    /// The body of the answer to `GET`. `origin` is the scheme and host of the API as the client addresses it.
    ///
    /// # Errors
    ///
    /// 404 for [`Self::Item`].
    pub(crate) fn show(&self, origin: &str) -> ApiResult<Value> {
        let link = |path: &str| json!([{"rel": "self", "href": format!("{origin}/v2.0/{path}")}]);
        match self {
            Self::Versions => Ok(json!({
                "versions": [{"id": "v2.0", "status": "CURRENT", "links": link("")}],
                // The capabilities are the same for all callers.
                "capabilities": {
                    "release": env!("CARGO_PKG_VERSION"),
                    "networks": false,
                    "writes": false,
                },
            })),
            Self::Collections => {
                let resources = COLLECTIONS.iter().map(
                    |(name, key)| json!({"name": name, "collection": key, "links": link(name)}),
                );
                let resources: Vec<Value> = resources.collect();
                Ok(json!({"resources": resources}))
            }
            Self::Collection(key) => Ok(json!({*key: []})),
            Self::Quotas { with_usage } => {
                let quota = |name: &&str| {
                    let value = match with_usage {
                        true => json!({"limit": 0, "used": 0, "reserved": 0}),
                        false => json!(0),
                    };
                    ((*name).to_owned(), value)
                };
                let quotas: Map<String, Value> = QUOTAS.iter().map(quota).collect();
                Ok(json!({"quota": quotas}))
            }
            Self::Item { collection, id } => {
                // The message has 64 characters of the id at most.
                let mut id = id.clone();
                id.truncate(id.char_indices().nth(64).map_or(id.len(), |(end, _)| end));
                Err(ApiError::not_found(format!(
                    "There is no {id} among the {collection}."
                )))
            }
        }
    }
}

fn not_found() -> ApiError {
    ApiError::not_found("There is nothing at this path.")
}
