"""What Nova's own filters and weighers say of a Case of hosts_of_nova.py."""

import contextlib
import copy
import datetime
import json
import logging
import types
import warnings
from unittest import mock

warnings.simplefilter("ignore")

import nova.conf
from nova import context as nova_context
from nova import objects
from nova.scheduler import filters, host_manager, weights
from nova.scheduler.weights import image_props
from oslo_utils import fixture as time_fixture

CONF = nova.conf.CONF
CONF([], project="nova", default_config_files=[])
objects.register_all()
logging.disable(logging.CRITICAL)
CONTEXT = nova_context.RequestContext("user", "project")
NOW = datetime.datetime(2024, 5, 1, 12)
CLOCK = time_fixture.TimeFixture(NOW)
CLOCK.setUp()
FILTERS = {found.__name__: found for found in filters.all_filters()}
WEIGHERS = {found.__name__: found for found in weights.all_weighers()}
ROOT_OPTIONS = {"service_down_time_s": "service_down_time"}


class Raised:
    """Nova would fail the whole request."""

    def __init__(self, error: Exception) -> None:
        self.text = f"{type(error).__name__}: {error}"[:150]

    def __repr__(self) -> str:
        return f"raised {self.text}"


@contextlib.contextmanager
def options(config: dict):
    """Nova's configuration with some options set."""
    set_options = []
    metrics = config.get("metrics", {})
    for group, values in (("filter_scheduler", config), ("metrics", metrics)):
        for name, value in values.items():
            if name == "metrics":
                continue
            where = (name, group)
            if name in ROOT_OPTIONS:
                where = (ROOT_OPTIONS[name], None)
            CONF.set_override(where[0], value, group=where[1])
            set_options.append(where)
    try:
        yield
    finally:
        for name, group in set_options:
            CONF.clear_override(name, group=group)


def host_states(case) -> list:
    aggregates = {
        uuid: objects.Aggregate(uuid=uuid, metadata=dict(metadata))
        for uuid, metadata in case.aggregates.items()
    }
    return [host_state(host, aggregates) for host in case.hosts]


def host_state(host: dict, aggregates: dict):
    report = host["report"]
    names, platform = report["facts"]["names"], report["facts"]["platform"]
    state = host_manager.HostState(names["service_host"], names["node"], names["cell"])
    stats = {
        **report["facts"]["stats"],
        "num_instances": str(len(report["instances"])),
        "io_workload": str(report["load"]["io_ops"]),
        "failed_builds": str(report["load"]["failed_builds"]),
    }
    pools = []
    if host["devices_free"]:
        pools = [
            objects.PciDevicePool(
                product_id="1", vendor_id="2", numa_node=0, count=count, tags={}
            )
            for count in (
                host["devices_free"] // 2,
                host["devices_free"] - host["devices_free"] // 2,
            )
        ]
    compute = objects.ComputeNode(
        uuid=host["uuid"],
        memory_mb=host["ram_total_mb"],
        free_ram_mb=host["ram_free_mb"],
        local_gb=host["disk_total_gb"],
        local_gb_used=host["disk_used_mb"] // 1024,
        free_disk_gb=host["disk_free_mb"] // 1024 + 3,
        disk_available_least=host["disk_free_mb"] // 1024,
        vcpus=host["vcpus_total"],
        vcpus_used=host["vcpus_used"],
        updated_at=None,
        numa_topology=None,
        pci_device_pools=objects.PciDevicePoolList(objects=pools),
        host_ip=names["ip"],
        hypervisor_type=platform["hypervisor_type"] or "",
        hypervisor_version=platform["hypervisor_version"],
        hypervisor_hostname=names["hypervisor_hostname"],
        cpu_info=platform["cpu_info"],
        supported_hv_specs=[
            objects.HVSpec.from_list(spec) for spec in platform["supported_instances"]
        ],
        stats=stats,
        metrics=json.dumps(
            [
                {
                    "name": metric["name"],
                    # Nova turns parts of one into whole hundredths, and cuts the rest off.
                    "value": (metric["value"] + 0.5)
                    / (100 if "percent" in metric["name"] else 1),
                    "timestamp": "2024-05-01T11:00:00.000000",
                    "source": "x",
                }
                for metric in report["metrics"]
            ]
        ),
        cpu_allocation_ratio=host["cpu_ratio"],
        ram_allocation_ratio=host["ram_ratio"],
        disk_allocation_ratio=host["disk_ratio"],
    )
    service = {
        "host": names["service_host"],
        "binary": "nova-compute",
        "disabled": report["disabled"] is not None,
        "disabled_reason": report["disabled"],
        "forced_down": report["is_forced_down"],
        "last_seen_up": NOW - datetime.timedelta(seconds=host["silent_s"]),
        "created_at": NOW,
    }
    instances = {
        server["uuid"]: types.SimpleNamespace(
            uuid=server["uuid"],
            image_meta=image_meta({"properties": server["image_properties"]}),
        )
        for server in report["instances"]
    }
    state.update(
        compute, service, [aggregates[one] for one in host["aggregates"]], instances
    )
    # Not every host reports its type; an object of Nova's cannot be without one.
    if platform["hypervisor_type"] is None:
        state.hypervisor_type = None
    return state


