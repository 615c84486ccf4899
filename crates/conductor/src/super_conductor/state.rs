//! The tables of control.

use uuid::Uuid;

use super::image::Image;
use super::listing::Listing;
use super::rows::{
    Aggregate, BuildRequest, Buried, Cell, Deletion, Flavor, GroupTopology, HostMapping, Keypair,
    Labels, Mapping, Migration, Move, Rebuild, ServerGroup, Service,
};
use crate::accounts::{
    ApplicationCredential, Assignment, AssignmentScope, Project, RevokedToken, Role, TokenKey, User,
};
use crate::ids::{CellId, HostId, InstanceId, MigrationId};
use crate::quota::{QuotaScope, QuotaSet};
use crate::spec::Spec;
use crate::table::{Index, tables};

tables! {
    /// The persistent state of control, except for that of placement.
    tables with Listing;
    /// The cells of the installation, without cell0.
    cells: Cell(CellId => Cell),
    /// The cell of each host.
    hosts: Host(HostId => HostMapping),
    /// The host of each name; names are unique over all cells.
    host_names: HostName(String => HostId),
    /// The build requests: instances that no cell has accepted yet.
    builds: Build(InstanceId => BuildRequest),
    /// The specifications of the instances.
    specs: Spec(InstanceId => Spec),
    /// All instances, with their cells.
    mappings: Mapping(InstanceId => Mapping),
    /// The instances of cell0, for which no host was found.
    buried: Buried(InstanceId => Buried),
    /// The instances that their cells still have to delete.
    deletions: Deletion(InstanceId => Deletion),
    /// The moves that are under way.
    moves: Move(MigrationId => Move),
    /// All moves of existing instances, past and present.
    migrations: Migration(MigrationId => Migration),
    /// The flavors by their ids.
    flavors: Flavor(String => Flavor),
    /// The key pairs by user and name.
    keypairs: Keypair((String, String) => Keypair),
    /// The server groups by UUID.
    groups: Group(Uuid => ServerGroup),
    /// The host aggregates by UUID.
    aggregates: Aggregate(Uuid => Aggregate),
    /// The administrative state of compute services, by host.
    services: Service(HostId => Service),
    /// Names, metadata, tags, locks and other labels that users changed.
    labels: Labels(InstanceId => Labels),
    /// The topology rules of server groups; groups without any have no row.
    group_topologies: GroupTopology(Uuid => GroupTopology),
    /// The latest rebuild of each instance, until it is complete or refused.
    rebuilds: Rebuild(InstanceId => Rebuild),
    /// The limits of each quota scope.
    quotas: Quota(QuotaScope => QuotaSet),
    /// The users by their ids.
    users: User(String => User),
    /// The projects by their ids.
    projects: Project(String => Project),
    /// The roles by their ids.
    roles: Role(String => Role),
    /// The roles of each user in each scope.
    assignments: Assignment((String, AssignmentScope) => Assignment),
    /// The application credentials by their ids.
    application_credentials: ApplicationCredential(String => ApplicationCredential),
    /// The revoked tokens by user and audit id.
    revoked_tokens: RevokedToken((String, String) => RevokedToken),
    /// The keys that sign tokens; the one with the highest number is the newest.
    token_keys: TokenKey(u32 => TokenKey),
    /// The images by UUID.
    images: Image(Uuid => Image),
}

impl State {
    /// The index of the state: the instances in list order, and counts for each project.
    #[must_use]
    pub fn listing(&self) -> &Listing {
        &self.index
    }

    /// The key pairs of a user with their names, by name.
    pub fn keypairs_of<'s>(
        &'s self,
        user: &'s str,
    ) -> impl Iterator<Item = (&'s str, &'s Keypair)> + 's {
        let from = (user.to_owned(), String::new());
        let rows = self.keypairs.range(from..);
        rows.take_while(move |((owner, _), _)| owner == user)
            .map(|((_, name), row)| (name.as_str(), row))
    }
}

/// The index follows the rows of the tables that are named here; changes of other tables do not concern it.
impl Index<Change> for Listing {
    fn update(&mut self, before: &Change, after: &Change) {
        match (before, after) {
            (Change::Mapping(instance, before), Change::Mapping(_, after)) => {
                self.update_mapping(*instance, before.as_deref(), after.as_deref());
            }
            (Change::Group(group, before), Change::Group(_, after)) => {
                self.update_group(*group, before.as_deref(), after.as_deref());
            }
            (Change::Spec(instance, before), Change::Spec(_, after)) => {
                let (before, after) = (before.as_deref(), after.as_deref());
                self.update_spec_size(*instance, before, after);
                self.update_usage(before, after);
            }
            (Change::Rebuild(instance, before), Change::Rebuild(_, after)) => {
                let (before, after) = (before.as_deref(), after.as_deref());
                self.update_spec_size(
                    *instance,
                    before.map(|row| &row.spec),
                    after.map(|row| &row.spec),
                );
            }
            (Change::Move(_, before), Change::Move(_, after)) => {
                self.update_move(before.as_deref(), after.as_deref());
            }
            (Change::Labels(instance, before), Change::Labels(_, after)) => {
                self.update_labels(*instance, before.as_deref(), after.as_deref());
            }
            (Change::Image(_, before), Change::Image(_, after)) => {
                self.update_image(before.as_deref(), after.as_deref());
            }
            _ => {}
        }
    }
}
