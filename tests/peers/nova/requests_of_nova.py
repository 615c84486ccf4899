"""Random requests that a compute service could get: mostly sound, some broken."""

import random
import uuid

HOSTS = ["host1", "host2", "host3"]
WORDS = ["", "none", "true", "1", "yes", "False", "0", "maybe"]
AMOUNTS = ["1", "2", "0", "16", " 3 ", "+4", "1_000", "-1", "x", "", "1.5", "007"]
CLASSES = [
    "VCPU",
    "PCPU",
    "MEMORY_MB",
    "DISK_GB",
    "VGPU",
    "CUSTOM_GOLD",
    "CUSTOM_",
    "FOO",
]
TRAITS = ["HW_CPU_X86_AVX2", "CUSTOM_GOLD", "STORAGE_DISK_SSD", "COMPUTE_TRUSTED_CERTS"]
SUFFIXES = ["", "", "", "1", "2", "_a", "b-c", "X" * 64, "X" * 65, "ä", "01"]
ALIASES = {
    "gpu": {"spec": [{"vendor_id": "10de", "product_id": "1eb8"}]},
    "nic": {"numa_policy": "required", "spec": [{"resource_class": "fast-nic"}]},
    "qat": {
        "numa_policy": "preferred",
        "spec": [
            {"resource_class": "CUSTOM_QAT", "traits": "HW_GPU_API_VULKAN,my trait"}
        ],
    },
    "std": {
        "spec": [{"resource_class": "pgpu", "traits": "custom_x,hw_gpu_api_vulkan"}]
    },
}


# Values that nothing accepts: worth a try, but not often.
BROKEN = {
    "odd",
    "x",
    "9",
    "0-",
    "^9",
    "^0-9",
    "1-9",
    "0",
    "02",
    "-1",
    " 2",
    "3",
    "maybe",
}
BROKEN |= {
    "gone:1",
    "gpu",
    "gpu:x",
    "absent",
    "empty",
    "vax",
    "beos",
    "512KiBx",
    "1,^1",
}


def pick(rng: random.Random, values: list[str]) -> str:
    """Any of the values, a broken one seldom."""
    sound = [value for value in values if value not in BROKEN]
    return rng.choice(sound if sound and rng.random() < 0.92 else values)


def uid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def case(seed: int, number: int) -> dict:
    """One request with everything that it refers to, in plain data."""
    rng = random.Random(f"{seed}/{number}")
    # How likely each extra spec and image property is.
    chance = rng.choice([0.01, 0.03, 0.1])
    flavor = flavor_of(rng, chance)
    made = {
        "flavor": flavor,
        "image": image_of(rng, chance),
        "is_bfv": rng.random() < 0.2,
        "project_id": rng.choice(["p1", "p2", "p3"]),
        "zone": rng.choice([None] * 5 + ["north", "south", "nova"] * 2 + ["mars"]),
        "networks": [network(rng) for _ in range(rng.choice([0, 0, 0, 1, 1, 2]))],
        "params": params(rng),
        "requested": requested(rng),
        "aggregates": aggregates(rng),
        "version": rng.choice([0, 72, 73, 80]),
        "pci_in_placement": rng.random() < 0.5,
        "aliases": ALIASES,
        "profiles": profiles(rng),
        "options": {
            name: rng.random() < (0.1 if "required" in name else 0.4)
            for name in (
                "limit_tenants_to_placement_aggregate",
                "placement_aggregate_required_for_tenants",
                "query_placement_for_image_type_support",
                "enable_isolated_aggregate_filtering",
                "image_metadata_prefilter",
                "query_placement_for_routed_network_aggregates",
            )
        },
    }
    properties = made["image"]["properties"]
    asks = (
        "hw:mem_encryption" in flavor["extra_specs"]
        or "hw_mem_encryption" in properties
    )
    if asks and rng.random() < 0.8:
        properties["hw_firmware_type"] = "uefi"
    add_destination(rng, made)
    return made


