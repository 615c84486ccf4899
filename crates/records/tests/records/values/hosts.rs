//! The updates of hosts.

use placewright_link::CellEvent;
use placewright_types::host_state::{
    HostFacts, HostNames, HostReport, HostUpdate, InstanceReport, Load, Metric,
};
use placewright_types::platform::Platform;

use super::{CELL, INSTANCE, OTHER, cell_events};

/// One of each update of a host's soft state.
pub(crate) fn updates() -> Vec<HostUpdate> {
    let facts = HostFacts {
        names: HostNames {
            service_host: "s".into(),
            node: "n".into(),
            cell: CELL.0,
            ip: Some("192.0.2.1".into()),
            hypervisor_hostname: Some("h".into()),
        },
        platform: Platform {
            hypervisor_type: Some("QEMU".into()),
            hypervisor_version: Some(-2),
            cpu_info: Some("{}".into()),
            supported_instances: vec![["a".into(), "b".into(), "c".into()]],
        },
        stats: [("a".to_owned(), "b".to_owned())].into(),
        service_version: 0,
    };
    let load = Load {
        io_ops: 1,
        running_builds: 2,
        failed_builds: 300,
    };
    let metrics = vec![Metric {
        name: "cpu.percent".into(),
        value: 0.5,
    }];
    let instance = InstanceReport {
        uuid: INSTANCE.0,
        group: Some(OTHER),
        image_properties: [("a".to_owned(), "b".to_owned())].into(),
    };
    let report = HostReport {
        facts: facts.clone(),
        load,
        metrics: metrics.clone(),
        instances: vec![instance.clone()],
        disabled: Some("d".into()),
        is_forced_down: true,
    };
    vec![
        HostUpdate::Full(Box::new(report)),
        HostUpdate::Alive,
        HostUpdate::Facts(Box::new(facts)),
        HostUpdate::Load(load),
        HostUpdate::Metrics(metrics),
        HostUpdate::InstanceCame(Box::new(instance), load),
        HostUpdate::InstanceWent(INSTANCE.0, load),
        HostUpdate::Disabled(Some("d".into())),
        HostUpdate::ForcedDown(true),
        HostUpdate::Gone,
    ]
}

/// The cell events, with a value in the field that facts gained.
pub(crate) fn cell_events_with_service_version() -> Vec<CellEvent> {
    let mut events = cell_events();
    for event in &mut events {
        if let CellEvent::State { update, .. } = event {
            match &mut update.update {
                HostUpdate::Full(report) => report.facts.service_version = 73,
                HostUpdate::Facts(facts) => facts.service_version = 73,
                _ => {}
            }
        }
    }
    events
}
