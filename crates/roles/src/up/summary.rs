//! The output of `placewright up` when it is ready: addresses, and commands to try.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use placewright_conductor::CellId;
use placewright_journal::private;

/// The URLs and other facts that are printed.
pub(super) struct StartupSummary {
    pub(super) placement: String,
    pub(super) scheduler: Option<String>,
    pub(super) compute: Option<String>,
    pub(super) image: Option<String>,
    pub(super) network: Option<String>,
    /// The listener of the page for operators and tenants, `/ui/`.
    pub(super) ui: Option<String>,
    /// The identity API, if users sign in there.
    pub(super) identity: Option<String>,
    pub(super) health: Option<String>,
    pub(super) cells: Vec<(CellId, SocketAddr)>,
    /// The path of the `clouds.yaml`. With an identity API the file exists already.
    pub(super) clouds_file: PathBuf,
    /// The number of simulated hosts.
    pub(super) hosts: usize,
}

/// The path of the `clouds.yaml` of an installation with noauth2. A file with passwords stays as it is, because the
/// store of the installation that wrote it has only hashes of them.
pub(super) fn open_clouds_file(folder: &Path) -> PathBuf {
    let file = folder.join("clouds.yaml");
    let has_passwords = std::fs::read_to_string(&file).is_ok_and(|text| text.contains("password:"));
    match has_passwords {
        true => folder.join("clouds-noauth2.yaml"),
        false => file,
    }
}

impl StartupSummary {
    /// Prints the summary, and writes the `clouds.yaml` that it mentions if there is no identity API.
    ///
    /// # Errors
    ///
    /// The file or standard output cannot be written.
    pub(super) fn print(&self) -> anyhow::Result<()> {
        // `up` always has the compute API.
        let Some(compute) = &self.compute else {
            return Ok(());
        };
        if self.identity.is_none() {
            let file = self.open_clouds_yaml(compute);
            private::create_file(&self.clouds_file)?.write_all(file.as_bytes())?;
        }
        let mut text = format!(
            "\nPlacewright is up: {} cells, {} simulated hosts. Ctrl-C stops it; the next start \
             continues with the same state.\n\n",
            self.cells.len(),
            self.hosts,
        );
        if let Some(identity) = &self.identity {
            text.push_str(&format!("  identity   {identity}/v3\n"));
        }
        text.push_str(&format!(
            "  compute    {compute}/v2.1\n  placement  {}\n",
            self.placement
        ));
        if let Some(scheduler) = &self.scheduler {
            text.push_str(&format!("  scheduler  {scheduler}\n"));
        }
        for (name, url) in [("image", &self.image), ("network", &self.network)] {
            if let Some(url) = url {
                text.push_str(&format!("  {name:<9}  {url}\n"));
            }
        }
        if let Some(health) = &self.health {
            text.push_str(&format!("  health     {health} (and /metrics)\n"));
        }
        for (number, (cell, address)) in self.cells.iter().enumerate() {
            text.push_str(&format!(
                "  cell {}     {address} (gRPC, for agents), {cell}\n",
                number + 1
            ));
        }
        if let Some(ui) = &self.ui {
            text.push_str(&format!(
                "  page       {ui}/ui/ (sign in as in clouds.yaml)\n"
            ));
        }
        text.push_str(&match self.identity {
            Some(_) => self.things_to_try(),
            None => self.open_things_to_try(compute),
        });
        crate::output::print(&text)
    }

    /// The content of `clouds.yaml` for an installation with noauth2, which needs no passwords.
    fn open_clouds_yaml(&self, compute: &str) -> String {
        format!(
            r#"# How the openstack client and openstacksdk reach this installation.
clouds:
  placewright:
    auth_type: admin_token
    auth:
      endpoint: {compute}/v2.1
      token: admin
    compute_endpoint_override: {compute}/v2.1
    placement_endpoint_override: {}
{}"#,
            self.placement,
            self.further_endpoints()
        )
    }

    /// The lines of `clouds.yaml` for the services that may be off.
    fn further_endpoints(&self) -> String {
        let services = [("image", &self.image), ("network", &self.network)];
        let lines = services.iter().filter_map(|(name, url)| {
            let url = url.as_ref()?;
            Some(format!("    {name}_endpoint_override: {url}\n"))
        });
        lines.collect()
    }

    fn things_to_try(&self) -> String {
        let clouds_file = self.clouds_file.display();
        format!(
            r#"
Three things to try, in another terminal:

  # 1. a flavor, and three servers of it (pip install python-openstackclient)
  export OS_CLIENT_CONFIG_FILE={clouds_file} OS_CLOUD=placewright
  openstack flavor create --id small --vcpus 1 --ram 512 --disk 1 small
  openstack server create --flavor small --image demo --min 3 --max 3 --no-network web
  openstack server list --long

  # 2. the same as a user who is no administrator
  OS_CLOUD=demo openstack server list

  # 3. a trace of a production cluster, played against it, by a program that ./run does not build
  cargo build --release --locked -p placewright-cli
  target/release/placewright replay --help

"#
        )
    }

    fn open_things_to_try(&self, compute: &str) -> String {
        let clouds_file = self.clouds_file.display();
        format!(
            r#"
Three things to try, in another terminal:

  # 1. a flavor, and three servers of it
  H="-H X-Auth-Token:admin -H Content-Type:application/json"
  curl -s $H {compute}/v2.1/flavors \
    -d '{{"flavor": {{"id": "small", "name": "small", "vcpus": 1, "ram": 512, "disk": 1}}}}'
  curl -s $H {compute}/v2.1/servers -d '{{"server": {{"name": "web", "flavorRef": "small",
    "imageRef": "70ace000-0000-4000-8000-000000000001", "min_count": 3, "max_count": 3}}}}'
  curl -s $H {compute}/v2.1/servers/detail

  # 2. the same with the openstack client (pip install python-openstackclient)
  export OS_CLIENT_CONFIG_FILE={clouds_file} OS_CLOUD=placewright
  openstack server list --long

  # 3. a trace of a production cluster, played against it, by a program that ./run does not build
  cargo build --release --locked -p placewright-cli
  target/release/placewright replay --help

"#
        )
    }
}
