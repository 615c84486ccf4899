"""Drives Nova's SchedulerManager with its own objects and databases; see scheduler.py."""

# Nova's own command begins with this, before anything else is imported.
from nova import monkey_patch

monkey_patch.patch(backend="threading")

import contextlib
import datetime
import importlib.metadata
import logging
import os
import pathlib
import platform
import statistics
import tempfile
import time
import types
import uuid
import warnings
from unittest import mock

warnings.simplefilter("ignore")

from nova import config, objects, thread_pool_factory
from nova import context as nova_context
from nova.db import migration
from nova.db.main import api as main_db_api
from nova.db.main import models
from nova.scheduler import host_manager, manager, utils
from nova.scheduler.client import report
from oslo_db.sqlalchemy import engines
from oslo_serialization import jsonutils
from oslo_utils import timeutils
from placement_of_nova import Placement
from sqlalchemy import pool

objects.register_all()
ADMIN = nova_context.get_admin_context()
USER = nova_context.RequestContext("user", "project", is_admin=False)
# Hosts and request of the experiments: crates/bench/src/bench/seeds/fleet.rs.
PLACES = 11
EMPTY_HOSTS_MAX = 3
HOSTS_PER_PLACE = 10
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 10}
# Decisions that are measured, however long they take.
DECISIONS_MIN = 3
# Rows of a table that are inserted together.
ROWS_AT_ONCE = 500
FEATURES = (
    "aes apic arat avx avx2 bmi1 bmi2 clflush cmov cx16 cx8 erms "
    "f16c fma fpu fsgsbase fxsr invpcid lahf_lm mmx movbe msr pae pat"
)


def described() -> dict:
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    return {
        "nova": importlib.metadata.version("nova"),
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "machine": f"{processor}, {os.cpu_count()} cores",
    }


def configure(folder: pathlib.Path, limit: int) -> None:
    """What Nova's command does with its configuration, and empty databases."""
    file = folder / "nova.conf"
    file.write_text(
        f"""[DEFAULT]
transport_url = fake:/
# The hosts report once.
service_down_time = 86400
[api_database]
connection = sqlite:///{folder}/api.db
[database]
connection = sqlite:///{folder}/cell.db
[scheduler]
max_placement_results = {limit}
"""
    )
    # oslo.db opens a file of SQLite for each transaction anew; connections to a server are kept.
    pools = types.SimpleNamespace(**{**vars(pool), "NullPool": pool.QueuePool})
    engines.pool = pools
    config.parse_args(["nova-scheduler", "--config-file", str(file)])
    objects.Service.enable_min_version_cache()
    logging.disable(logging.CRITICAL)
    for name in ("api", "main"):
        migration.db_sync(database=name)
    objects.CellMapping(
        context=ADMIN,
        uuid=str(uuid.UUID(int=1)),
        name="cell",
        transport_url="fake:/",
        database_connection=f"sqlite:///{folder}/cell.db",
    ).create()


def places_taken(hosts: int, number: int, is_empty: bool) -> int:
    if is_empty or hosts <= EMPTY_HOSTS_MAX:
        return 0
    return PLACES - (number % HOSTS_PER_PLACE == 0)


def compute_node(number: int, taken: int) -> objects.ComputeNode:
    """A host as a compute service reports it: with two NUMA cells and two pools of devices."""
    amounts = {name: amount * PLACES for name, amount in AMOUNTS.items()}
    used = {name: amount * taken for name, amount in AMOUNTS.items()}
    cells = [
        objects.NUMACell(
            id=cell,
            socket=cell,
            cpuset=set(range(cell * 16, cell * 16 + 16)),
            pcpuset=set(),
            memory=131_072,
            cpu_usage=0,
            memory_usage=0,
            pinned_cpus=set(),
            siblings=[{cpu, cpu + 1} for cpu in range(cell * 16, cell * 16 + 16, 2)],
            mempages=[
                objects.NUMAPagesTopology(
                    size_kb=4, total=33_554_432, used=0, reserved=0
                )
            ],
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
        )
        for cell in range(2)
    ]
    pools = [
        objects.PciDevicePool(
            vendor_id="8086", product_id="10fb", numa_node=cell, count=8, tags={}
        )
        for cell in range(2)
    ]
    topology = {"cells": 2, "sockets": 1, "cores": 8, "threads": 2}
    cpu_info = {
        "arch": "x86_64",
        "model": "Cascadelake-Server",
        "vendor": "Intel",
        "features": FEATURES.split(),
        "topology": topology,
    }
    node = objects.ComputeNode(
        ADMIN,
        uuid=str(uuid.UUID(int=1_000_000 + number)),
        host=f"host-{number}",
        hypervisor_hostname=f"node-{number}",
        vcpus=amounts["VCPU"],
        vcpus_used=used["VCPU"],
        memory_mb=amounts["MEMORY_MB"],
        memory_mb_used=used["MEMORY_MB"],
        free_ram_mb=amounts["MEMORY_MB"] - used["MEMORY_MB"],
        local_gb=amounts["DISK_GB"],
        local_gb_used=used["DISK_GB"],
        free_disk_gb=amounts["DISK_GB"] - used["DISK_GB"],
        disk_available_least=amounts["DISK_GB"] - used["DISK_GB"],
        hypervisor_type="QEMU",
        hypervisor_version=8_000_000,
        running_vms=taken,
        current_workload=0,
        host_ip="192.0.2.1",
        cpu_info=jsonutils.dumps(cpu_info),
        supported_hv_specs=[
            objects.HVSpec(arch=arch, hv_type="qemu", vm_mode="hvm")
            for arch in ("i686", "x86_64")
        ],
        numa_topology=objects.NUMATopology(cells=cells)._to_json(),
        pci_device_pools=objects.PciDevicePoolList(objects=pools),
        stats={"num_instances": str(taken), "io_workload": "0", "failed_builds": "0"},
        metrics="[]",
        cpu_allocation_ratio=1.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
        mapped=1,
    )
    return node


