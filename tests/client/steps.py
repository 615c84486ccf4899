"""The steps of the walk, by topic.  They run in order on one server."""

from osc_placement import version as osc_version

VERSIONS = osc_version.SUPPORTED_MICROVERSIONS
NEWEST = VERSIONS[-1]
PROJECT = "11111111-0000-0000-0000-000000000001"
USER = "22222222-0000-0000-0000-000000000002"
NOBODY = "00000000-0000-0000-0000-000000000000"


def uid(number: int) -> str:
    return f"aaaaaaaa-0000-4000-8000-{number:012d}"


CN1, CN2, NUMA, STORAGE, PLAIN, MISSING = (uid(n) for n in range(1, 7))
AGG1, AGG2 = uid(101), uid(102)
VM1, VM2, VM3 = uid(201), uid(202), uid(203)


def at_least(version: str, minimum: str) -> bool:
    return VERSIONS.index(version) >= VERSIONS.index(minimum)


def names(rows: list[dict]) -> set[str]:
    return {row["name"] for row in rows}


def uuids(rows: list[dict]) -> set[str]:
    return {row["uuid"] for row in rows}


def provider(uuid: str, name: str, generation: int, **tree) -> dict:
    return {"uuid": uuid, "name": name, "generation": generation, **tree}


def classes(walk) -> None:
    walk.run(
        "resource class list",
        "1.2",
        lambda rows: {"VCPU", "MEMORY_MB", "DISK_GB", "PCPU"} <= names(rows)
        and len(rows) == 21,
    )
    walk.run("resource class list", "1.1", fails="requires at least version 1.2")
    walk.run("resource class create CUSTOM_GPU", "1.2")
    walk.run("resource class create CUSTOM_GPU", "1.2", fails="409")
    walk.run("resource class create GPU", "1.2", fails="JSON does not validate")
    walk.run("resource class set CUSTOM_GPU", "1.7")
    walk.run("resource class set CUSTOM_FPGA", "1.7")
    walk.run("resource class set CUSTOM_X", "1.6", fails="at least version 1.7")
    walk.run("resource class show CUSTOM_FPGA", "1.2", {"name": "CUSTOM_FPGA"})
    walk.run("resource class show VCPU", NEWEST, {"name": "VCPU"})
    walk.run("resource class show CUSTOM_NO", "1.2", fails="404")
    walk.run("resource class delete CUSTOM_FPGA", "1.2")
    walk.run("resource class delete CUSTOM_FPGA", "1.2", fails="404")
    walk.run("resource class delete VCPU", "1.2", fails="400")
    walk.run(
        "resource class list",
        NEWEST,
        lambda rows: "CUSTOM_GPU" in names(rows) and "CUSTOM_FPGA" not in names(rows),
    )


def traits(walk) -> None:
    walk.run("trait create CUSTOM_GOLD", "1.6")
    walk.run("trait create CUSTOM_GOLD", "1.6")
    walk.run("trait create CUSTOM_OLD", NEWEST)
    walk.run("trait create GOLD", "1.6", fails="400")
    walk.run("trait show CUSTOM_GOLD", "1.6", {"name": "CUSTOM_GOLD"})
    walk.run("trait show CUSTOM_NO", "1.6", fails="404")
    walk.run(
        "trait list",
        "1.6",
        lambda rows: {"CUSTOM_GOLD", "HW_CPU_X86_AVX"} <= names(rows),
    )
    walk.run("trait list", "1.5", fails="at least version 1.6")
    walk.run(
        "trait list --name startswith:CUSTOM_",
        "1.6",
        [{"name": "CUSTOM_GOLD"}, {"name": "CUSTOM_OLD"}],
    )
    walk.run(
        "trait list --name in:CUSTOM_GOLD,HW_CPU_X86_AVX,CUSTOM_NO",
        NEWEST,
        [{"name": "CUSTOM_GOLD"}, {"name": "HW_CPU_X86_AVX"}],
    )
    walk.run("trait list --associated", "1.6", [])
    walk.run("trait delete CUSTOM_OLD", "1.6")
    walk.run("trait delete CUSTOM_OLD", "1.6", fails="404")
    walk.run("trait delete HW_CPU_X86_AVX", "1.6", fails="400")


