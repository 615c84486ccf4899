//! The paths of the Image API, with their methods.

use hyper::Method;
use placewright_http::{ApiError, ApiResult, Cost};
use uuid::Uuid;

use crate::error;

/// A path of the Image API, without its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Versions,
    Images,
    Image,
    File,
    Tag,
    Members,
    Member,
    Schema,
    Imports,
    Usage,
}

impl Route {
    /// The path with its parameters in braces, as the documentation has it.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Versions => "/versions",
            Self::Images => "/v2/images",
            Self::Image => "/v2/images/{image_id}",
            Self::File => "/v2/images/{image_id}/file",
            Self::Tag => "/v2/images/{image_id}/tags/{tag}",
            Self::Members => "/v2/images/{image_id}/members",
            Self::Member => "/v2/images/{image_id}/members/{member_id}",
            Self::Schema => "/v2/schemas/{name}",
            Self::Imports => "/v2/info/import",
            Self::Usage => "/v2/info/usage",
        }
    }

    /// The methods of the path, as the header `Allow` names them.
    fn methods(self) -> &'static str {
        match self {
            Self::Versions | Self::Schema | Self::Imports | Self::Usage => "GET",
            Self::Images | Self::Members => "GET, POST",
            Self::Image => "DELETE, GET, PATCH",
            Self::File => "GET, PUT",
            Self::Tag => "DELETE, PUT",
            Self::Member => "DELETE, GET, PUT",
        }
    }

    /// Checks that the path has a method.
    ///
    /// # Errors
    ///
    /// 405 if the path does not have the method.
    pub(crate) fn check_method(self, method: &Method) -> ApiResult<()> {
        let methods = self.methods();
        if methods.split(", ").any(|known| known == method.as_str()) {
            return Ok(());
        }
        let detail = format!("{} takes {methods} only.", self.path());
        Err(ApiError::new(405, detail).with_allow(methods))
    }

    /// Whether a method of the path has a body.
    pub(crate) fn has_body(self, method: &Method) -> bool {
        match self {
            Self::Images | Self::Members => method == Method::POST,
            Self::Image => method == Method::PATCH,
            Self::File | Self::Member => method == Method::PUT,
            Self::Versions | Self::Tag | Self::Schema | Self::Imports | Self::Usage => false,
        }
    }

    /// Whether the cost of a method grows with the number of images, or only with the body.
    pub(crate) fn cost(self, method: &Method) -> Cost {
        match self {
            Self::Images if method == Method::GET => Cost::OfFleet,
            _ => Cost::OfBody,
        }
    }
}

/// A path of the Image API, after parsing.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) route: Route,
    /// The image in the path; nil if it has none.
    pub(crate) image: Uuid,
    /// The tag, member or schema in the path; empty if it has none.
    pub(crate) part: String,
}

impl Path {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// 404 if the API has no such path.
    pub(crate) fn parse(path: &str) -> ApiResult<Self> {
        // A path of the API has five segments at most. A longer one matches none below.
        let segments: Vec<&str> = path.trim_matches('/').split('/').take(7).collect();
        let (route, image, part) = match segments.as_slice() {
            ["" | "versions" | "v2"] => (Route::Versions, None, ""),
            ["v2", "images"] => (Route::Images, None, ""),
            ["v2", "images", image] => (Route::Image, Some(image), ""),
            ["v2", "images", image, "file"] => (Route::File, Some(image), ""),
            ["v2", "images", image, "tags", tag] => (Route::Tag, Some(image), *tag),
            ["v2", "images", image, "members"] => (Route::Members, Some(image), ""),
            ["v2", "images", image, "members", member] => (Route::Member, Some(image), *member),
            ["v2", "schemas", name] => (Route::Schema, None, *name),
            ["v2", "info", "import"] => (Route::Imports, None, ""),
            ["v2", "info", "usage"] => (Route::Usage, None, ""),
            _ => return Err(error::path_not_found()),
        };
        // The id of an image is a UUID. Clients try names in place of ids, and expect 404 if there is no such image.
        let image = image.map(|text| {
            Uuid::try_parse(text)
                .map_err(|_| ApiError::not_found(format!("There is no image {text:?}.")))
        });
        let part = placewright_http::decode_percent(part)
            .map_err(|_| ApiError::bad_request("The URL is not in UTF-8."))?;
        Ok(Self {
            route,
            image: image.transpose()?.unwrap_or_default(),
            part: part.into_owned(),
        })
    }
}
