//! Functions that build etcd's requests and read its responses.

use prost::bytes::Bytes;

use crate::proto::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::proto::range_request::{SortOrder, SortTarget};
use crate::proto::request_op;
use crate::proto::response_op;
use crate::proto::{
    Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, RangeResponse, RequestOp,
    TxnRequest, TxnResponse,
};

/// Reads one key as it is now.
pub(crate) fn get(key: Bytes) -> RangeRequest {
    RangeRequest {
        key,
        ..RangeRequest::default()
    }
}

/// Reads up to `limit` keys from `from` on and before `until`; all of them if `limit` is 0.
pub(crate) fn range(from: Bytes, until: Bytes, limit: i64) -> RangeRequest {
    RangeRequest {
        key: from,
        range_end: until,
        limit,
        ..RangeRequest::default()
    }
}

/// As [`range`], without values.
pub(crate) fn keys(from: Bytes, until: Bytes, limit: i64) -> RangeRequest {
    RangeRequest {
        keys_only: true,
        ..range(from, until, limit)
    }
}

/// Reads the last key from `from` on and before `until`.
pub(crate) fn last(from: Bytes, until: Bytes) -> RangeRequest {
    RangeRequest {
        sort_order: SortOrder::Descend.into(),
        sort_target: SortTarget::Key.into(),
        ..range(from, until, 1)
    }
}

/// Counts the keys from `from` on and before `until`.
pub(crate) fn count(from: Bytes, until: Bytes) -> RangeRequest {
    RangeRequest {
        count_only: true,
        ..range(from, until, 0)
    }
}

/// The operation that reads.
pub(crate) fn read(range: RangeRequest) -> RequestOp {
    RequestOp {
        request: Some(request_op::Request::RequestRange(range)),
    }
}

/// The operation that writes a key.
pub(crate) fn put(key: Bytes, value: Bytes) -> RequestOp {
    let put = PutRequest {
        key,
        value,
        lease: 0,
    };
    RequestOp {
        request: Some(request_op::Request::RequestPut(put)),
    }
}

/// The operation that removes the keys from `from` on and before `until`.
pub(crate) fn delete(from: Bytes, until: Bytes) -> RequestOp {
    let delete = DeleteRangeRequest {
        key: from,
        range_end: until,
    };
    RequestOp {
        request: Some(request_op::Request::RequestDeleteRange(delete)),
    }
}

/// The condition that a key was last written at a revision. The revision 0 means that the key does not exist.
pub(crate) fn is_at(key: Bytes, mod_revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Mod.into(),
        key,
        target_union: Some(TargetUnion::ModRevision(mod_revision)),
    }
}

/// The condition that a key has a value.
pub(crate) fn has_value(key: Bytes, value: Bytes) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Value.into(),
        key,
        target_union: Some(TargetUnion::Value(value)),
    }
}

/// The condition that a key exists.
pub(crate) fn exists(key: Bytes) -> Compare {
    Compare {
        result: CompareResult::Greater.into(),
        target: CompareTarget::Create.into(),
        key,
        target_union: Some(TargetUnion::CreateRevision(0)),
    }
}

/// The transaction that carries out all operations at one revision, unconditionally.
pub(crate) fn all(success: Vec<RequestOp>) -> TxnRequest {
    TxnRequest {
        compare: Vec::new(),
        success,
        failure: Vec::new(),
    }
}

/// The revision of the store at which a transaction was made.
pub(crate) fn revision(response: &TxnResponse) -> i64 {
    response.header.map_or(0, |header| header.revision)
}

/// The results of a transaction's reads, in order. Operations that are no reads have no result here.
pub(crate) fn ranges(response: TxnResponse) -> impl Iterator<Item = RangeResponse> {
    response
        .responses
        .into_iter()
        .filter_map(|operation| match operation.response {
            Some(response_op::Response::ResponseRange(range)) => Some(range),
            Some(
                response_op::Response::ResponsePut(_)
                | response_op::Response::ResponseDeleteRange(_),
            )
            | None => None,
        })
}

/// The key with its value in the result of a read of at most one key; `None` if the key does not exist.
pub(crate) fn one(range: Option<RangeResponse>) -> Option<KeyValue> {
    range.and_then(|range| range.kvs.into_iter().next())
}
