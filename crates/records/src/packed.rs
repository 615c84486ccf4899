//! Packed elements: a compact form of records and snapshots, in which the common part of several specs
//! is written once.
//!
//! Specs that were created by one request share the common part of their bodies and one list of rules.
//! Such specs are written as one template, and then each as the number of its template and its own
//! part. So the specs of a thousand instances of one request take little more space than one spec, in
//! memory as on disk. Sealed secrets are shared in the same way.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::table::SpecRow;
use placewright_conductor::{InstanceId, SharedRow, SharedText, Spec, SpecBody};

use crate::form::{Form, FormError, Reader, Writer};

/// An element that is a row.
const ROW: u64 = 0;
/// An element that is a template.
const TEMPLATE: u64 = 1;
/// An element that is a [`SpecOfTemplate`].
const SPEC_OF_TEMPLATE: u64 = 2;

/// A spec that differs from its template in its name and in the own parts of its body and secrets.
struct SpecOfTemplate {
    instance: InstanceId,
    /// The number of the template.
    template: u32,
    name: String,
    /// The own part of a body that is a text; empty otherwise.
    own: String,
    /// The own part of a body that is a row; empty otherwise.
    own_row: OwnRow,
    own_build_secrets: String,
    own_secrets: String,
}

/// The own part of a body that is a row.
#[derive(Default, PartialEq)]
struct OwnRow(Box<[u8]>);

impl Form for OwnRow {
    fn write(&self, out: &mut Writer) {
        out.bytes(&self.0);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, FormError> {
        Ok(Self(from.bytes()?.into()))
    }
}

// Older releases do not know the fields after the semicolon.
row!(SpecOfTemplate {
    instance,
    template,
    name,
    own;
    own_row,
    own_build_secrets,
    own_secrets
});

/// Appends an element that is a row.
pub(crate) fn write_row(row: &impl Form, out: &mut Writer) {
    out.number(ROW);
    row.write(out);
}

/// Writes packed elements, and knows which specs share parts.
#[derive(Default)]
pub(crate) struct Packer<'s> {
    /// The groups by the addresses of the parts that their specs share. The map is never iterated, so no order depends
    /// on addresses.
    by_address: BTreeMap<(usize, usize), SpecGroup<'s>>,
    has_shared_parts: bool,
    /// The number of templates written so far.
    template_count: u32,
}

/// Specs that share their parts.
struct SpecGroup<'s> {
    first: &'s Spec,
    /// Whether a second spec shares the parts of the first.
    is_shared: bool,
    /// The number of the template, once it is written.
    template: Option<u32>,
}

impl<'s> Packer<'s> {
    /// A packer for rows with these specs.
    pub(crate) fn of(specs: impl Iterator<Item = &'s Spec>) -> Self {
        let mut packer = Self::default();
        for spec in specs {
            match packer.by_address.get_mut(&part_addresses(spec)) {
                Some(group) if has_same_template(group.first, spec) => {
                    group.is_shared = true;
                    packer.has_shared_parts = true;
                }
                Some(_) => {}
                None => {
                    let group = SpecGroup {
                        first: spec,
                        is_shared: false,
                        template: None,
                    };
                    packer.by_address.insert(part_addresses(spec), group);
                }
            }
        }
        packer
    }

    /// Whether any two specs share parts, so that packing saves space.
    pub(crate) fn has_shared_parts(&self) -> bool {
        self.has_shared_parts
    }

    /// Appends the elements of a row, and calls `after_element` after each.
    pub(crate) fn write<C: SpecRow + Form, E>(
        &mut self,
        row: &C,
        out: &mut Writer,
        mut after_element: impl FnMut(&mut Writer) -> Result<(), E>,
    ) -> Result<(), E> {
        let shared = row.spec().and_then(|(instance, spec)| {
            let group = self.by_address.get_mut(&part_addresses(spec))?;
            (group.is_shared && has_same_template(group.first, spec))
                .then_some((instance, spec, group))
        });
        let Some((instance, spec, group)) = shared else {
            write_row(row, out);
            return after_element(out);
        };
        let template = match group.template {
            Some(number) => number,
            None => {
                let number = self.template_count;
                self.template_count += 1;
                group.template = Some(number);
                out.number(TEMPLATE);
                template_of(spec).write(out);
                after_element(out)?;
                number
            }
        };
        out.number(SPEC_OF_TEMPLATE);
        let (own, own_row) = match &spec.body {
            SpecBody::Json(text) => (text.own().to_owned(), OwnRow::default()),
            SpecBody::Row(row) => (String::new(), OwnRow(row.own().into())),
        };
        let packed_spec = SpecOfTemplate {
            instance,
            template,
            name: spec.name.clone(),
            own,
            own_row,
            own_build_secrets: spec.build_secrets.own().to_owned(),
            own_secrets: spec.secrets.own().to_owned(),
        };
        packed_spec.write(out);
        after_element(out)
    }
}

