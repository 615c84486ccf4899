"""Random hosts, aggregates, options and requests for filters and weighers."""

import json
import random
import uuid

NOW_S = 1_000_000
ARCHITECTURES = ["x86_64", "aarch64", "i686", "ppc64le"]
HYPERVISORS = ["kvm", "qemu", "xen", "ironic"]
MODES = ["hvm", "xen", "exe"]
METRICS = ["cpu.frequency", "cpu.user.time", "cpu.percent", "cpu.idle.percent"]
FLAVORS = ["m1.small", "m1.large", "gpu", "x"]
PROJECTS = ["red", "green", "blue"]
NUMBERS = ["0", "1", "4", "8", " 16 ", "2.5", "-1", "1_000", "1e3", "many", "", "+3"]
IMAGES = [str(uuid.UUID(int=n)) for n in range(1, 5)]
SERVERS = [str(uuid.UUID(int=1000 + n)) for n in range(24)]
CELLS = [str(uuid.UUID(int=100 + n)) for n in range(3)]
IMAGE_PROPERTIES = {
    "os_distro": ["ubuntu", "fedora", ""],
    "os_type": ["linux", "windows", "Linux"],
    "hw_machine_type": ["q35", "pc"],
    "hw_cpu_cores": ["0", "2", "4"],
    "hw_boot_menu": ["true", "no", "1"],
    "hw_disk_bus": ["virtio", "scsi"],
    "img_version": ["1", "2"],
    "unknown_property": ["q35", "2"],
    "trait:HW_CPU_X86_AVX2": ["required"],
    "hw_numa_mem.0": ["512", "1024"],
}
WEIGHERS = [
    ("ram_weight_multiplier", True),
    ("cpu_weight_multiplier", True),
    ("disk_weight_multiplier", True),
    ("io_ops_weight_multiplier", True),
    ("soft_affinity_weight_multiplier", False),
    ("soft_anti_affinity_weight_multiplier", False),
    ("build_failure_weight_multiplier", True),
    ("cross_cell_move_weight_multiplier", True),
    ("pci_weight_multiplier", False),
    ("hypervisor_version_weight_multiplier", True),
    ("num_instances_weight_multiplier", True),
    ("image_props_weight_multiplier", True),
]
STATES = [
    "free_ram_mb",
    "total_usable_ram_mb",
    "free_disk_mb",
    "vcpus_total",
    "vcpus_used",
    "num_instances",
    "num_io_ops",
    "failed_builds",
    "hypervisor_type",
    "hypervisor_version",
    "hypervisor_hostname",
    "host",
    "nodename",
    "host_ip",
    "cpu_info",
    "supported_instances",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
    "disk_mb_used",
    "total_usable_disk_gb",
    "cell_uuid",
    "uuid",
    "limits",
    "no_such_thing",
    "stats",
    "disk_allocation_ratio",
]


