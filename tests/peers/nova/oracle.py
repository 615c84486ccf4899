"""Nova's answer to a request of requests_of_nova.py, and the same request in our format."""

import contextlib
import logging
import types
import warnings
from unittest import mock
from urllib import parse

warnings.simplefilter("ignore")

import nova.conf
from nova import context as nova_context
from nova import exception, objects
from nova.accelerator import cyborg
from nova.pci import request as pci_request
from nova.scheduler import request_filter, utils
from nova.virt import hardware

CONF = nova.conf.CONF
CONF([], project="nova", default_config_files=[])
objects.register_all()
logging.disable(logging.CRITICAL)
CONTEXT = nova_context.RequestContext("user", "project")
OPTIONS = {
    name: "scheduler"
    for name in (
        "limit_tenants_to_placement_aggregate",
        "placement_aggregate_required_for_tenants",
        "query_placement_for_image_type_support",
        "enable_isolated_aggregate_filtering",
        "image_metadata_prefilter",
        "query_placement_for_routed_network_aggregates",
    )
}
PAGE_SIZES = {-1: "Small", -2: "Large", -3: "Any"}


def for_ours(case: dict) -> dict:
    """The line that our program reads."""
    spec = {
        "flavor": case["flavor"],
        "image": case["image"],
        "is_bfv": case["is_bfv"],
        "project_id": case["project_id"],
        "availability_zone": case["zone"],
        "requested_networks": case["networks"],
        "request_level_params": case["params"],
        "requested_resources": case["requested"],
        "requested_destination": case.get("destination"),
        "force_hosts": case.get("force_hosts", []),
        "force_nodes": case.get("force_nodes", []),
        "scheduler_hints": case.get("hints", {}),
        "device_profiles": [
            {"name": name, "groups": groups}
            for name, groups in case["profiles"].items()
        ],
    }
    return {
        "spec": spec,
        "aggregates": case["aggregates"],
        "compute_nodes": case["nodes"],
        "segments": segments(case),
        "compute_version_min": case["version"],
        "prefilters": case["options"],
        "pci_in_placement": case["pci_in_placement"],
        "pci_aliases": case["aliases"],
    }


def segments(case: dict) -> dict:
    """The aggregates of each segment; every ninth segment has none."""
    all_segments = [one for nic in case["networks"] for one in nic["segments"]]
    return {
        one: [] if int(one[0], 16) % 9 == 0 else [one[:-1] + "0", one[:-1] + "1"]
        for one in all_segments
    }


def translate(case: dict) -> dict:
    try:
        with surroundings(case):
            return answer(case)
    except Exception as error:  # any refusal of Nova's counts as one
        return {"raised": f"{type(error).__name__}: {error}"[:200]}


def answer(case: dict) -> dict:
    image = objects.ImageMeta.from_dict(case["image"])
    flavor = objects.Flavor(**case["flavor"])
    topology = hardware.numa_get_constraints(flavor, image)
    spec = request_spec(case, flavor, image)
    known_zone = any(
        metadata.get("availability_zone") == case["zone"]
        for metadata in case["aggregates"].values()
    )
    request_filter.process_reqspec(CONTEXT, spec)
    result: dict = {}
    if case["zone"] not in (None, "nova") and not known_zone:
        result["zone_unknown"] = True
    first = utils.resources_from_request_spec(CONTEXT, spec, HostManager(case))
    result["query"] = first.to_querystring()
    if first.cpu_pinning_requested:
        second = utils.resources_from_request_spec(
            CONTEXT, spec, HostManager(case), enable_pinning_translate=False
        )
        result["fallback"] = second.to_querystring()
    if topology is not None:
        result["numa"] = cells(topology)
    result["unaskable"] = unaskable(result["query"])
    return result


