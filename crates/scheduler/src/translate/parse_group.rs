//! Parses the parts of a request group from the texts of extra specs.

use std::collections::BTreeSet;

use placewright_placement::names::{is_custom, is_standard_class};
use placewright_types::text::whole_number;

use crate::error::{BadRequest, Warning};
use crate::request::RequestGroup;

/// Adds resources and traits to a request group from their texts.
pub(super) trait ParseGroup {
    /// Sets the amount of a resource class. Adds a warning if the class or the amount is invalid.
    fn parse_resource(
        &mut self,
        class: &str,
        amount: &str,
        field: impl FnOnce() -> String,
        warnings: &mut Vec<Warning>,
    );

    /// Requires or forbids a trait, according to `kind`. Adds a warning if `kind` is invalid.
    fn parse_trait(
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
    /// [`BadRequest`] for a malformed list. A warning would not be enough, because without the constraint the
    /// instance could get a host that it must not use.
    fn parse_any_trait(
        &mut self,
        names: &str,
        field: impl FnOnce() -> String,
    ) -> Result<(), BadRequest>;
}

impl ParseGroup for RequestGroup {
    fn parse_resource(
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

    fn parse_trait(
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

    fn parse_any_trait(
        &mut self,
        names: &str,
        field: impl FnOnce() -> String,
    ) -> Result<(), BadRequest> {
        let is_name = |name: &str| {
            let is_name_byte = |byte: u8| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_');
            !name.is_empty() && name.bytes().all(is_name_byte)
        };
        let alternatives: BTreeSet<String> = names
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect();
        if !alternatives.iter().all(|name| is_name(name)) {
            let expected = "names of traits with commas between them";
            return Err(BadRequest::malformed(field(), names, expected));
        }
        match alternatives.first() {
            Some(name) if alternatives.len() == 1 => self.require(name),
            _ => self.any_traits.push(alternatives),
        }
        Ok(())
    }
}
