//! Checks whether amounts fit, taking into account the amounts that the same command releases and claims.

use smallvec::SmallVec;
use uuid::Uuid;

use super::inventory::find_class;
use crate::change::NewAllocation;
use crate::command::AllocationRequest;
use crate::hash::Map;
use crate::ids::{ClassId, ProviderId};
use crate::inventory::Inventory;
use crate::refusal::Refusal;
use crate::rows::Consumer;
use crate::state::State;

/// A list that is short in nearly all commands: most claims are of one consumer on one provider,
/// for a few classes.
pub(super) type SmallList<T> = SmallVec<[T; 6]>;

/// Up to this many entries are scanned linearly; beyond, an index is kept.
const LINEAR_MAX: usize = 16;

/// The inventories against which allocations are checked.
pub(super) trait Inventories {
    /// The inventory of a class, with its capacity; `None` if the provider has none of the class.
    fn inventory(
        &self,
        state: &State,
        provider: ProviderId,
        class: ClassId,
    ) -> Option<(Inventory, i64)>;

    /// Whether a provider has an inventory of any of some classes.
    fn has_any(&self, state: &State, provider: ProviderId, classes: &Map<ClassId, ()>) -> bool;
}

/// The inventories of the present state.
pub(super) struct CurrentInventories;

impl Inventories for CurrentInventories {
    fn inventory(
        &self,
        state: &State,
        provider: ProviderId,
        class: ClassId,
    ) -> Option<(Inventory, i64)> {
        let row = state.provider(provider)?.inventory(class)?;
        Some((row.inventory, row.capacity))
    }

    fn has_any(&self, state: &State, provider: ProviderId, classes: &Map<ClassId, ()>) -> bool {
        let rows = state
            .provider(provider)
            .map(|provider| &provider.inventories);
        let mut rows = rows.into_iter().flatten();
        rows.any(|row| classes.contains_key(&row.class))
    }
}

/// Providers in the order of their first mention, each once.
#[derive(Default)]
pub(super) struct OrderedProviders {
    order: SmallList<ProviderId>,
    /// An index of all of them, kept once there are more than [`LINEAR_MAX`].
    index: Map<ProviderId, ()>,
}

impl OrderedProviders {
    pub(super) fn insert(&mut self, id: ProviderId) {
        if self.contains(id) {
            return;
        }
        self.order.push(id);
        if self.order.len() > LINEAR_MAX {
            if self.index.is_empty() {
                self.index.extend(self.order.iter().map(|id| (*id, ())));
            }
            self.index.insert(id, ());
        }
    }

    pub(super) fn contains(&self, id: ProviderId) -> bool {
        if self.index.is_empty() {
            self.order.contains(&id)
        } else {
            self.index.contains_key(&id)
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ProviderId> + '_ {
        self.order.iter().copied()
    }
}

/// One requested amount, with its provider and class resolved.
pub(super) struct RequestedAmount {
    pub(super) provider: ProviderId,
    pub(super) uuid: Uuid,
    pub(super) class: ClassId,
    pub(super) amount: i64,
}

impl RequestedAmount {
    pub(super) fn allocation(&self) -> NewAllocation {
        NewAllocation {
            provider: self.uuid,
            class: self.class,
            // At most `max_unit`, which is an `i32`.
            amount: u32::try_from(self.amount).unwrap_or(u32::MAX),
        }
    }
}

/// The balance of one inventory: the amounts that the command released and requested so far.
struct Balance {
    provider: ProviderId,
    class: ClassId,
    released: i64,
    requested: i64,
}

/// Running balances: what one command has released and requested so far.
#[derive(Default)]
pub(super) struct Ledger {
    balances: SmallList<Balance>,
    /// The index of each balance, kept once there are more than [`LINEAR_MAX`].
    index_by_inventory: Map<(ProviderId, ClassId), usize>,
    /// The balances that changed since [`Self::mark`], as they were before each change.
    former_balances: SmallList<FormerBalance>,
}

/// A balance as it was before a change.
struct FormerBalance {
    /// The index of the balance in the ledger.
    index: usize,
    released: i64,
    requested: i64,
}

impl Ledger {
    /// Marks the present balances, to which [`Self::roll_back`] returns.
    pub(super) fn mark(&mut self) {
        self.former_balances.clear();
    }

    /// Restores the balances as they were at the last [`Self::mark`]. A command with many intents
    /// tries many candidates, and a copy of the ledger for each of them would cost the square of
    /// their number.
    pub(super) fn roll_back(&mut self) {
        while let Some(former) = self.former_balances.pop() {
            let balance = &mut self.balances[former.index];
            balance.released = former.released;
            balance.requested = former.requested;
        }
    }

    /// Counts a consumer's present allocations as free, because the new ones replace them.
    pub(super) fn release(&mut self, consumer: &Consumer) {
        for held in &consumer.allocations {
            self.balance(held.provider, held.class).released += i64::from(held.amount);
        }
    }

