//! `noauth2`: the corners that the cases from the reference do not reach.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use placewright_auth::{AuthConfig, AuthError, Authenticator, Strategy};
use reqwest::header::{HeaderMap, HeaderValue};

#[tokio::test]
async fn header_maps_are_read_as_wsgi_servers_hand_them_on() {
    let noauth2 = Authenticator::new(&AuthConfig::default()).unwrap();
    assert!(noauth2.requires_loopback() && noauth2.strategy() == Strategy::Noauth2);
    let mut headers = HeaderMap::new();
    let refused = noauth2.authenticate(&headers).await.unwrap_err();
    assert_eq!(refused, AuthError::Unauthorized { challenge: None });

    headers.insert("X-Auth-Token", HeaderValue::from_static("user"));
    headers.append("X-Roles", HeaderValue::from_static("reader"));
    headers.append("X-Roles", HeaderValue::from_static("member, service"));
    headers.insert("X-Project-Id", HeaderValue::from_bytes(b"caf\xe9").unwrap());
    let identity = noauth2.authenticate(&headers).await.unwrap();
    assert_eq!(identity.roles(), ["reader", "member", "service"]);
    assert_eq!(
        (identity.user_id(), identity.project_id()),
        (Some("user"), Some("café"))
    );
}
