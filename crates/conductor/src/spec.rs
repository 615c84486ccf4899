//! The specification of an instance, and the candidates for its placement.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use placewright_placement::group::Rule;
use placewright_placement::{AllocationRequest, Timestamp};
use serde::Serialize;
use uuid::Uuid;
use zeroize::Zeroize as _;

use crate::ids::HostId;
use crate::quota::Usage;

/// The specification of an instance. Conductors read only the fields on which their decisions depend; the others are
/// opaque to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The display name at creation.
    pub name: String,
    /// The project that owns the instance.
    pub project: String,
    /// The user that owns the instance.
    pub user: String,
    /// The server group that the instance is a member of.
    pub group: Option<Uuid>,
    /// The hard rules between the place of the instance and those of other instances.
    pub rules: Rules,
    /// Everything else (flavor, image, networks, hints, …), in the form in which its creator wrote
    /// it.
    pub body: SpecBody,
    /// The time of the request.
    pub created_at: Timestamp,
    /// The amounts that the instance counts for in quotas.
    pub usage: Usage,
    /// Sealed secrets for the first build, or for the rebuild that is under way. Control removes them when the cell has
    /// accepted the instance and no other cell may need them any more; the cell removes them when the job has ended.
    /// Conductors cannot read them.
    pub build_secrets: SharedText,
    /// Sealed secrets that are needed each time the guest is built again.
    pub secrets: SharedText,
}

impl Spec {
    /// Whether the spec has sealed secrets.
    #[must_use]
    pub fn has_secrets(&self) -> bool {
        !self.build_secrets.is_empty() || !self.secrets.is_empty()
    }

    /// Removes all sealed secrets.
    pub fn forget_secrets(&mut self) {
        self.build_secrets = SharedText::default();
        self.secrets = SharedText::default();
    }

    /// Removes the secrets for a build that is over. Returns whether there were any.
    pub fn forget_build_secrets(&mut self) -> bool {
        let had_any = !self.build_secrets.is_empty();
        if had_any {
            self.build_secrets = SharedText::default();
        }
        had_any
    }

    /// The first 64 bits of a hash, by which a cell and control verify that they have the same spec.
    ///
    /// Cell and control may be of different releases, and an older release does not have a field that was
    /// added later. So the same fields are always hashed, as a tuple in postcard's encoding. A body is
    /// hashed as it is stored, including fields that only other releases know. Sealed secrets are not
    /// hashed, because each role seals them with a key of its own.
    #[must_use]
    pub fn digest(&self) -> u64 {
        match &self.body {
            SpecBody::Json(text) => self.digest_with(text.text()),
            SpecBody::Row(row) => self.digest_with((&row.common[..], &row.own[..])),
        }
    }

    /// The digest of the same spec with its body as a JSON text, as releases without typed bodies compute
    /// it.
    #[must_use]
    pub fn digest_with_json(&self, json: &str) -> u64 {
        self.digest_with(json)
    }

    fn digest_with(&self, body: impl Serialize) -> u64 {
        let rules: Vec<(&Rule, &[Uuid])> = self
            .rules
            .iter()
            .map(|hard| (&hard.rule, &hard.others[..]))
            .collect();
        let hashed = (
            &self.name,
            &self.project,
            &self.user,
            self.group,
            rules,
            body,
            self.created_at,
        );
        let bytes = postcard::to_stdvec(&hashed)
            .expect("plain data written to memory always has an encoding");
        let mut first = [0; 8];
        first.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..8]);
        u64::from_le_bytes(first)
    }
}

/// The part of a spec on which no decision of a conductor depends. A role that does not need the fields of a body
/// passes its bytes on unchanged, so that an older release in between drops none of the fields that a newer one added.
///
/// A body has two parts. The first is shared by the specs that were created together, and exists only once in memory,
/// in the journal and in a snapshot. Specs with the same shared part are placed as one request, so whoever splits a
/// body has to put everything that influences placement into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecBody {
    /// A typed row; `placewright-records` knows its fields.
    Row(SharedRow),
    /// JSON in a text, which releases before typed bodies wrote.
    Json(SharedText),
}