def request_spec(case: dict, flavor, image) -> objects.RequestSpec:
    groups = []
    params = objects.RequestLevelParams(
        root_required=set(case["params"].get("root_required", [])),
        root_forbidden=set(case["params"].get("root_forbidden", [])),
        same_subtree=[],
    )
    groups += [request_group(group) for group in case["requested"]]
    groups += port_groups(case, params)
    profile = flavor.extra_specs.get("accel:device_profile")
    if profile:
        groups += profile_groups(case, profile, None)
    policy = hardware.get_pci_numa_policy_constraint(flavor, image)
    spec = objects.RequestSpec(
        CONTEXT,
        flavor=flavor,
        image=image,
        is_bfv=case["is_bfv"],
        project_id=case["project_id"],
        availability_zone=case["zone"],
        requested_resources=groups,
        request_level_params=params,
        force_hosts=case.get("force_hosts"),
        force_nodes=case.get("force_nodes"),
        requested_destination=destination(case),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        requested_networks=objects.NetworkRequestList(
            objects=[
                objects.NetworkRequest(
                    network_id=nic.get("network_id"), port_id=nic.get("port_id")
                )
                for nic in case["networks"]
            ]
        ),
    )
    if "hints" in case:
        spec.scheduler_hints = case["hints"]
    if case["pci_in_placement"]:
        spec.pci_requests = pci_request.get_pci_requests_from_flavor(flavor, policy)
        for number, request in enumerate(spec.pci_requests.requests):
            request.request_id = f"pci_alias_{number}"
        spec.generate_request_groups_from_pci_requests()
    return spec


def request_group(described: dict) -> objects.RequestGroup:
    group = objects.RequestGroup(
        requester_id=described["requester_id"],
        resources=described.get("resources", {}),
        forbidden_traits=set(described.get("forbidden_traits", [])),
        aggregates=described.get("aggregates", []),
        in_tree=described.get("in_tree"),
    )
    group.obj_set_defaults()
    return group


def port_groups(case: dict, params) -> list:
    groups = []
    for nic in case["networks"]:
        asked = nic.get("resource_request")
        if asked and "request_groups" in asked:
            groups += objects.RequestGroup.from_extended_port_request(CONTEXT, asked)
            more = objects.RequestLevelParams.from_port_request(asked)
            params.extend_with(more)
        elif asked:
            port = nic["port_id"]
            group = objects.RequestGroup.from_port_request(CONTEXT, port, asked)
            groups.append(group)
        if nic.get("device_profile"):
            described = case["profiles"][nic["device_profile"]]
            if cyborg.get_device_amount_of_dp_groups(described) > 1:
                raise exception.DeviceProfileError(name="", msg="more than one device")
            groups += profile_groups(case, nic["device_profile"], nic["port_id"])
    return groups


def profile_groups(case: dict, name: str, owner: str | None) -> list:
    if name not in case["profiles"]:
        raise exception.DeviceProfileError(name=name, msg="there is none")
    client = cyborg._CyborgClient(CONTEXT)
    return client.get_device_request_groups(case["profiles"][name], owner)


def destination(case: dict):
    if "destination" not in case:
        return None
    described = case["destination"]
    made = objects.Destination()
    for name in ("host", "node"):
        if name in described:
            setattr(made, name, described[name])
    for any_of in described.get("aggregates", []):
        made.require_aggregates(any_of)
    if "forbidden_aggregates" in described:
        made.append_forbidden_aggregates(set(described["forbidden_aggregates"]))
    return made


class HostManager:
    """Looks compute nodes up as the host manager does, without databases."""

    def __init__(self, case: dict) -> None:
        self.nodes = case["nodes"]

    def get_compute_nodes_by_host_or_node(self, ctxt, host, node, cell=None):
        return [
            types.SimpleNamespace(
                uuid=one["uuid"], host=one["host"], hypervisor_hostname=one["node"]
            )
            for one in self.nodes
            if (not host or one["host"] == host) and (not node or one["node"] == node)
        ]


def one_property_at_a_time(ctxt, spec) -> bool:
    """Nova's filter for each property on its own: see the known differences."""
    image = spec.image
    whole = image.properties
    try:
        for name in list(whole.fields):
            if name in whole:
                image.properties = objects.ImageMetaProps(**{name: whole.get(name)})
                request_filter.transform_image_metadata(ctxt, spec)
                if name == "hw_viommu_model":
                    model = whole.get(name).upper()
                    spec.root_required.add(f"COMPUTE_VIOMMU_MODEL_{model}")
    finally:
        image.properties = whole
    return True


