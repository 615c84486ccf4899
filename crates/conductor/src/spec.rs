//! What an instance is to be, and where it may be put.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use placewright_placement::group::Rule;
use placewright_placement::{AllocationRequest, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::ids::HostId;

/// What an instance is to be. Conductors look at what they decide by; the rest is carried along.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Its user.
    pub user: String,
    /// The server group that it is a member of.
    pub group: Option<Uuid>,
    /// Hard rules towards other instances.
    pub rules: Rules,
    /// Everything else (flavor, image, networks, hints, …), as whoever made it wrote it.
    pub body: Body,
    /// When it was asked for.
    pub created_at: Timestamp,
}

impl Spec {
    /// The first bytes of a hash of it, by which a cell and control know that they mean the same.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let bytes =
            postcard::to_stdvec(self).expect("plain data written to memory always has an encoding");
        let mut first = [0; 8];
        first.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..8]);
        u64::from_le_bytes(first)
    }
}

/// What conductors carry along with a spec: one text, of which the specs that were made together
/// have the beginning in common. However many they are, it is kept, recorded and saved once.
///
/// Whoever writes a body in two parts puts all that decides about places into the common one.
#[derive(Clone)]
pub struct Body {
    common: Arc<str>,
    own: Box<str>,
}

impl Body {
    /// A body that begins as others do.
    #[must_use]
    pub fn parted(common: Arc<str>, own: impl Into<Box<str>>) -> Self {
        let own = own.into();
        Self { common, own }
    }

    /// The part that others may have in common with it.
    #[must_use]
    pub fn common(&self) -> &Arc<str> {
        &self.common
    }

    /// The rest, which is its own.
    #[must_use]
    pub fn own(&self) -> &str {
        &self.own
    }

    /// All of it.
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

    /// How many bytes it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.common.len() + self.own.len()
    }

    /// Whether it says nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether both were made together. Equal bodies need not have been.
    #[must_use]
    pub fn is_of_one_making(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.common, &other.common)
    }

    fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        self.common.bytes().chain(self.own.bytes())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::parted(text.into(), "")
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Self::parted(text.into(), "")
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::from("")
    }
}

/// Where the parts meet says nothing.
impl PartialEq for Body {
    fn eq(&self, other: &Self) -> bool {
        if self.is_of_one_making(other) {
            return self.own == other.own;
        }
        self.len() == other.len() && self.bytes().eq(other.bytes())
    }
}

impl Eq for Body {}

impl fmt::Display for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.common)?;
        formatter.write_str(&self.own)
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", self.text())
    }
}

/// One text, as it always was.
impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.own.is_empty() {
            serializer.serialize_str(&self.common)
        } else {
            serializer.collect_str(self)
        }
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// The hard rules of a spec. Copies are cheap: specs that were made together have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules(Arc<[HardRule]>);

impl Rules {
    /// Whether both are the same list, and not only equal ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
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

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0[..].serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

/// A hard rule of one instance towards others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HardRule {
    /// The rule.
    pub rule: Rule,
    /// The others; none for the members of the instance's server group.
    pub others: Vec<Uuid>,
}

/// One host that could serve a request, with what would be claimed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The host.
    pub host: HostId,
    /// The zone that an instance is in there, if any.
    pub zone: Option<String>,
    /// What would be claimed, also from parts of the host and from sharing providers.
    pub amounts: Vec<Amounts>,
}

/// Amounts of one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// The provider.
    pub provider: Uuid,
    /// Amounts by resource class, each at least 1.
    pub resources: Vec<(String, i64)>,
}

impl Amounts {
    /// The amounts in the words of placement.
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
    fn where_the_parts_of_a_body_meet_says_nothing() {
        let whole = Body::from(r#"{"a": "é", "b": 1}"#);
        let text = whole.text().into_owned();
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let (common, own) = text.split_at(at);
            let parted = Body::parted(common.into(), own);
            assert_eq!(parted, whole);
            assert_eq!(parted.text(), text);
            assert_eq!(parted.len(), text.len());
            let bytes = postcard::to_stdvec(&parted).unwrap();
            assert_eq!(bytes, postcard::to_stdvec(&text).unwrap());
            assert_eq!(postcard::from_bytes::<Body>(&bytes).unwrap(), parted);
        }
        assert_ne!(whole, Body::parted(r#"{"a": "é", "#.into(), r#""b": 2}"#));
    }
}