impl SpecBody {
    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Row(row) => row.common.len() + row.own.len(),
            Self::Json(text) => text.len(),
        }
    }

    /// Whether the body is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both bodies have one shared part in memory. Equal bodies may have a copy each.
    #[must_use]
    pub fn shares_prefix(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Row(one), Self::Row(other)) => Arc::ptr_eq(&one.common, &other.common),
            (Self::Json(one), Self::Json(other)) => one.shares_prefix(other),
            _ => false,
        }
    }
}

impl From<SharedText> for SpecBody {
    fn from(text: SharedText) -> Self {
        Self::Json(text)
    }
}

impl From<String> for SpecBody {
    fn from(text: String) -> Self {
        Self::Json(text.into())
    }
}

impl From<&str> for SpecBody {
    fn from(text: &str) -> Self {
        Self::Json(text.into())
    }
}

/// A row in two parts, of which specs that were created together share the first.
#[derive(Clone, Default)]
pub struct SharedRow {
    common: Arc<[u8]>,
    own: Box<[u8]>,
    /// Whether the row has secrets in the clear: then `Debug` does not show it, and the memory of `common`
    /// is overwritten when the last copy of the row is dropped.
    is_hidden: bool,
}

impl SharedRow {
    /// A row of these parts.
    #[must_use]
    pub fn from_parts(common: Arc<[u8]>, own: impl Into<Box<[u8]>>) -> Self {
        let own = own.into();
        Self {
            common,
            own,
            is_hidden: false,
        }
    }

    /// A row with secrets in the clear in its first part, which no row of another spec shares.
    #[must_use]
    pub fn hidden(common: Arc<[u8]>, own: impl Into<Box<[u8]>>) -> Self {
        let mut row = Self::from_parts(common, own);
        row.is_hidden = true;
        row
    }

    /// The part that other specs share.
    #[must_use]
    pub fn common(&self) -> &Arc<[u8]> {
        &self.common
    }

    /// The part that belongs to this spec alone.
    #[must_use]
    pub fn own(&self) -> &[u8] {
        &self.own
    }
}

impl PartialEq for SharedRow {
    fn eq(&self, other: &Self) -> bool {
        self.common == other.common && self.own == other.own
    }
}

impl Eq for SharedRow {}

impl fmt::Debug for SharedRow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_hidden {
            let bytes = self.common.len() + self.own.len();
            return write!(formatter, "({bytes} bytes, not shown)");
        }
        formatter
            .debug_struct("SharedRow")
            .field("common", &self.common)
            .field("own", &self.own)
            .finish()
    }
}

impl Drop for SharedRow {
    fn drop(&mut self) {
        if self.is_hidden
            && let Some(bytes) = Arc::get_mut(&mut self.common)
        {
            bytes.zeroize();
        }
    }
}

/// A text in two parts, of which specs that were created together share the first.
#[derive(Clone)]
pub struct SharedText {
    common: Arc<str>,
    own: Box<str>,
    /// Whether the text has secrets in the clear, all of them in `own`: then `Debug` does not show the text,
    /// and the memory of `own` is overwritten when the text is dropped.
    is_hidden: bool,
}

impl SharedText {
    /// A text whose first part is shared.
    #[must_use]
    pub fn from_parts(common: Arc<str>, own: impl Into<Box<str>>) -> Self {
        let own = own.into();
        Self {
            common,
            own,
            is_hidden: false,
        }
    }

    /// A text with secrets in the clear.
    #[must_use]
    pub fn hidden(text: String) -> Self {
        Self {
            common: Arc::default(),
            own: text.into(),
            is_hidden: true,
        }
    }

    /// The part that other specs share.
    #[must_use]
    pub fn common(&self) -> &Arc<str> {
        &self.common
    }

    /// The part that belongs to this spec alone.
    #[must_use]
    pub fn own(&self) -> &str {
        &self.own
    }

