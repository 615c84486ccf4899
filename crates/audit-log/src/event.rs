//! The event of one request, which becomes a line of the log.

use std::net::SocketAddr;
use std::time::SystemTime;

use crate::note::RequestNotes;

/// A request that was answered, or whose client closed the connection before the answer.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time at which the request was answered, or its connection closed.
    pub at: SystemTime,
    /// The service that got the request: an API such as `placement`, or `roles` for a role's gRPC server.
    pub service: &'static str,
    /// The HTTP method. Over gRPC, the refused step: the connection, the authentication or the call.
    pub method: String,
    /// The path of the route as in the API's documentation, with parameters in braces; none over gRPC.
    pub route: Option<&'static str>,
    /// The path of the request, without the query.
    pub path: String,
    /// The request id in the response.
    pub request_id: Option<String>,
    /// The id that the caller chose for several requests of one operation.
    pub global_request_id: Option<String>,
    /// The sender of the request.
    pub caller: Caller,
    /// Whether the request was carried out.
    pub outcome: Outcome,
    /// The status of the response, and the reason of a refusal.
    pub reason: Reason,
    /// The `Location` of the created object.
    pub location: Option<String>,
    /// The notes of the request's handler.
    pub noted: RequestNotes,
}

/// The sender of a request, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The id of the user.
    pub user: Option<String>,
    /// The project of the request.
    pub project: Option<String>,
    /// The domain of a request with domain scope.
    pub domain: Option<String>,
    /// `all` for a request with system scope.
    pub system: Option<String>,
    /// The roles of the user.
    pub roles: Vec<String>,
    /// The user of the service that forwarded the request.
    pub service_user: Option<String>,
    /// The authentication strategy that identified the caller.
    pub issuer: Option<&'static str>,
    /// The name in the caller's certificate.
    pub certificate: Option<String>,
    /// The address from which the request was sent.
    pub address: Option<SocketAddr>,
}

/// Whether a request was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request was carried out.
    Success,
    /// The request was refused, or failed.
    Failure,
    /// The client closed the connection before the response.
    Unknown,
}

/// The reason of an outcome.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The protocol of the code: `HTTP` or `gRPC`.
    pub kind: &'static str,
    /// The status of the response, if there was a response.
    pub code: Option<String>,
    /// The text of a refusal.
    pub text: Option<String>,
}
