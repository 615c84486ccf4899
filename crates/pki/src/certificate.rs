//! The parsed fields of a certificate.

use std::net::IpAddr;

use placewright_identity::Identity;
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER;
use x509_parser::parse_x509_certificate;
use x509_parser::revocation_list::CertificateRevocationList;

use crate::error::PkiError;

/// The fields of a certificate that Placewright uses. The name of the authority that signed it is not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The role, cell and hosts in its names.
    pub identity: Identity,
    /// The serial number as big-endian bytes, which a revocation list names.
    pub serial: Vec<u8>,
    /// The beginning of its validity, in seconds since 1970.
    pub not_before: i64,
    /// The end of its validity, in seconds since 1970.
    pub not_after: i64,
    /// DNS names besides the URIs.
    pub dns: Vec<String>,
    /// Addresses besides the URIs.
    pub addresses: Vec<IpAddr>,
}

impl CertificateFacts {
    /// Reads a certificate.
    ///
    /// # Errors
    ///
    /// The bytes are not a certificate, or its names do not name a role.
    pub fn read(certificate: &CertificateDer<'_>) -> Result<Self, PkiError> {
        let (_, parsed) = parse_x509_certificate(certificate)
            .map_err(|error| PkiError::Certificate(error.to_string()))?;
        let names = parsed.subject_alternative_name();
        let names = names.map_err(|error| PkiError::Certificate(error.to_string()))?;
        let names = names.map_or(&[] as &[GeneralName<'_>], |names| {
            names.value.general_names.as_slice()
        });
        let mut uris = Vec::new();
        let mut dns = Vec::new();
        let mut addresses = Vec::new();
        for name in names {
            match name {
                GeneralName::URI(uri) => uris.push(*uri),
                GeneralName::DNSName(name) => dns.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => {}
            }
        }
        Ok(Self {
            identity: Identity::parse(uris)?,
            serial: parsed.raw_serial().to_vec(),
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
            dns,
            addresses,
        })
    }

    /// The serial number as hexadecimal digits.
    #[must_use]
    pub fn serial_text(&self) -> String {
        hex(&self.serial)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(ipv4) = <[u8; 4]>::try_from(bytes) {
        return Some(ipv4.into());
    }
    <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from)
}

/// The serial numbers on a revocation list.
pub(crate) fn revoked_serials(list: &[u8]) -> Result<Vec<Vec<u8>>, PkiError> {
    let (_, parsed) = x509_parser::parse_x509_crl(list)
        .map_err(|error| PkiError::Certificate(format!("the revocation list: {error}")))?;
    let revoked = parsed.iter_revoked_certificates();
    Ok(revoked
        .map(|certificate| certificate.raw_serial().to_vec())
        .collect())
}

/// Whether a revocation list takes the place of another one: its number or its date is later. The date counts, too,
/// because an authority that was restored from a backup gives out numbers again. The lists of two authorities cannot be
/// compared; there the new list is taken.
pub(crate) fn is_newer_list(new_list: &[u8], old_list: &[u8]) -> Result<bool, PkiError> {
    let parse = |list| {
        x509_parser::parse_x509_crl(list)
            .map(|(_, parsed)| parsed)
            .map_err(|error| PkiError::Certificate(format!("the revocation list: {error}")))
    };
    let (new, old) = (parse(new_list)?, parse(old_list)?);
    // An authority that was made anew may have the name of the one before it, but has another key.
    if issuer_of(&new) != issuer_of(&old) {
        return Ok(true);
    }
    Ok(new.crl_number() > old.crl_number() || new.last_update() > old.last_update())
}

/// The name of the authority that signed a revocation list, and the extension that names its key.
fn issuer_of<'a>(list: &'a CertificateRevocationList<'_>) -> (&'a [u8], Option<&'a [u8]>) {
    let mut extensions = list.extensions().iter();
    let key = extensions.find(|extension| extension.oid == OID_X509_EXT_AUTHORITY_KEY_IDENTIFIER);
    (list.issuer().as_raw(), key.map(|extension| extension.value))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal digits as bytes; `None` if the text has other characters, or an odd number of digits.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
    digits.chunks(2).map(byte).collect()
}
