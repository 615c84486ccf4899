"""Draw requests to the scheduler's API, and make one value of a body wrong."""

import copy
import json
import random
import re
import uuid
from typing import Any

from chaos import STRANGE_VALUES, paths_in

CELLS = [f"c0000000-0000-4000-8000-00000000000{n}" for n in (1, 2)]
RACKS = [f"ac000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3)]
GROUPS = [f"60000000-0000-4000-8000-00000000000{n}" for n in range(4)]
STRANGE = STRANGE_VALUES + [
    "00000000-0000-0000-0000-000000000000",
    "ABCDEF00-0000-0000-0000-00000000000G",
    "required",
    "forbidden",
    "hard",
    "same",
    "affinity",
    ["00000000-0000-0000-0000-000000000000"],
    [["nope"]],
    {"VCPU": -1},
    {"VCPU": 10**19},
    ["=", "$free_ram_mb", 1],
    '[">=", "$free_ram_mb"]',
    "<in> x",
    ">= ",
    "<or> 1 <or>",
    "s== ",
    "0-200000000",
    "^",
    "1-",
    "../..",
]
EXTRA_SPECS: list[tuple[str, list[Any]]] = [
    ("resources:VCPU", ["1", 2, "0", "-1", "x", ""]),
    ("resources:CUSTOM_NOPE", ["1"]),
    ("resources1:VCPU", ["1", "x"]),
    ("resources_GPU:VGPU", ["1"]),
    ("trait:HW_CPU_X86_AVX2", ["required", "forbidden", "in:x", "maybe"]),
    ("trait1:CUSTOM_NOPE", ["required"]),
    ("trait:any", ["x"]),
    ("group_policy", ["none", "isolate", "both"]),
    ("hw:cpu_policy", ["dedicated", "shared", "mixed", "nope"]),
    ("hw:cpu_thread_policy", ["isolate", "require", "x"]),
    ("hw:cpu_dedicated_mask", ["0", "0-1", "^0", "9-1", "0-99999999"]),
    ("hw:emulator_threads_policy", ["share", "isolate", "x"]),
    ("hw:numa_nodes", ["1", "2", "0", "200", "x"]),
    ("hw:numa_cpus.0", ["0", "0,1", "7", "-"]),
    ("hw:numa_mem.0", ["512", "x", "-1"]),
    ("hw:mem_page_size", ["large", "small", "any", "2048", "0", "1x"]),
    ("hw:maxphysaddr_mode", ["emulate", "passthrough", "x"]),
    ("hw:maxphysaddr_bits", ["42", "x", "99999999999"]),
    ("hw:mem_encryption", ["true", "x"]),
    ("hw:pci_numa_affinity_policy", ["required", "socket", "x"]),
    ("hw:vif_multiqueue_enabled", ["true"]),
    ("hw:tpm_version", ["2.0", "1.2", "9"]),
    ("hw:locked_memory", ["true", "x"]),
    ("pci_passthrough:alias", ["a:1", "a", "a:x", ":", "a:0,b:1"]),
    ("accel:device_profile", ["dp", ""]),
    ("capabilities:cpu_arch", ["x86_64", "<in> x", ">= 5", "s== 1"]),
    ("aggregate_instance_extra_specs:ssd", ["true", "<or> a <or> b"]),
    ("os:secure_boot", ["required", "x"]),
    ("ram_weight_multiplier", ["1.0", "x"]),
]
IMAGE: list[tuple[str, list[Any]]] = [
    ("hw_architecture", ["x86_64", "x"]),
    ("img_hv_type", ["kvm", "x"]),
    ("hw_vm_mode", ["hvm", "x"]),
    ("hw_cpu_policy", ["dedicated", "x"]),
    ("hw_numa_nodes", [1, "2", 0, "x"]),
    ("hw_numa_cpus.0", ["0", "x", [0, 1]]),
    ("hw_mem_page_size", ["large", "x"]),
    ("hw_disk_bus", ["virtio", "x"]),
    ("hw_vif_model", ["virtio", "x"]),
    ("hw_machine_type", ["q35", "x=y"]),
    ("hw_tpm_version", ["2.0", "x"]),
    ("trait:CUSTOM_A", ["required", "x"]),
    ("hw_pci_numa_affinity_policy", ["socket", "x"]),
    ("min_ram", ["1"]),
    ("hw_boot_menu", [True, "x"]),
]


class Drawer:
    """Bodies that are right, about the hosts and instances of one worker."""

    def __init__(self, rng: random.Random, hosts: list[str]) -> None:
        self.rng = rng
        self.hosts = hosts
        self.candidates: list[str] = []

    def maybe(self, container: dict, name: str, chance: float, draw) -> None:
        if self.rng.random() < chance:
            container[name] = draw()

    def some(self, choices: list, most: int) -> list:
        return self.rng.sample(choices, self.rng.randint(0, min(most, len(choices))))

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    def any_uuid(self) -> str:
        return self.rng.choice([self.uuid(), *self.hosts, *RACKS, *GROUPS, *CELLS])

    def table(self, choices: list[tuple[str, list]], most: int) -> dict:
        return {name: self.rng.choice(values) for name, values in self.some(choices, most)}

    def flavor(self) -> dict:
        rng = self.rng
        flavor: dict = {"vcpus": rng.choice([1, 1, 2, 4]), "memory_mb": 256}
        self.maybe(flavor, "root_gb", 0.5, lambda: 1)
        self.maybe(flavor, "ephemeral_gb", 0.1, lambda: 1)
        self.maybe(flavor, rng.choice(["swap", "swap_mb"]), 0.1, lambda: 100)
        self.maybe(flavor, "name", 0.2, lambda: "m1.small")
        self.maybe(flavor, "extra_specs", 0.4, lambda: self.table(EXTRA_SPECS, 3))
        return flavor

    def destination(self) -> dict:
        found: dict = {}
        number = self.rng.randrange(len(self.hosts))
        self.maybe(found, "host", 0.3, lambda: f"host-{self.hosts[number]}")
        self.maybe(found, "node", 0.2, lambda: f"node-{self.hosts[number]}")
        self.maybe(found, "cell", 0.3, lambda: self.rng.choice(CELLS))
        self.maybe(found, "aggregates", 0.3, lambda: [self.some(RACKS, 2) or RACKS])
        self.maybe(found, "forbidden_aggregates", 0.2, lambda: self.some(RACKS, 2))
        self.maybe(found, "allow_cross_cell_move", 0.2, lambda: True)
        return found

    def hints(self) -> dict:
        rng = self.rng
        choices = [
            ("same_host", [self.uuid(), [self.uuid()]]),
            ("different_host", [[self.uuid(), "x"]]),
            ("group", [rng.choice(GROUPS)]),
            ("query", ['[">=", "$free_ram_mb", 1]', "[]", "nope", ["and"]]),
            ("build_near_host_ip", ["192.168.0.1", "x"]),
            ("cidr", ["/24", "/x"]),
            ("target_cell", ["x"]),
            ("_nova_check_type", ["rebuild", ["rebuild"]]),
        ]
        return {name: rng.choice(values) for name, values in self.some(choices, 2)}

    def group(self) -> dict:
        rng = self.rng
        policies = ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]
        group: dict = {"uuid": rng.choice(GROUPS), "policy": rng.choice(policies)}
        self.maybe(group, "max_server_per_host", 0.3, lambda: rng.randint(1, 3))
        self.maybe(group, "members", 0.3, lambda: [self.uuid()])
        self.maybe(group, "hosts", 0.2, lambda: ["host-x"])
        return group

    def resources(self) -> dict:
        group: dict = {"requester_id": self.rng.choice(["port-1", "a_b", self.uuid()])}
        self.maybe(group, "resources", 0.8, lambda: {"VCPU": 1})
        self.maybe(group, "required_traits", 0.3, lambda: ["HW_CPU_X86_AVX2"])
        self.maybe(group, "any_traits", 0.2, lambda: [["HW_CPU_X86_AVX2", "HW_NIC_SRIOV"]])
        self.maybe(group, "forbidden_traits", 0.2, lambda: ["CUSTOM_NOPE"])
        self.maybe(group, "aggregates", 0.2, lambda: [RACKS])
        self.maybe(group, "forbidden_aggregates", 0.1, lambda: RACKS[:1])
        self.maybe(group, "in_tree", 0.2, lambda: self.rng.choice(self.hosts))
        return group

    def network(self) -> dict:
        network: dict = {"port_id": self.uuid()}
        self.maybe(network, "vnic_type", 0.4, lambda: self.rng.choice(["normal", "direct", "x"]))
        self.maybe(network, "physical_network", 0.3, lambda: "physnet1")
        self.maybe(network, "tunneled", 0.2, lambda: True)
        self.maybe(network, "segments", 0.2, lambda: [self.uuid()])
        self.maybe(
            network,
            "resource_request",
            0.4,
            lambda: self.rng.choice(
                [
                    {"resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}, "required": []},
                    {
                        "request_groups": [
                            {"id": self.uuid(), "resources": {"VCPU": 1}, "required": []}
                        ],
                        "same_subtree": [],
                    },
                ]
            ),
        )
        return network

    def pci(self) -> dict:
        spec = {"vendor_id": "8086", "product_id": "1", "resource_class": "CUSTOM_PCI"}
        return {"request_id": self.uuid(), "count": 1, "spec": [spec]}

    def rule(self) -> dict:
        rng = self.rng
        relations = ["same", "different", "spread", "near", "far"]
        rule: dict = {"relation": rng.choice(relations)}
        level = lambda: rng.choice(["rack", "rack", "row", "host", "nope"])
        is_far = rule["relation"] in ("near", "far")
        self.maybe(rule, "level", 0.05 if is_far else 0.95, level)
        self.maybe(rule, "strength", 0.5, lambda: rng.choice(["hard", "soft"]))
        self.maybe(rule, "to", 0.3, lambda: [self.uuid()])
        self.maybe(rule, "place", 0.2, lambda: [rng.choice([*RACKS, "north/r1", "r1", "nope"])])
        self.maybe(rule, "max_skew", 0.2, lambda: rng.randint(0, 2))
        self.maybe(rule, "weight", 0.2, lambda: rng.choice([0, 1, 1000, 1001]))
        return rule

    def request(self) -> dict:
        rng = self.rng
        spec: dict = {"flavor": self.flavor(), "project_id": "p", "user_id": "u"}
        image = {"id": "i", "name": "n", "disk_format": "qcow2"}
        choices = [
            ("image", lambda: {**image, "properties": self.table(IMAGE, 3)}),
            ("is_bfv", lambda: True),
            ("availability_zone", lambda: rng.choice(["north", "nova"])),
            ("num_instances", lambda: rng.randint(1, 3)),
            ("ignore_hosts", lambda: [f"host-{self.hosts[0]}"]),
            ("force_hosts", lambda: [f"host-{self.hosts[-1]}"]),
            ("force_nodes", lambda: [f"node-{self.hosts[-1]}"]),
            ("requested_destination", self.destination),
            ("scheduler_hints", self.hints),
            ("instance_group", self.group),
            ("requested_resources", lambda: [self.resources()]),
            ("group_policy", lambda: rng.choice(["none", "isolate"])),
            ("request_level_params", lambda: {"root_required": ["COMPUTE_NODE"]}),
            ("pci_requests", lambda: [self.pci()]),
            ("requested_networks", lambda: [self.network()]),
            ("device_profiles", lambda: [{"name": "dp", "groups": [{"resources:VGPU": "1"}]}]),
            ("topology_rules", lambda: [self.rule()]),
        ]
        for name, draw in self.some(choices, rng.choice([0, 0, 1, 2, 4])):
            spec[name] = draw()
        return spec

    def destinations(self, instances: list[str]) -> dict:
        rng = self.rng
        body: dict = {
            "request": self.request(),
            "instances": instances,
            "claim": rng.random() < 0.8,
        }
        self.maybe(body, "alternates", 0.5, lambda: rng.randint(0, 3))
        self.maybe(body, "minimum", 0.3, lambda: rng.choice(["all", 1]))
        self.maybe(body, "explain", 0.2, lambda: True)
        names = [*self.hosts, *(f"host-{host}" for host in self.hosts), "nobody"]
        self.maybe(body, "explain_hosts", 0.2, lambda: rng.sample(names, rng.randint(0, 3)))
        return body

    def candidate(self) -> str:
        return self.rng.choice(self.candidates or [self.uuid()])

    def update(self) -> Any:
        rng = self.rng
        load = {"io_ops": rng.randint(0, 9), "running_builds": 1, "failed_builds": 0}
        report = {"uuid": self.uuid(), "group": None, "image_properties": {"a": "b"}}
        return rng.choice(
            [
                {"full": self.full(rng.choice(self.hosts))},
                "alive",
                {"facts": self.full(rng.choice(self.hosts))["facts"]},
                {"load": load},
                {"metrics": [{"name": "cpu", "value": rng.random()}]},
                {"instance_came": [report, load]},
                {"instance_went": [self.uuid(), load]},
                {"disabled": rng.choice(["why", None])},
                {"forced_down": False},
            ]
        )

    def full(self, host: str) -> dict:
        rng = self.rng
        names = {
            "service_host": f"host-{host}",
            "node": f"node-{host}",
            "cell": rng.choice(CELLS),
            "ip": "192.168.0.7",
        }
        platform = {
            "hypervisor_type": "QEMU",
            "hypervisor_version": 2012000,
            "cpu_info": '{"arch": "x86_64"}',
            "supported_instances": [["x86_64", "kvm", "hvm"]],
        }
        facts = {"names": names, "platform": platform, "stats": {"a": "1"}}
        return {"facts": facts, "metrics": [{"name": "cpu", "value": 0.5}]}

    def aggregate(self) -> dict:
        body: dict = {"name": "rack", "metadata": {"ssd": "true"}}
        self.maybe(body, "zone", 0.3, lambda: "north")
        return body

    def topology(self) -> dict:
        rows = [{"name": "row", "aggregates": []}]
        racks: list[dict] = [{"name": "rack", "aggregates": RACKS}]
        self.maybe(racks[0], "names", 0.5, lambda: {RACKS[0]: "north/r1", self.rng.choice(RACKS): "south/r1"})
        body: dict = {"levels": racks + self.some(rows, 1)}
        pair = lambda: {
            "from": self.rng.choice(RACKS),
            "to": self.rng.choice(RACKS),
            "distance": self.rng.randint(0, 9),
        }
        self.maybe(body, "distances", 0.3, lambda: [pair()])
        return body


def mutate(rng: random.Random, body: Any) -> tuple[Any, tuple]:
    """A copy with one value made wrong or unusual, and the path of that value."""
    body = copy.deepcopy(body)
    paths = paths_in(body)[1:]
    if not paths or rng.random() < 0.02:
        return copy.deepcopy(rng.choice(STRANGE)), ()
    path = rng.choice(paths)
    container = body
    for step in path[:-1]:
        container = container[step]
    last = path[-1]
    kind = rng.random()
    if kind < 0.6:
        container[last] = copy.deepcopy(rng.choice(STRANGE))
    elif kind < 0.75:
        del container[last]
    elif isinstance(container, dict) and kind < 0.85:
        value = container.pop(last)
        name = str(last)
        container[rng.choice([name.upper(), name + "x", "", "nope"])] = value
    elif isinstance(container, dict):
        container["additional"] = copy.deepcopy(rng.choice(STRANGE))
    elif kind < 0.95:
        container.append(copy.deepcopy(container[last]))
    else:
        container.extend(copy.deepcopy(container[last]) for _ in range(1100))
    return body, path


def encode(rng: random.Random, body: Any, wrong: bool) -> bytes:
    """The body as JSON; when it is to be wrong, sometimes as something near it."""
    text = json.dumps(body)
    if not wrong or rng.random() < 0.93:
        return text.encode()
    kind = rng.randrange(6)
    if kind == 0:
        return text[: rng.randrange(len(text))].encode()
    if kind == 1:
        return (text + rng.choice(["x", "{}", ","])).encode()
    if kind == 2:
        return text.encode("utf-16")
    if kind == 3:
        return text.replace('"', '"\xff', 1).encode("latin-1")
    if kind == 4:
        number = rng.choice(["NaN", "Infinity", "1e999", "01", "1e2"])
        return re.sub(r"\d+", number, text, count=1).encode()
    return b"[" * rng.choice([10, 600, 20000])
