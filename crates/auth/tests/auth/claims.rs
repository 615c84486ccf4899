//! `noauth2`: cases beyond those that were generated with the reference (`reference.rs`).

use placewright_auth::{AuthConfig, AuthError, Authenticator, Strategy};
use reqwest::header::{HeaderMap, HeaderValue};

#[tokio::test]
async fn repeated_headers_are_joined_as_by_wsgi_servers() {
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
async fn too_long_names_and_too_many_roles_are_refused() {
    let noauth2 = Authenticator::new(&AuthConfig::default()).unwrap();
    let authenticate_with = async |name: &'static str, value: &str| {
        let headers = [("X-Auth-Token", "user"), (name, value)];
        // A second token would be joined to the first, so the first is left out.
        let headers = if name == "X-Auth-Token" {
            &headers[1..]
        } else {
            &headers[..]
        };
        noauth2.authenticate(headers, None).await.map(|_| ())
    };
    let longest_name = "a".repeat(255);
    let longest_token = format!("{longest_name}:{longest_name}");
    for (name, value) in [
        ("X-Auth-Token", longest_token.as_str()),
        ("X-Project-Id", &longest_name),
    ] {
        assert_eq!(authenticate_with(name, value).await, Ok(()));
        let error = authenticate_with(name, &format!("{value}a"))
            .await
            .unwrap_err();
        assert!(matches!(&error, AuthError::TooLarge { reason } if reason.contains("255 bytes")));
    }
    for name in ["X-Roles", "X-Service-Roles"] {
        assert_eq!(
            authenticate_with(name, &vec!["r"; 100].join(",")).await,
            Ok(())
        );
        let error = authenticate_with(name, &vec!["r"; 101].join(","))
            .await
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("101 roles; auth.roles_max allows 100"),
            "{error}"
        );
    }
}
