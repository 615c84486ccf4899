//! `placewright topology add`, `move` and `remove`: single places and hosts.

use std::collections::{BTreeMap, BTreeSet};

use placewright_client::{Client, Level, Topology};
use placewright_roles::config::ConfigErrors;
use placewright_roles::outln;
use uuid::Uuid;

use super::Edit;
use super::apply::nothing_changed;
use super::merge::insert_level;
use super::placement::{Placement, Provider};
use super::table::{name_of, uuid_of};

/// The operation on the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Add,
    Move,
    Remove,
}

/// The topology, whose places are found by their names.
struct Places {
    topology: Topology,
    /// The names of the places' aggregates, without the name of the level before them. They serve for places that the
    /// topology does not name. They are not written to the topology, because they may be empty, or the same for several
    /// places.
    aggregate_names: BTreeMap<Uuid, String>,
}

/// A member of a place: a smaller place or a host.
enum Member {
    /// A place of the level with this index.
    Place(usize, Uuid),
    Host(Uuid),
}

/// An error in the user's arguments.
fn wrong<T>(text: String) -> Result<T, ConfigErrors> {
    Err(ConfigErrors(vec![text]))
}

impl Edit {
    /// Makes the change.
    ///
    /// # Errors
    ///
    /// The words are not a level, a place and members, a name is unknown or not unique, a member is not of a smaller
    /// level, a host is elsewhere already, or a server does not answer as expected.
    pub(super) fn run(&self, kind: Kind) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(self.change(kind))
    }

    async fn change(&self, kind: Kind) -> anyhow::Result<()> {
        let (level, place, members) = self.words()?;
        if members.is_empty() && kind != Kind::Remove {
            wrong(format!("say what goes into {level} {place}"))?;
        }
        let service_args = &self.service_args;
        let token = service_args.token.token().await?;
        let scheduler = Client::new(&service_args.scheduler.scheduler_url, token.expose())?;
        let placement = Placement::new(service_args, token)?;
        let roots = placement.roots().await?;
        let aggregates = scheduler.aggregates().await?.aggregates.into_iter();
        let names = aggregates.map(|aggregate| (aggregate.uuid, aggregate.name));
        let mut places = Places::new(scheduler.topology().await?, &names.collect());
        let members = members.iter().map(|name| places.member(name, &roots));
        let members = members.collect::<Result<Vec<Member>, ConfigErrors>>()?;
        let level_index = places.find_or_add_level(level, &members, kind)?;
        let target = places.target(level_index, place, kind)?;
        let removes_place = kind == Kind::Remove && members.is_empty();
        let mut hosts = hosts_of(&placement, &members).await?;
        if removes_place {
            hosts.extend(placement.members(target).await?);
        }
        // The places that the hosts leave. For `add` and `move` these are all places of the level; the hosts come into
        // the target all the same.
        let mut covered_places = places.topology.levels[level_index].aggregates.clone();
        match kind {
            Kind::Add => {
                self.refuse_hosts_elsewhere(&placement, &places, &covered_places, target, &hosts)
                    .await?;
            }
            Kind::Move => {}
            Kind::Remove => covered_places = BTreeSet::from([target]),
        }
        let name = (!removes_place).then_some(place);
        let is_new = places.set_place(level_index, target, name);
        if !service_args.dry_run {
            if is_new {
                let name = name_of(level, place);
                scheduler
                    .put_aggregate(target, &name, &BTreeMap::new())
                    .await?;
            }
            scheduler.put_topology(&places.topology).await?;
        }
        let host_places: BTreeSet<Uuid> = match kind {
            Kind::Remove => BTreeSet::new(),
            Kind::Add | Kind::Move => BTreeSet::from([target]),
        };
        let mut changed_hosts = 0usize;
        for root in roots.iter().filter(|root| hosts.contains(&root.uuid)) {
            let has_moved = placement.move_host(root, &host_places, &covered_places);
            changed_hosts += usize::from(has_moved.await?);
        }
        outln!(
            "{}{changed_hosts} of {} hosts {} {level} {place}",
            nothing_changed(service_args),
            hosts.len(),
            if kind == Kind::Remove {
                "left"
            } else {
                "came into"
            },
        );
        Ok(())
    }

    /// The level, the place and its members.
    fn words(&self) -> Result<(&str, &str, &[String]), ConfigErrors> {
        let level = self.words.first().and_then(|word| word.strip_prefix("--"));
        let level = level.filter(|level| !level.is_empty());
        match (level, self.words.get(1..)) {
            (Some(level), Some([place, members @ ..])) if !place.is_empty() => {
                Ok((level, place, members))
            }
            _ => wrong("write it as --LEVEL PLACE MEMBER…, as --row 7 rack-12".to_owned()),
        }
    }

    /// Refuses to add hosts that are in another place of the level.
    async fn refuse_hosts_elsewhere(
        &self,
        placement: &Placement<'_>,
        places: &Places,
        level_places: &BTreeSet<Uuid>,
        target: Uuid,
        hosts: &BTreeSet<Uuid>,
    ) -> anyhow::Result<()> {
        for other in level_places.iter().filter(|place| **place != target) {
            let members = placement.members(*other).await?;
            if let Some(host) = members.iter().find(|host| hosts.contains(host)) {
                let mut levels = places.topology.levels.iter();
                let name = levels.find_map(|level| {
                    let is_of_level = level.aggregates.contains(other);
                    let name = places.name(level, *other).filter(|_| is_of_level)?;
                    Some(format!("{} {name}", level.name))
                });
                let name = name.unwrap_or_else(|| "another place".to_owned());
                wrong(format!("host {host} is in {name}: move it"))?;
            }
        }
        Ok(())
    }
}

