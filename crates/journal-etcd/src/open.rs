//! Opening a store: checks of the cluster, and the creation of the first keys.

use parking_lot::Mutex;
use placewright_errors::chain;
use placewright_journal::JournalError;
use placewright_journal::batch::LogEnd;

use crate::client::Client;
use crate::connector;
use crate::failure::{Cause, Failure};
use crate::keys::Keys;
use crate::kv;
use crate::notice::EtcdNotice;
use crate::options::EtcdOptions;
use crate::proto::StatusResponse;
use crate::rows::{Head, RowError, encode_trim};
use crate::store::{KnownHead, Store, error_of, no_space};

/// The oldest release whose API has everything that this crate uses.
const OLDEST: Version = Version(3, 4, 0);
/// Releases that corrupt their data when they are killed (etcd issue 13766).
const CORRUPTING: [Version; 3] = [Version(3, 5, 0), Version(3, 5, 1), Version(3, 5, 2)];
/// The oldest release without a known fault by which members come to differ.
const ADVISED: Version = Version(3, 5, 14);
/// etcd's default quota in bytes.
const QUOTA: u64 = 2 << 30;

/// A release of etcd: its major, minor and patch numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32, u32);

impl Version {
    /// Reads `3.5.14`, and `3.6.0-rc.1` as `3.6.0`; `None` if there are no three numbers.
    fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let mut numbers = numbers.split('.').map(|number| number.parse().ok());
        Some(Self(numbers.next()??, numbers.next()??, numbers.next()??))
    }
}

/// Opens a store, and creates it if the prefix has no keys.
pub(crate) fn open(options: &EtcdOptions) -> Result<(Store, KnownHead), JournalError> {
    let url = options.to_string();
    let unsuitable = |reason: String| JournalError::Unsuitable {
        url: url.clone(),
        reason,
    };
    if let Some(tls) = &options.tls {
        // The files are read here only to report an error clearly. Each connection reads the files again.
        connector::client_config(tls).map_err(|error| unsuitable(chain(&error)))?;
    }
    let client = Client::new(options).map_err(|error| unsuitable(chain(&error)))?;
    let mut notices = Vec::new();
    for (endpoint, status) in client.statuses() {
        match status {
            Ok(status) => check_member(&url, &endpoint, &status, &mut notices)?,
            // Newer releases report their status to administrators only.
            Err(Failure {
                cause: Cause::Denied | Cause::BadToken | Cause::Refused,
                ..
            }) => {}
            Err(
                failure @ Failure {
                    cause: Cause::OtherCluster,
                    ..
                },
            ) => return Err(error_of(&url, "open", failure)),
            Err(Failure { reason, .. }) => notices.push(EtcdNotice::NoAnswer { endpoint, reason }),
        }
    }
    match client.authenticate() {
        Ok(true) => {}
        Ok(false) => notices.push(EtcdNotice::NoAuthentication),
        Err(failure) => return Err(error_of(&url, "authenticate", failure)),
    }
    let store = Store {
        client,
        keys: Keys::new(&options.prefix),
        url,
        compact: options.compact,
        last_compaction: Mutex::new(None),
        notices,
    };
    let head = find_or_create(&store)?;
    Ok((store, head))
}

