//! Reads the parts of a request group from the texts of extra specs.

use std::collections::BTreeSet;

use placewright_placement::names::{is_custom, is_standard_class};
use placewright_types::text::whole_number;

use crate::error::{BadRequest, Warning};
use crate::request::RequestGroup;

/// Adds what texts ask for to a group.
pub(super) trait ReadGroup {
    /// Sets an amount from its text form, or warns.
    fn read_resource(
        &mut self,
        class: &str,
        amount: &str,
        field: impl FnOnce() -> String,
        warnings: &mut Vec<Warning>,
    );

    /// Requires or forbids a trait from its text form, or warns.
    fn read_trait(
        &mut self,
        name: &str,
        kind: &str,
        field: impl FnOnce() -> String,
        warnings: &mut Vec<Warning>,
    );

    /// Requires one of several traits, given as a comma-separated list.
    ///
    /// # Errors
    ///
    /// [`BadRequest`] for a text that names none: whoever ignored it would place the instance where
    /// it must not be.
    fn read_any_trait(
        &mut self,
        names: &str,
        field: impl FnOnce() -> String,
    ) -> Result<(), BadRequest>;
}

impl ReadGroup for RequestGroup {
    fn read_resource(
        &mut self,
        class: &str,
        amount: &str,
        field: impl FnOnce() -> String,
        warnings: &mut Vec<Warning>,
    ) {
        if !is_custom(class) && !is_standard_class(class) {
            warnings.push(Warning::UnknownResourceClass {
                field: field(),
                class: class.to_owned(),
            });
            return;
        }
        match whole_number(amount).and_then(|amount| u64::try_from(amount).ok()) {
            Some(amount) => self.set_resource(class, amount),
            None => warnings.push(Warning::BadAmount {
                field: field(),
                value: amount.to_owned(),
            }),
        }
    }

    fn read_trait(
        &mut self,
        name: &str,
        kind: &str,
        field: impl FnOnce() -> String,
        warnings: &mut Vec<Warning>,
    ) {
        match kind {
            "required" => self.require(name),
            "forbidden" => self.forbid(name),
            _ => warnings.push(Warning::BadTraitValue {
                field: field(),
                value: kind.to_owned(),
            }),
        }
    }

    fn read_any_trait(
        &mut self,
        names: &str,
        field: impl FnOnce() -> String,
    ) -> Result<(), BadRequest> {
        let is_name = |name: &str| {
            let of_name = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
            !name.is_empty() && name.bytes().all(of_name)
        };
        let any: BTreeSet<String> = names
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect();
        if !any.iter().all(|name| is_name(name)) {
            let wanted = "names of traits with commas between them";
            return Err(BadRequest::malformed(field(), names, wanted));
        }
        match any.first() {
            Some(only) if any.len() == 1 => self.require(only),
            _ => self.any_traits.push(any),
        }
        Ok(())
    }
}
