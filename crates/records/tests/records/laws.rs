//! Every value that is written is read as an equal value, and no bytes make reading panic.

use crate::drawn;
use crate::values;

use std::collections::BTreeMap;
use std::fmt::Debug;

use placewright_conductor::cell_conductor::{
    Change as CellChange, GuestRef, Instance, Job, JobKind, Stage, Step, Target, VmState,
};
use placewright_conductor::message::{Create, Envelope};
use placewright_conductor::super_conductor::{Change, Labels, Lock, Mapping, Migration};
use placewright_conductor::{
    CellId, ClaimResponse, HostId, InstanceId, Message, MigrationId, MoveKind, SharedRow,
    SharedText, Spec, SpecBody, control,
};
use placewright_placement::change::NewAllocation;
use placewright_placement::{self as placement, ClassId, ConsumerUuid, Inventory};
use placewright_records::guests::{self, Entry, GuestRow, GuestStateName};
use placewright_records::message::{self, Versions};
use placewright_records::{
    Form, Layout, Reader, Writer, cell, control as control_records, ranking, server,
};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use uuid::Uuid;

use crate::drawn::{
    Draw, amounts, candidate, decision, fault, mappings, quota, reschedule, text, time, usage, uuid,
};

fn spec(draw: Draw) -> impl Strategy<Value = Spec> {
    let row = (vec(any::<u8>(), 1..200), vec(any::<u8>(), 0..9));
    let row = row.prop_map(|(common, own)| SharedRow::from_parts(common.into(), own));
    let body = (text(), text(), draw.added(row)).prop_map(|(common, own, row)| {
        if row.common().is_empty() {
            SharedText::from_parts(common.into(), own).into()
        } else {
            SpecBody::Row(row)
        }
    });
    let shared_text =
        || (text(), text()).prop_map(|(common, own)| SharedText::from_parts(common.into(), own));
    let secrets = (draw.added(shared_text()), draw.added(shared_text()));
    (text(), text(), text(), of(uuid()), body, time(), secrets).prop_map(
        |(name, project, user, group, body, created_at, (build_secrets, secrets))| Spec {
            name,
            project,
            user,
            group,
            body,
            created_at,
            build_secrets,
            secrets,
            ..values::spec()
        },
    )
}

fn mapping(draw: Draw) -> impl Strategy<Value = Mapping> {
    let ids = vec(uuid().prop_map(MigrationId), 0..3);
    let claim_response = of(any::<u32>().prop_map(|index| ClaimResponse::Swapped { index }));
    (
        of(uuid()),
        text(),
        time(),
        any::<bool>(),
        any::<u64>(),
        claim_response,
        any::<u32>(),
        ids,
        draw.added(vec(decision(), 0..3)),
        draw.added(reschedule()),
    )
        .prop_map(
            |(
                cell,
                project,
                created_at,
                is_deleting,
                claim_number,
                claim_response,
                move_number,
                migrations,
                decisions,
                reschedule,
            )| Mapping {
                cell: cell.map(CellId),
                user: project.clone(),
                project,
                created_at,
                is_deleting,
                claim_number,
                claim_response,
                move_number,
                migrations,
                decisions,
                reschedule,
            },
        )
}

fn labels() -> impl Strategy<Value = Labels> {
    let metadata = btree_map(text(), text(), 0..3);
    (
        text(),
        of(text()),
        metadata,
        vec(text(), 0..3),
        any::<bool>(),
        time(),
    )
        .prop_map(
            |(name, description, metadata, tags, by_owner, updated_at)| Labels {
                hostname: name.clone(),
                name,
                lock: description.is_some().then(|| Lock {
                    by_owner,
                    reason: description.clone(),
                }),
                description,
                metadata,
                tags,
                updated_at,
            },
        )
}

fn migration() -> impl Strategy<Value = Migration> {
    use placewright_conductor::super_conductor::MigrationStatus::{Accepted, Error, Running};
    let status = prop_oneof![Just(Accepted), Just(Running), Just(Error)];
    (uuid(), status, of(uuid()), time(), of(fault())).prop_map(
        |(id, status, target, created_at, fault)| Migration {
            instance: InstanceId(id),
            kind: MoveKind::Evacuate,
            status,
            cell: CellId(id),
            source: target.map(HostId),
            target: target.map(HostId),
            created_at,
            updated_at: created_at,
            fault,
        },
    )
}