@contextlib.contextmanager
def surroundings(case: dict):
    """Answers what Nova asks of databases and other services."""
    all_aggregates = [
        types.SimpleNamespace(uuid=uuid, metadata=metadata)
        for uuid, metadata in case["aggregates"].items()
    ]

    def by_metadata(context, key=None, value=None):
        def fits(pair):
            return key in (None, pair[0]) and value in (None, pair[1])

        return [one for one in all_aggregates if any(map(fits, one.metadata.items()))]

    def non_matching(context, ignored_keys, key_prefix, value):
        return [
            one
            for one in all_aggregates
            if any(
                key.startswith(key_prefix) and said == value and key not in ignored_keys
                for key, said in one.metadata.items()
            )
        ]

    by_port = {nic.get("port_id"): nic for nic in case["networks"]}
    by_network = {nic.get("network_id"): nic for nic in case["networks"]}
    neutron = mock.Mock()
    neutron.show_port.side_effect = lambda ctxt, port: {
        "port": {"fixed_ips": [{"subnet_id": port}], "network_id": None}
    }
    neutron.get_segment_id_for_subnet.side_effect = lambda ctxt, subnet: next(
        iter(by_port[subnet]["segments"]), None
    )
    neutron.get_segment_ids_for_network.side_effect = lambda ctxt, network: by_network[
        network
    ]["segments"]
    neutron.is_remote_managed_port.side_effect = lambda ctxt, port: (
        by_port[port]["vnic_type"] == "remote-managed"
    )
    of_segment = segments(case)
    report = mock.Mock()
    report._get_provider_aggregates.side_effect = lambda ctxt, segment: (
        types.SimpleNamespace(aggregates=of_segment[segment])
    )
    filters = [
        (
            one_property_at_a_time
            if one is request_filter.transform_image_metadata and uses_image_metadata(case)
            else one
        )
        for one in request_filter.ALL_REQUEST_FILTERS
    ]
    aggregate_list = objects.aggregate.AggregateList
    aliases = alias_config(case)
    for name, group in OPTIONS.items():
        CONF.set_override(name, case["options"][name], group)
    CONF.set_override("pci_in_placement", case["pci_in_placement"], "filter_scheduler")
    with (
        mock.patch.object(aggregate_list, "get_by_metadata", by_metadata),
        mock.patch.object(
            aggregate_list, "get_non_matching_by_metadata_keys", non_matching
        ),
        mock.patch.object(request_filter.neutron, "API", lambda: neutron),
        mock.patch.object(
            request_filter.report, "report_client_singleton", lambda: report
        ),
        mock.patch.object(
            objects.service,
            "get_minimum_version_all_cells",
            lambda *args: case["version"],
        ),
        mock.patch.object(request_filter, "ALL_REQUEST_FILTERS", filters),
        mock.patch.object(pci_request, "get_alias_from_config", lambda: aliases),
    ):
        yield


def uses_image_metadata(case: dict) -> bool:
    return case["options"]["image_metadata_prefilter"]


def alias_config(case: dict) -> dict:
    return {
        name: (alias.get("numa_policy", "legacy"), alias["spec"])
        for name, alias in case["aliases"].items()
    }


def cells(topology) -> dict:
    first = topology.cells[0]
    size = first.pagesize
    policy = topology.emulator_threads_policy
    return {
        "cells": [
            {
                "shared": sorted(cell.cpuset),
                "dedicated": sorted(cell.pcpuset),
                "memory_mb": cell.memory,
            }
            for cell in topology.cells
        ],
        "page_size": None if size is None else PAGE_SIZES.get(size, f"Kib({size})"),
        "cpu_policy": first.cpu_policy,
        "cpu_thread_policy": first.cpu_thread_policy,
        "emulator_threads_policy": policy,
    }


def unaskable(query: str) -> str | None:
    """Why Placement would answer 400, apart from names that it does not know."""
    pairs = parse.parse_qsl(query, keep_blank_values=True)
    resources = {
        name.removeprefix("resources"): value
        for name, value in pairs
        if name.startswith("resources")
    }
    for name, value in pairs:
        if name.startswith(("required", "root_required")):
            names = set(value.split(","))
            if any(f"!{one}" in names for one in names):
                return f"{name}={value}"
    if not any(resources.values()):
        return "no resources"
    in_subtree = {
        one
        for name, value in pairs
        if name == "same_subtree"
        for one in value.split(",")
    }
    for suffix, value in resources.items():
        if suffix and not value and suffix not in in_subtree:
            return f"resources{suffix}="
    if any(suffix not in resources for suffix in in_subtree):
        return "same_subtree"
    if len([one for one in resources if one]) > 1 and "group_policy" not in dict(pairs):
        return "group_policy"
    return None


