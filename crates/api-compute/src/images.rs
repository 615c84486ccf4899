//! The properties of images, which restrict on which hosts servers can run.
//!
//! If control does not serve the image API, images belong to another service. An operator then provides the properties
//! that affect placement in a file, in the form in which the image service lists images (`GET /v2/images`):
//!
//! ```json
//! {"images": [{
//!   "id": "70ace000-0000-4000-8000-000000000001", "disk_format": "qcow2",
//!   "hw_architecture": "x86_64", "trait:HW_CPU_X86_AVX2": "required"
//! }]}
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use placewright_scheduler::image::{Image, ImageProperties};
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

use crate::operator_file::OperatorFile;

/// The keys of an image that are attributes of the image service. All other keys are properties.
const ATTRIBUTES: [&str; 24] = [
    "checksum",
    "container_format",
    "created_at",
    "direct_url",
    "file",
    "id",
    "locations",
    "min_disk",
    "min_ram",
    "name",
    "os_hash_algo",
    "os_hash_value",
    "os_hidden",
    "owner",
    "protected",
    "schema",
    "self",
    "size",
    "status",
    "stores",
    "tags",
    "updated_at",
    "virtual_size",
    "visibility",
];

/// Why a file of images cannot be used.
#[derive(Debug, Error)]
pub enum ImagesError {
    /// The file cannot be read.
    #[error("{path}: it cannot be read: {error}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The file is not a JSON list of images.
    #[error("{path}: it is no list of images: {error}")]
    Json {
        /// The path of the file.
        path: PathBuf,
        /// The error of the JSON parser.
        error: serde_json::Error,
    },
    /// A property of an image is not valid.
    #[error("{path}: image {id}: {why}")]
    Property {
        /// The path of the file.
        path: PathBuf,
        /// The id of the image.
        id: Uuid,
        /// The property and its error, in a sentence.
        why: String,
    },
}

/// The images in an operator's file, which is read again when it changes. Without a file, the properties of
/// all images are unknown.
#[derive(Debug, Default)]
pub struct Images {
    file: Option<OperatorFile<BTreeMap<Uuid, Image>, ImagesError>>,
}

/// The content of the file.
#[derive(Deserialize)]
struct ImageFile {
    images: Vec<ImageEntry>,
}

/// An image in the file. Its properties are in `properties`, or beside the attributes.
#[derive(Deserialize)]
struct ImageEntry {
    id: Uuid,
    name: Option<String>,
    disk_format: Option<String>,
    #[serde(default)]
    properties: BTreeMap<String, Value>,
    /// All other keys: attributes, and properties.
    #[serde(flatten)]
    other_keys: BTreeMap<String, Value>,
}

impl Images {
    /// Reads an operator's file of images. [`Self::refresh`] reads it again if it has changed.
    ///
    /// # Errors
    ///
    /// [`ImagesError`] when the file cannot be read or is not valid.
    pub fn load(path: PathBuf) -> Result<Self, ImagesError> {
        let file = OperatorFile::load(path, read)?;
        Ok(Self { file: Some(file) })
    }

    /// Whether [`Self::refresh`] would check the file for changes now.
    pub(crate) fn is_due(&self) -> bool {
        self.file.as_ref().is_some_and(OperatorFile::is_due)
    }

    /// Reads the file again if it has changed. Waits for the disk.
    pub(crate) fn refresh(&self) {
        if let Some(file) = &self.file {
            file.refresh();
        }
    }

    /// Finds an image with its properties; `None` if the file does not have the image.
    pub(crate) fn find(&self, id: &str) -> Option<Image> {
        let file = self.file.as_ref()?;
        let id = Uuid::try_parse(id).ok()?;
        file.look_up(|images| images.get(&id).cloned())
    }
}

fn read(path: &Path) -> Result<BTreeMap<Uuid, Image>, ImagesError> {
    let text = std::fs::read_to_string(path).map_err(|error| ImagesError::Read {
        path: path.to_owned(),
        error,
    })?;
    let file: ImageFile = serde_json::from_str(&text).map_err(|error| ImagesError::Json {
        path: path.to_owned(),
        error,
    })?;
    let images = file.images.into_iter().map(|entry| {
        let id = entry.id;
        let image = entry.into_image().map_err(|why| ImagesError::Property {
            path: path.to_owned(),
            id,
            why,
        });
        Ok((id, image?))
    });
    images.collect()
}

impl ImageEntry {
    fn into_image(self) -> Result<Image, String> {
        let other_keys = self.other_keys.into_iter();
        let top_level_properties =
            other_keys.filter(|(name, _)| !ATTRIBUTES.contains(&name.as_str()));
        // A null value means that the property is not set.
        let set_properties = top_level_properties
            .chain(self.properties)
            .filter(|(_, value)| !value.is_null());
        let properties_json = Value::Object(set_properties.collect());
        let properties: ImageProperties =
            serde_json::from_value(properties_json).map_err(|error| error.to_string())?;
        Ok(Image {
            id: Some(self.id.to_string()),
            name: self.name,
            disk_format: self.disk_format,
            properties,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "70ace000-0000-4000-8000-000000000001";

    fn write(path: &Path, image: &str) {
        let text = format!(r#"{{"images": [{{"id": "{ID}", {image}}}]}}"#);
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn properties_are_distinguished_from_attributes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.json");
        write(
            &path,
            r#""name": "a", "size": 7, "tags": [], "owner": null, "disk_format": "raw",
               "hw_architecture": "x86_64", "trait:HW_CPU_X86_AVX2": "required",
               "properties": {"os_distro": "debian"}"#,
        );
        let image = Images::load(path).unwrap().find(ID).unwrap();
        assert_eq!(image.disk_format.as_deref(), Some("raw"));
        assert_eq!(image.properties.get("hw_architecture"), Some("x86_64"));
        let names: Vec<_> = image.properties.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["hw_architecture", "os_distro"]);
        let traits: Vec<_> = image.properties.traits_required().collect();
        assert_eq!(traits, ["HW_CPU_X86_AVX2"]);
    }

    #[test]
    fn a_file_that_is_no_longer_valid_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.json");
        write(&path, r#""os_distro": "debian""#);
        let images = Images::load(path.clone()).unwrap();
        let find = || {
            images.file.as_ref().unwrap().check_next_time();
            images.refresh();
            let image = images.find(ID)?;
            image.properties.raw("os_distro").map(str::to_owned)
        };
        std::fs::write(&path, "no").unwrap();
        assert_eq!(find().as_deref(), Some("debian"));
        write(&path, r#""os_distro": "freebsd""#);
        assert_eq!(find().as_deref(), Some("freebsd"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(find().as_deref(), Some("freebsd"));
    }

    #[test]
    fn files_that_are_not_valid_are_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.json");
        let refusal_of = |path: &Path| Images::load(path.to_owned()).unwrap_err().to_string();
        assert!(refusal_of(&path).contains("cannot be read"));
        std::fs::write(&path, "{}").unwrap();
        assert!(refusal_of(&path).contains("missing field `images`"));
        write(&path, r#""hw_architecture": "abacus""#);
        let message = refusal_of(&path);
        assert!(
            message.contains(ID) && message.contains("hw_architecture"),
            "{message}"
        );
    }
}
