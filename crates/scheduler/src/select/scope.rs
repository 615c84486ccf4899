//! The parameters of a search besides the request, and the reasons for refusing it.

use placewright_placement::{ConsumerUuid, ProviderId, QueryRefusal};
use thiserror::Error;
use uuid::Uuid;

use crate::error::BadRequest;

/// The parameters of a search besides the request.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// The instance for which hosts are searched.
    pub instance: Uuid,
    /// The maximum number of hosts to return.
    pub count: usize,
    /// If set, only hosts of this cell are considered.
    pub cell: Option<Uuid>,
    /// Cells whose hosts are excluded.
    pub excluded_cells: Vec<Uuid>,
    /// Slots of hosts that are excluded, in any order.
    pub excluded_slots: Vec<u32>,
    /// Other instances of the request that will be claimed together with this one, with their
    /// hosts. The hard rules of groups and topology compare with these instances, too.
    pub placed: Vec<(ConsumerUuid, ProviderId)>,
}

/// The reason why a search is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectRefusal {
    /// The request is invalid.
    #[error(transparent)]
    BadRequest(#[from] BadRequest),
    /// The query is invalid, for example because of an unknown resource class or trait.
    #[error(transparent)]
    Query(#[from] QueryRefusal),
}
