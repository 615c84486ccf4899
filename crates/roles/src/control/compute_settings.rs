//! The settings of the compute API besides its limits: the files of images and of device profiles, and what users see
//! of the topology.

use placewright_api_compute::{ALL_LEVELS, DeviceProfiles, Images, VisibleTopology};
use placewright_errors::chain;

use crate::config::ConfigErrors;
use crate::options::Options;

/// What was read or checked of the compute API's options at the start.
pub(super) struct ComputeSettings {
    pub(super) images: Images,
    pub(super) device_profiles: DeviceProfiles,
    pub(super) visible_topology: VisibleTopology,
}

impl ComputeSettings {
    /// Reads the options and the files that they name.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or `compute.topology_places` names a level that `compute.topology_levels` does not.
    pub(super) fn read(options: &Options) -> Result<Self, ConfigErrors> {
        let compute = &options.compute;
        let error = |option: &str, reason: &dyn std::error::Error| {
            ConfigErrors(vec![format!("compute.{option}: {}", chain(reason))])
        };
        let images = compute.images_file.clone().map(Images::load).transpose();
        let profiles = compute.device_profiles_file.clone();
        let profiles = profiles.map(DeviceProfiles::load).transpose();
        Ok(Self {
            images: images
                .map_err(|reason| error("images_file", &reason))?
                .unwrap_or_default(),
            device_profiles: profiles
                .map_err(|reason| error("device_profiles_file", &reason))?
                .unwrap_or_default(),
            visible_topology: read_visible_topology(options)?,
        })
    }
}

fn read_visible_topology(options: &Options) -> Result<VisibleTopology, ConfigErrors> {
    let visible = VisibleTopology {
        levels: options.compute.topology_levels.clone(),
        places: options.compute.topology_places.clone(),
    };
    let mut levels_with_places = visible.places.iter();
    match levels_with_places.find(|level| *level != ALL_LEVELS && !visible.shows_level(level)) {
        None => Ok(visible),
        Some(level) => Err(ConfigErrors(vec![format!(
            "compute.topology_places: {level:?} is not among compute.topology_levels"
        )])),
    }
}
