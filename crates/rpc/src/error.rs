//! Conversion between link errors and gRPC statuses.

use placewright_errors::{innermost, sources};
use placewright_link::LinkError;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// The metadata of a status which says that the called replica does not lead: the address of the one that does, or
/// nothing if that is not known. Releases that do not know this metadata treat the role as unreachable, and try again.
const LEADER_KEY: &str = "placewright-leader";

/// The status that a server returns for an error.
pub(crate) fn status(error: &LinkError) -> Status {
    match error {
        LinkError::Unreachable { why, .. } => Status::unavailable(why.clone()),
        LinkError::TimedOut { .. } => Status::deadline_exceeded(error.to_string()),
        LinkError::Unavailable { why, .. } => Status::aborted(why.clone()),
        LinkError::Refused { why, .. } => Status::failed_precondition(why.clone()),
        LinkError::NotLeading { leader, .. } => not_leading(leader.as_deref()),
    }
}

fn not_leading(leader: Option<&str>) -> Status {
    let mut metadata = MetadataMap::new();
    let leader = leader.and_then(|leader| MetadataValue::try_from(leader).ok());
    metadata.insert(LEADER_KEY, leader.unwrap_or(MetadataValue::from_static("")));
    let text = "this replica does not lead";
    Status::with_metadata(Code::Unavailable, text, metadata)
}

/// The error that a client reports for a status.
pub(crate) fn link_error(peer: &str, status: &Status) -> LinkError {
    let peer = peer.to_owned();
    if let Some(leader) = status.metadata().get(LEADER_KEY) {
        let leader = leader.to_str().ok().filter(|leader| !leader.is_empty());
        let leader = leader.map(str::to_owned);
        return LinkError::NotLeading { peer, leader };
    }
    let why = match (status.message(), std::error::Error::source(status)) {
        (message, Some(source)) => format!("{message}: {}", innermost(source)),
        ("", None) => status.code().description().to_owned(),
        (message, None) => message.to_owned(),
    };
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::Unknown | Code::Ok => {
            LinkError::Unreachable { peer, why }
        }
        Code::DeadlineExceeded => LinkError::TimedOut { peer },
        Code::Aborted | Code::ResourceExhausted | Code::Internal => {
            LinkError::Unavailable { peer, why }
        }
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::DataLoss
        | Code::Unauthenticated => LinkError::Refused { peer, why },
    }
}

/// Whether a call failed before any byte of it was sent, because its connection had been lost
/// unnoticed. Such a call can be retried safely.
pub(crate) fn was_never_sent(status: &Status) -> bool {
    let mut causes = sources(status).filter_map(|error| error.downcast_ref::<hyper::Error>());
    causes.any(hyper::Error::is_canceled)
}
