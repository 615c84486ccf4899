//! The catalog: which services the installation has, and where clients reach them.

use serde_json::{Value, json};

/// The interfaces of an endpoint. All have the same address, because there is one network.
const INTERFACES: [&str; 3] = ["public", "internal", "admin"];

/// A service of the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogEntry {
    /// The type by which clients look for the service, such as `compute`.
    pub service_type: &'static str,
    /// The name that people see.
    pub name: &'static str,
    /// `http` or `https`; not used if there is a `public_url`.
    pub scheme: &'static str,
    /// The service's port, on the host by which the client reaches the identity API; not used if there is a
    /// `public_url`.
    pub port: u16,
    /// The path of the API, such as `/v2.1`; may be empty.
    pub path: &'static str,
    /// Scheme and host that clients use, if they differ from those of the identity API.
    pub public_url: Option<String>,
}

/// The services of an installation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// The name of the only region.
    pub region: String,
    /// The services, in the order in which they are listed.
    pub entries: Vec<CatalogEntry>,
}

impl CatalogEntry {
    /// The address for a client that reaches the identity API by a host's name or address.
    fn url(&self, host: &str) -> String {
        match &self.public_url {
            Some(url) => format!("{}{}", url.trim_end_matches('/'), self.path),
            None => format!("{}://{host}:{}{}", self.scheme, self.port, self.path),
        }
    }

    /// The id of one of the service's endpoints.
    fn endpoint_id(&self, interface: &str) -> String {
        format!("{}-{interface}", self.service_type)
    }
}

impl Catalog {
    /// The catalog as tokens contain it.
    pub(crate) fn in_token(&self, host: &str) -> Value {
        let entries = self.entries.iter().map(|entry| {
            let endpoints = INTERFACES.map(|interface| {
                json!({
                    "id": entry.endpoint_id(interface),
                    "interface": interface,
                    "region": self.region,
                    "region_id": self.region,
                    "url": entry.url(host),
                })
            });
            json!({
                "id": entry.service_type,
                "type": entry.service_type,
                "name": entry.name,
                "endpoints": endpoints,
            })
        });
        entries.collect()
    }

    /// All services as objects of the API.
    pub(crate) fn services(&self, origin: &str) -> Vec<Value> {
        let entries = self.entries.iter().map(|entry| {
            let id = entry.service_type;
            json!({
                "id": id,
                "type": id,
                "name": entry.name,
                "description": "",
                "enabled": true,
                "links": {"self": format!("{origin}/v3/services/{id}")},
            })
        });
        entries.collect()
    }

    /// All endpoints as objects of the API.
    pub(crate) fn endpoints(&self, origin: &str, host: &str) -> Vec<Value> {
        let endpoint = |entry: &CatalogEntry, interface: &str| {
            let id = entry.endpoint_id(interface);
            json!({
                "id": id,
                "interface": interface,
                "service_id": entry.service_type,
                "region": self.region,
                "region_id": self.region,
                "enabled": true,
                "url": entry.url(host),
                "links": {"self": format!("{origin}/v3/endpoints/{id}")},
            })
        };
        let entries = self.entries.iter();
        entries
            .flat_map(|entry| INTERFACES.map(|interface| endpoint(entry, interface)))
            .collect()
    }

    /// The only region as an object of the API.
    pub(crate) fn region(&self, origin: &str) -> Value {
        let id = &self.region;
        json!({
            "id": id,
            "description": "",
            "parent_region_id": null,
            "links": {"self": format!("{origin}/v3/regions/{id}")},
        })
    }
}
