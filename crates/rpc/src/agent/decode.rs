//! Decodes messages of the agents' protocol, and checks them against the limits.

use placewright_conductor::cell_conductor::{Failure, GuestRef, Order, Step};
use placewright_conductor::{
    Amounts, GroupMapping, HardRule, HostId, InstanceId, SharedText, Spec, Usage,
};
use placewright_link::{SessionStart, ToAgent, ToCell};
use placewright_placement::Timestamp;
use placewright_placement::group::{Relation, Rule, RuleScope};
use placewright_types::host_state::{
    HostFacts, HostNames, HostReport, HostUpdate, InstanceReport, Load, Metric, NumberedUpdate,
};
use placewright_types::platform::Platform;
use tonic::Status;
use uuid::Uuid;

use crate::limits::{FieldPath, LimitExceeded, Validate as _};
use crate::proto::agent as proto;
use proto::agent_message::Kind as AgentKind;
use proto::cell_message::Kind as CellKind;
use proto::host_update::Update;

/// How many characters of an invalid UUID an error shows at most.
const SHOWN_CHARACTERS_MAX: usize = 60;

/// Decodes a message of an agent.
///
/// # Errors
///
/// The name of a field that is missing or not valid.
pub(super) fn to_cell(message: proto::AgentMessage) -> Result<ToCell, Status> {
    let kind = message.kind.ok_or_else(|| missing("kind"))?;
    let message = match kind {
        AgentKind::Started(start) => ToCell::Started(Box::new(session_start(start)?)),
        AgentKind::StepEnded(ended) => ToCell::StepEnded {
            host: host("step_ended.host", &ended.host)?,
            instance: instance("step_ended.instance", &ended.instance)?,
            session: ended.session,
            attempt: ended.attempt,
            failure: ended.failure.map(|failure| Failure {
                message: failure.message,
                may_retry: failure.may_retry,
            }),
        },
        AgentKind::Destroyed(destroyed) => ToCell::Destroyed {
            host: host("destroyed.host", &destroyed.host)?,
            instance: instance("destroyed.instance", &destroyed.instance)?,
            number: destroyed.number,
        },
        AgentKind::State(update) => ToCell::State {
            host: host("state.host", &update.host)?,
            update: Box::new(numbered_update(update)?),
        },
        AgentKind::Alive(alive) => {
            let hosts = alive.hosts.iter().map(|text| host("alive.hosts", text));
            ToCell::Alive {
                hosts: hosts.collect::<Result<_, _>>()?,
            }
        }
    };
    message.check(FieldPath::message("message"))?;
    Ok(message)
}

fn session_start(start: proto::Started) -> Result<SessionStart, Status> {
    let guests = start.guests.iter();
    let guests = guests.map(|guest| {
        let instance = instance("started.guests.instance", &guest.instance)?;
        Ok((instance, guest.number))
    });
    Ok(SessionStart {
        host: host("started.host", &start.host)?,
        guests: guests.collect::<Result<_, Status>>()?,
        name: start.name,
        session: start.session,
    })
}

fn numbered_update(numbered: proto::HostUpdate) -> Result<NumberedUpdate, Status> {
    let update = match numbered.update.ok_or_else(|| missing("state.update"))? {
        Update::Full(full) => HostUpdate::Full(Box::new(report(full)?)),
        Update::Alive(proto::Nothing {}) => HostUpdate::Alive,
        Update::Facts(changed) => HostUpdate::Facts(Box::new(facts(changed)?)),
        Update::Load(current) => HostUpdate::Load(load(&current)),
        Update::Metrics(list) => HostUpdate::Metrics(metrics(list.metrics)),
        Update::InstanceCame(came) => {
            let instance = came
                .instance
                .ok_or_else(|| missing("instance_came.instance"))?;
            let current_load = load(&came.load.unwrap_or_default());
            HostUpdate::InstanceCame(Box::new(instance_report(instance)?), current_load)
        }
        Update::InstanceWent(went) => {
            let instance = uuid("instance_went.instance", &went.instance)?;
            HostUpdate::InstanceWent(instance, load(&went.load.unwrap_or_default()))
        }
        Update::Disabled(disabled) => HostUpdate::Disabled(disabled.reason),
        Update::ForcedDown(is_down) => HostUpdate::ForcedDown(is_down),
        Update::Gone(proto::Nothing {}) => HostUpdate::Gone,
    };
    Ok(NumberedUpdate {
        incarnation: numbered.incarnation,
        sequence: numbered.sequence,
        update,
    })
}

