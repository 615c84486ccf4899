//! Limits of the messages between agents and cells.

use std::time::SystemTime;

use placewright_conductor::cell_conductor::{Failure, Order};
use placewright_conductor::{Amounts, GroupMapping, HardRule, Spec};
use placewright_link::{SessionStart, ToAgent, ToCell};
use placewright_placement::group::RuleScope;
use placewright_types::host_state::NumberedUpdate;

use super::{
    BODY_BYTES_MAX, FieldPath, LIST_MAX, LimitExceeded, NAME_BYTES_MAX, PARTS_MAX, TEXT_BYTES_MAX,
    TITLE_BYTES_MAX, Validate,
};

/// The path that is passed is ignored: the paths in errors begin with the kind of the message.
impl Validate for ToCell {
    fn check(&self, _: FieldPath<'_>) -> Result<(), LimitExceeded> {
        match self {
            Self::Started(start) => start.check(FieldPath::message("started")),
            Self::StepEnded {
                session, failure, ..
            } => {
                let path = FieldPath::message("step_ended");
                path.field("session").check_number(*session)?;
                let failure = failure.as_ref();
                failure.map_or(Ok(()), |item| item.check(path.field("failure")))
            }
            Self::Destroyed { .. } => Ok(()),
            Self::State { update, .. } => update.check(FieldPath::message("state")),
            Self::Alive { hosts } => {
                let path = FieldPath::message("alive");
                path.field("hosts").check_count(hosts.len(), LIST_MAX)
            }
        }
    }
}

impl Validate for SessionStart {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("name").check_text(&self.name, NAME_BYTES_MAX)?;
        path.field("session").check_new_session(self.session)?;
        path.field("guests")
            .check_count(self.guests.len(), LIST_MAX)
    }
}

impl Validate for Failure {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("message")
            .check_text(&self.message, TEXT_BYTES_MAX)
    }
}

impl Validate for NumberedUpdate {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let checked = self.check_limits(SystemTime::now());
        checked.map_err(|error| LimitExceeded(format!("{path}.{error}")))
    }
}

/// The path that is passed is ignored: the paths in errors begin with the kind of the message.
impl Validate for ToAgent {
    fn check(&self, _: FieldPath<'_>) -> Result<(), LimitExceeded> {
        match self {
            Self::Step { session, order, .. } => {
                let path = FieldPath::message("step");
                path.field("session").check_number(*session)?;
                order.check(path)
            }
            Self::Destroy { session, .. } => {
                let path = FieldPath::message("destroy");
                path.field("session").check_number(*session)
            }
            Self::SendState { .. } => Ok(()),
            Self::StartAgain { after, .. } => {
                let path = FieldPath::message("start_again");
                path.field("after").check_earlier_session(*after)
            }
        }
    }
}

impl Validate for Order {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        self.spec.check(path.field("spec"))?;
        path.field("amounts").check_each(&self.amounts, PARTS_MAX)?;
        path.field("mappings").check_each(&self.mappings, PARTS_MAX)
    }
}

impl Validate for Spec {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("name").check_text(&self.name, TITLE_BYTES_MAX)?;
        path.field("project")
            .check_text(&self.project, TITLE_BYTES_MAX)?;
        path.field("user").check_text(&self.user, TITLE_BYTES_MAX)?;
        path.field("rules").check_each(&self.rules, PARTS_MAX)?;
        path.field("body")
            .check_bytes(self.body.len(), BODY_BYTES_MAX)?;
        // Sealed secrets never leave the role that has the key, so these fields have to be empty.
        path.field("build_secrets")
            .check_text(&self.build_secrets.text(), 0)?;
        path.field("secrets").check_text(&self.secrets.text(), 0)?;
        path.field("created_at").check_time(self.created_at)?;
        let classes = self.usage.amounts().map_or(&[][..], |usage| &usage.classes);
        let path = path.field("usage");
        path.check_count(classes.len(), PARTS_MAX)?;
        let mut names = classes.iter().map(|(class, _)| class);
        names.try_for_each(|class| path.check_text(class, NAME_BYTES_MAX))
    }
}

impl Validate for HardRule {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        if let RuleScope::Level(level) = &self.rule.scope {
            path.field("level").check_text(level, NAME_BYTES_MAX)?;
        }
        path.field("others")
            .check_count(self.others.len(), PARTS_MAX)
    }
}

impl Validate for GroupMapping {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        path.field("suffix")
            .check_text(&self.suffix, NAME_BYTES_MAX)?;
        path.field("providers")
            .check_each(&self.providers, PARTS_MAX)
    }
}

impl Validate for Amounts {
    fn check(&self, path: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let resources = path.field("resources");
        resources.check_count(self.resources.len(), PARTS_MAX)?;
        for (class, amount) in &self.resources {
            let class_path = resources.field("resource_class");
            class_path.check_text(class, NAME_BYTES_MAX)?;
            resources.field("amount").check_amount(*amount)?;
        }
        Ok(())
    }
}
