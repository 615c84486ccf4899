//! Redacts secrets in the error messages of executables, which are stored and shown to owners.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

/// A line is redacted if it has this many consecutive bytes of a secret, or the whole of a shorter secret.
const PIECE_BYTES: usize = 12;
/// Shorter secrets are not searched for, because nearly every message contains them by chance.
const SECRET_BYTES_MIN: usize = 4;
/// The replacement of a line with a secret. The whole line is replaced, because the message may
/// contain only a part of the secret.
const REDACTED: &str = "(a line with a secret)";

/// The secrets in the body of a specification.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    server: Server,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Server {
    user_data: String,
    admin_pass: String,
}

/// Replaces each line of a message that has a secret of the specification's body.
pub(super) fn redact_lines(message: String, spec_body: Option<&RawValue>) -> String {
    let body: Option<Body> = spec_body.and_then(|body| serde_json::from_str(body.get()).ok());
    let Some(Body { server }) = body else {
        return message;
    };
    let user_data = Zeroizing::new(server.user_data);
    let decoded = STANDARD.decode(user_data.as_bytes());
    let decoded = Zeroizing::new(decoded.unwrap_or_default());
    let password = Zeroizing::new(server.admin_pass);
    let secrets = [user_data.as_bytes(), &decoded, password.as_bytes()];
    let secrets = secrets.map(SecretPieces::new);
    let has_secret = |line: &str| {
        let line = line.as_bytes();
        secrets.iter().any(|pieces| pieces.occur_in(line))
    };
    if !message.lines().any(has_secret) {
        return message;
    }
    let lines = message.lines();
    let lines: Vec<&str> = lines
        .map(|line| if has_secret(line) { REDACTED } else { line })
        .collect();
    lines.join("\n")
}

/// All substrings of a secret that are `length` bytes long.
struct SecretPieces<'a> {
    length: usize,
    all: HashSet<&'a [u8]>,
}

impl<'a> SecretPieces<'a> {
    fn new(secret: &'a [u8]) -> Self {
        let length = secret.len().min(PIECE_BYTES);
        let is_long_enough = length >= SECRET_BYTES_MIN;
        let all = is_long_enough.then(|| secret.windows(length).collect());
        Self {
            // `windows` panics on a length of 0.
            length: length.max(1),
            all: all.unwrap_or_default(),
        }
    }

    fn occur_in(&self, line: &[u8]) -> bool {
        !self.all.is_empty()
            && line
                .windows(self.length)
                .any(|piece| self.all.contains(piece))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec_body(user_data: &str, password: &str) -> Box<RawValue> {
        let server = serde_json::json!({"user_data": user_data, "admin_pass": password});
        serde_json::from_str(&serde_json::json!({"server": server}).to_string()).unwrap()
    }

    #[test]
    fn lines_with_a_piece_of_a_secret_are_redacted() {
        let data = STANDARD.encode("#cloud-config\npassword: hush-hush-hush\n");
        let spec_body = spec_body(&data, "pass word");
        for line in [
            format!("cannot parse {}", &data[9..30]),
            "password: hush-hush-hush".to_owned(),
            "sord: hush-hush-h".to_owned(),
            "it is pass word".to_owned(),
        ] {
            let message = format!("spawn failed:\n{line}\nno disk");
            let expected = format!("spawn failed:\n{REDACTED}\nno disk");
            assert_eq!(redact_lines(message, Some(&spec_body)), expected, "{line}");
        }
    }

    #[test]
    fn other_messages_are_not_changed() {
        let spec_body = spec_body("", "ab");
        let message = "spawn failed: about a disk\n".to_owned();
        assert_eq!(redact_lines(message.clone(), Some(&spec_body)), message);
        assert_eq!(redact_lines(message.clone(), None), message);
    }
}
