//! The data that all requests of the compute API share.

use std::sync::Arc;

use placewright_control::{ControlHandle, SchedulerHandle};
use placewright_http::Gateway;
use placewright_scheduler::translate::TranslateOptions;

use crate::images::Images;
use crate::options::{ComputeOptions, Limits};

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

    pub(crate) fn limits(&self) -> &Limits {
        &self.options.limits
    }
}
