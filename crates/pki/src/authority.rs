//! A small authority in a folder.

use std::fs::File;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use placewright_identity::{Identity, Role};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PublicKey, RevokedCertParams, SanType, SerialNumber,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::certificate::{CertificateFacts, unhex};
use crate::clock::{SKEW, date, later, now};
use crate::error::PkiError;
use crate::register::{self, RegisterEntry, Revocation};
use crate::request::requested_key;
use crate::{files, verify};

/// How long the authority itself is valid.
pub const AUTHORITY_LIFE: Duration = Duration::from_secs(3653 * 86_400);
/// How long certificates are valid by default.
pub const LIFE: Duration = Duration::from_secs(7 * 86_400);
/// The shortest life of a certificate.
const LIFE_MIN: Duration = Duration::from_secs(5);
/// The time after which a revocation list announces its next update. Older lists are accepted all the
/// same.
const REVOCATION_LIST_LIFE: Duration = Duration::from_secs(30 * 86_400);

/// How many characters of a common name are kept; X.509 allows 64.
const COMMON_NAME_CHARACTERS_MAX: usize = 60;

/// The files in the folder of an authority.
const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca-key.pem";
const REVOCATION_LIST: &str = "crl.pem";
const INSTALLATION: &str = "installation";

/// The names and the life that a certificate is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The role, cell and hosts.
    pub identity: Identity,
    /// Further DNS names, for clients that check DNS names.
    pub dns: Vec<String>,
    /// IP addresses, for clients that check addresses.
    pub addresses: Vec<IpAddr>,
    /// How long the certificate is valid.
    pub life: Duration,
}

impl Grant {
    /// A grant with the default life and no further names.
    #[must_use]
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            dns: Vec::new(),
            addresses: Vec::new(),
            life: LIFE,
        }
    }
}

/// An issued certificate, with the authorities and the revocation list for its holder.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate and its chain up to the authority's own.
    pub chain: Vec<CertificateDer<'static>>,
    /// The authorities that the holder has to trust.
    pub authorities: Vec<CertificateDer<'static>>,
    /// The revocation list, if there is one.
    pub revocation_list: Option<Vec<u8>>,
}

/// A certificate authority, whose key is in a folder.
pub struct Authority {
    directory: PathBuf,
    installation: String,
    certificate: CertificateDer<'static>,
    /// The name and the key with which certificates are signed.
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("directory", &self.directory)
            .field("installation", &self.installation)
            .finish_non_exhaustive()
    }
}