    /// The balance of an inventory, which the caller is about to change.
    fn balance(&mut self, provider: ProviderId, class: ClassId) -> &mut Balance {
        let index = if self.index_by_inventory.is_empty() {
            let matches =
                |balance: &Balance| balance.provider == provider && balance.class == class;
            self.balances.iter().position(matches)
        } else {
            self.index_by_inventory.get(&(provider, class)).copied()
        };
        let index = index.unwrap_or_else(|| self.add_balance(provider, class));
        let balance = &mut self.balances[index];
        self.former_balances.push(FormerBalance {
            index,
            released: balance.released,
            requested: balance.requested,
        });
        balance
    }

    fn add_balance(&mut self, provider: ProviderId, class: ClassId) -> usize {
        let index = self.balances.len();
        self.balances.push(Balance {
            provider,
            class,
            released: 0,
            requested: 0,
        });
        if index == LINEAR_MAX {
            let balances = self.balances.iter().enumerate();
            self.index_by_inventory.extend(
                balances.map(|(index, balance)| ((balance.provider, balance.class), index)),
            );
        } else if index > LINEAR_MAX {
            self.index_by_inventory.insert((provider, class), index);
        }
        index
    }

    /// Claims amounts in order. The refusal is about the first amount that does not fit.
    pub(super) fn claim(
        &mut self,
        state: &State,
        requested: &[RequestedAmount],
        inventories: &impl Inventories,
    ) -> Result<(), Refusal> {
        check_classes_present(state, requested, inventories)?;
        requested
            .iter()
            .try_for_each(|item| self.claim_amount(state, item, inventories))
    }

    /// Claims one amount, or refuses it because it does not fit.
    fn claim_amount(
        &mut self,
        state: &State,
        item: &RequestedAmount,
        inventories: &impl Inventories,
    ) -> Result<(), Refusal> {
        let Some((inventory, capacity)) = inventories.inventory(state, item.provider, item.class)
        else {
            return Err(no_inventory(state, item));
        };
        let class = || state.class_name(item.class).to_owned();
        if !inventory.admits_amount(item.amount) {
            return Err(Refusal::ConstraintsViolated {
                provider: item.uuid,
                class: class(),
                amount: item.amount,
            });
        }
        let provider = state.provider(item.provider);
        let row = provider.and_then(|provider| provider.inventory(item.class));
        let used_before = row.map_or(0, |row| row.used);
        let balance = self.balance(item.provider, item.class);
        balance.requested = balance.requested.saturating_add(item.amount);
        let used_after = (used_before - balance.released).saturating_add(balance.requested);
        // An overcommitted inventory may stay overcommitted as long as it does not get worse.
        let is_no_worse = used_before > 0 && used_after <= used_before;
        if used_after <= capacity || is_no_worse {
            return Ok(());
        }
        Err(Refusal::CapacityExceeded {
            provider: item.uuid,
            class: class(),
            missing: used_after.saturating_sub(capacity),
        })
    }
}

/// Resolves providers and classes; unknown providers are refused before unknown classes.
pub(super) fn resolve_requests<'a>(
    state: &State,
    requests: impl Iterator<Item = &'a AllocationRequest> + Clone,
) -> Result<SmallList<RequestedAmount>, Refusal> {
    let mut providers: SmallList<ProviderId> = SmallList::new();
    for request in requests.clone() {
        let uuid = request.provider;
        let found = state.provider_id(uuid);
        providers.push(found.ok_or(Refusal::AllocationProviderNotFound { uuid })?);
    }
    let mut requested = SmallList::new();
    for (provider, request) in providers.into_iter().zip(requests) {
        for (class, amount) in &request.resources {
            requested.push(RequestedAmount {
                provider,
                uuid: request.provider,
                class: find_class(state, class)?,
                amount: *amount,
            });
        }
    }
    Ok(requested)
}

/// Refuses a provider that has none of the classes requested anywhere in the command. The reference
/// checks this for all providers before any amount.
fn check_classes_present(
    state: &State,
    requested: &[RequestedAmount],
    inventories: &impl Inventories,
) -> Result<(), Refusal> {
    let has_no_inventory = |item: &&RequestedAmount| {
        inventories
            .inventory(state, item.provider, item.class)
            .is_none()
    };
    let mut lacking = requested.iter().filter(has_no_inventory).peekable();
    if lacking.peek().is_none() {
        return Ok(());
    }
    let classes: Map<ClassId, ()> = requested.iter().map(|item| (item.class, ())).collect();
    let mut checked: Map<ProviderId, ()> = Map::default();
    for item in lacking {
        if checked.contains_key(&item.provider) {
            continue;
        }
        if !inventories.has_any(state, item.provider, &classes) {
            return Err(no_inventory(state, item));
        }
        checked.insert(item.provider, ());
    }
    Ok(())
}

fn no_inventory(state: &State, item: &RequestedAmount) -> Refusal {
    let class = state.class_name(item.class).to_owned();
    Refusal::NoInventory {
        provider: item.uuid,
        class,
    }
}
