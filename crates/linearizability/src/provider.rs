//! The model of one resource provider with an inventory of one class and the consumers that claim on it, as the
//! Placement API 1.39 shows it.

use serde::Deserialize;

use crate::Model;

/// How many consumers claim on a provider.
pub const CONSUMERS: usize = 4;

/// The provider and its consumers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    provider: Option<Provider>,
    consumers: [Option<Allocation>; CONSUMERS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Provider {
    generation: u64,
    /// The inventory's total, if there is an inventory.
    total: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Allocation {
    amount: u64,
    generation: u64,
}

/// The generation that a claim expects of its consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Nothing: the claim replaces whatever the consumer has (microversions below 1.28).
    Anything,
    /// The consumer has to be new.
    New,
    /// The consumer has to be at this generation.
    Is(u64),
}

/// The requests of clients. Consumers are numbered.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Input {
    /// Create the resource provider.
    Create,
    /// Delete the resource provider.
    Delete,
    /// Show the resource provider.
    Show,
    /// Set the inventory, at a generation of the provider.
    SetInventory {
        /// The new total of the inventory.
        total: u64,
        /// The generation that the provider has to be at.
        generation: u64,
    },
    /// Delete the inventory, at any generation.
    DeleteInventory,
    /// Show the provider's inventory.
    ShowInventory,
    /// Replace the allocations of a consumer.
    Claim {
        /// The number of the consumer that claims.
        consumer: usize,
        /// The amount that the consumer claims; at least 1.
        amount: u64,
        /// The generation that the claim expects of the consumer.
        expected: Expected,
    },
    /// Move all allocations of one consumer to another one, which has to be new, in one request.
    Move {
        /// The consumer that has allocations.
        from: usize,
        /// The consumer that has no allocations yet.
        to: usize,
        /// The amount that the new consumer gets.
        amount: u64,
        /// The generation that `from` has to be at.
        generation: u64,
    },
    /// Delete the allocations of a consumer.
    Release {
        /// The number of the consumer whose allocations go.
        consumer: usize,
    },
    /// Show the allocations of a consumer.
    ShowAllocation {
        /// The number of the consumer that is shown.
        consumer: usize,
    },
    /// Show how much is in use.
    ShowUsage,
}

/// The answers to clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Output {
    /// The operation was carried out, and its answer has no content.
    Done,
    /// Refused as a conflict (409).
    Refused,
    /// Not found (404, or 400 for a claim).
    Missing,
    /// The provider's generation, after a change or as it is.
    Generation {
        /// The provider's generation after the operation.
        generation: u64,
    },
    /// The inventory's total, if there is one.
    Inventory {
        /// The provider's generation at the answer.
        generation: u64,
        /// The total of the inventory; `None` without an inventory.
        total: Option<u64>,
    },
    /// The allocation of a consumer; the amount is 0 if the consumer has none.
    Allocation {
        /// The amount that the consumer has.
        amount: u64,
        /// The consumer's generation; `None` if the consumer has no allocation.
        generation: Option<u64>,
        /// The provider's generation at the answer; `None` if the consumer has no allocation.
        provider_generation: Option<u64>,
    },
    /// The amount in use; `None` without an inventory.
    Usage {
        /// The provider's generation at the answer.
        generation: u64,
        /// The sum over all consumers.
        used: Option<u64>,
    },
}

impl Input {
    /// Whether the consumers that the input names exist, and are two in a move.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        match *self {
            Self::Claim { consumer, .. }
            | Self::Release { consumer }
            | Self::ShowAllocation { consumer } => consumer < CONSUMERS,
            Self::Move { from, to, .. } => from != to && from.max(to) < CONSUMERS,
            _ => true,
        }
    }
}

/// The model of [`State`].
#[derive(Debug)]
pub struct ProviderModel;

impl Model for ProviderModel {
    type State = State;
    type Input = Input;
    type Output = Output;

    fn initial() -> State {
        State::default()
    }

    fn step(state: &State, input: &Input) -> (Output, State) {
        let mut next = state.clone();
        let output = next.carry_out(input);
        // A refused operation changes nothing.
        match output {
            Output::Refused | Output::Missing => (output, state.clone()),
            _ => (output, next),
        }
    }
}

