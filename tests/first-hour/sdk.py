"""The newest openstacksdk against `placewright up`, with the clouds.yaml as written and nothing overridden.

Each call that applies to what Placewright serves is made at least once, through the cloud layer that Ansible and
programs use (`create_server(wait=True)`) and through the proxies of the services.  What is not offered has to be
refused with a status and a reason, and nothing may hang.  The last line is "N passed, N failed".
"""

import argparse
import hashlib
import os
import pathlib
import sys

import installation
from sdk_calls import Calls, run_parts
from sdk_placement import PlacementCalls
from sdk_servers import ServerCalls

sys.path.insert(0, str(installation.launch.TESTS / "lib"))
from tally import Tally  # noqa: E402

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGh1Z2Ugc3VycHJpc2UgdGhhdCB0aGlzIGlzIGEga2V5 ada@example.org"


class Administration:
    """What an administrator does before and after there are servers."""

    def __init__(self, calls: Calls, folder: pathlib.Path) -> None:
        self.calls = calls
        self.folder = folder

    def identity(self) -> None:
        call, check = self.calls, self.calls.check
        project = call("create_project", "blue", "default", description="a colour")
        call("update_project", "blue", description="a feeling")
        shown = call("get_project", "blue")
        check("a project is as it was set", shown.description == "a feeling", shown)
        check("it is listed", "blue" in {one.name for one in call("list_projects")})
        check("it is found", call("search_projects", "blue")[0].id == project.id)
        user = call("create_user", name="ada", password="first", domain_id="default", default_project=project.id)
        call("update_user", "ada", description="who counts", domain_id="default")
        check("a user is as it was set", call("get_user", "ada").description == "who counts")
        check("it is listed", "ada" in {one.name for one in call("list_users")})
        check("it is found", call("search_users", "ada")[0].id == user.id)
        call("get_user_by_id", user.id)
        call("create_role", "painter")
        call("update_role", "painter", "artist")
        check("a role is as it was set", call("get_role", "artist").name == "artist")
        check("it is listed", "artist" in {one.name for one in call("list_roles")})
        call("search_roles", "artist")
        check("a role is granted", call("grant_role", "artist", user="ada", project="blue"))
        check("once only", call("grant_role", "artist", user="ada", project="blue") is False)
        granted = call("list_role_assignments", {"user": user.id})
        check("it is listed", len(granted) == 1, granted)
        check("it is revoked", call("revoke_role", "artist", user="ada", project="blue"))
        check("a role is deleted", call("delete_role", "artist"))
        types = {one.type for one in call("list_services")}
        check("the services are listed", {"identity", "compute", "placement", "image"} <= types, types)
        call("search_services", "placement")
        call("get_service", "placement")
        check("each has endpoints", len(call("list_endpoints")) >= len(types))
        call("list_domains")
        call("get_domain", name_or_id="default")
        for name in ("identity.projects", "identity.users", "identity.roles", "identity.services", "identity.regions"):
            check(f"{name} lists something", call(name))
        call("identity.find_project", "blue")
        call("identity.find_user", "ada")
        credential = call("identity.create_application_credential", self.calls.connection.current_user_id, "robot")
        mine = call("identity.application_credentials", self.calls.connection.current_user_id)
        check("an application credential is listed", credential.id in {one.id for one in mine}, mine)
        call("identity.delete_application_credential", self.calls.connection.current_user_id, credential)
        check("a user is deleted", call("delete_user", "ada"))
        check("a project is deleted", call("delete_project", "blue"))
        check("it is gone", call("get_project", "blue") is None)
        check("groups are none", call("list_groups") == [])

    def images(self) -> None:
        call, check = self.calls, self.calls.check
        content = os.urandom(3_000_000)
        (self.folder / "image.raw").write_bytes(content)
        image = call(
            "create_image", "debian", filename=str(self.folder / "image.raw"), disk_format="raw",
            container_format="bare", wait=True, timeout=60, tags=["first"], hw_cpu_policy="dedicated",
            validate_checksum=True,
        )
        shown = call("get_image", "debian")
        check("its status", shown.status == "active", shown)
        check("its checksum", shown.checksum == hashlib.md5(content).hexdigest(), shown)
        check("its size", shown.size == len(content), shown)
        check("it is listed", "debian" in {one.name for one in call("list_images")})
        call("search_images", "debian")
        call("get_image_by_id", image.id)
        check("its name", call("get_image_name", "debian") == "debian")
        check("its id", call("get_image_id", "debian") == image.id)
        call("wait_for_image", image, timeout=60)
        call("download_image", "debian", output_path=str(self.folder / "copy.raw"))
        check("the copy is the same", (self.folder / "copy.raw").read_bytes() == content)
        call("update_image_properties", shown, os_distro="debian", min_ram=64)
        shown = call("image.get_image", image.id)
        check("properties are set", (shown.os_distro, shown.min_ram) == ("debian", 64), shown)
        call("image.update_image", image.id, visibility="public", hw_cpu_policy="shared")
        call("image.add_tag", image.id, "second")
        call("image.remove_tag", image.id, "first")
        tags = call("image.find_image", "debian").tags
        check("tags are set", tags == ["second"], tags)
        call("image.update_image", image.id, visibility="shared")
        demo = call("identity.find_project", "demo")
        member = call("image.add_member", image.id, member_id=demo.id)
        check("a member is pending", member.status == "pending", member)
        check("it is listed", len(call("image.members", image.id)) == 1)
        call("image.get_member", demo.id, image.id)
        call("image.remove_member", demo.id, image.id)
        call("image.get_image_schema")
        call("image.get_images_schema")
        call("image.get_import_info")
        again = call(
            "create_image", "debian", filename=str(self.folder / "image.raw"), disk_format="raw", wait=True, timeout=60,
            validate_checksum=True,
        )
        check("the same image is not uploaded twice", again.id == image.id, again)
        check("it is deleted", call("delete_image", "debian", wait=True, timeout=60))
        check("it is gone", call("get_image", "debian") is None)

    def networks(self) -> None:
        call, check = self.calls, self.calls.check
        names = ["networks", "subnets", "ports", "routers", "security_groups", "ips", "extensions", "availability_zones"]
        for name in names:
            found = call(f"network.{name}")
            check(f"network.{name} lists nothing", found == [], found)
        for name in ("list_networks", "list_subnets", "list_ports", "list_routers", "list_floating_ips"):
            check(f"{name} lists nothing", call(name) == [])
        check("no network is found", call("get_network", "lan") is None)
        self.calls.refused(501, "no networks", "create_network", "lan")

    def flavors(self) -> None:
        call, check = self.calls, self.calls.check
        for name, cpus in (("small", 1), ("large", 2)):
            flavor = call("create_flavor", name, ram=512 * cpus, vcpus=cpus, disk=1)
            check("it is as it was asked for", (flavor.name, flavor.vcpus) == (name, cpus), flavor)
        call("set_flavor_specs", flavor.id, {"hw:cpu_policy": "shared", "a:b": "c"})
        call("unset_flavor_specs", flavor.id, ["a:b"])
        shown = call("get_flavor", "large", get_extra=True)
        check("its extra specs", shown.extra_specs == {"hw:cpu_policy": "shared"}, shown)
        check("both are listed", {one.name for one in call("list_flavors", get_extra=True)} == {"small", "large"})
        call("search_flavors", "small")
        call("get_flavor_by_id", flavor.id)
        check("by its memory", call("get_flavor_by_ram", 600).name == "large")
        private = call("create_flavor", "private", ram=256, vcpus=1, disk=0, is_public=False)
        demo = call("identity.find_project", "demo")
        call("add_flavor_access", private.id, demo.id)
        check("who has access", len(call("list_flavor_access", private.id)) == 1)
        call("remove_flavor_access", private.id, demo.id)
        call("compute.update_flavor", private, description="for a few")
        call("compute.get_flavor_extra_specs_property", flavor, "hw:cpu_policy")
        call("compute.update_flavor_extra_specs_property", flavor, "hw:cpu_policy", "shared")
        call("compute.delete_flavor_extra_specs_property", flavor, "hw:cpu_policy")
        call("compute.flavors", details=False)
        check("it is deleted", call("delete_flavor", "private"))
        check("it is gone", call("get_flavor", "private") is None)

    def keypairs(self) -> None:
        call, check = self.calls, self.calls.check
        pair = call("create_keypair", "ada", KEY)
        check("its fingerprint", pair.fingerprint, pair)
        check("it is listed", [one.name for one in call("list_keypairs")] == ["ada"])
        call("search_keypairs", "ada")
        check("it is as it was imported", call("get_keypair", "ada").public_key == KEY)
        call("compute.find_keypair", "ada")
        call("compute.keypairs", user_id=self.calls.connection.current_user_id)
        self.calls.refused(400, "public_key", "create_keypair", "made")

    def quotas(self) -> None:
        call, check = self.calls, self.calls.check
        call("set_compute_quotas", "demo", instances=3, cores=12)
        quotas = call("get_compute_quotas", "demo")
        check("quotas are as they were set", (quotas.instances, quotas.cores) == (3, 12), quotas)
        check("with what is in use", call("compute.get_quota_set", "demo", usage=True).usage["cores"] == 0)
        call("compute.get_quota_set_defaults", "demo")
        limits = call("get_compute_limits", "demo")
        check("limits of another project are for itself", limits is not None, limits)
        check("limits", call("compute.get_limits").absolute.instances_used == 0)
        call("compute.update_quota_set", "demo", instances=4)
        call("delete_compute_quotas", "demo")
        check("quotas are reverted", call("get_compute_quotas", "demo").instances == -1)
        call("compute.get_quota_class_set", "default")
        call("compute.update_quota_class_set", "default", cores=1000)
        call("compute.update_quota_class_set", "default", cores=-1)
        call("get_network_quotas", "demo")

    def hosts(self) -> None:
        call, check = self.calls, self.calls.check
        hosts = call("list_hypervisors")
        check("three hosts", len(hosts) == 3, hosts)
        host = call("compute.find_hypervisor", hosts[0].name)
        check("it is up", (host.state, host.status) == ("up", "enabled"), host)
        call("compute.get_hypervisor", hosts[0].id)
        call("compute.hypervisors", details=True, with_servers=True)
        services = call("compute.services", binary="nova-compute")
        check("its service", len(services) == 3, services)
        service = call("compute.find_service", services[0].id)
        service = call("compute.disable_service", service, disabled_reason="a test")
        check("it is disabled", service.status == "disabled", service)
        call("compute.enable_service", service)
        call("compute.update_service", service, disabled_reason="again", status="disabled")
        call("compute.update_service", service, status="enabled")
        call("compute.update_service_forced_down", service, forced=True)
        call("compute.update_service_forced_down", service, forced=False)
        names = [one.name for one in call("compute.availability_zones", details=True)]
        check("the zone", "nova" in names, names)
        check("its name", "nova" in call("list_availability_zone_names"))

    def aggregates(self) -> None:
        call, check = self.calls, self.calls.check
        host = call("compute.services", binary="nova-compute")[0].host
        aggregate = call("create_aggregate", "rack", availability_zone="north")
        call("add_host_to_aggregate", "rack", host)
        call("set_aggregate_metadata", "rack", {"a": "b"})
        shown = call("get_aggregate", "rack")
        check("it is as it was set", shown.hosts == [host] and shown.metadata.get("a") == "b", shown)
        check("its zone is listed", "north" in call("list_availability_zone_names"))
        call("update_aggregate", "rack", name="row")
        check("it is listed", [one.name for one in call("list_aggregates")] == ["row"])
        call("search_aggregates", "row")
        call("compute.get_aggregate", aggregate.id)
        call("compute.find_aggregate", "row")
        call("remove_host_from_aggregate", "row", host)
        check("it is deleted", call("delete_aggregate", "row"))
        check("it is gone", call("get_aggregate", "row") is None)

    def groups(self) -> None:
        call, check = self.calls, self.calls.check
        group = call("create_server_group", "apart", policy="anti-affinity")
        check("it is listed", "apart" in {one.name for one in call("list_server_groups")})
        call("search_server_groups", "apart")
        check("it is found", call("get_server_group", "apart").id == group.id)
        call("compute.find_server_group", "apart")
        call("compute.server_groups", all_projects=True)

    def clean(self) -> None:
        call, check = self.calls, self.calls.check
        check("a group is deleted", call("delete_server_group", "apart"))
        check("a key is deleted", call("delete_keypair", "ada"))
        check("a flavor is deleted", call("delete_flavor", "small") and call("delete_flavor", "large"))
        check("deleting again says so", call("delete_flavor", "small") is False)

    def parts_before(self) -> list:
        return [
            self.identity, self.images, self.networks, self.flavors, self.keypairs, self.quotas, self.hosts,
            self.aggregates, self.groups,
        ]


def main() -> int:
    argparse.ArgumentParser(description=__doc__).parse_args()
    tally = Tally()
    with installation.running("first-hour-sdk") as cloud:
        calls = Calls(cloud, tally)
        member = Calls(cloud, tally, name="demo")
        administration = Administration(calls, cloud.folder)
        servers = ServerCalls(calls, member)
        placement = PlacementCalls(calls)
        parts = administration.parts_before() + servers.parts() + placement.parts() + [administration.clean]
        run_parts(tally, parts)
        made, methods = calls.made + member.made, calls.methods | member.methods
        print(f"{made} calls of {len(methods)} methods of openstacksdk")
    return tally.finish()


if __name__ == "__main__":
    sys.exit(main())
