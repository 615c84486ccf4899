//! What a search is asked besides the request, and why none is made.

use placewright_placement::{ConsumerUuid, ProviderId, QueryRefusal};
use thiserror::Error;
use uuid::Uuid;

use crate::error::BadRequest;

/// The parameters of a search besides the request.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The instance that is placed.
    pub instance: Uuid,
    /// The number of hosts wanted.
    pub count: usize,
    /// If set, only hosts of this cell are considered.
    pub cell: Option<Uuid>,
    /// Hosts of these cells are excluded.
    pub without_cells: Vec<Uuid>,
    /// These slots are excluded, in any order.
    pub without: Vec<u32>,
    /// Other instances of the request that are about to be claimed together with this one, with
    /// their hosts: the hard rules of groups and topology hold beside them.
    pub placed: Vec<(ConsumerUuid, ProviderId)>,
}

/// Why no search is made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectRefusal {
    /// The request is invalid.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The request names a resource class or trait that does not exist.
    #[error(transparent)]
    Query(#[from] QueryRefusal),
}
