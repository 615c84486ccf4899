"""Servers by openstacksdk: made, waited for, changed, moved and deleted."""

from sdk_calls import Calls

WAIT_S = 60
# What a server of a cloud without power, consoles and volumes cannot do.
NOT_OFFERED = [
    "start_server", "stop_server", "pause_server", "unpause_server", "suspend_server", "resume_server",
    "get_server_console_output", "trigger_server_crash_dump", "rescue_server", "get_server_diagnostics",
    "get_server_password", "create_server_interface",
]


class ServerCalls:
    """What an administrator and a member do with servers. The flavors and the key are there already."""

    def __init__(self, calls: Calls, member: Calls) -> None:
        self.calls = calls
        self.member = member

    def create(self) -> None:
        call, check = self.calls, self.calls.check
        first = call(
            "create_server", "one", image="demo", flavor="small", wait=True, timeout=WAIT_S, key_name="ada",
            meta={"a": "b"}, userdata="#!/bin/sh\n", group="apart",
        )
        check("a server is active", first.status == "ACTIVE", first)
        check("it has its key and metadata", (first.key_name, first.metadata) == ("ada", {"a": "b"}), first)
        second = call("create_server", "two", image="demo", flavor="small", wait=True, timeout=WAIT_S, group="apart")
        hosts = {first.compute_host, second.compute_host}
        check("the members of a group are apart", len(hosts) == 2, hosts)
        members = call("get_server_group", "apart").member_ids
        check("the group has them", set(members) == {first.id, second.id}, members)
        image, flavor = call("get_image", "demo"), call("get_flavor", "small")
        by_objects = call("create_server", "by-objects", image=image, flavor=flavor, wait=True, timeout=WAIT_S)
        check("by objects", by_objects.status == "ACTIVE", by_objects)
        asked = call("compute.create_server", name="asked", image_id=image.id, flavor_id=flavor.id, networks="none")
        asked = call("compute.wait_for_server", asked, wait=WAIT_S, interval=0.2)
        check("by the proxy", asked.status == "ACTIVE", asked)
        self.calls.refused(
            400, "networks", "create_server", "wrong", image="demo", flavor="small",
            nics=[{"net-id": "70ace000-0000-4000-8000-000000000009"}],
        )
        self.calls.refused(
            400, "imageRef", "compute.create_server", name="wrong", flavor_id=flavor.id, networks="none",
            image_id="70ace000-0000-4000-8000-000000000009",
        )

    def read(self) -> None:
        call, check = self.calls, self.calls.check
        server = call("get_server", "one")
        check("it is found by its id", call("get_server_by_id", server.id).name == "one")
        check("its id", call("get_server_id", "one") == server.id)
        names = {one.name for one in call("list_servers", all_projects=True)}
        check("all are listed", {"one", "two", "by-objects", "asked"} <= names, names)
        check("detailed", {one.name for one in call("list_servers", detailed=True)} == names)
        check("bare", {one.name for one in call("list_servers", bare=True)} == names)
        check("filtered", [one.name for one in call("list_servers", filters={"name": "^one$"})] == ["one"])
        check("searched", [one.name for one in call("search_servers", "two")] == ["two"])
        check("in pages", len(call("compute.servers", details=False, limit=1)) >= 4)
        check("found", call("compute.find_server", "one").id == server.id)
        check("no such server", call("get_server", "nothing") is None)
        call("get_server_meta", server)
        call("get_openstack_vars", server)
        call("get_server_public_ip", server)
        check("no addresses", not any(call("compute.server_ips", server)))
        check("no interfaces", call("compute.server_interfaces", server) == [])
        check("no volumes", call("compute.volume_attachments", server) == [])
        call("compute.fetch_server_security_groups", server)
        hypervisors = call("compute.hypervisors", details=True, with_servers=True)
        on_hosts = {one["name"] for host in hypervisors for one in host.servers or []}
        check("hypervisors show their servers", {"one", "two"} <= on_hosts, on_hosts)
        limits = call("compute.get_limits").absolute
        check("what is in use counts", limits.instances_used == 4, limits)

    def change(self) -> None:
        call, check = self.calls, self.calls.check
        call("set_server_metadata", "one", {"c": "d"})
        call("delete_server_metadata", "one", ["a"])
        server = call("update_server", "one", name="uno")
        check("it has another name", server.name == "uno", server)
        server = call("compute.update_server", server, description="the first")
        check("it has a description", server.description == "the first", server)
        metadata = call("compute.get_server_metadata", server).metadata
        check("its metadata", metadata == {"c": "d"}, metadata)
        call("compute.set_server_metadata", server, e="f")
        call("compute.delete_server_metadata", server, ["e"])
        call("compute.add_tag_to_server", server, "red")
        call("compute.add_tag_to_server", server, "blue")
        call("compute.remove_tag_from_server", server, "red")
        check("its tags", call("compute.get_server", server.id).fetch_tags(self.calls.connection.compute).tags == ["blue"])
        check("by its tag", [one.name for one in call("compute.servers", tags="blue")] == ["uno"])
        call("compute.remove_tags_from_server", server)
        call("compute.lock_server", server)
        call("compute.unlock_server", server)
        call("update_server", "uno", name="one")

    def _wait(self, server: object, status: str = "ACTIVE") -> object:
        server = self.calls("compute.get_server", server.id)
        return self.calls("compute.wait_for_server", server, status=status, wait=WAIT_S, interval=0.2)

    def act(self) -> None:
        call, check = self.calls, self.calls.check
        server = call("get_server", "one")
        large = call("get_flavor", "large")
        call("compute.resize_server", server, large.id)
        self._wait(server, "VERIFY_RESIZE")
        call("compute.revert_server_resize", server)
        server = self._wait(server)
        check("a resize is reverted", server.flavor.vcpus == 1, server)
        call("compute.resize_server", server, large.id)
        self._wait(server, "VERIFY_RESIZE")
        call("compute.confirm_server_resize", server)
        server = self._wait(server)
        check("a resize is confirmed", server.flavor.vcpus == 2, server)
        before = server.compute_host
        call("compute.live_migrate_server", server, block_migration="auto")
        server = self._wait(server)
        check("it is migrated live", server.compute_host != before, server)
        before = server.compute_host
        call("compute.migrate_server", server)
        self._wait(server, "VERIFY_RESIZE")
        call("compute.confirm_server_resize", server)
        server = self._wait(server)
        check("it is migrated", server.compute_host != before, server)
        demo = call("get_image", "demo")
        rebuilt = call("rebuild_server", server.id, demo.id, wait=True, timeout=WAIT_S)
        check("it is rebuilt", rebuilt.status == "ACTIVE", rebuilt)
        call("compute.shelve_server", server)
        self._wait(server, "SHELVED_OFFLOADED")
        call("compute.unshelve_server", server)
        server = self._wait(server)
        check("it is unshelved", server.compute_host, server)
        actions = {one.action for one in call("compute.server_actions", server)}
        check("its actions", {"create", "resize", "migrate", "rebuild", "shelve", "unshelve"} <= actions, actions)
        action = call("compute.server_actions", server)[0]
        shown = call("compute.get_server_action", action.request_id, server)
        check("an action has its events", shown.events, shown)
        kinds = {one.migration_type for one in call("compute.migrations", instance_uuid=server.id)}
        check("its migrations", kinds == {"live-migration", "migration", "resize"}, kinds)
        check("none is under way", call("compute.server_migrations", server) == [])

    def not_offered(self) -> None:
        server = self.calls("get_server", "one")
        for name in NOT_OFFERED:
            self.calls.refused(501, "", f"compute.{name}", server)
        self.calls.refused(501, "", "compute.reboot_server", server, "HARD")
        self.calls.refused(501, "", "compute.create_server_image", server, "picture")
        self.calls.refused(501, "", "compute.create_console", server, "novnc")
        self.calls.refused(501, "", "compute.create_volume_attachment", server, volume_id=server.id)
        self.calls.refused(501, "", "get_compute_usage", "admin")
        self.calls.refused(409, "", "compute.shelve_offload_server", server)
        self.calls.refused(404, "", "compute.get_server", "70ace000-0000-4000-8000-00000000dead")

    def as_member(self) -> None:
        call, check = self.member, self.member.check
        check("a member sees no server of others", call("list_servers") == [])
        check("nor finds one", call("get_server", "one") is None)
        check("it sees images", [one.name for one in call("list_images")] == ["demo"])
        check("and flavors", {one.name for one in call("list_flavors")} == {"small", "large"})
        server = call("create_server", "mine", image="demo", flavor="small", wait=True, timeout=WAIT_S)
        check("it makes a server", server.status == "ACTIVE", server)
        check("whose host it is not told", not server.compute_host, server)
        group = call("create_server_group", "ours", policy="affinity")
        call("delete_server_group", group.id)
        check("its limits", call("compute.get_limits").absolute.instances_used == 1)
        for name in ("compute.hypervisors", "compute.services", "compute.aggregates"):
            call.refused(403, "", name)
        call.refused(403, "", "compute.create_flavor", name="mine", ram=1, vcpus=1, disk=1)
        call.refused(403, "", "placement.resource_providers")
        check("it deletes its server", call("delete_server", "mine", wait=True, timeout=WAIT_S))

    def delete(self) -> None:
        call, check = self.calls, self.calls.check
        for name in ("one", "two"):
            check(f"{name} is deleted", call("delete_server", name, wait=True, timeout=WAIT_S))
        check("deleting again says so", call("delete_server", "one", wait=True) is False)
        for name in ("by-objects", "asked"):
            call("compute.delete_server", call("compute.find_server", name))
        for name in ("by-objects", "asked"):
            server = call("compute.find_server", name)
            if server:
                call("compute.wait_for_delete", server, wait=WAIT_S, interval=0.2)
        check("none is left", call("list_servers", all_projects=True) == [])

    def parts(self) -> list:
        return [self.create, self.read, self.change, self.act, self.not_offered, self.as_member, self.delete]
