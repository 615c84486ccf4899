"""Watcher's helper, which reads what hosts have for its model of the cluster."""

import pathlib

from recorder import Recorder, methods_of, name_of
from watcher.common import placement_helper
from watcher.conf import CONF


def drive(recorder: Recorder, configuration: pathlib.Path) -> list[str]:
    """Call every method, on what is there and on what is not; the methods that there are."""
    CONF(["--config-file", str(configuration)], project="watcher")
    helper = placement_helper.PlacementHelper()
    placement = helper.connection.placement
    host = name_of("watcher host")
    # The helper only reads; what it reads is made by the connection that it holds.
    recorder.call(placement, "post", "/resource_providers", json={"name": "watched", "uuid": host})
    recorder.call(helper, "get_inventories", host)
    body = {"resource_provider_generation": 0, "inventories": {}}
    body["inventories"]["VCPU"] = {"total": 8, "allocation_ratio": 16.0, "reserved": 1}
    body["inventories"]["MEMORY_MB"] = {"total": 4096, "step_size": 128, "min_unit": 128, "max_unit": 2048}
    recorder.call(placement, "put", f"/resource_providers/{host}/inventories", json=body)
    recorder.call(helper, "get_inventories", host)
    recorder.call(helper, "get_inventories", name_of("watcher missing"))
    recorder.call(helper, "get_inventories", "no uuid")
    recorder.call(placement, "delete", f"/resource_providers/{host}")
    return methods_of(placement_helper.PlacementHelper)
