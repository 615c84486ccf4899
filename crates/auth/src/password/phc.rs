//! Hashes of passwords as PHC strings: `$argon2id$v=19$m=19456,t=2,p=1$SALT$HASH`.

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// The memory of a hash in KiB, its passes, and its lanes.
const MEMORY_KIB: u32 = 19_456;
const PASSES: u32 = 2;
const LANES: u32 = 1;
/// The lengths of salt and hash in bytes.
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// The maximum memory, in KiB, and the maximum number of passes with which a stored hash is verified. Another release
/// may have made the hash with other numbers than this one uses.
const MEMORY_KIB_MAX: u32 = 1 << 18;
const PASSES_MAX: u32 = 16;

/// A parsed PHC string.
struct Parsed {
    params: Params,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

/// The hash of a password with a random salt; `None` if the system has no random numbers or no memory.
pub(super) fn hash(password: &[u8]) -> Option<String> {
    let mut salt = [0; SALT_BYTES];
    getrandom::fill(&mut salt).ok()?;
    let params = Params::new(MEMORY_KIB, PASSES, LANES, Some(HASH_BYTES)).ok()?;
    let hash = compute(params, password, &salt, HASH_BYTES)?;
    Some(format!(
        "$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${}${}",
        STANDARD_NO_PAD.encode(salt),
        STANDARD_NO_PAD.encode(hash)
    ))
}

/// Whether a password has this hash. Without a hash the result is false, after the same time, so that the time does
/// not tell whether the user exists.
pub(super) fn verify(password: &[u8], hash: Option<&str>) -> bool {
    let parsed = hash.and_then(parse);
    let has_hash = parsed.is_some();
    let parsed = match parsed {
        Some(parsed) => parsed,
        None => match Params::new(MEMORY_KIB, PASSES, LANES, Some(HASH_BYTES)) {
            Ok(params) => Parsed {
                params,
                salt: vec![0; SALT_BYTES],
                hash: vec![0; HASH_BYTES],
            },
            Err(_) => return false,
        },
    };
    let computed = compute(parsed.params, password, &parsed.salt, parsed.hash.len());
    let Some(computed) = computed else {
        return false;
    };
    // The type of `blake3` for hashes compares them in the same time, wherever they differ.
    let is_equal = blake3::hash(&computed) == blake3::hash(&parsed.hash);
    has_hash & is_equal
}

fn compute(params: Params, password: &[u8], salt: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut hash = vec![0; length];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(password, salt, &mut hash).ok()?;
    Some(hash)
}

/// Parses a PHC string; `None` if it is not a hash by Argon2id, or asks for too much memory or too many passes.
fn parse(text: &str) -> Option<Parsed> {
    let rest = text.strip_prefix("$argon2id$v=19$")?;
    let mut parts = rest.split('$');
    let (params, salt, hash) = (parts.next()?, parts.next()?, parts.next()?);
    let mut numbers = params.split(',');
    let mut number = |key: &str| -> Option<u32> {
        let value = numbers.next()?.strip_prefix(key)?;
        value.parse().ok()
    };
    let (memory, passes, lanes) = (number("m=")?, number("t=")?, number("p=")?);
    let salt = STANDARD_NO_PAD.decode(salt).ok()?;
    let hash = STANDARD_NO_PAD.decode(hash).ok()?;
    if memory > MEMORY_KIB_MAX || passes > PASSES_MAX || parts.next().is_some() {
        return None;
    }
    Some(Parsed {
        params: Params::new(memory, passes, lanes, Some(hash.len())).ok()?,
        salt,
        hash,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_its_own_hash_and_no_other() {
        let made = hash(b"correct horse").unwrap();
        assert!(
            made.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{made}"
        );
        assert!(verify(b"correct horse", Some(&made)));
        assert!(!verify(b"correct horsf", Some(&made)));
        assert_ne!(hash(b"correct horse").unwrap(), made);
        for wrong in [
            None,
            Some(""),
            Some("$2b$10$x"),
            Some(&made[..made.len() - 9]),
        ] {
            assert!(!verify(b"correct horse", wrong));
        }
        // A hash that would take the machine's memory is not computed.
        let huge = made.replace("m=19456", "m=4000000000");
        assert!(!verify(b"correct horse", Some(&huge)));
    }
}
