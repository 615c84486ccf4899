//! The whole state as a stream of bytes, and its digest.
//!
//! Equal states give equal bytes: rows are written in the order of their slots, names in alphabetical
//! order, and numbers that are private to one copy of the state (aggregates, projects, users,
//! types) as indexes into a table of names. Each row is a length (u32, little endian) and that many
//! bytes of postcard. A later release can add fields to a row (`framing.rs`).

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::group::{Distance, Group, HostAssignment, Level, Rule};
use crate::ids::{
    AggregateId, ClassId, ConsumerId, ConsumerUuid, GroupId, ProjectId, ProviderId, Timestamp,
    TraitId, TypeId, UserId,
};
use crate::intern::Interner;
use crate::inventory::Inventory;
use crate::rows::{Allocation, Consumer, InventoryRow, Named, Provider};
use crate::state::State;

mod framing;
#[cfg(test)]
mod tests;

use framing::{RowReader, RowWriter};

/// The newest version that this release reads. It writes the oldest version that can hold the
/// state: version 2 ends with the distances of the topology, version 1 has none. A new field of a
/// row needs no new version. A new table needs one, if an older release must not load the state
/// without that table.
pub const SNAPSHOT_VERSION: u32 = 2;

/// Why a snapshot cannot be read.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The reader failed, or the snapshot ended early.
    #[error("the snapshot cannot be read")]
    Io(#[from] io::Error),
    /// A newer release wrote the snapshot.
    #[error(
        "the snapshot has version {found}; this release reads versions up to {SNAPSHOT_VERSION}"
    )]
    NewerVersion {
        /// The snapshot's version, above [`SNAPSHOT_VERSION`].
        found: u32,
    },
    /// The content of a row is not valid.
    #[error("the snapshot is damaged: {0}")]
    Damaged(&'static str),
}

/// The first row: the version of the snapshot, and how many rows each table has.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    version: u32,
    classes: u32,
    traits: u32,
    aggregates: u32,
    projects: u32,
    users: u32,
    types: u32,
    groups: u32,
    levels: u32,
    providers: u32,
    consumers: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct NamedRow {
    id: u16,
    name: String,
    modified_at: Timestamp,
}

#[derive(Debug, Serialize, Deserialize)]
struct ProviderRow {
    slot: u32,
    uuid: Uuid,
    name: String,
    parent: Option<u32>,
    root: u32,
    generation: u64,
    created_at: Timestamp,
    updated_at: Option<Timestamp>,
    /// With the time at which each inventory was last set.
    inventories: Vec<(ClassId, Inventory, Timestamp)>,
    traits: Vec<TraitId>,
    /// Indexes into the table of aggregates.
    aggregates: Vec<u32>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ConsumerRow {
    slot: u32,
    uuid: ConsumerUuid,
    generation: u64,
    /// The project, the user and the type are indexes into the tables of their names.
    project: u32,
    user: u32,
    consumer_type: Option<u32>,
    allocated_at: Timestamp,
    /// The slot of the host, and that of the group.
    host_assignment: Option<(u32, Option<u32>)>,
    /// The slot of each provider, the class and the amount.
    allocations: Vec<(u32, ClassId, u32)>,
}

/// The fields of a level that later releases added. They follow the fields that the first release wrote, which are
/// those of [`Level`] without `names`.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct LevelNames {
    names: BTreeMap<String, String>,
}

