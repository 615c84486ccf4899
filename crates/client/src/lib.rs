//! A client of Placewright's scheduler API, which `docs/scheduler-api.md` describes.
//!
//! ```no_run
//! # async fn place() -> Result<(), placewright_client::Error> {
//! use placewright_client::{Client, DestinationsRequest};
//! use placewright_types::request::RequestSpec;
//! use uuid::Uuid;
//!
//! let client = Client::new("http://127.0.0.1:8779", "admin")?;
//! let request: RequestSpec = serde_json::from_str(
//!     r#"{"flavor": {"vcpus": 4, "memory_mb": 8192, "root_gb": 20},
//!         "project_id": "b7c4", "user_id": "alice"}"#,
//! )?;
//! let instance = Uuid::from_u128(7);
//! let claim_request = DestinationsRequest::claim(request, vec![instance]).with_alternates(2);
//! let destinations = client.select(&claim_request).await?;
//! if let Some(selected) = &destinations.selections[0].selected {
//!     println!("{instance} goes to {}", selected.host);
//! }
//! # Ok(()) }
//! ```

mod address;
mod decisions;
mod error;
mod request;
mod response;

use std::collections::BTreeMap;
use std::time::Duration;

use placewright_types::host_state::NumberedUpdate;
use placewright_types::request::RequestSpec;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use uuid::Uuid;

pub use address::server_url;
pub use decisions::{
    DecidedHost, DecidedScore, DecidedSearch, Decision, Decisions, FallenHost, LeftCell,
    PlacementFault,
};
pub use error::{Code, Error, ErrorResponse};
pub use request::{DestinationsRequest, Minimum};
pub use response::{
    Aggregate, Aggregates, AllocationRequest, Allocations, Capacity, Claimed, Destinations,
    Distance, Exclusion, Explanation, Host, Hosts, InstanceResult, Level, LevelCapacity,
    LimitingFactor, PlaceCapacity, Receipt, RequestedHost, ScoredHost, Selection, Topology,
    WeigherContribution,
};

