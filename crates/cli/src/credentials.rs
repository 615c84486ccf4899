//! The credentials of a command for the server that it calls. Passwords come from files or variables, because
//! every user of a machine can read the arguments of its processes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use placewright_auth::Secret;
use reqwest::RequestBuilder;

use crate::cloud::CloudArgs;

/// The token with which a caller is an administrator for the strategy `noauth2`.
const NOAUTH2_ADMINISTRATOR: &str = "admin";
/// The variable with the password of `--user`.
const PASSWORD_VARIABLE: &str = "PLACEWRIGHT_PASSWORD";
/// How many bytes of a file with a password are read at most.
const PASSWORD_FILE_BYTES_MAX: u64 = 4096;

/// Arguments that name a token, or a cloud to sign in at for one.
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    /// The token to send, in place of signing in; `noauth2` takes `admin`, which is sent if neither --token nor --cloud
    /// is given
    #[arg(long, env = "OS_TOKEN", hide_env_values = true)]
    token: Option<String>,

    #[command(flatten)]
    cloud: CloudArgs,
}

impl TokenArgs {
    /// The token for requests. If a cloud is named and no token, the user of the cloud signs in to get one.
    ///
    /// # Errors
    ///
    /// The cloud does not let the user sign in.
    pub(crate) async fn token(&self) -> anyhow::Result<Secret> {
        match (&self.token, &self.cloud.cloud) {
            (Some(token), _) => Ok(Secret::new(token)),
            (None, Some(cloud)) => Ok(self.cloud.sign_in(cloud).await?.token),
            (None, None) => Ok(Secret::new(NOAUTH2_ADMINISTRATOR)),
        }
    }
}

/// Arguments that authenticate requests.
#[derive(Debug, Args)]
pub(crate) struct Credentials {
    #[command(flatten)]
    token: TokenArgs,

    /// The user, for `http_basic`. The password is that of --password-file, or of the variable
    /// PLACEWRIGHT_PASSWORD
    #[arg(long, env = "PLACEWRIGHT_USER", value_name = "NAME")]
    user: Option<String>,

    /// The file whose first line is the user's password; `-` is standard input
    #[arg(
        long,
        env = "PLACEWRIGHT_PASSWORD_FILE",
        value_name = "FILE",
        requires = "user"
    )]
    password_file: Option<PathBuf>,

    /// One more header; may be given several times. Everybody on this machine can read it
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
}

impl Credentials {
    /// Adds the credentials to a request, after signing in if a cloud is named.
    ///
    /// # Errors
    ///
    /// There is no password for the user, a header has no colon, or the cloud does not let the user sign in.
    pub(crate) async fn add_to(
        &self,
        mut request: RequestBuilder,
    ) -> anyhow::Result<RequestBuilder> {
        request = match &self.user {
            Some(user) => request.basic_auth(user, Some(self.password()?)),
            None => request.header("x-auth-token", self.token.token().await?.expose()),
        };
        for header in &self.headers {
            let (name, value) = header
                .split_once(':')
                .context("--header: write it as \"Name: value\"")?;
            request = request.header(name.trim(), value.trim());
        }
        Ok(request)
    }

    fn password(&self) -> anyhow::Result<String> {
        match &self.password_file {
            Some(file) => read_password(file),
            None => first_line(&std::env::var(PASSWORD_VARIABLE).with_context(|| {
                format!("--user needs --password-file or the variable {PASSWORD_VARIABLE}")
            })?),
        }
    }
}

/// The password in the first line of a file; `-` is standard input.
///
/// # Errors
///
/// The file cannot be read, or its first line is empty.
pub(crate) fn read_password(file: &Path) -> anyhow::Result<String> {
    let text = read(file).with_context(|| format!("--password-file {}", file.display()))?;
    first_line(&text)
}

fn first_line(text: &str) -> anyhow::Result<String> {
    match text.lines().next() {
        None | Some("") => bail!("the password is empty"),
        Some(password) => Ok(password.to_owned()),
    }
}

fn read(file: &Path) -> io::Result<String> {
    let source: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file)?),
    };
    let mut text = String::new();
    source
        .take(PASSWORD_FILE_BYTES_MAX)
        .read_to_string(&mut text)?;
    Ok(text)
}
