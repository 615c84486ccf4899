"""Cyborg's client: a deployable is a child of the host, with an inventory and traits of its device."""

import pathlib
import types

from cyborg.common import placement_client
from cyborg.conf import CONF
from recorder import Recorder, methods_of, name_of


def drive(recorder: Recorder, configuration: pathlib.Path) -> list[str]:
    """Call every method, on what is there and on what is not; the methods that there are."""
    CONF(["--config-file", str(configuration)], project="cyborg")
    client = placement_client.PlacementClient()
    context = types.SimpleNamespace(global_id=f"req-{name_of('cyborg request')}")

    def call(name: str, /, *words: object, **more: object) -> object:
        return recorder.call(client, name, *words, **more)

    host, device, missing = (name_of(f"cyborg {word}") for word in ("host", "device", "missing"))
    call("post", "/resource_providers", {"name": "accelerated", "uuid": host}, version="1.20")
    call("ensure_resource_provider", context, device, "accelerated_FPGA_0000_5e", host)
    call("ensure_resource_provider", context, device, "accelerated_FPGA_0000_5e", host)
    call("ensure_resource_provider", context, missing, "accelerated_FPGA_0000_5e", host)
    call("get_resource_provider", device)
    call("get_resource_provider", missing)
    call("get_providers_in_tree", context, host)
    call("get_providers_in_tree", context, missing)
    call("ensure_resource_classes", context, ["CUSTOM_FPGA_INTEL"])
    call("ensure_resource_classes", context, ["CUSTOM_FPGA_INTEL"])
    call("ensure_resource_classes", context, ["FPGA"])
    call("ensure_resource_classes", context, ["fpga"])
    inventories = {"CUSTOM_FPGA_INTEL": {"total": 2, "min_unit": 1, "max_unit": 1, "reserved": 0}}
    call("update_inventory", device, inventories)
    call("update_inventory", device, inventories, resource_provider_generation=99)
    call("update_inventory", device, {"CUSTOM_NONE": {"total": 1}})
    call("update_inventory", missing, inventories)
    call("update_rp_inventory_reserved", device, "CUSTOM_FPGA_INTEL", 2, 1)
    call("update_rp_inventory_reserved", device, "CUSTOM_FPGA_INTEL", 2, 2)
    call("update_rp_inventory_reserved", device, "CUSTOM_FPGA_INTEL", 2, 3)
    call("get", f"/resource_providers/{device}/inventories")
    names = ["CUSTOM_FPGA_INTEL_PAC", "CUSTOM_FPGA_FUNCTION_ID_AB12", "CUSTOM_FPGA_FUNCTION_ID_CD34"]
    call("add_traits_to_rp", device, names)
    call("add_traits_to_rp", device, names)
    call("add_traits_to_rp", device, ["FPGA_INTEL"])
    call("add_traits_to_rp", missing, names)
    call("_get_rp_traits", device)
    call("delete_trait_by_name", context, device, "CUSTOM_FPGA_INTEL_PAC")
    call("delete_traits_with_prefixes", context, device, ["CUSTOM_FPGA_FUNCTION"])
    call("delete_trait_by_name", context, device, "CUSTOM_NONE")
    call("get", "/traits/CUSTOM_FPGA_INTEL_PAC", version="1.6")
    call("put", "/traits/CUSTOM_FPGA_INTEL_PAC", None, version="1.6")
    call("delete", "/traits/CUSTOM_FPGA_INTEL_PAC", version="1.6")
    answer = call("get", "/resource_classes", version="1.2")
    # The id itself differs each time.
    recorder.call(_Given(client), "request_id_is_given", answer)
    call("delete_provider", host)
    call("delete_rc_by_name", context, "CUSTOM_FPGA_INTEL")
    call("delete_provider", device)
    call("delete_rc_by_name", context, "CUSTOM_FPGA_INTEL")
    call("delete_rc_by_name", context, "CUSTOM_FPGA_INTEL")
    call("delete_provider", host)
    call("delete_provider", host)
    return methods_of(placement_client.PlacementClient, {"get_placement_request_id"})


class _Given:
    """Asks the client for the id of a request."""

    def __init__(self, client: placement_client.PlacementClient) -> None:
        self.client = client

    def request_id_is_given(self, answer: object) -> bool:
        return bool(self.client.get_placement_request_id(answer))