class Case:
    """One random fleet, with one configuration and one request."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.aggregates = {self.uuid(): self.metadata() for _ in range(self.upto(4))}
        self.config = self.options()
        self.hosts = [self.host(number) for number in range(self.random.randint(1, 8))]
        self.group = self.some(self.server_group, 0.5)
        self.instance = self.pick(SERVERS)
        self.request = self.make_request()

    def pick(self, choices):
        return self.random.choice(choices)

    def upto(self, most: int) -> int:
        return self.random.randint(0, most)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def some(self, make, chance: float):
        return make() if self.maybe(chance) else None

    def uuid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def several(self, choices, most: int) -> list:
        return self.random.sample(choices, min(self.upto(most), len(choices)))

    def amount(self, most: int) -> int:
        return self.pick(
            [0, most, self.upto(most), self.upto(most), -self.upto(most // 4 + 1)]
        )

    def list_of(self, choices) -> str:
        return self.pick([",", " , "]).join(
            self.several(choices, 2) or [self.pick(choices)]
        )

    def metadata(self) -> dict:
        found = {}
        multipliers = [name for name, _ in WEIGHERS] + ["metrics_weight_multiplier"]
        makers = {
            "availability_zone": lambda: self.pick(["north", "south"]),
            "max_io_ops_per_host": lambda: self.pick(NUMBERS),
            "max_instances_per_host": lambda: self.pick(NUMBERS),
            "instance_type": lambda: self.list_of(FLAVORS),
            "filter_tenant_id": lambda: self.list_of(PROJECTS),
            "filter_tenant_id_2": lambda: self.list_of(PROJECTS),
            "ssd": lambda: self.list_of(["true", "false", "yes"]),
            "rank": lambda: self.list_of(NUMBERS),
            "os_distro": lambda: self.list_of(["ubuntu", "fedora"]),
            "hw_cpu_cores": lambda: self.list_of(["0", "2", "4"]),
            "hw_boot_menu": lambda: self.pick(["True", "true", "False"]),
            "hw_machine_type": lambda: self.list_of(["q35", "pc", ""]),
            "unknown_property": lambda: "q35",
            "traits_required": lambda: self.pick(["['HW_CPU_X86_AVX2']", "x"]),
            "hw_numa_mem": lambda: self.pick(["[512]", "512"]),
        }
        for key in self.several(sorted(makers), 4):
            found[key] = makers[key]()
        for key in self.several(multipliers, 2):
            found[key] = self.pick(NUMBERS + ["0.0", "0.25"])
        return found

    def options(self) -> dict:
        config: dict = {"metrics": {}}
        for name, may_be_negative in WEIGHERS:
            if self.maybe(0.5):
                value = self.pick([0.0, 1.0, 0.1, 2.5, 1000.0, self.random.random()])
                config[name] = -value if may_be_negative and self.maybe(0.4) else value
        settings = {
            "max_io_ops_per_host": lambda: self.upto(8),
            "max_instances_per_host": lambda: 1 + self.upto(6),
            "isolated_images": lambda: self.several(IMAGES, 2),
            "isolated_hosts": lambda: self.several(["host0", "host1", "HOST2"], 2),
            "restrict_isolated_hosts_to_isolated_images": lambda: self.maybe(0.5),
            "image_properties_default_architecture": lambda: self.pick(ARCHITECTURES),
            "image_props_weight_setting": lambda: self.several(
                [
                    "os_distro=2",
                    "os_type=-1.5",
                    "hw_machine_type=0",
                    "bad",
                    "=1",
                    "x=y",
                ],
                4,
            ),
            "service_down_time_s": lambda: self.pick([20, 60, 120]),
        }
        for name in self.several(sorted(settings), 6):
            config[name] = settings[name]()
        if self.maybe(0.1):
            config["aggregate_image_properties_isolation_namespace"] = self.pick(
                ["", "hw", "os"]
            )
        if self.maybe(0.6):
            ratios = [
                f"{name}={self.pick(['1', '-0.5', '0', '2.25'])}" for name in METRICS
            ]
            config["metrics"]["weight_setting"] = self.several(
                [*ratios, "bad", "x=y"], 3
            )
        config["metrics"]["required"] = self.maybe(0.2)
        if self.maybe(0.3):
            config["metrics"]["weight_multiplier"] = self.pick([0.0, -2.0, 3.0])
        if self.maybe(0.2):
            config["metrics"]["weight_of_unavailable"] = -float(self.upto(50))
        return config

    def server(self, number: str) -> dict:
        properties = {}
        for key in self.several(sorted(IMAGE_PROPERTIES), 4):
            properties[key] = self.pick(IMAGE_PROPERTIES[key])
        return {"uuid": number, "image_properties": properties}

    def host(self, number: int) -> dict:
        # Hosts are of one of three makes, so that some of them are alike.
        same_make = random.Random(self.upto(2))
        numbers = {
            "ram_total_mb": 65536,
            "ram_free_mb": self.amount(65536),
            "disk_total_gb": 1000,
            "disk_free_mb": self.amount(1000) * 1024,
            "disk_used_mb": self.upto(1000) * 1024,
            "vcpus_total": self.pick([8, 16, 64]),
            "vcpus_used": self.upto(64),
            "ram_ratio": self.pick([1.0, 1.5]),
            "cpu_ratio": self.pick([1.0, 4.0, 16.0, 0.1, 2.3]),
            "disk_ratio": self.pick([1.0, 0.9]),
            "devices_free": self.pick([0, 0, self.upto(10), 98, 99, 100, 500]),
        }
        bits = same_make.choice([None, 0, 40, 46])
        info = {
            "arch": same_make.choice(ARCHITECTURES),
            "topology": {"cores": same_make.choice([4, 8]), "threads": 2},
            "features": same_make.sample(["aes", "mmx", "sse4.2", "it's"], 2),
            "ratio": same_make.choice([1.5, 1e16, 2.0]),
            "smt": True,
            "none": None,
        }
        if bits is not None:
            info["maxphysaddr"] = {"mode": "emulate", "bits": bits}
        supported = [
            [
                same_make.choice(ARCHITECTURES),
                same_make.choice(HYPERVISORS),
                same_make.choice(MODES),
            ]
            for _ in range(same_make.randint(0, 3))
        ]
        busy = self.several(SERVERS, 6)
        return {
            "uuid": self.uuid(),
            "silent_s": self.pick([0, 5, 10, 20, 20.5, 59, 60, 61, 119, 120, 3600]),
            "aggregates": self.several(sorted(self.aggregates), 3),
            **numbers,
            "report": {
                "facts": {
                    "names": {
                        "service_host": (
                            f"host{number // 2}" if self.maybe(0.3) else f"host{number}"
                        ),
                        "node": f"node{number}",
                        "cell": self.pick(CELLS),
                        "ip": self.pick(
                            ["10.0.0.7", "10.0.1.8", "192.168.4.1", "fe80::5"]
                        ),
                        "hypervisor_hostname": self.pick([f"node{number}", None]),
                    },
                    "platform": {
                        "hypervisor_type": same_make.choice(["QEMU", "ironic", None]),
                        "hypervisor_version": same_make.choice(
                            [6002001, 2010000, 8000, 0, 1]
                        ),
                        "cpu_info": json.dumps(info),
                        "supported_instances": supported,
                    },
                    "stats": {
                        key: self.pick(
                            ["1", "5.5", "true", "x", '{"a": {"b": 3}}', "[1, 2]"]
                        )
                        for key in self.several(
                            ["ssd", "rank", "gpu", "hypervisor_type", "nested"], 3
                        )
                    },
                },
                "load": {
                    "io_ops": self.upto(10),
                    "failed_builds": self.pick([0, 0, 1, 5]),
                },
                "metrics": [
                    {"name": name, "value": float(self.upto(1000))}
                    for name in self.several(METRICS, 4)
                ],
                "instances": [self.server(server) for server in busy],
                "disabled": self.some(lambda: "broken", 0.15),
                "is_forced_down": self.maybe(0.1),
            },
        }

    def server_group(self) -> dict:
        policy = self.pick(
            ["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"]
        )
        group = {
            "uuid": self.uuid(),
            "policy": policy,
            "members": self.several(SERVERS, 12),
            "hosts": self.several(["host0", "host1", "host2", "host3", "Host1"], 3),
        }
        if policy == "anti-affinity" and self.maybe(0.5):
            group["max_server_per_host"] = self.pick([1, 2, 3])
        return group

    def requirement(self) -> str:
        number, word = self.pick(NUMBERS), self.pick(
            ["x86_64", "QEMU", "true", "aes", "host1"]
        )
        operator = self.pick(["=", "==", "!=", ">=", "<="])
        textual = self.pick(["s==", "s!=", "s<", "s<=", "s>", "s>="])
        return self.pick(
            [
                number,
                word,
                f"{operator} {number}",
                f"{textual} {word}",
                f"<in> {word}",
                f"<all-in> {word} mmx",
                f"<or> {word} <or> {number}",
                f"<or> {word} {number}",
                f"{operator}",
                f"{operator} {number} ignored",
                "<or> true <or> yes",
                ">= 1",
                "<or>",
                "['aes', 'mmx']",
                "None",
                "True",
                "1e+16",
                "{'cores': 4, 'threads': 2}",
                "== 4",
            ]
        )

    def extra_specs(self) -> dict:
        inside = [
            "arch",
            "topology:cores",
            "topology",
            "features",
            "ratio",
            "smt",
            "none",
            "maxphysaddr:bits",
            "topology:cores:x",
            "absent",
            "",
        ]
        makers = [
            lambda: "aggregate_instance_extra_specs:"
            + self.pick(["ssd", "rank", "absent"]),
            lambda: self.pick(["ssd", "rank", "gpu", "free_ram_mb", "other"]),
            lambda: "capabilities:cpu_info:" + self.pick(inside),
            lambda: "capabilities:"
            + self.pick([*STATES, "ssd", "rank", "nested:a:b", "stats:rank"]),
            lambda: "hw:maxphysaddr_bits",
            lambda: self.pick(["hw:cpu_policy", "trait:CUSTOM_X", "capabilities:"]),
            lambda: "capabilities:cpu_info:maxphysaddr:bits",
        ]
        return {self.pick(makers)(): self.requirement() for _ in range(self.upto(2))}

    def image(self) -> dict:
        properties = self.server("")["image_properties"]
        for key, values in {
            "hw_architecture": [*ARCHITECTURES, "amd64"],
            "architecture": ARCHITECTURES,
            "img_hv_type": [*HYPERVISORS, "QEMU"],
            "hw_vm_mode": [*MODES, "hv"],
            "img_hv_requested_version": [
                ">=6.2",
                "<6.2.1",
                "==6.2.1",
                "!=2.10,>2",
                ">=8",
                ">1!0",
                "<=6.2.1rc1",
                ">6.2.1.dev1",
            ],
            "hw_maxphysaddr_bits": ["0", "40", "42"],
        }.items():
            if self.maybe(0.25):
                properties[key] = self.pick(values)
        return {"id": self.pick([*IMAGES, None]), "properties": properties}

    def query(self):
        if self.maybe(0.5):
            operand = self.pick(
                ["$" + name for name in STATES] + ["$stats.rank", "$stats.nested.a"]
            )
            other = self.pick(
                [0, 1, 5, 1024, 2.5, "QEMU", "host1", True, None, "", "1", []]
            )
            return [self.pick(["=", "<", ">", "<=", ">=", "in"]), operand, other]
        operator = self.pick(["and", "or", "not", "not", "and", "or", "=", "xor"])
        return [operator, *(self.query() for _ in range(self.random.randint(0, 2)))]

    def hints(self) -> dict:
        makers = {
            "different_host": lambda: self.several(SERVERS, 5),
            "same_host": lambda: self.several([*SERVERS, "", "server"], 8),
            "build_near_host_ip": lambda: [
                self.pick(["10.0.0.5", "fe80::1", "10.0", "", "host1"])
            ],
            "cidr": lambda: [
                self.pick(["/24", "/16", "/0", "", "/255.255.0.0", "/40", "24", "/x"])
            ],
            "query": lambda: [
                self.pick([json.dumps(self.query())] * 8 + ["", "[", "7", '"x"', "{}"])
            ],
            "_nova_check_type": lambda: ["rebuild"],
        }
        return {key: makers[key]() for key in self.several(sorted(makers), 3)}

    def make_request(self) -> dict:
        request: dict = {
            "flavor": {
                "name": self.pick(FLAVORS),
                "vcpus": 1,
                "memory_mb": 512,
                "extra_specs": self.extra_specs() if self.maybe(0.7) else {},
            },
            "project_id": self.pick([*PROJECTS, "other"]),
            "scheduler_hints": self.hints() if self.maybe(0.5) else {},
        }
        if self.maybe(0.85):
            request["image"] = self.image()
        if self.group:
            request["instance_group"] = self.group
        if self.maybe(0.3):
            request["requested_destination"] = {
                "cell": self.pick([*CELLS, None]),
                "allow_cross_cell_move": self.maybe(0.7),
            }
            if self.maybe(0.3):
                request["requested_destination"]["host"] = self.pick(
                    ["host0", "host1", "HOST1"]
                )
                if self.maybe(0.3):
                    request["requested_destination"]["node"] = self.pick(
                        ["node0", "node1"]
                    )
        if self.maybe(0.15):
            request["ignore_hosts"] = self.several(["host0", "HOST1", "host9"], 2)
        if self.maybe(0.05):
            request["force_hosts"] = [self.pick(["host0", "HOST1"])]
        if self.maybe(0.05):
            request["force_nodes"] = [self.pick(["node0", "NODE1", "node1"])]
        return request
