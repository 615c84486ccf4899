//! Decodes and validates messages of the agents' protocol.

use placewright_conductor::cell_conductor::{Failure, GuestRef, Order, Step};
use placewright_conductor::{Amounts, HardRule, HostId, InstanceId, SharedText, Spec, Usage};
use placewright_link::{SessionStart, ToAgent, ToCell};
use placewright_placement::Timestamp;
use placewright_placement::group::{Relation, Rule, RuleScope};
use placewright_types::host_state::{
    HostFacts, HostNames, HostReport, HostUpdate, InstanceReport, Load, Metric, NumberedUpdate,
};
use placewright_types::platform::Platform;
use tonic::Status;
use uuid::Uuid;

use crate::bounds::{FieldPath, LimitExceeded, Validate as _};
use crate::proto::agent as proto;
use proto::agent_message::Kind as AgentKind;
use proto::cell_message::Kind as CellKind;
use proto::host_update::Update;

/// Decodes a message of an agent.
///
/// # Errors
///
/// Names a field that is missing or not valid.
pub(super) fn to_cell(message: proto::AgentMessage) -> Result<ToCell, Status> {
    let kind = message.kind.ok_or_else(|| missing("kind"))?;
    let message = match kind {
        AgentKind::Started(one) => ToCell::Started(Box::new(started(one)?)),
        AgentKind::StepEnded(one) => ToCell::StepEnded {
            host: host("step_ended.host", &one.host)?,
            instance: instance("step_ended.instance", &one.instance)?,
            session: one.session,
            attempt: one.attempt,
            failure: one.failure.map(|failure| Failure {
                message: failure.message,
                may_retry: failure.may_retry,
            }),
        },
        AgentKind::Destroyed(one) => ToCell::Destroyed {
            host: host("destroyed.host", &one.host)?,
            instance: instance("destroyed.instance", &one.instance)?,
            number: one.number,
        },
        AgentKind::State(one) => ToCell::State {
            host: host("state.host", &one.host)?,
            update: Box::new(state(one)?),
        },
        AgentKind::Alive(one) => {
            let hosts = one.hosts.iter().map(|text| host("alive.hosts", text));
            ToCell::Alive {
                hosts: hosts.collect::<Result<_, _>>()?,
            }
        }
    };
    message.check(FieldPath::message("message"))?;
    Ok(message)
}

fn started(one: proto::Started) -> Result<SessionStart, Status> {
    let guests = one.guests.iter();
    let guests = guests.map(|guest| {
        let instance = instance("started.guests.instance", &guest.instance)?;
        Ok((instance, guest.number))
    });
    Ok(SessionStart {
        host: host("started.host", &one.host)?,
        guests: guests.collect::<Result<_, Status>>()?,
        name: one.name,
        session: one.session,
    })
}

fn state(one: proto::HostUpdate) -> Result<NumberedUpdate, Status> {
    let update = match one.update.ok_or_else(|| missing("state.update"))? {
        Update::Full(one) => HostUpdate::Full(Box::new(report(one)?)),
        Update::Alive(proto::Nothing {}) => HostUpdate::Alive,
        Update::Facts(one) => HostUpdate::Facts(Box::new(facts(one)?)),
        Update::Load(one) => HostUpdate::Load(load(&one)),
        Update::Metrics(one) => HostUpdate::Metrics(metrics(one.metrics)),
        Update::InstanceCame(one) => {
            let came = one
                .instance
                .ok_or_else(|| missing("instance_came.instance"))?;
            let now = load(&one.load.unwrap_or_default());
            HostUpdate::InstanceCame(Box::new(instance_report(came)?), now)
        }
        Update::InstanceWent(one) => {
            let went = uuid("instance_went.instance", &one.instance)?;
            HostUpdate::InstanceWent(went, load(&one.load.unwrap_or_default()))
        }
        Update::Disabled(one) => HostUpdate::Disabled(one.reason),
        Update::ForcedDown(is_down) => HostUpdate::ForcedDown(is_down),
        Update::Gone(proto::Nothing {}) => HostUpdate::Gone,
    };
    Ok(NumberedUpdate {
        incarnation: one.incarnation,
        sequence: one.sequence,
        update,
    })
}

fn report(one: proto::HostReport) -> Result<HostReport, Status> {
    let instances = one.instances.into_iter().map(instance_report);
    Ok(HostReport {
        facts: facts(one.facts.ok_or_else(|| missing("full.facts"))?)?,
        load: load(&one.load.unwrap_or_default()),
        metrics: metrics(one.metrics),
        instances: instances.collect::<Result<_, _>>()?,
        disabled: one.disabled,
        is_forced_down: one.forced_down,
    })
}

fn facts(one: proto::HostFacts) -> Result<HostFacts, Status> {
    let supported = one.supported_instances.into_iter();
    let supported = supported.map(|one| [one.architecture, one.hypervisor_type, one.machine_mode]);
    Ok(HostFacts {
        names: HostNames {
            service_host: one.service_host,
            node: one.node,
            cell: uuid("facts.cell", &one.cell)?,
            ip: one.ip,
            hypervisor_hostname: one.hypervisor_hostname,
        },
        platform: Platform {
            hypervisor_type: one.hypervisor_type,
            hypervisor_version: one.hypervisor_version,
            cpu_info: one.cpu_info,
            supported_instances: supported.collect(),
        },
        stats: one.stats.into_iter().collect(),
    })
}

fn load(one: &proto::Load) -> Load {
    Load {
        io_ops: one.io_ops,
        running_builds: one.running_builds,
        failed_builds: one.failed_builds,
    }
}

