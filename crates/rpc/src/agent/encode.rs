//! Encodes messages of the agents' protocol.

use placewright_conductor::cell_conductor::{GuestRef, Order, Step};
use placewright_conductor::{Amounts, GroupMapping, HardRule, Spec};
use placewright_link::{ToAgent, ToCell};
use placewright_placement::group::{Relation, RuleScope};
use placewright_types::host_state::{
    HostFacts, HostReport, HostUpdate, InstanceReport, Load, Metric, NumberedUpdate,
};

use crate::limits::{TEXT_BYTES_MAX, truncate_text};
use crate::proto::agent as proto;
use proto::agent_message::Kind as AgentKind;
use proto::cell_message::Kind as CellKind;
use proto::host_update::Update;

pub(super) fn to_cell(message: ToCell) -> proto::AgentMessage {
    let kind = match message {
        ToCell::Started(start) => AgentKind::Started(proto::Started {
            host: start.host.to_string(),
            name: start.name,
            session: start.session,
            guests: start
                .guests
                .into_iter()
                .map(|(instance, number)| proto::Guest {
                    instance: instance.to_string(),
                    number,
                })
                .collect(),
        }),
        ToCell::StepEnded {
            host,
            instance,
            session,
            attempt,
            failure,
        } => AgentKind::StepEnded(proto::StepEnded {
            host: host.to_string(),
            instance: instance.to_string(),
            session,
            attempt,
            failure: failure.map(|mut failure| {
                truncate_text(&mut failure.message, TEXT_BYTES_MAX);
                proto::Failure {
                    message: failure.message,
                    may_retry: failure.may_retry,
                }
            }),
        }),
        ToCell::Destroyed {
            host,
            instance,
            number,
        } => AgentKind::Destroyed(proto::Destroyed {
            host: host.to_string(),
            instance: instance.to_string(),
            number,
        }),
        ToCell::State { host, update } => AgentKind::State(state(host.to_string(), *update)),
        ToCell::Alive { hosts } => AgentKind::Alive(proto::Alive {
            hosts: hosts.iter().map(ToString::to_string).collect(),
        }),
    };
    proto::AgentMessage { kind: Some(kind) }
}

fn state(host: String, numbered: NumberedUpdate) -> proto::HostUpdate {
    let update = match numbered.update {
        HostUpdate::Full(full) => Update::Full(report(*full)),
        HostUpdate::Alive => Update::Alive(proto::Nothing {}),
        HostUpdate::Facts(changed) => Update::Facts(facts(*changed)),
        HostUpdate::Load(current) => Update::Load(load(current)),
        HostUpdate::Metrics(list) => Update::Metrics(proto::Metrics {
            metrics: metrics(list),
        }),
        HostUpdate::InstanceCame(instance, current_load) => {
            Update::InstanceCame(proto::InstanceCame {
                instance: Some(instance_report(*instance)),
                load: Some(load(current_load)),
            })
        }
        HostUpdate::InstanceWent(instance, current_load) => {
            Update::InstanceWent(proto::InstanceWent {
                instance: instance.to_string(),
                load: Some(load(current_load)),
            })
        }
        HostUpdate::Disabled(reason) => Update::Disabled(proto::Disabled { reason }),
        HostUpdate::ForcedDown(is_down) => Update::ForcedDown(is_down),
        HostUpdate::Gone => Update::Gone(proto::Nothing {}),
    };
    proto::HostUpdate {
        host,
        incarnation: numbered.incarnation,
        sequence: numbered.sequence,
        update: Some(update),
    }
}

fn report(report: HostReport) -> proto::HostReport {
    proto::HostReport {
        facts: Some(facts(report.facts)),
        load: Some(load(report.load)),
        metrics: metrics(report.metrics),
        instances: report.instances.into_iter().map(instance_report).collect(),
        disabled: report.disabled,
        forced_down: report.is_forced_down,
    }
}

fn facts(facts: HostFacts) -> proto::HostFacts {
    let (names, platform) = (facts.names, facts.platform);
    proto::HostFacts {
        service_host: names.service_host,
        node: names.node,
        cell: names.cell.to_string(),
        ip: names.ip,
        hypervisor_hostname: names.hypervisor_hostname,
        hypervisor_type: platform.hypervisor_type,
        hypervisor_version: platform.hypervisor_version,
        cpu_info: platform.cpu_info,
        supported_instances: platform
            .supported_instances
            .into_iter()
            .map(
                |[architecture, hypervisor_type, machine_mode]| proto::SupportedInstance {
                    architecture,
                    hypervisor_type,
                    machine_mode,
                },
            )
            .collect(),
        stats: facts.stats.into_iter().collect(),
        service_version: facts.service_version,
    }
}

