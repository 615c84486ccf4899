"""Nova's report client, as its computes, schedulers and conductors use it, also for Ironic's nodes."""

import pathlib
import types

import nova.conf
from nova import context as nova_context
from nova import objects
from nova.scheduler.client import report
from recorder import Recorder, methods_of, name_of

CPUS = {"total": 8, "reserved": 0, "min_unit": 1, "max_unit": 8, "step_size": 1, "allocation_ratio": 4.0}
MEMORY = CPUS | {"total": 4096, "max_unit": 4096, "allocation_ratio": 1.0}
VERSION = "1.36"


def drive(recorder: Recorder, configuration: pathlib.Path) -> list[str]:
    """Call every method, on what is there and on what is not; the methods that there are."""
    nova.conf.CONF(["--config-file", str(configuration)], project="nova")
    objects.register_all()
    client = report.SchedulerReportClient()
    context = nova_context.get_admin_context()

    def call(name: str, /, *words: object, **more: object) -> object:
        return recorder.call(client, name, context, *words, **more)

    # These take no context.
    for name, words in (
        ("get", ["/"]), ("put", ["/resource_classes/CUSTOM_IRON", None, "1.7"]),
        ("post", ["/resource_classes", {"name": "CUSTOM_GONE"}, "1.2"]), ("delete", ["/resource_classes/CUSTOM_GONE", "1.2"]),
    ):
        recorder.call(client, name, *words)
    _tree(client, call)
    _associations(call)
    _claims(call)
    _reshape(client, call)
    _removal(recorder, client, call)
    # Deletes the allocations of instances that Nova's database lists; the rest of it is called in `_removal`.
    return methods_of(report.SchedulerReportClient)


def _tree(client: report.SchedulerReportClient, call: object) -> None:
    host, cell = name_of("nova host"), name_of("nova cell")
    call("get_provider_tree_and_ensure_root", host, name="compute1")
    tree = client.get_provider_tree_and_ensure_root(nova_context.get_admin_context(), host)
    tree.update_inventory("compute1", {"VCPU": CPUS, "MEMORY_MB": MEMORY})
    tree.update_traits("compute1", ["HW_CPU_X86_AVX2", "CUSTOM_RACK_7"])
    tree.update_aggregates("compute1", [name_of("nova aggregate")])
    tree.new_child("compute1_cell0", "compute1", uuid=cell)
    tree.update_inventory("compute1_cell0", {"CUSTOM_IRON": CPUS | {"total": 1, "max_unit": 1}})
    call("update_from_provider_tree", tree)
    call("update_from_provider_tree", tree)
    call("get_provider_subtree_and_ensure_root", host)
    call("get_provider_tree_and_ensure_root", name_of("nova other"), name="compute1")
    call("get_providers_in_tree", host)
    call("get_providers_in_tree", name_of("nova missing"))
    call("get_provider_by_name", "compute1")
    call("get_provider_by_name", "nobody")
    call("get_resource_provider_name", host)
    call("get_resource_provider_name", name_of("nova missing"))
    call("get_provider_traits", host)
    call("get_provider_traits", name_of("nova missing"))


def _associations(call: object) -> None:
    host, other = name_of("nova host"), name_of("nova second")
    call("get_provider_tree_and_ensure_root", other, name="compute2")
    call("set_inventory_for_provider", other, {"VCPU": CPUS, "MEMORY_MB": MEMORY, "CUSTOM_NEW": CPUS})
    call("set_inventory_for_provider", other, {"VCPU": CPUS, "MEMORY_MB": MEMORY})
    call("set_inventory_for_provider", other, {"VCPU": CPUS, "lower": CPUS})
    call("set_inventory_for_provider", other, {"VCPU": CPUS | {"total": 0}})
    call("set_traits_for_provider", other, ["CUSTOM_FAST"])
    call("set_traits_for_provider", other, ["FAST"])
    call("set_aggregates_for_provider", other, [name_of("nova aggregate")])
    call("set_aggregates_for_provider", other, [name_of("nova aggregate")], use_cache=False, generation=99)
    call("aggregate_add_host", name_of("nova zone"), host_name="compute1")
    call("aggregate_add_host", name_of("nova zone"), rp_uuid=host)
    call("aggregate_add_host", name_of("nova zone"), host_name="nobody")
    call("aggregate_remove_host", name_of("nova zone"), "compute1")
    call("aggregate_remove_host", name_of("nova zone"), "nobody")


