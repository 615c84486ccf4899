//! The levels of the topology that users see and may name in rules, and the names of their places.

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::group::Level;
use placewright_scheduler::request::TopologyRule;
use placewright_scheduler::request::group::HOST_LEVEL;
use serde_json::{Value, json};

use crate::options::VisibleTopology;
use crate::routed_request::RoutedRequest;

/// What one caller sees of the topology: what users see, or all of it.
pub(super) struct VisibleLevels<'a> {
    options: &'a VisibleTopology,
    /// Whether the caller sees every level and place, as administrators do.
    sees_all: bool,
}

impl<'a> VisibleLevels<'a> {
    pub(super) fn of(request: &'a RoutedRequest<'_>) -> Self {
        Self {
            options: request.api_state.visible_topology(),
            sees_all: request.is_allowed(Rule::TopologyListAll),
        }
    }

    fn has_level(&self, name: &str) -> bool {
        self.sees_all || self.options.shows_level(name)
    }

    fn has_places(&self, level: &str) -> bool {
        self.sees_all || self.options.shows_places(level)
    }

    /// Rejects a rule that names a level or a place that the caller does not see, whether the topology has it or not.
    pub(super) fn check(&self, rule: &TopologyRule, path: &dyn Fn() -> String) -> ApiResult<()> {
        let Some(level) = rule.level.as_deref().filter(|level| *level != HOST_LEVEL) else {
            return Ok(());
        };
        if !self.has_level(level) {
            let field = format!("{}.level", path());
            let message = "there is no such level that you may name: GET /v2.1/placewright/topology lists these";
            return Err(ApiError::field(&field, message));
        }
        if !rule.place.is_empty() && !self.has_places(level) {
            let field = format!("{}.place", path());
            let message = "you may not name places of this level";
            return Err(ApiError::field(&field, message));
        }
        Ok(())
    }

    fn level_json(&self, level: &Level) -> Option<Value> {
        if !self.has_level(&level.name) {
            return None;
        }
        let mut value = json!({"name": level.name});
        if self.has_places(&level.name) {
            let name = |uuid: &String| level.names.get(uuid).unwrap_or(uuid).clone();
            let mut places: Vec<String> = level.aggregates.iter().map(name).collect();
            places.sort_unstable();
            value["places"] = json!(places);
        }
        Some(value)
    }
}

/// Lists the levels that the caller sees, the smallest places first.
pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::TopologyList)?;
    let visible = VisibleLevels::of(request);
    let levels = request.read(|control, _| -> Vec<Value> {
        let levels = control.placement.levels().iter();
        levels
            .filter_map(|level| visible.level_json(level))
            .collect()
    });
    Reply::value(200, &json!({"topology": {"levels": levels.await}}))
}
