//! `http_basic`: passwords, roles, and a file that changes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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
    log_in_from(auth, pair, None).await
}

async fn log_in_from(
    auth: &Authenticator,
    pair: &str,
    source: Option<IpAddr>,
) -> Result<Arc<Identity>, AuthError> {
    let value = format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(pair)
    );
    auth.authenticate(&[("Authorization", value.as_str())], source)
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

/// Replaces the file atomically.
fn replace(file: &File, text: &str) {
    let new = file.path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, &file.path).unwrap();
}

#[tokio::test]
async fn right_passwords_are_let_in_with_roles_and_project() {
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
    assert_eq!(reader.roles(), ["reader"]);
    // The common project applies to users that are not listed; this one has a project of its own.
    let own = reader.project_id().unwrap();
    assert!(own.len() == 32 && own.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(reader.parts().is_admin, Some(false));
}

#[tokio::test]
async fn whatever_is_no_right_password_gets_the_challenge() {
    let text = [
        line("nova", "secret", bcrypt::Version::TwoY),
        line("neutron", "a:b:c", bcrypt::Version::TwoA),
    ];
    let file = file(&text.concat());
    let auth = authenticator(config(&file.path)).unwrap();
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
        let answer = auth.authenticate(&[("authorization", value)], None).await;
        assert_eq!(answer.unwrap_err(), unauthorized, "{value}");
    }
    let nothing: [(&str, &str); 0] = [];
    assert_eq!(
        auth.authenticate(&nothing, None).await.unwrap_err(),
        unauthorized
    );
    let lower = auth
        .authenticate(&[("AUTHORIZATION", "bAsIc  bm92YTpzZWNyZXQ= ")], None)
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
    // A cost at which a check takes some milliseconds: 200 of them in sequence would be slow, one
    // is not.
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

/// The addresses of the attackers, of the known user, and of the new one.
fn from(last: u8) -> Option<IpAddr> {
    Some([192, 0, 2, last].into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_at_full_speed_hold_up_neither_known_nor_new_users() {
    // Each check takes some 5 to 50 ms, depending on the build.
    let hash = |password: &str| bcrypt::hash_with_result(password, 7).unwrap().to_string();
    let names = ["known", "new", "third"];
    let lines = names.map(|name| format!("{name}:{}\n", hash(name)));
    let file = file(&lines.concat());
    let auth = Arc::new(authenticator(config(&file.path)).unwrap());
    log_in_from(&auth, "known:known", from(2)).await.unwrap();

    let over = Arc::new(AtomicBool::new(false));
    let attackers: Vec<_> = (0..64)
        .map(|number: u32| {
            let (auth, over) = (Arc::clone(&auth), Arc::clone(&over));
            tokio::spawn(async move {
                let mut answers = [0_u32; 2];
                for guess in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    // Alternates between names that exist, including the known user's, and names
                    // that do not.
                    let name = ["known", "new", "third", "nobody"][guess % 4];
                    let pair = format!("{name}:{number}-{guess}");
                    match log_in_from(&auth, &pair, from(1)).await {
                        Err(AuthError::TooMany { .. }) => {
                            answers[1] += 1;
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                        Err(_) => answers[0] += 1,
                        Ok(_) => panic!("nobody has that password"),
                    }
                }
                answers
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        let began = Instant::now();
        // Also from the attackers' address, because they may be behind the same proxy.
        for source in [from(2), from(1)] {
            log_in_from(&auth, "known:known", source).await.unwrap();
        }
        longest = longest.max(began.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(longest < Duration::from_millis(250), "{longest:?}");
    let began = Instant::now();
    log_in_from(&auth, "new:new", from(3)).await.unwrap();
    let took = began.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    over.store(true, Ordering::Relaxed);
    let mut sums = [0; 2];
    for attacker in attackers {
        attacker.abort();
        if let Ok(answers) = attacker.await {
            sums[0] += answers[0];
            sums[1] += answers[1];
        }
    }
    assert!(sums[1] > 0, "no guess was refused: {sums:?}");
}

#[tokio::test]
async fn a_changed_line_of_another_user_does_not_ask_for_passwords_again() {
    let line_of = |user, password| line(user, password, bcrypt::Version::TwoB);
    let a = line_of("a", "1");
    let file = file(&(a.clone() + &line_of("b", "2")));
    let config = HttpBasicConfig {
        failures_burst: 1,
        failures_per_minute: 1,
        ..config(&file.path)
    };
    let auth = authenticator(config).unwrap();
    log_in(&auth, "a:1").await.unwrap();
    // From now on unknown credentials from this address are not checked.
    assert!(log_in(&auth, "a:wrong").await.is_err());
    let refused = log_in(&auth, "b:2").await.unwrap_err();
    assert!(
        matches!(&refused, AuthError::TooMany { reason, retry_after }
            if reason.contains("http_basic.failures_per_minute") && !retry_after.is_zero()),
        "{refused:?}"
    );
    replace(&file, &(a + &line_of("b", "two")));
    log_in(&auth, "a:1").await.unwrap();
}

#[tokio::test]
async fn users_without_a_project_do_not_share_one() {
    let text: String = ["a", "b", "c"]
        .map(|user| line(user, user, bcrypt::Version::TwoB))
        .concat();
    let file = file(&text);
    let mut config = config(&file.path);
    let own = HttpBasicUser {
        roles: vec!["member".to_owned()],
        project_id: None,
    };
    config.users.insert("a".to_owned(), own.clone());
    config.users.insert("b".to_owned(), own);
    let auth = authenticator(config.clone()).unwrap();
    let project = async |auth: &Authenticator, pair: &str| {
        let identity = log_in(auth, pair).await.unwrap();
        identity.project_id().unwrap().to_owned()
    };
    let projects = [
        project(&auth, "a:a").await,
        project(&auth, "b:b").await,
        project(&auth, "c:c").await,
    ];
    assert!(projects[0] != projects[1] && projects[1] != projects[2] && projects[0] != projects[2]);
    // The same after a restart.
    let again = authenticator(config).unwrap();
    assert_eq!(project(&again, "a:a").await, projects[0]);
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