fn metrics(list: Vec<proto::Metric>) -> Vec<Metric> {
    let list = list.into_iter();
    let list = list.map(|proto::Metric { name, value }| Metric { name, value });
    list.collect()
}

fn instance_report(one: proto::InstanceReport) -> Result<InstanceReport, Status> {
    let group = one.group.as_deref();
    Ok(InstanceReport {
        uuid: uuid("instance.uuid", &one.uuid)?,
        group: group.map(|text| uuid("instance.group", text)).transpose()?,
        image_properties: one.image_properties.into_iter().collect(),
    })
}

/// Decodes a message of a cell; none if this release does not know its kind.
///
/// # Errors
///
/// Names a field that is missing or not valid.
pub(super) fn to_agent(message: proto::CellMessage) -> Result<Option<ToAgent>, DecodeError> {
    let Some(kind) = message.kind else {
        return Ok(None);
    };
    let message = match kind {
        CellKind::Step(one) => return step(one),
        CellKind::Destroy(one) => ToAgent::Destroy {
            host: host("destroy.host", &one.host)?,
            session: one.session,
            instance: instance("destroy.instance", &one.instance)?,
            number: one.number,
        },
        CellKind::SendState(one) => ToAgent::SendState {
            host: host("send_state.host", &one.host)?,
        },
        CellKind::StartAgain(one) => ToAgent::StartAgain {
            host: host("start_again.host", &one.host)?,
            after: one.after,
        },
    };
    message.check(FieldPath::message("message"))?;
    Ok(Some(message))
}

/// Why a cell's message was rejected, and the answer to it if the message is a step that says which
/// one.
pub(super) struct DecodeError {
    pub(super) why: Status,
    pub(super) answer: Option<ToCell>,
}

impl From<Status> for DecodeError {
    fn from(why: Status) -> Self {
        Self { why, answer: None }
    }
}

impl From<LimitExceeded> for DecodeError {
    fn from(absurd: LimitExceeded) -> Self {
        Status::from(absurd).into()
    }
}

fn step(one: proto::StepOrder) -> Result<Option<ToAgent>, DecodeError> {
    let host = host("step.host", &one.host)?;
    let instance = instance("step.instance", &one.instance)?;
    let (session, attempt) = (one.session, one.attempt);
    let checked = order(one).and_then(|order| {
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
    checked.map_err(|why| {
        let failure = Failure {
            message: format!("The order makes no sense to the agent: {}", why.message()),
            may_retry: false,
        };
        let answer = Some(ToCell::StepEnded {
            host,
            instance,
            session,
            attempt,
            failure: Some(failure),
        });
        DecodeError { why, answer }
    })
}

fn order(one: proto::StepOrder) -> Result<Option<Order>, Status> {
    let step = match one.step() {
        proto::Step::Unspecified => return Ok(None),
        proto::Step::Prepare => Step::Prepare,
        proto::Step::Leave => Step::Leave,
        proto::Step::Arrive => Step::Arrive,
        proto::Step::Return => Step::Return,
        proto::Step::Offload => Step::Offload,
        proto::Step::Rebuild => Step::Rebuild,
    };
    Ok(Some(Order {
        instance: instance("step.instance", &one.instance)?,
        attempt: one.attempt,
        step,
        number: one.number,
        is_live: one.is_live,
        spec: spec(one.spec.ok_or_else(|| missing("step.spec"))?)?,
        amounts: one
            .amounts
            .into_iter()
            .map(amounts)
            .collect::<Result<_, _>>()?,
        origin: place("step.origin.host", one.origin)?,
        target: place("step.target.host", one.target)?,
    }))
}

fn place(field: &str, one: Option<proto::Place>) -> Result<Option<GuestRef>, Status> {
    let place = one.map(|one| {
        Ok(GuestRef {
            host: host(field, &one.host)?,
            number: one.number,
        })
    });
    place.transpose()
}

fn spec(one: proto::Spec) -> Result<Spec, Status> {
    let group = one.group.as_deref();
    Ok(Spec {
        name: one.name,
        project: one.project,
        user: one.user,
        group: group.map(|text| uuid("spec.group", text)).transpose()?,
        rules: one
            .rules
            .into_iter()
            .map(rule)
            .collect::<Result<Vec<_>, _>>()?
            .into(),
        // It may have secrets in the clear, for the driver.
        body: SharedText::hidden(one.body).into(),
        created_at: Timestamp(one.created_at_us),
        usage: Usage::default(),
        build_secrets: SharedText::default(),
        secrets: SharedText::default(),
    })
}

fn rule(one: proto::HardRule) -> Result<HardRule, Status> {
    let others = one
        .others
        .iter()
        .map(|text| uuid("spec.rules.others", text));
    Ok(HardRule {
        rule: Rule {
            scope: one.level.map_or(RuleScope::Host, RuleScope::Level),
            relation: match (one.fewer_than, one.max_skew) {
                (Some(count), _) => Relation::FewerThan(count),
                (None, Some(skew)) => Relation::Spread(skew),
                (None, None) => Relation::Same,
            },
        },
        others: others.collect::<Result<_, _>>()?,
    })
}

fn amounts(one: proto::Amounts) -> Result<Amounts, Status> {
    let resources = one.resources.into_iter();
    let resources = resources.map(|one| (one.resource_class, one.amount));
    Ok(Amounts {
        provider: uuid("step.amounts.provider", &one.provider)?,
        resources: resources.collect(),
    })
}

fn uuid(field: &str, text: &str) -> Result<Uuid, Status> {
    Uuid::try_parse(text).map_err(|_| {
        let shown: String = text.chars().take(60).collect();
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
