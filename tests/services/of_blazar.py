"""Blazar's client: a reservation is a class of its own on a child of the host."""

import pathlib

from blazar import config  # noqa: F401  it registers the options that the client reads
from blazar.utils.openstack import placement
from oslo_config import cfg
from recorder import Recorder, methods_of, name_of


def drive(recorder: Recorder, configuration: pathlib.Path) -> list[str]:
    """Call every method, on what is there and on what is not; the methods that there are."""
    cfg.CONF(["--config-file", str(configuration)], project="blazar")
    client = placement.BlazarPlacementClient()

    def call(name: str, /, *words: object, **more: object) -> object:
        return recorder.call(client, name, *words, **more)

    host, missing, lease, other = (name_of(f"blazar {word}") for word in ("host", "missing", "lease", "other"))
    call("create_resource_provider", "reserved", host)
    call("create_resource_provider", "reserved", host)
    call("create_resource_provider", "orphan", missing, missing)
    call("get_resource_provider", "reserved")
    call("get_resource_provider", "nobody")
    call("list_resource_providers")
    call("list_resource_providers", f"in_tree={host}")
    call("list_resource_providers", "in_tree=wrong")
    call("list_resource_providers", "required=CUSTOM_NONE", microversion="1.39")
    call("create_reservation_provider", "reserved")
    call("create_reservation_provider", "reserved")
    call("create_reservation_provider", "nobody")
    call("create_reservation_class", lease)
    call("create_reservation_class", lease)
    call("create_resource_class", "CUSTOM_OTHER")
    call("create_resource_class", "other")
    call("update_reservation_inventory", "reserved", lease, 3)
    call("update_reservation_inventory", "reserved", lease, 2, additional=True)
    call("update_reservation_inventory", "reserved", other, 1)
    call("update_reservation_inventory", "nobody", lease, 1)
    child = call("get_resource_provider", "blazar_reserved") or {"uuid": missing}
    call("get_inventory", child["uuid"])
    call("get_inventory", missing)
    call("get_traits", child["uuid"])
    call("get_traits", missing)
    call("put", "/traits/CUSTOM_LEASED", None)
    call("put", f"/resource_providers/{host}/traits", {"traits": ["CUSTOM_LEASED"], "resource_provider_generation": 0})
    call("get_traits", host)
    call("update_inventory", child["uuid"], "CUSTOM_OTHER", 4, False)
    call("update_inventory", child["uuid"], "CUSTOM_NONE", 4, False)
    call("update_inventory", missing, "CUSTOM_OTHER", 4, False)
    call("get", "/allocation_candidates?resources=CUSTOM_OTHER:1")
    call("delete_inventory", child["uuid"], "CUSTOM_OTHER")
    call("delete_inventory", child["uuid"], "CUSTOM_OTHER")
    call("delete_reservation_class", lease)
    call("delete_reservation_inventory", "reserved", lease)
    call("delete_reservation_inventory", "reserved", lease)
    call("delete_reservation_inventory", "nobody", lease)
    call("delete_reservation_class", lease)
    call("delete_reservation_class", lease)
    call("delete_resource_class", "CUSTOM_OTHER")
    call("delete_resource_class", "CUSTOM_OTHER")
    call("delete_resource_provider", host)
    call("delete_reservation_provider", "reserved")
    call("delete_reservation_provider", "reserved")
    call("post", "/resource_providers", {"name": "posted", "uuid": missing})
    call("delete", f"/resource_providers/{missing}")
    call("delete_resource_provider", host)
    call("delete_resource_provider", host)
    return methods_of(placement.BlazarPlacementClient)