fn consumer() -> impl Strategy<Value = placement::Change> {
    let allocation = (uuid(), any::<u16>(), any::<u32>());
    let allocation = allocation.prop_map(|(provider, class, amount)| NewAllocation {
        provider,
        class: ClassId(class),
        amount,
    });
    (
        uuid(),
        any::<u64>(),
        text(),
        of(text()),
        time(),
        vec(allocation, 0..5),
    )
        .prop_map(
            |(consumer, generation, project, consumer_type, at, allocations)| {
                placement::Change::ConsumerSet {
                    consumer: ConsumerUuid::from_uuid(consumer),
                    generation,
                    user: project.clone(),
                    project,
                    consumer_type,
                    at,
                    allocations,
                }
            },
        )
}

fn inventory() -> impl Strategy<Value = placement::Change> {
    let numbers = (any::<i32>(), any::<i32>(), -1e9f64..1e9);
    (uuid(), any::<u16>(), numbers, time()).prop_map(|(provider, class, numbers, at)| {
        let (total, reserved, allocation_ratio) = numbers;
        placement::Change::InventorySet {
            provider,
            class: ClassId(class),
            inventory: Inventory {
                total,
                reserved,
                min_unit: 1,
                max_unit: total,
                step_size: 1,
                allocation_ratio,
            },
            at,
        }
    })
}

fn control_changes(draw: Draw) -> impl Strategy<Value = control::Change> {
    let boxed = |row: Option<Spec>| row.map(Box::new);
    prop_oneof![
        consumer().prop_map(control::Change::Placement),
        inventory().prop_map(control::Change::Placement),
        prop_oneof![
            (uuid(), of(spec(draw)))
                .prop_map(move |(id, row)| Change::Spec(InstanceId(id), boxed(row))),
            (uuid(), of(mapping(draw)))
                .prop_map(|(id, row)| Change::Mapping(InstanceId(id), row.map(Box::new))),
            (uuid(), of(labels()))
                .prop_map(|(id, row)| Change::Labels(InstanceId(id), row.map(Box::new))),
            (quota(), any::<bool>()).prop_map(|((scope, set), is_set)| Change::Quota(
                scope,
                is_set.then(|| Box::new(set))
            )),
            (uuid(), of(migration()))
                .prop_map(|(id, row)| Change::Migration(MigrationId(id), row.map(Box::new))),
        ]
        .prop_map(control::Change::Conductor),
    ]
}

fn guest_ref() -> impl Strategy<Value = GuestRef> {
    (uuid(), any::<u32>()).prop_map(|(host, number)| GuestRef {
        host: HostId(host),
        number,
    })
}

fn instance(draw: Draw) -> impl Strategy<Value = Instance> {
    (
        of(guest_ref()),
        of(text()),
        any::<u64>(),
        any::<u32>(),
        of(fault()),
        time(),
        draw.added(mappings()),
    )
        .prop_map(
            |(guest, zone, claim_number, attempt, fault, created_at, mappings)| Instance {
                vm_state: VmState::Error,
                guest,
                zone,
                claim_number,
                attempt,
                move_number: attempt,
                action_count: attempt,
                fault,
                created_at,
                updated_at: created_at,
                mappings,
            },
        )
}

fn job(draw: Draw) -> impl Strategy<Value = Job> {
    let target = (candidate(draw), any::<u32>());
    let target = target.prop_map(|(candidate, number)| Target {
        candidate: candidate.into(),
        number,
    });
    let guest_refs = vec(guest_ref(), 0..3);
    (
        of(uuid()),
        time(),
        of(target),
        vec(candidate(draw), 0..3),
        of(spec(draw)),
        guest_refs,
        draw.added((mappings(), any::<bool>())),
    )
        .prop_map(
            |(migration, since, target, alternates, spec, awaited_destructions, added)| Job {
                kind: JobKind::Move(MoveKind::Resize),
                migration: migration.map(MigrationId),
                stage: Stage::Step(Step::Arrive),
                since,
                deadline: migration.map(|_| since),
                target,
                alternates: alternates.into(),
                origin: awaited_destructions.first().copied(),
                spec,
                state_before: VmState::Active,
                is_broken: migration.is_some(),
                fault: None,
                awaited_destructions,
                origin_mappings: added.0,
                may_go_elsewhere: added.1,
            },
        )
}

