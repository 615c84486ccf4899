//! What the scheduler API says of itself, claims as resources, and brief alternates.

use crate::fleet;

use fleet::{Fleet, destinations_body, instance};
use placewright_api_testing::get;
use serde_json::json;

#[tokio::test]
async fn everybody_may_read_the_versions_and_keep_them() {
    let fleet = Fleet::with_hosts(1).await;
    for path in ["/", "/v1", "/v1/"] {
        let unauthenticated = get(path).header("x-auth-token", "");
        let document = unauthenticated.send_to_scheduler(&fleet.scheduler).await;
        assert_eq!(document.status, 200, "{}", document.text);
        let json = document.json();
        let version = json
            .pointer("/versions/0/id")
            .or_else(|| json.pointer("/version/id"));
        assert_eq!(version, Some(&json!("v1")));
        assert_eq!(json["capabilities"]["limits"]["instances"], 1000);
        assert_eq!(document.header("cache-control"), "private, max-age=300");
        let tag = document.header("etag").to_owned();
        let again = get(path).header("if-none-match", &tag);
        let again = again.send_to_scheduler(&fleet.scheduler).await;
        assert_eq!((again.status, &*again.text), (304, ""));
        let other = get(path).header("if-none-match", "\"0\"");
        let other = other.send_to_scheduler(&fleet.scheduler).await;
        assert_eq!((other.status, other.text), (200, document.text));
    }
    let refused = fleet.post("/", &json!({})).await;
    assert_eq!((refused.status, refused.header("allow")), (405, "GET"));
}

#[tokio::test]
async fn a_claim_is_replaced_with_put() {
    let fleet = Fleet::with_hosts(7).await;
    let mut body = destinations_body(2, &[1]);
    body["alternates"] = json!(1);
    let claimed = fleet.select(&body).await.json();
    let alternate = &claimed["selections"][0]["alternates"][0];
    let path = format!("/v1/claims/{}", instance(1));
    let candidate = json!({"candidate": alternate["candidate"]});
    let replaced = fleet.put(&path, &candidate).await;
    assert_eq!(replaced.status, 200, "{}", replaced.text);
    assert_eq!(
        fleet.allocated_providers(1).await,
        [alternate["provider"].as_str().unwrap()]
    );
    // A consumer without allocations has nothing that could be replaced.
    let nobody = format!("/v1/claims/{}", instance(9));
    assert_eq!(fleet.put(&nobody, &candidate).await.status, 404);
    let wrong = fleet.put(&path, &json!({"candidate": 1})).await;
    assert_eq!(
        (wrong.status, &wrong.json()["errors"][0]["field"]),
        (400, &json!("candidate"))
    );
}

#[tokio::test]
async fn brief_alternates_are_names_of_claims() {
    let fleet = Fleet::with_hosts(7).await;
    let mut body = destinations_body(2, &[1]);
    body["alternates"] = json!(2);
    body["brief"] = json!(true);
    let claimed = fleet.select(&body).await.json();
    let selection = &claimed["selections"][0];
    assert!(selection["selected"]["allocation_request"].is_object());
    let alternates = selection["alternates"].as_array().unwrap();
    assert_eq!(alternates.len(), 2);
    for alternate in alternates {
        assert!(alternate.get("allocation_request").is_none(), "{alternate}");
    }
    let path = format!("/v1/claims/{}", instance(1));
    let candidate = json!({"candidate": alternates[0]["candidate"]});
    assert_eq!(fleet.put(&path, &candidate).await.status, 200);
}