fn report(message: proto::HostReport) -> Result<HostReport, Status> {
    let instances = message.instances.into_iter().map(instance_report);
    Ok(HostReport {
        facts: facts(message.facts.ok_or_else(|| missing("full.facts"))?)?,
        load: load(&message.load.unwrap_or_default()),
        metrics: metrics(message.metrics),
        instances: instances.collect::<Result<_, _>>()?,
        disabled: message.disabled,
        is_forced_down: message.forced_down,
    })
}

fn facts(message: proto::HostFacts) -> Result<HostFacts, Status> {
    let supported = message.supported_instances.into_iter();
    let supported =
        supported.map(|kind| [kind.architecture, kind.hypervisor_type, kind.machine_mode]);
    Ok(HostFacts {
        names: HostNames {
            service_host: message.service_host,
            node: message.node,
            cell: uuid("facts.cell", &message.cell)?,
            ip: message.ip,
            hypervisor_hostname: message.hypervisor_hostname,
        },
        platform: Platform {
            hypervisor_type: message.hypervisor_type,
            hypervisor_version: message.hypervisor_version,
            cpu_info: message.cpu_info,
            supported_instances: supported.collect(),
        },
        stats: message.stats.into_iter().collect(),
        service_version: message.service_version,
    })
}

fn load(message: &proto::Load) -> Load {
    Load {
        io_ops: message.io_ops,
        running_builds: message.running_builds,
        failed_builds: message.failed_builds,
    }
}

fn metrics(list: Vec<proto::Metric>) -> Vec<Metric> {
    let list = list.into_iter();
    let list = list.map(|proto::Metric { name, value }| Metric { name, value });
    list.collect()
}

fn instance_report(message: proto::InstanceReport) -> Result<InstanceReport, Status> {
    let group = message.group.as_deref();
    Ok(InstanceReport {
        uuid: uuid("instance.uuid", &message.uuid)?,
        group: group.map(|text| uuid("instance.group", text)).transpose()?,
        image_properties: message.image_properties.into_iter().collect(),
    })
}

/// Decodes a message of a cell; `None` if this release does not know its kind.
///
/// # Errors
///
/// The name of a field that is missing or not valid.
pub(super) fn to_agent(message: proto::CellMessage) -> Result<Option<ToAgent>, DecodeError> {
    let Some(kind) = message.kind else {
        return Ok(None);
    };
    let message = match kind {
        CellKind::Step(order) => return step(order),
        CellKind::Destroy(order) => ToAgent::Destroy {
            host: host("destroy.host", &order.host)?,
            session: order.session,
            instance: instance("destroy.instance", &order.instance)?,
            number: order.number,
        },
        CellKind::SendState(request) => ToAgent::SendState {
            host: host("send_state.host", &request.host)?,
        },
        CellKind::StartAgain(request) => ToAgent::StartAgain {
            host: host("start_again.host", &request.host)?,
            after: request.after,
        },
    };
    message.check(FieldPath::message("message"))?;
    Ok(Some(message))
}

/// Why a message of a cell was rejected. If the message is the order of a step with a host and an instance, there
/// is an answer that fails the step.
pub(super) struct DecodeError {
    pub(super) error: Status,
    pub(super) answer: Option<ToCell>,
}

impl From<Status> for DecodeError {
    fn from(error: Status) -> Self {
        Self {
            error,
            answer: None,
        }
    }
}

impl From<LimitExceeded> for DecodeError {
    fn from(exceeded: LimitExceeded) -> Self {
        Status::from(exceeded).into()
    }
}

/// Decodes the order of a step; `None` if this release does not know the step.
fn step(step_order: proto::StepOrder) -> Result<Option<ToAgent>, DecodeError> {
    let host = host("step.host", &step_order.host)?;
    let instance = instance("step.instance", &step_order.instance)?;
    let (session, attempt) = (step_order.session, step_order.attempt);
    let decoded = order(step_order).and_then(|order| {
        let Some(order) = order else { return Ok(None) };
        let order = Box::new(order);
        let step = ToAgent::Step {
            host,
            session,
            order,
        };
        step.check(FieldPath::message("message"))?;
        Ok(Some(step))
    });
    decoded.map_err(|error| {
        let failure = Failure {
            message: format!("The order makes no sense to the agent: {}", error.message()),
            may_retry: false,
        };
        let answer = Some(ToCell::StepEnded {
            host,
            instance,
            session,
            attempt,
            failure: Some(failure),
        });
        DecodeError { error, answer }
    })
}

