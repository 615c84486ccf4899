//! What the log tells of one request.

use std::net::SocketAddr;
use std::time::SystemTime;

use crate::note::Noted;

/// A request that was answered.
#[derive(Clone, Debug)]
pub struct Event {
    /// When it was answered.
    pub at: SystemTime,
    /// The service that answered it: `placement`, `scheduler`, `compute`, or a role's gRPC server.
    pub service: &'static str,
    /// Its method; of gRPC, what was refused.
    pub method: String,
    /// The path of its route as in the documentation, with parameters in braces; none over gRPC.
    pub route: Option<&'static str>,
    /// Its path, without the query.
    pub path: String,
    /// The id that its answer carries.
    pub request_id: Option<String>,
    /// The id that the caller gave to all requests that belong together.
    pub global_request_id: Option<String>,
    /// Who sent it.
    pub caller: Caller,
    /// How it went.
    pub outcome: Outcome,
    /// Why it went so.
    pub reason: Reason,
    /// Where what was created is.
    pub location: Option<String>,
    /// What its handler noted.
    pub noted: Noted,
}

/// Who sent a request, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The id of the user.
    pub user: Option<String>,
    /// The project of the request.
    pub project: Option<String>,
    /// The domain of the request, if it is for one.
    pub domain: Option<String>,
    /// `all` for a request to the whole system.
    pub system: Option<String>,
    /// The roles of the user.
    pub roles: Vec<String>,
    /// The user of the service that forwarded the request.
    pub service_user: Option<String>,
    /// Who vouches for the caller: the strategy that identified it.
    pub issuer: Option<&'static str>,
    /// The name in the caller's certificate.
    pub certificate: Option<String>,
    /// Where it came from.
    pub address: Option<SocketAddr>,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out.
    Success,
    /// It was refused, or failed.
    Failure,
    /// Its client went away before there was an answer.
    Unknown,
}

/// Why a request went as it did.
#[derive(Clone, Debug)]
pub struct Reason {
    /// What the code belongs to: `HTTP` or `gRPC`.
    pub kind: &'static str,
    /// The status of the answer, if there was one.
    pub code: Option<String>,
    /// For people, if it was refused.
    pub text: Option<String>,
}
