//! Reads the parts of an instance's specification that the scheduler needs.

use std::collections::HashMap;
use std::sync::Arc;

use placewright_conductor::SharedText as SpecBody;
use placewright_scheduler::request::{self, RequestSpec, Unreadable};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The most requests that are cached; many instances share one.
const KEPT_MAX: usize = 1024;
/// The most bytes of all cached requests.
const KEPT_BYTES_MAX: usize = 8 << 20;

/// The parts of [`Spec::body`](placewright_conductor::Spec::body) that are needed here. Whoever
/// writes it may add anything else.
#[derive(Debug, Deserialize)]
struct Body<'a> {
    /// The request, as in `POST /v1/destinations`.
    #[serde(borrow)]
    request: &'a RawValue,
    /// How many instances of a reservation must find a host; if none, all.
    #[serde(default)]
    min_count: Option<usize>,
}

/// The parsed body of a specification.
#[derive(Clone, Debug)]
pub(crate) struct ParsedBody {
    pub(crate) request: Arc<RequestSpec>,
    pub(crate) min_count: Option<usize>,
}

/// A parser of bodies with a cache, so that equal requests are parsed once.
#[derive(Debug, Default)]
pub(crate) struct BodyCache {
    kept: HashMap<Box<str>, Arc<RequestSpec>>,
    bytes: usize,
}

impl BodyCache {
    /// Parses a body; servers of one reservation share a request, which is parsed once.
    ///
    /// # Errors
    ///
    /// Names the field that is wrong.
    pub(crate) fn read(&mut self, body: &SpecBody) -> Result<ParsedBody, Unreadable> {
        let text = body.text();
        let Body { request, min_count } =
            request::read(&mut serde_json::Deserializer::from_str(&text))?;
        if let Some(request) = self.kept.get(request.get()) {
            return Ok(ParsedBody {
                request: Arc::clone(request),
                min_count,
            });
        }
        let mut json = serde_json::Deserializer::from_str(request.get());
        let read: RequestSpec = request::read(&mut json).map_err(|error| Unreadable {
            field: format!("request.{}", error.field),
            message: error.message,
        })?;
        let read = Arc::new(read);
        self.bytes += request.get().len();
        if self.kept.len() >= KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            self.kept.clear();
            self.bytes = request.get().len();
        }
        self.kept.insert(request.get().into(), Arc::clone(&read));
        Ok(ParsedBody {
            request: read,
            min_count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_found_among_other_things() {
        let body = r#"{"server": {"name": "a"}, "min_count": 2,
            "request": {"flavor": {"vcpus": 1, "memory_mb": 512, "root_gb": 1}}}"#;
        let mut bodies = BodyCache::default();
        let read = bodies.read(&body.into()).unwrap();
        assert_eq!((read.request.flavor.vcpus, read.min_count), (1, Some(2)));
        let again = bodies.read(&body.into()).unwrap();
        assert!(Arc::ptr_eq(&read.request, &again.request));
        let wrong = r#"{"request": {"flavor": {"vcpus": "many", "memory_mb": 1, "root_gb": 1}}}"#;
        assert_eq!(
            bodies.read(&wrong.into()).unwrap_err().field,
            "request.flavor.vcpus"
        );
    }
}
