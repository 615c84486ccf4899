//! The updates of a host's soft state.

use placewright_types::host_state::{
    HostFacts, HostNames, HostReport, HostUpdate, InstanceReport, Load, Metric,
};
use placewright_types::platform::Platform;
use uuid::Uuid;

/// One of each update of a host's soft state.
pub(super) fn every_update() -> [HostUpdate; 11] {
    let (load, instance_report) = (
        Load {
            io_ops: 1,
            running_builds: 2,
            failed_builds: 3,
        },
        InstanceReport {
            uuid: Uuid::from_u128(77),
            group: Some(Uuid::from_u128(78)),
            image_properties: [("os".to_owned(), "linux".to_owned())].into(),
        },
    );
    let facts = HostFacts {
        names: HostNames {
            service_host: "compute-1".into(),
            node: "node-1".into(),
            cell: Uuid::from_u128(1),
            ip: Some("192.0.2.1".into()),
            hypervisor_hostname: Some("hv".into()),
        },
        platform: Platform {
            hypervisor_type: Some("QEMU".into()),
            hypervisor_version: Some(6_002_001),
            cpu_info: Some("{}".into()),
            supported_instances: vec![["x86_64".into(), "qemu".into(), "hvm".into()]],
        },
        stats: [("a".to_owned(), "b".to_owned())].into(),
        service_version: 73,
    };
    let metrics = vec![Metric {
        name: "cpu.percent".into(),
        value: 0.25,
    }];
    let report = HostReport {
        facts: facts.clone(),
        load,
        metrics: metrics.clone(),
        instances: vec![instance_report.clone()],
        disabled: Some("broken".into()),
        is_forced_down: true,
    };
    [
        HostUpdate::Full(Box::new(report)),
        HostUpdate::Alive,
        HostUpdate::Facts(Box::new(facts)),
        HostUpdate::Load(load),
        HostUpdate::Metrics(metrics),
        HostUpdate::InstanceCame(Box::new(instance_report), load),
        HostUpdate::InstanceWent(Uuid::from_u128(77), load),
        HostUpdate::Disabled(Some("maintenance".into())),
        HostUpdate::Disabled(None),
        HostUpdate::ForcedDown(false),
        HostUpdate::Gone,
    ]
}