# Which of our fields each of Nova's refusals is about.
FAULTS = {
    "BadRequirementEmulatorThreadsPolicy": ["emulator_threads_policy"],
    "CPUThreadPolicyConfigurationInvalid": ["cpu_thread_policy", "HYPERTHREADING"],
    "DeviceProfileError": ["device_profile"],
    "FlavorImageConflict": ["image.properties"],
    "FlavorImageLockedMemoryConflict": ["hw_locked_memory"],
    "ImageCPUPinningForbidden": ["hw_cpu_policy"],
    "ImageCPUThreadPolicyForbidden": ["hw_cpu_thread_policy"],
    "ImageNUMATopologyAsymmetric": ["flavor.vcpus", "flavor.memory_mb"],
    "ImageNUMATopologyCPUDuplicates": ["numa_cpus"],
    "ImageNUMATopologyCPUOutOfRange": ["numa_cpus"],
    "ImageNUMATopologyCPUsUnassigned": ["numa_cpus"],
    "ImageNUMATopologyForbidden": ["hw_numa"],
    "ImageNUMATopologyIncomplete": ["numa_cpus", "numa_mem", "numa_nodes"],
    "ImageNUMATopologyMemoryOutOfRange": ["numa_mem"],
    "ImagePCINUMAPolicyForbidden": ["hw_pci_numa_affinity_policy"],
    "Invalid": ["flavor.extra_specs", "image.properties"],
    "InvalidCPUAllocationPolicy": ["cpu_policy"],
    "InvalidCPUThreadAllocationPolicy": ["cpu_thread_policy"],
    "InvalidEmulatorThreadsPolicy": ["emulator_threads_policy"],
    "InvalidMachineType": ["hw_machine_type"],
    "InvalidMixedInstanceDedicatedMask": ["cpu_dedicated_mask"],
    "InvalidNUMANodesNumber": ["numa_nodes"],
    "InvalidPCINUMAAffinity": ["pci_numa_affinity_policy"],
    "InvalidRequest": ["resources:PCPU", "resources:VCPU", "HYPERTHREADING"],
    "InvalidVideoMode": ["hw_video_model"],
    "LockMemoryForbidden": ["mem_page_size"],
    "MemoryPageSizeForbidden": ["hw_mem_page_size"],
    "MemoryPageSizeInvalid": ["mem_page_size"],
    "NoValidHost": ["requested_destination"],
    "PciRequestAliasNotDefined": ["pci_passthrough:alias"],
    "RealtimeConfigurationInvalid": ["cpu_realtime"],
    "RealtimeMaskNotFoundOrInvalid": ["cpu_realtime_mask"],
    "RequestFilterFailed": ["prefilter", "tpm_secret_security"],
    "RequestGroupSuffixConflict": ["requester_id"],
    "RequiredMixedInstancePolicy": ["cpu_dedicated_mask"],
    "RequiredMixedOrRealtimeCPUMask": ["cpu_dedicated_mask"],
    "StatelessFirmwareRequired": ["hw_firmware_stateless"],
    "ValueError": ["image.properties", "requester_id", "alias", "device_profile"],
}


def features(nova: dict, ours: dict) -> list[str]:
    """What a case shows, for counts."""
    if nova.get("raised"):
        refused = ours.get("refused", {})
        where = f"{refused.get('step')} {refused.get('field')}"
        same = any(one in where for one in FAULTS.get(nova["raised"].split(":")[0], []))
        return ["refused by both", f"  for {'the same' if same else 'another'} fault"]
    if nova.get("zone_unknown"):
        return ["zone that no aggregate carries: refused by ours only"]
    found = ["query compared"]
    if nova["unaskable"]:
        found.append("  that Placement refuses; ours says why")
    if nova.get("fallback"):
        found.append("  with a second query")
    if nova.get("numa"):
        found.append("  with NUMA cells")
    for name in ("same_subtree", "in_tree", "member_of", "root_required"):
        if name in nova["query"]:
            found.append(f"  with {name}")
    return found
