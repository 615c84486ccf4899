//! A compact form of records and snapshots that writes the common parts of specs once.
//!
//! Specs that were created together share the common part of their bodies and one list of rules. If
//! several share them, the first is preceded by a template, and each is written as the number of
//! its template and its own part. So a thousand instances of one request take the space of one
//! request, in memory as on disk. Sealed secrets are shared in the same way.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::table::SpecRow;
use placewright_conductor::{InstanceId, SharedRow, SharedText, Spec, SpecBody};

use crate::error::ReadError;
use crate::form::{Form, FormError, Reader, Writer};

/// The numbers of the kinds of elements.
const ROW: u64 = 0;
const TEMPLATE: u64 = 1;
const SPEC_OF_TEMPLATE: u64 = 2;

/// A spec that differs from its template in its name and its own parts of body and secrets.
struct SpecOfTemplate {
    instance: InstanceId,
    template: u32,
    name: String,
    own: String,
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

/// Finds the specs that share parts, by address. Never iterated, so that no order depends on
/// addresses.
#[derive(Default)]
pub(crate) struct Packer<'s> {
    known: BTreeMap<(usize, usize), Common<'s>>,
    shares: bool,
    written: u32,
}

struct Common<'s> {
    first: &'s Spec,
    is_shared: bool,
    number: Option<u32>,
}

impl<'s> Packer<'s> {
    /// Analyses which specs share parts.
    pub(crate) fn of(specs: impl Iterator<Item = &'s Spec>) -> Self {
        let mut packer = Self::default();
        for spec in specs {
            match packer.known.get_mut(&place(spec)) {
                Some(common) if is_alike(common.first, spec) => {
                    common.is_shared = true;
                    packer.shares = true;
                }
                Some(_) => {}
                None => {
                    let common = Common {
                        first: spec,
                        is_shared: false,
                        number: None,
                    };
                    packer.known.insert(place(spec), common);
                }
            }
        }
        packer
    }

    /// Whether any two specs share parts, so that packing saves space.
    pub(crate) fn shares(&self) -> bool {
        self.shares
    }

    /// Appends the elements of a row, and calls `written` after each.
    pub(crate) fn write<C: SpecRow + Form, E>(
        &mut self,
        row: &C,
        out: &mut Writer,
        mut written: impl FnMut(&mut Writer) -> Result<(), E>,
    ) -> Result<(), E> {
        let shared = row.spec().and_then(|(instance, spec)| {
            let common = self.known.get_mut(&place(spec))?;
            (common.is_shared && is_alike(common.first, spec)).then_some((instance, spec, common))
        });
        let Some((instance, spec, common)) = shared else {
            write_row(row, out);
            return written(out);
        };
        let template = match common.number {
            Some(number) => number,
            None => {
                let number = self.written;
                self.written += 1;
                common.number = Some(number);
                out.number(TEMPLATE);
                template_of(spec).write(out);
                written(out)?;
                number
            }
        };
        out.number(SPEC_OF_TEMPLATE);
        let (own, own_row) = match &spec.body {
            SpecBody::Json(text) => (text.own().to_owned(), OwnRow::default()),
            SpecBody::Row(row) => (String::new(), OwnRow(row.own().into())),
        };
        let own = SpecOfTemplate {
            instance,
            template,
            name: spec.name.clone(),
            own,
            own_row,
            own_build_secrets: spec.build_secrets.own().to_owned(),
            own_secrets: spec.secrets.own().to_owned(),
        };
        own.write(out);
        written(out)
    }
}

/// What a spec has in common with those that were created with it.
fn template_of(spec: &Spec) -> Spec {
    Spec {
        name: String::new(),
        body: with_own(&spec.body, String::new(), OwnRow::default()),
        build_secrets: with_own_text(&spec.build_secrets, ""),
        secrets: with_own_text(&spec.secrets, ""),
        ..spec.clone()
    }
}

/// A body that shares its common part with another.
fn with_own(body: &SpecBody, own: String, OwnRow(own_row): OwnRow) -> SpecBody {
    match body {
        SpecBody::Json(text) => SharedText::parted(Arc::clone(text.common()), own).into(),
        SpecBody::Row(row) => SpecBody::Row(SharedRow::parted(Arc::clone(row.common()), own_row)),
    }
}

/// A text with the same common part.
fn with_own_text(text: &SharedText, own: impl Into<Box<str>>) -> SharedText {
    SharedText::parted(Arc::clone(text.common()), own)
}

/// The addresses of the parts that a spec may share with others.
fn place(spec: &Spec) -> (usize, usize) {
    let body = match &spec.body {
        SpecBody::Json(text) => text.common().as_ptr(),
        SpecBody::Row(row) => row.common().as_ptr(),
    };
    (body.addr(), spec.rules.as_ptr().addr())
}

/// Whether two specs with shared parts are equal except for name and own parts. Every field is named,
/// so that one that is added is not forgotten here.
fn is_alike(one: &Spec, other: &Spec) -> bool {
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
    } = one;
    rules.is_same(&other.rules)
        && body.shares_prefix(&other.body)
        && have_one_prefix(build_secrets, &other.build_secrets)
        && have_one_prefix(secrets, &other.secrets)
        && *project == other.project
        && *user == other.user
        && *group == other.group
        && *created_at == other.created_at
        && *usage == other.usage
}

/// Whether two texts share their beginning, or are both empty.
fn have_one_prefix(one: &SharedText, other: &SharedText) -> bool {
    one.shares_prefix(other) || (one.is_empty() && other.is_empty())
}

/// Restores rows from packed elements.
#[derive(Default)]
pub(crate) struct Unpacker {
    templates: Vec<Spec>,
}

impl Unpacker {
    /// Reads one element. Returns the row that it completes, if any.
    pub(crate) fn read<C: SpecRow + Form>(
        &mut self,
        from: &mut Reader<'_>,
    ) -> Result<Option<C>, ReadError> {
        match from.number()? {
            ROW => Ok(Some(C::read(from)?)),
            TEMPLATE => {
                self.templates.push(Spec::read(from)?);
                Ok(None)
            }
            SPEC_OF_TEMPLATE => {
                let own = SpecOfTemplate::read(from)?;
                self.complete(own).map(Some)
            }
            number => Err(FormError::Unknown {
                what: "packed element",
                number,
            }
            .into()),
        }
    }

    fn complete<C: SpecRow>(&self, own: SpecOfTemplate) -> Result<C, ReadError> {
        let template = own.template;
        let common = self.templates.get(template as usize).ok_or_else(|| {
            ReadError::Damaged(format!("a spec of template {template}, which is missing"))
        })?;
        let spec = Spec {
            name: own.name,
            body: with_own(&common.body, own.own, own.own_row),
            build_secrets: with_own_text(&common.build_secrets, own.own_build_secrets),
            secrets: with_own_text(&common.secrets, own.own_secrets),
            ..common.clone()
        };
        Ok(C::of_spec(own.instance, Box::new(spec)))
    }
}
