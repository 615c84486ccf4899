"""Wait until no server is between two states."""

import time
from typing import Any

from compute import Compute, is_settled

# The wait between two looks.
PAUSE_S = 0.2


def wait_until_settled(
    port: int, deleted: set[str], seconds: float
) -> tuple[dict[str, dict[str, Any]], list[dict[str, Any]], float]:
    """Waits until no server is between two states.

    Gives all servers, those that still are between two states after the time, and how long it took. The servers
    in ``deleted``, whose deletion was acknowledged, have to go away.
    """
    began = time.monotonic()
    client = Compute(port)
    while True:
        found = {server["id"]: server for server in client.servers()}
        unsettled = [
            server for server in found.values() if not is_settled(server) or server["id"] in deleted
        ]
        waited = time.monotonic() - began
        if not unsettled or waited > seconds:
            client.connection.close()
            return found, unsettled, waited
        time.sleep(PAUSE_S)
