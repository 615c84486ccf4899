//! Limits of the messages between agents and cells.

use placewright_conductor::cell_conductor::{Failure, Order};
use placewright_conductor::{Amounts, HardRule, Spec};
use placewright_link::{SessionStart, ToAgent, ToCell};
use placewright_placement::group::RuleScope;
use placewright_types::host_state::{
    HostFacts, HostReport, HostUpdate, InstanceReport, Metric, NumberedUpdate,
};

use super::{
    BODY_BYTES_MAX, FieldPath, LIST_MAX, LimitExceeded, NAME_BYTES_MAX, PARTS_MAX, TEXT_BYTES_MAX,
    TITLE_BYTES_MAX, Validate,
};

impl Validate for ToCell {
    fn check(&self, _: FieldPath<'_>) -> Result<(), LimitExceeded> {
        match self {
            Self::Started(start) => start.check(FieldPath::message("started")),
            Self::StepEnded {
                session, failure, ..
            } => {
                let at = FieldPath::message("step_ended");
                at.field("session").number(*session)?;
                let failure = failure.as_ref();
                failure.map_or(Ok(()), |one| one.check(at.field("failure")))
            }
            Self::Destroyed { .. } => Ok(()),
            Self::State { update, .. } => update.check(FieldPath::message("state")),
            Self::Alive { hosts } => {
                let at = FieldPath::message("alive");
                at.field("hosts").count(hosts.len(), LIST_MAX)
            }
        }
    }
}

impl Validate for SessionStart {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        at.field("name").text(&self.name, NAME_BYTES_MAX)?;
        at.field("session").session(self.session)?;
        at.field("guests").count(self.guests.len(), LIST_MAX)
    }
}

impl Validate for Failure {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        at.field("message").text(&self.message, TEXT_BYTES_MAX)
    }
}

impl Validate for NumberedUpdate {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        at.field("incarnation").session(self.incarnation)?;
        at.field("sequence").number(self.sequence)?;
        match &self.update {
            HostUpdate::Full(report) => report.check(at.field("full")),
            HostUpdate::Facts(facts) => facts.check(at.field("facts")),
            HostUpdate::Metrics(metrics) => at.field("metrics").each(metrics, PARTS_MAX),
            HostUpdate::InstanceCame(instance, _) => instance.check(at.field("instance_came")),
            HostUpdate::Disabled(reason) => at
                .field("disabled")
                .maybe_text(reason.as_deref(), TEXT_BYTES_MAX),
            HostUpdate::Load(_)
            | HostUpdate::InstanceWent(..)
            | HostUpdate::Alive
            | HostUpdate::ForcedDown(_)
            | HostUpdate::Gone => Ok(()),
        }
    }
}

impl Validate for HostReport {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        self.facts.check(at.field("facts"))?;
        at.field("metrics").each(&self.metrics, PARTS_MAX)?;
        at.field("instances").each(&self.instances, LIST_MAX)?;
        let disabled = self.disabled.as_deref();
        at.field("disabled").maybe_text(disabled, TEXT_BYTES_MAX)
    }
}

impl Validate for HostFacts {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let (names, platform) = (&self.names, &self.platform);
        for (field, text) in [
            ("service_host", Some(&names.service_host)),
            ("node", Some(&names.node)),
            ("ip", names.ip.as_ref()),
            ("hypervisor_hostname", names.hypervisor_hostname.as_ref()),
            ("hypervisor_type", platform.hypervisor_type.as_ref()),
        ] {
            let text = text.map(String::as_str);
            at.field(field).maybe_text(text, NAME_BYTES_MAX)?;
        }
        let cpu_info = platform.cpu_info.as_deref();
        at.field("cpu_info").maybe_text(cpu_info, TEXT_BYTES_MAX)?;
        let supported = at.field("supported_instances");
        supported.count(platform.supported_instances.len(), PARTS_MAX)?;
        for one in platform.supported_instances.iter().flatten() {
            supported.text(one, NAME_BYTES_MAX)?;
        }
        at.field("stats").pairs(self.stats.iter())
    }
}

impl FieldPath<'_> {
    fn pairs<'a>(
        &self,
        pairs: impl ExactSizeIterator<Item = (&'a String, &'a String)>,
    ) -> Result<(), LimitExceeded> {
        self.count(pairs.len(), PARTS_MAX)?;
        for (name, value) in pairs {
            self.text(name, NAME_BYTES_MAX)?;
            self.text(value, TEXT_BYTES_MAX)?;
        }
        Ok(())
    }
}

impl Validate for Metric {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        at.field("name").text(&self.name, NAME_BYTES_MAX)?;
        at.field("value").measure(self.value)
    }
}

impl Validate for InstanceReport {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let properties = at.field("image_properties");
        properties.pairs(self.image_properties.iter())
    }
}

impl Validate for ToAgent {
    fn check(&self, _: FieldPath<'_>) -> Result<(), LimitExceeded> {
        match self {
            Self::Step { session, order, .. } => {
                let at = FieldPath::message("step");
                at.field("session").number(*session)?;
                order.check(at)
            }
            Self::Destroy { session, .. } => {
                let at = FieldPath::message("destroy");
                at.field("session").number(*session)
            }
            Self::SendState { .. } => Ok(()),
            Self::StartAgain { after, .. } => {
                let at = FieldPath::message("start_again");
                at.field("after").after(*after)
            }
        }
    }
}

impl Validate for Order {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        self.spec.check(at.field("spec"))?;
        at.field("amounts").each(&self.amounts, PARTS_MAX)
    }
}

impl Validate for Spec {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        at.field("name").text(&self.name, TITLE_BYTES_MAX)?;
        at.field("project").text(&self.project, TITLE_BYTES_MAX)?;
        at.field("user").text(&self.user, TITLE_BYTES_MAX)?;
        at.field("rules").each(&self.rules, PARTS_MAX)?;
        at.field("body").bytes(self.body.len(), BODY_BYTES_MAX)?;
        at.field("created_at").time(self.created_at)?;
        let classes = self.usage.amounts().map_or(&[][..], |usage| &usage.classes);
        let at = at.field("usage");
        at.count(classes.len(), PARTS_MAX)?;
        let mut names = classes.iter().map(|(class, _)| class);
        names.try_for_each(|class| at.text(class, NAME_BYTES_MAX))
    }
}

impl Validate for HardRule {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        if let RuleScope::Level(level) = &self.rule.scope {
            at.field("level").text(level, NAME_BYTES_MAX)?;
        }
        at.field("others").count(self.others.len(), PARTS_MAX)
    }
}

impl Validate for Amounts {
    fn check(&self, at: FieldPath<'_>) -> Result<(), LimitExceeded> {
        let resources = at.field("resources");
        resources.count(self.resources.len(), PARTS_MAX)?;
        for (class, amount) in &self.resources {
            let class_at = resources.field("resource_class");
            class_at.text(class, NAME_BYTES_MAX)?;
            resources.field("amount").amount(*amount)?;
        }
        Ok(())
    }
}