def image_meta(image: dict):
    fields = {key: value for key, value in copy.deepcopy(image).items() if value is not None}
    return objects.ImageMeta.from_dict(fields)


def request_spec(case):
    request = case.request
    spec = objects.RequestSpec(
        CONTEXT,
        flavor=objects.Flavor(**request["flavor"]),
        image=image_meta(request["image"]) if "image" in request else None,
        project_id=request["project_id"],
        scheduler_hints=request["scheduler_hints"],
        instance_uuid=case.instance,
        instance_group=None,
        pci_requests=None,
        requested_destination=None,
        ignore_hosts=request.get("ignore_hosts"),
        force_hosts=request.get("force_hosts"),
        force_nodes=request.get("force_nodes"),
        numa_topology=None,
    )
    wanted = request.get("requested_destination")
    if wanted:
        spec.requested_destination = objects.Destination(
            allow_cross_cell_move=wanted["allow_cross_cell_move"]
        )
        if wanted["cell"]:
            spec.requested_destination.cell = objects.CellMapping(uuid=wanted["cell"])
        if "host" in wanted:
            spec.requested_destination.host = wanted["host"]
            spec.requested_destination.node = wanted.get("node")
    group = request.get("instance_group")
    if group:
        rules = {}
        if "max_server_per_host" in group:
            rules["max_server_per_host"] = str(group["max_server_per_host"])
        spec.instance_group = objects.InstanceGroup(
            uuid=group["uuid"],
            policy=group["policy"],
            rules=rules,
            members=group["members"],
            hosts=group["hosts"],
        )
        spec.instance_group._policies = [group["policy"]]
        spec.instance_group.policies = [group["policy"]]
    return spec


def verdict(host_filter, state, spec):
    try:
        return bool(host_filter._filter_one(state, spec))
    except Exception as error:
        return Raised(error)


def states_for(name: str, states: list) -> list:
    """The host states for a filter. One filter needs the CPU's description parsed; others take it as text."""
    if name != "ImagePropertiesFilter":
        return states
    read = [copy.copy(state) for state in states]
    for state in read:
        state.cpu_info = json.loads(state.cpu_info)
    return read


class FakeInstanceList(list):
    def __init__(self, _context, objects) -> None:
        super().__init__(objects)

    def fill_metadata(self) -> None:
        pass


@contextlib.contextmanager
def no_database():
    fakes = types.SimpleNamespace(
        CellMapping=mock.Mock(), InstanceList=FakeInstanceList
    )
    with (
        mock.patch.object(image_props, "objects", fakes),
        mock.patch.object(
            image_props.nova_context, "target_cell", lambda *_: contextlib.nullcontext()
        ),
    ):
        yield


def weigh(names: list, states: list, spec):
    """The hosts' weights in the order given, and their order by weight."""
    handler = weights.HostWeightHandler()
    try:
        weighed = handler.get_weighed_objects(
            [WEIGHERS[name]() for name in names], states, spec
        )
    except Exception as error:
        return Raised(error), Raised(error)
    index_of = {id(state): index for index, state in enumerate(states)}
    found = [0.0] * len(states)
    order = []
    for weighed_host in weighed:
        index = index_of[id(weighed_host.obj)]
        found[index] = weighed_host.weight
        order.append(index)
    return found, order


def states_of_cells(states: list, spec) -> list:
    """The hosts that Nova looks at for a request: those of the cells that it asks."""
    uuids = sorted({state.cell_uuid for state in states})
    cells = [objects.CellMapping(uuid=uuid) for uuid in uuids]
    manager = types.SimpleNamespace(
        cells=cells,
        enabled_cells=cells,
        _get_computes_for_cells=lambda _context, asked, compute_uuids: (
            {cell.uuid for cell in asked},
            {},
        ),
        _get_host_states=lambda _context, asked, _services: [
            state for state in states if state.cell_uuid in asked
        ],
    )
    return host_manager.HostManager.get_host_states_by_uuids(
        manager, CONTEXT, None, spec
    )


def filter_all(names: list, states: list, spec) -> list:
    manager = types.SimpleNamespace(
        filter_handler=filters.HostFilterHandler(),
        enabled_filters=[FILTERS[name]() for name in names],
    )
    try:
        left = list(
            host_manager.HostManager.get_filtered_hosts(
                manager, iter(states_of_cells(states, spec)), spec
            )
        )
    except Exception as error:
        return Raised(error)
    return [any(state is one for one in left) for state in states]


def answer(case, filter_names, weigher_names) -> dict:
    with options(case.config), no_database():
        states = host_states(case)
        spec = request_spec(case)
        result: dict = {"filters": {}, "weighers": {}}
        for name in filter_names:
            host_filter = FILTERS[name]()
            result["filters"][name] = [
                verdict(host_filter, state, spec) for state in states_for(name, states)
            ]
        result["all_filters"] = filter_all(case.all_filters, states, spec)
        for name in weigher_names:
            result["weighers"][name] = weigh([name], states, spec)[0]
        result["weights"], result["order"] = weigh(
            case.config["weight_classes"], states, spec
        )
        return result
