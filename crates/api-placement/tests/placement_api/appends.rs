//! A request waits for the append of its own change, and for no other append.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use placewright_api_testing::{Answer, HOST, OTHER, call, create_host, service_on};
use placewright_engine::Options;
use placewright_http::HttpOptions;
use placewright_journal::{Faults, Faulty, MemoryJournal};

/// Polls a request once, and checks that it has to wait.
async fn poll_once(request: &mut Pin<&mut impl Future<Output = Answer>>) {
    tokio::select! {
        biased;
        answer = request => panic!("answered already: {}", answer.text),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test]
async fn setting_traits_does_not_wait_for_the_changes_of_others() {
    let faults = Faults::new();
    let journal = Faulty::new(MemoryJournal::new(), faults.clone());
    // The empty text stands for the default policies.
    let service = service_on(journal, HttpOptions::default(), Options::default(), "").await;
    create_host(&service, HOST).await;
    // From here on each append waits until the test lets it through.
    faults.hold();
    let appends_before = faults.appends();
    let path = format!("/resource_providers/{HOST}/traits");
    let body = r#"{"resource_provider_generation": 1, "traits": ["HW_CPU_X86_AVX"]}"#;
    let mut set_traits = std::pin::pin!(call("PUT", &path).json(body).send(&service));
    poll_once(&mut set_traits).await;
    faults.wait_for_appends(appends_before + 1);
    let body = format!(r#"{{"name": "other", "uuid": "{OTHER}"}}"#);
    let create = call("POST", "/resource_providers").json(body);
    let mut create = std::pin::pin!(create.send(&service));
    poll_once(&mut create).await;
    faults.let_through(1);
    faults.wait_for_appends(appends_before + 2);
    let answer = tokio::time::timeout(Duration::from_secs(60), &mut set_traits).await;
    let answer = answer.expect("an answer while the other's append is held");
    assert_eq!(answer.status, 200, "{}", answer.text);
    let expected = r#"{"traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": 2}"#;
    assert_eq!(answer.text, expected);
    faults.release();
    assert_eq!(create.await.status, 200);
}

#[tokio::test]
async fn a_change_too_large_for_the_store_is_refused_and_the_store_goes_on() {
    let options = Options {
        record_bytes_max: 16_384,
        ..Options::default()
    };
    let service = service_on(MemoryJournal::new(), HttpOptions::default(), options, "").await;
    create_host(&service, HOST).await;
    let path = format!("/resource_providers/{HOST}/aggregates");
    let aggregates: Vec<String> = (0..2_000)
        .map(|number| format!("\"00000000-0000-0000-0000-{number:012}\""))
        .collect();
    let body = |uuids: &[String]| {
        let uuids = uuids.join(",");
        format!(r#"{{"aggregates": [{uuids}], "resource_provider_generation": 1}}"#)
    };
    let answer = call("PUT", &path)
        .json(body(&aggregates))
        .send(&service)
        .await;
    assert_eq!(answer.status, 413, "{}", answer.text);
    let detail = answer.detail();
    assert!(
        detail.contains("store.record_bytes_max allows 16384"),
        "{detail}"
    );
    // The change was too large: nothing of it was applied, and the store still works.
    let answer = call("PUT", &path)
        .json(body(&aggregates[..2]))
        .send(&service)
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(call("GET", "/readyz").send(&service).await.status, 200);
}
