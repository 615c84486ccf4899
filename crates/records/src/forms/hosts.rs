//! The updates of host states that a cell sends to control.

use placewright_types::host_state::{
    HostFacts, HostNames, HostReport, HostUpdate, InstanceReport, Load, Metric, NumberedUpdate,
};
use placewright_types::platform::Platform;

row!(NumberedUpdate {
    incarnation,
    sequence,
    update
});
row!(HostReport {
    facts,
    load,
    metrics,
    instances,
    disabled,
    is_forced_down
});
row!(HostFacts {
    names,
    platform,
    stats;
    service_version
});
row!(HostNames {
    service_host,
    node,
    cell,
    ip,
    hypervisor_hostname
});
row!(Platform {
    hypervisor_type,
    hypervisor_version,
    cpu_info,
    supported_instances
});
row!(Load {
    io_ops,
    running_builds,
    failed_builds
});
row!(Metric { name, value });
row!(InstanceReport {
    uuid,
    group,
    image_properties
});

choice!(HostUpdate {
    0 Full(report),
    1 Alive,
    2 Facts(facts),
    3 Load(load),
    4 Metrics(metrics),
    5 InstanceCame(report, load),
    6 InstanceWent(instance, load),
    7 Disabled(reason),
    8 ForcedDown(is_down),
    9 Gone,
});
