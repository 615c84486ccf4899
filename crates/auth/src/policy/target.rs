//! The target of an operation, as far as policies refer to it.

use smallvec::SmallVec;

use crate::identity::Identity;

/// The values for the placeholders `%(name)s` of a policy.
///
/// A value that is `None` becomes the text `None`; a check with a placeholder that the target lacks
/// fails.
#[derive(Debug, Clone, Default)]
pub struct Target<'a> {
    values: SmallVec<[(&'a str, Option<&'a str>); 2]>,
}

impl<'a> Target<'a> {
    /// A target without any values.
    pub fn new() -> Self {
        Self::default()
    }

    /// The target of operations whose requests name no target: the caller's own project and user.
    pub fn own(identity: &'a Identity) -> Self {
        Self::new()
            .with("project_id", identity.project_id())
            .with("user_id", identity.user_id())
    }

    /// A target with a project and without a user. The project is `None` if the request names none, as `GET /usages`
    /// may.
    pub fn project(project_id: Option<&'a str>) -> Self {
        Self::new().with("project_id", project_id)
    }

    /// Adds a value for a placeholder.
    #[must_use]
    pub fn with(mut self, name: &'a str, value: Option<&'a str>) -> Self {
        self.values.push((name, value));
        self
    }

    /// The text for a placeholder; `None` if the target does not have it.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self
            .values
            .iter()
            .find(|(value_name, _)| *value_name == name)?;
        Some(value.unwrap_or("None"))
    }
}
