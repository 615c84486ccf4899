//! Quotas of projects: who may set and see them, and which requests they refuse.

use crate::api;

use std::collections::BTreeMap;

use api::{Api, ApiResponse};
use placewright_conductor::quota::{Limits, Resource};
use placewright_control::{LimitSource, UnifiedLimits};
use serde_json::{Value, json};

/// The project of the administrator, to which the requests of these tests belong.
const ADMIN_PROJECT: &str = "admin";

async fn set_quotas(api: &Api, quotas: Value) -> ApiResponse {
    let path = format!("/os-quota-sets/{ADMIN_PROJECT}");
    api.put(&path, json!({"quota_set": quotas})).await
}

/// Sends a request as a member of the project `other`.
async fn send_as_member(api: &Api, method: &str, path: &str, body: Value) -> ApiResponse {
    let headers = [
        ("x-auth-token", "bob:other"),
        ("x-roles", "member,reader"),
        ("openstack-api-version", "compute 2.96"),
        ("content-type", "application/json"),
    ];
    let body = (!body.is_null()).then_some(body);
    api.send(method, &format!("/v2.1{path}"), &headers, body)
        .await
}

/// The instances, cores and RAM that are in use.
async fn usage(api: &Api) -> Value {
    let path = format!("/os-quota-sets/{ADMIN_PROJECT}/detail");
    let set = api.get(&path).await.expect(200)["quota_set"].clone();
    json!([
        set["instances"]["in_use"],
        set["cores"]["in_use"],
        set["ram"]["in_use"]
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_are_set_shown_and_deleted() {
    // One cell with one host.
    let api = Api::start(1, 1).await;
    let path = format!("/os-quota-sets/{ADMIN_PROJECT}");
    let quotas = api.get(&path).await.expect(200)["quota_set"].clone();
    assert_eq!(
        quotas,
        json!({
            "id": ADMIN_PROJECT, "instances": -1, "cores": -1, "ram": -1, "key_pairs": -1,
            "server_groups": -1, "server_group_members": -1, "metadata_items": 128,
        })
    );
    let response = set_quotas(
        &api,
        json!({"instances": 10, "cores": "20", "class:CUSTOM_GPU": 2}),
    );
    let body = response.await.expect(200)["quota_set"].clone();
    assert!(body.get("id").is_none());
    assert_eq!(
        (&body["instances"], &body["cores"]),
        (&json!(10), &json!(20))
    );
    // Quotas that a request does not name stay unchanged.
    set_quotas(&api, json!({"ram": 512})).await.expect(200);
    let quotas = api.get(&path).await.expect(200)["quota_set"].clone();
    for (name, limit) in [
        ("instances", 10),
        ("cores", 20),
        ("ram", 512),
        ("class:CUSTOM_GPU", 2),
    ] {
        assert_eq!(quotas[name], limit, "{name}");
    }
    let limits = api.get("/limits").await.expect(200)["limits"]["absolute"].clone();
    assert_eq!(limits["maxTotalInstances"], 10);
    assert_eq!(limits["maxTotalRAMSize"], 512);
    let defaults = api.get(&format!("{path}/defaults")).await.expect(200);
    assert_eq!(defaults["quota_set"]["instances"], -1);
    // Old versions have more quotas, which are constant.
    let in_old_version = api
        .send_in_version("2.35", "GET", &path, Value::Null)
        .await
        .expect(200);
    assert_eq!(in_old_version["quota_set"]["fixed_ips"], -1);
    assert_eq!(in_old_version["quota_set"]["injected_files"], 0);
    assert_eq!(api.delete(&path).await.status, 202);
    let quotas = api.get(&path).await.expect(200)["quota_set"].clone();
    assert_eq!(quotas["instances"], -1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_class_applies_to_projects_without_quotas_of_their_own() {
    let api = Api::start(1, 1).await;
    let path = "/os-quota-class-sets/default";
    let body = json!({"quota_class_set": {"instances": 5, "server_groups": 6}});
    let response = api.put(path, body.clone()).await.expect(200)["quota_class_set"].clone();
    assert_eq!(
        (&response["instances"], response.get("id")),
        (&json!(5), None)
    );
    let quotas = api.get(path).await.expect(200)["quota_class_set"].clone();
    assert_eq!(
        (&quotas["id"], &quotas["server_groups"]),
        (&json!("default"), &json!(6))
    );
    let in_old_version = api
        .send_in_version("2.49", "GET", path, Value::Null)
        .await
        .expect(200);
    assert!(
        in_old_version["quota_class_set"]
            .get("server_groups")
            .is_none()
    );
    assert_eq!(in_old_version["quota_class_set"]["instances"], 5);
    let quotas = api.get("/os-quota-sets/some").await.expect(200);
    assert_eq!(quotas["quota_set"]["instances"], 5);
    api.put(
        "/os-quota-sets/some",
        json!({"quota_set": {"instances": -1}}),
    )
    .await
    .expect(200);
    let quotas = api.get("/os-quota-sets/some").await.expect(200);
    assert_eq!(quotas["quota_set"]["instances"], -1);
    let response = api.put("/os-quota-class-sets/gold", body).await;
    response.expect_error(400, "badRequest");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_see_their_own_quotas_and_set_none() {
    let api = Api::start(1, 1).await;
    let get_as_member = |path: &'static str| send_as_member(&api, "GET", path, Value::Null);
    get_as_member("/os-quota-sets/other").await.expect(200);
    get_as_member("/os-quota-sets/other/detail")
        .await
        .expect(200);
    get_as_member("/os-quota-sets/other/defaults")
        .await
        .expect(200);
    get_as_member("/limits").await.expect(200);
    for path in [
        "/os-quota-sets/admin",
        "/os-quota-sets/admin/detail",
        "/os-quota-class-sets/default",
        "/limits?tenant_id=admin",
    ] {
        get_as_member(path).await.expect_error(403, "forbidden");
    }
    let body = json!({"quota_set": {"instances": -1}});
    let response = send_as_member(&api, "PUT", "/os-quota-sets/other", body).await;
    response.expect_error(403, "forbidden");
    let response = send_as_member(&api, "DELETE", "/os-quota-sets/other", Value::Null).await;
    response.expect_error(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_quotas_are_refused_by_their_field() {
    let api = Api::start(1, 2).await;
    // The flavor `1`, with two CPUs.
    api.create_flavor("1", 2).await;
    for (quotas, expected) in [
        (
            json!({"instances": -2}),
            "quota_set.instances: it must be a whole number",
        ),
        (
            json!({"cores": 2_147_483_648_i64}),
            "quota_set.cores: it must be a whole number",
        ),
        (
            json!({"cores": null}),
            "quota_set.cores: it must be a whole number",
        ),
        (
            json!({"cpus": 1}),
            "quota_set.cpus: there is no such field here",
        ),
        (
            json!({"class:gpu": 1}),
            "quota_set.class:gpu: there is no such field here",
        ),
        (
            json!({"metadata_items": 5}),
            "quota_set.metadata_items: there is no such quota",
        ),
        (
            json!({"fixed_ips": -1}),
            "quota_set.fixed_ips: there is no such quota",
        ),
        (json!({"force": "perhaps"}), "quota_set.force: "),
    ] {
        let response = set_quotas(&api, quotas).await;
        let message = response.expect_error(400, "badRequest");
        assert!(message.starts_with(expected), "{message}");
    }
    set_quotas(&api, json!({"metadata_items": 128}))
        .await
        .expect(200);
    let body = json!({"quota_set": {"instances": 1}});
    let response = api.put("/os-quota-sets/admin?user_id=u", body).await;
    response.expect_error(400, "badRequest");
    api.create_active_server("a", json!({"max_count": 1})).await;
    let response = set_quotas(&api, json!({"cores": 1})).await;
    assert_eq!(
        response.expect_error(400, "badRequest"),
        "Quota limit 1 for cores must be greater than or equal to already used and reserved 2."
    );
    set_quotas(&api, json!({"cores": 1, "force": true}))
        .await
        .expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_exceeds_a_quota_is_refused_with_all_its_servers() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 2).await;
    set_quotas(&api, json!({"instances": 3, "cores": 5}))
        .await
        .expect(200);
    let id = api.create_active_server("a", json!({})).await;
    let response = api.create_server("b", json!({"min_count": 3})).await;
    assert_eq!(
        response.expect_error(403, "forbidden"),
        "Quota exceeded for instances, cores: Requested 3, 6, but already used 1, 2 of 3, 5 \
         instances, cores"
    );
    assert_eq!(usage(&api).await, json!([1, 2, 512]));
    let limits = api.get("/limits?reserved=1").await.expect(200)["limits"]["absolute"].clone();
    assert_eq!(limits["totalInstancesUsed"], 1);
    assert_eq!(limits["totalCoresUsed"], 2);
    assert_eq!(limits["totalRAMUsed"], 512);
    let other = api.create_active_server("c", json!({})).await;
    api.create_server("d", json!({}))
        .await
        .expect_error(403, "forbidden");
    // A server counts until its deletion is complete.
    api.delete(&format!("/servers/{other}")).await;
    api.wait_until_deleted(&other).await;
    api.create_active_server("e", json!({})).await;
    // A shelved server still counts.
    api.run_action(&id, json!({"shelve": null}))
        .await
        .expect(202);
    api.wait_for_status(&id, "SHELVED_OFFLOADED").await;
    assert_eq!(usage(&api).await, json!([2, 4, 1024]));
    api.create_server("f", json!({}))
        .await
        .expect_error(403, "forbidden");
    api.run_action(&id, json!({"unshelve": null}))
        .await
        .expect(202);
    api.wait_for_status(&id, "ACTIVE").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resize_counts_for_the_larger_flavor() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    api.create_flavor("3", 3).await;
    api.create_flavor("4", 4).await;
    set_quotas(&api, json!({"class:VCPU": 3})).await.expect(200);
    let id = api.create_active_server("a", json!({})).await;
    let resize = |flavor: &str| api.run_action(&id, json!({"resize": {"flavorRef": flavor}}));
    let response = resize("4").await;
    assert_eq!(
        response.expect_error(403, "forbidden"),
        "Quota exceeded for class:VCPU: Requested 3, but already used 1 of 3 class:VCPU"
    );
    resize("3").await.expect(202);
    api.wait_for_status(&id, "VERIFY_RESIZE").await;
    assert_eq!(usage(&api).await[1], 3);
    api.create_server("b", json!({}))
        .await
        .expect_error(403, "forbidden");
    api.run_action(&id, json!({"revertResize": null}))
        .await
        .expect(202);
    api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(usage(&api).await[1], 1);
    resize("3").await.expect(202);
    api.wait_for_status(&id, "VERIFY_RESIZE").await;
    api.run_action(&id, json!({"confirmResize": null}))
        .await
        .expect(204);
    api.wait_for_status(&id, "ACTIVE").await;
    resize("1").await.expect(202);
    api.wait_for_status(&id, "VERIFY_RESIZE").await;
    assert_eq!(usage(&api).await[1], 3);
    api.run_action(&id, json!({"confirmResize": null}))
        .await
        .expect(204);
    api.wait_for_status(&id, "ACTIVE").await;
    assert_eq!(usage(&api).await[1], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_members_and_key_pairs_have_quotas() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 1).await;
    let quotas = json!({"server_groups": 1, "server_group_members": 1, "key_pairs": 1});
    set_quotas(&api, quotas).await.expect(200);
    let group = json!({"server_group": {"name": "g", "policy": "soft-affinity"}});
    let created = api
        .post("/os-server-groups", group.clone())
        .await
        .expect(200);
    let response = api.post("/os-server-groups", group).await;
    let expected =
        "Quota exceeded for server_groups: Requested 1, but already used 1 of 1 server_groups";
    assert_eq!(response.expect_error(403, "forbidden"), expected);
    let hints = json!({"os:scheduler_hints": {"group": created["server_group"]["id"]}});
    api.create_active_server("a", hints.clone()).await;
    let response = api.create_server("b", hints).await;
    let message = response.expect_error(403, "forbidden");
    assert!(
        message.starts_with("Quota exceeded for server_group_members: "),
        "{message}"
    );
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl";
    let import = |name: &str| {
        let body = json!({"keypair": {"name": name, "public_key": key}});
        api.post("/os-keypairs", body)
    };
    import("k").await.expect(201);
    let response = import("l").await;
    let message = response.expect_error(403, "forbidden");
    assert!(
        message.starts_with("Quota exceeded for key_pairs: "),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unified_limits_are_those_of_keystone() {
    let api = Api::start(1, 2).await;
    api.create_flavor("1", 2).await;
    let control = &api.site.conductor;
    control
        .configure_quotas(Limits::new(), LimitSource::Keystone)
        .await
        .unwrap();
    // No limit was read from Keystone yet.
    api.create_server("a", json!({}))
        .await
        .expect_error(403, "forbidden");
    let vcpu = Resource::Class("VCPU".into());
    let limits = UnifiedLimits {
        registered: Limits::from([(Resource::Instances, 9), (vcpu.clone(), 1)]),
        projects: BTreeMap::from([(ADMIN_PROJECT.to_owned(), Limits::from([(vcpu, 3)]))]),
    };
    control.set_unified_limits(limits).await.unwrap();
    let quotas = api.get("/os-quota-sets/admin").await.expect(200)["quota_set"].clone();
    assert_eq!(
        (&quotas["instances"], &quotas["cores"]),
        (&json!(9), &json!(3))
    );
    assert_eq!(quotas["class:VCPU"], 3);
    let defaults = api.get("/os-quota-sets/admin/defaults").await.expect(200);
    assert_eq!(defaults["quota_set"]["cores"], 1);
    let response = set_quotas(&api, json!({"cores": 5})).await;
    assert!(
        response
            .expect_error(400, "badRequest")
            .contains("compute.quota_driver is unified")
    );
    api.create_active_server("a", json!({})).await;
    let response = api.create_server("b", json!({})).await;
    let message = response.expect_error(403, "forbidden");
    assert!(
        message.starts_with("Quota exceeded for class:VCPU: "),
        "{message}"
    );
    assert_eq!(usage(&api).await, json!([1, 2, 512]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_that_race_never_exceed_a_quota() {
    let api = std::sync::Arc::new(Api::start(1, 4).await);
    api.create_flavor("1", 1).await;
    set_quotas(&api, json!({"instances": 10, "cores": 10}))
        .await
        .expect(200);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..64 {
        let api = std::sync::Arc::clone(&api);
        tasks.spawn(async move {
            let response = api.create_server(&format!("s{number}"), json!({})).await;
            assert!([202, 403].contains(&response.status), "{response:?}");
            u64::from(response.status == 202)
        });
    }
    let accepted: u64 = tasks.join_all().await.into_iter().sum();
    assert_eq!(accepted, 10);
    assert_eq!(usage(&api).await, json!([10, 10, 5120]));
}
