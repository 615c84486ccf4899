//! The behaviour of each resource of the API, and the responses to refusals.

use placewright_api_testing::{CONSUMER, HOST, OTHER, call, claim, create_host, get, service};
use placewright_http::HttpOptions;

#[tokio::test]
async fn providers_are_created_and_found() {
    let service = service(HttpOptions::default()).await;
    create_host(&service, HOST).await;
    // A UUID may be given in braces.
    let body =
        format!(r#"{{"name": "part", "uuid": "{{{OTHER}}}", "parent_provider_uuid": "{HOST}"}}"#);
    let created = call("POST", "/resource_providers")
        .json(body)
        .header("host", "h:1");
    let created = created.send(&service).await;
    assert_eq!(created.status, 200, "{}", created.text);
    assert_eq!(
        created.header("location"),
        format!("http://h:1/resource_providers/{OTHER}")
    );
    assert_eq!(created.json()["root_provider_uuid"], HOST);
    let uuids = |answer: &placewright_api_testing::Answer| -> Vec<String> {
        let listed = answer.json()["resource_providers"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        listed
            .iter()
            .map(|provider| provider["uuid"].as_str().unwrap().to_owned())
            .collect()
    };
    for (query, expected) in [
        ("", vec![HOST, OTHER]),
        ("?name=part", vec![OTHER]),
        ("?name=", vec![HOST, OTHER]),
        (&format!("?in_tree={OTHER}"), vec![HOST, OTHER]),
        ("?resources=VCPU:8", vec![HOST]),
        ("?resources=VCPU:9", vec![]),
        ("?required=!HW_CPU_X86_AVX", vec![HOST, OTHER]),
    ] {
        let answer = get(&format!("/resource_providers{query}"))
            .send(&service)
            .await;
        assert_eq!(uuids(&answer), expected, "{query}");
    }
    for (query, detail) in [
        ("uuid=nope", "'nope' is not a 'uuid'"),
        (
            "resources=CUSTOM_X:1",
            "Invalid resource class in resources parameter",
        ),
        (
            "required=CUSTOM_X",
            "Invalid trait(s) in \"required\" parameter",
        ),
        (
            "color=blue",
            "Additional properties are not allowed ('color' was unexpected)",
        ),
        ("name=%ff", "codec can't decode byte 0xff"),
    ] {
        let answer = get(&format!("/resource_providers?{query}"))
            .send(&service)
            .await;
        assert_eq!(answer.status, 400);
        assert!(answer.detail().contains(detail), "{query}: {}", answer.text);
    }
}

#[tokio::test]
async fn providers_are_moved_and_deleted() {
    let service = service(HttpOptions::default()).await;
    create_host(&service, HOST).await;
    let body =
        format!(r#"{{"name": "part", "uuid": "{OTHER}", "parent_provider_uuid": "{HOST}"}}"#);
    assert_eq!(
        call("POST", "/resource_providers")
            .json(body)
            .send(&service)
            .await
            .status,
        200
    );
    let parent = format!("/resource_providers/{HOST}");
    let answer = call("DELETE", &parent).send(&service).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (409, "placement.resource_provider.cannot_delete_parent")
    );
    let child_path = format!("/resource_providers/{OTHER}");
    let orphan = r#"{"name": "part", "parent_provider_uuid": null}"#;
    let old_version = call("PUT", &child_path)
        .json(orphan)
        .version("placement 1.36")
        .send(&service)
        .await;
    assert!(
        old_version
            .detail()
            .contains("un-parenting a provider is not currently allowed"),
        "{}",
        old_version.text
    );
    // An update that changes nothing leaves the provider without the time of an update.
    let same = format!(r#"{{"name": "part", "parent_provider_uuid": "{HOST}"}}"#);
    assert_eq!(
        call("PUT", &child_path)
            .json(same)
            .send(&service)
            .await
            .status,
        200
    );
    let moved = call("PUT", &child_path).json(orphan).send(&service).await;
    assert_eq!(moved.json()["root_provider_uuid"], OTHER);
    // `Last-Modified` is the time of the previous update, and the provider has none.
    assert_eq!(
        (moved.header("last-modified"), moved.header("cache-control")),
        ("", "no-cache")
    );
    for path in [&parent, &child_path] {
        assert_eq!(call("DELETE", path).send(&service).await.status, 204);
        assert_eq!(get(path).send(&service).await.status, 404);
    }
}

/// The response to `PUT` repeats the numbers as they were sent; `GET` shows all in one form.
#[tokio::test]
async fn inventories_are_replaced_and_shown() {
    let service = service(HttpOptions::default()).await;
    create_host(&service, HOST).await;
    let path = format!("/resource_providers/{HOST}/inventories");
    let body = r#"{"resource_provider_generation": 1.0, "inventories": {
        "VCPU": {"total": 10.0, "allocation_ratio": 2}, "DISK_GB": {"total": 5}}}"#;
    let put = call("PUT", &path).json(body).send(&service).await;
    assert_eq!(put.status, 200, "{}", put.text);
    assert!(put.text.contains("\"total\": 10.0"), "{}", put.text);
    let shown = get(&path).send(&service).await.json();
    assert_eq!(shown["resource_provider_generation"], 2);
    assert_eq!(
        shown["inventories"]["VCPU"].to_string(),
        concat!(
            r#"{"total":10,"reserved":0,"min_unit":1,"max_unit":2147483647,"step_size":1,"#,
            r#""allocation_ratio":2.0}"#
        )
    );
    for (body, status, detail) in [
        (
            r#"{"resource_provider_generation": 1, "inventories": {}}"#,
            409,
            "generation conflict",
        ),
        (
            r#"{"resource_provider_generation": -1, "inventories": {}}"#,
            409,
            "generation conflict",
        ),
        (
            r#"{"resource_provider_generation": 2, "inventories": {"X": {"total": 1}}}"#,
            400,
            "Unknown resource class",
        ),
        (
            r#"{"resource_provider_generation": 7, "inventories": {"bad-rc": 5}}"#,
            409,
            "generation conflict",
        ),
        (
            r#"{"resource_provider_generation": 2, "inventories": {"bad-rc": 5}}"#,
            400,
            "5 is not of type 'object'",
        ),
        (
            r#"{"resource_provider_generation": 2, "inventories": {"VCPU": {"total": 1, "reserved": 2}}}"#,
            400,
            "greater than total",
        ),
    ] {
        let answer = call("PUT", &path).json(body).send(&service).await;
        assert_eq!(answer.status, status, "{body}");
        assert!(answer.detail().contains(detail), "{body}: {}", answer.text);
    }
    let inventory_path = format!("{path}/VCPU");
    let body = r#"{"resource_provider_generation": 2, "total": 4}"#;
    let put = call("PUT", &inventory_path).json(body).send(&service).await;
    assert_eq!(put.json()["resource_provider_generation"], 3);
    assert_eq!(
        call("DELETE", &inventory_path).send(&service).await.status,
        204
    );
    assert_eq!(get(&inventory_path).send(&service).await.status, 404);
    assert_eq!(call("DELETE", &path).send(&service).await.status, 204);
    let empty = get(&path).send(&service).await;
    assert_eq!(
        (empty.header("last-modified"), empty.header("cache-control")),
        ("", "no-cache")
    );
}

#[tokio::test]
async fn claims_are_atomic_and_check_the_consumers_generation() {
    let service = service(HttpOptions::default()).await;
    create_host(&service, HOST).await;
    let path = format!("/allocations/{CONSUMER}");
    let put = |body: String| call("PUT", &path).json(body);
    // The host has 8 VCPUs. The last argument of a claim is the consumer's generation; none for a new consumer.
    let answer = put(claim(HOST, 9, None)).send(&service).await;
    assert_eq!(answer.status, 409);
    assert!(
        answer
            .detail()
            .ends_with("The requested amount would exceed the capacity."),
        "{}",
        answer.text
    );
    let answer = put(claim(OTHER, 1, None)).send(&service).await;
    assert_eq!(answer.status, 400);
    assert_eq!(put(claim(HOST, 2, None)).send(&service).await.status, 204);
    let answer = put(claim(HOST, 2, None)).send(&service).await;
    assert_eq!(
        (answer.status, answer.code().as_str()),
        (409, "placement.concurrent_update")
    );
    assert!(
        answer.detail().ends_with("expected 1 but got None"),
        "{}",
        answer.text
    );
    // No provider has a UUID in capital letters. That is reported after the consumer's generation, because
    // Placement checks it later.
    let not_canonical = HOST.replace('1', "A");
    let answer = put(claim(&not_canonical, 1, Some(7))).send(&service).await;
    assert!(
        answer.detail().ends_with("expected 1 but got 7"),
        "{}",
        answer.text
    );
    let answer = put(claim(&not_canonical, 1, Some(1))).send(&service).await;
    assert!(
        answer
            .detail()
            .contains(&format!("'{not_canonical}' that does not exist")),
        "{}",
        answer.text
    );
    let shown = get(&path).send(&service).await.json();
    assert_eq!(shown["allocations"][HOST]["resources"]["VCPU"], 2);
    assert_eq!(
        (&shown["consumer_generation"], &shown["consumer_type"]),
        (&1.into(), &"INSTANCE".into())
    );
}

#[tokio::test]
async fn allocations_are_shown_replaced_and_deleted() {
    let service = service(HttpOptions::default()).await;
    create_host(&service, HOST).await;
    let path = format!("/allocations/{CONSUMER}");
    let put = |body: String| call("PUT", &path).json(body);
    assert_eq!(put(claim(HOST, 2, None)).send(&service).await.status, 204);
    let usage = get("/usages?project_id=p").send(&service).await.json();
    assert_eq!(
        usage["usages"]["INSTANCE"].to_string(),
        r#"{"VCPU":2,"consumer_count":1}"#
    );
    // The form before microversion 1.12 may name a provider twice; the last amount counts.
    let list = r#"{"allocations": [
        {"resource_provider": {"uuid": "11111111-1111-1111-1111-111111111111"}, "resources": {"VCPU": 3}},
        {"resource_provider": {"uuid": "11111111-1111-1111-1111-111111111111"}, "resources": {"VCPU": 4}}]}"#;
    assert_eq!(
        put(list.to_owned())
            .version("placement 1.7")
            .send(&service)
            .await
            .status,
        204
    );
    let allocations = get(&format!("/resource_providers/{HOST}/allocations"))
        .send(&service)
        .await
        .json();
    assert_eq!(allocations["allocations"][CONSUMER]["resources"]["VCPU"], 4);
    let empty = format!(
        r#"{{"{CONSUMER}": {{"allocations": {{}}, "project_id": "p", "user_id": "u",
        "consumer_type": "X", "consumer_generation": 2}}}}"#
    );
    assert_eq!(
        call("POST", "/allocations")
            .json(empty)
            .send(&service)
            .await
            .status,
        204
    );
    assert_eq!(
        get(&path).send(&service).await.text,
        "{\"allocations\": {}}"
    );
    assert_eq!(call("DELETE", &path).send(&service).await.status, 404);
    assert_eq!(
        get("/allocations/anything").send(&service).await.text,
        "{\"allocations\": {}}"
    );
    assert_eq!(
        call("PUT", "/allocations/anything")
            .json("{}")
            .send(&service)
            .await
            .status,
        400
    );
}