/// The template of a spec: the spec without its name and without the own parts of its body and secrets.
fn template_of(spec: &Spec) -> Spec {
    Spec {
        name: String::new(),
        body: body_with_own(&spec.body, String::new(), OwnRow::default()),
        build_secrets: text_with_own(&spec.build_secrets, ""),
        secrets: text_with_own(&spec.secrets, ""),
        ..spec.clone()
    }
}

/// A body with the common part of `body` and this own part.
fn body_with_own(body: &SpecBody, own: String, OwnRow(own_row): OwnRow) -> SpecBody {
    match body {
        SpecBody::Json(text) => SharedText::from_parts(Arc::clone(text.common()), own).into(),
        SpecBody::Row(row) => {
            SpecBody::Row(SharedRow::from_parts(Arc::clone(row.common()), own_row))
        }
    }
}

/// A text with the common part of `text` and this own part.
fn text_with_own(text: &SharedText, own: impl Into<Box<str>>) -> SharedText {
    SharedText::from_parts(Arc::clone(text.common()), own)
}

/// The addresses of the parts that a spec may share with others: the common part of the body, and the rules.
fn part_addresses(spec: &Spec) -> (usize, usize) {
    let body = match &spec.body {
        SpecBody::Json(text) => text.common().as_ptr(),
        SpecBody::Row(row) => row.common().as_ptr(),
    };
    (body.addr(), spec.rules.as_ptr().addr())
}

/// Whether two specs have the same template, and share the parts of it. The pattern names every field,
/// so that the compiler reports a field that is not compared.
fn has_same_template(spec: &Spec, other: &Spec) -> bool {
    let Spec {
        name: _,
        project,
        user,
        group,
        rules,
        body,
        created_at,
        usage,
        build_secrets,
        secrets,
    } = spec;
    rules.is_same_list(&other.rules)
        && body.shares_prefix(&other.body)
        && share_prefix_or_are_empty(build_secrets, &other.build_secrets)
        && share_prefix_or_are_empty(secrets, &other.secrets)
        && *project == other.project
        && *user == other.user
        && *group == other.group
        && *created_at == other.created_at
        && *usage == other.usage
}

/// Whether two texts share their common part, or are both empty.
fn share_prefix_or_are_empty(one: &SharedText, other: &SharedText) -> bool {
    one.shares_prefix(other) || (one.is_empty() && other.is_empty())
}

/// Restores rows from packed elements.
#[derive(Default)]
pub(crate) struct Unpacker {
    templates: Vec<Spec>,
}

impl Unpacker {
    /// Reads one element. Returns the row, or `None` for a template.
    pub(crate) fn read<C: SpecRow + Form>(
        &mut self,
        from: &mut Reader<'_>,
    ) -> Result<Option<C>, FormError> {
        match from.number()? {
            ROW => Ok(Some(C::read(from)?)),
            TEMPLATE => {
                self.templates.push(Spec::read(from)?);
                Ok(None)
            }
            SPEC_OF_TEMPLATE => {
                let spec = SpecOfTemplate::read(from)?;
                self.restore(spec).map(Some)
            }
            number => Err(FormError::Unknown {
                what: "packed element",
                number,
            }),
        }
    }

    /// Restores the row of a spec from its template.
    fn restore<C: SpecRow>(&self, packed_spec: SpecOfTemplate) -> Result<C, FormError> {
        let template = self.templates.get(packed_spec.template as usize);
        let template = template.ok_or(FormError::Bad("the number of a template"))?;
        let spec = Spec {
            name: packed_spec.name,
            body: body_with_own(&template.body, packed_spec.own, packed_spec.own_row),
            build_secrets: text_with_own(&template.build_secrets, packed_spec.own_build_secrets),
            secrets: text_with_own(&template.secrets, packed_spec.own_secrets),
            ..template.clone()
        };
        Ok(C::from_spec(packed_spec.instance, Box::new(spec)))
    }
}