def providers(walk) -> None:
    walk.run(
        f"resource provider create cn1 --uuid {CN1}", "1.0", provider(CN1, "cn1", 0)
    )
    walk.run(
        f"resource provider create cn2 --uuid {CN2}",
        "1.14",
        provider(CN2, "cn2", 0, root_provider_uuid=CN2, parent_provider_uuid=None),
    )
    child = {"root_provider_uuid": CN1, "parent_provider_uuid": CN1}
    walk.run(
        f"resource provider create numa0 --uuid {NUMA} --parent-provider {CN1}",
        NEWEST,
        provider(NUMA, "numa0", 0, **child),
    )
    walk.run(
        f"resource provider create x --parent-provider {CN1}",
        "1.13",
        fails="at least version 1.14",
    )
    walk.run("resource provider create cn1", "1.0", fails="409")
    walk.run(
        f"resource provider create x --parent-provider {MISSING}", "1.14", fails="400"
    )
    walk.run(
        "resource provider create storage", "1.20", lambda row: row["generation"] == 0
    )
    found = walk.run(
        "resource provider list --name storage", "1.0", lambda rows: len(rows) == 1
    )
    if found:
        walk.run(f"resource provider delete {found[0]['uuid']}", "1.0")
    walk.run(
        f"resource provider create storage --uuid {STORAGE}",
        "1.0",
        provider(STORAGE, "storage", 0),
    )
    walk.run(f"resource provider show {CN1}", "1.0", provider(CN1, "cn1", 0))
    walk.run(
        f"resource provider show {NUMA}", "1.14", provider(NUMA, "numa0", 0, **child)
    )
    walk.run(f"resource provider show {MISSING}", "1.0", fails="404")
    walk.run(
        f"resource provider create plain --uuid {PLAIN}",
        "1.0",
        provider(PLAIN, "plain", 0),
    )
    walk.run(
        f"resource provider set {PLAIN} --name renamed",
        "1.0",
        provider(PLAIN, "renamed", 0),
    )
    walk.run(
        f"resource provider set {PLAIN} --name plain --parent-provider {CN2}",
        "1.14",
        provider(PLAIN, "plain", 0, root_provider_uuid=CN2, parent_provider_uuid=CN2),
    )
    walk.run(
        f"resource provider set {PLAIN} --name plain --parent-provider {CN1}",
        "1.14",
        fails="400",
    )
    walk.run(
        f"resource provider set {PLAIN} --name plain --parent-provider {CN1}",
        "1.37",
        lambda row: row["root_provider_uuid"] == CN1,
    )
    walk.run(f"resource provider delete {CN1}", "1.14", fails="409")
    walk.run(f"resource provider delete {PLAIN}", "1.0")
    walk.run(f"resource provider delete {PLAIN}", "1.0", fails="404")


def aggregates(walk) -> None:
    walk.run(
        f"resource provider aggregate set {CN1} --aggregate {AGG1} --aggregate {AGG2}",
        "1.1",
        [{"uuid": AGG1}, {"uuid": AGG2}],
    )
    walk.run(f"resource provider aggregate set {CN1}", "1.0", fails="version 1.1")
    walk.run(f"resource provider aggregate set {CN1}", "1.1", [])
    walk.run(f"resource provider aggregate list {CN1}", "1.1", [])
    walk.run(f"resource provider aggregate set {CN1}", "1.19", fails="generation must")
    walk.run(
        f"resource provider aggregate set {CN1} --aggregate {AGG1} --generation 7",
        "1.19",
        fails="409",
    )
    walk.run(
        f"resource provider aggregate set {CN1} --aggregate {AGG1} --generation 0",
        "1.19",
        [{"uuid": AGG1}],
    )
    walk.run(
        f"resource provider aggregate set {CN2} --aggregate {AGG2} --generation 0",
        NEWEST,
        [{"uuid": AGG2}],
    )
    walk.run(
        f"resource provider aggregate set {STORAGE} --aggregate {AGG1} --aggregate {AGG2}",
        "1.1",
        [{"uuid": AGG1}, {"uuid": AGG2}],
    )
    walk.run(f"resource provider aggregate list {CN2}", NEWEST, [{"uuid": AGG2}])
    walk.run(f"resource provider aggregate list {MISSING}", "1.1", fails="404")


