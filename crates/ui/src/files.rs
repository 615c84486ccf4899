//! The files of the page, which are part of the program.

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use placewright_http::Reply;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the page.
pub(crate) struct File {
    /// Its path below `/ui/`; empty for the page itself.
    path: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

macro_rules! files {
    ($($path:literal = $file:literal as $content_type:ident,)*) => {
        static FILES: &[File] = &[$(File {
            path: $path,
            content_type: $content_type,
            content: include_bytes!(concat!("../page/", $file)),
        },)*];
    };
}

files! {
    "" = "index.html" as HTML,
    "icon.svg" = "icon.svg" as SVG,
    "style.css" = "style.css" as CSS,
    "main.js" = "main.js" as SCRIPT,
    "texts.js" = "texts.js" as SCRIPT,
    "dom.js" = "dom.js" as SCRIPT,
    "api.js" = "api.js" as SCRIPT,
    "sign_in.js" = "sign_in.js" as SCRIPT,
    "stream.js" = "stream.js" as SCRIPT,
    "fleet_data.js" = "fleet_data.js" as SCRIPT,
    "fleet_picture.js" = "fleet_picture.js" as SCRIPT,
    "tiles.js" = "tiles.js" as SCRIPT,
    "pages/overview.js" = "pages/overview.js" as SCRIPT,
    "pages/fleet.js" = "pages/fleet.js" as SCRIPT,
    "pages/host.js" = "pages/host.js" as SCRIPT,
    "pages/why.js" = "pages/why.js" as SCRIPT,
    "pages/groups_then.js" = "pages/groups_then.js" as SCRIPT,
    "pages/capacity.js" = "pages/capacity.js" as SCRIPT,
    "pages/builds.js" = "pages/builds.js" as SCRIPT,
    "pages/servers.js" = "pages/servers.js" as SCRIPT,
    "pages/cells.js" = "pages/cells.js" as SCRIPT,
    "pages/time.js" = "pages/time.js" as SCRIPT,
    "pages/trace.js" = "pages/trace.js" as SCRIPT,
}

/// The entity tags (`ETag`) of the files, in the order of [`FILES`]. A browser asks with a tag whether a file has
/// changed.
static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let tag = |file: &File| {
        let digest = blake3::hash(file.content).to_hex();
        format!("\"{}\"", &digest.as_str()[..32])
    };
    FILES.iter().map(tag).collect()
});

impl File {
    /// The file at a path below `/ui/`; `None` if there is none.
    pub(crate) fn find(path: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.path == path)
    }

    fn tag(&self) -> &'static str {
        let tags = FILES.iter().zip(&*TAGS);
        let mut tags = tags.filter(|(file, _)| file.path == self.path);
        tags.next().map_or("", |(_, tag)| tag)
    }

    /// The response to a request with these headers: the file, or 304 if the browser has it.
    pub(crate) fn reply(&self, headers: &HeaderMap) -> Reply {
        let known = headers.get_all(header::IF_NONE_MATCH).iter();
        let mut known = known.filter_map(|value| value.to_str().ok());
        let is_known = known.any(|tags| {
            let mut tags = tags.split(',').map(str::trim);
            tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == self.tag())
        });
        let mut reply = match is_known {
            true => Reply::empty(304),
            false => Reply::text(200, self.content_type, Bytes::from_static(self.content)),
        };
        reply.no_cache = true;
        match HeaderValue::from_str(self.tag()) {
            Ok(tag) => reply.with_header(header::ETAG, tag),
            Err(_) => reply,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_far_below_their_bar_even_uncompressed() {
        let bytes: usize = FILES.iter().map(|file| file.content.len()).sum();
        assert!(bytes < 400_000, "{bytes}");
    }
}