def load(hosts: int, taken: list) -> None:
    """Write the rows of all hosts: Nova's objects write one, the others are like it."""
    service = objects.Service(
        ADMIN,
        host="host-0",
        binary="nova-compute",
        topic="compute",
        report_count=1,
        last_seen_up=timeutils.utcnow(),
    )
    service.create()
    with main_db_api.context_manager.writer.using(ADMIN) as session:
        session.query(models.Service).update({"last_seen_up": timeutils.utcnow()})
    compute_node(0, taken[0]).create()
    insert(models.Service, [{"host": f"host-{n}", "uuid": str(uuid.uuid4())} for n in range(1, hosts)])

    def of_node(number: int) -> dict:
        used = {name: amount * taken[number] for name, amount in AMOUNTS.items()}
        free = {name: amount * PLACES - used[name] for name, amount in AMOUNTS.items()}
        stats = {
            "num_instances": str(taken[number]),
            "io_workload": "0",
            "failed_builds": "0",
        }
        return {
            "uuid": str(uuid.UUID(int=1_000_000 + number)),
            "host": f"host-{number}",
            "hypervisor_hostname": f"node-{number}",
            "vcpus_used": used["VCPU"],
            "memory_mb_used": used["MEMORY_MB"],
            "free_ram_mb": free["MEMORY_MB"],
            "local_gb_used": used["DISK_GB"],
            "free_disk_gb": free["DISK_GB"],
            "disk_available_least": free["DISK_GB"],
            "running_vms": taken[number],
            "stats": jsonutils.dumps(stats),
        }

    insert(models.ComputeNode, [of_node(number) for number in range(1, hosts)])


def insert(model, changes: list) -> None:
    """Insert rows that are the table's first row with changes."""
    table = model.__table__
    with main_db_api.context_manager.writer.using(ADMIN) as session:
        first = dict(session.execute(table.select()).mappings().first())
        del first["id"]
        for start in range(0, len(changes), ROWS_AT_ONCE):
            some = changes[start : start + ROWS_AT_ONCE]
            session.execute(table.insert(), [{**first, **change} for change in some])


def start_scheduler() -> manager.SchedulerManager:
    """Nova's scheduler as its service makes it, when what it reads in the background has been read."""
    running = []

    def spawn(*args, **kwargs):
        running.append(thread_pool_factory.spawn(*args, **kwargs))
        return running[-1]

    own = mock.Mock(spawn=spawn)
    with mock.patch.object(host_manager, "thread_pool_factory", own):
        made = manager.SchedulerManager()
    for future in running:
        future.result()
    return made


def report_instances(scheduler: manager.SchedulerManager, taken: list) -> None:
    """The calls by which compute services tell the scheduler their instances."""
    for number, count in enumerate(taken):
        host = f"host-{number}"
        # A list of fewer than two would have the scheduler read the database.
        instances = [
            objects.Instance(USER, uuid=str(uuid.uuid4())) for _ in range(max(count, 2))
        ]
        told = objects.InstanceList(objects=instances)
        scheduler.update_instance_info(ADMIN, host, told)
        for instance in instances[count:]:
            scheduler.delete_instance_info(ADMIN, host, instance.uuid)


