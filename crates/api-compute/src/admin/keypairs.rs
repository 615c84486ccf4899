//! Key pairs: public keys that users import under a name.

use base64::Engine as _;
use md5::{Digest as _, Md5};
use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Command, Keypair, LimitCheck, Refusal};
use placewright_http::{ApiError, ApiResult, Reply};
use serde_json::{Value, json};

use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;
use crate::{error, page, time};

/// The maximum length of a public key in characters. OpenSSH's largest RSA key, of 16,384 bits, has about 2,800
/// characters.
const KEY_CHARS_MAX: usize = 16_384;

/// The user to whom the key pairs of a request belong. From version 2.10 on this may be another
/// user than the caller.
fn owner<'q>(request: &'q RoutedRequest<'_>) -> &'q str {
    let requested = request
        .query
        .get("user_id")
        .filter(|_| request.version.since(10));
    requested.unwrap_or_else(|| request.user())
}

fn keypair_json(request: &RoutedRequest<'_>, name: &str, keypair: &Keypair) -> Value {
    let mut value = json!({
        "name": name,
        "public_key": keypair.public_key,
        "fingerprint": keypair.fingerprint,
    });
    if request.version.since(2) {
        value["type"] = json!(keypair.kind);
    }
    value
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let user = owner(request);
    request.authorize_for(Rule::KeypairsIndex, request.project(), user)?;
    let rows = request.read(|control, _| {
        let rows = control.conductor.keypairs_of(user);
        let rows = rows.map(|(name, keypair)| (name.to_owned(), keypair.clone()));
        rows.collect::<Vec<_>>()
    });
    let mut rows = rows.await;
    if request.version.since(35) {
        rows = page::paginate(request, rows, |(name, _), marker| name == marker)?;
    }
    let values = rows
        .iter()
        .map(|(name, keypair)| json!({"keypair": keypair_json(request, name, keypair)}));
    let mut body = json!({"keypairs": values.collect::<Vec<_>>()});
    if request.version.since(35) {
        let last_name = rows.last().map_or("", |(name, _)| name.as_str());
        if let Some(links) = page::next_link(request, "/os-keypairs", rows.len(), last_name)? {
            body["keypairs_links"] = links;
        }
    }
    Reply::value(200, &body)
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (user, name) = (owner(request), request.parameter("name"));
    request.authorize_for(Rule::KeypairsShow, request.project(), user)?;
    let keypair_id = (user.to_owned(), name.to_owned());
    let keypair = request.read(|control, _| control.conductor.keypairs().get(&keypair_id).cloned());
    let keypair = keypair
        .await
        .ok_or_else(|| error::missing("key pair", name))?;
    let mut value = keypair_json(request, name, &keypair);
    value["user_id"] = json!(user);
    value["id"] = json!(crate::admin::legacy_id(uuid::Uuid::from_u128(
        legacy_id_source(user, name)
    )));
    value["created_at"] = json!(time::format_micros(keypair.created_at));
    value["updated_at"] = json!(null);
    value["deleted"] = json!(false);
    value["deleted_at"] = json!(null);
    Reply::value(200, &json!({"keypair": value}))
}

