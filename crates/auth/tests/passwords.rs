//! `http_basic`: passwords, roles, and a file that changes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use placewright_auth::{
    AuthConfig, AuthError, Authenticator, HttpBasicConfig, HttpBasicUser, Identity, SetupError,
    Strategy,
};

/// A line of a password file; the cost is the lowest, so that tests are quick.
fn line(user: &str, password: &str, version: bcrypt::Version) -> String {
    let hash = bcrypt::hash_with_result(password, 4)
        .unwrap()
        .format_for_version(version);
    format!("{user}:{hash}\n")
}

fn config(path: &Path) -> HttpBasicConfig {
    HttpBasicConfig {
        user_file: Some(path.to_owned()),
        reload_check_ms: 0,
        ..HttpBasicConfig::default()
    }
}

fn authenticator(http_basic: HttpBasicConfig) -> Result<Authenticator, SetupError> {
    let strategy = Strategy::HttpBasic;
    Authenticator::new(&AuthConfig {
        strategy,
        http_basic,
        ..AuthConfig::default()
    })
}

async fn log_in(auth: &Authenticator, pair: &str) -> Result<Arc<Identity>, AuthError> {
    let value = format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(pair)
    );
    auth.authenticate(&[("Authorization", value.as_str())])
        .await
}

struct File {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn file(text: &str) -> File {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("htpasswd");
    std::fs::write(&path, text).unwrap();
    File { _dir: dir, path }
}

/// Replaces the file as careful tools do.
fn replace(file: &File, text: &str) {
    let new = file.path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, &file.path).unwrap();
}

#[tokio::test]
async fn right_passwords_are_let_in_and_all_else_gets_the_challenge() {
    let text = [
        "# services\n\n".to_owned(),
        line("nova", "secret", bcrypt::Version::TwoY),
        line("neutron", "a:b:c", bcrypt::Version::TwoA),
        line("über", "pässwörd", bcrypt::Version::TwoB),
        line("reader", "r", bcrypt::Version::TwoB),
    ];
    let file = file(&text.concat());
    let mut config = config(&file.path);
    config.project_id = Some("services".to_owned());
    let own = HttpBasicUser {
        roles: vec!["reader".to_owned()],
        project_id: None,
    };
    config.users.insert("reader".to_owned(), own);
    let auth = authenticator(config).unwrap();
    assert!(!auth.requires_loopback());

    for pair in [
        "nova:secret",
        "neutron:a:b:c",
        "über:pässwörd",
        "nova:secret",
    ] {
        let identity = log_in(&auth, pair).await.unwrap();
        assert_eq!(identity.user_id(), pair.split(':').next());
        assert_eq!(identity.roles(), ["admin", "service"]);
        assert_eq!(identity.project_id(), Some("services"));
        assert_eq!(identity.parts().is_admin, Some(true));
    }
    let reader = log_in(&auth, "reader:r").await.unwrap();
    assert_eq!(
        (reader.roles(), reader.project_id()),
        (["reader".to_owned()].as_slice(), None)
    );
    assert_eq!(reader.parts().is_admin, Some(false));

    let challenge = Some("Basic realm=\"Placement\", charset=\"UTF-8\"".to_owned());
    let unauthorized = AuthError::Unauthorized { challenge };
    for pair in [
        "nova:Secret",
        "nova:",
        ":secret",
        "nobody:secret",
        "nova",
        "",
        "neutron:a:b",
    ] {
        assert_eq!(
            log_in(&auth, pair).await.unwrap_err(),
            unauthorized,
            "{pair}"
        );
    }
    let huge = format!("Basic {}", "QUFB".repeat(2000));
    for value in [
        "",
        "Basic",
        "Basic ",
        "Basic ???",
        "Bearer bm92YTpzZWNyZXQ=",
        huge.as_str(),
    ] {
        let answer = auth.authenticate(&[("authorization", value)]).await;
        assert_eq!(answer.unwrap_err(), unauthorized, "{value}");
    }
    let nothing: [(&str, &str); 0] = [];
    assert_eq!(auth.authenticate(&nothing).await.unwrap_err(), unauthorized);
    let lower = auth
        .authenticate(&[("AUTHORIZATION", "bAsIc  bm92YTpzZWNyZXQ= ")])
        .await;
    assert!(lower.is_ok());
}

#[tokio::test]
async fn a_changed_file_counts_at_once_and_a_wrong_one_not_at_all() {
    let both = line("a", "1", bcrypt::Version::TwoB) + &line("b", "2", bcrypt::Version::TwoB);
    let file = file(&both);
    let auth = authenticator(config(&file.path)).unwrap();
    assert!(log_in(&auth, "a:1").await.is_ok() && log_in(&auth, "b:2").await.is_ok());

    replace(&file, &line("b", "two", bcrypt::Version::TwoB));
    assert!(
        log_in(&auth, "a:1").await.is_err(),
        "a is gone, remembered or not"
    );
    assert!(log_in(&auth, "b:2").await.is_err());
    assert!(log_in(&auth, "b:two").await.is_ok());

    replace(&file, "c:plain\n");
    assert!(log_in(&auth, "b:two").await.is_ok());
    assert!(log_in(&auth, "c:plain").await.is_err());
    std::fs::remove_file(&file.path).unwrap();
    assert!(log_in(&auth, "b:two").await.is_ok());

    std::fs::write(&file.path, line("c", "3", bcrypt::Version::TwoB)).unwrap();
    assert!(log_in(&auth, "c:3").await.is_ok());
    assert!(log_in(&auth, "b:two").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_with_one_password_are_all_let_in() {
    // A cost at which each check would take some milliseconds: 200 of them one after the other
    // would be slow, one is not.
    let hash = bcrypt::hash_with_result("p", 6).unwrap().to_string();
    let file = file(&format!("u:{hash}\n"));
    let auth = Arc::new(authenticator(config(&file.path)).unwrap());
    let requests: Vec<_> = (0..200)
        .map(|_| {
            let auth = Arc::clone(&auth);
            tokio::spawn(async move { log_in(&auth, "u:p").await })
        })
        .collect();
    for request in requests {
        assert!(request.await.unwrap().is_ok());
    }
}

#[test]
fn files_and_options_that_cannot_work_are_told() {
    let none = authenticator(HttpBasicConfig::default())
        .unwrap_err()
        .to_string();
    assert_eq!(none, "http_basic needs the option user_file");
    let missing = authenticator(config(Path::new("/nonexistent/htpasswd"))).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read /nonexistent/htpasswd");
    let good = line("a", "1", bcrypt::Version::TwoB);
    let costly = format!("b:$2b$31${:.<53}", "");
    for (bad, reason) in [
        ("secret", "expected user:hash"),
        (
            "b:secret",
            "not a bcrypt hash: make the line with htpasswd -B",
        ),
        (
            "b:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/",
            "not a bcrypt hash",
        ),
        (costly.as_str(), "the cost must be 4 to 16"),
        ("b:$2b$10$short", "not a bcrypt hash"),
        (good.trim(), "the user is there twice"),
    ] {
        let file = file(&format!("{good}{bad}\n"));
        let error = authenticator(config(&file.path)).unwrap_err().to_string();
        assert!(
            error.contains("htpasswd, line 2: ") && error.contains(reason),
            "{error}"
        );
        assert!(
            !error.contains("$2b$") && !error.contains("secret"),
            "{error}"
        );
    }
    let file = file(&good);
    let realm = HttpBasicConfig {
        realm: "a\"b".to_owned(),
        ..config(&file.path)
    };
    assert!(
        authenticator(realm)
            .unwrap_err()
            .to_string()
            .starts_with("realm: ")
    );
}
