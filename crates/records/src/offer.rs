//! A candidate that one replica of control offered, as it sends it to another one that is asked to claim it.
//!
//! A field can be added to [`Offer`] without a version, as to a command ([`crate::command`]).

use placewright_placement::group::Rule;
use placewright_placement::{IntentCandidate, IntentRule};
use uuid::Uuid;

use crate::form::{Form, FormError, Layout, Reader, Writer};

/// An offered candidate with everything that its claim needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The project of the request; may be empty.
    pub project: String,
    /// The user of the request; may be empty.
    pub user: String,
    /// The server group, with the rules for its creation if placement does not have it yet.
    pub group: Option<(Uuid, Vec<Rule>)>,
    /// The image's properties: name and value as text.
    pub image_properties: Vec<(String, String)>,
    /// The hard topology rules of the instance, about the places of other consumers.
    pub rules: Vec<IntentRule>,
    /// The host, and the amounts that a claim takes from it and its providers.
    pub candidate: IntentCandidate,
    /// The providers of each group of the request.
    pub mappings: Vec<(String, Vec<Uuid>)>,
}

row!(Offer {
    project,
    user,
    group,
    image_properties,
    rules,
    candidate,
    mappings
});

/// The bytes of an offered candidate.
#[must_use]
pub fn encode(offer: &Offer) -> Vec<u8> {
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    offer.write(&mut out);
    out.into_bytes()
}

/// Reads an offered candidate.
///
/// # Errors
///
/// The bytes are no candidate that this release knows.
pub fn decode(bytes: &[u8]) -> Result<Offer, FormError> {
    let mut from = Reader::new(bytes, Layout::Growing);
    let offer = Offer::read(&mut from)?;
    from.finish()?;
    Ok(offer)
}
