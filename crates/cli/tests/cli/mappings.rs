//! What a driver is told of the providers that serve the request groups of a server: an installation of `placewright
//! up`, and an agent whose hosts have two devices each.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::common::{free_address, placewright};
use serde_json::{Value, json};

const IMAGE: &str = "70ace000-0000-4000-8000-000000000001";
const HOSTS: usize = 3;

/// Every executable keeps what it reads. If there is a file `failing`, the next `spawn` removes it and fails.
const KEEP: &str = r#"name="$PLACEWRIGHT_STATE_DIR/$PLACEWRIGHT_VERB.$PLACEWRIGHT_HOST.$PLACEWRIGHT_INSTANCE"
cat > "$name.part" && mv "$name.part" "$name"
if [ "$PLACEWRIGHT_VERB" = spawn ] && rm "$PLACEWRIGHT_STATE_DIR/failing" 2>/dev/null; then
    echo "the device does not answer" >&2
    exit 1
fi"#;

fn write_command(directory: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = directory.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What `inspect` writes: hosts with two devices each, of which the second has a trait.
fn hosts() -> Value {
    let device = |host: usize, device: usize| {
        json!({
            "name": format!("node-{host}_gpu_{device}"),
            "inventories": {"CUSTOM_GPU": {"total": 1}},
            "traits": {"CUSTOM_FAST": device == 1},
        })
    };
    let host = |host| {
        json!({
            "name": format!("node-{host}"),
            "inventories": {
                "VCPU": {"total": 8}, "MEMORY_MB": {"total": 8192}, "DISK_GB": {"total": 100},
            },
            "traits": {"COMPUTE_ACCELERATORS": true},
            "providers": [device(host, 0), device(host, 1)],
        })
    };
    json!({"hosts": (0..HOSTS).map(host).collect::<Vec<_>>()})
}

/// A process that is killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Installation {
    _processes: [Process; 2],
    placement: SocketAddr,
    compute: SocketAddr,
    /// The folder in which the executables keep what they read.
    kept: PathBuf,
}

