"""Placement by openstacksdk's proxy: every method of `conn.placement`."""

import uuid

from sdk_calls import Calls


class PlacementCalls:
    """Providers, inventories, traits, candidates, allocations and usages."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def names(self) -> None:
        call, check = self.calls, self.calls.check
        call("placement.create_resource_class", name="CUSTOM_PAINT")
        brush = call("placement.create_resource_class", name="CUSTOM_BRUSH")
        call("placement.update_resource_class", brush)
        call("placement.get_resource_class", "CUSTOM_PAINT")
        names = {one.name for one in call("placement.resource_classes")}
        check("both classes are listed", {"VCPU", "CUSTOM_PAINT", "CUSTOM_BRUSH"} <= names, names)
        call("placement.delete_resource_class", "CUSTOM_BRUSH", ignore_missing=False)
        call("placement.create_trait", "CUSTOM_DRY")
        call("placement.get_trait", "CUSTOM_DRY")
        names = {one.name for one in call("placement.traits")}
        check("traits are listed", {"CUSTOM_DRY", "HW_CPU_X86_AVX2"} <= names)
        own = [one.name for one in call("placement.traits", name="startswith:CUSTOM_D")]
        check("traits are filtered", own == ["CUSTOM_DRY"], own)
        self.calls.refused(404, "", "placement.get_trait", "CUSTOM_WET")
        self.calls.refused(400, "", "placement.create_resource_class", name="paint")

    def providers(self) -> None:
        call, check = self.calls, self.calls.check
        made = call("placement.create_resource_provider", name="cupboard")
        child = call("placement.create_resource_provider", name="shelf", parent_provider_id=made.id)
        check("a child knows its parent", child.parent_provider_id == made.id, child)
        call("placement.update_resource_provider", made, name="wardrobe")
        check("it has another name", call("placement.get_resource_provider", made.id).name == "wardrobe")
        check("it is found", call("placement.find_resource_provider", "wardrobe").id == made.id)
        tree = {one.name for one in call("placement.resource_providers", in_tree=made.id)}
        check("its tree", tree == {"wardrobe", "shelf"}, tree)
        aggregate = str(uuid.uuid4())
        call("placement.set_resource_provider_aggregates", made, aggregate)
        shown = call("placement.fetch_resource_provider_aggregates", made)
        check("its aggregates", shown.aggregates == [aggregate], shown)
        call("placement.get_resource_provider_aggregates", made)
        found = [one.name for one in call("placement.resource_providers", member_of=aggregate)]
        check("by its aggregate", found == ["wardrobe"], found)
        self.calls.refused(409, "", "placement.create_resource_provider", name="wardrobe")

    def inventories(self) -> None:
        call, check = self.calls, self.calls.check
        provider = call("placement.find_resource_provider", "wardrobe")
        made = call("placement.create_resource_provider_inventory", provider, "CUSTOM_PAINT", total=10)
        check("an inventory is made", made.total == 10, made)
        shown = call("placement.get_resource_provider_inventory", "CUSTOM_PAINT", provider)
        generation = shown.resource_provider_generation
        call(
            "placement.update_resource_provider_inventory", shown, provider, total=12,
            resource_provider_generation=generation,
        )
        listed = call("placement.resource_provider_inventories", provider)
        check("it is as it was set", [one.total for one in listed] == [12], listed)
        provider = call("placement.get_resource_provider", provider.id)
        inventories = {"CUSTOM_PAINT": {"total": 8}, "DISK_GB": {"total": 100, "reserved": 10}}
        call("placement.set_resource_provider_inventories", provider, inventories, provider.generation)
        listed = call("placement.resource_provider_inventories", provider)
        check("both are set", len(listed) == 2, listed)
        self.calls.refused(
            409, "", "placement.set_resource_provider_inventories", provider, inventories, 1_000,
        )
        call("placement.delete_resource_provider_inventory", "DISK_GB", provider)
        shelf = call("placement.find_resource_provider", "shelf")
        call("placement.create_resource_provider_inventory", shelf, "DISK_GB", total=1)
        call("placement.delete_resource_provider_inventories", shelf)
        check("none is left", call("placement.resource_provider_inventories", shelf) == [])
        traits = call("placement.get_resource_provider_trait", provider)
        call("placement.set_resource_provider_trait", traits, traits=["CUSTOM_DRY"])
        found = [one.name for one in call("placement.resource_providers", required="CUSTOM_DRY")]
        check("by its trait", found == ["wardrobe"], found)

    def allocations(self) -> None:
        call, check = self.calls, self.calls.check
        provider = call("placement.find_resource_provider", "wardrobe")
        found = call("placement.allocation_candidates", resources="CUSTOM_PAINT:2", required="CUSTOM_DRY")
        check("one candidate", [list(one.allocations) for one in found] == [[provider.id]], found)
        found = call("placement.allocation_candidates", resources="VCPU:1,MEMORY_MB:64", limit=2)
        check("hosts are candidates", len(found) == 2, found)
        consumer, other, project, user = (str(uuid.uuid4()) for _ in range(4))
        claim = {
            "allocations": {provider.id: {"resources": {"CUSTOM_PAINT": 2}}}, "project_id": project, "user_id": user,
            "consumer_generation": None, "consumer_type": "PAINTER",
        }
        call("placement.update_allocation", consumer, **claim)
        shown = call("placement.get_allocation", consumer)
        check("what was claimed", shown.allocations[provider.id]["resources"] == {"CUSTOM_PAINT": 2}, shown)
        call("placement.create_allocations", {other: claim})
        held = call("placement.resource_provider_allocations", provider)
        check("both hold something", held, held)
        usages = call("placement.fetch_resource_provider_usages", provider)
        check("what is in use", "4" in str(usages), usages)
        usages = call("placement.usages", project_id=project)
        check("what the project uses", "4" in str(usages), usages)
        call("placement.usages", project_id=project, user_id=user, consumer_type="PAINTER")
        too_much = claim | {"allocations": {provider.id: {"resources": {"CUSTOM_PAINT": 9}}}}
        self.calls.refused(409, "", "placement.create_allocations", {str(uuid.uuid4()): too_much})
        call("placement.delete_allocation", consumer)
        call("placement.delete_allocation", other)
        self.calls.refused(404, "", "placement.delete_allocation", other, ignore_missing=False)

    def clean(self) -> None:
        call, check = self.calls, self.calls.check
        provider = call("placement.find_resource_provider", "wardrobe")
        self.calls.refused(409, "", "placement.delete_resource_provider", provider)
        call("placement.delete_resource_provider_trait", provider)
        for name in ("shelf", "wardrobe"):
            call("placement.delete_resource_provider", call("placement.find_resource_provider", name))
        check("they are gone", call("placement.find_resource_provider", "wardrobe") is None)
        call("placement.delete_resource_class", "CUSTOM_PAINT")
        call("placement.delete_trait", "CUSTOM_DRY")

    def parts(self) -> list:
        return [self.names, self.providers, self.inventories, self.allocations, self.clean]
