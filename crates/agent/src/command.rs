//! A driver that runs the operator's executables.
//!
//! They are in one directory and have the names of the operations: `inspect`, `list`, `spawn` and `destroy`, which are
//! required, and `prepare`, `leave`, `return`, `offload` and `rebuild`, which are optional. Each reads one JSON object
//! from standard input; the most important values of the object are in the executable's environment, too. `inspect` and
//! `list` write one JSON object to standard output.
//!
//! | exit code | meaning |
//! | --- | --- |
//! | 0 | done |
//! | 65 | it failed, and would fail on every host, for example because the image is invalid |
//! | any other | it failed, and may succeed on another host |
//!
//! The owner of the instance sees the end of standard error as the reason of the failure. An executable that exceeds
//! its time-out is killed with all processes of its process group. A guest that has left the group (`setsid`, or QEMU's
//! `-daemonize`) is not killed with it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use placewright_conductor::cell_conductor::Order;
use placewright_conductor::{HostId, InstanceId};
use placewright_records::server;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;
use uuid::Uuid;

use crate::description::HostDescription;
use crate::driver::{Driver, DriverError, DriverFuture, DriverRequest, ListedGuest, Operation};

mod order_input;
mod process;
mod redact;

use order_input::OrderInput;
use process::{ProcessResult, ProcessSpec};

/// The exit code of an executable for a failure that would occur on every host.
const EXIT_NOT_RETRIABLE: i32 = 65;

/// Options of the driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory of the executables.
    pub directory: PathBuf,
    /// The directory where executables may keep state; they find its path in
    /// `PLACEWRIGHT_STATE_DIR`.
    pub state_directory: PathBuf,
    /// Time-out of `inspect` and `list`.
    pub query_timeout: Duration,
    /// Time-out of operations without an entry in [`Self::timeouts`].
    pub timeout: Duration,
    /// Time-outs of single operations.
    pub timeouts: BTreeMap<Operation, Duration>,
    /// Names of environment variables that executables receive besides [`PASSED_VARIABLES`] and
    /// those that the driver sets.
    pub further_variables: Vec<String>,
    /// Where executables find images: a folder, or the beginning of a URL. A slash and the UUID of the image are
    /// appended.
    pub images: Option<String>,
}

/// The variables of the agent's environment that executables receive: only those that every program
/// needs, so that the agent's passwords and tokens are withheld.
pub const PASSED_VARIABLES: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "STATE_DIRECTORY",
    "RUNTIME_DIRECTORY",
    "CACHE_DIRECTORY",
    "LOGS_DIRECTORY",
    "CONFIGURATION_DIRECTORY",
];

impl Options {
    /// The default options, for a directory of executables and a directory of state.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, state_directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            state_directory: state_directory.into(),
            query_timeout: Duration::from_secs(60),
            timeout: Duration::from_secs(600),
            timeouts: BTreeMap::new(),
            further_variables: Vec::new(),
            images: None,
        }
    }
}

/// Why a directory of executables cannot be used.
#[derive(Debug, Error)]
pub enum BadCommands {
    /// An executable that is required is missing.
    #[error("{} is missing, or may not be executed", .0.display())]
    Missing(PathBuf),
    /// The directory of state cannot be created.
    #[error("{}: {source}", directory.display())]
    NoState {
        /// The path of the directory.
        directory: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
}

/// The driver that runs executables.
#[derive(Debug)]
pub struct CommandDriver {
    options: Options,
    known: Mutex<KnownHosts>,
}

/// The hosts and providers that the latest run of `inspect` described.
#[derive(Debug, Default)]
struct KnownHosts {
    /// The hosts by name.
    hosts: BTreeMap<String, HostId>,
    /// The names of the hosts' providers.
    provider_names: Arc<BTreeMap<Uuid, String>>,
}

/// The JSON object that `inspect` writes to standard output.
#[derive(Deserialize)]
struct InspectOutput {
    hosts: Vec<HostDescription>,
}

/// The JSON object that `list` writes to standard output.
#[derive(Deserialize)]
struct ListOutput {
    guests: Vec<GuestOutput>,
}

#[derive(Deserialize)]
struct GuestOutput {
    host: String,
    instance: InstanceId,
    number: u32,
}

/// The JSON object that an executable reads from standard input.
#[derive(Serialize)]
struct ExecutableInput<'a> {
    /// Executables read it under the name `verb`.
    #[serde(rename = "verb")]
    operation: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<HostInput<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guest: Option<GuestInput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<OrderInput<'a>>,
}