def row_of(rows: list[dict], resource_class: str) -> dict:
    return next(r for r in rows if r["resource_class"] == resource_class)


def inventories(walk) -> None:
    walk.run(
        f"resource provider inventory set {CN1} --resource VCPU=8"
        " --resource VCPU:allocation_ratio=2.0 --resource VCPU:max_unit=4"
        " --resource MEMORY_MB:total=4096 --resource MEMORY_MB:reserved=512"
        " --resource MEMORY_MB:step_size=256 --resource MEMORY_MB:min_unit=256",
        "1.0",
        lambda rows: len(rows) == 2
        and row_of(rows, "VCPU")["allocation_ratio"] == 2.0
        and row_of(rows, "VCPU")["max_unit"] == 4
        and row_of(rows, "VCPU")["total"] == 8
        and row_of(rows, "MEMORY_MB")["reserved"] == 512
        and row_of(rows, "MEMORY_MB")["min_unit"] == 256,
    )
    walk.run(
        f"resource provider inventory set {CN1} --resource MEMORY_MB=8192 --amend",
        "1.38",
        lambda rows: row_of(rows, "MEMORY_MB")["total"] == 8192
        and row_of(rows, "MEMORY_MB")["reserved"] == 512
        and row_of(rows, "VCPU")["total"] == 8,
    )
    walk.run(
        f"resource provider inventory set {CN1} --resource CUSTOM_GPU=1 --amend --dry-run",
        "1.2",
        lambda rows: row_of(rows, "CUSTOM_GPU")["total"] == 1 and len(rows) == 3,
    )
    walk.run(
        f"resource provider inventory list {CN1}", "1.0", lambda rows: len(rows) == 2
    )
    walk.run(
        f"resource provider inventory set {AGG1} --aggregate --resource DISK_GB=100 --amend",
        "1.3",
        lambda rows: {r["resource_provider"] for r in rows} == {CN1, STORAGE},
    )
    walk.run(
        f"resource provider inventory set {AGG1} --aggregate --resource VCPU=1",
        "1.2",
        fails="at least version 1.3",
    )
    walk.run(
        f"resource provider inventory set {CN1} --resource CUSTOM_NO=1 --amend",
        "1.38",
        fails="400",
    )
    for command, version in (
        (
            "--total 16 --reserved 2 --min_unit 1 --max_unit 8 --step_size 2"
            " --allocation_ratio 4.0",
            "1.0",
        ),
        (
            "--total 16 --reserved 2 --min_unit 1 --max_unit 8 --step_size 1"
            " --allocation_ratio 1.5",
            NEWEST,
        ),
    ):
        walk.run(
            f"resource provider inventory class set {CN1} VCPU {command}",
            version,
            lambda row: row["total"] == 16 and row["max_unit"] == 8,
        )
    walk.run(
        f"resource provider inventory class set {CN1} CUSTOM_GPU --total 1",
        "1.2",
        fails="400",
    )
    walk.run(
        f"resource provider inventory show {CN1} VCPU",
        "1.0",
        {
            "allocation_ratio": 1.5,
            "min_unit": 1,
            "max_unit": 8,
            "reserved": 2,
            "step_size": 1,
            "total": 16,
            "used": 0,
        },
    )
    walk.run(f"resource provider inventory show {CN1} PCPU", "1.0", fails="404")
    walk.run(
        f"resource provider inventory set {CN2} --resource VCPU=4 --resource MEMORY_MB=2048"
        " --resource CUSTOM_GPU=2",
        NEWEST,
        lambda rows: len(rows) == 3,
    )
    walk.run(
        f"resource provider inventory delete {CN2} --resource-class CUSTOM_GPU", "1.0"
    )
    walk.run(
        f"resource provider inventory delete {CN2} --resource-class CUSTOM_GPU",
        "1.0",
        fails="404",
    )
    walk.run(
        f"resource provider inventory delete {CN2}", "1.4", fails="--resource-class"
    )
    walk.run(f"resource provider inventory delete {CN2}", "1.5")
    walk.run(f"resource provider inventory list {CN2}", NEWEST, [])
    walk.run(
        f"resource provider inventory set {CN2} --resource VCPU=4 --resource MEMORY_MB=2048",
        "1.0",
        lambda rows: len(rows) == 2,
    )
    walk.run(
        f"resource provider inventory set {NUMA} --resource CUSTOM_GPU=4",
        NEWEST,
        lambda rows: row_of(rows, "CUSTOM_GPU")["total"] == 4,
    )
    walk.run(
        f"resource provider inventory delete {CN1} --resource-class DISK_GB", NEWEST
    )


