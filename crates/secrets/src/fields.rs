//! The secret fields of a server, and their encoding before they are sealed.

use zeroize::Zeroizing;

use crate::error::OpenError;
use crate::secret::Secret;

/// The secret fields of a server, in the clear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretFields {
    /// The user data in base 64, as in the request.
    pub user_data: Option<Secret<String>>,
    /// The administrator's password of the guest.
    pub admin_pass: Option<Secret<String>>,
}

/// The names of the fields in the body of a specification, which drivers read.
pub(crate) const USER_DATA: &str = "user_data";
pub(crate) const ADMIN_PASS: &str = "admin_pass";
/// The names of all secret fields.
pub(crate) const NAMES: [&str; 2] = [USER_DATA, ADMIN_PASS];

impl SecretFields {
    /// Whether all fields are absent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.user_data.is_none() && self.admin_pass.is_none()
    }

    /// The number of bytes that the fields take in JSON, in the clear.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        // The quotes of the name and of the value, a colon and a comma.
        const PUNCTUATION_BYTES: usize = 6;
        self.iter()
            .map(|(name, value)| name.len() + value.len() + PUNCTUATION_BYTES)
            .sum()
    }

    /// The names and values of the fields that are present.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            (USER_DATA, self.user_data.as_ref()),
            (ADMIN_PASS, self.admin_pass.as_ref()),
        ]
        .into_iter()
        .filter_map(|(name, field)| Some((name, field?.expose().as_str())))
    }

    /// The field with this name; none for a name that is not that of a secret field.
    pub(crate) fn field_mut(&mut self, name: &str) -> Option<&mut Option<Secret<String>>> {
        match name {
            USER_DATA => Some(&mut self.user_data),
            ADMIN_PASS => Some(&mut self.admin_pass),
            _ => None,
        }
    }

    /// Replaces the fields that are present in `other`.
    pub(crate) fn merge(&mut self, other: Self) {
        if other.user_data.is_some() {
            self.user_data = other.user_data;
        }
        if other.admin_pass.is_some() {
            self.admin_pass = other.admin_pass;
        }
    }

    /// The bytes to seal: for each field its name, the length of its value in bytes, and the value, with a space after
    /// the name and after the length.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        // Enough for two spaces and the digits of any length, so that no reallocation leaves a copy in memory.
        const LENGTH_BYTES_MAX: usize = 16;
        let lengths = self
            .iter()
            .map(|(name, value)| name.len() + value.len() + LENGTH_BYTES_MAX);
        let mut bytes = Zeroizing::new(Vec::with_capacity(lengths.sum()));
        for (name, value) in self.iter() {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(value.len().to_string().as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes
    }

    /// Decodes what [`SecretFields::encode`] returned. Fields of later releases are ignored.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, OpenError> {
        let mut fields = Self::default();
        let mut text = std::str::from_utf8(bytes).map_err(|_| OpenError::Unreadable)?;
        while !text.is_empty() {
            let (name, rest) = text.split_once(' ').ok_or(OpenError::Unreadable)?;
            let (length, rest) = rest.split_once(' ').ok_or(OpenError::Unreadable)?;
            let length: usize = length.parse().map_err(|_| OpenError::Unreadable)?;
            let (value, rest) = rest.split_at_checked(length).ok_or(OpenError::Unreadable)?;
            if let Some(field) = fields.field_mut(name) {
                *field = Some(Secret::new(value.to_owned()));
            }
            text = rest;
        }
        Ok(fields)
    }
}