#[derive(Serialize)]
struct HostInput<'a> {
    name: &'a str,
    uuid: HostId,
}

#[derive(Serialize)]
struct GuestInput {
    instance: InstanceId,
    number: u32,
}

/// The part of a specification that names the image.
#[derive(Deserialize)]
struct SpecWithImage {
    server: ServerWithImage,
}

#[derive(Deserialize)]
struct ServerWithImage {
    image: Option<String>,
}

impl CommandDriver {
    /// Creates a driver, and checks that the required executables are there.
    ///
    /// # Errors
    ///
    /// [`BadCommands`].
    pub fn new(options: Options) -> Result<Self, BadCommands> {
        for name in ["inspect", "list", "spawn", "destroy"] {
            let path = options.directory.join(name);
            if !is_executable(&path) {
                return Err(BadCommands::Missing(path));
            }
        }
        crate::private_files::create_directory(&options.state_directory).map_err(|source| {
            BadCommands::NoState {
                directory: options.state_directory.clone(),
                source,
            }
        })?;
        Ok(Self {
            options,
            known: Mutex::default(),
        })
    }

    async fn run(
        &self,
        name: &'static str,
        input: &ExecutableInput<'_>,
        timeout: Duration,
    ) -> Result<ProcessResult, DriverError> {
        let input = serde_json::to_vec(input).map_err(|error| {
            DriverError::retriable(format!("the input of {name} cannot be encoded: {error}"))
        })?;
        let mut environment = vec![
            ("PLACEWRIGHT_VERB", name.to_owned()),
            (
                "PLACEWRIGHT_STATE_DIR",
                self.options.state_directory.display().to_string(),
            ),
        ];
        environment.extend(self.environment(&input));
        let process = ProcessSpec {
            inherited: self.inherited(),
            program: self.options.directory.join(name),
            environment,
            input,
            timeout,
        };
        process::run(process).await
    }

    /// The variables of the agent's environment that executables receive, with their values.
    fn inherited(&self) -> Vec<(OsString, OsString)> {
        let is_passed = |name: &OsStr| {
            let Some(name) = name.to_str() else {
                return false;
            };
            PASSED_VARIABLES.contains(&name)
                || name.starts_with("LC_")
                || self
                    .options
                    .further_variables
                    .iter()
                    .any(|passed| passed == name)
        };
        std::env::vars_os()
            .filter(|(name, _)| is_passed(name))
            .collect()
    }

    /// The most important values of the input as environment variables, for executables that do not
    /// parse JSON.
    fn environment(&self, input: &[u8]) -> Vec<(&'static str, String)> {
        let input: Value = serde_json::from_slice(input).unwrap_or_default();
        let paths_by_name = [
            ("PLACEWRIGHT_HOST", "/host/name"),
            ("PLACEWRIGHT_HOST_UUID", "/host/uuid"),
            ("PLACEWRIGHT_INSTANCE", "/guest/instance"),
            ("PLACEWRIGHT_GUEST", "/guest/number"),
            ("PLACEWRIGHT_IMAGE", "/order/image"),
        ];
        let found = paths_by_name.into_iter().filter_map(|(name, path)| {
            let text = match input.pointer(path)? {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Some((name, text))
        });
        found.collect()
    }

    /// The path or URL of the image of a specification. `None` if no place of images is configured, or the
    /// specification does not name its image by a UUID.
    fn image_location(&self, spec: Option<&RawValue>) -> Option<String> {
        let images = self.options.images.as_deref()?;
        let spec: SpecWithImage = serde_json::from_str(spec?.get()).ok()?;
        // Only a UUID is accepted, because another text, such as `../x`, could lead out of the folder.
        let image = Uuid::try_parse(&spec.server.image?).ok()?;
        Some(format!("{}/{image}", images.trim_end_matches('/')))
    }

    /// Runs `inspect` or `list`, and decodes its output.
    async fn query<T: for<'de> Deserialize<'de>>(
        &self,
        name: &'static str,
    ) -> Result<T, DriverError> {
        let input = ExecutableInput {
            operation: name,
            host: None,
            guest: None,
            order: None,
        };
        let result = self.run(name, &input, self.options.query_timeout).await?;
        if result.code != Some(0) {
            return Err(failure(name, &result));
        }
        serde_json::from_slice(&result.stdout).map_err(|error| {
            DriverError::retriable(format!("{name} wrote what cannot be read: {error}"))
        })
    }

    fn lock_known(&self) -> std::sync::MutexGuard<'_, KnownHosts> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for CommandDriver {
    fn inspect(&self) -> DriverFuture<'_, Vec<HostDescription>> {
        Box::pin(async {
            let InspectOutput { hosts } = self.query("inspect").await?;
            let by_name = hosts.iter().map(|host| (host.name.clone(), host.id()));
            let providers = hosts.iter().flat_map(HostDescription::providers);
            let names = providers.map(|provider| (provider.uuid, provider.name.to_owned()));
            *self.lock_known() = KnownHosts {
                hosts: by_name.collect(),
                provider_names: Arc::new(names.collect()),
            };
            Ok(hosts)
        })
    }