def provider_traits(walk) -> None:
    walk.run(
        f"resource provider trait set {CN1} --trait CUSTOM_GOLD --trait HW_CPU_X86_AVX",
        "1.6",
        [{"name": "CUSTOM_GOLD"}, {"name": "HW_CPU_X86_AVX"}],
    )
    walk.run(
        f"resource provider trait set {STORAGE} --trait MISC_SHARES_VIA_AGGREGATE",
        NEWEST,
        [{"name": "MISC_SHARES_VIA_AGGREGATE"}],
    )
    walk.run(f"resource provider trait set {CN1} --trait CUSTOM_NO", "1.6", fails="400")
    walk.run(
        f"resource provider trait list {CN1}",
        "1.6",
        [{"name": "CUSTOM_GOLD"}, {"name": "HW_CPU_X86_AVX"}],
    )
    walk.run(f"resource provider trait list {MISSING}", "1.6", fails="404")
    walk.run(
        f"resource provider trait set {CN2} --trait HW_CPU_X86_AVX2",
        "1.6",
        [{"name": "HW_CPU_X86_AVX2"}],
    )
    walk.run(f"resource provider trait delete {CN2}", "1.6")
    walk.run(f"resource provider trait list {CN2}", NEWEST, [])
    walk.run("trait delete CUSTOM_GOLD", "1.6", fails="409")
    walk.run(
        "trait list --associated",
        "1.6",
        [
            {"name": "CUSTOM_GOLD"},
            {"name": "HW_CPU_X86_AVX"},
            {"name": "MISC_SHARES_VIA_AGGREGATE"},
        ],
    )


