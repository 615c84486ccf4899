//! How requests of the page reach the other services of this process: the path `/ui/api/compute/v2.1/servers` stands
//! for `/v2.1/servers` of the compute API.

use hyper::header::HeaderMap;
use hyper::{Request, Uri};

/// The beginning of the paths of all requests that the page makes.
pub(crate) const API_PREFIX: &str = "/ui/api/";

/// Splits a path below [`API_PREFIX`] into its first part and the rest, which begins with a slash. If the part is the
/// section of a service, the request is for this service and the rest is the path there; otherwise it is the page's
/// own. `None` for other paths, and if nothing follows the first part.
pub(crate) fn target(path: &str) -> Option<(&str, &str)> {
    let rest = path.strip_prefix(API_PREFIX)?;
    let end = rest.find('/')?;
    Some(rest.split_at(end))
}

/// Gives a request the path and query that its service knows.
pub(crate) fn set_path<B>(request: &mut Request<B>, path: &str) {
    let text = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    // The rest of a valid path is valid, too, because it begins with a slash.
    if let Ok(uri) = Uri::try_from(text) {
        *request.uri_mut() = uri;
    }
}

/// Whether a browser says that a request does not come from a page of this origin: a page of another one caused it, or
/// the user entered its address. Browsers say so in a header that pages cannot change. Other clients do not send it.
pub(crate) fn is_from_elsewhere(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_the_name_of_their_service() {
        assert_eq!(
            target("/ui/api/compute/v2.1/servers"),
            Some(("compute", "/v2.1/servers"))
        );
        assert_eq!(target("/ui/api/fleet"), None);
        assert_eq!(target("/ui/main.js"), None);
        assert_eq!(target("/ui/api/compute//x"), Some(("compute", "//x")));
    }
}
