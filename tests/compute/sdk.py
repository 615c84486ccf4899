"""The walk from Python: openstacksdk's cloud layer and its compute proxy."""

import os

import images
import openstack


def quotas(compute, check) -> None:
    """Sets quotas of the caller's project and of all projects, reads what is in use, and reverts the quotas."""
    project = "admin"
    used = compute.get_quota_set(project, usage=True).usage
    check("what is in use of quotas", used["instances"] >= 1 and used["cores"] >= 1, used)
    compute.update_quota_set(project, instances=used["instances"], cores=100, key_pairs=7)
    quota_set = compute.get_quota_set(project)
    is_set = (quota_set.instances, quota_set.cores) == (used["instances"], 100)
    check("set quotas", is_set, quota_set)
    limits = compute.get_limits().absolute
    check("limits are the quotas", limits.instances == used["instances"], limits)
    try:
        compute.create_server(
            name="w-over", flavor_id="w1", image_id=images.IMAGE, networks="none"
        )
        check("a server beyond the quota", False, "it was created")
    except openstack.exceptions.ForbiddenException as error:
        check("a server beyond the quota", "Quota exceeded for instances" in str(error), error)
    try:
        compute.update_quota_set(project, instances=0)
        check("a quota below what is in use", False, "it was set")
    except openstack.exceptions.BadRequestException as error:
        check("a quota below what is in use", "already used" in str(error), error)
    compute.update_quota_set(project, instances=0, force=True)
    check("by force", compute.get_quota_set(project).instances == 0)
    compute.revert_quota_set(project)
    quota_set, defaults = compute.get_quota_set(project), compute.get_quota_set_defaults(project)
    check("revert quotas", quota_set.instances == defaults.instances, quota_set)
    compute.update_quota_class_set("default", ram=1_000_000)
    check("the default class", compute.get_quota_class_set("default").ram == 1_000_000)
    check("defaults", compute.get_quota_set_defaults(project).ram == 1_000_000)
    compute.update_quota_class_set("default", ram=-1)


def walk(counts, config: str) -> None:
    """Creates, lists, moves and deletes a server."""
    os.environ["OS_CLIENT_CONFIG_FILE"] = config
    cloud = openstack.connect(cloud="placewright")
    compute = cloud.compute

    def check(what: str, value, detail="") -> None:
        counts.check(f"sdk: {what}", bool(value), str(detail or repr(value)))

    flavor = compute.create_flavor(
        name="w.sdk", ram=256, vcpus=1, disk=1, id="w3", is_public=True
    )
    check("create a flavor", flavor.id == "w3", flavor)
    compute.create_flavor_extra_specs(flavor, {"hw:cpu_policy": "shared"})
    specs = compute.fetch_flavor_extra_specs(flavor).extra_specs
    check("its extra specs", specs == {"hw:cpu_policy": "shared"}, specs)
    group = compute.create_server_group(name="w-soft", policy="soft-affinity")
    server = compute.create_server(
        name="w-sdk",
        flavor_id=flavor.id,
        image_id=images.IMAGE,
        networks="none",
        scheduler_hints={"group": group.id},
        metadata={"a": "b"},
    )
    server = compute.wait_for_server(server, wait=60)
    check("create a server and wait for it", server.status == "ACTIVE", server)
    check("it knows its host", server.compute_host, server)
    check("it is in the list", server.id in {one.id for one in compute.servers()})
    check("pages of one", len([*compute.servers(details=False, limit=1)]) >= 4)
    sorted_names = [one.name for one in compute.servers(sort_key="display_name", sort_dir="asc")]
    check("sorted by name", sorted_names == sorted(sorted_names), sorted_names)
    check("find it by name", compute.find_server("w-sdk").id == server.id)
    compute.set_server_metadata(server, c="d")
    check("metadata", compute.fetch_server_metadata(server).metadata == {"a": "b", "c": "d"})
    compute.live_migrate_server(server, host=None, force=False, block_migration="auto")
    server = compute.wait_for_server(compute.get_server(server), wait=60)
    check("migrate it live", server.status == "ACTIVE", server)
    compute.resize_server(server, "w2")
    server = compute.wait_for_server(server, status="VERIFY_RESIZE", wait=60)
    compute.confirm_server_resize(server)
    server = compute.wait_for_server(compute.get_server(server), wait=60)
    check("resize it and confirm", server.flavor["vcpus"] == 2, server)
    actions = {one.action for one in compute.server_actions(server)}
    check("its actions", {"create", "resize", "live-migration"} <= actions, actions)
    kinds = {one.migration_type for one in compute.migrations(instance_uuid=server.id)}
    check("its migrations", kinds == {"live-migration", "resize"}, kinds)
    check("hypervisors", len([*compute.hypervisors(details=True)]) >= 4)
    check("services", all(one.state == "up" for one in compute.services()))
    check("aggregates", "w-aggregate" in {one.name for one in compute.aggregates()})
    check("limits", compute.get_limits().absolute.total_instances_used is not None)
    quotas(compute, check)
    compute.delete_server(server)
    compute.wait_for_delete(server, wait=60)
    check("delete it", compute.find_server("w-sdk") is None, "it is still there")
    compute.delete_server_group(group)
    compute.delete_flavor(flavor)
    check("delete its flavor", compute.find_flavor("w.sdk") is None, "it is still there")
    try:
        compute.get_server("70ace000-0000-4000-8000-00000000dead")
        check("no such server", False, "there is one")
    except openstack.exceptions.NotFoundException:
        check("no such server", True)
