"""The client of neutron-lib, as Neutron's placement and segments plugins use it."""

import pathlib

from keystoneauth1 import loading
from neutron_lib.placement import client
from oslo_config import cfg
from recorder import Recorder, methods_of, name_of

FULL = {"min_unit": 1, "max_unit": 1000, "reserved": 0, "step_size": 1, "allocation_ratio": 1.0}


def drive(recorder: Recorder, configuration: pathlib.Path) -> list[str]:
    """Call every method, on what is there and on what is not; the methods that there are."""
    conf = cfg.ConfigOpts()
    loading.register_auth_conf_options(conf, "placement")
    loading.register_session_conf_options(conf, "placement")
    # Neutron registers these two itself.
    conf.register_opts([cfg.StrOpt("region_name"), cfg.StrOpt("endpoint_type", default="public")], group="placement")
    conf(["--config-file", str(configuration)])
    of_reports = client.PlacementAPIClient(conf)
    of_segments = client.PlacementAPIClient(conf, openstack_api_version="placement 1.1")

    def call(name: str, /, *words: object, **more: object) -> object:
        return recorder.call(of_reports, name, *words, **more)

    host, agent, port, missing = (name_of(f"neutron {word}") for word in ("host", "agent", "port", "missing"))
    _providers(call, host, agent, port, missing)
    _names(call)
    _inventories(call, agent, port, missing)
    _traits(call, port, missing)
    _allocations(call, port, missing)
    _segments(recorder, of_segments, missing)
    for name in (port, agent, host, missing):
        call("delete_resource_provider", name)
    return methods_of(client.PlacementAPIClient)


def _providers(call: object, host: str, agent: str, port: str, missing: str) -> None:
    call("create_resource_provider", {"uuid": host, "name": "host"})
    call("create_resource_provider", {"uuid": host, "name": "host"})
    call("create_resource_provider", {"uuid": missing, "name": "x", "parent_provider_uuid": name_of("nowhere")})
    call("ensure_resource_provider", {"uuid": agent, "name": "host:agent", "parent_provider_uuid": host})
    call("ensure_resource_provider", {"uuid": agent, "name": "host:agent", "parent_provider_uuid": host})
    call("ensure_resource_provider", {"uuid": port, "name": "host:agent:eth0", "parent_provider_uuid": agent})
    call("update_resource_provider", {"uuid": host, "name": "another host"})
    call("update_resource_provider", {"uuid": host, "name": "host:agent"})
    call("update_resource_provider", {"uuid": missing, "name": "y"})
    call("update_resource_provider", {"uuid": agent, "name": "host:agent", "parent_provider_uuid": port})
    call("get_resource_provider", host)
    call("get_resource_provider", missing)
    call("delete_resource_provider", host)
    call("list_resource_providers")
    call("list_resource_providers", name="another host")
    call("list_resource_providers", in_tree=host)
    call("list_resource_providers", uuid=agent)
    call("list_resource_providers", member_of=name_of("aggregate"))
    call("list_resource_providers", resources="VCPU:1")
    call("list_resource_providers", name="nobody")


def _names(call: object) -> None:
    call("list_traits")
    call("update_trait", "CUSTOM_PHYSNET_LAN")
    call("update_trait", "CUSTOM_PHYSNET_LAN")
    call("update_trait", "PHYSNET_LAN")
    call("get_trait", "CUSTOM_PHYSNET_LAN")
    call("get_trait", "CUSTOM_PHYSNET_WAN")
    call("delete_trait", "CUSTOM_PHYSNET_WAN")
    call("list_resource_classes")
    call("create_resource_class", "CUSTOM_IPS")
    call("create_resource_class", "CUSTOM_IPS")
    call("create_resource_class", "ips")
    call("update_resource_class", "CUSTOM_IPS")
    call("update_resource_class", "CUSTOM_OTHER")
    call("get_resource_class", "CUSTOM_IPS")
    call("get_resource_class", "CUSTOM_NONE")
    call("delete_resource_class", "CUSTOM_OTHER")
    call("delete_resource_class", "CUSTOM_OTHER")
    call("delete_resource_class", "VCPU")


