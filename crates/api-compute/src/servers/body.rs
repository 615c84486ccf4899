//! The body of a server's specification: the request for the scheduler, and everything that the API
//! has to show again.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::Spec;
use placewright_http::{ApiError, ApiResult};
use placewright_scheduler::request::RequestSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The body of a specification, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Body {
    /// The request for the scheduler.
    pub(crate) request: RequestSpec,
    /// How many servers of one request must find a host; if none, all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min_count: Option<u32>,
    /// What the API shows of the server besides the request.
    pub(crate) server: Server,
}

/// The fields of a server that the API has to show again, and that drivers may need.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Server {
    /// The id of the flavor at the time of the request.
    pub(crate) flavor_id: String,
    /// The image's id, unless it boots from a volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
    /// The reservation id that all servers of one request share.
    pub(crate) reservation_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_name: Option<String>,
    /// The public key with that name at the time of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) public_key: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) config_drive: bool,
    /// The networks as in the request: a list, or `auto` or `none`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) networks: Value,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) block_device_mapping_v2: Value,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) security_groups: Vec<String>,
    /// A random mark, new each time that other secrets are given: specifications that differ in
    /// nothing else are told apart by it. The secrets themselves are not here: see
    /// [`Spec::secrets`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secrets_mark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) access_ip_v4: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) access_ip_v6: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) trusted_image_certificates: Option<Vec<String>>,
    /// The disk configuration: `AUTO` or `MANUAL`.
    pub(crate) disk_config: String,
    // The fields that differ between the servers of a request come last: see `OWN`.
    /// The index among the servers of one request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) launch_index: u32,
    /// The host name that the guest is given.
    pub(crate) hostname: String,
}

/// The fields that differ between the servers of a request, as they end a body.
#[derive(Serialize)]
struct Own<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    launch_index: u32,
    hostname: &'a str,
}

/// The end of a body's common part, with these fields empty: it closes the server and the body.
const NO_OWN: &str = r#""hostname":""}}"#;

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Body {
    /// Parses the body of a specification that this API wrote.
    pub(crate) fn of(spec: &Spec) -> ApiResult<Self> {
        serde_json::from_str(&spec.body.text()).map_err(|error| {
            ApiError::new(
                500,
                format!("The record of the server cannot be read: {error}"),
            )
        })
    }

    /// Stores the body in a specification.
    pub(crate) fn put(&self, spec: &mut Spec) -> ApiResult<()> {
        spec.body = self.text()?.into();
        Ok(())
    }

    fn text(&self) -> ApiResult<String> {
        serde_json::to_string(self).map_err(not_written)
    }

    /// The common part of the bodies of all servers of a request, without the fields that differ.
    pub(crate) fn common(mut self) -> ApiResult<Arc<str>> {
        self.server.launch_index = 0;
        self.server.hostname.clear();
        let text = self.text()?;
        let common = text.strip_suffix(NO_OWN);
        common
            .map(Arc::from)
            .ok_or_else(|| ApiError::new(500, "The record of the servers cannot be taken apart."))
    }

    /// The remaining part of the body of one of them.
    pub(crate) fn own(launch_index: u32, hostname: &str) -> ApiResult<String> {
        let own = Own {
            launch_index,
            hostname,
        };
        let text = serde_json::to_string(&own).map_err(not_written)?;
        Ok(format!("{}}}", text.trim_start_matches('{')))
    }

    /// The body for a move: restrictions that applied only to the first placement are removed.
    pub(crate) fn for_move(mut self) -> Self {
        self.request.num_instances = 1;
        self.min_count = None;
        self.request.force_hosts.clear();
        self.request.force_nodes.clear();
        self.request.ignore_hosts.clear();
        self.request.requested_destination = None;
        self
    }
}

fn not_written(error: serde_json::Error) -> ApiError {
    ApiError::new(500, format!("The record cannot be written: {error}"))
}

/// The parts of a body that listings show; parsing only these is faster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Shown {
    pub(crate) request: ShownRequest,
    pub(crate) server: Server,
}

/// The parts of a request that listings show.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownRequest {
    pub(crate) flavor: ShownFlavor,
    pub(crate) availability_zone: Option<String>,
}

/// The parts of a flavor that a server shows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ShownFlavor {
    pub(crate) name: String,
    pub(crate) vcpus: u32,
    pub(crate) memory_mb: u32,
    pub(crate) root_gb: u32,
    pub(crate) ephemeral_gb: u32,
    pub(crate) swap_mb: u32,
    pub(crate) extra_specs: BTreeMap<String, String>,
}

impl Shown {
    /// Parses what can be shown of a specification; empty values if somebody else wrote it.
    pub(crate) fn of(spec: &Spec) -> Self {
        serde_json::from_str(&spec.body.text()).unwrap_or_default()
    }
}

/// A valid host name made from a server's name; none if nothing is left of it.
pub(crate) fn hostname(name: &str) -> Option<String> {
    let mut text = String::with_capacity(name.len());
    for letter in name.chars() {
        match letter {
            ' ' | '_' | '.' => text.push('-'),
            _ if letter.is_ascii_alphanumeric() || letter == '-' => {
                text.push(letter.to_ascii_lowercase());
            }
            _ => {}
        }
    }
    let text: String = text.trim_matches('-').chars().take(63).collect();
    let text = text.trim_end_matches('-');
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_two_parts_is_the_body() {
        let flavor = r#"{"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}"#;
        let mut body = Body {
            request: serde_json::from_str(flavor).unwrap(),
            min_count: Some(2),
            server: Server {
                flavor_id: "a".into(),
                description: Some(NO_OWN.into()),
                ..Server::default()
            },
        };
        let common = body.clone().common().unwrap();
        for (launch_index, hostname) in [(0, "a-1"), (7, "\"}}"), (1, "")] {
            body.server.launch_index = launch_index;
            body.server.hostname = hostname.to_owned();
            let own = Body::own(launch_index, hostname).unwrap();
            assert_eq!(format!("{common}{own}"), body.text().unwrap());
            assert_eq!(body.clone().common().unwrap(), common);
        }
    }

    #[test]
    fn host_names_are_made_of_names() {
        for (name, expected) in [
            ("My_Server.1", Some("my-server-1")),
            ("-a-", Some("a")),
            ("☃", None),
        ] {
            assert_eq!(hostname(name).as_deref(), expected, "{name}");
        }
        assert_eq!(hostname(&"x".repeat(99)).map(|text| text.len()), Some(63));
    }
}
