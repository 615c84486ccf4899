//! The time in which a certificate is valid.

use jiff::SignedDuration;
use jiff::civil::{DateTime, datetime};
use rustls::pki_types::CertificateDer;

use crate::der::{
    CONTEXT_0, GENERALIZED_TIME, INTEGER, SEQUENCE, UTC_TIME, Value, take_value,
    take_value_with_tag,
};
use crate::error::TlsError;

/// The time from which seconds are counted.
const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// From when until when a certificate is valid, both included, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second in which the certificate is valid, counted from 1970.
    pub not_before_s: i64,
    /// The last second in which the certificate is valid, counted from 1970.
    pub not_after_s: i64,
}

impl Validity {
    /// The validity in a certificate.
    ///
    /// # Errors
    ///
    /// The bytes are not a certificate of X.509.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, TlsError> {
        read(certificate).ok_or_else(|| TlsError::BadCertificate {
            // For a certificate further on in a file, the caller replaces the number.
            number: 1,
            reason: "it does not say when it is valid".to_owned(),
        })
    }

    /// Whether the certificate has expired at a time, in seconds since 1970.
    pub fn is_over(self, now_s: i64) -> bool {
        now_s > self.not_after_s
    }

    /// Whether the certificate is valid at a time, in seconds since 1970.
    pub fn includes(self, now_s: i64) -> bool {
        now_s >= self.not_before_s && !self.is_over(now_s)
    }

    /// Its last second as text, such as `2027-01-31T12:00:00Z`.
    pub fn not_after_text(self) -> String {
        EPOCH
            .checked_add(SignedDuration::from_secs(self.not_after_s))
            .map_or_else(|_| self.not_after_s.to_string(), |time| format!("{time}Z"))
    }
}

/// Reads the validity of a certificate. By RFC 5280, section 4.1, a certificate is a sequence whose first value is
/// again a sequence: the version (if it is not 1), the serial number, the algorithm, the issuer, the validity.
fn read(mut certificate: &[u8]) -> Option<Validity> {
    let mut certificate = take_value_with_tag(&mut certificate, SEQUENCE)?;
    let mut fields = take_value_with_tag(&mut certificate, SEQUENCE)?;
    if fields.first() == Some(&CONTEXT_0) {
        take_value(&mut fields)?;
    }
    take_value_with_tag(&mut fields, INTEGER)?;
    take_value_with_tag(&mut fields, SEQUENCE)?;
    take_value_with_tag(&mut fields, SEQUENCE)?;
    let mut validity = take_value_with_tag(&mut fields, SEQUENCE)?;
    Some(Validity {
        not_before_s: seconds(&take_value(&mut validity)?)?,
        not_after_s: seconds(&take_value(&mut validity)?)?,
    })
}

/// A time in seconds since 1970, from `YYMMDDHHMMSSZ` or `YYYYMMDDHHMMSSZ`. None for any other form: RFC 5280 allows
/// only these two.
fn seconds(value: &Value<'_>) -> Option<i64> {
    let digits = value.content.strip_suffix(b"Z")?;
    let (year, rest) = match value.tag {
        UTC_TIME => {
            let (year, rest) = digits.split_at_checked(2)?;
            let year = number(year)?;
            // By RFC 5280, years of two digits are those from 1950 to 2049.
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = digits.split_at_checked(4)?;
            (number(year)?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 {
        return None;
    }
    let mut parts = rest.chunks(2).map(|digits| number(digits)?.try_into().ok());
    let mut part = || parts.next().flatten();
    let (month, day, hour, minute, second) = (part()?, part()?, part()?, part()?, part()?);
    let time = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
    Some(time.duration_since(EPOCH).as_secs())
}

/// The number that these ASCII digits make; none if there is any other character, or no digit.
fn number(digits: &[u8]) -> Option<i16> {
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(tag: u8, text: &str) -> Option<i64> {
        seconds(&Value {
            tag,
            content: text.as_bytes(),
        })
    }

    #[test]
    fn both_forms_of_times_are_read() {
        assert_eq!(time(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(time(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(time(UTC_TIME, "500101000000Z"), Some(-631_152_000));
        assert_eq!(
            time(GENERALIZED_TIME, "20500101000000Z"),
            Some(2_524_608_000)
        );
        assert_eq!(
            time(GENERALIZED_TIME, "99991231235959Z"),
            Some(253_402_300_799)
        );
        for wrong in [
            "",
            "Z",
            "20500101000000",
            "2050010100000Z",
            "20501301000000Z",
            "2050010100+000Z",
        ] {
            assert_eq!(time(GENERALIZED_TIME, wrong), None, "{wrong}");
        }
        assert_eq!(time(INTEGER, "20500101000000Z"), None);
    }

    #[test]
    fn what_is_no_certificate_has_no_validity() {
        for bytes in [&[][..], &[0x30, 0], &[0x30, 2, 0x30, 0], b"certificate"] {
            assert!(Validity::of(&CertificateDer::from(bytes)).is_err());
        }
    }
}
