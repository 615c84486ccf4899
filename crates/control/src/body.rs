//! Reads the parts of an instance's specification that the scheduler needs.

use std::collections::HashMap;
use std::sync::Arc;

use placewright_conductor::SpecBody;
use placewright_records::server::RawRequest;
use placewright_scheduler::request::{RequestParseError, RequestSpec};

/// The most requests that are cached; many instances share one.
const CACHED_MAX: usize = 1024;
/// The most bytes of all cached requests.
const CACHED_BYTES_MAX: usize = 8 << 20;

/// The parsed body of a specification.
#[derive(Clone, Debug)]
pub(crate) struct ParsedBody {
    pub(crate) request: Arc<RequestSpec>,
    /// How many instances of the reservation must find a host; all of them if the body has no number.
    pub(crate) min_count: Option<usize>,
}

/// A parser of bodies with a cache, so that equal requests are parsed once.
#[derive(Debug, Default)]
pub(crate) struct BodyCache {
    /// The parsed requests, by the bytes that were parsed.
    cached: HashMap<Box<[u8]>, Arc<RequestSpec>>,
    /// How many bytes the keys of `cached` have together.
    cached_bytes: usize,
}

impl BodyCache {
    /// Parses a body; servers of one reservation share a request, which is parsed once.
    ///
    /// # Errors
    ///
    /// Names the field that is wrong.
    pub(crate) fn read(&mut self, body: &SpecBody) -> Result<ParsedBody, RequestParseError> {
        let raw = RawRequest::find(body)?;
        let min_count = raw.min_count.and_then(|count| usize::try_from(count).ok());
        if let Some(request) = self.cached.get(raw.bytes()) {
            return Ok(ParsedBody {
                request: Arc::clone(request),
                min_count,
            });
        }
        let request = Arc::new(raw.read()?);
        let length = raw.bytes().len();
        self.cached_bytes += length;
        if self.cached.len() >= CACHED_MAX || self.cached_bytes > CACHED_BYTES_MAX {
            self.cached.clear();
            self.cached_bytes = length;
        }
        self.cached.insert(raw.bytes().into(), Arc::clone(&request));
        Ok(ParsedBody { request, min_count })
    }
}

#[cfg(test)]
mod tests {
    use placewright_records::server;
    use placewright_types::flavor::Flavor;
    use placewright_types::server::ServerBody;

    use super::*;

    #[test]
    fn a_request_is_found_among_other_fields() {
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

    #[test]
    fn a_typed_request_is_read_once() {
        let mut body = ServerBody {
            request: RequestSpec::new(Flavor {
                vcpus: 3,
                ..Flavor::default()
            }),
            min_count: Some(2),
            ..ServerBody::default()
        };
        let mut bodies = BodyCache::default();
        let read = bodies.read(&server::write(&body)).unwrap();
        assert_eq!(*read.request, body.request);
        assert_eq!(read.min_count, Some(2));
        body.server.reservation_id = "another".to_owned();
        let again = bodies.read(&server::write(&body)).unwrap();
        assert!(Arc::ptr_eq(&read.request, &again.request));
    }
}
