//! `noauth2`: cases that those taken from the reference do not cover.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use placewright_auth::{AuthConfig, AuthError, Authenticator, Strategy};
use reqwest::header::{HeaderMap, HeaderValue};

#[tokio::test]
async fn header_maps_are_read_as_wsgi_servers_hand_them_on() {
    let noauth2 = Authenticator::new(&AuthConfig::default()).unwrap();
    assert!(noauth2.requires_loopback() && noauth2.strategy() == Strategy::Noauth2);
    let mut headers = HeaderMap::new();
    let refused = noauth2.authenticate(&headers, None).await.unwrap_err();
    assert_eq!(refused, AuthError::Unauthorized { challenge: None });

    headers.insert("X-Auth-Token", HeaderValue::from_static("user"));
    headers.append("X-Roles", HeaderValue::from_static("reader"));
    headers.append("X-Roles", HeaderValue::from_static("member, service"));
    headers.insert("X-Project-Id", HeaderValue::from_bytes(b"caf\xe9").unwrap());
    let identity = noauth2.authenticate(&headers, None).await.unwrap();
    assert_eq!(identity.roles(), ["reader", "member", "service"]);
    assert_eq!(
        (identity.user_id(), identity.project_id()),
        (Some("user"), Some("café"))
    );
}

#[tokio::test]
async fn names_and_roles_beyond_all_need_are_refused() {
    let noauth2 = Authenticator::new(&AuthConfig::default()).unwrap();
    let claim = async |name: &'static str, value: &str| {
        let headers = [("X-Auth-Token", "user"), (name, value)];
        // Two headers of one name are one value.
        let headers = if name == "X-Auth-Token" {
            &headers[1..]
        } else {
            &headers[..]
        };
        noauth2.authenticate(headers, None).await.map(|_| ())
    };
    let long = "a".repeat(255);
    let pair = format!("{long}:{long}");
    for (name, value) in [("X-Auth-Token", pair.as_str()), ("X-Project-Id", &long)] {
        assert_eq!(claim(name, value).await, Ok(()));
        let error = claim(name, &format!("{value}a")).await.unwrap_err();
        assert!(matches!(&error, AuthError::TooLarge { reason } if reason.contains("255 bytes")));
    }
    for name in ["X-Roles", "X-Service-Roles"] {
        assert_eq!(claim(name, &vec!["r"; 100].join(",")).await, Ok(()));
        let error = claim(name, &vec!["r"; 101].join(",")).await.unwrap_err();
        assert!(
            error
                .to_string()
                .contains("101 roles; auth.roles_max allows 100"),
            "{error}"
        );
    }
}
