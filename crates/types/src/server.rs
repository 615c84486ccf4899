//! The body of a server's specification: the request to the scheduler, and the fields of the request
//! to the compute API that the API shows or that drivers need.
//!
//! Stores and messages have it in the form that `placewright-records` declares. Drivers, and agents
//! that are connected over a network, get it as JSON: `{"request": …, "min_count": …, "server": …}`, without
//! `min_count` if it is `None`; `server` has the fields of [`ServerFields`] and [`OwnFields`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::request::RequestSpec;

/// The body of the specification of one server.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "JsonBody")]
pub struct ServerBody {
    /// The request for the scheduler.
    pub request: RequestSpec,
    /// The minimum number of servers of one request for which a host has to be found; `None` for all.
    pub min_count: Option<u32>,
    /// The fields that all servers of one request have in common.
    pub server: ServerFields,
    /// The fields that differ between the servers of one request.
    pub own: OwnFields,
}

/// The fields that all servers of one request have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerFields {
    /// The id of the flavor at the time of the request.
    pub flavor_id: String,
    /// The id of the image; `None` if the server boots from a volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The reservation id that all servers of one request share.
    pub reservation_id: String,
    /// The description that the owner chose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Metadata that the owner chose.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Tags that the owner chose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The name of the key pair.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_name: Option<String>,
    /// The public key with that name at the time of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_key: Option<String>,
    /// The user data in base 64, as in the request. It is a secret: it is in the clear only in messages
    /// between roles and for drivers. Stores have it sealed, outside of the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    /// Whether the guest gets its metadata and user data on a config drive.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub config_drive: bool,
    /// The networks that the guest is to be connected to; `None` if the request names none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networks: Option<Networks>,
    /// The block devices, in the format of `block_device_mapping_v2`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub block_device_mapping_v2: Vec<BlockDevice>,
    /// The names of the server's security groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<String>,
    /// The administrator's password. It is a secret, as the user data is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin_pass: Option<String>,
    /// The IPv4 address under which the server can be reached, as the owner declared it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_ip_v4: Option<String>,
    /// The IPv6 address under which the server can be reached, as the owner declared it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_ip_v6: Option<String>,
    /// The ids of the certificates with which the image's signature is verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted_image_certificates: Option<Vec<String>>,
    /// The disk configuration: `AUTO` or `MANUAL`.
    pub disk_config: String,
    /// A random value, renewed whenever the secrets change, so that two specifications that differ
    /// only in their sealed secrets are not equal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_mark: Option<String>,
    /// The id of the API request that created the server, `req-` and a UUID; `None` if an older release created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The span of the API request that created the server, as the header `traceparent` of W3C Trace Context; `None` if
    /// it is not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// The fields that differ between the servers of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnFields {
    /// The index among the servers of one request.
    #[serde(skip_serializing_if = "is_zero")]
    pub launch_index: u32,
    /// The host name that the guest is given.
    pub hostname: String,
}

/// The networks that a server was created with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Networks {
    /// A keyword in place of a list.
    Keyword(NetworksKeyword),
    /// These networks, in this order.
    List(Vec<NetworkRequest>),
}

/// A keyword in place of a list of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworksKeyword {
    /// The networks of the project.
    Auto,
    /// No network at all.
    None,
}

/// One requested network, each field as the owner wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkRequest {
    /// The UUID of the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The UUID of the port, if it exists already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// The IP address that the guest has to have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed_ip: Option<String>,
    /// The device tag by which the guest identifies the interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
}

/// A block device: scalar values by name, as the owner wrote them.
pub type BlockDevice = BTreeMap<String, ScalarValue>;

/// A JSON value that is neither an array nor an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ScalarValue {
    /// `true` or `false`, such as of `delete_on_termination`.
    Boolean(bool),
    /// An integer of 64 bits with a sign, such as of `volume_size`.
    Integer(i64),
    /// An integer that is too large for `i64`.
    Unsigned(u64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// A string, such as of `uuid`.
    Text(String),
    /// The JSON value `null`, which is not the same as an absent field.
    Null,
}

impl ScalarValue {
    /// The value, if it is a string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The structure of the JSON, in which common and own fields are in one object.
#[derive(Deserialize)]
struct JsonBody {
    request: RequestSpec,
    #[serde(default)]
    min_count: Option<u32>,
    #[serde(default)]
    server: JsonServer,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JsonServer {
    #[serde(flatten)]
    fields: ServerFields,
    #[serde(flatten)]
    own: OwnFields,
}

impl From<JsonBody> for ServerBody {
    fn from(body: JsonBody) -> Self {
        Self {
            request: body.request,
            min_count: body.min_count,
            server: body.server.fields,
            own: body.server.own,
        }
    }
}

impl Serialize for ServerBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            request: &'a RequestSpec,
            #[serde(skip_serializing_if = "Option::is_none")]
            min_count: Option<u32>,
            server: Server<'a>,
        }
        #[derive(Serialize)]
        struct Server<'a> {
            #[serde(flatten)]
            fields: &'a ServerFields,
            #[serde(flatten)]
            own: &'a OwnFields,
        }
        let body = Body {
            request: &self.request,
            min_count: self.min_count,
            server: Server {
                fields: &self.server,
                own: &self.own,
            },
        };
        body.serialize(serializer)
    }
}
