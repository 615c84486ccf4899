//! The service without sockets, for commands that print what a server would respond.

use std::sync::Arc;

use anyhow::bail;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::{Request, Response};
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use placewright_engine::Engine;
use placewright_server::{Body, ControlMachine, HttpMetrics, ServerOptions, Service};
use prometheus_client::registry::Registry;

/// A service on this engine. Its streams end when it is dropped.
///
/// # Errors
///
/// The system has no random numbers.
pub fn service(engine: Engine<ControlMachine>) -> anyhow::Result<Arc<Service>> {
    let authenticator = Authenticator::new(&AuthConfig::default())?;
    let (policy, _) = Policy::load(&PolicyConfig::default())?;
    let mut registry = Registry::default();
    let metrics = HttpMetrics::new(&mut registry);
    let options = ServerOptions::default();
    Ok(Arc::new(Service::new(
        options,
        engine,
        authenticator,
        policy,
        metrics,
        Arc::new(registry),
    )))
}

/// Sends a GET request as an administrator: a path with its query.
///
/// # Errors
///
/// The response is not a success.
pub async fn get(service: &Arc<Service>, uri: &str) -> anyhow::Result<Response<Body>> {
    let request = Request::get(uri)
        .header("x-auth-token", "admin")
        .body(Empty::<Bytes>::new())?;
    let response = service.handle(request, None).await;
    if !response.status().is_success() {
        bail!("{uri}: status {}", response.status());
    }
    Ok(response)
}
