//! The catalog of the installation's services, which clients get when they sign in.
//!
//! Each service besides the identity API has its line in `SERVICES`.

use std::net::SocketAddr;

use placewright_api_identity::{Catalog, CatalogEntry};

use super::api_servers::ApiServers;
use super::tls::Tls;
use crate::options::Options;

/// The services besides the identity API, in the order of the catalog: the section of the options, the type and name of
/// the service, and the path after its address.
const SERVICES: [(&str, &str, &str, &str); 5] = [
    ("compute", "compute", "placewright-compute", "/v2.1"),
    ("placement", "placement", "placewright-placement", ""),
    ("image", "image", "placewright-image", ""),
    ("network", "network", "placewright-network", ""),
    ("scheduler", "scheduler", "placewright-scheduler", ""),
];

/// The catalog of the services of this process. `identity` is the address of the identity API.
///
/// # Errors
///
/// The address of a socket cannot be read.
pub(super) fn catalog(
    options: &Options,
    tls: &Tls,
    identity: SocketAddr,
    apis: &ApiServers,
) -> std::io::Result<Catalog> {
    let mut entries = vec![CatalogEntry {
        service_type: "identity",
        name: "placewright",
        scheme: tls.scheme("identity"),
        port: identity.port(),
        path: "/v3",
        public_url: options.identity.public_url.clone(),
    }];
    for (section, service_type, name, path) in SERVICES {
        let Some(address) = apis.address(section)? else {
            continue;
        };
        let public_url = match section {
            "compute" => options.compute.public_url.clone(),
            "image" => options.image.public_url.clone(),
            "network" => options.network.public_url.clone(),
            _ => None,
        };
        entries.push(CatalogEntry {
            service_type,
            name,
            scheme: tls.scheme(section),
            port: address.port(),
            path,
            public_url,
        });
    }
    Ok(Catalog {
        region: options.identity.region.clone(),
        entries,
    })
}
