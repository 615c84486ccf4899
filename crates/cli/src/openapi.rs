//! `placewright openapi`: prints the document that a server serves at
//! `/placewright/v1/openapi.json`.

use clap::Args;
use http_body_util::BodyExt as _;
use placewright_api_placement::Microversion;
use placewright_control::ControlMachine;
use placewright_engine::{Engine, Options};
use placewright_journal::MemoryJournal;
use placewright_roles::{in_process, output};

/// Arguments of `placewright openapi`.
#[derive(Debug, Args)]
pub(crate) struct OpenApi {
    /// The microversion to describe [default: the newest]
    #[arg(long, value_name = "1.N", value_parser = microversion)]
    microversion: Option<Microversion>,
}

impl OpenApi {
    /// Prints the document that a service would serve, without starting one.
    ///
    /// # Errors
    ///
    /// A thread or the runtime cannot be started, or standard output cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let engine = Engine::<ControlMachine>::open(MemoryJournal::new(), Options::default(), ())?;
        let version = self.microversion.unwrap_or(Microversion::MAX);
        let uri = format!("/placewright/v1/openapi.json?microversion={version}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let service = in_process::service(engine)?;
        let text = runtime.block_on(async {
            let response = in_process::get(&service, &uri).await?;
            anyhow::Ok(response.into_body().collect().await?.to_bytes())
        })?;
        output::print(&format!("{}\n", String::from_utf8_lossy(&text)))
    }
}

/// Parses a microversion of the Placement API.
fn microversion(text: &str) -> Result<Microversion, String> {
    let minor = text.strip_prefix("1.").and_then(|minor| minor.parse().ok());
    minor
        .and_then(Microversion::from_minor)
        .ok_or_else(|| format!("allowed: {} to {}", Microversion::MIN, Microversion::MAX))
}
