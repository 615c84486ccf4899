//! The data that all requests of the compute API share.

use std::sync::Arc;

use placewright_control::{ControlHandle, SchedulerHandle};
use placewright_http::Gateway;
use placewright_scheduler::translate::TranslateOptions;

use crate::images::Images;
use crate::options::{ComputeOptions, Limits, VisibleTopology};

/// The handles and options that all requests share.
pub(crate) struct ApiState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) control: ControlHandle,
    pub(crate) scheduler: SchedulerHandle,
    pub(crate) options: ComputeOptions,
}

impl ApiState {
    pub(crate) fn translate_options(&self) -> &TranslateOptions {
        &self.options.translate
    }

    pub(crate) fn images(&self) -> &Images {
        &self.options.images
    }

    /// Reads the operator's files again if they have changed. This has to be done before the handler reads control's
    /// state: other requests wait while a handler reads the state, and a disk may take long.
    pub(crate) async fn refresh_files(&self) {
        let (images, profiles) = (&self.options.images, &self.options.device_profiles);
        if !images.is_due() && !profiles.is_due() {
            return;
        }
        let (images, profiles) = (Arc::clone(images), Arc::clone(profiles));
        let refreshing = tokio::task::spawn_blocking(move || {
            images.refresh();
            profiles.refresh();
        });
        // If reading panics, what was read before stays in use.
        drop(refreshing.await);
    }

    pub(crate) fn visible_topology(&self) -> &VisibleTopology {
        &self.options.visible_topology
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.options.limits
    }
}