def _claims(call: object) -> None:
    host, other, server, migration, project, user = (
        name_of(f"nova {word}") for word in ("host", "second", "server", "migration", "project", "user")
    )

    def wish(text: str) -> object:
        """What the scheduler asks for; the client reads the query of it, and prints it."""
        return types.SimpleNamespace(to_querystring=lambda: text)

    call("get_allocation_candidates", wish("resources=VCPU:2,MEMORY_MB:512&limit=1000"))
    call("get_allocation_candidates", wish("resources=CUSTOM_IRON:1"))
    call("get_allocation_candidates", wish("resources=VCPU:99"))
    call("get_allocation_candidates", wish("resources=VCPU"))
    claim = {"allocations": {host: {"resources": {"VCPU": 2, "MEMORY_MB": 512}}}}
    call("claim_resources", server, claim, project, user, VERSION)
    call("claim_resources", server, claim, project, user, VERSION)
    call("get_allocs_for_consumer", server)
    call("get_allocs_for_consumer", name_of("nova nobody"))
    call("get_allocations_for_consumer", server)
    too_much = {"allocations": {other: {"resources": {"VCPU": 33}}}}
    call("claim_resources", migration, too_much, project, user, VERSION)
    call("add_resources_to_instance_allocation", server, {name_of("nova cell"): {"resources": {"CUSTOM_IRON": 1}}})
    call("add_resources_to_instance_allocation", server, {name_of("nova cell"): {"resources": {"CUSTOM_IRON": 1}}})
    call("remove_resources_from_instance_allocation", server, {name_of("nova cell"): {"resources": {"CUSTOM_IRON": 1}}})
    call("remove_resources_from_instance_allocation", server, {name_of("nova cell"): {"resources": {"CUSTOM_IRON": 1}}})
    call("set_inventory_for_provider", host, {"MEMORY_MB": MEMORY})
    call("move_allocations", server, migration)
    call("move_allocations", server, migration)
    call("claim_resources", server, {"allocations": {other: {"resources": {"VCPU": 1}}}}, project, user, VERSION)
    call("get_allocations_for_resource_provider", host)
    call("get_allocations_for_resource_provider", name_of("nova missing"))
    call("get_allocations_for_provider_tree", "compute1")
    call("get_usages_counts_for_limits", project)
    call("get_usages_counts_for_quota", project, user_id=user)
    payload = {"allocations": {other: {"resources": {"VCPU": 2}}}, "project_id": project, "user_id": user}
    call("put_allocations", server, payload | {"consumer_generation": 1})
    call("put_allocations", server, payload | {"consumer_generation": 1})
    call("remove_provider_tree_from_instance_allocation", migration, host)
    call("remove_provider_tree_from_instance_allocation", migration, host)
    call("delete_allocation_for_instance", server)
    call("delete_allocation_for_instance", server)
    call("delete_allocation_for_instance", server, force=True)


def _reshape(client: report.SchedulerReportClient, call: object) -> None:
    """Inventory moves from a host to its NUMA cell, and the allocations with it."""
    context = nova_context.get_admin_context()
    host, cell, server = (name_of(f"nova {word}") for word in ("host", "cell", "server"))
    claim = {"allocations": {host: {"resources": {"VCPU": 2, "MEMORY_MB": 512}}}}
    call("claim_resources", server, claim, name_of("nova project"), name_of("nova user"), VERSION)
    tree = client.get_provider_tree_and_ensure_root(context, host)
    tree.update_inventory("compute1", {"MEMORY_MB": MEMORY})
    tree.update_inventory("compute1_cell0", {"VCPU": CPUS})
    held = client.get_allocations_for_provider_tree(context, "compute1")
    held[server]["allocations"] = {
        host: {"resources": {"MEMORY_MB": 512}}, cell: {"resources": {"VCPU": 2}},
    }
    call("update_from_provider_tree", tree, allocations=held)
    call("get_allocs_for_consumer", server)
    call("update_from_provider_tree", tree, allocations=held)


def _removal(recorder: Recorder, client: report.SchedulerReportClient, call: object) -> None:
    first = types.SimpleNamespace(hypervisor_hostname="compute1", host="compute1", uuid=name_of("nova host"))
    second = types.SimpleNamespace(hypervisor_hostname="compute2", host="compute2", uuid=name_of("nova second"))
    call("delete_resource_provider", first)
    call("delete_allocation_for_instance", name_of("nova server"), force=True)
    call("delete_resource_provider", first)
    call("delete_resource_provider", second)
    recorder.call(client, "invalidate_resource_provider", name_of("nova host"))
    recorder.call(client, "clear_provider_cache")
    call("get_providers_in_tree", name_of("nova host"))
