//! The number of instances on each host by image property.

use std::borrow::Cow;

use hashbrown::HashMap;

use crate::image::ImageProperties;
use crate::image::known::kind;

type Map<K, V> = HashMap<K, V, foldhash::quality::FixedState>;

/// For each host, how many of its instances have which property value. Each pair of a property and
/// a value has a number, as long as any instance has it.
#[derive(Clone, Debug, Default)]
pub struct PropertyCounts {
    /// By pair of a property and its value: the number of the pair.
    numbers: Map<(Box<str>, Box<str>), u32>,
    /// By number: the pair that has it.
    pairs: Vec<CountedPair>,
    /// The numbers that no pair has.
    free_numbers: Vec<u32>,
    /// By slot: the counts of the pairs that instances of the host have, by rising pair number.
    by_host: Vec<Vec<PairCount>>,
}

/// How many instances of a host have a pair.
#[derive(Clone, Copy, Debug)]
struct PairCount {
    pair_number: u32,
    instance_count: u32,
}

/// A pair of a property and its value, with the number of instances that have it.
#[derive(Clone, Debug, Default)]
struct CountedPair {
    /// The property and its value.
    pair: (Box<str>, Box<str>),
    /// The number of instances with this pair, on all hosts.
    instance_count: usize,
}

/// The properties of an image that are counted, each with its value as text.
#[must_use]
pub fn counted_properties(properties: &ImageProperties) -> Vec<(&str, Cow<'_, str>)> {
    // Only properties that Nova knows are counted.
    let simple = properties.iter().filter(|(name, _)| kind(name).is_some());
    let simple = simple.map(|(name, value)| (name, Cow::Borrowed(value)));
    let traits: Vec<&str> = properties.traits_required().collect();
    let traits = (!traits.is_empty()).then(|| Cow::Owned(traits.join(",")));
    let memory = properties.numa_memory_mb();
    let cpus = properties.numa_cpus();
    let structured = [
        ("traits_required", traits),
        (
            "hw_numa_mem",
            memory.map(|nodes| format!("{nodes:?}").into()),
        ),
        (
            "hw_numa_cpus",
            cpus.map(|nodes| format!("{nodes:?}").into()),
        ),
    ];
    let structured = structured.into_iter();
    simple
        .chain(structured.filter_map(|(name, value)| Some((name, value?))))
        .collect()
}

impl PropertyCounts {
    /// The number of a property with a value, if any instance has it.
    #[must_use]
    pub fn pair_number(&self, name: &str, value: &str) -> Option<u32> {
        // The look-up allocates a key, because the map owns its keys. There are only a few look-ups for a
        // request.
        self.numbers.get(&(name.into(), value.into())).copied()
    }

    /// How many instances of a host have the pair of property and value with this number.
    #[must_use]
    pub fn count(&self, slot: u32, pair_number: u32) -> u32 {
        let counts = self
            .by_host
            .get(slot as usize)
            .map_or(&[][..], Vec::as_slice);
        counts
            .binary_search_by_key(&pair_number, |count| count.pair_number)
            .map_or(0, |index| counts[index].instance_count)
    }

    /// Counts one more instance with these properties, and returns the numbers of their pairs.
    pub(super) fn add_instance(&mut self, properties: &ImageProperties) -> Box<[u32]> {
        let counted = counted_properties(properties).into_iter();
        counted
            .map(|(name, value)| self.add_instance_of_pair(name, &value))
            .collect()
    }

    /// Counts one instance less with each of these pairs.
    pub(super) fn remove_instance(&mut self, numbers: &[u32]) {
        for number in numbers {
            let counted_pair = &mut self.pairs[*number as usize];
            counted_pair.instance_count -= 1;
            if counted_pair.instance_count == 0 {
                self.numbers.remove(&counted_pair.pair);
                counted_pair.pair = Default::default();
                self.free_numbers.push(*number);
            }
        }
    }

    /// Adds an instance to a host's counts of these pairs.
    pub(super) fn add_to_host(&mut self, slot: u32, numbers: &[u32]) {
        let index = slot as usize;
        if index >= self.by_host.len() {
            self.by_host.resize_with(index + 1, Vec::new);
        }
        let counts = &mut self.by_host[index];
        for number in numbers {
            match counts.binary_search_by_key(number, |count| count.pair_number) {
                Ok(index) => counts[index].instance_count += 1,
                Err(index) => counts.insert(
                    index,
                    PairCount {
                        pair_number: *number,
                        instance_count: 1,
                    },
                ),
            }
        }
    }

    /// Removes an instance from a host's counts of these pairs.
    pub(super) fn remove_from_host(&mut self, slot: u32, numbers: &[u32]) {
        let Some(counts) = self.by_host.get_mut(slot as usize) else {
            return;
        };
        for number in numbers {
            if let Ok(index) = counts.binary_search_by_key(number, |count| count.pair_number) {
                counts[index].instance_count -= 1;
                if counts[index].instance_count == 0 {
                    counts.remove(index);
                }
            }
        }
    }

    /// Counts one more instance with a pair, and returns the pair's number.
    fn add_instance_of_pair(&mut self, name: &str, value: &str) -> u32 {
        let pair: (Box<str>, Box<str>) = (name.into(), value.into());
        if let Some(number) = self.numbers.get(&pair).copied() {
            self.pairs[number as usize].instance_count += 1;
            return number;
        }
        let counted_pair = CountedPair {
            pair: pair.clone(),
            instance_count: 1,
        };
        let number = if let Some(number) = self.free_numbers.pop() {
            self.pairs[number as usize] = counted_pair;
            number
        } else {
            self.pairs.push(counted_pair);
            u32::try_from(self.pairs.len() - 1).unwrap_or(u32::MAX)
        };
        self.numbers.insert(pair, number);
        number
    }
}
