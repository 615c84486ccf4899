//! Who may do what: administrators may do everything, other services may check tokens and read roles, and every user
//! may do what concerns only that user.

use placewright_auth::Identity;
use placewright_conductor::accounts::ADMIN_ROLE;
use placewright_http::ApiResult;

use crate::call::Call;
use crate::error;

/// The role of other services of the cloud.
const SERVICE_ROLE: &str = "service";

fn has_role(identity: Option<&Identity>, role: &str) -> bool {
    identity.is_some_and(|identity| identity.roles().iter().any(|own| own == role))
}

impl Call<'_> {
    /// Whether the caller is an administrator.
    pub(crate) fn is_admin(&self) -> bool {
        has_role(self.identity, ADMIN_ROLE)
    }

    /// Refuses a caller that is not an administrator.
    pub(crate) fn require_admin(&self) -> ApiResult<()> {
        self.is_admin().then_some(()).ok_or_else(error::forbidden)
    }

    /// Refuses a caller that is neither an administrator nor another service.
    pub(crate) fn require_admin_or_service(&self) -> ApiResult<()> {
        let may = self.is_admin() || has_role(self.identity, SERVICE_ROLE);
        may.then_some(()).ok_or_else(error::forbidden)
    }

    /// Refuses a caller that is neither an administrator nor this user.
    pub(crate) fn require_admin_or_self(&self, user: &str) -> ApiResult<()> {
        let may = self.is_admin() || self.caller_id() == user;
        may.then_some(()).ok_or_else(error::forbidden)
    }
}
