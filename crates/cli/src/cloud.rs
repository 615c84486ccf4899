//! Signing in at the identity service of a cloud in a `clouds.yaml`, as clients of OpenStack do.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use placewright_auth::Secret;
use serde::Deserialize;
use serde_json::{Value, json};

/// The time-out of each request to the identity service.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The name of the only domain, for a file that names none.
const DEFAULT_DOMAIN: &str = "Default";

/// Arguments that name a cloud.
#[derive(Debug, Clone, Args)]
pub(crate) struct CloudArgs {
    /// The cloud of the file to sign in at
    #[arg(long, global = true, env = "OS_CLOUD", value_name = "NAME")]
    pub(crate) cloud: Option<String>,

    /// The file of clouds; `placewright up` writes one
    #[arg(
        long,
        global = true,
        env = "OS_CLIENT_CONFIG_FILE",
        value_name = "FILE",
        default_value = "state/clouds.yaml"
    )]
    clouds_file: PathBuf,
}

#[derive(Debug, Deserialize)]
struct CloudsFile {
    clouds: BTreeMap<String, Cloud>,
}

/// The settings of a cloud that this program reads. It ignores all others, which are for other clients.
#[derive(Debug, Deserialize)]
struct Cloud {
    auth: Auth,
}

#[derive(Debug, Deserialize)]
struct Auth {
    auth_url: Option<String>,
    username: Option<String>,
    password: Option<Secret>,
    project_name: Option<String>,
    user_domain_name: Option<String>,
    project_domain_name: Option<String>,
}

/// A user who has signed in.
pub(crate) struct SignedIn {
    /// The address of the identity service, with its version.
    pub(crate) auth_url: String,
    pub(crate) token: Secret,
    http: reqwest::Client,
}

impl CloudArgs {
    /// Signs in. `default` is the cloud if none is named.
    ///
    /// # Errors
    ///
    /// The file or the cloud is missing, or the identity service refuses.
    pub(crate) async fn sign_in(&self, default: &str) -> anyhow::Result<SignedIn> {
        let file = self.clouds_file.display();
        let text = std::fs::read_to_string(&self.clouds_file)
            .with_context(|| format!("--clouds-file: {file}"))?;
        let mut parsed: CloudsFile =
            serde_yaml_ng::from_str(&text).with_context(|| format!("--clouds-file: {file}"))?;
        let name = self.cloud.as_deref().unwrap_or(default);
        let cloud = parsed.clouds.remove(name);
        let cloud =
            cloud.with_context(|| format!("--cloud: there is no cloud {name} in {file}"))?;
        cloud.sign_in(name).await
    }
}

impl Cloud {
    async fn sign_in(self, name: &str) -> anyhow::Result<SignedIn> {
        let Auth {
            auth_url: Some(auth_url),
            username: Some(username),
            password: Some(password),
            project_name: Some(project),
            user_domain_name,
            project_domain_name,
        } = self.auth
        else {
            bail!("the cloud {name} lacks auth_url, username, password or project_name");
        };
        let domain = |name: Option<String>| name.unwrap_or_else(|| DEFAULT_DOMAIN.to_owned());
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": username,
                "domain": {"name": domain(user_domain_name)},
                "password": password.expose(),
            }}},
            "scope": {"project": {
                "name": project,
                "domain": {"name": domain(project_domain_name)},
            }},
        }});
        let auth_url = with_version(&auth_url);
        let http = client()?;
        let url = format!("{auth_url}/auth/tokens");
        let answer = http.post(&url).json(&body).send().await;
        let answer = answer.with_context(|| format!("no answer from {url}"))?;
        let status = answer.status();
        let token = answer.headers().get("x-subject-token").cloned();
        let body: Value = answer.json().await.unwrap_or_default();
        let token = token.filter(|_| status.is_success());
        let Some(token) = token else {
            bail!(
                "{username} cannot sign in at {auth_url}: {status}{}",
                reason(&body)
            );
        };
        Ok(SignedIn {
            token: Secret::new(token.to_str()?),
            auth_url,
            http,
        })
    }
}

impl SignedIn {
    /// Sends a request to the identity service, and returns the JSON of the answer.
    ///
    /// # Errors
    ///
    /// There is no answer, or the service refuses the request. Then the error has the service's reason.
    pub(crate) async fn call(
        &self,
        method: reqwest::Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.auth_url);
        let mut request = self.http.request(method, &url);
        request = request.header("x-auth-token", self.token.expose());
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await;
        let answer = answer.with_context(|| format!("no answer from {url}"))?;
        let status = answer.status();
        let text = answer.text().await?;
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        if !status.is_success() {
            bail!("the server answered {status}{}", reason(&json));
        }
        Ok(json)
    }
}

/// The address with the version of the API, which a file may leave out.
fn with_version(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match url.ends_with("/v3") {
        true => url.to_owned(),
        false => format!("{url}/v3"),
    }
}

/// The reason of a refusal, as the end of an error's text: after a colon, or empty if the body names no reason.
fn reason(body: &Value) -> String {
    let message = body.pointer("/error/message").and_then(Value::as_str);
    message.map_or_else(String::new, |message| format!(": {message}"))
}

fn client() -> anyhow::Result<reqwest::Client> {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // The installation fails only if another provider was installed meanwhile, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    let client = reqwest::Client::builder()
        .timeout(TIMEOUT)
        // A server to which a redirect leads must not see the credentials.
        .redirect(reqwest::redirect::Policy::none())
        .build()?;
    Ok(client)
}
