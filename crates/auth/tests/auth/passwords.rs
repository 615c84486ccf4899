//! `http_basic`: passwords, roles, and a file that changes.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use placewright_auth::{
    AuthConfig, AuthError, Authenticator, HttpBasicConfig, HttpBasicUser, Identity, SetupError,
    Strategy,
};

/// A line of a password file. The hash has the lowest cost of bcrypt, 4, so that tests are quick.
fn password_line(user: &str, password: &str, version: bcrypt::Version) -> String {
    let hash = bcrypt::hash_with_result(password, 4)
        .unwrap()
        .format_for_version(version);
    format!("{user}:{hash}\n")
}

fn config(path: &Path) -> HttpBasicConfig {
    HttpBasicConfig {
        user_file: Some(path.to_owned()),
        // The file is checked for changes at every request.
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

/// Sends a request with `pair`, which is `USER:PASSWORD`, from no known address.
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

struct PasswordFile {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn password_file(text: &str) -> PasswordFile {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("htpasswd");
    std::fs::write(&path, text).unwrap();
    PasswordFile { _dir: dir, path }
}

/// Replaces the file with another one in one step, so that no reader sees half of it.
fn replace(password_file: &PasswordFile, text: &str) {
    let new = password_file.path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(&new, &password_file.path).unwrap();
}

#[tokio::test]
async fn users_with_right_passwords_have_roles_and_project() {
    let text = [
        "# services\n\n".to_owned(),
        password_line("nova", "secret", bcrypt::Version::TwoY),
        password_line("neutron", "a:b:c", bcrypt::Version::TwoA),
        password_line("über", "pässwörd", bcrypt::Version::TwoB),
        password_line("reader", "r", bcrypt::Version::TwoB),
    ];
    let password_file = password_file(&text.concat());
    let mut config = config(&password_file.path);
    config.project_id = Some("services".to_owned());
    let listed_user = HttpBasicUser {
        roles: vec!["reader".to_owned()],
        project_id: None,
    };
    config.users.insert("reader".to_owned(), listed_user);
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
    // The common project applies to users that are not listed; this user has a project of its own.
    let project_id = reader.project_id().unwrap();
    assert!(project_id.len() == 32 && project_id.bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(reader.parts().is_admin, Some(false));
}

#[tokio::test]
async fn wrong_credentials_get_the_challenge() {
    let text = [
        password_line("nova", "secret", bcrypt::Version::TwoY),
        password_line("neutron", "a:b:c", bcrypt::Version::TwoA),
    ];
    let password_file = password_file(&text.concat());
    let auth = authenticator(config(&password_file.path)).unwrap();
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
    // `bm92YTpzZWNyZXQ=` is `nova:secret` in base 64.
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
    let no_headers: [(&str, &str); 0] = [];
    assert_eq!(
        auth.authenticate(&no_headers, None).await.unwrap_err(),
        unauthorized
    );
    let other_case = auth
        .authenticate(&[("AUTHORIZATION", "bAsIc  bm92YTpzZWNyZXQ= ")], None)
        .await;
    assert!(other_case.is_ok());
}

#[tokio::test]
async fn a_changed_file_takes_effect_at_once_unless_it_is_invalid() {
    let two_users = password_line("a", "1", bcrypt::Version::TwoB)
        + &password_line("b", "2", bcrypt::Version::TwoB);
    let password_file = password_file(&two_users);
    let auth = authenticator(config(&password_file.path)).unwrap();
    assert!(log_in(&auth, "a:1").await.is_ok() && log_in(&auth, "b:2").await.is_ok());

    replace(
        &password_file,
        &password_line("b", "two", bcrypt::Version::TwoB),
    );
    assert!(
        log_in(&auth, "a:1").await.is_err(),
        "a is deleted, whether it is cached or not"
    );
    assert!(log_in(&auth, "b:2").await.is_err());
    assert!(log_in(&auth, "b:two").await.is_ok());

    // While the file is invalid or missing, the passwords that were read last stay in force.
    replace(&password_file, "c:plain\n");
    assert!(log_in(&auth, "b:two").await.is_ok());
    assert!(log_in(&auth, "c:plain").await.is_err());
    std::fs::remove_file(&password_file.path).unwrap();
    assert!(log_in(&auth, "b:two").await.is_ok());

    std::fs::write(
        &password_file.path,
        password_line("c", "3", bcrypt::Version::TwoB),
    )
    .unwrap();
    assert!(log_in(&auth, "c:3").await.is_ok());
    assert!(log_in(&auth, "b:two").await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_requests_with_one_password_share_a_check() {
    // At the cost 6, a check takes some milliseconds, so 200 checks in sequence would be slow.
    let hash = bcrypt::hash_with_result("p", 6).unwrap().to_string();
    let password_file = password_file(&format!("u:{hash}\n"));
    let auth = Arc::new(authenticator(config(&password_file.path)).unwrap());
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

/// An address: the attackers have 1, the verified user 2, the new user 3.
fn address(last_octet: u8) -> Option<IpAddr> {
    Some([192, 0, 2, last_octet].into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guesses_at_full_speed_delay_neither_verified_nor_new_users() {
    // The cost 7: each check takes some 5 to 50 ms, depending on the build.
    let hash = |password: &str| bcrypt::hash_with_result(password, 7).unwrap().to_string();
    let names = ["known", "new", "third"];
    let lines = names.map(|name| format!("{name}:{}\n", hash(name)));
    let password_file = password_file(&lines.concat());
    let auth = Arc::new(authenticator(config(&password_file.path)).unwrap());
    log_in_from(&auth, "known:known", address(2)).await.unwrap();

    let is_over = Arc::new(AtomicBool::new(false));
    let refused_total = Arc::new(AtomicU32::new(0));
    let attackers: Vec<_> = (0..64)
        .map(|number: u32| {
            let (auth, is_over) = (Arc::clone(&auth), Arc::clone(&is_over));
            let refused_total = Arc::clone(&refused_total);
            tokio::spawn(async move {
                for guess in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    // Alternates between names that exist, including the known user's, and names
                    // that do not.
                    let name = ["known", "new", "third", "nobody"][guess % 4];
                    let pair = format!("{name}:{number}-{guess}");
                    match log_in_from(&auth, &pair, address(1)).await {
                        Err(AuthError::TooMany { .. }) => {
                            refused_total.fetch_add(1, Ordering::Relaxed);
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                        Err(_) => {}
                        Ok(_) => panic!("nobody has that password"),
                    }
                }
            })
        })
        .collect();
    let mut longest = Duration::ZERO;
    for _ in 0..50 {
        let start = Instant::now();
        // The known user's password is also checked quickly when it comes from the attackers' address, because they may
        // be behind the same proxy.
        for source in [address(2), address(1)] {
            log_in_from(&auth, "known:known", source).await.unwrap();
        }
        longest = longest.max(start.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(longest < Duration::from_millis(250), "{longest:?}");
    let start = Instant::now();
    log_in_from(&auth, "new:new", address(3)).await.unwrap();
    let elapsed = start.elapsed();
    assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
    is_over.store(true, Ordering::Relaxed);
    for attacker in attackers {
        attacker.abort();
        // Most attackers were ended in the middle of a guess, so they end with an error.
        if let Err(error) = attacker.await {
            assert!(error.is_cancelled(), "{error}");
        }
    }
    let refused_total = refused_total.load(Ordering::Relaxed);
    assert!(refused_total > 0, "no guess was refused");
}

#[tokio::test]
async fn a_changed_line_of_another_user_does_not_invalidate_cached_passwords() {
    let user_line = |user, password| password_line(user, password, bcrypt::Version::TwoB);
    let a = user_line("a", "1");
    let password_file = password_file(&(a.clone() + &user_line("b", "2")));
    let config = HttpBasicConfig {
        failures_burst: 1,
        failures_per_minute: 1,
        ..config(&password_file.path)
    };
    let auth = authenticator(config).unwrap();
    log_in(&auth, "a:1").await.unwrap();
    // After this wrong password, which is all that an address may send, only credentials that were verified before
    // are checked for the address.
    assert!(log_in(&auth, "a:wrong").await.is_err());
    let refused = log_in(&auth, "b:2").await.unwrap_err();
    assert!(
        matches!(&refused, AuthError::TooMany { reason, retry_after }
            if reason.contains("http_basic.failures_per_minute") && !retry_after.is_zero()),
        "{refused:?}"
    );
    replace(&password_file, &(a + &user_line("b", "two")));
    log_in(&auth, "a:1").await.unwrap();
}

#[tokio::test]
async fn users_without_a_project_have_projects_of_their_own() {
    let text: String = ["a", "b", "c"]
        .map(|user| password_line(user, user, bcrypt::Version::TwoB))
        .concat();
    let password_file = password_file(&text);
    let mut config = config(&password_file.path);
    let listed_user = HttpBasicUser {
        roles: vec!["member".to_owned()],
        project_id: None,
    };
    config.users.insert("a".to_owned(), listed_user.clone());
    config.users.insert("b".to_owned(), listed_user);
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
    let restarted = authenticator(config).unwrap();
    assert_eq!(project(&restarted, "a:a").await, projects[0]);
}

#[test]
fn invalid_files_and_options_are_errors() {
    let missing_option = authenticator(HttpBasicConfig::default())
        .unwrap_err()
        .to_string();
    assert_eq!(missing_option, "http_basic needs the option user_file");
    let missing_file = authenticator(config(Path::new("/nonexistent/htpasswd"))).unwrap_err();
    assert_eq!(
        missing_file.to_string(),
        "cannot read /nonexistent/htpasswd"
    );
    let valid_line = password_line("a", "1", bcrypt::Version::TwoB);
    let costly = format!("b:$2b$31${:.<53}", "");
    for (invalid_line, reason) in [
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
        (valid_line.trim(), "the user is there twice"),
    ] {
        let password_file = password_file(&format!("{valid_line}{invalid_line}\n"));
        let error = authenticator(config(&password_file.path))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("htpasswd, line 2: ") && error.contains(reason),
            "{error}"
        );
        assert!(
            !error.contains("$2b$") && !error.contains("secret"),
            "{error}"
        );
    }
    let password_file = password_file(&valid_line);
    let realm = HttpBasicConfig {
        realm: "a\"b".to_owned(),
        ..config(&password_file.path)
    };
    assert!(
        authenticator(realm)
            .unwrap_err()
            .to_string()
            .starts_with("realm: ")
    );
}