def provider_lists(walk) -> None:
    everything = {CN1, CN2, NUMA, STORAGE}

    def found(*want):
        return lambda rows: uuids(rows) == set(want)

    def listed(options, version, *want):
        walk.run(f"resource provider list {options}".strip(), version, found(*want))

    listed("", "1.0", *everything)
    listed("", NEWEST, *everything)
    listed(f"--uuid {CN1}", "1.0", CN1)
    listed("--name cn2", NEWEST, CN2)
    listed(f"--aggregate-uuid {AGG2}", "1.3", CN2, STORAGE)
    listed(f"--member-of {AGG1}", "1.3", CN1, STORAGE)
    listed(f"--member-of {AGG1},{AGG2}", "1.3", CN1, CN2, STORAGE)
    listed(f"--member-of {AGG1} --member-of {AGG2}", "1.24", STORAGE)
    listed("--resource VCPU=5", "1.4", CN1)
    listed("--resource VCPU=2 --resource MEMORY_MB=512", "1.4", CN1, CN2)
    listed(f"--in-tree {NUMA}", "1.14", CN1, NUMA)
    listed("--required CUSTOM_GOLD", "1.18", CN1)
    listed("--required CUSTOM_GOLD --required HW_CPU_X86_AVX", "1.18", CN1)
    listed("--forbidden CUSTOM_GOLD", "1.22", CN2, NUMA, STORAGE)
    listed("--required HW_CPU_X86_AVX --forbidden CUSTOM_GOLD", NEWEST)
    listed("--required CUSTOM_GOLD,MISC_SHARES_VIA_AGGREGATE", "1.39", CN1, STORAGE)
    for option, version, minimum in (
        (f"--member-of {AGG1}", "1.2", "1.3"),
        ("--resource VCPU=1", "1.3", "1.4"),
        (f"--in-tree {CN1}", "1.12", "1.14"),
        ("--required CUSTOM_GOLD", "1.17", "1.18"),
        ("--forbidden CUSTOM_GOLD", "1.21", "1.22"),
        ("--required CUSTOM_GOLD,HW_CPU_X86_AVX", "1.38", "1.39"),
    ):
        walk.run(
            f"resource provider list {option}",
            version,
            fails=f"at least version {minimum}",
        )
    walk.run("resource provider list --required CUSTOM_NO", "1.18", fails="400")


def allocations(walk) -> None:
    def held(*rows):
        return lambda got: sorted(
            (r["resource_provider"], r["resources"]) for r in got
        ) == sorted(rows)

    both = f"--allocation rp={CN1},VCPU=2,MEMORY_MB=1024 --allocation rp={STORAGE},DISK_GB=10"
    both_rows = held((CN1, {"VCPU": 2, "MEMORY_MB": 1024}), (STORAGE, {"DISK_GB": 10}))
    owner = f"--project-id {PROJECT} --user-id {USER}"

    def owned(rows):
        return both_rows(rows) and all(
            r["project_id"] == PROJECT and r["user_id"] == USER for r in rows
        )

    walk.run(f"resource provider allocation set {VM1} {both}", "1.0", both_rows)
    walk.run(f"resource provider allocation show {VM1}", "1.0", both_rows)
    walk.run(
        f"resource provider allocation show {VM1}",
        "1.12",
        lambda rows: both_rows(rows) and rows[0]["project_id"] == NOBODY,
    )
    walk.run(f"resource provider allocation set {VM1} {both} {owner}", "1.8", both_rows)
    walk.run(f"resource provider allocation set {VM1} {both} {owner}", "1.12", owned)
    walk.run(f"resource provider allocation set {VM1} {both} {owner}", "1.28", owned)
    walk.run(
        f"resource provider allocation set {VM1} {both} {owner} --consumer-type INSTANCE",
        "1.38",
        lambda rows: owned(rows)
        and all(r["consumer_type"] == "INSTANCE" for r in rows),
    )
    walk.run(
        f"resource provider allocation show {VM1}",
        NEWEST,
        lambda rows: owned(rows) and rows[0]["consumer_type"] == "INSTANCE",
    )
    walk.run(
        f"resource provider allocation set {VM2} --allocation rp={CN2},VCPU=9 {owner}"
        " --consumer-type INSTANCE",
        NEWEST,
        fails="409",
    )
    walk.run(
        f"resource provider allocation set {VM2} --allocation rp={MISSING},VCPU=1 {owner}",
        "1.28",
        fails="400",
    )
    walk.run(
        f"resource provider allocation set {VM3} --allocation rp={CN1},VCPU=1 {owner}"
        " --consumer-type MIGRATION",
        NEWEST,
        held((CN1, {"VCPU": 1})),
    )
    walk.run(
        f"resource provider show {CN1} --allocations",
        NEWEST,
        lambda row: row["allocations"]
        == {
            VM1: {
                "resources": {"VCPU": 2, "MEMORY_MB": 1024},
                "consumer_generation": 5,
            },
            VM3: {"resources": {"VCPU": 1}, "consumer_generation": 1},
        },
    )
    walk.run(
        f"resource provider show {CN1} --allocations",
        "1.0",
        lambda row: row["allocations"][VM3] == {"resources": {"VCPU": 1}},
    )
    walk.run(f"resource provider delete {STORAGE}", "1.0", fails="409")
    walk.run(
        f"resource provider inventory delete {CN1} --resource-class VCPU",
        "1.0",
        fails="409",
    )