/// The order of a step; `None` if this release does not know the step.
fn order(message: proto::StepOrder) -> Result<Option<Order>, Status> {
    let step = match message.step() {
        proto::Step::Unspecified => return Ok(None),
        proto::Step::Prepare => Step::Prepare,
        proto::Step::Leave => Step::Leave,
        proto::Step::Arrive => Step::Arrive,
        proto::Step::Return => Step::Return,
        proto::Step::Offload => Step::Offload,
        proto::Step::Rebuild => Step::Rebuild,
    };
    Ok(Some(Order {
        instance: instance("step.instance", &message.instance)?,
        attempt: message.attempt,
        step,
        guest_number: message.number,
        is_live: message.is_live,
        spec: spec(message.spec.ok_or_else(|| missing("step.spec"))?)?,
        amounts: message
            .amounts
            .into_iter()
            .map(|message| amounts("step.amounts.provider", message))
            .collect::<Result<_, _>>()?,
        origin: guest_ref("step.origin.host", message.origin)?,
        target: guest_ref("step.target.host", message.target)?,
        mappings: message
            .mappings
            .into_iter()
            .map(group_mapping)
            .collect::<Result<_, _>>()?,
    }))
}

fn guest_ref(field: &str, guest: Option<proto::Place>) -> Result<Option<GuestRef>, Status> {
    let guest_ref = guest.map(|guest| {
        Ok(GuestRef {
            host: host(field, &guest.host)?,
            number: guest.number,
        })
    });
    guest_ref.transpose()
}

fn spec(message: proto::Spec) -> Result<Spec, Status> {
    let group = message.group.as_deref();
    Ok(Spec {
        name: message.name,
        project: message.project,
        user: message.user,
        group: group.map(|text| uuid("spec.group", text)).transpose()?,
        rules: message
            .rules
            .into_iter()
            .map(rule)
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        // The body may contain secrets in the clear, which the driver needs, so the text is never logged.
        body: SharedText::hidden(message.body).into(),
        created_at: Timestamp(message.created_at_us),
        // These are not sent to agents.
        usage: Usage::default(),
        build_secrets: SharedText::default(),
        secrets: SharedText::default(),
    })
}

fn rule(message: proto::HardRule) -> Result<HardRule, Status> {
    let others = message
        .others
        .iter()
        .map(|text| uuid("spec.rules.others", text));
    Ok(HardRule {
        rule: Rule {
            scope: message.level.map_or(RuleScope::Host, RuleScope::Level),
            relation: match (message.fewer_than, message.max_skew) {
                (Some(count), _) => Relation::FewerThan(count),
                (None, Some(skew)) => Relation::Spread(skew),
                (None, None) => Relation::Same,
            },
        },
        others: others.collect::<Result<_, _>>()?,
    })
}

fn group_mapping(message: proto::GroupMapping) -> Result<GroupMapping, Status> {
    let providers = message.providers.into_iter();
    let providers = providers.map(|message| amounts("step.mappings.providers.provider", message));
    Ok(GroupMapping {
        suffix: message.suffix,
        providers: providers.collect::<Result<_, _>>()?,
    })
}

fn amounts(field: &str, message: proto::Amounts) -> Result<Amounts, Status> {
    let resources = message.resources.into_iter();
    let resources = resources.map(|resource| (resource.resource_class, resource.amount));
    Ok(Amounts {
        provider: uuid(field, &message.provider)?,
        resources: resources.collect(),
    })
}

fn uuid(field: &str, text: &str) -> Result<Uuid, Status> {
    Uuid::try_parse(text).map_err(|_| {
        let shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
        Status::invalid_argument(format!("{field}: {shown:?} is no UUID"))
    })
}

fn host(field: &str, text: &str) -> Result<HostId, Status> {
    uuid(field, text).map(HostId)
}

fn instance(field: &str, text: &str) -> Result<InstanceId, Status> {
    uuid(field, text).map(InstanceId)
}

fn missing(field: &str) -> Status {
    Status::invalid_argument(format!("{field} is missing"))
}
