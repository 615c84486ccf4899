//! The HTTP services of Placewright.
//!
//! [`Service`] answers requests of the Placement REST API (microversions 1.0 to 1.39) and of
//! Placewright's own pages; it knows no sockets, so tests call [`Service::handle`]. [`Server`] puts
//! it on TCP. What a request changes goes through the engine as one command; what it reads is
//! computed from the state in memory. This crate decides nothing about resources: it validates
//! requests, and formats the decisions and the contents of the state.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use placewright_server::{HttpMetrics, Server, ServerOptions, Service};
//! # async fn run(
//! #     engine: placewright_engine::Engine<placewright_server::ControlMachine>,
//! #     authenticator: placewright_auth::Authenticator,
//! #     policy: placewright_auth::Policy,
//! # ) -> std::io::Result<()> {
//! let mut registry = prometheus_client::registry::Registry::default();
//! let metrics = HttpMetrics::new(&mut registry);
//! let options = ServerOptions::default();
//! let service =
//!     Service::new(options, engine, authenticator, policy, metrics, Arc::new(registry));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8778").await?;
//! Server::new(service).serve(listener, std::future::pending()).await;
//! # Ok(())
//! # }
//! ```

mod costly;
mod health;
mod http;
mod machine;
mod metrics;
mod options;
pub mod placer;
mod polls;
mod scheduler;
mod server;
mod wire;

pub use costly::{Caller, CostlyError, CostlyOptions, CostlyWork};
pub use health::{Health, Vital};
pub use http::body::{Body, Content};
pub use http::cors::Cors;
pub use http::door::Denied;
pub use http::microversion::{Microversion, VersionError};
pub use http::room::Held;
pub use http::service::{Audit, Exchange, RepairOptions, Service};
pub use machine::{ControlMachine, submit_placement};
pub use metrics::HttpMetrics;
pub use options::{CandidateOptions, ServerOptions};
pub use scheduler::ranker::{Explained, Moment, Ranker, cause_of, cause_of_claim};
pub use scheduler::{KeepOptions, SchedulerService};
pub use server::{HttpService, Server, Stopped, Successor};