fn load(load: Load) -> proto::Load {
    proto::Load {
        io_ops: load.io_ops,
        running_builds: load.running_builds,
        failed_builds: load.failed_builds,
    }
}

fn metrics(metrics: Vec<Metric>) -> Vec<proto::Metric> {
    let metrics = metrics.into_iter();
    let metrics = metrics.map(|Metric { name, value }| proto::Metric { name, value });
    metrics.collect()
}

fn instance_report(report: InstanceReport) -> proto::InstanceReport {
    proto::InstanceReport {
        uuid: report.uuid.to_string(),
        group: report.group.map(|group| group.to_string()),
        image_properties: report.image_properties.into_iter().collect(),
    }
}

pub(super) fn to_agent(message: ToAgent) -> proto::CellMessage {
    let kind = match message {
        ToAgent::Step {
            host,
            session,
            order,
        } => CellKind::Step(step_order(host.to_string(), session, *order)),
        ToAgent::Destroy {
            host,
            session,
            instance,
            number,
        } => CellKind::Destroy(proto::DestroyOrder {
            host: host.to_string(),
            session,
            instance: instance.to_string(),
            number,
        }),
        ToAgent::SendState { host } => CellKind::SendState(proto::SendState {
            host: host.to_string(),
        }),
        ToAgent::StartAgain { host, after } => CellKind::StartAgain(proto::StartAgain {
            host: host.to_string(),
            after,
        }),
    };
    proto::CellMessage { kind: Some(kind) }
}

fn step_order(host: String, session: u64, order: Order) -> proto::StepOrder {
    let step = match order.step {
        Step::Prepare => proto::Step::Prepare,
        Step::Leave => proto::Step::Leave,
        Step::Arrive => proto::Step::Arrive,
        Step::Return => proto::Step::Return,
        Step::Offload => proto::Step::Offload,
        Step::Rebuild => proto::Step::Rebuild,
    };
    proto::StepOrder {
        host,
        session,
        instance: order.instance.to_string(),
        attempt: order.attempt,
        step: step.into(),
        number: order.guest_number,
        is_live: order.is_live,
        spec: Some(spec(order.spec)),
        amounts: order.amounts.into_iter().map(amounts).collect(),
        origin: order.origin.map(guest_ref),
        target: order.target.map(guest_ref),
        mappings: order.mappings.into_iter().map(group_mapping).collect(),
    }
}

fn guest_ref(guest: GuestRef) -> proto::Place {
    proto::Place {
        host: guest.host.to_string(),
        number: guest.number,
    }
}

fn spec(spec: Spec) -> proto::Spec {
    proto::Spec {
        name: spec.name,
        project: spec.project,
        user: spec.user,
        group: spec.group.map(|group| group.to_string()),
        rules: spec.rules.iter().cloned().map(rule).collect(),
        body: placewright_records::server::json(&spec.body).into_owned(),
        created_at_us: spec.created_at.0,
    }
}

fn rule(rule: HardRule) -> proto::HardRule {
    proto::HardRule {
        level: match rule.rule.scope {
            RuleScope::Host => None,
            RuleScope::Level(level) => Some(level),
        },
        fewer_than: match rule.rule.relation {
            Relation::Same | Relation::Spread(_) => None,
            Relation::FewerThan(count) => Some(count),
        },
        max_skew: match rule.rule.relation {
            Relation::Spread(skew) => Some(skew),
            Relation::Same | Relation::FewerThan(_) => None,
        },
        others: rule.others.iter().map(ToString::to_string).collect(),
    }
}

fn group_mapping(mapping: GroupMapping) -> proto::GroupMapping {
    proto::GroupMapping {
        suffix: mapping.suffix,
        providers: mapping.providers.into_iter().map(amounts).collect(),
    }
}

fn amounts(amounts: Amounts) -> proto::Amounts {
    let resources = amounts.resources.into_iter();
    let resources = resources.map(|(resource_class, amount)| proto::Amount {
        resource_class,
        amount,
    });
    proto::Amounts {
        provider: amounts.provider.to_string(),
        resources: resources.collect(),
    }
}
