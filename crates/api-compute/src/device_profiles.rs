//! The device profiles that flavors name with the extra spec `accel:device_profile`.
//!
//! Device profiles belong to the accelerator service, OpenStack's Cyborg. An operator provides them in a file, in the
//! form in which that service lists them (`GET /v2/device_profiles`):
//!
//! ```json
//! {"device_profiles": [{
//!   "name": "fpga", "groups": [{"resources:FPGA": "1", "trait:CUSTOM_FAST": "required"}]
//! }]}
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use placewright_http::{ApiError, ApiResult};
use placewright_scheduler::flavor::Flavor;
use placewright_scheduler::request::DeviceProfile;
use placewright_scheduler::translate::accelerator::DEVICE_PROFILE_KEY;
use placewright_types::request::DeviceGroup;
use serde::Deserialize;
use thiserror::Error;

use crate::operator_file::OperatorFile;

/// Why a file of device profiles cannot be used.
#[derive(Debug, Error)]
pub enum DeviceProfilesError {
    /// The file cannot be read.
    #[error("{path}: it cannot be read: {error}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// The file is not a JSON list of device profiles.
    #[error("{path}: it is no list of device profiles: {error}")]
    Json {
        /// The path of the file.
        path: PathBuf,
        /// The error of the JSON parser.
        error: serde_json::Error,
    },
    /// Two profiles have one name.
    #[error("{path}: there are two device profiles named {name:?}")]
    DuplicateName {
        /// The path of the file.
        path: PathBuf,
        /// The name that two profiles have.
        name: String,
    },
}

/// The device profiles of an operator's file, which is read again when it changes. Without a file there are none.
#[derive(Debug, Default)]
pub struct DeviceProfiles {
    file: Option<OperatorFile<ProfilesByName, DeviceProfilesError>>,
}

type ProfilesByName = BTreeMap<String, DeviceProfile>;

/// The content of the file.
#[derive(Deserialize)]
struct ProfileFile {
    device_profiles: Vec<ProfileEntry>,
}

/// A profile in the file. Its other keys are ignored.
#[derive(Deserialize)]
struct ProfileEntry {
    name: String,
    groups: Vec<DeviceGroup>,
}

impl DeviceProfiles {
    /// Reads an operator's file of device profiles. [`Self::refresh`] reads it again if it has changed.
    ///
    /// # Errors
    ///
    /// [`DeviceProfilesError`] when the file cannot be read or is not valid.
    pub fn load(path: PathBuf) -> Result<Self, DeviceProfilesError> {
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

    /// The device profile that a flavor names, if it names one. `field` is the field of the request that names the
    /// flavor.
    ///
    /// # Errors
    ///
    /// 400 when there is no such profile.
    pub(crate) fn of_flavor(&self, flavor: &Flavor, field: &str) -> ApiResult<Vec<DeviceProfile>> {
        let Some(name) = flavor.filled_extra_spec(DEVICE_PROFILE_KEY) else {
            return Ok(Vec::new());
        };
        let find = |profiles: &ProfilesByName| profiles.get(name).cloned();
        let found = self.file.as_ref().and_then(|file| file.look_up(find));
        match found {
            Some(profile) => Ok(vec![profile]),
            None => Err(ApiError::field(
                field,
                format!(
                    "its flavor names the device profile {name:?}, which is not in compute.device_profiles_file"
                ),
            )),
        }
    }
}

fn read(path: &Path) -> Result<ProfilesByName, DeviceProfilesError> {
    let text = std::fs::read_to_string(path).map_err(|error| DeviceProfilesError::Read {
        path: path.to_owned(),
        error,
    })?;
    let file: ProfileFile =
        serde_json::from_str(&text).map_err(|error| DeviceProfilesError::Json {
            path: path.to_owned(),
            error,
        })?;
    let mut profiles = ProfilesByName::new();
    for ProfileEntry { name, groups } in file.device_profiles {
        let profile = DeviceProfile {
            name: name.clone(),
            groups,
        };
        if profiles.insert(name.clone(), profile).is_some() {
            let path = path.to_owned();
            return Err(DeviceProfilesError::DuplicateName { path, name });
        }
    }
    Ok(profiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_as_the_accelerator_service_lists_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profiles.json");
        let profile = r#"{"uuid": "1", "name": "fpga", "links": [], "created_at": null,
            "groups": [{"resources:FPGA": "1", "trait:CUSTOM_FAST": "required"}]}"#;
        let text = |profiles: &str| format!(r#"{{"device_profiles": [{profiles}]}}"#);
        std::fs::write(&path, text(profile)).unwrap();
        let profiles = DeviceProfiles::load(path.clone()).unwrap();
        let mut flavor = Flavor::default();
        assert!(profiles.of_flavor(&flavor, "f").unwrap().is_empty());
        let extra_specs = &mut flavor.extra_specs;
        extra_specs.insert(DEVICE_PROFILE_KEY.into(), "fpga".into());
        let found = profiles.of_flavor(&flavor, "f").unwrap();
        assert_eq!(found[0].groups[0].properties["resources:FPGA"], "1");

        let refusal_of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            DeviceProfiles::load(path.clone()).unwrap_err().to_string()
        };
        let twice = refusal_of(&text(&format!("{profile}, {profile}")));
        assert!(twice.contains("two device profiles"), "{twice}");
        let wrong = refusal_of("{}");
        assert!(wrong.contains("missing field `device_profiles`"), "{wrong}");
    }
}
