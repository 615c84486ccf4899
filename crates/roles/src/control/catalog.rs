//! The catalog of the installation's services: what clients learn when they sign in.
//!
//! A service that clients look for adds its entry here.

use std::net::SocketAddr;

use placewright_api_identity::{Catalog, CatalogEntry};

use super::tls::Tls;
use crate::options::Options;

/// The addresses on which the services of this process listen.
pub(super) struct ServiceAddresses {
    pub(super) identity: SocketAddr,
    pub(super) placement: SocketAddr,
    pub(super) scheduler: Option<SocketAddr>,
    pub(super) compute: Option<SocketAddr>,
}

/// The catalog of the services that listen on these addresses.
pub(super) fn catalog(options: &Options, tls: &Tls, addresses: &ServiceAddresses) -> Catalog {
    let entry = |section, service_type, name, address: SocketAddr, path| CatalogEntry {
        service_type,
        name,
        scheme: tls.scheme(section),
        port: address.port(),
        path,
        public_url: None,
    };
    let mut entries = vec![CatalogEntry {
        public_url: options.identity.public_url.clone(),
        ..entry(
            "identity",
            "identity",
            "placewright",
            addresses.identity,
            "/v3",
        )
    }];
    if let Some(address) = addresses.compute {
        entries.push(CatalogEntry {
            public_url: options.compute.public_url.clone(),
            ..entry(
                "compute",
                "compute",
                "placewright-compute",
                address,
                "/v2.1",
            )
        });
    }
    let placement = addresses.placement;
    entries.push(entry(
        "placement",
        "placement",
        "placewright-placement",
        placement,
        "",
    ));
    if let Some(address) = addresses.scheduler {
        entries.push(entry(
            "scheduler",
            "scheduler",
            "placewright-scheduler",
            address,
            "",
        ));
    }
    Catalog {
        region: options.identity.region.clone(),
        entries,
    }
}