def request_spec(instance: str) -> objects.RequestSpec:
    flavor = objects.Flavor(
        id=1,
        flavorid="1",
        name="seeds",
        vcpus=AMOUNTS["VCPU"],
        memory_mb=AMOUNTS["MEMORY_MB"],
        root_gb=AMOUNTS["DISK_GB"],
        ephemeral_gb=0,
        swap=0,
        extra_specs={},
    )
    image = objects.ImageMeta.from_dict({"id": str(uuid.UUID(int=2)), "properties": {}})
    return objects.RequestSpec.from_components(
        USER,
        instance,
        image,
        flavor,
        None,
        objects.InstancePCIRequests(requests=[]),
        {},
        None,
        None,
        security_groups=objects.SecurityGroupList(objects=[]),
    )


class Parts:
    """Adds up how long the calls of some methods take, without the time in placement's stand-in."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self.seconds: dict = {}

    def timed(self, name: str, method):
        def call(*args, **kwargs):
            stub, start = self.placement.seconds, time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                elapsed = time.perf_counter() - start
                elapsed -= self.placement.seconds - stub
                self.seconds[name] = self.seconds.get(name, 0.0) + elapsed

        return call

    def take(self) -> dict:
        taken, self.seconds = self.seconds, {}
        return taken


PARTS = {
    "candidates": (report.SchedulerReportClient, "get_allocation_candidates"),
    "rows": (host_manager.HostManager, "_get_computes_for_cells"),
    "host_states": (host_manager.HostManager, "_get_host_states"),
    "filters": (host_manager.HostManager, "get_filtered_hosts"),
    "weighers": (host_manager.HostManager, "get_weighed_hosts"),
    "sorted_hosts": (manager.SchedulerManager, "_get_sorted_hosts"),
    "claim": (utils, "claim_resources"),
    "consume": (host_manager.HostState, "consume_from_request"),
}


def wrapped(parts: Parts, name: str, owner, method: str):
    call = parts.timed(name, getattr(owner, method))
    # A function of a class is to be bound to its objects.
    return mock.patch.object(owner, method, lambda *args, **kwargs: call(*args, **kwargs))


def measure(hosts: int, is_empty: bool, limit: int, args, requests: int) -> dict:
    """Decisions on one fleet: medians of their parts, in milliseconds. A process can do it once."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        configure(pathlib.Path(folder), limit)
        taken = [places_taken(hosts, number, is_empty) for number in range(hosts)]
        uuids = [str(uuid.UUID(int=1_000_000 + number)) for number in range(hosts)]
        room = [PLACES - number for number in taken]
        placement = Placement(uuids, room, AMOUNTS, PLACES)
        client = report.SchedulerReportClient(adapter=placement)
        stack.enter_context(mock.patch.object(report, "PLACEMENTCLIENT", client))
        scheduler = start_scheduler()
        load(hosts, taken)
        report_instances(scheduler, taken)
        parts = Parts(placement)
        for name, (owner, method) in PARTS.items():
            stack.enter_context(wrapped(parts, name, owner, method))
        decisions, candidates = decide(scheduler, placement, parts, args, requests)
    return {
        "hosts": hosts,
        "fleet": "empty" if is_empty or hosts <= EMPTY_HOSTS_MAX else "nearly full",
        "with_room": sum(number < PLACES for number in taken),
        "candidates_limit": limit,
        "candidates": candidates,
        "decisions": len(decisions),
        "p50_ms": {
            name: statistics.median(one.get(name, 0.0) for one in decisions) * 1000
            for name in [*PARTS, "whole"]
        },
    }


def decide(scheduler, placement: Placement, parts: Parts, args, requests: int):
    """Rounds of requests, one after the other. The first round does not count."""
    decisions: list = []
    candidates = 0
    whole = parts.timed("whole", scheduler.select_destinations)
    begun = time.monotonic()
    for number in range(args.rounds + 1):
        placement.reset()
        for _ in range(requests):
            instance = str(uuid.uuid4())
            spec = request_spec(instance)
            [selected] = whole(
                USER,
                spec_obj=spec,
                instance_uuids=[instance],
                return_objects=True,
                return_alternates=True,
            )
            # The chosen host and two alternates, as far as there are hosts.
            assert len(selected) == min(3, placement.candidates), selected
            of_request = parts.take()
            if number > 0:
                decisions.append(of_request)
                candidates = max(candidates, placement.candidates)
            elif time.monotonic() - begun > args.seconds / 4:
                break
            is_late = time.monotonic() - begun > args.seconds
            if is_late and len(decisions) >= DECISIONS_MIN:
                return decisions, candidates
    return decisions, candidates
