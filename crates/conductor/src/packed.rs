//! A compact form of records and snapshots that writes the common parts of specs once.
//!
//! Specs that were created together share one [`Body::common`](crate::spec::Body::common) and one
//! list of rules. If several share them, the first is preceded by a template, and each is written
//! as the number of its template and its own part. So a thousand instances of one request take the
//! space of one request, in memory as on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::InstanceId;
use crate::spec::{Body, Spec};
use crate::table::ReadError;

/// A kind of fact that includes specs.
pub(crate) trait SpecRow: Sized {
    /// The spec that the fact writes, if it writes one.
    fn spec(&self) -> Option<(InstanceId, &Spec)>;

    /// Creates the fact that writes a spec.
    fn of_spec(instance: InstanceId, spec: Box<Spec>) -> Self;
}

/// One element of a packed list. The order of variants is the journal's format.
#[derive(Serialize)]
enum Piece<'a, C> {
    Row(&'a C),
    Template(Box<Spec>),
    Spec {
        instance: InstanceId,
        template: u32,
        name: &'a str,
        own: &'a str,
    },
}

/// The owned counterpart of [`Piece`] for reading.
#[derive(Deserialize)]
enum PieceRead<C> {
    Row(C),
    Template(Box<Spec>),
    Spec {
        instance: InstanceId,
        template: u32,
        name: String,
        own: String,
    },
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

    /// Passes the elements of a row on, as bytes.
    pub(crate) fn pack<C: SpecRow + Serialize, E>(
        &mut self,
        row: &C,
        mut write: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let shared = row.spec().and_then(|(instance, spec)| {
            let common = self.known.get_mut(&place(spec))?;
            (common.is_shared && is_alike(common.first, spec)).then_some((instance, spec, common))
        });
        let Some((instance, spec, common)) = shared else {
            return write(bytes(&Piece::Row(row)));
        };
        let template = match common.number {
            Some(number) => number,
            None => {
                let number = self.written;
                self.written += 1;
                common.number = Some(number);
                let template = Spec {
                    name: String::new(),
                    body: Body::parted(Arc::clone(spec.body.common()), ""),
                    ..spec.clone()
                };
                let piece: Piece<'_, C> = Piece::Template(Box::new(template));
                write(bytes(&piece))?;
                number
            }
        };
        let piece: Piece<'_, C> = Piece::Spec {
            instance,
            template,
            name: &spec.name,
            own: spec.body.own(),
        };
        write(bytes(&piece))
    }
}

fn bytes<C: Serialize>(piece: &Piece<'_, C>) -> Vec<u8> {
    postcard::to_stdvec(piece).expect("plain data written to memory always has an encoding")
}

/// The addresses of the parts that a spec may share with others.
fn place(spec: &Spec) -> (usize, usize) {
    let body = Arc::as_ptr(spec.body.common()).cast::<u8>();
    (body.addr(), spec.rules.as_ptr().addr())
}

/// Whether two specs with shared parts are equal except for name and own body.
fn is_alike(one: &Spec, other: &Spec) -> bool {
    one.rules.is_same(&other.rules)
        && one.body.is_of_one_making(&other.body)
        && one.project == other.project
        && one.user == other.user
        && one.group == other.group
        && one.created_at == other.created_at
}

/// Restores rows from packed elements.
#[derive(Default)]
pub(crate) struct Unpacker {
    templates: Vec<Spec>,
}

impl Unpacker {
    /// Reads one element from the start of some bytes. Returns the row that it completes, if any,
    /// and the remaining bytes.
    pub(crate) fn read<'b, C: SpecRow + for<'de> Deserialize<'de>>(
        &mut self,
        bytes: &'b [u8],
    ) -> Result<(Option<C>, &'b [u8]), ReadError> {
        let (piece, rest) = postcard::take_from_bytes(bytes)
            .map_err(|error| ReadError::Damaged(error.to_string()))?;
        Ok((self.take(piece)?, rest))
    }

    fn take<C: SpecRow>(&mut self, piece: PieceRead<C>) -> Result<Option<C>, ReadError> {
        match piece {
            PieceRead::Row(row) => Ok(Some(row)),
            PieceRead::Template(spec) => {
                self.templates.push(*spec);
                Ok(None)
            }
            PieceRead::Spec {
                instance,
                template,
                name,
                own,
            } => {
                let common = self.templates.get(template as usize).ok_or_else(|| {
                    ReadError::Damaged(format!("a spec of template {template}, which is missing"))
                })?;
                let spec = Spec {
                    name,
                    body: Body::parted(Arc::clone(common.body.common()), own),
                    ..common.clone()
                };
                Ok(Some(C::of_spec(instance, Box::new(spec))))
            }
        }
    }
}