impl State {
    fn carry_out(&mut self, input: &Input) -> Output {
        match *input {
            Input::Create => self.create(),
            Input::Claim {
                consumer,
                amount,
                expected,
            } => self.claim(consumer, amount, expected),
            Input::Move {
                from,
                to,
                amount,
                generation,
            } => self.move_claim(from, to, amount, generation),
            Input::Release { consumer } => match self.slot(consumer).take() {
                Some(_) => Output::Done,
                None => Output::Missing,
            },
            Input::ShowAllocation { consumer } => self.show_allocation(consumer),
            _ => self.carry_out_on_provider(input),
        }
    }

    fn carry_out_on_provider(&mut self, input: &Input) -> Output {
        let used = self.used();
        let Some(provider) = &mut self.provider else {
            return Output::Missing;
        };
        let generation = provider.generation;
        match *input {
            Input::Delete if used > 0 => Output::Refused,
            Input::Delete => {
                self.provider = None;
                Output::Done
            }
            Input::SetInventory {
                total,
                generation: given,
            } => {
                if generation != given {
                    return Output::Refused;
                }
                provider.total = Some(total);
                provider.generation += 1;
                Output::Inventory {
                    generation: provider.generation,
                    total: Some(total),
                }
            }
            Input::DeleteInventory if provider.total.is_none() => Output::Missing,
            Input::DeleteInventory if used > 0 => Output::Refused,
            Input::DeleteInventory => {
                provider.total = None;
                provider.generation += 1;
                Output::Done
            }
            Input::ShowInventory => Output::Inventory {
                generation,
                total: provider.total,
            },
            Input::ShowUsage => Output::Usage {
                generation,
                used: provider.total.map(|_| used),
            },
            // `Input::Show`; `carry_out` handles the others.
            _ => Output::Generation { generation },
        }
    }

    fn create(&mut self) -> Output {
        if self.provider.is_some() {
            return Output::Refused;
        }
        self.provider = Some(Provider {
            generation: 0,
            total: None,
        });
        Output::Generation { generation: 0 }
    }

    fn claim(&mut self, consumer: usize, amount: u64, expected: Expected) -> Output {
        let existing = self.slot(consumer).clone();
        let generation = existing.as_ref().map(|allocation| allocation.generation);
        let is_expected = match expected {
            Expected::Anything => true,
            Expected::New => generation.is_none(),
            Expected::Is(given) => generation == Some(given),
        };
        if !is_expected {
            return Output::Refused;
        }
        let released = existing.map_or(0, |allocation| allocation.amount);
        self.replace(consumer, amount, generation, released)
    }

    /// Sets the amount of a consumer, if it fits. The same request releases `released` of the amount in use.
    fn replace(
        &mut self,
        consumer: usize,
        amount: u64,
        generation: Option<u64>,
        released: u64,
    ) -> Output {
        let used = self.used();
        let used_after = used - released + amount;
        let Some(provider) = &mut self.provider else {
            return Output::Missing;
        };
        // If less inventory exists than is in use, because the inventory was lowered, a request that does not increase
        // the usage is allowed.
        let is_no_worse = used > 0 && used_after <= used;
        if provider
            .total
            .is_none_or(|total| used_after > total && !is_no_worse)
        {
            return Output::Refused;
        }
        provider.generation += 1;
        *self.slot(consumer) = Some(Allocation {
            amount,
            generation: generation.unwrap_or(0) + 1,
        });
        Output::Done
    }

    fn move_claim(&mut self, from: usize, to: usize, amount: u64, generation: u64) -> Output {
        let held = self.slot(from).clone();
        let Some(held) = held.filter(|held| held.generation == generation) else {
            return Output::Refused;
        };
        if self.slot(to).is_some() {
            return Output::Refused;
        }
        let output = self.replace(to, amount, None, held.amount);
        // If the claim was refused, `step` discards this change.
        *self.slot(from) = None;
        output
    }

    fn show_allocation(&mut self, consumer: usize) -> Output {
        let provider_generation = self.provider.as_ref().map(|provider| provider.generation);
        match self.slot(consumer) {
            None => Output::Allocation {
                amount: 0,
                generation: None,
                provider_generation: None,
            },
            Some(allocation) => Output::Allocation {
                amount: allocation.amount,
                generation: Some(allocation.generation),
                provider_generation,
            },
        }
    }

    fn used(&self) -> u64 {
        let allocations = self.consumers.iter().flatten();
        allocations.map(|allocation| allocation.amount).sum()
    }

    /// The allocation of a consumer, to read or to set.
    fn slot(&mut self, consumer: usize) -> &mut Option<Allocation> {
        &mut self.consumers[consumer]
    }
}
