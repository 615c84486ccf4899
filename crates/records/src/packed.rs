//! A compact form of records and snapshots that writes the common parts of specs once.
//!
//! Specs that were created together share one [`SharedText::common`] and one list of rules. If
//! several share them, the first is preceded by a template, and each is written as the number of
//! its template and its own part. So a thousand instances of one request take the space of one
//! request, in memory as on disk. Sealed secrets are shared in the same way.

use std::collections::BTreeMap;
use std::sync::Arc;

use placewright_conductor::table::SpecRow;
use placewright_conductor::{InstanceId, SharedText, Spec};

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
    own_build_secrets: String,
    own_secrets: String,
}

row!(SpecOfTemplate {
    instance,
    template,
    name,
    own;
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
        let own = SpecOfTemplate {
            instance,
            template,
            name: spec.name.clone(),
            own: spec.body.own().to_owned(),
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
        body: with_own(&spec.body, ""),
        build_secrets: with_own(&spec.build_secrets, ""),
        secrets: with_own(&spec.secrets, ""),
        ..spec.clone()
    }
}

/// A text with the same common part.
fn with_own(text: &SharedText, own: impl Into<Box<str>>) -> SharedText {
    SharedText::parted(Arc::clone(text.common()), own)
}

/// The addresses of the parts that a spec may share with others.
fn place(spec: &Spec) -> (usize, usize) {
    let body = Arc::as_ptr(spec.body.common()).cast::<u8>();
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
            body: with_own(&common.body, own.own),
            build_secrets: with_own(&common.build_secrets, own.own_build_secrets),
            secrets: with_own(&common.secrets, own.own_secrets),
            ..common.clone()
        };
        Ok(C::of_spec(own.instance, Box::new(spec)))
    }
}
