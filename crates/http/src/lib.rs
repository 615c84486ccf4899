//! The code that the REST services of Placewright share, from a socket to a routed request and back.
//!
//! - [`Server`] accepts connections and serves HTTP/1.1 on them; [`Health`] is the listener for health checks. A
//!   [`Successor`] takes over the idle connections of a server that stops.
//! - [`TlsAcceptor`] carries out the TLS handshakes of a listener; [`TlsSession`] has the parameters of a
//!   connection's TLS, which handlers find among the extensions of a request.
//! - [`Gateway`] has the checks and limits that every request passes: identity, policies, limits of bodies, of large
//!   responses and of costly work, admission control, CORS, metrics, and the access log.
//! - [`AdmissionControl`] decides which request runs next, so that each project gets a fair share.
//! - [`Api`] is the trait of a service: its routes, its handlers, and the form of its errors. [`handle`] is the
//!   dispatcher of all services: it takes a request through the gateway to a service and back.
//!
//! This crate knows no API's resources, and nothing of control's state or its handles.

mod access_log;
mod admission;
mod audit;
mod body;
mod cors;
mod costly;
mod date;
mod dispatch;
mod error;
mod gateway;
mod health;
mod health_source;
mod json_error;
mod large;
mod media;
mod memory_budget;
mod metrics;
mod options;
mod origin;
mod pages;
mod peer_watch;
mod percent;
mod polls;
mod query;
mod reply;
mod request_context;
mod request_id;
mod request_span;
mod server;
mod static_document;
mod streamed;
mod timed_stream;
mod tls;

pub mod json;

pub use admission::{AdmissionControl, LevelStatus};
pub use body::{Body, RequestBody};
pub use cors::Cors;
pub use costly::{Caller, CostlyError, CostlyExecutor, CostlyOptions, WorkLength};
pub use dispatch::{Access, Api, Cost, Routed, Running, handle};
pub use error::{ApiError, ApiResult, reason_phrase};
pub use gateway::{ConfirmFuture, Gateway};
pub use health::Health;
pub use health_source::{HealthSource, metrics_text};
pub use json_error::{json_error_body, keystone_error};
pub use large::{SMALL_RESPONSE_BYTES, pieces_of_list};
pub use media::{content_type, require_json};
pub use memory_budget::MemoryPermit;
pub use metrics::HttpMetrics;
pub use options::HttpOptions;
pub use origin::{authority, origin};
pub use peer_watch::PeerWatch;
pub use percent::{NotUtf8, decode_percent, latin1_path};
pub use placewright_admission::{AdmissionOptions, LaterWork};
pub use query::{Query, QueryError, Syntax};
pub use reply::Reply;
pub use request_context::RequestContext;
pub use server::{Client, HttpService, Responding, Server, Stopped, Successor};
pub use static_document::static_document;
pub use streamed::{BodySink, FileBody, SinkFuture};
pub use tls::{ListenerTlsMetrics, TlsAcceptor, TlsMetrics, TlsSession, scheme};
