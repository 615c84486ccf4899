//! Rows in records and snapshots, with what specs have in common written once.
//!
//! The specs that were made together have one [`Body::common`](crate::spec::Body::common) and one
//! list of rules. Where there are several of them, the first is preceded by a template, and each is
//! the number of its template with what is its own. So a thousand instances of one request cost one
//! request, in memory as on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::InstanceId;
use crate::spec::{Body, Spec};
use crate::table::ReadError;

/// A kind of fact among which are specs.
pub(crate) trait SpecRow: Sized {
    /// The spec that it writes, if it is one.
    fn spec(&self) -> Option<(InstanceId, &Spec)>;

    /// The fact that writes a spec.
    fn of_spec(instance: InstanceId, spec: Box<Spec>) -> Self;
}

/// One piece of a packed list. The order of variants is the journal's format.
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

/// The same as it is read.
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

/// What some specs have in common, found by where it lies in memory: never iterated, so that no
/// order depends on addresses.
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
    /// Looks which of some specs have something in common.
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

    /// Whether any have.
    pub(crate) fn shares(&self) -> bool {
        self.shares
    }

    /// Hands the pieces of a row over, as bytes.
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

/// Where what a spec may have in common with others lies.
fn place(spec: &Spec) -> (usize, usize) {
    let body = Arc::as_ptr(spec.body.common()).cast::<u8>();
    (body.addr(), spec.rules.as_ptr().addr())
}

/// Whether two specs that lie at one place have everything else but name and body in common too.
fn is_alike(one: &Spec, other: &Spec) -> bool {
    one.rules.is_same(&other.rules)
        && one.body.is_of_one_making(&other.body)
        && one.project == other.project
        && one.user == other.user
        && one.group == other.group
        && one.created_at == other.created_at
}

/// Puts pieces together again.
#[derive(Default)]
pub(crate) struct Unpacker {
    templates: Vec<Spec>,
}

impl Unpacker {
    /// Reads one piece from the beginning of some bytes: the row that it completes, if it does, and
    /// the rest of the bytes.
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