def usages(walk) -> None:
    def usage(**want):
        return (
            lambda rows: {r["resource_class"]: r["usage"] for r in rows if r["usage"]}
            == want
        )

    walk.run(
        f"resource provider usage show {CN1}", "1.0", usage(VCPU=3, MEMORY_MB=1024)
    )
    walk.run(f"resource provider usage show {STORAGE}", NEWEST, usage(DISK_GB=10))
    walk.run(f"resource provider usage show {MISSING}", "1.0", fails="404")
    everything = usage(VCPU=3, MEMORY_MB=1024, DISK_GB=10)
    walk.run(f"resource usage show {PROJECT}", "1.9", everything)
    walk.run(f"resource usage show {PROJECT} --user-id {USER}", "1.9", everything)
    walk.run(f"resource usage show {PROJECT} --user-id {NOBODY}", "1.37", usage())
    walk.run(f"resource usage show {PROJECT}", "1.8", fails="at least version 1.9")
    walk.run(
        f"resource provider inventory show {CN1} VCPU",
        NEWEST,
        lambda row: row["used"] == 3,
    )


def unset(walk) -> None:
    def left(*rows):
        return lambda got: sorted(
            (r["resource_provider"], r["resources"]) for r in got
        ) == sorted(rows)

    command = f"resource provider allocation unset {VM1}"
    walk.run(command, "1.11", fails="at least version 1.12")
    walk.run(
        f"{command} --resource-class MEMORY_MB",
        "1.12",
        left((CN1, {"VCPU": 2}), (STORAGE, {"DISK_GB": 10})),
    )
    walk.run(
        f"{command} --provider {STORAGE}",
        "1.28",
        lambda rows: left((CN1, {"VCPU": 2}))(rows),
    )
    walk.run(
        f"{command} --provider {CN1} --resource-class DISK_GB",
        NEWEST,
        lambda rows: left((CN1, {"VCPU": 2}))(rows)
        and rows[0]["consumer_type"] == "INSTANCE",
    )
    walk.run(command, NEWEST, [])
    walk.run(f"resource provider allocation show {VM1}", NEWEST, [])
    walk.run(f"resource provider allocation delete {VM3}", "1.0")
    walk.run(f"resource provider allocation delete {VM3}", "1.0", fails="404")
    walk.run(f"resource provider allocation show {VM3}", "1.0", [])


