//! Replays against a small simulated installation within the test.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use placewright_trace::{Node, Task};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use uuid::Uuid;

use super::api::Api;
use super::page::{Page, PageError};
use super::stop::Stop;
use super::{Replay, TIME_MAX};

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    replay: Replay,
}

/// A simulated installation of two hosts. Builds end with the second listing.
#[derive(Default)]
struct FakeInstallation {
    flavors: Vec<Value>,
    servers: BTreeMap<Uuid, Server>,
    /// The names of the deleted servers.
    deleted: Vec<String>,
    /// The number of create requests that will still get status 503.
    busy_responses: u32,
    /// The number of requests for usages that still succeed, before all others get status 500; `None` if all succeed.
    usage_responses: Option<u32>,
}

struct Server {
    name: String,
    /// The number of listings since the server was requested.
    listings: u32,
}

impl Server {
    /// The representation of the server. Its name determines how its build ends.
    fn view(&self, id: Uuid) -> Value {
        let (status, fault) = match &self.name {
            _ if self.listings < 2 => ("BUILD", Value::Null),
            name if name.starts_with("full") => (
                "ERROR",
                json!({"code": 500, "message": "No valid host was found.",
                       "details": if name == "full1" { "2 of 2 hosts lack 700 GPU\nand more" }
                                  else { "{\"hosts\": 2}" }}),
            ),
            name if name.starts_with("broken") => ("ERROR", Value::Null),
            name if name.starts_with("stuck") => ("BUILD", Value::Null),
            _ => ("ACTIVE", Value::Null),
        };
        let mut view = json!({"id": id, "name": self.name, "status": status, "tenant_id": "p"});
        if !fault.is_null() {
            view["fault"] = fault;
        }
        view
    }
}

impl FakeInstallation {
    fn respond(&mut self, method: &Method, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let path: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (method.as_str(), &*path) {
            ("GET", ["v2.1", "os-hypervisors", "detail"]) => {
                let host = |name| json!({"id": name, "hypervisor_hostname": name, "state": "up", "status": "enabled"});
                (200, json!({"hypervisors": [host("a"), host("b")]}))
            }
            ("GET", ["v2.1", "flavors", "detail"]) => (200, json!({"flavors": self.flavors})),
            ("POST", ["v2.1", "flavors"]) => {
                let mut flavor = body["flavor"].clone();
                flavor["id"] = json!(format!("f{}", self.flavors.len()));
                self.flavors.push(flavor.clone());
                (200, json!({"flavor": flavor}))
            }
            ("POST", ["v2.1", "flavors", id, "os-extra_specs"]) => {
                let mut flavors = self.flavors.iter_mut();
                let flavor = flavors.find(|flavor| flavor["id"] == *id).unwrap();
                flavor["extra_specs"] = body["extra_specs"].clone();
                (200, body.clone())
            }
            ("POST", ["v2.1", "servers"]) => self.create(&body["server"]),
            ("GET", ["v2.1", "servers"] | ["v2.1", "servers", "detail"]) => self.list(query),
            ("GET", ["v2.1", "servers", id]) => {
                let id = id.parse().unwrap();
                (200, json!({"server": self.servers[&id].view(id)}))
            }
            ("DELETE", ["v2.1", "servers", id]) => {
                let server = self.servers.remove(&id.parse().unwrap()).unwrap();
                self.deleted.push(server.name);
                (204, Value::Null)
            }
            ("GET", ["v2.1", "servers", _, "os-instance-actions"]) => (
                200,
                json!({"instanceActions": [{"action": "create", "request_id": "r"}]}),
            ),
            ("GET", ["v2.1", "servers", _, "os-instance-actions", "r"]) => {
                let build = json!({"event": "compute__do_build_and_run_instance"});
                let events = [build.clone(), build, json!({"event": "conductor_build"})];
                (200, json!({"instanceAction": {"events": events}}))
            }
            ("GET", ["usages"]) => self.usages(),
            other => (
                404,
                json!({"itemNotFound": {"message": format!("{other:?}")}}),
            ),
        }
    }

    fn create(&mut self, server: &Value) -> (u16, Value) {
        if self.busy_responses > 0 {
            self.busy_responses -= 1;
            return (503, json!({"serviceUnavailable": {"message": "later"}}));
        }
        let name = server["name"].as_str().unwrap().to_owned();
        if name.starts_with("quota") {
            return (
                403,
                json!({"forbidden": {"code": 403, "message": "Quota exceeded"}}),
            );
        }
        let id = Uuid::from_u128(self.servers.len() as u128 + 1 + self.deleted.len() as u128);
        self.servers.insert(id, Server { name, listings: 0 });
        (202, json!({"server": {"id": id}}))
    }