/// A hash of a key pair's user and name, from which its integer id is derived.
fn legacy_id_source(user: &str, name: &str) -> u128 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(user.as_bytes());
    hasher.update(&[0]);
    hasher.update(name.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(bytes)
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json()?;
    let mut body_parser = ObjectParser::of_body(&body)?;
    let mut parser = body_parser.object("keypair")?;
    let name = parser.name("name")?;
    let name = name.ok_or_else(|| parser.field_error("name", "it is missing"))?;
    check_name(request, name)?;
    let public_key = parser
        .nullable_text("public_key", 1..=KEY_CHARS_MAX)?
        .flatten();
    let public_key = public_key.ok_or_else(|| {
        parser.field_error(
            "public_key",
            "it is missing: keys are imported, not made here",
        )
    })?;
    let key_type = match request.version.since(2) {
        true => parser.text("type", 1..=16)?.unwrap_or("ssh"),
        false => "ssh",
    };
    if key_type != "ssh" {
        let message = format!("it must be ssh, not {key_type:?}");
        return Err(parser.field_error("type", message));
    }
    let mut user = request.user();
    if request.version.since(10) {
        user = parser.text("user_id", 1..=255)?.unwrap_or(user);
    }
    parser.finish()?;
    body_parser.finish()?;
    request.authorize_for(Rule::KeypairsCreate, request.project(), user)?;
    let fingerprint = fingerprint(public_key)
        .ok_or_else(|| ApiError::field("keypair.public_key", "it is no public key of SSH"))?;
    let keypair = Keypair {
        kind: key_type.to_owned(),
        public_key: public_key.to_owned(),
        fingerprint,
        created_at: request.now,
    };
    let keypairs_max = request.api_state.limits().keypairs_max;
    let command = Command::Limited {
        checks: limit_checks(request, user, keypairs_max),
        command: Box::new(Command::SetKeypair {
            user: user.to_owned(),
            name: name.to_owned(),
            keypair: Some(keypair.clone()),
        }),
    };
    match request.submit(command).await? {
        Ok(_) => {}
        Err(Refusal::TooMany { .. }) => {
            return Err(ApiError::forbidden(format!(
                "The user has {keypairs_max} key pairs; compute.keypairs_max allows no more."
            )));
        }
        Err(Refusal::Exists { .. }) => {
            let message = format!("There is a key pair {name} already.");
            return Err(ApiError::conflict(message));
        }
        Err(refusal) => return Err(error::from_refusal(refusal)),
    }
    let mut value = keypair_json(request, name, &keypair);
    value["user_id"] = json!(user);
    let status = if request.version.since(2) { 201 } else { 200 };
    Reply::value(status, &json!({"keypair": value}))
}

/// The limits of a new key pair: the quota of the project, and the limit of the installation.
fn limit_checks(request: &RoutedRequest<'_>, user: &str, keypairs_max: usize) -> Vec<LimitCheck> {
    let user = user.to_owned();
    let quota = LimitCheck::KeypairQuota {
        project: request.project().to_owned(),
        user: user.clone(),
    };
    vec![
        quota,
        LimitCheck::Keypairs {
            user,
            max: keypairs_max,
        },
    ]
}

fn check_name(request: &RoutedRequest<'_>, name: &str) -> ApiResult<()> {
    let is_allowed = |c: char| {
        c.is_ascii_alphanumeric()
            || matches!(c, ' ' | '_' | '-')
            || (request.version.since(92) && matches!(c, '.' | '@'))
    };
    if name.chars().all(is_allowed) {
        return Ok(());
    }
    let message =
        "it must have letters, digits, blanks, - and _ only; from version 2.92 also . and @";
    Err(ApiError::field("keypair.name", message))
}

/// The fingerprint of a public key in OpenSSH's format: MD5 of its blob.
fn fingerprint(key: &str) -> Option<String> {
    let mut words = key.split_whitespace();
    let (key_type, blob) = (words.next()?, words.next()?);
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(blob)
        .ok()?;
    // A blob begins with the length of the key type and the key type itself.
    let length = u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    if bytes.get(4..4 + length)? != key_type.as_bytes() {
        return None;
    }
    let digest = Md5::digest(&bytes);
    let pairs: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(pairs.join(":"))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let (user, name) = (owner(request), request.parameter("name"));
    request.authorize_for(Rule::KeypairsDelete, request.project(), user)?;
    request
        .execute(Command::SetKeypair {
            user: user.to_owned(),
            name: name.to_owned(),
            keypair: None,
        })
        .await?;
    Ok(Reply::empty(if request.version.since(2) {
        204
    } else {
        202
    }))
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