/// The time-out of a request.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client of the scheduler API. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Client {
    /// Creates a client for a scheduler's URL that authenticates with this token.
    ///
    /// # Errors
    ///
    /// [`Error::Transport`] when TLS cannot be set up.
    pub fn new(url: &str, token: &str) -> Result<Self, Error> {
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            // This fails only if another thread has installed a provider in the meantime. That provider serves as
            // well.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let http = reqwest::Client::builder()
            .timeout(TIMEOUT)
            // A redirect would send the token to another server.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            http,
            url: url.trim_end_matches('/').to_owned(),
            token: token.to_owned(),
        })
    }

    /// Selects hosts for instances, and claims them if the field `claim` of the request is true:
    /// `POST /v1/destinations`.
    ///
    /// # Errors
    ///
    /// [`Error`]; one with [`Code::NoCapacity`] has an explanation.
    pub async fn select(&self, request: &DestinationsRequest) -> Result<Destinations, Error> {
        self.send_json(Method::POST, "destinations", request).await
    }

    /// Counts how many more instances of a request would fit, where, and what stops the next one:
    /// `POST /v1/capacity`. With a limit, counting stops there.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn capacity(
        &self,
        request: &RequestSpec,
        limit: Option<usize>,
    ) -> Result<Capacity, Error> {
        let mut body = json!({"request": request});
        if let Some(limit) = limit {
            body["limit"] = json!(limit);
        }
        self.send_json(Method::POST, "capacity", &body).await
    }

    /// Why an instance that this installation builds is on its host, as it was recorded when the host was chosen: `GET
    /// /v1/decisions/{instance}`.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Code::NotFound`] if there is no such instance.
    pub async fn decisions(&self, instance: Uuid) -> Result<Decisions, Error> {
        self.get(&format!("decisions/{instance}")).await
    }

    /// Claims a candidate of an earlier response for a consumer without allocations. The consumer's
    /// project and user are those of the candidate's request.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Code::CandidateExpired`] when the candidate is too old.
    pub async fn claim(&self, consumer: Uuid, candidate: Uuid) -> Result<Claimed, Error> {
        let path = format!("claims/{consumer}");
        let body = json!({"candidate": candidate});
        self.send_json(Method::POST, &path, &body).await
    }

    /// Exchanges the allocations of a consumer for those of a candidate of an earlier response, in
    /// one step.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::claim`]. After [`Error::Refused`] the consumer has the allocations that it had before.
    pub async fn swap(&self, consumer: Uuid, candidate: Uuid) -> Result<Claimed, Error> {
        let path = format!("claims/{consumer}");
        let body = json!({"candidate": candidate});
        self.send_json(Method::PUT, &path, &body).await
    }

    /// Releases all allocations of a consumer.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Code::NotFound`] when the consumer has no allocations.
    pub async fn release(&self, consumer: Uuid) -> Result<(), Error> {
        let path = format!("claims/{consumer}");
        self.send_request(Method::DELETE, &path, None)
            .await
            .map(drop)
    }

    /// Lists a page of hosts: the first hosts, or those after the host `after`. For the next page,
    /// `after` is [`Hosts::next`].
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn hosts(&self, limit: usize, after: Option<Uuid>) -> Result<Hosts, Error> {
        let after_parameter = after.map_or_else(String::new, |after| format!("&after={after}"));
        self.get(&format!("hosts?limit={limit}{after_parameter}"))
            .await
    }

    /// Fetches the scheduler's state of a host, by the UUID of its root provider.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Code::NotFound`] when the scheduler has received no update of the host.
    pub async fn host(&self, uuid: Uuid) -> Result<Host, Error> {
        self.get(&format!("hosts/{uuid}")).await
    }

    /// Sends the next update of a host's soft state.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Code::Gap`] when an earlier update is missing. The caller has to send a full
    /// update then.
    pub async fn send_update(&self, host: Uuid, update: &NumberedUpdate) -> Result<Receipt, Error> {
        let path = format!("hosts/{host}/state");
        self.send_json(Method::POST, &path, update).await
    }

    /// Lists the host aggregates that have a name or metadata.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn aggregates(&self) -> Result<Aggregates, Error> {
        self.get("aggregates").await
    }

    /// Sets the name of a host aggregate, and its metadata, of which `availability_zone` is the zone.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn put_aggregate(
        &self,
        uuid: Uuid,
        name: &str,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        let body = json!({"name": name, "metadata": metadata});
        self.put(&format!("aggregates/{uuid}"), &body).await
    }

    /// Removes the name and metadata of a host aggregate. Its members stay, because placement has them.
    ///
    /// # Errors
    ///
    /// [`Error`]; [`Code::NotFound`] when the aggregate has no name or metadata.
    pub async fn remove_aggregate(&self, uuid: Uuid) -> Result<(), Error> {
        let path = format!("aggregates/{uuid}");
        self.send_request(Method::DELETE, &path, None)
            .await
            .map(drop)
    }

    /// Reads the topology: its levels, and the distances between places of one level.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn topology(&self) -> Result<Topology, Error> {
        self.get("topology").await
    }

    /// Replaces the topology: its levels and the distances.
    ///
    /// # Errors
    ///
    /// [`Error`].
    pub async fn put_topology(&self, topology: &Topology) -> Result<(), Error> {
        self.put("topology", topology).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let body = self.send_request(Method::GET, path, None).await?;
        Ok(serde_json::from_slice(&body)?)
    }

    async fn put(&self, path: &str, body: &impl Serialize) -> Result<(), Error> {
        let body = serde_json::to_vec(body)?;
        self.send_request(Method::PUT, path, Some(body))
            .await
            .map(drop)
    }

    async fn send_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body)?;
        let response_body = self.send_request(method, path, Some(body)).await?;
        Ok(serde_json::from_slice(&response_body)?)
    }

    /// Sends a request, with a body if one is given, and returns the body of the response. A response without success
    /// is an [`Error::Refused`].
    async fn send_request(
        &self,
        method: Method,
        path: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, Error> {
        let url = format!("{}/v1/{path}", self.url);
        let mut request = self.http.request(method, url);
        request = request.header("x-auth-token", &self.token);
        if let Some(body) = body {
            request = request
                .header("content-type", "application/json")
                .body(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let response_body = response.bytes().await?.to_vec();
        if (200..300).contains(&status) {
            Ok(response_body)
        } else {
            Err(Error::Refused(Box::new(ErrorResponse::decode(
                status,
                &response_body,
            ))))
        }
    }
}
