//! Servers that are created from images which control itself serves: which images a request may name, that an image
//! has to fit into the flavor, and that its properties decide about hosts. Also which networks a request may ask for
//! if control serves the Network API.

use crate::api;

use api::{Api, IMAGE};
use placewright_api_compute::ComputeOptions;
use placewright_conductor::super_conductor::{Command, Image, ImageContent, Visibility};
use placewright_placement::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

fn image(owner: &str) -> Image {
    Image {
        name: Some("debian".to_owned()),
        owner: owner.to_owned(),
        visibility: Visibility::Private,
        is_protected: false,
        is_hidden: false,
        container_format: Some("bare".to_owned()),
        disk_format: Some("raw".to_owned()),
        min_disk_gb: 0,
        min_ram_mb: 0,
        tags: [].into(),
        properties: [].into(),
        members: [].into(),
        content: Some(ImageContent {
            size: 7,
            md5: String::new(),
            sha512: String::new(),
        }),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
    }
}

async fn start() -> Api {
    let options = ComputeOptions {
        serves_images: true,
        serves_network_api: true,
        ..ComputeOptions::default()
    };
    // One cell with two hosts.
    let api = Api::start_with(1, 2, options).await;
    let flavor = json!({"flavor": {
        "id": "f", "name": "f", "vcpus": 1, "ram": 512, "disk": 2,
    }});
    api.send_in_version("2.96", "POST", "/flavors", flavor)
        .await
        .expect(200);
    api
}

async fn set(api: &Api, id: u128, image: Image) -> String {
    let id = Uuid::from_u128(id);
    let image = Some(Box::new(image));
    let command = Command::SetImage { id, image };
    api.site.conductor.submit(command).await.unwrap().unwrap();
    id.to_string()
}

/// Requests a server as the user and in the project of the token, which is `user:project` or `admin`.
async fn create(api: &Api, token: &str, image: &str, networks: Value) -> api::ApiResponse {
    let roles = if token == "admin" {
        "admin"
    } else {
        "member,reader"
    };
    let headers = [
        ("x-auth-token", token),
        ("x-roles", roles),
        ("openstack-api-version", "compute 2.96"),
        ("content-type", "application/json"),
    ];
    let server = json!({"server": {
        "name": "s", "flavorRef": "f", "imageRef": image, "networks": networks,
    }});
    api.send("POST", "/v2.1/servers", &headers, Some(server))
        .await
}

#[tokio::test]
async fn a_server_is_created_from_an_image_that_its_project_sees() {
    let api = start().await;
    let private = set(&api, 1, image("p1")).await;
    let public = Image {
        visibility: Visibility::Public,
        ..image("p1")
    };
    let public = set(&api, 2, public).await;
    for (token, image, status) in [
        ("u:p1", &private, 202),
        ("u:p2", &private, 400),
        ("admin", &private, 202),
        ("u:p2", &public, 202),
        ("u:p1", &IMAGE.to_owned(), 400),
    ] {
        let response = create(&api, token, image, json!("none")).await;
        assert_eq!(response.status, status, "{token} {image}: {response:?}");
        if status == 400 {
            let message = response.expect_error(400, "badRequest");
            assert!(
                message.starts_with("server.imageRef: there is no image"),
                "{message}"
            );
        }
    }
}

#[tokio::test]
async fn the_image_has_to_be_there_and_to_fit_into_the_flavor() {
    let api = start().await;
    let content = |size| ImageContent {
        size,
        ..image("p1").content.unwrap()
    };
    for (number, unfit, word) in [
        (
            1,
            Image {
                content: None,
                ..image("p1")
            },
            "queued",
        ),
        (
            2,
            Image {
                min_ram_mb: 513,
                ..image("p1")
            },
            "513 MiB of memory",
        ),
        (
            3,
            Image {
                min_disk_gb: 3,
                ..image("p1")
            },
            "3 GiB",
        ),
        (
            4,
            Image {
                content: Some(content((2 << 30) + 1)),
                ..image("p1")
            },
            "3 GiB",
        ),
        (
            5,
            Image {
                properties: [("hw_cpu_policy".into(), "lazy".into())].into(),
                ..image("p1")
            },
            "hw_cpu_policy",
        ),
    ] {
        let id = set(&api, number, unfit).await;
        let response = create(&api, "u:p1", &id, json!("none")).await;
        let message = response.expect_error(400, "badRequest");
        assert!(
            message.starts_with("server.imageRef: ") && message.contains(word),
            "{message}"
        );
    }
    let fits = Image {
        min_disk_gb: 2,
        min_ram_mb: 512,
        content: Some(content(2 << 30)),
        ..image("p1")
    };
    let id = set(&api, 6, fits).await;
    create(&api, "u:p1", &id, json!("none")).await.expect(202);
}

#[tokio::test]
async fn properties_of_the_image_decide_about_hosts() {
    let api = start().await;
    let traits = [("trait:HW_CPU_X86_AVX2".to_owned(), "required".to_owned())];
    let picky = Image {
        properties: traits.into(),
        ..image("p1")
    };
    let id = set(&api, 1, picky).await;
    let created = create(&api, "u:p1", &id, json!("none")).await.expect(202);
    let id = created["server"]["id"].as_str().unwrap();
    let server = api.wait_for_status(id, "ERROR").await;
    let message = server["fault"]["message"].as_str().unwrap();
    assert!(message.contains("HW_CPU_X86_AVX2"), "{message}");
}

#[tokio::test]
async fn where_there_are_no_networks_none_can_be_asked_for() {
    let api = start().await;
    let id = set(&api, 1, image("p1")).await;
    let network = json!([{"uuid": "70ace000-0000-4000-8000-000000000009"}]);
    let refused = create(&api, "u:p1", &id, network).await;
    let message = refused.expect_error(400, "badRequest");
    assert!(message.starts_with("server.networks: "), "{message}");
    let none_known = json!({"no-network": []});
    for (networks, addresses) in [
        (json!("none"), json!({})),
        (json!("auto"), none_known.clone()),
        (json!([]), none_known),
    ] {
        let created = create(&api, "u:p1", &id, networks).await.expect(202);
        let path = format!("/servers/{}", created["server"]["id"].as_str().unwrap());
        let server = api.get(&path).await.expect(200);
        assert_eq!(server["server"]["addresses"], addresses);
        let ips = api.get(&format!("{path}/ips")).await.expect(200);
        assert_eq!(ips["addresses"], addresses);
    }
}
