//! What all requests of the compute API share.

use std::sync::Arc;

use placewright_control::{ControlHandle, SchedulerHandle};
use placewright_http::Gateway;
use placewright_scheduler::translate::TranslateOptions;

use crate::images::Images;
use crate::options::{ComputeOptions, Limits};

/// The data that all requests share.
pub(crate) struct ApiState {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) conductor: ControlHandle,
    pub(crate) ranker: SchedulerHandle,
    pub(crate) options: ComputeOptions,
}

impl ApiState {
    pub(crate) fn translate(&self) -> &TranslateOptions {
        &self.options.translate
    }

    pub(crate) fn images(&self) -> &Images {
        &self.options.images
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.options.limits
    }
}