impl Authority {
    /// Makes an authority in a folder that has none.
    ///
    /// # Errors
    ///
    /// The folder has an authority, the name of the installation is not allowed, or the folder cannot be written.
    pub fn create(directory: &Path, installation: &str) -> Result<Self, PkiError> {
        Identity::new(installation, Role::Control)?;
        files::make_directory(directory)?;
        let lock = files::lock(directory)?;
        if Self::exists_in(directory) {
            return Err(PkiError::Refused(format!(
                "{} has an authority already",
                directory.display()
            )));
        }
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        let at = now();
        params.not_before = date(at - skew())?;
        params.not_after = date(later(at, AUTHORITY_LIFE))?;
        let serial = random_serial()?;
        // Each authority gets a name of its own, because a revocation list applies to the certificates of
        // every authority with the name of its issuer.
        let suffix = crate::certificate::hex(&serial.to_bytes()[..4]);
        params.serial_number = Some(serial);
        params.distinguished_name = DistinguishedName::new();
        let name = format!("Placewright authority of {installation}, {suffix}");
        params.distinguished_name.push(DnType::CommonName, name);
        // The authority signs certificates of roles, and none of further authorities.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        files::replace(
            &directory.join(INSTALLATION),
            format!("{installation}\n").as_bytes(),
        )?;
        files::replace(&directory.join(KEY), key.serialize_pem().as_bytes())?;
        // The certificate is written last: a folder with it has a complete authority.
        files::replace(&directory.join(CERTIFICATE), certificate.pem().as_bytes())?;
        drop(lock);
        let authority = Self::open(directory)?;
        authority.write_revocation_list(&files::lock(directory)?)?;
        Ok(authority)
    }

    /// Whether a folder has an authority.
    #[must_use]
    pub fn exists_in(directory: &Path) -> bool {
        directory.join(CERTIFICATE).exists()
    }

    /// Opens the authority in a folder.
    ///
    /// # Errors
    ///
    /// The folder has no authority, or its files cannot be read.
    pub fn open(directory: &Path) -> Result<Self, PkiError> {
        let path = directory.join(CERTIFICATE);
        if !path.exists() {
            return Err(PkiError::Refused(format!(
                "there is no authority in {}: `placewright pki init` makes one",
                directory.display()
            )));
        }
        let certificate = CertificateDer::from_pem_slice(&files::read(&path)?);
        let certificate = certificate.map_err(|error| PkiError::content(&path, error))?;
        let path = directory.join(KEY);
        let key = String::from_utf8(files::read(&path)?);
        let key = key.map_err(|error| PkiError::content(&path, error))?;
        let key = KeyPair::from_pem(&key).map_err(|error| PkiError::content(&path, error))?;
        let path = directory.join(INSTALLATION);
        let name = String::from_utf8(files::read(&path)?);
        let name = name.map_err(|error| PkiError::content(&path, error))?;
        Ok(Self {
            directory: directory.to_owned(),
            installation: name.trim().to_owned(),
            issuer: Issuer::from_ca_cert_der(&certificate, key)?,
            certificate,
        })
    }

    /// The name of the installation.
    #[must_use]
    pub fn installation(&self) -> &str {
        &self.installation
    }

    /// The folder of the authority, which holds its key and its register.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The certificate of the authority itself.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// The file of the revocation list.
    #[must_use]
    pub fn revocation_list_path(&self) -> PathBuf {
        self.directory.join(REVOCATION_LIST)
    }

    /// Issues a certificate for the key of a request. `operation` is recorded in the register.
    ///
    /// # Errors
    ///
    /// The request is not valid, the identity is of another installation, or nothing can be written.
    pub fn issue(
        &self,
        grant: &Grant,
        request: &[u8],
        operation: &str,
    ) -> Result<Issued, PkiError> {
        let key = requested_key(request)?;
        let lock = files::lock(&self.directory)?;
        self.certify(grant, &key, operation, &lock)
    }

    /// Renews a certificate of this authority that is valid and not revoked. The new one has the same names
    /// and the same life.
    ///
    /// # Errors
    ///
    /// The certificate is not valid, the request is not valid, or nothing can be written.
    pub fn renew(&self, present: &CertificateDer<'_>, request: &[u8]) -> Result<Issued, PkiError> {
        let key = requested_key(request)?;
        // A concurrent revocation waits for this lock, and then finds the new certificate too.
        let lock = files::lock(&self.directory)?;
        let list = files::read_if_exists(&self.revocation_list_path())?;
        let authorities = std::slice::from_ref(&self.certificate);
        let verifier = verify::client_verifier(authorities, list.as_deref())?;
        verify::verify_client(&*verifier, present)
            .map_err(|error| PkiError::Refused(format!("it is not renewed: {error}")))?;
        let facts = CertificateFacts::read(present)?;
        // The validity began `skew` before the certificate was issued; this time is not part of its life.
        let life = facts.not_after - facts.not_before - skew();
        let grant = Grant {
            identity: facts.identity,
            dns: facts.dns,
            addresses: facts.addresses,
            life: Duration::from_secs(u64::try_from(life).unwrap_or(0)),
        };
        self.certify(&grant, &key, "renew", &lock)
    }

    /// Issues a certificate. `_locked` proves that the caller has locked the folder.
    pub(crate) fn certify(
        &self,
        grant: &Grant,
        key: &PublicKey,
        operation: &str,
        _locked: &File,
    ) -> Result<Issued, PkiError> {
        if grant.identity.installation() != self.installation {
            return Err(PkiError::Refused(format!(
                "the authority is that of {:?}, not of {:?}",
                self.installation,
                grant.identity.installation()
            )));
        }
        if grant.life < LIFE_MIN {
            return Err(PkiError::Refused("a life is at least 5 seconds".to_owned()));
        }
        let serial = random_serial()?;
        let at = now();
        let (not_before, not_after) = (at - skew(), later(at, grant.life));
        let mut params = CertificateParams::default();
        params.not_before = date(not_before)?;
        params.not_after = date(not_after)?;
        params.serial_number = Some(serial.clone());
        params.distinguished_name = DistinguishedName::new();
        let name = common_name(&grant.identity);
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = subject_alt_names(grant)?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(key, &self.issuer)?;
        // The register has the certificate before anybody gets it.
        let entry = RegisterEntry {
            serial: crate::certificate::hex(&serial.to_bytes()),
            names: grant.identity.uris(),
            not_before,
            not_after,
            at,
            operation: operation.to_owned(),
        };
        register::append_issued(&self.directory, &entry)?;
        Ok(Issued {
            chain: vec![certificate.der().clone(), self.certificate.clone()],
            authorities: vec![self.certificate.clone()],
            revocation_list: files::read_if_exists(&self.revocation_list_path())?,
        })
    }

    /// All certificates that were issued, in order, each with its revocation if it was revoked.
    ///
    /// # Errors
    ///
    /// The register cannot be read.
    pub fn entries(&self) -> Result<Vec<(RegisterEntry, Option<Revocation>)>, PkiError> {
        let revoked = register::revocations(&self.directory)?;
        let entries = register::entries(&self.directory)?.into_iter();
        Ok(entries
            .map(|entry| {
                let revocation = revoked.get(&entry.serial).cloned();
                (entry, revocation)
            })
            .collect())
    }

    /// Revokes the valid certificates that `selects` accepts, and withdraws the open invitations that it
    /// accepts. Returns the register entries of all of them; those of invitations have no serial number.
    ///
    /// # Errors
    ///
    /// The register or the list cannot be read or written.
    pub fn revoke(
        &self,
        selects: impl Fn(&RegisterEntry) -> bool,
    ) -> Result<Vec<RegisterEntry>, PkiError> {
        let lock = files::lock(&self.directory)?;
        let at = now();
        let mut revoked_entries = Vec::new();
        for (entry, revocation) in self.entries()? {
            if revocation.is_none() && entry.not_after > at && selects(&entry) {
                let serial = entry.serial.clone();
                register::append_revoked(&self.directory, &Revocation { serial, at })?;
                revoked_entries.push(entry);
            }
        }
        revoked_entries.extend(self.withdraw(&selects, &lock)?);
        self.write_revocation_list(&lock)?;
        Ok(revoked_entries)
    }

    /// Writes the revocation list anew, from the register. `_locked` proves that the caller has locked the folder.
    fn write_revocation_list(&self, _locked: &File) -> Result<(), PkiError> {
        let at = now();
        let revoked = register::revocations(&self.directory)?;
        let certificates = revoked.values().filter_map(|revocation| {
            let serial = unhex(&revocation.serial)?;
            Some(date(revocation.at).map(|revoked_at| RevokedCertParams {
                serial_number: SerialNumber::from_slice(&serial),
                revocation_time: revoked_at,
                reason_code: None,
                invalidity_date: None,
            }))
        });
        let params = CertificateRevocationListParams {
            this_update: date(at - skew())?,
            next_update: date(later(at, REVOCATION_LIST_LIFE))?,
            // A list with further revocations has a greater number, because revocations are never removed.
            crl_number: SerialNumber::from(u64::try_from(revoked.len()).unwrap_or(0) + 1),
            issuing_distribution_point: None,
            revoked_certs: certificates.collect::<Result<_, _>>()?,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer)?;
        files::replace(&self.revocation_list_path(), list.pem()?.as_bytes())
    }
}

