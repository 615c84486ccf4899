//! `placewright openapi`: prints what a server would serve at `/placewright/v1/openapi.json`.

use std::sync::Arc;

use anyhow::bail;
use clap::Args;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use placewright_auth::{AuthConfig, Authenticator, Policy, PolicyConfig};
use placewright_engine::{Engine, Options};
use placewright_journal::MemoryJournal;
use placewright_server::{HttpMetrics, Microversion, Placement, ServerOptions, Service};
use prometheus_client::registry::Registry;

/// Which document.
#[derive(Debug, Args)]
pub(crate) struct OpenApi {
    /// The microversion that it describes [default: the newest]
    #[arg(long, value_name = "1.N", value_parser = microversion)]
    microversion: Option<Microversion>,
}

impl OpenApi {
    /// Asks a service without sockets and store.
    ///
    /// # Errors
    /// The system gives no threads, or standard output cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let engine = Engine::<Placement>::open(MemoryJournal::new(), Options::default(), ())?;
        let authenticator = Authenticator::new(&AuthConfig::default())?;
        let (policy, _) = Policy::load(&PolicyConfig::default())?;
        let mut registry = Registry::default();
        let metrics = HttpMetrics::new(&mut registry);
        let options = ServerOptions::default();
        let service = Service::new(
            options,
            engine,
            authenticator,
            policy,
            metrics,
            Arc::new(registry),
        );
        let version = self.microversion.unwrap_or(Microversion::MAX);
        let uri = format!("/placewright/v1/openapi.json?microversion={version}");
        let request = Request::get(uri).body(Empty::new())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (head, body) = runtime.block_on(async {
            let (head, body) = service.handle(request, None).await.into_parts();
            body.collect().await.map(|body| (head, body.to_bytes()))
        })?;
        let text = String::from_utf8_lossy(&body);
        if !head.status.is_success() {
            bail!("the service answered {}: {text}", head.status);
        }
        crate::print(&format!("{text}\n"))
    }
}

/// The microversion with this name.
fn microversion(text: &str) -> Result<Microversion, String> {
    let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
    minor
        .and_then(Microversion::from_minor)
        .ok_or_else(|| format!("allowed: {} to {}", Microversion::MIN, Microversion::MAX))
}
