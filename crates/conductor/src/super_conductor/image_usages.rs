//! How many images each project has, and how large they are. Derived from the rows and never stored.

use std::collections::BTreeMap;

use super::image::Image;

/// The number of a project's images, and their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImageUsage {
    /// How many images the project has.
    pub count: u64,
    /// How many bytes the images have together.
    pub bytes: u64,
}

/// The usage of each project that has images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ImageUsages {
    projects: BTreeMap<String, ImageUsage>,
}

impl ImageUsages {
    /// The usage of a project.
    pub(super) fn of(&self, project: &str) -> ImageUsage {
        self.projects.get(project).copied().unwrap_or_default()
    }

    /// Updates the usages for the new content of an image's row.
    pub(super) fn update(&mut self, before: Option<&Image>, after: Option<&Image>) {
        let bytes = |image: &Image| image.content.as_ref().map_or(0, |content| content.size);
        if let Some(image) = before
            && let Some(usage) = self.projects.get_mut(&image.owner)
        {
            usage.count = usage.count.saturating_sub(1);
            usage.bytes = usage.bytes.saturating_sub(bytes(image));
            if usage.count == 0 {
                self.projects.remove(&image.owner);
            }
        }
        if let Some(image) = after {
            let usage = self.projects.entry(image.owner.clone()).or_default();
            usage.count += 1;
            usage.bytes = usage.bytes.saturating_add(bytes(image));
        }
    }
}