def flavor_of(rng: random.Random, chance: float) -> dict:
    vcpus = rng.choice([1, 2, 4, 4, 8])
    specs: dict[str, str] = {}
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        key = f"resources{rng.choice(SUFFIXES)}:{rng.choice(CLASSES)}"
        specs[key] = rng.choice(AMOUNTS[:4] if rng.random() < 0.8 else AMOUNTS)
    for _ in range(rng.choice([0, 0, 1, 2])):
        value = rng.choice(["required", "required", "forbidden", "forbidden", "maybe"])
        specs[f"trait{rng.choice(SUFFIXES)}:{rng.choice(TRAITS)}"] = value
    if rng.random() < chance:
        specs["trait:HW_CPU_HYPERTHREADING"] = rng.choice(["required", "forbidden"])
    if rng.random() < 0.6:
        specs["group_policy"] = rng.choice(["none", "isolate"] * 4 + ["x"])
    if rng.random() < 0.05:
        # A bare-metal flavor takes nothing but its own class.
        specs |= {f"resources:{name}": "0" for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
        specs["resources:CUSTOM_BAREMETAL"] = "1"
    processors(rng, chance, specs, vcpus)
    machine(rng, chance, specs)
    return {
        "name": "m1",
        "vcpus": vcpus,
        "memory_mb": rng.choice([512, 2048, 1000, 4096]),
        "root_gb": rng.choice([0, 1, 20]),
        "ephemeral_gb": rng.choice([0, 0, 5]),
        "swap": rng.choice([0, 0, 1, 1023, 1024, 1025]),
        "extra_specs": specs,
    }


def processors(rng: random.Random, chance: float, specs: dict, vcpus: int) -> None:
    def maybe(key: str, values: list[str], more: float = 1) -> None:
        if rng.random() < chance * more:
            specs[key] = pick(rng, values)

    maybe("hw:cpu_policy", ["shared", "dedicated", "dedicated", "mixed", "odd"], 6)
    pinned = specs.get("hw:cpu_policy")
    if pinned == "mixed":
        maybe(
            "hw:cpu_dedicated_mask", ["0-0", "0-1", "^0", "^0-1", "9", "0-", "^9"], 20
        )
    maybe("hw:cpu_dedicated_mask", ["0", "1-2"], 0.2)
    maybe(
        "hw:cpu_thread_policy",
        ["prefer", "isolate", "require", "odd"],
        6 if pinned in ("dedicated", "mixed") else 0.2,
    )
    maybe(
        "hw:emulator_threads_policy",
        ["share", "isolate", "odd"],
        6 if pinned in ("dedicated", "mixed") else 0.2,
    )
    maybe(
        "hw:cpu_realtime",
        ["yes", "no", "1"],
        3 if pinned in ("dedicated", "mixed") else 0.2,
    )
    maybe(
        "hw:cpu_realtime_mask",
        ["^0", "0", "1-9", "^0-9", "0-3"],
        3 if pinned in ("dedicated", "mixed") else 0.2,
    )
    maybe("hw:numa_nodes", ["1", "2", "2", "4", "0", "3", "02", "x", "-1"], 2)
    nodes = specs.get("hw:numa_nodes")
    if nodes == "2" and rng.random() < 0.5:
        half = max(vcpus // 2, 1)
        specs["hw:numa_cpus.0"] = f"0-{half - 1}"
        specs["hw:numa_cpus.1"] = f"{half}-{vcpus - 1}"
        maybe("hw:numa_cpus.1", ["0-1", "9", "x", "1,^1"], 2)
        specs["hw:numa_mem.0"] = rng.choice(["256", "500", "1024"])
        specs["hw:numa_mem.1"] = rng.choice(["256", "500", "1024", "3072"])
        if rng.random() < chance:
            del specs["hw:numa_mem.1"]
    sizes = ["small", "large", "any", "2048", "2MB", "1GB", "16Mbit", "512KiB", "odd"]
    maybe("hw:mem_page_size", sizes, 2)
    maybe("hw:locked_memory", WORDS, 0.5)
    maybe("hw:pmem", ["a", "a,b,b", " a , ", "big-one,big one", ""], 2)


def machine(rng: random.Random, chance: float, specs: dict) -> None:
    def maybe(key: str, values: list[str]) -> None:
        if rng.random() < chance:
            specs[key] = pick(rng, values)

    maybe("hw:mem_encryption", ["true", "1", "false"])
    models = ["amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx", "odd"]
    maybe("hw:mem_encryption_model", models)
    maybe("hw:tpm_version", ["1.2", "2.0", "2.0", "3"])
    maybe("hw:tpm_model", ["tpm-tis", "tpm-crb", "odd"])
    maybe("hw:tpm_secret_security", ["user", "host", "deployment", "odd"])
    maybe("os:secure_boot", ["required", "disabled", "optional", "odd"])
    maybe("hw:maxphysaddr_mode", ["passthrough", "emulate", "odd"])
    maybe(
        "hw:pci_numa_affinity_policy",
        ["required", "preferred", "legacy", "socket", "odd"],
    )
    maybe("hw:virtio_packed_ring", WORDS)
    maybe("hw:ephemeral_encryption", WORDS)
    maybe("hw:ephemeral_encryption_format", ["plain", "luks", "luksv2", "odd"])
    maybe("hw:sound_model", ["virtio", "virtio", "ich9", "odd"])
    maybe("accel:device_profile", ["fpga", "empty", "absent"])
    aliases = [
        "gpu:1",
        "gpu:2, nic:1",
        "qat:1,std:0",
        "gpu: 1",
        "gone:1",
        "gpu",
        "gpu:x",
    ]
    if rng.random() < 0.15:
        specs["pci_passthrough:alias"] = rng.choice(aliases[:4] + aliases)
    maybe("quota:cpu_shares", ["10"])
    maybe("capabilities:x", ["y"])


def image_of(rng: random.Random, chance: float) -> dict:
    properties: dict[str, str] = {}

    def maybe(key: str, values: list[str], more: float = 1) -> None:
        if rng.random() < chance * more:
            properties[key] = pick(rng, values)

    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        properties[f"trait:{rng.choice(TRAITS)}"] = rng.choice(
            ["required", "forbidden"]
        )
    maybe("trait:HW_CPU_HYPERTHREADING", ["required"])
    maybe("hw_cpu_policy", ["shared", "dedicated", "mixed", "odd"], 2)
    maybe("hw_cpu_thread_policy", ["prefer", "isolate", "require"])
    maybe("hw_cpu_realtime_mask", ["^0", "0-1", "x"])
    maybe("hw_numa_nodes", ["1", "2", "0", " 2", "x"])
    maybe("hw_numa_cpus.0", ["0-1", "0", "0-3"])
    maybe("hw_numa_mem.0", ["512", "2048", "x"])
    maybe("hw_mem_page_size", ["small", "large", "2048", "1GB", "odd"])
    maybe("hw_locked_memory", WORDS, 0.5)
    maybe("hw_mem_encryption", ["true", "false", "maybe"])
    maybe(
        "hw_mem_encryption_model", ["amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"]
    )
    maybe("hw_firmware_type", ["uefi", "uefi", "bios"], 4)
    maybe("hw_firmware_stateless", WORDS, 2)
    maybe("hw_machine_type", ["q35", "pc-q35-9.0", "pc"])
    maybe("hw_tpm_version", ["1.2", "2.0"])
    maybe("hw_tpm_model", ["tpm-tis", "tpm-crb"])
    maybe("os_secure_boot", ["required", "disabled", "optional"])
    maybe("hw_maxphysaddr_mode", ["passthrough", "emulate"])
    maybe("hw_pci_numa_affinity_policy", ["required", "socket", "legacy"])
    maybe("hw_virtio_packed_ring", WORDS)
    maybe("hw_ephemeral_encryption", WORDS)
    maybe("hw_ephemeral_encryption_format", ["plain", "luks"])
    maybe("hw_sound_model", ["virtio", "usb"])
    maybe("hw_video_model", ["none", "virtio", "gop", "vmvga", "odd"], 3)
    maybe("hw_disk_bus", ["virtio", "scsi", "lxc", "uml", "odd"], 3)
    maybe("hw_cdrom_bus", ["ide", "sata"], 2)
    maybe(
        "hw_vif_model",
        ["virtio", "VirtualVmxnet3", "spapr-vlan", "lan9118", "e1000"],
        3,
    )
    maybe("hw_architecture", ["x86_64", "AMD64", "i586", "aarch64", "vax"], 2)
    maybe("architecture", ["amd64", "ppc64"])
    maybe("hw_emulation_architecture", ["aarch64", "s390x", "sparc"])
    maybe("hw_viommu_model", ["virtio", "auto", "smmuv3"])
    maybe("vmware_adaptertype", ["ide", "lsiLogic", "paraVirtual", ""])
    maybe("hypervisor_type", ["kvm", "XAPI", "odd"])
    maybe("hypervisor_version_requires", [">=2.6", "<9,>1", "odd"])
    maybe("vm_mode", ["hvm", "PV", "odd"])
    maybe("os_type", ["Linux", "beos"], 0.3)
    maybe("free_text", ["whatever"])
    return {
        "id": uid(rng),
        "name": "image",
        "disk_format": rng.choice(["qcow2", "raw", "iso", "odd"]),
        "properties": properties,
    }


def network(rng: random.Random) -> dict:
    nic: dict = {"segments": [uid(rng) for _ in range(rng.choice([0, 0, 1, 2]))]}
    if rng.random() < 0.3:
        nic["network_id"] = uid(rng)
        return nic
    nic["port_id"] = uid(rng)
    nic["segments"] = nic["segments"][:1]
    nic["vnic_type"] = rng.choice(["normal", "normal", "direct", "remote-managed"])
    kind = rng.random()
    if kind < 0.3:
        nic["resource_request"] = {
            "resources": {
                "NET_BW_EGR_KILOBIT_PER_SEC": 1000,
                "CUSTOM_NIC": rng.choice([0, 1]),
            },
            "required": rng.choice(
                [[], ["CUSTOM_PHYSNET_2", "CUSTOM_VNIC_TYPE_NORMAL"]]
            ),
        }
    elif kind < 0.6:
        groups = [
            {
                "id": uid(rng),
                "resources": {name: 1000},
                "required": ["CUSTOM_VNIC_TYPE_NORMAL"],
            }
            for name in (
                "NET_PACKET_RATE_KILOPACKET_PER_SEC",
                "NET_BW_IGR_KILOBIT_PER_SEC",
            )
        ]
        nic["resource_request"] = {"request_groups": groups}
        if rng.random() < 0.8:
            nic["resource_request"]["same_subtree"] = [group["id"] for group in groups]
    elif kind < 0.7:
        nic["device_profile"] = rng.choice(["fpga-nic", "fpga"])
    return nic


def profiles(rng: random.Random) -> dict:
    value = rng.choice(["1", "2", "2", "x"])
    return {
        "fpga": [
            {
                "resources:FPGA": value,
                "trait:CUSTOM_FAST": "required",
                "accel:bit": "7",
            },
            {"resources:CUSTOM_MEM": "1", "trait:CUSTOM_SLOW": "forbidden"},
        ][: rng.choice([1, 2])],
        "fpga-nic": [{"resources:FPGA": "1", "trait:CUSTOM_NIC": "required"}],
        "empty": [{"accel:bit": "7"}],
    }


def params(rng: random.Random) -> dict:
    if rng.random() < 0.8:
        return {}
    return {
        "root_required": rng.choice([[], ["CUSTOM_ROOT"], ["OWNER_NOVA"]]),
        "root_forbidden": rng.choice([[], ["CUSTOM_ROOT"], ["CUSTOM_OTHER"]]),
    }


def requested(rng: random.Random) -> list[dict]:
    """Groups that come ready-made."""
    if rng.random() < 0.85:
        return []
    group = {"requester_id": rng.choice(["1", "ready", uid(rng)])}
    if rng.random() < 0.9:
        group["resources"] = {
            "CUSTOM_THING": rng.choice([1, 5]),
            "CUSTOM_B": rng.choice([0, 2]),
        }
    if rng.random() < 0.3:
        group["forbidden_traits"] = ["CUSTOM_BAD"]
    if rng.random() < 0.2:
        group["aggregates"] = [[uid(rng), uid(rng)], [uid(rng)]]
    if rng.random() < 0.2:
        group["in_tree"] = uid(rng)
    return [group]


def aggregates(rng: random.Random) -> dict:
    found = {}
    for _ in range(rng.choice([2, 5, 8])):
        metadata = {}
        if rng.random() < 0.8:
            metadata["availability_zone"] = rng.choice(["north", "south"])
        if rng.random() < 0.4:
            key = rng.choice(["filter_tenant_id", "filter_tenant_id2", "project"])
            metadata[key] = rng.choice(["p1", "p2"])
        if rng.random() < 0.4:
            metadata[f"trait:{rng.choice(TRAITS)}"] = rng.choice(["required", "x"])
        found[uid(rng)] = metadata
    return found


def add_destination(rng: random.Random, made: dict) -> None:
    """Add compute nodes, and perhaps a destination, forced hosts and hints."""
    made["nodes"] = [
        {"uuid": uid(rng), "host": host, "node": f"{host}-{number}"}
        for host in HOSTS
        for number in range(2 if host == "host3" else 1)
    ]
    names = [*HOSTS, *HOSTS, *HOSTS, "gone"]
    if rng.random() < 0.12:
        made["force_hosts"] = [rng.choice(names)]
    if rng.random() < 0.06:
        made["force_nodes"] = [rng.choice(["host1-0", "host3-1", "host3-0"])]
    if rng.random() < 0.3:
        destination: dict = {}
        if rng.random() < 0.4:
            destination["host"] = rng.choice(names)
        if rng.random() < 0.3:
            destination["node"] = rng.choice(["host1-0", "host3-0"])
        if rng.random() < 0.4:
            destination["aggregates"] = [[uid(rng) for _ in range(rng.choice([1, 2]))]]
        if rng.random() < 0.3:
            destination["forbidden_aggregates"] = [uid(rng)]
        made["destination"] = destination
    if rng.random() < 0.2:
        hint = rng.choice(["group", "same_host", "different_host", "query"])
        made["hints"] = {hint: [uid(rng)]}