impl LevelNames {
    fn of(level: &Level) -> Self {
        Self {
            names: level.names.clone(),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct GroupRow {
    slot: u32,
    uuid: Uuid,
    rules: Vec<Rule>,
}

/// The used names of an interner in alphabetical order, and the index of each number among them.
struct NameTable<'a> {
    names: Vec<&'a str>,
    indexes: Vec<u32>,
}

impl<'a> NameTable<'a> {
    fn new(interner: &'a Interner, used: impl Iterator<Item = u32>) -> Self {
        let mut is_used = vec![false; interner.end_number()];
        for number in used {
            is_used[number as usize] = true;
        }
        let mut numbers: Vec<u32> = (0u32..)
            .zip(&is_used)
            .filter(|(_, used)| **used)
            .map(|(number, _)| number)
            .collect();
        numbers.sort_unstable_by_key(|number| interner.text(*number));
        let mut indexes = vec![0; interner.end_number()];
        for (index, number) in (0u32..).zip(&numbers) {
            indexes[*number as usize] = index;
        }
        Self {
            names: numbers
                .iter()
                .map(|number| interner.text(*number))
                .collect(),
            indexes,
        }
    }

    fn index(&self, number: u32) -> u32 {
        self.indexes[number as usize]
    }
}

fn length(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl State {
    /// Writes the state as a snapshot. Wrap a slow writer in a buffer: rows are small.
    ///
    /// # Errors
    ///
    /// The error of the writer.
    #[expect(clippy::too_many_lines, reason = "one section a table")]
    pub fn save(&self, out: &mut dyn Write) -> io::Result<()> {
        let providers = || self.all_providers().map(|(_, provider)| provider);
        let consumers = || self.all_consumers().map(|(_, consumer)| consumer);
        let aggregates = NameTable::new(
            &self.aggregates,
            providers()
                .flat_map(|provider| &provider.aggregates)
                .map(|id| id.0),
        );
        let projects = NameTable::new(
            &self.projects,
            consumers().map(|consumer| consumer.project.0),
        );
        let users = NameTable::new(&self.users, consumers().map(|consumer| consumer.user.0));
        let types = NameTable::new(
            &self.consumer_types,
            consumers()
                .filter_map(|consumer| consumer.consumer_type)
                .map(|id| id.0),
        );
        let mut rows = RowWriter::new(out);
        rows.write(&Header {
            version: if self.distances.is_empty() { 1 } else { 2 },
            classes: length(self.classes.len()),
            traits: length(self.traits.len()),
            aggregates: length(aggregates.names.len()),
            projects: length(projects.names.len()),
            users: length(users.names.len()),
            types: length(types.names.len()),
            groups: length(self.groups.len()),
            levels: length(self.levels.len()),
            providers: length(self.providers.len()),
            consumers: length(self.consumers.len()),
        })?;
        for (ClassId(id), named) in self.all_classes() {
            rows.write(&named_row(id, named))?;
        }
        for (TraitId(id), named) in self.all_traits() {
            rows.write(&named_row(id, named))?;
        }
        for table in [&aggregates, &projects, &users, &types] {
            for name in &table.names {
                rows.write(name)?;
            }
        }
        for (ProviderId(slot), provider) in self.all_providers() {
            rows.write(&provider_row(slot, provider, &aggregates))?;
        }
        for level in &self.levels {
            rows.write_with(level, &LevelNames::of(level))?;
        }
        for (slot, group) in self.groups.iter() {
            let (uuid, rules) = (group.uuid, group.rules.clone());
            rows.write(&GroupRow { slot, uuid, rules })?;
        }
        for (ConsumerId(slot), consumer) in self.all_consumers() {
            rows.write(&ConsumerRow {
                slot,
                uuid: consumer.uuid,
                generation: consumer.generation,
                project: projects.index(consumer.project.0),
                user: users.index(consumer.user.0),
                consumer_type: consumer.consumer_type.map(|id| types.index(id.0)),
                allocated_at: consumer.allocated_at,
                host_assignment: consumer
                    .host_assignment
                    .map(|assignment| (assignment.host.0, assignment.group.map(|group| group.0))),
                allocations: consumer
                    .allocations
                    .iter()
                    .map(|allocation| (allocation.provider.0, allocation.class, allocation.amount))
                    .collect(),
            })?;
        }
        if !self.distances.is_empty() {
            rows.write(&length(self.distances.len()))?;
        }
        for distance in &self.distances {
            rows.write(distance)?;
        }
        Ok(())
    }

    /// Reads a state from a snapshot. Wrap a slow reader in a buffer: rows are small.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] when reading fails or the bytes are not a whole snapshot.
    pub fn load(input: &mut dyn Read) -> Result<Self, SnapshotError> {
        let mut rows = RowReader::new(input);
        let header: Header = rows.read()?;
        if header.version > SNAPSHOT_VERSION {
            return Err(SnapshotError::NewerVersion {
                found: header.version,
            });
        }
        let mut state = Self::default();
        for _ in 0..header.classes {
            let row: NamedRow = rows.read()?;
            let id = ClassId(row.id);
            state.class_by_name.insert(row.name.as_str().into(), id);
            state.classes.put(u32::from(row.id), named_from_row(row));
        }
        for _ in 0..header.traits {
            let row: NamedRow = rows.read()?;
            let id = TraitId(row.id);
            state.trait_by_name.insert(row.name.as_str().into(), id);
            state.traits.put(u32::from(row.id), named_from_row(row));
        }
        state.sharing_trait = state.trait_id(crate::names::SHARING_TRAIT);
        let mut read_names = |count: u32| -> Result<Vec<String>, SnapshotError> {
            (0..count).map(|_| rows.read()).collect()
        };
        let aggregates: Vec<AggregateId> = read_names(header.aggregates)?
            .iter()
            .map(|uuid| state.intern_aggregate(uuid))
            .collect();
        let projects: Vec<ProjectId> = read_names(header.projects)?
            .iter()
            .map(|name| state.intern_project(name))
            .collect();
        let users: Vec<UserId> = read_names(header.users)?
            .iter()
            .map(|name| UserId(state.users.intern(name)))
            .collect();
        let types: Vec<TypeId> = read_names(header.types)?
            .iter()
            .map(|name| TypeId(state.consumer_types.intern(name)))
            .collect();
        load_providers(&mut state, &mut rows, header.providers, &aggregates)?;
        let levels = (0..header.levels)
            .map(|_| {
                let (level, LevelNames { names }) = rows.read_with()?;
                Ok(Level { names, ..level })
            })
            .collect::<Result<Vec<Level>, SnapshotError>>()?;
        state.replace_levels(levels);
        for _ in 0..header.groups {
            let GroupRow { slot, uuid, rules } = rows.read()?;
            let group = Group {
                uuid,
                rules,
                members: Vec::new(),
            };
            state.replace_group(GroupId(slot), uuid, Some(group));
        }
        for _ in 0..header.consumers {
            let row: ConsumerRow = rows.read()?;
            let consumer = consumer_from_row(&row, &projects, &users, &types)
                .ok_or(SnapshotError::Damaged("a consumer names what is not there"))?;
            state.replace_consumer(ConsumerId(row.slot), row.uuid, Some(consumer));
        }
        load_distances(&mut state, &mut rows, header.version)?;
        Ok(state)
    }

    /// A number that equal states share and different ones practically never do: the first half
    /// of the BLAKE3 hash of the snapshot.
    #[must_use]
    pub fn digest(&self) -> u128 {
        let mut hasher = blake3::Hasher::new();
        let mut out = io::BufWriter::with_capacity(1 << 16, &mut hasher);
        // Hashing cannot fail.
        let written = self.save(&mut out).and_then(|()| out.flush());
        debug_assert!(written.is_ok());
        drop(out);
        let hash = hasher.finalize();
        let mut half = [0; 16];
        half.copy_from_slice(&hash.as_bytes()[..16]);
        u128::from_le_bytes(half)
    }
}

fn named_row(id: u16, named: &Named) -> NamedRow {
    NamedRow {
        id,
        name: named.name.to_string(),
        modified_at: named.modified_at,
    }
}

fn named_from_row(row: NamedRow) -> Named {
    Named {
        name: row.name.into(),
        modified_at: row.modified_at,
    }
}

fn provider_row(slot: u32, provider: &Provider, aggregates: &NameTable<'_>) -> ProviderRow {
    let mut indexes: Vec<u32> = provider
        .aggregates
        .iter()
        .map(|id| aggregates.index(id.0))
        .collect();
    indexes.sort_unstable();
    ProviderRow {
        slot,
        uuid: provider.uuid,
        name: provider.name.to_string(),
        parent: provider.parent.map(|id| id.0),
        root: provider.root.0,
        generation: provider.generation,
        created_at: provider.created_at,
        updated_at: provider.updated_at,
        inventories: provider
            .inventories
            .iter()
            .map(|row| (row.class, row.inventory, row.modified_at))
            .collect(),
        traits: provider.traits.clone(),
        aggregates: indexes,
    }
}

fn load_distances(
    state: &mut State,
    rows: &mut RowReader<'_>,
    version: u32,
) -> Result<(), SnapshotError> {
    if version >= 2 {
        let count: u32 = rows.read()?;
        let distances = (0..count).map(|_| rows.read());
        let distances = distances.collect::<Result<Vec<Distance>, _>>()?;
        state.replace_distances(distances);
    }
    Ok(())
}

/// Reads providers in the order of their slots. A parent may come after its child, so children are
/// joined to their parents after all were read.
fn load_providers(
    state: &mut State,
    rows: &mut RowReader<'_>,
    count: u32,
    aggregates: &[AggregateId],
) -> Result<(), SnapshotError> {
    let mut children = Vec::new();
    for _ in 0..count {
        let row: ProviderRow = rows.read()?;
        let mut aggregate_ids = Vec::with_capacity(row.aggregates.len());
        for index in &row.aggregates {
            let id = aggregates.get(*index as usize);
            aggregate_ids.push(*id.ok_or(SnapshotError::Damaged("a provider names no aggregate"))?);
        }
        aggregate_ids.sort_unstable();
        let id = ProviderId(row.slot);
        if let Some(parent) = row.parent {
            children.push((id, ProviderId(parent)));
        }
        let provider = Provider {
            uuid: row.uuid,
            name: row.name.into(),
            parent: None,
            root: ProviderId(row.root),
            children: Vec::new(),
            generation: row.generation,
            created_at: row.created_at,
            updated_at: row.updated_at,
            inventories: row
                .inventories
                .into_iter()
                .map(|(class, inventory, modified_at)| InventoryRow {
                    class,
                    inventory,
                    capacity: inventory.capacity(),
                    used: 0,
                    modified_at,
                })
                .collect(),
            traits: row.traits,
            aggregates: aggregate_ids,
            consumers: Vec::new(),
        };
        state.insert_provider(id, provider);
    }
    for (child, parent) in children {
        state.attach(child, parent);
    }
    Ok(())
}

/// `None` if the row names a project, a user or a type that is not in the tables.
fn consumer_from_row(
    row: &ConsumerRow,
    projects: &[ProjectId],
    users: &[UserId],
    types: &[TypeId],
) -> Option<Consumer> {
    let consumer_type = match row.consumer_type {
        Some(index) => Some(*types.get(index as usize)?),
        None => None,
    };
    Some(Consumer {
        uuid: row.uuid,
        generation: row.generation,
        project: *projects.get(row.project as usize)?,
        user: *users.get(row.user as usize)?,
        consumer_type,
        allocated_at: row.allocated_at,
        host_assignment: row.host_assignment.map(|(host, group)| HostAssignment {
            host: ProviderId(host),
            group: group.map(GroupId),
        }),
        allocations: row
            .allocations
            .iter()
            .map(|(provider, class, amount)| Allocation {
                provider: ProviderId(*provider),
                class: *class,
                amount: *amount,
            })
            .collect(),
    })
}