def candidates(walk) -> None:
    def rows_of(*want):
        """(candidate's class amounts, provider) for each row, in any order."""
        return lambda rows: sorted(
            (r["allocation"], r["resource provider"]) for r in rows
        ) == sorted(want)

    command = "allocation candidate list"
    walk.run(f"{command} --resource VCPU=1", "1.9", fails="at least version 1.10")
    for version in ("1.10", "1.12", "1.17", NEWEST):
        walk.run(
            f"{command} --resource VCPU=1",
            version,
            rows_of(("VCPU=1", CN1), ("VCPU=1", CN2)),
        )
    walk.run(
        f"{command} --resource VCPU=1 --resource DISK_GB=5",
        NEWEST,
        rows_of(
            ("VCPU=1", CN1),
            ("DISK_GB=5", STORAGE),
            ("VCPU=1", CN2),
            ("DISK_GB=5", STORAGE),
        ),
    )
    walk.run(
        f"{command} --resource VCPU=1 --limit 1", "1.16", lambda rows: len(rows) == 1
    )
    walk.run(
        f"{command} --resource VCPU=1 --required CUSTOM_GOLD",
        "1.17",
        lambda rows: rows_of(("VCPU=1", CN1))(rows)
        and rows[0]["inventory used/capacity"].count("VCPU=0/21") == 1
        and "CUSTOM_GOLD" in rows[0]["traits"],
    )
    walk.run(
        f"{command} --resource VCPU=1 --forbidden CUSTOM_GOLD",
        "1.22",
        rows_of(("VCPU=1", CN2)),
    )
    walk.run(
        f"{command} --resource VCPU=1 --member-of {AGG2}",
        "1.21",
        rows_of(("VCPU=1", CN2)),
    )
    walk.run(
        f"{command} --resource VCPU=1 --aggregate-uuid {AGG1}",
        "1.21",
        rows_of(("VCPU=1", CN1)),
    )
    walk.run(
        f"{command} --resource VCPU=1 --member-of {AGG1},{AGG2} --member-of {AGG2}",
        "1.24",
        rows_of(("VCPU=1", CN2)),
    )
    walk.run(
        f"{command} --resource VCPU=1 --required CUSTOM_GOLD,HW_CPU_X86_AVX2",
        "1.39",
        rows_of(("VCPU=1", CN1)),
    )
    groups = "--group 1 --resource VCPU=1 --group 2 --resource CUSTOM_GPU=1"
    walk.run(
        f"{command} {groups} --group-policy isolate",
        "1.29",
        rows_of(("VCPU=1", CN1), ("CUSTOM_GPU=1", NUMA)),
    )
    walk.run(
        f"{command} {groups} --required CUSTOM_GOLD --group-policy none", NEWEST, []
    )
    walk.run(f"{command} {groups}", "1.24", fails="at least version 1.25")
    walk.run(
        f"{command} --group 3 --resource CUSTOM_GPU=1",
        NEWEST,
        rows_of(("CUSTOM_GPU=1", NUMA)),
    )
    walk.run(f"{command} --resource CUSTOM_NO=1", NEWEST, fails="400")
    walk.run(f"{command} --resource VCPU=999", NEWEST, [])
    for option, version, minimum in (
        ("--limit 1", "1.14", "1.16"),
        ("--required CUSTOM_GOLD", "1.16", "1.17"),
        ("--member-of " + AGG1, "1.19", "1.21"),
        ("--forbidden CUSTOM_GOLD", "1.21", "1.22"),
    ):
        walk.run(
            f"{command} --resource VCPU=1 {option}",
            version,
            fails=f"at least version {minimum}",
        )


def short(walk) -> None:
    """The life of one provider at the newest microversion, for tests of other ways to authenticate."""
    every_version(walk, [NEWEST])


def every_version(walk, versions=tuple(VERSIONS)) -> None:
    for number, version in enumerate(versions):
        rp, vm = uid(1000 + number), uid(2000 + number)
        walk.run(
            f"resource provider create every-{number} --uuid {rp}",
            version,
            lambda row: row["generation"] == 0
            and ("root_provider_uuid" in row) == at_least(version, "1.14"),
        )
        walk.run(
            f"resource provider inventory set {rp} --resource VCPU=4",
            version,
            lambda rows: rows[0]["max_unit"] == 2147483647,
        )
        owner = ""
        if at_least(version, "1.8"):
            owner += f" --project-id {PROJECT} --user-id {USER}"
        if at_least(version, "1.38"):
            owner += " --consumer-type INSTANCE"
        walk.run(
            f"resource provider allocation set {vm} --allocation rp={rp},VCPU=3{owner}",
            version,
            lambda rows: rows[0]["resources"] == {"VCPU": 3},
        )
        walk.run(
            f"resource provider usage show {rp}",
            version,
            [{"resource_class": "VCPU", "usage": 3}],
        )
        walk.run(f"resource provider allocation delete {vm}", version)
        walk.run(f"resource provider delete {rp}", version)


PARTS = (
    classes,
    traits,
    providers,
    aggregates,
    inventories,
    provider_traits,
    provider_lists,
    allocations,
    usages,
    unset,
    candidates,
    every_version,
)