    fn usages(&mut self) -> (u16, Value) {
        if let Some(successes_left) = &mut self.usage_responses {
            let Some(remaining) = successes_left.checked_sub(1) else {
                return (500, json!({"errors": [{"detail": "broken"}]}));
            };
            *successes_left = remaining;
        }
        let amounts = json!({"consumer_count": 3, "CUSTOM_GPU_MILLI": 500, "MEMORY_MB": 10});
        let migrations = json!({"MEMORY_MB": 1});
        (
            200,
            json!({"usages": {"INSTANCE": amounts, "MIGRATION": migrations}}),
        )
    }

    /// Lists one server per page, so that links are followed.
    fn list(&mut self, query: &str) -> (u16, Value) {
        let parameters: BTreeMap<&str, &str> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        if !parameters.contains_key("marker") {
            self.servers
                .values_mut()
                .for_each(|server| server.listings += 1);
        }
        let marker = parameters
            .get("marker")
            .map(|id| id.parse::<Uuid>().unwrap());
        let all = self
            .servers
            .iter()
            .map(|(id, server)| (*id, server.view(*id)));
        let mut remaining = all.filter(|(id, view)| {
            view["status"] == parameters["status"] && marker.is_none_or(|marker| *id > marker)
        });
        let page: Vec<Value> = remaining.next().map(|(_, view)| view).into_iter().collect();
        let mut response = json!({"servers": page});
        if remaining.next().is_some() {
            response["servers_links"] = json!([{"rel": "next", "href": "…"}]);
        }
        (200, response)
    }
}

async fn serve(installation: Arc<Mutex<FakeInstallation>>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let installation = Arc::clone(&installation);
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let installation = Arc::clone(&installation);
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                    let query = parts.uri.query().unwrap_or_default();
                    let path = parts.uri.path();
                    let (status, body) =
                        installation
                            .lock()
                            .respond(&parts.method, path, query, &body);
                    let body = if body.is_null() {
                        String::new()
                    } else {
                        body.to_string()
                    };
                    let response = Response::builder().status(status);
                    Ok::<_, Infallible>(response.body(Full::new(Bytes::from(body))).unwrap())
                }
            });
            let builder = hyper::server::conn::http1::Builder::new();
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

const NODES: &str = "sn,cpu_milli,memory_mib,gpu,model\na,32000,1000,1,T4\nb,32000,1000,0,\n";

/// A task file with a row for each name.
fn tasks(names: &[&str]) -> String {
    let header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n";
    let rows = names.iter().enumerate();
    let rows = rows.map(|(index, name)| format!("{name},1000,100,1,500,{index},{}\n", index + 50));
    header.to_owned() + &rows.collect::<String>()
}

/// A replay that can be run.
struct Prepared {
    replay: Replay,
    nodes: Vec<Node>,
    tasks: Vec<Task>,
    output: PathBuf,
}

impl Prepared {
    async fn new(
        installation: &Arc<Mutex<FakeInstallation>>,
        (nodes, tasks): (&str, &str),
        flags: &[&str],
    ) -> Self {
        let folder = tempfile::tempdir().unwrap().keep();
        let file = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::write(&file, text).unwrap();
            file.display().to_string()
        };
        let (nodes_file, tasks_file) = (file("nodes.csv", nodes), file("tasks.csv", tasks));
        // The address contains a password, which the page must not show.
        let address = serve(Arc::clone(installation)).await;
        let url = format!("http://user:s3cret@{address}");
        let output = folder.join("out");
        let arguments = ["replay", "--nodes", &nodes_file, "--tasks", &tasks_file];
        let url_arguments = ["--url", &url, "--placement-url", &url, "--wait", "0"];
        let output_arguments = ["--out".to_owned(), output.display().to_string()];
        let arguments = arguments
            .into_iter()
            .chain(url_arguments)
            .chain(output_arguments.iter().map(String::as_str));
        let arguments = CommandLine::parse_from(arguments.chain(flags.iter().copied()));
        Self {
            replay: arguments.replay,
            nodes: placewright_trace::nodes::parse(Path::new("n"), nodes.as_bytes()).unwrap(),
            tasks: placewright_trace::tasks::parse(Path::new("t"), tasks.as_bytes()).unwrap(),
            output,
        }
    }

    async fn open_page(&self) -> anyhow::Result<Option<Page>> {
        self.replay.open_page(&self.nodes, &self.tasks).await
    }

    async fn run(&self, page: Option<&Page>) -> anyhow::Result<bool> {
        let stop = Stop::new();
        let replay = &self.replay;
        replay.replay(&self.nodes, &self.tasks, page, &stop).await
    }
}