/// [`SKEW`] in seconds.
fn skew() -> i64 {
    i64::try_from(SKEW.as_secs()).unwrap_or(0)
}

/// A random serial number of 127 bits.
fn random_serial() -> Result<SerialNumber, PkiError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(PkiError::Random)?;
    // The first bits make the number positive, and always of the same length.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

/// The common name of a certificate: text for people, which no check reads.
fn common_name(identity: &Identity) -> String {
    match identity.role() {
        Role::Control => "control".to_owned(),
        Role::Cell(cell) => format!("cell {cell}"),
        Role::Agent(names) => format!("agent of cell {}", names.cell),
    }
    .chars()
    .take(COMMON_NAME_CHARACTERS_MAX)
    .collect()
}

/// The DNS name of a role, for clients that check DNS names only.
#[must_use]
pub(crate) fn dns_name(role: &Role) -> &'static str {
    match role {
        Role::Control => "control.placewright.internal",
        Role::Cell(_) => "cell.placewright.internal",
        Role::Agent(_) => "agent.placewright.internal",
    }
}

/// The subject alternative names of a certificate.
fn subject_alt_names(grant: &Grant) -> Result<Vec<SanType>, PkiError> {
    let mut names = Vec::new();
    for uri in grant.identity.uris() {
        names.push(SanType::URI(uri.try_into()?));
    }
    let role_name = dns_name(grant.identity.role());
    let dns = grant.dns.iter().map(String::as_str);
    for name in dns.chain([role_name]) {
        let name = SanType::DnsName(name.to_owned().try_into()?);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.extend(grant.addresses.iter().copied().map(SanType::IpAddress));
    Ok(names)
}