fn cell_changes(draw: Draw) -> impl Strategy<Value = CellChange> {
    prop_oneof![
        (uuid(), of(instance(draw)))
            .prop_map(|(id, row)| CellChange::Instance(InstanceId(id), row.map(Box::new))),
        (uuid(), of(job(draw)))
            .prop_map(|(id, row)| CellChange::Job(InstanceId(id), row.map(Box::new))),
        (guest_ref(), of(time())).prop_map(|(guest_ref, at)| {
            let key = (
                guest_ref.host,
                InstanceId(guest_ref.host.0),
                guest_ref.number,
            );
            CellChange::Guest(key, at.map(Box::new))
        }),
    ]
}

fn envelope(draw: Draw) -> impl Strategy<Value = Envelope> {
    (
        uuid(),
        spec(draw),
        candidate(draw),
        vec(candidate(draw), 0..3),
        any::<u64>(),
        time(),
    )
        .prop_map(
            |(id, spec, selection, alternates, claim_number, sent_at)| Envelope {
                sent_at,
                message: Message::Create(Box::new(Create {
                    instance: InstanceId(id),
                    spec,
                    selection: selection.into(),
                    alternates: alternates.into(),
                    claim_number,
                })),
            },
        )
}

fn entry() -> impl Strategy<Value = Entry> {
    let properties = vec((text(), text()), 0..3);
    let put = (uuid(), any::<u32>(), amounts(), of(uuid()), properties);
    prop_oneof![
        any::<u64>().prop_map(Entry::Session),
        put.prop_map(|(id, number, amounts, group, image_properties)| {
            let guest = GuestRow {
                state: GuestStateName::Left,
                amounts,
                group,
                image_properties,
            };
            Entry::Put(HostId(id), (InstanceId(id), number), guest)
        }),
    ]
}

/// Numbers, texts and lists of each kind.
type Basics = (
    (u8, u16, u32),
    (u64, i32, i64),
    (bool, String, Option<Vec<(String, BTreeMap<u16, i64>)>>),
);

fn basics() -> impl Strategy<Value = Basics> {
    let list = vec((text(), btree_map(any::<u16>(), any::<i64>(), 0..3)), 0..3);
    (
        any::<(u8, u16, u32)>(),
        any::<(u64, i32, i64)>(),
        (any::<bool>(), text(), of(list)),
    )
}

/// Asserts that a value is read as it was written. Returns the bytes.
fn assert_reads<T: Form + PartialEq + Debug>(value: &T, layout: Layout) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), layout);
    value.write(&mut out);
    let bytes = out.into_bytes();
    let mut from = Reader::new(&bytes, layout);
    assert_eq!(T::read(&mut from).as_ref(), Ok(value));
    assert_eq!(from.finish(), Ok(()));
    bytes
}