/// Runs a replay; returns whether it succeeded, and its results.
async fn replay(
    installation: &Arc<Mutex<FakeInstallation>>,
    files: (&str, &str),
    flags: &[&str],
) -> (anyhow::Result<bool>, Value, PathBuf) {
    let prepared = Prepared::new(installation, files, flags).await;
    let result = prepared.run(None).await;
    let report = std::fs::read(prepared.output.join("report.json")).unwrap_or_default();
    let report = serde_json::from_slice(&report).unwrap_or(Value::Null);
    (result, report, prepared.output)
}

/// The present state of a replay, as the JSON text that its page gets.
async fn ask(page: &Page) -> String {
    let url = page.url();
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    let mut stream = TcpStream::connect(host).await.unwrap();
    let request =
        format!("GET /ui/api/replay HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

#[tokio::test]
async fn tasks_end_active_or_refused_with_a_reason() {
    let installation = Arc::new(Mutex::new(FakeInstallation {
        busy_responses: 2,
        ..FakeInstallation::default()
    }));
    let tasks = tasks(&["t1", "full1", "t2", "full2", "quota", "t3"]);
    let (result, report, output) = replay(&installation, (NODES, &tasks), &[]).await;
    assert!(result.unwrap());
    assert_eq!(
        (&report["placed"], &report["refused"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(
        report["refused_by_reason"],
        json!({
            "No valid host was found.": 1,
            "No valid host was found. N of N hosts lack N GPU": 1,
            "status N: Quota exceeded": 1,
        })
    );
    let gpu = &report["allocated"][0];
    assert_eq!(
        (&gpu["class"], &gpu["used"], &gpu["total"]),
        (&json!("CUSTOM_GPU_MILLI"), &json!(500), &json!(1000))
    );
    // Each of the five accepted servers has two builds in its history.
    assert_eq!(report["retries"], json!({"builds": 5, "servers": 5}));
    assert!(
        std::fs::read_to_string(output.join("fill.svg"))
            .unwrap()
            .contains("</svg>")
    );
    // The flavor is created once: the second run finds it.
    assert_eq!(installation.lock().flavors.len(), 1);
    let (second_result, ..) = replay(&installation, (NODES, &tasks), &["--clean-up"]).await;
    assert!(second_result.unwrap());
    assert_eq!(installation.lock().flavors.len(), 1);
    assert_eq!(installation.lock().deleted.len(), 5);
}

#[tokio::test]
async fn tasks_that_end_otherwise_fail_the_run_and_are_listed() {
    let installation = Arc::new(Mutex::new(FakeInstallation::default()));
    let tasks = tasks(&["t1", "broken", "stuck"]);
    let (result, report, _) = replay(&installation, (NODES, &tasks), &["--patience", "1"]).await;
    assert!(!result.unwrap());
    assert_eq!(report["unsettled"], json!(2));
}

#[tokio::test]
async fn with_a_speed_servers_are_deleted_at_their_times() {
    let installation = Arc::new(Mutex::new(FakeInstallation::default()));
    let tasks = tasks(&["t1", "full1", "t2"]);
    let (result, report, _) = replay(&installation, (NODES, &tasks), &["--speed", "200"]).await;
    assert!(result.unwrap());
    assert_eq!(report["deleted"], json!(3));
    assert!(installation.lock().servers.is_empty());
}

#[tokio::test]
async fn with_a_very_small_speed_servers_are_requested_late_and_not_at_once() {
    let installation = Arc::new(Mutex::new(FakeInstallation::default()));
    let flags = ["--speed", "1e-300"];
    let prepared = Prepared::new(&installation, (NODES, &tasks(&["t1", "t2"])), &flags).await;
    let api = Api::new(&prepared.replay.access, 1).unwrap();
    let plans = prepared.replay.plans(&api, &prepared.tasks).await.unwrap();
    let times = plans.iter().map(|plan| (plan.create_at, plan.delete_at));
    assert_eq!(
        times.collect::<Vec<_>>(),
        [(Duration::ZERO, Some(TIME_MAX)), (TIME_MAX, Some(TIME_MAX))]
    );
}

#[tokio::test]
async fn a_look_at_the_usages_that_fails_does_not_count_as_nothing_used() {
    let installation = Arc::new(Mutex::new(FakeInstallation {
        usage_responses: Some(1),
        ..FakeInstallation::default()
    }));
    let (result, report, _) = replay(&installation, (NODES, &tasks(&["t1"])), &[]).await;
    assert!(result.unwrap());
    // The amounts of the only look that succeeded.
    let gpu = &report["allocated"][0];
    assert_eq!(
        (&gpu["class"], &gpu["used"], &gpu["used_max"]),
        (&json!("CUSTOM_GPU_MILLI"), &json!(500), &json!(500))
    );
}

#[tokio::test]
async fn servers_are_deleted_although_the_results_cannot_be_written() {
    let installation = Arc::new(Mutex::new(FakeInstallation::default()));
    let tasks = tasks(&["t1", "t2"]);
    let prepared = Prepared::new(&installation, (NODES, &tasks), &["--clean-up"]).await;
    // The folder cannot be created, because a file has its name.
    std::fs::write(&prepared.output, "").unwrap();
    let error = prepared.run(None).await.unwrap_err();
    assert!(error.to_string().starts_with("the folder "), "{error}");
    assert!(installation.lock().servers.is_empty());
    assert_eq!(installation.lock().deleted.len(), 2);
}

#[tokio::test]
async fn an_installation_without_the_hosts_is_an_error_that_names_them() {
    let installation = Arc::new(Mutex::new(FakeInstallation::default()));
    let nodes = format!("{NODES}c,1,1,0,\n");
    let (result, ..) = replay(&installation, (&nodes, &tasks(&["t1"])), &[]).await;
    let error = result.unwrap_err().to_string();
    assert!(error.contains("1 of 3 hosts are not there: c"), "{error}");
    assert!(error.contains("placewright up --nodes"), "{error}");
    assert!(installation.lock().servers.is_empty() && installation.lock().flavors.is_empty());
}

#[tokio::test]
async fn the_page_has_the_progress_and_then_the_result_and_nothing_secret() {
    let installation = Arc::new(Mutex::new(FakeInstallation::default()));
    let tasks = tasks(&["t1", "full1", "t2", "full2", "quota", "broken"]);
    let (token, header) = (["--token", "s3cret"], ["--header", "X-More: s3cret"]);
    let flags = [["--page", "127.0.0.1:0"], token, header].concat();
    let prepared = Prepared::new(&installation, (NODES, &tasks), &flags).await;
    let page = prepared.open_page().await.unwrap().unwrap();
    let before: Value = serde_json::from_str(&ask(&page).await).unwrap();
    assert_eq!(before["state"], "waiting");
    assert_eq!(before["progress"], Value::Null);
    assert_eq!(
        before["trace"],
        json!({"nodes_file": "nodes.csv", "tasks_file": "tasks.csv", "hosts": 2, "tasks": 6,
               "speed": null, "deletes": false})
    );
    let mut texts = Vec::new();
    let watching = async {
        loop {
            let text = ask(&page).await;
            let view: Value = serde_json::from_str(&text).unwrap();
            texts.push(text);
            if view["state"] == "ended" {
                return view;
            }
        }
    };
    let (result, view) = tokio::join!(prepared.run(Some(&page)), watching);
    assert!(!result.unwrap(), "one task ended neither way");
    assert!(texts.iter().any(|text| text.contains("\"running\"")));
    assert!(texts.iter().all(|text| !text.contains("s3cret")));
    let progress = &view["progress"];
    assert_eq!(
        ["requested", "active", "refused", "lost", "building"].map(|name| &progress[name]),
        [&json!(6), &json!(2), &json!(3), &json!(1), &json!(0)]
    );
    let classes = view["classes"].as_array().unwrap();
    assert_eq!(
        classes[0],
        json!({"name": "CUSTOM_GPU_MILLI", "total": 1000})
    );
    let last = view["samples"].as_array().unwrap().last().unwrap();
    assert_eq!(last[1], json!([2, 3, 0, 0, 1]));
    assert_eq!(last[2].as_array().unwrap().len(), classes.len());
    assert_eq!(last[2][0], json!(500));
    let result = &view["result"];
    assert_eq!(
        ["placed", "refused", "unsettled", "other_reasons"].map(|name| &result[name]),
        [&json!(2), &json!(3), &json!(1), &json!(0)]
    );
    assert_eq!(result["reasons"].as_array().unwrap().len(), 3);
    assert_eq!(result["allocated"][0]["used"], json!(500));
    assert_eq!(result["is_stopped"], json!(false));
}

#[tokio::test]
async fn an_address_that_is_in_use_is_an_error_before_anything_is_asked_for() {
    let installation = Arc::new(Mutex::new(FakeInstallation::default()));
    let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = other.local_addr().unwrap().to_string();
    let tasks = tasks(&["t1"]);
    let prepared = Prepared::new(&installation, (NODES, &tasks), &["--page", &address]).await;
    let error = prepared.open_page().await.unwrap_err();
    assert!(error.is::<PageError>());
    let message = format!("--page {address}: cannot listen there");
    assert!(error.to_string().starts_with(&message), "{error}");
    assert!(installation.lock().flavors.is_empty());
}