#[tokio::test]
async fn candidates_have_the_form_of_each_version() {
    let service = service(HttpOptions::default()).await;
    create_host(&service, HOST).await;
    let request = |version| get("/allocation_candidates?resources=VCPU:2").version(version);
    let new_version = request("placement latest").send(&service).await;
    assert_eq!(
        new_version.text,
        format!(
            "{{\"allocation_requests\": [{{\"allocations\": {{\"{HOST}\": {{\"resources\": \
             {{\"VCPU\": 2}}}}}}, \"mappings\": {{\"\": [\"{HOST}\"]}}}}], \
             \"provider_summaries\": {{\"{HOST}\": {{\"resources\": {{\"VCPU\": {{\"capacity\": 8, \
             \"used\": 0}}}}, \"traits\": [], \"parent_provider_uuid\": null, \
             \"root_provider_uuid\": \"{HOST}\"}}}}}}"
        )
    );
    let old_version = request("placement 1.10").send(&service).await.json();
    let allocation = &old_version["allocation_requests"][0]["allocations"][0];
    assert_eq!(allocation["resource_provider"]["uuid"], HOST);
    assert!(
        old_version["provider_summaries"][HOST]
            .get("traits")
            .is_none()
    );
    for (query, expected_detail) in [
        ("", "There must be at least one resources"),
        ("resources=VCPU", "Badly formed resources"),
        (
            "resources=VCPU:1&limit=0",
            "'0' does not match '^[1-9][0-9]*$'",
        ),
        ("resources=VCPU:1&limit=abc&limit=5", "positive integer"),
        (
            "resources=CUSTOM_NOPE:1",
            "No such resource class CUSTOM_NOPE.",
        ),
        (
            "resources=VCPU:1&required=CUSTOM_NOPE",
            "No such trait(s): CUSTOM_NOPE.",
        ),
        (
            "resources=VCPU:1&required=A,!A",
            "Conflicting required and forbidden traits",
        ),
        (
            "resources1=VCPU:1&resources2=VCPU:1",
            "\"group_policy\" parameter is required",
        ),
        (
            "resources=VCPU:1&root_required=A&root_required=B",
            "only once",
        ),
        ("resources=VCPU:1&same_subtree=_A", "not found in ['']"),
        ("resources=VCPU:1&required_A=B", "bad group(s) - ['_A']"),
        ("resources=VCPU:1&in_tree=x", "to be a format of uuid"),
    ] {
        let answer = get(&format!("/allocation_candidates?{query}"))
            .send(&service)
            .await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(
            answer.detail().contains(expected_detail),
            "{query}: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn names_of_created_classes_and_traits_are_custom_and_have_no_newline() {
    let service = service(HttpOptions::default()).await;
    let put = |path| call("PUT", path);
    for (path, status) in [
        ("/traits/CUSTOM_X", 201),
        ("/traits/CUSTOM_X", 204),
        ("/traits/CUSTOM_X%0A%0A", 400),
        ("/traits/HW_X", 400),
        ("/resource_classes/CUSTOM_X", 201),
        ("/resource_classes/CUSTOM_X", 204),
        ("/resource_classes/VCPU", 400),
        // The reference inserts the name into the text of a JSON object, so here the body ends up with two names, of
        // which the second counts.
        ("/resource_classes/X%22,%22name%22:%22CUSTOM_Q", 201),
    ] {
        let answer = put(path).send(&service).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
    let create = |name: &str| {
        let body = format!("{{\"name\": \"{name}\"}}");
        call("POST", "/resource_classes").json(body)
    };
    assert_eq!(create("CUSTOM_NEW\\n").send(&service).await.status, 400);
    assert_eq!(create("CUSTOM_NEW").send(&service).await.status, 201);
    assert_eq!(create("CUSTOM_NEW").send(&service).await.status, 409);
    let rename = put("/resource_classes/CUSTOM_NEW").version("placement 1.6");
    let answer = rename
        .json("{\"name\": \"CUSTOM_NEWER\"}")
        .send(&service)
        .await;
    assert_eq!(
        answer.json()["links"][0]["href"],
        "/resource_classes/CUSTOM_NEWER"
    );
    for path in ["/resource_classes/CUSTOM_NEWER", "/traits/CUSTOM_X"] {
        assert_eq!(call("DELETE", path).send(&service).await.status, 204);
        assert_eq!(call("DELETE", path).send(&service).await.status, 404);
    }
    for path in ["/resource_classes/VCPU", "/traits/HW_CPU_X86_AVX"] {
        assert_eq!(call("DELETE", path).send(&service).await.status, 400);
    }
    // Seven standard traits begin like this.
    let listed = get("/traits?name=startswith:HW_CPU_X86_AVX512V")
        .send(&service)
        .await
        .json();
    assert_eq!(
        listed["traits"].as_array().map(Vec::len),
        Some(7),
        "{listed}"
    );
    assert_eq!(get("/traits?name=x").send(&service).await.status, 400);
    assert_eq!(
        get("/traits?associated=maybe").send(&service).await.status,
        400
    );
}

#[tokio::test]
async fn a_reshape_moves_inventories_and_their_allocations() {
    let service = service(HttpOptions::default()).await;
    create_host(&service, HOST).await;
    let child =
        format!(r#"{{"name": "numa", "uuid": "{OTHER}", "parent_provider_uuid": "{HOST}"}}"#);
    assert_eq!(
        call("POST", "/resource_providers")
            .json(child)
            .send(&service)
            .await
            .status,
        200
    );
    let path = format!("/allocations/{CONSUMER}");
    assert_eq!(
        call("PUT", &path)
            .json(claim(HOST, 2, None))
            .send(&service)
            .await
            .status,
        204
    );
    let reshape = |generation: i64| {
        let body = format!(
            r#"{{"inventories": {{
                "{HOST}": {{"resource_provider_generation": {generation}, "inventories": {{}}}},
                "{OTHER}": {{"resource_provider_generation": 0, "inventories": {{"VCPU": {{"total": 8}}}}}}}},
              "allocations": {{"{CONSUMER}": {}}}}}"#,
            claim(OTHER, 2, Some(1))
        );
        call("POST", "/reshaper")
            .header("x-roles", "service")
            .json(body)
    };
    let answer = call("POST", "/reshaper").json("{}").send(&service).await;
    assert_eq!(answer.status, 403, "the role admin is not sufficient");
    let answer = reshape(-3).send(&service).await;
    assert!(
        answer.detail().ends_with("actual: 2, given: -3"),
        "{}",
        answer.text
    );
    assert_eq!(reshape(2).send(&service).await.status, 204);
    let allocations = get(&path).send(&service).await.json();
    assert_eq!(allocations["allocations"][OTHER]["resources"]["VCPU"], 2);
    assert!(allocations["allocations"].get(HOST).is_none());
}