    /// The shared part followed by the own part.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        if self.own.is_empty() {
            return Cow::Borrowed(&self.common);
        }
        let mut text = String::with_capacity(self.len());
        text.push_str(&self.common);
        text.push_str(&self.own);
        Cow::Owned(text)
    }

    /// The length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.common.len() + self.own.len()
    }

    /// Whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both texts have one shared part in memory. Equal texts may have a copy each.
    #[must_use]
    pub fn shares_prefix(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.common, &other.common)
    }

    fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.common.bytes().chain(self.own.bytes())
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        let own_part = "";
        Self::from_parts(text.into(), own_part)
    }
}

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        let own_part = "";
        Self::from_parts(text.into(), own_part)
    }
}

impl Default for SharedText {
    fn default() -> Self {
        Self::from_parts(Arc::default(), "")
    }
}

/// Compares the whole texts, wherever each of them is split.
impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        if self.shares_prefix(other) {
            return self.own == other.own;
        }
        self.len() == other.len() && self.bytes().eq(other.bytes())
    }
}

impl Eq for SharedText {}

impl fmt::Display for SharedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.common)?;
        formatter.write_str(&self.own)
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_hidden {
            return write!(formatter, "({} bytes, not shown)", self.len());
        }
        write!(formatter, "{:?}", self.text())
    }
}

impl Drop for SharedText {
    fn drop(&mut self) {
        if self.is_hidden {
            self.own.zeroize();
        }
    }
}

/// The hard rules of a spec, reference-counted: specs that were created together share them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(Arc<[HardRule]>);

impl Rules {
    /// Whether both are the same list in memory, which is more than equality.
    #[must_use]
    pub fn is_same_list(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl From<Vec<HardRule>> for Rules {
    fn from(rules: Vec<HardRule>) -> Self {
        Self(rules.into())
    }
}

impl Deref for Rules {
    type Target = [HardRule];

    fn deref(&self) -> &[HardRule] {
        &self.0
    }
}

/// A hard rule of one instance relative to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardRule {
    /// The relation that must hold between the places.
    pub rule: Rule,
    /// The other instances; an empty list means the members of the instance's server group.
    pub others: Vec<Uuid>,
}

/// A host that can serve a request, with the allocations to claim there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The host: the root of the provider tree.
    pub host: HostId,
    /// The availability zone of the host, if any.
    pub zone: Option<String>,
    /// The allocations, also from descendants of the host and from sharing providers.
    pub amounts: Vec<Amounts>,
    /// Which of the allocations serve which request group; see [`GroupMapping`].
    pub mappings: Vec<GroupMapping>,
}

/// The providers that serve one request group, as in the mappings of Placement's allocation candidates.
///
/// A request of the unsuffixed group alone has no mappings: all allocations serve that group. A release that does not
/// know mappings drops them, so they may also be missing where a request has more groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMapping {
    /// The suffix of the group; empty for the unsuffixed group.
    pub suffix: String,
    /// What the group gets of each provider. A provider from which a group asks for no resources is named without any.
    pub providers: Vec<Amounts>,
}

/// Amounts of the resources of one provider, to be allocated or allocated already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amounts {
    /// The UUID of the resource provider.
    pub provider: Uuid,
    /// Amounts by resource class, each at least 1.
    pub resources: Vec<(String, i64)>,
}

impl Amounts {
    /// The amounts as a request to placement.
    #[must_use]
    pub fn request(&self) -> AllocationRequest {
        AllocationRequest {
            provider: self.provider,
            resources: self.resources.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_does_not_depend_on_where_a_text_is_split() {
        let whole = SharedText::from(r#"{"a": "é", "b": 1}"#);
        let text = whole.text().into_owned();
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let (common, own) = text.split_at(at);
            let split = SharedText::from_parts(common.into(), own);
            assert_eq!(split, whole);
            assert_eq!(split.text(), text);
            assert_eq!(split.len(), text.len());
        }
        assert_ne!(
            whole,
            SharedText::from_parts(r#"{"a": "é", "#.into(), r#""b": 2}"#)
        );
    }
}