/// Refuses a member that is not fit for a journal.
fn check_member(
    url: &str,
    endpoint: &str,
    status: &StatusResponse,
    notices: &mut Vec<EtcdNotice>,
) -> Result<(), JournalError> {
    let unsuitable = |reason| {
        Err(JournalError::Unsuitable {
            url: url.to_owned(),
            reason,
        })
    };
    let StatusResponse {
        version, errors, ..
    } = status;
    let release = Version::parse(version);
    let fault = match release {
        None => Some("which is no release that is known"),
        Some(release) if release < OLDEST => Some("which is too old"),
        Some(release) if CORRUPTING.contains(&release) => {
            Some("which corrupts its data when it is killed")
        }
        Some(_) => None,
    };
    if let Some(fault) = fault {
        return unsuitable(format!(
            "{endpoint} runs etcd {version}, {fault}: use 3.5.14 or newer"
        ));
    }
    if errors.iter().any(|error| error.contains("CORRUPT")) {
        return unsuitable(format!(
            "{endpoint} has the alarm CORRUPT: its members differ, see etcd's page on data corruption"
        ));
    }
    if errors.iter().any(|error| error.contains("NOSPACE")) {
        return Err(no_space(url));
    }
    if release < Some(ADVISED) {
        notices.push(EtcdNotice::OldRelease {
            endpoint: endpoint.to_owned(),
            version: version.clone(),
        });
    }
    let bytes = u64::try_from(status.db_size_in_use).unwrap_or(0);
    let bytes_max = match u64::try_from(status.db_size_quota) {
        Ok(0) | Err(_) => QUOTA,
        Ok(quota) => quota,
    };
    // At four fifths of the quota there is still time to act.
    if bytes / 4 >= bytes_max / 5 {
        notices.push(EtcdNotice::NearQuota {
            endpoint: endpoint.to_owned(),
            bytes,
            bytes_max,
        });
    }
    Ok(())
}

/// Reads the head. Creates the store if no key has its prefix.
fn find_or_create(store: &Store) -> Result<KnownHead, JournalError> {
    let keys = &store.keys;
    loop {
        let (from, until) = keys.all();
        let reads = [kv::get(keys.head()), kv::keys(from, until, 1)];
        let mut ranges = store.read("open", reads)?;
        let head = kv::one(ranges.next());
        let other = kv::one(ranges.next());
        let not_a_journal = |reason: String| JournalError::NotAJournal {
            path: store.path(),
            reason,
        };
        match (&head, other) {
            (Some(head), _) if Head::decode(&head.value) == Err(RowError::Bad) => {
                return Err(not_a_journal("the value of the key head is another".into()));
            }
            (Some(_), _) => return store.known_head(head),
            (None, Some(other)) => {
                let key = String::from_utf8_lossy(&other.key).into_owned();
                return Err(not_a_journal(format!("it has no head, but the key {key}")));
            }
            (None, None) => {}
        }
        let mut create = kv::all(vec![
            kv::put(keys.head(), Head::default().encode()),
            kv::put(keys.trim(), encode_trim(&LogEnd::default())),
        ]);
        create.compare = vec![kv::is_at(keys.head(), 0)];
        // Whoever has created the store, the next round of the loop finds it.
        store.repeat("create", create)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(version: &str, errors: &[&str], bytes: i64) -> Result<Vec<EtcdNotice>, JournalError> {
        let status = StatusResponse {
            version: version.into(),
            errors: errors.iter().map(|error| (*error).to_owned()).collect(),
            db_size_in_use: bytes,
            ..StatusResponse::default()
        };
        let mut notices = Vec::new();
        check_member("etcd://a/b", "a", &status, &mut notices).map(|()| notices)
    }

    #[test]
    fn faulty_releases_alarms_and_full_databases_are_noticed() {
        for refused in ["3.3.27", "3.5.0", "3.5.2", "2.3", "main"] {
            let refused = check(refused, &[], 0);
            assert!(matches!(refused, Err(JournalError::Unsuitable { .. })));
        }
        for old in ["3.4.23", "3.5.3", "3.5.13"] {
            assert!(matches!(
                check(old, &[], 0).unwrap()[..],
                [EtcdNotice::OldRelease { .. }]
            ));
        }
        for good in ["3.5.14", "3.6.0-rc.1", "4.0.0"] {
            assert_eq!(check(good, &[], 1 << 30).unwrap(), []);
        }
        let near = check("3.6.4", &[], 1_800_000_000).unwrap();
        assert!(matches!(near[..], [EtcdNotice::NearQuota { .. }]));
        let full = check("3.6.4", &["memberID:1 alarm:NOSPACE "], 0).unwrap_err();
        assert!(full.to_string().contains("alarm disarm"), "{full}");
        assert!(check("3.6.4", &["memberID:1 alarm:CORRUPT "], 0).is_err());
    }
}