    fn list(&self) -> DriverFuture<'_, Option<Vec<ListedGuest>>> {
        Box::pin(async {
            let ListOutput { guests } = self.query("list").await?;
            let known = self.lock_known();
            let mut listed = Vec::new();
            for guest in guests {
                let Some(host) = known.hosts.get(&guest.host) else {
                    let unknown = format!("list speaks of a host {} that is none", guest.host);
                    return Err(DriverError::retriable(unknown));
                };
                listed.push(ListedGuest {
                    host: *host,
                    instance: guest.instance,
                    number: guest.number,
                });
            }
            Ok(Some(listed))
        })
    }

    fn carry_out(&self, request: DriverRequest) -> DriverFuture<'_, ()> {
        Box::pin(async move {
            let name = request.operation.name();
            if !is_executable(&self.options.directory.join(name)) {
                return match request.operation {
                    // A missing `prepare` means that there is nothing to prepare.
                    Operation::Prepare => Ok(()),
                    _ => Err(DriverError::retriable(format!(
                        "The host's driver cannot {name} instances."
                    ))),
                };
            }
            let order = request.order.as_deref();
            let spec: Option<Box<RawValue>> =
                order.and_then(|order| spec_for(request.operation, order));
            let names = Arc::clone(&self.lock_known().provider_names);
            let order = order.map(|order| {
                let image = self.image_location(spec.as_deref());
                OrderInput::new(order, &names, image, spec.as_deref())
            });
            let input = ExecutableInput {
                operation: name,
                host: Some(HostInput {
                    name: &request.host_name,
                    uuid: request.host,
                }),
                guest: Some(GuestInput {
                    instance: request.instance,
                    number: request.number,
                }),
                order,
            };
            let timeout = self.options.timeouts.get(&request.operation);
            let timeout = timeout.copied().unwrap_or(self.options.timeout);
            let result = self.run(name, &input, timeout).await;
            let error = match result {
                Ok(result) if result.code == Some(0) => return Ok(()),
                Ok(result) => failure(name, &result),
                Err(error) => error,
            };
            Err(DriverError {
                message: redact::redact_lines(error.message, spec.as_deref()),
                ..error
            })
        })
    }
}

/// The body of the specification for an executable; `None` if it is not valid JSON. Only the operations that build a
/// guest get its secrets.
fn spec_for(operation: Operation, order: &Order) -> Option<Box<RawValue>> {
    let body = server::json(&order.spec.body);
    let needs_secrets = matches!(operation, Operation::Spawn | Operation::Rebuild);
    let stripped = (!needs_secrets).then(|| placewright_secrets::without_secrets(&body));
    match stripped.flatten() {
        // Secrets were removed.
        Some(stripped) => serde_json::from_str(&stripped).ok(),
        // The body has no secrets, or the operation needs them.
        None => serde_json::from_str(&body).ok(),
    }
}

/// The error of an executable that failed.
fn failure(name: &str, result: &ProcessResult) -> DriverError {
    let why = match result.stderr_tail.trim() {
        "" => "it gave no reason",
        stderr_tail => stderr_tail,
    };
    let how = match result.code {
        Some(code) => format!("exit code {code}"),
        None => "killed".to_owned(),
    };
    DriverError {
        message: format!("{name} failed ({how}): {why}"),
        may_retry: result.code != Some(EXIT_NOT_RETRIABLE),
    }
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path)
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