def _inventories(call: object, agent: str, port: str, missing: str) -> None:
    both = {name: FULL | {"total": 1000} for name in ("NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC")}
    call("update_resource_provider_inventories", port, both)
    call("update_resource_provider_inventories", port, both, resource_provider_generation=99)
    call("update_resource_provider_inventories", port, {"CUSTOM_NONE": FULL | {"total": 1}})
    call("update_resource_provider_inventories", port, {"VCPU": FULL | {"total": 0}})
    call("update_resource_provider_inventories", missing, both)
    call("get_inventory", port, "NET_BW_EGR_KILOBIT_PER_SEC")
    call("get_inventory", port, "VCPU")
    call("get_inventory", missing, "VCPU")
    call("update_resource_provider_inventory", port, FULL | {"total": 2000}, "NET_BW_EGR_KILOBIT_PER_SEC")
    call("update_resource_provider_inventory", port, FULL | {"total": 2000}, "VCPU")
    call("update_resource_provider_inventory", missing, FULL | {"total": 2000}, "VCPU", 0)
    call("update_resource_provider_inventory", port, FULL | {"total": 1}, "NET_BW_EGR_KILOBIT_PER_SEC", 99)
    call("update_resource_provider_inventories", agent, {"NET_PACKET_RATE_KILOPACKET_PER_SEC": FULL | {"total": 5}})
    call("list_resource_providers", resources="NET_BW_EGR_KILOBIT_PER_SEC:1500")
    call("delete_resource_provider_inventory", agent, "VCPU")
    call("delete_resource_provider_inventory", missing, "VCPU")
    call("delete_resource_provider_inventory", agent, "NET_PACKET_RATE_KILOPACKET_PER_SEC")
    call("delete_resource_provider_inventories", agent)
    call("delete_resource_provider_inventories", missing)


def _traits(call: object, port: str, missing: str) -> None:
    call("update_resource_provider_traits", port, ["CUSTOM_PHYSNET_LAN"])
    call("update_resource_provider_traits", port, ["CUSTOM_PHYSNET_LAN"], resource_provider_generation=99)
    call("update_resource_provider_traits", port, ["CUSTOM_PHYSNET_WAN"])
    call("update_resource_provider_traits", missing, ["CUSTOM_PHYSNET_LAN"])
    call("list_resource_provider_traits", port)
    call("list_resource_provider_traits", missing)
    call("delete_trait", "CUSTOM_PHYSNET_LAN")
    call("delete_resource_provider_traits", missing)
    call("delete_resource_provider_traits", port)
    call("delete_trait", "CUSTOM_PHYSNET_LAN")


def _allocations(call: object, port: str, missing: str) -> None:
    server, project, user = (name_of(f"neutron {word}") for word in ("server", "project", "user"))
    claim = {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 100, "NET_BW_IGR_KILOBIT_PER_SEC": 100}}
    body = {"project_id": project, "user_id": user, "consumer_generation": None}
    call("list_allocations", server)
    call("update_qos_allocation", server, {port: {"NET_BW_EGR_KILOBIT_PER_SEC": 1}})
    call("update_allocation", server, body | {"allocations": {port: claim}})
    call("update_allocation", server, body | {"allocations": {port: claim}})
    call("update_allocation", missing, body | {"allocations": {missing: claim}})
    call("list_allocations", server)
    call("update_qos_allocation", server, {port: {"NET_BW_EGR_KILOBIT_PER_SEC": 50}})
    call("update_qos_allocation", server, {port: {"NET_BW_EGR_KILOBIT_PER_SEC": 100_000}})
    call("update_qos_allocation", server, {missing: {"NET_BW_EGR_KILOBIT_PER_SEC": 1}})
    call("delete_resource_provider_inventories", port)
    call("delete_resource_provider", port)
    call("update_qos_allocation", server, {port: {"NET_BW_IGR_KILOBIT_PER_SEC": -100}})
    call("list_allocations", server)
    call("update_qos_allocation", server, {port: {"NET_BW_EGR_KILOBIT_PER_SEC": -150}})
    call("list_allocations", server)
    call("delete_resource_provider_inventories", port)


def _segments(recorder: Recorder, of_segments: object, missing: str) -> None:
    """What the plugin of routed networks does, in the version that it asks for."""
    segment, aggregate = name_of("neutron segment"), name_of("neutron segment aggregate")

    def call(name: str, /, *words: object, **more: object) -> object:
        return recorder.call(of_segments, name, *words, **more)

    call("create_resource_provider", {"name": "Neutron segment id 1", "uuid": segment})
    call("associate_aggregates", segment, [aggregate])
    call("associate_aggregates", missing, [aggregate])
    call("associate_aggregates", segment, ["no uuid"])
    call("list_aggregates", segment)
    call("list_aggregates", missing)
    addresses = FULL | {"total": 250, "reserved": 2, "resource_class": "IPV4_ADDRESS"}
    call("update_resource_provider_inventory", segment, addresses, "IPV4_ADDRESS")
    call("get_inventory", segment, "IPV4_ADDRESS")
    call("update_resource_provider_inventory", segment, addresses | {"reserved": 3}, "IPV4_ADDRESS", 99)
    call("list_resource_providers", member_of=aggregate)
    call("list_resource_providers", name="Neutron segment id 1")
    call("delete_resource_provider_inventory", segment, "IPV4_ADDRESS")
    call("delete_resource_provider", segment)
    call("get_resource_provider", segment)
