//! Counts the instances of each host by image property.

use std::borrow::Cow;

use hashbrown::HashMap;

use crate::image::ImageProperties;
use crate::image::known::kind;

type Map<K, V> = HashMap<K, V, foldhash::quality::FixedState>;

/// A reference-counted dictionary of property values, with the number of instances that have each,
/// by host.
#[derive(Clone, Debug, Default)]
pub struct PropertyCounts {
    numbers: Map<(Box<str>, Box<str>), u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_host: Vec<Vec<(u32, u32)>>,
}

#[derive(Clone, Debug, Default)]
struct Entry {
    pair: (Box<str>, Box<str>),
    uses: usize,
}

/// The properties of an image that are compared, each as one text.
#[must_use]
pub fn compared(properties: &ImageProperties) -> Vec<(&str, Cow<'_, str>)> {
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
    /// The number of a property value, if any instance has it.
    #[must_use]
    pub fn number(&self, name: &str, value: &str) -> Option<u32> {
        // The look-up allocates a key because the map owns its keys; it happens a few times a
        // request.
        self.numbers.get(&(name.into(), value.into())).copied()
    }

    /// How many instances of a host have a property value.
    #[must_use]
    pub fn count(&self, slot: u32, number: u32) -> u32 {
        let counts = self
            .by_host
            .get(slot as usize)
            .map_or(&[][..], Vec::as_slice);
        counts
            .binary_search_by_key(&number, |(number, _)| *number)
            .map_or(0, |index| counts[index].1)
    }

    /// Adds references to an instance's properties; returns their numbers.
    pub(super) fn enter(&mut self, properties: &ImageProperties) -> Box<[u32]> {
        let compared = compared(properties).into_iter();
        compared
            .map(|(name, value)| self.use_number(name, &value))
            .collect()
    }

    /// Drops the references to an instance's properties.
    pub(super) fn leave(&mut self, numbers: &[u32]) {
        for number in numbers {
            let entry = &mut self.entries[*number as usize];
            entry.uses -= 1;
            if entry.uses == 0 {
                self.numbers.remove(&entry.pair);
                entry.pair = Default::default();
                self.free.push(*number);
            }
        }
    }

    /// Adds an instance's properties to the counts of a host.
    pub(super) fn count_in(&mut self, slot: u32, numbers: &[u32]) {
        let index = slot as usize;
        if index >= self.by_host.len() {
            self.by_host.resize_with(index + 1, Vec::new);
        }
        let counts = &mut self.by_host[index];
        for number in numbers {
            match counts.binary_search_by_key(number, |(number, _)| *number) {
                Ok(place) => counts[place].1 += 1,
                Err(place) => counts.insert(place, (*number, 1)),
            }
        }
    }

    /// Removes an instance's properties from the counts of a host.
    pub(super) fn count_out(&mut self, slot: u32, numbers: &[u32]) {
        let Some(counts) = self.by_host.get_mut(slot as usize) else {
            return;
        };
        for number in numbers {
            if let Ok(place) = counts.binary_search_by_key(number, |(number, _)| *number) {
                counts[place].1 -= 1;
                if counts[place].1 == 0 {
                    counts.remove(place);
                }
            }
        }
    }

    fn use_number(&mut self, name: &str, value: &str) -> u32 {
        let pair: (Box<str>, Box<str>) = (name.into(), value.into());
        if let Some(number) = self.numbers.get(&pair).copied() {
            self.entries[number as usize].uses += 1;
            return number;
        }
        let entry = Entry {
            pair: pair.clone(),
            uses: 1,
        };
        let number = if let Some(number) = self.free.pop() {
            self.entries[number as usize] = entry;
            number
        } else {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        };
        self.numbers.insert(pair, number);
        number
    }
}
