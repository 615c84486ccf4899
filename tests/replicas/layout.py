"""Where the processes of a cluster are: ports, addresses and network namespaces."""

import dataclasses

# What a replica serves, as offsets from its first port.
PLACEMENT, SCHEDULER, COMPUTE, CONTROL, HEALTH = range(5)
# The ports of an engine's member with the same number, as offsets from the same port.
ENGINE_CLIENTS, ENGINE_PEERS, ENGINE_HEALTH = range(5, 8)
PORTS_EACH = 10
ENGINE_MEMBERS = 3

# The addresses in network namespaces: the last part is the replica's number and this one.
SUBNET = "10.77.0"
HUB_HOST = 1
ENGINE_HOST = 2
FIRST_REPLICA_HOST = 10


@dataclasses.dataclass(frozen=True)
class Layout:
    """The places of all processes. Without a ``prefix`` all of them use the loopback."""

    port: int
    prefix: str | None = None

    def replica_port(self, number: int, service: int) -> int:
        return self.port + PORTS_EACH * number + service

    def engine_port(self, number: int, purpose: int) -> int:
        return self.port + PORTS_EACH * number + purpose

    def replica_address(self, number: int) -> str:
        return f"{SUBNET}.{FIRST_REPLICA_HOST + number}" if self.prefix else "127.0.0.1"

    def engine_address(self) -> str:
        return f"{SUBNET}.{ENGINE_HOST}" if self.prefix else "127.0.0.1"

    def replica_namespace(self, number: int) -> str | None:
        return f"{self.prefix}-replica-{number}" if self.prefix else None

    def engine_namespace(self) -> str | None:
        return f"{self.prefix}-engine" if self.prefix else None

    @staticmethod
    def inside(namespace: str | None, command: list[str]) -> list[str]:
        """The command as it runs in a namespace."""
        return ["ip", "netns", "exec", namespace, *command] if namespace else command
