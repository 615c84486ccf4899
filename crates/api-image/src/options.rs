//! Options of the Image API.

/// Options of the Image API.
#[derive(Clone, Debug, Default)]
pub struct ImageOptions {
    /// Scheme and host under which clients reach the API, for the list of versions. If none, those of each request.
    pub public_url: Option<String>,
    /// Limits of images, projects and transfers.
    pub limits: Limits,
}

/// Limits of an image, a project or the process. The error of a request that exceeds one names its option, unless the
/// disk is too full (`free_bytes_min`).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Images of a project.
    pub images_max: u64,
    /// Bytes of all images of a project.
    pub project_bytes_max: u64,
    /// Bytes of one image.
    pub image_bytes_max: u64,
    /// Bytes that uploads leave free in the file system of the folder.
    pub free_bytes_min: u64,
    /// Uploads at the same time, and as many downloads. A project may have a quarter of each.
    pub transfers_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            images_max: 1000,
            project_bytes_max: 1 << 40,
            image_bytes_max: 1 << 38,
            free_bytes_min: 1 << 30,
            transfers_max: 64,
        }
    }
}

/// Bytes of a body that describes an image; that of an upload is limited by [`Limits::image_bytes_max`].
pub(crate) const BODY_BYTES_MAX: usize = 256 << 10;
/// Parameters of a query.
pub(crate) const PARAMETERS_MAX: usize = 64;
/// Properties of an image.
pub(crate) const PROPERTIES_MAX: usize = 128;
/// Bytes of all properties of an image, names and values together.
pub(crate) const PROPERTIES_BYTES_MAX: usize = 64 << 10;
/// Tags of an image.
pub(crate) const TAGS_MAX: usize = 128;
/// Members of an image.
pub(crate) const MEMBERS_MAX: usize = 128;
/// Characters of a name, a tag, a property's name or a project's id.
pub(crate) const NAME_CHARS_MAX: usize = 255;
