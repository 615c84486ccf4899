//! Parts of the roles without sockets: the Placement API, for commands that print what a server would respond, and
//! replicas of control, for measurements.

use std::sync::Arc;

use anyhow::bail;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::{Request, Response};
use placewright_api_placement::{PlacementOptions, PlacementService};
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use placewright_control::{ClaimMetrics, ControlMachine, Placement};
use placewright_engine::Engine;
use placewright_http::{Body, Gateway, HttpMetrics, HttpOptions};
use prometheus_client::registry::Registry;

pub use crate::replica::ReplicasInProcess;

/// The gateway of the services, with the default options.
///
/// # Errors
///
/// The system has no random numbers.
pub fn gateway() -> anyhow::Result<Arc<Gateway>> {
    let authenticator = Authenticator::new(&AuthConfig::default())?;
    let (policy, _) = Policy::load(&PolicyConfig::default())?;
    let mut registry = Registry::default();
    let metrics = HttpMetrics::new(&mut registry);
    Ok(Arc::new(Gateway::new(
        HttpOptions::default(),
        authenticator,
        policy,
        metrics,
        Arc::new(registry),
    )))
}

/// The Placement API on this engine. Its change streams end when the service is dropped.
///
/// # Errors
///
/// The system has no random numbers.
pub fn service(engine: Engine<ControlMachine>) -> anyhow::Result<Arc<PlacementService>> {
    let placement = Placement::new(engine, ClaimMetrics::default());
    let service = PlacementService::new(gateway()?, placement, PlacementOptions::default());
    Ok(Arc::new(service))
}

/// Sends a GET request as an administrator: a path with its query.
///
/// # Errors
///
/// The response is not a success.
pub async fn get(service: &Arc<PlacementService>, uri: &str) -> anyhow::Result<Response<Body>> {
    let request = Request::get(uri)
        .header("x-auth-token", "admin")
        .body(Empty::<Bytes>::new())?;
    // The request did not come over a connection.
    let remote_address = None;
    let response = placewright_http::handle(service, request, remote_address).await;
    if !response.status().is_success() {
        bail!("{uri}: status {}", response.status());
    }
    Ok(response)
}
