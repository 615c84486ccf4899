//! Key pairs: public keys that users import under a name.

use base64::Engine as _;
use md5::{Digest as _, Md5};
use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Bound, Command, Keypair, Refusal};
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;
use crate::{error, page, time};

/// The most characters of a public key; one of RSA with 16,384 bits has 2,800.
const KEY_MAX: usize = 16_384;

/// The user whose key pairs a request is about; from version 2.10 on it may be another than the
/// caller.
fn user<'q>(call: &'q RoutedRequest<'_>) -> &'q str {
    let other = call.query.get("user_id").filter(|_| call.version.since(10));
    other.unwrap_or_else(|| call.user())
}

fn brief(call: &RoutedRequest<'_>, name: &str, row: &Keypair) -> Value {
    let mut value = json!({
        "name": name,
        "public_key": row.public_key,
        "fingerprint": row.fingerprint,
    });
    if call.version.since(2) {
        value["type"] = json!(row.kind);
    }
    value
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let user = user(call);
    call.allow_on(Rule::KeypairsIndex, call.project(), user)?;
    let rows = call.read(|control, _| {
        let rows = control.conductor.keypairs_of(user);
        let rows = rows.map(|(name, row)| (name.to_owned(), row.clone()));
        rows.collect::<Vec<_>>()
    });
    let mut rows = rows.await;
    if call.version.since(35) {
        rows = page::cut(call, rows, |(name, _), marker| name == marker)?;
    }
    let values = rows
        .iter()
        .map(|(name, row)| json!({"keypair": brief(call, name, row)}));
    let mut body = json!({"keypairs": values.collect::<Vec<_>>()});
    if call.version.since(35) {
        let last = rows.last().map_or("", |(name, _)| name.as_str());
        if let Some(links) = page::next(call, "/os-keypairs", rows.len(), last)? {
            body["keypairs_links"] = links;
        }
    }
    Reply::value(200, &body)
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (user, name) = (user(call), call.parameter("name"));
    call.allow_on(Rule::KeypairsShow, call.project(), user)?;
    let key = (user.to_owned(), name.to_owned());
    let row = call.read(|control, _| control.conductor.keypairs().get(&key).cloned());
    let row = row.await.ok_or_else(|| error::missing("key pair", name))?;
    let mut value = brief(call, name, &row);
    value["user_id"] = json!(user);
    value["id"] = json!(crate::admin::legacy_id(uuid::Uuid::from_u128(id_of(
        user, name
    ))));
    value["created_at"] = json!(time::micros(row.created_at));
    value["updated_at"] = json!(null);
    value["deleted"] = json!(false);
    value["deleted_at"] = json!(null);
    Reply::value(200, &json!({"keypair": value}))
}

/// The integer id of a key pair.
fn id_of(user: &str, name: &str) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(user.as_bytes());
    hasher.update(&[0]);
    hasher.update(name.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(bytes)
}

pub(crate) async fn create(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let mut parsed = fields.object("keypair")?;
    let name = parsed.name("name")?;
    let name = name.ok_or_else(|| parsed.wrong("name", "it is missing"))?;
    check_name(call, name)?;
    let public_key = parsed.nullable_text("public_key", 1..=KEY_MAX)?.flatten();
    let public_key = public_key.ok_or_else(|| {
        parsed.wrong(
            "public_key",
            "it is missing: keys are imported, not made here",
        )
    })?;
    let kind = match call.version.since(2) {
        true => parsed.text("type", 1..=16)?.unwrap_or("ssh"),
        false => "ssh",
    };
    if kind != "ssh" {
        let message = format!("it must be ssh, not {kind:?}");
        return Err(parsed.wrong("type", message));
    }
    let mut user = call.user();
    if call.version.since(10) {
        user = parsed.text("user_id", 1..=255)?.unwrap_or(user);
    }
    parsed.finish()?;
    fields.finish()?;
    call.allow_on(Rule::KeypairsCreate, call.project(), user)?;
    let fingerprint = fingerprint(public_key)
        .ok_or_else(|| ApiError::field("keypair.public_key", "it is no public key of SSH"))?;
    let row = Keypair {
        kind: kind.to_owned(),
        public_key: public_key.to_owned(),
        fingerprint,
        created_at: call.at,
    };
    let most = call.core.limits().keypairs_max;
    let command = Command::Bounded {
        bounds: bounds(call, user, most),
        command: Box::new(Command::SetKeypair {
            user: user.to_owned(),
            name: name.to_owned(),
            keypair: Some(row.clone()),
        }),
    };
    match call.submit(command).await? {
        Ok(_) => {}
        Err(Refusal::TooMany { .. }) => {
            return Err(ApiError::forbidden(format!(
                "The user has {most} key pairs; compute.keypairs_max allows no more."
            )));
        }
        Err(Refusal::Exists { .. }) => {
            let message = format!("There is a key pair {name} already.");
            return Err(ApiError::conflict(message));
        }
        Err(refusal) => return Err(error::of_refusal(refusal)),
    }
    let mut value = brief(call, name, &row);
    value["user_id"] = json!(user);
    let status = if call.version.since(2) { 201 } else { 200 };
    Reply::value(status, &json!({"keypair": value}))
}

/// The quota of the project, and the bound of the installation.
fn bounds(call: &RoutedRequest<'_>, user: &str, most: usize) -> Vec<Bound> {
    let user = user.to_owned();
    let quota = Bound::KeypairQuota {
        project: call.project().to_owned(),
        user: user.clone(),
    };
    vec![quota, Bound::Keypairs { user, most }]
}

fn check_name(call: &RoutedRequest<'_>, name: &str) -> ApiResult<()> {
    let is_fine = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, ' ' | '_' | '-')
            || (call.version.since(92) && matches!(c, '.' | '@'))
    };
    if name.chars().all(is_fine) {
        return Ok(());
    }
    let message =
        "it must have letters, digits, blanks, - and _ only; from version 2.92 also . and @";
    Err(ApiError::field("keypair.name", message))
}

/// The fingerprint of a public key in OpenSSH's format: MD5 of its blob.
fn fingerprint(key: &str) -> Option<String> {
    let mut parts = key.split_whitespace();
    let (kind, blob) = (parts.next()?, parts.next()?);
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(blob)
        .ok()?;
    // A blob begins with its key type, preceded by the length.
    let length = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    if bytes.get(4..4 + length)? != kind.as_bytes() {
        return None;
    }
    let digest = Md5::digest(&bytes);
    let pairs: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(pairs.join(":"))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (user, name) = (user(call), call.parameter("name"));
    call.allow_on(Rule::KeypairsDelete, call.project(), user)?;
    call.carry_out(Command::SetKeypair {
        user: user.to_owned(),
        name: name.to_owned(),
        keypair: None,
    })
    .await?;
    Ok(Reply::empty(if call.version.since(2) { 204 } else { 202 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_those_of_ssh_keygen() {
        let key =
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x@y";
        assert_eq!(
            fingerprint(key).as_deref(),
            Some("65:96:2d:fc:e8:d5:a9:11:64:0c:0f:ea:00:6e:5b:bd")
        );
        for wrong in [
            "",
            "ssh-rsa",
            "ssh-rsa !",
            "ssh-rsa AAAA",
            "ssh-rsa AAAAC3NzaC1lZDI1NTE5",
        ] {
            assert_eq!(fingerprint(wrong), None, "{wrong}");
        }
    }
}