/// The hosts among the members, and the hosts in the places among the members.
async fn hosts_of(placement: &Placement<'_>, members: &[Member]) -> anyhow::Result<BTreeSet<Uuid>> {
    let mut hosts = BTreeSet::new();
    for member in members {
        match member {
            Member::Host(host) => drop(hosts.insert(*host)),
            Member::Place(_, uuid) => hosts.extend(placement.members(*uuid).await?),
        }
    }
    Ok(hosts)
}

impl Places {
    /// The places of a topology. A place that the topology does not name has the name of its aggregate, without that of
    /// its level before it.
    fn new(topology: Topology, names: &BTreeMap<Uuid, String>) -> Self {
        let mut aggregate_names = BTreeMap::new();
        for level in &topology.levels {
            let prefix = name_of(&level.name, "");
            for place in &level.aggregates {
                if let Some(name) = names.get(place) {
                    let name = name.strip_prefix(&prefix).unwrap_or(name);
                    aggregate_names.insert(*place, name.to_owned());
                }
            }
        }
        Self {
            topology,
            aggregate_names,
        }
    }

    /// The name of a place of a level, if it has one.
    fn name<'a>(&'a self, level: &'a Level, place: Uuid) -> Option<&'a String> {
        let named = level.names.get(&place);
        named.or_else(|| self.aggregate_names.get(&place))
    }

    /// Adds a place with this name to a level or, without a name, removes it with its distances. Then removes levels
    /// that have no places. Returns whether the place was added.
    fn set_place(&mut self, level: usize, place: Uuid, name: Option<&str>) -> bool {
        let level = &mut self.topology.levels[level];
        let is_new = name.is_some() && level.aggregates.insert(place);
        if let Some(name) = name.filter(|_| is_new) {
            level.names.insert(place, name.to_owned());
        }
        if name.is_none() {
            level.aggregates.remove(&place);
            level.names.remove(&place);
            let distances = &mut self.topology.distances;
            distances.retain(|entry| entry.from != place && entry.to != place);
        }
        let levels = &mut self.topology.levels;
        levels.retain(|level| !level.aggregates.is_empty());
        is_new
    }

    /// The places of a level that have this name. The name may begin with the names of larger places, as in `north/7`.
    fn find(&self, level: usize, name: &str) -> Vec<Uuid> {
        let Some(level) = self.topology.levels.get(level) else {
            return Vec::new();
        };
        let ending = format!("/{name}");
        let places = level.aggregates.iter().copied();
        places
            .filter(|place| {
                let named = self.name(level, *place);
                named.is_some_and(|named| named == name || named.ends_with(&ending))
            })
            .collect()
    }

    /// The place or host that has this name, of which there must be only one.
    fn member(&self, name: &str, roots: &[Provider]) -> Result<Member, ConfigErrors> {
        let levels = 0..self.topology.levels.len();
        let found: Vec<(usize, Uuid)> = levels
            .flat_map(|level| {
                self.find(level, name)
                    .into_iter()
                    .map(move |place| (level, place))
            })
            .collect();
        let host = roots
            .iter()
            .find(|root| root.name == name || root.uuid.to_string() == name);
        match (&found[..], host) {
            ([(level, place)], None) => Ok(Member::Place(*level, *place)),
            ([], Some(host)) => Ok(Member::Host(host.uuid)),
            ([], None) => wrong(format!("there is no place and no host {name:?}")),
            _ => wrong(format!(
                "{name:?} is not unique: put the names of the larger places before it"
            )),
        }
    }

    /// The index of the level with this name. For [`Kind::Add`] and [`Kind::Move`], a missing level is created directly
    /// above those of the members.
    fn find_or_add_level(
        &mut self,
        name: &str,
        members: &[Member],
        kind: Kind,
    ) -> Result<usize, ConfigErrors> {
        let of_members = members.iter().filter_map(|member| match member {
            Member::Place(level, _) => Some(*level),
            Member::Host(_) => None,
        });
        let largest = of_members.max();
        let levels = &self.topology.levels;
        match levels.iter().position(|level| level.name == name) {
            Some(index) if largest.is_some_and(|largest| largest >= index) => {
                wrong(format!("only places of smaller levels go into a {name}"))
            }
            Some(index) => Ok(index),
            None if kind == Kind::Remove => wrong(format!("there is no level {name:?}")),
            None => Ok(insert_level(&mut self.topology, name, largest)),
        }
    }

    /// The place to which members are added, or from which they are removed. A place that does not exist yet gets the
    /// UUID that is derived from its level and name.
    fn target(&self, level: usize, name: &str, kind: Kind) -> Result<Uuid, ConfigErrors> {
        let level_name = self.topology.levels.get(level);
        let level_name = level_name.map_or("", |level| &level.name);
        match self.find(level, name)[..] {
            [place] => Ok(place),
            [] if kind == Kind::Remove => wrong(format!("there is no {level_name} {name:?}")),
            [] => Ok(uuid_of(&name_of(level_name, name))),
            _ => wrong(format!(
                "{level_name} {name:?} is not unique: put the names of the larger places before it"
            )),
        }
    }
}