proptest! {
    #[test]
    fn basic_values_are_as_postcard_writes_them(value in basics(), ratio in any::<f64>()) {
        let bytes = assert_reads(&value, Layout::Positional);
        prop_assert_eq!(&bytes, &postcard::to_stdvec(&value).unwrap());
        prop_assert_eq!(bytes, assert_reads(&value, Layout::Growing));
        prop_assume!(!ratio.is_nan());
        let bytes = assert_reads(&ratio, Layout::Positional);
        prop_assert_eq!(bytes, postcard::to_stdvec(&ratio).unwrap());
    }

    #[test]
    fn changes_of_control_read_as_written(
        changes in vec(control_changes(Draw::WithAdded), 0..6),
        without_added_fields in vec(control_changes(Draw::OfEveryLayout), 0..6),
    ) {
        for changes in [&changes, &without_added_fields] {
            let mut record = Vec::new();
            control_records::encode(changes, &mut record);
            prop_assert_eq!(&control_records::decode(&record).unwrap(), changes);
        }
        assert_reads(&without_added_fields, Layout::Positional);
    }

    #[test]
    fn usages_of_instances_read_as_written(spec in spec(Draw::WithAdded), usage in usage()) {
        let spec = Some(Box::new(Spec { usage, ..spec }));
        let changes = [control::Change::Conductor(Change::Spec(values::INSTANCE, spec))];
        let mut record = Vec::new();
        control_records::encode(&changes, &mut record);
        prop_assert_eq!(control_records::decode(&record).unwrap(), changes);
    }

    #[test]
    fn rankings_read_as_written(ranking in drawn::ranking()) {
        let read = ranking::decode(&ranking::encode(&ranking)).unwrap();
        prop_assert_eq!(read, ranking);
    }

    #[test]
    fn changes_of_a_cell_read_as_written(
        changes in vec(cell_changes(Draw::WithAdded), 0..6),
        without_added_fields in vec(cell_changes(Draw::OfEveryLayout), 0..6),
    ) {
        for changes in [&changes, &without_added_fields] {
            let mut record = Vec::new();
            cell::encode(changes, &mut record);
            prop_assert_eq!(&cell::decode(&record).unwrap(), changes);
        }
        assert_reads(&without_added_fields, Layout::Positional);
    }

    #[test]
    fn entries_of_agents_read_as_written(entry in entry()) {
        prop_assert_eq!(&guests::decode(guests::VERSION, &guests::encode(&entry)).unwrap(), &entry);
        let bytes = assert_reads(&entry, Layout::Positional);
        prop_assert_eq!(&guests::decode(1, &bytes).unwrap(), &entry);
    }

    #[test]
    fn messages_read_as_written(
        list in vec(envelope(Draw::WithAdded), 0..6),
        without_added_fields in vec(envelope(Draw::OfEveryLayout), 0..6),
        bytes_max in 0..2000usize,
    ) {
        let positional = Versions::SUPPORTED.oldest;
        let versions = positional + 1..=Versions::SUPPORTED.newest;
        let newer = versions.clone().map(|version| (version, &list));
        let all = std::iter::once(positional).chain(versions);
        for (version, list) in all.map(|version| (version, &without_added_fields)).chain(newer) {
            let parts = message::encode_parts(version, list, bytes_max).unwrap();
            let mut read = Vec::new();
            for part in &parts {
                let part_items: Vec<Envelope> = message::decode(version, &part.bytes).unwrap();
                prop_assert_eq!(part_items.len(), part.count);
                read.extend(part_items);
            }
            prop_assert_eq!(&read, list);
        }
    }

    #[test]
    fn bodies_that_are_rows_read_as_written(
        spec in spec(Draw::OfEveryLayout),
        common in vec(any::<u8>(), 1..200),
        own in vec(any::<u8>(), 0..9),
    ) {
        let body = SpecBody::Row(SharedRow::from_parts(common.into(), own));
        // Bytes that are not a valid body are stored as they are, and reading them does not panic.
        drop(server::read(&body));
        let row = Change::Spec(InstanceId(Uuid::nil()), Some(Box::new(Spec { body, ..spec })));
        let changes = vec![control::Change::Conductor(row)];
        let mut record = Vec::new();
        control_records::encode(&changes, &mut record);
        prop_assert_eq!(control_records::decode(&record).unwrap(), changes);
    }

    #[test]
    fn no_bytes_make_reading_panic(
        changes in vec(control_changes(Draw::WithAdded), 1..4),
        position in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut record = Vec::new();
        control_records::encode(&changes, &mut record);
        let position = position.index(record.len());
        record[position] = byte;
        drop(control_records::decode(&record));
        drop(cell::decode(&record));
        drop(guests::decode(1 + byte % 2, &record));
        record.truncate(position);
        drop(control_records::decode(&record));
    }
}