impl Installation {
    fn start(folder: &Path, flags: &[&str]) -> Self {
        // Two processes that start at once could choose the same free port for their cells.
        static STARTING: Mutex<()> = Mutex::new(());
        let _one_at_a_time = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let (placement, compute) = (free_address(), free_address());
        let state = folder.join("state");
        let mut up = placewright(&[
            "up",
            "--config",
            "/dev/null",
            "--cells",
            "1",
            "--hosts",
            "0",
        ])
        .args(["--auth-strategy", "noauth2", "--folder"])
        .arg(&state)
        .args(["--placement-listen", &placement.to_string()])
        .args(["--compute-listen", &compute.to_string()])
        .args(
            ["scheduler", "image", "network", "ui", "control", "health"].map(|name| {
                let address = free_address();
                format!("--{name}-listen={address}")
            }),
        )
        .args(flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
        let output = BufReader::new(up.stdout.take().unwrap());
        let up = Process(up);
        let cell = output.lines().find_map(|line| {
            let words = line.unwrap();
            let words: Vec<&str> = words.split_whitespace().collect();
            (words.first() == Some(&"cell")).then(|| words[2].to_owned())
        });

        let kept = folder.join("agent");
        let agent = start_agent(folder, placement, &cell.unwrap());
        let installation = Self {
            _processes: [up, agent],
            placement,
            compute,
            kept,
        };
        wait_for("the hosts", || {
            let hypervisors = installation.compute("GET /os-hypervisors", None);
            hypervisors["hypervisors"].as_array()?.get(HOSTS - 1)?;
            // A host may be known before its devices are.
            let query = "resources=VCPU:1&resources1=CUSTOM_GPU:1&required1=CUSTOM_FAST\
                         &resources2=CUSTOM_GPU:1&group_policy=isolate";
            let head = format!("GET /allocation_candidates?{query}");
            let found = try_ask(placement, &head, "placement 1.39", None).ok()?;
            found["allocation_requests"].as_array()?.get(HOSTS - 1)?;
            Some(())
        });
        installation
    }

    fn compute(&self, head: &str, body: Option<Value>) -> Value {
        let (method, path) = head.split_once(' ').unwrap();
        let head = format!("{method} /v2.1{path}");
        ask(self.compute, &head, "compute 2.37", body)
    }

    /// Creates a flavor with these extra specs; returns its id.
    fn flavor(&self, name: &str, extra_specs: Value) -> String {
        let body = json!({"flavor": {"name": name, "vcpus": 1, "ram": 256, "disk": 1}});
        let flavor = self.compute("POST /flavors", Some(body));
        let id = flavor["flavor"]["id"].as_str().unwrap().to_owned();
        let body = json!({"extra_specs": extra_specs});
        self.compute(&format!("POST /flavors/{id}/os-extra_specs"), Some(body));
        id
    }

    /// Creates a server and waits until it is active; returns its id.
    fn server(&self, flavor: &str) -> String {
        self.server_with_networks(flavor, json!("none"))
    }

    fn server_with_networks(&self, flavor: &str, networks: Value) -> String {
        let body = json!({"server": {
            "name": "s", "flavorRef": flavor, "imageRef": IMAGE, "networks": networks,
        }});
        let server = self.compute("POST /servers", Some(body));
        let id = server["server"]["id"].as_str().unwrap().to_owned();
        self.wait_for_status(&id, "ACTIVE");
        id
    }

    /// Does an action with a server, and waits until the server has this status.
    fn act(&self, server: &str, action: Value, status: &str) {
        self.compute(&format!("POST /servers/{server}/action"), Some(action));
        self.wait_for_status(server, status);
    }

    fn wait_for_status(&self, server: &str, status: &str) {
        wait_for(status, || {
            let shown = self.compute(&format!("GET /servers/{server}"), None);
            let server = &shown["server"];
            (server["status"] == status && server["OS-EXT-STS:task_state"].is_null()).then_some(())
        });
    }

    fn host_of(&self, server: &str) -> String {
        let shown = self.compute(&format!("GET /servers/{server}"), None);
        let host = &shown["server"]["OS-EXT-SRV-ATTR:hypervisor_hostname"];
        host.as_str().unwrap().to_owned()
    }

    /// The `mappings` that an executable read for a server on a host. The file in which they were kept is removed.
    fn told(&self, operation: &str, host: &str, server: &str) -> Value {
        let path = self.kept.join(format!("{operation}.{host}.{server}"));
        let read = wait_for(operation, || std::fs::read(&path).ok());
        std::fs::remove_file(&path).unwrap();
        let input: Value = serde_json::from_slice(&read).unwrap();
        input["order"]["mappings"].clone()
    }

    /// The devices of which a consumer has an allocation.
    fn devices_of(&self, consumer: &str) -> BTreeSet<String> {
        let path = format!("GET /allocations/{consumer}");
        let held = ask(self.placement, &path, "placement 1.39", None);
        let held = held["allocations"].as_object().unwrap().iter();
        held.filter(|(_, held)| !held["resources"]["CUSTOM_GPU"].is_null())
            .map(|(provider, _)| provider.clone())
            .collect()
    }

    /// Checks that a driver was told for each of the two groups the device that it gets on a host.
    fn assert_pair(&self, mappings: &Value, host: &str, devices: &BTreeSet<String>) {
        for (group, device) in [("_ANY", 0), ("_FAST", 1)] {
            let provider = &mappings[group][0];
            assert_eq!(
                provider["name"],
                format!("{host}_gpu_{device}"),
                "{mappings}"
            );
            assert_eq!(
                provider["resources"],
                json!({"CUSTOM_GPU": 1}),
                "{mappings}"
            );
            let uuid = provider["provider"].as_str().unwrap();
            assert!(devices.contains(uuid), "{mappings}, {devices:?}");
        }
        let rest = &mappings[""][0];
        assert_eq!(rest["name"], host, "{mappings}");
        let resources = json!({"VCPU": 1, "MEMORY_MB": 256, "DISK_GB": 1});
        assert_eq!(rest["resources"], resources, "{mappings}");
    }
}

/// Starts an agent whose executables keep what they read in the folder `agent`.
fn start_agent(folder: &Path, placement: SocketAddr, cell: &str) -> Process {
    let commands = folder.join("commands");
    std::fs::create_dir(&commands).unwrap();
    let inspect = format!("cat >/dev/null; echo '{}'", hosts());
    write_command(&commands, "inspect", &inspect);
    write_command(&commands, "list", r#"echo '{"guests": []}'"#);
    for name in ["prepare", "spawn", "leave", "return", "offload", "rebuild"] {
        write_command(&commands, name, KEEP);
    }
    write_command(&commands, "destroy", "cat >/dev/null");
    let agent = placewright(&[
        "agent",
        "--config",
        "/dev/null",
        "--agent-driver",
        "command",
    ])
    .args(["--agent-placement-url", &format!("http://{placement}")])
    .args(["--agent-cell", cell, "--agent-commands"])
    .arg(&commands)
    .arg("--agent-state-path")
    .arg(folder.join("agent"))
    .arg("--agent-identity-path")
    .arg(folder.join("state/identity/agent1"))
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    Process(agent)
}

fn ask(address: SocketAddr, head: &str, version: &str, body: Option<Value>) -> Value {
    try_ask(address, head, version, body).unwrap_or_else(|response| panic!("{head}: {response}"))
}

/// Sends a request. Returns the body of the response, or all of a response that is an error.
fn try_ask(
    address: SocketAddr,
    head: &str,
    version: &str,
    body: Option<Value>,
) -> Result<Value, String> {
    let body = body.map_or_else(String::new, |body| body.to_string());
    let length = body.len();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "{head} HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Auth-Token: admin\r\n\
         OpenStack-API-Version: {version}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    if !response.starts_with("HTTP/1.1 2") {
        return Err(response);
    }
    let (_, body) = response.split_once("\r\n\r\n").unwrap();
    Ok(serde_json::from_str(body).unwrap_or_default())
}

fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_driver_is_told_which_provider_serves_which_group_wherever_a_server_goes() {
    let directory = tempfile::tempdir().unwrap();
    let installation = Installation::start(directory.path(), &[]);
    let pair = installation.flavor(
        "pair",
        json!({
            "resources_ANY:CUSTOM_GPU": "1",
            "resources_FAST:CUSTOM_GPU": "1",
            "trait_FAST:CUSTOM_FAST": "required",
            "group_policy": "isolate",
        }),
    );
    let single = installation.flavor("single", json!({"resources_ANY:CUSTOM_GPU": "1"}));

    // The first build.
    let server = installation.server(&pair);
    let first = installation.host_of(&server);
    let devices = installation.devices_of(&server);
    assert_eq!(devices.len(), 2);
    for operation in ["prepare", "spawn"] {
        let told = installation.told(operation, &first, &server);
        installation.assert_pair(&told, &first, &devices);
    }

    // A build that fails on its first host goes to an alternate.
    std::fs::write(installation.kept.join("failing"), "").unwrap();
    let other = installation.server(&single);
    let host = installation.host_of(&other);
    let told = installation.told("spawn", &host, &other);
    let uuid = told["_ANY"][0]["provider"].as_str().unwrap().to_owned();
    assert_eq!(installation.devices_of(&other), BTreeSet::from([uuid]));
    let tried = (0..HOSTS).map(|number| format!("spawn.node-{number}.{other}"));
    let tried = tried.filter(|name| installation.kept.join(name).exists());
    assert_eq!(tried.count(), 1, "the host that failed");

    // A migration, and back: each side is told its own devices.
    installation.act(&server, json!({"migrate": null}), "VERIFY_RESIZE");
    let second = installation.host_of(&server);
    assert_ne!(second, first);
    let target_devices = installation.devices_of(&server);
    for operation in ["prepare", "spawn"] {
        let told = installation.told(operation, &second, &server);
        installation.assert_pair(&told, &second, &target_devices);
    }
    let told = installation.told("leave", &first, &server);
    installation.assert_pair(&told, &first, &devices);
    installation.act(&server, json!({"revertResize": null}), "ACTIVE");
    let told = installation.told("return", &first, &server);
    installation.assert_pair(&told, &first, &devices);
    assert_eq!(installation.devices_of(&server), devices);

    // A rebuild keeps them, also after a move that is confirmed.
    let rebuild = json!({"rebuild": {"imageRef": IMAGE}});
    installation.act(&server, rebuild, "ACTIVE");
    let told = installation.told("rebuild", &first, &server);
    installation.assert_pair(&told, &first, &devices);
    resize_and_rebuild(&installation, &server, &single);
    shelve_and_unshelve(&installation, &server);
}

/// After a resize to a flavor with one device the server is rebuilt with the new one.
fn resize_and_rebuild(installation: &Installation, server: &str, flavor: &str) {
    let resize = json!({"resize": {"flavorRef": flavor}});
    installation.act(server, resize, "VERIFY_RESIZE");
    installation.act(server, json!({"confirmResize": null}), "ACTIVE");
    installation.act(server, json!({"rebuild": {"imageRef": IMAGE}}), "ACTIVE");
    let host = installation.host_of(server);
    for operation in ["spawn", "rebuild"] {
        let told = installation.told(operation, &host, server);
        let uuid = told["_ANY"][0]["provider"].as_str().unwrap().to_owned();
        let message = format!("{operation}: {told}");
        assert_eq!(
            installation.devices_of(server),
            BTreeSet::from([uuid]),
            "{message}"
        );
        assert!(told["_FAST"].is_null(), "{message}");
    }
}

/// Shelved, a server has no devices. Unshelved, it gets one again.
fn shelve_and_unshelve(installation: &Installation, server: &str) {
    let host = installation.host_of(server);
    installation.act(server, json!({"shelve": null}), "SHELVED_OFFLOADED");
    let told = installation.told("offload", &host, server);
    assert!(told["_ANY"][0]["name"].is_string(), "{told}");
    assert!(installation.devices_of(server).is_empty());
    installation.act(server, json!({"unshelve": null}), "ACTIVE");
    let host = installation.host_of(server);
    let told = installation.told("spawn", &host, server);
    let uuid = told["_ANY"][0]["provider"].as_str().unwrap().to_owned();
    assert_eq!(installation.devices_of(server), BTreeSet::from([uuid]));
}

#[test]
fn devices_of_ports_and_device_profiles_are_claimed_and_told_to_the_driver() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = directory.path().join("profiles.json");
    let profile = json!({"device_profiles": [{"name": "fast", "uuid": "1", "links": [], "groups": [
        {"resources:CUSTOM_GPU": "1", "trait:CUSTOM_FAST": "required"},
    ]}]});
    std::fs::write(&profiles, profile.to_string()).unwrap();
    let flags = ["--compute-device-profiles-file", profiles.to_str().unwrap()];
    let installation = Installation::start(directory.path(), &flags);
    let flavor = installation.flavor("fast", json!({"accel:device_profile": "fast"}));
    let group = "5d0f1c6a-7a0b-4b0e-9a57-0f6f6d0c8a11";
    let networks = json!([{
        "port": "8d6f0a58-3b5e-4f64-a6d3-0d5f6a7b8c90",
        "resource_request": {
            "request_groups": [{"id": group, "required": [], "resources": {"CUSTOM_GPU": 1}}],
            "same_subtree": [group],
        },
    }]);
    let server = installation.server_with_networks(&flavor, networks);
    let first = installation.host_of(&server);
    let assert_told = |operation: &str, host: &str| {
        let told = installation.told(operation, host, &server);
        let providers = ["device_profile_0", group].map(|group| &told[group][0]);
        let names = providers.map(|provider| provider["name"].as_str());
        let expected = [1, 0].map(|device| format!("{host}_gpu_{device}"));
        assert_eq!(
            names,
            expected.each_ref().map(|name| Some(name.as_str())),
            "{told}"
        );
        let uuids = providers.map(|provider| provider["provider"].as_str().unwrap().to_owned());
        assert_eq!(
            installation.devices_of(&server),
            BTreeSet::from(uuids),
            "{told}"
        );
    };
    assert_told("prepare", &first);
    assert_told("spawn", &first);

    // A move claims them on the other host, too.
    installation.act(&server, json!({"migrate": null}), "VERIFY_RESIZE");
    let second = installation.host_of(&server);
    assert_ne!(second, first);
    assert_told("prepare", &second);
    assert_told("spawn", &second);
}
